//! Routes of a simulated controller's kernel. A simulation has no kernel: the caller says what a
//! routing daemon would have written there.

use std::net::IpAddr;

use plexus_control::router::{Input as RouterInput, InterfaceId, NextHop, Route, Source};
use plexus_controller::{Controller, Input};
use plexus_wire::Prefix;

use crate::sim::Sim;

/// The controller's only interface, the group itself.
const GROUP: InterfaceId = InterfaceId(0);

impl Sim {
    /// Tells the controller that leads of changed routes, in order: the hosts that each prefix
    /// leads to. Without hosts the route is withdrawn. False if no controller leads.
    pub fn change_routes(
        &mut self,
        changes: impl IntoIterator<Item = (Prefix, Vec<IpAddr>)>,
    ) -> bool {
        let hop = |via| NextHop { interface: GROUP, gateway: Some(via), on_link: false, weight: 1 };
        let changes = changes.into_iter().map(|(prefix, vias)| RouterInput::Route {
            source: Source::Kernel,
            prefix,
            metric: 0,
            route: (!vias.is_empty()).then(|| Route::Via(vias.into_iter().map(hop).collect())),
        });
        let changes = Input::Kernel(changes.collect());
        let controllers = self.devices.controllers.iter_mut();
        let leader = controllers.max_by_key(|c| c.core().map(Controller::epoch));
        let Some(leader) = leader else { return false };
        leader.tell(&mut self.core, changes)
    }
}
