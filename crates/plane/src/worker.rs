//! A worker: ports, the pool of their frames, and a pipeline. A driver calls [`Worker::turn`] as
//! long as it returns true, then sleeps on the ports until something arrives or
//! [`Worker::next_deadline`] comes.

use std::num::NonZeroU32;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Cache};
use plexus_io::fast::FastTable;
use plexus_io::{Batch, Link, Packet, Pool, Port, PortId, PortStats, Segmentation};
use plexus_wire::Time;

use crate::context::Outlet;
use crate::control::{Injection, ToControl};
use crate::counters::{Account, Counters};
use crate::crossing::Crossing;
use crate::drops::DropReason;
use crate::fast::{Clears, FastReport};
use crate::offload::Segments;
use crate::pipeline::{Facts, Pipeline, Question};
use crate::sample::Sampled;
use crate::snapshot::{Published, Snapshot};
use crate::stage::arbiter::Arbiter;
use crate::stage::output::deep::DeepReport;
use crate::verdict::Punt;
use crate::watch::{Onlooker, Watchers};

/// One thread's share of the box.
pub struct Worker {
    pool: Pool,
    ports: Vec<(PortId, Box<dyn Port>)>,
    links: Vec<Link>,
    /// Each port's longest frame, as it was known last.
    max_frames: Vec<usize>,
    /// Packets that each port has lost because its queue was full, as they were known last.
    overflows: Vec<u64>,
    arbiter: Arbiter,
    batch: Batch,
    pipeline: Pipeline,
    published: Cache<Arc<ArcSwap<Snapshot>>, Arc<Snapshot>>,
    crossing: Crossing,
    watchers: Watchers,
    /// Counts of ports that were removed.
    departed: Vec<(PortId, PortStats)>,
    /// Ports whose input is dropped, to test the failure of a cable.
    silenced: Vec<PortId>,
    gather: Gather,
}

/// Most turns for which packets are gathered before ports get them, and the longest time: short
/// beside what a device's queue holds at such rates.
const GATHER_TURNS: u32 = 8;
const GATHER: Duration = Duration::from_micros(20);

/// Since when packets are gathered for the ports.
#[derive(Default)]
struct Gather {
    turns: u32,
    since: Time,
}

/// A worker's ports, as an outlet of its pipeline.
struct Devices<'a> {
    ports: &'a mut [(PortId, Box<dyn Port>)],
    watchers: &'a mut Watchers,
}

impl Outlet for Devices<'_> {
    fn hand_over(&mut self, now: Time, pool: &mut Pool, port: PortId, packets: &mut Batch) {
        if let Some((id, port)) = self.ports.iter_mut().find(|(id, _)| *id == port) {
            hand_over(now, pool, *id, port.as_mut(), packets, self.watchers);
        }
    }
}

/// Hands packets to a device, and shows those that it took to its watchers. Returns how many.
#[inline]
fn hand_over(
    now: Time,
    pool: &mut Pool,
    id: PortId,
    port: &mut dyn Port,
    packets: &mut Batch,
    watchers: &mut Watchers,
) -> usize {
    if !watchers.has(id) {
        return port.transmit(now, pool, packets);
    }
    let watched: Vec<Vec<u8>> = packets.iter().map(|p| pool.data(p).to_vec()).collect();
    let taken = port.transmit(now, pool, packets);
    for bytes in &watched[..taken.min(watched.len())] {
        watchers.show(now, id, true, bytes);
    }
    taken
}

/// One worker's state, for people.
#[derive(Clone, Debug)]
pub struct Report {
    /// What it counted.
    pub counters: Counters,
    /// Its ports.
    pub ports: Vec<PortReport>,
    /// Packets in its queues, and on their way to it from other workers.
    pub held: usize,
    /// Frames of its pool: free, and in all.
    pub frames: (usize, usize),
}

/// A change of a port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// The port.
    pub port: PortId,
    /// Its link, perhaps as it was.
    pub link: Link,
    /// Its longest frame, in bytes.
    pub max_frame: usize,
    /// Whether it takes what packets owe, and super-packets fit its worker's frames.
    pub takes_owed: bool,
}

/// One port's state.
#[derive(Clone, Debug)]
pub struct PortReport {
    /// Its number.
    pub id: PortId,
    /// Its link.
    pub link: Link,
    /// What the device counted.
    pub stats: PortStats,
    /// Packets and bytes waiting.
    pub queued: (usize, usize),
}

impl Worker {
    /// Worker number `index` with its pool and its ports. `seed` keys hashes and should be random
    /// and secret.
    pub fn new(
        index: usize,
        pool: Pool,
        ports: Vec<(PortId, Box<dyn Port>)>,
        published: &Published,
        crossing: Crossing,
        seed: u64,
    ) -> Worker {
        let mut published = Cache::new(published.clone());
        let plan = published.load().clone();
        let mut pipeline = Pipeline::new(plan, index, seed, crossing.has_peers());
        for (id, port) in &ports {
            pipeline.set_capabilities(*id, port.capabilities());
        }
        Worker {
            pool,
            links: vec![Link::Down; ports.len()],
            overflows: vec![0; ports.len()],
            max_frames: ports.iter().map(|(_, port)| port.capabilities().max_frame).collect(),
            ports,
            arbiter: Arbiter::default(),
            batch: Batch::new(),
            pipeline,
            published,
            crossing,
            watchers: Watchers::default(),
            departed: Vec::new(),
            silenced: Vec::new(),
            gather: Gather::default(),
        }
    }

    /// Moves one batch through the five stages. True if there was anything to do: call it again at
    /// once, more packets may be waiting.
    pub fn turn(&mut self, now: Time) -> bool {
        self.follow(now);
        let crossed = self.crossing.has_peers() && self.take_in(now);
        if let Some(fast) = self.pipeline.fast() {
            let ports = &mut self.ports;
            fast.begin_turn(now, |id| {
                let port = ports.iter_mut().find(|(own, _)| *own == id);
                port.map_or(0, |(_, port)| port.mark())
            });
        }
        self.arbiter.run(now, &mut self.pool, &mut self.ports, &mut self.batch);
        let received = !self.batch.is_empty();
        if !self.silenced.is_empty() {
            self.drop_silenced();
        }
        if !self.watchers.is_empty() {
            self.watch_arrivals(now);
        }
        let is_whole = self.batch.is_full();
        let mut devices = Devices { ports: &mut self.ports, watchers: &mut self.watchers };
        self.pipeline.run_into(now, &mut self.pool, &mut self.batch, Some(&mut devices));
        if self.crossing.has_peers() {
            self.send_across();
        }
        let sent = !self.may_gather(now, is_whole) && self.transmit(now);
        received | crossed | sent | self.end_fast_turn(now)
    }

    /// The fast table's part of the end of a turn. True if the next one should come at once.
    #[inline]
    fn end_fast_turn(&mut self, now: Time) -> bool {
        let Some(fast) = self.pipeline.fast() else { return false };
        let is_caught_up = fast.has_others() && self.crossing.has_passed_mark();
        let is_drained = |port| self.arbiter.has_drained(port);
        self.pipeline.end_fast_turn(now, is_drained, is_caught_up, &self.ports);
        if is_caught_up {
            self.crossing.set_mark();
        }
        self.pipeline.fast().is_some_and(|fast| fast.is_busy())
    }

    /// Gives the worker its part of the box's fast table, to put flows into. `clears` has an entry
    /// for each port of the box, or none if the worker is alone. Call it before the first turn: the
    /// kernel takes some 10 ms for each port.
    pub fn set_fast_table(&mut self, mut table: Box<dyn FastTable>, clears: Clears, seed: u64) {
        for (id, port) in &self.ports {
            if let Some(end) = port.kernel_end() {
                // The program stays. What cannot be opened is tried again later.
                let _ = table.open(*id, end);
                table.close(*id);
            }
        }
        self.pipeline.set_fast_table(table, clears, seed);
    }

    /// This worker's part of the fast table.
    pub fn fast(&mut self) -> FastReport {
        let ports = self.ports.iter().map(|(id, _)| *id);
        self.pipeline.fast().map(|fast| fast.report(ports)).unwrap_or_default()
    }

    /// Begins a sample of flows.
    pub fn begin_sample(&mut self, now: Time) {
        self.pipeline.begin_sample(now);
    }

    /// Ends the sample of flows; none if somebody else has.
    pub fn end_sample(&mut self, now: Time) -> Option<Sampled> {
        self.pipeline.end_sample(now)
    }

    /// This worker's deep buffer, if one of its ports uses it.
    pub fn deep(&self, now: Time) -> Option<DeepReport> {
        self.pipeline.deep(now)
    }

    /// Brings the counts of the fast table up to date, for a report.
    pub fn count_fast(&mut self, now: Time) {
        self.pipeline.count_fast(now);
    }

    /// While every frame of a port is watched, or the port is silenced, its frames pass the
    /// pipeline. Onlookers to whom samples are enough leave its flows in the fast table.
    fn block(&mut self, now: Time, port: PortId) {
        let on = self.watchers.want_all(port) || self.silenced.contains(&port);
        let one_in = self.watchers.want_one_in(port);
        if let Some(fast) = self.pipeline.fast() {
            fast.block(now, port, on);
            fast.sample(port, one_in);
        }
    }

    /// Adds a port over this worker's pool. The configuration that names it has been published.
    pub fn add_port(&mut self, now: Time, id: PortId, port: Box<dyn Port>) {
        self.follow(now);
        self.pipeline.set_capabilities(id, port.capabilities());
        self.links.push(Link::Down);
        self.max_frames.push(port.capabilities().max_frame);
        self.overflows.push(0);
        self.ports.push((id, port));
    }

    /// Removes a port: packets that wait for it are dropped. Returns the change of its link, if the
    /// port was this worker's.
    pub fn remove_port(&mut self, now: Time, id: PortId) -> Option<LinkChange> {
        self.follow(now);
        let at = self.ports.iter().position(|(port, _)| *port == id)?;
        self.pipeline.set_link(now, &mut self.pool, id, Link::Down);
        let (_, mut port) = self.ports.remove(at);
        self.links.remove(at);
        let max_frame = self.max_frames.remove(at);
        self.overflows.remove(at);
        port.close(&mut self.pool);
        if let Some(fast) = self.pipeline.fast() {
            fast.remove_port(now, id);
        }
        self.departed.push((id, port.stats()));
        self.watchers.remove_port(id);
        Some(LinkChange { port: id, link: Link::Down, max_frame, takes_owed: false })
    }

    /// Picks up the configuration, if another has been published.
    fn follow(&mut self, now: Time) {
        let plan = self.published.load();
        if !Arc::ptr_eq(plan, self.pipeline.plan()) {
            let plan = plan.clone();
            self.pipeline.adopt(now, plan);
        }
    }

    /// Silences a port of this worker, or ends that: its link stays up, and packets that come in
    /// are dropped and counted. So a test can let a cable fail that keeps its carrier.
    pub fn silence(&mut self, now: Time, port: PortId, on: bool) {
        self.silenced.retain(|p| *p != port);
        if on {
            self.silenced.push(port);
        }
        self.block(now, port);
    }

    fn drop_silenced(&mut self) {
        for packet in std::mem::take(&mut self.batch) {
            if self.silenced.contains(&packet.in_port) {
                self.pipeline.count_drop(packet.in_port, DropReason::Silenced);
                self.pool.free(packet);
            } else {
                self.batch.push(packet);
            }
        }
    }

    /// Passes every packet that waits for the node's control plane to `see`, and frees it: why it
    /// is there, the port and the VLAN that it came in by, its bytes.
    pub fn take_control(&mut self, mut see: impl FnMut(Punt, PortId, u16, &[u8])) {
        while let Some(ToControl { punt, in_port, packet }) = self.pipeline.to_control().pop_front()
        {
            see(punt, in_port, packet.vlan, self.pool.data(&packet));
            self.pool.free(packet);
        }
    }

    /// Passes every frame of named data that waits for the forwarder of names to `see`, and frees
    /// it: the port that it came in by, its bytes.
    pub fn take_named(&mut self, mut see: impl FnMut(PortId, &[u8])) {
        while let Some(ToControl { in_port, packet, .. }) = self.pipeline.to_named().pop_front() {
            see(in_port, self.pool.data(&packet));
            self.pool.free(packet);
        }
    }

    /// Sends a packet of the node itself; it leaves with the next turn.
    ///
    /// # Errors
    /// As [`Pipeline::inject`].
    pub fn inject(&mut self, now: Time, bytes: &[u8], how: Injection) -> Result<(), DropReason> {
        self.pipeline.inject(now, &mut self.pool, bytes, how)
    }

    /// Whether packets may wait in the transmit batches for others to the same ports: only while
    /// full batches follow each other closely. A port's cost per packet falls with their number.
    #[inline]
    fn may_gather(&mut self, now: Time, is_whole: bool) -> bool {
        let gather = &mut self.gather;
        gather.turns += 1;
        let may = is_whole
            && gather.turns < GATHER_TURNS
            && now.since(gather.since) < GATHER
            && !self.pipeline.is_behind();
        if !may {
            *gather = Gather { turns: 0, since: now };
        }
        may
    }

    fn transmit(&mut self, now: Time) -> bool {
        let mut sent = false;
        for (id, port) in &mut self.ports {
            let batch = self.pipeline.to_transmit(*id);
            if !batch.is_empty() {
                let port = port.as_mut();
                sent |= hand_over(now, &mut self.pool, *id, port, batch, &mut self.watchers) > 0;
            }
        }
        sent
    }

    fn watch_arrivals(&mut self, now: Time) {
        for packet in &self.batch {
            self.watchers.show(now, packet.in_port, false, self.pool.data(packet));
        }
        let Some(fast) = self.pipeline.fast() else { return };
        for (id, port) in &mut self.ports {
            if self.watchers.want_one_in(*id).is_some() {
                let missed = fast.missed_samples(*id);
                port.take_samples(&mut |bytes, len| {
                    self.watchers.show_sample(now, *id, bytes, len, missed);
                });
            }
        }
    }

    /// Packets and news from other workers.
    fn take_in(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(news) = self.crossing.hear() {
            self.pipeline.hear(now, news);
            any = true;
        }
        for _ in 0..plexus_io::BATCH {
            let Some((port, packet)) = self.crossing.receive(&mut self.pool) else { break };
            any = true;
            match packet {
                Some(packet) => self.pipeline.deliver(now, &mut self.pool, port, packet),
                None => self.pipeline.count_drop(port, DropReason::NoFrame),
            }
        }
        any
    }

    /// Takes in all that other workers have handed over, and hands over what waits for their ports.
    /// Nothing is received meanwhile.
    pub fn exchange(&mut self, now: Time) {
        for _ in 0..self.crossing.arriving().div_ceil(plexus_io::BATCH) {
            self.take_in(now);
            // There may be more than the queues have room for.
            self.transmit(now);
        }
        self.send_across();
    }

    /// Packets and news for other workers.
    fn send_across(&mut self) {
        let plan = self.pipeline.plan().clone();
        let mut crossing = std::mem::take(self.pipeline.crossing());
        for (port, packet) in crossing.drain(..) {
            let worker = plan.ports[usize::from(port)].worker;
            if packet.len() > self.crossing.len_max(worker)
                && packet.offload.segmentation != Segmentation::None
            {
                self.cut_across(worker, port, packet);
                continue;
            }
            if !self.crossing.send(worker, port, &self.pool, &packet) {
                self.pipeline.count_drop(port, DropReason::CrossingFull);
            }
            self.pool.free(packet);
        }
        *self.pipeline.crossing() = crossing;
        let mut news = std::mem::take(self.pipeline.news());
        news.drain(..).for_each(|n| self.crossing.tell(n));
        self.crossing.catch_up();
        *self.pipeline.news() = news;
        self.crossing.wake_told();
    }

    /// A super-packet for a worker whose frames are smaller: cut here, since it does not fit there.
    fn cut_across(&mut self, worker: usize, port: PortId, packet: Packet) {
        let in_port = packet.in_port;
        let start = self.pipeline.host_frame_at(port, self.pool.data(&packet));
        let len_max = self.crossing.len_max(worker);
        let mut segments = match Segments::new(&self.pool, packet, start, len_max) {
            Ok(segments) => segments,
            Err(packet) => {
                self.pipeline.count_drop(port, DropReason::BadOffload);
                return self.pool.free(packet);
            }
        };
        self.pipeline.count_copies(in_port, segments.remaining() as u64 - 1);
        while segments.remaining() > 0 {
            let Some(part) = segments.next(&mut self.pool) else {
                self.pipeline.count_drop(port, DropReason::NoFrame);
                continue;
            };
            if !self.crossing.send(worker, port, &self.pool, &part) {
                self.pipeline.count_drop(port, DropReason::CrossingFull);
            }
            self.pool.free(part);
        }
        self.pool.free(segments.into_whole());
    }

    /// Slow work, some ten times a second: checks links and ages stations. Returns the ports whose
    /// link has changed, or whose longest frame has while the link was up.
    pub fn maintain(&mut self, now: Time) -> Vec<LinkChange> {
        let mut changed = Vec::new();
        let holds_super_packets = self.pool.max_len() > usize::from(u16::MAX);
        let known = self.links.iter_mut().zip(&mut self.max_frames);
        for ((id, port), (known, max_known)) in self.ports.iter_mut().zip(known) {
            let link = port.maintain(now, &mut self.pool);
            let capabilities = port.capabilities();
            let max_frame = capabilities.max_frame;
            let (is_news, is_longer_or_shorter) = (link != *known, max_frame != *max_known);
            (*known, *max_known) = (link, max_frame);
            if is_news || is_longer_or_shorter {
                self.pipeline.set_capabilities(*id, capabilities);
            }
            if is_news {
                self.pipeline.set_link(now, &mut self.pool, *id, link);
            }
            if is_news || (is_longer_or_shorter && link == Link::Up) {
                let takes_owed = capabilities.segmentation && holds_super_packets;
                changed.push(LinkChange { port: *id, link, max_frame, takes_owed });
            }
        }
        self.pipeline.tick(now);
        self.maintain_fast(now);
        changed
    }

    fn maintain_fast(&mut self, now: Time) {
        let Some(fast) = self.pipeline.fast() else { return };
        let mut overflowing = Vec::new();
        for (((id, port), link), known) in
            self.ports.iter().zip(&self.links).zip(&mut self.overflows)
        {
            if let (Link::Up, Some(end)) = (link, port.kernel_end()) {
                fast.keep_open(now, *id, end);
            }
            let overflow = port.stats().rx_overflow;
            if std::mem::replace(known, overflow) != overflow {
                overflowing.push(*id);
            }
        }
        self.pipeline.fast_round(now, |port| overflowing.contains(&port));
    }

    /// The link of another worker's port has changed. News of stations learned there is taken
    /// first, so that none of them outlives the link.
    pub fn hear_link(&mut self, now: Time, port: PortId, link: Link) {
        while let Some(news) = self.crossing.hear() {
            self.pipeline.hear(now, news);
        }
        self.pipeline.set_link(now, &mut self.pool, port, link);
    }

    /// When to call [`turn`](Self::turn) again even if nothing arrives.
    pub fn next_deadline(&self) -> Time {
        let ports = self.ports.iter().filter_map(|(_, p)| p.next_deadline()).min();
        self.pipeline.next_deadline().min(ports.unwrap_or(Time::FOREVER))
    }

    /// What to sleep on: each port's descriptor, and whether it has packets that the device did
    /// not take, so that room to send should end the sleep too.
    pub fn wait_for(&mut self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let pipeline = &mut self.pipeline;
        self.ports
            .iter()
            .filter_map(|(id, port)| Some((port.fd()?, !pipeline.to_transmit(*id).is_empty())))
    }

    /// Announces sleep to the other workers; false if something has arrived in the meantime.
    pub fn may_sleep(&self) -> bool {
        self.crossing.may_sleep()
    }

    /// Sleep is over.
    pub fn awake(&self) {
        self.crossing.awake();
    }

    /// Shows every frame that passes a port of this worker to the onlooker of this number.
    /// No flow from or to the port is in the fast table meanwhile.
    ///
    /// With `one_in`, flows stay there. Of their packets that come in by the port the onlooker sees
    /// about one in so many, and all frames that pass the pipeline.
    pub fn watch(
        &mut self,
        now: Time,
        port: PortId,
        number: u64,
        one_in: Option<NonZeroU32>,
        see: Onlooker,
    ) {
        // Some may be left of an earlier onlooker.
        let own = self.ports.iter_mut().find(|(id, _)| *id == port);
        if let (Some((_, own)), None) = (own, self.watchers.want_one_in(port)) {
            own.take_samples(&mut |_, _| {});
        }
        let missed = self.pipeline.fast().map_or(0, |fast| fast.missed_samples(port));
        self.watchers.add(port, number, one_in, missed, see);
        self.block(now, port);
    }

    /// Ends that.
    pub fn unwatch(&mut self, now: Time, number: u64) {
        let ports = self.watchers.remove(number);
        ports.into_iter().for_each(|port| self.block(now, port));
    }

    /// Its state, for people.
    pub fn report(&self) -> Report {
        let ports = self.ports.iter().zip(&self.links);
        let gone = self.departed.iter().map(|(id, stats)| PortReport {
            id: *id,
            link: Link::Down,
            stats: *stats,
            queued: (0, 0),
        });
        Report {
            counters: self.pipeline.counters().clone(),
            ports: ports
                .map(|((id, port), &link)| PortReport {
                    id: *id,
                    link,
                    stats: port.stats(),
                    queued: self.pipeline.queued(*id),
                })
                .chain(gone)
                .collect(),
            held: self.pipeline.held() + self.crossing.arriving(),
            frames: (self.pool.available(), self.pool.frames()),
        }
    }

    /// Where this worker's packets went. With several workers only the sum over all balances.
    pub fn account(&self) -> Account {
        let mut account = Account { held: self.report().held as u64, ..Account::default() };
        self.report().ports.iter().for_each(|port| account.add_port(&port.stats));
        account.add_counters(self.pipeline.counters());
        account
    }

    /// This worker's knowledge that decides about the frame of a question.
    pub fn facts(&mut self, now: Time, question: &Question) -> Facts {
        self.follow(now);
        self.pipeline.facts(now, question)
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// The frames.
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Hands over what may leave by now, closes the ports and empties the queues: afterwards every
    /// frame is free again, but for those that the far ends of memory ports hold.
    pub fn close(&mut self, now: Time) {
        self.transmit(now);
        self.pipeline.clear(&mut self.pool);
        self.ports.iter_mut().for_each(|(_, port)| port.close(&mut self.pool));
    }
}
