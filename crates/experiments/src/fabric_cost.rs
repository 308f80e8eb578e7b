//! What its own messages cost a fabric: a simulated network without traffic, whose cables count.

use std::time::Duration;

use plexus_config::{ControllerSettings, RoutePolicy};
use plexus_report::Failure;
use plexus_sim::{Sim, SimTime, Traffic};
use plexus_topo::{
    ArpLoad, ArpTargets, Controller, Device, End, Fidelity, Options, Shape, Topology, generate,
};

use super::report::Spread;

/// Bits of a frame's checksum, which is on the cable and not in a frame's length.
const CHECKSUM_BITS: u64 = 32;
/// Room for the longest header, as in the labs.
const MTU: u16 = 2000;

/// A network's shape with a name, and how many hosts it has.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) hosts: usize,
    /// Controllers, far from each other, the first at the first node.
    pub(super) controllers: usize,
}

impl Case {
    /// Its devices and cables.
    pub(super) fn topology(&self) -> Result<Topology, Failure> {
        let options = Options { hosts_total: Some(self.hosts), ..Options::default() };
        let mut topology = generate(&self.shape, options).map_err(Failure::unusable)?;
        topology.links.iter_mut().for_each(|link| link.mtu = MTU);
        let nodes = topology.nodes.len();
        topology.controllers.extend((0..self.controllers).map(|number| {
            let name = match self.controllers {
                1 => "controller".to_string(),
                _ => format!("c{}", number + 1),
            };
            let node = number * nodes / self.controllers;
            Controller { name, node, settings: ControllerSettings::default() }
        }));
        Ok(topology)
    }
}

/// What is between the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// A fabric.
    Plexus,
    /// PortLand; hosts announce themselves before they ask, or do not.
    PortLand { announce: bool },
    /// Bridges with spanning tree and room for so many stations, between hosts that say nothing
    /// before they ask: a bridge learns who asks from the question, and nothing else is flooded.
    SpanningTree { stations: usize },
}

/// A fabric, its controller at the first node, or what it is compared with.
pub(super) struct Fabric {
    pub(super) sim: Sim,
    pub(super) nodes: usize,
    /// One end of each cable between nodes.
    pub(super) links: Vec<End>,
    /// Of what [`Sim::traffic`] says, in order: whether it is of such a cable.
    between_nodes: Vec<bool>,
}

/// What left by each direction of each cable between nodes, and by the controller's, in bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits {
    pub(super) links: Vec<u64>,
    /// To each controller, and from it.
    pub(super) controllers: Vec<[u64; 2]>,
}

impl Fabric {
    /// A case's fabric, in which nothing has happened yet. Its hosts have addresses and announce
    /// them; cables of 10 Gbit/s are never full, and what is counted does not depend on them.
    /// Routes are shortest paths, one for each direction, as the paper's are.
    pub(super) fn new(case: &Case, seed: u64) -> Result<Fabric, Failure> {
        Fabric::build(case, seed, Network::Plexus, RoutePolicy::Shortest)
    }

    /// The same with routes by a policy.
    pub(super) fn with_policy(
        case: &Case,
        seed: u64,
        policy: RoutePolicy,
    ) -> Result<Fabric, Failure> {
        Fabric::build(case, seed, Network::Plexus, policy)
    }

    /// The same hosts and cables with something else between them.
    pub(super) fn of(case: &Case, seed: u64, network: Network) -> Result<Fabric, Failure> {
        Fabric::build(case, seed, network, RoutePolicy::Shortest)
    }

    fn build(
        case: &Case,
        seed: u64,
        network: Network,
        policy: RoutePolicy,
    ) -> Result<Fabric, Failure> {
        let mut topology = case.topology()?;
        topology.controllers.iter_mut().for_each(|c| c.settings.policy = policy);
        let nodes = topology.nodes.len();
        let sim = match network {
            Network::Plexus => Sim::new(&topology, seed),
            Network::PortLand { announce } => Sim::portland(&topology, seed, announce),
            Network::SpanningTree { stations } => {
                topology = topology.as_spanning_tree();
                // No cable is ever full, and a flood has a copy for each.
                topology.fidelity = Fidelity::Control;
                Sim::quiet(&topology, seed, stations)
            }
        };
        let sim = sim.map_err(Failure::unusable)?;
        let between_nodes: Vec<bool> = topology
            .cables()
            .flat_map(|(_, _, ends)| {
                let is_link = ends.iter().all(|end| !matches!(end.device(), Device::Host(_)));
                [is_link; 2]
            })
            .collect();
        let cables = topology.cables().map(|(_, _, ends)| ends[0]);
        let links: Vec<End> = cables
            .zip(between_nodes.iter().step_by(2))
            .filter(|(_, is)| **is)
            .map(|(end, _)| end)
            .collect();
        Ok(Fabric { sim, nodes, links, between_nodes })
    }

    /// Lets it find itself, and its hosts be known.
    pub(super) fn settle(&mut self, mut say: impl FnMut(&Sim)) -> Result<(), Failure> {
        let is_settled = self.sim.settle(|sim| {
            say(sim);
            true
        });
        match is_settled {
            true => Ok(()),
            false => Err(Failure::No(format!("not settled: {:?}", self.sim.unsettled()))),
        }
    }

    /// Goes on for so long.
    pub(super) fn run_for(&mut self, time: impl Into<SimTime>) {
        let until = self.sim.work().time + time.into();
        self.sim.run_until(until);
    }

    /// What has been sent so far.
    pub(super) fn bits(&self) -> Bits {
        let mut bits = Bits::default();
        let mut cables = self.sim.traffic();
        for (is_link, (_, sent)) in self.between_nodes.iter().zip(&mut cables) {
            if *is_link {
                bits.links.push(sent.bytes * 8 + sent.frames * CHECKSUM_BITS);
            }
        }
        let of = |sent: &Traffic| sent.bytes * 8 + sent.frames * CHECKSUM_BITS;
        while let (Some((_, to)), Some((_, from))) = (cables.next(), cables.next()) {
            bits.controllers.push([of(&to), of(&from)]);
        }
        bits
    }
}

/// Questions of each host in a second (`axon.txt` §5.4).
pub(super) const ARP_PER_S: f64 = 10.0;
/// Until hosts have announced their addresses for the last time.
const QUIET: Duration = Duration::from_secs(3);

/// Mbit/s in each direction of each link of a network, two of each controller last.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// While nobody asks.
    pub(super) anyhow: Vec<f64>,
    /// Because hosts ask: scaled from these questions to [`ARP_PER_S`] of each.
    pub(super) arp: Vec<f64>,
    /// Questions put.
    pub(super) asked: u64,
    /// Half of them were answered within so many microseconds.
    pub(super) answer_us: f64,
}

impl Fabric {
    /// Lets hosts that announce themselves do so, then has every one of `hosts` ask `rate` times in
    /// a second for `asks`, and measures before and after that for `period`, or as many of them as
    /// it takes to answer all.
    pub(super) fn ask(
        &mut self,
        hosts: usize,
        rate: f64,
        asks: Duration,
        period: Duration,
        mut say: impl FnMut(&str),
    ) -> Result<Load, Failure> {
        say("until nobody announces itself");
        self.run_for(QUIET);
        say("keep-alives");
        let quiet = self.bits();
        self.run_for(period);
        let before = self.bits();
        let beats = before.since(&quiet);
        say("hosts ask");
        let known = self.sim.resolutions();
        let (asked_before, answered_before) = (known.asked, known.latency_ns.len());
        let targets = ArpTargets::Random;
        self.sim.begin_arp(&ArpLoad { per_host_per_s: rate, lasts: asks, targets });
        let mut periods = 0;
        while periods == 0 || self.sim.resolutions().open() > 0 {
            self.run_for(period);
            periods += 1;
        }
        let known = self.sim.resolutions();
        if known.given_up > 0 {
            return Err(Failure::No(format!("{} questions found no answer", known.given_up)));
        }
        let asked = known.asked - asked_before;
        let answers = known.latency_ns[answered_before..].iter().map(|ns| *ns as f64 / 1e3);
        let answer_us = Spread::of(answers).median;
        // From what these questions cost to what ten of each host in a second do.
        let scale = ARP_PER_S * hosts as f64 / asked as f64;
        let anyhow = rates(&beats, &Bits::default(), 0.0, 1.0 / period.as_secs_f64());
        let arp = rates(&self.bits().since(&before), &beats, f64::from(periods), scale);
        Ok(Load { anyhow, arp, asked, answer_us })
    }
}

/// Mbit/s of each direction, two of each controller last: what was sent, less so many times what
/// `beats` says, times `scale`.
fn rates(sent: &Bits, beats: &Bits, times: f64, scale: f64) -> Vec<f64> {
    let of = |bits: &Bits| -> Vec<u64> {
        bits.links.iter().chain(bits.controllers.as_flattened()).copied().collect()
    };
    let beats = of(beats).into_iter().chain(std::iter::repeat(0));
    let less = |(sent, beats): (u64, u64)| (sent as f64 - beats as f64 * times) * scale / 1e6;
    of(sent).into_iter().zip(beats).map(less).collect()
}

impl Bits {
    /// What was sent since.
    pub(super) fn since(&self, before: &Bits) -> Bits {
        let links = self.links.iter().zip(&before.links).map(|(now, then)| now - then);
        let controllers = self.controllers.iter().zip(&before.controllers);
        let controllers = controllers.map(|(now, then)| [now[0] - then[0], now[1] - then[1]]);
        Bits { links: links.collect(), controllers: controllers.collect() }
    }

    /// Of the directions of links, per direction.
    pub(super) fn mean(&self) -> f64 {
        self.links.iter().sum::<u64>() as f64 / self.links.len().max(1) as f64
    }

    /// Of the busiest direction of a link between nodes.
    pub(super) fn most(&self) -> f64 {
        self.links.iter().copied().max().unwrap_or(0) as f64
    }
}

/// The torus of the seed with so many nodes: rings of 100 if there are enough, for a mean route of
/// 28.469 (table 2) is that of 10 such rings.
pub(super) fn torus(nodes: usize) -> Shape {
    let ring = if nodes >= 1000 { 100 } else { 10 };
    Shape::Torus { sides: vec![nodes / ring, ring] }
}
