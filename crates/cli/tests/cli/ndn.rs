//! `plexus ndn`: what people type and scripts read, with a relay in the forwarder's place.

#[path = "../../../ndn-apps/tests/relay/mod.rs"]
mod relay;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStderr, Command, Output};
use std::time::Duration;

use crate::common::{self, Running, Signal};
use relay::Relay;
use serde_json::Value;

fn plexus(relay: &Relay, arguments: &[&str]) -> Command {
    let mut command = common::plexus(&["ndn"]);
    command.args(arguments).current_dir(&relay.folder);
    command.env("NDN_CLIENT_TRANSPORT", relay.uri.to_string());
    command
}

/// Runs it; its arguments are words.
fn run(relay: &Relay, words: &str) -> Output {
    plexus(relay, &words.split_whitespace().collect::<Vec<_>>()).output().unwrap()
}

/// A command that runs until the test ends, and has said that it is ready.
struct Service {
    child: Running,
    told: BufReader<ChildStderr>,
    first: String,
}

impl Service {
    fn new(relay: &Relay, arguments: &[&str]) -> Service {
        let mut child = Running(plexus(relay, arguments).spawn().unwrap());
        let mut told = BufReader::new(child.0.stderr.take().unwrap());
        let mut first = String::new();
        told.read_line(&mut first).unwrap();
        Service { child, told, first }
    }

    /// Ends it as Ctrl-C does; gives what it printed.
    fn end(mut self) -> String {
        common::signal(&self.child.0, Signal::INT);
        let mut out = String::new();
        self.child.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let mut rest = String::new();
        self.told.read_to_string(&mut rest).unwrap();
        assert!(self.child.0.wait().unwrap().success(), "{rest}");
        out
    }
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|e| panic!("{e}: {bytes:?}"))
}

#[test]
fn a_file_is_served_and_fetched() {
    let relay = Relay::new("cli-files");
    fs::write(relay.folder.join("file"), vec![3; 100_000]).unwrap();
    let serve = Service::new(&relay, &["serve", "/f", "file", "--json"]);
    assert!(serve.first.starts_with("publishing file as /f at unix://"), "{}", serve.first);
    let fetched = run(&relay, "fetch /f -o copy --json");
    let report = json(&fetched.stdout);
    assert_eq!((&report["bytes"], &report["segments"]), (&100_000.into(), &13.into()));
    assert!(report["name"].as_str().unwrap().starts_with("/f/v="), "{report}");
    assert!(report["rtt_us_p50"].is_u64() && report["goodput_bits_per_s"].is_f64(), "{report}");
    assert_eq!(fs::read(relay.folder.join("copy")).unwrap(), vec![3; 100_000]);
    // To standard output goes the object alone.
    let piped = run(&relay, "fetch /f --json");
    assert_eq!(piped.stdout, vec![3; 100_000]);
    assert_eq!(json(&piped.stderr)["bytes"], 100_000);
    for (name, told) in [("/f/none", "the producer has no /f/none"), ("/g", "no route to /g")] {
        let out = run(&relay, &format!("fetch {name} -o none"));
        let text = String::from_utf8_lossy(&out.stderr).to_string();
        assert_eq!(out.status.code(), Some(1), "{text}");
        assert!(text.contains(told) && !text.contains("metadata"), "{text}");
        assert!(!relay.folder.join("none").exists(), "what is not there makes no file");
    }
    let counted = json(serve.end().as_bytes());
    assert_eq!((&counted["segments"], &counted["made"]), (&26.into(), &13.into()));
}

#[test]
fn traffic_is_generated_and_measured() {
    let relay = Relay::new("cli-traffic");
    let produce = ["produce", "--prefix", "/b", "--size", "500", "--json"];
    let produce = Service::new(&relay, &produce);
    fs::write(relay.folder.join("list"), "# names\n/x\nhttp://h/a?b\n\n/y\n").unwrap();
    let report = json(&run(&relay, "gen --prefix /b --trace list --verify --json").stdout);
    assert_eq!((&report["satisfied"], &report["bytes"]), (&3.into(), &1500.into()));
    let zipf = "gen --prefix /b --catalogue 100 --chunks 4 --zipf 1 --window 8 --consumers 2 \
                --duration 200ms --warm-up 50ms --chunk-size 500 --json";
    let out = run(&relay, zipf);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let report = json(&out.stdout);
    assert!(report["data_per_s"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["nacked"]["no_route"], 0);
    let nobody = run(&relay, "gen --prefix /c --duration 50ms");
    let told = String::from_utf8_lossy(&nobody.stderr).to_string();
    assert!(nobody.status.code() == Some(1) && told.contains("nothing below /c"), "{told}");
    assert!(json(produce.end().as_bytes())["data"].as_u64().unwrap() > 3);
}

#[test]
fn a_folder_is_shown_to_browsers() {
    let relay = Relay::new("cli-web");
    fs::write(relay.folder.join("index.html"), "<p>").unwrap();
    let publish = Service::new(&relay, &["web-publish", "/w", ".", "--json"]);
    let proxy = Service::new(&relay, &["web-proxy", "--prefix", "/w", "--listen", "127.0.0.1:0"]);
    let at = proxy.first.trim().strip_prefix("answering at http://").unwrap();
    let mut stream = TcpStream::connect(at.trim_end_matches('/')).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("<p>"), "{answer}");
    proxy.end();
    assert_eq!(json(publish.end().as_bytes())["metadata"], 1);
}

#[test]
fn what_cannot_be_run_is_refused() {
    let relay = Relay::new("cli-bad");
    fs::write(relay.folder.join("list"), "/a\nb\n").unwrap();
    fs::write(relay.folder.join("packet"), "\x06\x00").unwrap();
    for (arguments, told) in [
        ("fetch /a --transport unix:///nonexistent", "cannot reach a forwarder at unix:///none"),
        ("fetch /a --transport ws://127.0.0.1", "write unix:, tcp: or udp:"),
        ("fetch a", "it has to begin with \"/\""),
        ("serve /a nothing", "nothing: No such file"),
        ("serve /a list --key list", "--certificate <FILE>"),
        ("serve /a list --key list --certificate none", "--certificate none: No such file"),
        ("serve /a list --key none --certificate packet", "--key none: No such file"),
        ("produce --prefix /a --key list --certificate packet", "--key list: there is no private"),
        ("gen --prefix /a --trace list", "list:2:"),
        ("gen --prefix /a --zipf -1", "unexpected argument"),
        ("gen --prefix /a --zipf 99", "the exponent of Zipf's law is 0 to 20"),
        ("gen --prefix /a --rate 0", "a rate is above 0"),
        ("produce --prefix /a --size 9000", "a packet has room for"),
        ("web-publish /a ftp://h/", "ftp: a site is asked by http or https"),
        ("web-publish /a https://h/ --ca /none", "--ca /none: No such file"),
        ("web-publish /a https://h/ --ca list", "there is no certificate in it"),
        ("web-publish /a https://u:p@h/", "a site is http://HOST"),
        ("web-publish /a http://h/a", "a site is http://HOST"),
        ("web-proxy --prefix /a --site a/b", "--site 'a/b'"),
    ] {
        let out = run(&relay, arguments);
        let text = String::from_utf8_lossy(&out.stderr).to_string();
        assert_eq!(out.status.code(), Some(2), "{arguments}: {text}");
        assert!(text.contains(told), "{arguments}: {text}");
    }
}
