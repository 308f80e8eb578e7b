//! Stage 4, output queues: each packet takes the form that its output port needs and waits there,
//! in one of eight queues by traffic class. Within a class flows take turns, or input ports
//! (`class.rs`).
//!
//! - In: packets with a verdict; packets from other workers' lookups.
//! - Out: packets in queues, or in the transmit batch when nothing is ahead of them.
//! - Parameters: [`QueueSettings`](plexus_config::QueueSettings): order, packets, bytes, ECN
//!   threshold.
//! - Drops: the lookup's, `control_rate`, `control_full`, `no_egress`, `no_frame`, `port_down`,
//!   `too_long`, `queue_packets`, `queue_bytes`, `bad_offload`.
//!
//! Example: a packet of p1 is to be flooded in VLAN 10, whose other ports are p2 (a trunk) and p3
//! (10 is its native VLAN). The copy to p2 gets a tag; the one to p3 leaves as it is.

pub(crate) mod class;
pub(crate) mod deep;
pub(crate) mod shelf;

use std::time::Duration;

use plexus_config::{QueueOrder, QueueSettings};
use plexus_io::{
    Batch, Capabilities, Checksum, Form, Link, PORT_NONE, Packet, Pool, PortId, Segmentation,
    Taken, take_each,
};
use plexus_wire::Time;

use self::class::{Class, Key};
use self::deep::{DEEP_CLASS, DeepReport, Store};
use crate::context::Context;
use crate::drops::DropReason;
use crate::flow::Queued;
use crate::marks::Marks;
use crate::offload;
use crate::pace::{CABLE_MINIMUM, Pacer};
use crate::snapshot::Snapshot;
use crate::verdict::{Punt, Verdict};
use crate::vlan;

/// Traffic classes, as in IEEE 802.1Q: 0 best effort to 7 network control.
pub(crate) const CLASSES: usize = 8;

/// Every port's queues, as this worker sees them: those of other workers' ports stay empty.
pub(crate) struct OutputQueues {
    worker: usize,
    /// Keys the hash of flows, so that no sender can choose a flow to share its turn with.
    seed: u64,
    /// Where the packets of all ports wait.
    store: Store,
    ports: Vec<PortQueues>,
    /// Ports at which packets may wait; others are not looked at.
    busy: Marks,
    /// Paced ports into whose transmit batch packets have been moved.
    filled: Marks,
    /// Packets for ports of other workers.
    pub(crate) crossing: Vec<(PortId, Packet)>,
}

/// A forwarder's part in this stage: some packets are finished only here, where their owed work
/// can be done. This stage names no forwarder.
pub(crate) trait Egress {
    /// Finishes a packet with a verdict of its forwarder's own, and queues the result.
    fn finish(
        &mut self,
        context: &mut Context<'_>,
        queues: &mut OutputQueues,
        verdict: Verdict,
        packet: Packet,
    );
}

pub(crate) struct PortQueues {
    id: PortId,
    /// Packets that may leave now.
    pub(crate) transmit: Batch,
    /// Packets that wait, over all classes.
    waiting: usize,
    /// The form of packets that can leave as they are, if they are not too long: nothing is ahead
    /// of them, and the port is ours and up. See [`PortQueues::settle`].
    open: Form,
    local: bool,
    seed: u64,
    link: Link,
    native: u16,
    capabilities: Capabilities,
    limits: QueueSettings,
    pub(crate) pacer: Option<Pacer>,
    classes: [Class; CLASSES],
}

impl OutputQueues {
    pub(crate) fn new(plan: &Snapshot, worker: usize, seed: u64) -> OutputQueues {
        let mut queues = OutputQueues {
            worker,
            seed,
            store: Store::default(),
            ports: vec![],
            busy: Marks::default(),
            filled: Marks::default(),
            crossing: vec![],
        };
        queues.adopt(plan);
        queues
    }

    /// Carries out the verdicts of a batch, which comes back empty.
    #[inline(never)]
    pub(crate) fn run(
        &mut self,
        context: &mut Context<'_>,
        egress: &mut dyn Egress,
        batch: &mut Batch,
    ) {
        let (now, is_alone) = (context.now, batch.len() == 1);
        let mut packets = take_each(batch);
        while let Some(packet) = pass_open(&mut self.ports, &mut packets) {
            match self.ports.get_mut(Verdict::place(&packet)) {
                Some(queues) if is_alone && queues.can_begin(&packet, now) => {
                    queues.occupy_cable(&packet, now);
                    self.filled.insert(Verdict::place(&packet) as PortId);
                    packet.move_to(&mut queues.transmit);
                }
                _ => {
                    let verdict = Verdict::load(&packet);
                    self.carry_out(context, egress, verdict, packet.into_packet());
                }
            }
        }
    }

    /// Carries out one of the rare decisions.
    #[cold]
    #[inline(never)]
    pub(crate) fn carry_out(
        &mut self,
        context: &mut Context<'_>,
        egress: &mut dyn Egress,
        verdict: Verdict,
        packet: Packet,
    ) {
        match verdict {
            Verdict::Route(_) | Verdict::Tree(_) | Verdict::Fragment(_) => {
                egress.finish(context, self, verdict, packet);
            }
            // A fabric's control plane sends packets to the group's router on, and no link takes a
            // super-packet.
            Verdict::Control(punt @ (Punt::Local | Punt::Unresolved(_)))
                if packet.offload.segmentation != Segmentation::None
                    && context.plan.is_in_fabric(packet.in_port) =>
            {
                let in_port = packet.in_port;
                offload::complete(context, in_port, packet, |context, part| {
                    context.hand_over(punt, part);
                });
            }
            Verdict::Control(punt) => context.hand_over(punt, packet),
            Verdict::Forward(port) => self.enqueue(context, port, packet),
            Verdict::Flood => {
                let but = packet.in_port;
                self.flood(context, packet, but);
            }
            Verdict::FloodRouted => self.flood(context, packet, PORT_NONE),
            Verdict::Drop(reason) => {
                let port = packet.in_port;
                context.drop(packet, port, reason);
            }
        }
    }

    /// Queues a packet for a port. The common case is kept short: an untagged, finished frame to
    /// an idle port of ours.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, context: &mut Context<'_>, port: PortId, packet: Packet) {
        match self.ports.get_mut(usize::from(port)) {
            Some(queues) if queues.is_open_to(&packet) => queues.transmit.push(packet),
            _ => self.enqueue_slowly(context, port, packet),
        }
    }

    #[cold]
    #[inline(never)]
    fn enqueue_slowly(&mut self, context: &mut Context<'_>, port: PortId, packet: Packet) {
        match self.ports.get_mut(usize::from(port)) {
            None => context.drop(packet, port, DropReason::PortDown),
            Some(queues) if queues.local => {
                queues.make_room(context);
                queues.admit(context, &mut self.store, packet);
                if queues.waiting > 0 {
                    self.busy.insert(port);
                }
                while let Some(loser) = self.store.lost.pop() {
                    self.ports[usize::from(loser)].waiting -= 1;
                }
            }
            Some(_) => self.crossing.push((port, packet)),
        }
    }

    /// One copy for every port of the VLAN `but` one whose link is up.
    pub(crate) fn flood(&mut self, context: &mut Context<'_>, packet: Packet, but: PortId) {
        let plan = context.plan;
        let in_port = packet.in_port;
        let mut last = None;
        for &port in plan.members(packet.vlan) {
            if port == but || !self.is_up(port) {
                continue;
            }
            if let Some(port) = last.replace(port) {
                match context.pool.duplicate(&packet) {
                    Some(copy) => self.enqueue(context, port, copy),
                    None => context.counters.drop(port, DropReason::NoFrame),
                }
                // A copy that could not be made is accounted for as made and dropped.
                context.counters.copied(in_port, 1);
            }
        }
        match last {
            Some(port) => self.enqueue(context, port, packet),
            None => context.drop(packet, in_port, DropReason::NoEgress),
        }
    }

    /// Link and capabilities of every port.
    pub(crate) fn port_facts(&self) -> Vec<(Link, Capabilities)> {
        self.ports.iter().map(|queues| (queues.link, queues.capabilities)).collect()
    }

    /// Treats every port as one of this worker.
    pub(crate) fn own_all(&mut self) {
        for queues in &mut self.ports {
            queues.local = true;
            queues.settle();
        }
    }

    pub(crate) fn is_up(&self, port: PortId) -> bool {
        self.ports.get(usize::from(port)).is_some_and(|q| q.link == Link::Up)
    }

    pub(crate) fn adopt(&mut self, plan: &Snapshot) {
        self.store.adopt(plan, self.worker);
        self.busy.grow(plan.ports.len());
        self.filled.grow(plan.ports.len());
        for (i, port) in plan.ports.iter().enumerate() {
            let rate = port.settings.rate_bits_per_s;
            if i == self.ports.len() {
                let local = port.worker == self.worker;
                let id = i as PortId;
                self.ports.push(PortQueues::new(id, &port.settings.queue, local, self.seed));
            }
            let queues = &mut self.ports[i];
            // The fabric knows no VLANs: its packets are in none, and so are its ports.
            queues.native = if port.in_fabric { 0 } else { port.native };
            queues.limits = port.settings.queue;
            if queues.pacer.as_ref().map(Pacer::rate_bits_per_s) != rate {
                queues.pacer = rate.map(Pacer::new);
            }
            queues.settle();
        }
    }

    pub(crate) fn set_link(&mut self, context: &mut Context<'_>, port: PortId, link: Link) {
        let Some(queues) = self.ports.get_mut(usize::from(port)) else { return };
        queues.link = link;
        if link == Link::Down {
            let store = &mut self.store;
            queues.for_each_held(store, |p| context.drop(p, port, DropReason::PortDown));
        }
        queues.settle();
    }

    pub(crate) fn set_capabilities(&mut self, port: PortId, capabilities: Capabilities) {
        if let Some(queues) = self.ports.get_mut(usize::from(port)) {
            queues.capabilities = capabilities;
        }
    }

    pub(crate) fn transmit_batch(&mut self, port: PortId) -> &mut Batch {
        &mut self.ports[usize::from(port)].transmit
    }

    /// Lets stage 5 `fill` the transmit batches of the ports at which packets wait, in order.
    #[inline]
    pub(crate) fn fill(&mut self, mut fill: impl FnMut(&mut PortQueues, &mut Store)) {
        let mut from = 0;
        while let Some(port) = self.busy.next(from) {
            from = usize::from(port) + 1;
            let Some(queues) = self.ports.get_mut(usize::from(port)) else { break };
            if queues.waiting > 0 && !queues.transmit.is_full() {
                fill(queues, &mut self.store);
                self.filled.insert(port);
            }
            if queues.waiting == 0 {
                self.busy.remove(port);
                queues.settle();
            }
        }
    }

    /// The next port from this one on that stage 5 has moved packets to, once.
    #[inline]
    pub(crate) fn take_filled(&mut self, from: usize) -> Option<PortId> {
        let port = self.filled.next(from)?;
        self.filled.remove(port);
        Some(port)
    }

    pub(crate) fn next_deadline(&self) -> Time {
        let busy = self.busy.iter().filter_map(|port| self.ports.get(usize::from(port)));
        let waiting = busy.filter(|q| q.waiting > 0);
        waiting.map(|q| q.next_deadline(&self.store)).min().unwrap_or(Time::FOREVER)
    }

    /// True if packets wait in queues.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.busy.next(0).is_some()
    }

    pub(crate) fn held(&self) -> usize {
        let queued: usize = self.ports.iter().map(|q| q.waiting + q.transmit.len()).sum();
        queued + self.crossing.len()
    }

    pub(crate) fn queued(&self, port: PortId) -> (usize, usize) {
        let Some(queues) = self.ports.get(usize::from(port)) else { return (0, 0) };
        let ready: usize = queues.transmit.iter().map(Packet::len).sum();
        (queues.waiting + queues.transmit.len(), queues.bytes(&self.store) + ready)
    }

    /// A paced port's rate.
    pub(crate) fn rate_bits_per_s(&self, port: PortId) -> Option<u64> {
        self.ports.get(usize::from(port))?.pacer.as_ref().map(Pacer::rate_bits_per_s)
    }

    /// How long a packet may have to wait at a paced port behind what is queued there now and
    /// `more` bytes; zero if the port is not paced. The queues of another worker's port are not
    /// seen: they may be full.
    pub(crate) fn wait_max(&self, port: PortId, more: u64) -> Duration {
        let Some(queues) = self.ports.get(usize::from(port)) else { return Duration::ZERO };
        let Some(pacer) = &queues.pacer else { return Duration::ZERO };
        let waiting = match (queues.local, queues.waiting) {
            (true, 0) => 0,
            (true, packets) => queues.bytes(&self.store) as u64 + packets as u64 * CABLE_MINIMUM,
            (false, _) => u64::from(queues.limits.bytes),
        };
        let bits = waiting.saturating_add(more).saturating_mul(8);
        Duration::from_micros(bits.saturating_mul(1_000_000) / pacer.rate_bits_per_s())
    }

    /// Slow work, some ten times a second.
    pub(crate) fn tick(&mut self, now: Time) {
        self.store.tick(now);
    }

    /// The deep buffer, if there is one.
    pub(crate) fn deep(&self, now: Time) -> Option<DeepReport> {
        self.store.report(now)
    }

    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        for queues in &mut self.ports {
            queues.for_each_held(&mut self.store, |p| pool.free(p));
            queues.settle();
        }
        self.crossing.drain(..).for_each(|(_, p)| pool.free(p));
    }
}

impl PortQueues {
    fn new(id: PortId, limits: &QueueSettings, local: bool, seed: u64) -> PortQueues {
        PortQueues {
            id,
            transmit: Batch::new(),
            waiting: 0,
            open: Form::NEVER,
            local,
            seed,
            link: Link::Down,
            native: 0,
            capabilities: Capabilities { checksum: false, segmentation: false, max_frame: 1514 },
            limits: *limits,
            pacer: None,
            classes: Default::default(),
        }
    }

    /// True if the packet can leave as it is, and nothing is ahead of it.
    #[inline(always)]
    fn is_open_to(&self, packet: &Packet) -> bool {
        packet.form() == self.open
            && packet.len() <= self.capabilities.max_frame
            && !self.transmit.is_full()
    }

    /// True if a paced port's cable is free for the packet, which needs no other form, and a queue
    /// would not change it. Only for a packet that arrived alone: of several, the queues find the
    /// one of the highest class.
    #[inline]
    fn can_begin(&self, packet: &Packet, now: Time) -> bool {
        let limits = &self.limits;
        self.local
            && self.link == Link::Up
            && self.waiting == 0
            && !self.transmit.is_full()
            && packet.form() == Form::finished(self.native)
            && packet.len() <= self.capabilities.max_frame
            && self.pacer.as_ref().is_some_and(|pacer| pacer.free_at() <= now)
            && limits.packets > 0
            && packet.len() <= limits.bytes as usize
            && limits.ecn_bytes != Some(0)
            && limits.order != QueueOrder::Deep
    }

    /// A packet takes a paced port's cable, which is free.
    #[inline]
    fn occupy_cable(&mut self, packet: &Packet, now: Time) {
        if let Some(pacer) = &mut self.pacer {
            pacer.begin(now);
            pacer.spend(packet);
        }
    }

    /// Computes `open`, so that no packet needs to. To be called after every change of a field that
    /// it reads.
    fn settle(&mut self) {
        let is_idle = self.waiting == 0 && self.pacer.is_none();
        self.open = match self.local && self.link == Link::Up && is_idle {
            true => Form::finished(self.native),
            false => Form::NEVER,
        };
    }

    /// Empties a transmit batch that is full, so that no packet has to wait behind it. Only if none
    /// waits yet: a device that is behind is not asked for every packet.
    fn make_room(&mut self, context: &mut Context<'_>) {
        if self.transmit.is_full()
            && self.waiting == 0
            && let Some(outlet) = &mut context.outlet
        {
            outlet.hand_over(context.now, context.pool, self.id, &mut self.transmit);
        }
    }

    /// The general case: the frame gets its egress form, then waits or is refused.
    fn admit(&mut self, context: &mut Context<'_>, store: &mut Store, mut packet: Packet) {
        if self.link == Link::Down {
            return context.drop(packet, self.id, DropReason::PortDown);
        }
        if !vlan::egress(context.pool, &mut packet, self.native) {
            return context.drop(packet, self.id, DropReason::TooLong);
        }
        let owed = packet.offload;
        // Behind a header of the fabric no device does what is owed.
        let start = match packet.is_finished() {
            true => 0,
            false => Queued::new(context.fabric, self.id, context.pool.data(&packet)).inner,
        };
        if owed.segmentation != Segmentation::None {
            if !offload::measure(context.pool, &mut packet, start) {
                return context.drop(packet, self.id, DropReason::BadOffload);
            }
            if !self.capabilities.segmentation || start > 0 {
                return self.cut(context, store, packet, start);
            }
        } else {
            if packet.len() > self.capabilities.max_frame + tag_len(&packet) {
                return context.drop(packet, self.id, DropReason::TooLong);
            }
            if owed.checksum == Checksum::Partial
                && (!self.capabilities.checksum || start > 0 || offload::is_crc(&packet))
                && !offload::complete_checksum(context.pool, &mut packet, start)
            {
                return context.drop(packet, self.id, DropReason::BadOffload);
            }
        }
        self.push(context, store, packet);
    }

    /// Queues the frames that a super-packet is cut into, since the device cannot.
    fn cut(&mut self, context: &mut Context<'_>, store: &mut Store, packet: Packet, start: usize) {
        let len_max = self.capabilities.max_frame + tag_len(&packet);
        offload::cut(context, packet, start, len_max, [self.id; 2], |context, part| {
            self.push(context, store, part);
        });
    }

    fn push(&mut self, context: &mut Context<'_>, store: &mut Store, mut packet: Packet) {
        if self.waiting == 0 && self.pacer.is_none() && !self.transmit.is_full() {
            return self.transmit.push(packet);
        }
        let limits = self.limits;
        if limits.order == QueueOrder::Deep && usize::from(packet.priority) == DEEP_CLASS {
            return self.push_deep(context, store, packet);
        }
        let queued = Queued::new(context.fabric, self.id, context.pool.data(&packet));
        let inner = queued.inner;
        let key = match limits.order {
            QueueOrder::Fifo | QueueOrder::Deep => Key(0),
            QueueOrder::Port => Key(packet.in_port.into()),
            QueueOrder::Fair => Key(queued.flow(self.seed) as u32),
        };
        let class = &mut self.classes[usize::from(packet.priority) % CLASSES];
        let bucket = class.bucket(limits.order, key);
        let mut spared = false;
        loop {
            let reason = if class.packets >= limits.packets as usize {
                DropReason::QueuePackets
            } else if self.waiting > context.pool.available() {
                // A port may hold as many frames as are still free (a dynamic threshold with factor
                // one): however many ports are congested, frames to receive into remain.
                DropReason::PoolShare
            } else if class.bytes + packet.len() > limits.bytes as usize {
                DropReason::QueueBytes
            } else {
                break;
            };
            let is_spared = spared || !class.has_its_share(bucket, packet.len());
            let Some(evicted) = is_spared.then(|| class.evict(&mut store.shelf)).flatten() else {
                return context.drop(packet, self.id, reason);
            };
            // Others have made room for this packet, so it must not be dropped any more.
            spared = true;
            self.waiting -= 1;
            context.drop(evicted, self.id, reason);
        }
        if limits.ecn_bytes.is_some_and(|limit| class.bytes >= limit as usize)
            && class.has_its_share(bucket, packet.len())
            && offload::mark_congestion(context.pool, &mut packet, inner)
        {
            context.counters.ports[usize::from(self.id)].ecn_marked += 1;
        }
        if self.waiting == 0
            && let Some(pacer) = &mut self.pacer
        {
            pacer.begin(context.now);
        }
        class.push(&mut store.shelf, bucket, key, packet);
        self.waiting += 1;
        self.open = Form::NEVER;
    }

    /// A packet for the deep buffer.
    #[cold]
    #[inline(never)]
    fn push_deep(&mut self, context: &mut Context<'_>, store: &mut Store, packet: Packet) {
        let Store { deep: Some(deep), lost, .. } = store else {
            return context.drop(packet, self.id, DropReason::QueuePackets);
        };
        if self.waiting > context.pool.available() {
            return context.drop(packet, self.id, DropReason::PoolShare);
        }
        let queued = Queued::new(context.fabric, self.id, context.pool.data(&packet));
        let arrival = deep::arrival(&packet, &queued, self.seed);
        if self.waiting == 0
            && let Some(pacer) = &mut self.pacer
        {
            pacer.begin(context.now);
        }
        self.waiting += 1;
        deep.push(context.now, self.id.into(), &arrival, packet, &mut |loser, packet, why| {
            let loser = loser as PortId;
            context.drop(packet, loser, deep::reason(why));
            lost.push(loser);
        });
        self.open = Form::NEVER;
    }

    /// The next packet by class, highest first.
    #[inline]
    pub(crate) fn pop(&mut self, now: Time, store: &mut Store) -> Option<Packet> {
        let [deep_class, higher @ ..] = &mut self.classes;
        let packet = match higher.iter_mut().rev().find(|class| class.packets > 0) {
            Some(class) => class.pop(&mut store.shelf),
            // Others than those of the classes wait in the deep queue.
            None if self.waiting == deep_class.packets => deep_class.pop(&mut store.shelf),
            None => {
                let mut deep = || store.deep.as_mut()?.pop(now, self.id.into());
                // Where packets wait in both queues, the order of the port has changed, and those
                // of the former one are older.
                match self.limits.order {
                    QueueOrder::Deep => deep_class.pop(&mut store.shelf).or_else(deep),
                    _ => deep().or_else(|| deep_class.pop(&mut store.shelf)),
                }
            }
        };
        self.waiting -= usize::from(packet.is_some());
        packet
    }

    /// When the next waiting packet may leave, as far as time has a say in it.
    fn next_deadline(&self, store: &Store) -> Time {
        let is_deep = self.classes.iter().all(|class| class.packets == 0);
        let deep = store.deep.as_ref().filter(|_| is_deep && self.waiting > 0);
        let deep = deep.map(|deep| deep.next_deadline(self.id.into()));
        match (&self.pacer, deep) {
            (Some(pacer), deep) => pacer.free_at().max(deep.unwrap_or(Time::ZERO)),
            // Its device has no room, which is not a matter of time.
            (None, Some(_)) if self.transmit.is_full() => Time::FOREVER,
            (None, deep) => deep.unwrap_or(Time::FOREVER),
        }
    }

    /// Bytes that wait.
    fn bytes(&self, store: &Store) -> usize {
        let deep = store.deep.as_ref().and_then(|deep| deep.state(self.id.into()));
        let deep = deep.map_or(0, |state| state.bytes() as usize);
        self.classes.iter().map(|class| class.bytes).sum::<usize>() + deep
    }

    fn for_each_held(&mut self, store: &mut Store, mut end: impl FnMut(Packet)) {
        for class in &mut self.classes {
            while let Some(packet) = class.pop(&mut store.shelf) {
                end(packet);
            }
        }
        if let Some(deep) = &mut store.deep {
            deep.take_all(self.id.into(), &mut end);
        }
        self.waiting = 0;
        self.transmit.drain(..).for_each(end);
    }
}

/// Moves packets on as long as their ports are open to them; the first whose port is not.
///
/// A loop of its own, as is each forwarder's: together they have more in use than there are
/// registers.
#[inline(always)]
fn pass_open<'a>(
    ports: &mut [PortQueues],
    packets: &mut impl Iterator<Item = Taken<'a>>,
) -> Option<Taken<'a>> {
    for packet in packets {
        match ports.get_mut(Verdict::place(&packet)) {
            Some(queues) if queues.is_open_to(&packet) => packet.move_to(&mut queues.transmit),
            _ => return Some(packet),
        }
    }
    None
}

/// A tag comes on top of what a device sends.
fn tag_len(packet: &Packet) -> usize {
    if packet.flags & vlan::TAGGED != 0 { vlan::TAG_LEN } else { 0 }
}
