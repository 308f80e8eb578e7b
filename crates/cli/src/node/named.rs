//! Named data on a node: its thread, and what that can be asked.
//!
//! One thread owns the faces' sockets, the forwarder behind them, the management and the disks, so
//! that a packet comes in, is forwarded and goes out without another's help:
//!
//! ```text
//! sockets ─ faces ─▶ forwarder ─▶ faces ─ sockets
//!                     │     ▲
//!                     ▼     │
//!               management  disks
//! ```

mod answers;
mod disks;
mod host;
mod ordered;
mod plane;
mod routing;
mod setup;
mod status;
mod thread;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plexus_config::NamedSettings;
use plexus_io::wake::Waker;
use serde_json::Value;

/// How long the thread may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// The faces.
    Faces,
    /// Routes, next hops, strategies, and what is pending.
    Names,
    /// The content store.
    Cache,
}

/// What reaches the thread.
enum Ask {
    Show(Topic, Sender<Value>),
    Reload(Box<NamedSettings>),
    Stop,
}

/// The running forwarder of named data.
pub(crate) struct Named {
    asks: Sender<Ask>,
    waker: Waker,
}

impl Named {
    /// Listens, opens the disks, and starts the thread, which is for the caller to wait for at the
    /// end.
    ///
    /// # Errors
    /// In words for the person who started it.
    pub(crate) fn start(
        settings: &NamedSettings,
        started: Instant,
    ) -> Result<(Named, JoinHandle<()>), String> {
        let (asks, inbox) = mpsc::channel();
        let thread = setup::prepare(settings, started, inbox)?;
        let waker = thread.waker();
        let run = move || {
            if catch_unwind(AssertUnwindSafe(|| thread.run())).is_err() {
                tracing::error!("the forwarder of named data ended with a panic: the node ends");
                std::process::exit(70);
            }
        };
        let handle = std::thread::Builder::new().name("named-data".into()).spawn(run);
        let handle = handle.map_err(|e| format!("starting the forwarder of named data: {e}"))?;
        Ok((Named { asks, waker }, handle))
    }

    /// What the thread says of itself.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) fn ask(&self, topic: Topic) -> Result<Value, String> {
        let (reply, answer) = mpsc::channel();
        self.tell(Ask::Show(topic, reply));
        let answer = answer.recv_timeout(ANSWER_LIMIT);
        answer.map_err(|_| "the forwarder of named data does not answer".into())
    }

    /// Other routes and strategies from now on.
    pub(crate) fn reload(&self, settings: &NamedSettings) {
        self.tell(Ask::Reload(Box::new(settings.clone())));
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.tell(Ask::Stop);
    }

    fn tell(&self, ask: Ask) {
        // A thread that has ended needs no news.
        let _ = self.asks.send(ask);
        self.waker.wake();
    }
}
