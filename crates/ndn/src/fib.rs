//! Where names lead: the FIB, longest prefix first.
//!
//! The control side has the [`Fib`] and changes it in place, a prefix at a time, however many there
//! are; each worker has a [`FibReader`]. A prefix leads to a number, and the number to a set of
//! next hops; equal sets are held once. So a change of a prefix is one store for readers.
//!
//! # What readers see
//! A set stands under its number before any prefix has the number, and a number is given to another
//! set only when every batch has ended that may have found it ([`NameFib::instant`]). So whoever
//! finds a number finds the set that was meant, without a lock.

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

/// A way for a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NextHop {
    /// What it costs; the least is the best.
    pub cost: u64,
    /// Where it leads.
    pub face: FaceId,
}

/// Why a prefix is not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FibError {
    /// It is too long.
    #[error("a prefix has at most {COMPONENTS_MAX} components and 65,535 bytes: use a shorter one")]
    Prefix,
    /// It has too many ways.
    #[error("a prefix has at most {HOPS_MAX} next hops, not {0}: leave the costliest out")]
    Hops(usize),
    /// There are too many different sets of next hops.
    #[error("there are {SETS_MAX} different sets of next hops, as many as may be: use fewer costs")]
    Sets,
    /// The table has no room.
    #[error(transparent)]
    Table(#[from] NameRefused),
}

/// What the FIB says of a prefix: its next hops, the cheapest first.
pub type Hops = [NextHop];

/// Prefixes and their next hops, to be changed by the one who owns it.
pub struct Fib {
    names: NameFib,
    hasher: NameHasher,
    sets: Sets,
    /// Memory to be used again.
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

    /// Has the prefixes' memory be of this node of the machine (NUMA), wherever they are changed
    /// from. For a FIB without prefixes.
    ///
    /// # Errors
    /// The kernel's: it has no such node, or does not let this process choose.
    pub fn bind(&self, node: u32) -> io::Result<()> {
        self.names.bind(node)
    }

    /// Sets the next hops of a prefix. Without any, the prefix leads nowhere, and shorter ones are
    /// not asked instead.
    ///
    /// # Errors
    /// [`FibError`]: nothing was changed.
    pub fn set(&mut self, prefix: Name<'_>, hops: &[NextHop]) -> Result<(), FibError> {
        self.set_if(prefix, hops, || Ok(()))
    }

    /// As [`Fib::set`], and takes it back if `rest`, what has to change along, refuses.
    ///
    /// # Errors
    /// [`FibError`], or that of `rest`: nothing was changed, though readers may have seen the
    /// change meanwhile.
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
                    // Neither is ever refused: a prefix that is there has room for a value.
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

    /// Takes a prefix out; false if it was not there.
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

    /// Every prefix and its next hops, in no order.
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

/// Looks up. Each worker has its own; a clone is a new one.
#[derive(Clone)]
pub struct FibReader {
    names: NameReader,
    sets: SharedSets,
}

impl FibReader {
    /// Begins a batch: some nanoseconds, so one for many lookups. End it before sleeping.
    #[inline]
    pub fn batch(&mut self) -> FibBatch<'_> {
        FibBatch { names: self.names.batch(), sets: &self.sets, latest: Latest::default() }
    }
}

/// A short time in which a worker looks up; it ends when this is dropped.
pub struct FibBatch<'a> {
    names: NameBatch<'a>,
    sets: &'a SharedSets,
    latest: Latest,
}

/// The longest prefix of a name in the FIB. It counts within its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FibMatch(NameMatch);

/// A lookup that is done in steps, so that several go side by side and none waits for memory.
#[derive(Clone, Copy, Debug)]
pub struct FibSearch(NameSearch);

impl FibMatch {
    /// How many components the prefix has.
    pub fn components(&self) -> usize {
        self.0.components.into()
    }
}

impl FibBatch<'_> {
    /// The longest prefix of a name.
    #[inline]
    pub fn lookup(&self, name: &HashedName<'_>) -> Option<FibMatch> {
        self.names.lookup(name.hashed()).map(FibMatch)
    }

    /// Asks for what [`FibBatch::begin`] reads.
    #[inline(always)]
    pub fn expect(&self, name: &HashedName<'_>) {
        self.names.expect(&name.hashed());
    }

    /// Begins a lookup, and asks for what [`FibBatch::narrow`] reads.
    #[inline(always)]
    pub fn begin(&self, name: &HashedName<'_>) -> FibSearch {
        FibSearch(self.names.begin(&name.hashed()))
    }

    /// Goes on with it, and asks for what [`FibBatch::end`] reads.
    #[inline(always)]
    pub fn narrow(&self, name: &HashedName<'_>, search: &mut FibSearch) {
        self.names.narrow(&name.hashed(), &mut search.0);
    }

    /// The longest prefix of the name for which the search began.
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
