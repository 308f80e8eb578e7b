//! Publishes a folder or an upstream site by its URLs, until it is stopped.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use plexus_io::wake::Waker;
use plexus_ndn_apps::endpoint::{EndpointError, publish};
use plexus_ndn_apps::files::{Files, Tree};
use plexus_ndn_apps::key::CommandKey;
use plexus_ndn_apps::publisher::{Counters, Library, Publisher};
use plexus_wire::ndn::NameBuf;
use plexus_wire::ndn::face_uri::FaceUri;

use crate::folder::Folder;
use crate::names::normal_host;
use crate::upstream::{self, Config, Origin, Tls};

/// A site that says nothing for so long is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a source is published.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The host in names; absent: the site's, or localhost for a folder.
    pub host: Option<&'a str>,
    /// Authorities in PEM that are trusted instead of the system's.
    pub authorities: Option<&'a Path>,
    /// For how long caches may take an object for the newest version that does not say it.
    pub freshness: Duration,
    /// Bytes of a segment.
    pub segment_size: usize,
    /// Bytes of a site's responses that are kept.
    pub bytes_max: u64,
    /// Bytes of the longest response of a site.
    pub body_max: u64,
}

/// A folder or a site that can be published.
pub struct Source {
    text: String,
    host: String,
    kind: Kind,
}

enum Kind {
    Folder(Folder),
    Site(Box<Config>),
}

/// Where and how a source is published.
pub struct Place<'a> {
    /// The forwarder.
    pub uri: &'a FaceUri,
    /// The prefix of all names.
    pub prefix: NameBuf,
    /// Signs the command that registers the prefix.
    pub key: Option<&'a CommandKey>,
    /// Bytes of packets that are kept.
    pub memory: usize,
}

/// Why publishing ended early.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The forwarder.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The system.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The thread of requests panicked.
    #[error("the requests to the site failed")]
    Requests,
}

impl Source {
    /// Opens a folder by its path, or a site by its URL.
    ///
    /// # Errors
    /// In words, when there is no such folder, or the URL or an option is wrong.
    pub fn open(text: &str, options: &Options<'_>) -> Result<Source, String> {
        let (host, kind) = match text.split_once("://") {
            Some(("http", rest)) => site(text, false, rest, options)?,
            Some(("https", rest)) => site(text, true, rest, options)?,
            Some((scheme, _)) => {
                return Err(format!("{scheme}: a site is asked by http or https"));
            }
            None => folder(text, options)?,
        };
        Ok(Source { text: text.into(), host, kind })
    }

    /// Publishes it until `stop` is set.
    ///
    /// # Errors
    /// [`PublishError`].
    pub fn publish(
        self,
        place: &Place<'_>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Counters, PublishError> {
        let Source { text, host, kind } = self;
        let config = match kind {
            Kind::Folder(folder) => {
                return serve(place, Files::new(folder), (&text, &host), stop, |_| {});
            }
            Kind::Site(config) => *config,
        };
        let source = text.clone();
        let tell = move |why: &str| eprintln!("{source}: {why}");
        let (site, fetcher) = upstream::site(config, place.prefix.clone());
        let waker = fetcher.waker.clone();
        let flag = stop.clone();
        let thread = std::thread::Builder::new().name("upstream".into());
        let thread = thread.spawn(move || {
            let ran = fetcher.run(&flag, tell);
            // Without it nothing new is published.
            flag.store(true, Ordering::Relaxed);
            ran
        })?;
        let counters = serve(place, site, (&text, &host), stop, |own| {
            *waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(own.clone());
        });
        stop.store(true, Ordering::Relaxed);
        match thread.join() {
            Ok(Ok(())) => counters,
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(PublishError::Requests),
        }
    }
}

fn folder(text: &str, options: &Options<'_>) -> Result<(String, Kind), String> {
    let tree = Tree::open(Path::new(text)).map_err(|e| format!("{text}: {e}"))?;
    let host = host_of(options, "localhost")?;
    let Options { segment_size, freshness, .. } = *options;
    Ok((host.clone(), Kind::Folder(Folder { tree, host, segment_size, freshness })))
}

fn site(
    text: &str,
    is_secure: bool,
    rest: &str,
    options: &Options<'_>,
) -> Result<(String, Kind), String> {
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let origin = Origin::new(is_secure, authority).ok_or_else(|| {
        let form = "a site is http://HOST[:PORT]/ or https://HOST[:PORT]/: names hold the path";
        format!("{text}: {form}")
    })?;
    let host = host_of(options, &origin.authority())?;
    let tls = match options.authorities {
        Some(file) => Tls::file(file).map_err(|why| format!("--ca {why}"))?,
        None => Tls::system(),
    };
    if is_secure && tls.authorities == 0 {
        let why = "no authority is known to this system: install ca-certificates, or give --ca";
        return Err(format!("{text}: {why}"));
    }
    let config = Config {
        origin,
        tls,
        host: host.clone(),
        segment_size: options.segment_size,
        freshness: options.freshness,
        bytes_max: options.bytes_max,
        body_max: options.body_max,
        patience: PATIENCE,
    };
    Ok((host, Kind::Site(Box::new(config))))
}

fn host_of(options: &Options<'_>, otherwise: &str) -> Result<String, String> {
    let host = options.host.unwrap_or(otherwise);
    normal_host(host).map_err(|why| format!("'{host}': {why}"))
}

fn serve<L: Library>(
    place: &Place<'_>,
    library: L,
    (source, host): (&str, &str),
    stop: &AtomicBool,
    mut ready: impl FnMut(&Waker),
) -> Result<Counters, PublishError> {
    let Place { uri, key, memory, .. } = *place;
    let mut publisher = Publisher::new(place.prefix.clone(), library, memory);
    // Others may publish other hosts below the same prefix.
    let prefix = place.prefix.clone().with(host);
    publish(uri, std::slice::from_ref(&prefix), key, &mut publisher, stop, |waker| {
        ready(waker);
        eprintln!("publishing {source} as {prefix} at {uri}");
    })?;
    Ok(*publisher.counters())
}
