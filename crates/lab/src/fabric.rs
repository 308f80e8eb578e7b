//! What a lab with a controller needs besides nodes: identities, the controller's daemon, and
//! patience until all have found each other.

use std::path::Path;
use std::time::Instant;

use plexus_control::identity::{Authority, Role};
use plexus_io::secret::{random, write_secret};
use plexus_topo::Device;
use serde_json::{Value, json};

use crate::daemon::{Daemon, Kind, POLL, START_LIMIT};
use crate::error::{Doing, Error};
use crate::nodes::Node;
use crate::plan::{Plan, identity_file};
use crate::world::World;

/// Makes a group for this lab alone, and an identity for each node and controller of it. Nobody
/// keeps the authority.
pub(crate) fn issue_identities(plan: &Plan, directory: &Path) -> Result<(), Error> {
    if !plan.is_fabric() {
        return Ok(());
    }
    let doing = || "asking the system for randomness".to_string();
    let authority = Authority::new(random().doing(doing)?, &random().doing(doing)?);
    let nodes = plan.node_files.iter().map(|f| (Role::Node, &f.name));
    let controllers = plan.controller_files.iter().map(|(_, f)| (Role::Controller, &f.name));
    for (number, (role, name)) in (1..).zip(nodes.chain(controllers)) {
        let identity = authority
            .issue_identity(number, name, role, &random().doing(doing)?)
            .map_err(|e| Error::Unsupported(format!("{name}: {e}")))?;
        let path = identity_file(directory, name);
        write_secret(&path, &identity.to_toml()).doing(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Starts the controllers of the plan beside their nodes; they are not ready yet.
pub(crate) fn start_controllers(
    plan: &Plan,
    world: &World,
    directory: &Path,
) -> Result<Vec<Daemon>, Error> {
    let start = |(node, file): &(usize, plexus_config::ControllerFile)| {
        let place = world.place(Device::Node(*node));
        let who = (Kind::Controller, &file.name[..]);
        Daemon::start(who, &file.control, &file.to_toml(), directory, place)
    };
    plan.controller_files.iter().map(start).collect()
}

/// Waits until every node has a way to the controller and knows what is at each of its ports.
///
/// # Errors
/// Names the node that does not get so far, with the end of its log.
pub(crate) fn wait_until_joined(nodes: &mut [Node]) -> Result<(), Error> {
    let limit = Instant::now() + START_LIMIT;
    for daemon in nodes.iter_mut().filter_map(Node::daemon) {
        loop {
            let state = daemon.state();
            if state != "running" {
                return Err(daemon.failed(&state));
            }
            let missing = missing(&daemon.ask(&json!({"show": "links"}))?);
            let Some(missing) = missing else { break };
            if Instant::now() > limit {
                return Err(daemon.failed(&missing));
            }
            std::thread::sleep(POLL);
        }
    }
    Ok(())
}

/// What a node still lacks by `{"controller": {"path"}, "ports": [{"port", "role"}]}`.
fn missing(links: &Value) -> Option<String> {
    if links["controller"]["path"].is_null() {
        return Some("has no way to the controller".into());
    }
    let ports = links["ports"].as_array().into_iter().flatten();
    let unknown = ports.filter(|p| p["role"] == "unknown");
    let unknown: Vec<&str> = unknown.filter_map(|p| p["port"].as_str()).collect();
    let names = unknown.join(", ");
    (!unknown.is_empty()).then(|| format!("has not found out what is at its ports {names}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_joined_once_it_knows_all_its_ports_and_the_way() {
        let links = |path: Value, role| {
            let ports = json!([{"port": "a", "role": "fabric"}, {"port": "b", "role": role}]);
            missing(&json!({"controller": {"path": path, "epoch": 1}, "ports": ports}))
        };
        assert!(links(Value::Null, "host").unwrap().contains("no way to the controller"));
        assert!(links(json!([0, 255]), "unknown").unwrap().ends_with("ports b"));
        assert_eq!(links(json!([0, 255]), "host"), None);
    }
}
