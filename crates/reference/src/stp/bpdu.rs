//! Bridge protocol data units (IEEE 802.1D-1998, clause 9), in the frames that carry them: 802.3
//! with a length, LLC addresses 0x42, unnumbered information (ISO/IEC 8802-2).
//!
//! ```text
//!  0               1               2               3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+---------------+---------------+
//! |  protocol identifier = 0      |  version = 0  | type 0, 0x80  |
//! +---------------+---------------+---------------+---------------+
//! |  flags        |  root identifier (8) …                        |
//! |               |  root path cost (4) …                         |
//! |               |  bridge identifier (8) …                      |
//! +---------------+---------------+-------------------------------+
//! | … port identifier (2), message age (2), max age (2), hello    |
//! |   time (2), forward delay (2)                                 |
//! +---------------------------------------------------------------+
//! ```
//!
//! Times are counted in 1/256 s. A topology change notification (type 0x80) ends after the type.

use std::fmt;
use std::time::Duration;

use plexus_wire::{MacAddr, ethernet};

/// Where BPDUs go: no bridge forwards it (table 7-9).
pub const GROUP: MacAddr = MacAddr([0x01, 0x80, 0xC2, 0x00, 0x00, 0x00]);

const LLC: [u8; 3] = [0x42, 0x42, 0x03];
const BPDU_AT: usize = ethernet::HEADER_LEN + LLC.len();
const CONFIG_LEN: usize = 35;
const TCN_LEN: usize = 4;
const TYPE_CONFIG: u8 = 0x00;
const TYPE_TCN: u8 = 0x80;
const FLAG_CHANGE: u8 = 0x01;
const FLAG_ACK: u8 = 0x80;
/// Units of time in a second.
const UNITS_PER_S: u128 = 256;

/// A bridge's identifier: 16 bits of priority, then its address. The least is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BridgeId(pub u64);

impl BridgeId {
    /// Of a priority and the bridge's address.
    pub fn new(priority: u16, address: MacAddr) -> BridgeId {
        BridgeId(u64::from(priority) << 48 | address.to_u64())
    }
}

impl fmt::Display for BridgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}.{}", self.0 >> 48, MacAddr::from_u64(self.0 & 0xFFFF_FFFF_FFFF))
    }
}

/// A configuration message (9.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The assumed root.
    pub root: BridgeId,
    /// Cost of the sender's path to it.
    pub root_path_cost: u32,
    /// The sender.
    pub bridge: BridgeId,
    /// Its port.
    pub port: u16,
    /// How old the root's word is.
    pub message_age: Duration,
    /// When it is too old.
    pub max_age: Duration,
    /// How often the root says it.
    pub hello_time: Duration,
    /// Time in each of the states listening and learning.
    pub forward_delay: Duration,
    /// Stations are to be forgotten fast.
    pub topology_change: bool,
    /// Acknowledges a topology change notification.
    pub topology_change_ack: bool,
}

/// A BPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bpdu {
    /// A configuration message.
    Config(Config),
    /// Notice of a topology change, to the root.
    TopologyChange,
}

/// Why a frame is no BPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is not addressed or encapsulated as one.
    NotForBridges,
    /// It is too short.
    Truncated,
    /// Another protocol or type. Versions are not judged (9.3.4).
    Unknown,
}

/// Units of 1/256 s, at most what the field holds; rounded up, so that no age is understated.
fn to_units(time: Duration) -> u16 {
    let units = (time.as_nanos() * UNITS_PER_S).div_ceil(1_000_000_000);
    u16::try_from(units).unwrap_or(u16::MAX)
}

fn of_units(units: u16) -> Duration {
    Duration::from_nanos(u64::from(units) * 1_000_000_000 / UNITS_PER_S as u64)
}

impl Bpdu {
    /// The frame that carries it, padded, from this address.
    pub fn to_frame(&self, src: MacAddr) -> Vec<u8> {
        let len = LLC.len() + if let Bpdu::Config(_) = self { CONFIG_LEN } else { TCN_LEN };
        let mut frame = Vec::with_capacity(ethernet::MIN_FRAME_LEN);
        frame.extend(GROUP.0);
        frame.extend(src.0);
        frame.extend((len as u16).to_be_bytes());
        frame.extend(LLC);
        frame.extend([0, 0, 0]);
        match self {
            Bpdu::TopologyChange => frame.push(TYPE_TCN),
            Bpdu::Config(c) => {
                let change = if c.topology_change { FLAG_CHANGE } else { 0 };
                let ack = if c.topology_change_ack { FLAG_ACK } else { 0 };
                frame.extend([TYPE_CONFIG, change | ack]);
                frame.extend(c.root.0.to_be_bytes());
                frame.extend(c.root_path_cost.to_be_bytes());
                frame.extend(c.bridge.0.to_be_bytes());
                frame.extend(c.port.to_be_bytes());
                for time in [c.message_age, c.max_age, c.hello_time, c.forward_delay] {
                    frame.extend(to_units(time).to_be_bytes());
                }
            }
        }
        frame.resize(ethernet::MIN_FRAME_LEN, 0);
        frame
    }

    /// Reads a frame (9.3.4).
    ///
    /// # Errors
    /// When it is no BPDU that a bridge of 802.1D-1998 knows.
    pub fn of_frame(frame: &[u8]) -> Result<Bpdu, Refused> {
        let header = ethernet::Frame::new_checked(frame).map_err(|_| Refused::Truncated)?;
        if header.dst() != GROUP || !header.ethertype().is_length() {
            return Err(Refused::NotForBridges);
        }
        let end = ethernet::HEADER_LEN + usize::from(header.ethertype().0);
        let body = frame.get(BPDU_AT..end).ok_or(Refused::Truncated)?;
        if frame[ethernet::HEADER_LEN..BPDU_AT] != LLC {
            return Err(Refused::NotForBridges);
        }
        let (&[p0, p1, _version, kind], rest) =
            body.split_first_chunk::<TCN_LEN>().ok_or(Refused::Truncated)?;
        match ([p0, p1], kind) {
            ([0, 0], TYPE_TCN) => Ok(Bpdu::TopologyChange),
            ([0, 0], TYPE_CONFIG) => {
                let fields = rest.first_chunk::<{ CONFIG_LEN - TCN_LEN }>();
                Ok(Bpdu::Config(config(fields.ok_or(Refused::Truncated)?)))
            }
            _ => Err(Refused::Unknown),
        }
    }
}

fn config(b: &[u8; CONFIG_LEN - TCN_LEN]) -> Config {
    let number = |at: usize, len: usize| {
        b[at..at + len].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let time = |at: usize| of_units(number(at, 2) as u16);
    Config {
        topology_change: b[0] & FLAG_CHANGE != 0,
        topology_change_ack: b[0] & FLAG_ACK != 0,
        root: BridgeId(number(1, 8)),
        root_path_cost: number(9, 4) as u32,
        bridge: BridgeId(number(13, 8)),
        port: number(21, 2) as u16,
        message_age: time(23),
        max_age: time(25),
        hello_time: time(27),
        forward_delay: time(29),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Captured from a Linux 6.x bridge: its root is another bridge, with priority 4096, one cable
    /// away.
    const LINUX: [u8; 52] = [
        0x01, 0x80, 0xC2, 0x00, 0x00, 0x00, 0x0A, 0xAA, 0xC5, 0xAC, 0xE4, 0xA8, 0x00, 0x26, 0x42,
        0x42, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x86, 0x69, 0xD5, 0x6B, 0x2B, 0xE8,
        0x00, 0x00, 0x00, 0x02, 0x20, 0x00, 0x0A, 0xAA, 0xC5, 0xAC, 0xE4, 0xA8, 0x80, 0x02, 0x00,
        0x01, 0x14, 0x00, 0x02, 0x00, 0x0F, 0x00,
    ];

    #[test]
    fn a_message_of_a_linux_bridge_is_read_and_written_as_it_is() {
        let root = MacAddr([0x86, 0x69, 0xD5, 0x6B, 0x2B, 0xE8]);
        let sender = MacAddr([0x0A, 0xAA, 0xC5, 0xAC, 0xE4, 0xA8]);
        let config = Config {
            root: BridgeId::new(4096, root),
            root_path_cost: 2,
            bridge: BridgeId::new(8192, sender),
            port: 0x8002,
            message_age: Duration::from_nanos(3_906_250),
            max_age: Duration::from_secs(20),
            hello_time: Duration::from_secs(2),
            forward_delay: Duration::from_secs(15),
            topology_change: false,
            topology_change_ack: false,
        };
        assert_eq!(Bpdu::of_frame(&LINUX), Ok(Bpdu::Config(config)));
        let written = Bpdu::Config(config).to_frame(sender);
        assert_eq!((&written[..52], written.len()), (&LINUX[..], 60));
        assert_eq!(config.bridge.to_string(), "2000.0a:aa:c5:ac:e4:a8");
    }

    proptest! {
        #[test]
        fn bpdus_parse_back_and_truncated_ones_are_refused(
            ids in any::<[u64; 2]>(), cost: u32, port: u16, units in any::<[u16; 4]>(),
            topology_change: bool, topology_change_ack: bool, cut in 0..52_usize)
        {
            let [message_age, max_age, hello_time, forward_delay] = units.map(of_units);
            let bpdu = Bpdu::Config(Config {
                root: BridgeId(ids[0]), root_path_cost: cost, bridge: BridgeId(ids[1]), port,
                message_age, max_age, hello_time, forward_delay, topology_change,
                topology_change_ack,
            });
            let frame = bpdu.to_frame(MacAddr([2; 6]));
            prop_assert_eq!(Bpdu::of_frame(&frame), Ok(bpdu));
            prop_assert!(Bpdu::of_frame(&frame[..cut]).is_err());
            let notice = Bpdu::TopologyChange.to_frame(MacAddr([2; 6]));
            prop_assert_eq!(Bpdu::of_frame(&notice), Ok(Bpdu::TopologyChange));
        }

        /// Whatever follows an address and an encapsulation that are right.
        #[test]
        fn no_bytes_are_too_strange(
            len: u16, bytes in proptest::collection::vec(any::<u8>(), 0..80))
        {
            let header = [&GROUP.0[..], &[2; 6], &(len % 64).to_be_bytes(), &LLC].concat();
            let _ = Bpdu::of_frame(&[&header[..], &[0, 0], &bytes].concat());
            let _ = Bpdu::of_frame(&bytes);
        }
    }
}
