//! Listeners for new faces.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt;

/// Idle time of a connection after which the kernel sends keep-alives.
const KEEP_IDLE: Duration = Duration::from_secs(60);
const KEEP_INTERVAL: Duration = Duration::from_secs(10);

/// A place to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A Unix stream socket, which every user of this machine may use, as with NFD.
    Unix(PathBuf),
    /// TCP.
    Tcp(SocketAddr),
    /// WebSocket.
    WebSocket(SocketAddr),
    /// UDP: a face for each sender.
    Udp(SocketAddr),
}

pub(crate) enum Listener {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
    WebSocket(TcpListener),
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // It may have been removed already.
            let _ = fs::remove_file(path);
        }
    }
}

impl Listener {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(l, _) => l.as_fd(),
            Listener::Tcp(l) | Listener::WebSocket(l) => l.as_fd(),
        }
    }

    pub(crate) fn unix(path: &Path) -> io::Result<Listener> {
        make_way(path)?;
        // A socket file left by a killed forwarder does not answer.
        let is_socket = fs::metadata(path).is_ok_and(|m| m.file_type().is_socket());
        if is_socket && UnixStream::connect(path).is_err() {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
        Ok(Listener::Unix(listener, path.into()))
    }

    /// A TCP listener, and its address.
    pub(crate) fn tcp(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, 1024)?;
        let listener = TcpListener::from(socket);
        let address = listener.local_addr()?;
        Ok((listener, address))
    }

    /// Accepts the next connection: its socket, and for TCP its two ends.
    pub(crate) fn accept(&self) -> io::Result<(OwnedFd, Option<(SocketAddr, SocketAddr)>)> {
        match self {
            Listener::Unix(l, _) => {
                let (stream, _) = l.accept()?;
                stream.set_nonblocking(true)?;
                Ok((stream.into(), None))
            }
            Listener::Tcp(l) | Listener::WebSocket(l) => {
                let (stream, peer) = l.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                keep_alive(&stream)?;
                let local = stream.local_addr()?;
                Ok((stream.into(), Some((local, peer))))
            }
        }
    }
}

/// Creates missing folders of a socket with access for all users: the socket is for all, whatever
/// this process's umask.
fn make_way(path: &Path) -> io::Result<()> {
    let missing = path.ancestors().skip(1).take_while(|folder| !folder.as_os_str().is_empty());
    let missing: Vec<&Path> = missing.take_while(|folder| !folder.exists()).collect();
    for folder in missing.into_iter().rev() {
        fs::create_dir(folder).or_else(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => Ok(()),
            _ => Err(e),
        })?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Makes the kernel detect a vanished peer: otherwise, for example, a laptop without power would
/// hold a face for ever, and an address has only a few.
pub(crate) fn keep_alive(socket: &impl AsFd) -> io::Result<()> {
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEP_IDLE)?;
    Ok(sockopt::set_tcp_keepintvl(socket, KEEP_INTERVAL)?)
}
