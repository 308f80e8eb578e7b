//! The control plane of a fabric node, as the data plane sees it: steps that give ports their
//! roles, admit stations, install routes and trees, and send packets, all as the script says.

use std::hint::black_box;

use plexus_config::LaneChoice;
use plexus_plane::{
    ControlLimits, Encapsulation, FabricPlan, FabricTables, Injection, PortRole, PublishedFabric,
    Punt,
};
use plexus_wire::MacAddr;
use plexus_wire::fabric::message::RouteEntry;
use plexus_wire::fabric::{self, Kind};

use crate::rig::Rig;
use crate::samples::{GROUP_MAC, HOST_A, HOST_B};
use crate::script::Script;

/// Trees that there may be.
const TREES: u8 = 4;

pub(super) struct Fabric {
    tables: FabricTables,
    published: PublishedFabric,
}

impl Fabric {
    /// A node of which the script says what its ports are; hosts A and B are admitted at the
    /// ports of hosts, and have routes by every port and along every tree.
    pub(super) fn new(ports: usize, script: &mut Script<'_>) -> Fabric {
        let tables = FabricTables::new(ports, 7).expect("the box is small");
        let published = FabricPlan::default().publish();
        let mut fabric = Fabric { tables, published };
        let limits = script.u8();
        fabric.tables.set_limits(ControlLimits {
            host_pps: [1_000_000, 1, 10, 1_000_000][usize::from(limits & 3)],
            bootstrap_pps: 1 + u32::from(limits),
            error_pps: [1_000_000, 1][usize::from(limits >> 2 & 1)],
            waiting: [512, 3, 1, 0][usize::from(limits >> 3 & 3)],
            ..ControlLimits::default()
        });
        fabric.tables.set_lanes(match limits >> 5 & 3 {
            0 => LaneChoice::PerFlow,
            1 => LaneChoice::Static,
            _ => LaneChoice::LeastLoaded,
        });
        let whole = (0..ports as u8).collect();
        fabric.tables.set_tree(1, Some(whole));
        for port in 0..ports as u8 {
            fabric.tables.set_role(port.into(), role(port, script.u8()));
            for station in [HOST_A, HOST_B] {
                fabric.tables.admit(port.into(), station);
                fabric.tables.set_group(port, station, GROUP_MAC, Some((1, 3)));
                let routes = (0..ports as u8).map(|next| vec![next, 1, 0]).collect();
                fabric.route(port, None, station, routes);
            }
        }
        fabric.published.store(fabric.tables.plan());
        fabric
    }

    pub(super) fn published(&self) -> PublishedFabric {
        self.published.clone()
    }

    fn route(
        &mut self,
        port: u8,
        source: Option<MacAddr>,
        destination: MacAddr,
        routes: Vec<Vec<u8>>,
    ) {
        let entry = RouteEntry { port, source, destination, version: 0, routes };
        self.tables.install_entry(&entry);
    }

    pub(super) fn step(&mut self, rig: &mut Rig, step: u8, port: u8, script: &mut Script<'_>) {
        let station = |which: u8| [HOST_A, HOST_B, GROUP_MAC, MacAddr([2; 6])][which as usize & 3];
        match step & 7 {
            0 => {
                let how =
                    if step & 8 == 0 { Injection::Fabric } else { Injection::Port(port.into()) };
                let worker = usize::from(step >> 4 & 1) % rig.workers.len();
                let now = rig.now;
                // Refused for a reason, which the account knows.
                let _ = rig.workers[worker].inject(now, script.short(), how);
                return;
            }
            1 => drop(self.tables.set_role(port.into(), role(port, script.u8()))),
            2 => {
                let who = script.u8();
                let source = (who & 0x10 != 0).then(|| station(who >> 2));
                let count = usize::from(who >> 5);
                let routes = (0..count).map(|_| script.short().to_vec()).collect();
                self.route(port, source, station(who), routes);
            }
            3 => {
                let set = script.u8();
                let ports = (0..8).filter(|bit| set >> bit & 1 == 1).collect();
                self.tables.set_tree((step >> 3 & (TREES - 1)).into(), (set != 0).then_some(ports));
            }
            4 => {
                let (who, credits) = (script.u8(), script.u8());
                let tree = (who & 0x80 == 0).then_some(((who >> 4 & 3).into(), credits));
                self.tables.set_group(port, station(who), station(who >> 2), tree);
            }
            5 => drop(self.tables.admit(port.into(), station(script.u8()))),
            6 => drop(self.tables.expel(port.into(), station(script.u8()))),
            // With what comes next: the plan changes between packets of a batch or not at all.
            _ => return,
        }
        self.published.store(self.tables.plan());
    }

    /// Takes what waits for the control plane: each is what its reason says.
    pub(super) fn take_control(&mut self, rig: &mut Rig) {
        let ports = rig.cables.len();
        for worker in &mut rig.workers {
            worker.take_control(|punt, port, _, bytes| {
                assert!(usize::from(port) < ports || port == 0xFF, "{punt:?} of port {port}");
                match punt {
                    Punt::Host | Punt::Bootstrap => assert!(bytes.len() >= 14, "{punt:?}"),
                    Punt::Control => {
                        // The way back has at least the port that it came in by.
                        let frame = fabric::Frame::new_checked(bytes).expect("it was processed");
                        assert!(!frame.reverse().is_empty(), "{bytes:02x?}");
                    }
                    Punt::Error(reason) => {
                        // Of a malformed header there is what was sent.
                        if let Ok(frame) = fabric::Frame::new_checked(bytes) {
                            assert_eq!(frame.kind(), Kind::Error, "{reason:?}");
                        }
                    }
                    Punt::Neighbour
                    | Punt::Local
                    | Punt::Unresolved(_)
                    | Punt::TooBig(_)
                    | Punt::Named => {
                        panic!("{punt:?} on a node of a fabric")
                    }
                }
                black_box(bytes);
            });
        }
    }
}

fn role(port: u8, byte: u8) -> PortRole {
    let mac = |end: u8| MacAddr([2, 0xFA, 0, 0, end, port]);
    let link = match byte & 8 {
        0 => Encapsulation::Native,
        _ => Encapsulation::ethertype(mac(1), mac(2)),
    };
    match byte & 3 {
        0 => PortRole::Host,
        1 | 2 => PortRole::Fabric(link),
        _ if byte & 4 == 0 => PortRole::Controller(link),
        _ => PortRole::Unknown,
    }
}
