//! The fast table in the kernel, by BPF programs at the traffic-control hook (`tcx`, Linux 6.6).
//! Packets keep what they owe their device: super-packets and unfinished checksums pass as they
//! are. It works on every device that a packet socket works on, and needs that socket: its filter
//! is half of the table ([`program`]).
//!
//! When this process ends, however it ends, the kernel detaches the programs and forgets the rules.

mod program;
mod routed;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use self::program::{KEY_LEN, Maps, SCRATCH_WORDS, VALUE_WORDS, of_port, word};
use super::{Action, Counts, FabricLink, FastTable, KernelEnd, Key, Routed, RuleId};
use crate::bpf::{Map, Place, Program};
use crate::packet::PortId;

/// A settled count that no rule reaches: it has not been settled.
const NEVER: u64 = u64::MAX;

/// The table of one box.
#[derive(Debug)]
struct Shared {
    maps: Maps,
    filter: Program,
    at_hook: Program,
}

/// One worker's part of the table.
#[derive(Debug)]
pub struct Tcx {
    shared: Arc<Shared>,
    /// The number of this worker's first rule, and those that are free.
    first: u32,
    free: Vec<u32>,
    ports: BTreeMap<PortId, Attached>,
    /// Doors to rules of routed flows: from frames to pairs of addresses, and from these to ports.
    doors: BTreeMap<Key, Door>,
    /// Doors that were made so far.
    doors_made: u32,
    /// By rule: the output port, and how often it had been closed.
    made: Vec<(PortId, u32)>,
}

/// A port whose device has the program. Attaching and detaching take the kernel some 10 ms each, in
/// which this thread waits. So the program stays while the port is closed.
#[derive(Debug)]
struct Attached {
    device: u32,
    is_open: bool,
    /// The program does not get its packets any more.
    is_lost: bool,
    /// If it leads to a fabric node.
    link_to: Option<FabricLink>,
    /// Closing it detaches the program.
    _program: OwnedFd,
}

/// The way to rules, or to other doors.
#[derive(Clone, Copy, Debug)]
struct Door {
    /// No other of the box has it.
    number: u64,
    /// Rules and doors behind it.
    behind: usize,
}

impl Tcx {
    /// A table for a box with as many ports, of which each worker gets a part for as many rules.
    ///
    /// # Errors
    /// When the kernel is older than 6.6 or this process may not load programs (CAP_BPF,
    /// CAP_NET_ADMIN).
    pub fn parts(workers: usize, rules: usize, ports: usize) -> io::Result<Vec<Tcx>> {
        let all = workers * rules;
        let count =
            |of: usize| u32::try_from(of).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        let words = VALUE_WORDS as u32;
        let maps = Maps {
            // A link of the fabric, and a door for each rule of a routed flow, have an entry too.
            rules: Map::hash(KEY_LEN as u32, words, count(all + ports)?)?,
            // A door for each rule with ports.
            routed: Map::hash(routed::KEY_LEN as u32, words, count(2 * all)?)?,
            counts: Map::array(word::COUNT, all)?,
            ports: Map::array(of_port::COUNT, ports)?,
            scratch: Map::per_processor(SCRATCH_WORDS)?,
        };
        let filter = Program::load_for(Place::Socket, "plexus_filter", program::filter(&maps))?;
        let at_hook = Program::load_for(Place::Ingress, "plexus_fast", program::at_hook(&maps))?;
        let shared = Arc::new(Shared { maps, filter, at_hook });
        let part = |worker: usize| {
            let first = (worker * rules) as u32;
            // The lowest number is taken first.
            let free = (first..first + rules as u32).rev().collect();
            let (shared, made) = (shared.clone(), vec![(0, 0); rules]);
            let (ports, doors) = (BTreeMap::new(), BTreeMap::new());
            Tcx { shared, first, free, ports, doors, doors_made: 0, made }
        };
        Ok((0..workers).map(part).collect())
    }

    fn word(&self, id: RuleId, word: usize) -> u64 {
        self.shared.maps.counts.value(id.0 as usize)[word].load(Acquire)
    }

    fn set_word(&self, id: RuleId, word: usize, value: u64) {
        self.shared.maps.counts.value(id.0 as usize)[word].store(value, Release);
    }

    /// A word of a port; zero for one that there is not.
    fn port(&self, port: PortId, word: usize) -> u64 {
        let ports = &self.shared.maps.ports;
        let has = usize::from(port) < ports.count();
        if has { ports.value(port.into())[word].load(Acquire) } else { 0 }
    }

    fn set_port(&self, port: PortId, word: usize, value: u64) {
        let ports = &self.shared.maps.ports;
        if usize::from(port) < ports.count() {
            ports.value(port.into())[word].store(value, Release);
        }
    }

    /// How often a port has been closed, as rules have it.
    fn closed(&self, port: PortId) -> u32 {
        self.port(port, of_port::CLOSED) as u32
    }

    /// Where a rule's entry of `made` is.
    fn place(&self, id: RuleId) -> usize {
        id.0.wrapping_sub(self.first) as usize
    }

    /// Makes a rule of a routed flow, and the doors to it that there are not.
    fn set_routed(&mut self, device: u32, key: &Routed, value: &[u8]) -> io::Result<()> {
        let door = self.enter(device, &Key::Flow(key.flow), 0)?;
        let made = match &key.ports {
            None => self.shared.maps.routed.add(&routed::key(door, key), value),
            Some(ports) => self.set_with_ports(device, door, key, &routed::ports(ports), value),
        };
        if made.is_err() {
            self.leave(device, &Key::Flow(key.flow), 0);
        }
        made
    }

    fn set_with_ports(
        &mut self,
        device: u32,
        door: u64,
        key: &Routed,
        ports: &routed::Rest,
        value: &[u8],
    ) -> io::Result<()> {
        let pair = Key::Routed(key.without_ports());
        let inner = self.enter(device, &pair, door)?;
        let made = self.shared.maps.routed.add(&routed::key_of(inner, ports), value);
        if made.is_err() {
            self.leave(device, &pair, door);
        }
        made
    }

    /// Removes a rule of a routed flow, and the doors to it that lead to no other.
    fn remove_routed(&mut self, device: u32, key: &Routed) {
        let Some(door) = self.doors.get(&Key::Flow(key.flow)).map(|door| door.number) else {
            return;
        };
        let maps = &self.shared.maps;
        match &key.ports {
            None => drop(maps.routed.remove(&routed::key(door, key))),
            Some(ports) => {
                let pair = Key::Routed(key.without_ports());
                if let Some(inner) = self.doors.get(&pair).map(|door| door.number) {
                    let _ = maps.routed.remove(&routed::key_of(inner, &routed::ports(ports)));
                    self.leave(device, &pair, door);
                }
            }
        }
        self.leave(device, &Key::Flow(key.flow), 0);
    }

    /// The number of the door at a key, which is made if there is none. `outer`: the number of the
    /// door before it, for a pair of addresses.
    fn enter(&mut self, device: u32, key: &Key, outer: u64) -> io::Result<u64> {
        if let Some(door) = self.doors.get_mut(key) {
            door.behind += 1;
            return Ok(door.number);
        }
        let number = u64::from(self.first) << 32 | u64::from(self.doors_made);
        let (maps, door) = (&self.shared.maps, program::door(number));
        match key {
            Key::Routed(pair) => maps.routed.add(&routed::key(outer, pair), &door)?,
            _ => maps.rules.add(&program::key(device, key), &door)?,
        }
        self.doors_made = self.doors_made.wrapping_add(1);
        self.doors.insert(*key, Door { number, behind: 1 });
        Ok(number)
    }

    /// Something behind a door is gone. The last one takes the door with it.
    fn leave(&mut self, device: u32, key: &Key, outer: u64) {
        let Some(door) = self.doors.get_mut(key) else { return };
        door.behind -= 1;
        if door.behind > 0 {
            return;
        }
        self.doors.remove(key);
        let maps = &self.shared.maps;
        let _ = match key {
            Key::Routed(pair) => maps.routed.remove(&routed::key(outer, pair)),
            _ => maps.rules.remove(&program::key(device, key)),
        };
    }

    /// The Ethernet header of a fabric port's frames, in two words; zeroes for other ports.
    fn set_header(&self, port: PortId, header: &[u8; 14]) {
        let [first, last] = header_words(header);
        // The first tells that both are there.
        self.set_port(port, of_port::HEADER + 1, last);
        self.set_port(port, of_port::HEADER, first);
    }
}

fn header_words(header: &[u8; 14]) -> [u64; 2] {
    let mut bytes = [0; 16];
    bytes[..14].copy_from_slice(header);
    program::words(&bytes)
}

/// Sends every packet that a device receives out by another, as long as what it returns is kept:
/// the least that a fast table can cost.
///
/// # Errors
/// As for [`Tcx::parts`].
pub fn redirect(from: u32, to: u32) -> io::Result<OwnedFd> {
    let program = Program::load_for(Place::Ingress, "plexus_bare", program::bare(to))?;
    program.attach_to_ingress(from)
}

impl FastTable for Tcx {
    fn insert(&mut self, key: &Key, action: &Action) -> io::Result<RuleId> {
        let device = self.ports.get(&key.in_port()).map(|port| port.device);
        let device = device.ok_or(io::ErrorKind::NotFound)?;
        let number = *self.free.last().ok_or(io::ErrorKind::StorageFull)?;
        let id = RuleId(number);
        (0..word::COUNT).for_each(|word| self.set_word(id, word, 0));
        self.set_word(id, word::SETTLED, NEVER);
        // Read before the port: if it is closed and opened in between, the rule is void.
        let closed = self.closed(action.out_port);
        let has_header = match &action.header {
            None => true,
            Some(header) => {
                let words = [0, 1].map(|n| self.port(action.out_port, of_port::HEADER + n));
                words == header_words(header)
            }
        };
        if self.port(action.out_port, of_port::OUT) == 0 || !has_header {
            return Err(io::ErrorKind::NotFound.into());
        }
        for (word, value) in (word::STEP..).zip(program::step(action.step.as_ref())) {
            self.set_word(id, word, value);
        }
        let value = program::value(number, key, action, closed);
        match key {
            Key::Routed(flow) => self.set_routed(device, flow, &value)?,
            // A door in its place would be lost.
            Key::Flow(_) if self.doors.contains_key(key) => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            _ => self.shared.maps.rules.set(&program::key(device, key), &value)?,
        }
        self.free.pop();
        let place = self.place(id);
        self.made[place] = (action.out_port, closed);
        Ok(id)
    }

    fn remove(&mut self, key: &Key, id: RuleId) {
        // A rule that stays because the kernel refuses forwards nothing more.
        self.set_word(id, word::SETTLED, NEVER);
        self.set_word(id, word::HOLDS, 0);
        let Some(device) = self.ports.get(&key.in_port()).map(|port| port.device) else { return };
        match key {
            Key::Routed(flow) => self.remove_routed(device, flow),
            _ => drop(self.shared.maps.rules.remove(&program::key(device, key))),
        }
    }

    fn forget(&mut self, id: RuleId) {
        self.free.push(id.0);
    }

    fn read(&self, id: RuleId) -> Counts {
        Counts {
            packets: self.word(id, word::PACKETS),
            bytes: self.word(id, word::BYTES),
            held: self.word(id, word::HELD),
        }
    }

    fn passed(&self, id: RuleId) -> u64 {
        self.word(id, word::PASSED)
    }

    fn settle(&self, id: RuleId, passed: u64) {
        self.set_word(id, word::SETTLED, passed);
    }

    fn hold(&self, id: RuleId, on: bool) {
        self.set_word(id, word::HOLDS, on.into());
    }

    fn open(&mut self, port: PortId, end: KernelEnd<'_>) -> io::Result<()> {
        if usize::from(port) >= self.shared.maps.ports.count() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if self.ports.contains_key(&port) && !self.is_open(port) {
            // So that it is known whether it was lost.
            self.close(port);
        }
        let is_of_use = |at: &Attached| at.device == end.index && !at.is_lost;
        if !self.ports.get(&port).is_some_and(is_of_use) {
            self.detach(port);
            let program =
                self.shared.at_hook.attach_to_ingress(end.index).inspect_err(|error| {
                    tracing::debug!(device = end.index, %error, "no fast table for this device");
                })?;
            let (device, is_open, is_lost, link_to) = (end.index, false, false, None);
            let at = Attached { device, is_open, is_lost, link_to, _program: program };
            self.ports.insert(port, at);
        }
        self.shared.filter.filter(end.socket)?;
        let longest = u32::try_from(end.max_frame).unwrap_or(u32::MAX);
        self.set_port(port, of_port::OUT, u64::from(end.index) | u64::from(longest) << 32);
        self.set_port(port, of_port::IN, 1);
        self.ports.entry(port).and_modify(|at| at.is_open = true);
        Ok(())
    }

    fn set_link(&mut self, port: PortId, link: &FabricLink) -> io::Result<()> {
        let at = self.ports.get_mut(&port).ok_or(io::ErrorKind::NotFound)?;
        let (key, value) = program::link(at.device, link);
        self.shared.maps.rules.set(&key, &value)?;
        at.link_to = Some(*link);
        self.set_header(port, &link.out);
        Ok(())
    }

    fn close(&mut self, port: PortId) {
        let was_lost = self.port(port, of_port::IN) == 0;
        let Some(at) = self.ports.get_mut(&port).filter(|at| at.is_open) else { return };
        if was_lost {
            tracing::warn!(
                device = at.device,
                "the fast table's program no longer gets the packets of this device: it was \
                 detached, or another program takes them before it"
            );
        }
        (at.is_open, at.is_lost) = (false, was_lost);
        if let Some(link) = at.link_to.take() {
            let _ = self.shared.maps.rules.remove(&program::link(at.device, &link).0);
        }
        self.set_port(port, of_port::IN, 0);
        self.set_port(port, of_port::OUT, 0);
        self.set_header(port, &[0; 14]);
        let closed = self.closed(port).wrapping_add(1);
        self.set_port(port, of_port::CLOSED, closed.into());
    }

    fn detach(&mut self, port: PortId) {
        self.close(port);
        self.ports.remove(&port);
        self.doors.retain(|key, _| key.in_port() != port);
    }

    fn is_valid(&self, id: RuleId) -> bool {
        let made = self.made.get(self.place(id));
        made.is_some_and(|(port, closed)| {
            self.closed(*port) == *closed && self.port(*port, of_port::OUT) != 0
        })
    }

    fn is_open(&self, port: PortId) -> bool {
        self.ports.contains_key(&port) && self.port(port, of_port::IN) != 0
    }
}
