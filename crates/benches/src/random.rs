//! Numbers that are the same in every run.

/// xorshift64*, as the peers have it.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// The state of the rigs that peers have too.
    pub(super) const AS_PEERS: Random = Random(0x9E37_79B9);

    pub(super) fn next(&mut self) -> u64 {
        self.0 = xorshift(self.0);
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// The state of xorshift64* after `state`.
pub(super) fn xorshift(mut state: u64) -> u64 {
    state ^= state >> 12;
    state ^= state << 25;
    state ^ state >> 27
}

/// A number below `n` from 32 random bits.
pub(super) fn below(random: u64, n: usize) -> usize {
    (((random & 0xFFFF_FFFF) * n as u64) >> 32) as usize
}

/// SplitMix64: a number's hash.
pub(super) fn splitmix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}
