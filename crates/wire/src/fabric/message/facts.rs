//! What the two ends of a cable tell each other in their handshake (SPEC.md, 6).

use super::super::field::{Field, Reader};
use crate::error::Error;
use crate::mac::MacAddr;

/// A port's facts for its neighbour, sent in the handshake with the credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LinkFacts {
    /// The sender's port number: the neighbour's frames for it take this hop back.
    pub port: u8,
    /// The port's Ethernet address: where encapsulated frames go.
    pub mac: MacAddr,
    /// Largest Ethernet payload in bytes.
    pub mtu: u16,
    /// Speed in Mbit/s; 0 if unknown.
    pub rate_mbit_per_s: u32,
    /// True if the sender wants frames without encapsulation; both must.
    pub native: bool,
    /// True if the sender takes frames that owe work; false where an earlier version is silent.
    #[serde(default)]
    pub takes_owed: bool,
}

impl LinkFacts {
    /// The fields in order, as in a body.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.port.put(&mut out);
        self.mac.put(&mut out);
        self.mtu.put(&mut out);
        self.rate_mbit_per_s.put(&mut out);
        self.native.put(&mut out);
        self.takes_owed.put(&mut out);
        out
    }

    /// Parses the fields; bytes after them belong to a later version and are ignored.
    ///
    /// # Errors
    /// Truncated or invalid, as a body.
    pub fn parse(bytes: &[u8]) -> Result<LinkFacts, Error> {
        let mut from = Reader(bytes);
        Ok(LinkFacts {
            port: u8::take(&mut from)?,
            mac: MacAddr::take(&mut from)?,
            mtu: u16::take(&mut from)?,
            rate_mbit_per_s: u32::take(&mut from)?,
            native: bool::take(&mut from)?,
            takes_owed: !from.0.is_empty() && bool::take(&mut from)?,
        })
    }
}
