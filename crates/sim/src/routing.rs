//! The router of a box: the daemon's control plane and tables, on simulated ports.

use plexus_config::NodeFile;
use plexus_control::router::Limits;
use plexus_io::{Link, PortId};
use plexus_node::router::Router;
use plexus_node::routes;
use plexus_plane::LinkChange;
use plexus_wire::Time;

use crate::core::DeviceIndex;
use crate::node::port_mac;

/// Routes of a simulated router: a simulation has many routers, and none has a full table.
const ROUTES: usize = 1 << 12;
/// Neighbours of a simulated router.
const NEIGHBOURS: usize = 1 << 10;

/// The router of a box.
pub(crate) struct SimRouter {
    device: DeviceIndex,
    pub(crate) router: Router,
    /// The longest frame of each port.
    max_frames: Vec<usize>,
}

impl SimRouter {
    /// The router of a file that has been expanded; none if the file has no interfaces.
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
        let routes = settings.routes_max.min(ROUTES);
        let limits = Limits { routes, neighbours: NEIGHBOURS, ..Limits::default() };
        let mut router = Router::of_file(file, settings, limits, seed)?;
        router.replace_routes(Time::ZERO, routes::of_settings(settings)?);
        // All lengths are known before the first port comes up.
        for (port, &max_frame) in (0..).zip(max_frames) {
            router.hear_link(LinkChange { port, link: Link::Down, max_frame, takes_owed: false });
        }
        Ok(Some(SimRouter { device, router, max_frames: max_frames.to_vec() }))
    }

    /// A port has got carrier, or lost it.
    pub(crate) fn carrier(&mut self, now: Time, port: PortId, link: Link) {
        let max_frame = self.max_frames[usize::from(port)];
        for (index, _) in
            self.router.hear_link(LinkChange { port, link, max_frame, takes_owed: false })
        {
            self.router.follow_ports(now, index, |interface| {
                let port = interface.device().and_then(|_| interface.ports.first());
                let mac = port.map(|port| port_mac(self.device, *port));
                Some(interface.facts(mac, None))
            });
        }
    }
}
