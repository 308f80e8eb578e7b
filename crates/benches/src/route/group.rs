//! The group's router on a node of a fabric with eight host ports and eight links.
//!
//! **Ingress**: hosts send to the group's address. Table and traffic are those of the router's
//! bench, which is the peer. Each packet is routed, its source address is one of its host's, and it
//! gets the header of its host's route to the neighbour. **Egress**: routed packets come by the
//! links, and leave by the host ports from the group's address. The peer is the fabric's hop.

use std::net::IpAddr;
use std::time::Duration;

use plexus_config::{PortSettings, ReversePath, SwitchSettings};
use plexus_io::{Packet, Pool, PortId};
use plexus_plane::{
    Encapsulation, FabricPlan, FabricTables, FibReaders, GROUP_VLAN, GroupKind, GroupSpec, Hop,
    InterfacePlan, PortRole, RouterSource, RouterTables, Snapshot, SnapshotError, route_along,
};
use plexus_table::RouteKey;
use plexus_table::lpm::GroupId;
use plexus_wire::MacAddr;
use plexus_wire::fabric::{Kind, Repr, set_routed};

use super::super::random::below;
use super::super::rig::{FRAME_LEN, FRAMES, PORTS, Rig};
use super::super::whole::Extra;
use super::super::{Row, Setting, fabric};
use super::{Load, NEIGHBOURS, World, neighbour, own_source, write};

/// Ports below are hosts', as many others are fabric links.
const HOST_PORTS: usize = PORTS;
/// The group's address.
const GROUP: MacAddr = MacAddr([0x02, 0, 0, 0, 9, 9]);
/// Bytes of the header of every route: three hops to go, one back.
const HEADER_LEN: usize = 10;

/// A load beside the router of one box.
///
/// # Errors
/// See [`super::mpps`].
pub(in super::super) fn rows(
    name: &str,
    load: Load,
    setting: &Setting,
) -> Result<Vec<Row>, String> {
    let (effort, shrink) = (&setting.effort, setting.effort.shrink);
    let load = Load { destinations: (load.destinations / shrink).max(64), ..load };
    let world = world(load, shrink)?;
    let peer = Some("the router of one box");
    let row = Row::measure(name, "Mpps", peer, effort.runs, || {
        Ok((mpps(&world, effort.time)?, Some(super::mpps(&world, Extra::Nothing, effort.time)?)))
    })?;
    Ok(vec![row])
}

/// The router's table with the hosts' own addresses, by which sources are checked.
fn world(load: Load, shrink: usize) -> Result<World, String> {
    let mut world = World::new(load, shrink)?;
    for port in 0..HOST_PORTS {
        let group = GroupId::new(port as u16).ok_or("there are too many groups")?;
        let added = match own_source(load.family, port) {
            IpAddr::V4(address) => world.v4.insert(address.into(), 32, group).map(|_| ()),
            IpAddr::V6(address) => world.v6.insert(address.into(), 128, group).map(|_| ()),
        };
        added.map_err(|e| e.to_string())?;
    }
    Ok(world)
}

/// The last node's part, beside a node in between.
///
/// # Errors
/// When memory is short, or if a packet was lost.
pub(in super::super) fn egress(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let effort = &setting.effort;
    let row = Row::measure(name, "Mpps", Some("fabric-hop"), effort.runs, || {
        let theirs = fabric::mpps(fabric::Load::Hop, effort.time)?;
        Ok((egress_mpps(effort.time)?, Some(theirs)))
    })?;
    Ok(vec![row])
}

fn egress_mpps(time: Duration) -> Result<f64, String> {
    let plan = plan().map_err(|e| e.to_string())?;
    let fabric = FabricPlan::clone(&tables().ok_or("the routes do not fit")?.plan()).publish();
    let mut rig = Rig::new(plan.with_fabric(fabric, |_| true), 64, Some(1638))?;
    let header = |to: usize| {
        let mut repr = Repr::new(Kind::Ethernet, &[to as u8])?;
        repr.reverse.extend([1, 2, 3]);
        let mut bytes = repr.to_bytes().ok()?;
        set_routed(&mut bytes);
        Some(bytes)
    };
    let headers: Vec<_> = (0..HOST_PORTS).filter_map(header).collect();
    let restore = |pool: &mut Pool, packet: &mut Packet| _ = pool.push_front(packet, HEADER_LEN);
    let fill = |rig: &mut Rig| {
        for port in 0..HOST_PORTS {
            for _ in 0..FRAMES {
                let to = below(rig.random.next() >> 32, HOST_PORTS);
                rig.send(HOST_PORTS + port, |pool, packet| {
                    pool.set_len(packet, HEADER_LEN + FRAME_LEN);
                    let data = pool.data_mut(packet);
                    data[..HEADER_LEN].copy_from_slice(&headers[to]);
                    data[HEADER_LEN..][..6].copy_from_slice(&neighbour(to).0);
                    data[HEADER_LEN + 6..][..6].copy_from_slice(&neighbour(40).0);
                    data[HEADER_LEN + 12..][..4].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
                });
            }
        }
    };
    rig.mpps(time, fill, restore)
}

/// Millions of packets per second in the median round of about `time`.
fn mpps(world: &World, time: Duration) -> Result<f64, String> {
    let mut rig = rig(world)?;
    let mpps = rig.mpps(
        time,
        |rig| fill(rig, world),
        |pool, packet| _ = pool.pull_front(packet, HEADER_LEN),
    )?;
    let (sent, ports) = (rig.worker.account().sent, &rig.worker.pipeline().counters().ports);
    match ports.iter().map(|p| p.routed).sum::<u64>() {
        routed if routed == sent => Ok(mpps),
        routed => Err(format!("{routed} of {sent} packets were routed")),
    }
}

fn rig(world: &World) -> Result<Rig, String> {
    let plan = plan().map_err(|e| e.to_string())?;
    let fabric = FabricPlan::clone(&tables().ok_or("the routes do not fit")?.plan()).publish();
    let plan = plan.with_fabric(fabric, |_| true).with_router(RouterSource {
        plan: (*router().plan()).clone().publish(),
        fib: FibReaders::new(world.v4.reader(), world.v6.reader()),
    });
    Rig::new(plan, 64, Some(1638))
}

fn plan() -> Result<Snapshot, SnapshotError> {
    let settings = (0..2 * HOST_PORTS).map(|i| (format!("p{i}"), 0, PortSettings::default()));
    let switch = SwitchSettings { mac_table: 1, ..SwitchSettings::default() };
    Snapshot::new(settings.collect(), &switch)
}

/// Ports, and each host's routes to all neighbours.
fn tables() -> Option<FabricTables> {
    let mut tables = FabricTables::new(2 * HOST_PORTS, 0x5EED)?;
    tables.set_gateway(Some(GROUP), true);
    for port in 0..2 * HOST_PORTS {
        let id = port as PortId;
        if port >= HOST_PORTS {
            tables.set_role(id, PortRole::Fabric(Encapsulation::Native));
            continue;
        }
        tables.set_role(id, PortRole::Host);
        tables.admit(id, neighbour(port));
        for n in 0..NEIGHBOURS {
            let out = HOST_PORTS + n % HOST_PORTS;
            let route = route_along(port as u8, &[out as u8, 1, 2, (n % 7) as u8])?;
            let key = RouteKey { destination: neighbour(n), source: Some(neighbour(port)) };
            tables.install(id, key, route.into());
        }
    }
    Some(tables)
}

/// The interface of the group, and as many neighbours and groups as the router of one box has.
fn router() -> RouterTables {
    let mut tables = RouterTables::new();
    let interface = InterfacePlan {
        vlan: GROUP_VLAN,
        mac: GROUP,
        mtu: u16::MAX,
        port: None,
        kernel: None,
        reverse_path: ReversePath::Strict,
    };
    tables.set_interface(GROUP_VLAN, Some(interface));
    for n in 0..NEIGHBOURS {
        tables.set_neighbour(n as u16, Some((GROUP_VLAN, neighbour(n))));
        let members = vec![Hop { neighbour: n as u16, vlan: GROUP_VLAN }];
        let group = GroupSpec { kind: GroupKind::Forward, members, vlan: GROUP_VLAN };
        tables.set_group(n as u16, Some(group));
    }
    tables
}

fn fill(rig: &mut Rig, world: &World) {
    for port in 0..HOST_PORTS {
        for _ in 0..FRAMES {
            let random = rig.random.next() >> 32;
            let destination = world.destinations[below(random, world.destinations.len())];
            rig.send(port, |pool, packet| {
                pool.set_len(packet, FRAME_LEN);
                let frame = pool.data_mut(packet);
                write(frame, world.family, port, destination);
                frame[..6].copy_from_slice(&GROUP.0);
            });
        }
    }
}
