//! The links of a node's ports, with an index of their deadlines: a node with many ports cannot
//! check every port after every input.

use std::collections::BTreeMap;

use plexus_wire::Time;

use crate::link::Link;
use crate::timers::Timers;

/// A link for each port that has ever had a carrier. Links change only by
/// [`change`](Links::change), so the deadlines stored here are always current.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Boxed: nodes of the map have room for eleven links, and are half empty.
    links: BTreeMap<u8, Box<Link>>,
    due: Timers<u8>,
}

impl Links {
    /// A port's link.
    pub(super) fn get(&self, port: u8) -> Option<&Link> {
        self.links.get(&port).map(|link| &**link)
    }

    /// All links, in the order of their ports.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u8, &Link)> {
        self.links.iter().map(|(port, link)| (*port, &**link))
    }

    /// All ports that have a link.
    pub(super) fn ports(&self) -> Vec<u8> {
        self.links.keys().copied().collect()
    }

    /// Creates a port's link, unless it exists.
    pub(super) fn open(&mut self, port: u8, make: impl FnOnce() -> Link) {
        self.links.entry(port).or_insert_with(|| Box::new(make()));
    }

    /// Applies a change to a port's link, if there is one.
    pub(super) fn change<T>(&mut self, port: u8, how: impl FnOnce(&mut Link) -> T) -> Option<T> {
        let link = self.links.get_mut(&port)?;
        let came = how(link);
        self.due.set(port, link.next_deadline());
        Some(came)
    }

    /// Applies a change to all links.
    pub(super) fn change_all(&mut self, mut how: impl FnMut(&mut Link)) {
        for (port, link) in &mut self.links {
            how(link);
            self.due.set(*port, link.next_deadline());
        }
    }

    /// Applies a change to each link that is due by now, in the order of the ports. Returns the
    /// results.
    pub(super) fn change_due<T>(
        &mut self,
        now: Time,
        mut how: impl FnMut(&mut Link) -> T,
    ) -> Vec<(u8, T)> {
        let mut ports: Vec<u8> = std::iter::from_fn(|| self.due.due(now)).collect();
        ports.sort_unstable();
        let changed = |port| Some((port, self.change(port, &mut how)?));
        ports.into_iter().filter_map(changed).collect()
    }

    /// When the next link is due.
    pub(super) fn next_deadline(&self) -> Time {
        self.due.next()
    }
}
