//! Makes a topology of a graph that a file has.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use plexus_config::FileError;
use plexus_config::error::quote;
use plexus_config::name::check_port_name;
use plexus_topo::{
    BRIDGE_DEVICE, Bridge, CONTROLLER_PORT, DELAY_MAX, DEVICES_MAX, Device, End, Host, Interface,
    LANES_MAX, LINKS_MAX, Link, MTU_RANGE, Node, NodePort, Options, Topology, add_host,
};

use super::left_out::shorten;
use super::names::{Names, legal};
use super::{Attribute, Attributes, Faults, ImportOptions, Imported, RawEdge, RawGraph, facts};
use plexus_config::parse_interface_address;
use plexus_wire::MacAddr;

pub(super) fn build(
    graph: &RawGraph,
    options: &ImportOptions,
    faults: &mut Faults,
) -> Option<Imported> {
    if graph.vertices.is_empty() {
        faults.add(0..0, "the graph has no nodes", "export it again, with its nodes");
        return None;
    }
    let name = graph.name.as_deref().map(legal).filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| legal(&options.name));
    let mut builder = Builder {
        topology: Topology::new(if name.is_empty() { "imported" } else { &name }),
        notes: graph.notes.clone(),
        faults,
        devices: Vec::new(),
        ports: HashMap::new(),
    };
    builder.devices(graph);
    builder.links(graph);
    builder.tell_parts();
    builder.hosts(options);
    let Builder { topology, notes, .. } = builder;
    Some(Imported { topology, notes })
}

impl Imported {
    /// Reads the file that it would be: what is handed out is always one that is accepted, with
    /// the Ethernet addresses that it will have.
    pub(super) fn checked(self, file: &str) -> Result<Imported, FileError> {
        match Topology::parse(file, &self.topology.to_toml()) {
            Ok(topology) => Ok(Imported { topology, ..self }),
            Err(error) => {
                let first = error.problems().first();
                let message = first.map_or(String::new(), |p| p.message.clone());
                let help = first.map_or(String::new(), |p| p.help.clone());
                Err(FileError::whole(file, format!("makes no topology: {message}"), help))
            }
        }
    }
}

struct Builder<'f> {
    topology: Topology,
    notes: Vec<String>,
    faults: &'f mut Faults,
    /// Of each vertex: the device.
    devices: Vec<Device>,
    /// Of each device: the names that its ports have or will have.
    ports: HashMap<Device, Ports>,
}

/// Names of a device's ports.
#[derive(Default)]
struct Ports {
    taken: HashSet<String>,
    next: usize,
}

/// Longest list of a host's addresses, in bytes.
const LIST_LEN_MAX: usize = 4096;

fn find<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a Attribute> {
    attributes.iter().rev().find(|a| a.name == name)
}

impl Builder<'_> {
    fn devices(&mut self, graph: &RawGraph) {
        let mut names = Names::default();
        let mut told = Vec::new();
        for vertex in &graph.vertices {
            let labelled = [facts::LABEL, facts::NAME].into_iter();
            let label = labelled.filter_map(|name| find(&vertex.attributes, name));
            let label = label.map(|a| a.value.trim()).find(|label| !label.is_empty());
            // What only a number names is called after it.
            let numbered = format!("n{}", vertex.id);
            let digits = vertex.id.bytes().all(|b| b.is_ascii_digit());
            let own = if digits { numbered.as_str() } else { vertex.id.as_str() };
            let (name, note) = names.like(label.unwrap_or(own), own);
            told.extend(note);
            let kind = find(&vertex.attributes, facts::KIND).map_or("", |a| &*a.value);
            let device = match kind {
                "host" => {
                    let host = self.host(name, &vertex.attributes);
                    self.topology.hosts.push(host);
                    Device::Host(self.topology.hosts.len() - 1)
                }
                "bridge" => {
                    self.topology.bridges.push(Bridge::new(&name));
                    Device::Bridge(self.topology.bridges.len() - 1)
                }
                _ => {
                    self.topology.nodes.push(Node::new(&name, Default::default()));
                    Device::Node(self.topology.nodes.len() - 1)
                }
            };
            self.devices.push(device);
        }
        self.notes.extend(shorten(told));
    }

    fn host(&mut self, name: String, attributes: &Attributes) -> Host {
        let mut host = Host {
            name,
            addresses: Vec::new(),
            dhcp: false,
            gateways: Vec::new(),
            forwards: false,
            interfaces: Vec::new(),
            mac: Default::default(),
        };
        let long = |a: &&Attribute| a.value.len() > LIST_LEN_MAX;
        let lists = [facts::ADDRESS, facts::GATEWAY].map(|name| find(attributes, name));
        if let Some(list) = lists.iter().flatten().copied().find(long) {
            let message = format!("a list of addresses has {} bytes", list.value.len());
            self.faults.add(list.span.clone(), message, "give a host fewer addresses");
            return host;
        }
        if let Some(list) = lists[0] {
            for text in list.value.split_whitespace() {
                match parse_interface_address(text) {
                    Ok(address) => host.addresses.push(address),
                    Err(e) => self.faults.add(list.span.clone(), e.message, e.help),
                }
            }
        }
        if let Some(list) = lists[1] {
            for text in list.value.split_whitespace() {
                match text.parse() {
                    Ok(address) => host.gateways.push(address),
                    Err(_) => self.faults.add(
                        list.span.clone(),
                        format!("{} is not an IP address", quote(text)),
                        "write an address, as in \"10.0.0.254\"",
                    ),
                }
            }
        }
        if let Some(text) = find(attributes, facts::MAC) {
            match text.value.parse() {
                Ok(mac) => host.mac = mac,
                Err(_) => self.faults.add(
                    text.span.clone(),
                    format!("{} is not an Ethernet address", quote(&text.value)),
                    "write six bytes, as in \"02:00:00:00:00:01\"",
                ),
            }
        } else {
            host.mac = MacAddr::derived(&host.name, 0);
        }
        host
    }

    fn links(&mut self, graph: &RawGraph) {
        let kept = self.kept_edges(graph);
        // Names that the file gives are taken before others are made up.
        let mut given = Vec::with_capacity(kept.len());
        let mut cables_made = 0_u64;
        for edge in &kept {
            let lanes = self.lanes(edge);
            cables_made += lanes;
            if cables_made > LINKS_MAX as u64 {
                let message = format!("more than {LINKS_MAX} cables");
                self.faults.add(edge.span.clone(), message, "leave some links out");
                return;
            }
            let names = [0, 1].map(|end| {
                let name = find(&edge.attributes, facts::PORTS[end])?.value.as_ref();
                self.reserve(self.devices[edge.ends[end]], name, lanes).then_some(name)
            });
            given.push((lanes, names));
        }
        let mut rates_left_out = 0;
        for (edge, (lanes, names)) in kept.iter().zip(given) {
            let devices = edge.ends.map(|end| self.devices[end]);
            let names = [0, 1].map(|end| match names[end] {
                Some(name) => name.to_string(),
                None => self.new_name(devices[end], lanes),
            });
            let rate_bits_per_s = self.rate(edge, &mut rates_left_out);
            let (delay, mtu, loss) = (self.delay(edge), self.mtu(edge), self.loss(edge));
            let both = devices.iter().all(|d| matches!(d, Device::Node(_)));
            let mut cables = Vec::new();
            for lane in 0..lanes {
                let end = |builder: &mut Self, end: usize| {
                    let name = match lane {
                        0 => names[end].clone(),
                        _ => format!("{}-{}", names[end], lane + 1),
                    };
                    builder.new_end(devices[end], name)
                };
                cables.push([end(self, 0), end(self, 1)]);
            }
            // Only links between two nodes have lanes; other cables are links of their own.
            let groups =
                if both { vec![cables] } else { cables.into_iter().map(|c| vec![c]).collect() };
            for cables in groups {
                let [a, b] = cables[0];
                let usual = Link::new(a, b);
                self.topology.links.push(Link {
                    cables,
                    rate_bits_per_s,
                    delay: delay.unwrap_or(usual.delay),
                    mtu: mtu.unwrap_or(usual.mtu),
                    loss: loss.unwrap_or(usual.loss),
                });
            }
        }
        if rates_left_out > 0 {
            let links = counted(rates_left_out, "link");
            self.notes.push(format!("the LinkSpeedRaw of {links} is no rate and left out"));
        }
    }

    /// The edges that are links: none from a vertex to itself, and of two that lead there and back
    /// in a graph of directions only one.
    fn kept_edges<'g>(&mut self, graph: &'g RawGraph) -> Vec<&'g RawEdge> {
        let (mut kept, mut told, mut merged) = (Vec::new(), Vec::new(), 0);
        // Edges of one direction that wait for the other.
        let mut waiting: HashMap<[usize; 2], usize> = HashMap::new();
        for edge in &graph.edges {
            let [a, b] = edge.ends;
            if a == b {
                let name = self.topology.device_name(self.devices[a]);
                told.push(format!("a link of {name} with itself is left out"));
                continue;
            }
            if edge.directed {
                if let Some(count) = waiting.get_mut(&[b, a]).filter(|count| **count > 0) {
                    *count -= 1;
                    merged += 1;
                    continue;
                }
                *waiting.entry([a, b]).or_default() += 1;
            }
            kept.push(edge);
        }
        self.notes.extend(shorten(told));
        if merged > 0 {
            let pairs = counted(merged, "pair");
            self.notes.push(format!("edges there and back are one link: {pairs}"));
        }
        kept
    }

    fn lanes(&mut self, edge: &RawEdge) -> u64 {
        self.integer(edge, facts::LANES, 1..=LANES_MAX).unwrap_or(1)
    }

    /// A whole number of a range; networkx may have made a float of it.
    fn integer(
        &mut self,
        edge: &RawEdge,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        let found = find(&edge.attributes, name)?;
        let text = found.value.strip_suffix(".0").unwrap_or(&found.value);
        let value = text.parse().ok().filter(|n| range.contains(n));
        if value.is_none() {
            let message = format!("{name} is {}", quote(&found.value));
            let help = format!("write a whole number from {} to {}", range.start(), range.end());
            self.faults.add(found.span.clone(), message, help);
        }
        value
    }

    /// Our own rate must be right; the Zoo's is left out where it is none.
    fn rate(&mut self, edge: &RawEdge, left_out: &mut usize) -> Option<u64> {
        if find(&edge.attributes, facts::RATE).is_some() {
            return self.integer(edge, facts::RATE, 1..=i64::MAX as u64);
        }
        let found = find(&edge.attributes, facts::ZOO_RATE)?;
        let rate = found.value.parse::<f64>().ok();
        let rate = rate.filter(|r| (1.0..9e18).contains(r)).map(|r| r.round() as u64);
        *left_out += usize::from(rate.is_none());
        rate
    }

    fn delay(&mut self, edge: &RawEdge) -> Option<Duration> {
        let most = DELAY_MAX.as_nanos() as u64;
        self.integer(edge, facts::DELAY, 0..=most).map(Duration::from_nanos)
    }

    fn mtu(&mut self, edge: &RawEdge) -> Option<u16> {
        self.integer(edge, facts::MTU, MTU_RANGE).map(|mtu| mtu as u16)
    }

    fn loss(&mut self, edge: &RawEdge) -> Option<f64> {
        let found = find(&edge.attributes, facts::LOSS)?;
        let value = found.value.parse().ok().filter(|loss| (0.0..=1.0).contains(loss));
        if value.is_none() {
            let message = format!("loss is {}", quote(&found.value));
            self.faults.add(found.span.clone(), message, "write a probability from 0 to 1");
        }
        value
    }

    /// Takes a port's name, and those of its further lanes, if they are legal and free.
    fn reserve(&mut self, device: Device, name: &str, lanes: u64) -> bool {
        let all = lane_names(name, lanes);
        let reserved = match device {
            Device::Bridge(_) => BRIDGE_DEVICE,
            _ => CONTROLLER_PORT,
        };
        let ports = self.ports.entry(device).or_default();
        let fits =
            |n: &String| check_port_name(n).is_ok() && n != reserved && !ports.taken.contains(n);
        let free = all.iter().all(fits);
        if free {
            ports.taken.extend(all);
        }
        free
    }

    fn new_name(&mut self, device: Device, lanes: u64) -> String {
        loop {
            let ports = self.ports.entry(device).or_default();
            let name = match device {
                Device::Host(_) => format!("eth{}", ports.next),
                _ => format!("p{}", ports.next + 1),
            };
            ports.next += 1;
            if self.reserve(device, &name, lanes) {
                return name;
            }
        }
    }

    fn new_end(&mut self, device: Device, name: String) -> End {
        match device {
            Device::Node(node) => {
                let ports = &mut self.topology.nodes[node].ports;
                ports.push(NodePort::new(&name));
                End::Port { node, port: ports.len() - 1 }
            }
            Device::Bridge(bridge) => {
                let ports = &mut self.topology.bridges[bridge].ports;
                ports.push(name);
                End::Bridge { bridge, port: ports.len() - 1 }
            }
            Device::Host(host) => {
                let interfaces = &mut self.topology.hosts[host].interfaces;
                interfaces.push(Interface { name, mac: Default::default() });
                End::Host { host, interface: interfaces.len() - 1 }
            }
        }
    }

    fn tell_parts(&mut self) {
        let graph = plexus_topo::Graph::new(&self.topology);
        let mut seen = vec![false; graph.len()];
        let mut parts = 0;
        for start in 0..graph.len() {
            if std::mem::replace(&mut seen[start], true) {
                continue;
            }
            parts += 1;
            let mut stack = vec![start];
            while let Some(at) = stack.pop() {
                for edge in graph.edges(at) {
                    if !std::mem::replace(&mut seen[edge.to], true) {
                        stack.push(edge.to);
                    }
                }
            }
        }
        if parts > 1 {
            self.notes.push(format!("the graph is in {parts} parts that no link joins"));
        }
    }

    fn hosts(&mut self, options: &ImportOptions) {
        if options.hosts_per_node == 0 {
            return;
        }
        if !self.topology.hosts.is_empty() {
            let message = "there are hosts already, and more were to be added";
            self.faults.add(0..0, message, "import it without adding hosts");
            return;
        }
        let nodes = self.topology.nodes.len();
        if nodes.checked_mul(options.hosts_per_node).is_none_or(|hosts| hosts > DEVICES_MAX) {
            let message = format!("more than {DEVICES_MAX} hosts were to be added");
            self.faults.add(0..0, message, "add fewer to each node");
            return;
        }
        let mut names = Names::default();
        for device in super::facts::devices(&self.topology) {
            names.take(self.topology.device_name(device));
        }
        let mut taken = HashSet::new();
        for node in 0..nodes {
            for _ in 0..options.hosts_per_node {
                let wanted = format!("h{}", self.topology.hosts.len() + 1);
                let (name, _) = names.like(&wanted, &wanted);
                let port = self.new_name(Device::Node(node), 1);
                let end = self.new_end(Device::Node(node), port);
                add_host(&mut self.topology, &mut taken, name, &[end], Options::default());
            }
        }
    }
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn lane_names(name: &str, lanes: u64) -> Vec<String> {
    let further = (2..=lanes).map(|lane| format!("{name}-{lane}"));
    std::iter::once(name.to_string()).chain(further).collect()
}
