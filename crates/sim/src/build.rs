//! A topology file becomes devices, ports and cables of the simulator.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use plexus_config::{PortSettings, PortUse, QueueSettings, SwitchSettings};
use plexus_control::identity::{Authority, Identity, KeyPair, Role};
use plexus_io::Pool;
use plexus_reference::portland::{INTERVAL, Manager, Switch};
use plexus_reference::stp::Settings;
use plexus_topo::{
    CONTROLLER_PORT, Device, End, Fault, Fidelity, HostsByAddress, Link, MTU_USUAL, Node, Party,
    Proto, Target, Topology,
};
use plexus_wire::fabric::HEADER_LEN_MAX;
use plexus_wire::fabric::message::PortRole;
use plexus_wire::{MacAddr, udp};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::cable::{Port, PortIndex};
use crate::controller::{Lead, SimController};
use crate::core::{Core, DeviceIndex};
use crate::dhcp;
use crate::flow::{CONGESTION, Ends, SimFlow};
use crate::forward;
use crate::host::{ANNOUNCEMENTS, SimHost, ip};
use crate::named::{self, NamedEnd};
use crate::node::{Blueprint, PortSpec, SimNode};
use crate::portland::{self, PortLand, SimPortLand};
use crate::store::Etcd;

/// The rate of a link without one in the file, in bits/s. In a lab such a link is as fast as the
/// machine.
pub const RATE_USUAL: u64 = 10_000_000_000;
/// Most frames under way or waiting. A frame's memory is taken when it is first used.
const FRAMES: usize = 1 << 18;
/// Room in a frame besides what the largest MTU says: Ethernet header, tag, longest fabric header,
/// and what headers are pushed into.
const AROUND: usize = 14 + 4 + HEADER_LEN_MAX + 14 + 256;
/// The rate of ports without queues: 80,000 full frames (MTU 1,500) per nanosecond, or 1,900 of the
/// longest ones (MTU 65,535).
const RATE_WITHOUT_QUEUES: u64 = 1_000_000_000_000_000_000;
/// Between nodes and a controller: room for a control message over any path.
const CONTROLLER_MTU: u16 = 2000;

/// The least MTU of a link with IPv6 (RFC 8200, 5).
const MTU_MIN_IPV6: u16 = 1280;

/// Where a device is among those of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Node(usize),
    Host(usize),
    Controller(usize),
    PortLand(usize),
    Flow(usize),
    /// A host that is not simulated.
    Outside(usize),
}

/// All devices of a simulation.
pub(crate) struct Devices {
    /// Of each device.
    pub(crate) places: Vec<Place>,
    /// Of each port: whose it is, and which one.
    pub(crate) owners: Vec<(Place, u16)>,
    /// The topology's nodes, then its bridges.
    pub(crate) nodes: Vec<SimNode>,
    pub(crate) hosts: Vec<SimHost>,
    pub(crate) controllers: Vec<SimController>,
    /// In place of the nodes, and then of the controller.
    pub(crate) portland: Vec<SimPortLand>,
    pub(crate) flows: Vec<SimFlow>,
    /// What nodes that crash are rebuilt from.
    pub(crate) blueprints: BTreeMap<usize, Blueprint>,
    /// The port at each end that has a cable.
    pub(crate) port_of: HashMap<End, PortIndex>,
}

/// The ports of all ends, in order: nodes', bridges', hosts', controllers'.
struct Numbers {
    nodes: Vec<PortIndex>,
    bridges: Vec<PortIndex>,
    hosts: Vec<PortIndex>,
    count: PortIndex,
}

impl Numbers {
    fn new(topology: &Topology) -> Numbers {
        let mut count = 0;
        let mut take = |ports: usize| {
            let first = count;
            count += ports as PortIndex;
            first
        };
        let controlled = |n: usize| topology.controllers.iter().filter(|c| c.node == n).count();
        let nodes = topology.nodes.iter().enumerate();
        let nodes = nodes.map(|(n, node)| take(node.ports.len() + controlled(n))).collect();
        let bridges = topology.bridges.iter().map(|b| take(b.ports.len())).collect();
        // A device without a cable still has a port, which leads nowhere.
        let hosts = topology.hosts.iter().map(|h| take(h.interfaces.len().max(1))).collect();
        Numbers { nodes, bridges, hosts, count }
    }

    fn port(&self, end: End) -> PortIndex {
        let (first, offset) = match end {
            End::Port { node, port } => (self.nodes[node], port),
            End::Host { host, interface } => (self.hosts[host], interface),
            End::Bridge { bridge, port } => (self.bridges[bridge], port),
        };
        first + offset as PortIndex
    }
}

/// Refuses a file that asks for what the simulator cannot do.
///
/// # Errors
/// In words that name the key.
fn check(topology: &Topology) -> Result<(), String> {
    for (node, router) in topology.nodes.iter().filter_map(|n| Some((n, n.router.as_ref()?))) {
        let lacks = match (router.kernel, &router.routes_file) {
            (true, _) => "no kernel beside it: take kernel out",
            (false, Some(_)) => "no file of routes: write them into this one",
            (false, None) => continue,
        };
        return Err(format!(
            "node {}: a simulated router has {lacks}, or use plexus lab",
            node.name
        ));
    }
    let mut subnets = topology.controllers.iter().flat_map(|c| &c.settings.subnets);
    if let Some(device) = subnets.find_map(|subnet| subnet.device.as_ref()) {
        return Err(format!(
            "device = \"{device}\": a simulated controller has no kernel beside it: take device \
             out, or use plexus lab"
        ));
    }
    if topology.etcd_in_band {
        let text = "etcd_in_band: simulated members of etcd are not of the fabric: take it out, or \
                    use plexus lab";
        return Err(text.into());
    }
    if topology.controllers.iter().any(|c| c.settings.routes_file.is_some()) {
        return Err("the controller's file of routes was not read".into());
    }
    for bridge in &topology.bridges {
        if bridge.group_fwd_mask != 0 {
            return Err(format!(
                "bridge {}: simulated bridges forward no link-local groups: take group_fwd_mask \
                 out, or use plexus lab",
                bridge.name
            ));
        }
    }
    let boxes = topology.nodes.iter().map(|n| (&n.name, n.ports.len()));
    let mut boxes = boxes.chain(topology.bridges.iter().map(|b| (&b.name, b.ports.len())));
    // One more leads to a controller.
    let crowded = boxes.find(|(_, ports)| *ports >= usize::from(u16::MAX) - 1);
    if let Some((name, ports)) = crowded {
        return Err(format!("{name}: a box has at most {} ports, not {ports}", u16::MAX - 2));
    }
    if let Some(host) = topology.hosts.iter().find(|h| h.interfaces.len() > 1) {
        return Err(format!(
            "host {}: a simulated host has one interface, this one has {}",
            host.name,
            host.interfaces.len()
        ));
    }
    if topology.fidelity == Fidelity::Control
        && let Some(flow) = topology.traffic.first()
    {
        return Err(format!(
            "flow {}: fidelity = \"control\" has no queues, and carries control messages alone: \
             take [[traffic]] and [[pattern]] out, or simulate it with fidelity = \"full\"",
            flow.name
        ));
    }
    let mtus: HashMap<Device, u16> = (topology.links.iter())
        .flat_map(|link| link.devices().map(|device| (device, link.mtu)))
        .collect();
    named::check::check(topology)?;
    if let Some(host) = topology.hosts.iter().find(|host| host.forwards) {
        return Err(format!(
            "host {}: simulated hosts forward nothing: use plexus lab run",
            host.name
        ));
    }
    let mtu_of = |host: usize| mtus.get(&Device::Host(host)).copied().unwrap_or(MTU_USUAL);
    for (h, host) in topology.hosts.iter().enumerate() {
        let has_v6 = host.addresses.iter().any(|a| a.address.is_ipv6());
        if has_v6 && mtu_of(h) < MTU_MIN_IPV6 {
            return Err(format!(
                "host {}: IPv6 addresses need an MTU of {MTU_MIN_IPV6} (RFC 8200, 5); its link \
                 has {}",
                host.name,
                mtu_of(h)
            ));
        }
    }
    for (number, flow) in topology.traffic.iter().enumerate() {
        // The identifier of its requests is the flow's number, of 16 bits.
        if flow.proto == Proto::Icmp && number > usize::from(u16::MAX) {
            return Err(format!(
                "flow {}: it is flow {} of the file, and only the first 65,536 can be pings: put \
                 pings before other flows, or take some out",
                flow.name,
                number + 1
            ));
        }
        if flow.proto == Proto::Web {
            return Err(format!(
                "flow {}: simulated hosts have no browsers: use plexus lab run",
                flow.name
            ));
        }
        // A host has one link.
        let mtu = mtu_of(flow.from);
        // UDP's and ICMP's headers are equally long.
        let headers = ip::header_len(flow.to_address) + udp::HEADER_LEN;
        let has_size = matches!(flow.proto, Proto::Udp | Proto::Icmp);
        if has_size && headers + usize::from(flow.size) > mtu.into() {
            return Err(format!(
                "flow {}: packets of {} bytes do not fit the sender's link, and simulated hosts do \
                 not fragment",
                flow.name, flow.size
            ));
        }
        let known = |name: &String| CONGESTION.iter().any(|(known, _)| known == name);
        if let Some(name) = flow.congestion.as_ref().filter(|name| !known(name)) {
            return Err(format!(
                "flow {}: simulated hosts know the congestion controls cubic, reno and dctcp, not \
                 {name:?}",
                flow.name
            ));
        }
    }
    Ok(())
}

/// What a simulation builds in place of the file's nodes and controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// What they are.
    Plexus,
    /// The same, but hosts do not announce themselves, and each bridge has room for this many
    /// stations.
    Quiet { stations: usize },
    /// PortLand's switches and manager; hosts announce themselves or do not.
    PortLand { announce: bool },
}

/// Builds everything; nothing has happened yet.
///
/// # Errors
/// In words, when the simulator cannot do what the file asks for, or when memory is short.
pub(crate) fn build(
    topology: &Topology,
    seed: u64,
    style: Style,
) -> Result<(Core, Devices), String> {
    check(topology)?;
    let is_portland = matches!(style, Style::PortLand { .. });
    if is_portland {
        portland::check(topology)?;
    }
    let numbers = Numbers::new(topology);
    let controllers = topology.controllers.len() as PortIndex;
    let mut ports = vec![Port::new(); (numbers.count + controllers) as usize];
    if topology.fidelity == Fidelity::Control {
        ports.iter_mut().for_each(|port| port.has_queue = false);
    }
    let rate_of = |link: &Link| Some(link.rate_bits_per_s.unwrap_or(RATE_USUAL));
    for (link, _, ends) in topology.cables() {
        let link = &topology.links[link];
        let link = &Link { mtu: topology.mtu_in_use(link), ..link.clone() };
        let [a, b] = ends.map(|end| numbers.port(end));
        ports[a as usize].plug(b, link, rate_of(link));
        ports[b as usize].plug(a, link, rate_of(link));
    }
    let none = End::Host { host: 0, interface: 0 };
    for (c, controller) in topology.controllers.iter().enumerate() {
        let at = numbers.nodes[controller.node]
            + topology.nodes[controller.node].ports.len() as PortIndex;
        let own = numbers.count + c as PortIndex;
        let rate_bits_per_s = forward::controller_rate(topology, controller.node, RATE_USUAL);
        let lead = Link { mtu: CONTROLLER_MTU, rate_bits_per_s, ..Link::new(none, none) };
        ports[at as usize].plug(own, &lead, rate_of(&lead));
        ports[own as usize].plug(at, &lead, rate_of(&lead));
    }
    forward::plan(topology, &mut ports, |end| numbers.port(end) as usize);
    let mtu_max = topology.links.iter().map(|l| topology.mtu_in_use(l)).max();
    let mtu_max = mtu_max.unwrap_or(MTU_USUAL);
    let pool = Pool::new(FRAMES, usize::from(mtu_max.max(CONTROLLER_MTU)) + AROUND)
        .map_err(|e| format!("memory for {FRAMES} frames: {e}"))?;
    let mut random = Pcg64::seed_from_u64(seed);
    let mut devices = Builder {
        topology,
        numbers: &numbers,
        ports: &ports,
        neighbours: topology
            .cables()
            .flat_map(|(_, _, [a, b])| [(a, b.device()), (b, a.device())])
            .collect(),
        authority: Authority::new(random.random(), &random.random()),
        random: &mut random,
        devices: Devices {
            places: vec![],
            owners: vec![],
            nodes: vec![],
            hosts: vec![],
            controllers: vec![],
            portland: vec![],
            flows: vec![],
            blueprints: BTreeMap::new(),
            port_of: topology
                .cables()
                .flat_map(|(_, _, ends)| ends.map(|end| (end, numbers.port(end))))
                .collect(),
        },
    };
    let stations = match style {
        Style::Quiet { stations } => stations,
        _ => crate::memory::bridge_stations(topology),
    };
    match is_portland {
        false => devices.nodes(stations)?,
        true => devices.switches(),
    }
    devices.hosts(!matches!(style, Style::Quiet { .. } | Style::PortLand { announce: false }));
    match is_portland {
        false => devices.controllers()?,
        true => devices.manager(),
    }
    devices.flows();
    let devices = devices.devices;
    let mut core = Core::new(pool, ports, devices.places.len(), random);
    if devices.controllers.len() > 1 {
        let clients = devices.controllers.iter().zip(&topology.controllers);
        let clients = clients.map(|(made, named)| (made.device(), named.name.clone()));
        core.etcd = Some(Etcd::new(clients));
        for client in 0..devices.controllers.len() {
            core.with_etcd(|etcd, now, queue| etcd.begin(now, queue, client));
        }
    }
    Ok((core, devices))
}

struct Builder<'a> {
    topology: &'a Topology,
    numbers: &'a Numbers,
    ports: &'a [Port],
    /// What is at the other end of each cable.
    neighbours: HashMap<End, Device>,
    authority: Authority,
    random: &'a mut Pcg64,
    devices: Devices,
}

impl Builder<'_> {
    /// The next device, with so many ports.
    fn device(&mut self, place: Place, ports: usize) -> DeviceIndex {
        self.devices.places.push(place);
        self.devices.owners.extend((0..ports as u16).map(|port| (place, port)));
        (self.devices.places.len() - 1) as DeviceIndex
    }

    fn identity(&mut self, number: u64, name: &str, role: Role) -> Result<Arc<Identity>, String> {
        let keys = KeyPair::generate(&self.random.random());
        let refused = |e: &dyn std::fmt::Display| format!("the identity of {name}: {e}");
        let credential =
            self.authority.issue(number, name, role, &keys.public).map_err(|e| refused(&e))?;
        let identity = Identity::new(credential, keys, self.authority.public());
        identity.map(Arc::new).map_err(|e| refused(&e))
    }

    /// Nodes, and bridges with room for so many `stations`.
    fn nodes(&mut self, stations: usize) -> Result<(), String> {
        let topology = self.topology;
        let subnets = topology.controllers.iter().flat_map(|c| &c.settings.subnets);
        let beyond = topology.controllers.iter().any(|c| !c.settings.routes.is_empty());
        let routes = beyond || subnets.filter(|subnet| subnet.gateway.is_some()).count() > 1;
        for (n, node) in topology.nodes.iter().enumerate() {
            let first = self.numbers.nodes[n];
            let mut specs: Vec<PortSpec> = (first..)
                .zip(&node.ports)
                .map(|(index, port)| self.spec(index, &port.name, port.settings.clone(), port.role))
                .collect();
            for _ in topology.controllers.iter().filter(|c| c.node == n) {
                let index = first + specs.len() as PortIndex;
                let settings = PortSettings::default();
                specs.push(self.spec(index, CONTROLLER_PORT, settings, PortUse::Auto));
            }
            for (port, spec) in specs.iter_mut().enumerate() {
                spec.expected = self.expected(End::Port { node: n, port });
            }
            let place = Place::Node(self.devices.nodes.len());
            let device = self.device(place, specs.len());
            let identity = match topology.is_fabric_node(n) {
                true => Some(self.identity(n as u64 + 1, &node.name, Role::Node)?),
                false => None,
            };
            let fabric = identity.map(|identity| (identity, topology.lanes));
            let (node, tree) = (node.clone(), None);
            let made = Blueprint { device, first, specs, node, fabric, routes, tree };
            self.node(made, Device::Node(n))
                .map_err(|e| format!("node {}: {e}", topology.nodes[n].name))?;
        }
        for (b, bridge) in topology.bridges.iter().enumerate() {
            let first = self.numbers.bridges[b];
            let settings = PortSettings::default();
            let specs = (first..).zip(&bridge.ports);
            let specs = specs.map(|(i, p)| self.spec(i, p, settings.clone(), PortUse::Auto));
            let specs: Vec<PortSpec> = specs.collect();
            let device = self.device(Place::Node(self.devices.nodes.len()), specs.len());
            let usual = SwitchSettings::default();
            let switch = SwitchSettings { mac_table: stations, ..usual };
            let tree = bridge.stp.then(|| self.tree_settings(b));
            let node = Node::new(&bridge.name, switch);
            let made = Blueprint { device, first, specs, node, fabric: None, routes: false, tree };
            self.node(made, Device::Bridge(b))
                .map_err(|e| format!("bridge {}: {e}", bridge.name))?;
        }
        Ok(())
    }

    /// Bridges' addresses are random and distinct, as those of bought devices. With addresses in
    /// order, the roots that `stp` elects on the way would be in order too.
    fn tree_settings(&mut self, bridge: usize) -> Settings {
        let [a, b, c] = self.random.random();
        let [.., d, e] = (bridge as u32).to_be_bytes();
        let made = &self.topology.bridges[bridge];
        Settings {
            priority: made.priority,
            address: MacAddr([0x02, a, b, c, d, e]),
            forward_delay: made.forward_delay,
        }
    }

    /// The next node or bridge.
    fn node(&mut self, blueprint: Blueprint, device: Device) -> Result<(), String> {
        let own = Party::Device(device);
        let of_it = |fault: &Fault| matches!(fault, Fault::Crash { party, .. } if *party == own);
        if self.topology.events.iter().any(|e| of_it(&e.fault)) {
            self.devices.blueprints.insert(self.devices.nodes.len(), blueprint.clone());
        }
        let seed = self.random.random();
        self.devices.nodes.push(SimNode::new(blueprint, seed)?);
        Ok(())
    }

    /// A box's port. It sends at the rate of its cable, unless the simulation has no queues.
    fn spec(
        &self,
        index: PortIndex,
        name: &str,
        mut settings: PortSettings,
        role: PortUse,
    ) -> PortSpec {
        let port = &self.ports[index as usize];
        let cable = port.rate_bits_per_s;
        let rate_bits_per_s = settings.rate_bits_per_s.into_iter().chain(cable).min();
        settings.rate_bits_per_s = rate_bits_per_s;
        if !port.has_queue {
            settings.rate_bits_per_s = Some(RATE_WITHOUT_QUEUES);
            settings.queue =
                QueueSettings { packets: u32::MAX, bytes: u32::MAX, ..QueueSettings::default() };
        }
        let (name, mtu) = (name.into(), port.mtu);
        PortSpec { name, settings, rate_bits_per_s, role, mtu, expected: None }
    }

    /// What a node is to find at a port. The controller is at the port behind those of the file.
    fn expected(&self, own: End) -> Option<PortRole> {
        match self.neighbours.get(&own) {
            None => Some(PortRole::Controller),
            Some(Device::Node(_)) => Some(PortRole::Fabric),
            Some(Device::Host(_)) => Some(PortRole::Host),
            Some(Device::Bridge(_)) => None,
        }
    }

    /// PortLand's switches in place of the nodes.
    fn switches(&mut self) {
        let topology = self.topology;
        for (n, node) in topology.nodes.iter().enumerate() {
            // The manager's port is behind the others.
            let led = topology.controllers.iter().filter(|c| c.node == n).count();
            let ports = node.ports.len() + led;
            let device = self.device(Place::PortLand(n), ports);
            let [.., a, b, c] = (n as u32).to_be_bytes();
            let id = MacAddr([0x02, 0x0E, 0, a, b, c]);
            let seed = self.random.random();
            let switch = PortLand::Switch(Switch::new(id, ports as u16, INTERVAL, seed));
            let first = self.numbers.nodes[n];
            self.devices.portland.push(SimPortLand::new(device, first, ports, switch));
        }
    }

    /// PortLand's manager in place of the controller.
    fn manager(&mut self) {
        let device = self.device(Place::PortLand(self.devices.portland.len()), 1);
        let manager = PortLand::Manager(Manager::new(INTERVAL));
        let made = SimPortLand::new(device, self.numbers.count, 1, manager);
        self.devices.portland.push(made);
    }

    /// Hosts, which announce their addresses or not.
    fn hosts(&mut self, announces: bool) {
        let topology = self.topology;
        // Without IPv6 flows nothing would use the addresses that hosts announce.
        let speaks_v6 = topology.traffic.iter().any(|f| f.to_address.is_ipv6());
        for (h, host) in topology.hosts.iter().enumerate() {
            let device = self.device(Place::Host(h), host.interfaces.len().max(1));
            let mut made = SimHost::new(device, self.numbers.hosts[h], host.mac);
            made.configure(host, speaks_v6);
            if host.dhcp {
                // Hosts are not switched on in the same instant.
                let at = Duration::from_micros(self.random.random_range(0..100_000));
                made.dhcp = Some(dhcp::Client::new(at.into(), self.random.random()));
            }
            if made.has_any_address() || !host.dhcp {
                // Once its port may have become a host port.
                let at = Duration::from_micros(self.random.random_range(500_000..1_000_000));
                let announces = announces && made.has_any_address();
                made.announce = announces.then_some((at.into(), ANNOUNCEMENTS));
            }
            self.devices.hosts.push(made);
        }
    }

    fn controllers(&mut self) -> Result<(), String> {
        for (c, controller) in self.topology.controllers.iter().enumerate() {
            let device = self.device(Place::Controller(c), 1);
            let number = (self.topology.nodes.len() + c) as u64 + 1;
            let identity = self.identity(number, &controller.name, Role::Controller)?;
            let config = self.topology.controller_settings(controller);
            let seeds = [self.random.random(), self.random.random()];
            let port = self.numbers.count + c as PortIndex;
            let shares = (self.topology.controllers.len() > 1).then_some(c);
            let lead = Lead { device, port, mtu: CONTROLLER_MTU };
            let made = SimController::new(lead, identity, config, seeds, shares);
            self.devices.controllers.push(made);
        }
        Ok(())
    }

    fn flows(&mut self) {
        let topology = self.topology;
        let hosts = HostsByAddress::new(topology);
        let delays: Duration = topology.links.iter().map(|l| l.delay).sum();
        for (f, flow) in topology.traffic.iter().enumerate() {
            let device = self.device(Place::Flow(f), 0);
            let receiver = match flow.to {
                Target::Host(host) => Some(host),
                Target::Address(address) => hosts.get(address),
            };
            let seeds = [self.random.random(), self.random.random()];
            if let Some(catalogue) = &flow.catalogue {
                self.named_end(flow.from).consumers.push(f as u32);
                if let Some(to) = receiver {
                    self.named_end(to).produce(&catalogue.prefix, flow.size);
                }
            }
            let mtu = |host: usize| self.ports[self.numbers.hosts[host] as usize].mtu;
            let mtus = [mtu(flow.from), mtu(receiver.unwrap_or(flow.from))];
            let ends = Ends { to: flow.to_address, receiver, mtus, delays, seeds };
            let made = SimFlow::new(device, f as u32, flow.clone(), &ends);
            self.devices.flows.push(made);
        }
    }

    /// What a host asks and answers by name; begun when the first flow needs it.
    fn named_end(&mut self, host: usize) -> &mut NamedEnd {
        let mtu = self.ports[self.numbers.hosts[host] as usize].mtu;
        let simulated = &mut self.devices.hosts[host];
        let begin = || Box::new(NamedEnd::new(simulated.mac, mtu, self.random.random()));
        simulated.named.get_or_insert_with(begin)
    }
}
