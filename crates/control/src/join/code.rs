//! The one-time code, as people copy it.
//!
//! The bytes: 10 of the secret, 10 of the authority's fingerprint, 4 or 16 of the address, 2 of the
//! port, 2 of a checksum. They are written in Crockford's base 32, which has no I, L, O and U, in
//! groups of five: 45 characters with an IPv4 address, 64 with an IPv6 address.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use plexus_config::ValueError;
use zeroize::Zeroizing;

use crate::hash::blake2s as hash;
use crate::identity::AuthorityPublic;

const SECRET: usize = 10;
const FINGERPRINT: usize = 10;
const CHECKSUM: usize = 2;
/// Bytes of all but the address.
const FIXED: usize = SECRET + FINGERPRINT + 2 + CHECKSUM;
/// Digits of a code with an IPv4 address, and with an IPv6 address.
const LEN_V4: usize = ((FIXED + 4) * 8).div_ceil(5);
const LEN_V6: usize = ((FIXED + 16) * 8).div_ceil(5);
const GROUP: usize = 5;
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The first 80 bits of the hash of an authority's key.
pub fn fingerprint(authority: &AuthorityPublic) -> [u8; FINGERPRINT] {
    first(&hash(&[b"plexus authority 1", &authority.to_bytes()]))
}

/// A one-time code.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinCode {
    secret: Zeroizing<[u8; SECRET]>,
    fingerprint: [u8; FINGERPRINT],
    address: SocketAddr,
}

impl JoinCode {
    /// The code of an invitation to the group of this authority. The secret is used once.
    pub fn new(secret: [u8; SECRET], authority: &AuthorityPublic, address: SocketAddr) -> JoinCode {
        JoinCode { secret: Zeroizing::new(secret), fingerprint: fingerprint(authority), address }
    }

    /// Where the first box listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The fingerprint of the group's authority.
    pub fn fingerprint(&self) -> [u8; FINGERPRINT] {
        self.fingerprint
    }

    /// The key of the exchange.
    pub(super) fn key(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(hash(&[b"plexus join key 1", &self.secret[..], &self.fingerprint]))
    }

    fn bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new([&self.secret[..], &self.fingerprint].concat());
        match self.address.ip() {
            IpAddr::V4(ip) => out.extend(ip.octets()),
            IpAddr::V6(ip) => out.extend(ip.octets()),
        }
        out.extend(self.address.port().to_be_bytes());
        let checksum = checksum(&out);
        out.extend(checksum);
        out
    }
}

impl fmt::Display for JoinCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, digit) in digits(&self.bytes()).enumerate() {
            if i > 0 && i % GROUP == 0 {
                f.write_str("-")?;
            }
            write!(f, "{}", char::from(digit))?;
        }
        Ok(())
    }
}

impl fmt::Debug for JoinCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fingerprint = plexus_wire::hex(&self.fingerprint);
        write!(f, "JoinCode(of {fingerprint}, at {})", self.address)
    }
}

impl FromStr for JoinCode {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<JoinCode, ValueError> {
        let help = "copy the code as `plexus group create` or `plexus group invite` printed it";
        let digits = decode(text).map_err(|c| {
            ValueError::new(format!("a join code has no {c:?}: it has letters and digits"), help)
        })?;
        let address_len = match digits.len() {
            LEN_V4 => 4,
            LEN_V6 => 16,
            len => {
                let lens = format!("{LEN_V4} or {LEN_V6}");
                let message = format!("a join code has {lens} characters, and this one has {len}");
                return Err(ValueError::new(message, help));
            }
        };
        let (bytes, rest) = pack(&digits);
        let (body, sum) = bytes.split_at(bytes.len() - CHECKSUM);
        if rest != 0 || checksum(body)[..] != *sum {
            let message = "the join code has a typing error";
            return Err(ValueError::new(message, "compare it with the line of the first box"));
        }
        let ip: IpAddr = match address_len {
            4 => first::<4>(&body[SECRET + FINGERPRINT..]).into(),
            _ => first::<16>(&body[SECRET + FINGERPRINT..]).into(),
        };
        let port = u16::from_be_bytes(first(&body[SECRET + FINGERPRINT + address_len..]));
        Ok(JoinCode {
            secret: Zeroizing::new(first(body)),
            fingerprint: first(&body[SECRET..]),
            address: SocketAddr::new(ip, port),
        })
    }
}

/// The first `N` bytes, which the caller knows to be there.
fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[..N]);
    out
}

fn checksum(body: &[u8]) -> [u8; CHECKSUM] {
    first(&hash(&[b"plexus join code 1", body]))
}

/// The digits of these bytes, the last one filled up with zero bits.
fn digits(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let bit = |i: usize| bytes.get(i / 8).map_or(0, |byte| byte >> (7 - i % 8) & 1);
    let value = move |at: usize| (0..5).fold(0, |value, i| value << 1 | bit(at * 5 + i));
    (0..(bytes.len() * 8).div_ceil(5)).map(move |at| DIGITS[usize::from(value(at))])
}

/// The values of a text's digits.
///
/// # Errors
/// With the first character that is no digit.
fn decode(text: &str) -> Result<Zeroizing<Vec<u8>>, char> {
    let value = |c: char| {
        // Crockford: letters that look like digits are read as these.
        let digit = match c.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            other => other,
        };
        DIGITS.iter().position(|d| char::from(*d) == digit).map(|at| at as u8).ok_or(c)
    };
    text.chars().filter(|c| !is_space(*c)).map(value).collect::<Result<Vec<_>, _>>().map(Into::into)
}

/// The whole bytes of these digits, and the bits that are left.
fn pack(digits: &[u8]) -> (Zeroizing<Vec<u8>>, u32) {
    let mut out = Zeroizing::new(Vec::new());
    let (mut value, mut bits) = (0_u32, 0);
    for digit in digits {
        value = value << 5 | u32::from(*digit);
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            out.push((value >> bits) as u8);
            value &= (1 << bits) - 1;
        }
    }
    (out, value)
}

fn is_space(c: char) -> bool {
    c == '-' || c.is_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Authority;

    fn code(address: &str) -> JoinCode {
        let authority = Authority::new([7; 16], &[1; 32]).public();
        JoinCode::new(std::array::from_fn(|i| 23 * i as u8), &authority, address.parse().unwrap())
    }

    #[test]
    fn it_is_read_back_however_it_is_copied() {
        for (address, len) in [("192.0.2.1:18774", 45), ("[fe80::1:2]:65535", 64)] {
            let code = code(address);
            let text = code.to_string();
            assert_eq!(text.replace('-', "").len(), len, "{text}");
            assert!(text.split('-').all(|group| group.len() <= GROUP), "{text}");
            let plain = text.replace('-', " ").to_lowercase().replace('0', "o").replace('1', "l");
            for copied in [text.clone(), plain, format!("  {text}\n")] {
                assert_eq!(copied.parse::<JoinCode>().unwrap(), code, "{copied}");
            }
        }
    }

    #[test]
    fn each_typing_error_is_told_as_one() {
        let text = code("192.0.2.1:18774").to_string();
        for (at, old) in text.bytes().enumerate().filter(|(_, old)| *old != b'-') {
            for new in DIGITS.iter().filter(|new| **new != old) {
                let wrong = format!("{}{}{}", &text[..at], char::from(*new), &text[at + 1..]);
                let told = wrong.parse::<JoinCode>().unwrap_err().message;
                assert_eq!(told, "the join code has a typing error", "{wrong}");
            }
        }
        let told = text.replacen('-', "u", 1).parse::<JoinCode>().unwrap_err().message;
        assert!(told.contains("no 'u'"), "{told}");
        for short in ["", "A", &text[1..], &format!("{text}0"), &text.repeat(9)] {
            let told = short.parse::<JoinCode>().unwrap_err().message;
            assert!(told.contains("45 or 64 characters"), "{short}: {told}");
        }
    }

    #[test]
    fn the_secret_is_not_shown() {
        let shown = format!("{:?}", code("192.0.2.1:1"));
        assert!(!shown.contains(&plexus_wire::hex(&[0, 23, 46])), "{shown}");
    }
}
