//! The node's part of the group's common file (SPEC.md, 19): offered, tried for a while, kept.
//!
//! The driver checks, runs and stores texts. A trial ends here and not at the controller, which the
//! change may have cut off.

use std::time::Duration;

use plexus_wire::Time;
use plexus_wire::fabric::message::{
    Body, COMMON_TRIAL_MAX_S, CommonFate, CommonOffer, CommonOrder, CommonState, CommonVerb,
};
use serde::{Deserialize, Serialize};

use super::effect::{Effect, Event, Timer};
use super::{Node, Output};

/// Most pieces of a part, and bytes of all of them.
const PIECES_MAX: u16 = 1024;
const BYTES_MAX: usize = 1 << 20;
/// Bytes of a reason that a message has room for.
const WHY_MAX: usize = 1000;
/// Time between two attempts to go back, where the first one fails.
const AGAIN: Duration = Duration::from_secs(5);

/// A version of the node's part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The version of the common file; 0: there is none yet.
    pub version: u64,
    /// Sections of a node's file.
    pub text: String,
}

/// Work for the driver, which answers each by a [`Done`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Check this part together with the node's own file.
    Check(Part),
    /// Run this part in place of the one that runs. `keep`: store it, too.
    Run {
        /// The part.
        part: Part,
        /// The node starts with it from now on.
        keep: bool,
    },
}

/// The driver's answer to a [`Task`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The version.
    pub version: u64,
    /// It has been run; else checked.
    pub ran: bool,
    /// It has been stored, too.
    pub keep: bool,
    /// Why not.
    pub refused: Option<String>,
}

/// The result of one input.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The report to the controller.
    pub told: Option<CommonState>,
    /// The driver's next work.
    pub task: Option<Task>,
}

/// The state of the node's part.
#[derive(Clone, Debug, Default)]
pub struct Common {
    kept: Part,
    /// The part that the driver is to store; then it is kept.
    keeping: Option<Part>,
    /// Going back to the kept part has failed, and is tried again then.
    back: Option<Time>,
    coming: Option<Coming>,
    offered: Option<Offered>,
    trial: Option<(Part, Time)>,
}

/// Pieces of an offer.
#[derive(Clone, Debug)]
struct Coming {
    version: u64,
    pieces: Vec<Option<Vec<u8>>>,
}

/// A whole offer.
#[derive(Clone, Debug)]
struct Offered {
    part: Part,
    /// Whether it fits; `None`: the driver looks.
    checked: Option<Result<(), String>>,
}

impl Common {
    /// Of a node that starts with this part.
    pub fn new(kept: Part) -> Common {
        Common { kept, ..Common::default() }
    }

    /// The version that the node keeps, and the version on trial with the time of its end.
    pub fn versions(&self) -> (u64, Option<(u64, Time)>) {
        (self.kept.version, self.trial.as_ref().map(|(part, until)| (part.version, *until)))
    }

    /// When there is something to do: a trial ends, or going back is tried again.
    pub fn deadline(&self) -> Option<Time> {
        self.trial.as_ref().map(|(_, until)| *until).into_iter().chain(self.back).min()
    }

    /// The report to the controller of a new session; nothing if there is nothing to tell. Pieces
    /// that an earlier session lacks do not come any more, and a version that did not fit then may
    /// fit now: the controller offers them again.
    pub fn greet(&mut self, now: Time) -> Option<CommonState> {
        let had = (self.coming.take().is_some(), self.offered.take().is_some());
        let is_used = self.kept.version > 0 || self.trial.is_some() || had != (false, false);
        let version = self.trial.as_ref().map_or(self.kept.version, |(part, _)| part.version);
        is_used.then(|| self.state(now, version))
    }

    /// The state of a version.
    fn state(&self, now: Time, version: u64) -> CommonState {
        let tell = |fate, left_s, why: &str| CommonState {
            kept: self.kept.version,
            version,
            fate,
            left_s,
            why: why.as_bytes()[..why.floor_char_boundary(WHY_MAX)].to_vec(),
        };
        if let Some((part, until)) = &self.trial {
            let left_s = until.since(now).as_millis().div_ceil(1000) as u32;
            return match part.version == version {
                true => tell(CommonFate::OnTrial, left_s, ""),
                false => {
                    let why = format!("version {} is on trial", part.version);
                    tell(CommonFate::Refused, left_s, &why)
                }
            };
        }
        let offered = self.offered.as_ref().filter(|offered| offered.part.version == version);
        match offered.and_then(|offered| offered.checked.as_ref()) {
            _ if version <= self.kept.version => tell(CommonFate::Kept, 0, ""),
            Some(Ok(())) => tell(CommonFate::Ready, 0, ""),
            Some(Err(why)) => tell(CommonFate::Refused, 0, why),
            None => tell(CommonFate::Kept, 0, ""),
        }
    }

    fn tell(&self, now: Time, version: u64) -> Outcome {
        Outcome { told: Some(self.state(now, version)), task: None }
    }

    /// A piece of an offer.
    ///
    /// # Errors
    /// When it is none: the message is refused.
    pub fn offer(&mut self, now: Time, offer: CommonOffer) -> Result<Outcome, &'static str> {
        let CommonOffer { version, piece, pieces, text } = offer;
        if piece >= pieces || pieces > PIECES_MAX {
            return Err("a piece of a common file that has no such piece");
        }
        let is_checked = self.offered.as_ref().is_some_and(|o| o.part.version == version);
        if version <= self.kept.version || self.trial.is_some() {
            // Said once for all pieces.
            return Ok(if piece == 0 { self.tell(now, version) } else { Outcome::default() });
        }
        if is_checked {
            let has_answer = self.offered.as_ref().is_some_and(|o| o.checked.is_some());
            return Ok(match has_answer && piece == 0 {
                true => self.tell(now, version),
                false => Outcome::default(),
            });
        }
        let fresh = || Coming { version, pieces: vec![None; usize::from(pieces)] };
        let coming = self.coming.get_or_insert_with(fresh);
        if coming.version > version {
            return Ok(Outcome::default());
        }
        if coming.version < version || coming.pieces.len() != usize::from(pieces) {
            *coming = fresh();
        }
        coming.pieces[usize::from(piece)] = Some(text);
        let bytes: usize = coming.pieces.iter().flatten().map(Vec::len).sum();
        if bytes > BYTES_MAX {
            self.coming = None;
            return Err("a common file that is too large");
        }
        if coming.pieces.iter().any(Option::is_none) {
            return Ok(Outcome::default());
        }
        let bytes: Vec<u8> = coming.pieces.iter().flatten().flatten().copied().collect();
        self.coming = None;
        let text = String::from_utf8(bytes).map_err(|_| "a common file that is no text")?;
        let part = Part { version, text };
        self.offered = Some(Offered { part: part.clone(), checked: None });
        Ok(Outcome { told: None, task: Some(Task::Check(part)) })
    }

    /// The node's own file has changed: what did not fit may fit now, so the controller is to offer
    /// it again.
    pub fn reconsider(&mut self, now: Time) -> Outcome {
        let refused = |offered: &mut Offered| matches!(offered.checked, Some(Err(_)));
        match self.offered.take_if(refused) {
            Some(_) => self.tell(now, self.kept.version),
            None => Outcome::default(),
        }
    }

    /// An order of the controller.
    pub fn order(&mut self, now: Time, order: &CommonOrder) -> Outcome {
        let CommonOrder { version, verb, seconds } = *order;
        let on_trial = self.trial.as_ref().is_some_and(|(part, _)| part.version == version);
        match verb {
            CommonVerb::Try if self.trial.is_none() && self.keeping.is_none() => {
                let Some(part) = self.take_ready(version) else { return self.tell(now, version) };
                let seconds = u64::from(seconds.clamp(1, COMMON_TRIAL_MAX_S));
                self.trial = Some((part.clone(), now + Duration::from_secs(seconds)));
                self.back = None;
                Outcome { told: None, task: Some(Task::Run { part, keep: false }) }
            }
            // The driver is at it.
            CommonVerb::Keep if self.keeping.as_ref().is_some_and(|p| p.version == version) => {
                Outcome::default()
            }
            CommonVerb::Keep if on_trial || self.trial.is_none() => {
                let tried = self.trial.take().map(|(part, _)| part);
                let Some(part) = tried.or_else(|| self.take_ready(version)) else {
                    return self.tell(now, version);
                };
                (self.keeping, self.back) = (Some(part.clone()), None);
                Outcome { told: None, task: Some(Task::Run { part, keep: true }) }
            }
            CommonVerb::Leave if on_trial => self.go_back(now),
            CommonVerb::Leave => {
                // The order to try it may come late.
                self.offered.take_if(|offered| offered.part.version == version);
                self.tell(now, version)
            }
            _ => self.tell(now, version),
        }
    }

    /// The part of a version that fits, which is no longer an offer.
    fn take_ready(&mut self, version: u64) -> Option<Part> {
        let is_it = |o: &mut Offered| o.part.version == version && o.checked == Some(Ok(()));
        self.offered.take_if(is_it).map(|offered| offered.part)
    }

    /// The driver has done a task.
    pub fn done(&mut self, now: Time, done: Done) -> Outcome {
        let Done { version, ran, keep, refused } = done;
        if !ran {
            let offered = self.offered.as_mut().filter(|o| o.part.version == version);
            let Some(offered) = offered else { return Outcome::default() };
            offered.checked = Some(refused.map_or(Ok(()), Err));
            return self.tell(now, version);
        }
        let refuse = |part: Part, why| Some(Offered { part, checked: Some(Err(why)) });
        if keep {
            let Some(part) = self.keeping.take_if(|part| part.version == version) else {
                return Outcome::default();
            };
            match refused {
                None => self.kept = part,
                Some(why) => {
                    self.offered = refuse(part, why);
                    return Outcome { task: Some(self.run_kept()), ..self.tell(now, version) };
                }
            }
        } else if self.trial.as_ref().is_some_and(|(part, _)| part.version == version) {
            if let Some(why) = refused
                && let Some((part, _)) = self.trial.take()
            {
                self.offered = refuse(part, why);
            }
        } else if self.trial.is_none() && self.keeping.is_none() && version == self.kept.version {
            self.back = refused.map(|_| now + AGAIN);
        } else {
            return Outcome::default();
        }
        self.tell(now, version)
    }

    /// Does everything that is due.
    pub fn run(&mut self, now: Time) -> Outcome {
        if self.trial.as_ref().is_some_and(|(_, until)| *until <= now) {
            return self.go_back(now);
        }
        match self.back.take_if(|back| *back <= now) {
            Some(_) => Outcome { told: None, task: Some(self.run_kept()) },
            None => Outcome::default(),
        }
    }

    fn go_back(&mut self, now: Time) -> Outcome {
        let left = self.trial.take().map_or(0, |(part, _)| part.version);
        Outcome { told: Some(self.state(now, left)), task: Some(self.run_kept()) }
    }

    fn run_kept(&self) -> Task {
        Task::Run { part: self.kept.clone(), keep: false }
    }
}

impl Node {
    /// The version of the common file that the node keeps, and the one on trial with its end.
    pub fn common(&self) -> (u64, Option<(u64, Time)>) {
        self.common.versions()
    }

    /// A session has begun.
    pub(super) fn greet_about_common(&mut self, now: Time) {
        let told = self.common.greet(now);
        self.about_common(now, Outcome { told, task: None });
    }

    pub(super) fn common_offered(&mut self, now: Time, offer: CommonOffer) {
        match self.common.offer(now, offer) {
            Ok(outcome) => self.about_common(now, outcome),
            Err(why) => self.tell(Event::Refused(None, why.into())),
        }
    }

    pub(super) fn common_ordered(&mut self, now: Time, order: &CommonOrder) {
        let outcome = self.common.order(now, order);
        self.about_common(now, outcome);
    }

    /// The node runs this part from now on, which the controller hears of.
    pub(super) fn keeps_common(&mut self, now: Time, part: Part) {
        self.common = Common::new(part);
        if self.greeted {
            let outcome = self.common.tell(now, self.common.kept.version);
            self.about_common(now, outcome);
        }
    }

    pub(super) fn reconsider_common(&mut self, now: Time) {
        let outcome = self.common.reconsider(now);
        self.about_common(now, outcome);
    }

    pub(super) fn common_done(&mut self, now: Time, done: Done) {
        let outcome = self.common.done(now, done);
        self.about_common(now, outcome);
    }

    /// The time of a trial is over.
    pub(super) fn common_due(&mut self, now: Time) {
        let outcome = self.common.run(now);
        self.about_common(now, outcome);
    }

    /// Tells the controller and the driver about the common file.
    fn about_common(&mut self, now: Time, outcome: Outcome) {
        match self.common.deadline() {
            Some(until) => self.timers.set(Timer::Common, until),
            None => self.timers.cancel(Timer::Common),
        }
        self.outputs.extend(outcome.task.map(Output::Common));
        if let Some(told) = outcome.told {
            // This makes older news wrong.
            self.requests.give_up(|body| matches!(body, Body::CommonState(_)));
            self.carry_out(now, vec![Effect::Controller { body: told.into(), sure: true }]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn offer(version: u64, piece: u16, pieces: u16, text: &str) -> CommonOffer {
        CommonOffer { version, piece, pieces, text: text.as_bytes().to_vec() }
    }

    fn order(version: u64, verb: CommonVerb) -> CommonOrder {
        CommonOrder { version, verb, seconds: 60 }
    }

    fn checked(version: u64, refused: Option<&str>) -> Done {
        Done { version, ran: false, keep: false, refused: refused.map(str::to_string) }
    }

    fn ran(version: u64, keep: bool, refused: Option<&str>) -> Done {
        Done { ran: true, keep, ..checked(version, refused) }
    }

    fn part(version: u64, text: &str) -> Part {
        Part { version, text: text.into() }
    }

    fn run(part: Part, keep: bool) -> Option<Task> {
        Some(Task::Run { part, keep })
    }

    /// The report: the version that is kept, the one that it is about, and its fate.
    fn fate(outcome: &Outcome) -> (u64, u64, CommonFate) {
        let told = outcome.told.as_ref().unwrap();
        (told.kept, told.version, told.fate)
    }

    /// A node that keeps version 5 and has found version 6 to fit.
    fn ready() -> Common {
        let mut common = Common::new(part(5, "five"));
        let outcome = common.offer(at(0), offer(6, 0, 1, "six")).unwrap();
        assert_eq!(outcome.task, Some(Task::Check(part(6, "six"))));
        let outcome = common.done(at(0), checked(6, None));
        assert_eq!(fate(&outcome), (5, 6, CommonFate::Ready));
        common
    }

    #[test]
    fn pieces_come_in_any_order_and_of_the_latest_version() {
        let mut common = Common::default();
        assert_eq!(common.greet(at(0)), None);
        let mut say = |version, piece, text| {
            common.offer(at(0), offer(version, piece, 3, text)).unwrap().task
        };
        assert_eq!(say(6, 2, "x"), None);
        assert_eq!(say(7, 2, "c"), None);
        // An earlier version is too late, and a repetition changes nothing.
        assert_eq!(say(6, 1, "x"), None);
        assert_eq!(say(7, 2, "c"), None);
        assert_eq!(say(7, 0, "a"), None);
        assert_eq!(say(7, 1, "b"), Some(Task::Check(part(7, "abc"))));
    }

    #[test]
    fn hostile_offers_are_refused_and_bounded() {
        let mut common = Common::default();
        for (piece, pieces) in [(0, 0), (3, 3), (0, PIECES_MAX + 1)] {
            assert!(common.offer(at(0), offer(1, piece, pieces, "x")).is_err());
        }
        let long = "x".repeat(1300);
        let refused = (0..PIECES_MAX)
            .find(|piece| common.offer(at(0), offer(1, *piece, PIECES_MAX, &long)).is_err());
        assert_eq!(refused, Some((BYTES_MAX / 1300) as u16));
        let no_text = CommonOffer { version: 2, piece: 0, pieces: 1, text: vec![0xFF] };
        assert!(common.offer(at(0), no_text).is_err());
    }

    #[test]
    fn a_version_that_is_not_higher_than_the_kept_one_is_never_taken() {
        let mut common = ready();
        for version in [5, 4, 0] {
            let outcome = common.offer(at(0), offer(version, 0, 1, "old")).unwrap();
            assert_eq!((fate(&outcome).2, outcome.task.is_none()), (CommonFate::Kept, true));
            for verb in [CommonVerb::Try, CommonVerb::Keep, CommonVerb::Leave] {
                assert_eq!(common.order(at(0), &order(version, verb)).task, None);
            }
        }
        // Nor is one that has not been offered, or does not fit.
        assert_eq!(common.order(at(0), &order(9, CommonVerb::Keep)).task, None);
        common.offer(at(0), offer(7, 0, 1, "seven")).unwrap();
        let outcome = common.done(at(0), checked(7, Some("no port eth9")));
        assert_eq!(outcome.told.as_ref().unwrap().why, b"no port eth9");
        let outcome = common.order(at(0), &order(7, CommonVerb::Try));
        assert_eq!((fate(&outcome), outcome.task), ((5, 7, CommonFate::Refused), None));
    }

    #[test]
    fn a_trial_ends_by_its_time_by_an_order_or_well() {
        let six = || part(6, "six");
        let tried = || {
            let mut common = ready();
            let outcome = common.order(at(10), &order(6, CommonVerb::Try));
            assert_eq!(outcome.task, run(six(), false));
            let outcome = common.done(at(10), ran(6, false, None));
            assert_eq!(fate(&outcome), (5, 6, CommonFate::OnTrial));
            assert_eq!(common.versions(), (5, Some((6, at(70)))));
            common
        };
        let mut common = tried();
        assert_eq!(common.run(at(69)), Outcome::default());
        // Another version has to wait.
        let outcome = common.offer(at(69), offer(7, 0, 1, "seven")).unwrap();
        assert_eq!(fate(&outcome), (5, 7, CommonFate::Refused));
        let outcome = common.run(at(70));
        assert_eq!(outcome.task, run(part(5, "five"), false));
        assert_eq!(fate(&outcome), (5, 6, CommonFate::Kept));
        // Too late.
        assert_eq!(common.order(at(71), &order(6, CommonVerb::Keep)).task, None);

        let mut common = tried();
        let outcome = common.order(at(20), &order(6, CommonVerb::Leave));
        assert_eq!(outcome.task, run(part(5, "five"), false));

        let mut common = tried();
        let outcome = common.order(at(20), &order(6, CommonVerb::Keep));
        assert_eq!((outcome.told, outcome.task), (None, run(six(), true)));
        // It says so once it is on disk.
        assert_eq!(common.versions().0, 5);
        assert_eq!(common.order(at(20), &order(6, CommonVerb::Keep)), Outcome::default());
        assert_eq!(fate(&common.done(at(20), ran(6, true, None))), (6, 6, CommonFate::Kept));
        assert_eq!(common.run(at(100)), Outcome::default());
        assert_eq!(common.greet(at(100)).unwrap().kept, 6);
    }

    #[test]
    fn a_new_session_begins_offers_anew() {
        let mut common = Common::default();
        common.offer(at(0), offer(8, 0, 2, "half")).unwrap();
        common.offer(at(0), offer(7, 0, 1, "seven")).unwrap();
        // The controller hears that it is to offer them again.
        assert_eq!(common.greet(at(0)).unwrap().kept, 0);
        assert_eq!(common.greet(at(0)), None);
        // Version 8 does not come any more.
        let seven = Some(Task::Check(part(7, "seven")));
        assert_eq!(common.offer(at(0), offer(7, 0, 1, "seven")).unwrap().task, seven);
        common.done(at(0), checked(7, Some("no port eth9")));
        // Somebody may have given the node the port that it lacked, and it is offered anew.
        let outcome = common.reconsider(at(0));
        assert_eq!(fate(&outcome), (0, 0, CommonFate::Kept));
        assert_eq!(common.reconsider(at(0)), Outcome::default());
        assert_eq!(common.offer(at(0), offer(7, 0, 1, "seven")).unwrap().task, seven);
        common.done(at(0), checked(7, Some("no port eth9")));
        assert!(common.greet(at(1)).is_some());
        assert_eq!(common.offer(at(1), offer(7, 0, 1, "seven")).unwrap().task, seven);
    }

    #[test]
    fn a_node_that_was_away_keeps_what_the_others_keep_at_once() {
        let mut common = ready();
        let outcome = common.order(at(1), &order(6, CommonVerb::Keep));
        assert_eq!(outcome.task, run(part(6, "six"), true));
        // It cannot be run after all.
        let outcome = common.done(at(1), ran(6, true, Some("the disk is full")));
        assert_eq!(fate(&outcome), (5, 6, CommonFate::Refused));
        // It may run already.
        assert_eq!(outcome.task, run(part(5, "five"), false));
        let mut common = ready();
        common.order(at(1), &order(6, CommonVerb::Try));
        let outcome = common.done(at(1), ran(6, false, Some("the port is gone")));
        assert_eq!(fate(&outcome), (5, 6, CommonFate::Refused));
        assert_eq!(common.deadline(), None);
    }

    #[test]
    fn orders_and_answers_that_come_late_change_nothing() {
        // It is to be left before it was tried.
        let mut common = ready();
        assert_eq!(common.order(at(1), &order(6, CommonVerb::Leave)).task, None);
        assert_eq!(common.order(at(2), &order(6, CommonVerb::Try)).task, None);
        // To run it took long, and it is to be kept by then.
        let mut common = ready();
        common.order(at(1), &order(6, CommonVerb::Try));
        common.order(at(9), &order(6, CommonVerb::Keep));
        assert_eq!(common.done(at(9), ran(6, false, Some("it took long"))), Outcome::default());
        assert_eq!(fate(&common.done(at(9), ran(6, true, None))), (6, 6, CommonFate::Kept));
    }

    #[test]
    fn going_back_is_tried_until_it_works() {
        let mut common = ready();
        common.order(at(0), &order(6, CommonVerb::Try));
        common.done(at(0), ran(6, false, None));
        let back = run(part(5, "five"), false);
        assert_eq!(common.run(at(60)).task, back);
        common.done(at(60), ran(5, false, Some("the identity cannot be read")));
        assert_eq!((common.run(at(64)).task, common.deadline()), (None, Some(at(65))));
        assert_eq!(common.run(at(65)).task, back);
        common.done(at(65), ran(5, false, None));
        assert_eq!(common.deadline(), None);
    }
}
