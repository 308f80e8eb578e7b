//! Lookups during changes of the table, and memory that waits for readers.

use std::sync::atomic::{AtomicBool, Ordering::*};

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;

use super::*;

/// First components that are always in the table; changing prefixes are longer.
const REGIONS: u32 = 20;
const LIMITS: NameLimits = NameLimits { prefixes: 1000, record_bytes: 1 << 20 };

/// A value encodes its prefix: the region, and the number of components.
fn value(region: u32, components: usize, which: u32) -> u32 {
    region << 16 | (components as u32) << 8 | which
}

/// A name in a region, one of few, so that prefixes nest and recur.
fn within(region: u32, components: usize, random: &mut Pcg64) -> Name {
    let first = Name::of([region.to_be_bytes()]);
    (1..components).fold(first, |name, _| {
        name.with(if random.random_range(0..2) == 0 { "x" } else { "another component" })
    })
}

/// Readers look up names in regions, while the writer announces, changes and withdraws longer
/// prefixes in all of them, so that memory moves between regions.
#[test]
fn readers_see_what_is_under_a_prefix_of_the_name() {
    let mut fib = NameFib::new(LIMITS).unwrap();
    for region in 0..REGIONS {
        let name = Name::of([region.to_be_bytes()]);
        name.hashed(Keys::Good, |name| fib.insert(name, value(region, 1, 0))).unwrap();
    }
    let done = AtomicBool::new(false);
    let reader = fib.reader();
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (mut reader, done) = (reader.clone(), &done);
            scope.spawn(move || {
                let mut random = Pcg64::seed_from_u64(seed);
                let hasher = Keys::Good.hasher();
                while !done.load(Relaxed) {
                    let regions: [u32; 32] =
                        std::array::from_fn(|_| random.random_range(0..REGIONS));
                    let names = regions.map(|region| within(region, 7, &mut random));
                    let mut hashes = vec![NameHashes::default(); names.len()];
                    let hashed = names.iter().zip(&mut hashes).map(|(name, hashes)| {
                        hasher.hash(&name.bytes, name.ends.iter().copied(), hashes).unwrap()
                    });
                    let hashed: Vec<_> = hashed.collect();
                    let mut answers = [None; 32];
                    reader.batch().lookup_batch(&hashed, &mut answers);
                    for (region, answer) in regions.into_iter().zip(answers) {
                        let found = answer.expect("every region is covered");
                        let which = found.value & 255;
                        assert_eq!(found.value, value(region, found.components.into(), which));
                    }
                }
            });
        }
        let mut random = Pcg64::seed_from_u64(99);
        for turn in 0..60_000u32 {
            let region = random.random_range(0..REGIONS);
            let components = random.random_range(2..=6);
            let name = within(region, components, &mut random);
            name.hashed(Keys::Good, |name| match fib.get(name) {
                Some(_) if turn % 3 != 0 => assert!(fib.remove(name).is_some()),
                _ => {
                    fib.insert(name, value(region, components, turn & 255)).unwrap();
                }
            });
        }
        done.store(true, Relaxed);
    });
}

/// A prefix is inserted and removed repeatedly, and the memory of records stays constant.
#[test]
fn memory_waits_only_for_batches() {
    let mut fib = NameFib::new(LIMITS).unwrap();
    let (mut active, mut idle) = (fib.reader(), fib.reader());
    let name = Name::parse("/com/example");
    let flap = |fib: &mut NameFib| {
        name.hashed(Keys::Good, |name| {
            assert_eq!(fib.insert(name, 1), Ok(None));
            assert_eq!(fib.remove(name), Some(1));
        });
        fib.collect();
        fib.memory().records
    };
    let before = flap(&mut fib);
    drop(idle.batch());
    let batch = active.batch();
    let held = (0..100).map(|_| flap(&mut fib)).last();
    assert!(held >= Some(before + 100 * 16), "{held:?} bytes, {before} before");
    drop(batch);
    fib.collect();
    let after: Vec<usize> = (0..100).map(|_| flap(&mut fib)).collect();
    assert_eq!(after, vec![held.unwrap_or(0); 100]);
}

#[test]
fn a_batch_that_never_ends_fills_memory_and_blocks_nothing() {
    let mut fib = NameFib::new(NameLimits { prefixes: 1000, record_bytes: 8000 }).unwrap();
    let (mut stuck, mut reader) = (fib.reader(), fib.reader());
    let name = Name::parse("/com/example");
    let batch = stuck.batch();
    let instant = fib.instant();
    assert!(!fib.has_passed(instant));
    let refused = (0..1000).find_map(|_| {
        name.hashed(Keys::Good, |name| {
            let refused = fib.insert(name, 1).err();
            fib.remove(name);
            refused
        })
    });
    assert_eq!(refused, Some(NameRefused::ReaderBusy));
    assert_eq!(name.hashed(Keys::Good, |name| reader.batch().lookup(name)), None);
    drop(batch);
    assert!(fib.has_passed(instant));
    assert_eq!(name.hashed(Keys::Good, |name| fib.insert(name, 2)), Ok(None));
    let found = name.hashed(Keys::Good, |name| reader.batch().lookup(name));
    assert_eq!(found, Some(NameMatch { value: 2, components: 2 }));
}

#[test]
fn a_reader_outlives_the_writer() {
    let mut fib = NameFib::new(LIMITS).unwrap();
    fib.insert(HashedName { bytes: &[], hashes: &NameHashes::default() }, 3).unwrap();
    let mut reader = fib.reader();
    drop(fib);
    let found =
        reader.clone().batch().lookup(HashedName { bytes: &[], hashes: &NameHashes::default() });
    assert_eq!(found.map(|found| found.value), Some(3));
    drop(reader.batch());
}
