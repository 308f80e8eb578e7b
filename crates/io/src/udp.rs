//! A port over UDP: a tunnel through an IP network to one other node, as defined in `SPEC.md` of
//! the fabric, section 4. A datagram carries one frame.
//!
//! The sockets are ordinary kernel sockets, so the kernel handles routing, address resolution and
//! the path MTU (udp(7), ip(7)). One socket receives on the tunnel's port number. Sixteen sockets
//! send, each with its own source port, so that the network may distribute flows over equal paths
//! (RFC 7510, section 3); a hash of the carried flow selects one of them, so that a flow keeps its
//! order. Nothing is fragmented: frames that exceed the path MTU are rejected.
//!
//! The link is up while the local address belongs to this machine and there is a route to the peer;
//! the port's user has to detect whether the peer is alive. An ICMP error reaches a sender as an
//! error of its next call: it is counted, and the call is repeated.

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use arrayvec::ArrayVec;
use plexus_wire::Time;
use plexus_wire::fabric::encapsulation;
use rustix::io::Errno;

use crate::OpenError;
use crate::datagram::{NAME_LEN, decode};
use crate::device::ETHERNET;
use crate::error::patiently;
use crate::messages;
use crate::packet::{BATCH, Batch, Checksum, Packet, Segmentation};
use crate::pool::{HEADROOM, Pool};
use crate::port::{Capabilities, Link, Port, PortStats};
use crate::sys;

/// Sockets that send, each from its own source port.
const SENDERS: usize = 16;
/// The first source port: from here on IANA leaves them to dynamic use (RFC 6335, section 6).
const SOURCE_PORT_MIN: u16 = 0xC000;
/// Each sender has a range of source ports in which it takes a free one.
const RANGE: u16 = (u16::MAX - SOURCE_PORT_MIN) / SENDERS as u16 + 1;
/// Receive buffer of the tunnel, as large as that of a packet socket.
const RECEIVE_BUFFER: libc::c_int = 8 << 20;
const UDP_HEADER: usize = 8;
const HOP_LIMIT: libc::c_int = 64;

/// The two ends of a tunnel, of one address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpEnds {
    /// Ours: a local address, and the port number to which the peer sends.
    pub local: SocketAddr,
    /// The other node's: datagrams from other addresses are dropped.
    pub peer: SocketAddr,
}

impl UdpEnds {
    /// Bytes of the headers before the payload.
    const fn headers(&self) -> usize {
        UDP_HEADER + if self.peer.is_ipv4() { 20 } else { 40 }
    }
}

impl fmt::Display for UdpEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.local, self.peer)
    }
}

/// A port over UDP.
pub struct UdpPort {
    name: String,
    ends: UdpEnds,
    /// `None` while the local address does not belong to this machine, and once closed.
    sockets: Option<Sockets>,
    link: Link,
    closed: bool,
    max_frame: usize,
    /// Keys the choice of the source port.
    seed: u64,
    messages: Box<Messages>,
    stats: PortStats,
    /// What sockets that are closed have lost.
    overflow: Cell<u64>,
}

impl UdpPort {
    /// Opens a tunnel as a port called `name`. If the local address or a route is not there yet,
    /// the link is down until it is.
    ///
    /// # Errors
    /// When the ends are of different families, or another program has the port number.
    pub fn open(name: &str, ends: UdpEnds, pool: &mut Pool) -> Result<UdpPort, OpenError> {
        if ends.local.is_ipv4() != ends.peer.is_ipv4() {
            let problem = "both ends of a tunnel are IPv4, or both IPv6".to_string();
            return Err(OpenError::Invalid { device: ends.to_string(), problem });
        }
        let mut port = UdpPort {
            name: name.into(),
            ends,
            sockets: None,
            link: Link::Down,
            closed: false,
            max_frame: 0,
            seed: RandomState::new().hash_one(name),
            messages: Messages::new(),
            stats: PortStats::default(),
            overflow: Cell::new(0),
        };
        port.sockets = patiently(|| match Sockets::open(&ends, port.seed) {
            Ok(sockets) => Ok(Some(sockets)),
            Err(e) if is_no_way(e) => Ok(None),
            Err(Errno::ADDRINUSE) => {
                let problem = "another program has this UDP port, or others have all those from \
                               49152 on; choose another one at both ends"
                    .into();
                Err(OpenError::Busy { device: ends.local.to_string(), problem })
            }
            Err(e) => Err(OpenError::system(&ends.to_string(), "opening a tunnel", e.into())),
        })?;
        if port.sockets.is_none() {
            tracing::warn!(port = name, "no such address here, or no route yet: {ends} waits");
        }
        port.look(pool);
        Ok(port)
    }

    /// Checks whether the address is local and there is a route to the peer, and the route's MTU.
    fn look(&mut self, pool: &Pool) {
        let route_mtu = match route_mtu(&self.ends) {
            Ok(mtu) => mtu,
            Err(error) => {
                tracing::debug!(port = %self.name, %error, "no way to the peer");
                if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) {
                    self.close_sockets();
                }
                return self.link.set(Link::Down, &mut self.stats);
            }
        };
        if self.sockets.is_none() {
            match Sockets::open(&self.ends, self.seed) {
                Ok(sockets) => self.sockets = Some(sockets),
                Err(error) => {
                    tracing::debug!(port = %self.name, %error, "not usable yet");
                    return;
                }
            }
        }
        let Some(sockets) = &self.sockets else { return };
        let mtu = sockets.path_mtu(&self.ends, route_mtu);
        let max_frame = mtu.saturating_sub(self.ends.headers()).min(pool.max_len());
        if max_frame != self.max_frame {
            tracing::info!(port = %self.name, path_mtu = mtu, "frames of {max_frame} bytes");
        }
        self.max_frame = max_frame;
        self.link.set(Link::Up, &mut self.stats);
    }

    /// Makes a packet of a datagram, if it is the peer's and sound.
    fn accept(
        &mut self,
        pool: &mut Pool,
        frame: u32,
        from: Option<IpAddr>,
        len: usize,
        into: &mut Batch,
    ) -> bool {
        let is_sound = (ETHERNET..=pool.max_len()).contains(&len);
        match from == Some(self.ends.peer.ip()) {
            true if is_sound => {
                let packet = pool.packet(frame, HEADROOM as u16, len as u32);
                self.stats.rx_packets += 1;
                self.stats.rx_bytes += len as u64;
                into.push(packet);
                return true;
            }
            true => self.stats.rx_invalid += 1,
            false => self.stats.rx_foreign += 1,
        }
        pool.give(frame);
        false
    }

    fn is_sendable(&self, packet: &Packet) -> bool {
        (ETHERNET..=self.max_frame).contains(&packet.len())
            && packet.offload.segmentation == Segmentation::None
            && packet.offload.checksum != Checksum::Partial
    }

    fn close_sockets(&mut self) {
        self.overflow.set(self.lost());
        self.sockets = None;
    }

    fn lost(&self) -> u64 {
        self.overflow.get() + self.sockets.as_ref().map_or(0, Sockets::lost)
    }
}

impl Port for UdpPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { checksum: false, segmentation: false, max_frame: self.max_frame }
    }

    fn receive(&mut self, _now: Time, pool: &mut Pool, into: &mut Batch) -> usize {
        let Some(sockets) = &self.sockets else { return 0 };
        let mut frames = ArrayVec::<u32, BATCH>::new();
        frames.extend((0..into.remaining_capacity()).map_while(|_| pool.take()));
        if frames.is_empty() {
            return 0;
        }
        // Once only: otherwise a fast stranger could keep the worker here for ever.
        let n = self.messages.receive(&sockets.receiver, pool, &frames).unwrap_or(0);
        frames[n..].iter().rev().for_each(|&f| pool.give(f));
        let mut accepted = 0;
        for (i, &frame) in frames[..n].iter().enumerate() {
            let got = self.messages.received(i);
            let (from, len) = (decode(got.name).map(|from| from.ip()), got.len);
            accepted += usize::from(self.accept(pool, frame, from, len, into));
        }
        accepted
    }

    fn transmit(&mut self, _now: Time, pool: &mut Pool, from: &mut Batch) -> usize {
        let sender =
            |p: &Packet| encapsulation::flow_hash(pool.data(p), self.seed) as usize % SENDERS;
        let senders: ArrayVec<usize, BATCH> = from.iter().map(sender).collect();
        let mut taken = 0;
        let mut has_failed = false;
        while self.link == Link::Up && taken < from.len() {
            let Some(sockets) = &self.sockets else { break };
            if !self.is_sendable(&from[taken]) {
                self.stats.tx_rejected += 1;
                taken += 1;
                continue;
            }
            let rest = from[taken..].iter().zip(&senders[taken..]);
            let run =
                rest.take_while(|(p, s)| **s == senders[taken] && self.is_sendable(p)).count();
            let packets = &from[taken..taken + run];
            match self.messages.send(&sockets.senders[senders[taken]], pool, packets, |_| []) {
                Ok(sent) => {
                    self.stats.tx_refused += u64::from(has_failed);
                    self.stats.tx_packets += sent as u64;
                    self.stats.tx_bytes +=
                        packets[..sent].iter().map(|p| p.len() as u64).sum::<u64>();
                    taken += sent;
                    has_failed = false;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => break,
                    // The error belongs to an earlier datagram; this one was not sent.
                    _ if !has_failed => has_failed = true,
                    // There is no route now: `maintain` will notice when there is one again.
                    Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN) => {
                        self.link.set(Link::Down, &mut self.stats);
                    }
                    _ => {
                        self.stats.tx_rejected += 1;
                        taken += 1;
                        has_failed = false;
                    }
                },
            }
        }
        from.drain(..taken).for_each(|p| pool.free(p));
        taken
    }

    fn maintain(&mut self, _now: Time, pool: &mut Pool) -> Link {
        if self.closed {
            return Link::Down;
        }
        self.look(pool);
        self.link
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.sockets.as_ref().map(|s| s.receiver.as_fd())
    }

    fn stats(&self) -> PortStats {
        PortStats { rx_overflow: self.lost(), ..self.stats }
    }

    fn close(&mut self, _pool: &mut Pool) {
        self.close_sockets();
        self.closed = true;
        self.link = Link::Down;
    }
}

/// Whether the error means a missing local address or route.
fn is_no_way(error: Errno) -> bool {
    matches!(error, Errno::ADDRNOTAVAIL | Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::INVAL)
}

/// The MTU of the route to the peer, in bytes with the IP header. It uses a new socket each time,
/// because a bound socket does not notice that its address was removed.
fn route_mtu(ends: &UdpEnds) -> io::Result<usize> {
    let socket = socket(ends.local.is_ipv4())?;
    rustix::net::bind(&socket, &SocketAddr::new(ends.local.ip(), 0))?;
    rustix::net::connect(&socket, &ends.peer)?;
    mtu_of(&socket, ends)
}

fn mtu_of(socket: &OwnedFd, ends: &UdpEnds) -> io::Result<usize> {
    let (level, option) = match ends.peer.is_ipv4() {
        true => (libc::IPPROTO_IP, libc::IP_MTU),
        false => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let mtu = sys::get_option::<libc::c_int>(socket, level, option)?;
    Ok(usize::try_from(mtu).unwrap_or(0))
}

fn socket(is_ipv4: bool) -> Result<OwnedFd, Errno> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let family = if is_ipv4 { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::DGRAM, flags, None)
}

/// A tunnel's sockets.
struct Sockets {
    receiver: OwnedFd,
    /// Bound to the local address and connected to the peer.
    senders: Vec<OwnedFd>,
}

impl Sockets {
    fn open(ends: &UdpEnds, seed: u64) -> Result<Sockets, Errno> {
        let receiver = socket(ends.local.is_ipv4())?;
        sys::set_receive_buffer(&receiver, RECEIVE_BUFFER);
        // It never sends: what ICMP says of its port, which is known to all, is not believed.
        let (level, option, interface) = match ends.local.is_ipv4() {
            true => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_INTERFACE),
            false => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_INTERFACE),
        };
        sys::set_option(&receiver, level, option, interface)
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        rustix::net::bind(&receiver, &ends.local)?;
        // Each is drawn independently: knowing one does not reveal the others.
        let first = |i: u16| RandomState::new().hash_one((seed, i)) as u16 % RANGE;
        let senders = (0..SENDERS as u16).map(|i| {
            let sender = socket(ends.local.is_ipv4())?;
            set_up_sender(&sender, ends)
                .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
            let (mut bound, first) = (Err(Errno::ADDRINUSE), first(i));
            for at in 0..RANGE {
                let port = SOURCE_PORT_MIN + i * RANGE + (first + at) % RANGE;
                bound = rustix::net::bind(&sender, &SocketAddr::new(ends.local.ip(), port));
                if bound != Err(Errno::ADDRINUSE) {
                    break;
                }
            }
            bound.and_then(|()| rustix::net::connect(&sender, &ends.peer)).map(|()| sender)
        });
        Ok(Sockets { receiver, senders: senders.collect::<Result<_, Errno>>()? })
    }

    /// The smallest of the route's MTU and the path MTUs of the senders, whose paths may differ
    /// where there are equal ones. A sender may remember an outdated MTU as long as it sends
    /// nothing: connecting again refreshes it.
    fn path_mtu(&self, ends: &UdpEnds, route_mtu: usize) -> usize {
        let of = |sender: &OwnedFd| mtu_of(sender, ends).unwrap_or(route_mtu);
        let fresh = |sender: &OwnedFd| match of(sender) {
            less if less < route_mtu && rustix::net::connect(sender, &ends.peer).is_ok() => {
                of(sender)
            }
            mtu => mtu,
        };
        self.senders.iter().map(fresh).fold(route_mtu, usize::min)
    }

    /// Datagrams for which the receive buffer had no room, or whose checksum was wrong.
    fn lost(&self) -> u64 {
        const DROPS: usize = 8;
        let counts =
            sys::get_option::<[u32; 9]>(&self.receiver, libc::SOL_SOCKET, libc::SO_MEMINFO);
        counts.map_or(0, |counts| counts[DROPS].into())
    }
}

/// Whole datagrams or none; and nothing is received here: the peer sends to the tunnel's port.
fn set_up_sender(sender: &OwnedFd, ends: &UdpEnds) -> io::Result<()> {
    let set = |level, option, value: libc::c_int| sys::set_option(sender, level, option, value);
    set(libc::SOL_SOCKET, libc::SO_RCVBUF, 0)?;
    if ends.peer.is_ipv4() {
        set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
        return set(libc::IPPROTO_IP, libc::IP_TTL, HOP_LIMIT);
    }
    set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)?;
    set(libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1)?;
    set(libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, HOP_LIMIT)
}

/// What its socket carries is the frame, and on receiving, the sender's address.
type Messages = messages::Messages<0, NAME_LEN, 0>;
