//! Identities, and a pair of channels with a bad cable between them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plexus_control::identity::{Authority, Identity, KeyPair, Role};
use plexus_control::session::{
    Channel, Established, Facts, Handled, Limits, Random, Refused, RoleWanted,
};
use plexus_wire::Time;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

pub(crate) const GROUP: [u8; 16] = [7; 16];

pub(crate) fn authority() -> Authority {
    Authority::new(GROUP, &[1; 32])
}

pub(crate) fn identity_by(authority: &Authority, node: u8, role: Role) -> Arc<Identity> {
    let keys = KeyPair::generate(&[0x40 + node; 32]);
    let name = format!("s{node}");
    let credential = authority.issue(node.into(), &name, role, &keys.public).unwrap();
    Arc::new(Identity::new(credential, keys, authority.public()).unwrap())
}

pub(crate) fn node(number: u8) -> Arc<Identity> {
    identity_by(&authority(), number, Role::Node)
}

pub(crate) fn channel_as(identity: Arc<Identity>, wanted: RoleWanted, seed: u64) -> Channel {
    with_limits(identity, wanted, seed, Limits::default())
}

pub(crate) fn with_limits(
    id: Arc<Identity>,
    wanted: RoleWanted,
    seed: u64,
    limits: Limits,
) -> Channel {
    let facts = Facts::new(id.claims().name.as_bytes()).unwrap();
    let mut whole = [id.claims().node as u8; 32];
    whole[..8].copy_from_slice(&seed.to_be_bytes());
    Channel::new(id, wanted, facts, limits, Random::from_seed(whole))
}

pub(crate) fn channel(number: u8, seed: u64) -> Channel {
    channel_as(node(number), RoleWanted::Any, seed)
}

/// Delivers messages at once, in order, until there are no more replies. Returns each side's
/// refusals.
pub(crate) fn exchange(
    now: Time,
    a: &mut Channel,
    b: &mut Channel,
    first: Vec<u8>,
) -> Vec<Refused> {
    let (mut refused, mut message, mut to_b) = (Vec::new(), Some(first), true);
    while let Some(bytes) = message.take() {
        let receiver = if to_b { &mut *b } else { &mut *a };
        match receiver.handle(now, &bytes) {
            Ok(handled) => message = handled.reply,
            Err(reason) => refused.push(reason),
        }
        to_b = !to_b;
    }
    refused
}

/// Two channels that have a session, begun by the first.
pub(crate) fn connected(seed: u64) -> (Channel, Channel) {
    let (mut a, mut b) = (channel(1, seed), channel(2, seed));
    let first = a.start(Time::ZERO);
    assert_eq!(exchange(Time::ZERO, &mut a, &mut b, first), []);
    assert!(a.fingerprint().is_some() && a.fingerprint() == b.fingerprint());
    (a, b)
}

/// Sends a message and returns what arrives.
pub(crate) fn say(now: Time, from: &mut Channel, to: &mut Channel, text: &[u8]) -> Option<Vec<u8>> {
    let sealed = from.seal(now, text).unwrap();
    to.handle(now, &sealed).unwrap().body
}

/// Behaviour of a cable; chances are in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) loss: u64,
    pub(crate) duplication: u64,
    /// Each copy is delayed by up to this, so that later ones overtake it.
    pub(crate) delay_ms_max: u64,
    /// Whether messages with a body are lost too, or only Hellos and confirmations.
    pub(crate) lose_bodies: bool,
}

/// Two channels, a cable, and its output.
pub(crate) struct Pair {
    pub(crate) now: Time,
    pub(crate) ends: [Channel; 2],
    pub(crate) established: [Vec<Established>; 2],
    pub(crate) bodies: [Vec<Vec<u8>>; 2],
    /// Everything that came through.
    pub(crate) recorded: Vec<Vec<u8>>,
    pub(crate) faults: Faults,
    dice: Pcg64,
    wire: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    sent: u64,
}

impl Pair {
    pub(crate) fn new(ends: [Channel; 2], faults: Faults, seed: u64) -> Pair {
        Pair {
            now: Time::ZERO,
            ends,
            established: Default::default(),
            bodies: Default::default(),
            recorded: Vec::new(),
            faults,
            dice: Pcg64::seed_from_u64(seed),
            wire: BTreeMap::new(),
            sent: 0,
        }
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.dice.next_u64() % n.max(1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn send(&mut self, from: usize, message: Vec<u8>) {
        // A Sealed message without a body is 34 bytes long.
        let has_body = message[1] == 2 && message.len() > 34;
        let may_be_lost = self.faults.lose_bodies || !has_body;
        let loss = self.faults.loss;
        if may_be_lost && self.chance(loss) {
            return;
        }
        let duplication = self.faults.duplication;
        let copies = 1 + u64::from(self.chance(duplication));
        for _ in 0..copies {
            let delay = self.below(self.faults.delay_ms_max + 1);
            let at = self.now + Duration::from_millis(delay);
            self.sent += 1;
            self.wire.insert((at, self.sent), (1 - from, message.clone()));
        }
    }

    pub(crate) fn start(&mut self, end: usize) {
        let hello = self.ends[end].start(self.now);
        self.send(end, hello);
    }

    pub(crate) fn say(&mut self, from: usize, text: &[u8]) {
        let sealed = self.ends[from].seal(self.now, text).unwrap();
        self.send(from, sealed);
    }

    /// Lets this much time pass.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let timers = self.ends.iter().filter_map(Channel::next_deadline);
            let wire = self.wire.keys().next().map(|(at, _)| *at);
            let Some(next) = timers.chain(wire).min().filter(|t| *t <= end) else { break };
            self.now = self.now.max(next);
            while let Some((&key, _)) = self.wire.range(..=(self.now, u64::MAX)).next() {
                let (to, message) = self.wire.remove(&key).unwrap();
                self.deliver(to, &message);
                self.recorded.push(message);
            }
            for at in 0..2 {
                while let Some(message) = self.ends[at].poll(self.now) {
                    self.send(at, message);
                }
                let next = self.ends[at].next_deadline();
                assert!(next.is_none_or(|t| t > self.now), "what is due was done");
            }
        }
        self.now = end;
    }

    pub(crate) fn deliver(&mut self, to: usize, message: &[u8]) {
        let Ok(handled) = self.ends[to].handle(self.now, message) else { return };
        let Handled { reply, established, body } = handled;
        self.established[to].extend(established);
        self.bodies[to].extend(body);
        if let Some(reply) = reply {
            self.send(to, reply);
        }
    }
}
