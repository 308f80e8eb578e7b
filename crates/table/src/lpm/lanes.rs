//! Compares sixteen keys of a node with one at once, if the processor can: node searches are
//! compiled once for each instruction set, and the one to use is selected once per batch. The
//! released program targets every x86-64, whose baseline has no such instructions.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Keys of a node, ascending. The last one is always `u32::MAX`, which is below nothing.
pub(super) type Keys = [AtomicU32; 16];

/// A way to search a node.
pub(super) trait Lanes: Copy {
    /// How many of the keys are below `key`: at most 15.
    ///
    /// # Safety
    /// No other thread stores to the keys: what was stored is what this one has acquired.
    #[allow(unsafe_code)]
    unsafe fn below(self, keys: &Keys, key: u32) -> usize;
}

/// Work whose `run` is `#[inline(always)]`, so that it is compiled with its caller's features.
pub(super) trait Work {
    type Output;
    fn run(self, lanes: impl Lanes) -> Self::Output;
}

/// Does the work with the fastest available instructions.
#[inline(always)]
#[allow(unsafe_code)]
pub(super) fn run<W: Work>(work: W) -> W::Output {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if x86::Avx512::is_there() {
            // SAFETY: the processor has the features.
            return unsafe { x86::avx512(work) };
        }
        if x86::Avx2::is_there() {
            // SAFETY: likewise.
            return unsafe { x86::avx2(work) };
        }
    }
    work.run(Halves)
}

/// Binary search in four steps.
#[derive(Clone, Copy)]
pub(super) struct Halves;

impl Halves {
    /// The result of [`Lanes::below`], even if other threads store to the keys.
    #[inline(always)]
    pub(super) fn count(keys: &Keys, key: u32) -> usize {
        let mut below = 0;
        for half in [8, 4, 2, 1] {
            below += half * usize::from(keys[below + half - 1].load(Relaxed) < key);
        }
        below
    }
}

impl Lanes for Halves {
    #[inline(always)]
    #[allow(unsafe_code)]
    unsafe fn below(self, keys: &Keys, key: u32) -> usize {
        Halves::count(keys, key)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Keys, Lanes, Work};

    /// One comparison. A value exists only if the processor has the features.
    #[derive(Clone, Copy)]
    pub(super) struct Avx512(());

    impl Avx512 {
        #[inline(always)]
        pub(super) fn is_there() -> bool {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && Avx2::is_there()
        }
    }

    impl Lanes for Avx512 {
        #[inline(always)]
        #[allow(unsafe_code)]
        unsafe fn below(self, keys: &Keys, key: u32) -> usize {
            // SAFETY: a value of this exists, so the processor has the features; the caller
            // guarantees that no other thread stores to the keys.
            unsafe { below_avx512(keys, key) }
        }
    }

    /// # Safety
    /// [`Lanes::below`]'s.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    #[allow(unsafe_code)]
    unsafe fn below_avx512(keys: &Keys, key: u32) -> usize {
        // SAFETY: 64 readable bytes to which no other thread stores.
        let keys = unsafe { _mm512_loadu_si512(std::ptr::from_ref(keys).cast()) };
        let key = _mm512_set1_epi32(key.cast_signed());
        _mm512_mask_cmplt_epu32_mask(0x7FFF, keys, key).count_ones() as usize
    }

    /// Two comparisons. A value exists only if the processor has the features.
    #[derive(Clone, Copy)]
    pub(super) struct Avx2(());

    impl Avx2 {
        #[inline(always)]
        pub(super) fn is_there() -> bool {
            is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt")
        }
    }

    impl Lanes for Avx2 {
        #[inline(always)]
        #[allow(unsafe_code)]
        unsafe fn below(self, keys: &Keys, key: u32) -> usize {
            // SAFETY: as for `Avx512`.
            unsafe { below_avx2(keys, key) }
        }
    }

    /// # Safety
    /// [`Lanes::below`]'s.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    #[allow(unsafe_code)]
    unsafe fn below_avx2(keys: &Keys, key: u32) -> usize {
        let keys = std::ptr::from_ref(keys).cast::<__m256i>();
        // SAFETY: twice 32 readable bytes to which no other thread stores.
        let halves = unsafe { [_mm256_loadu_si256(keys), _mm256_loadu_si256(keys.add(1))] };
        // A key is not below if the maximum of both is the key of the node.
        let key = _mm256_set1_epi32(key.cast_signed());
        let [low, high] = halves.map(|half| _mm256_cmpeq_epi32(_mm256_max_epu32(half, key), half));
        let not_below = _mm256_movemask_epi8(_mm256_packs_epi32(low, high)).cast_unsigned();
        // Two bits per key; their order does not matter, except for the last, which is never below.
        16 - (not_below.count_ones() / 2).clamp(1, 16) as usize
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) fn avx512<W: Work>(work: W) -> W::Output {
        work.run(Avx512(()))
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) fn avx2<W: Work>(work: W) -> W::Output {
        work.run(Avx2(()))
    }

    #[cfg(test)]
    pub(super) fn ways() -> (Option<Avx512>, Option<Avx2>) {
        (Avx512::is_there().then_some(Avx512(())), Avx2::is_there().then_some(Avx2(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    #[allow(unsafe_code)]
    fn below(lanes: impl Lanes, keys: &Keys, key: u32) -> usize {
        // SAFETY: there is no other thread.
        unsafe { lanes.below(keys, key) }
    }

    #[test]
    fn every_way_counts_the_keys_below() {
        let mut random = Pcg64::seed_from_u64(7);
        for round in 0..2000 {
            let mut numbers = [u32::MAX; 16];
            let spread = if round % 2 == 0 { u32::MAX } else { 20 };
            let base = if round % 4 == 1 { u32::MAX - 21 } else { 0 };
            for number in &mut numbers[..round % 16] {
                *number = base + random.random_range(0..spread);
            }
            numbers.sort_unstable();
            let keys = numbers.map(AtomicU32::new);
            let near = numbers.iter().flat_map(|&n| [n.wrapping_sub(1), n, n.wrapping_add(1)]);
            for key in near.chain([0, 1, 1 << 31, random.random()]) {
                let expected = numbers.iter().filter(|&&n| n < key).count();
                assert_eq!(below(Halves, &keys, key), expected, "{key} in {numbers:?}");
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                {
                    let (avx512, avx2) = x86::ways();
                    let one = avx512.map(|lanes| below(lanes, &keys, key));
                    assert!(one.is_none_or(|n| n == expected), "{key} in {numbers:?}: {one:?}");
                    let two = avx2.map(|lanes| below(lanes, &keys, key));
                    assert!(two.is_none_or(|n| n == expected), "{key} in {numbers:?}: {two:?}");
                }
            }
        }
    }
}
