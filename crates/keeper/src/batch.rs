//! Writes that wait for their turn.

use std::collections::BTreeMap;

use plexus_controller::{Change, RecordKey};

/// Changes that are made together: the last one of each record. So while the store is out of
/// reach, no more waits than there are records.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The epoch of the leader that asked.
    pub(crate) epoch: u64,
    /// The last ticket in it.
    pub(crate) ticket: u64,
    pub(crate) changes: BTreeMap<RecordKey, Change>,
}

impl Batch {
    /// Adds a write. Writes of an earlier leader are dropped.
    pub(crate) fn add(&mut self, epoch: u64, ticket: u64, changes: Vec<Change>) {
        if epoch != self.epoch {
            self.changes.clear();
        }
        (self.epoch, self.ticket) = (epoch, ticket);
        self.changes.extend(changes.into_iter().map(|change| (change.key(), change)));
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use plexus_controller::{Lease, Record};
    use plexus_wire::MacAddr;

    use super::*;

    #[test]
    fn the_last_change_of_a_record_counts_and_an_earlier_leaders_do_not() {
        let ip = |last| Ipv4Addr::new(10, 0, 0, last);
        let put = |last| {
            let mac = MacAddr([2, 0, 0, 0, 0, last]);
            Change::Put(Record::Lease(Lease { ip: ip(last), mac, until_unix_s: 1 }))
        };
        let mut batch = Batch::default();
        batch.add(3, 1, vec![put(1), put(2)]);
        batch.add(3, 2, vec![Change::RemoveLease(ip(1))]);
        let list = |batch: &Batch| batch.changes.values().cloned().collect::<Vec<_>>();
        assert_eq!(list(&batch), [Change::RemoveLease(ip(1)), put(2)]);
        batch.add(4, 1, vec![put(3)]);
        assert_eq!((list(&batch), batch.epoch, batch.ticket), (vec![put(3)], 4, 1));
    }
}
