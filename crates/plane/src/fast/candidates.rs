//! Flows that may be worth a rule: those with most packets, counted in a table of fixed size.

use std::net::IpAddr;

use plexus_io::PortId;
use plexus_io::fast::{Flow, Key, Ports};
use plexus_wire::flow::hash_words;

/// Flows that are counted at once, a power of two.
const CANDIDATES: usize = 4096;

/// A flow that may be worth a rule.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) key: Option<Key>,
    pub(super) out_port: PortId,
    pub(super) packets: u32,
    /// Of this flow; `packets` are fewer where flows share its place.
    pub(super) bytes: u64,
}

const EMPTY: Candidate = Candidate { key: None, out_port: 0, packets: 0, bytes: 0 };

/// The table. A flow has one place in it, which it may share with others.
pub(super) struct Candidates {
    seed: u64,
    places: Box<[Candidate]>,
}

impl Candidates {
    /// None yet; `seed` keys the hash of flows.
    pub(super) fn new(seed: u64) -> Candidates {
        Candidates { seed, places: vec![EMPTY; CANDIDATES].into() }
    }

    /// Counts a packet of a flow that left by a port.
    #[inline]
    pub(super) fn count(&mut self, key: Key, out_port: PortId, bytes: usize) {
        let bytes = bytes as u64;
        let candidate = &mut self.places[place(&key, self.seed)];
        if candidate.key == Some(key) && candidate.out_port == out_port {
            candidate.packets += 1;
            candidate.bytes += bytes;
        } else if candidate.packets > 0 {
            // The flow with more packets keeps the place.
            candidate.packets -= 1;
        } else {
            *candidate = Candidate { key: Some(key), out_port, packets: 1, bytes };
        }
    }

    /// Those with at least as many packets, most first. All begin anew.
    pub(super) fn take(&mut self, packets: u32) -> Vec<Candidate> {
        let worth = self.places.iter().filter(|candidate| candidate.packets >= packets);
        let mut worth: Vec<Candidate> = worth.copied().collect();
        self.clear();
        worth.sort_by_key(|candidate| std::cmp::Reverse(candidate.packets));
        worth
    }

    /// All begin anew.
    pub(super) fn clear(&mut self) {
        self.places.fill(EMPTY);
    }
}

/// Hosts do not know which flows share a place.
#[inline]
fn place(key: &Key, seed: u64) -> usize {
    let of_flow = |flow: &Flow| {
        [
            flow.destination.to_u64(),
            flow.source.to_u64(),
            u64::from(flow.in_port) << 32
                | u64::from(flow.ethertype) << 16
                | u64::from(flow.tag.unwrap_or(0)),
        ]
    };
    let of_address = |address: IpAddr| {
        let bits = match address {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        };
        [bits as u64, (bits >> 64) as u64]
    };
    let hash = match key {
        Key::Flow(flow) => hash_words(of_flow(flow), seed),
        Key::Routed(key) => {
            let [source, destination] = [key.source, key.destination].map(of_address);
            let ports = key.ports.map_or(0, |Ports { protocol, source, destination }| {
                u64::from(protocol) << 32 | u64::from(source) << 16 | u64::from(destination)
            });
            let rest = source.into_iter().chain(destination).chain([ports]);
            hash_words(of_flow(&key.flow).into_iter().chain(rest), seed)
        }
        Key::Hop { in_port, hop } => {
            hash_words([u64::from(*hop), u64::MAX, u64::from(*in_port)], seed)
        }
        Key::Delivery { in_port, hop, destination, is_routed } => {
            let hop = u64::from(*hop) | u64::from(*is_routed) << 8;
            hash_words([hop, destination.to_u64(), u64::from(*in_port)], seed)
        }
    };
    hash as usize % CANDIDATES
}

#[cfg(test)]
mod tests {
    use plexus_io::fast::Routed;
    use plexus_wire::MacAddr;

    use super::*;

    /// A flow with as many packets keeps another one of its place from a rule. The pairs differ in
    /// two bits, of which one cancels the other where a hash only multiplies and rotates.
    #[test]
    fn no_two_flows_share_a_place_for_most_seeds() {
        let flow = Flow {
            in_port: 1,
            tag: None,
            destination: MacAddr([2, 0, 0, 0, 0, 1]),
            source: MacAddr([2, 0, 0, 0, 0, 2]),
            ethertype: 0x86DD,
        };
        let from = |source: u128| {
            let [source, destination] = [source, 7].map(|bits| IpAddr::V6(bits.into()));
            Key::Routed(Routed { flow, source, destination, ports: None, is_from_node: false })
        };
        let address = 0xFD00 << 112;
        for bit in 0..64 {
            let other = address ^ 1 << bit ^ 1 << (64 + (bit + 29) % 64);
            let (a, b) = (from(address), from(other));
            let shared = (0..64).filter(|seed| place(&a, *seed) == place(&b, *seed)).count();
            assert!(shared < 3, "bit {bit}: the same for {shared} of 64 seeds");
        }
    }
}
