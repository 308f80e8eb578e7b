//! Hosts with IPv6 addresses: their flows, and how they find each other.

use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::{Arc, Mutex};

use plexus_report::RunReport;
use plexus_sim::{Sim, SimTime};
use plexus_topo::{End, Topology};
use plexus_wire::checksum::Sum;
use plexus_wire::ndp::{self, Message, NdpOption};
use plexus_wire::{EtherType, MacAddr, Protocol, ethernet, ipv6, tcp};

use crate::run::{ran, settle};

/// Three hosts at a switch; `more` is the rest.
fn switch(more: &str) -> Topology {
    let mut text = String::from("name = \"v6\"\n[[node]]\nname = \"s1\"\n");
    for h in 1..=3 {
        text += &format!(
            "[[host]]\nname = \"h{h}\"\naddress = [\"10.0.0.{h}/24\", \"fd00::{h}/64\"]\n\
             [[link]]\nends = [\"h{h}\", \"s1.p{h}\"]\nrate = \"100Mbit\"\ndelay = \"10us\"\n"
        );
    }
    Topology::parse("v6.toml", &(text + more)).unwrap_or_else(|e| panic!("{e}"))
}

fn flow(name: &str, from: &str, to: &str, more: &str) -> String {
    format!("[[traffic]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{more}\n")
}

fn run(mut sim: Sim) -> RunReport {
    settle(&mut sim);
    sim.run(|_| true);
    sim.report()
}

/// Frames that have arrived at an end, with their times.
type Seen = Arc<Mutex<Vec<(SimTime, Vec<u8>)>>>;

fn watch(sim: &mut Sim, end: End) -> Seen {
    let seen = Seen::default();
    let noted = seen.clone();
    sim.watch(end, move |at, bytes| noted.lock().unwrap().push((at, bytes.to_vec())));
    seen
}

fn host(host: usize) -> End {
    End::Host { host, interface: 0 }
}

/// The IPv6 packet in a frame.
fn packet(frame: &[u8]) -> Option<ipv6::Packet<&[u8]>> {
    let frame = ethernet::Frame::new_checked(frame).ok()?;
    let packet = || ipv6::Packet::new_checked(frame.payload()).ok();
    (frame.ethertype() == EtherType::IPV6).then(packet)?
}

/// Ethernet and IPv6 destination of a solicitation of `target`, and whether it has the option that
/// it should have.
fn solicitation(frame: &[u8], target: Ipv6Addr) -> Option<(MacAddr, Ipv6Addr, bool)> {
    let packet = packet(frame).filter(|p| p.next_header() == Protocol::ICMPV6)?;
    let repr = ndp::Repr::parse(&ndp::Packet::new_checked(packet.payload()).ok()?).ok()?;
    let frame = ethernet::Frame::new_checked(frame).ok()?;
    let source = NdpOption::SourceLinkLayer(frame.src());
    let is_probe = packet.src().is_unspecified();
    let is_right = repr.options.contains(&source) != is_probe && packet.hop_limit() == 255;
    let is_of_it = repr.message == Message::NeighborSolicitation { target };
    is_of_it.then_some((frame.dst(), packet.dst(), is_right))
}

/// A lab's hosts with flows of every protocol over IPv6: within each subnet, and between them.
fn lab(name: &str, pairs: &[(&str, &str)]) -> Topology {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs").join(name);
    let mut text = std::fs::read_to_string(path).unwrap();
    for (n, (from, to)) in pairs.iter().enumerate() {
        let ping = format!("all-ping-{n}");
        text += &flow(&ping, from, to, "proto = \"icmp\"\ncount = 3");
        let udp = "proto = \"udp\"\nrate = \"2Mbit\"\nsize = 1452\ncount = 20";
        text += &flow(&format!("all-udp-{n}"), from, to, udp);
        let request = "proto = \"request\"\nrequest = \"3kB\"\nresponse = \"9kB\"\ncount = 10";
        text += &flow(&format!("all-request-{n}"), from, to, request);
        let tcp = format!("proto = \"tcp\"\nbytes = \"300kB\"\nafter = \"{ping}\"");
        text += &flow(&format!("all-tcp-{n}"), from, to, &tcp);
    }
    let mut topology = Topology::parse(name, &text).unwrap_or_else(|e| panic!("{e}"));
    topology.keep_flows(|flow| flow.name.starts_with("all-"));
    topology.assertions.clear();
    topology.events.clear();
    topology
}

#[test]
fn every_protocol_works_in_a_subnet_and_between_two_by_one_box_and_by_two_stages() {
    let mesh = [("a1", "fd00:1::2"), ("a1", "fd00:2::2"), ("b2", "fd00:1::2")];
    let stages = [("s1", "fd00:2::3"), ("h1", "fd00:2::1"), ("s3", "fd00:1::2")];
    for (name, pairs) in [("router-mesh.toml", mesh), ("router-two-stage.toml", stages)] {
        let topology = lab(name, &pairs);
        for seed in 1..=3 {
            let report = run(Sim::new(&topology, seed).unwrap());
            assert_eq!(report.facts.flows.len(), 12);
            let lossless = report.facts.flows.iter().all(|f| f.loss == 0.0);
            assert!(report.facts.passed && lossless, "{name}, seed {seed}: {report}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let topology = lab("router-mesh.toml", &[("a1", "fd00:1::2"), ("a1", "fd00:2::2")]);
    let digest = |seed| {
        let sim = ran(&topology, seed);
        (sim.work(), sim.report())
    };
    let (first, second, other) = (digest(3), digest(3), digest(4));
    assert_eq!(first, second);
    assert_ne!(first.0.digest, other.0.digest);
}

/// The wire is the oracle: checksums, lengths and code points of all frames between two hosts.
#[test]
fn packets_have_right_checksums_fill_the_mtu_and_carry_ecn() {
    let to = "fd00::2";
    let flows = flow("ping", "h1", to, "proto = \"icmp\"\nsize = 1452\ncount = 2")
        + &flow("udp", "h1", to, "proto = \"udp\"\nsize = 1452\nrate = \"9Mbit\"\ncount = 9")
        + &flow(
            "db",
            "h1",
            to,
            "proto = \"request\"\nrequest = \"3kB\"\nresponse = \"3kB\"\ncount = 4",
        )
        + &flow("tcp", "h1", to, "proto = \"tcp\"\ncongestion = \"dctcp\"\nbytes = \"200kB\"");
    let mut sim = Sim::new(&switch(&flows), 1).unwrap();
    let (there, back) = (watch(&mut sim, host(1)), watch(&mut sim, host(0)));
    let report = run(sim);
    assert!(report.facts.flows.iter().all(|f| f.loss == 0.0), "{report}");
    for (seen, is_data) in [(there, true), (back, false)] {
        let mut of = [0; 256];
        let (mut longest, mut capable) = ([0; 256], 0);
        for (_, frame) in seen.lock().unwrap().iter() {
            let Some(packet) = packet(frame) else { continue };
            let protocol = packet.next_header();
            let len = packet.payload_len() as u32;
            let sum = Sum::pseudo_v6(packet.src(), packet.dst(), protocol, len);
            assert!(sum.with(packet.payload()).is_right(), "{protocol}");
            of[usize::from(protocol.0)] += 1;
            longest[usize::from(protocol.0)] =
                longest[usize::from(protocol.0)].max(ipv6::HEADER_LEN + len as usize);
            if protocol == Protocol::TCP {
                let segment = tcp::Segment::new_checked(packet.payload()).unwrap();
                capable += usize::from(packet.ecn() == 2 && !segment.payload().is_empty());
            }
        }
        for protocol in [Protocol::ICMPV6, Protocol::UDP, Protocol::TCP] {
            assert!(of[usize::from(protocol.0)] > 1, "{protocol}");
            let full = if is_data || protocol != Protocol::TCP { 1500 } else { 100 };
            let longest = longest[usize::from(protocol.0)];
            assert!(longest == full || longest < 100 && full == 100, "{protocol}: {longest}");
        }
        assert_eq!(capable > 100, is_data, "{capable}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let ping = |size: u16| flow("p", "h1", "fd00::2", &format!("proto = \"icmp\"\nsize = {size}"));
    let with_count = |size| switch(&(ping(size) + "count = 1\n"));
    assert!(Sim::new(&with_count(1452), 1).is_ok());
    let why = Sim::new(&with_count(1453), 1).err().unwrap();
    assert!(why.contains("do not fit"), "{why}");
    let mut topology = switch("");
    topology.links[0].mtu = 1279;
    let why = Sim::new(&topology, 1).err().unwrap();
    assert!(why.contains("an MTU of 1280"), "{why}");
}

#[test]
fn an_unknown_neighbour_is_asked_for_three_times_and_a_stale_one_directly() {
    let ping = "proto = \"icmp\"\ncount = 1";
    let flows = flow("nobody", "h1", "fd00::9", ping)
        + &flow("first", "h1", "fd00::2", ping)
        + &flow("late", "h1", "fd00::2", &format!("{ping}\nstart = \"40s\""));
    let mut sim = Sim::new(&switch(&flows), 1).unwrap();
    let seen = watch(&mut sim, End::Port { node: 0, port: 0 });
    let report = run(sim);
    let losses: Vec<f64> = report.facts.flows.iter().map(|f| f.loss).collect();
    assert_eq!(losses, [1.0, 0.0, 0.0], "{report}");
    let seen = seen.lock().unwrap();
    let asked = |target: &str| -> Vec<(SimTime, MacAddr, Ipv6Addr)> {
        let target: Ipv6Addr = target.parse().unwrap();
        let asked = seen.iter().filter_map(|(at, frame)| {
            let (mac, ip, is_right) = solicitation(frame, target)?;
            assert!(is_right, "{frame:?}");
            Some((*at, mac, ip))
        });
        asked.collect()
    };
    let nobody = asked("fd00::9");
    assert_eq!(nobody.len(), 3);
    for pair in nobody.windows(2) {
        assert_eq!((pair[1].0 - pair[0].0).as_picos(), 1_000_000_000_000);
    }
    let group: Ipv6Addr = "ff02::1:ff00:9".parse().unwrap();
    assert!(nobody.iter().all(|(_, mac, ip)| {
        *ip == group && Some(*mac) == MacAddr::of_group(IpAddr::V6(group))
    }));
    let h2 = asked("fd00::2");
    let own: Ipv6Addr = "fd00::2".parse().unwrap();
    assert_eq!(h2.len(), 2, "{h2:?}");
    assert!(h2[0].1.is_multicast() && !h2[1].1.is_multicast() && h2[1].2 == own, "{h2:?}");
    // The old address was used meanwhile: the late ping did not wait for the answer.
    let rtt = |name: &str| {
        report.facts.flows.iter().find(|f| f.name == name).unwrap().latency_us_p50.unwrap()
    };
    assert!(rtt("late") < rtt("first") * 0.9, "{report}");
}

#[test]
fn a_host_that_has_been_silent_is_found() {
    // By its announcements, in a fabric; its entries have been stale for long.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/router-mesh.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let late = "proto = \"icmp\"\ncount = 1\nstart = \"300s\"";
    let flows =
        flow("late-far", "a1", "fd00:2::2", late) + &flow("late-near", "a1", "fd00:1::2", late);
    let mut topology = Topology::parse("late", &(text + &flows)).unwrap();
    topology.keep_flows(|f| f.name.starts_with("late-"));
    topology.assertions.clear();
    topology.events.clear();
    let report = run(Sim::new(&topology, 1).unwrap());
    assert!(report.facts.flows.iter().all(|f| f.loss == 0.0), "{report}");
    // At a switch, though it has never sent a frame.
    let ping = "proto = \"icmp\"\ncount = 3";
    let topology = switch(&flow("ping", "h1", "fd00::2", ping));
    let mut sim = Sim::quiet(&topology, 1, 64).unwrap();
    let seen = watch(&mut sim, End::Port { node: 0, port: 1 });
    assert!(sim.settle(|_| true));
    assert!(seen.lock().unwrap().is_empty());
    let report = run(sim);
    assert_eq!(report.facts.flows[0].loss, 0.0, "{report}");
}

#[test]
fn link_local_addresses_and_second_addresses_are_hosts_own() {
    let mut topology = switch("");
    let mut second = topology.hosts[1].addresses[0];
    second.address = "10.0.0.22".parse().unwrap();
    topology.hosts[1].addresses.push(second);
    let local = topology.hosts[1].mac.link_local().to_string();
    let ping = "proto = \"icmp\"\ncount = 2";
    let tcp = "proto = \"tcp\"\nbytes = \"20kB\"";
    let flows = flow("local", "h1", &local, ping) + &flow("second", "h1", "10.0.0.22", tcp);
    let flows = switch(&flows).traffic;
    topology.traffic = flows;
    let mut sim = Sim::new(&topology, 1).unwrap();
    let seen = watch(&mut sim, host(1));
    let report = run(sim);
    assert_eq!(report.facts.flows[0].loss, 0.0, "{report}");
    assert_eq!(report.facts.flows[1].loss, 0.0, "{report}");
    let from = topology.hosts[0].mac.link_local();
    let seen = seen.lock().unwrap();
    let local: Ipv6Addr = local.parse().unwrap();
    let pings = seen.iter().filter_map(|(_, f)| packet(f)).filter(|p| p.dst() == local);
    assert!(pings.clone().count() >= 2 && pings.clone().all(|p| p.src() == from));
}

#[test]
fn an_address_that_another_host_has_is_not_used() {
    let ping = flow("ping", "h3", "fd00::1", "proto = \"icmp\"\ncount = 1");
    let mut topology = switch(&ping);
    topology.hosts[1].addresses[1] = topology.hosts[0].addresses[1];
    for seed in 1..=3 {
        let mut sim = Sim::new(&topology, seed).unwrap();
        assert!(!sim.settle(|_| true));
        // The first one to ask gets it.
        assert!(matches!(sim.unsettled()[..], ["h1"] | ["h2"]), "{:?}", sim.unsettled());
    }
}

/// The node asks for the other host by an address of the version that the packet has.
#[test]
fn a_host_with_ipv6_alone_reaches_one_of_another_subnet_that_has_both() {
    let mut text = String::from(
        "name = \"alone\"\n[[node]]\nname = \"n1\"\n[[controller]]\nname = \"c1\"\non = \"n1\"\n",
    );
    for (prefix, gateway) in [
        ("10.2.0.0/24", "10.2.0.254"),
        ("fd00:1::/64", "fd00:1::fe"),
        ("fd00:2::/64", "fd00:2::fe"),
    ] {
        text += &format!("[[controller.subnet]]\nprefix = \"{prefix}\"\ngateway = \"{gateway}\"\n");
    }
    for (host, rest) in [
        ("a1", "address = \"fd00:1::1/64\"\ngateway = \"fd00:1::fe\""),
        (
            "b1",
            "address = [\"10.2.0.1/24\", \"fd00:2::1/64\"]\n\
             gateway = [\"10.2.0.254\", \"fd00:2::fe\"]",
        ),
    ] {
        text += &format!(
            "[[host]]\nname = \"{host}\"\n{rest}\n[[link]]\nends = [\"{host}\", \"n1.{host}\"]\n"
        );
    }
    // Its address of IPv4 is known, too.
    text += &flow("other", "b1", "10.2.0.254", "proto = \"icmp\"\ncount = 1");
    text += &flow("there", "a1", "fd00:2::1", "proto = \"icmp\"\ncount = 3\nafter = \"other\"");
    let topology = Topology::parse("alone.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    let report = run(Sim::new(&topology, 1).unwrap());
    assert!(report.facts.passed && report.facts.flows[1].loss == 0.0, "{report}");
}
