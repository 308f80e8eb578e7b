//! `plexus trace --explain` in `labs/ring.toml`. That packets take the way that is explained is
//! tested in `crates/controller/tests/fabric/explained.rs`.

use serde_json::Value;

use crate::common::{Desk, until};

/// Asks in a lab that is up.
pub(crate) fn assert_explained(desk: &Desk, lab: &str) {
    let controller = format!("{lab}/c1");
    let explain = |more: &[&str], code: i32| {
        let arguments = [&["trace", "--explain", "--node", &controller], more].concat();
        desk.json(&arguments, code)
    };
    let steps = |told: &Value, place: usize| told["boxes"][place]["steps"].to_string();
    assert!(until(|| desk.exec(lab, "h1", "ping -n -c 1 -W 1 10.0.0.3").code == Some(0)));
    let told = explain(&["--from", "h1", "--to", "h3", "--udp", "9"], 0);
    let boxes = told["boxes"].as_array().unwrap();
    assert!(boxes.len() >= 2 && told["pair"]["refused"].is_null(), "{told}");
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
