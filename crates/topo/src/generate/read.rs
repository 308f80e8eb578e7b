//! Reads `[generate]` of a topology file: nodes, hosts and links by a shape, not one by one.
//!
//! The names are those of [`generate()`](super::generate()), so that what is written out besides
//! (links, a controller, traffic, events) can refer to them. What was generated is written back as
//! a list: a file that Plexus writes says what there is, not how it came about.

use std::time::Duration;

use plexus_config::PortSettings;
use plexus_config::document::{At, Section};
use plexus_config::error::quote;
use plexus_config::port::{read_rate, read_seed};
use plexus_config::units::parse_duration;

use super::{DEVICES_MAX, Options, RANDOM_LOW_DEGREE, RANDOM_LOW_HOSTS, Shape, generate};
use crate::model::{Device, Node, Topology};
use crate::read::{LANES_MAX, check_delay, read_node};

/// Most nodes, and most hosts, that a few words in a file make: a slip must not take hours.
const FILE_DEVICES_MAX: usize = 1 << 17;
/// Most cables between them.
const FILE_CABLES_MAX: usize = 1 << 19;
/// MTU between nodes of a fabric: a host's largest packet behind the longest header.
const FABRIC_MTU: u16 = 2000;

/// What follows a word, and which keys have a meaning for it besides those of all.
struct Form {
    word: &'static str,
    /// An example of the numbers after it.
    example: &'static str,
    keys: &'static [&'static str],
}

const FORMS: [Form; 12] = [
    Form { word: "line", example: "4", keys: &[] },
    Form { word: "ring", example: "8", keys: &[] },
    Form { word: "star", example: "6", keys: &[] },
    Form { word: "torus", example: "4x4", keys: &[] },
    Form { word: "fat-tree", example: "4", keys: &[] },
    Form { word: "butterfly", example: "4 3", keys: &["dilation", "fast"] },
    Form { word: "clos", example: "4 4", keys: &["unfolded"] },
    Form { word: "random-low", example: "1000", keys: &["degree", "seed"] },
    Form { word: "random-high", example: "4 3", keys: &["seed"] },
    Form { word: "jellyfish", example: "20 4", keys: &["seed"] },
    Form { word: "dragonfly", example: "4 2", keys: &["groups"] },
    Form { word: "two-stage", example: "4 2", keys: &[] },
];

/// What `[generate]` made.
pub(crate) struct Generated {
    /// Its nodes, hosts and links.
    pub(crate) topology: Topology,
    /// Where its hosts are, if nodes have coordinates and each has equally many hosts.
    pub(crate) grid: Option<Grid>,
}

/// Hosts in a grid: host by host of the node at 0, 0 …, then of the next; the last coordinate moves
/// fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Nodes along each dimension.
    pub(crate) sides: Vec<usize>,
    /// Hosts on each.
    pub(crate) hosts_per_node: usize,
}

/// Reads `[generate]`, if there is one; `seed` is where a random shape starts unless it says so
/// itself.
pub(crate) fn read_generate(root: &Section<'_>, seed: u64) -> Option<Generated> {
    read_section(root, &root.section("generate", "what is generated")?, seed)
}

fn read_section(root: &Section<'_>, section: &Section<'_>, seed: u64) -> Option<Generated> {
    let in_fabric = root.has("controller");
    let shape = read_shape(section, seed);
    let devices = 0..=DEVICES_MAX as u64;
    let number = |key| section.integer(key, devices.clone()).map(|n| n.value as usize);
    let (hosts, total_hosts) = (number("hosts"), number("total_hosts"));
    if let (Some(_), Some(span)) = (hosts, section.span_of("total_hosts")) {
        let help = "remove one: hosts on each node, or in all";
        section.problems().add(span, "\"hosts\" says how many hosts there are", help);
    }
    let rate = read_rate(section, "rate");
    let host_rate = read_rate(section, "host_rate").or(rate);
    let lanes = section.integer_or("lanes", 1..=LANES_MAX, 1);
    let delay = section.quantity("delay", parse_duration);
    if let Some(delay) = &delay {
        check_delay(section, delay);
    }
    let node = section.section("node", "a generated node").map(|node| {
        let (read, native) = read_node(&node, String::new());
        if let Some(span) = native.filter(|_| !in_fabric) {
            let message = "\"native\" is about cables of a fabric, and there is no controller";
            node.problems().add(span, message, "add [[controller]], or remove it");
        }
        read
    });
    let port = section.section("port", "a generated port").map(|port| PortSettings::read(&port));
    let (At { value: shape, span }, usual_hosts) = shape?;
    let options = Options {
        hosts_per_node: hosts.unwrap_or(usual_hosts),
        hosts_total: total_hosts,
        host_rate_bits_per_s: host_rate,
        link_rate_bits_per_s: rate,
        lanes,
    };
    let beyond = |(nodes, links): (usize, usize)| {
        let per_node = options.hosts_per_node.checked_mul(nodes);
        let hosts = total_hosts.or(per_node).unwrap_or(usize::MAX);
        let cables = links.saturating_mul(lanes);
        nodes > FILE_DEVICES_MAX || hosts > FILE_DEVICES_MAX || cables > FILE_CABLES_MAX
    };
    // What cannot be at all `generate` explains.
    if shape.size().is_some_and(beyond) {
        let message = format!(
            "that is more than {FILE_DEVICES_MAX} nodes or hosts, or {FILE_CABLES_MAX} cables \
             between nodes"
        );
        section.problems().add(span, message, "make it smaller");
        return None;
    }
    match generate(&shape, options) {
        Ok(mut topology) => {
            let delay = delay.map_or(Duration::ZERO, |d| d.value);
            apply_settings(&mut topology, node.as_ref(), port.as_ref(), delay, in_fabric);
            let (hosts, nodes) = (topology.hosts.len(), topology.nodes.len().max(1));
            let hosts_per_node = hosts / nodes;
            let sides = shape.sides().filter(|_| hosts_per_node > 0 && hosts % nodes == 0);
            let grid = sides.map(|sides| Grid { sides, hosts_per_node });
            Some(Generated { topology, grid })
        }
        Err(e) => {
            let help = "`plexus topo make --help` tells what each shape takes";
            section.problems().add(span, e.to_string(), help);
            None
        }
    }
}

/// Gives everything that was generated the settings of the file.
fn apply_settings(
    topology: &mut Topology,
    node: Option<&Node>,
    port: Option<&PortSettings>,
    delay: Duration,
    in_fabric: bool,
) {
    for made in &mut topology.nodes {
        if let Some(settings) = port {
            made.ports.iter_mut().for_each(|port| port.settings = settings.clone());
        }
        if let Some(node) = node {
            let name = std::mem::take(&mut made.name);
            *made = Node { name, ports: std::mem::take(&mut made.ports), ..node.clone() };
        }
    }
    for link in &mut topology.links {
        link.delay = delay;
        if in_fabric && link.devices().iter().all(|d| matches!(d, Device::Node(_))) {
            link.mtu = FABRIC_MTU;
        }
    }
}

/// The shape, where it stands, and the hosts on a node unless the file says otherwise.
fn read_shape(section: &Section<'_>, seed: u64) -> Option<(At<Shape>, usize)> {
    let size = 0..=u64::from(u32::MAX);
    let number = |key| section.integer(key, size.clone()).map(|n| n.value as usize);
    let (dilation, fast) = (number("dilation"), number("fast"));
    let (degree, groups) = (number("degree"), number("groups"));
    let unfolded = section.is_set("unfolded");
    let seed = read_seed(section).unwrap_or(seed);
    let At { value: text, span } = section.required_text("shape", "\"fat-tree 4\"")?;
    let mut words = text.split_whitespace();
    let word = words.next().unwrap_or_default();
    let Some(form) = FORMS.iter().find(|f| f.word == word) else {
        let known = FORMS.iter().map(|f| f.word);
        section.problems().unknown(span, "shape", word, known);
        return None;
    };
    for key in ["dilation", "fast", "unfolded", "degree", "seed", "groups"] {
        if let Some(span) = section.span_of(key).filter(|_| !form.keys.contains(&key)) {
            let message = format!("{} has no meaning for a {word}", quote(key));
            section.problems().add(span, message, "remove it");
        }
    }
    let numbers = words.flat_map(|w| w.split('x')).map(|n| n.parse().ok());
    let numbers: Option<Vec<usize>> = numbers.collect();
    let random = |nodes| Shape::Random { nodes, degree: degree.unwrap_or(RANDOM_LOW_DEGREE), seed };
    let shape = match (word, numbers.as_deref().unwrap_or_default()) {
        ("line", &[nodes]) => Shape::Line { nodes },
        ("ring", &[nodes]) => Shape::Ring { nodes },
        ("star", &[leaves]) => Shape::Star { leaves },
        ("torus", sides @ [_, ..]) => Shape::Torus { sides: sides.to_vec() },
        ("fat-tree", &[ports]) => Shape::FatTree { ports },
        ("butterfly", &[ary, flat]) => {
            let (dilation, fast) = (dilation.unwrap_or(1), fast.unwrap_or(0));
            Shape::Butterfly { ary, flat, dilation, fast }
        }
        ("clos", &[outer, middle]) if unfolded => Shape::UnfoldedClos { outer, middle },
        ("clos", &[leaves, spines]) => Shape::Clos { leaves, spines },
        ("random-low", &[nodes]) => {
            return Some((At { value: random(nodes), span }, RANDOM_LOW_HOSTS));
        }
        ("random-high", &[ary, flat]) => {
            return Some((At { value: Shape::random_high(ary, flat, seed), span }, ary));
        }
        ("jellyfish", &[nodes, degree]) => Shape::Jellyfish { nodes, degree, seed },
        ("dragonfly", &[routers, global]) => Shape::dragonfly(routers, global, groups),
        ("two-stage", &[fronts, backs]) => Shape::TwoStage { fronts, backs },
        _ => {
            let message = format!("{} is not a {word} and its size", quote(text));
            let help = format!("write it as in shape = \"{word} {}\"", form.example);
            section.problems().add(span, message, help);
            return None;
        }
    };
    let hosts = shape.usual_hosts();
    Some((At { value: shape, span }, hosts))
}
