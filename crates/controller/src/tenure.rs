//! Which of several controllers leads, and until when it may promise anything.
//!
//! The store grants a controller a *lease*, which ends unless it is kept. The leader has written
//! the store's *leader record* last, with a lease. The revision of that record is the
//! controller's *epoch*: it only grows, every write of the store names it, and nodes obey the
//! highest one that has been proved to them. So a leader that another one has replaced can do no
//! harm, however late its messages and writes arrive. In addition it stops promising as soon as its
//! lease might have ended by its own clock.
//!
//! A controller takes the leader's place if there is no leader record; or if its node hears the
//! leader no more **and** the leader has not reported to the store for a while, or reports that it
//! reaches no node. Either sign alone is not enough: a controller whose own cable is cut hears
//! nothing, and a leader that has lost the store may be the only one that the nodes reach.
//!
//! A controller that hears neither from its store nor of a leader leads *provisionally*, with an
//! epoch that is lower than every other: it tells routes, and promises nothing. The store may be
//! reachable over these routes alone. Of several, the one with the lowest number goes on.
//!
//! [`Tenure`] decides this, sans-IO. A driver carries its [`Ask`]s to the store and brings back the
//! [`Answer`]s. A store of a single controller answers with a lease without end.

pub mod model;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use plexus_control::hub;
use plexus_wire::Time;
use plexus_wire::fabric::message::PROVISIONAL_EPOCH;
use serde::{Deserialize, Serialize};

use crate::{Change, Record};

/// Heartbeats from one report to the next.
const REPORT: u32 = 2;
/// A leader that has not reported for so many is silent.
const SILENT: u32 = 5;
/// A lease is kept this many times before it would end.
const KEPT_TIMES: u32 = 5;
/// A controller stops promising before its lease ends by this part of the lease's time: clocks run
/// at different speeds.
const MARGIN: u32 = 8;
/// How long a request may remain without an answer before it is repeated.
const PATIENCE: Duration = Duration::from_millis(500);
/// The same for a campaign, whose answer brings everything stored.
const CAMPAIGN: Duration = Duration::from_secs(10);
/// How long a new leader has to be heard by a node.
const GRACE: Duration = Duration::from_secs(1);
/// How long neither the store nor a leader is heard before a controller leads provisionally: longer
/// than it takes to reach a store that works, and to replace a leader.
const QUIET: Duration = Duration::from_secs(3);
/// After a handover on purpose, how long the controller leaves leading to others.
const HOLD: Duration = Duration::from_secs(10);

/// Times that all controllers of a group share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The length of a lease.
    pub lease: Duration,
    /// How often a controller reports to the store; absent: there is no other controller.
    pub report: Option<Duration>,
    /// A leader that has not reported for this long is silent.
    pub silence: Duration,
}

impl Times {
    /// A controller alone, whose lease has no end.
    pub const ALONE: Times =
        Times { lease: Duration::MAX, report: None, silence: Duration::from_millis(500) };

    /// Several controllers, of a group with these heartbeats.
    pub fn shared(lease: Duration, heartbeat: Duration) -> Times {
        Times { lease, report: Some(heartbeat * REPORT), silence: heartbeat * SILENT }
    }
}

/// The leader record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The controller's name.
    pub name: String,
    /// The lease with which the record ends.
    pub lease: u64,
    /// The revision of the record.
    pub epoch: u64,
}

/// A controller's report about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Nodes with a session.
    pub nodes: u32,
    /// Whether its device is cabled to a node.
    pub attached: bool,
    /// The time of day by its clock, in seconds since 1970; 0: it did not say.
    #[serde(default)]
    pub unix_s: u64,
    /// Its node number; 0: it did not say.
    #[serde(default)]
    pub number: u64,
    /// A digest of its settings.
    #[serde(default)]
    pub settings: u64,
    /// How often it has begun to follow.
    #[serde(default)]
    pub follows: u32,
}

/// A request to the store. `asked` comes back in the answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// A new lease.
    Lease {
        /// Its length.
        time: Duration,
        /// When it is asked for: it does not begin before.
        asked: Time,
    },
    /// Begin the time of a lease anew.
    Keep {
        /// The lease.
        lease: u64,
        /// As of [`Ask::Lease`].
        asked: Time,
    },
    /// Write the leader record, if it is still of this epoch (0: absent), and read the records.
    Campaign {
        /// The record ends with it.
        lease: u64,
        /// The epoch of the leader that it replaces.
        instead_of: u64,
    },
    /// Tell the others about this controller.
    Report {
        /// The report ends with it.
        lease: u64,
        /// The report.
        member: Member,
    },
    /// Make changes durable if the leader record is of this epoch; after all writes that were asked
    /// for before. A crash may leave a part of them written, but none of them promised.
    Write {
        /// The epoch.
        epoch: u64,
        /// Comes back in the answer.
        ticket: u64,
        /// The changes.
        changes: Vec<Change>,
    },
    /// End a lease at once, and with it the leader record.
    Release {
        /// The lease.
        lease: u64,
    },
}

/// An answer of the store, or its news.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The leader record is this now; the first of these comes unasked.
    Leader(Option<Leader>),
    /// A controller has reported; absent: its lease has ended.
    Member(String, Option<Member>),
    /// A lease was granted.
    Leased {
        /// The lease.
        lease: u64,
        /// Its length; absent: it has no end.
        time: Option<Duration>,
        /// As in the request.
        asked: Time,
    },
    /// A lease was kept.
    Kept {
        /// The lease.
        lease: u64,
        /// As in the request.
        asked: Time,
    },
    /// The connection was lost: requests without an answer get none, except writes.
    Lost,
    /// A lease has ended.
    Ended {
        /// The lease.
        lease: u64,
    },
    /// The leader record was written.
    Won {
        /// The lease of the campaign.
        lease: u64,
        /// Its epoch.
        epoch: u64,
        /// Everything stored.
        stored: Vec<Record>,
    },
    /// The leader record was not of that epoch: it was not written.
    Beaten,
    /// The changes of this ticket, and of all before, are durable.
    Written {
        /// The epoch of the writes.
        epoch: u64,
        /// The ticket.
        ticket: u64,
    },
    /// The leader record is of another epoch: nothing was written, and nothing will be.
    Fenced {
        /// The epoch of the write.
        epoch: u64,
    },
    /// The store cannot be used, with the reason for people. It is tried again.
    Trouble(String),
}

/// An order for the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Ask the store.
    Ask(Ask),
    /// Begin to lead: start a core from what is stored.
    Lead {
        /// The epoch. [`PROVISIONAL_EPOCH`]: the core promises nothing.
        epoch: u64,
        /// Everything stored.
        stored: Vec<Record>,
    },
    /// Whether the lease may have ended: promise nothing while that is so.
    Doubt(bool),
    /// Stop leading: end the core and what it has said.
    Retire(Why),
}

/// Why a controller stops leading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Another one leads, or the leader record is gone.
    Replaced,
    /// It was asked to.
    Drained,
    /// The versions of its epoch are nearly used up.
    Spent,
    /// It led provisionally, and its node follows another controller.
    Overruled,
    /// It led provisionally, and is cabled to no node any more.
    Detached,
    /// It led provisionally, and begins to lead with the store's consent.
    Elected,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Why::Replaced => "the store has another leader, or none",
            Why::Drained => "it was asked to hand over",
            Why::Spent => "its epoch has few versions left: the next one has all of them",
            Why::Overruled => "its node follows another controller",
            Why::Detached => "it is cabled to no node",
            Why::Elected => "it leads by the store from now on",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lease {
    None,
    /// Asked for at this time.
    Asked(Time),
    Held {
        lease: u64,
        time: Option<Duration>,
        /// By our own clock it has not ended before.
        until: Time,
        keep_at: Time,
    },
}

/// The part that a controller has in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It waits for its turn.
    Standby,
    /// It has asked for its turn.
    Campaigning {
        /// When.
        since: Time,
        /// The epoch of the leader that it wants to replace.
        instead_of: u64,
    },
    /// It leads.
    Leading {
        /// Its epoch.
        epoch: u64,
        /// Whether its lease may have ended.
        in_doubt: bool,
    },
}

/// Another controller, as the store shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its last report.
    pub member: Member,
    /// When that came.
    pub at: Time,
}

/// The state machine; see the module's documentation.
#[derive(Debug)]
pub struct Tenure {
    own: String,
    number: u64,
    times: Times,
    role: Role,
    /// It leads provisionally, besides its role.
    is_provisional: bool,
    lease: Lease,
    /// Absent: the store has not said yet.
    leader: Option<Option<Leader>>,
    /// When the store was last lost.
    untold_since: Time,
    /// When the store told it, as one that was not known.
    leader_at: Time,
    /// The epoch that was led last, and since when.
    reign: (Option<u64>, Time),
    /// The record that was there when the store was first reached.
    first: Option<u64>,
    members: BTreeMap<String, Known>,
    reported: Member,
    report_at: Time,
    /// The controller that its node has a way to.
    heard: Option<hub::Leader>,
    /// Since when its node has a way to no controller, as far as it has a node.
    unheard_since: Time,
    hold_until: Time,
    /// When it was last looked what is due.
    ran: Time,
    outputs: VecDeque<Output>,
}

impl Tenure {
    /// A controller that has just started, with its name and its number.
    pub fn new(own: &str, number: u64, times: Times) -> Tenure {
        Tenure {
            own: own.to_string(),
            number,
            times,
            role: Role::Standby,
            is_provisional: false,
            lease: Lease::None,
            leader: None,
            untold_since: Time::ZERO,
            leader_at: Time::ZERO,
            reign: (None, Time::ZERO),
            first: None,
            members: BTreeMap::new(),
            reported: Member::default(),
            report_at: Time::ZERO,
            heard: None,
            unheard_since: Time::ZERO,
            hold_until: Time::ZERO,
            ran: Time::ZERO,
            outputs: VecDeque::new(),
        }
    }

    /// Processes an answer or news of the store. [`Answer::Written`] and [`Answer::Trouble`] are
    /// the driver's alone.
    pub fn answer(&mut self, now: Time, answer: Answer) {
        match answer {
            Answer::Leader(leader) => {
                self.first.get_or_insert(leader.as_ref().map_or(0, |l| l.epoch));
                let (epoch, lease) = leader.as_ref().map(|l| (l.epoch, l.lease)).unzip();
                self.set_leader(now, leader);
                if let Role::Campaigning { instead_of, .. } = self.role
                    && epoch.unwrap_or(0) != instead_of
                    && !lease.is_some_and(|lease| self.is_own(lease))
                {
                    // Another one was faster, or the record has ended: it is another question now.
                    self.role = Role::Standby;
                }
                if let Role::Leading { epoch: own, .. } = self.role
                    // News of an earlier record may come late.
                    && epoch.is_none_or(|epoch| epoch > own)
                {
                    self.retire(Why::Replaced);
                }
            }
            Answer::Member(name, Some(member)) => {
                self.members.insert(name, Known { member, at: now });
            }
            Answer::Member(name, None) => {
                self.members.remove(&name);
            }
            Answer::Leased { lease, time, asked } => self.leased(now, lease, time, asked),
            Answer::Kept { lease: kept, asked } => {
                if let Lease::Held { lease, time: Some(time), until, .. } = &mut self.lease
                    && *lease == kept
                {
                    // Answers may come in another order than the requests.
                    *until = end_of(*time, asked).max(*until);
                }
            }
            Answer::Lost => {
                if matches!(self.lease, Lease::Asked(_)) {
                    self.lease = Lease::None;
                }
                if matches!(self.role, Role::Campaigning { .. }) {
                    self.role = Role::Standby;
                }
                // The store's silence is not the leader's.
                if !matches!(self.role, Role::Leading { .. }) && self.leader.take().is_some() {
                    self.untold_since = now;
                }
            }
            Answer::Ended { lease } => self.ended(lease),
            Answer::Won { lease, epoch, stored } => self.won(now, lease, epoch, stored),
            Answer::Fenced { epoch } => {
                if matches!(self.role, Role::Leading { epoch: own, .. } if own == epoch) {
                    self.retire(Why::Replaced);
                }
            }
            // The news of who was faster follows, or has come already.
            Answer::Beaten | Answer::Written { .. } | Answer::Trouble(_) => {}
        }
        self.run(now);
    }

    /// Its device is cabled to a node now, or is no more.
    pub fn attach(&mut self, now: Time, attached: bool) {
        if self.reported.attached != attached {
            self.unheard_since = now;
        }
        self.reported.attached = attached;
        if !attached {
            self.yield_place(Why::Detached);
        }
        // The others must know at once.
        self.report_at = now;
        self.run(now);
    }

    /// The controller that this node has a way to has changed.
    pub fn hear(&mut self, now: Time, leader: Option<hub::Leader>) {
        if self.heard.is_some() {
            self.unheard_since = now;
        }
        self.heard = leader;
        let comes_first =
            |heard: hub::Leader| heard.epoch > PROVISIONAL_EPOCH || heard.controller < self.number;
        if leader.is_some_and(comes_first) {
            self.yield_place(Why::Overruled);
        }
        self.run(now);
    }

    /// Sets this controller's next report, except for its cable.
    pub fn describe(&mut self, member: Member) {
        self.reported = Member { attached: self.reported.attached, ..member };
    }

    /// The time of day by the clocks of all controllers that report now: their median. A leader
    /// counts leases by it, so that one wrong clock of three does no harm.
    pub fn time_of_day(&self, now: Time, own: u64) -> u64 {
        let others = self
            .members
            .iter()
            .filter(|(name, known)| **name != self.own && known.member.unix_s > 0);
        let others = others
            .map(|(_, known)| known.member.unix_s.saturating_add(now.since(known.at).as_secs()));
        let mut all: Vec<u64> = others.chain([own]).collect();
        all.sort_unstable();
        // Of two the earlier one, so that no lease that is stored ends early.
        all[(all.len() - 1) / 2]
    }

    /// Hands over on purpose, and leaves leading to others for a while.
    pub fn drain(&mut self, now: Time) {
        self.hand_over(now, Why::Drained);
    }

    /// Hands over because another epoch is needed, which may be its own.
    pub fn renew(&mut self, now: Time) {
        self.hand_over(now, Why::Spent);
    }

    fn hand_over(&mut self, now: Time, why: Why) {
        self.hold_until = now + HOLD;
        self.yield_place(why);
        if matches!(self.role, Role::Leading { .. }) {
            self.retire(why);
        }
        self.run(now);
    }

    /// Gives up the lease, so that others need not wait for its end.
    pub fn stop(&mut self) {
        if let Lease::Held { lease, .. } = self.lease {
            self.ask(Ask::Release { lease });
        }
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Its part now.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The controller's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the store is shared with other controllers.
    pub fn is_shared(&self) -> bool {
        self.times.report.is_some()
    }

    /// Whether a leader record is another controller's.
    pub fn is_other(&self, leader: &Leader) -> bool {
        leader.name != self.own
    }

    /// Whether the store has said lately which controller leads, if any.
    pub fn knows_leader(&self) -> bool {
        self.leader.is_some()
    }

    /// Whether it leads provisionally: it tells routes, and promises nothing.
    pub fn is_provisional(&self) -> bool {
        self.is_provisional
    }

    /// The leader record, as far as it is known.
    pub fn leader(&self) -> Option<&Leader> {
        self.leader.as_ref()?.as_ref()
    }

    /// Since when it has been led as it is.
    pub fn leader_since(&self) -> Time {
        self.reign.1
    }

    /// Whether another controller could lead: it has reported lately, and is cabled to a node.
    pub fn has_successor(&self, now: Time) -> bool {
        self.members.iter().any(|(name, known)| {
            let is_alive = now.since(known.at) < self.times.silence;
            *name != self.own && known.member.attached && is_alive
        })
    }

    /// The controllers that report to the store.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Known)> + '_ {
        self.members.iter().map(|(name, known)| (&name[..], known))
    }

    /// How long the lease lasts from now on; absent: there is none.
    pub fn lease_left(&self, now: Time) -> Option<Duration> {
        match self.lease {
            Lease::Held { until, .. } => Some(until.since(now)),
            _ => None,
        }
    }

    /// Everything that is due by now.
    pub fn run(&mut self, now: Time) {
        self.ran = now;
        self.look_after_lease(now);
        if let (Some(every), Lease::Held { lease, .. }) = (self.times.report, self.lease)
            && self.report_at <= now
        {
            self.report_at = now + every;
            let member = self.reported;
            self.ask(Ask::Report { lease, member });
        }
        let in_doubt = !self.holds(now);
        match &mut self.role {
            Role::Leading { in_doubt: before, .. } => {
                if *before != in_doubt {
                    *before = in_doubt;
                    self.outputs.push_back(Output::Doubt(in_doubt));
                }
            }
            Role::Campaigning { since, .. } => {
                if now.since(*since) >= CAMPAIGN {
                    self.role = Role::Standby;
                }
            }
            Role::Standby => {}
        }
        if self.provisional_at().is_some_and(|at| at <= now) {
            self.is_provisional = true;
            let (epoch, stored) = (PROVISIONAL_EPOCH, Vec::new());
            self.outputs.push_back(Output::Lead { epoch, stored });
        }
        if let (Role::Standby, Lease::Held { lease, .. }, false) = (self.role, self.lease, in_doubt)
            && self.turn_at().is_some_and(|at| at <= now)
        {
            let instead_of = self.leader().map_or(0, |leader| leader.epoch);
            self.role = Role::Campaigning { since: now, instead_of };
            self.ask(Ask::Campaign { lease, instead_of });
        }
    }

    /// When to call [`run`](Self::run).
    pub fn next_deadline(&self) -> Time {
        let lease = match self.lease {
            Lease::None => Time::ZERO,
            Lease::Asked(at) => at + PATIENCE,
            Lease::Held { until, keep_at, .. } => match self.role {
                Role::Leading { in_doubt: false, .. } => keep_at.min(until),
                _ => keep_at,
            },
        };
        let report = match (self.times.report, self.lease) {
            (Some(_), Lease::Held { .. }) => self.report_at,
            _ => Time::FOREVER,
        };
        let role = match (self.role, self.lease) {
            (Role::Campaigning { since, .. }, _) => since + CAMPAIGN,
            // Without a lease it waits for one.
            (Role::Standby, _) if self.holds(self.ran) => self.turn_at().unwrap_or(Time::FOREVER),
            _ => Time::FOREVER,
        };
        lease.min(report).min(role).min(self.provisional_at().unwrap_or(Time::FOREVER))
    }

    fn set_leader(&mut self, now: Time, leader: Option<Leader>) {
        if self.leader.as_ref() != Some(&leader) {
            self.leader_at = now;
        }
        let epoch = leader.as_ref().map(|leader| leader.epoch);
        if self.reign.0 != epoch {
            self.reign = (epoch, now);
        }
        self.leader = Some(leader);
    }

    fn ask(&mut self, ask: Ask) {
        self.outputs.push_back(Output::Ask(ask));
    }

    /// Whether the lease has certainly not ended.
    fn holds(&self, now: Time) -> bool {
        matches!(self.lease, Lease::Held { until, .. } if now < until)
    }

    fn is_own(&self, lease: u64) -> bool {
        matches!(self.lease, Lease::Held { lease: held, .. } if held == lease)
    }

    fn look_after_lease(&mut self, now: Time) {
        match self.lease {
            Lease::Asked(at) if now.since(at) < PATIENCE => {}
            Lease::None | Lease::Asked(_) => {
                self.lease = Lease::Asked(now);
                self.ask(Ask::Lease { time: self.times.lease, asked: now });
            }
            Lease::Held { lease, time: Some(time), until, keep_at } if keep_at <= now => {
                let keep_at = now + time / KEPT_TIMES;
                self.lease = Lease::Held { lease, time: Some(time), until, keep_at };
                self.ask(Ask::Keep { lease, asked: now });
            }
            Lease::Held { .. } => {}
        }
    }

    fn leased(&mut self, now: Time, lease: u64, time: Option<Duration>, asked: Time) {
        if matches!(self.lease, Lease::Held { .. }) {
            // The request was repeated, and both were granted.
            return self.ask(Ask::Release { lease });
        }
        let until = time.map_or(Time::FOREVER, |time| end_of(time, asked));
        let keep_at = time.map_or(Time::FOREVER, |time| now + time / KEPT_TIMES);
        self.lease = Lease::Held { lease, time, until, keep_at };
        self.report_at = now;
    }

    fn ended(&mut self, lease: u64) {
        if !self.is_own(lease) {
            return;
        }
        self.lease = Lease::None;
        match self.role {
            // The leader record has ended with it.
            Role::Leading { .. } => self.retire(Why::Replaced),
            Role::Campaigning { .. } => self.role = Role::Standby,
            Role::Standby => {}
        }
    }

    fn won(&mut self, now: Time, lease: u64, epoch: u64, stored: Vec<Record>) {
        if matches!(self.role, Role::Leading { .. }) || !self.is_own(lease) {
            return;
        }
        let newer = self.leader().is_some_and(|leader| leader.epoch > epoch);
        if newer || !self.holds(now) {
            // Too late: the record is replaced, or may end with the lease.
            self.role = Role::Standby;
            return;
        }
        self.yield_place(Why::Elected);
        self.set_leader(now, Some(Leader { name: self.own.clone(), lease, epoch }));
        self.role = Role::Leading { epoch, in_doubt: false };
        self.outputs.push_back(Output::Lead { epoch, stored });
    }

    /// Ends the lease too: the leader record must not outlast the leading.
    fn retire(&mut self, why: Why) {
        self.role = Role::Standby;
        self.outputs.push_back(Output::Retire(why));
        if let Lease::Held { lease, .. } = self.lease {
            self.ask(Ask::Release { lease });
        }
        self.lease = Lease::None;
    }

    /// Stops leading provisionally, if it does.
    fn yield_place(&mut self, why: Why) {
        if std::mem::take(&mut self.is_provisional) {
            self.outputs.push_back(Output::Retire(why));
        }
    }

    /// When it leads provisionally, as things are now. A leader in doubt goes on as it is, because
    /// nodes follow its epoch.
    fn provisional_at(&self) -> Option<Time> {
        let is_alone = self.times.report.is_none();
        let is_quiet = self.leader.is_none() && self.heard.is_none() && self.reported.attached;
        let leads = self.is_provisional || matches!(self.role, Role::Leading { .. });
        let since = self.untold_since.max(self.unheard_since);
        (is_quiet && !leads && !is_alone).then(|| (since + QUIET).max(self.hold_until))
    }

    /// When it is this controller's turn, as things are now.
    fn turn_at(&self) -> Option<Time> {
        // One that has handed over leaves its turn to others, unless none of them takes it.
        let held = |at: Time| self.hold_until.clamp(at, at + GRACE);
        let Some(leader) = self.leader.as_ref()? else {
            // One that no node can reach lets others go first.
            let may_lead = self.reported.attached || self.times.report.is_none();
            let at = if may_lead { self.leader_at } else { self.leader_at + GRACE };
            return Some(held(at));
        };
        if self.is_own(leader.lease) {
            // The answer was lost.
            return Some(Time::ZERO);
        }
        if leader.name == self.own && self.first == Some(leader.epoch) {
            // The record of this controller's life before: it has just been started again.
            return Some(Time::ZERO);
        }
        let is_heard = self.heard.is_some_and(|heard| heard.epoch >= leader.epoch);
        if !self.reported.attached || is_heard {
            return None;
        }
        let silent = match self.members.get(&leader.name) {
            Some(Known { member, at }) if member.attached && member.nodes > 0 => {
                *at + self.times.silence
            }
            // It reaches no node, or its lease has ended.
            _ => Time::ZERO,
        };
        Some(held(silent.max(self.leader_at + GRACE)))
    }
}

/// Until when a lease may be relied on.
fn end_of(time: Duration, asked: Time) -> Time {
    asked + (time - time / MARGIN)
}

#[cfg(test)]
mod tests;
