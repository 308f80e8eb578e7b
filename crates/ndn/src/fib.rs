//! Where names lead: the FIB, longest prefix first.

mod prefixes;

use plexus_wire::ndn::Name;

use crate::face::FaceId;
use crate::names::{COMPONENTS_MAX, HashedName, NameHasher};
pub use prefixes::{Found, PrefixMap};

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
    /// There are too many prefixes for 32 bits of places.
    #[error("the table holds {0} prefixes or their bytes, as many as it may: raise its capacity")]
    Full(usize),
}

/// What the FIB says of a prefix: its next hops, the cheapest first. Never empty.
pub type Hops = [NextHop];

/// Prefixes and their next hops. Built once, then read by all workers; equal sets of next hops
/// are held once.
pub struct Fib {
    prefixes: PrefixMap<u32>,
    sets: Vec<Box<Hops>>,
    numbers: std::collections::HashMap<Box<Hops>, u32>,
}

impl Fib {
    /// An empty FIB for up to `capacity` prefixes.
    pub fn new(capacity: usize) -> Fib {
        let numbers = std::collections::HashMap::new();
        Fib { prefixes: PrefixMap::new(capacity), sets: Vec::new(), numbers }
    }

    /// Sets the next hops of a prefix. Without any, the prefix leads nowhere, and shorter ones are
    /// not asked instead.
    ///
    /// # Errors
    /// [`FibError`]: nothing was changed.
    pub fn set(
        &mut self,
        hasher: &NameHasher,
        prefix: Name<'_>,
        hops: &[NextHop],
    ) -> Result<(), FibError> {
        if hops.len() > HOPS_MAX {
            return Err(FibError::Hops(hops.len()));
        }
        let mut hops: Box<Hops> = hops.into();
        hops.sort_unstable();
        let next = self.sets.len() as u32;
        let number = self.numbers.get(&hops).copied().unwrap_or(next);
        self.prefixes.set(hasher, prefix, number)?;
        if number == next {
            self.sets.push(hops.clone());
            self.numbers.insert(hops, next);
        }
        Ok(())
    }

    /// The longest prefix of a name and its next hops.
    #[inline]
    pub fn lookup(&self, name: &HashedName<'_>) -> Option<(&Hops, usize)> {
        let found = self.prefixes.lookup(name)?;
        Some((&self.sets[*found.value as usize], found.components))
    }

    /// Asks for the memory where a lookup begins.
    #[inline]
    pub fn prefetch(&self, name: &HashedName<'_>) {
        self.prefixes.prefetch(name);
    }

    /// When that has come, asks for what a lookup needs next; and when that has, for the last.
    #[inline]
    pub(crate) fn likely(&self, name: &HashedName<'_>) -> Option<u32> {
        self.prefixes.likely(name)
    }

    #[inline]
    pub(crate) fn prefetch_name(&self, record: u32) {
        self.prefixes.prefetch_name(record);
    }

    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of its prefixes' memory.
    pub fn bytes(&self) -> usize {
        self.prefixes.bytes()
    }
}

#[cfg(test)]
mod tests;
