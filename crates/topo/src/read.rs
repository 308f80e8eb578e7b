//! Reads a topology file.
//!
//! Devices come first, then the links (which make ports and interfaces appear), then what refers
//! to them: static stations, flows, assertions. A device or link with a problem is still entered,
//! so that what refers to it is not reported as well; the topology is handed out only when there
//! was no problem at all.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use plexus_config::document::{At, Section, read_document, read_text};
use plexus_config::error::{Span, quote};
use plexus_config::name::{check_name, check_port_name};
use plexus_config::port::{StaticMacEntry, read_mac, read_rate, read_seed};
use plexus_config::units::parse_duration;
use plexus_config::{
    Backend, FastTable, FaultSettings, FileError, InterfaceAddress, NamedSettings, PortSettings,
    PortUse, RouterSettings, SwitchSettings, read_addresses,
};
use plexus_wire::MacAddr;

use crate::bridge::{BRIDGE_DEVICE, Bridge, BridgeLinks};
use crate::fidelity::Fidelity;
use crate::flow::Known;
use crate::forwarding::Forwarding;
use crate::generate::{Generated, Grid, read_generate};
use crate::model::{Device, End, Host, Interface, Link, MTU_USUAL, Node, NodePort, Topology};
use crate::reach::Reach;
use crate::routing::RoutingDaemon;

/// Threads of a node.
const WORKERS: std::ops::RangeInclusive<u64> = 1..=256;
/// Processors of a node.
const CPU: std::ops::RangeInclusive<f64> = 0.01..=256.0;
/// Lanes of a link.
pub const LANES_MAX: u64 = 64;
/// An IPv4 host takes 576 bytes (RFC 791, 3.1), IPv6 wants 1,280 (RFC 8200, 5); 68 is the least.
pub const MTU_RANGE: std::ops::RangeInclusive<u64> = 68..=65_535;
/// A delay above this is a slip of the unit.
pub const DELAY_MAX: Duration = Duration::from_secs(60);

/// What a file is read for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To look at it, or to calculate.
    Look,
    /// To send frames through it.
    Run,
}

impl Topology {
    /// Reads a topology file from disk.
    ///
    /// # Errors
    /// When it cannot be read, or with everything that is wrong in it.
    pub fn read(path: &Path) -> Result<Topology, FileError> {
        Topology::read_seeded(path, None)
    }

    /// Reads it with another seed than the file's, if one is given: what the file leaves to chance,
    /// such as a random shape or a permutation, comes out accordingly.
    ///
    /// # Errors
    /// As [`Topology::read`].
    pub fn read_seeded(path: &Path, seed: Option<u64>) -> Result<Topology, FileError> {
        let text = read_text(path)?;
        Topology::parse_seeded(&path.display().to_string(), &text, seed)
    }

    /// Reads a topology file from its text; `file` is what messages call it.
    ///
    /// # Errors
    /// With everything that is wrong in it.
    pub fn parse(file: &str, text: &str) -> Result<Topology, FileError> {
        Topology::parse_seeded(file, text, None)
    }

    /// [`Topology::parse`] with another seed than the file's, if one is given.
    ///
    /// # Errors
    /// With everything that is wrong in it.
    pub fn parse_seeded(file: &str, text: &str, seed: Option<u64>) -> Result<Topology, FileError> {
        Topology::parse_for(Purpose::Look, file, text, seed)
    }

    /// [`Topology::read_seeded`] of a network that is to carry frames: refuses also what only harms
    /// then, such as switches in a circle.
    ///
    /// # Errors
    /// As [`Topology::read`].
    pub fn read_to_run(path: &Path, seed: Option<u64>) -> Result<Topology, FileError> {
        Topology::parse_to_run(&path.display().to_string(), &read_text(path)?, seed)
    }

    /// [`Topology::read_to_run`] from the file's text.
    ///
    /// # Errors
    /// With everything that is wrong in it.
    pub fn parse_to_run(file: &str, text: &str, seed: Option<u64>) -> Result<Topology, FileError> {
        Topology::parse_for(Purpose::Run, file, text, seed)
    }

    fn parse_for(
        purpose: Purpose,
        file: &str,
        text: &str,
        seed: Option<u64>,
    ) -> Result<Topology, FileError> {
        read_document(file, text, "a topology", |root| {
            let name = root.required_text("name", "\"my-lab\"");
            let mut topology = Topology::new(name.as_ref().map_or("", |n| n.value));
            if let Some(At { value, span }) = name {
                root.problems().note(span, check_name("topology", value));
            }
            if let Some(description) = root.text("description") {
                topology.description = description.value.to_string();
            }
            let written = read_seed(root);
            topology.seed = seed.or(written).unwrap_or(topology.seed);
            topology.fidelity = Fidelity::read(root);
            let generated = read_generate(root, topology.seed);
            let mut reader = Reader { topology, ..Reader::default() };
            let generated_at = root.span_of("generate").unwrap_or(root.span());
            let grid = generated.and_then(|made| reader.adopt(made, &generated_at));
            reader.devices(root);
            let mut spans = vec![generated_at; reader.topology.links.len()];
            reader.links(root, &mut spans);
            crate::machine::read_machines(root, &mut reader.topology, &reader.devices);
            if purpose == Purpose::Run {
                reader.topology.check_loops(root, &spans);
            }
            reader.addresses(root);
            reader.finish_nodes(root);
            crate::controller::read_lanes(root, &mut reader.topology);
            crate::controller::read_in_band(root, &mut reader.topology);
            reader.topology.check_controllers(root);
            let reach = Reach::new(&reader.topology);
            reach.check_controllers(root, &reader.topology);
            reach.check_addresses(root, &reader.topology, &reader.hosts_at);
            let known = Known { devices: &reader.devices, grid: grid.as_ref(), reach: &reach };
            crate::flow::read_traffic(root, &mut reader.topology, &known);
            reader.topology.arp = crate::arp_load::ArpLoad::read(root);
            reach.check_questions(root, &reader.topology);
            crate::event::read_events(root, &mut reader.topology, &reader.devices, &reader.ends);
            crate::flow::read_assertions(root, &mut reader.topology);
            Some(reader.topology)
        })
    }
}

/// What is known of the file so far.
#[derive(Default)]
struct Reader {
    topology: Topology,
    /// Nodes, hosts and bridges by name.
    devices: HashMap<String, Device>,
    /// Ports of nodes and bridges and interfaces of hosts by name.
    ends: HashMap<(Device, String), End>,
    /// Ends that have a cable, with their names.
    cabled: HashSet<End>,
    /// What the links of bridges have in common.
    bridge_links: BridgeLinks,
    /// Of each node: its static stations, and where its ports are declared.
    static_macs: Vec<Vec<StaticMacEntry>>,
    /// Of each node: the interfaces of its router, for what these lack.
    routers: Vec<Option<Vec<Span>>>,
    declared: Vec<(End, Span)>,
    /// Of each host: where it is written.
    hosts_at: Vec<Span>,
    /// Of each host: the address given to its first interface.
    macs: Vec<Option<At<MacAddr>>>,
    /// Of each host: where the search for a free `ethN` goes on.
    next_eth: Vec<usize>,
}

/// A node without its ports, its router and its daemons, and where it asks for `native` cables.
pub(crate) fn read_node(section: &Section<'_>, name: String) -> (Node, Option<Span>) {
    let native = section.flag("native").filter(|n| n.value);
    let node = Node {
        name,
        backend: section.choice_or("backend", &Backend::of_devices(), Backend::Auto),
        fast_table: section.choice_or("fast_table", &FastTable::NAMES, FastTable::default()),
        workers: section.integer_or("workers", WORKERS, 1),
        cpu: section.number("cpu", CPU).map(|cpu| cpu.value),
        native: native.is_some(),
        forwarding: Forwarding::read(section),
        router: None,
        named: None,
        daemons: Vec::new(),
        switch: SwitchSettings::read(section),
        ports: Vec::new(),
    };
    (node, native.map(|n| n.span))
}

/// Notes a delay that no cable has.
pub(crate) fn check_delay(section: &Section<'_>, delay: &At<Duration>) {
    if delay.value > DELAY_MAX {
        let help = "write a delay up to 60s";
        section.problems().add(delay.span.clone(), "a delay of more than a minute", help);
    }
}

impl Reader {
    /// Enters what was generated, as if the file had listed it first; returns its grid.
    fn adopt(&mut self, generated: Generated, at: &Span) -> Option<Grid> {
        let Generated { topology: made, grid } = generated;
        for (n, node) in made.nodes.iter().enumerate() {
            let device = Device::Node(n);
            self.devices.insert(node.name.clone(), device);
            for (port, named) in node.ports.iter().enumerate() {
                self.ends.insert((device, named.name.clone()), End::Port { node: n, port });
            }
            self.static_macs.push(Vec::new());
            self.routers.push(None);
        }
        for (h, host) in made.hosts.iter().enumerate() {
            let device = Device::Host(h);
            self.devices.insert(host.name.clone(), device);
            for (interface, named) in host.interfaces.iter().enumerate() {
                self.ends.insert((device, named.name.clone()), End::Host { host: h, interface });
            }
            self.hosts_at.push(at.clone());
            self.macs.push(None);
            self.next_eth.push(0);
        }
        self.cabled.extend(made.cables().flat_map(|(_, _, ends)| ends));
        let topology = &mut self.topology;
        (topology.nodes, topology.hosts, topology.links) = (made.nodes, made.hosts, made.links);
        grid
    }

    fn devices(&mut self, root: &Section<'_>) {
        let (mut native_at, mut daemons_at) = (Vec::new(), Vec::new());
        for section in root.sections("node", "a node") {
            let device = Device::Node(self.topology.nodes.len());
            let name = self.device_name(&section, "node", "\"s1\"", device);
            let (mut node, native) = read_node(&section, name);
            let (router, spans) = RouterSettings::read(&section).unzip();
            node.router = router;
            // Whose ports have which device, the lab decides.
            node.named = NamedSettings::read(&section, &[]);
            let mut daemons = None;
            node.daemons = RoutingDaemon::read(&section, &mut daemons);
            daemons_at.extend(daemons.map(|span| (self.topology.nodes.len(), span)));
            self.topology.nodes.push(node);
            native_at.extend(native);
            self.static_macs.push(StaticMacEntry::read(&section));
            self.routers.push(spans);
            for port in section.sections("port", "a port") {
                self.port(&port, device, root.has("controller"));
            }
        }
        if let Some(usual) = root.number("cpu", CPU) {
            let nodes = self.topology.nodes.iter_mut();
            nodes.for_each(|node| _ = node.cpu.get_or_insert(usual.value));
        }
        crate::controller::read_controllers(root, &mut self.topology, &self.devices);
        for (node, span) in daemons_at {
            let speaks_for_group = !self.topology.kernel_devices(node).is_empty();
            if !self.topology.nodes[node].needs_root() && !speaks_for_group {
                let message = "nothing follows the routes of this daemon";
                let help = "add [node.router] with kernel = true above it; or, on the controller's \
                            node, device = \"gw0\" to a [[controller.subnet]]";
                root.problems().add(span, message, help);
            }
        }
        for span in native_at.into_iter().filter(|_| self.topology.controllers.is_empty()) {
            let message = "\"native\" is about cables of a fabric, and there is no controller";
            root.problems().add(span, message, "add [[controller]], or remove it");
        }
        for section in root.sections("bridge", "a bridge") {
            let device = Device::Bridge(self.topology.bridges.len());
            let name = self.device_name(&section, "bridge", "\"b1\"", device);
            self.topology.bridges.push(Bridge::read(&section, name));
        }
        for section in root.sections("host", "a host") {
            let device = Device::Host(self.topology.hosts.len());
            let name = self.device_name(&section, "host", "\"h1\"", device);
            let mac = read_mac(&section, "mac");
            let addresses = read_addresses(&section);
            let gateways = read_gateways(&section, &addresses);
            let asks = section.flag("dhcp").filter(|d| d.value);
            self.topology.hosts.push(Host {
                name,
                addresses,
                dhcp: asks.is_some(),
                gateways,
                forwards: section.flag("forward").is_some_and(|at| at.value),
                interfaces: Vec::new(),
                mac: MacAddr::default(),
            });
            if let Some(at) = asks {
                self.topology.check_dhcp(&section, at.span);
            }
            self.hosts_at.push(section.near("address"));
            self.macs.push(mac);
            self.next_eth.push(0);
        }
        if self.devices.is_empty() {
            root.missing("node", "[[node]] and name = \"s1\" below");
        }
    }

    fn device_name(
        &mut self,
        section: &Section<'_>,
        what: &str,
        example: &str,
        device: Device,
    ) -> String {
        let Some(At { value, span }) = section.required_text("name", example) else {
            return String::new();
        };
        section.problems().note(span.clone(), check_name(what, value));
        let is_controller = self.topology.controllers.iter().any(|c| c.name == value);
        if is_controller || self.devices.contains_key(value) {
            let message = format!("there are two devices {}", quote(value));
            let help = "devices and controllers share their names: give each its own";
            section.problems().add(span, message, help);
        } else {
            self.devices.insert(value.to_string(), device);
        }
        value.to_string()
    }

    fn port(&mut self, section: &Section<'_>, device: Device, in_fabric: bool) {
        let role = PortUse::read(section, in_fabric);
        let settings = PortSettings::read(section);
        let faults = FaultSettings::read(section);
        let Some(At { value, span }) = section.required_text("name", "\"p1\"") else { return };
        section.problems().note(span.clone(), check_port_name(value));
        let Some(end) = self.new_port(device, value) else {
            let message = format!("there are two ports {} in this node", quote(value));
            section.problems().add(span, message, "give each port its own name");
            return;
        };
        if let End::Port { node, port } = end {
            let port = &mut self.topology.nodes[node].ports[port];
            (port.role, port.settings, port.faults) = (role, settings, faults);
        }
        self.declared.push((end, span));
    }

    /// A further port of a node; `None` if the name is taken.
    fn new_port(&mut self, device: Device, name: &str) -> Option<End> {
        let Device::Node(node) = device else { return None };
        let ports = &mut self.topology.nodes[node].ports;
        let end = End::Port { node, port: ports.len() };
        let key = (device, name.to_string());
        if self.ends.contains_key(&key) {
            return None;
        }
        self.ends.insert(key, end);
        ports.push(NodePort::new(name));
        Some(end)
    }

    /// `spans`: where each link is written.
    fn links(&mut self, root: &Section<'_>, spans: &mut Vec<Span>) {
        for section in root.sections("link", "a link") {
            let lanes = section.integer("lanes", 1..=LANES_MAX);
            let delay = section.quantity("delay", parse_duration);
            if let Some(delay) = &delay {
                check_delay(&section, delay);
            }
            let cables = self.cables(&section, lanes);
            let link = Link {
                cables,
                rate_bits_per_s: read_rate(&section, "rate"),
                delay: delay.map_or(Duration::ZERO, |d| d.value),
                mtu: section.integer_or("mtu", MTU_RANGE, MTU_USUAL),
                loss: section.number_or("loss", 0.0..=1.0, 0.0),
            };
            if !link.cables.is_empty() {
                self.topology.check_bridge_link(&section, &link, &mut self.bridge_links);
                self.topology.links.push(link);
                spans.push(section.near("ends"));
            }
        }
    }

    fn cables(&mut self, section: &Section<'_>, lanes: Option<At<u64>>) -> Vec<[End; 2]> {
        if !section.has("ends") {
            section.missing("ends", "[\"h1\", \"s1.p1\"]");
            return Vec::new();
        }
        let ends = section.texts("ends").unwrap_or_default();
        let [a, b] = ends.as_slice() else {
            let message = format!("a link has two ends, and this has {}", ends.len());
            section.problems().add(
                section.near("ends"),
                message,
                "write ends = [\"h1\", \"s1.p1\"]",
            );
            return Vec::new();
        };
        let device_a = self.device_of(section, a);
        let device_b = self.device_of(section, b);
        let (Some(a_of), Some(b_of)) = (device_a, device_b) else { return Vec::new() };
        let lanes = match (lanes, a_of, b_of) {
            (Some(lanes), a, b)
                if lanes.value > 1 && ![a, b].iter().all(|d| matches!(d, Device::Node(_))) =>
            {
                let help = "name each cable of others as a link of its own: h1.eth0, h1.eth1";
                let message = "only links between two nodes have lanes";
                section.problems().add(lanes.span, message, help);
                1
            }
            (lanes, ..) => lanes.map_or(1, |l| l.value),
        };
        if a_of == b_of {
            let message = "this link joins a device with itself";
            section.problems().add(section.near("ends"), message, "name two devices");
            return Vec::new();
        }
        let mut cables = Vec::new();
        for lane in 0..lanes {
            let end_a = self.end(section, a_of, a, lane);
            let end_b = self.end(section, b_of, b, lane);
            let (Some(end_a), Some(end_b)) = (end_a, end_b) else { return cables };
            cables.push([end_a, end_b]);
        }
        cables
    }

    /// The device that an end of a link names.
    fn device_of(&self, section: &Section<'_>, at: &At<&str>) -> Option<Device> {
        let name = at.value.split('.').next().unwrap_or("");
        let device = self.devices.get(name).copied();
        if device.is_none() {
            let span = plexus_config::document::within(at, 0, name.len());
            section.problems().unknown(span, "device", name, self.names());
        }
        device
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let nodes = self.topology.nodes.iter().map(|n| n.name.as_str());
        let bridges = self.topology.bridges.iter().map(|b| b.name.as_str());
        nodes.chain(bridges).chain(self.topology.hosts.iter().map(|h| h.name.as_str()))
    }

    /// The port or interface that an end of a link names, made to appear if need be. Lane 0 has
    /// the name in the file, further lanes have `-2`, `-3` … after it.
    fn end(
        &mut self,
        section: &Section<'_>,
        device: Device,
        at: &At<&str>,
        lane: u64,
    ) -> Option<End> {
        let problems = section.problems();
        let name = match (at.value.split_once('.'), device) {
            (Some((_, port)), _) if lane == 0 => port.to_string(),
            (Some((_, port)), _) => format!("{port}-{}", lane + 1),
            (None, Device::Host(host)) => self.next_interface(host),
            (None, Device::Node(_) | Device::Bridge(_)) => {
                let kind = if matches!(device, Device::Node(_)) { "node" } else { "bridge" };
                let message =
                    format!("{} is a {kind}, and no port of it is named", quote(at.value));
                let help = format!("write \"{}.p1\", or another name for the port", at.value);
                problems.add(at.span.clone(), message, help);
                return None;
            }
        };
        problems.note(at.span.clone(), check_port_name(&name))?;
        if matches!(device, Device::Bridge(_)) && name == BRIDGE_DEVICE {
            let message = format!("port {} is the bridge itself", quote(&name));
            problems.add(at.span.clone(), message, "give the port another name");
            return None;
        }
        let end = match self.ends.get(&(device, name.clone())) {
            Some(end) => *end,
            None => match device {
                Device::Node(_) => self.new_port(device, &name)?,
                Device::Host(host) => self.new_interface(host, &name),
                Device::Bridge(bridge) => self.new_bridge_port(bridge, &name),
            },
        };
        if !self.cabled.insert(end) {
            let message = format!("{} already has a cable", quote(&self.topology.end_name(end)));
            problems.add(at.span.clone(), message, "name another port: a port takes one cable");
            return None;
        }
        Some(end)
    }

    /// `eth0`, `eth1` … in the order of the host's links.
    fn next_interface(&mut self, host: usize) -> String {
        loop {
            let name = format!("eth{}", self.next_eth[host]);
            self.next_eth[host] += 1;
            if !self.ends.contains_key(&(Device::Host(host), name.clone())) {
                return name;
            }
        }
    }

    fn new_bridge_port(&mut self, bridge: usize, name: &str) -> End {
        let ports = &mut self.topology.bridges[bridge].ports;
        let end = End::Bridge { bridge, port: ports.len() };
        ports.push(name.to_string());
        self.ends.insert((Device::Bridge(bridge), name.to_string()), end);
        end
    }

    fn new_interface(&mut self, host: usize, name: &str) -> End {
        let interfaces = &mut self.topology.hosts[host].interfaces;
        let end = End::Host { host, interface: interfaces.len() };
        interfaces.push(Interface { name: name.to_string(), mac: MacAddr::default() });
        self.ends.insert((Device::Host(host), name.to_string()), end);
        end
    }

    /// Gives every interface an Ethernet address of its own: those in the file first, so that a
    /// derived one never takes them.
    fn addresses(&mut self, root: &Section<'_>) {
        let mut taken = HashSet::new();
        for mac in self.macs.iter().flatten() {
            if !taken.insert(mac.value) {
                let message = format!("two hosts have the address {}", mac.value);
                let help = "leave \"mac\" out to have one made from the host's name";
                root.problems().add(mac.span.clone(), message, help);
            }
        }
        for (host, given) in self.topology.hosts.iter_mut().zip(&self.macs) {
            let first = given.as_ref().map(|m| m.value);
            host.mac = first.unwrap_or_else(|| free_mac(&host.name, &mut taken));
            for (i, interface) in host.interfaces.iter_mut().enumerate() {
                interface.mac = match i {
                    0 => host.mac,
                    _ => free_mac(&format!("{}.{}", host.name, interface.name), &mut taken),
                };
            }
        }
    }

    /// Checks what needs all ports of a node to be known.
    fn finish_nodes(&mut self, root: &Section<'_>) {
        for (end, span) in self.declared.iter().filter(|(end, _)| !self.cabled.contains(end)) {
            let name = self.topology.end_name(*end);
            let message = format!("port {} has no cable", quote(&name));
            let help = format!("name it in a [[link]]: ends = [\"h1\", \"{name}\"]");
            root.problems().add(span.clone(), message, help);
        }
        for (node, entries) in self.topology.nodes.iter_mut().zip(self.static_macs.drain(..)) {
            if entries.is_empty() {
                continue;
            }
            let ports: Vec<_> = node.ports.iter().map(|p| (p.name.as_str(), &p.settings)).collect();
            node.switch.static_macs = StaticMacEntry::resolve(entries, &ports, root.problems());
        }
        for (node, spans) in self.topology.nodes.iter().zip(&self.routers) {
            if let (Some(router), Some(spans)) = (&node.router, spans) {
                let ports: Vec<&str> = node.ports.iter().map(|p| p.name.as_str()).collect();
                router.check(spans, &ports, root.problems());
                if !self.topology.controllers.is_empty() {
                    let ports = node.ports.iter().map(|p| (p.name.as_str(), p.role, &p.settings));
                    router.check_beside_fabric(spans, &ports.collect::<Vec<_>>(), root.problems());
                }
            }
        }
    }
}

/// The first derived address of a name that is free.
pub(crate) fn free_mac(name: &str, taken: &mut HashSet<MacAddr>) -> MacAddr {
    let mut derived = (0..).map(|attempt| MacAddr::derived(name, attempt));
    derived.find(|mac| taken.insert(*mac)).unwrap_or_default()
}

fn read_gateways(section: &Section<'_>, addresses: &[InterfaceAddress]) -> Vec<IpAddr> {
    let mut gateways: Vec<IpAddr> = Vec::new();
    for At { value, span } in section.texts("gateway").unwrap_or_default() {
        let Ok(gateway) = value.parse::<IpAddr>() else {
            let message = format!("{} is not an IP address", quote(value));
            section.problems().add(span, message, "write an address, as in \"10.0.0.254\"");
            continue;
        };
        if gateways.iter().any(|g| g.is_ipv4() == gateway.is_ipv4()) {
            let message = "a host has one gateway of each IP version";
            section.problems().add(span, message, "remove one");
        } else if !addresses.is_empty() && !addresses.iter().any(|a| a.reaches(gateway)) {
            let message = format!("{gateway} is in none of the host's networks");
            section.problems().add(span, message, "use an address of the host's own network");
        } else {
            gateways.push(gateway);
        }
    }
    gateways
}
