//! A flow of the topology file, sent with ordinary sockets from one host to another.
//!
//! A socket belongs to the network namespace in which it was made, so sender and receiver are
//! threads of the supervisor: one clock, no processes to lose, and the hosts' own Linux stack does
//! the rest.

mod icmp;
mod tcp;
mod udp;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plexus_io::namespace::Namespaces;
use plexus_topo::{Device, Expect, Flow, Proto, Target, Topology};
use plexus_traffic::FlowStats;
use plexus_wire::Time;
use rustix::time::ClockId;

use crate::report::FlowReport;
use crate::world::World;

/// How long a socket call may block before the thread looks whether it should stop.
const TICK: Duration = Duration::from_millis(50);
/// How long after the last packet was sent an answer or a straggler is waited for, beyond the
/// delay of all links.
const GRACE: Duration = Duration::from_secs(1);

/// Where a flow is sent, and where it goes.
struct Route<'a> {
    flow: &'a Flow,
    /// The flow's index: its number in probes, its share of the seed.
    index: usize,
    seed: u64,
    from: &'a Namespaces,
    /// `None`: no host of the lab has the address.
    to: Option<&'a Namespaces>,
    /// How long stragglers are waited for.
    grace: Duration,
    live: &'a Live,
}

/// What a flow tells while it runs, and what it is told.
#[derive(Debug, Default)]
pub(crate) struct Live {
    sent: AtomicU64,
    received: AtomicU64,
    cancelled: AtomicBool,
}

impl Live {
    /// Payload bytes sent and received so far.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }

    /// Makes the flow end soon.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// What became of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Payload bytes.
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bits_per_s: f64,
    pub(crate) received_bits_per_s: f64,
    pub(crate) loss: f64,
    pub(crate) latency_us_first: Option<f64>,
    pub(crate) latency_us_p50: Option<f64>,
    pub(crate) latency_us_p99: Option<f64>,
    pub(crate) reordered: Option<u64>,
    pub(crate) duplicates: Option<u64>,
    /// Times in which nothing arrived though something was on its way: when they began, how long
    /// they were.
    pub(crate) gaps: Vec<(Instant, Duration)>,
    /// Whether the sender sent: what never set out was not blocked.
    pub(crate) set_out: bool,
    /// What went wrong, beyond numbers.
    pub(crate) problem: Option<String>,
    /// What a person should know.
    pub(crate) note: Option<String>,
}

impl Outcome {
    fn failed(problem: impl Into<String>) -> Outcome {
        Outcome { loss: 1.0, problem: Some(problem.into()), ..Outcome::default() }
    }

    /// Takes over what a meter of packets found.
    fn from_stats(stats: &mut FlowStats, sent: u64, sent_bytes: u64, seconds: f64) -> Outcome {
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
            gaps: Vec::new(),
            set_out: false,
            problem: None,
            note: None,
        }
    }

    /// Says how long the first packet took, if it arrived.
    fn with_first(mut self, first: Option<Duration>) -> Outcome {
        self.latency_us_first = first.map(|d| d.as_secs_f64() * 1e6);
        self
    }

    /// Says whether anything set out, and why not if nothing did.
    fn with_departures(mut self, departed: u64, refusal: Option<std::io::Error>) -> Outcome {
        self.set_out = departed > 0;
        if !self.set_out {
            let why = refusal.map_or_else(|| "there was nothing to send".into(), |e| e.to_string());
            self.problem = Some(format!("the sender sent nothing: {why}"));
        }
        self
    }

    /// Whether the flow did what was expected of it, and the words for that.
    pub(crate) fn meets(&self, flow: &Flow) -> (bool, String) {
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

    pub(crate) fn report(&self, flow: &Flow, topology: &Topology) -> FlowReport {
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
        }
    }
}

fn bits_per_s(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

/// Runs a flow to its end.
pub(crate) fn run(topology: &Topology, world: &World, index: usize, live: &Live) -> Outcome {
    let flow = &topology.traffic[index];
    // By name where there is one: in two VLANs the same address may be two hosts'.
    let to = match flow.to {
        Target::Host(host) => Some(host),
        Target::Address(address) => topology.host_with(address),
    };
    let delays: Duration = topology.links.iter().map(|l| l.delay).sum();
    let route = Route {
        flow,
        index,
        seed: topology.seed,
        from: world.place(Device::Host(flow.from)),
        to: to.map(|host| world.place(Device::Host(host))),
        grace: GRACE + (2 * delays).min(Duration::from_secs(30)),
        live,
    };
    match flow.proto {
        Proto::Tcp => tcp::run(&route),
        Proto::Udp => udp::run(&route),
        Proto::Icmp => icmp::run(&route),
    }
}

/// The clock of probes: CLOCK_MONOTONIC.
fn now() -> Time {
    let t = rustix::time::clock_gettime(ClockId::Monotonic);
    let s = u64::try_from(t.tv_sec).unwrap_or(0);
    Time::from_nanos(s * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0))
}

/// Whether an error only says that nothing happened for a while.
fn is_timeout(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(e.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Whether an error is what an ICMP error becomes (icmp(7)), not one of the sender's own host.
fn is_refusal_on_the_way(e: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let ways = [Errno::HOSTUNREACH, Errno::NETUNREACH, Errno::CONNREFUSED, Errno::ACCESS];
    Errno::from_io_error(e).is_some_and(|e| ways.contains(&e))
}

/// The unspecified address and port of the family of `like`.
fn any_address(like: &SocketAddr) -> SocketAddr {
    match like {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    }
}
