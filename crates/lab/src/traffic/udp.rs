//! UDP: numbered and time-stamped datagrams at an even pace.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plexus_io::unsent;
use plexus_topo::Extent;
use plexus_traffic::{FlowStats, PROBE_LEN, PROBE_UDP_PORT, Probe, Start};
use plexus_wire::Time;

use plexus_report::{Gaps, Outcome, sending_time};

use super::{Route, TICK, any_address, is_timeout, now};
use crate::stalls::{keep_to, processors};

/// Requested receive buffer in bytes: a pause of the receiver's thread must not look like loss.
const BUFFER: usize = 8 << 20;
/// How long the first datagram may wait in the host before others follow it: a little longer than
/// Linux takes to ask for a neighbour a second time.
const FIRST_GONE: Duration = Duration::from_millis(1200);

/// Sends the flow and meters it at the other end.
pub(super) fn run(route: &Route<'_>) -> Outcome {
    try_run(route).unwrap_or_else(|e| Outcome::failed(e.to_string()))
}

/// Keeps the sender to one processor. A veth pair has a queue for each processor that sends, so a
/// sender that moves can overtake its own packets, which none with a cable can.
fn keep_to_a_processor(index: usize) {
    let all = processors();
    if let Some(cpu) = all.get(index % all.len().max(1)) {
        keep_to(*cpu);
    }
}

fn try_run(route: &Route<'_>) -> io::Result<Outcome> {
    let target = SocketAddr::new(route.flow.to_address, 0);
    let receiver = match route.to {
        Some(place) => Some(place.run(|| UdpSocket::bind(target))??),
        None => None,
    };
    let port = match &receiver {
        Some(socket) => socket.local_addr()?.port(),
        None => PROBE_UDP_PORT,
    };
    let target = SocketAddr::new(target.ip(), port);
    let sender = route.from.run(|| -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind(any_address(&target))?;
        socket.connect(target)?;
        Ok(socket)
    })??;
    let (sent, done) = (AtomicU64::new(0), OnceLock::new());
    let mut stats = FlowStats::new(Start::Zero);
    let mut gaps = Gaps::new(interval(route));
    let mut first = None;
    std::thread::scope(|s| {
        let metering = receiver.map(|socket| {
            let seen = (&mut stats, &mut gaps, &mut first);
            let (sent, done) = (&sent, &done);
            s.spawn(move || meter(route, &socket, seen, sent, done))
        });
        keep_to_a_processor(route.index);
        let (departures, elapsed) = send(route, &sender, &sent);
        let time = sending_time(&route.flow.extent, elapsed, interval(route));
        let _ = done.set(Instant::now());
        let metered = metering.map_or(Ok(Ok(())), |m| m.join());
        metered.map_err(|_| io::Error::other("the meter panicked"))??;
        Ok((time.as_secs_f64(), departures))
    })
    .map(|(seconds, (departed, refusal)): (f64, Departures)| {
        let sent = sent.load(Ordering::Relaxed);
        let bytes = sent * u64::from(route.flow.size);
        let outcome = Outcome::from_stats(&mut stats, sent, bytes, seconds);
        let outcome = Outcome { gaps: gaps.into_longest(), ..outcome };
        outcome.with_first(first).with_departures(departed, refusal)
    })
}

/// Payload bytes of each datagram.
fn size(route: &Route<'_>) -> usize {
    usize::from(route.flow.size).max(PROBE_LEN)
}

/// The time from one datagram to the next.
fn interval(route: &Route<'_>) -> Duration {
    let bits = size(route) as f64 * 8.0;
    Duration::from_secs_f64(bits / route.flow.rate_bits_per_s.unwrap_or(1_000_000) as f64)
}

/// How many datagrams the host accepted, and its last error.
type Departures = (u64, Option<io::Error>);

/// Sends at the flow's rate until its extent is reached. Datagrams that are due are sent at once,
/// so the average is exact whatever the granularity of sleep. Returns how long that took, without
/// the wait after the first.
fn send(route: &Route<'_>, socket: &UdpSocket, sent: &AtomicU64) -> (Departures, Duration) {
    let (mut departed, mut refusal) = (0, None);
    let flow = route.flow;
    let (size, interval) = (size(route), interval(route));
    let mut payload = vec![0x5A; size];
    let (count, limit) = match flow.extent {
        Extent::Bytes(bytes) => (bytes.div_ceil(size as u64), None),
        Extent::Packets(n) => (u64::from(n), None),
        Extent::Duration(d) => (u64::MAX, Some(d)),
    };
    let number = route.index as u32;
    let mut started = Instant::now();
    for n in 0..count {
        let due = interval.mul_f64(n as f64);
        if limit.is_some_and(|limit| due >= limit) {
            break;
        }
        loop {
            let early = due.saturating_sub(started.elapsed());
            if route.live.is_cancelled() {
                return ((departed, refusal), started.elapsed());
            }
            if early.is_zero() {
                break;
            }
            std::thread::sleep(early.min(TICK));
        }
        let _ = Probe::new(number, n, now()).encode(&mut payload);
        // An error here may be that of an earlier datagram (ICMP); a second attempt sends this one.
        // A datagram that the host cannot send at all counts as lost.
        match socket.send(&payload).or_else(|_| socket.send(&payload)) {
            Ok(_) => departed += 1,
            Err(e) => refusal = Some(e),
        }
        sent.store(n + 1, Ordering::Relaxed);
        route.live.add_sent(size);
        if n == 0 {
            started += wait_until_gone(route, socket);
        }
    }
    ((departed, refusal), started.elapsed())
}

/// Waits until the first datagram has left the host, and says how long that took. While it waits
/// for the neighbour's address, others may join it. As soon as Linux has the address, it lets new
/// ones overtake those.
fn wait_until_gone(route: &Route<'_>, socket: &UdpSocket) -> Duration {
    let started = Instant::now();
    let waits = || unsent::of_other(socket.as_fd()).is_ok_and(|bytes| bytes > 0);
    while started.elapsed() < FIRST_GONE && !route.live.is_cancelled() && waits() {
        std::thread::sleep(Duration::from_micros(50));
    }
    started.elapsed()
}

/// Counts arrivals until all datagrams have arrived, or none arrives any more.
fn meter(
    route: &Route<'_>,
    socket: &UdpSocket,
    (stats, gaps, first): (&mut FlowStats, &mut Gaps, &mut Option<Duration>),
    sent: &AtomicU64,
    done: &OnceLock<Instant>,
) -> io::Result<()> {
    // Beyond the usual limit where we may, up to it elsewhere.
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, BUFFER).is_err() {
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(socket, BUFFER);
    }
    socket.set_read_timeout(Some(TICK))?;
    let mut buffer = vec![0; 1 << 16];
    let mut quiet_since = Instant::now();
    loop {
        match socket.recv(&mut buffer) {
            Ok(n) => {
                if let Some(probe) = Probe::decode(&buffer[..n])
                    && probe.flow == route.index as u32
                {
                    let now = now();
                    if probe.sequence == 0 {
                        first.get_or_insert(now.since(Time::from_nanos(probe.time_ns)));
                    }
                    stats.record(now, n, &probe);
                    gaps.arrival(route.run_started.elapsed());
                    route.live.add_received(n);
                    quiet_since = Instant::now();
                }
            }
            Err(e) if is_timeout(&e) => {}
            Err(e) => return Err(e),
        }
        if let Some(end) = done.get() {
            let all = stats.distinct() >= sent.load(Ordering::Relaxed);
            if all || quiet_since.elapsed() > route.grace || route.live.is_cancelled() {
                if !all {
                    gaps.end(end.saturating_duration_since(route.run_started));
                }
                return Ok(());
            }
        } else {
            quiet_since = Instant::now();
        }
    }
}
