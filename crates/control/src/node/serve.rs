//! Hosts' frames: questions are answered or passed on, frames without a way get one, and what
//! cannot be served is counted.

use plexus_wire::address::is_link_local;
use plexus_wire::fabric::message::{HostFrame as HostFrameBody, PortRole};
use plexus_wire::fabric::{self, CONTROL_HOP, ROUTER_HOP};
use plexus_wire::{Time, ethernet};

use super::Node;
use super::detour::{addresses_of, first_like};
use super::effect::{Effect, Event, Turn, Unserved};
use super::host_frame::{HostFrame, Matter, Party, answer, is_echo_request};
use super::resolve::Need;
use super::stations::{Group, Heard};
use crate::link::Pin;

/// Longest host frame that is passed to the controller for an answer.
const HOST_FRAME_MAX: usize = 1300;

impl Node {
    /// The data plane has passed a host's frame that it cannot serve.
    pub(super) fn host_frame(&mut self, now: Time, port: u8, bytes: &[u8]) {
        let role = self.role(port);
        let Some(frame) = HostFrame::parse(bytes) else {
            return self.tell(Event::Dropped(port, Unserved::Runt));
        };
        match role {
            _ if port == ROUTER_HOP => return self.forwarded(now, &frame, bytes),
            PortRole::Host => {}
            _ => return,
        }
        let mut turn = Turn::new(now, &mut self.timers);
        if let Matter::Have { ip } = frame.matter {
            self.stations.answered(&mut turn, port, frame.source, ip);
        }
        let group = self.group.as_ref();
        let is_daemons = self.pins.get(&port) == Some(&Pin::Daemons);
        let heard = self.stations.heard(&mut turn, group, (port, is_daemons), &frame, bytes);
        let mut out = turn.out;
        match heard {
            Heard::Held => {}
            Heard::Loop => self.looped(now, port, bytes),
            Heard::Ready => out = self.serve(now, port, &frame, bytes, out),
        }
        self.carry_out(now, out);
    }

    /// A frame of an admitted station with a valid source address; adds to the actions.
    fn serve(
        &mut self,
        now: Time,
        port: u8,
        frame: &HostFrame,
        bytes: &[u8],
        out: Vec<Effect>,
    ) -> Vec<Effect> {
        let mac = frame.source;
        let mut turn = Turn { now, timers: &mut self.timers, out };
        let group = self.group.as_ref();
        match frame.matter {
            Matter::Ask { ip, target } => {
                if let Some(group) = group.filter(|g| g.owns(target)) {
                    let frame = answer(Party { mac: group.mac, ip: target }, mac, Some(ip));
                    turn.host(port, frame);
                } else if self.stations.holder(port, target).is_some() {
                    turn.dropped(port, Unserved::SamePort);
                } else {
                    self.resolver.ask(
                        &mut turn,
                        port,
                        Party { mac, ip },
                        target,
                        Need::Answer,
                        &mut self.random,
                    );
                }
            }
            Matter::Have { ip } => self.resolver.answered(&mut turn, group, (port, mac, ip)),
            // No other host has it, or the claim would not have been granted.
            Matter::Probe { .. } => {}
            Matter::ForController if bytes.len() <= HOST_FRAME_MAX => {
                let body = HostFrameBody { port, frame: bytes.to_vec() };
                turn.push(Effect::Controller { body: body.into(), sure: false });
            }
            Matter::ForController => turn.dropped(port, Unserved::TooLong),
            Matter::Data { source, target }
                if group.is_some_and(|g| g.mac == frame.destination && g.owns(target)) =>
            {
                if !group.is_some_and(|g| g.has_daemons(target)) || is_echo_request(bytes) {
                    turn.push(Effect::Own { frame: bytes.to_vec() });
                } else if self.stations.holder(port, source) == Some(mac) {
                    let (party, random) = (Party { mac, ip: source }, &mut self.random);
                    self.resolver.ask(&mut turn, port, party, target, Need::Own(bytes), random);
                } else {
                    // Routing daemons believe in the addresses of their neighbours.
                    self.stations.ask_for(&mut turn, group, (port, mac), source, bytes);
                }
            }
            Matter::Data { source, target } => {
                let to_group = group.filter(|group| group.mac == frame.destination);
                let need = match to_group {
                    Some(_) => Need::Routed(bytes),
                    None => Need::Route(bytes),
                };
                // A host's packet is routed from its own address, or from beyond the networks.
                let is_own = self.stations.holder(port, source) == Some(mac);
                let is_claimed = |g: &Group| g.has_network(source) && !is_own;
                let is_function = self.classes.is_function(mac);
                if to_group.is_some() && is_link_local(target) {
                    turn.dropped(port, Unserved::NoRoute);
                    return turn.out;
                }
                if to_group.is_some_and(|g| is_claimed(g) && !is_function) {
                    self.stations.ask_for(&mut turn, group, (port, mac), source, bytes);
                    return turn.out;
                }
                let known = match to_group {
                    Some(group) if group.has_network(target) => None,
                    // By a whole table, or not at all.
                    Some(_) if !self.routing.fib.version().1 => None,
                    Some(_) => self.routing.next_hop(now, target),
                    // It may have been routed to a host that leads to other networks.
                    None => {
                        let station = frame.destination;
                        let asked = self.resolver.addresses_of(port, mac, station);
                        first_like(
                            asked.chain(addresses_of(&self.routing, &self.classes, station)),
                            source,
                        )
                    }
                };
                // An address of another network is nobody's here: it is not to be asked for.
                if known.is_none() && to_group.is_some_and(|g| !g.has_network(target)) {
                    turn.dropped(port, Unserved::NoRoute);
                    return turn.out;
                }
                let target = known.unwrap_or(target);
                if let Some(ip) = self.stations.address(port, mac, target) {
                    let (party, random) = (Party { mac, ip }, &mut self.random);
                    self.resolver.ask(&mut turn, port, party, target, need, random);
                    // The others that lead there are to share the flows.
                    let alike = to_group.map(|_| self.routing.unknown_alike(target));
                    for other in alike.unwrap_or_default() {
                        let random = &mut self.random;
                        self.resolver.ask(&mut turn, port, party, other, Need::Fresh, random);
                    }
                } else {
                    self.stations.ask_for(&mut turn, group, (port, mac), source, bytes);
                }
            }
            Matter::Unicast => {
                // One of a version that the host itself has an address of.
                let own = |target| Some((self.stations.address(port, mac, target)?, target));
                let known = self.resolver.addresses_of(port, mac, frame.destination).find_map(own);
                match known {
                    Some((ip, target)) => {
                        let (party, random) = (Party { mac, ip }, &mut self.random);
                        let need = Need::Route(bytes);
                        self.resolver.ask(&mut turn, port, party, target, need, random);
                    }
                    _ => turn.dropped(port, Unserved::NoRoute),
                }
            }
            Matter::Listens(ref reports) => {
                self.groups.reported(&mut turn, port, mac, reports, group);
            }
            Matter::Multicast(group) if self.groups.served(group).is_some() => {
                self.groups.sent(&mut turn, port, mac, group, bytes);
            }
            Matter::Multicast(_) | Matter::Group => turn.dropped(port, Unserved::NotFlooded),
            Matter::Forged => turn.dropped(port, Unserved::Forged),
        }
        turn.out
    }

    /// Another node has sent a host's packet to the router of this one, which lacks something: the
    /// host's address, the neighbour, or a way. The controller knows the host, and what it may.
    fn forwarded(&mut self, now: Time, frame: &HostFrame, bytes: &[u8]) {
        let mut turn = Turn::new(now, &mut self.timers);
        let mac = frame.source;
        match (&frame.matter, &self.group) {
            (&Matter::Data { source, target }, Some(group)) => {
                let ip = first_like(self.classes.addresses_of(mac), target).unwrap_or(source);
                let party = Party { mac, ip };
                let is_own = group.mac == frame.destination && group.owns(target);
                let for_router = !group.has_daemons(target) || is_echo_request(bytes);
                if is_own && for_router && self.resolver.leads_back(group, mac) {
                    turn.push(Effect::Own { frame: bytes.to_vec() });
                } else {
                    let (target, need) = match is_own {
                        true => (Some(target), Need::Own(bytes)),
                        false if group.mac != frame.destination => {
                            // It has been routed, but has no way.
                            let (routing, classes) = (&self.routing, &self.classes);
                            let known = addresses_of(routing, classes, frame.destination);
                            (first_like(known, source), Need::Route(bytes))
                        }
                        false if group.has_network(target) => (Some(target), Need::Routed(bytes)),
                        false if !self.routing.fib.version().1 => (None, Need::Routed(bytes)),
                        false => (self.routing.next_hop(now, target), Need::Routed(bytes)),
                    };
                    match target {
                        Some(target) => {
                            // The controller has to see each address that the host sends from.
                            let is_known = self.classes.is_function(mac)
                                || self.routing.sends_from(source, mac, group);
                            if !is_known {
                                self.resolver.forget_answer(ROUTER_HOP, mac, target);
                            }
                            let random = &mut self.random;
                            self.resolver.ask(&mut turn, ROUTER_HOP, party, target, need, random);
                            let is_routed = group.mac == frame.destination && !is_own;
                            let alike = is_routed.then(|| self.routing.unknown_alike(target));
                            for other in alike.unwrap_or_default() {
                                let (need, random) = (Need::Fresh, &mut self.random);
                                self.resolver
                                    .ask(&mut turn, ROUTER_HOP, party, other, need, random);
                            }
                        }
                        None => turn.dropped(ROUTER_HOP, Unserved::NoRoute),
                    }
                }
            }
            _ => turn.dropped(ROUTER_HOP, Unserved::NoRoute),
        }
        let out = turn.out;
        self.carry_out(now, out);
    }

    /// The sender's node must learn that the station is not here.
    pub(super) fn stale_frame(&mut self, now: Time, port: u8, bytes: &[u8]) {
        let Ok(frame) = fabric::Frame::new_checked(bytes) else { return };
        let Ok(inner) = ethernet::Frame::new_checked(frame.payload()) else { return };
        let mut path = vec![port];
        path.extend(frame.reverse());
        // The last hop back is the sender's port: replace it by its control plane.
        if let Some(last) = path.last_mut() {
            *last = CONTROL_HOP;
        }
        let mut turn = Turn::new(now, &mut self.timers);
        turn.push(Effect::Tell(Event::Stale(port, inner.dst())));
        self.resolver.stale(&mut turn, inner.dst(), inner.src(), path);
        let out = turn.out;
        self.carry_out(now, out);
    }
}
