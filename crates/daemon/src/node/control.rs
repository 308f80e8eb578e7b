//! What a node answers on its control socket.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, TrySendError};
use std::time::Duration;

use plexus_api::answer::{About, Frame, Metrics};
use plexus_api::{Request, Trace};
use plexus_io::PortId;
use plexus_wire::hex;
use serde_json::json;

use super::common::Common;
use super::running::RunningNode;
use super::{explain, fast_table, metrics, show};
use crate::adoption::Adoption;
use crate::socket::{Asked, Reply, refuse, say};

/// Frames that wait for a slow client of a trace.
const TRACE_QUEUE: usize = 4096;

/// A node that answers, and its configuration: its own file and its part of the common file.
pub(crate) struct Answers {
    pub(crate) node: Arc<RunningNode>,
    pub(crate) adoption: Arc<Adoption>,
    pub(crate) common: Arc<Common>,
}

impl Asked for Answers {
    fn answer(&self, request: Request) -> Result<Reply, String> {
        let node = &self.node;
        match request {
            Request::Show(topic) => {
                show::answer(node, topic).map(|shown| Reply::Shown(Box::new(shown)))
            }
            Request::Route(address) => {
                node.ask_router(move |router| router.route(address)).map(Reply::Route)
            }
            Request::RoutesFrom(first) => {
                node.ask_router(move |router| router.routes_from(first)).map(Reply::Routes)
            }
            Request::Explain(question) => {
                explain::answer(node, &question).map(|told| Reply::Explained(Box::new(told)))
            }
            Request::Silence(silence) => {
                node.silence(&silence.port, silence.on).map(|()| Reply::DONE)
            }
            Request::Reload(_) => self.adoption.reload().map(|()| Reply::DONE),
            Request::Config(request) => match self.adoption.answer(request)? {
                Reply::Running(mut running) => {
                    running.common = self.common.show(node);
                    Ok(Reply::Running(running))
                }
                reply => Ok(reply),
            },
            Request::Version(_) => Ok(Reply::About(About::new("node", &node.file().name))),
            Request::Metrics(_) => {
                let metrics = metrics::text(node)? + &self.adoption.metrics("node");
                Ok(Reply::Metrics(Metrics { metrics }))
            }
            Request::Common(_) | Request::Drain(_) | Request::Network(_) | Request::Ways(_) => {
                Err("this is a node: ask a controller".into())
            }
            Request::Trace(_) | Request::Stop(_) => Err("this request has no answer".into()),
        }
    }

    fn converse(&self, request: &Request, stream: &UnixStream) -> Option<io::Result<()>> {
        match request {
            Request::Trace(trace) => Some(self.trace(stream, trace)),
            _ => None,
        }
    }
}

impl Answers {
    /// Sends every frame of a port until the client hangs up. What a slow client misses is counted
    /// in the next line.
    fn trace(&self, stream: &UnixStream, trace: &Trace) -> io::Result<()> {
        let Trace { port: name, sample } = trace;
        let file = self.node.file();
        let Some(port) = file.ports.iter().position(|p| p.name == *name && !p.is_vacant()) else {
            let names = file.ports.iter().filter(|p| !p.is_vacant()).map(|p| p.name.as_str());
            let names: Vec<&str> = names.collect();
            let why = format!("there is no port '{name}': there are {}", names.join(", "));
            return refuse(stream, &why);
        };
        if let (Some(_), Err(why)) = (sample, fast_table::can_sample(&self.node, port)) {
            return refuse(stream, &why);
        }
        let (sender, frames) = mpsc::sync_channel(TRACE_QUEUE);
        let missed = Arc::new(AtomicU64::new(0));
        let missing = missed.clone();
        let see = Box::new(move |seen: plexus_plane::Seen<'_>| {
            let plexus_plane::Seen { now, outgoing, bytes, len, is_sample, missed } = seen;
            missing.fetch_add(missed, Ordering::Relaxed);
            let frame = (now.as_nanos(), outgoing, bytes.to_vec(), is_sample, len);
            if let Err(TrySendError::Full(_)) = sender.try_send(frame) {
                missing.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _watching = self.node.watch(port as PortId, *sample, see);
        // From now on nothing is missed.
        say(stream, &json!({}))?;
        loop {
            match frames.recv_timeout(Duration::from_secs(1)) {
                Ok((now_ns, out, bytes, sample, len)) => {
                    let missed = missed.swap(0, Ordering::Relaxed);
                    let frame = hex(&bytes);
                    say(stream, &Frame { now_ns, out, missed, sample, len, frame })?;
                }
                // An empty object shows whether the client is still there.
                Err(mpsc::RecvTimeoutError::Timeout) => say(stream, &json!({}))?,
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
}
