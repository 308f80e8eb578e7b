//! The state machine of a neighbour: RFC 4861, 7.3.2 and appendix C, for ARP as well.
//!
//! Beyond the RFC: a gateway of routes in use is verified whenever it becomes stale, so that its
//! failure is noticed without traffic; after a failure it is asked again, with increasing
//! intervals. An unused neighbour of another kind is verified after ten minutes and removed if it
//! does not answer.

use std::net::IpAddr;
use std::time::Duration;

use plexus_wire::{MacAddr, Time};
use serde::{Deserialize, Serialize};

use super::super::input::{InterfaceId, NeighbourId};
use super::super::refusal::Refusal;
use super::{Effect, Neighbours, Waiting};
use crate::budget::Budget;

/// `MAX_MULTICAST_SOLICIT` and `MAX_UNICAST_SOLICIT` (RFC 4861, 10).
pub(super) const ASK_MAX: u8 = 3;
/// `RETRANS_TIMER`.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// `REACHABLE_TIME`, times `MIN_RANDOM_FACTOR` and `MAX_RANDOM_FACTOR`.
const REACHABLE: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(45)];
/// `DELAY_FIRST_PROBE_TIME`.
const DELAY: Duration = Duration::from_secs(5);
/// How long an unused neighbour stays valid.
const STALE: [Duration; 2] = [Duration::from_secs(500), Duration::from_secs(700)];
/// How long a neighbour that did not answer is not asked again.
const HOLD_DOWN: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(4)];
/// A gateway's hold-down doubles this many times.
const DOUBLINGS: u8 = 4;

/// State of a neighbour (RFC 4861, 7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is being asked for its link address.
    Incomplete,
    /// It answered within the last half minute or so.
    Reachable,
    /// Its last known address is assumed to be valid.
    Stale,
    /// It is stale and in use: verified soon.
    Delay,
    /// It is being verified.
    Probe,
    /// It did not answer: not asked for again for a few seconds.
    Failed,
    /// Another source knows its address: it is not verified.
    Permanent,
}

/// What a message reveals about its sender.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Heard {
    /// It answers one of our questions.
    pub(in super::super) solicited: bool,
    /// It overrides the known address.
    pub(in super::super) overrides: bool,
}

/// A budget of this many per second, with a burst of a tenth.
pub(in super::super) fn per_second(rate: u32) -> Budget {
    let rate = rate.max(1);
    Budget::new(rate.div_ceil(10), Duration::from_secs(1) / rate)
}

impl Neighbours {
    /// Enters a state, with its side effects.
    pub(super) fn enter(&mut self, now: Time, id: NeighbourId, state: State) {
        let Some(neighbour) = self.get(id) else { return };
        let is_gateway = neighbour.pins > 0;
        let failures = neighbour.failures;
        // A gateway does not stay stale: its reachability must be known before it is needed.
        let state = if is_gateway && state == State::Stale { State::Delay } else { state };
        self.edit(id, |n| {
            (n.state, n.since, n.asked) = (state, now, 0);
            match state {
                State::Reachable => n.failures = 0,
                State::Failed => n.failures = n.failures.saturating_add(1),
                _ => {}
            }
        });
        let wait = match state {
            State::Incomplete | State::Probe => return self.ask(now, id),
            State::Permanent => return self.timers.cancel(id),
            State::Delay => DELAY,
            State::Reachable => self.between(REACHABLE[0], REACHABLE[1]),
            State::Stale => self.between(STALE[0], STALE[1]),
            State::Failed => {
                let doublings = if is_gateway { failures.min(DOUBLINGS) } else { 0 };
                self.between(HOLD_DOWN[0], HOLD_DOWN[1]) * (1 << doublings)
            }
        };
        self.timers.set(id, now + wait);
    }

    /// Asks once more, if the interface's budget allows; otherwise a little later.
    fn ask(&mut self, now: Time, id: NeighbourId) {
        let Some(neighbour) = self.get(id) else { return };
        let (interface, address) = (neighbour.interface, neighbour.address);
        let to = neighbour.mac.filter(|_| neighbour.state == State::Probe);
        let is_free = neighbour.pins > 0;
        let load = self.loads.get_mut(&interface);
        if is_free || load.is_none_or(|load| load.requests.spend(now)) {
            self.edit(id, |n| n.asked += 1);
            self.effects.push_back(Effect::Ask { interface, address, to });
            self.timers.set(id, now + ASK_AGAIN);
        } else {
            self.effects.push_back(Effect::Refused(Refusal::RequestsLimited));
            let wait = self.between(ASK_AGAIN / 4, ASK_AGAIN / 2);
            self.timers.set(id, now + wait);
        }
    }

    /// Does the next thing that is due; false if nothing is. One at a time, so that the effects on
    /// the data plane are published before the next neighbour changes.
    pub(in super::super) fn run_one(&mut self, now: Time) -> bool {
        let Some(id) = self.timers.due(now) else { return false };
        let Some(neighbour) = self.get(id) else { return true };
        let (asked, is_gateway) = (neighbour.asked, neighbour.pins > 0);
        match neighbour.state {
            State::Incomplete if asked >= ASK_MAX => self.fail(now, id),
            State::Incomplete => self.ask(now, id),
            State::Reachable => self.enter(now, id, State::Stale),
            State::Stale | State::Delay => self.enter(now, id, State::Probe),
            State::Probe if asked < ASK_MAX => self.ask(now, id),
            // It may have moved: a gateway is asked for by broadcast; others only when needed.
            State::Probe if is_gateway => {
                self.edit(id, |n| n.mac = None);
                self.effects.push_back(Effect::Changed(id));
                self.enter(now, id, State::Incomplete);
            }
            State::Probe => self.remove(id),
            State::Failed if is_gateway => self.enter(now, id, State::Incomplete),
            State::Failed => self.remove(id),
            State::Permanent => {}
        }
        true
    }

    fn fail(&mut self, now: Time, id: NeighbourId) {
        self.enter(now, id, State::Failed);
        let lost = self.take_queue(id);
        self.effects.extend(lost.into_iter().map(Effect::Lost));
        // A gateway's groups are updated, and the event is reported.
        self.effects.push_back(Effect::Changed(id));
    }

    /// A message announces this link address of a neighbour.
    pub(in super::super) fn heard(
        &mut self,
        now: Time,
        id: NeighbourId,
        mac: MacAddr,
        heard: Heard,
    ) {
        let Some(neighbour) = self.get(id) else { return };
        let (known, state) = (neighbour.mac, neighbour.state);
        if state == State::Permanent {
            return;
        }
        if known.is_some_and(|known| known != mac) && !heard.overrides {
            if state == State::Reachable {
                self.enter(now, id, State::Stale);
            }
            return;
        }
        if known != Some(mac) {
            self.edit(id, |n| n.mac = Some(mac));
            self.effects.push_back(Effect::Changed(id));
        }
        if heard.solicited {
            self.edit(id, |n| n.touched = now);
            self.enter(now, id, State::Reachable);
        } else if known != Some(mac) {
            self.edit(id, |n| n.touched = now);
            self.enter(now, id, State::Stale);
        }
        let free = self.take_queue(id);
        if !free.is_empty() {
            self.use_one(now, id);
        }
        self.effects.extend(free.into_iter().map(|waiting| Effect::Free { id, waiting }));
    }

    /// Another source knows this link address of a neighbour.
    pub(in super::super) fn fix(&mut self, now: Time, id: NeighbourId, mac: MacAddr) {
        self.edit(id, |n| n.state = State::Stale);
        self.heard(now, id, mac, Heard { solicited: false, overrides: true });
        self.enter(now, id, State::Permanent);
    }

    /// The source does not know the neighbour any more. A gateway waits until it does.
    pub(in super::super) fn unfix(&mut self, now: Time, id: NeighbourId) {
        if self.get(id).is_none_or(|n| n.pins == 0) {
            return self.remove(id);
        }
        self.edit(id, |n| n.mac = None);
        self.effects.push_back(Effect::Changed(id));
        self.enter(now, id, State::Incomplete);
    }

    /// A neighbour is not asked: another source will tell of it.
    pub(in super::super) fn wait_for_source(&mut self, interface: InterfaceId, address: IpAddr) {
        if let Some(id) = self.find(interface, address) {
            self.timers.cancel(id);
        }
    }

    /// A message without a link address still shows that its sender is alive.
    pub(in super::super) fn confirmed(&mut self, now: Time, id: NeighbourId) {
        if let Some(mac) = self.mac(id) {
            self.heard(now, id, mac, Heard { solicited: true, overrides: false });
        }
    }

    /// A neighbour declared whether it is a router.
    pub(in super::super) fn set_router(&mut self, id: NeighbourId, is_router: bool) {
        self.edit(id, |n| n.is_router = is_router);
    }

    /// A packet for this neighbour: it is sent, waits, or is lost.
    pub(in super::super) fn want(&mut self, now: Time, id: NeighbourId, waiting: Waiting) {
        let Some(neighbour) = self.get(id) else { return };
        let (state, mac) = (neighbour.state, neighbour.mac);
        match (mac, state) {
            (Some(_), _) => {
                self.use_one(now, id);
                self.effects.push_back(Effect::Free { id, waiting });
            }
            (None, State::Failed) => self.effects.push_back(Effect::Lost(waiting)),
            (None, _) => self.enqueue(id, waiting),
        }
    }

    /// Packets were sent to this neighbour.
    pub(in super::super) fn use_one(&mut self, now: Time, id: NeighbourId) {
        let Some(state) = self.edit(id, |n| {
            (n.used, n.touched) = (true, now);
            n.state
        }) else {
            return;
        };
        if state == State::Stale {
            self.enter(now, id, State::Delay);
        }
    }

    /// One more group in use has this gateway.
    pub(in super::super) fn pin(&mut self, now: Time, id: NeighbourId) {
        self.edit(id, |n| n.pins += 1);
        if self.get(id).is_some_and(|n| n.state == State::Stale) {
            self.enter(now, id, State::Delay);
        }
    }
}
