//! Topologies from and to what other programs read and write: GraphML, DOT, JSON, containerlab's
//! definitions, Mininet's JSON (read only), and drawings.
//!
//! The first three carry the same: devices with their names, kinds and addresses, links with
//! lanes, rate, delay, MTU, loss and ports, as attributes that `facts` names. Settings of
//! ports, traffic, events and assertions stay behind. Of files by others, `label` or `name` names a
//! device and `LinkSpeedRaw` (bits/s, Internet Topology Zoo) is a link's rate.

mod build;
mod command;
mod containerlab;
mod dot;
mod draw;
mod facts;
mod graphml;
mod json;
mod layout;
mod left_out;
mod mininet;
mod names;
mod tree;
mod write;

use std::path::Path;
use std::rc::Rc;

use plexus_config::FileError;
use plexus_config::document::{FILE_BYTES_MAX, PROBLEMS_MAX};
use plexus_config::error::{Problem, Span};
use plexus_topo::Topology;

pub use draw::{DRAWN_BOXES_MAX, DrawError};

/// A format that is read, and written unless it is Mininet's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// XML (graphml.graphdrawing.org), as the Internet Topology Zoo has it.
    GraphMl,
    /// Graphviz's language.
    Dot,
    /// The node-link form that networkx writes.
    Json,
    /// Topology definitions of containerlab, in YAML.
    Containerlab,
    /// JSON that MiniEdit saves and scripts for Mininet write.
    Mininet,
}

impl Format {
    /// Every format with what names it.
    pub const NAMES: [(&str, Format); 5] = [
        ("graphml", Format::GraphMl),
        ("dot", Format::Dot),
        ("json", Format::Json),
        ("containerlab", Format::Containerlab),
        ("mininet", Format::Mininet),
    ];

    /// The format that a file's name ends with.
    pub fn of(path: &Path) -> Option<Format> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "graphml" | "xml" => Some(Format::GraphMl),
            "dot" | "gv" => Some(Format::Dot),
            "json" => Some(Format::Json),
            "yml" | "yaml" => Some(Format::Containerlab),
            "mn" => Some(Format::Mininet),
            _ => None,
        }
    }
}

/// What is made of an imported graph.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The topology's name, used where the file has none; made legal.
    pub name: String,
    /// Hosts to add on each node of a graph without hosts.
    pub hosts_per_node: usize,
}

/// A topology made of a graph, and what was changed to make it one.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The topology.
    pub topology: Topology,
    /// What the graph had that the topology has otherwise, one sentence each.
    pub notes: Vec<String>,
}

/// Reads a graph from its text; `file` is what messages call it.
///
/// # Errors
/// With what is wrong in it, and where.
pub fn import(
    format: Format,
    file: &str,
    text: &str,
    options: &ImportOptions,
) -> Result<Imported, FileError> {
    if text.len() as u64 > FILE_BYTES_MAX {
        let message = format!("is larger than {} MiB", FILE_BYTES_MAX >> 20);
        return Err(FileError::whole(file, message, "leave out what is not nodes and links"));
    }
    let mut faults = Faults::default();
    let graph = match format {
        Format::GraphMl => graphml::read(text, &mut faults),
        Format::Dot => dot::read(text, &mut faults),
        Format::Json => json::read(text, &mut faults),
        Format::Containerlab => containerlab::read(text, &mut faults),
        Format::Mininet => mininet::read(text, &mut faults),
    };
    // What is made of a graph with faults would only add to them.
    let graph = graph.filter(|_| faults.0.is_empty());
    let built = graph.and_then(|graph| build::build(&graph, options, &mut faults));
    match built {
        Some(built) if faults.0.is_empty() => built.checked(file),
        _ => Err(FileError::new(file, text, faults.0)),
    }
}

/// A written topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The file.
    pub text: String,
    /// Parts of the topology that the file lacks, one sentence each; none for graphs.
    pub notes: Vec<String>,
}

/// Writes a topology's devices and links; `None` for Mininet's format, which is only read.
pub fn export(topology: &Topology, format: Format) -> Option<Exported> {
    let text = match format {
        Format::GraphMl => write::graphml(topology),
        Format::Dot => write::dot(topology),
        Format::Json => write::json(topology),
        Format::Containerlab => return Some(containerlab::write(topology)),
        Format::Mininet => return None,
    };
    Some(Exported { text, notes: Vec::new() })
}

/// Draws a topology as SVG.
///
/// # Errors
/// When it is too large to be read as a drawing.
pub fn svg(topology: &Topology) -> Result<String, DrawError> {
    draw::svg(topology)
}

/// What is wrong with a file, as far as it is worth telling.
#[derive(Default)]
struct Faults(Vec<Problem>);

impl Faults {
    fn add(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        if self.0.len() < PROBLEMS_MAX {
            let (message, help) = (message.into(), help.into());
            self.0.push(Problem { span: Some(span), message, help });
        }
    }
}

/// A graph as a file has it.
#[derive(Default)]
struct RawGraph {
    /// What the file calls it.
    name: Option<String>,
    /// Its vertices, each once.
    vertices: Vec<RawVertex>,
    /// Its edges.
    edges: Vec<RawEdge>,
    /// What the reader left out, one sentence each.
    notes: Vec<String>,
}

/// A vertex as a file has it.
struct RawVertex {
    /// What edges call it.
    id: String,
    /// What the file says of it.
    attributes: Attributes,
}

/// An edge as a file has it.
struct RawEdge {
    /// Its vertices, by index.
    ends: [usize; 2],
    /// Whether it leads from the first to the second only.
    directed: bool,
    /// What the file says of it.
    attributes: Attributes,
    /// Where it stands.
    span: Span,
}

/// Attributes by name, in the order of the file; shared among what was given them together.
type Attributes = Rc<Vec<Attribute>>;

/// An attribute as a file has it, of those that [`facts::READ`] names.
#[derive(Clone)]
struct Attribute {
    name: &'static str,
    value: Rc<str>,
    /// Where the value stands.
    span: Span,
}
