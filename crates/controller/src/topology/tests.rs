use proptest::prelude::*;

use plexus_wire::MacAddr;

use super::*;

pub(crate) fn port(port: u8, role: PortRole, peer: NodeId, peer_port: u8) -> PortState {
    let mac = MacAddr([2, 0, 0, 0, 1, port]);
    PortState { port, role, mac, mtu: 2000, rate_mbit_per_s: 1000, peer, peer_port }
}

/// Ports of a node, by number.
pub(crate) fn ports(states: impl IntoIterator<Item = PortState>) -> BTreeMap<u8, PortState> {
    states.into_iter().map(|p| (p.port, p)).collect()
}

/// Nodes 0, 1, … connected as the pairs say: each node's ports count from 1 in the order of pairs.
pub(crate) fn joined(nodes: u32, pairs: &[(u32, u32)]) -> Topology {
    let mut topology = Topology::default();
    let mut cables: Vec<Vec<PortState>> = vec![Vec::new(); nodes as usize];
    for &(a, b) in pairs {
        let (pa, pb) = (cables[a as usize].len() as u8 + 1, cables[b as usize].len() as u8 + 1);
        cables[a as usize].push(port(pa, PortRole::Fabric, b.into(), pb));
        cables[b as usize].push(port(pb, PortRole::Fabric, a.into(), pa));
    }
    for node in 0..nodes {
        topology.add_node(node.into(), "n", Time::ZERO);
    }
    for node in 0..nodes {
        topology.set_ports(node, ports(cables[node as usize].clone()), true);
    }
    topology
}

/// Where a directed link ends.
pub(crate) fn end(t: &Topology, link: u32) -> u32 {
    t.slots[link as usize / 2].unwrap()[1 - link as usize % 2].node
}

#[test]
fn a_link_needs_both_ends_to_name_each_other() {
    let mut t = joined(2, &[(0, 1)]);
    assert_eq!(t.links().count(), 1);
    let place = |node, port| Place { node, port };
    assert_eq!(t.walk(0, &[1, 9], |_| {}), Some(place(1, 9)));
    assert_eq!(t.walk(0, &[2, 9], |_| {}), None);
    for told in [
        port(1, PortRole::TooSmall, 1, 1),
        port(1, PortRole::Conflict, 1, 1),
        port(1, PortRole::Down, 1, 1),
        port(1, PortRole::Fabric, 1, 2),
        port(1, PortRole::Fabric, 7, 1),
        port(1, PortRole::Fabric, 0, 1),
    ] {
        let states = ports([told]);
        let lost = t.losing(0, &states);
        assert_eq!(lost, [0], "{states:?}");
        t.cut(&lost);
        assert_eq!(t.set_ports(0, states, true), 0);
        assert_eq!(t.links().count(), 0);
        // And back: one link again, in the same slot.
        assert_eq!(t.set_ports(0, ports([port(1, PortRole::Fabric, 1, 1)]), true), 1);
        assert_eq!((t.links().count(), t.slots.len()), (1, 1));
    }
}

#[test]
fn a_node_that_is_down_has_no_links() {
    let mut t = joined(3, &[(0, 1), (1, 2), (1, 2)]);
    let lost = t.losing(1, &BTreeMap::new());
    assert_eq!(lost.len(), 3);
    t.cut(&lost);
    t.set_ports(1, BTreeMap::new(), false);
    assert_eq!(t.links().count(), 0);
    assert_eq!(t.changes_since(t.changes_made() - 3).unwrap().count(), 3);
}

proptest! {
    /// The arrays agree with the plain definition of a link, for any reports in any order.
    #[test]
    fn links_are_those_that_both_ends_report(
        reports in proptest::collection::vec(
            (0..4_u32, any::<bool>(),
             proptest::collection::btree_map(0..3_u8, (0..5_u64, 0..3_u8, 0..4_u8), 0..3)), 1..30))
    {
        let mut t = Topology::default();
        for id in 0..4 {
            t.add_node(id, "n", Time::ZERO);
        }
        let mut said: Vec<(bool, BTreeMap<u8, PortState>)> = vec![(false, BTreeMap::new()); 4];
        for (node, up, told) in reports {
            let told = ports(told.into_iter().map(|(number, (peer, peer_port, role))| {
                let role = if role == 0 { PortRole::TooSmall } else { PortRole::Fabric };
                port(number, role, peer, peer_port)
            }));
            let told = if up { told } else { BTreeMap::new() };
            let lost = t.losing(node, &told);
            t.cut(&lost);
            t.set_ports(node, told.clone(), up);
            said[node as usize] = (up, told);
            let claims = |a: u32, pa: u8, b: u32, pb: u8| {
                let (up, ports) = &said[a as usize];
                *up && ports.get(&pa).is_some_and(|p| leads_to(p, b.into(), pb))
            };
            let mut expected = Vec::new();
            for (a, b) in (0..4).flat_map(|a| (a + 1..4).map(move |b| (a, b))) {
                for (pa, pb) in (0..3).flat_map(|pa| (0..3).map(move |pb| (pa, pb))) {
                    if claims(a, pa, b, pb) && claims(b, pb, a, pa) {
                        expected.push([Place { node: a, port: pa }, Place { node: b, port: pb }]);
                    }
                }
            }
            let mut found: Vec<Ends> = t.links().map(|mut e| { e.sort(); e }).collect();
            found.sort();
            prop_assert_eq!(&found, &expected);
            for node in 0..4 {
                for edge in t.edges(node) {
                    let out = t.out(node, edge.port).unwrap();
                    prop_assert_eq!((out.link, out.to), (edge.link, edge.to));
                    prop_assert_eq!(end(&t, edge.link), edge.to);
                    prop_assert_eq!(end(&t, edge.link ^ 1), node);
                }
            }
            let edges: usize = (0..4).map(|n| t.edges(n).len()).sum();
            prop_assert_eq!(edges, 2 * expected.len());
        }
    }
}
