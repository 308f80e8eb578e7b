//! Who may command, and what is asked of a signature (packet format, "Signature").

use std::collections::BTreeSet;

use plexus_wire::ndn::signature::{SignatureInfo, SignatureType, Validity};
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
            let meant = || self.keys.iter().filter(|key| key.is_meant(locator));
            // Of one key there may be several certificates, of which some have ended: whoever made
            // up the signature makes us look at it once.
            let mut asked: Vec<&TrustedKey> = Vec::new();
            for key in meant() {
                if asked.iter().any(|other| other.is_same(key)) {
                    continue;
                }
                asked.push(key);
                if key.is_public() && !leave.take() {
                    return Err(Fault::Unverified);
                }
                if key.has_made(info.kind, parts, value) {
                    let is_valid = meant().any(|k| k.is_same(key) && k.is_valid(unix_ms));
                    let maker = Maker::Key(key.digest());
                    return is_valid.then_some(maker).ok_or(Fault::Untrusted);
                }
            }
            if !asked.is_empty() {
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
