//! A network, its updates and its packets; and what is noted of them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plexus_sim::{Sim, SimTime};
use plexus_topo::{Device, End, Topology};
use plexus_traffic::Probe;
use plexus_wire::fabric::{self, Kind, ROUTER_HOP, encapsulation};
use plexus_wire::{EtherType, Prefix, ethernet, ipv4, ipv6};
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_pcg::Pcg64;

use crate::day::{self, Day};
use crate::judge::Judge;
use crate::tables::{Change, Tables};

/// Hosts that other networks are behind.
pub(crate) const PEERS: u32 = 4;
/// Packets are judged from then on: before, boxes get to know the hosts.
pub(crate) const WARM_UP: Duration = Duration::from_secs(2);
/// Payload bytes of a packet.
const SIZE: u32 = 40;

/// A network, its traffic, and the updates of its table.
pub(crate) struct Scenario {
    /// Boxes, controller and cables.
    pub(crate) boxes: String,
    /// The box of each source, and of each peer.
    pub(crate) sources: &'static [&'static str],
    pub(crate) peers: [&'static str; PEERS as usize],
    /// The boxes that route for all; none: each box routes the packets of its own hosts.
    pub(crate) forwarders: &'static [&'static str],
    /// The box that starts anew, and when it goes and comes.
    pub(crate) crash: (&'static str, Duration, Duration),
    pub(crate) prefixes: usize,
    pub(crate) updates_per_s: f64,
    /// How many addresses packets go to, and how many to each.
    pub(crate) destinations: usize,
    pub(crate) packets_per_s: f64,
    pub(crate) lasts: Duration,
    /// How often updates are told and the versions of boxes are noted.
    pub(crate) slice: Duration,
}

/// The result of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) updates: u64,
    /// Of the sources' packets: those that came to a peer, those that did not and had no route in
    /// one of the versions, and those that did not and were beside a box that was down.
    pub(crate) delivered: u64,
    pub(crate) without_route: u64,
    pub(crate) excused: u64,
    /// Delivered while the versions that a box may have had differed on the destination.
    pub(crate) in_doubt: u64,
    /// Delivered as no single version since the one that the box had told says, but as a mixture of
    /// them does; and as an older version says, which the box had left behind otherwise.
    pub(crate) mixed: u64,
    pub(crate) older: u64,
    /// Not delivered though all versions since the one that the box had told have a route; an older
    /// one has none.
    pub(crate) older_lost: u64,
    /// The most updates that a box was behind, the one that starts anew left out.
    pub(crate) behind: u64,
    /// How long that one took to have the table again, in milliseconds.
    pub(crate) filled_ms: u64,
    /// Faults.
    pub(crate) wrong: Vec<String>,
}

/// A packet of a source: its flow and number.
pub(crate) type Key = (u32, u64);
/// When packets came to boxes, and to which.
pub(crate) type Arrivals = HashMap<Key, Vec<(SimTime, usize)>>;

/// The end of a packet's way.
pub(crate) struct Delivery {
    pub(crate) at: SimTime,
    pub(crate) peer: u32,
    pub(crate) ttl: u8,
}

/// Where packets were seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// At the box of their source.
    pub(crate) sent: Arrivals,
    /// At the boxes that route for all.
    pub(crate) carried: Arrivals,
    /// At peers.
    pub(crate) delivered: HashMap<Key, Vec<Delivery>>,
}

/// The packet of a source in a host's frame: which one, and its time to live.
fn packet(frame: &[u8]) -> Option<(Key, u8)> {
    let frame = ethernet::Frame::new_checked(frame).ok()?;
    let (payload, ttl) = match frame.ethertype() {
        EtherType::IPV4 => {
            let packet = ipv4::Packet::new_checked(frame.payload()).ok()?;
            (packet.payload(), packet.ttl())
        }
        EtherType::IPV6 => {
            let packet = ipv6::Packet::new_checked(frame.payload()).ok()?;
            (packet.payload(), packet.hop_limit())
        }
        _ => return None,
    };
    let probe = Probe::decode(payload.get(8..)?)?;
    Some(((probe.flow, probe.sequence), ttl))
}

/// The packet of a source in a frame of the fabric whose next hop is a box's router.
fn carried(frame: &[u8]) -> Option<Key> {
    let link = ethernet::Frame::new_checked(frame).ok()?;
    let frame = match link.ethertype() {
        encapsulation::ETHERTYPE => link.payload(),
        _ => frame,
    };
    let frame = fabric::Frame::new_checked(frame).ok()?;
    let is_for_router = frame.kind() == Kind::Ethernet && frame.forward() == [ROUTER_HOP];
    let (key, _) = packet(frame.payload()).filter(|_| is_for_router)?;
    Some(key)
}

impl Scenario {
    fn topology(&self, destinations: &[IpAddr]) -> Topology {
        let mut text = self.boxes.clone();
        for net in 1..=2 {
            let _ = writeln!(
                text,
                "[[controller.subnet]]\nprefix = \"10.{net}.0.0/24\"\n\
                 gateway = \"10.{net}.0.254\"\n\
                 [[controller.subnet]]\nprefix = \"fd00:{net}::/64\"\ngateway = \"fd00:{net}::fe\""
            );
        }
        let sources = (1..).zip(self.sources).map(|(n, at)| ('a', 1, n, at));
        let peers = (1..).zip(&self.peers).map(|(n, at)| ('p', 2, n, at));
        for (kind, net, n, at) in sources.chain(peers) {
            let _ = writeln!(
                text,
                "[[host]]\nname = \"{kind}{n}\"\n\
                 address = [\"10.{net}.0.{n}/24\", \"fd00:{net}::{n}/64\"]\n\
                 gateway = [\"10.{net}.0.254\", \"fd00:{net}::fe\"]\n\
                 [[link]]\nends = [\"{kind}{n}\", \"{at}.{kind}{n}\"]\nrate = \"1Gbit\""
            );
        }
        for (n, to) in destinations.iter().enumerate() {
            let from = n % self.sources.len() + 1;
            let rate = (self.packets_per_s * f64::from(8 * SIZE)).round();
            let _ = writeln!(
                text,
                "[[traffic]]\nname = \"f{n}\"\nfrom = \"a{from}\"\nto = \"{to}\"\nproto = \"udp\"\n\
                 size = {SIZE}\nrate = \"{rate}bit\"\nduration = \"{}ms\"",
                self.lasts.as_millis()
            );
        }
        let (device, at, ends) = self.crash;
        let _ = writeln!(
            text,
            "[[event]]\nat = \"{}ms\"\nfor = \"{}ms\"\nkind = \"crash\"\ndevice = \"{device}\"",
            at.as_millis(),
            (ends - at).as_millis()
        );
        Topology::parse("updates.toml", &text).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Runs it, and judges every packet.
    pub(crate) fn run(&self, seed: u64) -> Counts {
        let prefixes = day::prefixes(self.prefixes);
        let mut random = Pcg64::seed_from_u64(seed);
        let of_day = Pcg64::seed_from_u64(seed ^ 0xDA7);
        let mut day = Day::new(&prefixes, self.updates_per_s, PEERS, of_day);
        // Half of the packets go to the most unstable prefixes.
        let (unstable, others) = day.order().split_at(self.destinations / 2);
        let others = others.sample(&mut random, self.destinations - unstable.len());
        let chosen: Vec<IpAddr> = unstable.iter().chain(others).map(Prefix::last).collect();
        let topology = self.topology(&chosen);
        let node = |name: &str| topology.nodes.iter().position(|n| n.name == name).unwrap();
        let mut sim = Sim::new(&topology, seed).unwrap();
        let seen = self.watch(&mut sim, &topology);
        assert!(sim.settle(|_| true), "{:?}", sim.unsettled());
        let routing: Vec<usize> = match self.forwarders {
            [] => (0..topology.nodes.len()).collect(),
            names => names.iter().map(|name| node(name)).collect(),
        };
        let known = vec![vec![]; topology.nodes.len()];
        let mut world =
            World { sim, tables: Tables::default(), marks: vec![(0, 0)], told: vec![], known };
        world.tell(day.whole());
        assert!(world.wait(&routing), "the table has not come");
        world.sim.begin();
        let began = world.sim.now();
        let crashed = node(self.crash.0);
        let mut counts = Counts::default();
        // All packets that are judged are on their way until the end.
        let end = began + (self.lasts + WARM_UP).into();
        while world.sim.now() < end {
            let since = Duration::from(world.sim.now() - began);
            let is_quiet = since < WARM_UP / 2 || since > self.lasts;
            let changes = if is_quiet { vec![] } else { day.due(since.as_secs_f64()) };
            counts.updates += changes.len() as u64;
            if !changes.is_empty() {
                world.tell(changes);
            }
            world.advance(self.slice);
            let others = routing.iter().filter(|node| **node != crashed);
            let behind = others.map(|node| world.tables.now - world.known(*node)).max();
            counts.behind = counts.behind.max(behind.unwrap_or_default());
        }
        if !world.wait(&routing) {
            counts.wrong.push("not all boxes have the table in the end".into());
        }
        let judge = Judge {
            scenario: self,
            world: &world,
            began,
            covering: chosen.iter().map(|to| world.tables.covering(*to)).collect(),
            peers: self.peers.map(node),
            crashed,
        };
        judge.all(&seen.lock().unwrap(), &mut counts);
        let report = world.sim.report();
        if !report.accounts.values().all(|account| account.balances()) {
            counts.wrong.push(format!("packets are not accounted for: {report}"));
        }
        counts
    }

    /// Watches where packets come in, where they come to boxes that route for all, and the peers.
    fn watch(&self, sim: &mut Sim, topology: &Topology) -> Arc<Mutex<Seen>> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        for (_, _, ends) in topology.cables() {
            for [own, other] in [ends, [ends[1], ends[0]]] {
                let End::Port { node, .. } = own else { continue };
                let is_forwarder = self.forwarders.contains(&topology.nodes[node].name.as_str());
                let seen = seen.clone();
                match other.device() {
                    Device::Host(host) if host < self.sources.len() => {
                        sim.watch(own, move |at, frame| {
                            if let Some((key, _)) = packet(frame) {
                                let sent = &mut seen.lock().unwrap().sent;
                                sent.entry(key).or_default().push((at, node));
                            }
                        });
                    }
                    Device::Node(_) if is_forwarder => sim.watch(own, move |at, frame| {
                        if let Some(key) = carried(frame) {
                            let carried = &mut seen.lock().unwrap().carried;
                            carried.entry(key).or_default().push((at, node));
                        }
                    }),
                    _ => {}
                }
            }
        }
        for peer in 0..PEERS {
            let seen = seen.clone();
            let host = self.sources.len() + peer as usize;
            sim.watch(End::Host { host, interface: 0 }, move |at, frame| {
                if let Some((key, ttl)) = packet(frame) {
                    let delivered = &mut seen.lock().unwrap().delivered;
                    delivered.entry(key).or_default().push(Delivery { at, peer, ttl });
                }
            });
        }
        seen
    }
}

/// A network and its table. Changes of the table have numbers.
pub(crate) struct World {
    sim: Sim,
    pub(crate) tables: Tables,
    /// Versions of the controller's table, and the last change in each.
    marks: Vec<(u64, u64)>,
    /// The last change that the controller, or each box, had from some time on.
    told: Vec<(SimTime, u64)>,
    known: Vec<Vec<(SimTime, u64)>>,
}

/// The last change that was known at a time.
fn known_at(log: &[(SimTime, u64)], at: SimTime) -> u64 {
    let before = log.partition_point(|(since, _)| *since <= at);
    before.checked_sub(1).map_or(0, |last| log[last].1)
}

impl World {
    fn tell(&mut self, changes: Vec<Change>) {
        let via = |prefix: &Prefix, hop: u32| -> IpAddr {
            let hop = hop as u16 + 1;
            match prefix.addr() {
                IpAddr::V4(_) => [10, 2, 0, hop as u8].into(),
                IpAddr::V6(_) => [0xFD00, 2, 0, 0, 0, 0, 0, hop].into(),
            }
        };
        let told = changes.iter().map(|(prefix, hops)| {
            (*prefix, hops.each().map(|hop| via(prefix, hop)).collect::<Vec<IpAddr>>())
        });
        assert!(self.sim.change_routes(told));
        changes.into_iter().for_each(|change| self.tables.change(change));
        let version = self.sim.controller().unwrap().routes_version().0;
        self.marks.push((version, self.tables.now));
        self.told.push((self.sim.now(), self.tables.now));
    }

    /// Time passes; then boxes' versions are noted. A box that does not say which it has routes by
    /// none before the last one that it said: once it starts anew it gets the whole table first.
    fn advance(&mut self, by: Duration) {
        self.sim.run_until(self.sim.now() + by.into());
        let controller = self.sim.controller().unwrap();
        for (node, log) in self.known.iter_mut().enumerate() {
            let Some(version) = controller.routes_version_of(node as u64 + 1) else { continue };
            let later = self.marks.partition_point(|(mark, _)| *mark <= version);
            let known = self.marks[later - 1].1;
            if log.last().map_or(0, |(_, last)| *last) < known {
                log.push((self.sim.now(), known));
            }
        }
    }

    /// Waits until boxes have the whole table; false: they do not.
    fn wait(&mut self, boxes: &[usize]) -> bool {
        for _ in 0..600 {
            if boxes.iter().all(|node| self.known(*node) == self.tables.now) {
                return true;
            }
            self.advance(Duration::from_millis(50));
        }
        false
    }

    fn known(&self, node: usize) -> u64 {
        self.known[node].last().map_or(0, |(_, known)| *known)
    }

    /// The last change that a box had acknowledged at a time.
    pub(crate) fn known_at(&self, node: usize, at: SimTime) -> u64 {
        known_at(&self.known[node], at)
    }

    /// The last change that a box had acknowledged at a time when the controller had no more: its
    /// table was that version, and no prefix is older since.
    pub(crate) fn whole_at(&self, node: usize, at: SimTime) -> u64 {
        let log = &self.known[node];
        let before = &log[..log.partition_point(|(since, _)| *since <= at)];
        let mut whole = before.iter().rev().filter(|(at, known)| *known == self.told_at(*at));
        whole.next().map_or(0, |(_, known)| *known)
    }

    /// The last change that the controller had been told at a time.
    pub(crate) fn told_at(&self, at: SimTime) -> u64 {
        known_at(&self.told, at)
    }

    /// When a box had all changes that the controller had then, from some time on.
    pub(crate) fn is_whole_at(&self, node: usize, from: SimTime) -> SimTime {
        let later = self.known[node].iter().filter(|(at, _)| *at >= from);
        let mut whole = later.filter(|(at, known)| *known == self.told_at(*at));
        whole.next().map_or(SimTime::FOREVER, |(at, _)| *at)
    }
}
