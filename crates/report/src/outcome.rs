//! What became of a flow.

use std::time::Duration;

use plexus_topo::{Expect, Flow, Proto, Target, Topology};
use plexus_traffic::FlowStats;

use crate::report::FlowReport;

/// What became of a flow.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Payload bytes.
    pub sent_bytes: u64,
    /// Those that arrived.
    pub received_bytes: u64,
    /// Payload bits/s that were sent.
    pub sent_bits_per_s: f64,
    /// Payload bits/s that arrived.
    pub received_bits_per_s: f64,
    /// The fraction that did not arrive, 0 to 1: packets, or bytes for TCP.
    pub loss: f64,
    /// Latency of the first packet in microseconds.
    pub latency_us_first: Option<f64>,
    /// Median latency.
    pub latency_us_p50: Option<f64>,
    /// 99th percentile of it.
    pub latency_us_p99: Option<f64>,
    /// Packets that came after a later one.
    pub reordered: Option<u64>,
    /// Packets that came more than once.
    pub duplicates: Option<u64>,
    /// Answered requests per second, of a flow that has such.
    pub transactions_per_s: Option<f64>,
    /// Times in which nothing arrived though something was on its way: how long after the start of
    /// the run they began, how long they were.
    pub gaps: Vec<(Duration, Duration)>,
    /// Whether the sender sent: what never set out was not blocked.
    pub set_out: bool,
    /// What went wrong, beyond numbers.
    pub problem: Option<String>,
    /// What a person should know.
    pub note: Option<String>,
}

impl Outcome {
    /// A flow that could not even begin.
    pub fn failed(problem: impl Into<String>) -> Outcome {
        Outcome { loss: 1.0, problem: Some(problem.into()), ..Outcome::default() }
    }

    /// Takes over what a meter of packets found.
    pub fn from_stats(stats: &mut FlowStats, sent: u64, sent_bytes: u64, seconds: f64) -> Outcome {
        stats.sent(sent);
        let summary = stats.summary();
        let us = |ns: u64| ns as f64 / 1000.0;
        Outcome {
            sent_bytes,
            received_bytes: summary.bytes,
            sent_bits_per_s: bits_per_s(sent_bytes, seconds),
            received_bits_per_s: summary.bits_per_s,
            loss: summary.loss,
            latency_us_first: None,
            latency_us_p50: summary.latency.map(|l| us(l.p50_ns)),
            latency_us_p99: summary.latency.map(|l| us(l.p99_ns)),
            reordered: Some(summary.reordered),
            duplicates: Some(summary.duplicates),
            transactions_per_s: None,
            gaps: Vec::new(),
            set_out: false,
            problem: None,
            note: None,
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

    /// Whether the flow did what was expected of it, and the words for that.
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

    /// What people are told of it.
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
            transactions_per_s: self.transactions_per_s,
        }
    }
}

/// A rate; zero where no time has passed.
pub fn bits_per_s(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}
