//! How much a socket has taken and not sent: what congestion marks go by, beside the queue in front
//! of it (NFD: `getSendQueueLength` of its transports).
//!
//! The kernel is asked seldom: when some packets have gone since, or it had much, and not twice
//! within a millisecond. So a queue may be seen that much later, of the 100 ms for which it has to
//! stay long.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use plexus_io::unsent;
use plexus_wire::Time;

/// Between two questions at least.
const PAUSE: Duration = Duration::from_millis(1);
/// Bytes written that may make a short queue long. What waits in a socket is counted with what the
/// kernel keeps it in, many times a short packet's own length.
const STEP: u64 = 4 << 10;

/// What is known of it.
pub(crate) struct Backlog {
    ask: fn(BorrowedFd<'_>) -> io::Result<usize>,
    bytes: usize,
    /// When it was asked, and what had been written by then.
    asked: Option<Time>,
    written: u64,
}

impl Backlog {
    pub(crate) fn of_tcp() -> Backlog {
        Backlog { ask: unsent::of_tcp, bytes: 0, asked: None, written: 0 }
    }

    /// Of a Unix socket, or one of UDP.
    pub(crate) fn of_other() -> Backlog {
        Backlog { ask: unsent::of_other, ..Backlog::of_tcp() }
    }

    /// Bytes in the kernel, of `written` in all; more than `long` are many.
    pub(crate) fn bytes(
        &mut self,
        now: Time,
        socket: BorrowedFd<'_>,
        written: u64,
        long: usize,
    ) -> usize {
        let may_be_another = self.bytes > long || written - self.written >= STEP;
        if may_be_another && self.asked.is_none_or(|asked| asked + PAUSE <= now) {
            // Where it does not say, there is no queue, as for NFD.
            self.bytes = (self.ask)(socket).unwrap_or(0);
            (self.asked, self.written) = (Some(now), written);
        }
        self.bytes
    }
}
