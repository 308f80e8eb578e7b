//! The probe: 18 bytes that a test packet carries to the meter.
//!
//! The smallest frame of RFC 2544, section 9.1, has 64 bytes with its FCS, so 60 in a buffer:
//! Ethernet 14, IPv4 20 and UDP 8 leave 18. It travels as the first bytes of a UDP payload to
//! [`PROBE_UDP_PORT`], or right behind an Ethernet header with [`PROBE_ETHERTYPE`].
//!
//! ```text
//!  byte 0       2           5                       11                          18
//!      +-------+-----------+-----------------------+---------------------------+
//!      | mark  |   flow    |       sequence        |      transmit time        |
//!      |  16   |    24     |          48           |            56             | bits
//!      +-------+-----------+-----------------------+---------------------------+
//! ```
//!
//! All fields are big-endian. *flow* numbers 16 million flows, *sequence* counts a flow's packets
//! from 0 and lasts 162 days at 20 million packets/s, *transmit time* is CLOCK_MONOTONIC in
//! nanoseconds modulo 2^56 (834 days), which compares across the namespaces of one machine.
//!
//! *mark* is magic and check in one: it makes the ones' complement sum (RFC 1071) of the nine
//! 16-bit words equal 0x5058 ("PX"). A random payload passes one time in 65,536, a single flipped
//! bit never does. And since the sum never changes, neither does the checksum of the UDP datagram
//! around it: a generator computes that once per template, not once per packet.

use plexus_wire::Time;

/// Bytes of an encoded probe.
pub const PROBE_LEN: usize = 18;

/// The UDP destination port of probes, 0xD058 in the dynamic range (RFC 6335, section 6).
pub const PROBE_UDP_PORT: u16 = 0xD058;

/// The EtherType of probes without IP: local experimental 2 (IEEE 802, section 9.2.4).
pub const PROBE_ETHERTYPE: u16 = 0x88B6;

/// The ones' complement sum of every encoded probe.
pub(crate) const PROBE_SUM: u16 = 0x5058;

/// The contents of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The flow's number, 24 bits.
    pub flow: u32,
    /// The packet's number within its flow, from 0, 48 bits.
    pub sequence: u64,
    /// When it was sent, in nanoseconds of CLOCK_MONOTONIC, 56 bits.
    pub time_ns: u64,
}

impl Probe {
    /// The largest flow number.
    pub const FLOW_MAX: u32 = (1 << 24) - 1;
    /// The largest sequence number.
    pub const SEQUENCE_MAX: u64 = (1 << 48) - 1;
    const TIME_MASK: u64 = (1 << 56) - 1;

    /// A probe sent at `now`. Flow and sequence are cut to the bits they have.
    #[inline]
    pub fn new(flow: u32, sequence: u64, now: Time) -> Probe {
        Probe {
            flow: flow & Self::FLOW_MAX,
            sequence: sequence & Self::SEQUENCE_MAX,
            time_ns: now.as_nanos() & Self::TIME_MASK,
        }
    }

    /// The probe as bytes; excess bits of its fields are cut.
    #[inline]
    pub fn to_bytes(&self) -> [u8; PROBE_LEN] {
        let body = u128::from(self.flow & Self::FLOW_MAX) << 104
            | u128::from(self.sequence & Self::SEQUENCE_MAX) << 56
            | u128::from(self.time_ns & Self::TIME_MASK);
        let mut bytes = [0; PROBE_LEN];
        bytes[..2].copy_from_slice(&mark(body).to_be_bytes());
        bytes[2..].copy_from_slice(&body.to_be_bytes());
        bytes
    }

    /// Writes the probe over the first [`PROBE_LEN`] bytes of a payload. False, and nothing
    /// written, if the payload is shorter.
    #[inline]
    #[must_use]
    pub fn encode(&self, payload: &mut [u8]) -> bool {
        match payload.first_chunk_mut() {
            Some(to) => {
                *to = self.to_bytes();
                true
            }
            None => false,
        }
    }

    /// The probe at the start of a payload, or `None` if there is none.
    #[inline]
    pub fn decode(payload: &[u8]) -> Option<Probe> {
        let bytes: &[u8; PROBE_LEN] = payload.first_chunk()?;
        let (found, body) = bytes.split_first_chunk()?;
        let body = u128::from_be_bytes(body.try_into().ok()?);
        if u16::from_be_bytes(*found) != mark(body) {
            return None;
        }
        Some(Probe {
            flow: (body >> 104) as u32,
            sequence: (body >> 56) as u64 & Self::SEQUENCE_MAX,
            time_ns: body as u64 & Self::TIME_MASK,
        })
    }

    /// Nanoseconds from its transmission to `now`, or `None` if it was sent "after" `now`: the
    /// two clocks are not the same one.
    #[inline]
    pub fn latency_ns(&self, now: Time) -> Option<u64> {
        let age = now.as_nanos().wrapping_sub(self.time_ns) & Self::TIME_MASK;
        (age <= Self::TIME_MASK / 2).then_some(age)
    }
}

/// The first word, which brings the sum of all nine to [`PROBE_SUM`]. Zero has two forms in ones'
/// complement arithmetic; the word is never 0xFFFF, so that a body has one encoding.
#[inline]
fn mark(body: u128) -> u16 {
    // 2^16 is 1 modulo 65,535, so adding wide words adds their 16-bit words (RFC 1071, 2).
    let (wide, carry) = ((body >> 64) as u64).overflowing_add(body as u64);
    let sum = u64::from(carry) + (wide >> 32) + (wide & 0xFFFF_FFFF);
    let sum = (sum >> 32) + ((sum >> 16) & 0xFFFF) + (sum & 0xFFFF);
    let sum = (sum >> 16) + (sum & 0xFFFF);
    // At most 0x10001 - 1 before the last fold.
    let sum = ((sum >> 16) + (sum & 0xFFFF)) as u32;
    let word = u32::from(PROBE_SUM) + 0xFFFF - sum;
    if word >= 0xFFFF { (word - 0xFFFF) as u16 } else { word as u16 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(bytes: &[u8]) -> u16 {
        let mut sum: u32 =
            bytes.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        while sum > 0xFFFF {
            sum = (sum >> 16) + (sum & 0xFFFF);
        }
        sum as u16
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let probe = Probe { flow: 0x0A_0B0C, sequence: 0x1122_3344_5566, time_ns: 0x77_8899 };
        let bytes = probe.to_bytes();
        assert_eq!(bytes[2..5], [0x0A, 0x0B, 0x0C]);
        assert_eq!(bytes[5..11], [0x11, 0x22, 0x33, 0x44, 0x55, 0x66]);
        assert_eq!(bytes[11..], [0, 0, 0, 0, 0x77, 0x88, 0x99]);
    }

    #[test]
    fn it_fills_the_smallest_frame() {
        assert_eq!(14 + 20 + 8 + PROBE_LEN, 60);
    }

    #[test]
    fn all_zeroes_and_short_payloads_are_no_probe() {
        assert_eq!(Probe::decode(&[0; 64]), None);
        assert_eq!(Probe::decode(&[0xFF; 64]), None);
        let bytes = Probe::new(1, 2, Time::from_nanos(3)).to_bytes();
        for n in 0..PROBE_LEN {
            assert_eq!(Probe::decode(&bytes[..n]), None);
        }
        assert!(!Probe::new(1, 2, Time::ZERO).encode(&mut [0; PROBE_LEN - 1]));
    }

    #[test]
    fn latency_survives_the_wrap_of_56_bits_and_rejects_the_future() {
        let sent = Time::from_nanos((1 << 56) - 10);
        assert_eq!(Probe::new(0, 0, sent).latency_ns(Time::from_nanos((1 << 56) + 5)), Some(15));
        let probe = Probe::new(0, 0, Time::from_nanos(100));
        assert_eq!(probe.latency_ns(Time::from_nanos(100)), Some(0));
        assert_eq!(probe.latency_ns(Time::from_nanos(99)), None);
    }

    proptest! {
        #[test]
        fn probes_parse_back_and_their_sum_is_constant(
            flow in 0..=Probe::FLOW_MAX,
            sequence in 0..=Probe::SEQUENCE_MAX,
            time_ns in 0..=Probe::TIME_MASK,
        ) {
            let probe = Probe { flow, sequence, time_ns };
            let mut payload = [0xEE; 40];
            prop_assert!(probe.encode(&mut payload));
            prop_assert_eq!(Probe::decode(&payload), Some(probe));
            prop_assert_eq!(sum(&payload[..PROBE_LEN]), PROBE_SUM);
            prop_assert!(payload[PROBE_LEN..].iter().all(|&b| b == 0xEE));
        }

        #[test]
        fn a_flipped_bit_is_noticed(
            flow: u32, sequence: u64, time: u64, bit in 0..PROBE_LEN * 8,
        ) {
            let mut bytes = Probe::new(flow, sequence, Time::from_nanos(time)).to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Probe::decode(&bytes), None);
        }

        #[test]
        fn any_bytes_decode_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(probe) = Probe::decode(&bytes) {
                prop_assert_eq!(&probe.to_bytes()[..], &bytes[..PROBE_LEN]);
            }
        }
    }
}
