//! The FIB: next hops by name prefix, found by longest prefix match.
//!
//! The control side owns the [`Fib`] and changes it in place, one prefix at a time, however many
//! there are; each worker has a [`FibReader`]. A prefix maps to a number, and the number to a set
//! of next hops; equal sets are stored once. So changing a prefix is a single store, as readers see
//! it.
//!
//! # What readers see
//! A set is stored under its number before any prefix gets the number. A number
//! is reused for another set only after every batch that may have read it has ended
//! ([`NameFib::instant`]). So a reader that finds a number finds the intended set, without a lock.

mod sets;

use std::io;

use plexus_table::names::{NameBatch, NameFib, NameMatch, NameMemory, NameReader, NameSearch};
use plexus_wire::ndn::{Name, NameBuf};

use crate::face::FaceId;
use crate::names::{COMPONENTS_MAX, HashedName, NameHasher, NameHashes};
pub use plexus_table::names::{NameLimits, NameRefused};
pub use sets::{HopSet, SETS_MAX};
use sets::{Latest, Sets, SharedSets};

/// Next hops of one prefix, at most.
pub const HOPS_MAX: usize = 64;

/// A next hop of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NextHop {
    /// Its cost; the lowest is the best.
    pub cost: u64,
    /// The face to send to.
    pub face: FaceId,
}

/// Why a prefix is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FibError {
    /// It is too long.
    #[error("a prefix has at most {COMPONENTS_MAX} components and 65,535 bytes: use a shorter one")]
    Prefix,
    /// It has too many next hops.
    #[error("a prefix has at most {HOPS_MAX} next hops, not {0}: leave the costliest out")]
    Hops(usize),
    /// There are too many different sets of next hops.
    #[error("there are {SETS_MAX} different sets of next hops, as many as may be: use fewer costs")]
    Sets,
    /// The table is full.
    #[error(transparent)]
    Table(#[from] NameRefused),
}

/// The next hops of a prefix, the cheapest first.
pub type Hops = [NextHop];

/// Prefixes and their next hops; only the owner changes them.
pub struct Fib {
    names: NameFib,
    hasher: NameHasher,
    sets: Sets,
    /// Reused memory.
    hashes: NameHashes,
}

impl Fib {
    /// An empty FIB.
    ///
    /// # Errors
    /// [`NameRefused::OutOfMemory`].
    pub fn new(hasher: NameHasher, limits: NameLimits) -> Result<Fib, FibError> {
        let names = NameFib::new(limits)?;
        Ok(Fib { names, hasher, sets: Sets::default(), hashes: NameHashes::default() })
    }

    /// Binds the prefixes' memory to this NUMA node, whichever thread changes them. Call it while
    /// the FIB has no prefixes.
    ///
    /// # Errors
    /// The kernel's: the node does not exist, or this process may not choose.
    pub fn bind(&self, node: u32) -> io::Result<()> {
        self.names.bind(node)
    }

    /// Sets the next hops of a prefix. An empty set makes the prefix lead nowhere; shorter prefixes
    /// are not used instead.
    ///
    /// # Errors
    /// [`FibError`]: nothing was changed.
    pub fn set(&mut self, prefix: Name<'_>, hops: &[NextHop]) -> Result<(), FibError> {
        self.set_if(prefix, hops, || Ok(()))
    }

    /// As [`Fib::set`], but undone if `rest`, which makes the related changes, fails.
    ///
    /// # Errors
    /// [`FibError`], or the error of `rest`: nothing was changed, though readers may have seen the
    /// change in between.
    pub fn set_if(
        &mut self,
        prefix: Name<'_>,
        hops: &[NextHop],
        rest: impl FnOnce() -> Result<(), FibError>,
    ) -> Result<(), FibError> {
        let Fib { names, hasher, sets, hashes } = self;
        if hops.len() > HOPS_MAX {
            return Err(FibError::Hops(hops.len()));
        }
        let name = hasher.hash(prefix, hashes).ok_or(FibError::Prefix)?;
        let number = sets.acquire(hops, names)?;
        let refused = match names.insert(name.hashed(), number) {
            Ok(before) => match rest() {
                Ok(()) => {
                    before.into_iter().for_each(|before| sets.release(before, names));
                    return Ok(());
                }
                Err(refused) => {
                    // Neither call can fail: a prefix in the table always has room for a value.
                    let undone = match before {
                        Some(before) => names.insert(name.hashed(), before).ok().flatten(),
                        None => names.remove(name.hashed()),
                    };
                    debug_assert_eq!(undone, Some(number));
                    refused
                }
            },
            Err(NameRefused::Components) => FibError::Prefix,
            Err(refused) => refused.into(),
        };
        sets.release(number, names);
        Err(refused)
    }

    /// Removes a prefix; false if it was not there.
    pub fn remove(&mut self, prefix: Name<'_>) -> bool {
        let Fib { names, hasher, sets, hashes } = self;
        let removed = hasher.hash(prefix, hashes).and_then(|name| names.remove(name.hashed()));
        removed.into_iter().for_each(|number| sets.release(number, names));
        removed.is_some()
    }

    /// The next hops of exactly this prefix.
    pub fn get(&self, prefix: Name<'_>) -> Option<&Hops> {
        let mut hashes = NameHashes::default();
        let number = self.names.get(self.hasher.hash(prefix, &mut hashes)?.hashed())?;
        Some(self.sets.get(number))
    }

    /// Every prefix and its next hops, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = (NameBuf, &Hops)> {
        self.names.iter().filter_map(|(bytes, number)| {
            let prefix = Name::new_checked(&bytes).ok()?.to_buf();
            Some((prefix, self.sets.get(number)))
        })
    }

    /// A new reader, for one worker.
    pub fn reader(&self) -> FibReader {
        FibReader { names: self.names.reader(), sets: self.sets.shared() }
    }

    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that prefixes take.
    pub fn memory(&self) -> NameMemory {
        self.names.memory()
    }
}

/// Looks up names. Each worker has its own; a clone is independent.
#[derive(Clone)]
pub struct FibReader {
    names: NameReader,
    sets: SharedSets,
}

impl FibReader {
    /// Begins a batch. That takes some nanoseconds, so use one batch for many lookups. End it
    /// before sleeping.
    #[inline]
    pub fn batch(&mut self) -> FibBatch<'_> {
        FibBatch { names: self.names.batch(), sets: &self.sets, latest: Latest::default() }
    }
}

/// A short period in which a worker looks up names; it ends when this is dropped.
pub struct FibBatch<'a> {
    names: NameBatch<'a>,
    sets: &'a SharedSets,
    latest: Latest,
}

/// The longest matching prefix of a name in the FIB, valid within its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FibMatch(NameMatch);

/// A lookup in steps: several run side by side so that none stalls on memory.
#[derive(Clone, Copy, Debug)]
pub struct FibSearch(NameSearch);

impl FibMatch {
    /// How many components the prefix has.
    pub fn components(&self) -> usize {
        self.0.components.into()
    }
}

impl FibBatch<'_> {
    /// The longest matching prefix of a name.
    #[inline]
    pub fn lookup(&self, name: &HashedName<'_>) -> Option<FibMatch> {
        self.names.lookup(name.hashed()).map(FibMatch)
    }

    /// Prefetches what [`FibBatch::begin`] reads.
    #[inline(always)]
    pub fn expect(&self, name: &HashedName<'_>) {
        self.names.expect(&name.hashed());
    }

    /// Begins a lookup and prefetches what [`FibBatch::narrow`] reads.
    #[inline(always)]
    pub fn begin(&self, name: &HashedName<'_>) -> FibSearch {
        FibSearch(self.names.begin(&name.hashed()))
    }

    /// Continues the lookup and prefetches what [`FibBatch::end`] reads.
    #[inline(always)]
    pub fn narrow(&self, name: &HashedName<'_>, search: &mut FibSearch) {
        self.names.narrow(&name.hashed(), &mut search.0);
    }

    /// The longest matching prefix of the name with which the lookup began.
    #[inline(always)]
    pub fn end(&self, name: &HashedName<'_>, search: FibSearch) -> Option<FibMatch> {
        self.names.end(&name.hashed(), search.0).map(FibMatch)
    }

    /// The next hops of a prefix that was found in this batch.
    #[inline]
    pub fn hops(&self, found: FibMatch) -> HopSet<'_> {
        self.sets.get(found.0.value, &self.latest)
    }
}

#[cfg(test)]
mod tests;
