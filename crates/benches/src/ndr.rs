//! The zero-loss rate of a lab (RFC 2544, 26.1), and the rate at which it loses
//! half a percent.
//!
//! Generator and meter run in two hosts of the lab, on their devices. A trial in which the
//! generator fell behind, or the meter was overrun, says nothing of the lab: it is void.

pub mod trial;

use std::path::PathBuf;
use std::time::Duration;

use plexus_lab::{HostStatus, Launch, NodeProgram, Tied};
use plexus_topo::Topology;
use plexus_traffic::{Found, Rate, Search, SearchConfig, Sizes};
use serde::Serialize;

use trial::Bench;
pub use trial::Trial;

/// How often a trial is tried that comes out void.
const ATTEMPTS: u32 = 3;

/// What to search.
pub struct Settings {
    /// The topology file.
    pub file: PathBuf,
    /// Frame size with FCS.
    pub size: Sizes,
    /// The host that sends; by default the file's first.
    pub from: Option<String>,
    /// The host that receives; by default the file's second.
    pub to: Option<String>,
    /// How generator and meter reach their devices: af_xdp, af_packet or xdp.
    pub backend: String,
    /// Packets/s to begin with; by default what the generator reaches.
    pub rate_max_pps: Option<u64>,
    /// How long each trial sends.
    pub trial: Duration,
    /// How close to come, as a share of the rate.
    pub precision: f64,
    /// Measures the bridge of the Linux kernel in place of the nodes.
    pub is_bridge: bool,
}

/// What was found (DESIGN, "JSON answers").
#[derive(Serialize)]
pub struct Report {
    /// The lab's name.
    pub lab: String,
    /// Frame sizes with FCS.
    pub size: String,
    /// What ran in place of the nodes.
    pub node_program: &'static str,
    /// How generator and meter reached their devices.
    pub backend: String,
    /// The highest rate without loss, packets/s.
    pub ndr_pps: Option<u64>,
    /// The highest rate with that little loss, packets/s.
    pub pdr_pps: Option<u64>,
    /// The loss that `pdr_pps` permits.
    pub pdr_loss: f64,
    /// Whether the generator or the meter was the limit: the lab may do more.
    pub ndr_is_lower_bound: bool,
    /// The same of `pdr_pps`.
    pub pdr_is_lower_bound: bool,
    /// Whether the rates passed again when asked to.
    pub ndr_confirmed: bool,
    /// The same of `pdr_pps`.
    pub pdr_confirmed: bool,
    /// How long each trial sent.
    pub trial_s: f64,
    /// Every trial.
    pub trials: Vec<Trial>,
}

/// Starts the lab and runs the search; `say` hears what is going on.
///
/// # Errors
/// In words, when the lab cannot be started, or its generator or meter.
pub fn run(settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<Report, String> {
    let topology = Topology::read(&settings.file).map_err(|e| e.to_string())?;
    let node_program = if settings.is_bridge { NodeProgram::Bridge } else { NodeProgram::Plexus };
    let launch = Launch { file: settings.file.clone(), node_program, lanes: None, part: None };
    let tied = Tied::up(&launch, say).map_err(|e| e.to_string())?;
    let status = plexus_lab::status(tied.name()).map_err(|e| e.to_string())?;
    let [from, to] = [(&settings.from, 0), (&settings.to, 1)]
        .map(|(name, place)| host(&status.hosts, name.as_deref(), place));
    let (from, to) = (from?, to?);
    if from.name == to.name {
        return Err("the sending and the receiving host must be two".to_string());
    }
    let device = |host: &HostStatus| -> Result<String, String> {
        let found = topology.hosts.iter().find(|h| h.name == host.name);
        let first = found.and_then(|h| h.interfaces.first()).map(|i| i.name.clone());
        first.ok_or_else(|| format!("host {} has no link", host.name))
    };
    let bench = Bench {
        lab: tied.name().to_string(),
        devices: [device(from)?, device(to)?],
        hosts: [from.clone(), to.clone()],
        size: settings.size.to_string(),
        frame_max: settings.size.max().max(1518),
        backend: settings.backend.clone(),
        time: settings.trial,
    };
    let (search, trials) = search(settings, &bench, say)?;
    let (ndr, pdr) = (search.ndr(), search.pdr());
    Ok(Report {
        ndr_is_lower_bound: is_lower_bound(&ndr, &trials),
        pdr_is_lower_bound: is_lower_bound(&pdr, &trials),
        lab: bench.lab,
        size: bench.size,
        node_program: node_program.name(),
        backend: settings.backend.clone(),
        ndr_pps: ndr.rate,
        pdr_pps: pdr.rate,
        pdr_loss: pdr.loss,
        ndr_confirmed: ndr.confirmed,
        pdr_confirmed: pdr.confirmed,
        trial_s: settings.trial.as_secs_f64(),
        trials,
    })
}

/// The host of that name, or the one in that place.
fn host<'a>(
    hosts: &'a [HostStatus],
    name: Option<&str>,
    place: usize,
) -> Result<&'a HostStatus, String> {
    let found = match name {
        Some(name) => hosts.iter().find(|h| h.name == name),
        None => hosts.get(place),
    };
    let known: Vec<_> = hosts.iter().map(|h| h.name.as_str()).collect();
    found.ok_or_else(|| match name {
        Some(name) => format!("no host {name:?}: there are {known:?}"),
        None => "the lab needs two hosts: one sends, one receives".to_string(),
    })
}

/// Trials until both rates are known.
fn search(
    settings: &Settings,
    bench: &Bench,
    say: &mut dyn FnMut(&str),
) -> Result<(Search, Vec<Trial>), String> {
    bench.introduce()?;
    let max = match settings.rate_max_pps {
        Some(max) => max,
        None => {
            say("finding out how fast the generator is");
            // Less than it reaches at once, so that it can be held to it.
            (bench.run(Rate::Max)?.offered as f64 * 0.95) as u64
        }
    };
    let config = SearchConfig {
        precision: settings.precision,
        trials_max: 40,
        ..SearchConfig::new((max / 1000).max(100), max)
    };
    let mut search = Search::new(config);
    let mut trials: Vec<Trial> = Vec::new();
    while let Some(rate) = search.next_trial() {
        for attempt in 1..=ATTEMPTS {
            let trial = bench.run(Rate::Packets(rate))?;
            say(&format!("trial {}: {trial}", trials.len() + 1));
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
