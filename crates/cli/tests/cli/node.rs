//! `plexus node` as its users meet it: frames through real devices, what it says about them, and
//! what it does when it is told, misused and starved.
//!
//! Every test has a network namespace and a directory of its own; its daemons end with it.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::common::{self, LIMIT, Running, Said, Signal, item, until};
use plexus_io::af_packet::AfPacketPort;
use plexus_io::namespace::Namespaces;
use plexus_io::{Batch, Pool, Port, pcap};
use plexus_wire::Time;
use serde_json::{Value, json};

mod buffers;
mod fast_table;
mod flows;
mod persist;
mod samples;

const BROADCAST: [u8; 6] = [0xFF; 6];

/// A network namespace with devices `n1`, `n2` … for a node and, at the other ends of their
/// cables, `h1`, `h2` … for stations.
struct Net {
    inside: Namespaces,
    dir: PathBuf,
}

impl Net {
    /// `None`, said aloud, where the test cannot run.
    fn new(cables: usize) -> Option<Net> {
        Net::with(cables, common::quiet)
    }

    /// The same, with namespaces that are set up from within.
    fn with(cables: usize, set_up: fn() -> std::io::Result<()>) -> Option<Net> {
        let [inside] = common::namespaces("the node", set_up)?;
        let net = Net { inside, dir: common::directory("node") };
        net.ip("link set lo up");
        (1..=cables).for_each(|i| net.cable(i));
        Some(net)
    }

    fn cable(&self, i: usize) {
        self.ip(&format!("link add n{i} type veth peer name h{i}"));
        self.ip(&format!("link set n{i} up"));
        self.ip(&format!("link set h{i} up"));
    }

    fn ip(&self, arguments: &str) {
        common::ip(&self.inside, arguments);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A node's file: its name, what comes after it, and its ports.
    fn write(&self, name: &str, rest: &str, ports: &[String]) -> PathBuf {
        let control = self.path(&format!("{name}.sock"));
        let mut text = format!("name = \"{name}\"\ncontrol = \"{}\"\n{rest}\n", control.display());
        for port in ports {
            text.push_str(&format!("[[port]]\n{port}\n"));
        }
        let path = self.path(&format!("{name}.toml"));
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        common::plexus_in(&self.inside, arguments)
    }

    /// Starts a node and waits until its links are up.
    fn node(&self, name: &str, rest: &str, ports: &[String]) -> Node<'_> {
        let node = self.start(name, rest, ports, &[], "info");
        assert!(until(|| node.links_are("up")), "{}", node.log());
        node
    }

    fn start(
        &self,
        name: &str,
        rest: &str,
        ports: &[String],
        options: &[&str],
        level: &str,
    ) -> Node<'_> {
        let config = self.write(name, rest, ports);
        let log = File::create(self.path(&format!("{name}.log"))).unwrap();
        let mut command = self.command(&["node", "run", "--config", config.to_str().unwrap()]);
        command.args(options).env("RUST_LOG", level).stdout(Stdio::null()).stderr(log);
        let child = RefCell::new(Running(command.spawn().unwrap()));
        Node { net: self, name: name.into(), child }
    }

    /// Runs a command to its end, within the limit.
    fn plexus(&self, arguments: &[&str]) -> Said {
        Said::of(&mut self.command(arguments))
    }

    fn run_node(&self, config: &Path) -> Said {
        self.plexus(&["node", "run", "--config", config.to_str().unwrap()])
    }

    fn station(&self, device: &str) -> Station {
        let open = || {
            let pool = Pool::new(512, 2048).unwrap();
            let port = AfPacketPort::open(device, device, &pool).unwrap();
            Station { pool, port }
        };
        self.inside.run(open).unwrap()
    }

    fn stations<const N: usize>(&self) -> [Station; N] {
        std::array::from_fn(|i| self.station(&format!("h{}", i + 1)))
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A daemon.
struct Node<'a> {
    net: &'a Net,
    name: String,
    child: RefCell<Running>,
}

impl Node<'_> {
    fn socket(&self) -> PathBuf {
        self.net.path(&format!("{}.sock", self.name))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.net.path(&format!("{}.log", self.name))).unwrap()
    }

    fn show(&self, what: &str, options: &[&str]) -> Said {
        let socket = self.socket();
        let mut arguments = vec!["show", what, "--control", socket.to_str().unwrap()];
        arguments.extend(options);
        self.net.plexus(&arguments)
    }

    /// What `show --json` prints, without that program.
    fn ask(&self, what: &str) -> Option<Value> {
        let answer = common::ask(&self.socket(), &json!({"show": what}))?;
        answer["error"].is_null().then_some(answer)
    }

    #[track_caller]
    fn facts(&self, what: &str) -> Value {
        self.ask(what).expect(what)
    }

    fn port(&self, name: &str) -> Value {
        item(&self.facts("ports")["ports"], "name", name)
    }

    /// (MAC's last byte, VLAN, port)
    fn macs(&self) -> Vec<(u8, u64, String)> {
        let macs = self.facts("macs");
        let row = |m: &Value| {
            let last = m["mac"].as_str().unwrap().rsplit([':', '-']).next().unwrap();
            let last = u8::from_str_radix(last, 16).unwrap();
            (last, m["vlan"].as_u64().unwrap(), m["port"].as_str().unwrap().to_string())
        };
        macs["macs"].as_array().unwrap().iter().map(row).collect()
    }

    fn links_are(&self, link: &str) -> bool {
        let Some(facts) = self.ask("ports") else { return false };
        facts["ports"].as_array().is_some_and(|p| p.iter().all(|p| p["link"] == link))
    }

    #[track_caller]
    fn assert_balances(&self) {
        let drops = self.facts("drops");
        assert_eq!(drops["account"]["balances"], true, "{drops:#}");
    }

    fn signal(&self, signal: Signal) {
        common::signal(&self.child.borrow().0, signal);
    }

    fn has_ended(&self) -> bool {
        self.child.borrow_mut().has_ended()
    }

    #[track_caller]
    fn assert_ends_well(&self) {
        self.signal(Signal::TERM);
        assert!(until(|| self.has_ended()), "it does not stop: {}", self.log());
        assert_eq!(self.child.borrow_mut().0.wait().unwrap().code(), Some(0), "{}", self.log());
        assert!(!self.socket().exists());
    }
}

/// Whoever is at the other end of a port's cable.
struct Station {
    pool: Pool,
    port: AfPacketPort,
}

impl Station {
    fn send(&mut self, frame: &[u8]) {
        let mut batch = Batch::new();
        batch.push(self.pool.alloc_from(frame).unwrap());
        let sent = until(|| {
            self.port.transmit(Time::ZERO, &mut self.pool, &mut batch);
            batch.is_empty()
        });
        assert!(sent, "the kernel takes no frame");
    }

    /// The next frame of a test; what others send is not counted.
    #[track_caller]
    fn receive(&mut self) -> Vec<u8> {
        let mut got = self.receive_all(1);
        assert!(got.len() < 2, "more than one frame came");
        got.pop().expect("no frame comes")
    }

    /// The frames of a test in the next batch, none if no batch has come.
    fn take(&mut self) -> Option<Vec<Vec<u8>>> {
        let (mut got, mut batch) = (Vec::new(), Batch::new());
        self.port.receive(Time::ZERO, &mut self.pool, &mut batch);
        let has_come = !batch.is_empty();
        for packet in batch.drain(..) {
            let bytes = self.pool.data(&packet).to_vec();
            self.pool.free(packet);
            got.extend((bytes.get(12..14) == Some(&[0x88, 0xB5])).then_some(bytes));
        }
        has_come.then_some(got)
    }

    /// The frames of a test that have come.
    fn drain(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.take()).flatten().collect()
    }

    /// The next frames of a test, so many at least if they come.
    fn receive_all(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut got = Vec::new();
        until(|| {
            while got.len() < count
                && let Some(frames) = self.take()
            {
                got.extend(frames);
            }
            got.len() >= count
        });
        got
    }
}

fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

fn frame(to: [u8; 6], from: [u8; 6], number: u8) -> Vec<u8> {
    let mut frame = [to, from].concat();
    frame.extend([0x88, 0xB5, number]);
    frame.resize(60, 0xA5);
    frame
}

fn port(i: usize, rest: &str) -> String {
    format!("name = \"p{i}\"\ndevice = \"n{i}\"\n{rest}")
}

fn ports(count: usize) -> Vec<String> {
    (1..=count).map(|i| port(i, "")).collect()
}

fn backend(name: &str) -> String {
    format!("backend = \"{name}\"")
}

/// Three stations meet; what the node says of it is what happened.
fn stations_meet(node: &Node<'_>, [one, two, three]: &mut [Station; 3], backend: &str) {
    let hello = frame(BROADCAST, mac(1), 1);
    one.send(&hello);
    assert_eq!(two.receive(), hello);
    assert_eq!(three.receive(), hello);
    let answer = frame(mac(1), mac(2), 2);
    two.send(&answer);
    assert_eq!(one.receive(), answer);
    // The third hears nothing of the answer: the next that it hears came after.
    let late = frame(BROADCAST, mac(2), 3);
    two.send(&late);
    assert_eq!(three.receive(), late);
    assert_eq!(one.receive(), late);
    one.send(&frame(mac(9), [1, 0, 0, 0, 0, 1], 4));
    assert!(until(|| node.port("p1")["dropped"] == 1));

    let count = |name: &str| {
        let p = node.port(name);
        assert_eq!(p["backend"], backend);
        (p["rx_packets"].as_u64().unwrap(), p["tx_packets"].as_u64().unwrap())
    };
    assert_eq!([count("p1"), count("p2"), count("p3")], [(2, 2), (2, 1), (0, 2)]);
    assert_eq!(node.macs(), [(1, 1, "p1".into()), (2, 1, "p2".into())]);
    let drops = node.facts("drops");
    let account = &drops["account"];
    assert_eq!((&account["received"], &account["sent"]), (&4.into(), &5.into()));
    assert_eq!(drops["drops"], serde_json::json!({"bad_source": 1}));
    assert_eq!(drops["ports"]["p1"], serde_json::json!({"bad_source": 1}));
    node.assert_balances();

    let text = node.show("ports", &[]).expect(0).out;
    let cells: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(cells, ["p1", "up", backend, "1", "-", "2", "120", "2", "120", "0", "1", "0"]);
    let text = node.show("macs", &[]).expect(0).out;
    assert!(text.contains("2 of at most 65536 stations"), "{text}");
    let text = node.show("drops", &[]).expect(0).out;
    assert!(text.starts_with("4 received + 2 copied = 5 sent + 0 rejected + 1 dropped"), "{text}");
    assert!(text.contains("bad_source"), "{text}");
}

#[test]
fn both_back_ends_of_devices_switch_and_tell() {
    for name in ["af_xdp", "af_packet"] {
        let Some(net) = Net::new(3) else { return };
        let node = net.node("a", &backend(name), &ports(3));
        stations_meet(&node, &mut net.stations(), name);
        node.assert_ends_well();
    }
}

#[test]
fn tap_devices_are_made_and_switched() {
    let Some(net) = Net::new(0) else { return };
    let node = net.start("a", &backend("tap"), &ports(3), &[], "info");
    assert!(until(|| node.show("ports", &[]).code == Some(0)), "{}", node.log());
    (1..=3).for_each(|i| net.ip(&format!("link set n{i} up")));
    assert!(until(|| node.links_are("up")));
    let mut stations = std::array::from_fn(|i| net.station(&format!("n{}", i + 1)));
    stations_meet(&node, &mut stations, "tap");
    node.assert_ends_well();
}

#[test]
fn workers_forward_between_them() {
    let Some(net) = Net::new(2) else { return };
    let pinned = [port(1, "worker = 0"), port(2, "worker = 1")];
    let node = net.node("a", "workers = 2", &pinned);
    let [mut one, mut two] = net.stations();
    for i in 0..200 {
        let (there, back) = (frame(mac(2), mac(1), i), frame(mac(1), mac(2), i));
        one.send(&there);
        assert_eq!(two.receive(), there);
        two.send(&back);
        assert_eq!(one.receive(), back);
    }
    assert_eq!((&node.port("p1")["worker"], &node.port("p2")["worker"]), (&0.into(), &1.into()));
    let drops = node.facts("drops");
    let account = &drops["account"];
    assert_eq!((&account["received"], &account["sent"]), (&400.into(), &400.into()));
    node.assert_balances();
    node.assert_ends_well();
}

fn records(path: &Path) -> Vec<Vec<u8>> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let Ok(mut reader) = pcap::Reader::new(BufReader::new(file)) else { return Vec::new() };
    let mut all = Vec::new();
    let mut bytes = Vec::new();
    while let Ok(Some(record)) = reader.next(&mut bytes) {
        assert_eq!(record.original_len, bytes.len());
        all.push(bytes.clone());
    }
    all
}

#[test]
fn traces_show_and_write_what_passes() {
    let Some(net) = Net::new(2) else { return };
    let node = net.node("a", "", &ports(2));
    let [mut one, mut two] = net.stations();
    let socket = node.socket();
    let trace = |file: &Path, options: &[&str]| {
        let mut command = net.command(&["trace", "p1", "--control", socket.to_str().unwrap()]);
        command.args(["--write", file.to_str().unwrap()]).args(options).spawn().unwrap()
    };
    let files = ["short", "long", "endless"].map(|f| net.path(f));
    let mut short = trace(&files[0], &["--count", "2"]);
    let mut long = trace(&files[1], &["--count", "40"]);
    let mut endless = trace(&files[2], &[]);
    let sent = frame(mac(2), mac(1), 7);
    let mut pass = || {
        one.send(&sent);
        two.receive();
    };
    // The end of one is not the end of the others.
    assert!(until(|| {
        pass();
        short.try_wait().unwrap().is_some()
    }));
    assert!(until(|| {
        pass();
        long.try_wait().unwrap().is_some()
    }));
    let shown = Arc::new(AtomicU32::new(0));
    let (count, lines) = (shown.clone(), BufReader::new(endless.stdout.take().unwrap()).lines());
    let reader = std::thread::spawn(move || {
        lines.for_each(|_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert!(until(|| {
        pass();
        shown.load(Ordering::Relaxed) >= 3
    }));
    // Interrupted, as people end it: what was shown is in the file.
    endless.kill().unwrap();
    endless.wait().unwrap();
    reader.join().unwrap();
    let shown = shown.load(Ordering::Relaxed) as usize;
    assert_eq!(records(&files[0]), vec![sent.clone(); 2]);
    assert_eq!(records(&files[1]), vec![sent.clone(); 40]);
    let written = records(&files[2]);
    assert!(written.iter().all(|r| *r == sent));
    // The last may have been on its way.
    assert!(written.len() + 1 >= shown, "{shown} shown, {} written", written.len());
    let said = short.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout).lines().count(), 2);
    let said = net.plexus(&["trace", "p9", "--control", socket.to_str().unwrap()]).expect(2);
    assert!(said.err.contains("p1, p2"), "{said:?}");
    node.assert_ends_well();
}

#[test]
fn metrics_are_valid_and_true() {
    let Some(net) = Net::new(2) else { return };
    let node = net.node("a", "metrics = \"127.0.0.1:9464\"", &ports(2));
    let [mut one, mut two] = net.stations();
    one.send(&frame(BROADCAST, mac(1), 1));
    two.receive();
    let get = |path: &str| common::http(&net.inside, 9464, path).unwrap();
    let received = "plexus_port_receive_packets_total{node=\"a\",port=\"p1\"} 1";
    let answer = get("/metrics");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    assert!(body.ends_with('\n') && body.lines().any(|l| l == received), "{body}");
    let mut family = "";
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            family = name;
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.strip_suffix('}').unwrap().split_once('{').unwrap();
            assert_eq!(name, family, "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            for label in labels.split(',') {
                let (key, value) = label.split_once('=').unwrap();
                assert!(key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{line}");
                assert!(value.len() >= 2 && value.starts_with('"') && value.ends_with('"'));
            }
        }
    }
    assert!(get("/else").starts_with("HTTP/1.1 404"));
    node.assert_ends_well();
}

#[test]
fn a_changed_file_is_applied_and_an_unfit_one_refused() {
    let Some(net) = Net::new(3) else { return };
    let with = |second: &str| [port(1, "vlan = 10"), port(2, second), port(3, "vlan = 20")];
    let node = net.node("a", "", &with("vlan = 10"));
    let [mut one, mut two, mut three] = net.stations();
    one.send(&frame(BROADCAST, mac(1), 1));
    two.receive();
    two.send(&frame(BROADCAST, mac(2), 2));
    one.receive();
    three.send(&frame(BROADCAST, mac(3), 3));
    assert!(until(|| node.macs().len() == 3));
    net.write("a", "[switch]\nageing = \"100s\"", &with("vlan = 20"));
    node.signal(Signal::HUP);
    assert!(until(|| node.port("p2")["vlan"]["access"] == 20), "{}", node.log());
    let kept = [(1, 10, "p1".to_string()), (3, 20, "p3".to_string())];
    assert!(until(|| node.macs() == kept), "{:?}", node.macs());
    let hello = frame(BROADCAST, mac(3), 4);
    three.send(&hello);
    assert_eq!(two.receive(), hello);

    net.write("a", "workers = 2", &with("vlan = 20"));
    node.signal(Signal::HUP);
    let refusals = || node.log().matches("kept as it was").count();
    assert!(until(|| refusals() == 1), "{}", node.log());
    fs::write(net.path("a.toml"), "name = \"a\"\nnonsense\n").unwrap();
    node.signal(Signal::HUP);
    assert!(until(|| refusals() == 2), "{}", node.log());
    assert!(node.log().contains("a.toml:2"), "{}", node.log());
    assert_eq!(node.facts("ports")["ports"].as_array().unwrap().len(), 3);
    three.send(&hello);
    assert_eq!(two.receive(), hello);
    node.assert_ends_well();
}

#[test]
fn ports_come_and_go_with_the_file() {
    for settings in ["", "backend = \"af_xdp\"", "workers = 2"] {
        let Some(net) = Net::new(4) else { return };
        let node = net.node("a", settings, &ports(2));
        let [mut one, mut two, mut three, _] = net.stations();
        let hello = |n: u8| frame(BROADCAST, mac(1), n);
        one.send(&hello(1));
        assert_eq!(two.receive(), hello(1));
        let names = || {
            let facts = node.facts("ports");
            let names = facts["ports"].as_array().unwrap().iter();
            names.map(|p| p["name"].as_str().unwrap().to_string()).collect::<Vec<_>>()
        };
        let reload = |ports: &[String], expected: &[&str]| {
            net.write("a", settings, ports);
            node.signal(Signal::HUP);
            assert!(until(|| names() == expected), "{:?}: {}", names(), node.log());
            assert!(until(|| node.links_are("up")), "{}", node.log());
        };
        // A third port, and the second one goes.
        reload(&ports(3), &["p1", "p2", "p3"]);
        one.send(&hello(2));
        assert_eq!((two.receive(), three.receive()), (hello(2), hello(2)), "{settings}");
        two.send(&frame(mac(1), mac(2), 3));
        one.receive();
        reload(&[port(3, ""), port(1, "")], &["p1", "p3"]);
        assert!(node.macs().iter().all(|m| m.2 != "p2"), "{:?}", node.macs());
        one.send(&hello(4));
        assert_eq!(three.receive(), hello(4), "{settings}");
        three.send(&frame(mac(1), mac(3), 5));
        assert_eq!(one.receive(), frame(mac(1), mac(3), 5), "{settings}");
        // What went is counted on, and all of it balances; it may come back, beside others.
        node.assert_balances();
        reload(&[port(1, ""), port(2, ""), port(3, "")], &["p1", "p3", "p2"]);
        one.send(&hello(6));
        assert_eq!((two.receive(), three.receive()), (hello(6), hello(6)), "{settings}");
        // A device that is not there changes nothing.
        let missing = "name = \"p9\"\ndevice = \"nodev0\"".to_string();
        net.write("a", settings, &[port(1, ""), port(4, ""), missing]);
        node.signal(Signal::HUP);
        assert!(until(|| node.log().contains("port p9: ")), "{}", node.log());
        assert_eq!(names(), ["p1", "p3", "p2"]);
        one.send(&hello(7));
        assert_eq!((two.receive(), three.receive()), (hello(7), hello(7)), "{settings}");
        node.assert_balances();
        node.assert_ends_well();
    }
}

#[test]
fn what_cannot_run_says_why_and_exits_with_2() {
    let Some(net) = Net::new(2) else { return };
    let node = net.node("a", "", &ports(2));
    let said = net.run_node(&net.path("a.toml")).expect(2);
    assert!(said.err.contains("another daemon answers at"), "{said:?}");
    // The first goes on, and still has its socket.
    let [mut one, mut two] = net.stations();
    one.send(&frame(BROADCAST, mac(1), 1));
    two.receive();
    assert_eq!(node.macs().len(), 1);
    node.assert_ends_well();

    let gone = net.write("b", "", &["name = \"p1\"\ndevice = \"nodev0\"".into()]);
    let said = net.run_node(&gone).expect(2);
    assert!(said.err.contains("port p1") && said.err.contains("nodev0"), "{said:?}");
    assert!(!net.path("b.sock").exists());

    let bad = net.write("c", "worker = 1", &ports(1));
    let said = net.run_node(&bad).expect(2);
    assert!(said.err.contains("c.toml:3:"), "{said:?}");
    net.run_node(&net.path("none.toml")).expect(2);

    let mine = net.write("d", "", &ports(1));
    fs::write(net.path("d.sock"), "precious").unwrap();
    let said = net.run_node(&mine).expect(2);
    assert!(said.err.contains("no socket"), "{said:?}");
    assert_eq!(fs::read_to_string(net.path("d.sock")).unwrap(), "precious");
}

/// The kernel takes its time to end a process with much memory, and closes its socket last.
#[test]
fn a_killed_node_is_followed_by_the_next_without_a_pause() {
    let Some(net) = Net::new(2) else { return };
    for name in ["auto", "af_xdp"] {
        let rest = format!("{}\nworkers = 4", backend(name));
        let mut node = net.node("a", &rest, &ports(2));
        let mut waited = 0;
        for _ in 0..5 {
            node.signal(Signal::KILL);
            assert!(node.socket().exists());
            let next = net.start("a", &rest, &ports(2), &[], "info");
            let is_up = until(|| next.has_ended() || next.links_are("up"));
            assert!(is_up && !next.has_ended(), "{name}: {}", next.log());
            waited += usize::from(next.log().contains("waiting for the daemon"));
            node = next;
        }
        eprintln!("{name}: {waited} of 5 had to wait");
        let said = net.run_node(&net.path("a.toml")).expect(2);
        assert!(said.err.contains("another daemon answers at"), "{said:?}");
        assert!(!said.err.contains("waiting"), "an answer ends it at once: {said:?}");
        node.assert_ends_well();
    }
}

#[test]
fn a_device_that_returns_forwards_again() {
    ["af_xdp", "af_packet"].into_iter().for_each(a_device_returns);
}

fn a_device_returns(backend_name: &str) {
    let Some(net) = Net::new(2) else { return };
    let node = net.node("a", &backend(backend_name), &ports(2));
    let [mut one, mut two] = net.stations();
    one.send(&frame(BROADCAST, mac(1), 1));
    two.receive();
    drop(one);
    net.ip("link del n1");
    assert!(until(|| node.port("p1")["link"] == "down"), "{}", node.log());
    assert!(node.macs().is_empty());
    two.send(&frame(mac(1), mac(2), 2));
    assert!(until(|| node.facts("drops")["drops"]["no_egress"] == 1));
    net.cable(1);
    assert!(until(|| node.port("p1")["link"] == "up"), "{}", node.log());
    let mut one = net.station("h1");
    for i in 3..40 {
        let (there, back) = (frame(mac(1), mac(2), i), frame(mac(2), mac(1), i));
        two.send(&there);
        assert_eq!(one.receive(), there);
        one.send(&back);
        assert_eq!(two.receive(), back);
    }
    assert_eq!(node.port("p1")["link_downs"], 1);
    node.assert_balances();
    node.assert_ends_well();
}

#[test]
fn it_stops_while_clients_ask() {
    let Some(net) = Net::new(2) else { return };
    for _ in 0..5 {
        let node = net.node("a", "workers = 8", &ports(2));
        let socket = node.socket();
        let over = AtomicBool::new(false);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    let Ok(mut stream) = UnixStream::connect(&socket) else { return };
                    let mut answer = [0; 4096];
                    while !over.load(Ordering::Relaxed) {
                        let asked = stream.write_all(b"{\"show\":\"drops\"}\n").is_ok();
                        if !asked || stream.read(&mut answer).is_ok_and(|n| n == 0) {
                            return;
                        }
                    }
                });
            }
            node.facts("ports");
            node.signal(Signal::TERM);
            let ended = until(|| node.has_ended());
            over.store(true, Ordering::Relaxed);
            if !ended {
                node.signal(Signal::KILL);
            }
            assert!(ended, "it does not stop: {}", node.log());
        });
        assert_eq!(node.child.borrow_mut().0.wait().unwrap().code(), Some(0), "{}", node.log());
    }
}

#[test]
fn hostile_clients_disturb_nobody() {
    let Some(net) = Net::new(2) else { return };
    let node = net.node("a", "", &ports(2));
    let socket = node.socket();
    let connect = || UnixStream::connect(&socket).unwrap();
    let ask = |bytes: &[u8]| {
        let mut stream = connect();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        // Who is hung up on while still talking may lose the answer.
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    for garbage in [
        &b"\n"[..],
        b"hello\n",
        b"\xFF\x00\xFE\n",
        b"[]\n{}\n7\nnull\n",
        b"{\"show\":7}\n",
        b"{\"show\":\"nothing\"}\n",
        b"{\"trace\":\"nowhere\"}\n",
    ] {
        let answer = ask(garbage);
        assert!(!answer.is_empty());
        for line in answer.lines() {
            assert!(serde_json::from_str::<Value>(line).unwrap()["error"].is_string(), "{line}");
        }
    }
    ask(&vec![b'x'; 1 << 20]);
    ask("[".repeat(60_000).as_bytes());
    ask(format!("{}\n", "[".repeat(60_000)).as_bytes());
    let mut silent = Vec::new();
    for i in 0..200 {
        let mut stream = connect();
        if i % 2 == 0 {
            let _ = stream.write_all(b"{\"show\":\"po");
        }
        silent.push(stream);
    }
    assert_eq!(node.facts("ports")["ports"].as_array().unwrap().len(), 2);
    let [mut one, mut two] = net.stations();
    one.send(&frame(BROADCAST, mac(1), 1));
    two.receive();
    node.assert_balances();
    drop(silent);
    node.assert_ends_well();
}

#[test]
fn logs_are_json_where_asked_and_as_loud_as_asked() {
    let Some(net) = Net::new(2) else { return };
    for (level, info) in [("debug", true), ("error", false)] {
        let node = net.start("a", "", &ports(2), &["--log", "json"], level);
        assert!(until(|| node.links_are("up")), "{}", node.log());
        node.assert_ends_well();
        let log = node.log();
        let lines: Vec<Value> = log.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert!(lines.iter().all(|l| l["level"].is_string() && l["timestamp"].is_string()));
        assert_eq!(lines.iter().any(|l| l["fields"]["message"] == "running"), info, "{log}");
    }
    let node = net.node("a", "", &ports(2));
    node.assert_ends_well();
    let log = node.log();
    assert!(log.contains("running") && !log.contains('\x1b'), "{log}");
}
