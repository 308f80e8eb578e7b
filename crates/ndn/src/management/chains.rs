//! Certificate chains: certificates signed by trusted keys, and those signed by these in turn
//! (packet format, "Certificate"; the hierarchical rule of ndn-cxx's validator).
//!
//! Signatures do not change, so chains are followed once, when certificates are loaded; for each
//! command only the time is checked. A chain that reaches no trusted key, such as a loop, is
//! useless. No certificate is fetched, so no client can make the node send many requests.

use plexus_wire::ndn::signature::{KeyLocator, SignatureInfo, Validity};
use plexus_wire::ndn::{Data, NameBuf};

use super::keys::{KeyError, TrustedKey};
use super::verify::Trust;

/// Most certificates between a trusted key and the last one.
pub const DEPTH_MAX: usize = 8;

/// Most validity periods of one certificate by different chains.
const TIMES_MAX: usize = 16;

/// Why a certificate makes no key trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// It contains no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Its signature cannot be parsed, or lacks the signer or the validity period.
    #[error("it does not say who has signed it, or for how long: issue it anew")]
    Unsigned,
    /// Neither its signer nor the end of its signer's chain is trusted.
    #[error(
        "its signer is not trusted here: add a certificate of {0}, and one of each signer above \
         it, up to an anchor"
    )]
    Untrusted(String),
    /// It names a trusted key that did not sign it.
    #[error("{0} has not signed it")]
    Forged(NameBuf),
    /// A key may sign only below its own name.
    #[error("{0} may certify names below {1} alone")]
    Hierarchy(NameBuf, NameBuf),
    /// The validity periods of its chain do not overlap.
    #[error("it is valid only when those that it was signed by are not")]
    Never,
    /// Too many certificates lie between it and a trusted key.
    #[error("more than {DEPTH_MAX} certificates are between it and a key that is trusted")]
    TooDeep,
}

/// A certificate whose signer is being searched.
struct Issued<'a> {
    at: usize,
    data: Data<'a>,
    info: SignatureInfo<'a>,
    locator: KeyLocator<'a>,
    validity: Validity,
    key: TrustedKey,
}

impl<'a> Issued<'a> {
    fn read(at: usize, packet: &'a [u8]) -> Result<Issued<'a>, ChainError> {
        let key = TrustedKey::certificate(packet)?;
        let data = Data::new_checked(packet).map_err(KeyError::from)?;
        let info = data.signature_info().map_err(KeyError::from)?;
        let (Some(locator), Some(validity)) = (info.key_locator, info.validity) else {
            return Err(ChainError::Unsigned);
        };
        Ok(Issued { at, data, info, locator, validity, key })
    }

    /// The key, once for each period in which one of these signers certifies it.
    fn by<'k>(
        &self,
        issuers: impl Iterator<Item = &'k TrustedKey>,
    ) -> Result<Vec<TrustedKey>, ChainError> {
        let mut error = ChainError::Untrusted(match &self.locator {
            KeyLocator::Name(name) => name.to_string(),
            KeyLocator::Digest(_) => "the key of its digest".into(),
        });
        let mut found: Vec<TrustedKey> = Vec::new();
        let signed = [self.data.signed_portion()];
        // One key may have many certificates: its signature is the same for all.
        let mut asked: Vec<(&TrustedKey, bool)> = Vec::new();
        for issuer in issuers.filter(|key| key.is_public() && key.is_meant(&self.locator)) {
            let known = asked.iter().find(|(key, _)| key.is_same(issuer)).map(|(_, made)| *made);
            let made = known.unwrap_or_else(|| {
                issuer.has_made(self.info.kind, &signed, self.data.signature_value())
            });
            if known.is_none() {
                asked.push((issuer, made));
            }
            if !made {
                error = ChainError::Forged(issuer.name().to_buf());
                continue;
            }
            if !issuer.identity().is_prefix_of(&self.key.identity()) {
                let (issuer, above) = (issuer.name().to_buf(), issuer.identity().to_buf());
                error = ChainError::Hierarchy(issuer, above);
                continue;
            }
            if issuer.depth == DEPTH_MAX {
                error = ChainError::TooDeep;
                continue;
            }
            let validity = issuer.validity.map_or(self.validity, |of| Validity {
                not_before: of.not_before.max(self.validity.not_before),
                not_after: of.not_after.min(self.validity.not_after),
            });
            if validity.not_before > validity.not_after {
                error = ChainError::Never;
                continue;
            }
            found.push(self.key.clone().issued(validity, issuer.depth + 1));
        }
        if found.is_empty() { Err(error) } else { Ok(found) }
    }
}

/// True if the first period lies within the second.
fn is_within(time: &Validity, of: &Validity) -> bool {
    of.not_before <= time.not_before && time.not_after <= of.not_after
}

impl Trust {
    /// Trusts the keys of those certificates that lead to a public key in `keys`: signed by it, or
    /// by a key so certified, each below its signer's name. Returns the indices of the others, with
    /// the reason.
    pub fn follow(&mut self, certificates: &[impl AsRef<[u8]>]) -> Vec<(usize, ChainError)> {
        let mut refused = Vec::new();
        let mut pending = Vec::new();
        for (at, packet) in certificates.iter().enumerate() {
            match Issued::read(at, packet.as_ref()) {
                Ok(issued) => pending.push(issued),
                Err(error) => refused.push((at, error)),
            }
        }
        // Level by level of depth. A key may be reached by several chains with different validity
        // periods; a chain that adds no period is skipped, and with it every loop.
        let mut times: Vec<Vec<Validity>> = vec![Vec::new(); pending.len()];
        let mut newest = 0..self.keys.len();
        while !newest.is_empty() {
            let issuers = &self.keys[newest.clone()];
            let mut found = Vec::new();
            for (issued, times) in pending.iter().zip(&mut times) {
                for key in issued.by(issuers.iter()).unwrap_or_default() {
                    let Some(time) = key.validity else { continue };
                    if times.len() < TIMES_MAX && !times.iter().any(|of| is_within(&time, of)) {
                        times.push(time);
                        found.push(key);
                    }
                }
            }
            newest = self.keys.len()..self.keys.len() + found.len();
            self.keys.extend(found);
        }
        let unreached = pending.iter().zip(&times).filter(|(_, times)| times.is_empty());
        refused.extend(
            unreached
                .filter_map(|(issued, _)| Some((issued.at, issued.by(self.keys.iter()).err()?))),
        );
        refused.sort_by_key(|(at, _)| *at);
        refused
    }
}
