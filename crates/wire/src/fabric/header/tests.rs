use proptest::prelude::*;

use super::*;

/// Type Ethernet, 11 bytes of header, hops 3 and control plane to go, 1, 2 and 7 back, "abcd".
const BYTES: [u8; 15] =
    [0x00, 0x00, 0xB0, 0x02, 0x00, 0x30, 3, 0xFF, 1, 2, 7, b'a', b'b', b'c', b'd'];

#[test]
fn a_header_is_read_and_written_back() {
    let frame = Frame::new_checked(&BYTES[..]).unwrap();
    let repr = Repr::parse(&frame).unwrap();
    assert_eq!(
        (frame.kind(), frame.header_len(), frame.payload()),
        (Kind::Ethernet, 11, &b"abcd"[..])
    );
    assert_eq!(repr.to_string(), "fabric Ethernet to 3.ctl back 1.2.7");
    let mut out = [0xEE; 11];
    repr.emit(&mut out).unwrap();
    assert_eq!(out, BYTES[..11]);
    assert_eq!(repr.to_bytes().unwrap()[..], BYTES[..11]);
}

#[test]
fn each_hop_moves_from_the_forward_to_the_reverse_path() {
    let mut b = BYTES;
    assert_eq!(advance(&mut b, 9), Ok(Hop::Port(3)));
    assert_eq!(b[..11], [0x00, 0x00, 0xB0, 0x01, 0x00, 0x40, 0xFF, 9, 1, 2, 7]);
    assert_eq!(advance(&mut b, 8), Ok(Hop::Control));
    assert_eq!(b[..11], [0x00, 0x00, 0xB0, 0x00, 0x00, 0x50, 8, 9, 1, 2, 7]);
    let before = b;
    assert_eq!(advance(&mut b, 8), Err(FabricError::NoHop));
    assert_eq!(b, before);
    assert_eq!(&b[11..], b"abcd");
}

#[test]
fn inconsistent_headers_are_refused() {
    let with = |at: usize, value: u8| {
        let mut b = BYTES;
        b[at] = value;
        Frame::new_checked(b).unwrap_err().to_string()
    };
    assert_eq!(with(0, 0x40), "fabric: bad type 4");
    assert_eq!(with(2, 0xC0), "fabric: bad header length 12");
    assert_eq!(with(1, 0x10), "fabric: bad header length 267");
    assert_eq!(with(3, 0x03), "fabric: bad header length 11");
    assert_eq!(with(3, 0xFF), "fabric: more than 100 in a row");
    for len in 0..11 {
        let error = Frame::new_checked(&BYTES[..len]).unwrap_err();
        assert!(error.is_truncated(), "{len} bytes");
    }
    let long = Repr {
        forward: [1; HOPS_MAX].into(),
        reverse: [1].into_iter().collect(),
        ..Repr::default()
    };
    assert!(long.to_bytes().is_err());
    assert!(Repr::new(Kind::Control, &[0; HOPS_MAX + 1]).is_none());
}

#[test]
fn a_tree_frame_names_its_tree_and_goes_no_hop() {
    let repr = Repr::tree(0x0102_0304, 2, 7).unwrap();
    let mut bytes = repr.to_bytes().unwrap();
    assert_eq!(bytes[..], [0x30, 0, 0xD0, 6, 0, 0x10, 0xFE, 0xFE, 1, 2, 3, 4, 7]);
    assert_eq!(repr.to_string(), "fabric tree 16909060 credits 2 back 7");
    let fields = Fields::read(&bytes).unwrap();
    assert_eq!(tree(&bytes, fields), Some((0x0102_0304, 2)));
    assert_eq!(advance(&mut bytes, 9), Err(FabricError::Tree));
    rotate(&mut bytes, fields, 9);
    assert_eq!(bytes[..], [0x30, 0, 0xD0, 5, 0, 0x20, 0xFE, 1, 2, 3, 4, 9, 7]);
    let ethernet = Fields::read(&BYTES).unwrap();
    assert_eq!(tree(&BYTES, ethernet), None);
    let short = [0x30, 0, 0x90, 3, 0, 0, 1, 2, 3];
    assert_eq!(tree(&short, Fields::read(&short).unwrap()), None);
    assert!(Repr::tree(1, CREDITS_MAX, 0).unwrap().to_bytes().is_ok());
    assert!(Repr::tree(1, CREDITS_MAX + 1, 0).is_none());
}

#[test]
fn the_longest_header_is_processed() {
    let mut bytes = Repr::new(Kind::Control, &[5; HOPS_MAX]).unwrap().to_bytes().unwrap();
    for _ in 0..HOPS_MAX {
        assert_eq!(advance(&mut bytes, 6), Ok(Hop::Port(5)));
    }
    assert_eq!(bytes[6..], [6; HOPS_MAX]);
    assert_eq!(advance(&mut bytes, 6), Err(FabricError::NoHop));
}

#[test]
fn a_header_without_a_payload_may_be_short() {
    let mut bytes = Repr::new(Kind::Control, &[0xFF]).unwrap().to_bytes().unwrap();
    assert_eq!(bytes.len(), 7);
    assert_eq!(advance(&mut bytes, 4), Ok(Hop::Control));
    assert_eq!(bytes[..], [0x10, 0x00, 0x70, 0x00, 0x00, 0x10, 4]);
    assert_eq!(Fields::read(&[0, 0, 0x60, 0, 0, 0]).map(|f| f.next_hop()), Ok(None));
    assert!(Fields::read(&[0, 0, 0x70, 1, 0, 0]).unwrap_err().is_truncated());
}

/// The naive model: a header as two lists.
#[derive(Clone, Debug)]
struct Model {
    kind: u8,
    forward: Vec<u8>,
    reverse: Vec<u8>,
    payload: Vec<u8>,
}

impl Model {
    fn bytes(&self) -> Vec<u8> {
        let (f, r) = (self.forward.len(), self.reverse.len());
        let bits = format!("{:04b}{:016b}{:012b}{:012b}0000", self.kind, 6 + f + r, f, r);
        let bits: Vec<char> = bits.chars().collect();
        let byte = |c: &[char]| u8::from_str_radix(&c.iter().collect::<String>(), 2).unwrap();
        let mut bytes: Vec<u8> = bits.chunks(8).map(byte).collect();
        bytes.extend(&self.forward);
        bytes.extend(&self.reverse);
        bytes.extend(&self.payload);
        bytes
    }

    fn advance(&mut self, in_port: u8) -> Option<u8> {
        if self.forward.is_empty() {
            return None;
        }
        self.reverse.insert(0, in_port);
        Some(self.forward.remove(0))
    }
}

fn model() -> impl Strategy<Value = Model> {
    let hops = prop_oneof![0usize..6, 0usize..=64];
    (0u8..3, hops, any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..80))
        .prop_flat_map(|(kind, hops, forward, payload)| {
            let forward = forward.index(hops + 1);
            let path = |n| prop::collection::vec(any::<u8>(), n);
            (path(forward), path(hops - forward)).prop_map(move |(forward, reverse)| {
                let payload = payload.clone();
                Model { kind, forward, reverse, payload }
            })
        })
}

proptest! {
    #[test]
    fn processing_does_what_lists_would(
        mut model in model(), ports in prop::collection::vec(any::<u8>(), 1..70),
    ) {
        let mut bytes = model.bytes();
        for port in ports {
            let hop = model.advance(port);
            prop_assert_eq!(advance(&mut bytes, port).ok(), hop.map(Hop::new));
            prop_assert_eq!(&bytes, &model.bytes());
        }
    }

    /// The fast form is recognised correctly, and processed like any other.
    #[test]
    fn passing_frames_are_processed_like_others(
        model in model(), port: u8, change in prop::option::of((0usize..14, any::<u8>())),
        cut in prop_oneof![Just(usize::MAX), 0usize..90],
    ) {
        let mut bytes = model.bytes();
        if let Some((at, value)) = change && at < bytes.len() {
            bytes[at] = value;
        }
        bytes.truncate(cut);
        let fields = Fields::read(&bytes).ok().filter(|f| {
            f.kind() == Kind::Ethernet && (1..=8).contains(&f.forward()) && bytes.len() >= 14
        });
        let mut expected = bytes.clone();
        if let Some(fields) = fields {
            rotate_slowly(&mut expected, fields, port);
        }
        let passing = Passing::read(&mut bytes);
        let hop = passing.as_ref().map(|p| Hop::new(p.hop()));
        prop_assert_eq!(hop, fields.and_then(|f| f.next_hop()));
        if let Some(passing) = passing {
            passing.rotate(port);
        }
        prop_assert_eq!(bytes, expected);
    }

    #[test]
    fn views_and_reprs_read_what_is_there(model in model(), cut in any::<prop::sample::Index>()) {
        let bytes = model.bytes();
        let frame = Frame::new_checked(&bytes[..]).unwrap();
        prop_assert_eq!(frame.forward(), &model.forward[..]);
        prop_assert_eq!(frame.reverse(), &model.reverse[..]);
        prop_assert_eq!(frame.payload(), &model.payload[..]);
        let repr = Repr::parse(&frame).unwrap();
        prop_assert_eq!(&repr.to_bytes().unwrap()[..], &bytes[..frame.header_len()]);
        let mut other = Frame::new_checked(bytes.clone()).unwrap();
        other.set_kind(Kind::Error);
        prop_assert_eq!(Repr::parse(&other).unwrap(), Repr { kind: Kind::Error, ..repr });
        let cut = cut.index(frame.header_len());
        prop_assert!(Frame::new_checked(&bytes[..cut]).unwrap_err().is_truncated());
    }

    /// A frame passes through a chain of nodes, node i on ports `ports[i]` (in, out); its answer
    /// passes the same ports in reverse.
    #[test]
    fn an_answer_finds_its_way_back(ports in prop::collection::vec((0u8..0xFF, 0u8..0xFF), 0..30)) {
        // From the control plane of the first node, out by each node's second port, to the
        // control plane of the last.
        let mut path: Vec<u8> = ports.iter().map(|p| p.1).collect();
        path.push(CONTROL_HOP);
        let mut bytes = Repr::new(Kind::Control, &path).unwrap().to_bytes().unwrap();
        let mut in_port = CONTROL_HOP;
        for &(next_in, out) in &ports {
            prop_assert_eq!(advance(&mut bytes, in_port), Ok(Hop::Port(out)));
            in_port = next_in;
        }
        prop_assert_eq!(advance(&mut bytes, in_port), Ok(Hop::Control));
        let arrived = Repr::parse(&Frame::new_checked(&bytes[..]).unwrap()).unwrap();
        let mut answer = arrived.answer(Kind::Control).to_bytes().unwrap();
        let mut in_port = CONTROL_HOP;
        for &(back_out, back_in) in ports.iter().rev() {
            prop_assert_eq!(advance(&mut answer, in_port), Ok(Hop::Port(back_out)));
            in_port = back_in;
        }
        prop_assert_eq!(advance(&mut answer, in_port), Ok(Hop::Control));
    }
}
