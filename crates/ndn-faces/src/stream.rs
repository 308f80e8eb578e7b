//! A face over a stream: Unix or TCP.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use plexus_ndn::link::stream::Cutter;
use plexus_wire::Time;
use rustix::io::Errno;

use crate::backlog::Backlog;

/// A stream socket and its write queue.
pub(crate) struct Stream {
    socket: OwnedFd,
    pub(crate) cutter: Cutter,
    /// The bytes from `written` on are still to be written. Packets are contiguous: one write(2)
    /// takes them all, as writev(2) would, and the rest of a partly written one is at the front.
    out: Vec<u8>,
    written: usize,
    /// Bytes written in total.
    pub(crate) written_total: u64,
    /// The connection is still being established.
    pub(crate) is_connecting: bool,
    /// Write events are enabled.
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

    pub(crate) fn queued(&self) -> usize {
        self.out.len() - self.written
    }

    /// Bytes in the kernel that it has not sent; more than `long` is a long queue.
    pub(crate) fn backlog(&mut self, now: Time, long: usize) -> usize {
        self.backlog.bytes(now, self.socket.as_fd(), self.written_total, long)
    }

    /// Enqueues a link packet if the queue stays within `limit`.
    pub(crate) fn push(&mut self, head: &[u8], piece: &[u8], limit: usize) -> bool {
        if self.queued() + head.len() + piece.len() > limit {
            return false;
        }
        // Written bytes are removed once they are most of the buffer.
        if self.written > self.out.len() / 2 {
            self.out.drain(..self.written);
            self.written = 0;
        }
        self.out.extend_from_slice(head);
        self.out.extend_from_slice(piece);
        true
    }

    /// Writes as much as the socket accepts; true if the queue is empty.
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
            // Releases the memory of a burst.
            self.out.shrink_to(64 << 10);
        }
        Ok(self.queued() == 0)
    }

    /// Reads available bytes; `None`: nothing now. 0 bytes: the peer has closed.
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

    /// The connection was established, or failed.
    pub(crate) fn connected(&mut self) -> io::Result<()> {
        self.is_connecting = false;
        rustix::net::sockopt::socket_error(&self.socket)??;
        Ok(())
    }
}
