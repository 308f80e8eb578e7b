//! The name of a packet, hashed for all tables at once
//! ([`plexus_table::names`](plexus_table::names)).

use plexus_table::names as table;
use plexus_wire::ndn::Name;

pub use table::COMPONENTS_MAX;

/// Bytes of the longest name.
pub const NAME_LEN_MAX: usize = u16::MAX as usize;

/// The secret key. One for all tables that share names: without it an attacker cannot aim at a slot
/// of a table.
#[derive(Clone, Copy, Debug)]
pub struct NameHasher {
    names: table::NameHasher,
    /// For pairs of hashes.
    pairs: [u64; 2],
}

/// The hashes of a name's prefixes. Memory reused for the next name.
#[derive(Clone, Debug, Default)]
pub struct NameHashes(table::NameHashes);

impl AsMut<table::NameHashes> for NameHashes {
    #[inline(always)]
    fn as_mut(&mut self) -> &mut table::NameHashes {
        &mut self.0
    }
}

/// Names to be hashed side by side ([`table::NamesBeside`]).
#[derive(Default)]
pub(crate) struct NamesBeside(table::NamesBeside);

/// A name and the hashes of its prefixes.
#[derive(Clone, Copy, Debug)]
pub struct HashedName<'a> {
    name: Name<'a>,
    hashed: table::HashedName<'a>,
}

impl NameHasher {
    /// A hasher with this key, which should be secret and random.
    pub fn new(key: [u64; 2]) -> NameHasher {
        let names = table::NameHasher::new(key);
        let pairs = [names.bytes(b"one of a pair"), names.bytes(b"the other")];
        NameHasher { names, pairs }
    }

    /// Hashes a name and all its prefixes; `None` if it is longer than [`NAME_LEN_MAX`].
    #[inline]
    pub fn hash<'a>(&self, name: Name<'a>, into: &'a mut NameHashes) -> Option<HashedName<'a>> {
        self.names.hash(name.value(), name.ends(), &mut into.0).ok()?;
        Some(into.of(name))
    }

    /// A hash of bytes that are not a name.
    pub fn bytes(&self, bytes: &[u8]) -> u64 {
        self.names.bytes(bytes)
    }

    /// Combines two numbers, one of which is a secret hash: both halves of a product with secret
    /// factors, where another hash would take ten times as many instructions.
    #[inline(always)]
    pub fn pair(&self, a: u64, b: u64) -> u64 {
        let product = u128::from(a ^ self.pairs[0]) * u128::from(b ^ self.pairs[1]);
        (product >> 64) as u64 ^ product as u64
    }
}

impl NamesBeside {
    /// Adds a name to the others, or hashes it at once; false if it is longer than
    /// [`NAME_LEN_MAX`].
    #[inline]
    pub(crate) fn add(
        &mut self,
        hasher: &NameHasher,
        name: Name<'_>,
        into: &mut NameHashes,
        place: usize,
    ) -> bool {
        self.0.add(&hasher.names, name.value(), name.ends(), &mut into.0, place).is_ok()
    }

    /// Hashes them, each into its place.
    #[inline]
    pub(crate) fn hash(&mut self, hasher: &NameHasher, into: &mut [NameHashes]) {
        self.0.hash(&hasher.names, into);
    }
}

impl NameHashes {
    #[inline(always)]
    pub(crate) fn of<'a>(&'a self, name: Name<'a>) -> HashedName<'a> {
        HashedName { name, hashed: self.0.of(name.value()) }
    }
}

impl<'a> HashedName<'a> {
    /// In the form that tables take.
    #[inline(always)]
    pub(crate) fn hashed(&self) -> table::HashedName<'a> {
        self.hashed
    }

    /// The whole name.
    #[inline(always)]
    pub fn name(&self) -> Name<'a> {
        self.name
    }

    /// Its bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &'a [u8] {
        self.hashed.bytes()
    }

    /// The hash of the whole name.
    #[inline(always)]
    pub fn hash(&self) -> u64 {
        self.hashed.hash()
    }

    /// The hash of the name without its last component.
    #[inline(always)]
    pub fn parent(&self) -> u64 {
        self.hashed.parent()
    }

    /// How many components its longest searchable prefix has.
    #[inline(always)]
    pub fn depth(&self) -> usize {
        self.hashed.depth()
    }

    /// The hashes of its proper prefixes of 0, 1, 2… components, as far as they are searchable.
    #[inline(always)]
    pub fn proper(&self) -> &'a [u64] {
        self.hashed.proper()
    }

    /// The end of the prefix with that many components, and its hash; beyond [`HashedName::depth`],
    /// those of the prefix of that depth.
    #[inline(always)]
    pub fn prefix(&self, components: usize) -> (usize, u64) {
        self.hashed.prefix(components)
    }
}

#[cfg(test)]
mod tests {
    use plexus_wire::ndn::NameBuf;
    use proptest::prelude::*;

    use super::*;

    fn hashes(name: &NameBuf, hasher: &NameHasher) -> (u64, u64, Vec<u64>) {
        let mut memory = NameHashes::default();
        let hashed = hasher.hash(name.as_name(), &mut memory).unwrap();
        let all = (0..=hashed.depth()).map(|components| hashed.prefix(components).1);
        (hashed.hash(), hashed.parent(), all.collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_hash_of_a_prefix_is_that_of_the_name_it_is(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..40)
        ) {
            let hasher = NameHasher::new([1, 2]);
            let mut name = NameBuf::new();
            let mut one_by_one = vec![hashes(&name, &hasher).0];
            for part in parts {
                name = name.with(&part);
                one_by_one.push(hashes(&name, &hasher).0);
            }
            let (whole, parent, all) = hashes(&name, &hasher);
            prop_assert_eq!(whole, *one_by_one.last().unwrap());
            prop_assert_eq!(parent, one_by_one[one_by_one.len().saturating_sub(2)]);
            let depth = (one_by_one.len() - 1).min(COMPONENTS_MAX);
            prop_assert_eq!(&all[..], &one_by_one[..=depth]);
        }
    }

    #[test]
    fn names_that_differ_little_have_other_hashes_and_so_have_keys() {
        let hasher = NameHasher::new([1, 2]);
        let mut seen = std::collections::HashSet::new();
        for len in 0..40 {
            for at in 0..len {
                let mut part = vec![0; len];
                part[at] = 1;
                assert!(seen.insert(hashes(&NameBuf::new().with(&part), &hasher).0));
            }
            assert!(seen.insert(hashes(&NameBuf::new().with(vec![0; len]), &hasher).0));
        }
        let name = NameBuf::new().with("a");
        assert_ne!(hashes(&name, &hasher).0, hashes(&name, &NameHasher::new([1, 3])).0);
    }

    #[test]
    fn pairs_that_differ_in_one_bit_differ() {
        let hasher = NameHasher::new([1, 2]);
        let mut seen = std::collections::HashSet::new();
        for bit in 0..64 {
            assert!(seen.insert(hasher.pair(1 << bit, 0)) && seen.insert(hasher.pair(0, 1 << bit)));
        }
    }

    #[test]
    fn a_name_longer_than_16_bits_is_refused() {
        let name = NameBuf::new().with(vec![0; NAME_LEN_MAX]);
        let mut memory = NameHashes::default();
        assert!(NameHasher::new([1, 2]).hash(name.as_name(), &mut memory).is_none());
    }
}
