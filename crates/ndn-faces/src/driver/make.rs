//! Creates faces: by command, or for arriving packets and connections.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use plexus_ndn::face::{FaceId, LinkType, Scope};
use plexus_ndn::link::{Link, Options};
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::{MacAddr, Time};
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::{Faces, RETRY, Token};
use crate::backlog::Backlog;
use crate::ether::{Ends, Ether, GROUP};
use crate::listen::keep_alive;
use crate::stream::Stream;
use crate::table::{Carrier, Claim, Face, FaceCounters, Refusal, Settings};
use crate::udp::{DATAGRAM_MAX, Group, Hub, Use};
use crate::{Facts, Persistency, Receiver};

impl Faces {
    pub(super) fn add_hub(&mut self, hub: Hub) -> io::Result<usize> {
        let at = free_place(&mut self.table.hubs);
        let data = Token::Hub(at as u32).data();
        epoll::add(&self.table.epoll, hub.receiving(), data, EventFlags::IN)?;
        if hub.is_split() {
            epoll::add(&self.table.epoll, hub.sending(), data, EventFlags::empty())?;
        }
        self.table.hubs[at] = Some(hub);
        Ok(at)
    }

    /// Creates a face to `remote`: UDP or TCP over either IP version, Unix, or a station of an
    /// Ethernet. The node chooses the local end, except for a station: `local` is its device.
    /// # Errors
    /// When there is one already, or it cannot be created. A refused TCP connection shows later:
    /// the face goes down, or, if it is permanent, keeps retrying.
    pub fn create(
        &mut self,
        now: Time,
        remote: &FaceUri,
        local: Option<&FaceUri>,
        settings: Settings,
        receiver: &mut impl Receiver,
    ) -> Result<FaceId, Refusal> {
        if let FaceUri::Ether(station) = remote {
            return self.create_station(now, *station, local, settings, receiver);
        }
        if let Some(local) = local {
            let why = format!("{local}: faces send from where the node listens; say no LocalUri");
            return Err(Refusal::Unsupported(why));
        }
        if let Some(other) = self.table.facts().find(|f| f.remote == *remote) {
            return Err(Refusal::Exists(other.id));
        }
        refuse_on_demand(settings)?;
        match remote {
            FaceUri::Udp(peer) => {
                let is_unicast = |hub: &Option<Hub>| {
                    let hub = hub.as_ref()?;
                    let fits = hub.local.is_ipv4() == peer.is_ipv4();
                    (fits && matches!(hub.serves, Use::Unicast(_))).then_some(())
                };
                let hub = self.table.hubs.iter().position(|hub| is_unicast(hub).is_some());
                let Some(hub) = hub else {
                    let why = "no UDP address of this IP version is listened on";
                    return Err(Refusal::Unsupported(why.into()));
                };
                if peer.ip().is_multicast() || peer.ip().is_unspecified() {
                    return Err(Refusal::Unsupported(format!("{remote} is no unicast address")));
                }
                self.add_udp(now, hub, *peer, settings, receiver)
            }
            FaceUri::Tcp(_) | FaceUri::Unix(_) => {
                if !self.may_connect(Claim::Own) {
                    return Err(Refusal::Full);
                }
                let failed = |e: io::Error| Refusal::Failed(format!("{remote}: {e}"));
                let stream = connect(remote).map_err(failed)?;
                let local = local_end(&stream.0, remote);
                let scope = stream_scope(remote);
                self.add_stream(now, stream, (local, remote.clone()), scope, settings, receiver)
            }
            other => Err(Refusal::Unsupported(format!("no face can be made to {other}"))),
        }
    }

    /// A face to a station behind a device, by command (NFD: `EthernetFactory::doCreateFace`).
    fn create_station(
        &mut self,
        now: Time,
        station: MacAddr,
        local: Option<&FaceUri>,
        settings: Settings,
        receiver: &mut impl Receiver,
    ) -> Result<FaceId, Refusal> {
        let Some(FaceUri::Dev(device)) = local else {
            let why = "a face to a station of an Ethernet needs a LocalUri with dev:// scheme";
            return Err(Refusal::Unsupported(why.into()));
        };
        refuse_on_demand(settings)?;
        if station.is_multicast() {
            let why = format!("ether://[{station}] is a group, and no station");
            return Err(Refusal::Unsupported(why));
        }
        let is_it = |ether: &Option<Ether>| ether.as_ref().is_some_and(|e| e.name() == device);
        let Some(at) = self.table.ethers.iter().position(is_it) else {
            let why = format!("there are no Ethernet faces on dev://{device}");
            return Err(Refusal::Failed(why));
        };
        let known = self.table.ethers[at].as_ref().and_then(|e| e.stations.get(&station));
        match known {
            Some(id) => Err(Refusal::Exists(*id)),
            None => self.add_station(now, at, station, settings, receiver),
        }
    }

    /// Creates a multi-access face for a UDP group.
    ///
    /// # Errors
    /// When there is one already, or it cannot be created.
    pub fn create_group(
        &mut self,
        now: Time,
        group: &Group<'_>,
        mtu: Option<usize>,
        receiver: &mut impl Receiver,
    ) -> Result<FaceId, Refusal> {
        let id = self.table.allocate()?;
        let made =
            Hub::group(group, id).and_then(|(hub, to)| Ok((hub.local, to, self.add_hub(hub)?)));
        let (local, group, hub) = match made {
            Ok(made) => made,
            Err(e) => {
                self.table.release(id);
                return Err(Refusal::Failed(format!("{group}: {e}")));
            }
        };
        let facts = Facts {
            id,
            local: FaceUri::Udp(local),
            remote: FaceUri::Udp(group),
            scope: Scope::NonLocal,
            link_type: LinkType::MultiAccess,
            persistency: Persistency::Permanent,
        };
        let settings = Settings { mtu, ..Settings::new(Persistency::Permanent) };
        self.add(now, facts, settings, Carrier::Udp(hub, group), receiver);
        Ok(id)
    }

    /// Creates a multi-access face for the Ethernet group on a port; from then on, each station
    /// that sends to it gets a face.
    ///
    /// # Errors
    /// When there are too many faces.
    pub fn create_ethernet(
        &mut self,
        now: Time,
        ends: Ends,
        receiver: &mut impl Receiver,
    ) -> Result<FaceId, Refusal> {
        let id = self.table.allocate()?;
        let Some(ether) = Ether::new(ends, id) else {
            self.table.release(id);
            return Err(Refusal::Failed("it has no address of an Ethernet".into()));
        };
        let name = ether.name().to_string();
        let at = free_place(&mut self.table.ethers);
        self.table.ethers[at] = Some(ether);
        self.maintain_ether(now, at);
        let facts = Facts {
            id,
            local: FaceUri::Dev(name),
            remote: FaceUri::Ether(GROUP),
            scope: Scope::NonLocal,
            link_type: LinkType::MultiAccess,
            persistency: Persistency::Permanent,
        };
        let settings = Settings::new(Persistency::Permanent);
        self.add(now, facts, settings, Carrier::Ether(at, GROUP), receiver);
        Ok(id)
    }

    /// Creates a face to one station behind a port.
    pub(super) fn add_station(
        &mut self,
        now: Time,
        at: usize,
        station: MacAddr,
        settings: Settings,
        receiver: &mut impl Receiver,
    ) -> Result<FaceId, Refusal> {
        let id = self.table.allocate()?;
        let Some(Some(ether)) = self.table.ethers.get_mut(at) else {
            self.table.release(id);
            return Err(Refusal::Unsupported("no such port".into()));
        };
        ether.stations.insert(station, id);
        let facts = Facts {
            id,
            local: FaceUri::Dev(ether.name().to_string()),
            remote: FaceUri::Ether(station),
            scope: Scope::NonLocal,
            link_type: LinkType::PointToPoint,
            persistency: settings.persistency,
        };
        self.add(now, facts, settings, Carrier::Ether(at, station), receiver);
        Ok(id)
    }

    pub(super) fn add_udp(
        &mut self,
        now: Time,
        hub: usize,
        peer: SocketAddr,
        settings: Settings,
        receiver: &mut impl Receiver,
    ) -> Result<FaceId, Refusal> {
        let id = self.table.allocate()?;
        let Some(Some(Hub { serves: Use::Unicast(peers), local, .. })) =
            self.table.hubs.get_mut(hub)
        else {
            self.table.release(id);
            return Err(Refusal::Unsupported("no such socket".into()));
        };
        peers.insert(peer, id);
        let facts = Facts {
            id,
            local: FaceUri::Udp(*local),
            remote: FaceUri::Udp(peer),
            // The sender may be anyone: sources of datagrams are not authenticated.
            scope: Scope::NonLocal,
            link_type: LinkType::PointToPoint,
            persistency: settings.persistency,
        };
        self.add(now, facts, settings, Carrier::Udp(hub, peer), receiver);
        Ok(id)
    }

    pub(super) fn add_stream(
        &mut self,
        now: Time,
        (socket, is_connecting): (OwnedFd, bool),
        (local, remote): (FaceUri, FaceUri),
        scope: Scope,
        settings: Settings,
        receiver: &mut impl Receiver,
    ) -> Result<FaceId, Refusal> {
        let id = self.table.allocate()?;
        let stream = Stream::new(socket, self.len_max(), is_connecting, backlog_to(&remote));
        if let Err(e) = self.watch(&stream, id) {
            self.table.release(id);
            return Err(Refusal::Failed(e.to_string()));
        }
        let link_type = LinkType::PointToPoint;
        let persistency = settings.persistency;
        let facts = Facts { id, local, remote, scope, link_type, persistency };
        self.add(now, facts, settings, Carrier::Stream(stream), receiver);
        Ok(id)
    }

    pub(super) fn watch(&self, stream: &Stream, id: FaceId) -> io::Result<()> {
        let flags = match stream.is_connecting {
            true => EventFlags::IN | EventFlags::OUT,
            false => EventFlags::IN,
        };
        Ok(epoll::add(&self.table.epoll, stream.fd(), Token::Face(id).data(), flags)?)
    }

    pub(super) fn add(
        &mut self,
        now: Time,
        facts: Facts,
        settings: Settings,
        carrier: Carrier,
        receiver: &mut impl Receiver,
    ) {
        let mtu = match &carrier {
            Carrier::Udp(..) => {
                let wanted = settings.mtu.or(self.table.bounds.udp_mtu);
                wanted.unwrap_or(DATAGRAM_MAX).min(DATAGRAM_MAX)
            }
            Carrier::Ether(at, _) => {
                let ether = self.table.ethers.get(*at).and_then(Option::as_ref);
                let mtu = ether.map_or(0, Ether::mtu);
                settings.mtu.map_or(mtu, |wanted| wanted.min(mtu))
            }
            // A stream has no limit on the length of link packets.
            _ => usize::MAX,
        };
        let options = Options {
            reliability: settings.reliability,
            local_fields: settings.local_fields && facts.scope == Scope::Local,
            packet_len_max: self.table.bounds.packet_len,
            ..Options::new(mtu)
        };
        // An odd number, so that the links' initial numbers are far apart.
        self.seed = self.seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        let link = Link::new(facts.id, options, self.seed);
        tracing::debug!(face = facts.id.number(), remote = %facts.remote, "up");
        receiver.face_up(now, &facts);
        let counters = FaceCounters::default();
        let (heard, queued, is_dirty, moved, retry) = (now, 0, false, (0, now), RETRY);
        self.table.insert(Face {
            facts,
            settings,
            link,
            carrier,
            counters,
            heard,
            begun: now,
            has_answered: false,
            queued,
            is_dirty,
            moved,
            retry,
            is_down: false,
        });
    }
}

/// The first free place of a list, which grows if there is none.
pub(super) fn free_place<T>(list: &mut Vec<Option<T>>) -> usize {
    list.iter().position(Option::is_none).unwrap_or_else(|| {
        list.push(None);
        list.len() - 1
    })
}

fn refuse_on_demand(settings: Settings) -> Result<(), Refusal> {
    let why = "on-demand faces are created for arriving packets, not by command";
    match settings.persistency {
        Persistency::OnDemand => Err(Refusal::Unsupported(why.into())),
        _ => Ok(()),
    }
}

/// Unix sockets, and TCP within this machine, are local.
pub(super) fn stream_scope(remote: &FaceUri) -> Scope {
    match remote {
        FaceUri::Unix(_) | FaceUri::Fd(_) => Scope::Local,
        FaceUri::Tcp(peer) if peer.ip().is_loopback() => Scope::Local,
        _ => Scope::NonLocal,
    }
}

/// How to query a stream's backlog in the kernel, by its remote end.
pub(super) fn backlog_to(remote: &FaceUri) -> Backlog {
    match remote {
        FaceUri::Tcp(_) => Backlog::of_tcp(),
        _ => Backlog::of_other(),
    }
}

pub(super) fn local_end(socket: &impl AsFd, remote: &FaceUri) -> FaceUri {
    let address = rustix::net::getsockname(socket).ok();
    match (remote, address.map(SocketAddr::try_from)) {
        (FaceUri::Tcp(_), Some(Ok(address))) => FaceUri::Tcp(address),
        _ => FaceUri::Fd(socket.as_fd().as_raw_fd().unsigned_abs()),
    }
}

/// Begins a connection; returns whether it is still being established.
pub(super) fn connect(remote: &FaceUri) -> io::Result<(OwnedFd, bool)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let open = |family| socket_with(family, SocketType::STREAM, flags, None);
    let (socket, begun) = match remote {
        FaceUri::Tcp(peer) => {
            let v4 = peer.is_ipv4();
            let socket = open(if v4 { AddressFamily::INET } else { AddressFamily::INET6 })?;
            rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
            keep_alive(&socket)?;
            let begun = rustix::net::connect(&socket, peer);
            (socket, begun)
        }
        FaceUri::Unix(path) => {
            let socket = open(AddressFamily::UNIX)?;
            let begun = rustix::net::connect(&socket, &SocketAddrUnix::new(path.as_str())?);
            (socket, begun)
        }
        _ => return Err(io::ErrorKind::Unsupported.into()),
    };
    match begun {
        Ok(()) => Ok((socket, false)),
        Err(Errno::INPROGRESS) => Ok((socket, true)),
        Err(e) => Err(e.into()),
    }
}
