//! The eight-port switch of two NetFPGA boards (netfpga-aurora.txt §2, §3), clock by clock.
//!
//! Everything on a board runs at 125 MHz: the user data path moves a word of 64 bits per clock, the
//! packet memory writes *or* reads one, a gigabit port sends a byte, a serial lane two. So a board
//! is stepped by its own clock, which may differ from the others' by parts per million; what joins
//! two clocks are the instants at which frames begin and end on a cable. Instants are whole
//! femtoseconds, of which a part per million of a clock is eight; [`plexus_sim::SimTime`] is too
//! coarse for that, and with something to do at every clock a queue of events would only cost time.
//!
//! The path of a frame is the text's: RX queue (which holds it until it is whole), input arbiter,
//! output-port lookup, output queue in memory, TX queue, MAC or lane. It is accounted for at every
//! place: [`Outcome::balances`].
//!
//! What the text states is [`Config::STATED`]. What it leaves open has defaults from the reference
//! switch that it extends (NetFPGA project, `reference_switch`, release 3.0.1), named at each
//! field.

mod aurora;
mod ideal;
mod memory;
mod netfpga;
mod queues;
mod rig;
#[cfg(test)]
mod tests;

pub use aurora::{Compensation, Lane, Link};
pub use ideal::ideal;
pub use memory::{Memory, Turns};
pub use rig::{Config, Dropped, Lanes, Outcome, Rig, Stream};

/// The clock of everything, in Hz (netfpga-aurora.txt §2, §3.2).
pub const CLOCK_HZ: u64 = 125_000_000;
/// Femtoseconds of a clock that is right.
const PERIOD_FS: u64 = 1_000_000_000_000_000 / CLOCK_HZ;
/// Ethernet ports of a board, and its serial ones.
const ETHERNET: usize = 4;
const SERIAL: usize = 2;
const PORTS: usize = ETHERNET + SERIAL;
/// Bytes of a word of the user data path.
const WORD: u64 = 8;
/// Around a frame on an Ethernet cable, in bytes: preamble and delimiter before it, checksum and
/// gap behind it (IEEE 802.3, 3.1.1 and 4.4.2).
const PREAMBLE: u64 = 8;
const FCS: u64 = 4;
const GAP: u64 = 12;
/// A frame without its checksum has at least so many bytes.
const FRAME_MIN: u64 = 60;

/// A clock's period in femtoseconds, if it is so many parts per million fast.
fn period_fs(fast_ppm: i32) -> u64 {
    PERIOD_FS.saturating_add_signed(-i64::from(fast_ppm) * (PERIOD_FS / 1_000_000) as i64)
}

/// Bytes of cable time that a frame of `bytes` takes, its checksum not counted among them.
fn ethernet_bytes(bytes: u64) -> u64 {
    PREAMBLE + bytes.max(FRAME_MIN) + FCS + GAP
}

/// A frame on its way, with the module header that boards put before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    /// Which stream it belongs to.
    stream: u8,
    /// From the destination address to the last byte before the checksum, which MACs take off
    /// (`conf_rx_no_chk_crc` of the reference design's MAC is 0).
    bytes: u32,
}

impl Frame {
    /// Words in the data path and in memory: the module header is one (§2).
    fn words(self) -> u32 {
        self.bytes.div_ceil(WORD as u32) + 1
    }
}
