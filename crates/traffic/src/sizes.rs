//! Frame sizes as in RFC 2544, section 9.1: with the FCS. A buffer holds four bytes less.

use std::fmt;
use std::str::FromStr;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Bytes of the frame check sequence, which no buffer holds.
pub const FCS: usize = 4;

/// Bytes of a frame around a UDP payload over IPv4, with its FCS.
const UDP4_OVERHEAD: usize = 14 + 20 + 8 + FCS;

/// "Simple IMIX": seven small, four medium, one large packet, with IP lengths of 40 (padded to 46
/// by Ethernet), 576 and 1,500 bytes, so frames of 64, 594 and 1,518. The order is fixed and mixed,
/// as RFC 6985, section 3 asks of an IMIX so that results can be repeated.
const IMIX: [usize; 12] = [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64];

/// The largest frame, FCS included: a pool's frame less its headroom bounds what can be sent.
pub const SIZE_MAX: usize = 65_000;

/// Which frame sizes to send, FCS included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All the same.
    Fixed(usize),
    /// Simple IMIX: 64, 594 and 1,518 bytes, 7:4:1.
    Imix,
    /// Any size from the first to the second, both included, equally often, by seed.
    Range(usize, usize),
}

impl Sizes {
    /// After how many packets an IMIX begins again.
    pub(crate) const IMIX_PERIOD: usize = IMIX.len();

    /// The largest size that occurs.
    pub fn max(self) -> usize {
        match self {
            Sizes::Fixed(n) | Sizes::Range(_, n) => n,
            Sizes::Imix => 1518,
        }
    }

    /// The smallest size that occurs.
    pub fn min(self) -> usize {
        match self {
            Sizes::Fixed(n) | Sizes::Range(n, _) => n,
            Sizes::Imix => 64,
        }
    }

    /// The sizes in their order; the same seed gives the same ones.
    pub fn sequence(self, seed: u64) -> SizeSequence {
        SizeSequence { sizes: self, at: 0, rng: Pcg64Mcg::seed_from_u64(seed) }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sizes::Fixed(n) => write!(f, "{n}"),
            Sizes::Imix => f.write_str("imix"),
            Sizes::Range(a, b) => write!(f, "{a}-{b}"),
        }
    }
}

/// Why a text names no frame sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a frame size: write bytes with FCS from 64 to 65000 (64, 1518), a range \
     (64-1518), \"imix\", or a UDP payload (udp:1470; 1470 alone means that too)"
)]
pub struct SizesError(String);

impl FromStr for Sizes {
    type Err = SizesError;

    /// `N` is a frame size with FCS, except that `1470` means a UDP payload of 1,470 bytes, the
    /// "1470-byte packet" of iperf and of the papers: a frame of 1,516. `frame:N` and `udp:N` say
    /// which is meant; `A-B` is a range of frame sizes.
    fn from_str(s: &str) -> Result<Sizes, SizesError> {
        let error = || SizesError(s.into());
        let number = |t: &str, add: usize| {
            let n: usize = t.parse().map_err(|_| error())?;
            let n = n.checked_add(add).ok_or_else(error)?;
            if (64..=SIZE_MAX).contains(&n) { Ok(n) } else { Err(error()) }
        };
        if s.eq_ignore_ascii_case("imix") {
            Ok(Sizes::Imix)
        } else if let Some(n) = s.strip_prefix("frame:") {
            Ok(Sizes::Fixed(number(n, 0)?))
        } else if let Some(n) = s.strip_prefix("udp:") {
            Ok(Sizes::Fixed(number(n, UDP4_OVERHEAD)?))
        } else if let Some((a, b)) = s.split_once('-') {
            let (a, b) = (number(a, 0)?, number(b, 0)?);
            if a <= b { Ok(Sizes::Range(a, b)) } else { Err(error()) }
        } else if s == "1470" {
            Ok(Sizes::Fixed(1470 + UDP4_OVERHEAD))
        } else {
            Ok(Sizes::Fixed(number(s, 0)?))
        }
    }
}

/// Sizes one after another.
#[derive(Clone, Debug)]
pub struct SizeSequence {
    sizes: Sizes,
    at: usize,
    rng: Pcg64Mcg,
}

impl SizeSequence {
    /// The size of the next frame, FCS included.
    #[inline]
    pub fn next_size(&mut self) -> usize {
        match self.sizes {
            Sizes::Fixed(n) => n,
            Sizes::Imix => {
                let size = IMIX[self.at];
                self.at = (self.at + 1) % IMIX.len();
                size
            }
            Sizes::Range(a, b) => {
                let span = (b - a + 1) as u64;
                a + ((u64::from(self.rng.next_u32()) * span) >> 32) as usize
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imix_is_seven_to_four_to_one() {
        let mut sequence = Sizes::Imix.sequence(0);
        let sizes: Vec<usize> = (0..1200).map(|_| sequence.next_size()).collect();
        let count = |n| sizes.iter().filter(|&&s| s == n).count();
        assert_eq!((count(64), count(594), count(1518)), (700, 400, 100));
    }

    #[test]
    fn ranges_reach_both_ends_and_repeat_by_seed() {
        let take = |seed| {
            let mut sequence = Sizes::Range(64, 73).sequence(seed);
            (0..1_000).map(|_| sequence.next_size()).collect::<Vec<_>>()
        };
        let sizes = take(3);
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&64), Some(&73)));
        assert_eq!(sizes, take(3));
        assert_ne!(sizes, take(4));
    }

    #[test]
    fn texts_name_sizes() {
        let parse = |s: &str| s.parse::<Sizes>();
        assert_eq!(parse("64"), Ok(Sizes::Fixed(64)));
        assert_eq!(parse("1470"), Ok(Sizes::Fixed(1516)));
        assert_eq!(parse("udp:1470"), parse("1470"));
        assert_eq!(parse("frame:1470"), Ok(Sizes::Fixed(1470)));
        assert_eq!(parse("IMIX"), Ok(Sizes::Imix));
        assert_eq!(parse("64-1518"), Ok(Sizes::Range(64, 1518)));
        for bad in ["", "63", "-64", "65001", "1518-64", "x", "udp:", "18446744073709551615"] {
            assert_eq!(parse(bad), Err(SizesError(bad.into())), "{bad:?}");
        }
    }
}
