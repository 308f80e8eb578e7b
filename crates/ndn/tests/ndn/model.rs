//! The forwarder against a naive one that stores everything in plain lists: random Interests, Data,
//! Nacks and time steps over few names and faces, which leave and are replaced. Both have to send
//! exactly the same packets. Best route; times are chosen so that nothing expires within the tick
//! in which it is examined, and no dead nonce expires.

use std::collections::{HashMap, HashSet};

use crate::rig::*;
use plexus_ndn::face::{Face, FaceId};
use plexus_wire::ndn::Data;
use plexus_wire::ndn::lp::{Headers, NackReason};
use proptest::prelude::*;

const FACES: u32 = 4;
/// The one application among the faces.
const APP: u32 = 0;

/// Faces are numbered by place; each that comes in the place of another, by `FACES` more.
fn id(face: u32) -> FaceId {
    FaceId::new(face % FACES, face / FACES).unwrap()
}

fn number(id: FaceId) -> u32 {
    let place = id.place().unwrap() as u32;
    (place..).step_by(FACES as usize).find(|number| self::id(*number) == id).unwrap()
}

fn is_app(face: u32) -> bool {
    face % FACES == APP
}
const NAMES: [&str; 6] = ["/a", "/a/b", "/a/b/c", "/b", "/b/c", "/localhost/x"];
const ROUTES: [Route<'_>; 6] =
    [("/a", 2, 1), ("/a", 3, 2), ("/a", 1, 3), ("/a/b", 1, 1), ("/b", 3, 1), ("/localhost", 0, 1)];

#[derive(Clone, Debug)]
enum Step {
    Interest { from: u32, key: Key, nonce: u32, lifetime_ms: u64 },
    Data { from: u32, name: usize, freshness_ms: u64, with_token: bool },
    Nack { from: u32, pick: usize },
    Wait { ms: u64 },
    Leave { at: u32 },
}

/// Name, CanBePrefix, MustBeFresh.
type Key = (usize, bool, bool);

fn step() -> impl Strategy<Value = Step> {
    let key = (0..NAMES.len(), any::<bool>(), any::<bool>());
    prop_oneof![
        6 => (0..FACES, key, 0u32..30, 1u64..100).prop_map(|(from, key, nonce, tens)| {
            Step::Interest { from, key, nonce, lifetime_ms: tens * 10 + 5 }
        }),
        4 => (0..FACES, 0..NAMES.len(), 0u64..30, any::<bool>()).prop_map(
            |(from, name, tens, with_token)| {
                Step::Data { from, name, freshness_ms: tens * 10 + 5, with_token }
            }
        ),
        2 => (0..FACES, any::<usize>()).prop_map(|(from, pick)| Step::Nack { from, pick }),
        2 => (0u64..9).prop_map(|tens| Step::Wait { ms: tens * 10 }),
        1 => (0..FACES).prop_map(|at| Step::Leave { at }),
    ]
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Interest,
    Data(Vec<u8>),
    /// With the nonce that the Nack carries.
    Nack(u64, u32),
}

struct In {
    face: u32,
    nonce: u32,
    until: u64,
}

struct Out {
    face: u32,
    nonce: u32,
    until: u64,
    sent: u64,
    nacked: bool,
}

struct Entry {
    serial: usize,
    key: Key,
    until: u64,
    interval: u64,
    owner: u32,
    /// The owner's first, if there are any.
    ins: Vec<In>,
    outs: Vec<Out>,
}

impl Entry {
    fn put(&mut self, asks: In) {
        match self.ins.iter_mut().find(|i| i.face == asks.face) {
            Some(own) => *own = asks,
            None => {
                self.owner = if self.ins.is_empty() { asks.face } else { self.owner };
                self.ins.push(asks);
            }
        }
    }

    /// Takes a face's record out. Who asked last owns the entry when its owner waits no longer.
    fn take(&mut self, face: u32) -> Option<In> {
        let at = self.ins.iter().position(|i| i.face == face)?;
        let taken = self.ins.remove(at);
        if at == 0
            && let Some(next) = self.ins.pop()
        {
            self.owner = next.face;
            self.ins.insert(0, next);
        }
        Some(taken)
    }

    fn is_pending(&self, now: u64) -> bool {
        self.outs.iter().any(|o| o.until >= now && !o.nacked)
    }
}

/// Times in ms.
#[derive(Default)]
struct Model {
    now: u64,
    entries: Vec<Entry>,
    made: usize,
    dead: Vec<(usize, u32)>,
    /// Name, packet, fresh until; in order of arrival.
    cache: Vec<(usize, Vec<u8>, u64)>,
    /// Faces that have left.
    gone: Vec<u32>,
    /// Prefixes that an Interest asked the cache for, and names that arrived since.
    since: HashMap<usize, HashSet<usize>>,
}

fn answers((asked, prefix, _): Key, name: usize) -> bool {
    match prefix {
        true => is_prefix(asked, name),
        false => asked == name,
    }
}

fn is_prefix(of: usize, name: usize) -> bool {
    self::name(NAMES[of]).as_name().is_prefix_of(&self::name(NAMES[name]).as_name())
}

fn is_local(name: usize) -> bool {
    NAMES[name].starts_with("/localhost/")
}

/// Next hops of a name, the cheapest first.
fn hops(of: usize) -> Vec<u32> {
    let of = name(NAMES[of]);
    let fits = ROUTES.iter().filter(|r| name(r.0).as_name().is_prefix_of(&of.as_name()));
    let longest = fits.clone().map(|r| r.0.len()).max();
    let mut hops: Vec<_> = fits.filter(|r| Some(r.0.len()) == longest).collect();
    hops.sort_by_key(|r| r.2);
    hops.iter().map(|r| r.1).collect()
}

impl Model {
    fn bury(&mut self, at: usize) {
        let entry = self.entries.remove(at);
        self.dead.extend(entry.outs.iter().map(|o| (entry.key.0, o.nonce)));
    }

    fn wait(&mut self, ms: u64) {
        self.now += ms;
        while let Some(at) = self.entries.iter().position(|e| e.until < self.now) {
            self.bury(at);
        }
    }

    /// Withdraws the pending Interests of a face. Entries in which another face waits remain.
    fn leave(&mut self, face: u32) {
        self.gone.push(face);
        let mut at = 0;
        while let Some(entry) = self.entries.get_mut(at) {
            let is_own = entry.ins.is_empty() && entry.owner == face;
            if entry.take(face).is_none() && !is_own {
                at += 1;
                continue;
            }
            entry.until = entry.ins.iter().map(|i| i.until).max().unwrap_or(0);
            match entry.until < self.now {
                true => self.bury(at),
                false => at += 1,
            }
        }
    }

    /// By prefix, only packets that arrived after an Interest asked for the prefix.
    fn cached(&mut self, (asked, prefix, fresh): Key) -> Option<Vec<u8>> {
        if prefix {
            self.since.entry(asked).or_default();
        }
        let since = |name| self.since.get(&asked).is_some_and(|since| since.contains(&name));
        let suits = |c: &&(usize, Vec<u8>, u64)| !fresh || c.2 > self.now;
        let exact = self.cache.iter().find(|c| c.0 == asked).filter(suits);
        let below = || {
            let newest = self.cache.iter().rev().find(|c| c.0 != asked && is_prefix(asked, c.0));
            newest.filter(|c| prefix && since(c.0)).filter(suits)
        };
        exact.or_else(below).map(|c| c.1.clone())
    }

    fn interest(&mut self, from: u32, key: Key, nonce: u32, lifetime: u64) -> Vec<(u32, What)> {
        if is_local(key.0) && !is_app(from) {
            return vec![];
        }
        let loops = vec![(from, What::Nack(NackReason::DUPLICATE.0, nonce))];
        if self.dead.contains(&(key.0, nonce)) {
            return loops;
        }
        let known = self.entries.iter().position(|e| e.key == key);
        if let Some(entry) = known.map(|at| &self.entries[at]) {
            let same = entry.ins.iter().any(|i| i.nonce == nonce && i.face == from);
            let seen = entry.ins.iter().any(|i| i.nonce == nonce)
                || entry.outs.iter().any(|o| o.nonce == nonce);
            if seen && !same {
                return loops;
            }
        }
        if known.is_none_or(|at| self.entries[at].ins.is_empty())
            && let Some(packet) = self.cached(key)
        {
            return vec![(from, What::Data(packet))];
        }
        let at = known.unwrap_or_else(|| {
            self.made += 1;
            let (serial, owner, ins, outs) = (self.made, from, vec![], vec![]);
            self.entries.push(Entry { serial, key, until: 0, interval: 10, owner, ins, outs });
            self.entries.len() - 1
        });
        let now = self.now;
        let entry = &mut self.entries[at];
        entry.put(In { face: from, nonce, until: now + lifetime });
        entry.until = entry.ins.iter().map(|i| i.until).max().unwrap();
        let is_there = |hop: &u32| !self.gone.contains(hop);
        let may = |hop: &u32| *hop != from && (!is_local(key.0) || is_app(*hop)) && is_there(hop);
        let hops: Vec<u32> = hops(key.0).into_iter().filter(may).collect();
        let hop = if !entry.is_pending(now) {
            let Some(hop) = hops.first() else {
                entry.take(from);
                if entry.ins.is_empty() {
                    self.bury(at);
                }
                return vec![(from, What::Nack(NackReason::NO_ROUTE.0, nonce))];
            };
            *hop
        } else {
            let last = entry.outs.iter().map(|o| o.sent).max().unwrap();
            if now - last < entry.interval {
                return vec![];
            }
            entry.interval = (2 * entry.interval).min(250);
            let used = |hop: &u32| entry.outs.iter().any(|o| o.face == *hop && o.until > now);
            let oldest = || {
                let sent = |hop: &u32| entry.outs.iter().find(|o| o.face == *hop).map(|o| o.sent);
                hops.iter().filter_map(|h| Some((sent(h)?, h))).min_by_key(|(sent, _)| *sent)
            };
            match hops.iter().find(|hop| !used(hop)).or_else(|| oldest().map(|(_, hop)| hop)) {
                Some(hop) => *hop,
                None => return vec![],
            }
        };
        entry.outs.retain(|o| o.face != hop);
        entry.outs.push(Out { face: hop, nonce, until: now + lifetime, sent: now, nacked: false });
        vec![(hop, What::Interest)]
    }

    /// `token` is that of the entry whose Interest was sent to this face.
    fn data(
        &mut self,
        from: u32,
        packet: &[u8],
        until: u64,
        token: Option<usize>,
    ) -> Vec<(u32, What)> {
        let data = Data::new_checked(packet).unwrap();
        let n = NAMES.iter().position(|n| name(n).as_name() == data.name()).unwrap();
        if is_local(n) && !is_app(from) {
            return vec![];
        }
        let was_asked = |e: &Entry| is_app(from) || e.outs.iter().any(|o| o.face == from);
        let fits = |e: &Entry| answers(e.key, n) && was_asked(e);
        let one = token.filter(|t| self.entries.iter().any(|e| e.serial == *t && fits(e)));
        let is_hit = |e: &Entry| one.is_none_or(|t| e.serial == t) && fits(e);
        if !self.entries.iter().any(is_hit) {
            return vec![];
        }
        self.cache.retain(|c| c.0 != n);
        self.cache.push((n, packet.to_vec(), until));
        self.since.values_mut().for_each(|since| _ = since.insert(n));
        let mut sent = vec![];
        let (hits, others) = std::mem::take(&mut self.entries).into_iter().partition(is_hit);
        self.entries = others;
        let hits: Vec<Entry> = hits;
        for entry in hits {
            let may =
                |i: &&In| i.until > self.now && i.face != from && (!is_local(n) || is_app(i.face));
            for one in entry.ins.iter().filter(may) {
                if !sent.iter().any(|(to, _)| *to == one.face) {
                    sent.push((one.face, What::Data(packet.to_vec())));
                }
            }
            // All these Data become stale before a nonce is forgotten.
            if entry.key.2 {
                self.dead.extend(entry.outs.iter().map(|o| (entry.key.0, o.nonce)));
            }
        }
        sent
    }

    fn nack(&mut self, from: u32, key: Key, nonce: u32, reason: u64) -> Vec<(u32, What)> {
        if is_local(key.0) && !is_app(from) {
            return vec![];
        }
        let Some(at) = self.entries.iter().position(|e| e.key == key) else { return vec![] };
        let now = self.now;
        let entry = &mut self.entries[at];
        let Some(out) = entry.outs.iter_mut().find(|o| o.face == from && o.nonce == nonce) else {
            return vec![];
        };
        out.nacked = true;
        let left: Vec<u32> = entry.outs.iter().filter(|o| !o.nacked).map(|o| o.face).collect();
        let told = match left[..] {
            [] => std::mem::take(&mut entry.ins),
            [one] => entry.take(one).into_iter().collect(),
            _ => vec![],
        };
        if !entry.is_pending(now) {
            self.bury(at);
        }
        told.into_iter().map(|i| (i.face, What::Nack(reason, i.nonce))).collect()
    }
}

fn what(sent: &[Sent]) -> Vec<(u32, What)> {
    let mut all: Vec<_> = sent
        .iter()
        .map(|s| {
            let what = match s.nack {
                Some(NackReason(reason)) => {
                    What::Nack(reason, u32::from_be_bytes(s.interest().nonce().unwrap()))
                }
                None if s.is_data() => What::Data(s.packet.clone()),
                None => What::Interest,
            };
            (number(s.to), what)
        })
        .collect();
    all.sort();
    all
}

/// An Interest that the forwarder has sent, and its face.
struct Asked {
    sent: Sent,
    key: Key,
    nonce: u32,
    serial: usize,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn it_sends_what_the_naive_one_sends(steps in prop::collection::vec(step(), 1..60)) {
        let near = Face::NEIGHBOUR;
        let mut rig = Rig::new(&[Face::APPLICATION, near, near, near], &ROUTES);
        let mut model = Model { now: 1_000, ..Model::default() };
        let mut asked: Vec<Asked> = Vec::new();
        let mut now_at = [0, 1, 2, 3];
        for step in steps {
            let (sent, mut expected) = match step.clone() {
                Step::Wait { ms } => {
                    rig.wait_ms(ms);
                    model.wait(ms);
                    (vec![], vec![])
                }
                Step::Leave { at } => {
                    let at = &mut now_at[at as usize];
                    let face = rig.forwarder.face(id(*at)).unwrap();
                    prop_assert!(rig.forwarder.remove_face(id(*at)).is_some());
                    model.leave(*at);
                    *at += FACES;
                    rig.forwarder.add_face(id(*at), face);
                    rig.wait_ms(0);
                    (vec![], vec![])
                }
                Step::Interest { from, key, nonce, lifetime_ms } => {
                    let from = now_at[from as usize];
                    let packet = interest_with(NAMES[key.0], nonce, |i| {
                        (i.can_be_prefix, i.must_be_fresh) = (key.1, key.2);
                        i.lifetime_ms = Some(lifetime_ms);
                    });
                    let sent = rig.receive_by(id(from), &Headers::default(), &packet);
                    let expected = model.interest(from, key, nonce, lifetime_ms);
                    let entry = model.entries.iter().find(|e| e.key == key);
                    let serial = entry.map_or(0, |e| e.serial);
                    let out = sent.iter().filter(|s| !s.is_data() && s.nack.is_none());
                    asked.extend(out.map(|s| Asked { sent: s.clone(), key, nonce, serial }));
                    (sent, expected)
                }
                Step::Data { from, name, freshness_ms, with_token } => {
                    let from = now_at[from as usize];
                    let packet = data_fresh(NAMES[name], &[from as u8], freshness_ms);
                    let mut mine = asked.iter().rev().filter(|a| a.sent.to == id(from));
                    let mine = mine.next().filter(|_| with_token);
                    let headers = mine.map_or(Headers::default(), |a| a.sent.headers());
                    let sent = rig.receive_by(id(from), &headers, &packet);
                    let until = model.now + freshness_ms;
                    (sent, model.data(from, &packet, until, mine.map(|a| a.serial)))
                }
                Step::Nack { from, pick } => {
                    let from = now_at[from as usize];
                    let mine: Vec<_> = asked.iter().filter(|a| a.sent.to == id(from)).collect();
                    if mine.is_empty() {
                        continue;
                    }
                    let mine = mine[pick % mine.len()];
                    let reason = NackReason::CONGESTION;
                    let headers = Headers { nack: Some(reason), ..Headers::default() };
                    let sent = rig.receive_by(id(from), &headers, &mine.sent.packet);
                    (sent, model.nack(from, mine.key, mine.nonce, reason.0))
                }
            };
            expected.sort();
            prop_assert_eq!(what(&sent), expected, "{:?}", step);
            prop_assert_eq!(rig.forwarder.pending(), model.entries.len());
            let waiting: usize = model.entries.iter().map(|e| e.ins.len()).sum();
            prop_assert_eq!(rig.forwarder.counters().asked.held(), waiting as u64);
        }
    }
}
