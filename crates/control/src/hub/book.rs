//! An index of sessions by number and of deadlines: a hub has a session with every node and cannot
//! search them all at every message.

use std::collections::{BTreeMap, BTreeSet};

use plexus_wire::Time;

use crate::session::Channel;

/// The owner of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// An authenticated node.
    Peer(u64),
    /// The handshake of this number.
    Opening(u64),
}

#[derive(Clone, Debug, Default)]
struct Entry {
    numbers: Vec<u32>,
    due: Option<Time>,
}

/// Sessions and deadlines of all channels.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    entries: BTreeMap<Owner, Entry>,
    numbers: BTreeSet<(u32, Owner)>,
    due: BTreeSet<(Time, Owner)>,
}

impl Book {
    /// Updates a channel's sessions and its owner's deadline.
    pub(super) fn enter(&mut self, owner: Owner, channel: &Channel, due: Time) {
        let entry = self.entries.entry(owner).or_default();
        if !channel.numbers().eq(entry.numbers.iter().copied()) {
            for number in entry.numbers.drain(..) {
                self.numbers.remove(&(number, owner));
            }
            entry.numbers.extend(channel.numbers());
            self.numbers.extend(entry.numbers.iter().map(|number| (*number, owner)));
        }
        if entry.due != Some(due) {
            let before = entry.due.replace(due);
            before.map(|before| self.due.remove(&(before, owner)));
            self.due.insert((due, owner));
        }
    }

    pub(super) fn remove(&mut self, owner: Owner) {
        let Some(entry) = self.entries.remove(&owner) else { return };
        for number in entry.numbers {
            self.numbers.remove(&(number, owner));
        }
        entry.due.map(|due| self.due.remove(&(due, owner)));
    }

    /// The owners of a session number. Two nodes may have chosen the same one: the key tells them
    /// apart.
    pub(super) fn owners(&self, number: u32) -> Vec<Owner> {
        let first = (number, Owner::Peer(0));
        let of_it = self.numbers.range(first..).take_while(|(other, _)| *other == number);
        of_it.map(|(_, owner)| *owner).collect()
    }

    /// The owners that are due by now, the earliest first.
    pub(super) fn due(&self, now: Time) -> Vec<Owner> {
        let by_now = self.due.iter().take_while(|(due, _)| *due <= now);
        by_now.map(|(_, owner)| *owner).collect()
    }

    /// When the next one is due.
    pub(super) fn next_deadline(&self) -> Time {
        self.due.first().map_or(Time::FOREVER, |(due, _)| *due)
    }
}
