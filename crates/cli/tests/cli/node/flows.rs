//! `plexus show flows` of a node.

use super::*;

/// A UDP datagram over IPv4 from one station's port to another's.
fn datagram(to: u8, from: u8, ports: [u16; 2]) -> Vec<u8> {
    let mut frame = [mac(to), mac(from)].concat();
    frame.extend([8, 0]);
    frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    frame.extend([0, 8, 0, 0]);
    frame.resize(60, 0);
    frame
}

#[test]
fn flows_are_shown_by_rate_with_their_place_and_the_reason() {
    let Some(net) = Net::new(3) else { return };
    let slow = port(3, "rate = \"10Mbit\"");
    let node = net.node("a", "backend = \"af_packet\"", &[port(1, ""), port(2, ""), slow]);
    let [mut one, mut two, mut three] = net.stations();
    for (station, number) in [(&mut two, 2), (&mut three, 3)] {
        station.send(&frame(BROADCAST, mac(number), 0));
    }
    one.receive_all(2);
    let stop = Arc::new(AtomicBool::new(false));
    let sends = stop.clone();
    // 50 packets/s of one flow, and 25 of the other.
    let sender = std::thread::spawn(move || {
        while !sends.load(Ordering::Relaxed) {
            for (to, ports) in [(2, [1000, 80]), (3, [2000, 443]), (2, [1000, 80])] {
                one.send(&datagram(to, 1, ports));
            }
            std::thread::sleep(std::time::Duration::from_millis(40));
        }
    });
    let facts = node.facts("flows");
    // On a busy machine a window can begin between the packets of the one flow and of the other.
    let mut text = String::new();
    until(|| {
        text = node.show("flows", &["--top", "1"]).expect(0).out;
        text.contains("10.0.0.2:80")
    });
    stop.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    let flows = facts["flows"].as_array().unwrap();
    let [first, second] = &flows[..] else { panic!("{facts:#}") };
    let ends = |flow: &Value| {
        [&flow["in_port"], &flow["out_port"]].map(|p| p.as_str().unwrap().to_string())
    };
    assert_eq!(ends(first), ["p1", "p2"]);
    assert_eq!(
        (&first["source"], &first["destination"]),
        (&"10.0.0.1:1000".into(), &"10.0.0.2:80".into())
    );
    assert_eq!((&first["protocol"], &first["place"]), (&"udp".into(), &"pipeline".into()));
    let few = ["it has few packets", "there is no fast table"];
    assert!(few.contains(&first["why"].as_str().unwrap()), "{facts:#}");
    assert_eq!(facts["rules_per_s"].is_null(), first["why"] == few[1]);
    assert_eq!(ends(second), ["p1", "p3"]);
    assert_eq!(second["destination"], "10.0.0.3:443");
    let rate = |flow: &Value| flow["packets_per_s"].as_f64().unwrap();
    assert!((1.5..2.5).contains(&(rate(first) / rate(second))), "{facts:#}");
    assert!(text.contains("10.0.0.2:80") && !text.contains("10.0.0.3:443"), "{text}");
}

#[test]
fn a_flow_is_in_the_kernel_but_while_its_port_is_traced() {
    let Some(net) = Net::new(2) else { return };
    let rest = "backend = \"af_packet\"\nfast_table = \"tcx\"";
    let node = net.node("a", rest, &ports(2));
    let [mut one, mut two] = net.stations();
    two.send(&frame(BROADCAST, mac(2), 0));
    one.receive();
    let stop = Arc::new(AtomicBool::new(false));
    let sends = stop.clone();
    let sender = std::thread::spawn(move || {
        while !sends.load(Ordering::Relaxed) {
            one.send(&datagram(2, 1, [1000, 80]));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    let mut most_rules_per_s = 0.0;
    let mut is = |place: &str, why: &str| {
        until(|| {
            let facts = node.facts("flows");
            most_rules_per_s = facts["rules_per_s"].as_f64().unwrap().max(most_rules_per_s);
            let flow = &facts["flows"][0];
            flow["place"] == place && flow["why"].as_str().is_some_and(|it| it.contains(why))
        })
    };
    let is_fast = is("kernel", "it has a rule");
    let socket = node.socket();
    let trace = net.command(&["trace", "p2", "--control", socket.to_str().unwrap()]);
    let trace = Running({ trace }.stdout(Stdio::null()).spawn().unwrap());
    let is_traced = is("pipeline", "it is traced");
    drop(trace);
    let is_fast_again = is("kernel", "it has a rule");
    stop.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    assert!(is_fast && is_traced && is_fast_again, "{is_fast} {is_traced} {is_fast_again}");
    assert!(most_rules_per_s > 0.0, "it got its rule while it was looked at");
}
