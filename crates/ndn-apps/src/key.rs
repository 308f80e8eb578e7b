//! Keys by which commands are signed (packet format, "Signature", "Signed Interest").

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plexus_ndn::management::{KeyError, TrustedKey};
use plexus_wire::ndn::signature::{KeyLocator, SignatureInfo, SignatureType, Signer};
use plexus_wire::ndn::{Data, NameBuf};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use zeroize::Zeroizing;

/// Bytes of a P-256 signature in DER, at most.
const ECDSA_LEN_MAX: usize = 72;
const ED25519_LEN: usize = 64;

/// Why nothing can be signed by a key.
#[derive(Debug, thiserror::Error)]
pub enum CommandKeyError {
    /// It is written in another way.
    #[error("there is no private key in it: neither PEM, nor Base64 or DER of such")]
    Form,
    /// Only a pass phrase opens it.
    #[error("it is encrypted: `openssl pkey -in FILE -out KEY` writes it without a pass phrase")]
    Encrypted,
    /// Its algorithm is none of those that are known here, or it is damaged.
    #[error("the key is neither P-256, Ed25519 nor RSA of 2048 to 4096 bits, or it is damaged")]
    Algorithm,
    /// There is no certificate in what should be one.
    #[error("the certificate: {0}")]
    Certificate(#[from] KeyError),
    /// The two do not belong together.
    #[error("the certificate {0} is that of another key")]
    Other(NameBuf),
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

/// A private key, and the certificate by which others know it.
pub struct CommandKey {
    pair: Pair,
    certificate: NameBuf,
    random: SystemRandom,
}

impl CommandKey {
    /// Reads a private key: PKCS #8, or what ndnsec and python-ndn keep (SEC 1 for P-256, PKCS #1
    /// for RSA), each in PEM, Base64 or DER. `certificate` is the packet.
    ///
    /// # Errors
    /// [`CommandKeyError`].
    pub fn read(key: &[u8], certificate: &[u8]) -> Result<CommandKey, CommandKeyError> {
        let (pair, random) = (Pair::read(&der(key)?)?, SystemRandom::new());
        TrustedKey::certificate(certificate)?;
        let data = Data::new_checked(certificate).map_err(KeyError::from)?;
        let certificate = data.name().to_buf();
        // What stands before the key in the certificate follows from its algorithm.
        match data.content().ends_with(pair.public()) {
            true => Ok(CommandKey { pair, certificate, random }),
            false => Err(CommandKeyError::Other(certificate)),
        }
    }

    /// Signs a command, which nobody is to send a second time: with what makes it unlike any other,
    /// and when it was made, in milliseconds since 1970.
    pub fn command<'a>(&'a self, nonce: &'a [u8; 8], time_ms: u64) -> CommandSigner<'a> {
        CommandSigner { key: self, nonce, time_ms }
    }
}

impl std::fmt::Debug for CommandKey {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CommandKey({})", self.certificate)
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

    fn public(&self) -> &[u8] {
        match self {
            Pair::Ecdsa(pair) => pair.public_key().as_ref(),
            Pair::Ed25519(pair) => pair.public_key().as_ref(),
            Pair::Rsa(pair) => pair.public_key().as_ref(),
        }
    }
}

/// PKCS #8 (RFC 5208) of a P-256 key in SEC 1 (RFC 5915), which has a byte for each length.
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
    // A sequence; Base64 of one begins with another letter.
    if file.first() == Some(&0x30) {
        return Ok(Zeroizing::new(file.to_vec()));
    }
    const KEY: &str = "PRIVATE KEY-----";
    let text = std::str::from_utf8(file).map_err(|_| CommandKeyError::Form)?;
    let mut lines = text.lines().map(str::trim);
    let mut base64 = Zeroizing::new(String::with_capacity(text.len()));
    if text.contains("-----BEGIN ") {
        // In front there may be parameters.
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

/// Signs a command by a key.
#[derive(Debug)]
pub struct CommandSigner<'a> {
    key: &'a CommandKey,
    nonce: &'a [u8; 8],
    time_ms: u64,
}

impl Signer for CommandSigner<'_> {
    fn info(&self) -> SignatureInfo<'_> {
        let kind = match self.key.pair {
            Pair::Ecdsa(_) => SignatureType::SHA256_WITH_ECDSA,
            Pair::Ed25519(_) => SignatureType::ED25519,
            Pair::Rsa(_) => SignatureType::SHA256_WITH_RSA,
        };
        SignatureInfo {
            key_locator: Some(KeyLocator::Name(self.key.certificate.as_name())),
            nonce: Some(self.nonce),
            time_ms: Some(self.time_ms),
            ..SignatureInfo::new(kind)
        }
    }

    fn signature_len_max(&self) -> usize {
        match &self.key.pair {
            Pair::Ecdsa(_) => ECDSA_LEN_MAX,
            Pair::Ed25519(_) => ED25519_LEN,
            Pair::Rsa(pair) => pair.public().modulus_len(),
        }
    }

    /// Empty, and so of no use, if the operating system has no randomness to give.
    fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> usize {
        let message = parts.concat();
        let mut put = |signature: &[u8]| {
            out[..signature.len()].copy_from_slice(signature);
            signature.len()
        };
        match &self.key.pair {
            Pair::Ecdsa(pair) => {
                let signature = pair.sign(&self.key.random, &message);
                signature.map_or(0, |signature| put(signature.as_ref()))
            }
            Pair::Ed25519(pair) => put(pair.sign(&message).as_ref()),
            Pair::Rsa(pair) => {
                let signed = pair.sign(&RSA_PKCS1_SHA256, &self.key.random, &message, out);
                signed.map_or(0, |()| pair.public().modulus_len())
            }
        }
    }
}

#[cfg(test)]
mod tests;
