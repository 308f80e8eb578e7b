//! Lists of prefixes as text, one to a line: `192.0.2.0/24`, `2001:db8::/32`.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A prefix of either family, in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// IPv4: base and length.
    V4(u32, u8),
    /// IPv6: base and length.
    V6(u128, u8),
}

/// A line that is not a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}: {text:?} is no prefix: write 192.0.2.0/24 or 2001:db8::/32, no bit set beyond \
     the length"
)]
pub struct PrefixError {
    /// The line's number, from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
}

/// Parses a text with a prefix per line; empty lines are skipped.
pub fn parse_prefixes(text: &str) -> impl Iterator<Item = Result<Prefix, PrefixError>> + '_ {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
    lines.map(|(i, line)| {
        let error = || PrefixError { line: i + 1, text: line.chars().take(60).collect() };
        parse(line).ok_or_else(error)
    })
}

fn parse(line: &str) -> Option<Prefix> {
    let (addr, len) = line.split_once('/')?;
    let len: u8 = len.parse().ok()?;
    if addr.contains(':') {
        let addr = u128::from(addr.parse::<Ipv6Addr>().ok()?);
        let beyond = u128::MAX.checked_shr(len.into()).unwrap_or(0);
        (len <= 128 && addr & beyond == 0).then_some(Prefix::V6(addr, len))
    } else {
        let addr = u32::from(addr.parse::<Ipv4Addr>().ok()?);
        let beyond = u32::MAX.checked_shr(len.into()).unwrap_or(0);
        (len <= 32 && addr & beyond == 0).then_some(Prefix::V4(addr, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_prefixes_or_are_named() {
        let text = "0.0.0.0/0\n192.0.2.1/32\n\n2001:db8::/32\n::/0\n";
        let good: Result<Vec<_>, _> = parse_prefixes(text).collect();
        let db8 = 0x2001_0db8 << 96;
        let expected =
            [Prefix::V4(0, 0), Prefix::V4(0xC000_0201, 32), Prefix::V6(db8, 32), Prefix::V6(0, 0)];
        assert_eq!(good.unwrap(), expected);
        for bad in ["192.0.2.1/24", "1.2.3.4", "1.2.3.4/33", "::1/127x", "1::/15", "/8", "a/b"] {
            let text = format!("::/0\n{bad}\n");
            let error = parse_prefixes(&text).nth(1).unwrap().unwrap_err();
            assert_eq!((error.line, error.text.as_str()), (2, bad));
            assert!(error.to_string().starts_with("line 2: "));
        }
    }
}
