//! The name FIB: the longest matching prefix of a name, among millions.
//!
//! # What a lookup sees of an update
//! A prefix is inserted, removed, or changes its value by one store of one integer, so a lookup
//! always returns a value that some prefix of the name had while it ran. A lookup during *several*
//! updates may see a later one and miss an earlier one, because it has passed that length: if a
//! longer prefix is inserted and then a shorter one removed, it may find neither, and return a
//! still shorter one. A writer that has to avoid this waits between the two updates until the
//! earlier batches have ended ([`NameFib::instant`]).
//!
//! The memory of removed prefixes is reused when no batch can reach it (`grace.rs`); a batch that
//! never ends holds up memory, but never the writer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

use super::filter::{FIRST, Filter};
use super::hash::{COMPONENTS_MAX, HashedName};
use super::index::Index;
use super::limits::{NameLimits, NameMemory, NameRefused};
use super::lookup::{NameReader, Shared, Table};
use super::records::{Records, Space};
use crate::grace::{Instant, Periods, Retired};

/// Number of retired records from which on the readers are checked.
const RETIRED: usize = 64;

/// Name prefixes, each with a 32-bit value, and operations to change them. All names have to be
/// hashed with the same hasher.
pub struct NameFib {
    shared: Arc<Shared>,
    space: Space,
    retired: Retired,
    /// Number of prefixes by component count.
    by_length: [usize; COMPONENTS_MAX + 1],
    len: usize,
    limits: NameLimits,
}

impl NameFib {
    /// A table without prefixes.
    ///
    /// # Errors
    /// [`NameRefused::OutOfMemory`].
    pub fn new(limits: NameLimits) -> Result<NameFib, NameRefused> {
        let words = (limits.record_bytes / 8).clamp(1, u32::MAX as usize);
        let index = Index::new(limits.prefixes).ok_or(NameRefused::OutOfMemory)?;
        let records = Records::new(words).ok_or(NameRefused::OutOfMemory)?;
        let filter = Filter::new(limits.prefixes).ok_or(NameRefused::OutOfMemory)?;
        let table = Table { filter, index, records, lengths: AtomicU64::new(0) };
        Ok(NameFib {
            shared: Arc::new(Shared { table, periods: Periods::new() }),
            space: Space::new(words),
            retired: Retired::new(),
            by_length: [0; COMPONENTS_MAX + 1],
            len: 0,
            limits,
        })
    }

    /// Binds the lookup memory to this NUMA node, whichever thread changes the table. Only for a
    /// table without prefixes: existing memory stays where it is.
    ///
    /// # Errors
    /// The kernel's: the node does not exist, or this process may not choose.
    pub fn bind(&self, node: u32) -> io::Result<()> {
        let Table { filter, index, records, .. } = &self.shared.table;
        filter.bind(node)?;
        index.bind(node)?;
        records.bind(node)
    }

    /// Inserts a prefix, or changes its value; returns the previous value. The empty name is the
    /// default route.
    ///
    /// # Errors
    /// [`NameRefused`]: nothing was changed.
    pub fn insert(&mut self, prefix: HashedName, value: u32) -> Result<Option<u32>, NameRefused> {
        let components = prefix.components().ok_or(NameRefused::Components)?;
        let table = &self.shared.table;
        if let Some(record) = table.find(&prefix, components) {
            let before = table.records.value(record);
            table.records.set_value(record, value);
            return Ok(Some(before));
        }
        if self.len >= self.limits.prefixes {
            return Err(NameRefused::Prefixes { limit: self.limits.prefixes });
        }
        let record = self.make(prefix.bytes(), value)?;
        let table = &self.shared.table;
        table.lengths.fetch_or(1 << components, Release);
        if components >= FIRST {
            table.filter.count(prefix.prefix(FIRST).1, components);
        }
        self.by_length[components] += 1;
        if table.index.insert(prefix.hash(), record).is_err() {
            self.space.give_back(&table.records, record);
            self.uncount(&prefix, components);
            return Err(NameRefused::Crowded);
        }
        self.len += 1;
        Ok(None)
    }

    fn make(&mut self, name: &[u8], value: u32) -> Result<u32, NameRefused> {
        let records = &self.shared.table.records;
        if let Some(record) = self.space.make(records, name, value) {
            return Ok(record);
        }
        let held = self.retired.len();
        self.collect();
        let busy = held > 0 && self.retired.len() == held;
        let records = &self.shared.table.records;
        self.space.make(records, name, value).ok_or(match busy {
            true => NameRefused::ReaderBusy,
            false => NameRefused::Records { limit: self.limits.record_bytes },
        })
    }

    /// Removes a prefix; returns its value, or none if it was not there.
    pub fn remove(&mut self, prefix: HashedName) -> Option<u32> {
        let components = prefix.components()?;
        let Shared { table, periods } = &*self.shared;
        let record = table.find(&prefix, components)?;
        let value = table.records.value(record);
        table.index.remove(prefix.hash(), record);
        self.retired.push(periods, record);
        self.len -= 1;
        self.uncount(&prefix, components);
        if self.retired.len() >= RETIRED {
            self.collect();
        }
        Some(value)
    }

    /// The prefix can no longer be found: updates the filter.
    fn uncount(&mut self, prefix: &HashedName, components: usize) {
        let table = &self.shared.table;
        if components >= FIRST {
            table.filter.uncount(prefix.prefix(FIRST).1, components);
        }
        self.by_length[components] -= 1;
        if self.by_length[components] == 0 {
            table.lengths.fetch_and(!(1 << components), Release);
        }
    }

    /// The value of exactly this prefix.
    pub fn get(&self, prefix: HashedName) -> Option<u32> {
        let table = &self.shared.table;
        let record = table.find(&prefix, prefix.components()?)?;
        Some(table.records.value(record))
    }

    /// Every prefix's name and value, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Vec<u8>, u32)> + '_ {
        let Table { index, records, .. } = &self.shared.table;
        index.records().map(|record| (records.name(record), records.value(record)))
    }

    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A new reader.
    pub fn reader(&self) -> NameReader {
        NameReader::new(self.shared.clone())
    }

    /// The present instant, for comparing with batches that began before it.
    pub fn instant(&mut self) -> Instant {
        self.shared.periods.instant()
    }

    /// True once every batch that had begun by that instant has ended.
    pub fn has_passed(&self, instant: Instant) -> bool {
        self.shared.periods.has_passed(instant)
    }

    /// Frees removed prefixes that no batch can reach any more. Updates do that themselves from
    /// time to time.
    pub fn collect(&mut self) {
        let Shared { table, periods } = &*self.shared;
        self.retired.collect(periods, |record| self.space.give_back(&table.records, record));
    }

    /// The memory of the table.
    pub fn memory(&self) -> NameMemory {
        let table = &self.shared.table;
        NameMemory {
            index: table.index.bytes() + table.filter.bytes(),
            records: self.space.used_bytes(),
            writer: self.space.bytes() + self.retired.bytes(),
        }
    }
}
