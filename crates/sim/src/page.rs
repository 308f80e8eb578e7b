//! A simulation that a page shows and drives: its clock goes as fast as the reader says, stands
//! still, and cables break by a click.
//!
//! The simulation stays with its thread. The page's thread asks it, and is answered between events.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use plexus_api::answer::fabric::GroupRoute;
use plexus_api::answer::network::{
    BoxCounters, BoxKind, Cable, Clock, HostWay, Map, NamedCounters, Network, NetworkBox,
    NetworkEvent, NetworkHost, Pair, PortCounters, Ways,
};
use plexus_api::answer::router::Routes;
use plexus_topo::End;
use plexus_web::{Command, Source};
use plexus_wire::{MacAddr, Prefix};

use crate::sim::Sim;

/// How long a simulation may take to answer, with all that happens between two looks at it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest sleep, after which the simulation hears a request to stop.
const NAP: Duration = Duration::from_millis(10);
/// A simulation that is so late does not catch up.
const LATE: Duration = Duration::from_millis(100);
/// The longest step, in simulated time: questions are answered between steps.
const STEP: Duration = Duration::from_millis(1);
/// Slowest and fastest clock.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

enum Ask {
    Network(Sender<Network>),
    Ways(Pair, Sender<Ways>),
    Command(Command, Sender<Result<(), String>>),
}

/// The simulation's end.
pub(crate) struct Stage {
    asks: Receiver<Ask>,
    speed: f64,
    paused: bool,
    /// Cables to break.
    breaks: Vec<End>,
}

/// The page's end.
pub(crate) struct Visitor(SyncSender<Ask>);

/// The two ends. The clock goes as a person's.
pub(crate) fn stage() -> (Stage, Visitor) {
    let (ask, asks) = sync_channel(16);
    let stage = Stage { asks, speed: 1.0, paused: false, breaks: vec![] };
    (stage, Visitor(ask))
}

impl Visitor {
    fn ask<T>(&self, ask: impl FnOnce(Sender<T>) -> Ask) -> Result<T, String> {
        let (reply, answer) = channel();
        let gone = |_| "the simulation has ended".to_string();
        self.0.send(ask(reply)).map_err(|_| "the simulation has ended".to_string())?;
        answer.recv_timeout(PATIENCE).map_err(|e| match e {
            RecvTimeoutError::Timeout => "the simulation is busy".to_string(),
            e => gone(e),
        })
    }
}

impl Source for Visitor {
    fn network(&mut self) -> Result<Network, String> {
        self.ask(Ask::Network)
    }

    fn ways(&mut self, pair: Pair) -> Result<Ways, String> {
        self.ask(|reply| Ask::Ways(pair, reply))
    }

    fn routes(&mut self, _: Prefix) -> Result<Routes, String> {
        Err("the page of a simulation does not list routes".into())
    }

    fn route(&mut self, _: IpAddr) -> Result<GroupRoute, String> {
        Err("the page of a simulation does not look routes up".into())
    }

    fn command(&mut self, command: Command) -> Result<(), String> {
        self.ask(|reply| Ask::Command(command, reply))?
    }
}

impl Stage {
    /// Answers what is asked now.
    pub(crate) fn answer(&mut self, sim: &Sim) {
        while let Ok(ask) = self.asks.try_recv() {
            self.hear(sim, ask);
        }
    }

    fn hear(&mut self, sim: &Sim, ask: Ask) {
        // A page that has given up needs no answer.
        match ask {
            Ask::Network(reply) => {
                let mut network = sim.network();
                network.clock = Some(Clock {
                    now_s: sim.now().as_secs_f64(),
                    speed: self.speed,
                    paused: self.paused,
                    done: sim.share_done(),
                });
                let _ = reply.send(network);
            }
            Ask::Ways(pair, reply) => drop(reply.send(sim.ways(pair))),
            Ask::Command(command, reply) => drop(reply.send(self.obey(sim, command))),
        }
    }

    fn obey(&mut self, sim: &Sim, command: Command) -> Result<(), String> {
        match command {
            Command::Pause(paused) => self.paused = paused,
            Command::Speed(speed) if SPEEDS.contains(&speed) => self.speed = speed,
            Command::Speed(_) => return Err("a speed is between 0.001 and 1000".into()),
            Command::Break(ends) => {
                let end = sim.end_of_cable(&ends).ok_or("there is no such cable")?;
                self.breaks.push(end);
            }
        }
        Ok(())
    }

    /// Lets a simulation that has begun go on at the reader's speed, until `go_on` gives false. A
    /// machine that is too slow for it simulates as fast as it can.
    pub(crate) fn run(&mut self, sim: &mut Sim, mut go_on: impl FnMut(&Sim) -> bool) {
        let mut from = (Instant::now(), sim.now(), self.speed);
        while go_on(sim) {
            self.answer(sim);
            for end in self.breaks.drain(..) {
                sim.pull(end);
            }
            let wanted = from.1 + from.0.elapsed().mul_f64(from.2).into();
            let is_early = self.paused || sim.now() >= wanted;
            if is_early && let Ok(ask) = self.asks.recv_timeout(NAP) {
                self.hear(sim, ask);
            }
            let is_late = sim.now() + LATE.mul_f64(from.2).into() < wanted;
            if !self.paused && sim.now() < wanted {
                sim.run_until(wanted.min(sim.now() + STEP.into()));
            }
            if self.paused || is_late || from.2 != self.speed {
                from = (Instant::now(), sim.now(), self.speed);
            }
        }
    }
}

impl Sim {
    /// One end of the unbroken cable with these ends, which are named as on the map.
    fn end_of_cable(&self, named: &[(String, u8); 2]) -> Option<End> {
        let name = |end: End| match end {
            End::Port { node, .. } => Some(&self.topology.nodes[node].name),
            End::Bridge { bridge, .. } => Some(&self.topology.bridges[bridge].name),
            End::Host { .. } => None,
        };
        let is = |end: End, (box_name, port): &(String, u8)| {
            name(end) == Some(box_name) && self.place(end).is_some_and(|place| place.1 == *port)
        };
        let is_named = |ends: &[End; 2]| ends.iter().zip(named).all(|(end, named)| is(*end, named));
        let mut cables = self.topology.cables().map(|(_, _, ends)| ends);
        let end = cables.find(is_named)?[0];
        self.core.ports[self.port_of(end) as usize].has_carrier().then_some(end)
    }

    /// The network now.
    fn network(&self) -> Network {
        let topology = &self.topology;
        let mut map = Map { title: topology.name.clone(), ..Map::default() };
        let nodes = topology.nodes.iter().map(|n| (&n.name, BoxKind::Node));
        let boxes = nodes.chain(topology.bridges.iter().map(|b| (&b.name, BoxKind::Bridge)));
        for ((name, kind), node) in boxes.zip(&self.devices.nodes) {
            map.boxes.push(NetworkBox { name: name.clone(), kind, up: !node.has_crashed() });
        }
        let mut hosts = Vec::new();
        for (_, _, ends) in topology.cables() {
            let [a, b] = ends.map(|end| self.place(end));
            match (a, b) {
                (Some(a), Some(b)) => {
                    let port = &self.core.ports[self.port_of(ends[0]) as usize];
                    if port.has_carrier() {
                        let rate = port.rate_bits_per_s.unwrap_or(0) / 1_000_000;
                        let rate_mbit_per_s = u32::try_from(rate).unwrap_or(u32::MAX);
                        map.cables.push(Cable { ends: [a, b], rate_mbit_per_s });
                    }
                }
                (Some(at), None) => hosts.push((ends[1], at)),
                (None, Some(at)) => hosts.push((ends[0], at)),
                (None, None) => {}
            }
        }
        let tenants = self.tenants(&mut map);
        let hosts = hosts.into_iter().filter_map(|(end, at)| {
            let End::Host { host, .. } = end else { return None };
            let own = &self.devices.hosts[host];
            Some(NetworkHost {
                mac: own.mac,
                name: Some(topology.hosts[host].name.clone()),
                at,
                addresses: own.addresses().collect(),
                tenants: tenants.get(&own.mac).cloned().unwrap_or_default(),
            })
        });
        let hosts = hosts.collect();
        let counters = self.count();
        Network { map, hosts, counters, events: self.events(), ..Network::default() }
    }

    /// The box of an end and its port's number there; `None`: it is a host's.
    fn place(&self, end: End) -> Option<(u32, u8)> {
        let (at, port) = match end {
            End::Port { node, port } => (node, port),
            End::Bridge { bridge, port } => (self.topology.nodes.len() + bridge, port),
            End::Host { .. } => return None,
        };
        Some((at as u32, u8::try_from(port).unwrap_or(u8::MAX)))
    }

    /// The groups of hosts, whose names go into the map.
    fn tenants(&self, map: &mut Map) -> HashMap<MacAddr, Vec<u16>> {
        let Some(core) = self.controller() else { return HashMap::new() };
        map.tenants = core.group_names().map(String::from).collect();
        let numbers: HashMap<&str, u16> = map.tenants.iter().map(String::as_str).zip(0..).collect();
        let number = |group: &String| numbers.get(group.as_str()).copied();
        core.hosts().map(|h| (h.mac, h.groups.iter().filter_map(number).collect())).collect()
    }

    fn count(&self) -> Vec<BoxCounters> {
        let time_ms = (self.now().as_secs_f64() * 1000.0) as u64;
        let routes = |at: u32| {
            let file = self.topology.nodes.get(at as usize)?.named.as_ref()?;
            Some(file.routes.iter().map(|route| route.prefix.to_string()).collect())
        };
        let mut all: Vec<BoxCounters> = (0..)
            .zip(&self.devices.nodes)
            .map(|(at, node)| {
                let named = node.named.as_ref().map(|named| {
                    let account = named.account();
                    NamedCounters {
                        hits: account.cache_hits,
                        misses: account.cache_misses,
                        packets: account.cached,
                        pending: node.pending() as u64,
                        prefixes: routes(at).unwrap_or_default(),
                    }
                });
                let mut drops = node.counts().drops;
                drops.retain(|_, count| *count > 0);
                BoxCounters { at, time_ms, ports: vec![], drops, named }
            })
            .collect();
        for (end, &own) in &self.devices.port_of {
            let Some((at, port)) = self.place(*end) else { continue };
            let tx = self.core.ports[own as usize].sent;
            let peer = self.core.ports[own as usize].peer;
            let rx = peer.map(|peer| self.core.ports[peer as usize].sent).unwrap_or_default();
            all[at as usize].ports.push(PortCounters {
                port,
                rx_packets: rx.frames,
                rx_bytes: rx.bytes,
                tx_packets: tx.frames,
                tx_bytes: tx.bytes,
            });
        }
        all
    }

    fn events(&self) -> Vec<NetworkEvent> {
        let Some(core) = self.controller() else { return vec![] };
        let names: HashMap<u64, String> = core.nodes().map(|n| (n.node, n.name)).collect();
        let name = |node| names.get(&node).cloned().unwrap_or_else(|| format!("{node:x}"));
        let all = self.devices.controllers.iter().flat_map(|c| &c.events);
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(at, _)| *at);
        let told = (1..).zip(all).map(|(number, (at, event))| NetworkEvent {
            number,
            time_ms: at.as_nanos() / 1_000_000,
            bad: event.is_bad(),
            text: event.told(name),
        });
        told.collect()
    }

    fn ways(&self, pair: Pair) -> Ways {
        let Some(core) = self.controller() else { return Ways::default() };
        let named: HashMap<&str, u32> =
            self.topology.nodes.iter().map(|n| n.name.as_str()).zip(0..).collect();
        let places: HashMap<u64, u32> =
            core.nodes().filter_map(|n| Some((n.node, *named.get(n.name.as_str())?))).collect();
        let (paths, more) = core.host_paths(pair.from, pair.to);
        let ways = paths.into_iter().map(|path| {
            let boxes = path.path.boxes.into_iter();
            let boxes = boxes.filter_map(|(node, i, o)| Some((*places.get(&node)?, i, o)));
            HostWay { from: path.path.from, to: path.to, boxes: boxes.collect() }
        });
        Ways { ways: ways.collect(), more }
    }
}

#[cfg(test)]
mod tests {
    use plexus_topo::Topology;

    use super::*;

    #[test]
    fn a_cable_is_broken_by_the_names_of_its_ends() {
        let text = "name = \"t\"\n\
                    [[node]]\nname = \"s1\"\n[[node]]\nname = \"s2\"\n\
                    [[link]]\nends = [\"s1.p1\", \"s2.p1\"]\n\
                    [[link]]\nends = [\"s1.p2\", \"s2.p2\"]\n";
        let topology = Topology::parse("t", text).unwrap();
        let mut sim = Sim::new(&topology, 1).unwrap();
        let cables = sim.network().map.cables;
        let [first, second] = [0, 1].map(|at| {
            let [a, b]: [(u32, u8); 2] = cables[at].ends;
            [("s1".to_string(), a.1), ("s2".to_string(), b.1)]
        });
        let (mut stage, _visitor) = stage();
        let mut break_it = |sim: &mut Sim, ends: &[(String, u8); 2]| {
            let told = stage.obey(sim, Command::Break(ends.clone()));
            stage.breaks.drain(..).for_each(|end| sim.pull(end));
            told.is_ok()
        };
        assert!(break_it(&mut sim, &first));
        assert!(!break_it(&mut sim, &first), "it is broken");
        assert_eq!(sim.network().map.cables, cables[1..]);
        let [a, b] = second.clone();
        assert!(!break_it(&mut sim, &[b, a]), "the map names its ends in the other order");
        assert!(break_it(&mut sim, &second));
        assert!(sim.network().map.cables.is_empty());
    }
}
