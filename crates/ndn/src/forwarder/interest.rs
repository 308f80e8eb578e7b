//! The Interest pipeline: loop detection, content store, PIT, strategy, send.

use plexus_wire::ndn::lp::{Headers, NackReason};
use plexus_wire::ndn::name::DIGEST_LEN;
use plexus_wire::ndn::{Interest, Name, Names};
use sha2::{Digest, Sha256};

use super::pieces::Patch;
use super::{
    Core, End, Ingress, Output, Parked, Routes, is_forged, is_localhop, is_localhost, key,
};
use crate::face::{Face, FaceId, Fate, LinkType, Scope, Unsent};
use crate::fib::{FibBatch, HopSet, Hops};
use crate::names::{HashedName, NameHashes};
use crate::pit::{Asker, Before, Full, Key, OutRecord, Token};
use crate::store::{Answer, Buffer, Query};
use crate::strategy::{Choice, Turn};

/// Most entries evicted for one Interest.
const EVICTIONS_MAX: usize = 8;

/// The result of a content store lookup.
enum FromStore {
    Answered,
    /// A disk read was started; this number identifies its waiters.
    Reading(u64),
    Miss,
}

/// The SHA-256 of a packet in pieces.
pub(super) fn sha256<'p>(pieces: impl Iterator<Item = &'p [u8]>) -> [u8; DIGEST_LEN] {
    let mut hash = Sha256::new();
    pieces.for_each(|piece| hash.update(piece));
    hash.finalize().into()
}

impl<B: Buffer> Core<B> {
    pub(super) fn interest(
        &mut self,
        routes: Routes<'_>,
        ingress: Ingress,
        headers: &Headers<'_>,
        interest: &Interest<'_>,
        name: HashedName<'_>,
        out: &mut impl Output,
    ) -> Fate {
        if is_forged(interest.name(), ingress.face) {
            return Fate::OutOfScope;
        }
        if interest.hop_limit() == Some(0) {
            return Fate::NoHopsLeft;
        }
        let Some(nonce) = interest.nonce() else { return Fate::Malformed };
        if self.nonces.has(self.of_nonce(name.hash(), nonce), self.now) {
            return self.looped(ingress, headers, interest, out);
        }
        let key = key(interest, name);
        let existing = self.pit.find(&key);
        if existing.is_some_and(|id| self.is_loop(id, nonce, ingress)) {
            return self.looped(ingress, headers, interest, out);
        }
        let mut waiter = None;
        if !existing.is_some_and(|id| self.pit.has_ins(id)) {
            match self.ask_store(&key, ingress, headers, out) {
                FromStore::Answered => return Fate::Answered,
                FromStore::Reading(number) => waiter = Some(number),
                FromStore::Miss => {}
            }
        }
        let lifetime = interest.lifetime().min(self.config.lifetime_max);
        let expiry = self.now + lifetime;
        let asker = Asker { face: ingress.id, nonce, expiry, token: headers.pit_token };
        let id = match self.record(existing, &key, &asker) {
            Ok(id) => id,
            Err(fate) => return fate,
        };
        let mark = headers.congestion_mark;
        let next_hop = headers.next_hop_face.filter(|_| ingress.face.local_fields);
        if let Some(waiter) = waiter {
            self.pit.get_mut(id).reading = true;
            let token = self.pit.token(id);
            let packet = interest.as_bytes().into();
            let parked = Parked { token, packet, next_hop, mark };
            self.parked.insert(waiter, parked);
            return Fate::Reading;
        }
        if self.pit.get(id).reading {
            return Fate::Waiting;
        }
        let hop = next_hop.map(FaceId::from_number);
        self.send_on(routes, id, ingress, interest, name, hop, mark, out)
    }

    /// Forwards a pending Interest: to the next hop that an application chose, or by strategy.
    #[allow(clippy::too_many_arguments)] // what is known of a packet by now
    pub(super) fn send_on(
        &mut self,
        routes: Routes<'_>,
        id: u32,
        ingress: Ingress,
        interest: &Interest<'_>,
        name: HashedName<'_>,
        next_hop: Option<Option<FaceId>>,
        mark: Option<u64>,
        out: &mut impl Output,
    ) -> Fate {
        let Some(hop) = next_hop else {
            return self.send_by_strategy(routes, id, ingress, interest, name, mark, out);
        };
        let hop = hop.filter(|id| self.faces.get(*id).is_some());
        let patch = patch(interest, None);
        match hop {
            Some(hop) if self.send_interest(id, hop, ingress.id, interest, patch, mark, out) => {
                Fate::Forwarded
            }
            hop => {
                self.withdraw(id, ingress.id);
                if hop.is_some() { Fate::NoHopsLeft } else { Fate::NoNextHop }
            }
        }
    }

    /// The nonce was seen before, and not as a neighbour's retransmission.
    fn is_loop(&self, id: u32, nonce: [u8; 4], ingress: Ingress) -> bool {
        let mut ins = self.pit.ins(id).filter(|r| r.nonce == nonce).peekable();
        let same = ingress.face.link == LinkType::PointToPoint;
        if same && self.pit.ins(id).any(|r| r.nonce == nonce && r.face == ingress.id) {
            return false;
        }
        ins.peek().is_some() || self.pit.outs(id).any(|r| r.nonce == nonce)
    }

    fn looped(
        &mut self,
        ingress: Ingress,
        headers: &Headers<'_>,
        interest: &Interest<'_>,
        out: &mut impl Output,
    ) -> Fate {
        if ingress.face.link != LinkType::PointToPoint {
            return Fate::Loop;
        }
        let token = Token::new(headers.pit_token);
        self.send_nack(ingress.id, token, None, NackReason::DUPLICATE, interest, None, out);
        Fate::Nacked
    }

    /// Answers from the content store if possible.
    #[inline]
    fn ask_store(
        &mut self,
        key: &Key<'_>,
        ingress: Ingress,
        headers: &Headers<'_>,
        out: &mut impl Output,
    ) -> FromStore {
        let name = key.name.bytes();
        let (name, digest) = match key.digest {
            true => name.split_at(name.len() - DIGEST_LEN - 2),
            false => (name, &[][..]),
        };
        let query = Query {
            name,
            hash: if key.digest { key.name.parent() } else { key.name.hash() },
            can_be_prefix: key.selectors.can_be_prefix && !key.digest,
            must_be_fresh: key.selectors.must_be_fresh,
        };
        match self.store.lookup(&query, self.next_waiter, self.unix_ms) {
            Answer::Hit(packet) if !key.digest || sha256(packet.pieces()) == digest[2..] => {
                let incoming = FaceId::CONTENT_STORE.number();
                let headers = Headers {
                    pit_token: headers.pit_token,
                    incoming_face: ingress.face.local_fields.then_some(incoming),
                    ..Headers::default()
                };
                out.send(ingress.id, &headers, packet.pieces());
                self.faces.sent(ingress.id, |p| p.data += 1);
                self.counters.cache_hits += 1;
                FromStore::Answered
            }
            Answer::Reading => {
                if !key.digest {
                    let (hasher, mut memory) = (&self.config.hasher, None);
                    let hash = |name: Name<'_>| {
                        let memory = memory.get_or_insert_with(NameHashes::default);
                        hasher.hash(name, memory).map(|hashed| hashed.hash())
                    };
                    self.store.read_batch(key.name.name(), hash);
                }
                self.next_waiter += 1;
                FromStore::Reading(self.next_waiter - 1)
            }
            _ => {
                self.counters.cache_misses += 1;
                FromStore::Miss
            }
        }
    }

    /// Records the downstream face, in the existing entry or a new one.
    #[inline]
    fn record(
        &mut self,
        existing: Option<u32>,
        key: &Key<'_>,
        asker: &Asker<'_>,
    ) -> Result<u32, Fate> {
        let id = match existing {
            Some(id) => {
                if !self.pit.has_ins(id) {
                    self.pit.take_over(id, asker.face);
                }
                id
            }
            None => self.make_entry(key, asker.face)?,
        };
        match self.pit.put_in(id, asker) {
            Ok(Before::Nothing) => {}
            Ok(Before::Own) => self.counters.asked.replaced += 1,
            Ok(Before::Longest) => self.counters.asked.evicted += 1,
            Err(_) => {
                self.drop_if_idle(id);
                return Err(Fate::PitFull);
            }
        }
        self.counters.asked.written += 1;
        self.pit.get_mut(id).satisfied = false;
        let expiry = match existing {
            Some(_) => self.pit.ins(id).map(|r| r.expiry).max().unwrap_or(asker.expiry),
            None => asker.expiry,
        };
        self.pit.set_expiry(id, expiry);
        Ok(id)
    }

    fn make_entry(&mut self, key: &Key<'_>, face: FaceId) -> Result<u32, Fate> {
        for _ in 0..=EVICTIONS_MAX {
            match self.pit.insert(key, face) {
                Ok(id) => return Ok(id),
                Err(Full::Evict(victim)) => self.evict(victim),
                // Handing it over would leave some face with as many as before, so it is evicted.
                Err(Full::Surplus(surplus)) => self.finalize(surplus, End::Evicted),
                Err(Full::Room) => break,
            }
        }
        Err(Fate::PitFull)
    }

    /// Evicts an entry of its owner. It passes to the next face that waits, if there is one.
    fn evict(&mut self, id: u32) {
        match self.pit.hand_over(id) {
            Some(taken) => self.counters.asked.evicted += u64::from(taken.is_some()),
            None => self.finalize(id, End::Evicted),
        }
    }

    /// The next hops of the first name in the forwarding hint that has any, otherwise of the name;
    /// and the prefix for measurements.
    fn lookup<'r>(
        &self,
        routes: Routes<'r>,
        interest: &Interest<'_>,
        name: HashedName<'_>,
        strategy_len: usize,
    ) -> (HopSet<'r>, u64) {
        let Routes { fib, search, .. } = routes;
        if interest.forwarding_hint().is_empty() {
            let found = search.map_or_else(|| fib.lookup(&name), |s| fib.end(&name, s));
            return match found {
                Some(found) => {
                    let len = found.components().max(strategy_len);
                    (fib.hops(found), name.prefix(len).1)
                }
                None => (HopSet::EMPTY, 0),
            };
        }
        self.lookup_hint(fib, interest.forwarding_hint())
    }

    #[cold]
    fn lookup_hint<'r>(&self, fib: &'r FibBatch<'_>, names: Names<'_>) -> (HopSet<'r>, u64) {
        let mut memory = NameHashes::default();
        for name in names.iter() {
            if let Some(name) = self.config.hasher.hash(name, &mut memory)
                && let Some(found) = fib.lookup(&name)
            {
                let hops = fib.hops(found);
                if !hops.is_empty() {
                    return (hops, name.prefix(found.components()).1);
                }
            }
        }
        (HopSet::EMPTY, 0)
    }

    /// The hops to which the Interest may be sent: not where it came from, and within its scope.
    fn eligible(&self, hops: &Hops, ingress: Ingress, interest: &Interest<'_>) -> u64 {
        let stays = is_localhost(interest.name())
            || (is_localhop(interest.name()) && ingress.face.scope == Scope::NonLocal);
        let may = |id: FaceId| {
            self.faces.get(id).is_some_and(|face: Face| {
                (id != ingress.id || face.link == LinkType::AdHoc)
                    && (!stays || face.scope == Scope::Local)
            })
        };
        let bits = hops.iter().enumerate().map(|(at, hop)| u64::from(may(hop.face)) << at);
        bits.fold(0, |set, bit| set | bit)
    }

    #[allow(clippy::too_many_arguments)] // what is known of a packet by now
    fn send_by_strategy(
        &mut self,
        routes: Routes<'_>,
        id: u32,
        ingress: Ingress,
        interest: &Interest<'_>,
        name: HashedName<'_>,
        mark: Option<u64>,
        out: &mut impl Output,
    ) -> Fate {
        let (number, strategy_len) = routes.plan.strategy(&name);
        let instance = routes.plan.instance(number);
        let (hops, prefix) = self.lookup(routes, interest, name, strategy_len);
        let hops: &Hops = &hops;
        let eligible = self.eligible(hops, ingress, interest);
        let measured = self.config.hasher.pair(prefix, instance.key);
        let entry = self.pit.get_mut(id);
        (entry.strategy, entry.measured) = (number, measured);
        let choice = instance.strategy.pick(&mut Turn {
            now: self.now,
            hops,
            eligible,
            id,
            pit: &mut self.pit,
            key: measured,
            measurements: &mut self.measurements,
            random: &mut self.random,
        });
        match choice {
            Choice::Wait => Fate::Waiting,
            Choice::NoRoute { nack } => self.no_route(id, ingress, nack, interest, out),
            Choice::Send { hops: mut chosen, probe } => {
                let mut sent = 0;
                while chosen != 0 {
                    let hop = hops[chosen.trailing_zeros() as usize].face;
                    chosen &= chosen - 1;
                    let patch = patch(interest, None);
                    let went = self.send_interest(id, hop, ingress.id, interest, patch, mark, out);
                    sent += usize::from(went);
                }
                if let Some(probe) = probe {
                    let nonce = rand::RngExt::random(&mut self.random);
                    let patch = patch(interest, Some(nonce));
                    let hop = hops[probe].face;
                    self.send_interest(id, hop, ingress.id, interest, patch, mark, out);
                }
                if sent > 0 {
                    return Fate::Forwarded;
                }
                self.withdraw(id, ingress.id);
                match interest.hop_limit() {
                    Some(1) => Fate::NoHopsLeft,
                    _ => Fate::PitFull,
                }
            }
        }
    }

    fn no_route(
        &mut self,
        id: u32,
        ingress: Ingress,
        nack: bool,
        interest: &Interest<'_>,
        out: &mut impl Output,
    ) -> Fate {
        if !nack || ingress.face.link != LinkType::PointToPoint {
            self.withdraw(id, ingress.id);
            return Fate::NoRoute;
        }
        if let Some(record) = self.pit.take_in(id, ingress.id) {
            self.counters.asked.nacked += 1;
            let token = record.token;
            self.send_nack(ingress.id, token, None, NackReason::NO_ROUTE, interest, None, out);
        }
        self.drop_if_idle(id);
        Fate::Nacked
    }

    /// Sends an Interest to a face and records that; false if it may not be sent there.
    #[allow(clippy::too_many_arguments)] // what is known of a packet by now
    #[inline]
    fn send_interest(
        &mut self,
        id: u32,
        to: FaceId,
        from: FaceId,
        interest: &Interest<'_>,
        patch: Patch,
        mark: Option<u64>,
        out: &mut impl Output,
    ) -> bool {
        let Some(egress) = self.faces.get(to) else { return false };
        if patch.hop_limit == Some(0) && egress.scope == Scope::NonLocal {
            self.faces.unsent(to, Unsent::HopLimit);
            return false;
        }
        let Some(nonce) = patch.nonce.or(interest.nonce()) else { return false };
        let lifetime = interest.lifetime().min(self.config.lifetime_max);
        let record = OutRecord {
            face: to,
            nonce,
            expiry: self.now + lifetime,
            sent: self.now,
            nack: None,
            suppression_ms: 0,
        };
        if !self.pit.put_out(id, record) {
            self.faces.unsent(to, Unsent::Room);
            return false;
        }
        let token = self.pit.token(id);
        let headers = Headers {
            pit_token: egress.pit_tokens.then_some(&token[..]),
            incoming_face: egress.local_fields.then_some(from.number()),
            congestion_mark: mark,
            ..Headers::default()
        };
        out.send(to, &headers, patch.apply(interest));
        self.faces.sent(to, |p| p.interests += 1);
        true
    }

    /// Sends a Nack, with the nonce by which the face knows the Interest.
    #[allow(clippy::too_many_arguments)] // what is known of a packet by now
    pub(super) fn send_nack(
        &mut self,
        to: FaceId,
        token: Token,
        nonce: Option<[u8; 4]>,
        reason: NackReason,
        interest: &Interest<'_>,
        mark: Option<u64>,
        out: &mut impl Output,
    ) {
        let headers = Headers {
            nack: Some(reason),
            pit_token: token.get(),
            congestion_mark: mark,
            ..Headers::default()
        };
        let patch = Patch { nonce, hop_limit: None };
        out.send(to, &headers, patch.apply(interest));
        self.faces.sent(to, |p| p.nacks += 1);
    }
}

/// The bytes to change: a decremented hop limit, and maybe another nonce.
#[inline]
fn patch(interest: &Interest<'_>, nonce: Option<[u8; 4]>) -> Patch {
    Patch { nonce, hop_limit: interest.hop_limit().map(|hops| hops.saturating_sub(1)) }
}
