//! The engine: takes one event after the other, and lets the device that it is for do the rest.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use plexus_controller::Controller;
use plexus_io::Packet;
use plexus_plane::{DeepReport, DropReason};
use plexus_reference::stp::Bridge;
use plexus_report::{Counted, Counts, Cut, RunReport, judge};
use plexus_topo::assertion::Subject;
use plexus_topo::{ArpLoad, CONTROLLER_DEVICE, CONTROLLER_PORT, End, Extent, Fidelity, Topology};
use plexus_wire::Protocol;

use crate::asker::{Asker, Resolutions, Targets};
use crate::build::{Devices, Place, Style, build};
use crate::cable::{PortIndex, Traffic};
use crate::controller::SimController;
use crate::core::{Core, Event};
use crate::flow::{self, Connected, SimFlow};
use crate::host::Heard;
use crate::host::ip::Ip;
use crate::node::SimNode;
use crate::outside::Leaving;
use crate::portland::PortLand;
use crate::tcp::TcpConfig;
use crate::time::SimTime;

/// The share of a run that a cable is in use from which frames would often wait for each other.
const QUEUES_FROM: f64 = 0.1;
/// How long a network may take to find itself before a run.
const SETTLE_MAX: Duration = Duration::from_secs(60);
/// How often is looked whether it has.
const SETTLE_STEP: Duration = Duration::from_millis(10);
/// How long queues may take to empty once nobody sends any more.
const DRAIN_MAX: Duration = Duration::from_secs(3);

/// So many events happen at one instant only where two devices keep waking each other: a bug, which
/// would otherwise be a program that never ends.
const AT_ONCE_MAX: u64 = 100_000_000;

/// Hears of every frame that a port takes up: when, and its bytes.
type Watcher = Box<dyn FnMut(SimTime, &[u8]) + Send>;

/// A network and what happens in it.
pub struct Sim {
    pub(crate) topology: Topology,
    pub(crate) core: Core,
    pub(crate) devices: Devices,
    events: u64,
    /// Events in a row at the same instant.
    at_once: u64,
    hops: u64,
    pub(crate) cuts: Vec<Cut>,
    /// The controllers that led when events of these numbers began.
    pub(crate) failed_leaders: BTreeMap<usize, usize>,
    /// Flows that have ended.
    ended: usize,
    /// The flows that wait for each other one, or for none, and have not begun.
    followers: HashMap<Option<usize>, Vec<u32>>,
    /// What each node had counted when the run began.
    before: Vec<Counts>,
    /// What had left by each port when the run began.
    sent_before: Vec<Traffic>,
    pub(crate) run_started: Option<SimTime>,
    /// When hosts have asked for the last time without need.
    asks_until: SimTime,
    watchers: Vec<(PortIndex, Watcher)>,
    /// Frames for hosts that are not simulated.
    pub(crate) leaving: VecDeque<Leaving>,
}

/// What the engine did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Events that happened.
    pub events: u64,
    /// Frames that came to a port.
    pub hops: u64,
    /// A hash of all arrivals in order: equal for equal runs.
    pub digest: u64,
    /// How far the clock came.
    pub time: SimTime,
}

impl Sim {
    /// The network of a topology, in which nothing has happened yet. Everything that is random in
    /// it comes from `seed`.
    ///
    /// # Errors
    /// In words, when the simulator cannot do what the file asks for, or when memory is short.
    pub fn new(topology: &Topology, seed: u64) -> Result<Sim, String> {
        Sim::with_style(topology, seed, Style::Plexus)
    }

    /// The same with hosts that say nothing before they have something to ask, and bridges that
    /// have room for so many `stations`: where few of very many hosts ask, it is not their
    /// announcements that take the time, nor tables that nobody fills the memory.
    ///
    /// # Errors
    /// As [`Sim::new`].
    pub fn quiet(topology: &Topology, seed: u64, stations: usize) -> Result<Sim, String> {
        Sim::with_style(topology, seed, Style::Quiet { stations })
    }

    /// The same hosts and cables with PortLand in place of the fabric, to compare: a switch for
    /// each node, the manager for the controller. `announce`: hosts say who they are before anybody
    /// asks, as those of [`Sim::new`] do.
    ///
    /// # Errors
    /// In words, when PortLand or the simulator cannot do what the file asks for, or when memory is
    /// short.
    pub fn portland(topology: &Topology, seed: u64, announce: bool) -> Result<Sim, String> {
        Sim::with_style(topology, seed, Style::PortLand { announce })
    }

    fn with_style(topology: &Topology, seed: u64, style: Style) -> Result<Sim, String> {
        let (core, devices) = build(topology, seed, style)?;
        let mut followers: HashMap<Option<usize>, Vec<u32>> = HashMap::new();
        for (number, flow) in (0..).zip(&topology.traffic) {
            followers.entry(flow.after).or_default().push(number);
        }
        let mut sim = Sim {
            topology: topology.clone(),
            core,
            devices,
            events: 0,
            at_once: 0,
            hops: 0,
            cuts: vec![],
            failed_leaders: BTreeMap::new(),
            ended: 0,
            followers,
            before: vec![],
            sent_before: vec![],
            run_started: None,
            asks_until: SimTime::ZERO,
            watchers: vec![],
            leaving: VecDeque::new(),
        };
        for port in 0..sim.core.ports.len() as PortIndex {
            if sim.core.ports[port as usize].peer.is_some() {
                sim.tell_carrier(port, true);
            }
        }
        for host in &mut sim.devices.hosts {
            host.rest(&mut sim.core);
        }
        Ok(sim)
    }

    /// Has `watcher` hear of every frame that the port at this end of a cable takes up, damaged
    /// ones as well: a host with the last bit, a node when it begins to handle it.
    pub fn watch(&mut self, end: End, watcher: impl FnMut(SimTime, &[u8]) + Send + 'static) {
        if let Some(&port) = self.devices.port_of.get(&end) {
            self.watchers.push((port, Box::new(watcher)));
        }
    }

    /// Lets a network find itself: roles, ways to the controller, leases, spanning trees. False: it
    /// has not within a minute of its own time and what trees take, or `say` has given false:
    /// nobody listens any more.
    pub fn settle(&mut self, mut say: impl FnMut(&Sim) -> bool) -> bool {
        let trees = self.topology.bridges.iter().filter(|b| b.stp);
        let listening = trees.map(|b| 2 * b.forward_delay).max().unwrap_or_default();
        let limit = self.core.now + (SETTLE_MAX + listening).into();
        while !self.is_settled() {
            if self.core.now >= limit || !say(self) {
                return false;
            }
            self.run_until(self.core.now + SETTLE_STEP.into());
        }
        true
    }

    fn is_settled(&self) -> bool {
        self.devices.nodes.iter().all(|n| n.is_settled())
            && self.devices.portland.iter().all(|p| p.machine.is_settled())
            && self.devices.hosts.iter().all(|h| h.has_addresses())
    }

    /// The devices that have something to find out yet, by name.
    pub fn unsettled(&self) -> Vec<&str> {
        let named = || self.topology.nodes.iter().map(|n| n.name.as_str());
        let switches = named().zip(self.devices.portland.iter().map(|p| p.machine.is_settled()));
        let bridges = self.topology.bridges.iter().map(|b| b.name.as_str());
        let boxes = self.devices.nodes.iter().map(|n| n.is_settled());
        let nodes = named().chain(bridges).zip(boxes).chain(switches);
        let nodes = nodes.filter(|(_, is_settled)| !is_settled).map(|(name, _)| name);
        let hosts = self.topology.hosts.iter().zip(&self.devices.hosts);
        nodes
            .chain(hosts.filter(|(_, h)| !h.has_addresses()).map(|(h, _)| h.name.as_str()))
            .collect()
    }

    /// Runs the topology's traffic and its events; `say` hears how far it is, and gives false where
    /// nobody listens any more.
    pub fn run(&mut self, mut say: impl FnMut(&Sim) -> bool) {
        self.begin();
        let mut next = self.events;
        while self.ended < self.devices.flows.len()
            || self.core.now < self.asks_until
            || self.core.resolutions.open() > 0
        {
            // The fabric never falls silent, and every flow ends of itself.
            if !self.step(SimTime::FOREVER) {
                break;
            }
            if self.events >= next {
                next = self.events + 100_000;
                if !say(self) {
                    break;
                }
            }
        }
        // Interests wait longer than packets do in queues.
        let asked = self.topology.traffic.iter().filter_map(|f| f.catalogue.as_ref());
        let waits = asked.map(|c| c.lifetime + SETTLE_STEP).max().unwrap_or_default();
        let limit = self.core.now + waits.max(DRAIN_MAX).into();
        let is_busy = |n: &SimNode| n.held() > 0 || n.pending() > 0;
        while self.devices.nodes.iter().any(is_busy) && self.core.now < limit {
            self.run_until(self.core.now + SETTLE_STEP.into());
        }
    }

    /// Begins the run: the topology's traffic and its events, from now on. Who drives the clock
    /// goes on with [`run_until`](Sim::run_until).
    pub fn begin(&mut self) {
        let started = self.core.now;
        self.run_started = Some(started);
        for (number, event) in (0..).zip(self.topology.events.clone()) {
            let at = started + event.at.into();
            self.core.queue.push(at, Event::Fault(number, true));
            if let Some(lasts) = event.lasts {
                self.core.queue.push(at + lasts.into(), Event::Fault(number, false));
            }
        }
        self.before = self.devices.nodes.iter().map(|n| n.counts()).collect();
        self.sent_before = self.core.ports.iter().map(|p| p.sent).collect();
        self.begin_flows(None);
        if let Some(load) = self.topology.arp {
            self.begin_arp(&load);
            self.asks_until = started + load.lasts.into();
        }
    }

    /// Lets every host that has an address ask for others', from now on.
    pub fn begin_arp(&mut self, load: &ArpLoad) {
        let addresses = self.devices.hosts.iter().filter_map(|h| h.ip_v4()).collect();
        let targets = Arc::new(Targets::new(load.targets, addresses, &mut self.core.random));
        for host in self.devices.hosts.iter_mut().filter(|h| h.ip_v4().is_some()) {
            let now = self.core.now;
            let asker = Asker::new(load, targets.clone(), now, &mut self.core.random);
            host.asker = Some(Box::new(asker));
            host.rest(&mut self.core);
        }
    }

    /// Changes the settings of all TCP connections before the run: for hosts that are not those of
    /// today. `by_receiver`: receivers open them, as clients do that fetch something.
    pub fn tune_tcp(&mut self, by_receiver: bool, tune: impl Fn(&mut TcpConfig)) {
        self.devices.flows.iter_mut().for_each(|flow| flow.tune(by_receiver, &tune));
    }

    /// The history of each flow's TCP connection, by the numbers of flows.
    pub fn connections(&self) -> Vec<Option<Connected>> {
        self.devices.flows.iter().map(SimFlow::connection).collect()
    }

    /// The deep buffer of a node, by its place in the file.
    pub fn deep(&self, node: usize) -> Option<DeepReport> {
        self.devices.nodes.get(node)?.deep(self.core.now.floor())
    }

    /// The network, as the file describes it.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// What hosts have asked for so far.
    pub fn resolutions(&self) -> &Resolutions {
        &self.core.resolutions
    }

    /// The share of a run that is done, 0 to 1: of the time that flows take if every flow's is
    /// known beforehand, else of the flows; `None` before it has begun.
    pub fn share_done(&self) -> Option<f64> {
        let since = self.core.now - self.run_started?;
        let end = |flow: &plexus_topo::Flow| match (flow.extent, flow.after) {
            (Extent::Duration(duration), None) => Some(flow.start + duration),
            _ => None,
        };
        let ends: Option<Vec<Duration>> = self.topology.traffic.iter().map(end).collect();
        let arp = self.topology.arp.map(|arp| arp.lasts);
        Some(match ends.and_then(|ends| ends.into_iter().chain(arp).max()) {
            Some(last) if !last.is_zero() => (since.as_secs_f64() / last.as_secs_f64()).min(1.0),
            _ => self.ended as f64 / self.topology.traffic.len().max(1) as f64,
        })
    }

    /// The flows that waited for this one may begin, or, without one, those that wait for none.
    fn begin_flows(&mut self, ended: Option<usize>) {
        for number in self.followers.remove(&ended).unwrap_or_default() {
            let at = self.core.now + self.topology.traffic[number as usize].start.into();
            self.core.queue.push(at, Event::Flow(number));
        }
    }

    /// Goes on until `until`.
    pub fn run_until(&mut self, until: SimTime) {
        while self.step(until) {}
        self.core.now = until;
    }

    /// Lets one event happen; false if there is none until then.
    #[inline]
    fn step(&mut self, until: SimTime) -> bool {
        let Some((at, event)) = self.core.queue.pop_until(until) else { return false };
        self.at_once = if at == self.core.now { self.at_once + 1 } else { 0 };
        assert!(self.at_once < AT_ONCE_MAX, "the clock stands still at {at}: {event:?}");
        self.core.now = at;
        self.events += 1;
        match event {
            Event::Frame(port, cable, frame) => match self.core.land(frame) {
                Some(packet) if self.core.ports[port as usize].cable == cable => {
                    self.frame(port, packet);
                }
                packet => {
                    let from = self.core.ports[port as usize].peer.unwrap_or(port);
                    self.core.ports[from as usize].struck.lost += 1;
                    packet.into_iter().for_each(|p| self.core.free(p));
                }
            },
            Event::Wake(device) => {
                if self.core.is_due(device) {
                    self.wake(self.devices.places[device as usize]);
                }
            }
            Event::Flow(number) => {
                let flow = &mut self.devices.flows[number as usize];
                let host = &mut self.devices.hosts[flow.from];
                flow.begin(&mut self.core, host, self.run_started.unwrap_or_default());
                self.follow(number as usize);
            }
            Event::Fault(number, fails) => self.fault(number as usize, fails),
            Event::Store { device, number } => {
                match device.map(|device| self.devices.places[device as usize]) {
                    Some(Place::Controller(c)) => {
                        self.devices.controllers[c].hear_store(&mut self.core, number);
                    }
                    _ => drop(self.core.arrive_at_etcd(number)),
                }
            }
        }
        true
    }

    #[inline]
    fn frame(&mut self, port: PortIndex, packet: Packet) {
        self.hops += 1;
        self.core.digest.add(self.core.now.as_picos() ^ u64::from(port) << 48);
        self.core.digest.add_frame(self.core.pool.data(&packet));
        for (_, watcher) in self.watchers.iter_mut().filter(|(watched, _)| *watched == port) {
            watcher(self.core.now, self.core.pool.data(&packet));
        }
        let (place, own) = self.devices.owners[port as usize];
        match place {
            Place::Node(n) => self.devices.nodes[n].receive(&mut self.core, own, packet),
            Place::Controller(c) => self.devices.controllers[c].receive(&mut self.core, packet),
            Place::Host(h) => match self.devices.hosts[h].receive(&mut self.core, packet) {
                Heard::Packet(packet) => self.deliver(h, packet),
                Heard::Named(packet) => self.deliver_named(h, packet),
                Heard::Done => {}
            },
            Place::Outside(h) => self.leave(h, packet),
            Place::PortLand(p) => self.devices.portland[p].receive(&mut self.core, own, packet),
            Place::Flow(_) => self.core.free(packet),
        }
    }

    /// Hands a packet to the program that it is for.
    fn deliver(&mut self, host: usize, packet: Packet) {
        let flow = Ip::parse(self.core.pool.data(&packet)).and_then(|ip| match ip.protocol {
            Protocol::UDP => flow::udp_flow_of(ip.payload),
            Protocol::ICMPV4 | Protocol::ICMPV6 => flow::echo_flow_of(&ip),
            Protocol::TCP => flow::tcp_flow_of(ip.payload),
            _ => None,
        });
        let known = flow.map(|f| f as usize).filter(|&f| f < self.devices.flows.len());
        let Some(number) = known else { return self.core.pool.free(packet) };
        let flow = &mut self.devices.flows[number];
        flow.hear(&mut self.core, &mut self.devices.hosts[host], packet);
        self.follow(number);
    }

    /// Hands a frame of named data to the programs of a host.
    fn deliver_named(&mut self, host: usize, packet: Packet) {
        let now = self.core.now;
        let frame = self.core.pool.data(&packet).to_vec();
        self.core.free(packet);
        let own = &mut self.devices.hosts[host];
        let Some(mut end) = own.named.take() else { return };
        let flows = &mut self.devices.flows;
        end.receive(&mut self.core, &mut own.nic, &frame, |consumers, received, out| {
            for flow in consumers {
                flows[*flow as usize].hear_by_name(now, received, out);
            }
        });
        let consumers = end.consumers.clone();
        own.named = Some(end);
        own.rest(&mut self.core);
        for flow in consumers {
            self.devices.flows[flow as usize].await_data(&mut self.core);
            self.follow(flow as usize);
        }
    }

    fn wake(&mut self, place: Place) {
        match place {
            Place::Node(n) => self.devices.nodes[n].wake(&mut self.core),
            Place::Controller(c) => self.devices.controllers[c].wake(&mut self.core),
            Place::PortLand(p) => self.devices.portland[p].wake(&mut self.core),
            Place::Host(h) => {
                self.devices.hosts[h].wake(&mut self.core);
                self.pump(h);
            }
            Place::Flow(f) => {
                let flow = &mut self.devices.flows[f];
                flow.wake(&mut self.core, &mut self.devices.hosts[flow.from]);
                if let Some(server) = flow.server() {
                    flow.serve(&mut self.core, &mut self.devices.hosts[server]);
                }
                self.follow(f);
            }
            // Its interface is the simulated host's.
            Place::Outside(_) => {}
        }
    }

    /// Lets the ends of connections send in turn, as long as the host's interface has room.
    fn pump(&mut self, h: usize) {
        let host = &mut self.devices.hosts[h];
        while host.nic.has_room()
            && let Some((number, side)) = host.eager.pop_front()
        {
            let flow = &mut self.devices.flows[number as usize];
            if flow.send_segment(&mut self.core, host, side) && flow.become_eager(side) {
                host.eager.push_back((number, side));
            }
        }
    }

    /// Something has happened to a flow: its ends may have something to send, and if it has ended,
    /// those that waited for it begin.
    fn follow(&mut self, number: usize) {
        for (h, side) in self.devices.flows[number].sides() {
            if self.devices.flows[number].become_eager(side) {
                self.devices.hosts[h].eager.push_back((number as u32, side));
                self.pump(h);
            }
        }
        if self.devices.flows[number].has_just_ended() {
            self.ended += 1;
            self.begin_flows(Some(number));
        }
    }

    pub(crate) fn port_of(&self, end: End) -> PortIndex {
        self.devices.port_of[&end]
    }

    pub(crate) fn tell_carrier(&mut self, port: PortIndex, up: bool) {
        let (place, own) = self.devices.owners[port as usize];
        match place {
            Place::Node(n) => self.devices.nodes[n].carrier(&mut self.core, own, up),
            Place::Controller(c) => self.devices.controllers[c].carrier(&mut self.core, up),
            Place::Host(h) => self.devices.hosts[h].carrier(&mut self.core, up),
            Place::PortLand(p) => self.devices.portland[p].carrier(&mut self.core, own, up),
            Place::Flow(_) | Place::Outside(_) => {}
        }
    }

    /// What the engine has done so far.
    pub fn work(&self) -> Work {
        let (events, hops) = (self.events, self.hops);
        Work { events, hops, digest: self.core.digest.value(), time: self.core.now }
    }

    /// What left by each port that has a cable, by the name of its end: those of the topology's
    /// cables in order, then each controller's, its node's end first.
    pub fn traffic(&self) -> impl Iterator<Item = (String, Traffic)> + '_ {
        let ends = self.topology.cables().flat_map(|(_, _, ends)| ends);
        let cables = ends.map(|end| (self.topology.end_name(end), self.port_of(end)));
        // Their ports are the last ones.
        let first = self.core.ports.len() - self.topology.controllers.len();
        let controllers = self.topology.controllers.iter().zip(first as PortIndex..);
        let leads = controllers.flat_map(|(named, own)| {
            let node = &self.topology.nodes[named.node].name;
            let at = self.core.ports[own as usize].peer.unwrap_or(own);
            let name = |device: &str, port: &str| format!("{device}.{port}");
            [(name(node, CONTROLLER_PORT), at), (name(&named.name, CONTROLLER_DEVICE), own)]
        });
        cables.chain(leads).map(|(name, port)| (name, self.core.ports[port as usize].sent))
    }

    /// The direction of a cable that was in use most since the run began, by the name of the end
    /// that sends, and the share of that time that it was: above 1 where frames did not wait for
    /// each other, as they would have had to. `None` before the run, or where no cable has a rate.
    pub fn busiest(&self) -> Option<(String, f64)> {
        let time = (self.core.now - self.run_started?).as_secs_f64();
        let share = |port: PortIndex| {
            let (port, before) =
                (&self.core.ports[port as usize], self.sent_before.get(port as usize)?);
            let rate = port.rate_bits_per_s? as f64;
            let sent = port.sent.since(*before);
            Some(sent.bits_on_cable() as f64 / rate / time).filter(|share| share.is_finite())
        };
        let ends = self.topology.cables().flat_map(|(_, _, ends)| ends);
        let shares = ends.filter_map(|end| Some((end, share(self.port_of(end))?)));
        let most = shares.max_by(|(_, a), (_, b)| a.total_cmp(b));
        most.map(|(end, share)| (self.topology.end_name(end), share))
    }

    /// Frames for which there was no memory, here or in a box: what came of the run is not what the
    /// network would have done.
    pub fn frames_missed(&self) -> u64 {
        let name = DropReason::NoFrame.name();
        let no_frame = |node: &SimNode| node.counts().drops.get(name).copied().unwrap_or(0);
        self.core.out_of_frames + self.devices.nodes.iter().map(no_frame).sum::<u64>()
    }

    /// The core of the controller that leads, which tells what it knows. Of two that both think so
    /// the one with the higher epoch leads.
    pub fn controller(&self) -> Option<&Controller> {
        let cores = self.devices.controllers.iter().filter_map(SimController::core);
        cores.max_by_key(|core| core.epoch())
    }

    /// Whether the controller of this number leads and may promise something.
    pub fn leads(&self, controller: usize) -> bool {
        self.devices.controllers.get(controller).is_some_and(SimController::is_sure)
    }

    /// What the controller of this number knows, whether it leads or follows; absent: neither.
    pub fn counts(&self, controller: usize) -> Option<plexus_controller::Counts> {
        self.devices.controllers.get(controller)?.counts()
    }

    /// Ends the topology's event of this number, which has begun and would last to the end of the
    /// run: for tests in which that depends on the run.
    pub fn mend(&mut self, event: usize) {
        self.fault(event, false);
    }

    /// Pulls out the cable with this end, for good.
    pub fn pull(&mut self, end: End) {
        if let Some(ends) = self.cable_at(end) {
            self.darken(ends, true);
        }
    }

    /// The bridges that speak spanning tree, by name.
    pub fn spanning_trees(&self) -> impl Iterator<Item = (&str, &Bridge)> {
        let bridges = self.devices.nodes.iter().skip(self.topology.nodes.len());
        let bridges = self.topology.bridges.iter().zip(bridges);
        bridges.filter_map(|(b, node)| Some((b.name.as_str(), node.tree.as_ref()?.bridge())))
    }

    /// PortLand's switches in the nodes' order, then its manager; nothing in a fabric.
    pub fn portland_machines(&self) -> impl Iterator<Item = &PortLand> {
        self.devices.portland.iter().map(|p| &p.machine)
    }

    /// The verdict on the run.
    pub fn report(mut self) -> RunReport {
        let mut counted = Counted::default();
        let nodes = self.topology.nodes.iter().zip(&self.devices.nodes).zip(&self.before);
        for ((named, node), before) in nodes {
            let run = node.counts().since(before);
            counted.accounts.insert(named.name.clone(), run.account);
            for (reason, count) in run.drops {
                *counted.drops.entry(reason).or_default() += count;
            }
            if let Some(account) = node.named.as_ref().map(|n| n.account()) {
                counted.cached.insert(named.name.clone(), account.cache_hits);
                counted.named.insert(named.name.clone(), account);
            }
        }
        let mut notes = vec![];
        if self.topology.fidelity == Fidelity::Control {
            notes.push("fidelity = \"control\": control messages alone, and no queues".into());
            notes.extend(self.busiest().filter(|(_, share)| *share > QUEUES_FROM).map(busy));
        }
        let missed = self.frames_missed();
        if missed > 0 {
            notes.push(format!(
                "{missed} frames found no memory: this is not what the network would have done. \
                 Simulate fewer hosts, or have them ask or send less at a time"
            ));
        }
        let refused: u64 = self.devices.hosts.iter().map(|h| h.nic.dropped).sum();
        if refused > 0 {
            notes.push(format!("hosts' own queues were full for {refused} packets"));
        }
        let nics = self.devices.hosts.iter().map(|h| &h.nic);
        let damaged: u64 = nics
            .chain(self.devices.controllers.iter().map(|c| &c.nic))
            .map(|nic| nic.bad_fcs)
            .sum();
        if damaged > 0 {
            notes.push(format!("hosts and controllers dropped {damaged} damaged frames"));
        }
        notes.extend(self.struck());
        let refused: u64 = self.devices.portland.iter().map(|p| p.dropped()).sum();
        if refused > 0 {
            notes.push(format!("PortLand's queues were full for {refused} frames"));
        }
        if self.topology.traffic.iter().any(|f| f.verify) {
            notes.push("no payload is simulated: verify = true compares nothing".into());
            self.topology.traffic.iter_mut().for_each(|f| f.verify = false);
        }
        self.clear();
        let now = self.core.now;
        let flows = self.devices.flows.into_iter();
        let outcomes: Vec<_> = flows.map(|f| f.outcome(now)).collect();
        let unchecked = |subject: &Subject| {
            let what = match subject {
                Subject::Cpu { .. } => "nobody's processor is simulated",
                Subject::Fast { .. } => "no fast table is simulated",
                _ => return None,
            };
            Some(what.to_string())
        };
        let mut report = judge(&self.topology, &outcomes, counted, &self.cuts, unchecked);
        report.notes.splice(..0, notes);
        report.facts.passed &= missed == 0;
        report
    }

    /// Gives every frame back, and sees that none is missing.
    fn clear(&mut self) {
        let core = &mut self.core;
        while let Some((_, event)) = core.queue.pop() {
            if let Event::Frame(_, _, frame) = event
                && let Some(packet) = core.land(frame)
            {
                core.free(packet);
            }
        }
        self.devices.nodes.iter_mut().for_each(|n| n.clear(core));
        self.devices.hosts.iter_mut().for_each(|h| h.clear(core));
        self.devices.controllers.iter_mut().for_each(|c| c.clear(core));
        self.devices.portland.iter_mut().for_each(|p| p.clear(core));
        assert_eq!(core.pool.available(), core.pool.frames(), "a frame is lost");
    }
}

/// What is to be said of a cable on which frames would have waited.
fn busy((end, share): (String, f64)) -> String {
    format!(
        "the cable from {end} was in use {:.0} % of the time: frames would have waited for it, \
         fidelity = \"full\" says how long",
        share * 100.0
    )
}
