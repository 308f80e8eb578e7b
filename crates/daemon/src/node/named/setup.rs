//! The start of named data: opens sockets and disks, and makes the forwarder with its tables.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use plexus_config::{Backend, NamedDispatch, NamedEthernet, NamedSettings};
use plexus_io::af_packet::Only;
use plexus_io::clock::unix_ms;
use plexus_io::spec::{self, PortSpec};
use plexus_io::{AddressOf, OpenError};
use plexus_ndn::dispatch::Depths;
use plexus_ndn::face::FaceId;
use plexus_ndn::management::{Management, ManagementConfig, ManagementLimits, RibLimits};
use plexus_ndn::names::NameHasher;
use plexus_ndn_faces::{Bounds, ETHERNET_GROUP, ETHERTYPE, EthernetEnds, Faces, Group, Listen};
use plexus_plane::carriers::Bell;
use plexus_wire::Time;
use plexus_wire::ndn::PACKET_LEN_MAX;
use plexus_wire::ndn::face_uri::FaceUri;
use rustix::io::Errno;

use super::crew::Crew;
use super::descriptors::make_room;
use super::numa::Nodes;
use super::ordered::Ordered;
use super::plane::Plane;
use super::replicas::Replicas;
use super::routing::Routing;
use super::share::{Plot, Share, pin_to_processor};
use super::thread::Thread;
use super::trust::trust;
use super::{Ask, random};
use crate::node::inner::FaceEnd;

/// Where NDN's multicast faces are (NFD's `nfd.conf`).
const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(224, 0, 23, 170), GROUP_PORT);
const GROUP_V6: SocketAddrV6 =
    SocketAddrV6::new(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x1234), GROUP_PORT, 0, 0);
const GROUP_PORT: u16 = 56363;

/// Opens everything. The calling thread must be the one that runs the result, because memory
/// belongs to the NUMA node of the thread that touches it first.
///
/// # Errors
/// In words for the person who started it.
pub(super) fn prepare(
    settings: &NamedSettings,
    inner: Vec<FaceEnd>,
    started: Instant,
    asks: Receiver<Ask>,
) -> Result<Thread, String> {
    pin_to_processor(settings, 0)?;
    let bounds = Bounds {
        faces: settings.faces_max,
        idle: settings.idle,
        udp_mtu: Some(settings.mtu.map_or(PACKET_LEN_MAX, usize::from)),
        ..Bounds::default()
    };
    let mut faces = Faces::new(bounds, random()?).map_err(|e| format!("event descriptor: {e}"))?;
    let mut channels = listen(&mut faces, settings)?;

    let hasher = NameHasher::new([random()?, random()?]);
    let fib = Replicas::new(settings, &Nodes::of_machine(), hasher)?;
    let mut plane = plane(settings, hasher, fib, &mut faces, started)?;
    let v4 = settings.multicast.iter().map(|local| Group::V4 { local: *local, group: GROUP });
    let v6 = settings.multicast6.iter().map(|device| Group::V6 { device, group: GROUP_V6 });
    for group in v4.chain(v6) {
        let mtu = settings.mtu.map(usize::from);
        let made = faces.create_group(Time::ZERO, &group, mtu, &mut plane);
        made.map_err(|e| format!("joining the group {e}"))?;
    }
    let groups = ethernets(&mut faces, &mut plane, settings, inner, &mut channels)?;
    faces.set_connections_max(make_room(settings.faces_max));
    let config = ManagementConfig {
        version: format!("plexus {}", env!("CARGO_PKG_VERSION")),
        start_unix_ms: unix_ms(),
        trust: trust(settings)?,
        limits: ManagementLimits {
            rib: RibLimits::of_prefixes(settings.prefixes_max),
            ..ManagementLimits::default()
        },
    };
    let management = Management::new(config);
    let ordered = Ordered::new(settings, groups);
    let thread = Thread { faces, plane, management, channels, ordered, asks, started };
    thread.begin(settings)
}

/// The workers, of which the first is the calling thread, with the tables that they share.
///
/// # Errors
/// In words.
pub(super) fn plane(
    settings: &NamedSettings,
    hasher: NameHasher,
    fib: Replicas,
    faces: &mut Faces,
    started: Instant,
) -> Result<Plane, String> {
    let routing = Routing::new(hasher, fib).map_err(|e| format!("strategies: {e}"))?;
    let shared = Arc::new(settings.clone());
    let plot = |index| Plot {
        index,
        workers: settings.workers,
        settings: shared.clone(),
        hasher,
        fib: routing.fib.reader(index),
        published: routing.published().clone(),
        started,
    };
    let (plots, bell) = ((1..settings.workers).map(plot).collect(), Bell::new(faces.waker()));
    let crew = Crew::start(plots, depths(settings)?, bell)?;
    let share = Share::open(plot(0))?;
    let management = faces.table_mut().reserve().ok_or("there is no number left for a face")?;
    Ok(Plane::new(share, crew, routing, management))
}

/// The dispatch table.
fn depths(settings: &NamedSettings) -> Result<Depths, String> {
    let mut depths = Depths::default();
    for NamedDispatch { prefix, components } in &settings.dispatch {
        let set = depths.set(prefix.as_name(), *components);
        set.map_err(|e| format!("[[named.dispatch]] of {prefix}: {e}"))?;
    }
    Ok(depths)
}

/// Listens at the file's addresses; gives their URIs.
fn listen(faces: &mut Faces, settings: &NamedSettings) -> Result<Vec<FaceUri>, String> {
    let mut channels = Vec::new();
    for path in &settings.unix {
        let failed = |e| format!("listening at {}: {e}", path.display());
        faces.listen(&Listen::Unix(path.clone())).map_err(failed)?;
        channels.push(FaceUri::Unix(path.to_string_lossy().into()));
    }
    type Kind = (fn(SocketAddr) -> Listen, fn(SocketAddr) -> FaceUri);
    let kinds: [(&[SocketAddr], Kind); 3] = [
        (&settings.tcp, (Listen::Tcp, FaceUri::Tcp)),
        (&settings.udp, (Listen::Udp, FaceUri::Udp)),
        (&settings.websocket, (Listen::WebSocket, FaceUri::WebSocket)),
    ];
    for (addresses, (kind, uri)) in kinds {
        for address in addresses {
            let listen = kind(*address);
            match faces.listen(&listen) {
                Ok(own) => channels.push(uri(own.unwrap_or(*address))),
                // The default list has both IP versions, and a box may lack one.
                Err(error) if is_without(&error) && address.ip().is_unspecified() => {
                    tracing::warn!(at = %uri(*address), %error, "not listened at");
                }
                Err(error) => return Err(format!("listening at {}: {error}", uri(*address))),
            }
        }
    }
    for at in &channels {
        tracing::info!(%at, "listening");
    }
    Ok(channels)
}

/// Opens the file's Ethernets; gives the faces of their groups by the file's names for them.
fn ethernets(
    faces: &mut Faces,
    plane: &mut Plane,
    settings: &NamedSettings,
    mut inner: Vec<FaceEnd>,
    channels: &mut Vec<FaceUri>,
) -> Result<Vec<(String, FaceId)>, String> {
    let mut groups = Vec::new();
    for NamedEthernet { name, device, backend, mtu } in &settings.ethernets {
        let mtu = mtu.map(usize::from);
        let ends = match inner.iter().position(|end| end.device() == device) {
            Some(at) => {
                tracing::info!(device, "its frames pass by the node's port");
                inner.swap_remove(at).ends(mtu)?
            }
            None => open_ethernet(name, device, *backend, mtu)?,
        };
        let made = faces.create_ethernet(Time::ZERO, ends, plane);
        groups.push((name.clone(), made.map_err(|e| format!("Ethernet {name}: {e}"))?));
        channels.push(FaceUri::Dev(device.clone()));
    }
    Ok(groups)
}

/// Opens a device that no port has.
fn open_ethernet(
    name: &str,
    device: &str,
    backend: Backend,
    mtu: Option<usize>,
) -> Result<EthernetEnds, String> {
    let failed = |e: OpenError| format!("Ethernet {name}: {e}");
    let spec = PortSpec {
        // The device is what its faces' URIs say.
        name: device.into(),
        device: device.into(),
        backend,
        only: Some(Only { ethertype: ETHERTYPE, group: ETHERNET_GROUP }),
        ..PortSpec::default()
    };
    let specs = std::slice::from_ref(&spec);
    let mut share = spec::open_all(specs, 0).map_err(|(_, e)| failed(e))?;
    let opened = share.ports.pop().ok_or_else(|| format!("Ethernet {name}: no port"))?;
    // A TAP device is there by now; its address is that of the kernel's end, not of this.
    let address = AddressOf::device(device).map_err(failed)?;
    let is_tap = opened.backend == Backend::Tap;
    let own = Box::new(move || {
        let mut own = address.now()?;
        own.0[5] ^= u8::from(is_tap);
        Some(own)
    });
    tracing::info!(device, backend = %opened.backend, "{}", opened.how);
    Ok(EthernetEnds { port: opened.port, pool: share.pool, own, mtu })
}

/// True if the box does not have an IP version.
fn is_without(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    number == Some(Errno::AFNOSUPPORT.raw_os_error())
        || number == Some(Errno::ADDRNOTAVAIL.raw_os_error())
}
