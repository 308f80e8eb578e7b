//! The proxy's connections, with limits on number, memory and idle time.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::LocalSet;

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
                    tokio::task::spawn_local(serve(stream, peer, proxy, place));
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

async fn serve(stream: TcpStream, peer: SocketAddr, proxy: Rc<Proxy>, _: OwnedSemaphorePermit) {
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
