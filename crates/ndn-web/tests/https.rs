//! Upstream sites by https: which certificates the producer accepts, and how it handles ends,
//! redirects and timeouts. Certificates are created for each run.

#[path = "../../ndn-apps/tests/relay/mod.rs"]
mod relay;
mod rig;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

use plexus_ndn_web::upstream::{Config, Origin, Tls};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd,
};
use relay::Relay;
use rig::{Answer, Client, Threads, pattern};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

type Secure = BufReader<StreamOwned<ServerConnection, TcpStream>>;

/// An authority with its certificate in a file.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Authority { issuer: Issuer::new(params, key), certificate }
    }

    fn trusted(&self, relay: &Relay) -> Tls {
        let file = relay.folder.join("ca.pem");
        fs::write(&file, self.certificate.pem()).unwrap();
        Tls::file(&file).unwrap()
    }

    /// A server's configuration, with a certificate for a name until a year.
    fn server(&self, name: &str, last_year: i32) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_string()]).unwrap();
        params.not_after = date_time_ymd(last_year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        server(&certificate, &key)
    }
}

fn server(certificate: &Certificate, key: &KeyPair) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(ring).with_safe_default_protocol_versions();
    let config = config.unwrap().with_no_client_auth();
    Arc::new(config.with_single_cert(vec![certificate.der().clone()], key).unwrap())
}

/// A server; a function handles each connection.
fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream.unwrap()));
        }
    });
    at
}

/// A TLS server with a function for the requests of each target.
fn listen_tls(
    config: Arc<ServerConfig>,
    answer: impl Fn(&mut Secure, &str) + Send + Sync + 'static,
) -> SocketAddr {
    listen(move |stream| serve_tls(&config, stream, &answer))
}

fn serve_tls(config: &Arc<ServerConfig>, stream: TcpStream, answer: &dyn Fn(&mut Secure, &str)) {
    let connection = ServerConnection::new(config.clone()).unwrap();
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        // A client that refuses this server's certificate closes the connection.
        if !stream.read_line(&mut head).is_ok_and(|len| len > 0) {
            return;
        }
    }
    assert!(head.to_ascii_lowercase().contains("\r\nhost: h\r\n"), "{head}");
    let target = head.split(' ').nth(1).unwrap().to_string();
    answer(&mut stream, &target);
    let _ = stream.get_mut().flush();
}

/// Writes, and closes the TLS session.
fn say(stream: &mut Secure, text: &str) {
    let stream = stream.get_mut();
    stream.write_all(text.as_bytes()).unwrap();
    stream.conn.send_close_notify();
    let _ = stream.flush();
}

/// An upstream site behind a producer, a relay and a proxy.
struct Rig {
    threads: Threads,
    relay: Relay,
    proxy: SocketAddr,
    told: Receiver<String>,
}

impl Rig {
    fn new(name: &str, authority: &Authority, is_secure: bool, upstream: SocketAddr) -> Rig {
        let relay = Relay::new(name);
        let tls = authority.trusted(&relay);
        Rig::with(relay, tls, is_secure, upstream, Duration::from_secs(20))
    }

    fn with(
        relay: Relay,
        tls: Tls,
        is_secure: bool,
        upstream: SocketAddr,
        patience: Duration,
    ) -> Rig {
        let mut threads = Threads::new();
        let config = Config {
            origin: Origin::new(is_secure, &upstream.to_string()).unwrap(),
            tls,
            host: "h".into(),
            segment_size: 8000,
            freshness: Duration::ZERO,
            bytes_max: 64 << 20,
            body_max: 16 << 20,
            patience,
        };
        let told = threads.publish_site(&relay, config);
        let proxy = threads.proxy(&relay, Duration::from_secs(20));
        Rig { threads, relay, proxy, told }
    }

    fn get(&self, target: &str) -> Answer {
        Client::new(self.proxy).ask(&format!("GET {target} HTTP/1.1"))
    }

    /// The failure, as reported to the client and to the operator.
    #[track_caller]
    fn refused(&self, target: &str) -> String {
        let answer = self.get(target);
        let text = String::from_utf8(answer.body).unwrap();
        assert_eq!(answer.status, 502, "{text}");
        let why = self.told.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(text, format!("h: {why}\n"));
        why
    }
}

#[test]
fn a_site_is_fetched_by_https() {
    let authority = Authority::new();
    let upstream = listen_tls(authority.server("h", 9999), |stream, target| match target {
        "/large" => {
            let body = pattern(2_500_000);
            let stream = stream.get_mut();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&body).unwrap();
            // Without a close: the length has told the end.
            let _ = stream.flush();
            let _ = stream.sock.shutdown(Shutdown::Write);
        }
        "/until-the-end" => say(stream, "HTTP/1.1 200 OK\r\n\r\nall of it"),
        "/in-pieces" => {
            // Slow, but never silent for longer than the timeout.
            let stream = stream.get_mut();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap();
            for byte in b"piece" {
                stream.write_all(&[*byte]).unwrap();
                stream.flush().unwrap();
                thread::sleep(Duration::from_millis(20));
            }
        }
        _ => say(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone"),
    });
    let rig = Rig::new("https", &authority, true, upstream);
    let large = rig.get("/large");
    assert!(large.status == 200 && large.body == pattern(2_500_000));
    assert_eq!(rig.get("/until-the-end").body, b"all of it");
    assert_eq!(rig.get("/in-pieces").body, b"piece");
    let gone = rig.get("/gone");
    assert_eq!((gone.status, &gone.body[..]), (404, &b"gone"[..]));
    assert!(rig.told.try_recv().is_err());
}

#[test]
fn certificates_that_are_not_right_are_refused_with_what_to_do() {
    let authority = Authority::new();
    let never = |_: &mut Secure, _: &str| panic!("the producer has sent a request");
    let key = KeyPair::generate().unwrap();
    let mut own = CertificateParams::new(["h".to_string()]).unwrap();
    own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    own.distinguished_name.push(DnType::CommonName, "h");
    let own = own.self_signed(&key).unwrap();
    let other = Authority::new();
    for (name, config, told) in [
        // All authorities of the tests have the same name.
        ("https-other", other.server("h", 9999), "not from an authority trusted here"),
        ("https-name", authority.server("x\u{1b}[2J.example", 9999), "not for h: name the site"),
        ("https-old", authority.server("h", 2001), "has expired: it has to be renewed"),
        ("https-own", server(&own, &key), "an authority's own (CA:TRUE)"),
    ] {
        let rig = Rig::new(name, &authority, true, listen_tls(config, never));
        let why = rig.refused("/");
        assert!(why.contains(told) && !why.contains('\u{1b}'), "{why}");
        // Again: it is reported to the operator once.
        assert_eq!(rig.get("/other").status, 502);
        assert!(rig.told.try_recv().is_err());
    }
    // Its own certificate is given with --ca, and claims to be an authority's.
    let relay = Relay::new("https-ca-true");
    let file = relay.folder.join("own.pem");
    fs::write(&file, own.pem()).unwrap();
    let tls = Tls::file(&file).unwrap();
    let upstream = listen_tls(server(&own, &key), never);
    let rig = Rig::with(relay, tls, true, upstream, Duration::from_secs(20));
    assert!(rig.refused("/").contains("CA:FALSE"));
}

#[test]
fn files_of_authorities_are_checked_before_anything_is_asked() {
    let relay = Relay::new("https-files");
    let file = relay.folder.join("ca.pem");
    let of = |text: &[u8]| {
        fs::write(&file, text).unwrap();
        Tls::file(&file).unwrap_err()
    };
    let (begin, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----");
    for (text, told) in [
        ("".into(), "there is no certificate in it"),
        ("\0\u{ff}".into(), "there is no certificate in it"),
        (format!("{begin}\nAAAA\n"), "not PEM"),
        (format!("{begin}\n!\n{end}\n"), "not PEM"),
        (format!("{begin}\nAAAA\n{end}\n"), "certificate 1: "),
    ] {
        let why = of(text.as_bytes());
        assert!(why.starts_with(&file.display().to_string()) && why.contains(told), "{why}");
    }
    let two = Authority::new().certificate.pem() + &Authority::new().certificate.pem();
    fs::write(&file, two).unwrap();
    assert_eq!(Tls::file(&file).unwrap().authorities, 2);
}

#[test]
fn truncated_responses_are_not_published() {
    let authority = Authority::new();
    let upstream = listen_tls(authority.server("h", 9999), |stream, target| match target {
        "/short" => say(stream, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"),
        // Anyone on the path can end a TCP connection: without a length only TLS's own end counts.
        "/cut" | "/cut-length" => {
            let length = if target == "/cut" { "" } else { "Content-Length: 10\r\n" };
            let text = format!("HTTP/1.1 200 OK\r\n{length}\r\nhalf");
            let stream = stream.get_mut();
            stream.write_all(text.as_bytes()).unwrap();
            stream.flush().unwrap();
            stream.sock.shutdown(Shutdown::Write).unwrap();
        }
        _ => say(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf"),
    });
    let rig = Rig::new("https-cut", &authority, true, upstream);
    for target in ["/short", "/cut-length", "/chunks"] {
        assert_eq!(rig.get(target).status, 502, "{target}");
    }
    let cut = rig.get("/cut");
    let text = String::from_utf8_lossy(&cut.body).to_string();
    assert!(cut.status == 502 && text.contains("close_notify"), "{text}");
}

#[test]
fn silent_sites_time_out() {
    let authority = Authority::new();
    let secure = authority.server("h", 9999);
    let wait = || thread::sleep(Duration::from_secs(3600));
    // No handshake; no answer; half an answer.
    let deaf = listen(move |_stream| wait());
    let mute = listen_tls(secure.clone(), move |_, _| wait());
    let stuck = listen_tls(secure, move |stream, _| {
        let stream = stream.get_mut();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").unwrap();
        stream.flush().unwrap();
        wait();
    });
    for (name, upstream, told) in [
        ("https-deaf", deaf, "no data for 200ms"),
        ("https-mute", mute, "no data for 200ms"),
        ("https-stuck", stuck, "it stopped in the middle"),
    ] {
        let relay = Relay::new(name);
        let tls = authority.trusted(&relay);
        let rig = Rig::with(relay, tls, true, upstream, Duration::from_millis(200));
        assert_eq!(rig.refused("/"), told);
    }
    // Plain HTTP where TLS is expected.
    let plain = listen(move |mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        wait();
    });
    let rig = Rig::new("https-plain", &authority, true, plain);
    assert!(rig.refused("/").contains("does not speak TLS"));
}

#[test]
fn a_site_that_moves_to_https_is_followed_and_others_are_not() {
    let authority = Authority::new();
    let secure = authority.server("h", 9999);
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let other_port = other.local_addr().unwrap().port();
    // Both schemes at one port.
    let both = listen(move |stream| {
        let mut first = [0];
        let port = stream.local_addr().unwrap().port();
        // A handshake's first byte (RFC 8446, 5.1).
        match stream.peek(&mut first) {
            Ok(1) if first == [22] => serve_tls(&secure, stream, &moved_here),
            _ => send_to_https(stream, port, other_port),
        }
    });
    let rig = Rig::new("https-moved", &authority, false, both);
    let page = rig.get("/page?q=1");
    assert_eq!((page.status, &page.body[..]), (200, &b"page"[..]));
    let at_port = format!("https://h:{other_port}/port");
    for (target, location) in [
        ("/other", "https://other.example/other"),
        ("/moved", "/elsewhere"),
        ("/on", "/on/?x"),
        ("/port", at_port.as_str()),
    ] {
        let answer = rig.get(target);
        assert!(matches!(answer.status, 301 | 302), "{}", answer.head);
        assert_eq!(answer.header("location"), Some(location));
    }
    // The site does not choose where the producer connects.
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_err());
    assert_eq!(rig.get("/elsewhere").body, b"/elsewhere");
    assert!(rig.refused("/back").contains("it redirects this request to itself"));
    // Only to a server that can prove to be the site.
    let (relay, tls) = (Relay::new("https-moved-not"), Authority::new());
    let tls = tls.trusted(&relay);
    let moved = Rig::with(relay, tls, false, both, Duration::from_secs(20));
    assert!(moved.refused("/page").contains("not from an authority trusted here"));
    drop((rig.threads, rig.relay));
}

/// The site by https.
fn moved_here(stream: &mut Secure, target: &str) {
    let answer = match target {
        "/page?q=1" => "200 OK\r\nContent-Length: 4\r\n\r\npage".into(),
        "/back" => "301 x\r\nLocation: http://h/back\r\nContent-Length: 0\r\n\r\n".into(),
        "/on" => "302 x\r\nLocation: http://h/on/?x\r\nContent-Length: 0\r\n\r\n".into(),
        _ => format!("404 x\r\nContent-Length: {}\r\n\r\n{target}", target.len()),
    };
    say(stream, &format!("HTTP/1.1 {answer}"));
}

/// Redirects a request to https, mostly to the same target.
fn send_to_https(stream: TcpStream, port: u16, other_port: u16) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
    let Some(target) = head.split(' ').nth(1) else { return };
    let to = match target {
        "/other" => "https://other.example/other".into(),
        "/moved" => format!("https://h:{port}/elsewhere"),
        "/port" => format!("https://h:{other_port}/port"),
        _ => format!("https://h:{port}{target}"),
    };
    let answer = format!("HTTP/1.1 301 x\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
    let _ = stream.get_mut().write_all(answer.as_bytes());
}
