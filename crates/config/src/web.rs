//! Where a controller serves its page, and to whom.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::controller::parse_path;
use crate::document::{Lines, Section};
use crate::error::{ValueError, quote};
use crate::node::parse_listen_address;

/// Most readers that a page may be allowed.
const READERS: std::ops::RangeInclusive<u64> = 1..=4096;

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSettings {
    /// The address and port that it is served at.
    pub listen: SocketAddr,
    /// PEM files: the certificate with those that have signed it, and its key. Absent: no TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// A file with the token that readers must have. Absent: everybody who reaches it may read.
    pub token: Option<PathBuf>,
    /// Names under which readers reach it, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Most connections at a time. One more ends the one that has read nothing for the longest.
    pub readers: u32,
}

impl WebSettings {
    /// A page at this address, with the usual settings.
    pub fn new(listen: SocketAddr) -> WebSettings {
        WebSettings { listen, tls: None, token: None, hosts: Vec::new(), readers: 256 }
    }

    pub(crate) fn read(root: &Section<'_>) -> Option<WebSettings> {
        let section = root.section("web", "the page")?;
        let problems = section.problems();
        let listen = section.require("listen", "\"127.0.0.1:8440\"");
        let listen = listen.parsed("listen", parse_listen_address);
        let certificate = section.parsed("certificate", parse_path);
        let key = section.parsed("key", parse_path);
        if let (Some(one), None) | (None, Some(one)) = (&certificate, &key) {
            let help = "give both: certificate = \"….pem\" and key = \"….pem\"";
            problems.add(one.span.clone(), "a certificate and its key belong together", help);
        }
        let mut web = WebSettings::new(listen.as_ref()?.value);
        web.tls = certificate.zip(key).map(|(c, k)| (c.value, k.value));
        web.token = section.parsed("token", parse_path).map(|path| path.value);
        web.hosts = section.list("hosts", parse_host).unwrap_or_default();
        web.readers = section.integer_or("readers", READERS, web.readers);
        if let Some(listen) = listen
            && !web.listen.ip().is_loopback()
            && (web.tls.is_none() || web.token.is_none())
        {
            let message = "outside of this machine the page needs TLS and a token";
            let help = "give certificate = \"….pem\", key = \"….pem\" and token = \"FILE\", or \
                        listen on 127.0.0.1";
            problems.add(listen.span, message, help);
        }
        Some(web)
    }

    pub(crate) fn write(&self, lines: &mut Lines) {
        let usual = WebSettings::new(self.listen);
        lines.heading("[web]");
        lines.text("listen", &self.listen.to_string());
        lines.given("certificate", self.tls.as_ref().map(|(certificate, _)| certificate));
        lines.given("key", self.tls.as_ref().map(|(_, key)| key));
        lines.given("token", self.token.as_ref());
        lines.value("hosts", &self.hosts[..]);
        lines.unusual("readers", &self.readers, &usual.readers);
    }
}

/// A name that browsers write into `Host`, without a port.
fn parse_host(text: &str) -> Result<String, ValueError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if text.is_empty() || !text.chars().all(is_name) {
        let help = "write a name without a port, as in hosts = [\"plexus.example.org\"]";
        return Err(ValueError::new(format!("{} is no host's name", quote(text)), help));
    }
    Ok(text.to_ascii_lowercase())
}
