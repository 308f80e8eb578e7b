//! UDP: one socket for all unicast faces of a local address, and one for each multicast group.
//!
//! So a batch of datagrams costs one system call, whatever faces they belong to, and a flood of
//! senders opens no descriptors. The price: ICMP errors of one peer are not reported, so a face to
//! a dead peer lasts until it is idle or destroyed; and the kernel reports the unsent bytes of a
//! socket, which congestion marks use, only for all its faces together.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use plexus_io::datagram::Datagrams;
use plexus_ndn::face::FaceId;
use plexus_wire::Time;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, sockopt};

use crate::backlog::Backlog;

/// Longest datagram over IPv4; the kernel fragments it if necessary.
pub(crate) const DATAGRAM_MAX: usize = 65_507;
/// Requested size of a socket's kernel buffer in bytes.
const BUFFER: usize = 4 << 20;

pub(crate) enum Use {
    /// Faces by peer.
    Unicast(Peers),
    /// The face of the group.
    Group(FaceId),
}

/// Faces by peer, and their number by address: so flooding addresses are counted without a search.
#[derive(Default)]
pub(crate) struct Peers {
    faces: HashMap<SocketAddr, FaceId>,
    of_address: Tally<IpAddr>,
}

/// Counts by key; zero counts are removed.
pub(crate) struct Tally<K>(HashMap<K, usize>);

impl<K> Default for Tally<K> {
    fn default() -> Tally<K> {
        Tally(HashMap::new())
    }
}

impl<K: Eq + Hash> Tally<K> {
    pub(crate) fn of(&self, key: &K) -> usize {
        self.0.get(key).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, key: K) {
        *self.0.entry(key).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, key: &K) {
        if let Some(count) = self.0.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(key);
            }
        }
    }
}

impl Peers {
    pub(crate) fn get(&self, peer: SocketAddr) -> Option<FaceId> {
        self.faces.get(&peer).copied()
    }

    pub(crate) fn of_address(&self, peer: SocketAddr) -> usize {
        self.of_address.of(&site(peer.ip()))
    }

    pub(crate) fn insert(&mut self, peer: SocketAddr, face: FaceId) {
        if self.faces.insert(peer, face).is_none() {
            self.of_address.add(site(peer.ip()));
        }
    }

    pub(crate) fn remove(&mut self, peer: SocketAddr) {
        if self.faces.remove(&peer).is_some() {
            self.of_address.remove(&site(peer.ip()));
        }
    }
}

/// The owner of an address: an owner of an IPv6 address has its whole /64.
pub(crate) fn site(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
    }
}

/// A multicast group on a link.
#[derive(Clone, Copy, Debug)]
pub enum Group<'a> {
    /// An IPv4 group, on the device with the address `local`.
    V4 {
        /// An address of this machine.
        local: Ipv4Addr,
        /// The group and its port.
        group: SocketAddrV4,
    },
    /// An IPv6 group, on a device.
    V6 {
        /// Its name.
        device: &'a str,
        /// The group and its port; its scope is the device's.
        group: SocketAddrV6,
    },
}

impl fmt::Display for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Group::V4 { local, group } => write!(f, "{group} at {local}"),
            Group::V6 { device, group } => write!(f, "{group} on {device}"),
        }
    }
}

/// A socket and its send queue.
pub(crate) struct Hub {
    socket: UdpSocket,
    /// For a group: the receiving socket. `socket` sends, bound to a device's address.
    receiver: Option<UdpSocket>,
    pub(crate) local: SocketAddr,
    pub(crate) serves: Use,
    /// Datagrams one after the other, and their faces.
    out: VecDeque<u8>,
    list: VecDeque<(FaceId, SocketAddr, usize)>,
    pub(crate) is_watched: bool,
    /// Bytes sent in total.
    sent_total: u64,
    backlog: Backlog,
}

impl Hub {
    /// Unicast on a local address.
    pub(crate) fn unicast(local: SocketAddr) -> io::Result<Hub> {
        let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
        if local.is_ipv6() {
            // The other IP version has a separate socket, so that a peer has one address.
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        enlarge(&socket);
        rustix::net::bind(&socket, &local)?;
        let socket = UdpSocket::from(socket);
        let local = socket.local_addr()?;
        Ok(Hub::new(socket, None, local, Use::Unicast(Peers::default())))
    }

    /// A group; also returns its address, which for IPv6 names the device.
    pub(crate) fn group(group: &Group<'_>, face: FaceId) -> io::Result<(Hub, SocketAddr)> {
        let family = match group {
            Group::V4 { .. } => AddressFamily::INET,
            Group::V6 { .. } => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let open = || rustix::net::socket_with(family, SocketType::DGRAM, flags, None);
        let (receiver, sender) = (open()?, open()?);
        sockopt::set_socket_reuseaddr(&receiver, true)?;
        enlarge(&receiver);
        // Bound to the group, so that datagrams to other addresses of the port are not received.
        let (group, local): (SocketAddr, SocketAddr) = match group {
            Group::V4 { local, group } => {
                rustix::net::bind(&receiver, group)?;
                sockopt::set_ip_add_membership(&receiver, group.ip(), local)?;
                sockopt::set_ip_multicast_if(&sender, local)?;
                sockopt::set_ip_multicast_ttl(&sender, 1)?;
                ((*group).into(), SocketAddr::new((*local).into(), 0))
            }
            Group::V6 { device, group } => {
                let index = netdevice::name_to_index(&sender, device)?;
                let to = SocketAddrV6::new(*group.ip(), group.port(), 0, index);
                sockopt::set_ipv6_v6only(&receiver, true)?;
                rustix::net::bind(&receiver, &to)?;
                sockopt::set_ipv6_add_membership(&receiver, group.ip(), index)?;
                sockopt::set_ipv6_multicast_if(&sender, index)?;
                sockopt::set_ipv6_multicast_hops(&sender, 1)?;
                let none = |e: io::Error| {
                    let why = format!("the device has no IPv6 address that is ready: {e}");
                    io::Error::new(e.kind(), why)
                };
                (to.into(), source(to).map_err(none)?)
            }
        };
        rustix::net::bind(&sender, &local)?;
        let sender = UdpSocket::from(sender);
        let local = sender.local_addr()?;
        Ok((Hub::new(sender, Some(receiver.into()), local, Use::Group(face)), group))
    }

    fn new(socket: UdpSocket, receiver: Option<UdpSocket>, local: SocketAddr, serves: Use) -> Hub {
        Hub {
            socket,
            receiver,
            local,
            serves,
            out: VecDeque::new(),
            list: VecDeque::new(),
            is_watched: false,
            sent_total: 0,
            backlog: Backlog::of_other(),
        }
    }

    /// The descriptor on which datagrams arrive.
    pub(crate) fn receiving(&self) -> BorrowedFd<'_> {
        self.receiver.as_ref().unwrap_or(&self.socket).as_fd()
    }

    /// True if another socket sends: then datagrams that arrive there are discarded.
    pub(crate) fn is_split(&self) -> bool {
        self.receiver.is_some()
    }

    pub(crate) fn sending(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Bytes in the send queue.
    pub(crate) fn queued(&self) -> usize {
        self.out.len()
    }

    /// Bytes in the kernel that it has not sent, of all faces that use this socket; more than
    /// `long` is a long queue.
    pub(crate) fn backlog(&mut self, now: Time, long: usize) -> usize {
        self.backlog.bytes(now, self.socket.as_fd(), self.sent_total, long)
    }

    pub(crate) fn push(&mut self, face: FaceId, to: SocketAddr, head: &[u8], piece: &[u8]) {
        self.out.extend(head);
        self.out.extend(piece);
        self.list.push_back((face, to, head.len() + piece.len()));
    }

    /// Sends what the socket accepts; `sent` is called with each datagram's face and length, and
    /// whether it was sent. True if the queue is empty.
    pub(crate) fn flush(
        &mut self,
        batch: &mut Datagrams,
        mut sent: impl FnMut(FaceId, usize, bool),
    ) -> bool {
        while !self.list.is_empty() {
            let mut rest = &*self.out.make_contiguous();
            let datagrams = self.list.iter().map(|(_, to, len)| {
                let (bytes, more) = rest.split_at(*len);
                rest = more;
                (*to, bytes)
            });
            let (n, went) = match batch.send(self.socket.as_fd(), datagrams) {
                Ok(n) => (n, true),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
                // This one cannot be sent: too long for the path, or no route.
                Err(_) => (1, false),
            };
            for (face, _, len) in self.list.drain(..n) {
                self.out.drain(..len);
                self.sent_total += len as u64;
                sent(face, len, went);
            }
        }
        true
    }
}

/// The source address that the kernel chooses for a group, without a port: nothing is sent.
fn source(group: SocketAddrV6) -> io::Result<SocketAddr> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
    socket.connect(group)?;
    let mut source = socket.local_addr()?;
    source.set_port(0);
    Ok(source)
}

/// Requests as much as the system allows.
fn enlarge(socket: &impl AsFd) {
    let _ = sockopt::set_socket_recv_buffer_size(socket, BUFFER);
    let _ = sockopt::set_socket_send_buffer_size(socket, BUFFER);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_counted_with_all_that_its_owner_has() {
        let mut peers = Peers::default();
        let face = |n| FaceId::new(n, 0).unwrap();
        let all =
            ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1", "[2001:db8::1]:1", "[2001:db8::f:2]:1"];
        let all = all.map(|text| text.parse::<SocketAddr>().unwrap());
        for _ in 0..2 {
            (0..).zip(all).for_each(|(n, peer)| peers.insert(peer, face(n)));
        }
        assert_eq!(all.map(|peer| peers.of_address(peer)), [2, 2, 1, 2, 2]);
        peers.remove(all[0]);
        peers.remove(all[0]);
        assert_eq!((peers.of_address(all[1]), peers.get(all[0])), (1, None));
        all.iter().for_each(|peer| peers.remove(*peer));
        assert!(peers.faces.is_empty() && peers.of_address.0.is_empty());
    }
}
