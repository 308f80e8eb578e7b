//! Makes regular topologies: line, ring, star, torus, with hosts on their nodes.
//!
//! Nodes are `s1`, `s2` … (in a torus the last coordinate moves fastest), hosts `h1`, `h2` …
//! node by node, addresses from 10.0.0.0/8 and fd00::/64 in the order of the hosts: one network,
//! as for one switch. Port `p1` … of a node lead to its hosts, the further ones to other nodes.

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::model::{End, Host, Interface, InterfaceAddress, Link, Node, NodePort, Topology};
use crate::read::free_mac;

/// Most nodes, and most hosts, that are made.
pub const DEVICES_MAX: usize = 1 << 20;

/// How the nodes are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each node with the next.
    Line {
        /// How many nodes, at least 1.
        nodes: usize,
    },
    /// Each node with the next, and the last with the first.
    Ring {
        /// How many nodes, at least 3.
        nodes: usize,
    },
    /// One node in the middle, `s1`, joined with every other; hosts are on the others.
    Star {
        /// How many nodes besides the one in the middle, at least 1.
        leaves: usize,
    },
    /// A grid that closes in every dimension. In a dimension of 2 the two nodes have one link.
    Torus {
        /// Nodes along each dimension, each at least 2.
        sides: Vec<usize>,
    },
}

/// What is the same on all nodes and links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Hosts on each node.
    pub hosts_per_node: usize,
    /// Rate of hosts' links in bits/s; `None`: as fast as it goes.
    pub host_rate_bits_per_s: Option<u64>,
    /// Rate of the links between nodes.
    pub link_rate_bits_per_s: Option<u64>,
    /// Parallel cables between two nodes, at least 1.
    pub lanes: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            hosts_per_node: 1,
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
    /// How many nodes it has; `None` when that is beyond counting.
    fn nodes(&self) -> Option<usize> {
        match self {
            Shape::Line { nodes } | Shape::Ring { nodes } => Some(*nodes),
            Shape::Star { leaves } => leaves.checked_add(1),
            Shape::Torus { sides } => {
                sides.iter().try_fold(1_usize, |count, side| count.checked_mul(*side))
            }
        }
    }

    fn check(&self) -> Result<usize, ShapeError> {
        let refuse = |why: &str| Err(ShapeError(why.to_string()));
        match self {
            Shape::Line { nodes: 0 } => return refuse("a line has at least 1 node"),
            Shape::Ring { nodes: 0..=2 } => return refuse("a ring has at least 3 nodes"),
            Shape::Star { leaves: 0 } => return refuse("a star has at least 1 leaf"),
            Shape::Torus { sides } if sides.is_empty() || sides.iter().any(|s| *s < 2) => {
                return refuse("a torus has at least 2 nodes along each dimension, as in 4x4");
            }
            _ => {}
        }
        match self.nodes().filter(|n| *n <= DEVICES_MAX) {
            Some(nodes) => Ok(nodes),
            None => Err(ShapeError(format!("at most {DEVICES_MAX} nodes are made"))),
        }
    }

    /// Pairs of nodes that are joined, each once.
    fn pairs(&self) -> Vec<[usize; 2]> {
        match self {
            Shape::Line { nodes } => (1..*nodes).map(|i| [i - 1, i]).collect(),
            Shape::Ring { nodes } => (0..*nodes).map(|i| [i, (i + 1) % nodes]).collect(),
            Shape::Star { leaves } => (1..=*leaves).map(|i| [0, i]).collect(),
            Shape::Torus { sides } => {
                let count = sides.iter().product();
                let mut pairs = Vec::new();
                for node in 0..count {
                    let mut stride = 1;
                    for side in sides.iter().rev() {
                        let at = node / stride % side;
                        let next = node - at * stride + (at + 1) % side * stride;
                        // Along a side of 2 the way back is the same link.
                        if *side > 2 || at == 0 {
                            pairs.push([node, next]);
                        }
                        stride *= side;
                    }
                }
                pairs
            }
        }
    }

    /// The topology's name, as in `torus-4x4`.
    fn name(&self) -> String {
        match self {
            Shape::Line { nodes } => format!("line-{nodes}"),
            Shape::Ring { nodes } => format!("ring-{nodes}"),
            Shape::Star { leaves } => format!("star-{leaves}"),
            Shape::Torus { sides } => {
                let sides: Vec<String> = sides.iter().map(usize::to_string).collect();
                let name = format!("torus-{}", sides.join("x"));
                // Many dimensions do not fit a name.
                if plexus_config::name::check_name("topology", &name).is_ok() {
                    name
                } else {
                    format!("torus-{}d", sides.len())
                }
            }
        }
    }
}

/// Makes a topology.
///
/// # Errors
/// When the shape has too few or too many nodes, or there would be too many hosts or lanes.
pub fn generate(shape: &Shape, options: Options) -> Result<Topology, ShapeError> {
    let nodes = shape.check()?;
    let hosts = nodes.checked_mul(options.hosts_per_node).filter(|h| *h <= DEVICES_MAX);
    if hosts.is_none() {
        return Err(ShapeError(format!("at most {DEVICES_MAX} hosts are made")));
    }
    if !(1..=crate::read::LANES_MAX as usize).contains(&options.lanes) {
        let most = crate::read::LANES_MAX;
        return Err(ShapeError(format!("two nodes are joined by 1 to {most} lanes")));
    }
    let mut topology = Topology::new(&shape.name());
    for i in 1..=nodes {
        let switch = plexus_config::SwitchSettings::default();
        topology.nodes.push(Node::new(&format!("s{i}"), switch));
    }
    let bare = usize::from(matches!(shape, Shape::Star { .. }));
    let mut taken = HashSet::new();
    for node in bare..nodes {
        for _ in 0..options.hosts_per_node {
            let host = topology.hosts.len();
            let name = format!("h{}", host + 1);
            let mac = free_mac(&name, &mut taken);
            topology.hosts.push(Host {
                name,
                addresses: host_addresses(host),
                dhcp: false,
                gateways: Vec::new(),
                interfaces: vec![Interface { name: "eth0".to_string(), mac }],
                mac,
            });
            let port = new_port(&mut topology, node);
            let mut link = Link::new(End::Host { host, interface: 0 }, port);
            link.rate_bits_per_s = options.host_rate_bits_per_s;
            topology.links.push(link);
        }
    }
    for [a, b] in shape.pairs() {
        let first = [a, b].map(|node| topology.nodes[node].ports.len() + 1);
        let cables = (0..options.lanes)
            .map(|lane| {
                let mut end = |node: usize, first: usize| {
                    let name = match lane {
                        0 => format!("p{first}"),
                        _ => format!("p{first}-{}", lane + 1),
                    };
                    named_port(&mut topology, node, &name)
                };
                [end(a, first[0]), end(b, first[1])]
            })
            .collect();
        let rate_bits_per_s = options.link_rate_bits_per_s;
        let usual = Link::new(End::Port { node: a, port: 0 }, End::Port { node: b, port: 0 });
        topology.links.push(Link { cables, rate_bits_per_s, ..usual });
    }
    Ok(topology)
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Graph;

    fn shapes() -> impl Strategy<Value = Shape> {
        prop_oneof![
            (1..9_usize).prop_map(|nodes| Shape::Line { nodes }),
            (3..9_usize).prop_map(|nodes| Shape::Ring { nodes }),
            (1..9_usize).prop_map(|leaves| Shape::Star { leaves }),
            proptest::collection::vec(2..5_usize, 1..4).prop_map(|sides| Shape::Torus { sides }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_made_reads_back_equal(
            shape in shapes(), hosts_per_node in 0..4_usize, lanes in 1..4_usize,
            rate in proptest::option::of(1..10_000_000_000_u64))
        {
            let options = Options {
                hosts_per_node, lanes, host_rate_bits_per_s: rate,
                link_rate_bits_per_s: rate.map(|r| r * 3),
            };
            let made = generate(&shape, options).unwrap();
            let read = Topology::parse("made", &made.to_toml());
            prop_assert_eq!(read, Ok(made));
        }

        #[test]
        fn every_node_has_the_neighbours_of_its_shape(shape in shapes()) {
            let options = Options { hosts_per_node: 2, ..Options::default() };
            let made = generate(&shape, options).unwrap();
            let graph = Graph::new(&made);
            let nodes = made.nodes.len();
            for node in 0..nodes {
                let beside = graph.edges(node).iter().filter(|e| e.to < nodes).count();
                let expected = match &shape {
                    Shape::Line { nodes: 1 } => 0,
                    Shape::Line { .. } => if node == 0 || node == nodes - 1 { 1 } else { 2 },
                    Shape::Ring { .. } => 2,
                    Shape::Star { leaves } => if node == 0 { *leaves } else { 1 },
                    Shape::Torus { sides } => {
                        sides.iter().map(|s| if *s == 2 { 1 } else { 2 }).sum()
                    }
                };
                prop_assert_eq!(beside, expected);
            }
            if let (Shape::Torus { sides }, Some(d)) = (&shape, graph.node_distances()) {
                let farthest: usize = sides.iter().map(|s| s / 2).sum();
                prop_assert_eq!(d.diameter as usize, farthest);
            }
        }
    }

    #[test]
    fn addresses_are_unique_in_a_large_one() {
        let shape = Shape::Torus { sides: vec![32, 32] };
        let options = Options { hosts_per_node: 49, ..Options::default() };
        let made = generate(&shape, options).unwrap();
        assert_eq!(made.hosts.len(), 50_176);
        let macs: HashSet<_> = made.hosts.iter().map(|h| h.mac).collect();
        let addresses: HashSet<_> =
            made.hosts.iter().flat_map(|h| &h.addresses).map(|a| a.address).collect();
        assert_eq!((macs.len(), addresses.len()), (50_176, 2 * 50_176));
        assert!(macs.iter().all(|m| !m.is_multicast()));
    }

    #[test]
    fn impossible_shapes_are_refused() {
        for shape in [
            Shape::Line { nodes: 0 },
            Shape::Line { nodes: usize::MAX },
            Shape::Ring { nodes: 2 },
            Shape::Star { leaves: 0 },
            Shape::Star { leaves: usize::MAX },
            Shape::Torus { sides: vec![] },
            Shape::Torus { sides: vec![4, 1] },
            Shape::Torus { sides: vec![usize::MAX, usize::MAX] },
        ] {
            assert!(generate(&shape, Options::default()).is_err(), "{shape:?}");
        }
        let many = Options { hosts_per_node: usize::MAX, ..Options::default() };
        assert!(generate(&Shape::Line { nodes: 2 }, many).is_err());
    }
}
