//! Writes routes into the kernel in bulk, as a routing daemon does.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;

use super::event::{Hop, KernelRoute, RouteKey};
use super::message::{self, Builder, flag, messages};
use super::parse::{INET, INET6, ON_LINK};
use super::socket::{Received, Socket};

/// Bytes of messages in one call: some thousand routes.
const BATCH_BYTES: usize = 128 * 1024;
/// Room for the errors of a batch in which every message fails, and for the batch itself.
const SOCKET_BYTES: i32 = 8 << 20;

/// A route to be there, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteChange {
    /// Which one. An IPv6 route of metric 0 gets the kernel's default, 1024.
    pub key: RouteKey,
    /// The origin of the routes (/etc/iproute2/rt_protos); 4 is `static`. A removal affects only
    /// routes of this origin, or of any if it is 0.
    pub protocol: u8,
    /// The new state, replacing the old one; `None` removes the route.
    pub route: Option<KernelRoute>,
}

/// A change that the kernel refused.
#[derive(Debug)]
pub struct WriteFailure {
    /// Its number among the changes, from 0.
    pub index: usize,
    /// Why.
    pub error: io::Error,
}

/// Writes routes into the kernel's tables in the namespace it was opened in, thousands at a time.
pub struct RouteWriter {
    socket: Socket,
}

impl RouteWriter {
    /// Opens it for the calling thread's network namespace.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn open() -> io::Result<RouteWriter> {
        Ok(RouteWriter { socket: Socket::open(0, SOCKET_BYTES)? })
    }

    /// Makes these changes in order; returns those that the kernel refused. A refusal does not stop
    /// the rest.
    ///
    /// # Errors
    /// When the socket fails. Some changes have been made then.
    pub fn write<'a>(
        &mut self,
        changes: impl IntoIterator<Item = &'a RouteChange>,
    ) -> io::Result<Vec<WriteFailure>> {
        let mut failures = Vec::new();
        let mut batch = Builder::default();
        // Which change has which sequence number, in this batch.
        let mut numbers = HashMap::new();
        for (index, change) in changes.into_iter().enumerate() {
            if matches!(change.route, Some(KernelRoute::Encapsulated)) {
                let error = io::Error::from(io::ErrorKind::Unsupported);
                failures.push(WriteFailure { index, error });
                continue;
            }
            let sequence = self.socket.next_sequence();
            put(&mut batch, sequence, change);
            numbers.insert(sequence, index);
            if batch.bytes().len() >= BATCH_BYTES {
                self.send(&mut batch, sequence, &mut numbers, &mut failures)?;
            }
        }
        if !numbers.is_empty() {
            let last = numbers.iter().max_by_key(|(_, index)| **index).map_or(0, |(s, _)| *s);
            self.send(&mut batch, last, &mut numbers, &mut failures)?;
        }
        Ok(failures)
    }

    /// Sends a batch whose `last` message is acknowledged, and reads the kernel's answers.
    fn send(
        &mut self,
        batch: &mut Builder,
        last: u32,
        numbers: &mut HashMap<u32, usize>,
        failures: &mut Vec<WriteFailure>,
    ) -> io::Result<()> {
        batch.add_flags(flag::ACK);
        self.socket.send(batch.bytes())?;
        batch.clear();
        let mut finished = false;
        while !finished {
            match self.socket.receive()? {
                Received::Datagram(datagram) => {
                    for message in messages(datagram).filter(|m| m.kind == message::ERROR) {
                        finished |= message.sequence == last;
                        let index = numbers.get(&message.sequence);
                        if let (Some(&index), code @ 1..) = (index, message.code()) {
                            let error = io::Error::from_raw_os_error(code);
                            failures.push(WriteFailure { index, error });
                        }
                    }
                }
                // The kernel has worked the batch off by the time it is sent.
                Received::Empty => return Err(io::ErrorKind::UnexpectedEof.into()),
                Received::Overflow => return Err(io::Error::from_raw_os_error(libc::ENOBUFS)),
            }
        }
        numbers.clear();
        Ok(())
    }
}

/// Appends the message of one change.
fn put(batch: &mut Builder, sequence: u32, change: &RouteChange) {
    let RouteKey { prefix: (address, prefix_len), table, metric } = change.key;
    let (family, octets) = match address {
        IpAddr::V4(a) => (INET, a.octets().to_vec()),
        IpAddr::V6(a) => (INET6, a.octets().to_vec()),
    };
    let (kind, scope) = match &change.route {
        None => (0, libc::RT_SCOPE_NOWHERE),
        Some(KernelRoute::Via(hops)) if hops.iter().any(|h| h.gateway.is_some()) => {
            (libc::RTN_UNICAST, 0)
        }
        Some(KernelRoute::Via(_) | KernelRoute::Encapsulated) => {
            (libc::RTN_UNICAST, libc::RT_SCOPE_LINK)
        }
        Some(KernelRoute::Local) => (libc::RTN_LOCAL, libc::RT_SCOPE_HOST),
        Some(KernelRoute::Broadcast) => (libc::RTN_BROADCAST, libc::RT_SCOPE_LINK),
        Some(KernelRoute::Blackhole) => (libc::RTN_BLACKHOLE, 0),
        Some(KernelRoute::Unreachable) => (libc::RTN_UNREACHABLE, 0),
        Some(KernelRoute::Prohibited) => (libc::RTN_PROHIBIT, 0),
    };
    let flags = |hop: &Hop| if hop.on_link { ON_LINK } else { 0 };
    let mut fixed = [family, prefix_len, 0, 0, 0, change.protocol, scope, kind, 0, 0, 0, 0];
    let (message, message_flags) = match change.route {
        Some(_) => (libc::RTM_NEWROUTE, flag::CREATE | flag::REPLACE),
        None => (libc::RTM_DELROUTE, 0),
    };
    if let Some(KernelRoute::Via(hops)) = &change.route
        && let [hop] = &hops[..]
    {
        fixed[8..].copy_from_slice(&u32::from(flags(hop)).to_ne_bytes());
    }
    batch.begin(message, message_flags, sequence, &fixed);
    batch.put(libc::RTA_DST, &octets);
    batch.put(libc::RTA_TABLE, &table.to_ne_bytes());
    batch.put(libc::RTA_PRIORITY, &metric.to_ne_bytes());
    let Some(KernelRoute::Via(hops)) = &change.route else { return };
    if let [hop] = &hops[..] {
        batch.put(libc::RTA_OIF, &hop.device.to_ne_bytes());
        put_gateway(batch, family, hop);
        return;
    }
    batch.nest(libc::RTA_MULTIPATH, |list| {
        for hop in hops {
            let weight = u8::try_from(hop.weight.saturating_sub(1)).unwrap_or(u8::MAX);
            let [a, b, c, d] = hop.device.to_ne_bytes();
            let fixed = [flags(hop), weight, a, b, c, d];
            list.record(&fixed, |record| put_gateway(record, family, hop));
        }
    });
}

fn put_gateway(batch: &mut Builder, family: u8, hop: &Hop) {
    match hop.gateway {
        Some(IpAddr::V4(a)) => batch.put(libc::RTA_GATEWAY, &a.octets()),
        Some(IpAddr::V6(a)) if family == INET6 => batch.put(libc::RTA_GATEWAY, &a.octets()),
        Some(IpAddr::V6(a)) => {
            let family = u16::from(INET6).to_ne_bytes();
            batch.put(libc::RTA_VIA, &[&family[..], &a.octets()].concat());
        }
        None => {}
    }
}
