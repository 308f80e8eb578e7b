//! SHA-256 as a signature (packet format, "DigestSha256"): it reveals damage, but authenticates no
//! signer.

use plexus_wire::ndn::Data;
use plexus_wire::ndn::name::DIGEST_LEN;
use plexus_wire::ndn::signature::{SignatureInfo, SignatureType, Signer};
use sha2::{Digest, Sha256};

/// The hash of `bytes`.
pub fn sha256(bytes: &[u8]) -> [u8; DIGEST_LEN] {
    Sha256::digest(bytes).into()
}

/// Signs by digest.
#[derive(Clone, Copy, Debug)]
pub struct DigestSigner<'a> {
    info: SignatureInfo<'a>,
}

impl DigestSigner<'_> {
    /// For Data.
    pub const DATA: DigestSigner<'static> =
        DigestSigner { info: SignatureInfo::new(SignatureType::DIGEST_SHA256) };
}

impl<'a> DigestSigner<'a> {
    /// For a command, protected against replay: with a unique nonce, and the time in milliseconds
    /// since 1970.
    pub const fn command(nonce: &'a [u8; 8], time_ms: u64) -> DigestSigner<'a> {
        let mut info = SignatureInfo::new(SignatureType::DIGEST_SHA256);
        info.nonce = Some(nonce);
        info.time_ms = Some(time_ms);
        DigestSigner { info }
    }
}

impl Signer for DigestSigner<'_> {
    fn info(&self) -> SignatureInfo<'_> {
        self.info
    }

    fn signature_len_max(&self) -> usize {
        DIGEST_LEN
    }

    fn sign(&self, parts: &[&[u8]], out: &mut [u8]) -> usize {
        let mut hash = Sha256::new();
        parts.iter().for_each(|part| hash.update(part));
        out.copy_from_slice(&hash.finalize());
        DIGEST_LEN
    }
}

/// Result of checking a Data's digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// The digest is right.
    Intact,
    /// The digest is wrong, or the signature cannot be parsed.
    Damaged,
    /// Another kind of signature, which needs a key.
    Unknown,
}

/// Checks Data against its digest.
pub fn integrity(data: &Data<'_>) -> Integrity {
    match data.signature_info() {
        Ok(info) if info.kind == SignatureType::DIGEST_SHA256 => {
            match sha256(data.signed_portion())[..] == *data.signature_value() {
                true => Integrity::Intact,
                false => Integrity::Damaged,
            }
        }
        Ok(_) => Integrity::Unknown,
        Err(_) => Integrity::Damaged,
    }
}
