//! `plexus bench ndr`: the zero-loss rate of a lab (RFC 2544, 26.1), and the rate at which it loses
//! half a percent.
//!
//! Generator and meter run in two hosts of the lab, on their devices. A trial in which the
//! generator fell behind, or the meter was overrun, says nothing of the lab: it is void.

pub(crate) mod trial;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use plexus_lab::{HostStatus, Launch, NodeProgram, Tied};
use plexus_topo::Topology;
use plexus_traffic::{Found, Rate, Search, SearchConfig, Sizes};
use serde::Serialize;

use crate::exit::{Failure, Outcome};
use crate::generate::{emit, json, parse_duration, si};
use trial::{Bench, Trial};

/// How often a trial is tried that comes out void.
const ATTEMPTS: u32 = 3;

/// Find the highest rate at which a lab loses nothing, and at which it loses 0.5 %.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  plexus bench ndr labs/ndr.toml
  plexus bench ndr labs/ndr.toml --size 1518 --json

Generator, lab and meter share this machine's processors. Where the generator cannot offer a rate,
or the meter cannot take it, the trial is void and the answer a lower bound; it says so. Links with
a rate limit the search to that rate. As root.")]
pub(super) struct Args {
    /// The topology file.
    file: PathBuf,
    /// Frame size with FCS.
    #[arg(long, default_value = "64")]
    size: Sizes,
    /// The host that sends; by default the file's first.
    #[arg(long, value_name = "HOST")]
    from: Option<String>,
    /// The host that receives; by default the file's second.
    #[arg(long, value_name = "HOST")]
    to: Option<String>,
    /// How generator and meter reach their devices; xdp: by programs in the kernel, as root and
    /// over nodes whose ports are AF_XDP.
    #[arg(long, default_value = "af_xdp", value_parser = ["af_xdp", "af_packet", "xdp"])]
    backend: String,
    /// Packets/s to begin with; by default what the generator reaches.
    #[arg(long, value_name = "PPS")]
    max: Option<u64>,
    /// How long each trial sends. RFC 2544 wants 60 seconds for a final answer.
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    trial: Duration,
    /// How close to come, in percent of the rate.
    #[arg(long, default_value_t = 2.0)]
    precision: f64,
    /// Measure the bridge of the Linux kernel in place of the nodes.
    #[arg(long)]
    bridge: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What was found (DESIGN, "JSON answers").
#[derive(Serialize)]
struct Report<'a> {
    lab: &'a str,
    size: String,
    node_program: &'static str,
    backend: String,
    ndr_pps: Option<u64>,
    pdr_pps: Option<u64>,
    /// The loss that `pdr_pps` permits.
    pdr_loss: f64,
    /// Whether the generator or the meter was the limit: the lab may do more.
    ndr_is_lower_bound: bool,
    pdr_is_lower_bound: bool,
    /// Whether the rates passed again when asked to.
    ndr_confirmed: bool,
    pdr_confirmed: bool,
    trial_s: f64,
    trials: &'a [Trial],
}

/// Runs the search.
pub(super) fn run(args: &Args) -> Outcome {
    if !(0.01..=50.0).contains(&args.precision) {
        return Err(Failure::unusable("--precision: write 0.01 to 50 (percent)"));
    }
    let topology = Topology::read(&args.file).map_err(Failure::unusable)?;
    let node_program = if args.bridge { NodeProgram::Bridge } else { NodeProgram::Plexus };
    let launch = Launch { file: args.file.clone(), node_program, lanes: None };
    let mut progress = Progress::new();
    let tied = Tied::up(&launch, &mut |text| progress.say(text)).map_err(Failure::unusable)?;
    let status = plexus_lab::status(tied.name()).map_err(Failure::unusable)?;
    let [from, to] = [(&args.from, 0), (&args.to, 1)]
        .map(|(name, place)| host(&status.hosts, name.as_deref(), place));
    let (from, to) = (from?, to?);
    if from.name == to.name {
        return Err(Failure::unusable("the sending and the receiving host must be two"));
    }
    let device = |host: &HostStatus| -> Result<String, Failure> {
        let found = topology.hosts.iter().find(|h| h.name == host.name);
        let first = found.and_then(|h| h.interfaces.first()).map(|i| i.name.clone());
        first.ok_or_else(|| Failure::unusable(format!("host {} has no link", host.name)))
    };
    let bench = Bench {
        lab: tied.name().to_string(),
        devices: [device(from)?, device(to)?],
        hosts: [from.clone(), to.clone()],
        size: args.size.to_string(),
        frame_max: args.size.max().max(1518),
        backend: args.backend.clone(),
        time: args.trial,
    };
    let (search, trials) = search(args, &bench, &mut progress)?;
    progress.clear();
    let (ndr, pdr) = (search.ndr(), search.pdr());
    let report = Report {
        lab: &bench.lab,
        size: bench.size.clone(),
        node_program: node_program.name(),
        backend: args.backend.clone(),
        ndr_pps: ndr.rate,
        pdr_pps: pdr.rate,
        pdr_loss: pdr.loss,
        ndr_is_lower_bound: is_lower_bound(&ndr, &trials),
        pdr_is_lower_bound: is_lower_bound(&pdr, &trials),
        ndr_confirmed: ndr.confirmed,
        pdr_confirmed: pdr.confirmed,
        trial_s: args.trial.as_secs_f64(),
        trials: &trials,
    };
    emit(&if args.json { json(&report)? } else { text(&report) })
}

/// The host of that name, or the one in that place.
fn host<'a>(
    hosts: &'a [HostStatus],
    name: Option<&str>,
    place: usize,
) -> Result<&'a HostStatus, Failure> {
    let found = match name {
        Some(name) => hosts.iter().find(|h| h.name == name),
        None => hosts.get(place),
    };
    let known: Vec<_> = hosts.iter().map(|h| h.name.as_str()).collect();
    found.ok_or_else(|| match name {
        Some(name) => Failure::unusable(format!("no host {name:?}: there are {known:?}")),
        None => Failure::unusable("the lab needs two hosts: one sends, one receives"),
    })
}

/// Trials until both rates are known.
fn search(
    args: &Args,
    bench: &Bench,
    progress: &mut Progress,
) -> Result<(Search, Vec<Trial>), Failure> {
    bench.introduce().map_err(Failure::unusable)?;
    let max = match args.max {
        Some(max) => max,
        None => {
            progress.say("finding out how fast the generator is");
            // Less than it reaches at once, so that it can be held to it.
            (bench.run(Rate::Max).map_err(Failure::unusable)?.offered as f64 * 0.95) as u64
        }
    };
    let config = SearchConfig {
        precision: args.precision / 100.0,
        trials_max: 40,
        ..SearchConfig::new((max / 1000).max(100), max)
    };
    let mut search = Search::new(config);
    let mut trials: Vec<Trial> = Vec::new();
    while let Some(rate) = search.next_trial() {
        for attempt in 1..=ATTEMPTS {
            let trial = bench.run(Rate::Packets(rate)).map_err(Failure::unusable)?;
            progress.say(&format!("trial {}: {trial}", trials.len() + 1));
            let void = trial.void.is_some();
            trials.push(trial);
            if !void || attempt == ATTEMPTS {
                break;
            }
        }
        // Void to the last, it bounds the search all the same: higher rates would be void too.
        trials.last().into_iter().for_each(|trial| search.record(trial.outcome()));
    }
    Ok((search, trials))
}

/// Whether the lowest rate that failed was not failed by the lab: every trial of it is void.
fn is_lower_bound(found: &Found, trials: &[Trial]) -> bool {
    match found.failed {
        None => true,
        Some(rate) => trials.iter().filter(|t| t.rate == rate).all(|t| t.void.is_some()),
    }
}

/// The result for people.
fn text(report: &Report<'_>) -> String {
    let mut text = format!(
        "{}, {} bytes, nodes: {}, generator and meter by {}, trials of {} s\n",
        report.lab, report.size, report.node_program, report.backend, report.trial_s
    );
    for (name, rate, bound, confirmed) in [
        ("no loss", report.ndr_pps, report.ndr_is_lower_bound, report.ndr_confirmed),
        ("0.5 % loss", report.pdr_pps, report.pdr_is_lower_bound, report.pdr_confirmed),
    ] {
        let rate = rate.map_or("no rate tried passed".into(), |r| si(r as f64) + "packets/s");
        let bound = if bound { ", the lab may do more" } else { "" };
        let confirmed = if confirmed { "" } else { ", not confirmed" };
        text += &format!("{name:<11}{rate}{bound}{confirmed}\n");
    }
    let void: Vec<&Trial> = report.trials.iter().filter(|t| t.void.is_some()).collect();
    text += &format!("trials     {}, of which void {}\n", report.trials.len(), void.len());
    if let Some(first) = void.first() {
        text += &format!("           the first void one: {first}\n");
    }
    text
}

/// One line that changes on a terminal, lines elsewhere.
struct Progress {
    terminal: bool,
}

impl Progress {
    fn new() -> Progress {
        Progress { terminal: std::io::stderr().is_terminal() }
    }

    fn say(&mut self, text: &str) {
        let mut err = std::io::stderr();
        // A terminal that is gone is no reason to stop.
        let _ = match self.terminal {
            true => write!(err, "\r\x1b[K{text}").and_then(|()| err.flush()),
            false => writeln!(err, "{text}"),
        };
    }

    fn clear(&self) {
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(rate: u64, offered: u64, lost: u64, overflow: u64) -> Trial {
        Trial::new(rate, offered, (1_000_000, 1_000_000 - lost), overflow, None)
    }

    #[test]
    fn what_the_tools_failed_is_not_the_labs_loss() {
        let found = |failed| Found {
            loss: 0.0,
            rate: Some(900),
            failed,
            confirmed: true,
            generator_limited: false,
        };
        let trials = [
            trial(2000, 1500, 10, 0),
            trial(1500, 1500, 10, 10),
            trial(1000, 1000, 10, 0),
            trial(900, 899, 0, 0),
        ];
        let void: Vec<bool> = trials.iter().map(|t| t.void.is_some()).collect();
        assert_eq!(void, [true, true, false, false]);
        assert!(is_lower_bound(&found(Some(2000)), &trials));
        assert!(is_lower_bound(&found(Some(1500)), &trials));
        assert!(!is_lower_bound(&found(Some(1000)), &trials));
        assert!(is_lower_bound(&found(None), &trials));
    }

    #[test]
    fn hosts_are_found_by_name_or_place() {
        let hosts = ["h1", "h2"].map(|name| HostStatus {
            name: name.into(),
            mac: String::new(),
            addresses: Vec::new(),
        });
        assert_eq!(host(&hosts, None, 1).unwrap().name, "h2");
        assert_eq!(host(&hosts, Some("h1"), 1).unwrap().name, "h1");
        assert!(host(&hosts, Some("h3"), 0).is_err());
        assert!(host(&hosts[..1], None, 1).is_err());
    }
}
