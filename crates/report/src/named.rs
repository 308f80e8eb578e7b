//! The account of a named-data forwarder: the fate of every Interest and Data.

use std::collections::BTreeMap;
use std::fmt;

pub use plexus_api::answer::named::Packets as NamedPackets;
use serde::{Deserialize, Serialize};

/// What became of the Interests that were written down until answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingInterests {
    /// Written down.
    pub written: u64,
    /// Got Data.
    pub answered: u64,
    /// Got a Nack.
    pub nacked: u64,
    /// Timed out.
    pub expired: u64,
    /// Evicted for newer ones.
    pub evicted: u64,
    /// Replaced by a retransmission of the same neighbour.
    pub replaced: u64,
    /// Could not be answered.
    pub withdrawn: u64,
    /// Still wait.
    pub held: u64,
    /// Entries of the table, answered ones that wait for stragglers included.
    pub entries: u64,
}

/// Counters of the link protocol, for all faces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedLinks {
    /// Interests, Data and Nacks that came whole, and went.
    pub received: u64,
    /// Went.
    pub sent: u64,
    /// Could not be sent: too long, or not to be cut.
    pub unsent: u64,
    /// Were cut to be sent.
    pub fragmented: u64,
    /// Were put together.
    pub reassembled: u64,
    /// Of which fragments did not come in time, or found no room.
    pub incomplete: u64,
    /// Link packets that were acknowledged.
    pub acknowledged: u64,
    /// Link packets that were sent again.
    pub retransmitted: u64,
    /// Packets given up after that.
    pub given_up: u64,
    /// Link packets that were refused: broken, or come before.
    pub refused: u64,
}

/// Where a forwarder's packets went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedAccount {
    /// Came in.
    pub received: NamedPackets,
    /// Went out.
    pub sent: NamedPackets,
    /// What became of each that came in, in words.
    pub fates: BTreeMap<String, u64>,
    /// Interests answered out of the content store.
    pub cache_hits: u64,
    /// Interests that it could not answer.
    pub cache_misses: u64,
    /// Data in it at the end.
    pub cached: u64,
    /// The Interests that waited.
    pub pending: PendingInterests,
    /// The link protocol.
    pub links: NamedLinks,
}

impl NamedAccount {
    /// Whether everything is accounted for: every received packet has a fate, every recorded
    /// Interest has ended or is still pending, and the links carried what the forwarder sent and
    /// received.
    pub fn adds_up(&self) -> bool {
        let PendingInterests { written, answered, nacked, expired, evicted, .. } = self.pending;
        let PendingInterests { replaced, withdrawn, held, .. } = self.pending;
        let ends = answered + nacked + expired + evicted + replaced + withdrawn + held;
        self.received.total() == self.fates.values().sum::<u64>()
            && written == ends
            && self.received.total() == self.links.received
            && self.sent.total() == self.links.sent + self.links.unsent
    }
}

impl fmt::Display for NamedAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (came, went) = (&self.received, &self.sent);
        write!(
            f,
            "{} Interests and {} Data in, {} and {} out, {} answered from the cache",
            came.interests, came.data, went.interests, went.data, self.cache_hits
        )?;
        for (count, what) in [
            (self.pending.expired, "expired"),
            (self.pending.held, "still wait"),
            (went.nacks, "Nacks sent"),
            (self.links.retransmitted, "link packets sent again"),
            (self.links.given_up, "given up"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        if !self.adds_up() {
            write!(f, ": THIS DOES NOT ADD UP")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_missing_count_is_detected() {
        let mut account = NamedAccount {
            received: NamedPackets { interests: 3, data: 1, ..NamedPackets::default() },
            sent: NamedPackets { interests: 1, data: 2, ..NamedPackets::default() },
            ..NamedAccount::default()
        };
        account.fates.insert("a".into(), 4);
        account.pending.written = 2;
        (account.pending.answered, account.pending.expired) = (1, 1);
        (account.links.received, account.links.sent, account.links.unsent) = (4, 2, 1);
        assert!(account.adds_up(), "{account}");
        let spoils: [fn(&mut NamedAccount); 4] = [
            |a| a.received.nacks += 1,
            |a| a.pending.expired -= 1,
            |a| a.links.received += 1,
            |a| a.links.unsent -= 1,
        ];
        for spoil in spoils {
            let mut spoiled = account.clone();
            spoil(&mut spoiled);
            assert!(spoiled.to_string().contains("NOT ADD UP"), "{spoiled}");
        }
    }
}
