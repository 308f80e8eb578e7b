//! Who may command: keys, and what is asked of a signature (packet format, "Signature";
//! "Certificate").

use hmac::{Hmac, Mac};
use plexus_wire::ndn::data::ContentType;
use plexus_wire::ndn::signature::{KeyLocator, SignatureInfo, SignatureType, Validity};
use plexus_wire::ndn::{Component, Data, Name, NameBuf};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// What is asked of a signature. A digest that is wrong, and a wrong signature of a key that is
/// known, are refused by all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Nobody may.
    #[default]
    Nobody,
    /// A trusted key has made it.
    Trusted,
    /// There is one: a digest, or by whatever key. NFD's "trust-anchor any".
    Any,
}

/// Who may do what.
#[derive(Clone, Debug)]
pub struct Trust {
    /// Keys that are trusted.
    pub keys: Vec<TrustedKey>,
    /// For commands of applications here (`/localhost/nfd`).
    pub localhost: Policy,
    /// For routes of neighbours (`/localhop/nfd/rib`).
    pub localhop: Policy,
    /// For prefix announcements (`rib/announce`), whose command is signed besides.
    pub announcements: Policy,
}

impl Default for Trust {
    /// NFD's: applications may do anything, neighbours nothing.
    fn default() -> Trust {
        Trust {
            keys: Vec::new(),
            localhost: Policy::Any,
            localhop: Policy::Nobody,
            announcements: Policy::Any,
        }
    }
}

/// Why there is no key in this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is no Data.
    #[error("a certificate is Data: {0}")]
    Data(#[from] plexus_wire::Error),
    /// It is none by its name or type.
    #[error("{0} is no certificate: its name ends in /KEY/KEY-ID/ISSUER/VERSION")]
    Certificate(NameBuf),
    /// Its algorithm is none of those that are known here.
    #[error("the key is neither P-256 nor Ed25519 in SubjectPublicKeyInfo: make one of these")]
    Algorithm,
}

#[derive(Clone)]
enum Key {
    Hmac(Zeroizing<Vec<u8>>),
    Ecdsa(Box<p256::ecdsa::VerifyingKey>),
    Ed25519(Box<ed25519_dalek::VerifyingKey>),
}

/// A key that is trusted.
#[derive(Clone)]
pub struct TrustedKey {
    name: NameBuf,
    key: Key,
    /// Of the public key as it is written down, or the secret.
    digest: [u8; 32],
    validity: Option<Validity>,
}

impl std::fmt::Debug for TrustedKey {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TrustedKey({})", self.name)
    }
}

/// SubjectPublicKeyInfo of a key, but for the key itself (RFC 5480, RFC 8410): these are the only
/// forms that DER allows.
const P256_SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const ED25519_SPKI: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// The component that stands before the key's own in names of keys and certificates.
const KEY: Component<'_> = Component::generic(b"KEY");

impl TrustedKey {
    /// A secret that both sides know, for HMAC with SHA-256.
    pub fn hmac(name: NameBuf, secret: &[u8]) -> TrustedKey {
        let digest = Sha256::digest(secret).into();
        let key = Key::Hmac(Zeroizing::new(secret.to_vec()));
        TrustedKey { name, key, digest, validity: None }
    }

    /// A public key in SubjectPublicKeyInfo: P-256 (not compressed) or Ed25519.
    ///
    /// # Errors
    /// [`KeyError::Algorithm`].
    pub fn public(name: NameBuf, spki: &[u8]) -> Result<TrustedKey, KeyError> {
        let digest = Sha256::digest(spki).into();
        let ecdsa = |point| p256::ecdsa::VerifyingKey::from_sec1_bytes(point).ok();
        let ed25519 = |bytes: &[u8]| {
            let bytes = bytes.try_into().ok()?;
            ed25519_dalek::VerifyingKey::from_bytes(bytes).ok()
        };
        let key = match (spki.strip_prefix(&P256_SPKI), spki.strip_prefix(&ED25519_SPKI)) {
            (Some(point), _) => ecdsa(point).map(|key| Key::Ecdsa(Box::new(key))),
            (_, Some(bytes)) => ed25519(bytes).map(|key| Key::Ed25519(Box::new(key))),
            (None, None) => None,
        };
        let key = key.ok_or(KeyError::Algorithm)?;
        Ok(TrustedKey { name, key, digest, validity: None })
    }

    /// The key of a certificate (packet format, "Certificate"), for as long as that is valid. Who
    /// signed the certificate is not asked: it is trusted.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn certificate(packet: &[u8]) -> Result<TrustedKey, KeyError> {
        let data = Data::new_checked(packet)?;
        let name = data.name();
        let at = name.len().checked_sub(4).filter(|at| name.get(*at) == Some(KEY));
        let Some(at) = at.filter(|_| data.content_type() == ContentType::KEY) else {
            return Err(KeyError::Certificate(name.to_buf()));
        };
        let key = TrustedKey::public(name.prefix(at + 2).to_buf(), data.content())?;
        Ok(TrustedKey { validity: data.signature_info()?.validity, ..key })
    }

    /// The key's name.
    pub fn name(&self) -> Name<'_> {
        self.name.as_name()
    }

    /// True if a signature that says so is of this key: it names the key or a certificate of it, or
    /// has its digest.
    fn is_meant(&self, locator: &KeyLocator<'_>) -> bool {
        match locator {
            KeyLocator::Name(name) => self.name.as_name().is_prefix_of(name),
            KeyLocator::Digest(digest) => self.digest == **digest,
        }
    }

    fn is_valid(&self, unix_ms: u64) -> bool {
        self.validity.is_none_or(|v| is_within(&v, unix_ms))
    }

    fn has_made(&self, kind: SignatureType, parts: &[&[u8]], value: &[u8]) -> bool {
        match (&self.key, kind) {
            (Key::Hmac(secret), SignatureType::HMAC_WITH_SHA256) => {
                let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length will do");
                parts.iter().for_each(|part| mac.update(part));
                mac.verify_slice(value).is_ok()
            }
            (Key::Ecdsa(key), SignatureType::SHA256_WITH_ECDSA) => {
                use p256::ecdsa::signature::Verifier;
                let signature = p256::ecdsa::Signature::from_der(value);
                signature.is_ok_and(|s| key.verify(&parts.concat(), &s).is_ok())
            }
            (Key::Ed25519(key), SignatureType::ED25519) => {
                let signature = ed25519_dalek::Signature::from_slice(value);
                signature.is_ok_and(|s| key.verify_strict(&parts.concat(), &s).is_ok())
            }
            _ => false,
        }
    }
}

/// Who made a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    /// The key of this number.
    Key(usize),
    /// Anyone: a digest, or a key that is not known.
    Anyone,
}

/// Why a signature is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is wrong.
    Forged,
    /// It may be right, but not who made it.
    Untrusted,
}

impl Trust {
    /// Who made the signature of `parts`, if the policy is content with it.
    pub(super) fn verify(
        &self,
        policy: Policy,
        unix_ms: u64,
        info: &SignatureInfo<'_>,
        parts: &[&[u8]],
        value: &[u8],
    ) -> Result<Maker, Fault> {
        if policy == Policy::Nobody {
            return Err(Fault::Untrusted);
        }
        if info.kind == SignatureType::DIGEST_SHA256 {
            if sha256(parts)[..] != *value {
                return Err(Fault::Forged);
            }
        } else if let Some(locator) = &info.key_locator {
            let mut meant =
                self.keys.iter().enumerate().filter(|(_, k)| k.is_meant(locator)).peekable();
            if meant.peek().is_some() {
                let maker = meant.find(|(_, key)| key.has_made(info.kind, parts, value));
                let (at, key) = maker.ok_or(Fault::Forged)?;
                return key.is_valid(unix_ms).then_some(Maker::Key(at)).ok_or(Fault::Untrusted);
            }
        }
        match policy {
            Policy::Any => Ok(Maker::Anyone),
            _ => Err(Fault::Untrusted),
        }
    }
}

pub(super) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

/// True if the period includes the time.
pub(super) fn is_within(period: &Validity, unix_ms: u64) -> bool {
    let now = stamp(unix_ms);
    // Digits in order of their weight: as text as in time.
    period.not_before <= now && now <= period.not_after
}

/// A time as certificates write it: `YYYYMMDDThhmmss` in UTC. Years end with 9999.
fn stamp(unix_ms: u64) -> [u8; 15] {
    const DAY_S: u64 = 86_400;
    const END_S: u64 = 253_402_300_799;
    let seconds = (unix_ms / 1000).min(END_S);
    let (days, second) = (seconds / DAY_S, seconds % DAY_S);
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": days_to_civil, from 1970 on.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let text = format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}");
    text.as_bytes().try_into().expect("years have four digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_in_certificates() {
        for (unix_s, text) in [
            (0, "19700101T000000"),
            (951_782_400, "20000229T000000"),
            (1_709_251_199, "20240229T235959"),
            (1_795_420_724, "20261123T075844"),
            (4_107_542_400, "21000301T000000"),
            (u64::MAX / 1000, "99991231T235959"),
        ] {
            assert_eq!(stamp(unix_s * 1000), *text.as_bytes(), "{text}");
        }
        let period = Validity { not_before: *b"20240229T235959", not_after: *b"20261123T075844" };
        assert!(is_within(&period, 1_709_251_199_000) && !is_within(&period, 1_709_251_198_999));
        assert!(is_within(&period, 1_795_420_724_999) && !is_within(&period, 1_795_420_725_000));
    }
}
