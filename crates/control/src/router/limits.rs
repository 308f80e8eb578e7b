//! Limits on what the router stores and sends.

use serde::{Deserialize, Serialize};

/// Limits. What exceeds them is refused and counted, unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Interfaces: one for each VLAN.
    pub interfaces: usize,
    /// Own addresses of one interface.
    pub addresses: usize,
    /// Routes of all sources together, including those that wait. Some 50 bytes each.
    pub routes: usize,
    /// Neighbours, resolved and pending. When full, the least useful one on the interface with most
    /// is evicted. At most 16,384: each may need a group.
    pub neighbours: usize,
    /// Pending neighbours on one interface; the one pending for longest is evicted.
    pub incomplete: usize,
    /// Most frames that wait for one neighbour; the oldest are dropped.
    pub queue: usize,
    /// Most bytes that wait in total; the oldest are dropped.
    pub queue_bytes: usize,
    /// Questions for link addresses on one interface, after a burst of a tenth. Those for gateways
    /// do not count: their number is bounded by the routes.
    pub requests_per_s: u32,
    /// ICMP errors in total, after a burst of a tenth (RFC 1812, 4.3.2.8; RFC 4443, 2.4 (f)).
    pub errors_per_s: u32,
    /// ICMP errors about packets of one interface, likewise.
    pub interface_errors_per_s: u32,
    /// Echo replies and resets on one interface, likewise.
    pub replies_per_s: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            interfaces: 4094,
            addresses: 256,
            routes: 2_000_000,
            neighbours: 16_384,
            incomplete: 512,
            queue: 3,
            queue_bytes: 4 << 20,
            requests_per_s: 1000,
            errors_per_s: 1000,
            interface_errors_per_s: 250,
            replies_per_s: 1000,
        }
    }
}
