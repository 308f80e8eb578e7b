//! Baselines for comparison with the fabric, as independent control planes: spanning-tree Ethernet
//! ([`stp`], IEEE 802.1D-1998) and PortLand ([`portland`], SIGCOMM 2009).
//!
//! No product depends on this crate: its state machines run in the simulator and in tests. They
//! have the shape of `plexus-control`: [`Input`] and the time go in, frames come out, and no
//! machine reads a clock, owns a socket or uses randomness other than its seed.

#![deny(missing_docs)]

pub mod portland;
pub mod stp;

/// Input of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// A port gained its carrier, with its rate, or lost it.
    Port {
        /// The port.
        port: u16,
        /// Bits/s; absent: no carrier.
        rate_bits_per_s: Option<u64>,
    },
    /// A complete frame was received, from the destination address to the byte before the FCS.
    Frame {
        /// By this port.
        port: u16,
        /// The frame.
        bytes: &'a [u8],
    },
    /// Time has passed: the machine's `next_deadline` has come.
    Tick,
}
