//! Which readers are admitted.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use plexus_config::WebSettings;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use crate::rig::{Made, Reader, connect, get, say, serve, settings};

/// A folder that goes with the test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

const TOKEN: &str = "0123456789abcdef-x";

#[test]
fn forged_hosts_and_origins_get_nothing() {
    let page = serve(&settings(), Made::new(4, 2, 10));
    let at = page.address;
    for (path, header) in [
        ("/", "Host: evil.example"),
        ("/api/stream", "Host: evil.example"),
        ("/api/ways/-/02:00:00:00:00:01", "Host: localhost.evil.example:80"),
        ("/api/stream", "Origin: http://evil.example"),
        ("/api/stream", "Origin: null"),
        ("/api/stream", "Sec-Fetch-Site: cross-site"),
    ] {
        let answer = get(at, path, &[header]);
        assert_eq!(answer.status, 403, "{path} {header}: {answer:?}");
        assert!(!answer.body.contains("leaf"), "{answer:?}");
    }
    let told = get(at, "/", &["Host: evil.example"]).body;
    assert!(told.contains("add it to `hosts` of [web]"), "{told}");
    let both = get(at, "/", &["Host: localhost", "Host: evil.example"]);
    assert!(matches!(both.status, 400 | 403), "{both:?}");
    assert_eq!(get(at, "/", &[]).status, 200);
    assert_eq!(get(at, "/", &["Host: localhost:9"]).status, 200, "a tunnel's other port");
    // A command of another site.
    let post = |origin: &str| {
        let request = format!(
            "POST /api/command HTTP/1.1\r\nHost: {at}\r\n{origin}Content-Length: 14\r\n\
             Connection: close\r\n\r\n{{\"pause\":true}}"
        );
        say(&mut connect(at), &request)
    };
    assert_eq!(post("Origin: http://evil.example\r\n").status, 403);
    assert_eq!(post("").status, 403);
    // From the page itself it is refused because nothing can be commanded.
    let told = post(&format!("Origin: http://{at}\r\n"));
    assert_eq!((told.status, told.body.trim().ends_with("changes nothing")), (409, true));
}

#[test]
fn answers_keep_scripts_frames_and_other_sites_out() {
    let page = serve(&settings(), Made::new(2, 1, 2));
    for path in ["/", "/page.js", "/api/routes/10.0.0.0/8", "/none"] {
        let head = get(page.address, path, &[]).head.to_ascii_lowercase();
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self';",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
            "referrer-policy: same-origin",
        ] {
            assert!(head.contains(header), "{path}: {header}: {head}");
        }
    }
    // The files name no other place than this server.
    for path in ["/", "/page.js", "/page.css"] {
        let body = get(page.address, path, &[]).body;
        let urls = body.match_indices("//").filter(|(i, _)| body[..*i].ends_with(':'));
        let foreign: Vec<&str> =
            urls.map(|(i, _)| &body[i..body.floor_char_boundary(i + 30)]).collect();
        assert!(foreign.iter().all(|url| url.starts_with("//www.w3.org/")), "{foreign:?}");
    }
}

#[test]
fn odd_requests_are_answered() {
    let page = serve(&settings(), Made::new(2, 1, 2));
    let at = page.address;
    for (path, status) in [
        ("/api/", 404),
        ("/api/ways/-/-", 404),
        ("/api/ways/x/-", 404),
        ("/api/ways/02:00:00:00:00:01", 404),
        ("/api/routes/10.0.0.0", 404),
        ("/api/routes/10.0.0.0/99", 404),
        ("/api/route/10.0.0.1", 409),
        ("/../../etc/passwd", 404),
        ("/page.js/", 404),
        ("//page.js", 404),
    ] {
        assert_eq!(get(at, path, &[]).status, status, "{path}");
    }
    let lines = format!("Host: {at}\r\nConnection: close\r\n\r\n");
    for (method, status) in [("HEAD", 200), ("PUT", 405), ("DELETE", 405)] {
        // Only requests that change nothing may come without an origin.
        let origin = format!("Origin: http://{at}\r\n");
        let request = format!("{method} / HTTP/1.1\r\n{origin}{lines}");
        assert_eq!(say(&mut connect(at), &request).status, status, "{method}");
    }
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n{lines}", "x".repeat(1 << 20));
    let mut stream = connect(at);
    let _ = stream.write_all(long.as_bytes());
    let big = format!(
        "POST /api/command HTTP/1.1\r\nHost: {at}\r\nOrigin: http://{at}\r\n\
         Content-Length: 9000\r\nConnection: close\r\n\r\n{}",
        " ".repeat(9000)
    );
    assert_eq!(say(&mut connect(at), &big).status, 400);
    assert_eq!(get(at, "/", &[]).status, 200, "it still serves");
}

#[test]
fn a_token_opens_the_page_and_nothing_else_does() {
    let folder = Folder::new();
    let mut settings = settings();
    settings.token = Some(folder.write("token", &format!("{TOKEN}\n")));
    let page = serve(&settings, Made::new(4, 2, 10));
    let at = page.address;
    let shut = get(at, "/", &[]);
    assert_eq!(shut.status, 401);
    assert!(shut.body.contains("Token of this page"), "{}", shut.body);
    for header in ["X: y", "Authorization: Bearer 0123456789abcdef-y", "Cookie: plexus=x"] {
        for path in ["/api/stream", "/api/ways/-/02:00:00:00:00:01", "/api/none"] {
            let answer = get(at, path, &[header]);
            assert_eq!(answer.status, 401, "{path} {header}");
            assert!(!answer.body.contains("leaf"), "{}", answer.body);
        }
    }
    let asks = "/api/ways/-/02:00:00:00:00:01";
    assert_eq!(get(at, asks, &[&format!("Authorization: Bearer {TOKEN}")]).status, 200);
    // The form of the page.
    let log_in = |token: &str| {
        let form = format!("token={token}");
        let request = format!(
            "POST /login HTTP/1.1\r\nHost: {at}\r\nOrigin: http://{at}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{form}",
            form.len()
        );
        say(&mut connect(at), &request)
    };
    assert_eq!(log_in("wrong").status, 401);
    let opened = log_in(TOKEN);
    assert_eq!(opened.status, 303);
    let head = opened.head.to_ascii_lowercase();
    let (_, cookie) = head.split_once("set-cookie: ").unwrap();
    assert!(cookie.contains("httponly") && cookie.contains("samesite=strict"), "{cookie}");
    assert!(!cookie.contains(TOKEN), "the cookie is not the token");
    let cookie = cookie.split(';').next().unwrap();
    let with = [&*format!("Cookie: other=1; {cookie}")];
    assert_eq!(get(at, "/", &with).status, 200);
    assert_eq!(get(at, asks, &with).status, 200);
    let cut = &cookie[..cookie.len() - 1];
    assert_eq!(get(at, asks, &[&format!("Cookie: {cut}")]).status, 401);
}

#[test]
fn bad_files_are_explained() {
    let folder = Folder::new();
    let told =
        |settings: &WebSettings| plexus_web::serve(settings, Made::new(1, 1, 1)).unwrap_err();
    let mut short = settings();
    short.token = Some(folder.write("short", "secret"));
    assert!(told(&short).contains("a token has 16 to 512 letters"), "{}", told(&short));
    let mut none = settings();
    none.token = Some(folder.0.path().join("none"));
    assert!(told(&none).contains("No such file"), "{}", told(&none));
    let mut tls = settings();
    let junk = folder.write("junk.pem", "junk");
    tls.tls = Some((junk.clone(), junk));
    assert!(told(&tls).contains("there is no certificate in it"), "{}", told(&tls));
    let taken = serve(&settings(), Made::new(1, 1, 1));
    let again = told(&WebSettings::new(taken.address));
    assert!(again.contains("choose another `listen`"), "{again}");
}

#[test]
fn tls_serves_the_page_and_plain_http_gets_nothing() {
    let folder = Folder::new();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["plexus.example".into()]).unwrap();
    let own = own.signed_by(&key, &authority).unwrap();
    let mut settings = settings();
    let certificate = folder.write("own.pem", &own.pem());
    settings.tls = Some((certificate, folder.write("key.pem", &key.serialize_pem())));
    settings.hosts = vec!["plexus.example".into()];
    settings.token = Some(folder.write("token", TOKEN));
    let page = serve(&settings, Made::new(4, 2, 10));
    assert!(page.url.starts_with("https://127.0.0.1:"), "{}", page.url);

    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let over_tls = |request: &str| {
        let name = ServerName::try_from("plexus.example").unwrap();
        let client = ClientConnection::new(config.clone(), name).unwrap();
        say(&mut StreamOwned::new(client, connect(page.address)), request)
    };
    let lines = "Host: plexus.example\r\nConnection: close\r\n";
    assert_eq!(over_tls(&format!("GET / HTTP/1.1\r\n{lines}\r\n")).status, 401);
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let opened = over_tls(&format!("GET / HTTP/1.1\r\n{lines}{bearer}\r\n"));
    assert!(opened.status == 200 && opened.body.contains("<title>Plexus</title>"), "{opened:?}");
    let plain =
        over_tls(&format!("GET / HTTP/1.1\r\n{lines}Origin: http://plexus.example\r\n\r\n"));
    assert_eq!(plain.status, 403, "the origin of a page without TLS");
    let form = format!("token={TOKEN}");
    let log_in = format!(
        "POST /login HTTP/1.1\r\n{lines}Origin: https://plexus.example\r\n\
         Content-Length: {}\r\n\r\n{form}",
        form.len()
    );
    let head = over_tls(&log_in).head;
    assert!(head.contains("__Host-plexus-") && head.contains("Secure"), "{head}");
    // A reader that speaks HTTP without TLS hears nothing of the network. The page may
    // close the connection at the first byte, so the request goes out in one write.
    let mut stream = connect(page.address);
    stream.write_all(format!("GET / HTTP/1.1\r\n{lines}\r\n").as_bytes()).unwrap();
    let mut all = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut all);
    assert!(!all.starts_with(b"HTTP"), "{all:?}");
}

#[test]
fn the_stream_has_the_whole_network_and_then_what_changes() {
    let page = serve(&settings(), Made::new(4, 2, 10));
    let mut reader = Reader::new(page.address);
    let map = reader.event("map").unwrap();
    assert_eq!(map["boxes"].as_array().unwrap().len(), 6);
    assert_eq!(reader.event("hosts").unwrap()[3]["name"], crate::rig::HOSTILE);
    let first = reader.event("rates").unwrap();
    assert_eq!(first["cables"][0], serde_json::json!([null, null]));
    let second = reader.event("rates").unwrap();
    assert_eq!(second["cables"][0][0], 8_000_000);
}
