//! Tests of a log on a disk that fails, tears writes and loses data.

mod crash;
mod faults;
mod late;

use std::collections::HashMap;
use std::io;

use proptest::prelude::*;

use super::super::{Bytes, Packet};
use super::*;

const SEGMENT: u32 = 64 << 10;
const SEGMENTS: u64 = 4;
const NOW: u64 = 1_700_000_000_000;

fn limits() -> LogLimits {
    LogLimits {
        bytes: 4096 + SEGMENTS * u64::from(SEGMENT),
        segment_bytes: SEGMENT,
        objects: 1000,
        packet_bytes: 8800,
        reads: 4,
        waiters: 8,
        block_bytes: 512,
    }
}

fn log(limits: LogLimits) -> SegmentLog<Vec<u8>> {
    SegmentLog::new(limits, 0xFEED, vec![vec![0; SEGMENT as usize]; 3]).unwrap()
}

fn name(key: u64) -> Vec<u8> {
    format!("\x08\x0c{key:012}").into_bytes()
}

/// A packet of a name, different for each version, of 100 to 8,000 bytes.
fn packet(key: u64, version: u64) -> Vec<u8> {
    let seed = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ version;
    let len = 100 + (seed >> 13) % 7900;
    let body = (0..len).map(|i| (seed.wrapping_mul(i | 1) >> 24) as u8);
    [&b"head"[..], &name(key)].concat().into_iter().chain(body).collect()
}

fn insert(log: &mut SegmentLog<Vec<u8>>, key: u64, version: u64) {
    let bytes = packet(key, version);
    let packet = Packet::new(Bytes::Whole(&bytes), 4..4 + name(key).len());
    log.insert(&name(key), &packet, NOW + 60_000, false, NOW);
}

/// A disk in memory that records the writes.
struct Disk {
    bytes: Vec<u8>,
    /// Offset and contents of every completed write.
    writes: Vec<(usize, Vec<u8>)>,
    fails_reads: bool,
    fails_writes: bool,
}

impl Disk {
    fn new() -> Disk {
        Disk::with(vec![0; limits().bytes as usize])
    }

    fn with(bytes: Vec<u8>) -> Disk {
        Disk { bytes, writes: Vec::new(), fails_reads: false, fails_writes: false }
    }

    /// Carries out the log's requests; returns the waiters' answers.
    fn run(&mut self, log: &mut SegmentLog<Vec<u8>>, now_ms: u64) -> Vec<(u64, Option<Vec<u8>>)> {
        let mut heard = Vec::new();
        while let Some(request) = log.poll_request() {
            match request {
                Request::Read { token, offset, len } => {
                    assert!(
                        offset % 512 == 0 && len % 512 == 0 && len <= limits().read_bytes_max()
                    );
                    let bytes = &self.bytes[offset as usize..][..len];
                    let result = if self.fails_reads { Err(failed()) } else { Ok(bytes) };
                    log.on_read(token, result, now_ms, |waiter, found| {
                        heard.push((waiter, found.map(|f| f.packet.to_vec())));
                    });
                }
                Request::Write { token, offset, len, buffer } => {
                    assert!(offset % 4096 == 0 && len % 4096 == 0);
                    let result = if self.fails_writes { Err(failed()) } else { Ok(()) };
                    if result.is_ok() {
                        let (at, bytes) = (offset as usize, buffer[..len].to_vec());
                        self.bytes[at..at + len].copy_from_slice(&bytes);
                        self.writes.push((at, bytes));
                    }
                    drop(buffer);
                    log.on_written(token, result);
                }
            }
        }
        heard
    }

    fn open(&mut self) -> SegmentLog<Vec<u8>> {
        let mut log = log(limits());
        self.run(&mut log, NOW);
        log
    }

    /// Writes what the log has, in a partly filled segment too.
    fn flush(&mut self, log: &mut SegmentLog<Vec<u8>>) {
        log.flush(NOW);
        self.run(log, NOW);
    }

    fn get(&mut self, log: &mut SegmentLog<Vec<u8>>, key: u64) -> Option<Vec<u8>> {
        match log.lookup(&name(key), false, key, NOW) {
            Lookup::Found(found) => Some(found.packet.to_vec()),
            Lookup::Miss => None,
            Lookup::Reading => {
                let mut heard = self.run(log, NOW);
                assert_eq!((heard.len(), heard[0].0), (1, key));
                heard.remove(0).1
            }
        }
    }
}

/// A disk with this many packets, and its log.
fn filled(packets: u64) -> (Disk, SegmentLog<Vec<u8>>) {
    let mut disk = Disk::new();
    let mut log = disk.open();
    (0..packets).for_each(|key| insert(&mut log, key, 0));
    disk.flush(&mut log);
    (disk, log)
}

fn failed() -> io::Error {
    io::Error::from_raw_os_error(5)
}

#[test]
fn inserted_packets_are_found_and_survive_a_restart() {
    let mut disk = Disk::new();
    let mut log = disk.open();
    assert_eq!(log.health(), Health::Good);
    (0..20).for_each(|key| insert(&mut log, key, 0));
    // From the buffer, and from the disk.
    assert_eq!(disk.get(&mut log, 3), Some(packet(3, 0)));
    assert_eq!(log.stats().buffer_hits, 1);
    disk.flush(&mut log);
    for _ in 0..2 {
        (0..20).for_each(|key| assert_eq!(disk.get(&mut log, key), Some(packet(key, 0)), "{key}"));
        assert_eq!(disk.get(&mut log, 20), None);
        assert_eq!((log.stats().hits, log.stats().mismatches), (20, 0));
        log = disk.open();
        assert_eq!((log.health(), log.stats().recovered), (Health::Good, 20));
        assert_eq!(log.stats().objects, 20);
    }
}

#[test]
fn queries_for_one_packet_share_a_read_and_all_hear() {
    let (mut disk, mut log) = filled(2);
    // One that has to be fresh, after the packet's freshness, and two that need not.
    let late = NOW + 60_500;
    assert!(matches!(log.lookup(&name(1), false, 10, late), Lookup::Reading));
    assert!(matches!(log.lookup(&name(1), true, 11, late), Lookup::Reading));
    assert!(matches!(log.lookup(&name(1), false, 12, late), Lookup::Reading));
    assert_eq!((log.stats().reads, log.stats().coalesced, log.under_way()), (1, 2, 1));
    let mut heard = disk.run(&mut log, late);
    heard.sort();
    let bytes = Some(packet(1, 0));
    assert_eq!(heard, [(10, bytes.clone()), (11, None), (12, bytes)]);
    // A second later the index knows without a read.
    assert!(matches!(log.lookup(&name(1), true, 13, NOW + 61_000), Lookup::Miss));
    assert_eq!(log.under_way(), 0);
}

#[test]
fn beyond_its_bounds_it_misses_and_goes_on() {
    let (mut disk, mut log) = filled(6);
    for key in 0..4 {
        assert!(matches!(log.lookup(&name(key), false, key, NOW), Lookup::Reading));
    }
    assert!(matches!(log.lookup(&name(4), false, 4, NOW), Lookup::Miss), "a fifth read");
    for waiter in 4..8 {
        assert!(matches!(log.lookup(&name(0), false, waiter, NOW), Lookup::Reading));
    }
    assert!(matches!(log.lookup(&name(0), false, 8, NOW), Lookup::Miss), "a ninth query");
    assert_eq!(log.stats().busy, 2);
    assert_eq!(disk.run(&mut log, NOW).len(), 8);
    assert_eq!(disk.get(&mut log, 4), Some(packet(4, 0)));
    // Nothing is written meanwhile, so three segment buffers are filled and no more.
    let bytes = vec![0; 8000];
    for key in 100..140 {
        let whole = Packet::new(Bytes::Whole(&bytes), 0..1);
        log.insert(&name(key), &whole, NOW, false, NOW);
    }
    assert_eq!((log.stats().inserted, log.stats().refused), (6 + 21, 40 - 21));
    disk.run(&mut log, NOW);
    insert(&mut log, 7, 0);
    assert_eq!(disk.get(&mut log, 7), Some(packet(7, 0)));
}

#[test]
fn the_oldest_segment_goes_unless_memory_brings_its_packets_back() {
    let mut disk = Disk::new();
    let mut log = disk.open();
    insert(&mut log, 0, 0);
    insert(&mut log, 1, 0);
    for round in 0..12 {
        disk.flush(&mut log);
        insert(&mut log, 1000 + round, 0);
        // Packet 0 is requested, was in memory, and is evicted again.
        let bytes = disk.get(&mut log, 0).unwrap_or_else(|| panic!("gone in round {round}"));
        let whole = Packet::new(Bytes::Whole(&bytes), 4..4 + name(0).len());
        log.insert(&name(0), &whole, NOW, true, NOW);
    }
    assert_eq!(disk.get(&mut log, 1), None);
    let stats = log.stats();
    // It is rewritten every second round: in the others it is not among the oldest quarter.
    assert_eq!((stats.kept, stats.inserted), (6, 2 + 12 + 6), "{stats:?}");
}

#[test]
fn a_log_that_is_only_read_is_not_written_for_ever() {
    let mut disk = Disk::new();
    let mut log = disk.open();
    (0..60).for_each(|key| {
        insert(&mut log, key, 0);
        disk.run(&mut log, NOW);
    });
    for key in (0..60).cycle().take(600) {
        let Some(bytes) = disk.get(&mut log, key) else { continue };
        let whole = Packet::new(Bytes::Whole(&bytes), 4..4 + name(key).len());
        log.insert(&name(key), &whole, NOW, true, NOW);
        disk.run(&mut log, NOW);
    }
    let stats = log.stats();
    assert!(stats.inserted <= 120 && stats.kept > 300, "{stats:?}");
}

#[test]
fn after_the_clock_was_set_back_nothing_old_is_fresh() {
    let (mut disk, _) = filled(2);
    let mut log = super::tests::log(limits());
    let before = NOW - 1_000_000;
    disk.run(&mut log, before);
    assert!(matches!(log.lookup(&name(1), true, 0, before), Lookup::Miss));
    assert_eq!(disk.get(&mut log, 1), Some(packet(1, 0)));
}

#[test]
fn bad_limits_are_told() {
    let bad = |change: fn(&mut LogLimits)| {
        let mut limits = limits();
        change(&mut limits);
        let buffers = vec![vec![0u8; SEGMENT as usize]; 2];
        SegmentLog::new(limits, 1, buffers).err().unwrap().to_string()
    };
    assert!(bad(|l| l.segment_bytes = 100_000).contains("power of two"));
    assert!(bad(|l| l.bytes = 1000).contains("2 TiB"));
    assert!(bad(|l| l.bytes = 3 << 40).contains("2 TiB"));
    assert!(bad(|l| l.packet_bytes = 70_000).contains("65,535"));
    assert!(bad(|l| l.block_bytes = 100).contains("512"));
    assert!(bad(|l| l.waiters = 1).contains("waiting"));
    assert!(SegmentLog::new(limits(), 1, vec![vec![0u8; 100]; 2]).is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Get(u64),
    Erase(u64),
    Flush,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0u64..40;
    prop_oneof![
        8 => key.clone().prop_map(Step::Insert),
        8 => key.clone().prop_map(Step::Get),
        1 => key.prop_map(Step::Erase),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A log may forget, but a packet that it returns is the last version inserted; after a
    /// restart, any version inserted.
    #[test]
    fn it_says_what_a_map_would_or_nothing(steps in prop::collection::vec(step(), 1..150)) {
        let mut disk = Disk::new();
        let mut log = disk.open();
        let (mut latest, mut version) = (HashMap::new(), 0);
        let mut reopened = false;
        for step in steps {
            match step {
                Step::Insert(key) => {
                    version += 1;
                    insert(&mut log, key, version);
                    latest.insert(key, version);
                }
                Step::Get(key) => {
                    let found = disk.get(&mut log, key);
                    let is_latest = |v| found.as_ref() == Some(&packet(key, v));
                    let was_ever = || (1..=version).any(is_latest);
                    let known = latest.get(&key).copied().is_some_and(is_latest);
                    prop_assert!(found.is_none() || known || reopened && was_ever());
                }
                Step::Erase(key) => {
                    log.erase(&name(key));
                    latest.remove(&key);
                    let gone = matches!(log.lookup(&name(key), false, 0, NOW), Lookup::Miss);
                    prop_assert!(gone);
                }
                Step::Flush => log.flush(NOW),
                Step::Reopen => {
                    reopened = true;
                    disk.run(&mut log, NOW);
                    log = disk.open();
                }
            }
            disk.run(&mut log, NOW);
            prop_assert_eq!(log.stats().mismatches, 0);
            prop_assert_eq!(log.under_way(), 0);
        }
    }
}

#[test]
fn packets_erased_by_prefix_return_only_after_a_restart() {
    let mut disk = Disk::new();
    let mut log = disk.open();
    (0..8).for_each(|key| insert(&mut log, key, 0));
    // One in the segment being filled, before and after.
    log.erase_under(&name(3), NOW);
    assert_eq!(disk.get(&mut log, 3), None);
    insert(&mut log, 3, 1);
    assert_eq!(disk.get(&mut log, 3), Some(packet(3, 1)));
    assert_eq!(disk.get(&mut log, 4), Some(packet(4, 0)));
    log.erase_under(&name(4), NOW);
    disk.run(&mut log, NOW);
    assert_eq!((disk.get(&mut log, 4), log.stats().mismatches), (None, 0));
    // Too many to remember: everything as old as the first is forgotten.
    (100..163).for_each(|key| log.erase_under(&name(key), NOW));
    assert_eq!(disk.get(&mut log, 5), None);
    assert_eq!(disk.get(&mut log, 3), Some(packet(3, 1)));

    let mut log = disk.open();
    assert_eq!(disk.get(&mut log, 4), Some(packet(4, 0)));
    // Before the log is open.
    let mut log = super::tests::log(limits());
    log.erase_under(&name(5), NOW);
    disk.run(&mut log, NOW);
    assert_eq!((disk.get(&mut log, 5), disk.get(&mut log, 6)), (None, Some(packet(6, 0))));
}
