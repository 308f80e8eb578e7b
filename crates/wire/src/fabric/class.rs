//! Classes of packets that pass a function on their way through the group's router (SPEC.md, 17).

use std::net::IpAddr;

use super::message::{Class, Function, Network};
use crate::flow::{FlowKey, weight};
use crate::ip::Protocol;
use crate::{MacAddr, Prefix};

/// IPv6 extension headers (RFC 7045, 4): hop-by-hop options, routing, fragment, destination
/// options, mobility, HIP, Shim6.
const EXTENSIONS: [u8; 7] = [0, 43, 44, 60, 135, 139, 140];

/// Where a packet of a class goes instead of its neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detour {
    /// To this function.
    By {
        /// Its address in one of the group's networks.
        ip: IpAddr,
        /// Its station.
        mac: MacAddr,
    },
    /// Nowhere: no function is there, and the class requires one.
    Missing,
}

/// The detour of a packet that a station sends; none if it goes on to its neighbour. `key`: absent
/// if the packet's headers cannot be read, so that it may be of any class.
pub fn detour(classes: &[Class], sender: MacAddr, key: Option<&FlowKey>) -> Option<Detour> {
    // Only classes after the last one whose function has sent it.
    let passed = classes.iter().rposition(|class| class.is_function(sender));
    let mut later = classes.iter().skip(passed.map_or(0, |passed| passed + 1));
    match key {
        Some(key) => later.filter(|class| class.holds(key)).find_map(|class| class.detour(key)),
        None => later.any(|class| class.required).then_some(Detour::Missing),
    }
}

/// Whether a station is a function: it passes on packets of any source.
pub fn is_function(classes: &[Class], station: MacAddr) -> bool {
    classes.iter().any(|class| class.is_function(station))
}

impl Class {
    /// Whether a station is one of its functions.
    fn is_function(&self, station: MacAddr) -> bool {
        self.functions.iter().any(|function| function.mac == Some(station))
    }

    /// Whether packets of a flow are of the class. Fragments have no ports, and are if all else
    /// fits: they follow the packets that have.
    pub fn holds(&self, key: &FlowKey) -> bool {
        self.holds_one_way(key) || self.both_ways && self.holds_one_way(&key.reversed())
    }

    fn holds_one_way(&self, key: &FlowKey) -> bool {
        // Of a fragment whose next header is one more extension header the protocol is not known.
        let is_hidden = key.ports.is_none() && EXTENSIONS.contains(&key.protocol.0);
        let is_in = |network: &Option<Network>, ip| network.as_ref().is_none_or(|n| n.has(ip));
        let has_port = || match key.ports {
            Some((_, port)) => (self.port_first..=self.port_last).contains(&port),
            None => {
                let has_ports = [Protocol::TCP, Protocol::UDP, Protocol::SCTP];
                let is_any = (self.port_first, self.port_last) == (0, u16::MAX);
                is_any || is_hidden || has_ports.contains(&key.protocol)
            }
        };
        self.protocol.is_none_or(|protocol| protocol == key.protocol.0 || is_hidden)
            && is_in(&self.from, key.src)
            && is_in(&self.to, key.dst)
            && has_port()
    }

    /// None: the packet goes on as if the class did not hold.
    fn detour(&self, key: &FlowKey) -> Option<Detour> {
        let hosts = key.of_hosts();
        // Alike in both directions: a firewall sees the whole of a connection.
        let hash = hosts.hash(0).wrapping_add(hosts.reversed().hash(0));
        let present = |(place, Function { ip, mac, .. }): (usize, &Function)| {
            mac.map(|mac| (weight(hash, place), *ip, mac))
        };
        let there = self.functions.iter().enumerate().filter_map(present);
        match there.max_by_key(|(weight, ..)| *weight) {
            Some((_, ip, mac)) => Some(Detour::By { ip, mac }),
            None => self.required.then_some(Detour::Missing),
        }
    }
}

impl Network {
    /// Whether an address is in it; nothing is in one that does not exist.
    pub fn has(&self, ip: IpAddr) -> bool {
        Prefix::around(self.ip, self.prefix_len).is_ok_and(|prefix| prefix.contains(ip))
    }
}

impl From<Prefix> for Network {
    fn from(prefix: Prefix) -> Network {
        Network { ip: prefix.addr(), prefix_len: prefix.len() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mac(n: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, n])
    }

    fn function(n: u8) -> Function {
        Function { ip: IpAddr::from([10, 9, 0, n]), mac: Some(mac(n)), unheard: false }
    }

    fn network(text: &str) -> Option<Network> {
        Some(text.parse::<Prefix>().unwrap().into())
    }

    /// TCP to port 80 of a server, by one of two functions.
    fn web() -> Class {
        Class {
            protocol: Some(Protocol::TCP.0),
            from: None,
            to: network("10.2.0.0/24"),
            port_first: 80,
            port_last: 89,
            both_ways: false,
            required: true,
            functions: vec![function(1), function(2)],
        }
    }

    fn key(src: [u8; 4], dst: [u8; 4], protocol: Protocol, ports: Option<(u16, u16)>) -> FlowKey {
        FlowKey { vlan: None, src: src.into(), dst: dst.into(), protocol, ports }
    }

    const HOST: [u8; 4] = [10, 1, 0, 1];
    const SERVER: [u8; 4] = [10, 2, 0, 1];

    #[test]
    fn a_class_holds_the_packets_that_its_fields_name() {
        let holds = |class: &Class, key| class.holds(&key);
        let (tcp, udp) = (Protocol::TCP, Protocol::UDP);
        let web = web();
        assert!(holds(&web, key(HOST, SERVER, tcp, Some((5000, 80)))));
        assert!(holds(&web, key(HOST, SERVER, tcp, Some((5000, 89)))));
        assert!(!holds(&web, key(HOST, SERVER, tcp, Some((5000, 90)))));
        assert!(!holds(&web, key(HOST, SERVER, tcp, Some((80, 5000)))));
        assert!(!holds(&web, key(HOST, SERVER, udp, Some((5000, 80)))));
        assert!(!holds(&web, key(HOST, [10, 3, 0, 1], tcp, Some((5000, 80)))));
        // Its fragments follow.
        assert!(holds(&web, key(HOST, SERVER, tcp, None)));
        // So does a fragment behind an IPv6 header that hides the protocol.
        assert!(holds(&web, key(HOST, SERVER, Protocol(60), None)));
        // The way back is not of the class, unless it says so.
        let back = key(SERVER, HOST, tcp, Some((80, 5000)));
        assert!(!holds(&web, back));
        assert!(holds(&Class { both_ways: true, ..web.clone() }, back));
        let udp_at_80 = Class { protocol: None, ..web.clone() };
        let ping = key(HOST, SERVER, Protocol::ICMPV4, None);
        assert!(!holds(&udp_at_80, ping), "it has no ports");
        let all = Class { protocol: None, to: None, port_first: 0, port_last: u16::MAX, ..web };
        assert!(holds(&all, ping));
        assert!(!holds(&Class { from: network("fd00::/8"), ..all }, ping));
    }

    #[test]
    fn functions_form_a_chain_that_ends() {
        let any = |n| Class {
            protocol: None,
            to: None,
            port_first: 0,
            port_last: u16::MAX,
            functions: vec![function(n)],
            ..web()
        };
        let classes = [any(1), any(2), any(3)];
        let key = key(HOST, SERVER, Protocol::UDP, Some((1, 2)));
        let by = |sender| match detour(&classes, sender, Some(&key)) {
            Some(Detour::By { mac, .. }) => Some(mac),
            _ => None,
        };
        assert_eq!(by(mac(9)), Some(mac(1)));
        assert_eq!(by(mac(1)), Some(mac(2)));
        assert_eq!(by(mac(2)), Some(mac(3)));
        assert_eq!(by(mac(3)), None);
    }

    #[test]
    fn without_its_functions_a_class_drops_or_lets_on() {
        let mut class = web();
        class.functions.iter_mut().for_each(|function| function.mac = None);
        let key = key(HOST, SERVER, Protocol::TCP, Some((5000, 80)));
        assert_eq!(detour(&[class.clone()], mac(9), Some(&key)), Some(Detour::Missing));
        class.required = false;
        assert_eq!(detour(&[class.clone()], mac(9), Some(&key)), None);
        assert_eq!(detour(&[class.clone()], mac(9), None), None);
        assert_eq!(detour(&[web()], mac(9), None), Some(Detour::Missing), "it may be of the class");
        let next = web();
        let by = detour(&[class, next], mac(9), Some(&key));
        assert!(matches!(by, Some(Detour::By { .. })), "the next class holds it: {by:?}");
    }

    proptest! {
        /// Both directions of a flow pass one function, and one that leaves moves its own flows
        /// alone.
        #[test]
        fn flows_stay_where_they_are(a: [u8; 4], b: [u8; 4], ports: (u16, u16), gone in 0..4_usize)
        {
            let mut class = Class {
                protocol: None,
                to: None,
                port_first: 0,
                port_last: u16::MAX,
                functions: (1..=4).map(function).collect(),
                ..web()
            };
            let there = key(a, b, Protocol::TCP, Some(ports));
            let fragment = FlowKey { ports: None, ..there };
            let by = |class: &Class, key: &FlowKey| class.detour(key);
            let before = by(&class, &there);
            prop_assert_eq!(before, by(&class, &there.reversed()));
            prop_assert_eq!(before, by(&class, &fragment));
            class.functions[gone].mac = None;
            let after = by(&class, &there);
            let Function { ip, mac, .. } = function(gone as u8 + 1);
            let its_own = before == mac.map(|mac| Detour::By { ip, mac });
            prop_assert_eq!(before == after, !its_own);
        }
    }
}
