//! Tells which kind of file a text is, of those that people write, and what is wrong with it:
//! `plexus config check`, and `plexus config set` before it writes.

use std::path::Path;

use plexus_analysis::facts::summary;
use plexus_config::document::{read_text, top_level_keys};
use plexus_config::{CommonFile, ControllerFile, FileError, NodeFile, is_common_file};
use plexus_report::plural;
use plexus_topo::Topology;
use plexus_wire::fabric::LINK_MTU_MIN;

/// The kind of a file, with a summary.
///
/// # Errors
/// With everything that is wrong in it, or when it cannot be read.
pub fn check(path: &Path) -> Result<String, FileError> {
    check_text(&path.display().to_string(), &read_text(path)?)
}

/// The same of a text; `file` is what messages call it.
///
/// # Errors
/// With everything that is wrong in it.
pub fn check_text(file: &str, text: &str) -> Result<String, FileError> {
    if is_topology(text) {
        let topology = Topology::parse(file, text)?;
        return Ok(format!("a topology: {}", summary(&topology)));
    }
    if is_controller(text) {
        let controller = ControllerFile::parse(file, text)?;
        let subnets = plural(controller.settings.subnets.len() as u64, "subnet");
        return Ok(format!("a controller: {}, {subnets}", controller.name));
    }
    if is_common_file(text) {
        let nodes = CommonFile::parse(file, text)?.names().count();
        let nodes = plural(nodes as u64, "node");
        return Ok(format!("a common file of a group, with parts for {nodes}"));
    }
    let node = NodeFile::parse(file, text)?;
    let ports = plural(node.ports.len() as u64, "port");
    let named = if node.named.is_some() { "; forwards named data" } else { "" };
    let fabric = match node.fabric {
        Some(_) => format!(
            "; cables to other nodes need an MTU of {LINK_MTU_MIN} bytes, to which the node raises \
             it if it has CAP_NET_ADMIN"
        ),
        None => String::new(),
    };
    Ok(format!("a node: {}, {ports}{named}{fabric}", node.name))
}

/// A topology file has nodes, hosts, bridges or links; a node file has neither.
fn is_topology(text: &str) -> bool {
    top_level_keys(text)
        .iter()
        .any(|key| ["node", "host", "bridge", "link", "traffic", "assert"].contains(&key.as_str()))
}

/// A controller file has keys at its top that a node file has not.
fn is_controller(text: &str) -> bool {
    const OWN: &str = "allow balance class deny device drained etcd forwarder group group_mac \
                       heartbeat identity limits multicast partition policy reservation revoked \
                       routes state strangers_may_talk subnet web";
    let own: Vec<&str> = OWN.split(' ').collect();
    top_level_keys(text).iter().any(|key| own.contains(&key.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_the_two_kinds_of_file_apart() {
        assert!(is_topology("name = \"a\"\n[[node]]\nname = \"s1\"\n"));
        assert!(is_topology("[[host]]\nname = \"h1\"\n"));
        assert!(!is_topology("name = \"a\"\n[[port]]\nname = \"p1\"\n"));
        assert!(!is_topology(""));
        assert!(is_controller("name = \"c1\"\nidentity = \"c1.identity\"\n"));
        assert!(is_controller("name = \"c1\"\n[web]\n[[group]]\nname = \"a\"\n"));
        assert!(!is_controller("name = \"n1\"\n[fabric]\nidentity = \"n1.identity\"\n"));
        // A broken line does not hide what the file is.
        assert!(is_topology("name = s1\n[[link]]\nends = [\"a\", \"b\"]\n"));
    }

    #[test]
    fn checks_what_ships() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let found = |file: &str| check(&root.join(file)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(found("examples/switch.toml"), "a node: sw1, 4 ports");
        let named = "a node: ndn1, 0 ports; forwards named data";
        assert_eq!(found("examples/ndn.toml"), named);
        let fabric = found("examples/fabric-node.toml");
        assert!(fabric.starts_with("a node: n1, 4 ports; ") && fabric.contains("MTU of 1624"));
        assert_eq!(found("examples/controller.toml"), "a controller: c1, 3 subnets");
        let common = "a common file of a group, with parts for 0 nodes";
        assert_eq!(found("examples/common.toml"), common);
        assert!(found("labs/switch.toml").starts_with("a topology: 1 node, 4 hosts, 4 links"));
        assert!(check(&root.join("no-such-file.toml")).is_err());
    }
}
