//! `plexus topo import` and `export` with labs of containers.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{Desk, shipped};

#[test]
fn a_lab_of_containers_is_written_with_the_files_that_it_binds() {
    let desk = Desk::new("containers");
    let folder = desk.dir.join("lab");
    let out = folder.to_str().unwrap();
    let ring = shipped("ring");
    let export = ["topo", "export", &ring, "--format", "containerlab", "--out", out];
    let said = desk.plexus(&export).expect(0);
    assert!(said.out.is_empty() && said.err.contains("8 files"), "{said:?}");
    let lab = folder.join("ring.clab.yml");
    let text = fs::read_to_string(&lab).unwrap();
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("- \""));
    let binds: Vec<_> = lines.filter_map(|line| line.split_once(":/etc/plexus/")).collect();
    // Four boxes with a file and an identity each.
    assert_eq!(binds.len(), 8, "{text}");
    for (file, _) in binds {
        let path = folder.join(file);
        let mode =
            fs::metadata(&path).unwrap_or_else(|e| panic!("{file}: {e}")).permissions().mode();
        if file.ends_with(".identity") {
            assert_eq!(mode & 0o777, 0o600, "{file}");
            desk.plexus(&["identity", "show", path.to_str().unwrap()]).expect(0);
        }
    }
    // Nothing is written over.
    let said = desk.plexus(&export).expect(2);
    assert!(said.err.contains("ring.clab.yml") && said.err.contains("move it away"), "{said:?}");
    // Back again, with what the way there has cost.
    let said = desk.plexus(&["topo", "import", lab.to_str().unwrap()]).expect(0);
    assert!(said.err.contains("controller c1 is left out"), "{said:?}");
    let back = desk.file("back.toml", &said.out);
    let shown = desk.json(&["topo", "show", &back], 0).to_string();
    assert!(said.out.contains("name = \"h6\"") && shown.contains("n3"), "{shown}");
}

#[test]
fn a_lab_of_containers_is_printed_without_a_folder() {
    let desk = Desk::new("containers-printed");
    let switch = shipped("demo");
    let said = desk.plexus(&["topo", "export", &switch, "--format", "containerlab"]).expect(0);
    assert!(said.out.contains("kind: linux") && said.err.contains("left out"), "{said:?}");
    for (arguments, told) in [
        (&["--format", "dot", "--out", "x"][..], "--out belongs to --format containerlab"),
        (&["--format", "mininet"], "files of Mininet are only read"),
    ] {
        let said = desk.plexus(&[&["topo", "export", &switch], arguments].concat()).expect(2);
        assert!(said.err.contains(told), "{said:?}");
    }
}
