//! Packets of a batch as a set of bits, one for each place.

/// The bits from one number to before another.
pub(crate) fn range(from: usize, to: usize) -> u64 {
    let below = |n: usize| if n < 64 { !(u64::MAX << n) } else { u64::MAX };
    below(to) & !below(from)
}

/// The numbers of the bits that are set, from the lowest.
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}
