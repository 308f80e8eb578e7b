//! What the router may keep and send.

use serde::{Deserialize, Serialize};

/// Bounds. What would go beyond is refused and counted, unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Interfaces: one for each VLAN.
    pub interfaces: usize,
    /// Own addresses of one interface.
    pub addresses: usize,
    /// Routes of all sources together, those that wait included. Some 50 bytes each.
    pub routes: usize,
    /// Neighbours, known and asked for. With no room left, the least useful one on the interface
    /// with the most gives way. At most 16,384: each may need a group.
    pub neighbours: usize,
    /// Neighbours asked for on one interface; the one asked for longest gives way.
    pub incomplete: usize,
    /// Frames that wait for one neighbour; the newest stay.
    pub queue: usize,
    /// Bytes that wait in all; the newest stay.
    pub queue_bytes: usize,
    /// Questions for link addresses on one interface, after a burst of a tenth. Those for gateways
    /// do not count: their number is the routes'.
    pub requests_per_s: u32,
    /// ICMP errors in all, after a burst of a tenth (RFC 1812, 4.3.2.8; RFC 4443, 2.4 (f)).
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
