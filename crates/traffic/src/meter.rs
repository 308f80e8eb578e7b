//! Receives test packets from a port and keeps each flow's statistics.

use plexus_io::{BATCH, Batch, Pool, Port};
use plexus_wire::Time;
use serde::Serialize;

use crate::probe::{PROBE_UDP_PORT, Probe};
use crate::receive::find_probe;
use crate::sizes::FCS;
use crate::stats::{FlowStats, Start, Summary};

/// Configuration of a meter.
#[derive(Clone, Copy, Debug)]
pub struct MeterConfig {
    /// The UDP port that probes come to.
    pub udp_port: u16,
    /// Which sequence number flows begin with.
    pub start: Start,
    /// How many flows have a latency histogram and a long window of their own; the latencies of
    /// further ones are kept together.
    pub detailed_flows: usize,
    /// How many flows are distinguished; probes of further ones are only counted. A hostile sender
    /// could name 16 million.
    pub flows_max: usize,
}

impl Default for MeterConfig {
    fn default() -> MeterConfig {
        MeterConfig {
            udp_port: PROBE_UDP_PORT,
            start: Start::Zero,
            detailed_flows: 64,
            flows_max: 1 << 20,
        }
    }
}

/// Window of the flows beyond `detailed_flows`: 128 bytes each.
const SHORT_WINDOW: usize = 1024;

const NO_FLOW: u32 = u32::MAX;

/// Everything that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Arrived {
    /// Probes.
    pub probes: u64,
    /// Bytes of the frames that carried them, FCS included.
    pub bytes: u64,
    /// Probes of flows beyond `flows_max`.
    pub untracked: u64,
    /// Frames without a probe.
    pub foreign: u64,
}

/// Counts probes by flow.
pub struct Meter {
    config: MeterConfig,
    /// For each flow number where its statistics are, or `NO_FLOW`.
    index: Vec<u32>,
    flows: Vec<(u32, FlowStats)>,
    /// Latencies of the flows that have no histogram of their own.
    others: FlowStats,
    arrived: Arrived,
    batch: Batch,
}

impl Meter {
    /// A meter that has seen nothing.
    pub fn new(config: MeterConfig) -> Meter {
        Meter {
            config,
            index: Vec::new(),
            flows: Vec::new(),
            others: FlowStats::with_window(config.start, 64).with_latency(),
            arrived: Arrived::default(),
            batch: Batch::new(),
        }
    }

    /// Receives a batch, accounts for it and frees it. Returns how many packets there were. A
    /// driver with a real clock reads it again between [`receive`](Meter::receive) and
    /// [`account_received`](Meter::account_received) instead: packets arrive during the call.
    #[inline]
    pub fn turn(&mut self, now: Time, pool: &mut Pool, port: &mut (impl Port + ?Sized)) -> usize {
        let n = self.receive(now, pool, port);
        self.account_received(now, pool);
        n
    }

    /// Receives a batch and holds it. Returns how many packets there are.
    #[inline]
    pub fn receive(
        &mut self,
        now: Time,
        pool: &mut Pool,
        port: &mut (impl Port + ?Sized),
    ) -> usize {
        port.receive(now, pool, &mut self.batch)
    }

    /// Accounts for the packets received, as having arrived at `now`, and frees them.
    #[inline]
    pub fn account_received(&mut self, now: Time, pool: &mut Pool) {
        let mut batch = std::mem::take(&mut self.batch);
        // Frames written by the kernel miss the cache: prefetch the next ones.
        const AHEAD: usize = 8;
        for packet in batch.iter().take(AHEAD) {
            pool.prefetch(packet);
        }
        for i in 0..batch.len() {
            if let Some(packet) = batch.get(i + AHEAD) {
                pool.prefetch(packet);
            }
            self.account(now, pool.data(&batch[i]));
        }
        batch.drain(..).for_each(|p| pool.free(p));
        self.batch = batch;
    }

    /// Accounts for one frame, without FCS, that arrived at `now`.
    #[inline]
    pub fn account(&mut self, now: Time, frame: &[u8]) {
        let Some(probe) = find_probe(frame, self.config.udp_port) else {
            self.arrived.foreign += 1;
            return;
        };
        let bytes = frame.len() + FCS;
        self.arrived.probes += 1;
        self.arrived.bytes += bytes as u64;
        let Some(at) = self.place(&probe) else {
            self.arrived.untracked += 1;
            return;
        };
        let latency = self.flows[at].1.record(now, bytes, &probe);
        if at >= self.config.detailed_flows
            && let Some(ns) = latency
        {
            self.others.record_latency(ns);
        }
    }

    /// Where the flow's statistics are, made at its first packet.
    #[inline]
    fn place(&mut self, probe: &Probe) -> Option<usize> {
        match self.index.get(probe.flow as usize) {
            Some(&at) if at != NO_FLOW => Some(at as usize),
            _ => self.add_flow(probe.flow),
        }
    }

    #[cold]
    fn add_flow(&mut self, flow: u32) -> Option<usize> {
        let at = self.flows.len();
        if at >= self.config.flows_max {
            return None;
        }
        if self.index.len() <= flow as usize {
            self.index.resize((flow as usize + 1).next_power_of_two().max(BATCH), NO_FLOW);
        }
        self.index[flow as usize] = at as u32;
        let stats = if at < self.config.detailed_flows {
            FlowStats::new(self.config.start)
        } else {
            FlowStats::with_window(self.config.start, SHORT_WINDOW)
        };
        self.flows.push((flow, stats));
        Some(at)
    }

    /// Everything that arrived, at no cost: for progress lines.
    pub fn arrived(&self) -> Arrived {
        self.arrived
    }

    /// The flows in the order in which they appeared, with their numbers.
    pub fn flows(&self) -> impl Iterator<Item = (u32, &FlowStats)> {
        self.flows.iter().map(|(flow, stats)| (*flow, stats))
    }

    /// Sets how many packets a flow's sender claims to have sent, so that loss at the end is
    /// counted ([`FlowStats::sent`]).
    pub fn sent(&mut self, flow: u32, packets: u64) {
        let known = Probe::new(flow, 0, Time::ZERO);
        if packets > 0
            && let Some(at) = self.place(&known)
        {
            self.flows[at].1.sent(packets);
        }
    }

    /// The sum over all flows; takes time in proportion to their number.
    pub fn total(&self) -> Summary {
        let mut total = FlowStats::with_window(self.config.start, 64).with_latency();
        for (_, stats) in &self.flows {
            total.merge(stats);
        }
        total.merge_latency(&self.others);
        total.summary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(flow: u32, sequence: u64) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&crate::PROBE_ETHERTYPE.to_be_bytes());
        let probe = Probe::new(flow, sequence, Time::from_nanos(100));
        assert!(probe.encode(&mut frame[14..]));
        frame
    }

    #[test]
    fn flows_beyond_the_limit_are_counted_only() {
        let mut meter = Meter::new(MeterConfig { flows_max: 2, ..MeterConfig::default() });
        for flow in [0, Probe::FLOW_MAX, 5, 0] {
            meter.account(Time::from_nanos(200), &frame(flow, 0));
        }
        meter.account(Time::from_nanos(200), b"something else");
        let a = meter.arrived();
        assert_eq!((a.probes, a.untracked, a.foreign), (4, 1, 1));
        assert_eq!(meter.flows().map(|f| f.0).collect::<Vec<_>>(), [0, Probe::FLOW_MAX]);
        assert_eq!(meter.total().duplicates, 1);
    }

    #[test]
    fn the_total_has_the_latencies_of_all_flows() {
        let mut meter = Meter::new(MeterConfig { detailed_flows: 1, ..MeterConfig::default() });
        for flow in 0..3 {
            meter.account(Time::from_nanos(200 + u64::from(flow)), &frame(flow, 0));
        }
        let latency = meter.total().latency.unwrap();
        assert_eq!((latency.min_ns, latency.p50_ns, latency.max_ns), (100, 101, 102));
        assert!(meter.flows().nth(1).unwrap().1.summary().latency.is_none());
    }

    #[test]
    fn a_flow_of_which_nothing_came_is_lost() {
        let mut meter = Meter::new(MeterConfig::default());
        meter.sent(3, 10);
        assert_eq!((meter.total().lost, meter.total().loss), (10, 1.0));
    }
}
