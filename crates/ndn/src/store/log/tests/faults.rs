//! Tests of disks that fail, and of disks with foreign contents.

use super::super::format::{TableEntry, read_head, write_entry, write_head};
use super::*;

#[test]
fn a_full_disk_is_still_read_and_not_written_any_more() {
    let (mut disk, mut log) = filled(20);
    disk.fails_writes = true;
    for key in 100..100 + u64::from(ERRORS_MAX) + 3 {
        insert(&mut log, key, 0);
        disk.flush(&mut log);
        assert_eq!(disk.get(&mut log, key), None, "{key} is nowhere");
    }
    assert_eq!(log.health(), Health::ReadOnly);
    assert_eq!(log.stats().write_errors, u64::from(ERRORS_MAX));
    assert_eq!(log.stats().refused, 3);
    // Packets in the segments that the failed writes would have overwritten are gone; others are
    // served.
    disk.fails_writes = false;
    let mut log = disk.open();
    assert_eq!(disk.get(&mut log, 5), Some(packet(5, 0)));
}

#[test]
fn a_write_that_fails_once_costs_its_packets_only() {
    let (mut disk, mut log) = filled(20);
    disk.fails_writes = true;
    insert(&mut log, 100, 0);
    disk.flush(&mut log);
    disk.fails_writes = false;
    insert(&mut log, 101, 0);
    disk.flush(&mut log);
    assert_eq!(log.health(), Health::Good);
    assert_eq!(disk.get(&mut log, 100), None);
    assert_eq!(disk.get(&mut log, 101), Some(packet(101, 0)));
    assert_eq!((log.stats().write_errors, log.stats().objects), (1, 21));
}

#[test]
fn a_disk_that_cannot_be_read_is_given_up() {
    let (mut disk, mut log) = filled(20);
    disk.fails_reads = true;
    for key in 0..u64::from(ERRORS_MAX) {
        assert_ne!(log.health(), Health::Discarded);
        assert_eq!(disk.get(&mut log, key), None);
    }
    assert_eq!(log.health(), Health::Discarded);
    assert_eq!(log.stats().read_errors, u64::from(ERRORS_MAX));
    assert!(matches!(log.lookup(&name(19), false, 0, NOW), Lookup::Miss));
    insert(&mut log, 200, 0);
    assert_eq!((log.stats().refused, log.under_way()), (1, 0));
    assert!(log.poll_request().is_none());
}

#[test]
fn a_disk_that_fails_at_once_is_none() {
    let mut disk = Disk::new();
    disk.fails_reads = true;
    assert_eq!(disk.open().health(), Health::Discarded);
    let mut disk = Disk::new();
    disk.fails_writes = true;
    assert_eq!(disk.open().health(), Health::Discarded);
}

#[test]
fn foreign_data_on_a_disk_is_not_overwritten() {
    let mut bytes = vec![0; limits().bytes as usize];
    bytes[1080] = 0x53; // where ext4 has its magic
    let mut disk = Disk::with(bytes.clone());
    let mut log = disk.open();
    assert_eq!(log.health(), Health::Foreign);
    insert(&mut log, 1, 0);
    disk.flush(&mut log);
    assert!(disk.bytes == bytes && disk.writes.is_empty());
}

#[test]
fn a_log_of_another_shape_is_made_anew() {
    let (mut disk, _) = filled(20);
    let smaller = LogLimits { bytes: limits().bytes - u64::from(SEGMENT), ..limits() };
    assert!(SegmentLog::new(smaller, 1, vec![vec![0u8; SEGMENT as usize]; 2]).is_err());
    let other =
        LogLimits { segment_bytes: SEGMENT, bytes: 4096 + 5 * u64::from(SEGMENT), ..limits() };
    disk.bytes.resize(other.bytes as usize, 0);
    let mut log = log(other);
    disk.run(&mut log, NOW);
    assert_eq!((log.health(), log.stats().recovered), (Health::Good, 0));
    assert_eq!(disk.get(&mut log, 1), None);
    assert_eq!(log.displaced(), Some(Displaced::Size));
}

#[test]
fn a_log_for_other_names_is_made_anew_and_told() {
    let (mut disk, _) = filled(20);
    let open = |disk: &mut Disk, part| {
        let mut log = log(limits()).for_part(part);
        disk.run(&mut log, NOW);
        assert_eq!(log.health(), Health::Good);
        log
    };
    // A log of one worker with one disk holds all names.
    let mut whole = open(&mut disk, Part::WHOLE);
    assert_eq!((whole.displaced(), disk.get(&mut whole, 1)), (None, Some(packet(1, 0))));
    let mut before = Part::WHOLE;
    for (worker, workers, disk_of, disks) in [(1, 2, 0, 1), (0, 2, 0, 1), (0, 1, 1, 3)] {
        let part = Part { worker, workers, disk: disk_of, disks };
        let mut other = open(&mut disk, part);
        assert_eq!(other.displaced(), Some(Displaced::Part(before)));
        assert_eq!((other.stats().recovered, disk.get(&mut other, 1)), (0, None));
        insert(&mut other, 1, 0);
        disk.flush(&mut other);
        // The same part finds it again.
        let mut same = open(&mut disk, part);
        assert_eq!((same.displaced(), disk.get(&mut same, 1)), (None, Some(packet(1, 0))));
        before = part;
    }
}

#[test]
fn results_of_nothing_change_nothing() {
    let (mut disk, mut log) = filled(20);
    log.on_written(77, Ok(()));
    log.on_written(0, Err(failed()));
    assert!(log.on_read(99, Ok(&[]), NOW, |_, _| panic!("no waiter")).is_none());
    assert!(log.on_read(0, Ok(&[]), NOW, |_, _| panic!("no waiter")).is_none());
    assert_eq!(log.stats().write_errors, 0);
    assert_eq!(disk.get(&mut log, 1), Some(packet(1, 0)));
}

/// Where a segment is in the file.
fn segment_at(segment: usize) -> usize {
    SUPERBLOCK + segment * SEGMENT as usize
}

#[test]
fn an_entry_longer_than_a_packet_may_be_costs_itself_only() {
    let (mut disk, _) = filled(20);
    let head = &mut disk.bytes[segment_at(0)..][..SEGMENT as usize];
    let (seq, entries) = {
        let read = read_head(head, 0xFEED).unwrap();
        (read.seq, read.entries().collect::<Vec<TableEntry>>())
    };
    for (i, entry) in entries.iter().enumerate().skip(1) {
        write_entry(head, i, TableEntry { unit: 1, units: 100, ..*entry });
    }
    write_head(head, 0xFEED, seq, entries.len() as u32, NOW);
    let mut log = disk.open();
    let found = (0..20).filter(|key| disk.get(&mut log, *key) == Some(packet(*key, 0)));
    assert_eq!(found.count(), 20 - (entries.len() - 1));
    assert_eq!((log.health(), log.stats().read_errors), (Health::Good, 0));
}

#[test]
fn a_segment_with_an_impossible_number_costs_itself_only() {
    for seq in [u64::MAX, (1 << 63) - 1, (1 << 40) + 3] {
        let (mut disk, _) = filled(20);
        let head = &mut disk.bytes[segment_at(3)..][..SEGMENT as usize];
        write_head(head, 0xFEED, seq, 0, NOW);
        for key in 20..22 {
            let mut log = disk.open();
            assert_eq!((log.health(), log.stats().recovered), (Health::Good, key));
            let found = (0..key).filter(|k| disk.get(&mut log, *k) == Some(packet(*k, 0)));
            assert_eq!(found.count() as u64, key, "{seq}");
            // The ring continues after the segments that are right.
            assert!(log.ring.next_seq < 100, "{}", log.ring.next_seq);
            insert(&mut log, key, 0);
            disk.flush(&mut log);
        }
    }
}
