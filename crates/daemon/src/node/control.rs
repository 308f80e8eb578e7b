//! What a node answers on its control socket.
//!
//! ```text
//! {"show":"ports"|"macs"|"drops"|"node"}     → what it says
//! {"show":"links"|"hosts"|"groups"|"source-routes"}   → the same, of a node in a fabric
//! {"show":"fib"|"neighbours"}                → the same, of a router
//! {"show":"faces"|"names"|"cache"}           → the same, of a forwarder of named data
//! {"route":"ADDRESS"}                        → what it does with packets to the address, and why
//! {"routes_from":"PREFIX"}                   → some of its routes in use, and where others begin
//! {"trace":"PORT"}                           → {"now_ns":…,"out":…,"frame":"hex"} … until hung up
//! {"silence":{"port":"P","on":true}}         → {"done":true}: P hears nothing, its link stays up
//! {"reload":true}                            → {"done":true}
//! ```

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, TrySendError};
use std::time::Duration;

use plexus_io::PortId;
use plexus_wire::hex;
use serde_json::{Value, json};

use super::boxed::Node;
use super::show;
use crate::socket::{Asked, say};

/// Frames that wait for a slow client of a trace.
const TRACE_QUEUE: usize = 4096;

/// A node that answers, and the file that it reads again.
pub(crate) struct Answers {
    pub(crate) node: Arc<Node>,
    pub(crate) config: PathBuf,
}

impl Asked for Answers {
    fn answer(&self, question: &Value) -> Result<Value, String> {
        if let Some(what) = question.get("show").and_then(Value::as_str) {
            return show::answer(&self.node, what);
        }
        if let Some(address) = question.get("route").and_then(Value::as_str) {
            return show::route(&self.node, address);
        }
        if let Some(first) = question.get("routes_from").and_then(Value::as_str) {
            return show::routes_from(&self.node, first);
        }
        if question.get("reload").is_some() {
            return self.node.reload(&self.config).map(|()| json!({"done": true}));
        }
        if let Some(silence) = question.get("silence") {
            let port = silence["port"].as_str().ok_or("name the port")?;
            let on = silence["on"].as_bool().ok_or("say whether it is on")?;
            return self.node.silence(port, on).map(|()| json!({"done": true}));
        }
        Err("ask {\"show\":\"ports\"}, route, trace, silence, reload or stop".into())
    }

    fn converse(&self, question: &Value, stream: &UnixStream) -> Option<io::Result<()>> {
        let port = question.get("trace").and_then(Value::as_str)?;
        Some(self.trace(stream, port))
    }
}

impl Answers {
    /// Sends every frame of a port until the client hangs up. What a slow client misses is counted
    /// in the next line.
    fn trace(&self, stream: &UnixStream, name: &str) -> io::Result<()> {
        let file = self.node.file();
        let Some(port) = file.ports.iter().position(|p| p.name == name && !p.is_vacant()) else {
            let names = file.ports.iter().filter(|p| !p.is_vacant()).map(|p| p.name.as_str());
            let names: Vec<&str> = names.collect();
            let why = format!("there is no port '{name}': there are {}", names.join(", "));
            return say(stream, &json!({"error": why}));
        };
        let (sender, frames) = mpsc::sync_channel(TRACE_QUEUE);
        let missed = Arc::new(AtomicU64::new(0));
        let missing = missed.clone();
        let see = Box::new(move |seen: plexus_plane::Seen<'_>| {
            let frame = (seen.now.as_nanos(), seen.outgoing, seen.bytes.to_vec());
            if let Err(TrySendError::Full(_)) = sender.try_send(frame) {
                missing.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _watching = self.node.watch(port as PortId, see);
        loop {
            let line = match frames.recv_timeout(Duration::from_secs(1)) {
                Ok((now_ns, out, bytes)) => {
                    let missed = missed.swap(0, Ordering::Relaxed);
                    json!({"now_ns": now_ns, "out": out, "missed": missed, "frame": hex(&bytes)})
                }
                // An empty object shows whether the client is still there.
                Err(mpsc::RecvTimeoutError::Timeout) => json!({}),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            };
            say(stream, &line)?;
        }
    }
}
