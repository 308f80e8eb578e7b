//! `plexus experiment` as people use it: the answers have the shape of the contract, the files are
//! written, and labs go as they came. What was measured is not judged here: machines that run tests
//! are busy.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long one command may take before it counts as hung.
const LIMIT: Duration = Duration::from_secs(120);

/// A directory for results and for the state of labs, which are this test's own by it.
struct Desk(PathBuf);

impl Drop for Desk {
    fn drop(&mut self) {
        for pid in self.processes() {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Desk {
    fn new() -> Desk {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plexus-experiment-{}-{count}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        Desk(directory)
    }

    /// `None`, said aloud, where labs cannot be made.
    fn root() -> Option<Desk> {
        if fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0) {
            return Some(Desk::new());
        }
        eprintln!("SKIPPED: this test of experiments needs root");
        None
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
        command.args(arguments).env("PLEXUS_RUN_DIR", &self.0).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Runs `plexus experiment` and gives its exit code and output.
    fn experiment(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let child = self.start(&[&["experiment"], arguments].concat());
        let pid = child.id();
        let (done, hung) = std::sync::mpsc::channel::<()>();
        let guard = std::thread::spawn(move || {
            if hung.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
            }
        });
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        drop(done);
        guard.join().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (status.code(), text(stdout), text(stderr))
    }

    /// Processes of labs that were started from here.
    fn processes(&self) -> Vec<i32> {
        let mark = format!("PLEXUS_RUN_DIR={}", self.0.display());
        let ours = |entry: fs::DirEntry| -> Option<i32> {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let environ = fs::read(entry.path().join("environ")).ok()?;
            environ.split(|b| *b == 0).any(|v| v == mark.as_bytes()).then_some(pid)
        };
        fs::read_dir("/proc").unwrap().flatten().filter_map(ours).collect()
    }

    #[track_caller]
    fn assert_nothing_left(&self) {
        let labs = || fs::read_dir(self.0.join("labs")).into_iter().flatten().count();
        let end = Instant::now() + Duration::from_secs(20);
        while (!self.processes().is_empty() || labs() > 0) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!((self.processes(), labs()), (vec![], 0));
    }
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort();
    keys
}

/// Checks the shape of DESIGN ("JSON answers: experiment run"); the rows.
#[track_caller]
fn rows<'a>(result: &'a Value, name: &str) -> &'a [Value] {
    assert_eq!(keys(result), ["commit", "mode", "name", "rows", "seed"]);
    assert_eq!((&result["name"], &result["mode"]), (&name.into(), &"quick".into()));
    assert!(result["seed"].is_u64() && !result["commit"].as_str().unwrap().is_empty());
    let rows = result["rows"].as_array().unwrap();
    for row in rows {
        assert_eq!(keys(row), ["note", "ours", "paper", "quantity", "unit"]);
        assert!(row["ours"].is_number() && (row["paper"].is_number() || row["paper"].is_null()));
        assert!(["quantity", "unit", "note"].iter().all(|key| row[key].is_string()), "{row}");
    }
    rows
}

#[test]
fn the_list_names_every_experiment_and_the_others_are_refused() {
    let desk = Desk::new();
    let (code, out, _) = desk.experiment(&["list"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("axon-table1 ") && out.contains("axon-header "), "{out}");
    let (_, json, _) = desk.experiment(&["list", "--json"]);
    let list: Value = serde_json::from_str(&json).unwrap();
    for experiment in list.as_array().unwrap() {
        assert_eq!(keys(experiment), ["about", "name", "paper"]);
        let paper = experiment["paper"].as_str().unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").join(paper);
        let about = fs::read_to_string(folder.join("README.md")).unwrap();
        let name = experiment["name"].as_str().unwrap();
        assert!(about.contains(&format!("\n## {name}\n")), "{name} is not in {paper}");
    }
    let (code, out, err) = desk.experiment(&["run", "axon-tabel1"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("axon-tabel1") && err.contains("axon-table1"), "{err}");
}

#[test]
fn the_cost_of_headers_comes_with_its_files() {
    let desk = Desk::new();
    let out = desk.0.join("new/results").display().to_string();
    let (code, json, err) =
        desk.experiment(&["run", "axon-header", "--quick", "--json", "--out", &out]);
    assert_eq!(code, Some(0), "{err}");
    let result: Value = serde_json::from_str(&json).unwrap();
    let rows = rows(&result, "axon-header");
    let row = |quantity: &str| rows.iter().find(|r| r["quantity"] == quantity).unwrap();
    let paper = row("lost to 100 hops, 9000-byte frames, computed");
    assert_eq!((&paper["paper"], &paper["unit"]), (&3.0.into(), &"%".into()));
    assert!((paper["ours"].as_f64().unwrap() - 1.16).abs() < 0.01, "{paper}");
    let counted = row("lost to 100 hops, 1500-byte frames, counted");
    // 106 bytes in 1626.
    assert!((counted["ours"].as_f64().unwrap() - 6.52).abs() < 0.01, "{counted}");
    let read = |end: &str| fs::read_to_string(format!("{out}/axon-header{end}")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&read(".json")).unwrap(), result);
    assert_eq!(read(".csv").lines().count(), 1 + 24);
    let svg = read("-fig1.svg");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    // A place that cannot be is said before anything runs.
    let (code, _, err) = desk.experiment(&["run", "axon-header", "--out", "/proc/none"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("/proc/none"), "{err}");
}

#[test]
fn line_and_ring_carry_every_flow_and_leave_nothing() {
    let Some(desk) = Desk::root() else { return };
    let out = desk.0.join("results").display().to_string();
    let (code, json, err) =
        desk.experiment(&["run", "axon-table1", "--quick", "--json", "--out", &out]);
    assert_eq!(code, Some(0), "{err}");
    let result: Value = serde_json::from_str(&json).unwrap();
    let papers: Vec<f64> =
        rows(&result, "axon-table1").iter().filter_map(|r| r["paper"].as_f64()).collect();
    assert_eq!(papers, [2906.0, 5690.0, 96.0, 2425.0, 3951.0, 63.0]);
    let csv = fs::read_to_string(format!("{out}/axon-table1.csv")).unwrap();
    let (mut flows, mut nodes) = (0, std::collections::BTreeSet::new());
    for line in csv.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, lab, proto, _, from, to, _, received] = fields[..] else { panic!("{line}") };
        assert!(received.parse::<f64>().unwrap() > 0.0, "{line}");
        // Two hosts at each node: h1 and h2 at the first.
        let node = |host: &str| host[1..].parse::<u32>().unwrap().div_ceil(2);
        nodes.insert((lab.to_string(), proto.to_string(), node(from), node(to)));
        flows += 1;
    }
    // Six flows in either lab by either protocol: each pair of nodes, each way.
    assert_eq!((flows, nodes.len()), (24, 24));
    desk.assert_nothing_left();
}

#[test]
fn a_signal_takes_the_labs_down() {
    let Some(desk) = Desk::root() else { return };
    let mut child = desk.start(&["experiment", "run", "axon-table1", "--quick"]);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // The first lab is up, the second about to be built.
    let building = lines.find(|l| l.as_ref().is_ok_and(|l| l.contains("ring")));
    assert!(building.is_some(), "the experiment ended");
    let labs = fs::read_dir(desk.0.join("labs")).unwrap().count();
    assert!(labs >= 1);
    assert!(
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success()
    );
    assert!(!child.wait().unwrap().success());
    desk.assert_nothing_left();
}
