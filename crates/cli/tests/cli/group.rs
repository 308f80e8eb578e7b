//! A group of boxes that share nothing but cables: `plexus group` makes it, by the commands of
//! docs/three-boxes.md.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use plexus_io::namespace::Namespaces;
use serde_json::Value;

use crate::common::{self, Desk, Running, Said, cable, ip, plexus_in, until};
use crate::guide;
use crate::guide::page::{self, Step};

pub(crate) mod boxes;

use boxes::{Boxes, Inviting};

#[test]
fn three_boxes_become_one_switch_by_the_commands_of_the_document() {
    let Some(mut boxes) = Boxes::new() else { return };
    let page = "docs/three-boxes.md";
    let steps = guide::typed(page);
    assert!(steps.len() > 20, "{steps:?}");
    let begun = Instant::now();
    for step in &steps {
        let (at, line) = (boxes.at(step), &step.command);
        // While the third box is there, every cable between two boxes is a link.
        if line.contains("group remove") {
            boxes.await_links(3);
        }
        if line.ends_with("--end") {
            boxes.await_drained("n3");
        }
        let before = begun.elapsed();
        boxes.type_in(step);
        eprintln!("{:6.2} s  {at}: {line}", (begun.elapsed() - before).as_secs_f64());
    }
    eprintln!("{:6.2} s  in all, {} commands", begun.elapsed().as_secs_f64(), steps.len());
    // The block that has no command in it shows what the command of the first box goes on to say.
    let asked = page::texts(page).into_iter().filter(|line| !line.contains(['│', '─']));
    let asked: Vec<String> = asked.filter(|line| line.contains("n2")).collect();
    assert_eq!(asked.len(), 3, "{asked:?}");
    let asked = Step { command: "the confirmation".into(), shown: asked, ..Step::default() };
    asked.assert_shows(&boxes.answered);
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
