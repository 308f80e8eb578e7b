//! Targets that read whole files: captures, a node's configuration, a topology.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hint::black_box;

use plexus_analysis::exchange::{Format, ImportOptions, export, import};
use plexus_config::{ControllerFile, FileError, NodeFile};
use plexus_io::pcap::{Direction, LinkType, Reader, Writer};
use plexus_plane::Snapshot;
use plexus_topo::Topology;

/// [`plexus_io::pcap::Reader`]: it ends, and what it read survives being written and read again.
pub fn pcap(data: &[u8]) {
    let mut reader = match Reader::new(data) {
        Ok(reader) => reader,
        Err(error) => return check_place(&error, data.len()),
    };
    let (mut bytes, mut records) = (Vec::new(), Vec::new());
    loop {
        match reader.next(&mut bytes) {
            Ok(Some(record)) => records.push((record.time_ns, bytes.clone())),
            Ok(None) => break,
            Err(error) => {
                check_place(&error, data.len());
                break;
            }
        }
        // The shortest record has 16 bytes besides its packet.
        let read: usize = records.iter().map(|(_, packet)| 16 + packet.len()).sum();
        assert!(read <= data.len(), "more was read than the file holds");
    }
    // Whatever comes after the end or a fault, asking again is harmless.
    black_box(reader.next(&mut bytes).is_ok());
    let mut writer =
        Writer::new(Vec::new(), LinkType::Ethernet, "fuzz").expect("memory takes all bytes");
    for (time_ns, packet) in &records {
        writer.packet(*time_ns, Direction::In, packet).expect("memory takes all bytes");
    }
    let file = writer.into_inner();
    let mut again = Reader::new(&file[..]).expect("what was written can be read");
    for (time_ns, packet) in &records {
        let record = again.next(&mut bytes).expect("what was written can be read");
        assert_eq!(record.map(|r| (r.time_ns, r.original_len)), Some((*time_ns, packet.len())));
        assert_eq!(&bytes, packet);
    }
    assert!(matches!(again.next(&mut bytes), Ok(None)), "nothing was added");
}

fn check_place(error: &plexus_io::pcap::ReadError, len: usize) {
    assert!(error.offset <= len as u64, "{error}: the file has {len} bytes");
    assert!(!error.problem.is_empty());
}

/// [`plexus_config::NodeFile`]: what is accepted is written back as it was meant, and makes a
/// data plane; what is refused is explained.
pub fn node_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let read = NodeFile::parse("fuzzed", &text);
    let Some(node) = accepted(read, &text) else { return };
    same(NodeFile::parse("written", &node.to_toml()), &node, &node.to_toml());
    let ports = node.ports.iter();
    let ports = ports.map(|p| (p.name.clone(), p.worker.unwrap_or(0), p.settings.clone()));
    let plan = Snapshot::new(ports.collect(), &node.switch);
    assert!(plan.is_ok(), "what the file may say, the data plane refuses: {:?}", plan.err());
}

/// [`plexus_config::ControllerFile`]: what is accepted is written back as it was meant.
pub fn controller_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let read = ControllerFile::parse("fuzzed", &text);
    let Some(file) = accepted(read, &text) else { return };
    same(ControllerFile::parse("written", &file.to_toml()), &file, &file.to_toml());
}

/// [`plexus_topo::Topology`]: what is accepted is written back as it was meant, its cables end at
/// ports of their own; what is refused is explained.
pub fn topology_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Some(topology) = accepted(Topology::parse("fuzzed", &text), &text) else { return };
    same(Topology::parse("written", &topology.to_toml()), &topology, &topology.to_toml());
    let mut ends = HashMap::new();
    for (link, lane, cable) in topology.cables() {
        for end in cable {
            let other = ends.insert(topology.end_name(end), (link, lane));
            assert_eq!(other, None, "{} has two cables", topology.end_name(end));
        }
    }
}

/// [`plexus_analysis::exchange`] reading GraphML.
pub fn graphml(data: &[u8]) {
    graph(data, Format::GraphMl);
}

/// [`plexus_analysis::exchange`] reading DOT.
pub fn dot(data: &[u8]) {
    graph(data, Format::Dot);
}

/// [`plexus_analysis::exchange`] reading JSON.
pub fn graph_json(data: &[u8]) {
    graph(data, Format::Json);
}

/// [`plexus_analysis::exchange`] reading labs of containerlab.
pub fn containerlab(data: &[u8]) {
    graph(data, Format::Containerlab);
}

/// [`plexus_analysis::exchange`] reading networks of Mininet.
pub fn mininet(data: &[u8]) {
    graph(data, Format::Mininet);
}

/// What is accepted is a sound topology, which comes back from each format with as many devices
/// and cables; what is refused is explained.
fn graph(data: &[u8], format: Format) {
    let text = String::from_utf8_lossy(data);
    let options = ImportOptions { name: "fuzzed".to_string(), hosts_per_node: 0 };
    let Some(made) = accepted(import(format, "fuzzed", &text, &options), &text) else { return };
    let topology = made.topology;
    same(Topology::parse("written", &topology.to_toml()), &topology, &topology.to_toml());
    let counts = |t: &Topology| (t.nodes.len(), t.bridges.len(), t.hosts.len(), t.cables().count());
    for (_, format) in Format::NAMES {
        let Some(text) = export(&topology, format).map(|made| made.text) else { continue };
        match import(format, "exported", &text, &options) {
            Ok(again) => assert_eq!(counts(&again.topology), counts(&topology), "{text}"),
            Err(error) => panic!("what was exported is refused:\n{error}\n{text}"),
        }
    }
}

/// The value, or nothing after a look at what the error says.
fn accepted<T>(read: Result<T, FileError>, text: &str) -> Option<T> {
    let error = match read {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    assert!(error.to_string().starts_with("fuzzed:"), "where is it? {error}");
    assert!(!error.problems().is_empty());
    for problem in error.problems() {
        assert!(!problem.message.is_empty());
        let Some(span) = &problem.span else { continue };
        assert!(span.start <= span.end && span.end <= text.len(), "{span:?} of {}", text.len());
        let (line, column) = error.position(span.start);
        assert!(line >= 1 && line <= text.split('\n').count() && column >= 1, "{line}:{column}");
    }
    None
}

fn same<T: PartialEq + Debug>(again: Result<T, FileError>, value: &T, written: &str) {
    match again {
        Ok(again) => assert_eq!(&again, value, "written as\n{written}"),
        Err(error) => panic!("what was written is refused:\n{error}\n{written}"),
    }
}
