//! What of a device and a link goes into other formats, and under which names.

use plexus_topo::{Device, MTU_USUAL, Topology};
use plexus_wire::MacAddr;

pub(super) const LABEL: &str = "label";
pub(super) const NAME: &str = "name";
pub(super) const KIND: &str = "kind";
pub(super) const ADDRESS: &str = "address";
pub(super) const GATEWAY: &str = "gateway";
pub(super) const MAC: &str = "mac";
pub(super) const LANES: &str = "lanes";
pub(super) const RATE: &str = "rate_bits_per_s";
pub(super) const DELAY: &str = "delay_ns";
pub(super) const MTU: &str = "mtu";
pub(super) const LOSS: &str = "loss";
pub(super) const PORTS: [&str; 2] = ["source_port", "target_port"];
/// The Internet Topology Zoo's name for a rate in bits/s.
pub(super) const ZOO_RATE: &str = "LinkSpeedRaw";

/// Every attribute that is read; others are of no meaning here.
pub(super) const READ: [&str; 14] = [
    LABEL, NAME, KIND, ADDRESS, GATEWAY, MAC, LANES, RATE, ZOO_RATE, DELAY, MTU, LOSS, PORTS[0],
    PORTS[1],
];

/// The attribute of this name, if it is read.
pub(super) fn known(name: &str) -> Option<&'static str> {
    READ.into_iter().find(|known| *known == name)
}

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(u64),
    Number(f64),
}

/// Attributes, each with its name.
pub(super) type Facts = Vec<(&'static str, Value)>;

/// Attributes of devices, with whether they are numbers: `long`, `double` or `string` (GraphML).
pub(super) const DEVICE_TYPES: [(&str, &str); 4] =
    [(KIND, "string"), (ADDRESS, "string"), (GATEWAY, "string"), (MAC, "string")];
/// Attributes of links.
pub(super) const LINK_TYPES: [(&str, &str); 7] = [
    (LANES, "long"),
    (RATE, "long"),
    (DELAY, "long"),
    (MTU, "long"),
    (LOSS, "double"),
    (PORTS[0], "string"),
    (PORTS[1], "string"),
];

/// Every device in the order in which it is written: nodes, bridges, hosts.
pub(super) fn devices(topology: &Topology) -> impl Iterator<Item = Device> {
    let nodes = (0..topology.nodes.len()).map(Device::Node);
    let bridges = (0..topology.bridges.len()).map(Device::Bridge);
    nodes.chain(bridges).chain((0..topology.hosts.len()).map(Device::Host))
}

/// What is said of a device besides its name.
pub(super) fn of_device(topology: &Topology, device: Device) -> Facts {
    let text = |text: &str| Value::Text(text.to_string());
    let host = match device {
        Device::Node(_) => return vec![(KIND, text("node"))],
        Device::Bridge(_) => return vec![(KIND, text("bridge"))],
        Device::Host(host) => &topology.hosts[host],
    };
    let mut facts = vec![(KIND, text("host"))];
    let addresses: Vec<String> = host.addresses.iter().map(ToString::to_string).collect();
    let gateways: Vec<String> = host.gateways.iter().map(ToString::to_string).collect();
    for (name, values) in [(ADDRESS, addresses), (GATEWAY, gateways)] {
        if !values.is_empty() {
            facts.push((name, Value::Text(values.join(" "))));
        }
    }
    if host.mac != MacAddr::derived(&host.name, 0) {
        facts.push((MAC, Value::Text(host.mac.to_string())));
    }
    facts
}

/// What is said of a link besides its ends.
pub(super) fn of_link(topology: &Topology, link: usize) -> Facts {
    let link = &topology.links[link];
    let mut facts = vec![(LANES, Value::Integer(link.cables.len() as u64))];
    if let Some(rate) = link.rate_bits_per_s {
        facts.push((RATE, Value::Integer(rate)));
    }
    if !link.delay.is_zero() {
        facts.push((DELAY, Value::Integer(link.delay.as_nanos() as u64)));
    }
    if link.mtu != MTU_USUAL {
        facts.push((MTU, Value::Integer(u64::from(link.mtu))));
    }
    if link.loss != 0.0 {
        facts.push((LOSS, Value::Number(link.loss)));
    }
    for (name, end) in PORTS.into_iter().zip(link.cables[0]) {
        let full = topology.end_name(end);
        let port = full.split_once('.').map_or("", |(_, port)| port);
        facts.push((name, Value::Text(port.to_string())));
    }
    facts
}
