//! Packet formats: one file per protocol, one structure (view, repr, emit, tests).
//!
//! A *view* (`ethernet::Frame`, `ipv4::Packet`, …) wraps bytes that `new_checked` has found long
//! enough for all its fields; then getters take constant time and allocate nothing. Over `&mut
//! [u8]` the same view has setters, for the fields that the packet path rewrites. A *repr* is the
//! owned meaning of a header: `parse` derives it from a view, `emit` writes it into a buffer of at
//! least `buffer_len` bytes. `Display` on a repr gives human-readable text. [`frame`] makes whole
//! frames of reprs, for control planes and tests.
//!
//! `new_checked` checks structure (versions, lengths), never checksums: frames with a checksum left
//! to the "hardware" are common here. `checksum_ok` on the views checks those, and
//! [`ipv4::Repr::parse`] does it for the IPv4 header, as RFC 1122, 3.2.1.2 requires of a receiver.
//! Bytes beyond the length stated in a header (Ethernet padding) are never part of a payload.

pub mod address;
pub mod arp;
mod bytes;
pub mod checksum;
mod describe;
pub mod dhcpv4;
mod error;
pub mod ethernet;
pub mod fabric;
pub mod flow;
pub mod frame;
mod hex;
pub mod icmpv4;
pub mod icmpv6;
pub mod igmp;
mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_ext;
mod mac;
pub mod membership;
pub mod mld;
pub mod ndn;
pub mod ndp;
pub mod partial;
mod prefix;
mod sum;
pub mod tcp;
mod time;
pub mod udp;
pub mod vlan;

pub use describe::{Describe, describe};
pub use error::{Error, Format, Reason};
pub use ethernet::EtherType;
pub use flow::FlowKey;
pub use hex::{hex, unhex, unhex_into};
pub use ip::Protocol;
pub use mac::{MacAddr, MacAddrError};
pub use prefix::{Prefix, PrefixError};
pub use time::Time;
