//! The group's common file, for clients of the control socket.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::time::Duration;

use plexus_api::answer::config::{Applied, Common as State, CommonNode, Text, Trial, Version};
use plexus_api::{Common, CommonApply};
use plexus_config::{CommonFile, ControllerSettings, REVOKED_MAX};
use plexus_controller::{CommonAsk, CommonVersion, CommonView, Controller, Input};
use plexus_wire::Time;
use plexus_wire::fabric::message::CommonFate;

use super::{Daemon, check_own_key};
use crate::socket::Reply;

/// How long all nodes and the store may take for a change.
pub(super) const LIMIT: Duration = Duration::from_secs(30);
/// Clients that wait, at most: those whose question was lost with a core make room for others.
const WAITING_MAX: usize = 64;

/// Where the answer to a client goes.
pub(super) type Answer = Sender<Result<Reply, String>>;

/// Clients that wait for an answer, with the notes that come with it, and how many have asked.
#[derive(Default)]
pub(super) struct Asking {
    waiting: BTreeMap<u64, (Answer, Vec<String>)>,
    asked: u64,
}

/// The next step for a request.
enum Next {
    /// A change, with notes for the client.
    Change(CommonAsk, Vec<String>),
    Answer(Reply),
}

impl Daemon {
    /// Serves a request.
    pub(super) fn common(&mut self, now: Time, request: Common, reply: Answer) {
        let (ask, notes) = match self.next(now, request) {
            Ok(Next::Change(ask, notes)) => (ask, notes),
            // A client may have given up by then.
            Ok(Next::Answer(answer)) => return drop(reply.send(Ok(answer))),
            Err(why) => return drop(reply.send(Err(why))),
        };
        let Some(core) = &mut self.reign.core else { return };
        self.asking.asked += 1;
        while self.asking.waiting.len() >= WAITING_MAX {
            self.asking.waiting.pop_first();
        }
        self.asking.waiting.insert(self.asking.asked, (reply, notes));
        core.handle(now, Input::Common { question: self.asking.asked, ask });
    }

    fn next(&self, now: Time, request: Common) -> Result<Next, String> {
        let core = self.view_with_store()?.core;
        Ok(match request {
            Common::State(_) => Next::Answer(Reply::Common(self.common_state(now, core))),
            Common::Text(version) => {
                let found = core.common_versions().iter().find(|found| found.version == version);
                let none = || format!("there is no version {version} of the common file");
                let text = found.ok_or_else(none)?.text.clone();
                Next::Answer(Reply::Text(Text { version, text }))
            }
            Common::Apply(CommonApply { text, confirm_within_s, comment }) => {
                let file = CommonFile::parse("the common file", &text);
                let file = file.map_err(|e| e.to_string())?;
                let both = self.settings.revoked.len() + file.revoked.len();
                if both > REVOKED_MAX {
                    return Err(format!(
                        "with those of the controller's own file it revokes {both} keys, and \
                         {REVOKED_MAX} are the most"
                    ));
                }
                let known: BTreeSet<String> =
                    core.common().into_iter().map(|view| view.name).collect();
                let unknown = file.names().filter(|name| !known.contains(*name));
                let notes = unknown.map(|name| format!("the controller has not met a node {name}"));
                let notes = notes.collect();
                check_own_key(&file.revoked, &self.hub.key())?;
                let trial_s = confirm_within_s.map(|s| u32::try_from(s).unwrap_or(u32::MAX));
                Next::Change(CommonAsk::Apply { text, comment, trial_s }, notes)
            }
            Common::Confirm(_) => Next::Change(CommonAsk::Keep, vec![]),
            Common::Back(_) => Next::Change(CommonAsk::Leave, vec![]),
        })
    }

    /// The core has carried out a change, or cannot.
    pub(super) fn tell_common(
        &mut self,
        now: Time,
        question: u64,
        told: Result<Vec<String>, String>,
    ) {
        let Some((reply, mut notes)) = self.asking.waiting.remove(&question) else { return };
        let Some(core) = &self.reign.core else { return };
        let missing = |name: String| {
            format!("{name} has not said that it runs it: it gets it once it is heard again")
        };
        let applied = told.map(|names| {
            notes.extend(names.into_iter().map(missing));
            Applied { version: running(now, core), trial: trial(now, core), notes }
        });
        let _ = reply.send(applied.map(Reply::Applied));
    }

    fn common_state(&self, now: Time, core: &Controller) -> State {
        let version = |version: &CommonVersion| Version {
            number: version.version,
            kept_unix_s: version.kept_unix_s,
            comment: version.comment.clone(),
            plexus: version.plexus.clone(),
            good: version.kept,
        };
        let mut nodes: Vec<CommonNode> = core.common().into_iter().map(node).collect();
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        State {
            controller: self.own.1.clone(),
            running: running(now, core),
            trial: trial(now, core),
            versions: core.common_versions().iter().map(version).collect(),
            nodes,
        }
    }
}

/// The settings of the controller's own file, with those of the common file that are for
/// controllers.
pub(super) fn all_settings(own: &ControllerSettings, core: &Controller) -> ControllerSettings {
    let mut all = own.clone();
    if let Some((_, file)) = core.common_file() {
        let is_new = |key: &[u8; 32]| own.revoked.iter().all(|known| known.key != *key);
        all.revoked.extend(file.revoked.iter().filter(|its| is_new(&its.key)).cloned());
        let is_new = |node: &&String| !own.drained.contains(node);
        all.drained.extend(file.drained.iter().filter(is_new).cloned());
    }
    all
}

/// The version that nodes are to run.
fn running(now: Time, core: &Controller) -> Option<u64> {
    let kept = core.common_file().map(|(version, _)| version);
    let kept = kept.or_else(|| core.unreadable_common().map(|kept| kept.version));
    trial(now, core).map(|trial| trial.version).or(kept)
}

fn trial(now: Time, core: &Controller) -> Option<Trial> {
    let trial = core.common_trial()?;
    let left_s = trial.until.since(now).as_millis().div_ceil(1000) as u64;
    let back_to = core.common_file().map_or(0, |(version, _)| version);
    Some(Trial { version: trial.version, back_to, left_s })
}

fn node(view: CommonView) -> CommonNode {
    let CommonView { name, is_there, state } = view;
    let refused = state.as_ref().filter(|state| state.fate == CommonFate::Refused);
    let refused = refused.map(|state| String::from_utf8_lossy(&state.why).into_owned());
    let kept = state.map_or(0, |state| state.kept);
    CommonNode { node: name, is_there, version: (kept > 0).then_some(kept), refused }
}
