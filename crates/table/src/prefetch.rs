//! Prefetching.

/// Prefetches the cache line of `value`. It has no effect other than on time; a benchmark shows
/// what it saves (`plexus bench mac-lookup`).
#[inline(always)]
#[allow(unsafe_code)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the address comes from a reference, and a prefetch faults on no address at all.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
