//! Which of a destination's routes a packet takes, where there are several ([`LaneChoice`]).
//!
//! Two rules hold for every choice: a route whose port cannot take the frame is never chosen, and
//! no two packets of a flow that follow closely go by different ports, unless the first one's has
//! gone down. Only the first port is chosen here; the rest of the way stands in the route.
//!
//! **Least loaded.** A flow keeps its route while it sends, so its first packet decides. It takes
//! the lane with the lowest load: the bytes waiting there, and those sent lately, halved every 20
//! ms (the DRE of CONGA, Alizadeh et al., 2014). Queues alone show no load until a lane is
//! overloaded; a count of flows weighs a telephone call like a backup. But a flow's bytes show only
//! after a while, and all flows that begin meanwhile would take the same lane. So each new flow at
//! first counts as much as the average of those that send. This estimate fades as fast as its own
//! bytes come in. Bytes of a lane that is twice as fast weigh half. Traffic of other workers, and
//! traffic that only passes through this node, counts only while it waits.
//!
//! A flow that has paused may go on by another lane: once it has been silent for [`PAUSE`] longer
//! than its last packet could wait here. That is enough for lanes to the same node; on ways by
//! different nodes a queue there that takes longer than the pause can reorder two packets, one from
//! before it and one from after. Flows are remembered in a table of fixed size without keys: flows
//! whose hashes fall on the same entry keep their routes together. So a host with many flows can
//! make the choice worse, but it can neither reorder nor move packets of other hosts.
//!
//! A flow that has a rule in the fast table keeps its route, paused or not, until the rule ends.
//! Flows that share its entry go the same way where they can, also those that begin. The bytes that
//! its rule forwards count as sent at the rate of the last round, because its packets wait in no
//! queue here.

use std::cmp::Reverse;
use std::f64::consts::LN_2;
use std::time::Duration;

use arrayvec::ArrayVec;
use plexus_config::LaneChoice;
use plexus_io::{Packet, PortId};
use plexus_table::{Found, ROUTES_MAX};
use plexus_wire::fabric::Fields;
use plexus_wire::flow::weight;
use plexus_wire::{FlowKey, Time};

use super::parts::EVERYWHERE;
use super::plan::FabricPlan;
use crate::context::Context;
use crate::flow::flow_hash;
use crate::stage::output::OutputQueues;

/// How long a flow must be silent before it may change lanes: more than a queue of the usual size
/// takes to empty at 100 Mbit/s (84 ms), and than lanes between two nodes differ in delay.
const PAUSE: Duration = Duration::from_millis(100);
/// After this time bytes that a lane has sent count half. It is short against a pause, so that the
/// estimates for short flows that return again and again fade before they add up.
const HALF_LIFE: Duration = Duration::from_millis(20);
/// Entries of the flow table: 64 KiB for each worker.
const FLOWLETS: usize = 4096;
/// The rate assumed of a port that is not paced, when it is compared with one that is.
const RATE_USUAL_BITS_PER_S: u64 = 1_000_000_000;

/// A route of a set: its number there, the port that it goes out by, its header.
pub(super) type Candidate<'a> = (usize, u8, &'a [u8]);

/// One worker's choice of routes.
#[derive(Clone)]
pub(crate) struct Lanes {
    seed: u64,
    choice: Choice,
}

#[derive(Clone)]
enum Choice {
    Static,
    PerFlow,
    LeastLoaded(Box<Balance>),
}

impl Lanes {
    /// `seed` keys the hash of flows.
    pub(super) fn new(seed: u64) -> Lanes {
        Lanes { seed, choice: Choice::PerFlow }
    }

    /// Chooses as the plan says from now on. Flows are remembered from one plan to the next.
    pub(super) fn adopt(&mut self, choice: LaneChoice) {
        match (choice, &mut self.choice) {
            (LaneChoice::LeastLoaded, Choice::LeastLoaded(_)) => {}
            (LaneChoice::LeastLoaded, other) => *other = Choice::LeastLoaded(Balance::new()),
            (LaneChoice::Static, other) => *other = Choice::Static,
            (LaneChoice::PerFlow, other) => *other = Choice::PerFlow,
        }
    }

    /// One of the routes that are usable; none if none is.
    #[inline(never)]
    pub(super) fn choose<'a>(
        &mut self,
        found: Found<'a>,
        usable: impl Fn(&Candidate<'a>) -> bool,
        context: &Context<'_>,
        queues: &OutputQueues,
        packet: &Packet,
    ) -> Option<Candidate<'a>> {
        let seed = self.seed;
        let flow = || flow_hash(context.pool.data(packet), seed);
        let Choice::LeastLoaded(balance) = &mut self.choice else {
            return self.choose_for_all(found, usable, flow);
        };
        let routes: ArrayVec<_, ROUTES_MAX> =
            candidates(found).filter(usable).take(ROUTES_MAX).collect();
        balance.choose(context.now, flow(), packet.len(), found.len(), &routes, queues)
    }

    /// The same for all packets of a flow, as long as the same routes are usable. `flow`: its hash.
    /// Where the load decides, that is the route of the last packet; none before the first one.
    pub(super) fn choose_for_all<'a>(
        &self,
        found: Found<'a>,
        usable: impl Fn(&Candidate<'a>) -> bool,
        flow: impl FnOnce() -> u64,
    ) -> Option<Candidate<'a>> {
        let routes = candidates(found);
        match self.choice {
            Choice::Static => by_destination(routes.take(ROUTES_MAX).collect(), usable),
            Choice::PerFlow => {
                let flow = flow();
                routes.filter(usable).max_by_key(|r| weight(flow, r.0))
            }
            Choice::LeastLoaded(ref balance) => {
                let flowlet = balance.flowlets[balance.place(flow())];
                routes.filter(usable).find(|route| flowlet.is_by(route, found.len()))
            }
        }
    }

    /// The route of a flow with this key, likewise.
    pub(super) fn choose_for_flow<'a>(
        &self,
        found: Found<'a>,
        usable: impl Fn(&Candidate<'a>) -> bool,
        key: &FlowKey,
    ) -> Option<Candidate<'a>> {
        self.choose_for_all(found, usable, || key.hash(self.seed))
    }
}

/// News of the fast table about flows that the load leads, by their hashes.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// How long the round took that has ended; zero if none has.
    pub(crate) time: Duration,
    /// Flows that have got a rule.
    pub(crate) began: Vec<u64>,
    /// Flows whose rules have ended.
    pub(crate) ended: Vec<u64>,
    /// Flows that sent in the round by a rule, or before they got it; their ports, their bytes.
    pub(crate) sent: Vec<(u64, PortId, u64)>,
}

impl Lanes {
    /// The forwarder of a packet to the group's router, by the packet's key: one that has its part
    /// of the table. The packet's addresses alone decide, so that fragments follow their flow. So
    /// does the place of a forwarder's way, so that flows of the others stay where they are when
    /// one comes or goes.
    #[inline(never)]
    pub(super) fn choose_forwarder<'a>(
        &self,
        found: Found<'a>,
        usable: impl Fn(&Candidate<'a>) -> bool,
        plan: &FabricPlan,
        key: Option<&FlowKey>,
    ) -> Option<Candidate<'a>> {
        let hosts = key.map_or(0, |key| key.of_hosts().hash(self.seed));
        let places = key.map_or(EVERYWHERE, |key| plan.places(key));
        let held = candidates(found).filter(|route| places >> route.0 & 1 == 1);
        held.filter(usable).max_by_key(|route| weight(hosts, route.0))
    }
}

impl super::Fabric {
    /// A copy of what is remembered of flows, if that decides about the next packet.
    pub(crate) fn remembered_lanes(&self) -> Option<Lanes> {
        matches!(self.lanes.choice, Choice::LeastLoaded(_)).then(|| self.lanes.clone())
    }

    /// Takes over what another worker remembers.
    pub(crate) fn set_lanes(&mut self, lanes: Lanes) {
        self.lanes = lanes;
    }

    /// The hash of a flow if the load has led it to its route, one of several.
    pub(crate) fn led_by_load(&self, found: Found<'_>, key: Option<&FlowKey>) -> Option<u64> {
        let is_led = found.len() > 1 && matches!(self.lanes.choice, Choice::LeastLoaded(_));
        key.filter(|_| is_led).map(|key| key.hash(self.lanes.seed))
    }

    /// Takes in news of the fast table.
    pub(crate) fn carry(&mut self, now: Time, news: &Carried) {
        if let Choice::LeastLoaded(balance) = &mut self.lanes.choice {
            balance.carry(now, news);
        }
    }
}

/// The routes of a set.
fn candidates(found: Found<'_>) -> impl Iterator<Item = Candidate<'_>> {
    (0..found.len()).filter_map(move |i| found.get(i).map(|(port, header)| (i, port, header)))
}

/// The route by which the destination's port takes its turn, or the next that is usable: flows to
/// other ports stay where they are.
fn by_destination<'a>(
    mut routes: ArrayVec<Candidate<'a>, ROUTES_MAX>,
    usable: impl Fn(&Candidate<'a>) -> bool,
) -> Option<Candidate<'a>> {
    // In an order that is the same for all destinations, whatever that of the set.
    routes.sort_unstable_by_key(|&(_, port, header)| (port, header));
    let &(_, port, header) = routes.first()?;
    let first = usize::from(last_hop(header).unwrap_or(port)) / 2;
    let turns = (0..routes.len()).map(|i| routes[(first + i) % routes.len()]);
    turns.into_iter().find(usable)
}

/// The port of the destination, where a route ends.
fn last_hop(header: &[u8]) -> Option<u8> {
    let fields = Fields::read(header).ok()?;
    let end = fields.header_len().checked_sub(usize::from(fields.reverse()) + 1)?;
    (fields.forward() > 0).then(|| header.get(end).copied()).flatten()
}

/// Flows and lanes as they are remembered to balance these.
#[derive(Clone)]
struct Balance {
    flowlets: Box<[Flowlet]>,
    /// By port.
    lanes: [Lane; 256],
    /// Bytes sent lately over all lanes, and those that the fast table would have sent.
    sent: u64,
    carried: u64,
    /// The half-life that it is.
    period: u64,
    /// The pause that it is, flows seen in it, and in the one before.
    window: u32,
    active: u32,
    active_before: u32,
}

/// Flows whose hashes fall on the same entry.
#[derive(Clone, Copy)]
struct Flowlet {
    /// When the last packet will have left.
    gone: Time,
    /// The pause in which the last packet came.
    window: u32,
    /// Rules of these flows in the fast table.
    rules: u16,
    /// The route's number in its set; `NONE` before the first packet.
    route: u8,
}

impl Flowlet {
    /// Whether the last packet went by a route of a set of `len`. Entries are shared, so a number
    /// may come from a larger set.
    fn is_by(&self, route: &Candidate<'_>, len: usize) -> bool {
        self.route != NONE && usize::from(self.route) % len == route.0
    }

    /// A packet of these flows has come in this window; 1 if it is their first.
    fn enter(&mut self, window: u32) -> u32 {
        u32::from(std::mem::replace(&mut self.window, window) != window)
    }
}

const NONE: u8 = u8::MAX;

#[derive(Clone, Copy, Default)]
struct Lane {
    /// Bytes sent lately.
    sent: u64,
    /// Bytes that flows which have begun lately are expected to send besides.
    expected: u64,
    /// Bytes that the fast table would have sent lately, at the rate of its last round.
    carried: u64,
}

impl Balance {
    fn new() -> Box<Balance> {
        let fresh = Flowlet { gone: Time::ZERO, window: 0, rules: 0, route: NONE };
        Box::new(Balance {
            flowlets: vec![fresh; FLOWLETS].into_boxed_slice(),
            lanes: [Lane::default(); 256],
            sent: 0,
            carried: 0,
            period: 0,
            window: 0,
            active: 0,
            active_before: 0,
        })
    }

    /// The flow's route while it goes on, otherwise the one with the least to carry. `routes` are
    /// those usable of a set of `len`.
    fn choose<'a>(
        &mut self,
        now: Time,
        flow: u64,
        bytes: usize,
        len: usize,
        routes: &[Candidate<'a>],
        queues: &OutputQueues,
    ) -> Option<Candidate<'a>> {
        self.advance(now);
        let bytes = bytes as u64;
        let at = self.place(flow);
        let mut flowlet = self.flowlets[at];
        let goes_on = flowlet.rules > 0 || now <= flowlet.gone + PAUSE;
        let same = |route: &&Candidate<'_>| goes_on && flowlet.is_by(route, len);
        let route = match routes.iter().find(same) {
            Some(route) => *route,
            // The flow with the rule keeps the entry's.
            None if flowlet.rules > 0 => *routes.iter().max_by_key(|r| weight(flow, r.0))?,
            None => {
                let load = |port| self.load_ns(port, queues);
                let least = |r: &&Candidate<'_>| (load(r.1), Reverse(weight(flow, r.0)));
                let route = *routes.iter().min_by_key(least)?;
                let active = u64::from(self.active.max(self.active_before).max(1));
                let usual = (self.sent + self.carried) / active;
                self.lanes[usize::from(route.1)].expected += usual.saturating_sub(bytes);
                flowlet.route = route.0 as u8;
                route
            }
        };
        let lane = &mut self.lanes[usize::from(route.1)];
        lane.sent += bytes;
        self.sent += bytes;
        self.active += flowlet.enter(self.window);
        // Packets of this batch for the port are not queued yet, but already count as sent lately.
        let gone = now + queues.wait_max(PortId::from(route.1), lane.sent);
        flowlet.gone = flowlet.gone.max(gone);
        self.flowlets[at] = flowlet;
        Some(route)
    }

    fn place(&self, flow: u64) -> usize {
        (flow >> 32) as usize % self.flowlets.len()
    }

    fn carry(&mut self, now: Time, news: &Carried) {
        self.advance(now);
        for flow in &news.began {
            let at = self.place(*flow);
            self.flowlets[at].rules = self.flowlets[at].rules.saturating_add(1);
        }
        for flow in &news.ended {
            let at = self.place(*flow);
            let flowlet = &mut self.flowlets[at];
            flowlet.rules = flowlet.rules.saturating_sub(1);
            flowlet.gone = flowlet.gone.max(now);
        }
        if news.time == Duration::ZERO {
            return;
        }
        self.carried = 0;
        self.lanes.iter_mut().for_each(|lane| lane.carried = 0);
        // Of an even flow so much is remembered: half of it is lost in each half-life.
        let kept = HALF_LIFE.as_secs_f64() / LN_2 / news.time.max(HALF_LIFE).as_secs_f64();
        for (flow, port, bytes) in &news.sent {
            let at = self.place(*flow);
            self.active += self.flowlets[at].enter(self.window);
            let lately = (*bytes as f64 * kept) as u64;
            if let Some(lane) = self.lanes.get_mut(usize::from(*port)) {
                lane.carried += lately;
                self.carried += lately;
            }
        }
    }

    /// Lets past bytes and estimates fade.
    fn advance(&mut self, now: Time) {
        let period = now.as_nanos() / HALF_LIFE.as_nanos() as u64;
        if period != self.period {
            let halvings = period.saturating_sub(self.period).min(63);
            self.period = period;
            self.sent >>= halvings;
            for lane in &mut self.lanes {
                (lane.sent, lane.expected) = (lane.sent >> halvings, lane.expected >> halvings);
            }
            let window = (now.as_nanos() / PAUSE.as_nanos() as u64) as u32;
            if window != self.window {
                let is_next = window == self.window.wrapping_add(1);
                self.active_before = if is_next { self.active } else { 0 };
                (self.active, self.window) = (0, window);
            }
        }
    }

    /// How long a port would take to send its load, in nanoseconds.
    fn load_ns(&self, port: u8, queues: &OutputQueues) -> u64 {
        let lane = self.lanes[usize::from(port)];
        let waiting = queues.queued(port.into()).1 as u64;
        let bytes = [lane.sent, lane.expected, lane.carried, waiting].map(u128::from);
        let bits = 8 * bytes.iter().sum::<u128>();
        let rate = queues.rate_bits_per_s(port.into()).unwrap_or(RATE_USUAL_BITS_PER_S);
        (bits * 1_000_000_000 / u128::from(rate)) as u64
    }
}

const _: () = assert!(size_of::<Flowlet>() == 16);
const _: () = assert!(ROUTES_MAX < NONE as usize);
// A pause begins with a half-life.
const _: () = assert!(PAUSE.as_nanos().is_multiple_of(HALF_LIFE.as_nanos()));
