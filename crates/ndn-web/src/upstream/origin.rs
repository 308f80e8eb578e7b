//! The origin of a site, and which redirects lead to it.

use std::fmt;

use hyper::Uri;

use crate::names::name_of;
use plexus_wire::ndn::Name;

/// Scheme, host and port of a site (RFC 6454, 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// By https.
    pub is_secure: bool,
    /// Name or address to connect to; IPv6 addresses in brackets.
    pub host: String,
    /// The port there.
    pub port: u16,
}

/// The kind of a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whither {
    /// The same resource, by https at this port.
    Secure(u16),
    /// The same request again.
    Here,
    /// Another resource: the client has to follow it.
    Elsewhere,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.host)?;
        match self.port == usual_port(self.is_secure) {
            true => Ok(()),
            false => write!(f, ":{}", self.port),
        }
    }
}

fn usual_port(is_secure: bool) -> u16 {
    if is_secure { 443 } else { 80 }
}

impl Origin {
    /// The site of `HOST[:PORT]`; `None` if it is invalid.
    pub fn new(is_secure: bool, authority: &str) -> Option<Origin> {
        let uri = Uri::builder().scheme("http").authority(authority).path_and_query("/");
        let uri = uri.build().ok()?;
        let parsed = uri.authority().filter(|a| !a.as_str().contains('@'))?;
        let host = Origin::name_in(authority);
        // After the host there may only be a port.
        let port = match authority.strip_prefix(host)? {
            "" => usual_port(is_secure),
            _ => parsed.port_u16()?,
        };
        Some(Origin { is_secure, host: host.into(), port })
    }

    /// The host of `HOST[:PORT]`.
    pub(super) fn name_in(authority: &str) -> &str {
        match authority.rsplit_once(':') {
            // An IPv6 address without a port ends with its bracket.
            Some((host, port)) if !port.ends_with(']') => host,
            _ => authority,
        }
    }

    /// The site's name: without the default port of its scheme.
    pub fn authority(&self) -> String {
        match self.port == usual_port(self.is_secure) {
            true => self.host.clone(),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// The name to resolve.
    pub(super) fn address(&self) -> &str {
        let inner = self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        inner.unwrap_or(&self.host)
    }

    /// The same site by https.
    pub(super) fn secure(self, port: u16) -> Origin {
        Origin { is_secure: true, port, ..self }
    }

    /// Scheme, port and target of a URL that belongs to this site, which is named `host`: with the
    /// same scheme and port, or with the other scheme at its default port or the same one. The site
    /// cannot choose other ports: otherwise a redirect could make the producer connect to them.
    fn own<'a>(&self, host: &str, location: &'a str) -> Option<(Origin, &'a str)> {
        let (scheme, rest) = location.split_once("://")?;
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(at);
        let there = Origin::new(is_secure, authority)?;
        let is_own = there.host.eq_ignore_ascii_case(Origin::name_in(host))
            && (there.port == self.port
                || (is_secure != self.is_secure && there.port == usual_port(is_secure))
                || there.authority().eq_ignore_ascii_case(host));
        is_own.then_some((there, target))
    }

    /// The kind of a redirect of `target`, for a site named `host`.
    pub(super) fn whither(&self, host: &str, target: &str, location: &str) -> Whither {
        let (there, asked) = match self.own(host, location) {
            Some((there, asked)) => (Some(there), asked),
            None if location.starts_with('/') && !location.starts_with("//") => (None, location),
            None => return Whither::Elsewhere,
        };
        let asked = asked.split('#').next().unwrap_or_default();
        let asked = if asked.starts_with('/') { asked.into() } else { format!("/{asked}") };
        let name = |target: &str| name_of(Name::ROOT, "h", target).ok();
        match (name(target), name(&asked)) {
            (Some(target), Some(asked)) if target == asked => match there {
                Some(there) if there.is_secure && !self.is_secure => Whither::Secure(there.port),
                _ => Whither::Here,
            },
            _ => Whither::Elsewhere,
        }
    }

    /// A redirect that clients of the proxy can follow: within this site without scheme and host,
    /// because it has another address for them, and always http.
    pub(super) fn here(&self, host: &str, location: &str) -> String {
        let Some((_, target)) = self.own(host, location) else { return location.into() };
        let target = if target.starts_with('/') { target.into() } else { format!("/{target}") };
        // Two slashes would begin a host; browsers treat backslashes as slashes and ignore tabs.
        let is_plain = |c: char| c != '\\' && !c.is_control();
        match !target.starts_with("//") && target.chars().all(is_plain) {
            true => target,
            false => format!("http://{host}{target}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(url: &str) -> Option<Origin> {
        let (scheme, authority) = url.split_once("://").unwrap();
        Origin::new(scheme == "https", authority)
    }

    #[test]
    fn origins_are_read_and_written() {
        for (url, address, port) in [
            ("http://h", "h", 80),
            ("https://h", "h", 443),
            ("https://h:8443", "h", 8443),
            ("http://[2001:db8::1]", "2001:db8::1", 80),
            ("https://[2001:db8::1]:80", "2001:db8::1", 80),
        ] {
            let of = origin(url).unwrap();
            assert_eq!((of.address(), of.port), (address, port));
            assert_eq!(of.to_string(), url);
        }
        assert_eq!(origin("https://h:443").unwrap().authority(), "h");
        for url in
            ["http://", "http://a@h", "http://h:", "http://h:x", "http://h:65536", "http://a b"]
        {
            assert_eq!(origin(url), None, "{url}");
        }
    }

    #[test]
    fn redirects_to_the_same_by_https_are_told_from_others() {
        let (plain, secure) = (origin("http://h").unwrap(), origin("https://h").unwrap());
        let elsewhere = Whither::Elsewhere;
        for (location, from_http, from_https) in [
            ("https://h/a?b", Whither::Secure(443), Whither::Here),
            ("HTTPS://H:443/%61?b#c", Whither::Secure(443), Whither::Here),
            ("https://h:80/a?b", Whither::Secure(80), elsewhere),
            ("https://h:8443/a?b", elsewhere, elsewhere),
            ("https://h:22/a?b", elsewhere, elsewhere),
            ("http://h/a?b", Whither::Here, Whither::Here),
            ("http://h:81/a?b", elsewhere, elsewhere),
            ("/a?b", Whither::Here, Whither::Here),
            ("https://h/a", elsewhere, elsewhere),
            ("https://other/a?b", elsewhere, elsewhere),
            ("https://h@other/a?b", elsewhere, elsewhere),
            ("https://other@h/a?b", elsewhere, elsewhere),
            ("https://h.other/a?b", elsewhere, elsewhere),
            ("//h/a?b", elsewhere, elsewhere),
            ("ftp://h/a?b", elsewhere, elsewhere),
            ("a?b", elsewhere, elsewhere),
            ("", elsewhere, elsewhere),
        ] {
            assert_eq!(plain.whither("h", "/a?b", location), from_http, "{location}");
            assert_eq!(secure.whither("h", "/a?b", location), from_https, "{location}");
        }
        // A port that is not configured does not become this site's for clients.
        assert_eq!(plain.here("h", "https://h:22/a?b"), "https://h:22/a?b");
        assert_eq!(plain.whither("h", "/", "https://h"), Whither::Secure(443));
        assert_eq!(plain.whither("h", "/?b", "https://h?b"), Whither::Secure(443));
    }

    #[test]
    fn redirects_within_the_site_stay_within_it() {
        let secure = origin("https://h").unwrap();
        for (location, here) in [
            ("https://h/a#b", "/a#b"),
            ("http://H:80/a", "/a"),
            ("https://h", "/"),
            ("https://h?q", "/?q"),
            ("https://h//other/a", "http://h//other/a"),
            ("https://h/\\evil.example/", "http://h/\\evil.example/"),
            ("https://h/\t/evil.example/", "http://h/\t/evil.example/"),
            ("https://h?\\", "http://h/?\\"),
            ("https://h:8443/a", "https://h:8443/a"),
            ("https://other/a", "https://other/a"),
            ("../a", "../a"),
        ] {
            assert_eq!(secure.here("h", location), here, "{location}");
        }
    }
}
