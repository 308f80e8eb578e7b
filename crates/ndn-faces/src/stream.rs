//! A face over a stream: Unix or TCP.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use plexus_ndn::link::stream::Cutter;
use plexus_wire::Time;
use rustix::io::Errno;

use crate::backlog::Backlog;

/// A stream socket, and what is on its way through it.
pub(crate) struct Stream {
    socket: OwnedFd,
    pub(crate) cutter: Cutter,
    /// From `written` on it is still to be written. Packets lie one behind the other: one write(2)
    /// takes them all, as writev(2) would, and what is left of one is at the front.
    out: Vec<u8>,
    written: usize,
    /// Bytes that were ever written.
    pub(crate) written_total: u64,
    /// The connection is still being made.
    pub(crate) is_connecting: bool,
    /// Told when it can be written to.
    pub(crate) is_watched: bool,
    backlog: Backlog,
}

impl Stream {
    pub(crate) fn new(
        socket: OwnedFd,
        packet_len_max: usize,
        is_connecting: bool,
        backlog: Backlog,
    ) -> Stream {
        Stream {
            socket,
            cutter: Cutter::new(packet_len_max),
            out: Vec::new(),
            written: 0,
            written_total: 0,
            is_connecting,
            is_watched: is_connecting,
            backlog,
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Bytes that wait to be written.
    pub(crate) fn queued(&self) -> usize {
        self.out.len() - self.written
    }

    /// Bytes that the kernel has and has not sent; more than `long` are many.
    pub(crate) fn backlog(&mut self, now: Time, long: usize) -> usize {
        self.backlog.bytes(now, self.socket.as_fd(), self.written_total, long)
    }

    /// Appends a link packet, if it keeps the queue within `limit`.
    pub(crate) fn push(&mut self, head: &[u8], piece: &[u8], limit: usize) -> bool {
        if self.queued() + head.len() + piece.len() > limit {
            return false;
        }
        // What has been written is moved out of the way when it is most of the buffer.
        if self.written > self.out.len() / 2 {
            self.out.drain(..self.written);
            self.written = 0;
        }
        self.out.extend_from_slice(head);
        self.out.extend_from_slice(piece);
        true
    }

    /// Writes as much as the socket takes; true if that is all.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while !self.is_connecting && self.queued() > 0 {
            let flags = rustix::net::SendFlags::NOSIGNAL;
            match rustix::net::send(&self.socket, &self.out[self.written..], flags) {
                Ok(n) => {
                    self.written += n;
                    self.written_total += n as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(e) => return Err(e.into()),
            }
        }
        if self.queued() == 0 {
            self.out.clear();
            self.written = 0;
            // A burst's memory is not kept for ever.
            self.out.shrink_to(64 << 10);
        }
        Ok(self.queued() == 0)
    }

    /// Reads what is there; `None`: nothing now. 0 bytes: the peer has closed.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.socket, &mut *buffer) {
                Ok(n) => return Ok(Some(n)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// The connection has been made, or not.
    pub(crate) fn connected(&mut self) -> io::Result<()> {
        self.is_connecting = false;
        rustix::net::sockopt::socket_error(&self.socket)??;
        Ok(())
    }
}
