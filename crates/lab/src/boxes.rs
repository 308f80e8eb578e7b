//! The files of a topology's daemons for boxes of their own, such as containers: what a lab gives
//! its nodes and controllers, with the paths of an installation.

use std::path::{Path, PathBuf};

use plexus_config::{ControllerFile, NamedSettings, NodeFile};
use plexus_topo::Topology;

use crate::error::Error;
use crate::fabric::identities;
use crate::plan::{NodeProgram, Plan};

/// A file that a box needs.
pub struct BoxFile {
    /// Its name: `NAME.toml` or `NAME.identity`.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Whether only the daemon may read it.
    pub is_secret: bool,
}

/// The file of each node and of the first controller, and in a fabric their identities. They form
/// a new group, whose authority is not kept. Several controllers would need etcd. Traffic and
/// events are not part of it.
///
/// # Errors
/// When a topology requires something that no daemon can do.
pub fn box_files(topology: &Topology) -> Result<Vec<BoxFile>, Error> {
    let mut still = topology.clone();
    still.controllers.truncate(1);
    (still.traffic, still.events, still.assertions) = Default::default();
    still.arp = None;
    let mut plan = Plan::new(still, NodeProgram::Plexus, false, Path::new("/etc/plexus"))?;
    let usual_sockets = NamedSettings::default().unix;
    for (file, node) in plan.node_files.iter_mut().zip(&topology.nodes) {
        file.control = NodeFile::new(&file.name).control;
        if let Some(fabric) = &mut file.fabric {
            fabric.identity = identity(&file.name);
        }
        if let (Some(named), Some(said)) = (&mut file.named, &node.named)
            && said.unix == usual_sockets
        {
            named.unix = usual_sockets.clone();
        }
    }
    for (_, file) in &mut plan.controller_files {
        let usual = ControllerFile::new(&file.name);
        file.identity = identity(&file.name);
        (file.state, file.control) = (usual.state, usual.control);
    }
    let plain =
        |name: &str, text: String| BoxFile { name: format!("{name}.toml"), text, is_secret: false };
    let nodes = plan.node_files.iter().map(|file| plain(&file.name, file.to_toml()));
    let controllers = plan.controller_files.iter();
    let controllers = controllers.map(|(_, file)| plain(&file.name, file.to_toml()));
    let secrets = identities(&plan, None)?.into_iter().map(|(name, text)| BoxFile {
        name: format!("{name}.identity"),
        text,
        is_secret: true,
    });
    Ok(nodes.chain(controllers).chain(secrets).collect())
}

fn identity(name: &str) -> PathBuf {
    Path::new("/etc/plexus").join(format!("{name}.identity"))
}

#[cfg(test)]
mod tests {
    use plexus_control::identity::Identity;

    use super::*;

    #[test]
    fn boxes_of_a_fabric_have_files_and_identities_where_their_files_say() {
        let text = include_str!("../../../labs/ring.toml");
        let files = box_files(&Topology::parse("ring.toml", text).unwrap()).unwrap();
        let names: Vec<_> = files.iter().map(|f| (f.name.as_str(), f.is_secret)).collect();
        let plain = ["n1.toml", "n2.toml", "n3.toml", "c1.toml"].map(|name| (name, false));
        let ids = ["n1", "n2", "n3", "c1"].map(|name| format!("{name}.identity"));
        assert_eq!(names[..4], plain);
        assert_eq!(names[4..], ids.each_ref().map(|name| (name.as_str(), true)));
        let node = NodeFile::parse("n1.toml", &files[0].text).unwrap();
        assert_eq!(node.fabric.unwrap().identity, Path::new("/etc/plexus/n1.identity"));
        assert_eq!(node.control, Path::new("/run/plexus/n1.sock"));
        // Two hosts, two nodes, the controller.
        assert_eq!(node.ports.len(), 5);
        let controller = ControllerFile::parse("c1.toml", &files[3].text).unwrap();
        assert_eq!(controller.identity, Path::new("/etc/plexus/c1.identity"));
        assert_eq!(controller.state, Path::new("/var/lib/plexus/c1.redb"));
        assert_eq!(controller.settings.reservations.len(), 6);
        assert!(files[4..].iter().all(|f| Identity::from_toml(&f.name, &f.text).is_ok()));
    }

    #[test]
    fn every_lab_that_is_shipped_has_files() {
        let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
        for file in std::fs::read_dir(labs).unwrap() {
            let file = file.unwrap().path();
            if file.extension().is_some_and(|e| e == "toml") {
                let topology = Topology::read(&file).unwrap();
                let files = box_files(&topology).unwrap_or_else(|e| panic!("{file:?}: {e}"));
                assert!(files.len() >= topology.nodes.len());
            }
        }
    }
}
