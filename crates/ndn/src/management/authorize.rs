//! Authorization: who may query and command, and the answers to commands.

use plexus_wire::ndn::Name;
use plexus_wire::ndn::nfd::{face_scope, status};

use super::announce::{self, Announced};
use super::budget::Leave;
use super::command::{Request, Verb};
use super::connecting::connecting;
use super::reply::{self, Outcome, Refusal};
use super::verify::{Maker, Policy, Trust};
use super::{At, Host, Management, ManagementCounters, replay, verify};
use crate::face::FaceId;

/// The counter of a refused command.
type Counter = fn(&mut ManagementCounters) -> &mut u64;

/// An accepted command.
pub(super) struct Granted {
    pub(super) maker: Maker,
    /// The announcement in it, for a command of that kind.
    pub(super) announced: Option<Result<Announced, Refusal>>,
}

/// The verification limit was reached: the same command may be sent again.
fn unverified() -> (Counter, Refusal) {
    (|c| &mut c.unverified, Refusal::unverified())
}

impl Management {
    /// Local applications may query everything; neighbours may query only if they may command.
    pub(super) fn may_ask(&self, request: &Request<'_>, from: FaceId) -> bool {
        match (self.faces.get(&from), request.is_localhop) {
            (None, _) => false,
            (Some(_), true) => self.config.trust.localhop != Policy::Nobody,
            (Some(face), false) => face.scope == face_scope::LOCAL,
        }
    }

    /// Carries a command out if it is authorized.
    pub(super) fn command(
        &mut self,
        at: At,
        verb: Verb,
        request: &Request<'_>,
        host: &mut impl Host,
        answer: &mut impl FnMut(&[u8]),
    ) {
        let outcome = match self.authorize(at, verb, request) {
            Ok(granted) => {
                let mut outcome = self.carry_out(at, verb, request, granted, host);
                self.changes += 1;
                if verb == Verb::FaceCreate
                    && let Some(face) = connecting(&outcome, host)
                {
                    match self.wait_for(at, face, request, host) {
                        Ok(()) => return,
                        Err(refusal) => outcome = Err(refusal),
                    }
                }
                self.count(&outcome);
                outcome
            }
            Err((counter, refusal)) => {
                *counter(&mut self.counters) += 1;
                Err(refusal)
            }
        };
        self.respond(request.interest.name(), outcome, answer);
    }

    pub(super) fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Ok(_) => self.counters.done += 1,
            Err(_) => self.counters.failed += 1,
        }
    }

    /// True of faces that do not lead to applications on this machine.
    pub(super) fn is_neighbour(&self, face: FaceId) -> bool {
        self.faces.get(&face).is_some_and(|face| face.scope == face_scope::NON_LOCAL)
    }

    /// The trusted keys, and the verification limit, which applies to neighbours only.
    pub(super) fn leave(&mut self, at: At) -> (&Trust, Leave<'_>) {
        let is_neighbour = self.is_neighbour(at.from);
        let budget = is_neighbour.then_some(&mut self.budget);
        (&self.config.trust, Leave { budget, now: at.now, face: at.from, spare: 0 })
    }

    fn authorize(
        &mut self,
        at: At,
        verb: Verb,
        request: &Request<'_>,
    ) -> Result<Granted, (Counter, Refusal)> {
        let refused = |counter: Counter| Err((counter, Refusal::unauthorized()));
        if !request.has_digest() {
            return refused(|c| &mut c.forged);
        }
        let Some(signed) = request.signed() else { return refused(|c| &mut c.unsigned) };
        let is_announcement = verb == Verb::RibAnnounce;
        let (trust, mut leave) = self.leave(at);
        // A client that retries without pause would never reach the required number if each attempt
        // used up some of it.
        if is_announcement {
            leave.spare = announce::verifications(&request.interest, trust);
        }
        let policy = if request.is_localhop { trust.localhop } else { trust.localhost };
        let maker = match signed.verify(trust, policy, at.unix_ms, &mut leave) {
            Ok(maker) => maker,
            Err(verify::Fault::Forged) => return refused(|c| &mut c.forged),
            Err(verify::Fault::Untrusted) => return refused(|c| &mut c.untrusted),
            Err(verify::Fault::Unverified) => return Err(unverified()),
        };
        let command = replay::Command {
            maker,
            from: at.from,
            time_ms: signed.time_ms,
            seq_num: signed.seq_num,
            signed: signed.hash(),
        };
        match self.replay.check(at.unix_ms, &command) {
            Ok(()) => {}
            Err(replay::Fault::Replayed) => return refused(|c| &mut c.replayed),
            Err(replay::Fault::Stale) => return refused(|c| &mut c.stale),
        }
        if let Maker::Key(key) = maker
            && self.is_neighbour(at.from)
        {
            self.budget.know(at.from, key);
        }
        let mut announced = None;
        if is_announcement {
            let (trust, mut leave) = self.leave(at);
            let read = announce::read(&request.interest, trust, at.unix_ms, &mut leave);
            announced = match read {
                Ok(read) => Some(Ok(read)),
                Err(announce::Fault::Refused(refusal)) => Some(Err(refusal)),
                Err(announce::Fault::Unverified) => return Err(unverified()),
            };
        }
        self.replay.take_down(at.unix_ms, &command);
        Ok(Granted { maker, announced })
    }

    /// An Interest with an unknown name.
    pub(super) fn unknown(&mut self, request: &Request<'_>, answer: &mut impl FnMut(&[u8])) {
        self.counters.unknown += 1;
        let refusal = Refusal::new(status::UNSUPPORTED_COMMAND, "Unknown command");
        self.respond(request.interest.name(), Err(refusal), answer);
    }

    pub(super) fn respond(
        &mut self,
        name: Name<'_>,
        outcome: Outcome,
        answer: &mut impl FnMut(&[u8]),
    ) {
        match reply::response(name, outcome, None) {
            Some(packet) => answer(&packet),
            None => self.counters.dropped += 1,
        }
    }
}
