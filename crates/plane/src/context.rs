//! What every stage and forwarder may use: time, frames, plans, counts, and the way to the control
//! plane and the devices. The pipeline makes one for each batch.

use plexus_io::{Batch, Packet, Pool, PortId};
use plexus_wire::Time;

use crate::control::{self, ControlQueue, DROPPED_EXCERPT};
use crate::counters::Counters;
use crate::drops::DropReason;
use crate::fabric::plan::FabricPlan;
use crate::router::fib::FibBatch;
use crate::router::plan::RouterPlan;
use crate::snapshot::Snapshot;
use crate::verdict::Punt;

/// Empties a transmit batch that is full while more packets are due for it.
pub(crate) trait Outlet {
    /// Hands a port's packets to its device; those that it does not take stay.
    fn hand_over(&mut self, now: Time, pool: &mut Pool, port: PortId, packets: &mut Batch);
}

/// What every stage may use.
pub struct Context<'a> {
    /// The instant of this batch.
    pub now: Time,
    /// The frames.
    pub pool: &'a mut Pool,
    /// The configuration in force.
    pub plan: &'a Snapshot,
    /// A fabric node's part of it; empty for a switch.
    pub fabric: &'a FabricPlan,
    /// A router's part of it; empty for a box that does not route.
    pub router: &'a RouterPlan,
    /// A router's tables.
    pub(crate) fib: Option<&'a FibBatch<'a>>,
    /// This worker's counts.
    pub counters: &'a mut Counters,
    /// Packets that wait for the control plane.
    pub(crate) control: &'a mut ControlQueue,
    /// The devices, where they can be reached.
    pub(crate) outlet: Option<&'a mut dyn Outlet>,
}

impl Context<'_> {
    /// Ends a packet, for this reason, on this port's account.
    #[inline]
    pub fn drop(&mut self, packet: Packet, port: PortId, reason: DropReason) {
        self.counters.drop(port, reason);
        self.pool.free(packet);
    }

    /// Hands a packet to the control plane or to the forwarder of names, or drops it.
    pub(crate) fn hand_over(&mut self, punt: Punt, mut packet: Packet) {
        let in_port = packet.in_port;
        if let Some(reason) = punt.dropped_for() {
            self.counters.drop(in_port, reason);
            let fits = self.control.has_room(self.pool, punt);
            if fits && self.control.admits(self.now, punt, &packet, self.pool.data(&packet)) {
                // The frame is dropped and accounted for; the control plane's is another.
                self.counters.copied(in_port, 1);
                let len = packet.len().min(DROPPED_EXCERPT);
                self.pool.set_len(&mut packet, len);
                return self.consume(punt, packet);
            }
            return self.pool.free(packet);
        }
        if !self.control.admits(self.now, punt, &packet, self.pool.data(&packet)) {
            return self.drop(packet, in_port, DropReason::ControlRate);
        }
        if !self.control.has_room(self.pool, punt) {
            return self.drop(packet, in_port, DropReason::ControlFull);
        }
        let is_whole = !matches!(punt, Punt::Control | Punt::Bootstrap);
        if is_whole && !control::finish(self.pool, &mut packet) {
            return self.drop(packet, in_port, DropReason::BadOffload);
        }
        self.consume(punt, packet);
    }

    fn consume(&mut self, punt: Punt, packet: Packet) {
        self.counters.consumed(packet.in_port);
        self.control.push(punt, packet);
    }
}
