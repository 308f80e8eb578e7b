//! Several controllers on a real etcd, in `labs/controllers.toml`: whichever dies, hosts notice
//! nothing. And copies of what controllers keep.

use std::process::Stdio;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use crate::common::{self, Daemons, Desk, Signal, kill, until};

const LAB: &str = "controllers";

/// A desk, unless there is no etcd here.
fn desk(what: &str) -> Option<Desk> {
    common::turn();
    if std::process::Command::new("etcd").arg("--version").output().is_err() {
        eprintln!("SKIPPED: this test of labs needs etcd-server");
        return None;
    }
    Desk::root(what)
}

/// The process of a lab whose command line has these words.
fn process(desk: &Desk, words: &str) -> i32 {
    let has = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(words)
    };
    let found: Vec<i32> = desk.processes().into_iter().filter(has).collect();
    assert_eq!(found.len(), 1, "{words}: {found:?}");
    found[0]
}

fn controller(desk: &Desk, name: &str) -> i32 {
    process(desk, &format!("/{name}.toml"))
}

/// A controller's answer about all of them.
fn state(desk: &Desk, name: &str) -> Value {
    desk.json(&["show", "controllers", "--node", &format!("{LAB}/{name}")], 0)
}

fn role(desk: &Desk, name: &str) -> String {
    state(desk, name)["role"].as_str().unwrap().to_string()
}

#[test]
fn nothing_is_lost_whatever_fails_of_controllers_and_their_store() {
    let Some(desk) = desk("controllers-run") else { return };
    let report = run(&desk, &common::shipped(LAB));
    let outages = report["outages"].as_array().unwrap();
    assert_eq!(outages.len(), 11, "{report:#}");
}

/// Runs this lab, which passes, and asks the last leader for the promises from before.
fn run(desk: &Desk, file: &str) -> Value {
    desk.plexus(&["lab", "up", file]).expect(0);
    let report = desk.json(&["lab", "run", file], 0);
    assert_eq!(report["passed"], true, "{report:#}");
    let leads = || ["c1", "c2", "c3"].into_iter().find(|name| role(desk, name) == "leads");
    assert!(until(|| leads().is_some()));
    let node = format!("{LAB}/{}", leads().unwrap());
    let leases = desk.json(&["show", "leases", "--node", &node], 0);
    assert_eq!(leases["leases"][0]["address"], "10.0.0.1", "{leases:#}");
    desk.down(LAB);
    report
}

/// The lab with random faults, one after the other, in place of its own, and with the known pair
/// alone.
fn with_random_faults(seed: u64) -> String {
    let lab = std::fs::read_to_string(common::shipped(LAB)).unwrap();
    let (network, rest) = lab.split_once("# The leader is killed.").unwrap();
    let (_, traffic) = rest.split_once("# These two talk through all of it.").unwrap();
    let (traffic, _) = traffic.split_once("# Pairs that have not talked before").unwrap();
    let is_kept =
        |line: &&str| !["killed.", "cut.", "undecided.", "again."].iter().any(|w| line.contains(w));
    let mut text: String =
        network.lines().filter(is_kept).map(|line| format!("{line}\n")).collect();
    let mut random = Pcg64::seed_from_u64(seed);
    let mut at = 1000_u64;
    while at < 20_000 {
        let lasts = 300 + random.random_range(0..5000);
        let number = random.random_range(1..=3);
        let fault = match random.random_range(0..8) {
            0 => "kind = \"crash\"\ndevice = \"leader\"".to_string(),
            1 => format!("kind = \"crash\"\ndevice = \"c{number}\""),
            2 => format!("kind = \"crash\"\ndevice = \"etcd{number}\""),
            3 => format!("kind = \"full\"\ndevice = \"etcd{number}\""),
            4 => "cut = \"leader.nodes\"".to_string(),
            5 => "kind = \"silent\"\ncut = \"leader.nodes\"".to_string(),
            6 => "kind = \"silent\"\ncut = \"leader.etcd\"".to_string(),
            _ => format!("kind = \"silent\"\ncut = \"c{number}.etcd\""),
        };
        text += &format!("[[event]]\nat = \"{at}ms\"\n{fault}\nfor = \"{lasts}ms\"\n");
        // Another leader is found by then: a run fails if it has none to cut off.
        at += (lasts + random.random_range(0..3000)).max(2000);
    }
    text + &traffic.replace("\"40s\"", "\"28s\"")
}

#[test]
fn random_faults_make_a_lab() {
    plexus_topo::Topology::parse("controllers.toml", &with_random_faults(1)).unwrap();
}

#[test]
#[ignore = "takes half an hour"]
fn nothing_is_lost_in_fifty_runs_of_random_faults() {
    let Some(desk) = desk("controllers-random") else { return };
    for seed in 1..=50 {
        println!("seed {seed}");
        run(&desk, &desk.file("controllers.toml", &with_random_faults(seed)));
    }
}

#[test]
fn a_snapshot_brings_the_leases_back_with_a_higher_epoch() {
    let Some([place]) = common::namespaces("snapshots", || Ok(())) else { return };
    let mut daemons = Daemons::new("snapshot", 1);
    common::cable((&place, "n1a"), (&place, "ctl0"), 2000);
    let path = |name: &str| daemons.dir.join(name).to_str().unwrap().to_string();
    let [file, saved, socket] = ["old.json", "new.json", "c1.sock"].map(path);
    let [config, key] = ["c1.toml", "c1.key"].map(path);
    let run = |words: &[&str]| common::Said::of(&mut common::plexus(words));
    let restore = |more: &[&str]| {
        run(&[&["controller", "snapshot", "restore", &file, "--config", &config], more].concat())
    };
    let subnet = "[[subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n\
                  range = \"10.0.0.100-10.0.0.200\"\n";
    let text = daemons.controller_file() + subnet;
    std::fs::write(&config, &text).unwrap();
    // By hand, from the documentation.
    let group = run(&["identity", "show", &key, "--json"]).json()["group"].clone();
    let lease = |last: u8| {
        json!({"address": format!("10.0.0.{last}"), "mac": format!("02:00:00:00:00:{last:02x}"),
               "until_unix_s": 4_000_000_000_u64})
    };
    let snapshot = |group: &Value, leases: &[Value]| {
        json!({"format": 1, "group": group, "controller": "c1", "epoch": 41,
               "taken_unix_s": 1_795_000_000, "leases": leases})
    };
    let write = |snapshot: Value| std::fs::write(&file, snapshot.to_string()).unwrap();
    let refused = |more: &[&str], words: &str| {
        let said = restore(more).expect(2);
        assert!(said.err.contains(words), "{}", said.err);
    };

    write(snapshot(&group, &[lease(101), lease(101)]));
    refused(&[], "has 10.0.0.101 twice");
    let mut impossible = snapshot(&group, &[]);
    impossible["epoch"] = json!(u64::MAX);
    write(impossible);
    refused(&[], "impossible epoch");
    write(snapshot(&json!("00".repeat(16)), &[lease(101)]));
    refused(&[], "is of another group");
    let mut newer = snapshot(&group, &[]);
    newer["format"] = json!(2);
    write(newer);
    refused(&[], "is of format 2, this program reads 1");
    std::fs::write(&file, "leases").unwrap();
    refused(&[], "is no snapshot");
    // A later version may tell more, which this one ignores.
    let mut later = lease(100);
    later["host_name"] = json!("h1");
    let mut later = snapshot(&group, &[later]);
    later["of_a_later_version"] = json!({"a": [1]});
    write(later);
    assert!(restore(&[]).expect(0).out.contains("1 leases restored, in place of 0"));
    write(snapshot(&group, &[lease(101), lease(102)]));
    refused(&[], "has records of its own: add --replace");
    assert!(restore(&["--replace"]).expect(0).out.contains("2 leases restored, in place of 1"));

    daemons.start_node(&place, "n1", &["n1a"]);
    daemons.start_controller(&place, subnet);
    assert!(until(|| daemons.has_controller("n1")), "{}", daemons.log("c1", &[]));
    refused(&["--replace"], "is open in another process");
    let shown = run(&["show", "leases", "--control", &socket]).expect(0);
    assert!(shown.out.contains("10.0.0.101") && !shown.out.contains("10.0.0.100"), "{}", shown.out);
    let save = ["controller", "snapshot", "save", &saved, "--control", &socket];
    assert!(run(&save).expect(0).out.contains("2 leases saved"));
    assert!(run(&save).expect(2).err.contains("nothing is written over"));
    let saved: Value = serde_json::from_slice(&std::fs::read(&saved).unwrap()).unwrap();
    assert_eq!(saved["leases"], json!([lease(101), lease(102)]));
    // However often a controller was started since.
    assert!(saved["epoch"].as_u64().unwrap() > 1_000_000, "{saved}");
}

#[test]
fn a_snapshot_is_restored_into_an_etcd_that_no_controller_leads() {
    let Some(_) = desk("snapshot-etcd") else { return };
    let Some([place]) = common::namespaces("snapshots", || Ok(())) else { return };
    let daemons = Daemons::new("snapshot-etcd", 0);
    let path = |name: &str| daemons.dir.join(name).to_str().unwrap().to_string();
    let [file, config, key, data] = ["old.json", "c1.toml", "c1.key", "etcd"].map(path);
    common::ip(&place, "link set lo up");
    let mut etcd = std::process::Command::new("etcd");
    etcd.args(["--data-dir", &data]).stdout(Stdio::null()).stderr(Stdio::null());
    place.apply(&mut etcd).unwrap();
    let _etcd = common::Running(etcd.spawn().unwrap());
    let store = "[etcd]\nendpoints = [\"http://127.0.0.1:2379\"]\n";
    std::fs::write(&config, daemons.controller_file() + store).unwrap();
    let shown = common::Said::of(&mut common::plexus(&["identity", "show", &key, "--json"]));
    let group = shown.json()["group"].clone();
    let restore = |more: &[&str]| {
        let words = ["controller", "snapshot", "restore", &file, "--config", &config];
        common::Said::of(&mut common::plexus_in(&place, &[&words, more].concat()))
    };
    let write = |count: u32| {
        let lease = |number: u32| {
            let mac = format!("02:00:00:00:{:02x}:{:02x}", number >> 8, number & 0xFF);
            let address = std::net::Ipv4Addr::from_bits(0x0A00_0000 + number);
            json!({"address": address, "mac": mac, "until_unix_s": 4_000_000_000_u64})
        };
        let leases: Vec<Value> = (1..=count).map(lease).collect();
        let snapshot = json!({"format": 1, "group": group, "controller": "c1", "epoch": 41,
                              "taken_unix_s": 1_795_000_000, "leases": leases});
        std::fs::write(&file, snapshot.to_string()).unwrap();
    };
    write(5000);
    let said = restore(&[]).expect(0);
    assert!(said.out.contains("5000 leases restored, in place of 0"), "{}", said.out);
    // A refusal holds nothing up.
    write(3);
    let said = restore(&[]).expect(2);
    assert!(said.err.contains("add --replace to replace them (5000 of them)"), "{}", said.err);
    let said = restore(&["--replace"]).expect(0);
    assert!(said.out.contains("3 leases restored, in place of 5000"), "{}", said.out);
}

#[test]
fn a_controller_hands_over_and_promises_nothing_without_its_store() {
    let Some(desk) = desk("controllers") else { return };
    desk.plexus(&["lab", "up", &common::shipped(LAB)]).expect(0);
    let pings = |from: &str, to: &str| {
        let said = desk.exec(LAB, from, &format!("ping -n -i 0.02 -c 50 -W 2 {to}"));
        assert!(said.out.contains(" 0% packet loss"), "{}", said.out);
    };
    pings("h2", "10.0.0.3");
    let all_report = |desk: &Desk| {
        let state = state(desk, "c1");
        let controllers = state["controllers"].as_array().unwrap();
        controllers.len() == 3 && controllers.iter().all(|c| c["attached"] == true)
    };
    assert!(until(|| all_report(&desk)), "{:#}", state(&desk, "c1"));
    assert_eq!([role(&desk, "c1"), role(&desk, "c2")], ["leads", "standby"]);
    let said = desk.plexus(&["show", "hosts", "--node", &format!("{LAB}/c2")]).expect(2);
    assert!(said.err.contains("this controller stands by: c1 leads"), "{}", said.err);

    // On purpose, while hosts talk.
    let drain =
        |name: &str| desk.plexus(&["controller", "drain", "--node", &format!("{LAB}/{name}")]);
    let said = drain("c2").expect(2);
    assert!(said.err.contains("c1 leads, not this one"), "{}", said.err);
    let before = state(&desk, "c1")["epoch"].as_u64().unwrap();
    std::thread::scope(|s| {
        s.spawn(|| pings("h2", "10.0.0.3"));
        let said = drain("c1").expect(0);
        assert!(said.out.contains(" leads in place of c1, after "), "{}", said.out);
    });
    let now = state(&desk, "c1");
    let leader = now["leader"].as_str().unwrap().to_string();
    assert!(leader != "c1" && now["epoch"].as_u64().unwrap() > before, "{now:#}");
    assert_eq!(role(&desk, &leader), "leads");
    // A pair that has not talked before.
    pings("h1", "10.0.0.2");

    // Without a majority of the store the leader promises nothing, and what was known goes on.
    let members = ["etcd1", "etcd2"].map(|name| process(&desk, &format!("etcd --name {name} ")));
    members.into_iter().for_each(|pid| kill(pid, Signal::STOP));
    assert!(until(|| role(&desk, &leader) == "in_doubt"), "{:#}", state(&desk, &leader));
    pings("h2", "10.0.0.3");
    assert!(state(&desk, &leader)["trouble"].is_string());
    members.into_iter().for_each(|pid| kill(pid, Signal::CONT));
    let leads = || ["c1", "c2", "c3"].into_iter().find(|name| role(&desk, name) == "leads");
    assert!(until(|| leads().is_some()));

    // The last one has nobody to hand over to. Once it is dead, hosts still notice nothing.
    let last = leads().unwrap();
    for name in ["c1", "c2", "c3"].into_iter().filter(|name| *name != last) {
        kill(controller(&desk, name), Signal::KILL);
    }
    let alone = || state(&desk, last)["controllers"].as_array().unwrap().len() == 1;
    assert!(until(alone), "{:#}", state(&desk, last));
    let said = drain(last).expect(2);
    assert!(said.err.contains("no other controller of the group is ready"), "{}", said.err);
    kill(controller(&desk, last), Signal::KILL);
    pings("h2", "10.0.0.3");
    // Its node answers what it has asked before.
    desk.exec(LAB, "h2", "ip neigh flush all");
    pings("h2", "10.0.0.3");
    desk.down(LAB);
}

/// All boxes lose their power, members of etcd too, which are reached over the fabric alone.
#[test]
fn a_group_whose_store_is_in_band_comes_up_after_a_power_cut() {
    const IN_BAND: &str = "controllers-in-band";
    let Some(desk) = desk("controllers-in-band") else { return };
    // From nothing: it is up once one leads and a host has its lease.
    desk.plexus(&["lab", "up", &common::shipped(IN_BAND)]).expect(0);
    let report = desk.json(&["lab", "run", &common::shipped(IN_BAND)], 0);
    assert_eq!(report["passed"], true, "{report:#}");
    // Two seconds without power, and the time until known hosts talk again.
    let outage = report["outages"][0]["ms"].as_f64().unwrap();
    assert!(outage > 2_000.0 && outage < 20_000.0, "{report:#}");
    let ask =
        |name: &str| desk.json(&["show", "controllers", "--node", &format!("{IN_BAND}/{name}")], 0);
    let leaders = || {
        let all = ["c1", "c2", "c3"].into_iter();
        all.filter(|name| ask(name)["role"] == "leads").collect::<Vec<_>>()
    };
    assert!(until(|| leaders().len() == 1), "{:?}", ["c1", "c2", "c3"].map(ask));
    let leader = leaders()[0];
    assert!(ask(leader)["epoch"].as_u64().unwrap() > 1);
    // It knows the lease from before the power cut, and renews it.
    let leases = desk.json(&["show", "leases", "--node", &format!("{IN_BAND}/{leader}")], 0);
    assert_eq!(leases["leases"][0]["address"], "10.0.0.1", "{leases:#}");
    let base = "/run/plexus-dhclient";
    let said = desk.exec(
        IN_BAND,
        "h1",
        &format!(
            "dhclient -4 -1 -v -cf {base}.conf -sf {base}-script -pf {base}-2.pid -lf \
             {base}-2.leases eth0"
        ),
    );
    assert!(said.err.contains("DHCPACK of 10.0.0.1"), "{}", said.err);
    let lab = desk.dir.join("labs").join(IN_BAND);
    let log = |name: &str| std::fs::read_to_string(lab.join(format!("{name}.log"))).unwrap();
    let terms = ["c1", "c2", "c3"].map(|name| log(name).matches("leads provisionally").count());
    // At the beginning, and after the power cut.
    assert!(terms.iter().sum::<usize>() >= 2, "{terms:?}");
    desk.down(IN_BAND);
}
