//! The pipeline: lookup, output queues and transmit queues of one worker, as a function of time
//! and packets. Receive queues and input arbiter feed it (`stage/receive.rs`,
//! `stage/arbiter.rs`).

use std::collections::VecDeque;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use plexus_io::fast::FastTable;
use plexus_io::{Batch, Capabilities, Link, Packet, Pool, Port, PortId};
use plexus_wire::Time;
use plexus_wire::fabric::ROUTER_HOP;

use crate::context::{Context, Outlet};
use crate::control::{CONTROL_CLASS, ControlLimits, ControlQueue, Injection, ToControl};
use crate::counters::Counters;
use crate::drops::DropReason;
use crate::fabric::Fabric;
use crate::fabric::plan::FabricPlan;
use crate::fast::{Clears, Fast, Plans};
use crate::flow::Queued;
use crate::router::Router;
use crate::router::fib::{FibBatch, FibReaders};
use crate::router::hosts::Routed;
use crate::router::plan::RouterPlan;
use crate::sample::{Sample, Sampled};
use crate::snapshot::Snapshot;
use crate::stage::lookup::Lookup;
use crate::stage::output::OutputQueues;
use crate::stage::output::deep::DeepReport;
use crate::stage::transmit;
use crate::switch::{LearnedMac, Switch};
use crate::verdict::{FORWARDED, Origin, Punt, Verdict};

/// One worker's pipeline over all ports of the box.
pub struct Pipeline {
    plan: Arc<Snapshot>,
    fabric: Arc<FabricPlan>,
    published: Option<Cache<Arc<ArcSwap<FabricPlan>>, Arc<FabricPlan>>>,
    router: Arc<RouterPlan>,
    published_router: Option<Cache<Arc<ArcSwap<RouterPlan>>, Arc<RouterPlan>>>,
    fib: Option<FibReaders>,
    counters: Counters,
    control: ControlQueue,
    lookup: Lookup,
    output: OutputQueues,
    /// The rules of this worker, on a box with a fast table.
    fast: Option<Fast>,
    /// A sample of flows, while somebody looks.
    sample: Option<Box<Sample>>,
    seed: u64,
}

/// What the stages may use, of a pipeline whose other fields stay free for use.
macro_rules! context {
    ($pipeline:expr, $now:expr, $pool:expr) => {
        context!($pipeline, $now, $pool, None)
    };
    ($pipeline:expr, $now:expr, $pool:expr, $fib:expr) => {
        Context {
            now: $now,
            pool: $pool,
            plan: &$pipeline.plan,
            fabric: &$pipeline.fabric,
            router: &$pipeline.router,
            fib: $fib,
            counters: &mut $pipeline.counters,
            control: &mut $pipeline.control,
            outlet: None,
        }
    };
}

/// The plans that rules of the fast table depend on.
macro_rules! plans {
    ($pipeline:expr, $fib:expr) => {
        Plans {
            snapshot: &$pipeline.plan,
            fabric: &$pipeline.fabric,
            forwarder: &$pipeline.lookup.fabric,
            router: &$pipeline.router,
            fib: $fib,
            seed: $pipeline.lookup.router.seed(),
        }
    };
}

mod explain;
pub use explain::{Explanation, Facts, Question, explain};

impl Pipeline {
    /// A pipeline for worker number `worker`. `seed` keys the tables' hashes. With `share`, what
    /// is learned is kept for [`Pipeline::news`], for other workers.
    pub fn new(plan: Arc<Snapshot>, worker: usize, seed: u64, share: bool) -> Pipeline {
        let switch = Switch::new(&plan, seed, share);
        Pipeline::with_switch(plan, worker, seed, switch)
    }

    fn with_switch(plan: Arc<Snapshot>, worker: usize, seed: u64, switch: Switch) -> Pipeline {
        let counters = Counters::new(plan.ports.len());
        let mut lookup = Lookup {
            switch,
            fabric: Fabric::new(seed),
            router: Router::new(seed),
            routed: Routed::default(),
        };
        lookup.fabric.storms.adopt(&plan);
        let output = OutputQueues::new(&plan, worker, seed);
        let mut pipeline = Pipeline {
            published: plan.fabric.clone().map(Cache::new),
            published_router: plan.router.as_ref().map(|r| Cache::new(r.plan.clone())),
            fib: plan.router.as_ref().map(|r| r.fib.clone()),
            plan,
            fabric: Arc::default(),
            router: Arc::default(),
            counters,
            control: ControlQueue::new(seed),
            lookup,
            output,
            fast: None,
            sample: None,
            seed,
        };
        pipeline.follow_plans(Time::ZERO, None);
        pipeline
    }

    /// Picks up the fabric's and the router's plans, if others have been published. `fib`: the
    /// router's tables, of which a batch has begun, so that no entry names a group that is not in
    /// this plan.
    #[inline]
    fn follow_plans(&mut self, now: Time, fib: Option<&FibBatch<'_>>) {
        if let Some(published) = &mut self.published_router {
            let plan = published.load();
            if !Arc::ptr_eq(plan, &self.router) {
                let has_moved = !self.router.is_reached_as(plan);
                self.router = plan.clone();
                self.lookup.fabric.forget_neighbours();
                self.limit_control();
                // The router may have an address that was a station's.
                if has_moved {
                    self.lookup.switch.adopt_router(now, &self.plan, &self.router);
                }
                if let Some(fast) = &mut self.fast {
                    fast.note_routes();
                    if has_moved {
                        fast.end_all(now);
                    }
                }
            }
        }
        if let Some(published) = &mut self.published {
            let plan = published.load();
            if !Arc::ptr_eq(plan, &self.fabric) {
                self.fabric = plan.clone();
                self.lookup.fabric.adopt(&self.fabric);
                self.limit_control();
                if let Some(fast) = &mut self.fast {
                    fast.adopt_fabric(now, &self.lookup.switch, plans!(self, fib));
                    self.lookup.fabric.carry(now, &fast.take_carried());
                }
            }
        }
    }

    /// Sets the limits on what ports send to the control planes: those of the fabric's plan, or the
    /// defaults on a box without one.
    fn limit_control(&mut self) {
        let limits = match self.published {
            Some(_) => *self.fabric.limits(),
            None => ControlLimits::default(),
        };
        self.control.adopt(&limits, self.plan.ports.len());
    }

    /// The stages after reception, in order: decides where each packet of the batch goes, queues
    /// it there, and moves what may leave by now into the transmit batches ([`Self::to_transmit`]).
    /// The batch comes back empty.
    #[inline]
    pub fn run(&mut self, now: Time, pool: &mut Pool, batch: &mut Batch) {
        self.run_into(now, pool, batch, None);
    }

    /// The same, with a way to empty transmit batches that become full.
    #[inline]
    pub(crate) fn run_into(
        &mut self,
        now: Time,
        pool: &mut Pool,
        batch: &mut Batch,
        outlet: Option<&mut dyn Outlet>,
    ) {
        // Readers are many words to move for a box that does not route.
        if self.fib.is_none() {
            return self.run_with(now, pool, batch, None, outlet);
        }
        let mut fib = self.fib.take();
        self.run_with(now, pool, batch, fib.as_mut().map(FibReaders::batch), outlet);
        self.fib = fib;
    }

    #[inline(never)]
    fn run_with(
        &mut self,
        now: Time,
        pool: &mut Pool,
        batch: &mut Batch,
        fib: Option<FibBatch<'_>>,
        outlet: Option<&mut dyn Outlet>,
    ) {
        self.follow_plans(now, fib.as_ref());
        let fib = fib.as_ref().filter(|_| self.router.has_interfaces());
        let mut context = context!(self, now, pool, fib);
        context.outlet = outlet.map(|outlet| outlet as _);
        if let Some(fast) = &mut self.fast {
            let plans = plans!(self, fib);
            fast.follow_routes(now, &self.lookup.switch, plans);
            fast.see_arrivals(context.pool, batch, plans);
        }
        self.lookup.run(&mut context, &self.output, batch);
        let switched = self.lookup.switch.take_sent();
        let in_fabric = self.lookup.fabric.take_forwarded();
        if let Some(fast) = &mut self.fast {
            fast.see(now, context.pool, batch, switched, in_fabric, context.fabric);
            while let Some(station) = self.lookup.switch.take_moved() {
                fast.end_of_station(now, station);
            }
        }
        if let Some(sample) = &mut self.sample {
            sample.see(now, context.pool, context.fabric, batch);
        }
        self.output.run(&mut context, &mut self.lookup, batch);
        transmit::run(&mut context, &mut self.output);
    }

    /// Where the host's frame begins in what leaves by a port.
    pub(crate) fn host_frame_at(&self, port: PortId, frame: &[u8]) -> usize {
        Queued::new(&self.fabric, port, frame).inner
    }

    /// Queues a packet whose output port another worker's lookup chose. That worker may still have
    /// an older configuration, in which the port carried the packet's VLAN.
    pub fn deliver(&mut self, now: Time, pool: &mut Pool, port: PortId, packet: Packet) {
        let mut context = context!(self, now, pool);
        let exists = context.plan.ports.get(usize::from(port));
        if exists.is_some_and(|p| !p.in_fabric && !p.carries(packet.vlan)) {
            return context.drop(packet, port, DropReason::NoEgress);
        }
        self.output.enqueue(&mut context, port, packet);
    }

    /// Packets for the forwarder of names, in order; the caller takes them all and frees them.
    pub fn to_named(&mut self) -> &mut VecDeque<ToControl> {
        &mut self.control.named
    }

    /// Packets for the node's control planes, in order; the caller takes them all and frees them.
    pub fn to_control(&mut self) -> &mut VecDeque<ToControl> {
        &mut self.control.waiting
    }

    /// Sends a packet of the node itself: hosts' frames and named data in their own class, all
    /// others in the highest. It is queued at once, and leaves with the next run.
    ///
    /// # Errors
    /// Why it was dropped at once. The drop counts at the port named by `how`, or at port 0.
    pub fn inject(
        &mut self,
        now: Time,
        pool: &mut Pool,
        bytes: &[u8],
        how: Injection,
    ) -> Result<(), DropReason> {
        let mut fib = self.fib.take();
        let sent = self.inject_with(now, pool, bytes, how, fib.as_mut().map(FibReaders::batch));
        self.fib = fib;
        sent
    }

    fn inject_with(
        &mut self,
        now: Time,
        pool: &mut Pool,
        bytes: &[u8],
        how: Injection,
        fib: Option<FibBatch<'_>>,
    ) -> Result<(), DropReason> {
        self.follow_plans(now, fib.as_ref());
        let mut context = context!(self, now, pool, fib.as_ref());
        let account = match how {
            Injection::Routed(port) if port == ROUTER_HOP.into() => 0,
            Injection::Port(port) | Injection::Named(port) | Injection::Routed(port) => port,
            Injection::Fabric => 0,
            Injection::Vlan(vlan) | Injection::Received(vlan) => {
                context.plan.members(vlan).first().copied().unwrap_or(0)
            }
        };
        context.counters.injected(account);
        let Some(mut packet) = context.pool.alloc_from(bytes) else {
            let fits = bytes.len() <= context.pool.max_len();
            let reason = if fits { DropReason::NoFrame } else { DropReason::TooLong };
            context.counters.drop(account, reason);
            return Err(reason);
        };
        packet.in_port = account;
        packet.priority = CONTROL_CLASS;
        let verdict = match how {
            Injection::Port(port) | Injection::Named(port) => {
                // As it is: in the VLAN whose frames the port sends without a tag.
                let of_port = context.plan.ports.get(usize::from(port)).filter(|p| !p.in_fabric);
                packet.vlan = of_port.map_or(0, |plan| plan.native);
                if matches!(how, Injection::Named(_)) {
                    packet.priority = of_port.map_or(0, |plan| plan.settings.priority);
                }
                Verdict::Forward(port)
            }
            Injection::Fabric => self.lookup.fabric.inject(&mut context, &mut packet),
            Injection::Routed(port) => {
                if port == ROUTER_HOP.into() {
                    packet.flags |= FORWARDED;
                }
                packet.priority = 0;
                let packet = std::slice::from_mut(&mut packet);
                self.lookup.route_for_group(&mut context, &self.output, packet, 1);
                Verdict::load(&packet[0])
            }
            Injection::Vlan(vlan) => {
                packet.vlan = vlan;
                let routed = context.router.interface(vlan).and_then(|i| i.port);
                let port = routed.or_else(|| self.lookup.place(&context, &packet));
                port.map_or(Verdict::FloodRouted, Verdict::Forward)
            }
            Injection::Received(vlan) => {
                (packet.vlan, packet.priority) = (vlan, 0);
                self.lookup.receive(&mut context, &mut packet)
            }
        };
        match verdict {
            Verdict::Forward(port) if usize::from(port) < context.plan.ports.len() => {
                self.output.enqueue(&mut context, port, packet);
                Ok(())
            }
            Verdict::Tree(Origin::Link) => {
                self.lookup.fabric.send_along_tree(&mut context, &mut self.output, packet);
                Ok(())
            }
            Verdict::Control(Punt::Control) => {
                context.hand_over(Punt::Control, packet);
                Ok(())
            }
            // The control plane has just said that it can be routed: it must not come back.
            Verdict::Control(Punt::Unresolved(_) | Punt::Local | Punt::Neighbour)
                if matches!(how, Injection::Routed(_)) =>
            {
                context.drop(packet, account, DropReason::NoRoute);
                Err(DropReason::NoRoute)
            }
            Verdict::Drop(reason) => {
                context.drop(packet, account, reason);
                Err(reason)
            }
            verdict
                if matches!(
                    how,
                    Injection::Vlan(_) | Injection::Received(_) | Injection::Routed(_)
                ) =>
            {
                packet.in_port = account;
                self.output.carry_out(&mut context, &mut self.lookup, verdict, packet);
                Ok(())
            }
            Verdict::Control(Punt::Error(reason)) => {
                context.drop(packet, account, reason);
                Err(reason)
            }
            _ => {
                context.drop(packet, account, DropReason::HopToNowhere);
                Err(DropReason::HopToNowhere)
            }
        }
    }

    /// Packets that may leave by this port now. What the device does not take stays here.
    #[inline]
    pub fn to_transmit(&mut self, port: PortId) -> &mut Batch {
        self.output.transmit_batch(port)
    }

    /// True if packets wait behind a full transmit batch, or for time to pass.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.output.is_behind()
    }

    /// The first paced port, from number `from` on, whose packets have become free to leave since
    /// it was last returned: so a driver with many paced ports need not look at each. Packets for
    /// an unpaced port may bypass the queues, and such ports are not returned.
    #[inline]
    pub fn take_filled(&mut self, from: PortId) -> Option<PortId> {
        self.output.take_filled(from.into())
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
        let router = plan.router.as_ref().map(|r| r.plan.load_full()).unwrap_or_default();
        self.lookup.switch.adopt(now, &plan, &router);
        self.lookup.fabric.storms.adopt(&plan);
        self.output.adopt(&plan);
        self.counters.ports.resize(plan.ports.len(), Default::default());
        self.published = plan.fabric.clone().map(Cache::new);
        self.published_router = plan.router.as_ref().map(|r| Cache::new(r.plan.clone()));
        self.fib = plan.router.as_ref().map(|r| r.fib.clone());
        self.plan = plan;
        self.fabric = Arc::default();
        self.router = Arc::default();
        self.follow_plans(now, None);
        if let Some(fast) = &mut self.fast {
            fast.end_all(now);
        }
    }

    /// Begins a sample of flows.
    pub(crate) fn begin_sample(&mut self, now: Time) {
        self.sample = Some(Box::new(Sample::new(now, self.seed)));
    }

    /// Ends the sample of flows; none if somebody else has.
    pub(crate) fn end_sample(&mut self, now: Time) -> Option<Sampled> {
        self.sample.take().map(|sample| sample.report(now))
    }

    /// Gives the pipeline a fast table, to put flows into.
    pub(crate) fn set_fast_table(&mut self, table: Box<dyn FastTable>, clears: Clears, seed: u64) {
        self.lookup.switch.note_moves();
        self.fast = Some(Fast::new(table, clears, self.plan.ports.len(), seed));
    }

    /// The rules of the fast table, if there is one.
    #[inline]
    pub(crate) fn fast(&mut self) -> Option<&mut Fast> {
        self.fast.as_mut()
    }

    /// A round of the fast table; see [`Fast::round`].
    pub(crate) fn fast_round(&mut self, now: Time, overflows: impl Fn(PortId) -> bool) {
        self.by_plans(now, |fast, switch, plans, counters| {
            fast.round(now, switch, plans, counters, overflows);
        });
    }

    /// Lets the fast table act by the plans, as for a batch of packets.
    fn by_plans(
        &mut self,
        now: Time,
        act: impl FnOnce(&mut Fast, &mut Switch, Plans<'_>, &mut Counters),
    ) {
        if self.fast.is_none() {
            return;
        }
        let mut readers = self.fib.take();
        let fib = readers.as_mut().map(FibReaders::batch);
        self.follow_plans(now, fib.as_ref());
        if let Some(fast) = &mut self.fast {
            let plans = plans!(self, fib.as_ref());
            act(fast, &mut self.lookup.switch, plans, &mut self.counters);
            self.lookup.fabric.carry(now, &fast.take_carried());
        }
        drop(fib);
        self.fib = readers;
    }

    /// Brings the counts of the fast table up to date.
    pub(crate) fn count_fast(&mut self, now: Time) {
        if let Some(fast) = &mut self.fast {
            fast.count(now, &self.router, &mut self.counters);
        }
    }

    /// A turn of the worker has ended; see [`Fast::end_turn`]. `is_caught_up` says that other
    /// workers want to know which ports are clear, and that packets of theirs which had come at the
    /// last such time have been taken in; `ports` are the worker's.
    #[inline]
    pub(crate) fn end_fast_turn(
        &mut self,
        now: Time,
        is_drained: impl Fn(PortId) -> bool,
        is_caught_up: bool,
        ports: &[(PortId, Box<dyn Port>)],
    ) {
        let Some(fast) = &mut self.fast else { return };
        let output = &self.output;
        let find = |port| ports.iter().find(|(own, _)| *own == port).map(|(_, port)| port);
        let is_clear = |id: PortId, port: &dyn Port| output.queued(id).0 == 0 && port.has_sent();
        fast.end_turn(
            now,
            is_drained,
            |port| find(port).map_or(0, |port| port.passed_mark()),
            |id| find(id).map(|port| is_clear(id, &**port)),
        );
        if is_caught_up {
            let clear = ports.iter().filter(|(id, port)| is_clear(*id, &**port));
            fast.note_clear(clear.map(|(id, _)| *id));
        }
    }

    /// A port's link has changed. When it goes down, the stations behind it are forgotten and its
    /// queues emptied.
    pub fn set_link(&mut self, now: Time, pool: &mut Pool, port: PortId, link: Link) {
        let mut context = context!(self, now, pool);
        self.output.set_link(&mut context, port, link);
        self.lookup.fabric.set_link(&self.fabric, port, link);
        if link == Link::Down {
            self.lookup.switch.forget_port(port);
            if let Some(fast) = &mut self.fast {
                fast.close(now, port);
            }
        }
        // Flows may change to other routes, and back.
        self.by_plans(now, |fast, switch, plans, _| fast.adopt_fabric(now, switch, plans));
    }

    /// What a port leaves to its device.
    pub fn set_capabilities(&mut self, port: PortId, capabilities: Capabilities) {
        self.output.set_capabilities(port, capabilities);
    }

    /// Slow work: ages stations. Call it some ten times a second.
    pub fn tick(&mut self, now: Time) {
        self.lookup.switch.age(now);
        self.output.tick(now);
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

    /// The deep buffer, if a port of this worker uses one.
    pub fn deep(&self, now: Time) -> Option<DeepReport> {
        self.output.deep(now)
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
        self.control.clear(pool);
        self.output.clear(pool);
    }
}
