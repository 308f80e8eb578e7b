//! `plexus identity`: numbers are given once, and identities can be read by the daemon they are for.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::Said;

/// A directory with a group in it.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn plexus(dir: &Path, arguments: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
    command.args(arguments).current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Said::by(command.spawn().unwrap())
}

impl Group {
    fn new() -> Group {
        let group = Group(common::directory("identity"));
        group.plexus("group --out group.key").expect(0);
        group
    }

    fn plexus(&self, arguments: &str) -> Said {
        let arguments: Vec<&str> = ["identity"].into_iter().chain(arguments.split(' ')).collect();
        plexus(&self.0, &arguments)
    }

    fn issue(&self, number: u64, name: &str, more: &str) -> Said {
        self.plexus(&format!(
            "issue --group group.key --role node --number {number} --name {name} --out \
             {name}.identity{more}"
        ))
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }
}

#[test]
fn a_number_is_issued_once_and_again_only_when_told() {
    let group = Group::new();
    group.issue(2, "n1", "").expect(0);
    let held = group.plexus("show n1.identity --json").json();
    let key = held["key"].as_str().unwrap();

    let said = group.issue(2, "n2", "").expect(1);
    for told in ["number 2 is that of node n1", &key[..16], "identity list", "--replace"] {
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
        said.err.contains("was that of node n1") && said.err.contains("stays valid"),
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
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command.arg(env!("CARGO_BIN_EXE_plexus")).args(arguments).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Said::by(command.spawn().unwrap())
    };
    let name = file.to_str().unwrap();
    let said = show(&["identity", "show", name]).expect(2);
    assert!(said.err.contains(&format!("as root, chown nobody: {name}")), "{said:?}");
    // So is the daemon's.
    let config = group.path("n1.toml");
    fs::write(
        &config,
        format!(
            "name = \"n1\"\ncontrol = \"{name}.sock\"\n\
        [fabric]\nidentity = \"{name}\"\n[[port]]\nname = \"p1\"\n"
        ),
    )
    .unwrap();
    fs::set_permissions(&group.0, fs::Permissions::from_mode(0o777)).unwrap();
    let said = show(&["node", "run", "--config", config.to_str().unwrap()]).expect(2);
    assert!(said.err.contains(&format!("as root, chown nobody: {name}")), "{said:?}");

    chown(&file, Some(nobody), None).unwrap();
    show(&["identity", "show", name]).expect(0);
    fs::set_permissions(&group.0, fs::Permissions::from_mode(0o700)).unwrap();
    let said = show(&["identity", "show", name]).expect(2);
    let directory = group.0.display();
    assert!(said.err.contains(&format!("chmod +x {directory}")), "{said:?}");
}
