//! What the fabric is compared with, as control planes that speak for themselves: spanning-tree
//! Ethernet ([`stp`], IEEE 802.1D-1998) and PortLand ([`portland`], SIGCOMM 2009).
//!
//! No product depends on this crate: its machines run in the simulator and in tests. They have the
//! shape of `plexus-control`: [`Input`] and the time go in, frames come out, and no machine reads a
//! clock, owns a socket or draws a number that its seed does not give.

#![deny(missing_docs)]

pub mod portland;
pub mod stp;

/// What a driver tells a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// The carrier of a port has come, with its rate, or gone.
    Port {
        /// The port.
        port: u16,
        /// Bits/s; absent: no carrier.
        rate_bits_per_s: Option<u64>,
    },
    /// A frame has come in, whole, from the destination address to the byte before the FCS.
    Frame {
        /// By this port.
        port: u16,
        /// The frame.
        bytes: &'a [u8],
    },
    /// Time has passed: the machine's `next_deadline` has come.
    Tick,
}
