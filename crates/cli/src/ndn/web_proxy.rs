//! `plexus ndn web-proxy`: browsers' requests, answered from named data.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use plexus_ndn_web::names::normal_host;
use plexus_ndn_web::server::{Config, serve};
use plexus_wire::ndn::NameBuf;

use super::transport::Transport;
use crate::exit::{Failure, Outcome};
use crate::generate::{parse_duration, stop_flag};

/// Answer browsers (HTTP/1.1) from named data: http://HOST/a/b?c is PREFIX/HOST/a/b/?c. A request
/// for a path alone means the site of --site; as a proxy it answers for any published host.
#[derive(clap::Args)]
#[command(after_help = "\
Example: what `plexus ndn web-publish /web ~/site` publishes, at http://127.0.0.1:8080/:
  plexus ndn web-proxy --prefix /web

Example: as a proxy, for every host that is published below /web:
  curl -x http://127.0.0.1:8080 http://example.org/

Ranges, HEAD, ETag and If-Modified-Since work; CONNECT, and so https, does not (501). What is not
published is 404, what nobody answers in time 504, and 502 if there is no route.")]
pub(crate) struct Args {
    /// Address and port to listen at.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The prefix of all names.
    #[arg(long)]
    prefix: NameBuf,
    /// The site that a request for a path alone means.
    #[arg(long, default_value = "localhost")]
    site: String,
    /// Connections at once; more wait.
    #[arg(long, default_value_t = 256)]
    connections: usize,
    /// Requests answered at once; others are told to come again (503).
    #[arg(long, default_value_t = 64)]
    requests: usize,
    /// Interests on their way for one request, at most; as many segments may be kept.
    #[arg(long, default_value_t = 256)]
    window_max: usize,
    /// How long to wait for an object to begin.
    #[arg(long, default_value = "20s", value_parser = parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    transport: Transport,
}

/// Runs `plexus ndn web-proxy`.
pub(crate) fn run(args: &Args) -> Outcome {
    let uri = args.transport.uri()?;
    let site = normal_host(&args.site)
        .map_err(|why| Failure::Unusable(format!("--site '{}': {why}", args.site)))?;
    let listener = TcpListener::bind(args.listen)
        .map_err(|e| Failure::Unusable(format!("cannot listen at {}: {e}", args.listen)))?;
    let at = listener.local_addr().map_err(Failure::unusable)?;
    let stop = stop_flag()?;
    let config = Config {
        uri,
        prefix: args.prefix.clone(),
        site,
        connections: args.connections,
        requests: args.requests,
        window_max: args.window_max,
        patience: args.timeout,
    };
    let ready = move || eprintln!("answering at http://{at}/");
    serve(listener, config, &stop, ready).map_err(Failure::unusable)
}
