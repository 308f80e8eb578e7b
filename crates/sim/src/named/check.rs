//! Refuses settings of named data that the simulator does not have.

use std::collections::HashSet;

use plexus_config::NamedSettings;
use plexus_topo::{Device, Fault, Flow, ForwardingMode, Node, Party, Proto, Target, Topology};
use plexus_wire::MacAddr;
use plexus_wire::ndn::face_uri::FaceUri;

use crate::node::port_mac;

/// Refuses what the simulator cannot do of what a file asks for.
///
/// # Errors
/// In words that name the thing, and what to do.
pub(crate) fn check(topology: &Topology) -> Result<(), String> {
    let mut stations: Option<HashSet<MacAddr>> = None;
    for (n, node) in topology.nodes.iter().enumerate() {
        let Some(named) = &node.named else { continue };
        let refused = |why: String| format!("node {}: {why}", node.name);
        check_node(node, named).map_err(refused)?;
        let own = Party::Device(Device::Node(n));
        let of_it = |f: &Fault| matches!(f, Fault::Crash { party, .. } if *party == own);
        if topology.events.iter().any(|e| of_it(&e.fault)) {
            return Err(refused(
                "simulated nodes that forward named data do not crash: take the event out, or cut \
                 the node's cables"
                    .into(),
            ));
        }
        for face in &named.faces {
            let known = stations.get_or_insert_with(|| addresses(topology));
            if let FaceUri::Ether(to) = face.remote
                && !known.contains(&to)
            {
                return Err(refused(format!(
                    "face {}: nobody has the address {to}: hosts have their mac, and port p of \
                     node n (both from 0, in the order of the file) 02:0a:00:00:n:p, in hex",
                    face.name
                )));
            }
        }
    }
    check_producers(topology)
}

fn addresses(topology: &Topology) -> HashSet<MacAddr> {
    let hosts = topology.hosts.iter().flat_map(|h| h.interfaces.iter().map(|i| i.mac));
    let ports = topology.nodes.iter().enumerate();
    let ports = ports.flat_map(|(n, node)| {
        (0..node.ports.len()).map(move |port| port_mac(n as u32, port as u16))
    });
    hosts.chain(ports).collect()
}

fn check_node(node: &Node, named: &NamedSettings) -> Result<(), String> {
    if !named.disks.is_empty() {
        return Err("simulated nodes cache named data in memory alone: take [[node.named.disk]] \
                    out, or use plexus lab run"
            .into());
    }
    if named.workers > 1 {
        return Err("a simulated node forwards named data with one worker: take workers out of \
                    [node.named], or use plexus lab run"
            .into());
    }
    if named.open {
        return Err("nobody registers prefixes in the simulator: write [[node.named.route]] for \
                    what others would register, and take open out; or use plexus lab run"
            .into());
    }
    let by_ethernet = "simulated nodes have faces for named data by Ethernet alone";
    let v4 = named.multicast.first().map(|local| format!("multicast (here {local})"));
    let v6 = named.multicast6.first().map(|device| format!("multicast6 (here {device})"));
    if let Some(groups) = v4.or(v6) {
        return Err(format!(
            "{by_ethernet}: take {groups} out and write [[node.named.ethernet]], or use plexus lab \
             run"
        ));
    }
    if let Some(face) = named.faces.iter().find(|f| !matches!(f.remote, FaceUri::Ether(_))) {
        return Err(format!(
            "{by_ethernet}, and face {} leads to {}: write [[node.named.ethernet]] with a port of \
             the node as device, and its name in routes; or use plexus lab run",
            face.name, face.remote
        ));
    }
    if named.ethernets.is_empty() {
        return Err(format!(
            "{by_ethernet}, and it has none: write [[node.named.ethernet]] with a port of the \
             node as device"
        ));
    }
    if node.forwarding.mode == ForwardingMode::CutThrough {
        return Err("simulated nodes that forward named data do not cut through: take \
                    forwarding = \"cut-through\" out of its sim"
            .into());
    }
    for ethernet in &named.ethernets {
        let Some(port) = node.ports.iter().find(|p| p.name == ethernet.device) else {
            let ports: Vec<&str> = node.ports.iter().map(|p| p.name.as_str()).collect();
            return Err(format!(
                "Ethernet {}: a simulated node's devices are its ports ({}), and {} is none",
                ethernet.name,
                ports.join(", "),
                ethernet.device
            ));
        };
        if port.faults.is_some() {
            return Err(format!(
                "port {} has faults of its own, which a port of named data does not have in the \
                 simulator: write them as an [[event]], or as loss of the link",
                port.name
            ));
        }
    }
    Ok(())
}

/// Two flows may ask one host for the same, of which there is one size.
fn check_producers(topology: &Topology) -> Result<(), String> {
    let named = || topology.traffic.iter().filter(|f| f.proto == Proto::Named);
    let asked = |flow: &Flow| flow.catalogue.as_ref().map(|c| c.prefix.clone());
    let mut sizes = std::collections::HashMap::new();
    for flow in named() {
        let (Target::Host(host), Some(prefix)) = (flow.to, asked(flow)) else { continue };
        let text = prefix.to_string();
        let (size, first) = *sizes.entry((host, text.clone())).or_insert((flow.size, flow));
        if size != flow.size {
            return Err(format!(
                "flow {}: {} answers {text} with {size} bytes already, for flow {}: give both the \
                 same size, or another prefix",
                flow.name, topology.hosts[host].name, first.name
            ));
        }
    }
    Ok(())
}
