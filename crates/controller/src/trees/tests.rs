use proptest::prelude::*;

use super::*;
use crate::topology::tests::joined;

#[test]
fn distances_count_links() {
    let t = joined(5, &[(0, 1), (1, 2), (2, 3), (3, 0)]);
    assert_eq!(search(&t, 0, &BTreeSet::new()), [0, 1, 2, 1, FAR]);
    assert_eq!(Trees::default().to(&t, 2), [2, 1, 0, 1, FAR]);
}

#[test]
fn no_path_leads_through_a_node_that_is_avoided() {
    // A ring of five, of which node 1 is avoided: it is near to nobody, and others are near to it.
    let t = joined(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]);
    let mut trees = Trees::default();
    trees.avoid([1].into());
    assert_eq!(trees.to(&t, 2), [3, FAR, 0, 1, 2]);
    assert_eq!(trees.to(&t, 1), [1, 0, 1, 2, 2]);
    trees.avoid([].into());
    assert_eq!(trees.to(&t, 2), [2, 1, 0, 1, 2]);
}

proptest! {
    /// Repaired trees equal those of a search, after any removals and additions, several at a time.
    #[test]
    fn mended_trees_are_searched_trees(
        pairs in proptest::collection::vec((0..12_u32, 0..12_u32), 1..40),
        steps in proptest::collection::vec(
            (proptest::collection::vec(any::<prop::sample::Index>(), 0..4), any::<bool>()), 1..12))
    {
        let pairs: Vec<_> = pairs.into_iter().filter(|(a, b)| a != b).collect();
        let full = joined(12, &pairs);
        let mut t = full.clone();
        let mut trees = Trees::default();
        for (cut, restore) in steps {
            // Remove some links; the node where they begin then reports its ports again, or not.
            for at in &cut {
                let slots: Vec<u32> =
                    (0..12).flat_map(|n| t.edges(n).iter().map(|e| e.link / 2)).collect();
                if slots.is_empty() { break }
                let slot = slots[at.index(slots.len())];
                t.cut(&[slot]);
            }
            if restore {
                let node = cut.first().map_or(0, |at| at.index(12)) as u32;
                let ports = full.node(node).ports.clone();
                t.set_ports(node, ports, true);
            }
            for destination in 0..12 {
                let searched = search(&t, destination, &BTreeSet::new());
                prop_assert_eq!(trees.to(&t, destination), searched);
            }
        }
    }
}
