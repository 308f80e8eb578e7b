//! Classes of packets that pass a function, a host that routes by itself (SPEC.md, 17). Nodes that
//! route are told the classes, and where each function is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use plexus_config::Otherwise;
use plexus_wire::Time;
use plexus_wire::fabric::message::{Class, Classes as Told, Function};

use crate::Controller;
use crate::controller::Timer;
use crate::event::Event;

/// After the start, nodes keep the stations of functions that have not been heard yet.
const GATHER: Duration = Duration::from_secs(5);
/// A function that is missing is looked for so often.
const SEEK_EVERY: Duration = Duration::from_secs(1);

/// What nodes are told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    /// As they stand.
    current: Vec<Class>,
    /// Functions that have been there.
    heard: BTreeSet<IpAddr>,
    /// The version that each node was told in this session.
    told: BTreeMap<u32, u64>,
    version: u64,
    /// The first session of a node began then.
    began: Option<Time>,
    /// When missing functions are looked for again.
    seek_at: Time,
}

impl Classes {
    /// A node's session is new.
    pub(crate) fn forget(&mut self, node: u32) {
        self.told.remove(&node);
    }

    /// The settings are new: other nodes may route now.
    pub(crate) fn forget_all(&mut self) {
        self.told.clear();
    }
}

impl Controller {
    /// Tells nodes the classes, as far as they have changed; called at the end of each input.
    pub(crate) fn tell_classes(&mut self, now: Time) {
        let routes = self.config.subnets.iter().any(|subnet| subnet.gateway.is_some());
        if !routes || self.sessions.iter().all(|session| !session.is_open) {
            return;
        }
        let gathered = *self.classes.began.get_or_insert(now) + GATHER;
        let current = self.find_classes(now < gathered);
        let is_missing = |function: &Function| function.mac.is_none();
        let are_missing = current.iter().flat_map(|class| &class.functions).any(is_missing);
        if are_missing && self.classes.seek_at <= now {
            self.classes.seek_at = now + SEEK_EVERY;
            self.seek_functions(now);
        }
        let due = [(are_missing, self.classes.seek_at), (now < gathered, gathered)];
        let due = due.into_iter().filter(|(is_due, _)| *is_due).map(|(_, at)| at);
        self.rearm(due.min(), Timer::Classes);
        if self.classes.version == 0 || self.classes.current != current {
            for (place, class) in current.iter().enumerate() {
                let there = class.functions.iter().filter(|function| !is_missing(function)).count();
                let is_news = self.classes.current.get(place) != Some(class);
                let class = self.config.classes[place].name.clone();
                if is_news {
                    self.log(Event::Class { class, there: there as u32 });
                }
            }
            self.classes.current = current;
            self.classes.version += 1;
        }
        for node in 0..self.topology.nodes.len() as u32 {
            let is_open = self.sessions[node as usize].is_open && self.topology.node(node).up;
            let version = self.classes.version;
            if !is_open || self.classes.told.get(&node) == Some(&version) {
                continue;
            }
            self.classes.told.insert(node, version);
            // Also a node that does not route: its hosts must not pass by a function.
            let classes = self.classes.current.clone();
            let version = self.epoch << 32 | version;
            self.send_reliably(node, 0, Told { version, classes });
        }
    }

    /// The settings with the stations of the functions that are known. `gathering`: others may be
    /// there too.
    fn find_classes(&mut self, gathering: bool) -> Vec<Class> {
        let (hosts, heard) = (&self.hosts, &mut self.classes.heard);
        let mut function = |ip: &IpAddr| {
            let mac = hosts.by_ip(*ip);
            if mac.is_some() {
                heard.insert(*ip);
            }
            let unheard = gathering && !heard.contains(ip);
            Function { ip: *ip, mac, unheard }
        };
        let classes = self.config.classes.iter().map(|class| {
            let (port_first, port_last) = class.ports;
            Class {
                protocol: class.protocol,
                from: class.from.map(Into::into),
                to: class.to.map(Into::into),
                port_first,
                port_last,
                both_ways: class.both_ways,
                required: class.otherwise == Otherwise::Drop,
                functions: class.via.iter().map(&mut function).collect(),
            }
        });
        classes.collect()
    }

    /// Asks the stations for which the missing functions' addresses are reserved. A host that
    /// only forwards may never have said that it has one.
    fn seek_functions(&mut self, now: Time) {
        let all = self.config.classes.iter().flat_map(|class| class.via.iter().copied());
        let missing: Vec<_> = all.filter(|ip| self.hosts.by_ip(*ip).is_none()).collect();
        for ip in missing {
            let reserved = self.config.reservations.iter().find(|r| ip == r.ip).map(|r| r.mac);
            let station = reserved.and_then(|mac| Some((mac, self.hosts.get(mac)?.at)));
            if let Some(station) = station {
                self.ask_station(now, ip, station);
            }
        }
    }
}
