//! What a worker counts, and the account that must balance.

use std::ops::AddAssign;

use plexus_io::{PortId, PortStats};
use plexus_wire::add_fields;

use crate::drops::DropReason;

/// One worker's counts for one port. Packets and bytes in and out are counted by the port itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets dropped, by reason. Up to the lookup the reason is the input port's, from the
    /// output queues on it is the output port's.
    pub drops: [u64; DropReason::COUNT],
    /// Packets made of one that entered here: copies for several ports, and segments.
    pub copies: u64,
    /// Packets marked "congestion experienced" in this port's output queues.
    pub ecn_marked: u64,
    /// Stations learned here.
    pub learned: u64,
    /// Stations that moved here from another port.
    pub moved: u64,
    /// Stations not learned because the table was full.
    pub table_full: u64,
    /// Packets that entered here and ended in the control plane.
    pub consumed: u64,
    /// Packets of the control plane that were sent to this port.
    pub injected: u64,
    /// Packets that entered here and that the router sent on.
    pub routed: u64,
    /// Packets that entered here and went by the fast table. The port counts none of them.
    pub fast_received: u64,
    /// Their bytes, less those of packets held back.
    pub fast_received_bytes: u64,
    /// Packets that the fast table has sent here.
    pub fast_sent: u64,
    /// Their bytes.
    pub fast_sent_bytes: u64,
}

impl Default for PortCounters {
    fn default() -> PortCounters {
        PortCounters {
            drops: [0; DropReason::COUNT],
            copies: 0,
            ecn_marked: 0,
            learned: 0,
            moved: 0,
            table_full: 0,
            consumed: 0,
            injected: 0,
            routed: 0,
            fast_received: 0,
            fast_received_bytes: 0,
            fast_sent: 0,
            fast_sent_bytes: 0,
        }
    }
}

impl PortCounters {
    /// All drops together.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// Adds another worker's counts for the same port.
    pub fn add(&mut self, other: &PortCounters) {
        for (a, b) in self.drops.iter_mut().zip(&other.drops) {
            *a += b;
        }
        add_fields!(self, other; copies, ecn_marked, learned, moved, table_full, consumed);
        add_fields!(self, other; injected, routed, fast_received, fast_received_bytes);
        add_fields!(self, other; fast_sent, fast_sent_bytes);
    }
}

/// One worker's counts for every port of the box.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// By port number.
    pub ports: Vec<PortCounters>,
}

impl Counters {
    /// Zeroes for `ports` ports.
    pub fn new(ports: usize) -> Counters {
        Counters { ports: vec![PortCounters::default(); ports] }
    }

    /// Packets that the router has sent on.
    pub fn routed_in_all(&self) -> u64 {
        self.ports.iter().map(|port| port.routed).sum()
    }

    /// Counts packets that were made of one that came in by `port`.
    #[inline]
    pub fn copied(&mut self, port: PortId, count: u64) {
        if let Some(p) = self.ports.get_mut(usize::from(port)) {
            p.copies += count;
        }
    }

    /// Counts a packet that ended in the control plane.
    #[inline]
    pub fn consumed(&mut self, port: PortId) {
        if let Some(p) = self.ports.get_mut(usize::from(port)) {
            p.consumed += 1;
        }
    }

    /// Counts a packet of the control plane.
    #[inline]
    pub fn injected(&mut self, port: PortId) {
        if let Some(p) = self.ports.get_mut(usize::from(port)) {
            p.injected += 1;
        }
    }

    /// Counts packets that the router sent on.
    #[inline]
    pub(crate) fn routed(&mut self, port: PortId, count: u64) {
        if let Some(p) = self.ports.get_mut(usize::from(port)) {
            p.routed += count;
        }
    }

    /// Counts packets that came in by a port and went by the fast table.
    pub(crate) fn fast_received(&mut self, port: PortId, packets: u64, bytes: u64) {
        if let Some(p) = self.ports.get_mut(usize::from(port)) {
            p.fast_received += packets;
            p.fast_received_bytes += bytes;
        }
    }

    /// Counts packets that the fast table has sent out by a port.
    pub(crate) fn fast_sent(&mut self, port: PortId, packets: u64, bytes: u64) {
        if let Some(p) = self.ports.get_mut(usize::from(port)) {
            p.fast_sent += packets;
            p.fast_sent_bytes += bytes;
        }
    }

    /// Counts drops.
    pub(crate) fn drop_many(&mut self, port: PortId, reason: DropReason, count: u64) {
        if let Some(p) = self.ports.get_mut(usize::from(port)) {
            p.drops[reason as usize] += count;
        }
    }

    /// Counts a drop.
    #[inline]
    pub fn drop(&mut self, port: PortId, reason: DropReason) {
        if let Some(p) = self.ports.get_mut(usize::from(port)) {
            p.drops[reason as usize] += 1;
        }
    }
}

/// Where every packet went:
/// `received + copied + injected = sent + rejected + dropped + consumed + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Packets that came to the ports.
    pub received: u64,
    /// Those of them that did not reach the pipeline: the receive queue was full, the frame was too
    /// long, or a tunnel's datagram came from a stranger.
    pub lost: u64,
    /// Copies made of them.
    pub copied: u64,
    /// Packets that the control plane made.
    pub injected: u64,
    /// Packets given to the devices.
    pub sent: u64,
    /// Packets that a device could never send.
    pub rejected: u64,
    /// Packets dropped for a named reason.
    pub dropped: u64,
    /// Packets handed to the control plane.
    pub consumed: u64,
    /// Packets waiting in queues and rings.
    pub held: u64,
}

impl AddAssign for Account {
    fn add_assign(&mut self, other: Account) {
        add_fields!(self, other; received, lost, copied, injected, sent, rejected, dropped);
        add_fields!(self, other; consumed, held);
    }
}

impl Account {
    /// Adds a port: what its device counted.
    pub fn add_port(&mut self, stats: &PortStats) {
        let lost = stats.rx_overflow + stats.rx_invalid + stats.rx_foreign;
        self.received += stats.rx_packets + lost;
        self.lost += lost;
        self.sent += stats.tx_packets;
        self.rejected += stats.tx_rejected;
    }

    /// Adds what a worker counted.
    pub fn add_counters(&mut self, counters: &Counters) {
        for port in &counters.ports {
            self.copied += port.copies;
            self.dropped += port.dropped();
            self.consumed += port.consumed;
            self.injected += port.injected;
            self.received += port.fast_received;
            self.sent += port.fast_sent;
        }
    }

    /// True if every packet is accounted for.
    pub fn balances(&self) -> bool {
        let ended = self.sent + self.rejected + self.dropped + self.consumed + self.lost;
        self.received + self.copied + self.injected == ended + self.held
    }
}
