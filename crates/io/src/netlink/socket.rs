//! A route netlink socket of the calling thread's network namespace.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with,
};

use super::message::{self, Builder, Message, flag, messages};
use crate::sys;

/// Larger than any datagram: dumps arrive in pieces of at most 32 kB, and a change is one message
/// whose largest attribute is below 64 kB.
const DATAGRAM: usize = 128 * 1024;

/// Room for news that waits.
const NEWS_BYTES: i32 = 1 << 16;

/// The kernel's side.
const KERNEL: SocketAddrNetlink = SocketAddrNetlink::new(0, 0);

/// A socket with the buffer it receives into.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    port: u32,
    buffer: Vec<u8>,
    sequence: u32,
}

/// What one attempt to receive gave.
pub(super) enum Received<'a> {
    /// Messages from the kernel.
    Datagram(&'a [u8]),
    /// Nothing is there now.
    Empty,
    /// Messages were lost, for want of room in the socket.
    Overflow,
}

impl Socket {
    /// Opens one for the multicast groups of this mask (linux/rtnetlink.h), with a receive buffer
    /// of this many bytes.
    pub(super) fn open(groups: u32, receive_bytes: i32) -> io::Result<Socket> {
        // No protocol is number 0, which is NETLINK_ROUTE.
        Socket::of(None, groups, receive_bytes)
    }

    /// Opens one for requests of generic netlink (linux/genetlink.h).
    pub(super) fn generic(receive_bytes: i32) -> io::Result<Socket> {
        Socket::of(Some(netlink::GENERIC), 0, receive_bytes)
    }

    /// Opens one that hears what the kernel tells a multicast group of generic netlink.
    pub(super) fn generic_of(group: u32) -> io::Result<Socket> {
        let socket = Socket::generic(NEWS_BYTES)?;
        let (level, join) = (libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP);
        sys::set_option(&socket.fd, level, join, group.cast_signed())?;
        Ok(socket)
    }

    fn of(protocol: Option<Protocol>, groups: u32, receive_bytes: i32) -> io::Result<Socket> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        sys::set_buffers(&fd, receive_bytes);
        // Both since Linux 4.20 or earlier; without them dumps contain more than requested, and
        // errors repeat the request, which does no harm.
        let on: libc::c_int = 1;
        let _ = sys::set_option(&fd, libc::SOL_NETLINK, libc::NETLINK_GET_STRICT_CHK, on);
        let _ = sys::set_option(&fd, libc::SOL_NETLINK, libc::NETLINK_CAP_ACK, on);
        rustix::net::bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        let port = SocketAddrNetlink::try_from(rustix::net::getsockname(&fd)?)?.pid();
        Ok(Socket { fd, port, buffer: vec![0; DATAGRAM], sequence: 0 })
    }

    /// The number by which the kernel knows the socket.
    pub(super) fn port(&self) -> u32 {
        self.port
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A number for the next request.
    pub(super) fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        rustix::net::sendto(&self.fd, bytes, SendFlags::empty(), &KERNEL)?;
        Ok(())
    }

    /// Receives one datagram of the kernel's, if there is one. What other processes send, which
    /// takes CAP_NET_ADMIN, is ignored.
    pub(super) fn receive(&mut self) -> io::Result<Received<'_>> {
        loop {
            let flags = RecvFlags::TRUNC;
            match rustix::net::recvfrom(&self.fd, &mut self.buffer[..], flags) {
                Ok((got, len, from)) => {
                    let from = from.and_then(|a| SocketAddrNetlink::try_from(a).ok());
                    if from.is_none_or(|a| a.pid() != 0) {
                        continue;
                    }
                    if len > DATAGRAM {
                        return Ok(Received::Overflow);
                    }
                    return Ok(Received::Datagram(&self.buffer[..got]));
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(Received::Empty),
                Err(rustix::io::Errno::NOBUFS) => return Ok(Received::Overflow),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Sends one request and waits for its acknowledgement; `answer` gets the kernel's other
    /// messages.
    ///
    /// # Errors
    /// The kernel's answer.
    pub(super) fn request(
        &mut self,
        kind: u16,
        flags: u16,
        fixed: &[u8],
        content: impl FnOnce(&mut Builder),
        mut answer: impl FnMut(Message<'_>),
    ) -> io::Result<()> {
        let sequence = self.next_sequence();
        let mut request = Builder::default();
        request.begin(kind, flags | flag::ACK, sequence, fixed);
        content(&mut request);
        self.send(request.bytes())?;
        loop {
            match self.receive()? {
                Received::Datagram(bytes) => {
                    for message in messages(bytes).filter(|m| m.sequence == sequence) {
                        match (message.kind, message.code()) {
                            (message::ERROR | message::DONE, 0) => return Ok(()),
                            (message::ERROR | message::DONE, e) => {
                                return Err(io::Error::from_raw_os_error(e));
                            }
                            _ => answer(message),
                        }
                    }
                }
                // The kernel answers while the request is sent, so its answer is here already.
                Received::Empty => return Err(io::ErrorKind::UnexpectedEof.into()),
                Received::Overflow => return Err(io::Error::from_raw_os_error(libc::ENOBUFS)),
            }
        }
    }
}
