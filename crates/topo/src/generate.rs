//! Makes topologies of known shapes, with hosts on their nodes.
//!
//! Nodes are `s1`, `s2` … (in grids the last coordinate moves fastest) or named by what they are,
//! hosts `h1`, `h2` … node by node, addresses from 10.0.0.0/8 and fd00::/64 in the order of the
//! hosts: one network, as for one switch. Port `p1` … of a node lead to its hosts, the further ones
//! to other nodes.

mod known;
mod plan;
mod random;
mod read;
mod regular;
mod shape;

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use plexus_config::InterfaceAddress;

use crate::model::{End, Host, Interface, Link, Node, NodePort, Topology};
use crate::read::free_mac;

pub use known::Known;
pub(crate) use plan::{Joint, Plan};
pub(crate) use random::Dice;
pub(crate) use read::{Generated, Grid, read_generate};
pub use shape::Shape;

/// Most nodes, and most hosts, that are made.
pub const DEVICES_MAX: usize = 1 << 20;
/// Most links between nodes that are made.
pub const LINKS_MAX: usize = 1 << 22;
/// Hosts on a node of the Axon paper's random-low (axon.txt §5).
pub const RANDOM_LOW_HOSTS: usize = 10;
/// Mean degree of its nodes.
pub const RANDOM_LOW_DEGREE: usize = 4;

/// What is the same on all nodes and links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Hosts on each node that has any.
    pub hosts_per_node: usize,
    /// Hosts in all, as evenly as can be on the same nodes; instead of the above.
    pub hosts_total: Option<usize>,
    /// Rate of hosts' links in bits/s; `None`: as fast as it goes.
    pub host_rate_bits_per_s: Option<u64>,
    /// Rate of the links between nodes; those that a shape has faster have a multiple of it.
    pub link_rate_bits_per_s: Option<u64>,
    /// Parallel cables between two nodes, at least 1.
    pub lanes: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            hosts_per_node: 1,
            hosts_total: None,
            host_rate_bits_per_s: None,
            link_rate_bits_per_s: None,
            lanes: 1,
        }
    }
}

/// Why a topology cannot be made; the text says what can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeError(String);

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ShapeError {}

impl Shape {
    /// The plan of a shape that can be made.
    pub(crate) fn checked_plan(&self) -> Result<Plan, ShapeError> {
        self.check()?;
        self.plan()
    }
}

/// Makes a topology.
///
/// # Errors
/// When the shape cannot be, or there would be too many nodes, links, hosts or lanes.
pub fn generate(shape: &Shape, options: Options) -> Result<Topology, ShapeError> {
    let plan = shape.checked_plan()?;
    let hosts = host_counts(plan.sites.len(), options)?;
    let lanes_max = crate::read::LANES_MAX as usize;
    let widest = plan.joints.iter().map(|j| j.lanes).max().unwrap_or(1);
    if options.lanes == 0 || widest.checked_mul(options.lanes).is_none_or(|l| l > lanes_max) {
        return Err(ShapeError(format!("two nodes are joined by 1 to {lanes_max} lanes")));
    }
    let mut topology = Topology::new(&shape.name());
    topology.description = shape.description();
    for name in &plan.names {
        topology.nodes.push(Node::new(name, plexus_config::SwitchSettings::default()));
    }
    let mut taken = HashSet::new();
    for (site, count) in plan.sites.iter().zip(hosts) {
        for _ in 0..count {
            let name = format!("h{}", topology.hosts.len() + 1);
            let nodes = [Some(site.first), site.second].into_iter().flatten();
            let ports: Vec<End> = nodes.map(|node| new_port(&mut topology, node)).collect();
            add_host(&mut topology, &mut taken, name, &ports, options);
        }
    }
    for joint in &plan.joints {
        let lanes = joint.lanes * options.lanes;
        let rate = joint_rate(joint, options.link_rate_bits_per_s)?;
        join_nodes(&mut topology, joint.ends, lanes, rate);
    }
    Ok(topology)
}

/// How many hosts are at each of so many sites.
fn host_counts(sites: usize, options: Options) -> Result<Vec<usize>, ShapeError> {
    let total = options.hosts_total.or_else(|| sites.checked_mul(options.hosts_per_node));
    let Some(total) = total.filter(|h| *h <= DEVICES_MAX) else {
        return Err(ShapeError(format!("at most {DEVICES_MAX} hosts are made")));
    };
    let (each, more) = (total / sites.max(1), total % sites.max(1));
    Ok((0..sites).map(|i| each + usize::from(i < more)).collect())
}

fn joint_rate(joint: &Joint, usual: Option<u64>) -> Result<Option<u64>, ShapeError> {
    let refuse = |why: String| Err(ShapeError(why));
    match usual {
        None if joint.speed > 1 => refuse(format!(
            "some links are {} times as fast as others: give the others' rate, as in 1Gbit",
            joint.speed
        )),
        None => Ok(None),
        Some(rate) => match rate.checked_mul(joint.speed) {
            Some(rate) => Ok(Some(rate)),
            None => refuse(format!("{} times {rate} bits/s is beyond counting", joint.speed)),
        },
    }
}

/// Adds the next host, with a cable to each of these ports.
pub fn add_host(
    topology: &mut Topology,
    taken: &mut HashSet<plexus_wire::MacAddr>,
    name: String,
    ports: &[End],
    options: Options,
) {
    let host = topology.hosts.len();
    let mac = free_mac(&name, taken);
    let mut interfaces = Vec::new();
    for (interface, port) in ports.iter().enumerate() {
        let device = format!("eth{interface}");
        let own = match interface {
            0 => mac,
            _ => free_mac(&format!("{name}.{device}"), taken),
        };
        interfaces.push(Interface { name: device, mac: own });
        let mut link = Link::new(End::Host { host, interface }, *port);
        link.rate_bits_per_s = options.host_rate_bits_per_s;
        topology.links.push(link);
    }
    topology.hosts.push(Host {
        name,
        addresses: host_addresses(host),
        dhcp: false,
        gateways: Vec::new(),
        forwards: false,
        interfaces,
        mac,
    });
}

/// Joins two nodes by ports of their own.
fn join_nodes(topology: &mut Topology, [a, b]: [usize; 2], lanes: usize, rate: Option<u64>) {
    let first = [a, b].map(|node| topology.nodes[node].ports.len() + 1);
    let cables = (0..lanes)
        .map(|lane| {
            let mut end = |node: usize, first: usize| {
                let name = match lane {
                    0 => format!("p{first}"),
                    _ => format!("p{first}-{}", lane + 1),
                };
                named_port(topology, node, &name)
            };
            [end(a, first[0]), end(b, first[1])]
        })
        .collect();
    let usual = Link::new(End::Port { node: a, port: 0 }, End::Port { node: b, port: 0 });
    topology.links.push(Link { cables, rate_bits_per_s: rate, ..usual });
}

fn new_port(topology: &mut Topology, node: usize) -> End {
    let name = format!("p{}", topology.nodes[node].ports.len() + 1);
    named_port(topology, node, &name)
}

fn named_port(topology: &mut Topology, node: usize, name: &str) -> End {
    let ports = &mut topology.nodes[node].ports;
    ports.push(NodePort::new(name));
    End::Port { node, port: ports.len() - 1 }
}

/// Of the host with this index: the addresses after the networks' own. At most
/// [`DEVICES_MAX`] hosts, so IPv4's /8 is never full.
fn host_addresses(host: usize) -> Vec<InterfaceAddress> {
    let number = host as u32 + 1;
    let v4 = Ipv4Addr::from_bits(0x0A00_0000 | number);
    let v6 = Ipv6Addr::from_bits(0xFD00_u128 << 112 | u128::from(number));
    vec![
        InterfaceAddress { address: IpAddr::V4(v4), prefix_len: 8 },
        InterfaceAddress { address: IpAddr::V6(v6), prefix_len: 64 },
    ]
}

#[cfg(test)]
mod tests;
