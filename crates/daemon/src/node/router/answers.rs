//! What a router says of itself, as JSON.

use std::net::IpAddr;
use std::time::Duration;

use plexus_config::InterfacePlace;
use plexus_control::router::show::{PrefixView, RouteSource, RouteView, Standing};
use plexus_control::router::{HopState, NextHop, Route};
use plexus_wire::Prefix;
use plexus_wire::address::{is_link_local, is_martian};
use serde::Serialize;
use serde_json::{Value, json};

use super::Driver;
use super::kernel::kernel_metric;

/// Prefixes that cover an address, at most: an IPv6 address has one of each length.
const COVERS_MAX: usize = 129;

/// Routes in one answer: some ten milliseconds' work.
const ROUTES_MAX: usize = 8192;

/// A unit value's word in JSON.
pub(super) fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or("?").to_string()
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// Interfaces, and how much is in the tables.
pub(super) fn fib(driver: &Driver) -> Value {
    let router = &driver.own.router;
    let up: Vec<_> = router.control().interfaces().collect();
    let interfaces: Vec<Value> = driver
        .own
        .interfaces
        .iter()
        .enumerate()
        .map(|(index, interface)| {
            let facts = up.iter().find(|(id, _)| usize::from(id.0) == index).map(|(_, f)| f);
            let addresses = facts.map(|f| &f.addresses);
            let addresses = addresses.into_iter().flatten().map(|(a, len)| format!("{a}/{len}"));
            json!({
                "name": interface.settings.name,
                "up": facts.is_some(),
                "vlan": interface.vlan,
                "routed_port": matches!(interface.settings.place, InterfacePlace::Port(_)),
                "mac": facts.map(|f| f.mac),
                "mtu": facts.map(|f| f.mtu),
                "addresses": addresses.collect::<Vec<_>>(),
                "reverse_path": interface.settings.reverse_path.name(),
            })
        })
        .collect();
    let sizes = router.control().sizes();
    let [v4, v6] = router.entries();
    let [memory4, memory6] = router.memory();
    json!({
        "interfaces": interfaces,
        "routes": sizes.routes,
        "groups": sizes.groups,
        "neighbours": sizes.neighbours,
        "ipv4": {
            "entries": v4, "lookup_bytes": memory4.lookup, "writer_bytes": memory4.writer,
        },
        "ipv6": {
            "entries": v6, "lookup_bytes": memory6.lookup, "writer_bytes": memory6.writer,
        },
        "refused": router.refused(),
    })
}

/// Who is behind the interfaces.
pub(super) fn neighbours(driver: &Driver) -> Value {
    let all = driver.own.router.control().neighbours(driver.now());
    let all: Vec<Value> = all
        .map(|n| {
            json!({
                "address": n.address,
                "interface": driver.interface_name(n.interface),
                "mac": n.mac,
                "state": word(&n.state),
                "age_s": seconds(n.age),
                "gateway": n.is_gateway,
                "waiting": n.waiting,
            })
        })
        .collect();
    json!({"neighbours": all})
}

/// What is done with packets to an address: the answer, and every route that was weighed.
pub(super) fn route(driver: &Driver, address: IpAddr) -> Value {
    // The packet path decides before it looks anything up.
    let mut interfaces = driver.own.router.control().interfaces();
    let is_ours = interfaces.any(|(_, facts)| facts.addresses.iter().any(|(a, _)| *a == address));
    let class = match address {
        // IPv4's link-local addresses reach the box, and nobody beyond.
        address if is_martian(address) && !is_ours => "martian",
        address if is_link_local(address) => "link_local",
        _ => "routed",
    };
    if class != "routed" {
        return json!({"address": address, "class": class, "agrees": true, "routes": []});
    }
    let router = &driver.own.router;
    let covers = router.control().explain(address);
    let routes: Vec<Value> = covers
        .iter()
        .take(COVERS_MAX)
        .flat_map(|view| view.routes.iter().map(move |route| (view, route)))
        .map(|(view, route)| weighed(driver, view, route))
        .collect();
    let decided = router.control().lookup(address);
    // What the packet path finds is looked up in its own table, not told from the routes.
    let found = router.lookup(address);
    json!({
        "address": address,
        "class": class,
        "prefix": decided.map(|(prefix, _)| prefix.to_string()),
        "group": found,
        "agrees": found == decided.map(|(_, group)| group.0),
        "routes": routes,
    })
}

/// The routes in use, in order from a prefix on: lines as a file of routes has them, `dev` and
/// `neighbour` besides. `disagree`: those at whose ends the packet path's own table finds another
/// group than the routes say. `next`: where the next answer is to begin.
pub(super) fn routes_from(driver: &Driver, first: Prefix) -> Value {
    let router = &driver.own.router;
    let control = router.control();
    let mut prefixes = control.prefixes_from(&first, ROUTES_MAX + 1);
    let next = if prefixes.len() > ROUTES_MAX { prefixes.pop() } else { None };
    let (mut lines, mut disagree) = (Vec::new(), Vec::new());
    for prefix in &prefixes {
        let Some(view) = control.routes(prefix) else { continue };
        let Some(route) = view.routes.iter().find(|r| r.standing == Standing::InUse) else {
            continue;
        };
        lines.push(format!("{prefix} {}", way(driver, route)));
        let agrees =
            |address| router.lookup(address) == control.lookup(address).map(|(_, group)| group.0);
        if !agrees(prefix.addr()) || !agrees(prefix.last()) {
            disagree.push(prefix.to_string());
        }
    }
    json!({"routes": lines, "disagree": disagree, "next": next.map(|p| p.to_string())})
}

/// Where a route leads, in words.
fn way(driver: &Driver, route: &RouteView) -> String {
    if !matches!(route.route, Route::Via(_)) {
        return kind(&route.route).into();
    }
    let usable = route.hops.iter().filter(|(_, state)| *state == HopState::Usable);
    let words = usable.map(|(hop, _)| match hop.gateway {
        _ if route.source == RouteSource::Neighbour => {
            format!("neighbour {}", driver.interface_name(hop.interface))
        }
        Some(gateway) => gateway.to_string(),
        None => format!("dev {}", driver.interface_name(hop.interface)),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn weighed(driver: &Driver, view: &PrefixView, route: &RouteView) -> Value {
    let hops: Vec<Value> =
        route.hops.iter().map(|(hop, state)| next_hop(driver, hop, *state)).collect();
    let why = match route.standing {
        Standing::InUse => "in use",
        Standing::Inactive => "none of its next hops can be used",
        Standing::Worse => "there is a better route to the same prefix",
    };
    let metric = match route.source {
        RouteSource::Kernel => kernel_metric(route.metric),
        _ => route.metric,
    };
    json!({
        "prefix": view.prefix.to_string(),
        "source": word(&route.source),
        "metric": metric,
        "kind": kind(&route.route),
        "next_hops": hops,
        "group": route.group.0,
        "standing": word(&route.standing),
        "why": why,
    })
}

fn kind(route: &Route) -> &'static str {
    match route {
        Route::Via(_) => "via",
        Route::Local => "local",
        Route::Broadcast => "broadcast",
        Route::Blackhole => "blackhole",
        Route::Unreachable => "unreachable",
        Route::Prohibited => "prohibited",
    }
}

fn next_hop(driver: &Driver, hop: &NextHop, state: HopState) -> Value {
    let neighbour = hop.gateway.and_then(|gateway| {
        let mut all = driver.own.router.control().neighbours(driver.now());
        all.find(|n| n.interface == hop.interface && n.address == gateway)
    });
    json!({
        "interface": driver.interface_name(hop.interface),
        "gateway": hop.gateway,
        "weight": hop.weight,
        "state": word(&state),
        "mac": neighbour.as_ref().and_then(|n| n.mac),
        "neighbour": neighbour.map(|n| word(&n.state)),
    })
}
