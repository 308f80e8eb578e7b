//! A network for tests: cables, nodes with route memories, hosts, and the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use plexus_wire::fabric::message::{
    Body, ControllerHello, FlowReport, HostProbeReply, HostReport, HostSeen, HostState, PortRole,
    PortState, Refusal, ResolveFailed, ResolveForward, ResolveRequest, RouteEntry,
};
use plexus_wire::{MacAddr, Time};

use crate::{Config, Controller, Input, NodeId, Output, Record, Start};

pub(super) const NODE_PORT: u8 = 1;
/// Host ports of a node begin here.
pub(super) const HOST_PORT: u8 = 100;

pub(super) type Memory = BTreeMap<(u8, Option<MacAddr>, MacAddr), RouteEntry>;

#[derive(Clone, Debug, Default)]
pub(super) struct NodeModel {
    pub(super) up: bool,
    generation: u64,
    /// Cables by port: the peer and its port.
    pub(super) cables: BTreeMap<u8, (NodeId, u8)>,
    pub(super) memory: Memory,
    pub(super) host_ports: BTreeSet<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) mac: MacAddr,
    pub(super) ips: Vec<IpAddr>,
    pub(super) at: (NodeId, u8),
    pub(super) answers: bool,
}

#[derive(Debug)]
pub(super) struct Net {
    pub(super) controller: Controller,
    pub(super) now: Time,
    pub(super) nodes: BTreeMap<NodeId, NodeModel>,
    pub(super) cut: BTreeSet<(NodeId, u8)>,
    pub(super) hosts: Vec<Host>,
    /// Messages that nodes received and that tests examine: verdicts, failures, frames, blocks,
    /// welcomes.
    pub(super) told: Vec<(NodeId, u32, Body)>,
    pub(super) paths: BTreeMap<NodeId, Option<Vec<u8>>>,
    /// Tickets not confirmed yet, if `holds_tickets`.
    pub(super) tickets: Vec<u64>,
    pub(super) holds_tickets: bool,
    pub(super) stored: BTreeMap<crate::RecordKey, Record>,
    pub(super) updates: Vec<(NodeId, RouteEntry)>,
    /// Answers about packets.
    pub(super) traces: Vec<Result<crate::Trace, String>>,
    start: Start,
    recording: Vec<(Time, String)>,
    outputs: Vec<Output>,
    exchange: u64,
}

/// A controller with batches so small that the tests have many of them.
fn controller(start: &Start) -> Controller {
    let mut controller = Controller::new(start.clone());
    controller.flows.crossings.batch = 4;
    controller
}

pub(super) fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

pub(super) fn ip(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

impl Net {
    pub(super) fn new(config: Config) -> Net {
        Net::restarted(config, 1, Vec::new())
    }

    fn restarted(config: Config, epoch: u64, stored: Vec<Record>) -> Net {
        let now = Time::from_secs(1000);
        let start = Start {
            config,
            epoch,
            provisional: false,
            now,
            unix_s: 1_700_000_000,
            stored,
            seed: [7; 32],
        };
        Net {
            controller: controller(&start),
            now,
            nodes: BTreeMap::new(),
            cut: BTreeSet::new(),
            hosts: Vec::new(),
            told: Vec::new(),
            paths: BTreeMap::new(),
            tickets: Vec::new(),
            holds_tickets: false,
            stored: BTreeMap::new(),
            updates: Vec::new(),
            traces: Vec::new(),
            start,
            recording: Vec::new(),
            outputs: Vec::new(),
            exchange: 0,
        }
    }

    /// Nodes 1, 2, … connected as the pairs (from 0) say, the controller at node 1, all up.
    pub(super) fn joined(config: Config, nodes: u32, pairs: &[(u32, u32)]) -> Net {
        let mut net = Net::new(config);
        for id in 1..=NodeId::from(nodes) {
            net.nodes.insert(id, NodeModel { up: true, ..NodeModel::default() });
        }
        for &(a, b) in pairs {
            let ends = [a, b].map(|n| NodeId::from(n) + 1);
            let ports = ends.map(|id| NODE_PORT + net.nodes[&id].cables.len() as u8);
            for side in 0..2 {
                let node = net.nodes.get_mut(&ends[side]).unwrap();
                node.cables.insert(ports[side], (ends[1 - side], ports[1 - side]));
            }
        }
        net.input(Input::Attached { to: Some(1) });
        for id in 1..=NodeId::from(nodes) {
            net.input(Input::NodeUp { node: id, name: format!("s{id}"), version: 1 });
        }
        for id in 1..=NodeId::from(nodes) {
            net.hello(id);
        }
        net
    }

    /// One host on each node: host n with address 10.0.0.n on node n, admitted.
    pub(super) fn with_hosts(mut self) -> Net {
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for id in ids {
            self.add_host(id as u8, id, HOST_PORT);
        }
        self
    }

    pub(super) fn add_host(&mut self, n: u8, node: NodeId, port: u8) {
        self.hosts.push(Host { mac: mac(n), ips: vec![ip(n)], at: (node, port), answers: true });
        if self.nodes.get_mut(&node).unwrap().host_ports.insert(port) {
            self.hello(node);
        }
        self.seen(n, (node, port), Some(ip(n)));
    }

    pub(super) fn host_at(&self, n: u8) -> NodeId {
        self.hosts.iter().find(|h| h.mac == mac(n)).unwrap().at.0
    }

    pub(super) fn host(&mut self, n: u8) -> &mut Host {
        self.hosts.iter_mut().find(|h| h.mac == mac(n)).unwrap()
    }

    /// Passes an input in, serialised as in a recording, and carries out the outputs.
    pub(super) fn input(&mut self, input: Input) {
        let text = serde_json::to_string(&input).unwrap();
        let input: Input = serde_json::from_str(&text).unwrap();
        self.recording.push((self.now, text));
        self.controller.handle(self.now, input);
        let mut outputs = Vec::new();
        while let Some(output) = self.controller.poll_output() {
            outputs.push(output);
        }
        self.controller.flows.check(&self.controller.topology);
        for (_, flow) in self.controller.flows.iter() {
            let target = self.controller.hosts.get(flow.key.destination);
            assert_eq!(target.map(|t| t.at), Some(flow.to), "{flow:?}");
        }
        self.outputs.extend(outputs.iter().cloned());
        // A node's answer arrives before the next output is carried out, so that messages cross.
        for output in outputs {
            self.act(output);
        }
    }

    pub(super) fn say(&mut self, node: NodeId, body: impl Into<Body>) {
        let body = body.into();
        // The message has to be encodable.
        let bytes = body.to_bytes(5);
        assert!(bytes.len() <= plexus_wire::fabric::message::BODY_MAX, "{body:?}");
        self.input(Input::Message { node, request: 5, body });
    }

    fn act(&mut self, output: Output) {
        match output {
            Output::CommonTold { .. } | Output::CommonKept => {}
            Output::Log(event) => assert!(!event.to_string().is_empty()),
            Output::Explained { told, .. } => self.traces.push(told),
            Output::Path { node, hops } => drop(self.paths.insert(node, hops)),
            Output::Store { ticket, changes } => {
                changes.into_iter().for_each(|change| change.make(&mut self.stored));
                if self.holds_tickets {
                    self.tickets.push(ticket);
                } else {
                    self.input(Input::Stored { ticket });
                }
            }
            Output::Send { node, request, body, .. } => {
                assert!(body.to_bytes(request).len() <= plexus_wire::fabric::message::BODY_MAX);
                if self.nodes.get(&node).is_some_and(|n| n.up) {
                    self.arrived(node, request, body);
                }
            }
        }
    }

    /// A node processes a message from the controller.
    fn arrived(&mut self, id: NodeId, request: u32, body: Body) {
        match body {
            Body::ResolveForward(forward) => self.forwarded(id, &forward),
            Body::RouteUpdate(update) => {
                for entry in update.routes {
                    self.updates.push((id, entry.clone()));
                    self.install(id, entry);
                }
            }
            Body::HostProbe(probe) => {
                let at = (id, probe.port);
                let alive = self.hosts.iter().any(|h| {
                    h.answers && h.mac == probe.mac && h.at == at && h.ips.contains(&probe.ip)
                });
                // A silent host's node does not answer: the controller's own timeout counts.
                if alive {
                    self.say(id, HostProbeReply { exchange: probe.exchange, alive });
                }
            }
            Body::HostVerdict(ref verdict) if verdict.refused.is_some() => {
                let (port, mac) = (verdict.port, verdict.mac);
                if verdict.ip.is_none() {
                    let memory = &mut self.nodes.get_mut(&id).unwrap().memory;
                    memory.retain(|key, _| (key.0, key.1) != (port, Some(mac)));
                }
                self.told.push((id, request, body));
            }
            Body::Ack(_) => {}
            body => self.told.push((id, request, body)),
        }
    }

    pub(super) fn install(&mut self, id: NodeId, entry: RouteEntry) {
        let memory = &mut self.nodes.get_mut(&id).unwrap().memory;
        let key = (entry.port, entry.source, entry.destination);
        if memory.get(&key).is_some_and(|old| old.version > entry.version) {
            return;
        }
        match entry.routes.is_empty() {
            true => drop(memory.remove(&key)),
            false => drop(memory.insert(key, entry)),
        }
    }

    /// The target node's part, and then the source node's.
    fn forwarded(&mut self, id: NodeId, f: &ResolveForward) {
        let at = (id, f.target_port);
        let there = self.hosts.iter().any(|h| h.mac == f.target_mac && h.at == at && h.answers);
        if !there {
            let failed = ResolveFailed { exchange: f.exchange, reason: Refusal::Silent };
            return self.say(id, failed);
        }
        let back = RouteEntry {
            port: f.target_port,
            source: Some(f.target_mac),
            destination: f.source_mac,
            version: f.version,
            routes: f.to_source.clone(),
        };
        self.install(id, back);
        let (source, port) =
            self.follow(id, &f.to_source[0]).expect("the way back leads somewhere");
        let asker = self.hosts.iter().find(|h| h.mac == f.source_mac);
        assert_eq!(asker.map(|h| h.at), Some((source, port)), "it leads to the asking host");
        let there = RouteEntry {
            port,
            source: Some(f.source_mac),
            destination: f.target_mac,
            version: f.version,
            routes: f.to_target.clone(),
        };
        self.install(source, there);
    }

    /// Follows hops over working cables and nodes.
    pub(super) fn follow(&self, from: NodeId, hops: &[u8]) -> Option<(NodeId, u8)> {
        let (last, way) = hops.split_last()?;
        let mut at = from;
        for hop in way {
            if !self.nodes[&at].up || self.cut.contains(&(at, *hop)) {
                return None;
            }
            at = self.nodes[&at].cables.get(hop)?.0;
        }
        self.nodes[&at].up.then_some((at, *last))
    }

    /// Whether there is a route from one host to another, and every such route arrives.
    pub(super) fn delivers(&self, from: u8, to: u8) -> bool {
        let host = |n| self.hosts.iter().find(|h| h.mac == mac(n)).unwrap();
        let (from, to) = (host(from), host(to));
        let memory = &self.nodes[&from.at.0].memory;
        let Some(entry) = memory.get(&(from.at.1, Some(from.mac), to.mac)) else { return false };
        assert!(!entry.routes.is_empty());
        let arrives = |hops: &Vec<u8>| self.follow(from.at.0, hops) == Some(to.at);
        self.nodes[&from.at.0].up && entry.routes.iter().all(arrives)
    }

    /// A node reports the state of its ports, in pages of three, the last one first.
    pub(super) fn hello(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).unwrap();
        node.generation += 1;
        self.hello_again(id);
    }

    pub(super) fn hello_again(&mut self, id: NodeId) {
        let node = &self.nodes[&id];
        if !node.up {
            return;
        }
        let state = |port, role, peer, peer_port| PortState {
            port,
            role,
            mac: mac(port),
            mtu: 2000,
            rate_mbit_per_s: 1000,
            peer,
            peer_port,
        };
        let fabric = node.cables.iter().map(|(port, (peer, peer_port))| {
            if self.cut.contains(&(id, *port)) || !self.nodes[peer].up {
                state(*port, PortRole::Down, 0, 0)
            } else {
                state(*port, PortRole::Fabric, *peer, *peer_port)
            }
        });
        let hosts = node.host_ports.iter().map(|port| state(*port, PortRole::Host, 0, 0));
        let ports: Vec<PortState> = fabric.chain(hosts).collect();
        let generation = node.generation;
        let pages: Vec<Vec<PortState>> = if ports.is_empty() {
            vec![Vec::new()]
        } else {
            ports.chunks(3).map(<[PortState]>::to_vec).collect()
        };
        let count = pages.len() as u16;
        for (page, ports) in pages.into_iter().enumerate().rev() {
            let page = page as u16;
            self.say(id, ControllerHello { generation, page, pages: count, ports });
        }
    }

    /// Cuts or repairs the cable at a node's port; both ends report it.
    pub(super) fn set_cable(&mut self, id: NodeId, port: u8, good: bool) {
        let (peer, peer_port) = self.nodes[&id].cables[&port];
        for end in [(id, port), (peer, peer_port)] {
            if good {
                self.cut.remove(&end)
            } else {
                self.cut.insert(end)
            };
        }
        self.hello(id);
        self.hello(peer);
    }

    /// A node fails: its neighbours notice, and its session ends.
    pub(super) fn kill(&mut self, id: NodeId) {
        self.nodes.get_mut(&id).unwrap().up = false;
        self.neighbours_notice(id);
        self.input(Input::NodeDown { node: id });
    }

    pub(super) fn revive(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).unwrap();
        node.up = true;
        node.memory.clear();
        self.input(Input::NodeUp { node: id, name: format!("s{id}"), version: 1 });
        self.hello(id);
        self.neighbours_notice(id);
    }

    fn neighbours_notice(&mut self, id: NodeId) {
        let peers: BTreeSet<NodeId> = self.nodes[&id].cables.values().map(|(p, _)| *p).collect();
        peers.into_iter().for_each(|peer| self.hello(peer));
    }

    /// A node hears a host.
    pub(super) fn seen(&mut self, n: u8, at: (NodeId, u8), ip: Option<IpAddr>) {
        self.say(at.0, HostSeen { port: at.1, mac: mac(n), ip });
    }

    /// Host `from` asks for an address.
    pub(super) fn ask_for(&mut self, from: u8, target_ip: IpAddr) {
        self.exchange += 1;
        let host = self.host(from).clone();
        let ask = ResolveRequest {
            exchange: self.exchange,
            key: [3; 32],
            port: host.at.1,
            source_mac: host.mac,
            source_ip: host.ips[0],
            target_ip,
        };
        self.say(host.at.0, ask);
    }

    pub(super) fn resolve(&mut self, from: u8, to: u8) {
        self.ask_for(from, ip(to));
    }

    /// Runs all deadlines up to `ms` from now, one after the other.
    pub(super) fn wait_ms(&mut self, ms: u64) {
        let end = self.now + std::time::Duration::from_millis(ms);
        while self.controller.next_deadline() <= end {
            self.now = self.now.max(self.controller.next_deadline());
            self.input(Input::Tick);
        }
        self.now = end;
        self.input(Input::Tick);
    }

    /// Sends every node's keep-alive.
    pub(super) fn keep_alive(&mut self) {
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        ids.into_iter().for_each(|id| self.hello_again(id));
    }

    /// Lets time pass with keep-alives once a second.
    pub(super) fn wait_s(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.keep_alive();
            self.wait_ms(1000);
        }
    }

    /// Takes the messages of one kind that nodes received.
    pub(super) fn taken<T>(&mut self, pick: impl Fn(&Body) -> Option<T>) -> Vec<(NodeId, T)> {
        let told = std::mem::take(&mut self.told);
        let mut found = Vec::new();
        for (node, request, body) in told {
            match pick(&body) {
                Some(it) => found.push((node, it)),
                None => self.told.push((node, request, body)),
            }
        }
        found
    }

    pub(super) fn failures(&mut self) -> Vec<(NodeId, Refusal)> {
        self.taken(|b| if let Body::ResolveFailed(f) = b { Some(f.reason) } else { None })
    }

    /// Refusals that nodes received; admissions are removed too.
    pub(super) fn refusals(&mut self) -> Vec<(NodeId, MacAddr, Refusal)> {
        let verdicts = self.taken(|b| match b {
            Body::HostVerdict(v) => Some((v.mac, v.refused)),
            _ => None,
        });
        verdicts.into_iter().filter_map(|(node, (mac, why))| Some((node, mac, why?))).collect()
    }

    /// Replaces the controller by a new one: nodes keep their state, and report it.
    pub(super) fn restart(self, reports: bool) -> Net {
        let stored = self.stored.values().cloned().collect();
        let mut net = Net::restarted(self.start.config.clone(), self.start.epoch + 1, stored);
        (net.nodes, net.cut, net.hosts) =
            (self.nodes.clone(), self.cut.clone(), self.hosts.clone());
        net.stored = self.stored.clone();
        net.input(Input::Attached { to: Some(1) });
        let ids: Vec<NodeId> = net.nodes.keys().copied().filter(|id| net.nodes[id].up).collect();
        for &id in &ids {
            net.input(Input::NodeUp { node: id, name: format!("s{id}"), version: 1 });
            net.hello(id);
            if reports {
                net.report(id);
            }
        }
        net
    }

    fn report(&mut self, id: NodeId) {
        let hosts = self.hosts.iter().filter(|h| h.at.0 == id);
        let hosts = hosts.map(|h| HostState { port: h.at.1, mac: h.mac, ips: h.ips.clone() });
        let report = HostReport { more: 0, hosts: hosts.collect() };
        self.say(id, report);
        let flows: Vec<RouteEntry> = self.nodes[&id].memory.values().cloned().collect();
        let count = flows.len();
        for (i, flow) in flows.into_iter().enumerate() {
            let more = (count - 1 - i) as u16;
            self.say(id, FlowReport { more, flows: vec![flow] });
        }
        if count == 0 {
            self.say(id, FlowReport { more: 0, flows: Vec::new() });
        }
    }
}

/// At the end of every test the recording, replayed to a new controller, gives the same outputs.
impl Drop for Net {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let mut again = controller(&self.start);
        let mut outputs = Vec::new();
        for (now, text) in &self.recording {
            again.handle(*now, serde_json::from_str(text).unwrap());
            while let Some(output) = again.poll_output() {
                outputs.push(output);
            }
        }
        assert!(outputs == self.outputs, "a replay differs");
    }
}
