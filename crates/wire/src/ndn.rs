//! Named data: packet format 0.3, the link protocol NDNLPv2, and the records of NFD's management.
//!
//! NDN packets consist of nested elements without fixed offsets. So the views ([`Interest`],
//! [`Data`], [`lp::Packet`]) walk the elements once, in `new_checked`, and store the offsets; then
//! the getters take constant time. A [`Name`] is a slice with a count. No view allocates, and
//! nothing recurses: the formats nest four deep at most.
//!
//! There is no cryptography here. Code that signs or verifies gets the signed bytes
//! ([`Data::signed_portion`], [`interest::Signature::signed`], [`Interest::parameters_portion`],
//! the whole of [`Data::as_bytes`] for the implicit digest) and implements [`signature::Signer`].
//!
//! Cited as "packet format": "NDN Packet Format Specification 0.3" (docs.named-data.net).

pub mod data;
pub mod face_uri;
pub mod interest;
pub mod lp;
pub mod name;
pub mod nfd;
pub mod signature;
pub mod tlv;
pub mod types;
#[cfg(test)]
pub(crate) mod vectors;

pub use data::Data;
pub use interest::Interest;
pub use name::{Component, Name, NameBuf, Names};

/// Longest Interest or Data, link headers not counted, that forwarders commonly carry (NFD and
/// ndn-cxx: `MAX_NDN_PACKET_SIZE`). The format sets no limit; the views do not ask.
pub const PACKET_LEN_MAX: usize = 8800;
/// UDP and TCP port (IANA).
pub const PORT: u16 = 6363;
