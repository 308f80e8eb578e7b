//! The labs and scenarios that ship with Plexus can be run, and are read back as written.

use std::path::{Path, PathBuf};

use plexus_topo::{Expect, Topology};

fn files(dir: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(dir);
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_file_can_be_run_and_is_written_back_equal() {
    let (labs, sims) = (files("labs"), files("sims"));
    assert!(labs.len() >= 2 && sims.len() >= 2, "{labs:?} {sims:?}");
    for file in labs.into_iter().chain(sims) {
        let topology = Topology::read_to_run(&file, None).unwrap_or_else(|e| panic!("{e}"));
        let text = topology.to_toml();
        let again = Topology::parse("written", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(again, topology);
    }
}

#[test]
fn the_vlan_lab_has_the_same_address_in_both_vlans() {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/switch-vlan.toml");
    let topology = Topology::read(&lab).unwrap();
    let addresses =
        |name: &str| topology.hosts.iter().find(|h| h.name == name).unwrap().addresses.clone();
    assert_eq!(addresses("ten-b"), addresses("twenty-b"));
    let blocked = topology.traffic.iter().filter(|f| f.expect == Expect::Blocked).count();
    assert_eq!(blocked, 2);
}

#[test]
fn a_part_of_the_flows_keeps_its_order_and_its_assertions() {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/ring.toml");
    let mut topology = Topology::read(&lab).unwrap();
    topology.keep_flows(|f| f.name.starts_with("tcp-") || f.name == "ping-2-5");
    let flows: Vec<&str> = topology.traffic.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(flows[..2], ["ping-2-5", "tcp-1-3"]);
    assert_eq!(flows.len(), 7);
    // They waited for a flow that waited for a flow that waited for the ping.
    assert!(topology.traffic[1..].iter().all(|f| f.after == Some(0)));
    assert!(topology.traffic.iter().skip(1).all(|f| f.congestion.as_deref() == Some("cubic")));
    let texts: Vec<&str> = topology.assertions.iter().map(|a| a.text.as_str()).collect();
    assert_eq!(texts, ["ping-2-5.loss == 0", "conserved == true"]);
    assert_eq!(Topology::parse("kept", &topology.to_toml()), Ok(topology));
}
