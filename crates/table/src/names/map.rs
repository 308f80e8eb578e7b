//! Exact match: one worker's table for its PIT and its content store.

use super::index::{Index, Spot};

/// Maps a name's hash to the number of an entry, which the caller stores with its name. The number
/// of entries is fixed, 18 bytes each, all allocated at creation.
///
/// Several entries may have one hash: a PIT entry and cached Data of one name, or PIT entries with
/// different selectors. A search asks the caller which one it means. About a hundred fit
/// ([`PROBE_LINES`](super::PROBE_LINES)); where a sender could create more (forwarding hints), the
/// difference has to be part of the hash.
pub struct NameMap {
    index: Index,
    len: usize,
    capacity: usize,
}

/// The map is full, or has a hundred entries with this hash or one near it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name map has no room: take an entry out first")]
pub struct MapFull;

impl NameMap {
    /// Entries that a map may have.
    pub const CAPACITY_MAX: usize = 1 << 30;

    /// A map for `capacity` entries; none if those are more than [`NameMap::CAPACITY_MAX`], or the
    /// system refuses the address space.
    pub fn new(capacity: usize) -> Option<NameMap> {
        if capacity > NameMap::CAPACITY_MAX {
            return None;
        }
        Some(NameMap { index: Index::new(capacity)?, len: 0, capacity })
    }

    /// How many entries it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many entries it may hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of its memory.
    pub fn bytes(&self) -> usize {
        self.index.bytes()
    }

    /// Prefetches the memory where a search for this hash begins.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// An entry that a search for this hash is likely to return, for prefetching.
    #[inline(always)]
    pub fn likely(&self, hash: u64) -> Option<u32> {
        self.index.find(hash, |_| true)
    }

    /// The first entry of this hash that `is` accepts. `is` has to compare names: it is called for
    /// every entry with half of the hash.
    #[inline(always)]
    pub fn find(&self, hash: u64, is: impl FnMut(u32) -> bool) -> Option<u32> {
        self.index.find(hash, is)
    }

    /// Inserts an entry; returns its cell, which [`NameMap::remove`] needs. It does not check for
    /// an existing entry of the name; `find` does.
    ///
    /// # Errors
    /// [`MapFull`]: nothing was changed.
    #[inline]
    pub fn insert(&mut self, hash: u64, entry: u32) -> Result<Spot, MapFull> {
        if self.len >= self.capacity || entry == u32::MAX {
            return Err(MapFull);
        }
        let spot = self.index.insert(hash, entry).map_err(|_| MapFull)?;
        self.len += 1;
        Ok(spot)
    }

    /// Removes an entry; false if it is not in that cell under this hash.
    #[inline]
    pub fn remove(&mut self, hash: u64, entry: u32, spot: Spot) -> bool {
        let removed = self.index.remove_at(hash, entry, spot);
        self.len -= usize::from(removed);
        removed
    }
}
