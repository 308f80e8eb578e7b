//! A packet is followed from node to node: each is asked what it would do with the frame, and each
//! frame that leaves is followed along its cable. What a node says is not believed where the
//! controller knows better: it costs a few messages, and decides nothing.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use plexus_wire::fabric::message::{Explain, Explained, PortRole, Refusal, Step};
use plexus_wire::{MacAddr, Time, ethernet};
use serde::{Deserialize, Serialize};

use crate::controller::Timer;
use crate::event::Drop;
use crate::flows::FlowKey;
use crate::path::Action;
use crate::topology::Place;
use crate::{Controller, NodeId};

/// Packets that are followed at a time.
const TRACES_MAX: usize = 8;
/// Boxes of one packet, and copies beside the first.
const BOXES_MAX: usize = 255;
const BRANCHES_MAX: u32 = 16;
/// Longest frame: it must fit a message behind the headers of the fabric.
const FRAME_MAX: usize = 1024;
/// Bytes that the headers of the fabric may add.
const HEADERS_MAX: usize = 256;
/// A node that does not answer is asked once more after this time, and then given up.
const PATIENCE: Duration = Duration::from_millis(500);
/// No further box is asked after this time: a client waits for some seconds.
const TRACE_TIME: Duration = Duration::from_secs(3);

/// The frame to follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStart {
    /// Where it comes in; absent: where its source is.
    pub at: Option<(NodeId, u8)>,
    /// The frame.
    pub frame: Vec<u8>,
    /// Addresses that are zero are found from the IP addresses, as a host would by ARP.
    pub resolve: bool,
}

/// The way of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// The controller's word about its two hosts.
    pub pair: Option<Pair>,
    /// The boxes that it passes.
    pub boxes: Vec<Passed>,
    /// Copies that were not followed.
    pub more: u32,
}

/// The controller's word when a host asks for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The asking host.
    pub from: MacAddr,
    /// Its groups.
    pub from_groups: Vec<String>,
    /// The IP address that the packet is for.
    pub address: Option<IpAddr>,
    /// The station that it is for.
    pub to: Option<MacAddr>,
    /// The groups of that one.
    pub to_groups: Vec<String>,
    /// Where that one is.
    pub at: Option<(NodeId, u8)>,
    /// Why there is no route.
    pub refused: Option<Refusal>,
    /// The rule that decides: whether it allows, and its two groups.
    pub rule: Option<(bool, Option<String>, Option<String>)>,
    /// The packet is for the group's router.
    pub routed: bool,
}

/// A box on the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// The node.
    pub node: NodeId,
    /// The port that the frame comes in by.
    pub port: u8,
    /// The frame.
    pub frame: Vec<u8>,
    /// Its answer, or why there is none.
    pub answer: Answer,
}

/// A box's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It has not come yet.
    Awaited,
    /// The controller has no session with the node.
    Down,
    /// The node did not answer.
    Silent,
    /// The answer makes no sense.
    Malformed,
    /// It told.
    Told {
        /// The name of the input port.
        port_name: String,
        /// Its decisions.
        steps: Vec<Step>,
        /// Frames that leave.
        leaves: Vec<Left>,
        /// How many more leave.
        more: u16,
    },
}

/// A frame that leaves a box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The port.
    pub port: u8,
    /// Its name.
    pub port_name: String,
    /// The frame.
    pub frame: Vec<u8>,
    /// Where it arrives.
    pub next: NextPlace,
}

/// Where a frame arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextPlace {
    /// At the box of this number.
    Box(usize),
    /// At this host, which is there as the controller knows.
    Host(MacAddr),
    /// At a port for hosts where the controller knows no such station.
    Strangers,
    /// At a controller.
    Controller,
    /// There is no cable, as far as the controller knows.
    NoCable,
    /// Where the same frame has been before.
    Loop,
    /// It was not followed.
    NotFollowed,
}

/// A question to a node.
#[derive(Clone, Copy, Debug)]
struct Asked {
    trace: u64,
    place: usize,
    node: u32,
    until: Time,
    again: bool,
}

/// A trace that is not complete.
#[derive(Clone, Debug)]
struct Open {
    trace: Trace,
    branches: u32,
    until: Time,
}

/// Packets that are followed now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces {
    open: BTreeMap<u64, Open>,
    asked: BTreeMap<u64, Asked>,
    next: u64,
}

impl Controller {
    /// Begins to follow a frame. [`Output::Explained`](crate::Output::Explained) answers.
    pub(crate) fn explain(&mut self, now: Time, question: u64, start: TraceStart) {
        match self.begin_trace(now, question, start) {
            Ok(()) => self.end_traces(),
            Err(why) => self.output(crate::Output::Explained { question, told: Err(why) }),
        }
    }

    fn begin_trace(
        &mut self,
        now: Time,
        question: u64,
        TraceStart { at, mut frame, resolve }: TraceStart,
    ) -> Result<(), String> {
        if self.traces.open.len() >= TRACES_MAX {
            return Err("other packets are being followed: ask again in a second".into());
        }
        if frame.len() > FRAME_MAX {
            return Err(format!("the frame has more than {FRAME_MAX} bytes: take a shorter one"));
        }
        let ends = plexus_wire::FlowKey::from_frame(&frame).map(|key| (key.src, key.dst));
        if resolve {
            self.fill_in(&mut frame, ends)?;
        }
        let header = ethernet::Frame::new_checked(&frame[..]).map_err(|e| e.to_string())?;
        let (from, to) = (header.src(), header.dst());
        let place = match at {
            Some((node, port)) => {
                let node = self.topology.index(node).ok_or("the controller knows no such node")?;
                // The ports of a node that is down are not known.
                let known = self.topology.node(node);
                if known.up && !known.ports.contains_key(&port) {
                    return Err(format!("the node has no port {port}: see `plexus show topology`"));
                }
                Place { node, port }
            }
            None => self.hosts.get(from).map(|host| host.at).ok_or_else(|| {
                format!(
                    "the controller knows no host {from}: it was not admitted anywhere. Name the \
                     port that its frames come in by"
                )
            })?,
        };
        let is_to_one = to != MacAddr::default() && !to.is_multicast();
        let pair = is_to_one || to == MacAddr::default();
        let pair = pair.then(|| self.pair(place, from, to, ends.map(|ends| ends.1))).flatten();
        let trace = Trace { pair, ..Trace::default() };
        let open = Open { trace, branches: 0, until: now + TRACE_TIME };
        self.traces.open.insert(question, open);
        // Without a destination the host sends nothing.
        if to != MacAddr::default() {
            self.enter_box(now, question, place, frame);
        }
        Ok(())
    }

    /// Fills addresses in that are zero.
    fn fill_in(&self, frame: &mut [u8], ends: Option<(IpAddr, IpAddr)>) -> Result<(), String> {
        let Some(head) = frame.first_chunk_mut::<12>() else { return Ok(()) };
        let Some((source, destination)) = ends else { return Ok(()) };
        if head[6..] == [0; 6] {
            let mac = self.hosts.by_ip(source);
            let mac = mac.ok_or_else(|| format!("the controller knows no host with {source}"))?;
            head[6..].copy_from_slice(&mac.0);
        }
        if head[..6] == [0; 6]
            && let Some(mac) = self.station_for(source, destination)
        {
            head[..6].copy_from_slice(&mac.0);
        }
        Ok(())
    }

    /// The station that a host with the one address sends packets for the other to.
    fn station_for(&self, source: IpAddr, destination: IpAddr) -> Option<MacAddr> {
        if destination.is_multicast() {
            return MacAddr::of_group(destination);
        }
        if self.is_own_address(destination) {
            return Some(self.config.group_mac);
        }
        let mut subnets = self.config.subnets.iter();
        match subnets.find(|subnet| subnet.prefix.contains(source)) {
            Some(subnet) if !subnet.prefix.contains(destination) => {
                subnet.gateway.map(|_| self.config.group_mac)
            }
            _ => self.hosts.by_ip(destination),
        }
    }

    /// The controller's word about two hosts, if it knows the first one.
    fn pair(
        &mut self,
        at: Place,
        from: MacAddr,
        to: MacAddr,
        address: Option<IpAddr>,
    ) -> Option<Pair> {
        let source = self.hosts.get(from)?.clone();
        let routed = to == self.config.group_mac;
        let station = match routed {
            false => Some(to).filter(|to| *to != MacAddr::default()),
            true => address.and_then(|address| self.hosts.by_ip(address)),
        };
        let target = station.and_then(|mac| self.hosts.get(mac)).cloned();
        let names = |groups: &[u16]| groups.iter().map(|g| self.groups.name(*g).into()).collect();
        let to_groups = target.as_ref().map_or(vec![], |target| names(&target.groups));
        let mut pair = Pair {
            from,
            from_groups: names(&source.groups),
            address,
            to: station,
            to_groups,
            at: target.as_ref().map(|target| (self.id(target.at.node), target.at.port)),
            refused: None,
            rule: target.as_ref().and_then(|t| self.groups.rule_for(&source.groups, &t.groups)),
            routed,
        };
        pair.refused = match target {
            _ if self.scans.is_closed(at) => Some(Refusal::Scanning),
            None if !routed => Some(Refusal::UnknownTarget),
            None => {
                let action = address.map(|address| self.way(address).action);
                (action == Some(Action::Deliver)).then_some(Refusal::UnknownTarget)
            }
            Some(target) if !self.may_ask(&source, &target) => Some(Refusal::Forbidden),
            Some(_) if routed => None,
            Some(target) if target.at == at => Some(Refusal::NoPath),
            Some(target) => {
                let key = FlowKey { at, source: Some(from), destination: to };
                let has_path = self.topology.is_host_port(target.at)
                    && (self.flows.find(&key).is_some()
                        || !self.flows.routes(&self.topology, &key, target.at).is_empty());
                (!has_path).then_some(Refusal::NoPath)
            }
        };
        Some(pair)
    }

    /// The frame comes to a box: its node is asked. Returns its place among the boxes.
    fn enter_box(&mut self, now: Time, trace: u64, at: Place, frame: Vec<u8>) -> Option<usize> {
        let is_up = self.topology.node(at.node).up && self.sessions[at.node as usize].is_open;
        let answer = if is_up { Answer::Awaited } else { Answer::Down };
        let passed = Passed { node: self.id(at.node), port: at.port, frame, answer };
        let open = self.traces.open.get_mut(&trace)?;
        open.trace.boxes.push(passed);
        let place = open.trace.boxes.len() - 1;
        if is_up {
            self.traces.next += 1;
            let until = now + PATIENCE;
            let asked = Asked { trace, place, node: at.node, until, again: false };
            self.traces.asked.insert(self.traces.next, asked);
            self.ask_node(self.traces.next, asked);
            self.arm_traces();
        }
        Some(place)
    }

    fn ask_node(&mut self, question: u64, asked: Asked) {
        let open = self.traces.open.get(&asked.trace);
        let Some(passed) = open.and_then(|open| open.trace.boxes.get(asked.place)) else { return };
        let body = Explain { question, port: passed.port, frame: passed.frame.clone() };
        self.send(asked.node, 0, body);
    }

    fn arm_traces(&mut self) {
        let first = self.traces.asked.values().map(|asked| asked.until).min();
        self.rearm(first, Timer::Traces);
    }

    /// Nodes have not answered in time.
    pub(crate) fn traces_due(&mut self, now: Time) {
        let asked = self.traces.asked.iter().filter(|(_, asked)| asked.until <= now);
        let due: Vec<(u64, Asked)> = asked.map(|(question, asked)| (*question, *asked)).collect();
        for (question, asked) in due {
            if asked.again {
                self.traces.asked.remove(&question);
                self.set_answer(asked, Answer::Silent);
            } else {
                let asked = Asked { until: now + PATIENCE, again: true, ..asked };
                self.traces.asked.insert(question, asked);
                self.ask_node(question, asked);
            }
        }
        self.arm_traces();
        self.end_traces();
    }

    fn set_answer(&mut self, asked: Asked, answer: Answer) {
        let open = self.traces.open.get_mut(&asked.trace);
        if let Some(passed) = open.and_then(|open| open.trace.boxes.get_mut(asked.place)) {
            passed.answer = answer;
        }
    }

    /// A node has told what it would do.
    pub(crate) fn explained(&mut self, now: Time, node: u32, told: Explained) {
        let asked = self.traces.asked.get(&told.question).filter(|asked| asked.node == node);
        let Some(asked) = asked.copied() else { return self.dropped(Drop::UnexpectedBody) };
        self.traces.asked.remove(&told.question);
        let answer = self.follow(now, asked, told).unwrap_or(Answer::Malformed);
        self.set_answer(asked, answer);
        self.arm_traces();
        self.end_traces();
    }

    /// Follows the frames that leave a box. None if the answer makes no sense.
    fn follow(&mut self, now: Time, asked: Asked, told: Explained) -> Option<Answer> {
        let open = self.traces.open.get(&asked.trace)?;
        let frame = open.trace.boxes.get(asked.place)?.frame.clone();
        let steps = Step::read_all(&told.steps).ok()?;
        let mut leaves = Vec::new();
        for leaving in told.leaves {
            let rest = frame.get(usize::from(leaving.from)..)?;
            let frame = [&leaving.head[..], rest].concat();
            let from = Place { node: asked.node, port: leaving.port };
            let next = self.next_place(now, asked.trace, from, &frame, leaves.is_empty());
            leaves.push(Left {
                port: leaving.port,
                port_name: name(&leaving.port_name),
                frame,
                next,
            });
        }
        Some(Answer::Told { port_name: name(&told.port_name), steps, leaves, more: told.more })
    }

    /// Where a frame arrives that leaves a node by a port; the node there is asked.
    fn next_place(
        &mut self,
        now: Time,
        trace: u64,
        from: Place,
        frame: &[u8],
        is_first: bool,
    ) -> NextPlace {
        let edge = self.topology.edges(from.node).iter().find(|edge| edge.port == from.port);
        let Some(to) = edge.map(|edge| Place { node: edge.to, port: edge.peer_port }) else {
            return self.end_place(from, frame);
        };
        let node = self.id(to.node);
        let Some(open) = self.traces.open.get_mut(&trace) else { return NextPlace::NotFollowed };
        let mut boxes = open.trace.boxes.iter();
        if boxes.any(|b| (b.node, b.port) == (node, to.port) && b.frame == frame) {
            return NextPlace::Loop;
        }
        open.branches += u32::from(!is_first);
        let has_room = open.trace.boxes.len() < BOXES_MAX
            && open.branches <= BRANCHES_MAX
            && now < open.until
            && frame.len() <= FRAME_MAX + HEADERS_MAX;
        if !has_room {
            open.trace.more += 1;
            return NextPlace::NotFollowed;
        }
        let place = self.enter_box(now, trace, to, frame.to_vec());
        place.map_or(NextPlace::NotFollowed, NextPlace::Box)
    }

    /// Where a frame arrives that leaves the fabric.
    fn end_place(&self, from: Place, frame: &[u8]) -> NextPlace {
        let role = self.topology.node(from.node).ports.get(&from.port).map(|port| port.role);
        if role == Some(PortRole::Controller) {
            return NextPlace::Controller;
        }
        if !self.topology.is_host_port(from) {
            return NextPlace::NoCable;
        }
        let Some(to) = frame.first_chunk().copied().map(MacAddr) else {
            return NextPlace::Strangers;
        };
        let is_there = match to.is_multicast() {
            true => self.hosts.len_at(from) > 0,
            false => self.hosts.get(to).is_some_and(|host| host.at == from),
        };
        if is_there { NextPlace::Host(to) } else { NextPlace::Strangers }
    }

    /// Tells of the traces that are complete.
    fn end_traces(&mut self) {
        let is_awaited = |passed: &Passed| passed.answer == Answer::Awaited;
        let open = self.traces.open.iter();
        let ended = open.filter(|(_, open)| !open.trace.boxes.iter().any(is_awaited));
        let ended: Vec<u64> = ended.map(|(question, _)| *question).collect();
        for question in ended {
            if let Some(open) = self.traces.open.remove(&question) {
                self.output(crate::Output::Explained { question, told: Ok(open.trace) });
            }
        }
    }
}

/// A port's name as a node tells it: short, and of characters that can be shown.
fn name(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|c| c.is_ascii_graphic()).take(15).collect()
}
