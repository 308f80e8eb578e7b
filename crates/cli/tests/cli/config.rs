//! `plexus config` and running daemons: apply, diff, rollback, and trials that come back.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;

use plexus_io::namespace::Namespaces;
use serde_json::{Value, json};

use crate::common::{self, Desk, Running, Said, Signal, ip, plexus_in, signal, until};

/// A box with a node `n1`, whose port `p1` is in a VLAN.
struct Bench {
    desk: Desk,
    place: Namespaces,
    node: Option<Running>,
}

impl Bench {
    fn new(test: &str) -> Option<Bench> {
        let desk = Desk::root(test)?;
        let [place] = common::namespaces("a configuration", common::quiet)?;
        ip(&place, "link add p1 type veth peer name h1");
        ip(&place, "link set dev p1 up");
        ip(&place, "link set dev h1 up");
        let mut bench = Bench { desk, place, node: None };
        bench.write(10, "");
        bench.start();
        Some(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.desk.dir.join(name)
    }

    fn write(&self, vlan: u16, more: &str) {
        let dir = self.desk.dir.display();
        let text = format!(
            "name = \"n1\" # mine\ncontrol = \"{dir}/n1.sock\"\n{more}\n\
             [[port]]\nname = \"p1\"\nbackend = \"af_packet\"\nvlan = {vlan}\n"
        );
        fs::write(self.path("n1.toml"), text).unwrap();
    }

    fn start(&mut self) {
        let file = self.path("n1.toml");
        let mut run = plexus_in(&self.place, &["node", "run", "--config", file.to_str().unwrap()]);
        let log = File::options().create(true).append(true).open(self.path("n1.log")).unwrap();
        self.node = Some(Running(run.stdout(Stdio::null()).stderr(log).spawn().unwrap()));
        let up = || self.plexus(&["show", "node"], &[]).code == Some(0);
        assert!(until(up), "{}", self.log());
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("n1.log")).unwrap()
    }

    fn plexus(&self, words: &[&str], more: &[&str]) -> Said {
        let socket = self.path("n1.sock");
        let control = ["--control", socket.to_str().unwrap()];
        Said::of(&mut plexus_in(&self.place, &[words, &control, more].concat()))
    }

    /// `plexus config WORD n1 …`
    fn config(&self, word: &str, more: &[&str]) -> Said {
        self.plexus(&["config", word, "n1"], more)
    }

    /// The VLAN that the node runs.
    fn runs(&self) -> Value {
        let ports = self.plexus(&["show", "ports", "--json"], &[]).json();
        ports["ports"][0]["vlan"]["access"].clone()
    }

    /// The VLAN in the file.
    fn file(&self) -> Value {
        let text = fs::read_to_string(self.path("n1.toml")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("vlan = ")).unwrap();
        line.parse::<u16>().unwrap().into()
    }

    fn both(&self) -> (Value, Value) {
        (self.runs(), self.file())
    }
}

fn same(vlan: u16) -> (Value, Value) {
    (vlan.into(), vlan.into())
}

#[test]
fn a_key_is_set_compared_applied_and_rolled_back() {
    let Some(bench) = Bench::new("config-apply") else { return };
    assert_eq!(bench.config("diff", &[]).expect(0).out, "");
    let file = bench.path("n1.toml");
    let set = |key: &str, value: &str| {
        let words = ["config", "set", file.to_str().unwrap(), key, value];
        Said::of(&mut plexus_in(&bench.place, &words))
    };
    set("port.p1.vlan", "20").expect(0);
    assert_eq!(bench.both(), (10.into(), 20.into()));
    let diff = bench.config("diff", &[]).expect(1).out;
    assert!(diff.contains("-vlan = 10\n+vlan = 20\n"), "{diff}");
    let diff = bench.config("diff", &["--json"]).expect(1).out;
    assert_eq!(serde_json::from_str::<Value>(&diff).unwrap()["differs"], true);
    let said = bench.config("apply", &["--comment", "printers"]).expect(0);
    assert_eq!(said.out, "n1 runs version 2\n");
    assert_eq!(bench.both(), same(20));
    // A result that is wrong is not written.
    let said = set("port.p1.vlan", "5000").expect(2);
    assert!(said.err.contains("VLAN 5000 does not exist"), "{said:?}");
    assert_eq!(bench.file(), 20);
    // A key that only a restart can change is refused, and nothing has changed.
    set("workers", "2").expect(0);
    for more in [&[][..], &["--confirm-within", "1h"]] {
        let said = bench.config("apply", more).expect(2);
        assert!(said.err.contains("workers changes only with a restart"), "{said:?}");
    }
    // Back: the file has what ran before, and what nobody applied is kept.
    let said = bench.config("rollback", &[]).expect(0);
    assert!(said.out.contains("what the file had is version 4"), "{said:?}");
    assert_eq!(bench.both(), same(10));
    let listed = bench.config("versions", &["--json"]).json();
    let comments: Vec<_> = listed["versions"].as_array().unwrap().iter().collect();
    let comments: Vec<_> = comments.iter().map(|v| v["comment"].as_str().unwrap()).collect();
    let kept = "in the file before the rollback to version 1";
    assert_eq!(comments, ["before the first change", "printers", kept, "version 1 again"]);
    assert!(bench.config("versions", &[]).expect(0).out.contains(" printers\n"));
    // A version by its number, from files that people may read.
    bench.config("rollback", &["2"]).expect(0);
    assert_eq!(bench.both(), same(20));
    let text = fs::read_to_string(bench.path("n1.versions/2.toml")).unwrap();
    assert_eq!(text, fs::read_to_string(&file).unwrap());
    let said = bench.config("rollback", &["99"]).expect(2);
    assert!(said.err.contains("there is no version 99"), "{said:?}");
    // A plain reload is a version too.
    bench.write(30, "");
    signal(&bench.node.as_ref().unwrap().0, Signal::HUP);
    assert!(until(|| bench.runs() == 30), "{}", bench.log());
    let listed = bench.config("versions", &["--json"]).json();
    let last = listed["versions"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["comment"], &last["number"]), (&json!("reload"), &listed["running"]));
}

#[test]
fn a_trial_ends_by_itself_unless_it_is_confirmed() {
    let Some(bench) = Bench::new("config-trial") else { return };
    bench.write(20, "");
    let said = bench.config("apply", &["--confirm-within", "1s"]).expect(0);
    assert!(said.out.contains("n1 runs version 2 on trial: version 1 returns in 1 s"), "{said:?}");
    assert!(until(|| bench.both() == same(10)), "{}", bench.log());
    assert!(bench.log().contains("version 2 was not confirmed in time"));
    // An operator that is done waiting goes back at once.
    bench.write(30, "");
    bench.config("apply", &["--confirm-within", "1h"]).expect(0);
    let said = bench.config("apply", &["--confirm-within", "1h"]).expect(2);
    assert!(said.err.contains("version 3 is on trial"), "{said:?}");
    bench.config("rollback", &[]).expect(0);
    assert_eq!(bench.both(), same(10));
    bench.write(40, "");
    bench.config("apply", &["--confirm-within", "1h"]).expect(0);
    let said = bench.config("confirm", &[]).expect(0);
    assert_eq!((said.out.as_str(), bench.both()), ("n1 runs version 4\n", same(40)));
    let said = bench.config("confirm", &[]).expect(2);
    assert!(said.err.contains("nothing to confirm"), "{said:?}");
}

#[test]
fn a_trial_does_not_outlive_a_killed_node_and_an_edit_is_kept() {
    let Some(mut bench) = Bench::new("config-kill") else { return };
    bench.write(20, "");
    bench.config("apply", &["--confirm-within", "1h"]).expect(0);
    bench.write(33, "# edited");
    // Running kills by SIGKILL.
    bench.node = None;
    bench.start();
    assert_eq!(bench.both(), same(10));
    let log = bench.log();
    assert!(log.contains("version 2 was on trial when the daemon ended"), "{log}");
    assert!(log.contains("was edited meanwhile: that text is version 3"), "{log}");
    bench.config("rollback", &["3"]).expect(0);
    assert_eq!(bench.both(), same(33));
}

#[test]
fn a_file_of_a_newer_plexus_is_refused_in_one_sentence() {
    let Some(bench) = Bench::new("config-newer") else { return };
    bench.write(20, "format = 2\nslices = [1]\n");
    let said = bench.config("apply", &[]).expect(2);
    assert!(said.err.contains("the file has format 2, and plexus "), "{said:?}");
    assert!(said.err.contains("a newer plexus wrote it"), "{said:?}");
    assert!(!said.err.contains("slices = [1]\n     |"), "{said:?}");
    assert_eq!(bench.runs(), 10);
}
