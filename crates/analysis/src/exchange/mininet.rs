//! Reads Mininet's networks in JSON: those that MiniEdit saves (mininet/examples/miniedit.py), and
//! those that scripts in Python read and write, with lists or maps of `hosts` and `switches`, and a
//! list of `links` (such as topology.json of the P4 tutorials).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use plexus_config::error::{Span, quote};
use plexus_config::parse_interface_address;
use plexus_topo::{DEVICES_MAX, LINKS_MAX};

use super::command::{self, Command};
use super::left_out::LeftOut;
use super::tree::{self, Tree};
use super::{Attribute, Faults, RawEdge, RawGraph, RawVertex, facts};

const HELP: &str = "write {\"hosts\": [{\"name\": \"h1\"}, …], \"switches\": [{\"name\": \"s1\"}, \
                    …], \"links\": [{\"src\": \"h1\", \"dest\": \"s1\"}, …]}";
/// Commands of a host that are read.
const COMMANDS_MAX: usize = 64;
/// Keys of a link's ends.
const ENDS: [[&str; 2]; 5] =
    [["src", "dest"], ["src", "dst"], ["source", "target"], ["node1", "node2"], ["from", "to"]];
/// Keys of a device's options.
const OPTIONS: [&str; 3] = ["opts", "options", "params"];

pub(super) fn read(text: &str, faults: &mut Faults) -> Option<RawGraph> {
    let root = tree::read(text, HELP, faults)?;
    let lists = [("switches", "node"), ("hosts", "host"), ("nodes", "node")];
    let lists = lists.map(|(key, kind)| (root.get(key), kind));
    let links = root.get("links").map_or(&[][..], Tree::items);
    let count = |t: &Tree| t.items().len().max(t.entries().len());
    let devices: usize = lists.iter().filter_map(|(list, _)| list.map(count)).sum();
    if devices == 0 {
        let message = "there are neither \"switches\" nor \"hosts\"";
        faults.add(root.span.clone(), message, HELP);
        return None;
    }
    if devices > DEVICES_MAX || links.len() > LINKS_MAX {
        let message = format!("more than {DEVICES_MAX} devices or {LINKS_MAX} links");
        faults.add(root.span.clone(), message, "leave some out");
        return None;
    }
    let base = root.get("application").and_then(|a| a.get("ipBase")).or(root.get("ipBase"));
    let mut reader = Reader {
        base: base_of(base, faults),
        raw: RawGraph { name: root.text_of("name").map(str::to_string), ..RawGraph::default() },
        index: HashMap::new(),
        hosts: 0,
        left_out: LeftOut::default(),
        faults,
    };
    let known = ["switches", "hosts", "nodes", "links", "application", "version", "name", "ipBase"];
    for entry in root.entries().iter().filter(|e| !known.contains(&&*e.key)) {
        // Nodes switch without a controller of OpenFlow.
        reader.left_out.key("the file", &entry.key);
    }
    for (list, kind) in lists {
        let Some(list) = list else { continue };
        for item in list.items() {
            let name = item.text().or_else(|| {
                let names = ["hostname", "name", "id"].into_iter();
                names.filter_map(|key| options(item).text_of(key).or(item.text_of(key))).next()
            });
            match name {
                Some(name) => reader.device(name, item, kind),
                None => reader.faults.add(item.span.clone(), "this device has no name", HELP),
            }
        }
        for entry in list.entries() {
            reader.device(&entry.key, &entry.value, kind);
        }
    }
    links.iter().for_each(|link| reader.link(link));
    let Reader { mut raw, left_out, .. } = reader;
    raw.notes.extend(left_out.notes());
    Some(raw)
}

/// Where a device or link has its options: beneath a key, or at its own top.
fn options(tree: &Tree) -> &Tree {
    OPTIONS.into_iter().find_map(|key| tree.get(key).filter(|o| o.is_map())).unwrap_or(tree)
}

/// The network in which Mininet numbers hosts that have no address: 10.0.0.0/8 by default.
fn base_of(tree: Option<&Tree>, faults: &mut Faults) -> (u32, u8) {
    let usual = (u32::from(Ipv4Addr::new(10, 0, 0, 0)), 8);
    let Some((tree, text)) = tree.and_then(|t| Some((t, t.text()?))) else { return usual };
    let parts = text.split_once('/').and_then(|(network, len)| {
        let len = len.parse().ok().filter(|len| *len <= 32)?;
        Some((u32::from(network.parse::<Ipv4Addr>().ok()?), len))
    });
    parts.unwrap_or_else(|| {
        let message = format!("ipBase is {}", quote(text));
        faults.add(tree.span.clone(), message, "write a network, as in \"10.0.0.0/8\"");
        usual
    })
}

struct Reader<'f> {
    /// Network and prefix length of hosts without address.
    base: (u32, u8),
    raw: RawGraph,
    /// Vertices by name, with whether they are hosts.
    index: HashMap<String, (usize, bool)>,
    hosts: u32,
    left_out: LeftOut,
    faults: &'f mut Faults,
}

impl Reader<'_> {
    fn device(&mut self, name: &str, tree: &Tree, list_kind: &'static str) {
        let options = options(tree);
        let said = ["type", "kind"].into_iter().find_map(|key| options.text_of(key));
        let kind = match (said, options.text_of("switchType")) {
            (Some("host"), _) => "host",
            (_, Some("legacySwitch")) => "bridge",
            (_, Some("legacyRouter")) => {
                self.left_out
                    .tell(format!("{name} routes in MiniEdit: now a host, add forward = true"));
                "host"
            }
            _ => list_kind,
        };
        let place = (self.raw.vertices.len(), kind == "host");
        if self.index.insert(name.to_string(), place).is_some() {
            let message = format!("there are two devices called {}", quote(name));
            self.faults.add(tree.span.clone(), message, "give each its own name");
            return;
        }
        let mut attributes = vec![
            attribute(facts::KIND, kind, &tree.span),
            attribute(facts::NAME, name, &tree.span),
        ];
        if kind == "host" {
            self.host(name, options, &mut attributes);
        }
        // Names, numbers and places in the drawing, the table of options, and what Mininet writes
        // everywhere.
        let known = [
            "hostname",
            "name",
            "id",
            "type",
            "kind",
            "number",
            "nodeNum",
            "x",
            "y",
            "sched",
            "opts",
            "options",
            "params",
            "switchType",
        ];
        let of_host = ["ip", "mac", "defaultRoute", "commands"];
        let own = if std::ptr::eq(tree, options) { &[] } else { tree.entries() };
        for entry in own.iter().chain(options.entries()) {
            let is_known = known.contains(&&*entry.key)
                || (kind == "host" && of_host.contains(&&*entry.key))
                || entry.value.is_null()
                || entry.value.text() == Some("");
            if !is_known {
                let place = if kind == "host" { "hosts" } else { "switches" };
                self.left_out.key(place, &entry.key);
            }
        }
        self.raw.vertices.push(RawVertex { id: name.to_string(), attributes: attributes.into() });
    }

    fn host(&mut self, name: &str, options: &Tree, attributes: &mut Vec<Attribute>) {
        self.hosts += 1;
        let number = options.text_of("nodeNum").and_then(|n| n.parse().ok()).unwrap_or(self.hosts);
        let (network, prefix_len) = self.base;
        let given = options.get("ip").filter(|ip| ip.text().is_some_and(|text| !text.is_empty()));
        let address = match given.and_then(Tree::text) {
            Some(text) if text.contains('/') => text.to_string(),
            Some(text) => format!("{text}/{prefix_len}"),
            None => format!("{}/{prefix_len}", Ipv4Addr::from(network.saturating_add(number))),
        };
        let span = given.unwrap_or(options).span.clone();
        let mut addresses = vec![(address, span)];
        let mut gateways = Vec::new();
        if let Some((tree, text)) = options.get("defaultRoute").and_then(|t| Some((t, t.text()?))) {
            let to = text.strip_prefix("via ").unwrap_or(text);
            gateways.push((to.to_string(), tree.span.clone()));
        }
        let commands = options.get("commands").map_or(&[][..], Tree::items);
        for line in commands.iter().take(COMMANDS_MAX) {
            let text = line.text().unwrap_or_default();
            match command::read(text) {
                Command::Up => {}
                Command::Address { address, .. } => {
                    addresses.push((address.to_string(), line.span.clone()));
                }
                Command::Gateway(to) if gateways.is_empty() => {
                    gateways.push((to.to_string(), line.span.clone()));
                }
                _ => self.left_out.tell(format!("{name}: command {} is left out", quote(text))),
            }
        }
        if commands.len() > COMMANDS_MAX {
            self.left_out.tell(format!("{name}: its commands after {COMMANDS_MAX} are left out"));
        }
        for (text, span) in &addresses {
            if let Err(e) = parse_interface_address(text) {
                self.faults.add(span.clone(), e.message, e.help);
            }
        }
        for (text, span) in gateways.iter().filter(|(text, _)| !text.is_empty()) {
            if text.parse::<IpAddr>().is_err() {
                let message = format!("{} is not an IP address", quote(text));
                self.faults.add(span.clone(), message, "write it as in \"via 10.0.0.254\"");
            }
        }
        for (name, list) in [(facts::ADDRESS, addresses), (facts::GATEWAY, gateways)] {
            let Some((_, span)) = list.first() else { continue };
            let texts: Vec<_> = list.iter().map(|(text, _)| text.as_str()).collect();
            attributes.push(attribute(name, &texts.join(" "), span));
        }
        if let Some((tree, text)) = options.get("mac").and_then(|t| Some((t, t.text()?)))
            && !text.is_empty()
        {
            attributes.push(attribute(facts::MAC, text, &tree.span));
        }
    }

    fn link(&mut self, link: &Rc<Tree>) {
        let ends = match link.items() {
            [] => ENDS.into_iter().find_map(|keys| {
                let [a, b] = keys.map(|key| link.get(key));
                Some([a?, b?])
            }),
            [a, b, ..] => Some([&**a, &**b]),
            [_] => None,
        };
        let Some(ends) = ends else {
            self.faults.add(link.span.clone(), "this link has no two ends", HELP);
            return;
        };
        let options = options(link);
        let mut attributes = Vec::new();
        let mut vertices = [0; 2];
        for (i, end) in ends.into_iter().enumerate() {
            let text = end.text().unwrap_or_default();
            let Some((vertex, is_host, port)) = self.end(text) else {
                let message = format!("no device is called {}", quote(text));
                self.faults.add(end.span.clone(), message, "name a host or switch of the file");
                return;
            };
            vertices[i] = vertex;
            let number = options.text_of(["port1", "port2"][i]).filter(|n| n.len() <= 5);
            let numbered = number.map(|n| format!("{}{n}", if is_host { "eth" } else { "p" }));
            if let Some(port) = port.or(numbered) {
                attributes.push(attribute(facts::PORTS[i], &port, &end.span));
            }
        }
        // A script's list: both ends, delay, rate.
        let [delay, rate] = match link.items() {
            [_, _, more @ ..] => [more.first().map(|t| &**t), more.get(1).map(|t| &**t)],
            _ => [options.get("delay").or(options.get("latency")), options.get("bw")],
        };
        let loss = options.get("loss");
        // A list's bare number is milliseconds, `tc`'s are microseconds.
        let unit = match link.is_list() && delay.is_some_and(Tree::is_plain) {
            true => 1e6,
            false => 1e3,
        };
        self.value(delay, facts::DELAY, "a time, as in \"5ms\"", &mut attributes, |text| {
            delay_ns(text, unit).map(|ns| ns.to_string())
        });
        self.value(rate, facts::RATE, "Mbit/s, as in 10", &mut attributes, |text| {
            let rate = number(text)?;
            (rate <= 1e9).then(|| ((rate * 1e6).round() as u64).to_string())
        });
        self.value(loss, facts::LOSS, "per cent, as in 2", &mut attributes, |text| {
            number(text).map(|percent| format!("{:?}", percent / 100.0))
        });
        let known = ["bw", "delay", "latency", "loss", "port1", "port2"];
        let is_end = |key: &str| ENDS.iter().flatten().any(|end| *end == key);
        for entry in options.entries() {
            let key = &*entry.key;
            if !known.contains(&key) && !is_end(key) && !OPTIONS.contains(&key) {
                self.left_out.key("links", key);
            }
        }
        let (attributes, span) = (Rc::new(attributes), link.span.clone());
        self.raw.edges.push(RawEdge { ends: vertices, directed: false, attributes, span });
    }

    /// The vertex that an end names, and its port, as in `s1-p2`.
    fn end(&self, text: &str) -> Option<(usize, bool, Option<String>)> {
        if let Some((vertex, is_host)) = self.index.get(text) {
            return Some((*vertex, *is_host, None));
        }
        let (name, port) = text.rsplit_once('-')?;
        let (vertex, is_host) = self.index.get(name)?;
        Some((*vertex, *is_host, Some(port.to_string())))
    }

    fn value(
        &mut self,
        tree: Option<&Tree>,
        name: &'static str,
        form: &str,
        attributes: &mut Vec<Attribute>,
        read: impl Fn(&str) -> Option<String>,
    ) {
        let Some((tree, text)) = tree.and_then(|t| Some((t, t.text()?))) else { return };
        if text.is_empty() {
            return;
        }
        match read(text) {
            // None of it: as fast as it goes, at once.
            Some(value) if value == "0" => {}
            Some(value) => attributes.push(attribute(name, &value, &tree.span)),
            None => {
                let message = format!("{} cannot be read", quote(text));
                self.faults.add(tree.span.clone(), message, format!("write {form}"));
            }
        }
    }
}

fn attribute(name: &'static str, value: &str, span: &Span) -> Attribute {
    Attribute { name, value: value.into(), span: span.clone() }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)
}

/// A delay as `tc` has it (tc(8), "TIMES"), in nanoseconds; `bare` is the unit of a bare number.
fn delay_ns(text: &str, bare: f64) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits);
    let unit = match unit.trim() {
        "" => bare,
        "s" | "sec" | "secs" => 1e9,
        "ms" | "msec" | "msecs" => 1e6,
        "us" | "usec" | "usecs" => 1e3,
        "ns" => 1.0,
        _ => return None,
    };
    let ns = number(digits)? * unit;
    (ns <= 1e15).then(|| ns.round() as u64)
}
