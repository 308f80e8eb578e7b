//! A box that forwards named data: the daemon's forwarder and link protocol, with faces by Ethernet
//! on ports of the box, joined as the daemon joins them.
//!
//! At a port that `[[node.named.ethernet]]` names, the data plane hands over frames of named data
//! for this box, and takes the forwarder's into the port's queues. There is one worker and no disk,
//! and prefixes lead where the file says.

pub(crate) mod check;
mod counts;
mod end;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plexus_config::NamedSettings;
use plexus_io::Pool;
use plexus_ndn::face::{Face, FaceId, FaceIds, LinkType};
use plexus_ndn::fib::{Fib, NameLimits};
use plexus_ndn::forwarder::{Config, Forwarder, Output, Store, in_one};
use plexus_ndn::link::{Came, Limits, Link, Memory, Options};
use plexus_ndn::management::{Rib, RibLimits, Route};
use plexus_ndn::names::NameHasher;
use plexus_ndn::plan::Plan;
use plexus_ndn::store::memory::{MemoryLimits, MemoryStore};
use plexus_ndn::store::policy::PolicyKind;
use plexus_ndn_faces::{ETHERNET_GROUP, read_frame};
use plexus_plane::{Injection, Pipeline, ToControl};
use plexus_wire::ndn::NameBuf;
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::ndn::lp::Headers;
use plexus_wire::{EtherType, MacAddr, Time, ethernet};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::core::{Core, DeviceIndex};
use crate::node::port_mac;
use crate::time::SimTime;
pub(crate) use end::NamedEnd;

/// Pending Interests, dead nonces and measurements of a node: fewer than a daemon has room for, as
/// there are many nodes. What finds no room is counted.
const PENDING: usize = 1 << 16;
const NONCES: usize = 1 << 14;
const MEASUREMENTS: usize = 1 << 12;
/// Bytes of a prefix's record in the FIB beside its name.
const RECORD_BYTES: usize = 64;
/// Stations behind a port that get a face without being ordered.
const STATIONS_MAX: usize = 1024;
/// How often fragments that wait for others are looked through, as in the daemon.
const EXPIRE_EVERY: Duration = Duration::from_millis(100);

/// The forwarder of a box.
pub(crate) struct SimNamed {
    device: DeviceIndex,
    forwarder: Forwarder<Vec<u8>>,
    ethers: Vec<Ether>,
    /// By their places.
    faces: Vec<SimFace>,
    ids: FaceIds,
    memory: Memory,
    expire_at: SimTime,
    /// Faces whose links acknowledge.
    reliable: Vec<usize>,
    random: Pcg64Mcg,
    /// Memory to be used again.
    bytes: Vec<u8>,
    frame: Vec<u8>,
    gathered: Vec<u8>,
}

/// A port that is the forwarder's.
struct Ether {
    /// Which of the node's.
    port: u16,
    own: MacAddr,
    mtu: usize,
    group: FaceId,
    stations: BTreeMap<MacAddr, FaceId>,
}

struct SimFace {
    id: FaceId,
    ether: usize,
    to: MacAddr,
    link: Link,
}

fn number_of(station: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = station.0;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// Writes the frame of a link packet.
fn write_frame(frame: &mut Vec<u8>, [to, own]: [MacAddr; 2], [head, piece]: [&[u8]; 2]) {
    frame.clear();
    frame.resize(ethernet::HEADER_LEN, 0);
    let header = ethernet::Repr { dst: to, src: own, ethertype: EtherType::NDN };
    // The frame is long enough for it.
    let _ = header.emit(frame);
    frame.extend_from_slice(head);
    frame.extend_from_slice(piece);
    frame.resize(frame.len().max(ethernet::MIN_FRAME_LEN), 0);
}

/// Where frames go: into the queues of the node's ports.
struct Ports<'a> {
    now: Time,
    pool: &'a mut Pool,
    pipeline: &'a mut Pipeline,
    frame: &'a mut Vec<u8>,
}

impl Ports<'_> {
    /// Queues the frame of a link packet at a port. The data plane counts what it drops.
    fn send(&mut self, port: u16, ends: [MacAddr; 2], parts: [&[u8]; 2]) {
        write_frame(self.frame, ends, parts);
        let how = Injection::Named(port);
        let _ = self.pipeline.inject(self.now, self.pool, self.frame, how);
    }
}

/// When fragments that wait are to be looked through next, if any do.
fn next_expiry(memory: &Memory, at: SimTime, now: SimTime) -> SimTime {
    match (memory.used(), at) {
        (0, _) => SimTime::FOREVER,
        (_, SimTime::FOREVER) => now + EXPIRE_EVERY.into(),
        (_, at) => at,
    }
}

impl SimNamed {
    /// The forwarder of a node whose ports have these names, and MTUs of their cables.
    ///
    /// # Errors
    /// In words, when there is no such port, or a prefix or strategy cannot be.
    pub(crate) fn new(
        device: DeviceIndex,
        settings: &NamedSettings,
        ports: &[(String, u16)],
        seeds: [u64; 3],
    ) -> Result<SimNamed, String> {
        let [a, b, seed] = seeds;
        let hasher = NameHasher::new([a, b]);
        let names = settings.routes.iter().map(|r| r.prefix.as_name().value().len() + RECORD_BYTES);
        let limits = NameLimits {
            prefixes: settings.routes.len().max(1),
            record_bytes: names.sum::<usize>().max(1 << 12),
        };
        let mut fib = Fib::new(hasher, limits).map_err(|e| e.to_string())?;
        let plan = plan(settings, &hasher)?;
        let limits = MemoryLimits::of(settings.cache);
        let memory = MemoryStore::new(limits, |n, bytes| PolicyKind::S3Fifo.build(n, bytes));
        let config = Config {
            pit_capacity: PENDING,
            dead_nonces: NONCES,
            measurements: MEASUREMENTS,
            ..Config::new(0, hasher, seed)
        };
        let store = Store::new(memory, vec![]);
        let mut named = SimNamed {
            device,
            forwarder: Forwarder::new(config, fib.reader(), Arc::new(plan), store),
            ethers: vec![],
            faces: vec![],
            ids: FaceIds::default(),
            memory: Memory::new(Limits::default()),
            expire_at: SimTime::FOREVER,
            reliable: vec![],
            random: Pcg64Mcg::seed_from_u64(seed ^ 1),
            bytes: vec![],
            frame: vec![],
            gathered: vec![],
        };
        let mut by_name: BTreeMap<&str, FaceId> = BTreeMap::new();
        let port_of = |device: &str| (0..).zip(ports).find(|(_, (name, _))| name == device);
        for ethernet in &settings.ethernets {
            let (port, (_, mtu)) =
                port_of(&ethernet.device).ok_or_else(|| format!("no port {}", ethernet.device))?;
            let mtu = usize::from(ethernet.mtu.unwrap_or(u16::MAX).min(*mtu));
            let at = named.ethers.len();
            let own = port_mac(device, port);
            let group = named.add_face(at, ETHERNET_GROUP, mtu, false)?;
            let stations = BTreeMap::new();
            named.ethers.push(Ether { port, own, mtu, group, stations });
            by_name.insert(&ethernet.name, group);
        }
        for face in &settings.faces {
            let (FaceUri::Ether(to), Some(FaceUri::Dev(device))) = (&face.remote, &face.local)
            else {
                return Err(format!("face {}: {} is no station", face.name, face.remote));
            };
            let at = settings.ethernets.iter().position(|e| e.device == *device);
            let at = at.ok_or_else(|| format!("no Ethernet on {device}"))?;
            let most = named.ethers[at].mtu;
            let mtu = face.mtu.map_or(most, |mtu| most.min(mtu.into()));
            let id = named.add_face(at, *to, mtu, face.reliability)?;
            named.ethers[at].stations.insert(*to, id);
            by_name.insert(&face.name, id);
        }
        let mut rib = Rib::new(RibLimits::default());
        for route in &settings.routes {
            let face = by_name.get(&route.face[..]).copied();
            let face = face.ok_or_else(|| format!("no face {}", route.face))?;
            let own = Route::of_file(face, route.cost.into());
            rib.add(route.prefix.as_name(), own, &mut |prefix, hops| fib.set(prefix, hops))
                .map_err(|e| format!("route to {}: {e}", route.prefix))?;
        }
        while rib.is_behind() {
            rib.turn(Time::ZERO, &mut |prefix, hops| fib.set(prefix, hops));
        }
        Ok(named)
    }

    fn add_face(
        &mut self,
        ether: usize,
        to: MacAddr,
        mtu: usize,
        reliability: bool,
    ) -> Result<FaceId, String> {
        let id = self.ids.allocate().ok_or("there is no number left for a face")?;
        let link =
            if to == ETHERNET_GROUP { LinkType::MultiAccess } else { LinkType::PointToPoint };
        self.forwarder.add_face(id, Face { link, ..Face::NEIGHBOUR });
        let options = Options { reliability, ..Options::new(mtu) };
        let link = Link::new(id, options, self.random.random());
        if reliability {
            self.reliable.push(self.faces.len());
        }
        // Places are given out in order, as no face ever goes.
        self.faces.push(SimFace { id, ether, to, link });
        Ok(id)
    }

    /// The ports of the node at which there are faces, and the address of each.
    pub(crate) fn ports(&self) -> impl Iterator<Item = (u16, MacAddr)> {
        self.ethers.iter().map(|ether| (ether.port, ether.own))
    }

    /// A frame that the data plane has handed over.
    pub(crate) fn receive(&mut self, core: &mut Core, pipeline: &mut Pipeline, frame: ToControl) {
        let ToControl { in_port, packet, .. } = frame;
        // Copied, since what answers it goes into frames of the same pool.
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        bytes.extend_from_slice(core.pool.data(&packet));
        core.free(packet);
        if let Some(at) = self.ethers.iter().position(|ether| ether.port == in_port)
            && let Some((to, from, link_packet)) = read_frame(&bytes)
            && from.0[0] & 1 == 0
            && let Some(place) = self.face_of(at, to, from)
        {
            self.take(core, pipeline, place, number_of(from), link_packet);
        }
        self.bytes = bytes;
        self.rest(core);
    }

    /// The place of the face that a frame came by, if it is for this box; that of a station is made
    /// when it is first heard.
    fn face_of(&mut self, at: usize, to: MacAddr, from: MacAddr) -> Option<usize> {
        let ether = &self.ethers[at];
        if to == ETHERNET_GROUP {
            return ether.group.place();
        }
        if to != ether.own {
            return None;
        }
        if let Some(id) = ether.stations.get(&from) {
            return id.place();
        }
        if ether.stations.len() >= STATIONS_MAX {
            return None;
        }
        let id = self.add_face(at, from, ether.mtu, false).ok()?;
        self.ethers[at].stations.insert(from, id);
        id.place()
    }

    /// Gives the forwarder what a link packet completes.
    fn take(
        &mut self,
        core: &mut Core,
        pipeline: &mut Pipeline,
        place: usize,
        sender: u64,
        link_packet: &[u8],
    ) {
        let now = core.now.floor();
        let Some(face) = self.faces.get_mut(place) else { return };
        let id = face.id;
        let received = face.link.receive_from(now, sender, link_packet, &mut self.memory);
        let Ok(Some(received)) = received.map(|came| came.map(Came::packet)) else { return };
        let pool = &mut core.pool;
        let mut out = Out {
            ports: Ports { now, pool, pipeline, frame: &mut self.frame },
            faces: &mut self.faces,
            ethers: &self.ethers,
            gathered: &mut self.gathered,
        };
        self.forwarder.receive(now, id, &received.headers, received.packet, &mut out);
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, core: &mut Core, pipeline: &mut Pipeline) {
        let now = core.now.floor();
        self.forwarder.tick(now);
        let pool = &mut core.pool;
        let mut ports = Ports { now, pool, pipeline, frame: &mut self.frame };
        for &place in &self.reliable {
            let SimFace { ether, to, link, .. } = &mut self.faces[place];
            if link.next_deadline().is_none_or(|at| at > now) {
                continue;
            }
            let Ether { port, own, .. } = self.ethers[*ether];
            link.poll(now, &mut |head, piece| ports.send(port, [*to, own], [head, piece]));
        }
        if self.expire_at <= core.now {
            self.expire_at = SimTime::FOREVER;
            self.memory.expire(now);
        }
        self.rest(core);
    }

    /// Says when there is something to do.
    fn rest(&mut self, core: &mut Core) {
        self.expire_at = next_expiry(&self.memory, self.expire_at, core.now);
        let links = self.reliable.iter().filter_map(|at| self.faces[*at].link.next_deadline());
        let times = links.chain(self.forwarder.next_deadline()).map(SimTime::from);
        let at = times.fold(self.expire_at, SimTime::min);
        if at != SimTime::FOREVER {
            core.wake(self.device, at);
        }
    }

    /// Interests in its table.
    pub(crate) fn pending(&self) -> usize {
        self.forwarder.pending()
    }
}

/// The file's strategies and regions.
fn plan(settings: &NamedSettings, hasher: &NameHasher) -> Result<Plan, String> {
    let choices = settings.strategies.iter().map(|chosen| {
        let name = format!("/localhost/nfd/strategy/{}", chosen.strategy.name());
        let name = name.parse::<NameBuf>().map_err(|e| e.to_string())?;
        Ok((chosen.prefix.clone(), name))
    });
    let choices = choices.collect::<Result<Vec<_>, String>>()?;
    Plan::new(hasher, &choices, settings.regions.clone()).map_err(|e| e.to_string())
}

/// Where the forwarder's packets go.
struct Out<'a> {
    ports: Ports<'a>,
    faces: &'a mut [SimFace],
    ethers: &'a [Ether],
    gathered: &'a mut Vec<u8>,
}

impl Output for Out<'_> {
    fn send<'p>(
        &mut self,
        face: FaceId,
        headers: &Headers<'_>,
        packet: impl Iterator<Item = &'p [u8]> + Clone,
    ) {
        let whole = in_one(packet, self.gathered);
        let face = face.place().and_then(|place| self.faces.get_mut(place));
        let Some(SimFace { ether, to, link, .. }) = face else { return };
        let Ether { port, own, .. } = self.ethers[*ether];
        let (now, ports) = (self.ports.now, &mut self.ports);
        let mut out = |head: &[u8], piece: &[u8]| ports.send(port, [*to, own], [head, piece]);
        // As in the daemon, an Ethernet's queue is not the link's to see: it marks nothing there.
        // What cannot be sent, the link counts.
        let _ = link.send(now, headers, whole, 0, &mut out);
    }
}
