//! Which forwarders hold which part of the group's forwarding table, when none or few hold all of
//! it (SPEC.md, 16). The controller fills tables by it, and nodes choose by it: both must agree.

use std::net::{IpAddr, Ipv4Addr};

use arrayvec::ArrayVec;

use crate::Prefix;

/// Most places of all forwarders together.
pub const PLACES_MAX: usize = 8;
/// The leading bits that name a part of IPv4: so most prefixes are in one, and no part has many.
pub const PART_LEN_V4: u8 = 16;
/// The same of IPv6: a usual allocation, a /29, is in one part.
const PART_LEN_V6: u8 = 28;
/// A prefix of more parts than this has all forwarders as its holders.
const PARTS_MAX: u32 = 256;

/// How the address space is shared among forwarders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The forwarder of each place.
    forwarders: ArrayVec<u8, PLACES_MAX>,
    copies: u8,
    all: Holders,
}

/// A set of forwarders, by their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holders(u8);

impl Holders {
    /// Whether a forwarder is one of them.
    #[inline]
    pub fn contains(self, forwarder: u8) -> bool {
        self.0.checked_shr(forwarder.into()).is_some_and(|bits| bits & 1 == 1)
    }

    /// They, in order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..PLACES_MAX as u8).filter(move |forwarder| self.contains(*forwarder))
    }
}

impl Partition {
    /// Forwarders with so many places each, of which `copies` hold each part, or all if they are
    /// fewer. `None`: there is no forwarder, one has no place, all have more than [`PLACES_MAX`]
    /// together, or nobody is to hold a part.
    pub fn new(places: &[u8], copies: u8) -> Option<Partition> {
        let mut forwarders = ArrayVec::new();
        for (forwarder, count) in (0..).zip(places) {
            for _ in 0..*count {
                forwarders.try_push(forwarder).ok()?;
            }
        }
        let is_sound = !places.is_empty() && !places.contains(&0) && copies > 0;
        let all = Holders(forwarders.iter().fold(0, |all, forwarder| all | 1 << forwarder));
        is_sound.then_some(Partition { forwarders, copies, all })
    }

    /// How many places there are.
    pub fn places(&self) -> usize {
        self.forwarders.len()
    }

    /// How many forwarders there are.
    pub fn forwarders(&self) -> usize {
        self.forwarders.last().map_or(0, |last| usize::from(*last) + 1)
    }

    /// All forwarders.
    pub fn all(&self) -> Holders {
        self.all
    }

    /// The forwarder of a place.
    pub fn forwarder(&self, place: usize) -> Option<u8> {
        self.forwarders.get(place).copied()
    }

    /// The places of these forwarders, as bits.
    #[inline]
    pub fn places_of(&self, holders: Holders) -> u8 {
        let bit = |(place, f): (usize, &u8)| u8::from(holders.contains(*f)) << place;
        self.forwarders.iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit)
    }

    /// The forwarders that hold each part of IPv4, by the first [`PART_LEN_V4`] bits of addresses.
    pub fn holders_v4(&self) -> impl Iterator<Item = Holders> {
        let parts = 0..1_u32 << PART_LEN_V4;
        parts.map(|n| self.holders(Ipv4Addr::from(n << (32 - PART_LEN_V4)).into()))
    }

    /// The forwarders that hold the part of an address.
    #[inline]
    pub fn holders(&self, address: IpAddr) -> Holders {
        self.holders_of_part(part(address))
    }

    /// The forwarders that need a route: those that hold any of the parts that its prefix is in or
    /// covers.
    pub fn holders_of(&self, prefix: &Prefix) -> Holders {
        let (first, last) = (part(prefix.addr()), part(prefix.last()));
        if last - first >= u64::from(PARTS_MAX) {
            return self.all;
        }
        let mut holders = Holders::default();
        for part in first..=last {
            holders.0 |= self.holders_of_part(part).0;
            if holders == self.all {
                break;
            }
        }
        holders
    }

    /// Highest random weight (Thaler and Ravishankar, 1998) among places, until so many different
    /// forwarders are found as hold a part.
    #[inline]
    fn holders_of_part(&self, part: u64) -> Holders {
        let mut weights = [0; PLACES_MAX];
        for (place, weight) in weights.iter_mut().enumerate().take(self.places()) {
            *weight = weight_of(part, place);
        }
        let mut holders = Holders::default();
        for _ in 0..self.copies {
            if holders == self.all {
                break;
            }
            let places = self.forwarders.iter().zip(weights);
            let others = places.filter(|(forwarder, _)| !holders.contains(**forwarder));
            let highest = others.max_by_key(|(_, weight)| *weight);
            holders.0 |= highest.map_or(0, |(forwarder, _)| 1 << forwarder);
        }
        holders
    }
}

/// The number of the part that an address is in: its family and its leading bits.
#[inline]
fn part(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(a) => 4 << 32 | u64::from(a.to_bits() >> (32 - PART_LEN_V4)),
        IpAddr::V6(a) => 6 << 32 | (a.to_bits() >> (128 - PART_LEN_V6)) as u64,
    }
}

/// A place's weight for a part: a bijection of both, so that no two places have the same.
#[inline]
fn weight_of(part: u64, place: usize) -> u64 {
    finish(part << 8 | place as u64)
}

/// Spreads every bit of a hash over all of them (the finalizer of MurmurHash3).
#[inline]
pub(super) fn finish(mut h: u64) -> u64 {
    h = (h ^ h >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    h = (h ^ h >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    h ^ h >> 33
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv6Addr;

    use proptest::prelude::*;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn prefixes() -> impl Strategy<Value = Prefix> {
        let v4 = (any::<[u8; 4]>(), 0u8..=32).prop_map(|(a, len)| (IpAddr::from(a), len));
        let v6 = (any::<[u8; 16]>(), 0u8..=128).prop_map(|(a, len)| (IpAddr::from(a), len));
        prop_oneof![v4, v6].prop_map(|(a, len)| Prefix::around(a, len).unwrap())
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(Partition::new(&[], 1).is_none());
        assert!(Partition::new(&[1, 0], 1).is_none());
        assert!(Partition::new(&[1, 1], 0).is_none());
        assert!(Partition::new(&[8, 1], 1).is_none());
        let partition = Partition::new(&[5, 3], 9).unwrap();
        assert_eq!((partition.places(), partition.forwarders()), (8, 2));
        assert!((0..8).all(|place| partition.forwarder(place) == Some((place / 5) as u8)));
        let all = partition.holders(ip("10.0.0.1"));
        assert_eq!((all.iter().collect::<Vec<_>>(), partition.places_of(all)), (vec![0, 1], 0xFF));
        assert!(!all.contains(2) && !all.contains(255));
    }

    #[test]
    fn addresses_of_one_part_have_the_same_holders_and_parts_are_shared_by_weight() {
        let partition = Partition::new(&[1, 2, 1], 1).unwrap();
        let at = |text| partition.holders(ip(text));
        assert_eq!(at("10.1.0.0"), at("10.1.255.255"));
        assert_eq!(at("2001:db0::"), at("2001:dbf:ffff::"));
        let mut parts = [0; 3];
        for part in 0..65536_u32 {
            let holders = partition.holders(Ipv4Addr::from(part << 16).into());
            assert_eq!(holders.iter().count(), 1);
            holders.iter().for_each(|f| parts[usize::from(f)] += 1);
        }
        let expected = [16384, 32768, 16384];
        assert!(parts.iter().zip(expected).all(|(n, e): (&i32, i32)| (n - e).abs() < 400));
    }

    #[test]
    fn a_forwarder_more_takes_parts_and_moves_no_others() {
        let (two, three) = (Partition::new(&[1, 2], 1), Partition::new(&[1, 2, 1], 1));
        let (two, three) = (two.unwrap(), three.unwrap());
        let mut moved = 0;
        for part in 0..65536_u32 {
            let address = Ipv4Addr::from(part << 16).into();
            let (before, after) = (two.holders(address), three.holders(address));
            assert!(after == before || after.contains(2));
            moved += i32::from(after != before);
        }
        assert!((moved - 16384).abs() < 400, "{moved}");
    }

    proptest! {
        #[test]
        fn a_route_is_with_all_who_hold_an_address_of_its_prefix(
            places in prop::collection::vec(1u8..=2, 1..=4),
            copies in 1u8..=5,
            prefix in prefixes(),
            host in any::<u128>(),
        ) {
            let partition = Partition::new(&places, copies).unwrap();
            let address = match (prefix.addr(), prefix.last()) {
                (IpAddr::V4(a), IpAddr::V4(last)) => {
                    (a | (last & Ipv4Addr::from(host as u32))).into()
                }
                (IpAddr::V6(a), IpAddr::V6(last)) => (a | (last & Ipv6Addr::from(host))).into(),
                _ => unreachable!(),
            };
            prop_assert!(prefix.contains(address));
            let (of_it, of_address) = (partition.holders_of(&prefix), partition.holders(address));
            let copies = usize::from(copies).min(places.len());
            prop_assert_eq!(of_address.iter().count(), copies);
            prop_assert!(of_address.iter().all(|forwarder| of_it.contains(forwarder)));
            let part_len = if prefix.addr().is_ipv4() { PART_LEN_V4 } else { PART_LEN_V6 };
            if prefix.len() >= part_len {
                prop_assert_eq!(of_it, of_address);
            }
        }

        /// One copy more is one forwarder more: no part leaves a forwarder.
        #[test]
        fn a_copy_more_adds_a_holder(
            places in prop::collection::vec(1u8..=2, 2..=4),
            copies in 1u8..=3,
            address: u32,
        ) {
            let address = IpAddr::from(address.to_be_bytes());
            let holders = |copies| {
                let all = Partition::new(&places, copies).unwrap().holders(address);
                all.iter().collect::<BTreeSet<_>>()
            };
            prop_assert!(holders(copies).is_subset(&holders(copies + 1)));
        }
    }
}
