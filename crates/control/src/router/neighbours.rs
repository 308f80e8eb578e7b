//! The neighbours of all interfaces, IPv4 and IPv6 alike: a bounded table. [`queue`] is the packets
//! that wait for answers, [`states`] what time and messages do to each neighbour.

mod queue;
mod states;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use plexus_wire::{MacAddr, Prefix, Time};

use super::input::{InterfaceId, NeighbourId};
use super::limits::Limits;
use super::output::Adjacency;
use super::refusal::Refusal;
use crate::budget::Budget;
use crate::session::Random;
use crate::timers::Timers;

pub(super) use queue::Waiting;
pub use states::State;
pub(super) use states::{Heard, per_second};

/// What is to be done about a neighbour, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Ask for its link address: everybody, or to verify it, the address that we know.
    Ask { interface: InterfaceId, address: IpAddr, to: Option<MacAddr> },
    /// Its link address has changed, has become known, or is unknown now.
    Changed(NeighbourId),
    /// It is no more in the table.
    Gone { id: NeighbourId, address: IpAddr, had: bool },
    /// Its link address is known: this can go on.
    Free { id: NeighbourId, waiting: Waiting },
    /// It does not answer: this cannot go on.
    Lost(Waiting),
    /// Something was not done.
    Refused(Refusal),
}

/// One neighbour.
#[derive(Debug)]
pub(super) struct Neighbour {
    pub(super) interface: InterfaceId,
    pub(super) address: IpAddr,
    pub(super) state: State,
    /// Since when it is in its state.
    pub(super) since: Time,
    pub(super) mac: Option<MacAddr>,
    /// It says that it is a router.
    pub(super) is_router: bool,
    /// What the data plane has been told.
    told: Option<Adjacency>,
    /// Groups in use that have it as a gateway: it stays as long.
    pub(super) pins: u32,
    /// Packets went to it.
    used: bool,
    /// When it was last useful.
    touched: Time,
    /// Questions in this state.
    asked: u8,
    /// How often it has failed in a row.
    pub(super) failures: u8,
    queue: VecDeque<(u64, Waiting)>,
}

/// How easily one is parted with, the easiest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Failed,
    /// It spoke to us, and nothing was ever sent to it.
    Idle,
    Incomplete,
    Useful,
}

/// What one interface has in the table, gateways not counted.
#[derive(Debug)]
struct Load {
    neighbours: usize,
    incomplete: usize,
    requests: Budget,
}

/// The table.
#[derive(Debug)]
pub(super) struct Neighbours {
    limits: Limits,
    random: Random,
    slots: Vec<Option<Neighbour>>,
    free: VecDeque<NeighbourId>,
    by_address: BTreeMap<(IpAddr, InterfaceId), NeighbourId>,
    /// Who goes first, by interface.
    worth: BTreeSet<(InterfaceId, Rank, Time, NeighbourId)>,
    loads: BTreeMap<InterfaceId, Load>,
    timers: Timers<NeighbourId>,
    /// Whose packets wait, in the order in which they came.
    queued: BTreeMap<u64, NeighbourId>,
    queued_bytes: usize,
    next: u64,
    effects: VecDeque<Effect>,
}

impl Neighbour {
    fn worth(&self, id: NeighbourId) -> Option<(InterfaceId, Rank, Time, NeighbourId)> {
        let rank = match self.state {
            _ if self.pins > 0 => return None,
            State::Failed => Rank::Failed,
            State::Incomplete => Rank::Incomplete,
            _ if self.used => Rank::Useful,
            _ => Rank::Idle,
        };
        Some((self.interface, rank, self.touched, id))
    }

    pub(super) fn adjacency(&self) -> Option<Adjacency> {
        self.mac.map(|mac| Adjacency { interface: self.interface, mac })
    }

    /// Packets that wait for it.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }
}

impl Neighbours {
    pub(super) fn new(limits: Limits, random: Random) -> Neighbours {
        Neighbours {
            limits,
            random,
            slots: Vec::new(),
            free: VecDeque::new(),
            by_address: BTreeMap::new(),
            worth: BTreeSet::new(),
            loads: BTreeMap::new(),
            timers: Timers::default(),
            queued: BTreeMap::new(),
            queued_bytes: 0,
            next: 0,
            effects: VecDeque::new(),
        }
    }

    pub(super) fn get(&self, id: NeighbourId) -> Option<&Neighbour> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    pub(super) fn mac(&self, id: NeighbourId) -> Option<MacAddr> {
        self.get(id)?.mac
    }

    pub(super) fn find(&self, interface: InterfaceId, address: IpAddr) -> Option<NeighbourId> {
        self.by_address.get(&(address, interface)).copied()
    }

    /// All of them, by address.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NeighbourId, &Neighbour)> {
        self.by_address.values().filter_map(|id| self.get(*id).map(|n| (*id, n)))
    }

    /// Those with an address in a prefix.
    pub(super) fn within(&self, prefix: &Prefix) -> impl Iterator<Item = NeighbourId> {
        let first = (prefix.addr(), InterfaceId(0));
        self.by_address.range(first..=(prefix.last(), InterfaceId(!0))).map(|(_, id)| *id)
    }

    pub(super) fn next_deadline(&self) -> Time {
        self.timers.next()
    }

    pub(super) fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Lets `change` work on a neighbour, and keeps the order of who goes first.
    fn edit<R>(&mut self, id: NeighbourId, change: impl FnOnce(&mut Neighbour) -> R) -> Option<R> {
        let neighbour = self.slots.get_mut(id.0 as usize)?.as_mut()?;
        let old = neighbour.worth(id);
        let result = change(neighbour);
        let new = neighbour.worth(id);
        self.weigh(old, new);
        Some(result)
    }

    fn weigh(
        &mut self,
        old: Option<(InterfaceId, Rank, Time, NeighbourId)>,
        new: Option<(InterfaceId, Rank, Time, NeighbourId)>,
    ) {
        if old == new {
            return;
        }
        let rate = self.limits.requests_per_s;
        for (worth, is_more) in [(old, false), (new, true)] {
            let Some(worth) = worth else { continue };
            let load = self.loads.entry(worth.0).or_insert_with(|| Load {
                neighbours: 0,
                incomplete: 0,
                requests: per_second(rate),
            });
            let is_incomplete = usize::from(worth.1 == Rank::Incomplete);
            if is_more {
                self.worth.insert(worth);
                load.neighbours += 1;
                load.incomplete += is_incomplete;
            } else {
                self.worth.remove(&worth);
                load.neighbours -= 1;
                load.incomplete -= is_incomplete;
            }
        }
    }

    /// A neighbour that is not yet there: with a link address that it has told, or to be asked for
    /// now. The caller has seen that the address is on the interface's link.
    pub(super) fn create(
        &mut self,
        now: Time,
        interface: InterfaceId,
        address: IpAddr,
        mac: Option<MacAddr>,
        is_pinned: bool,
    ) -> Result<NeighbourId, Refusal> {
        let incomplete = self.loads.get(&interface).map_or(0, |load| load.incomplete);
        if mac.is_none() && !is_pinned && incomplete >= self.limits.incomplete.max(1) {
            let asked = (interface, Rank::Incomplete, Time::ZERO, NeighbourId(0))..;
            let oldest = self.worth.range(asked).next().map(|worth| worth.3);
            oldest.into_iter().for_each(|id| self.evict(id));
        }
        if self.by_address.len() >= self.limits.neighbours {
            self.make_room()?;
        }
        let id = match self.free.front() {
            Some(_) if self.slots.len() >= self.limits.neighbours => self.free.pop_front(),
            _ => u32::try_from(self.slots.len()).ok().map(NeighbourId),
        };
        let id = id.ok_or(Refusal::NeighboursFull)?;
        if id.0 as usize == self.slots.len() {
            self.slots.push(None);
        }
        let neighbour = Neighbour {
            interface,
            address,
            state: State::Incomplete,
            since: now,
            mac: None,
            is_router: false,
            told: None,
            pins: u32::from(is_pinned),
            used: mac.is_none(),
            touched: now,
            asked: 0,
            failures: 0,
            queue: VecDeque::new(),
        };
        self.weigh(None, neighbour.worth(id));
        self.slots[id.0 as usize] = Some(neighbour);
        self.by_address.insert((address, interface), id);
        match mac {
            Some(mac) => self.heard(now, id, mac, Heard { solicited: false, overrides: true }),
            None => self.enter(now, id, State::Incomplete),
        }
        Ok(id)
    }

    /// How many gateways may find room: what is free, and who would give way.
    pub(super) fn room(&self) -> usize {
        self.limits.neighbours.saturating_sub(self.by_address.len()) + self.worth.len()
    }

    /// Parts with the least useful neighbour of the interface that has the most.
    fn make_room(&mut self) -> Result<(), Refusal> {
        let most = self.loads.iter().max_by_key(|(_, load)| load.neighbours).map(|(id, _)| *id);
        let first = |id| (id, Rank::Failed, Time::ZERO, NeighbourId(0));
        let least = most.and_then(|id| self.worth.range(first(id)..).next().copied());
        match least {
            Some((interface, .., id)) if Some(interface) == most => {
                self.evict(id);
                Ok(())
            }
            _ => Err(Refusal::NeighboursFull),
        }
    }

    fn evict(&mut self, id: NeighbourId) {
        self.effects.push_back(Effect::Refused(Refusal::NeighbourEvicted));
        self.remove(id);
    }

    /// Takes one out; what waits for it is dropped.
    pub(super) fn remove(&mut self, id: NeighbourId) {
        for _ in 0..self.take_queue(id).len() {
            self.effects.push_back(Effect::Refused(Refusal::QueueFull));
        }
        let Some(neighbour) = self.slots.get_mut(id.0 as usize).and_then(Option::take) else {
            return;
        };
        self.weigh(neighbour.worth(id), None);
        self.timers.cancel(id);
        let Neighbour { interface, address, told, .. } = neighbour;
        self.by_address.remove(&(address, interface));
        self.free.push_back(id);
        self.effects.push_back(Effect::Gone { id, address, had: told.is_some() });
    }

    /// One group in use less has this gateway.
    pub(super) fn unpin(&mut self, id: NeighbourId) {
        self.edit(id, |n| n.pins -= 1);
    }

    /// What the data plane should know of a neighbour's link address, if that is news.
    pub(super) fn news(&mut self, id: NeighbourId) -> Option<Option<Adjacency>> {
        let neighbour = self.slots.get_mut(id.0 as usize)?.as_mut()?;
        let adjacency = neighbour.adjacency();
        if neighbour.told == adjacency {
            return None;
        }
        neighbour.told = adjacency;
        Some(adjacency)
    }

    /// A time between these two.
    fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let span = u64::try_from((high - low).as_nanos()).unwrap_or(u64::MAX);
        let random = u64::from_be_bytes(self.random.bytes());
        let part = (u128::from(random) * u128::from(span)) >> 64;
        low + Duration::from_nanos(part as u64)
    }
}
