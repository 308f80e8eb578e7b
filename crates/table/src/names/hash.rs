//! Hashes a name in one pass: a keyed hash for each of its prefixes.
//!
//! The hash of a prefix is SipHash-1-3 (Aumasson, Bernstein: SipHash, a fast short-input PRF,
//! INDOCRYPT 2012; one round per word and three at the end, as in Rust's own hash maps) of its
//! components, each padded with zeros to whole words of eight bytes. Components contain their
//! length, so different names have different words, and SipHash's final length block is left out.
//! So every prefix ends at a word, and costs three more rounds, which do not delay the next
//! component. Hashing several names side by side takes less ([`NamesBeside`](super::NamesBeside)).
//!
//! So, Narayanan and Oran (Named Data Networking on a Router, ANCS 2013) and NDN-DPDK chose SipHash
//! for the same reason: senders of names must not be able to choose slots, even after measuring
//! response times.

use super::last_word;

/// Longer prefixes are ignored; NFD's name tree stops at 32 too.
pub const COMPONENTS_MAX: usize = 32;

/// The secret key, and the initial state. One for all tables that share names.
#[derive(Clone, Copy)]
pub struct NameHasher {
    pub(super) start: Sip<1, 3>,
    /// The hash of the empty name.
    pub(super) empty: u64,
}

/// Leaves the key out.
impl std::fmt::Debug for NameHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NameHasher").finish_non_exhaustive()
    }
}

/// A name whose components' ends are not ascending or do not end with its bytes, or which is longer
/// than 65,535 bytes, more than any packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ends of a name's components have to ascend to its length, 65535 bytes at most")]
pub struct Malformed;

/// The hashes of a name's prefixes. Memory reused for the next name.
#[derive(Clone, Debug)]
pub struct NameHashes {
    /// Of the whole name.
    pub(super) whole: u64,
    /// Of the name without its last component.
    pub(super) parent: u64,
    /// Components, or one more than are searched.
    pub(super) components: u8,
    /// Where the prefix of `i` components ends, and its hash.
    pub(super) ends: [u16; COMPONENTS_MAX + 1],
    pub(super) hashes: [u64; COMPONENTS_MAX + 1],
}

/// A name and the hashes of its prefixes.
#[derive(Clone, Copy, Debug)]
pub struct HashedName<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) hashes: &'a NameHashes,
}

impl NameHasher {
    /// A hasher with this key, which should be secret and random.
    pub fn new(key: [u64; 2]) -> NameHasher {
        let start = Sip::new(key);
        NameHasher { start, empty: start.finish() }
    }

    /// Hashes a name of these bytes whose components end at `ends`, and all its prefixes.
    ///
    /// # Errors
    /// [`Malformed`].
    #[inline]
    pub fn hash<'a>(
        &self,
        bytes: &'a [u8],
        ends: impl IntoIterator<Item = usize>,
        into: &'a mut NameHashes,
    ) -> Result<HashedName<'a>, Malformed> {
        if bytes.len() > usize::from(u16::MAX) {
            return Err(Malformed);
        }
        let (mut last, mut components) = (0, 0);
        let (mut state, mut whole, mut parent) = (self.start, self.empty, self.empty);
        into.hashes[0] = self.empty;
        for end in ends {
            if end <= last || end > bytes.len() {
                return Err(Malformed);
            }
            state.absorb_component(&bytes[..end], last);
            last = end;
            components += 1;
            (whole, parent) = (state.finish(), whole);
            if components <= COMPONENTS_MAX {
                into.ends[components] = end as u16;
                into.hashes[components] = whole;
            }
        }
        if last != bytes.len() {
            return Err(Malformed);
        }
        (into.whole, into.parent) = (whole, parent);
        into.components = components.min(COMPONENTS_MAX + 1) as u8;
        Ok(into.of(bytes))
    }

    /// A hash of bytes that are no name.
    pub fn bytes(&self, bytes: &[u8]) -> u64 {
        let mut state = self.start;
        state.absorb_component(bytes, 0);
        state.absorb(bytes.len() as u64);
        state.finish()
    }
}

impl Default for NameHashes {
    fn default() -> NameHashes {
        let (ends, hashes) = ([0; COMPONENTS_MAX + 1], [0; COMPONENTS_MAX + 1]);
        NameHashes { whole: 0, parent: 0, components: 0, ends, hashes }
    }
}

impl AsMut<NameHashes> for NameHashes {
    fn as_mut(&mut self) -> &mut NameHashes {
        self
    }
}

impl NameHashes {
    /// The name of these bytes, which was the last one hashed into this.
    #[inline(always)]
    pub fn of<'a>(&'a self, bytes: &'a [u8]) -> HashedName<'a> {
        HashedName { bytes, hashes: self }
    }
}

impl<'a> HashedName<'a> {
    /// The whole name.
    #[inline(always)]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The hash of the whole name.
    #[inline(always)]
    pub fn hash(&self) -> u64 {
        self.hashes.whole
    }

    /// The hash of the name without its last component; its own if it has none.
    #[inline(always)]
    pub fn parent(&self) -> u64 {
        self.hashes.parent
    }

    /// How many components it has, if not more than [`COMPONENTS_MAX`].
    #[inline(always)]
    pub fn components(&self) -> Option<usize> {
        let components = usize::from(self.hashes.components);
        (components <= COMPONENTS_MAX).then_some(components)
    }

    /// How many components its longest searchable prefix has.
    #[inline(always)]
    pub fn depth(&self) -> usize {
        usize::from(self.hashes.components).min(COMPONENTS_MAX)
    }

    /// The hashes of its proper prefixes of 0, 1, 2… components, as far as they are searchable.
    #[inline(always)]
    pub fn proper(&self) -> &'a [u64] {
        let proper = usize::from(self.hashes.components).min(COMPONENTS_MAX + 1);
        &self.hashes.hashes[..proper]
    }

    /// The end of the prefix with that many components, and its hash; beyond [`depth`], those of
    /// the prefix of that depth.
    ///
    /// [`depth`]: HashedName::depth
    #[inline(always)]
    pub fn prefix(&self, components: usize) -> (usize, u64) {
        let components = components.min(self.depth());
        (usize::from(self.hashes.ends[components]), self.hashes.hashes[components])
    }
}

/// The state of a SipHash-C-D.
#[derive(Clone, Copy)]
pub(crate) struct Sip<const C: usize, const D: usize> {
    pub(super) v: [u64; 4],
}

impl<const C: usize, const D: usize> Sip<C, D> {
    pub(crate) fn new([k0, k1]: [u64; 2]) -> Sip<C, D> {
        let constants: [u64; 4] = [
            0x736f_6d65_7073_6575,
            0x646f_7261_6e64_6f6d,
            0x6c79_6765_6e65_7261,
            0x7465_6462_7974_6573,
        ];
        let keys = [k0, k1, k0, k1];
        Sip { v: std::array::from_fn(|i| constants[i] ^ keys[i]) }
    }

    /// Absorbs the bytes from `at` on, padded with zeros to a whole word.
    #[inline(always)]
    fn absorb_component(&mut self, bytes: &[u8], at: usize) {
        let mut rest = &bytes[at..];
        while let Some((word, more)) = rest.split_first_chunk() {
            self.absorb(u64::from_le_bytes(*word));
            rest = more;
        }
        if !rest.is_empty() {
            self.absorb(last_word(bytes, rest.len()));
        }
    }

    #[inline(always)]
    pub(crate) fn absorb(&mut self, word: u64) {
        self.v[3] ^= word;
        (0..C).for_each(|_| self.round());
        self.v[0] ^= word;
    }

    /// The hash of the absorbed words.
    #[inline(always)]
    pub(crate) fn finish(mut self) -> u64 {
        self.v[2] ^= 0xFF;
        (0..D).for_each(|_| self.round());
        self.v.iter().fold(0, |hash, v| hash ^ v)
    }

    #[inline(always)]
    fn round(&mut self) {
        let [v0, v1, v2, v3] = &mut self.v;
        *v0 = v0.wrapping_add(*v1);
        *v2 = v2.wrapping_add(*v3);
        *v1 = v1.rotate_left(13) ^ *v0;
        *v3 = v3.rotate_left(16) ^ *v2;
        *v0 = v0.rotate_left(32).wrapping_add(*v3);
        *v2 = v2.wrapping_add(*v1);
        *v3 = v3.rotate_left(21) ^ *v0;
        *v1 = v1.rotate_left(17) ^ *v2;
        *v2 = v2.rotate_left(32);
    }
}
