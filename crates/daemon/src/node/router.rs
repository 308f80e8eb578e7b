//! The control plane's thread of a router: the driver of [`plexus_router::Router`]. It reads the
//! clock, says which interfaces are up, and speaks with the workers by their channels.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plexus_config::{
    Backend, InterfacePlace, InterfaceSettings, NodeFile, PortFile, PortSettings, PortUse,
    RouterSettings, VlanMode, routed_port,
};
use plexus_control::router::{Event, Input, InterfaceFacts, InterfaceId, Limits, Route, Source};
use plexus_io::netlink::KernelEvent;
use plexus_io::{Link, PortId};
use plexus_plane::{LinkChange, RouterSource};
use plexus_router::{Place, Router};
use plexus_wire::{MacAddr, Prefix, Time};
use serde_json::{Value, json};

use super::links::LinkCells;
use super::news::{Inject, News, Topic};
use super::thread::{start_control_plane, time_since};
use crate::identity;

mod answers;
mod kernel;
mod routes;

pub(crate) use routes::static_routes;

/// Inputs taken before the tables are brought up to date.
const BATCH: usize = 256;
/// Longest sleep: a clock that is set does not matter, a lost wake-up would.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// How often the control plane hears which neighbours are used: a stale one is to be verified five
/// seconds after its first use (RFC 4861, 7.3.3), and a few more do no harm.
const USED: Duration = Duration::from_secs(2);
/// The longest IP packets of an interface that several ports share, unless its settings say more or
/// its ports take less.
const MTU_USUAL: u16 = 1500;
/// An Ethernet header.
const ETHERNET: usize = 14;

/// A router before it runs.
pub(crate) struct Prepared {
    router: Router,
    interfaces: Vec<Interface>,
    links: Vec<Link>,
    routes: Vec<(Prefix, Route)>,
    /// The kernel's devices and routes, where they are followed.
    kernel: Option<kernel::Kernel>,
    /// Frames that came when too many waited already.
    pub(crate) missed: Arc<AtomicU64>,
}

/// An interface as the driver knows it.
struct Interface {
    settings: InterfaceSettings,
    vlan: u16,
    /// The ports that packets come and go by, the kernel's apart.
    ports: Vec<PortId>,
    /// The devices of `ports`, in their order.
    devices: Vec<String>,
    /// Its address if neither settings nor a device give one.
    derived: MacAddr,
    /// The longest frame of each of `ports`, once that is known.
    max_frames: BTreeMap<PortId, usize>,
}

impl Interface {
    /// The longest IP packet that all its ports take, as far as they are known: a longer one would
    /// be dropped there without a word to its sender.
    fn of_ports(&self) -> Option<u16> {
        let max_frame = self.max_frames.values().min()?;
        Some(u16::try_from(max_frame.saturating_sub(ETHERNET)).unwrap_or(u16::MAX))
    }

    /// Its longest IP packet, by its settings and by what its ports take, if that is known.
    fn mtu(&self, of_ports: Option<u16>) -> u16 {
        let usual = match self.settings.place {
            InterfacePlace::Port(_) => of_ports.unwrap_or(MTU_USUAL),
            InterfacePlace::Vlan(_) => MTU_USUAL,
        };
        let wanted = self.settings.mtu.unwrap_or(usual);
        of_ports.map_or(wanted, |of_ports| wanted.min(of_ports))
    }

    /// The router's Ethernet address there.
    fn mac(&self) -> MacAddr {
        let of_device = || {
            // Several ports have several addresses: none of them is the interface's.
            let (InterfacePlace::Port(_), Some(device)) =
                (&self.settings.place, self.devices.first())
            else {
                return None;
            };
            let facts = plexus_io::device_facts(device)
                .inspect_err(|error| tracing::warn!(device, %error, "reading its address"));
            facts.ok().map(|f| f.mac)
        };
        self.settings.mac.or_else(of_device).unwrap_or(self.derived)
    }
}

/// The file as the data plane is to see it: routed ports have a VLAN of their own, and kernel
/// devices are ports.
///
/// # Errors
/// When there are no VLANs left for them, or a name is too long.
pub(crate) fn expand(mut file: NodeFile) -> Result<NodeFile, String> {
    let Some(router) = file.router.clone() else { return Ok(file) };
    let ports: Vec<_> = file.ports.iter().map(|p| (p.name.as_str(), &p.settings)).collect();
    let vlans = router.vlans(&ports).ok_or(
        "there is no VLAN left for each routed port: let trunks carry fewer than all 4094",
    )?;
    for (interface, vlan) in router.interfaces.iter().zip(vlans) {
        let mut settings = PortSettings { vlan: VlanMode::Access(vlan), ..PortSettings::default() };
        if let InterfacePlace::Port(name) = &interface.place {
            for port in file.ports.iter_mut().filter(|p| p.name == *name) {
                port.settings = routed_port(&port.settings, vlan);
                port.role = PortUse::Switch;
            }
            settings = routed_port(&settings, vlan);
        }
        if router.kernel {
            let device = kernel::port_device(&interface.name)?;
            // Only this back-end hears what the kernel leaves to hardware (checksums).
            let backend = Some(Backend::AfPacket);
            let role = PortUse::Switch;
            file.ports.push(PortFile { settings, backend, role, ..PortFile::new(&device) });
        }
    }
    Ok(file)
}

/// By what an interface's packets come and go.
#[derive(PartialEq, Eq)]
pub(crate) struct Carried {
    /// The VLAN that it is.
    pub(crate) vlan: u16,
    /// Its only port, if it is a routed port.
    port: Option<PortId>,
    /// The port of the kernel's device.
    kernel: Option<PortId>,
    /// All ports that carry the VLAN, the kernel's apart.
    ports: Vec<PortId>,
}

/// By what each interface's packets come and go, in a file that has been [expanded](expand).
///
/// # Errors
/// When an interface is of a port that is not there.
pub(crate) fn carried(file: &NodeFile, settings: &RouterSettings) -> Result<Vec<Carried>, String> {
    let of = |own: &InterfaceSettings| -> Result<Carried, String> {
        let (vlan, port) = match &own.place {
            InterfacePlace::Vlan(vlan) => (*vlan, None),
            InterfacePlace::Port(name) => {
                let port = file.ports.iter().position(|p| p.name == *name);
                let vlan = port.and_then(|port| match file.ports[port].settings.vlan {
                    VlanMode::Access(vlan) => Some(vlan),
                    VlanMode::Trunk { .. } => None,
                });
                (vlan.ok_or_else(|| format!("there is no routed port {name}"))?, port)
            }
        };
        let kernel = kernel::port_device(&own.name).ok().filter(|_| settings.kernel);
        let kernel = kernel.and_then(|d| file.ports.iter().position(|p| p.name == d));
        let carry = file.ports.iter().enumerate();
        let carry = carry.filter(|(i, p)| p.settings.carries(vlan) && Some(*i) != kernel);
        Ok(Carried {
            vlan,
            port: port.map(|p| p as PortId),
            kernel: kernel.map(|p| p as PortId),
            ports: carry.map(|(i, _)| i as PortId).collect(),
        })
    };
    settings.interfaces.iter().map(of).collect()
}

/// Makes the router of a file that has been [expanded](expand).
///
/// # Errors
/// In words for the person who started it.
pub(crate) fn prepare(file: &NodeFile, settings: &RouterSettings) -> Result<Prepared, String> {
    let mut interfaces = Vec::new();
    let mut places = Vec::new();
    for (own, carried) in settings.interfaces.iter().zip(carried(file, settings)?) {
        let Carried { vlan, port, kernel, ports } = carried;
        places.push(Place { vlan, port, kernel, reverse_path: own.reverse_path });
        let devices = ports.iter().map(|p| file.ports[usize::from(*p)].device.clone()).collect();
        interfaces.push(Interface {
            vlan,
            ports,
            devices,
            derived: MacAddr::derived(&format!("{}.{}", file.name, own.name), 0),
            max_frames: BTreeMap::new(),
            settings: own.clone(),
        });
    }
    let kernel = settings.kernel.then(|| kernel::Kernel::prepare(&interfaces)).transpose()?;
    let limits = Limits { routes: settings.routes_max, ..Limits::default() };
    let router = Router::new(limits, places, identity::random()?).map_err(|e| e.to_string())?;
    Ok(Prepared {
        router,
        interfaces,
        links: vec![Link::Down; file.ports.len()],
        routes: static_routes(settings)?,
        kernel,
        missed: Arc::default(),
    })
}

impl Prepared {
    /// What the workers read.
    pub(crate) fn source(&self) -> RouterSource {
        self.router.source()
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// When it cannot be.
    pub(crate) fn start(
        self,
        (news, sender): (Receiver<News>, SyncSender<News>),
        links: Arc<LinkCells>,
        inject: Inject,
        started: Instant,
    ) -> Result<JoinHandle<()>, String> {
        if self.kernel.is_some() {
            kernel::watch(sender)?;
        }
        let driver = Driver { own: self, news, links, inject, started, conflicts: BTreeMap::new() };
        start_control_plane(|| driver.run())
    }
}

/// What the thread has.
struct Driver {
    own: Prepared,
    news: Receiver<News>,
    links: Arc<LinkCells>,
    inject: Inject,
    started: Instant,
    /// Conflicts that people have been told of, by address.
    conflicts: BTreeMap<IpAddr, MacAddr>,
}

impl Driver {
    /// Serves until told to stop.
    fn run(mut self) {
        let routes = std::mem::take(&mut self.own.routes);
        self.replace_routes(routes);
        let mut used = self.now() + USED;
        loop {
            let wait = self.own.router.next_deadline().since(self.now()).min(SLEEP_MAX);
            let mut next = match self.news.recv_timeout(wait) {
                Ok(news) => Some(news),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut done = 0;
            while let Some(news) = next {
                self.hear_links();
                match news {
                    News::Stop => return,
                    News::Frame(punt, _, vlan, bytes) => {
                        let now = self.now();
                        self.own.router.frame(now, punt, vlan, bytes);
                    }
                    News::Routes(routes) => self.replace_routes(routes),
                    News::Kernel(events) => self.hear_kernel(events),
                    News::Links | News::Lanes(_) | News::Ports(..) | News::Removed(_) => {}
                    News::Show(topic, reply) => {
                        // What is asked is what has been decided. Who asked may have gone.
                        self.carry_out();
                        drop(reply.send(self.show(topic)));
                    }
                }
                done += 1;
                next = if done < BATCH { self.news.try_recv().ok() } else { None };
            }
            self.hear_links();
            let now = self.now();
            if self.own.router.next_deadline() <= now {
                self.own.router.handle(now, Input::Tick);
            }
            if now >= used {
                self.own.router.note_used(now);
                used = now + USED;
            }
            self.carry_out();
        }
    }

    fn now(&self) -> Time {
        time_since(self.started)
    }

    /// These are the static routes from now on.
    fn replace_routes(&mut self, routes: Vec<(Prefix, Route)>) {
        let now = self.now();
        let source = Source::Static;
        self.own.router.handle(now, Input::Begin(source));
        for (prefix, route) in routes {
            let route = Some(route);
            self.own.router.handle(now, Input::Route { source, prefix, metric: 0, route });
        }
        self.own.router.handle(now, Input::End(source));
        self.carry_out();
    }

    /// What has become of links. Before anything that came after it: a frame is of a port that is
    /// known to be up.
    fn hear_links(&mut self) {
        for change in self.links.take() {
            self.link(change);
        }
    }

    fn link(&mut self, LinkChange { port, link, max_frame }: LinkChange) {
        if let Some(known) = self.own.links.get_mut(usize::from(port)) {
            *known = link;
        }
        let now = self.now();
        for index in 0..self.own.interfaces.len() {
            let interface = &mut self.own.interfaces[index];
            if !interface.ports.contains(&port) {
                continue;
            }
            if interface.max_frames.insert(port, max_frame) != Some(max_frame)
                && let (Some(mtu), Some(of_ports)) = (interface.settings.mtu, interface.of_ports())
                && mtu > of_ports
            {
                let interface = &interface.settings.name;
                tracing::warn!(interface, mtu, of_ports, "mtu is more than its ports take");
            }
            self.set_interface(now, index);
        }
    }

    /// Says what has become of an interface.
    fn set_interface(&mut self, now: Time, index: usize) {
        let facts = self.facts(index);
        let name = &self.own.interfaces[index].settings.name;
        let id = InterfaceId(index as u16);
        let was = self.own.router.control().interfaces().any(|(known, _)| known == id);
        if was != facts.is_some() {
            let word = if was { "down" } else { "up" };
            tracing::info!(interface = name, "{word}");
        }
        self.own.router.set_interface(now, id, facts);
    }

    /// What the kernel has to say of its devices and routes.
    fn hear_kernel(&mut self, events: Vec<KernelEvent>) {
        let now = self.now();
        let Some(kernel) = &mut self.own.kernel else { return };
        let heard = kernel.hear(events);
        for index in heard.interfaces {
            self.set_interface(now, index);
        }
        for input in heard.inputs {
            self.own.router.handle(now, input);
        }
    }

    /// An interface's facts; `None` if no port of it is up.
    fn facts(&self, index: usize) -> Option<InterfaceFacts> {
        let interface = &self.own.interfaces[index];
        let is_up = |p: &PortId| self.own.links.get(usize::from(*p)) == Some(&Link::Up);
        if !interface.ports.iter().any(is_up) {
            return None;
        }
        let settings = &interface.settings;
        let mac = interface.mac();
        let mtu = interface.mtu(interface.of_ports());
        let name = settings.name.clone();
        if let Some(kernel) = &self.own.kernel {
            let addresses = kernel.addresses(index)?;
            return Some(InterfaceFacts { name, mac, mtu, addresses, kernel: true });
        }
        let mut addresses: Vec<(IpAddr, u8)> =
            settings.addresses.iter().map(|a| (a.address, a.prefix_len)).collect();
        let has_v6 = addresses.iter().any(|(a, _)| a.is_ipv6());
        let link_local = |a: &IpAddr| matches!(a, IpAddr::V6(a) if a.is_unicast_link_local());
        if has_v6 && !addresses.iter().any(|(a, _)| link_local(a)) {
            addresses.push((IpAddr::V6(mac.link_local()), 64));
        }
        Some(InterfaceFacts { name, mac, mtu, addresses, kernel: false })
    }

    fn carry_out(&mut self) {
        let rest = self.own.router.carry_out(std::thread::yield_now);
        for event in &rest.events {
            self.tell(event);
        }
        if !rest.frames.is_empty() {
            (self.inject)(rest.frames);
        }
    }

    fn interface_name(&self, id: InterfaceId) -> &str {
        self.own.interfaces.get(usize::from(id.0)).map_or("?", |i| i.settings.name.as_str())
    }

    fn tell(&mut self, event: &Event) {
        match event {
            Event::Conflict { interface, address, mac } => {
                if self.conflicts.insert(*address, *mac) != Some(*mac) {
                    let interface = self.interface_name(*interface);
                    tracing::warn!(interface, %address, %mac, "somebody else has our address");
                }
            }
            Event::Gateway { interface, address, mac: Some(mac) } => {
                let interface = self.interface_name(*interface);
                tracing::info!(interface, gateway = %address, %mac, "gateway found");
            }
            Event::Gateway { interface, address, mac: None } => {
                let interface = self.interface_name(*interface);
                tracing::warn!(interface, gateway = %address, "gateway does not answer");
            }
            Event::RoutesFull => {
                tracing::warn!("routes are refused: there are as many as routes_max allows");
            }
            Event::GroupsFull => {
                tracing::warn!("routes are refused: there are too many sets of gateways");
            }
            Event::TableFull => {
                tracing::warn!(
                    "the forwarding table has no room for some routes: what is behind them goes by \
                     shorter prefixes until others leave"
                );
            }
        }
    }

    /// What was not served, by reason.
    fn unserved(&self) -> Value {
        let refused = self.own.router.control().refusals();
        let mut unserved: BTreeMap<String, u64> = refused
            .filter(|(_, count)| *count > 0)
            .map(|(refusal, count)| (answers::word(&refusal), count))
            .collect();
        let missed = self.own.missed.load(Ordering::Relaxed);
        unserved.extend((missed > 0).then(|| ("control_busy".to_string(), missed)));
        let table = self.own.router.refused();
        unserved.extend((table > 0).then(|| ("table_full".to_string(), table)));
        json!(unserved)
    }

    fn show(&self, topic: Topic) -> Value {
        match topic {
            Topic::Fib => answers::fib(self),
            Topic::Neighbours => answers::neighbours(self),
            Topic::Route(address) => answers::route(self, address),
            Topic::RoutesFrom(first) => answers::routes_from(self, first),
            Topic::Unserved => self.unserved(),
            Topic::Links | Topic::Hosts | Topic::Groups | Topic::Routes => Value::Null,
        }
    }
}
