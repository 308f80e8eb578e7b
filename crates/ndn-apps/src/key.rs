//! Keys for signing commands and certificates (packet format, "Signature", "Signed Interest").

mod private;

use plexus_ndn::management::{KeyError, TrustedKey};
use plexus_wire::ndn::signature::{KeyLocator, SignatureInfo, Signer};
use plexus_wire::ndn::{Data, Name, NameBuf};

pub(crate) use private::push_lines;
pub use private::{Algorithm, PrivateKey};

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CommandKeyError {
    /// Its format is unknown.
    #[error("there is no private key in it: neither PEM, nor Base64 or DER of such")]
    Form,
    /// It is encrypted.
    #[error("it is encrypted: `openssl pkey -in FILE -out KEY` writes it without a pass phrase")]
    Encrypted,
    /// Its algorithm is not supported, or it is damaged.
    #[error("the key is neither P-256, Ed25519 nor RSA of 2048 to 4096 bits, or it is damaged")]
    Algorithm,
    /// The certificate is invalid.
    #[error("the certificate: {0}")]
    Certificate(#[from] KeyError),
    /// The key and the certificate do not belong together.
    #[error("the certificate {0} is that of another key")]
    Other(NameBuf),
}

/// A private key, and the certificate of its public key.
pub struct CommandKey {
    key: PrivateKey,
    certificate: NameBuf,
    public: TrustedKey,
}

impl CommandKey {
    /// Reads a private key ([`PrivateKey::read`]). `certificate` is the packet.
    ///
    /// # Errors
    /// [`CommandKeyError`].
    pub fn read(key: &[u8], certificate: &[u8]) -> Result<CommandKey, CommandKeyError> {
        let key = PrivateKey::read(key)?;
        let public = TrustedKey::certificate(certificate)?;
        let data = Data::new_checked(certificate).map_err(KeyError::from)?;
        let certificate = data.name().to_buf();
        // The bytes before the key in the certificate follow from its algorithm.
        match data.content().ends_with(key.public()) {
            true => Ok(CommandKey { key, certificate, public }),
            false => Err(CommandKeyError::Other(certificate)),
        }
    }

    /// The private key.
    pub fn private(&self) -> &PrivateKey {
        &self.key
    }

    /// The public key, with the certificate's name.
    pub fn trusted(&self) -> &TrustedKey {
        &self.public
    }

    /// The certificate's name.
    pub fn certificate(&self) -> Name<'_> {
        self.certificate.as_name()
    }

    /// Signs a command, protected against replay: with a unique nonce, and the time in milliseconds
    /// since 1970.
    pub fn command<'a>(&'a self, nonce: &'a [u8; 8], time_ms: u64) -> CommandSigner<'a> {
        CommandSigner { key: self, nonce, time_ms }
    }
}

impl std::fmt::Debug for CommandKey {
    /// Leaves the key out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CommandKey({})", self.certificate)
    }
}

/// Signs a command with a key.
#[derive(Debug)]
pub struct CommandSigner<'a> {
    key: &'a CommandKey,
    nonce: &'a [u8; 8],
    time_ms: u64,
}

impl Signer for CommandSigner<'_> {
    fn info(&self) -> SignatureInfo<'_> {
        SignatureInfo {
            key_locator: Some(KeyLocator::Name(self.key.certificate())),
            nonce: Some(self.nonce),
            time_ms: Some(self.time_ms),
            ..SignatureInfo::new(self.key.private().signature_type())
        }
    }

    fn signature_len_max(&self) -> usize {
        self.key.private().signature_len_max()
    }

    fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> usize {
        self.key.private().sign(parts, out)
    }
}

#[cfg(test)]
mod tests;
