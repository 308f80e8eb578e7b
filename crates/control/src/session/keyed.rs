//! Messages between two nodes that are not neighbours, under a key that the controller gave to both
//! for one exchange: ChaCha20-Poly1305 (RFC 8439).

use plexus_seal::Key;

use super::Refused;
use super::frame::{
    self, KEYED_HEADER_LEN, Keyed, MESSAGE_LEN_MAX, REPLY_PLAINTEXT_MAX, Reply, TAG_LEN,
};

/// Longest plaintext of a Keyed message.
pub const PLAINTEXT_LEN_MAX: usize = MESSAGE_LEN_MAX - KEYED_HEADER_LEN - TAG_LEN;

/// Seals with associated data: returns ciphertext and tag. Neither holder may use a nonce twice
/// with a key.
pub fn seal(key: &[u8; 32], nonce: &[u8; 12], associated: &[u8], plaintext: &[u8]) -> Vec<u8> {
    let mut out = plaintext.to_vec();
    Key::new(key).seal(nonce, associated, &mut out, 0);
    out
}

/// Opens the output of [`seal`].
///
/// # Errors
/// [`Refused::Truncated`] without a whole tag, [`Refused::Authentication`] when anything differs.
pub fn open(
    key: &[u8; 32],
    nonce: &[u8; 12],
    associated: &[u8],
    ciphertext: &[u8],
) -> Result<Vec<u8>, Refused> {
    open_with(&Key::new(key), nonce, associated, ciphertext)
}

/// A complete Keyed message; `None` if the plaintext is longer than [`PLAINTEXT_LEN_MAX`].
pub fn seal_message(
    key: &[u8; 32],
    exchange: u64,
    nonce: &[u8; 12],
    plaintext: &[u8],
) -> Option<Vec<u8>> {
    if plaintext.len() > PLAINTEXT_LEN_MAX {
        return None;
    }
    let mut out = frame::begin_keyed(exchange, nonce, plaintext.len());
    out.extend(seal(key, nonce, &out, plaintext));
    Some(out)
}

/// Opens a Keyed message with its exchange's key.
///
/// # Errors
/// [`Refused::Authentication`] when it was sealed with another key, or altered.
pub fn open_message(key: &[u8; 32], message: &Keyed<'_>) -> Result<Vec<u8>, Refused> {
    open(key, &message.nonce, message.header, message.ciphertext)
}

/// A complete Reply; `None` if the plaintext is too long for one. `way`: the route that it records
/// while it travels, without its last hop, as it will stand in the header where it arrives.
pub fn seal_reply(
    key: &[u8; 32],
    exchange: u64,
    version: u64,
    way: Option<&[u8]>,
    plaintext: &[u8],
) -> Option<Vec<u8>> {
    if plaintext.len() > REPLY_PLAINTEXT_MAX {
        return None;
    }
    let mut out = frame::begin_reply(exchange, version, way.is_some(), plaintext.len());
    let associated = [&out[..], way.unwrap_or(&[])].concat();
    out.extend(seal(key, &reply_nonce(version), &associated, plaintext));
    Some(out)
}

/// Opens a Reply that has come along `way`, without its last hop.
///
/// # Errors
/// [`Refused::Authentication`] when it was sealed with another key, or altered, or if it covers
/// its way and has come along another one.
pub fn open_reply(key: &[u8; 32], message: &Reply<'_>, way: &[u8]) -> Result<Vec<u8>, Refused> {
    let way = if message.is_recorded { way } else { &[] };
    let associated = [message.header, way].concat();
    open(key, &reply_nonce(message.version), &associated, message.ciphertext)
}

/// A version is given once, and the reply to it says one thing: no nonce is used twice.
fn reply_nonce(version: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&version.to_be_bytes());
    nonce
}

pub(super) fn open_with(
    key: &Key,
    nonce: &[u8; 12],
    associated: &[u8],
    ciphertext: &[u8],
) -> Result<Vec<u8>, Refused> {
    let Some((text, tag)) = ciphertext.split_last_chunk::<TAG_LEN>() else {
        return Err(Refused::Truncated);
    };
    let mut out = text.to_vec();
    match key.open(nonce, associated, &mut out, tag) {
        true => Ok(out),
        false => Err(Refused::Authentication),
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Message;
    use super::*;

    fn opened(key: &[u8; 32], bytes: &[u8]) -> Result<Vec<u8>, Refused> {
        match Message::decode(bytes)? {
            Message::Keyed(keyed) => open_message(key, &keyed),
            _ => Err(Refused::Kind),
        }
    }

    #[test]
    fn a_message_opens_with_its_key_and_not_when_altered() {
        let key = [1; 32];
        let bytes = seal_message(&key, 7, &[2; 12], b"hello").unwrap();
        assert_eq!(opened(&key, &bytes), Ok(b"hello".to_vec()));
        assert_eq!(opened(&key, &[&bytes[..], &[0; 9]].concat()), Ok(b"hello".to_vec()));
        assert_eq!(opened(&[3; 32], &bytes), Err(Refused::Authentication));
        for bit in 0..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert!(opened(&key, &altered).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_reply_opens_along_the_way_that_it_covers_alone() {
        for (way, others) in [(Some(&[1, 2][..]), true), (None, false)] {
            let bytes = seal_reply(&[1; 32], 7 << 32 | 5, 9, way, b"hello").unwrap();
            let read = |bytes: &[u8], key: u8, way: &[u8]| match Message::decode(bytes)? {
                Message::Reply(reply) => open_reply(&[key; 32], &reply, way),
                _ => Err(Refused::Kind),
            };
            assert_eq!(read(&bytes, 1, &[1, 2]), Ok(b"hello".to_vec()));
            for way in [&[1][..], &[1, 3], &[], &[1, 2, 3]] {
                assert_eq!(read(&bytes, 1, way).is_err(), others, "{way:?}");
            }
            assert_eq!(read(&bytes, 2, &[1, 2]), Err(Refused::Authentication));
            for bit in 0..bytes.len() * 8 {
                let mut altered = bytes.clone();
                altered[bit / 8] ^= 1 << (bit % 8);
                assert!(read(&altered, 1, &[1, 2]).is_err(), "bit {bit}");
            }
        }
        assert_eq!(seal_reply(&[1; 32], 7, 9, None, &[0; REPLY_PLAINTEXT_MAX + 1]), None);
    }

    #[test]
    fn the_cipher_is_that_of_the_rfc() {
        // RFC 8439, 2.8.2.
        let key: [u8; 32] = std::array::from_fn(|i| 0x80 + i as u8);
        let nonce = [7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47];
        let associated = [0x50, 0x51, 0x52, 0x53, 0xC0, 0xC1, 0xC2, 0xC3, 0xC4, 0xC5, 0xC6, 0xC7];
        let plaintext = b"Ladies and Gentlemen of the class of '99: If I could offer you only one \
                          tip for the future, sunscreen would be it.";
        let sealed = seal(&key, &nonce, &associated, plaintext);
        assert_eq!(sealed[..4], [0xD3, 0x1A, 0x8D, 0x34]);
        assert_eq!(
            sealed[114..],
            [
                0x1A, 0xE1, 0x0B, 0x59, 0x4F, 0x09, 0xE2, 0x6A, 0x7E, 0x90, 0x2E, 0xCB, 0xD0, 0x60,
                0x06, 0x91,
            ]
        );
        assert_eq!(open(&key, &nonce, &associated, &sealed), Ok(plaintext.to_vec()));
        assert_eq!(open(&key, &nonce, &associated, &sealed[..15]), Err(Refused::Truncated));
    }

    #[test]
    fn the_longest_message_is_bounded() {
        let longest = seal_message(&[1; 32], 7, &[2; 12], &[0; PLAINTEXT_LEN_MAX]).unwrap();
        assert_eq!(longest.len(), MESSAGE_LEN_MAX);
        assert!(seal_message(&[1; 32], 7, &[2; 12], &[0; PLAINTEXT_LEN_MAX + 1]).is_none());
    }
}
