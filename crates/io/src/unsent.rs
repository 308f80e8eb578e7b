//! The bytes of a socket that the kernel has accepted and not sent: a queue that the writer does
//! not see.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::sys::check;

/// `SIOCOUTQNSD` (linux/sockios.h), which libc does not have.
const SIOCOUTQNSD: libc::Ioctl = 0x894B;

/// Bytes that wait in a TCP socket for their turn: not those that only an acknowledgement is
/// missing of (tcp(7)).
///
/// # Errors
/// Where the kernel does not say.
pub fn of_tcp(socket: BorrowedFd<'_>) -> io::Result<usize> {
    ask(socket, SIOCOUTQNSD)
}

/// Bytes of memory that wait in any other socket: in one of UDP until the device has them, in a
/// Unix socket until the peer has read them (unix(7), udp(7): `SIOCOUTQ`).
///
/// # Errors
/// Where the kernel does not say.
pub fn of_other(socket: BorrowedFd<'_>) -> io::Result<usize> {
    // The same number, by the name that it has for terminals.
    ask(socket, libc::TIOCOUTQ)
}

fn ask(socket: BorrowedFd<'_>, request: libc::Ioctl) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: either request writes one integer, and `bytes` is one.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut bytes) })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn unread_bytes_wait_in_the_socket() {
        let (mut from, mut to) = UnixStream::pair().unwrap();
        assert_eq!(of_other(from.as_fd()).unwrap(), 0);
        from.write_all(&[1; 10_000]).unwrap();
        assert!(of_other(from.as_fd()).unwrap() >= 10_000);
        to.read_exact(&mut [0; 10_000]).unwrap();
        assert_eq!(of_other(from.as_fd()).unwrap(), 0);

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut from = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        from.set_nonblocking(true).unwrap();
        assert_eq!(of_tcp(from.as_fd()).unwrap(), 0);
        // Until the peer's window and the local buffer are full.
        while from.write(&[1; 1 << 16]).is_ok() {}
        assert!(of_tcp(from.as_fd()).unwrap() > 0);

        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(of_other(socket.as_fd()).unwrap(), 0);
        assert!(of_tcp(socket.as_fd()).is_err(), "no answer is none");
    }
}
