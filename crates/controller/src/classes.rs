//! Classes of packets that pass a function, a host that routes by itself (SPEC.md, 17). Nodes that
//! route are told the classes, and where each function is.

use std::collections::BTreeSet;
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

/// The classes as nodes are told them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    current: Vec<Class>,
    version: u64,
    /// Functions that have been there.
    heard: BTreeSet<IpAddr>,
    /// Nodes that do not have this version.
    untold: BTreeSet<u32>,
    /// The first session of a node began then.
    began: Option<Time>,
    /// When missing functions are looked for again.
    seek_at: Time,
}

impl Classes {
    /// A node's session is new.
    pub(crate) fn node_up(&mut self, now: Time, node: u32) {
        self.untold.insert(node);
        self.began.get_or_insert(now);
    }
}

impl Controller {
    /// Tells nodes the classes, as far as they have changed; called at the end of each input.
    pub(crate) fn tell_classes(&mut self, now: Time) {
        let routes = self.config.subnets.iter().any(|subnet| subnet.gateway.is_some());
        let Some(began) = self.classes.began.filter(|_| routes) else { return };
        let is_news = self.find_classes(now, began + GATHER);
        if is_news {
            self.classes.version += 1;
            self.classes.untold.extend(0..self.topology.nodes.len() as u32);
        }
        let version = self.epoch << 32 | self.classes.version;
        // Also a node that does not route: its hosts must not pass by a function.
        let is_reached =
            |node: &u32| self.sessions[*node as usize].is_open && self.topology.node(*node).up;
        for node in self.classes.untold.extract_if(.., is_reached).collect::<Vec<u32>>() {
            let classes = self.classes.current.clone();
            self.send_reliably(node, 0, Told { version, classes });
        }
    }

    /// Finds the stations of functions, and looks for those that are missing. Tells whether the
    /// classes are other ones than before.
    fn find_classes(&mut self, now: Time, gathered: Time) -> bool {
        if self.config.classes.is_empty() && self.classes.current.is_empty() {
            return self.classes.version == 0;
        }
        let current = self.classes_at(now < gathered);
        let is_missing = |function: &Function| function.mac.is_none();
        let are_missing = current.iter().flat_map(|class| &class.functions).any(is_missing);
        if are_missing && self.classes.seek_at <= now {
            self.classes.seek_at = now + SEEK_EVERY;
            self.seek_functions(now);
        }
        let due = [(are_missing, self.classes.seek_at), (now < gathered, gathered)];
        let due = due.into_iter().filter(|(is_due, _)| *is_due).map(|(_, at)| at);
        self.rearm(due.min(), Timer::Classes);
        if self.classes.version > 0 && self.classes.current == current {
            return false;
        }
        for (place, class) in current.iter().enumerate() {
            let there = class.functions.iter().filter(|function| !is_missing(function)).count();
            if self.classes.current.get(place) != Some(class) {
                let class = self.config.classes[place].name.clone();
                self.log(Event::Class { class, there: there as u32 });
            }
        }
        self.classes.current = current;
        true
    }

    /// The settings with the stations of the functions that are known. `gathering`: others may be
    /// there too.
    fn classes_at(&mut self, gathering: bool) -> Vec<Class> {
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
