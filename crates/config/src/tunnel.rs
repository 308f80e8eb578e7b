//! Tunnel ports: the two ends, and which addresses are invalid as ends.

use std::net::{IpAddr, SocketAddr};

use crate::document::{Lines, Section};
use crate::error::{ValueError, quote};

/// The UDP port of tunnels that name none (SPEC.md of the fabric, section 4).
pub const TUNNEL_PORT: u16 = 18_773;
/// From here on ports are the source ports of flows.
const SOURCE_PORT_MIN: u16 = 0xC000;

/// Settings of a port that mean nothing where no host can be.
const FOR_HOSTS: [&str; 8] =
    ["vlan", "trunk", "native", "mac_limit", "storm", "learning", "trust", "priority"];

/// The ends of a tunnel to another node, of one address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// An address of this box, and the UDP port that the other node sends to.
    pub local: SocketAddr,
    /// The other node's.
    pub peer: SocketAddr,
}

impl Tunnel {
    /// Reads the ends in the section of a port with back-end `udp`; problems are recorded.
    pub(crate) fn read(section: &Section<'_>) -> Option<Tunnel> {
        let problems = section.problems();
        for key in FOR_HOSTS {
            if let Some(span) = section.span_of(key) {
                let message =
                    format!("{} means nothing for a tunnel: no host is there", quote(key));
                problems.add(span, message, "take the line out");
            }
        }
        if let Some(span) = section.span_of("device") {
            let help = "take the line out: the kernel's routes say which device is used";
            problems.add(span, "a tunnel has no device", help);
        }
        if let Some(span) = section.span_of("mtu") {
            let help = "take the line out, and see that every cable on the way carries 1652 bytes \
                        of IPv4 or 1672 of IPv6";
            problems.add(span, "what a tunnel carries is found out, not set", help);
        }
        let end = |key, example| section.require(key, example).parsed(key, parse_end);
        let local = end("local", "\"192.0.2.1\"");
        let peer = end("peer", "\"192.0.2.2\"");
        let (local, peer) = (local?, peer?);
        let span = peer.span;
        let (local, peer) = (local.value, peer.value);
        if local.is_ipv4() != peer.is_ipv4() {
            let message = "the ends of the tunnel are of different address families";
            problems.add(span, message, "write two IPv4 addresses, or two IPv6 addresses");
            return None;
        }
        if local == peer {
            let help = "write the address of the other node";
            problems.add(span, "both ends of the tunnel are the same", help);
            return None;
        }
        Some(Tunnel { local, peer })
    }

    /// Notes `local` and `peer` on a port that is no tunnel.
    pub(crate) fn refuse(section: &Section<'_>) {
        for key in ["local", "peer"] {
            if let Some(span) = section.span_of(key) {
                let message = format!("{} belongs to a tunnel", quote(key));
                section.problems().add(span, message, "add backend = \"udp\", or take it out");
            }
        }
    }

    /// Notes a tunnel that shares an end with an earlier one, by the name of its port.
    pub(crate) fn check_ends<'a>(
        &self,
        section: &Section<'_>,
        others: impl IntoIterator<Item = (&'a str, &'a Tunnel)>,
    ) {
        for (name, other) in others {
            for (key, ours, theirs) in
                [("local", self.local, other.local), ("peer", self.peer, other.peer)]
            {
                if ours != theirs {
                    continue;
                }
                let message = format!("this is the {key} end of port {} already", quote(name));
                let next = SocketAddr::new(ours.ip(), TUNNEL_PORT + 1);
                let help = format!(
                    "give each tunnel a UDP port of its own, as in \"{next}\", here and at the \
                     other node"
                );
                section.problems().add(section.near(key), message, help);
            }
        }
    }

    /// Writes both ends.
    pub(crate) fn write(&self, lines: &mut Lines) {
        for (key, end) in [("local", self.local), ("peer", self.peer)] {
            let text = match end.port() {
                TUNNEL_PORT => end.ip().to_string(),
                _ => end.to_string(),
            };
            lines.text(key, &text);
        }
    }
}

/// An address, with or without a UDP port.
fn parse_end(text: &str) -> Result<SocketAddr, ValueError> {
    let usual = |ip: IpAddr| SocketAddr::new(ip, TUNNEL_PORT);
    let end = text.parse::<SocketAddr>().or_else(|_| text.parse().map(usual)).map_err(|_| {
        ValueError::new(
            format!("{} is not the end of a tunnel", quote(text)),
            "write an address, with or without a UDP port: \"192.0.2.1\", \"192.0.2.1:18774\", \
             \"2001:db8::1\" or \"[2001:db8::1]:18774\"",
        )
    })?;
    let refused = |message: &str, help: &str| {
        Err(ValueError::new(format!("{} {message}", quote(text)), help))
    };
    match end.ip() {
        ip if ip.is_multicast() || ip.is_unspecified() => {
            return refused("is not the address of one box", "write the address of an interface");
        }
        IpAddr::V4(ip) if ip.is_broadcast() => {
            return refused("is not the address of one box", "write the address of an interface");
        }
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => {
            return refused("is an IPv4 address in another form", "write it as IPv4");
        }
        IpAddr::V6(ip) if ip.is_unicast_link_local() => {
            let help = "use addresses that routers forward; two ends of one cable need no tunnel";
            return refused("is an address of one cable only", help);
        }
        _ => {}
    }
    if end.port() == 0 || end.port() >= SOURCE_PORT_MIN {
        let help = "write a port from 1 to 49151: the others are the source ports of flows";
        return refused("has a UDP port that no tunnel can have", help);
    }
    Ok(end)
}
