//! The thread of a router's control plane: the driver of [`plexus_node::router::Router`]. It reads
//! the clock, follows links and the kernel, logs, and exchanges frames with the workers.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plexus_config::{NodeFile, RouterSettings};
use plexus_control::router::{Event, InterfaceId, Limits, Route};
use plexus_io::netlink::{InterfaceSpec, KernelEvent, ensure_interface};
use plexus_node::Rest;
use plexus_node::interface::Interface;
use plexus_node::ports::kernel_port;
use plexus_node::router::Router;
use plexus_plane::{LinkChange, RouterSource};
use plexus_wire::{MacAddr, Prefix, Time};

use super::links::LinkCells;
use super::news::{News, Outlet};
use super::thread::{start_control_plane, time_since};
use crate::identity;
use crate::kernel::{self, Kernel};

mod answers;
mod routes;

pub(crate) use answers::RouterView;
pub(crate) use routes::static_routes;

/// Inputs taken before the tables are brought up to date.
const BATCH: usize = 256;
/// Longest sleep: a clock that is set does not matter, a lost wake-up would.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// A router before it runs.
pub(crate) struct Prepared {
    router: Router,
    routes: Vec<(Prefix, Route)>,
    /// The kernel's devices and routes, where they are followed.
    kernel: Option<Kernel>,
    /// Frames dropped because too many waited already.
    pub(crate) missed: Arc<AtomicU64>,
}

/// Makes the router of a file that has been [expanded](plexus_node::ports::expand).
///
/// # Errors
/// In words for the person who started it.
pub(crate) fn prepare(file: &NodeFile, settings: &RouterSettings) -> Result<Prepared, String> {
    let limits = Limits { routes: settings.routes_max, ..Limits::default() };
    let router = Router::of_file(file, settings, limits, identity::random()?)?;
    let kernel = settings.kernel.then(|| kernel_devices(router.interfaces())).transpose()?;
    Ok(Prepared { router, routes: static_routes(settings)?, kernel, missed: Arc::default() })
}

impl Prepared {
    /// The plan that workers read.
    pub(crate) fn source(&self) -> RouterSource {
        self.router.source()
    }

    /// Has this called after each change of what workers read.
    pub(crate) fn on_change(&mut self, call: impl FnMut() + Send + 'static) {
        self.router.on_change(call);
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// When it cannot be.
    pub(crate) fn start(
        self,
        (news, sender): (Receiver<News>, SyncSender<News>),
        links: Arc<LinkCells>,
        outlet: Outlet,
        started: Instant,
    ) -> Result<JoinHandle<()>, String> {
        let again = match self.kernel {
            Some(_) => {
                Some(kernel::watch(move |events| sender.send(News::Kernel(events)).is_ok())?)
            }
            None => None,
        };
        let conflicts = BTreeMap::new();
        let driver = Driver { own: self, news, links, outlet, started, conflicts, again };
        start_control_plane(|| driver.run())
    }
}

/// Makes every interface's pair of devices, or takes the existing pair.
///
/// # Errors
/// Without the privilege, or when another device has the name.
fn kernel_devices(interfaces: &[Interface]) -> Result<Kernel, String> {
    let mut names = HashMap::new();
    for (index, interface) in interfaces.iter().enumerate() {
        let settings = &interface.settings;
        let peer = kernel_port(&settings.name)?;
        let facts = interface.devices.iter().filter_map(|d| plexus_io::device_facts(d).ok());
        let of_ports = facts.filter_map(|f| u16::try_from(f.mtu).ok()).min();
        let addresses: Vec<(IpAddr, u8)> =
            settings.addresses.iter().map(|a| (a.address, a.prefix_len)).collect();
        let spec = InterfaceSpec {
            name: &settings.name,
            peer: &peer,
            mac: Some(interface.facts(device_mac(interface), None).mac),
            mtu: interface.mtu(of_ports).into(),
            addresses: Some(&addresses),
        };
        ensure_interface(&spec).map_err(|e| format!("interface {}: {e}", settings.name))?;
        names.insert(settings.name.clone(), index);
    }
    Ok(Kernel::new(names))
}

/// The Ethernet address of an interface's device.
fn device_mac(interface: &Interface) -> Option<MacAddr> {
    let device = interface.device()?;
    let facts = plexus_io::device_facts(device)
        .inspect_err(|error| tracing::warn!(device, %error, "reading its address"));
    facts.ok().map(|f| f.mac)
}

/// What the thread has.
pub(crate) struct Driver {
    own: Prepared,
    news: Receiver<News>,
    links: Arc<LinkCells>,
    outlet: Outlet,
    started: Instant,
    /// Address conflicts that were logged.
    conflicts: BTreeMap<IpAddr, MacAddr>,
    /// The thread that follows the kernel.
    again: Option<kernel::Again>,
}

impl Driver {
    /// Serves until told to stop.
    fn run(mut self) {
        let routes = std::mem::take(&mut self.own.routes);
        self.replace_routes(routes);
        loop {
            let wait = self.own.router.next_deadline().since(self.now()).min(SLEEP_MAX);
            let mut next = match self.news.recv_timeout(wait) {
                Ok(news) => Some(news),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut left = BATCH;
            while let Some(news) = next {
                if !self.hear(news) {
                    return;
                }
                left -= 1;
                next = if left > 0 { self.news.try_recv().ok() } else { None };
            }
            // Packets stay in order: those that workers have handed over leave with those that
            // waited, and workers receive no others meanwhile.
            if self.own.router.releases() && self.outlet.pauses.begin(Instant::now()) {
                while self.outlet.pauses.goes_on(Instant::now())
                    && let Ok(news) = self.news.try_recv()
                {
                    if !self.hear(news) {
                        return;
                    }
                }
            }
            self.hear_links();
            let rest = self.own.router.run(self.now(), std::thread::yield_now);
            self.finish(rest);
        }
    }

    /// Takes in one of the news. False: the thread is to end.
    fn hear(&mut self, news: News) -> bool {
        self.hear_links();
        match news {
            News::Stop => return false,
            News::Frame(punt, _, vlan, bytes) => {
                let now = self.now();
                self.own.router.frame(now, punt, vlan, bytes);
            }
            News::Routes(routes) => self.replace_routes(routes),
            News::Kernel(events) => self.hear_kernel(events),
            News::Links | News::Lanes(_) | News::Ports(..) | News::Removed(_) => {}
            News::AskRouter(question) => {
                // Answers tell what has been decided.
                self.carry_out();
                question(&self.own.router);
            }
            News::AskFabric(_)
            | News::Common(_)
            | News::OwnFile
            | News::Keeps(_)
            | News::Counters(_)
            | News::Explained(_)
            | News::Names(..)
            | News::Identity(_) => {}
        }
        true
    }

    fn now(&self) -> Time {
        time_since(self.started)
    }

    /// These are the static routes from now on.
    fn replace_routes(&mut self, routes: Vec<(Prefix, Route)>) {
        self.own.router.replace_routes(self.now(), routes);
        self.carry_out();
    }

    /// Takes the states of links. They come before frames, so that a frame's port is known to be
    /// up.
    fn hear_links(&mut self) {
        for change in self.links.take(usize::MAX) {
            self.link(change);
        }
    }

    fn link(&mut self, change: LinkChange) {
        let now = self.now();
        for (index, has_another_length) in self.own.router.hear_link(change) {
            let interface = &self.own.router.interfaces()[index];
            if has_another_length
                && let (Some(mtu), Some(of_ports)) = (interface.settings.mtu, interface.of_ports())
                && mtu > of_ports
            {
                let interface = &interface.settings.name;
                tracing::warn!(interface, mtu, of_ports, "mtu is more than its ports take");
            }
            self.set_interface(now, index);
        }
    }

    /// Brings an interface up to date with its ports and its kernel device.
    fn set_interface(&mut self, now: Time, index: usize) {
        let Prepared { router, kernel, .. } = &mut self.own;
        let is_up = router.follow_ports(now, index, |interface| {
            let Some(kernel) = kernel else {
                return Some(interface.facts(device_mac(interface), None));
            };
            let addresses = kernel.addresses(index)?;
            let mac = kernel.mac(index).or_else(|| device_mac(interface));
            Some(interface.facts(mac, Some(addresses)))
        });
        if let Some(is_up) = is_up {
            let word = if is_up { "up" } else { "down" };
            tracing::info!(interface = self.interface_name(InterfaceId(index as u16)), "{word}");
        }
    }

    /// Takes the kernel's notifications of devices and routes.
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

    fn carry_out(&mut self) {
        if self.own.router.releases() {
            let _ = self.outlet.pauses.begin(Instant::now());
        }
        let rest = self.own.router.carry_out(std::thread::yield_now);
        self.finish(rest);
    }

    fn finish(&mut self, rest: Rest<Event>) {
        for event in &rest.events {
            self.tell(event);
        }
        self.outlet.inject(rest.frames);
        self.outlet.pauses.end(Instant::now());
    }

    fn interface_name(&self, id: InterfaceId) -> &str {
        answers::interface_name(&self.own.router, id)
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
            Event::RoutesFit => {
                tracing::info!("there is room for routes again: the kernel's are read anew");
                if let Some(again) = &self.again {
                    again.read();
                }
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
}
