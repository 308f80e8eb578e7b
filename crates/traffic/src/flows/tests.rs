use std::collections::HashSet;

use plexus_wire::Time;
use proptest::prelude::*;

use super::*;
use crate::receive::find_probe;

/// Checks lengths and checksums as a receiver would (RFC 1071).
fn assert_valid(frame: &[u8]) {
    let verify = |bytes: &[u8], pseudo: u16| {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(2), 0);
        assert_eq!(add(sum_of(&padded), pseudo), 0xFFFF);
    };
    let len = frame.len();
    match (frame[12], frame[13]) {
        (0x08, 0x00) => {
            assert_eq!(usize::from(u16::from_be_bytes([frame[16], frame[17]])), len - 14);
            verify(&frame[14..34], 0);
            assert_eq!(usize::from(u16::from_be_bytes([frame[38], frame[39]])), len - 34);
            if frame[40..42] != [0, 0] {
                let pseudo = add(sum_of(&frame[26..34]), add(17, (len - 34) as u16));
                verify(&frame[34..], pseudo);
            }
        }
        (0x86, 0xDD) => {
            assert_eq!(usize::from(u16::from_be_bytes([frame[18], frame[19]])), len - 54);
            assert_ne!(frame[60..62], [0, 0], "RFC 8200, 8.1: a checksum is required");
            let pseudo = add(sum_of(&frame[22..54]), add(17, (len - 54) as u16));
            verify(&frame[54..], pseudo);
        }
        other => assert_eq!(other, (0x88, 0xB6)),
    }
}

fn frame_of(flow: &Flow, len: usize, probe: &Probe) -> Vec<u8> {
    let mut frame = vec![0xEE; len];
    flow.write(&mut frame, probe);
    frame
}

fn spec(destination: &str) -> FlowSpec {
    FlowSpec { destination_ip: destination.parse().unwrap(), ..FlowSpec::default() }
}

proptest! {
    #[test]
    fn frames_are_valid_and_carry_their_probe(
        which in 0_usize..4, len in 80_usize..1600, flow: u32, sequence: u64, time: u64,
    ) {
        let specs = [
            spec("198.19.0.1"),
            FlowSpec { checksum: false, ..spec("198.19.0.1") },
            spec("2001:2::9"),
            FlowSpec { encapsulation: Encapsulation::Ethernet, ..spec("198.19.0.1") },
        ];
        let flows = build(&specs[which]).unwrap();
        let probe = Probe::new(flow, sequence, Time::from_nanos(time));
        let frame = frame_of(&flows[0], len, &probe);
        assert_valid(&frame);
        prop_assert_eq!(find_probe(&frame, PROBE_UDP_PORT), Some(probe));
        let at = flows[0].header_len() + PROBE_LEN;
        prop_assert!(frame[at..].iter().all(|&b| b == 0), "no leftovers of the buffer");
    }

    #[test]
    fn any_frame_is_searched_without_panic(
        mut frame in proptest::collection::vec(any::<u8>(), 0..100),
        ethertype in prop_oneof![
            Just(0x0800_u16), Just(0x86DD), Just(0x8100), Just(0x88A8), Just(PROBE_ETHERTYPE),
        ],
    ) {
        if let Some(at) = frame.get_mut(12..14) {
            at.copy_from_slice(&ethertype.to_be_bytes());
        }
        let _ = find_probe(&frame, PROBE_UDP_PORT);
    }

    #[test]
    fn truncated_frames_hold_no_probe(cut in 0_usize..60) {
        let flows = build(&spec("198.19.0.1")).unwrap();
        let frame = frame_of(&flows[0], 60, &Probe::new(1, 2, Time::ZERO));
        prop_assert_eq!(find_probe(&frame[..cut], PROBE_UDP_PORT), None);
    }
}

#[test]
fn the_smallest_frame_holds_the_probe_in_udp_over_ipv4() {
    let flows = build(&spec("198.19.0.1")).unwrap();
    assert_eq!(flows[0].len_min(), 60);
    let frame = frame_of(&flows[0], 60, &Probe::new(0, 0, Time::ZERO));
    assert_valid(&frame);
    assert_eq!(build(&spec("2001:2::9")).unwrap()[0].len_min(), 80);
}

#[test]
fn a_probe_is_found_behind_tags_but_not_at_another_port_or_in_a_fragment() {
    let flows = build(&spec("198.19.0.1")).unwrap();
    let probe = Probe::new(5, 6, Time::from_nanos(7));
    let frame = frame_of(&flows[0], 100, &probe);
    let mut tagged = frame.clone();
    tagged.splice(12..12, [0x88, 0xA8, 0, 9, 0x81, 0, 0, 5]);
    assert_eq!(find_probe(&tagged, PROBE_UDP_PORT), Some(probe));
    assert_eq!(find_probe(&frame, 9), None);
    let mut fragment = frame.clone();
    fragment[20] |= 0x20;
    assert_eq!(find_probe(&fragment, PROBE_UDP_PORT), None);
}

#[test]
fn many_flows_have_as_many_5_tuples_and_the_stations_asked_for() {
    let many =
        FlowSpec { count: 40_000, source_macs: 100, destination_macs: 7, ..spec("198.19.0.1") };
    let flows = build(&many).unwrap();
    // Addresses and ports lie side by side: bytes 26 to 38.
    let tuples: HashSet<&[u8]> = flows.iter().map(|f| &f.headers[26..38]).collect();
    assert_eq!(tuples.len(), 40_000);
    let stations =
        |at: usize| flows.iter().map(|f| &f.headers[at..at + 6]).collect::<HashSet<_>>().len();
    assert_eq!((stations(6), stations(0)), (100, 7));
    assert_eq!(flows[40_000 - 1].headers[26..30], [198, 18, 0, 3]);
}

#[test]
fn destinations_are_taken_in_turn() {
    let destinations = crate::parse_destinations("d", "02:00:00:00:00:77\n10.0.0.0/8\n").unwrap();
    let many = FlowSpec { count: 4, destinations, ..FlowSpec::default() };
    let flows = build(&many).unwrap();
    assert_eq!(flows[0].headers[..6], [2, 0, 0, 0, 0, 0x77]);
    assert_eq!((flows[1].headers[5], flows[1].headers[30]), (1, 10));
    assert_eq!(flows[2].headers[..6], flows[0].headers[..6]);
    assert_ne!(flows[3].headers[30..34], flows[1].headers[30..34]);
    let again = build(&many).unwrap();
    assert_eq!(again[3].headers, flows[3].headers, "the seed decides");
}

#[test]
fn impossible_flows_are_refused() {
    let none = FlowSpec { count: 0, ..FlowSpec::default() };
    assert_eq!(build(&none).unwrap_err(), FlowError::Count(0));
    let mixed = FlowSpec { source_ip: Some("::1".parse().unwrap()), ..FlowSpec::default() };
    assert!(matches!(build(&mixed), Err(FlowError::Versions(..))));
}

#[test]
fn zipf_prefers_in_proportion_and_repeats_by_seed() {
    let draw = |exponent, seed| {
        let mut chooser = Chooser::new(10, Choice::Zipf(exponent), seed);
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|_| counts[chooser.next_flow()] += 1);
        counts
    };
    let counts = draw(1.0, 1);
    let harmonic: f64 = (1..=10).map(|n| 1.0 / f64::from(n)).sum();
    for (i, &count) in counts.iter().enumerate() {
        let expected = 100_000.0 / (i + 1) as f64 / harmonic;
        assert!((f64::from(count) - expected).abs() < 700.0, "{i}: {count} {expected}");
    }
    assert_eq!(counts, draw(1.0, 1));
    assert_ne!(counts, draw(1.0, 2));
    assert!(draw(0.0, 3).iter().all(|&c| c.abs_diff(10_000) < 500));
    let mut turn = Chooser::new(3, Choice::RoundRobin, 0);
    assert_eq!([0; 7].map(|_| turn.next_flow()), [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn choices_read_as_people_write_them() {
    assert_eq!("zipf:1.1".parse(), Ok(Choice::Zipf(1.1)));
    assert_eq!("uniform".parse(), Ok(Choice::Zipf(0.0)));
    assert!("zipf:NaN".parse::<Choice>().is_err());
}
