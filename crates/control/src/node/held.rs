//! Limits the frames that wait for an answer of the controller. The limit counts bytes, as the
//! kernel's does for packets that wait for a neighbour, so more small frames may wait than large
//! ones. The data plane passes at most `host_pps` of them.

/// Bytes that a frame takes besides its own.
const OVERHEAD: usize = 64;
/// So many frames may wait, however long they are: a claim, and the first window of TCP.
const FRAMES_MIN: usize = 4;

/// Whether a frame may join those that wait, whose lengths these are.
pub(super) fn has_room(
    lengths: impl ExactSizeIterator<Item = usize>,
    frame: &[u8],
    most: usize,
) -> bool {
    lengths.len() < FRAMES_MIN
        || lengths.chain([frame.len()]).map(|len| len + OVERHEAD).sum::<usize>() <= most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_small_frames_wait_than_large_ones() {
        let most_of = |len: usize| {
            let mut held = vec![];
            while has_room(held.iter().copied(), &vec![0; len], 8192) {
                held.push(len);
            }
            held.len()
        };
        assert_eq!([60, 1514, 64_000].map(most_of), [8192 / (60 + OVERHEAD), 5, FRAMES_MIN]);
    }
}
