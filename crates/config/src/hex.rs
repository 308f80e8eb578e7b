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
    match plexus_wire::unhex_into(text, &mut out) {
        true => Ok(out),
        false => Err(wrong("the value has a character that is no hexadecimal digit".into())),
    }
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
