//! Reads JSON in the node-link form: `nodes` with an `id` each, `links` (or `edges`, as newer
//! versions of networkx call them) with `source` and `target`.

use std::collections::HashMap;
use std::rc::Rc;

use plexus_config::error::{Span, quote};
use plexus_topo::{DEVICES_MAX, LINKS_MAX};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::facts;
use super::{Attribute, Attributes, Faults, RawEdge, RawGraph, RawVertex};

const HELP: &str = "write {\"nodes\": [{\"id\": \"a\"}, …], \"links\": [{\"source\": \"a\", \
                    \"target\": \"b\"}, …]}";

#[derive(Deserialize)]
struct NodeLink<'a> {
    #[serde(default)]
    directed: bool,
    #[serde(borrow)]
    graph: Option<&'a RawValue>,
    #[serde(borrow)]
    nodes: Vec<&'a RawValue>,
    #[serde(borrow)]
    links: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    edges: Option<Vec<&'a RawValue>>,
}

type Object = serde_json::Map<String, Value>;

pub(super) fn read(text: &str, faults: &mut Faults) -> Option<RawGraph> {
    let found: NodeLink<'_> = match serde_json::from_str(text) {
        Ok(found) => found,
        Err(error) => {
            let at = offset(text, &error);
            let why = error.to_string();
            let why = why.split(" at line ").next().unwrap_or_default();
            faults.add(at..at, format!("this is no graph in JSON: {why}"), HELP);
            return None;
        }
    };
    let links = found.links.or(found.edges);
    let Some(links) = links else {
        faults.add(0..1, "there are neither \"links\" nor \"edges\"", HELP);
        return None;
    };
    if found.nodes.len() > DEVICES_MAX || links.len() > LINKS_MAX {
        let message = format!("more than {DEVICES_MAX} nodes or {LINKS_MAX} links");
        faults.add(0..1, message, "leave some out");
        return None;
    }
    let mut raw = RawGraph { name: found.graph.and_then(graph_name), ..RawGraph::default() };
    let mut of = HashMap::new();
    for node in found.nodes {
        let span = span_of(text, node);
        let Some(object) = object(node, &span, faults) else { continue };
        let Some(id) = object.get("id") else {
            faults.add(span, "this node has no \"id\"", HELP);
            continue;
        };
        if of.insert(key(id), raw.vertices.len()).is_some() {
            let message = format!("there are two nodes with the id {}", quote(&key(id)));
            faults.add(span, message, "give each node its own id");
            continue;
        }
        let attributes = attributes(&object, &span);
        raw.vertices.push(RawVertex { id: key(id), attributes });
    }
    for link in links {
        let span = span_of(text, link);
        let Some(object) = object(link, &span, faults) else { continue };
        let mut ends = [None; 2];
        for (end, name) in ends.iter_mut().zip(["source", "target"]) {
            let Some(id) = object.get(name) else {
                faults.add(span.clone(), format!("this link has no \"{name}\""), HELP);
                continue;
            };
            *end = of.get(&key(id)).copied();
            if end.is_none() {
                let message = format!("no node has the id {}", quote(&key(id)));
                faults.add(span.clone(), message, "name the \"id\" of one of \"nodes\"");
            }
        }
        if let [Some(a), Some(b)] = ends {
            let (directed, attributes) = (found.directed, attributes(&object, &span));
            raw.edges.push(RawEdge { ends: [a, b], directed, attributes, span });
        }
    }
    Some(raw)
}

/// The byte of an error; its column counts bytes.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let start: usize = lines.map(str::len).sum();
    (start + error.column().saturating_sub(1)).min(text.len())
}

/// Where a value stands in the text that it was borrowed from.
fn span_of(text: &str, value: &RawValue) -> Span {
    let start = value.get().as_ptr() as usize - text.as_ptr() as usize;
    start..start + value.get().len()
}

fn graph_name(graph: &RawValue) -> Option<String> {
    let graph: Object = serde_json::from_str(graph.get()).ok()?;
    let name = graph.get("name")?.as_str()?;
    (!name.is_empty()).then(|| name.to_string())
}

fn object(value: &RawValue, span: &Span, faults: &mut Faults) -> Option<Object> {
    let object = serde_json::from_str(value.get());
    if object.is_err() {
        faults.add(span.clone(), "this is no object in { }, or nests too deep", HELP);
    }
    object.ok()
}

/// An id as text: a string as it is, anything else as JSON writes it.
fn key(id: &Value) -> String {
    match id {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn attributes(object: &Object, span: &Span) -> Attributes {
    let read = facts::READ.into_iter().filter_map(|name| {
        let value = object.get(name).filter(|value| !value.is_null())?;
        Some(Attribute { name, value: key(value).into(), span: span.clone() })
    });
    Rc::new(read.collect())
}
