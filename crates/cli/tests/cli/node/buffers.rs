//! The deep buffer, through real devices and in the labs that ship for it.

use super::*;

#[test]
fn a_burst_waits_in_the_deep_buffer_and_is_told_of() {
    let Some(net) = Net::new(2) else { return };
    let slow = port(2, "rate = \"1Mbit\"\nqueue = { order = \"deep\", packets = 10 }");
    let rest =
        "metrics = \"127.0.0.1:9466\"\ndeep_buffer = { bytes = \"1MiB\", suspects = \"show\" }";
    let node = net.node("a", rest, &[port(1, ""), slow]);
    let [mut one, mut two] = net.stations();
    two.send(&frame(BROADCAST, mac(2), 0));
    one.receive();
    let sent: Vec<_> = (1..=100).map(|number| frame(mac(2), mac(1), number)).collect();
    sent.iter().for_each(|frame| one.send(frame));
    // 84 bytes of cable each: the last one leaves after 67 ms.
    assert_eq!(two.receive_all(sent.len()), sent);
    let facts = node.facts("buffers");
    let port = &facts["ports"][0];
    assert_eq!(
        (&facts["used"], &port["name"], &port["deep_packets"]),
        (&0.into(), &"p2".into(), &0.into())
    );
    let avoided = port["drops_avoided"].as_u64().unwrap();
    assert!(avoided > 50, "{facts:#}");
    assert!(port["delay_max_us"].as_f64().unwrap() > 1000.0, "{facts:#}");
    let text = node.show("buffers", &[]).expect(0).out;
    assert!(
        text.contains("a: 0 of 1048576 bytes in the deep buffer, 0 long flows bypass it"),
        "{text}"
    );
    let suspects = node.show("suspects", &[]).expect(0).out;
    assert_eq!(suspects, "a: suspects = \"show\"\nno suspects now\n");
    let metrics = common::http(&net.inside, 9466, "/metrics").unwrap();
    let line = format!("plexus_port_drops_avoided_total{{node=\"a\",port=\"p2\"}} {avoided}");
    assert!(metrics.lines().any(|l| l == line), "{line}\n{metrics}");
    node.assert_balances();
}

#[test]
fn a_node_without_deep_queues_says_how_to_get_one() {
    let Some(net) = Net::new(2) else { return };
    let node = net.node("a", "", &ports(2));
    for what in ["buffers", "suspects"] {
        let said = node.show(what, &[]).expect(2).err;
        assert!(said.contains("queue = \"deep\""), "{said}");
    }
}

#[test]
fn senders_of_low_rate_bursts_are_found_in_the_lab_that_ships_for_it() {
    let Some(desk) = common::Desk::root("lowrate") else { return };
    let file = common::shipped("lowrate");
    desk.plexus(&["lab", "up", &file]).expect(0);
    let report = desk.json(&["lab", "run", &file], 0);
    assert_eq!(report["passed"], true, "{report:#}");
    let answer = desk.json(&["show", "suspects", "--node", "lowrate/s1"], 0);
    let history = answer["history"].as_array().unwrap();
    let mut found: Vec<&str> = history.iter().map(|s| s["address"].as_str().unwrap()).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, ["10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14"], "{answer:#}");
    desk.down("lowrate");
}

/// Runs a lab of `labs/`, after this change to its file.
fn lab(desk: &common::Desk, name: &str, (from, to): (&str, &str)) -> Value {
    let text = fs::read_to_string(common::shipped(name)).unwrap();
    assert!(text.contains(from));
    let file = desk.file(&format!("{name}.toml"), &text.replace(from, to));
    let said = desk.plexus(&["lab", "run", &file, "--json"]);
    serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {} {}", said.out, said.err))
}

#[test]
fn bursts_lose_nothing_with_a_deep_buffer_and_much_without() {
    let Some(desk) = common::Desk::root("burst") else { return };
    let same = ("name = \"burst\"", "name = \"burst\"");
    let report = lab(&desk, "burst", same);
    assert_eq!(report["passed"], true, "{report:#}");
    let report = lab(&desk, "burst", ("order = \"deep\"", "order = \"fifo\""));
    assert_eq!(report["passed"], false, "{report:#}");
    assert!(report["drops"]["queue_packets"].as_u64().unwrap() > 0, "{report:#}");
}
