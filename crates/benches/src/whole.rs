//! A box that does everything at once, beside the box that does one thing: what switched and routed
//! packets pay for forwarders that they do not need.
//!
//! The box of the switch's or the router's bench carries a fabric on two further ports, and its
//! other ports take named data. The switch also routes: its VLAN is an interface with an address
//! that no packet of the bench has. The traffic is the same.

use plexus_config::ReversePath;
use plexus_io::PortId;
use plexus_plane::{
    Encapsulation, FabricPlan, FabricTables, FibReaders, InterfacePlan, PortRole, RouterSource,
    RouterTables, Snapshot,
};
use plexus_table::lpm::{Fib4, Fib6, Limits};
use plexus_wire::MacAddr;

use super::{Row, Setting, route, switch};

/// Ports of the fabric. They follow the others.
const FABRIC_PORTS: usize = 2;
/// The box's address.
const OWN: MacAddr = MacAddr([0x02, 0, 0, 0, 3, 0]);
/// The VLAN of ports without settings.
const VLAN: u16 = 1;

/// Parts of a box that its traffic does not need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Extra {
    Nothing,
    /// The ports that are the fabric's in a box that does everything: here they are only polled.
    Ports,
    Everything,
}

impl Extra {
    /// How many ports a box has whose traffic comes in by so many.
    pub(super) fn ports(self, busy: usize) -> usize {
        if self == Extra::Nothing { busy } else { busy + FABRIC_PORTS }
    }
}

/// A row for the switch and one for the router; each peer is the box of as many ports that does
/// that alone.
///
/// # Errors
/// See [`switch::mpps`] and [`route::mpps`].
pub(super) fn rows(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let (effort, shrink) = (&setting.effort, setting.effort.shrink);
    let count = (65_536 / shrink).max(64);
    let switch = |extra| switch::Load { extra, ..switch::Load::new(count, count) };
    let switched = Row::measure(
        &format!("{name}-switch"),
        "Mpps",
        Some("switch-64k-spread"),
        effort.runs,
        || {
            Ok((
                switch::mpps(switch(Extra::Everything), effort.time)?,
                Some(switch::mpps(switch(Extra::Ports), effort.time)?),
            ))
        },
    )?;
    let load = route::Load { family: route::Family::V4, destinations: count };
    let world = route::World::new(load, shrink)?;
    let routed = Row::measure(
        &format!("{name}-route"),
        "Mpps",
        Some("route-v4-spread"),
        effort.runs,
        || {
            Ok((
                route::mpps(&world, Extra::Everything, effort.time)?,
                Some(route::mpps(&world, Extra::Ports, effort.time)?),
            ))
        },
    )?;
    Ok(vec![switched, routed])
}

/// The box with a fabric on the ports from `ports` on, and names at the others.
pub(super) fn with_fabric_and_names(mut plan: Snapshot, ports: usize) -> Result<Snapshot, String> {
    let all = ports + FABRIC_PORTS;
    let mut tables = FabricTables::new(all, 0x5EED).ok_or("the fabric does not fit")?;
    for port in ports..all {
        tables.set_role(port as PortId, PortRole::Fabric(Encapsulation::Native));
    }
    let fabric = FabricPlan::clone(&tables.plan()).publish();
    plan = plan.with_fabric(fabric, |port| usize::from(port) >= ports);
    for port in 0..ports {
        plan = plan.with_named(port as PortId, OWN);
    }
    Ok(plan)
}

/// A router with an interface in the switch's VLAN and no routes.
///
/// # Errors
/// When memory is short.
pub(super) fn idle_router() -> Result<(RouterSource, Fib4, Fib6), String> {
    let mut tables = RouterTables::new();
    let interface = InterfacePlan {
        vlan: VLAN,
        mac: OWN,
        mtu: 1500,
        port: None,
        kernel: None,
        reverse_path: ReversePath::Off,
    };
    tables.set_interface(VLAN, Some(interface));
    let v4 = Fib4::build(Limits::default(), Vec::new()).map_err(|e| e.to_string())?;
    let v6 = Fib6::build(Limits::default(), Vec::new()).map_err(|e| e.to_string())?;
    let fib = FibReaders::new(v4.reader(), v6.reader());
    let plan = (*tables.plan()).clone().publish();
    Ok((RouterSource { plan, fib }, v4, v6))
}
