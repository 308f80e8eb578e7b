//! Hosts of several subnets behind a fabric that is one router, in `labs/router-*.toml`.

use std::process::Command;

use crate::common::{self, Desk, turn, until};

const LAB: &str = "router-mesh";

#[test]
fn a_fabric_of_three_boxes_is_one_hop_between_two_subnets() {
    turn();
    let Some(desk) = Desk::root("routed") else { return };
    desk.plexus(&["lab", "up", &common::shipped(LAB)]).expect(0);
    let pings = |from: &str, what: &str| desk.pings(LAB, from, what);
    for (from, to) in [("a1", "10.2.0.2"), ("b2", "10.1.0.1"), ("a2", "fd00:2::2")] {
        assert!(until(|| pings(from, to).0), "{from} to {to}: {}", pings(from, to).1);
    }
    // One hop, from the gateway's address, and the host is the next.
    for (from, to, gateway) in [("a1", "10.2.0.2", "10.1.0.254"), ("a2", "fd00:2::2", "fd00:1::fe")]
    {
        let (passed, said) = pings(from, &format!("-t 1 {to}"));
        assert!(!passed && said.contains(&format!("From {gateway} ")), "{said}");
        assert!(pings(from, &format!("-t 2 {to}")).0, "{from} to {to}");
    }
    // The gateways answer, that of the other subnet too.
    for gateway in ["10.1.0.254", "10.2.0.254", "fd00:1::fe"] {
        assert!(pings("a1", gateway).0, "{gateway}");
    }
    // Beyond the subnets, by the host that the file names; from there only by that host.
    desk.exec(LAB, "b2", "ip addr add 192.0.2.1/32 dev lo").expect(0);
    assert!(until(|| pings("a1", "192.0.2.1").0), "{}", pings("a1", "192.0.2.1").1);
    assert!(pings("b2", "-I 192.0.2.1 10.1.0.1").0);
    desk.exec(LAB, "b1", "ip addr add 192.0.2.9/32 dev lo").expect(0);
    assert!(!pings("b1", "-I 192.0.2.9 10.1.0.1").0, "b1 is no way to 192.0.2.0/24");
    // The host's neighbour is the gateway, not the host of the other subnet.
    let known = desk.exec(LAB, "b2", "ip -4 neigh").expect(0).out;
    assert!(known.contains("10.2.0.254 ") && !known.contains("10.1.0."), "{known}");
    let node = |words: &[&str]| {
        let node = ["--node", "router-mesh/n1"];
        desk.json(&[&["show"], words, &node[..]].concat(), 0)
    };
    let route = node(&["route", "10.2.0.2"]);
    assert_eq!((&route["agrees"], &route["class"]), (&true.into(), &"routed".into()), "{route}");
    let neighbours = node(&["neighbours"]).to_string();
    assert!(neighbours.contains("10.2.0.2") && neighbours.contains("permanent"), "{neighbours}");
    assert_eq!(node(&["fib"])["interfaces"][0]["name"], "group");
    // The controller tells the way, box by box.
    let way = desk.json(&["show", "route", "10.2.0.2", "--node", "router-mesh/c1"], 0);
    let neighbour = &way["neighbours"][0];
    assert_eq!((&way["action"], &neighbour["mtu"]), (&"deliver".into(), &1500.into()), "{way}");
    assert_eq!(neighbour["station"]["node"], "n3", "{way}");
    let paths = neighbour["paths"].as_array().unwrap().iter();
    let names = paths.map(|path| {
        let boxes = path["boxes"].as_array().unwrap().iter();
        boxes.map(|b| b["node"].as_str().unwrap()).collect::<Vec<_>>()
    });
    assert!(names.collect::<Vec<_>>().contains(&vec!["n1", "n3"]), "{way}");
    let said = desk.plexus(&["show", "route", "192.0.2.1", "--node", "router-mesh/c1"]).expect(0);
    assert!(
        said.out.starts_with("192.0.2.1: by 192.0.2.0/24, to hosts that lead there\n10.2.0.2: ")
    );
    let said = desk.plexus(&["show", "route", "127.0.0.1", "--node", "router-mesh/c1"]).expect(0);
    assert!(said.out.contains("no router forwards to it"), "{}", said.out);
    // While a cable is pulled out.
    desk.plexus(&["lab", "run", &common::shipped(LAB)]).expect(0);
    desk.down(LAB);
}

/// Two subnets. The hosts of the second take 1280 bytes; `b1` has not been told so.
const MTUS: &str = r#"
name = "mtus"
assert = ["out.received >= 5Mbit", "back.received >= 5Mbit", "conserved == true"]
[[node]]
name = "n1"
[[node]]
name = "n2"
[[controller]]
name = "c1"
on = "n1"
[[controller.subnet]]
prefix = "10.1.0.0/24"
gateway = "10.1.0.254"
[[controller.subnet]]
prefix = "10.2.0.0/24"
gateway = "10.2.0.254"
mtu = 1280
[[controller.subnet]]
prefix = "fd00:1::/64"
gateway = "fd00:1::fe"
[[controller.subnet]]
prefix = "fd00:2::/64"
gateway = "fd00:2::fe"
mtu = 1280
[[host]]
name = "a1"
address = ["10.1.0.1/24", "fd00:1::1/64"]
gateway = ["10.1.0.254", "fd00:1::fe"]
[[host]]
name = "b1"
address = ["10.2.0.1/24", "fd00:2::1/64"]
gateway = ["10.2.0.254", "fd00:2::fe"]
[[host]]
name = "b2"
address = ["10.2.0.2/24", "fd00:2::2/64"]
gateway = ["10.2.0.254", "fd00:2::fe"]
[[link]]
ends = ["a1", "n1.a1"]
[[link]]
ends = ["b1", "n2.b1"]
[[link]]
ends = ["b2", "n2.b2"]
mtu = 1280
[[link]]
ends = ["n1.x", "n2.x"]
mtu = 2000
[[traffic]]
name = "out"
from = "a1"
to = "b1"
proto = "tcp"
duration = "2s"
[[traffic]]
name = "back"
from = "b1"
to = "a1"
proto = "tcp"
duration = "2s"
"#;

/// A counter of a host's kernel, such as `Udp` `NoPorts`.
fn counted(desk: &Desk, host: &str, protocol: &str, name: &str) -> u64 {
    let said = desk.exec("mtus", host, "cat /proc/net/snmp").expect(0).out;
    common::kernel_counter(&said, protocol, name)
}

#[test]
fn kernels_find_the_mtu_of_a_narrow_subnet_and_fragments_reach_it() {
    turn();
    let Some(desk) = Desk::root("routed-mtu") else { return };
    let file = desk.file("mtus", MTUS);
    desk.plexus(&["lab", "up", &file]).expect(0);
    let ping = |from: &str, what: &str| {
        let said = desk.exec("mtus", from, &format!("ping -n -c 1 -W 1 {what}"));
        (said.code == Some(0), said.out)
    };
    for to in ["10.2.0.1", "10.2.0.2", "fd00:2::1", "fd00:2::2"] {
        assert!(until(|| ping("a1", to).0), "{to}: {}", ping("a1", to).1);
    }
    // UDP of 4000 bytes: the kernel cuts it at 1500, and the group each piece at 1280.
    for to in ["b1", "b2"] {
        let all =
            || [("Udp", "NoPorts"), ("Ip", "ReasmReqds")].map(|(p, n)| counted(&desk, to, p, n));
        let [datagrams, pieces] = all();
        let datagram = format!("head -c 4000 /dev/zero > /dev/udp/10.2.0.{}/9", &to[1..]);
        let sent = ["lab", "exec", "mtus", "a1", "--", "bash", "-c", &datagram];
        desk.plexus(&sent).expect(0);
        // Three of the kernel's, of which the group cuts two.
        assert!(until(|| all() == [datagrams + 1, pieces + 5]), "{:?} to {to}", all());
    }
    // A ping that may be cut passes both ways, and one that may not is told the MTU, once.
    assert!(ping("a1", "-M dont -s 1400 10.2.0.1").0);
    let too_long = |to: &str, len: usize| ping("a1", &format!("-M do -s {len} {to}"));
    let (passed, said) = too_long("10.2.0.2", 1300);
    let told = "From 10.1.0.254 icmp_seq=1 Frag needed and DF set (mtu = 1280)";
    assert!(!passed && said.contains(told), "{said}");
    let (passed, said) = too_long("fd00:2::2", 1300);
    assert!(
        !passed && said.contains("From fd00:1::fe icmp_seq=1 Packet too big: mtu=1280"),
        "{said}"
    );
    for (to, len) in [("10.2.0.2", 1252), ("fd00:2::2", 1232)] {
        assert!(too_long(to, len).0, "{to}: {}", too_long(to, len).1);
    }
    // The kernel knows it from now on.
    let known = desk.exec("mtus", "a1", "ip route get 10.2.0.2; ip -6 route get fd00:2::2").out;
    assert_eq!(known.matches("mtu 1280").count(), 2, "{known}");
    desk.down("mtus");
    // TCP, between hosts that both believe in 1500.
    desk.plexus(&["lab", "run", &file]).expect(0);
}

/// One node; routing daemons would have the device `gw0`.
const LEAK: &str = r#"
name = "leak"
[[node]]
name = "n1"
[[controller]]
name = "c1"
on = "n1"
[controller.limits]
routes = 200
[[controller.subnet]]
prefix = "10.1.0.0/24"
gateway = "10.1.0.254"
device = "gw0"
[[host]]
name = "a1"
address = "10.1.0.1/24"
gateway = "10.1.0.254"
[[link]]
ends = ["a1", "n1.a1"]
"#;

/// More routes in the kernel's table than the controller takes: those that were there stay, and
/// once the others have gone, what was refused is read again.
#[test]
fn a_leak_into_the_kernels_table_is_shown_and_outlived() {
    let Some(desk) = Desk::root("routed-leak") else { return };
    let file = desk.file("leak", LEAK);
    desk.plexus(&["lab", "up", &file]).expect(0);
    let router = || desk.json(&["show", "router", "--node", "leak/c1"], 0);
    let settled = |routes: std::ops::RangeInclusive<u64>, full: bool| {
        let is_settled = || {
            let shown = router();
            let (count, lag) = (shown["routes"].as_u64().unwrap(), &shown["nodes"][0]["lag"]);
            routes.contains(&count) && (&shown["full"], lag) == (&full.into(), &0.into())
        };
        assert!(until(is_settled), "{routes:?} {full}: {}", router());
    };
    let change = |what: &str, second: u8, count: u32| {
        let script = format!(
            "i=0; while [ $i -lt {count} ]; do \
             echo route {what} 172.{second}.$i.0/24 via 10.1.0.1; i=$((i+1)); done | ip -batch -"
        );
        desk.exec("leak", "n1", &script).expect(0);
    };
    change("add", 16, 150);
    settled(150..=150, false);
    change("add", 17, 250);
    // The kernel has some for its own addresses.
    settled(190..=200, true);
    assert!(router()["refused"].as_u64().unwrap() >= 200, "{}", router());
    let said = desk.plexus(&["show", "router", "--node", "leak/c1"]).expect(0);
    assert!(said.out.contains("200 routes are the most: further ones are refused"), "{}", said.out);
    // A route that comes during the leak finds no room, and the old ones stay.
    change("add", 18, 1);
    let leads = |to: &str| {
        let way = desk.json(&["show", "route", to, "--node", "leak/c1"], 0);
        way["action"] == "forward"
    };
    assert!(leads("172.16.0.1") && leads("172.16.149.1") && !leads("172.18.0.1"));
    change("del", 17, 250);
    settled(151..=151, false);
    assert!(leads("172.18.0.1"));
    desk.down("leak");
}

#[test]
fn a_star_of_boxes_with_quotas_is_one_hop() {
    let Some(desk) = Desk::root("routed-star") else { return };
    let file = common::shipped("router-star");
    desk.plexus(&["lab", "up", &file]).expect(0);
    let report = desk.json(&["lab", "run", &file], 0);
    assert_eq!(report["passed"], true);
    for (node, cpu) in [("r1", 0.5), ("r4", 0.5), ("sw", 2.0)] {
        assert_eq!(report["cpu_quota"][node]["cpu"], cpu, "{report:#}");
    }
    // r3 routes, and r1 and the switch between them do not.
    let pings = |ttl: u8| desk.pings("router-star", "t3", &format!("-t {ttl} 10.1.0.2"));
    let (passed, said) = pings(1);
    assert!(!passed && said.contains("From 10.3.0.254 "), "{said}");
    assert!(pings(2).0, "{}", pings(2).1);
    desk.down("router-star");
}

#[test]
fn a_group_has_the_table_of_the_internet() {
    turn();
    let Some(desk) = Desk::root("routed-full") else { return };
    let text = std::fs::read_to_string(common::shipped("router-full-table")).unwrap();
    let file = desk.file("router-full-table", &text);
    // The file of routes, by the command at the head of the lab.
    let lines = text.lines().filter_map(|line| line.strip_prefix("#     "));
    let command: Vec<&str> = lines.take_while(|line| !line.starts_with("plexus ")).collect();
    let routes = desk.dir.join("full-table.routes").display().to_string();
    let command = command.join("\n").replace("labs/full-table.routes", &routes);
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let made = Command::new("sh").args(["-c", &command]).current_dir(root).status().unwrap();
    assert!(made.success(), "{command}");
    desk.plexus(&["lab", "up", &file]).expect(0);
    let router = desk.json(&["show", "router", "--node", "router-full-table/c1"], 0);
    assert_eq!(router["routes"], 901_899 + 160_147, "{router:#}");
    let nodes = router["nodes"].as_array().unwrap();
    assert!(nodes.len() == 2 && nodes.iter().all(|node| node["lag"] == 0), "{router:#}");
    assert_eq!(desk.json(&["lab", "run", &file], 0)["passed"], true);
    desk.down("router-full-table");
    // A mistake in the file of routes is named with its line.
    std::fs::write(&routes, "1.0.0.0/24 10.2.0.1\n1.0.4.0/22 10.2.0.9\n").unwrap();
    let said = desk.plexus(&["lab", "up", &file]).expect(2);
    assert!(said.err.contains("full-table.routes:2: any host could say"), "{said:#?}");
    desk.assert_nothing_left();
}
