//! A group of boxes that share nothing but cables: `plexus group` makes it, by the commands of
//! docs/three-boxes.md.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use plexus_io::namespace::Namespaces;
use serde_json::{Value, json};

use crate::common::{
    self, Desk, Running, Said, Signal, cable, ip, own_folders, plexus_in, signal, until,
};

/// A command that prints a code and waits for a box.
struct Inviting {
    child: Running,
    out: BufReader<std::process::ChildStdout>,
    code: String,
}

impl Inviting {
    /// Starts it, up to the code.
    fn begin(mut command: Command) -> Inviting {
        let mut child = Running(command.stdin(Stdio::piped()).spawn().unwrap());
        let out = BufReader::new(child.0.stdout.take().unwrap());
        let mut inviting = Inviting { child, out, code: String::new() };
        inviting.next_code();
        inviting
    }

    fn next_code(&mut self) {
        let line = self.line_with("  plexus group ");
        self.code = line.rsplit(' ').next().unwrap().to_string();
    }

    /// The next line that has this text.
    fn line_with(&mut self, text: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            if self.out.read_line(&mut line).unwrap() == 0 {
                let _ = self.child.0.stderr.take().unwrap().read_to_string(&mut all);
                panic!("no {text:?} in {all}");
            }
            all.push_str(&line);
            if line.contains(text) {
                return line.trim_end().to_string();
            }
        }
    }

    /// Answers the question that is asked.
    fn answer(&mut self, text: &str) {
        writeln!(self.child.0.stdin.as_mut().unwrap(), "{text}").unwrap();
    }

    /// Its output until it ends.
    fn end(mut self) -> Said {
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Said { code: self.child.0.wait().unwrap().code(), out, err }
    }

    /// Lets a box join that asks already; what that box said.
    fn confirm(&mut self, join: Child) -> Said {
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
struct Boxes {
    desk: Desk,
    boxes: [Namespaces; 3],
    hosts: [Namespaces; 3],
    /// The network by which the boxes are managed.
    _management: Namespaces,
    /// By their units.
    daemons: Vec<(String, Running)>,
    inviting: Option<Inviting>,
}

impl Boxes {
    fn new() -> Option<Boxes> {
        let desk = Desk::root("group")?;
        let boxes: [Namespaces; 3] = common::namespaces("a group", own_folders)?;
        let hosts: [Namespaces; 3] = common::namespaces("a group", || Ok(()))?;
        let [management] = common::namespaces("a group", common::quiet)?;
        ip(&management, "link add br0 type bridge");
        ip(&management, "link set dev br0 up");
        for (i, place) in boxes.iter().enumerate() {
            let name = format!("n{}", i + 1);
            place.run(|| rustix::system::sethostname(name.as_bytes())).unwrap().unwrap();
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
        Some(Boxes { desk, boxes, hosts, _management, daemons, inviting })
    }

    fn place(&self, name: &str) -> &Namespaces {
        let at = name[1..].parse::<usize>().unwrap() - 1;
        if name.starts_with('h') { &self.hosts[at] } else { &self.boxes[at] }
    }

    /// Does what a line of the document says at a box or host.
    fn step(&mut self, at: &str, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match &words[..] {
            ["plexus", "group", "create" | "invite", ..]
            | ["plexus", "group", "rotate-keys", "n2"] => {
                assert!(self.inviting.is_none(), "{line}: the one before waits for a box");
                self.inviting = Some(Inviting::begin(plexus_in(self.place(at), &words[1..])));
            }
            ["plexus", "group", "join", _, ..]
            | ["plexus", "group", "rotate-keys", "--code", _] => {
                let mut inviting = self.inviting.take().expect("a box that has invited");
                let code = inviting.code.clone();
                let is_code = |word: &&str| word.len() > 40;
                let words: Vec<&str> =
                    words[1..].iter().map(|w| if is_code(w) { &code } else { *w }).collect();
                let join = plexus_in(self.place(at), &words).spawn().unwrap();
                inviting.confirm(join);
                inviting.end().expect(0);
            }
            ["systemctl", "enable", "--now", units @ ..] => {
                units.iter().for_each(|unit| self.start(at, unit));
            }
            ["systemctl", "reload", unit] => {
                let (_, daemon) = self.daemons.iter().find(|(name, _)| name == unit).unwrap();
                signal(&daemon.0, Signal::HUP);
            }
            // Tables show the present, which takes a moment to be what it should.
            ["plexus", ..] | ["ping", ..] => {
                let run = || {
                    let mut command = match words[0] {
                        "plexus" => plexus_in(self.place(at), &words[1..]),
                        program => {
                            let mut command = Command::new(program);
                            command.args(&words[1..]);
                            command.stdout(Stdio::piped()).stderr(Stdio::piped());
                            self.place(at).apply(&mut command).unwrap();
                            command
                        }
                    };
                    Said::of(&mut command)
                };
                let mut said = run();
                let done = until(|| {
                    let is_done = said.code == Some(0);
                    if !is_done {
                        said = run();
                    }
                    is_done
                });
                assert!(done, "{at}: {line}: {said:#?}\n{}", self.logs());
            }
            _ => panic!("{line}: this test cannot do that"),
        }
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
    fn show(&self, name: &str, what: &str) -> Value {
        let words = ["show", what, "--node", name, "--json"];
        Said::of(&mut plexus_in(&self.boxes[0], &words)).json()
    }

    /// Waits until the controller knows so many links.
    fn await_links(&self, count: usize) {
        let links = || self.show("c1", "topology")["links"].as_array().unwrap().len();
        assert!(until(|| links() == count), "{} links: {}", links(), self.logs());
    }

    fn logs(&self) -> String {
        let entries = fs::read_dir(&self.desk.dir).unwrap().flatten();
        entries.map(|entry| fs::read_to_string(entry.path()).unwrap_or_default()).collect()
    }
}

#[test]
fn three_boxes_become_one_switch_by_the_commands_of_the_document() {
    let Some(mut boxes) = Boxes::new() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs/three-boxes.md")).unwrap();
    let text = text.replace("\\\n", " ");
    let prompt = |line: &str| {
        let (at, command) = line.split_once("# ").or_else(|| line.split_once("$ "))?;
        let is_place = at.len() == 2 && at.starts_with(['n', 'h']);
        is_place.then(|| (at.to_string(), command.to_string()))
    };
    let steps: Vec<(String, String)> = text.lines().filter_map(prompt).collect();
    assert!(steps.len() > 8, "{steps:?}");
    let begun = Instant::now();
    for (at, line) in &steps {
        // While the third box is there, every cable between two boxes is a link.
        if line.contains("group remove") {
            boxes.await_links(3);
        }
        if line.ends_with("--end") {
            let drained = || boxes.show("c1", "topology")["drained"].clone();
            let is_empty = || drained() == json!([{"node": "n3", "flows_through": 0}]);
            assert!(until(is_empty), "{}", drained());
        }
        let before = begun.elapsed();
        boxes.step(at, line);
        eprintln!("{:6.2} s  {at}: {line}", (begun.elapsed() - before).as_secs_f64());
    }
    eprintln!("{:6.2} s  in all, {} commands", begun.elapsed().as_secs_f64(), steps.len());
    boxes.await_links(1);
    let ports = boxes.show("n1", "ports")["ports"].as_array().unwrap().len();
    // Three, the added one, and the one to the controller.
    assert_eq!(ports, 5, "{}", boxes.show("n1", "ports"));
    let up = |name: &str| {
        common::item(&boxes.show("c1", "topology")["nodes"], "name", name)["up"].clone()
    };
    assert_eq!((up("n2"), up("n3") == true), (true.into(), false));
}

/// Two boxes with a cable between them.
fn two_boxes() -> Option<(Desk, [Namespaces; 2])> {
    let desk = Desk::root("join")?;
    let places: [Namespaces; 2] = common::namespaces("a group", || Ok(()))?;
    cable((&places[0], "eth1"), (&places[1], "eth1"), 1500);
    for (place, address) in places.iter().zip(["192.0.2.1/24", "192.0.2.2/24"]) {
        ip(place, &format!("address add {address} dev eth1"));
    }
    Some((desk, places))
}

fn folder(desk: &Desk, name: &str) -> String {
    desk.dir.join(name).display().to_string()
}

#[test]
fn a_code_is_good_for_one_box_and_no_other_group() {
    let Some((desk, [first, second])) = two_boxes() else { return };
    let join = |code: &str, dir: &str, name: &str| {
        let dir = folder(&desk, dir);
        let words = ["group", "join", code, "--dir", &dir, "--name", name, "--interface", "eth1"];
        plexus_in(&second, &words)
    };
    let at = ["--at", "192.0.2.1"];
    let create = |dir: &str, more: &[&str]| {
        let dir = folder(&desk, dir);
        let words = ["group", "create", "--dir", &dir, "--name", "n1", "--interface", "eth1"];
        plexus_in(&first, &[&words[..], more].concat())
    };
    let mut inviting = Inviting::begin(create("a", &at));
    let code = inviting.code.clone();
    // A name that the group has is refused, and the code stays good.
    let said = Said::of(&mut join(&code, "b", "n1")).expect(2);
    assert!(said.err.contains("the group has a box n1 already"), "{said:?}");
    assert!(!desk.dir.join("b/n1.toml").exists());
    // The operator lets one box in; its files are there and fit.
    inviting.confirm(join(&code, "b", "n2").spawn().unwrap());
    let ended = inviting.end().expect(0);
    assert!(ended.out.contains("n2 has joined with number 3"), "{ended:?}");
    let check = ["config", "check", &format!("{}/n2.toml", folder(&desk, "b"))];
    Said::of(&mut plexus_in(&second, &check)).expect(0);
    // A second time, nobody listens; and not either when another invitation is open.
    let said = Said::of(&mut join(&code, "c", "n3")).expect(2);
    assert!(said.err.contains("was used or has expired"), "{said:?}");
    let dir = folder(&desk, "a");
    let invite =
        |dir: &str| plexus_in(&first, &["group", "invite", "--dir", dir, "--at", "192.0.2.1"]);
    let mut open = Inviting::begin(invite(&dir));
    let said = Said::of(&mut join(&code, "c", "n3")).expect(2);
    assert!(said.err.contains("does not accept this code"), "{said:?}");
    // An operator that declines uses the code up.
    let declined = join(&open.code, "c", "n3").spawn().unwrap();
    let newer = open.code.clone();
    open.line_with("asks to join");
    open.answer("no");
    let said = Said::by(declined).expect(2);
    assert!(said.err.contains("its operator has declined"), "{said:?}");
    let ended = open.end().expect(1);
    assert!(ended.err.contains("the code is used up"), "{ended:?}");
    assert!(!desk.dir.join("c/n3.identity").exists() && newer != code);
    // A code of another group.
    Said::of(&mut create("other", &["--boxes", "0"])).expect(0);
    let open = Inviting::begin(invite(&folder(&desk, "other")));
    let said = Said::of(&mut join(&newer, "c", "n3")).expect(2);
    assert!(said.err.contains("of another group"), "{said:?}");
    // A box that has an identity keeps it.
    let said = Said::of(&mut join(&open.code, "b", "n2")).expect(2);
    assert!(said.err.contains("n2.identity is there already"), "{said:?}");
}

#[test]
fn guesses_close_the_invitation_and_noise_does_not() {
    let Some((desk, [first, second])) = two_boxes() else { return };
    let dir = folder(&desk, "a");
    let base = ["--dir", &dir, "--at", "192.0.2.1"];
    let words = ["group", "create", "--name", "n1", "--interface", "eth1"];
    let open = Inviting::begin(plexus_in(&first, &[&words[..], &base].concat()));
    let old = open.code.clone();
    drop(open);
    let open = Inviting::begin(plexus_in(&first, &[&["group", "invite"][..], &base].concat()));
    // Peers that say nothing, or something else, neither block nor count.
    let connect = || std::net::TcpStream::connect("192.0.2.1:18773");
    let silent: Vec<_> = (0..20).map(|_| second.run(connect).unwrap().unwrap()).collect();
    for noise in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xFF; 600], &[0, 1, 9], &[0, 0]] {
        second.run(connect).unwrap().unwrap().write_all(noise).unwrap();
    }
    let join = |code: &str| {
        let dir = folder(&desk, "b");
        let words = ["group", "join", code, "--dir", &dir, "--name", "n2", "--interface", "eth1"];
        Said::of(&mut plexus_in(&second, &words)).expect(2)
    };
    for _ in 0..10 {
        let said = join(&old);
        assert!(said.err.contains("does not accept this code"), "{said:?}");
    }
    let ended = open.end().expect(1);
    assert!(ended.err.contains("too many guesses were wrong"), "{ended:?}");
    assert!(ended.err.contains("192.0.2.2: the code is not that of the invitation"), "{ended:?}");
    drop(silent);
}

#[test]
fn an_interface_in_use_is_not_taken_and_the_list_says_what_each_is() {
    let Some((desk, [first, _second])) = two_boxes() else { return };
    ip(&first, "route add default via 192.0.2.2");
    let dir = folder(&desk, "a");
    let create = |more: &[&str]| {
        let words = ["group", "create", "--dir", &dir, "--name", "n1", "--boxes", "0"];
        Said::of(&mut plexus_in(&first, &[&words[..], more].concat()))
    };
    let said = create(&[]).expect(2);
    let line = said.err.lines().find(|line| line.contains("eth1")).unwrap();
    for what in ["veth", "yes", "IN USE: the default route leads through it", "192.0.2.1/24"] {
        assert!(line.contains(what), "{what}: {said:?}");
    }
    let said = create(&["--interface", "eth1"]).expect(2);
    assert!(said.err.contains("add --force"), "{said:?}");
    assert!(!Path::new(&dir).join("n1.toml").exists());
    create(&["--interface", "eth1", "--force"]).expect(0);
    let said = create(&["--interface", "eth1", "--force"]).expect(2);
    assert!(said.err.contains("nothing is written over"), "{said:?}");
}

#[test]
fn a_box_joins_over_the_cable_alone() {
    let Some((desk, [first, second])) = two_boxes() else { return };
    // Neither has an address but the link-local one of the cable.
    for place in [&first, &second] {
        ip(place, "-4 address flush dev eth1");
        let shown = || {
            let mut show = Command::new("ip");
            show.args(["-6", "address", "show", "dev", "eth1", "scope", "link"]);
            place.apply(&mut show).unwrap();
            String::from_utf8(show.output().unwrap().stdout).unwrap()
        };
        let usable = || shown().contains("inet6") && !shown().contains("tentative");
        assert!(until(usable), "{}", shown());
    }
    let [a, b] = ["a", "b"].map(|dir| folder(&desk, dir));
    let create = ["group", "create", "--dir", &a, "--name", "n1", "--interface", "eth1"];
    let mut inviting = Inviting::begin(plexus_in(&first, &create));
    assert_eq!(inviting.code.replace('-', "").len(), 64);
    let code = inviting.code.clone();
    let words = ["group", "join", &code, "--dir", &b, "--name", "n2", "--interface", "eth1"];
    inviting.confirm(plexus_in(&second, &words).spawn().unwrap());
    inviting.end().expect(0);
}

#[test]
fn the_doctor_finds_what_was_done_to_an_interface() {
    let Some((_desk, [first, _second])) = two_boxes() else { return };
    ip(&first, "link add br0 type bridge");
    ip(&first, "link set dev eth1 master br0");
    ip(&first, "link add eth2 type veth peer name far");
    let doctor = |code: i32| {
        let words = ["doctor", "eth1", "eth2", "--json"];
        let said = Said::of(&mut plexus_in(&first, &words)).expect(code);
        let found: Vec<Value> = serde_json::from_str(&said.out).unwrap();
        found
    };
    let mends = |found: &[Value], about: &str| -> Vec<String> {
        let about = found.iter().filter(|finding| finding["subject"] == about);
        about.filter_map(|finding| finding["mend"].as_str().map(str::to_string)).collect()
    };
    let found = doctor(1);
    let nomaster = "ip link set dev eth1 nomaster";
    let flush = "ip address flush dev eth1";
    assert_eq!(mends(&found, "eth1"), [nomaster, flush], "{found:#?}");
    assert_eq!(mends(&found, "eth2"), ["ip link set dev eth2 up"], "{found:#?}");
    // Each command mends what it is for.
    for mend in [&mends(&found, "eth1")[..], &mends(&found, "eth2")].concat() {
        ip(&first, mend.strip_prefix("ip ").unwrap());
    }
    ip(&first, "link set dev far up");
    let found = doctor(0);
    assert_eq!((mends(&found, "eth1").len(), mends(&found, "eth2").len()), (0, 0), "{found:#?}");
    Said::of(&mut plexus_in(&first, &["doctor", "eth9"])).expect(1);
    Said::of(&mut plexus_in(&first, &["doctor", "--config", "/no/such"])).expect(2);
}

/// Types the commands at the head of labs/group-join.toml, with files and sockets in the folder of
/// the test.
#[test]
fn the_boxes_of_the_shipped_lab_become_a_group() {
    let Some(desk) = Desk::root("group-join") else { return };
    let file = common::shipped("group-join");
    let dir = desk.dir.display().to_string();
    let text = fs::read_to_string(&file).unwrap().replace("\\\n#", " ");
    let text = text.replace("/tmp/", &format!("{dir}/"));
    let words = |line: &str| line.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    let typed = text.lines().filter_map(|line| line.strip_prefix("#     plexus lab exec "));
    let typed: Vec<Vec<String>> = typed.map(words).collect();
    assert!(typed.len() >= 6, "{typed:?}");
    desk.plexus(&["lab", "up", &file]).expect(0);

    let (mut inviting, mut daemons) = (None, Vec::new());
    for mut line in typed {
        let code = |inviting: &Option<Inviting>| inviting.as_ref().unwrap().code.clone();
        for word in &mut line {
            match word.as_str() {
                "plexus" => *word = env!("CARGO_BIN_EXE_plexus").to_string(),
                "CODE" => *word = code(&inviting),
                _ => {}
            }
        }
        let line: Vec<&str> =
            [&["lab", "exec"][..], &line.iter().map(|w| &**w).collect::<Vec<_>>()].concat();
        let mut command = desk.command(&line);
        match &line[6..] {
            ["group", "create", ..] => {
                inviting = Some(Inviting::begin(command));
                // Other daemons of this machine have the usual places.
                for name in ["n1", "c1"] {
                    let state = if name == "c1" {
                        format!("state = \"{dir}/c1.redb\"\n")
                    } else {
                        String::new()
                    };
                    let path = desk.dir.join(format!("b1/{name}.toml"));
                    let text = fs::read_to_string(&path).unwrap();
                    let own =
                        format!("name = \"{name}\"\ncontrol = \"{dir}/{name}.sock\"\n{state}");
                    fs::write(path, text.replace(&format!("name = \"{name}\"\n"), &own)).unwrap();
                }
            }
            ["group", "join", ..] => {
                let mut waiting = inviting.take().unwrap();
                waiting.confirm(command.spawn().unwrap());
                waiting.end().expect(0);
                let path = desk.dir.join("b2/n2.toml");
                let text = fs::read_to_string(&path).unwrap();
                let own = format!("name = \"n2\"\ncontrol = \"{dir}/n2.sock\"\n");
                fs::write(path, text.replace("name = \"n2\"\n", &own)).unwrap();
            }
            [_, "run", ..] => {
                let log = File::create(desk.dir.join(format!("{}.log", daemons.len()))).unwrap();
                let mut daemon = Running(command.stderr(log).spawn().unwrap());
                let path = desk.dir.join(format!("{}.log", daemons.len()));
                let log = || fs::read_to_string(&path).unwrap();
                assert!(until(|| log().contains(" running ") || daemon.has_ended()));
                assert!(!daemon.has_ended(), "{}", log());
                daemons.push(daemon);
            }
            _ => {
                let ping = [&line[..5], &["ping", "-c", "1", "-W", "1", line.last().unwrap()]];
                let answers = || desk.plexus(&ping.concat()).code == Some(0);
                assert!(until(answers), "{line:?}");
            }
        }
    }
    drop(daemons);
    desk.down("group-join");
}
