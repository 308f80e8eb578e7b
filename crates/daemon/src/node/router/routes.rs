//! A router's static routes: those of its file, and those of a file beside it.

use plexus_config::{ROUTE_LINE, RouterSettings, ValueError, Via, read_route_file};
use plexus_control::router::Route;
use plexus_node::routes::{of_settings, route};
use plexus_wire::Prefix;

/// All static routes that settings name, in the control plane's words. In a file of routes a line
/// is `PREFIX GATEWAY …`, or `PREFIX blackhole` (or `unreachable`, `prohibited`).
///
/// # Errors
/// With file and line, when the file of routes cannot be read.
pub(crate) fn static_routes(settings: &RouterSettings) -> Result<Vec<(Prefix, Route)>, String> {
    let mut routes = of_settings(settings)?;
    let Some(path) = &settings.routes_file else { return Ok(routes) };
    let routes_max = settings.routes_max;
    read_route_file(path, |prefix, via| {
        let wrong = |why: String| ValueError::new(why, ROUTE_LINE);
        let via = Via::of(via, prefix).map_err(wrong)?;
        if routes.len() >= routes_max {
            return Err(wrong(format!("there are more than {routes_max} routes: see routes_max")));
        }
        routes.push((prefix, route(settings, &via)?));
        Ok(())
    })?;
    Ok(routes)
}
