//! `plexus config set`, `diff`, `apply`, `confirm`, `versions` and `rollback`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap_complete::ArgValueCandidates;
use plexus_api::answer::config::{Applied, Running, Text, Versions as Kept};
use plexus_api::{Client, Config, Request};
use plexus_config::document::read_text;
use plexus_config::units::parse_duration;
use plexus_io::clock::unix_ms;
use plexus_setup::{edit, rollback};
use plexus_view::config as view;
use serde::Serialize;
use serde_json::{Value, json};

use crate::ask::{Which, names};
use crate::exit::{Failure, Outcome};
use crate::text::print;

/// Where the files of daemons are.
const FOLDER: &str = "/etc/plexus";

/// The daemon that is meant.
#[derive(clap::Args)]
pub(super) struct Daemon {
    /// The node or controller, by its name, or LAB/NODE for one of a lab
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(names))]
    pub(super) name: String,
    /// Its control socket, where that is not /run/plexus/NAME.sock
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Daemon {
    pub(super) fn connect(&self) -> Result<Client, Failure> {
        self.which().connect()
    }

    pub(super) fn which(&self) -> Which {
        Which::named(&self.name, self.control.clone())
    }
}

fn ask<T: serde::de::DeserializeOwned>(client: &mut Client, request: Config) -> Result<T, Failure> {
    client.get(&Request::Config(request)).map_err(Failure::unusable)
}

pub(super) fn print_json(answer: &impl Serialize) -> Outcome {
    print(&plexus_report::json(answer)?)
}

/// Arguments of `plexus config set`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  plexus config set n1 port.eth1.queue.packets 512
  plexus config set n1 port.eth1.trunk '[10, \"20-29\"]'
  plexus config set c1 'subnet.\"10.0.0.0/24\".gateway' 10.0.0.1
  plexus config set ./n1.toml port.eth1.rate --delete

Entries of a list such as [[port]] go by their name, prefix or address, or by their place from 1. A
result that `plexus config check` would refuse is not written. Nothing runs until the file is
applied.")]
pub(super) struct Set {
    /// A daemon's name, for /etc/plexus/NAME.toml, or a file
    #[arg(value_name = "NAME|FILE")]
    target: String,
    /// The key, with dots between its parts
    key: String,
    /// The value as in TOML; what is no TOML is taken as a text
    #[arg(required_unless_present = "delete", conflicts_with = "delete")]
    value: Option<String>,
    /// Remove the key
    #[arg(long)]
    delete: bool,
}

impl Set {
    pub(super) fn run(self) -> Outcome {
        let is_file = self.target.contains('/') || self.target.ends_with(".toml");
        let file = match is_file {
            true => PathBuf::from(&self.target),
            false => Path::new(FOLDER).join(format!("{}.toml", self.target)),
        };
        let shown = file.display().to_string();
        let changed = edit::change(&file, &self.key, self.value.as_deref());
        let told = match changed.map_err(Failure::unusable)? {
            true => format!("{shown} is changed; `plexus config apply` has its daemon run it\n"),
            false => format!("{shown} has that already\n"),
        };
        print(&told)
    }
}

/// Arguments of `plexus config diff`.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  plexus config diff n1

Lines with - run and are not in the file, lines with + are in the file and do not run.
Exit code: 0 they are the same, 1 they differ.")]
pub(super) struct Diff {
    #[command(flatten)]
    daemon: Daemon,
}

impl Diff {
    pub(super) fn run(self) -> Outcome {
        let running: Running = ask(&mut self.daemon.connect()?, Config::Running(true))?;
        let file = read_text(Path::new(&running.file)).map_err(Failure::unusable)?;
        let runs = match running.version {
            Some(version) => format!("{} runs version {version}", running.name),
            None => format!("{} runs", running.name),
        };
        let diff = edit::difference((&runs, &running.text), (&running.file, &file));
        let facts = json!({
            "name": running.name, "file": running.file, "version": running.version,
            "trial": running.trial,
        });
        print_difference(&self.daemon, facts, &diff)
    }
}

/// Prints a difference, as JSON with other facts; none is the good end.
pub(super) fn print_difference(daemon: &Daemon, mut facts: Value, diff: &str) -> Outcome {
    if daemon.json {
        (facts["differs"], facts["diff"]) = ((!diff.is_empty()).into(), diff.into());
        print_json(&facts)?;
    } else {
        print(diff)?;
    }
    if diff.is_empty() { Ok(()) } else { Err(Failure::No(String::new())) }
}

/// How a version is adopted.
#[derive(clap::Args)]
pub(super) struct How {
    /// Go back after this time, from 1s to 24h, unless `confirm` comes before
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    confirm_within: Option<Duration>,
    /// A comment for the version
    #[arg(long, value_name = "TEXT", default_value = "")]
    comment: String,
}

impl How {
    /// The request for it.
    pub(super) fn apply(&self) -> plexus_api::Apply {
        let confirm_within_s = self.confirm_within.map(|time| time.as_secs());
        plexus_api::Apply { confirm_within_s, comment: self.comment.clone() }
    }
}

/// A time in whole seconds. `2m` means minutes here, as operators of routers write it.
fn parse_time(text: &str) -> Result<Duration, String> {
    let minutes = text.strip_suffix('m').filter(|number| number.parse::<u32>().is_ok());
    let text = minutes.map_or(text.to_string(), |number| format!("{number}min"));
    let time = parse_duration(&text).map_err(|e| e.to_string())?;
    match time.as_secs() {
        1.. => Ok(time),
        0 => Err("write at least 1s, as in 2m".into()),
    }
}

/// Arguments of `plexus config apply`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  plexus config apply n1 --comment \"VLAN 20 for the printers\"
  plexus config apply n1 --confirm-within 2m
  plexus config confirm n1

With --confirm-within the daemon itself goes back to the earlier text, in the file too, unless it is
confirmed in time: also if the change has cut you off, or the daemon or the box ends meanwhile. What
cannot change while the daemon runs is refused, and then nothing has changed.")]
pub(super) struct Apply {
    #[command(flatten)]
    daemon: Daemon,
    #[command(flatten)]
    how: How,
}

impl Apply {
    pub(super) fn run(self) -> Outcome {
        let applied = ask(&mut self.daemon.connect()?, Config::Apply(self.how.apply()))?;
        tell(&self.daemon, &applied)
    }
}

/// Arguments of `plexus config confirm`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  plexus config confirm n1")]
pub(super) struct Confirm {
    #[command(flatten)]
    daemon: Daemon,
}

impl Confirm {
    pub(super) fn run(self) -> Outcome {
        let applied = ask(&mut self.daemon.connect()?, Config::Confirm(true))?;
        tell(&self.daemon, &applied)
    }
}

/// Says which version runs now.
fn tell(daemon: &Daemon, applied: &Applied) -> Outcome {
    let name = &daemon.name;
    match daemon.json {
        true => print_json(applied),
        false => print(&view::applied(name, applied, &format!("plexus config confirm {name}"))),
    }
}

/// Arguments of `plexus config show`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  plexus config show n1
  plexus config show n1 3")]
pub(super) struct Show {
    #[command(flatten)]
    daemon: Daemon,
    /// An earlier version; the text that runs, if none is given
    #[arg(value_name = "VERSION")]
    number: Option<u64>,
}

impl Show {
    pub(super) fn run(self) -> Outcome {
        let mut client = self.daemon.connect()?;
        if let Some(number) = self.number {
            let text: Text = ask(&mut client, Config::Text(number))?;
            return if self.daemon.json { print_json(&text) } else { print(&text.text) };
        }
        let running: Running = ask(&mut client, Config::Running(true))?;
        if self.daemon.json {
            return print_json(&running);
        }
        print(&view::running(&running))
    }
}

/// Arguments of `plexus config versions`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  plexus config versions n1\n\n\
                        The texts are in the folder that the last line names, as NUMBER.toml.")]
pub(super) struct Versions {
    #[command(flatten)]
    daemon: Daemon,
}

impl Versions {
    pub(super) fn run(self) -> Outcome {
        let kept: Kept = ask(&mut self.daemon.connect()?, Config::Versions(true))?;
        if self.daemon.json {
            return print_json(&kept);
        }
        print(&view::versions(&kept, unix_ms() / 1000))
    }
}

/// Arguments of `plexus config rollback`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  plexus config rollback n1
  plexus config versions n1
  plexus config rollback n1 3 --confirm-within 2m

During a trial this ends the trial. Otherwise it takes the newest confirmed version that is older
than the one that runs; a second rollback returns to the version just left. What the file had and
nobody applied is kept as a version. Keys that were revoked since stay revoked.")]
pub(super) struct Rollback {
    #[command(flatten)]
    daemon: Daemon,
    /// The version; the one before, if none is given
    #[arg(value_name = "VERSION")]
    number: Option<u64>,
    #[command(flatten)]
    how: How,
}

impl Rollback {
    pub(super) fn run(self) -> Outcome {
        let mut client = self.daemon.connect()?;
        let applied = rollback::rollback(&mut client, self.number, self.how.apply());
        tell(&self.daemon, &applied.map_err(Failure::unusable)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds_and_minutes_have_a_short_form() {
        let seconds = |text: &str| parse_time(text).map(|time| time.as_secs());
        let times = ["2m", "2min", "90s", "1h"].map(|text| seconds(text).unwrap());
        assert_eq!(times, [120, 120, 90, 3600]);
        for bad in ["0", "10ms", "5", "m", "-1m", "1.5m"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
