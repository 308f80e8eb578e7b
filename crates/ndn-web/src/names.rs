//! Maps URLs to names and back.
//!
//! ```text
//! http://HOST/a/b/?q=1  =  PREFIX / HOST / a / b / (empty) / ?q=1
//! ```
//!
//! HOST is in lower case, with its port unless that is 80. Each segment of the path is a component,
//! normalised (RFC 3986, 6.2.2): unnecessary escapes are decoded, the others are in capitals. So
//! equivalent URLs have one name, and a name gives back its URL. A `/` at the end makes an empty
//! component. The query, if there is one, is the last component and begins with `?`, which a path
//! segment cannot.

use plexus_wire::ndn::{Component, Name, NameBuf, types};

/// Bytes of the longest name of a URL: it has to fit into each packet.
pub const NAME_LEN_MAX: usize = 2048;

/// Why a URL has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// It is longer than a name may be.
    #[error("the URL is too long")]
    TooLong,
    /// The host is invalid.
    #[error("the host is missing, or has characters that no host has")]
    Host,
    /// A path begins with a slash.
    #[error("the path does not begin with a slash")]
    Path,
    /// A character that has to be escaped, or a `%` without two digits.
    #[error("the URL has a character that has to be escaped, or a % without two digits")]
    Character,
}

/// The name of `target`, the path and query of a request, at a host.
///
/// # Errors
/// [`BadUrl`].
pub fn name_of(prefix: Name<'_>, host: &str, target: &str) -> Result<NameBuf, BadUrl> {
    let mut name = prefix.to_buf().with(normal_host(host)?);
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    for part in path.strip_prefix('/').ok_or(BadUrl::Path)?.split('/') {
        name = name.with(normalise(part.as_bytes(), b":@!$&'()*+,;=")?);
        if name.as_name().value().len() > NAME_LEN_MAX {
            return Err(BadUrl::TooLong);
        }
    }
    if let Some(query) = query {
        let mut component = vec![b'?'];
        component.extend(normalise(query.as_bytes(), b":@!$&'()*+,;=/?")?);
        name = name.with(component);
    }
    match name.as_name().value().len() {
        ..=NAME_LEN_MAX => Ok(name),
        _ => Err(BadUrl::TooLong),
    }
}

/// A host in the form used in names.
///
/// # Errors
/// [`BadUrl::Host`].
pub fn normal_host(host: &str) -> Result<String, BadUrl> {
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix(":80").unwrap_or(&host);
    let is_of_host = |b: u8| b.is_ascii_alphanumeric() || b"-._:[]~".contains(&b);
    match !host.is_empty() && host.len() <= 255 && host.bytes().all(is_of_host) {
        true => Ok(host.into()),
        false => Err(BadUrl::Host),
    }
}

/// Host and target of a path after the prefix; `None` if no URL has this name.
pub fn target_of(path: Name<'_>) -> Option<(String, String)> {
    if path.components().any(|c| u32::from(c.kind) != types::GENERIC_COMPONENT) {
        return None;
    }
    let mut parts = path.components().map(|c: Component<'_>| std::str::from_utf8(c.value).ok());
    let host = parts.next()??.to_string();
    let mut target = String::new();
    let mut is_ended = false;
    for part in parts {
        let part = part?;
        if is_ended {
            return None;
        }
        is_ended = part.starts_with('?') && !target.is_empty();
        if !is_ended {
            target.push('/');
        }
        target.push_str(part);
    }
    // Only a name that maps back to itself is valid.
    let again = name_of(Name::ROOT, &host, &target).ok()?;
    (again.as_name() == path).then_some((host, target))
}

/// Decodes unnecessary escapes; `also` are characters that need none besides letters, digits and
/// `-._~`.
fn normalise(text: &[u8], also: &[u8]) -> Result<Vec<u8>, BadUrl> {
    let is_unreserved = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'%' {
            if !is_unreserved(*first) && !also.contains(first) {
                // Browsers leave some of these unescaped.
                match b"\"<>[]^`{|}\\".contains(first) || !first.is_ascii() {
                    true => escape(*first, &mut out),
                    false => return Err(BadUrl::Character),
                }
            } else {
                out.push(*first);
            }
            continue;
        }
        let byte;
        (byte, rest) = escaped(rest).ok_or(BadUrl::Character)?;
        match is_unreserved(byte) {
            true => out.push(byte),
            false => escape(byte, &mut out),
        }
    }
    Ok(out)
}

fn escape(b: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("%{b:02X}").as_bytes());
}

/// The byte that two digits after a `%` stand for, and what follows them.
fn escaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let [high, low, behind @ ..] = text else { return None };
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    Some((digit(*high)? << 4 | digit(*low)?, behind))
}

/// A path segment without escapes: its name in a file system.
pub fn unescape(part: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(part.len());
    let mut rest = part;
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let byte;
        (byte, rest) = escaped(rest)?;
        out.push(byte);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(host: &str, target: &str) -> Result<String, BadUrl> {
        let prefix: NameBuf = "/web".parse().unwrap();
        name_of(prefix.as_name(), host, target).map(|n| n.to_string())
    }

    #[test]
    fn urls_that_mean_the_same_have_one_name() {
        let same = name("example.org", "/a~b/c%2Fd/").unwrap();
        assert_eq!(same, "/web/example.org/a~b/c%252Fd/...");
        assert_eq!(name("EXAMPLE.org:80", "/%61%7eb/c%2fd/"), Ok(same));
        assert_eq!(name("h:81", "/?a=%41/b?c"), Ok("/web/h%3A81/.../%3Fa%3DA%2Fb%3Fc".into()));
        assert_eq!(name("h", "/").unwrap(), "/web/h/...");
        // A query is not a part of a path.
        assert_ne!(name("h", "/a?b"), name("h", "/a/%3Fb"));
    }

    #[test]
    fn invalid_urls_have_no_name() {
        for (host, target, why) in [
            ("", "/", BadUrl::Host),
            ("a b", "/", BadUrl::Host),
            ("a/b", "/", BadUrl::Host),
            ("h", "a", BadUrl::Path),
            ("h", "*", BadUrl::Path),
            ("h", "/%", BadUrl::Character),
            ("h", "/%4", BadUrl::Character),
            ("h", "/%zz", BadUrl::Character),
            ("h", "/a b", BadUrl::Character),
            ("h", "/a\r\nb", BadUrl::Character),
            ("h", "/a#b", BadUrl::Character),
        ] {
            assert_eq!(name(host, target), Err(why), "{host} {target}");
        }
        assert_eq!(name("h", &format!("/{}", "a".repeat(3000))), Err(BadUrl::TooLong));
        assert_eq!(name("h", &format!("/?{}", "a".repeat(3000))), Err(BadUrl::TooLong));
    }

    #[test]
    fn names_that_are_no_urls_lead_nowhere() {
        for bad in ["/", "/h", "/h/a%20b", "/h/a%0D%0Ab", "/h/%3Fq/a", "/H/a", "/h/%25zz", "/h/v=1"]
        {
            let name: NameBuf = bad.parse().unwrap();
            assert_eq!(target_of(name.as_name()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_name_gives_back_its_url(target in "/[a-zA-Z0-9%~/?&=.:@ -]{0,30}") {
            if let Ok(name) = name_of(Name::ROOT, "h", &target) {
                let (host, back) = target_of(name.as_name()).unwrap();
                prop_assert_eq!(host, "h");
                prop_assert_eq!(name_of(Name::ROOT, "h", &back), Ok(name));
            }
        }

        #[test]
        fn any_name_leads_to_a_target_that_fits_on_a_request_line(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..6), 0..4),
        ) {
            let name = parts.into_iter().fold(NameBuf::new(), |name, part| name.with(part));
            if let Some((host, target)) = target_of(name.as_name()) {
                prop_assert!(target.starts_with('/'));
                prop_assert!((host + &target).bytes().all(|b| b.is_ascii_graphic()));
            }
        }
    }
}
