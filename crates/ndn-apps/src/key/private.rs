//! Private keys: generates, reads (as written by openssl and NDN's tools), and writes them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plexus_ndn::management::{ED25519_SPKI, P256_SPKI};
use plexus_wire::ndn::signature::SignatureType;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use zeroize::Zeroizing;

use super::CommandKeyError;

/// Bytes of a P-256 signature in DER, at most.
const ECDSA_LEN_MAX: usize = 72;
const ED25519_LEN: usize = 64;

/// Algorithms of generated keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// ECDSA with P-256, which all NDN libraries support.
    P256,
    /// Ed25519.
    Ed25519,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

/// A private key.
pub struct PrivateKey {
    pair: Pair,
    random: SystemRandom,
}

impl std::fmt::Debug for PrivateKey {
    /// Leaves the key out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PrivateKey({})", self.signature_type())
    }
}

impl PrivateKey {
    /// Generates a key; also returns it in PKCS #8, PEM. `None` if the operating system provides no
    /// randomness.
    pub fn generate(algorithm: Algorithm) -> Option<(PrivateKey, Zeroizing<String>)> {
        let random = SystemRandom::new();
        let (pair, der) = match algorithm {
            Algorithm::P256 => {
                let kind = &ECDSA_P256_SHA256_ASN1_SIGNING;
                let der = EcdsaKeyPair::generate_pkcs8(kind, &random).ok()?;
                let der = Zeroizing::new(der.as_ref().to_vec());
                (Pair::Ecdsa(EcdsaKeyPair::from_pkcs8(kind, &der, &random).ok()?), der)
            }
            Algorithm::Ed25519 => {
                let mut seed = Zeroizing::new([0; 32]);
                random.fill(&mut seed[..]).ok()?;
                // Not ring's own form, which includes the public key: other programs do not read
                // that.
                let der = Zeroizing::new([&ED25519_PKCS8[..], &seed[..]].concat());
                (Pair::Ed25519(Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).ok()?), der)
            }
        };
        Some((PrivateKey { pair, random }, pem(&der)))
    }

    /// Reads a private key: PKCS #8, or the forms of ndnsec and python-ndn (SEC 1 for P-256, PKCS
    /// #1 for RSA), each in PEM, Base64 or DER.
    ///
    /// # Errors
    /// [`CommandKeyError`].
    pub fn read(file: &[u8]) -> Result<PrivateKey, CommandKeyError> {
        Ok(PrivateKey { pair: Pair::read(&der(file)?)?, random: SystemRandom::new() })
    }

    /// The public key, as at the end of its SubjectPublicKeyInfo.
    pub(super) fn public(&self) -> &[u8] {
        match &self.pair {
            Pair::Ecdsa(pair) => pair.public_key().as_ref(),
            Pair::Ed25519(pair) => pair.public_key().as_ref(),
            Pair::Rsa(pair) => pair.public_key().as_ref(),
        }
    }

    /// The public key of a generated key, in SubjectPublicKeyInfo; `None` for RSA.
    pub fn spki(&self) -> Option<Vec<u8>> {
        match &self.pair {
            Pair::Ecdsa(_) => Some([&P256_SPKI[..], self.public()].concat()),
            Pair::Ed25519(_) => Some([&ED25519_SPKI[..], self.public()].concat()),
            Pair::Rsa(_) => None,
        }
    }

    /// Its signature type.
    pub fn signature_type(&self) -> SignatureType {
        match self.pair {
            Pair::Ecdsa(_) => SignatureType::SHA256_WITH_ECDSA,
            Pair::Ed25519(_) => SignatureType::ED25519,
            Pair::Rsa(_) => SignatureType::SHA256_WITH_RSA,
        }
    }

    /// Most bytes of a signature.
    pub fn signature_len_max(&self) -> usize {
        match &self.pair {
            Pair::Ecdsa(_) => ECDSA_LEN_MAX,
            Pair::Ed25519(_) => ED25519_LEN,
            Pair::Rsa(pair) => pair.public().modulus_len(),
        }
    }

    /// Signs the concatenation of `parts` into `out`; returns the length. It is 0, which no
    /// verifier accepts, if the operating system provides no randomness.
    pub fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> usize {
        let message = parts.concat();
        let mut put = |signature: &[u8]| {
            out[..signature.len()].copy_from_slice(signature);
            signature.len()
        };
        match &self.pair {
            Pair::Ecdsa(pair) => {
                let signature = pair.sign(&self.random, &message);
                signature.map_or(0, |signature| put(signature.as_ref()))
            }
            Pair::Ed25519(pair) => put(pair.sign(&message).as_ref()),
            Pair::Rsa(pair) => {
                let signed = pair.sign(&RSA_PKCS1_SHA256, &self.random, &message, out);
                signed.map_or(0, |()| pair.public().modulus_len())
            }
        }
    }
}

impl Pair {
    fn read(der: &[u8]) -> Result<Pair, CommandKeyError> {
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Ok(Pair::Ed25519(pair));
        }
        if let Ok(pair) = RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der)) {
            return Ok(Pair::Rsa(pair));
        }
        let ecdsa = |der: &[u8]| {
            let random = SystemRandom::new();
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der, &random).ok()
        };
        let pair = ecdsa(der).or_else(|| ecdsa(&from_sec1(der)?));
        pair.map(Pair::Ecdsa).ok_or(CommandKeyError::Algorithm)
    }
}

/// The beginning of an Ed25519 key in PKCS #8 (RFC 8410, 10.3).
const ED25519_PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// PEM of PKCS #8 (RFC 7468, 10).
fn pem(der: &[u8]) -> Zeroizing<String> {
    let base64 = Zeroizing::new(STANDARD.encode(der));
    // Preallocated, so that no copy of the key is left behind.
    let mut pem = Zeroizing::new(String::with_capacity(2 * base64.len() + 64));
    pem.push_str("-----BEGIN PRIVATE KEY-----\n");
    push_lines(&mut pem, &base64);
    pem.push_str("-----END PRIVATE KEY-----\n");
    pem
}

/// Base64 in lines, as in PEM and in ndnsec.
pub(crate) fn push_lines(out: &mut String, base64: &str) {
    for (at, letter) in base64.chars().enumerate() {
        if at > 0 && at % 64 == 0 {
            out.push('\n');
        }
        out.push(letter);
    }
    out.push('\n');
}

/// PKCS #8 (RFC 5208) of a P-256 key in SEC 1 (RFC 5915); each length takes one byte.
fn from_sec1(key: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    const VERSION: [u8; 3] = [0x02, 0x01, 0x00];
    const ALGORITHM: [u8; 21] = [
        0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
        0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
    ];
    let key_len = u8::try_from(key.len()).ok().filter(|len| (102..0x80).contains(len))?;
    let len = key_len + VERSION.len() as u8 + ALGORITHM.len() as u8 + 2;
    let parts = [&[0x30, 0x81, len][..], &VERSION, &ALGORITHM, &[0x04, key_len], key];
    Some(Zeroizing::new(parts.concat()))
}

/// The key in DER.
fn der(file: &[u8]) -> Result<Zeroizing<Vec<u8>>, CommandKeyError> {
    // A DER sequence; its Base64 form begins with another byte.
    if file.first() == Some(&0x30) {
        return Ok(Zeroizing::new(file.to_vec()));
    }
    const KEY: &str = "PRIVATE KEY-----";
    let text = std::str::from_utf8(file).map_err(|_| CommandKeyError::Form)?;
    let mut lines = text.lines().map(str::trim);
    let mut base64 = Zeroizing::new(String::with_capacity(text.len()));
    if text.contains("-----BEGIN ") {
        // Parameters may come first.
        let is_begin = |line: &&str| line.starts_with("-----BEGIN ") && line.ends_with(KEY);
        let begin = lines.find(is_begin).ok_or(CommandKeyError::Form)?;
        for line in lines.take_while(|line| !line.starts_with("-----END ")) {
            if begin.contains("ENCRYPTED") || line.starts_with("Proc-Type:") {
                return Err(CommandKeyError::Encrypted);
            }
            base64.push_str(line);
        }
    } else {
        lines.for_each(|line| base64.push_str(line));
    }
    let der = STANDARD.decode(base64.as_bytes()).map_err(|_| CommandKeyError::Form)?;
    Ok(Zeroizing::new(der))
}
