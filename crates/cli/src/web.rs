//! Where `--web` serves a page.

use std::net::SocketAddr;

/// Unless the command line says otherwise.
pub(crate) const USUAL: &str = "127.0.0.1:8440";

/// An address of this machine alone: such a page has neither TLS nor a token.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| format!("write address and port, as in {USUAL}"))?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("this page has neither TLS nor a token: listen on 127.0.0.1 or [::1], and \
                      use a tunnel (ssh -L) from elsewhere"
            .into()),
    }
}
