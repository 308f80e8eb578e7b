//! `plexus sim` as people and scripts use it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn lab(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs").join(name).display().to_string()
}

fn sim(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
    command.args(["sim", "run"]).args(arguments).output().unwrap()
}

#[test]
fn the_same_seed_prints_the_same_bytes() {
    let run = |seed| sim(&[&lab("switch.toml"), "--json", "--seed", seed]);
    // Of the lab's flows one is IPv6, which is refused by name; line.toml has none.
    let refused = run("1");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("flow ping6: "), "{refused:?}");
    let run = |seed| sim(&[&lab("failover.toml"), "--json", "--seed", seed]);
    let (first, second, other) = (run("1"), run("1"), run("2"));
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert_eq!(first.stdout, second.stdout);
    assert_ne!(first.stdout, other.stdout);
    let json: Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(json["lab"], "failover");
    assert_eq!(json["passed"], true);
    assert_eq!(json["sim"]["seed"], 1);
    let kinds: Vec<_> = json["outages"].as_array().unwrap().iter().map(|o| &o["kind"]).collect();
    assert_eq!(kinds, ["carrier", "silent"]);
}

#[test]
fn what_left_by_each_cable_is_written_where_people_say() {
    let dir = std::env::temp_dir().join(format!("plexus-sim-{}", std::process::id()));
    let out = sim(&[&lab("first-packet.toml"), "--out", &dir.display().to_string()]);
    let text = String::from_utf8_lossy(&out.stdout).to_string();
    assert!(out.status.success() && text.contains("first-packet: passed"), "{out:?}");
    assert!(text.contains("digest "), "{text}");
    let links = std::fs::read_to_string(dir.join("links.csv")).unwrap();
    let mut rows = links.lines();
    assert_eq!(rows.next(), Some("end,frames,bytes"));
    let frames = |row: &str| row.split(',').nth(1).unwrap().parse::<u64>().unwrap();
    assert!(rows.clone().count() >= 8 && rows.all(|row| frames(row) > 0), "{links}");
    let json = std::fs::read_to_string(dir.join("report.json")).unwrap();
    assert!(serde_json::from_str::<Value>(&json).unwrap()["sim"]["hops"].as_u64() > Some(100));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_cannot_be_simulated_is_refused_with_a_remedy() {
    let out = sim(&[&lab("switch-transparent.toml")]);
    let error = String::from_utf8_lossy(&out.stderr).to_string();
    assert_eq!(out.status.code(), Some(2), "{error}");
    assert!(error.contains("group_fwd_mask") && error.contains("plexus lab"), "{error}");
    let out = sim(&["/no/such/file.toml"]);
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn a_device_in_place_of_no_host_is_refused() {
    let refused = |attach: &str| {
        let out = sim(&[&lab("ring.toml"), "--attach", attach]);
        assert_eq!(out.status.code(), Some(2), "{out:?}");
        String::from_utf8_lossy(&out.stderr).to_string()
    };
    assert!(refused("h9=tap:vm9").contains("there is no host \"h9\": h1, h2"));
    assert!(refused("h1").contains("HOST=BACKEND:DEVICE"));
    assert!(refused("h1=af_xdp:eth0").contains("take tap, or af_packet"));
    assert!(refused("h1=af_packet:no-such-device").contains("no-such-device"));
    // Before any device is made: this needs no rights.
    let twice = |second: &str| {
        let out = sim(&[&lab("ring.toml"), "--attach", "h1=tap:vm1", "--attach", second]);
        assert_eq!(out.status.code(), Some(2), "{out:?}");
        String::from_utf8_lossy(&out.stderr).to_string()
    };
    let told = twice("h1=tap:vm2");
    assert!(told.contains("--attach h1=tap:vm2: h1 has a device already"), "{told}");
    let told = twice("h2=tap:vm1");
    assert!(told.contains("vm1 is another host's already: name one for each"), "{told}");
    let out = sim(&[&lab("ring.toml"), "--for", "5s"]);
    assert_eq!(out.status.code(), Some(2), "{out:?}");
}
