//! `plexus topo loads` and `plexus topo check` as their users meet them: files in, answers and exit
//! codes out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A directory of its own for a test's files, gone with it.
struct Files(PathBuf);

impl Files {
    fn new(test: &str) -> Files {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("loads-{test}"));
        fs::create_dir_all(&directory).unwrap();
        Files(directory)
    }

    fn put(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn plexus(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plexus")).args(args).output().unwrap()
}

fn made(args: &str) -> String {
    let args: Vec<&str> = ["topo", "make"].into_iter().chain(args.split(' ')).collect();
    String::from_utf8(plexus(&args).stdout).unwrap()
}

#[test]
fn every_routing_answers_in_json() {
    let files = Files::new("json");
    let ring = files.put("ring.toml", &made("ring 4"));
    let demands = files.put("d.csv", "src,dst,amount\ns1,s3,4\nh1,h2,1\n");
    for (routing, max) in
        [("shortest", 5.0), ("ecmp", 3.0), ("spain", 4.0), ("oblivious", 2.75), ("best", 2.5)]
    {
        let args = ["topo", "loads", &ring, "--routing", routing, "--demands", &demands, "--json"];
        let output = plexus(&args);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let links = json["links"].as_array().unwrap();
        assert_eq!(links.len(), 2 * 8);
        let loads: Vec<f64> = links.iter().map(|l| l["load"].as_f64().unwrap()).collect();
        let most = loads.iter().copied().fold(0.0, f64::max);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-5;
        assert!(close(most, max) && json["max"].as_f64() == Some(most), "{routing}: {most}");
        let mean = loads.iter().sum::<f64>() / 16.0;
        assert!(close(json["mean"].as_f64().unwrap(), mean));
        assert!(close(json["lower_bound"].as_f64().unwrap(), 2.5), "{}", json["lower_bound"]);
        assert_eq!(json["unrouted"].as_f64(), Some(0.0));
        assert!(links.iter().all(|l| l["from"].is_string() && l["to"].is_string()));
    }
}

#[test]
fn mistakes_in_the_demands_are_told_with_file_and_line() {
    let files = Files::new("mistakes");
    let ring = files.put("ring.toml", &made("ring 4"));
    let demands = files.put("d.csv", "src,dst,amount\ns1,s3,1\ns1,s9,4\ns2,s1,-1\n");
    let output = plexus(&["topo", "loads", &ring, "--routing", "ecmp", "--demands", &demands]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("d.csv:3:") && told.contains("d.csv:4:") && told.contains("s9"),
        "{told}"
    );
    let missing = plexus(&["topo", "loads", &ring, "--routing", "ecmp", "--demands", "none.csv"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn check_ends_with_the_answers_code() {
    let files = Files::new("check");
    let doubled = files.put("doubled.toml", &made("torus 2x2x2 --hosts 2 --lanes 2"));
    let output = plexus(&["topo", "check", &doubled]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("rearrangeably non-blocking: proven"));
    let single = files.put("single.toml", &made("torus 2x2x2 --hosts 2"));
    let output = plexus(&["topo", "check", &single, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["counter_example"]["cut"]["demand"], 8.0);
    let broken = files.put("broken.toml", "name = 3");
    assert_eq!(plexus(&["topo", "check", &broken]).status.code(), Some(2));
    // Rates of some links and not of a host's say nothing about line rates.
    let mixed = made("ring 3 --rate 1Gbit").replacen("rate = \"1Gbit\"\n", "", 1);
    let mixed = files.put("mixed.toml", &mixed);
    let output = plexus(&["topo", "check", &mixed]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stderr).contains("has no rate"));
}
