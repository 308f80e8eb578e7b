//! The first box of a group: the authority, a controller and a node.

use std::path::{Path, PathBuf};

use plexus_config::document::Lines;
use plexus_config::name::check_name;
use plexus_config::{ControllerFile, NodeFile};
use plexus_control::identity::Role;
use plexus_daemon::ledger::{self, Entry, Ledger};

use crate::folder::{AUTHORITY, Folder};
use crate::identity::{new_authority, new_identity};
use crate::port::node_text;

/// The device that a node makes for the controller on its box.
pub const CONTROLLER_DEVICE: &str = "ctl0";
/// Numbers of the first two identities.
const CONTROLLER: u64 = 1;
const NODE: u64 = 2;

/// The node and the controller that the first box becomes.
#[derive(Clone, Debug)]
pub struct First {
    /// The folder of its files.
    pub folder: PathBuf,
    /// The node's name.
    pub node: String,
    /// The controller's name.
    pub controller: String,
    /// The devices that become ports.
    pub devices: Vec<String>,
}

/// Writes the files of the first box; returns them in the order in which they were written.
///
/// # Errors
/// In words, when a file is there already or cannot be written. Then none is left.
pub fn create(first: &First) -> Result<Vec<PathBuf>, String> {
    let First { node, controller, devices, .. } = first;
    check_name("node", node).map_err(|e| format!("{}: {}", e.message, e.help))?;
    check_name("controller", controller).map_err(|e| format!("{}: {}", e.message, e.help))?;
    if node == controller {
        return Err(format!("node and controller cannot both be called {node}"));
    }
    let mut folder = Folder::open(&first.folder)?;
    let names = files_of(node).into_iter().chain(files_of(controller));
    let ledger = ledger_name();
    let all: Vec<String> = names.chain([AUTHORITY.to_string(), ledger.clone()]).collect();
    folder.check_free(all.iter().map(String::as_str))?;

    let authority = new_authority()?;
    let key = folder.write_secret(AUTHORITY, &authority.to_toml())?;
    folder.made(folder.file(&ledger));
    let mut ledger = Ledger::open(&key, &authority)?;
    let mut written = vec![key];
    for (number, name, role) in
        [(CONTROLLER, controller, Role::Controller), (NODE, node, Role::Node)]
    {
        let identity = new_identity(&authority, number, name, role)?;
        ledger.enter(Entry::of(&identity))?;
        let file = identity_name(name);
        written.push(folder.write_identity(&file, &identity.to_toml())?);
    }
    let text = controller_text(controller, &folder.file(&identity_name(controller)));
    ControllerFile::parse(controller, &text).map_err(|e| e.to_string())?;
    written.push(folder.write(&config_name(controller), &text)?);
    let identity = folder.file(&identity_name(node));
    let text = node_text(node, &identity, Some(CONTROLLER_DEVICE), devices);
    NodeFile::parse(node, &text).map_err(|e| e.to_string())?;
    written.push(folder.write(&config_name(node), &text)?);
    folder.done();
    Ok(written)
}

/// The name of a node that is called as this machine is.
///
/// # Errors
/// In words, when no node can be called so.
pub fn machine_name() -> Result<String, String> {
    let machine = rustix::system::uname();
    let name = machine.nodename().to_string_lossy();
    let name = name.split('.').next().unwrap_or_default().to_string();
    check_name("node", &name)
        .map_err(|e| format!("{}: give the node another one with --name", e.message))?;
    Ok(name)
}

fn controller_text(name: &str, identity: &Path) -> String {
    let mut lines = Lines::default();
    lines.heading(
        "# The controller of a group. Edit it as you like: `plexus config check` finds mistakes,\n\
         # and examples/controller.toml of the sources explains networks, DHCP, tenants and rules.",
    );
    lines.text("name", name);
    lines.value("identity", &identity.to_path_buf());
    lines.text("device", CONTROLLER_DEVICE);
    lines.finish()
}

/// The names of a daemon's files.
pub(crate) fn files_of(name: &str) -> [String; 2] {
    [identity_name(name), config_name(name)]
}

pub(crate) fn identity_name(name: &str) -> String {
    format!("{name}.identity")
}

pub(crate) fn config_name(name: &str) -> String {
    format!("{name}.toml")
}

fn ledger_name() -> String {
    ledger::path_of(Path::new(AUTHORITY)).display().to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn first(folder: &Path) -> First {
        First {
            folder: folder.into(),
            node: "n1".into(),
            controller: "c1".into(),
            devices: vec!["eth1".into(), "eth2.7".into()],
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|e| e.file_name().display().to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_files_fit_each_other_and_are_not_written_over() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("etc");
        create(&first(&folder)).unwrap();
        let all = ["c1.identity", "c1.toml", "group.key", "group.key.ledger", "n1.identity"];
        assert_eq!(names(&folder), [&all[..], &["n1.toml"]].concat());
        let node = NodeFile::read(&folder.join("n1.toml")).unwrap();
        let ports: Vec<_> = node.ports.iter().map(|p| (&p.name[..], &p.device[..])).collect();
        assert_eq!(ports, [("eth1", "eth1"), ("p2", "eth2.7")]);
        let fabric = node.fabric.unwrap();
        let controller = ControllerFile::read(&folder.join("c1.toml")).unwrap();
        assert_eq!(fabric.controller.as_ref(), Some(&controller.device));
        for (file, role) in [(fabric.identity, Role::Node), (controller.identity, Role::Controller)]
        {
            assert!(file.is_absolute() && plexus_daemon::identity::read(&file, role).is_ok());
        }

        let before = fs::read(folder.join("n1.identity")).unwrap();
        let told = create(&first(&folder)).unwrap_err();
        assert!(told.contains("n1.identity is there already"), "{told}");
        assert_eq!(fs::read(folder.join("n1.identity")).unwrap(), before);
    }

    #[test]
    fn a_failure_leaves_nothing_behind() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("etc");
        for (node, devices) in [("n 1", vec!["eth1"]), ("c1", vec![]), ("n1", vec!["a", "a"])] {
            let devices = devices.into_iter().map(str::to_string).collect();
            let bad = First { node: node.into(), devices, ..first(&folder) };
            assert!(create(&bad).is_err(), "{node}");
            assert!(!folder.exists() || names(&folder).is_empty(), "{:?}", names(&folder));
        }
    }
}
