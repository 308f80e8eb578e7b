//! The scenarios in `sims/` pass, and a seed always gives the same run.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// What `plexus sim run FILE --json` prints, which must have passed.
fn run(file: &Path, seed: Option<&str>) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
    command.args(["sim", "run", "--json"]).arg(file);
    command.args(seed.into_iter().flat_map(|seed| ["--seed", seed]));
    let out = command.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{} {seed:?}: {said}\n{text}", file.display());
    text
}

#[test]
fn every_scenario_passes_and_a_seed_makes_the_run() {
    let sims = sims();
    assert!(sims.len() >= 4, "{sims:?}");
    for file in sims {
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines < LINES_MAX, "{}: {lines} lines", file.display());
        let (first, again, other) = (run(&file, None), run(&file, None), run(&file, Some("2")));
        // To the byte, what was measured and the digest of all arrivals.
        assert_eq!(first, again, "{}", file.display());
        let digest = |text: &str| {
            let json: Value = serde_json::from_str(text).unwrap();
            json["sim"]["digest"].as_str().map(String::from).unwrap()
        };
        assert_ne!(digest(&first), digest(&other), "{}", file.display());
    }
}

#[test]
fn one_file_runs_in_both_fidelities() {
    let file = sims().into_iter().find(|f| f.ends_with("questions.toml")).unwrap();
    let run = |fidelity: &[&str]| -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
        command.args(["sim", "run", "--json"]).arg(&file).args(fidelity);
        let out = command.output().unwrap();
        assert!(out.status.success(), "{out:?}");
        serde_json::from_slice(&out.stdout).unwrap()
    };
    let (usual, control) = (run(&[]), run(&["--fidelity", "control"]));
    let of = |json: &Value, key: &str| json["sim"][key].clone();
    assert_eq!(
        (of(&usual, "fidelity"), of(&control, "fidelity")),
        ("full".into(), "control".into())
    );
    let questions = |json: &Value, key: &str| json["sim"]["questions"][key].as_u64().unwrap();
    assert_eq!(questions(&usual, "asked"), questions(&control, "asked"));
    assert_eq!(questions(&control, "answered"), questions(&control, "asked"));
    assert!(of(&control, "events").as_u64() < of(&usual, "events").as_u64());
    // Traffic is about queues.
    let incast = sims().into_iter().find(|f| f.ends_with("incast.toml")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
    let out = command.args(["sim", "run", "--fidelity", "control"]).arg(&incast).output().unwrap();
    let told = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{told}");
    assert!(told.contains("incast.toml: flow ") && told.contains("full"), "{told}");
}

#[test]
fn many_seeds_give_what_each_gives_alone() {
    let file = sims().into_iter().find(|f| f.ends_with("incast.toml")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
    let arguments = ["sim", "run", "--seeds", "1..5", "--json"];
    let out = command.args(arguments).arg(&file).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    let seeds = json["seeds"].as_array().unwrap();
    assert_eq!((json["passed"].as_bool(), seeds.len()), (Some(true), 5));
    let alone: Value = serde_json::from_str(&run(&file, Some("4"))).unwrap();
    assert_eq!(seeds[3]["seed"], 4);
    assert_eq!(seeds[3]["digest"], alone["sim"]["digest"]);
    let of = |name: &str| {
        let mut all = json["quantities"].as_array().unwrap().iter();
        all.find(|q| q["name"] == name).unwrap_or_else(|| panic!("{name}"))
    };
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

#[test]
fn an_interrupted_run_tells_what_is_known() {
    let file = std::env::temp_dir().join(format!("plexus-day-{}.toml", std::process::id()));
    let day = "name = \"day\"\n[generate]\nshape = \"line 1\"\nhosts = 2\nrate = \"1Gbit\"\n\
        [[traffic]]\nname = \"u\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"udp\"\n\
        rate = \"500Mbit\"\nduration = \"24h\"\n";
    std::fs::write(&file, day).unwrap();
    for (arguments, told) in [
        (&["--json"][..], "\"passed\":false"),
        (&[][..], "note: interrupted: this is what was known by then"),
        (&["--seeds", "1..9"][..], "note: interrupted: 9 of 9 seeds were not run"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
        command.args(["sim", "run"]).arg(&file).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until_caught(child.id(), 2);
        if !arguments.contains(&"--seeds") {
            let mut line = String::new();
            BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
            assert!(line.contains("traffic runs"), "{line}");
        }
        let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let out = child.wait_with_output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        assert_eq!(out.status.code(), Some(1), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(text.contains(told), "{text}");
        if arguments.is_empty() {
            let flow = text.lines().find(|l| l.starts_with("u ")).unwrap();
            assert!(flow.contains("h1 > h2") && flow.matches("Mbit").count() == 2, "{text}");
        }
    }
    std::fs::remove_file(&file).unwrap();
}
