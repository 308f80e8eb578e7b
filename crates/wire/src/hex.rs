//! Bytes as text.

/// Two digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS[usize::from(n)]);
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

/// The bytes of pairs of digits, either case; none if it is anything else.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let mut bytes = vec![0; text.len() / 2];
    unhex_into(text, &mut bytes).then_some(bytes)
}

/// The same into bytes that are there, for secrets: true if the text is as many bytes.
pub fn unhex_into(text: &str, bytes: &mut [u8]) -> bool {
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    let pairs = text.as_bytes().chunks_exact(2);
    text.len() == 2 * bytes.len()
        && bytes.iter_mut().zip(pairs).all(|(byte, pair)| {
            let read = digit(pair[0]).zip(digit(pair[1]));
            read.map(|(high, low)| *byte = high << 4 | low).is_some()
        })
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
