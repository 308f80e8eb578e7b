//! The group's common file (SPEC.md, 18): a version is offered to all nodes that are there, tried
//! by all of them if it fits each, and kept once the driver says so. Nodes that were away get the
//! version that is kept.
//!
//! A version that is not kept leaves the nodes without the controller: they go back by themselves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use plexus_config::CommonFile;
use plexus_wire::Time;
use plexus_wire::fabric::message::{
    Body, CommonFate, CommonOffer, CommonOrder, CommonState, CommonVerb,
};
use serde::{Deserialize, Serialize};

use crate::controller::Timer;
use crate::{Controller, Output};

/// Bytes of text in a piece: it fits a body with its other fields.
const PIECE: usize = 1200;
/// How long nodes may take to check a version, and to run it.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the driver wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommonAsk {
    /// This version is kept: nodes with a lower one get it.
    Kept {
        /// The version.
        version: u64,
        /// The common file.
        text: String,
    },
    /// Offer a version, and have all nodes try it if it fits each. [`CommonNews`] is the answer.
    Try {
        /// The version: higher than all before.
        version: u64,
        /// The common file.
        text: String,
        /// After how many seconds nodes leave it.
        seconds: u32,
    },
    /// Keep the version that is tried.
    Keep,
    /// Leave the version that is tried.
    Leave,
}

/// What the driver is told after [`CommonAsk::Try`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommonNews {
    /// All nodes that were there run it, but for these, which have not said so.
    Tried {
        /// The version.
        version: u64,
        /// Names of nodes.
        missing: Vec<String>,
    },
    /// No node runs it, or will in a moment.
    Refused {
        /// The version.
        version: u64,
        /// Why, with names of nodes.
        why: String,
    },
}

/// A node's state, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommonView {
    /// The node's name.
    pub name: String,
    /// It has a session.
    pub is_there: bool,
    /// What it said last; `None`: it keeps none, and has been offered none.
    pub state: Option<CommonState>,
}

/// A version of the common file.
#[derive(Clone, Debug)]
struct Whole {
    version: u64,
    file: CommonFile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nodes check it.
    Offered,
    /// Nodes begin to run it.
    Ordered,
    /// They run it: the driver decides.
    Tried,
}

/// A version under way.
#[derive(Clone, Debug)]
struct Trial {
    whole: Whole,
    seconds: u32,
    phase: Phase,
    /// The nodes that take part.
    members: BTreeSet<u32>,
    /// Those of them that have not answered.
    waits: BTreeSet<u32>,
    until: Time,
}

#[derive(Clone, Debug, Default)]
struct AtNode {
    name: String,
    is_there: bool,
    kept: u64,
    state: Option<CommonState>,
}

/// What is to be done for it.
#[derive(Debug)]
pub(crate) enum Step {
    Say(u32, Body),
    Tell(CommonNews),
}

/// The common file and what nodes have of it, by their dense numbers.
#[derive(Debug, Default)]
pub(crate) struct Common {
    kept: Option<Whole>,
    trial: Option<Trial>,
    nodes: BTreeMap<u32, AtNode>,
    steps: VecDeque<Step>,
}

impl Common {
    pub(crate) fn poll(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.trial.as_ref().filter(|trial| trial.phase != Phase::Tried).map(|trial| trial.until)
    }

    fn say(&mut self, node: u32, body: impl Into<Body>) {
        self.steps.push_back(Step::Say(node, body.into()));
    }

    fn order(&mut self, node: u32, version: u64, verb: CommonVerb, seconds: u32) {
        self.say(node, CommonOrder { version, verb, seconds });
    }

    fn offer(&mut self, node: u32, whole: &Whole) {
        let Some(at) = self.nodes.get(&node) else { return };
        let text = whole.file.part(&at.name).into_bytes();
        // Nothing is a piece too: what the node had of an earlier version goes.
        let pieces = text.len().div_ceil(PIECE).max(1);
        for piece in 0..pieces {
            let text = text.chunks(PIECE).nth(piece).unwrap_or_default().to_vec();
            let (version, piece, pieces) = (whole.version, piece as u16, pieces as u16);
            self.say(node, CommonOffer { version, piece, pieces, text });
        }
    }

    fn there(&self) -> BTreeSet<u32> {
        self.nodes.iter().filter(|(_, at)| at.is_there).map(|(node, _)| *node).collect()
    }

    /// A session has begun.
    pub(crate) fn node_up(&mut self, node: u32, name: &str) {
        let at = self.nodes.entry(node).or_default();
        *at = AtNode { name: name.into(), is_there: true, kept: at.kept, state: None };
        if let Some(kept) = self.kept.clone() {
            self.offer(node, &kept);
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

    pub(crate) fn ask(&mut self, now: Time, ask: CommonAsk) {
        let read = |text: &str| CommonFile::parse("the common file", text);
        match ask {
            CommonAsk::Kept { version, text } => {
                let Ok(file) = read(&text) else { return };
                self.kept = Some(Whole { version, file });
                self.there().into_iter().for_each(|node| self.catch_up(node));
            }
            CommonAsk::Try { version, text, seconds } => {
                let refuse = |why| CommonNews::Refused { version, why };
                let file = match read(&text) {
                    _ if self.trial.is_some() => Err("another version is under way".into()),
                    Ok(file) => Ok(file),
                    Err(error) => Err(error.to_string()),
                };
                match file {
                    Err(why) => self.steps.push_back(Step::Tell(refuse(why))),
                    Ok(file) => self.begin(now, Whole { version, file }, seconds),
                }
            }
            CommonAsk::Keep => {
                let Some(Trial { whole, members, .. }) = self.trial.take() else { return };
                self.kept = Some(whole.clone());
                for node in self.there() {
                    match members.contains(&node) {
                        true => self.order(node, whole.version, CommonVerb::Keep, 0),
                        false => self.offer(node, &whole),
                    }
                }
            }
            CommonAsk::Leave => self.leave(),
        }
    }

    fn begin(&mut self, now: Time, whole: Whole, seconds: u32) {
        let members = self.there();
        members.iter().for_each(|node| self.offer(*node, &whole));
        let (waits, until) = (members.clone(), now + PATIENCE);
        let phase = Phase::Offered;
        self.trial = Some(Trial { whole, seconds, phase, members, waits, until });
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
        self.tried();
    }

    /// Tells the driver that nodes run the version.
    fn tried(&mut self) {
        let Some(trial) = self.trial.as_mut().filter(|trial| trial.phase == Phase::Ordered) else {
            return;
        };
        trial.phase = Phase::Tried;
        let (version, waits) = (trial.whole.version, trial.waits.clone());
        let missing = self.names(&waits);
        self.steps.push_back(Step::Tell(CommonNews::Tried { version, missing }));
    }

    fn names(&self, nodes: &BTreeSet<u32>) -> Vec<String> {
        nodes.iter().filter_map(|node| Some(self.nodes.get(node)?.name.clone())).collect()
    }

    fn leave(&mut self) {
        let Some(trial) = self.trial.take() else { return };
        if trial.phase != Phase::Offered {
            for node in trial.members {
                self.order(node, trial.whole.version, CommonVerb::Leave, 0);
            }
        }
        // Those that came meanwhile, or lack the kept version for another reason.
        self.there().into_iter().for_each(|node| self.catch_up(node));
    }

    fn refuse(&mut self, why: String) {
        let Some(version) = self.trial.as_ref().map(|trial| trial.whole.version) else { return };
        self.leave();
        self.steps.push_back(Step::Tell(CommonNews::Refused { version, why }));
    }

    /// Does what is due.
    pub(crate) fn due(&mut self, now: Time) {
        let Some(trial) = self.trial.as_ref().filter(|trial| trial.until <= now) else { return };
        match trial.phase {
            Phase::Offered => {
                let names = self.names(&trial.waits).join(", ");
                self.refuse(format!("no answer from {names}"));
            }
            Phase::Ordered => self.tried(),
            Phase::Tried => {}
        }
    }

    /// A node tells its state.
    pub(crate) fn hear(&mut self, now: Time, node: u32, state: CommonState) {
        let Some(at) = self.nodes.get_mut(&node) else { return };
        at.kept = at.kept.max(state.kept);
        let (version, fate) = (state.version, state.fate);
        let why = format!("{}: {}", at.name, String::from_utf8_lossy(&state.why));
        at.state = Some(state);
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
            _ => {}
        }
    }

    /// Leads a node to the version that is kept.
    fn catch_up(&mut self, node: u32) {
        let (Some(kept), Some(at)) = (self.kept.clone(), self.nodes.get(&node)) else { return };
        if at.kept >= kept.version || !at.is_there {
            return;
        }
        let its = at.state.as_ref().filter(|state| state.version == kept.version);
        match its.map(|state| state.fate) {
            Some(CommonFate::Ready | CommonFate::OnTrial) => {
                self.order(node, kept.version, CommonVerb::Keep, 0);
            }
            // A node with another version on trial says when that has ended.
            Some(CommonFate::Refused) => {}
            _ => self.offer(node, &kept),
        }
    }

    /// The highest version that a node keeps or tries.
    pub(crate) fn highest(&self) -> u64 {
        let of = |at: &AtNode| at.state.as_ref().map_or(0, |state| state.version).max(at.kept);
        self.nodes.values().map(of).max().unwrap_or(0)
    }

    pub(crate) fn view(&self) -> Vec<CommonView> {
        let view = |at: &AtNode| CommonView {
            name: at.name.clone(),
            is_there: at.is_there,
            state: at.state.clone(),
        };
        self.nodes.values().map(view).collect()
    }
}

impl Controller {
    /// The common file at each node.
    pub fn common(&self) -> Vec<CommonView> {
        self.common.view()
    }

    /// The highest version of the common file that a node has told of. A new one must be higher.
    pub fn common_highest(&self) -> u64 {
        self.common.highest()
    }

    /// Carries out what the common file needs.
    pub(crate) fn follow_common(&mut self, now: Time) {
        self.common.due(now);
        while let Some(step) = self.common.poll() {
            match step {
                Step::Say(node, body) => self.send_reliably(node, 0, body),
                Step::Tell(news) => self.output(Output::Common(news)),
            }
        }
        self.rearm(self.common.deadline(), Timer::Common);
    }
}

#[cfg(test)]
mod tests;
