//! Where test traffic goes: a file with one destination per line.
//!
//! ```text
//! # comment
//! 02:00:00:00:00:01      a station: only the destination MAC differs
//! 198.19.0.7             an address
//! 10.1.0.0/16            a prefix: each flow picks an address in it
//! 2001:2::/48
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use plexus_wire::MacAddr;

/// One line of a destination file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A station on the same Ethernet.
    Mac(MacAddr),
    /// An address, as the prefix of its full length, or any address in a prefix.
    Ip {
        /// The first address; bits beyond the length are zero.
        network: IpAddr,
        /// Bits that are fixed.
        length: u8,
    },
}

impl Destination {
    /// An address in the prefix, chosen by 128 `random` bits; `None` for a station.
    pub fn address(self, random: u128) -> Option<IpAddr> {
        match self {
            Destination::Mac(_) => None,
            Destination::Ip { network: IpAddr::V4(a), length } => {
                let host = u32::MAX.checked_shr(length.into()).unwrap_or(0);
                Some(Ipv4Addr::from_bits(a.to_bits() | (random as u32 & host)).into())
            }
            Destination::Ip { network: IpAddr::V6(a), length } => {
                let host = u128::MAX.checked_shr(length.into()).unwrap_or(0);
                Some(Ipv6Addr::from_bits(a.to_bits() | (random & host)).into())
            }
        }
    }
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(s: &str) -> Result<Destination, String> {
        if let Ok(mac) = s.parse() {
            return Ok(Destination::Mac(mac));
        }
        let (address, length) = match s.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (s, None),
        };
        let Ok(address) = address.parse::<IpAddr>() else {
            return Err(format!("{s:?} is neither an Ethernet nor an IP address or prefix"));
        };
        let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => bits,
            Some(text) => text
                .parse()
                .ok()
                .filter(|&n| n <= bits)
                .ok_or_else(|| format!("{text:?} is not a prefix length from 0 to {bits}"))?,
        };
        let network = match address {
            IpAddr::V4(a) => {
                let mask = !u32::MAX.checked_shr(length.into()).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() & mask))
            }
            IpAddr::V6(a) => {
                let mask = !u128::MAX.checked_shr(length.into()).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() & mask))
            }
        };
        if network != address {
            return Err(format!(
                "{s} has bits set beyond its length: write {network}/{length}, or {address}"
            ));
        }
        Ok(Destination::Ip { network, length })
    }
}

/// An error in a destination file, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationError {
    /// The file's name.
    pub file: String,
    /// The line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// The problem and what to write.
    pub what: String,
}

impl fmt::Display for DestinationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

impl std::error::Error for DestinationError {}

/// Reads the text of a destination file; `file` is its name, for errors.
///
/// # Errors
/// The first line that is wrong, or a file without a destination.
pub fn parse_destinations(file: &str, text: &str) -> Result<Vec<Destination>, DestinationError> {
    let mut destinations = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or("").trim();
        if content.is_empty() {
            continue;
        }
        let destination = content.parse().map_err(|what| DestinationError {
            file: file.into(),
            line: i + 1,
            what,
        })?;
        destinations.push(destination);
    }
    if destinations.is_empty() {
        let what = "no destination in it: write one MAC or IP address or prefix per line".into();
        return Err(DestinationError { file: file.into(), line: 0, what });
    }
    Ok(destinations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_file_holds_all_kinds_and_comments() {
        let text = "# head\n\n02:00:00:00:00:01\n 198.19.0.7 # one\r\n10.1.0.0/16\n2001:2::/48\n";
        let all = parse_destinations("d", text).unwrap();
        assert_eq!(all.len(), 4);
        assert_eq!(all[0], Destination::Mac(MacAddr([2, 0, 0, 0, 0, 1])));
        assert_eq!(all[1].address(u128::MAX), Some("198.19.0.7".parse().unwrap()));
        assert_eq!(all[2].address(u128::MAX), Some("10.1.255.255".parse().unwrap()));
        assert_eq!(all[3].address(1), Some("2001:2::1".parse().unwrap()));
        assert_eq!(all[0].address(0), None);
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, start) in [
            ("10.0.0.1\n10.0.0.300\n", "d.txt:2: \"10.0.0.300\""),
            ("# x\n\n10.0.0.0/33", "d.txt:3: \"33\" is not a prefix length from 0 to 32"),
            ("10.0.0.1/8", "d.txt:1: 10.0.0.1/8 has bits set"),
            ("2001::/129", "d.txt:1: \"129\""),
            ("# nothing\n", "d.txt: no destination"),
        ] {
            let error = parse_destinations("d.txt", text).unwrap_err().to_string();
            assert!(error.starts_with(start), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in ".{0,60}") {
            let _ = parse_destinations("x", &text);
        }

        #[test]
        fn an_address_of_a_prefix_lies_in_it(bits: u32, length in 0_u8..=32, random: u128) {
            let mask = !u32::MAX.checked_shr(length.into()).unwrap_or(0);
            let network = Ipv4Addr::from_bits(bits & mask);
            let prefix: Destination = format!("{network}/{length}").parse().unwrap();
            let Some(IpAddr::V4(address)) = prefix.address(random) else { panic!() };
            prop_assert_eq!(address.to_bits() & mask, network.to_bits());
        }
    }
}
