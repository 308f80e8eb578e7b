//! Fetches an object into a file or to standard output, and measures how that went.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plexus_wire::ndn::face_uri::FaceUri;
use serde::Serialize;

use crate::app::Application;
use crate::endpoint::{Endpoint, EndpointError, now};
use crate::failure::Failure;
use crate::fetch::Fetch;
use crate::segments::Stats;

/// Why an object was not saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The forwarder.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The object was not fetched.
    #[error(transparent)]
    Fetch(#[from] Failure),
    /// The flag was set before its end.
    #[error("interrupted")]
    Interrupted,
    /// Its content could not be written.
    #[error("cannot write to {to}: {error}")]
    Write {
        /// The file, or standard output.
        to: String,
        /// The reason.
        error: io::Error,
    },
}

/// An object that was saved.
#[derive(Clone, Debug, Serialize)]
pub struct Saved {
    /// Its name, with its version.
    pub name: String,
    /// Bytes of its content.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// Bits of content a second.
    pub goodput_bits_per_s: f64,
    /// Statistics of its segments.
    #[serde(flatten)]
    pub stats: Stats,
    /// Median of the round-trip times, in µs.
    pub rtt_us_p50: Option<u64>,
    /// Their 99th percentile.
    pub rtt_us_p99: Option<u64>,
}

impl Saved {
    fn new(fetch: &Fetch, took: Duration) -> Saved {
        let stats = fetch.stats().cloned().unwrap_or_default();
        let bytes = fetch.progress().0;
        let seconds = took.as_secs_f64();
        let rtt = stats.rtt_us.as_ref().filter(|rtt| !rtt.is_empty());
        let quantile = |q| rtt.map(|rtt| rtt.value_at_quantile(q));
        Saved {
            name: fetch.object().to_string(),
            bytes,
            seconds,
            goodput_bits_per_s: if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 },
            rtt_us_p50: quantile(0.5),
            rtt_us_p99: quantile(0.99),
            stats,
        }
    }
}

/// Fetches an object from the forwarder at `uri`, and writes its content to a file, or to standard
/// output. `each` is called in every turn, with the time since the beginning. A failure to write
/// sets `stop`.
///
/// # Errors
/// [`SaveError`].
pub fn save(
    mut fetch: Fetch,
    uri: &FaceUri,
    path: Option<&Path>,
    stop: &AtomicBool,
    mut each: impl FnMut(Duration, &Fetch),
) -> Result<Saved, SaveError> {
    let mut endpoint = Endpoint::connect(uri)?;
    let mut output = Output { path, file: None };
    let begin = now();
    let mut written = Ok(());
    endpoint.run_with(&mut fetch, stop, |at, fetch| {
        while written.is_ok()
            && let Some(content) = fetch.take()
        {
            written = output.write(&content);
        }
        if written.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        each(at.since(begin), fetch);
    })?;
    let took = now().since(begin);
    if let Some(failure) = fetch.failure() {
        return Err(failure.clone().into());
    }
    written.and_then(|()| output.flush()).map_err(|e| output.failure(e))?;
    if !fetch.is_done() {
        return Err(SaveError::Interrupted);
    }
    Ok(Saved::new(&fetch, took))
}

/// A file, made when the first bytes come, or standard output.
struct Output<'a> {
    path: Option<&'a Path>,
    file: Option<File>,
}

impl Output<'_> {
    fn open(&mut self) -> io::Result<Option<&mut File>> {
        if let (None, Some(path)) = (&self.file, self.path) {
            self.file = Some(File::create(path)?);
        }
        Ok(self.file.as_mut())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.open()? {
            Some(file) => file.write_all(bytes),
            None => io::stdout().write_all(bytes),
        }
    }

    /// An empty object is a file too.
    fn flush(&mut self) -> io::Result<()> {
        match self.open()? {
            Some(file) => file.flush(),
            None => io::stdout().flush(),
        }
    }

    fn failure(&self, error: io::Error) -> SaveError {
        let to = self.path.map_or("standard output".into(), |p| p.display().to_string());
        SaveError::Write { to, error }
    }
}
