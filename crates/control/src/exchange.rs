//! An exchange's number and keys, from its secret (SPEC.md, §11.1). They depend on the asking host
//! too: a controller that has another one in mind makes others, and the source node asks again.

use plexus_wire::MacAddr;
use plexus_wire::fabric::message::Secret;

use crate::hash::blake2s;

/// Its number.
pub fn number(secret: &Secret, source: MacAddr) -> u64 {
    let hash = derive(b"plexus exchange 2 number", secret, source);
    hash[..8].iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// The key of Keyed messages.
pub fn key(secret: &Secret, source: MacAddr) -> [u8; 32] {
    derive(b"plexus exchange 2 key", secret, source)
}

/// The key of Replies.
pub fn reply_key(secret: &Secret, source: MacAddr) -> [u8; 32] {
    derive(b"plexus exchange 2 reply", secret, source)
}

/// Labels cannot be confused: the fields after them have a fixed length.
fn derive(label: &[u8], secret: &Secret, source: MacAddr) -> [u8; 32] {
    blake2s(&[label, secret, &source.0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_depends_on_the_secret_and_on_the_host() {
        let made = |secret: u8, host: u8| {
            let (secret, host) = ([secret; 16], MacAddr([2, 0, 0, 0, 0, host]));
            [key(&secret, host), reply_key(&secret, host)]
        };
        let all = [made(1, 1), made(1, 2), made(2, 1)].concat();
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), 6);
        let host = MacAddr([2, 0, 0, 0, 0, 1]);
        assert_ne!(number(&[1; 16], host), number(&[2; 16], host));
    }
}
