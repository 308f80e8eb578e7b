//! The common file: settings that the controllers of a group hand out. It has sections of a node's
//! file, for all nodes (`[all]`) and for one (`[nodes.NAME]`), and only keys that a node can change
//! while it runs and that name nothing of its box: no device, no path, no secret. Besides it has
//! the revoked keys and the drained nodes that all controllers of the group are to know.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::{Table, Value};

use crate::controller::{read_drained, read_revoked};
use crate::controller_settings::Revoked;
use crate::document::{Section, read_document, read_text, top_level_keys};
use crate::error::{FileError, quote};
use crate::name::check_name;
use crate::settings::{LaneChoice, PortSettings, SwitchSettings};

/// Largest common file, in bytes: etcd takes 1.5 MiB at once, and the text may double in JSON.
pub const COMMON_MAX: usize = 1 << 18;
/// Highest number of a version: scripts read it as a number of JSON.
pub const COMMON_VERSION_MAX: u64 = 1 << 52;

/// Keys of a node's file that belong there, by section.
const OWN: [(&str, &[&str]); 3] = [
    (
        "",
        &[
            "name",
            "control",
            "metrics",
            "workers",
            "frames",
            "backend",
            "fast_table",
            "fast_table_persist",
            "deep_buffer",
            "interface",
            "route",
            "router",
            "named",
            "static_mac",
        ],
    ),
    ("fabric", &["identity", "heartbeat", "native", "record", "kernel", "controller"]),
    ("port", &["device", "backend", "local", "peer", "role", "worker", "faults"]),
];

/// The way out of a file that is too large.
const OWN_FILE: &str = "put settings of one box into its own file";

/// A common file that is right.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommonFile {
    /// Keys that nobody trusts any more, besides those of the controllers' own files.
    pub revoked: Vec<Revoked>,
    /// Nodes that routes avoid, besides those of the controllers' own files.
    pub drained: Vec<String>,
    all: Table,
    nodes: BTreeMap<String, Table>,
}

impl CommonFile {
    /// Reads a common file from disk.
    ///
    /// # Errors
    /// When it cannot be read, or with everything that is wrong in it.
    pub fn read(path: &Path) -> Result<CommonFile, FileError> {
        CommonFile::parse(&path.display().to_string(), &read_text(path)?)
    }

    /// Reads a common file from its text; `file` is what messages call it.
    ///
    /// # Errors
    /// With everything that is wrong in it.
    pub fn parse(file: &str, text: &str) -> Result<CommonFile, FileError> {
        if text.len() > COMMON_MAX {
            let message = format!("has {} bytes, and {COMMON_MAX} are the most", text.len());
            return Err(FileError::whole(file, message, OWN_FILE));
        }
        let mut common = read_document(file, text, "a common file", |root| {
            root.section("all", "what all nodes have").iter().for_each(check_part);
            if let Some(nodes) = root.section("nodes", "nodes") {
                for (name, part) in nodes.children("what a node has") {
                    let is_name = check_name("node", name);
                    root.problems().note(part.span(), is_name);
                    check_part(&part);
                }
            }
            let (revoked, drained) = (read_revoked(root), read_drained(root));
            Some(CommonFile { revoked, drained, ..CommonFile::default() })
        })?;
        let mut whole: Table =
            text.parse().map_err(|e| FileError::whole(file, format!("{e}"), ""))?;
        let table = |value: Value| match value {
            Value::Table(table) => table,
            _ => Table::new(),
        };
        common.all = whole.remove("all").map(table).unwrap_or_default();
        let nodes = whole.remove("nodes").map(table).unwrap_or_default();
        common.nodes = nodes.into_iter().map(|(name, node)| (name, table(node))).collect();
        Ok(common)
    }

    /// The nodes that it names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// The part of a node, as sections of its file; empty if there is nothing for it. Settings for
    /// one node count more than those for all.
    pub fn part(&self, node: &str) -> String {
        let mut part = self.all.clone();
        for (key, value) in self.nodes.get(node).into_iter().flatten() {
            match (part.get_mut(key), value) {
                (Some(Value::Table(all)), Value::Table(own)) => all.extend(own.clone()),
                (Some(Value::Array(all)), Value::Array(own)) => {
                    for port in own {
                        match find(all, name_of(port)) {
                            Some(all) => {
                                let own = port.as_table().into_iter().flatten();
                                all.extend(own.map(|(k, v)| (k.clone(), v.clone())));
                            }
                            None => all.push(port.clone()),
                        }
                    }
                }
                _ => drop(part.insert(key.clone(), value.clone())),
            }
        }
        part.to_string()
    }
}

fn name_of(port: &Value) -> &str {
    port.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn find<'a>(ports: &'a mut [Value], name: &str) -> Option<&'a mut Table> {
    let mut ports = ports.iter_mut();
    ports.find(|port| name_of(port) == name).and_then(Value::as_table_mut)
}

/// Checks the settings for one node, or for all.
fn check_part(part: &Section<'_>) {
    refuse_own(part, "");
    SwitchSettings::read_switch(part);
    if let Some(fabric) = part.section("fabric", "the fabric") {
        refuse_own(&fabric, "fabric");
        fabric.choice("lanes", &LaneChoice::NAMES);
    }
    let mut names = BTreeSet::new();
    for port in part.sections("port", "a port") {
        refuse_own(&port, "port");
        PortSettings::read(&port);
        if let Some(name) = port.required_text("name", "\"eth1\"")
            && !names.insert(name.value)
        {
            let message = format!("there are two ports {}", quote(name.value));
            part.problems().add(name.span.clone(), message, "name each port once");
        }
    }
}

/// Refuses keys of a node's file that belong there.
fn refuse_own(section: &Section<'_>, name: &str) {
    let keys = OWN.iter().filter(|(of, _)| *of == name).flat_map(|(_, keys)| *keys);
    for key in keys {
        if let Some(span) = section.span_of(key) {
            let message = format!("{} belongs in the node's own file", quote(key));
            let help = "a common file has [switch], lanes of [fabric], and of each [[port]] its \
                        VLANs, rate, queue, storm limits, mac_limit, learning, trust and priority";
            section.problems().add(span, message, help);
        }
    }
}

/// Whether a text is a common file, and no other file that people write.
pub fn is_common_file(text: &str) -> bool {
    let keys = top_level_keys(text);
    let parts = ["all", "nodes"];
    let has = |key: &String| parts.contains(&key.as_str());
    let may_have =
        |key: &String| has(key) || ["format", "revoked", "drained"].contains(&key.as_str());
    keys.iter().any(has) || (!keys.is_empty() && keys.iter().all(may_have))
}

/// A node's own text with its part of the common file: the text of the whole.
///
/// # Errors
/// With each key that both set, and each port that the node does not have.
pub fn with_common_part(own: &str, part: &str) -> Result<String, String> {
    // The node does not rely on the controller for what may be in it.
    let checked = read_document("the common file", part, "a part of a common file", |root| {
        check_part(root);
        Some(())
    });
    checked.map_err(|e| e.to_string())?;
    let read = |text: &str| text.parse::<Table>().map_err(|e| e.message().to_string());
    let (mut whole, part) = (read(own)?, read(part)?);
    if part.is_empty() {
        return Ok(own.to_string());
    }
    let mut wrong = Vec::new();
    for (section, value) in part {
        let empty = match value {
            Value::Array(_) => Value::Array(Vec::new()),
            _ => Value::Table(Table::new()),
        };
        match (whole.entry(section.clone()).or_insert(empty), value) {
            (Value::Table(own), Value::Table(part)) => add(own, part, &section, &mut wrong),
            (Value::Array(own), Value::Array(part)) => {
                for port in part {
                    let name = name_of(&port).to_string();
                    let here = format!("{section}.{name}");
                    match (find(own, &name), port) {
                        (Some(own), Value::Table(mut port)) => {
                            port.remove("name");
                            add(own, port, &here, &mut wrong);
                        }
                        _ => wrong.push(format!("there is no {section} {name} here")),
                    }
                }
            }
            _ => wrong.push(format!("{section} has another form")),
        }
    }
    if wrong.is_empty() { Ok(whole.to_string()) } else { Err(wrong.join("; ")) }
}

/// Adds keys to a section that has none of them.
fn add(own: &mut Table, part: Table, here: &str, wrong: &mut Vec<String>) {
    for (key, value) in part {
        if own.contains_key(&key) {
            wrong.push(format!("{here}.{key} is in the node's own file too: take it out of one"));
        } else {
            own.insert(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeFile, QueueOrder};

    const FILE: &str = "\
[all]
switch = { ageing = \"60s\" }
fabric.lanes = \"static\"

[[all.port]]
name = \"eth1\"
storm = { broadcast = 100 }
mac_limit = 10

[[nodes.n1.port]]
name = \"eth1\"
mac_limit = 20

[[nodes.n1.port]]
name = \"eth2\"
queue = \"fifo\"

[nodes.n2.switch]
ageing = \"90s\"
";

    const OWN: &str = "name = \"n1\"\n[fabric]\nidentity = \"x\"\n[[port]]\nname = \"eth1\"\n\
                       vlan = 7\n[[port]]\nname = \"eth2\"\n";

    fn whole(own: &str, node: &str) -> Result<NodeFile, String> {
        let part = CommonFile::parse("common", FILE).unwrap().part(node);
        let text = with_common_part(own, &part)?;
        Ok(NodeFile::parse("n", &text).unwrap_or_else(|e| panic!("{e}\n{text}")))
    }

    #[test]
    fn a_node_gets_what_is_said_of_all_and_of_it() {
        let node = whole(OWN, "n1").unwrap();
        assert_eq!(node.switch.ageing.as_secs(), 60);
        assert_eq!(node.fabric.as_ref().unwrap().lanes, LaneChoice::Static);
        let [one, two] = [0, 1].map(|port| node.ports[port].settings.clone());
        assert_eq!((one.storm.broadcast_pps, one.mac_limit), (Some(100), Some(20)));
        assert_eq!(one.vlan, crate::VlanMode::Access(7));
        assert_eq!((two.queue.order, two.mac_limit), (QueueOrder::Fifo, None));
        let other = whole(OWN, "n2").unwrap();
        assert_eq!(other.switch.ageing.as_secs(), 90);
        assert_eq!(other.ports[0].settings.mac_limit, Some(10));
        // Nothing is nothing.
        assert_eq!(CommonFile::parse("c", "").unwrap().part("n1"), "");
        assert_eq!(with_common_part(OWN, ""), Ok(OWN.to_string()));
    }

    #[test]
    fn what_both_set_is_named_and_so_is_a_port_that_is_not_there() {
        let own = OWN.replace("vlan = 7", "mac_limit = 1") + "[switch]\nageing = \"1s\"\n";
        let told = whole(&own, "n1").unwrap_err();
        assert!(told.contains("port.eth1.mac_limit is in the node's own file too"), "{told}");
        assert!(told.contains("switch.ageing is in the node's own file too"), "{told}");
        let told = whole(&OWN.replace("eth2", "eth3"), "n1").unwrap_err();
        assert_eq!(told, "there is no port eth2 here");
    }

    #[test]
    fn a_node_takes_no_key_that_a_common_file_may_not_have() {
        for part in [
            "[[named.secret]]\nfile = \"/etc/known\"\n",
            "named.anchors = []\n",
            "deep_buffer = { size = \"1GiB\" }\n",
            "[[port]]\nname = \"eth1\"\nrole = \"host\"\n",
            "port = [{ name = \"eth1\", peer = \"x\" }]\n",
            "router.x = 1\n",
        ] {
            assert!(with_common_part(OWN, part).is_err(), "{part}");
        }
        assert!(is_common_file(FILE) && is_common_file("[[drained]]\nnode = \"n1\"\n"));
        assert!(!is_common_file(OWN) && !is_common_file(""));
    }

    #[test]
    fn what_belongs_to_the_box_is_refused_with_its_line() {
        for (text, line, told) in [
            ("[all]\nmetrics = \"[::1]:1\"\n", 2, "\"metrics\" belongs in the node's own file"),
            ("[all.fabric]\nidentity = \"x\"\n", 2, "\"identity\" belongs in the node's own file"),
            ("[[nodes.n1.port]]\nname = \"a\"\ndevice = \"b\"\n", 3, "\"device\" belongs in"),
            ("[[nodes.n1.port]]\nvlan = 1\n", 1, "a port lacks \"name\""),
            ("[all.port]\nname = \"a\"\n", 1, "\"port\" is a list of sections"),
            ("[all.switch]\nagein = \"1s\"\n", 2, "\"agein\" is not a setting of switch"),
            ("[all.switch]\nageing = \"0s\"\n", 2, "out of range"),
            ("[nodes]\nn1 = 3\n", 2, "is a section"),
            ("[nodes.\"a b\"]\n", 1, "a b"),
            ("[node.n1]\n", 1, "\"node\" is not a setting of a common file"),
            ("format = 2\n", 1, "a newer plexus wrote it"),
            ("[[all.port]]\nname = \"a\"\n[[all.port]]\nname = \"a\"\n", 4, "two ports \"a\""),
        ] {
            let error = CommonFile::parse("common.toml", text).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
            assert!(error.starts_with(&format!("common.toml:{line}:")), "{text}: {error}");
        }
    }
}
