//! Hosts of several subnets behind a fabric that is one router, in `labs/router-mesh.toml`.

use crate::common::{self, Desk, until};

const LAB: &str = "router-mesh";

#[test]
fn a_fabric_of_three_boxes_is_one_hop_between_two_subnets() {
    let Some(desk) = Desk::root("routed") else { return };
    desk.plexus(&["lab", "up", &common::shipped("router-mesh")]).expect(0);
    let pings = |from: &str, what: &str| {
        let said = desk.exec(LAB, from, &format!("ping -n -c 1 -W 1 {what}"));
        (said.code == Some(0), said.out)
    };
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
    desk.down(LAB);
}

#[test]
fn the_lab_passes_while_a_cable_is_pulled_out() {
    let Some(desk) = Desk::root("routed-lab") else { return };
    desk.plexus(&["lab", "run", &common::shipped("router-mesh")]).expect(0);
}
