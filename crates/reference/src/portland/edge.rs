//! The hosts of an edge switch: their actual addresses, and their PMACs (§3.2).

use std::collections::HashMap;
use std::net::Ipv4Addr;

use plexus_wire::MacAddr;

use super::location::Place;
use super::pmac;

/// Hosts at a port, at most: a port cannot make the switch remember more.
const PER_PORT_MAX: usize = 4096;

/// A host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Station {
    pub(super) port: u16,
    /// At that port, from 1.
    pub(super) number: u16,
    pub(super) actual: MacAddr,
    pub(super) ip: Option<Ipv4Addr>,
}

impl Station {
    /// Its address at this place.
    pub(super) fn pmac(&self, place: Place) -> MacAddr {
        pmac(place, self.port as u8, self.number)
    }
}

/// The hosts behind all ports.
#[derive(Debug, Default)]
pub(super) struct Stations {
    all: Vec<Station>,
    by_actual: HashMap<(u16, MacAddr), usize>,
    by_number: HashMap<(u16, u16), usize>,
}

impl Stations {
    /// A host at a port, which gets a number if it is new. `None`: the port has too many.
    pub(super) fn at(&mut self, port: u16, actual: MacAddr) -> Option<&mut Station> {
        if let Some(&known) = self.by_actual.get(&(port, actual)) {
            return self.all.get_mut(known);
        }
        let there = self.all.iter().filter(|s| s.port == port).count();
        if there >= PER_PORT_MAX || actual.is_multicast() {
            return None;
        }
        let number = there as u16 + 1;
        self.by_actual.insert((port, actual), self.all.len());
        self.by_number.insert((port, number), self.all.len());
        self.all.push(Station { port, number, actual, ip: None });
        self.all.last_mut()
    }

    /// The host with a PMAC of this place.
    pub(super) fn with_pmac(&self, place: Place, pmac: MacAddr) -> Option<&Station> {
        let [a, b, position, port, c, d] = pmac.0;
        let is_here = place == Place { pod: u16::from_be_bytes([a, b]), position };
        let key = (u16::from(port), u16::from_be_bytes([c, d]));
        self.by_number.get(&key).filter(|_| is_here).map(|&known| &self.all[known])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Station> {
        self.all.iter()
    }
}
