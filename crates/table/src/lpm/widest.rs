//! One piece of safe code, compiled for the widest vectors that the processor turns out to have.
//! The released program is built for every x86-64, whose baseline cannot even count bits.

/// Work whose `run` is `#[inline(always)]`, so that it takes on the features of its caller.
pub(super) trait Work {
    fn run(self);
}

/// Runs the work with the features at hand.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(unsafe_code)]
pub(super) fn run(work: impl Work) {
    if has_avx512() {
        // SAFETY: the processor has these features.
        unsafe { avx512(work) }
    } else if has_avx2() {
        // SAFETY: likewise.
        unsafe { avx2(work) }
    } else {
        work.run();
    }
}

/// Runs the work.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn run(work: impl Work) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vpopcntdq")
        && has_avx2()
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn avx512(work: impl Work) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn avx2(work: impl Work) {
    work.run();
}
