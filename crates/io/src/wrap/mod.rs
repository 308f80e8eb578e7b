//! Ports that wrap other ports: their functions work with any back-end, and with each other.

mod faults;
mod plug;
#[cfg(test)]
mod tests;

pub use faults::{FaultCounts, FaultSettings, Faults};
pub use plug::{Plug, Plugged};

/// The parts of a port that a wrapper leaves as they are: those that every wrapper leaves, and
/// those that are named.
macro_rules! leave_to_inner {
    (@transmit) => {
        fn transmit(&mut self, now: Time, pool: &mut Pool, from: &mut Batch) -> usize {
            self.inner.transmit(now, pool, from)
        }
    };
    (@maintain) => {
        fn maintain(&mut self, now: Time, pool: &mut Pool) -> Link {
            self.inner.maintain(now, pool)
        }
    };
    (@next_deadline) => {
        fn next_deadline(&self) -> Option<Time> {
            self.inner.next_deadline()
        }
    };
    (@close) => {
        fn close(&mut self, pool: &mut Pool) {
            self.inner.close(pool);
        }
    };
    ($($method:ident),*) => {
        fn name(&self) -> &str {
            self.inner.name()
        }

        fn capabilities(&self) -> crate::Capabilities {
            self.inner.capabilities()
        }

        fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            self.inner.fd()
        }

        $(leave_to_inner!(@$method);)*
    };
}
use leave_to_inner;
