//! Samples of packets that the kernel forwards: it forwards them all the same, and the socket's
//! port gets the first bytes of some.

use std::io;
use std::num::NonZeroU32;

use plexus_io::PortStats;
use plexus_io::fast::memory::Fate;
use plexus_io::fast::{Flow, Key, SAMPLE_MAX, SAMPLES_AT_ONCE, Tag};

use super::tables::{Bench, Hook, InKernel, Socket};
use super::{A, B, OUT, frame, key, net, settled, switched_super_packet};

fn one_in(n: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(n)
}

/// The samples that a port has by now: first bytes, and length of the packet. Nothing else has come
/// in by it.
fn samples(socket: &mut Socket) -> Vec<(Vec<u8>, usize)> {
    assert_eq!(socket.take(), None, "a sample is no packet");
    let mut all = Vec::new();
    socket.port.take_samples(&mut |bytes, len| all.push((bytes.to_vec(), len)));
    all
}

/// The first bytes of a frame that a sample has.
fn first(frame: &[u8]) -> Vec<u8> {
    let tag = if frame[12..14] == [0x81, 0] { 4 } else { 0 };
    frame[..(SAMPLE_MAX + tag).min(frame.len() - 1)].to_vec()
}

/// Nothing has come in by a port, as far as it counts.
fn assert_nothing_received(socket: &Socket) {
    let PortStats { rx_packets, rx_bytes, rx_overflow, rx_invalid, .. } = socket.port.stats();
    assert_eq!((rx_packets, rx_bytes, rx_overflow, rx_invalid), (0, 0, 0, 0));
}

/// Frames of different lengths, with and without a tag.
fn frames() -> Vec<Vec<u8>> {
    const TAG: Option<u16> = Some(5 << 13 | 7);
    let of_length = |tag, len| {
        let mut frame = frame(tag);
        frame.extend((frame.len()..len).map(|n| n as u8));
        frame.truncate(len);
        frame
    };
    // Without the tag.
    let lengths = [60, SAMPLE_MAX - 1, SAMPLE_MAX, SAMPLE_MAX + 1, 1514];
    lengths.into_iter().flat_map(|len| [of_length(None, len), of_length(TAG, len + 4)]).collect()
}

#[test]
fn each_packet_gives_a_sample_at_one_in_one_and_is_forwarded() {
    net::in_quiet_namespace("fast_samples", || {
        let mut bench = InKernel::new(Hook::Tcx);
        let frames = frames();
        for tag in [None, Some(5 << 13 | 7)] {
            settled(bench.table(), &key(tag), &OUT);
        }
        // Off, on, off, and on while the port is closed and opened.
        for (n, is_on) in [false, true, false, true].into_iter().enumerate() {
            bench.table().sample(0, one_in(u32::from(is_on))).unwrap();
            for frame in &frames {
                if n == 3 {
                    bench.close_and_open(0);
                }
                assert_eq!(bench.pass(0, frame), Fate::Sent(1, frame.clone()));
                let expected = if is_on { vec![(first(frame), frame.len())] } else { vec![] };
                assert_eq!(samples(&mut bench.near[0]), expected);
            }
        }
        assert_nothing_received(&bench.near[0]);
        // A packet without a rule comes in whole, and gives none.
        let other = frame(Some(9));
        assert_eq!(bench.pass(0, &other), Fate::Passed);
        assert_eq!(samples(&mut bench.near[0]), []);
        assert_eq!(bench.near[0].port.stats().rx_packets, 1);
    });
}

#[test]
fn a_packet_that_is_changed_gives_a_sample_as_it_came_in() {
    net::in_quiet_namespace("fast_samples_changed", || {
        let mut bench = InKernel::new(Hook::Tcx);
        let (came, left) = (frame(Some(7)), frame(None));
        settled(bench.table(), &key(Some(7)), &super::Action { tag: Tag::Pop, ..OUT });
        bench.table().sample(0, one_in(1)).unwrap();
        assert_eq!(bench.pass(0, &came), Fate::Sent(1, left));
        assert_eq!(samples(&mut bench.near[0]), [(first(&came), came.len())]);
    });
}

#[test]
fn one_in_eight_is_about_an_eighth() {
    net::in_quiet_namespace("fast_samples_eighth", || {
        let mut bench = InKernel::new(Hook::Tcx);
        let id = settled(bench.table(), &key(None), &OUT);
        bench.table().sample(0, one_in(8)).unwrap();
        let mut all = vec![];
        for n in 0..4000 {
            assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
            // Before there are too many at once.
            if n % 400 == 399 {
                all.extend(samples(&mut bench.near[0]));
                bench.table().maintain(0);
            }
        }
        // 500, and a standard deviation of 21.
        assert!((300..700).contains(&all.len()), "{}", all.len());
        assert!(all.iter().all(|sample| *sample == (first(&frame(None)), frame(None).len())));
        assert_eq!((bench.table().read(id).packets, bench.table().passed(id)), (4000, 0));
        assert_eq!(bench.table().missed_samples(0), 0);
        assert_nothing_received(&bench.near[0]);
    });
}

#[test]
fn samples_are_few_at_once_and_those_that_were_missed_are_counted() {
    net::in_quiet_namespace("fast_samples_limit", || {
        let mut bench = InKernel::new(Hook::Tcx);
        settled(bench.table(), &key(None), &OUT);
        bench.table().sample(0, one_in(1)).unwrap();
        let most = SAMPLES_AT_ONCE as usize;
        for round in 1..3 {
            for _ in 0..most + 10 {
                assert_eq!(bench.pass(0, &frame(None)), Fate::Sent(1, frame(None)));
            }
            assert_eq!(samples(&mut bench.near[0]).len(), most);
            assert_eq!(bench.table().missed_samples(0), round * 10);
            bench.table().maintain(0);
        }
    });
}

#[test]
fn a_super_packet_gives_a_sample_like_any_other() {
    net::in_quiet_namespace("fast_samples_super", || {
        let mut bench = InKernel::new(Hook::Tcx);
        let flow = Flow { in_port: 0, tag: None, destination: B, source: A, ethertype: 0x0800 };
        settled(bench.table(), &Key::Flow(flow), &OUT);
        bench.table().sample(0, one_in(1)).unwrap();
        let (frame, owed) = switched_super_packet();
        let (bytes, offload) = bench.carry(&frame, owed);
        assert!(bytes == frame && offload.segmentation == owed.segmentation, "{offload:?}");
        assert_eq!(samples(&mut bench.near[0]), [(first(&frame), frame.len())]);
        assert_nothing_received(&bench.near[0]);
    });
}

#[test]
fn the_table_at_the_xdp_hook_takes_none() {
    net::in_quiet_namespace("fast_samples_xdp", || {
        let mut bench = InKernel::new(Hook::Xdp);
        let refused = bench.table().sample(0, one_in(1)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
    });
}
