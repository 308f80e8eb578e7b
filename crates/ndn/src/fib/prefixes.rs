//! Values by name prefix, and the longest prefix of a name.

use plexus_table::names::NameMap;
use plexus_table::prefetch;
use plexus_wire::ndn::Name;

use super::FibError;
use crate::names::{COMPONENTS_MAX, HashedName, NameHasher, NameHashes};

struct Record<T> {
    /// Where its name begins in the map's bytes.
    at: u32,
    len: u16,
    components: u8,
    value: T,
}

/// What a lookup has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a, T> {
    /// The value of the prefix.
    pub value: &'a T,
    /// Components of the prefix.
    pub components: usize,
}

/// Values by name prefix: every prefix stands in one hash table, and a lookup asks for a name's
/// prefixes from the longest on, but only for lengths that there are.
pub struct PrefixMap<T> {
    index: NameMap,
    records: Vec<Record<T>>,
    names: Vec<u8>,
    /// Bit `n`: there are prefixes of `n` components.
    lengths: u64,
    capacity: usize,
}

impl<T> PrefixMap<T> {
    /// A map for up to `capacity` prefixes.
    pub fn new(capacity: usize) -> PrefixMap<T> {
        let (records, names) = (Vec::new(), Vec::new());
        let index = NameMap::new(capacity).expect("address space for prefixes");
        PrefixMap { index, records, names, lengths: 0, capacity }
    }

    /// Sets the value of a prefix.
    ///
    /// # Errors
    /// [`FibError::Prefix`] or [`FibError::Full`]: nothing was changed.
    pub fn set(&mut self, hasher: &NameHasher, prefix: Name<'_>, value: T) -> Result<(), FibError> {
        let mut memory = NameHashes::default();
        let hashed = hasher.hash(prefix, &mut memory).ok_or(FibError::Prefix)?;
        let components = prefix.len();
        if components > COMPONENTS_MAX {
            return Err(FibError::Prefix);
        }
        if let Some(record) = self.find(&hashed, components) {
            self.records[record as usize].value = value;
            return Ok(());
        }
        let record = self.records.len() as u32;
        let at = u32::try_from(self.names.len()).map_err(|_| FibError::Full(self.capacity))?;
        if self.index.insert(hashed.hash(), record).is_err() {
            return Err(FibError::Full(self.capacity));
        }
        self.names.extend_from_slice(prefix.value());
        let (len, components) = (prefix.value().len() as u16, components as u8);
        self.records.push(Record { at, len, components, value });
        self.lengths |= 1 << components;
        Ok(())
    }

    #[inline(always)]
    fn find(&self, name: &HashedName<'_>, components: usize) -> Option<u32> {
        let (end, hash) = name.prefix(components);
        let wanted = &name.bytes()[..end];
        self.index.find(hash, |record| {
            let Record { at, len, .. } = self.records[record as usize];
            let at = at as usize;
            self.names[at..at + usize::from(len)] == *wanted
        })
    }

    /// The longest prefix of a name.
    #[inline]
    pub fn lookup(&self, name: &HashedName<'_>) -> Option<Found<'_, T>> {
        let mut lengths = self.lengths & ((2 << name.depth()) - 1);
        while let Some(components) = lengths.checked_ilog2() {
            if let Some(record) = self.find(name, components as usize) {
                let record = &self.records[record as usize];
                let components = record.components.into();
                return Some(Found { value: &record.value, components });
            }
            lengths ^= 1 << components;
        }
        None
    }

    /// Asks for the memory where a lookup begins.
    #[inline]
    pub fn prefetch(&self, name: &HashedName<'_>) {
        let mut lengths = self.lengths & ((2 << name.depth()) - 1);
        while let Some(components) = lengths.checked_ilog2() {
            self.index.prefetch(name.prefix(components as usize).1);
            lengths ^= 1 << components;
        }
    }

    /// The record with which a lookup is likely to end; its memory is asked for.
    #[inline]
    pub(crate) fn likely(&self, name: &HashedName<'_>) -> Option<u32> {
        let mut lengths = self.lengths & ((2 << name.depth()) - 1);
        while let Some(components) = lengths.checked_ilog2() {
            if let Some(record) = self.index.likely(name.prefix(components as usize).1) {
                prefetch(&self.records[record as usize]);
                return Some(record);
            }
            lengths ^= 1 << components;
        }
        None
    }

    /// Asks for the name of a record.
    #[inline]
    pub(crate) fn prefetch_name(&self, record: u32) {
        if let Some(byte) = self.names.get(self.records[record as usize].at as usize) {
            prefetch(byte);
        }
    }

    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of its memory.
    pub fn bytes(&self) -> usize {
        self.index.bytes() + self.records.len() * size_of::<Record<T>>() + self.names.len()
    }
}
