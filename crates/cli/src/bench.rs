//! `plexus bench`: runs what [`plexus_benches`] measures.

mod ndr;

use std::fmt::Write as _;
use std::path::PathBuf;

use plexus_benches::{BENCHES, Effort, Row, Setting, chosen, readme};
use plexus_report::json;

use crate::exit::{Failure, Outcome};
use crate::text::print;

/// Run benchmarks: in this process, or of a lab.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  plexus bench                       all in-process benches (some twenty minutes)
  plexus bench switch-64k-few --json
  make -C bench/peers                builds the peers that benches compare with
  plexus bench ndr labs/ndr.toml     zero-loss rate of a lab
  plexus bench readme bench          the table of bench/README.md, from bench/results.json"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The benches to run; all if left out. `--list` names them.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Shorter and fewer runs: a look, not a measurement.
    #[arg(long)]
    quick: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// List the benches and what they measure.
    #[arg(long)]
    list: bool,
    /// Where the peers are; by default bench/peers/build of the repository.
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// Names for ndn-policy, one to a line, in place of the embedded ones.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Where ndn-store makes its file of 2 GiB, on the disk to measure.
    #[arg(long, value_name = "DIR", default_value = ".")]
    scratch: PathBuf,
}

#[derive(clap::Subcommand)]
enum Command {
    Ndr(ndr::Args),
    Readme(ReadmeArgs),
}

/// Render the table of a README from the results beside it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo bench/run.sh --record veth route       measures, and keeps the rows in bench/results.json
  plexus bench readme bench                   renders the table from that file
  plexus bench readme bench --add rows.json   first takes over the rows of `bench/run.sh --out`")]
struct ReadmeArgs {
    /// The directory with README.md and results.json.
    directory: PathBuf,
    /// Add the rows of this file: each replaces the row with its name and peer.
    #[arg(long, value_name = "FILE")]
    add: Option<PathBuf>,
    /// Write nothing; the exit code is 1 if README.md differs from results.json.
    #[arg(long, conflicts_with = "add")]
    check: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Some(Command::Ndr(args)) => return ndr::run(&args),
        Some(Command::Readme(args)) => {
            let rendered = readme(&args.directory, args.add.as_deref(), args.check)?;
            let line = rendered.map(|path| format!("{}: rendered\n", path.display()));
            return print(&line.unwrap_or_default());
        }
        None => {}
    }
    if args.list {
        let names = BENCHES.iter().map(|b| format!("{:<18} {}\n", b.name, b.about));
        let ndr = "ndr FILE.toml      a lab's zero-loss rate: see `plexus bench ndr --help`\n";
        return print(&(names.collect::<String>() + ndr));
    }
    let benches = chosen(&args.names).map_err(Failure::unusable)?;
    let effort = if args.quick { Effort::QUICK } else { Effort::FULL };
    let setting =
        Setting::new(effort, args.peers, args.trace, args.scratch).map_err(Failure::unusable)?;
    let mut rows = Vec::new();
    for bench in benches {
        eprintln!("plexus: {}", bench.name);
        let made = bench.rows(&setting);
        rows.extend(made.map_err(|e| Failure::unusable(format!("{}: {e}", bench.name)))?);
    }
    print(&if args.json { json(&rows)? } else { text(&rows) })
}

/// The rows for people.
fn text(rows: &[Row]) -> String {
    let width = rows.iter().map(|r| r.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let _ = write!(
            text,
            "{:<width$}  {:>8.2} {}  ({:.2} to {:.2})",
            row.name, row.value, row.unit, row.value_min, row.value_max
        );
        if let (Some(peer), Some(value), Some(ratio), Some(min), Some(max)) =
            (&row.peer, row.peer_value, row.ratio, row.ratio_min, row.ratio_max)
        {
            let _ = write!(text, "  {ratio:.2} x {peer} {value:.2}  ({min:.2} to {max:.2})");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_peer_a_line_has_no_ratio() {
        let row = Row {
            name: "x".into(),
            value: 3.0,
            unit: "Mpps",
            peer: None,
            peer_value: None,
            ratio: None,
            runs: 1,
            value_min: 3.0,
            value_max: 3.0,
            ratio_min: None,
            ratio_max: None,
        };
        assert_eq!(text(&[row]), "x      3.00 Mpps  (3.00 to 3.00)\n");
    }
}
