//! The whole network as a controller knows it, for its page and for programs that draw it.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use plexus_api::answer::fabric::GroupRoute;
use plexus_api::answer::network::{
    BoxCounters, BoxKind, Cable, HostWay, Map, NamedCounters, Network, NetworkBox, NetworkEvent,
    NetworkHost, Pair, PortCounters, Ways,
};
use plexus_api::answer::router::Routes;
use plexus_controller::{Controller, CountersView, Event, Input};
use plexus_io::clock::unix_ms;
use plexus_web::Source;
use plexus_wire::Prefix;
use plexus_wire::fabric::message::PortRole;

use super::answers::View;
use super::{Answers, Ask, Daemon};

/// Events that are kept.
const EVENTS: usize = 200;

/// The latest events.
#[derive(Debug, Default)]
pub(super) struct Events {
    all: VecDeque<NetworkEvent>,
    next: u64,
}

impl Events {
    /// Keeps an event, with nodes by their names.
    pub(super) fn keep(&mut self, event: &Event, core: Option<&Controller>) {
        let name = |node| {
            let known = core.and_then(|core| core.node_name(node));
            known.map_or_else(|| format!("{node:x}"), str::to_string)
        };
        self.next += 1;
        if self.all.len() == EVENTS {
            self.all.pop_front();
        }
        self.all.push_back(NetworkEvent {
            number: self.next,
            time_ms: unix_ms(),
            bad: event.is_bad(),
            text: event.told(name),
        });
    }
}

impl Daemon {
    /// Somebody looks at the network.
    pub(super) fn watched(&mut self) {
        let now = self.now();
        if let Some(core) = &mut self.reign.core {
            core.handle(now, Input::Watched);
        }
        self.carry_out(now);
    }

    /// The network, if this controller leads.
    ///
    /// # Errors
    /// Naming the controller that does.
    pub(super) fn network(&self) -> Result<Network, String> {
        let mut network = self.view()?.network();
        network.events = self.events.all.iter().cloned().collect();
        Ok(network)
    }
}

impl View<'_> {
    fn places(&self) -> HashMap<u64, u32> {
        self.core.nodes().map(|node| node.node).zip(0..).collect()
    }

    fn network(&self) -> Network {
        let core = self.core;
        let places = self.places();
        let mut map = Map { title: self.own.1.clone(), ..Map::default() };
        let mut rates: HashMap<(u32, u8), u32> = HashMap::new();
        let mut leads = Vec::new();
        let mut counters = Vec::new();
        for (node, place) in core.nodes().zip(0..) {
            for port in &node.ports {
                rates.insert((place, port.port), port.rate_mbit_per_s);
                if node.up && port.role == PortRole::Controller {
                    leads.push(((place, port.port), port.peer));
                }
            }
            let told = core.counters(self.now, node.node);
            counters.extend(told.map(|told| counted(place, told)));
            map.boxes.push(NetworkBox { name: node.name, kind: BoxKind::Node, up: node.up });
        }
        for link in core.links() {
            let ends = link.ends.map(|(node, port)| (places.get(&node).copied(), port));
            let [(Some(a), p), (Some(b), q)] = ends else { continue };
            let ends = [(a, p), (b, q)];
            let known = ends.iter().filter_map(|end| rates.get(end).copied());
            let rate = known.filter(|rate| *rate > 0).min().unwrap_or(0);
            map.cables.push(Cable { ends, rate_mbit_per_s: rate });
        }
        for (end, peer) in leads {
            let name = match peer == self.own.0 {
                true => self.own.1.clone(),
                false => format!("controller {peer}"),
            };
            let known = map.boxes.iter().position(|b| b.name == name);
            let place = known.unwrap_or_else(|| {
                map.boxes.push(NetworkBox { name, kind: BoxKind::Controller, up: true });
                map.boxes.len() - 1
            });
            let ends = [end, (place as u32, 0)];
            map.cables.push(Cable { ends, rate_mbit_per_s: 0 });
        }
        map.tenants = core.group_names().map(String::from).collect();
        let tenants: HashMap<&str, u16> = map.tenants.iter().map(String::as_str).zip(0..).collect();
        let hosts = core.hosts().filter_map(|host| {
            let groups = host.groups.iter();
            Some(NetworkHost {
                mac: host.mac,
                name: None,
                at: (*places.get(&host.node)?, host.port),
                addresses: host.ips,
                tenants: groups.filter_map(|g| tenants.get(g.as_str()).copied()).collect(),
            })
        });
        let hosts = hosts.collect();
        let router = core.is_router().then(|| self.router());
        Network { map, hosts, counters, router, events: vec![], clock: None }
    }

    /// The ways of a host's flows.
    pub(super) fn ways(&self, pair: Pair) -> Ways {
        let places = self.places();
        let (paths, more) = self.core.host_paths(pair.from, pair.to);
        let ways = paths.into_iter().map(|path| {
            let boxes = path.path.boxes.into_iter();
            let boxes = boxes.filter_map(|(node, i, o)| Some((*places.get(&node)?, i, o)));
            HostWay { from: path.path.from, to: path.to, boxes: boxes.collect() }
        });
        Ways { ways: ways.collect(), more }
    }
}

fn counted(at: u32, told: &CountersView) -> BoxCounters {
    let ports = told.ports.values().map(|port| PortCounters {
        port: port.port,
        rx_packets: port.rx_packets,
        rx_bytes: port.rx_bytes,
        tx_packets: port.tx_packets,
        tx_bytes: port.tx_bytes,
    });
    let named = told.named.as_ref().map(|named| NamedCounters {
        hits: named.hits,
        misses: named.misses,
        packets: named.packets,
        pending: named.pending,
        prefixes: prefixes(told),
    });
    let (time_ms, drops) = (told.time_ms, told.drops.clone());
    BoxCounters { at, time_ms, ports: ports.collect(), drops, named }
}

/// The prefixes of names that a node has told, for people.
fn prefixes(told: &CountersView) -> Vec<String> {
    let more = (told.more_prefixes > 0).then(|| format!("and {} more", told.more_prefixes));
    told.prefixes.iter().cloned().chain(more).collect()
}

/// The page's way to the controller's thread.
pub(super) struct OwnNetwork(pub(super) Arc<Answers>);

impl Source for OwnNetwork {
    fn network(&mut self) -> Result<Network, String> {
        self.0.send(Ask::Watched);
        self.0.ask(Daemon::network)?
    }

    fn ways(&mut self, pair: Pair) -> Result<Ways, String> {
        self.0.ask(move |daemon| Ok(daemon.view()?.ways(pair)))?
    }

    fn routes(&mut self, first: Prefix) -> Result<Routes, String> {
        self.0.ask(move |daemon| Ok(daemon.view()?.routes_from(&first)))?
    }

    fn route(&mut self, address: IpAddr) -> Result<GroupRoute, String> {
        self.0.ask(move |daemon| daemon.view()?.route(address))?
    }
}
