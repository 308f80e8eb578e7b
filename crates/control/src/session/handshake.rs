//! The handshake with one peer: who starts, what is retransmitted, which of two crossing handshakes
//! wins, and which peers are accepted.
//!
//! At most one handshake begun by each side is pending. When both begin at once, both compare the
//! two first messages: the one with the larger ephemeral key continues, and its sender refuses
//! every step of the other. The loser of the comparison keeps its own handshake pending and keeps
//! sending it: otherwise a forged first message could silence it.
//!
//! A first message costs its forger nothing. So it changes nothing but the pending slot, the last
//! one wins that slot (a forger must win every race, not one), and answers that need public-key
//! operations have a budget. Each step has its own: the later ones name a handshake that is
//! pending, so a flood of first ones leaves them theirs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use plexus_wire::Time;
use serde::{Deserialize, Serialize};

use super::frame::{Hello, encode_hello};
use super::noise::{FIRST_LEN, Noise};
use super::{Random, Refused, Session};
use crate::budget::Budget;
use crate::identity::{CREDENTIAL_LEN, Credential, Identity, Role};

/// Time to the first retransmission; it doubles from one to the next.
pub const BACK_OFF_MIN: Duration = Duration::from_millis(50);
/// Longest time between retransmissions.
pub const BACK_OFF_MAX: Duration = Duration::from_secs(1);
/// After this time without an answer, a handshake restarts with a new ephemeral key.
pub const ATTEMPT_TIME: Duration = Duration::from_secs(10);
/// How long the peer's handshake stays pending after our answer.
pub const RESPONDER_TIME: Duration = Duration::from_secs(5);
/// Transmissions of step 3 without a confirmation before the handshake restarts.
const CONFIRM_TRIES: u32 = 6;
/// Most bytes of facts.
pub const FACTS_LEN_MAX: usize = 512;
/// Both sessions, before the credential.
const IDS_LEN: usize = 8;

/// Burst of answers to one step with public-key operations, and the time after which there may be
/// one more: a flood of Hellos takes a bounded share of a core.
const WORK_BURST: u32 = 64;
const WORK_REFILL: Duration = Duration::from_millis(10);

/// The role that a peer must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoleWanted {
    /// Either.
    #[default]
    Any,
    /// A controller.
    Controller,
    /// A node.
    Node,
}

impl RoleWanted {
    fn takes(self, role: Role) -> bool {
        match self {
            RoleWanted::Any => true,
            RoleWanted::Controller => role == Role::Controller,
            RoleWanted::Node => role == Role::Node,
        }
    }
}

/// Facts that a side sends in its Hello besides its identity: at most [`FACTS_LEN_MAX`] bytes,
/// whose meaning is the caller's. The peer accepts them only from an authenticated sender. They are
/// encrypted, but any sender of a first Hello learns those of the answering side: never put secrets
/// there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts(Box<[u8]>);

impl Facts {
    /// These bytes; `None` if they are too many.
    pub fn new(bytes: &[u8]) -> Option<Facts> {
        (bytes.len() <= FACTS_LEN_MAX).then(|| Facts(bytes.into()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// An authenticated peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its identity.
    pub credential: Credential,
    /// Its facts.
    pub facts: Facts,
}

/// The result of a handshake.
#[derive(Debug)]
pub struct Agreed {
    /// The keys.
    pub session: Session,
    /// The peer that shares them.
    pub peer: Peer,
}

/// The result of a Hello.
#[derive(Debug)]
pub enum Step {
    /// Send this.
    Answer(Vec<u8>),
    /// Nothing to do.
    Quiet,
    /// Send this. We have the keys; the peer will have them when it receives that. A message of
    /// this session proves that it did: then call [`Handshake::confirmed`].
    Derived(Box<Agreed>, Vec<u8>),
    /// Both sides have the keys: send a message of this session as confirmation. When one of the
    /// peer's arrives, call [`Handshake::confirmed`].
    Complete(Box<Agreed>),
    /// The peer missed the confirmation of this session, given by our number: send it again.
    Unconfirmed(u32),
}

/// The handshakes with one peer.
pub struct Handshake {
    identity: Arc<Identity>,
    wanted: RoleWanted,
    facts: Facts,
    /// Number of our next session. Numbers are consecutive, so that none is reused and the peer can
    /// tell which was first.
    next_id: u32,
    initiator: Option<Initiator>,
    responder: Option<Responder>,
    completed: Option<Completed>,
    /// Budgets of answers with public-key operations, by step.
    work: [Budget; 3],
}

/// A handshake that we began.
struct Initiator {
    id: u32,
    ephemeral: [u8; FIRST_LEN],
    /// The message that is retransmitted until it is answered: step 1, then step 3.
    hello: Vec<u8>,
    stage: Stage,
    began: Time,
    due: Time,
    back_off: Duration,
}

enum Stage {
    /// Step 1 was sent.
    Opening(Box<Noise>),
    /// Step 3 was sent this many times.
    Confirming(u32),
    /// An unwanted peer answered: restart when due.
    Spent,
}

/// A handshake that the peer began and we answered.
struct Responder {
    id: u32,
    peer_id: u32,
    ephemeral: [u8; FIRST_LEN],
    noise: Box<Noise>,
    /// Step 2.
    hello: Vec<u8>,
    expires: Time,
}

/// The last handshake that the peer began and finished.
struct Completed {
    id: u32,
    ephemeral: [u8; FIRST_LEN],
    /// Its step 3, until the peer has shown that it received our confirmation.
    last: Option<Vec<u8>>,
}

impl Handshake {
    /// No handshake yet.
    pub fn new(
        identity: Arc<Identity>,
        wanted: RoleWanted,
        facts: Facts,
        random: &mut Random,
    ) -> Handshake {
        Handshake {
            identity,
            wanted,
            facts,
            next_id: u32::from_be_bytes(random.bytes()),
            initiator: None,
            responder: None,
            completed: None,
            work: [Budget::new(WORK_BURST, WORK_REFILL); 3],
        }
    }

    /// The facts that later handshakes send to the peer.
    pub fn set_facts(&mut self, facts: Facts) {
        self.facts = facts;
    }

    /// Sets the identity that later handshakes prove, and by which peers are judged. Tells whether
    /// its key is another one: then handshakes that are pending have ended.
    pub fn set_identity(&mut self, identity: Arc<Identity>) -> bool {
        let is_new = identity.keys().public != self.identity.keys().public;
        self.identity = identity;
        if is_new {
            (self.initiator, self.responder) = (None, None);
        }
        is_new
    }

    /// Whether a handshake that we began is pending.
    pub fn is_opening(&self) -> bool {
        self.initiator.is_some()
    }

    /// Numbers of sessions whose Hellos belong here.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        let own = self.initiator.as_ref().map(|i| i.id);
        let answered = self.responder.as_ref().map(|r| r.id);
        let completed = self.completed.as_ref().filter(|c| c.last.is_some()).map(|c| c.id);
        own.into_iter().chain(answered).chain(completed)
    }

    /// Begins a handshake, replacing an earlier one of ours: returns step 1, which is retransmitted
    /// with back-off until it is answered.
    pub fn start(&mut self, now: Time, random: &mut Random) -> Vec<u8> {
        self.begin(now, BACK_OFF_MIN, random)
    }

    fn begin(&mut self, now: Time, back_off: Duration, random: &mut Random) -> Vec<u8> {
        let mut noise = Box::new(Noise::new(&self.identity, true, random));
        let first = noise.write(&[]);
        let ephemeral = *first.first_chunk().expect("an ephemeral key has 32 bytes");
        let id = self.take_id();
        let hello = encode_hello(&Hello { step: 1, sender: id, receiver: 0, noise: &first });
        self.initiator = Some(Initiator {
            id,
            ephemeral,
            hello: hello.clone(),
            stage: Stage::Opening(noise),
            began: now,
            due: now + back_off,
            back_off,
        });
        hello
    }

    /// Ends our handshake; one that the peer began continues.
    pub fn stop(&mut self) {
        self.initiator = None;
    }

    /// Forgets everything that is pending.
    pub fn reset(&mut self) {
        (self.initiator, self.responder, self.completed) = (None, None, None);
    }

    /// Notes that a message of our session `id` was opened: the peer has its keys, and knows that
    /// we have them.
    pub fn confirmed(&mut self, id: u32) {
        let confirming = |i: &mut Initiator| i.id == id && matches!(i.stage, Stage::Confirming(_));
        self.initiator.take_if(confirming);
        if let Some(completed) = self.completed.as_mut().filter(|c| c.id == id) {
            completed.last = None;
        }
    }

    /// When [`Handshake::poll`] is next due.
    pub fn next_deadline(&self) -> Option<Time> {
        let due = self.initiator.as_ref().map(|i| i.due);
        due.into_iter().chain(self.responder.as_ref().map(|r| r.expires)).min()
    }

    /// Returns the retransmission that is due by now.
    pub fn poll(&mut self, now: Time, random: &mut Random) -> Option<Vec<u8>> {
        self.responder.take_if(|r| r.expires <= now);
        let own = self.initiator.as_mut().filter(|i| i.due <= now)?;
        let back_off = (own.back_off * 2).min(BACK_OFF_MAX);
        let again = match &mut own.stage {
            Stage::Opening(_) => now.since(own.began) < ATTEMPT_TIME,
            Stage::Confirming(sent) => {
                *sent += 1;
                *sent <= CONFIRM_TRIES
            }
            Stage::Spent => false,
        };
        if !again {
            return Some(self.begin(now, back_off, random));
        }
        (own.back_off, own.due) = (back_off, now + back_off);
        Some(own.hello.clone())
    }

    /// Processes a Hello. `held` is the node of the existing session, if there is one: any other is
    /// refused.
    ///
    /// # Errors
    /// When it is refused; see [`Refused`].
    pub fn handle(
        &mut self,
        now: Time,
        hello: &Hello<'_>,
        held: Option<u64>,
        random: &mut Random,
    ) -> Result<Step, Refused> {
        self.responder.take_if(|r| r.expires <= now);
        match hello.step {
            1 => self.first(now, hello, random),
            2 => self.second(now, hello, held),
            _ => self.third(now, hello, held),
        }
    }

    fn first(
        &mut self,
        now: Time,
        hello: &Hello<'_>,
        random: &mut Random,
    ) -> Result<Step, Refused> {
        let ephemeral = <[u8; FIRST_LEN]>::try_from(hello.noise).map_err(|_| Refused::Malformed)?;
        if let Some(own) = &self.initiator {
            if own.ephemeral == ephemeral {
                return Err(Refused::OwnIdentity);
            }
            if own.ephemeral > ephemeral {
                // The peer has not received our Hello (yet): it serves as the answer.
                return Ok(match own.stage {
                    Stage::Opening(_) => Step::Answer(own.hello.clone()),
                    Stage::Confirming(_) | Stage::Spent => Step::Quiet,
                });
            }
        }
        if let Some(r) = &self.responder
            && (r.ephemeral, r.peer_id) == (ephemeral, hello.sender)
        {
            return Ok(Step::Answer(r.hello.clone()));
        }
        if self.completed.as_ref().is_some_and(|c| c.ephemeral == ephemeral) {
            return Err(Refused::Duplicate);
        }
        if !self.work[0].spend(now) {
            return Err(Refused::Busy);
        }
        let mut noise = Box::new(Noise::new(&self.identity, false, random));
        noise.read(&self.identity, hello.noise)?;
        let (id, peer_id) = (self.take_id(), hello.sender);
        let second = noise.write(&self.payload(peer_id, id));
        let hello = encode_hello(&Hello { step: 2, sender: id, receiver: peer_id, noise: &second });
        let answer = Step::Answer(hello.clone());
        let expires = now + RESPONDER_TIME;
        self.responder = Some(Responder { id, peer_id, ephemeral, noise, hello, expires });
        Ok(answer)
    }

    fn second(&mut self, now: Time, hello: &Hello<'_>, held: Option<u64>) -> Result<Step, Refused> {
        let own = self.initiator.as_mut().filter(|i| i.id == hello.receiver);
        let own = own.ok_or(Refused::UnknownSession)?;
        let Stage::Opening(noise) = &mut own.stage else { return Err(Refused::Duplicate) };
        if !self.work[1].spend(now) {
            return Err(Refused::Busy);
        }
        let payload = noise.read(&self.identity, hello.noise)?;
        // From here on the state has changed: an unwanted peer costs us this attempt.
        let Stage::Opening(mut noise) = std::mem::replace(&mut own.stage, Stage::Spent) else {
            return Err(Refused::Duplicate);
        };
        let (id, peer_id) = (hello.receiver, hello.sender);
        let peer = self.judge(&payload, (id, peer_id), noise.remote_static(), held)?;
        let third = noise.write(&self.payload(id, peer_id));
        let hello = encode_hello(&Hello { step: 3, sender: id, receiver: peer_id, noise: &third });
        if let Some(own) = &mut self.initiator {
            // A late third step must not revive a handshake that lost against ours: by the
            // comparison, or because the peer gave it up before it answered us, as its numbers
            // show.
            let given_up = |r: &Responder| peer_id.wrapping_sub(r.peer_id).cast_signed() > 0;
            self.responder.take_if(|r| given_up(r) || r.ephemeral < own.ephemeral);
            own.stage = Stage::Confirming(1);
            own.hello.clone_from(&hello);
            (own.back_off, own.due) = (BACK_OFF_MIN, now + BACK_OFF_MIN);
        }
        let session = noise.finish(id, peer_id);
        Ok(Step::Derived(Box::new(Agreed { session, peer }), hello))
    }

    fn third(&mut self, now: Time, hello: &Hello<'_>, held: Option<u64>) -> Result<Step, Refused> {
        if let Some(completed) = self.completed.as_ref().filter(|c| c.id == hello.receiver) {
            return match &completed.last {
                Some(last) if last == hello.noise => Ok(Step::Unconfirmed(completed.id)),
                _ => Err(Refused::Duplicate),
            };
        }
        let pending = |r: &&mut Responder| (r.id, r.peer_id) == (hello.receiver, hello.sender);
        let r = self.responder.as_mut().filter(pending).ok_or(Refused::UnknownSession)?;
        if self.initiator.as_ref().is_some_and(|own| own.ephemeral > r.ephemeral) {
            return Err(Refused::Crossed);
        }
        if !self.work[2].spend(now) {
            return Err(Refused::Busy);
        }
        let payload = r.noise.read(&self.identity, hello.noise)?;
        let Some(r) = self.responder.take() else { return Err(Refused::UnknownSession) };
        let peer = self.judge(&payload, (r.peer_id, r.id), r.noise.remote_static(), held)?;
        self.initiator = None;
        let last = Some(hello.noise.to_vec());
        self.completed = Some(Completed { id: r.id, ephemeral: r.ephemeral, last });
        let session = r.noise.finish(r.id, r.peer_id);
        Ok(Step::Complete(Box::new(Agreed { session, peer })))
    }

    /// The payload of steps 2 and 3: the initiator's session and the responder's, which are thereby
    /// authenticated; the credential; the facts.
    fn payload(&self, initiator: u32, responder: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(IDS_LEN + CREDENTIAL_LEN + self.facts.0.len());
        out.extend(initiator.to_be_bytes());
        out.extend(responder.to_be_bytes());
        out.extend(self.identity.credential().encode());
        out.extend(&self.facts.0);
        out
    }

    /// Whether to accept the sender of this authenticated payload. `ids` are the initiator's
    /// session and the responder's.
    fn judge(
        &self,
        payload: &[u8],
        ids: (u32, u32),
        proved: Option<[u8; 32]>,
        held: Option<u64>,
    ) -> Result<Peer, Refused> {
        let own = self.identity.claims();
        let Some((told_ids, rest)) = payload.split_first_chunk::<IDS_LEN>() else {
            return Err(Refused::Malformed);
        };
        let Some((credential, facts)) = rest.split_first_chunk::<CREDENTIAL_LEN>() else {
            return Err(Refused::Credential);
        };
        if told_ids[..4] != ids.0.to_be_bytes() || told_ids[4..] != ids.1.to_be_bytes() {
            return Err(Refused::Authentication);
        }
        if proved == Some(own.static_public) {
            return Err(Refused::OwnIdentity);
        }
        let credential = Credential::decode(credential).map_err(|_| Refused::Credential)?;
        let claims = credential.claims();
        if claims.group != own.group {
            return Err(Refused::Group);
        }
        credential.verify(self.identity.authority()).map_err(|_| Refused::Signature)?;
        if proved != Some(claims.static_public) {
            return Err(Refused::KeyMismatch);
        }
        if self.identity.refuses(&claims.static_public) {
            return Err(Refused::Revoked);
        }
        if claims.node == own.node {
            return Err(Refused::OwnIdentity);
        }
        if !self.wanted.takes(claims.role) {
            return Err(Refused::Role);
        }
        if held.is_some_and(|node| node != claims.node) {
            return Err(Refused::OtherPeer);
        }
        let facts = Facts::new(facts).ok_or(Refused::Facts)?;
        Ok(Peer { credential, facts })
    }

    fn take_id(&mut self) -> u32 {
        let id = self.next_id.max(1);
        self.next_id = id.wrapping_add(1);
        id
    }
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshake")
            .field("identity", &self.identity.claims().name)
            .field("initiator", &self.initiator.as_ref().map(|i| i.id))
            .field("responder", &self.responder.as_ref().map(|r| r.id))
            .finish_non_exhaustive()
    }
}
