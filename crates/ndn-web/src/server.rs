//! The proxy's connections, with limits on number, memory and idle time.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use plexus_ndn_apps::endpoint::EndpointError;
use plexus_ndn_apps::segments::Settings;
use plexus_ndn_apps::window::Algorithm;
use plexus_wire::ndn::NameBuf;
use plexus_wire::ndn::face_uri::FaceUri;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::LocalSet;

use crate::desk;
use crate::proxy::Proxy;

/// Longest request header in bytes.
const HEAD_MAX: usize = 32 << 10;
/// Timeout of a request header, also of the next one on a connection.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// A peer that reads nothing for this long is disconnected.
const WRITE_TIME: Duration = Duration::from_secs(60);
/// Interval at which the stop flag is checked.
const LOOK: Duration = Duration::from_millis(100);
/// Delay before the next accept when there is no free descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// How a proxy serves.
#[derive(Clone, Debug)]
pub struct Config {
    /// The forwarder.
    pub uri: FaceUri,
    /// The prefix of all names.
    pub prefix: NameBuf,
    /// The site of requests with only a path, as in names.
    pub site: String,
    /// Connections at once.
    pub connections: usize,
    /// Requests answered at once.
    pub requests: usize,
    /// The largest window of a request, and the number of segments that may be kept for it.
    pub window_max: usize,
    /// How long to wait for an object to begin.
    pub patience: Duration,
}

/// Why a proxy ended early.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The forwarder.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The system.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Answers requests on a socket from named data until `stop` is set. `ready` is called when the
/// forwarder is reached.
///
/// # Errors
/// [`ProxyError`].
pub fn serve(
    listener: std::net::TcpListener,
    config: Config,
    stop: &Arc<AtomicBool>,
    ready: impl FnMut() + Send + 'static,
) -> Result<(), ProxyError> {
    let Config { uri, prefix, site, connections, requests, window_max, patience } = config;
    let settings = Settings {
        algorithm: Algorithm::Cubic,
        window_max: window_max.max(1),
        ahead_max: window_max.max(1),
        ..Settings::default()
    };
    // Why it came to nothing is known to the thread that tried.
    let failed = Arc::new(Mutex::new(None));
    let (kept, flag) = (failed.clone(), stop.clone());
    let ended = move |error| {
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        flag.store(true, Ordering::Relaxed);
    };
    let desk = desk::open(uri, settings, patience, stop.clone(), ready, ended)?;
    let places = Arc::new(Semaphore::new(requests.clamp(1, Semaphore::MAX_PERMITS)));
    let proxy = Proxy { prefix, site, desk, places, patience };
    run(listener, proxy, connections.clamp(1, Semaphore::MAX_PERMITS), stop)?;
    match failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(EndpointError::into(error)),
        None => Ok(()),
    }
}

/// Answers requests on a socket until `stop` is set.
///
/// # Errors
/// When the runtime cannot be created, or the socket is unusable.
pub fn run(
    listener: std::net::TcpListener,
    proxy: Proxy,
    connections: usize,
    stop: &AtomicBool,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    listener.set_nonblocking(true)?;
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::from_std(listener)?;
        let proxy = Rc::new(proxy);
        let places = Arc::new(Semaphore::new(connections));
        while !stop.load(Ordering::Relaxed) {
            // Connections beyond the limit wait in the kernel's queue.
            let Ok(Ok(place)) = tokio::time::timeout(LOOK, places.clone().acquire_owned()).await
            else {
                continue;
            };
            match tokio::time::timeout(LOOK, listener.accept()).await {
                Ok(Ok((stream, peer))) => {
                    let proxy = proxy.clone();
                    tokio::task::spawn_local(converse(stream, peer, proxy, place));
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(_) => {}
            }
        }
        Ok(())
    })
}

async fn converse(stream: TcpStream, peer: SocketAddr, proxy: Rc<Proxy>, _: OwnedSemaphorePermit) {
    let ms = WRITE_TIME.as_millis() as u32;
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, ms);
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let proxy = proxy.clone();
        async move { Ok::<_, Infallible>(proxy.answer(request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "a connection ended");
    }
}
