use std::collections::BTreeMap;

use plexus_ndn::face::FaceId;
use plexus_ndn::names::{NameHasher, NameHashes};
use plexus_table::names::{NameLimits, NameRefused};
use plexus_wire::ndn::NameBuf;
use proptest::prelude::*;

use super::*;
use crate::node::named::numa::tests::{made_up, two_nodes};

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

/// Replicas for workers on these processors; without any, for three that may run on all.
fn on(nodes: &Nodes, cpus: &[u16]) -> Replicas {
    let workers = if cpus.is_empty() { 3 } else { cpus.len() };
    let cpus = cpus.to_vec();
    let settings = NamedSettings { workers, cpus, ..NamedSettings::default() };
    Replicas::new(&settings, nodes, || Ok(fib(10))).unwrap()
}

#[test]
fn there_is_one_for_each_node_with_workers() {
    let Some((nodes, [a, b])) = two_nodes() else { return };
    let several = on(&nodes, &[a, b, b, a]);
    assert_eq!(several.of_workers(), (&[0, 1, 1, 0][..], 2));
    // The other's memory has been taken for all that may come.
    let [first, second] = &several.fibs[..] else { panic!() };
    assert_eq!(several.memory_bytes(), first.memory().total() + second.memory().total());
    assert!(first.memory().records < 100 && second.memory().records == 1 << 12);
    // It makes no difference where the first one is.
    assert_eq!(on(&nodes, &[b, a]).of_workers(), (&[0, 1][..], 2));
    assert_eq!(on(&nodes, &[b, b]).of_workers(), (&[0, 0][..], 1));
}

#[test]
fn there_is_one_where_nodes_are_not_known_or_cannot_be_had() {
    let Some((nodes, [a, b])) = two_nodes() else { return };
    let one = (&[0, 0, 0][..], 1);
    assert_eq!(on(&nodes, &[]).of_workers(), one);
    assert_eq!(on(&Nodes::default(), &[a, b, a]).of_workers(), one);
    // A processor that the tree does not know; and one that is not there, of a node by itself.
    assert_eq!(on(&nodes, &[a, 1023, a]).of_workers(), one);
    let gone = made_up(&[(0, a), (1, 1023)]);
    assert_eq!(on(&gone, &[a, 1023, 1023]).of_workers(), one);
    assert_eq!(on(&nodes, &[1023, a, b]).of_workers(), (&[0, 1, 2][..], 3));
}
