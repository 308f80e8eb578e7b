//! Seven tags and a count in a word: which cells of a cache line are worth reading.
//!
//! Byte `i` is the tag of cell `i`, 0 if the cell is empty; the highest byte belongs to the table.
//! All tags are compared at once (Mycroft's test for a zero byte; H. S. Warren, Hacker's Delight,
//! section 6-1); comparing each cell would take five times as many instructions.

/// Cells that have a tag.
pub(super) const WAYS: usize = 7;

const LOW: u64 = 0x0001_0101_0101_0101;
const HIGH: u64 = LOW << 7;
const TAGS: u64 = (1 << 56) - 1;

/// The tag of a hash.
#[inline(always)]
pub(super) fn tag(hash: u64) -> u8 {
    (hash as u8).max(1)
}

/// The cells that may have this tag, or, for tag 0, that may be empty: the first one is right, and
/// so are most of the others.
#[inline(always)]
pub(super) fn with_tag(word: u64, tag: u8) -> Ways {
    let differs = (word & TAGS) ^ (LOW * u64::from(tag));
    Ways(differs.wrapping_sub(LOW) & !differs & HIGH)
}

/// The word with another tag for a cell.
#[inline(always)]
pub(super) fn set(word: u64, way: usize, tag: u8) -> u64 {
    word & !(0xFF << (8 * way)) | u64::from(tag) << (8 * way)
}

/// The count beside the tags.
#[inline(always)]
pub(super) fn count(word: u64) -> u8 {
    (word >> 56) as u8
}

/// The word with another count.
#[inline(always)]
pub(super) fn set_count(word: u64, count: u8) -> u64 {
    word & TAGS | u64::from(count) << 56
}

/// Numbers of cells, ascending.
pub(super) struct Ways(u64);

impl Iterator for Ways {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let way = (self.0 != 0).then(|| self.0.trailing_zeros() as usize / 8)?;
        self.0 &= self.0 - 1;
        Some(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_tag_is_found_where_it_is(
            tags in prop::array::uniform7(prop_oneof![Just(0u8), Just(1), any::<u8>()]),
            wanted in prop_oneof![Just(0u8), Just(1), any::<u8>()],
            number in any::<u8>(),
        ) {
            let mut word = set_count(u64::MAX, number);
            for (way, tag) in tags.into_iter().enumerate() {
                word = set(word, way, tag);
            }
            prop_assert_eq!(count(word), number);
            let found: Vec<usize> = with_tag(word, wanted).collect();
            let right: Vec<usize> = (0..WAYS).filter(|&way| tags[way] == wanted).collect();
            prop_assert_eq!(found.first(), right.first());
            prop_assert!(right.iter().all(|way| found.contains(way)));
        }
    }
}
