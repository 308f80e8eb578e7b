//! ChaCha20-Poly1305 (RFC 8439) as control messages use it.
//!
//! The library's code is generic, so the crate that names its types compiles it. This crate does
//! nothing else and is always built with all optimisations: ciphers that are built like tests take
//! half of the processor time of the control planes' tests.

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};

/// Bytes of a tag.
pub const TAG_LEN: usize = 16;

/// A key, ready for use. It is wiped when it is dropped.
pub struct Key(ChaCha20Poly1305);

impl Key {
    /// Makes a key of its bytes.
    pub fn new(bytes: &[u8; 32]) -> Key {
        Key(ChaCha20Poly1305::new(bytes.into()))
    }

    /// Encrypts `buffer` from `at` on in place, and appends the tag. Nobody may use a nonce twice
    /// with a key.
    ///
    /// # Panics
    /// If `buffer` is shorter than `at`.
    pub fn seal(&self, nonce: &[u8; 12], associated: &[u8], buffer: &mut Vec<u8>, at: usize) {
        let tag = self
            .0
            .encrypt_in_place_detached(nonce.into(), associated, &mut buffer[at..])
            .expect("messages are far shorter than the cipher's limit of 256 GiB");
        buffer.extend(tag);
    }

    /// Decrypts `text` in place. False if text, tag, nonce or associated data is not what was
    /// sealed: `text` is then as before.
    #[must_use]
    pub fn open(
        &self,
        nonce: &[u8; 12],
        associated: &[u8],
        text: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> bool {
        self.0.decrypt_in_place_detached(nonce.into(), associated, text, tag.into()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_and_what_was_changed_does_not() {
        let (key, nonce) = (Key::new(&[7; 32]), [9; 12]);
        let mut buffer = b"head, text".to_vec();
        key.seal(&nonce, b"data", &mut buffer, 6);
        assert_eq!((&buffer[..6], buffer.len()), (&b"head, "[..], 10 + TAG_LEN));
        let (text, tag) = buffer[6..].split_last_chunk().unwrap();
        let sealed = text.to_vec();
        let opened = |key: &Key, nonce: &[u8; 12], associated: &[u8], text: &[u8]| {
            let mut out = text.to_vec();
            let is_open = key.open(nonce, associated, &mut out, tag);
            assert_eq!(out, if is_open { b"text" } else { text });
            is_open
        };
        assert!(opened(&key, &nonce, b"data", &sealed));
        assert!(!opened(&Key::new(&[8; 32]), &nonce, b"data", &sealed));
        assert!(!opened(&key, &[8; 12], b"data", &sealed));
        assert!(!opened(&key, &nonce, b"date", &sealed));
        assert!(!opened(&key, &nonce, b"data", &[sealed[0] ^ 1, sealed[1], sealed[2], sealed[3]]));
    }
}
