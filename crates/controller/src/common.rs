//! The group's common file (SPEC.md, 19): a version is offered to all nodes that are there, tried
//! by all of them if it fits each, and kept once the operator says so. Nodes that were away get the
//! version that is kept.
//!
//! A version is in the store before a node hears of its number, so that no later controller gives
//! that number to another text. That it is kept is in the store before a node is told to keep it.
//!
//! A version that is not kept leaves the nodes without the controller: they go back by themselves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use plexus_config::{COMMON_VERSION_MAX, CommonFile};
use plexus_wire::Time;
use plexus_wire::fabric::message::{
    Body, COMMON_TRIAL_MAX_S, CommonFate, CommonOffer, CommonOrder, CommonState, CommonVerb,
};
use serde::{Deserialize, Serialize};

use crate::controller::Timer;
use crate::{Change, CommonVersion, Controller, Output, Record};

/// Bytes of text in a piece: it fits a body with its other fields.
const PIECE: usize = 1200;
/// How long nodes may take to check a version, and to run it.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long nodes run a version that is to be kept, until they are told to: it is stored meanwhile.
const STORE_S: u32 = 60;
/// Versions that are kept; the oldest go.
const VERSIONS_MAX: usize = 8;
/// Bytes of a comment that are kept.
const COMMENT_MAX: usize = 200;
/// A node may claim a version that is so much higher than the stored ones, if the store was lost. A
/// higher claim would use up all numbers.
const CLAIM_MAX: u64 = 1 << 20;

/// A request of an operator. [`Output::CommonTold`] is the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommonAsk {
    /// Have all nodes run a text, if it fits each.
    Apply {
        /// The common file.
        text: String,
        /// A comment for people.
        comment: String,
        /// Nodes leave it after so many seconds unless [`CommonAsk::Keep`] comes before. Absent:
        /// it is kept.
        trial_s: Option<u32>,
    },
    /// Keep the version that is on trial.
    Keep,
    /// Leave the version that is on trial.
    Leave,
}

/// A version on trial, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonTrial {
    /// The version.
    pub version: u64,
    /// When nodes leave it.
    pub until: Time,
}

/// A node's state, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommonView {
    /// The node's name.
    pub name: String,
    /// It has a session.
    pub is_there: bool,
    /// The report that it made last; `None`: it keeps none, and has been offered none.
    pub state: Option<CommonState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its number is being stored.
    Numbered,
    /// Nodes check it.
    Offered,
    /// Nodes begin to run it.
    Ordered,
    /// They run it: the operator decides.
    Tried,
    /// They run it, and it is being stored that they keep it.
    Storing,
}

/// A version under way.
#[derive(Clone, Debug)]
struct Trial {
    whole: CommonVersion,
    file: Arc<CommonFile>,
    /// It is kept unless the operator has to say so.
    for_good: bool,
    seconds: u32,
    /// The request to be answered.
    question: Option<u64>,
    phase: Phase,
    /// The nodes that take part.
    members: BTreeSet<u32>,
    /// Those of them that have not answered.
    waits: BTreeSet<u32>,
    /// When the phase ends.
    until: Time,
}

#[derive(Clone, Debug, Default)]
struct AtNode {
    name: String,
    is_there: bool,
    /// The report that it made last in this session.
    state: Option<CommonState>,
}

impl AtNode {
    /// The version that it keeps.
    fn kept(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.kept)
    }
}

/// An act of the controller for it.
#[derive(Debug)]
pub(crate) enum Step {
    Say(u32, Body),
    /// Store a version, and forget the oldest ones.
    Store(Vec<Change>),
    /// A question is answered: names of nodes that have not said that they run the version, or the
    /// reason why it does not run.
    Tell(u64, Result<Vec<String>, String>),
    /// Another version is kept.
    Kept,
}

/// The common file and what nodes have of it, by their dense numbers.
#[derive(Debug, Default)]
pub(crate) struct Common {
    /// The stored versions, the oldest first.
    versions: Vec<CommonVersion>,
    /// The last of them that is kept, as nodes get it; `None` too if it cannot be read.
    kept: Option<(u64, Arc<CommonFile>)>,
    trial: Option<Trial>,
    /// The highest version that a node has told of.
    told: u64,
    nodes: BTreeMap<u32, AtNode>,
    steps: VecDeque<Step>,
}

impl Common {
    /// With the versions that are stored.
    pub(crate) fn new(stored: &[Record]) -> Common {
        let is_common = |record: &Record| match record {
            Record::Common(version) => Some(version.clone()),
            Record::Lease(_) => None,
        };
        let mut versions: Vec<CommonVersion> = stored.iter().filter_map(is_common).collect();
        versions.sort_by_key(|version| version.version);
        let last = versions.iter().rfind(|version| version.kept);
        let kept = last.and_then(|last| Some((last.version, Arc::new(read(&last.text).ok()?))));
        Common { versions, kept, ..Common::default() }
    }

    pub(crate) fn poll(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.trial.as_ref().filter(|trial| trial.phase != Phase::Storing).map(|trial| trial.until)
    }

    fn say(&mut self, node: u32, body: impl Into<Body>) {
        self.steps.push_back(Step::Say(node, body.into()));
    }

    fn tell(&mut self, question: Option<u64>, told: Result<Vec<String>, String>) {
        self.steps.extend(question.map(|question| Step::Tell(question, told)));
    }

    fn order(&mut self, node: u32, version: u64, verb: CommonVerb, seconds: u32) {
        self.say(node, CommonOrder { version, verb, seconds });
    }

    fn offer(&mut self, node: u32, version: u64, file: &CommonFile) {
        let Some(at) = self.nodes.get(&node) else { return };
        let text = file.part(&at.name).into_bytes();
        // Nothing is a piece too: the node's part of an earlier version goes.
        let pieces = text.len().div_ceil(PIECE).max(1);
        for piece in 0..pieces {
            let text = text.chunks(PIECE).nth(piece).unwrap_or_default().to_vec();
            let (piece, pieces) = (piece as u16, pieces as u16);
            self.say(node, CommonOffer { version, piece, pieces, text });
        }
    }

    fn there(&self) -> BTreeSet<u32> {
        self.nodes.iter().filter(|(_, at)| at.is_there).map(|(node, _)| *node).collect()
    }

    /// A session has begun.
    pub(crate) fn node_up(&mut self, node: u32, name: &str) {
        self.nodes.insert(node, AtNode { name: name.into(), is_there: true, state: None });
        if let Some((version, file)) = self.kept.clone() {
            self.offer(node, version, &file);
        }
    }

    /// A node that was silent says something again.
    pub(crate) fn node_heard(&mut self, node: u32) {
        let silent = self.nodes.get_mut(&node).filter(|at| !at.is_there);
        if let Some(at) = silent {
            at.is_there = true;
            self.catch_up(node);
        }
    }

    /// A session has ended, or the node is silent.
    pub(crate) fn node_down(&mut self, now: Time, node: u32) {
        if let Some(at) = self.nodes.get_mut(&node) {
            at.is_there = false;
        }
        // A node that runs a version that others have just been told of may come back.
        let trial = self.trial.as_mut().filter(|trial| trial.phase == Phase::Offered);
        if let Some(trial) = trial
            && trial.waits.remove(&node)
        {
            trial.members.remove(&node);
            self.go_on(now);
        }
    }

    pub(crate) fn ask(&mut self, now: Time, unix_s: u64, question: u64, ask: CommonAsk) {
        let refused = match ask {
            CommonAsk::Apply { .. } if self.trial.is_some() => {
                Some("another version of the common file is under way")
            }
            CommonAsk::Apply { trial_s: Some(s), .. } if s == 0 || s > COMMON_TRIAL_MAX_S => {
                Some("a trial lasts from one second to a day")
            }
            CommonAsk::Apply { text, comment, trial_s } => match read(&text) {
                Ok(_) if self.highest() >= COMMON_VERSION_MAX => {
                    Some("there is no higher version number")
                }
                Ok(file) => {
                    let comment = comment.chars().filter(|c| !c.is_control());
                    let whole = CommonVersion {
                        version: self.highest() + 1,
                        kept_unix_s: unix_s,
                        comment: comment.take(COMMENT_MAX).collect(),
                        plexus: env!("CARGO_PKG_VERSION").into(),
                        kept: false,
                        text,
                    };
                    self.begin(now, question, whole, Arc::new(file), trial_s);
                    None
                }
                Err(why) => return self.tell(Some(question), Err(why)),
            },
            CommonAsk::Keep => match &mut self.trial {
                Some(trial) if trial.phase == Phase::Tried => {
                    trial.question = Some(question);
                    self.store();
                    None
                }
                _ => Some("no version of the common file is on trial"),
            },
            CommonAsk::Leave => match &self.trial {
                Some(trial) if trial.phase != Phase::Storing => {
                    self.refuse("it was left meanwhile".into());
                    self.tell(Some(question), Ok(vec![]));
                    None
                }
                Some(_) => Some("the version of the common file is being kept"),
                None => Some("no version of the common file is on trial"),
            },
        };
        if let Some(why) = refused {
            self.tell(Some(question), Err(why.into()));
        }
    }

    fn begin(
        &mut self,
        now: Time,
        question: u64,
        whole: CommonVersion,
        file: Arc<CommonFile>,
        trial_s: Option<u32>,
    ) {
        let mut changes = vec![Change::Put(Record::Common(whole.clone()))];
        self.versions.push(whole.clone());
        while self.versions.len() > VERSIONS_MAX {
            // The last one is new. Of the others, those go first that were never kept.
            let old = self.versions.iter().position(|version| !version.kept);
            let old = old.filter(|old| old + 1 < self.versions.len()).unwrap_or(0);
            changes.push(Change::RemoveCommon(self.versions.remove(old).version));
        }
        self.steps.push_back(Step::Store(changes));
        self.trial = Some(Trial {
            whole,
            file,
            for_good: trial_s.is_none(),
            seconds: trial_s.unwrap_or(STORE_S),
            question: Some(question),
            phase: Phase::Numbered,
            waits: BTreeSet::new(),
            members: BTreeSet::new(),
            until: now + PATIENCE,
        });
    }

    /// The last write of a version is durable.
    pub(crate) fn stored(&mut self, now: Time) {
        match self.trial.as_ref().map(|trial| trial.phase) {
            Some(Phase::Numbered) => self.offer_all(now),
            Some(Phase::Storing) => self.keep(),
            _ => {}
        }
    }

    /// Offers the version to all nodes that are there.
    fn offer_all(&mut self, now: Time) {
        let members = self.there();
        let Some(trial) = &mut self.trial else { return };
        trial.phase = Phase::Offered;
        (trial.waits, trial.members) = (members.clone(), members.clone());
        trial.until = now + PATIENCE;
        let (version, file) = (trial.whole.version, trial.file.clone());
        members.iter().for_each(|node| self.offer(*node, version, &file));
        self.go_on(now);
    }

    /// Begins the next phase once all nodes have answered.
    fn go_on(&mut self, now: Time) {
        let Some(trial) = self.trial.as_mut().filter(|trial| trial.waits.is_empty()) else {
            return;
        };
        let version = trial.whole.version;
        if trial.phase == Phase::Offered {
            (trial.phase, trial.until) = (Phase::Ordered, now + PATIENCE);
            trial.waits = trial.members.clone();
            let (members, seconds) = (trial.members.clone(), trial.seconds);
            for node in &members {
                self.order(*node, version, CommonVerb::Try, seconds);
            }
            if !members.is_empty() {
                return;
            }
        }
        self.tried(now);
    }

    /// Nodes run the version.
    fn tried(&mut self, now: Time) {
        let Some(trial) = self.trial.as_mut().filter(|trial| trial.phase == Phase::Ordered) else {
            return;
        };
        trial.phase = Phase::Tried;
        trial.until = now + Duration::from_secs(trial.seconds.into());
        let (for_good, waits) = (trial.for_good, trial.waits.clone());
        if for_good && waits.is_empty() {
            return self.store();
        }
        let missing = self.names(&waits);
        if for_good {
            // The change may have cut them off: then all go back.
            return self.refuse(format!("{}: no word that it runs", missing.join(", ")));
        }
        let question = self.trial.as_mut().and_then(|trial| trial.question.take());
        self.tell(question, Ok(missing));
    }

    /// Has stored that the version is kept.
    fn store(&mut self) {
        let Some(trial) = &mut self.trial else { return };
        trial.phase = Phase::Storing;
        trial.whole.kept = true;
        self.steps.push_back(Step::Store(vec![Change::Put(Record::Common(trial.whole.clone()))]));
    }

    /// Nodes are to keep the version.
    fn keep(&mut self) {
        let Some(trial) = self.trial.take() else { return };
        let Trial { whole, file, members, waits, question, .. } = trial;
        let version = whole.version;
        for node in self.there() {
            match members.contains(&node) {
                true => self.order(node, version, CommonVerb::Keep, 0),
                false => self.offer(node, version, &file),
            }
        }
        let its = self.versions.iter_mut().find(|its| its.version == version);
        its.into_iter().for_each(|its| *its = whole.clone());
        self.kept = Some((version, file));
        self.steps.push_back(Step::Kept);
        let missing = self.names(&waits);
        self.tell(question, Ok(missing));
    }

    fn names(&self, nodes: &BTreeSet<u32>) -> Vec<String> {
        nodes.iter().filter_map(|node| Some(self.nodes.get(node)?.name.clone())).collect()
    }

    /// Leaves the version under way, and tells who has asked for it.
    fn refuse(&mut self, why: String) {
        let Some(trial) = self.trial.take() else { return };
        if !matches!(trial.phase, Phase::Numbered | Phase::Offered) {
            for node in trial.members {
                self.order(node, trial.whole.version, CommonVerb::Leave, 0);
            }
        }
        // Those that came meanwhile, or lack the kept version for another reason.
        self.there().into_iter().for_each(|node| self.catch_up(node));
        self.tell(trial.question, Err(why));
    }

    /// Does everything that is due.
    pub(crate) fn due(&mut self, now: Time) {
        let Some(trial) = self.trial.as_ref().filter(|trial| trial.until <= now) else { return };
        match trial.phase {
            Phase::Numbered => self.refuse("the store does not answer".into()),
            Phase::Offered => {
                let names = self.names(&trial.waits).join(", ");
                self.refuse(format!(
                    "no answer from {names}: busy, or of an older version of plexus"
                ));
            }
            Phase::Ordered => self.tried(now),
            Phase::Tried => self.refuse("its time is over".into()),
            Phase::Storing => {}
        }
    }

    /// A node tells its state.
    pub(crate) fn hear(&mut self, now: Time, node: u32, mut state: CommonState) {
        let highest = self.versions.last().map_or(0, |last| last.version) + CLAIM_MAX;
        let Some(at) = self.nodes.get_mut(&node) else { return };
        if state.kept.max(state.version) > highest {
            return;
        }
        self.told = self.told.max(state.kept).max(state.version);
        // People read it in a terminal.
        let why =
            String::from_utf8_lossy(&state.why).replace(|c: char| c.is_control() && c != '\n', " ");
        state.why = why.clone().into_bytes();
        let (version, fate) = (state.version, state.fate);
        let why = format!("{}: {why}", at.name);
        at.state = Some(state);
        let on_trial = self.trial.as_ref().map(|trial| trial.whole.version);
        let kept = self.kept.as_ref().map(|(version, _)| *version);
        if fate == CommonFate::OnTrial && ![on_trial, kept].contains(&Some(version)) {
            // A trial of another controller, or one that this one has given up.
            return self.order(node, version, CommonVerb::Leave, 0);
        }
        let trial = self.trial.as_mut().filter(|trial| trial.members.contains(&node));
        let Some(trial) = trial else { return self.catch_up(node) };
        if version != trial.whole.version {
            return;
        }
        match (trial.phase, fate) {
            (Phase::Offered, CommonFate::Ready) | (Phase::Ordered, CommonFate::OnTrial) => {
                trial.waits.remove(&node);
                self.go_on(now);
            }
            (Phase::Offered, CommonFate::Kept) => {
                let why = format!("{why}it keeps a higher version: apply the file again");
                self.refuse(why);
            }
            (Phase::Offered | Phase::Ordered, CommonFate::Refused) => self.refuse(why),
            // It was late.
            (_, CommonFate::OnTrial) => drop(trial.waits.remove(&node)),
            _ => {}
        }
    }

    /// Leads a node to the version that is kept.
    fn catch_up(&mut self, node: u32) {
        let (Some((version, file)), Some(at)) = (self.kept.clone(), self.nodes.get(&node)) else {
            return;
        };
        if at.kept() >= version || !at.is_there {
            return;
        }
        let its = at.state.as_ref().filter(|state| state.version == version);
        match its.map(|state| state.fate) {
            Some(CommonFate::Ready | CommonFate::OnTrial) => {
                self.order(node, version, CommonVerb::Keep, 0);
            }
            // A node with another version on trial says when that has ended.
            Some(CommonFate::Refused) => {}
            _ => self.offer(node, version, &file),
        }
    }

    /// The highest version that is known: the next one is higher.
    fn highest(&self) -> u64 {
        self.versions.last().map_or(0, |last| last.version).max(self.told)
    }

    fn view(&self) -> Vec<CommonView> {
        let view = |at: &AtNode| CommonView {
            name: at.name.clone(),
            is_there: at.is_there,
            state: at.state.clone(),
        };
        self.nodes.values().map(view).collect()
    }
}

fn read(text: &str) -> Result<CommonFile, String> {
    CommonFile::parse("the common file", text).map_err(|e| e.to_string())
}

impl Controller {
    /// The common file at each node.
    pub fn common(&self) -> Vec<CommonView> {
        self.common.view()
    }

    /// The stored versions of the common file, the oldest first.
    pub fn common_versions(&self) -> &[CommonVersion] {
        &self.common.versions
    }

    /// The version of the common file that nodes are to have, and the file; `None`: there is none,
    /// or this program [cannot read it](Controller::unreadable_common).
    pub fn common_file(&self) -> Option<(u64, &CommonFile)> {
        self.common.kept.as_ref().map(|(version, file)| (*version, &**file))
    }

    /// The version of the common file that nodes are to have and that this program cannot read: a
    /// newer one has kept it.
    pub fn unreadable_common(&self) -> Option<&CommonVersion> {
        let last = self.common.versions.iter().rfind(|version| version.kept);
        last.filter(|_| self.common.kept.is_none())
    }

    /// The version of the common file that is on trial.
    pub fn common_trial(&self) -> Option<CommonTrial> {
        let trial = self.common.trial.as_ref().filter(|trial| trial.phase == Phase::Tried)?;
        Some(CommonTrial { version: trial.whole.version, until: trial.until })
    }

    /// Does everything that the common file needs.
    pub(crate) fn follow_common(&mut self, now: Time) {
        self.common.due(now);
        while let Some(step) = self.common.poll() {
            match step {
                Step::Say(node, body) => self.send_reliably(node, 0, body),
                Step::Store(changes) => {
                    let ticket = self.store(changes);
                    self.common_ticket = Some(ticket);
                }
                Step::Tell(question, told) => self.output(Output::CommonTold { question, told }),
                Step::Kept => self.output(Output::CommonKept),
            }
        }
        self.rearm(self.common.deadline(), Timer::Common);
    }

    /// Changes up to this ticket are durable.
    pub(crate) fn common_stored(&mut self, now: Time, ticket: u64) {
        if self.common_ticket.take_if(|its| *its <= ticket).is_some() {
            self.common.stored(now);
        }
    }
}

#[cfg(test)]
mod tests;
