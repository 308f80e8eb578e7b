//! Reads a topology definition.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use plexus_config::error::{Span, quote};
use plexus_config::name::check_port_name;
use plexus_config::parse_interface_address;
use plexus_topo::{DEVICES_MAX, LINKS_MAX};

use super::super::command::{self, Command};
use super::super::left_out::{LeftOut, shorten};
use super::super::tree::{self, Entry, Tree};
use super::super::{Attribute, Faults, RawEdge, RawGraph, RawVertex, facts};
use super::{ADDRESS_LABEL, KIND_LABEL};

const HELP: &str = "write name: and topology: with nodes: and links:, as containerlab.dev has it; \
                    of a template, give what containerlab renders of it";
/// Lines of `exec` that are read, counted once for each node that has them.
const LINES_MAX: usize = 1 << 20;
/// First parts of an endpoint that are no nodes but kinds of links, and links of one end.
const NO_NODES: [&str; 3] = ["host", "mgmt-net", "macvlan"];
const ONE_END: [&str; 6] = ["host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy"];

pub(in super::super) fn read(text: &str, faults: &mut Faults) -> Option<RawGraph> {
    let root = tree::read(text, HELP, faults)?;
    let Some(topology) = root.get("topology") else {
        faults.add(root.span.clone(), "there is no \"topology\"", HELP);
        return None;
    };
    let nodes = map(topology, "nodes", faults);
    let links = topology.get("links").map_or(&[][..], Tree::items);
    if nodes.len() > DEVICES_MAX || links.len() > LINKS_MAX {
        let message = format!("more than {DEVICES_MAX} nodes or {LINKS_MAX} links");
        faults.add(topology.span.clone(), message, "leave some out");
        return None;
    }
    let mut left_out = LeftOut::default();
    keys_but(&root, &["name", "topology"], "the file", &mut left_out);
    let known = ["nodes", "links", "kinds", "groups", "defaults"];
    keys_but(topology, &known, "topology", &mut left_out);
    let shared = Shared {
        kinds: named(topology, "kinds", &mut left_out, faults),
        groups: named(topology, "groups", &mut left_out, faults),
        defaults: (topology.get("defaults"))
            .map(|tree| Settings::read(tree, &mut left_out))
            .unwrap_or_default(),
    };
    let boxes = nodes.iter().map(|entry| {
        let own = Settings::read(&entry.value, &mut left_out);
        Container { name: &entry.key, span: entry.span.clone(), layers: shared.layers(own) }
    });
    let boxes: Vec<_> = boxes.collect();
    let mut reader = Links {
        index: boxes.iter().enumerate().map(|(i, b)| (b.name, i)).collect(),
        taken: HashSet::new(),
        ends: boxes.iter().map(|_| Ends::default()).collect(),
        edges: Vec::new(),
        without_mtu: 0,
        left_out: &mut left_out,
        faults,
    };
    for (number, link) in (1..).zip(links) {
        reader.read(number, link);
    }
    let Links { ends, edges, without_mtu, .. } = reader;
    if without_mtu > 0 {
        left_out.tell(format!(
            "links without mtu have 1500 bytes, not the 9500 of containerlab ({without_mtu})"
        ));
    }
    let mut raw = graph(&boxes, &ends, edges, &mut left_out, faults)?;
    raw.name = root.text_of("name").map(str::to_string);
    raw.notes.extend(left_out.notes());
    Some(raw)
}

/// The graph of all nodes but controllers, with notes of what was guessed.
fn graph(
    boxes: &[Container<'_>],
    ends: &[Ends<'_>],
    edges: Vec<RawEdge>,
    left_out: &mut LeftOut,
    faults: &mut Faults,
) -> Option<RawGraph> {
    let mut raw = RawGraph::default();
    let mut of = vec![None; boxes.len()];
    let (mut guessed, mut lines) = (BTreeMap::new(), 0);
    for (i, (container, ends)) in boxes.iter().zip(ends).enumerate() {
        let Some(role) = container.role(ends.count, &mut guessed, faults) else {
            left_out.tell(format!("controller {} is left out", container.name));
            continue;
        };
        lines += container.layers.iter().map(|s| s.exec.len()).sum::<usize>();
        if lines > LINES_MAX {
            let message = format!("more than {LINES_MAX} lines of exec");
            faults.add(container.span.clone(), message, "leave them out of groups and kinds");
            return None;
        }
        let mut attributes = container.attributes(role, ends, left_out, faults);
        attributes.push(attribute(facts::KIND, role, &container.span));
        attributes.push(attribute(facts::NAME, container.name, &container.span));
        of[i] = Some(raw.vertices.len());
        raw.vertices
            .push(RawVertex { id: container.name.to_string(), attributes: attributes.into() });
    }
    for mut edge in edges {
        if let [Some(a), Some(b)] = edge.ends.map(|i| of[i]) {
            edge.ends = [a, b];
            raw.edges.push(edge);
        }
    }
    let told = guessed.into_iter().map(|((kind, role), count)| match role {
        "host" => format!("{count} of kind {} with at most one link: now hosts", quote(kind)),
        _ => format!("{count} of kind {}: now {role}s", quote(kind)),
    });
    raw.notes = shorten(told.collect());
    Some(raw)
}

/// The entries of a key's map; a key without value has none.
fn map<'t>(tree: &'t Tree, key: &str, faults: &mut Faults) -> &'t [Entry] {
    let Some(found) = tree.get(key).filter(|t| !t.is_null()) else { return &[] };
    if !found.is_map() {
        faults.add(found.span.clone(), format!("{} is no map", quote(key)), HELP);
    }
    found.entries()
}

/// The settings of each kind, or of each group.
fn named<'t>(
    topology: &'t Tree,
    key: &str,
    left_out: &mut LeftOut,
    faults: &mut Faults,
) -> HashMap<&'t str, Settings<'t>> {
    let entries = map(topology, key, faults).iter();
    entries.map(|entry| (&*entry.key, Settings::read(&entry.value, left_out))).collect()
}

fn keys_but(tree: &Tree, known: &[&str], place: &'static str, left_out: &mut LeftOut) {
    let others = tree.entries().iter().filter(|e| !known.contains(&&*e.key));
    others.for_each(|e| left_out.key(place, &e.key));
}

fn attribute(name: &'static str, value: &str, span: &Span) -> Attribute {
    Attribute { name, value: value.into(), span: span.clone() }
}

/// The settings of a node, a group, a kind or the defaults that we read.
#[derive(Clone, Default)]
struct Settings<'t> {
    kind: Option<&'t str>,
    group: Option<&'t str>,
    image: Option<&'t str>,
    role: Option<&'t Tree>,
    address: Option<&'t Tree>,
    exec: &'t [Rc<Tree>],
}

impl<'t> Settings<'t> {
    fn read(tree: &'t Tree, left_out: &mut LeftOut) -> Settings<'t> {
        keys_but(tree, &["kind", "group", "exec", "labels"], "nodes", left_out);
        let labels = tree.get("labels");
        if let Some(labels) = labels {
            keys_but(labels, &[KIND_LABEL, ADDRESS_LABEL], "labels", left_out);
        }
        let label = |name| labels.and_then(|l| l.get(name));
        Settings {
            kind: tree.text_of("kind"),
            group: tree.text_of("group"),
            image: tree.text_of("image"),
            role: label(KIND_LABEL),
            address: label(ADDRESS_LABEL),
            exec: tree.get("exec").map_or(&[], Tree::items),
        }
    }
}

/// Settings that nodes inherit.
struct Shared<'t> {
    kinds: HashMap<&'t str, Settings<'t>>,
    groups: HashMap<&'t str, Settings<'t>>,
    defaults: Settings<'t>,
}

impl<'t> Shared<'t> {
    /// A node's own settings and those that it inherits, nearest first: group, kind, defaults.
    fn layers(&self, own: Settings<'t>) -> Vec<Settings<'t>> {
        let group = |name: Option<&str>| name.and_then(|name| self.groups.get(name));
        let kind = own.kind.or_else(|| group(own.group)?.kind).or(self.defaults.kind);
        let of_kind = kind.and_then(|name| self.kinds.get(name));
        let named = own.group.or_else(|| of_kind?.group).or(self.defaults.group);
        let mut layers = vec![own];
        layers.extend([group(named), of_kind, Some(&self.defaults)].into_iter().flatten().cloned());
        layers
    }
}

struct Container<'t> {
    name: &'t str,
    span: Span,
    /// Its settings, nearest first.
    layers: Vec<Settings<'t>>,
}

impl<'t> Container<'t> {
    fn first<T>(&self, of: impl Fn(&Settings<'t>) -> Option<T>) -> Option<T> {
        self.layers.iter().find_map(of)
    }

    /// The device that it is, by its label, or else by its kind and links; `None`: a controller.
    fn role(
        &self,
        links: usize,
        guessed: &mut BTreeMap<(&'t str, &'static str), usize>,
        faults: &mut Faults,
    ) -> Option<&'static str> {
        if let Some(label) = self.first(|s| s.role) {
            match label.text().unwrap_or_default() {
                "controller" => return None,
                "host" => return Some("host"),
                "bridge" => return Some("bridge"),
                "node" => {}
                other => faults.add(
                    label.span.clone(),
                    format!("{KIND_LABEL} is {}", quote(other)),
                    "write node, host, bridge or controller",
                ),
            }
            return Some("node");
        }
        let image = self.first(|s| s.image).unwrap_or_default();
        let last = image.rsplit('/').next().unwrap_or_default();
        let kind = self.first(|s| s.kind).unwrap_or_default();
        let role = match kind {
            "bridge" | "ovs-bridge" => "bridge",
            "linux" if last == "plexus" || last.starts_with("plexus:") => return Some("node"),
            "linux" if links <= 1 => "host",
            _ => "node",
        };
        if role != "bridge" {
            *guessed.entry((kind, role)).or_default() += 1;
        }
        Some(role)
    }

    /// Addresses, gateways and Ethernet address of a host; those of other devices are told.
    fn attributes(
        &self,
        role: &str,
        ends: &Ends<'t>,
        left_out: &mut LeftOut,
        faults: &mut Faults,
    ) -> Vec<Attribute> {
        let (mut addresses, mut seen) = (Vec::new(), HashSet::new());
        let mut gateways = BTreeMap::new();
        let mut place = None;
        let mut given = ends.addresses.clone();
        given.extend(self.first(|s| s.address));
        if role != "host" {
            let texts = given.drain(..).filter_map(Tree::text);
            texts.for_each(|t| left_out.tell(format!("{}: address {t} is left out", self.name)));
        }
        let mut add = |text: &'t str, span: &Span, faults: &mut Faults| {
            match parse_interface_address(text) {
                Ok(_) if seen.insert(text) => addresses.push(text),
                Ok(_) => {}
                Err(e) => faults.add(span.clone(), e.message, e.help),
            }
            place = Some(span.clone());
        };
        for tree in given {
            add(tree.text().unwrap_or_default(), &tree.span, faults);
        }
        // Containerlab runs the lines of all layers, those of the defaults first.
        for line in self.layers.iter().rev().flat_map(|s| s.exec) {
            let text = line.text().unwrap_or_default();
            match command::read(text) {
                Command::Up => continue,
                Command::Address { address, device }
                    if role == "host" && device.is_some() && device == ends.port =>
                {
                    add(address, &line.span, faults);
                    continue;
                }
                Command::Gateway(to) if role == "host" => {
                    let is_v6 = to.contains(':');
                    if let Some(other) = gateways.insert(is_v6, to) {
                        gateways.insert(is_v6, other);
                    } else {
                        continue;
                    }
                }
                _ => {}
            }
            left_out.tell(format!("{}: exec {} is left out", self.name, quote(text)));
        }
        let span = place.unwrap_or(self.span.clone());
        let gateways: Vec<&str> = gateways.into_values().collect();
        let lists = [(facts::ADDRESS, addresses), (facts::GATEWAY, gateways)];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        let mut found: Vec<_> =
            lists.map(|(name, list)| attribute(name, &list.join(" "), &span)).collect();
        if let Some((mac, text)) = ends.mac.and_then(|mac| Some((mac, mac.text()?))) {
            match role {
                "host" => found.push(attribute(facts::MAC, text, &mac.span)),
                _ => left_out.key("endpoints", "mac"),
            }
        }
        found
    }
}

/// Settings of a node's first interface in its links, and the number of its links.
#[derive(Default)]
struct Ends<'t> {
    count: usize,
    port: Option<&'t str>,
    mac: Option<&'t Tree>,
    addresses: Vec<&'t Tree>,
}

/// One end of a link.
struct Side<'t> {
    node: usize,
    port: &'t str,
    mac: Option<&'t Tree>,
    addresses: Vec<&'t Tree>,
    span: Span,
}

struct Links<'t, 'f> {
    index: HashMap<&'t str, usize>,
    taken: HashSet<(usize, &'t str)>,
    ends: Vec<Ends<'t>>,
    edges: Vec<RawEdge>,
    without_mtu: usize,
    left_out: &'f mut LeftOut,
    faults: &'f mut Faults,
}

impl<'t> Links<'t, '_> {
    fn read(&mut self, number: usize, link: &'t Tree) {
        let of_type = link.text_of("type").unwrap_or("veth");
        let given = link.get("endpoints").map_or(&[][..], Tree::items);
        let outside = |end: &'t Rc<Tree>| {
            let first = end.text().and_then(|text| text.split(':').next());
            first.filter(|first| NO_NODES.contains(first))
        };
        let no_cable = given.iter().find_map(outside).or(Some(of_type));
        if let Some(kind) = no_cable.filter(|kind| ONE_END.contains(kind)) {
            self.left_out.tell(format!("link {number} of type {kind} is left out"));
            return;
        }
        let [a, b] = given else {
            let help = "write endpoints: [\"NODE:INTERFACE\", \"NODE:INTERFACE\"]";
            self.faults.add(link.span.clone(), "a link has a list of two endpoints", help);
            return;
        };
        let known = ["type", "endpoints", "mtu", "vars", "ipv4", "ipv6"];
        keys_but(link, &known, "links", self.left_out);
        let mut attributes = Vec::new();
        match link.get("mtu").and_then(|t| Some((t, t.text()?))) {
            Some((mtu, text)) => attributes.push(attribute(facts::MTU, text, &mtu.span)),
            None => self.without_mtu += 1,
        }
        for entry in link.get("vars").map_or(&[][..], Tree::entries) {
            let known = [facts::RATE, facts::DELAY, facts::LOSS];
            match (known.into_iter().find(|k| *k == &*entry.key), entry.value.text()) {
                (Some(name), Some(text)) => {
                    attributes.push(attribute(name, text, &entry.value.span));
                }
                _ => self.left_out.key("vars of links", &entry.key),
            }
        }
        let [Some(mut a), Some(mut b)] = [a, b].map(|end| self.side(end)) else { return };
        for key in ["ipv4", "ipv6"] {
            // One of each end; an empty one skips its end.
            let of_ends = link.get(key).map_or(&[][..], Tree::items);
            for (side, tree) in [&mut a, &mut b].into_iter().zip(of_ends) {
                side.addresses.extend(tree.text().map(|_| &**tree));
            }
        }
        for (name, side) in facts::PORTS.into_iter().zip([&a, &b]) {
            attributes.push(attribute(name, side.port, &side.span));
        }
        let ends = [a.node, b.node];
        for side in [a, b] {
            self.join(side);
        }
        let (attributes, span) = (Rc::new(attributes), link.span.clone());
        self.edges.push(RawEdge { ends, directed: false, attributes, span });
    }

    fn side(&mut self, end: &'t Rc<Tree>) -> Option<Side<'t>> {
        let parts = match end.text() {
            Some(text) => text.split_once(':'),
            None => end.text_of("node").zip(end.text_of("interface")),
        };
        let Some((name, port)) = parts.filter(|(_, port)| !port.is_empty()) else {
            let help = "write \"NODE:INTERFACE\", or node: and interface:";
            self.faults.add(end.span.clone(), "this endpoint names no interface of a node", help);
            return None;
        };
        let Some(&node) = self.index.get(name) else {
            let message = format!("no node is called {}", quote(name));
            self.faults.add(end.span.clone(), message, "name one of the nodes");
            return None;
        };
        if !self.taken.insert((node, port)) {
            let message = format!("{} is the end of two links", quote(&format!("{name}:{port}")));
            self.faults.add(end.span.clone(), message, "give each link its own interfaces");
        }
        if check_port_name(port).is_err() {
            let message = format!("{name}: interface {} has another name now", quote(port));
            self.left_out.tell(message);
        }
        keys_but(end, &["node", "interface", "mac", "ipv4", "ipv6"], "endpoints", self.left_out);
        let addresses = ["ipv4", "ipv6"].into_iter().filter_map(|key| end.get(key)).collect();
        let span = end.span.clone();
        Some(Side { node, port, mac: end.get("mac"), addresses, span })
    }

    /// Keeps what a link says of a node's first interface.
    fn join(&mut self, side: Side<'t>) {
        let ends = &mut self.ends[side.node];
        ends.count += 1;
        if ends.count == 1 {
            ends.port = Some(side.port);
            (ends.mac, ends.addresses) = (side.mac, side.addresses);
            return;
        }
        side.mac.iter().for_each(|_| self.left_out.key("further interfaces", "mac"));
        side.addresses.iter().for_each(|_| self.left_out.key("further interfaces", "address"));
    }
}
