//! `plexus trace --explain` in `labs/ring.toml`: the explained way is the one that packets take.

use serde_json::Value;

use crate::common::{self, Desk, until};

#[test]
fn what_becomes_of_a_packet_is_explained_and_then_happens() {
    let lab = "explain-ring";
    let Some(desk) = Desk::root(lab) else { return };
    let text = std::fs::read_to_string(common::shipped("ring")).unwrap();
    let file = desk.file(lab, &text.replace("name = \"ring\"", &format!("name = {lab:?}")));
    desk.plexus(&["lab", "up", &file]).expect(0);
    let controller = format!("{lab}/c1");
    let explain = |more: &[&str], code: i32| {
        let arguments = [&["trace", "--explain", "--node", &controller], more].concat();
        desk.json(&arguments, code)
    };
    let steps = |told: &Value, place: usize| told["boxes"][place]["steps"].to_string();
    assert!(until(|| desk.exec(lab, "h1", "ping -n -c 1 -W 1 10.0.0.3").code == Some(0)));
    // It arrives, by ports whose counters then grow.
    let told = explain(&["--from", "h1", "--to", "h3", "--udp", "9"], 0);
    let boxes = told["boxes"].as_array().unwrap();
    assert!(boxes.len() >= 2 && told["pair"]["refused"].is_null(), "{told}");
    let sent = |place: usize| {
        let node = format!("{lab}/{}", boxes[place]["node"].as_str().unwrap());
        let shown = desk.json(&["show", "ports", "--node", &node], 0);
        let out = &boxes[place]["leaves"][0]["port_name"];
        let ports = shown["ports"].as_array().unwrap().clone();
        let port = ports.iter().find(|port| port["name"] == *out).unwrap();
        port["tx_packets"].as_u64().unwrap()
    };
    let before: Vec<u64> = (0..boxes.len()).map(sent).collect();
    desk.exec(lab, "h1", "ping -n -c 50 -i 0.01 -W 1 10.0.0.3").expect(0);
    for (place, before) in before.iter().enumerate() {
        assert!(sent(place) >= before + 50, "box {place} of {told}");
    }
    // An address that no host has, a VLAN, and a network without a route.
    let told = explain(&["--from", "h1", "--to", "10.0.0.77"], 1);
    assert_eq!(told["pair"]["refused"], "unknown_target", "{told}");
    let told = explain(&["--from", "h1", "--to", "h3", "--vlan", "7"], 1);
    assert!(steps(&told, 0).contains("dropped"), "{told}");
    let told = explain(&["--from", "h1", "--to", "192.0.2.1"], 1);
    assert!(steps(&told, 0).contains("to_router"), "{told}");
    let said = desk.plexus(&[
        "trace",
        "--explain",
        "--node",
        &controller,
        "--from",
        "h1",
        "--to",
        "192.0.2.1",
    ]);
    let said = said.expect(1);
    assert!(said.out.contains("no_route") && said.out.contains("add a route"), "{}", said.out);
    // A sender by its IP address alone, of a frame that is no IP packet.
    let told = explain(&["--from", "10.0.0.1", "--to", "ff:ff:ff:ff:ff:ff"], 1);
    assert!(steps(&told, 0).contains("from_host"), "{told}");
    let unknown = ["--from", "10.0.0.88", "--to", "ff:ff:ff:ff:ff:ff"];
    let arguments = [&["trace", "--explain", "--node", &controller], &unknown[..]].concat();
    let said = desk.plexus(&arguments).expect(2);
    assert!(said.err.contains("no host with 10.0.0.88"), "{said:?}");
    // Descriptions that make no sense.
    for bad in [&["--from", "h1"][..], &["--frame", "xyz"], &["--from", "h9", "--to", "h1"]] {
        let arguments = [&["trace", "--explain", "--node", &controller], bad].concat();
        desk.plexus(&arguments).expect(2);
    }
}
