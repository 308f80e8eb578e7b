use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::topology::tests::{end, joined};
use crate::trees::search;

const POLICIES: [RoutePolicy; 3] = [RoutePolicy::Shortest, RoutePolicy::Ecmp, RoutePolicy::Spain];

fn ask<'a>(t: &'a Topology, d: &'a [u8], loads: &'a Loads, from: u32, hash: u64) -> Ask<'a> {
    Ask { topology: t, distance: d, loads, from, port: 9, hash, hops_max: 64 }
}

/// All shortest paths, as hops.
fn all_shortest(t: &Topology, d: &[u8], node: u32) -> BTreeSet<Vec<u8>> {
    if d[node as usize] == 0 {
        return BTreeSet::from([vec![9]]);
    }
    let closer = t.edges(node).iter().filter(|e| d[e.to as usize] + 1 == d[node as usize]);
    let ways = closer.flat_map(|e| {
        all_shortest(t, d, e.to).into_iter().map(|rest| [vec![e.port], rest].concat())
    });
    ways.collect()
}

#[test]
fn ecmp_finds_all_of_few_paths_and_lanes() {
    // Two lanes, then two paths of one lane each, then two lanes: eight paths.
    let pairs = [(0, 1), (0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5), (4, 5)];
    let t = joined(6, &pairs);
    let d = search(&t, 5, &BTreeSet::new());
    for hash in 0..50 {
        let found = of(RoutePolicy::Ecmp).routes(&ask(&t, &d, &Loads::default(), 0, hash));
        let found: BTreeSet<Vec<u8>> = found.to_hops().into_iter().collect();
        assert_eq!(found, all_shortest(&t, &d, 0));
        assert_eq!(found.len(), 8);
    }
}

#[test]
fn ecmp_spreads_flows_over_many_paths() {
    // Sixteen lanes: each flow gets eight, and all are used about equally.
    let t = joined(2, &[(0, 1); 16]);
    let d = search(&t, 1, &BTreeSet::new());
    let mut used: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let mut policy = of(RoutePolicy::Ecmp);
    for flow in 0..1000 {
        let found = policy.routes(&ask(&t, &d, &Loads::default(), 0, mix(flow, 1)));
        assert_eq!(found.iter().count(), 8);
        found.to_hops().into_iter().for_each(|hops| *used.entry(hops).or_default() += 1);
    }
    assert_eq!(used.len(), 16);
    assert!(used.values().all(|n| (350..650).contains(n)), "{used:?}");
}

#[test]
fn spain_spreads_over_lanes_and_takes_detours() {
    let mut policy = of(RoutePolicy::Spain);
    let t = joined(3, &[(0, 2), (0, 2), (0, 1), (1, 2)]);
    let d = search(&t, 2, &BTreeSet::new());
    let mut loads = Loads::default();
    let mut used = Vec::new();
    for _ in 0..6 {
        let found = policy.routes(&ask(&t, &d, &loads, 0, 0));
        let hops = found.to_hops().remove(0);
        t.walk(0, &hops, |link| loads.add(link));
        used.push(hops.len());
    }
    // Lane, lane, and the detour once both carry more than its two links.
    assert_eq!(used[..2], [2, 2]);
    assert_eq!(used.iter().filter(|n| **n == 3).count(), 1, "{used:?}");
}

/// This many routes on each link, and a bound computed from them.
fn loaded(t: &Topology, loads: &[u32]) -> Loads {
    let mut loaded = Loads::default();
    for (link, load) in (0..).zip(loads) {
        (0..*load).for_each(|_| loaded.add(link));
    }
    loaded.refresh(t);
    loaded
}

fn graph() -> impl Strategy<Value = Vec<(u32, u32)>> {
    proptest::collection::vec((0..9_u32, 0..9_u32), 1..24)
        .prop_map(|pairs| pairs.into_iter().filter(|(a, b)| a != b).collect())
}

proptest! {
    #[test]
    fn every_route_of_every_policy_arrives(pairs in graph(), hash in any::<u64>(),
        loads in proptest::collection::vec(0..5_u32, 48))
    {
        let t = joined(9, &pairs);
        for to in 0..9 {
            let d = search(&t, to, &BTreeSet::new());
            let loads = loaded(&t, &loads);
            for from in (0..9).filter(|f| *f != to && d[*f as usize] != FAR) {
                let shortest = all_shortest(&t, &d, from);
                for policy in POLICIES {
                    let found = of(policy).routes(&ask(&t, &d, &loads, from, hash));
                    prop_assert!(!found.is_empty());
                    for hops in found.iter() {
                        let mut seen = BTreeSet::new();
                        let mut node = from;
                        let end = t.walk(from, hops, |link| {
                            seen.insert(node);
                            node = end(&t, link);
                        });
                        prop_assert_eq!(end.map(|p| (p.node, p.port)), Some((to, 9)));
                        prop_assert_eq!(seen.len() + 1, hops.len(), "a loop: {:?}", hops);
                        if policy != RoutePolicy::Spain {
                            prop_assert!(shortest.contains(hops));
                        }
                    }
                    let distinct: BTreeSet<_> = found.iter().collect();
                    prop_assert_eq!(distinct.len(), found.iter().count());
                    if policy == RoutePolicy::Ecmp {
                        prop_assert!(distinct.len() > 1 || shortest.len() == 1);
                    }
                }
            }
        }
    }

    /// Compared with trying every path that is at most two links longer than the shortest.
    #[test]
    fn spain_takes_the_least_loaded_of_all_bounded_paths(pairs in graph(),
        loads in proptest::collection::vec(0..5_u32, 48))
    {
        let t = joined(9, &pairs);
        let d = search(&t, 0, &BTreeSet::new());
        let given = loads;
        let loads = loaded(&t, &given);
        for from in (1..9).filter(|f| d[*f as usize] != FAR) {
            let bound = usize::from(d[from as usize]) + 2;
            let mut best = u64::MAX;
            let mut open = vec![(from, 0_u64, 0)];
            while let Some((node, weight, links)) = open.pop() {
                if node == 0 {
                    best = best.min(weight);
                } else if links < bound {
                    for e in t.edges(node) {
                        let w = u64::from(given[e.link as usize]) * 65_536 + 1;
                        open.push((e.to, weight + w, links + 1));
                    }
                }
            }
            let found = of(RoutePolicy::Spain).routes(&ask(&t, &d, &loads, from, 0));
            let mut weight = 0;
            let hops = found.iter().next().unwrap();
            t.walk(from, hops, |l| weight += u64::from(given[l as usize]) * 65_536 + 1);
            prop_assert_eq!(weight, best);
        }
    }
}
