//! The outcome of a flow.

use std::time::Duration;

use plexus_topo::{Expect, Extent, Flow, Proto, Target, Topology};
use plexus_traffic::FlowStats;

use crate::report::FlowReport;

/// What became of a flow.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Payload bytes.
    pub sent_bytes: u64,
    /// Those that arrived, each counted once however often it came.
    pub received_bytes: u64,
    /// Payload bits/s that were sent.
    pub sent_bits_per_s: f64,
    /// Payload bits/s received, over the flow's own time: losses at its beginning or end lower it,
    /// and so do arrivals that take longer than the sending did.
    pub received_bits_per_s: f64,
    /// The fraction that did not arrive, 0 to 1: packets, or bytes for TCP.
    pub loss: f64,
    /// Latency of the first packet in microseconds.
    pub latency_us_first: Option<f64>,
    /// Median latency.
    pub latency_us_p50: Option<f64>,
    /// Its 99th percentile.
    pub latency_us_p99: Option<f64>,
    /// Packets that came after a later one.
    pub reordered: Option<u64>,
    /// Packets that came more than once.
    pub duplicates: Option<u64>,
    /// Answered requests per second, of a flow that has such.
    pub transactions_per_s: Option<f64>,
    /// Times without arrivals although packets were in flight: beginning after the start of the
    /// run, and length.
    pub gaps: Vec<(Duration, Duration)>,
    /// Whether the sender sent: what never set out was not blocked.
    pub set_out: bool,
    /// What went wrong, beyond numbers.
    pub problem: Option<String>,
    /// A note for the reader.
    pub note: Option<String>,
}

impl Outcome {
    /// A flow that could not even begin.
    pub fn failed(problem: impl Into<String>) -> Outcome {
        Outcome { loss: 1.0, problem: Some(problem.into()), ..Outcome::default() }
    }

    /// Fills in what a packet meter measured of a flow that sent for this many `seconds`. Its
    /// packets have one size, or none was duplicated.
    pub fn from_stats(stats: &mut FlowStats, sent: u64, sent_bytes: u64, seconds: f64) -> Outcome {
        stats.sent(sent);
        let summary = stats.summary();
        let once = |n: u128| n * u128::from(stats.distinct()) / u128::from(summary.received.max(1));
        let received_bytes = once(summary.bytes.into()) as u64;
        // The first arrival only opens the time from first to last, so that one interval more
        // belongs to them all.
        let intervals = summary.received.saturating_sub(1).max(1) as f64;
        let arriving = summary.seconds * (1.0 + 1.0 / intervals);
        let us = |ns: u64| ns as f64 / 1000.0;
        Outcome {
            sent_bytes,
            received_bytes,
            sent_bits_per_s: bits_per_s(sent_bytes, seconds),
            received_bits_per_s: bits_per_s(received_bytes, seconds.max(arriving)),
            loss: summary.loss,
            latency_us_p50: summary.latency.map(|l| us(l.p50_ns)),
            latency_us_p99: summary.latency.map(|l| us(l.p99_ns)),
            reordered: Some(summary.reordered),
            duplicates: Some(summary.duplicates),
            ..Outcome::default()
        }
    }

    /// Says how long the first packet took, if it arrived.
    #[must_use]
    pub fn with_first(mut self, first: Option<Duration>) -> Outcome {
        self.latency_us_first = first.map(|d| d.as_secs_f64() * 1e6);
        self
    }

    /// Says whether anything set out, and why not if nothing did.
    #[must_use]
    pub fn with_departures(mut self, departed: u64, refusal: Option<std::io::Error>) -> Outcome {
        self.set_out = departed > 0;
        if !self.set_out {
            let why = refusal.map_or_else(|| "there was nothing to send".into(), |e| e.to_string());
            self.problem = Some(format!("the sender sent nothing: {why}"));
        }
        self
    }

    /// Whether the flow did what was expected, in words too.
    pub fn meets(&self, flow: &Flow) -> (bool, String) {
        match (flow.expect, flow.proto) {
            (Expect::Blocked, _) => {
                let blocked = self.set_out && self.received_bytes == 0;
                (blocked, format!("{} is blocked", flow.name))
            }
            (Expect::Pass, Proto::Tcp) => {
                let all = self.received_bytes == self.sent_bytes && self.sent_bytes > 0;
                let how = if flow.verify { "arrives byte-identical" } else { "arrives" };
                (all && self.problem.is_none(), format!("{} {how}", flow.name))
            }
            (Expect::Pass, _) => {
                let arrives = self.received_bytes > 0 && self.problem.is_none();
                (arrives, format!("{} arrives", flow.name))
            }
        }
    }

    /// Its report.
    pub fn report(&self, flow: &Flow, topology: &Topology) -> FlowReport {
        let to = match flow.to {
            Target::Host(host) => topology.hosts[host].name.clone(),
            Target::Address(address) => address.to_string(),
        };
        FlowReport {
            name: flow.name.clone(),
            from: topology.hosts[flow.from].name.clone(),
            to,
            proto: flow.proto.name().to_string(),
            sent_bits_per_s: self.sent_bits_per_s,
            received_bits_per_s: self.received_bits_per_s,
            loss: self.loss,
            latency_us_first: self.latency_us_first,
            latency_us_p50: self.latency_us_p50,
            latency_us_p99: self.latency_us_p99,
            reordered: self.reordered,
            duplicates: self.duplicates,
            transactions_per_s: self.transactions_per_s,
        }
    }
}

/// For how long a sender of packets sent that has taken `elapsed` from its first packet to its
/// last: the last one has its interval too.
pub fn sending_time(extent: &Extent, elapsed: Duration, interval: Duration) -> Duration {
    match extent {
        Extent::Duration(whole) => elapsed.max(*whole),
        Extent::Bytes(_) | Extent::Packets(_) => elapsed + interval,
    }
}

/// A rate; zero where no time has passed.
pub fn bits_per_s(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use plexus_traffic::{Probe, Start};
    use plexus_wire::Time;

    use super::*;

    /// Probes of 1,000 bits, sent one per millisecond, from `numbers`; each arrives `late`
    /// milliseconds after it was sent, as often as it is listed.
    fn received(numbers: &[u64], late: impl Fn(u64) -> u64, sent: u64) -> Outcome {
        let mut stats = FlowStats::new(Start::Zero);
        for &n in numbers {
            let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
            stats.record(at(n + late(n)), 125, &Probe::new(0, n, at(n)));
        }
        let ms = Duration::from_millis;
        let extent = Extent::Packets(sent as u32);
        let time = sending_time(&extent, ms(sent - 1), ms(1)).as_secs_f64();
        Outcome::from_stats(&mut stats, sent, sent * 125, time)
    }

    #[test]
    fn a_rate_is_over_the_time_of_the_flow_and_counts_nothing_twice() {
        let all: Vec<u64> = (0..100).collect();
        let near =
            |rate: f64, expected: f64| assert!((rate / expected - 1.0).abs() < 1e-6, "{rate}");
        let whole = received(&all, |_| 7, 100);
        near(whole.sent_bits_per_s, 1e6);
        near(whole.received_bits_per_s, 1e6);
        // Nothing arrives in the last half, or the first.
        near(received(&all[..50], |_| 7, 100).received_bits_per_s, 0.5e6);
        near(received(&all[50..], |_| 7, 100).received_bits_per_s, 0.5e6);
        // Each arrives twice.
        let twice: Vec<u64> = (0..200).map(|n| n / 2).collect();
        let twice = received(&twice, |_| 7, 100);
        near(twice.received_bits_per_s, 1e6);
        assert_eq!((twice.received_bytes, twice.duplicates), (12_500, Some(100)));
        // A queue releases them at half the rate at which they were sent.
        near(received(&all, |n| n, 100).received_bits_per_s, 0.5e6);
        assert_eq!(received(&[], |_| 0, 100).received_bits_per_s, 0.0);
        near(received(&[0], |_| 3, 1).received_bits_per_s, 1e6);
    }
}
