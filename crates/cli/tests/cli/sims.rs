//! The scenarios in `sims/` pass, and a seed always gives the same run.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Child;

use crate::common::{self, Desk, Said, Signal, item};
use serde_json::Value;

/// Lines of a scenario that a person reads before running it.
const LINES_MAX: usize = 40;

fn sims() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sims");
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.collect();
    files.sort();
    files
}

fn scenario(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../sims/{name}.toml"))
}

/// What `plexus sim run FILE --json` prints, which must have passed.
fn run(file: &Path, seed: Option<&str>) -> String {
    let mut command = common::plexus(&["sim", "run", "--json"]);
    command.arg(file).args(seed.into_iter().flat_map(|seed| ["--seed", seed]));
    let said = Said::of(&mut command);
    assert_eq!(said.code, Some(0), "{} {seed:?}: {said:#?}", file.display());
    said.out
}

#[test]
fn every_scenario_passes_and_a_seed_makes_the_run() {
    let sims = sims();
    for needed in ["incast.toml", "named-data.toml"] {
        assert!(sims.iter().any(|file| file.ends_with(needed)), "{sims:?}");
    }
    for file in sims {
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines < LINES_MAX, "{}: {lines} lines", file.display());
        let first = run(&file, None);
        let json: Value = serde_json::from_str(&first).unwrap();
        match json["sim"].get("named") {
            Some(named) => assert_every_interest_went_somewhere(named),
            None => assert!(!file.ends_with("named-data.toml")),
        }
        if file.ends_with("incast.toml") {
            // To the byte, what was measured and the digest of all arrivals.
            assert_eq!(first, run(&file, None));
            let other: Value = serde_json::from_str(&run(&file, Some("2"))).unwrap();
            assert_ne!(json["sim"]["digest"], other["sim"]["digest"]);
        }
    }
}

fn assert_every_interest_went_somewhere(named: &Value) {
    let of = |node: &str, path: &str| named[node].pointer(path).unwrap().as_u64().unwrap();
    let asked = of("edge", "/received/interests");
    assert!(asked > 7900, "{named}");
    // Answered here, sent on, or one who waits along.
    let fates = named["edge"]["fates"].as_object().unwrap();
    let all: u64 = fates.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(all, asked + of("edge", "/received/data"), "{named}");
    assert!(of("edge", "/cache_hits") > 4000, "{named}");
    assert_eq!(of("middle", "/received/interests"), of("edge", "/sent/interests"), "{named}");
    for node in ["edge", "middle"] {
        assert_eq!(of(node, "/pending/entries"), 0, "{named}");
    }
}

#[test]
fn a_file_of_control_messages_alone_has_no_traffic() {
    // Traffic is about queues: a file that asks for none and has some is mistaken.
    let incast = std::fs::read_to_string(scenario("incast")).unwrap();
    let (told, code) = File::new(&format!("fidelity = \"control\"\n{incast}")).run(&[]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("flow ") && told.contains("full"), "{told}");
}

#[test]
fn many_seeds_give_what_each_gives_alone() {
    let file = scenario("incast");
    let mut command = common::plexus(&["sim", "run", "--seeds", "1..5", "--json"]);
    let json = Said::of(command.arg(&file)).json();
    let seeds = json["seeds"].as_array().unwrap();
    assert_eq!((json["passed"].as_bool(), seeds.len()), (Some(true), 5));
    let alone: Value = serde_json::from_str(&run(&file, Some("4"))).unwrap();
    assert_eq!(seeds[3]["seed"], 4);
    assert_eq!(seeds[3]["digest"], alone["sim"]["digest"]);
    let of = |name: &str| item(&json["quantities"], "name", name);
    let received = of("answers-2.received");
    assert_eq!(received["values"][3], alone["flows"][1]["received_bits_per_s"]);
    let (least, mean) = (received["least"].as_f64().unwrap(), received["mean"].as_f64().unwrap());
    assert!(least > 0.0 && mean >= least && received["deviation"].as_f64() > Some(0.0));
    assert_eq!(of("drops.total == 0")["greatest"], 0.0);
}

/// Waits until a process catches a signal, so that it does not die of it.
fn wait_until_caught(pid: u32, signal: u32) {
    loop {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let mask = status.lines().find_map(|l| l.strip_prefix("SigCgt:")).unwrap();
        if u64::from_str_radix(mask.trim(), 16).unwrap() & 1 << (signal - 1) != 0 {
            return;
        }
        std::thread::yield_now();
    }
}

/// A scenario that goes with its desk.
struct File {
    desk: Desk,
    path: String,
}

impl File {
    fn new(text: &str) -> File {
        let desk = Desk::new("sims");
        let path = desk.file("file", text);
        File { desk, path }
    }

    /// What a run says, and its exit code.
    fn run(&self, arguments: &[&str]) -> (String, Option<i32>) {
        let Said { code, out, err } =
            self.desk.plexus(&[&["sim", "run", &self.path], arguments].concat());
        (out + &err, code)
    }

    /// Starts a run, which is to be interrupted.
    fn start(&self, arguments: &[&str]) -> Child {
        let run = [&["sim", "run", &self.path], arguments].concat();
        let child = self.desk.command(&run).spawn().unwrap();
        wait_until_caught(child.id(), 2);
        child
    }
}

/// What a run says that is interrupted now.
fn interrupted(child: Child) -> String {
    common::signal(&child, Signal::INT);
    Said::by(child).expect(1).out
}

#[test]
fn one_scenario_runs_with_queues_and_as_control_messages_alone() {
    let rest = "[[traffic]]\nname = \"u\"\nfrom = \"h1\"\nto = \"h4\"\nproto = \"udp\"\n\
        rate = \"1Mbit\"\nduration = \"100ms\"\n[arp]\nrate = 100.0\nfor = \"100ms\"\n";
    let file = |rate: &str| {
        let head = "name = \"two\"\n[generate]\nshape = \"torus 3x3\"\nhosts = 4\n";
        let controller = "[[controller]]\nname = \"c1\"\non = \"s1\"\n";
        File::new(&format!("{head}rate = \"{rate}\"\n{controller}{rest}"))
    };
    let fast = file("1Gbit");
    let (said, code) = fast.run(&[]);
    assert!(code == Some(0) && said.contains("u ") && !said.contains("left out"), "{said}");
    let (said, code) = fast.run(&["--fidelity", "control"]);
    assert!(code == Some(0) && said.contains("the file's 1 flows are left out"), "{said}");
    assert!(!said.contains("in use"), "{said}");
    // Two megabits are little for what these hosts ask: it is said that they are.
    let (said, code) = file("2Mbit").run(&["--fidelity", "control"]);
    assert!(code == Some(0) && said.contains(" % of the time: frames would have waited"), "{said}");
    let (said, code) = fast.run(&["--fidelity", "control", "--seeds", "1..2"]);
    assert!(code == Some(0) && said.contains("the file's 1 flows are left out"), "{said}");
    let (said, _) = fast.run(&["--fidelity", "control", "--seeds", "1..2", "--json"]);
    assert!(said.contains("\"fidelity\":\"control\""), "{said}");
}

#[test]
fn a_run_whose_frames_found_no_memory_has_not_passed() {
    let text = "name = \"flood\"\n[generate]\nshape = \"star 1\"\nhosts = 500\nrate = \"1kbit\"\n\
        [arp]\nrate = 4.0\nfor = \"500ms\"\n";
    let (said, code) = File::new(text).run(&["--fidelity", "control"]);
    assert!(code == Some(1) && said.contains("frames found no memory"), "{said}");
}

#[test]
fn a_network_that_is_interrupted_while_it_finds_itself_says_who_has_not() {
    let text = "name = \"large\"\n[generate]\nshape = \"torus 20x20\"\nhosts = 5\n\
        [[controller]]\nname = \"c1\"\non = \"s1\"\n";
    let file = File::new(text);
    let text = interrupted(file.start(&[]));
    let told = "note: interrupted before the network had found itself: ";
    assert!(text.contains(told) && text.contains("digest"), "{text}");
}

#[test]
fn an_interrupted_run_tells_what_is_known() {
    let day = "name = \"day\"\n[generate]\nshape = \"line 1\"\nhosts = 2\nrate = \"1Gbit\"\n\
        [[traffic]]\nname = \"u\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"udp\"\n\
        rate = \"500Mbit\"\nduration = \"24h\"\n";
    let file = File::new(day);
    for (arguments, told) in [
        (&["--json"][..], "\"passed\":false"),
        (&[][..], "note: interrupted: this is what was known by then"),
        (&["--seeds", "1..9"][..], "note: interrupted: 9 of 9 seeds were not run"),
    ] {
        let mut child = file.start(arguments);
        if !arguments.contains(&"--seeds") {
            let mut line = String::new();
            BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
            assert!(line.contains("traffic runs"), "{line}");
        }
        let text = interrupted(child);
        assert!(text.contains(told), "{text}");
        if arguments.is_empty() {
            let flow = text.lines().find(|l| l.starts_with("u ")).unwrap();
            assert!(flow.contains("h1 > h2") && flow.matches("Mbit").count() == 2, "{text}");
        }
    }
}
