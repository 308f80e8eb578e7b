//! Browsers' requests, served from named data over real sockets: a folder and an upstream site, a
//! relay, the proxy.

#[path = "../../ndn-apps/tests/relay/mod.rs"]
mod relay;
mod rig;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use plexus_ndn_apps::files::{Files, Tree};
use plexus_ndn_apps::publisher::{Found, Library};
use plexus_ndn_web::folder::Folder;
use plexus_ndn_web::upstream::{Config, Origin, Tls};
use plexus_wire::Time;
use plexus_wire::ndn::Name;
use relay::Relay;
use rig::{Client, Threads, pattern};

/// A proxy for a folder, which is published until the end.
fn published(relay: &Relay) -> (Threads, SocketAddr) {
    let mut threads = Threads::new();
    threads.publish(relay, folder(relay), |_| {});
    let at = threads.proxy(relay, Duration::from_secs(20));
    (threads, at)
}

fn folder(relay: &Relay) -> Files<Folder> {
    let path = relay.folder.join("site");
    std::fs::create_dir_all(path.join("sub")).unwrap();
    std::fs::write(path.join("index.html"), "<h1>named</h1>").unwrap();
    std::fs::write(path.join("sub/large.bin"), pattern(1_000_000)).unwrap();
    std::fs::write(path.join("empty.txt"), "").unwrap();
    let tree = Tree::open(&path).unwrap();
    let freshness = Duration::from_millis(50);
    Files::new(Folder { tree, host: "h".into(), segment_size: 8000, freshness })
}

#[test]
fn a_browser_reads_a_folder() {
    let relay = Relay::new("folder");
    let (_threads, at) = published(&relay);
    let mut client = Client::new(at);
    let page = client.ask("GET / HTTP/1.1");
    assert_eq!((page.status, &page.body[..]), (200, &b"<h1>named</h1>"[..]));
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    // The same connection continues, also after answers without a body.
    let etag = page.header("etag").unwrap().to_string();
    assert_eq!(client.ask(&format!("GET / HTTP/1.1\r\nIf-None-Match: {etag}")).status, 304);
    let head = client.ask("HEAD /sub/large.bin HTTP/1.1");
    assert_eq!((head.status, head.header("content-length")), (200, Some("1000000")));
    let before = relay.packets.load(Ordering::Relaxed);
    let range = client.ask("GET /sub/large.bin HTTP/1.1\r\nRange: bytes=7990-8010");
    assert_eq!((range.status, &range.body[..]), (206, &pattern(8011)[7990..]));
    // Metadata and two segments, each as Interest and Data.
    assert_eq!(relay.packets.load(Ordering::Relaxed) - before, 6);
    let large = client.ask("GET http://h/sub/large.bin HTTP/1.1");
    assert!(large.status == 200 && large.body == pattern(1_000_000));
    let tail = client.ask("GET /sub/large.bin HTTP/1.1\r\nRange: bytes=-3");
    assert_eq!((tail.status, &tail.body[..]), (206, &pattern(1_000_000)[999_997..]));
    assert_eq!(client.ask("GET /empty.txt HTTP/1.1").status, 200);
    let moved = client.ask("GET /sub HTTP/1.1");
    assert_eq!((moved.status, moved.header("location")), (301, Some("/sub/")));
    for (request, status) in [
        ("GET /none HTTP/1.1", 404),
        ("GET http://other/ HTTP/1.1", 404),
        ("GET /sub/large.bin HTTP/1.1\r\nRange: bytes=1000000-", 416),
        ("GET /%zz HTTP/1.1", 400),
        ("GET https://h/ HTTP/1.1", 501),
        ("POST / HTTP/1.1", 405),
        ("OPTIONS * HTTP/1.1", 405),
        ("HEAD /none HTTP/1.1", 404),
    ] {
        assert_eq!(client.ask(request).status, status, "{request}");
    }
    let long = format!("GET /{} HTTP/1.1", "a".repeat(4000));
    assert_eq!(client.ask(&long).status, 414);
    assert_eq!(client.ask("CONNECT h:443 HTTP/1.1").status, 501);
}

#[test]
fn hostile_requests_end_their_connection_and_nothing_else() {
    let relay = Relay::new("hostile");
    let (_threads, at) = published(&relay);
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[b'a'; 100_000],
    ] {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
    }
    // Idle connections beyond the limit do not keep others out for ever: closed ones make room.
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(at).unwrap()).collect();
    drop(silent);
    assert_eq!(Client::new(at).ask("GET / HTTP/1.1").status, 200);
}

#[test]
fn without_a_producer_the_gateway_says_so() {
    let relay = Relay::new("nobody");
    let mut threads = Threads::new();
    let at = threads.proxy(&relay, Duration::from_millis(300));
    assert_eq!(Client::new(at).ask("GET / HTTP/1.1").status, 502, "no route");
    // A producer that never answers.
    struct Never;
    impl Library for Never {
        fn find(&mut self, _: Time, _: Name<'_>, _: Name<'_>, _: Option<u64>) -> Found {
            Found::Later
        }
    }
    threads.publish(&relay, Never, |_| {});
    assert_eq!(Client::new(at).ask("GET / HTTP/1.1").status, 504);
}

/// A site that counts its requests, and declares `/page` fresh for an hour.
fn origin(requests: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if stream.read_line(&mut head).unwrap_or(0) == 0 {
                    break;
                }
            }
            requests.fetch_add(1, Ordering::SeqCst);
            let has_cookie = head.to_ascii_lowercase().contains("cookie");
            let target = head.split(' ').nth(1).unwrap_or_default();
            let answer = match target {
                _ if has_cookie => b"HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n".to_vec(),
                "/page?q=1" => b"HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\n\
                    Content-Type: text/plain\r\nSet-Cookie: a=b\r\nContent-Length: 4\r\n\r\npage"
                    .to_vec(),
                "/large" => {
                    let body = pattern(2_500_000);
                    let mut all =
                        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len())
                            .into_bytes();
                    all.extend_from_slice(&body);
                    all
                }
                "/cut" => b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf".to_vec(),
                _ => b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone".to_vec(),
            };
            let _ = stream.get_mut().write_all(&answer);
        }
    });
    at
}

#[test]
fn a_site_upstream_is_fetched_once_for_all() {
    let relay = Relay::new("upstream");
    let requests = Arc::new(AtomicUsize::new(0));
    let upstream = origin(requests.clone());
    let mut threads = Threads::new();
    let config = Config {
        origin: Origin::new(false, &upstream.to_string()).unwrap(),
        tls: Tls::system(),
        host: "h".into(),
        segment_size: 8000,
        freshness: Duration::ZERO,
        bytes_max: 64 << 20,
        body_max: 16 << 20,
        patience: Duration::from_secs(20),
    };
    let told = threads.publish_site(&relay, config);
    let at = threads.proxy(&relay, Duration::from_secs(20));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn(move || {
                let mut client = Client::new(at);
                let page = client.ask("GET /page?q=%31 HTTP/1.1\r\nCookie: secret");
                assert_eq!((page.status, &page.body[..]), (200, &b"page"[..]));
                assert_eq!(page.header("content-type"), Some("text/plain"));
                assert_eq!(page.header("cache-control"), Some("max-age=3600"));
                assert_eq!(page.header("set-cookie"), None);
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(requests.load(Ordering::SeqCst), 1);
    let mut client = Client::new(at);
    let large = client.ask("GET /large HTTP/1.1");
    assert!(large.status == 200 && large.body == pattern(2_500_000));
    let part = client.ask("GET /large HTTP/1.1\r\nRange: bytes=2000000-2000009");
    assert_eq!((part.status, &part.body[..]), (206, &pattern(2_000_010)[2_000_000..]));
    let gone = client.ask("GET /gone HTTP/1.1");
    assert_eq!((gone.status, &gone.body[..]), (404, &b"gone"[..]));
    let cut = client.ask("GET /cut HTTP/1.1");
    assert_eq!(cut.status, 502, "{}", String::from_utf8_lossy(&cut.body));
    let why = told.try_recv().unwrap();
    assert!(why.contains("end of file before message length reached"), "{why}");
}

#[test]
fn curl_gets_what_a_browser_would() {
    let relay = Relay::new("curl");
    let (_threads, at) = published(&relay);
    let curl = |arguments: &[&str]| {
        let out = Command::new("curl")
            .args(["-sS", "--max-time", "60", "--noproxy", ""])
            .args(arguments)
            .output();
        match out {
            Ok(out) => Some(out.stdout),
            Err(error) => {
                eprintln!("SKIPPED: curl cannot be run: {error}");
                None
            }
        }
    };
    let direct = format!("http://{at}/sub/large.bin");
    let proxy = format!("http://{at}");
    let Some(all) = curl(&[&direct]) else { return };
    assert!(all == pattern(1_000_000));
    let range = curl(&["-r", "123456-654321", "-x", &proxy, "http://h/sub/large.bin"]).unwrap();
    assert!(range == pattern(654_322)[123_456..]);
    // Two halves are one whole.
    let part = relay.folder.join("part");
    std::fs::write(&part, pattern(500_000)).unwrap();
    let part = part.display().to_string();
    curl(&["-C", "-", "-o", &part, &direct]);
    assert!(std::fs::read(&part).unwrap() == pattern(1_000_000));
    let code = curl(&["-o", "/dev/null", "-w", "%{http_code}", &format!("{proxy}/none")]);
    assert_eq!(code.unwrap(), b"404");
}

/// A page whose script requests a range and writes the result into the title.
const PAGE: &str = "<!doctype html><title>no script</title><script src=\"sub/range.js\"></script>";
const SCRIPT: &str = "fetch('/sub/large.bin', {headers: {Range: 'bytes=5-14'}}).then(async r => {\
    document.title = [r.status, (await r.arrayBuffer()).byteLength, location.host].join(' ')})";

#[test]
fn a_real_browser_runs_a_page() {
    let relay = Relay::new("browser");
    let (_threads, at) = published(&relay);
    std::fs::write(relay.folder.join("site/page.html"), PAGE).unwrap();
    std::fs::write(relay.folder.join("site/sub/range.js"), SCRIPT).unwrap();
    // As a site, and as the browser's proxy.
    let proxy = [format!("--proxy-server={at}"), "--proxy-bypass-list=<-loopback>".into()];
    for (host, options) in [(at.to_string(), &[][..]), ("h".into(), &proxy)] {
        let profile = format!("--user-data-dir={}", relay.folder.join("profile").display());
        let out = Command::new("timeout")
            .args(["60", "chromium", "--headless", "--no-sandbox", "--disable-gpu", &profile])
            // Its virtual clock stops while an answer is pending.
            .args(["--virtual-time-budget=5000", "--dump-dom"])
            .args(options)
            .arg(format!("http://{host}/page.html"))
            .output()
            .unwrap();
        if out.status.code() == Some(127) {
            return eprintln!("SKIPPED: there is no chromium");
        }
        let page = String::from_utf8_lossy(&out.stdout);
        let title = format!("<title>206 10 {host}</title>");
        assert!(page.contains(&title), "{page}\n{}", String::from_utf8_lossy(&out.stderr));
    }
}
