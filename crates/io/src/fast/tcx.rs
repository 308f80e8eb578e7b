//! The fast table in the kernel, by BPF programs at the traffic-control hook (`tcx`, Linux 6.6).
//! Packets keep what they owe their device: super-packets and unfinished checksums pass as they
//! are. It works on every device that a packet socket works on, and needs that socket: its filter
//! is half of the table ([`program`]).
//!
//! When this process ends, however it ends, the kernel detaches the programs and forgets the rules.

mod program;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use self::program::{KEY_LEN, Maps, SCRATCH_WORDS, VALUE_WORDS, of_port, word};
use super::{Action, Counts, FabricLink, FastTable, KernelEnd, Key, RuleId};
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
    /// Numbers of rules that are free, out of those that are this worker's.
    free: Vec<u32>,
    capacity: usize,
    ports: BTreeMap<PortId, OpenPort>,
    /// The output port of each rule, and how often it had been closed.
    made: BTreeMap<RuleId, (PortId, u32)>,
}

/// A port whose packets are forwarded.
#[derive(Debug)]
struct OpenPort {
    device: u32,
    /// If it leads to a fabric node.
    link_to: Option<FabricLink>,
    /// Closing it detaches the program.
    _link: OwnedFd,
}

impl Tcx {
    /// A table for a box with as many ports, of which each worker gets a part for as many rules.
    ///
    /// # Errors
    /// When the kernel is older than 6.6 or this process may not load programs (CAP_BPF,
    /// CAP_NET_ADMIN).
    pub fn parts(workers: usize, rules: usize, ports: usize) -> io::Result<Vec<Tcx>> {
        let all = workers * rules;
        // Each link of the fabric has an entry too.
        let count =
            u32::try_from(all + ports).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let maps = Maps {
            rules: Map::hash(KEY_LEN as u32, VALUE_WORDS as u32, count)?,
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
            let (shared, ports, made) = (shared.clone(), BTreeMap::new(), BTreeMap::new());
            Tcx { shared, free, capacity: rules, ports, made }
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
    fn capacity(&self) -> usize {
        self.capacity
    }

    fn insert(&mut self, key: &Key, action: &Action) -> io::Result<RuleId> {
        let device = self.ports.get(&key.in_port()).map(|port| port.device);
        let device = device.ok_or(io::ErrorKind::NotFound)?;
        let number = *self.free.last().ok_or(io::ErrorKind::StorageFull)?;
        let id = RuleId(number);
        (0..word::COUNT).for_each(|word| self.set_word(id, word, 0));
        self.set_word(id, word::SETTLED, NEVER);
        let closed = self.closed(action.out_port);
        if self.port(action.out_port, of_port::OUT) == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        let value = program::value(number, key, action, closed);
        self.shared.maps.rules.set(&program::key(device, key), &value)?;
        self.free.pop();
        self.made.insert(id, (action.out_port, closed));
        Ok(id)
    }

    fn remove(&mut self, key: &Key, id: RuleId) {
        // A rule that stays because the kernel refuses forwards nothing more.
        self.set_word(id, word::SETTLED, NEVER);
        if let Some(port) = self.ports.get(&key.in_port()) {
            let _ = self.shared.maps.rules.remove(&program::key(port.device, key));
        }
    }

    fn forget(&mut self, id: RuleId) {
        self.made.remove(&id);
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

    fn hold(&self, id: RuleId) {
        self.set_word(id, word::HOLDS, 1);
    }

    fn open(&mut self, port: PortId, end: KernelEnd<'_>) -> io::Result<()> {
        if usize::from(port) >= self.shared.maps.ports.count() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let is_same = self.ports.get(&port).is_some_and(|open| open.device == end.index);
        if !is_same || !self.is_open(port) {
            self.close(port);
            let link = self.shared.at_hook.attach_to_ingress(end.index).inspect_err(|error| {
                tracing::debug!(device = end.index, %error, "no fast table for this device");
            })?;
            self.ports.insert(port, OpenPort { device: end.index, link_to: None, _link: link });
        }
        self.shared.filter.filter(end.socket)?;
        let longest = u32::try_from(end.max_frame).unwrap_or(u32::MAX);
        self.set_port(port, of_port::OUT, u64::from(end.index) | u64::from(longest) << 32);
        self.set_port(port, of_port::IN, 1);
        Ok(())
    }

    fn set_link(&mut self, port: PortId, link: &FabricLink) -> io::Result<()> {
        let open = self.ports.get_mut(&port).ok_or(io::ErrorKind::NotFound)?;
        let (key, value) = program::link(open.device, link);
        if let Some(before) = open.link_to.take().filter(|before| before != link) {
            let _ = self.shared.maps.rules.remove(&program::link(open.device, &before).0);
        }
        open.link_to = Some(*link);
        let (first, last) = link.out.split_at(8);
        for (word, bytes) in (of_port::HEADER..).zip([first, last]) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            self.set_port(port, word, u64::from_ne_bytes(whole));
        }
        self.shared.maps.rules.set(&key, &value)
    }

    fn close(&mut self, port: PortId) {
        let is_open = self.is_open(port);
        if let Some(OpenPort { device, link_to, .. }) = self.ports.remove(&port) {
            if let Some(link) = link_to {
                let _ = self.shared.maps.rules.remove(&program::link(device, &link).0);
            }
            if !is_open {
                tracing::warn!(
                    device,
                    "the fast table's program no longer gets the packets of this device: it was \
                     detached, or another program takes them before it"
                );
            }
            self.set_port(port, of_port::IN, 0);
            self.set_port(port, of_port::OUT, 0);
            let closed = self.closed(port).wrapping_add(1);
            self.set_port(port, of_port::CLOSED, closed.into());
        }
    }

    fn is_valid(&self, id: RuleId) -> bool {
        let made = self.made.get(&id);
        made.is_some_and(|(port, closed)| {
            self.closed(*port) == *closed && self.port(*port, of_port::OUT) != 0
        })
    }

    fn is_open(&self, port: PortId) -> bool {
        self.ports.contains_key(&port) && self.port(port, of_port::IN) != 0
    }
}
