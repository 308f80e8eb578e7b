//! A fast table without a kernel, for tests: the test hands it the frames of its ports.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plexus_wire::fabric::Passing;

use super::{Action, Counts, FabricLink, FastTable, Flow, KernelEnd, Key, RuleId, Tag};
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
    /// Refuses further rules.
    refuses: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    in_use: bool,
    counts: Counts,
    passed: u64,
    settled: Option<u64>,
    holds: bool,
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

    /// A frame comes in by a port.
    pub fn receive(&self, port: PortId, frame: &[u8]) -> Fate {
        let mut inner = self.inner();
        let Some(key) = inner.key_of(port, frame) else { return Fate::Passed };
        let Some((id, action)) = inner.rules.get(&key).copied() else { return Fate::Passed };
        if !inner.open.contains(&port) || !inner.is_valid(id) {
            return Fate::Passed;
        }
        let slot = &mut inner.slots[id.0 as usize];
        if slot.settled != Some(slot.passed) {
            if slot.holds {
                slot.counts.held += 1;
                return Fate::Dropped;
            }
            slot.passed += 1;
            return Fate::Passed;
        }
        slot.counts.packets += 1;
        let is_tagged = matches!(key, Key::Flow(Flow { tag: Some(_), .. }));
        let tag_len = if is_tagged { 4 } else { 0 };
        slot.counts.bytes += (frame.len() - tag_len) as u64;
        let mut frame = frame.to_vec();
        if let Key::Hop { .. } = key
            && let Some((outer, inner_frame)) = frame.split_first_chunk_mut()
            && let (Some(passing), Some(link)) =
                (Passing::read(inner_frame), inner.links.get(&action.out_port))
        {
            passing.rotate(port as u8);
            *outer = link.out;
        }
        match action.tag {
            Tag::Keep => {}
            Tag::Pop => drop(frame.drain(12..16)),
            Tag::Push(tci) => {
                let [a, b] = tci.to_be_bytes();
                frame.splice(12..12, [0x81, 0, a, b]);
            }
        }
        Fate::Sent(action.out_port, frame)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn key_of(&self, in_port: PortId, frame: &[u8]) -> Option<Key> {
        let from_node = self.links.get(&in_port).filter(|link| frame.starts_with(&link.back));
        if from_node.is_none() {
            return Flow::of(in_port, frame).map(Key::Flow);
        }
        let hop = Passing::read(&mut frame[14..].to_vec())?.hop();
        Some(Key::Hop { in_port, hop })
    }

    fn closed(&self, port: PortId) -> u32 {
        self.closed.get(&port).copied().unwrap_or(0)
    }

    fn is_valid(&self, id: RuleId) -> bool {
        let (port, closed) = self.slots[id.0 as usize].to;
        self.open.contains(&port) && self.closed(port) == closed
    }
}

impl FastTable for Memory {
    fn insert(&mut self, key: &Key, action: &Action) -> io::Result<RuleId> {
        let mut inner = self.inner();
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let free = inner.slots.iter().position(|slot| !slot.in_use).ok_or_else(full)?;
        if inner.refuses {
            return Err(full());
        }
        if ![key.in_port(), action.out_port].iter().all(|port| inner.open.contains(port)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let link = inner.links.get(&action.out_port);
        if action.header.is_some_and(|header| link.is_none_or(|link| link.out != header)) {
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
        self.inner().slots[id.0 as usize].counts
    }

    fn passed(&self, id: RuleId) -> u64 {
        self.inner().slots[id.0 as usize].passed
    }

    fn settle(&self, id: RuleId, passed: u64) {
        self.inner().slots[id.0 as usize].settled = Some(passed);
    }

    fn hold(&self, id: RuleId, on: bool) {
        self.inner().slots[id.0 as usize].holds = on;
    }

    fn open(&mut self, port: PortId, _: KernelEnd<'_>) -> io::Result<()> {
        self.open_without_kernel(port);
        Ok(())
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

    fn is_open(&self, port: PortId) -> bool {
        self.inner().open.contains(&port)
    }
}
