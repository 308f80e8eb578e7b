//! What a forwarder has counted, for the report.

use std::collections::BTreeMap;

use plexus_ndn::face::{Fate, Packets};
use plexus_plane::DropReason;
use plexus_report::{Account, Counts, NamedAccount, NamedLinks, NamedPackets, PendingInterests};

use super::SimNamed;
use crate::node::BAD_FCS;

fn packets(of: &Packets) -> NamedPackets {
    let Packets { interests, data, nacks, other } = *of;
    NamedPackets { interests, data, nacks, other }
}

impl SimNamed {
    /// Where the frames of its ports went. What came whole was for this box: its own, or its
    /// kernel's.
    pub(super) fn frames(&self) -> Counts {
        let nics = || self.ethers.iter().map(|ether| &ether.nic);
        let bad_fcs: u64 = nics().map(|nic| nic.bad_fcs).sum();
        let full: u64 = nics().map(|nic| nic.dropped).sum();
        let held = self.held() as u64;
        let account = Account {
            received: self.frames.received,
            injected: self.frames.made,
            sent: self.frames.made - full - held,
            consumed: self.frames.received - bad_fcs,
            dropped: bad_fcs + full,
            held,
            ..Account::default()
        };
        let drops = [(BAD_FCS, bad_fcs), (DropReason::QueuePackets.name(), full)];
        let drops = drops.map(|(name, count)| (name.to_string(), count));
        Counts { account, drops: BTreeMap::from(drops) }
    }

    /// Adds its frames to what the node's data plane has counted.
    pub(crate) fn add_frames_to(&self, counts: Counts) -> Counts {
        let held = counts.account.held;
        let mut sum = self.frames();
        sum.account.held += held;
        sum.and(&counts)
    }

    /// Where its packets went.
    pub(crate) fn account(&self) -> NamedAccount {
        let (mut received, mut sent) = (Packets::default(), Packets::default());
        let mut fates = BTreeMap::new();
        for (_, face) in self.forwarder.faces() {
            received.add(&face.received);
            sent.add(&face.sent);
            for fate in Fate::ALL {
                *fates.entry(fate.text().to_string()).or_default() += face.fate(*fate);
            }
        }
        fates.retain(|_, count| *count > 0);
        let counters = self.forwarder.counters();
        let asked = counters.asked;
        let (timed_out, evicted) = self.memory.dropped();
        let mut links = NamedLinks { incomplete: timed_out + evicted, ..NamedLinks::default() };
        for counted in self.faces.iter().map(|face| face.link.counters()) {
            links.received += counted.received;
            links.sent += counted.sent;
            links.unsent += counted.unsent_too_long + counted.unsent_fragmentation;
            links.fragmented += counted.fragmented;
            links.reassembled += counted.reassembled;
            links.acknowledged += counted.acknowledged;
            links.retransmitted += counted.retransmitted;
            links.given_up += counted.given_up;
            links.refused += counted.refused_malformed
                + counted.refused_fragments
                + counted.refused_duplicates
                + counted.refused_packets;
        }
        NamedAccount {
            received: packets(&received),
            sent: packets(&sent),
            fates,
            cache_hits: counters.cache_hits,
            cache_misses: counters.cache_misses,
            cached: self.forwarder.store().memory().len() as u64,
            pending: PendingInterests {
                written: asked.written,
                answered: asked.answered,
                nacked: asked.nacked,
                expired: asked.expired,
                evicted: asked.evicted,
                replaced: asked.replaced,
                withdrawn: asked.withdrawn,
                held: asked.held(),
                entries: self.pending() as u64,
            },
            links,
        }
    }
}
