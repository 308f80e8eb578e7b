//! The router in memory: the same rounds, table and traffic as `bench/peers/dpdk_l3_mem.c`.
//!
//! All eight ports are routed. Headers are written anew each round. The table is the Internet's
//! (`crates/table/data`); each prefix leads to one of 64 neighbours, eight behind each port.
//! Packets from every port go to random ones of a list of destinations, which lie at random in
//! random prefixes. The peer reads table and destinations from a file that is made for it.

pub(super) mod group;
mod world;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use plexus_config::{PortSettings, ReversePath, SwitchSettings, VlanMode};
use plexus_io::PortId;
use plexus_plane::{
    FibReaders, GroupKind, GroupSpec, Hop, InterfacePlan, RouterSource, RouterTables, Snapshot,
};
use plexus_wire::{MacAddr, checksum};

use super::random::below;
use super::rig::{FRAME_LEN, FRAMES, PORTS, Rig};
use super::whole::{self, Extra};
use super::{Row, Setting, peer};
use world::Exchange;
pub(super) use world::World;

const PEER: &str = "dpdk_l3_mem";
/// Neighbour `n` is behind port `n mod 8`; group `n` leads to it.
const NEIGHBOURS: usize = 64;
/// VLAN of port 0's interface; the others follow.
const FIRST_VLAN: u16 = 101;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) family: Family,
    /// How many destinations the traffic has.
    pub(super) destinations: usize,
}

/// A load beside DPDK's router where that is built: on rte_fib, and over IPv4 on rte_lpm.
///
/// # Errors
/// See [`mpps`]; when there is no table, or when the peer fails.
pub(super) fn rows(name: &str, load: Load, setting: &Setting) -> Result<Vec<Row>, String> {
    let shrink = setting.effort.shrink;
    let load = Load { destinations: (load.destinations / shrink).max(64), ..load };
    let world = World::new(load, shrink)?;
    let program = setting.peers.program(PEER);
    let exchange = program.as_ref().map(|_| Exchange::new(&world)).transpose()?;
    let beside = |name: &str, table: &str, peer: &str, runs| {
        let named = program.is_some().then_some(peer);
        // Each turn has new tables, as the peer has, while the old ones are still there: which
        // pages they get makes a difference.
        let mut worlds = Vec::new();
        Row::measure(name, "Mpps", named, runs, || {
            let world = World::new(load, shrink)?;
            let theirs = program.as_deref().zip(exchange.as_ref()).map(|(program, file)| {
                let load = ["--table".as_ref(), table.as_ref(), file.path().as_os_str()];
                peer::dpdk(program, &load, setting)
            });
            let theirs = theirs.transpose()?;
            let ours = mpps(&world, Extra::Nothing, setting.effort.time)?;
            worlds.push(world);
            Ok((ours, theirs))
        })
    };
    let mut rows = vec![beside(name, "fib", PEER, setting.effort.runs)?];
    if load.family == Family::V4 && setting.effort.slow_peers {
        // It loads its table anew for each turn.
        let runs = setting.effort.runs.min(3);
        rows.push(beside(&format!("{name}-rte_lpm"), "lpm", "dpdk_l3_mem rte_lpm", runs)?);
    }
    Ok(rows)
}

/// Millions of packets per second in the median round of about `time`.
///
/// # Errors
/// When memory is short, or if the router lost a packet: a figure would mean nothing.
pub(super) fn mpps(world: &World, extra: Extra, time: Duration) -> Result<f64, String> {
    let mut rig = rig(world, extra)?;
    let mpps = rig.mpps(time, |rig| fill(rig, world), |_, _| ())?;
    let (sent, ports) = (rig.worker.account().sent, &rig.worker.pipeline().counters().ports);
    match ports.iter().map(|p| p.routed).sum::<u64>() {
        routed if routed == sent => Ok(mpps),
        routed => Err(format!("{routed} of {sent} packets were routed")),
    }
}

/// The router's address on a port, and that of a neighbour.
fn own(port: usize) -> MacAddr {
    MacAddr([0x02, 0, 0, 0, 1, port as u8])
}

fn neighbour(n: usize) -> MacAddr {
    MacAddr([0x02, 0, 0, 0, 2, n as u8])
}

/// Interfaces, neighbours and groups.
fn tables() -> RouterTables {
    let mut tables = RouterTables::new();
    for port in 0..PORTS {
        let interface = InterfacePlan {
            vlan: FIRST_VLAN + port as u16,
            mac: own(port),
            mtu: 1500,
            port: Some(port as PortId),
            kernel: None,
            reverse_path: ReversePath::Off,
        };
        tables.set_interface(interface.vlan, Some(interface));
    }
    for n in 0..NEIGHBOURS {
        let at = (FIRST_VLAN + (n % PORTS) as u16, neighbour(n));
        tables.set_neighbour(n as u16, Some(at));
        let members = vec![Hop { neighbour: n as u16, vlan: at.0 }];
        let group = GroupSpec { kind: GroupKind::Forward, members, vlan: 0 };
        tables.set_group(n as u16, Some(group));
    }
    tables
}

fn rig(world: &World, extra: Extra) -> Result<Rig, String> {
    let settings = (0..extra.ports(PORTS)).map(|i| {
        let vlan = VlanMode::Access(FIRST_VLAN + i as u16);
        let settings = PortSettings { vlan, learning: false, ..PortSettings::default() };
        (format!("p{i}"), 0, settings)
    });
    let plan = Snapshot::new(settings.collect(), &SwitchSettings::default());
    let mut plan = plan.map_err(|e| e.to_string())?.with_router(RouterSource {
        plan: (*tables().plan()).clone().publish(),
        fib: FibReaders::new(world.v4.reader(), world.v6.reader()),
    });
    if extra == Extra::Everything {
        plan = whole::with_fabric_and_names(plan, PORTS)?;
    }
    let mut rig = Rig::new(plan, 64, None)?;
    for packet in &mut rig.idle {
        rig.worker.pool().set_len(packet, FRAME_LEN);
        rig.worker.pool().data_mut(packet).fill(0);
    }
    Ok(rig)
}

fn fill(rig: &mut Rig, world: &World) {
    for port in 0..PORTS {
        for _ in 0..FRAMES {
            let random = rig.random.next() >> 32;
            let destination = world.destinations[below(random, world.destinations.len())];
            rig.send(port, |pool, packet| {
                write(pool.data_mut(packet), world.family, port, destination);
            });
        }
    }
}

/// The address that the host behind a port sends from.
fn own_source(family: Family, port: usize) -> IpAddr {
    match family {
        Family::V4 => source_v4(port).into(),
        Family::V6 => source_v6(port).into(),
    }
}

fn source_v4(port: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, port as u8, 1)
}

fn source_v6(port: usize) -> Ipv6Addr {
    Ipv6Addr::from(0x2001_0DB8 << 96 | (port as u128) << 64 | 1)
}

/// A UDP packet from the host behind a port to a destination, as it comes in.
fn write(frame: &mut [u8], family: Family, port: usize, destination: u128) {
    frame[..6].copy_from_slice(&own(port).0);
    frame[6..12].copy_from_slice(&neighbour(port).0);
    match family {
        Family::V4 => {
            frame[12..26].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
            frame[26..30].copy_from_slice(&source_v4(port).octets());
            frame[30..34].copy_from_slice(&(destination as u32).to_be_bytes());
            let sum = checksum::checksum(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        Family::V6 => {
            frame[12..22].copy_from_slice(&[0x86, 0xDD, 0x60, 0, 0, 0, 0, 6, 17, 64]);
            frame[22..38].copy_from_slice(&source_v6(port).octets());
            frame[38..54].copy_from_slice(&destination.to_be_bytes());
        }
    }
}
