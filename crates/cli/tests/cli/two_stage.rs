//! A router in two stages, in `labs/router-two-stage.toml`: boxes that balance in front of boxes
//! that route.

use crate::common::{self, Desk, until};

const LAB: &str = "router-two-stage";

#[test]
fn two_stages_are_one_hop_and_the_front_boxes_have_no_table() {
    let Some(desk) = Desk::root("two-stage") else { return };
    desk.plexus(&["lab", "up", &common::shipped(LAB)]).expect(0);
    let pings = |from: &str, what: &str| desk.pings(LAB, from, what);
    for (from, to) in [("h1", "10.2.0.1"), ("s2", "10.1.0.1"), ("h2", "fd00:2::3")] {
        assert!(until(|| pings(from, to).0), "{from} to {to}: {}", pings(from, to).1);
    }
    // One hop, from the gateway's address, whichever box routes; and the host is the next.
    for (from, to, gateway) in [
        ("h1", "10.2.0.1", "10.1.0.254"),
        ("h1", "10.2.0.2", "10.1.0.254"),
        ("h1", "10.2.0.3", "10.1.0.254"),
        ("s1", "fd00:1::2", "fd00:2::fe"),
    ] {
        assert!(until(|| pings(from, to).0), "{from} to {to}: {}", pings(from, to).1);
        let (passed, said) = pings(from, &format!("-t 1 {to}"));
        assert!(!passed && said.contains(&format!("From {gateway} ")), "{said}");
        assert!(pings(from, &format!("-t 2 {to}")).0, "{from} to {to}");
    }
    for gateway in ["10.1.0.254", "10.2.0.254", "fd00:1::fe"] {
        assert!(until(|| pings("h1", gateway).0), "{gateway}");
    }
    // Beyond the subnets, by the host that the file names; from there only by that host.
    desk.exec(LAB, "s2", "ip addr add 192.0.2.1/32 dev lo").expect(0);
    assert!(until(|| pings("h1", "192.0.2.1").0), "{}", pings("h1", "192.0.2.1").1);
    assert!(until(|| pings("s2", "-I 192.0.2.1 10.1.0.1").0));
    desk.exec(LAB, "s1", "ip addr add 192.0.2.9/32 dev lo").expect(0);
    assert!(!pings("s1", "-I 192.0.2.9 10.1.0.1").0, "s1 is no way to 192.0.2.0/24");
    // The back boxes have the table, and the controller says so.
    let shown = || desk.json(&["show", "router", "--node", "router-two-stage/c1"], 0);
    let with_table = || {
        let (shown, mut names) = (shown(), Vec::new());
        for node in shown["nodes"].as_array().unwrap() {
            if !node["version"].is_null() && node["forwards"] == true {
                names.push(node["name"].as_str().unwrap().to_string());
            }
        }
        names.sort();
        names
    };
    assert!(until(|| with_table().len() >= 2), "{}", shown());
    assert_eq!(with_table(), ["b1", "b2"], "{}", shown());
    // While a back box is lost.
    desk.plexus(&["lab", "run", &common::shipped(LAB)]).expect(0);
}

#[test]
fn a_back_box_shows_the_flows_that_its_kernel_routes() {
    const LAB: &str = "fast-two-stage";
    common::turn();
    let Some(desk) = Desk::root(LAB) else { return };
    desk.plexus(&["lab", "up", &common::shipped(LAB)]).expect(0);
    let shown = || desk.json(&["show", "fast-table", "--node", "fast-two-stage/b1"], 0);
    let is_routed = |to: &str| {
        desk.exec(LAB, "h1", &format!("ping -n -q -f -c 200 -W 1 {to}"));
        let shown = shown();
        let mut flows = shown["flows"].as_array().unwrap().iter();
        flows.any(|flow| {
            flow["route"]["destination"] == to
                && flow["route"]["from_node"] == true
                && flow["packets"] != 0
        })
    };
    // By another link, with a header in front; and to a host of its own, with none.
    for to in ["10.3.0.3", "fd00:3::3", "10.2.0.2"] {
        assert!(until(|| is_routed(to)), "{to}: {:#}", shown());
    }
    let text = desk.plexus(&["show", "fast-table", "--node", "fast-two-stage/b1"]).expect(0).out;
    assert!(text.contains("0x0800 from a node"), "{text}");
    // At the end of its time a packet is the pipeline's, which answers.
    let said = desk.exec(LAB, "h1", "ping -n -c 1 -W 1 -t 1 10.3.0.3").out;
    assert!(said.contains("From 10.1.0.254 "), "{said}");
    let report = desk.json(&["lab", "run", &common::shipped(LAB)], 0);
    assert_eq!(report["passed"], true, "{report:#}");
    desk.down(LAB);
}

/// The shipped lab under another name, with routes to so many networks by `s2`, of which each back
/// box holds a part.
fn in_parts(name: &str, networks: u8) -> String {
    let text = std::fs::read_to_string(common::shipped(LAB)).unwrap();
    let text = text.replace(&format!("name = {LAB:?}"), &format!("name = {name:?}"));
    let route =
        |n| format!("[[controller.route]]\nprefix = \"45.{n}.0.0/16\"\nvia = \"10.2.0.2\"\n");
    let routes: String = (0..networks).map(route).collect();
    let (head, hosts) = text.split_once("[[host]]").unwrap();
    format!("{head}{routes}[controller.partition]\ncopies = 1\n\n[[host]]{hosts}")
}

#[test]
fn back_boxes_that_hold_parts_of_the_table_are_one_router() {
    let (lab, networks) = ("two-stage-parts", 12);
    let Some(desk) = Desk::root(lab) else { return };
    let file = desk.file(lab, &in_parts(lab, networks));
    desk.plexus(&["lab", "up", &file]).expect(0);
    let pings = |from: &str, what: &str| {
        let said = desk.exec(lab, from, &format!("ping -n -c 1 -W 1 {what}"));
        (said.code == Some(0), said.out)
    };
    for n in 0..networks {
        desk.exec(lab, "s2", &format!("ip addr add 45.{n}.0.1/32 dev lo")).expect(0);
    }
    for n in 0..networks {
        let to = format!("45.{n}.0.1");
        assert!(until(|| pings("h1", &to).0), "{to}: {}", pings("h1", &to).1);
        assert!(pings("h1", &format!("-t 2 {to}")).0, "{to} is two hops away");
    }
    for (from, to) in [("h2", "10.2.0.1"), ("s3", "10.1.0.1"), ("s1", "fd00:1::1")] {
        assert!(until(|| pings(from, to).0), "{from} to {to}: {}", pings(from, to).1);
    }
    // Each route is at one of the two, and all are at one of them.
    let shown = desk.json(&["show", "router", "--node", "two-stage-parts/c1"], 0);
    let routes = |name: &str| common::item(&shown["nodes"], "name", name)["routes"].as_u64();
    let (b1, b2) = (routes("b1").unwrap(), routes("b2").unwrap());
    assert!(b1 > 0 && b1 < b2 && b1 + b2 == u64::from(networks) + 1, "{shown}");
    assert_eq!((routes("f1"), routes("f2")), (None, None), "{shown}");
    for n in 0..networks {
        let of = |node: &str| {
            let node = format!("two-stage-parts/{node}");
            let to = format!("45.{n}.0.1");
            desk.json(&["show", "route", &to, "--node", &node], 0)["prefix"].is_string()
        };
        assert!(of("b1") != of("b2"), "45.{n}.0.0/16");
    }
    desk.down(lab);
    desk.plexus(&["sim", "run", &file]).expect(0);
}
