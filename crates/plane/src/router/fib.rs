//! The forwarding tables of both families, as a worker reads them.

use plexus_table::lpm::{Batch, GroupId, Reader};

/// One worker's readers of the tables. Another worker gets a clone.
#[derive(Clone)]
pub struct FibReaders {
    v4: Reader<u32>,
    v6: Reader<u128>,
}

impl FibReaders {
    /// Readers of these two tables.
    pub fn new(v4: Reader<u32>, v6: Reader<u128>) -> FibReaders {
        FibReaders { v4, v6 }
    }

    /// Begins a batch. The plan of the router is loaded within it, never before. So once a table's
    /// writer has published a plan and the batches of that instant have ended, every worker has the
    /// plan.
    #[inline]
    pub(crate) fn batch(&mut self) -> FibBatch<'_> {
        FibBatch { v4: self.v4.batch(), v6: self.v6.batch() }
    }
}

/// The tables while one batch of packets is looked up.
pub(crate) struct FibBatch<'a> {
    v4: Batch<'a, u32>,
    v6: Batch<'a, u128>,
}

impl FibBatch<'_> {
    #[inline(always)]
    pub(crate) fn lookup_v4(&self, addresses: &[u32], groups: &mut [Option<GroupId>]) {
        self.v4.lookup_batch(addresses, groups);
    }

    #[inline(always)]
    pub(crate) fn lookup_v6(&self, addresses: &[u128], groups: &mut [Option<GroupId>]) {
        self.v6.lookup_batch(addresses, groups);
    }

    /// How often routes have changed: a lookup after this finds all of these changes.
    pub(crate) fn changes(&self) -> u64 {
        self.v4.changes() + self.v6.changes()
    }

    pub(crate) fn find_v4(&self, address: u32) -> Option<GroupId> {
        self.v4.lookup(address)
    }

    pub(crate) fn find_v6(&self, address: u128) -> Option<GroupId> {
        self.v6.lookup(address)
    }
}
