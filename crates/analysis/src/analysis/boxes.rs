//! What forwards in a topology (nodes and bridges), with what the analyses need of the links.

use std::collections::BTreeMap;

use plexus_topo::{Device, Topology};

/// The nodes, then the bridges, in compressed adjacency: the links between them, and where hosts
/// are. Links that join a host with a host are only counted.
pub(crate) struct Boxes {
    /// How many of the boxes are nodes; they come first.
    pub(crate) nodes: usize,
    /// Of each box: where its edges begin in `edges`; one entry more at the end.
    first: Vec<u32>,
    /// The box at the other side and the link, box by box.
    edges: Vec<(u32, u32)>,
    /// The links between boxes.
    pub(crate) links: Vec<BoxLink>,
    /// Of each box: cables to hosts.
    pub(crate) host_cables: Vec<u64>,
    /// Hosts by the boxes that they are cabled to.
    pub(crate) groups: Vec<HostGroup>,
    /// Whether some host is cabled to a host.
    pub(crate) hosts_touch: bool,
    /// Whether every link between boxes has a rate, so that capacities are in bits/s.
    pub(crate) rated: bool,
}

/// A link between two boxes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoxLink {
    /// The boxes.
    pub(crate) ends: [u32; 2],
    /// Its cables.
    pub(crate) lanes: u32,
    /// All its cables together: bits/s where every link has a rate, else cables.
    pub(crate) capacity: u128,
}

/// Hosts that are cabled to the same boxes.
#[derive(Clone, Debug)]
pub(crate) struct HostGroup {
    /// The boxes; none where the hosts have no cable.
    pub(crate) at: Vec<u32>,
    /// How many hosts.
    pub(crate) hosts: u64,
}

impl Boxes {
    /// What forwards in this topology.
    pub(crate) fn new(topology: &Topology) -> Boxes {
        let nodes = topology.nodes.len();
        let count = nodes + topology.bridges.len();
        let number = |device: Device| match device {
            Device::Node(node) => Some(node as u32),
            Device::Bridge(bridge) => Some((nodes + bridge) as u32),
            Device::Host(_) => None,
        };
        let mut host_cables = vec![0; count];
        let mut at: Vec<Vec<u32>> = vec![Vec::new(); topology.hosts.len()];
        let (mut links, mut hosts_touch) = (Vec::new(), false);
        let (mut rated, mut rates) = (true, Vec::new());
        for link in &topology.links {
            let lanes = link.cables.len() as u32;
            match (link.devices(), link.devices().map(number)) {
                (_, [Some(a), Some(b)]) => {
                    rated &= link.rate_bits_per_s.is_some();
                    rates.push(link.rate_bits_per_s.unwrap_or(0));
                    links.push(BoxLink { ends: [a, b], lanes, capacity: u128::from(lanes) });
                }
                ([Device::Host(host), _], [None, Some(at_box)])
                | ([_, Device::Host(host)], [Some(at_box), None]) => {
                    host_cables[at_box as usize] += u64::from(lanes);
                    at[host].push(at_box);
                }
                _ => hosts_touch = true,
            }
        }
        if rated {
            for (link, rate) in links.iter_mut().zip(rates) {
                link.capacity *= u128::from(rate);
            }
        }
        let mut groups: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
        for mut boxes in at {
            boxes.sort_unstable();
            boxes.dedup();
            *groups.entry(boxes).or_default() += 1;
        }
        let groups = groups.into_iter().map(|(at, hosts)| HostGroup { at, hosts }).collect();
        let (first, edges) = compress(count, &links);
        Boxes { nodes, first, edges, links, host_cables, groups, hosts_touch, rated }
    }

    /// How many boxes there are.
    pub(crate) fn len(&self) -> usize {
        self.first.len() - 1
    }

    /// A box's neighbours with the links to them.
    pub(crate) fn edges(&self, of: usize) -> &[(u32, u32)] {
        &self.edges[self.first[of] as usize..self.first[of + 1] as usize]
    }

    /// Edges of all boxes: each link twice.
    pub(crate) fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// The edges of all boxes, box by box.
    pub(crate) fn all_edges(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.edges.iter().copied()
    }

    /// Links on the way from a box to each; `None` where there is none.
    pub(crate) fn hops_from(&self, from: usize) -> Vec<Option<u32>> {
        let mut hops = vec![None; self.len()];
        hops[from] = Some(0);
        let mut reached = vec![from];
        for level in 1.. {
            let mut next = Vec::new();
            for at in reached {
                for &(to, _) in self.edges(at) {
                    if hops[to as usize].is_none() {
                        hops[to as usize] = Some(level);
                        next.push(to as usize);
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            reached = next;
        }
        hops
    }

    /// Where a box's edges begin among those of all boxes.
    pub(crate) fn first_edge(&self, of: usize) -> usize {
        self.first[of] as usize
    }
}

/// Adjacency of the links' ends, in the order of the links.
fn compress(count: usize, links: &[BoxLink]) -> (Vec<u32>, Vec<(u32, u32)>) {
    let mut first = vec![0_u32; count + 1];
    for end in links.iter().flat_map(|l| l.ends) {
        first[end as usize + 1] += 1;
    }
    for i in 0..count {
        first[i + 1] += first[i];
    }
    let mut next = first.clone();
    let mut edges = vec![(0, 0); 2 * links.len()];
    for (i, link) in links.iter().enumerate() {
        for [from, to] in [link.ends, [link.ends[1], link.ends[0]]] {
            edges[next[from as usize] as usize] = (to, i as u32);
            next[from as usize] += 1;
        }
    }
    (first, edges)
}
