//! The pipeline: lookup, output queues and transmit queues of one worker, as a function of time
//! and packets. Receive queues and input arbiter feed it (`stage/receive.rs`,
//! `stage/arbiter.rs`).

use std::sync::Arc;

use plexus_io::{Batch, Capabilities, Link, Packet, Pool, PortId};
use plexus_wire::Time;

use crate::counters::Counters;
use crate::drops::DropReason;
use crate::snapshot::Snapshot;
use crate::stage::lookup::Lookup;
use crate::stage::output::OutputQueues;
use crate::stage::transmit;
use crate::switch::{LearnedMac, Switch};

/// What every stage may use.
pub struct Context<'a> {
    /// The instant of this batch.
    pub now: Time,
    /// The frames.
    pub pool: &'a mut Pool,
    /// The configuration in force.
    pub plan: &'a Snapshot,
    /// This worker's counts.
    pub counters: &'a mut Counters,
}

impl Context<'_> {
    /// Ends a packet, for this reason, on this port's account.
    #[inline]
    pub fn drop(&mut self, packet: Packet, port: PortId, reason: DropReason) {
        self.counters.drop(port, reason);
        self.pool.free(packet);
    }
}

/// One worker's pipeline over all ports of the box.
pub struct Pipeline {
    plan: Arc<Snapshot>,
    counters: Counters,
    lookup: Lookup,
    output: OutputQueues,
}

impl Pipeline {
    /// A pipeline for worker number `worker`. `seed` keys the tables' hashes. With `share`, what
    /// is learned is kept for [`Pipeline::news`], for other workers.
    pub fn new(plan: Arc<Snapshot>, worker: usize, seed: u64, share: bool) -> Pipeline {
        let counters = Counters::new(plan.ports.len());
        let lookup = Lookup::new(Switch::new(&plan, seed, share));
        let output = OutputQueues::new(&plan, worker);
        Pipeline { plan, counters, lookup, output }
    }

    /// The stages after reception, in order: decides where each packet of the batch goes, queues
    /// it there, and moves what may leave by now into the transmit batches ([`Self::to_transmit`]).
    /// The batch comes back empty.
    pub fn run(&mut self, now: Time, pool: &mut Pool, batch: &mut Batch) {
        let mut context = Context { now, pool, plan: &self.plan, counters: &mut self.counters };
        self.lookup.run(&mut context, batch);
        self.output.run(&mut context, batch);
        transmit::run(&mut context, &mut self.output);
    }

    /// Queues a packet whose output port another worker's lookup chose. That worker may follow an
    /// older configuration, by which the port still carried the packet's VLAN.
    pub fn deliver(&mut self, now: Time, pool: &mut Pool, port: PortId, packet: Packet) {
        let mut context = Context { now, pool, plan: &self.plan, counters: &mut self.counters };
        if context.plan.ports.get(usize::from(port)).is_some_and(|p| !p.carries(packet.vlan)) {
            return context.drop(packet, port, DropReason::NoEgress);
        }
        self.output.enqueue(&mut context, port, packet);
    }

    /// Packets that may leave by this port now. What the device does not take stays here.
    #[inline]
    pub fn to_transmit(&mut self, port: PortId) -> &mut Batch {
        self.output.transmit_batch(port)
    }

    /// Packets bound for ports of other workers; the caller takes them all.
    pub fn crossing(&mut self) -> &mut Vec<(PortId, Packet)> {
        &mut self.output.crossing
    }

    /// Stations learned or refreshed in the last run, for the other workers; the caller takes
    /// them all.
    pub fn news(&mut self) -> &mut Vec<LearnedMac> {
        self.lookup.switch.news()
    }

    /// Takes note of what another worker has learned.
    pub fn hear(&mut self, now: Time, news: LearnedMac) {
        self.lookup.switch.hear(now, &self.plan, news);
    }

    /// Follows a new configuration: queues are kept, stations that no longer fit are forgotten.
    pub fn adopt(&mut self, now: Time, plan: Arc<Snapshot>) {
        self.lookup.switch.adopt(now, &plan);
        self.output.adopt(&plan);
        self.counters.ports.resize(plan.ports.len(), Default::default());
        self.plan = plan;
    }

    /// A port's link has changed. When it goes down, the stations behind it are forgotten and its
    /// queues emptied.
    pub fn set_link(&mut self, now: Time, pool: &mut Pool, port: PortId, link: Link) {
        let mut context = Context { now, pool, plan: &self.plan, counters: &mut self.counters };
        self.output.set_link(&mut context, port, link);
        if link == Link::Down {
            self.lookup.switch.forget_port(port);
        }
    }

    /// What a port leaves to its device.
    pub fn set_capabilities(&mut self, port: PortId, capabilities: Capabilities) {
        self.output.set_capabilities(port, capabilities);
    }

    /// Slow work: ages stations. Call it some ten times a second.
    pub fn tick(&mut self, now: Time) {
        self.lookup.switch.age(now);
    }

    /// When a waiting packet may next leave; `FOREVER` if none waits for time to pass.
    pub fn next_deadline(&self) -> Time {
        self.output.next_deadline()
    }

    /// The configuration in force.
    pub fn plan(&self) -> &Arc<Snapshot> {
        &self.plan
    }

    /// The counts.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts a packet that ended outside the stages.
    pub(crate) fn count_drop(&mut self, port: PortId, reason: DropReason) {
        self.counters.drop(port, reason);
    }

    /// Counts packets that were made of one that came in by `port`, outside the stages.
    pub(crate) fn count_copies(&mut self, port: PortId, count: u64) {
        self.counters.copied(port, count);
    }

    /// Packets in queues, transmit batches and on their way to other workers.
    pub fn held(&self) -> usize {
        self.output.held()
    }

    /// Packets and bytes waiting at a port.
    pub fn queued(&self, port: PortId) -> (usize, usize) {
        self.output.queued(port)
    }

    /// The switch's table.
    pub fn switch(&self) -> &Switch {
        &self.lookup.switch
    }

    /// Gives every packet it holds back to the pool; they are no longer accounted for.
    pub fn clear(&mut self, pool: &mut Pool) {
        self.output.clear(pool);
    }
}
