//! Bytes as text.

/// Two digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS[usize::from(n)]);
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

/// The bytes of pairs of digits, either case; none if it is anything else.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    text.as_bytes()
        .chunks(2)
        .map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_text_read_back_and_other_text_does_not() {
        let bytes = [0, 1, 0x7F, 0xAB, 0xFF];
        assert_eq!(unhex(&hex(&bytes)).as_deref(), Some(&bytes[..]));
        assert_eq!(unhex("aBFf"), Some(vec![0xAB, 0xFF]));
        assert!(unhex("abc").is_none() && unhex("0x").is_none() && unhex("äö").is_none());
    }
}
