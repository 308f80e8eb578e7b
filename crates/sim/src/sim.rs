//! The engine: takes one event after the other, and lets the device that it is for do the rest.

use std::time::Duration;

use plexus_io::Packet;
use plexus_reference::stp::Bridge;
use plexus_report::{Counted, Counts, Cut, RunReport, judge};
use plexus_topo::assertion::Subject;
use plexus_topo::{End, Failure, Topology};
use plexus_wire::{Protocol, ethernet, ipv4};

use crate::build::{Devices, Place, build};
use crate::cable::{PortIndex, Traffic};
use crate::core::{Core, Event};
use crate::flow;
use crate::host::Heard;
use crate::time::SimTime;

/// How long a network may take to find itself before a run.
const SETTLE_MAX: Duration = Duration::from_secs(60);
/// How often is looked whether it has.
const SETTLE_STEP: Duration = Duration::from_millis(10);
/// How long queues may take to empty once nobody sends any more.
const DRAIN_MAX: Duration = Duration::from_secs(3);

/// So many events happen at one instant only where two devices keep waking each other: a bug, which
/// would otherwise be a program that never ends.
const AT_ONCE_MAX: u64 = 100_000_000;

/// A network and what happens in it.
pub struct Sim {
    topology: Topology,
    core: Core,
    devices: Devices,
    events: u64,
    /// Events in a row at the same instant.
    at_once: u64,
    hops: u64,
    cuts: Vec<Cut>,
    /// Flows that have ended.
    ended: usize,
    /// What each node had counted when the run began.
    before: Vec<Counts>,
    run_started: Option<SimTime>,
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
        let (core, devices) = build(topology, seed)?;
        let mut sim = Sim {
            topology: topology.clone(),
            core,
            devices,
            events: 0,
            at_once: 0,
            hops: 0,
            cuts: vec![],
            ended: 0,
            before: vec![],
            run_started: None,
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

    /// Lets a network find itself: roles, ways to the controller, leases, spanning trees. False: it
    /// has not within a minute of its own time and what trees take, or `say` has given false: nobody listens any more.
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
            && self.devices.hosts.iter().all(|h| h.has_address())
    }

    /// The devices that have something to find out yet, by name.
    pub fn unsettled(&self) -> Vec<&str> {
        let nodes = self.topology.nodes.iter().map(|n| n.name.as_str());
        let named = nodes.chain(self.topology.bridges.iter().map(|b| b.name.as_str()));
        let nodes = named.zip(&self.devices.nodes).filter(|(_, n)| !n.is_settled()).map(|(n, _)| n);
        let hosts = self.topology.hosts.iter().zip(&self.devices.hosts);
        nodes.chain(hosts.filter(|(_, h)| !h.has_address()).map(|(h, _)| h.name.as_str())).collect()
    }

    /// Runs the topology's traffic and its events; `say` hears how far it is, and gives false where
    /// nobody listens any more.
    pub fn run(&mut self, mut say: impl FnMut(&Sim) -> bool) {
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
        self.begin_flows(None);
        let mut next = self.events;
        while self.ended < self.devices.flows.len() {
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
        let limit = self.core.now + DRAIN_MAX.into();
        while self.devices.nodes.iter().any(|n| n.held() > 0) && self.core.now < limit {
            self.run_until(self.core.now + SETTLE_STEP.into());
        }
    }

    /// The flows that waited for this one may begin, or, without one, those that wait for none.
    fn begin_flows(&mut self, ended: Option<usize>) {
        for (number, flow) in (0..).zip(&self.topology.traffic) {
            if flow.after == ended {
                let at = self.core.now + flow.start.into();
                self.core.queue.push(at, Event::Flow(number));
            }
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
                packet => packet.into_iter().for_each(|p| self.core.pool.free(p)),
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
            Event::Stored { device, ticket } => {
                if let Place::Controller(c) = self.devices.places[device as usize] {
                    self.devices.controllers[c].stored(&mut self.core, ticket);
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
        let (place, own) = self.devices.owners[port as usize];
        match place {
            Place::Node(n) => self.devices.nodes[n].receive(&mut self.core, own, packet),
            Place::Controller(c) => self.devices.controllers[c].receive(&mut self.core, packet),
            Place::Host(h) => {
                let heard = self.devices.hosts[h].receive(&mut self.core, packet);
                if let Heard::Packet(packet) = heard {
                    self.deliver(h, packet);
                }
            }
            Place::Flow(_) => self.core.pool.free(packet),
        }
    }

    /// Hands a packet to the program that it is for.
    fn deliver(&mut self, host: usize, packet: Packet) {
        let bytes = &self.core.pool.data(&packet)[ethernet::HEADER_LEN..];
        let flow = ipv4::Packet::new_checked(bytes).ok().and_then(|ip| match ip.protocol() {
            Protocol::UDP => flow::udp_flow_of(ip.payload()),
            Protocol::ICMPV4 => flow::echo_flow_of(ip.payload()),
            Protocol::TCP => flow::tcp_flow_of(ip.payload()),
            _ => None,
        });
        let known = flow.map(|f| f as usize).filter(|&f| f < self.devices.flows.len());
        let Some(number) = known else { return self.core.pool.free(packet) };
        let flow = &mut self.devices.flows[number];
        flow.hear(&mut self.core, &mut self.devices.hosts[host], packet);
        self.follow(number);
    }

    fn wake(&mut self, place: Place) {
        match place {
            Place::Node(n) => self.devices.nodes[n].wake(&mut self.core),
            Place::Controller(c) => self.devices.controllers[c].wake(&mut self.core),
            Place::Host(h) => {
                self.devices.hosts[h].wake(&mut self.core);
                self.pump(h);
            }
            Place::Flow(f) => {
                let flow = &mut self.devices.flows[f];
                flow.wake(&mut self.core, &mut self.devices.hosts[flow.from]);
                self.follow(f);
            }
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

    fn fault(&mut self, number: usize, fails: bool) {
        let event = self.topology.events[number];
        let cable = self.topology.cables().find(|(_, _, ends)| ends.contains(&event.cut));
        let Some((_, _, ends)) = cable else { return };
        let ports = ends.map(|end| self.port_of(end));
        for port in ports {
            self.core.ports[port as usize].cable += 1;
            match event.kind {
                Failure::Silent => self.core.ports[port as usize].silent = fails,
                Failure::Carrier => {
                    self.core.ports[port as usize].has_carrier = !fails;
                    self.tell_carrier(port, !fails);
                }
            }
        }
        if fails {
            let at = (self.core.now - self.run_started.unwrap_or_default()).into();
            self.cuts.push(Cut { kind: event.kind, at, problem: None });
        }
    }

    fn port_of(&self, end: End) -> PortIndex {
        self.devices.port_of[&end]
    }

    fn tell_carrier(&mut self, port: PortIndex, up: bool) {
        let (place, own) = self.devices.owners[port as usize];
        match place {
            Place::Node(n) => self.devices.nodes[n].carrier(&mut self.core, own, up),
            Place::Controller(c) => self.devices.controllers[c].carrier(&mut self.core, up),
            Place::Host(h) => self.devices.hosts[h].carrier(&mut self.core, up),
            Place::Flow(_) => {}
        }
    }

    /// What the engine has done so far.
    pub fn work(&self) -> Work {
        let (events, hops) = (self.events, self.hops);
        Work { events, hops, digest: self.core.digest.value(), time: self.core.now }
    }

    /// What left by each port that has a cable, by the name of its end.
    pub fn traffic(&self) -> impl Iterator<Item = (String, Traffic)> + '_ {
        let ends = self.topology.cables().flat_map(|(_, _, ends)| ends);
        ends.map(|end| {
            let port = self.port_of(end) as usize;
            (self.topology.end_name(end), self.core.ports[port].sent)
        })
    }

    /// The bridges that speak spanning tree, by name.
    pub fn spanning_trees(&self) -> impl Iterator<Item = (&str, &Bridge)> {
        let bridges = &self.devices.nodes[self.topology.nodes.len()..];
        let bridges = self.topology.bridges.iter().zip(bridges);
        bridges.filter_map(|(b, node)| Some((b.name.as_str(), node.tree.as_ref()?.bridge())))
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
        }
        let mut notes = vec![];
        if self.core.out_of_frames > 0 {
            notes.push(format!("{} frames found no memory", self.core.out_of_frames));
        }
        let refused: u64 = self.devices.hosts.iter().map(|h| h.nic.dropped).sum();
        if refused > 0 {
            notes.push(format!("hosts' own queues were full for {refused} packets"));
        }
        if self.topology.traffic.iter().any(|f| f.verify) {
            notes.push("no payload is simulated: verify = true compares nothing".into());
            self.topology.traffic.iter_mut().for_each(|f| f.verify = false);
        }
        self.clear();
        let outcomes: Vec<_> = self.devices.flows.into_iter().map(|f| f.outcome()).collect();
        let unchecked = |subject: &Subject| {
            let is_cpu = matches!(subject, Subject::Cpu { .. });
            is_cpu.then(|| "nobody's processor is simulated".to_string())
        };
        let mut report = judge(&self.topology, &outcomes, counted, &self.cuts, unchecked);
        report.notes.splice(..0, notes);
        report
    }

    /// Gives every frame back, and sees that none is missing.
    fn clear(&mut self) {
        let core = &mut self.core;
        while let Some((_, event)) = core.queue.pop() {
            if let Event::Frame(_, _, frame) = event
                && let Some(packet) = core.land(frame)
            {
                core.pool.free(packet);
            }
        }
        self.devices.nodes.iter_mut().for_each(|n| n.clear(core));
        self.devices.hosts.iter_mut().for_each(|h| h.clear(core));
        self.devices.controllers.iter_mut().for_each(|c| c.clear(core));
        assert_eq!(core.pool.available(), core.pool.frames(), "a frame is lost");
    }
}
