//! By which key a forwarder is commanded.

use std::path::{Path, PathBuf};

use plexus_daemon::certificate;
use plexus_io::secret::check_private;
use plexus_ndn_apps::key::{CommandKey, CommandKeyError};
use zeroize::Zeroizing;

use crate::exit::Failure;

/// By which key the command is signed that registers the prefix.
#[derive(clap::Args)]
pub(crate) struct Key {
    /// Private key that signs the command which registers the prefix, for a forwarder that takes
    /// no others: P-256, Ed25519 or RSA, as `plexus ndn key`, openssl (PEM) or ndnsec keep it.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Its certificate, as `plexus ndn key` and `ndnsec cert-dump` write it.
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
}

impl Key {
    /// The key, if one is given.
    pub(crate) fn read(&self) -> Result<Option<CommandKey>, Failure> {
        let (Some(key), Some(certificate)) = (&self.key, &self.certificate) else {
            return Ok(None);
        };
        let read = read(key, certificate)?;
        // A warning is enough: no key is certified here.
        if let Err(why) = check_private(key) {
            eprintln!("--key {}: {why}", key.display());
        }
        Ok(Some(read))
    }
}

/// A key and its certificate, from the files of `--key` and `--certificate`.
pub(super) fn read(key: &Path, certificate: &Path) -> Result<CommandKey, Failure> {
    let told = |option, file: &Path, why: String| {
        Failure::Unusable(format!("{option} {}: {why}", file.display()))
    };
    let packet =
        certificate::read(certificate).map_err(|why| told("--certificate", certificate, why))?;
    let bytes = certificate::bytes(key).map(Zeroizing::new);
    let bytes = bytes.map_err(|why| told("--key", key, why))?;
    CommandKey::read(&bytes, &packet).map_err(|e| match e {
        CommandKeyError::Certificate(why) => told("--certificate", certificate, why.to_string()),
        why => told("--key", key, why.to_string()),
    })
}
