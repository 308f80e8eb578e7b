//! The pending Interest table (PIT). The forwarder of each worker owns one.
//!
//! # Bounds
//! Entries, pieces of long names, and extra records have a capacity each, and each face an
//! account. A face may hold as many of each as are *still free* (the dynamic threshold of Choudhury
//! and Hahne, IEEE/ACM Trans. Networking 1998): alone it gets half; with one other greedy face, a
//! third. A face at its limit evicts its own oldest entry. If another face holds more than twice as
//! many entries, that face's oldest entry is evicted instead. So a flood evicts nothing of faces
//! that hold less, faces that filled their share and fell silent keep no others out, and a flooding
//! face keeps its latest Interests pending, which may still be answered.
//!
//! An entry belongs to the first face that sent the Interest. When that face's entry is evicted, it
//! passes to the next face that waits; an in-record belongs to its own face. Two more bounds:
//! entries of one name are few, and the face with most of them loses one. In-records of one entry
//! are bounded, because each Interest scans them: the one that has waited longest is evicted.

mod chains;
mod entry;
mod left;
mod wheel;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use arrayvec::ArrayVec;
use plexus_table::names::NameMap;
use plexus_table::prefetch;
use plexus_wire::Time;
use plexus_wire::ndn::name::DIGEST_LEN;

use crate::face::FaceId;
use crate::names::{COMPONENTS_MAX, HashedName};
use chains::{Chains, NONE};
use entry::INLINE;
use entry::Waiting;
pub(crate) use entry::{Asker, Entry, InRecord, OutRecord, Selectors, Token};
use wheel::{Timer, Wheel};

/// Bytes of a piece of a long name.
const PIECE: usize = 60;
/// Bytes of a component that holds a digest.
const DIGEST_COMPONENT_LEN: usize = DIGEST_LEN + 2;
/// Most entries under one hash: of one name, with different hints or digests.
pub(crate) const VARIANTS_MAX: usize = 16;
/// Most in-records of one entry: many times the number of a node's neighbours. If more applications
/// ask for one packet within its round trip, later retransmissions are answered from the cache.
pub(crate) const INS_MAX: usize = 1024;

/// How many refusals pass between two scans of all faces.
const LOOKS: u32 = 64;

/// What distinguishes Interests besides the name.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    pub(crate) name: HashedName<'a>,
    pub(crate) selectors: Selectors,
    /// The elements of the forwarding hint.
    pub(crate) hint: &'a [u8],
    /// The name ends with an implicit digest.
    pub(crate) digest: bool,
    /// Data may have exactly this name: no component of it is an implicit digest.
    pub(crate) of_data: bool,
}

impl Key<'_> {
    /// The hash under which the entry is stored: of the name of the Data that will answer it, as
    /// far as that is known.
    #[inline(always)]
    fn base(&self) -> u64 {
        if self.digest {
            return self.name.parent();
        }
        match self.selectors.can_be_prefix && self.name.name().len() > COMPONENTS_MAX {
            true => self.name.prefix(COMPONENTS_MAX).1,
            false => self.name.hash(),
        }
    }
}

/// Why an entry or record is not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// Evict this entry first: the oldest of the face that holds most, or of the requesting face.
    Evict(u32),
    /// Evict this entry first: one of [`VARIANTS_MAX`] under one hash, of the face with most of
    /// them.
    Surplus(u32),
    /// The face is at its limit and has no entry to evict.
    Room,
}

/// The record that an in-record has replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Nothing,
    /// The face's own.
    Own,
    /// The one that had waited longest, of [`INS_MAX`].
    Longest,
}

/// How many pieces hold the part of name and hint that does not fit into the entry.
fn pieces_of(name_len: usize, hint_len: usize) -> usize {
    (name_len + hint_len).saturating_sub(INLINE).div_ceil(PIECE)
}

/// What a face holds, of each kind; the ends of the list of its entries, and of the list of its
/// in-records in entries of other faces.
#[derive(Clone, Copy)]
struct Account {
    used: [u32; 4],
    oldest: u32,
    newest: u32,
    oldest_in: u32,
    newest_in: u32,
}

impl Account {
    const EMPTY: Account =
        Account { used: [0; 4], oldest: NONE, newest: NONE, oldest_in: NONE, newest_in: NONE };
}

const ENTRIES: usize = 0;
const PIECES: usize = 1;
const INS: usize = 2;
const OUTS: usize = 3;

pub(crate) struct Pit {
    index: NameMap,
    entries: Vec<Entry>,
    free: Vec<u32>,
    capacity: usize,
    wheel: Wheel,
    pieces: Chains<[u8; PIECE]>,
    /// In-records beside the first of an entry. The first one, in the entry, is the owner's.
    ins: Chains<Waiting>,
    outs: Chains<OutRecord>,
    accounts: Vec<Account>,
    /// The faces that held most entries and most pieces at the last scan.
    fullest: [usize; 2],
    /// How often a face found no room.
    refusals: u32,
    /// Number of entries that Data with longer names can satisfy, by the component count of the
    /// prefix under which they are stored.
    prefixes: [u32; COMPONENTS_MAX + 1],
    prefix_lengths: u64,
    worker: u8,
    /// Removed faces that may still have entries or in-records.
    leaving: BTreeSet<FaceId>,
    /// Whether to return memory once the table is empty.
    gives: bool,
    /// Generation of new entries.
    first_generation: u32,
}

impl Pit {
    pub(crate) fn new(capacity: usize, worker: u8) -> Pit {
        let capacity = capacity.clamp(2, NameMap::CAPACITY_MAX);
        Pit {
            index: NameMap::new(capacity).expect("address space for pending Interests"),
            // This reserves address space; memory is used only when touched.
            entries: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            capacity,
            wheel: Wheel::new(),
            pieces: Chains::new(capacity),
            ins: Chains::new(capacity),
            outs: Chains::new(capacity),
            accounts: Vec::new(),
            fullest: [0; 2],
            refusals: 0,
            prefixes: [0; COMPONENTS_MAX + 1],
            prefix_lengths: 0,
            worker,
            leaving: BTreeSet::new(),
            gives: false,
            first_generation: 0,
        }
    }

    /// Pending Interests.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Bytes of memory per entry when the table is full of names of up to 64 bytes: the entry and
    /// its slot in the index.
    pub(crate) fn bytes_per_entry(&self) -> usize {
        size_of::<Entry>() + size_of::<u32>() + self.index.bytes() / self.capacity
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: u32) -> &Entry {
        &self.entries[id as usize]
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Entry {
        &mut self.entries[id as usize]
    }

    /// Prefetches the memory where the search for an Interest's entry begins.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// Prefetches the entry of a token, if this worker may have issued it; true if so.
    #[inline(always)]
    pub(crate) fn prefetch_entry(&self, token: &[u8]) -> bool {
        let Ok([worker, _, _, _, id @ ..]) = <[u8; 8]>::try_from(token) else { return false };
        let entry = self.entries.get(u32::from_be_bytes(id) as usize);
        let Some(entry) = entry.filter(|_| worker == self.worker) else { return false };
        prefetch(&entry.base);
        prefetch(&entry.first_in);
        prefetch(&entry.first_out);
        prefetch(&entry.inline);
        prefetch(&entry.timer);
        prefetch(&entry.live);
        true
    }

    // Names.

    /// True if the bytes of name and hint from `at` on are these.
    #[inline(always)]
    fn holds(&self, entry: &Entry, at: usize, bytes: &[u8]) -> bool {
        match entry.inline.get(at..at + bytes.len()) {
            Some(inline) => inline == bytes,
            None => self.holds_in_pieces(entry, at, bytes),
        }
    }

    fn holds_in_pieces(&self, entry: &Entry, at: usize, mut bytes: &[u8]) -> bool {
        let mut begin = 0;
        let pieces = self.pieces.iter(entry.more_name).map(|piece| &piece[..]);
        for piece in std::iter::once(&entry.inline[..]).chain(pieces) {
            let from = at.saturating_sub(begin).min(piece.len());
            // Once one piece has been compared, the following ones are compared from their start.
            let (now, rest) = bytes.split_at(bytes.len().min(piece.len() - from));
            if piece[from..from + now.len()] != *now {
                return false;
            }
            bytes = rest;
            begin += piece.len();
            if bytes.is_empty() {
                return true;
            }
        }
        false
    }

    fn digest(&self, entry: &Entry) -> [u8; DIGEST_LEN] {
        let mut digest = [0; DIGEST_LEN];
        let from = usize::from(entry.name_len) - DIGEST_LEN;
        let pieces = self.pieces.iter(entry.more_name).map(|piece| &piece[..]);
        let bytes = std::iter::once(&entry.inline[..]).chain(pieces).flatten().skip(from);
        digest.iter_mut().zip(bytes).for_each(|(d, b)| *d = *b);
        digest
    }

    fn is(&self, id: u32, key: &Key<'_>, base: u64) -> bool {
        let entry = self.get(id);
        let name = key.name.bytes();
        entry.base == base
            && entry.selectors == key.selectors
            && usize::from(entry.name_len) == name.len()
            && usize::from(entry.hint_len) == key.hint.len()
            && self.holds(entry, 0, name)
            && self.holds(entry, name.len(), key.hint)
    }

    /// The entry of exactly this Interest.
    #[inline(always)]
    pub(crate) fn find(&self, key: &Key<'_>) -> Option<u32> {
        let base = key.base();
        self.index.find(base, |id| self.is(id, key, base))
    }

    /// True if Data of this name satisfies the entry. `digest` is called only if the entry has one.
    fn answers(
        &self,
        id: u32,
        name: &HashedName<'_>,
        digest: &mut impl FnMut() -> [u8; DIGEST_LEN],
    ) -> bool {
        let entry = self.get(id);
        let len = usize::from(entry.name_len);
        let bytes = name.bytes();
        if entry.digest {
            return len == bytes.len() + DIGEST_COMPONENT_LEN
                && self.holds(entry, 0, bytes)
                && self.digest(entry) == digest();
        }
        match entry.selectors.can_be_prefix {
            true => len <= bytes.len() && self.holds(entry, 0, &bytes[..len]),
            false => len == bytes.len() && self.holds(entry, 0, bytes),
        }
    }

    /// Every entry that Data of this name satisfies.
    pub(crate) fn answered(
        &self,
        name: &HashedName<'_>,
        mut digest: impl FnMut() -> [u8; DIGEST_LEN],
        into: &mut Vec<u32>,
    ) {
        let mut at = |hash: u64| {
            self.index.find(hash, |id| {
                if self.get(id).base == hash && self.answers(id, name, &mut digest) {
                    into.push(id);
                }
                false
            });
        };
        at(name.hash());
        let mut lengths = self.prefix_lengths & ((2 << name.depth()) - 1);
        if name.name().len() == name.depth() {
            lengths &= !(1 << name.depth());
        }
        while let Some(components) = lengths.checked_ilog2() {
            at(name.prefix(components as usize).1);
            lengths ^= 1 << components;
        }
    }

    /// The token by which an answer finds its entry directly: worker, generation, index.
    #[inline(always)]
    pub(crate) fn token(&self, id: u32) -> [u8; 8] {
        let generation = u64::from(self.get(id).generation & 0xFF_FFFF);
        (u64::from(self.worker) << 56 | generation << 32 | u64::from(id)).to_be_bytes()
    }

    /// The entry of a token issued by this table, if it is still there.
    #[inline(always)]
    pub(crate) fn by_token(&self, token: &[u8]) -> Option<u32> {
        let token = u64::from_be_bytes(token.try_into().ok()?);
        let (id, generation) = (token as u32, (token >> 32) as u32 & 0xFF_FFFF);
        let entry = self.entries.get(id as usize)?;
        let fits = entry.live
            && entry.generation & 0xFF_FFFF == generation
            && (token >> 56) as u8 == self.worker;
        fits.then_some(id)
    }

    /// The same, if its name is exactly these bytes and Data may have that name.
    #[inline]
    pub(crate) fn exactly(&self, token: &[u8], name: &[u8]) -> Option<u32> {
        self.by_token(token).filter(|&id| {
            let entry = self.get(id);
            let is_long = usize::from(entry.name_len) == name.len();
            is_long && entry.of_data && self.holds(entry, 0, name)
        })
    }

    /// The same, if Data of this name satisfies it.
    #[inline]
    pub(crate) fn answered_by_token(
        &self,
        token: &[u8],
        name: &HashedName<'_>,
        mut digest: impl FnMut() -> [u8; DIGEST_LEN],
    ) -> Option<u32> {
        self.by_token(token).filter(|id| self.answers(*id, name, &mut digest))
    }

    // Entries.

    fn account(&mut self, place: usize) -> &mut Account {
        if place >= self.accounts.len() {
            self.accounts.resize(place + 1, Account::EMPTY);
        }
        &mut self.accounts[place]
    }

    /// Creates an entry, which must not exist, for the requesting face.
    #[inline]
    pub(crate) fn insert(&mut self, key: &Key<'_>, face: FaceId) -> Result<u32, Full> {
        let owner = face.place().ok_or(Full::Room)?;
        let base = key.base();
        let bytes = key.name.bytes();
        let pieces = pieces_of(bytes.len(), key.hint.len());
        let free = [self.capacity - self.len(), self.pieces.room()];
        let account = *self.account(owner);
        let entries_fit = (account.used[ENTRIES] as usize) < free[ENTRIES];
        let pieces_fit = pieces == 0 || account.used[PIECES] as usize + pieces <= free[PIECES];
        if !(entries_fit && pieces_fit) {
            // A name that takes more than half of all pieces evicts nothing.
            if 2 * pieces > self.capacity {
                return Err(Full::Room);
            }
            let kind = if entries_fit { PIECES } else { ENTRIES };
            return Err(match self.victim(owner, kind) {
                NONE => Full::Room,
                victim => Full::Evict(victim),
            });
        }
        if let Some(variant) = self.surplus_variant(base, owner as u32) {
            return Err(Full::Surplus(variant));
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::unused(self.first_generation));
            self.entries.len() as u32 - 1
        });
        let Ok(spot) = self.index.insert(base, id) else {
            self.free.push(id);
            return Err(Full::Room);
        };
        let components = key.name.name().len();
        let more_name = self.store_name(id, bytes, key.hint);
        let account = self.account(owner);
        account.used[ENTRIES] += 1;
        account.used[PIECES] += pieces as u32;
        self.link(id, owner);
        self.note_fullest(owner);
        let entry = &mut self.entries[id as usize];
        (entry.base, entry.spot) = (base, spot);
        entry.name_hash = key.name.hash();
        entry.set_proper(key.name.proper());
        entry.measured = 0;
        entry.timer = Timer::IDLE;
        (entry.more_ins, entry.more_outs, entry.more_name) = (NONE, NONE, more_name);
        entry.suppression_ms = 0;
        entry.strategy = 0;
        entry.name_len = bytes.len() as u16;
        entry.hint_len = key.hint.len() as u16;
        entry.components = components.min(usize::from(u16::MAX)) as u16;
        entry.selectors = key.selectors;
        (entry.digest, entry.of_data) = (key.digest, key.of_data);
        entry.live = true;
        (entry.satisfied, entry.stale_soon, entry.reading) = (false, false, false);
        (entry.first_in, entry.first_out) = (None, None);
        if key.selectors.can_be_prefix && !key.digest {
            let at = components.min(COMPONENTS_MAX);
            self.prefixes[at] += 1;
            self.prefix_lengths |= 1 << at;
        }
        Ok(id)
    }

    /// Stores name and hint; returns the chain with the part that does not fit into the entry.
    #[inline]
    fn store_name(&mut self, id: u32, name: &[u8], hint: &[u8]) -> u32 {
        let inline = &mut self.entries[id as usize].inline;
        if let Some(place) = inline.get_mut(..name.len() + hint.len()) {
            let (a, b) = place.split_at_mut(name.len());
            a.copy_from_slice(name);
            b.copy_from_slice(hint);
            return NONE;
        }
        let mut bytes = name.iter().chain(hint).copied();
        inline.iter_mut().zip(&mut bytes).for_each(|(place, byte)| *place = byte);
        // A chain grows at its front: the last piece first.
        let total = name.len() + hint.len() - INLINE;
        let mut head = NONE;
        for begin in (0..total).step_by(PIECE).rev() {
            let mut piece = [0; PIECE];
            let from = INLINE + begin;
            let bytes =
                name.iter().skip(from).chain(hint.iter().skip(from.saturating_sub(name.len())));
            piece.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
            self.pieces.push(&mut head, piece);
        }
        head
    }

    /// Removes an entry whose in-records were removed before.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        self.wheel.stop(&mut self.entries, id);
        let entry = &mut self.entries[id as usize];
        entry.live = false;
        entry.generation = entry.generation.wrapping_add(1);
        let (base, spot, owner) = (entry.base, entry.spot, entry.owner);
        let (mut name, mut outs) = (entry.more_name, entry.more_outs);
        if entry.selectors.can_be_prefix && !entry.digest {
            let at = usize::from(entry.components).min(COMPONENTS_MAX);
            self.prefixes[at] -= 1;
            if self.prefixes[at] == 0 {
                self.prefix_lengths &= !(1 << at);
            }
        }
        let removed = self.index.remove(base, id, spot);
        debug_assert!(removed, "entry {id} is missing in the index");
        let account = &mut self.accounts[owner as usize];
        account.used[ENTRIES] -= 1;
        while self.pieces.pop(&mut name).is_some() {
            account.used[PIECES] -= 1;
        }
        while self.outs.pop(&mut outs).is_some() {
            account.used[OUTS] -= 1;
        }
        self.unlink(id);
        self.free.push(id);
    }

    /// Appends an entry to its owner's list.
    #[inline]
    fn link(&mut self, id: u32, owner: usize) {
        let account = &mut self.accounts[owner];
        let older = std::mem::replace(&mut account.newest, id);
        match older {
            NONE => account.oldest = id,
            older => self.entries[older as usize].newer = id,
        }
        let entry = &mut self.entries[id as usize];
        (entry.owner, entry.older, entry.newer) = (owner as u32, older, NONE);
    }

    /// Removes an entry from its owner's list.
    #[inline]
    fn unlink(&mut self, id: u32) {
        let Entry { owner, older, newer, .. } = self.entries[id as usize];
        match older {
            NONE => self.accounts[owner as usize].oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => self.accounts[owner as usize].newest = older,
            newer => self.entries[newer as usize].older = older,
        }
    }

    /// Evicts the owner's in-record and hands the entry to the next face that waits. `None` if no
    /// other face waits: then nothing was changed.
    pub(crate) fn hand_over(&mut self, id: u32) -> Option<Option<InRecord>> {
        let owner = self.get(id).owner as usize;
        let next = self.ins(id).find(|r| r.face.place() != Some(owner))?.face;
        let taken = self.get_mut(id).first_in.take();
        let next = self.take_waiting(id, |r| r.face == next)?;
        self.give_to(id, next);
        Some(taken)
    }

    /// Makes the face of a record that has left the chain the owner. If the face has been removed,
    /// the entry becomes its oldest: the entries of the face that now has its place follow.
    fn give_to(&mut self, id: u32, record: InRecord) {
        if let Some(next) = record.face.place() {
            let is_leaving = self.leaving.contains(&record.face);
            self.change_owner(id, next, is_leaving);
        }
        self.get_mut(id).first_in = Some(record);
    }

    /// Makes the face the owner of an entry in which no face waits.
    pub(crate) fn take_over(&mut self, id: u32, face: FaceId) {
        if let Some(place) = face.place() {
            self.change_owner(id, place, false);
        }
    }

    fn change_owner(&mut self, id: u32, next: usize, is_oldest: bool) {
        let entry = self.get(id);
        let owner = entry.owner as usize;
        let pieces = pieces_of(entry.name_len.into(), entry.hint_len.into()) as u32;
        let outs = self.outs.iter(entry.more_outs).count() as u32;
        self.unlink(id);
        self.account(next);
        for (kind, count) in [(ENTRIES, 1), (PIECES, pieces), (OUTS, outs)] {
            self.accounts[owner].used[kind] -= count;
            self.accounts[next].used[kind] += count;
        }
        match is_oldest {
            true => self.link_oldest(id, next),
            false => self.link(id, next),
        }
        self.note_fullest(next);
    }

    /// Adds an entry to its owner's list as the oldest.
    fn link_oldest(&mut self, id: u32, owner: usize) {
        let account = &mut self.accounts[owner];
        let newer = std::mem::replace(&mut account.oldest, id);
        match newer {
            NONE => account.newest = id,
            newer => self.entries[newer as usize].older = id,
        }
        let entry = &mut self.entries[id as usize];
        (entry.owner, entry.older, entry.newer) = (owner as u32, NONE, newer);
    }

    /// The face holds more than before.
    #[inline]
    fn note_fullest(&mut self, owner: usize) {
        for (kind, fullest) in self.fullest.iter_mut().enumerate() {
            if self.accounts[owner].used[kind] > self.accounts[*fullest].used[kind] {
                *fullest = owner;
            }
        }
    }

    /// The entry to evict for a face at its limit: the oldest of the face that holds most, if that
    /// is more than twice as many; otherwise the face's own oldest.
    fn victim(&mut self, owner: usize, kind: usize) -> u32 {
        let own = self.accounts[owner];
        let is_much = |other: &Account| other.used[kind] / 2 > own.used[kind];
        // The face that held most may hold less by now, and another may hold most without asking.
        // So all faces are scanned, but rarely; or when the requesting face has no entry, so that
        // it gets one.
        self.refusals = self.refusals.wrapping_add(1);
        let looks = own.oldest == NONE || self.refusals.is_multiple_of(LOOKS);
        if looks && !is_much(&self.accounts[self.fullest[kind]]) {
            let all = self.accounts.iter().enumerate();
            let fullest = all.max_by_key(|(_, account)| account.used[kind]);
            self.fullest[kind] = fullest.map_or(0, |(at, _)| at);
        }
        let fullest = &self.accounts[self.fullest[kind]];
        if is_much(fullest) || own.oldest == NONE { fullest.oldest } else { own.oldest }
    }

    /// If the hash has the maximum of entries: the one to evict, of the owner with most of them
    /// (counting the newcomer), the one that expires first.
    fn surplus_variant(&self, base: u64, newcomer: u32) -> Option<u32> {
        let mut variants = ArrayVec::<u32, VARIANTS_MAX>::new();
        self.index.find(base, |id| self.get(id).base == base && variants.try_push(id).is_err());
        if !variants.is_full() {
            return None;
        }
        let owner = |id: &u32| self.get(*id).owner;
        let count = |of: u32| variants.iter().filter(|id| owner(id) == of).count();
        variants.iter().copied().max_by_key(|id| {
            let owner = owner(id);
            (count(owner) + usize::from(owner == newcomer), Reverse(self.get(*id).expiry))
        })
    }

    // Time.

    /// Sets when the entry expires.
    #[inline]
    pub(crate) fn set_expiry(&mut self, id: u32, expiry: Time) {
        let entry = &mut self.entries[id as usize];
        if entry.expiry == expiry && entry.timer.is_running() {
            return;
        }
        self.wheel.stop(&mut self.entries, id);
        self.entries[id as usize].expiry = expiry;
        self.wheel.start(&mut self.entries, id);
    }

    /// Returns an entry that has expired by now and is still in the table.
    pub(crate) fn pop_expired(&mut self, now: Time) -> Option<u32> {
        self.wheel.pop(&mut self.entries, now)
    }

    /// The earliest time at which an entry may expire.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.wheel.next()
    }

    #[inline(always)]
    pub(crate) fn is_behind(&self, now: Time) -> bool {
        self.wheel.is_behind(now)
    }

    // Records.

    #[inline(always)]
    pub(crate) fn ins(&self, id: u32) -> impl Iterator<Item = &InRecord> {
        let entry = self.get(id);
        let more = self.ins.iter(entry.more_ins).map(|waiting| &waiting.record);
        entry.first_in.iter().chain(more)
    }

    #[inline(always)]
    pub(crate) fn has_ins(&self, id: u32) -> bool {
        let entry = self.get(id);
        entry.first_in.is_some() || entry.more_ins != NONE
    }

    #[inline(always)]
    pub(crate) fn outs(&self, id: u32) -> impl Iterator<Item = &OutRecord> {
        let entry = self.get(id);
        entry.first_out.iter().chain(self.outs.iter(entry.more_outs))
    }

    /// Adds an in-record, in place of the face's old one if there is one.
    #[inline]
    pub(crate) fn put_in(&mut self, id: u32, asker: &Asker<'_>) -> Result<Before, Full> {
        let entry = &mut self.entries[id as usize];
        let (mut count, mut longest) = (1, None);
        let is = |w: &Waiting| {
            count += 1;
            longest = Some(w.record.face);
            w.record.face == asker.face
        };
        let place = entry.first_in.as_mut().filter(|r| r.face == asker.face);
        let more = || Some(&mut self.ins.find_mut(entry.more_ins, is)?.record);
        if let Some(old) = place.or_else(more) {
            old.set(asker);
            return Ok(Before::Own);
        }
        if entry.first_in.is_none() {
            entry.first_in.insert(InRecord::EMPTY).set(asker);
            return Ok(Before::Nothing);
        }
        let place = asker.face.place().ok_or(Full::Room)?;
        if self.account(place).used[INS] as usize >= self.ins.room() {
            return Err(Full::Room);
        }
        // The chain grows at its front.
        let gone = longest.filter(|_| count >= INS_MAX).and_then(|face| self.take_in(id, face));
        self.put_waiting(id, place, asker);
        Ok(if gone.is_some() { Before::Longest } else { Before::Nothing })
    }

    /// Adds an in-record to the chain of an entry. Out of line, as most entries have one in-record.
    #[inline(never)]
    fn put_waiting(&mut self, id: u32, place: usize, asker: &Asker<'_>) {
        let older = self.accounts[place].newest_in;
        let waiting = Waiting { record: InRecord::new(asker), entry: id, older, newer: NONE };
        let head = &mut self.entries[id as usize].more_ins;
        self.ins.push(head, waiting);
        let account = &mut self.accounts[place];
        account.used[INS] += 1;
        account.newest_in = *head;
        match self.ins.get_mut(older) {
            Some(waiting) => waiting.newer = *head,
            None => account.oldest_in = *head,
        }
    }

    /// Removes the in-record of a face. If the face owned the entry, the next face that waits owns
    /// it afterwards.
    pub(crate) fn take_in(&mut self, id: u32, face: FaceId) -> Option<InRecord> {
        let entry = &mut self.entries[id as usize];
        if entry.first_in.as_ref().is_none_or(|r| r.face != face) {
            return self.take_waiting(id, |r| r.face == face);
        }
        let taken = entry.first_in.take();
        if let Some(next) = self.take_waiting(id, |_| true) {
            self.give_to(id, next);
        }
        taken
    }

    /// Removes the first in-record of the chain for which `is` holds.
    fn take_waiting(&mut self, id: u32, is: impl Fn(&InRecord) -> bool) -> Option<InRecord> {
        let head = &mut self.entries[id as usize].more_ins;
        let taken = self.ins.take(head, |waiting| is(&waiting.record))?;
        self.unlink_in(&taken);
        Some(taken.record)
    }

    /// An in-record, if there is one: the one that [`Pit::drop_in`] removes.
    #[inline(always)]
    pub(crate) fn next_in(&self, id: u32) -> Option<&InRecord> {
        let entry = self.get(id);
        match &entry.first_in {
            Some(first) => Some(first),
            None => self.ins.get(entry.more_ins).map(|waiting| &waiting.record),
        }
    }

    /// Removes it. A caller that needs the record reads it first: this does not copy it.
    #[inline]
    pub(crate) fn drop_in(&mut self, id: u32) {
        let entry = &mut self.entries[id as usize];
        match entry.first_in {
            Some(_) => entry.first_in = None,
            None => self.drop_waiting(id),
        }
    }

    #[inline(never)]
    fn drop_waiting(&mut self, id: u32) {
        if let Some(taken) = self.ins.pop(&mut self.entries[id as usize].more_ins) {
            self.unlink_in(&taken);
        }
    }

    /// Unlinks an in-record that has left its chain from the list of its face.
    fn unlink_in(&mut self, waiting: &Waiting) {
        let Some(place) = waiting.record.face.place() else { return };
        let account = &mut self.accounts[place];
        account.used[INS] -= 1;
        match self.ins.get_mut(waiting.older) {
            Some(older) => older.newer = waiting.newer,
            None => account.oldest_in = waiting.newer,
        }
        match self.ins.get_mut(waiting.newer) {
            Some(newer) => newer.older = waiting.older,
            None => account.newest_in = waiting.older,
        }
    }

    /// Adds an out-record, in place of the face's old one, whose suppression it keeps. False if
    /// there is no room.
    #[inline]
    pub(crate) fn put_out(&mut self, id: u32, mut record: OutRecord) -> bool {
        if let Some(old) = self.out_mut(id, record.face) {
            record.suppression_ms = old.suppression_ms;
            *old = record;
            return true;
        }
        let entry = &mut self.entries[id as usize];
        if entry.first_out.is_none() {
            entry.first_out = Some(record);
            return true;
        }
        let account = &mut self.accounts[entry.owner as usize];
        if account.used[OUTS] as usize >= self.outs.room() {
            return false;
        }
        account.used[OUTS] += 1;
        self.outs.push(&mut entry.more_outs, record);
        true
    }

    #[inline(always)]
    pub(crate) fn out_mut(&mut self, id: u32, face: FaceId) -> Option<&mut OutRecord> {
        let entry = &mut self.entries[id as usize];
        match entry.first_out.as_mut().filter(|r| r.face == face) {
            Some(first) => Some(first),
            None => self.outs.find_mut(entry.more_outs, |r| r.face == face),
        }
    }

    pub(crate) fn take_out(&mut self, id: u32, face: FaceId) -> Option<OutRecord> {
        let entry = &mut self.entries[id as usize];
        if entry.first_out.as_ref().is_some_and(|r| r.face == face) {
            return entry.first_out.take();
        }
        let taken = self.outs.take(&mut entry.more_outs, |r| r.face == face)?;
        self.accounts[entry.owner as usize].used[OUTS] -= 1;
        Some(taken)
    }
}

#[cfg(test)]
mod tests;
