//! Tests of both tiers, with two disks in memory.

use std::collections::HashMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::super::log::LogLimits;
use super::super::memory::MemoryLimits;
use super::super::policy::S3Fifo;
use super::*;

const NOW: u64 = 1_700_000_000_000;
const SEGMENT: u32 = 64 << 10;

type Store = ContentStore<S3Fifo, Vec<u8>>;

fn store(disks: u64) -> Store {
    let limits = LogLimits {
        bytes: 4096 + 16 * u64::from(SEGMENT),
        segment_bytes: SEGMENT,
        objects: 1000,
        packet_bytes: 8800,
        reads: 8,
        waiters: 16,
        block_bytes: 4096,
    };
    let buffers = || vec![vec![0; SEGMENT as usize]; 3];
    let log = |identity| SegmentLog::new(limits, identity, buffers()).unwrap();
    let memory = MemoryLimits { bytes: 64 << 10, entries: 20 };
    ContentStore::new(MemoryStore::new(memory, S3Fifo::new), (0..disks).map(log).collect())
}

fn bytes(key: u64) -> Vec<u8> {
    let mut bytes = vec![key as u8; 2 + 1000 + key as usize % 999];
    bytes[2..10].copy_from_slice(&key.to_be_bytes());
    bytes
}

fn with<T>(key: u64, then: impl FnOnce(&Data<'_>) -> T) -> T {
    let bytes = bytes(key);
    let hash = xxh3_64(&bytes[2..10]);
    then(&Data::new(&bytes, 2..10, hash, &[]).unwrap())
}

/// Carries out the store's requests to its disks; returns each waiter's answer.
fn run(store: &mut Store, images: &mut [Vec<u8>]) -> Vec<(u64, Option<Vec<u8>>)> {
    let mut heard = Vec::new();
    while let Some((disk, request)) = store.poll_request() {
        match request {
            Request::Read { token, offset, len } => {
                let bytes = images[disk][offset as usize..][..len].to_vec();
                let found = store.on_read(disk, token, Ok(&bytes), NOW, |waiter, found| {
                    heard.push((waiter, found.map(|f| f.packet.to_vec())));
                });
                if let Some(found) = found {
                    let (packet, at) = (found.packet.to_vec(), found.packet.name_at());
                    let hash = xxh3_64(&packet[at.clone()]);
                    let data = Data::new(&packet, at, hash, &[]).unwrap();
                    store.promote(&data, found.stale_at_ms, found.is_ahead, NOW);
                }
            }
            Request::Write { token, offset, len, buffer } => {
                images[disk][offset as usize..][..len].copy_from_slice(&buffer[..len]);
                drop(buffer);
                store.on_written(disk, token, Ok(()));
            }
        }
    }
    heard
}

fn ask(store: &mut Store, images: &mut [Vec<u8>], key: u64) -> Option<Vec<u8>> {
    let name = key.to_be_bytes();
    let hash = xxh3_64(&name);
    let query = Query { name: &name, hash, can_be_prefix: false, must_be_fresh: false };
    match store.lookup(&query, key, NOW) {
        Answer::Hit(packet) => Some(packet.to_vec()),
        Answer::Miss => None,
        Answer::Reading => run(store, images).pop().unwrap().1,
    }
}

/// With a catalogue ten times the size of memory, both tiers answer, never wrongly, and the disk
/// tier survives a restart.
#[test]
fn disks_hold_what_memory_cannot() {
    let mut images = vec![vec![0; 4096 + 16 * SEGMENT as usize]; 2];
    let mut store = store(2);
    run(&mut store, &mut images);
    let mut random = Pcg64::seed_from_u64(4);
    let mut asked = HashMap::new();
    for _ in 0..6000 {
        let key = random.random_range(0..200u64).min(random.random_range(0..200));
        *asked.entry(key).or_insert(0) += 1;
        match ask(&mut store, &mut images, key) {
            Some(found) => assert_eq!(found, bytes(key)),
            None => with(key, |data| store.insert(data, 1000, NOW)),
        }
        run(&mut store, &mut images);
    }
    let stats = store.stats();
    assert!(stats.memory_hits > 600 && stats.disk_hits > 2000, "{stats:?}");
    assert_eq!(stats.memory_hits + stats.disk_hits + stats.misses, 6000);
    assert!(store.disks().iter().all(|d| d.stats().hits > 1000), "one disk has it all");
    let rewritten: u64 = store.disks().iter().map(|d| d.stats().inserted).sum();
    assert!(rewritten < 2000, "{rewritten} packets were written, of {}", asked.len());
    store.flush(NOW);
    run(&mut store, &mut images);

    let mut store = super::tests::store(2);
    run(&mut store, &mut images);
    let found = (0..200).filter(|&key| match ask(&mut store, &mut images, key) {
        Some(found) => found == bytes(key) || panic!("{key} is wrong"),
        None => false,
    });
    assert!(found.count() > 150);
}

#[test]
fn packets_requested_once_are_not_written() {
    let mut images = vec![vec![0; 4096 + 16 * SEGMENT as usize]];
    let mut store = store(1);
    run(&mut store, &mut images);
    (0..500).for_each(|key| with(key, |data| store.insert(data, 0, NOW)));
    assert_eq!(store.disks()[0].stats().inserted, 0);
}

#[test]
fn without_disks_it_is_a_memory() {
    let mut store = store(0);
    with(1, |data| store.insert(data, 0, NOW));
    assert_eq!(ask(&mut store, &mut [], 1), Some(bytes(1)));
    assert_eq!(ask(&mut store, &mut [], 2), None);
    assert!(store.erase(xxh3_64(&1u64.to_be_bytes()), &1u64.to_be_bytes()));
    assert_eq!(ask(&mut store, &mut [], 1), None);
}
