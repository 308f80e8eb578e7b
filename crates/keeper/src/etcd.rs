//! An etcd cluster that several controllers share.
//!
//! A thread of its own talks to one member of the cluster at a time, and goes on with the next one
//! when that fails. All keys of a group begin with `/plexus/` and the group's number:
//!
//! ```text
//! …/format             the version of this layout
//! …/now/leader         the leader record: its revision is the epoch, it ends with a lease
//! …/now/member/NAME    a controller's report, ends with a lease
//! …/lease/IP           an address that was leased to a host
//! …/written            is put with each write, which names the revision of the one before
//! ```

mod keys;
mod requests;
mod session;

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use etcd_client::{Certificate, ConnectOptions, Error, Identity, TlsOptions};
use plexus_config::EtcdSettings;
use plexus_controller::tenure::{Answer, Ask};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::keys::Keys;
use self::session::Worker;
use crate::Keeper;
use crate::batch::Batch;

/// How long a request may take: an election of etcd's own takes a second or two.
const LIMIT: Duration = Duration::from_secs(1);
/// How long after the same trouble was told it is told again.
const TELL_AGAIN: Duration = Duration::from_secs(10);
/// How long after a failure the next member is tried.
const AGAIN: Duration = Duration::from_millis(100);

/// The way to the cluster.
#[derive(Debug)]
pub struct Etcd {
    /// Absent once it ends.
    asks: Option<UnboundedSender<Ask>>,
    answers: Receiver<Answer>,
    thread: Option<thread::JoinHandle<()>>,
    endpoints: String,
    /// The thread has ended, and that was told.
    has_ended: bool,
}

impl Etcd {
    /// Starts to reach the cluster. `name`: the controller's; `group`: the group's; `state`: a file
    /// that remembers the cluster; `wake` is called whenever there is an answer.
    ///
    /// # Errors
    /// When a file of a certificate or a key cannot be read, or no thread can be started.
    pub fn start(
        settings: &EtcdSettings,
        name: &str,
        group: &[u8; 16],
        state: &Path,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Etcd, String> {
        let options = options(settings)?;
        let (asks, heard) = unbounded_channel();
        let (tell, answers) = channel();
        let tell = move |answer| {
            // A daemon that has ended needs no answers.
            let _ = tell.send(answer);
            wake();
        };
        let worker = Worker {
            endpoints: settings.endpoints.clone(),
            options,
            keys: Keys::new(group),
            name: name.to_string(),
            state: PathBuf::from(state),
            tell: Arc::new(tell),
            waiting: Batch::default(),
            written: (0, 0),
            members: Default::default(),
        };
        // A member that does not accept a certificate may only close the connection.
        let hint = match (&settings.ca, &settings.certificate) {
            (Some(_), None) => " (it may want this controller's certificate and key)",
            (Some(_), Some(_)) => {
                " (if it refuses this controller's certificate, its log says why)"
            }
            (None, _) => "",
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| format!("starting the client of etcd: {e}"))?;
        let thread = thread::Builder::new().name("etcd".into());
        let thread = thread
            .spawn(move || runtime.block_on(run(worker, heard, hint)))
            .map_err(|e| format!("starting the client of etcd: {e}"))?;
        let endpoints = settings.endpoints.join(", ");
        let (asks, thread) = (Some(asks), Some(thread));
        Ok(Etcd { asks, answers, thread, endpoints, has_ended: false })
    }
}

impl Drop for Etcd {
    /// Waits until the last requests have been sent: the lease is given up.
    fn drop(&mut self) {
        self.asks = None;
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

impl Keeper for Etcd {
    fn ask(&mut self, ask: Ask) {
        // If the thread has ended, `poll` says so.
        let _ = self.asks.as_ref().map(|asks| asks.send(ask));
    }

    fn poll(&mut self) -> Option<Answer> {
        match self.answers.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                let is_news = !std::mem::replace(&mut self.has_ended, true);
                is_news.then(|| Answer::Trouble("the client of etcd has ended".into()))
            }
        }
    }

    fn describe(&self) -> String {
        format!("etcd at {}", self.endpoints)
    }
}

/// Reaches one member after the other, until the controller ends.
async fn run(mut worker: Worker, mut asks: UnboundedReceiver<Ask>, hint: &str) {
    // Trouble that stays is told again after a while.
    let mut told = (String::new(), Instant::now());
    for at in (0..worker.endpoints.len()).cycle() {
        match worker.session(at, &mut asks).await {
            Ok(()) => return,
            Err(trouble) => {
                if !worker.forget(&mut asks) {
                    return;
                }
                (worker.tell)(Answer::Lost);
                let text = format!("etcd at {}: {trouble}{hint}", worker.endpoints[at]);
                if told.0 != text || told.1.elapsed() > TELL_AGAIN {
                    told = (text.clone(), Instant::now());
                    (worker.tell)(Answer::Trouble(text));
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

fn options(settings: &EtcdSettings) -> Result<ConnectOptions, String> {
    let mut options = ConnectOptions::new().with_connect_timeout(LIMIT).with_require_leader(true);
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|e| format!("reading {}: {e}", path.display()))
    };
    if let Some(ca) = &settings.ca {
        let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(read(ca)?));
        if let Some((certificate, key)) = &settings.certificate {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        options = options.with_tls(tls);
    }
    Ok(options)
}

/// An error in a few words, with its cause: the outermost alone says little.
fn words(error: &Error) -> String {
    let (mut text, mut cause) = match error {
        Error::GRpcStatus(status) => (status.message().to_string(), status.source()),
        other => (other.to_string(), other.source()),
    };
    let mut last = None;
    while let Some(error) = cause {
        (last, cause) = (Some(error.to_string()), error.source());
    }
    if let Some(last) = last.filter(|last| !text.contains(&last[..])) {
        text = format!("{text}: {last}");
    }
    text
}
