//! Publishes neighbours as adjacencies, releases waiting packets, and sends the router's own
//! packets.

use std::net::IpAddr;

use plexus_wire::{EtherType, MacAddr, Time, ethernet, frame, ipv4, ipv6};

use super::Router;
use super::groups::Turn;
use super::input::{Fault, InterfaceId, NeighbourId};
use super::interfaces::is_link_local;
use super::neighbours::{Effect, State, Waiting};
use super::output::{Adjacency, Event, Group, Output};
use super::refusal::Refusal;

/// The destination of an IP packet.
pub(super) fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => ipv4::Packet::new_checked(packet).ok().map(|p| p.dst().into()),
        6 => ipv6::Packet::new_checked(packet).ok().map(|p| p.dst().into()),
        _ => None,
    }
}

/// The destination of a super-packet of which only the beginning is there.
fn destination_of_excerpt(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => packet.get(16..20)?.first_chunk::<4>().map(|a| IpAddr::from(*a)),
        6 => packet.get(24..40)?.first_chunk::<16>().map(|a| IpAddr::from(*a)),
        _ => None,
    }
}

impl Router {
    /// Carries out the effects of neighbours' changes.
    pub(super) fn apply_neighbour_effects(&mut self, now: Time) {
        while let Some(effect) = self.neighbours.poll_effect() {
            match effect {
                Effect::Ask { interface, address, to } => {
                    let asked = match address {
                        _ if self.interfaces.get(interface).is_some_and(|i| i.is_told) => {
                            self.neighbours.wait_for_source(interface, address);
                            Ok(())
                        }
                        IpAddr::V4(address) => self.ask_arp(interface, address, to),
                        IpAddr::V6(address) => self.ask_nd(interface, address, to),
                    };
                    if let Err(refusal) = asked {
                        self.refuse(refusal);
                    }
                }
                Effect::Changed(id) => self.changed(now, id),
                Effect::Gone { id, address, had } => {
                    self.update_host_prefix(now, address);
                    if had {
                        self.outputs.push_back(Output::Adjacency { id, entry: None });
                    }
                }
                Effect::Free { waiting: Waiting::Forward { interface, frame }, .. } => {
                    self.outputs.push_back(Output::Again { interface, frame });
                }
                Effect::Free { id, waiting: Waiting::Own { packet } } => self.send(id, &packet),
                Effect::Lost(Waiting::Forward { interface, frame }) => {
                    let fault = Fault::AddressUnreachable;
                    if let Err(refusal) = self.error(now, interface, fault, &frame) {
                        self.refuse(refusal);
                    }
                }
                Effect::Lost(Waiting::Own { .. }) => self.refuse(Refusal::NoWayBack),
                Effect::Refused(refusal) => self.refuse(refusal),
            }
        }
    }

    /// A neighbour's link address has become known, has changed, or has become unknown.
    fn changed(&mut self, now: Time, id: NeighbourId) {
        let Some(neighbour) = self.neighbours.get(id) else { return };
        let (interface, address, mac) = (neighbour.interface, neighbour.address, neighbour.mac);
        let is_gateway = neighbour.pins > 0;
        let has_failed = neighbour.state == State::Failed && neighbour.failures == 1;
        let news = self.neighbours.news(id);
        // So that either all of a group's members have an adjacency, or none.
        self.tell_groups(id, Turn::Smaller);
        if let Some(entry) = news {
            self.outputs.push_back(Output::Adjacency { id, entry });
        }
        self.tell_groups(id, Turn::Any);
        self.update_host_prefix(now, address);
        if is_gateway && (has_failed || matches!(news, Some(Some(_)))) {
            self.outputs.push_back(Output::Tell(Event::Gateway { interface, address, mac }));
        }
    }

    /// Publishes the groups with this gateway.
    fn tell_groups(&mut self, gateway: NeighbourId, turn: Turn) {
        for id in self.groups.of_gateway(gateway) {
            if let Some(group) = self.groups.news(id, &self.neighbours, turn) {
                self.outputs.push_back(Output::Group { id, group });
            }
        }
    }

    /// The data plane lacks a link address.
    pub(super) fn unresolved(
        &mut self,
        now: Time,
        interface: InterfaceId,
        id: Option<NeighbourId>,
        frame: Vec<u8>,
    ) -> Result<(), Refusal> {
        let packet = frame.get(ethernet::HEADER_LEN..).unwrap_or_default();
        let whole = destination(packet);
        let to = whole.or_else(|| destination_of_excerpt(packet)).ok_or(Refusal::Malformed)?;
        let known = id.filter(|id| self.neighbours.get(*id).is_some());
        let id = match known {
            Some(id) => id,
            None => {
                let link = self.link_of(to).ok_or(Refusal::NotUnresolved)?;
                self.neighbour(now, link, to)?
            }
        };
        match whole {
            Some(_) => self.neighbours.want(now, id, Waiting::Forward { interface, frame }),
            // The neighbour is asked for; the sender will retransmit.
            None => return Err(Refusal::Excerpt),
        }
        Ok(())
    }

    /// Another source knows which station has an address, or does not know it any more.
    pub(super) fn told_of_neighbour(
        &mut self,
        now: Time,
        link: InterfaceId,
        address: IpAddr,
        mac: Option<MacAddr>,
    ) {
        match (self.neighbours.find(link, address), mac) {
            (Some(id), None) => self.neighbours.unfix(now, id),
            (Some(id), Some(mac)) => self.neighbours.fix(now, id, mac),
            (None, Some(mac)) if self.may_be_neighbour(link, address) => {
                match self.neighbours.create(now, link, address, Some(mac), false) {
                    Ok(id) => self.neighbours.fix(now, id, mac),
                    Err(refusal) => self.refuse(refusal),
                }
            }
            (None, Some(_)) => self.refuse(Refusal::NotOnLink),
            (None, None) => {}
        }
    }

    /// The neighbour with this address on this link; created and asked for if it is unknown.
    fn neighbour(
        &mut self,
        now: Time,
        link: InterfaceId,
        address: IpAddr,
    ) -> Result<NeighbourId, Refusal> {
        if let Some(id) = self.neighbours.find(link, address) {
            return Ok(id);
        }
        if !self.may_be_neighbour(link, address) {
            return Err(Refusal::NotOnLink);
        }
        self.neighbours.create(now, link, address, None, false)
    }

    /// True if another station on the link may have this address: by the interface's own prefixes,
    /// or by a route.
    pub(super) fn may_be_neighbour(&self, link: InterfaceId, address: IpAddr) -> bool {
        self.interfaces.is_on_link(link, address)
            || self.link_of(address) == Some(link)
                && super::interfaces::is_unicast(address)
                && !self.interfaces.is_own(address)
                && !self.interfaces.is_broadcast(address)
    }

    /// Sends a packet of our own, in answer to a frame from this interface.
    pub(super) fn send_own(
        &mut self,
        now: Time,
        from: InterfaceId,
        answered: &[u8],
        packet: Vec<u8>,
    ) -> Result<(), Refusal> {
        if self.interfaces.get(from).is_some_and(|facts| facts.is_told) {
            let answered = ethernet::Frame::new_checked(answered);
            let to = answered.map_err(|_| Refusal::Malformed)?.src();
            self.send_to(from, to, &packet);
            return Ok(());
        }
        let to = destination(&packet).ok_or(Refusal::NoWayBack)?;
        let id = if is_link_local(to) {
            self.neighbour(now, from, to)?
        } else {
            let group = self.rib.find(to, |_, entry| entry.told()).ok_or(Refusal::NoWayBack)?;
            match self.groups.told(group) {
                Some(Group::Via(members)) => {
                    // Any member is good; chosen by address, so that answers to one destination
                    // stay in order.
                    let bytes = match to {
                        IpAddr::V4(a) => u128::from(a.to_bits()),
                        IpAddr::V6(a) => a.to_bits(),
                    };
                    members[(bytes % members.len() as u128) as usize].neighbour
                }
                Some(Group::Glean(link)) => {
                    let link = *link;
                    self.neighbour(now, link, to)?
                }
                _ => return Err(Refusal::NoWayBack),
            }
        };
        self.neighbours.want(now, id, Waiting::Own { packet });
        Ok(())
    }

    /// Sends a packet of our own to a resolved neighbour.
    fn send(&mut self, id: NeighbourId, packet: &[u8]) {
        let adjacency = self.neighbours.get(id).and_then(|n| n.adjacency());
        if let Some(Adjacency { interface, mac }) = adjacency {
            self.send_to(interface, mac, packet);
        }
    }

    /// Sends a packet of our own to a station.
    fn send_to(&mut self, interface: InterfaceId, mac: MacAddr, packet: &[u8]) {
        let Some(facts) = self.interfaces.get(interface) else { return };
        if packet.len() > usize::from(facts.mtu) {
            return self.refuse(Refusal::OwnTooLong);
        }
        let ethertype = if packet[0] >> 4 == 4 { EtherType::IPV4 } else { EtherType::IPV6 };
        let frame = frame::ethernet((facts.mac, mac), ethertype, packet);
        self.outputs.push_back(Output::Send { interface, frame });
    }
}
