//! `coproc-cpu`: what one core forwards when no flow is in a fast table (`traffic-coprocessor.txt`
//! §4, first experiment): 100,000 flows of real frames through one worker.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use plexus_benches::ndr::trial::{HEARS, Running};
use plexus_io::namespace::Namespaces;
use plexus_report::Failure;

use super::Setting;
use super::axon_vm::command;
use super::plot::{Bars, Chart, Series};
use super::report::{Findings, Row, Spread};
use super::rig::{Scratch, namespace, number, own, received_per_s};

const SEED: u64 = 1;
const FLOWS: usize = 100_000;
/// Frames with FCS; the paper's are full ones.
const SIZES: [u32; 2] = [1518, 64];
const PAPER_GBIT_PER_S: f64 = 3.9;
/// The paper's processor time, in cores.
const PAPER_CORES: f64 = 1.0;
/// The meter's station, which the node learns before.
const SINK: &str = "02:00:00:ff:00:01";
/// How long a node may take until it forwards.
const READY: Duration = Duration::from_secs(20);

pub(super) fn run(setting: &mut Setting<'_>) -> Result<Findings, Failure> {
    let (sizes, time, runs) = match setting.quick {
        true => (&SIZES[..1], Duration::from_millis(500), 1),
        false => (&SIZES[..], Duration::from_secs(5), 5),
    };
    let bench = Bench::new().map_err(Failure::unusable)?;
    // The worker learns all stations.
    bench.run(64, time.min(Duration::from_secs(2))).map_err(Failure::unusable)?;
    let mut findings = Findings::new(SEED, "run,size,offered_pps,received_pps,cores\n");
    let mut groups = Vec::new();
    for &size in sizes {
        let mut outcomes = Vec::new();
        for run in 1..=runs {
            setting.progress.detail(&format!("{size} bytes, run {run}"));
            let outcome = bench.run(size, time).map_err(Failure::unusable)?;
            let Outcome { offered, received, cores } = outcome;
            let _ = writeln!(findings.runs, "{run},{size},{offered:.0},{received:.0},{cores:.3}");
            if received == 0.0 {
                findings.doubts.push(format!("{size} bytes: nothing arrived"));
            }
            outcomes.push(outcome);
        }
        let spread = |of: &dyn Fn(&Outcome) -> f64| Spread::of(outcomes.iter().map(of));
        let title = format!("{FLOWS} flows, {size}-byte frames");
        let gbit = spread(&|o| o.received * f64::from(size) * 8.0 / 1e9);
        let kpps = spread(&|o| o.offered / 1e3);
        let cores = spread(&|o| o.cores);
        let forwarded = Row::new(format!("{title}: forwarded"), "Gbit/s", gbit.median);
        let note = format!("{}; offered {:.0} kpackets/s", gbit.text(runs), kpps.median);
        let used = Row::new(format!("{title}: the node's processor time"), "cores", cores.median);
        let per_gbit = format!("{:.3} cores per Gbit/s", cores.median / gbit.median.max(1e-9));
        let (forwarded, used) = match size == SIZES[0] {
            true => (forwarded.at_least(PAPER_GBIT_PER_S), used.at_most(PAPER_CORES)),
            false => (forwarded.detail(), used.detail()),
        };
        findings.rows.extend([forwarded.note(note), used.note(per_gbit)]);
        let paper = if size == SIZES[0] { PAPER_GBIT_PER_S } else { f64::NAN };
        groups.push((format!("{size}-byte frames"), vec![paper, gbit.median]));
    }
    findings.charts.push(Chart::Bars(Bars {
        title: "100,000 flows through one worker".into(),
        axis: "forwarded, in Gbit/s".into(),
        series: vec![Series::paper("CPU"), Series::ours("CPU")],
        groups,
    }));
    findings.remarks = vec![
        "generator, node and meter share this machine's processors. The kernel sends a frame over \
         a virtual cable in the sender's time, so the node's processor time includes its way to \
         the meter's device"
            .into(),
    ];
    Ok(findings)
}

#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Packets per second.
    offered: f64,
    received: f64,
    /// Processor time of the node per time.
    cores: f64,
}

/// A switch of one worker between a generator and a meter; it ends with the value, before its
/// folder.
struct Bench {
    node: Option<Running>,
    around: Namespaces,
    dir: Scratch,
}

impl Bench {
    fn new() -> Result<Bench, String> {
        let quiet = || std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let (around, inside) = (namespace(quiet)?, namespace(quiet)?);
        let mut bench = Bench { node: None, around, dir: Scratch::new("coproc")? };
        // The process names the node's place to ip(8).
        let mut sleep = Command::new("sleep");
        inside.apply(sleep.arg("60")).map_err(|e| e.to_string())?;
        let sleep = Running::start(sleep, "sleep")?;
        for (outer, inner) in [("gen0", "p1"), ("met0", "p2")] {
            let link =
                format!("ip link add {outer} type veth peer name {inner} netns {}", sleep.id());
            command(&bench.around, &link)?;
            command(&inside, &format!("ip link set {inner} up"))?;
            command(&bench.around, &format!("ip link set {outer} up"))?;
        }
        let text = "name = \"coproc\"\ncontrol = \"CONTROL\"\nworkers = 1\nfast_table = \"off\"\n\
                    backend = \"af_xdp\"\n[switch]\nmac_table = 131072\n[[port]]\nname = \"p1\"\n\
                    [[port]]\nname = \"p2\"\n";
        let control = bench.dir.join("node.sock").display().to_string();
        let text = text.replace("CONTROL", &control);
        let config = bench.dir.write("node.toml", text.as_bytes())?;
        let config = config.display().to_string();
        let node = own(&inside, &["node", "run", "--config", &config])?;
        bench.node = Some(Running::start(node, "the node")?);
        let end = Instant::now() + READY;
        loop {
            // Its own frames teach the node where the meter is.
            let line = format!("gen met0 --src-mac {SINK} --dst-mac 02:00:00:00:00:01 --count 10");
            Running::start(bench.outside(&line)?, "the meter's generator")?.finish()?;
            if bench.run(64, Duration::from_millis(200))?.received > 0.0 {
                return Ok(bench);
            }
            let node = bench.node.as_mut().ok_or("there is no node")?;
            if node.ended()?.is_some() || Instant::now() > end {
                return Err(format!("the node does not come to forward: {}", node.said()));
            }
        }
    }

    /// This program beside the node.
    fn outside(&self, words: &str) -> Result<Command, String> {
        let arguments: Vec<&str> = words.split_whitespace().chain(["--json"]).collect();
        own(&self.around, &arguments)
    }

    /// As many frames as possible for a time.
    fn run(&self, size: u32, time: Duration) -> Result<Outcome, String> {
        let limit = (time + Duration::from_secs(6)).as_millis();
        let meter =
            format!("meter met0 --backend xdp --interval 20ms --idle 500ms --duration {limit}ms");
        let meter = Running::start(self.outside(&meter)?, "the meter")?;
        meter.ready(HEARS)?;
        let generator = format!(
            "gen gen0 --backend af_xdp --size {size} --flows {FLOWS} --src-macs {FLOWS} --dst-mac \
             {SINK} --duration {}ms",
            time.as_millis()
        );
        let before = self.processor_time()?;
        let sent = Running::start(self.outside(&generator)?, "the generator")?.finish()?;
        let used = self.processor_time()? - before;
        let heard = meter.finish()?;
        let seconds = time.as_secs_f64();
        Ok(Outcome {
            offered: number(&sent, "/packets")? / seconds,
            received: received_per_s(&heard, time)?,
            cores: used.as_secs_f64() / seconds,
        })
    }

    /// The node's processor time so far.
    fn processor_time(&self) -> Result<Duration, String> {
        let node = self.node.as_ref().ok_or("there is no node")?;
        plexus_lab::cpu_time_of(node.id()).ok_or("the node has no processor time".into())
    }
}
