//! Echo requests (RFC 792; RFC 4443, section 4), each sent when the one before was answered or
//! given up, as ping(8) does, but without waiting a second in between.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use plexus_topo::Extent;
use plexus_traffic::{FlowStats, Probe, Start};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto};

use plexus_report::Outcome;

use super::{Route, TICK, is_refusal_on_the_way, is_timeout, now};

/// Least time between two requests.
const INTERVAL: Duration = Duration::from_millis(10);
/// First identifier; a flow's number is added.
const IDENTIFIER: u16 = 0x5058;
const HEADER: usize = 8;

/// Sends the requests and collects the replies.
pub(super) fn run(route: &Route<'_>) -> Outcome {
    try_run(route).unwrap_or_else(|e| Outcome::failed(e.to_string()))
}

/// The types of request and reply, and whether the kernel hands us the IP header too.
fn kinds(address: IpAddr) -> (u8, u8, bool) {
    match address {
        IpAddr::V4(_) => (8, 0, true),
        IpAddr::V6(_) => (128, 129, false),
    }
}

fn open(address: IpAddr) -> io::Result<OwnedFd> {
    let (family, protocol) = match address {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::RAW, flags, Some(protocol))?;
    rustix::net::connect(&socket, &SocketAddr::new(address, 0))?;
    Ok(socket)
}

fn try_run(route: &Route<'_>) -> io::Result<Outcome> {
    let flow = route.flow;
    let socket = route.from.run(|| open(flow.to_address))??;
    let timeout = rustix::net::sockopt::Timeout::Recv;
    rustix::net::sockopt::set_socket_timeout(&socket, timeout, Some(TICK))?;
    let (count, limit) = match flow.extent {
        Extent::Packets(n) => (u64::from(n), None),
        Extent::Bytes(n) => (n.div_ceil(u64::from(flow.size.max(1))), None),
        Extent::Duration(d) => (u64::MAX, Some(d)),
    };
    let mut echo = Echo::new(route, socket);
    let started = Instant::now();
    while echo.sent < count
        && limit.is_none_or(|limit| started.elapsed() < limit)
        && !route.live.is_cancelled()
    {
        let before = Instant::now();
        echo.request();
        echo.collect_until_answered(before + route.grace)?;
        std::thread::sleep(INTERVAL.saturating_sub(before.elapsed()));
    }
    let seconds = started.elapsed().as_secs_f64();
    let bytes = echo.sent * u64::from(flow.size);
    let outcome = Outcome::from_stats(&mut echo.stats, echo.sent, bytes, seconds);
    Ok(outcome.with_first(echo.first).with_departures(echo.departed, echo.refusal))
}

struct Echo<'a> {
    route: &'a Route<'a>,
    socket: OwnedFd,
    identifier: u16,
    sent: u64,
    /// How many requests the host accepted, and its last error.
    departed: u64,
    refusal: Option<io::Error>,
    /// How long the first request waited for its reply.
    first: Option<Duration>,
    /// When each of the latest requests was sent; they are numbered in 16 bits.
    times: Vec<plexus_wire::Time>,
    stats: FlowStats,
}

impl Echo<'_> {
    fn new<'a>(route: &'a Route<'a>, socket: OwnedFd) -> Echo<'a> {
        Echo {
            route,
            socket,
            identifier: IDENTIFIER.wrapping_add(route.index as u16),
            sent: 0,
            departed: 0,
            refusal: None,
            first: None,
            times: Vec::new(),
            stats: FlowStats::new(Start::Zero),
        }
    }

    fn request(&mut self) {
        let (request, _, is_v4) = kinds(self.route.flow.to_address);
        let mut message = vec![0x5A; HEADER + usize::from(self.route.flow.size)];
        let [i, j] = self.identifier.to_be_bytes();
        let [s, t] = (self.sent as u16).to_be_bytes();
        message[..HEADER].copy_from_slice(&[request, 0, 0, 0, i, j, s, t]);
        if is_v4 {
            // Of ICMPv6 the kernel knows the addresses, which its checksum covers.
            let sum = checksum(&message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        let at = (self.sent % (1 << 16)) as usize;
        self.times.truncate(1 << 16);
        match self.times.get_mut(at) {
            Some(time) => *time = now(),
            None => self.times.push(now()),
        }
        // A request that cannot be sent counts as lost.
        match rustix::net::send(&self.socket, &message, SendFlags::empty()) {
            Ok(_) => self.departed += 1,
            Err(e) => self.refusal = Some(e.into()),
        }
        self.sent += 1;
        self.route.live.add_sent(message.len() - HEADER);
    }

    /// Receives replies until the latest request is answered, or until `limit`.
    fn collect_until_answered(&mut self, limit: Instant) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 16];
        while Instant::now() < limit && !self.route.live.is_cancelled() {
            match rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((n, _)) => {
                    if self.reply(&buffer[..n]) == Some(self.sent - 1) {
                        return Ok(());
                    }
                }
                Err(e) => {
                    let e = io::Error::from(e);
                    // Reported by a router, or by our own host after a timeout.
                    if !is_timeout(&e) && !is_refusal_on_the_way(&e) {
                        return Err(e);
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts a reply; returns the number of its request, if it is one of ours.
    fn reply(&mut self, packet: &[u8]) -> Option<u64> {
        let (_, reply, has_header) = kinds(self.route.flow.to_address);
        let header = if has_header { usize::from(packet.first()? & 0x0F) * 4 } else { 0 };
        let message = packet.get(header..)?;
        let &[kind, 0, _, _, i, j, s, t] = message.first_chunk::<HEADER>()? else { return None };
        if kind != reply || u16::from_be_bytes([i, j]) != self.identifier {
            return None;
        }
        // The latest request with these lower 16 bits.
        let back = (self.sent - 1).wrapping_sub(u64::from(u16::from_be_bytes([s, t]))) as u16;
        let number = (self.sent - 1).checked_sub(u64::from(back))?;
        let time = *self.times.get((number % (1 << 16)) as usize)?;
        let (bytes, now) = (message.len() - HEADER, now());
        if number == 0 {
            self.first.get_or_insert(now.since(time));
        }
        self.stats.record(now, bytes, &Probe::new(self.route.index as u32, number, time));
        self.route.live.add_received(bytes);
        Some(number)
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|w| u16::from_be_bytes([w[0], *w.get(1).unwrap_or(&0)]));
    let mut sum: u64 = words.map(u64::from).sum();
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    !(sum as u16)
}
