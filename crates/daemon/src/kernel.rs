//! A router beside the Linux kernel: the kernel's devices, addresses and routes, which routing
//! daemons change, as the router's inputs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use plexus_control::router::{Input, InterfaceId, NEXT_HOPS_MAX, NextHop, Route, Source};
use plexus_io::netlink::{Hop, KernelEvent, KernelRoute, RouteKey, TABLE_LOCAL, Watcher};
use plexus_io::wake::{Sleeper, Waker};
use plexus_wire::address::is_routable;
use plexus_wire::{MacAddr, Prefix};

/// Least time between two dumps of the kernel's tables, which are needed where its notifications
/// say too little. A dump of a full table takes about as long.
const REST: Duration = Duration::from_secs(1);

/// The kernel's state as far as it was heard.
#[derive(Default)]
pub(crate) struct Kernel {
    /// The kernel's devices by the names of our interfaces.
    names: HashMap<String, usize>,
    /// By the kernel's number.
    devices: HashMap<u32, Device>,
    addresses: BTreeMap<u32, BTreeSet<(IpAddr, u8)>>,
    /// Routes by the next-hop object that they use.
    users: HashMap<u32, BTreeSet<RouteKey>>,
    /// The next-hop object of each of those routes.
    used: HashMap<RouteKey, u32>,
    /// Devices and addresses that the current dump has not named yet.
    unnamed: Option<Unnamed>,
}

/// The kernel's device of one of our interfaces.
struct Device {
    interface: usize,
    up: bool,
    mac: Option<MacAddr>,
}

/// Devices and addresses that are removed unless the dump names them.
struct Unnamed {
    devices: BTreeSet<u32>,
    addresses: BTreeSet<(u32, IpAddr, u8)>,
}

/// The consequences of the kernel's notifications.
#[derive(Default)]
pub(crate) struct Heard {
    /// Interfaces whose addresses or state have changed.
    pub(crate) interfaces: BTreeSet<usize>,
    /// For the control plane, in order.
    pub(crate) inputs: Vec<Input>,
}

impl Kernel {
    /// Follows these devices: each by its name, with the number of the interface that it is of.
    pub(crate) fn new(names: HashMap<String, usize>) -> Kernel {
        Kernel { names, ..Kernel::default() }
    }

    /// The kernel's addresses on an interface; `None` while its device is down.
    pub(crate) fn addresses(&self, interface: usize) -> Option<Vec<(IpAddr, u8)>> {
        let (device, _) = self.up(interface)?;
        let addresses = self.addresses.get(device);
        Some(addresses.into_iter().flatten().copied().collect())
    }

    /// The Ethernet address by which the kernel answers for an interface, while its device is up.
    pub(crate) fn mac(&self, interface: usize) -> Option<MacAddr> {
        self.up(interface)?.1.mac
    }

    fn up(&self, interface: usize) -> Option<(&u32, &Device)> {
        self.devices.iter().find(|(_, device)| device.interface == interface && device.up)
    }

    /// Takes news in.
    pub(crate) fn hear(&mut self, events: Vec<KernelEvent>) -> Heard {
        let mut heard = Heard::default();
        for event in events {
            match event {
                KernelEvent::ResyncBegin => {
                    self.unnamed = Some(self.all());
                    // The dump names every route. A route whose removal was missed must not come
                    // back when its next-hop object changes.
                    self.users.clear();
                    self.used.clear();
                    heard.inputs.push(Input::Begin(Source::Kernel));
                }
                KernelEvent::ResyncEnd => {
                    let Unnamed { devices, addresses } = self.unnamed.take().unwrap_or(self.all());
                    for (device, address, len) in addresses {
                        self.address(device, (address, len), false, &mut heard);
                    }
                    for index in devices {
                        self.device(index, "", None, &mut heard);
                    }
                    heard.inputs.push(Input::End(Source::Kernel));
                }
                KernelEvent::Device { index, name, mac, up, present, .. } => {
                    if let Some(unnamed) = &mut self.unnamed {
                        unnamed.devices.remove(&index);
                    }
                    self.device(index, &name, present.then_some((up, mac)), &mut heard);
                }
                KernelEvent::Address { device, address, prefix_len, present } => {
                    if let Some(unnamed) = &mut self.unnamed {
                        unnamed.addresses.remove(&(device, address, prefix_len));
                    }
                    self.address(device, (address, prefix_len), present, &mut heard);
                }
                KernelEvent::Route { key, next_hop, route, .. } => {
                    self.note_user(key, if route.is_some() { next_hop } else { 0 });
                    heard.inputs.extend(self.input(key, route));
                }
                KernelEvent::NextHop { id, route } => {
                    for key in self.users.get(&id).into_iter().flatten() {
                        heard.inputs.extend(self.input(*key, route.clone()));
                    }
                }
            }
        }
        heard
    }

    /// All known devices and addresses.
    fn all(&self) -> Unnamed {
        let addresses = self.addresses.iter();
        let addresses =
            addresses.flat_map(|(device, all)| all.iter().map(|(a, len)| (*device, *a, *len)));
        Unnamed { devices: self.devices.keys().copied().collect(), addresses: addresses.collect() }
    }

    fn address(&mut self, device: u32, address: (IpAddr, u8), present: bool, heard: &mut Heard) {
        let all = self.addresses.entry(device).or_default();
        let changed = if present { all.insert(address) } else { all.remove(&address) };
        let interface = self.devices.get(&device).filter(|_| changed);
        heard.interfaces.extend(interface.map(|device| device.interface));
    }

    /// A device of the kernel, which is up or not, and its address; none: it is gone.
    fn device(
        &mut self,
        index: u32,
        name: &str,
        known: Option<(bool, Option<MacAddr>)>,
        heard: &mut Heard,
    ) {
        let old = self.devices.remove(&index);
        heard.interfaces.extend(old.map(|device| device.interface));
        let Some((up, mac)) = known else {
            self.addresses.remove(&index);
            return;
        };
        if let Some(&interface) = self.names.get(name) {
            self.devices.insert(index, Device { interface, up, mac });
            heard.interfaces.insert(interface);
        }
    }

    /// Notes the next-hop object of a route; 0: none.
    fn note_user(&mut self, key: RouteKey, next_hop: u32) {
        let old = match next_hop {
            0 => self.used.remove(&key),
            id => self.used.insert(key, id),
        };
        if let Some(old) = old.filter(|old| *old != next_hop)
            && let Some(users) = self.users.get_mut(&old)
        {
            users.remove(&key);
            if users.is_empty() {
                self.users.remove(&old);
            }
        }
        if next_hop != 0 {
            self.users.entry(next_hop).or_default().insert(key);
        }
    }

    fn input(&self, key: RouteKey, route: Option<KernelRoute>) -> Option<Input> {
        let prefix = Prefix::new(key.prefix.0, key.prefix.1).ok().filter(is_routable)?;
        let route = route.map(|route| self.translated(route));
        Some(Input::Route { source: Source::Kernel, prefix, metric: metric(&key), route })
    }

    /// A route as the control plane takes it. Some routes only the kernel can use: they lead to a
    /// device that is no interface of ours, or encapsulate. Their packets go to the kernel, like
    /// packets for the box itself. Otherwise they would follow a shorter prefix, against the route.
    fn translated(&self, route: KernelRoute) -> Route {
        match route {
            KernelRoute::Via(hops) => {
                let several = hops.len() > 1;
                let usable = |hop: &&Hop| !several || hop.gateway.is_some();
                let ours: Vec<(&Hop, InterfaceId)> = hops
                    .iter()
                    .filter(usable)
                    .filter_map(|hop| Some((hop, self.interface(hop.device)?)))
                    .take(NEXT_HOPS_MAX)
                    .collect();
                let largest = ours.iter().map(|(hop, _)| hop.weight).max();
                let Some(largest) = largest else { return Route::Local };
                let next_hop = |(hop, interface): (&Hop, InterfaceId)| NextHop {
                    interface,
                    gateway: hop.gateway,
                    // The kernel has checked this by routes that we need not know.
                    on_link: hop.gateway.is_some(),
                    weight: scaled(hop.weight, largest),
                };
                Route::Via(ours.into_iter().map(next_hop).collect())
            }
            KernelRoute::Local | KernelRoute::Encapsulated => Route::Local,
            KernelRoute::Broadcast => Route::Broadcast,
            KernelRoute::Blackhole => Route::Blackhole,
            KernelRoute::Unreachable => Route::Unreachable,
            KernelRoute::Prohibited => Route::Prohibited,
        }
    }

    fn interface(&self, device: u32) -> Option<InterfaceId> {
        self.devices.get(&device).map(|device| InterfaceId(device.interface as u16))
    }
}

/// A hop's weight scaled to a byte, if the heaviest hop has `largest`.
fn scaled(weight: u16, largest: u16) -> u8 {
    let (weight, most) = (u32::from(weight), u32::from(largest).max(u8::MAX.into()));
    let scaled = (weight * u32::from(u8::MAX) + most / 2) / most;
    u8::try_from(scaled).unwrap_or(u8::MAX).max(1)
}

/// A route's metric for the control plane. Own addresses have a table of their own, and take
/// precedence over the main table.
fn metric(key: &RouteKey) -> u32 {
    match key.table {
        TABLE_LOCAL => 0,
        _ => key.metric.saturating_add(1),
    }
}

/// The kernel's own metric of a route that has this one for the control plane.
pub(crate) fn kernel_metric(metric: u32) -> u32 {
    metric.saturating_sub(1)
}

/// Makes the thread that follows the kernel read everything anew.
pub(crate) struct Again(Waker);

impl Again {
    pub(crate) fn read(&self) {
        self.0.wake();
    }
}

/// Follows the kernel in a thread of its own, until `hear` says that nobody listens. The thread
/// waits for a slow control plane. If the kernel then drops notifications, a new dump replaces
/// them.
///
/// # Errors
/// When there are no descriptors or threads left.
pub(crate) fn watch(
    mut hear: impl FnMut(Vec<KernelEvent>) -> bool + Send + 'static,
) -> Result<Again, String> {
    let (mut sleeper, waker) = Sleeper::new().map_err(|e| format!("event descriptor: {e}"))?;
    let open = || Watcher::open().map(|watcher| watcher.with_rest(REST));
    let mut watcher = open().map_err(|e| format!("following the kernel: {e}"))?;
    let follow = move || {
        loop {
            let mut events = Vec::new();
            let more = match watcher.next_events(&mut events) {
                Ok(more) => more,
                Err(error) => {
                    tracing::error!(%error, "the kernel is no longer followed: trying again");
                    std::thread::sleep(Duration::from_secs(1));
                    match open() {
                        Ok(new) => watcher = new,
                        Err(error) => tracing::error!(%error, "following the kernel"),
                    }
                    true
                }
            };
            if !events.is_empty() && !hear(events) {
                return;
            }
            // An interrupted sleep is a short one.
            if !more && sleeper.sleep([watcher.fd()], watcher.wakes_in()).unwrap_or(false) {
                watcher.read_again();
            }
        }
    };
    let thread = std::thread::Builder::new().name("kernel".into()).spawn(follow);
    thread.map(|_| Again(waker)).map_err(|e| format!("following the kernel: {e}"))
}

#[cfg(test)]
mod tests;
