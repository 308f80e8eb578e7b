//! File descriptors: as many as faces may take, or a bound on connections that leaves enough for
//! everything else.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are kept for what the process may open later: control clients, certificates,
/// devices that come back, the workers of ports.
const SPARE: u64 = 128;
/// Open descriptors, if they cannot be counted.
const OPEN: u64 = 64;

/// Raises the limit, as far as allowed, to the open descriptors and so many connections; gives how
/// many connections there may be.
pub(super) fn make_room(connections: usize) -> usize {
    let open = fs::read_dir("/proc/self/fd").map_or(OPEN, |all| all.count() as u64);
    let wanted = open.saturating_add(SPARE).saturating_add(connections as u64);
    let before = getrlimit(Resource::Nofile);
    let mut allowed = before.current.unwrap_or(wanted);
    let raised = wanted.min(before.maximum.unwrap_or(wanted));
    if raised > allowed {
        match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..before }) {
            Ok(()) => allowed = raised,
            Err(error) => tracing::warn!(%error, "the limit of descriptors stays as it is"),
        }
    }
    let left = left_for_connections(allowed, open);
    if left < connections {
        tracing::warn!(
            allowed,
            wanted,
            connections = left,
            "descriptors are fewer than faces_max asks for: raise their hard limit \
             (LimitNOFILE= of the unit, ulimit -Hn), or lower faces_max"
        );
    }
    left.min(connections)
}

/// The part of the allowed descriptors that connections may take: at least half of those left.
fn left_for_connections(allowed: u64, open: u64) -> usize {
    let left = allowed.saturating_sub(open);
    usize::try_from(left.saturating_sub(SPARE).max(left / 2)).unwrap_or(usize::MAX)
}
