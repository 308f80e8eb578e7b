//! Routers as the daemon joins them, in memory, with hosts and cables between.

pub(crate) mod host;
pub(crate) mod packet;

use std::net::IpAddr;
use std::time::Duration;

use plexus_config::ReversePath;
use plexus_control::router::{Input, InterfaceFacts, InterfaceId, Limits, NextHop, Route, Source};
use plexus_node::router::{Place, Router};
use plexus_plane::Injection;
use plexus_wire::{Prefix, Time};

use crate::common::{Plan, Rig, access, mac};
use host::Host;
use packet::ip;

/// An interface of a router: on one port, or on several that are bridged.
pub(crate) struct Interface {
    pub(crate) ports: Vec<usize>,
    pub(crate) facts: InterfaceFacts,
}

/// Interface `n` of a machine, with addresses like `10.0.0.1/24`.
pub(crate) fn interface(machine: u64, n: u64, ports: &[usize], addresses: &[&str]) -> Interface {
    let addresses = addresses.iter().map(|text| {
        let (address, len) = text.split_once('/').expect("an address and a length");
        (ip(address), len.parse().expect("a number"))
    });
    let facts = InterfaceFacts {
        name: format!("if{n}"),
        mac: mac(0xFF_0000 + machine * 0x100 + n),
        mtu: 1500,
        addresses: addresses.collect(),
        kernel: false,
        is_told: false,
    };
    Interface { ports: ports.to_vec(), facts }
}

/// A router with its data plane.
pub(crate) struct Machine {
    pub(crate) rig: Rig,
    pub(crate) router: Router,
    pub(crate) interfaces: Vec<Interface>,
}

/// The VLAN of an interface.
fn vlan(interface: usize) -> u16 {
    100 + interface as u16
}

impl Machine {
    pub(crate) fn new(limits: Limits, interfaces: Vec<Interface>) -> Machine {
        let ports = interfaces.iter().flat_map(|i| &i.ports).max().expect("a port") + 1;
        let mut plan = Plan::new(ports);
        let mut places = Vec::new();
        for (n, interface) in interfaces.iter().enumerate() {
            let only = (interface.ports.len() == 1).then(|| interface.ports[0]);
            for port in &interface.ports {
                plan.ports[*port] = access(vlan(n));
                plan.ports[*port].learning = only.is_none();
            }
            let port = only.map(|p| p as u16);
            let (vlan, reverse_path) = (vlan(n), ReversePath::Off);
            places.push(Place { vlan, port, kernel: None, reverse_path });
        }
        let router = Router::new(limits, places, [7; 32]).expect("memory for a small table");
        plan.router = Some(router.source());
        let mut machine = Machine { rig: plan.build(), router, interfaces };
        (0..machine.interfaces.len()).for_each(|n| machine.up(n));
        machine
    }

    /// Says that an interface is up, with its facts as they are now.
    pub(crate) fn up(&mut self, n: usize) {
        let facts = self.interfaces[n].facts.clone();
        self.router.set_interface(self.rig.now, InterfaceId(n as u16), Some(facts));
    }

    pub(crate) fn down(&mut self, n: usize) {
        self.router.set_interface(self.rig.now, InterfaceId(n as u16), None);
    }

    /// A static route by gateways, `None` to withdraw it.
    pub(crate) fn route(&mut self, prefix: &str, gateways: Option<&[(usize, &str)]>) {
        let hop = |&(interface, gateway): &(usize, &str)| NextHop {
            interface: InterfaceId(interface as u16),
            gateway: Some(ip(gateway)),
            on_link: false,
            weight: 1,
        };
        let route = gateways.map(|all| Route::Via(all.iter().map(hop).collect()));
        self.set(prefix, route);
    }

    pub(crate) fn set(&mut self, prefix: &str, route: Option<Route>) {
        let (address, len) = prefix.split_once('/').expect("an address and a length");
        let prefix = Prefix::new(ip(address), len.parse().expect("a number")).expect("a prefix");
        let input = Input::Route { source: Source::Static, prefix, metric: 0, route };
        self.router.handle(self.rig.now, input);
    }

    /// Lets both planes work until nothing moves; whether anything did.
    fn work(&mut self) -> bool {
        for round in 0..10_000 {
            let (now, mut punted) = (self.rig.now, Vec::new());
            self.rig.settle();
            self.rig.workers[0].take_control(|punt, _, vlan, bytes| {
                punted.push((punt, vlan, bytes.to_vec()));
            });
            let none = punted.is_empty();
            for (punt, vlan, bytes) in punted {
                self.router.frame(now, punt, vlan, bytes);
            }
            let rest = self.router.run(now, || panic!("no worker is at a batch"));
            if none && rest.frames.is_empty() {
                return round > 0;
            }
            for (how, frame) in rest.frames {
                let how = self.by_port(how);
                // What is refused is counted, and the account is checked.
                let _ = self.rig.workers[0].inject(now, &frame, how);
            }
        }
        panic!("the router never comes to rest");
    }

    fn by_port(&self, how: Injection) -> Injection {
        let Injection::Vlan(number) = how else { return how };
        match self.interfaces[usize::from(number - 100)].ports[..] {
            [port] => Injection::Port(port as u16),
            _ => how,
        }
    }
}

/// An end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Machine and port.
    Port(usize, usize),
    Host(usize),
}

/// Machines, hosts, and the cables between.
pub(crate) struct Net {
    pub(crate) machines: Vec<Machine>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) cables: Vec<(End, End)>,
}

impl Net {
    pub(crate) fn new(machines: Vec<Machine>) -> Net {
        let mut net = Net { machines, hosts: Vec::new(), cables: Vec::new() };
        net.run();
        net
    }

    /// A host at a port of a machine, with these addresses and the gateways that it sends by.
    pub(crate) fn host(&mut self, at: (usize, usize), addresses: &[&str], by: &[&str]) -> usize {
        let n = self.hosts.len();
        let addresses: Vec<IpAddr> = addresses.iter().map(|a| ip(a)).collect();
        let by: Vec<IpAddr> = by.iter().map(|a| ip(a)).collect();
        self.hosts.push(Host::new(mac(0x100 + n as u64), &addresses, &by));
        self.cables.push((End::Host(n), End::Port(at.0, at.1)));
        n
    }

    fn peer(&self, end: End) -> Option<End> {
        self.cables.iter().find_map(|&(a, b)| match end {
            _ if a == end => Some(b),
            _ if b == end => Some(a),
            _ => None,
        })
    }

    /// Lets everything work at the present instant until nothing moves.
    pub(crate) fn run(&mut self) {
        for _ in 0..10_000 {
            let mut moved = false;
            for m in 0..self.machines.len() {
                moved |= self.machines[m].work();
                for (port, frame) in self.machines[m].rig.take() {
                    moved = true;
                    if let Some(to) = self.peer(End::Port(m, port)) {
                        self.put(to, frame);
                    }
                }
            }
            for h in 0..self.hosts.len() {
                for frame in std::mem::take(&mut self.hosts[h].out) {
                    moved = true;
                    if let Some(to) = self.peer(End::Host(h)) {
                        self.put(to, frame);
                    }
                }
            }
            if !moved {
                return;
            }
        }
        panic!("the network never comes to rest");
    }

    fn put(&mut self, to: End, frame: Vec<u8>) {
        match to {
            End::Host(host) => self.hosts[host].hear(&frame),
            End::Port(machine, port) => {
                let rig = &mut self.machines[machine].rig;
                if !rig.try_offer(port, &frame) {
                    rig.settle();
                    assert!(rig.try_offer(port, &frame), "the cable holds enough");
                }
            }
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.machines[0].rig.now
    }

    /// Time passes; what is due in between is done when it is.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now() + time;
        loop {
            self.run();
            let next = self.machines.iter().map(|m| m.router.next_deadline()).min();
            let now = next.unwrap_or(end).max(self.now()).min(end);
            for machine in &mut self.machines {
                machine.rig.now = now;
            }
            self.run();
            if now == end && self.machines.iter().all(|m| m.router.next_deadline() > end) {
                return;
            }
        }
    }

    /// Sends a packet from a host, and lets everything come to rest.
    pub(crate) fn send(&mut self, host: usize, packet: Vec<u8>) {
        self.hosts[host].send(packet);
        self.run();
    }
}

/// At the end of every test every packet is accounted for, and no frame has leaked.
impl Drop for Net {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.run();
        }
    }
}
