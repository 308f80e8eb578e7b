//! A box that forwards named data, as people use it: the lab that ships, what `show` says, a cache
//! on a disk that outlives its node, a face that is made again, a changed file.

mod common;
#[path = "named/workers.rs"]
mod workers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Desk, ask, until};
use serde_json::{Value, json};

impl Desk {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn uri(&self, node: &str) -> String {
        format!("unix://{}", self.path(&format!("{node}.nfd")).display())
    }

    /// Starts a node that listens at a Unix socket, and nowhere else unless it is told to.
    fn node(&self, name: &str, more: &str) -> Node {
        let file = self.write(name, more);
        let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
        command.args(["node", "run", "--config"]).arg(&file).stdin(Stdio::null());
        let node = Node { process: command.spawn().unwrap(), control: self.control(name) };
        assert!(until(|| node.show("faces").is_some()), "{name} does not answer");
        node
    }

    fn control(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.sock"))
    }

    fn write(&self, name: &str, more: &str) -> PathBuf {
        let file = self.path(&format!("{name}.toml"));
        let (control, unix) = (self.control(name), self.path(&format!("{name}.nfd")));
        let mut text = format!(
            "name = \"{name}\"\ncontrol = \"{}\"\n[named]\nunix = [\"{}\"]\n",
            control.display(),
            unix.display()
        );
        for way in ["tcp", "udp", "websocket"] {
            if !more.contains(&format!("{way} = [")) {
                text += &format!("{way} = []\n");
            }
        }
        text += more;
        fs::write(&file, text).unwrap();
        file
    }

    /// Publishes a file until the value is dropped.
    fn serve(&self, node: &str, prefix: &str, file: &Path) -> Program {
        let (file, uri) = (file.display().to_string(), self.uri(node));
        self.program(&["ndn", "serve", prefix, &file, "--transport", &uri])
    }

    /// `plexus` with these arguments, until the value is dropped.
    fn program(&self, arguments: &[&str]) -> Program {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        Program(command.spawn().unwrap())
    }

    /// What is fetched, if it is.
    fn fetch(&self, node: &str, name: &str) -> Option<Vec<u8>> {
        self.fetch_by(&self.uri(node), name)
    }

    fn fetch_by(&self, uri: &str, name: &str) -> Option<Vec<u8>> {
        let to = self.path("fetched");
        let _ = fs::remove_file(&to);
        let to_text = to.display().to_string();
        let said = self.plexus(&["ndn", "fetch", name, "-o", &to_text, "--transport", uri]);
        (said.code == Some(0)).then(|| fs::read(&to).unwrap())
    }
}

struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Node {
    process: Child,
    control: PathBuf,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Node {
    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Ends it as systemd does.
    fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.process.wait().unwrap().success());
    }

    fn show(&self, what: &str) -> Option<Value> {
        ask(&self.control, &json!({"show": what}))
    }

    fn has_route(&self, prefix: &str) -> bool {
        let names = self.show("names").unwrap();
        names["routes"].as_array().unwrap().iter().any(|route| route["prefix"] == prefix)
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn the_lab_serves_a_web_site_by_name_through_two_caches() {
    if !common::is_root("named data") {
        return;
    }
    let desk = Desk(common::directory("named-lab"));
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/named-data.toml");
    let run = desk.plexus(&["lab", "run", file, "--json"]).expect(0).json();
    assert_eq!(run["passed"], true, "{run}");
}

#[test]
fn what_a_disk_holds_is_served_after_a_restart_and_after_a_kill() {
    let desk = Desk(common::directory("named-disk"));
    let disk = desk.path("cache");
    // Memory for a tenth of the object: the rest is on the disk, once it was asked for twice.
    let more = format!(
        "cache = \"1MiB\"\n[[named.disk]]\nfile = \"{}\"\nsize = \"64MiB\"\n",
        disk.display()
    );
    let mut node = desk.node("n", &more);
    let (file, content) = (desk.path("object"), bytes(8_000_000));
    fs::write(&file, &content).unwrap();
    let producer = desk.serve("n", "/object", &file);
    assert!(until(|| node.has_route("/object")));
    for _ in 0..3 {
        assert!(desk.fetch("n", "/object").unwrap() == content);
    }
    drop(producer);
    assert!(until(|| !node.has_route("/object")));
    let hits = |node: &Node| node.show("cache").unwrap()["disks"][0]["hits"].as_u64().unwrap();
    let recovered = |node: &Node| {
        let cache = node.show("cache").unwrap();
        assert_eq!(cache["disks"][0]["mismatches"], 0, "{cache}");
        cache["disks"][0]["recovered"].as_u64().unwrap()
    };
    assert!(node.show("cache").unwrap()["disks"][0]["writes"].as_u64().unwrap() > 0);
    // Whatever a killed node has left behind is right, or is not served.
    node.kill();
    let node = desk.node("n", &more);
    assert!(until(|| recovered(&node) > 0), "{}", node.show("cache").unwrap());
    node.stop();
    let node = desk.node("n", &more);
    assert!(until(|| recovered(&node) > 100), "{}", node.show("cache").unwrap());
    // The producer is back, but most of it is not asked for again.
    let _producer = desk.serve("n", "/object", &file);
    assert!(until(|| node.has_route("/object")));
    assert!(desk.fetch("n", "/object").unwrap() == content);
    assert!(hits(&node) > 100, "{}", node.show("cache").unwrap());
}

#[test]
fn a_permanent_face_and_its_routes_come_back_with_the_neighbour() {
    let desk = Desk(common::directory("named-face"));
    let more = format!(
        "[[named.face]]\nname = \"up\"\nremote = \"{}\"\n[[named.route]]\nprefix = \"/far\"\n\
         face = \"up\"\n",
        desk.uri("far")
    );
    // The neighbour is not there yet.
    let near = desk.node("near", &more);
    let (file, content) = (desk.path("object"), bytes(100_000));
    fs::write(&file, &content).unwrap();
    for _ in 0..2 {
        let mut far = desk.node("far", "");
        let _producer = desk.serve("far", "/far", &file);
        assert!(until(|| far.has_route("/far")));
        assert!(until(|| near.has_route("/far")), "{}", near.show("faces").unwrap());
        assert!(until(|| desk.fetch("near", "/far").is_some_and(|found| found == content)));
        far.kill();
    }
}

#[test]
fn routes_and_strategies_of_a_changed_file_are_taken_and_other_changes_refused() {
    let desk = Desk(common::directory("named-reload"));
    let _far = desk.node("far", "");
    let face = format!("[[named.face]]\nname = \"up\"\nremote = \"{}\"\n", desk.uri("far"));
    let route = |prefix: &str| {
        format!(
            "{face}[[named.route]]\nprefix = \"{prefix}\"\nface = \"up\"\n[[named.strategy]]\n\
             prefix = \"{prefix}\"\nstrategy = \"multicast\"\n"
        )
    };
    let node = desk.node("n", &route("/one"));
    assert!(until(|| node.has_route("/one")));
    let reload = || ask(&node.control, &json!({"reload": true})).unwrap();
    desk.write("n", &route("/two"));
    assert_eq!(reload()["done"], true);
    assert!(until(|| node.has_route("/two") && !node.has_route("/one")));
    let names = node.show("names").unwrap();
    let strategy = |prefix: &str| {
        let all = names["strategies"].as_array().unwrap();
        all.iter().find(|s| s["prefix"] == prefix).map(|s| s["strategy"].to_string())
    };
    assert!(strategy("/two").is_some_and(|s| s.contains("multicast")), "{names}");
    assert_eq!(strategy("/one"), None);
    desk.write("n", &format!("cache = \"2MiB\"\n{}", route("/two")));
    let refused = reload();
    assert!(refused["error"].to_string().contains("only with a restart"), "{refused}");
}
