//! When a device takes up a frame that comes to one of its ports.
//!
//! Store-and-forward: a processing time after the last bit. Cut-through: a time after the first
//! bit, when the header is known; the rest follows. No bit leaves before it has come. So a node
//! takes up a frame early only if no other port of the node is faster than the one that it comes
//! by, as switches with ports of several speeds do, and not before the header has come that it may
//! have to remove. A frame whose output port is busy waits there, whole or not (`axon.txt` §3.2:
//! routing at the packet level, with buffers for entire packets).

use plexus_topo::{Device, End, Forwarding, ForwardingMode, Graph, Topology, UNREACHABLE};

use crate::cable::Port;
use crate::time::SimTime;

/// Preamble and start delimiter.
const PREAMBLE: u64 = 8;
/// Addresses and type.
const ETHERNET: u64 = 14;
/// Bytes of a fabric header before its hops.
const FABRIC: u64 = 6;
/// A frame's checksum.
const FCS: u64 = 4;

/// When a device takes up a frame that comes to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uptake {
    /// So long after its last bit, and so much more for each 1,000 bytes.
    Whole { fixed: SimTime, per_kilobyte: SimTime },
    /// So long after its first bit, but not before its last one: of a port that is slower than
    /// another of the node.
    Stored { after: SimTime },
    /// So long after its first bit.
    Header { after: SimTime },
}

impl Uptake {
    /// With its last bit.
    pub(crate) const AT_ONCE: Uptake =
        Uptake::Whole { fixed: SimTime::ZERO, per_kilobyte: SimTime::ZERO };

    /// When a frame of `len` bytes is taken up whose first bit and last bit come at these times.
    #[inline]
    pub(crate) fn at(self, first: SimTime, last: SimTime, len: usize) -> SimTime {
        match self {
            Uptake::Whole { fixed, per_kilobyte } if per_kilobyte == SimTime::ZERO => last + fixed,
            Uptake::Whole { fixed, per_kilobyte } => {
                let ps = per_kilobyte.as_picos().saturating_mul(len as u64 + FCS) / 1_000;
                last + fixed + SimTime::from_picos(ps)
            }
            Uptake::Stored { after } => last.max(first + after),
            Uptake::Header { after } => first + after,
        }
    }

    /// How much of a frame that takes `serialisation` is still to come when it is taken up.
    pub(crate) fn to_come(self, serialisation: SimTime) -> SimTime {
        match self {
            Uptake::Header { after } => serialisation - after,
            _ => SimTime::ZERO,
        }
    }

    /// Whether frames are passed on before their checksum is there.
    pub(crate) fn is_early(self) -> bool {
        matches!(self, Uptake::Header { .. })
    }
}

/// Sets for every cable into a node of the file when the node takes up its frames. `port` gives the
/// port at an end. Cables of controllers are left out.
pub(crate) fn plan(topology: &Topology, ports: &mut [Port], port: impl Fn(End) -> usize) {
    if topology.nodes.iter().all(|n| n.forwarding == Forwarding::default()) {
        return;
    }
    let hops = nodes_on_the_longest_route(topology);
    let mut fastest = vec![None; topology.nodes.len()];
    for (_, _, ends) in topology.cables() {
        for end in ends {
            if let Device::Node(n) = end.device() {
                fastest[n] = fastest[n].max(ports[port(end)].rate_bits_per_s);
            }
        }
    }
    for (_, _, [a, b]) in topology.cables() {
        for (own, far) in [(a, b), (b, a)] {
            let Device::Node(n) = own.device() else { continue };
            let (node, cable) = (&topology.nodes[n], &ports[port(own)]);
            let f = &node.forwarding;
            let (from_node, native) = match far.device() {
                Device::Node(n) => (true, topology.nodes[n].native),
                _ => (false, false),
            };
            let header = match (from_node && !topology.controllers.is_empty(), native) {
                (false, _) => ETHERNET,
                (true, true) if node.native => FABRIC + hops,
                (true, _) => ETHERNET + FABRIC + hops,
            };
            let latency = f.host_latency.filter(|_| !from_node).unwrap_or(f.latency);
            let is_slow = cable.rate_bits_per_s < fastest[n];
            // Faults strike whole frames.
            let is_faulty = match own {
                End::Port { port, .. } => node.ports[port].faults.is_some(),
                _ => false,
            };
            let after = SimTime::from(latency).max(cable.time_of(PREAMBLE + header));
            let uptake = match f.mode {
                ForwardingMode::StoreAndForward => {
                    Uptake::Whole { fixed: latency.into(), per_kilobyte: f.per_kilobyte.into() }
                }
                ForwardingMode::CutThrough if is_slow || is_faulty => Uptake::Stored { after },
                ForwardingMode::CutThrough => Uptake::Header { after },
            };
            ports[port(far)].uptake = uptake;
        }
    }
}

/// Of the shortest routes between nodes.
fn nodes_on_the_longest_route(topology: &Topology) -> u64 {
    let graph = Graph::new(topology);
    let nodes = topology.nodes.len();
    let hops = |from| graph.hops(from).into_iter().take(nodes).filter(|h| *h != UNREACHABLE);
    (0..nodes).flat_map(hops).max().map_or(0, |links| u64::from(links) + 1)
}

/// The rate of the fastest cable of a node that cuts through; `None` for other nodes. Its
/// controller's cable is no faster, because frames for the controller may come by any other.
pub(crate) fn controller_rate(topology: &Topology, node: usize, usual: u64) -> Option<u64> {
    let is_early = topology.nodes[node].forwarding.mode == ForwardingMode::CutThrough;
    let links = topology.links.iter().filter(|l| l.devices().contains(&Device::Node(node)));
    let fastest = links.map(|l| l.rate_bits_per_s.unwrap_or(usual)).max();
    fastest.filter(|_| is_early)
}
