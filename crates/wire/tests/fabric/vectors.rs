//! `fabric/vectors.json` against our code, and against models written from `fabric/SPEC.md` alone,
//! so that the vectors do not just echo our code.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::tables::{TEXT, Tables, mac};
use plexus_wire::fabric::encapsulation;
use plexus_wire::fabric::message::Body;
use plexus_wire::fabric::{self, FabricError, Fields, Frame, Hop, Kind};
use plexus_wire::{Error, Format, Reason};
use plexus_wire::{MacAddr, ethernet};
use proptest::prelude::*;
use serde_json::{Value, json};

const VECTORS: &str = include_str!("../../src/fabric/vectors.json");

pub(crate) fn vectors(prefix: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
    let of_it = |v: &Value| v["name"].as_str().unwrap().starts_with(prefix);
    let found: Vec<Value> = all.into_iter().filter(of_it).collect();
    assert!(!found.is_empty());
    found
}

fn unhex(text: &str) -> Vec<u8> {
    plexus_wire::unhex(text).unwrap()
}

pub(crate) fn bytes(vector: &Value, field: &str) -> Vec<u8> {
    unhex(vector[field].as_str().unwrap_or_else(|| panic!("{vector} has no {field}")))
}

fn text<'a>(vector: &'a Value, field: &str) -> &'a str {
    vector[field].as_str().unwrap_or_else(|| panic!("{vector} has no {field}"))
}

/// A refusal, by the document's name.
fn name_of(error: Error) -> &'static str {
    match (error.format, error.reason) {
        (_, Reason::Truncated { .. }) => "truncated",
        (_, Reason::Checksum) => "checksum",
        (Format::Fabric, Reason::TooMany { limit: 100 }) => "too_many_hops",
        (format, Reason::Invalid { field, .. }) => match (format, field) {
            (Format::Fabric, "type") => "type",
            (Format::Fabric, "header length") => "header_length",
            (Format::FabricMessage, "kind") => "kind",
            (Format::FabricMessage, "truth value") => "bool",
            (Format::FabricMessage, "IP version") => "ip_version",
            (Format::FabricMessage, "port role") => "port_role",
            (Format::FabricMessage, "refusal") => "refusal",
            (Format::FabricMessage, "common verb") => "common_verb",
            (Format::FabricMessage, "common fate") => "common_fate",
            (Format::FabricMessage, "length") => "length",
            (Format::FabricMessage, "number") => "number",
            (Format::FabricMessage, "routes") => "routes",
            _ => panic!("{error} has no name"),
        },
        _ => panic!("{error} has no name"),
    }
}

/// The result for a frame: its bytes and destination, or the error.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    frame: Option<Vec<u8>>,
    port: Option<u8>,
    error: Option<String>,
}

/// A port's number; the control plane's is 255.
fn port(value: &Value) -> Option<u8> {
    if *value == "control" { Some(0xFF) } else { value.as_u64().map(|n| n.try_into().unwrap()) }
}

impl Outcome {
    fn expected(vector: &Value) -> Outcome {
        Outcome {
            frame: vector["frame_out"].as_str().map(unhex),
            port: port(&vector["port_out"]),
            error: vector["error"].as_str().map(str::to_string),
        }
    }

    fn of_our_code(frame: &[u8], port: u8) -> Outcome {
        let mut frame = frame.to_vec();
        match fabric::advance(&mut frame, port) {
            Ok(hop) => {
                let port = match hop {
                    Hop::Port(port) => port,
                    Hop::Control => 0xFF,
                };
                Outcome { frame: Some(frame), port: Some(port), error: None }
            }
            Err(FabricError::NoHop) => {
                Frame::new_checked(&mut frame).unwrap().set_kind(Kind::Error);
                let error = Some("no_hop".into());
                Outcome { frame: Some(frame), port: Some(0xFF), error }
            }
            Err(FabricError::Tree) => {
                Outcome { frame: None, port: None, error: Some("tree".into()) }
            }
            Err(FabricError::Header(error)) => {
                Outcome { frame: None, port: None, error: Some(name_of(error).into()) }
            }
        }
    }

    /// Sections 1 to 3 of the document, with the header as a number and the paths as lists.
    fn of_the_model(frame: &[u8], port: u8) -> Outcome {
        let refuse = |error: &str| Outcome { frame: None, port: None, error: Some(error.into()) };
        let Some(fixed) = frame.get(..6) else { return refuse("truncated") };
        let fixed = fixed.iter().fold(0u64, |n, b| n * 256 + u64::from(*b));
        let field = |shift: u32, bits: u32| ((fixed >> shift) % (1 << bits)) as usize;
        let (kind, header_len) = (field(44, 4), field(28, 16));
        let (f, r, unused) = (field(16, 12), field(4, 12), field(0, 4));
        if kind > 3 {
            return refuse("type");
        }
        if f + r > 100 {
            return refuse("too_many_hops");
        }
        if header_len != 6 + f + r {
            return refuse("header_length");
        }
        let Some(hops) = frame.get(6..header_len) else { return refuse("truncated") };
        if kind == 3 {
            return refuse("tree");
        }
        let (mut forward, mut reverse) = (hops[..f].to_vec(), hops[f..].to_vec());
        let (kind, to, error) = if forward.is_empty() {
            (2, 0xFF, Some("no_hop".into()))
        } else {
            reverse.insert(0, port);
            (kind, forward.remove(0), None)
        };
        let bits = format!(
            "{kind:04b}{header_len:016b}{:012b}{:012b}{unused:04b}",
            forward.len(),
            reverse.len()
        );
        let mut out = u64::from_str_radix(&bits, 2).unwrap().to_be_bytes()[2..].to_vec();
        out.extend([&forward[..], &reverse, &frame[header_len..]].concat());
        Outcome { frame: Some(out), port: Some(to), error }
    }
}

#[test]
fn hops() {
    for vector in vectors("hop/") {
        let (frame, port) = (bytes(&vector, "frame_in"), port(&vector["port_in"]).unwrap());
        let expected = Outcome::expected(&vector);
        assert_eq!(Outcome::of_the_model(&frame, port), expected, "the model, {vector}");
        assert_eq!(Outcome::of_our_code(&frame, port), expected, "our code, {vector}");
    }
}

/// Our code's result for a frame on a tree: the copies by port.
fn copies(vector: &Value) -> Result<Value, &'static str> {
    let (frame, in_port) = (bytes(vector, "frame_in"), port(&vector["port_in"]).unwrap());
    let fields = Fields::read(&frame).map_err(name_of)?;
    let (number, credits) = fabric::tree(&frame, fields).ok_or("tree")?;
    if vector["tree"] != number {
        return Err("tree");
    }
    let ports = |role: &str| -> Vec<u8> { serde_json::from_value(vector[role].clone()).unwrap() };
    let mut out = BTreeMap::new();
    for port in ports("host") {
        out.insert(port, frame[fields.header_len()..].to_vec());
    }
    for port in ports("fabric").into_iter().filter(|_| credits > 0) {
        let mut copy = frame.clone();
        fabric::rotate(&mut copy, fields, in_port);
        out.insert(port, copy);
    }
    out.remove(&in_port);
    let hex = |frame: &[u8]| frame.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let copies = out.iter().map(|(port, frame)| json!({"port": port, "frame": hex(frame)}));
    Ok(copies.collect())
}

#[test]
fn trees() {
    for vector in vectors("tree/") {
        let expected = match vector["error"].as_str() {
            Some(error) => Err(error),
            None => Ok(vector["out"].clone()),
        };
        assert_eq!(copies(&vector).as_ref().map_err(|e| *e), expected.as_ref().map_err(|e| *e));
    }
}

/// The document's example is among the vectors, byte for byte.
#[test]
fn the_example_is_the_documents() {
    let mut headers = 0;
    for vector in vectors("hop/example") {
        let out = bytes(&vector, "frame_out");
        let header: Vec<String> = out[..9].iter().map(|b| format!("{b:02X}")).collect();
        headers += usize::from(TEXT.contains(&header.join(" ")));
    }
    assert_eq!(headers, 4);
    let example = &vectors("tree/example")[0];
    for frame in [bytes(example, "frame_in"), bytes(&example["out"][0], "frame")] {
        let header: Vec<String> = frame[..13].iter().map(|b| format!("{b:02X}")).collect();
        assert!(TEXT.contains(&header.join(" ")), "{header:?}");
    }
}

fn address(vector: &Value, field: &str) -> MacAddr {
    MacAddr(mac(&vector[field]).try_into().unwrap())
}

#[test]
fn ethertype_encapsulation() {
    for vector in vectors("ethertype/") {
        let frame = bytes(&vector, "frame");
        let ours = ethernet::Frame::new_checked(&frame[..]).map_err(name_of).and_then(|f| {
            let is_ours = f.ethertype() == encapsulation::ETHERTYPE;
            if is_ours { Ok((f.dst(), f.src(), f.payload())) } else { Err("ethernet_type") }
        });
        if let Some(error) = vector["error"].as_str() {
            assert_eq!(ours, Err(error), "{vector}");
            continue;
        }
        let (dst, src, inner) =
            (address(&vector, "dst"), address(&vector, "src"), bytes(&vector, "inner"));
        let by_hand = [&mac(&vector["dst"])[..], &mac(&vector["src"]), &[0x88, 0xB5], &inner];
        assert_eq!(frame, by_hand.concat(), "{vector}");
        assert_eq!(frame, [&encapsulation::ethertype_header(dst, src), &inner[..]].concat());
        assert_eq!(ours, Ok((dst, src, &inner[..])), "{vector}");
    }
}

#[test]
fn udp_encapsulation() {
    for vector in vectors("udp/") {
        let (frame, inner) = (bytes(&vector, "frame"), bytes(&vector, "inner"));
        let stations = (address(&vector, "src"), address(&vector, "dst"));
        let ends: (IpAddr, IpAddr) =
            (text(&vector, "ip_src").parse().unwrap(), text(&vector, "ip_dst").parse().unwrap());
        let ports = (vector["src_port"].as_u64().unwrap().try_into().unwrap(), 18_773);
        let mut written = plexus_wire::frame::udp(stations, ends, ports, &inner).unwrap();
        if vector["back"] == false {
            // With padding behind it, or without the checksum.
            let sum = written.len() - inner.len() - 2;
            written[sum..sum + 2].copy_from_slice(&frame[sum..sum + 2]);
            written.resize(frame.len(), 0);
        }
        assert_eq!(written, frame, "{vector}");
    }
}

/// Section 16 of the document: the forwarders that hold the part of an address, in order.
fn holders_of_the_model(places: &[u8], copies: usize, address: IpAddr) -> Vec<usize> {
    let part: u64 = match address {
        IpAddr::V4(a) => 0x4_0000_0000 + u64::from(u32::from(a)) / 0x1_0000,
        IpAddr::V6(a) => 0x6_0000_0000 + (u128::from(a) / (1 << 100)) as u64,
    };
    let product = |h: u64, factor: u128| ((u128::from(h) * factor) % (1 << 64)) as u64;
    let weight = |place: u64| {
        let h = part * 256 + place;
        let h = product(h ^ (h >> 33), 0xFF51_AFD7_ED55_8CCD);
        let h = product(h ^ (h >> 33), 0xC4CE_B9FE_1A85_EC53);
        h ^ (h >> 33)
    };
    let owner = |forwarder: usize| std::iter::repeat_n(forwarder, places[forwarder].into());
    let owners = (0..places.len()).flat_map(owner);
    let mut ranking: Vec<(u64, usize)> = (0..).map(weight).zip(owners).collect();
    ranking.sort_unstable();
    let mut found = Vec::new();
    for (_, forwarder) in ranking.into_iter().rev() {
        if found.len() < copies && !found.contains(&forwarder) {
            found.push(forwarder);
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn holders() {
    for vector in vectors("holders/") {
        let places: Vec<u8> = serde_json::from_value(vector["places"].clone()).unwrap();
        let copies = vector["copies"].as_u64().unwrap() as u8;
        let address: IpAddr = text(&vector, "address").parse().unwrap();
        let model = holders_of_the_model(&places, copies.into(), address);
        assert_eq!(json!(model), vector["holders"], "the model, {vector}");
        let partition = fabric::Partition::new(&places, copies).unwrap();
        let ours: Vec<u8> = partition.holders(address).iter().collect();
        assert_eq!(json!(ours), vector["holders"], "our code, {vector}");
    }
}

/// Request and meaning, as JSON; or the refusal's name.
fn ours(bytes: &[u8]) -> Result<(u32, Value), String> {
    let (request, body) = Body::parse(bytes).map_err(|e| name_of(e).to_string())?;
    Ok((request, serde_json::to_value(body).unwrap()))
}

#[test]
fn bodies() {
    let tables = Tables::read();
    let mut seen: Vec<u8> = vec![];
    for vector in vectors("body/") {
        let encoded = bytes(&vector, "bytes");
        if let Some(error) = vector["error"].as_str() {
            assert_eq!(tables.decode_body(&encoded), Err(error.into()), "the model, {vector}");
            assert_eq!(ours(&encoded), Err(error.into()), "our code, {vector}");
            continue;
        }
        let request = vector["request"].as_u64().unwrap().try_into().unwrap();
        let meaning = Ok((request, vector["body"].clone()));
        assert_eq!(tables.encode_body(request, &vector["body"]), encoded, "the model, {vector}");
        assert_eq!(tables.decode_body(&encoded), meaning, "the model, {vector}");
        assert_eq!(ours(&encoded), meaning, "our code, {vector}");
        let body: Body = serde_json::from_value(vector["body"].clone()).unwrap();
        assert_eq!(body.to_bytes(request), encoded, "our code, {vector}");
        seen.push(body.kind());
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, tables.bodies.keys().copied().collect::<Vec<_>>(), "kinds with a vector");
}

proptest! {
    /// Our code and the document's tables judge any change to a body alike, down to the reason.
    #[test]
    fn changed_bodies_are_judged_as_the_document_says(
        which: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        more in prop::collection::vec(any::<u8>(), 0..3),
    ) {
        let mut encoded = bytes(which.get(&vectors("body/")), "bytes");
        for (at, value) in changes {
            if !encoded.is_empty() {
                let at = at.index(encoded.len());
                encoded[at] = value;
            }
        }
        if let Some(cut) = cut {
            encoded.truncate(cut.index(encoded.len() + 1));
        }
        encoded.extend(more);
        prop_assert_eq!(ours(&encoded), Tables::read().decode_body(&encoded));
    }

    #[test]
    fn parts_have_the_holders_that_the_document_says(
        places in prop::collection::vec(1u8..=2, 1..=4),
        copies in 1u8..=5,
        address: IpAddr,
    ) {
        let ours = fabric::Partition::new(&places, copies).unwrap().holders(address);
        let ours: Vec<usize> = ours.iter().map(usize::from).collect();
        prop_assert_eq!(ours, holders_of_the_model(&places, copies.into(), address));
    }

    /// The same for headers.
    #[test]
    fn changed_headers_are_judged_as_the_document_says(
        which: prop::sample::Index,
        changes in prop::collection::vec((0usize..8, any::<u8>()), 0..3),
        cut in prop::option::of(any::<prop::sample::Index>()),
        port: u8,
    ) {
        let mut frame = bytes(which.get(&vectors("hop/")), "frame_in");
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        if let Some(cut) = cut {
            frame.truncate(cut.index(frame.len() + 1));
        }
        prop_assert_eq!(Outcome::of_our_code(&frame, port), Outcome::of_the_model(&frame, port));
    }
}
