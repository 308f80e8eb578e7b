//! The keyed hash of the tables: stations choose their own addresses, so without the seed it must
//! be impossible to aim at a slot.

/// A folded multiplication with secret factors: three cycles of latency, all bits mixed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hasher {
    seed: u64,
    multiplier: u64,
}

impl Hasher {
    pub(crate) fn new(seed: u64) -> Hasher {
        // Odd, so that no bit of the key is lost.
        Hasher { seed: mix(seed), multiplier: mix(!seed) | 1 }
    }

    #[inline(always)]
    pub(crate) fn hash(&self, key: u64) -> u64 {
        fold(key ^ self.seed, self.multiplier)
    }

    #[inline(always)]
    pub(crate) fn hash_pair(&self, a: u64, b: u64) -> u64 {
        fold(self.hash(a) ^ b, self.multiplier.rotate_left(29) | 1)
    }
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Spreads the bits of a seed over two secrets (the finaliser of SplitMix64).
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
