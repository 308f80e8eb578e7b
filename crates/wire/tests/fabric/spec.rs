//! `fabric/SPEC.md` and the source of `fabric/message` agree: kinds, names, fields in order with
//! their types, codes. Changing only one of them fails here.

use std::collections::BTreeMap;

use super::tables::{Fields, Tables, snake};
use plexus_wire::fabric::message::Body;

const SOURCES: [&str; 3] = [
    include_str!("../../src/fabric/message.rs"),
    include_str!("../../src/fabric/message/codes.rs"),
    include_str!("../../src/fabric/message/short.rs"),
];

/// The blocks of the source that begin with this macro's name, each without its outer lines.
fn blocks(name: &str) -> Vec<&'static str> {
    let start = format!("\n{name}! {{\n");
    let ends = |block: &'static str| &block[..block.find("\n}").expect("a block ends")];
    SOURCES.iter().flat_map(|source| source.split(start.as_str()).skip(1)).map(ends).collect()
}

/// Lines that are neither comments nor empty.
fn code(block: &str) -> impl Iterator<Item = &str> {
    block.lines().filter(|l| !l.trim().is_empty() && !l.trim().starts_with("//"))
}

/// The type as the document writes it.
fn in_words(type_: &str) -> String {
    let inside = |wrapper: &str| type_.strip_prefix(wrapper)?.strip_suffix('>');
    if let Some(item) = inside("Option<") {
        return in_words(item) + "?";
    }
    if let Some(item) = inside("Vec<") {
        return if item == "u8" { "bytes".into() } else { in_words(item) + "[]" };
    }
    match type_ {
        "MacAddr" => "mac",
        "IpAddr" => "ip",
        "Hops" => "hops",
        "Secret" => "secret",
        "Number" => "number",
        "Ips" => "ips",
        "Routes" => "routes",
        "[u8; 32]" => "key",
        other => other,
    }
    .to_string()
}

fn source() -> Tables {
    let mut tables = Tables::default();
    for line in blocks("bodies").into_iter().flat_map(code) {
        let (kind, name) = line.trim().trim_end_matches(',').split_once(' ').unwrap();
        tables.bodies.insert(kind.parse().unwrap(), name.to_string());
    }
    let mut structure = String::new();
    for line in blocks("structures").into_iter().flat_map(code) {
        if let Some((name, type_)) = line.trim().trim_end_matches(',').split_once(": ") {
            let fields: &mut Fields = tables.fields.get_mut(&structure).unwrap();
            fields.push((name.to_string(), in_words(type_)));
        } else if let Some((name, _)) = line.trim().split_once(" {") {
            structure = name.to_string();
            tables.fields.insert(structure.clone(), vec![]);
        }
    }
    for block in blocks("codes") {
        let (head, rest) = block.split_once(" {").unwrap();
        let name = code(head).last().unwrap().trim().split(',').next().unwrap();
        let codes: BTreeMap<u8, String> = code(rest)
            .filter_map(|line| line.trim().trim_end_matches(',').split_once(" = "))
            .map(|(name, code)| (code.parse().unwrap(), name.to_string()))
            .collect();
        tables.codes.insert(name.to_string(), codes);
    }
    tables
}

#[test]
fn the_document_lists_what_the_source_has() {
    let (document, source) = (Tables::read(), source());
    assert!(source.bodies.len() >= 20 && source.codes.len() >= 2, "{source:?}");
    assert_eq!(document.bodies, source.bodies, "kinds and names of bodies");
    for (name, fields) in &source.fields {
        assert_eq!(document.fields.get(name), Some(fields), "fields of {name}");
    }
    assert_eq!(document, source);
}

#[test]
fn the_document_lists_what_is_read() {
    let document = Tables::read();
    let known = (0..=u8::MAX).filter(|&kind| {
        let error = Body::parse(&[kind, 0, 0, 0, 0]).err();
        !error.is_some_and(|e| e.to_string().contains("bad kind"))
    });
    assert_eq!(document.bodies.keys().copied().collect::<Vec<_>>(), known.collect::<Vec<_>>());
    assert_eq!(snake("ResolveRequest"), "resolve_request");
}

#[test]
fn the_document_lists_the_steps_of_an_explanation() {
    let section = super::tables::TEXT.split("\n## 18. Explanations\n").nth(1).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let steps: Vec<(u8, String, Vec<String>)> = rows
        .filter_map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [code, name, fields, ..] = cells[..] else { return None };
            let fields = fields.split(", ").filter_map(|field| field.split(' ').next());
            // A comma within brackets begins no field.
            let fields = fields.filter(|f| !f.is_empty() && f.parse::<u8>().is_err());
            Some((code.parse().ok()?, name.into(), fields.map(String::from).collect()))
        })
        .collect();
    let known = plexus_wire::fabric::message::Step::KINDS.iter();
    let known: Vec<_> = known
        .map(|(code, name, fields)| {
            (*code, name.to_string(), fields.iter().map(|f| f.to_string()).collect())
        })
        .collect();
    assert_eq!(steps, known);
}
