//! `plexus bench ndr`: see [`plexus_benches::ndr`].

use std::path::PathBuf;
use std::time::Duration;

use plexus_benches::ndr::{self, Report, Settings, Trial};
use plexus_report::{Progress, json, si};
use plexus_traffic::Sizes;

use crate::exit::{Failure, Outcome};
use crate::generate::parse_duration;
use crate::text::print;

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

/// Runs the search.
pub(super) fn run(args: &Args) -> Outcome {
    if !(0.01..=50.0).contains(&args.precision) {
        return Err(Failure::unusable("--precision: write 0.01 to 50 (percent)"));
    }
    let settings = Settings {
        file: args.file.clone(),
        size: args.size,
        from: args.from.clone(),
        to: args.to.clone(),
        backend: args.backend.clone(),
        rate_max_pps: args.max,
        trial: args.trial,
        precision: args.precision / 100.0,
        is_bridge: args.bridge,
    };
    let mut progress = Progress::new();
    let report = ndr::run(&settings, &mut |text| progress.say(text)).map_err(Failure::unusable)?;
    progress.clear();
    print(&if args.json { json(&report)? } else { text(&report) })
}

/// The result for people.
fn text(report: &Report) -> String {
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
