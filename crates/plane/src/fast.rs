//! A worker's rules in the box's fast table ([`plexus_io::fast`]): flows that are switched or
//! routed, and hops of the fabric. Their frames pass without this process.
//!
//! A flow begins in the pipeline. It gets a rule when many of its packets have come within a round,
//! and loses it when none has come for a second. A rule does what the pipeline would do
//! ([`rule`]), as long as everything that the pipeline looks at stays as it is. So a rule ends
//!
//! - at once, before the next batch leaves, when its source or destination is heard elsewhere;
//! - at once when a port goes down, is watched or silenced, and all end when a plan is adopted;
//! - if the router has another next hop for it, or none: before the next batch, or one of the next
//!   where there are many rules;
//! - in the round in which the switch would forget its destination.
//!
//! Of the fabric, hosts' frames from one encapsulated link to another need no table: their header
//! says the port. They get a rule for each pair of ports. IP packets that leave the fabric get one
//! for each station. Those that enter it get one for each pair of stations; where there are several
//! routes, one for each TCP or UDP flow. Where the load chooses the route, a flow keeps its
//! own as long as it has a rule, and the bytes that the rule forwards count as load. Packets to the
//! group's router have rules as routed flows do, which also put the fabric's header in front. A
//! node that leaves the routing to others has a rule for each TCP or UDP flow. The node that routes
//! them has the rules of a routed flow again, which first take off the header that they come
//! behind. These rules end when the fabric's plan and its links would make another one, or none.
//! Frames for a controller or this node, and those of native links, stay in the pipeline.
//!
//! The packets of a rule keep its source's entry in the switch fresh, and its neighbour in use.
//! They do not pass the output queues, so no flow to a port with a configured rate or a deep queue
//! gets a rule. A routed flow is all packets between two addresses; where a route has several next
//! hops, each pair of ports is a flow of its own.
//!
//! Example: host A sends to B at 100,000 frames per second. After some 100 ms a rule exists. It
//! waits until the frames in the pipeline have left, which takes some turns. From then on the
//! kernel forwards. B moves to another port and sends a frame. The switch learns it there, and the
//! rule ends before that frame leaves.

mod candidates;
mod rule;
mod seen;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};
use std::time::Duration;

use arrayvec::ArrayVec;
use plexus_io::fast::{
    Action, Counts, FabricLink, FastTable, Flow, Held, KernelEnd, Key, Routed, RuleId, Tag,
};
use plexus_io::{BATCH, PortId};
use plexus_table::MacKey;
use plexus_wire::{MacAddr, Time};

use crate::counters::Counters;
use crate::drops::DropReason;
use crate::fabric::lanes::Carried;
use crate::fabric::plan::FabricPlan;
use crate::router::fib::FibBatch;
use crate::router::plan::RouterPlan;
use crate::switch::Switch;
use candidates::{Candidate, Candidates};
pub(crate) use rule::Plans;
use rule::{Due, link_of};

/// Packets of a flow within a round that make it worth a rule.
const WORTH: u32 = 32;
/// The same in packets per second, for people.
pub const WORTH_PER_S: f64 = WORTH as f64 * 10.0;
/// New rules in a round: each costs a system call.
const NEW_MAX: usize = 256;
/// Rules that may end in a round to make room for others.
const SWAPS_MAX: usize = 64;
/// A rule without packets for this long ends.
const IDLE: Duration = Duration::from_secs(1);
/// Rules end this long before the switch forgets their destination: a round, and as much again.
const MARGIN: Duration = Duration::from_millis(200);
/// A flow that has had no pause for this long is held back if its port drops packets. Of others,
/// super-packets are: these are TCP's, which sends what is lost again, and in the pipeline never
/// pauses, since it sends as fast as it is acknowledged.
const HOLD_AFTER: Duration = Duration::from_millis(100);
/// Packets of a rule are held back for no longer.
const HOLD_MAX: Duration = Duration::from_millis(10);
/// Super-packets of a rule are held back no more often.
const HOLD_AGAIN: Duration = Duration::from_secs(10);
/// Least time between two rounds: links that change call for more of them.
const ROUND_MIN: Duration = Duration::from_millis(50);
/// How long after its end a rule's counts are read for the last time.
const REST: Duration = Duration::from_millis(50);
/// When a port is tried again that the kernel refused.
const RETRY: Duration = Duration::from_secs(10);
/// More packets or bytes than that between two looks are no count.
const LEAP: u64 = 1 << 40;
/// Rules of routed flows that are compared with the routes before a batch.
const CHECKS_MAX: usize = 64;
/// Waiting rules that are looked at in a turn.
const WAITING_MAX: usize = 16;

/// How often each port of the box has been seen with nothing waiting for it, in queues or on its
/// way from other workers. Workers share it; a worker that is alone needs none.
pub type Clears = Arc<[AtomicU64]>;

/// One worker's rules.
pub(crate) struct Fast {
    table: Box<dyn FastTable>,
    candidates: Candidates,
    rules: BTreeMap<Key, Rule>,
    /// The same, by their stations.
    by_station: BTreeSet<(MacKey, Key)>,
    /// Rules that do not forward yet, and others that have ended.
    waiting: VecDeque<(Key, RuleId)>,
    /// Those that were looked at when this turn began.
    sampled: Vec<Key>,
    /// Rules that hold packets back.
    holding: usize,
    /// Ports whose frames may be forwarded, as far as this worker knows, and how many they are.
    open: Vec<bool>,
    open_count: usize,
    /// The last round, and the time before which no further one is to begin.
    last_round: Time,
    next_round: Time,
    /// Rules that have ended, and since when.
    ended: Vec<(Time, Key, Rule)>,
    ports: BTreeMap<PortId, Known>,
    /// The links of the fabric that the table knows.
    links: BTreeMap<PortId, FabricLink>,
    /// Ports whose frames are to pass the pipeline.
    blocked: Vec<PortId>,
    /// Packets to the router in this batch, as they came in, and how many the batch had then.
    arrived: ArrayVec<(u8, Routed), BATCH>,
    arrived_of: usize,
    /// Rules of routed flows.
    routed: usize,
    /// The count of changes of the routes when it was read last; none: the router's plan is new.
    routes: Option<u64>,
    /// Rules that are to be compared with the routes since then, and the last one that was.
    to_check: usize,
    checked: Key,
    clears: Clears,
    /// News of flows that the load leads.
    carried: Carried,
    /// Rules that were made, and those that made room for others.
    made: u64,
    gave_way: u64,
}

/// The last attempt to open a port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Its frames may be forwarded, with this longest frame.
    Open(usize),
    /// It is not to be tried before then.
    Refused(Time),
}

/// Before all flows.
const NO_FLOW: Flow = Flow {
    in_port: 0,
    tag: None,
    destination: MacAddr([0; 6]),
    source: MacAddr([0; 6]),
    ethertype: 0,
};

struct Rule {
    id: RuleId,
    made_at: Time,
    due: Due,
    /// Its counts when they were added last.
    counted: Counts,
    /// Packets and bytes in this round.
    recent: u64,
    recent_bytes: u64,
    /// Packets that it had let through when a round looked last.
    passed: u64,
    last_used: Time,
    state: State,
    /// The packets that it had let through when their number last rose.
    noted: Option<Noted>,
    /// Whether it is in `waiting`.
    is_listed: bool,
    /// Whether super-packets of its flow have come since it began to wait.
    has_super: bool,
    hold: Hold,
    /// Super-packets are not held back before.
    hold_again: Time,
}

/// Packets that a rule has let through.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Noted {
    passed: u64,
    /// The mark that was set behind them, at the port that they come in by.
    mark: u64,
}

/// Whether a rule holds packets back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    NotYet,
    Since(Time),
    /// Once is enough, until it has forwarded for a round.
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It does not forward yet.
    Waiting { since: Time },
    /// All packets that it has let through are on their way to the port of another worker. That
    /// port had been seen clear `clears` times.
    Crossing { since: Time, passed: u64, clears: u64 },
    /// All packets that it has let through, `passed`, have left.
    Forwards { passed: u64 },
}

impl State {
    fn forwards(self) -> bool {
        matches!(self, State::Forwards { .. })
    }
}

/// A port whose frames may be forwarded, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastPort {
    /// Its number.
    pub id: PortId,
    /// Whether rules may lead to it.
    pub sends: bool,
    /// Whether its encapsulated link takes what packets owe; none if it has no such link.
    pub takes_owed: Option<bool>,
    /// Samples of its packets that were not taken because there were too many at once.
    pub missed_samples: u64,
}

/// One worker's part of a fast table, for people.
#[derive(Clone, Debug, Default)]
pub struct FastReport {
    /// Its rules.
    pub rules: Vec<FastRule>,
    /// The worker's ports whose frames may be forwarded.
    pub ports: Vec<FastPort>,
    /// Rules that were made since the worker started.
    pub made: u64,
    /// Of these, rules that gave way to flows with more packets.
    pub gave_way: u64,
}

impl Rule {
    /// Holds no packets back any more. True if it did.
    fn let_go(&mut self, table: &dyn FastTable) -> bool {
        let did = matches!(self.hold, Hold::Since(_));
        if did {
            table.hold(self.id, Held::Nothing);
            self.hold = Hold::Over;
        }
        did
    }
}

/// A rule, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastRule {
    /// Its frames.
    pub key: Key,
    /// Their treatment.
    pub action: Action,
    /// Whether the rule forwards already.
    pub forwards: bool,
    /// Its counts.
    pub counts: Counts,
}

impl Fast {
    /// No rules yet. `ports` is how many the box has; `seed` keys the hash of flows.
    pub(crate) fn new(table: Box<dyn FastTable>, clears: Clears, ports: usize, seed: u64) -> Fast {
        let open: Vec<bool> = (0..ports as PortId).map(|port| table.is_open(port)).collect();
        Fast {
            open_count: open.iter().filter(|open| **open).count(),
            open,
            holding: 0,
            last_round: Time::ZERO,
            next_round: Time::ZERO,
            table,
            candidates: Candidates::new(seed),
            rules: BTreeMap::new(),
            by_station: BTreeSet::new(),
            waiting: VecDeque::new(),
            sampled: Vec::with_capacity(WAITING_MAX),
            ended: Vec::new(),
            ports: BTreeMap::new(),
            links: BTreeMap::new(),
            blocked: Vec::new(),
            arrived: ArrayVec::new(),
            arrived_of: 0,
            routed: 0,
            routes: None,
            to_check: 0,
            checked: first_routed(),
            clears,
            carried: Carried::default(),
            made: 0,
            gave_way: 0,
        }
    }

    /// A port is up: its frames may be forwarded, unless it is blocked. Called some ten times a
    /// second, since the kernel may refuse for a while, and others may end it.
    pub(crate) fn keep_open(&mut self, now: Time, port: PortId, end: KernelEnd<'_>) {
        self.table.maintain(port);
        let is_open = self.table.is_open(port);
        self.set_open(port, is_open);
        let known = self.ports.get(&port).copied();
        if self.blocked.contains(&port) || (is_open && known == Some(Known::Open(end.max_frame))) {
            return;
        }
        if let Some(Known::Refused(until)) = known
            && now < until
        {
            return;
        }
        let was_open = matches!(known, Some(Known::Open(_)));
        if was_open && !is_open {
            // Somebody else has ended it.
            self.close(now, port);
            self.ports.insert(port, Known::Refused(now + RETRY));
            return;
        }
        let opened = self.table.open(port, end);
        self.set_open(port, opened.is_ok());
        let retry = |_| Known::Refused(now + RETRY);
        self.ports.insert(port, opened.map_or_else(retry, |()| Known::Open(end.max_frame)));
    }

    fn set_open(&mut self, port: PortId, is_open: bool) {
        let port = usize::from(port);
        if port >= self.open.len() {
            self.open.resize(port + 1, false);
        }
        let was_open = std::mem::replace(&mut self.open[port], is_open);
        self.open_count = self.open_count + usize::from(is_open) - usize::from(was_open);
    }

    /// A port is given up.
    pub(crate) fn remove_port(&mut self, now: Time, port: PortId) {
        self.close(now, port);
        self.sample(port, None);
        self.table.detach(port);
        self.blocked.retain(|blocked| *blocked != port);
    }

    /// Whether a port's frames may be forwarded.
    pub(crate) fn is_open(&self, port: PortId) -> bool {
        self.table.is_open(port)
    }

    /// A port's frames pass the pipeline from now on, in and out.
    pub(crate) fn close(&mut self, now: Time, port: PortId) {
        let of_port: Vec<Key> =
            self.rules.keys().filter(|key| key.in_port() == port).copied().collect();
        of_port.iter().for_each(|key| self.end(now, key));
        self.table.close(port);
        self.set_open(port, false);
        self.ports.remove(&port);
        self.links.remove(&port);
        self.end_void(now);
    }

    /// Closes a port, and keeps it closed or lets it be opened again.
    pub(crate) fn block(&mut self, now: Time, port: PortId, on: bool) {
        self.blocked.retain(|blocked| *blocked != port);
        if on {
            self.blocked.push(port);
            self.close(now, port);
        }
    }

    /// Sets the rate of a port's samples; `None` ends them. Rules stay as they are. A table that
    /// takes no samples ignores it.
    pub(crate) fn sample(&mut self, port: PortId, one_in: Option<NonZeroU32>) {
        let _ = self.table.sample(port, one_in);
    }

    /// The samples of a port that were not taken because there were too many at once.
    pub(crate) fn missed_samples(&self, port: PortId) -> u64 {
        self.table.missed_samples(port)
    }

    /// Ends all rules.
    pub(crate) fn end_all(&mut self, now: Time) {
        let all: Vec<Key> = self.rules.keys().copied().collect();
        all.iter().for_each(|key| self.end(now, key));
        self.candidates.clear();
    }

    /// The fabric has another plan. Ports of which it says something else than before are closed,
    /// and opened again when they are looked at next. Rules end that it would not make.
    pub(crate) fn adopt_fabric(&mut self, now: Time, switch: &Switch, plans: Plans<'_>) {
        let changed =
            self.links.iter().filter(|(port, link)| link_of(plans.fabric, **port) != Some(**link));
        let changed: Vec<PortId> = changed.map(|(port, _)| *port).collect();
        changed.into_iter().for_each(|port| self.close(now, port));
        // Also to ports of other workers, which may not have heard of it.
        let is_over = |(key, rule): &(&Key, &Rule)| {
            plans.is_of_fabric(key)
                && plans.rule(now, switch, key, rule.due.action.out_port) != Some(rule.due)
        };
        let over: Vec<Key> = self.rules.iter().filter(is_over).map(|(key, _)| *key).collect();
        over.iter().for_each(|key| self.end(now, key));
    }

    /// Tells the table of the fabric's links at ports that are open.
    fn set_links(&mut self, plan: &FabricPlan) {
        for port in 0..plan.ports() as PortId {
            if let Some(link) = link_of(plan, port)
                && !self.links.contains_key(&port)
                && self.table.is_open(port)
                && self.table.set_link(port, &link).is_ok()
            {
                self.links.insert(port, link);
            }
        }
    }

    /// Ends the rules from and to a station.
    pub(crate) fn end_of_station(&mut self, now: Time, station: MacKey) {
        let range = self.by_station.range((station, Key::Flow(NO_FLOW))..);
        let keys: Vec<Key> =
            range.take_while(|(its, _)| *its == station).map(|(_, key)| *key).collect();
        keys.iter().for_each(|key| self.end(now, key));
    }

    /// Ends the rules to ports that have been closed, by whichever worker.
    fn end_void(&mut self, now: Time) {
        let void = self.rules.iter().filter(|(_, rule)| !self.table.is_valid(rule.id));
        let void: Vec<Key> = void.map(|(key, _)| *key).collect();
        void.iter().for_each(|key| self.end(now, key));
    }

    fn end(&mut self, now: Time, key: &Key) {
        let Some(mut rule) = self.rules.remove(key) else { return };
        self.table.remove(key, rule.id);
        self.routed -= usize::from(matches!(key, Key::Routed(_)));
        self.carried.ended.extend(rule.due.led_by_load);
        self.holding -= usize::from(rule.let_go(&*self.table));
        for station in rule.due.stations.into_iter().flatten() {
            self.by_station.remove(&(station, *key));
        }
        self.ended.push((now, *key, rule));
    }

    fn is_seen_open(&self, port: PortId) -> bool {
        self.open.get(usize::from(port)).is_some_and(|open| *open)
    }

    /// The router's plan has changed: rules are to be compared with it before the next batch.
    pub(crate) fn note_routes(&mut self) {
        self.routes = None;
    }

    /// Ends the rules of flows that the router would no longer send on as they are. After a change
    /// it compares some rules before each batch, until it has compared all.
    #[inline]
    pub(crate) fn follow_routes(&mut self, now: Time, switch: &Switch, plans: Plans<'_>) {
        // Read before the routes: a change in between is seen the next time.
        let changes = plans.fib.map(FibBatch::changes);
        if changes.is_some() && changes != self.routes {
            (self.routes, self.to_check) = (changes, self.routed);
        }
        if self.to_check > 0 {
            self.check_routes(now, switch, plans);
        }
    }

    #[cold]
    fn check_routes(&mut self, now: Time, switch: &Switch, plans: Plans<'_>) {
        let count = self.to_check.min(CHECKS_MAX);
        self.to_check -= count;
        let end = Key::Hop { in_port: 0, hop: 0 };
        let behind = self.rules.range((Bound::Excluded(self.checked), Bound::Excluded(end)));
        let all = self.rules.range(first_routed()..end);
        let mut over = Vec::new();
        for (key, rule) in behind.chain(all).take(count) {
            self.checked = *key;
            if plans.rule(now, switch, key, rule.due.action.out_port) != Some(rule.due) {
                over.push(*key);
            }
        }
        over.iter().for_each(|key| self.end(now, key));
    }

    /// A turn begins: nothing has been received in it. `mark` sets a mark at a port of this worker
    /// ([`plexus_io::Port::mark`]).
    #[inline]
    pub(crate) fn begin_turn(&mut self, now: Time, mut mark: impl FnMut(PortId) -> u64) {
        self.sampled.clear();
        for _ in 0..self.waiting.len().min(WAITING_MAX) {
            let Some((key, id)) = self.waiting.pop_front() else { break };
            let Some(rule) = self.rules.get_mut(&key).filter(|rule| rule.id == id) else {
                continue;
            };
            rule.is_listed = !rule.state.forwards();
            if !rule.is_listed {
                continue;
            }
            // A packet that came when the rule was made may be on its way to the back-end.
            if rule.state != (State::Waiting { since: now }) {
                let passed = self.table.passed(id);
                if rule.noted.is_none_or(|noted| noted.passed != passed) {
                    // Read before the mark is set, so that the mark is behind them.
                    rule.noted = Some(Noted { passed, mark: mark(key.in_port()) });
                }
                self.sampled.push(key);
            }
            self.waiting.push_back((key, id));
        }
    }

    /// Whether the next turn should come at once: rules hold packets back, or are to be compared
    /// with the routes.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.holding > 0 || self.to_check > 0
    }

    /// A turn has ended. `is_drained` says of a port whether the turn received all that had arrived
    /// there, and `passed_mark` which mark it has passed. `is_clear` says of a port of this worker
    /// whether no packet waits for it, and nothing of other workers'.
    #[inline]
    pub(crate) fn end_turn(
        &mut self,
        now: Time,
        is_drained: impl Fn(PortId) -> bool,
        mut passed_mark: impl FnMut(PortId) -> u64,
        mut is_clear: impl FnMut(PortId) -> Option<bool>,
    ) {
        if self.holding > 0 {
            self.end_holds(now);
        }
        if self.has_others() && !self.sampled.is_empty() {
            // Behind the packets that were handed over: their worker sets its marks likewise.
            fence(SeqCst);
        }
        for key in self.sampled.drain(..) {
            let Some(rule) = self.rules.get_mut(&key) else { continue };
            let Some(Noted { passed, mark }) = rule.noted else { continue };
            if !is_drained(key.in_port()) || passed_mark(key.in_port()) < mark {
                continue;
            }
            let (State::Waiting { since } | State::Crossing { since, .. }) = rule.state else {
                continue;
            };
            let out = usize::from(rule.due.action.out_port);
            let have_left = match is_clear(rule.due.action.out_port) {
                Some(is_clear) => is_clear,
                None => {
                    let clears = self.clears.get(out).map_or(0, |clears| clears.load(Acquire));
                    match rule.state {
                        // At the first time the packets may still be on their way. The mark that
                        // the other worker sets then is behind them, and is passed by the second.
                        State::Crossing { passed: its, clears: before, .. } if its == passed => {
                            clears >= before + 2
                        }
                        _ => {
                            rule.state = State::Crossing { since, passed, clears };
                            false
                        }
                    }
                }
            };
            if have_left {
                self.table.settle(rule.id, passed);
                if self.table.passed(rule.id) == passed {
                    self.holding -= usize::from(rule.let_go(&*self.table));
                    (rule.state, rule.has_super) = (State::Forwards { passed }, false);
                }
            }
        }
    }

    /// Ends the holding back of packets that has taken too long.
    #[cold]
    fn end_holds(&mut self, now: Time) {
        for rule in self.rules.values_mut() {
            if matches!(rule.hold, Hold::Since(since) if now >= since + HOLD_MAX) {
                self.holding -= usize::from(rule.let_go(&*self.table));
            }
        }
    }

    /// Tells the other workers which ports of this one have nothing waiting for them.
    #[inline]
    pub(crate) fn note_clear(&self, ports: impl Iterator<Item = PortId>) {
        for clears in ports.filter_map(|port| self.clears.get(usize::from(port))) {
            // The port's worker alone writes it.
            clears.store(clears.load(Acquire) + 1, Release);
        }
    }

    /// Whether other workers want to know which ports are clear.
    #[inline]
    pub(crate) fn has_others(&self) -> bool {
        !self.clears.is_empty()
    }

    /// A round, some ten times a second: ends rules, and makes new ones. `overflows` says of a port
    /// whether it drops packets because its queue is full.
    pub(crate) fn round(
        &mut self,
        now: Time,
        switch: &mut Switch,
        plans: Plans<'_>,
        counters: &mut Counters,
        overflows: impl Fn(PortId) -> bool,
    ) {
        if now < self.next_round {
            return;
        }
        self.carried.time = now.since(self.last_round);
        (self.last_round, self.next_round) = (now, now + ROUND_MIN);
        for port in 0..plans.snapshot.ports.len() as PortId {
            self.set_open(port, self.table.is_open(port));
        }
        self.set_links(plans.fabric);
        self.count(now, plans.router, counters);
        let (mut over, mut urgent) = (Vec::new(), Vec::new());
        for (key, rule) in &mut self.rules {
            let is_used = rule.recent > 0;
            let passed = self.table.passed(rule.id);
            if passed != rule.passed {
                if !rule.state.forwards() {
                    rule.recent = passed.wrapping_sub(rule.passed);
                }
                (rule.passed, rule.last_used) = (passed, now);
            }
            // A packet that was on its way to the back-end has been counted since.
            if let State::Forwards { passed: settled } = rule.state {
                if settled != passed {
                    rule.state = State::Waiting { since: now };
                    wait(&mut self.waiting, key, rule);
                } else if rule.hold == Hold::Over && is_used {
                    rule.hold = Hold::NotYet;
                }
            }
            let [source, destination] = rule.due.stations;
            let out_port = rule.due.action.out_port;
            let keep = rule.last_used + IDLE > now
                && self.table.is_valid(rule.id)
                && source.is_none_or(|at| !is_used || switch.refresh(now, at, key.in_port()))
                && destination.is_none_or(|at| switch.stays(now, MARGIN, at, out_port));
            if is_used && key.is_in_fabric() {
                plans.fabric.hear(key.in_port(), now);
            }
            if !keep {
                over.push(*key);
            }
            if let State::Waiting { since } | State::Crossing { since, .. } = rule.state
                && now >= since + HOLD_AFTER
                && rule.hold == Hold::NotYet
                && self.holding < WAITING_MAX
                && let Some(held) = match overflows(key.in_port()) {
                    true => Some(Held::All),
                    false if rule.has_super && now >= rule.hold_again => Some(Held::SuperPackets),
                    false => None,
                }
            {
                self.table.hold(rule.id, held);
                (rule.hold, rule.hold_again) = (Hold::Since(now), now + HOLD_AGAIN);
                self.holding += 1;
                urgent.push((*key, rule.id));
            }
        }
        if !urgent.is_empty() {
            // They come first from now on.
            self.waiting.retain(|waiting| !urgent.contains(waiting));
            urgent.into_iter().for_each(|waiting| self.waiting.push_front(waiting));
        }
        over.iter().for_each(|key| self.end(now, key));
        self.add(now, switch, plans);
    }

    /// Adds what rules have counted since the last time.
    pub(crate) fn count(&mut self, now: Time, router: &RouterPlan, counters: &mut Counters) {
        for (key, rule) in &mut self.rules {
            if count(&*self.table, key, rule, counters) {
                rule.last_used = now;
                rule.due.neighbour.into_iter().for_each(|neighbour| router.mark_used(neighbour));
            }
        }
        let table = &mut self.table;
        self.ended.retain_mut(|(since, key, rule)| {
            count(&**table, key, rule, counters);
            let is_over = now >= *since + REST;
            if is_over {
                table.forget(rule.id);
            }
            !is_over
        });
    }

    /// Makes rules of the flows of this round that had most packets. If the table is full, rules
    /// that had far fewer end, so that there is room in the next round.
    fn add(&mut self, now: Time, switch: &Switch, plans: Plans<'_>) {
        let worth = self.candidates.take(WORTH);
        let (made, mut without) = (self.made, Vec::new());
        for Candidate { key, out_port, packets, bytes } in worth {
            if self.made - made >= NEW_MAX as u64 || without.len() >= NEW_MAX {
                break;
            }
            let Some(key) = key.filter(|key| !self.rules.contains_key(key)) else { continue };
            let is_known = match key.is_in_fabric() {
                true => self.links.contains_key(&key.in_port()),
                false => self.table.is_open(key.in_port()),
            };
            let due = plans.rule(now, switch, &key, out_port).filter(|_| is_known);
            let Some(due) = due else { continue };
            let id = match self.table.insert(&key, &due.action) {
                Ok(id) => id,
                Err(error) => {
                    if error.kind() == std::io::ErrorKind::StorageFull {
                        without.push(packets);
                    }
                    continue;
                }
            };
            let mut rule = Rule {
                id,
                made_at: now,
                due,
                counted: Counts::default(),
                recent: 0,
                recent_bytes: 0,
                passed: 0,
                last_used: now,
                state: State::Waiting { since: now },
                noted: None,
                is_listed: false,
                has_super: false,
                hold: Hold::NotYet,
                hold_again: now,
            };
            wait(&mut self.waiting, &key, &mut rule);
            if let Some(flow) = due.led_by_load {
                self.carried.began.push(flow);
                // It goes on at this rate until the rule has counted for a round.
                self.carried.sent.push((flow, out_port, bytes));
            }
            self.rules.insert(key, rule);
            self.made += 1;
            if matches!(key, Key::Routed(_)) {
                self.routed += 1;
                // The check that is under way may have passed its place.
                self.to_check += usize::from(self.to_check > 0);
            }
            let stations = due.stations.into_iter().flatten();
            self.by_station.extend(stations.map(|station| (station, key)));
        }
        if !without.is_empty() {
            self.make_room(now, &without);
        }
        for rule in self.rules.values_mut() {
            if let Some(flow) = rule.due.led_by_load.filter(|_| rule.recent_bytes > 0) {
                self.carried.sent.push((flow, rule.due.action.out_port, rule.recent_bytes));
            }
            (rule.recent, rule.recent_bytes) = (0, 0);
        }
    }

    /// News of flows that the load leads, once.
    pub(crate) fn take_carried(&mut self) -> Carried {
        std::mem::take(&mut self.carried)
    }

    /// Ends rules that had less than half as many packets in this round as flows that found no
    /// room; `without`: the packets of these, most first.
    fn make_room(&mut self, now: Time, without: &[u32]) {
        // A new rule has counted no whole round yet. Later one that does not forward counts what it
        // lets through. Else a host could fill the table with such rules: of flows to a port that
        // is full, or of flows with packets that no rule forwards.
        let is_old = |rule: &Rule| rule.state.forwards() || now >= rule.made_at + IDLE;
        let old = self.rules.iter().filter(|(_, rule)| is_old(rule));
        let mut least: Vec<(u64, Key)> = old.map(|(key, rule)| (rule.recent, *key)).collect();
        least.sort_unstable();
        for ((recent, key), packets) in least.into_iter().zip(without).take(SWAPS_MAX) {
            if 2 * recent >= u64::from(*packets) {
                return;
            }
            self.end(now, &key);
            self.gave_way += 1;
        }
    }

    /// Whether the packets of a flow go by a rule.
    pub(crate) fn forwards(&self, key: &Key) -> bool {
        self.rules.get(key).is_some_and(|rule| rule.state.forwards())
    }

    /// The rules, for people; `ports` are the worker's.
    pub(crate) fn report(&self, ports: impl Iterator<Item = PortId>) -> FastReport {
        let rules = self.rules.iter().map(|(key, rule)| FastRule {
            key: *key,
            action: rule.due.action,
            forwards: rule.state.forwards(),
            counts: self.table.read(rule.id),
        });
        FastReport {
            rules: rules.collect(),
            ports: ports
                .filter(|port| self.is_open(*port))
                .map(|id| FastPort {
                    id,
                    sends: self.table.sends(id),
                    takes_owed: self.links.get(&id).map(|_| self.table.takes_owed(id)),
                    missed_samples: self.table.missed_samples(id),
                })
                .collect(),
            made: self.made,
            gave_way: self.gave_way,
        }
    }
}

/// Lists a rule among those that do not forward yet.
fn wait(waiting: &mut VecDeque<(Key, RuleId)>, key: &Key, rule: &mut Rule) {
    if !std::mem::replace(&mut rule.is_listed, true) {
        waiting.push_back((*key, rule.id));
    }
}

/// Adds what a rule has counted since the last time. True if that is any packet.
fn count(table: &dyn FastTable, key: &Key, rule: &mut Rule, counters: &mut Counters) -> bool {
    const TAG_LEN: u64 = 4;
    let counts = table.read(rule.id);
    // Others can write into the kernel's maps: a count that goes back, or leaps, is no count.
    let more = |now: u64, before: u64| now.checked_sub(before).filter(|more| *more < LEAP);
    let packets = more(counts.packets, rule.counted.packets).unwrap_or(0);
    let bytes = more(counts.bytes, rule.counted.bytes).unwrap_or(0);
    let held = more(counts.held, rule.counted.held).unwrap_or(0);
    let taken_off = more(counts.taken_off, rule.counted.taken_off).unwrap_or(0);
    rule.counted = counts;
    rule.recent += packets;
    rule.recent_bytes += bytes;
    let tag = |is_tagged: bool| if is_tagged { packets * TAG_LEN } else { 0 };
    let comes_tagged = match key {
        Key::Flow(flow) | Key::Routed(Routed { flow, .. }) => flow.tag.is_some(),
        Key::Hop { .. } | Key::Delivery { .. } => false,
    };
    // A hop gets another header in place of the one that it had.
    let put_before = match (key, &rule.due.action.front) {
        (Key::Flow(_) | Key::Routed(_), Some(front)) => packets * front.bytes().len() as u64,
        _ => 0,
    };
    let leaves_tagged = match rule.due.action.tag {
        Tag::Keep => comes_tagged,
        Tag::Pop => false,
        Tag::Push(_) | Tag::Swap(_) => true,
    };
    counters.fast_received(key.in_port(), packets + held, bytes + tag(comes_tagged));
    let sent = (bytes + put_before + tag(leaves_tagged)).saturating_sub(taken_off);
    counters.fast_sent(rule.due.action.out_port, packets, sent);
    counters.drop_many(key.in_port(), DropReason::Held, held);
    if matches!(key, Key::Routed(_)) && rule.due.action.step.is_some() {
        counters.routed(key.in_port(), packets);
    }
    packets > 0
}

/// Before all keys of routed flows.
fn first_routed() -> Key {
    let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let (flow, is_from_node, ports) = (NO_FLOW, false, None);
    Key::Routed(Routed { flow, is_from_node, source: nobody, destination: nobody, ports })
}
