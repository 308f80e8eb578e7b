//! Big-endian fields at fixed offsets. Offsets come from the code, never from a packet, and the
//! views check the length first, so the indexing below cannot fail on bad input.

#[inline(always)]
pub(crate) fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array_at(b, at))
}

#[inline(always)]
pub(crate) fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array_at(b, at))
}

#[inline(always)]
pub(crate) fn array_at<const N: usize>(b: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&b[at..at + N]);
    out
}

#[inline(always)]
pub(crate) fn put(b: &mut [u8], at: usize, value: &[u8]) {
    b[at..at + value.len()].copy_from_slice(value);
}

#[inline(always)]
pub(crate) fn put_u16(b: &mut [u8], at: usize, v: u16) {
    put(b, at, &v.to_be_bytes());
}

#[inline(always)]
pub(crate) fn put_u32(b: &mut [u8], at: usize, v: u32) {
    put(b, at, &v.to_be_bytes());
}
