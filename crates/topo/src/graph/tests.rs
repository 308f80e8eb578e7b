use petgraph::algo::dijkstra;
use petgraph::graph::{NodeIndex, UnGraph};
use proptest::prelude::*;

use super::*;

/// A graph of nodes alone, with its links' costs.
fn random_graph() -> impl Strategy<Value = (usize, Vec<[usize; 2]>, Vec<u64>)> {
    (1..24_usize).prop_flat_map(|n| {
        let links = proptest::collection::vec(([0..n, 0..n], 0..6_u64), 0..60);
        links.prop_map(move |links| {
            let (pairs, costs) = links.into_iter().filter(|([a, b], _)| a != b).unzip();
            (n, pairs, costs)
        })
    })
}

fn oracle(n: usize, links: &[[usize; 2]], costs: &[u64]) -> UnGraph<(), u64> {
    let mut graph = UnGraph::default();
    for _ in 0..n {
        graph.add_node(());
    }
    for ([a, b], cost) in links.iter().zip(costs) {
        graph.add_edge(NodeIndex::new(*a), NodeIndex::new(*b), *cost);
    }
    graph
}

proptest! {
    #[test]
    fn distances_agree_with_petgraph((n, links, costs) in random_graph()) {
        let graph = Graph::from_links(n, 0, 0, links.iter().copied());
        let oracle = oracle(n, &links, &costs);
        for from in 0..n {
            let row = graph.hops(from);
            let hops = dijkstra(&oracle, NodeIndex::new(from), None, |_| 1_u32);
            let cheapest = dijkstra(&oracle, NodeIndex::new(from), None, |e| *e.weight());
            let paths = graph.cheapest(from, |link| costs[link]);
            for (to, found) in row.iter().enumerate() {
                let expected = hops.get(&NodeIndex::new(to)).copied().unwrap_or(UNREACHABLE);
                prop_assert_eq!(*found, expected);
                prop_assert_eq!(paths.cost(to), cheapest.get(&NodeIndex::new(to)).copied());
            }
        }
    }

    #[test]
    fn a_path_is_connected_and_costs_what_it_says((n, links, costs) in random_graph()) {
        let graph = Graph::from_links(n, 0, 0, links.iter().copied());
        let paths = graph.cheapest(0, |link| costs[link]);
        for to in 0..n {
            let Some(path) = paths.path(to) else { continue };
            let mut at = 0;
            let mut cost = 0;
            for step in path {
                let [a, b] = links[step.link];
                prop_assert!([a, b] == [at, step.to] || [b, a] == [at, step.to]);
                at = step.to;
                cost += costs[step.link];
            }
            prop_assert_eq!(at, to);
            prop_assert_eq!(Some(cost), paths.cost(to));
        }
    }

    /// A link's place in the list breaks ties between parallel links only.
    #[test]
    fn the_order_of_links_does_not_change_the_way((n, links, costs) in random_graph()) {
        let graph = Graph::from_links(n, 0, 0, links.iter().copied());
        let reversed = Graph::from_links(n, 0, 0, links.iter().rev().copied());
        let steps = |paths: &Paths, to| {
            paths.path(to).map(|p| p.into_iter().map(|e| e.to).collect::<Vec<_>>())
        };
        let last = links.len().saturating_sub(1);
        let a = graph.cheapest(0, |link| costs[link]);
        let b = reversed.cheapest(0, |link| costs[last - link]);
        for to in 0..n {
            prop_assert_eq!(steps(&a, to), steps(&b, to));
        }
    }
}

/// Two nodes joined only through a host with two cables: vertices 0, 1 and host 2.
#[test]
fn no_path_leads_through_a_host() {
    let graph = Graph::from_links(2, 1, 0, [[0, 2], [2, 1]]);
    assert_eq!(graph.hops(0), [0, UNREACHABLE, 1]);
    assert_eq!(graph.hops(2), [1, 1, 0]);
    assert_eq!(graph.cheapest(0, |_| 1).path(1), None);
    assert_eq!(graph.cheapest(2, |_| 1).cost(1), Some(1));
}

#[test]
fn ties_go_to_the_smaller_vertex() {
    // A square: 0-1-3 and 0-2-3.
    let graph = Graph::from_links(4, 0, 0, [[0, 2], [2, 3], [0, 1], [1, 3]]);
    let path = graph.cheapest(0, |_| 1).path(3).unwrap();
    assert_eq!(path.iter().map(|e| e.to).collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn costs_do_not_wrap() {
    let graph = Graph::from_links(3, 0, 0, [[0, 1], [1, 2]]);
    assert_eq!(graph.cheapest(0, |_| u64::MAX).cost(2), Some(u64::MAX - 1));
    assert_eq!(graph.cheapest(7, |_| 1).cost(0), None);
    assert!(graph.hops(7).iter().all(|h| *h == UNREACHABLE));
}

#[test]
fn a_bridge_carries_paths_and_a_host_does_not() {
    // Nodes 0 and 1, host 2, bridge 3: both nodes at the bridge and at the host.
    let graph = Graph::from_links(2, 1, 1, [[0, 2], [2, 1], [0, 3], [3, 1]]);
    let path = graph.cheapest(0, |_| 1).path(1).unwrap();
    assert_eq!(path.iter().map(|e| e.to).collect::<Vec<_>>(), [3, 1]);
    assert_eq!([2, 3].map(|v| graph.device(v)), [Device::Host(0), Device::Bridge(0)]);
    assert_eq!(graph.vertex(Device::Bridge(0)), 3);
}
