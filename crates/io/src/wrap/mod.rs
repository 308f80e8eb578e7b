//! Ports that wrap other ports: their functions work with any back-end, and with each other.

mod capture;
mod faults;
mod plug;
#[cfg(test)]
mod tests;
mod tracer;

pub use capture::Capture;
pub use faults::{FaultCounts, FaultHandle, FaultSettings, Faults};
pub use plug::{Plug, Plugged};
pub use tracer::Tracer;

/// The parts of a port that a wrapper leaves as they are.
macro_rules! leave_to_inner {
    () => {
        fn name(&self) -> &str {
            self.inner.name()
        }

        fn capabilities(&self) -> crate::Capabilities {
            self.inner.capabilities()
        }

        fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            self.inner.fd()
        }
    };
}
use leave_to_inner;
