//! `plexus ndn`: applications of named data, which point at any forwarder.

mod fetch;
mod generate;
mod key;
mod produce;
mod serve;
mod signing;
mod transport;
mod web_proxy;
mod web_publish;

use plexus_ndn_apps::endpoint::EndpointError;
use plexus_report::json;
use serde::Serialize;

use crate::exit::{Failure, Outcome};
use crate::text::print;

/// Applications of named data. The forwarder, a running `plexus node` or another, is at
/// /run/nfd/nfd.sock, or where --transport or the variable NDN_CLIENT_TRANSPORT says.
#[derive(clap::Args)]
#[command(after_help = "\
Example: publish a folder here, and fetch a file of it, at this or another box:
  plexus ndn serve /example/files ~/files
  plexus ndn fetch /example/files/song.ogg -o song.ogg")]
pub(crate) struct Ndn {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Fetch an object of one or many segments.
    Fetch(fetch::Args),
    /// Publish a file, or the files of a folder.
    Serve(serve::Args),
    /// Ask for the items of a catalogue, or the names of a list, and tell how it fared.
    Gen(generate::Args),
    /// Answer every Interest below a prefix.
    Produce(produce::Args),
    /// Publish a folder or a web site by its URLs.
    WebPublish(web_publish::Args),
    /// Answer browsers from named data.
    WebProxy(web_proxy::Args),
    /// Make keys and certificates, by which forwarders recognise those that may command.
    Key(key::Args),
}

impl Ndn {
    /// Runs it.
    pub(crate) fn run(self) -> Outcome {
        match self.command {
            Command::Fetch(args) => fetch::run(&args),
            Command::Serve(args) => serve::run(&args),
            Command::Gen(args) => generate::run(&args),
            Command::Produce(args) => produce::run(&args),
            Command::WebPublish(args) => web_publish::run(&args),
            Command::WebProxy(args) => web_proxy::run(&args),
            Command::Key(args) => key::run(&args),
        }
    }
}

/// Bytes of a segment: at least one.
fn parse_segment_size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a segment has at least one byte".into()),
        Ok(size) => Ok(size),
        Err(_) => Err("write a number of bytes".into()),
    }
}

/// What was counted by the end: as JSON, or in a line for people.
fn tell(as_json: bool, counters: &impl Serialize, line: impl FnOnce() -> String) -> Outcome {
    match as_json {
        true => print(&json(counters)?),
        false => {
            eprintln!("{}", line());
            Ok(())
        }
    }
}

/// No forwarder is like no device: it could not run.
fn unusable(error: EndpointError) -> Failure {
    Failure::unusable(error)
}
