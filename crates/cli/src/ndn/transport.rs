//! Where the forwarder is.

use plexus_ndn_apps::endpoint::{USUAL, VARIABLE};
use plexus_wire::ndn::face_uri::FaceUri;

use crate::exit::Failure;

/// Where the forwarder is.
#[derive(clap::Args)]
pub(crate) struct Transport {
    /// Where the forwarder is: unix:///run/nfd/nfd.sock, tcp://192.0.2.1:6363,
    /// udp://[2001:db8::1]; by default what NDN_CLIENT_TRANSPORT says, or else the first of these.
    #[arg(long, value_name = "URI")]
    transport: Option<String>,
}

impl Transport {
    /// The address.
    pub(crate) fn uri(&self) -> Result<FaceUri, Failure> {
        let variable = std::env::var(VARIABLE).ok().filter(|value| !value.is_empty());
        let (text, from) = match (&self.transport, variable) {
            (Some(text), _) => (text.clone(), "--transport"),
            (None, Some(text)) => (text, VARIABLE),
            (None, None) => (USUAL.to_string(), "the usual place"),
        };
        parse(&text).map_err(|why| Failure::Unusable(format!("{from}: {why}")))
    }
}

fn parse(text: &str) -> Result<FaceUri, String> {
    match text.parse::<FaceUri>().map_err(|e| e.to_string())? {
        uri @ (FaceUri::Unix(_) | FaceUri::Tcp(_) | FaceUri::Udp(_)) => Ok(uri),
        other => Err(format!("{other} is no way to a forwarder: write unix:, tcp: or udp:")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarders_are_reached_by_unix_tcp_and_udp_only() {
        for good in [USUAL, "tcp4://192.0.2.1:6363", "udp://[2001:db8::1]"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["/run/nfd.sock", "ws://192.0.2.1", "null://", "unix://nfd.sock"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
