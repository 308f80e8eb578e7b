//! Small networks by hand, and any network against independent formulations.

use std::collections::BTreeMap;

use microlp::{ComparisonOp, OptimizationDirection, Problem as Simplex};
use petgraph::algo::ford_fulkerson;
use petgraph::graph::{DiGraph, NodeIndex};
use plexus_topo::{Device, Options, Shape, generate};
use proptest::prelude::*;

use super::*;
use crate::fixture::{LinkOf, seeded, topology};

fn demand(from: usize, to: usize, amount: f64) -> Demand {
    Demand { from, to, amount }
}

/// Load of each direction between two vertices that carries any, lanes and links added up.
fn by_pair(topology: &Topology, loads: &Loads) -> BTreeMap<(usize, usize), f64> {
    let mut sums = BTreeMap::new();
    for (from, to, load) in rows(topology, loads) {
        if load > 0.0 {
            *sums.entry((from, to)).or_insert(0.0) += load;
        }
    }
    sums
}

fn rows(topology: &Topology, loads: &Loads) -> Vec<(usize, usize, f64)> {
    let (nodes, hosts) = (topology.nodes.len(), topology.hosts.len());
    let vertex = |device| match device {
        Device::Node(node) => node,
        Device::Host(host) => nodes + host,
        Device::Bridge(bridge) => nodes + hosts + bridge,
    };
    let row = |c: &CableLoad| {
        let ends = topology.links[c.link].devices().map(vertex);
        let [a, b] = if c.reversed { [ends[1], ends[0]] } else { ends };
        (a, b, c.load)
    };
    loads.cables.iter().map(row).collect()
}

fn lay(topology: &Topology, demands: &[Demand], routing: Routing) -> Loads {
    loads(topology, demands, routing).unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs())
}

/// 0 with 1 and 2, which lead to 3, 2 by two lanes.
const DIAMOND: [LinkOf; 4] = [(0, 1, 1, None), (0, 2, 1, None), (1, 3, 1, None), (2, 3, 2, None)];

#[test]
fn shortest_takes_the_first_neighbour_and_cable() {
    let t = topology(4, &DIAMOND, &[], None);
    let found = lay(&t, &[demand(0, 3, 2.0), demand(3, 2, 5.0)], Routing::Shortest);
    assert_eq!(by_pair(&t, &found), BTreeMap::from([((0, 1), 2.0), ((1, 3), 2.0), ((3, 2), 5.0)]));
    let lanes: Vec<_> = found.cables.iter().filter(|c| c.link == 3 && c.reversed).collect();
    assert_eq!((lanes[0].load, lanes[1].load), (5.0, 0.0));
    assert_eq!((found.max, found.mean), (5.0, 9.0 / 10.0));
}

#[test]
fn ecmp_shares_equally_at_every_vertex_and_lane() {
    let t = topology(4, &DIAMOND, &[], None);
    let found = lay(&t, &[demand(0, 3, 2.0), demand(3, 0, 3.0)], Routing::Ecmp);
    // On the way back vertex 3 has three cables that lead closer.
    let pairs = [((0, 1), 1.0), ((0, 2), 1.0), ((1, 3), 1.0), ((2, 3), 1.0)];
    let back = [((3, 1), 1.0), ((3, 2), 2.0), ((1, 0), 1.0), ((2, 0), 2.0)];
    assert_eq!(by_pair(&t, &found), BTreeMap::from_iter(pairs.into_iter().chain(back)));
    assert!(found.cables.iter().filter(|c| c.link == 3 && !c.reversed).all(|c| c.load == 0.5));
}

#[test]
fn spain_spreads_flows_and_takes_detours() {
    let t = topology(3, &[(0, 2, 2, None), (0, 1, 1, None), (1, 2, 1, None)], &[], None);
    let flows = [demand(0, 2, 7.0); 6];
    let found = lay(&t, &flows, Routing::Spain);
    // Lane, lane, and once both carry more than the detour's two links, the detour: as the
    // controller's policy does. Of six, one goes around.
    let sums = BTreeMap::from([((0, 1), 7.0), ((0, 2), 35.0), ((1, 2), 7.0)]);
    assert_eq!(by_pair(&t, &found), sums);
    assert_eq!(found.max, 21.0);
}

#[test]
fn ksp_lp_balances_ways_of_different_length() {
    let t = topology(3, &[(0, 2, 1, None), (0, 1, 1, None), (1, 2, 1, None)], &[], None);
    let found = lay(&t, &[demand(0, 2, 3.0)], Routing::KspLp);
    assert!(found.cables.iter().filter(|c| !c.reversed).all(|c| close(c.load, 1.5)), "{found:?}");
    assert!(close(found.max, 1.5) && close(found.lower_bound, 1.5));
    assert_eq!(found.bound_by, BoundBy::Lp);
}

#[test]
fn valiant_goes_by_way_of_every_node() {
    let t = topology(3, &[(0, 1, 1, None), (1, 2, 1, None), (0, 2, 1, None)], &[], None);
    let found = lay(&t, &[demand(0, 1, 3.0)], Routing::Oblivious);
    let sums = BTreeMap::from([((0, 1), 2.0), ((0, 2), 1.0), ((2, 1), 1.0)]);
    assert_eq!(by_pair(&t, &found), sums);
}

#[test]
fn optimising_routings_weigh_load_against_rate() {
    let (fast, slow) = (Some(10_000_000_000), Some(1_000_000_000));
    let links = [(0, 1, 1, fast), (1, 3, 1, fast), (0, 2, 1, slow), (2, 3, 1, slow)];
    let t = topology(4, &links, &[], None);
    for routing in [Routing::KspLp, Routing::Best] {
        let found = lay(&t, &[demand(0, 3, 5.5e9)], routing);
        let sums = by_pair(&t, &found);
        assert!(close(sums[&(0, 1)], 5e9) && close(sums[&(2, 3)], 0.5e9), "{sums:?}");
        assert!(close(found.max_utilisation.unwrap(), 0.5));
        assert!(close(found.utilisation_bound.unwrap(), 0.5));
        // Had load itself been levelled, each way would carry half.
        assert!(close(found.lower_bound, 2.75e9) && close(found.max, 5e9));
    }
    // A link without a rate never fills.
    let t = topology(4, &[(0, 1, 1, None), (1, 3, 1, None), links[2], links[3]], &[], None);
    let found = lay(&t, &[demand(0, 3, 5.5e9)], Routing::Best);
    assert!(found.max_utilisation.unwrap() < 1e-6, "{found:?}");
    assert!(close(found.lower_bound, 2.75e9));
}

#[test]
fn what_has_no_path_is_counted_and_nothing_else() {
    // h0 and h1 at node 0, h2 at node 1; node 2 is alone; h3 is at both islands, but forwards not.
    let t = topology(3, &[(0, 1, 1, None)], &[&[0], &[0], &[1], &[1, 2], &[]], None);
    let [h0, h1, h2, h3, h4] = [3, 4, 5, 6, 7];
    let demands = [
        demand(h0, h1, 1.0),
        demand(h0, h2, 2.0),
        demand(h0, 2, 4.0),
        demand(h0, h3, 8.0),
        demand(h3, 2, 16.0),
        demand(h4, h0, 32.0),
        demand(0, h1, 64.0),
    ];
    for routing in Routing::ALL {
        let found = lay(&t, &demands, routing);
        assert_eq!(found.unrouted, 4.0 + 32.0, "{routing:?}");
        let sums = by_pair(&t, &found);
        let expected = [
            ((h0, 0), 11.0),
            ((0, h1), 65.0),
            ((0, 1), 10.0),
            ((1, h2), 2.0),
            ((1, h3), 8.0),
            ((h3, 2), 16.0),
        ];
        assert_eq!(sums.len(), expected.len(), "{routing:?}: {sums:?}");
        assert!(expected.iter().all(|(pair, load)| close(sums[pair], *load)), "{sums:?}");
        assert_eq!(found.max, 65.0);
        assert_eq!(found.lower_bound, 65.0);
    }
}

/// Access cables are no room for the core: at the mean load, no cable has less.
#[test]
fn hosts_do_not_weaken_the_bound_of_a_large_network() {
    let options = Options { hosts_per_node: 20, ..Options::default() };
    let t = generate(&Shape::Torus { sides: vec![18, 18] }, options).unwrap();
    // Every node to the farthest: 18 links, which fill all cables alike.
    let far = |node: usize| (node / 18 + 9) % 18 * 18 + (node % 18 + 9) % 18;
    let host = |node: usize| 324 + 20 * node;
    let demands: Vec<Demand> = (0..324).map(|n| demand(host(n), host(far(n)), 4.0)).collect();
    let found = lay(&t, &demands, Routing::Ecmp);
    assert_eq!(found.bound_by, BoundBy::Lengths);
    assert!(close(found.max, 18.0) && close(found.lower_bound, 18.0), "{}", found.lower_bound);
}

#[test]
fn nothing_and_very_much() {
    let t = generate(&Shape::Ring { nodes: 5 }, Options::default()).unwrap();
    for routing in Routing::ALL {
        for demands in [vec![], vec![demand(0, 1, 0.0)]] {
            let found = lay(&t, &demands, routing);
            let zeros = (found.max, found.mean, found.lower_bound, found.unrouted);
            assert_eq!(zeros, (0.0, 0.0, 0.0, 0.0), "{routing:?}");
            assert_eq!(found.cables.len(), 20);
        }
        // Huge beside tiny, and a pair twice.
        let demands = [demand(0, 2, 1e18), demand(5, 7, 1.0), demand(0, 2, 1e18)];
        let found = lay(&t, &demands, routing);
        assert!(found.max >= 1e18 && found.lower_bound <= found.max, "{routing:?}");
        assert!(found.cables.iter().all(|c| c.load.is_finite() && c.load >= 0.0));
    }
    let lan = topology(1, &[], &[&[0], &[0]], None);
    let found = lay(&lan, &[demand(1, 2, 3.0)], Routing::Best);
    assert_eq!((found.max, found.lower_bound, found.routing), (3.0, 3.0, "shortest"));
    let none = topology(0, &[], &[], None);
    assert_eq!(lay(&none, &[], Routing::Best).mean, 0.0);
}

#[test]
fn what_is_no_demand_is_refused() {
    let t = topology(2, &[(0, 1, 1, None)], &[], None);
    for (bad, why) in [
        (demand(0, 1, -1.0), LoadsError::Amount(0)),
        (demand(0, 1, f64::NAN), LoadsError::Amount(0)),
        (demand(0, 1, f64::INFINITY), LoadsError::Amount(0)),
        (demand(0, 0, 1.0), LoadsError::Vertex(0)),
        (demand(0, 9, 1.0), LoadsError::Vertex(0)),
        (demand(0, 1, f64::MAX), LoadsError::Total),
    ] {
        assert_eq!(loads(&t, &[bad], Routing::Best), Err(why));
    }
}

fn networks() -> impl Strategy<Value = (Topology, Vec<Demand>)> {
    let rate = prop_oneof![Just(None), Just(Some(1)), Just(Some(10))];
    let links = proptest::collection::vec((0..7_usize, 0..7_usize, 1..3_usize, rate), 3..14);
    let hosts = proptest::collection::vec(proptest::collection::vec(0..7_usize, 1..3), 0..4);
    let demands = proptest::collection::vec((0..64_usize, 0..64_usize, 0..9_u32), 0..12);
    (links, hosts, demands, any::<bool>()).prop_map(|(links, hosts, demands, rated)| {
        let links: Vec<LinkOf> = links
            .into_iter()
            .filter(|l| l.0 != l.1)
            .map(|(a, b, lanes, rate)| (a, b, lanes, rate.filter(|_| rated)))
            .collect();
        let hosts: Vec<&[usize]> = hosts.iter().map(Vec::as_slice).collect();
        let t = topology(7, &links, &hosts, rated.then_some(5));
        let vertices = t.nodes.len() + t.hosts.len();
        let demands = demands.into_iter().map(|(a, b, n)| (a % vertices, b % vertices, n));
        let demands = demands.filter(|d| d.0 != d.1).map(|(a, b, n)| demand(a, b, f64::from(n)));
        (t, demands.collect())
    })
}

/// All simple paths between two vertices, as pairs of vertices.
fn simple_paths(t: &Topology, from: usize, to: usize) -> Vec<Vec<(usize, usize)>> {
    let graph = plexus_topo::Graph::new(t);
    let mut found = Vec::new();
    let mut stack = vec![vec![from]];
    while let Some(path) = stack.pop() {
        let at = path[path.len() - 1];
        if at == to {
            found.push(path.windows(2).map(|w| (w[0], w[1])).collect());
            continue;
        }
        if at >= t.nodes.len() && at != from {
            continue;
        }
        let mut next: Vec<usize> = graph.edges(at).iter().map(|e| e.to).collect();
        next.dedup();
        let fresh = next.into_iter().filter(|v| !path.contains(v));
        stack.extend(fresh.map(|v| [&path[..], &[v]].concat()));
    }
    found
}

/// Least maximum of load over capacity, by the simplex method over all simple paths.
fn least_maximum(t: &Topology, demands: &[Demand], rated: bool) -> f64 {
    let mut simplex = Simplex::new(OptimizationDirection::Minimize);
    let max = simplex.add_var(1.0, (0.0, f64::INFINITY));
    let mut capacity: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    let graph = plexus_topo::Graph::new(t);
    for vertex in 0..graph.len() {
        for edge in graph.edges(vertex) {
            let link = &t.links[edge.link];
            let each = link.rate_bits_per_s.map_or(f64::INFINITY, |rate| rate as f64);
            let each = if rated { each } else { 1.0 };
            *capacity.entry((vertex, edge.to)).or_default() += each * link.cables.len() as f64;
        }
    }
    let mut carried: BTreeMap<(usize, usize), Vec<_>> = BTreeMap::new();
    for demand in demands.iter().filter(|d| d.amount > 0.0) {
        let paths = simple_paths(t, demand.from, demand.to);
        let mut sum = Vec::new();
        for path in paths {
            let variable = simplex.add_var(0.0, (0.0, f64::INFINITY));
            sum.push((variable, 1.0));
            path.into_iter().for_each(|pair| carried.entry(pair).or_default().push(variable));
        }
        if !sum.is_empty() {
            simplex.add_constraint(&sum[..], ComparisonOp::Eq, demand.amount);
        }
    }
    for (pair, variables) in carried.into_iter().filter(|(p, _)| capacity[p].is_finite()) {
        let mut sum: Vec<_> = variables.into_iter().map(|v| (v, 1.0)).collect();
        sum.push((max, -capacity[&pair]));
        simplex.add_constraint(&sum[..], ComparisonOp::Le, 0.0);
    }
    simplex.solve().unwrap().objective()
}

/// ECMP without a thought for speed: every demand walks down on its own, over distances that
/// petgraph measures.
fn naive_ecmp(t: &Topology, demands: &[Demand]) -> Vec<(usize, usize, f64)> {
    let graph = plexus_topo::Graph::new(t);
    let mut loads = vec![[0.0; 2]; t.cables().count()];
    let cables: Vec<[usize; 2]> =
        t.cables().map(|(_, _, ends)| ends.map(|e| graph.vertex(e.device()))).collect();
    for d in demands {
        // Hosts other than the two ends are left out, since they forward nothing.
        let open = |v: usize| v < t.nodes.len() || v == d.from || v == d.to;
        let mut pg = DiGraph::<(), ()>::new();
        (0..graph.len()).for_each(|_| _ = pg.add_node(()));
        for [a, b] in cables.iter().filter(|[a, b]| open(*a) && open(*b)) {
            pg.add_edge(NodeIndex::new(*a), NodeIndex::new(*b), ());
            pg.add_edge(NodeIndex::new(*b), NodeIndex::new(*a), ());
        }
        let hops = petgraph::algo::dijkstra(&pg, NodeIndex::new(d.to), None, |_| 1_u32);
        let far = |v: usize| hops.get(&NodeIndex::new(v)).copied();
        let mut walking = vec![(d.from, d.amount)];
        while let Some((at, amount)) = walking.pop() {
            let Some(here) = far(at).filter(|h| *h > 0) else { continue };
            let mut next = Vec::new();
            for (i, [a, b]) in cables.iter().enumerate() {
                for (from, to, direction) in [(*a, *b, 0), (*b, *a, 1)] {
                    if from == at && open(to) && far(to) == Some(here - 1) {
                        next.push((i, direction, to));
                    }
                }
            }
            for (i, direction, to) in &next {
                loads[*i][*direction] += amount / next.len() as f64;
                walking.push((*to, amount / next.len() as f64));
            }
        }
    }
    let both = cables.iter().zip(loads).flat_map(|([a, b], l)| [(*a, *b, l[0]), (*b, *a, l[1])]);
    both.collect()
}

proptest! {
    #![proptest_config(seeded(256))]

    #[test]
    fn every_routing_conserves_flow_and_obeys_the_bound((t, demands) in networks()) {
        let rated = t.links.iter().any(|l| l.rate_bits_per_s.is_some());
        let least = least_maximum(&t, &demands, false);
        let least_used = rated.then(|| least_maximum(&t, &demands, true));
        let mut best_of_others = f64::INFINITY;
        for routing in Routing::ALL {
            let found = lay(&t, &demands, routing);
            prop_assert_eq!(&found, &lay(&t, &demands, routing), "not the same twice");
            let mut surplus = vec![0.0; t.nodes.len() + t.hosts.len()];
            for (from, to, load) in rows(&t, &found) {
                surplus[from] += load;
                surplus[to] -= load;
            }
            let mut unrouted = 0.0;
            for d in &demands {
                if simple_paths(&t, d.from, d.to).is_empty() {
                    unrouted += d.amount;
                } else {
                    surplus[d.from] -= d.amount;
                    surplus[d.to] += d.amount;
                }
            }
            prop_assert_eq!(unrouted, found.unrouted);
            prop_assert!(surplus.iter().all(|s| s.abs() < 1e-9), "{:?}: {:?}", routing, surplus);
            let most = found.cables.iter().map(|c| c.load).fold(0.0, f64::max);
            prop_assert_eq!(most, found.max);
            // Never above the optimum, by the other formulation, and close to it.
            prop_assert!(found.lower_bound <= found.max);
            prop_assert!(found.lower_bound <= least * (1.0 + 1e-9));
            prop_assert!(close(found.lower_bound, least), "{} {}", found.lower_bound, least);
            let objective = if let (Some(used), Some(bound), Some(least)) =
                (found.max_utilisation, found.utilisation_bound, least_used)
            {
                prop_assert!(bound <= used && bound <= least * (1.0 + 1e-9));
                prop_assert!(close(bound, least) || least < 1e-9, "{} {}", bound, least);
                used
            } else {
                found.max
            };
            if routing == Routing::Best {
                prop_assert!(objective <= best_of_others);
                let optimum = least_used.unwrap_or(least);
                prop_assert!(close(objective, optimum) || optimum < 1e-9);
            }
            best_of_others = best_of_others.min(objective);
        }
    }

    #[test]
    fn ecmp_is_what_the_naive_walk_finds((t, demands) in networks()) {
        let found = rows(&t, &lay(&t, &demands, Routing::Ecmp));
        let naive = naive_ecmp(&t, &demands);
        prop_assert_eq!(found.len(), naive.len());
        for (ours, theirs) in found.iter().zip(&naive) {
            prop_assert_eq!((ours.0, ours.1), (theirs.0, theirs.1));
            prop_assert!((ours.2 - theirs.2).abs() < 1e-9, "{:?} {:?}", ours, theirs);
        }
    }

    #[test]
    fn one_demand_meets_the_maximum_flow((t, demands) in networks()) {
        let Some(d) = demands.iter().find(|d| d.amount > 0.0 && d.from < 7 && d.to < 7) else {
            return Ok(());
        };
        let mut pg = DiGraph::<(), u32>::new();
        (0..7).for_each(|_| _ = pg.add_node(()));
        for link in &t.links {
            if let [Device::Node(a), Device::Node(b)] = link.devices() {
                let lanes = link.cables.len() as u32;
                pg.add_edge(NodeIndex::new(a), NodeIndex::new(b), lanes);
                pg.add_edge(NodeIndex::new(b), NodeIndex::new(a), lanes);
            }
        }
        let flow = ford_fulkerson(&pg, NodeIndex::new(d.from), NodeIndex::new(d.to)).0;
        let found = lay(&t, &[*d], Routing::Ecmp);
        if flow == 0 {
            prop_assert_eq!((found.lower_bound, found.unrouted), (0.0, d.amount));
        } else {
            prop_assert!(close(found.lower_bound, d.amount / f64::from(flow)));
        }
    }

    /// What serves networks too large for the program, held against it.
    #[test]
    fn spreading_comes_close_to_the_program((t, demands) in networks()) {
        let net = Net::new(&t);
        let core = net.core(&demands);
        let capacity = net.channel_capacities(&net.capacities(false));
        if let Some(exact) = lp::all_ways(&net, &core.commodities, &capacity) {
            let spread = spread::over_trees(&net, &core.commodities, &capacity);
            let best = spread::max_utilisation(&exact.loads, &capacity);
            let found = spread::max_utilisation(&spread.loads, &capacity);
            prop_assert!(spread.bound <= best * (1.0 + 1e-9));
            prop_assert!(found >= exact.bound && found <= best * 1.05, "{} {}", found, best);
            prop_assert!(spread.bound >= best * 0.95, "{} {}", spread.bound, best);
        }
    }
}

#[test]
fn paths_are_the_shortest_in_order() {
    let t = generate(&Shape::Torus { sides: vec![3, 3] }, Options::default()).unwrap();
    let net = Net::new(&t);
    for (from, to) in [(0, 1), (0, 4), (0, 8)] {
        let mut all: Vec<usize> = simple_paths(&t, from, to).iter().map(Vec::len).collect();
        all.sort_unstable();
        let found = paths::Paths::new(&net).shortest(from, to, 40);
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), all[..40]);
        let distinct: std::collections::BTreeSet<_> = found.iter().collect();
        assert_eq!(distinct.len(), 40);
    }
}
