//! The forwarder of one worker, without clock, thread or socket.
//!
//! A driver passes in received packets ([`Forwarder::receive`]) and time ([`Forwarder::tick`]). The
//! forwarder hands packets to send to an [`Output`] at once, in pieces borrowed from the received
//! packet or the content store. It allocates nothing per packet.
//!
//! The pipelines are those of the NFD developer guide ("Forwarding"), with four differences. The
//! content store is searched before a PIT entry is created, so hits need none. Data satisfies an
//! Interest only if it comes from a face to which the Interest was sent, unless that face is local
//! or multi-access: so a neighbour cannot inject Data in place of another's. Data with our PIT
//! token satisfies only the entry of that token. A satisfied entry stays for late answers only
//! while a probe is pending.

mod ahead;
mod data;
mod disk;
mod interest;
mod nack;
mod pieces;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use plexus_wire::Time;
use plexus_wire::ndn::interest::Repr;
use plexus_wire::ndn::lp::Headers;
use plexus_wire::ndn::{Interest, Name, Names, types};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::face::{Face, FaceCounters, FaceId, Faces, Fate, Scope};
use crate::fib::{FibBatch, FibReader, FibSearch};
use crate::names::{HashedName, NameHasher, NameHashes, NamesBeside};
use crate::nonces::DeadNonces;
use crate::pit::{Key, Pit, Selectors};
use crate::plan::{Plan, Published};
use crate::store::policy::AnyPolicy;
use crate::store::{Buffer, ContentStore};
use crate::strategy::Measurements;
use ahead::Parsed;
use disk::Parked;

/// Packets of a batch whose lookups run side by side.
const LANES: usize = 16;

/// Most in-records of removed faces that one [`Forwarder::tick`] withdraws: some tens of
/// microseconds.
const LEFT_MAX: usize = 256;

/// A received packet, for [`Forwarder::receive_batch`].
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// The face it arrived on.
    pub face: FaceId,
    /// Its link headers.
    pub headers: Headers<'a>,
    /// A whole Interest or Data.
    pub packet: &'a [u8],
}

/// Accepts packets to send.
pub trait Output {
    /// Sends a packet, given in pieces that follow one another, with these headers to a face.
    fn send<'p>(
        &mut self,
        face: FaceId,
        headers: &Headers<'_>,
        packet: impl Iterator<Item = &'p [u8]> + Clone,
    );
}

/// A packet in one piece; several pieces are copied together.
#[inline]
pub fn in_one<'a, 'p: 'a>(
    mut packet: impl Iterator<Item = &'p [u8]>,
    memory: &'a mut Vec<u8>,
) -> &'a [u8] {
    let first = packet.next().unwrap_or_default();
    let Some(second) = packet.next() else { return first };
    memory.clear();
    memory.extend_from_slice(first);
    memory.extend_from_slice(second);
    packet.for_each(|piece| memory.extend_from_slice(piece));
    memory
}

/// The forwarder's configuration.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Which worker it is; part of its PIT tokens.
    pub worker: u8,
    /// The secret key of all tables; the same for all workers and the plan.
    pub hasher: NameHasher,
    /// Seed for nonces and strategies' random choices.
    pub seed: u64,
    /// Pending Interests. Each takes up to [`Forwarder::bytes_per_pending`].
    pub pit_capacity: usize,
    /// Entries of the dead nonce list, 8 bytes each.
    pub dead_nonces: usize,
    /// Measured prefixes, and measured pairs of prefix and face.
    pub measurements: usize,
    /// Upper bound of an Interest's lifetime.
    pub lifetime_max: Duration,
    /// Unix time at [`Time::ZERO`], in milliseconds: times in the content store outlive the
    /// process.
    pub unix_ms_at_zero: u64,
}

impl Config {
    /// A million pending Interests and dead nonces, 65,536 measurements, an hour; its
    /// Unix time begins with [`Time::ZERO`].
    pub fn new(worker: u8, hasher: NameHasher, seed: u64) -> Config {
        Config {
            worker,
            hasher,
            seed,
            pit_capacity: 1 << 20,
            dead_nonces: 1 << 20,
            measurements: 1 << 16,
            lifetime_max: Duration::from_secs(3600),
            unix_ms_at_zero: 0,
        }
    }
}

/// What happened to downstream records: every Interest recorded until it was answered. The
/// difference is the number still pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Recorded.
    pub written: u64,
    /// Satisfied by Data.
    pub answered: u64,
    /// Answered with a Nack.
    pub nacked: u64,
    /// Timed out.
    pub expired: u64,
    /// Evicted for a newer Interest: the table was full, or there were many with one name.
    pub evicted: u64,
    /// Replaced by a retransmission.
    pub replaced: u64,
    /// Could not be answered: the face was removed or was the one that answered, or there was no
    /// route.
    pub withdrawn: u64,
}

impl Asked {
    /// Records still pending.
    pub fn held(&self) -> u64 {
        let gone = self.answered + self.nacked + self.expired + self.evicted;
        self.written - gone - self.replaced - self.withdrawn
    }
}

/// Counters of a forwarder besides those of its faces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets from faces that it does not know.
    pub unknown_face: u64,
    /// Interests answered by the content store.
    pub cache_hits: u64,
    /// Interests that the content store could not answer.
    pub cache_misses: u64,
    /// Pending Interests that left the table satisfied.
    pub satisfied: u64,
    /// Pending Interests that left the table unsatisfied.
    pub unsatisfied: u64,
    /// Downstream records.
    pub asked: Asked,
}

/// Data in memory and on disks, with a replacement policy chosen at run time.
pub type Store<B> = ContentStore<AnyPolicy, B>;

/// One worker's forwarder, whose content store writes to disks from buffers of type `B`.
pub struct Forwarder<B> {
    fib: FibReader,
    plan: Arc<Plan>,
    core: Core<B>,
    /// Reused memory.
    hashes: Box<[NameHashes; LANES]>,
    beside: Box<NamesBeside>,
    rewritten: Vec<u8>,
}

struct Core<B> {
    config: Config,
    now: Time,
    unix_ms: u64,
    faces: Faces,
    pit: Pit,
    nonces: DeadNonces,
    store: Store<B>,
    measurements: Measurements,
    random: Pcg64Mcg,
    parked: HashMap<u64, Parked>,
    next_waiter: u64,
    counters: Counters,
    /// Reused memory.
    matched: Vec<u32>,
    served: Vec<FaceId>,
    waiters: Vec<(u64, bool)>,
}

/// Which next hops there are.
#[derive(Clone, Copy)]
struct Routes<'a> {
    fib: &'a FibBatch<'a>,
    plan: &'a Plan,
    /// The FIB lookup of the packet's own name, if it has begun already.
    search: Option<FibSearch>,
}

/// The face on which a packet arrived.
#[derive(Clone, Copy)]
struct Ingress {
    id: FaceId,
    face: Face,
}

/// Why an entry leaves the PIT.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Expired,
    Evicted,
}

impl<B: Buffer> Forwarder<B> {
    /// A forwarder without faces.
    pub fn new(config: Config, fib: FibReader, plan: Arc<Plan>, store: Store<B>) -> Forwarder<B> {
        let core = Core {
            config,
            now: Time::ZERO,
            unix_ms: config.unix_ms_at_zero,
            faces: Faces::default(),
            pit: Pit::new(config.pit_capacity, config.worker),
            nonces: DeadNonces::new(config.dead_nonces),
            store,
            measurements: Measurements::new(config.measurements),
            random: Pcg64Mcg::seed_from_u64(config.seed),
            parked: HashMap::new(),
            next_waiter: 0,
            counters: Counters::default(),
            matched: Vec::new(),
            served: Vec::new(),
            waiters: Vec::new(),
        };
        let hashes = Box::new(std::array::from_fn(|_| NameHashes::default()));
        Forwarder { fib, plan, core, hashes, beside: Box::default(), rewritten: Vec::new() }
    }

    /// Adds a face, or changes its properties.
    pub fn add_face(&mut self, id: FaceId, face: Face) {
        // A number comes again after thousands of faces. Data that the former face asked for must
        // not go to the new one.
        while self.core.pit.is_leaving(id) {
            self.core.withdraw_left();
        }
        self.core.faces.add(id, face);
    }

    /// Removes a face and returns its counters. Nothing is sent to it any more. The next calls of
    /// [`Forwarder::tick`] withdraw its pending Interests, a bounded number with each call. An
    /// entry in which another face waits becomes that face's.
    pub fn remove_face(&mut self, id: FaceId) -> Option<FaceCounters> {
        let counters = self.core.faces.remove(id)?;
        self.core.pit.leave(id);
        Some(counters)
    }

    /// The properties of a face.
    pub fn face(&self, id: FaceId) -> Option<Face> {
        self.core.faces.get(id)
    }

    /// The counters of a face.
    pub fn face_counters(&self, id: FaceId) -> Option<&FaceCounters> {
        self.core.faces.counters(id)
    }

    /// The counters of every face.
    pub fn faces(&self) -> impl Iterator<Item = (FaceId, &FaceCounters)> {
        self.core.faces.iter()
    }

    /// Counters besides those of the faces.
    pub fn counters(&self) -> &Counters {
        &self.core.counters
    }

    /// Pending Interests, including satisfied ones that wait for late answers.
    pub fn pending(&self) -> usize {
        self.core.pit.len()
    }

    /// Bytes of memory that a pending Interest takes when the table is full of names of up to 64
    /// bytes.
    pub fn bytes_per_pending(&self) -> usize {
        self.core.pit.bytes_per_entry()
    }

    /// The content store.
    pub fn store(&self) -> &Store<B> {
        &self.core.store
    }

    /// The content store, to change what it may hold, or to erase.
    pub fn store_mut(&mut self) -> &mut Store<B> {
        &mut self.core.store
    }

    /// The content store's time as of the last packet or tick: Unix time, milliseconds.
    pub fn unix_ms(&self) -> u64 {
        self.core.unix_ms
    }

    /// Uses the plan that is published now; call it between batches.
    pub fn refresh(&mut self, published: &Published) {
        published.refresh(&mut self.plan);
    }

    /// Expires everything that is due by `now`, and withdraws some of the Interests of removed
    /// faces. If time goes back, the clock stands still. Drivers call it between batches; received
    /// packets expire entries too, but withdraw nothing.
    pub fn tick(&mut self, now: Time) {
        self.core.tick(now);
        if self.core.pit.has_left() {
            self.core.withdraw_left();
            self.core.pit.give_back();
        }
    }

    /// When [`Forwarder::tick`] will have something to do, at the earliest.
    pub fn next_deadline(&self) -> Option<Time> {
        match self.core.store.memory().is_over() || self.core.pit.has_left() {
            true => Some(self.core.now),
            false => self.core.pit.next_deadline(),
        }
    }

    /// Processes a packet received on a face with these headers: a complete Interest or Data, or a
    /// Nacked Interest (`headers.nack`).
    pub fn receive(
        &mut self,
        now: Time,
        from: FaceId,
        headers: &Headers<'_>,
        packet: &[u8],
        out: &mut impl Output,
    ) {
        let Forwarder { fib, plan, core, hashes, rewritten, .. } = self;
        core.tick(now);
        let hasher = &core.config.hasher;
        let is_hashed = |name| hasher.hash(name, &mut hashes[0]).is_some();
        let parsed = Parsed::new(headers, packet, &core.pit, is_hashed);
        let routes = Routes { fib: &fib.batch(), plan, search: None };
        core.process(routes, from, headers, &parsed, &mut hashes[0], rewritten, out);
    }

    /// Processes received packets: the same as [`Forwarder::receive`] one after the other but
    /// faster, because the memory that all packets need is prefetched before the first one is
    /// processed.
    pub fn receive_batch(&mut self, now: Time, batch: &[Arrived<'_>], out: &mut impl Output) {
        let Forwarder { fib, plan, core, hashes, beside, rewritten } = self;
        core.tick(now);
        let fib = &fib.batch();
        let mut batches = batch.chunks(LANES).peekable();
        batches.peek().into_iter().for_each(|batch| core.expect(batch));
        while let Some(batch) = batches.next() {
            batches.peek().into_iter().for_each(|batch| core.expect(batch));
            let mut parsed = ArrayVec::<Parsed<'_>, LANES>::new();
            let hasher = &core.config.hasher;
            for (place, (arrived, hashes)) in batch.iter().zip(hashes.iter_mut()).enumerate() {
                let Arrived { headers, packet, .. } = arrived;
                let is_hashed = |name| beside.add(hasher, name, hashes, place);
                parsed.push(Parsed::new(headers, packet, &core.pit, is_hashed));
            }
            beside.hash(hasher, &mut hashes[..]);
            let lanes = || parsed.iter().zip(hashes.iter());
            lanes().for_each(|(packet, hashes)| core.prefetch(packet, hashes));
            let mut asks = [false; LANES];
            for ((packet, hashes), asks) in lanes().zip(&mut asks) {
                *asks = core.prefetch_found(fib, packet, hashes);
            }
            let mut searches = [None; LANES];
            for (((packet, hashes), search), asks) in lanes().zip(&mut searches).zip(asks) {
                if let Some(interest) = packet.interest().filter(|_| asks) {
                    *search = Some(fib.begin(&hashes.of(interest.name())));
                }
            }
            for ((packet, hashes), search) in lanes().zip(&mut searches) {
                if let (Some(search), Some(interest)) = (search, packet.interest()) {
                    fib.narrow(&hashes.of(interest.name()), search);
                }
            }
            let lanes = batch.iter().zip(&parsed).zip(hashes.iter_mut()).zip(searches);
            for (((arrived, packet), hashes), search) in lanes {
                let Arrived { face, headers, .. } = arrived;
                let routes = Routes { fib, plan, search };
                core.process(routes, *face, headers, packet, hashes, rewritten, out);
            }
        }
    }
}

impl<B: Buffer> Core<B> {
    #[inline]
    fn tick(&mut self, now: Time) {
        self.now = self.now.max(now);
        let since_zero_ms = self.now.as_nanos() / 1_000_000;
        self.unix_ms = self.config.unix_ms_at_zero.saturating_add(since_zero_ms);
        self.store.trim(self.unix_ms);
        if self.pit.is_behind(self.now) {
            while let Some(id) = self.pit.pop_expired(self.now) {
                self.finalize(id, End::Expired);
            }
        }
    }

    /// Hash of an Interest in the dead nonce list.
    #[inline(always)]
    fn of_nonce(&self, name_hash: u64, nonce: [u8; 4]) -> u64 {
        self.config.hasher.pair(name_hash, u32::from_be_bytes(nonce).into())
    }

    /// Removes an Interest from the PIT, with all its pending downstream records.
    fn finalize(&mut self, id: u32, end: End) {
        while self.pit.has_ins(id) {
            self.pit.drop_in(id);
            let asked = &mut self.counters.asked;
            match end {
                End::Expired => asked.expired += 1,
                End::Evicted => asked.evicted += 1,
            }
        }
        let entry = self.pit.get(id);
        if !entry.satisfied || (entry.selectors.must_be_fresh && entry.stale_soon) {
            let name_hash = entry.name_hash;
            for record in self.pit.outs(id) {
                self.nonces.add(self.of_nonce(name_hash, record.nonce), self.now);
            }
        }
        match self.pit.get(id).satisfied {
            true => self.counters.satisfied += 1,
            false => self.counters.unsatisfied += 1,
        }
        self.pit.remove(id);
    }

    /// Withdraws a downstream record. With the last one the Interest leaves the PIT, unless an
    /// answer is expected.
    fn withdraw(&mut self, id: u32, face: FaceId) {
        self.counters.asked.withdrawn += u64::from(self.pit.take_in(id, face).is_some());
        self.drop_if_idle(id);
    }

    /// Withdraws some of the pending Interests of removed faces.
    fn withdraw_left(&mut self) {
        for _ in 0..LEFT_MAX {
            let Some((id, face)) = self.pit.next_left() else { return };
            self.counters.asked.withdrawn += u64::from(self.pit.take_in(id, face).is_some());
            let longest = self.pit.ins(id).map(|record| record.expiry).max();
            match longest.filter(|expiry| *expiry > self.now) {
                Some(expiry) => self.pit.set_expiry(id, expiry),
                None => self.finalize(id, End::Expired),
            }
        }
    }

    fn drop_if_idle(&mut self, id: u32) {
        let is_pending = self.pit.outs(id).any(|r| r.is_pending(self.now));
        if !self.pit.has_ins(id) && !is_pending {
            self.finalize(id, End::Expired);
        }
    }

    /// Processes a packet to its outcome.
    #[allow(clippy::too_many_arguments)] // the parts of a forwarder that are borrowed apart
    fn process(
        &mut self,
        routes: Routes<'_>,
        from: FaceId,
        headers: &Headers<'_>,
        parsed: &Parsed<'_>,
        hashes: &mut NameHashes,
        rewritten: &mut Vec<u8>,
        out: &mut impl Output,
    ) {
        let Some(face) = self.faces.get(from) else {
            self.counters.unknown_face += 1;
            return;
        };
        let ingress = Ingress { id: from, face };
        let fate = match parsed {
            Parsed::Interest(interest) => {
                self.faces.received(from, |p| p.interests += 1);
                let name = hashes.of(interest.name());
                self.ready_interest(routes, ingress, headers, interest, name, rewritten, out)
            }
            Parsed::Data(data, exactly) => {
                self.faces.received(from, |p| p.data += 1);
                // Unless a packet of the same batch removed the entry.
                let token = headers.pit_token.unwrap_or_default();
                let id = exactly.filter(|id| self.pit.by_token(token) == Some(*id));
                let fate = id.and_then(|id| {
                    self.data_by_token(routes.plan, ingress, headers, data, id, out)
                });
                match (fate, exactly) {
                    (Some(fate), _) => fate,
                    (None, None) => {
                        let name = hashes.of(data.name());
                        self.data(routes.plan, ingress, headers, data, name, out)
                    }
                    (None, Some(_)) => match self.config.hasher.hash(data.name(), hashes) {
                        Some(name) => self.data(routes.plan, ingress, headers, data, name, out),
                        None => Fate::NameTooLong,
                    },
                }
            }
            Parsed::Nack(reason, interest) => {
                self.faces.received(from, |p| p.nacks += 1);
                let name = hashes.of(interest.name());
                self.nack(routes.plan, ingress, *reason, headers, interest, name, out)
            }
            Parsed::Broken(fate) => {
                self.faces.received(from, |p| p.other += 1);
                *fate
            }
        };
        self.faces.fate(from, fate);
    }

    /// Adds a nonce if the Interest has none, and removes its forwarding hint if the hint leads to
    /// this node. The name stays.
    #[allow(clippy::too_many_arguments)] // the parts of a forwarder that are borrowed apart
    fn ready_interest(
        &mut self,
        routes: Routes<'_>,
        ingress: Ingress,
        headers: &Headers<'_>,
        interest: &Interest<'_>,
        name: HashedName<'_>,
        rewritten: &mut Vec<u8>,
        out: &mut impl Output,
    ) -> Fate {
        let hint = interest.forwarding_hint();
        let is_here = !hint.is_empty() && routes.plan.reaches(hint);
        if !is_here && interest.nonce().is_some() {
            return self.interest(routes, ingress, headers, interest, name, out);
        }
        let nonce = interest.nonce().unwrap_or_else(|| self.random.random());
        let written = match is_here {
            true => Repr::parse(interest).and_then(|mut repr| {
                (repr.forwarding_hint, repr.nonce) = (Names::EMPTY, Some(nonce));
                rewritten.resize(repr.buffer_len(), 0);
                repr.emit(rewritten)
            }),
            false => {
                rewritten.resize(interest.with_nonce_len(), 0);
                interest.with_nonce(nonce, rewritten).map(|_| ())
            }
        };
        match written.and_then(|()| Interest::new_checked(rewritten)) {
            Ok(ready) => self.interest(routes, ingress, headers, &ready, name, out),
            Err(_) => Fate::Malformed,
        }
    }
}

/// The first component of names that stay on this machine.
const LOCALHOST: &[u8] = b"\x08\x09localhost";
/// The first component of names that travel one hop.
const LOCALHOP: &[u8] = b"\x08\x08localhop";

fn is_localhost(name: Name<'_>) -> bool {
    name.value().starts_with(LOCALHOST)
}

fn is_localhop(name: Name<'_>) -> bool {
    name.value().starts_with(LOCALHOP)
}

/// True if the name is of `/localhost` scope but the packet comes from another machine.
fn is_forged(name: Name<'_>, face: Face) -> bool {
    face.scope == Scope::NonLocal && is_localhost(name)
}

/// The key that distinguishes Interests.
#[inline(always)]
fn key<'a>(interest: &Interest<'a>, name: HashedName<'a>) -> Key<'a> {
    let has = interest.has_implicit_digest();
    let last = || name.name().last();
    let digest = has && last().is_some_and(|c| u32::from(c.kind) == types::IMPLICIT_SHA256_DIGEST);
    Key {
        name,
        selectors: Selectors {
            can_be_prefix: interest.can_be_prefix(),
            must_be_fresh: interest.must_be_fresh(),
        },
        hint: interest.forwarding_hint().as_bytes(),
        digest,
        of_data: !has,
    }
}
