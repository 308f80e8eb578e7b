use proptest::prelude::*;

use super::*;
use crate::{Device, Graph};

fn shapes() -> impl Strategy<Value = Shape> {
    let (few, seed) = (1..9_usize, 0..1000_u64);
    prop_oneof![
        few.clone().prop_map(|nodes| Shape::Line { nodes }),
        (3..9_usize).prop_map(|nodes| Shape::Ring { nodes }),
        few.clone().prop_map(|leaves| Shape::Star { leaves }),
        proptest::collection::vec(2..5_usize, 1..4).prop_map(|sides| Shape::Torus { sides }),
        (1..5_usize).prop_map(|half| Shape::FatTree { ports: 2 * half }),
        (2..5_usize, 2..5_usize, 1..4_usize, 0..2_usize)
            .prop_map(|(ary, flat, dilation, fast)| Shape::Butterfly { ary, flat, dilation, fast }),
        (few.clone(), few.clone()).prop_map(|(leaves, spines)| Shape::Clos { leaves, spines }),
        (few.clone(), few.clone())
            .prop_map(|(outer, middle)| Shape::UnfoldedClos { outer, middle }),
        (3..30_usize, 2..6_usize, seed.clone()).prop_map(|(nodes, degree, seed)| {
            Shape::Random { nodes: nodes + degree, degree: degree + 2, seed }
        }),
        (3..30_usize, 2..6_usize, seed).prop_map(|(half, degree, seed)| {
            Shape::Jellyfish { nodes: 2 * half, degree: degree.min(2 * half - 1), seed }
        }),
        (1..4_usize, 1..4_usize, 0..9_usize).prop_map(|(routers, global, groups)| {
            Shape::Dragonfly { routers, global, groups: 2 + groups % (routers * global) }
        }),
        (few.clone(), few).prop_map(|(fronts, backs)| Shape::TwoStage { fronts, backs }),
    ]
}

/// Cables from each node to other nodes, and how many to hosts.
fn degrees(topology: &Topology) -> Vec<(usize, usize)> {
    let mut degrees = vec![(0, 0); topology.nodes.len()];
    for (_, _, ends) in topology.cables() {
        let devices = ends.map(End::device);
        let hosts = devices.iter().filter(|d| matches!(d, Device::Host(_))).count();
        for device in devices {
            if let Device::Node(node) = device {
                let degree: &mut (usize, usize) = &mut degrees[node];
                if hosts > 0 { degree.1 += 1 } else { degree.0 += 1 }
            }
        }
    }
    degrees
}

/// What the definition of a shape says of its nodes: cables to nodes and hosts on it.
fn defined_degrees(shape: &Shape, hosts: usize, lanes: usize) -> Option<Vec<(usize, usize)>> {
    let several = |parts: &[(usize, usize, usize)]| {
        let of = |&(count, cables, hosts): &_| vec![(cables * lanes, hosts); count];
        Some(parts.iter().flat_map(of).collect())
    };
    match shape {
        Shape::Line { nodes } => {
            let ends = |i: usize| usize::from(i > 0) + usize::from(i + 1 < *nodes);
            Some((0..*nodes).map(|i| (ends(i) * lanes, hosts)).collect())
        }
        Shape::Ring { nodes } => several(&[(*nodes, 2, hosts)]),
        Shape::Star { leaves } => several(&[(1, *leaves, 0), (*leaves, 1, hosts)]),
        Shape::Torus { sides } => {
            let degree = sides.iter().map(|s| if *s == 2 { 1 } else { 2 }).sum();
            several(&[(sides.iter().product(), degree, hosts)])
        }
        Shape::FatTree { ports: k } => {
            let half = k / 2;
            several(&[(k * half, half, hosts), (k * half, *k, 0), (half * half, *k, 0)])
        }
        Shape::Butterfly { ary, flat, dilation, fast } => {
            let slow = flat - 1 - fast;
            let degree = (slow * dilation + fast) * (ary - 1);
            several(&[(ary.pow(*flat as u32 - 1), degree, hosts)])
        }
        Shape::Clos { leaves: a, spines: b } | Shape::TwoStage { fronts: a, backs: b } => {
            several(&[(*a, *b, hosts), (*b, *a, 0)])
        }
        Shape::UnfoldedClos { outer, middle } => {
            several(&[(*outer, *middle, hosts), (*middle, 2 * outer, 0), (*outer, *middle, hosts)])
        }
        Shape::Jellyfish { nodes, degree, .. } => several(&[(*nodes, *degree, hosts)]),
        Shape::Random { .. } | Shape::Dragonfly { .. } => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_made_reads_back_equal(
        shape in shapes(), hosts_per_node in 0..4_usize, lanes in 1..4_usize,
        rate in proptest::option::of(1..10_000_000_000_u64))
    {
        let options = Options {
            hosts_per_node, lanes, host_rate_bits_per_s: rate,
            link_rate_bits_per_s: Some(rate.unwrap_or(1000) * 3), ..Options::default()
        };
        let made = generate(&shape, options).unwrap();
        let read = Topology::parse("made", &made.to_toml());
        prop_assert_eq!(read, Ok(made));
    }

    #[test]
    fn every_node_has_the_cables_of_its_definition(
        shape in shapes(), hosts in 0..3_usize, lanes in 1..3_usize)
    {
        let rate = Some(1_000_000);
        let options = Options {
            hosts_per_node: hosts, lanes, link_rate_bits_per_s: rate, ..Options::default()
        };
        let made = generate(&shape, options).unwrap();
        if let Some(defined) = defined_degrees(&shape, hosts, lanes) {
            prop_assert_eq!(degrees(&made), defined);
        }
        let (graph, nodes) = (Graph::new(&made), made.nodes.len());
        let farthest = |from| graph.hops(from)[..nodes].iter().copied().max();
        let diameter = (0..nodes).filter_map(farthest).max().unwrap_or(0) as usize;
        prop_assert!(diameter < nodes, "it is in one piece");
        match &shape {
            Shape::Torus { sides } => {
                prop_assert_eq!(diameter, sides.iter().map(|s| s / 2).sum::<usize>());
            }
            Shape::Butterfly { flat, .. } => prop_assert_eq!(diameter, flat - 1),
            Shape::Dragonfly { .. } => prop_assert!(diameter <= 3),
            _ => {}
        }
    }

    #[test]
    fn a_name_tells_its_shape(shape in shapes()) {
        prop_assert_eq!(Shape::from_name(&shape.name()), Some(shape));
    }
}

#[test]
fn the_seeds_board_with_16_ports_has_4_ethernet_and_2_sata_ports() {
    let shape = Shape::Butterfly { ary: 2, flat: 4, dilation: 2, fast: 2 };
    let gigabit = Some(1_000_000_000);
    let options = Options {
        hosts_per_node: shape.usual_hosts(),
        host_rate_bits_per_s: gigabit,
        link_rate_bits_per_s: gigabit,
        ..Options::default()
    };
    let made = generate(&shape, options).unwrap();
    assert_eq!((made.nodes.len(), made.hosts.len()), (8, 16));
    let mut ports = vec![(0, 0); 8];
    for (link, _, ends) in made.cables() {
        for device in ends.map(End::device) {
            let Device::Node(node) = device else { continue };
            match made.links[link].rate_bits_per_s {
                Some(1_000_000_000) => ports[node].0 += 1,
                Some(2_000_000_000) => ports[node].1 += 1,
                other => panic!("no port has {other:?}"),
            }
        }
    }
    assert_eq!(ports, [(4, 2); 8]);
    let unrated = Options { link_rate_bits_per_s: None, ..options };
    let refused = generate(&shape, unrated).unwrap_err().to_string();
    assert!(refused.contains("give the others' rate"), "{refused}");
}

#[test]
fn a_full_dragonfly_joins_every_two_groups_once_and_uses_every_port_once() {
    let shape = Shape::Dragonfly { routers: 4, global: 2, groups: 9 };
    let made = generate(&shape, Options { hosts_per_node: 2, ..Options::default() }).unwrap();
    assert_eq!((made.nodes.len(), made.hosts.len()), (36, 72));
    assert_eq!(degrees(&made), [(3 + 2, 2); 36]);
    let mut pairs = HashSet::new();
    for link in &made.links {
        if let [Device::Node(a), Device::Node(b)] = link.devices()
            && a / 4 != b / 4
        {
            assert!(
                pairs.insert([a / 4, b / 4]),
                "groups {} and {} are joined twice",
                a / 4,
                b / 4
            );
        }
    }
    assert_eq!(pairs.len(), 36);
}

#[test]
fn a_seed_means_the_same_graph_for_ever() {
    let ends = |shape: Shape| {
        let made = generate(&shape, Options { hosts_per_node: 0, ..Options::default() }).unwrap();
        let pairs = made.links.iter().map(|l| match l.devices() {
            [Device::Node(a), Device::Node(b)] => (a, b),
            other => panic!("{other:?}"),
        });
        pairs.collect::<Vec<_>>()
    };
    let drawn = ends(Shape::Random { nodes: 6, degree: 3, seed: 7 });
    assert_eq!(drawn, RANDOM_6_3_7);
    let drawn = ends(Shape::Jellyfish { nodes: 6, degree: 3, seed: 7 });
    assert_eq!(drawn, JELLYFISH_6_3_7);
    let other = ends(Shape::Jellyfish { nodes: 6, degree: 3, seed: 8 });
    assert_ne!(drawn, other);
}

/// Published with the first version.
const RANDOM_6_3_7: [(usize, usize); 9] =
    [(0, 1), (0, 4), (1, 3), (2, 5), (1, 2), (2, 3), (4, 5), (3, 4), (1, 5)];
const JELLYFISH_6_3_7: [(usize, usize); 9] =
    [(0, 5), (1, 4), (1, 2), (1, 3), (0, 4), (2, 5), (2, 3), (0, 3), (4, 5)];

#[test]
fn random_low_of_the_paper_has_a_mean_degree_of_4_and_no_node_below_2() {
    let shape = Shape::Random { nodes: 1000, degree: 4, seed: 1 };
    let made = generate(&shape, Options { hosts_per_node: 10, ..Options::default() }).unwrap();
    let degrees = degrees(&made);
    assert_eq!(degrees.iter().map(|d| d.0).sum::<usize>(), 4000);
    assert!(degrees.iter().all(|d| d.0 >= 2 && d.1 == 10));
}

#[test]
fn hosts_are_spread_evenly_when_their_total_is_given() {
    let shape = Shape::FatTree { ports: 4 };
    let made = generate(&shape, Options { hosts_total: Some(11), ..Options::default() }).unwrap();
    let hosts: Vec<usize> = degrees(&made).iter().map(|d| d.1).take(8).collect();
    assert_eq!(hosts, [2, 2, 2, 1, 1, 1, 1, 1]);
}

#[test]
fn addresses_are_unique_in_a_large_one() {
    let shape = Shape::Torus { sides: vec![32, 32] };
    let options = Options { hosts_per_node: 49, ..Options::default() };
    let made = generate(&shape, options).unwrap();
    assert_eq!(made.hosts.len(), 50_176);
    let macs: HashSet<_> = made.hosts.iter().map(|h| h.mac).collect();
    let addresses: HashSet<_> =
        made.hosts.iter().flat_map(|h| &h.addresses).map(|a| a.address).collect();
    assert_eq!((macs.len(), addresses.len()), (50_176, 2 * 50_176));
    assert!(macs.iter().all(|m| !m.is_multicast()));
}

#[test]
fn impossible_shapes_are_refused() {
    for shape in [
        Shape::Line { nodes: 0 },
        Shape::Line { nodes: usize::MAX },
        Shape::Ring { nodes: 2 },
        Shape::Star { leaves: 0 },
        Shape::Star { leaves: usize::MAX },
        Shape::Torus { sides: vec![] },
        Shape::Torus { sides: vec![4, 1] },
        Shape::Torus { sides: vec![usize::MAX, usize::MAX] },
        Shape::FatTree { ports: 0 },
        Shape::FatTree { ports: 7 },
        Shape::FatTree { ports: usize::MAX - 1 },
        Shape::Butterfly { ary: 1, flat: 3, dilation: 1, fast: 0 },
        Shape::Butterfly { ary: 2, flat: 1, dilation: 1, fast: 0 },
        Shape::Butterfly { ary: 2, flat: 4, dilation: 0, fast: 0 },
        Shape::Butterfly { ary: 2, flat: 4, dilation: 1, fast: 4 },
        Shape::Butterfly { ary: 2, flat: 4, dilation: 65, fast: 0 },
        Shape::Butterfly { ary: 2, flat: 4, dilation: usize::MAX, fast: 0 },
        Shape::Butterfly { ary: 1 << 20, flat: 2, dilation: 1, fast: 0 },
        Shape::Butterfly { ary: 2, flat: usize::MAX, dilation: 1, fast: 0 },
        Shape::Clos { leaves: 0, spines: 2 },
        Shape::Clos { leaves: usize::MAX, spines: usize::MAX },
        Shape::UnfoldedClos { outer: 2, middle: 0 },
        Shape::TwoStage { fronts: 0, backs: 1 },
        Shape::Random { nodes: 5, degree: 1, seed: 1 },
        Shape::Random { nodes: 5, degree: 5, seed: 1 },
        Shape::Random { nodes: usize::MAX, degree: 4, seed: 1 },
        Shape::Jellyfish { nodes: 5, degree: 3, seed: 1 },
        Shape::Jellyfish { nodes: 0, degree: 0, seed: 1 },
        Shape::Dragonfly { routers: 2, global: 1, groups: 4 },
        Shape::Dragonfly { routers: 2, global: 1, groups: 1 },
        Shape::Dragonfly { routers: usize::MAX, global: 2, groups: 2 },
    ] {
        let refused = generate(&shape, Options::default()).unwrap_err();
        assert!(refused.to_string().len() > 20, "{shape:?}: {refused}");
    }
    let many = Options { hosts_per_node: usize::MAX, ..Options::default() };
    assert!(generate(&Shape::Line { nodes: 2 }, many).is_err());
}
