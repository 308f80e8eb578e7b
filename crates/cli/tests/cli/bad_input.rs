//! What cannot be run is refused before anything starts, with its place and what to do about it.

use std::fs;
use std::process::Command;

use crate::common::{Desk, Said};

impl Desk {
    /// What `plexus` says of a file with this text when it refuses it: with exit code 2, nothing
    /// printed, and no progress.
    fn refuses_file(&self, command: &[&str], name: &str, text: &str) -> String {
        fs::write(self.dir.join(name), text).unwrap();
        let said = Said::of(self.command(command).arg(name).current_dir(&self.dir)).expect(2);
        assert!(said.out.is_empty() && !said.err.contains("traffic runs"), "{said:?}");
        said.err
    }
}

/// Two islands: h1 at n1, h2 at n2; lines 1 to 14.
const ISLANDS: &str = "name = \"t\"\n\
    [[node]]\nname = \"n1\"\n[[node]]\nname = \"n2\"\n\
    [[host]]\nname = \"h1\"\naddress = \"10.0.0.1/24\"\n\
    [[host]]\nname = \"h2\"\naddress = \"10.0.0.2/24\"\n\
    [[link]]\nends = [\"h1\", \"n1.h\"]\n\
    [[link]]\nends = [\"h2\", \"n2.h\"]\n";
const FLOW: &str = "[[traffic]]\nname = \"f\"\nfrom = \"h1\"\nto = \"h2\"\nproto = \"udp\"\n\
    rate = \"1Mbit\"\nduration = \"1s\"\n";
const LINK: &str = "[[link]]\nends = [\"n1.a\", \"n2.a\"]\nmtu = 2000\n";

#[test]
fn what_cannot_be_run_is_refused_with_place_and_remedy() {
    let files = Desk::new("bad-input");
    let joined = format!("{ISLANDS}{LINK}");
    for (text, place, message, help) in [
        // A disconnected topology.
        (
            format!("{ISLANDS}{FLOW}"),
            "t.toml:19:6",
            "no cables lead from \"h1\" to \"h2\"",
            "[[link]]",
        ),
        (
            format!("{ISLANDS}[arp]\nrate = 1\nfor = \"1s\"\n"),
            "t.toml:16:1",
            "no cables lead from \"h1\" to \"h2\", who is asked for",
            "[[link]]",
        ),
        // A negative rate, of a flow and of a link.
        (
            format!("{joined}{}", FLOW.replace("1Mbit", "-1Mbit")),
            "t.toml:24:8",
            "\"-1Mbit\"",
            "100Mbit",
        ),
        (format!("{ISLANDS}{LINK}rate = \"-1Gbit\"\n"), "t.toml:19:8", "\"-1Gbit\"", "100Mbit"),
        (format!("{ISLANDS}{LINK}rate = -5\n"), "t.toml:19:8", "rate", "help: "),
        (format!("{joined}{FLOW}{FLOW}"), "t.toml:27:8", "two flows \"f\"", "its own"),
        // A circle of switches that speak no spanning tree.
        (
            format!("{joined}{LINK}").replacen("n1.a", "n1.b", 1).replacen("n2.a", "n2.b", 1),
            "t.toml:20:8",
            "closes a circle of switches",
            "[[controller]]",
        ),
    ] {
        for command in [&["sim", "run"], &["lab", "run"]] {
            let told = files.refuses_file(command, "t.toml", &text);
            assert!(told.contains(&format!("{place}: ")), "{command:?} {place}: {told}");
            assert!(told.contains(message) && told.contains(help), "{command:?} {place}: {told}");
        }
    }
}

#[test]
fn a_file_that_is_no_graph_is_refused_with_its_line() {
    let files = Desk::new("no-graph");
    for (name, text, place, message) in [
        ("a.graphml", "name = \"t\"\n", "a.graphml:1:1", "this is not XML"),
        ("e.json", "{\"nodes\": 3}\n", "e.json:1:", "nodes"),
        ("g.toml", "name = \"t\"\n", "g.toml: ", "--format"),
        ("i.mn", "{\"hosts\": [\n\"a\", 3.5.\n", "i.mn:1:", "unclosed"),
    ] {
        let told = files.refuses_file(&["topo", "import"], name, text);
        assert!(told.contains(place) && told.contains(message), "{name}: {told}");
        assert!(told.contains("help: ") || told.contains("give --format"), "{name}: {told}");
    }
}

#[test]
fn what_memory_is_too_short_for_is_refused_before_it_is_taken() {
    let files = Desk::new("too-large");
    // A thousand switches in a row with room for 2^24 stations each take about a terabyte.
    let nodes = |count: usize| {
        let node = |n| format!("[[node]]\nname = \"n{n}\"\nswitch = {{ mac_table = 16777216 }}\n");
        let link = |n| format!("[[link]]\nends = [\"n{n}.b\", \"n{}.a\"]\n", n + 1);
        let nodes: String = (0..count).map(node).collect();
        format!("name = \"t\"\n{nodes}{}", (0..count - 1).map(link).collect::<String>())
    };
    let text = nodes(1000);
    for command in [&["sim", "run"][..], &["sim", "run", "--seeds", "1..3"]] {
        let told = files.refuses_file(command, "t.toml", &text);
        for words in ["t.toml: 1000 nodes", "GiB", "are free", "mac_table smaller"] {
            assert!(told.contains(words), "{told}");
        }
    }
}

#[test]
fn of_many_devices_that_find_nothing_some_are_named_and_the_rest_counted() {
    let files = Desk::new("unsettled");
    // Nothing gets through to the hosts, which wait for their leases.
    let mut text = String::from(
        "name = \"t\"\n[[node]]\nname = \"n1\"\n[[controller]]\nname = \"c1\"\non = \"n1\"\n\
         [[controller.subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n",
    );
    for h in 1..=12 {
        text += &format!(
            "[[host]]\nname = \"h{h}\"\naddress = \"10.0.0.{h}/24\"\ndhcp = true\n\
             [[link]]\nends = [\"h{h}\", \"n1.p{h}\"]\nloss = 1.0\n"
        );
    }
    let told = files.refuses_file(&["sim", "run"], "t.toml", &text);
    let names = "h1, h2, h3, h4, h5, h6, h7, h8 and 4 more";
    assert!(told.contains("t.toml: the network has not found itself"), "{told}");
    assert!(told.contains(names), "{told}");
}

/// `config check` reads all files that it is given, and its exit code speaks of them all.
#[test]
fn several_files_are_checked_and_each_bad_one_is_named() {
    let files = Desk::new("bad-input");
    let check = |names: &[&str]| {
        let mut plexus = files.command(&["config", "check"]);
        let said = Said::of(plexus.args(names).current_dir(&files.dir));
        (said.code, said.out, said.err)
    };
    fs::write(files.dir.join("good.toml"), format!("{ISLANDS}{LINK}{FLOW}")).unwrap();
    fs::write(files.dir.join("node.toml"), "name = \"n\"\n[[port]]\nname = \"p1\"\n").unwrap();
    fs::write(files.dir.join("bad.toml"), "name = \"n\"\n[[port]]\nnmae = \"p1\"\n").unwrap();
    let (code, out, err) = check(&["good.toml", "node.toml"]);
    assert_eq!((code, out.lines().count()), (Some(0), 2), "{out}{err}");
    assert!(out.contains("good.toml: ") && out.contains("node.toml: "), "{out}");
    // One that is not there, one that is wrong, and after them one that is good.
    let (code, out, err) = check(&["none.toml", "bad.toml", "node.toml"]);
    assert_eq!(code, Some(2), "{out}{err}");
    assert!(out.contains("node.toml: "), "{out}");
    assert!(err.contains("none.toml") && err.contains("bad.toml:3"), "{err}");
}

/// Live captures see nothing of a port by AF_XDP: that is said where people look.
#[test]
fn trace_says_that_captures_see_nothing_of_ports_by_af_xdp() {
    let mut plexus = Command::new(env!("CARGO_BIN_EXE_plexus"));
    let help = plexus.args(["trace", "--help"]).output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout).to_string();
    assert!(help.contains("tcpdump") && help.contains("AF_XDP"), "{help}");
}

#[test]
fn a_path_instead_of_a_nodes_name_is_answered_with_the_option_for_it() {
    let files = Desk::new("bad-input-node");
    let mut command = files.command(&["show", "drops", "--node", "/run/plexus/n1.sock"]);
    let said = Said::of(&mut command).expect(2);
    assert!(said.err.contains("/run/plexus/n1.sock is a path"), "{said:?}");
    assert!(said.err.contains("--control"), "{said:?}");
}
