//! The neighbours of all interfaces, IPv4 and IPv6 alike: a bounded table. [`queue`] holds the
//! packets that wait for answers; [`states`] is the state machine of each neighbour.

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

/// Effects of a neighbour's change, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Ask for its link address: by broadcast, or to verify it, at the known address.
    Ask { interface: InterfaceId, address: IpAddr, to: Option<MacAddr> },
    /// Its link address has changed, has become known, or is unknown now.
    Changed(NeighbourId),
    /// It was removed from the table.
    Gone { id: NeighbourId, address: IpAddr, had: bool },
    /// Its link address is known: this packet can be sent.
    Free { id: NeighbourId, waiting: Waiting },
    /// It does not answer: this packet cannot be sent.
    Lost(Waiting),
    /// An action was refused.
    Refused(Refusal),
}

/// One neighbour.
#[derive(Debug)]
pub(super) struct Neighbour {
    pub(super) interface: InterfaceId,
    pub(super) address: IpAddr,
    pub(super) state: State,
    /// Since when it has been in its state.
    pub(super) since: Time,
    pub(super) mac: Option<MacAddr>,
    /// It declares itself a router.
    pub(super) is_router: bool,
    /// The published adjacency.
    told: Option<Adjacency>,
    /// Number of groups in use with it as a gateway: they keep it in the table.
    pub(super) pins: u32,
    /// Packets were sent to it.
    used: bool,
    /// When it was last useful.
    touched: Time,
    /// Questions sent in this state.
    asked: u8,
    /// Consecutive failures.
    pub(super) failures: u8,
    queue: VecDeque<(u64, Waiting)>,
}

/// Eviction order, the first to be evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Failed,
    /// It contacted us, and nothing was ever sent to it.
    Idle,
    Incomplete,
    Useful,
}

/// An interface's entries in the table, without gateways.
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
    /// Eviction order, by interface.
    worth: BTreeSet<(InterfaceId, Rank, Time, NeighbourId)>,
    loads: BTreeMap<InterfaceId, Load>,
    timers: Timers<NeighbourId>,
    /// Neighbours with waiting packets, in the order of arrival.
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

    /// Applies `change` to a neighbour, and updates the eviction order.
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

    /// Adds a neighbour: with a link address that it announced, or to be asked for now. The caller
    /// has checked that the address is on the interface's link.
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

    /// How many gateways may find room: free slots, and entries that can be evicted.
    pub(super) fn room(&self) -> usize {
        self.limits.neighbours.saturating_sub(self.by_address.len()) + self.worth.len()
    }

    /// Evicts the least useful neighbour of the interface with most neighbours.
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

    /// Removes a neighbour; its waiting packets are dropped.
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

    /// One group in use fewer has this gateway.
    pub(super) fn unpin(&mut self, id: NeighbourId) {
        self.edit(id, |n| n.pins -= 1);
    }

    /// A neighbour's new adjacency to publish, if it has changed.
    pub(super) fn news(&mut self, id: NeighbourId) -> Option<Option<Adjacency>> {
        let neighbour = self.slots.get_mut(id.0 as usize)?.as_mut()?;
        let adjacency = neighbour.adjacency();
        if neighbour.told == adjacency {
            return None;
        }
        neighbour.told = adjacency;
        Some(adjacency)
    }

    /// A random time between these two.
    fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let span = u64::try_from((high - low).as_nanos()).unwrap_or(u64::MAX);
        let random = u64::from_be_bytes(self.random.bytes());
        let part = (u128::from(random) * u128::from(span)) >> 64;
        low + Duration::from_nanos(part as u64)
    }
}
