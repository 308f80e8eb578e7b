//! What a lab with a controller needs besides nodes: identities, the controller's daemon, and the
//! wait until the fabric has formed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use plexus_config::PortUse;
use plexus_control::identity::{Authority, Role};
use plexus_io::secret::{random, write_secret};
use plexus_topo::{CONTROLLER_PORT, Device, End};
use serde_json::{Value, json};

use crate::daemon::{Daemon, Kind, POLL, START_LIMIT};
use crate::error::{Doing, Error};
use crate::nodes::Node;
use crate::plan::{Plan, identity_file};
use crate::world::World;

/// Creates a group for this lab alone, and an identity for each of its nodes and controllers. The
/// authority's key is not kept.
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

/// Waits until every node has a path to the controller and the right role at each of its ports. A
/// port whose neighbour is slow to authenticate counts as a host's at first.
///
/// # Errors
/// Names the node that does not get that far, with the end of its log.
pub(crate) fn wait_until_joined(plan: &Plan, nodes: &mut [Node]) -> Result<(), Error> {
    let limit = Instant::now() + START_LIMIT;
    for (index, node) in nodes.iter_mut().enumerate() {
        let Some(daemon) = node.daemon() else { continue };
        let roles = roles(plan, index);
        loop {
            let state = daemon.state();
            if state != "running" {
                return Err(daemon.failed(&state));
            }
            let missing = missing(&daemon.ask(&json!({"show": "links"}))?, &roles);
            let Some(missing) = missing else { break };
            if Instant::now() > limit {
                return Err(daemon.failed(&missing));
            }
            std::thread::sleep(POLL);
        }
    }
    Ok(())
}

/// The expected roles of a node's ports, by port name. Behind an ordinary switch either a host or a
/// conflict is possible (`None`).
fn roles(plan: &Plan, node: usize) -> BTreeMap<&str, Option<&'static str>> {
    let topology = &plan.topology;
    let mut roles = BTreeMap::new();
    for (_, _, [a, b]) in topology.cables() {
        for (near, far) in [(a, b), (b, a)] {
            if near.device() == Device::Node(node) && is_in_fabric(plan, node, near) {
                let role = match far.device() {
                    Device::Node(_) => Some("fabric"),
                    Device::Host(_) => Some("host"),
                    Device::Bridge(_) => None,
                };
                roles.insert(plan.device(near).0, role);
            }
        }
    }
    if plan.controller_files.iter().any(|(at, _)| *at == node) {
        roles.insert(CONTROLLER_PORT, Some("controller"));
    }
    roles
}

/// Whether a port of a node is the fabric's: neither an IP interface nor one of its own switch.
fn is_in_fabric(plan: &Plan, node: usize, end: End) -> bool {
    let (of_node, End::Port { port, .. }) = (&plan.topology.nodes[node], end) else { return false };
    of_node.ports[port].role != PortUse::Switch && !of_node.routes_at(port)
}

/// What a node still lacks according to `{"controller": {"path"}, "ports": [{"port", "role"}]}`.
fn missing(links: &Value, roles: &BTreeMap<&str, Option<&str>>) -> Option<String> {
    if links["controller"]["path"].is_null() {
        return Some("has no way to the controller".into());
    }
    let ports = links["ports"].as_array().map_or(&[][..], Vec::as_slice);
    roles.iter().find_map(|(name, role)| {
        let found = ports.iter().find(|p| p["port"] == *name).and_then(|p| p["role"].as_str());
        let found = found.unwrap_or("unknown");
        match role {
            Some(role) if *role != found => {
                Some(format!("its port {name} should be a {role} port, and is {found}"))
            }
            None if matches!(found, "unknown" | "down") => {
                Some(format!("its port {name} is {found}"))
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_joined_once_it_knows_all_its_ports_and_the_way() {
        let links = |path: Value, role| {
            let ports = json!([{"port": "a", "role": "fabric"}, {"port": "b", "role": role}]);
            let roles = BTreeMap::from([("a", Some("fabric")), ("b", Some("fabric"))]);
            missing(&json!({"controller": {"path": path, "epoch": 1}, "ports": ports}), &roles)
        };
        assert!(links(Value::Null, "fabric").unwrap().contains("no way to the controller"));
        let early = links(json!([0, 255]), "host").unwrap();
        assert!(early.contains("port b should be a fabric port, and is host"), "{early}");
        assert_eq!(links(json!([0, 255]), "fabric"), None);
    }
}
