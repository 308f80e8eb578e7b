//! Bytes from hexadecimal text.

use crate::error::ValueError;

/// Exactly `N` bytes. The text is not part of the error: it may be a secret.
///
/// # Errors
/// When it has another length, or a character that is no digit.
pub fn decode<const N: usize>(text: &str) -> Result<[u8; N], ValueError> {
    let wrong = |message: String| {
        ValueError::new(message, format!("{N} bytes are written as {} digits 0-9, a-f", 2 * N))
    };
    if text.len() != 2 * N {
        return Err(wrong(format!("the value has {} digits", text.chars().count())));
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
            return Err(wrong("the value has a character that is no hexadecimal digit".into()));
        };
        *byte = high << 4 | low;
    }
    Ok(out)
}

fn digit(c: u8) -> Option<u8> {
    char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_wrote_and_nothing_else() {
        let all: [u8; 256] = std::array::from_fn(|i| i as u8);
        assert_eq!(decode::<256>(&plexus_wire::hex(&all)), Ok(all));
        assert_eq!(decode::<2>("AbcD"), Ok([0xAB, 0xCD]));
        for bad in ["", "abc", "abcde", "ab g", "+1+2", "éé", "abcdef"] {
            assert!(decode::<2>(bad).is_err(), "{bad}");
        }
    }
}
