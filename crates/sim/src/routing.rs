//! The router of a box: the daemon's control plane and tables, on simulated ports.

use std::time::Duration;

use plexus_config::NodeFile;
use plexus_control::router::{Input, InterfaceId, Limits, Source};
use plexus_io::{Link, PortId};
use plexus_node::interface::{self, Interface};
use plexus_node::router::{Rest, Router};
use plexus_node::routes;
use plexus_plane::{RouterSource, Side, ToControl};
use plexus_wire::Time;

use crate::core::DeviceIndex;
use crate::node::port_mac;

/// Routes of a simulated router: there are many of them, and no full tables.
const ROUTES: usize = 1 << 12;
/// Neighbours of a simulated router.
const NEIGHBOURS: usize = 1 << 10;
/// How often the control plane hears which neighbours are used, as in the daemon.
const USED: Duration = Duration::from_secs(2);

/// The router of a box.
pub(crate) struct SimRouter {
    device: DeviceIndex,
    router: Router,
    interfaces: Vec<Interface>,
    links: Vec<Link>,
    used_at: Time,
}

impl SimRouter {
    /// The router of a file that has been expanded, with ports that carry frames of these lengths;
    /// none if the file has no interfaces.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn new(
        device: DeviceIndex,
        file: &NodeFile,
        max_frames: &[usize],
        seed: [u8; 32],
    ) -> Result<Option<SimRouter>, String> {
        let Some(settings) = &file.router else { return Ok(None) };
        let (mut interfaces, places) = interface::interfaces(file, settings)?;
        for interface in &mut interfaces {
            let frames = interface.ports.iter().map(|p| (*p, max_frames[usize::from(*p)]));
            interface.max_frames = frames.collect();
        }
        let routes = settings.routes_max.min(ROUTES);
        let limits = Limits { routes, neighbours: NEIGHBOURS, ..Limits::default() };
        let mut router = Router::new(limits, places, seed).map_err(|e| e.to_string())?;
        let source = Source::Static;
        router.handle(Time::ZERO, Input::Begin(source));
        for (prefix, route) in routes::of_settings(settings)? {
            let route = Some(route);
            router.handle(Time::ZERO, Input::Route { source, prefix, metric: 0, route });
        }
        router.handle(Time::ZERO, Input::End(source));
        let links = vec![Link::Down; file.ports.len()];
        let used_at = Time::ZERO + USED;
        Ok(Some(SimRouter { device, router, interfaces, links, used_at }))
    }

    /// What the data plane reads.
    pub(crate) fn source(&self) -> RouterSource {
        self.router.source()
    }

    /// A port has got carrier, or lost it.
    pub(crate) fn carrier(&mut self, now: Time, port: PortId, link: Link) {
        if let Some(known) = self.links.get_mut(usize::from(port)) {
            *known = link;
        }
        for (index, interface) in self.interfaces.iter().enumerate() {
            if !interface.ports.contains(&port) {
                continue;
            }
            let is_up = interface.ports.iter().any(|p| self.links[usize::from(*p)] == Link::Up);
            let mac = interface.device().and_then(|_| interface.ports.first());
            let mac = mac.map(|port| port_mac(self.device, *port));
            let facts = is_up.then(|| interface.facts(mac, None));
            self.router.set_interface(now, InterfaceId(index as u16), facts);
        }
    }

    /// Takes a frame that the data plane has handed over, if it is for this control plane.
    pub(crate) fn hear(&mut self, now: Time, waiting: &ToControl, bytes: &[u8]) -> bool {
        let is_ours = waiting.punt.side() == Side::Router;
        if is_ours {
            self.router.frame(now, waiting.punt, waiting.packet.vlan, bytes.to_vec());
        }
        is_ours
    }

    /// Does what is due, and what follows from it.
    pub(crate) fn run(&mut self, now: Time) -> Rest {
        if self.router.next_deadline() <= now {
            self.router.handle(now, Input::Tick);
        }
        if self.used_at <= now {
            self.router.note_used(now);
            self.used_at = now + USED;
        }
        // One thread reads and writes: no batch is ever under way.
        self.router.carry_out(|| ())
    }

    /// When there is something to do.
    pub(crate) fn next_deadline(&self) -> Time {
        self.router.next_deadline().min(self.used_at)
    }
}
