//! The Internet checksum (RFC 1071), its pseudo-headers (RFC 768, RFC 9293 3.1, RFC 8200 8.1),
//! and its incremental update (RFC 1624).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ip::Protocol;

/// A ones-complement sum that is still being added up. Pieces of any length may follow each
/// other: a piece that starts at an odd byte is added with its bytes swapped (RFC 1071, 2 (B)).
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    // Native byte order: the sum does not depend on it (RFC 1071, 2 (B)), the result is swapped.
    acc: u64,
    odd: bool,
}

impl Sum {
    /// Nothing added yet.
    pub const fn new() -> Sum {
        Sum { acc: 0, odd: false }
    }

    /// The pseudo-header of IPv4 (RFC 768): `len` is that of the UDP or TCP header and data.
    #[inline]
    pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol, len: u16) -> Sum {
        let addresses = Sum::new().with(&src.octets()).with(&dst.octets());
        addresses.with(&[0, protocol.0]).with(&len.to_be_bytes())
    }

    /// The pseudo-header of IPv6 (RFC 8200, 8.1): `len` is that of the upper-layer header and
    /// data, `protocol` the last next-header value, `dst` the final destination.
    #[inline]
    pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: Protocol, len: u32) -> Sum {
        let addresses = Sum::new().with(&src.octets()).with(&dst.octets());
        addresses.with(&len.to_be_bytes()).with(&[0, protocol.0])
    }

    /// The pseudo-header between two addresses, source and destination; absent if they are of
    /// different versions, or the message is too long.
    pub fn pseudo(ends: (IpAddr, IpAddr), protocol: Protocol, len: usize) -> Option<Sum> {
        match ends {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                Some(Sum::pseudo_v4(src, dst, protocol, u16::try_from(len).ok()?))
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                Some(Sum::pseudo_v6(src, dst, protocol, u32::try_from(len).ok()?))
            }
            _ => None,
        }
    }

    /// Adds bytes, eight at a time.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        // Two 32-bit halves per step in a 64-bit accumulator: 2^32 steps until it could overflow,
        // and the compiler turns it into vector adds.
        let mut acc = 0u64;
        let mut chunks = bytes.chunks_exact(8);
        for c in &mut chunks {
            let v = u64::from_ne_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]);
            acc += (v & 0xFFFF_FFFF) + (v >> 32);
        }
        let mut pairs = chunks.remainder().chunks_exact(2);
        for p in &mut pairs {
            acc += u64::from(u16::from_ne_bytes([p[0], p[1]]));
        }
        if let [last] = pairs.remainder() {
            acc += u64::from(u16::from_ne_bytes([*last, 0]));
        }
        let part = fold(acc);
        self.acc += u64::from(if self.odd { part.swap_bytes() } else { part });
        self.odd ^= bytes.len() % 2 == 1;
    }

    /// The sum with these bytes added.
    #[inline]
    pub fn with(mut self, bytes: &[u8]) -> Sum {
        self.add(bytes);
        self
    }

    /// The sum folded to 16 bits, not complemented: 0xFFFF over data that holds its own checksum.
    #[inline(always)]
    pub fn folded(self) -> u16 {
        u16::from_be(fold(self.acc))
    }

    /// True if the data that were added hold their own right checksum ("minus zero", all ones).
    #[inline(always)]
    pub fn is_right(self) -> bool {
        self.folded() == 0xFFFF
    }

    /// The checksum: the complement of the sum.
    #[inline(always)]
    pub fn finish(self) -> u16 {
        !self.folded()
    }

    /// The checksum as UDP stores it: 0 means "none", so 0 is sent as 0xFFFF (RFC 768).
    #[inline(always)]
    pub fn finish_udp(self) -> u16 {
        match self.finish() {
            0 => 0xFFFF,
            c => c,
        }
    }
}

#[inline(always)]
const fn fold(mut v: u64) -> u16 {
    v = (v & 0xFFFF_FFFF) + (v >> 32);
    v = (v & 0xFFFF_FFFF) + (v >> 32);
    v = (v & 0xFFFF) + (v >> 16);
    v = (v & 0xFFFF) + (v >> 16);
    v as u16
}

/// The checksum of `bytes` (its own field being zero in them).
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::new().with(bytes).finish()
}

/// True if `bytes` hold their own right checksum.
#[inline]
pub fn verify(bytes: &[u8]) -> bool {
    Sum::new().with(bytes).is_right()
}

/// The checksum `old_sum` after one of the words it covers went from `old` to `new`:
/// `HC' = ~(~HC + ~m + m')` (RFC 1624, equation 3).
///
/// Equal to recomputing whenever the covered bytes are not all zero afterwards, which holds for
/// every IPv4 header (its version) and pseudo-header (its protocol). Were they all zero, the
/// result could be 0 where 0xFFFF is right: an ICMPv4 echo reply without data, identifier and
/// sequence number 0 is such a message, so recompute when an ICMPv4 type is set to 0.
#[inline(always)]
pub const fn update(old_sum: u16, old: u16, new: u16) -> u16 {
    !fold(!old_sum as u64 + !old as u64 + new as u64)
}

/// [`update`] for a field of 32 bits at an even offset, such as an IPv4 address.
#[inline(always)]
pub const fn update_u32(old_sum: u16, old: u32, new: u32) -> u16 {
    // The halves are words of their own: complement the 32 bits, then let the fold add them.
    !fold(!old_sum as u64 + !old as u64 + new as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Word by word, as RFC 1071, 4.1 writes it.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn the_worked_example_of_rfc_1071() {
        // RFC 1071, 3: the sum of these is ddf2.
        let bytes = [0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7];
        assert_eq!(checksum(&bytes), !0xDDF2);
    }

    #[test]
    fn the_worked_example_of_rfc_1624() {
        // RFC 1624, 4: HC = dd2f, m = 5555, m' = 3285; equation 3 gives 0000, not ffff.
        assert_eq!(update(0xDD2F, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn a_long_run_of_ones_does_not_overflow() {
        let ones = vec![0xFF; 1 << 20];
        assert_eq!(checksum(&ones), 0);
    }

    proptest! {
        #[test]
        fn fast_and_naive_agree(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(checksum(&bytes), naive(&bytes));
        }

        #[test]
        fn pieces_add_up_at_any_cut(
            bytes in prop::collection::vec(any::<u8>(), 0..100), a in 0usize..100, b in 0usize..100,
        ) {
            let (a, b) = (a.min(b).min(bytes.len()), a.max(b).min(bytes.len()));
            let sum = Sum::new().with(&bytes[..a]).with(&bytes[a..b]).with(&bytes[b..]);
            prop_assert_eq!(sum.finish(), naive(&bytes));
        }

        #[test]
        fn an_update_is_a_recomputation(
            words in prop::collection::vec(corner_word(), 2..20),
            at in any::<prop::sample::Index>(),
            new in corner_word(), new_pair in any::<[u8; 4]>(),
        ) {
            // The first word stands for what is never zero: version, protocol.
            let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
            bytes.splice(0..0, [0x45, 0x00]);
            let old_sum = checksum(&bytes);
            let at = 2 + 2 * at.index(words.len());
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            let now = checksum(&bytes);
            prop_assert_eq!(update(old_sum, old, new), now);
            // Stored in a field of its own, the sum verifies.
            let mut whole = bytes.clone();
            whole.extend(now.to_be_bytes());
            prop_assert!(verify(&whole));

            let old_pair: [u8; 4] = bytes[2..6].try_into().unwrap();
            bytes[2..6].copy_from_slice(&new_pair);
            let (o, n) = (u32::from_be_bytes(old_pair), u32::from_be_bytes(new_pair));
            prop_assert_eq!(update_u32(now, o, n), checksum(&bytes));
        }
    }

    /// Words, with the two zeros of ones complement and their neighbours often among them.
    fn corner_word() -> impl Strategy<Value = u16> {
        prop_oneof![Just(0), Just(1), Just(0xFFFE), Just(0xFFFF), any::<u16>()]
    }
}
