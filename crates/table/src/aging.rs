//! A set of recently seen hashes, in a bitmap small enough to stay in the processor's cache.

/// A set of hashes in two generations, the older of which is cleared as a whole. It contains every
/// hash inserted since the last but one [`AgingBits::turn`], and other hashes with the probability
/// that a bit is set. So for most hashes it saves a lookup in the table behind it.
pub struct AgingBits {
    /// The same 64 positions in the young and the old generation.
    words: Box<[[u64; 2]]>,
    /// Bits of the young one.
    young: usize,
}

impl AgingBits {
    /// An empty set of this many bits per generation, or slightly more.
    pub fn new(bits: usize) -> AgingBits {
        let words = bits.div_ceil(64).next_power_of_two();
        AgingBits { words: vec![[0; 2]; words].into(), young: 0 }
    }

    /// Positions of a hash. They use neither its first bits nor its last, which tables use.
    #[inline(always)]
    fn place(&self, hash: u64) -> (usize, u64) {
        ((hash >> 14) as usize & (self.words.len() - 1), 1 << (hash >> 8 & 63))
    }

    /// Bytes of its memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.words[..])
    }

    /// Bits of the young generation, and how many of them are set.
    pub fn bits(&self) -> (usize, usize) {
        (self.words.len() * u64::BITS as usize, self.young)
    }

    /// False if the hash was not inserted since the last but one turn.
    #[inline(always)]
    pub fn has(&self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
        let [young, old] = self.words[word];
        (young | old) & bit != 0
    }

    /// Puts a hash in.
    pub fn insert(&mut self, hash: u64) {
        let (word, bit) = self.place(hash);
        let [young, _] = &mut self.words[word];
        self.young += usize::from(*young & bit == 0);
        *young |= bit;
    }

    /// Clears the old generation; the young one takes its place.
    pub fn turn(&mut self) {
        self.words.iter_mut().for_each(|[young, old]| *old = std::mem::take(young));
        self.young = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn hashes_since_the_last_but_one_turn_are_present(
            steps in prop::collection::vec(prop::option::of(any::<u64>()), 1..200),
            bits in 1usize..5000,
        ) {
            let mut set = AgingBits::new(bits);
            let (mut young, mut old) = (vec![], vec![]);
            for step in steps {
                match step {
                    Some(hash) => {
                        set.insert(hash);
                        young.push(hash);
                    }
                    None => {
                        set.turn();
                        old = std::mem::take(&mut young);
                    }
                }
                prop_assert!(young.iter().chain(&old).all(|hash| set.has(*hash)));
                let places = |hashes: &[u64]| {
                    hashes.iter().map(|hash| set.place(*hash)).collect::<HashSet<_>>().len()
                };
                prop_assert_eq!(set.bits(), (set.words.len() * 64, places(&young)));
                let bits = set.words.iter().map(|[young, old]| (young | old).count_ones());
                let all = [young.clone(), old.clone()].concat();
                prop_assert_eq!(bits.sum::<u32>() as usize, places(&all));
            }
        }
    }
}
