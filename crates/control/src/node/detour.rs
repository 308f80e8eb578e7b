//! Packets of a class pass a function (SPEC.md, 17). The data plane sends them there. Those that it
//! has handed over, because their hosts had no way yet, are sent there from here.

use std::net::IpAddr;

use plexus_wire::fabric::class::{Detour, detour, is_function};
use plexus_wire::fabric::message::{Class, Classes as Told};
use plexus_wire::flow::FlowKey;
use plexus_wire::{MacAddr, Time};

use super::Node;
use super::effect::{Turn, Unserved};
use super::host_frame::{HostFrame, Matter, Party};
use super::resolve::{Need, addressed};
use super::routing::Routing;

/// The classes that the controller has told.
#[derive(Debug, Default)]
pub(super) struct Classes {
    version: u64,
    list: Vec<Class>,
}

impl Classes {
    /// Takes a list, unless it is older than the last one. Gives it for the data plane.
    pub(super) fn take(&mut self, told: Told) -> Option<Vec<Class>> {
        if told.version < self.version {
            return None;
        }
        let mut list = told.classes;
        for function in list.iter_mut().flat_map(|class| &mut class.functions) {
            if function.unheard {
                function.mac = self.station_of(function.ip);
            }
        }
        (self.version, self.list) = (told.version, list);
        Some(self.list.clone())
    }

    /// Whether the controller has told any list, be it empty.
    pub(super) fn are_told(&self) -> bool {
        self.version > 0
    }

    /// Whether a station is a function.
    pub(super) fn is_function(&self, station: MacAddr) -> bool {
        is_function(&self.list, station)
    }

    fn station_of(&self, ip: IpAddr) -> Option<MacAddr> {
        let functions = self.list.iter().flat_map(|class| &class.functions);
        functions.filter(|function| function.ip == ip).find_map(|function| function.mac)
    }

    /// The addresses of a function.
    pub(super) fn addresses_of(&self, station: MacAddr) -> impl Iterator<Item = IpAddr> {
        let functions = self.list.iter().flat_map(|class| &class.functions);
        functions.filter(move |function| function.mac == Some(station)).map(|function| function.ip)
    }
}

/// The addresses of a station that packets are routed to: a neighbour, or a function.
pub(super) fn addresses_of(
    routing: &Routing,
    classes: &Classes,
    station: MacAddr,
) -> impl Iterator<Item = IpAddr> {
    routing.addresses_of(station).chain(classes.addresses_of(station))
}

/// The first of the addresses that has the IP version of `like`, otherwise the first of all. The
/// host that asks for it may have no address of the other version.
pub(super) fn first_like(addresses: impl Iterator<Item = IpAddr>, like: IpAddr) -> Option<IpAddr> {
    // `min_by_key` returns the first of several.
    addresses.min_by_key(|address| address.is_ipv4() != like.is_ipv4())
}

impl Node {
    /// Sends a routed packet of a host at a port, which has a way to its neighbour, to a function
    /// instead, or drops it. True if it did.
    pub(super) fn take_detour(&mut self, now: Time, port: u8, bytes: &[u8]) -> bool {
        let (false, Some(group)) = (self.classes.list.is_empty(), &self.group) else {
            return false;
        };
        // While there are classes, the data plane lets nothing else pass between networks.
        let frame = HostFrame::parse(bytes).filter(|frame| group.is_between_networks(frame));
        let Some(frame) = frame.filter(|frame| frame.destination != group.mac) else {
            return false;
        };
        let key = FlowKey::from_frame(bytes);
        let by = match detour(&self.classes.list, frame.source, key.as_ref()) {
            None => return false,
            Some(Detour::By { mac, .. }) if mac == frame.destination => return false,
            Some(by) => by,
        };
        let mut turn = Turn::new(now, &mut self.timers);
        let source = match frame.matter {
            Matter::Data { source, .. } => Some(source),
            _ => None,
        };
        match (by, source) {
            (Detour::By { ip, mac }, Some(source)) => {
                let own = first_like(self.classes.addresses_of(frame.source), ip);
                let own = own.or_else(|| self.stations.address(port, frame.source, ip));
                let party = Party { mac: frame.source, ip: own.unwrap_or(source) };
                let (moved, random) = (addressed(bytes, mac), &mut self.random);
                self.resolver.ask(&mut turn, port, party, ip, Need::Route(&moved), random);
            }
            _ => turn.dropped(port, Unserved::NoRoute),
        }
        let out = turn.out;
        self.carry_out(now, out);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_the_packets_version_comes_first_and_another_is_better_than_none() {
        let all = ["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"].map(|ip| ip.parse().unwrap());
        let found = |all: &[IpAddr], other| first_like(all.iter().copied(), other);
        assert_eq!((found(&all, all[1]), found(&all, all[3])), (Some(all[0]), Some(all[2])));
        // A host may send IPv4 packets to a neighbour that it knows by an IPv6 address (RFC 8950).
        assert_eq!((found(&all[2..], all[0]), found(&[], all[0])), (Some(all[2]), None));
    }
}
