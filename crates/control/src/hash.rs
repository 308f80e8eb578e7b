//! BLAKE2s, as in the handshakes.

use snow::params::HashChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};

pub(crate) fn blake2s(parts: &[&[u8]]) -> [u8; 32] {
    let blake2s = DefaultResolver.resolve_hash(&HashChoice::Blake2s);
    let mut blake2s = blake2s.expect("the manifest asks for BLAKE2s");
    parts.iter().for_each(|part| blake2s.input(part));
    let mut out = [0; 32];
    blake2s.result(&mut out);
    out
}
