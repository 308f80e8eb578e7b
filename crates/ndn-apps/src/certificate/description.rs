//! The content of a certificate, for its reader.

use plexus_ndn::management::{KeyError, TrustedKey};
use plexus_wire::hex;
use plexus_wire::ndn::signature::{KeyLocator, seconds};
use plexus_wire::ndn::{Component, Data};
use serde::Serialize;

/// The content of a certificate. Its signature is not verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The certificate's name.
    pub name: String,
    /// The owner of the key.
    pub identity: String,
    /// The key's name.
    pub key: String,
    /// Its algorithm.
    #[serde(rename = "type")]
    pub algorithm: String,
    /// The SHA-256 digest of the public key.
    pub sha256: String,
    /// The first second in which it is valid; absent: it does not say.
    pub not_before: Option<String>,
    /// The last one.
    pub not_after: Option<String>,
    /// Whether it is valid now.
    pub valid: bool,
    /// The component of its name that says who issued it.
    pub issuer: Option<String>,
    /// The kind of its signature.
    pub signature: String,
    /// The key that signed it, as the certificate names it.
    pub signed_by: Option<String>,
    /// Its own key signed it, which is verified.
    pub self_signed: bool,
}

impl Description {
    /// Of a certificate. `now_ms`: milliseconds since 1970.
    ///
    /// # Errors
    /// When it is no certificate.
    pub fn of(packet: &[u8], now_ms: u64) -> Result<Description, KeyError> {
        let key = TrustedKey::certificate(packet)?;
        let data = Data::new_checked(packet)?;
        let info = data.signature_info()?;
        let issuer = data.name().get(key.name().len());
        let locator = info.key_locator.map(|locator| match locator {
            KeyLocator::Name(name) => name.to_string(),
            KeyLocator::Digest(digest) => hex(digest),
        });
        Ok(Description {
            name: data.name().to_string(),
            identity: key.identity().to_string(),
            key: key.name().to_string(),
            algorithm: key.algorithm(),
            sha256: hex(&key.digest()),
            not_before: info.validity.map(|v| time(&v.not_before)),
            not_after: info.validity.map(|v| time(&v.not_after)),
            valid: info.validity.is_none_or(|v| v.includes(now_ms)),
            issuer: issuer.map(|id: Component<'_>| id.to_string()),
            signature: info.kind.to_string(),
            signed_by: locator,
            self_signed: key.has_signed(&data),
        })
    }
}

/// A time of a certificate as people write it; anything else escaped, as it may be a stranger's and
/// is for a terminal.
fn time(text: &[u8; 15]) -> String {
    let t = text.escape_ascii().to_string();
    if seconds(text).is_none() {
        return t;
    }
    format!("{}-{}-{}T{}:{}:{}Z", &t[..4], &t[4..6], &t[6..8], &t[9..11], &t[11..13], &t[13..])
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn a_time_that_is_none_says_nothing_to_the_terminal() {
        assert_eq!(time(b"20260102T030405"), "2026-01-02T03:04:05Z");
        assert_eq!(time(b"\x1b[2J\x1b[HxT\n\r\x9b12\0"), r"\x1b[2J\x1b[HxT\n\r\x9b12\x00");
        assert_eq!(time(b"20261302T030405"), "20261302T030405");
    }
}
