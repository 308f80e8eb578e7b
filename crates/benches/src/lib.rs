//! In-process benchmarks, each against its peer where that is built: what `plexus bench` runs.
//!
//! A bench is a list of rows; a row is measured several times, its peer and it taking turns, so
//! that what disturbs the machine disturbs both. Figures are medians; a ratio is the median of the
//! turns' ratios, which is steadier than the ratio of the medians. [`ndr`] measures a whole lab
//! instead.

mod controller;
mod fabric;
mod flows;
mod hops;
pub mod internet;
mod loads;
mod lpm;
mod mac;
mod names;
mod ndn;
pub mod ndr;
mod parts;
mod peer;
mod policy;
mod random;
mod results;
mod rig;
mod route;
mod sim;
mod store;
mod switch;
mod traffic;
mod whole;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

use route::Family::{V4, V6};

pub use results::readme;

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Turns of each row.
    runs: usize,
    /// Time of one turn.
    time: Duration,
    /// Tables and counts are divided by this.
    shrink: usize,
    /// With the peers that need a minute to load their table too.
    slow_peers: bool,
}

impl Effort {
    /// A measurement.
    pub const FULL: Effort =
        Effort { runs: 7, time: Duration::from_secs(1), shrink: 1, slow_peers: true };
    /// A look.
    pub const QUICK: Effort =
        Effort { runs: 3, time: Duration::from_millis(250), shrink: 1, slow_peers: false };
}

/// One measured turn: our figure, and the peer's.
type Turn = (f64, Option<f64>);

/// A figure beside its peer's (DESIGN, "JSON answers: bench"), and how far the turns were apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was measured; it begins with the bench's name.
    pub name: String,
    /// Our figure, the median of the turns.
    pub value: f64,
    /// Of both figures.
    pub unit: &'static str,
    /// What it is compared with.
    pub peer: Option<String>,
    /// Its figure, the median of the turns.
    pub peer_value: Option<f64>,
    /// Ours to the peer's, the median of the turns' ratios.
    pub ratio: Option<f64>,
    /// Turns.
    pub runs: usize,
    /// Our least figure.
    pub value_min: f64,
    /// Our greatest figure.
    pub value_max: f64,
    /// The least ratio of a turn.
    pub ratio_min: Option<f64>,
    /// The greatest ratio of a turn.
    pub ratio_max: Option<f64>,
}

/// A bench that can be asked for by name.
pub struct Bench {
    /// Its name.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    run: Run,
}

/// The rows of a bench, whose name they begin with.
type Run = fn(&str, &Setting) -> Result<Vec<Row>, String>;

const fn bench(name: &'static str, run: Run) -> Bench {
    Bench { name, about: "", run }
}

impl Bench {
    const fn about(self, about: &'static str) -> Bench {
        Bench { about, ..self }
    }

    /// Runs it.
    ///
    /// # Errors
    /// In words, when it cannot be run, or what it measures does not hold.
    pub fn rows(&self, setting: &Setting) -> Result<Vec<Row>, String> {
        (self.run)(self.name, setting)
    }
}

/// What benches run with.
pub struct Setting {
    effort: Effort,
    /// The processor that peers and we run on, in turn.
    cpu: usize,
    peers: peer::Peers,
    /// A list of names to be used.
    names: Option<PathBuf>,
    /// Where large files may be made.
    scratch: PathBuf,
}

impl Setting {
    /// A setting. The calling thread is kept on one processor from now on. `peers` is where the
    /// peers are, by default bench/peers/build of the repository; `names` a list of names to be
    /// used in place of the embedded ones; `scratch` where large files may be made.
    ///
    /// # Errors
    /// When the peers' directory is none, or there is no processor to be kept on.
    pub fn new(
        effort: Effort,
        peers: Option<PathBuf>,
        names: Option<PathBuf>,
        scratch: PathBuf,
    ) -> Result<Setting, String> {
        let peers = peer::Peers::find(peers)?;
        Ok(Setting { effort, cpu: pin()?, peers, names, scratch })
    }
}

fn route_load(family: route::Family, destinations: usize) -> route::Load {
    route::Load { family, destinations }
}

fn host_load(named: usize) -> fabric::Load {
    fabric::Load::Host { routes: 1 << 16, named }
}

/// Every bench, in the order in which they run.
pub const BENCHES: &[Bench] = &[
    bench("switch-64k-few", |b, s| switch::rows(b, switch::Load::new(1 << 16, 64), s))
        .about("the whole switch in memory, 64-byte packets, 65,536 stations, 64 of them talking"),
    bench("switch-64k-spread", |b, s| switch::rows(b, switch::Load::new(1 << 16, 1 << 16), s))
        .about("the same, all 65,536 stations talking"),
    bench("switch-1m-few", |b, s| switch::rows(b, switch::Load::new(1 << 20, 64), s))
        .about("the same with 1,048,576 stations, 64 of them talking"),
    bench("switch-1m-spread", |b, s| switch::rows(b, switch::Load::new(1 << 20, 1 << 20), s))
        .about("the same with 1,048,576 stations, all talking: the table outgrows the L2 cache"),
    bench("queue", switch::queue_rows)
        .about("what turns among flows cost at output queues, idle and in use; the peer is fifo"),
    bench("route-v4-few", |b, s| route::rows(b, route_load(V4, 64), s)).about(
        "the whole router in memory, 64-byte packets, the Internet's table, 64 destinations",
    ),
    bench("route-v4-spread", |b, s| route::rows(b, route_load(V4, 1 << 16), s))
        .about("the same with 65,536 destinations"),
    bench("route-v6-spread", |b, s| route::rows(b, route_load(V6, 1 << 16), s))
        .about("the same over IPv6"),
    bench("group-route-few", |b, s| route::group::rows(b, route_load(V4, 64), s)).about(
        "ingress of the group's router: one lookup, and the header of the route; the peer is the \
         router of one box under the same load",
    ),
    bench("group-route-spread", |b, s| route::group::rows(b, route_load(V4, 1 << 16), s))
        .about("the same with 65,536 destinations"),
    bench("group-route-v6-spread", |b, s| route::group::rows(b, route_load(V6, 1 << 16), s))
        .about("the same over IPv6"),
    bench("group-egress", route::group::egress)
        .about("egress of the group's router: from fabric ports to hosts; the peer is fabric-hop"),
    bench("fabric-hop", |b, s| fabric::rows(b, fabric::Load::Hop, s)).about(
        "64-byte frames from fabric port to fabric port, 4 hops; the peer is our own switch",
    ),
    bench("fabric-host", |b, s| fabric::rows(b, host_load(64), s))
        .about("hosts' 64-byte frames to fabric ports, 65,536 routes at each of 4, 64 in use"),
    bench("fabric-host-spread", |b, s| fabric::rows(b, host_load(1 << 16), s))
        .about("the same, all 65,536 routes in use; the peer is our switch, all stations talking"),
    bench("whole", whole::rows)
        .about("switch and router of a box that does everything at once; the peer does one thing"),
    bench("mac-lookup", mac::rows)
        .about("lookups in the MAC table, hits and misses; the peer is the same without prefetch"),
    bench("flows", flows::rows).about(
        "a million flows in the flow table: new ones, and packets; the peer is std's HashMap",
    ),
    bench("rank", flows::rank)
        .about("time to find the 1,792 largest of a million flows; the peer sorts them"),
    bench("lpm", lpm::rows)
        .about("longest-prefix match in the Internet's tables; peers: rte_fib, rte_lpm, a crate"),
    bench("group-parts", parts::rows)
        .about("the Internet's tables shared out among 2 to 8 forwarders: routes, memory, lookups"),
    bench("names", names::rows)
        .about("name prefixes and exact names, 1 M and 10 M of them; the peer is std's HashMap"),
    bench("ndn-forward", ndn::rows)
        .about("Interest and Data through the NDN forwarder, a FIB of a million: rates, memory"),
    bench("generate", traffic::generate)
        .about("test packets that the generator makes, nothing behind its port"),
    bench("count", traffic::count).about("test packets that the meter counts"),
    bench("controller-routes", controller::routes)
        .about("new routes for random pairs of 49,130 hosts on a torus of 4,913 nodes, per policy"),
    bench("controller-failure", controller::failure)
        .about("time until 4,000 flows of a cut cable have new routes, on the same torus"),
    bench("topo-spain", loads::spain)
        .about("SPAIN routes for 50,000 flows, on a torus and a random graph of 1,000 nodes"),
    bench("topo-lp", loads::lp)
        .about("the least maximum load of 662 demands on 50 nodes and 88 links, by linear program"),
    bench("sim-hops", sim::chain)
        .about("frames from port to port in the simulator, 8 nodes in a line; the peer is ns-3"),
    bench("sim-fat-tree", sim::fat_tree)
        .about("the same on a fat tree of 20 nodes, each of 16 hosts sending to another"),
    bench("sim-scale", sim::scale)
        .about("time per event with 100 to 50,000 hosts that all send, in racks of 50 to a switch"),
    bench("topo-hops", hops::rows)
        .about("time for the hops between all pairs of 5,000 nodes; the peer is petgraph"),
    bench("ndn-policy", policy::rows)
        .about("hit ratios of the content store's eviction policies; the peer knows the future"),
    bench("ndn-store", store::rows)
        .about("hits per second from the content store's disk; the peer is fio on the same file"),
];

/// Nanoseconds that a core takes per frame from one fabric port to another, in memory and in
/// batches: what `fabric-hop` measures, for about `time`.
///
/// # Errors
/// When memory is short, or if a packet was lost.
pub fn fabric_hop_ns(time: Duration) -> Result<f64, String> {
    Ok(1e3 / fabric::mpps(fabric::Load::Hop, time)?)
}

/// The benches of these names; all if there are none.
///
/// # Errors
/// With the known names, when one is unknown.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Bench>, String> {
    if names.is_empty() {
        return Ok(BENCHES.iter().collect());
    }
    let find = |name: &String| {
        BENCHES.iter().find(|b| b.name == name).ok_or_else(|| {
            let known: Vec<_> = BENCHES.iter().map(|b| b.name).collect();
            format!("no bench is called {name:?}: {} are", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}

/// Keeps this thread on one processor, the last it may use, and returns which. The first is where
/// kernels like to do their interrupts' work.
fn pin() -> Result<usize, String> {
    let allowed = sched_getaffinity(None).map_err(|e| format!("asking for processors: {e}"))?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|&cpu| allowed.is_set(cpu));
    let cpu = last.ok_or("there is no processor to run on")?;
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|e| format!("keeping to processor {cpu}: {e}"))?;
    Ok(cpu)
}

/// What `update` gives, while another processor, if there is one, looks up without pause.
fn beside<T>(setting: &Setting, mut look_up: impl FnMut() + Send, update: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut others = CpuSet::new();
            (0..CpuSet::MAX_CPU).filter(|&cpu| cpu != setting.cpu).for_each(|cpu| others.set(cpu));
            let _ = sched_setaffinity(None, &others);
            while !done.load(Relaxed) {
                look_up();
            }
        });
        let updated = update();
        done.store(true, Relaxed);
        updated
    })
}

impl Row {
    /// A row from its turns: each gives our figure and, with a peer, the peer's.
    ///
    /// # Errors
    /// The first that a turn has.
    fn measure(
        name: &str,
        unit: &'static str,
        peer: Option<&str>,
        runs: usize,
        mut turn: impl FnMut() -> Result<Turn, String>,
    ) -> Result<Row, String> {
        let turns = (0..runs.max(1)).map(|_| turn()).collect::<Result<Vec<_>, _>>()?;
        Ok(Row::of_turns(name, unit, peer, turns))
    }

    /// A row of a figure that is the same each time.
    fn once(name: &str, unit: &'static str, value: f64) -> Row {
        Row::of_turns(name, unit, None, vec![(value, None)])
    }

    fn of_turns(name: &str, unit: &'static str, peer: Option<&str>, turns: Vec<Turn>) -> Row {
        let ours: Vec<f64> = sorted(turns.iter().map(|t| t.0));
        let theirs = sorted(turns.iter().filter_map(|t| t.1));
        let ratios = sorted(turns.iter().filter_map(|t| Some(t.0 / t.1?)));
        Row {
            name: name.into(),
            value: median(&ours).unwrap_or(0.0),
            unit,
            peer: peer.map(String::from),
            peer_value: median(&theirs),
            ratio: median(&ratios),
            runs: turns.len(),
            value_min: ours.first().copied().unwrap_or(0.0),
            value_max: ours.last().copied().unwrap_or(0.0),
            ratio_min: ratios.first().copied(),
            ratio_max: ratios.last().copied(),
        }
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle one of sorted values, the lower one of two.
fn median(values: &[f64]) -> Option<f64> {
    values.get(values.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bench_runs_and_has_a_figure() {
        let effort = Effort { runs: 1, time: Duration::ZERO, shrink: 256, slow_peers: true };
        let peers = peer::Peers::none();
        let scratch = std::env::temp_dir();
        let setting = Setting { effort, cpu: 0, peers, names: None, scratch };
        for bench in BENCHES {
            let rows = bench.rows(&setting).unwrap();
            assert!(!rows.is_empty());
            for row in rows {
                assert!(row.name.starts_with(bench.name), "{} of {}", row.name, bench.name);
                assert!(row.value.is_finite() && row.value > 0.0, "{row:?}");
                assert_eq!(row.peer.is_some(), row.ratio.is_some(), "{row:?}");
            }
        }
    }

    #[test]
    fn a_ratio_is_the_median_of_the_turns_ratios() {
        // A disturbance in the second turn slows both down.
        let mut turns = [(10.0, 5.0), (4.0, 2.0), (12.0, 4.0)].into_iter();
        let turn = || turns.next().map(|(a, b)| (a, Some(b))).ok_or_else(String::new);
        let row = Row::measure("x", "Mpps", Some("peer"), 3, turn).unwrap();
        assert_eq!((row.value, row.peer_value, row.ratio), (10.0, Some(4.0), Some(2.0)));
        assert_eq!((row.ratio_min, row.ratio_max), (Some(2.0), Some(3.0)));
        let json = serde_json::to_value(&row).unwrap();
        for key in ["name", "value", "unit", "peer", "peer_value", "ratio"] {
            assert!(json.get(key).is_some(), "{key}");
        }
    }

    #[test]
    fn without_a_peer_there_is_no_ratio() {
        let row = Row::measure("x", "Mpps", None, 2, || Ok((3.0, None))).unwrap();
        let json = serde_json::to_value(&row).unwrap();
        assert!(json["peer"].is_null() && json["peer_value"].is_null() && json["ratio"].is_null());
        assert!(Row::measure("x", "Mpps", None, 2, || Err("no".into())).is_err());
    }

    #[test]
    fn unknown_names_are_told_with_the_known_ones() {
        let Err(why) = chosen(&["swich".into()]) else { panic!() };
        assert!(why.contains("swich") && why.contains("switch-64k-few"));
        assert_eq!(chosen(&["count".into(), "generate".into()]).unwrap()[0].name, "count");
        assert_eq!(chosen(&[]).unwrap().len(), BENCHES.len());
    }
}
