//! What fails, what the fabric makes of it, and what is counted.

use plexus_report::RunReport;
use plexus_sim::Work;
use plexus_topo::Topology;

use crate::run::ran;

/// So many nodes in a ring with a host at each, whose addresses are leased; `more` is the rest.
fn ring(nodes: usize, more: &str) -> Topology {
    let named = (1..=nodes).map(|n| format!("[[node]]\nname = \"n{n}\"\n"));
    let mut text = String::from("name = \"ring\"\nassert = [\"conserved == true\"]\n");
    text.extend(named);
    text += "[[controller]]\nname = \"c1\"\non = \"n1\"\n\
         [[controller.subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n";
    for n in 1..=nodes {
        let next = n % nodes + 1;
        text += &format!(
            "[[host]]\nname = \"h{n}\"\naddress = \"10.0.0.{n}/24\"\ndhcp = true\n\
             [[link]]\nends = [\"h{n}\", \"n{n}.h\"]\nrate = \"1Gbit\"\n\
             [[link]]\nends = [\"n{n}.a\", \"n{next}.b\"]\nrate = \"1Gbit\"\nmtu = 2000\n"
        );
    }
    Topology::parse("ring.toml", &(text + more)).unwrap()
}

/// A datagram each millisecond from h2 to h3, from `start` for `duration`.
fn flow(name: &str, start: &str, duration: &str) -> String {
    format!(
        "[[traffic]]\nname = \"{name}\"\nfrom = \"h2\"\nto = \"h3\"\nproto = \"udp\"\nsize = 125\n\
         rate = \"1Mbit\"\nstart = \"{start}\"\nduration = \"{duration}\"\n"
    )
}

fn event(lines: &str) -> String {
    format!("[[event]]\n{}\n", lines.replace(", ", "\n"))
}

/// Runs a ring of three twice and sees that both runs are the same.
fn run(more: &str) -> RunReport {
    run_twice(&ring(3, more))
}

fn run_twice(topology: &Topology) -> RunReport {
    let once = || -> (RunReport, Work) {
        let sim = ran(topology, 1);
        let work = sim.work();
        (sim.report(), work)
    };
    let (first, second) = (once(), once());
    assert_eq!(first, second);
    let conserved = first.0.accounts.values().all(|a| a.balances());
    assert!(conserved, "{}", first.0);
    first.0
}

/// The number in the note that has these words.
fn noted(report: &RunReport, words: &str) -> u64 {
    let note = report.notes.iter().find(|n| n.contains(words));
    let after = note.and_then(|n| n.split_once(words)).map_or("", |(_, after)| after);
    after.split([' ', ',']).find_map(|w| w.parse().ok()).unwrap_or(0)
}

fn loss(report: &RunReport, flow: &str) -> f64 {
    report.facts.flows.iter().find(|f| f.name == flow).unwrap().loss
}

#[test]
fn a_bad_cable_loses_repeats_and_overtakes_for_its_time() {
    let flows = flow("during", "0s", "900ms") + &flow("after", "1s", "500ms");
    let trouble = |kind: &str| {
        event(&format!("kind = \"{kind}\", port = \"n3.h\", chance = 0.0, for = \"1s\""))
            + &event(&format!("kind = \"{kind}\", port = \"n3.b\", chance = 0.05, for = \"1s\""))
    };
    let report = run(&(flows.clone() + &trouble("loss")));
    assert!((0.02..0.09).contains(&loss(&report, "during")), "{report}");
    assert_eq!(loss(&report, "after"), 0.0, "{report}");
    assert!(noted(&report, "lost") >= 18, "{report}");
    assert_eq!(report.facts.outages[0].kind, "loss");

    let report = run(&(flows.clone() + &trouble("duplicate")));
    assert_eq!(loss(&report, "during"), 0.0, "{report}");
    assert!((20..120).contains(&noted(&report, "repeated")), "{report}");

    let by = trouble("reorder").replace("chance = 0.05", "chance = 0.05\nby = \"3ms\"");
    let report = run(&(flows.clone() + &by));
    let [during, after] = &report.facts.flows[..] else { panic!("{report}") };
    assert!((20..120).contains(&during.reordered.unwrap()), "{report}");
    assert_eq!((during.loss, after.reordered), (0.0, Some(0)), "{report}");

    // What the checksum does not tell reaches the nodes and the host: nobody falls over.
    let hidden = trouble("corrupt").replace("chance = 0.05", "chance = 0.05\nhidden = true");
    let report = run(&(flows + &hidden));
    assert!(!report.facts.drops.contains_key("bad_fcs"), "{report}");
    assert!(noted(&report, "damaged") > 20, "{report}");
    assert_eq!(loss(&report, "after"), 0.0, "{report}");
}

/// Pings leave every 10 ms, and requests when the one before is answered: no arrival is missing
/// between two of them.
#[test]
fn the_pauses_of_pings_and_requests_are_no_outages() {
    let ping = "[[traffic]]\nname = \"ping\"\nfrom = \"h2\"\nto = \"h3\"\nproto = \"icmp\"\n\
                count = 100\n";
    let asks = "[[traffic]]\nname = \"asks\"\nfrom = \"h2\"\nto = \"h3\"\nproto = \"request\"\n\
                request = \"64B\"\nresponse = \"1KiB\"\nthink = \"20ms\"\nduration = \"1s\"\n";
    let cut = event("at = \"500ms\", kind = \"carrier\", cut = \"n1.h\", for = \"100ms\"");
    let report = run(&(ping.to_string() + asks + &cut));
    assert_eq!((loss(&report, "ping"), loss(&report, "asks")), (0.0, 0.0), "{report}");
    let [outage] = &report.facts.outages[..] else { panic!("{report}") };
    assert_eq!(outage.ms, 0.0, "{report}");
}

#[test]
fn a_node_that_crashes_is_gone_around_and_comes_back() {
    // n1 is no way from n2 to n3 while their own cable is there; cut, it is the only one.
    let flows = flow("around", "0s", "6s");
    let cut = event("at = \"500ms\", kind = \"carrier\", cut = \"n2.a\", for = \"1s\"");
    let report = run(&(flows.clone() + &cut));
    let around = report.facts.outages[0].ms;
    assert!(report.facts.passed && around < 300.0, "{report}");

    // n3 itself: its host is without a network until it is back and has found everything again.
    let crash = event("at = \"1s\", kind = \"crash\", device = \"n3\", for = \"1s\"");
    // A node that has lost its memory finds out who is behind a port when they speak: h3 does.
    let back = flow("back", "0s", "6s").replace("h2", "h1");
    let back = back.replace("from = \"h1\"\nto = \"h3\"", "from = \"h3\"\nto = \"h1\"");
    let later = flow("later", "5s", "500ms");
    let report = run(&(flows.clone() + &crash + &back + &later));
    let [outage] = &report.facts.outages[..] else { panic!("{report}") };
    assert_eq!(outage.kind, "crash");
    assert!((1_000.0..3_500.0).contains(&outage.ms), "{report}");
    assert_eq!(loss(&report, "later"), 0.0, "{report}");
    // And one that does not come back.
    let for_good = crash.replace("for = \"1s\"\n", "").replace("\nfor = \"1s\"", "");
    let report = run(&(flow("before", "0s", "500ms") + &flow("none", "3s", "500ms") + &for_good));
    assert_eq!((loss(&report, "before"), loss(&report, "none")), (0.0, 1.0), "{report}");
}

#[test]
fn a_node_that_falls_silent_is_missed_by_its_silence_alone() {
    // Two ways lead from h2 to h4, by n1 and by n3: the flow takes one of them.
    let flow = flow("across", "0s", "3s").replace("h3", "h4");
    let outages = |silent: &str| {
        ["n1", "n3"].map(|device| {
            let crash = format!("at = \"1s\", kind = \"crash\", device = \"{device}\"{silent}");
            let report = run_twice(&ring(4, &(flow.clone() + &event(&crash))));
            let [outage] = &report.facts.outages[..] else { panic!("{report}") };
            assert_eq!(outage.kind, "crash");
            assert!(loss(&report, "across") < 0.2, "{report}");
            outage.ms
        })
    };
    let (loud, silent) = (outages(""), outages(", silent = true"));
    assert!(silent.contains(&0.0), "{silent:?}");
    let longest = |ms: [f64; 2]| ms[0].max(ms[1]);
    // Who has not been heard for 200 ms is gone; the last sign of life came within 100 ms before.
    assert!((100.0..210.0).contains(&longest(silent)), "{silent:?}");
    assert!(longest(loud) < 50.0, "{loud:?}");
}

#[test]
fn one_that_fell_silent_comes_back_whether_node_or_controller() {
    for device in ["n3", "c1"] {
        let crash = format!(
            "at = \"1s\", kind = \"crash\", device = \"{device}\", silent = true, for = \"1s\""
        );
        let back = flow("back", "0s", "6s").replace("h2", "h1");
        let back = back.replace("from = \"h1\"\nto = \"h3\"", "from = \"h3\"\nto = \"h1\"");
        let later = flow("later", "5s", "500ms");
        let report = run(&(flow("through", "0s", "6s") + &event(&crash) + &back + &later));
        assert_eq!(loss(&report, "later"), 0.0, "{device}\n{report}");
        let lost = loss(&report, "through");
        // Routes stand without the controller.
        assert!(if device == "c1" { lost == 0.0 } else { lost > 0.15 }, "{device}\n{report}");
    }
}

#[test]
fn a_controller_that_crashes_knows_its_leases_and_hosts_again() {
    let crash = event("at = \"1s\", kind = \"crash\", device = \"c1\", for = \"2s\"");
    // What has a route keeps it; who asks for the first time has to wait for the controller.
    let flows = flow("through", "0s", "8s")
        + "[[traffic]]\nname = \"new\"\nfrom = \"h1\"\nto = \"h3\"\nproto = \"icmp\"\n\
           count = 3\nstart = \"6s\"\n";
    let report = run(&(flows + &crash));
    assert!(report.facts.passed, "{report}");
    assert_eq!(loss(&report, "new"), 0.0, "{report}");
    assert!(loss(&report, "through") < 0.02, "{report}");
}

#[test]
fn a_partition_parts_and_heals() {
    let cut = event("at = \"1s\", kind = \"partition\", devices = [\"n3\"; \"h3\"], for = \"1s\"");
    let cut = cut.replace(';', ",");
    let report = run(&(flow("across", "0s", "5s") + &cut + &flow("later", "4s", "500ms")));
    let [outage] = &report.facts.outages[..] else { panic!("{report}") };
    assert_eq!(outage.kind, "partition");
    assert!((1_000.0..2_500.0).contains(&outage.ms), "{report}");
    assert_eq!(loss(&report, "later"), 0.0, "{report}");
}

#[test]
fn whoever_has_a_wrong_clock_stays_in_the_fabric() {
    // The controller is asked for this way for the first time.
    let first = "[[traffic]]\nname = \"first\"\nfrom = \"h1\"\nto = \"h3\"\nproto = \"icmp\"\n\
         count = 3\nstart = \"3s\"\n";
    for device in ["n3", "c1"] {
        for wrong in
            ["ppm = 500, ahead = \"0s\"", "ppm = -500, ahead = \"50ms\"", "ppm = 0, ahead = \"1h\""]
        {
            let skew = format!("at = \"1s\", kind = \"skew\", device = \"{device}\", {wrong}");
            let flows = flow("through", "0s", "5s") + &flow("later", "4s", "500ms") + first;
            let report = run(&(flows + &event(&skew)));
            assert_eq!(loss(&report, "later"), 0.0, "{device} {wrong}\n{report}");
            assert_eq!(loss(&report, "first"), 0.0, "{device} {wrong}\n{report}");
        }
    }
}

#[test]
fn a_controller_keeps_the_time_of_its_own_clock() {
    // Heartbeats come as often as it thinks, and little else while nothing happens.
    let frames = |skew: &str| {
        let sim = ran(&ring(3, &(flow("f", "30s", "10ms") + skew)), 1);
        sim.traffic().find(|(end, _)| end.starts_with("c1")).unwrap().1.frames as f64
    };
    let fast = "kind = \"skew\", device = \"c1\", ppm = 100000, ahead = \"0s\"";
    let ratio = frames(&event(fast)) / frames("");
    assert!((1.05..1.12).contains(&ratio), "{ratio}");
}

#[test]
fn faults_of_a_port_are_the_labs() {
    let port =
        "[[node.port]]\nname = \"h\"\nfaults = { drop = 0.2, duplicate = 0.1, delay = \"3ms\" }\n";
    let topology = ring(3, &flow("through", "0s", "2s"));
    let text = topology.to_toml().replacen("[[node.port]]\nname = \"h\"\n", port, 1);
    assert!(text.contains("drop = 0.2"), "{text}");
    let mut topology = Topology::parse("ring.toml", &text).unwrap();
    // h1 is at the first node: what it sends is struck, what it hears is not.
    topology.traffic[0].from = 0;
    let report = ran(&topology, 1).report();
    let flow = &report.facts.flows[0];
    assert!((0.16..0.24).contains(&flow.loss), "{report}");
    assert!(flow.latency_us_p50.unwrap() > 3_000.0, "{report}");
    assert!(report.accounts.values().all(|a| a.balances()), "{report}");
}
