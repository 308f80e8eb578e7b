//! Trust policy and signature verification (packet format, "Signature").

use std::collections::BTreeSet;

use plexus_wire::ndn::signature::{KeyLocator, SignatureInfo, SignatureType};
use sha2::{Digest, Sha256};

use super::budget::Leave;
use super::keys::TrustedKey;

/// What signatures are accepted. A wrong digest, and a wrong signature of a known key, are refused
/// by all policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// None.
    #[default]
    Nobody,
    /// Signatures of trusted keys.
    Trusted,
    /// Any signature: a digest, or by any key. NFD's "trust-anchor any".
    Any,
}

/// The trust configuration.
#[derive(Clone, Debug)]
pub struct Trust {
    /// Trusted keys, including those found by [`Trust::follow`].
    pub keys: Vec<TrustedKey>,
    /// For commands of local applications (`/localhost/nfd`).
    pub localhost: Policy,
    /// For neighbours' routes (`/localhop/nfd/rib`).
    pub localhop: Policy,
    /// For prefix announcements (`rib/announce`), in addition to the command's own signature.
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

/// The signer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    /// The key with this digest, by any certificate. Its index changes when keys are added.
    Key([u8; 32]),
    /// Unknown: a digest, or an unknown key.
    Anyone,
}

/// Why a signature is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is wrong.
    Forged,
    /// It may be valid, but its signer is not trusted.
    Untrusted,
    /// The verification limit was reached.
    Unverified,
}

impl Trust {
    /// The digests that identify the keys.
    pub(super) fn digests(&self) -> BTreeSet<[u8; 32]> {
        self.keys.iter().map(TrustedKey::digest).collect()
    }

    /// The keys that a signature may be by. One key may have several certificates, some of them
    /// expired; it is verified only once, even for a forged signature.
    fn meant(&self, locator: &KeyLocator<'_>) -> Vec<&TrustedKey> {
        let mut meant: Vec<&TrustedKey> = Vec::new();
        for key in self.keys.iter().filter(|key| key.is_meant(locator)) {
            if !meant.iter().any(|other| other.is_same(key)) {
                meant.push(key);
            }
        }
        meant
    }

    /// How many public-key verifications a signature may need until one succeeds.
    pub(super) fn verifications(&self, info: &SignatureInfo<'_>) -> usize {
        let meant = info.key_locator.iter().flat_map(|locator| self.meant(locator));
        meant.filter(|key| key.is_public()).count()
    }

    /// The signer of `parts`, if the policy accepts it. `leave` is asked before each public-key
    /// verification.
    pub(super) fn verify(
        &self,
        policy: Policy,
        unix_ms: u64,
        info: &SignatureInfo<'_>,
        parts: &[&[u8]],
        value: &[u8],
        leave: &mut Leave<'_>,
    ) -> Result<Maker, Fault> {
        if policy == Policy::Nobody {
            return Err(Fault::Untrusted);
        }
        if info.kind == SignatureType::DIGEST_SHA256 {
            if sha256(parts)[..] != *value {
                return Err(Fault::Forged);
            }
        } else if let Some(locator) = &info.key_locator {
            let meant = self.meant(locator);
            // Permission for all of them is taken with the first, so that none is spent on a part.
            let mut more = meant.iter().filter(|key| key.is_public()).count().saturating_sub(1);
            for key in &meant {
                if key.is_public() && !leave.take(std::mem::take(&mut more)) {
                    return Err(Fault::Unverified);
                }
                if key.has_made(info.kind, parts, value) {
                    let is_valid = self.keys.iter().any(|k| k.is_same(key) && k.is_valid(unix_ms));
                    let maker = Maker::Key(key.digest());
                    return is_valid.then_some(maker).ok_or(Fault::Untrusted);
                }
            }
            if !meant.is_empty() {
                return Err(Fault::Forged);
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
