//! The whole switch against a model of it that is too simple to be wrong, on random
//! configurations and traffic: after every frame exactly the model's frames have come out, byte
//! for byte, and where the model knows stations the switch knows them too.
//!
//! A second test has rates, tiny queues, limits and too few frames, where what comes out depends
//! on much: there every packet is accounted for, and none comes twice.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Plan, Rig, mac};
use plexus_config::{PortSettings, QueueOrder, StaticMac, StormSettings, Trust, VlanMode};
use plexus_plane::DropReason;
use plexus_wire::{MacAddr, Time};
use proptest::prelude::*;

/// Times are multiples of this, so that they are whole units of every ageing time used and the
/// model needs no rounding: the switch counts in 256ths.
const TICK: Duration = Duration::from_secs(4);
/// Ageing times, in seconds.
const AGEINGS: [u64; 3] = [256, 512, 1024];

/// A station that the model knows.
#[derive(Clone, Copy, Debug)]
struct Known {
    port: usize,
    heard: Time,
    /// When the workers of other ports heard of it: they hear once in a sixteenth of the ageing
    /// time, so they may forget it that much earlier. `None`: they have forgotten it.
    told: Option<Time>,
}

struct Model {
    plan: Plan,
    up: Vec<bool>,
    stations: HashMap<(u16, MacAddr), Known>,
}

type Sent = Vec<(usize, Vec<u8>)>;

impl Model {
    fn carries(&self, port: usize, vlan: u16) -> bool {
        match &self.plan.ports[port].vlan {
            VlanMode::Access(v) => *v == vlan,
            VlanMode::Trunk { allowed, native } => {
                *native == Some(vlan) || allowed.iter().any(|(a, b)| (*a..=*b).contains(&vlan))
            }
        }
    }

    fn native(&self, port: usize) -> Option<u16> {
        match self.plan.ports[port].vlan {
            VlanMode::Access(vlan) => Some(vlan),
            VlanMode::Trunk { native, .. } => native,
        }
    }

    fn fixed(&self, vlan: u16, mac: MacAddr) -> Option<usize> {
        let mut all = self.plan.switch.static_macs.iter();
        let station = all.find(|s| s.vlan == vlan && s.mac == mac)?;
        station.port[1..].parse().ok()
    }

    fn is_fresh(&self, now: Time, heard: Time) -> bool {
        now.since(heard) <= self.plan.switch.ageing
    }

    /// Where a station is, as the worker of port `asking` knows it.
    fn find(&self, now: Time, asking: usize, vlan: u16, mac: MacAddr) -> Option<usize> {
        if let Some(port) = self.fixed(vlan, mac) {
            return Some(port);
        }
        let known = self.stations.get(&(vlan, mac))?;
        let same_worker = asking % self.plan.workers == known.port % self.plan.workers;
        let heard = if same_worker { Some(known.heard) } else { known.told };
        heard.is_some_and(|h| self.is_fresh(now, h)).then_some(known.port)
    }

    fn learn(&mut self, now: Time, port: usize, vlan: u16, mac: MacAddr) {
        if !self.plan.ports[port].learning {
            return;
        }
        let period = |t: Time| t.as_nanos() / (self.plan.switch.ageing.as_nanos() as u64 / 16);
        let told = match self.stations.get(&(vlan, mac)) {
            Some(k) if k.port == port && period(k.heard) == period(now) => k.told,
            _ => Some(now),
        };
        self.stations.insert((vlan, mac), Known { port, heard: now, told });
    }

    /// What comes out when a frame goes in.
    fn send(&mut self, now: Time, port: usize, frame: &[u8]) -> Sent {
        let mut sent = Vec::new();
        if !self.up[port] || frame.len() < 14 {
            return sent;
        }
        let address = |at: usize| MacAddr(std::array::from_fn(|i| frame[at + i]));
        let (to, from) = (address(0), address(6));
        let mut tci = None;
        let mut rest = &frame[12..];
        if rest.starts_with(&[0x81, 0x00]) {
            if frame.len() < 18 {
                return sent;
            }
            tci = Some(u16::from_be_bytes([frame[14], frame[15]]));
            rest = &frame[16..];
        }
        let settings = &self.plan.ports[port];
        let mut tag = tci.filter(|t| t & 0xFFF != 0);
        let vlan = match tag {
            Some(tci) => Some(tci & 0xFFF).filter(|v| self.carries(port, *v)),
            None => self.native(port),
        };
        let Some(vlan) = vlan else { return sent };
        let priority = match tci {
            Some(tci) if settings.trust == Trust::Pcp => tci >> 13,
            _ => u16::from(settings.priority),
        };
        let tag = *tag.get_or_insert(priority << 13 | vlan);
        let reserved = to.0[..5] == [0x01, 0x80, 0xC2, 0, 0] && to.0[5] < 16;
        if from.is_multicast() || from == MacAddr([0; 6]) || reserved {
            return sent;
        }
        match self.fixed(vlan, from) {
            Some(fixed) if fixed != port => return sent,
            Some(_) => {}
            None => self.learn(now, port, vlan, from),
        }
        let found = if to.is_multicast() { None } else { self.find(now, port, vlan, to) };
        for out in 0..self.plan.ports.len() {
            let chosen = found.is_none_or(|f| f == out) && self.carries(out, vlan);
            if out == port || !chosen || !self.up[out] {
                continue;
            }
            let mut bytes = frame[..12].to_vec();
            let tagged = self.native(out) != Some(vlan);
            if tagged {
                bytes.extend([0x81, 0x00]);
                bytes.extend(tag.to_be_bytes());
            }
            bytes.extend(rest);
            if bytes.len() <= if tagged { 1518 } else { 1514 } {
                sent.push((out, bytes));
            }
        }
        sent
    }

    fn set_link(&mut self, port: usize, up: bool) {
        self.up[port] = up;
        if !up {
            self.stations.retain(|_, k| k.port != port);
        }
    }

    fn adopt(&mut self, now: Time, setup: &Setup) {
        let ageing = self.plan.switch.ageing;
        self.plan = setup.plan(self.plan.ports.len(), self.plan.workers);
        let mut stations = std::mem::take(&mut self.stations);
        stations.retain(|(vlan, mac), k| {
            k.told = k.told.filter(|t| now.since(*t) <= ageing);
            now.since(k.heard) <= ageing
                && self.carries(k.port, *vlan)
                && self.plan.ports[k.port].learning
                && self.fixed(*vlan, *mac).is_none()
        });
        self.stations = stations;
    }
}

/// A configuration for up to six ports.
#[derive(Clone, Debug)]
struct Setup {
    ports: Vec<PortSettings>,
    fixed: Vec<(u64, u16, usize)>,
    ageing: Duration,
}

impl Setup {
    fn plan(&self, ports: usize, workers: usize) -> Plan {
        let mut plan = Plan::new(ports);
        plan.workers = workers;
        plan.frames = 256;
        plan.depth = 128;
        plan.ports = self.ports[..ports].to_vec();
        plan.switch.ageing = self.ageing;
        plan.switch.mac_table = 256;
        let model = Model { plan, up: Vec::new(), stations: HashMap::new() };
        // Only what a checked configuration may say; the same station once.
        let mut seen = HashSet::new();
        let fixed = self.fixed.iter().filter(|(n, vlan, port)| {
            *port < ports && model.carries(*port, *vlan) && seen.insert((*n, *vlan))
        });
        let fixed = fixed
            .map(|(n, vlan, port)| StaticMac {
                mac: mac(*n),
                vlan: *vlan,
                port: format!("p{port}"),
            })
            .collect();
        let mut plan = model.plan;
        plan.switch.static_macs = fixed;
        plan
    }
}

#[derive(Clone, Debug)]
enum Step {
    Frame { port: usize, bytes: Vec<u8> },
    Wait(u32),
    Maintain,
    Link { port: usize, up: bool },
    Configure(Setup),
}

fn vlan_mode() -> impl Strategy<Value = VlanMode> {
    let ranges = prop_oneof![
        Just(vec![(1, 3)]),
        Just(vec![(2, 2)]),
        Just(vec![(1, 1), (3, 4)]),
        Just(vec![(1, 4094)]),
    ];
    prop_oneof![
        2 => (1u16..=2).prop_map(VlanMode::Access),
        1 => (1u16..=4).prop_map(VlanMode::Access),
        2 => (ranges, proptest::option::of(1u16..=4))
            .prop_map(|(allowed, native)| VlanMode::Trunk { allowed, native }),
    ]
}

fn port_settings() -> impl Strategy<Value = PortSettings> {
    let trust = prop_oneof![3 => Just(Trust::Pcp), 1 => Just(Trust::None)];
    (vlan_mode(), proptest::bool::weighted(0.8), trust, 0u8..8).prop_map(
        |(vlan, learning, trust, priority)| PortSettings {
            vlan,
            learning,
            trust,
            priority,
            ..PortSettings::default()
        },
    )
}

fn setup() -> impl Strategy<Value = Setup> {
    let fixed = proptest::collection::vec((1u64..6, 1u16..5, 0usize..6), 0..3);
    let ageing = prop_oneof![Just(AGEINGS[0]), Just(AGEINGS[1]), Just(AGEINGS[2])];
    (proptest::collection::vec(port_settings(), 6), fixed, ageing).prop_map(
        |(ports, fixed, ageing)| Setup { ports, fixed, ageing: Duration::from_secs(ageing) },
    )
}

/// Few stations, so that they meet, move and are asked for.
fn station() -> impl Strategy<Value = MacAddr> {
    (1u64..6).prop_map(mac)
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let to = prop_oneof![
        12 => station(),
        1 => Just(MacAddr::BROADCAST),
        1 => Just(MacAddr([0x01, 0, 0x5E, 0, 0, 1])),
        1 => (0u8..20).prop_map(|n| MacAddr([0x01, 0x80, 0xC2, 0, 0, n])),
    ];
    let from = prop_oneof![
        20 => station(),
        1 => Just(MacAddr([0; 6])),
        1 => Just(MacAddr([0x03, 0, 0, 0, 0, 1])),
    ];
    // No tag, a priority tag, VLANs that some ports carry, VLANs that few do.
    let tag = prop_oneof![
        6 => Just(None),
        1 => (0u16..16).prop_map(|p| Some(p << 12)),
        5 => (0u16..16, 1u16..5).prop_map(|(p, vlan)| Some(p << 12 | vlan)),
        1 => (0u16..=u16::MAX).prop_map(Some),
    ];
    let len = prop_oneof![8 => 18usize..80, 1 => 0usize..20, 1 => 1508usize..1522];
    (to, from, tag, len, any::<u8>()).prop_map(|(to, from, tag, len, fill)| {
        let mut bytes = [to.0, from.0].concat();
        if let Some(tci) = tag {
            bytes.extend([0x81, 0x00]);
            bytes.extend(tci.to_be_bytes());
        }
        bytes.extend([0x88, 0xB5]);
        bytes.resize(len, fill);
        bytes
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (0usize..6, frame()).prop_map(|(port, bytes)| Step::Frame { port, bytes }),
        6 => (0u32..6).prop_map(Step::Wait),
        2 => (55u32..80).prop_map(Step::Wait),
        2 => Just(Step::Maintain),
        2 => (0usize..6, any::<bool>()).prop_map(|(port, up)| Step::Link { port, up }),
        1 => setup().prop_map(Step::Configure),
    ]
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn check_tables(rig: &Rig, model: &Model) {
    for worker in 0..model.plan.workers {
        for vlan in 1..=5 {
            for n in 0..7 {
                let found = rig.workers[worker].pipeline().switch().find(rig.now, vlan, mac(n));
                let expected = model.find(rig.now, worker, vlan, mac(n));
                assert_eq!(found.map(usize::from), expected, "VLAN {vlan}, {}", mac(n));
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn the_switch_does_what_the_model_does(
        ports in 2usize..=6,
        workers in 1usize..=3,
        first in setup(),
        steps in proptest::collection::vec(step(), 1..250),
    ) {
        let mut rig = first.plan(ports, workers).build();
        rig.now = Time::from_secs(1000);
        let plan = first.plan(ports, workers);
        let mut model = Model { plan, up: vec![true; ports], stations: HashMap::new() };
        for step in steps {
            match step {
                Step::Frame { port, bytes } => {
                    let port = port % ports;
                    if !model.up[port] {
                        continue;
                    }
                    let expected = model.send(rig.now, port, &bytes);
                    prop_assert_eq!(rig.send(port, &bytes), expected);
                }
                Step::Wait(ticks) => rig.now = rig.now + TICK * ticks,
                Step::Maintain => rig.maintain(),
                Step::Link { port, up } => {
                    model.set_link(port % ports, up);
                    rig.plug(port % ports, up);
                    rig.maintain();
                }
                Step::Configure(setup) => {
                    model.adopt(rig.now, &setup);
                    rig.published.store(Arc::new(model.plan.snapshot()));
                    rig.settle();
                }
            }
            check_tables(&rig, &model);
        }
        prop_assert_eq!(rig.account().held, 0);
    }
}

/// A port that is slow, narrow and limited, or not.
fn strained_port() -> impl Strategy<Value = PortSettings> {
    let rate = proptest::option::of(prop_oneof![Just(1_000_000u64), Just(37_000_000)]);
    let limit = || proptest::option::of(1u32..200);
    let queue = (1u32..12, 100u32..4000, any::<bool>());
    (port_settings(), rate, queue, limit(), limit(), limit(), 1u32..6).prop_map(
        |(settings, rate, (packets, bytes, is_deep), broadcast, multicast, unknown, macs)| {
            let mut settings = settings;
            if is_deep {
                settings.queue.order = QueueOrder::Deep;
            }
            settings.rate_bits_per_s = rate;
            settings.queue.packets = packets;
            settings.queue.bytes = bytes;
            settings.queue.ecn_bytes = Some(bytes / 2);
            settings.storm = StormSettings {
                broadcast_pps: broadcast,
                multicast_pps: multicast,
                unknown_pps: unknown,
            };
            settings.mac_limit = (macs < 4).then_some(macs);
            settings
        },
    )
}

/// What one packet that went in carries, so that it is known again: at its end, where no tag
/// moves it.
fn marked(mut bytes: Vec<u8>, number: u32) -> Vec<u8> {
    bytes.resize(bytes.len().max(40), 0);
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&number.to_be_bytes());
    bytes
}

#[derive(Clone, Debug)]
enum Strain {
    Burst {
        port: usize,
        frames: Vec<Vec<u8>>,
    },
    Wait {
        us: u64,
    },
    /// The far ends are emptied.
    Take,
    Link {
        port: usize,
        up: bool,
    },
}

fn strain() -> impl Strategy<Value = Strain> {
    prop_oneof![
        6 => (0usize..6, proptest::collection::vec(frame(), 1..40))
            .prop_map(|(port, frames)| Strain::Burst { port, frames }),
        3 => (0u64..5000).prop_map(|us| Strain::Wait { us }),
        3 => Just(Strain::Take),
        1 => (0usize..6, any::<bool>()).prop_map(|(port, up)| Strain::Link { port, up }),
    ]
}

/// What has come out so far: (number, port), and the port that each number went in by.
#[derive(Default)]
struct Seen {
    entered: Vec<usize>,
    left: HashSet<(u32, usize)>,
}

impl Seen {
    fn take(&mut self, rig: &mut Rig) {
        for (port, bytes) in rig.take() {
            let number = u32::from_be_bytes(*bytes.last_chunk().unwrap());
            assert!(self.left.insert((number, port)), "frame {number} left port {port} twice");
            assert_ne!(self.entered[number as usize], port, "frame {number} came back");
        }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn under_strain_every_packet_is_accounted_for_and_none_comes_twice(
        ports in proptest::collection::vec(strained_port(), 2..6),
        workers in 1usize..=3,
        frames in 16usize..80,
        depth in 4usize..40,
        steps in proptest::collection::vec(strain(), 1..60),
    ) {
        let mut plan = Plan::new(ports.len());
        plan.ports = ports.clone();
        plan.workers = workers;
        plan.frames = frames;
        plan.depth = depth;
        let mut rig = plan.build();
        let mut seen = Seen::default();
        let mut up = vec![true; ports.len()];
        for step in steps {
            match step {
                Strain::Burst { port, frames } => {
                    let port = port % ports.len();
                    for bytes in frames.into_iter().filter(|_| up[port]) {
                        let number = seen.entered.len() as u32;
                        if rig.try_offer(port, &marked(bytes, number)) {
                            seen.entered.push(port);
                        }
                    }
                }
                Strain::Wait { us } => rig.now = rig.now + Duration::from_micros(us),
                Strain::Take => seen.take(&mut rig),
                Strain::Link { port, up: is_in } => {
                    up[port % ports.len()] = is_in;
                    rig.plug(port % ports.len(), is_in);
                    rig.maintain();
                }
            }
            rig.settle();
            let account = rig.account();
            prop_assert!(account.balances(), "{account:?}");
        }
        // With time and room, all that waits leaves.
        for _ in 0..100_000 {
            seen.take(&mut rig);
            rig.settle();
            if rig.account().held == 0 {
                break;
            }
            let next = rig.workers.iter().map(|w| w.next_deadline()).min().unwrap();
            rig.now = if next == Time::FOREVER { rig.now } else { next.max(rig.now) };
        }
        seen.take(&mut rig);
        let account = rig.account();
        prop_assert_eq!(account.held, 0);
        prop_assert_eq!(account.sent, seen.left.len() as u64);
        let named: u64 = (0..ports.len())
            .flat_map(|p| DropReason::ALL.iter().map(move |r| (p, *r)))
            .map(|(p, r)| rig.drops(p, r))
            .sum();
        prop_assert_eq!(named, account.dropped);
    }
}
