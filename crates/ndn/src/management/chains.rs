//! Certificates that trusted keys have signed, and those that these have signed in turn (packet
//! format, "Certificate"; the hierarchical rule of ndn-cxx's validator).
//!
//! Signatures do not change, so chains are followed once, when certificates are handed over; what
//! is asked of each command is the time. A chain that leads to no trusted key, as a loop does,
//! leads nowhere. Nothing is fetched: who cannot be asked for a certificate cannot be made to ask
//! for many.

use plexus_wire::ndn::signature::{KeyLocator, SignatureInfo, Validity};
use plexus_wire::ndn::{Data, NameBuf};

use super::keys::{KeyError, TrustedKey};
use super::verify::Trust;

/// Certificates between a trusted key and the last one, at most.
pub const DEPTH_MAX: usize = 8;

/// Times in which one certificate is valid by different chains, at most.
const TIMES_MAX: usize = 16;

/// Why a certificate makes no key trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// There is no key in it.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Its signature cannot be read, or says nothing of who made it or for how long it is valid.
    #[error("it does not say who has signed it, or for how long: issue it anew")]
    Unsigned,
    /// Who has signed it is not trusted, itself, or the end of its chain.
    #[error(
        "nobody has signed it who is trusted here: {0} has to be among the certificates, and one \
         that has signed that, up to an anchor"
    )]
    Untrusted(String),
    /// It names a trusted key that has not signed it.
    #[error("{0} has not signed it")]
    Forged(NameBuf),
    /// A key signs only below its own name.
    #[error("{0} may certify names below {1} alone")]
    Hierarchy(NameBuf, NameBuf),
    /// There is no time at which all of its chain is valid.
    #[error("it is valid only when those that it was signed by are not")]
    Never,
    /// Too many certificates are between it and a trusted key.
    #[error("more than {DEPTH_MAX} certificates are between it and a key that is trusted")]
    TooDeep,
}

/// A certificate whose place is looked for.
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

    /// The key, for each time in which one of these has signed the certificate.
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
        // Of one key there may be many certificates: its signature is the same for all.
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

/// True if the first time is within the second.
fn is_within(time: &Validity, of: &Validity) -> bool {
    of.not_before <= time.not_before && time.not_after <= of.not_after
}

impl Trust {
    /// Trusts the keys of those certificates that lead to a public key in `keys`: signed by it, or
    /// by a key that is so certified, each below its signer's name. Gives the numbers of the
    /// others, and why not.
    pub fn follow(&mut self, certificates: &[impl AsRef<[u8]>]) -> Vec<(usize, ChainError)> {
        let mut refused = Vec::new();
        let mut pending = Vec::new();
        for (at, packet) in certificates.iter().enumerate() {
            match Issued::read(at, packet.as_ref()) {
                Ok(issued) => pending.push(issued),
                Err(error) => refused.push((at, error)),
            }
        }
        // All of one depth before those of the next. A key may be reached by several chains, which
        // are valid at other times; what adds no time is left out, and with it every loop.
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
