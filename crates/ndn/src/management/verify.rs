//! Who may command, and what is asked of a signature (packet format, "Signature").

use std::collections::BTreeSet;

use plexus_wire::ndn::signature::{KeyLocator, SignatureInfo, SignatureType};
use sha2::{Digest, Sha256};

use super::budget::Leave;
use super::keys::TrustedKey;

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
    /// Keys that are trusted, or that [`Trust::follow`] has found.
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

/// Who made a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    /// The key of this digest, by whatever certificate. Its number changes when others come.
    Key([u8; 32]),
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
    /// There was no leave to verify it.
    Unverified,
}

impl Trust {
    /// What the keys are told apart by.
    pub(super) fn digests(&self) -> BTreeSet<[u8; 32]> {
        self.keys.iter().map(TrustedKey::digest).collect()
    }

    /// The keys that a signature may be of. Of one key there may be several certificates, of which
    /// some have ended: whoever made up the signature makes us look at it once.
    fn meant(&self, locator: &KeyLocator<'_>) -> Vec<&TrustedKey> {
        let mut meant: Vec<&TrustedKey> = Vec::new();
        for key in self.keys.iter().filter(|key| key.is_meant(locator)) {
            if !meant.iter().any(|other| other.is_same(key)) {
                meant.push(key);
            }
        }
        meant
    }

    /// How often a signature may have to be verified by public keys until one has made it.
    pub(super) fn verifications(&self, info: &SignatureInfo<'_>) -> usize {
        let meant = info.key_locator.iter().flat_map(|locator| self.meant(locator));
        meant.filter(|key| key.is_public()).count()
    }

    /// Who made the signature of `parts`, if the policy is content with it. `leave` is asked for
    /// before each verification by a public key.
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
            // Leave for all of them is asked for at the first: none is spent on a part.
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
