//! State of each port (IEEE 802.1D-1998, 8.5.5), and the comparison of messages.

use std::time::Duration;

use plexus_wire::Time;

use super::bpdu::{BridgeId, Config};

/// The state of a port (8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// No carrier.
    Disabled,
    /// Only receives BPDUs: another path leads to the root.
    Blocking,
    /// Before learning: it may still turn out to close a loop.
    Listening,
    /// Before forwarding: learns the stations behind it.
    Learning,
    /// Takes part.
    Forwarding,
}

impl PortState {
    /// Listening, learning or forwarding.
    pub(super) fn is_active(self) -> bool {
        matches!(self, PortState::Listening | PortState::Learning | PortState::Forwarding)
    }
}

/// A port's contribution to the cost of a path (table 8-5: the recommended values; other rates cost
/// as much as the next lower one).
pub fn path_cost(rate_bits_per_s: u64) -> u32 {
    match rate_bits_per_s / 1_000_000 {
        10_000.. => 2,
        1_000.. => 4,
        622.. => 6,
        155.. => 14,
        100.. => 19,
        45.. => 39,
        16.. => 62,
        10.. => 100,
        _ => 250,
    }
}

/// What decides which of two words is better (8.6.2.2): the lesser one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Vector {
    pub(super) root: BridgeId,
    pub(super) cost: u32,
    pub(super) bridge: BridgeId,
    pub(super) port: u16,
}

#[derive(Debug)]
pub(super) struct Port {
    /// Priority 128, and its number from 1.
    pub(super) id: u16,
    pub(super) state: PortState,
    pub(super) path_cost: u32,
    /// The best message on the segment: ours, if we are designated.
    pub(super) best: Vector,
    /// When it was received, and its age then.
    heard_at: Time,
    heard_age: Duration,
    pub(super) topology_change_ack: bool,
    pub(super) config_pending: bool,
    /// When the timers of 8.5.6 are over; `FOREVER`: not running.
    pub(super) age_at: Time,
    pub(super) forward_at: Time,
    pub(super) hold_at: Time,
}

impl Port {
    pub(super) fn new(number: u16, bridge: BridgeId) -> Port {
        // Numbers have 8 bits (8.5.5.1); higher ones borrow bits from the priority, as in 802.1t,
        // and beyond 4,095 from the rest of it: all ports have different identifiers.
        let id = 0x8000 ^ number;
        Port {
            id,
            state: PortState::Disabled,
            path_cost: path_cost(0),
            best: Vector { root: bridge, cost: 0, bridge, port: id },
            heard_at: Time::ZERO,
            heard_age: Duration::ZERO,
            topology_change_ack: false,
            config_pending: false,
            age_at: Time::FOREVER,
            forward_at: Time::FOREVER,
            hold_at: Time::FOREVER,
        }
    }

    pub(super) fn stop(&mut self) {
        (self.topology_change_ack, self.config_pending) = (false, false);
        (self.age_at, self.forward_at) = (Time::FOREVER, Time::FOREVER);
        self.hold_at = Time::FOREVER;
    }

    pub(super) fn is_designated(&self, own: BridgeId) -> bool {
        self.best.bridge == own && self.best.port == self.id
    }

    /// The cost of the path to the root through this port. It cannot overflow, whatever is
    /// received.
    pub(super) fn cost_through(&self) -> u32 {
        self.best.cost.saturating_add(self.path_cost)
    }

    /// Supersedes port information (8.6.2.2): better, or another word of the same sender.
    pub(super) fn is_superseded_by(&self, config: &Config, own: BridgeId) -> bool {
        let word = Vector::of(config);
        let (w, b) = (word, self.best);
        let same_sender = (w.root, w.cost, w.bridge) == (b.root, b.cost, b.bridge);
        word < b || same_sender && (w.bridge != own || w.port <= b.port)
    }

    /// Record configuration information (8.6.2).
    pub(super) fn record(&mut self, now: Time, config: &Config) {
        self.best = Vector::of(config);
        (self.heard_at, self.heard_age) = (now, config.message_age);
        self.age_at = now + config.max_age.saturating_sub(config.message_age);
    }

    /// How old the word is by now.
    pub(super) fn age(&self, now: Time) -> Duration {
        now.since(self.heard_at) + self.heard_age
    }

    pub(super) fn next_deadline(&self) -> Time {
        self.age_at.min(self.forward_at).min(self.hold_at)
    }
}

impl Vector {
    fn of(config: &Config) -> Vector {
        Vector {
            root: config.root,
            cost: config.root_path_cost,
            bridge: config.bridge,
            port: config.port,
        }
    }
}
