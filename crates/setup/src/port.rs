//! Ports in a node's file: the lines of each, and one more port in a file that is there.

use std::path::{Path, PathBuf};

use plexus_config::document::Lines;
use plexus_config::name::check_port_name;
use plexus_config::{ControllerFile, NodeFile};

use crate::folder::update;

/// The lines of a port on a device. A device whose name no port can have gets the name `pN`.
fn port_lines(device: &str, number: usize) -> String {
    let mut lines = Lines::default();
    lines.heading("[[port]]");
    if check_port_name(device).is_ok() {
        lines.text("name", device);
    } else {
        lines.text("name", &format!("p{number}"));
        lines.text("device", device);
    }
    lines.finish()
}

/// The text of a node's file. `controller`: the device of the controller, if it runs on this box.
pub(crate) fn node_text(
    name: &str,
    identity: &Path,
    controller: Option<&str>,
    devices: &[String],
) -> String {
    let mut lines = Lines::default();
    lines.heading(
        "# A node of a group. Edit it as you like: `plexus config check` finds mistakes, and\n\
         # examples/fabric-node.toml of the sources explains what else it can have.",
    );
    lines.text("name", name);
    lines.heading("[fabric]");
    lines.value("identity", &identity.to_path_buf());
    lines.given("controller", controller.map(str::to_string));
    let mut text = lines.finish();
    for (i, device) in devices.iter().enumerate() {
        text.push('\n');
        text.push_str(&port_lines(device, i + 1));
    }
    text
}

/// Adds ports to a node's file; returns the node's name.
///
/// # Errors
/// In words, when a port has the device already, or the file would not be right any more.
pub fn add(file: &Path, devices: &[String]) -> Result<String, String> {
    update(file, |text| with_ports(file, text, devices))
}

/// The text with further ports, and the node's name.
fn with_ports(file: &Path, text: &str, devices: &[String]) -> Result<(String, String), String> {
    let shown = file.display().to_string();
    let node = NodeFile::parse(&shown, text).map_err(|e| e.to_string())?;
    // The last line may lack its end.
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let (mut more, mut number) = (end.to_string(), node.ports.len() + 1);
    for device in devices {
        if let Some(port) = node.ports.iter().find(|port| port.device == *device) {
            return Err(format!("{shown}: port {} has device {device} already", port.name));
        }
        while node.ports.iter().any(|port| port.name == format!("p{number}")) {
            number += 1;
        }
        more.push('\n');
        more.push_str(&port_lines(device, number));
        number += 1;
    }
    let whole = format!("{text}{more}");
    NodeFile::parse(&shown, &whole).map_err(|e| e.to_string())?;
    Ok((whole, node.name))
}

/// The devices of a node's ports.
///
/// # Errors
/// In words, when it is no node's file.
pub fn devices(file: &Path) -> Result<Vec<String>, String> {
    let node = NodeFile::read(file).map_err(|e| e.to_string())?;
    Ok(node.ports.into_iter().map(|port| port.device).collect())
}

/// The node's file in a folder that has one.
///
/// # Errors
/// In words, when there is none, or several.
pub fn node_file(folder: &Path) -> Result<PathBuf, String> {
    let node = |path: &Path| NodeFile::read(path).is_ok_and(|node| node.fabric.is_some());
    the_only_one(folder, "node of a fabric", node)
}

/// The controller's file in a folder that has one.
///
/// # Errors
/// In words, when there is none, or several.
pub fn controller_file(folder: &Path) -> Result<PathBuf, String> {
    the_only_one(folder, "controller", |path| ControllerFile::read(path).is_ok())
}

fn the_only_one(
    folder: &Path,
    what: &str,
    is_one: impl Fn(&Path) -> bool,
) -> Result<PathBuf, String> {
    let place = folder.display();
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{place}: {e}"))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let is_toml = |path: &PathBuf| path.extension().is_some_and(|e| e == "toml");
    let mut found: Vec<PathBuf> = paths.filter(is_toml).filter(|path| is_one(path)).collect();
    found.sort();
    match &found[..] {
        [one] => Ok(one.clone()),
        [] => Err(format!(
            "{place} has no file of a {what}: name it with --config, or the folder with --dir"
        )),
        many => {
            let names: Vec<String> = many.iter().map(|path| path.display().to_string()).collect();
            Err(format!("{place} has several: name one with --config ({})", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn ports_that_are_added_at_once_all_have_a_name_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("n1.toml");
        fs::write(&file, "name = \"n1\"\n[[port]]\nname = \"p1\"\ndevice = \"e1\"\n").unwrap();
        std::thread::scope(|scope| {
            for n in 2..10 {
                let file = &file;
                scope.spawn(move || add(file, &[format!("e{n}")]).unwrap());
            }
        });
        let node = NodeFile::read(&file).unwrap();
        assert_eq!(node.ports.len(), 9);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no lock stays");
    }

    #[test]
    fn a_port_is_added_and_all_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("n1.toml");
        let before = "name = \"n1\" # mine\n\n[[port]]\nname = \"p1\"\ndevice = \"e.1\"";
        fs::write(&file, before).unwrap();
        let devices = ["eth1", "eth2.100"].map(str::to_string);
        assert_eq!(add(&file, &devices).unwrap(), "n1");
        let after = fs::read_to_string(&file).unwrap();
        assert!(after.starts_with(before), "{after}");
        let node = NodeFile::read(&file).unwrap();
        let ports: Vec<_> = node.ports.iter().map(|p| (&p.name[..], &p.device[..])).collect();
        assert_eq!(ports, [("p1", "e.1"), ("eth1", "eth1"), ("p3", "eth2.100")]);
        // A second time, or in a file that is wrong, nothing is written.
        let told = add(&file, &devices).unwrap_err();
        assert!(told.contains("port eth1 has device eth1 already"), "{told}");
        fs::write(&file, format!("{before}\nrolle = 1\n")).unwrap();
        assert!(add(&file, &["eth3".into()]).unwrap_err().contains("rolle"));
    }

    #[test]
    fn the_file_of_a_folder_is_found_if_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert!(node_file(folder).unwrap_err().contains("no file of a node"));
        let fabric = "[fabric]\nidentity = \"x\"\n";
        fs::write(folder.join("c1.toml"), "name = \"c1\"\n").unwrap();
        fs::write(folder.join("n1.toml"), format!("name = \"n1\"\n{fabric}")).unwrap();
        assert_eq!(node_file(folder).unwrap(), folder.join("n1.toml"));
        assert_eq!(controller_file(folder).unwrap(), folder.join("c1.toml"));
        fs::write(folder.join("n2.toml"), format!("name = \"n2\"\n{fabric}")).unwrap();
        assert!(node_file(folder).unwrap_err().contains("several"));
    }
}
