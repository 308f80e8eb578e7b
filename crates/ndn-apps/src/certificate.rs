//! Issues certificates (packet format, "Certificate"), with names and validity periods as in
//! `ndnsec`, and says what is in one.

mod description;
mod files;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plexus_ndn::management::{ChainError, KeyError, Trust, TrustedKey};
use plexus_wire::ndn::data::{ContentType, MetaInfo, Repr};
use plexus_wire::ndn::signature::{KeyLocator, SignatureInfo, Signer, Validity};
use plexus_wire::ndn::{Data, Name, NameBuf, PACKET_LEN_MAX, types};

use crate::key::{CommandKey, PrivateKey, push_lines};
pub use description::Description;
pub use files::{make, write};

/// FreshnessPeriod (ndn-cxx, `getDefaultCertificateFreshnessPeriod`).
const FRESHNESS_MS: u64 = 3_600_000;

/// Why no certificate was issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The request is not a certificate.
    #[error(transparent)]
    Request(#[from] KeyError),
    /// The request does not prove possession of the key.
    #[error(
        "{0} is signed neither by its own key nor by yours: ask its owner for the \
         self-signed certificate"
    )]
    Unproved(NameBuf),
    /// It does not fit into a packet.
    #[error("the name is too long: a packet has no room for the certificate")]
    TooLong,
    /// The operating system provides no randomness.
    #[error("the system has no randomness to give")]
    Random,
}

/// Signs certificates by a key.
struct Issuer<'a> {
    key: &'a PrivateKey,
    name: Name<'a>,
    validity: Validity,
}

impl Signer for Issuer<'_> {
    fn info(&self) -> SignatureInfo<'_> {
        SignatureInfo {
            key_locator: Some(KeyLocator::Name(self.name)),
            validity: Some(self.validity),
            ..SignatureInfo::new(self.key.signature_type())
        }
    }

    fn signature_len_max(&self) -> usize {
        self.key.signature_len_max()
    }

    fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> usize {
        self.key.sign(parts, out)
    }
}

impl Issuer<'_> {
    /// Issues a certificate for a key. `public` is the signer's key; `version_ms` distinguishes
    /// certificates of one key: the time of issue, in milliseconds since 1970.
    fn issue(
        &self,
        key_name: Name<'_>,
        issuer: &str,
        version_ms: u64,
        spki: &[u8],
        public: &TrustedKey,
    ) -> Result<Vec<u8>, IssueError> {
        let name = key_name.to_buf().with(issuer).with_number(types::VERSION, version_ms);
        let meta = MetaInfo {
            content_type: Some(ContentType::KEY),
            freshness_ms: Some(FRESHNESS_MS),
            ..MetaInfo::default()
        };
        let repr = Repr { name: name.as_name(), meta: Some(meta), content: Some(spki) };
        let packet = repr.to_bytes(self).map_err(KeyError::from)?;
        if packet.len() > PACKET_LEN_MAX {
            return Err(IssueError::TooLong);
        }
        // Without randomness a key cannot sign.
        match public.has_signed(&Data::new_checked(&packet).map_err(KeyError::from)?) {
            true => Ok(packet),
            false => Err(IssueError::Random),
        }
    }
}

/// The self-signed certificate of a new key: an anchor, or a request to certify the key. `key_id`
/// distinguishes keys of one name.
///
/// # Errors
/// [`IssueError`].
pub fn self_signed(
    key: &PrivateKey,
    identity: Name<'_>,
    key_id: [u8; 8],
    validity: Validity,
    version_ms: u64,
) -> Result<Vec<u8>, IssueError> {
    let name = identity.to_buf().with("KEY").with(key_id);
    let spki = key.spki().ok_or(KeyError::Algorithm)?;
    let public = TrustedKey::public(name.clone(), &spki)?;
    let by = Issuer { key, name: name.as_name(), validity };
    by.issue(name.as_name(), "self", version_ms, &spki, &public)
}

/// A certificate for another owner's key, signed by a key that others trust. The request is a
/// certificate of the key: signed by itself, which proves possession; or by `by`, for renewal.
///
/// # Errors
/// [`IssueError`].
pub fn issue(
    request: &[u8],
    by: &CommandKey,
    issuer: &str,
    validity: Validity,
    version_ms: u64,
) -> Result<Vec<u8>, IssueError> {
    let key = TrustedKey::certificate(request)?;
    let data = Data::new_checked(request).map_err(KeyError::from)?;
    if !key.has_signed(&data) && !by.trusted().has_signed(&data) {
        return Err(IssueError::Unproved(data.name().to_buf()));
    }
    let issuing = Issuer { key: by.private(), name: by.certificate(), validity };
    issuing.issue(key.name(), issuer, version_ms, data.content(), by.trusted())
}

/// A certificate in the form of `ndnsec cert-dump`: Base64, in lines.
pub fn text(packet: &[u8]) -> String {
    let mut text = String::new();
    push_lines(&mut text, &STANDARD.encode(packet));
    text
}

/// Why forwarders that trust the issuer would refuse the certificate; `None` if they accept it
/// while it is valid.
pub fn objection(packet: &[u8], by: &CommandKey) -> Option<ChainError> {
    let mut trust = Trust { keys: vec![by.trusted().clone()], ..Trust::default() };
    trust.follow(&[packet]).pop().map(|(_, why)| why)
}

#[cfg(test)]
mod tests;
