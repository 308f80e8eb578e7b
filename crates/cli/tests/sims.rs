//! The scenarios in `sims/` pass, and a seed always gives the same run.

use std::path::{Path, PathBuf};
use std::process::Command;

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
