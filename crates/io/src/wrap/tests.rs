use std::time::Duration;

use plexus_wire::Time;

use super::*;
use crate::memory::{self, Cable, MemoryPort};
use crate::{Batch, Pool, Port};

fn us(n: u64) -> Time {
    Time::from_micros(n)
}

/// A bad cable that `count` numbered packets of 60 bytes are about to enter.
fn faulty(settings: FaultSettings, count: u16) -> (Pool, Faults<MemoryPort>, Cable) {
    let mut pool = Pool::new(4096, 2048).unwrap();
    let (port, mut cable) = memory::port("m", 2048);
    for number in 0..count {
        let mut bytes = [0; 60];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        cable.to_port.push(pool.alloc_from(&bytes).unwrap()).unwrap();
    }
    (pool, Faults::new(port, settings), cable)
}

/// The numbers of the packets that arrive at these times.
fn arrivals(pool: &mut Pool, port: &mut impl Port, times: &[u64]) -> Vec<(u64, u16)> {
    let mut got = Vec::new();
    for &t in times {
        let mut batch = Batch::new();
        while port.receive(us(t), pool, &mut batch) > 0 {
            for packet in batch.drain(..) {
                let data = pool.data(&packet);
                got.push((t, u16::from_be_bytes([data[0], data[1]])));
                pool.free(packet);
            }
        }
    }
    got
}

fn finish(mut pool: Pool, mut port: impl Port) {
    port.close(&mut pool);
    port.close(&mut pool);
    assert_eq!(pool.available(), pool.frames());
}

#[test]
fn a_cable_without_faults_changes_nothing() {
    let (mut pool, mut port, _cable) = faulty(FaultSettings::default(), 200);
    let got = arrivals(&mut pool, &mut port, &[0]);
    assert!(got.into_iter().map(|(_, n)| n).eq(0..200));
    assert_eq!(port.counts(), FaultCounts::default());
    finish(pool, port);
}

#[test]
fn a_delay_is_kept_to_and_announced() {
    let settings = FaultSettings { delay: Duration::from_micros(30), ..FaultSettings::default() };
    let (mut pool, mut port, _cable) = faulty(settings, 2);
    assert_eq!(arrivals(&mut pool, &mut port, &[0, 29]), []);
    assert_eq!(port.next_deadline(), Some(us(30)));
    assert_eq!(arrivals(&mut pool, &mut port, &[30]), [(30, 0), (30, 1)]);
    assert_eq!(port.next_deadline(), None);
    finish(pool, port);
}

#[test]
fn a_rate_spaces_packets_as_a_cable_does() {
    // 60 bytes are 84 on the cable, 672 bits: 6.72 µs at 100 Mbit/s.
    let settings = FaultSettings { rate_bits_per_s: Some(100_000_000), ..FaultSettings::default() };
    let (mut pool, mut port, _cable) = faulty(settings, 3);
    let times: Vec<u64> = (0..25).collect();
    assert_eq!(arrivals(&mut pool, &mut port, &times), [(7, 0), (14, 1), (21, 2)]);
    finish(pool, port);
}

#[test]
fn every_packet_is_accounted_for_whatever_strikes() {
    let settings = FaultSettings {
        drop: 0.2,
        duplicate: 0.1,
        reorder: 0.1,
        reorder_by: Duration::from_micros(50),
        corrupt: 0.1,
        jitter: Duration::from_micros(40),
        queue: 1500,
        seed: 7,
        ..FaultSettings::default()
    };
    let run = || {
        let (mut pool, mut port, _cable) = faulty(settings.clone(), 2000);
        let times: Vec<u64> = (0..50).map(|t| t * 5).collect();
        let got = arrivals(&mut pool, &mut port, &times);
        let under_way = port.held.len() as u64;
        let counts = port.counts();
        let entered = port.inner.stats().rx_packets;
        let lost = counts.dropped + counts.overflowed;
        assert_eq!(entered + counts.duplicated, got.len() as u64 + lost + under_way);
        let faults = [counts.dropped, counts.duplicated, counts.reordered, counts.corrupted];
        for struck in faults.into_iter().chain([counts.overflowed]) {
            assert!(struck > 0);
        }
        port.close(&mut pool);
        assert_eq!(port.counts().discarded, under_way);
        let stats = port.stats();
        assert_eq!(entered + counts.duplicated, stats.rx_packets + stats.rx_overflow);
        finish(pool, port);
        got
    };
    assert_eq!(run(), run(), "the same seed and times give the same faults");
}

/// A worker that sleeps on the port within must find it empty, however full the cable is.
#[test]
fn a_full_cable_loses_what_comes_on_top_and_leaves_nothing_unread() {
    let delay = Duration::from_micros(30);
    for (queue, fits) in [(10, 10), (16_384, 150)] {
        // 200 frames: the cable may hold three quarters of them.
        let mut pool = Pool::new(200, 2048).unwrap();
        let (inner, mut cable) = memory::port("m", 2048);
        let settings = FaultSettings { delay, queue, ..FaultSettings::default() };
        let mut port = Faults::new(inner, settings);
        while let Some(packet) = pool.alloc_from(&[0; 60]) {
            cable.to_port.push(packet).unwrap();
        }
        assert_eq!(arrivals(&mut pool, &mut port, &[0]), []);
        assert_eq!(cable.to_port.slots(), 2048, "the port within is empty");
        let overflowed = port.counts().overflowed;
        assert_eq!(overflowed + port.held.len() as u64, 200);
        assert!(port.held.len() <= fits && pool.available() >= 50);
        assert_eq!(port.stats().rx_overflow, overflowed);
        // There is room again once the first have arrived.
        let held = port.held.len();
        assert_eq!(arrivals(&mut pool, &mut port, &[30]).len(), held);
        cable.to_port.push(pool.alloc_from(&[0; 60]).unwrap()).unwrap();
        assert_eq!(arrivals(&mut pool, &mut port, &[31, 61]).len(), 1);
        finish(pool, port);
    }
}

#[test]
fn a_cable_holds_what_a_fast_link_has_under_way() {
    let delay = Duration::from_millis(10);
    let settings = FaultSettings { delay, ..FaultSettings::default() };
    let (mut pool, mut port, _cable) = faulty(settings, 2000);
    let got = arrivals(&mut pool, &mut port, &[0, 10_000]);
    assert!(got.into_iter().map(|(_, n)| n).eq(0..2000));
    finish(pool, port);
}

#[test]
fn jitter_keeps_the_order_and_reordering_does_not() {
    let times: Vec<u64> = (0..300).collect();
    let jitter = Duration::from_micros(100);
    let settings = FaultSettings { jitter, ..FaultSettings::default() };
    let (mut pool, mut port, _cable) = faulty(settings, 100);
    let got = arrivals(&mut pool, &mut port, &times);
    assert!(got.iter().map(|g| g.1).eq(0..100));
    finish(pool, port);

    let reorder_by = Duration::from_micros(10);
    let settings = FaultSettings { reorder: 0.3, reorder_by, ..FaultSettings::default() };
    let (mut pool, mut port, _cable) = faulty(settings, 100);
    let mut got: Vec<u16> = arrivals(&mut pool, &mut port, &times).iter().map(|g| g.1).collect();
    assert!(!got.is_sorted());
    got.sort_unstable();
    assert!(got.into_iter().eq(0..100), "none is lost");
    finish(pool, port);
}
