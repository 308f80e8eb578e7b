//! Tests of disks that answer late or never.

use std::collections::HashSet;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::super::reads::READ_MS_MAX;
use super::*;

const LATE: u64 = NOW + READ_MS_MAX;

/// A log with twenty packets on its disk, and a read of one of them that does not end.
fn hung() -> (Disk, SegmentLog<Vec<u8>>, (u32, u64, usize)) {
    let (disk, mut log) = filled(20);
    assert!(matches!(log.lookup(&name(1), false, 10, NOW), Lookup::Reading));
    let asked = read_of(&mut log).unwrap();
    (disk, log, asked)
}

/// The read that the log asks for next: token, offset, bytes.
fn read_of(log: &mut SegmentLog<Vec<u8>>) -> Option<(u32, u64, usize)> {
    match log.poll_request()? {
        Request::Read { token, offset, len } => Some((token, offset, len)),
        Request::Write { .. } => panic!("a write"),
    }
}

/// Ends a read; returns the waiters' answers.
fn end(
    disk: &Disk,
    log: &mut SegmentLog<Vec<u8>>,
    (token, offset, len): (u32, u64, usize),
    now_ms: u64,
) -> (Vec<(u64, bool)>, Option<Vec<u8>>) {
    let mut heard = Vec::new();
    let bytes = &disk.bytes[offset as usize..][..len];
    let found = log.on_read(token, Ok(bytes), now_ms, |w, found| heard.push((w, found.is_some())));
    (heard, found.map(|f| f.packet.to_vec()))
}

fn expired(log: &mut SegmentLog<Vec<u8>>, now_ms: u64) -> Vec<u64> {
    let mut heard = Vec::new();
    log.expire(now_ms, |waiter| heard.push(waiter));
    heard.sort_unstable();
    heard
}

#[test]
fn waiters_of_a_hung_read_miss_and_no_query_joins_it() {
    let (disk, mut log, asked) = hung();
    assert!(matches!(log.lookup(&name(1), false, 11, NOW + 500), Lookup::Reading));
    assert_eq!(log.next_late_ms(), Some(LATE));
    assert_eq!(expired(&mut log, LATE - 1), []);
    assert_eq!((log.health(), log.stats().late), (Health::Good, 0));
    assert_eq!(expired(&mut log, LATE), [10, 11]);
    assert_eq!(expired(&mut log, LATE), [], "once");
    assert_eq!((log.health(), log.stats().late, log.stats().misses), (Health::Stalled, 1, 2));
    // From now on only memory answers: no requests, and no insertions.
    for key in [1, 2] {
        assert!(matches!(log.lookup(&name(key), false, 12, LATE), Lookup::Miss));
    }
    log.read_ahead(&name(3));
    insert(&mut log, 30, 0);
    assert_eq!((log.stats().refused, log.stats().reads), (1, 1));
    // The late result arrives: no waiter is told, the packet may go to memory, and the disk is used
    // again.
    let (heard, found) = end(&disk, &mut log, asked, LATE + 60_000);
    assert_eq!((heard, found), (vec![], Some(packet(1, 0))));
    assert_eq!(log.health(), Health::Good);
    assert!(matches!(log.lookup(&name(1), false, 13, LATE), Lookup::Reading));
    insert(&mut log, 30, 0);
    assert_eq!(log.stats().refused, 1);
}

#[test]
fn a_disk_that_has_lost_a_read_is_tried_by_another_and_used_again() {
    let (mut disk, mut log, lost) = hung();
    expired(&mut log, LATE);
    let probe = read_of(&mut log).expect("it asks whether the disk answers");
    assert_eq!((probe.1, probe.2), (0, SUPERBLOCK));
    assert_eq!(end(&disk, &mut log, probe, LATE + 5), (vec![], None));
    assert_eq!((log.health(), log.under_way()), (Health::Good, 1));
    // The location is read anew; the lost result may arrive even now, and answers no waiter.
    assert!(matches!(log.lookup(&name(1), false, 20, LATE + 6), Lookup::Reading));
    let again = read_of(&mut log).unwrap();
    assert_ne!(again.0, lost.0, "the disk has the other's buffer");
    assert_eq!(end(&disk, &mut log, lost, LATE + 7).0, []);
    assert_eq!(end(&disk, &mut log, again, LATE + 8), (vec![(20, true)], Some(packet(1, 0))));
    assert_eq!((log.under_way(), log.stats().mismatches), (0, 0));
    assert_eq!(disk.get(&mut log, 2), Some(packet(2, 0)));
}

#[test]
fn a_disk_that_stays_dead_is_asked_no_more_than_it_has_reads() {
    let (_, mut log, _) = hung();
    for key in 2..5 {
        assert!(matches!(log.lookup(&name(key), false, key, NOW + key), Lookup::Reading));
        read_of(&mut log).unwrap();
    }
    // One after the other becomes late; reads still in time serve as probes.
    assert_eq!(expired(&mut log, LATE), [10]);
    assert_eq!(expired(&mut log, LATE + 3), [2, 3]);
    assert!(read_of(&mut log).is_none());
    assert_eq!(expired(&mut log, LATE + 4), [4]);
    assert!(read_of(&mut log).is_none(), "all four reads are taken");
    for minute in 1..100 {
        assert_eq!(expired(&mut log, LATE + minute * 60_000), []);
        assert!(matches!(log.lookup(&name(7), false, 7, LATE), Lookup::Miss));
    }
    assert_eq!((log.under_way(), log.stats().late, log.health()), (4, 4, Health::Stalled));

    // With one slot left, that one is the probe, once.
    let (_, mut log, _) = hung();
    expired(&mut log, LATE);
    read_of(&mut log).unwrap();
    for minute in 1..100 {
        expired(&mut log, LATE + minute * 60_000);
        assert!(read_of(&mut log).is_none());
    }
    assert_eq!((log.under_way(), log.stats().late), (2, 2));
}

#[test]
fn a_disk_whose_trial_fails_is_given_up() {
    let (_, mut log, _) = hung();
    expired(&mut log, LATE);
    let mut trials = 0;
    while let Some((token, ..)) = read_of(&mut log) {
        trials += 1;
        log.on_read(token, Err(failed()), LATE, |_, _| panic!("no waiter"));
    }
    assert_eq!((trials, log.health()), (ERRORS_MAX, Health::Discarded));
}

#[test]
fn buffered_packets_are_served_while_the_disk_hangs() {
    let (_, mut log, _) = hung();
    insert(&mut log, 30, 0);
    expired(&mut log, LATE);
    assert!(matches!(log.lookup(&name(30), false, 30, LATE), Lookup::Found(_)));
}

/// The disk answers in any order, late, with errors, or only at the end.
#[test]
fn every_query_is_answered_once_whatever_a_disk_does() {
    let mut totals = LogStats::default();
    for seed in 0..40 {
        let mut random = Pcg64::seed_from_u64(seed);
        let (mut disk, mut log, asked) = hung();
        let read = |(token, offset, len)| Request::Read { token, offset, len };
        let mut asked: Vec<Request<Vec<u8>>> = vec![read(asked)];
        let mut waiting = HashSet::from([10]);
        let (mut now, mut waiter) = (NOW, 1000);
        for step in 0..600 {
            match random.random_range(0..10) {
                0..5 if step < 500 => {
                    let key = random.random_range(0..40);
                    waiter += 1000;
                    match log.lookup(&name(key), false, waiter + key, now) {
                        Lookup::Found(found) => assert_eq!(found.packet.to_vec(), packet(key, 0)),
                        Lookup::Reading => assert!(waiting.insert(waiter + key)),
                        Lookup::Miss => {}
                    }
                }
                5 => insert(&mut log, random.random_range(0..40), 0),
                6 => {
                    now += random.random_range(0..READ_MS_MAX);
                    let expired = expired(&mut log, now);
                    assert!(expired.iter().all(|waiter| waiting.remove(waiter)));
                }
                _ if !asked.is_empty() => {
                    let request = asked.swap_remove(random.random_range(0..asked.len()));
                    let fails = random.random_ratio(1, 20);
                    answer(&mut disk, &mut log, request, fails, now, &mut waiting);
                }
                _ => {}
            }
            while let Some(request) = log.poll_request() {
                asked.push(request);
            }
            assert!(asked.len() <= limits().reads + 3 && waiting.len() <= limits().waiters);
        }
        while let Some(request) = asked.pop() {
            answer(&mut disk, &mut log, request, false, now, &mut waiting);
            while let Some(request) = log.poll_request() {
                asked.push(request);
            }
        }
        assert_eq!((waiting.len(), log.under_way()), (0, 0), "seed {seed}");
        assert_eq!(log.health(), Health::Good, "seed {seed}");
        totals.late += log.stats().late;
        totals.hits += log.stats().hits;
    }
    assert!(totals.late > 100 && totals.hits > 100, "{totals:?}");
}

/// Carries out a request or makes it fail; each waiter that is told was waiting, and gets the right
/// packet.
fn answer(
    disk: &mut Disk,
    log: &mut SegmentLog<Vec<u8>>,
    request: Request<Vec<u8>>,
    fails: bool,
    now_ms: u64,
    waiting: &mut HashSet<u64>,
) {
    match request {
        Request::Read { token, offset, len } => {
            let bytes = &disk.bytes[offset as usize..][..len];
            let result = if fails { Err(failed()) } else { Ok(bytes) };
            log.on_read(token, result, now_ms, |waiter, found| {
                assert!(waiting.remove(&waiter), "{waiter} heard twice, or did not wait");
                let right = packet(if waiter == 10 { 1 } else { waiter % 1000 }, 0);
                assert!(found.is_none_or(|f| f.packet.to_vec() == right));
            });
        }
        Request::Write { token, offset, len, buffer } => {
            disk.bytes[offset as usize..][..len].copy_from_slice(&buffer[..len]);
            assert!(Arc::strong_count(&buffer) > 1);
            drop(buffer);
            log.on_written(token, Ok(()));
        }
    }
}
