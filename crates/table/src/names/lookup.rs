//! Lookups in the name FIB.
//!
//! Every prefix is a record in one hash table, under its own hash. A lookup first reads from the
//! filter which lengths occur among prefixes with the name's beginning, and then searches for the
//! name's prefixes of these lengths, the longest first. With many names, each step
//! ([`NameBatch::expect`] to [`NameBatch::end`]) is done for all of them before the next one, so
//! that memory is prefetched in time.
//!
//! A lookup reads one cell of the filter and searches at most 33 times, for lengths 0 to 32; for
//! names without similar prefixes, mostly only for the lengths below [`FIRST`]. Alternatives and
//! the reasons for this design are in `docs/design/tables.md`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire};

use arrayvec::ArrayVec;

use super::filter::{FIRST, Filter};
use super::hash::HashedName;
use super::index::Index;
use super::records::Records;
use crate::grace::{Periods, Presence};

/// Names of a batch that are looked up side by side.
const LANES: usize = 16;
/// Lengths whose memory is prefetched, longest first.
const AHEAD: usize = 3;

/// The longest matching prefix of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameMatch {
    /// Its value.
    pub value: u32,
    /// How many components it has.
    pub components: u8,
}

/// A lookup in progress, between the steps of a [`NameBatch`].
#[derive(Clone, Copy, Debug)]
pub struct NameSearch {
    /// Lengths of prefixes that may be there, as bits.
    lengths: u64,
    /// How many components the longest prefix with a matching hash has, and its record.
    likely: Option<(u8, u32)>,
}

pub(super) struct Shared {
    pub(super) table: Table,
    pub(super) periods: Periods,
}

/// The lookup structure.
pub(super) struct Table {
    pub(super) filter: Filter,
    pub(super) index: Index,
    pub(super) records: Records,
    /// Bit `n`: there are prefixes of `n` components.
    pub(super) lengths: AtomicU64,
}

impl Table {
    /// The record of a name's prefix.
    #[inline(always)]
    pub(super) fn find(&self, name: &HashedName, components: usize) -> Option<u32> {
        let (end, hash) = name.prefix(components);
        self.index.find(hash, |record| self.records.is(record, name.bytes(), end))
    }

    /// Prefetches the cell that `lengths_of` reads.
    #[inline(always)]
    fn prefetch(&self, name: &HashedName) {
        self.filter.prefetch(name.prefix(FIRST).1);
    }

    /// The lengths of the name's prefixes that may be in the table, as bits.
    #[inline(always)]
    fn lengths_of(&self, name: &HashedName) -> u64 {
        let mut lengths = self.lengths.load(Acquire) & ((2 << name.depth()) - 1);
        if name.depth() >= FIRST {
            lengths &= self.filter.lengths(name.prefix(FIRST).1) | ((1 << FIRST) - 1);
        }
        for components in Lengths(lengths).take(AHEAD) {
            self.index.prefetch(name.prefix(components).1);
        }
        lengths
    }

    /// The longest of these lengths at which a record's hash matches, and that record, which is
    /// prefetched.
    #[inline(always)]
    fn likely(&self, name: &HashedName, lengths: u64) -> Option<(u8, u32)> {
        Lengths(lengths).find_map(|components| {
            let (end, hash) = name.prefix(components);
            let record = self.index.find(hash, |_| true)?;
            self.records.prefetch(record, end);
            Some((components as u8, record))
        })
    }

    /// The longest prefix of these lengths.
    fn lookup(&self, name: &HashedName, lengths: u64) -> Option<NameMatch> {
        Lengths(lengths)
            .find_map(|components| Some(self.found(components, self.find(name, components)?)))
    }

    #[inline(always)]
    fn found(&self, components: usize, record: u32) -> NameMatch {
        NameMatch { value: self.records.value(record), components: components as u8 }
    }
}

/// Numbers of components, the greatest first, from a set of bits.
struct Lengths(u64);

impl Iterator for Lengths {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let next = self.0.checked_ilog2()?;
        self.0 ^= 1 << next;
        Some(next as usize)
    }
}

/// A reader. Each thread has its own; a clone is independent.
pub struct NameReader {
    presence: Presence,
    shared: Arc<Shared>,
}

impl Clone for NameReader {
    fn clone(&self) -> NameReader {
        NameReader::new(self.shared.clone())
    }
}

impl NameReader {
    pub(super) fn new(shared: Arc<Shared>) -> NameReader {
        NameReader { presence: shared.periods.join(), shared }
    }

    /// Begins a batch. That takes some nanoseconds, so use one batch for many lookups. End it
    /// before sleeping.
    #[inline]
    pub fn batch(&mut self) -> NameBatch<'_> {
        self.presence.enter(&self.shared.periods);
        NameBatch { presence: &self.presence, table: &self.shared.table }
    }
}

/// A short period in which a reader looks up names; it ends when this is dropped.
pub struct NameBatch<'a> {
    presence: &'a Presence,
    table: &'a Table,
}

impl NameBatch<'_> {
    /// The longest prefix of a name: at most one search for each of its lengths, 33 of them.
    pub fn lookup(&self, name: HashedName) -> Option<NameMatch> {
        self.table.lookup(&name, self.table.lengths_of(&name))
    }

    /// The same for many names, faster than one by one. As many are looked up as there are names
    /// and answers.
    pub fn lookup_batch(&self, names: &[HashedName], answers: &mut [Option<NameMatch>]) {
        for (names, answers) in names.chunks(LANES).zip(answers.chunks_mut(LANES)) {
            names.iter().for_each(|name| self.expect(name));
            let mut searches: ArrayVec<_, LANES> =
                names.iter().map(|name| self.begin(name)).collect();
            for (search, name) in searches.iter_mut().zip(names) {
                self.narrow(name, search);
            }
            for ((answer, name), search) in answers.iter_mut().zip(names).zip(searches) {
                *answer = self.end(name, search);
            }
        }
    }

    /// Step 0 of a lookup: prefetches what step 1 reads.
    #[inline(always)]
    pub fn expect(&self, name: &HashedName) {
        self.table.prefetch(name);
    }

    /// Step 1: determines the lengths to search. Prefetches what step 2 reads.
    #[inline(always)]
    pub fn begin(&self, name: &HashedName) -> NameSearch {
        NameSearch { lengths: self.table.lengths_of(name), likely: None }
    }

    /// Step 2: searches by hash. Prefetches what step 3 reads.
    #[inline(always)]
    pub fn narrow(&self, name: &HashedName, search: &mut NameSearch) {
        search.likely = self.table.likely(name, search.lengths);
    }

    /// Step 3: the longest prefix of the name with which the search began, in this batch.
    #[inline(always)]
    pub fn end(&self, name: &HashedName, search: NameSearch) -> Option<NameMatch> {
        let (components, record) = search.likely?;
        let components = usize::from(components);
        if self.table.records.is(record, name.bytes(), name.prefix(components).0) {
            return Some(self.table.found(components, record));
        }
        self.table.lookup(name, search.lengths & ((2 << components) - 1))
    }
}

impl Drop for NameBatch<'_> {
    #[inline]
    fn drop(&mut self) {
        self.presence.leave();
    }
}
