//! The strategy chosen for each prefix.

use plexus_table::names::NameMap;
use plexus_wire::ndn::Name;

use crate::fib::{FibError, NameRefused};
use crate::names::{COMPONENTS_MAX, HashedName, NameHasher, NameHashes};

struct Record {
    name: Box<[u8]>,
    value: u16,
}

/// Result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) value: u16,
    pub(super) components: usize,
}

/// Values by name prefix, built once: a lookup tries a name's prefixes, longest first, but only
/// lengths that occur. Few prefixes have a strategy of their own, so the map is small.
pub(super) struct PrefixMap {
    index: NameMap,
    records: Vec<Record>,
    /// Bit `n`: there are prefixes of `n` components.
    lengths: u64,
    capacity: usize,
}

impl PrefixMap {
    pub(super) fn new(capacity: usize) -> PrefixMap {
        let index = NameMap::new(capacity).expect("address space for strategies");
        PrefixMap { index, records: Vec::new(), lengths: 0, capacity }
    }

    /// Sets the value of a prefix.
    ///
    /// # Errors
    /// [`FibError::Prefix`] or [`FibError::Table`]: nothing was changed.
    pub(super) fn set(
        &mut self,
        hasher: &NameHasher,
        prefix: Name<'_>,
        value: u16,
    ) -> Result<(), FibError> {
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
        let full = NameRefused::Prefixes { limit: self.capacity };
        self.index.insert(hashed.hash(), record).map_err(|_| full)?;
        self.records.push(Record { name: prefix.value().into(), value });
        self.lengths |= 1 << components;
        Ok(())
    }

    #[inline(always)]
    fn find(&self, name: &HashedName<'_>, components: usize) -> Option<u32> {
        let (end, hash) = name.prefix(components);
        let wanted = &name.bytes()[..end];
        self.index.find(hash, |record| *self.records[record as usize].name == *wanted)
    }

    /// The longest prefix of a name.
    #[inline]
    pub(super) fn lookup(&self, name: &HashedName<'_>) -> Option<Found> {
        if self.lengths == 1 {
            // Only the default exists.
            return Some(Found { value: self.records.first()?.value, components: 0 });
        }
        let mut lengths = self.lengths & ((2 << name.depth()) - 1);
        while let Some(components) = lengths.checked_ilog2() {
            let components = components as usize;
            if let Some(record) = self.find(name, components) {
                return Some(Found { value: self.records[record as usize].value, components });
            }
            lengths ^= 1 << components;
        }
        None
    }
}
