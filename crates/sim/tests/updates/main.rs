//! The group's forwarding table while it changes. Real boxes get a day's updates by control
//! messages that are lost and overtaken, and one box starts anew. The next hop of every packet is
//! compared with the versions of the table since the box that routed it last had it whole.
//!
//! A day at the rate of the Internet, with a fifth of its table:
//!
//! ```text
//! cargo test --release -p plexus-sim --test updates -- --ignored --nocapture
//! ```

mod day;
mod judge;
mod scenario;
mod tables;

use std::time::Duration;

use scenario::{Counts, PEERS, Scenario};

/// Every tenth control message is lost, and every fifth is overtaken by others.
const LOSS: f64 = 0.1;
const REORDER: f64 = 0.2;

/// The topology: boxes with cables between pairs of them, and the controller's box `m`, which has a
/// cable to each.
fn topology(name: &str, boxes: &[&str], pairs: &[(&str, &str)], forwarders: &str) -> String {
    let mut text = format!("name = \"{name}\"\n");
    for node in boxes.iter().chain(&["m"]) {
        text += &format!("[[node]]\nname = \"{node}\"\n");
    }
    text += "[[controller]]\nname = \"c1\"\non = \"m\"\npolicy = \"shortest\"\n";
    text + forwarders + &cables(pairs, boxes)
}

/// Cables of the boxes. The controller's box has no hosts, and lies on no shortest path between
/// others: its cables carry control messages alone, and lose and reorder them.
fn cables(pairs: &[(&str, &str)], of_controller: &[&str]) -> String {
    let mut text = String::new();
    let of_controller = of_controller.iter().map(|node| ("m", *node));
    for (a, b) in pairs.iter().copied().chain(of_controller.clone()) {
        text +=
            &format!("[[link]]\nends = [\"{a}.{b}\", \"{b}.{a}\"]\nrate = \"1Gbit\"\nmtu = 2000\n");
    }
    for (a, b) in of_controller {
        let event = format!("[[event]]\nat = \"500ms\"\ncable = \"{a}.{b}\"\n");
        text += &format!("{event}kind = \"loss\"\nchance = {LOSS}\n");
        text += &format!("{event}kind = \"reorder\"\nchance = {REORDER}\nby = \"3ms\"\n");
    }
    text
}

/// Twenty thousand updates within twenty seconds.
fn usual() -> Scenario {
    Scenario {
        boxes: String::new(),
        sources: &[],
        peers: [""; PEERS as usize],
        forwarders: &[],
        crash: ("", Duration::from_secs(7), Duration::from_secs(9)),
        prefixes: 5_000,
        updates_per_s: 1_000.0,
        destinations: 120,
        packets_per_s: 50.0,
        lasts: Duration::from_secs(20),
        slice: Duration::from_millis(1),
    }
}

fn mesh() -> Scenario {
    let pairs = [("n1", "n2"), ("n2", "n3"), ("n1", "n3")];
    Scenario {
        boxes: topology("mesh", &["n1", "n2", "n3"], &pairs, ""),
        sources: &["n1", "n2", "n3"],
        peers: ["n1", "n1", "n2", "n2"],
        crash: ("n3", usual().crash.1, usual().crash.2),
        ..usual()
    }
}

fn stages() -> Scenario {
    let pairs = [("f1", "b1"), ("f1", "b2"), ("f2", "b1"), ("f2", "b2")];
    let forwarders = "[[controller.forwarder]]\nnode = \"b1\"\n\
                      [[controller.forwarder]]\nnode = \"b2\"\nweight = 2\n";
    Scenario {
        boxes: topology("stages", &["f1", "f2", "b1", "b2"], &pairs, forwarders),
        sources: &["f1", "f2", "f2"],
        peers: ["f1", "f1", "f2", "f2"],
        forwarders: &["b1", "b2"],
        crash: ("b1", usual().crash.1, usual().crash.2),
        ..usual()
    }
}

fn check(name: &str, scenario: &Scenario, seed: u64) -> Counts {
    let counts = scenario.run(seed);
    println!("{name}, seed {seed}: {counts:#?}");
    assert!(counts.wrong.is_empty(), "{name}, seed {seed}: {:#?}", counts.wrong);
    assert!(counts.in_doubt > 100, "{name}, seed {seed}: nothing was put to the test");
    counts
}

#[test]
fn every_packet_of_a_mesh_goes_by_the_table_while_it_changes() {
    (1..=2).for_each(|seed| drop(check("mesh", &mesh(), seed)));
}

#[test]
fn every_packet_of_two_stages_goes_by_the_table_while_it_changes() {
    (1..=2).for_each(|seed| drop(check("two stages", &stages(), seed)));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let short = || Scenario {
        lasts: Duration::from_secs(4),
        crash: ("n3", Duration::from_secs(2), Duration::from_secs(3)),
        ..mesh()
    };
    assert_eq!(short().run(5), short().run(5));
}

#[test]
#[ignore = "minutes, and a release build"]
fn a_whole_day() {
    let crash = |name| (name, Duration::from_secs(36_000), Duration::from_secs(36_300));
    let day = |scenario: Scenario| Scenario {
        crash: crash(scenario.crash.0),
        prefixes: 200_000,
        updates_per_s: 5.0,
        packets_per_s: 0.5,
        lasts: Duration::from_secs(86_400),
        slice: Duration::from_millis(10),
        ..scenario
    };
    check("a day of the mesh", &day(mesh()), 1);
    check("a day of two stages", &day(stages()), 1);
}
