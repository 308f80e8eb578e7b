//! `plexus show`: what a running node or controller knows and counts.

use std::io::{IsTerminal, Write};
use std::net::IpAddr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use plexus_api::answer::router::Routes;
use plexus_api::{Answer, Client, Request, Topic};
use plexus_view::FLOWS_SHOWN;

use crate::ask::Which;
use crate::exit::{Failure, Outcome};

/// Show what a running node knows and counts.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  plexus show ports
  plexus show macs --node sw1 --json
  plexus show drops --watch
  plexus show flows --top 5 --node sw1
  plexus show links --node n1
  plexus show topology --node c1
  plexus show controllers --node c1
  plexus show route 192.0.2.1 --node r1
  plexus show route 192.0.2.1 --node c1
  plexus show routes --node r1
  plexus show faces --node ndn1")]
pub(crate) struct Args {
    /// What to show.
    #[arg(value_parser = What::parser())]
    what: What,
    /// Of `route`: the destination that packets go to.
    #[arg(required_if_eq("what", "route"))]
    address: Option<IpAddr>,
    #[command(flatten)]
    which: Which,
    /// Of `flows`: how many.
    #[arg(long, value_name = "N", default_value_t = FLOWS_SHOWN)]
    top: usize,
    /// Print the node's answer as JSON.
    #[arg(long)]
    json: bool,
    /// Show it again every second until interrupted.
    #[arg(long)]
    watch: bool,
}

/// Where a listing of all routes begins.
const FIRST: &str = "0.0.0.0/0";

/// What can be shown.
#[derive(Clone, Copy)]
enum What {
    Topic(Topic),
    Route,
    Routes,
}

/// The two that are no topic: they have an argument, or several answers.
const OTHERS: [(What, &str, &str); 2] = [
    (
        What::Route,
        "route",
        "What a router does with packets to an address; a controller also tells their way",
    ),
    (What::Routes, "routes", "A router's routes in use, one a line, as its packet path has them"),
];

impl What {
    fn parser() -> impl TypedValueParser<Value = What> {
        let topics = Topic::ALL.iter().map(|t| (t.name(), t.help().trim_end_matches('.')));
        let all = topics.chain(OTHERS.iter().map(|(_, name, help)| (*name, *help)));
        let all = all.map(|(name, help)| PossibleValue::new(name).help(help));
        PossibleValuesParser::new(all).map(|name| {
            let other = OTHERS.iter().find(|(_, n, _)| *n == name).map(|(what, ..)| *what);
            let topic = || Topic::of_name(&name).map(What::Topic);
            other.or_else(topic).unwrap_or(What::Topic(Topic::Ports))
        })
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut client = args.which.connect()?;
    loop {
        let text = match (args.what, args.address) {
            (What::Topic(topic), _) => shown(&mut client, topic, args.json, args.top)?,
            (What::Routes, _) => return routes(&mut client, args.json),
            (What::Route, None) => return Err(Failure::unusable("name the address")),
            (What::Route, Some(address)) => {
                let answer = client.ask(&Request::Route(address)).map_err(Failure::unusable)?;
                match args.json {
                    true => format!("{answer}\n"),
                    false => plexus_view::route(&read(serde_json::from_value(answer))?),
                }
            }
        };
        let mut out = std::io::stdout().lock();
        let clear = if args.watch && out.is_terminal() { "\x1b[2J\x1b[H" } else { "" };
        // A reader that has had enough (`| head`) ends it.
        if write!(out, "{clear}{text}").and_then(|()| out.flush()).is_err() || !args.watch {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// A daemon's answer as the type that it should be.
fn read<T>(answer: serde_json::Result<T>) -> Result<T, Failure> {
    answer.map_err(|e| {
        Failure::unusable(format!(
            "the daemon's answer is of another version ({e}): `--json` shows it as it is"
        ))
    })
}

fn shown(client: &mut Client, topic: Topic, json: bool, top: usize) -> Result<String, Failure> {
    let answer = client.ask(&Request::Show(topic)).map_err(Failure::unusable)?;
    match json {
        true => Ok(format!("{answer}\n")),
        false => Ok(plexus_view::answer(&read(Answer::read(topic, answer))?, top)),
    }
}

/// Prints all routes in use, a part at a time: a table of millions is in no one answer. Fails if
/// the packet path has others than the router's routes say.
pub(crate) fn routes(client: &mut Client, json: bool) -> Outcome {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut first = Some(FIRST.to_string());
    let mut disagree = Vec::new();
    while let Some(from) = first {
        let from = from.parse().map_err(Failure::unusable)?;
        let answer = client.ask(&Request::RoutesFrom(from)).map_err(Failure::unusable)?;
        let raw = json.then(|| answer.to_string());
        let part: Routes = read(serde_json::from_value(answer))?;
        disagree.extend(part.disagree);
        first = part.next;
        let written = match raw {
            Some(line) => writeln!(out, "{line}"),
            None => part.routes.iter().try_for_each(|line| writeln!(out, "{line}")),
        };
        // A reader that has had enough (`| head`) ends it.
        if written.is_err() {
            return Ok(());
        }
    }
    let _ = out.flush();
    match disagree.first() {
        None => Ok(()),
        Some(one) => Err(Failure::No(format!(
            "the packet path has something else at {} prefixes, {one} among them",
            disagree.len()
        ))),
    }
}
