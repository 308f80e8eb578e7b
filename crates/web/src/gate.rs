//! Decides which readers are admitted.
//!
//! A browser sends requests to this server for any site that its user visits. Two headers, which
//! scripts cannot change, tell these apart. `Host` names the server as the browser found it: a
//! foreign name there is a site that has pointed its own name here (DNS rebinding). `Origin` and
//! `Sec-Fetch-Site` name the site that asks.
//!
//! Where there is a token, everything about the network needs it: in `Authorization`, or as the
//! cookie that a reader gets for it.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;

use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Request, Uri};
use plexus_config::WebSettings;

/// Shortest and longest token.
const TOKEN: std::ops::RangeInclusive<usize> = 16..=512;

/// Decides about requests.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Names under which readers reach the server, besides addresses.
    names: Vec<String>,
    scheme: &'static str,
    token: Option<Token>,
}

#[derive(Debug)]
struct Token {
    text: String,
    /// The cookie of readers that have given the token: new with each start.
    session: String,
    /// The cookie's name: browsers send cookies to all ports of a host.
    cookie: String,
}

impl Gate {
    /// The gate of a page.
    ///
    /// # Errors
    /// In words, when the token cannot be read.
    pub(crate) fn new(settings: &WebSettings, port: u16) -> Result<Gate, String> {
        let is_secure = settings.tls.is_some();
        let token = settings.token.as_deref().map(|file| Token::read(file, is_secure, port));
        let mut names = settings.hosts.clone();
        names.push("localhost".into());
        let scheme = if is_secure { "https" } else { "http" };
        Ok(Gate { names, scheme, token: token.transpose()? })
    }

    /// Refuses requests that a foreign site has caused.
    ///
    /// # Errors
    /// In words for the reader.
    pub(crate) fn admit<B>(&self, request: &Request<B>) -> Result<(), &'static str> {
        let headers = request.headers();
        let host = one(headers, &header::HOST).ok_or("a request needs one Host header")?;
        let is_other = |named: &str| !named.eq_ignore_ascii_case(host);
        if request.uri().authority().is_some_and(|named| is_other(named.as_str())) {
            return Err("the request's URL and its Host header differ");
        }
        if !self.knows(host) {
            return Err("this server has another name: add it to `hosts` of [web], or use its \
                        address");
        }
        let own = format!("{}://{host}", self.scheme);
        match one(headers, &header::ORIGIN) {
            Some(origin) if origin.eq_ignore_ascii_case(&own) => {}
            None if !headers.contains_key(header::ORIGIN) && request.method().is_safe() => {}
            _ => return Err("another site has caused this request"),
        }
        let site = HeaderName::from_static("sec-fetch-site");
        let is_own = |site: &str| site == "same-origin" || site == "none";
        // A link on another site may lead to the page itself.
        let is_link = request.uri().path() == "/" && request.method().is_safe();
        if headers.contains_key(&site) && !one(headers, &site).is_some_and(is_own) && !is_link {
            return Err("another site has caused this request");
        }
        Ok(())
    }

    /// Whether a `Host` header means this server. An address does: only names can be pointed here.
    fn knows(&self, host: &str) -> bool {
        let Ok(uri) = host.parse::<Uri>() else { return false };
        let Some(name) = uri.host() else { return false };
        // With the user's name in front it is none that a browser sends.
        let is_plain = !host.contains('@');
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let is_known = |own: &String| own.eq_ignore_ascii_case(name);
        is_plain && (bare.parse::<IpAddr>().is_ok() || self.names.iter().any(is_known))
    }

    /// Whether the reader has the token, or none is needed.
    pub(crate) fn is_open_to(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let bearer = one(headers, &header::AUTHORIZATION).and_then(|v| v.strip_prefix("Bearer "));
        if bearer.is_some_and(|given| is_equal(given, &token.text)) {
            return true;
        }
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|v| v.to_str().ok());
        let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|c| c.split_once('='));
        pairs.any(|(name, value)| name.trim() == token.cookie && is_equal(value, &token.session))
    }

    /// The cookie for a reader that gives the token in a form; `None`: it is wrong.
    pub(crate) fn log_in(&self, form: &[u8]) -> Option<String> {
        let token = self.token.as_ref()?;
        let given = std::str::from_utf8(form).ok()?.strip_prefix("token=")?;
        let secure = if self.scheme == "https" { "; Secure" } else { "" };
        is_equal(given, &token.text).then(|| {
            let Token { cookie, session, .. } = token;
            format!("{cookie}={session}; Path=/; HttpOnly; SameSite=Strict{secure}")
        })
    }
}

impl Token {
    fn read(file: &Path, is_secure: bool, port: u16) -> Result<Token, String> {
        let told = |why: &str| format!("{}: {why}", file.display());
        let text = std::fs::read_to_string(file).map_err(|e| told(&e.to_string()))?;
        let text = text.trim();
        // Forms and headers carry these characters unescaped.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if !TOKEN.contains(&text.len()) || !text.chars().all(is_plain) {
            return Err(told(
                "a token has 16 to 512 letters, digits, '-', '.' and '_': make one with \
                 `openssl rand -hex 24`",
            ));
        }
        let mut random = [0; 32];
        // The kernel gives so few bytes at once, or none.
        let given = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        if given != Ok(random.len()) {
            return Err("the kernel gives no random bytes".into());
        }
        let session = random.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        // Browsers accept a cookie with this prefix only over TLS.
        let prefix = if is_secure { "__Host-" } else { "" };
        Ok(Token { text: text.to_string(), session, cookie: format!("{prefix}plexus-{port}") })
    }
}

/// The value of a header that is there once.
fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// Compares secrets in a time that depends on their lengths alone.
fn is_equal(a: &str, b: &str) -> bool {
    let differing = a.bytes().zip(b.bytes()).fold(0, |differing, (a, b)| differing | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(hosts: &[&str]) -> Gate {
        let mut settings = WebSettings::new("127.0.0.1:8440".parse().unwrap());
        settings.hosts = hosts.iter().map(ToString::to_string).collect();
        Gate::new(&settings, 8440).unwrap()
    }

    fn request(uri: &str, headers: &[(&'static str, &str)]) -> Request<()> {
        let all = headers.iter().fold(Request::builder().uri(uri), |r, (k, v)| r.header(*k, *v));
        all.body(()).unwrap()
    }

    #[test]
    fn hosts_are_addresses_localhost_and_the_names_of_the_file() {
        let gate = gate(&["plexus.example"]);
        for host in ["127.0.0.1:8440", "[::1]:8440", "localhost", "LOCALHOST:1", "10.0.0.7:80"] {
            assert_eq!(gate.admit(&request("/api/stream", &[("host", host)])), Ok(()), "{host}");
        }
        assert_eq!(gate.admit(&request("/", &[("host", "Plexus.Example:8440")])), Ok(()));
        let forged = [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:8440",
            "evil.example:8440",
            "u@localhost",
            "",
        ];
        for host in forged {
            assert!(gate.admit(&request("/", &[("host", host)])).is_err(), "{host}");
        }
        assert!(gate.admit(&request("/", &[])).is_err());
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert!(gate.admit(&request("/", &two)).is_err());
        let other = request("http://evil.example/", &[("host", "localhost")]);
        assert!(gate.admit(&other).is_err());
    }

    #[test]
    fn other_sites_may_only_link_to_the_page() {
        let gate = gate(&[]);
        let from = |uri: &str, header: &'static str, value: &str| {
            gate.admit(&request(uri, &[("host", "localhost:8440"), (header, value)]))
        };
        assert_eq!(from("/api/stream", "origin", "http://localhost:8440"), Ok(()));
        for origin in ["http://evil.example", "null", "https://localhost:8440", "http://localhost"]
        {
            assert!(from("/api/stream", "origin", origin).is_err(), "{origin}");
        }
        assert_eq!(from("/api/stream", "sec-fetch-site", "same-origin"), Ok(()));
        assert!(from("/api/stream", "sec-fetch-site", "cross-site").is_err());
        assert!(from("/api/stream", "sec-fetch-site", "same-site").is_err());
        assert_eq!(from("/", "sec-fetch-site", "cross-site"), Ok(()));
    }

    #[test]
    fn commands_need_the_origin_of_the_page() {
        let gate = gate(&[]);
        let post = |headers: &[(&'static str, &str)]| {
            let mut request = request("/api/command", headers);
            *request.method_mut() = hyper::Method::POST;
            gate.admit(&request)
        };
        assert!(post(&[("host", "localhost")]).is_err());
        assert!(post(&[("host", "localhost"), ("origin", "http://evil.example")]).is_err());
        assert_eq!(post(&[("host", "localhost"), ("origin", "http://localhost")]), Ok(()));
    }
}
