//! The static routes of a node's file, in the control plane's words.

use plexus_config::{Gateway, RouterSettings, StaticRoute, ValueError, Via};
use plexus_control::router::{InterfaceId, NextHop, Route};
use plexus_wire::Prefix;

/// All static routes that the settings themselves name.
///
/// # Errors
/// In words, when no interface leads to a gateway.
pub fn of_settings(settings: &RouterSettings) -> Result<Vec<(Prefix, Route)>, String> {
    let all = settings.routes.iter().map(|StaticRoute { prefix, via }| {
        let route = route(settings, via);
        Ok((*prefix, route.map_err(|e| format!("{prefix}: {}; {}", e.message, e.help))?))
    });
    all.collect()
}

/// A route by these gateways, or by none.
///
/// # Errors
/// When no interface leads to a gateway.
pub fn route(settings: &RouterSettings, via: &Via) -> Result<Route, ValueError> {
    let Via::Gateways(gateways) = via else {
        return Ok(match via {
            Via::Unreachable => Route::Unreachable,
            Via::Prohibited => Route::Prohibited,
            _ => Route::Blackhole,
        });
    };
    let hop = |gateway: &Gateway| {
        let interface = InterfaceId(settings.interface_to(gateway)? as u16);
        Ok(NextHop { interface, gateway: Some(gateway.address), on_link: false, weight: 1 })
    };
    gateways.iter().map(hop).collect::<Result<_, ValueError>>().map(Route::Via)
}
