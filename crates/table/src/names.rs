//! Tables keyed by names: the basis of a named-data forwarder's FIB, PIT and content store.
//!
//! A name is bytes, its components' TLVs one after the other, and the offsets where components end.
//! It is hashed once, for all its prefixes together ([`NameHasher`], or [`NamesBeside`] for several
//! names), and every table takes the resulting [`HashedName`].
//!
//! * [`NameFib`]: the longest matching prefix of a name, among millions. One writer changes it in
//!   place, while workers look up without waiting, each with its own [`NameReader`].
//! * [`NameMap`]: exact match, for one worker's PIT and content store. The caller stores the names
//!   with its entries.
//! * [`PrefixHints`]: cached Data under a previously requested prefix (CanBePrefix).
//!
//! # The cost of hostile names
//! Senders choose names. A name's slot depends on a secret key, so
//! senders cannot aim at one; a matching hash is never trusted without comparing the name. A name
//! may have thousands of components: it is hashed in one pass over its bytes, and only its first
//! [`COMPONENTS_MAX`] prefixes are searched. A lookup of one prefix touches at most [`PROBE_LINES`]
//! cache lines of the table, nearly always one.

mod beside;
mod fib;
mod filter;
mod hash;
mod hints;
mod index;
mod limits;
mod lookup;
mod map;
mod records;
mod tags;

pub use crate::grace::Instant;
pub use beside::NamesBeside;
pub use fib::NameFib;
pub(crate) use hash::Sip;
pub use hash::{COMPONENTS_MAX, HashedName, Malformed, NameHasher, NameHashes};
pub use hints::PrefixHints;
pub use index::{PROBE_LINES, Spot};
pub use limits::{NameLimits, NameMemory, NameRefused};
pub use lookup::{NameBatch, NameMatch, NameReader, NameSearch};
pub use map::{MapFull, NameMap};

/// Bytes as words of eight, and what is left as a little-endian integer.
#[inline(always)]
fn words(bytes: &[u8]) -> (&[[u8; 8]], Option<u64>) {
    let (whole, tail) = bytes.as_chunks();
    (whole, (!tail.is_empty()).then(|| last_word(bytes, tail.len())))
}

/// The last 1 to 7 bytes as a little-endian integer.
#[inline(always)]
fn last_word(bytes: &[u8], len: usize) -> u64 {
    match bytes.last_chunk() {
        // One load; the bytes before are shifted out.
        Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * len),
        None => {
            bytes[bytes.len() - len..].iter().rev().fold(0, |word, &b| word << 8 | u64::from(b))
        }
    }
}

#[cfg(test)]
mod tests;
