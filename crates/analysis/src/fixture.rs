//! Topologies for tests: any shape, by numbers.

use plexus_topo::{End, Host, Interface, Link, Node, NodePort, Topology};
use plexus_wire::MacAddr;
use proptest::test_runner::{Config, RngSeed};

/// The same cases in every run.
pub(crate) fn seeded(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() }
}

/// A link: two nodes, lanes, rate of each lane.
pub(crate) type LinkOf = (usize, usize, usize, Option<u64>);

/// Nodes `s0`…, links in this order, then a host `h0`… for each entry of `hosts`, with a cable of
/// `host_rate` to each node of the entry.
pub(crate) fn topology(
    nodes: usize,
    links: &[LinkOf],
    hosts: &[&[usize]],
    host_rate: Option<u64>,
) -> Topology {
    let mut topology = Topology::new("fixture");
    topology.nodes = (0..nodes)
        .map(|i| Node::new(&format!("s{i}"), plexus_config::SwitchSettings::default()))
        .collect();
    for &(a, b, lanes, rate_bits_per_s) in links {
        let cables: Vec<[End; 2]> =
            (0..lanes).map(|_| [port(&mut topology, a), port(&mut topology, b)]).collect();
        let link = Link::new(cables[0][0], cables[0][1]);
        topology.links.push(Link { cables, rate_bits_per_s, ..link });
    }
    for (host, nodes) in hosts.iter().enumerate() {
        let interface =
            |i: usize| Interface { name: format!("eth{i}"), mac: MacAddr::from_u64(i as u64) };
        topology.hosts.push(Host {
            name: format!("h{host}"),
            addresses: Vec::new(),
            dhcp: false,
            gateways: Vec::new(),
            forwards: false,
            interfaces: (0..nodes.len()).map(interface).collect(),
            mac: MacAddr::from_u64(host as u64),
        });
        for (interface, node) in nodes.iter().enumerate() {
            let end = port(&mut topology, *node);
            let link = Link::new(End::Host { host, interface }, end);
            topology.links.push(Link { rate_bits_per_s: host_rate, ..link });
        }
    }
    topology
}

fn port(topology: &mut Topology, node: usize) -> End {
    let ports = &mut topology.nodes[node].ports;
    ports.push(NodePort::new(&format!("p{}", ports.len())));
    End::Port { node, port: ports.len() - 1 }
}
