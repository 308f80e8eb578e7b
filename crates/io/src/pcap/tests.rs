use proptest::prelude::*;

use super::*;

fn written(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), LinkType::Ethernet, "test").unwrap();
    for (time_ns, bytes) in packets {
        writer.packet(*time_ns, Direction::In, bytes).unwrap();
    }
    writer.into_inner()
}

/// Everything that can be read, and the error that ended it.
fn read_all(file: &[u8]) -> (Vec<(u64, Vec<u8>)>, Option<ReadError>) {
    let mut packets = Vec::new();
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(e) => return (packets, Some(e)),
    };
    let mut bytes = Vec::new();
    loop {
        match reader.next(&mut bytes) {
            Ok(Some(record)) => packets.push((record.time_ns, bytes.clone())),
            Ok(None) => return (packets, None),
            Err(e) => return (packets, Some(e)),
        }
    }
}

proptest! {
    #[test]
    fn written_values_parse_back(packets in prop::collection::vec(
        (any::<u64>(), prop::collection::vec(any::<u8>(), 0..200)), 0..20)) {
        let (read, error) = read_all(&written(&packets));
        prop_assert!(error.is_none());
        prop_assert_eq!(read, packets);
    }
}

#[test]
fn the_error_names_the_byte_of_the_bad_block() {
    let packets: Vec<_> = (0..3).map(|i| (i, vec![i as u8; 60])).collect();
    let mut file = written(&packets);
    let whole = file.len();
    let block = 32 + 60 + 12;
    let last = whole - block;
    assert_eq!(read_all(&file[..whole - 1]).1.unwrap().offset, last as u64);
    file[last + 4] ^= 1;
    let (read, error) = read_all(&file);
    assert_eq!((read.len(), error.unwrap().offset), (2, last as u64));
}

/// A pcap file of one packet, in a byte order and resolution.
fn pcap(magic: u32, big_endian: bool, fraction: u32) -> Vec<u8> {
    let u32 = |v: u32| if big_endian { v.to_be_bytes() } else { v.to_le_bytes() };
    let fields = [magic, 0x0004_0002, 0, 0, 65535, 1, 7, fraction, 4, 4];
    let mut file: Vec<u8> = fields.into_iter().flat_map(u32).collect();
    file.extend([1, 2, 3, 4]);
    file
}

#[test]
fn time_stamps_are_nanoseconds_whatever_the_file_has() {
    for big_endian in [false, true] {
        let micro = pcap(0xA1B2_C3D4, big_endian, 9);
        assert_eq!(read_all(&micro).0, [(7_000_009_000, vec![1, 2, 3, 4])]);
        let nano = pcap(0xA1B2_3C4D, big_endian, 9);
        assert_eq!(read_all(&nano).0, [(7_000_000_009, vec![1, 2, 3, 4])]);
    }
    // pcapng without if_tsresol counts microseconds (section 4.2).
    let block = |kind: u32, body: &[u8]| {
        let len = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &len, body, &len].concat()
    };
    let words = |w: &[u32]| w.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
    let file = [
        block(0x0A0D_0D0A, &words(&[0x1A2B_3C4D, 1, u32::MAX, u32::MAX])),
        block(1, &words(&[1, 0])),
        block(6, &words(&[0, 0, 5_000_001, 4, 4, 0xDDCC_BBAA])),
    ]
    .concat();
    let (read, error) = read_all(&file);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(read, [(5_000_001_000, vec![0xAA, 0xBB, 0xCC, 0xDD])]);
}

#[test]
fn files_that_are_no_captures_of_frames_are_refused() {
    for (file, word) in [
        (vec![], "empty"),
        (b"#!/bin/sh\n".to_vec(), "neither"),
        (pcap(0xA1B2_C3D4, false, 0)[..20].to_vec(), "cut short"),
    ] {
        let error = Reader::new(&file[..]).err().unwrap();
        assert!(error.problem.contains(word), "{error}");
    }
    let mut raw_ip = pcap(0xA1B2_C3D4, false, 0);
    raw_ip[20] = 101;
    let error = Reader::new(&raw_ip[..]).err().unwrap();
    assert!(error.to_string().contains("link type 101"), "{error}");
}
