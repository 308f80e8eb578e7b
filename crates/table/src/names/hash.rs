//! One pass over a name gives a keyed hash for each of its prefixes.
//!
//! The hash of a prefix is SipHash-1-3 of its bytes (Aumasson, Bernstein: SipHash, a fast
//! short-input PRF, INDOCRYPT 2012; one round per word and three at the end, as in Rust's own hash
//! maps). SipHash keeps its state after each whole word of eight bytes; a prefix that ends there,
//! or within the next word, is finished from a copy of that state. So all prefixes together cost
//! the rounds of the whole name, and four rounds more for each, which do not wait for each other.
//!
//! So, Narayanan and Oran (Named Data Networking on a Router, ANCS 2013) and NDN-DPDK chose SipHash
//! for the same reason: who sends names must not be able to choose their places, not even after
//! watching how long answers take.

use arrayvec::ArrayVec;

use super::word;

/// Prefixes with more components are not looked at; NFD's name tree stops at 32 too.
pub const COMPONENTS_MAX: usize = 32;

/// Words that are absorbed before prefixes that end in them are finished.
const WORDS: usize = 16;
/// Prefixes that are finished beside each other.
const LANES: usize = 4;

/// The secret key, and what hashing begins with. One for all tables that share names.
#[derive(Clone, Copy)]
pub struct NameHasher {
    start: Sip<1, 3, 1>,
    /// The hash of the empty name.
    empty: u64,
}

/// Without the key.
impl std::fmt::Debug for NameHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NameHasher").finish_non_exhaustive()
    }
}

/// A name whose components' ends are not ascending, or do not end where its bytes do; or which is
/// longer than 65,535 bytes, more than any packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "the ends of a name's components have to ascend to its length, 65535 bytes at most",
        )
    }
}

impl std::error::Error for Malformed {}

/// The hashes of a name's prefixes. Memory to be used again for the next name.
#[derive(Clone, Debug)]
pub struct NameHashes {
    /// Of the whole name.
    pub(super) whole: u64,
    /// Components, or one more than may be looked at.
    components: u8,
    /// Where the prefix of `i` components ends, and its hash.
    ends: [u16; COMPONENTS_MAX + 1],
    pub(super) hashes: [u64; COMPONENTS_MAX + LANES],
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
        let [empty] = start.finish([0], [0]);
        NameHasher { start, empty }
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
        let (mut last, mut components) = (0, 0);
        for end in ends {
            if end <= last || end > bytes.len() || end > usize::from(u16::MAX) {
                return Err(Malformed);
            }
            last = end;
            components += 1;
            if let Some(into) = into.ends.get_mut(components) {
                *into = end as u16;
            }
        }
        if last != bytes.len() {
            return Err(Malformed);
        }
        into.components = components.min(COMPONENTS_MAX + 1) as u8;
        self.prefixes(bytes, components.min(COMPONENTS_MAX), into);
        into.whole = match components {
            0..=COMPONENTS_MAX => into.hashes[components],
            _ => self.whole(bytes),
        };
        Ok(into.of(bytes))
    }

    /// The hash of a name alone, for who does not look for prefixes: half the time.
    #[inline]
    pub fn whole(&self, bytes: &[u8]) -> u64 {
        let (words, tail) = bytes.as_chunks();
        let mut state = self.start;
        words.iter().for_each(|word| state.absorb([u64::from_le_bytes(*word)]));
        let [hash] = state.finish([word(tail, 0, tail.len())], [bytes.len()]);
        hash
    }

    /// Hashes the prefixes of one to `depth` components. Words are absorbed some dozens at a time
    /// and then prefixes finished, as branches on where components end would be mispredicted.
    #[inline(always)]
    fn prefixes(&self, bytes: &[u8], depth: usize, into: &mut NameHashes) {
        into.hashes[0] = self.empty;
        let mut states = ArrayVec::<_, { WORDS + 1 }>::from_iter([self.start]);
        let (mut words, _) = bytes[..usize::from(into.ends[depth])].as_chunks();
        let (mut before, mut next) = (0, 1);
        loop {
            let (now, later) = words.split_at(words.len().min(WORDS));
            let mut state = states[0];
            for word in now {
                state.absorb([u64::from_le_bytes(*word)]);
                states.push(state);
            }
            let reached = before + now.len();
            while next <= depth && usize::from(into.ends[next]) / 8 <= reached {
                // Beside each other, and those that cannot be finished yet once more later.
                let ends: [usize; LANES] =
                    std::array::from_fn(|n| usize::from(into.ends[(next + n).min(depth)]));
                let at = ends.map(|end| (end / 8).min(reached));
                let tails = std::array::from_fn(|n| word(bytes, 8 * at[n], ends[n]));
                let hashes = Sip::side_by_side(at.map(|at| states[at - before]));
                into.hashes[next..next + LANES].copy_from_slice(&hashes.finish(tails, ends));
                next += ends.iter().filter(|&&end| end / 8 <= reached).count();
            }
            if later.is_empty() {
                break;
            }
            states.clear();
            states.push(state);
            (words, before) = (later, reached);
        }
    }
}

impl Default for NameHashes {
    fn default() -> NameHashes {
        let (ends, hashes) = ([0; COMPONENTS_MAX + 1], [0; COMPONENTS_MAX + LANES]);
        NameHashes { whole: 0, components: 0, ends, hashes }
    }
}

impl NameHashes {
    /// The name of these bytes, which was hashed into this last.
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

    /// How many components it has, if not more than [`COMPONENTS_MAX`].
    #[inline(always)]
    pub fn components(&self) -> Option<usize> {
        let components = usize::from(self.hashes.components);
        (components <= COMPONENTS_MAX).then_some(components)
    }

    /// How many components its longest prefix has that can be looked at.
    #[inline(always)]
    pub fn depth(&self) -> usize {
        usize::from(self.hashes.components).min(COMPONENTS_MAX)
    }

    /// The hashes of its proper prefixes of 0, 1, 2… components, as far as they may be looked at.
    #[inline(always)]
    pub fn proper(&self) -> &'a [u64] {
        let proper = usize::from(self.hashes.components).min(COMPONENTS_MAX + 1);
        &self.hashes.hashes[..proper]
    }

    /// Where the prefix of that many components ends, and its hash; for more than [`depth`] of
    /// them, those of the prefix of so many.
    ///
    /// [`depth`]: HashedName::depth
    #[inline(always)]
    pub fn prefix(&self, components: usize) -> (usize, u64) {
        let components = components.min(self.depth());
        (usize::from(self.hashes.ends[components]), self.hashes.hashes[components])
    }
}

/// The states of `N` SipHash-C-D side by side.
#[derive(Clone, Copy)]
pub(super) struct Sip<const C: usize, const D: usize, const N: usize> {
    v: [[u64; N]; 4],
}

impl<const C: usize, const D: usize> Sip<C, D, 1> {
    pub(super) fn new([k0, k1]: [u64; 2]) -> Sip<C, D, 1> {
        let constants: [u64; 4] = [
            0x736f_6d65_7073_6575,
            0x646f_7261_6e64_6f6d,
            0x6c79_6765_6e65_7261,
            0x7465_6462_7974_6573,
        ];
        let keys = [k0, k1, k0, k1];
        Sip { v: std::array::from_fn(|i| [constants[i] ^ keys[i]]) }
    }
}

impl<const C: usize, const D: usize, const N: usize> Sip<C, D, N> {
    #[inline(always)]
    fn side_by_side(states: [Sip<C, D, 1>; N]) -> Sip<C, D, N> {
        Sip { v: std::array::from_fn(|i| states.map(|state| state.v[i][0])) }
    }

    #[inline(always)]
    pub(super) fn absorb(&mut self, words: [u64; N]) {
        (0..N).for_each(|n| self.v[3][n] ^= words[n]);
        (0..C).for_each(|_| self.round());
        (0..N).for_each(|n| self.v[0][n] ^= words[n]);
    }

    /// The hashes of what was absorbed and up to seven bytes more; `lens` bytes in all.
    #[inline(always)]
    pub(super) fn finish(mut self, tails: [u64; N], lens: [usize; N]) -> [u64; N] {
        self.absorb(std::array::from_fn(|n| tails[n] | (lens[n] as u64) << 56));
        (0..N).for_each(|n| self.v[2][n] ^= 0xFF);
        (0..D).for_each(|_| self.round());
        std::array::from_fn(|n| self.v.iter().fold(0, |hash, v| hash ^ v[n]))
    }

    #[inline(always)]
    fn round(&mut self) {
        let [v0, v1, v2, v3] = &mut self.v;
        for n in 0..N {
            v0[n] = v0[n].wrapping_add(v1[n]);
            v2[n] = v2[n].wrapping_add(v3[n]);
            v1[n] = v1[n].rotate_left(13) ^ v0[n];
            v3[n] = v3[n].rotate_left(16) ^ v2[n];
            v0[n] = v0[n].rotate_left(32).wrapping_add(v3[n]);
            v2[n] = v2[n].wrapping_add(v1[n]);
            v3[n] = v3[n].rotate_left(21) ^ v0[n];
            v1[n] = v1[n].rotate_left(17) ^ v2[n];
            v2[n] = v2[n].rotate_left(32);
        }
    }
}
