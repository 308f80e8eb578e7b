//! `plexus sim` as people and scripts use it.

use crate::common::{Desk, Said, plexus, shipped};
use serde_json::Value;

fn sim(arguments: &[&str]) -> Said {
    Said::of(plexus(&["sim", "run"]).args(arguments))
}

#[test]
fn a_report_names_its_lab_its_seed_and_what_was_cut() {
    let json = sim(&[&shipped("failover"), "--json", "--seed", "1"]).expect(0).json();
    assert_eq!(json["lab"], "failover");
    assert_eq!(json["passed"], true);
    assert_eq!(json["sim"]["seed"], 1);
    let kinds: Vec<_> = json["outages"].as_array().unwrap().iter().map(|o| &o["kind"]).collect();
    assert_eq!(kinds, ["carrier", "silent"]);
}

#[test]
fn what_left_by_each_cable_is_written_where_people_say() {
    let desk = Desk::new("sim");
    // It makes the directory.
    let dir = desk.dir.join("found");
    let said = sim(&[&shipped("first-packet"), "--out", dir.to_str().unwrap()]).expect(0);
    let told = said.out.contains("first-packet: passed") && said.out.contains("digest ");
    assert!(told, "{said:?}");
    let links = std::fs::read_to_string(dir.join("links.csv")).unwrap();
    let mut rows = links.lines();
    assert_eq!(rows.next(), Some("end,frames,bytes"));
    let frames = |row: &str| row.split(',').nth(1).unwrap().parse::<u64>().unwrap();
    assert!(rows.clone().count() >= 8 && rows.all(|row| frames(row) > 0), "{links}");
    let json = std::fs::read_to_string(dir.join("report.json")).unwrap();
    assert!(serde_json::from_str::<Value>(&json).unwrap()["sim"]["hops"].as_u64() > Some(100));
}

#[test]
fn what_cannot_be_simulated_is_refused_with_a_remedy() {
    let error = sim(&[&shipped("switch-transparent")]).expect(2).err;
    assert!(error.contains("group_fwd_mask") && error.contains("plexus lab"), "{error}");
    sim(&["/no/such/file.toml"]).expect(2);
}

#[test]
fn a_device_in_place_of_no_host_is_refused() {
    for (attached, told) in [
        (&["h9=tap:vm9"][..], "there is no host \"h9\": h1, h2"),
        (&["h1"], "HOST=BACKEND:DEVICE"),
        (&["h1=af_xdp:eth0"], "take tap, or af_packet"),
        (&["h1=af_packet:no-such-device"], "no-such-device"),
        // Before any device is made: this needs no rights.
        (&["h1=tap:vm1", "h1=tap:vm2"], "--attach h1=tap:vm2: h1 has a device already"),
        (&["h1=tap:vm1", "h2=tap:vm1"], "vm1 is another host's already: name one for each"),
    ] {
        let mut command = plexus(&["sim", "run", &shipped("ring")]);
        let said = Said::of(command.args(attached.iter().flat_map(|a| ["--attach", a])));
        assert!(said.code == Some(2) && said.err.contains(told), "{attached:?}: {said:?}");
    }
    sim(&[&shipped("ring"), "--for", "5s"]).expect(2);
}
