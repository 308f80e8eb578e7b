//! Parts that the experiments on the traffic co-processor share: traffic at flow level, the best
//! offload that a given table allows, and the switch of `traffic-coprocessor.txt` §4.

pub(super) mod switch;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use plexus_traffic::FlowSizes;
use plexus_wire::Time;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp};
use rand_pcg::Pcg64Mcg;

/// Bytes that a segment carries.
const MSS: u32 = 1460;
/// The initial window, ten segments (RFC 6928), and the longest train.
const TRAIN: u32 = 10 * MSS;
/// A SYN in a frame of the least size.
const SYN: u32 = 60;
/// A server's link, in bytes per nanosecond: 1 Gb/s.
const LINK: f64 = 0.125;
/// Round-trip time without queues ("less than 250 us", Alizadeh et al., DCTCP, SIGCOMM 2010).
pub(super) const RTT: Duration = Duration::from_micros(250);

/// Packets of a flow that stay together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Train {
    pub(super) at: Time,
    /// Flows are numbered from 0, in the order of their beginnings.
    pub(super) flow: u32,
    pub(super) bytes: u32,
    pub(super) packets: u32,
}

/// Flows among servers.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) sizes: FlowSizes,
    pub(super) servers: usize,
    pub(super) flows_per_s: f64,
    /// New flows begin for so long.
    pub(super) time: Duration,
    /// Whether a flow begins with a handshake of one round trip, as TCP does.
    pub(super) handshake: bool,
}

/// The trains of a load, in the order of time.
///
/// Flows begin as a Poisson process, each from one server to another, both drawn evenly. A link's
/// rate is divided evenly among its flows, and a flow gets the lesser share of its two links. Its
/// window bounds it before that: it begins with ten segments and doubles every round trip. Data
/// goes in trains of up to ten segments. The reverse direction (acknowledgements) is left out.
pub(super) struct Trains<'a> {
    load: &'a Load,
    rng: Pcg64Mcg,
    gaps: Option<Exp<f64>>,
    next_flow: Time,
    flows: u32,
    /// Flows under way by the time of their next train, and their place in `active`.
    due: BinaryHeap<Reverse<(Time, u32)>>,
    active: Vec<Active>,
    spare: Vec<u32>,
    /// Flows under way from and to each server.
    from: Vec<u32>,
    to: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Active {
    flow: u32,
    src: usize,
    dst: usize,
    left: u64,
    window: u64,
    is_open: bool,
}

impl<'a> Trains<'a> {
    pub(super) fn new(load: &'a Load, seed: u64) -> Trains<'a> {
        let mut trains = Trains {
            load,
            rng: Pcg64Mcg::seed_from_u64(seed),
            gaps: Exp::new(load.flows_per_s).ok(),
            next_flow: Time::ZERO,
            flows: 0,
            due: BinaryHeap::new(),
            active: Vec::new(),
            spare: Vec::new(),
            from: vec![0; load.servers],
            to: vec![0; load.servers],
        };
        trains.next_flow = trains.gap();
        trains
    }

    /// When the flow after this one begins, if it is within the load's time.
    fn gap(&mut self) -> Time {
        let Some(gaps) = self.gaps else { return Time::FOREVER };
        let at = self.next_flow + Duration::from_secs_f64(gaps.sample(&mut self.rng));
        if at < Time::ZERO + self.load.time { at } else { Time::FOREVER }
    }

    fn begin(&mut self) {
        let src = self.rng.random_range(0..self.load.servers);
        let other = self.rng.random_range(1..self.load.servers);
        let dst = (src + other) % self.load.servers;
        let flow = Active {
            flow: self.flows,
            src,
            dst,
            left: self.load.sizes.sample(&mut self.rng),
            window: TRAIN.into(),
            is_open: !self.load.handshake,
        };
        self.flows += 1;
        self.from[src] += 1;
        self.to[dst] += 1;
        let place = self.spare.pop().unwrap_or(self.active.len() as u32);
        match self.active.get_mut(place as usize) {
            Some(at) => *at = flow,
            None => self.active.push(flow),
        }
        self.due.push(Reverse((self.next_flow, place)));
        self.next_flow = self.gap();
    }
}

impl Iterator for Trains<'_> {
    type Item = Train;

    fn next(&mut self) -> Option<Train> {
        while self.next_flow < Time::FOREVER
            && self.due.peek().is_none_or(|due| self.next_flow <= due.0.0)
        {
            self.begin();
        }
        let Reverse((at, place)) = self.due.pop()?;
        let flow = &mut self.active[place as usize];
        if !flow.is_open {
            flow.is_open = true;
            self.due.push(Reverse((at + RTT, place)));
            return Some(Train { at, flow: flow.flow, bytes: SYN, packets: 1 });
        }
        let bytes = flow.left.min(TRAIN.into()) as u32;
        flow.left -= u64::from(bytes);
        let train = Train { at, flow: flow.flow, bytes, packets: bytes.div_ceil(MSS) };
        if flow.left == 0 {
            self.from[flow.src] -= 1;
            self.to[flow.dst] -= 1;
            self.spare.push(place);
            return Some(train);
        }
        let share = LINK / f64::from(self.from[flow.src].max(self.to[flow.dst]));
        let rtt_ns = RTT.as_nanos() as f64;
        let rate = share.min(flow.window as f64 / rtt_ns);
        // One window more per window that is acknowledged, while that makes a difference.
        if (flow.window as f64) < LINK * rtt_ns {
            flow.window += u64::from(bytes);
        }
        let gap = Duration::from_nanos((f64::from(bytes) / rate) as u64);
        self.due.push(Reverse((at + gap, place)));
        Some(train)
    }
}

/// The best that tables of some sizes could offload if they knew the future: of each interval, the
/// flows with most bytes (`traffic-coprocessor.txt` §3.1).
pub(super) struct Best {
    interval: Duration,
    sizes: Vec<usize>,
    end: Time,
    /// Bytes of each flow in this interval, and the flows with any.
    bytes: Vec<u32>,
    touched: Vec<u32>,
    /// How many intervals have ended.
    ended: usize,
    /// Those with traffic.
    pub(super) intervals: Vec<Interval>,
}

/// An interval with traffic.
#[derive(Debug, PartialEq)]
pub(super) struct Interval {
    /// Its number, counted from 0 with those without traffic.
    pub(super) number: usize,
    pub(super) flows: usize,
    pub(super) bytes: u64,
    /// The bytes that each table offloads.
    pub(super) best: Vec<u64>,
}

impl Interval {
    /// The percentage that the table of this index offloads.
    pub(super) fn percent(&self, table: usize) -> f64 {
        self.best[table] as f64 / self.bytes as f64 * 100.0
    }
}

impl Best {
    pub(super) fn new(interval: Duration, sizes: &[usize]) -> Best {
        Best {
            interval,
            sizes: sizes.into(),
            end: Time::ZERO + interval,
            bytes: Vec::new(),
            touched: Vec::new(),
            ended: 0,
            intervals: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, train: &Train) {
        while train.at >= self.end {
            self.finish();
            self.end = self.end + self.interval;
        }
        let flow = train.flow as usize;
        if flow >= self.bytes.len() {
            self.bytes.resize(flow + 1, 0);
        }
        if self.bytes[flow] == 0 {
            self.touched.push(train.flow);
        }
        self.bytes[flow] = self.bytes[flow].saturating_add(train.bytes);
    }

    /// Ends the interval.
    pub(super) fn finish(&mut self) {
        let take = |flow: u32| std::mem::take(&mut self.bytes[flow as usize]);
        let mut bytes: Vec<u32> = self.touched.drain(..).map(take).collect();
        bytes.sort_unstable_by(|a, b| b.cmp(a));
        let sum = |n: usize| bytes.iter().take(n).map(|b| u64::from(*b)).sum::<u64>();
        if !bytes.is_empty() {
            let best = self.sizes.iter().map(|k| sum(*k)).collect();
            let (flows, bytes) = (bytes.len(), sum(usize::MAX));
            self.intervals.push(Interval { number: self.ended, flows, bytes, best });
        }
        self.ended += 1;
    }

    /// The percentage that the table of index `table` offloads over all intervals.
    pub(super) fn percent(&self, table: usize) -> f64 {
        let all: u64 = self.intervals.iter().map(|i| i.bytes).sum();
        let best: u64 = self.intervals.iter().map(|i| i.best[table]).sum();
        best as f64 / all.max(1) as f64 * 100.0
    }
}

/// Flows that have sent within a timeout, second by second, from each flow's first and last packet.
#[derive(Default)]
pub(super) struct ActiveFlows {
    spans: Vec<(Time, Time)>,
}

impl ActiveFlows {
    pub(super) fn add(&mut self, train: &Train) {
        match self.spans.get_mut(train.flow as usize) {
            Some(span) => span.1 = train.at,
            None => self.spans.push((train.at, train.at)),
        }
    }

    pub(super) fn flows(&self) -> usize {
        self.spans.len()
    }

    /// At the end of each whole second until the last packet: flows whose last packet is at most
    /// `timeout` ago. A flow with a longer pause counts as active in the pause.
    pub(super) fn by_second(&self, timeout: Duration) -> Vec<u32> {
        let second = |t: Time| (t.as_nanos() / 1_000_000_000) as usize;
        let end = self.spans.iter().map(|span| second(span.1)).max().unwrap_or(0);
        let mut changes = vec![0i64; end + 2];
        for (first, last) in &self.spans {
            changes[second(*first).min(end)] += 1;
            // At the end of that second its last packet is longer ago.
            changes[second(*last + timeout).min(end + 1)] -= 1;
        }
        let sums = changes.iter().take(end).scan(0, |sum, change| {
            *sum += change;
            Some(*sum as u32)
        });
        sums.collect()
    }
}

#[cfg(test)]
mod tests {
    use plexus_traffic::Published;

    use super::*;

    fn load(flows_per_s: f64, handshake: bool) -> Load {
        let sizes = FlowSizes::from(Published::WebSearch).with_mean(300_000.0);
        Load { sizes, servers: 8, flows_per_s, time: Duration::from_secs(20), handshake }
    }

    #[test]
    fn trains_carry_the_load_in_order_of_time() {
        let load = load(500.0, true);
        let trains: Vec<Train> = Trains::new(&load, 1).collect();
        assert!(trains.is_sorted_by_key(|train| train.at));
        let flows = 1 + trains.iter().map(|train| train.flow).max().unwrap();
        assert!((9_600..10_400).contains(&flows), "{flows}");
        let bytes: u64 = trains.iter().map(|train| u64::from(train.bytes)).sum();
        assert!((bytes as f64 / f64::from(flows) / 300_000.0 - 1.0).abs() < 0.05);
        assert!(trains.iter().all(|t| t.bytes <= TRAIN && t.packets == t.bytes.div_ceil(MSS)));
        assert!(Trains::new(&load, 1).eq(trains.iter().copied()));
        // Data comes a round trip after the SYN.
        let first = trains.iter().find(|t| t.flow == 3).unwrap();
        let second = trains.iter().filter(|t| t.flow == 3).nth(1).unwrap();
        assert_eq!((first.bytes, second.at), (SYN, first.at + RTT));
    }

    /// A server sends and receives no more than its link carries, but for the trains under way.
    #[test]
    fn links_are_not_exceeded() {
        let load = Load { servers: 2, ..load(2000.0, false) };
        let trains: Vec<Train> = Trains::new(&load, 1).collect();
        let last = trains.last().unwrap().at.as_nanos() as f64;
        let bytes: f64 = trains.iter().map(|train| f64::from(train.bytes)).sum();
        let full = bytes / (last * LINK * 2.0);
        assert!((0.9..1.02).contains(&full), "{full}");
    }

    #[test]
    fn the_best_is_of_the_largest_of_each_interval() {
        let train = |ms, flow, bytes| Train { at: Time::from_millis(ms), flow, bytes, packets: 1 };
        let mut best = Best::new(Duration::from_millis(100), &[1, 2]);
        for train in [train(0, 0, 10), train(1, 1, 20), train(99, 2, 5), train(350, 2, 7)] {
            best.add(&train);
        }
        best.finish();
        let interval = |number, flows, bytes, best| Interval { number, flows, bytes, best };
        let expected = [interval(0, 3, 35, vec![20, 30]), interval(3, 1, 7, vec![7, 7])];
        assert_eq!(best.intervals, expected);
        assert_eq!(best.percent(0), 27.0 / 42.0 * 100.0);
    }

    #[test]
    fn flows_are_active_until_their_timeout() {
        let train = |s, flow| Train { at: Time::from_secs(s), flow, bytes: 1, packets: 1 };
        let mut active = ActiveFlows::default();
        [train(0, 0), train(1, 1), train(2, 1), train(9, 2)].iter().for_each(|t| active.add(t));
        assert_eq!(active.by_second(Duration::from_secs(3)), [1, 2, 2, 1, 1, 0, 0, 0, 0]);
    }
}
