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
pub struct Stage {
    asks: Receiver<Ask>,
    speed: f64,
    paused: bool,
    /// The ends of the map's cables, as the page knows them.
    shown: Vec<End>,
    /// Cables to break.
    breaks: Vec<End>,
}

/// The page's end.
pub struct Visitor(SyncSender<Ask>);

/// The two ends. The clock goes as a person's.
pub fn stage() -> (Stage, Visitor) {
    let (ask, asks) = sync_channel(16);
    let stage = Stage { asks, speed: 1.0, paused: false, shown: vec![], breaks: vec![] };
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
    pub fn answer(&mut self, sim: &Sim) {
        while let Ok(ask) = self.asks.try_recv() {
            self.hear(sim, ask);
        }
    }

    fn hear(&mut self, sim: &Sim, ask: Ask) {
        // A page that has given up needs no answer.
        match ask {
            Ask::Network(reply) => {
                let (mut network, shown) = sim.network();
                self.shown = shown;
                network.clock = Some(Clock {
                    now_s: sim.now().as_secs_f64(),
                    speed: self.speed,
                    paused: self.paused,
                    done: sim.share_done(),
                });
                let _ = reply.send(network);
            }
            Ask::Ways(pair, reply) => drop(reply.send(sim.ways(pair))),
            Ask::Command(command, reply) => drop(reply.send(self.obey(command))),
        }
    }

    fn obey(&mut self, command: Command) -> Result<(), String> {
        match command {
            Command::Pause(paused) => self.paused = paused,
            Command::Speed(speed) if SPEEDS.contains(&speed) => self.speed = speed,
            Command::Speed(_) => return Err("a speed is between 0.001 and 1000".into()),
            Command::Break(cable) => {
                let end = self.shown.get(cable).ok_or("there is no such cable")?;
                self.breaks.push(*end);
            }
        }
        Ok(())
    }

    /// Lets a simulation that has begun go on at the reader's speed, until `go_on` gives false. A
    /// machine that is too slow for it simulates as fast as it can.
    pub fn run(&mut self, sim: &mut Sim, mut go_on: impl FnMut(&Sim) -> bool) {
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
    /// The network now, and one end of each of the map's cables.
    fn network(&self) -> (Network, Vec<End>) {
        let topology = &self.topology;
        let mut map = Map { title: topology.name.clone(), ..Map::default() };
        let nodes = topology.nodes.iter().map(|n| (&n.name, BoxKind::Node));
        let boxes = nodes.chain(topology.bridges.iter().map(|b| (&b.name, BoxKind::Bridge)));
        for ((name, kind), node) in boxes.zip(&self.devices.nodes) {
            map.boxes.push(NetworkBox { name: name.clone(), kind, up: !node.has_crashed() });
        }
        let mut shown = Vec::new();
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
                        shown.push(ends[0]);
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
        let network = Network { map, hosts, counters, events: self.events(), ..Network::default() };
        (network, shown)
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
