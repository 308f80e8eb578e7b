//! The daemon that makes a box a switch, a router or a node of a fabric.

mod buffers;
mod common;
mod control;
mod counters;
mod explain;
mod fabric;
mod fast_table;
mod flows;
mod inner;
mod links;
mod load;
mod metrics;
mod named;
mod news;
mod pause;
mod planes;
mod ports;
mod reload;
mod router;
mod running;
mod show;
mod thread;

use std::path::Path;
use std::sync::Arc;

use plexus_config::NodeFile;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::common::Common;
use crate::adoption::{Adoption, Begin, Way};
use crate::socket;

/// Reads a node's configuration and runs the node until told to stop.
///
/// # Errors
/// In words for the person who started it.
pub fn run(config: &Path) -> Result<(), String> {
    let mut begin = Begin::read(config)?;
    let shown = begin.shown();
    // Before any thread starts, so that no signal ends the process half way.
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|e| format!("waiting for signals: {e}"))?;
    // Before any port is opened, so that a second node of the name disturbs no frame.
    let read = |text: &str| NodeFile::parse(&shown, text).map_err(|e| e.to_string());
    let (_, (listener, _socket)) = begin.claim(read, |file| &file.control)?;
    let (common, file) = Common::open(begin.config(), begin.text.clone())?;
    let (node, reserved) = running::RunningNode::start(file, common.part())?;
    let (node, common) = (Arc::new(node), Arc::new(common));
    let adoption = {
        let (name, node, common) = (node.file().name.clone(), node.clone(), common.clone());
        Adoption::new(&name, begin, move |text, way| match way {
            Way::Forth => common.adopt(&node, text),
            Way::Back => common.go_back(&node, text),
        })
    };
    let (own, its) = (node.clone(), adoption.clone());
    let answers = control::Answers { node: own, adoption: its, common: common.clone() };
    socket::serve(listener, Arc::new(answers), signals.handle())?;
    if let Some(address) = node.file().metrics {
        let (node, adoption) = (node.clone(), adoption.clone());
        let text = move |_: &str| Ok(metrics::text(&node)? + &adoption.metrics("node"));
        plexus_web::serve_metrics(address, text)?;
    }
    counters::serve(&node, common)?;
    reserved.keep();
    tracing::info!(node = node.file().name, ports = node.file().ports.len(), "running");
    for signal in signals.forever() {
        if signal != SIGHUP {
            break;
        }
        match adoption.reload() {
            Ok(()) => tracing::info!("configuration read again"),
            Err(why) => tracing::error!("configuration kept as it was: {why}"),
        }
    }
    tracing::info!(node = node.file().name, "stopping");
    node.stop();
    Ok(())
}
