//! The server's connections.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use plexus_config::WebSettings;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;
use tokio_rustls::TlsAcceptor;

use crate::answer::Clerk;
use crate::desk::Desk;
use crate::gate::Gate;
use crate::readers::{Place, Readers};
use crate::{Page, Source, tls};

/// Longest head of a request, in bytes.
const HEAD_MAX: usize = 16 << 10;
/// How long a head may take, also that of the next request on a connection.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// How long a handshake of TLS may take.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// A reader whose machine acknowledges nothing for so long is given up.
const WRITE_TIME: Duration = Duration::from_secs(20);
/// Bytes that the kernel keeps for a reader.
const SEND_BUFFER: usize = 128 << 10;
/// The delay before the next connection is taken when there is no free descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves a page of this network until the process ends.
///
/// # Errors
/// In words, when a file cannot be read, the address cannot be listened on, or no thread can be
/// started.
pub fn serve(settings: &WebSettings, source: impl Source) -> Result<Page, String> {
    let tls = settings.tls.as_ref();
    let tls = tls.map(|(certificate, key)| tls::acceptor(certificate, key)).transpose()?;
    let at = settings.listen;
    let unusable = |e: io::Error| format!("the page at {at}: {e}: choose another `listen`");
    let listener = std::net::TcpListener::bind(at).map_err(unusable)?;
    listener.set_nonblocking(true).map_err(unusable)?;
    let address = listener.local_addr().map_err(unusable)?;
    let gate = Gate::new(settings, address.port())?;
    let started = |e: io::Error| format!("starting the page's threads: {e}");
    let desk = Desk::start(source).map_err(started)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(started)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let readers = settings.readers as usize;
    std::thread::Builder::new()
        .name("web".into())
        .spawn(move || {
            let clerk = Rc::new(Clerk { gate, desk });
            let run = LocalSet::new().block_on(&runtime, accept(listener, tls, clerk, readers));
            if let Err(error) = run {
                tracing::error!(%error, "the page is not served any more");
            }
        })
        .map_err(started)?;
    Ok(Page { address, url: format!("{scheme}://{}/", for_browsers(address)) })
}

/// The address for a browser on this machine: that of all addresses is none that it can ask.
fn for_browsers(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

async fn accept(
    listener: std::net::TcpListener,
    tls: Option<TlsAcceptor>,
    clerk: Rc<Clerk>,
    readers: usize,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let readers = Readers::new(readers);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (clerk, tls, place) = (clerk.clone(), tls.clone(), readers.place());
                let reader = place.reader.clone();
                let task = tokio::task::spawn_local(connection(stream, peer, tls, clerk, place));
                reader.is_served_by(task.abort_handle());
            }
            Err(error) => {
                tracing::warn!(%error, "a reader's connection could not be taken");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    clerk: Rc<Clerk>,
    place: Place,
) {
    // Without these a reader costs more memory, or stays for longer.
    let _ = sockopt::set_tcp_user_timeout(&stream, WRITE_TIME.as_millis() as u32);
    let _ = sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER);
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return talk(TokioIo::new(stream), peer, clerk, &place).await };
    match tokio::time::timeout(HANDSHAKE_TIME, tls.accept(stream)).await {
        Ok(Ok(stream)) => talk(TokioIo::new(stream), peer, clerk, &place).await,
        Ok(Err(error)) => tracing::debug!(%peer, %error, "a handshake failed"),
        Err(_) => tracing::debug!(%peer, "a handshake took too long"),
    }
}

async fn talk(
    stream: impl Read + Write + Unpin,
    peer: SocketAddr,
    clerk: Rc<Clerk>,
    place: &Place,
) {
    let service = service_fn(|request| {
        let (clerk, reader) = (clerk.clone(), place.reader.clone());
        async move { Ok::<_, Infallible>(clerk.answer(request, &reader).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_MAX)
        .serve_connection(stream, service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "a reader's connection ended");
    }
}
