//! Signature information, and the interface of signers (packet format, "Signature").

mod validity;

use super::name::Name;
use super::tlv::{Element, Reader, Writer};
use super::types;
use crate::bytes::numbers;
use crate::error::{Error, Format};
pub use validity::{Validity, seconds};

numbers! {
    /// An algorithm (packet format, "SignatureType").
    SignatureType(u64) {
        /// It reveals damage, but authenticates no signer.
        DIGEST_SHA256 = 0, "SHA-256";
        /// RSASSA-PKCS1-v1_5 over SHA-256.
        SHA256_WITH_RSA = 1, "RSA";
        /// Over SHA-256; the value is DER.
        SHA256_WITH_ECDSA = 3, "ECDSA";
        /// With SHA-256.
        HMAC_WITH_SHA256 = 4, "HMAC";
        ED25519 = 5, "Ed25519";
        /// None at all (NDN "SignatureType" wiki): only ever met in tests of others.
        NULL = 200, "null";
        _ => |f, n| write!(f, "signature type {n}")
    }
}

/// Which key it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLocator<'a> {
    /// The name of a certificate or key, or a prefix of it.
    Name(Name<'a>),
    /// A digest of the key.
    Digest(&'a [u8]),
}

/// The meaning of SignatureInfo and of InterestSignatureInfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureInfo<'a> {
    /// The algorithm.
    pub kind: SignatureType,
    /// The key.
    pub key_locator: Option<KeyLocator<'a>>,
    /// Makes the signature unlike any other; of Interests.
    pub nonce: Option<&'a [u8]>,
    /// When it was made, in milliseconds since 1970.
    pub time_ms: Option<u64>,
    /// Counts up with each signature of the key; of Interests.
    pub seq_num: Option<u64>,
    /// Of certificates.
    pub validity: Option<Validity>,
}

const F: Format = Format::NdnSignature;

impl<'a> SignatureInfo<'a> {
    /// Signature information without a key and without replay protection.
    pub const fn new(kind: SignatureType) -> SignatureInfo<'a> {
        let (key_locator, nonce, time_ms, seq_num, validity) = (None, None, None, None, None);
        SignatureInfo { kind, key_locator, nonce, time_ms, seq_num, validity }
    }

    /// The meaning of the element's value. Type and key locator have to come first; the order of
    /// the others is free, as with ndn-cxx.
    ///
    /// # Errors
    /// Truncated or invalid: an element that is broken, missing, there twice, or critical and
    /// unknown.
    pub fn parse(value: &'a [u8]) -> Result<SignatureInfo<'a>, Error> {
        let mut reader = Reader::new(value, F);
        let kind = reader.expect(types::SIGNATURE_TYPE, "signature type")?.number()?;
        let mut info = SignatureInfo::new(SignatureType(kind));
        let mut first = true;
        while let Some(element) = reader.next()? {
            let repeated = match element.kind {
                types::KEY_LOCATOR if first => {
                    info.key_locator = Some(key_locator(&element)?);
                    false
                }
                types::SIGNATURE_NONCE if element.value.is_empty() => {
                    return Err(Error::invalid(F, "signature nonce", 0));
                }
                types::SIGNATURE_NONCE => info.nonce.replace(element.value).is_some(),
                types::SIGNATURE_TIME => info.time_ms.replace(element.number()?).is_some(),
                types::SIGNATURE_SEQ_NUM => info.seq_num.replace(element.number()?).is_some(),
                types::VALIDITY_PERIOD => info.validity.replace(validity(&element)?).is_some(),
                _ => {
                    element.ignore()?;
                    false
                }
            };
            if repeated {
                return Err(Error::invalid(F, "repeated element", element.kind));
            }
            first = false;
        }
        Ok(info)
    }

    /// Writes the element's value: [`types::SIGNATURE_INFO`] or [`types::INTEREST_SIGNATURE_INFO`].
    pub fn write(&self, element: u32, w: &mut Writer<'_>) {
        w.nested(element, |w| {
            w.number(types::SIGNATURE_TYPE, self.kind.0);
            match self.key_locator {
                Some(KeyLocator::Name(name)) => w.nested(types::KEY_LOCATOR, |w| name.write(w)),
                Some(KeyLocator::Digest(digest)) => {
                    w.nested(types::KEY_LOCATOR, |w| w.element(types::KEY_DIGEST, digest));
                }
                None => {}
            }
            if let Some(nonce) = self.nonce {
                w.element(types::SIGNATURE_NONCE, nonce);
            }
            w.optional_number(types::SIGNATURE_TIME, self.time_ms);
            w.optional_number(types::SIGNATURE_SEQ_NUM, self.seq_num);
            if let Some(Validity { not_before, not_after }) = &self.validity {
                w.nested(types::VALIDITY_PERIOD, |w| {
                    w.element(types::NOT_BEFORE, not_before);
                    w.element(types::NOT_AFTER, not_after);
                });
            }
        });
    }
}

fn key_locator<'a>(element: &Element<'a>) -> Result<KeyLocator<'a>, Error> {
    match element.elements().next()? {
        Some(name) if name.kind == types::NAME => {
            Ok(KeyLocator::Name(Name::new_checked(name.value)?))
        }
        Some(digest) if digest.kind == types::KEY_DIGEST => Ok(KeyLocator::Digest(digest.value)),
        other => Err(Error::invalid(F, "key locator", other.map_or(0, |e| e.kind))),
    }
}

fn validity(element: &Element<'_>) -> Result<Validity, Error> {
    let mut reader = element.elements();
    let not_before = reader.expect(types::NOT_BEFORE, "validity")?.array("validity")?;
    let not_after = reader.expect(types::NOT_AFTER, "validity")?.array("validity")?;
    Ok(Validity { not_before, not_after })
}

/// Signs packets that are being written.
pub trait Signer {
    /// The packet's signature information.
    fn info(&self) -> SignatureInfo<'_>;

    /// Most bytes of its signatures.
    fn signature_len_max(&self) -> usize;

    /// Signs the concatenation of `parts` into `out`, which has [`Signer::signature_len_max`]
    /// bytes; returns the length of the signature.
    fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> usize;
}

/// A signature that was made before: for packets that are written again as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signed<'a> {
    /// The packet's signature information.
    pub info: SignatureInfo<'a>,
    /// The signature.
    pub value: &'a [u8],
}

impl Signer for Signed<'_> {
    fn info(&self) -> SignatureInfo<'_> {
        self.info
    }

    fn signature_len_max(&self) -> usize {
        self.value.len()
    }

    fn sign(&self, _: &[&[u8]], out: &mut [u8]) -> usize {
        out.copy_from_slice(self.value);
        self.value.len()
    }
}
