//! Three boxes with a host each, as docs/three-boxes.md draws them, and commands that wait for a
//! box.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use plexus_io::namespace::Namespaces;
use serde_json::{Value, json};

use crate::common::{
    self, Desk, Running, Said, Signal, cable, ip, own_folders, plexus_in, signal, until,
};
use crate::guide::page::Step;
use crate::guide::reader::shell_in;

/// A command that prints a code and waits for a box.
pub(crate) struct Inviting {
    child: Running,
    out: BufReader<std::process::ChildStdout>,
    /// All that it has printed.
    printed: String,
    pub(crate) code: String,
}

impl Inviting {
    /// Starts it, up to the code.
    pub(crate) fn begin(mut command: Command) -> Inviting {
        let mut child = Running(command.stdin(Stdio::piped()).spawn().unwrap());
        let out = BufReader::new(child.0.stdout.take().unwrap());
        let mut inviting = Inviting { child, out, printed: String::new(), code: String::new() };
        inviting.next_code();
        inviting
    }

    fn next_code(&mut self) {
        let line = self.line_with("  plexus group ");
        self.code = line.rsplit(' ').next().unwrap().to_string();
    }

    /// The next line that has this text.
    pub(crate) fn line_with(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            if self.out.read_line(&mut line).unwrap() == 0 {
                let mut error = String::new();
                let _ = self.child.0.stderr.take().unwrap().read_to_string(&mut error);
                panic!("no {text:?} in {}{error}", self.printed);
            }
            self.printed.push_str(&line);
            if line.contains(text) {
                return line.trim_end().to_string();
            }
        }
    }

    /// Answers the question that is asked.
    pub(crate) fn answer(&mut self, text: &str) {
        writeln!(self.child.0.stdin.as_mut().unwrap(), "{text}").unwrap();
    }

    /// Its output until it ends.
    pub(crate) fn end(mut self) -> Said {
        let (mut out, mut err) = (self.printed, String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Said { code: self.child.0.wait().unwrap().code(), out, err }
    }

    /// Lets a box join that asks already; what that box said.
    pub(crate) fn confirm(&mut self, join: Child) -> Said {
        let asked = self.line_with(", with key ");
        self.answer("y");
        let key = asked.rsplit(' ').next().unwrap();
        let said = Said::by(join).expect(0);
        // The operator compares the keys.
        assert!(key.len() == 16 && said.out.contains(key), "{asked}: {said:?}");
        said
    }
}

/// The boxes and hosts of docs/three-boxes.md.
pub(crate) struct Boxes {
    desk: Desk,
    boxes: [Namespaces; 3],
    hosts: [Namespaces; 3],
    /// The network by which the boxes are managed.
    _management: Namespaces,
    /// By their units.
    daemons: Vec<(String, Running)>,
    inviting: Option<Inviting>,
    /// Lines of the first box about boxes that asked, with the operator's answers.
    pub(crate) answered: String,
}

impl Boxes {
    pub(crate) fn new() -> Option<Boxes> {
        let desk = Desk::root("group")?;
        let boxes: [Namespaces; 3] = common::namespaces("a group", own_folders)?;
        let hosts: [Namespaces; 3] = common::namespaces("a group", || Ok(()))?;
        let [management] = common::namespaces("a group", common::quiet)?;
        ip(&management, "link add br0 type bridge");
        ip(&management, "link set dev br0 up");
        for (i, place) in boxes.iter().enumerate() {
            let name = format!("n{}", i + 1);
            place.run(|| rustix::system::sethostname(name.as_bytes())).unwrap().unwrap();
            // The test does what systemd does.
            place.run(|| fs::create_dir_all("/run/systemd/system")).unwrap().unwrap();
            ip(place, "link set dev lo up");
            cable((place, "mgmt0"), (&management, &name), 1500);
            ip(&management, &format!("link set dev {name} master br0"));
            ip(place, &format!("address add 192.0.2.{}/24 dev mgmt0", i + 1));
            cable((place, "eth1"), (&boxes[(i + 1) % 3], "eth2"), 1500);
            cable((place, "eth3"), (&hosts[i], "eth0"), 1500);
            cable((place, "eth4"), (&hosts[i], "eth1"), 1500);
            ip(&hosts[i], &format!("address add 10.0.0.{}/24 dev eth0", i + 1));
        }
        let (_management, daemons, inviting) = (management, vec![], None);
        let answered = String::new();
        Some(Boxes { desk, boxes, hosts, _management, daemons, inviting, answered })
    }

    fn place(&self, name: &str) -> &Namespaces {
        let at = name[1..].parse::<usize>().unwrap() - 1;
        if name.starts_with('h') { &self.hosts[at] } else { &self.boxes[at] }
    }

    /// Where a command is typed: at the first box if the page names no other place.
    pub(crate) fn at<'a>(&self, step: &'a Step) -> &'a str {
        if step.at.is_empty() { "n1" } else { &step.at }
    }

    /// Types a command at a box or host. It ends as it should and prints what the page shows.
    pub(crate) fn type_in(&mut self, step: &Step) {
        let (at, line) = (self.at(step), &step.command);
        let words: Vec<&str> = line.split_whitespace().collect();
        match &words[..] {
            ["plexus", "group", "create" | "invite", ..]
            | ["plexus", "group", "rotate-keys", "n2"] => {
                assert!(self.inviting.is_none(), "{line}: the one before waits for a box");
                let inviting = Inviting::begin(plexus_in(self.place(at), &words[1..]));
                step.assert_shows(&inviting.printed);
                self.inviting = Some(inviting);
            }
            ["plexus", "group", "join", _, ..]
            | ["plexus", "group", "rotate-keys", "--code", _] => {
                let mut inviting = self.inviting.take().expect("a box that has invited");
                let code = inviting.code.clone();
                let is_code = |word: &&str| word.len() > 40;
                let words: Vec<&str> =
                    words[1..].iter().map(|w| if is_code(w) { &code } else { *w }).collect();
                let join = plexus_in(self.place(at), &words).spawn().unwrap();
                step.assert_shows(&inviting.confirm(join).out);
                // A terminal shows what is typed.
                self.answered += &inviting.end().expect(0).out.replace("[y/N] ", "[y/N] y\n");
            }
            ["systemctl", "enable" | "start", units @ ..] => {
                units.iter().filter(|unit| **unit != "--now").for_each(|unit| self.start(at, unit));
            }
            ["systemctl", "stop", unit] => {
                let at = self.daemons.iter().position(|(name, _)| name == unit).unwrap();
                let mut daemon = self.daemons.remove(at).1;
                signal(&daemon.0, Signal::TERM);
                assert!(until(|| daemon.has_ended()), "{line}: {}", self.logs());
            }
            ["systemctl", "reload", unit] => {
                let (_, daemon) = self.daemons.iter().find(|(name, _)| name == unit).unwrap();
                signal(&daemon.0, Signal::HUP);
            }
            _ => _ = step.run(|| Said::of(&mut shell_in(self.place(at), line))),
        }
    }

    /// Adds to a file of a box.
    pub(crate) fn append(&self, at: &str, path: &str, text: &str) {
        let add = || {
            let mut file = fs::OpenOptions::new().append(true).open(path)?;
            file.write_all(text.as_bytes())
        };
        self.place(at).run(add).unwrap().unwrap();
    }

    /// Stops a command that waits for a box.
    pub(crate) fn stop_waiting(&mut self) {
        self.inviting = None;
    }

    /// Starts the daemon of a unit, as the unit does.
    fn start(&mut self, at: &str, unit: &str) {
        let (kind, name) = unit.strip_prefix("plexus-").unwrap().split_once('@').unwrap();
        let config = format!("/etc/plexus/{name}.toml");
        let mut command = plexus_in(self.place(at), &[kind, "run", "--config", &config]);
        let log = File::create(self.desk.dir.join(format!("{name}.log"))).unwrap();
        let mut daemon = Running(command.stderr(log).stdout(Stdio::null()).spawn().unwrap());
        // The controller needs the device that the node of its box makes, so systemd would have to
        // start it twice.
        let log = || fs::read_to_string(self.desk.dir.join(format!("{name}.log"))).unwrap();
        let is_up = until(|| log().contains(" running ") || daemon.has_ended());
        assert!(is_up && !daemon.has_ended(), "{}", log());
        self.daemons.push((unit.to_string(), daemon));
    }

    /// The answer of a daemon of the first box.
    pub(crate) fn show(&self, name: &str, what: &str) -> Value {
        let words = ["show", what, "--node", name, "--json"];
        Said::of(&mut plexus_in(&self.boxes[0], &words)).json()
    }

    /// Waits until the controller knows so many links.
    pub(crate) fn await_links(&self, count: usize) {
        let links = || self.show("c1", "topology")["links"].as_array().unwrap().len();
        assert!(until(|| links() == count), "{} links: {}", links(), self.logs());
    }

    /// Waits until no route leads through a box that is drained.
    pub(crate) fn await_drained(&self, name: &str) {
        let drained = || self.show("c1", "topology")["drained"].clone();
        let is_empty = || drained() == json!([{"node": name, "flows_through": 0}]);
        assert!(until(is_empty), "{}", drained());
    }

    fn logs(&self) -> String {
        let entries = fs::read_dir(&self.desk.dir).unwrap().flatten();
        entries.map(|entry| fs::read_to_string(entry.path()).unwrap_or_default()).collect()
    }
}
