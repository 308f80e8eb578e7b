//! Model and reality: labs and their simulated twins, from one topology file each.
//!
//! What may differ, and by how much:
//!
//! - UDP at a rate that the cables carry arrives at that rate in both: what is left is when the
//!   meter's first and last datagram come.
//! - UDP that fills cables: a full cable carries the same in both, to the length of its headers.
//!   Who gets which share of it is chance on either side, so the flows are summed that end behind
//!   it. Those that share a full cable with a flow that goes on to another full one have no such
//!   sum: what that flow has left in the end says nothing of its share here.
//! - TCP: Linux leaves slow start early where it sees delays grow (HyStart), and two seconds are
//!   too short to make up for that; the simulator has HyStart++, which first looks for five rounds
//!   whether it was wrong. NewReno has neither: its connections overflow the nodes' queues, and
//!   recover. Neither side may leave a quarter of what the other takes.
//!
//! The lab's senders and nodes are threads of a machine that may be busy with other things: a lab
//! that differs is run again. A model that is wrong differs every time.

use std::fs;

use crate::common::{self, Desk, item, turn};
use serde_json::Value;

/// A flow of UDP that no cable holds up.
const FLOW_MAX: f64 = 0.03;
/// The UDP flows together whose last full cable is the same one.
const FULL_MAX: f64 = 0.05;
/// All TCP flows together.
const TCP_MAX: f64 = 0.25;
const ATTEMPTS: u32 = 3;

impl Desk {
    /// A lab that ships, changed.
    pub(crate) fn changed(&self, name: &str, changes: &[(&str, &str)]) -> String {
        let mut text = fs::read_to_string(common::shipped(name)).unwrap();
        for (from, to) in changes {
            assert!(text.contains(from), "{name} has no {from}");
            text = text.replace(from, to);
        }
        self.file(name, &text)
    }

    /// What the simulated twin of a lab says against what the lab said; or that the lab itself did
    /// not pass. `None`, said aloud, where this machine cannot run the lab.
    fn twin(&self, file: &str) -> Option<Result<Value, String>> {
        let lab = self.plexus(&["lab", "run", file, "--json"]);
        if lab.lacks_dhclient() {
            return None;
        }
        if lab.code == Some(1) {
            return Some(Err(format!("the lab fails: {}", lab.err)));
        }
        let report = format!("{file}.json");
        fs::write(&report, &lab.expect(0).out).unwrap();
        Some(Ok(self.json(&["sim", "run", file, "--against", &report], 0)["against"].take()))
    }

    /// Runs a lab and its twin until they agree.
    fn agree(&self, file: &str, differences: impl Fn(&Value) -> Vec<String>) {
        for attempt in 1..=ATTEMPTS {
            let found = match self.twin(file) {
                None => return,
                Some(Ok(against)) => differences(&against),
                Some(Err(why)) => vec![why],
            };
            if found.is_empty() {
                return;
            }
            eprintln!("{file}, attempt {attempt}: {}", found.join("; "));
        }
        panic!("{file} and its twin differ each time");
    }
}

/// Those of `list` and this protocol that differ by more than `most`.
fn beyond(against: &Value, list: &str, proto: &str, most: f64) -> Vec<String> {
    let all = against[list].as_array().unwrap();
    let of_proto: Vec<&Value> = all.iter().filter(|d| d["proto"] == proto).collect();
    assert!(!of_proto.is_empty(), "no {proto} in {against:#}");
    let beyond = of_proto.into_iter().filter_map(|d| {
        let difference = d["difference"].as_f64().unwrap_or(f64::INFINITY);
        (difference.abs() > most).then(|| format!("{} {:+.1} %", d["name"], difference * 100.0))
    });
    beyond.collect()
}

/// What arrived of a flow in the lab, and in its twin.
fn rates(against: &Value, name: &str) -> [f64; 2] {
    let flow = item(&against["flows"], "name", name);
    ["there_bits_per_s", "here_bits_per_s"].map(|key| flow[key].as_f64().unwrap())
}

/// Says if these flows together differ by more than `most`.
fn sum_beyond(against: &Value, names: &[&str], most: f64) -> Option<String> {
    let all: Vec<[f64; 2]> = names.iter().map(|name| rates(against, name)).collect();
    let sum = |side: usize| -> f64 { all.iter().map(|rates| rates[side]).sum() };
    let difference = sum(1) / sum(0) - 1.0;
    // Nothing on either side is no number, and no agreement.
    let agree = difference.abs() <= most;
    (!agree).then(|| format!("{} {:+.1} %", names.join(" and "), difference * 100.0))
}

/// The UDP flows of labs/line.toml by the full cable between nodes that they take last.
const LAST_FULL: [[&str; 2]; 2] = [["udp-2-5", "udp-3-6"], ["udp-5-2", "udp-4-1"]];
/// Those that share one with a flow that goes on to the other full one.
const SHARED: [&str; 2] = ["udp-1-3", "udp-6-4"];
/// What that flow leaves them of a cable if it takes all that it can: 20 less 18 Mbit/s, and less
/// the headers of both.
const LEFT_BITS_PER_S: f64 = 1.5e6;

/// Slow enough that nobody waits for a processor, and short.
const LIGHT: [(&str, &str); 4] = [
    ("50Mbit", "20Mbit"),
    ("45Mbit", "18Mbit"),
    ("duration = \"3s\"", "duration = \"2s\""),
    ("bytes = \"20MB\"", "duration = \"2s\""),
];

#[test]
fn line_ring_and_torus_carry_what_their_twins_carry() {
    let Some(desk) = Desk::root("twins") else { return };
    turn();
    desk.agree(&desk.changed("line", &LIGHT), |against| {
        let sums = LAST_FULL.iter().filter_map(|names| sum_beyond(against, names, FULL_MAX));
        let shares = SHARED.iter().filter_map(|name| {
            let all = rates(against, name);
            all.iter().any(|rate| *rate < LEFT_BITS_PER_S).then(|| format!("{name} {all:?}"))
        });
        let udp = sums.chain(shares).collect();
        [udp, beyond(against, "totals", "tcp", TCP_MAX)].concat()
    });
    desk.agree(&desk.changed("ring", &LIGHT), |against| {
        let udp = beyond(against, "flows", "udp", FLOW_MAX);
        [udp, beyond(against, "totals", "tcp", TCP_MAX)].concat()
    });
    desk.agree(&desk.changed("torus-3x3", &LIGHT[2..3]), |against| {
        beyond(against, "flows", "udp", FLOW_MAX)
    });
}

/// The simulator's TCP beside Linux's. Without loss both fill the cable. With loss, a connection of
/// a few seconds loses a few dozen segments, and what it carries is as random as they are: a third
/// more or less is chance. A factor of two is a model that is wrong.
#[test]
fn linux_and_simulated_hosts_make_the_same_of_a_bottleneck() {
    let Some(desk) = Desk::root("twins") else { return };
    turn();
    let file = desk.changed("tcp", &[("duration = \"10s\"", "duration = \"5s\"")]);
    desk.agree(&file, |against| {
        let mut found = beyond(against, "flows", "tcp", 1.0);
        for flow in against["flows"].as_array().unwrap() {
            let difference = flow["difference"].as_f64().unwrap();
            let is_lossless = flow["name"].as_str().unwrap().ends_with("-0");
            let least = if is_lossless { -0.1 } else { -0.5 };
            if difference < least || (is_lossless && difference > 0.1) {
                found.push(format!("{} {:+.1} %", flow["name"], difference * 100.0));
            }
        }
        found
    });
}

/// Half the rates: at those of the file, nodes that are built for tests need more than a processor.
const HALF: [(&str, &str); 6] = [
    ("\"10Mbit\"", "\"5Mbit\""),
    ("\"20Mbit\"", "\"10Mbit\""),
    ("\"9Mbit\"", "\"4500kbit\""),
    (">= 8Mbit", ">= 4Mbit"),
    ("\"3Mbit\"", "\"1500kbit\""),
    (">= 2700kbit", ">= 1350kbit"),
];

/// The file's own assertions hold in both; [`Desk::twin`] sees to that.
#[test]
fn the_sixteen_port_butterfly_carries_its_permutations() {
    let Some(desk) = Desk::root("twins") else { return };
    turn();
    let file = desk.changed("butterfly-16", &HALF);
    desk.agree(&file, |against| {
        assert_eq!(against["flows"].as_array().unwrap().len(), 32);
        beyond(against, "totals", "udp", FLOW_MAX)
    });
}

#[test]
fn a_report_of_other_flows_is_refused() {
    let desk = Desk::new("twin");
    let (ring, line) = (desk.changed("ring", &LIGHT), desk.changed("line", &LIGHT));
    let report = desk.dir.join("ring.json").display().to_string();
    let said = desk.plexus(&["sim", "run", &ring, "--json"]).expect(0);
    fs::write(&report, &said.out).unwrap();
    // Against itself there is no difference.
    let against = desk.json(&["sim", "run", &ring, "--against", &report], 0);
    assert_eq!(against["against"]["totals"][1]["difference"], 0.0, "{against:#}");
    desk.plexus(&["sim", "run", &line, "--against", &report]).expect(0);
    fs::write(&report, said.out.replace("tcp-1-3", "bulk")).unwrap();
    let said = desk.plexus(&["sim", "run", &line, "--against", &report]).expect(2);
    assert!(said.err.contains("ring.json: there is no flow tcp-1-3"), "{said:?}");
    fs::write(&report, "[]").unwrap();
    let said = desk.plexus(&["sim", "run", &line, "--against", &report]).expect(2);
    assert!(said.err.contains("ring.json: this is not what plexus lab run --json"), "{said:?}");
}
