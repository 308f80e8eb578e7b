//! A router's static routes: those of its file, and those of a file beside it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use plexus_config::{RouterSettings, Via, parse_route_prefix};
use plexus_control::router::Route;
use plexus_node::routes::{of_settings, route};
use plexus_wire::Prefix;

/// Longest line of a file of routes.
const LINE_MAX: usize = 4096;

/// All static routes that settings name, in the control plane's words.
///
/// # Errors
/// With file and line, when the file of routes cannot be read.
pub(crate) fn static_routes(settings: &RouterSettings) -> Result<Vec<(Prefix, Route)>, String> {
    let mut routes = of_settings(settings)?;
    if let Some(path) = &settings.routes_file {
        read(path, settings, &mut routes)?;
    }
    Ok(routes)
}

/// Reads lines of `PREFIX GATEWAY …`, or `PREFIX blackhole` (or `unreachable`, `prohibited`). A `#`
/// begins a comment.
fn read(
    path: &Path,
    settings: &RouterSettings,
    routes: &mut Vec<(Prefix, Route)>,
) -> Result<(), String> {
    let routes_max = settings.routes_max;
    let name = path.display();
    let file = File::open(path).map_err(|e| format!("{name}: cannot be read: {e}"))?;
    let mut lines = BufReader::new(file);
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let limited = &mut std::io::Read::take(&mut lines, LINE_MAX as u64);
        let count = limited.read_until(b'\n', &mut bytes);
        if count.map_err(|e| format!("{name}:{number}: cannot be read: {e}"))? == 0 {
            break;
        }
        let wrong = |why: String| {
            let help = "a line is PREFIX GATEWAY …, as in 192.0.2.0/24 10.0.0.1";
            format!("{name}:{number}: {why}; {help}")
        };
        if bytes.len() == LINE_MAX {
            return Err(wrong(format!("the line is longer than {LINE_MAX} bytes")));
        }
        let line = std::str::from_utf8(&bytes).map_err(|_| wrong("this is no text".into()))?;
        let words: Vec<&str> =
            line.split('#').next().unwrap_or("").split_ascii_whitespace().collect();
        let Some((prefix, via)) = words.split_first() else { continue };
        let prefix = parse_route_prefix(prefix).map_err(|e| wrong(e.message))?;
        let via = Via::of(via, prefix).map_err(wrong)?;
        if routes.len() >= routes_max {
            return Err(wrong(format!("there are more than {routes_max} routes: see routes_max")));
        }
        let route = route(settings, &via)
            .map_err(|e| format!("{name}:{number}: {}; {}", e.message, e.help))?;
        routes.push((prefix, route));
    }
    Ok(())
}
