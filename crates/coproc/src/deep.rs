//! The deep buffer of a box (`traffic-coprocessor.txt` §3.2): bursts wait in memory until their
//! port can send them. Long flows bypass the buffer, since deep queues give them nothing but delay.
//!
//! Each port has a small queue of its own. A packet that would make it long is *redirected* to the
//! deep buffer, and so are all that follow, until the deep buffer has emptied. Packets of the deep
//! buffer leave before those of the port's own queue, because they are older. All ports share one
//! budget. When it is spent, the port with the longest deep queue loses packets first.
//!
//! A flow is *long* after [`Settings::long_after`] bytes. A flow other than TCP must also have sent
//! without a pause for a second. Its packets wait in the port's own queue only, in which long flows
//! have a limit of their own.
//!
//! # No packet overtakes another of its flow
//!
//! A flow may have packets in the port's own queue, in the deep buffer, and in the queue of shaped
//! sources. Each packet knows which packets of the other queues must have left before it
//! ([`After`]). They all came before it, so packets cannot wait for each other in a circle.
//!
//! # Distance
//!
//! In a switching chip the deep buffer is on the other side of a link, and a redirection takes some
//! time to begin. [`Distance`] models both. On a box that does everything in software there is
//! none.
//!
//! Example: a port sends 1 Gbit/s, with a limit of 100 packets, and redirects from 80. 15 servers
//! answer at once with 10 packets each. 80 of them wait in the port's own queue, and 70 in the deep
//! buffer. All leave in the order in which they came.

mod flows;
mod line;

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use plexus_wire::{MacAddr, Time};

use self::flows::{Flows, Place};
use self::line::{Entry, Line, Queue};
use crate::lowrate::{self, Watch};

/// Packets of suspects may take this part of the budget, at each port.
const SHAPED_SHARE: u64 = 4;

/// Settings of a box's deep buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Bytes of packets that may wait in it. Zero: nothing is redirected.
    pub bytes: u64,
    /// Bytes after which a flow may be long.
    pub long_after: u64,
    /// Whether packets of a flow stay in order. Off, only to compare: as in the paper.
    pub keeps_order: bool,
    /// The way to the deep buffer, where there is one.
    pub distance: Option<Distance>,
    /// The defence against bursts of low average rate.
    pub lowrate: Option<lowrate::Settings>,
}

/// The way from a switching chip to its processor's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distance {
    /// From the decision to redirect to its effect. The same for a flow that becomes long.
    pub setup: Duration,
    /// How often the length of queues is read.
    pub poll: Duration,
    /// Rate of the link to the processor, in bits/s. All ports share it.
    pub bits_per_s: u64,
    /// Flows that the chip can send by themselves.
    pub rules: u32,
}

/// Settings of a port's queue. A super-packet counts as the packets that it is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Most packets in its own queue.
    pub limit: u32,
    /// Packets in its own queue from which on others are redirected.
    pub redirect: u32,
    /// Most packets of long flows in its own queue.
    pub long: u32,
    /// Its rate, if it has one, in bits/s.
    pub rate_bits_per_s: Option<u64>,
}

impl PortSettings {
    /// The paper's shares of a limit: redirected from 80 %, long flows to 50 %.
    pub fn new(limit: u32, rate_bits_per_s: Option<u64>) -> PortSettings {
        let share = |percent: u64| (u64::from(limit) * percent / 100).max(1) as u32;
        PortSettings { limit, redirect: share(80), long: share(50), rate_bits_per_s }
    }
}

/// A packet, as the deep buffer sees it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// A keyed hash of its flow.
    pub flow: u64,
    /// Its source.
    pub from: Source,
    /// Whether it is TCP, which slows down when packets are lost.
    pub is_tcp: bool,
    /// Its bytes on the cable.
    pub bytes: u32,
    /// Frames on the cable: a super-packet is cut into many.
    pub frames: u32,
}

/// A source of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The port that its packets come in by.
    pub port: u16,
    /// Its address.
    pub address: Address,
}

/// An address: that of the network, or else that of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// Of an IP packet.
    Ip(IpAddr),
    /// Of any other frame.
    Mac(MacAddr),
    /// Sources of a port beyond those that are told apart.
    Others,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(ip) => ip.fmt(f),
            Address::Mac(mac) => mac.fmt(f),
            Address::Others => f.write_str("others"),
        }
    }
}

/// The reason for which a packet is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The port's own queue is full.
    Full,
    /// The port's own queue has as many packets of long flows as it may have.
    Long,
    /// The budget is spent.
    Budget,
    /// The link to the processor is too slow.
    Link,
}

/// Counts of a port since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times that redirection began.
    pub redirections: u64,
    /// Packets redirected.
    pub redirected: u64,
    /// Of these, packets that a port with its own queue alone would have dropped.
    pub saved: u64,
    /// Packets of shaped sources.
    pub shaped: u64,
    /// Packets that have left the deep buffer, and the time that they spent there.
    pub delayed: u64,
    /// Nanoseconds in the deep buffer, of all packets that have left it.
    pub delay_ns: u64,
    /// The longest of these times, in nanoseconds.
    pub delay_max_ns: u64,
    /// Most bytes that the port had in the deep buffer.
    pub bytes_max: u64,
}

/// The state of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Packets in its own queue, and those of them that are of long flows.
    pub own: (u32, u32),
    /// Bytes in its own queue.
    pub own_bytes: u64,
    /// Packets in the deep buffer, and their bytes.
    pub deep: (u32, u64),
    /// Packets of shaped sources, and their bytes.
    pub shaped: (u32, u64),
    /// Whether packets are redirected.
    pub redirects: bool,
}

impl State {
    /// Bytes in all queues of the port.
    pub fn bytes(&self) -> u64 {
        self.own_bytes + self.deep.1 + self.shaped.1
    }
}

/// The queues of the ports of a box that have a deep one. `T` is the packet.
pub struct DeepBuffer<T> {
    settings: Settings,
    used: u64,
    lines: Vec<Option<Box<Line<T>>>>,
    flows: Flows,
    watch: Option<Watch>,
    /// When the link to the processor is free.
    link_free: Time,
}

/// Positions in the own queue of a port and in its deep one: the packets up to there must have left
/// before a packet may. The queue of shaped sources needs none, since a source is let go only when
/// that queue is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct After([u64; 2]);

impl<T> DeepBuffer<T> {
    /// A buffer without ports.
    pub fn new(settings: Settings) -> DeepBuffer<T> {
        DeepBuffer {
            used: 0,
            lines: Vec::new(),
            flows: Flows::default(),
            watch: settings.lowrate.map(Watch::new),
            link_free: Time::ZERO,
            settings,
        }
    }

    /// Follows other settings. Packets beyond a smaller budget leave in their turn.
    pub fn set_settings(&mut self, settings: Settings) {
        match (settings.lowrate, &mut self.watch) {
            (Some(lowrate), Some(watch)) => watch.set_settings(lowrate),
            (Some(lowrate), None) => {
                let mut watch = Watch::new(lowrate);
                for (port, line) in self.lines.iter().enumerate() {
                    if let Some(line) = line {
                        watch.set_port(port, line.settings.rate_bits_per_s);
                    }
                }
                self.watch = Some(watch);
            }
            // It ends when the packets of suspects have left.
            (None, Some(watch)) => watch.stop_shaping(),
            (None, None) => {}
        }
        self.settings = settings;
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// A port has a queue from now on, or another limit.
    pub fn set_port(&mut self, port: usize, settings: PortSettings) {
        if self.lines.len() <= port {
            self.lines.resize_with(port + 1, || None);
        }
        match &mut self.lines[port] {
            Some(line) => line.settings = settings,
            none => *none = Some(Box::new(Line::new(settings))),
        }
        if let Some(watch) = &mut self.watch {
            watch.set_port(port, settings.rate_bits_per_s);
        }
    }

    /// A port has no deep queue any more. It is forgotten when nothing waits there.
    pub fn remove_port(&mut self, port: usize) {
        let line =
            self.lines.get_mut(port).filter(|line| line.as_ref().is_some_and(|l| l.is_empty()));
        if let Some(line) = line {
            *line = None;
            // Positions of another line there would begin anew.
            self.flows.forget_port(port);
            if let Some(watch) = &mut self.watch {
                watch.remove_port(port);
            }
        }
    }

    /// A packet for a port that has a queue. Packets that have to go are given to `refused`, with
    /// their port: this one, or packets of the port with the longest deep queue.
    pub fn push(
        &mut self,
        now: Time,
        port: usize,
        arrival: &Arrival,
        packet: T,
        refused: &mut dyn FnMut(usize, T, Refusal),
    ) {
        let Some(line) = self.lines.get_mut(port).and_then(Option::as_mut) else {
            return refused(port, packet, Refusal::Full);
        };
        line.follow_rule(now);
        let (place, replaced) = self.flows.see(now, port, arrival, &self.settings);
        let flow = *self.flows.at(place);
        if let Some(Some(of)) = replaced.and_then(|of| self.lines.get_mut(of)) {
            of.long_flows -= 1;
        }
        let Some(line) = self.lines[port].as_mut() else { return };
        let is_long = flow.is_long(now);
        // It would wait behind a queue that is long, if there were no deep one.
        let finds_queue =
            line.own.frames >= line.settings.redirect || (line.redirects() && !is_long);
        let has_shaped = !line.shaped.is_empty();
        let is_shaped = self
            .watch
            .as_mut()
            .is_some_and(|watch| watch.see(now, port, arrival, is_long, finds_queue, has_shaped));
        let (bytes, frames) = (u64::from(arrival.bytes), arrival.frames.max(1));
        let after = After::default();
        let long = is_long.then_some((place, arrival.flow));
        let mut entry = Entry { packet, bytes, frames, after, since: now, ready: now, long };
        if is_shaped {
            return self.push_shaped(now, port, entry, refused);
        }
        if line.redirects() && !is_long {
            entry.after = self.settings.ordered(After([line.short.max(flow.own), 0]));
            match self.push_deep(now, port, arrival, place, entry, refused) {
                // Not a single packet has room: there is nothing to redirect to.
                Some(kept) => entry = kept,
                None => return,
            }
        }
        let Some(line) = self.lines[port].as_mut() else { return };
        let is_full = line.own.frames >= line.settings.limit;
        // Beyond the limit, a packet gets in if its flow has no more than its share then.
        let has_more = flow.waiting + frames > line.own_long / line.long_flows.max(1);
        if is_long && (is_full || line.own_long >= line.settings.long && has_more) {
            return refused(port, entry.packet, Refusal::Long);
        }
        if is_full {
            return refused(port, entry.packet, Refusal::Full);
        }
        let deep = if is_long { flow.deep } else { line.deep.last() };
        entry.after = self.settings.ordered(After([0, deep]));
        line.would_have_room(frames);
        line.own.push(entry);
        match is_long {
            true => {
                let flow = self.flows.at(place);
                line.own_long += frames;
                line.long_flows += u32::from(flow.waiting == 0);
                flow.waiting += frames;
                flow.own = line.own.last();
            }
            false => line.short = line.own.last(),
        }
        if !is_long && line.own.frames >= line.settings.redirect && self.settings.bytes > 0 {
            line.ask(now, self.settings.distance.as_ref());
        }
    }

    /// A packet of a suspect, which waits for the shaper. A quarter of the budget is for all of
    /// them.
    fn push_shaped(
        &mut self,
        now: Time,
        port: usize,
        mut entry: Entry<T>,
        refused: &mut dyn FnMut(usize, T, Refusal),
    ) {
        let is_many =
            |line: &Line<T>| line.shaped.bytes + entry.bytes > self.settings.bytes / SHAPED_SHARE;
        let is_many = self.lines[port].as_deref().is_none_or(is_many);
        if is_many || !self.make_room(now, port, entry.bytes, true, refused) {
            return refused(port, entry.packet, Refusal::Budget);
        }
        let Some(line) = self.lines[port].as_mut() else { return };
        entry.after = self.settings.ordered(After([line.own.last(), line.deep.last()]));
        self.used += entry.bytes;
        line.counts.shaped += 1;
        line.push_shaped(now, entry);
    }

    /// A redirected packet. It comes back if the deep buffer has no room even when it is empty.
    fn push_deep(
        &mut self,
        now: Time,
        port: usize,
        arrival: &Arrival,
        place: Place,
        mut entry: Entry<T>,
        refused: &mut dyn FnMut(usize, T, Refusal),
    ) -> Option<Entry<T>> {
        let line = self.lines[port].as_mut()?;
        let Some(ready) = take_link(&self.settings, &mut self.link_free, line, now, arrival) else {
            refused(port, entry.packet, Refusal::Link);
            return None;
        };
        if !self.make_room(now, port, entry.bytes, false, refused) {
            let line = self.lines[port].as_mut()?;
            if line.deep.is_empty() {
                line.give_up();
                return Some(entry);
            }
            refused(port, entry.packet, Refusal::Budget);
            return None;
        }
        let line = self.lines[port].as_mut()?;
        entry.ready = ready;
        self.used += entry.bytes;
        line.counts.redirected += 1;
        line.counts.saved += u64::from(!line.would_have_room(entry.frames));
        line.deep.push(entry);
        line.counts.bytes_max = line.counts.bytes_max.max(line.deep.bytes);
        self.flows.at(place).deep = line.deep.last();
        None
    }

    /// Makes room for a packet of a port: the port with most bytes gives up packets. If that is the
    /// port itself, its suspects do, for a packet of somebody else. False if there is no room.
    fn make_room(
        &mut self,
        now: Time,
        port: usize,
        bytes: u64,
        is_shaped: bool,
        refused: &mut dyn FnMut(usize, T, Refusal),
    ) -> bool {
        if bytes > self.settings.bytes {
            return false;
        }
        while self.used + bytes > self.settings.bytes {
            let own = self.lines[port].as_ref().map_or(0, |line| line.kept());
            let kept = |line: &Option<Box<Line<T>>>| line.as_ref().map_or(0, |line| line.kept());
            let longest = self.lines.iter().enumerate().max_by_key(|(_, line)| kept(line));
            let other = longest.filter(|(_, line)| kept(line) > own).map(|(longest, _)| longest);
            let loser = other.unwrap_or(port);
            let Some(line) = self.lines[loser].as_mut() else { return false };
            let evicted = match other {
                Some(_) => line.evict(),
                None if is_shaped => None,
                None => line.shaped.pop_last(),
            };
            let Some(entry) = evicted else { return false };
            if line.deep.is_empty() {
                line.end(now, self.settings.distance.as_ref());
            }
            self.used -= entry.bytes;
            refused(loser, entry.packet, Refusal::Budget);
        }
        true
    }

    /// The packet of a port whose turn it is, if one may leave by now.
    pub fn pop(&mut self, now: Time, port: usize) -> Option<T> {
        let line = self.lines.get_mut(port)?.as_mut()?;
        let shape = self.watch.as_ref().map(|watch| watch.settings().shape_bits_per_s);
        // Suspects get half of the port at most.
        let half = line.settings.rate_bits_per_s.map_or(u64::MAX, |rate| rate / 2);
        let (queue, entry) = line.pop(now, shape.map(|shape| shape.min(half)))?;
        if queue != Queue::Own {
            self.used -= entry.bytes;
        }
        if let (Queue::Own, Some(long)) = (queue, entry.long) {
            line.long_flows -= u32::from(self.flows.left(port, long, entry.frames));
        }
        // The burst is over, or there was none: the queue has gone down before it was redirected.
        if line.deep.is_empty() && line.own.frames < line.settings.redirect {
            line.end(now, self.settings.distance.as_ref());
        }
        Some(entry.packet)
    }

    /// Takes all packets of a port, in no order.
    pub fn take_all(&mut self, port: usize, mut taken: impl FnMut(T)) {
        let Some(line) = self.lines.get_mut(port).and_then(Option::as_mut) else { return };
        self.used -= line.kept();
        for entry in line.take_all() {
            if let Some(long) = entry.long {
                self.flows.left(port, long, entry.frames);
            }
            taken(entry.packet);
        }
    }

    /// When the next packet of a port may leave, as far as the buffer is concerned.
    pub fn next_deadline(&self, port: usize) -> Time {
        let line = self.lines.get(port).and_then(Option::as_ref);
        line.map_or(Time::FOREVER, |line| line.next_deadline())
    }

    /// Looks for suspects, and lets those go that have stopped. Call it some ten times a second.
    pub fn tick(&mut self, now: Time) {
        let mut lines = self.lines.iter().flatten();
        if self.settings.lowrate.is_none() && lines.all(|line| line.shaped.is_empty()) {
            self.watch = None;
        }
        let Some(watch) = &mut self.watch else { return };
        let lines = &self.lines;
        watch.tick(now, |port| {
            lines.get(port).and_then(Option::as_ref).is_some_and(|l| !l.shaped.is_empty())
        });
    }

    /// The state of a port.
    pub fn state(&self, port: usize) -> Option<State> {
        self.lines.get(port)?.as_ref().map(|line| line.state())
    }

    /// State and counts of all ports, by their numbers.
    pub fn ports(&self) -> impl Iterator<Item = Option<(State, Counts)>> {
        self.lines.iter().map(|line| line.as_ref().map(|line| (line.state(), line.counts)))
    }

    /// Flows that are long by now.
    pub fn long_flows(&self, now: Time) -> usize {
        self.flows.long(now)
    }

    /// The defence against low-rate bursts, where it is on.
    pub fn watch(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }
}

impl Settings {
    fn ordered(&self, after: After) -> After {
        if self.keeps_order { after } else { After::default() }
    }
}

/// When a packet that takes the link to the processor has arrived there; none if too many wait for
/// the link. A port's packets other than TCP may use twice its rate, for nothing honest is more
/// bursty than TCP's slow start (§3.2.1).
fn take_link<T>(
    settings: &Settings,
    link_free: &mut Time,
    line: &mut Line<T>,
    now: Time,
    arrival: &Arrival,
) -> Option<Time> {
    let Some(distance) = &settings.distance else { return Some(now) };
    let bytes = u64::from(arrival.bytes);
    let limit = u64::from(line.settings.limit) * u64::from(arrival.bytes);
    if *link_free > now + time_on(limit, distance.bits_per_s) {
        return None;
    }
    if let Some(rate) = line.settings.rate_bits_per_s.filter(|_| !arrival.is_tcp) {
        let rate = rate.saturating_mul(2);
        if line.others_free > now + time_on(limit, rate) {
            return None;
        }
        line.others_free = line.others_free.max(now) + time_on(bytes, rate);
    }
    *link_free = (*link_free).max(now) + time_on(bytes, distance.bits_per_s);
    Some(*link_free)
}

/// The time that bytes take at a rate.
fn time_on(bytes: u64, bits_per_s: u64) -> Duration {
    let bits = u128::from(bytes) * 8 * 1_000_000_000;
    Duration::from_nanos((bits / u128::from(bits_per_s.max(1))) as u64)
}

#[cfg(test)]
mod tests;
