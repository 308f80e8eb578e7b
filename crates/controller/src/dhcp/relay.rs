//! The DHCP relay (RFC 2131; RFC 1542, section 4; RFC 3046), for networks whose leases come from a
//! server that is a host of the fabric.
//!
//! To the server the group is the relay agent, with its gateway's address as `giaddr` and the
//! client's node and port in option 82. To the client it is the server: it replaces the server's
//! identifier by the gateway's address, so that unicast renewals arrive here too, and no client
//! learns of another server. A server's leases are checked against the fabric's own knowledge and
//! stored like our own: hosts cannot take each other's addresses, whichever server leases them. As
//! for our own leases, a client is its Ethernet address: its identifier (RFC 2132, 9.14), with
//! which it could pose as several clients or another one, is not passed to the server.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use plexus_wire::dhcpv4::{
    CLIENT_PORT, DhcpOption, MessageType, Packet, Repr, SERVER_PORT, option,
};
use plexus_wire::fabric::message::HostSend;
use plexus_wire::{MacAddr, Time};

use super::message;
use crate::Controller;
use crate::event::{Drop, Event};
use crate::topology::Place;

/// Timeout of a server's answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most messages that wait for answers.
const RELAYED_MAX: usize = 1 << 16;
/// Most messages that wait until the server is found.
const UNSERVED_MAX: usize = 64;
/// Most relays that a message may have passed (RFC 1542, 4.1.1).
const HOPS_MAX: u8 = 16;
/// Part of option 82: the circuit, here node and port (RFC 3046, 3.1).
const CIRCUIT_ID: u8 = 1;

/// A relayed message of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relayed {
    at: Place,
    xid: u32,
    subnet: usize,
    since: Time,
    /// Whether the client wants its answer by broadcast.
    broadcast: bool,
    ciaddr: Ipv4Addr,
    /// The server's identifier; its address until it has sent one.
    server: Ipv4Addr,
}

/// A client's message that waits until the server is found: its sender, place and content.
#[derive(Clone, Debug)]
pub(super) struct Unserved {
    server: Ipv4Addr,
    at: Place,
    subnet: usize,
    payload: Vec<u8>,
}

impl Controller {
    /// Whether the relay's server is behind this port.
    pub(crate) fn has_server(&self, at: Place) -> bool {
        let servers = self.config.subnets.iter().filter_map(|s| s.relay);
        servers.filter_map(|ip| self.hosts.by_ip(ip.into())).any(|mac| self.is_at(mac, at))
    }

    pub(crate) fn is_at(&self, mac: MacAddr, at: Place) -> bool {
        self.hosts.get(mac).is_some_and(|h| h.at == at)
    }

    /// Relays a client's message, whose client is its sender, to the server.
    pub(super) fn relay(
        &mut self,
        now: Time,
        at: Place,
        subnet: usize,
        asked: &Repr,
        payload: &[u8],
    ) {
        let settings = &self.config.subnets[subnet];
        let (Some(server), Some(IpAddr::V4(gateway))) = (settings.relay, settings.gateway) else {
            return self.dropped(Drop::NoServer);
        };
        let mac = asked.chaddr;
        let Some(server_mac) = self.hosts.by_ip(server.into()) else {
            // The server may not have been heard yet.
            if self.search(now, mac, server.into()).is_err() {
                self.log(Event::NoServer { ip: server });
                return self.dropped(Drop::NoServer);
            }
            if self.dhcp.unserved.len() >= UNSERVED_MAX {
                return self.dropped(Drop::Busy);
            }
            let waiting = Unserved { server, at, subnet, payload: payload.to_vec() };
            return self.dhcp.unserved.push(waiting);
        };
        let Some(server_at) = self.hosts.get(server_mac).map(|h| h.at) else { return };
        if asked.hops >= HOPS_MAX || asked.option(option::RELAY_AGENT).is_some() {
            return self.dropped(Drop::ForeignDhcp);
        }
        let wants = matches!(asked.message_type, MessageType::DISCOVER | MessageType::REQUEST);
        if wants && self.dhcp.table.of(mac).is_none() && !self.has_share(at, Some(mac)) {
            return self.dropped(Drop::NoAddress);
        }
        // A client can neither release nor decline an address of another host.
        let given_up = match asked.message_type {
            MessageType::RELEASE => Some(asked.ciaddr),
            MessageType::DECLINE => asked.address(option::REQUESTED_ADDRESS),
            _ => None,
        };
        if given_up.is_some_and(|ip| !self.holds(mac, ip)) {
            return self.dropped(Drop::NotLeased);
        }
        let known = self.dhcp.relayed.get(&mac).map(|r| r.server);
        let relayed = Relayed {
            at,
            xid: asked.xid,
            subnet,
            since: now,
            broadcast: asked.broadcast,
            ciaddr: asked.ciaddr,
            server: known.unwrap_or(server),
        };
        if !self.expect_answer(now, mac, relayed) {
            return self.dropped(Drop::Busy);
        }
        // The stored lease ends with the client's message, so that an old lease keeps no other host
        // from it.
        if let Some(ip) = given_up {
            self.dhcp.table.remove(ip);
            self.forget_address(mac, ip);
            self.store(vec![crate::Change::RemoveLease(ip)]);
            self.arm_leases();
        }
        let circuit = format!("{}:{}", self.topology.node(at.node).name, at.port);
        let frame = || {
            let mut bytes = payload.to_vec();
            let mut packet = Packet::new_checked(&mut bytes[..]).ok()?;
            packet.set_hops(asked.hops + 1);
            packet.set_giaddr(gateway);
            packet.blank(option::CLIENT_ID);
            if asked.address(option::SERVER_ID) == Some(gateway) {
                packet.set_address(option::SERVER_ID, relayed.server);
            }
            let mut agent = vec![CIRCUIT_ID, u8::try_from(circuit.len()).ok()?];
            agent.extend(circuit.as_bytes());
            let message = packet.with_option(&DhcpOption::new(option::RELAY_AGENT, agent))?;
            let ends = (self.config.group_mac, server_mac);
            message::frame(ends, (gateway, server), SERVER_PORT, &message).ok()
        };
        match frame() {
            Some(frame) => {
                let port = server_at.port;
                self.send(server_at.node, 0, HostSend { port, frame });
            }
            None => self.dropped(Drop::BadFrame),
        }
    }

    /// The search for a server has ended: sends or drops the messages that waited for it.
    pub(crate) fn server_searched(&mut self, now: Time, ip: IpAddr) {
        let all = std::mem::take(&mut self.dhcp.unserved);
        let (due, rest) = all.into_iter().partition(|w| IpAddr::from(w.server) == ip);
        self.dhcp.unserved = rest;
        for Unserved { at, subnet, payload, .. } in due {
            let parsed = Packet::new_checked(&payload[..]).and_then(|p| Repr::parse(&p));
            match parsed {
                Ok(asked) if self.hosts.by_ip(ip).is_some() => {
                    self.relay(now, at, subnet, &asked, &payload);
                }
                _ => self.dropped(Drop::NoServer),
            }
        }
    }

    /// Records the client of a relayed message; false if too many wait.
    fn expect_answer(&mut self, now: Time, mac: MacAddr, relayed: Relayed) -> bool {
        let table = &mut self.dhcp.relayed;
        if table.len() >= RELAYED_MAX && !table.contains_key(&mac) {
            table.retain(|_, r| now.since(r.since) < PATIENCE);
            if table.len() >= RELAYED_MAX {
                return false;
            }
        }
        table.insert(mac, relayed);
        true
    }

    /// Relays a server's answer to the client: it has to come from the host with the server's
    /// address, and to answer a message relayed there.
    pub(super) fn relayed_answer(&mut self, now: Time, at: Place, mac: MacAddr, packet: &[u8]) {
        let Some((ends, payload, answer)) = message::read(packet) else {
            return self.dropped(Drop::BadFrame);
        };
        let client = answer.chaddr;
        let waiting = self.dhcp.relayed.get(&client).copied().filter(|r| {
            r.xid == answer.xid && now.since(r.since) < PATIENCE && self.is_at(client, r.at)
        });
        let settings = waiting.and_then(|r| self.config.subnets.get(r.subnet));
        let (Some(relayed), Some(settings)) = (waiting, settings) else {
            return self.dropped(Drop::ForeignDhcp);
        };
        let (Some(server), Some(IpAddr::V4(gateway))) = (settings.relay, settings.gateway) else {
            return self.dropped(Drop::ForeignDhcp);
        };
        let is_server = self.hosts.by_ip(server.into()) == Some(mac)
            && self.is_at(mac, at)
            && ends == [server, gateway]
            && answer.giaddr == gateway;
        if !is_server {
            return self.dropped(Drop::ForeignDhcp);
        }
        let (kind, ip) = (answer.message_type, answer.yiaddr);
        let gives = matches!(kind, MessageType::OFFER | MessageType::ACK) && !ip.is_unspecified();
        if gives && !self.may_be_given(now, relayed.subnet, client, ip) {
            return self.dropped(Drop::NotLeased);
        }
        let Some(frame) = self.to_client(&relayed, gateway, &answer, payload) else {
            return self.dropped(Drop::BadFrame);
        };
        if let Some(called) = answer.address(option::SERVER_ID) {
            self.dhcp.relayed.insert(client, Relayed { server: called, ..relayed });
        }
        if kind == MessageType::ACK && gives {
            let lease = answer.option(option::LEASE_TIME).and_then(|d| d.try_into().ok());
            // Without a time it is BOOTP, and permanent (RFC 2131, 3.1); stored with the longest
            // time.
            let seconds = lease.map_or(u32::MAX, u32::from_be_bytes);
            return self.promise(now, relayed.at, client, (ip, seconds), frame);
        }
        let Place { node, port } = relayed.at;
        self.send(node, 0, HostSend { port, frame });
    }

    /// Whether the address given by a server belongs to the network and to no other host.
    fn may_be_given(&self, now: Time, subnet: usize, mac: MacAddr, ip: Ipv4Addr) -> bool {
        self.config.subnets[subnet].prefix.contains(ip.into())
            && self.is_usable(subnet, mac, ip)
            && !self.dhcp.is_kept_from(now, mac, ip.into())
    }

    fn to_client(
        &self,
        relayed: &Relayed,
        gateway: Ipv4Addr,
        answer: &Repr,
        payload: &[u8],
    ) -> Option<Vec<u8>> {
        let mut bytes = payload.to_vec();
        let mut packet = Packet::new_checked(&mut bytes[..]).ok()?;
        let named = answer.option(option::SERVER_ID).is_some();
        if named && !packet.set_address(option::SERVER_ID, gateway) {
            return None;
        }
        packet.blank(option::RELAY_AGENT);
        // RFC 2131, 4.1, with the client's own choice of broadcast.
        let refused = answer.message_type == MessageType::NAK;
        let (mac, to) = match (refused, relayed.ciaddr) {
            (false, ciaddr) if !ciaddr.is_unspecified() => (answer.chaddr, ciaddr),
            (false, _) if !relayed.broadcast && !answer.yiaddr.is_unspecified() => {
                (answer.chaddr, answer.yiaddr)
            }
            _ => (MacAddr::BROADCAST, Ipv4Addr::BROADCAST),
        };
        message::frame((self.config.group_mac, mac), (gateway, to), CLIENT_PORT, &bytes).ok()
    }
}
