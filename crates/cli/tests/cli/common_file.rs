//! `plexus config common`: one file for all nodes of a group, handed out by its controllers.

use std::fs;

use plexus_io::namespace::Namespaces;
use serde_json::{Value, json};

use crate::common::{self, Daemons, Desk, Said, item, plexus_in, until};

/// A box with nodes `n1` and `n2`, each with a port `h` for hosts, and their controller.
struct Bench {
    daemons: Daemons,
    place: Namespaces,
}

impl Bench {
    fn new(test: &str) -> Option<Bench> {
        let [place] = common::namespaces("common files", common::quiet)?;
        common::cable((&place, "n1a"), (&place, "ctl0"), 2000);
        common::cable((&place, "n1b"), (&place, "n2b"), 2000);
        for port in ["n1h", "n2h"] {
            common::cable((&place, port), (&place, &format!("{port}x")), 1500);
        }
        let mut bench = Bench { daemons: Daemons::new(test, 2), place };
        bench.start_controller();
        for (node, ports) in [("n1", ["n1a", "n1b", "n1h"].as_slice()), ("n2", &["n2b", "n2h"])] {
            let ports = ports.iter().map(|port| {
                // Each box has a port of that name.
                let name = if port.ends_with('h') { "h" } else { port };
                format!("[[port]]\nname = \"{name}\"\ndevice = \"{port}\"\n")
            });
            let text = bench.daemons.node_file(node) + &ports.collect::<String>();
            bench.daemons.start(&bench.place, "node", node, &text);
        }
        bench.meet();
        Some(bench)
    }

    fn start_controller(&mut self) {
        let subnet = "[[subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n";
        self.daemons.start_controller(&self.place, &format!("device = \"ctl0\"\n{subnet}"));
    }

    fn meet(&self) {
        let all = || ["n1", "n2"].iter().all(|node| self.daemons.has_controller(node));
        assert!(until(all), "{}", self.daemons.log("c1", &[]));
    }

    fn run(&self, words: &[&str]) -> Said {
        Said::of(&mut plexus_in(&self.place, words))
    }

    fn control(&self, name: &str) -> String {
        self.daemons.dir.join(format!("{name}.sock")).display().to_string()
    }

    /// `plexus config common WORD c1 …`
    fn common(&self, word: &str, more: &[&str]) -> Said {
        let control = self.control("c1");
        let words = ["config", "common", word, "c1"];
        self.run(&[&words[..], more, &["--control", &control]].concat())
    }

    /// A common file with a rate for all ports `h`, and more.
    fn file(&self, mbit: u32, more: &str) -> String {
        let path = self.daemons.dir.join("common.toml");
        let text = format!("[[all.port]]\nname = \"h\"\nrate = \"{mbit}Mbit\"\n{more}");
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// The rate of a node's port `h`, in Mbit/s.
    fn rate(&self, node: &str) -> Value {
        let ports = self.daemons.show(node, "ports").unwrap_or_default();
        match item(&ports["ports"], "name", "h")["rate_bits_per_s"].as_u64() {
            Some(rate) => json!(rate / 1_000_000),
            None => Value::Null,
        }
    }

    fn rates(&self) -> [Value; 2] {
        ["n1", "n2"].map(|node| self.rate(node))
    }

    /// The controller's knowledge of a node's version.
    fn at(&self, node: &str) -> Value {
        let state = self.daemons.ask("c1", json!({"common": {"state": true}}));
        item(&state.unwrap_or_default()["nodes"], "node", node)
    }

    fn log(&self) -> String {
        ["c1", "n1", "n2"].map(|name| self.daemons.log(name, &[])).concat()
    }
}

#[test]
fn all_nodes_run_a_common_file_or_none_does() {
    let Some(bench) = Bench::new("common") else { return };
    assert!(bench.common("show", &[]).expect(2).err.contains("no common file yet"));
    let file = bench.file(100, "");
    bench.common("diff", &[&file]).expect(1);
    let said = bench.common("apply", &[&file, "--comment", "slow"]).expect(0);
    assert_eq!(said.out, "the group runs version 1 of the common file\n", "{}", bench.log());
    assert_eq!(bench.rates(), [100, 100], "{}", bench.log());
    assert_eq!(bench.common("diff", &[&file]).expect(0).out, "");
    let shown = bench.common("show", &[]).expect(0).out;
    assert_eq!(shown, fs::read_to_string(&file).unwrap());
    // Parts of one node count more. A person sees the part at the node.
    let file = bench.file(50, "[[nodes.n2.port]]\nname = \"h\"\nrate = \"70Mbit\"\n");
    bench.common("apply", &[&file]).expect(0);
    assert_eq!(bench.rates(), [50, 70]);
    let shown = bench.run(&["config", "show", "n2", "--control", &bench.control("n2")]).expect(0);
    let part =
        "# Its part of the common file, version 2:\n[[port]]\nname = \"h\"\nrate = \"70Mbit\"";
    assert!(shown.out.starts_with("name = \"n2\"") && shown.out.contains(part), "{}", shown.out);
    // It does not fit one of the two: neither runs it.
    let file = bench.file(10, "[[nodes.n2.port]]\nname = \"h9\"\nmac_limit = 5\n");
    let said = bench.common("apply", &[&file]).expect(2);
    assert!(said.err.contains("n2: there is no port h9 here"), "{said:?}");
    // The file itself is wrong: its line is told.
    let file = bench.file(10, "device = \"eth0\"\n");
    let said = bench.common("apply", &[&file]).expect(2);
    assert!(said.err.contains("common.toml:4:") && said.err.contains("own file"), "{said:?}");
    assert_eq!(bench.rates(), [50, 70]);
    // A key is in one of the two files.
    let own = fs::read_to_string(bench.daemons.dir.join("n1.toml")).unwrap();
    let both = own.replace("name = \"h\"\n", "name = \"h\"\nrate = \"9Mbit\"\n");
    fs::write(bench.daemons.dir.join("n1.toml"), &both).unwrap();
    let said = bench.run(&["config", "apply", "n1", "--control", &bench.control("n1")]).expect(2);
    assert!(said.err.contains("port.h.rate is in the node's own file too"), "{said:?}");
    // Other keys of the node's own file change as ever, and the part stays.
    let more = own.replace("name = \"h\"\n", "name = \"h\"\nmac_limit = 9\n");
    fs::write(bench.daemons.dir.join("n1.toml"), more).unwrap();
    bench.run(&["config", "apply", "n1", "--control", &bench.control("n1")]).expect(0);
    assert_eq!(bench.rates(), [50, 70]);
    // Back to the first version, by a new number.
    let said = bench.common("rollback", &[]).expect(0);
    assert_eq!(bench.rates(), [100, 100], "{said:?}");
    let state = bench.common("versions", &["--json"]).json();
    let version = state["running"].as_u64().unwrap();
    assert!(version > 3, "{state:#}");
    let node =
        |name: &str| json!({"node": name, "is_there": true, "version": version, "refused": null});
    // They say that they keep it once it is on their disks.
    let nodes = || bench.common("versions", &["--json"]).json()["nodes"].clone();
    assert!(until(|| nodes() == json!([node("n1"), node("n2")])), "{}", nodes());
    let listed = bench.common("versions", &[]).expect(0).out;
    assert!(listed.contains("  version 1 again\n") && listed.contains("  slow\n"), "{listed}");
}

#[test]
fn a_trial_of_a_common_file_ends_at_each_node_by_itself() {
    let Some(mut bench) = Bench::new("common-trial") else { return };
    bench.common("apply", &[&bench.file(100, "")]).expect(0);
    let said = bench.common("apply", &[&bench.file(50, ""), "--confirm-within", "1s"]).expect(0);
    assert!(
        said.out.contains("version 2 of the common file on trial: version 1 returns"),
        "{said:?}"
    );
    assert!(until(|| bench.rates() == [100, 100]), "{}", bench.log());
    assert!(until(|| bench.common("versions", &["--json"]).json()["trial"].is_null()));
    let said = bench.common("confirm", &[]).expect(2);
    assert!(said.err.contains("no version of the common file is on trial"), "{said:?}");
    // Confirmed in time.
    bench.common("apply", &[&bench.file(60, ""), "--confirm-within", "1h"]).expect(0);
    assert_eq!(bench.rates(), [60, 60]);
    let said = bench.common("apply", &[&bench.file(1, "")]).expect(2);
    assert!(said.err.contains("another version of the common file is under way"), "{said:?}");
    bench.common("confirm", &[]).expect(0);
    // Ended early.
    bench.common("apply", &[&bench.file(1, ""), "--confirm-within", "1h"]).expect(0);
    bench.common("rollback", &[]).expect(0);
    assert!(until(|| bench.rates() == [60, 60]), "{}", bench.log());
    // The controller dies meanwhile.
    bench.common("apply", &[&bench.file(1, ""), "--confirm-within", "2s"]).expect(0);
    bench.daemons.kill(0);
    assert!(until(|| bench.rates() == [60, 60]), "{}", bench.log());
    bench.start_controller();
    bench.meet();
    let last = bench.daemons.running.pop().unwrap();
    bench.daemons.running.insert(0, last);
    let has_kept = |node: &str| bench.at(node)["version"] == 3;
    assert!(until(|| has_kept("n1") && has_kept("n2")), "{}", bench.log());
    assert_eq!(bench.common("versions", &["--json"]).json()["running"], 3);
}

#[test]
fn a_node_that_was_away_gets_the_common_file_and_starts_with_it() {
    let Some(mut bench) = Bench::new("common-away") else { return };
    bench.daemons.kill(2);
    assert!(until(|| bench.at("n2")["is_there"] == false), "{}", bench.log());
    bench.common("apply", &[&bench.file(100, "")]).expect(0);
    assert_eq!(bench.rates(), [json!(100), Value::Null]);
    bench.daemons.start_again(&bench.place, "node", "n2");
    assert!(until(|| bench.rates() == [100, 100]), "{}", bench.log());
    // Without a controller it starts with the part that it keeps.
    assert!(until(|| bench.daemons.dir.join("n2.common").exists()));
    bench.daemons.kill(0);
    bench.daemons.kill(1);
    bench.daemons.start_again(&bench.place, "node", "n2");
    assert!(until(|| bench.daemons.show("n2", "ports").is_some()), "{}", bench.log());
    assert_eq!(bench.rate("n2"), 100);
    // A part that does not fit its file any more is left out, and said aloud.
    bench.daemons.kill(1);
    let path = bench.daemons.dir.join("n2.toml");
    let own = fs::read_to_string(&path).unwrap();
    fs::write(&path, own.replace("name = \"h\"", "name = \"other\"")).unwrap();
    bench.daemons.start_again(&bench.place, "node", "n2");
    assert!(until(|| bench.daemons.show("n2", "ports").is_some()), "{}", bench.log());
    assert!(bench.log().contains("there is no port h here: the node runs without it"));
    // The controller offers it again, and tells why it does not fit.
    bench.start_controller();
    let why = json!("there is no port h here");
    assert!(until(|| bench.at("n2")["refused"] == why), "{}: {}", bench.at("n2"), bench.log());
    // The node's file is mended while it runs: a new port, of a device that no other has.
    common::cable((&bench.place, "n2i"), (&bench.place, "n2ix"), 1500);
    let mended = fs::read_to_string(&path).unwrap() + "[[port]]\nname = \"h\"\ndevice = \"n2i\"\n";
    fs::write(&path, mended).unwrap();
    bench.run(&["config", "apply", "n2", "--control", &bench.control("n2")]).expect(0);
    assert!(until(|| bench.rate("n2") == 100), "{}: {}", bench.at("n2"), bench.log());
}

#[test]
fn a_trial_of_a_nodes_own_file_goes_back_whatever_came_by_the_common_file() {
    let Some(bench) = Bench::new("common-own") else { return };
    bench.common("apply", &[&bench.file(100, "")]).expect(0);
    let path = bench.daemons.dir.join("n1.toml");
    let control = bench.control("n1");
    let config =
        |words: &[&str]| bench.run(&[&["config"], words, &["--control", &control]].concat());
    let open = fs::read_to_string(&path).unwrap();
    let limited = open.replace("name = \"h\"\n", "name = \"h\"\nmac_limit = 9\n");
    fs::write(&path, limited).unwrap();
    config(&["apply", "n1"]).expect(0);
    // Meanwhile the common file gets the key that the earlier text has.
    fs::write(&path, &open).unwrap();
    config(&["apply", "n1", "--confirm-within", "1h"]).expect(0);
    bench.common("apply", &[&bench.file(100, "mac_limit = 5\n")]).expect(0);
    config(&["rollback", "n1"]).expect(0);
    let shown = config(&["show", "n1"]).expect(0).out;
    assert!(shown.contains("mac_limit = 9") && !shown.contains("# Its part"), "{shown}");
    assert_eq!(bench.rates(), [Value::Null, json!(100)]);
    let why = "port.h.mac_limit is in the node's own file too: take it out of one";
    assert!(until(|| bench.at("n1")["refused"] == why), "{}: {}", bench.at("n1"), bench.log());
    // Once one of the two is out, the node runs the part again.
    fs::write(&path, &open).unwrap();
    config(&["apply", "n1"]).expect(0);
    assert!(until(|| bench.at("n1")["version"] == 2), "{}: {}", bench.at("n1"), bench.log());
    assert_eq!(bench.rates(), [100, 100]);
}

#[test]
fn another_controller_goes_on_with_the_common_file_and_its_drained_nodes() {
    if std::process::Command::new("etcd").arg("--version").output().is_err() {
        return eprintln!("SKIPPED: this test of labs needs etcd-server");
    }
    let Some(desk) = Desk::root("common-etcd") else { return };
    desk.plexus(&["lab", "up", &common::shipped("controllers")]).expect(0);
    let show = |at: &str, what: &str| desk.json(&["show", what, "--node", at], 0);
    let ready = || {
        let state = show("controllers/c1", "controllers");
        state["role"] == "leads"
            && state["controllers"].as_array().unwrap().iter().all(|c| c["attached"] == true)
    };
    assert!(until(ready), "{:#}", show("controllers/c1", "controllers"));
    let file = desk.file("common", "[all.switch]\nageing = \"60s\"\n[[drained]]\nnode = \"n3\"\n");
    let common = |word: &str, at: &str, more: &[&str]| {
        desk.plexus(&[&["config", "common", word, &format!("controllers/{at}")], more].concat())
    };
    let said = common("apply", "c2", &[&file]).expect(2);
    assert!(said.err.contains("this controller stands by: c1 leads"), "{said:?}");
    common("apply", "c1", &[&file]).expect(0);
    let drained = |at: &str| show(&format!("controllers/{at}"), "topology")["drained"].clone();
    let is_drained = |at: &str| drained(at)[0]["node"] == "n3";
    assert!(until(|| is_drained("c1")), "{}", drained("c1"));
    desk.plexus(&["controller", "drain", "--node", "controllers/c1"]).expect(0);
    let state = show("controllers/c1", "controllers");
    let leader = state["leader"].as_str().unwrap();
    assert!(until(|| is_drained(leader)), "{}", drained(leader));
    let rest = desk.file("rest", "[all.switch]\nageing = \"60s\"\n");
    let said = common("apply", leader, &[&rest, "--json"]).expect(0);
    assert_eq!(serde_json::from_str::<Value>(&said.out).unwrap()["version"], 2, "{said:?}");
    assert!(until(|| drained(leader) == json!([])), "{}", drained(leader));
    // A key that was revoked stays so.
    let key = "ab".repeat(32);
    let revoked = format!("[[revoked]]\nname = \"n9\"\nkey = \"{key}\"\n");
    common("apply", leader, &[&desk.file("revoked", &revoked)]).expect(0);
    common("rollback", leader, &[]).expect(0);
    assert!(common("show", leader, &[]).expect(0).out.contains(&key));
    desk.down("controllers");
}
