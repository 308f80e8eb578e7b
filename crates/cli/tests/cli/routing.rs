//! Routers under routing daemons of others, in `labs/router-frr.toml`: their routes appear and go,
//! and traffic outlives a restart of ours, and of theirs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{self, Desk, Running, Said, Signal, until};
use serde_json::Value;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/router-frr.toml");

/// The lab, up; it ends with the test.
struct Lab {
    others: Vec<Running>,
    desk: Desk,
}

impl Lab {
    /// `None`, said aloud, where it cannot be.
    fn up() -> Option<Lab> {
        let desk = Desk::with_routing_daemons("routing")?;
        desk.plexus(&["lab", "up", FILE]).expect(0);
        Some(Lab { others: Vec::new(), desk })
    }

    /// Runs a program in a node or a host.
    fn exec(&self, place: &str, command: &str) -> Said {
        self.desk.exec("router-frr", place, command)
    }

    /// The prefix by which r1 sends packets to an address, as it says itself.
    fn prefix(&self, address: &str) -> Option<String> {
        let show = ["show", "route", address, "--node", "router-frr/r1", "--json"];
        let said = self.desk.plexus(&show);
        let answer: Value = serde_json::from_str(&said.out).ok()?;
        assert_eq!(answer["agrees"], true, "{answer}");
        answer["prefix"].as_str().map(str::to_string)
    }

    fn pings(&self, from: &str, to: &str) -> bool {
        self.exec(from, &format!("ping -c 1 -W 1 {to}")).code == Some(0)
    }

    /// Where a routing daemon of the lab has its files.
    fn files(&self, of: &str) -> PathBuf {
        let state =
            std::fs::read_to_string(self.desk.dir.join("labs/router-frr/state.json")).unwrap();
        let state: Value = serde_json::from_str(&state).unwrap();
        Path::new("/run/plexus-routing").join(format!("router-frr.{}", state["pid"])).join(of)
    }

    /// Kills a routing daemon without warning, and starts it again with the same arguments and
    /// these besides.
    fn restart(&mut self, node: &str, files: &Path, program: &str, more: &[&str]) {
        let pid = std::fs::read_to_string(files.join(format!("{program}.pid"))).unwrap();
        let pid = pid.trim();
        let line = self.exec(node, &format!("cat /proc/{pid}/cmdline")).expect(0).out;
        let again: Vec<&str> = line.split_terminator('\0').collect();
        self.exec(node, &format!("kill -9 {pid}")).expect(0);
        // As long as it has its files, a new one takes it for alive and ends.
        let state = || self.exec(node, &format!("cat /proc/{pid}/status")).out;
        assert!(until(|| {
            let state = state();
            state.is_empty() || state.contains("\nState:\tZ")
        }));
        let run = [&["lab", "exec", "router-frr", node, "--"][..], &again[..], more].concat();
        let mut command = self.desk.command(&run);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.others.push(Running(command.spawn().unwrap()));
    }

    /// Whether the daemons have all their sessions, and every route by every way.
    fn is_settled(&self, frr: &Path, bird: &Path) -> bool {
        let frr = |question: &str| {
            let sockets = frr.to_str().unwrap();
            let words = ["vtysh", "--vty_socket", sockets, "-c", question];
            self.desk.plexus(&[&["lab", "exec", "router-frr", "r1", "--"][..], &words].concat()).out
        };
        let bird = |question: &str| {
            let socket = bird.join("bird.ctl");
            self.exec("r2", &format!("birdc -s {} {question}", socket.display())).out
        };
        let ours = frr("show ip route 10.0.3.0/24");
        let theirs = bird("show route 10.0.1.0/24");
        bird("show protocols").matches("Established").count() == 2
            && ours.contains("via \"ospf\"")
            && ours.contains("via \"bgp\"")
            && theirs.contains("ospf1")
            && theirs.contains("by4")
            && frr("show ipv6 route fd00:5::/64").contains("via \"bgp\"")
            && bird("show route fd00:1::/64").contains("by6")
    }

    /// The daemons' view of each other, and the kernels' routes.
    fn neighbours(&self, frr: &Path, bird: &Path) -> String {
        let vtysh = format!("vtysh --vty_socket {} -c", frr.display());
        let ours = format!("{vtysh} 'show ip ospf neighbor'; {vtysh} 'show ip ospf route'");
        let birdc = format!("birdc -s {}", bird.join("bird.ctl").display());
        let theirs = format!("{birdc} show ospf neighbors; {birdc} show protocols all");
        let said = [("r1", ours), ("r2", theirs)].map(|(node, what)| self.exec(node, &what).out);
        format!("{}{}", said.concat(), self.routes())
    }

    /// What the nodes' kernels say of their routes.
    fn routes(&self) -> String {
        let of = |node| self.exec(node, "ip route").out + &self.exec(node, "ip -6 route").out;
        format!("r1:\n{}r2:\n{}", of("r1"), of("r2"))
    }
}

/// Echo requests every 20 ms, until the lab ends.
struct Flow {
    to: &'static str,
    /// The number of the last that was answered, and how many were.
    last: Arc<AtomicU64>,
    answered: Arc<AtomicU64>,
}

impl Flow {
    fn start(lab: &mut Lab, from: &str, to: &'static str) -> Flow {
        let ping = ["lab", "exec", "router-frr", from, "--", "ping", "-n", "-i", "0.02", to];
        let mut child = lab.desk.command(&ping).stderr(Stdio::null()).spawn().unwrap();
        let flow = Flow { to, last: Arc::default(), answered: Arc::default() };
        let (last, answered) = (flow.last.clone(), flow.answered.clone());
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let number = line.split("icmp_seq=").nth(1).and_then(|s| s.split(' ').next());
                if let Some(number) = number.and_then(|n| n.parse().ok()) {
                    answered.fetch_add(1, Ordering::Release);
                    last.fetch_max(number, Ordering::Release);
                }
            }
        });
        lab.others.push(Running(child));
        flow
    }

    /// How many have got no answer so far, of those that were sent before the last that got one.
    fn lost(&self) -> u64 {
        // In this order: what is answered meanwhile is not lost.
        let last = self.last.load(Ordering::Acquire);
        last.saturating_sub(self.answered.load(Ordering::Relaxed))
    }

    /// Waits until so many more have been answered.
    fn go_on(&self, count: u64) {
        let end = self.answered.load(Ordering::Relaxed) + count;
        assert!(until(|| self.answered.load(Ordering::Relaxed) >= end), "{} is cut off", self.to);
    }
}

/// The number of the process that is the node of this file.
fn daemon_of(config: &str) -> Option<i32> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|p| p.file_name().to_str()?.parse::<i32>().ok());
    numbers.find(|number| {
        let line = std::fs::read_to_string(format!("/proc/{number}/cmdline")).unwrap_or_default();
        line.ends_with(&format!("\0node\0run\0--config\0{config}\0"))
    })
}

#[test]
fn routes_of_frr_and_bird_carry_traffic_come_go_and_outlive_a_restart() {
    let Some(mut lab) = Lab::up() else { return };
    let report = lab.desk.json(&["lab", "run", FILE], 0);
    assert_eq!(report["passed"], true, "{report:#}");

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
    let config = lab.desk.dir.join("labs/router-frr/r1.toml");
    let config = config.to_str().unwrap();
    let daemon = daemon_of(config).expect("it runs");
    common::kill(daemon, Signal::KILL);
    assert!(until(|| !lab.pings("a", "10.0.3.2")));
    let kept = lab.exec("r1", "ip route");
    assert!(kept.out.contains("10.0.3.0/24"), "{kept:?}");
    let own = env!("CARGO_BIN_EXE_plexus");
    let run = ["lab", "exec", "router-frr", "r1", "--", own, "node", "run", "--config", config];
    let mut again = lab.desk.command(&run);
    again.stdout(Stdio::null()).stderr(Stdio::null());
    lab.others.push(Running(again.spawn().unwrap()));
    assert!(until(|| lab.pings("a", "10.0.3.2")));
    assert!(until(|| lab.pings("b", "fd00:1::2")));
    assert_eq!(lab.prefix("10.0.5.2").as_deref(), Some("10.0.5.0/24"));
}

#[test]
fn traffic_outlives_the_death_of_each_routing_daemon() {
    let Some(mut lab) = Lab::up() else { return };
    let flows = ["10.0.3.2", "fd00:3::2", "10.0.5.2", "fd00:5::2"];
    let flows = flows.map(|to| Flow::start(&mut lab, "a", to));
    flows.iter().for_each(|flow| flow.go_on(10));
    let (frr, bird) = (lab.files("r1.frr"), lab.files("r2.bird"));
    let none: &[&str] = &[];
    let vtysh = format!("vtysh --vty_socket {}", frr.display());
    for (node, files, program, more) in [
        ("r1", &frr, "zebra", none),
        ("r1", &frr, "bgpd", none),
        ("r1", &frr, "ospfd", none),
        ("r2", &bird, "bird", &["-R"][..]),
    ] {
        // To a new zebra the others do not tell their routes: bgpd follows it at once, as FRR's
        // supervisor has it.
        if program != "bgpd" {
            assert!(until(|| lab.is_settled(&frr, &bird)), "before {program}: {}", lab.routes());
        }
        lab.restart(node, files, program, more);
        if node == "r1" {
            // As FRR's own scripts do once a daemon is back.
            let read = format!("{vtysh} -d {program} -f {}", frr.join("daemon.conf").display());
            assert!(until(|| lab.exec("r1", &read).code == Some(0)), "{program} stays away");
        }
        if program != "zebra" {
            let is_settled = until(|| lab.is_settled(&frr, &bird));
            assert!(is_settled, "after {program}: {}", lab.neighbours(&frr, &bird));
        }
        flows.iter().for_each(|flow| flow.go_on(50));
        // BIRD replaces an IPv6 route of the kernel by deleting it first. A packet may come in the
        // third of a millisecond until it is there again.
        let gap = u64::from(program == "bird");
        // An answer that another has overtaken comes yet.
        let lost = || flows.each_ref().map(Flow::lost);
        let is_kept = || lost().into_iter().zip([0, gap, 0, gap]).all(|(lost, most)| lost <= most);
        assert!(until(is_kept), "{program}: {:?}: {}", lost(), lab.routes());
    }
}
