//! Questions of the controller to the rest of the node: counters, while somebody looks at the
//! network, the treatment of a frame, and its part of the common file. A thread of its own asks:
//! the control plane waits for nobody.

use std::sync::Arc;

use plexus_wire::fabric::message::{Counters, DropCount, NamedCount, PortCount};

use super::common::Common;
use super::news::{News, Wanted};
use super::running::RunningNode;
use super::{explain, show};

/// Prefixes of names that are told: a message has room for about as many.
const PREFIXES: usize = 64;

/// Starts the thread, if the node is in a fabric.
///
/// # Errors
/// When it cannot be started.
pub(super) fn serve(node: &Arc<RunningNode>, common: Arc<Common>) -> Result<(), String> {
    let Some(wanted) = node.take_wanted() else { return Ok(()) };
    // The node's own end must not wait for this thread.
    let node = Arc::downgrade(node);
    let run = move || {
        while let Ok(wanted) = wanted.recv() {
            let Some(node) = node.upgrade() else { return };
            let news = match wanted {
                Wanted::Counters => {
                    if let Ok((some, all)) = node.ask_named(|named| named.prefixes(PREFIXES)) {
                        node.tell_fabric(News::Names(some, all));
                    }
                    read(&node).map(News::Counters)
                }
                Wanted::Explanation(asked) => {
                    let told = explain::for_controller(&node, &asked);
                    told.map(|told| News::Explained(Box::new(told)))
                }
                Wanted::Common(task) => Ok(News::Common(common.carry_out(&node, task))),
            };
            match news {
                Ok(news) => node.tell_fabric(news),
                Err(error) => tracing::debug!(error, "no answer for the controller"),
            }
        }
    };
    let thread = std::thread::Builder::new().name("counters".into());
    thread.spawn(run).map_err(|e| format!("starting a thread for counters: {e}"))?;
    Ok(())
}

fn read(node: &RunningNode) -> Result<Counters, String> {
    let totals = node.totals()?;
    let port = |report: &plexus_plane::PortReport| {
        Some(PortCount {
            port: u8::try_from(report.id).ok()?,
            rx_packets: report.stats.rx_packets,
            rx_bytes: report.stats.rx_bytes,
            tx_packets: report.stats.tx_packets,
            tx_bytes: report.stats.tx_bytes,
        })
    };
    let drops = show::drops_by_reason(&totals).into_iter();
    let drops = drops.map(|(reason, packets)| DropCount { reason: reason.into_bytes(), packets });
    let named = node.ask_named(|named| {
        let (cache, names) = (named.show_cache(String::new()), named.pending());
        NamedCount {
            hits: cache.memory.hits + cache.disk_hits,
            misses: cache.misses,
            packets: cache.memory.packets,
            pending: names as u64,
        }
    });
    Ok(Counters {
        time_ms: u64::try_from(node.uptime().as_millis()).unwrap_or(u64::MAX),
        last: true,
        ports: totals.ports.iter().filter_map(port).collect(),
        drops: drops.collect(),
        named: named.ok(),
    })
}
