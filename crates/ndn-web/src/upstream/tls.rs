//! TLS to an upstream site: trusted authorities, and advice when a certificate is refused.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Most bytes of an authorities file: a system's has some 200 kB.
const FILE_MAX: u64 = 16 << 20;

/// The trusted authorities.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    /// The number of authorities.
    pub authorities: usize,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tls({} authorities)", self.authorities)
    }
}

impl Tls {
    /// Trusts the system's authorities; there may be none.
    pub fn system() -> Tls {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::debug!(%error, "authorities of this system");
        }
        let mut roots = RootCertStore::empty();
        // Some of a system's authorities may be unreadable; the others count.
        roots.add_parsable_certificates(found.certs);
        Tls::new(roots)
    }

    /// Trusts only the authorities of a PEM file.
    ///
    /// # Errors
    /// When the file cannot be read, or contains something else.
    pub fn file(path: &Path) -> Result<Tls, String> {
        let told = |why: String| format!("{}: {why}", path.display());
        let len = path.metadata().map_err(|e| told(e.to_string()))?.len();
        if len > FILE_MAX {
            return Err(told(format!("{len} bytes are no file of certificates")));
        }
        let pem = std::fs::read(path).map_err(|e| told(e.to_string()))?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|e| told(format!("not PEM: {e}")))?;
            let number = roots.len() + 1;
            roots.add(certificate).map_err(|e| told(format!("certificate {number}: {e}")))?;
        }
        if roots.is_empty() {
            let why = "there is no certificate in it: PEM is wanted (-----BEGIN CERTIFICATE-----)";
            return Err(told(why.into()));
        }
        Ok(Tls::new(roots))
    }

    fn new(roots: RootCertStore) -> Tls {
        let authorities = roots.len();
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions();
        let config = config.expect("ring has the suites of TLS 1.2 and 1.3");
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Tls { config: Arc::new(config), authorities }
    }

    /// Performs the handshake with a server that has to be `name`.
    pub(super) async fn connect(
        &self,
        name: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, String> {
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let server = ServerName::try_from(bare.to_string())
            .map_err(|e: InvalidDnsNameError| format!("'{name}' can be in no certificate: {e}"))?;
        let connector = TlsConnector::from(self.config.clone());
        connector.connect(server, stream).await.map_err(|e| self.refusal(name, &e))
    }

    /// Why the connection failed, with advice.
    fn refusal(&self, name: &str, error: &io::Error) -> String {
        let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        let Some(error) = of_tls else { return format!("no TLS connection: {error}") };
        match error {
            Error::InvalidCertificate(why) => self.mistrust(name, why),
            Error::InvalidMessage(_) => "it does not speak TLS there: is it asked by http?".into(),
            Error::AlertReceived(
                AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure,
            )
            | Error::PeerIncompatible(_) => {
                "it has neither TLS 1.2 nor 1.3 with a cipher that is known here: it has to be \
                 brought up to date"
                    .into()
            }
            other => format!("no TLS connection: {other}"),
        }
    }

    fn mistrust(&self, name: &str, why: &CertificateError) -> String {
        let clock = "or this box's clock is wrong";
        match why {
            CertificateError::UnknownIssuer if self.authorities == 0 => {
                "no authority is known to this system: install ca-certificates, or name a file \
                 with --ca"
                    .into()
            }
            // A wrong signature is by another authority with the same name.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is not from an authority trusted here: if it is the right one, \
                 name a file with its authority's certificate with --ca"
                    .into()
            }
            CertificateError::NotValidForName => another_name(name, &[]),
            CertificateError::NotValidForNameContext { presented, .. } => {
                another_name(name, presented)
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("its certificate has expired: it has to be renewed there, {clock}")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                format!("its certificate is not valid yet: it has to be renewed there, {clock}")
            }
            CertificateError::Other(other) if other.0.to_string().contains("CaUsedAsEndEntity") => {
                "its certificate is an authority's own (CA:TRUE): it needs one that says \
                 CA:FALSE, which the authority has signed"
                    .into()
            }
            other => format!("its certificate is refused: {other}"),
        }
    }
}

fn another_name(name: &str, presented: &[String]) -> String {
    // Text of the server: it must not control a terminal.
    let presented: Vec<_> =
        presented.iter().take(4).map(|n| n.escape_debug().to_string()).collect();
    let what = match presented.is_empty() {
        true => "another name".to_string(),
        false => presented.join(", "),
    };
    format!("its certificate is for {what}, not for {name}: name the site, or --host, as it does")
}
