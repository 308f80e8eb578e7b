//! `plexus identity`: a number is issued once, and a daemon can read the identity that is for it.
//! What daemons report of a second box with a number, and of a box of another group.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use crate::common::{self, Daemons, Desk, Said, cable, until};

/// A directory with a group in it.
struct Group(Desk);

fn plexus(dir: &Path, arguments: &[&str]) -> Said {
    Said::of(common::plexus(arguments).current_dir(dir))
}

impl Group {
    fn new() -> Group {
        let group = Group(Desk::new("identity"));
        group.plexus("group --out group.key").expect(0);
        group
    }

    fn plexus(&self, arguments: &str) -> Said {
        let arguments: Vec<&str> = ["identity"].into_iter().chain(arguments.split(' ')).collect();
        plexus(&self.0.dir, &arguments)
    }

    fn issue(&self, number: u64, name: &str, more: &str) -> Said {
        self.plexus(&format!(
            "issue --group group.key --role node --number {number} --name {name} --out \
             {name}.identity{more}"
        ))
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.dir.join(file)
    }
}

#[test]
fn a_number_is_issued_once_and_again_only_when_told() {
    let group = Group::new();
    group.issue(2, "n1", "").expect(0);
    let held = group.plexus("show n1.identity --json").json();
    let key = held["key"].as_str().unwrap();

    let said = group.issue(2, "n2", "").expect(1);
    for told in ["number 2 belongs to node n1", &key[..16], "identity list", "--replace"] {
        assert!(said.err.contains(told), "{said:?}");
    }
    assert!(!group.path("n2.identity").exists());
    // A controller is no exception: boxes tell each other apart by number alone.
    let mut controller =
        "issue --group group.key --role controller --number 2 --name c1 --out c1.k";
    group.plexus(controller).expect(1);
    controller = "issue --group group.key --role controller --number 1 --name c1 --out c1.identity";
    group.plexus(controller).expect(0);

    let said = group.issue(2, "n2", " --replace").expect(0);
    assert!(
        said.err.contains("belonged to node n1") && said.err.contains("stays valid"),
        "{said:?}"
    );
    let listed = group.plexus("list --group group.key --json").json();
    let new = group.plexus("show n2.identity --json").json();
    let names =
        listed["identities"].as_array().unwrap().iter().map(|i| i["name"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["c1", "n2"]);
    assert_eq!(listed["identities"][1]["key"], new["key"]);
    assert_ne!(new["key"], held["key"]);
    assert_eq!(listed["group"], new["group"]);
    let table = group.plexus("list --group group.key").expect(0).out;
    assert!(table.lines().nth(2).unwrap().contains("2  node        n2"), "{table}");
}

#[test]
fn a_file_in_the_way_does_not_take_the_number() {
    let group = Group::new();
    fs::write(group.path("n1.identity"), "precious").unwrap();
    let said = group.issue(2, "n1", "").expect(2);
    assert!(said.err.contains("n1.identity is there already"), "{said:?}");
    fs::remove_file(group.path("n1.identity")).unwrap();
    group.issue(2, "n1", "").expect(0);
    // A group's file is not written over either, and its ledger stays.
    group.plexus("group --out group.key").expect(2);
    group.issue(2, "n2", "").expect(1);
}

#[test]
fn an_authority_without_a_ledger_gets_one_and_its_owner_is_told() {
    let group = Group::new();
    group.issue(2, "n1", "").expect(0);
    fs::remove_file(group.path("group.key.ledger")).unwrap();
    group.plexus("list --group group.key").expect(1);
    let said = group.issue(3, "n2", "").expect(0);
    assert!(said.err.contains("issued before are not in it"), "{said:?}");
    let said = group.issue(3, "n3", "").expect(1);
    assert!(!said.err.contains("issued before"), "{said:?}");
}

#[test]
fn two_at_once_do_not_get_one_number() {
    let group = Group::new();
    let outcomes: Vec<Option<i32>> = std::thread::scope(|s| {
        let issue = |i| {
            s.spawn({
                let g = &group;
                move || g.issue(7, &format!("n{i}"), "").code
            })
        };
        let all: Vec<_> = (0..8).map(issue).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|code| **code == Some(0)).count(), 1, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|code| **code == Some(1)).count(), 7, "{outcomes:?}");
}

#[test]
fn an_identity_that_root_issues_comes_with_the_chown_for_the_daemons_user() {
    if !common::is_root("identities") {
        return;
    }
    let group = Group::new();
    let said = group.issue(2, "n1", "").expect(0);
    assert!(said.err.contains("chown plexus: n1.identity"), "{said:?}");

    // A user for whom it was not issued is told what to do, and that helps.
    let file = group.path("n1.identity");
    let nobody = 65_534;
    let show = |arguments: &[&str]| {
        let mut command = common::plexus(arguments);
        Said::of(command.uid(nobody).gid(nobody).current_dir("/"))
    };
    let name = file.to_str().unwrap();
    let said = show(&["identity", "show", name]).expect(2);
    assert!(said.err.contains(&format!("as root, chown nobody: {name}")), "{said:?}");
    // So is the daemon's.
    let config = group.path("n1.toml");
    let text = format!(
        "name = \"n1\"\ncontrol = \"{name}.sock\"\n\
         [fabric]\nidentity = \"{name}\"\n[[port]]\nname = \"p1\"\n"
    );
    fs::write(&config, text).unwrap();
    fs::set_permissions(&group.0.dir, fs::Permissions::from_mode(0o777)).unwrap();
    let said = show(&["node", "run", "--config", config.to_str().unwrap()]).expect(2);
    assert!(said.err.contains(&format!("as root, chown nobody: {name}")), "{said:?}");

    chown(&file, Some(nobody), None).unwrap();
    show(&["identity", "show", name]).expect(0);
    fs::set_permissions(&group.0.dir, fs::Permissions::from_mode(0o700)).unwrap();
    let said = show(&["identity", "show", name]).expect(2);
    let directory = group.0.dir.display();
    assert!(said.err.contains(&format!("chmod +x {directory}")), "{said:?}");
}

#[test]
fn of_two_daemons_with_one_number_the_first_keeps_it_and_both_sides_warn() {
    let Some([place]) = common::namespaces("the fabric", || Ok(())) else { return };
    let mut daemons = Daemons::new("identity", 2);
    for (a, b) in [("n1a", "n2a"), ("n1b", "n3a"), ("n1c", "ctl0")] {
        cable((&place, a), (&place, b), 2000);
    }
    let issue = "identity issue --role node --number 2 --name n3 --replace --group group.key \
                 --out n3.key";
    plexus(&daemons.dir, &issue.split_whitespace().collect::<Vec<_>>()).expect(0);
    daemons.start_node(&place, "n1", &["n1a", "n1b", "n1c"]);
    daemons.start_node(&place, "n2", &["n2a"]);
    daemons.start_controller(&place, "");
    assert!(until(|| daemons.has_controller("n2")), "{}", daemons.log("c1", &[]));

    daemons.start_node(&place, "n3", &["n3a"]);
    let told = |daemons: &Daemons, name: &str, all: &[&str]| {
        let log = daemons.log(name, &[]);
        log.lines().any(|line| line.contains("WARN") && all.iter().all(|what| line.contains(what)))
    };
    let keys = ["n2", "n3"].map(|name| {
        let file = daemons.dir.join(format!("{name}.key"));
        let shown = plexus(&daemons.dir, &["identity", "show", file.to_str().unwrap(), "--json"]);
        shown.json()["key"].as_str().unwrap()[..16].to_string()
    });
    let keeps = format!("n2 (key {}, at port 0 of n1) keeps it", keys[0]);
    let refused = format!("n3 (key {}, at port 1 of n1) is refused", keys[1]);
    let is_told =
        |d: &Daemons| told(d, "c1", &["two live nodes have this number", &keeps, &refused]);
    assert!(until(|| is_told(&daemons)), "{}", daemons.log("c1", &["topology"]));
    let other = format!("another live node has this node's number, with the key {}", keys[0]);
    assert!(until(|| told(&daemons, "n3", &[&other])), "{}", daemons.log("n3", &[]));
    let ups = |daemons: &Daemons| daemons.log("c1", &[]).matches("(2) is up").count();
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(ups(&daemons), 1, "{}", daemons.log("c1", &[]));
    assert!(daemons.has_controller("n2") && !daemons.has_controller("n3"));

    // The first one dies: the other has its number soon.
    daemons.running[1].kill().unwrap();
    assert!(until(|| daemons.has_controller("n3")), "{}", daemons.log("c1", &[]));
    assert!(daemons.log("c1", &[]).contains("node n3 (2) is up"));
}

#[test]
fn daemons_of_two_groups_say_why_their_cable_is_none_of_the_fabric() {
    let Some([place]) = common::namespaces("the fabric", || Ok(())) else { return };
    let mut groups = [(); 2].map(|()| Daemons::new("identity", 1));
    cable((&place, "x0"), (&place, "x1"), 2000);
    for (i, daemons) in groups.iter_mut().enumerate() {
        daemons.start_node(&place, "n1", &[&format!("x{i}")]);
    }
    for (i, daemons) in groups.iter().enumerate() {
        let port = format!("port=\"x{i}\"");
        let is_told = |line: &str| {
            let said = ["WARN", "of another group", "plexus identity show", "role = "];
            line.contains(&port) && said.iter().all(|what| line.contains(what))
        };
        let told = || daemons.log("n1", &[]).lines().filter(|line| is_told(line)).count();
        assert!(until(|| told() > 0), "{}", daemons.log("n1", &["links"]));
        // The neighbour is refused before the port is given up as a node's.
        let is_host = || daemons.show("n1", "links").unwrap()["ports"][0]["role"] == "host";
        assert!(until(is_host), "{}", daemons.log("n1", &["links"]));
        let socket = daemons.dir.join("n1.sock");
        let shown = plexus(&daemons.dir, &["show", "links", "--control", socket.to_str().unwrap()])
            .expect(0);
        assert!(shown.out.contains(&format!("x{i} is host: the neighbour is a node")), "{shown:?}");
        assert!(told() <= 2, "{}", daemons.log("n1", &[]));
    }
}

/// Words of a text that end so, without what quotes them.
fn words<'a>(text: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    let apart = |c: char| c.is_whitespace() || "\"`'(),:;".contains(c);
    text.split(apart).map(|word| word.trim_end_matches('.')).filter(move |word| word.ends_with(end))
}

/// A node is `n1`, a controller `c1`, each with an identity of its name; `group.key` signs them.
#[test]
fn examples_units_and_help_agree_on_names() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts: Vec<(String, String)> = fs::read_dir(root.join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|p| (p.file_name().unwrap().to_str().unwrap().into(), fs::read_to_string(p).unwrap()))
        .collect();
    let help: [&[&str]; 5] = [
        &["identity", "--help"],
        &["identity", "issue", "--help"],
        &["sim", "replay", "--help"],
        &["node", "run", "--help"],
        &["controller", "run", "--help"],
    ];
    texts.extend(help.map(|arguments| {
        (format!("plexus {}", arguments.join(" ")), plexus(&root, arguments).expect(0).out)
    }));
    // What is advised where a file lacks its identity.
    let group = Group::new();
    fs::write(group.path("n.toml"), "name = \"n1\"\n[fabric]\n").unwrap();
    let checked = plexus(&group.0.dir, &["config", "check", "n.toml"]).expect(2);
    texts.push(("config check".into(), checked.err));

    let is_name = |name: &str| {
        let (kind, number) = name.split_at(1);
        "nc".contains(kind) && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    };
    let mut identities = 0;
    for (file, text) in &texts {
        for word in words(text, ".identity") {
            let path = Path::new(word);
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert!(is_name(name), "{file}: {word}");
            let directory = path.parent().unwrap();
            assert!(directory == Path::new("") || directory == Path::new("/etc/plexus"), "{word}");
            identities += 1;
        }
        // Other keys are those of named data, which have certificates.
        let keys: Vec<&str> = words(text, ".key").filter(|word| *word != "group.key").collect();
        assert!(keys.is_empty() || text.contains("ndncert"), "{file}: {keys:?}");
        // A box's file names its own identity.
        let line = |key: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
            found.and_then(|rest| rest.strip_suffix('"'))
        };
        if let (true, Some(identity)) = (file.ends_with(".toml"), line("identity")) {
            let name = line("name").unwrap();
            assert_eq!(identity, format!("/etc/plexus/{name}.identity"), "{file}");
            assert_eq!(name.starts_with('c'), file == "controller.toml", "{file}");
        }
        if let Some(ports) = text.lines().find(|line| line.starts_with("ports = [")) {
            let nodes = ports.split('"').skip(1).step_by(2).map(|port| port.split(':').next());
            assert!(nodes.flatten().all(|node| is_name(node) && node.starts_with('n')), "{ports}");
        }
        // A unit's instances are boxes of the examples.
        for word in text.split_whitespace() {
            let Some((unit, name)) = word.split_once('@') else { continue };
            let kind = unit.rsplit("plexus-").next().filter(|kind| *kind != unit);
            if let (Some(kind), false) = (kind, name.is_empty() || name.starts_with(".service")) {
                let its = ["sw1", "n1"];
                let is_known = if kind == "node" { its.contains(&name) } else { name == "c1" };
                assert!(is_known, "{file}: {word}");
            }
        }
    }
    assert!(identities > 10, "{identities} mentions");
    // The user for whom files are to be changed is the one that the units run as.
    for unit in ["plexus-node@.service", "plexus-controller@.service"] {
        let text = fs::read_to_string(root.join("examples").join(unit)).unwrap();
        assert!(text.contains("\nUser=plexus\n"), "{unit}");
        let chown = if unit.contains("node") { "n1" } else { "c1" };
        let chown = format!("chown plexus: /etc/plexus/{chown}.identity");
        assert!(text.contains(&chown), "{unit}");
        // Each example runs under its unit's name.
        assert!(text.contains("--config /etc/plexus/%i.toml"), "{unit}");
    }
}

/// As `| head -0` is one.
#[test]
fn a_reader_that_has_gone_makes_nobody_panic() {
    let group = Group::new();
    group.issue(1, "c1", "").expect(0);
    for command in ["list --group group.key", "list --group group.key --json", "show c1.identity"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let arguments: Vec<&str> = ["identity"].into_iter().chain(command.split(' ')).collect();
        let mut plexus = common::plexus(&arguments);
        let ended = plexus.current_dir(&group.0.dir).stdout(writer).output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && err.is_empty(), "{command}: {err}");
        // A full disk is a failure.
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = plexus.stdout(full).output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{command}: {ended:?}");
    }
}
