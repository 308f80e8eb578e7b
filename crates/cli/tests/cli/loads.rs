//! `plexus topo loads` and `plexus topo check` as their users meet them: files in, answers and exit
//! codes out.

use std::fs;

use crate::common::{self, Desk, Said};

fn plexus(args: &[&str]) -> Said {
    Said::of(&mut common::plexus(args))
}

fn demands(files: &Desk, text: &str) -> String {
    let path = files.dir.join("d.csv");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn made(args: &str) -> String {
    let args: Vec<&str> = ["topo", "make"].into_iter().chain(args.split(' ')).collect();
    plexus(&args).out
}

#[test]
fn every_routing_answers_in_json() {
    let files = Desk::new("loads");
    let ring = files.file("ring", &made("ring 4"));
    let demands = demands(&files, "src,dst,amount\ns1,s3,4\nh1,h2,1\n");
    for (routing, max) in
        [("shortest", 5.0), ("ecmp", 3.0), ("spain", 4.0), ("oblivious", 2.75), ("best", 2.5)]
    {
        let args = ["topo", "loads", &ring, "--routing", routing, "--demands", &demands, "--json"];
        let json = plexus(&args).json();
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
    let files = Desk::new("loads");
    let ring = files.file("ring", &made("ring 4"));
    let demands = demands(&files, "src,dst,amount\ns1,s3,1\ns1,s9,4\ns2,s1,-1\n");
    let loads = ["topo", "loads", &ring, "--routing", "ecmp", "--demands"];
    let told = plexus(&[&loads[..], &[&demands]].concat()).expect(2).err;
    assert!(["d.csv:3:", "d.csv:4:", "s9"].iter().all(|what| told.contains(what)), "{told}");
    plexus(&[&loads[..], &["none.csv"]].concat()).expect(2);
}

#[test]
fn check_ends_with_the_answers_code() {
    let files = Desk::new("loads");
    let doubled = files.file("doubled", &made("torus 2x2x2 --hosts 2 --lanes 2"));
    let said = plexus(&["topo", "check", &doubled]).expect(0);
    for told in ["non-blocking: proven: a flattened butterfly", "hashing overloads a cable in"] {
        assert!(said.out.contains(told), "{said:?}");
    }
    let single = files.file("single", &made("torus 2x2x2 --hosts 2"));
    let said = plexus(&["topo", "check", &single]).expect(1);
    for told in ["non-blocking: blocking: hosts send 8", "the cut: 8 hosts at ", "->h"] {
        assert!(said.out.contains(told), "{said:?}");
    }
    let json = files.json(&["topo", "check", &single], 1);
    assert_eq!(json["non_blocking"], "blocking");
    let example = &json["counter_example"];
    assert_eq!(example["flows"].as_array().unwrap().len(), 16);
    assert_eq!(example["cut"]["demand"], 8.0);
    assert_eq!(example["cut"]["capacity"], 4.0);
    let broken = files.file("broken", "name = 3");
    plexus(&["topo", "check", &broken]).expect(2);
    // Rates of some links and not of a host's say nothing about line rates.
    let mixed = made("ring 3 --rate 1Gbit").replacen("rate = \"1Gbit\"\n", "", 1);
    let mixed = files.file("mixed", &mixed);
    assert!(plexus(&["topo", "check", &mixed]).expect(2).err.contains("has no rate"));
}
