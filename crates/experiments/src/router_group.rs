//! Routers of several boxes in a lab, between sources and sinks, as in figure 6 of
//! distributed-router.txt, and what they forward of what is offered. Every box has the same quota
//! of processor time; test machines have none.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use plexus_benches::ndr::trial::{HEARS, Running};
use plexus_lab::{NodeProgram, Tied};
use plexus_topo::Topology;
use serde_json::Value;

use super::report::Spread;
use super::rig::{Scratch, number, received_once};
use super::router_bench::{mac, sample};

/// How often packets are tried until the first ones come through.
const TRIES: usize = 10;
/// Packets/s at which latency is measured: no box has a backlog.
pub(super) const IDLE_PPS: u64 = 1_000;
/// Runs of a latency, and attempts if a quick look at it hears nothing.
const LATENCY_RUNS: usize = 3;
/// Destinations of each source in "few flows".
pub(super) const FEW: usize = 24;
/// Boxes of the first of two stages.
pub(super) const FRONTS: usize = 2;
/// The group's Ethernet address.
pub(super) const GROUP: &str = "02:50:4c:58:00:01";

/// A box of the second of two stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Back {
    /// Its quota, in hundredths of a processor.
    pub(super) percent: u32,
    /// Its weight as a forwarder.
    pub(super) weight: u32,
}

/// Which boxes there are, and where the test machines are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// One box with two sources and two sinks.
    Single,
    /// Two boxes, each with a source and a sink.
    Pair,
    /// The paper's four boxes: sinks at the first two, sources at the others.
    Star,
    /// Four boxes, each with a source and a sink.
    Quad,
    /// Three boxes in a line: a source at the first, a sink at each.
    Line,
    /// Two front boxes, each with a source and a sink, and these back boxes behind them, which are
    /// the group's forwarders. Front boxes are cabled to back boxes only.
    Stages(&'static [Back]),
}

impl Layout {
    pub(super) fn name(self) -> &'static str {
        match self {
            Layout::Single => "one box",
            Layout::Pair => "two boxes",
            Layout::Star => "four boxes, the paper's star",
            Layout::Quad => "four boxes",
            Layout::Line => "a line",
            Layout::Stages(_) => "two stages",
        }
    }

    pub(super) fn boxes(self) -> usize {
        match self {
            Layout::Single => 1,
            Layout::Pair => 2,
            Layout::Star | Layout::Quad => 4,
            Layout::Line => 3,
            Layout::Stages(backs) => FRONTS + backs.len(),
        }
    }

    /// The box of each source.
    pub(super) fn sources(self) -> &'static [usize] {
        match self {
            Layout::Single => &[0, 0],
            Layout::Pair | Layout::Stages(_) => &[0, 1],
            Layout::Star => &[2, 3],
            Layout::Quad => &[0, 1, 2, 3],
            Layout::Line => &[0],
        }
    }

    /// The box of each sink.
    pub(super) fn sinks(self) -> &'static [usize] {
        match self {
            Layout::Single => &[0, 0],
            Layout::Pair | Layout::Star | Layout::Stages(_) => &[0, 1],
            Layout::Quad => &[0, 1, 2, 3],
            Layout::Line => &[0, 1, 2],
        }
    }

    /// Boxes that are cabled to each other.
    fn cables(self) -> Vec<(usize, usize)> {
        let all = (0..self.boxes()).flat_map(|b| (0..b).map(move |a| (a, b)));
        all.filter(|(a, b)| match self {
            Layout::Line => a + 1 == *b,
            Layout::Stages(_) => *a < FRONTS && *b >= FRONTS,
            _ => true,
        })
        .collect()
    }
}

/// How the boxes are one router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The group's router: the first box routes, the others pass on.
    Group,
    /// Each box is a router by itself, as in the paper: every box routes.
    Naive,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// One flow, from the first source to this sink.
    One(usize),
    /// A flow from each source to the sink of the same number.
    Each,
    /// [`FEW`] flows from each source, all to the sink of the same number.
    Few,
    /// From every source to destinations all over the table.
    Many,
}

/// A meter's counts of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) sink: usize,
    /// Its number among the flows of its source.
    pub(super) number: u64,
    pub(super) received: u64,
    pub(super) lost: u64,
    pub(super) reordered: u64,
}

/// What came of a run: packets per second of each source and each sink.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) offered: Vec<f64>,
    pub(super) received: Vec<f64>,
    /// Median latency at the first sink that heard something.
    pub(super) latency_us: Option<f64>,
    /// The first thousand flows at each sink.
    pub(super) flows: Vec<Flow>,
}

impl Outcome {
    pub(super) fn offered(&self) -> f64 {
        self.offered.iter().sum()
    }

    pub(super) fn received(&self) -> f64 {
        self.received.iter().sum()
    }
}

/// What the boxes are built of.
pub(super) struct Plan<'a> {
    pub(super) kind: Kind,
    pub(super) layout: Layout,
    pub(super) table: &'a [(Ipv4Addr, u8)],
    /// Routes to take from the table.
    pub(super) routes: usize,
    /// Processors of each box but back boxes, which have their own; `None`: no quota.
    pub(super) cpu: Option<f64>,
    pub(super) fast: Fast,
}

/// The boxes whose kernel takes flows over, as it does unless a box's file says otherwise. Its work
/// is in no quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fast {
    No,
    Fronts,
    All,
}

impl Fast {
    pub(super) fn all(is_on: bool) -> Fast {
        if is_on { Fast::All } else { Fast::No }
    }
}

/// A router that is up; it ends with the value.
pub(super) struct Rig {
    lab: Tied,
    dir: Scratch,
    kind: Kind,
    layout: Layout,
}

impl Rig {
    /// Builds the boxes and waits until packets come through.
    pub(super) fn up(plan: &Plan<'_>, say: &mut dyn FnMut(&str)) -> Result<Rig, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("router-{}-{number}", std::process::id());
        let dir = Scratch::new("router")?;
        let lab = build(plan, &name, &dir, say)?;
        let rig = Rig { lab, dir, kind: plan.kind, layout: plan.layout };
        rig.introduce()?;
        let first = Duration::from_millis(100);
        let mut heard = Vec::new();
        for _ in 0..TRIES {
            let load = if plan.layout == Layout::Line { Load::One(2) } else { Load::Each };
            heard = rig.run(load, 64, 1000, first)?.received;
            if heard.iter().all(|r| *r > 0.0) {
                return Ok(rig);
            }
        }
        Err(format!("no packets come through {}: {heard:?}", plan.layout.name()))
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// The lab's name.
    pub(super) fn name(&self) -> &str {
        self.lab.name()
    }

    /// Every test machine says where it is, and learns where its gateway is.
    fn introduce(&self) -> Result<(), String> {
        let sources = (0..self.layout.sources().len()).map(|i| (format!("s{i}"), source(i)));
        let sinks = (0..self.layout.sinks().len()).map(|i| (format!("d{i}"), sink(i)));
        for (host, network) in sources.chain(sinks) {
            let gateway = format!("{network}.1");
            if !(0..TRIES).any(|_| self.pings(&host, &gateway, 64)) {
                return Err(format!("{host} does not reach its gateway"));
            }
        }
        Ok(())
    }

    /// Whether an answer comes to a ping with this time to live.
    fn pings(&self, host: &str, to: &str, ttl: u32) -> bool {
        let mut own = self.inside(host, "ping");
        own.args(["-n", "-c", "1", "-W", "1", "-t", &ttl.to_string(), to]);
        own.stdout(Stdio::null()).stderr(Stdio::null());
        own.status().is_ok_and(|status| status.success())
    }

    /// How many routers there are from the first source to the first sink, by the least time to
    /// live with which a packet arrives.
    pub(super) fn hops(&self) -> Option<u32> {
        let to = format!("{}.2", sink(0));
        (1..8).find(|ttl| self.pings("s0", &to, *ttl)).map(|ttl| ttl - 1)
    }

    pub(super) fn inside(&self, host: &str, program: &str) -> Command {
        let own = std::env::current_exe().unwrap_or_else(|_| "plexus".into());
        let mut command = Command::new(&own);
        command.args(["lab", "exec", self.lab.name(), host, "--"]);
        match program {
            "plexus" => command.arg(own),
            other => command.arg(other),
        };
        command
    }

    /// The latency of one flow from the first source to each of the first `N` sinks: the median of
    /// the medians of [`LATENCY_RUNS`] runs, in microseconds; that of the first run that packets
    /// came through if it is quick. A run that no packet came through is a doubt.
    pub(super) fn latencies_us<const N: usize>(
        &self,
        size: u32,
        time: Duration,
        is_quick: bool,
        doubts: &mut Vec<String>,
    ) -> Result<[f64; N], String> {
        let way = |sink| format!("{}, from source 0 to sink {sink}", self.layout.name());
        let mut medians = [const { Vec::new() }; N];
        for run in 1..=LATENCY_RUNS {
            for (sink, medians) in medians.iter_mut().enumerate() {
                if is_quick && !medians.is_empty() {
                    continue;
                }
                let outcome = self.run(Load::One(sink), size, IDLE_PPS, time)?;
                medians.extend(outcome.latency_us);
                if outcome.latency_us.is_none() {
                    doubts.push(format!(
                        "{}: none of {:.0} packets/s came through in run {run} of {LATENCY_RUNS}",
                        way(sink),
                        outcome.offered()
                    ));
                }
            }
        }
        match medians.iter().position(Vec::is_empty) {
            Some(sink) => Err(format!("{}: no packets come through", way(sink))),
            None => Ok(medians.map(|medians| Spread::of(medians).median)),
        }
    }

    /// Offers packets for a time: `size` is the frame's on a cable, FCS included; `pps` of each
    /// source. A box's queue may hold a second of its work, so what it forwards is counted until
    /// the last packet has come, and divided by all of that time.
    pub(super) fn run(
        &self,
        load: Load,
        size: u32,
        pps: u64,
        time: Duration,
    ) -> Result<Outcome, String> {
        self.run_while(load, size, pps, time, || Ok(()))
    }

    /// The same. `meanwhile` is called as soon as the generators are started.
    pub(super) fn run_while(
        &self,
        load: Load,
        size: u32,
        pps: u64,
        time: Duration,
        meanwhile: impl FnOnce() -> Result<(), String>,
    ) -> Result<Outcome, String> {
        let limit = format!("{}ms", (time + Duration::from_secs(6)).as_millis());
        let sinks = match load {
            Load::One(sink) => sink..sink + 1,
            Load::Each | Load::Few | Load::Many => 0..self.layout.sinks().len(),
        };
        let first_sink = sinks.start;
        let mut meters = Vec::new();
        for i in sinks {
            let mut meter = self.inside(&format!("d{i}"), "plexus");
            let words = "meter eth0 --json --backend xdp --interval 20ms --idle 600ms --duration";
            meter.args(words.split_whitespace()).arg(&limit);
            let meter = Running::start(meter, "the meter")?;
            meter.ready(HEARS)?;
            meters.push(meter);
        }
        let sources = if matches!(load, Load::One(_)) { 1 } else { self.layout.sources().len() };
        let mut generators = Vec::new();
        for i in 0..sources {
            let next = match self.kind {
                Kind::Group => GROUP.to_string(),
                Kind::Naive => box_mac(i),
            };
            let mut generator = self.inside(&format!("s{i}"), "plexus");
            let words = format!(
                "gen eth0 --json --backend af_xdp --src-mac {} --dst-mac {next} --src-ip {}.2 \
                 --size {size} --rate {pps}pps --duration {}ms",
                mac("s", i),
                source(i),
                time.as_millis()
            );
            generator.args(words.split_whitespace());
            match load {
                Load::One(sink) => generator.args(["--dst-ip", &target(sink)]),
                Load::Each => generator.args(["--dst-ip", &target(i)]),
                Load::Few => generator.arg("--destinations").arg(self.dir.join(&format!("few{i}"))),
                Load::Many => generator.arg("--destinations").arg(self.dir.join("destinations")),
            };
            generators.push(Running::start(generator, "the generator")?);
        }
        meanwhile()?;
        let mut outcome = Outcome::default();
        for generator in generators {
            outcome.offered.push(number(&generator.finish()?, "/packets_per_s")?);
        }
        let mut seconds = time.as_secs_f64();
        for (sink, meter) in (first_sink..).zip(meters) {
            let heard = meter.finish()?;
            let flows = heard.get("flows").and_then(Value::as_array).into_iter().flatten();
            outcome.flows.extend(flows.map(|flow| {
                let count = |name: &str| flow.get(name).and_then(Value::as_u64).unwrap_or(0);
                Flow {
                    sink,
                    number: count("flow"),
                    received: count("received"),
                    lost: count("lost"),
                    reordered: count("reordered"),
                }
            }));
            outcome.received.push(received_once(&heard)?);
            seconds = seconds.max(number(&heard, "/total/seconds").unwrap_or(0.0));
            let median = number(&heard, "/total/latency/p50_ns").ok().map(|ns| ns / 1e3);
            outcome.latency_us = outcome.latency_us.or(median);
        }
        outcome.received.iter_mut().for_each(|packets| *packets /= seconds);
        Ok(outcome)
    }
}

/// The first three bytes of a source's and a sink's addresses.
pub(super) fn source(i: usize) -> String {
    format!("10.0.{i}")
}

fn sink(i: usize) -> String {
    format!("10.1.{i}")
}

/// The destination of a sink's few flows.
pub(super) fn few(sink: usize, flow: usize) -> String {
    format!("198.18.{sink}.{}", 1 + flow)
}

/// A destination beyond a sink.
fn target(sink: usize) -> String {
    format!("198.18.{sink}.1")
}

/// A naive box's address on the cable to a source.
fn box_mac(source: usize) -> String {
    format!("02:00:00:00:30:0{source}")
}

/// The routes that a plan takes of its table, each to a sink, and destinations in them.
fn routes(plan: &Plan<'_>) -> (Vec<(Ipv4Addr, u8)>, String) {
    let sinks = plan.layout.sinks().len();
    // A multiple of the sinks, so that the targets below lead to the right ones.
    let sampled = plan.routes.saturating_sub(sinks) / sinks * sinks;
    let (mut chosen, destinations) = sample(plan.table, sampled);
    chosen.extend((0..sinks).map(|i| (Ipv4Addr::new(198, 18, i as u8, 0), 24)));
    (chosen, destinations)
}

fn build(
    plan: &Plan<'_>,
    name: &str,
    dir: &Scratch,
    say: &mut dyn FnMut(&str),
) -> Result<Tied, String> {
    let (chosen, destinations) = routes(plan);
    dir.write("destinations", destinations.as_bytes())?;
    for sink in 0..plan.layout.sinks().len() {
        let lines: Vec<String> = (0..FEW).map(|flow| few(sink, flow) + "\n").collect();
        dir.write(&format!("few{sink}"), lines.concat().as_bytes())?;
    }
    let mut files = Vec::new();
    for of in 0..if plan.kind == Kind::Group { 1 } else { plan.layout.boxes() } {
        let mut lines = String::with_capacity(chosen.len() * 32);
        for (i, (address, len)) in chosen.iter().enumerate() {
            let to = i % plan.layout.sinks().len();
            let via = match plan.kind {
                Kind::Group => format!("{}.2", sink(to)),
                Kind::Naive => naive_via(plan.layout, of, plan.layout.sinks()[to], &sink(to)),
            };
            let _ = writeln!(lines, "{address}/{len} {via}");
        }
        if plan.kind == Kind::Naive {
            naive_networks(plan.layout, of, &mut lines);
        }
        let file = dir.write(&format!("r{of}.routes"), lines.as_bytes())?;
        files.push(file.display().to_string());
    }
    let text = topology(plan, name, &files);
    let topology = Topology::parse_to_run(name, &text, None).map_err(|e| e.to_string())?;
    Tied::of(topology, name, NodeProgram::Plexus, say).map_err(|e| e.to_string())
}

/// The number of the cable between two boxes, which is in its network.
fn cable(a: usize, b: usize) -> usize {
    a.min(b) * 8 + a.max(b)
}

/// Where box `from` sends what a sink or source at box `to` gets.
fn naive_via(layout: Layout, from: usize, to: usize, network: &str) -> String {
    // In a line by the next box.
    let next = match layout {
        Layout::Line if to > from => from + 1,
        Layout::Line if to < from => from - 1,
        _ => to,
    };
    match from == to {
        true => format!("{network}.2"),
        false => format!("10.2.{}.{}", cable(from, next), 1 + next),
    }
}

/// The networks of test machines at other boxes.
fn naive_networks(layout: Layout, of: usize, lines: &mut String) {
    let sources = layout.sources().iter().enumerate().map(|(i, at)| (source(i), *at));
    let sinks = layout.sinks().iter().enumerate().map(|(i, at)| (sink(i), *at));
    for (network, at) in sources.chain(sinks).filter(|(_, at)| *at != of) {
        let _ = writeln!(lines, "{network}.0/24 {}", naive_via(layout, of, at, &network));
    }
}

fn topology(plan: &Plan<'_>, name: &str, files: &[String]) -> String {
    let layout = plan.layout;
    let mut text = format!("name = \"{name}\"\n");
    if let Some(cpu) = plan.cpu {
        let _ = writeln!(text, "cpu = {cpu}");
    }
    let sources = layout.sources().iter().enumerate().map(|(i, at)| ("s", i, *at, source(i)));
    let sinks = layout.sinks().iter().enumerate().map(|(i, at)| ("d", i, *at, sink(i)));
    let hosts: Vec<(&str, usize, usize, String)> = sources.chain(sinks).collect();
    let backs = if let Layout::Stages(backs) = layout { backs } else { &[] };
    for of in 0..layout.boxes() {
        let fast = match plan.fast {
            Fast::Fronts if of < FRONTS => "auto",
            Fast::All => "auto",
            Fast::No | Fast::Fronts => "off",
        };
        let _ = writeln!(text, "[[node]]\nname = \"r{of}\"\nfast_table = \"{fast}\"");
        if let Some(back) = backs.get(of.wrapping_sub(FRONTS)) {
            let _ = writeln!(text, "cpu = {}", f64::from(back.percent) / 100.0);
        }
        if plan.kind == Kind::Group {
            continue;
        }
        let file = files.get(of).map_or("", String::as_str);
        let _ = writeln!(text, "router = {{ routes = \"{file}\" }}");
        let mut interface = |port: &str, address: &str, more: &str| {
            let _ = writeln!(
                text,
                "[[node.interface]]\nname = \"i{port}\"\nport = \"{port}\"\n\
                 address = \"{address}/24\"\n{more}"
            );
        };
        for (kind, i, _, network) in hosts.iter().filter(|(_, _, at, _)| *at == of) {
            let mac = format!("mac = \"{}\"", box_mac(*i));
            let more = if *kind == "s" { &mac[..] } else { "" };
            interface(&format!("{kind}{i}"), &format!("{network}.1"), more);
        }
        for (a, b) in layout.cables().into_iter().filter(|(a, b)| *a == of || *b == of) {
            let far = a + b - of;
            interface(&format!("r{far}"), &format!("10.2.{}.{}", cable(a, b), 1 + of), "");
        }
    }
    if plan.kind == Kind::Group {
        let _ =
            writeln!(text, "[[controller]]\nname = \"c\"\non = \"r0\"\nroutes = \"{}\"", files[0]);
        for (back, of) in backs.iter().zip(FRONTS..) {
            let _ = writeln!(
                text,
                "[[controller.forwarder]]\nnode = \"r{of}\"\nweight = {}",
                back.weight
            );
        }
        for (kind, i, _, network) in &hosts {
            let _ = writeln!(
                text,
                "[[controller.subnet]]\nprefix = \"{network}.0/24\"\ngateway = \"{network}.1\""
            );
            let _ = writeln!(
                text,
                "[[controller.reservation]]\nmac = \"{}\"\nip = \"{network}.2\"",
                mac(kind, *i)
            );
        }
    }
    for (kind, i, at, network) in &hosts {
        let _ = writeln!(
            text,
            "[[host]]\nname = \"{kind}{i}\"\nmac = \"{}\"\naddress = \"{network}.2/24\"\n\
             gateway = \"{network}.1\"\n[[link]]\nends = [\"{kind}{i}\", \"r{at}.{kind}{i}\"]",
            mac(kind, *i)
        );
    }
    for (a, b) in layout.cables() {
        let _ = writeln!(text, "[[link]]\nends = [\"r{a}.r{b}\", \"r{b}.r{a}\"]\nmtu = 2000");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::router_bench::MANY;
    use super::*;

    const BACKS: Layout =
        Layout::Stages(&[Back { percent: 10, weight: 1 }, Back { percent: 20, weight: 2 }]);
    const LAYOUTS: [Layout; 6] =
        [Layout::Single, Layout::Pair, Layout::Star, Layout::Quad, Layout::Line, BACKS];

    fn plan(kind: Kind, layout: Layout, table: &[(Ipv4Addr, u8)]) -> Plan<'_> {
        Plan { kind, layout, table, routes: 10, cpu: Some(0.1), fast: Fast::No }
    }

    #[test]
    fn every_layout_is_a_topology_with_a_quota_for_each_box() {
        for layout in LAYOUTS {
            for kind in [Kind::Group, Kind::Naive] {
                let files: Vec<String> = (0..4).map(|i| format!("/r{i}")).collect();
                let text = topology(&plan(kind, layout, &[]), "t", &files);
                let topology = Topology::parse_to_run("t", &text, None);
                let topology = topology.unwrap_or_else(|e| panic!("{layout:?} {kind:?}: {e}"));
                assert_eq!(topology.nodes.len(), layout.boxes());
                let quota = |of: usize| if (layout, of) == (BACKS, 3) { 0.2 } else { 0.1 };
                assert!(topology.nodes.iter().zip(0..).all(|(n, of)| n.cpu == Some(quota(of))));
                assert_eq!(topology.controllers.is_empty(), kind == Kind::Naive);
                let hosts = layout.sources().len() + layout.sinks().len();
                assert_eq!(topology.hosts.len(), hosts);
            }
        }
    }

    #[test]
    fn routes_are_shared_among_the_sinks_and_each_target_leads_to_its_own() {
        let table: Vec<(Ipv4Addr, u8)> = (1..=50).map(|i| (Ipv4Addr::new(i, 0, 0, 0), 8)).collect();
        for layout in LAYOUTS {
            let (chosen, destinations) = routes(&plan(Kind::Group, layout, &table));
            let sinks = layout.sinks().len();
            assert!((7..=10).contains(&chosen.len()), "{chosen:?}");
            for to in 0..sinks {
                let at =
                    chosen.iter().position(|r| *r == (Ipv4Addr::new(198, 18, to as u8, 0), 24));
                assert_eq!(at.unwrap() % sinks, to, "{layout:?}");
            }
            assert_eq!(destinations.lines().count(), MANY);
        }
    }

    #[test]
    fn a_naive_box_sends_to_its_own_sinks_and_to_the_next_box() {
        assert_eq!(naive_via(Layout::Star, 0, 0, "10.1.0"), "10.1.0.2");
        assert_eq!(naive_via(Layout::Star, 2, 1, "10.1.1"), "10.2.10.2");
        assert_eq!(naive_via(Layout::Line, 0, 2, "10.1.2"), "10.2.1.2");
        assert_eq!(naive_via(Layout::Line, 2, 0, "10.0.0"), "10.2.10.2");
    }
}
