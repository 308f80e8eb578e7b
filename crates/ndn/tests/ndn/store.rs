//! The forwarder and its content store: disk reads, and management.

use std::io;

use crate::rig::*;
use plexus_ndn::face::{Face, Fate};
use plexus_ndn::store::Erasing;
use plexus_ndn::store::log::{Health, LogLimits, Request, SegmentLog};
use plexus_wire::ndn::lp::{Headers, NackReason};
use plexus_wire::ndn::{Component, types};
use sha2::{Digest, Sha256};

const NEAR: Face = Face::NEIGHBOUR;
const SEGMENT: usize = 64 << 10;
const BYTES: usize = 4096 + 16 * SEGMENT;
const ROUTES: [Route<'_>; 1] = [("/", 2, 0)];

/// A forwarder whose memory holds one packet, and its disk.
struct Two {
    rig: Rig,
    image: Vec<u8>,
    fails: bool,
}

fn log() -> SegmentLog<Vec<u8>> {
    let limits = LogLimits {
        bytes: BYTES as u64,
        segment_bytes: SEGMENT as u32,
        objects: 1000,
        packet_bytes: 8800,
        reads: 16,
        waiters: 32,
        block_bytes: 512,
    };
    SegmentLog::new(limits, 0xFEED, vec![vec![0; SEGMENT]; 3]).unwrap()
}

impl Two {
    fn new() -> Two {
        Two::with(1)
    }

    /// With memory for this many packets.
    fn with(entries: usize) -> Two {
        let plan = plan(&ROUTES, &[], &[]);
        let unix = |c: &mut plexus_ndn::forwarder::Config| c.unix_ms_at_zero = 1_700_000_000_000;
        let rig = Rig::with_store(&[NEAR; 3], plan, store(entries, vec![log()]), unix);
        let mut two = Two { rig, image: vec![0; BYTES], fails: false };
        two.run();
        assert_eq!(two.rig.forwarder.store().disks()[0].health(), Health::Good);
        two
    }

    /// Carries out the disk requests; returns what was sent.
    fn run(&mut self) -> Vec<Sent> {
        let mut sent = Log::default();
        let (forwarder, now) = (&mut self.rig.forwarder, self.rig.now);
        while let Some((disk, request)) = forwarder.poll_request() {
            match request {
                Request::Read { token, offset, len } => {
                    let bytes = &self.image[offset as usize..][..len];
                    let failed = io::Error::from(io::ErrorKind::TimedOut);
                    let result = if self.fails { Err(failed) } else { Ok(bytes) };
                    forwarder.on_read(now, disk, token, result, &mut sent);
                }
                Request::Write { token, offset, len, buffer } => {
                    self.image[offset as usize..][..len].copy_from_slice(&buffer[..len]);
                    drop(buffer);
                    forwarder.on_written(disk, token, Ok(()));
                }
            }
        }
        self.rig.check();
        sent.0
    }

    /// Fetches Data twice, so that it is worth writing to the disk, and then enough others to evict
    /// it to there.
    fn put(&mut self, text: &str, freshness_ms: u64) -> Vec<u8> {
        let packet = data_fresh(text, text.as_bytes(), freshness_ms);
        let inserted = |two: &Two| two.rig.forwarder.store().disks()[0].stats().inserted;
        let before = inserted(self);
        for other in ["/other/1", "/other/2"] {
            assert_eq!(to(&self.rig.receive(0, &interest(text, 1))), [2]);
            self.rig.receive(2, &packet);
            assert_eq!(self.rig.receive(0, &interest(text, 2))[0].packet, packet);
            self.rig.receive(0, &interest(other, 3));
            self.rig.receive(2, &data(other));
            if inserted(self) > before {
                break;
            }
        }
        let unix_ms = self.rig.forwarder.unix_ms();
        self.rig.forwarder.store_mut().flush(unix_ms);
        assert!(self.run().is_empty());
        packet
    }
}

#[test]
fn packets_on_disk_are_sent_to_all_waiting_faces_once_read() {
    let mut two = Two::new();
    let packet = two.put("/a", 60_000);
    let token = Headers { pit_token: Some(b"t"), ..Headers::default() };
    assert!(two.rig.receive_with(0, &token, &interest("/a", 5)).is_empty());
    assert!(two.rig.receive(1, &interest("/a", 6)).is_empty());
    assert_eq!((two.rig.fate(0, Fate::Reading), two.rig.fate(1, Fate::Waiting)), (1, 1));
    let mut sent = two.run();
    sent.sort_by_key(|s| s.to);
    assert_eq!(to(&sent), [0, 1]);
    assert!(sent.iter().all(|s| s.packet == packet));
    assert_eq!(sent[0].token.as_deref(), Some(&b"t"[..]));
    // It is in memory now.
    assert_eq!(to(&two.rig.receive(1, &interest("/a", 7))), [1]);
    assert_eq!(two.rig.forwarder.store().stats().disk_hits, 1);
}

#[test]
fn unreadable_stale_or_other_versions_are_forwarded() {
    let mut two = Two::new();
    let packet = two.put("/a", 2_500);
    two.fails = true;
    assert!(two.rig.receive(0, &interest("/a", 5)).is_empty());
    assert!(two.rig.receive(1, &interest("/a", 6)).is_empty());
    assert_eq!(to(&two.run()), [2], "once for both");
    assert_eq!(to(&two.rig.receive(2, &packet)).len(), 2);

    // Stale by a fraction of a second, which only the record knows.
    let mut two = Two::new();
    two.put("/a", 2_500);
    two.rig.wait_ms(2_600);
    let fresh = interest_with("/a", 5, |i| i.must_be_fresh = true);
    assert!(two.rig.receive(0, &fresh).is_empty());
    assert_eq!(to(&two.run()), [2]);

    // An Interest with another digest asks for another packet.
    for is_right in [false, true] {
        let mut two = Two::new();
        let packet = two.put("/a", 60_000);
        let mut digest: [u8; 32] = Sha256::digest(&packet).into();
        digest[31] ^= u8::from(!is_right);
        let mut full = name("/a");
        let kind = types::IMPLICIT_SHA256_DIGEST as u16;
        full.push(Component { kind, value: &digest }).unwrap();
        assert!(two.rig.receive(0, &interest(&full.to_string(), 5)).is_empty());
        assert_eq!(to(&two.run()), [if is_right { 0 } else { 2 }]);
    }
}

#[test]
fn a_disk_read_without_waiters_is_sent_nowhere() {
    let mut two = Two::new();
    two.put("/a", 60_000);
    assert!(two.rig.receive(0, &interest("/a", 5)).is_empty());
    two.rig.wait_ms(10_000);
    assert_eq!(two.rig.forwarder.pending(), 0);
    assert!(two.run().is_empty());
}

#[test]
fn an_interest_does_not_wait_for_a_disk_that_hangs() {
    let mut two = Two::new();
    let packet = two.put("/a", 60_000);
    two.put("/b", 60_000);
    assert!(two.rig.receive(0, &interest("/a", 5)).is_empty());
    assert!(two.rig.receive(1, &interest("/a", 6)).is_empty());
    let late = two.rig.forwarder.next_late_read().unwrap();
    let expire = |two: &mut Two| {
        let mut sent = Log::default();
        two.rig.forwarder.expire_reads(two.rig.now, &mut sent);
        sent.0
    };
    assert!(expire(&mut two).is_empty());
    two.rig.now = late;
    assert_eq!(to(&expire(&mut two)), [2], "once for both");
    assert_eq!(two.rig.forwarder.store().disks()[0].health(), Health::Stalled);
    assert_eq!(two.rig.forwarder.next_late_read().unwrap().since(late).as_secs(), 1, "a trial");
    // Other Interests do not wait, and the late result answers none.
    assert_eq!(to(&two.rig.receive(0, &interest("/b", 7))), [2]);
    assert!(two.run().is_empty());
    assert_eq!(two.rig.forwarder.store().disks()[0].health(), Health::Good);
    assert_eq!(to(&two.rig.receive(2, &packet)).len(), 2);
}

#[test]
fn every_face_that_waited_gets_a_nack_when_the_disk_and_the_routes_have_nothing() {
    let mut two = Two::new();
    two.put("/a", 60_000);
    two.fails = true;
    two.rig.forwarder.remove_face(face(2));
    assert!(two.rig.receive(0, &interest("/a", 5)).is_empty());
    assert!(two.rig.receive(1, &interest("/a", 6)).is_empty());
    let mut sent = two.run();
    sent.sort_by_key(|s| s.to);
    let of = |s: &Sent| (s.nack, s.interest().nonce());
    let nack = |nonce: u32| (Some(NackReason::NO_ROUTE), Some(nonce.to_be_bytes()));
    assert_eq!(to(&sent), [0, 1]);
    assert_eq!(sent.iter().map(of).collect::<Vec<_>>(), [nack(5), nack(6)]);
    assert_eq!(two.rig.forwarder.pending(), 0);
}

#[test]
fn an_interest_is_forwarded_for_the_second_face_if_the_first_is_the_only_next_hop() {
    let mut two = Two::new();
    let packet = two.put("/a", 60_000);
    two.fails = true;
    assert!(two.rig.receive(2, &interest("/a", 5)).is_empty());
    assert!(two.rig.receive(0, &interest("/a", 6)).is_empty());
    let sent = two.run();
    assert_eq!(to(&sent), [2, 2]);
    assert_eq!((sent[0].nack, sent[1].nack), (Some(NackReason::NO_ROUTE), None));
    assert_eq!(sent[1].interest().nonce(), Some(6u32.to_be_bytes()), "else it is a loop");
    assert_eq!(to(&two.rig.receive(2, &packet)), [0]);
}

#[test]
fn the_hop_that_an_application_named_is_heeded_after_the_disk_had_nothing() {
    let mut two = Two::new();
    two.put("/a", 60_000);
    two.rig.forwarder.add_face(face(1), Face { local_fields: true, ..Face::APPLICATION });
    two.fails = true;
    let named = Headers { next_hop_face: Some(face(0).number()), ..Headers::default() };
    assert!(two.rig.receive_with(1, &named, &interest("/a", 5)).is_empty());
    assert_eq!(to(&two.run()), [0]);
}

/// A forwarder whose disk alone has `/b` and the first twelve chunks of an item, read in batches of
/// this size.
fn chunks_on_disk(batch: u64) -> Two {
    let mut two = Two::with(16);
    two.rig.forwarder.store_mut().set_capacity(1);
    for chunk in 0..12 {
        two.put(&format!("/a/seg={chunk}"), 60_000);
    }
    two.put("/b", 60_000);
    let store = two.rig.forwarder.store_mut();
    store.set_capacity(16);
    store.set_batch(batch);
    two
}

#[test]
fn a_chunks_batch_is_read_with_it_if_that_is_asked_for() {
    for batch in [1, 4] {
        let mut two = chunks_on_disk(batch);
        let mut ask = |chunk: u32, nonce| {
            let sent = two.rig.receive(0, &interest(&format!("/a/seg={chunk}"), nonce));
            match to(&sent)[..] {
                [0] => true,
                [] => {
                    assert_eq!(to(&two.run()), [0]);
                    false
                }
                _ => panic!("{chunk} was not on the disk: {sent:?}"),
            }
        };
        let in_memory = [1, 0, 2, 3, 4, 7].map(|chunk| ask(chunk, 100 + chunk));
        let is_read = batch > 1;
        assert_eq!(in_memory, [false, is_read, is_read, is_read, false, is_read]);
        let store = two.rig.forwarder.store();
        let (log, hits) = (store.disks()[0].stats(), store.stats());
        assert_eq!(log.ahead, if is_read { 6 } else { 0 });
        // Each was read once; each query was counted once.
        assert_eq!(log.reads, if is_read { 8 } else { 6 });
        assert_eq!(hits.disk_hits, if is_read { 2 } else { 6 });
        assert_eq!((log.busy, log.mismatches), (0, 0));
        // Of 0, 2, 3, 5, 6 and 7 four were asked for; each counts once, however often it is hit.
        let ahead = |two: &Two| two.rig.forwarder.store().ahead();
        assert_eq!(ahead(&two), if is_read { (6, 4) } else { (0, 0) });
        two.rig.receive(0, &interest("/a/seg=0", 200));
        assert_eq!(ahead(&two), if is_read { (6, 4) } else { (0, 0) });
    }
}

#[test]
fn interests_join_a_read_ahead() {
    let mut two = chunks_on_disk(8);
    for chunk in [2, 5] {
        let sent = two.rig.receive(0, &interest(&format!("/a/seg={chunk}"), chunk));
        assert!(sent.is_empty(), "{chunk}: {sent:?}");
    }
    let mut sent: Vec<_> = two.run().iter().map(|s| s.data().name().to_string()).collect();
    sent.sort();
    assert_eq!(sent, ["/a/seg=2", "/a/seg=5"]);
    let log = two.rig.forwarder.store().disks()[0].stats();
    assert_eq!((log.reads, log.ahead, log.coalesced), (8, 7, 1));
    // A read that was joined counts as used, and its packet does not count again.
    assert_eq!(two.rig.forwarder.store().ahead(), (7, 1));
    assert_eq!(to(&two.rig.receive(0, &interest("/a/seg=5", 50))), [0]);
    assert_eq!(two.rig.forwarder.store().ahead(), (7, 1));
    // Names without a number cause no read-ahead, nor does the largest number.
    for text in ["/b", &format!("/a/seg={}", u64::MAX)] {
        two.rig.receive(0, &interest(text, 9));
        two.run();
    }
    assert_eq!(two.rig.forwarder.store().disks()[0].stats().ahead, 7);
}

#[test]
fn packets_in_memory_are_not_read_ahead() {
    let mut two = chunks_on_disk(1);
    for (chunk, batch) in [(5, 4), (4, 1)] {
        assert!(two.rig.receive(0, &interest(&format!("/a/seg={chunk}"), chunk)).is_empty());
        two.run();
        two.rig.forwarder.store_mut().set_batch(batch);
    }
    let log = two.rig.forwarder.store().disks()[0].stats();
    assert_eq!((log.reads, log.ahead), (4, 2), "4 with 6 and 7, but 5 once only");
}

#[test]
fn half_of_the_reads_are_reserved_for_queries() {
    let mut two = chunks_on_disk(16);
    // A read-ahead begins only while fewer than 8 of the 16 reads are in flight.
    for chunk in 0..12 {
        let sent = two.rig.receive(0, &interest(&format!("/a/seg={chunk}"), chunk));
        assert!(sent.is_empty(), "{chunk}: {sent:?}");
        let log = two.rig.forwarder.store().disks()[0].stats();
        assert_eq!((log.reads, log.ahead), (u64::from(chunk + 1).max(8), 7));
    }
    assert_eq!(two.run().len(), 12);
    assert_eq!(two.rig.forwarder.store().disks()[0].stats().busy, 0);
}

/// Erases everything under a prefix, step by step; returns how many packets memory had.
fn erase(rig: &mut Rig, text: &str, limit: usize) -> usize {
    let (mut count, mut from) = (0, Some(Erasing::default()));
    let (prefix, unix_ms) = (name(text), rig.forwarder.unix_ms());
    while let Some(begin) = from.filter(|_| count < limit) {
        let prefix = prefix.as_name().value();
        let erased = rig.forwarder.store_mut().erase_under(prefix, begin, limit - count, unix_ms);
        (count, from) = (count + erased.count, erased.next);
    }
    count
}

#[test]
fn erasing_a_prefix_clears_both_tiers() {
    let mut two = Two::new();
    two.put("/a/b", 60_000);
    two.put("/ab", 60_000);
    erase(&mut two.rig, "/a", 256);
    assert!(two.rig.receive(0, &interest("/a/b", 5)).is_empty(), "the index knows no names");
    assert_eq!(to(&two.run()), [2]);
    assert_eq!(to(&two.rig.receive(0, &interest("/a/b", 5))), [] as [u32; 0]);
    assert!(two.rig.receive(0, &interest("/ab", 6)).is_empty());
    assert_eq!(to(&two.run()), [0]);
    // Packets that arrive later stay.
    let again = two.rig.receive(2, &data("/a/b"));
    assert_eq!(to(&again), [0]);
    assert_eq!(to(&two.rig.receive(0, &interest("/a/b", 7))), [0]);
}

#[test]
fn erasing_takes_parts_and_no_more_than_it_may() {
    let mut rig = Rig::new(&[NEAR; 3], &ROUTES);
    for i in 0..600 {
        let text = format!("/{}/{i}", ["a", "b"][i % 2]);
        rig.receive(0, &interest(&text, i as u32));
        rig.receive(2, &data(&text));
    }
    for left in [200, 100, 0] {
        assert_eq!(erase(&mut rig, "/a", 100), 100);
        assert_eq!(rig.forwarder.store().memory().len(), 300 + left);
    }
    assert_eq!(erase(&mut rig, "/a", 100), 0);
    assert_eq!(erase(&mut rig, "/", 1000), 300);
    assert!(rig.forwarder.store().memory().is_empty());
}

#[test]
fn a_smaller_capacity_is_reached_gradually_and_zero_stores_nothing() {
    let mut rig = Rig::new(&[NEAR; 3], &ROUTES);
    let fetch = |rig: &mut Rig, i: usize| {
        rig.receive(0, &interest(&format!("/{i}"), i as u32));
        rig.receive(2, &data(&format!("/{i}")));
    };
    (0..500).for_each(|i| fetch(&mut rig, i));
    assert_eq!(rig.forwarder.store_mut().set_capacity(1 << 30), 1 << 12);
    assert_eq!(rig.forwarder.store_mut().set_capacity(100), 100);
    let now = rig.now;
    assert_eq!(rig.forwarder.next_deadline(), Some(now));
    fetch(&mut rig, 500);
    assert!(rig.forwarder.store().memory().len() > 300);
    (0..6).for_each(|_| rig.wait_ms(0));
    assert_eq!(rig.forwarder.store().memory().len(), 100);
    (501..600).for_each(|i| fetch(&mut rig, i));
    assert_eq!(rig.forwarder.store().memory().len(), 100);
    assert!(rig.receive(1, &interest("/599", 1))[0].is_data());
    assert_eq!(rig.forwarder.store_mut().set_capacity(0), 0);
    (0..2).for_each(|_| rig.wait_ms(0));
    assert!(rig.forwarder.store().memory().is_empty());
    fetch(&mut rig, 600);
    assert!(rig.forwarder.store().memory().is_empty());
}

#[test]
fn a_store_may_be_told_to_take_nothing_in_or_to_answer_nothing() {
    let mut rig = Rig::new(&[NEAR; 3], &ROUTES);
    let fetch = |rig: &mut Rig, text: &str, nonce| {
        let sent = rig.receive(0, &interest(text, nonce));
        if to(&sent) == [2] {
            rig.receive(2, &data(text));
        }
        sent[0].is_data()
    };
    assert!(!fetch(&mut rig, "/a", 1) && fetch(&mut rig, "/a", 2));
    rig.forwarder.store_mut().enable(true, false);
    assert!(!fetch(&mut rig, "/a", 3) && !fetch(&mut rig, "/a", 4));
    rig.forwarder.store_mut().enable(false, true);
    assert!(fetch(&mut rig, "/a", 5));
    assert!(!fetch(&mut rig, "/b", 6) && !fetch(&mut rig, "/b", 7));
}
