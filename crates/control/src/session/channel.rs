//! The channel with one peer: handshakes, the session in use, and the sessions before and after it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use plexus_wire::Time;
use serde::{Deserialize, Serialize};

use super::frame::{Hello, Message, Sealed};
use super::transport::COUNTER_END;
use super::{
    Agreed, Facts, Handshake, PLAINTEXT_LEN_MAX, Peer, Random, Refusals, Refused, RoleWanted,
    Session, Step,
};
use crate::identity::Identity;

/// How long a session is still accepted after the peer has used a newer one: for messages delayed
/// on a longer path.
pub const OLD_SESSION_GRACE: Duration = Duration::from_secs(2);
/// Most open sessions: the one in use, one that the peer may use next, and leftovers of interrupted
/// handshakes.
const SESSIONS_MAX: usize = 4;

/// How long keys are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// After this time, new keys are negotiated. The side that began the last handshake begins; the
    /// other side waits an eighth longer.
    pub rekey_time: Duration,
    /// The same after this many sealed messages.
    pub rekey_messages: u64,
    /// After this time, keys are no longer used.
    pub end_time: Duration,
    /// After this many sealed messages, no more are sealed; at most 2^60.
    pub end_messages: u64,
}

impl Default for Limits {
    /// An hour or 2^32 messages, and a day or 2^48.
    fn default() -> Limits {
        Limits {
            rekey_time: Duration::from_secs(3600),
            rekey_messages: 1 << 32,
            end_time: Duration::from_secs(86_400),
            end_messages: 1 << 48,
        }
    }
}

/// Why a message was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// There is no session.
    NoSession,
    /// The plaintext is empty, which is reserved for a confirmation, or longer than
    /// [`PLAINTEXT_LEN_MAX`].
    Length,
    /// The key has reached its limit, and no new one was negotiated.
    Exhausted,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SealError::NoSession => f.write_str("there is no session with the peer"),
            SealError::Length => write!(f, "a message has 1 to {PLAINTEXT_LEN_MAX} bytes"),
            SealError::Exhausted => f.write_str("the session's key may not be used any more"),
        }
    }
}

impl std::error::Error for SealError {}

/// A session that is now in use; both sides have its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Established {
    /// The peer.
    pub peer: Peer,
    /// Identifies the session: the same on both sides.
    pub fingerprint: [u8; 32],
    /// Whether it follows a session with the same peer. The peer may have changed its facts, or may
    /// have restarted.
    pub renewed: bool,
}

/// Results of an accepted message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// Send this to the peer.
    pub reply: Option<Vec<u8>>,
    /// A session was established.
    pub established: Option<Established>,
    /// The peer's message.
    pub body: Option<Vec<u8>>,
}

/// Everything between us and one peer.
///
/// The caller has to detect a lost peer, by heartbeats: a peer that restarts after its last Hello
/// leaves a session that it does not know. When the peer is silent, call [`Channel::reset`] and
/// [`Channel::start`].
pub struct Channel {
    handshake: Handshake,
    random: Random,
    limits: Limits,
    /// Oldest first. There is seldom more than one, and a node has many channels.
    sessions: ArrayVec<Box<Entry>, SESSIONS_MAX>,
    /// Our number of the session used for sealing.
    sealing: Option<u32>,
    refusals: Refusals,
}

struct Entry {
    session: Session,
    peer: Peer,
    /// Whether we began its handshake.
    began: bool,
    made: Time,
    expires: Time,
    /// Whether one of its messages was opened.
    used: bool,
}

impl Channel {
    /// No session and no handshake: it answers the peer. `random` belongs to this channel alone.
    pub fn new(
        identity: Arc<Identity>,
        wanted: RoleWanted,
        facts: Facts,
        limits: Limits,
        mut random: Random,
    ) -> Channel {
        let handshake = Handshake::new(identity, wanted, facts, &mut random);
        let (sessions, refusals) = (ArrayVec::new(), Refusals::default());
        Channel { handshake, random, limits, sessions, sealing: None, refusals }
    }

    /// Begins a handshake and returns the Hello to send. It is retransmitted with back-off until
    /// there is a session or [`Channel::stop`] is called.
    pub fn start(&mut self, now: Time) -> Vec<u8> {
        self.handshake.start(now, &mut self.random)
    }

    /// Stops sending Hellos of our own; the peer's are answered, and a session continues.
    pub fn stop(&mut self) {
        self.handshake.stop();
    }

    /// Forgets the peer: the cable was unplugged, or leads elsewhere.
    pub fn reset(&mut self) {
        self.handshake.reset();
        self.sessions.clear();
        self.sealing = None;
    }

    /// The facts that later handshakes send to the peer.
    pub fn set_facts(&mut self, facts: Facts) {
        self.handshake.set_facts(facts);
    }

    /// Sets the identity that later handshakes prove, and by which peers are judged. If its key is
    /// another one, a handshake begins, whose Hello is returned. The session in use stays, also if
    /// the identity does not trust its peer.
    pub fn set_identity(&mut self, now: Time, identity: Arc<Identity>) -> Option<Vec<u8>> {
        let is_wanted = self.handshake.is_opening() || self.sealing.is_some();
        // The caller judges the session in use; the others are not to be taken up later.
        let in_use = self.sealing;
        self.sessions.retain(|entry| {
            let key = &entry.peer.credential.claims().static_public;
            Some(entry.session.id()) == in_use || !identity.refuses(key)
        });
        let is_new = self.handshake.set_identity(identity);
        (is_new && is_wanted).then(|| self.start(now))
    }

    /// The peer of the session in use.
    pub fn peer(&self) -> Option<&Peer> {
        self.in_use().map(|e| &e.peer)
    }

    /// Identifies the session in use: the same on both sides.
    pub fn fingerprint(&self) -> Option<[u8; 32]> {
        self.in_use().map(|e| *e.session.fingerprint())
    }

    /// Whether a handshake that we began is pending.
    pub fn is_opening(&self) -> bool {
        self.handshake.is_opening()
    }

    /// Numbers of the sessions that belong here: for dispatching among many channels on one port.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.handshake.numbers().chain(self.sessions.iter().map(|e| e.session.id()))
    }

    /// Messages refused so far.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    fn in_use(&self) -> Option<&Entry> {
        self.sessions.iter().map(|e| &**e).find(|e| Some(e.session.id()) == self.sealing)
    }

    /// When [`Channel::poll`] is next due.
    pub fn next_deadline(&self) -> Option<Time> {
        let rekey = match self.handshake.is_opening() {
            true => None,
            false => self.in_use().map(|e| self.rekey_at(e)),
        };
        let ends = self.sessions.iter().map(|e| self.end_of(e));
        self.handshake.next_deadline().into_iter().chain(rekey).chain(ends).min()
    }

    /// When new keys are due: at once, if enough was sealed.
    fn rekey_at(&self, entry: &Entry) -> Time {
        if entry.session.sealed() >= self.limits.rekey_messages {
            return entry.made;
        }
        let longer = if entry.began { Duration::ZERO } else { self.limits.rekey_time / 8 };
        entry.made + self.limits.rekey_time + longer
    }

    fn end_of(&self, entry: &Entry) -> Time {
        entry.expires.min(entry.made + self.limits.end_time)
    }

    fn forget_expired(&mut self, now: Time) {
        let end_time = self.limits.end_time;
        self.sessions.retain(|e| e.expires.min(e.made + end_time) > now);
        if self.in_use().is_none() {
            self.sealing = None;
        }
    }

    /// Returns a message that is due by now; call it until there is none.
    pub fn poll(&mut self, now: Time) -> Option<Vec<u8>> {
        self.forget_expired(now);
        if let Some(again) = self.handshake.poll(now, &mut self.random) {
            return Some(again);
        }
        let due = self.in_use().is_some_and(|e| self.rekey_at(e) <= now);
        (due && !self.handshake.is_opening()).then(|| self.start(now))
    }

    /// Seals a message and returns the bytes to send.
    ///
    /// # Errors
    /// Why it could not be sealed, see [`SealError`].
    pub fn seal(&mut self, now: Time, plaintext: &[u8]) -> Result<Vec<u8>, SealError> {
        self.seal_as(now, plaintext, false)
    }

    /// The same, with `short` as a short message if it fits one: for a peer that speaks version 2.
    ///
    /// # Errors
    /// As of [`Channel::seal`].
    pub fn seal_as(
        &mut self,
        now: Time,
        plaintext: &[u8],
        short: bool,
    ) -> Result<Vec<u8>, SealError> {
        if plaintext.is_empty() || plaintext.len() > PLAINTEXT_LEN_MAX {
            return Err(SealError::Length);
        }
        self.forget_expired(now);
        let id = self.sealing.ok_or(SealError::NoSession)?;
        self.seal_in(id, plaintext, short).ok_or(SealError::Exhausted)
    }

    fn seal_in(&mut self, id: u32, plaintext: &[u8], short: bool) -> Option<Vec<u8>> {
        let end = self.limits.end_messages.min(COUNTER_END);
        let entry = self.sessions.iter_mut().find(|e| e.session.id() == id)?;
        if entry.session.sealed() >= end {
            return None;
        }
        match short {
            true => entry.session.seal_short(plaintext),
            false => entry.session.seal(plaintext),
        }
    }

    /// Processes a message of the peer or of an attacker: Hello or Sealed, with or without padding.
    ///
    /// # Errors
    /// When it is refused, which is counted. [`Refused::OwnIdentity`] and [`Refused::OtherPeer`]
    /// are findings about the cable, for the caller to act upon.
    pub fn handle(&mut self, now: Time, message: &[u8]) -> Result<Handled, Refused> {
        self.forget_expired(now);
        let handled = match Message::decode(message) {
            Ok(Message::Hello(hello)) => self.hello(now, &hello),
            Ok(Message::Sealed(sealed)) => self.sealed(now, &sealed),
            Ok(Message::Keyed(_) | Message::Reply(_)) => Err(Refused::Kind),
            Err(refused) => Err(refused),
        };
        handled.inspect_err(|refused| self.refusals.count(*refused))
    }

    fn hello(&mut self, now: Time, hello: &Hello<'_>) -> Result<Handled, Refused> {
        let held = self.peer().map(|p| p.credential.claims().node);
        let mut handled = Handled::default();
        match self.handshake.handle(now, hello, held, &mut self.random)? {
            Step::Quiet => {}
            Step::Answer(reply) => handled.reply = Some(reply),
            Step::Derived(agreed, reply) => {
                self.keep(now, *agreed, true);
                handled.reply = Some(reply);
            }
            Step::Complete(agreed) => {
                let id = self.keep(now, *agreed, false);
                handled.established = self.take_up(id);
                handled.reply = self.seal_in(id, &[], false);
            }
            Step::Unconfirmed(id) => handled.reply = self.seal_in(id, &[], false),
        }
        Ok(handled)
    }

    fn sealed(&mut self, now: Time, sealed: &Sealed<'_>) -> Result<Handled, Refused> {
        let at = self.sessions.iter().position(|e| e.session.id() == sealed.receiver);
        let at = at.ok_or(Refused::UnknownSession)?;
        let text = self.sessions[at].session.open(sealed)?;
        let mut handled = Handled::default();
        if !self.sessions[at].used {
            self.sessions[at].used = true;
            self.handshake.confirmed(sealed.receiver);
            for older in &mut self.sessions[..at] {
                older.expires = older.expires.min(now + OLD_SESSION_GRACE);
            }
            let in_use = self.sessions.iter().position(|e| Some(e.session.id()) == self.sealing);
            if in_use.is_none_or(|i| i < at) {
                handled.established = self.take_up(sealed.receiver);
                // Tells the peer that the session is in use, although there may be nothing to send.
                handled.reply = self.seal_in(sealed.receiver, &[], false);
            }
        }
        handled.body = (!text.is_empty()).then_some(text);
        Ok(handled)
    }

    /// Seals with this session from now on.
    fn take_up(&mut self, id: u32) -> Option<Established> {
        let renewed = self.sealing.is_some();
        self.sealing = Some(id);
        let entry = self.in_use()?;
        let fingerprint = *entry.session.fingerprint();
        Some(Established { peer: entry.peer.clone(), fingerprint, renewed })
    }

    /// Accepts messages with these keys from now on.
    fn keep(&mut self, now: Time, agreed: Agreed, began: bool) -> u32 {
        if self.sessions.is_full() {
            // The session in use is kept, and so is one that the peer is known to use.
            let left_behind = |e: &Entry| Some(e.session.id()) != self.sealing;
            let at = self.sessions.iter().position(|e| left_behind(e) && !e.used);
            let at = at.or_else(|| self.sessions.iter().position(|e| left_behind(e))).unwrap_or(0);
            self.sessions.remove(at);
        }
        let Agreed { session, peer } = agreed;
        let id = session.id();
        let (made, expires) = (now, Time::FOREVER);
        let entry = Entry { session, peer, began, made, expires, used: false };
        self.sessions.push(Box::new(entry));
        id
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("handshake", &self.handshake)
            .field("sessions", &self.sessions.iter().map(|e| &e.session).collect::<Vec<_>>())
            .field("sealing", &self.sealing)
            .finish_non_exhaustive()
    }
}
