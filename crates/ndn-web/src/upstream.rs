//! An upstream site as a library: an object that is missing or stale is fetched from upstream, once
//! for all waiting consumers.
//!
//! Only the configured host is contacted, so this is not an open proxy; nothing about consumers is
//! forwarded. Responses are cached whole, large ones in unnamed files, up to a total number of
//! bytes; the least recently used is evicted first. When a response is stale, upstream is asked
//! whether it has changed. If so, the previous version stays for a minute after its last use, so
//! that a consumer can finish reading it; when room is short, such versions are evicted first.
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

/// How long a fetched response answers waiting consumers, even if it is not cached.
const GRACE: Duration = Duration::from_secs(1);
/// How long an old version stays unused.
const OLD_AGE: Duration = Duration::from_secs(60);
/// Most old versions.
const OLD_MAX: usize = 256;
/// Concurrent requests to upstream.
const REQUESTS: usize = 32;
/// Most waiting requests.
const WAITING: usize = 4096;
/// Bytes that a response takes besides its body: metadata, which fill at most a packet, validators,
/// its name, and times.
const ENTRY_COST: u64 = 16 << 10;

/// Configuration of an upstream site.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its scheme, host and port.
    pub origin: Origin,
    /// Trusted authorities for https.
    pub tls: Tls,
    /// The host in names and requests, and in its certificate.
    pub host: String,
    /// Bytes of a segment.
    pub segment_size: usize,
    /// The freshness of responses that state none.
    pub freshness: Duration,
    /// Bytes of cached bodies, plus 16 KiB for each.
    pub bytes_max: u64,
    /// Bytes of the longest body.
    pub body_max: u64,
    /// Timeout: a request without progress for this long is given up.
    pub patience: Duration,
}

/// Validators of a fetched response, for asking whether it has changed.
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

/// A version that is no longer the newest.
struct Old {
    path: NameBuf,
    object: Arc<Object>,
    until: Time,
}

/// An upstream site.
pub struct Site {
    config: Config,
    entries: HashMap<NameBuf, Entry>,
    /// The next to be evicted is in front.
    old: VecDeque<Old>,
    /// Of everything cached.
    bytes: u64,
    /// Incremented with each use.
    uses: u64,
    jobs: tokio_mpsc::Sender<Job>,
    done: mpsc::Receiver<Done>,
    is_new: bool,
    last_version: u64,
    prefix: NameBuf,
}

/// Fetches for a [`Site`].
pub struct Fetcher {
    config: Arc<Config>,
    jobs: tokio_mpsc::Receiver<Job>,
    done: mpsc::Sender<Done>,
    /// Wakes the site's thread.
    pub waker: Arc<Mutex<Option<Waker>>>,
}

/// A site below `prefix`, and its fetcher.
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
    /// Processes a fetched response.
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
        // Versions increase, even if the clock goes back.
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

    /// Evicts the least recently used old version; false if there is none.
    fn drop_old(&mut self) -> bool {
        let old = self.old.pop_front();
        self.bytes -= old.as_ref().map_or(0, |old| cost(&old.object));
        old.is_some()
    }

    /// An old version; this use extends its stay.
    fn find_old(&mut self, now: Time, path: Name<'_>, version: u64) -> Option<Arc<Object>> {
        let is_it = |old: &Old| old.object.version == version && old.path.as_name() == path;
        let mut old = self.old.remove(self.old.iter().position(is_it)?)?;
        old.until = now + OLD_AGE;
        let object = old.object.clone();
        self.old.push_back(old);
        Some(object)
    }

    /// Evicts the least recently used responses, except one.
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
        // An evicted version does not come back.
        if let Some(version) = version {
            return self.find_old(now, path, version).map_or(Found::Absent, Found::Object);
        }
        let Some((_, target)) = target_of(path).filter(|(host, _)| *host == self.config.host)
        else {
            return Found::Absent;
        };
        let validators =
            self.entries.get(path.value()).map(|e| e.validators.clone()).unwrap_or_default();
        // If the queue is full, the consumer's retransmission tries again.
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
    /// Fetches until `stop` is set, in this thread. Reasons of failures are also reported to the
    /// operator, each at most once a minute, and not many of them.
    ///
    /// # Errors
    /// When the runtime cannot be created.
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

/// The cost of a cached response: an empty one is not free.
fn cost(object: &Object) -> u64 {
    object.body.size() + ENTRY_COST
}

/// The response published when upstream fails.
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
