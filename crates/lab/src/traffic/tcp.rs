//! TCP: one connection, one direction, optionally compared byte by byte.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plexus_topo::{Expect, Extent};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use plexus_report::{Outcome, bits_per_s};
use plexus_traffic::Content;

use super::{Route, TICK, any_address, is_refusal_on_the_way, is_timeout};

/// An unused port (discard, RFC 863), for when no host of the lab has the address.
const PORT_OF_NOBODY: u16 = 9;
/// Timeout of a connection attempt, and of a stalled connection.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long it is tried where it is expected to be blocked: two retransmissions of the SYN.
const PATIENCE_BLOCKED: Duration = Duration::from_secs(4);

/// The bytes of a flow, which differ from those of any other.
fn content(route: &Route<'_>) -> Content {
    let seed = u128::from(route.seed) << 32 | route.index as u128;
    Content::new(route.flow.verify.then_some(seed))
}

/// What one end saw.
#[derive(Debug, Default)]
struct Seen {
    bytes: u64,
    seconds: f64,
    problem: Option<String>,
    congestion: Option<String>,
    /// Whether the SYN left and found no answer, or a refusal.
    turned_away: bool,
}

/// Runs the connection to its end.
pub(super) fn run(route: &Route<'_>) -> Outcome {
    let address = SocketAddr::new(route.flow.to_address, 0);
    let listener = route.to.map(|place| place.run(|| TcpListener::bind(address))).transpose();
    let listener = match listener.and_then(Option::transpose) {
        Ok(listener) => listener,
        Err(e) => return Outcome::failed(format!("listening on {}: {e}", address.ip())),
    };
    let port =
        listener.as_ref().and_then(|l| l.local_addr().ok()).map_or(PORT_OF_NOBODY, |a| a.port());
    let target = SocketAddr::new(address.ip(), port);
    let is_over = AtomicBool::new(false);
    let (sent, received) = std::thread::scope(|s| {
        let is_over = &is_over;
        let receiving =
            listener.map(|listener| s.spawn(move || receive(route, &listener, is_over)));
        let sent = route.from.run(|| send(route, target));
        is_over.store(true, Ordering::Relaxed);
        let sent =
            sent.unwrap_or_else(|e| Seen { problem: Some(e.to_string()), ..Seen::default() });
        let received = receiving.map_or(Ok(Seen::default()), |r| r.join());
        (sent, received)
    });
    let received = received.unwrap_or_else(|_| Seen {
        problem: Some("the receiver panicked".into()),
        ..Seen::default()
    });
    let lost = sent.bytes.saturating_sub(received.bytes);
    let loss = if sent.bytes > 0 { lost as f64 / sent.bytes as f64 } else { 1.0 };
    // If the last byte arrived, so did all; otherwise its arrival ended nothing.
    let arriving = if lost > 0 { received.seconds.max(sent.seconds) } else { received.seconds };
    Outcome {
        sent_bytes: sent.bytes,
        received_bytes: received.bytes,
        sent_bits_per_s: bits_per_s(sent.bytes, sent.seconds),
        received_bits_per_s: bits_per_s(received.bytes, arriving),
        loss,
        set_out: sent.turned_away,
        problem: sent.problem.or(received.problem),
        note: sent.congestion.map(|c| format!("{}: TCP congestion control {c}", route.flow.name)),
        ..Outcome::default()
    }
}

fn patience(route: &Route<'_>) -> Duration {
    match route.flow.expect {
        Expect::Pass => PATIENCE,
        Expect::Blocked => PATIENCE_BLOCKED,
    }
}

/// Connects, with the flow's congestion control from the first segment on: a later change would
/// keep settings of the default one, such as BBR's pacing.
fn connect(route: &Route<'_>, target: SocketAddr) -> io::Result<TcpStream> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if let Some(name) = &route.flow.congestion {
        sockopt::set_tcp_congestion(&socket, name).map_err(|e| {
            let why = format!("TCP congestion control {name:?} of {}: {e}", route.flow.name);
            io::Error::other(why + " (sysctl net.ipv4.tcp_available_congestion_control)")
        })?;
    }
    // socket(7): connect(2) obeys it too, and says EINPROGRESS when the time is over.
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(patience(route)))?;
    rustix::net::connect(&socket, &target).map_err(|e| match e {
        Errno::INPROGRESS => io::ErrorKind::TimedOut.into(),
        e => io::Error::from(e),
    })?;
    Ok(TcpStream::from(socket))
}

/// Connects and sends until the flow's extent, then waits until the other end has it all.
fn send(route: &Route<'_>, target: SocketAddr) -> Seen {
    let mut seen = Seen::default();
    // Connecting does not distinguish a router's answer from a missing route of our own; this does.
    let routed = UdpSocket::bind(any_address(&target)).and_then(|s| s.connect(target));
    if let Err(e) = routed {
        seen.problem = Some(format!("the sender has no way to {}: {e}", target.ip()));
        return seen;
    }
    let mut stream = match connect(route, target) {
        Ok(stream) => stream,
        Err(e) => {
            seen.turned_away = is_timeout(&e) || is_refusal_on_the_way(&e);
            seen.problem = Some(format!("connecting to {}: {e}", target.ip()));
            return seen;
        }
    };
    seen.congestion = sockopt::tcp_congestion(&stream).ok();
    let started = Instant::now();
    if let Err(e) = send_all(route, &mut stream, &mut seen.bytes) {
        seen.problem = Some(format!("sending: {e}"));
    }
    seen.seconds = started.elapsed().as_secs_f64();
    seen
}

fn send_all(route: &Route<'_>, stream: &mut TcpStream, bytes: &mut u64) -> io::Result<()> {
    stream.set_write_timeout(Some(TICK))?;
    stream.set_read_timeout(Some(TICK))?;
    let flow = route.flow;
    let (total, limit) = match flow.extent {
        Extent::Bytes(n) => (n, None),
        Extent::Packets(n) => (u64::from(n) * u64::from(flow.size), None),
        Extent::Duration(d) => (u64::MAX, Some(d)),
    };
    let mut content = content(route);
    let started = Instant::now();
    let mut moved = started;
    while *bytes < total && !route.live.is_cancelled() {
        let elapsed = started.elapsed();
        if limit.is_some_and(|limit| elapsed >= limit) {
            break;
        }
        let mut most = total - *bytes;
        if let Some(rate) = flow.rate_bits_per_s {
            let due = (elapsed.as_secs_f64() * rate as f64 / 8.0) as u64;
            most = most.min(due.saturating_sub(*bytes));
            if most == 0 {
                moved = Instant::now();
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
        }
        let ahead = content.ahead();
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(ahead.len());
        match stream.write(&ahead[..most]) {
            Ok(n) => {
                content.advance(n);
                *bytes += n as u64;
                route.live.add_sent(n);
                moved = Instant::now();
            }
            Err(e) if is_timeout(&e) && moved.elapsed() < PATIENCE => {}
            Err(e) => return Err(e),
        }
    }
    stream.shutdown(Shutdown::Write)?;
    // The other end closes when it has read everything.
    let mut nothing = [0; 1];
    let acked = || route.live.bytes().1;
    let (mut moved, mut before) = (Instant::now(), acked());
    loop {
        match stream.read(&mut nothing) {
            Ok(_) => return Ok(()),
            Err(e) if is_timeout(&e) && moved.elapsed() < PATIENCE => {}
            Err(e) => return Err(e),
        }
        if acked() != before {
            (moved, before) = (Instant::now(), acked());
        }
    }
}

/// Accepts the connection and reads it to its end.
fn receive(route: &Route<'_>, listener: &TcpListener, is_over: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    if let Err(e) = receive_all(route, listener, is_over, &mut seen) {
        seen.problem = Some(format!("receiving: {e}"));
    }
    seen
}

fn receive_all(
    route: &Route<'_>,
    listener: &TcpListener,
    is_over: &AtomicBool,
    seen: &mut Seen,
) -> io::Result<()> {
    let Some(mut stream) = accept(route, listener, is_over)? else { return Ok(()) };
    stream.set_read_timeout(Some(TICK))?;
    let mut content = content(route);
    let mut buffer = vec![0; 1 << 18];
    // The first bytes took their time as well.
    let accepted = Instant::now();
    let mut moved = accepted;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                moved = Instant::now();
                if route.flow.verify && seen.problem.is_none() && !content.accept(&buffer[..n]) {
                    seen.problem = Some(format!(
                        "what arrived differs from what was sent, after {} bytes at the latest",
                        seen.bytes + n as u64
                    ));
                }
                seen.bytes += n as u64;
                seen.seconds = accepted.elapsed().as_secs_f64();
                route.live.add_received(n);
            }
            Err(e) if is_timeout(&e) && moved.elapsed() < PATIENCE => {}
            Err(e) => return Err(e),
        }
    }
}

/// The connection, or `None` if none comes while the sender tries.
fn accept(
    route: &Route<'_>,
    listener: &TcpListener,
    is_over: &AtomicBool,
) -> io::Result<Option<TcpStream>> {
    listener.set_nonblocking(true)?;
    let limit = Instant::now() + patience(route) + Duration::from_secs(1);
    while Instant::now() < limit && !route.live.is_cancelled() {
        let is_last = is_over.load(Ordering::Relaxed);
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(Some(stream));
            }
            Err(e) if !is_timeout(&e) => return Err(e),
            Err(_) if is_last => return Ok(None),
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    Ok(None)
}
