//! Names as text (packet format, "NDN URI Scheme"; prefixes of numbers: NDN-0022).

use std::fmt::{self, Write};
use std::str::FromStr;

use super::{Component, DIGEST_LEN, Name, NameBuf};
use crate::ndn::{tlv, types};

/// Types of components with numbers, and the prefixes of their text.
const NUMBERS: [(u32, &str); 5] = [
    (types::SEGMENT, "seg"),
    (types::BYTE_OFFSET, "off"),
    (types::VERSION, "v"),
    (types::TIMESTAMP, "t"),
    (types::SEQUENCE_NUM, "seq"),
];

/// Types of components with digests, likewise.
const DIGESTS: [(u32, &str); 2] = [
    (types::IMPLICIT_SHA256_DIGEST, "sha256digest"),
    (types::PARAMETERS_SHA256_DIGEST, "params-sha256"),
];

pub(super) fn number_prefix(kind: u32) -> Option<&'static str> {
    NUMBERS.iter().find(|(k, _)| *k == kind).map(|(_, prefix)| *prefix)
}

impl fmt::Display for Component<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = u32::from(self.kind);
        if let Some((_, prefix)) = DIGESTS.iter().find(|(k, _)| *k == kind) {
            write!(f, "{prefix}=")?;
            return self.value.iter().try_for_each(|b| write!(f, "{b:02x}"));
        }
        // A number in more bytes than it takes is another name, so it gets another text.
        if let Some(prefix) = number_prefix(kind)
            && let Some(n) = self.number(kind).filter(|n| tlv::number_len(*n) == self.value.len())
        {
            return write!(f, "{prefix}={n}");
        }
        if kind != types::GENERIC_COMPONENT {
            write!(f, "{kind}=")?;
        }
        if self.value.iter().all(|b| *b == b'.') {
            f.write_str("...")?;
        }
        for &b in self.value {
            match b {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    f.write_char(b.into())?;
                }
                _ => write!(f, "%{b:02X}")?,
            }
        }
        Ok(())
    }
}

/// As a URI without its scheme: `/a/b`.
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("/");
        }
        self.components().try_for_each(|component| write!(f, "/{component}"))
    }
}

/// Why text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" in a name: {problem}", .text.escape_debug())]
pub struct UriError {
    /// The component that cannot be read, or all of the text.
    pub text: String,
    /// The problem.
    pub problem: &'static str,
}

/// Parses `/a/b`, `ndn:/a/b`, and `ndn://authority/a/b`, whose authority is ignored. One slash at
/// the end is ignored too.
impl FromStr for NameBuf {
    type Err = UriError;

    fn from_str(text: &str) -> Result<NameBuf, UriError> {
        let rest = match text.get(..4) {
            Some(scheme) if scheme.eq_ignore_ascii_case("ndn:") => &text[4..],
            _ => text,
        };
        let path = match rest.strip_prefix("//") {
            Some(authority) => authority.find('/').map_or("/", |at| &authority[at..]),
            None => rest,
        };
        let Some(path) = path.strip_prefix('/') else {
            let problem = "it has to begin with \"/\"";
            return Err(UriError { text: text.into(), problem });
        };
        let mut name = NameBuf::new();
        let path = path.strip_suffix('/').unwrap_or(path);
        if path.is_empty() {
            return Ok(name);
        }
        for part in path.split('/') {
            let (kind, value) =
                component(part).map_err(|problem| UriError { text: part.into(), problem })?;
            name.push(Component { kind, value: &value })
                .map_err(|_| UriError { text: part.into(), problem: "a digest has 32 bytes" })?;
        }
        Ok(name)
    }
}

fn component(text: &str) -> Result<(u16, Vec<u8>), &'static str> {
    let Some((prefix, value)) = text.split_once('=') else {
        return Ok((types::GENERIC_COMPONENT as u16, unescape(text)?));
    };
    if prefix.bytes().all(|b| b.is_ascii_digit()) {
        return match prefix.parse::<u16>() {
            Ok(kind @ 1..) if !prefix.starts_with('0') => Ok((kind, unescape(value)?)),
            _ => Err("a type is a number from 1 to 65535 without zeros in front"),
        };
    }
    if let Some((kind, _)) = NUMBERS.iter().find(|(_, p)| *p == prefix) {
        let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
        let canonical = digits && (value == "0" || !value.starts_with('0'));
        return match value.parse::<u64>() {
            Ok(n) if canonical => {
                Ok((*kind as u16, n.to_be_bytes()[8 - tlv::number_len(n)..].to_vec()))
            }
            _ => Err("behind the \"=\" belongs a number below 2^64 without zeros in front"),
        };
    }
    if let Some((kind, _)) = DIGESTS.iter().find(|(_, p)| *p == prefix) {
        return Ok((*kind as u16, digest(value.as_bytes())?));
    }
    Err("unknown before \"=\"; in an ordinary component, write \"=\" as %3D")
}

fn digest(hex: &[u8]) -> Result<Vec<u8>, &'static str> {
    let byte = |pair: &[u8]| Some(hex_digit(pair[0])? << 4 | hex_digit(pair[1])?);
    match hex.len() == 2 * DIGEST_LEN {
        true => hex.chunks(2).map(byte).collect::<Option<Vec<u8>>>(),
        false => None,
    }
    .ok_or("a digest is 64 hexadecimal digits")
}

fn hex_digit(b: u8) -> Option<u8> {
    char::from(b).to_digit(16).map(|d| d as u8)
}

/// Undoes escapes; components of periods alone lose three.
fn unescape(text: &str) -> Result<Vec<u8>, &'static str> {
    let mut value = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'%' {
            value.push(*first);
            continue;
        }
        let [high, low, behind @ ..] = rest else { return Err("two digits belong behind a %") };
        let (Some(high), Some(low)) = (hex_digit(*high), hex_digit(*low)) else {
            return Err("two hexadecimal digits belong behind a %");
        };
        value.push(high << 4 | low);
        rest = behind;
    }
    if value.iter().all(|b| *b == b'.') {
        match value.len().checked_sub(3) {
            Some(len) => value.truncate(len),
            None => return Err("an empty component is written \"...\", and one period \"....\""),
        }
    }
    Ok(value)
}
