//! When frames arrive that nodes cut through, or store and forward: chains of any rates, delays and
//! latencies against a plain formula.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use plexus_config::QueueOrder;
use plexus_sim::{Sim, SimTime};
use plexus_topo::{Device, End, Forwarding, ForwardingMode, Topology};
use plexus_traffic::Probe;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::run::{report as report_of, settle};

/// Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 42;
/// Preamble, checksum and gap.
const AROUND: u64 = 24;
const GAP: u64 = 12;
/// The least that a cut-through node has to see of a frame: preamble, addresses and type.
const HEADER: u64 = 22;

#[derive(Clone, Debug)]
struct Chain {
    /// Of the cables from the sender on: bits/s and the delay.
    cables: Vec<(u64, Duration)>,
    /// Of the nodes between them.
    nodes: Vec<Forwarding>,
    /// Payload bytes and packets of each flow.
    flows: Vec<(u16, u32)>,
}

fn chains() -> impl Strategy<Value = Chain> {
    let ns = |range: std::ops::Range<u64>| range.prop_map(Duration::from_nanos);
    let rate = prop_oneof![
        Just(100_000_000),
        Just(700_000_000),
        Just(1_000_000_000),
        Just(10_000_000_000),
    ];
    let node = (any::<bool>(), ns(0..30_000), prop::option::of(ns(0..30_000)), ns(0..8_000));
    let node = node.prop_map(|(early, latency, host_latency, per_kilobyte)| match early {
        true => Forwarding::cut_through(latency, host_latency.unwrap_or(latency)),
        false => Forwarding { host_latency, ..Forwarding::stored(latency, per_kilobyte) },
    });
    (1usize..5).prop_flat_map(move |nodes| {
        let cables = prop::collection::vec((rate.clone(), ns(0..20_000)), nodes + 1);
        let nodes = prop::collection::vec(node.clone(), nodes);
        let flows = prop::collection::vec((18u16..1472, 1u32..12), 1..5);
        (cables, nodes, flows).prop_map(|(cables, nodes, flows)| Chain { cables, nodes, flows })
    })
}

impl Chain {
    fn topology(&self) -> Topology {
        let last = self.nodes.len();
        let mut text = String::from("name = \"chain\"\n");
        text += &(1..=last).map(|n| format!("[[node]]\nname = \"n{n}\"\n")).collect::<String>();
        for h in 1..=2 {
            text += &format!("[[host]]\nname = \"h{h}\"\naddress = \"10.0.0.{h}/24\"\n");
        }
        let name = |at: usize, side: &str| match at {
            0 => "h1".to_string(),
            at if at > last => "h2".to_string(),
            at => format!("n{at}.{side}"),
        };
        for (i, (rate, delay)) in self.cables.iter().enumerate() {
            text += &format!(
                "[[link]]\nends = [\"{}\", \"{}\"]\nrate = \"{rate}bit\"\ndelay = \"{}ns\"\n",
                name(i, "b"),
                name(i + 1, "a"),
                delay.as_nanos()
            );
        }
        for (f, (size, count)) in self.flows.iter().enumerate() {
            text += &format!(
                "[[traffic]]\nname = \"f{f}\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"udp\"\n\
                 rate = \"200Mbit\"\nsize = {size}\ncount = {count}\n"
            );
        }
        let mut topology = Topology::parse("chain.toml", &text).unwrap();
        for (node, forwarding) in topology.nodes.iter_mut().zip(&self.nodes) {
            node.forwarding = *forwarding;
            // The formula's order.
            node.ports.iter_mut().for_each(|p| p.settings.queue.order = QueueOrder::Fifo);
        }
        topology
    }

    fn end(&self, node: usize) -> End {
        // Links name a node's port towards the sender first.
        End::Port { node, port: 0 }
    }

    /// When a frame of `len` bytes arrives that the first node takes up at `at`. `busy`: until when
    /// each node's cable is busy, and when the device behind it took up its last frame.
    fn naive(&self, at: u64, len: usize, busy: &mut [(u64, u64)]) -> u64 {
        let ps = |d: Duration| d.as_nanos() as u64 * 1_000;
        let bytes = (len as u64).max(60);
        let time = |bytes: u64, rate: u64| (bytes * 8_000_000_000_000).div_ceil(rate);
        let mut taken_up = at;
        for (node, busy) in busy.iter_mut().enumerate() {
            let (rate, delay) = self.cables[node + 1];
            let start = taken_up.max(busy.0);
            busy.0 = start + time(bytes + AROUND, rate);
            let first = start + ps(delay);
            let last = first + time(bytes + AROUND - GAP, rate);
            taken_up = match self.nodes.get(node + 1) {
                None => last,
                Some(next) => {
                    let is_slow = rate < self.cables[node + 2].0;
                    let latency = ps(next.latency).max(time(HEADER, rate));
                    match (next.mode, is_slow) {
                        (ForwardingMode::StoreAndForward, _) => {
                            last + ps(next.latency)
                                + ps(next.per_kilobyte) * (len as u64 + 4) / 1_000
                        }
                        (ForwardingMode::CutThrough, false) => first + latency,
                        (ForwardingMode::CutThrough, true) => last.max(first + latency),
                    }
                }
            };
            // A frame that takes less time does not overtake.
            taken_up = taken_up.max(busy.1);
            busy.1 = taken_up;
        }
        taken_up
    }
}

/// What is seen of each frame, in order: flow and number, when, and how long it is.
type Seen = Arc<Mutex<Vec<((u32, u64), SimTime, usize)>>>;

fn watch(sim: &mut Sim, end: End) -> Seen {
    let seen = Seen::default();
    let noted = seen.clone();
    sim.watch(end, move |at, bytes| {
        if let Some(probe) = bytes.get(HEADERS..).and_then(Probe::decode) {
            noted.lock().unwrap().push(((probe.flow, probe.sequence), at, bytes.len()));
        }
    });
    seen
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn frames_arrive_when_the_formula_says(chain in chains()) {
        let topology = chain.topology();
        let mut sim = Sim::new(&topology, 1).unwrap();
        let first = watch(&mut sim, chain.end(0));
        let last = watch(&mut sim, End::Host { host: 1, interface: 0 });
        prop_assert!(sim.settle(|_| true));
        sim.run(|_| true);
        let sent: u64 = chain.flows.iter().map(|(_, count)| u64::from(*count)).sum();
        let (first, last) = (first.lock().unwrap(), last.lock().unwrap());
        prop_assert_eq!((first.len() as u64, last.len() as u64), (sent, sent));
        let mut busy = vec![(0, 0); chain.nodes.len()];
        for (id, at, len) in first.iter() {
            let expected = chain.naive(at.as_picos(), *len, &mut busy);
            let (_, arrived, _) = last.iter().find(|(other, ..)| other == id).unwrap();
            let arrived = arrived.as_picos();
            // A node's transmit queue counts in nanoseconds, both when it begins and how long it
            // takes.
            let resolution = 2_000 * chain.nodes.len() as u64;
            prop_assert!(arrived.abs_diff(expected) <= resolution, "{arrived} not {expected}");
        }
    }
}

/// Hosts at the ends of a fabric of native cables of 1 Gbit/s, and what happens on the way.
fn fabric(nodes: usize, forwarding: Forwarding, more: &str) -> Topology {
    let mut text = String::from("name = \"line\"\nassert = [\"conserved == true\"]\n");
    for n in 1..=nodes {
        text += &format!("[[node]]\nname = \"n{n}\"\nnative = true\n");
    }
    text += "[[controller]]\nname = \"c1\"\non = \"n1\"\n\
        [[controller.subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n";
    for h in 1..=2 {
        text += &format!("[[host]]\nname = \"h{h}\"\naddress = \"10.0.0.{h}/24\"\n");
    }
    let link = |a: String, b: String| {
        format!("[[link]]\nends = [\"{a}\", \"{b}\"]\nrate = \"1Gbit\"\nmtu = 2000\n")
    };
    for n in 1..nodes {
        text += &link(format!("n{n}.b"), format!("n{}.a", n + 1));
    }
    text += &(link("h1".into(), "n1.h".into()) + &link("h2".into(), format!("n{nodes}.h")));
    let mut topology = Topology::parse("line.toml", &(text + more)).unwrap();
    topology.nodes.iter_mut().for_each(|n| n.forwarding = forwarding);
    topology
}

const FLOW: &str = "[[traffic]]\nname = \"u\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"udp\"\n\
    rate = \"8Mbit\"\nsize = 1000\nduration = \"1s\"\n";

#[test]
fn a_damaged_frame_is_dropped_where_it_is_first_whole() {
    let ns = Duration::from_nanos;
    let trouble = "[[event]]\nkind = \"corrupt\"\nchance = 0.1\nport = \"n2.a\"\n";
    let run = |forwarding| {
        let topology = fabric(3, forwarding, &(FLOW.to_string() + trouble));
        assert_eq!(topology.nodes[0].ports.len(), 2);
        let report = report_of(&topology);
        assert!(report.facts.passed, "{report}");
        report
    };
    let note = |report: &plexus_report::RunReport, what: &str| -> u64 {
        let note = report.notes.iter().find(|n| n.contains(what)).map_or("", String::as_str);
        note.split(' ').find_map(|word| word.parse().ok()).unwrap_or(0)
    };
    let stored = run(Forwarding::default());
    let at_nodes = stored.facts.drops["bad_fcs"];
    let damaged = note(&stored, "cables damaged");
    assert!((70..130).contains(&damaged) && at_nodes == damaged, "{stored}");
    assert_eq!(note(&stored, "hosts and controllers"), 0, "{stored}");
    // Heartbeats end at the next node all the same; the rest travels on.
    let early = run(Forwarding::cut_through(ns(520), ns(720)));
    let (at_nodes, at_hosts) =
        (early.facts.drops["bad_fcs"], note(&early, "hosts and controllers"));
    assert!(at_hosts > 70 && at_nodes < 30, "{early}");
    // A wrong bit in a header leads a few astray: their nodes drop them for that.
    let astray = note(&early, "cables damaged") - at_nodes - at_hosts;
    let dropped: u64 = early.facts.drops.values().sum();
    assert!(astray <= 5 && dropped - at_nodes >= astray, "{early}");
}

#[test]
fn control_frames_are_heard_whole_and_the_fabric_stands() {
    let ns = Duration::from_nanos;
    let topology = fabric(5, Forwarding::cut_through(ns(520), ns(720)), FLOW);
    let mut sim = Sim::new(&topology, 1).unwrap();
    let far = watch(&mut sim, End::Host { host: 1, interface: 0 });
    assert_eq!(topology.links[5].devices()[0], Device::Host(1));
    settle(&mut sim);
    sim.run(|_| true);
    let seen = far.lock().unwrap().len();
    let report = sim.report();
    assert!(report.facts.passed && report.facts.flows[0].loss == 0.0, "{report}");
    assert_eq!(seen, 1000);
    // The frame's own 8.4 us, 720 ns and four times 520 ns.
    let p50 = report.facts.flows[0].latency_us_p50.unwrap();
    let exact = (1042.0 + 12.0) * 0.008 + 0.72 + 4.0 * 0.52;
    assert!((p50 - exact).abs() < 0.02, "{p50} not {exact}\n{report}");
}

#[test]
fn damaged_frames_that_wait_are_known_as_such_when_another_link_goes_down() {
    // A burst fills the queues to h2 and h3; then the cable of h3 is pulled out, or not.
    let received = |cut: &str| {
        let mut text = String::from("name = \"star\"\n[[node]]\nname = \"n1\"\n");
        for (h, rate) in [(1, "1Gbit"), (2, "100Mbit"), (3, "100Mbit")] {
            text += &format!(
                "[[host]]\nname = \"h{h}\"\naddress = \"10.0.0.{h}/24\"\n\
                 [[link]]\nends = [\"h{h}\", \"n1.p{h}\"]\nrate = \"{rate}\"\n"
            );
        }
        for h in 2..=3 {
            let flow = FLOW.replace("duration = \"1s\"", "count = 200");
            text += &flow
                .replace("\"u\"", &format!("\"u{h}\""))
                .replace("h2", &format!("h{h}"))
                .replace("8Mbit", "400Mbit");
        }
        text += "[[event]]\nkind = \"corrupt\"\nchance = 0.3\nport = \"n1.p1\"\n";
        let mut topology = Topology::parse("star.toml", &(text + cut)).unwrap();
        let ns = Duration::from_nanos;
        topology.nodes[0].forwarding = Forwarding::cut_through(ns(520), ns(520));
        let report = report_of(&topology);
        assert!(report.accounts.values().all(|a| a.balances()), "{report}");
        report.facts.flows.iter().map(|f| f.loss).collect::<Vec<_>>()
    };
    let whole = received("");
    assert!((0.2..0.4).contains(&whole[0]) && (0.2..0.4).contains(&whole[1]), "{whole:?}");
    let cut = received("[[event]]\nkind = \"carrier\"\ncut = \"n1.p3\"\nat = \"6ms\"\n");
    assert_eq!(cut[0], whole[0]);
    assert!(cut[1] > 0.5, "{cut:?}");
}
