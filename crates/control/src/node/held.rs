//! How many frames may wait for an answer of the controller: as many as fit in so many bytes, as
//! the kernel's packets for a neighbour do. So small packets, which come faster, wait as long as
//! large ones.

/// Bytes that a frame takes besides its own.
const OVERHEAD: usize = 64;

/// Whether a frame may join those that wait, whose lengths these are. The first always may.
pub(super) fn has_room(
    lengths: impl ExactSizeIterator<Item = usize>,
    frame: &[u8],
    most: usize,
) -> bool {
    lengths.len() == 0
        || lengths.chain([frame.len()]).map(|len| len + OVERHEAD).sum::<usize>() <= most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_frames_wait_in_greater_number_and_a_large_one_alone() {
        let most_of = |len: usize| {
            let mut held = vec![];
            while has_room(held.iter().copied(), &vec![0; len], 8192) {
                held.push(len);
            }
            held.len()
        };
        assert_eq!([60, 1514, 9014].map(most_of), [8192 / (60 + OVERHEAD), 5, 1]);
    }
}
