//! A box that routes: both planes of the router, joined as in the daemon, with steps that set
//! interfaces and routes as the script says. Three VLANs are interfaces; one of them may be a
//! routed port, another may have a kernel's device, whatever the ports' settings say by then.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use plexus_config::ReversePath;
use plexus_control::router::{Input, InterfaceFacts, InterfaceId, Limits, NextHop, Route, Source};
use plexus_node::router::{Place, Router as Joined};
use plexus_plane::{Injection, RouterSource};
use plexus_wire::{MacAddr, Prefix, Time};

use crate::rig::Rig;
use crate::samples::HOST_B;
use crate::script::Script;

const VLANS: [u16; 3] = [1, 2, 4094];
/// Rounds between the planes after which the router is taken never to come to rest. Each packet
/// may be put back as often as a neighbour is found.
const ROUNDS_MAX: usize = 1000;

pub(super) struct Router {
    joined: Joined,
    places: Vec<Place>,
}

impl Router {
    /// A router of which the script says which interfaces are special; all are up.
    pub(super) fn new(rig_now: Time, shape: u8) -> Router {
        let paths = [ReversePath::Off, ReversePath::Loose, ReversePath::Strict, ReversePath::Off];
        let places: Vec<Place> = VLANS
            .iter()
            .enumerate()
            .map(|(i, vlan)| Place {
                vlan: *vlan,
                port: (i == 1 && shape & 2 != 0).then_some(1),
                kernel: (i == 0 && shape & 4 != 0).then_some(0),
                reverse_path: paths[usize::from(shape >> 3 & 3)],
            })
            .collect();
        let limits = Limits {
            routes: 4,
            neighbours: [3, 64][usize::from(shape >> 5 & 1)],
            incomplete: 2,
            queue_bytes: 4096,
            ..Limits::default()
        };
        let joined = Joined::new(limits, places.clone(), [3; 32]).expect("memory");
        let mut router = Router { joined, places };
        (0..3).for_each(|i| router.set(rig_now, i, 0xFF));
        router.joined.carry_out(|| {});
        router
    }

    pub(super) fn source(&self) -> RouterSource {
        self.joined.source()
    }

    fn set(&mut self, now: Time, index: u16, how: u8) {
        let place = &self.places[usize::from(index)];
        let v4 = Ipv4Addr::new(192, 0, 2 + index as u8, 254).into();
        let v6 = Ipv6Addr::new(0x2001, 0xDB8, index, 0, 0, 0, 0, 1).into();
        let facts = InterfaceFacts {
            name: format!("if{index}"),
            mac: if how & 1 != 0 { HOST_B } else { MacAddr([2, 9, 0, 0, 0, how]) },
            mtu: [68, 1280, 1500, 9000][usize::from(how >> 1 & 3)],
            addresses: vec![(v4, [24, 31, 8, 24][usize::from(how >> 3 & 3)]), (v6, 64)],
            kernel: place.kernel.is_some(),
            is_told: false,
        };
        self.joined.set_interface(now, InterfaceId(index), (how != 0).then_some(facts));
    }

    pub(super) fn step(&mut self, rig: &Rig, step: u8, script: &mut Script<'_>) {
        let now = rig.now;
        match step & 3 {
            0 => self.set(now, u16::from(step >> 2 & 3).min(2), script.u8()),
            1 => {
                let (which, how) = (script.u8(), script.u8());
                let (prefix, len): (IpAddr, u8) = match which & 7 {
                    0 => (Ipv4Addr::new(192, 0, 2, 2).into(), 32),
                    1 => (Ipv4Addr::new(192, 0, 2, 0).into(), 25),
                    2 | 3 => (Ipv4Addr::UNSPECIFIED.into(), 0),
                    4 => (Ipv6Addr::new(0x2001, 0xDB8, 7, 0, 0, 0, 0, 0).into(), 48),
                    _ => (Ipv6Addr::UNSPECIFIED.into(), 0),
                };
                let prefix = Prefix::new(prefix, len).expect("it is one");
                let hop = |n: u8| NextHop {
                    interface: InterfaceId(u16::from(n & 3)),
                    gateway: (n & 0x40 == 0).then(|| match n & 4 {
                        0 => Ipv4Addr::new(192, 0, 2 + (n & 3), 1 + (n >> 3 & 1)).into(),
                        _ => Ipv6Addr::new(0x2001, 0xDB8, (n & 3).into(), 0, 0, 0, 0, 2).into(),
                    }),
                    on_link: n & 0x10 != 0,
                    weight: n >> 5,
                };
                let route = match how & 7 {
                    0 => None,
                    1 => Some(Route::Blackhole),
                    2 => Some(Route::Unreachable),
                    3 => Some(Route::Local),
                    count => Some(Route::Via((4..=count).map(|_| hop(script.u8())).collect())),
                };
                let (source, metric) = (Source::Static, u32::from(how >> 6));
                self.joined.handle(now, Input::Route { source, prefix, metric, route });
            }
            2 => {
                let input = if step & 4 == 0 { Input::Begin } else { Input::End };
                self.joined.handle(now, input(Source::Static));
            }
            _ => {}
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Time) {
        if self.joined.next_deadline() <= now {
            self.joined.handle(now, Input::Tick);
        }
    }

    /// Lets both planes work until neither has anything for the other.
    pub(super) fn settle(&mut self, rig: &mut Rig) {
        let now = rig.now;
        for _ in 0..ROUNDS_MAX {
            let mut punted = Vec::new();
            for worker in &mut rig.workers {
                worker.take_control(|punt, _, vlan, bytes| {
                    punted.push((punt, vlan, bytes.to_vec()));
                });
            }
            let none = punted.is_empty();
            for (punt, vlan, bytes) in punted {
                self.joined.frame(now, punt, vlan, bytes);
            }
            let rest = self.joined.carry_out(|| panic!("no worker is at a batch"));
            if none && rest.frames.is_empty() {
                return;
            }
            for (how, frame) in rest.frames {
                let how = self.by_port(how);
                // Refused for a reason, which the account knows.
                let _ = rig.workers[0].inject(now, &frame, how);
            }
            rig.settle();
        }
        panic!("the router never comes to rest");
    }

    /// As the daemon has it: a routed port's frames leave by it.
    fn by_port(&self, how: Injection) -> Injection {
        let Injection::Vlan(vlan) = how else { return how };
        let place = self.places.iter().find(|place| place.vlan == vlan);
        place.and_then(|place| place.port).map_or(how, Injection::Port)
    }
}
