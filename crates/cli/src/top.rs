//! `plexus top`: the rates of a node's ports, hosts and flows, again every second.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use plexus_api::answer::node::{Flows, Ports};
use plexus_api::question::Of;
use plexus_api::{Answer, Client, Request, Topic};
use plexus_view::{LINES, Second};

use crate::ask::Which;
use crate::exit::{Failure, Outcome};

/// Show the rates of a node's ports, hosts and flows, again every second.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  plexus top
  plexus top --node sw1
  plexus top --node lab/n1 --once
  plexus top --json | jq .ports

Ports are counted. Flows and hosts are from a sample of each second: `plexus show flows` says how.
Ctrl-C ends it.")]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Show it once.
    #[arg(long)]
    once: bool,
    /// Print a line of JSON each time.
    #[arg(long)]
    json: bool,
}

/// Runs `plexus top`.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut client = args.which.connect()?;
    let (mut before, mut since) = (ports(&mut client)?, Instant::now());
    loop {
        // Its sample takes a second.
        let flows = flows(&mut client)?;
        let (now, at) = (ports(&mut client)?, Instant::now());
        let second = Second::new(&before, &now, (at - since).as_secs_f64(), flows);
        (before, since) = (now, at);
        let mut out = std::io::stdout().lock();
        let is_terminal = out.is_terminal();
        let text = match args.json {
            true => serde_json::to_string(&second).map_err(Failure::unusable)? + "\n",
            false => second.text(if is_terminal { height() } else { LINES }),
        };
        let clear = if is_terminal && !args.once && !args.json { "\x1b[2J\x1b[H" } else { "" };
        // A reader that has had enough (`| head`) ends it.
        if write!(out, "{clear}{text}").and_then(|()| out.flush()).is_err() || args.once {
            return Ok(());
        }
    }
}

fn ask(client: &mut Client, topic: Topic) -> Result<Answer, Failure> {
    let answer = client.ask(&Request::Show(topic)).map_err(Failure::unusable)?;
    let other = |e| Failure::unusable(format!("the node's answer is of another version: {e}"));
    Answer::read(topic, answer).map_err(other)
}

fn ports(client: &mut Client) -> Result<Ports, Failure> {
    match ask(client, Topic::Ports)? {
        Answer::Ports(ports) => Ok(ports),
        _ => Err(no_node()),
    }
}

fn flows(client: &mut Client) -> Result<Flows, Failure> {
    match ask(client, Topic::Flows)? {
        Answer::Flows(Of::Node(flows)) => Ok(flows),
        _ => Err(no_node()),
    }
}

fn no_node() -> Failure {
    Failure::unusable("a controller carries no traffic: name a node by --node")
}

/// Lines of the terminal.
fn height() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.ok().map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0).unwrap_or(LINES)
}
