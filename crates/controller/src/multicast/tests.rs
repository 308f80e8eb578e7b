use std::collections::{BTreeMap, BTreeSet};

use plexus_wire::MacAddr;
use proptest::prelude::*;

use super::shape::{credits, grow};
use crate::topology::Place;
use crate::topology::tests::joined;
use crate::trees::{FAR, search};

const GROUP: MacAddr = MacAddr([1, 0, 0x5E, 1, 2, 3]);
/// The host port of every node.
const HOST: u8 = 200;

proptest! {
    /// On any graph, from any node: a frame that every node copies to its ports in the tree, except
    /// the incoming one, reaches each listener once, crosses no cable towards nodes without
    /// listeners, and has enough credits.
    #[test]
    fn a_tree_reaches_each_listener_once_from_anywhere(
        pairs in proptest::collection::vec((0..10_u32, 0..10_u32), 1..30),
        listening in proptest::collection::btree_set(0..10_u32, 1..6),
        senders in proptest::collection::btree_set(0..10_u32, 1..4),
    ) {
        let pairs: Vec<_> = pairs.into_iter().filter(|(a, b)| a != b).collect();
        let t = joined(10, &pairs);
        let core = *listening.first().unwrap();
        let distance = search(&t, core, &BTreeSet::new());
        let near = |n: &u32| distance[*n as usize] != FAR;
        let places: BTreeSet<Place> =
            listening.iter().filter(|n| near(n)).map(|&node| Place { node, port: HOST }).collect();
        let senders: BTreeSet<u32> = senders.into_iter().filter(near).collect();
        let nodes = places.iter().map(|p| p.node).chain(senders.iter().copied()).collect();
        let shape = grow(&t, &distance, GROUP, &nodes, &places);
        for &sender in &senders {
            let mut got: BTreeMap<Place, usize> = BTreeMap::new();
            let mut moving = vec![(sender, None::<u8>, 0)];
            let mut passed = 0;
            while let Some((node, from, links)) = moving.pop() {
                passed += 1;
                prop_assert!(passed <= 10, "round and round");
                prop_assert!(links == 0 || links - 1 <= credits(shape.links_from(sender)));
                let mut copies = 0;
                for &port in &shape.ports[&node] {
                    if from == Some(port) {
                        continue;
                    }
                    copies += 1;
                    if port == HOST {
                        *got.entry(Place { node, port }).or_default() += 1;
                        continue;
                    }
                    let edge = t.edges(node).iter().find(|e| e.port == port).unwrap();
                    moving.push((edge.to, Some(edge.peer_port), links + 1));
                }
                prop_assert!(copies > 0, "a useless copy at {}", node);
            }
            prop_assert!(got.values().all(|n| *n == 1), "{:?}", got);
            prop_assert_eq!(got.keys().copied().collect::<BTreeSet<_>>(), places.clone());
        }
    }
}

#[test]
fn groups_spread_over_equal_ways() {
    // Eight lanes: each group uses one, and together they use all.
    let t = joined(2, &[(0, 1); 8]);
    let (distance, nodes) = (search(&t, 0, &BTreeSet::new()), BTreeSet::from([0, 1]));
    let places = BTreeSet::from([0, 1].map(|node| Place { node, port: HOST }));
    let mut used = BTreeSet::new();
    for n in 0..200 {
        let shape = grow(&t, &distance, MacAddr([1, 0, 0x5E, 0, 0, n]), &nodes, &places);
        assert_eq!(shape.links.len(), 1);
        used.extend(shape.links);
    }
    assert_eq!(used.len(), 8);
}
