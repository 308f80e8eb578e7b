//! A router's answers to `plexus show`.

use std::net::IpAddr;

use plexus_api::answer::node::Counts;
use plexus_api::answer::router::{self as api, Class, Fib, Kind, Neighbours, Routes, Weighed};
use plexus_api::word;
use plexus_config::{InterfacePlace, ReversePath};
use plexus_control::router::show::{PrefixView, RouteSource, RouteView, Standing};
use plexus_control::router::{HopState, InterfaceId, NextHop, Route};
use plexus_node::router::Router;
use plexus_plane::GROUP_VLAN;
use plexus_wire::address::{is_link_local, is_martian};
use plexus_wire::{Prefix, Time};

use crate::kernel::kernel_metric;

/// Prefixes that cover an address, at most: an IPv6 address has one of each length.
const COVERS_MAX: usize = 129;

/// Routes in one answer: some ten milliseconds' work.
const ROUTES_MAX: usize = 8192;

/// Answers are made from this: the box's own router, or its part of the group's.
pub(crate) struct RouterView<'a> {
    pub(crate) router: &'a Router,
    pub(crate) now: Time,
    /// Frames dropped because too many waited already.
    pub(crate) missed: u64,
}

impl RouterView<'_> {
    /// Interfaces, and how much is in the tables.
    pub(crate) fn fib(&self) -> Fib {
        let router = self.router;
        let up: Vec<_> = router.control().interfaces().collect();
        // The group's interface is in no file.
        let of_group = up.iter().filter(|_| router.interfaces().is_empty());
        let of_group = of_group.map(|(_, facts)| api::Interface {
            name: facts.name.clone(),
            up: true,
            vlan: GROUP_VLAN,
            routed_port: false,
            mac: Some(facts.mac),
            mtu: Some(facts.mtu),
            addresses: facts.addresses.iter().map(|(a, len)| format!("{a}/{len}")).collect(),
            reverse_path: ReversePath::Strict.name().into(),
        });
        let interfaces = router.interfaces().iter().enumerate().map(|(index, interface)| {
            let facts = up.iter().find(|(id, _)| usize::from(id.0) == index).map(|(_, f)| f);
            let addresses = facts.into_iter().flat_map(|f| &f.addresses);
            api::Interface {
                name: interface.settings.name.clone(),
                up: facts.is_some(),
                vlan: interface.vlan,
                routed_port: matches!(interface.settings.place, InterfacePlace::Port(_)),
                mac: facts.map(|f| f.mac),
                mtu: facts.map(|f| f.mtu),
                addresses: addresses.map(|(a, len)| format!("{a}/{len}")).collect(),
                reverse_path: interface.settings.reverse_path.name().into(),
            }
        });
        let sizes = router.control().sizes();
        let (entries, memory) = (router.entries(), router.memory());
        let [ipv4, ipv6] = [0, 1].map(|family| api::Table {
            entries: entries[family],
            lookup_bytes: memory[family].lookup,
            writer_bytes: memory[family].writer,
        });
        Fib {
            interfaces: interfaces.chain(of_group).collect(),
            routes: sizes.routes,
            groups: sizes.groups,
            neighbours: sizes.neighbours,
            ipv4,
            ipv6,
            refused: router.refused(),
        }
    }

    /// Those behind the interfaces.
    pub(crate) fn neighbours(&self) -> Neighbours {
        let all = self.router.control().neighbours(self.now).map(|n| api::Neighbour {
            address: n.address,
            interface: self.interface_name(n.interface).into(),
            mac: n.mac,
            state: word(&n.state),
            age_s: n.age.as_secs_f64(),
            gateway: n.is_gateway,
            waiting: n.waiting,
        });
        Neighbours { neighbours: all.collect() }
    }

    /// The action on packets to an address, and every route that was weighed.
    pub(crate) fn route(&self, address: IpAddr) -> api::Route {
        let router = self.router;
        let control = router.control();
        let is_ours =
            control.interfaces().any(|(_, f)| f.addresses.iter().any(|(a, _)| *a == address));
        // The packet path decides before it looks anything up.
        let class = match address {
            // IPv4's link-local addresses reach the box, and nothing beyond.
            address if is_martian(address) && !is_ours => Class::Martian,
            address if is_link_local(address) => Class::LinkLocal,
            _ => Class::Routed,
        };
        if class != Class::Routed {
            let (prefix, group, routes) = (None, None, Vec::new());
            return api::Route { address, class, prefix, group, agrees: true, routes };
        }
        let covers = control.explain(address);
        let routes = covers.iter().take(COVERS_MAX);
        let routes = routes.flat_map(|view| view.routes.iter().map(move |route| (view, route)));
        let decided = control.lookup(address);
        // What the packet path finds is looked up in its own table, not told from the routes.
        let group = router.lookup(address);
        api::Route {
            address,
            class,
            prefix: decided.map(|(prefix, _)| prefix.to_string()),
            group,
            agrees: group == decided.map(|(_, group)| group.0),
            routes: routes.map(|(view, route)| self.weighed(view, route)).collect(),
        }
    }

    /// The routes in use, in order from a prefix on.
    pub(crate) fn routes_from(&self, first: Prefix) -> Routes {
        let router = self.router;
        let control = router.control();
        let mut prefixes = control.prefixes_from(&first, ROUTES_MAX + 1);
        let next = if prefixes.len() > ROUTES_MAX { prefixes.pop() } else { None };
        let (mut routes, mut disagree) = (Vec::new(), Vec::new());
        for prefix in &prefixes {
            let Some(view) = control.routes(prefix) else { continue };
            let Some(route) = view.routes.iter().find(|r| r.standing == Standing::InUse) else {
                continue;
            };
            routes.push(format!("{prefix} {}", self.way(route)));
            let agrees = |address| {
                router.lookup(address) == control.lookup(address).map(|(_, group)| group.0)
            };
            if !agrees(prefix.addr()) || !agrees(prefix.last()) {
                disagree.push(prefix.to_string());
            }
        }
        Routes { routes, disagree, next: next.map(|p| p.to_string()) }
    }

    fn interface_name(&self, id: InterfaceId) -> &str {
        interface_name(self.router, id)
    }

    /// Frames and messages that were not served, by reason.
    pub(crate) fn unserved(&self) -> Counts {
        let refused = self.router.control().refusals();
        let refused = refused.map(|(refusal, count)| (word(&refusal), count));
        let missed = ("control_busy".to_string(), self.missed);
        let full = ("table_full".to_string(), self.router.refused());
        refused.chain([missed, full]).filter(|(_, count)| *count > 0).collect()
    }

    /// Where a route leads, in words.
    fn way(&self, route: &RouteView) -> String {
        if !matches!(route.route, Route::Via(_)) {
            return word(&kind(&route.route));
        }
        let usable = route.hops.iter().filter(|(_, state)| *state == HopState::Usable);
        let words = usable.map(|(hop, _)| match hop.gateway {
            _ if route.source == RouteSource::Neighbour => {
                format!("neighbour {}", self.interface_name(hop.interface))
            }
            Some(gateway) => gateway.to_string(),
            None => format!("dev {}", self.interface_name(hop.interface)),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn weighed(&self, view: &PrefixView, route: &RouteView) -> Weighed {
        let next_hops = route.hops.iter().map(|(hop, state)| self.next_hop(hop, *state));
        let why = match route.standing {
            Standing::InUse => "in use",
            Standing::Inactive => "none of its next hops can be used",
            Standing::Worse => "there is a better route to the same prefix",
        };
        Weighed {
            prefix: view.prefix.to_string(),
            source: word(&route.source),
            metric: match route.source {
                RouteSource::Kernel => kernel_metric(route.metric),
                _ => route.metric,
            },
            kind: kind(&route.route),
            next_hops: next_hops.collect(),
            group: route.group.0,
            standing: word(&route.standing),
            why: why.into(),
        }
    }

    fn next_hop(&self, hop: &NextHop, state: HopState) -> api::NextHop {
        let neighbour = hop.gateway.and_then(|gateway| {
            let mut all = self.router.control().neighbours(self.now);
            all.find(|n| n.interface == hop.interface && n.address == gateway)
        });
        api::NextHop {
            interface: self.interface_name(hop.interface).into(),
            gateway: hop.gateway,
            weight: hop.weight,
            state: word(&state),
            mac: neighbour.as_ref().and_then(|n| n.mac),
            neighbour: neighbour.map(|n| word(&n.state)),
        }
    }
}

/// The name of an interface.
pub(super) fn interface_name(router: &Router, id: InterfaceId) -> &str {
    match router.interfaces().get(usize::from(id.0)) {
        Some(interface) => &interface.settings.name,
        None => {
            let mut up = router.control().interfaces();
            up.find(|(up, _)| *up == id).map_or("?", |(_, facts)| &facts.name)
        }
    }
}

fn kind(route: &Route) -> Kind {
    match route {
        Route::Via(_) => Kind::Via,
        Route::Local => Kind::Local,
        Route::Broadcast => Kind::Broadcast,
        Route::Blackhole => Kind::Blackhole,
        Route::Unreachable => Kind::Unreachable,
        Route::Prohibited => Kind::Prohibited,
    }
}
