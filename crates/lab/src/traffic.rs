//! A flow of the topology file, sent over ordinary sockets from one host to another.
//!
//! A socket belongs to the network namespace in which it was created, so sender and receiver are
//! threads of the supervisor: one clock, no extra processes, and the hosts' own Linux stack does
//! the rest.

mod icmp;
mod tcp;
mod udp;
mod web;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plexus_io::clock::now;
use plexus_io::namespace::Namespaces;
use plexus_report::Outcome;
use plexus_topo::{Arrivals, Device, Flow, Proto, Target, Topology};

use crate::error::Error;
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
    /// When the run began.
    run_started: Instant,
    live: &'a Live,
}

/// Progress reported by a running flow, and signals to it.
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

/// Refuses flows that a lab's hosts cannot send.
///
/// # Errors
/// Naming the flow, with advice.
pub(crate) fn check(topology: &Topology) -> Result<(), Error> {
    for flow in &topology.traffic {
        let what = match (flow.proto, flow.arrivals) {
            (Proto::Request, _) => "requests and responses",
            (Proto::Named, _) => "Interests of a catalogue",
            (_, Arrivals::Poisson) => "datagrams as a Poisson process",
            _ => continue,
        };
        return Err(Error::Unsupported(format!(
            "flow {}: a lab's hosts do not send {what}: use plexus sim run",
            flow.name
        )));
    }
    Ok(())
}

/// Runs a flow to its end.
pub(crate) fn run(
    topology: &Topology,
    world: &World,
    index: usize,
    live: &Live,
    run_started: Instant,
) -> Outcome {
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
        run_started,
    };
    match flow.proto {
        Proto::Tcp => tcp::run(&route),
        Proto::Udp => udp::run(&route),
        Proto::Icmp => icmp::run(&route),
        Proto::Web => web::run(&route, topology),
        Proto::Request => Outcome::failed("a lab's hosts do not send requests"),
        Proto::Named => Outcome::failed("a lab's hosts do not ask by name"),
    }
}

/// Whether an error only says that nothing happened for a while.
fn is_timeout(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(e.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Whether an error is the result of an ICMP error (icmp(7)), not of the sender's own host.
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
