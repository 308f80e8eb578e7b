//! Graphs of other programs become topologies and come back; what is broken is named.

use std::path::Path;

use plexus_analysis::exchange::{Format, ImportOptions, Imported, export, import, svg};
use plexus_topo::{Device, Options, Shape, Topology, generate};
use proptest::prelude::*;

use crate::{carried, read, refused};

const ZOO: &str = include_str!("../graphs/islands.graphml");
const TRIANGLE: &str = include_str!("../graphs/triangle.json");
const OFFICE: &str = include_str!("../graphs/office.dot");

/// Formats that carry all that [`carried`] tells; the others have tests of their own.
const GRAPHS: [Format; 3] = [Format::GraphMl, Format::Dot, Format::Json];

fn names(topology: &Topology) -> Vec<&str> {
    topology.nodes.iter().map(|n| n.name.as_str()).collect()
}

#[test]
fn a_file_in_the_zoos_form_loads_unchanged() {
    let Imported { topology, notes } = read(Format::GraphMl, ZOO);
    assert_eq!(topology.name, "Ile-Net-backbone");
    let expected = ["Forde", "Port-St-Mary", "Port-St-Mary-2", "n3", "n4", "Skerry"];
    assert_eq!(names(&topology), expected);
    let rates: Vec<_> = topology.links.iter().map(|l| l.rate_bits_per_s).collect();
    assert_eq!(rates, [Some(2_500_000_000), Some(10_000_000_000), None, None, None]);
    let notes = notes.join("\n");
    for told in [
        "\"Førde\" is now Forde",
        "another \"Port St. Mary\" is now Port-St-Mary-2",
        "\"?\" is now n4",
        "a link of Port-St-Mary-2 with itself is left out",
        "the graph is in 2 parts",
        "the LinkSpeedRaw of 1 link is no rate and left out",
    ] {
        assert!(notes.contains(told), "{told} is not in:\n{notes}");
    }
    // The file that it becomes is one that lab and sim read.
    assert_eq!(Topology::parse("t", &topology.to_toml()), Ok(topology));
}

#[test]
fn hosts_are_added_on_each_node_when_asked_for() {
    let options = ImportOptions { name: "x".to_string(), hosts_per_node: 2 };
    let made = import(Format::GraphMl, "f", ZOO, &options).unwrap().topology;
    assert_eq!(made.hosts.len(), 12);
    assert!(made.hosts.iter().all(|h| h.addresses.len() == 2 && h.interfaces.len() == 1));
    let error = import(Format::Json, "f", TRIANGLE, &options).unwrap_err().to_string();
    assert!(error.contains("there are hosts already"), "{error}");
}

#[test]
fn json_of_networkx_loads() {
    let Imported { topology, notes } = read(Format::Json, TRIANGLE);
    assert_eq!(topology.name, "triangle");
    assert_eq!(names(&topology), ["core", "edge", "n2"]);
    assert_eq!(topology.hosts[0].addresses[0].to_string(), "10.0.0.1/24");
    assert_eq!(notes, ["edges there and back are one link: 1 pair"]);
    let [_, two_lanes, _, host] = &topology.links[..] else { panic!("{:?}", topology.links) };
    assert_eq!((two_lanes.cables.len(), two_lanes.delay.as_millis()), (2, 5));
    assert_eq!(host.devices(), [Device::Host(0), Device::Node(2)]);
}

#[test]
fn dot_with_subgraphs_chains_and_defaults_loads() {
    let Imported { topology, notes } = read(Format::Dot, OFFICE);
    assert_eq!(topology.name, "Office-2-floors");
    assert_eq!((names(&topology), topology.bridges.len()), (vec!["up", "down"], 1));
    assert_eq!(topology.hosts[0].name, "host-a");
    assert!(notes.contains(&"\"host \\\"a\\\"\" is now host-a".to_string()), "{notes:?}");
    // Two cables to a bridge are two links; up -- down stands once in a strict graph.
    let ends: Vec<_> =
        topology.links.iter().map(|l| l.cables[0].map(|end| topology.end_name(end))).collect();
    assert_eq!(ends.len(), 6);
    assert_eq!(ends[5], ["host-a.eth0", "up.p7"]);
    let rates: Vec<_> = topology.links.iter().map(|l| l.rate_bits_per_s).collect();
    assert_eq!(rates[..5], [Some(1_000_000_000); 5]);
    assert_eq!(rates[5], Some(100_000_000));
}

#[test]
fn a_comment_begins_before_it_can_end() {
    let read = read(Format::Dot, "graph { /*/ x -- y; */ a -- b }");
    assert_eq!(names(&read.topology), ["a", "b"]);
}

#[test]
fn what_is_broken_is_named_with_its_place_and_a_remedy() {
    let zoo = |from: &str, to: &str| ZOO.replacen(from, to, 1);
    let bomb = "<!DOCTYPE g [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]>\
                <graphml><graph><node id=\"&b;\"/></graph></graphml>";
    let crowded = format!("<graphml {}/>", "a=\"1\" ".repeat(600));
    let names: String = (0..300).map(|i| format!("<a xmlns:p{i}=\"u\">")).collect();
    let deep = format!("graph {}", "{".repeat(100_000));
    let nested = format!("{{\"nodes\": [{}", "[".repeat(100_000));
    let mut wrong = Vec::new();
    for (format, text, place, told) in [
        (Format::GraphMl, "no XML at all", "f:1:1: this is not XML", "export the graph"),
        (Format::GraphMl, "", "f:1:1: ", "export the graph"),
        (Format::GraphMl, "<svg/>", "f:1:1: this is <svg>", "<graphml>"),
        (Format::GraphMl, "<graphml/>", "f:1:1: there is no <graph>", ""),
        (Format::GraphMl, "<graphml><graph/></graphml>", "f:1:1: the graph has no nodes", ""),
        (Format::GraphMl, &ZOO[..ZOO.len() / 2], "f:21:14: the file ends", "export the graph"),
        (Format::GraphMl, &names, "f:1:4502: the file declares hundreds of namespaces", ""),
        (Format::GraphMl, bomb, "f:1:1: a document type is not read", "remove <!DOCTYPE"),
        (Format::GraphMl, &crowded, "f:1:1: this tag has hundreds", ""),
        (
            Format::GraphMl,
            &zoo("source=\"4\" target=\"5\"", "source=\"4\" target=\"99\""),
            "f:75:30: no node has the id \"99\"",
            "a <node> of this graph",
        ),
        (Format::GraphMl, &zoo("<node id=\"1\">", "<node id=\"0\">"), "f:33:5: there are two", ""),
        (Format::GraphMl, &zoo("key=\"d26\"", "key=\"d99\""), "f:46:7: no <key> has the id", ""),
        (
            Format::Json,
            &TRIANGLE.replace("\"lanes\": 2", "\"lanes\": 1000000000"),
            "f:6:12: lanes is \"1000000000\"",
            "from 1 to 64",
        ),
        (Format::Json, "{\"nodes\": [], \"links\": [}", "f:1:25: this is no graph in JSON", ""),
        (Format::Json, "{\"nodes\": []}", "f:1:1: there are neither", "\"links\""),
        (Format::Json, &nested, "f:1:", "this is no graph in JSON"),
        (
            Format::Json,
            "{\"nodes\": [{\"id\": 1}],\n\"links\": [{\"source\": 1, \"target\": \"1.5\"}]}",
            "f:2:11: no node has the id \"1.5\"",
            "",
        ),
        (Format::Dot, "graph g { a -> b }", "f:1:13: \"->\" stands in digraphs", "write \"--\""),
        (Format::Dot, "graph g { a -- ", "f:1:16: the file ends", ""),
        (
            Format::Dot,
            "graph { subgraph x -- b }",
            "f:1:20: this is \"--\", and a subgraph",
            "graph NAME",
        ),
        (Format::Dot, "a -- b", "f:1:1: this is \"a\"", "graph NAME"),
        (Format::Dot, &deep, "f:1:72: subgraphs nest too deep", ""),
        (
            Format::Dot,
            "graph { a [kind=host, address=\"10.0.0.0/24\"] }",
            "f:1:31: \"10.0.0.0/24\" is the address of the network",
            "",
        ),
        (Format::Dot, "graph { a -- b [loss=2] }", "f:1:22: loss is \"2\"", "from 0 to 1"),
    ] {
        let found = refused(format, text);
        let sound = found.starts_with(place) && found.contains(told) && found.contains("help: ");
        if !sound {
            wrong.push(format!("wanted {place} … {told}, found\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_file_that_nests_without_end_needs_no_stack() {
    let deep = "<a>".repeat(1_000_000);
    assert!(refused(Format::GraphMl, &format!("<graphml>{deep}")).contains("help: "));
    let closed = format!("<graphml>{deep}{}</graphml>", "</a>".repeat(1_000_000));
    assert!(refused(Format::GraphMl, &closed).contains("there is no <graph>"));
}

fn any_topology() -> impl Strategy<Value = Topology> {
    let shape = prop_oneof![
        (2..7_usize).prop_map(|nodes| Shape::Line { nodes }),
        (2..4_usize, 2..4_usize).prop_map(|(ary, flat)| Shape::Butterfly {
            ary,
            flat,
            dilation: 2,
            fast: 1
        }),
        (1..4_usize, 1..4_usize).prop_map(|(outer, middle)| Shape::UnfoldedClos { outer, middle }),
        (3..20_usize, 0..100_u64).prop_map(|(nodes, seed)| Shape::Random {
            nodes,
            degree: 2,
            seed
        }),
    ];
    let odd = (1..1u64 << 50, 0..60_000_000_000_u64, 68..=65_535_u16, 0.0..=1.0);
    (shape, 0..3_usize, 1..4_usize, odd).prop_map(|(shape, hosts, lanes, odd)| {
        let options = Options {
            hosts_per_node: hosts,
            lanes,
            host_rate_bits_per_s: Some(odd.0),
            link_rate_bits_per_s: Some(7_000),
            ..Options::default()
        };
        let mut made = generate(&shape, options).unwrap();
        if let Some(link) = made.links.last_mut() {
            link.delay = std::time::Duration::from_nanos(odd.1);
            (link.mtu, link.loss, link.rate_bits_per_s) = (odd.2, odd.3, None);
        }
        made
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_is_exported_comes_back(topology in any_topology()) {
        for format in GRAPHS {
            let text = export(&topology, format).unwrap().text;
            let back = read(format, &text);
            prop_assert_eq!(back.topology.name.as_str(), topology.name.as_str());
            prop_assert_eq!(carried(&back.topology), carried(&topology), "{}", text);
            prop_assert_eq!(back.topology.links.len(), topology.links.len());
            prop_assert!(back.notes.iter().all(|n| n.contains("parts")), "{:?}", back.notes);
        }
    }
}

#[test]
fn shipped_labs_come_back_too() {
    for text in
        [include_str!("../../../../labs/switch.toml"), include_str!("../../../../labs/ring.toml")]
    {
        let topology = Topology::parse("lab", text).unwrap();
        for format in GRAPHS {
            let text = export(&topology, format).unwrap().text;
            assert_eq!(carried(&read(format, &text).topology), carried(&topology));
        }
        svg(&topology).unwrap();
    }
}

#[test]
fn a_drawing_is_sound_xml_with_every_box_host_and_link() {
    for shape in [
        Shape::FatTree { ports: 4 },
        Shape::Torus { sides: vec![4, 4] },
        Shape::UnfoldedClos { outer: 3, middle: 2 },
        Shape::Jellyfish { nodes: 20, degree: 3, seed: 1 },
    ] {
        let options = Options { hosts_per_node: 2, lanes: 2, ..Options::default() };
        let topology = generate(&shape, options).unwrap();
        let drawn = svg(&topology).unwrap();
        let document = roxmltree::Document::parse(&drawn).unwrap();
        let count = |class: &str| {
            document.descendants().filter(|e| e.attribute("class") == Some(class)).count()
        };
        let hosts = topology.hosts.len();
        let cables: usize = topology.hosts.iter().map(|h| h.interfaces.len()).sum();
        assert_eq!((count("node"), count("host")), (topology.nodes.len(), hosts), "{shape:?}");
        assert_eq!(count("cable"), cables);
        assert_eq!(count("link"), topology.links.len() - cables);
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
    }
    let large = generate(&Shape::Line { nodes: 2000 }, Options::default()).unwrap();
    assert!(svg(&large).unwrap_err().to_string().contains("export it as DOT"));
    svg(&Topology::new("empty")).unwrap();
}

/// The numbers of an attribute.
fn numbers(text: &str) -> Vec<f64> {
    let parts = text.split(|c: char| !c.is_ascii_digit() && c != '.' && c != '-');
    parts.filter(|p| !p.is_empty()).map(|p| p.parse().unwrap()).collect()
}

#[test]
fn hosts_have_names_that_lie_on_no_cable_and_within_the_drawing() {
    for file in [
        include_str!("../../../../labs/ring.toml"),
        include_str!("../../../../labs/torus-3x3.toml"),
        include_str!("../../../../labs/demo-fabric.toml"),
        include_str!("../../../../labs/eight-port.toml"),
    ] {
        let topology = Topology::parse("t.toml", file).unwrap();
        let drawn = svg(&topology).unwrap();
        let document = roxmltree::Document::parse(&drawn).unwrap();
        let size = numbers(document.root_element().attribute("viewBox").unwrap());
        let mut lines: Vec<[f64; 4]> = Vec::new();
        for e in document.descendants() {
            match e.attribute("class") {
                Some("cable") => lines.push(
                    ["x1", "y1", "x2", "y2"].map(|a| e.attribute(a).unwrap().parse().unwrap()),
                ),
                // Curves are looked at by eye.
                Some("link") if !e.attribute("d").unwrap().contains('Q') => {
                    lines.push(numbers(e.attribute("d").unwrap()).try_into().unwrap());
                }
                _ => {}
            }
        }
        let class = |e: &roxmltree::Node<'_, '_>| e.attribute("class").unwrap_or("").to_string();
        let names = document.descendants().filter(|e| class(e).starts_with("name"));
        let mut count = 0;
        for name in names {
            count += 1;
            let number = |a: &str| name.attribute(a).unwrap().parse::<f64>().unwrap();
            let turn = numbers(name.attribute("transform").unwrap())[0].to_radians();
            let length = 6.5 * name.text().unwrap().len() as f64;
            let sign = if class(&name) == "name" { 1.0 } else { -1.0 };
            for step in 0..=10 {
                let along = sign * length * f64::from(step) / 10.0;
                let (x, y) = (number("x") + along * turn.cos(), number("y") + along * turn.sin());
                assert!((0.0..size[2]).contains(&x) && (0.0..size[3]).contains(&y), "{drawn}");
                for [x1, y1, x2, y2] in &lines {
                    let (dx, dy) = (x2 - x1, y2 - y1);
                    let t = (((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy)).clamp(0.0, 1.0);
                    let distance = (x - x1 - t * dx).hypot(y - y1 - t * dy);
                    assert!(distance > 3.0, "{} on a cable: {drawn}", name.text().unwrap());
                }
            }
        }
        assert_eq!(count, topology.hosts.len());
    }
}

#[test]
fn a_files_ending_tells_its_format() {
    for (name, format) in [
        ("a.graphml", Some(Format::GraphMl)),
        ("a.GraphML", Some(Format::GraphMl)),
        ("a.xml", Some(Format::GraphMl)),
        ("b.gv", Some(Format::Dot)),
        ("b.dot", Some(Format::Dot)),
        ("c.json", Some(Format::Json)),
        ("lab.clab.yml", Some(Format::Containerlab)),
        ("lab.yaml", Some(Format::Containerlab)),
        ("net.mn", Some(Format::Mininet)),
        ("d.toml", None),
        ("gml", None),
    ] {
        assert_eq!(Format::of(Path::new(name)), format, "{name}");
    }
}
