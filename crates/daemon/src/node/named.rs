//! Named data on a node: its threads, and what they can be asked.
//!
//! One thread owns the faces' sockets, a forwarder, the management and disks. So it forwards a
//! packet without another thread:
//!
//! ```text
//! sockets ─ faces ─▶ forwarder ─▶ faces ─ sockets
//!            │ ▲      │     ▲
//!            │ │      ▼     │
//!            │ │ management disks
//!            ▼ │
//!        (rings) forwarder ─ disks       one or several more workers, if the file says so
//! ```
//!
//! With `workers = N` there are N - 1 more threads, each with a forwarder and disks of its own for
//! the names that hash to it.

mod answers;
mod crew;
mod crossing;
mod descriptors;
mod disks;
mod host;
mod numa;
mod ordered;
mod plane;
mod replicas;
mod routing;
mod setup;
mod share;
mod status;
mod thread;
mod trust;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Instant;

use plexus_config::NamedSettings;
use plexus_io::disk::Reserved;
use plexus_io::wake::Waker;
use plexus_ndn::management::Trust;

pub(crate) use self::thread::Thread;
use super::inner::FaceEnd;
use crate::ask::{Question, ask};

/// What reaches the thread.
enum Ask {
    Question(Question<Thread>),
    Reload(Box<Changed>),
    Stop,
}

/// The settings that can change while it runs, from the new file.
pub(crate) struct Changed {
    settings: NamedSettings,
    trust: Trust,
}

impl Changed {
    /// Reads the certificates that the file names.
    ///
    /// # Errors
    /// In words, as at the start.
    pub(crate) fn read(settings: &NamedSettings) -> Result<Changed, String> {
        Ok(Changed { settings: settings.clone(), trust: trust::trust(settings)? })
    }
}

/// The running forwarder of named data.
pub(crate) struct Named {
    asks: Sender<Ask>,
    waker: Waker,
}

impl Named {
    /// Starts the thread, which listens, opens the disks and starts the other workers. The caller
    /// joins it at the end, and keeps the reserved disk space once the whole node has started.
    /// `inner` are Ethernets that the node's ports carry.
    ///
    /// # Errors
    /// In words for the person who started it.
    pub(crate) fn start(
        settings: &NamedSettings,
        inner: Vec<FaceEnd>,
        started: Instant,
    ) -> Result<(Named, JoinHandle<()>, Reserved), String> {
        let reserved = disks::reserve(settings)?;
        let (asks, inbox) = mpsc::channel();
        let (told, ready) = mpsc::channel();
        let settings = settings.clone();
        // The thread that starts this one waits for the message.
        let run = move || match setup::prepare(&settings, inner, started, inbox) {
            Ok(thread) => {
                let _ = told.send(Ok(thread.waker()));
                thread.run();
            }
            Err(why) => drop(told.send(Err(why))),
        };
        let run = move || {
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                tracing::error!("the forwarder of named data ended with a panic: the node ends");
                std::process::exit(70);
            }
        };
        let handle = std::thread::Builder::new().name("named-data".into()).spawn(run);
        let handle = handle.map_err(|e| format!("starting the forwarder of named data: {e}"))?;
        let waker = ready.recv().map_err(|_| "the forwarder of named data has ended")??;
        Ok((Named { asks, waker }, handle, reserved))
    }

    /// Wakes the thread.
    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Asks the thread.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Thread) -> T + Send + 'static,
    ) -> Result<T, String> {
        ask("the forwarder of named data", question, |q| self.tell(Ask::Question(q)))
    }

    /// Other routes, strategies and keys from now on.
    pub(crate) fn reload(&self, changed: Changed) {
        self.tell(Ask::Reload(Box::new(changed)));
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

/// A random number.
///
/// # Errors
/// In words, when the operating system has none.
fn random() -> Result<u64, String> {
    let bytes = plexus_io::secret::random().map_err(|e| format!("randomness: {e}"))?;
    Ok(u64::from_ne_bytes(bytes))
}
