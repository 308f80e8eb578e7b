//! Scan detection: closes a port for a while when its hosts ask for too many unknown addresses or
//! open too many flows (seed §4.2.2: "the source host's port is blocked if the controller decides
//! the source host is misbehaving").

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use plexus_config::ControllerLimits;
use plexus_wire::Time;

use crate::keyed::{Keyed, Seed};
use crate::topology::Place;

/// Counts of a port's hosts in the current window.
#[derive(Clone, Debug)]
struct Window {
    began: Time,
    /// Unknown addresses asked for, each once; never more than the limit.
    unknown: BTreeSet<IpAddr>,
    flows: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Scans {
    windows: Keyed<Place, Window>,
    /// Closed ports, and when they reopen.
    closed: BTreeMap<Place, Time>,
}

impl Scans {
    pub(crate) fn new(seed: Seed) -> Scans {
        Scans { windows: Keyed::new(seed), ..Scans::default() }
    }

    fn window(&mut self, now: Time, limits: &ControllerLimits, port: Place) -> &mut Window {
        let fresh = || Window { began: now, unknown: BTreeSet::new(), flows: 0 };
        let window = self.windows.get_or_insert_with(port, fresh);
        if now.since(window.began) >= ms(limits.scan_window_ms) {
            *window = fresh();
        }
        window
    }

    /// An unknown address was asked for; true if the limit is exceeded.
    pub(crate) fn unknown(
        &mut self,
        now: Time,
        limits: &ControllerLimits,
        port: Place,
        ip: IpAddr,
    ) -> bool {
        let window = self.window(now, limits, port);
        if window.unknown.len() < limits.scan_unknown as usize {
            window.unknown.insert(ip);
            return false;
        }
        !window.unknown.contains(&ip)
    }

    /// A flow was opened; true if the limit is exceeded.
    pub(crate) fn flow(&mut self, now: Time, limits: &ControllerLimits, port: Place) -> bool {
        let window = self.window(now, limits, port);
        window.flows = window.flows.saturating_add(1);
        window.flows > limits.scan_flows
    }

    pub(crate) fn is_closed(&self, port: Place) -> bool {
        self.closed.contains_key(&port)
    }

    pub(crate) fn close(&mut self, port: Place, until: Time) {
        self.windows.remove(&port);
        self.closed.insert(port, until);
    }

    /// Reopens a port whose time is over.
    pub(crate) fn open(&mut self, now: Time, port: Place) -> bool {
        let due = self.closed.get(&port).is_some_and(|until| *until <= now);
        if due {
            self.closed.remove(&port);
        }
        due
    }

    /// Closed ports of a node, which loses this state when it restarts.
    pub(crate) fn closed_at(&self, node: u32) -> Vec<Place> {
        self.closed.keys().filter(|p| p.node == node).copied().collect()
    }
}

/// Milliseconds as a duration.
pub(crate) fn ms(ms: u32) -> std::time::Duration {
    std::time::Duration::from_millis(ms.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_may_ask_in_vain_as_often_as_the_limit_says() {
        let limits = ControllerLimits { scan_unknown: 3, scan_flows: 2, ..Default::default() };
        let port = Place { node: 0, port: 1 };
        let mut scans = Scans::default();
        let ask = |scans: &mut Scans, at, last| {
            scans.unknown(Time::from_secs(at), &limits, port, [10, 0, 0, last].into())
        };
        // Repeated questions for the same address are not a scan.
        assert!((0..100).all(|_| !ask(&mut scans, 0, 1)));
        assert!(!ask(&mut scans, 1, 2) && !ask(&mut scans, 1, 3) && !ask(&mut scans, 1, 1));
        assert!(ask(&mut scans, 1, 4));
        // A new window, a new count.
        assert!(!ask(&mut scans, 10, 4));
        let flows: Vec<bool> = (0..3).map(|_| scans.flow(Time::ZERO, &limits, port)).collect();
        assert_eq!(flows, [false, false, true]);
        scans.close(port, Time::from_secs(20));
        assert!(scans.is_closed(port) && !scans.open(Time::from_secs(19), port));
        assert!(scans.open(Time::from_secs(20), port) && !scans.is_closed(port));
    }
}
