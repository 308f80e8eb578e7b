//! Writes GraphML, DOT and JSON.

use std::fmt::Write as _;

use plexus_topo::Topology;
use serde_json::{Map, Number, Value as Json, json};

use super::facts::{self, Facts, Value};

/// The node-link form of networkx (`networkx.node_link_graph` reads it, with `edges="links"`).
pub(super) fn json(topology: &Topology) -> String {
    let object = |more: Facts, mut map: Map<String, Json>| {
        map.extend(more.into_iter().map(|(name, value)| (name.to_string(), json_value(value))));
        Json::Object(map)
    };
    let nodes = facts::devices(topology).map(|device| {
        let id = json!(topology.device_name(device));
        object(facts::of_device(topology, device), Map::from_iter([("id".to_string(), id)]))
    });
    let links = (0..topology.links.len()).map(|link| {
        let [a, b] = topology.links[link].devices().map(|d| json!(topology.device_name(d)));
        let ends = [("source".to_string(), a), ("target".to_string(), b)];
        object(facts::of_link(topology, link), Map::from_iter(ends))
    });
    let graph = json!({
        "directed": false,
        "multigraph": true,
        "graph": { "name": topology.name },
        "nodes": nodes.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
    });
    format!("{graph:#}\n")
}

fn json_value(value: Value) -> Json {
    match value {
        Value::Text(text) => Json::String(text),
        Value::Integer(n) => Json::from(n),
        Value::Number(n) => Number::from_f64(n).map_or(Json::Null, Json::Number),
    }
}

/// Graphviz draws nodes as boxes, bridges as diamonds, hosts as ellipses.
pub(super) fn dot(topology: &Topology) -> String {
    let mut out = format!("graph {} {{\n", dot_quoted(&topology.name));
    for device in facts::devices(topology) {
        let facts = facts::of_device(topology, device);
        let shape = match facts.first() {
            Some((_, Value::Text(kind))) if kind == "node" => "box",
            Some((_, Value::Text(kind))) if kind == "bridge" => "diamond",
            _ => "ellipse",
        };
        let _ = write!(out, "  {} [shape={shape}", dot_quoted(topology.device_name(device)));
        dot_facts(&mut out, facts);
    }
    for link in 0..topology.links.len() {
        let ends = topology.links[link].devices().map(|d| dot_quoted(topology.device_name(d)));
        let mut facts = facts::of_link(topology, link);
        let _ = write!(out, "  {} -- {} [", ends[0], ends[1]);
        if let Some((name, value)) = facts.pop() {
            let _ = write!(out, "{name}={}", dot_value(&value));
        }
        dot_facts(&mut out, facts);
    }
    out.push_str("}\n");
    out
}

fn dot_facts(out: &mut String, facts: Facts) {
    for (name, value) in facts {
        let _ = write!(out, ", {name}={}", dot_value(&value));
    }
    out.push_str("];\n");
}

fn dot_value(value: &Value) -> String {
    match value {
        Value::Text(text) => dot_quoted(text),
        Value::Integer(n) => n.to_string(),
        Value::Number(n) => dot_quoted(&format!("{n:?}")),
    }
}

fn dot_quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\\\""))
}

/// GraphML 1.0 with attributes (graphml.graphdrawing.org/primer, "Attributes").
pub(super) fn graphml(topology: &Topology) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n",
    );
    for (what, types) in [("node", &facts::DEVICE_TYPES[..]), ("edge", &facts::LINK_TYPES[..])] {
        for (name, kind) in types {
            let _ = writeln!(
                out,
                "  <key id=\"{name}\" for=\"{what}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>"
            );
        }
    }
    let name = xml_escaped(&topology.name);
    let _ = writeln!(out, "  <graph id=\"{name}\" edgedefault=\"undirected\">");
    for device in facts::devices(topology) {
        let name = xml_escaped(topology.device_name(device));
        let _ = writeln!(out, "    <node id=\"{name}\">");
        xml_facts(&mut out, facts::of_device(topology, device), "node");
    }
    for link in 0..topology.links.len() {
        let [a, b] = topology.links[link].devices().map(|d| xml_escaped(topology.device_name(d)));
        let _ = writeln!(out, "    <edge source=\"{a}\" target=\"{b}\">");
        xml_facts(&mut out, facts::of_link(topology, link), "edge");
    }
    out.push_str("  </graph>\n</graphml>\n");
    out
}

fn xml_facts(out: &mut String, facts: Facts, what: &str) {
    for (name, value) in facts {
        let text = match value {
            Value::Text(text) => xml_escaped(&text),
            Value::Integer(n) => n.to_string(),
            Value::Number(n) => format!("{n:?}"),
        };
        let _ = writeln!(out, "      <data key=\"{name}\">{text}</data>");
    }
    let _ = writeln!(out, "    </{what}>");
}

/// Text as it stands in an element or an attribute.
pub(super) fn xml_escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
