use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use plexus_wire::ndn::NameBuf;
use proptest::prelude::*;

use super::*;

fn hop(place: u32, cost: u64) -> NextHop {
    NextHop { face: FaceId::new(place, 0).unwrap(), cost }
}

fn name(parts: &[u8]) -> NameBuf {
    parts.iter().fold(NameBuf::new(), |name, part| name.with([*part]))
}

fn hasher() -> NameHasher {
    NameHasher::new([3, 4])
}

fn fib(prefixes: usize) -> Fib {
    Fib::new(hasher(), NameLimits { prefixes, record_bytes: 1 << 16 }).unwrap()
}

/// Hops and components of a name's longest prefix.
fn lookup(reader: &mut FibReader, parts: &[u8]) -> Option<(Vec<NextHop>, usize)> {
    let asked = name(parts);
    let mut memory = NameHashes::default();
    let hashed = hasher().hash(asked.as_name(), &mut memory).unwrap();
    let batch = reader.batch();
    let found = batch.lookup(&hashed);
    found.map(|found| (batch.hops(found).to_vec(), found.components()))
}

type Parts = Vec<u8>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_longest_prefix_is_found_whatever_came_and_went(
        changes in prop::collection::vec(
            (prop::collection::vec(0u8..3, 0..5), prop::option::of(0u32..4)), 0..60),
        asked in prop::collection::vec(prop::collection::vec(0u8..3, 0..40), 0..30),
    ) {
        let mut fib = fib(64);
        let mut reader = fib.reader();
        let mut model: BTreeMap<Parts, Vec<NextHop>> = BTreeMap::new();
        for (parts, place) in changes {
            match place {
                Some(place) => {
                    // Place 0 gets an empty set: the prefix leads nowhere.
                    let hops: Vec<_> = (0..place).map(|i| hop(i, u64::from(i % 2))).collect();
                    fib.set(name(&parts).as_name(), &hops).unwrap();
                    let mut sorted = hops;
                    sorted.sort();
                    model.insert(parts, sorted);
                }
                None => {
                    let was_there = model.remove(&parts).is_some();
                    prop_assert_eq!(fib.remove(name(&parts).as_name()), was_there);
                }
            }
        }
        prop_assert_eq!(fib.len(), model.len());
        let all: BTreeMap<_, _> = fib.iter().map(|(name, hops)| (name, hops.to_vec())).collect();
        let expected = model.iter().map(|(parts, hops)| (name(parts), hops.clone())).collect();
        prop_assert_eq!(all, expected);
        for parts in asked {
            prop_assert_eq!(fib.get(name(&parts).as_name()), model.get(&parts).map(|h| &h[..]));
            let longest = (0..=parts.len()).rev()
                .find_map(|n| Some((model.get(&parts[..n])?.clone(), n)));
            prop_assert_eq!(lookup(&mut reader, &parts), longest);
            let asked = name(&parts);
            let mut memory = NameHashes::default();
            let hashed = hasher().hash(asked.as_name(), &mut memory).unwrap();
            let batch = reader.batch();
            let mut search = batch.begin(&hashed);
            batch.narrow(&hashed, &mut search);
            prop_assert_eq!(batch.end(&hashed, search), batch.lookup(&hashed));
        }
    }
}

#[test]
fn next_hops_stand_by_cost_and_equal_sets_are_held_once() {
    let mut fib = fib(8);
    fib.set(name(&[1]).as_name(), &[hop(0, 20), hop(1, 10)]).unwrap();
    fib.set(name(&[2]).as_name(), &[hop(1, 10), hop(0, 20)]).unwrap();
    assert_eq!(fib.sets.in_use(), 1);
    assert_eq!(fib.get(name(&[1]).as_name()), Some(&[hop(1, 10), hop(0, 20)][..]));
    // Sets are dropped with their last prefix.
    assert!(fib.remove(name(&[1]).as_name()) && fib.remove(name(&[2]).as_name()));
    assert_eq!(fib.sets.in_use(), 0);
}

#[test]
fn prefixes_of_one_batch_each_have_their_own_hops() {
    let mut fib = fib(8);
    fib.set(name(&[1]).as_name(), &[hop(0, 10)]).unwrap();
    fib.set(name(&[2]).as_name(), &[hop(1, 10)]).unwrap();
    let (mut first, mut second) = (NameHashes::default(), NameHashes::default());
    let (one, two) = (name(&[1]), name(&[2]));
    let one = hasher().hash(one.as_name(), &mut first).unwrap();
    let two = hasher().hash(two.as_name(), &mut second).unwrap();
    let mut reader = fib.reader();
    let batch = reader.batch();
    let hops = |name: &HashedName<'_>| batch.hops(batch.lookup(name).unwrap());
    for _ in 0..2 {
        assert_eq!(hops(&one)[..], [hop(0, 10)]);
        assert_eq!(hops(&one)[..], [hop(0, 10)]);
        assert_eq!(hops(&two)[..], [hop(1, 10)]);
    }
    // Two that are held at a time.
    let (held, other) = (hops(&one), hops(&two));
    assert_eq!((&held[..], &other[..]), (&[hop(0, 10)][..], &[hop(1, 10)][..]));
}

#[test]
fn an_oversized_prefix_is_refused_with_advice() {
    let mut fib = fib(1);
    let many: Vec<_> = (0..65).map(|i| hop(i, 0)).collect();
    assert_eq!(fib.set(name(&[1]).as_name(), &many), Err(FibError::Hops(65)));
    assert_eq!(fib.set(name(&[1; 33]).as_name(), &[]), Err(FibError::Prefix));
    fib.set(name(&[1]).as_name(), &[]).unwrap();
    let full = FibError::Table(NameRefused::Prefixes { limit: 1 });
    assert_eq!(fib.set(name(&[2]).as_name(), &[hop(0, 0)]), Err(full));
    assert_eq!((fib.len(), fib.sets.in_use()), (1, 1));
    assert!(full.to_string().contains("raise"));
}

#[test]
fn a_refused_combined_change_leaves_the_fib_unchanged() {
    let mut fib = fib(3);
    fib.set(name(&[1]).as_name(), &[hop(0, 0)]).unwrap();
    fib.set(name(&[2]).as_name(), &[hop(1, 0)]).unwrap();
    let mut reader = fib.reader();
    let refused = Err(FibError::Sets);
    // A new prefix, one that has these hops already, hops that others use, and unused hops;
    // repeated more often than there is room.
    for (prefix, hops) in [(3, hop(0, 0)), (1, hop(0, 0)), (1, hop(1, 0)), (1, hop(2, 0))] {
        for _ in 0..5 {
            let prefix = name(&[prefix]);
            assert_eq!(fib.set_if(prefix.as_name(), &[hops], || refused), refused);
            assert_eq!(lookup(&mut reader, &[1]), Some((vec![hop(0, 0)], 1)));
            assert_eq!(lookup(&mut reader, &[2]), Some((vec![hop(1, 0)], 1)));
            assert_eq!(lookup(&mut reader, &[3]), None);
            assert_eq!((fib.len(), fib.sets.in_use()), (2, 2));
        }
    }
    assert!(fib.remove(name(&[1]).as_name()) && fib.remove(name(&[2]).as_name()));
    assert_eq!(fib.sets.in_use(), 0, "no set is held for a missing prefix");
}

#[test]
fn a_number_is_not_reused_while_a_batch_may_have_read_it() {
    let mut fib = fib(8);
    let (mut reader, mut other) = (fib.reader(), fib.reader());
    fib.set(name(&[1]).as_name(), &[hop(1, 1)]).unwrap();
    let mut memory = NameHashes::default();
    let asked = name(&[1]);
    let hashed = hasher().hash(asked.as_name(), &mut memory).unwrap();
    let batch = reader.batch();
    let found = batch.lookup(&hashed).unwrap();
    for cost in 2..100 {
        fib.set(name(&[1]).as_name(), &[hop(1, cost)]).unwrap();
    }
    assert_eq!(batch.hops(found)[..], [hop(1, 1)]);
    assert_eq!(lookup(&mut other, &[1]), Some((vec![hop(1, 99)], 1)));
    drop(batch);
    // Afterwards it is: numbers do not run out.
    for cost in 100..200 {
        fib.set(name(&[1]).as_name(), &[hop(1, cost)]).unwrap();
    }
    assert!(fib.sets.ever_given() < 150);
}

/// A prefix's hops carry its number as their cost, so that another prefix's set would be noticed.
#[test]
fn readers_see_a_set_that_the_prefix_had_while_sets_come_and_go() {
    const PREFIXES: u8 = 20;
    let mut fib = fib(64);
    let set = |fib: &mut Fib, prefix: u8, place: u32| {
        fib.set(name(&[prefix]).as_name(), &[hop(place, prefix.into())]).unwrap();
    };
    (0..PREFIXES).for_each(|prefix| set(&mut fib, prefix, 0));
    let done = AtomicBool::new(false);
    let mut reader = fib.reader();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0u32.. {
                if done.load(Relaxed) {
                    break;
                }
                let prefix = (round % u32::from(PREFIXES)) as u8;
                let (hops, _) = lookup(&mut reader, &[prefix, 7]).expect("it is always there");
                assert_eq!((hops.len(), hops[0].cost), (1, prefix.into()));
            }
        });
        for round in 0..20_000u32 {
            set(&mut fib, (round % u32::from(PREFIXES)) as u8, round % 1000);
        }
        done.store(true, Relaxed);
    });
}
