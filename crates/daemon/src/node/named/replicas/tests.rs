use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use plexus_ndn::face::FaceId;
use plexus_ndn::names::NameHashes;
use plexus_table::names::NameRefused;
use plexus_wire::ndn::NameBuf;
use proptest::prelude::*;

use super::*;
use crate::node::named::numa::tests::made_up;

fn hop(place: u32) -> NextHop {
    NextHop { face: FaceId::new(place, 0).unwrap(), cost: 0 }
}

fn name(parts: &[u8]) -> NameBuf {
    parts.iter().fold(NameBuf::new(), |name, part| name.with([*part]))
}

fn hasher() -> NameHasher {
    NameHasher::new([3, 4])
}

fn fib(prefixes: usize) -> Fib {
    Fib::new(hasher(), NameLimits { prefixes, record_bytes: 1 << 12 }).unwrap()
}

/// Next hops for exactly this name, as a worker finds them.
fn found(reader: &mut FibReader, name: Name<'_>) -> Option<Vec<NextHop>> {
    let mut memory = NameHashes::default();
    let hashed = hasher().hash(name, &mut memory).unwrap();
    let batch = reader.batch();
    let found = batch.lookup(&hashed)?;
    (found.components() == name.components().count()).then(|| batch.hops(found).to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_say_the_same_whichever_of_them_refuses(
        limits in prop::collection::vec(3usize..9, 1..4),
        changes in prop::collection::vec((
            // The longest has too many components, and the most hops are too many.
            prop_oneof![
                9 => prop::collection::vec(0u8..3, 0..3),
                1 => Just(vec![0; 33]),
            ],
            prop::option::weighted(0.7, prop_oneof![9 => 0u32..4, 1 => Just(65)]),
        ), 0..80),
    ) {
        let fibs: Vec<Fib> = limits.iter().map(|limit| fib(*limit)).collect();
        let mut replicas = Replicas { of_worker: (0..fibs.len()).collect(), fibs };
        let mut readers: Vec<_> = (0..limits.len()).map(|n| replicas.reader(n)).collect();
        let least = *limits.iter().min().unwrap();
        let mut model: BTreeMap<NameBuf, Vec<NextHop>> = BTreeMap::new();
        for (parts, hops) in changes {
            let prefix = name(&parts);
            if let Some(count) = hops {
                let hops: Vec<_> = (0..count).map(hop).collect();
                let refused = if hops.len() > 64 {
                    Err(FibError::Hops(65))
                } else if parts.len() > 32 {
                    Err(FibError::Prefix)
                } else if !model.contains_key(&prefix) && model.len() == least {
                    Err(FibError::Table(NameRefused::Prefixes { limit: least }))
                } else {
                    model.insert(prefix.clone(), hops.clone());
                    Ok(())
                };
                prop_assert_eq!(replicas.set(prefix.as_name(), &hops), refused);
            } else {
                replicas.remove(prefix.as_name());
                model.remove(&prefix);
            }
            for (reader, fib) in readers.iter_mut().zip(&replicas.fibs) {
                let all = fib.iter().map(|(name, hops)| (name, hops.to_vec()));
                prop_assert_eq!(&all.collect::<BTreeMap<_, _>>(), &model);
                if parts.len() <= 32 {
                    let found = found(reader, prefix.as_name());
                    prop_assert_eq!(found.as_ref(), model.get(&prefix));
                }
            }
        }
    }
}

/// Which replica each of the workers on these processors reads, of how many; memory of node 9
/// cannot be had. Without processors, of three workers that may run on all.
fn on(nodes: &Nodes, cpus: &[u16]) -> (Vec<usize>, usize) {
    let workers = if cpus.is_empty() { 3 } else { cpus.len() };
    let settings = NamedSettings { workers, cpus: cpus.to_vec(), ..NamedSettings::default() };
    let made = RefCell::default();
    let make = |node| {
        Vec::push(&mut made.borrow_mut(), node);
        if node == Some(9) { Err("no".into()) } else { Ok(fib(10)) }
    };
    let replicas = Replicas::of(&settings, nodes, make).unwrap();
    // The first is where it is made; of each other node there is one, at most.
    let made = made.into_inner();
    let others: BTreeSet<_> = made[1..].iter().copied().collect();
    assert!(made[0].is_none() && !others.contains(&None) && others.len() == made.len() - 1);
    let (of_worker, count) = replicas.of_workers();
    (of_worker.to_vec(), count)
}

#[test]
fn there_is_one_for_each_node_with_workers() {
    let nodes = made_up(&[(0, "0-3"), (1, "4-7"), (2, "8-11"), (9, "12-15")]);
    assert_eq!(on(&nodes, &[0, 4, 5, 1]), (vec![0, 1, 1, 0], 2));
    assert_eq!(on(&nodes, &[8, 0, 9, 4, 1]), (vec![0, 1, 0, 2, 1], 3));
    assert_eq!(on(&nodes, &[4, 5, 6]), (vec![0, 0, 0], 1));
}

#[test]
fn workers_whose_node_is_not_known_or_gives_no_memory_read_the_first() {
    let nodes = made_up(&[(0, "0-3"), (1, "4-7"), (9, "12-15")]);
    assert_eq!(on(&nodes, &[]), (vec![0, 0, 0], 1));
    assert_eq!(on(&Nodes::default(), &[0, 4, 12]), (vec![0, 0, 0], 1));
    assert_eq!(on(&nodes, &[0, 100, 4]), (vec![0, 0, 1], 2));
    assert_eq!(on(&nodes, &[100, 0, 4]), (vec![0, 1, 2], 3));
    assert_eq!(on(&nodes, &[0, 12, 4, 13]), (vec![0, 0, 1, 0], 2));
}

#[test]
fn the_memory_of_others_is_of_their_node_or_they_are_not_made() {
    let settings = NamedSettings { workers: 2, cpus: vec![0, 1], ..NamedSettings::default() };
    let count = |nodes: &[(u32, &str)]| {
        Replicas::new(&settings, &made_up(nodes), hasher()).unwrap().of_workers().1
    };
    // The node that every machine has, and one that none has.
    match fib(10).bind(0) {
        Ok(()) => assert_eq!(count(&[(1023, "0"), (0, "1")]), 2),
        Err(error) => eprintln!("skipped: memory cannot be bound: {error}"),
    }
    assert_eq!(count(&[(0, "0"), (1023, "1")]), 1);
}

#[test]
fn all_take_memory() {
    let mut replicas = Replicas { fibs: vec![fib(10)], of_worker: vec![0] };
    let one = replicas.memory_bytes();
    replicas.fibs.push(fib(10));
    assert_eq!(replicas.memory_bytes(), 2 * one);
    replicas.set(name(&[1; 30]).as_name(), &[]).unwrap();
    let both = replicas.fibs.iter().map(|fib| fib.memory().total()).sum();
    assert!(2 * one < both);
    assert_eq!(replicas.memory_bytes(), both);
}
