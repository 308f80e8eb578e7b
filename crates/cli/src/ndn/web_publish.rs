//! `plexus ndn web-publish`: a folder or a site by its URLs.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plexus_config::units::parse_size;
use plexus_io::wake::Waker;
use plexus_ndn_apps::endpoint::publish;
use plexus_ndn_apps::files::{Files, Tree};
use plexus_ndn_apps::object::SEGMENT_SIZE;
use plexus_ndn_apps::publisher::{Counters, Library, Publisher};
use plexus_ndn_web::folder::Folder;
use plexus_ndn_web::names::normal_host;
use plexus_ndn_web::upstream::{self, Config, Origin, Tls};
use plexus_wire::ndn::NameBuf;
use plexus_wire::ndn::face_uri::FaceUri;

use super::signing::Key;
use super::transport::Transport;
use super::{parse_segment_size, tell, unusable};
use crate::exit::{Failure, Outcome};
use crate::generate::{parse_duration, stop_flag};

/// A site that says nothing for so long is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Publish a folder, or a web site that is asked when it is needed, so that `plexus ndn web-proxy`
/// can show it to browsers. http://HOST/a/b?c is PREFIX/HOST/a/b/?c.
#[derive(clap::Args)]
#[command(after_help = "\
Example: a folder, and what a browser sees of it at http://127.0.0.1:8080/:
  plexus ndn web-publish /web ~/site
  plexus ndn web-proxy --prefix /web

Example: a site upstream, fetched once for all clients, as fresh as its Cache-Control says:
  plexus ndn web-publish /web https://example.org/
  plexus ndn web-proxy --prefix /web --site example.org

Example: one with a certificate of your own authority:
  plexus ndn web-publish /web https://intranet.example:8443/ --ca authority.pem

Status, media type and caching headers are kept. Cookies and the browser's address are not passed
on, and neither are the site's cookies. A redirect from http to https, at the site's own port or
443, is followed. A redirect of a request to itself is answered by 502. Other redirects go to the
browser. The site's certificate must be for the host in its URL. It is checked by the authorities of
this system (or SSL_CERT_FILE, SSL_CERT_DIR), or by those of --ca alone. A failed request is
answered by 502 with the reason. The reason is printed here too: the same one once a minute, and 16
in a minute at most. Between here and browsers is no https: readers must trust this network.")]
pub(crate) struct Args {
    /// The prefix of all names.
    prefix: NameBuf,
    /// The folder, or the site: http://HOST[:PORT]/ or https://HOST[:PORT]/.
    source: String,
    /// The host in names; by default the site's, or localhost for a folder.
    #[arg(long)]
    host: Option<String>,
    /// Certificates of authorities in PEM, by which a site's certificate is checked instead of by
    /// those of this system.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// For how long caches may take what does not say it for the newest.
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    freshness: Duration,
    /// Bytes of a segment.
    #[arg(
        long,
        default_value_t = SEGMENT_SIZE,
        value_name = "BYTES",
        value_parser = parse_segment_size
    )]
    segment_size: usize,
    /// Memory for packets that have been made.
    #[arg(long, default_value = "256MB", value_parser = parse_size)]
    memory: u64,
    /// Bytes of responses of a site that are kept, each with 16 KiB for its head: up to 1 MiB each
    /// in memory, longer ones in files without a name.
    #[arg(long, default_value = "256MB", value_parser = parse_size)]
    keep: u64,
    /// Bytes of the longest response of a site.
    #[arg(long, default_value = "1GB", value_parser = parse_size)]
    longest: u64,
    /// Print what was counted as JSON, at the end.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: Key,
    #[command(flatten)]
    transport: Transport,
}

/// Runs `plexus ndn web-publish`.
pub(crate) fn run(args: &Args) -> Outcome {
    let uri = args.transport.uri()?;
    let stop = stop_flag()?;
    let counters = match args.source.split_once("://") {
        Some(("http", rest)) => site(args, &uri, false, rest, &stop)?,
        Some(("https", rest)) => site(args, &uri, true, rest, &stop)?,
        Some((scheme, _)) => {
            let why = "a site is asked by http or https";
            return Err(Failure::Unusable(format!("{scheme}: {why}")));
        }
        None => folder(args, &uri, &stop)?,
    };
    tell(args.json, &counters, || {
        format!(
            "{} Interests, {} segments and {} metadata sent",
            counters.interests, counters.segments, counters.metadata
        )
    })
}

fn host(args: &Args, otherwise: &str) -> Result<String, Failure> {
    let host = args.host.as_deref().unwrap_or(otherwise);
    normal_host(host).map_err(|why| Failure::Unusable(format!("'{host}': {why}")))
}

fn folder(args: &Args, uri: &FaceUri, stop: &AtomicBool) -> Result<Counters, Failure> {
    let tree = Tree::open(Path::new(&args.source))
        .map_err(|e| Failure::Unusable(format!("{}: {e}", args.source)))?;
    let host = host(args, "localhost")?;
    let Args { segment_size, freshness, .. } = *args;
    let folder = Folder { tree, host: host.clone(), segment_size, freshness };
    serve(args, uri, Files::new(folder), &host, stop, |_| {})
}

fn site(
    args: &Args,
    uri: &FaceUri,
    is_secure: bool,
    rest: &str,
    stop: &std::sync::Arc<AtomicBool>,
) -> Result<Counters, Failure> {
    let unusable_source = |why: &str| Failure::Unusable(format!("{}: {why}", args.source));
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let origin = Origin::new(is_secure, authority).ok_or_else(|| {
        unusable_source(
            "a site is http://HOST[:PORT]/ or https://HOST[:PORT]/: names hold the path",
        )
    })?;
    let host = host(args, &origin.authority())?;
    let tls = match &args.ca {
        Some(file) => Tls::file(file).map_err(|why| Failure::Unusable(format!("--ca {why}")))?,
        None => Tls::system(),
    };
    if is_secure && tls.authorities == 0 {
        let why = "no authority is known to this system: install ca-certificates, or give --ca";
        return Err(unusable_source(why));
    }
    let config = Config {
        origin,
        tls,
        host: host.clone(),
        segment_size: args.segment_size,
        freshness: args.freshness,
        bytes_max: args.keep,
        body_max: args.longest,
        patience: PATIENCE,
    };
    let source = args.source.clone();
    let tell = move |why: &str| eprintln!("{source}: {why}");
    let (site, fetcher) = upstream::site(config, args.prefix.clone());
    let waker = fetcher.waker.clone();
    let flag = stop.clone();
    let thread = std::thread::Builder::new().name("upstream".into());
    let thread = thread.spawn(move || {
        let ran = fetcher.run(&flag, tell);
        // Without it nothing new is published.
        flag.store(true, Ordering::Relaxed);
        ran
    });
    let thread = thread.map_err(Failure::unusable)?;
    let counters = serve(args, uri, site, &host, stop, |own| {
        *waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(own.clone());
    });
    stop.store(true, Ordering::Relaxed);
    match thread.join() {
        Ok(Ok(())) => counters,
        Ok(Err(error)) => Err(Failure::unusable(error)),
        Err(_) => Err(Failure::Unusable("the requests to the site failed".into())),
    }
}

fn serve<L: Library>(
    args: &Args,
    uri: &FaceUri,
    library: L,
    host: &str,
    stop: &AtomicBool,
    mut ready: impl FnMut(&Waker),
) -> Result<Counters, Failure> {
    let key = args.key.read()?;
    let memory = usize::try_from(args.memory).unwrap_or(usize::MAX);
    let mut publisher = Publisher::new(args.prefix.clone(), library, memory);
    // Others may publish other hosts below the same prefix.
    let prefix = args.prefix.clone().with(host);
    publish(uri, std::slice::from_ref(&prefix), key.as_ref(), &mut publisher, stop, |waker| {
        ready(waker);
        eprintln!("publishing {} as {prefix} at {uri}", args.source);
    })
    .map_err(unusable)?;
    Ok(*publisher.counters())
}
