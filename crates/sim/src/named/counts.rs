//! A forwarder's counters, for the report.

use std::collections::BTreeMap;

use plexus_ndn::face::{Fate, Packets};
use plexus_report::{NamedAccount, NamedLinks, NamedPackets, PendingInterests};

use super::SimNamed;

fn packets(of: &Packets) -> NamedPackets {
    let Packets { interests, data, nacks, other } = *of;
    NamedPackets { interests, data, nacks, other }
}

impl SimNamed {
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
