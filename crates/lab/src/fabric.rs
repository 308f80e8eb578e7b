//! What a lab with a controller needs besides nodes: identities, the controller's daemon, and the
//! wait until the fabric has formed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use plexus_api::answer::fabric::{ControllerRole, Controllers, GroupRouter, Links, RouterNode};
use plexus_api::{Request, Topic, word};
use plexus_config::PortUse;
use plexus_config::hex;
use plexus_control::identity::{Authority, Role};
use plexus_control::session::Random;
use plexus_io::secret::{random, write_secret};
use plexus_topo::{CONTROLLER_PORT, Device, End, IN_BAND_PORTS};
use plexus_wire::fabric::message::PortRole;

use crate::daemon::{Daemon, Kind, POLL, START_LIMIT};
use crate::error::{Doing, Error};
use crate::nodes::RunningNode;
use crate::plan::{Plan, identity_file};
use crate::world::World;

/// How long the nodes' tables may take: the Internet's has a million routes.
const TABLE_LIMIT: Duration = Duration::from_secs(120);

/// Creates a group for this plan alone, and the text of an identity for each of its nodes and
/// controllers, with its name; none without a controller. The authority's key is not kept. The same
/// `secret`, which several machines have, makes the same group.
pub(crate) fn identities(
    plan: &Plan,
    secret: Option<&str>,
) -> Result<Vec<(String, String)>, Error> {
    if !plan.is_fabric() {
        return Ok(Vec::new());
    }
    let doing = || "asking the system for randomness".to_string();
    let mut own = Random::from_seed(match secret {
        Some(secret) => hex::decode::<32>(secret).map_err(|e| Error::Unsupported(e.message))?,
        None => random().doing(doing)?,
    });
    let authority = Authority::new(own.bytes(), &own.bytes());
    let nodes = plan.node_files.iter().map(|f| (Role::Node, &f.name));
    let controllers = plan.controller_files.iter().map(|(_, f)| (Role::Controller, &f.name));
    let issue = |(number, (role, name)): (u64, (Role, &String))| {
        let identity = authority
            .issue_identity(number, name, role, &own.bytes())
            .map_err(|e| Error::Unsupported(format!("{name}: {e}")))?;
        Ok((name.clone(), identity.to_toml()))
    };
    (1..).zip(nodes.chain(controllers)).map(issue).collect()
}

/// Writes the identities of this lab's nodes and controllers.
pub(crate) fn issue_identities(
    plan: &Plan,
    directory: &Path,
    secret: Option<&str>,
) -> Result<(), Error> {
    for (name, text) in identities(plan, secret)? {
        let path = identity_file(directory, &name);
        write_secret(&path, &text).doing(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Starts the controllers of the plan beside their nodes. Of several, the first one leads; the
/// others are not ready yet. None leads yet if etcd is in-band: hosts have no cables by now.
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
    let has = |(node, _): &&(usize, _)| plan.has(Device::Node(*node));
    let mut files = plan.controller_files.iter().filter(has);
    let mut controllers: Vec<_> = files.by_ref().take(1).map(start).collect::<Result<_, _>>()?;
    if let ([first], false) = (&mut controllers[..], plan.is_in_band()) {
        first.wait_until_ready()?;
        leader(std::slice::from_mut(first))?;
    }
    for file in files {
        controllers.push(start(file)?);
    }
    Ok(controllers)
}

/// Waits until every node has a path to the controller and the right role at each of its ports. A
/// port whose neighbour is slow to authenticate counts as a host's at first.
///
/// # Errors
/// Names the node that does not get that far, with the end of its log.
pub(crate) fn wait_until_joined(plan: &Plan, nodes: &mut [RunningNode]) -> Result<(), Error> {
    let limit = Instant::now() + START_LIMIT;
    for (index, node) in nodes.iter_mut().enumerate() {
        let Some(daemon) = node.daemon().filter(|_| plan.node_files[index].fabric.is_some()) else {
            continue;
        };
        let roles = roles(plan, index);
        loop {
            let state = daemon.state();
            if state != "running" {
                return Err(daemon.failed(&state));
            }
            let missing = missing(&daemon.ask(&Request::Show(Topic::Links))?, &roles);
            let Some(missing) = missing else { break };
            if Instant::now() > limit {
                return Err(daemon.failed(&missing));
            }
            std::thread::sleep(POLL);
        }
    }
    Ok(())
}

/// Waits until every node has the routes to other networks that the controllers' files name.
///
/// # Errors
/// Names a node that does not get them, with the end of the controller's log.
pub(crate) fn wait_for_tables(plan: &Plan, controllers: &mut [Daemon]) -> Result<(), Error> {
    let Some((_, file)) = plan.controller_files.first() else { return Ok(()) };
    if file.settings.routes.is_empty() && file.settings.routes_file.is_none() {
        return Ok(());
    }
    wait_for_router(leader(controllers)?, TABLE_LIMIT, |router| {
        // In two stages only some nodes have the table.
        let in_stages = router.nodes.iter().any(|node| node.forwards.is_some());
        let mut nodes = router.nodes.iter().filter(|n| !in_stages || n.forwards.is_some());
        let is_behind = |node: &&RouterNode| node.lag != Some(0) || node.forwards == Some(false);
        let behind = nodes.find(is_behind)?;
        Some(format!("node {} does not get the group's routes", behind.name))
    })
}

/// Waits until the controllers have found the functions that they look for: hosts with a reserved
/// address.
///
/// # Errors
/// Names a function that is not found, with the end of the controller's log.
pub(crate) fn wait_for_functions(plan: &Plan, controllers: &mut [Daemon]) -> Result<(), Error> {
    let is_host = |mac| plan.topology.hosts.iter().any(|host| host.mac == mac);
    let Some((_, file)) = plan.controller_files.first() else { return Ok(()) };
    if file.settings.classes.is_empty() {
        return Ok(());
    }
    let reservations = &file.settings.reservations;
    let is_sought = |ip| reservations.iter().any(|r| r.ip == ip && is_host(r.mac));
    wait_for_router(leader(controllers)?, START_LIMIT, |router| {
        let mut functions = router.classes.iter().flat_map(|class| &class.functions);
        let missing = functions.find(|f| f.at.is_none() && is_sought(f.address))?;
        Some(format!("the function {} is not found", missing.address))
    })
}

/// Which of the controllers leads, if one does.
pub(crate) fn leader_now(controllers: &[Daemon]) -> Option<usize> {
    controllers.iter().position(|daemon| {
        let told = daemon.ask::<Controllers>(&Request::Show(Topic::Controllers));
        told.is_ok_and(|told| told.role == ControllerRole::Leads)
    })
}

/// The controller that leads, once there is one.
///
/// # Errors
/// When none leads.
pub(crate) fn leader(controllers: &mut [Daemon]) -> Result<&mut Daemon, Error> {
    let limit = Instant::now() + START_LIMIT;
    loop {
        if let Some(leader) = leader_now(controllers) {
            return Ok(&mut controllers[leader]);
        }
        if Instant::now() > limit {
            return Err(match controllers.first() {
                Some(first) => first.failed("no controller leads"),
                None => Error::Refused("there is no controller".into()),
            });
        }
        std::thread::sleep(POLL);
    }
}

/// Asks a controller about the group's router until nothing is `missing`.
fn wait_for_router(
    daemon: &mut Daemon,
    time: Duration,
    missing: impl Fn(&GroupRouter) -> Option<String>,
) -> Result<(), Error> {
    let limit = Instant::now() + time;
    loop {
        let state = daemon.state();
        if state != "running" {
            return Err(daemon.failed(&state));
        }
        let Some(missing) = missing(&daemon.ask(&Request::Show(Topic::Router))?) else {
            return Ok(());
        };
        if Instant::now() > limit {
            return Err(daemon.failed(&missing));
        }
        std::thread::sleep(POLL);
    }
}

/// The expected roles of a node's ports, by port name. Behind an ordinary switch either a host or a
/// conflict is possible (`None`).
fn roles(plan: &Plan, node: usize) -> BTreeMap<&str, Option<PortRole>> {
    let topology = &plan.topology;
    let mut roles = BTreeMap::new();
    for (_, _, [a, b]) in topology.cables() {
        for (near, far) in [(a, b), (b, a)] {
            if near.device() == Device::Node(node) && is_in_fabric(plan, node, near) {
                let role = match far.device() {
                    Device::Node(other) if !is_in_fabric(plan, other, far) => Some(PortRole::Host),
                    Device::Node(_) => Some(PortRole::Fabric),
                    Device::Host(_) => Some(PortRole::Host),
                    Device::Bridge(_) => None,
                };
                roles.insert(plan.device(near).0, role);
            }
        }
    }
    if plan.controller_files.iter().any(|(at, _)| *at == node) {
        roles.insert(CONTROLLER_PORT, Some(PortRole::Controller));
        // A member of etcd may be beside it, and its own box is a host.
        if plan.is_in_band() {
            let ports = IN_BAND_PORTS
                .into_iter()
                .filter(|name| plan.node_files[node].ports.iter().any(|port| port.name == *name));
            roles.extend(ports.map(|name| (name, Some(PortRole::Host))));
        }
    }
    roles
}

/// Whether a port of a node is the fabric's: neither an IP interface nor one of its own switch.
fn is_in_fabric(plan: &Plan, node: usize, end: End) -> bool {
    let (of_node, End::Port { port, .. }) = (&plan.topology.nodes[node], end) else { return false };
    of_node.ports[port].role != PortUse::Switch && !of_node.routes_at(port)
}

/// The first thing that a node still lacks.
fn missing(links: &Links, roles: &BTreeMap<&str, Option<PortRole>>) -> Option<String> {
    if links.controller.path.is_none() {
        return Some("has no way to the controller".into());
    }
    roles.iter().find_map(|(name, role)| {
        let found = links.ports.iter().find(|p| p.port == *name).map(|p| p.role);
        let is = found.map_or_else(|| "unknown".into(), |role| word(&role));
        match role {
            Some(role) if Some(*role) != found => {
                let role = word(role);
                Some(format!("its port {name} should be a {role} port, and is {is}"))
            }
            None if matches!(found, None | Some(PortRole::Down)) => {
                Some(format!("its port {name} is {is}"))
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use plexus_api::answer::fabric::{Link, Uplink};
    use plexus_wire::MacAddr;

    use super::*;

    #[test]
    fn a_node_has_joined_once_it_knows_all_its_ports_and_the_way() {
        let port = |name: &str, role| Link {
            port: name.into(),
            number: 0,
            role,
            neighbour: None,
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            mtu: 1624,
            rate_mbit_per_s: 0,
            peer_port: 0,
            encapsulation: None,
            device: None,
            reason: None,
            peer_mtu: None,
        };
        let lacks = |path: Option<Vec<u8>>, role| {
            let ports = vec![port("a", PortRole::Fabric), port("b", role)];
            let controller = Uplink { path, epoch: 1 };
            let links = Links { controller, lanes: "flow".into(), ports, mtu_min: 1624 };
            let fabric = Some(PortRole::Fabric);
            missing(&links, &BTreeMap::from([("a", fabric), ("b", fabric)]))
        };
        let way = Some(vec![0, 255]);
        assert!(lacks(None, PortRole::Fabric).unwrap().contains("no way to the controller"));
        let early = lacks(way.clone(), PortRole::Host).unwrap();
        assert!(early.contains("port b should be a fabric port, and is host"), "{early}");
        assert_eq!(lacks(way, PortRole::Fabric), None);
    }
}
