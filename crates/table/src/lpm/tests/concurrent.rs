//! Lookups during changes of the table, and memory that waits for readers.

use std::sync::atomic::{AtomicBool, Ordering::*};

use super::*;

/// Regions of the address space; routes in each have groups of their own.
const REGIONS: usize = 40;
const PER_REGION: u16 = 8;

/// One region's first address, and the least and greatest length of prefixes in it.
fn region<A: TestAddress>(at: usize) -> A {
    // Two regions to a /16, so that they are neighbours in the RIB and in the tables.
    let high = 0x2400_0000 + ((at as u128) << 15);
    A::from_u128(high << (u32::from(A::BITS) - 32))
}

fn region_group(at: usize, which: u16) -> GroupId {
    group(at as u16 * PER_REGION + which)
}

/// An address in a region, mostly one of few, so that prefixes nest and recur.
fn within<A: TestAddress>(at: usize, random: &mut Pcg64) -> A {
    let few = |random: &mut Pcg64| {
        let byte = random.random_range(0..4u128);
        byte << (8 * random.random_range(0..u32::from(A::BITS) / 8 - 2))
    };
    let below = few(random) ^ few(random) ^ random.random_range(0..3);
    A::from_u128(region::<A>(at).to_u128() | below & host_bits::<A>(17).to_u128())
}

/// Readers look up addresses in regions that are always covered, while the writer announces and
/// withdraws longer prefixes in all of them, so that blocks move between regions.
fn readers_see_old_or_new<A: TestAddress>(updates: usize) {
    let mut fib = Fib::<A>::new(Limits::default()).unwrap();
    for at in 0..REGIONS {
        fib.insert(region(at), 17, region_group(at, 0)).unwrap();
    }
    let done = AtomicBool::new(false);
    let mut reader = fib.reader();
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (mut reader, done) = (reader.clone(), &done);
            scope.spawn(move || {
                let mut random = Pcg64::seed_from_u64(seed);
                while !done.load(Relaxed) {
                    let at: [usize; 64] = std::array::from_fn(|_| random.random_range(0..REGIONS));
                    let addrs = at.map(|at| within::<A>(at, &mut random));
                    let mut answers = [None; 64];
                    reader.batch().lookup_batch(&addrs, &mut answers);
                    for (i, answer) in answers.into_iter().enumerate() {
                        let number = answer.map(GroupId::number);
                        let own = number.map(|n| usize::from(n / PER_REGION));
                        assert_eq!(own, Some(at[i]), "{:x?}: {number:?}", addrs[i]);
                    }
                }
            });
        }
        let mut random = Pcg64::seed_from_u64(99);
        let mut announced = Vec::new();
        for _ in 0..updates {
            if announced.len() > 300 || !announced.is_empty() && random.random_range(0..2) == 0 {
                let (addr, len) = announced.swap_remove(random.random_range(0..announced.len()));
                fib.remove(addr, len).unwrap();
            } else {
                let at = random.random_range(0..REGIONS);
                let addr: A = within(at, &mut random);
                let len = random.random_range(18..=A::BITS);
                let which = random.random_range(1..PER_REGION);
                fib.insert(addr, len, region_group(at, which)).unwrap();
                announced.push((addr.network(len), len));
            }
        }
        done.store(true, Relaxed);
    });
    drop(reader.batch());
}

#[test]
fn ipv4_readers_see_the_old_answer_or_the_new() {
    readers_see_old_or_new::<u32>(200_000);
}

#[test]
fn ipv6_readers_see_the_old_answer_or_the_new() {
    readers_see_old_or_new::<u128>(60_000);
}

/// Blocks are not reused while a batch is open that could have seen them, and are afterwards.
fn a_batch_keeps_what_it_could_have_seen<A: TestAddress>(turns: usize) {
    let mut fib = Fib::<A>::new(Limits::default()).unwrap();
    let (mut active, mut idle) = (fib.reader(), fib.reader());
    let one = |fib: &mut Fib<A>, at: usize| {
        let addr = region::<A>(at);
        fib.insert(addr, A::BITS, group(1)).unwrap();
        fib.remove(addr, A::BITS).unwrap();
        fib.collect();
    };
    one(&mut fib, 0);
    fib.collect();
    let before = fib.memory().lookup;
    drop(idle.batch());
    let batch = active.batch();
    for _ in 0..turns {
        one(&mut fib, 0);
    }
    let held = fib.memory().lookup;
    assert!(held >= before + turns * 64, "{held} bytes, {before} before");
    drop(batch);
    fib.collect();
    assert_eq!(fib.memory().lookup, before);
    // A batch that began later does not hold up older blocks.
    for _ in 0..turns {
        one(&mut fib, 0);
        let batch = active.batch();
        assert!(fib.memory().lookup <= before + 4096);
        drop(batch);
    }
}

#[test]
fn memory_waits_only_for_batches() {
    a_batch_keeps_what_it_could_have_seen::<u32>(100);
    a_batch_keeps_what_it_could_have_seen::<u128>(100);
}

#[test]
fn a_batch_that_never_ends_fills_memory_and_blocks_nothing() {
    let limits = Limits { lookup_bytes: (32 << 20) + 100 * 512, ..Limits::default() };
    let mut fib = Fib4::new(limits).unwrap();
    let (mut stuck, mut reader) = (fib.reader(), fib.reader());
    let batch = stuck.batch();
    let refused = (0..101u32).find_map(|i| {
        fib.insert(i << 8, 32, group(1)).unwrap_or_default();
        let refused = fib.insert(i << 8 | 1, 32, group(2)).err();
        fib.remove(i << 8, 32).unwrap();
        fib.remove(i << 8 | 1, 32).unwrap();
        refused
    });
    assert_eq!(refused, Some(Refused::LookupFull { limit: limits.lookup_bytes }));
    assert_eq!(fib.insert(0, 24, group(3)), Ok(None));
    assert_eq!(reader.batch().lookup(7), Some(group(3)));
    drop(batch);
    assert_eq!(fib.insert(1 << 8, 32, group(1)), Ok(None));
}

/// Routes of 40 bits side by side, which share one tree of the IPv6 table.
fn neighbours(count: u128) -> impl Iterator<Item = (u128, u8, GroupId)> + Clone {
    (0..count).map(|i| (region::<u128>(0) | i << 88, 40, group(i as u16)))
}

#[test]
fn a_route_that_flaps_takes_no_memory() {
    let mut fib = Fib6::build(Limits::default(), neighbours(100)).unwrap();
    fib.collect();
    let mut reader = fib.reader();
    let batch = reader.batch();
    let before = fib.memory().lookup;
    for (addr, len, group) in neighbours(100).cycle().take(1000) {
        assert_eq!(fib.remove(addr, len), Ok(Some(group)));
        assert_eq!(batch.lookup(addr), None);
        assert_eq!(fib.insert(addr, len, group), Ok(None));
        assert_eq!(batch.lookup(addr), Some(group));
    }
    assert_eq!(fib.memory().lookup, before);
}

#[test]
fn a_tree_shrinks_as_its_routes_go() {
    let mut one = Fib6::build(Limits::default(), neighbours(1)).unwrap();
    one.collect();
    let mut fib = Fib6::build(Limits::default(), neighbours(256)).unwrap();
    for (addr, len, _) in neighbours(256).skip(1) {
        fib.remove(addr, len).unwrap();
    }
    fib.collect();
    assert_eq!(fib.memory().lookup, one.memory().lookup);
    assert_eq!(fib.reader().batch().lookup(region(0)), Some(group(0)));
}

#[test]
fn a_reader_outlives_the_writer() {
    let mut fib = Fib6::new(Limits::default()).unwrap();
    fib.insert(1 << 127, 1, group(5)).unwrap();
    let mut reader = fib.reader();
    drop(fib);
    assert_eq!(reader.clone().batch().lookup(u128::MAX), Some(group(5)));
    assert_eq!(reader.batch().lookup(1), None);
}
