//! A fabric that is one router under FRR, in `labs/router-group-frr.toml`: its routes come from
//! the neighbours, and forwarding outlives the daemons and the controller.

use std::process::{Child, Stdio};

use serde_json::Value;

use crate::common::{self, Desk, Running, until};

const LAB: &str = "router-group-frr";
/// The group's Ethernet address.
const GROUP: &str = "02:50:4c:58:00:01";

fn show(desk: &Desk, what: &[&str], who: &str) -> Value {
    let who = format!("{LAB}/{who}");
    let said = desk.plexus(&[&["show"], what, &["--node", &who, "--json"][..]].concat());
    serde_json::from_str(&said.out).unwrap_or_default()
}

/// The prefix by which a node routes to an address.
fn prefix(desk: &Desk, address: &str, node: &str) -> String {
    show(desk, &["route", address], node)["prefix"].as_str().unwrap_or_default().to_string()
}

/// Pings that go on while something else is done, and how many were answered in the end.
struct Pings(Child, u32);

impl Pings {
    fn begin(desk: &Desk, from: &str, to: &str, count: u32) -> Pings {
        let ping = ["ping", "-q", "-i", "0.02", "-c", &count.to_string(), to].map(str::to_string);
        let lab = ["lab", "exec", LAB, from, "--"].map(str::to_string);
        let words: Vec<&str> = lab.iter().chain(&ping).map(String::as_str).collect();
        let mut command = desk.command(&words);
        Pings(command.stdout(Stdio::piped()).spawn().unwrap(), count)
    }

    fn lost(self) -> u32 {
        let said = String::from_utf8(self.0.wait_with_output().unwrap().stdout).unwrap();
        let line = said.lines().find(|line| line.contains("received")).unwrap();
        let received = line.split(", ").find(|part| part.ends_with(" received")).unwrap();
        self.1 - received.split(' ').next().unwrap().parse::<u32>().unwrap()
    }
}

#[test]
fn one_router_of_three_boxes_speaks_by_frr_and_routes_on_without_it() {
    common::turn();
    let Some(desk) = Desk::with_routing_daemons("group-daemons") else { return };
    desk.plexus(&["lab", "up", &common::shipped(LAB)]).expect(0);
    let pings = |from: &str, what: &str| desk.pings(LAB, from, what);
    for (from, to) in [("a", "10.11.0.2"), ("b", "10.12.0.2"), ("c", "fd00:1::2")] {
        assert!(until(|| pings(from, to).0), "{from} to {to}: {}", pings(from, to).1);
    }
    // Its boxes are one hop, though these two hosts are at two of them.
    let hop = |ttl: u8| pings("b", &format!("-t {ttl} 10.12.0.2")).1;
    assert!(hop(2).contains("From 10.8.1.6 "), "{}", hop(2));
    assert!(hop(3).contains("From 10.8.2.1 "), "{}", hop(3));
    // A route of another routing daemon is on every box, and goes again.
    let others = |what: &str| desk.exec(LAB, "n1", &format!("ip route {what}")).expect(0);
    others("add 198.51.100.0/24 via 10.8.2.1");
    let has = |node: &str| prefix(&desk, "198.51.100.7", node) == "198.51.100.0/24";
    assert!(until(|| ["n1", "n2", "n3"].into_iter().all(has)));
    others("del 198.51.100.0/24");
    assert!(until(|| !["n1", "n2", "n3"].into_iter().any(has)));
    // A network that only the kernel of that box could reach is no route of the group.
    others("add 198.51.101.0/24 dev lo");
    others("add blackhole 198.51.102.0/24");
    let dropped = |node: &str| prefix(&desk, "198.51.102.1", node) == "198.51.102.0/24";
    assert!(until(|| ["n1", "n2", "n3"].into_iter().all(dropped)));
    assert_eq!(prefix(&desk, "198.51.101.1", "n3"), "");
    // All copies are the same, and each device is at its port.
    let copies = || {
        let router = show(&desk, &["router"], "c1");
        let nodes = router["nodes"].as_array().cloned().unwrap_or_default();
        let devices = router["devices"].as_array().cloned().unwrap_or_default();
        let in_the_fabric = |node: &&Value| node["up"] == true;
        let nodes: Vec<&Value> = nodes.iter().filter(in_the_fabric).collect();
        nodes.len() == 3
            && nodes.iter().all(|node| node["lag"] == 0)
            && devices.len() == 3
            && devices.iter().all(|device| device["at"][0] == "n1")
    };
    assert!(until(copies), "{}", show(&desk, &["router"], "c1"));
    // Nobody outside has learned where the daemons are.
    let known = desk.exec(LAB, "r2", "ip neigh show to 10.8.2.6 nud reachable nud stale").expect(0);
    assert!(known.out.contains(GROUP), "{}", known.out);

    desk.plexus(&["lab", "run", &common::shipped(LAB)]).expect(0);

    // Without controller, without FRR, and with a new controller.
    let streams = [("c", "10.1.0.2"), ("a", "10.12.0.2"), ("c", "fd00:1::2")];
    let streams = streams.map(|(from, to)| Pings::begin(&desk, from, to, 600));
    let node = |script: &str| desk.exec(LAB, "n1", script).expect(0);
    let labs = desk.dir.join("labs").join(LAB);
    let file = labs.join("c1.toml").display().to_string();
    node(&format!("kill -9 $(pgrep -f 'controller ru[n] --config {file}')"));
    node("sleep 2; kill -9 $(pgrep -f '/n1.fr[r]/')");
    assert_eq!(show(&desk, &["router"], "n3")["routes_here"], true);
    let _ = std::fs::remove_file(labs.join("c1.sock"));
    let run = [
        "lab",
        "exec",
        LAB,
        "n1",
        "--",
        env!("CARGO_BIN_EXE_plexus"),
        "controller",
        "run",
        "--config",
    ];
    let mut again = desk.command(&[&run[..], &[&file]].concat());
    let _again = Running(again.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    assert!(until(copies), "{}", show(&desk, &["router"], "c1"));
    assert!(until(|| prefix(&desk, "10.12.0.2", "n1") == "10.12.0.0/24"));
    assert_eq!(streams.map(Pings::lost), [0; 3]);
    node(&format!("kill $(pgrep -f 'controller ru[n] --config {file}')"));
    desk.plexus(&["lab", "down", LAB]).expect(0);
}
