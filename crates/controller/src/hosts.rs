//! The host database: the place and addresses of each station.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use plexus_wire::address::is_link_local;
use plexus_wire::{MacAddr, Prefix};

use crate::keyed::{Keyed, Seed};
use crate::topology::Place;

/// A station.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) at: Place,
    /// In the order in which they were learned.
    pub(crate) ips: Vec<IpAddr>,
    /// Numbers of the groups that it belongs to, in order.
    pub(crate) groups: Vec<u16>,
}

impl Host {
    pub(crate) fn has(&self, is_v4: bool) -> bool {
        self.ips.iter().any(|ip| ip.is_ipv4() == is_v4)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    stations: Keyed<MacAddr, Host>,
    by_ip: Keyed<IpAddr, MacAddr>,
    /// All stations.
    order: BTreeSet<MacAddr>,
    per_port: BTreeMap<Place, BTreeSet<MacAddr>>,
    /// Stations of which no address of the version, IPv4 or IPv6, [counts](Hosts::counts).
    without: [BTreeSet<MacAddr>; 2],
    /// The group's subnets.
    subnets: Vec<Prefix>,
}

fn version(is_v4: bool) -> usize {
    usize::from(!is_v4)
}

impl Hosts {
    pub(crate) fn new(seed: Seed, subnets: Vec<Prefix>) -> Hosts {
        let (stations, by_ip) = (Keyed::new(seed), Keyed::new(seed));
        Hosts { stations, by_ip, subnets, ..Hosts::default() }
    }

    /// Whether an address is a station's own in the group. Nearly every host has a link-local one,
    /// whatever else it has. One outside the subnets may be of a network that the station leads to.
    fn counts(&self, ip: IpAddr) -> bool {
        let is_in_subnet = || self.subnets.iter().any(|subnet| subnet.contains(ip));
        !is_link_local(ip) && (self.subnets.is_empty() || is_in_subnet())
    }

    pub(crate) fn get(&self, mac: MacAddr) -> Option<&Host> {
        self.stations.get(&mac)
    }

    pub(crate) fn get_mut(&mut self, mac: MacAddr) -> Option<&mut Host> {
        self.stations.get_mut(&mac)
    }

    pub(crate) fn by_ip(&self, ip: IpAddr) -> Option<MacAddr> {
        self.by_ip.get(&ip).copied()
    }

    /// All, in the order of their addresses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (MacAddr, &Host)> {
        self.order.iter().filter_map(|mac| Some((*mac, self.stations.get(mac)?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.stations.len()
    }

    pub(crate) fn len_at(&self, port: Place) -> usize {
        self.per_port.get(&port).map_or(0, BTreeSet::len)
    }

    /// Those at a port.
    pub(crate) fn at(&self, port: Place) -> impl Iterator<Item = (MacAddr, &Host)> {
        let all = self.per_port.get(&port).into_iter().flatten();
        all.filter_map(|mac| Some((*mac, self.stations.get(mac)?)))
    }

    /// Those of a node.
    pub(crate) fn of_node(&self, node: u32) -> impl Iterator<Item = MacAddr> {
        let place = |port| Place { node, port };
        self.per_port.range(place(0)..=place(u8::MAX)).flat_map(|(_, all)| all).copied()
    }

    /// Adds an unknown station.
    pub(crate) fn add(&mut self, mac: MacAddr, at: Place) {
        let host = Host { at, ips: Vec::new(), groups: Vec::new() };
        self.stations.insert(mac, host);
        self.order.insert(mac);
        self.per_port.entry(at).or_default().insert(mac);
        for without in &mut self.without {
            without.insert(mac);
        }
    }

    pub(crate) fn remove(&mut self, mac: MacAddr) -> Option<Host> {
        let host = self.stations.remove(&mac)?;
        self.order.remove(&mac);
        self.leave(mac, host.at);
        for ip in &host.ips {
            self.by_ip.remove(ip);
        }
        for without in &mut self.without {
            without.remove(&mac);
        }
        Some(host)
    }

    fn leave(&mut self, mac: MacAddr, at: Place) {
        if let Some(stations) = self.per_port.get_mut(&at) {
            stations.remove(&mac);
            if stations.is_empty() {
                self.per_port.remove(&at);
            }
        }
    }

    /// Moves a known station; returns its old place.
    pub(crate) fn move_to(&mut self, mac: MacAddr, to: Place) -> Option<Place> {
        let host = self.stations.get_mut(&mac)?;
        let from = std::mem::replace(&mut host.at, to);
        self.leave(mac, from);
        self.per_port.entry(to).or_default().insert(mac);
        Some(from)
    }

    /// Assigns an address to a known station, taking it from any other.
    pub(crate) fn bind(&mut self, mac: MacAddr, ip: IpAddr) {
        if self.by_ip(ip) == Some(mac) {
            return;
        }
        self.unbind(ip);
        let Some(host) = self.stations.get_mut(&mac) else { return };
        host.ips.push(ip);
        self.by_ip.insert(ip, mac);
        if self.counts(ip) {
            self.without[version(ip.is_ipv4())].remove(&mac);
        }
    }

    /// Removes an address from its station.
    pub(crate) fn unbind(&mut self, ip: IpAddr) {
        let Some(mac) = self.by_ip.remove(&ip) else { return };
        let Some(host) = self.stations.get_mut(&mac) else { return };
        host.ips.retain(|own| *own != ip);
        let rest = host.ips.clone();
        if !rest.iter().any(|own| own.is_ipv4() == ip.is_ipv4() && self.counts(*own)) {
            self.without[version(ip.is_ipv4())].insert(mac);
        }
    }

    /// Stations of which no known address of the version is in the group's subnets, starting after
    /// `after` and wrapping round.
    pub(crate) fn without(&self, is_v4: bool, after: MacAddr) -> impl Iterator<Item = MacAddr> {
        let set = &self.without[version(is_v4)];
        set.range(after..).chain(set.range(..after)).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compared with a plain list of stations and a plain list of addresses.
        #[test]
        fn the_indexes_agree_with_a_naive_model(
            steps in proptest::collection::vec((0..5_u8, 0..6_u8, 0..6_u8), 1..60))
        {
            let mac = |n: u8| MacAddr([2, 0, 0, 0, 0, n]);
            let ip = |n: u8| IpAddr::from(Ipv4Addr::new(10, 0, 0, n));
            let place = |n: u8| Place { node: u32::from(n) / 3, port: n % 3 };
            // The last two addresses are outside.
            let subnet = Prefix::new(ip(0), 30).unwrap();
            let mut hosts = Hosts { subnets: vec![subnet], ..Hosts::default() };
            let mut model: Vec<(u8, Place, Vec<u8>)> = Vec::new();
            for (what, a, b) in steps {
                let known = model.iter().position(|(n, ..)| *n == a);
                match (what, known) {
                    (0, None) => { hosts.add(mac(a), place(b)); model.push((a, place(b), vec![])); }
                    (1, Some(at)) => { hosts.remove(mac(a)); model.remove(at); }
                    (2, Some(at)) => { hosts.move_to(mac(a), place(b)); model[at].1 = place(b); }
                    (3, Some(at)) => {
                        hosts.bind(mac(a), ip(b));
                        if !model[at].2.contains(&b) {
                            model.iter_mut().for_each(|(.., ips)| ips.retain(|i| *i != b));
                            model[at].2.push(b);
                        }
                    }
                    (4, _) => {
                        hosts.unbind(ip(b));
                        model.iter_mut().for_each(|(.., ips)| ips.retain(|i| *i != b));
                    }
                    _ => {}
                }
                prop_assert_eq!(hosts.len(), model.len());
                let known: BTreeSet<_> = model.iter().map(|m| mac(m.0)).collect();
                prop_assert!(hosts.iter().map(|(mac, _)| mac).eq(known));
                for (n, at, ips) in &model {
                    let host = hosts.get(mac(*n)).unwrap();
                    prop_assert_eq!(host.at, *at);
                    prop_assert_eq!(&host.ips, &ips.iter().map(|i| ip(*i)).collect::<Vec<_>>());
                    let same_port = model.iter().filter(|m| m.1 == *at).count();
                    prop_assert_eq!(hosts.len_at(*at), same_port);
                }
                for n in 0..6 {
                    let owner = model.iter().find(|m| m.2.contains(&n)).map(|m| mac(m.0));
                    prop_assert_eq!(hosts.by_ip(ip(n)), owner);
                    let without: BTreeSet<_> = hosts.without(true, mac(n)).collect();
                    let expected = model.iter().filter(|m| m.2.iter().all(|ip| *ip > 3));
                    let expected = expected.map(|m| mac(m.0));
                    prop_assert_eq!(without, expected.collect());
                }
                prop_assert_eq!(hosts.without(false, mac(3)).count(), model.len());
            }
        }
    }
}
