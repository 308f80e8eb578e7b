//! One pass over a name gives a keyed hash for each of its prefixes; and the table that goes from
//! such hashes to numbered entries.

mod index;

use plexus_wire::ndn::Name;

pub(crate) use index::Index;

/// Prefixes with more components are not looked at; NFD's name tree stops at 32 too.
pub const COMPONENTS_MAX: usize = 32;
/// Bytes of the longest name.
pub const NAME_LEN_MAX: usize = u16::MAX as usize;

/// The secret key. One for all tables that share names.
///
/// Senders choose names; who does not know the key cannot aim at a place in a table. Sixteen bytes
/// are folded into the state by one multiplication with secrets. A hash that fits is never believed
/// without its name being compared.
#[derive(Clone, Copy, Debug)]
pub struct NameHasher {
    start: u64,
    words: u64,
    last: u64,
}

/// The hashes of a name's prefixes. Memory to be used again for the next name.
#[derive(Clone, Debug)]
pub struct NameHashes {
    whole: u64,
    parent: u64,
    depth: u8,
    ends: [u16; COMPONENTS_MAX + 1],
    hashes: [u64; COMPONENTS_MAX + 1],
}

impl Default for NameHashes {
    fn default() -> NameHashes {
        let (ends, hashes) = ([0; COMPONENTS_MAX + 1], [0; COMPONENTS_MAX + 1]);
        NameHashes { whole: 0, parent: 0, depth: 0, ends, hashes }
    }
}

/// A name and the hashes of its prefixes.
#[derive(Clone, Copy, Debug)]
pub struct HashedName<'a> {
    name: Name<'a>,
    hashes: &'a NameHashes,
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn spread(seed: u64) -> u64 {
    // The finaliser of SplitMix64.
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl NameHasher {
    /// A hasher with this key, which should be secret and random.
    pub fn new(key: [u64; 2]) -> NameHasher {
        NameHasher {
            start: spread(key[0]),
            words: spread(key[1]),
            last: spread(key[0] ^ key[1].rotate_left(32)) | 1,
        }
    }

    /// Hashes a name and all its prefixes; `None` if it is longer than [`NAME_LEN_MAX`].
    #[inline]
    pub fn hash<'a>(&self, name: Name<'a>, into: &'a mut NameHashes) -> Option<HashedName<'a>> {
        if name.value().len() > NAME_LEN_MAX {
            return None;
        }
        let mut state = self.start;
        into.hashes[0] = fold(state, self.last);
        (into.whole, into.parent) = (into.hashes[0], into.hashes[0]);
        let (mut begin, mut components) = (0, 0);
        for end in name.ends() {
            state = self.absorb(state, &name.value()[begin..end]);
            let hash = fold(state, self.last);
            (into.parent, into.whole) = (into.whole, hash);
            components += 1;
            if components <= COMPONENTS_MAX {
                into.ends[components] = end as u16;
                into.hashes[components] = hash;
            }
            begin = end;
        }
        into.depth = components.min(COMPONENTS_MAX) as u8;
        Some(HashedName { name, hashes: into })
    }

    /// A hash of bytes that are no name.
    pub fn bytes(&self, bytes: &[u8]) -> u64 {
        fold(self.absorb(self.start ^ bytes.len() as u64, bytes), self.last)
    }

    /// Two hashes in one.
    #[inline(always)]
    pub fn pair(&self, a: u64, b: u64) -> u64 {
        fold(a ^ self.start, b ^ self.words)
    }

    #[inline(always)]
    fn absorb(&self, mut state: u64, bytes: &[u8]) -> u64 {
        let mut chunks = bytes.chunks_exact(16);
        for chunk in &mut chunks {
            let (a, b) = chunk.split_at(8);
            state = fold(state ^ word(a), self.words ^ word(b));
        }
        let rest = chunks.remainder();
        let (a, b) = rest.split_at(rest.len().min(8));
        // The length keeps what differs only in zeros at the end apart.
        let len = (bytes.len() as u64) << 56;
        fold(state ^ word(a), self.words ^ word(b) ^ len)
    }
}

/// Up to eight bytes as a little-endian integer, by two reads that may overlap.
#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    if let Some(all) = bytes.first_chunk::<8>() {
        return u64::from_le_bytes(*all);
    }
    if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let high = u64::from(u32::from_le_bytes(*high)) << (8 * (n - 4));
        return u64::from(u32::from_le_bytes(*low)) | high;
    }
    match n {
        0 => 0,
        _ => {
            let (low, mid, high) = (bytes[0], bytes[n / 2], bytes[n - 1]);
            u64::from(low) | u64::from(mid) << (8 * (n / 2)) | u64::from(high) << (8 * (n - 1))
        }
    }
}

impl NameHashes {
    /// The name that was hashed into this.
    #[inline(always)]
    pub(crate) fn of<'a>(&'a self, name: Name<'a>) -> HashedName<'a> {
        HashedName { name, hashes: self }
    }
}

impl<'a> HashedName<'a> {
    /// The whole name.
    #[inline(always)]
    pub fn name(&self) -> Name<'a> {
        self.name
    }

    /// Its bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &'a [u8] {
        self.name.value()
    }

    /// The hash of the whole name.
    #[inline(always)]
    pub fn hash(&self) -> u64 {
        self.hashes.whole
    }

    /// The hash of the name without its last component.
    #[inline(always)]
    pub fn parent(&self) -> u64 {
        self.hashes.parent
    }

    /// How many components its longest prefix has that can be looked at.
    #[inline(always)]
    pub fn depth(&self) -> usize {
        usize::from(self.hashes.depth)
    }

    /// Where the prefix of that many components ends, and its hash; for more than
    /// [`HashedName::depth`] of them, those of the prefix of so many.
    #[inline(always)]
    pub fn prefix(&self, components: usize) -> (usize, u64) {
        let components = components.min(self.depth());
        (usize::from(self.hashes.ends[components]), self.hashes.hashes[components])
    }

    /// The hashes of the prefixes of 0, 1, 2… components.
    #[inline(always)]
    pub fn hashes(&self) -> &'a [u64] {
        &self.hashes.hashes[..=self.depth()]
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
        (hashed.hash(), hashed.parent(), hashed.hashes().to_vec())
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
