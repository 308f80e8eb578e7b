//! Reads GraphML (graphml.graphdrawing.org), as networkx and the Internet Topology Zoo write it.
//!
//! The tree is `roxmltree`'s: it knows where everything stands, expands no entities of a document
//! type (which is refused), and needs no recursion.

use std::collections::HashMap;
use std::rc::Rc;

use plexus_topo::{DEVICES_MAX, LINKS_MAX};
use roxmltree::{Document, Node, ParsingOptions};

use super::facts;
use super::{Attribute, Attributes, Faults, RawEdge, RawGraph, RawVertex};
use plexus_config::error::quote;

/// Elements and texts of a file.
const XML_NODES_MAX: u32 = 32 << 20;
/// Quotes in one tag: the parser compares each attribute of a tag with every other.
const TAG_QUOTES_MAX: usize = 512;
/// Declarations of namespaces: the parser copies those of an element into each one within that
/// declares another, and compares them.
const NAMESPACES_MAX: usize = 256;

const HELP: &str = "export the graph as GraphML again, from the program that wrote it";

/// A `<key>`: what data of this id is called, and its value where none is given.
#[derive(Clone)]
struct Key<'a> {
    name: &'a str,
    /// `node`, `edge`, or another word for both.
    for_: &'a str,
    default: Option<Rc<str>>,
}

pub(super) fn read(text: &str, faults: &mut Faults) -> Option<RawGraph> {
    if let Some(at) = crowded_tag(text) {
        faults.add(at..at + 1, "this tag has hundreds of attributes", HELP);
        return None;
    }
    let mut declared = text.match_indices("xmlns").filter(|(at, word)| {
        matches!(text.as_bytes().get(at + word.len()), Some(b'=' | b':' | b' '))
    });
    if let Some((at, _)) = declared.nth(NAMESPACES_MAX) {
        faults.add(at..at + 5, "the file declares hundreds of namespaces", HELP);
        return None;
    }
    let options = ParsingOptions { nodes_limit: XML_NODES_MAX, ..ParsingOptions::default() };
    let document = match Document::parse_with_options(text, options) {
        Ok(document) => document,
        Err(error) => {
            refuse(text, &error, faults);
            return None;
        }
    };
    let root = document.root_element();
    if root.tag_name().name() != "graphml" {
        let message = format!("this is <{}> and not GraphML", shown(root.tag_name().name()));
        faults.add(tag_span(root), message, "give a file whose outermost element is <graphml>");
        return None;
    }
    let keys = read_keys(root);
    let mut graphs = elements(root).filter(|e| e.tag_name().name() == "graph");
    let Some(graph) = graphs.next() else {
        faults.add(tag_span(root), "there is no <graph> in it", HELP);
        return None;
    };
    let read = |k: &&Key<'_>| k.default.is_some() && facts::READ.contains(&k.name);
    let mut defaults: Vec<Key<'_>> = keys.values().filter(read).cloned().collect();
    // Of several with one name any does; but always the same.
    defaults.sort_by(|a, b| (a.name, a.for_, &a.default).cmp(&(b.name, b.for_, &b.default)));
    defaults.dedup_by_key(|k| (k.name, k.for_));
    let (raw, of) = (RawGraph::default(), HashMap::new());
    let mut reader = Reader { keys, defaults, faults, raw, of };
    let further = graphs.count();
    if further > 0 {
        reader.raw.notes.push(format!("{further} further <graph>s are left out"));
    }
    reader.graph(graph);
    Some(reader.raw)
}

/// Where a tag begins that has more quotes than any sensible one.
fn crowded_tag(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut start, mut quotes) = (None, 0);
    for (i, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' => {
                let next = bytes.get(i + 1);
                start = (next != Some(&b'!') && next != Some(&b'?')).then_some(i);
                quotes = 0;
            }
            b'>' if quotes % 2 == 0 => start = None,
            b'"' | b'\'' if start.is_some() => {
                quotes += 1;
                if quotes > TAG_QUOTES_MAX {
                    return start;
                }
            }
            _ => {}
        }
    }
    None
}

fn refuse(text: &str, error: &roxmltree::Error, faults: &mut Faults) {
    use roxmltree::Error as E;
    let (message, help) = match error {
        E::DtdDetected => {
            let at = text.find("<!DOCTYPE").unwrap_or(0);
            let message = "a document type is not read: its entities can grow without end";
            faults.add(at..at + 9, message, "remove <!DOCTYPE …>; GraphML needs none");
            return;
        }
        E::NodesLimitReached | E::AttributesLimitReached | E::NamespacesLimitReached => {
            ("the file has too many elements".to_string(), "leave out what is not the graph")
        }
        E::UnclosedRootNode | E::UnexpectedEndOfStream => {
            let end = text.trim_end().len();
            faults.add(end..end, "the file ends before its last element", HELP);
            return;
        }
        other => (format!("this is not XML: {other}"), HELP),
    };
    let at = offset(text, error.pos());
    faults.add(at..at, message, help);
}

/// The byte of a place; columns count characters.
fn offset(text: &str, pos: roxmltree::TextPos) -> usize {
    let mut start = 0;
    for _ in 1..pos.row {
        start += text[start..].find('\n').map_or(text.len() - start, |i| i + 1);
    }
    let before = text[start..].chars().take(pos.col.saturating_sub(1) as usize);
    (start + before.map(char::len_utf8).sum::<usize>()).min(text.len())
}

fn elements<'a, 'i>(of: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    of.children().filter(Node::is_element)
}

/// The `<name` of an element: all of it may be megabytes.
fn tag_span(node: Node<'_, '_>) -> std::ops::Range<usize> {
    let start = node.range().start;
    start..start + 1 + node.tag_name().name().len()
}

/// A word of the file in a message.
fn shown(word: &str) -> String {
    word.chars().filter(|c| !c.is_control()).take(40).collect()
}

fn read_keys<'a>(root: Node<'a, '_>) -> HashMap<&'a str, Key<'a>> {
    let keys = elements(root).filter(|e| e.tag_name().name() == "key");
    let key = |e: Node<'a, '_>| {
        let id = e.attribute("id")?;
        let default = elements(e).find(|d| d.tag_name().name() == "default");
        let default = default.and_then(|d| d.text()).map(|text| text.trim().into());
        let name = e.attribute("attr.name").unwrap_or(id);
        Some((id, Key { name, for_: e.attribute("for").unwrap_or("all"), default }))
    };
    keys.filter_map(key).collect()
}

struct Reader<'a, 'f> {
    keys: HashMap<&'a str, Key<'a>>,
    /// Those with a default.
    defaults: Vec<Key<'a>>,
    faults: &'f mut Faults,
    raw: RawGraph,
    /// Vertices by their ids.
    of: HashMap<&'a str, usize>,
}

impl<'a> Reader<'a, '_> {
    fn graph(&mut self, graph: Node<'a, '_>) {
        let directed = graph.attribute("edgedefault") == Some("directed");
        let named = |name: &str| {
            elements(graph).filter(|e| e.tag_name().name() == "data").find_map(|e| {
                let key = self.keys.get(e.attribute("key")?)?;
                (key.name == name).then(|| e.text().unwrap_or("").trim().to_string())
            })
        };
        // The Zoo calls a network so.
        self.raw.name = named("Network")
            .or_else(|| named("name"))
            .or_else(|| graph.attribute("id").map(str::to_string))
            .filter(|name| !name.is_empty());
        let (mut edges, mut left_out) = (Vec::new(), 0);
        for element in elements(graph) {
            match element.tag_name().name() {
                "node" => self.vertex(element),
                "edge" => edges.push(element),
                "hyperedge" => left_out += 1,
                _ => {}
            }
            if self.raw.vertices.len() > DEVICES_MAX || edges.len() > LINKS_MAX {
                let message = format!("more than {DEVICES_MAX} nodes or {LINKS_MAX} edges");
                self.faults.add(tag_span(element), message, "leave some out");
                return;
            }
        }
        if left_out > 0 {
            self.raw.notes.push(format!("{left_out} edges of more than two ends are left out"));
        }
        for edge in edges {
            self.edge(edge, directed);
        }
    }

    fn vertex(&mut self, node: Node<'a, '_>) {
        let Some(id) = node.attribute("id") else {
            self.faults.add(tag_span(node), "this node has no id", "write <node id=\"…\">");
            return;
        };
        if self.of.insert(id, self.raw.vertices.len()).is_some() {
            let message = format!("there are two nodes with the id {}", quote(id));
            self.faults.add(tag_span(node), message, "give each node its own id");
            return;
        }
        if elements(node).any(|e| e.tag_name().name() == "graph") {
            self.raw.notes.push(format!("the graph inside of node {} is left out", quote(id)));
        }
        let attributes = self.attributes(node);
        self.raw.vertices.push(RawVertex { id: id.to_string(), attributes });
    }

    fn edge(&mut self, edge: Node<'a, '_>, directed: bool) {
        let mut ends = [0; 2];
        for (end, name) in ends.iter_mut().zip(["source", "target"]) {
            let Some(id) = edge.attribute_node(name) else {
                let message = format!("this edge has no {name}");
                self.faults.add(tag_span(edge), message, "name a node's id at both ends");
                return;
            };
            match self.of.get(id.value()) {
                Some(vertex) => *end = *vertex,
                None => {
                    let message = format!("no node has the id {}", quote(id.value()));
                    let help = "name the id of a <node> of this graph";
                    self.faults.add(id.range_value(), message, help);
                    return;
                }
            }
        }
        let directed = match edge.attribute("directed") {
            Some(word) => word == "true",
            None => directed,
        };
        let attributes = self.attributes(edge);
        self.raw.edges.push(RawEdge { ends, directed, attributes, span: tag_span(edge) });
    }

    /// The data of a node or edge, and the defaults of what it does not say.
    fn attributes(&mut self, of: Node<'a, '_>) -> Attributes {
        let mut attributes = Vec::new();
        for data in elements(of).filter(|e| e.tag_name().name() == "data") {
            let id = data.attribute("key").unwrap_or("");
            let Some(key) = self.keys.get(id) else {
                let message = format!("no <key> has the id {}", quote(id));
                let help = "say what this data is: <key id=\"…\" attr.name=\"…\" …/>";
                self.faults.add(tag_span(data), message, help);
                continue;
            };
            let Some(name) = facts::known(key.name) else { continue };
            let text = data.first_child().filter(Node::is_text);
            let span = text.map_or(tag_span(data), |t| t.range());
            let value = text.and_then(|t| t.text()).unwrap_or("").trim().into();
            attributes.push(Attribute { name, value, span });
        }
        for name in facts::READ {
            let meant =
                |k: &&Key<'_>| k.name == name && [of.tag_name().name(), "all"].contains(&k.for_);
            let value = self.defaults.iter().filter(meant).find_map(|k| k.default.as_ref());
            if let (Some(value), None) = (value, attributes.iter().find(|a| a.name == name)) {
                attributes.push(Attribute { name, value: value.clone(), span: tag_span(of) });
            }
        }
        Rc::new(attributes)
    }
}
