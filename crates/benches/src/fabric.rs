//! A fabric node in memory, in the same rounds as the switch's bench and beside it: the peer is
//! our own switch, since what counts is what source routing saves and costs.
//!
//! In `fabric-hop` all ports are fabric links and every frame comes with a
//! header of four hops, the next of which is random; in `fabric-host` all ports have a host, and
//! every frame has a random one of many destinations, each with its route out by a fabric port.
//! Frames are written anew each round, since the node rewrites them.

use std::time::Duration;

use plexus_config::{PortSettings, SwitchSettings};
use plexus_io::PortId;
use plexus_plane::{Encapsulation, FabricPlan, FabricTables, PortRole, Snapshot, route_along};
use plexus_table::RouteKey;
use plexus_wire::MacAddr;
use plexus_wire::fabric::{Kind, Repr};

use super::random::below;
use super::rig::{FRAME_LEN, FRAMES, PORTS, Rig};
use super::switch::{self, station_mac};
use super::{Row, Setting};

/// In `fabric-host` ports below are hosts', the others fabric links.
const HOST_PORTS: usize = 4;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// Fabric port to fabric port.
    Hop,
    /// Host port to fabric port.
    Host {
        /// Destinations in each host port's route memory.
        routes: usize,
        /// How many of them the traffic names.
        named: usize,
    },
}

/// The one row of a load, beside our switch under the like load.
///
/// # Errors
/// When memory is short, or if a packet was lost.
pub(super) fn rows(name: &str, load: Load, setting: &Setting) -> Result<Vec<Row>, String> {
    let shrunk = |n: usize| (n / setting.effort.shrink).max(64);
    let (load, named, peer) = match load {
        Load::Hop => (load, shrunk(64), "switch-64k-few"),
        Load::Host { routes, named } => {
            let peer = if named < routes { "switch-64k-few" } else { "switch-64k-spread" };
            let (routes, named) = (shrunk(routes), shrunk(named));
            (Load::Host { routes, named }, named, peer)
        }
    };
    let like = switch::Load::new(shrunk(1 << 16), named);
    let time = setting.effort.time;
    let row = Row::measure(name, "Mpps", Some(peer), setting.effort.runs, || {
        Ok((mpps(load, time)?, Some(switch::mpps(like, time)?)))
    })?;
    Ok(vec![row])
}

/// Millions of packets per second in the median round of about `time`.
pub(super) fn mpps(load: Load, time: Duration) -> Result<f64, String> {
    // Frames get their headroom back.
    let header = if let Load::Hop = load { 0 } else { HEADER_LEN };
    let fill = |rig: &mut Rig| fill(rig, load);
    rig(load)?.mpps(time, fill, |pool, packet| _ = pool.pull_front(packet, header))
}

fn rig(load: Load) -> Result<Rig, String> {
    let settings = (0..PORTS).map(|i| (format!("p{i}"), 0, PortSettings::default()));
    let switch = SwitchSettings { mac_table: 1, ..SwitchSettings::default() };
    let plan = Snapshot::new(settings.collect(), &switch).map_err(|e| e.to_string())?;
    let tables = tables(load).ok_or("the routes do not fit")?;
    let fabric = FabricPlan::clone(&tables.plan()).publish();
    Rig::new(plan.with_fabric(fabric, |_| true), 64, Some(1638))
}

fn fill(rig: &mut Rig, load: Load) {
    let inputs = if let Load::Hop = load { PORTS } else { HOST_PORTS };
    let hop = Repr::new(Kind::Ethernet, &[0, 1, 2, 3]).and_then(|r| r.to_bytes().ok());
    let hop = hop.filter(|_| matches!(load, Load::Hop)).unwrap_or_default();
    for port in 0..inputs {
        for _ in 0..FRAMES {
            let r = rig.random.next();
            rig.send(port, |pool, packet| {
                pool.set_len(packet, hop.len() + FRAME_LEN);
                let data = pool.data_mut(packet);
                data[..hop.len()].copy_from_slice(&hop);
                let inner = &mut data[hop.len()..];
                inner[6..12].copy_from_slice(&host(port).0);
                inner[12..18].copy_from_slice(&[0x08, 0x00, 0x45, 0x00, 0x00, 0x2E]);
                match load {
                    Load::Hop => data[6] = ((port + 1 + below(r >> 32, PORTS - 1)) % PORTS) as u8,
                    Load::Host { named, .. } => {
                        let destination = station_mac(below(r >> 32, named) as u64);
                        inner[..6].copy_from_slice(&destination.to_be_bytes()[2..]);
                    }
                }
            });
        }
    }
}

/// Bytes of the header of every route: three hops to go, one back.
const HEADER_LEN: usize = 10;

fn host(port: usize) -> MacAddr {
    MacAddr([0x06, 0, 0, 0, 0, port as u8])
}

fn tables(load: Load) -> Option<FabricTables> {
    let mut tables = FabricTables::new(PORTS, 0x5EED)?;
    for port in 0..PORTS {
        let id = port as PortId;
        let (Load::Host { routes, .. }, true) = (load, port < HOST_PORTS) else {
            tables.set_role(id, PortRole::Fabric(Encapsulation::Native));
            continue;
        };
        tables.set_role(id, PortRole::Host);
        tables.admit(id, host(port));
        for i in 0..routes {
            let out = HOST_PORTS + i % (PORTS - HOST_PORTS);
            let route = route_along(port as u8, &[out as u8, 1, 2, (i % 7) as u8])?;
            let destination = MacAddr::from_u64(station_mac(i as u64));
            tables.install(id, RouteKey { destination, source: None }, route.into());
        }
    }
    Some(tables)
}
