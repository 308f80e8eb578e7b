//! Requirements on every port.

use std::time::{Duration, Instant};

use plexus_io::{Batch, Link, Packet, Pool, Port};
use plexus_wire::Time;

use crate::benches::{Bench, drain};

/// How long something may take to arrive before the test is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// The part of the suite that needs nothing to arrive.
pub(crate) fn run_sending(bench: &mut dyn Bench) {
    frames_of_every_length_are_sent_in_order(bench);
    oversized_frames_are_rejected_and_counted(bench);
}

/// All of the suite.
pub(crate) fn run(bench: &mut dyn Bench) {
    frames_of_every_length_arrive_in_order(bench);
    frames_of_every_length_are_sent_in_order(bench);
    tags_are_kept(bench);
    oversized_frames_are_rejected_and_counted(bench);
    an_exhausted_pool_loses_no_count(bench);
    a_batch_that_is_full_takes_no_more(bench);
    closing_twice_is_closing_once(bench);
    a_device_that_goes_and_returns(bench);
    a_device_replaced_unseen_was_down_once(bench);
}

/// A pool and an open port whose link is up.
fn open(bench: &mut dyn Bench, frames: usize) -> (Pool, Box<dyn Port>) {
    let mut pool = Pool::new(frames, bench.frame_size()).unwrap();
    let mut port = bench.open(&mut pool);
    wait(|| port.maintain(Time::ZERO, &mut pool) == Link::Up, "the link to come up");
    (pool, port)
}

/// Closes the port; every frame has to be back.
fn close(mut pool: Pool, mut port: Box<dyn Port>) {
    port.close(&mut pool);
    assert_eq!(pool.available(), pool.frames(), "close() kept frames");
}

/// Polls until it is so.
pub(crate) fn wait(mut is_so: impl FnMut() -> bool, what: &str) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

/// A frame of `len` bytes that no other frame of a test equals.
pub(crate) fn frame(len: usize, seed: u8) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5];
    bytes.extend((bytes.len()..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)));
    bytes
}

/// The same frame with an 802.1Q tag.
fn tagged(len: usize, seed: u8, tpid: u16, tci: u16) -> Vec<u8> {
    let mut bytes = frame(len, seed);
    let tag = [tpid.to_be_bytes(), tci.to_be_bytes()].concat();
    bytes.splice(12..12, tag);
    bytes
}

/// Fails with the first difference rather than with a page of bytes.
pub(crate) fn assert_same(got: &[Vec<u8>], expected: &[Vec<u8>]) {
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        let at = g.iter().zip(e).position(|(a, b)| a != b);
        let lengths = (g.len(), e.len());
        assert!(g == e, "frame {i}: got and expected lengths {lengths:?}, first difference {at:?}");
    }
    assert_eq!(got.len(), expected.len());
}

/// Collects frames until there are `n`.
pub(crate) fn gather(n: usize, what: &str, mut more: impl FnMut() -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    let enough = || {
        got.extend(more());
        got.len() >= n
    };
    wait(enough, what);
    got
}

/// Receives until `n` frames are there.
pub(crate) fn take(port: &mut dyn Port, pool: &mut Pool, n: usize) -> Vec<Vec<u8>> {
    gather(n, "frames to arrive", || drain(port, pool, Time::ZERO))
}

/// Asserts that the port takes nothing to send.
pub(crate) fn assert_takes_nothing(port: &mut dyn Port, pool: &mut Pool) {
    let mut batch = Batch::new();
    batch.push(pool.alloc_from(&frame(60, 1)).unwrap());
    assert_eq!(port.transmit(Time::ZERO, pool, &mut batch), 0);
    batch.drain(..).for_each(|p| pool.free(p));
}

/// Sends all of these, retrying what the port left.
fn send(port: &mut dyn Port, pool: &mut Pool, frames: &[Vec<u8>]) {
    let mut batch = Batch::new();
    for chunk in frames.chunks(plexus_io::BATCH) {
        batch.extend(chunk.iter().map(|bytes| pool.alloc_from(bytes).unwrap()));
        wait(
            || {
                port.transmit(Time::ZERO, pool, &mut batch);
                batch.is_empty()
            },
            "the port to take a batch",
        );
    }
}

/// The packets that the port sent, once there are `n`.
fn sent(bench: &mut dyn Bench, port: &mut dyn Port, pool: &mut Pool, n: usize) -> Vec<Vec<u8>> {
    gather(n, "frames to be sent", || {
        // A port that has to be called again for held packets is called again.
        port.transmit(Time::ZERO, pool, &mut Batch::new());
        port.maintain(Time::ZERO, pool);
        bench.sent(pool)
    })
}

/// Lengths from the shortest to the longest frame, more than a batch of them.
pub(crate) fn lengths() -> Vec<usize> {
    let mut lengths: Vec<usize> = (14..=128).collect();
    lengths.extend((129..1514).step_by(13));
    lengths.push(1514);
    lengths
}

fn frames_of_every_length_arrive_in_order(bench: &mut dyn Bench) {
    let (mut pool, mut port) = open(bench, 1024);
    let frames: Vec<_> = lengths().iter().map(|&n| frame(n, n as u8)).collect();
    let mut got = Vec::new();
    for chunk in frames.chunks(100) {
        bench.arrive(&mut pool, chunk);
        got.extend(take(&mut *port, &mut pool, chunk.len()));
    }
    assert_same(&got, &frames);
    let stats = port.stats();
    let bytes: usize = frames.iter().map(Vec::len).sum();
    assert_eq!((stats.rx_packets, stats.rx_bytes), (frames.len() as u64, bytes as u64));
    assert_eq!((stats.rx_overflow, stats.rx_invalid), (0, 0));
    close(pool, port);
}

fn frames_of_every_length_are_sent_in_order(bench: &mut dyn Bench) {
    let (mut pool, mut port) = open(bench, 1024);
    let frames: Vec<_> = lengths().iter().map(|&n| frame(n, n as u8)).collect();
    let mut got = Vec::new();
    for chunk in frames.chunks(100) {
        send(&mut *port, &mut pool, chunk);
        got.extend(sent(bench, &mut *port, &mut pool, chunk.len()));
    }
    assert_same(&got, &frames);
    let stats = port.stats();
    let bytes: usize = frames.iter().map(Vec::len).sum();
    assert_eq!((stats.tx_packets, stats.tx_bytes), (frames.len() as u64, bytes as u64));
    assert_eq!(stats.tx_rejected, 0);
    assert_eq!(stats.rx_packets, 0, "a port does not receive what it sent");
    close(pool, port);
}

fn tags_are_kept(bench: &mut dyn Bench) {
    let (mut pool, mut port) = open(bench, 256);
    let frames = [
        tagged(60, 1, 0x8100, 0x6005),
        tagged(1514, 2, 0x8100, 100),
        tagged(60, 3, 0x88A8, 7),
        frame(60, 4),
    ];
    bench.arrive(&mut pool, &frames);
    assert_same(&take(&mut *port, &mut pool, frames.len()), &frames);
    send(&mut *port, &mut pool, &frames);
    assert_same(&sent(bench, &mut *port, &mut pool, frames.len()), &frames);
    close(pool, port);
}

fn oversized_frames_are_rejected_and_counted(bench: &mut dyn Bench) {
    let (mut pool, mut port) = open(bench, 256);
    let max = port.capabilities().max_frame;
    let lengths = [60, max + 1, 61, max + 5, max, 62];
    let frames: Vec<_> = lengths.iter().map(|&n| frame(n, 9)).collect();
    send(&mut *port, &mut pool, &frames);
    let fits: Vec<_> = frames.iter().filter(|f| f.len() <= max).cloned().collect();
    assert_same(&sent(bench, &mut *port, &mut pool, fits.len()), &fits);
    let stats = port.stats();
    assert_eq!((stats.tx_packets, stats.tx_rejected), (fits.len() as u64, 2));
    close(pool, port);
}

fn an_exhausted_pool_loses_no_count(bench: &mut dyn Bench) {
    let (mut pool, mut port) = open(bench, 256);
    bench.arrive(&mut pool, &[frame(60, 0), frame(60, 1)]);
    let mut got = take(&mut *port, &mut pool, 2);
    let mut held: Vec<Packet> = std::iter::from_fn(|| pool.alloc()).collect();
    // Room for the far end of a cable in memory, which uses the port's own pool.
    held.drain(..held.len().min(40)).for_each(|p| pool.free(p));
    let frames: Vec<_> = (2..42).map(|i| frame(60, i)).collect();
    bench.arrive(&mut pool, &frames);
    let mut hoard: Vec<Packet> = std::iter::from_fn(|| pool.alloc()).collect();
    let mut batch = Batch::new();
    port.receive(Time::ZERO, &mut pool, &mut batch);
    for packet in batch.drain(..) {
        got.push(pool.data(&packet).to_vec());
        pool.free(packet);
    }
    held.append(&mut hoard);
    held.drain(..).for_each(|p| pool.free(p));
    wait(
        || {
            got.extend(drain(&mut *port, &mut pool, Time::ZERO));
            let stats = port.stats();
            stats.rx_packets + stats.rx_overflow + stats.rx_invalid == 42
        },
        "every frame to be accounted for",
    );
    assert_eq!(port.stats().rx_packets, got.len() as u64);
    assert!(got.is_sorted_by_key(|f| f[14].wrapping_sub(frame(60, 0)[14])), "order is kept");
    close(pool, port);
}

fn a_batch_that_is_full_takes_no_more(bench: &mut dyn Bench) {
    let (mut pool, mut port) = open(bench, 512);
    let mut batch = Batch::new();
    while batch.remaining_capacity() > 3 {
        batch.push(pool.alloc().unwrap());
    }
    let before = batch.len();
    let frames: Vec<_> = (0..8).map(|i| frame(60, i)).collect();
    bench.arrive(&mut pool, &frames);
    wait(
        || {
            port.receive(Time::ZERO, &mut pool, &mut batch);
            batch.is_full()
        },
        "the batch to fill",
    );
    assert_eq!(port.receive(Time::ZERO, &mut pool, &mut batch), 0);
    let mut got: Vec<_> = batch[before..].iter().map(|p| pool.data(p).to_vec()).collect();
    batch.drain(..).for_each(|p| pool.free(p));
    got.extend(take(&mut *port, &mut pool, 5));
    assert_same(&got, &frames);
    close(pool, port);
}

fn closing_twice_is_closing_once(bench: &mut dyn Bench) {
    let (mut pool, mut port) = open(bench, 256);
    bench.arrive(&mut pool, &[frame(60, 1), frame(60, 2)]);
    send(&mut *port, &mut pool, &[frame(60, 3)]);
    port.close(&mut pool);
    port.close(&mut pool);
    bench.sent(&mut pool);
    assert_eq!(pool.available(), pool.frames());
    assert_eq!(port.maintain(Time::ZERO, &mut pool), Link::Down);
    assert_eq!(port.receive(Time::ZERO, &mut pool, &mut Batch::new()), 0);
    assert_takes_nothing(&mut *port, &mut pool);
    assert!(port.fd().is_none());
    close(pool, port);
}

fn a_device_that_goes_and_returns(bench: &mut dyn Bench) {
    let (mut pool, mut port) = open(bench, 256);
    if bench.remove_device() {
        wait(|| port.maintain(Time::ZERO, &mut pool) == Link::Down, "the link to go down");
        assert_takes_nothing(&mut *port, &mut pool);
        assert_eq!(drain(&mut *port, &mut pool, Time::ZERO), Vec::<Vec<u8>>::new());
        assert_eq!(port.stats().link_downs, 1);
        bench.restore_device();
        wait(|| port.maintain(Time::ZERO, &mut pool) == Link::Up, "the link to return");
        bench.arrive(&mut pool, &[frame(60, 2)]);
        assert_eq!(take(&mut *port, &mut pool, 1), [frame(60, 2)]);
        send(&mut *port, &mut pool, &[frame(60, 3)]);
        assert_eq!(sent(bench, &mut *port, &mut pool, 1), [frame(60, 3)]);
    }
    close(pool, port);
}

fn a_device_replaced_unseen_was_down_once(bench: &mut dyn Bench) {
    let (mut pool, mut port) = open(bench, 256);
    if bench.notices_replacement() && bench.remove_device() {
        bench.restore_device();
        assert_eq!(port.maintain(Time::ZERO, &mut pool), Link::Down);
        wait(|| port.maintain(Time::ZERO, &mut pool) == Link::Up, "the link to return");
        assert_eq!(port.stats().link_downs, 1);
        bench.arrive(&mut pool, &[frame(60, 2)]);
        assert_eq!(take(&mut *port, &mut pool, 1), [frame(60, 2)]);
    }
    close(pool, port);
}
