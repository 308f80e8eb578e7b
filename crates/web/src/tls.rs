//! The server's certificate and key.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Reads a certificate, with those that have signed it, and its key.
///
/// # Errors
/// In words, when a file cannot be read or has something else in it, or the two do not belong
/// together.
pub(crate) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let told = |path: &Path, why: String| format!("{}: {why}", path.display());
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| told(certificate, format!("no certificate in PEM: {e}")))?;
    if chain.is_empty() {
        return Err(told(certificate, "there is no certificate in it".into()));
    }
    let own = PrivateKeyDer::from_pem_file(key)
        .map_err(|e| told(key, format!("no private key in PEM: {e}")))?;
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, own)
        .map_err(|e| told(certificate, format!("it does not fit the key: {e}")))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
