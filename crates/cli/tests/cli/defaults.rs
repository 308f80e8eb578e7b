//! Hosts and cables exactly as the kernel makes them: default offloads, an MTU of 1,500 bytes, and
//! nothing prepared for the nodes between them.
//!
//! Every test has namespaces and a directory of its own; its daemons end with it.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use crate::common::{self, Daemons, Desk, Said, Signal, ip, plexus, plexus_in, run, signal, until};
use plexus_io::namespace::Namespaces;

const BYTES: usize = 2_000_000;

/// A cable as `ip link add type veth` makes it.
fn cable(from: (&Namespaces, &str), to: (&Namespaces, &str)) {
    common::cable(from, to, 1500);
}

fn host(place: &Namespaces, number: u8) {
    ip(place, "link set dev lo up");
    ip(place, &format!("address add 10.0.0.{number}/24 dev eth0"));
}

/// Sends bytes from one host to the other by TCP and compares them.
#[track_caller]
fn send(from: &Namespaces, to: &Namespaces, address: Ipv4Addr) {
    let bytes: Vec<u8> = (0..BYTES).map(|i| (i * i / 7) as u8).collect();
    common::assert_tcp(from, to, address, &bytes);
}

/// Segments that the kernel of a host refused for their checksum.
fn checksum_errors(place: &Namespaces) -> u64 {
    let text = place.run(|| fs::read_to_string("/proc/thread-self/net/snmp")).unwrap().unwrap();
    common::kernel_counter(&text, "Tcp", "InCsumErrors")
}

#[test]
fn tcp_passes_a_switch_by_every_back_end() {
    for backend in ["auto", "af_xdp", "af_packet"] {
        let Some([switch, a, b]) = common::namespaces("the node", || Ok(())) else { return };
        let mut daemons = Daemons::bare("defaults");
        for (place, port, number) in [(&a, "p1", 1), (&b, "p2", 2)] {
            cable((&switch, port), (place, "eth0"));
            host(place, number);
        }
        let file = format!(
            "name = \"s1\"\ncontrol = \"{}/s1.sock\"\nbackend = \"{backend}\"\n\
             [[port]]\nname = \"p1\"\n[[port]]\nname = \"p2\"\n",
            daemons.dir.display()
        );
        daemons.start(&switch, "node", "s1", &file);
        assert!(until(|| daemons.show("s1", "ports").is_some()), "{}", daemons.log("s1", &[]));
        send(&a, &b, [10, 0, 0, 2].into());
        send(&b, &a, [10, 0, 0, 1].into());
        assert_eq!([&a, &b].map(checksum_errors), [0, 0], "{backend}");
        // Which back-end it is, and why, stands in the log.
        let log = daemons.log("s1", &[]);
        let said = match backend {
            "auto" => "not AF_XDP: veth is a virtual device",
            "af_xdp" => "completes checksums that the far end left to its device",
            _ => "carries checksum and segmentation state",
        };
        assert!(log.contains(said), "{log}");
    }
}

/// Two nodes and a controller, a host at each node.
struct Fabric {
    places: [Namespaces; 4],
    daemons: Daemons,
}

impl Fabric {
    /// `None`, said aloud, where the test cannot run.
    fn new() -> Option<Fabric> {
        let places: [Namespaces; 4] = common::namespaces("the fabric", || Ok(()))?;
        let [n1, n2, a, b] = &places;
        cable((n1, "x1"), (n2, "x2"));
        cable((n1, "c1"), (n1, "ctl0"));
        for (node, port, place, number) in [(n1, "h1", a, 1), (n2, "h2", b, 2)] {
            cable((node, port), (place, "eth0"));
            host(place, number);
        }
        Some(Fabric { places, daemons: Daemons::new("defaults", 2) })
    }

    fn node_file(&self, name: &str, backend: &str, ports: &[&str]) -> String {
        let text = self.daemons.node_file(name).replace("af_packet", backend);
        ports.iter().fold(text, |text, p| format!("{text}[[port]]\nname = \"{p}\"\n"))
    }

    fn start(&mut self, backend: &str) {
        let first = self.node_file("n1", backend, &["x1", "h1", "c1"]);
        let second = self.node_file("n2", backend, &["x2", "h2"]);
        let [n1, n2, ..] = &self.places;
        self.daemons.start(n1, "node", "n1", &first);
        self.daemons.start(n2, "node", "n2", &second);
        self.daemons.start_controller(n1, "");
    }

    fn role(&self, node: &str, port: &str) -> String {
        self.daemons.link(node, port)["role"].as_str().unwrap_or_default().to_string()
    }

    /// Waits until the cable between the nodes is one of the fabric.
    #[track_caller]
    fn wait_for_link(&self) {
        let is_up = || self.role("n1", "x1") == "fabric" && self.role("n2", "x2") == "fabric";
        assert!(until(is_up), "{}", self.logs());
    }

    /// Waits until the first host reaches the second.
    #[track_caller]
    fn wait_for_host(&self) {
        let reached = || {
            let mut ping = Command::new("ping");
            ping.args(["-c", "1", "-W", "1", "10.0.0.2"]).stdout(Stdio::null());
            self.places[2].apply(&mut ping).unwrap();
            ping.status().unwrap().success()
        };
        assert!(until(reached), "{}", self.logs());
    }

    fn logs(&self) -> String {
        ["n1", "n2", "c1"].map(|n| self.daemons.log(n, &["links"])).concat()
    }
}

fn mtu(place: &Namespaces, device: &str) -> usize {
    place.run(|| plexus_io::device_facts(device)).unwrap().unwrap().mtu
}

#[test]
fn nodes_raise_the_mtu_of_the_links_between_them_and_lower_it_again() {
    for backend in ["auto", "af_xdp"] {
        let Some(mut fabric) = Fabric::new() else { return };
        fabric.start(backend);
        fabric.wait_for_link();
        let [n1, n2, a, b] = &fabric.places;
        assert_eq!((mtu(n1, "x1"), mtu(n2, "x2"), mtu(n1, "h1")), (1624, 1624, 1500));
        fabric.wait_for_host();
        send(a, b, [10, 0, 0, 2].into());
        send(b, a, [10, 0, 0, 1].into());
        assert_eq!([a, b].map(checksum_errors), [0, 0], "{backend}");
        for daemon in &mut fabric.daemons.running {
            signal(daemon, Signal::TERM);
            assert!(daemon.wait().unwrap().success(), "{backend}");
        }
        assert_eq!((mtu(n1, "x1"), mtu(n2, "x2")), (1500, 1500), "{backend}");
    }
}

#[test]
fn what_a_killed_node_has_raised_the_next_one_lowers() {
    let Some(mut fabric) = Fabric::new() else { return };
    fabric.start("af_packet");
    fabric.wait_for_link();
    fabric.daemons.kill(1);
    let [_, n2, ..] = &fabric.places;
    assert_eq!(mtu(n2, "x2"), 1624);
    fabric.daemons.start_again(n2, "node", "n2");
    fabric.wait_for_link();
    let second = fabric.daemons.running.last_mut().unwrap();
    signal(second, Signal::TERM);
    assert!(second.wait().unwrap().success());
    assert_eq!(mtu(n2, "x2"), 1500);

    // One that has no use for the device gives it back as it starts.
    let file = fabric.daemons.dir.join("n2.mtu");
    assert!(!file.exists());
    ip(n2, "link set dev x2 mtu 1624");
    fs::write(&file, "{\"x2\": 1400, \"h2\": 1400, \"gone\": 1400}").unwrap();
    let only_host = fabric.node_file("n2", "af_packet", &["h2"]);
    fabric.daemons.start(n2, "node", "n2", &only_host);
    assert!(until(|| fabric.role("n2", "h2") == "host"), "{}", fabric.logs());
    // What was set to something else is left alone.
    assert_eq!((mtu(n2, "x2"), mtu(n2, "h2")), (1400, 1500));
    assert!(!file.exists());
}

#[test]
fn a_port_that_a_reload_removes_has_its_mtu_lowered_at_once() {
    let Some(mut fabric) = Fabric::new() else { return };
    fabric.start("af_packet");
    fabric.wait_for_link();
    let [_, n2, ..] = &fabric.places;
    assert_eq!(mtu(n2, "x2"), 1624);
    let part = fabric.node_file("n2", "af_packet", &["h2"]);
    fabric.daemons.reload(1, "n2", &part);
    assert!(until(|| mtu(n2, "x2") == 1500), "{}", fabric.logs());
    // And it stays so.
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(mtu(n2, "x2"), 1500);
    assert!(!fabric.daemons.dir.join("n2.mtu").exists());
}

#[test]
fn a_fabric_node_takes_in_a_cable_by_reload() {
    let Some(mut fabric) = Fabric::new() else { return };
    fabric.start("auto");
    let whole = fabric.node_file("n1", "auto", &["h1", "c1", "x1"]);
    // It begins without its cable to the other node.
    fabric.daemons.kill(0);
    let [n1, ..] = &fabric.places;
    let part = fabric.node_file("n1", "auto", &["h1", "c1"]);
    fabric.daemons.start(n1, "node", "n1", &part);
    assert!(until(|| fabric.role("n1", "h1") == "host"), "{}", fabric.logs());
    // The last to be started.
    fabric.daemons.reload(2, "n1", &whole);
    assert!(until(|| fabric.role("n1", "x1") == "fabric"), "{}", fabric.logs());
    fabric.wait_for_host();
}

#[test]
fn a_node_that_may_not_raise_the_mtu_says_what_to_do_and_so_does_its_neighbour() {
    let Some(mut fabric) = Fabric::new() else { return };
    fabric.start("af_packet");
    let [_, n2, ..] = &fabric.places;
    // The second node again, without the privilege.
    fabric.daemons.kill(1);
    ip(n2, "link set dev x2 mtu 1500");
    let config = fabric.daemons.dir.join("n2.toml");
    let log = File::create(fabric.daemons.dir.join("n2.log")).unwrap();
    let node = plexus_in(n2, &["node", "run", "--config", config.to_str().unwrap()]);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-net_admin"]).arg(node.get_program());
    command.args(node.get_args()).env_remove("RUST_LOG");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    n2.apply(&mut command).unwrap();
    fabric.daemons.running.push(command.spawn().unwrap());

    let warned = || {
        let told = "x2 has 1500: nothing passes here until you run `ip link set dev x2 mtu 1624`";
        let awaits = "the end at n2 has 1500: nothing passes here until it is raised there";
        fabric.daemons.log("n2", &[]).contains(told)
            && fabric.daemons.log("n1", &[]).contains(awaits)
    };
    assert!(until(warned), "{}", fabric.logs());
    assert_eq!(fabric.role("n1", "x1"), "too_small");
    let socket = fabric.daemons.dir.join("n2.sock");
    let shown = Said::of(plexus(&["show", "links", "--control"]).arg(&socket)).out;
    let line = "x2: a fabric link needs an MTU of 1624 bytes at both ends; here it is 1500, at n1 \
                1624 (`ip link set dev x2 mtu 1624`)";
    assert!(shown.contains(line), "{shown}");
    // The advice helps.
    run(n2, "ip link set dev x2 mtu 1624");
    assert!(until(|| fabric.role("n2", "x2") == "fabric"), "{}", fabric.logs());
}

/// The labs that ship for it, as a switch and as a fabric.
#[test]
fn labs_of_unprepared_hosts_pass() {
    common::turn();
    let Some(desk) = Desk::root("defaults") else { return };
    for name in ["defaults", "defaults-fabric"] {
        let report = desk.json(&["lab", "run", &common::shipped(name)], 0);
        assert_eq!(report["passed"], true, "{report:#}");
    }
}
