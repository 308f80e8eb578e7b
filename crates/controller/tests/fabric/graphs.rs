//! Small graphs, each once.

use std::collections::BTreeSet;

/// Node pairs.
pub(crate) type Pairs = Vec<(usize, usize)>;

/// Every connected graph of `n` nodes, up to isomorphism.
pub(crate) fn connected(n: usize) -> Vec<Pairs> {
    let all: Pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect();
    let bit = |a: usize, b: usize| all.iter().position(|&p| p == (a.min(b), a.max(b))).unwrap();
    let orders = orders(n);
    // The image of each pair under each permutation of the nodes.
    let moved: Vec<Vec<usize>> =
        orders.iter().map(|o| all.iter().map(|&(a, b)| bit(o[a], o[b])).collect()).collect();
    let mut seen = vec![false; 1 << all.len()];
    let mut found = Vec::new();
    for mask in 0..1usize << all.len() {
        if seen[mask] {
            continue;
        }
        let set: Vec<usize> = (0..all.len()).filter(|i| mask >> i & 1 == 1).collect();
        for to in &moved {
            seen[set.iter().fold(0, |m, &i| m | 1 << to[i])] = true;
        }
        let pairs: Pairs = set.iter().map(|&i| all[i]).collect();
        if reached(&pairs) == n {
            found.push(pairs);
        }
    }
    found
}

fn reached(pairs: &Pairs) -> usize {
    let mut known = BTreeSet::from([0]);
    for _ in pairs {
        for &(a, b) in pairs {
            if known.contains(&a) || known.contains(&b) {
                known.extend([a, b]);
            }
        }
    }
    known.len()
}

/// Every permutation of the numbers below `n`.
pub(crate) fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![vec![]];
    }
    let shorter = orders(n - 1);
    let put = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, n - 1);
        order
    };
    shorter.iter().flat_map(|o| (0..n).map(move |at| put(o, at))).collect()
}

#[test]
fn there_are_as_many_connected_graphs_as_there_should_be() {
    // OEIS A001349.
    let counts: Vec<usize> = (2..=6).map(|n| connected(n).len()).collect();
    assert_eq!(counts, [1, 2, 6, 21, 112]);
}
