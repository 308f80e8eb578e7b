//! `plexus ndn web-publish`: a folder or a site by its URLs.

use std::path::PathBuf;
use std::time::Duration;

use plexus_config::units::parse_size;
use plexus_ndn_apps::object::SEGMENT_SIZE;
use plexus_ndn_web::publish::{Options, Place, Source};
use plexus_wire::ndn::NameBuf;

use super::signing::Key;
use super::transport::Transport;
use super::{parse_segment_size, tell};
use crate::exit::{Failure, Outcome};
use crate::generate::{parse_duration, stop_flag};

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
    let options = Options {
        host: args.host.as_deref(),
        authorities: args.ca.as_deref(),
        freshness: args.freshness,
        segment_size: args.segment_size,
        bytes_max: args.keep,
        body_max: args.longest,
    };
    let source = Source::open(&args.source, &options).map_err(Failure::unusable)?;
    let key = args.key.read()?;
    let memory = usize::try_from(args.memory).unwrap_or(usize::MAX);
    let place = Place { uri: &uri, prefix: args.prefix.clone(), key: key.as_ref(), memory };
    let counters = source.publish(&place, &stop).map_err(Failure::unusable)?;
    tell(args.json, &counters, || {
        format!(
            "{} Interests, {} segments and {} metadata sent",
            counters.interests, counters.segments, counters.metadata
        )
    })
}
