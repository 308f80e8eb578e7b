//! Face URIs: the notation of faces' ends (NFD wiki, "FaceMgmt", "FaceUri").
//!
//! ```text
//! udp4://192.0.2.1:6363   udp6://[2001:db8::1]:6363   udp://HOST[:PORT]   likewise tcp, ws
//! unix:///run/nfd/nfd.sock      fd://7        internal://        null://
//! ether://[01:00:5e:00:17:aa]   dev://eth0
//! ```
//!
//! Output is always canonical: numeric addresses, the IP version in the scheme (except for `ws`),
//! and the port. Input may omit version and port. Host names are not resolved.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

use super::PORT;
use crate::mac::MacAddr;

/// The port of WebSocket faces (NFD's).
pub const WEBSOCKET_PORT: u16 = 9696;
/// Longest device name (linux/if.h, IFNAMSIZ less the final zero).
const DEVICE_LEN_MAX: usize = 15;
/// Longest path of a Unix socket (unix(7)).
const PATH_LEN_MAX: usize = 107;

/// One end of a face.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FaceUri {
    /// A UDP endpoint, or group.
    Udp(SocketAddr),
    /// A TCP endpoint.
    Tcp(SocketAddr),
    /// A WebSocket endpoint.
    WebSocket(SocketAddr),
    /// The path of a Unix stream socket.
    Unix(String),
    /// A descriptor: the end of a socket that has no address.
    Fd(u32),
    /// An Ethernet address, or group.
    Ether(MacAddr),
    /// A network device.
    Dev(String),
    /// A UDP endpoint on one device: for multicast faces.
    UdpDev(String, SocketAddr),
    /// Within the forwarder.
    Internal,
    /// Nowhere.
    Null,
}

/// Why a text is no face URI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UriError {
    message: String,
}

fn error(message: impl Into<String>) -> UriError {
    UriError { message: message.into() }
}

impl FaceUri {
    /// The scheme, as it is written.
    pub fn scheme(&self) -> &'static str {
        match self {
            FaceUri::Udp(a) => version(a, "udp4", "udp6"),
            FaceUri::Tcp(a) => version(a, "tcp4", "tcp6"),
            FaceUri::WebSocket(_) => "ws",
            FaceUri::Unix(_) => "unix",
            FaceUri::Fd(_) => "fd",
            FaceUri::Ether(_) => "ether",
            FaceUri::Dev(_) => "dev",
            FaceUri::UdpDev(_, a) => version(a, "udp4+dev", "udp6+dev"),
            FaceUri::Internal => "internal",
            FaceUri::Null => "null",
        }
    }
}

fn version(address: &SocketAddr, v4: &'static str, v6: &'static str) -> &'static str {
    if address.is_ipv4() { v4 } else { v6 }
}

impl fmt::Display for FaceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme())?;
        match self {
            FaceUri::Udp(a) | FaceUri::Tcp(a) | FaceUri::WebSocket(a) => write!(f, "{a}"),
            FaceUri::Unix(path) => f.write_str(path),
            FaceUri::Fd(fd) => write!(f, "{fd}"),
            FaceUri::Ether(mac) => write!(f, "[{mac}]"),
            FaceUri::Dev(name) => f.write_str(name),
            FaceUri::UdpDev(name, a) => write!(f, "{name}:{}", a.port()),
            FaceUri::Internal | FaceUri::Null => Ok(()),
        }
    }
}

impl FromStr for FaceUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<FaceUri, UriError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(error(format!("'{text}' has no scheme, such as udp4://")));
        };
        // A slash after the address has no meaning.
        let host = || rest.strip_suffix('/').unwrap_or(rest);
        let ip = |port| parse_address(scheme, host(), port);
        match scheme {
            "udp" | "udp4" | "udp6" => ip(PORT).map(FaceUri::Udp),
            "tcp" | "tcp4" | "tcp6" => ip(PORT).map(FaceUri::Tcp),
            "ws" => ip(WEBSOCKET_PORT).map(FaceUri::WebSocket),
            "unix" => match rest {
                path if !path.starts_with('/') => {
                    Err(error(format!("'{rest}' is no absolute path of a socket")))
                }
                path if path.len() > PATH_LEN_MAX || path.contains('\0') => {
                    Err(error(format!("the path of a socket has at most {PATH_LEN_MAX} bytes")))
                }
                path => Ok(FaceUri::Unix(path.into())),
            },
            "fd" => match rest.parse() {
                Ok(fd) if !rest.starts_with('+') => Ok(FaceUri::Fd(fd)),
                _ => Err(error(format!("'{rest}' is no number of a descriptor"))),
            },
            "ether" => {
                let inner = rest.strip_prefix('[').and_then(|r| r.strip_suffix(']'));
                let mac = inner.and_then(|mac| mac.parse().ok());
                let what = || error(format!("'{rest}' is not [xx:xx:xx:xx:xx:xx]"));
                mac.map(FaceUri::Ether).ok_or_else(what)
            }
            "dev" => device(rest).map(FaceUri::Dev),
            "udp4+dev" | "udp6+dev" => {
                let (name, port) = rest.split_once(':').unwrap_or((rest, ""));
                let port = parse_port(port, PORT)?;
                let any: IpAddr = match scheme {
                    "udp4+dev" => Ipv4Addr::UNSPECIFIED.into(),
                    _ => Ipv6Addr::UNSPECIFIED.into(),
                };
                Ok(FaceUri::UdpDev(device(name)?, SocketAddr::new(any, port)))
            }
            "internal" if rest.is_empty() => Ok(FaceUri::Internal),
            "null" if rest.is_empty() => Ok(FaceUri::Null),
            _ => Err(error(format!("'{text}' is no face URI: the scheme is not known"))),
        }
    }
}

fn device(name: &str) -> Result<String, UriError> {
    let is_name = !name.is_empty()
        && name.len() <= DEVICE_LEN_MAX
        && !name.contains(['/', ':', '\0'])
        && !name.contains(char::is_whitespace);
    match is_name {
        true => Ok(name.into()),
        false => Err(error(format!("'{name}' is no name of a device"))),
    }
}

fn parse_port(text: &str, usual: u16) -> Result<u16, UriError> {
    if text.is_empty() {
        return Ok(usual);
    }
    let port = text.parse().ok().filter(|port| *port != 0 && !text.starts_with('+'));
    port.ok_or_else(|| error(format!("'{text}' is no port")))
}

/// `HOST`, `HOST:PORT`, with an IPv6 address in brackets; the scheme's last digit, if it has one,
/// is the version.
fn parse_address(scheme: &str, text: &str, usual: u16) -> Result<SocketAddr, UriError> {
    let wrong = || error(format!("'{text}' is not an IP address and a port"));
    let address = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
            let port = match port.strip_prefix(':') {
                Some("") => return Err(wrong()),
                Some(port) => parse_port(port, usual)?,
                None if port.is_empty() => usual,
                None => return Err(wrong()),
            };
            let (host, zone) = host.split_once('%').map_or((host, None), |(h, z)| (h, Some(z)));
            let host: Ipv6Addr = host.parse().map_err(|_| wrong())?;
            // A link-local address is one of a device: its number.
            let zone = zone.map_or(Ok(0), |z| z.parse()).map_err(|_| wrong())?;
            match host.to_ipv4_mapped() {
                // The same end would have two names.
                Some(_) => return Err(error(format!("'{text}' is an IPv4 address: write it so"))),
                None => SocketAddr::V6(SocketAddrV6::new(host, port, 0, zone)),
            }
        }
        None => {
            let (host, port) = match text.split_once(':') {
                Some((_, "")) => return Err(wrong()),
                Some((host, port)) => (host, parse_port(port, usual)?),
                None => (text, usual),
            };
            let named = |_| match host.contains(|c: char| c.is_ascii_alphabetic()) {
                true => error(format!(
                    "'{text}' is not an IP address and a port: names of hosts are not looked up, \
                     write the address"
                )),
                false => wrong(),
            };
            SocketAddr::new(host.parse::<Ipv4Addr>().map_err(named)?.into(), port)
        }
    };
    match (scheme.as_bytes().last(), address.is_ipv4()) {
        (Some(b'4'), false) => Err(error(format!("'{text}' is not an IPv4 address"))),
        (Some(b'6'), true) => Err(error(format!("'{text}' is not an IPv6 address"))),
        _ => Ok(address),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn canonical_forms_are_read_and_written() {
        for text in [
            "udp4://192.0.2.1:6363",
            "udp6://[2001:db8::1]:6363",
            "udp6://[fe80::1%3]:6363",
            "tcp4://127.0.0.1:6363",
            "tcp6://[::1]:16363",
            "ws://192.0.2.1:9696",
            "ws://[2001:db8::1]:9696",
            "unix:///run/nfd/nfd.sock",
            "fd://27",
            "ether://[01:00:5e:00:17:aa]",
            "dev://eth0",
            "udp4+dev://eth0:7777",
            "internal://",
            "null://",
        ] {
            let uri: FaceUri = text.parse().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(uri.to_string(), text);
        }
    }

    #[test]
    fn other_forms_are_read() {
        for (text, canonical) in [
            ("udp://192.0.2.1", "udp4://192.0.2.1:6363"),
            ("udp4://192.0.2.1/", "udp4://192.0.2.1:6363"),
            ("tcp://[2001:DB8::0:1]", "tcp6://[2001:db8::1]:6363"),
            ("ws://192.0.2.1", "ws://192.0.2.1:9696"),
            ("ether://[01:00:5E:00:17:AA]", "ether://[01:00:5e:00:17:aa]"),
        ] {
            let uri: FaceUri = text.parse().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(uri.to_string(), canonical);
        }
    }

    #[test]
    fn invalid_face_uris_are_explained() {
        for (text, why) in [
            ("192.0.2.1", "no scheme"),
            ("http://192.0.2.1", "scheme is not known"),
            ("udp4://router.example:6363", "not an IP address"),
            ("udp://router.example", "write the address"),
            ("udp4://[::1]:6363", "not an IPv4 address"),
            ("tcp6://192.0.2.1:6363", "not an IPv6 address"),
            ("tcp6://[::ffff:192.0.2.1]:6363", "write it so"),
            ("udp4://192.0.2.1:0", "no port"),
            ("udp4://192.0.2.1:70000", "no port"),
            ("udp4://192.0.2.1:", "not an IP address"),
            ("udp6://[::1]x", "not an IP address"),
            ("unix://run/nfd.sock", "absolute path"),
            ("fd://-1", "no number"),
            ("ether://01:00:5e:00:17:aa", "is not ["),
            ("dev://", "no name of a device"),
            ("dev://a/b", "no name of a device"),
            ("internal://x", "not known"),
        ] {
            let told = text.parse::<FaceUri>().unwrap_err().to_string();
            assert!(told.contains(why), "{text}: {told}");
        }
        assert!(format!("unix:///{}", "a".repeat(107)).parse::<FaceUri>().is_err());
    }

    proptest! {
        #[test]
        fn every_end_is_read_back(v4: [u8; 4], v6: [u16; 8], port in 1..=u16::MAX, mac: [u8; 6]) {
            let v4 = SocketAddr::new(v4.into(), port);
            let v6 = SocketAddr::new(v6.into(), port);
            let mut ends = vec![FaceUri::Udp(v4), FaceUri::Tcp(v4), FaceUri::WebSocket(v4)];
            ends.push(FaceUri::Ether(MacAddr(mac)));
            ends.extend([FaceUri::Udp(v6), FaceUri::Tcp(v6), FaceUri::WebSocket(v6)]);
            for end in ends {
                prop_assert_eq!(end.to_string().parse::<FaceUri>(), Ok(end));
            }
        }

        #[test]
        fn any_text_is_read_or_explained(text in "\\PC{0,40}", scheme in "(udp|tcp|ws|fd|ether)") {
            for text in [text.clone(), format!("{scheme}://{text}")] {
                if let Ok(uri) = text.parse::<FaceUri>() {
                    prop_assert_eq!(uri.to_string().parse::<FaceUri>(), Ok(uri));
                }
            }
        }
    }
}
