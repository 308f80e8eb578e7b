//! A fast table in the kernel, for every hook: its maps, its rules and its ports. A [`Driver`] has
//! the programs that read them ([`super::tcx`], [`super::xdp`]).
//!
//! When this process ends, however it ends, the kernel detaches the programs and forgets the rules,
//! unless they are to [persist](super::tcx::Persist).

mod fabric;
mod frame;
pub(super) mod program;
mod routed;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

pub(super) use self::frame::Frame;
use self::program::{KEY_LEN, Maps, VALUE_WORDS, holds, of_port, owed, word};
use super::{
    Action, Counts, FabricLink, FastTable, Flow, Held, KernelEnd, Key, Routed, RuleId,
    SAMPLES_AT_ONCE,
};
use crate::bpf::Map;
use crate::packet::PortId;

/// A settled count that no rule reaches: it has not been settled.
const NEVER: u64 = u64::MAX;

/// The programs of one hook of the kernel, as one worker has them.
pub trait Driver: Sized + Clone + Send + Debug {
    /// It keeps the program of a port in place. Dropping it takes the program away.
    type Place: Send + Debug;

    /// Puts the program where a port's frames come in.
    ///
    /// # Errors
    /// When the kernel refuses, or the port has no such place.
    fn attach(&self, maps: &Maps, end: &KernelEnd<'_>) -> io::Result<Self::Place>;

    /// Whether the program is where this port's frames come in.
    fn is_at(place: &Self::Place, end: &KernelEnd<'_>) -> bool;

    /// A port whose program is in place is to be opened.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn open(&self, port: PortId, end: &KernelEnd<'_>) -> io::Result<()>;

    /// Whether a device sends the frames that it is given at this hook.
    fn sends(&mut self, device: u32) -> bool;

    /// Whether packets on a device that leads to a fabric node may owe something. At a hook where
    /// they owe nothing, they may leave.
    fn owed(&mut self, _device: u32, _peer_takes_owed: bool) -> Owed {
        Owed { comes: false, may_leave: true }
    }

    /// Whether the programs take samples of what they forward.
    fn samples(&self) -> bool {
        false
    }

    /// The time until which an open port's packets may be forwarded without this process, in
    /// nanoseconds of CLOCK_MONOTONIC.
    fn until(&self) -> u64 {
        0
    }

    /// Takes the program away from a port.
    fn detach(&self, place: Self::Place) {
        drop(place);
    }
}

/// Whether packets on a device that leads to a fabric node may owe something.
#[derive(Clone, Copy, Debug)]
pub struct Owed {
    /// Those that come in may owe something.
    pub comes: bool,
    /// Those that leave may.
    pub may_leave: bool,
}

impl Owed {
    /// As a word of a port.
    fn bits(self) -> u64 {
        let bit = |is: bool, bit: i32| if is { bit as u64 } else { 0 };
        bit(self.may_leave, owed::MAY_LEAVE) | bit(self.comes, owed::COMES)
    }
}

/// One worker's part of a table.
#[derive(Debug)]
pub struct Kernel<D: Driver> {
    driver: D,
    maps: Arc<Maps>,
    /// The number of this worker's first rule, and those that are free.
    first: u32,
    free: Vec<u32>,
    ports: BTreeMap<PortId, Attached<D::Place>>,
    /// Devices whose program the kernel has refused.
    refused: BTreeSet<u32>,
    /// Doors to rules of routed flows.
    doors: BTreeMap<Way, Door>,
    /// Doors that were made so far.
    doors_made: u32,
    /// By rule: the output port, and how often it had been closed.
    made: Vec<(PortId, u32)>,
}

/// A port whose device has the program. Attaching and detaching may take the kernel some 10 ms
/// each, in which this thread waits. So the program stays while the port is closed.
#[derive(Debug)]
struct Attached<P> {
    device: u32,
    is_open: bool,
    /// The program does not get its packets any more.
    is_lost: bool,
    /// Whether the device sends frames of rules, and its word for that.
    sends: bool,
    out: u64,
    /// If it leads to a fabric node.
    link_to: Option<FabricLink>,
    /// Dropping it detaches the program.
    place: P,
}

/// The packets that a door is for; the routed flow has no ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// All with these frames. Behind it are pairs of addresses.
    Frames { flow: Flow, is_from_node: bool },
    /// All between two addresses. Behind it are ports.
    Pair(Routed),
}

impl Way {
    /// The frames of a routed flow.
    fn of(key: &Routed) -> Way {
        Way::Frames { flow: key.flow, is_from_node: key.is_from_node }
    }

    fn in_port(&self) -> PortId {
        match self {
            Way::Frames { flow, .. } | Way::Pair(Routed { flow, .. }) => flow.in_port,
        }
    }
}

/// The way to rules, or to other doors.
#[derive(Clone, Copy, Debug)]
struct Door {
    /// No other of the box has it.
    number: u64,
    /// Rules and doors behind it.
    behind: usize,
}

impl<D: Driver> Kernel<D> {
    /// A table for a box with as many ports, of which each worker gets a part for as many rules.
    pub(super) fn of(
        workers: usize,
        rules: usize,
        ports: usize,
        load: impl FnOnce(&Maps) -> io::Result<D>,
    ) -> io::Result<Vec<Kernel<D>>> {
        let all = workers * rules;
        let count =
            |of: usize| u32::try_from(of).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        let words = VALUE_WORDS as u32;
        let maps = Arc::new(Maps {
            // A link of the fabric, and a door for each rule of a routed flow, have an entry too.
            rules: Map::hash(KEY_LEN as u32, words, count(all + ports)?)?,
            // A door for each rule with ports.
            routed: Map::hash(routed::KEY_LEN as u32, words, count(2 * all)?)?,
            changes: Map::array(1, 1)?,
            counts: Map::array(word::COUNT, all)?,
            ports: Map::array(of_port::COUNT, ports)?,
        });
        let driver = load(&maps)?;
        let part = |worker: usize| {
            let first = (worker * rules) as u32;
            // The lowest number is taken first.
            let free = (first..first + rules as u32).rev().collect();
            let (driver, maps, made) = (driver.clone(), maps.clone(), vec![(0, 0); rules]);
            let (ports, doors, refused) = Default::default();
            Kernel { driver, maps, first, free, ports, refused, doors, doors_made: 0, made }
        };
        Ok((0..workers).map(part).collect())
    }

    fn word(&self, id: RuleId, word: usize) -> u64 {
        self.maps.counts.value(id.0 as usize)[word].load(Acquire)
    }

    fn set_word(&self, id: RuleId, word: usize, value: u64) {
        self.maps.counts.value(id.0 as usize)[word].store(value, Release);
    }

    /// A word of a port; zero for one that there is not.
    fn port(&self, port: PortId, word: usize) -> u64 {
        let ports = &self.maps.ports;
        let has = usize::from(port) < ports.count();
        if has { ports.value(port.into())[word].load(Acquire) } else { 0 }
    }

    fn set_port(&self, port: PortId, word: usize, value: u64) {
        let ports = &self.maps.ports;
        if usize::from(port) < ports.count() {
            ports.value(port.into())[word].store(value, Release);
        }
    }

    /// How often a port has been closed, as rules have it.
    fn closed(&self, port: PortId) -> u32 {
        self.port(port, of_port::CLOSED) as u32
    }

    /// Allows further samples of a port: so many until the next call.
    fn allow_samples(&self, port: PortId) {
        let taken = self.port(port, of_port::SAMPLED);
        self.set_port(port, of_port::SAMPLED_MAX, taken.wrapping_add(SAMPLES_AT_ONCE));
    }

    fn void_rules_to(&self, port: PortId) {
        let closed = self.closed(port).wrapping_add(1);
        self.set_port(port, of_port::CLOSED, closed.into());
    }

    /// Where a rule's entry of `made` is.
    fn place(&self, id: RuleId) -> usize {
        id.0.wrapping_sub(self.first) as usize
    }

    /// Makes a rule of a routed flow, and the doors to it that there are not.
    fn set_routed(&mut self, device: u32, key: &Routed, value: &[u8]) -> io::Result<()> {
        let door = self.enter(device, key, &Way::of(key), 0)?;
        let made = match &key.ports {
            None => self.maps.routed.add(&routed::key(door, key), value),
            Some(ports) => self.set_with_ports(device, door, key, &routed::ports(ports), value),
        };
        if made.is_err() {
            self.leave(device, key, &Way::of(key), 0);
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
        let pair = Way::Pair(key.without_ports());
        let inner = self.enter(device, key, &pair, door)?;
        let made = self.maps.routed.add(&routed::key_of(inner, ports), value);
        if made.is_err() {
            self.leave(device, key, &pair, door);
        }
        made
    }

    /// Removes a rule of a routed flow, and the doors to it that lead to no other.
    fn remove_routed(&mut self, device: u32, key: &Routed) {
        let Some(door) = self.doors.get(&Way::of(key)).map(|door| door.number) else { return };
        let maps = &self.maps;
        match &key.ports {
            None => drop(maps.routed.remove(&routed::key(door, key))),
            Some(ports) => {
                let pair = Way::Pair(key.without_ports());
                if let Some(inner) = self.doors.get(&pair).map(|door| door.number) {
                    let _ = maps.routed.remove(&routed::key_of(inner, &routed::ports(ports)));
                    self.leave(device, key, &pair, door);
                }
            }
        }
        self.leave(device, key, &Way::of(key), 0);
    }

    /// Whether there is a door in the place of a flow's rule.
    fn leads_on(&self, flow: &Flow) -> bool {
        self.doors.contains_key(&Way::Frames { flow: *flow, is_from_node: false })
    }

    /// The number of a door on the way to a rule, which is made if there is none. `outer`: the
    /// number of the door before it, for a pair of addresses.
    fn enter(&mut self, device: u32, key: &Routed, way: &Way, outer: u64) -> io::Result<u64> {
        if let Some(door) = self.doors.get_mut(way) {
            door.behind += 1;
            return Ok(door.number);
        }
        let number = u64::from(self.first) << 32 | u64::from(self.doors_made);
        let (maps, door) = (&self.maps, program::door(number));
        match way {
            Way::Pair(pair) => maps.routed.add(&routed::key(outer, pair), &door)?,
            Way::Frames { .. } => {
                maps.add_rule(&program::key(device, &Key::Routed(*key)), &door)?;
            }
        }
        self.doors_made = self.doors_made.wrapping_add(1);
        self.doors.insert(*way, Door { number, behind: 1 });
        Ok(number)
    }

    /// Something behind a door is gone. The last one takes the door with it.
    fn leave(&mut self, device: u32, key: &Routed, way: &Way, outer: u64) {
        let Some(door) = self.doors.get_mut(way) else { return };
        door.behind -= 1;
        if door.behind > 0 {
            return;
        }
        self.doors.remove(way);
        let maps = &self.maps;
        let _ = match way {
            Way::Pair(pair) => maps.routed.remove(&routed::key(outer, pair)),
            Way::Frames { .. } => maps.remove_rule(&program::key(device, &Key::Routed(*key))),
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

impl<P> Attached<P> {
    /// Whether packets may owe something here, as a word of the port.
    fn owed<D: Driver>(&self, driver: &mut D) -> u64 {
        self.link_to.map_or(0, |link| driver.owed(self.device, link.takes_owed).bits())
    }

    /// Notes whether the device sends frames of rules. True if that is news.
    fn say_if_changed(&mut self, sends: bool) -> bool {
        let is_news = std::mem::replace(&mut self.sends, sends) != sends;
        if is_news && !sends {
            tracing::warn!(
                device = self.device,
                "this device does not send frames that are redirected to it, so no rule of the \
                 fast table leads there; the far end of a virtual cable has to poll: \
                 `ethtool -K FAR-END gro off` and then `gro on`"
            );
        }
        is_news
    }
}

fn header_words(header: &[u8; 14]) -> [u64; 2] {
    let mut bytes = [0; 16];
    bytes[..14].copy_from_slice(header);
    program::words(&bytes)
}

impl<D: Driver> FastTable for Kernel<D> {
    fn insert(&mut self, key: &Key, action: &Action) -> io::Result<RuleId> {
        if !action.is_for(key) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let device = self.ports.get(&key.in_port()).map(|port| port.device);
        let device = device.ok_or(io::ErrorKind::NotFound)?;
        let number = *self.free.last().ok_or(io::ErrorKind::StorageFull)?;
        let id = RuleId(number);
        (0..word::COUNT).for_each(|word| self.set_word(id, word, 0));
        self.set_word(id, word::SETTLED, NEVER);
        // Read before the port: if it is closed and opened in between, the rule is void.
        let closed = self.closed(action.out_port);
        let has_header = match &action.front {
            None => true,
            Some(front) => {
                let words = [0, 1].map(|n| self.port(action.out_port, of_port::HEADER + n));
                // Hosts' packets may owe something, and those of a link if its cable brings such.
                let may_owe = !key.is_in_fabric()
                    || self.port(key.in_port(), of_port::OWED) & owed::COMES as u64 != 0;
                words == header_words(&front.link())
                    && (!may_owe || self.takes_owed(action.out_port))
            }
        };
        if self.port(action.out_port, of_port::OUT) == 0 || !has_header {
            return Err(io::ErrorKind::NotFound.into());
        }
        for (word, value) in (word::STEP..).zip(program::step(action.step.as_ref())) {
            self.set_word(id, word, value);
        }
        for (word, value) in (word::FRONT..).zip(program::front(action.front.as_ref())) {
            self.set_word(id, word, value);
        }
        let value = program::value(number, key, action, closed);
        match key {
            Key::Routed(flow) => self.set_routed(device, flow, &value)?,
            // A door in its place would be lost.
            Key::Flow(flow) if self.leads_on(flow) => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            _ => self.maps.set_rule(&program::key(device, key), &value)?,
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
            _ => drop(self.maps.remove_rule(&program::key(device, key))),
        }
    }

    fn forget(&mut self, id: RuleId) {
        self.free.push(id.0);
    }

    fn read(&self, id: RuleId) -> Counts {
        // Others may have written into the maps.
        let sum = |words: [usize; 2]| {
            words.into_iter().fold(0, |sum: u64, word| sum.wrapping_add(self.word(id, word)))
        };
        Counts {
            packets: sum([word::PACKETS, word::PACKETS_ELSEWHERE]),
            bytes: sum([word::BYTES, word::BYTES_ELSEWHERE]),
            held: self.word(id, word::HELD),
            taken_off: self.word(id, word::TAKEN_OFF),
        }
    }

    fn passed(&self, id: RuleId) -> u64 {
        self.word(id, word::PASSED)
    }

    fn settle(&self, id: RuleId, passed: u64) {
        self.set_word(id, word::SETTLED, passed);
    }

    fn hold(&self, id: RuleId, held: Held) {
        let holds = match held {
            Held::Nothing => holds::NOTHING,
            Held::SuperPackets => holds::SUPER_PACKETS,
            Held::All => holds::ALL,
        };
        self.set_word(id, word::HOLDS, holds as u64);
    }

    fn open(&mut self, port: PortId, end: KernelEnd<'_>) -> io::Result<()> {
        if usize::from(port) >= self.maps.ports.count() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if self.ports.contains_key(&port) && !self.is_open(port) {
            // So that it is known whether it was lost.
            self.close(port);
        }
        let is_of_use = |at: &Attached<D::Place>| {
            at.device == end.index && !at.is_lost && D::is_at(&at.place, &end)
        };
        if !self.ports.get(&port).is_some_and(is_of_use) {
            self.detach(port);
            let place = self.driver.attach(&self.maps, &end).inspect_err(|error| {
                // It is tried again and again. A port of the other hook is no problem.
                let is_news = self.refused.insert(end.index);
                if is_news && error.kind() != io::ErrorKind::Unsupported {
                    tracing::warn!(device = end.index, %error, "no fast table for this device");
                }
            })?;
            self.refused.remove(&end.index);
            let (device, is_open, is_lost, sends) = (end.index, false, false, true);
            let (out, link_to) = Default::default();
            let at = Attached { device, is_open, is_lost, sends, out, link_to, place };
            self.ports.insert(port, at);
        }
        self.driver.open(port, &end)?;
        let sends = self.driver.sends(end.index);
        let longest = u32::try_from(end.max_frame).unwrap_or(u32::MAX);
        let out = u64::from(end.index) | u64::from(longest) << 32;
        if let Some(at) = self.ports.get_mut(&port) {
            (at.is_open, at.out) = (true, out);
            at.say_if_changed(sends);
        }
        self.set_port(port, of_port::UNTIL, self.driver.until());
        self.set_port(port, of_port::OUT, if sends { out } else { 0 });
        self.set_port(port, of_port::IN, 1);
        Ok(())
    }

    fn maintain(&mut self, port: PortId) {
        let Some(at) = self.ports.get_mut(&port).filter(|at| at.is_open) else { return };
        let sends = self.driver.sends(at.device);
        let news = at.say_if_changed(sends).then_some(if sends { at.out } else { 0 });
        let owed = at.owed(&mut self.driver);
        self.set_port(port, of_port::UNTIL, self.driver.until());
        self.allow_samples(port);
        if self.port(port, of_port::OWED) != owed {
            self.set_port(port, of_port::OWED, owed);
            self.void_rules_to(port);
        }
        if let Some(out) = news {
            self.set_port(port, of_port::OUT, out);
            self.void_rules_to(port);
        }
    }

    fn sample(&mut self, port: PortId, one_in: Option<NonZeroU32>) -> io::Result<()> {
        if !self.driver.samples() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if self.port(port, of_port::SAMPLE) == 0 {
            self.allow_samples(port);
        }
        let below = one_in.map_or(0, |one_in| (1 << 32) / u64::from(one_in.get()));
        self.set_port(port, of_port::SAMPLE, below);
        Ok(())
    }

    fn missed_samples(&self, port: PortId) -> u64 {
        self.port(port, of_port::SAMPLES_MISSED)
    }

    fn set_link(&mut self, port: PortId, link: &FabricLink) -> io::Result<()> {
        let at = self.ports.get_mut(&port).ok_or(io::ErrorKind::NotFound)?;
        let (key, value) = program::link(at.device, link);
        self.maps.set_rule(&key, &value)?;
        at.link_to = Some(*link);
        let owed = at.owed(&mut self.driver);
        self.set_port(port, of_port::OWED, owed);
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
            let _ = self.maps.remove_rule(&program::link(at.device, &link).0);
        }
        self.set_port(port, of_port::IN, 0);
        self.set_port(port, of_port::OUT, 0);
        self.set_port(port, of_port::OWED, 0);
        self.set_header(port, &[0; 14]);
        self.void_rules_to(port);
    }

    fn detach(&mut self, port: PortId) {
        self.close(port);
        if let Some(at) = self.ports.remove(&port) {
            self.driver.detach(at.place);
        }
        self.doors.retain(|way, _| way.in_port() != port);
    }

    fn is_valid(&self, id: RuleId) -> bool {
        let made = self.made.get(self.place(id));
        made.is_some_and(|(port, closed)| {
            self.closed(*port) == *closed && self.port(*port, of_port::OUT) != 0
        })
    }

    fn sends(&self, port: PortId) -> bool {
        self.port(port, of_port::OUT) != 0
    }

    fn takes_owed(&self, port: PortId) -> bool {
        self.port(port, of_port::OWED) & owed::MAY_LEAVE as u64 != 0
    }

    fn is_open(&self, port: PortId) -> bool {
        self.ports.contains_key(&port) && self.port(port, of_port::IN) != 0
    }
}
