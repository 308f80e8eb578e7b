//! Bytes that a socket has accepted but not sent: congestion marks count them together with the
//! queue in front of the socket (NFD: `getSendQueueLength` of its transports).
//!
//! The kernel is asked seldom: only after some packets were written, or when the backlog was long,
//! and at most once per millisecond. So a queue may be noticed that much later, of the 100 ms for
//! which it has to stay long.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use plexus_io::unsent;
use plexus_wire::Time;

/// Shortest time between two queries.
const PAUSE: Duration = Duration::from_millis(1);
/// Bytes written that may make a short queue long. The kernel counts its own bookkeeping, which is
/// many times the length of a short packet.
const STEP: u64 = 4 << 10;

/// The last known backlog.
pub(crate) struct Backlog {
    ask: fn(BorrowedFd<'_>) -> io::Result<usize>,
    bytes: usize,
    /// When it was queried, and what had been written by then.
    asked: Option<Time>,
    written: u64,
}

impl Backlog {
    pub(crate) fn of_tcp() -> Backlog {
        Backlog { ask: unsent::of_tcp, bytes: 0, asked: None, written: 0 }
    }

    /// Of a Unix or UDP socket.
    pub(crate) fn of_other() -> Backlog {
        Backlog { ask: unsent::of_other, ..Backlog::of_tcp() }
    }

    /// Bytes in the kernel, of `written` in total; more than `long` is a long queue.
    pub(crate) fn bytes(
        &mut self,
        now: Time,
        socket: BorrowedFd<'_>,
        written: u64,
        long: usize,
    ) -> usize {
        let may_be_another = self.bytes > long || written - self.written >= STEP;
        if may_be_another && self.asked.is_none_or(|asked| asked + PAUSE <= now) {
            // If the kernel does not report it, there is no queue, as for NFD.
            self.bytes = (self.ask)(socket).unwrap_or(0);
            (self.asked, self.written) = (Some(now), written);
        }
        self.bytes
    }
}
