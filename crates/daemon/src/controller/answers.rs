//! A controller's answers to `plexus show`.

use std::net::IpAddr;

use plexus_api::answer::fabric::{
    self as api, DrainedNode, Flow, Flows, Group, GroupNeighbour, GroupPath, GroupRoute,
    GroupRouter, Groups, Host, Hosts, KnownNode, Leases, NodeName, NodePort, PassedBox,
    RouterClass, RouterDevice, RouterFunction, RouterNode, StationPlace, Topology, TreeNode,
    Unserved,
};
use plexus_api::answer::router::Routes;
use plexus_api::question::Of;
use plexus_api::{Answer, Topic};
use plexus_controller::{Action, Lease, NeighbourView, PathView};
use plexus_wire::address::is_martian;
use plexus_wire::fabric::LINK_MTU_MIN;
use plexus_wire::fabric::message::FibTarget;
use plexus_wire::{Prefix, hex};

use plexus_controller::Controller;
use plexus_wire::Time;

use super::{Daemon, drops};

/// Routes in one answer: some ten milliseconds' work.
const ROUTES_MAX: usize = 8192;

/// The knowledge of a controller that leads.
pub(super) struct View<'a> {
    /// Its own number and name.
    pub(super) own: &'a (u64, String),
    group: &'a [u8; 16],
    is_sure: bool,
    pub(super) core: &'a Controller,
    pub(super) now: Time,
}

impl Daemon {
    /// Its knowledge, if it leads.
    ///
    /// # Errors
    /// Naming the controller to ask instead.
    pub(super) fn view(&self) -> Result<View<'_>, String> {
        let Some(core) = &self.reign.core else {
            return Err(match self.reign.tenure.leader() {
                Some(leader) => format!("this controller stands by: {} leads", leader.name),
                None => "this controller stands by, and no controller leads".to_string(),
            });
        };
        Ok(View {
            own: &self.own,
            group: &self.group,
            is_sure: self.reign.is_sure(),
            core,
            now: self.now(),
        })
    }

    /// The same, if it knows what is stored.
    pub(super) fn view_with_store(&self) -> Result<View<'_>, String> {
        match self.reign.tenure.is_provisional() {
            true => {
                Err("this controller leads provisionally: it does not know what is stored, and \
                         changes nothing"
                    .into())
            }
            false => self.view(),
        }
    }

    pub(super) fn show(&self, topic: Topic) -> Result<Answer, String> {
        match topic {
            Topic::Controllers => Ok(Answer::Controllers(self.controllers())),
            // Its list is empty because it does not know them: nobody may take it for a copy.
            Topic::Leases => self.view_with_store()?.show(topic),
            topic => self.view()?.show(topic),
        }
    }
}

impl View<'_> {
    fn show(&self, topic: Topic) -> Result<Answer, String> {
        Ok(match topic {
            Topic::Topology => Answer::Topology(self.topology()),
            Topic::Links => Answer::Links(Of::Controller(self.topology())),
            Topic::Hosts => Answer::Hosts(Of::Controller(self.hosts())),
            Topic::Flows => Answer::Flows(Of::Controller(self.flows())),
            Topic::Leases => Answer::Leases(self.leases()),
            Topic::Groups => Answer::Groups(Of::Controller(self.groups())),
            Topic::Router => Answer::Router(Of::Controller(self.router())),
            Topic::Drops => Answer::Drops(Of::Controller(Unserved { drops: drops(self.core) })),
            other => {
                return Err(format!(
                    "'{}' cannot be shown: a controller shows topology, hosts, leases, groups, \
                     flows, router, controllers, drops",
                    other.name()
                ));
            }
        })
    }

    /// A node's name, or its number where the name is not known.
    pub(super) fn name(&self, id: u64) -> NodeName {
        if id == self.own.0 {
            return NodeName::Name(self.own.1.clone());
        }
        let known = self.core.node_name(id);
        known.map_or(NodeName::Number(id), |name| NodeName::Name(name.into()))
    }

    fn topology(&self) -> Topology {
        let nodes = self.core.nodes().map(|n| KnownNode {
            name: n.name,
            number: n.node,
            up: n.up,
            ports: n
                .ports
                .iter()
                .map(|p| NodePort {
                    port: p.port,
                    role: p.role,
                    mtu: p.mtu,
                    peer: (p.peer != 0).then(|| self.name(p.peer)),
                    peer_port: p.peer_port,
                    rate_mbit_per_s: p.rate_mbit_per_s,
                })
                .collect(),
        });
        let links = self.core.links().into_iter();
        let links = links.map(|l| l.ends.map(|(node, port)| (self.name(node), port)));
        let drained = self.core.drained().into_iter();
        let drained = drained
            .map(|(node, flows_through)| DrainedNode { node: self.name(node), flows_through });
        Topology {
            epoch: self.core.epoch(),
            nodes: nodes.collect(),
            links: links.collect(),
            mtu_min: LINK_MTU_MIN,
            drained: drained.collect(),
        }
    }

    fn leases(&self) -> Leases {
        let lease = |lease: Lease| api::Lease {
            address: lease.ip,
            mac: lease.mac,
            until_unix_s: lease.until_unix_s,
        };
        Leases {
            controller: self.own.1.clone(),
            epoch: self.core.epoch(),
            in_doubt: !self.is_sure,
            group: hex(self.group),
            leases: self.core.leases().into_iter().map(lease).collect(),
        }
    }

    fn hosts(&self) -> Hosts {
        let hosts = self.core.hosts().map(|h| Host {
            mac: h.mac,
            node: self.name(h.node),
            port: h.port,
            addresses: h.ips,
            groups: h.groups,
        });
        Hosts { hosts: hosts.collect() }
    }

    fn flows(&self) -> Flows {
        let flows = self.core.flows().map(|f| Flow {
            node: self.name(f.node),
            port: f.port,
            from: f.source,
            to: f.destination,
            paths: f.routes,
            version: f.version,
        });
        Flows { flows: flows.collect() }
    }

    pub(super) fn router(&self) -> GroupRouter {
        let (version, routes) = self.core.routes_version();
        let now = self.now;
        let nodes = self.core.nodes().map(|node| {
            let has = self.core.routes_version_of(node.node);
            let lag = has.map(|has| version.saturating_sub(has));
            let forwards = self.core.forwards(node.node);
            let share = self.core.share(now, node.node);
            RouterNode {
                up: node.up,
                version: has,
                lag,
                forwards,
                routes: self.core.routes_of(node.node),
                routed_per_s: share.map(|share| share.per_s),
                busy_permille: share.map(|share| share.busy),
                places_unused: self.core.unused_places(node.node),
                name: node.name,
            }
        });
        let devices = self.core.daemon_devices().map(|(name, at)| {
            let at = at.map(|(node, port)| (self.name(node), port));
            RouterDevice { name: name.to_string(), at }
        });
        let classes = self.core.classes().map(|class| {
            let functions = class.functions.into_iter().map(|(address, at)| {
                let at = at.map(|(node, port)| (self.name(node), port));
                RouterFunction { address, at }
            });
            RouterClass { name: class.name.to_string(), functions: functions.collect() }
        });
        let (refused, full) = self.core.routes_refused();
        GroupRouter {
            version,
            routes,
            routes_max: self.core.limits().routes as usize,
            full,
            refused,
            devices: devices.collect(),
            classes: classes.collect(),
            nodes: nodes.collect(),
        }
    }

    /// What the group does with packets to an address, and which boxes they pass.
    ///
    /// # Errors
    /// When the group does not route.
    pub(super) fn route(&self, address: IpAddr) -> Result<GroupRoute, String> {
        if !self.core.is_router() {
            return Err("this group does not route: none of its subnets has a gateway".into());
        }
        let way = self.core.way(address);
        let (version, _) = self.core.routes_version();
        let is_behind = |node: u64| self.core.routes_version_of(node) != Some(version);
        let behind = self.core.nodes().filter(|n| n.up && is_behind(n.node));
        let (mut action, mut prefix) = (action(way.action), way.prefix);
        if is_martian(address) && way.action != Action::Own {
            (action, prefix) = (api::Action::Martian, None);
        }
        Ok(GroupRoute {
            address,
            prefix: prefix.map(|prefix| prefix.to_string()),
            action,
            neighbours: way.neighbours.into_iter().map(|n| self.neighbour(n)).collect(),
            behind: behind.map(|n| NodeName::Name(n.name)).collect(),
        })
    }

    fn neighbour(&self, neighbour: NeighbourView) -> GroupNeighbour {
        let NeighbourView { address, weight, mtu, station, paths, more } = neighbour;
        let passed = |(node, in_port, out_port)| {
            let node = self.name(node);
            PassedBox { node, in_port, out_port }
        };
        let path = |PathView { from, boxes }| {
            let boxes = boxes.into_iter().map(passed).collect();
            GroupPath { from, boxes }
        };
        GroupNeighbour {
            address,
            weight,
            mtu,
            station: station.map(|(mac, node, port)| {
                let node = self.name(node);
                StationPlace { mac, node, port }
            }),
            paths: paths.into_iter().map(path).collect(),
            more,
        }
    }

    /// A part of the group's routes, from this prefix on.
    pub(super) fn routes_from(&self, first: &Prefix) -> Routes {
        let mut all = self.core.routes_from(first);
        let some = all.by_ref().take(ROUTES_MAX).map(|(prefix, target)| match target {
            FibTarget::Hosts(hops) => {
                let vias = hops.iter().map(|hop| format!(" via {}", hop.via));
                format!("{prefix}{}", vias.collect::<String>())
            }
            FibTarget::Blackhole => format!("{prefix} blackhole"),
            FibTarget::Unreachable => format!("{prefix} unreachable"),
            FibTarget::Prohibited => format!("{prefix} prohibit"),
        });
        let routes = some.collect();
        let next = all.next().map(|(prefix, _)| prefix.to_string());
        Routes { routes, disagree: Vec::new(), next }
    }

    fn groups(&self) -> Groups {
        let groups = self.core.group_trees().map(|g| Group {
            group: g.group,
            addresses: g.ips,
            of: g.of,
            tree: g.tree,
            senders: g.senders,
            listeners: g.listeners,
            nodes: g
                .nodes
                .into_iter()
                .map(|(node, ports)| TreeNode { name: self.name(node), ports })
                .collect(),
        });
        Groups { groups: groups.collect() }
    }
}

fn action(action: Action) -> api::Action {
    match action {
        Action::NoRoute => api::Action::NoRoute,
        Action::Own => api::Action::Own,
        Action::Broadcast => api::Action::Broadcast,
        Action::Deliver => api::Action::Deliver,
        Action::Forward => api::Action::Forward,
        Action::Blackhole => api::Action::Blackhole,
        Action::Unreachable => api::Action::Unreachable,
        Action::Prohibited => api::Action::Prohibited,
    }
}
