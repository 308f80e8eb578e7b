//! The bytes that a request asks for (RFC 9110, 14), and their segments.

/// The result of a Range header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of it: there is no header, or one that may be ignored, such as several ranges.
    All,
    /// The bytes from the first to the last of these.
    Part(u64, u64),
    /// Bytes beyond the end.
    Unsatisfiable,
}

/// Parses the value of a Range header, for an object of `size` bytes.
pub fn parse(header: &str, size: u64) -> Wanted {
    let Some((unit, set)) = header.split_once('=') else { return Wanted::All };
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return Wanted::All;
    }
    let Some((first, last)) = set.trim().split_once('-') else { return Wanted::All };
    let (first, last) = (first.trim(), last.trim());
    match (number(first), number(last)) {
        // The last bytes.
        (None, Some(count)) if first.is_empty() => match count.min(size) {
            0 => Wanted::Unsatisfiable,
            count => Wanted::Part(size - count, size - 1),
        },
        (Some(first), None) if last.is_empty() => up_to(first, u64::MAX, size),
        (Some(first), Some(last)) if first <= last => up_to(first, last, size),
        _ => Wanted::All,
    }
}

/// Digits only; larger numbers saturate.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

fn up_to(first: u64, last: u64, size: u64) -> Wanted {
    match first < size {
        true => Wanted::Part(first, last.min(size - 1)),
        false => Wanted::Unsatisfiable,
    }
}

/// Segments, and the requested part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The first segment.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// Bytes of the first to skip.
    pub skip: u64,
    /// Number of bytes requested.
    pub len: u64,
}

/// The segments with the bytes `first` to `last`.
pub fn slice(first: u64, last: u64, segment_size: u64) -> Slice {
    let size = segment_size.max(1);
    Slice { first: first / size, last: last / size, skip: first % size, len: last - first + 1 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn headers_of_the_rfc() {
        // RFC 9110, 14.1.2, with 10,000 bytes.
        for (header, wanted) in [
            ("bytes=0-499", Wanted::Part(0, 499)),
            ("bytes=500-999", Wanted::Part(500, 999)),
            ("bytes=-500", Wanted::Part(9500, 9999)),
            ("bytes=9500-", Wanted::Part(9500, 9999)),
            ("bytes=9999-", Wanted::Part(9999, 9999)),
            ("bytes=0-99999999999999999999999", Wanted::Part(0, 9999)),
            ("bytes=-20000", Wanted::Part(0, 9999)),
            ("BYTES= 1-2 ", Wanted::Part(1, 2)),
            ("bytes=10000-", Wanted::Unsatisfiable),
            ("bytes=99999999999999999999999-", Wanted::Unsatisfiable),
            ("bytes=-0", Wanted::Unsatisfiable),
            ("bytes=0-0,-1", Wanted::All),
            ("bytes=5-2", Wanted::All),
            ("bytes=-", Wanted::All),
            ("bytes=+1-2", Wanted::All),
            ("bytes=1", Wanted::All),
            ("seconds=1-2", Wanted::All),
            ("", Wanted::All),
        ] {
            assert_eq!(parse(header, 10_000), wanted, "{header}");
        }
        assert_eq!(parse("bytes=0-", 0), Wanted::Unsatisfiable);
        assert_eq!(parse("bytes=-1", 0), Wanted::Unsatisfiable);
    }

    proptest! {
        #[test]
        fn slices_of_segments_are_slices_of_the_whole(
            size in 1usize..400, segment_size in 1usize..50, a: usize, b: usize,
        ) {
            let (a, b) = (a % size, b % size);
            let (first, last) = (a.min(b), a.max(b));
            let whole: Vec<usize> = (0..size).collect();
            let segments: Vec<&[usize]> = whole.chunks(segment_size).collect();
            let slice = slice(first as u64, last as u64, segment_size as u64);
            let joined = segments[slice.first as usize..=slice.last as usize].concat();
            let (skip, len) = (slice.skip as usize, slice.len as usize);
            prop_assert_eq!(&joined[skip..skip + len], &whole[first..=last]);
            // No segment is fetched unnecessarily.
            let last = joined.len() - segments[slice.last as usize].len();
            prop_assert!(skip < segment_size && skip + len > last);
        }

        #[test]
        fn a_range_is_what_a_naive_reader_takes(first: u64, last: u64, size in 0u64..1000) {
            let (first, last) = (first % 1200, last % 1200);
            let naive: Vec<u64> = (0..size).filter(|b| (first..=last).contains(b)).collect();
            let wanted = parse(&format!("bytes={first}-{last}"), size);
            match (naive.first(), naive.last()) {
                _ if first > last => prop_assert_eq!(wanted, Wanted::All),
                (Some(a), Some(b)) => prop_assert_eq!(wanted, Wanted::Part(*a, *b)),
                _ => prop_assert_eq!(wanted, Wanted::Unsatisfiable),
            }
        }
    }
}
