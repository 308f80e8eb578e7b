//! A fast table without a kernel, for tests: the test hands it the frames of its ports.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plexus_wire::fabric::{Passing, ROUTER_HOP};
use plexus_wire::{MacAddr, ipv4, ipv6};

use super::{
    Action, Counts, FabricLink, FastTable, Flow, Front, Held, KernelEnd, Key, Routed, RuleId, Step,
    Tag,
};
use crate::packet::PortId;

/// The fate of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It left by this port, in this form.
    Sent(PortId, Vec<u8>),
    /// It is to come in by the port's back-end.
    Passed,
    /// It was held back.
    Dropped,
}

/// A table, which a test shares with the worker that owns it.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    rules: BTreeMap<Key, (RuleId, Action)>,
    slots: Vec<Slot>,
    open: Vec<PortId>,
    /// How often each port has been closed.
    closed: BTreeMap<PortId, u32>,
    links: BTreeMap<PortId, FabricLink>,
    /// Of which ports samples are taken, and how.
    sampled: BTreeMap<PortId, Sampled>,
    /// Refuses further rules.
    refuses: bool,
    /// All rules have these counts, whatever they did.
    lie: Option<Counts>,
}

/// The samples of a port: each so many packets give one, without chance.
#[derive(Debug, Default)]
struct Sampled {
    one_in: Option<NonZeroU32>,
    packets: u32,
    taken: VecDeque<Vec<u8>>,
    missed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    in_use: bool,
    counts: Counts,
    passed: u64,
    settled: Option<u64>,
    holds: Held,
    /// The output port, and how often it had been closed.
    to: (PortId, u32),
}

impl Memory {
    /// A table for this many rules, with these ports open.
    pub fn new(capacity: usize, ports: &[PortId]) -> Memory {
        let slots = vec![Slot::default(); capacity];
        let inner = Inner { slots, open: ports.to_vec(), ..Inner::default() };
        Memory { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Whether it refuses further rules.
    pub fn refuse(&self, on: bool) {
        self.inner().refuses = on;
    }

    /// Makes it say that all rules have these counts, or tell the truth again.
    pub fn lie(&self, counts: Option<Counts>) {
        self.inner().lie = counts;
    }

    /// [Opens](FastTable::open) a port that has no kernel.
    pub fn open_without_kernel(&self, port: PortId) {
        self.inner().open.push(port);
    }

    /// A packet that all rules had let through is counted only now, as the kernel may do.
    pub fn count_late(&self) {
        self.inner().slots.iter_mut().for_each(|slot| slot.passed += 1);
    }

    /// The rules in force.
    pub fn rules(&self) -> Vec<(Key, Action)> {
        self.inner().rules.iter().map(|(key, (_, action))| (*key, *action)).collect()
    }

    /// A sample of a port's packets that no back-end has taken yet: the whole frame.
    pub fn take_sample(&self, port: PortId) -> Option<Vec<u8>> {
        self.inner().sampled.get_mut(&port)?.taken.pop_front()
    }

    /// Of how many packets of a port one gives a sample.
    pub fn samples(&self, port: PortId) -> Option<NonZeroU32> {
        self.inner().sampled.get(&port)?.one_in
    }

    /// So many samples of a port were not taken.
    pub fn miss_samples(&self, port: PortId, count: u64) {
        self.inner().sampled.entry(port).or_default().missed += count;
    }

    /// A frame comes in by a port.
    pub fn receive(&self, port: PortId, frame: &[u8]) -> Fate {
        self.take(port, frame, false)
    }

    /// The same for a super-packet.
    pub fn receive_super(&self, port: PortId, frame: &[u8]) -> Fate {
        self.take(port, frame, true)
    }

    fn take(&self, port: PortId, frame: &[u8], is_super: bool) -> Fate {
        let inner = &mut *self.inner();
        let Some(key) = inner.key_of(port, frame) else { return Fate::Passed };
        let Some((id, action)) = inner.rules.get(&key).copied() else { return Fate::Passed };
        if !inner.open.contains(&port) || !inner.is_valid(id) {
            return Fate::Passed;
        }
        let slot = &mut inner.slots[id.0 as usize];
        let (is_tagged, packet_at) = match key {
            Key::Flow(flow) | Key::Routed(Routed { flow, .. }) if flow.tag.is_some() => (true, 18),
            _ => (false, 14),
        };
        // Bytes that are taken off in front.
        let before = match key {
            Key::Hop { .. } => 0,
            key if key.is_in_fabric() => headers_len(frame),
            _ => 0,
        };
        let is_routed = matches!(key, Key::Routed(_));
        let step = action.step.filter(|_| is_routed);
        let waits = match step.map(|step| fits(&frame[before + packet_at..], &step)) {
            None => false,
            Some(None) => return Fate::Passed,
            Some(Some(fits)) => !fits,
        };
        if slot.settled != Some(slot.passed) || waits {
            if slot.holds == Held::All || is_super && slot.holds == Held::SuperPackets {
                slot.counts.held += 1;
                return Fate::Dropped;
            }
            slot.passed += 1;
            return Fate::Passed;
        }
        slot.counts.packets += 1;
        let tag_len = if is_tagged { 4 } else { 0 };
        slot.counts.bytes += (frame.len() - tag_len) as u64;
        if let Some(sampled) = inner.sampled.get_mut(&port) {
            sampled.see(frame);
        }
        let mut frame = frame.to_vec();
        if let (Key::Hop { .. }, Some(front)) = (key, action.front)
            && let Some((outer, inner_frame)) = frame.split_first_chunk_mut()
            && let Some(passing) = Passing::read(inner_frame)
        {
            passing.rotate(port as u8);
            *outer = front.link();
        }
        frame.drain(..before);
        slot.counts.taken_off += before as u64;
        if let Some(step) = action.step {
            frame[..12].copy_from_slice(&step.addresses);
        }
        if step.is_some() {
            take_hop(&mut frame[packet_at..]);
        }
        if let (Key::Flow(_) | Key::Routed(_), Some(front)) = (key, action.front) {
            frame.splice(..0, front.bytes().iter().copied());
        }
        if matches!(action.tag, Tag::Pop | Tag::Swap(_)) {
            frame.drain(12..16);
        }
        if let Tag::Push(tci) | Tag::Swap(tci) = action.tag {
            let [a, b] = tci.to_be_bytes();
            frame.splice(12..12, [0x81, 0, a, b]);
        }
        Fate::Sent(action.out_port, frame)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sampled {
    fn see(&mut self, frame: &[u8]) {
        let Some(one_in) = self.one_in else { return };
        self.packets += 1;
        if self.packets >= one_in.get() {
            self.packets = 0;
            self.taken.push_back(frame.to_vec());
        }
    }
}

impl Inner {
    fn key_of(&self, in_port: PortId, frame: &[u8]) -> Option<Key> {
        let from_node = self.links.get(&in_port).filter(|link| frame.starts_with(&link.back));
        if from_node.is_none() {
            let flow = Flow::of(in_port, frame)?;
            let pair = Routed::of(flow, frame);
            let with_ports = pair.and_then(|pair| pair.with_ports_of(frame));
            let routed = [pair, with_ports].into_iter().flatten().map(Key::Routed);
            let has_rule = |key: &Key| self.rules.contains_key(key);
            return routed.into_iter().find(has_rule).or(Some(Key::Flow(flow)));
        }
        let mut bytes = frame[14..].to_vec();
        let passing = Passing::read(&mut bytes)?;
        let (hop, len, is_routed) = (passing.hop(), passing.header_len(), passing.is_routed());
        let key = Key::Hop { in_port, hop };
        if self.rules.contains_key(&key) {
            return Some(key);
        }
        if hop == ROUTER_HOP {
            let frame = bytes.get(len..)?;
            let pair = Routed::of(Flow::of(in_port, frame)?, frame)?.from_node();
            let routed = [Some(pair), pair.with_ports_of(frame)].into_iter().flatten();
            return routed.map(Key::Routed).find(|key| self.rules.contains_key(key));
        }
        let (head, packet) = bytes.get(len..)?.split_first_chunk::<14>()?;
        let header_len = match head[12..] {
            [8, 0] => ipv4::HEADER_LEN,
            [0x86, 0xDD] => ipv6::HEADER_LEN,
            _ => return None,
        };
        let destination = MacAddr(*head.first_chunk()?);
        let delivery = Key::Delivery { in_port, hop, destination, is_routed };
        (packet.len() >= header_len).then_some(delivery)
    }

    /// Whether a pair of addresses has rules with ports, and this one has none, or the reverse.
    fn has_other_kind(&self, key: &Routed) -> bool {
        let is_other = |known: &Key| {
            matches!(known, Key::Routed(known)
                if known.without_ports() == key.without_ports()
                    && known.ports.is_some() != key.ports.is_some())
        };
        self.rules.keys().any(is_other)
    }

    /// Whether the frames of a flow have rules by their addresses.
    fn leads_on(&self, flow: &Flow) -> bool {
        let leads_on = |known: &Key| match known {
            Key::Routed(known) => known.flow == *flow && !known.is_from_node,
            _ => false,
        };
        self.rules.keys().any(leads_on)
    }

    fn closed(&self, port: PortId) -> u32 {
        self.closed.get(&port).copied().unwrap_or(0)
    }

    fn is_valid(&self, id: RuleId) -> bool {
        let (port, closed) = self.slots[id.0 as usize].to;
        self.open.contains(&port) && self.closed(port) == closed
    }
}

/// Bytes before a host's frame: the Ethernet header of the link, and the fabric's header.
fn headers_len(frame: &[u8]) -> usize {
    let mut bytes = frame[14..].to_vec();
    14 + Passing::read(&mut bytes).map_or(0, |frame| frame.header_len())
}

/// Whether a router sends an IP packet on as it is, but for its time to live; none if not at all.
fn fits(packet: &[u8], step: &Step) -> Option<bool> {
    if packet[0] >> 4 == 6 {
        let len = ipv6::HEADER_LEN + ipv6::Packet::new_checked(packet).ok()?.payload().len();
        return (packet[7] > 1).then_some(len <= step.mtu.into());
    }
    if matches!(packet[0], 0x46..=0x4F) && packet[8] > 1 {
        return Some(false);
    }
    let ip = ipv4::Packet::new_checked(packet).ok().filter(|ip| ip.checksum_ok())?;
    (packet[8] > 1).then_some(ipv4::HEADER_LEN + ip.payload().len() <= step.mtu.into())
}

fn take_hop(packet: &mut [u8]) {
    if packet[0] >> 4 == 6 {
        packet[7] -= 1;
        return;
    }
    packet[8] -= 1;
    packet[10..12].fill(0);
    let sum = plexus_wire::checksum::checksum(&packet[..ipv4::HEADER_LEN]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

impl FastTable for Memory {
    fn insert(&mut self, key: &Key, action: &Action) -> io::Result<RuleId> {
        if !action.is_for(key) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut inner = self.inner();
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let free = inner.slots.iter().position(|slot| !slot.in_use).ok_or_else(full)?;
        if inner.refuses {
            return Err(full());
        }
        if ![key.in_port(), action.out_port].iter().all(|port| inner.open.contains(port)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let is_shut = match key {
            Key::Routed(key) => inner.has_other_kind(key),
            Key::Flow(flow) => inner.leads_on(flow),
            _ => false,
        };
        if is_shut {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let link = inner.links.get(&action.out_port);
        let takes = |link: &FabricLink, front: Front| {
            link.out == front.link() && (key.is_in_fabric() || link.takes_owed)
        };
        if action.front.is_some_and(|front| link.is_none_or(|link| !takes(link, front))) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let id = RuleId(free as u32);
        let to = (action.out_port, inner.closed(action.out_port));
        inner.slots[free] = Slot { in_use: true, to, ..Slot::default() };
        inner.rules.insert(*key, (id, *action));
        Ok(id)
    }

    fn remove(&mut self, key: &Key, id: RuleId) {
        let mut inner = self.inner();
        if inner.rules.get(key).is_some_and(|(its, _)| *its == id) {
            inner.rules.remove(key);
        }
    }

    fn forget(&mut self, id: RuleId) {
        self.inner().slots[id.0 as usize].in_use = false;
    }

    fn read(&self, id: RuleId) -> Counts {
        let inner = self.inner();
        inner.lie.unwrap_or(inner.slots[id.0 as usize].counts)
    }

    fn passed(&self, id: RuleId) -> u64 {
        self.inner().slots[id.0 as usize].passed
    }

    fn settle(&self, id: RuleId, passed: u64) {
        self.inner().slots[id.0 as usize].settled = Some(passed);
    }

    fn hold(&self, id: RuleId, held: Held) {
        self.inner().slots[id.0 as usize].holds = held;
    }

    fn open(&mut self, port: PortId, _: KernelEnd<'_>) -> io::Result<()> {
        self.open_without_kernel(port);
        Ok(())
    }

    fn sample(&mut self, port: PortId, one_in: Option<NonZeroU32>) -> io::Result<()> {
        self.inner().sampled.entry(port).or_default().one_in = one_in;
        Ok(())
    }

    fn missed_samples(&self, port: PortId) -> u64 {
        self.inner().sampled.get(&port).map_or(0, |sampled| sampled.missed)
    }

    fn set_link(&mut self, port: PortId, link: &FabricLink) -> io::Result<()> {
        self.inner().links.insert(port, *link);
        Ok(())
    }

    fn close(&mut self, port: PortId) {
        let mut inner = self.inner();
        inner.links.remove(&port);
        inner.open.retain(|open| *open != port);
        *inner.closed.entry(port).or_default() += 1;
    }

    fn detach(&mut self, port: PortId) {
        self.close(port);
    }

    fn is_valid(&self, id: RuleId) -> bool {
        self.inner().is_valid(id)
    }

    fn sends(&self, port: PortId) -> bool {
        self.is_open(port)
    }

    fn takes_owed(&self, port: PortId) -> bool {
        self.inner().links.get(&port).is_some_and(|link| link.takes_owed)
    }

    fn is_open(&self, port: PortId) -> bool {
        self.inner().open.contains(&port)
    }
}
