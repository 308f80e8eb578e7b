//! Hashes several names at once, in the lanes of the processor's vectors.
//!
//! SipHash is a chain of simple steps, each of which depends on the one before. Four names take
//! hardly longer than one: their words are placed side by side, and the compiler vectorises the
//! steps. All of them are finished after every word, whether or not a component ends there: that is
//! cheaper than checking.

use super::hash::{COMPONENTS_MAX, Malformed, NameHasher, NameHashes, Sip};
use super::last_word;

/// Most names side by side: a forwarder's batch.
const NAMES: usize = 16;
/// Names of one vector.
const LANES: usize = 4;
const WORD: usize = size_of::<u64>();
/// Words of the longest name that fits. Every component has at least one.
const WORDS: usize = 24;
const _: () = assert!(WORDS <= COMPONENTS_MAX);

/// Up to 16 names to be hashed.
#[derive(Default)]
pub struct NamesBeside {
    /// The words of each name; after the end of shorter ones, leftovers.
    words: [[u64; NAMES]; WORDS],
    /// Words of the longest of them.
    len: usize,
    /// The positions of their hashes.
    places: [usize; NAMES],
    names: usize,
}

impl NamesBeside {
    /// Adds a name: these bytes, with components that end at `ends`, to be hashed into `hashes`,
    /// which has this position among the caller's. A name that does not fit is hashed at once.
    ///
    /// # Errors
    /// [`Malformed`].
    #[inline]
    pub fn add(
        &mut self,
        hasher: &NameHasher,
        bytes: &[u8],
        ends: impl Iterator<Item = usize> + Clone,
        hashes: &mut NameHashes,
        place: usize,
    ) -> Result<(), Malformed> {
        let lane = self.names;
        if lane >= NAMES || bytes.len() > WORDS * WORD {
            return hasher.hash(bytes, ends, hashes).map(|_| ());
        }
        let (mut last, mut components, mut len) = (0, 0, 0);
        for end in ends.clone() {
            if end <= last || end > bytes.len() {
                return Err(Malformed);
            }
            if len + (end - last).div_ceil(WORD) > WORDS {
                return hasher.hash(bytes, ends, hashes).map(|_| ());
            }
            let mut rest = &bytes[last..end];
            while let Some((word, more)) = rest.split_first_chunk() {
                self.words[len][lane] = u64::from_le_bytes(*word);
                (rest, len) = (more, len + 1);
            }
            if !rest.is_empty() {
                self.words[len][lane] = last_word(&bytes[..end], rest.len());
                len += 1;
            }
            last = end;
            components += 1;
            hashes.ends[components] = end as u16;
        }
        if last != bytes.len() {
            return Err(Malformed);
        }
        hashes.components = components as u8;
        self.len = self.len.max(len);
        self.places[lane] = place;
        self.names += 1;
        Ok(())
    }

    /// Hashes the added names, each into its position.
    pub fn hash(&mut self, hasher: &NameHasher, into: &mut [impl AsMut<NameHashes>]) {
        let (names, len) = (std::mem::take(&mut self.names), std::mem::take(&mut self.len));
        let lanes = names.next_multiple_of(LANES);
        let mut states = hasher.start.v.map(|v| [v; NAMES]);
        let [v0, v1, v2, v3] = states.each_mut().map(|v| &mut v[..lanes]);
        for words in &mut self.words[..len] {
            let states = v0.iter_mut().zip(&mut *v1).zip(&mut *v2).zip(&mut *v3);
            for ((((v0, v1), v2), v3), word) in states.zip(words) {
                let mut state = Sip::<1, 3> { v: [*v0, *v1, *v2, *v3] };
                state.absorb(*word);
                *word = state.finish();
                [*v0, *v1, *v2, *v3] = state.v;
            }
        }
        for (lane, place) in self.places[..names].iter().enumerate() {
            let NameHashes { whole, parent, components, ends, hashes } = into[*place].as_mut();
            (hashes[0], *whole, *parent) = (hasher.empty, hasher.empty, hasher.empty);
            let prefixes = ends.iter().zip(hashes).skip(1).take(usize::from(*components));
            let (mut last, mut len) = (0, 0);
            for (end, hash) in prefixes {
                len += usize::from(end - last).div_ceil(WORD);
                last = *end;
                (*parent, *whole) = (*whole, self.words[len - 1][lane]);
                *hash = *whole;
            }
        }
    }
}
