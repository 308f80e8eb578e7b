//! A fabric of real daemons over real devices: three nodes in a ring, their controller, and two
//! hosts that are ordinary network namespaces.
//!
//! Every test has namespaces and a directory of its own; its daemons end with it.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::{self, Daemons, Running, Said, Signal, cable, ip, signal, until};
use crate::web::Reader;
use plexus_io::namespace::Namespaces;
use serde_json::{Value, json};

/// The nodes' ports: to the next node, to the one before, to the host, to the controller.
const PORTS: [&[&str]; 3] =
    [&["n1a", "n1b", "n1h", "n1c"], &["n2a", "n2b", "n2h"], &["n3a", "n3b"]];

struct Fabric {
    nodes: Namespaces,
    hosts: [Namespaces; 2],
    daemons: Daemons,
}

impl Fabric {
    /// `None`, said aloud, where the test cannot run.
    fn new() -> Option<Fabric> {
        Fabric::with("")
    }

    /// `served`: more of the controller's file.
    fn with(served: &str) -> Option<Fabric> {
        let [nodes, a, b] = common::namespaces("the fabric", || Ok(()))?;
        let mut fabric = Fabric { nodes, hosts: [a, b], daemons: Daemons::new("fabric", 3) };
        fabric.lay_cables();
        fabric.start(served);
        Some(fabric)
    }

    fn lay_cables(&self) {
        ip(&self.nodes, "link set dev lo up");
        let inside = [("n1a", "n2b"), ("n2a", "n3b"), ("n3a", "n1b"), ("n1c", "ctl0")];
        for (a, b) in inside {
            cable((&self.nodes, a), (&self.nodes, b), 2000);
        }
        for (i, host) in self.hosts.iter().enumerate() {
            let own = i + 1;
            cable((&self.nodes, &format!("n{own}h")), (host, "eth0"), 1500);
            ip(host, "link set dev lo up");
            ip(host, "link set dev eth0 down");
            ip(host, &format!("link set dev eth0 address 02:00:00:00:0a:0{own}"));
            ip(host, &format!("address add 10.0.0.{own}/24 dev eth0"));
            ip(host, "link set dev eth0 up");
        }
        for device in PORTS.concat().iter().chain(&["ctl0"]) {
            ip(&self.nodes, &format!("link set dev {device} down"));
            ip(&self.nodes, &format!("link set dev {device} addrgenmode none"));
            ip(&self.nodes, &format!("link set dev {device} up"));
        }
    }

    fn start(&mut self, served: &str) {
        for (i, ports) in PORTS.iter().enumerate() {
            let name = format!("n{}", i + 1);
            let record = self.daemons.dir.join(format!("{name}.record"));
            let mut text = self.daemons.node_file(&name);
            text.push_str(&format!("record = \"{}\"\n", record.display()));
            ports.iter().for_each(|p| text.push_str(&format!("[[port]]\nname = \"{p}\"\n")));
            self.daemons.start(&self.nodes, "node", &name, &text);
        }
        let more = format!(
            "metrics = \"127.0.0.1:9465\"\n\
             [[multicast]]\ngroups = \"224.0.0.251/32\"\nmembers = \"all\"\n\
             [[multicast]]\ngroups = \"239.0.0.0/8\"\nmembers = \"joined\"\n\
             [[multicast]]\ngroups = \"ff05::/16\"\nmembers = \"joined\"\n{served}"
        );
        self.daemons.start_controller(&self.nodes, &more);
    }

    fn show(&self, name: &str, what: &str) -> Option<Value> {
        self.daemons.show(name, what)
    }

    fn logs(&self) -> String {
        let facts = ["drops", "source-routes"];
        ["n1", "n2", "n3", "c1"].map(|n| self.daemons.log(n, &facts)).concat()
    }

    /// Waits until every node has a way to the controller and every port a role, and both hosts
    /// have said something. A station that has not is not found.
    fn settle(&self) {
        let settled = |node: &str| {
            let links = self.show(node, "links").unwrap_or_default();
            let known = |p: &Value| !matches!(p["role"].as_str(), Some("unknown" | "down"));
            links["controller"]["path"].is_array()
                && links["ports"].as_array().is_some_and(|p| p.iter().all(known))
        };
        let is_heard = |node: &str| {
            let hosts = self.show(node, "hosts").unwrap_or_default();
            hosts["hosts"].as_array().is_some_and(|hosts| !hosts.is_empty())
        };
        let settled = || {
            ["n1", "n2", "n3"].iter().all(|node| settled(node))
                && ["n1", "n2"].iter().all(|node| is_heard(node))
        };
        assert!(until(settled), "{}", self.logs());
    }

    fn ping(&self, count: &str) -> Output {
        let mut ping = Command::new("ping");
        ping.args(["-c", count, "-i", "0.2", "-W", "5", "10.0.0.2"]);
        self.hosts[0].apply(&mut ping).unwrap();
        ping.output().unwrap()
    }

    fn metrics(&self) -> String {
        common::http(&self.nodes, 9465, "/metrics").unwrap()
    }

    /// What kind of input it was that gave a node's port this role the last time.
    fn last_cause_of(&self, node: &str, port: u8, role: &str) -> String {
        let (mut input, mut cause) = (String::new(), String::new());
        let record = fs::read_to_string(self.daemons.dir.join(format!("{node}.record"))).unwrap();
        // The last line may not be whole yet.
        for line in record.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok()) {
            match &line["input"] {
                Value::String(kind) => input.clone_from(kind),
                Value::Object(of) => input = of.keys().next().unwrap().clone(),
                _ => {}
            }
            let change = &line["output"]["role"];
            if change["port"] == port && change["role"] == role {
                cause.clone_from(&input);
            }
        }
        cause
    }

    /// Ends the daemons in order, so that what they have written is whole.
    fn stop(&mut self) {
        for name in ["n1", "n2", "n3", "c1"] {
            self.daemons.say(name, json!({"stop": true})).unwrap();
        }
        for daemon in &mut self.daemons.running {
            assert!(until(|| daemon.try_wait().unwrap().is_some()));
        }
    }
}

#[test]
fn the_controllers_page_shows_hosts_loads_and_ways() {
    let Some(mut fabric) = Fabric::with("[web]\nlisten = \"127.0.0.1:8440\"\n") else { return };
    fabric.settle();
    let read = || Ok::<_, std::io::Error>(Reader::new("http://127.0.0.1:8440/"));
    let mut reader = fabric.nodes.run(read).unwrap().unwrap();
    let map = reader.wait_for("map", |map| map["cables"].as_array().unwrap().len() == 4);
    assert_eq!(map["boxes"][3], json!({"name": "c1", "kind": "controller", "up": true}));
    // Boxes have their places in the order in which they joined.
    let boxes = map["boxes"].as_array().unwrap();
    let [n1, n2] = ["n1", "n2"].map(|n| boxes.iter().position(|b| b["name"] == n).unwrap());
    // Nodes tell what they count, because somebody looks.
    let from_hosts = |rates: &Value| rates["boxes"][n1]["from_hosts"].as_u64() > Some(0);
    std::thread::scope(|scope| {
        let pings = scope.spawn(|| fabric.ping("20"));
        reader.wait_for("rates", from_hosts);
        let cables = |rates: &Value| {
            let all = rates["cables"].as_array().unwrap();
            all.iter().filter(|c| c[0].as_u64() > Some(0) && c[1].as_u64() > Some(0)).count() >= 3
        };
        reader.wait_for("rates", cables);
        pings.join().unwrap();
    });
    let hosts = reader.wait_for("hosts", |hosts| hosts.as_array().unwrap().len() == 2);
    assert!(hosts[0]["addresses"].as_array().unwrap().contains(&"10.0.0.1".into()), "{hosts}");
    let path = format!("/api/ways/{}/-", hosts[0]["mac"].as_str().unwrap());
    let reader = &reader;
    let ask = || Ok::<_, std::io::Error>(reader.ask(&path, None));
    let (is_good, ways) = fabric.nodes.run(ask).unwrap().unwrap();
    let ways: Value = serde_json::from_str(&ways).unwrap();
    assert!(is_good && ways["ways"][0]["boxes"] == json!([[n1, 2, 0], [n2, 1, 2]]), "{ways}");
    fabric.stop();
    // The counters are an input, and replay as all others do.
    let record = fabric.daemons.dir.join("n1.record");
    assert!(fs::read_to_string(&record).unwrap().contains("{\"counters\":"));
    assert_eq!(replay(&record, 0)["identical"], true);
}

/// What `plexus sim replay` says of a recording.
fn replay(record: &Path, code: i32) -> Value {
    let said = Said::of(common::plexus(&["sim", "replay", "--json"]).arg(record)).expect(code);
    serde_json::from_str(&said.out).unwrap()
}

#[test]
fn what_live_nodes_took_in_gives_the_same_bytes_once_more() {
    let Some(mut fabric) = Fabric::new() else { return };
    fabric.settle();
    let output = fabric.ping("3");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(" 3 received"), "{said}\n{}", fabric.logs());
    let metrics = fabric.metrics();
    for (key, value) in [("nodes_up", 3), ("links", 3), ("hosts", 2), ("flows", 2)] {
        let line = format!("plexus_controller_{key}{{controller=\"c1\"}} {value}");
        assert!(metrics.lines().any(|l| l == line), "{line}\n{metrics}");
    }
    fabric.stop();
    for node in ["n1", "n2", "n3"] {
        let record = fabric.daemons.dir.join(format!("{node}.record"));
        assert_eq!(fs::metadata(&record).unwrap().mode() & 0o077, 0, "a recording is secret");
        let played = replay(&record, 0);
        assert_eq!(played["identical"], true);
        assert!(played["inputs"].as_u64() > Some(20), "{played}");
        assert!(played["outputs"].as_u64() > Some(20), "{played}");
    }
    // One byte of one frame that went out, and one of one that came in. Of those, a control frame:
    // it is sealed, while the node may make nothing of a host's frame, whatever its bytes.
    let record = fabric.daemons.dir.join("n1.record");
    let text = fs::read_to_string(&record).unwrap();
    let tampered = |kind: [&str; 3]| {
        let mut lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let bytes = |line: &Value| {
            let frame = &line[kind[0]][kind[1]];
            frame[kind[2]].is_array() && (kind[0] == "output" || frame["kind"] == "control")
        };
        let at = lines.iter().rposition(bytes).unwrap();
        let byte = &mut lines[at][kind[0]][kind[1]][kind[2]][20];
        *byte = (byte.as_u64().unwrap() ^ 1).into();
        let lines = lines.iter().map(|line| format!("{line}\n"));
        fs::write(&record, lines.collect::<String>()).unwrap();
        (at as u64 + 1, replay(&record, 1)["difference"].take())
    };
    let (line, found) = tampered(["output", "transmit", "frame"]);
    assert_eq!((&found["line"], &found["part"]), (&line.into(), &"transmit.frame[20]".into()));
    let (line, found) = tampered(["input", "frame", "bytes"]);
    assert!(found["input_line"].as_u64() >= Some(line), "{line}: {found}");
}

/// A socket of a host that listens to a group, or sends to one: Linux joins by IGMP or MLD.
fn listener(host: &Namespaces, group: IpAddr) -> UdpSocket {
    let open = || {
        let any: IpAddr = match group {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 9999)).unwrap();
        match group {
            IpAddr::V4(ip) => socket.join_multicast_v4(&ip, &Ipv4Addr::UNSPECIFIED).unwrap(),
            IpAddr::V6(ip) => socket.join_multicast_v6(&ip, 0).unwrap(),
        }
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        socket
    };
    host.run(open).unwrap()
}

#[test]
fn a_linux_host_joins_a_group_and_gets_what_is_sent_to_it() {
    let Some(fabric) = Fabric::new() else { return };
    fabric.hosts.iter().for_each(|host| ip(host, "route add 224.0.0.0/4 dev eth0"));
    fabric.settle();
    for group in ["239.1.2.3", "ff05::123"] {
        let group: IpAddr = group.parse().unwrap();
        let member = listener(&fabric.hosts[1], group);
        let any = if group.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let sender = fabric.hosts[0].run(|| UdpSocket::bind(any).unwrap()).unwrap();
        let (mut sent, mut first, mut bytes) = (0u32, None, [0; 8]);
        let arrives = || {
            sent += 1;
            sender.send_to(&sent.to_be_bytes(), (group, 9999)).unwrap();
            first = member.recv(&mut bytes).ok();
            first.is_some()
        };
        assert!(until(arrives), "{group}: {}", fabric.logs());
        let known = fabric.show("n2", "groups").unwrap();
        assert!(known["joined"].to_string().contains(&group.to_string()), "{known}");
        let tree = fabric.show("c1", "groups").unwrap();
        assert!(tree["groups"].to_string().contains(&group.to_string()), "{tree}");
        // Each once.
        while member.recv(&mut bytes).is_ok() {}
        for n in 0..20u32 {
            sender.send_to(&n.to_be_bytes(), (group, 9999)).unwrap();
            assert_eq!(member.recv(&mut bytes).unwrap(), 4, "{n}: {}", fabric.logs());
            assert_eq!(bytes[..4], n.to_be_bytes());
        }
        assert!(member.recv(&mut bytes).is_err());
        // The way that it went is cut: by way of the third node.
        ip(&fabric.nodes, "link set dev n1a down");
        let arrives = || {
            sender.send_to(b"round", (group, 9999)).unwrap();
            member.recv(&mut bytes).is_ok()
        };
        assert!(until(arrives), "{group}: {}", fabric.logs());
        ip(&fabric.nodes, "link set dev n1a up");
        // It leaves, and its port is quiet.
        drop(member);
        let gone = || {
            let known = fabric.show("n2", "groups").unwrap_or_default();
            !known["joined"].to_string().contains(&group.to_string())
        };
        assert!(until(gone), "{:?}", fabric.show("n2", "groups"));
    }
    // Multicast DNS, which nobody need join.
    let mdns = IpAddr::from([224, 0, 0, 251]);
    let listening = listener(&fabric.hosts[1], mdns);
    let asking = fabric.hosts[0].run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    let arrives = || {
        asking.send_to(b"who has printer.local?", (mdns, 9999)).unwrap();
        listening.recv(&mut [0; 32]).is_ok()
    };
    assert!(until(arrives), "{}", fabric.logs());
}

#[test]
fn traffic_outlives_a_cable_and_the_controller() {
    let Some(mut fabric) = Fabric::new() else { return };
    fabric.settle();
    assert!(fabric.ping("1").status.success(), "{}", fabric.logs());
    // The direct cable is pulled out: by way of the third node from now on.
    ip(&fabric.nodes, "link set dev n1a down");
    let went_round = || {
        let routes = fabric.show("n1", "source-routes").unwrap_or_default();
        routes["routes"][0]["paths"].as_array().is_some_and(|p| p[0][0] == 1)
    };
    assert!(until(went_round), "{}", fabric.logs());
    assert!(fabric.ping("2").status.success(), "{}", fabric.logs());
    // The last to be started is the controller.
    fabric.daemons.kill(3);
    let alone = || fabric.show("n2", "links").is_some_and(|l| l["controller"]["path"].is_null());
    assert!(until(alone), "{}", fabric.logs());
    assert!(fabric.ping("2").status.success(), "flows go on\n{}", fabric.logs());
    fabric.daemons.start_again(&fabric.nodes, "controller", "c1");
    let known = || ["n1", "n2", "n3"].iter().all(|node| fabric.daemons.has_controller(node));
    assert!(until(known), "{}", fabric.logs());
    let flows = || {
        let flows = fabric.show("c1", "flows").unwrap_or_default();
        flows["flows"].as_array().is_some_and(|f| f.len() >= 2)
    };
    assert!(until(flows), "it learns the flows from the nodes\n{}", fabric.logs());
    assert!(fabric.ping("2").status.success(), "{}", fabric.logs());
}

#[test]
fn a_node_that_reads_its_file_again_stays_in_the_fabric() {
    let Some(mut fabric) = Fabric::new() else { return };
    fabric.settle();
    assert!(fabric.ping("1").status.success(), "{}", fabric.logs());
    let text = fs::read_to_string(fabric.daemons.dir.join("n1.toml")).unwrap();
    let hang_up = |text: String| fabric.daemons.reload(0, "n1", &text);
    let lanes = || fabric.show("n1", "links").unwrap_or_default()["lanes"].clone();
    assert_eq!(lanes(), "per_flow");
    hang_up(text.replace("[fabric]\n", "[fabric]\nlanes = \"least_loaded\"\n"));
    assert!(until(|| lanes() == "least_loaded"), "{}", fabric.logs());
    assert!(fabric.ping("2").status.success(), "{}", fabric.logs());
    // What a session was begun with cannot change under it.
    hang_up(text.replace("[fabric]\n", "[fabric]\nlanes = \"static\"\nheartbeat = \"1s\"\n"));
    let log = || fs::read_to_string(fabric.daemons.dir.join("n1.log")).unwrap();
    assert!(until(|| log().contains("only with a restart")), "{}", fabric.logs());
    assert_eq!(lanes(), "least_loaded");
    assert!(fabric.ping("2").status.success(), "{}", fabric.logs());
    fabric.stop();
}

#[test]
fn a_controller_reads_its_rules_again() {
    let Some(mut fabric) = Fabric::new() else { return };
    fabric.settle();
    assert!(fabric.ping("1").status.success(), "{}", fabric.logs());
    let path = fabric.daemons.dir.join("c1.toml");
    let text = fs::read_to_string(&path).unwrap();
    let hang_up = || signal(fabric.daemons.running.last().unwrap(), Signal::HUP);
    let log =
        |what: &str| fs::read_to_string(fabric.daemons.dir.join("c1.log")).unwrap().contains(what);
    let rule = "[[deny]]\nfrom = \"any\"\nto = \"any\"\n";
    // What cannot change is refused whole; what has been in force stays so.
    fs::write(&path, format!("device = \"other\"\n{text}{rule}")).unwrap();
    hang_up();
    assert!(until(|| log("kept as it was")), "{}", fabric.logs());
    assert!(fabric.ping("1").status.success(), "{}", fabric.logs());
    fs::write(&path, format!("{text}{rule}")).unwrap();
    hang_up();
    let flows = || fabric.show("c1", "flows").unwrap_or_default()["flows"].as_array().map(Vec::len);
    assert!(until(|| flows() == Some(0)), "{}", fabric.logs());
    assert!(!fabric.ping("1").status.success(), "they still talk\n{}", fabric.logs());
    fs::write(&path, text).unwrap();
    hang_up();
    assert!(until(|| fabric.ping("1").status.success()), "{}", fabric.logs());
    fabric.stop();
}

#[test]
fn a_real_dhcp_server_leases_through_the_relay() {
    let there = |tool: &str| {
        ["/usr/sbin", "/sbin", "/usr/bin"].iter().any(|dir| Path::new(dir).join(tool).exists())
    };
    if !there("dnsmasq") || !there("dhclient") {
        return eprintln!("SKIPPED: this test needs dnsmasq and dhclient");
    }
    let relayed = "[[subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n\
                   relay = \"10.0.0.2\"\n[[reservation]]\nmac = \"02:00:00:00:0a:02\"\n\
                   ip = \"10.0.0.2\"\n";
    let Some(fabric) = Fabric::with(relayed) else { return };
    fabric.settle();
    let path = |name: &str| fabric.daemons.dir.join(name).display().to_string();
    let mut server = Command::new("setpriv");
    server.args(["--pdeathsig", "KILL", "dnsmasq", "--keep-in-foreground", "--user=root"]);
    server.args(["--port=0", "--conf-file=/dev/null", "--interface=eth0", "--dhcp-authoritative"]);
    server.args(["--dhcp-range=10.0.0.50,10.0.0.50,1h", "--no-ping", "--log-facility=-"]);
    server.arg("--log-dhcp").arg(format!("--dhcp-leasefile={}", path("leases")));
    server.arg(format!("--pid-file={}", path("dnsmasq.pid")));
    let log = File::create(path("dnsmasq.log")).unwrap();
    server.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").stdin(Stdio::null());
    server.stdout(Stdio::null()).stderr(log);
    fabric.hosts[1].apply(&mut server).unwrap();
    let server = Running(server.spawn().unwrap());

    let hosts = || fabric.show("c1", "hosts").unwrap_or_default()["hosts"].as_array().map(Vec::len);
    assert!(until(|| hosts() == Some(2)), "{}", fabric.logs());
    ip(&fabric.hosts[0], "address flush dev eth0");
    let mut client = Command::new("dhclient");
    client.args(["-1", "-d", "-sf", "/bin/true", "-lf", &path("client.leases")]);
    client.args(["-pf", &path("dhclient.pid"), "eth0"]);
    client.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").stdin(Stdio::null());
    client.stdout(Stdio::null()).stderr(File::create(path("dhclient.log")).unwrap());
    fabric.hosts[0].apply(&mut client).unwrap();
    let client = Running(client.spawn().unwrap());
    let lease = || fs::read_to_string(path("client.leases")).unwrap_or_default();
    let leased = until(|| lease().contains("fixed-address 10.0.0.50;"));
    drop((client, server));
    let logs = ["dnsmasq.log", "dhclient.log"].map(|l| fs::read_to_string(path(l)).unwrap());
    assert!(leased, "{logs:?}\n{}", fabric.logs());
    assert!(lease().contains("dhcp-server-identifier 10.0.0.254;"), "{}", lease());
    let hosts = fabric.show("c1", "hosts").unwrap_or_default();
    let has =
        |h: &Value| h["addresses"].as_array().is_some_and(|a| a.contains(&json!("10.0.0.50")));
    assert!(hosts["hosts"].as_array().is_some_and(|h| h.iter().any(has)), "{hosts}");
}

#[test]
fn a_node_that_starts_again_finds_its_hosts_again() {
    let Some(mut fabric) = Fabric::new() else { return };
    fabric.settle();
    assert!(fabric.ping("1").status.success(), "{}", fabric.logs());
    let mut old = fabric.daemons.running.remove(1);
    signal(&old, Signal::TERM);
    assert!(old.wait().unwrap().success(), "{}", fabric.logs());
    assert!(until(|| fabric.last_cause_of("n1", 0, "unknown") == "frame"), "{}", fabric.logs());
    // The host says nothing meanwhile, and goes on believing what it has heard.
    fabric.daemons.start_again(&fabric.nodes, "node", "n2");
    assert!(until(|| fabric.ping("1").status.success()), "{}", fabric.logs());
    let admitted = || {
        let hosts = fabric.show("n2", "hosts").unwrap_or_default();
        hosts["hosts"].as_array().is_some_and(|h| h.len() == 1)
    };
    assert!(admitted(), "{}", fabric.logs());
    // Nobody else has noticed: the other nodes and the controller were not started again.
    let flows = fabric.show("c1", "flows").unwrap_or_default();
    assert!(flows["flows"].as_array().is_some_and(|f| f.len() == 2), "{flows}");
    assert_eq!(fabric.metrics().matches("plexus_controller_epoch{controller=\"c1\"} 2").count(), 1);
}
