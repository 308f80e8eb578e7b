//! Ingress of the group's router: a node of a fabric whose hosts send to the group's address. Table
//! and traffic are those of the router's bench, which is the peer. Each packet is routed, and gets
//! the header of its host's route to the neighbour. Half of the ports have hosts, the others are
//! fabric links.

use std::time::Duration;

use plexus_config::{PortSettings, ReversePath, SwitchSettings};
use plexus_io::PortId;
use plexus_plane::{
    Encapsulation, FabricPlan, FabricTables, FibReaders, GROUP_VLAN, GroupKind, GroupSpec, Hop,
    InterfacePlan, PortRole, RouterSource, RouterTables, Snapshot, route_along,
};
use plexus_table::RouteKey;
use plexus_wire::MacAddr;

use super::super::random::below;
use super::super::rig::{FRAME_LEN, FRAMES, PORTS, Rig};
use super::super::{Row, Setting};
use super::{Load, NEIGHBOURS, World, neighbour, write};

/// Ports below are hosts', the others fabric links.
const HOST_PORTS: usize = 4;
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
    let world = World::new(load, shrink)?;
    let peer = Some("the router of one box");
    let row = Row::measure(name, "Mpps", peer, effort.runs, || {
        Ok((mpps(&world, effort.time)?, Some(super::mpps(&world, false, effort.time)?)))
    })?;
    Ok(vec![row])
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
    let settings = (0..PORTS).map(|i| (format!("p{i}"), 0, PortSettings::default()));
    let switch = SwitchSettings { mac_table: 1, ..SwitchSettings::default() };
    let plan = Snapshot::new(settings.collect(), &switch).map_err(|e| e.to_string())?;
    let fabric = fabric().ok_or("the routes do not fit")?;
    let fabric = FabricPlan::clone(&fabric.plan()).publish();
    let plan = plan.with_fabric(fabric, |_| true).with_router(RouterSource {
        plan: (*router().plan()).clone().publish(),
        fib: FibReaders::new(world.v4.reader(), world.v6.reader()),
    });
    Rig::new(plan, 64, Some(1638))
}

/// Ports, and each host's routes to all neighbours.
fn fabric() -> Option<FabricTables> {
    let mut tables = FabricTables::new(PORTS, 0x5EED)?;
    tables.set_gateway(Some(GROUP), true);
    for port in 0..PORTS {
        let id = port as PortId;
        if port >= HOST_PORTS {
            tables.set_role(id, PortRole::Fabric(Encapsulation::Native));
            continue;
        }
        tables.set_role(id, PortRole::Host);
        tables.admit(id, neighbour(port));
        for n in 0..NEIGHBOURS {
            let out = HOST_PORTS + n % (PORTS - HOST_PORTS);
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
        reverse_path: ReversePath::Off,
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

#[cfg(test)]
mod tests {
    use super::super::Family;
    use super::*;

    #[test]
    fn the_bench_routes_both_families_into_the_fabric_and_loses_nothing() {
        for family in [Family::V4, Family::V6] {
            let world = World::new(Load { family, destinations: 100 }, 256).unwrap();
            assert!(mpps(&world, Duration::ZERO).unwrap() > 0.0);
        }
    }
}
