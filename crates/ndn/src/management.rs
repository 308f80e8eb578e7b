//! NFD's management: commands, datasets and notifications under `/localhost/nfd`, compatible with
//! existing clients, and the RIB behind it (NFD wiki, "Management"; NFD developer guide).
//!
//! One [`Management`] per node, without clock or socket. The forwarder gives it an ordinary face,
//! to which `/localhost/nfd` and, if neighbours may command, `/localhop/nfd` lead. The driver
//! passes every Interest that arrives on that face to it, with the incoming face (IncomingFaceId),
//! sends the Data that it returns, and implements [`Host`], which carries out the commands. The
//! Data are fresh for one second. The driver keeps them out of the content store (by CachePolicy),
//! so that a repeated command reaches management and not the cached first answer. Segments of
//! datasets are kept here for as long as clients ask for them.
//!
//! Answers:
//!
//! * a command with an accepted signature ([`Trust`], and not a replay): its result, in NFD's codes
//!   and texts; any other command, signed or unsigned: 403;
//! * a neighbour's command that exceeds the limit on signature verifications: 503
//!   ([`VerificationRate`]);
//! * a command with an unknown name: 501;
//! * a dataset: to every local client, also for Interests with parameters and a signature;
//! * everything else is dropped and counted.
//!
//! Where NFD and ndnd differ, we follow the more lenient: unknown fields of a command are ignored,
//! face URIs need not be canonical, and errors have (empty) parameters, without which python-ndn
//! cannot parse them. NFD answers 200 and only then finds that a route's face does not exist; we
//! answer 410 like ndnd. In the forwarder's status, the number of content store entries counts
//! memory only, not disks; there is no name tree, and measurements are not counted either: both
//! numbers are 0. A face with an expiry time may be removed earlier when faces are scarce. Unlike
//! both, a neighbour may not command for another's face.

mod announce;
mod authorize;
mod budget;
mod chains;
mod claim;
mod command;
mod config;
mod connecting;
mod dataset;
mod events;
mod face_verbs;
mod host;
mod keys;
mod replay;
mod reply;
mod rib;
mod snapshots;
mod verbs;
mod verify;
mod writing;

use std::collections::{BTreeMap, VecDeque};

use plexus_wire::Time;
use plexus_wire::ndn::nfd::{FaceEventNotification, FaceStatus, face_event};
use plexus_wire::ndn::{Interest, Name, NameBuf};

use crate::face::FaceId;
use crate::fib::FibError;
use crate::names::COMPONENTS_MAX;
use crate::strategy::{Strategy, StrategyError};

pub use budget::VerificationRate;
pub use chains::{ChainError, DEPTH_MAX};
pub use claim::Claim;
pub use config::{ManagementConfig, ManagementCounters, ManagementLimits};
pub use host::{CacheChange, CacheInfo, Erased, FaceRefusal, FaceRequest, FaceSettings, Host};
pub use keys::{ED25519_SPKI, KeyError, P256_SPKI, TrustedKey};
pub use rib::{Rib, RibError, RibLimits, Route};
pub use verify::{Policy, Trust};

use budget::Budget;
use claim::Claimants;
use command::{Asked, Request};
use connecting::Connecting;
use events::{Events, Served};
use host::publish;
use replay::Replay;
use snapshots::Snapshots;
use writing::Writing;

/// NFD's management and its RIB.
pub struct Management {
    config: ManagementConfig,
    rib: Rib,
    /// Strategies by prefix, with their full names.
    strategies: BTreeMap<NameBuf, NameBuf>,
    /// The existing faces.
    faces: BTreeMap<FaceId, FaceEventNotification>,
    connecting: Vec<Connecting>,
    replay: Replay,
    budget: Budget,
    claimants: Claimants,
    snapshots: Snapshots,
    /// They take turns.
    writing: VecDeque<Writing>,
    events: Events,
    /// Counts changes of what datasets show.
    changes: u64,
    counters: ManagementCounters,
}

impl Management {
    /// Management of a node without faces and routes; best route is the strategy.
    pub fn new(config: ManagementConfig) -> Management {
        let ManagementLimits { rib, signers, commands_per_signer, .. } = config.limits;
        let best_route: NameBuf =
            "/localhost/nfd/strategy/best-route".parse().expect("the name of a strategy is a name");
        let (_, full) = Strategy::from_name(best_route.as_name()).expect("best route is known");
        Management {
            rib: Rib::new(rib),
            strategies: BTreeMap::from([(NameBuf::new(), full)]),
            faces: BTreeMap::new(),
            connecting: Vec::new(),
            replay: Replay::new(signers, commands_per_signer),
            budget: Budget::default(),
            claimants: Claimants::default(),
            snapshots: Snapshots::new(config.limits.datasets, config.limits.dataset_bytes),
            writing: VecDeque::new(),
            events: Events::new(config.limits.notifications),
            changes: 0,
            counters: ManagementCounters::default(),
            config,
        }
    }

    /// Changes who may command. Withdraws the routes of keys that are no longer trusted and returns
    /// how many. Commands already carried out are not repeated, whether their key stays or comes
    /// back.
    pub fn set_trust(&mut self, trust: Trust, host: &mut impl Host) -> usize {
        let trusted = trust.digests();
        self.replay.trust(&trusted);
        self.budget.trust(&trusted);
        self.config.trust = trust;
        let stands = self.claimants.judge(&self.config.trust);
        let withdrawn = self.rib.withdraw(&stands, &mut publish(host));
        self.changes += u64::from(withdrawn > 0);
        withdrawn
    }

    /// The routes.
    pub fn rib(&self) -> &Rib {
        &self.rib
    }

    /// Prefixes with a strategy of their own, and the strategy's full name.
    pub fn strategies(&self) -> impl Iterator<Item = (Name<'_>, Name<'_>)> {
        self.strategies.iter().map(|(prefix, name)| (prefix.as_name(), name.as_name()))
    }

    /// Counters of processed Interests.
    pub fn counters(&self) -> ManagementCounters {
        ManagementCounters { untaken: self.rib.untaken, ..self.counters }
    }

    /// A face was added; call this before passing on its first Interest. Answers clients that wait
    /// for notifications.
    pub fn face_up(&mut self, now: Time, face: &FaceStatus, answer: &mut impl FnMut(&[u8])) {
        let Some(id) = FaceId::from_number(face.face_id) else { return };
        let event = FaceEventNotification {
            kind: face_event::CREATED,
            face_id: face.face_id,
            uri: face.uri.clone(),
            local_uri: face.local_uri.clone(),
            scope: face.scope,
            persistency: face.persistency,
            link_type: face.link_type,
            flags: face.flags,
        };
        if self.faces.insert(id, event.clone()).is_none() {
            self.changes += 1;
            self.notify(now, &event, answer);
        }
    }

    /// A face was removed; its routes are removed too. Answers clients that wait for it or for
    /// notifications.
    pub fn face_down(
        &mut self,
        now: Time,
        face: FaceId,
        why: &str,
        host: &mut impl Host,
        answer: &mut impl FnMut(&[u8]),
    ) {
        self.rib.remove_face(face, &mut publish(host));
        self.replay.forget(face);
        self.budget.forget(face);
        self.connection_failed(face, why, answer);
        if let Some(event) = self.faces.remove(&face) {
            self.changes += 1;
            let event = FaceEventNotification { kind: face_event::DESTROYED, ..event };
            self.notify(now, &event, answer);
        }
    }

    /// A face lost or regained its connection. Answers clients that wait for notifications.
    pub fn face_link(
        &mut self,
        now: Time,
        face: FaceId,
        is_up: bool,
        answer: &mut impl FnMut(&[u8]),
    ) {
        let Some(event) = self.faces.get(&face) else { return };
        let kind = if is_up { face_event::UP } else { face_event::DOWN };
        let event = FaceEventNotification { kind, ..event.clone() };
        self.notify(now, &event, answer);
    }

    fn notify(&mut self, now: Time, event: &FaceEventNotification, answer: &mut impl FnMut(&[u8])) {
        self.counters.notifications += self.events.notify(now, event, answer);
    }

    /// Removes expired routes and propagates earlier route changes to longer prefixes; a large
    /// change is propagated in parts. Call it once per driver turn, and again soon while
    /// [`Management::next_deadline`] has passed.
    pub fn tick(&mut self, now: Time, host: &mut impl Host) {
        if self.rib.turn(now, &mut publish(host)) {
            self.changes += 1;
        }
    }

    /// When [`Management::tick`], [`Management::write_datasets`] or [`Management::connections`] is
    /// due.
    pub fn next_deadline(&self) -> Option<Time> {
        let writing = (!self.writing.is_empty()).then_some(Time::ZERO);
        [self.rib.next_deadline(), writing, self.connecting_until()].into_iter().flatten().min()
    }

    /// Adds a route of the node itself, or changes the one with the same face and origin.
    ///
    /// # Errors
    /// [`RibError`]: nothing was changed.
    pub fn add_route(
        &mut self,
        prefix: Name<'_>,
        route: Route,
        host: &mut impl Host,
    ) -> Result<(), RibError> {
        self.changes += 1;
        self.rib.add(prefix, route, &mut publish(host))
    }

    fn add_neighbours_route(
        &mut self,
        prefix: Name<'_>,
        route: Route,
        host: &mut impl Host,
    ) -> Result<(), RibError> {
        self.changes += 1;
        self.rib.add_for_neighbour(prefix, route, &mut publish(host))
    }

    /// Removes a route; false if there is none with this face and origin.
    pub fn remove_route(
        &mut self,
        prefix: Name<'_>,
        face: FaceId,
        origin: u64,
        host: &mut impl Host,
    ) -> bool {
        self.changes += 1;
        self.rib.remove(prefix, face, origin, &mut publish(host))
    }

    /// Sets a prefix's strategy; returns its full name.
    ///
    /// # Errors
    /// [`StrategyError`]: nothing was changed.
    pub fn set_strategy(
        &mut self,
        prefix: Name<'_>,
        strategy: Name<'_>,
        host: &mut impl Host,
    ) -> Result<NameBuf, StrategyError> {
        let (_, full) = Strategy::from_name(strategy)?;
        let known = self.strategies.contains_key(prefix.value());
        if !known && self.strategies.len() >= self.config.limits.strategies {
            return Err(StrategyError::Full(self.strategies.len()));
        }
        if prefix.len() > COMPONENTS_MAX {
            return Err(FibError::Prefix.into());
        }
        host.set_strategy(prefix, Some(&full))?;
        self.changes += 1;
        self.strategies.insert(prefix.to_buf(), full.clone());
        Ok(full)
    }

    /// Removes a prefix's strategy, so that it inherits that of the next shorter prefix; false if
    /// it had none of its own. The empty prefix keeps its own.
    ///
    /// # Errors
    /// [`StrategyError`]: nothing was changed.
    pub fn unset_strategy(
        &mut self,
        prefix: Name<'_>,
        host: &mut impl Host,
    ) -> Result<bool, StrategyError> {
        if prefix.is_empty() || !self.strategies.contains_key(prefix.value()) {
            return Ok(false);
        }
        host.set_strategy(prefix, None)?;
        self.changes += 1;
        self.strategies.remove(prefix.value());
        Ok(true)
    }
}

impl Management {
    /// Processes an Interest that arrived on management's face, sent by `from`. Answers, complete
    /// Data, are passed to `answer`.
    pub fn interest(
        &mut self,
        now: Time,
        unix_ms: u64,
        from: FaceId,
        packet: &[u8],
        host: &mut impl Host,
        answer: &mut impl FnMut(&[u8]),
    ) {
        if self.rib.go_on(now, &mut publish(host)) {
            self.changes += 1;
        }
        let Ok(interest) = Interest::new_checked(packet) else {
            self.counters.dropped += 1;
            return;
        };
        let request = Request::new(interest);
        if !self.may_ask(&request, from) {
            self.counters.dropped += 1;
            return;
        }
        let at = At { now, unix_ms, from };
        match request.asked {
            Asked::Command(verb) => self.command(at, verb, &request, host, answer),
            Asked::Dataset(dataset) => self.dataset(at, dataset, &request, host, answer),
            Asked::Events => match self.events.ask(now, &interest) {
                Served::Now(packet) => {
                    self.counters.notifications += 1;
                    answer(packet);
                }
                Served::Later => {}
                Served::Never => self.counters.dropped += 1,
            },
            Asked::Unknown => self.unknown(&request, answer),
            Asked::Nothing => self.counters.dropped += 1,
        }
    }
}

/// When an Interest came, and from where.
#[derive(Clone, Copy)]
struct At {
    now: Time,
    /// Wall-clock time, in milliseconds since 1970.
    unix_ms: u64,
    from: FaceId,
}
