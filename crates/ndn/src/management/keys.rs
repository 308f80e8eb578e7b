//! Trusted keys, and their certificates (packet format, "Certificate").

use hmac::{Hmac, Mac};
use plexus_wire::ndn::data::ContentType;
use plexus_wire::ndn::signature::{KeyLocator, SignatureType, Validity};
use plexus_wire::ndn::{Component, Data, Name, NameBuf, PACKET_LEN_MAX};
use ring::signature::RSA_PKCS1_2048_8192_SHA256;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Why no key could be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is not Data.
    #[error("a certificate is Data: {0}")]
    Data(#[from] plexus_wire::Error),
    /// Its name or type is not that of a certificate.
    #[error("{0} is no certificate: its name ends in /KEY/KEY-ID/ISSUER/VERSION")]
    Certificate(NameBuf),
    /// Its algorithm is not supported.
    #[error(
        "the key is neither P-256, Ed25519 nor RSA of 2048 to 8192 bits in SubjectPublicKeyInfo: \
         make one of these"
    )]
    Algorithm,
    /// It is longer than a packet may be.
    #[error("{0} bytes are more than a packet has")]
    TooLong(usize),
}

#[derive(Clone)]
enum Key {
    Hmac(Zeroizing<Vec<u8>>),
    Ecdsa(Box<p256::ecdsa::VerifyingKey>),
    Ed25519(Box<ed25519_dalek::VerifyingKey>),
    /// Modulus and exponent.
    Rsa(Box<[u8]>, Box<[u8]>),
}

/// A key that is trusted.
#[derive(Clone)]
pub struct TrustedKey {
    name: NameBuf,
    key: Key,
    /// SHA-256 of the encoded public key, or of the secret.
    digest: [u8; 32],
    /// Of its certificate, intersected with those of its chain.
    pub(super) validity: Option<Validity>,
    /// Certificates between it and a directly trusted one.
    pub(super) depth: usize,
}

impl std::fmt::Debug for TrustedKey {
    /// Leaves the key out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TrustedKey({})", self.name)
    }
}

/// SubjectPublicKeyInfo of a P-256 key, but for its point (RFC 5480): DER allows only this form.
pub const P256_SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The same of an Ed25519 key (RFC 8410).
pub const ED25519_SPKI: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const RSA_ALGORITHM: [u8; 15] =
    [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// The component before the key's own in names of keys and certificates.
const KEY: Component<'_> = Component::generic(b"KEY");

impl TrustedKey {
    /// A shared secret, for HMAC with SHA-256.
    pub fn hmac(name: NameBuf, secret: &[u8]) -> TrustedKey {
        let digest = Sha256::digest(secret).into();
        let key = Key::Hmac(Zeroizing::new(secret.to_vec()));
        TrustedKey { name, key, digest, validity: None, depth: 0 }
    }

    /// A public key in SubjectPublicKeyInfo: P-256 (not compressed), Ed25519 or RSA.
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
            (None, None) => rsa(spki),
        };
        let key = key.ok_or(KeyError::Algorithm)?;
        Ok(TrustedKey { name, key, digest, validity: None, depth: 0 })
    }

    /// The key of a certificate (packet format, "Certificate"), with the certificate's validity
    /// period. The certificate's signature is not checked: it is trusted.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn certificate(packet: &[u8]) -> Result<TrustedKey, KeyError> {
        if packet.len() > PACKET_LEN_MAX {
            return Err(KeyError::TooLong(packet.len()));
        }
        let data = Data::new_checked(packet)?;
        let name = data.name();
        let at = name.len().checked_sub(4).filter(|at| name.get(*at) == Some(KEY));
        let Some(at) = at.filter(|_| data.content_type() == ContentType::KEY) else {
            return Err(KeyError::Certificate(name.to_buf()));
        };
        let key = TrustedKey::public(name.prefix(at + 2).to_buf(), data.content())?;
        Ok(TrustedKey { validity: data.signature_info()?.validity, ..key })
    }

    /// The same key at the end of a chain with this validity period.
    pub(super) fn issued(self, validity: Validity, depth: usize) -> TrustedKey {
        TrustedKey { validity: Some(validity), depth, ..self }
    }

    /// The key's identity: its name without `KEY` and the key's own component.
    pub fn identity(&self) -> Name<'_> {
        let name = self.name.as_name();
        match name.len().checked_sub(2).filter(|at| name.get(*at) == Some(KEY)) {
            Some(at) => name.prefix(at),
            None => name,
        }
    }

    /// True if a verifier does not need the secret.
    pub(super) fn is_public(&self) -> bool {
        !matches!(self.key, Key::Hmac(_))
    }

    /// True for two certificates of one key.
    pub(super) fn is_same(&self, other: &TrustedKey) -> bool {
        self.digest == other.digest && self.name == other.name
    }

    /// Identifies the key whatever its name: SHA-256 of the public key as encoded in certificates,
    /// or of the secret.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// The key's name.
    pub fn name(&self) -> Name<'_> {
        self.name.as_name()
    }

    /// When its certificate and those of its chain are valid.
    pub fn validity(&self) -> Option<Validity> {
        self.validity
    }

    /// The algorithm, as displayed.
    pub fn algorithm(&self) -> String {
        match &self.key {
            Key::Hmac(_) => "HMAC".into(),
            Key::Ecdsa(_) => "P-256".into(),
            Key::Ed25519(_) => "Ed25519".into(),
            Key::Rsa(n, _) => format!("RSA of {} bits", 8 * n.len()),
        }
    }

    /// True if this key has correctly signed the Data.
    pub fn has_signed(&self, data: &Data<'_>) -> bool {
        let info = data.signature_info();
        let made = |kind| self.has_made(kind, &[data.signed_portion()], data.signature_value());
        info.is_ok_and(|info| made(info.kind))
    }

    /// True if a key locator means this key: it names the key or a certificate of it, or has its
    /// digest.
    pub(super) fn is_meant(&self, locator: &KeyLocator<'_>) -> bool {
        match locator {
            KeyLocator::Name(name) => self.name.as_name().is_prefix_of(name),
            KeyLocator::Digest(digest) => self.digest == **digest,
        }
    }

    pub(super) fn is_valid(&self, unix_ms: u64) -> bool {
        self.validity.is_none_or(|v| v.includes(unix_ms))
    }

    pub(super) fn has_made(&self, kind: SignatureType, parts: &[&[u8]], value: &[u8]) -> bool {
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
            (Key::Rsa(n, e), SignatureType::SHA256_WITH_RSA) => {
                let key = ring::signature::RsaPublicKeyComponents { n, e };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, &parts.concat(), value).is_ok()
            }
            _ => false,
        }
    }
}

/// An RSA key from SubjectPublicKeyInfo (RFC 3279, 2.3.1), of a length that is secure and fast
/// enough.
fn rsa(spki: &[u8]) -> Option<Key> {
    let whole = |tag, mut bytes| element(tag, &mut bytes).filter(|_| bytes.is_empty());
    let bits = whole(0x03, whole(0x30, spki)?.strip_prefix(&RSA_ALGORITHM)?)?;
    let mut numbers = whole(0x30, bits.strip_prefix(&[0])?)?;
    // If the first bit of a number is set, a zero byte before it marks it as positive.
    let mut number = || match element(0x02, &mut numbers)? {
        [0, value @ ..] if value.first().is_some_and(|first| *first >= 0x80) => Some(value),
        value @ [1..=0x7f, ..] => Some(value),
        _ => None,
    };
    let (n, e) = (number()?, number()?);
    let is_good = numbers.is_empty() && (256..=1024).contains(&n.len()) && e.len() <= 4;
    is_good.then(|| Key::Rsa(n.into(), e.into()))
}

/// The value of the next DER element (X.690, 10.1): its length must be encoded as short as
/// possible.
fn element<'a>(tag: u8, bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = match bytes.strip_prefix(&[tag])? {
        [len @ 0..=0x7f, rest @ ..] => (usize::from(*len), rest),
        [0x81, len @ 0x80..=0xff, rest @ ..] => (usize::from(*len), rest),
        [0x82, high @ 1..=0xff, low, rest @ ..] => {
            (usize::from(u16::from_be_bytes([*high, *low])), rest)
        }
        _ => return None,
    };
    let (value, behind) = rest.split_at_checked(len)?;
    *bytes = behind;
    Some(value)
}
