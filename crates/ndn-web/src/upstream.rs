//! A site as a library: what is asked for by name and not here yet, or not fresh any more, is
//! fetched from upstream, once for all who ask.
//!
//! Only one host is ever asked, so this is no open proxy; nothing of who asks is passed on.
//! Responses are kept whole, large ones in files that have no name, up to a number of bytes in all;
//! who was not asked for longest goes first. When a response's freshness is over, upstream is asked
//! whether it has changed. If it has, the version before stays for a minute after somebody asked
//! for it last, so that who is reading it comes to its end; when room is short, such versions go
//! first.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use hyper::header::HeaderValue;
use plexus_io::wake::Waker;
use plexus_ndn_apps::object::{About, Body, Object};
use plexus_ndn_apps::publisher::{Found, Library};
use plexus_wire::Time;
use plexus_wire::ndn::{Name, NameBuf};
use tokio::sync::{Semaphore, mpsc as tokio_mpsc};
use tokio::time::timeout;

use crate::names::target_of;
pub use origin::Origin;
pub use tls::Tls;
use told::Told;

mod fetch;
mod origin;
mod spool;
mod tls;
mod told;

/// What has just been fetched answers those who have asked, even if it is not to be kept.
const GRACE: Duration = Duration::from_secs(1);
/// How long a version that is not the newest stays when nobody asks for it.
const OLD_AGE: Duration = Duration::from_secs(60);
/// Such versions, at most.
const OLD_MAX: usize = 256;
/// Requests to upstream at once.
const REQUESTS: usize = 32;
/// Requests that wait.
const WAITING: usize = 4096;
/// What a response takes besides its body: metadata, which fill a packet at most, validators and
/// its name, some times.
const ENTRY_COST: u64 = 16 << 10;

/// What is asked of upstream.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it is.
    pub origin: Origin,
    /// Whom it is believed to be, by https.
    pub tls: Tls,
    /// The host in names and requests, and in its certificate.
    pub host: String,
    /// Bytes of a segment.
    pub segment_size: usize,
    /// The freshness of responses that do not say theirs.
    pub freshness: Duration,
    /// Bytes of bodies that are kept, and 16 KiB for each.
    pub bytes_max: u64,
    /// Bytes of the longest body.
    pub body_max: u64,
    /// Nothing comes from upstream for so long: it is given up.
    pub patience: Duration,
}

/// What was fetched, as far as it helps to ask whether it has changed.
#[derive(Clone, Debug, Default)]
struct Validators {
    etag: Option<HeaderValue>,
    modified: Option<HeaderValue>,
}

struct Job {
    path: NameBuf,
    target: String,
    validators: Validators,
}

enum Outcome {
    New { body: Body, about: About, validators: Validators },
    NotModified { freshness: Duration },
}

struct Done {
    path: NameBuf,
    outcome: Outcome,
}

struct Entry {
    object: Option<Arc<Object>>,
    validators: Validators,
    fresh_until: Time,
    is_fetching: bool,
    used: u64,
}

/// A version that is not the newest any more.
struct Old {
    path: NameBuf,
    object: Arc<Object>,
    until: Time,
}

/// A site upstream.
pub struct Site {
    config: Config,
    entries: HashMap<NameBuf, Entry>,
    /// Those that go first are in front.
    old: VecDeque<Old>,
    /// Of all that is kept.
    bytes: u64,
    /// Counts up with each use.
    uses: u64,
    jobs: tokio_mpsc::Sender<Job>,
    done: mpsc::Receiver<Done>,
    is_new: bool,
    last_version: u64,
    prefix: NameBuf,
}

/// Who fetches for a [`Site`].
pub struct Fetcher {
    config: Arc<Config>,
    jobs: tokio_mpsc::Receiver<Job>,
    done: mpsc::Sender<Done>,
    /// Wakes the site's thread.
    pub waker: Arc<Mutex<Option<Waker>>>,
}

/// A site, below `prefix`, and who fetches for it.
pub fn site(config: Config, prefix: NameBuf) -> (Site, Fetcher) {
    let (job_sender, jobs) = tokio_mpsc::channel(WAITING);
    let (done_sender, done) = mpsc::channel();
    let fetcher = Fetcher {
        config: Arc::new(config.clone()),
        jobs,
        done: done_sender,
        waker: Arc::default(),
    };
    let site = Site {
        config,
        entries: HashMap::new(),
        old: VecDeque::new(),
        bytes: 0,
        uses: 0,
        jobs: job_sender,
        done,
        is_new: false,
        last_version: 0,
        prefix,
    };
    (site, fetcher)
}

impl Site {
    /// Takes in what was fetched.
    fn take(&mut self, now: Time, done: Done) {
        self.is_new = true;
        let Some(entry) = self.entries.get_mut(&done.path) else { return };
        entry.is_fetching = false;
        let (body, about, validators) = match done.outcome {
            Outcome::NotModified { freshness } => {
                entry.fresh_until = now + freshness.max(GRACE);
                return;
            }
            Outcome::New { body, about, validators } => (body, about, validators),
        };
        entry.fresh_until = now + about.freshness.max(GRACE);
        entry.validators = validators;
        if let Some(object) = entry.object.take() {
            self.old.push_back(Old { path: done.path.clone(), object, until: now + OLD_AGE });
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Versions count up, whatever the clock does.
        self.last_version = (since_1970.as_micros() as u64).max(self.last_version + 1);
        let mut name = self.prefix.clone();
        name.extend(done.path.as_name());
        match Object::new(name.as_name(), self.last_version, body, about) {
            Ok(object) => {
                self.bytes += cost(&object);
                entry.object = Some(Arc::new(object));
            }
            Err(error) => tracing::debug!(%error, "cannot be published"),
        }
        self.make_room(&done.path);
    }

    /// Lets the version go that is not the newest and was not asked for longest; false if there is
    /// none.
    fn drop_old(&mut self) -> bool {
        let old = self.old.pop_front();
        self.bytes -= old.as_ref().map_or(0, |old| cost(&old.object));
        old.is_some()
    }

    /// A version that is not the newest, and stays for as long again.
    fn find_old(&mut self, now: Time, path: Name<'_>, version: u64) -> Option<Arc<Object>> {
        let is_it = |old: &Old| old.object.version == version && old.path.as_name() == path;
        let mut old = self.old.remove(self.old.iter().position(is_it)?)?;
        old.until = now + OLD_AGE;
        let object = old.object.clone();
        self.old.push_back(old);
        Some(object)
    }

    /// Lets those go that were not asked for longest, but for one.
    fn make_room(&mut self, kept: &NameBuf) {
        while self.old.len() > OLD_MAX || self.bytes > self.config.bytes_max {
            if !self.drop_old() {
                break;
            }
        }
        while self.bytes > self.config.bytes_max || self.entries.len() > WAITING {
            let idle = self.entries.iter().filter(|(path, e)| !e.is_fetching && *path != kept);
            let Some(path) = idle.min_by_key(|(_, e)| e.used).map(|(path, _)| path.clone()) else {
                return;
            };
            if let Some(entry) = self.entries.remove(&path) {
                self.bytes -= entry.object.map_or(0, |object| cost(&object));
            }
        }
    }
}

impl Library for Site {
    fn find(&mut self, now: Time, _: Name<'_>, path: Name<'_>, version: Option<u64>) -> Found {
        self.uses += 1;
        if let Some(entry) = self.entries.get_mut(path.value()) {
            entry.used = self.uses;
            let is_wanted = |object: &Arc<Object>| match version {
                Some(version) => object.version == version,
                None => entry.fresh_until > now,
            };
            if let Some(object) = entry.object.as_ref().filter(|o| is_wanted(o)) {
                return Found::Object(object.clone());
            }
            if entry.is_fetching && version.is_none() {
                return Found::Later;
            }
            // It was fetched, and cannot be published.
            if entry.object.is_none() && entry.fresh_until > now && version.is_none() {
                return Found::Absent;
            }
        }
        // A version that is gone does not come back.
        if let Some(version) = version {
            return self.find_old(now, path, version).map_or(Found::Absent, Found::Object);
        }
        let Some((_, target)) = target_of(path).filter(|(host, _)| *host == self.config.host)
        else {
            return Found::Absent;
        };
        let validators =
            self.entries.get(path.value()).map(|e| e.validators.clone()).unwrap_or_default();
        // Who finds no room asks again when something has been done.
        if self.jobs.try_send(Job { path: path.to_buf(), target, validators }).is_ok() {
            let entry = self.entries.entry(path.to_buf()).or_insert_with(|| Entry {
                object: None,
                validators: Validators::default(),
                fresh_until: Time::ZERO,
                is_fetching: true,
                used: 0,
            });
            entry.is_fetching = true;
            entry.used = self.uses;
        }
        Found::Later
    }

    fn has_news(&mut self, now: Time) -> bool {
        while let Ok(done) = self.done.try_recv() {
            self.take(now, done);
        }
        while self.old.front().is_some_and(|old| old.until <= now) {
            self.drop_old();
        }
        std::mem::take(&mut self.is_new)
    }
}

impl Fetcher {
    /// Fetches until `stop` is set, in this thread. Why something is not fetched is also told to
    /// who runs this, each reason once a minute and not many of them.
    ///
    /// # Errors
    /// When the runtime cannot be made.
    pub fn run(
        mut self,
        stop: &AtomicBool,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<()> {
        let tell = Arc::new(tell);
        let told = Arc::new(Mutex::new(Told::default()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let places = Arc::new(Semaphore::new(REQUESTS));
            while !stop.load(Ordering::Relaxed) {
                let look = Duration::from_millis(100);
                let Ok(Ok(place)) = timeout(look, places.clone().acquire_owned()).await else {
                    continue;
                };
                let job = match timeout(look, self.jobs.recv()).await {
                    Ok(Some(job)) => job,
                    Ok(None) => return Ok(()),
                    Err(_) => continue,
                };
                let (config, done, waker) =
                    (self.config.clone(), self.done.clone(), self.waker.clone());
                let (tell, told) = (tell.clone(), told.clone());
                tokio::spawn(async move {
                    let outcome = match fetch::get(&config, &job).await {
                        Ok(outcome) => outcome,
                        Err(why) => {
                            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                            if told.is_due(Instant::now(), &why) {
                                tell(&why);
                            }
                            failure(&config, &why)
                        }
                    };
                    let _ = done.send(Done { path: job.path, outcome });
                    drop(place);
                    let waker = waker.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(waker) = &*waker {
                        waker.wake();
                    }
                });
            }
            Ok(())
        })
    }
}

/// What a response counts of what is kept: an empty one is not free.
fn cost(object: &Object) -> u64 {
    object.body.size() + ENTRY_COST
}

/// What is published when upstream gives nothing.
fn failure(config: &Config, why: &str) -> Outcome {
    tracing::debug!(%why, upstream = %config.origin, "not fetched");
    let about = About {
        segment_size: config.segment_size,
        freshness: GRACE,
        mtime_ns: None,
        http_status: Some(StatusCode::BAD_GATEWAY.as_u16()),
        http_headers: vec!["content-type: text/plain; charset=utf-8".into()],
    };
    let body = Body::Memory(format!("{}: {why}\n", config.host).into_bytes());
    Outcome::New { body, about, validators: Validators::default() }
}

#[cfg(test)]
mod tests;
