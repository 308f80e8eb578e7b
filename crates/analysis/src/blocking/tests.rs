//! Networks whose answer is known, and small ones against trying everything without a thought.

use plexus_topo::{Options, Shape, generate};
use proptest::prelude::*;

use super::*;
use crate::fixture::{LinkOf, seeded, topology};

fn answer(topology: &Topology) -> Answer {
    non_blocking(topology, 1).unwrap().answer
}

fn why(topology: &Topology) -> String {
    match answer(topology) {
        Answer::Proven(why) => why,
        other => panic!("{other:?}"),
    }
}

fn blocking(topology: &Topology) -> CounterExample {
    match answer(topology) {
        Answer::Blocking(example) => example,
        other => panic!("{other:?}"),
    }
}

/// k-ary n-flat with `hosts` hosts on each node, each channel `lanes` times.
fn butterfly(side: usize, dimensions: u32, hosts: usize, lanes: usize) -> Topology {
    let nodes = side.pow(dimensions);
    let mut links: Vec<LinkOf> = Vec::new();
    for a in 0..nodes {
        for b in a + 1..nodes {
            let digit = |node: usize, d: u32| node / side.pow(d) % side;
            if (0..dimensions).filter(|d| digit(a, *d) != digit(b, *d)).count() == 1 {
                links.push((a, b, lanes, None));
            }
        }
    }
    let at: Vec<[usize; 1]> = (0..nodes * hosts).map(|h| [h / hosts]).collect();
    topology(nodes, &links, &at.iter().map(|a| &a[..]).collect::<Vec<_>>(), None)
}

#[test]
fn the_seeds_sixteen_port_switch_is_non_blocking_and_its_single_form_is_not() {
    // Seed `netfpga-aurora` §4: 2-ary 2-dilated flattened butterfly of 8 boards.
    let t = butterfly(2, 3, 2, 2);
    assert!(why(&t).contains("2 x 2 x 2"), "{}", why(&t));
    // By trying everything too, which knows nothing of butterflies.
    let fabric = Fabric::new(&t).unwrap();
    let Exhausted::Proven(tried) = exhaust(&fabric) else { panic!("not exhausted") };
    assert!(tried.contains("2 permutations of nodes"), "{tried}");
    // Hashing and greedy routing do block in it.
    let found = non_blocking(&t, 1).unwrap();
    assert!(found.hashing.blocked > 0 && found.greedy.blocked > 0, "{found:?}");
    // Halves have eight hosts and four single channels.
    let example = blocking(&butterfly(2, 3, 2, 1));
    let cut = example.cut.unwrap();
    assert_eq!((cut.hosts, cut.demand, cut.capacity), (8, 8.0, 4.0));
    assert_eq!(cut.devices.len(), 4);
    assert_eq!(example.utilisation_min, 2.0);
}

#[test]
fn two_boards_of_the_seed_match_their_hosts() {
    // Seed `netfpga-aurora` §2: four 1 Gb/s ports a board, two cables of 2 Gb/s between them.
    let gbit = 1_000_000_000;
    let hosts: Vec<[usize; 1]> = (0..8).map(|h| [h / 4]).collect();
    let hosts: Vec<&[usize]> = hosts.iter().map(|h| &h[..]).collect();
    let t = topology(2, &[(0, 1, 2, Some(2 * gbit))], &hosts, Some(gbit));
    why(&t);
    // At 1.9 Gb/s a cable carries one whole flow, and 3.8 Gb/s not even split ones.
    let t = topology(2, &[(0, 1, 2, Some(1_900_000_000))], &hosts, Some(gbit));
    let cut = blocking(&t).cut.unwrap();
    assert!((cut.demand, cut.capacity) == (4.0, 3.8), "{cut:?}");
    // Three such cables carry all if flows are split, but each only one whole flow.
    let t = topology(2, &[(0, 1, 3, Some(1_900_000_000))], &hosts, Some(gbit));
    let example = blocking(&t);
    assert!(example.cut.is_none() && example.utilisation_min < 1.0, "{example:?}");
}

#[test]
fn clos_networks_are_recognised() {
    let leaf_spine = |spines: usize, lanes: usize| {
        let links: Vec<LinkOf> = (0..3)
            .flat_map(|leaf| (0..spines).map(move |spine| (leaf, 3 + spine, lanes, None)))
            .collect();
        let hosts: Vec<[usize; 1]> = (0..12).map(|h| [h / 4]).collect();
        topology(3 + spines, &links, &hosts.iter().map(|h| &h[..]).collect::<Vec<_>>(), None)
    };
    assert!(why(&leaf_spine(4, 1)).contains("Clos"));
    assert!(why(&leaf_spine(2, 2)).contains("Clos"));
    assert_eq!(blocking(&leaf_spine(3, 1)).cut.unwrap().capacity, 3.0);
    // A leaf with one link fewer than the other is no leaf of a Clos network for both their hosts.
    let uneven = topology(3, &[(0, 2, 2, None), (1, 2, 1, None)], &[&[0], &[0], &[1], &[1]], None);
    assert_eq!(structure::proof(&Fabric::new(&uneven).unwrap()), None);
    // A fat tree of 4-port switches: pods of two edges and two aggregations, four cores.
    let mut links: Vec<LinkOf> = Vec::new();
    for pod in 0..4 {
        for (edge, aggregation) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            links.push((2 * pod + edge, 8 + 2 * pod + aggregation, 1, None));
        }
        for (aggregation, core) in [(0, 0), (0, 1), (1, 2), (1, 3)] {
            links.push((8 + 2 * pod + aggregation, 16 + core, 1, None));
        }
    }
    let hosts: Vec<[usize; 1]> = (0..16).map(|h| [h / 2]).collect();
    let hosts: Vec<&[usize]> = hosts.iter().map(|h| &h[..]).collect();
    let t = topology(20, &links, &hosts, None);
    assert!(why(&t).contains("Clos"), "{}", why(&t));
    let found = non_blocking(&t, 1).unwrap();
    assert!(found.hashing.blocked > 0);
    // Without one core it is oversubscribed between pods.
    let fewer: Vec<LinkOf> = links.into_iter().filter(|l| l.1 != 19).collect();
    assert!(blocking(&topology(19, &fewer, &hosts, None)).cut.is_some());
}

#[test]
fn wider_butterflies_need_their_doubling() {
    // 4-ary 3-flat: 64 hosts.
    assert!(why(&butterfly(4, 2, 4, 2)).contains("4 x 4"));
    assert_eq!(blocking(&butterfly(4, 2, 4, 1)).cut.unwrap().capacity, 16.0);
    assert!(why(&butterfly(3, 3, 3, 2)).contains("3 x 3 x 3"));
}

#[test]
fn a_small_torus_is_proven_by_trying_everything() {
    let t = generate(&Shape::Torus { sides: vec![2, 4] }, Options::default()).unwrap();
    assert!(why(&t).contains("classes up to symmetry"), "{}", why(&t));
}

#[test]
fn trivial_networks_have_their_answers() {
    let alone = topology(1, &[], &[&[0], &[0], &[0]], None);
    assert!(why(&alone).contains("one node"));
    assert!(why(&topology(2, &[], &[&[0]], None)).contains("fewer than two"));
    assert!(why(&topology(0, &[], &[], None)).contains("fewer than two"));
    let apart = blocking(&topology(2, &[], &[&[0], &[1]], None));
    assert_eq!(apart.flows, [(0, 1), (1, 0)]);
    assert!(apart.utilisation_min.is_infinite());
    assert_eq!(apart.cut.unwrap().devices, ["s0"]);
    // Hosts without a cable do not count.
    assert!(why(&topology(1, &[], &[&[], &[0]], None)).contains("fewer than two"));
    let mut half = topology(1, &[], &[&[0], &[0]], Some(5));
    half.links[1].rate_bits_per_s = None;
    assert_eq!(non_blocking(&half, 1), Err(CheckError::NoRate("h1".into())));
}

#[test]
fn hosts_of_different_rates_are_checked_at_their_own() {
    // Two hosts of 10, two of 1, over a link of 12: fast ones swap with fast ones.
    let build = |between: u64, sides: [usize; 4]| {
        let hosts: Vec<[usize; 1]> = sides.map(|s| [s]).to_vec();
        let hosts: Vec<&[usize]> = hosts.iter().map(|h| &h[..]).collect();
        let mut t = topology(2, &[(0, 1, 1, Some(between))], &hosts, Some(10));
        t.links[3].rate_bits_per_s = Some(1);
        t.links[4].rate_bits_per_s = Some(1);
        t
    };
    let cut = blocking(&build(10, [0, 1, 0, 1])).cut.unwrap();
    assert!((cut.demand - 1.1).abs() < 1e-9 && (cut.capacity - 1.0).abs() < 1e-9, "{cut:?}");
    // Both fast ones on one side: 1 + 1 is the most that can cross.
    assert_eq!(answer(&build(2, [0, 0, 1, 1])), Answer::NoCounterExample);
}

#[test]
fn a_torus_of_one_host_a_node_blocks_by_its_cut() {
    let t = generate(&Shape::Torus { sides: vec![10] }, Options::default()).unwrap();
    let cut = blocking(&t).cut.unwrap();
    assert_eq!((cut.hosts, cut.capacity), (5, 2.0));
    // Too many vertices for all cuts to be tried.
    let t = generate(&Shape::Torus { sides: vec![16, 16] }, Options::default()).unwrap();
    let found = blocking(&t);
    let cut = found.cut.unwrap();
    assert!(cut.demand > cut.capacity && cut.capacity <= 32.0, "{cut:?}");
}

/// Whether all flows fit, whole, by trying every simple path of each in turn.
fn fits(room: &mut [[i32; 6]; 6], flows: &[(usize, usize)]) -> bool {
    fn walk(
        room: &mut [[i32; 6]; 6],
        path: &mut Vec<usize>,
        to: usize,
        rest: &[(usize, usize)],
    ) -> bool {
        let at = path[path.len() - 1];
        if at == to {
            return fits(room, rest);
        }
        (0..6).any(|next| {
            if room[at][next] == 0 || path.contains(&next) {
                return false;
            }
            room[at][next] -= 1;
            path.push(next);
            let found = walk(room, path, to, rest);
            path.pop();
            room[at][next] += 1;
            found
        })
    }
    match flows.split_first() {
        None => true,
        Some(((from, to), rest)) => walk(room, &mut vec![*from], *to, rest),
    }
}

/// All orders of 0..n.
fn orders(n: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..n {
        let longer = |o: &Vec<usize>| {
            let fresh: Vec<usize> = (0..n).filter(|i| !o.contains(i)).collect();
            fresh.into_iter().map(|i| [&o[..], &[i]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

proptest! {
    #![proptest_config(seeded(75))]

    #[test]
    fn small_networks_have_the_answer_that_trying_everything_gives(
        links in proptest::collection::vec((0..6_usize, 0..6_usize, 1..3_usize), 3..12),
        at in proptest::collection::vec(0..6_usize, 2..6))
    {
        let links: Vec<LinkOf> =
            links.into_iter().filter(|l| l.0 != l.1).map(|l| (l.0, l.1, l.2, None)).collect();
        let hosts: Vec<[usize; 1]> = at.iter().map(|a| [*a]).collect();
        let t = topology(6, &links, &hosts.iter().map(|h| &h[..]).collect::<Vec<_>>(), None);
        let mut room = [[0; 6]; 6];
        for (a, b, lanes, _) in &links {
            room[*a][*b] += *lanes as i32;
            room[*b][*a] += *lanes as i32;
        }
        let fit = |to: &[usize], room: &mut [[i32; 6]; 6]| {
            let pairs = to.iter().enumerate().map(|(from, to)| (at[from], at[*to]));
            fits(room, &pairs.filter(|(a, b)| a != b).collect::<Vec<_>>())
        };
        let all_fit = orders(at.len()).iter().all(|to| fit(to, &mut room));
        match answer(&t) {
            Answer::Proven(why) => prop_assert!(all_fit, "{why}"),
            Answer::NoCounterExample => prop_assert!(false, "so small a network is decided"),
            Answer::Blocking(example) => {
                let mut to: Vec<usize> = (0..at.len()).collect();
                let mut receivers = Vec::new();
                for (a, b) in &example.flows {
                    to[*a] = *b;
                    receivers.push(*b);
                }
                receivers.sort_unstable();
                let mut senders: Vec<usize> = example.flows.iter().map(|f| f.0).collect();
                senders.sort_unstable();
                prop_assert_eq!(senders, receivers, "a permutation");
                prop_assert!(!fit(&to, &mut room), "{example:?}");
                if let Some(cut) = example.cut {
                    prop_assert!(cut.demand > cut.capacity);
                    let inside = |v: usize| cut.devices.contains(&format!("s{v}"));
                    let crossing =
                        example.flows.iter().filter(|f| inside(at[f.0]) && !inside(at[f.1]));
                    prop_assert_eq!(crossing.count() as f64, cut.demand);
                    let pairs = (0..36).map(|i| (i / 6, i % 6));
                    let carried: i32 = pairs
                        .filter(|(a, b)| inside(*a) && !inside(*b))
                        .map(|(a, b)| room[a][b])
                        .sum();
                    prop_assert_eq!(f64::from(carried), cut.capacity);
                }
            }
        }
        prop_assert_eq!(non_blocking(&t, 1), non_blocking(&t, 1), "not the same twice");
    }
}

/// What structure promises, negotiation finds: they share no code.
#[test]
fn what_is_proven_by_structure_can_be_routed() {
    for t in [butterfly(2, 3, 2, 2), butterfly(3, 2, 3, 2), butterfly(4, 1, 4, 2)] {
        let fabric = Fabric::new(&t).unwrap();
        assert!(structure::proof(&fabric).is_some());
        for pattern in patterns::patterns(&fabric, None, 60, 7) {
            let flows = fabric.net.core(&fabric.demands(&pattern.to)).flows;
            let paths = route::rearranged(&fabric, &flows, &fabric.capacity);
            let paths = paths.unwrap_or_else(|| panic!("{pattern:?}"));
            let mut loads = vec![0; fabric.net.cables.len()];
            for (flow, path) in flows.iter().zip(&paths) {
                let mut at = flow.from;
                for cable in path {
                    let cable_of = fabric.net.cables[*cable as usize];
                    assert_eq!(cable_of.from as usize, at);
                    at = cable_of.to as usize;
                    loads[*cable as usize] += 1;
                }
                assert_eq!(at, flow.to);
            }
            assert!(loads.iter().all(|l| *l <= 1), "{pattern:?}");
        }
    }
}
