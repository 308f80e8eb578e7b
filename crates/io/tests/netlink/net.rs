//! Devices in a network namespace, and a consumer of a watcher's events.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rustix::event::{PollFd, PollFlags};

use plexus_io::netlink::{Hop, KernelEvent, KernelRoute, RouteKey, TABLE_MAIN, Watcher};

pub(crate) use crate::common::{in_namespace, ip};

/// Two veth pairs, `va` and `vb`, up, with the addresses .1 and ::1 of subnets 10.0.N.0/24 and
/// 2001:db8:N::/64, N being 0 and 1. Their numbers.
pub(crate) fn two_devices() -> [u32; 2] {
    ip("link set lo up");
    let mut indexes = [0; 2];
    for (n, name) in ["va", "vb"].into_iter().enumerate() {
        ip(&format!("link add {name} type veth peer name {name}.px"));
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}.px/disable_ipv6"), "1").unwrap();
        ip(&format!("link set {name}.px up"));
        // A link-local address would come seconds later, in the middle of a test.
        ip(&format!("link set {name} addrgenmode none"));
        ip(&format!("link set {name} up"));
        ip(&format!("addr add 10.0.{n}.1/24 dev {name}"));
        ip(&format!("addr add 2001:db8:{n}::1/64 dev {name} nodad"));
        // The kernel makes the address local a moment later, from another thread.
        while !ip(&format!("-6 route show table local dev {name}")).contains("2001:db8") {}
        indexes[n] = index(name);
    }
    indexes
}

pub(crate) fn index(name: &str) -> u32 {
    let told = ip(&format!("-o link show dev {name}"));
    told.split(':').next().unwrap().trim().parse().unwrap()
}

/// Stores a watcher's events, as a router would.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) routes: BTreeMap<RouteKey, (KernelRoute, u32)>,
    pub(crate) addresses: BTreeSet<(u32, IpAddr, u8)>,
    /// Name and whether it is up.
    pub(crate) devices: BTreeMap<u32, (String, bool)>,
    /// How many times everything has been named.
    pub(crate) resyncs: usize,
    named: Option<Named>,
}

/// Objects named since a resync began.
#[derive(Default)]
struct Named {
    routes: BTreeSet<RouteKey>,
    addresses: BTreeSet<(u32, IpAddr, u8)>,
    devices: BTreeSet<u32>,
}

impl Table {
    /// Processes all pending events.
    pub(crate) fn update(&mut self, watcher: &mut Watcher) {
        let mut events = Vec::new();
        while watcher.next_events(&mut events).unwrap() {
            self.take(&mut events);
        }
        self.take(&mut events);
        assert!(self.named.is_none(), "a resync has ended when there is nothing to read");
    }

    /// Processes events until the condition holds. A carrier, for example, is reported a moment
    /// later.
    pub(crate) fn until(&mut self, watcher: &mut Watcher, holds: impl Fn(&Table) -> bool) {
        self.update(watcher);
        while !holds(self) {
            let mut fds = [PollFd::from_borrowed_fd(watcher.fd(), PollFlags::IN)];
            rustix::event::poll(&mut fds, None).unwrap();
            self.update(watcher);
        }
    }

    pub(crate) fn take(&mut self, events: &mut Vec<KernelEvent>) {
        for event in events.drain(..) {
            self.event(event);
        }
    }

    fn event(&mut self, event: KernelEvent) {
        match event {
            KernelEvent::ResyncBegin => self.named = Some(Named::default()),
            KernelEvent::ResyncEnd => {
                let named = self.named.take().expect("an end follows a beginning");
                self.routes.retain(|key, _| named.routes.contains(key));
                self.addresses.retain(|key| named.addresses.contains(key));
                self.devices.retain(|key, _| named.devices.contains(key));
                self.resyncs += 1;
            }
            KernelEvent::Route { key, next_hop, route: Some(route), .. } => {
                self.routes.insert(key, (route, next_hop));
                if let Some(named) = &mut self.named {
                    named.routes.insert(key);
                }
            }
            KernelEvent::Route { key, route: None, .. } => drop(self.routes.remove(&key)),
            KernelEvent::NextHop { id, route } => {
                self.routes.retain(|_, (_, by)| *by != id || route.is_some());
                for (to, _) in self.routes.values_mut().filter(|(_, by)| *by == id) {
                    to.clone_from(route.as_ref().unwrap());
                }
            }
            KernelEvent::Address { device, address, prefix_len, present } => {
                let key = (device, address, prefix_len);
                if present {
                    self.addresses.insert(key);
                    if let Some(named) = &mut self.named {
                        named.addresses.insert(key);
                    }
                } else {
                    self.addresses.remove(&key);
                }
            }
            KernelEvent::Device { index, name, up, present, .. } => {
                if present {
                    self.devices.insert(index, (name, up));
                    if let Some(named) = &mut self.named {
                        named.devices.insert(index);
                    }
                } else {
                    self.devices.remove(&index);
                }
            }
        }
    }

    /// The main table's route of a prefix, the one of the lowest metric.
    pub(crate) fn route(&self, prefix: &str) -> Option<&KernelRoute> {
        let wanted = self::prefix(prefix);
        let mut found =
            self.routes.iter().filter(|(key, _)| key.prefix == wanted && key.table == TABLE_MAIN);
        found.next().map(|(_, (route, _))| route)
    }

    /// The state that a new watcher finds.
    pub(crate) fn fresh() -> Table {
        let mut table = Table::default();
        table.update(&mut Watcher::open().unwrap());
        table
    }

    /// Asserts that it equals the state that a new watcher finds.
    pub(crate) fn assert_is_the_kernels(&self) {
        let fresh = Table::fresh();
        assert_eq!(self.routes, fresh.routes);
        assert_eq!(self.addresses, fresh.addresses);
        assert_eq!(self.devices, fresh.devices);
    }
}

/// A watcher that has reported the initial state, and that state.
pub(crate) fn watching() -> (Watcher, Table) {
    let mut watcher = Watcher::open().unwrap();
    let mut table = Table::default();
    table.update(&mut watcher);
    assert_eq!(table.resyncs, 1);
    (watcher, table)
}

/// `ADDRESS/LENGTH`.
pub(crate) fn prefix(text: &str) -> (IpAddr, u8) {
    let (address, len) = text.split_once('/').unwrap();
    (address.parse().unwrap(), len.parse().unwrap())
}

/// A hop with weight 1.
pub(crate) fn hop(device: u32, gateway: &str) -> Hop {
    let gateway = (!gateway.is_empty()).then(|| gateway.parse().unwrap());
    Hop { device, gateway, weight: 1, on_link: false }
}

/// A route by these hops.
pub(crate) fn via(hops: &[Hop]) -> Option<KernelRoute> {
    Some(KernelRoute::Via(hops.to_vec()))
}
