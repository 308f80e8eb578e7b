//! Tests of a log after a crash, and after bit flips on the disk.

use std::collections::HashSet;

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

/// Offsets and contents.
type Writes = Vec<(usize, Vec<u8>)>;

/// The writes made while 37 keys were inserted repeatedly in new versions; how many versions there
/// were; and the write that holds each version.
fn history() -> (Writes, u64, Vec<usize>) {
    let mut disk = Disk::new();
    let mut log = disk.open();
    let (mut version, mut in_write) = (0, vec![0]);
    while disk.writes.len() < 9 {
        version += 1;
        insert(&mut log, version % 37, version);
        disk.run(&mut log, NOW);
        in_write.push(disk.writes.len());
    }
    (disk.writes, version, in_write)
}

/// Checks that every packet a disk returns was inserted; returns the keys found.
fn verify(disk: &mut Disk, versions: u64, what: &str) -> HashSet<u64> {
    let mut log = disk.open();
    let mut found = HashSet::new();
    for key in 0..37 {
        let Some(bytes) = disk.get(&mut log, key) else { continue };
        let went_in = (1..=versions).any(|v| v % 37 == key && packet(key, v) == bytes);
        assert!(went_in, "{what}: key {key} has bytes that never went in");
        found.insert(key);
    }
    found
}

/// Cut after every block of every write, with the blocks of the last write in order, and in random
/// order.
#[test]
fn after_a_crash_at_any_block_nothing_is_wrong_and_whole_segments_survive() {
    let (writes, versions, in_write) = history();
    let mut random = Pcg64::seed_from_u64(6);
    let mut image = vec![0; limits().bytes as usize];
    let mut survivors = HashSet::new();
    for (n, (at, bytes)) in writes.iter().enumerate() {
        let blocks = bytes.len() / 512;
        for cut in 0..blocks {
            let mut torn = image.clone();
            torn[*at..*at + cut * 512].copy_from_slice(&bytes[..cut * 512]);
            let what = format!("write {n} cut after block {cut}");
            let found = verify(&mut Disk::with(torn), versions, &what);
            if cut == 0 {
                survivors = found;
            } else if n < SEGMENTS as usize + 1 {
                // The segment being written held nothing yet, so all others are intact. A key with
                // a later version in that segment may be lost with it.
                let is_later =
                    |key: u64| (1..=versions).any(|v| v % 37 == key && in_write[v as usize] == n);
                let lost = survivors.difference(&found).find(|&&key| !is_later(key));
                assert_eq!(lost, None, "{what}");
            }
        }
        for _ in 0..16 {
            let mut torn = image.clone();
            for block in (0..blocks).filter(|_| random.random::<bool>()) {
                let range = block * 512..(block + 1) * 512;
                torn[at + range.start..at + range.end].copy_from_slice(&bytes[range]);
            }
            verify(&mut Disk::with(torn), versions, &format!("write {n}, blocks at random"));
        }
        image[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    let found = verify(&mut Disk::with(image), versions, "whole");
    assert!(found.len() > 20, "only {} keys are found", found.len());
}

#[test]
fn flipped_bits_are_misses_and_cost_no_more() {
    let (writes, versions, _) = history();
    let mut image = vec![0; limits().bytes as usize];
    for (at, bytes) in &writes {
        image[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    let whole = verify(&mut Disk::with(image.clone()), versions, "whole").len();
    let mut random = Pcg64::seed_from_u64(7);
    let mut least = whole;
    for run in 0..60 {
        let mut flipped = image.clone();
        let flips = 1 << (run % 8);
        for _ in 0..flips {
            // Half of them hit heads and tables.
            let at = match random.random::<bool>() {
                true => {
                    4096 + random.random_range(0..SEGMENTS as usize) * SEGMENT as usize
                        + random.random_range(0..2048)
                }
                false => random.random_range(4096..flipped.len()),
            };
            flipped[at] ^= 1 << (random.next_u32() % 8);
        }
        let left = verify(&mut Disk::with(flipped), versions, &format!("run {run}")).len();
        least = least.min(left);
        assert!(flips > 1 || left + 37 / 4 * 2 >= whole, "one bit cost {}", whole - left);
    }
    assert!(least < whole, "no flip hit anything");
}

/// An intact record of an earlier round with the right name is not accepted as a later one.
#[test]
fn a_write_that_was_lost_is_noticed() {
    let mut disk = Disk::new();
    let mut log = disk.open();
    insert(&mut log, 1, 1);
    disk.flush(&mut log);
    let old = disk.bytes.clone();
    // Once round the ring, so that the same packet gets the same location again.
    for filler in 100..100 + SEGMENTS - 1 {
        insert(&mut log, filler, 0);
        disk.flush(&mut log);
    }
    insert(&mut log, 1, 1);
    disk.flush(&mut log);
    disk.bytes[4096..][..SEGMENT as usize].copy_from_slice(&old[4096..][..SEGMENT as usize]);
    assert_eq!(disk.get(&mut log, 1), None);
    assert_eq!(log.stats().mismatches, 1);
}
