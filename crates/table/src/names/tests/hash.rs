//! What is hashed, and what is refused.

use std::hash::Hasher;

use super::super::hash::Sip;
use super::*;

/// SipHash of bytes, word by word; the last has their count.
fn sip<const C: usize, const D: usize>(keys: [u64; 2], bytes: &[u8]) -> u64 {
    let mut sip = Sip::<C, D>::new(keys);
    let (whole, last) = words(bytes);
    whole.iter().for_each(|word| sip.absorb(u64::from_le_bytes(*word)));
    sip.absorb(last.unwrap_or(0) | (bytes.len() as u64) << 56);
    sip.finish()
}

#[test]
#[allow(deprecated)] // The standard library's SipHash-2-4, which says what it is.
fn it_is_siphash() {
    for len in 0..100 {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 151 + len) as u8).collect();
        let mut theirs = std::hash::SipHasher::new_with_keys(11, !22);
        theirs.write(&bytes);
        assert_eq!(sip::<2, 4>([11, !22], &bytes), theirs.finish(), "{len} bytes");
    }
}

/// A name, component by component, each padded to whole words.
fn naive(keys: [u64; 2], name: &Name) -> u64 {
    let mut sip = Sip::<1, 3>::new(keys);
    let starts = std::iter::once(0).chain(name.ends.iter().copied());
    for (start, &end) in starts.zip(&name.ends) {
        for part in name.bytes[start..end].chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            sip.absorb(u64::from_le_bytes(word));
        }
    }
    sip.finish()
}

proptest! {
    #[test]
    fn a_prefix_has_the_hash_that_it_has_as_a_name(name in name(), keys in any::<[u64; 2]>()) {
        let (mut hashes, hasher) = (NameHashes::default(), NameHasher::new(keys));
        let hashed = hasher.hash(&name.bytes, name.ends.iter().copied(), &mut hashes).unwrap();
        prop_assert_eq!(hashed.components(), Some(name.ends.len()));
        for components in 0..=name.ends.len() {
            let prefix = name.prefix(components);
            let alone = naive(keys, &prefix);
            prop_assert_eq!(hashed.prefix(components), (prefix.bytes.len(), alone));
        }
        prop_assert_eq!(hashed.hash(), hashed.prefix(name.ends.len()).1);
        prop_assert_eq!(hashed.parent(), hashed.prefix(name.ends.len().saturating_sub(1)).1);
    }

    #[test]
    fn ends_that_are_not_a_names_are_refused_and_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        ends in prop::collection::vec(0..50usize, 0..8),
    ) {
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let good = starts.zip(&ends).all(|(start, &end)| start < end)
            && ends.last().copied().unwrap_or(0) == bytes.len();
        let mut hashes = NameHashes::default();
        let hashed = Keys::Good.hasher().hash(&bytes, ends.iter().copied(), &mut hashes).is_ok();
        prop_assert_eq!(hashed, good);
    }
}

proptest! {
    /// More names than fit side by side, including longer ones than fit, and invalid ones.
    #[test]
    fn names_hashed_side_by_side_have_the_hashes_that_they_have_alone(
        batches in prop::collection::vec(
            prop::collection::vec((name(), prop::option::weighted(0.1, 0..9usize)), 0..20), 1..4),
    ) {
        let hasher = Keys::Good.hasher();
        let mut beside = NamesBeside::default();
        for batch in batches {
            let mut together = vec![NameHashes::default(); batch.len()];
            let mut good = Vec::new();
            for (place, (name, wrong)) in batch.iter().enumerate() {
                let mut ends = name.ends.clone();
                ends.extend(wrong);
                let hashes = &mut together[place];
                let taken = beside.add(&hasher, &name.bytes, ends.iter().copied(), hashes, place);
                let mut alone = NameHashes::default();
                prop_assert_eq!(hasher.hash(&name.bytes, ends, &mut alone).err(), taken.err());
                good.extend(taken.map(|()| (place, alone)));
            }
            beside.hash(&hasher, &mut together);
            for (place, alone) in good {
                let bytes = &batch[place].0.bytes;
                let (together, alone) = (together[place].of(bytes), alone.of(bytes));
                prop_assert_eq!(together.hash(), alone.hash());
                prop_assert_eq!(together.parent(), alone.parent());
                prop_assert_eq!(together.components(), alone.components());
                prop_assert_eq!(together.proper(), alone.proper());
                let prefixes = |name: HashedName<'_>| {
                    (0..=COMPONENTS_MAX).map(|n| name.prefix(n)).collect::<Vec<_>>()
                };
                prop_assert_eq!(prefixes(together), prefixes(alone));
            }
        }
    }
}

#[test]
fn names_longer_than_a_packet_are_refused() {
    let bytes = vec![0; 65_536];
    let (mut hashes, hasher) = (NameHashes::default(), Keys::Good.hasher());
    assert!(hasher.hash(&bytes[1..], [65_535], &mut hashes).is_ok());
    assert_eq!(hasher.hash(&bytes, [65_536], &mut hashes).err(), Some(Malformed));
    assert_eq!(hasher.hash(&bytes, [0, 65_536], &mut hashes).err(), Some(Malformed));
}

#[test]
fn of_thousands_of_components_the_first_32_are_prefixes_and_all_are_the_name() {
    let long = Name::of((0..4000).map(|i: u16| i.to_be_bytes()));
    let other = Name::of((0..4000).map(|i: u16| (i + i / 3999).to_be_bytes()));
    let hashes = |name: &Name| {
        name.hashed(Keys::Good, |name| {
            assert_eq!((name.components(), name.depth()), (None, COMPONENTS_MAX));
            assert_eq!(name.prefix(usize::MAX), name.prefix(COMPONENTS_MAX));
            (name.prefix(COMPONENTS_MAX), name.hash(), name.parent())
        })
    };
    let (of_long, of_other) = (hashes(&long), hashes(&other));
    assert_eq!(of_long.0, of_other.0);
    assert_ne!(of_long.1, of_other.1);
    assert_eq!(of_long.2, of_other.2);
    let naive = |name: &Name| naive([0x5EED, 0x5EED_5EED], name);
    assert_eq!((of_long.1, of_long.2), (naive(&long), naive(&long.prefix(3999))));
}

#[test]
fn keys_decide() {
    let name = Name::parse("/com/example");
    let hash = |key| {
        let mut hashes = NameHashes::default();
        let ends = name.ends.iter().copied();
        NameHasher::new(key).hash(&name.bytes, ends, &mut hashes).unwrap().hash()
    };
    assert_ne!(hash([1, 2]), hash([1, 3]));
    assert_ne!(hash([1, 2]), hash([2, 2]));
}
