//! Routers under routing daemons of others, in `labs/router-frr.toml`: their routes appear and go,
//! and traffic outlives a restart of ours.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Said, until};
use serde_json::Value;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/router-frr.toml");

/// The lab, up; it ends with the test.
struct Lab {
    dir: PathBuf,
    others: Vec<Child>,
}

impl Lab {
    /// `None`, said aloud, where it cannot be.
    fn up() -> Option<Lab> {
        if !common::is_root("routing daemons") {
            return None;
        }
        for program in ["/usr/lib/frr/zebra", "/usr/sbin/bird"] {
            if !Path::new(program).exists() {
                eprintln!("SKIPPED: {program} is not installed (scripts/setup routing)");
                return None;
            }
        }
        let lab = Lab { dir: common::directory("routing"), others: Vec::new() };
        let said = lab.plexus(&["lab", "up", FILE]);
        assert_eq!(said.code, Some(0), "{said:?}");
        Some(lab)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
        command.args(arguments).env("PLEXUS_RUN_DIR", &self.dir).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn plexus(&self, arguments: &[&str]) -> Said {
        Said::by(self.command(arguments).spawn().unwrap())
    }

    /// Runs a program in a node or a host.
    fn exec(&self, place: &str, command: &str) -> Said {
        let mut arguments = vec!["lab", "exec", "router-frr", place, "--"];
        arguments.extend(command.split(' '));
        self.plexus(&arguments)
    }

    /// The prefix by which r1 sends packets to an address, as it says itself.
    fn prefix(&self, address: &str) -> Option<String> {
        let said = self.plexus(&["show", "route", address, "--node", "router-frr/r1", "--json"]);
        let answer: Value = serde_json::from_str(&said.out).ok()?;
        assert_eq!(answer["agrees"], true, "{answer}");
        answer["prefix"].as_str().map(str::to_string)
    }

    fn pings(&self, from: &str, to: &str) -> bool {
        self.exec(from, &format!("ping -c 1 -W 1 {to}")).code == Some(0)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for child in &mut self.others {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = self.plexus(&["lab", "down", "router-frr"]);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The number of the process that is the node of this file.
fn daemon_of(config: &str) -> Option<String> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|p| p.file_name().into_string().ok());
    numbers.find(|number| {
        let line = std::fs::read_to_string(format!("/proc/{number}/cmdline")).unwrap_or_default();
        line.ends_with(&format!("\0node\0run\0--config\0{config}\0"))
    })
}

#[test]
fn routes_of_frr_and_bird_carry_traffic_come_go_and_outlive_a_restart() {
    let Some(mut lab) = Lab::up() else { return };
    let said = lab.plexus(&["lab", "run", FILE, "--json"]);
    let report: Value = serde_json::from_str(&said.out).unwrap_or_default();
    assert_eq!(report["passed"], true, "{said:?}");

    // By OSPF from BIRD to FRR, and by BGP.
    assert_eq!(lab.prefix("10.0.3.2").as_deref(), Some("10.0.3.0/24"));
    assert_eq!(lab.prefix("10.0.5.2").as_deref(), Some("10.0.5.0/24"));
    assert_eq!(lab.prefix("fd00:5::2").as_deref(), Some("fd00:5::/64"));
    assert_eq!(lab.prefix("192.0.2.1"), None);

    // Withdrawn when BIRD's interface goes, told again when it is back.
    assert_eq!(lab.exec("r2", "ip link set k-lab down").code, Some(0));
    assert!(until(|| lab.prefix("10.0.5.2").is_none()));
    assert!(!lab.pings("a", "10.0.5.2"));
    assert_eq!(lab.exec("r2", "ip link set k-lab up").code, Some(0));
    assert!(until(|| lab.prefix("10.0.5.2").is_some()));
    assert!(until(|| lab.pings("a", "10.0.5.2")));

    // Our daemon is killed: the kernel's routes and the daemons' sessions stay, and a new one takes
    // them over.
    let config = lab.dir.join("labs/router-frr/r1.toml");
    let config = config.to_str().unwrap();
    let daemon = daemon_of(config).expect("it runs");
    assert!(Command::new("kill").args(["-9", &daemon]).status().unwrap().success());
    assert!(until(|| !lab.pings("a", "10.0.3.2")));
    let kept = lab.exec("r1", "ip route");
    assert!(kept.out.contains("10.0.3.0/24"), "{kept:?}");
    let own = env!("CARGO_BIN_EXE_plexus");
    let run = ["lab", "exec", "router-frr", "r1", "--", own, "node", "run", "--config", config];
    let mut again = lab.command(&run);
    lab.others.push(again.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    assert!(until(|| lab.pings("a", "10.0.3.2")));
    assert!(until(|| lab.pings("b", "fd00:1::2")));
    assert_eq!(lab.prefix("10.0.5.2").as_deref(), Some("10.0.5.0/24"));
}
