//! The lab of two nodes and two lanes, as a user runs it: what each choice of lanes costs, and that
//! none of them reorders a flow.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// How long one command may take before it counts as hung, in seconds.
const LIMIT_S: &str = "90";

/// A run directory; its labs end with it.
struct Desk(PathBuf);

impl Desk {
    /// `None`, said aloud, where the test cannot run.
    fn new(name: &str) -> Option<Desk> {
        if !common::is_root("the lab") {
            return None;
        }
        let dir = common::directory(&format!("lanes-{name}"));
        Some(Desk(dir))
    }

    fn plexus(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", LIMIT_S, env!("CARGO_BIN_EXE_plexus")]).args(arguments);
        command.env("PLEXUS_RUN_DIR", &self.0).stdin(Stdio::null()).output().unwrap()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.plexus(&["lab", "down", "--all"]);
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Frames that a node has sent by its port `name`, of all that `show ports` knows.
fn sent(ports: &Value, name: &str) -> u64 {
    let ports = ports["ports"].as_array().unwrap();
    let port = ports.iter().find(|p| p["name"] == name).unwrap();
    port["tx_packets"].as_u64().unwrap()
}

#[test]
fn a_lane_for_each_of_two_flows_or_one_for_both() {
    let Some(desk) = Desk::new("narrow") else { return };
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/eight-port-narrow.toml");
    let lab = lab.to_str().unwrap();
    for choice in ["least_loaded", "static"] {
        let up = desk.plexus(&["lab", "up", lab, "--lanes", choice]);
        assert!(up.status.success(), "{up:?}");
        let run = desk.plexus(&["lab", "run", lab, "--lanes", choice, "--json"]);
        assert!(run.status.success(), "{run:?}");
        let report: Value = serde_json::from_slice(&run.stdout).unwrap();
        let flows = report["flows"].as_array().unwrap();
        assert!(flows.len() == 4 && flows.iter().all(|f| f["reordered"] == 0), "{report}");
        let loss = |pattern: &str| -> Vec<f64> {
            let of = flows.iter().filter(|f| f["name"].as_str().unwrap().starts_with(pattern));
            of.map(|f| f["loss"].as_f64().unwrap()).collect()
        };
        let ports = desk.plexus(&["show", "ports", "--node", "eight-port-narrow/a", "--json"]);
        let ports: Value = serde_json::from_slice(&ports.stdout).unwrap();
        let lanes = [sent(&ports, "lane"), sent(&ports, "lane-2")];
        // Judged by what the lanes carried: what is lost on the way depends on the machine, too.
        let least = *lanes.iter().min().unwrap() as f64 / lanes.iter().sum::<u64>() as f64;
        match choice {
            "static" => {
                let lost: f64 = loss("set2-c").iter().sum();
                assert!(lost > 0.6, "two flows share what carries one: {report}");
                assert!(least < 0.42, "one has a flow of four, the other three: {lanes:?}");
            }
            _ => assert!(least > 0.42, "two flows each: {lanes:?} {report}"),
        }
        let down = desk.plexus(&["lab", "down", "eight-port-narrow"]);
        assert!(down.status.success(), "{down:?}");
    }
}
