//! The Wireshark dissector (tools/wireshark) reads the fabric's test vectors as they are meant, and
//! stumbles over nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use plexus_io::pcap::{Direction, LinkType, Writer};
use serde_json::Value;

const VECTORS: &str = include_str!("../../../wire/src/fabric/vectors.json");
const HEADER: &[&str] = &["truncated", "type", "too_many_hops", "header_length", "tree"];
const MESSAGE: &[&str] = &["truncated", "version", "oversized", "malformed", "kind"];
const FIELDS: &[&str] = &[
    "plexus.type",
    "plexus.header_length",
    "plexus.forward_hops",
    "plexus.reverse_hops",
    "plexus.forward",
    "plexus.reverse",
    "plexus.tree",
    "plexus.credits",
    "plexus.control.kind",
    "plexus.control.length",
    "plexus.control.step",
    "plexus.control.sender",
    "plexus.control.receiver",
    "plexus.control.noise",
    "plexus.control.counter",
    "plexus.control.exchange",
    "plexus.control.routes",
    "plexus.control.nonce",
    "plexus.control.ciphertext",
    "plexus.control.tag",
    "eth.dst",
    "eth.type",
    "udp.srcport",
    "_ws.expert.message",
];

fn unhex(vector: &Value, field: &str) -> Vec<u8> {
    let text = vector[field].as_str().unwrap_or_else(|| panic!("{vector} has no {field}"));
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

fn vectors(prefix: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
    all.into_iter().filter(|v| v["name"].as_str().unwrap().starts_with(prefix)).collect()
}

fn has_tshark() -> bool {
    static FOUND: LazyLock<bool> = LazyLock::new(|| {
        Command::new("tshark").arg("--version").output().is_ok_and(|o| o.status.success())
    });
    if !*FOUND {
        eprintln!("skipped: no tshark here; `make setup` installs it");
    }
    *FOUND
}

/// A capture that is removed in the end.
struct Capture(PathBuf);

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// What tshark makes of these frames: for each, the fields that it has.
fn dissect(name: &str, link_type: LinkType, frames: &[Vec<u8>]) -> Vec<Value> {
    let path = std::env::temp_dir().join(format!("plexus-{name}-{}.pcapng", std::process::id()));
    let capture = Capture(path);
    let mut writer = Writer::new(vec![], link_type, name).unwrap();
    for (i, frame) in frames.iter().enumerate() {
        writer.packet(i as u64, Direction::In, frame).unwrap();
    }
    fs::write(&capture.0, writer.into_inner()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/wireshark/plexus.lua");
    let mut tshark = Command::new("tshark");
    tshark.arg("-n").arg("-X").arg(format!("lua_script:{}", script.display()));
    // Nobody's own plug-ins and settings.
    tshark.env("HOME", "/nonexistent").env_remove("XDG_CONFIG_HOME");
    tshark.arg("-r").arg(&capture.0).args(["-T", "json"]);
    for field in FIELDS {
        tshark.args(["-e", field]);
    }
    for (of, names) in [("plexus.bad", HEADER), ("plexus.control.bad", MESSAGE)] {
        for name in names {
            tshark.args(["-e", &format!("{of}.{name}")]);
        }
    }
    let out = tshark.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && !said.contains("Lua"), "{said}");
    let mut packets: Vec<Value> = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(packets.len(), frames.len());
    packets.iter_mut().map(|p| p["_source"]["layers"].take()).collect()
}

/// The last value of a field: that of the innermost layer.
fn last<'a>(layers: &'a Value, field: &str) -> Option<&'a str> {
    layers[field].as_array()?.last()?.as_str()
}

/// Refusals of header or message.
fn refused<'a>(layers: &Value, of: &str, names: &[&'a str]) -> Vec<&'a str> {
    names.iter().copied().filter(|name| !layers[format!("{of}.{name}")].is_null()).collect()
}

fn path(hops: &[u8]) -> String {
    let hop = |h: &u8| if *h == 255 { "ctl".to_string() } else { h.to_string() };
    let hops: Vec<String> = hops.iter().map(hop).collect();
    if hops.is_empty() { "-".into() } else { hops.join(".") }
}

/// Holds the dissection against a sound fabric frame.
fn assert_header(layers: &Value, frame: &[u8], context: &Value) {
    let (f, r) = (usize::from(frame[3]), usize::from(frame[4]) << 4 | usize::from(frame[5]) >> 4);
    let carried = &frame[6 + f + r..];
    let is = |field: &str, value: String| {
        assert_eq!(last(layers, field), Some(&*value), "{field} of {context}");
    };
    is("plexus.type", (frame[0] >> 4).to_string());
    is("plexus.header_length", (6 + f + r).to_string());
    is("plexus.forward_hops", f.to_string());
    is("plexus.reverse_hops", r.to_string());
    is("plexus.forward", path(&frame[6..6 + f]));
    is("plexus.reverse", path(&frame[6 + f..6 + f + r]));
    assert_eq!(refused(layers, "plexus.bad", HEADER), [""; 0], "{context}");
    if matches!(frame[0] >> 4, 0 | 3) && carried.len() >= 14 {
        let dst: Vec<String> = carried[..6].iter().map(|b| format!("{b:02x}")).collect();
        is("eth.dst", dst.join(":"));
        is("eth.type", format!("0x{:02x}{:02x}", carried[12], carried[13]));
    }
}

#[test]
fn headers_are_shown_and_refused_by_name() {
    if !has_tshark() {
        return;
    }
    let vectors = vectors("hop/");
    // A frame to the bootstrap address is a link message on every port.
    let is_native = |v: &&Value| !v["name"].as_str().unwrap().contains("bootstrap");
    let vectors: Vec<&Value> = vectors.iter().filter(is_native).collect();
    let frames: Vec<_> = vectors.iter().map(|v| unhex(v, "frame_in")).collect();
    for ((layers, frame), vector) in
        dissect("native", LinkType::User0, &frames).iter().zip(&frames).zip(vectors)
    {
        match vector["error"].as_str() {
            None | Some("no_hop" | "tree") => assert_header(layers, frame, vector),
            Some(error) => {
                assert_eq!(refused(layers, "plexus.bad", HEADER), [error], "{vector}");
            }
        }
    }
}

#[test]
fn trees_are_shown() {
    if !has_tshark() {
        return;
    }
    let vectors = vectors("tree/");
    let frames: Vec<_> = vectors.iter().map(|v| unhex(v, "frame_in")).collect();
    for ((layers, frame), vector) in
        dissect("tree", LinkType::User0, &frames).iter().zip(&frames).zip(&vectors)
    {
        // The last four bytes of the forward path; whether a box has the tree, it alone knows.
        let Some(credits) = usize::from(frame[3]).checked_sub(4) else {
            assert_eq!(refused(layers, "plexus.bad", HEADER), ["tree"], "{vector}");
            continue;
        };
        if vector["error"] == "truncated" {
            assert_eq!(refused(layers, "plexus.bad", HEADER), ["truncated"], "{vector}");
            continue;
        }
        assert_header(layers, frame, vector);
        let number =
            frame[6 + credits..10 + credits].iter().fold(0u32, |n, b| n << 8 | u32::from(*b));
        assert_eq!(last(layers, "plexus.tree"), Some(&*number.to_string()), "{vector}");
        assert_eq!(last(layers, "plexus.credits"), Some(&*credits.to_string()), "{vector}");
    }
}

#[test]
fn encapsulations_are_opened() {
    if !has_tshark() {
        return;
    }
    let vectors: Vec<Value> = [vectors("ethertype/"), vectors("udp/")].concat();
    let vectors: Vec<&Value> = vectors.iter().filter(|v| v["error"].is_null()).collect();
    let frames: Vec<_> = vectors.iter().map(|v| unhex(v, "frame")).collect();
    for (layers, vector) in dissect("outer", LinkType::Ethernet, &frames).iter().zip(&vectors) {
        let inner = unhex(vector, "inner");
        if vector["name"].as_str().unwrap().contains("link message") {
            assert_header(layers, &inner[14..], vector);
            assert_eq!(last(layers, "eth.dst"), Some("01:80:c2:00:00:0e"), "{vector}");
            assert_eq!(last(layers, "plexus.control.kind"), Some("1"), "{vector}");
        } else {
            assert_header(layers, &inner, vector);
        }
        let port = vector["src_port"].as_u64().map(|p| p.to_string());
        assert_eq!(last(layers, "udp.srcport").map(str::to_string), port, "{vector}");
    }
}

/// A number as tshark prints it: some fields in hexadecimal, filled up.
fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

#[test]
fn messages_are_shown_and_refused_by_name() {
    if !has_tshark() {
        return;
    }
    let vectors = vectors("message/");
    let arrived = [0x10, 0x00, 0x70, 0x00, 0x00, 0x10, 0xFF];
    // Without a byte behind the header there is no message to refuse.
    let vectors: Vec<_> = vectors.iter().filter(|v| v["bytes"] != "").collect();
    let messages: Vec<_> = vectors.iter().map(|v| unhex(v, "bytes")).collect();
    let frames: Vec<_> = messages.iter().map(|m| [&arrived, &m[..]].concat()).collect();
    let all = dissect("message", LinkType::User0, &frames);
    for ((layers, message), vector) in all.iter().zip(&messages).zip(vectors) {
        let refused = refused(layers, "plexus.control.bad", MESSAGE);
        match vector["error"].as_str() {
            // It takes the key to see that.
            None | Some("authentication") => assert_eq!(refused, [""; 0], "{vector}"),
            Some(error) => assert_eq!(refused, [error], "{vector}"),
        }
        if !vector["error"].is_null() {
            continue;
        }
        // Kind, its number, the length and the header's.
        let (kind, number_of, length, from) = match (message[0], message[1]) {
            (0x82, length) => ("sealed", 0x82, usize::from(length), 9),
            (first @ (0x83 | 0x84), length) => ("reply", first, usize::from(length), 14),
            (_, kind) => {
                let length = usize::from(message[2]) << 8 | usize::from(message[3]);
                let (name, from) =
                    [("hello", 14), ("sealed", 18), ("keyed", 26)][usize::from(kind) - 1];
                (name, kind, length, from)
            }
        };
        assert_eq!(vector["kind"], kind);
        assert_eq!(last(layers, "plexus.control.kind"), Some(&*number_of.to_string()));
        let routes = last(layers, "plexus.control.routes").map(number);
        assert_eq!(routes, vector["version"].as_u64(), "{vector}");
        for field in ["step", "sender", "receiver", "counter", "exchange"] {
            let shown = last(layers, &format!("plexus.control.{field}")).map(number);
            assert_eq!(shown, vector[field].as_u64(), "{field} of {vector}");
        }
        for field in ["noise", "nonce"] {
            let shown = last(layers, &format!("plexus.control.{field}"));
            assert_eq!(shown, vector[field].as_str(), "{field} of {vector}");
        }
        if kind != "hello" {
            let sealed: String = message[from..length].iter().map(|b| format!("{b:02x}")).collect();
            let shown =
                [last(layers, "plexus.control.ciphertext"), last(layers, "plexus.control.tag")];
            assert_eq!(shown.map(Option::unwrap_or_default).concat(), sealed, "{vector}");
        }
    }
}

#[test]
fn link_messages_are_shown_whatever_the_port_speaks() {
    if !has_tshark() {
        return;
    }
    let vectors = vectors("link/");
    let frames: Vec<_> = vectors.iter().map(|v| unhex(v, "frame")).collect();
    for link_type in [LinkType::User0, LinkType::Ethernet] {
        let name = format!("link-{}", link_type.number());
        for (layers, vector) in dissect(&name, link_type, &frames).iter().zip(&vectors) {
            assert_eq!(last(layers, "plexus.forward"), Some("ctl"), "{vector}");
            assert_eq!(last(layers, "plexus.reverse"), Some("-"), "{vector}");
            let kind = unhex(vector, "message")[1].to_string();
            assert_eq!(last(layers, "plexus.control.kind"), Some(&*kind), "{vector}");
            assert_eq!(refused(layers, "plexus.control.bad", MESSAGE), [""; 0], "{vector}");
        }
    }
}

/// A dissector that fails says so in the packet: no cut of any vector may make it.
#[test]
fn no_cut_frame_makes_the_script_fail() {
    if !has_tshark() {
        return;
    }
    let mut frames = vec![];
    for (prefix, field) in [("hop/", "frame_in"), ("message/", "bytes"), ("link/", "frame")] {
        for vector in vectors(prefix) {
            let mut frame = unhex(&vector, field);
            if prefix == "message/" {
                frame.splice(..0, [0x10, 0x00, 0x60, 0x00, 0x00, 0x00]);
            }
            frames.extend((0..frame.len().min(120)).map(|len| frame[..len].to_vec()));
        }
    }
    for link_type in [LinkType::User0, LinkType::Ethernet] {
        let name = format!("cut-{}", link_type.number());
        for (layers, frame) in dissect(&name, link_type, &frames).iter().zip(&frames) {
            let said = layers["_ws.expert.message"].to_string();
            assert!(!said.contains("Lua"), "{said} of {frame:02x?}");
        }
    }
}
