//! Effects: actions that the parts of the node's control plane request; `node.rs` turns them into
//! outputs.

use std::net::IpAddr;
use std::time::Duration;

use plexus_wire::fabric::message::{
    Body, GroupRoute, Hops, HostGone, ResolveReply, ResolveRequest, RouteEntry, Secret,
};
use plexus_wire::{MacAddr, Time};
use serde::{Deserialize, Serialize};

use super::host_frame::Party;
use super::resolve::short::ShortAnswer;
use crate::link::Stranger;
use crate::timers::Timers;

/// Everything in a node that has a deadline. Of equal deadlines the first listed fires first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A port's link: handshake, silence of the neighbour, end of a state.
    Link(u8),
    /// Check a station's liveness.
    Station(u8, MacAddr),
    /// A station has not claimed an address that it sends from.
    Unclaimed(u8, MacAddr),
    /// Repeat a probe that the controller requested.
    Probe(u64),
    /// Repeat the request of an exchange.
    Exchange(u64),
    /// Repeat a question to a local host.
    Asking(u64),
    /// Ask again for an address that packets are routed to.
    Known(IpAddr),
    /// Query the hosts for their multicast groups.
    Query,
    /// A station's membership in a group expires.
    Member(u8, MacAddr, IpAddr),
    /// The controller has not answered for a sender.
    Asked(Sender),
    /// The version of a sender's ended route is forgotten.
    Ended(Sender),
    /// A host port sends its loop probe.
    Loop(u8),
    /// A version of the common file has been on trial for long enough.
    Common,
    /// Ask again for the node's number, which belongs to another node.
    Number,
    /// Handshake, Hello or retransmission to a controller that stands by.
    Standby(u64),
    /// The same to the one that leads.
    Controller,
    /// A port sends its Heartbeat.
    Beat(u8),
}

/// A sender to a multicast group: port, host and the group's Ethernet address.
pub(super) type Sender = (u8, MacAddr, MacAddr);

/// The parts of a node work with this while it processes an input.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) now: Time,
    pub(super) timers: &'a mut Timers<Timer>,
    /// The actions requested so far.
    pub(super) out: Vec<Effect>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(now: Time, timers: &'a mut Timers<Timer>) -> Turn<'a> {
        Turn { now, timers, out: Vec::new() }
    }

    /// Sets a timer to fire after this time.
    pub(super) fn after(&mut self, wait: Duration, timer: Timer) {
        self.timers.set(timer, self.now + wait);
    }

    pub(super) fn push(&mut self, effect: Effect) {
        self.out.push(effect);
    }

    /// A frame for a host, if one could be made.
    pub(super) fn host(&mut self, port: u8, frame: Option<Vec<u8>>) {
        self.out.extend(frame.map(|frame| Effect::Host { port, frame }));
    }

    /// A host's frame is not served.
    pub(super) fn dropped(&mut self, port: u8, why: Unserved) {
        self.push(Effect::Tell(Event::Dropped(port, why)));
    }

    /// A body for the controller, repeated until it is acknowledged.
    pub(super) fn report(&mut self, body: impl Into<Body>) {
        self.push(Effect::Controller { body: body.into(), sure: true });
    }
}

/// Splits a report into messages, each with the number of those that follow it. A report of nothing
/// is one message too: without it the controller would ask again each second.
pub(super) fn in_parts<T: Clone>(all: &[T], most: usize, mut send: impl FnMut(u16, Vec<T>)) {
    let messages = all.len().div_ceil(most).max(1);
    for number in 0..messages {
        let part = all.chunks(most).nth(number).unwrap_or_default();
        send((messages - 1 - number) as u16, part.to_vec());
    }
}

/// One action, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A frame for a host, as it is.
    Host { port: u8, frame: Vec<u8> },
    /// A body for the controller, sealed; `sure`: repeated until it is acknowledged.
    Controller { body: Body, sure: bool },
    /// The same for a controller that stands by.
    Standby { controller: u64, body: Body, sure: bool },
    /// A controller that stands by has not answered a question.
    Silent { standby: u64 },
    /// A station is admitted, or its addresses have changed.
    HostChanged { port: u8, mac: MacAddr },
    /// A station has gone: every controller is told.
    HostGone(HostGone),
    /// A body for another node's control plane, sealed by an exchange's key.
    Keyed { path: Hops, exchange: u64, key: [u8; 32], body: Body },
    /// Ask a controller for an address, for the first time or again.
    Ask { of: u64, request: ResolveRequest, secret: Secret, first: bool },
    /// Reply to another node's question, in short if it understands that.
    Reply {
        path: Hops,
        exchange: u64,
        key: [u8; 32],
        reply: ResolveReply,
        short: Option<ShortAnswer>,
    },
    /// Send a frame of a host at this port, which arrived before its route, along that route.
    Along { port: u8, path: Hops, frame: Vec<u8> },
    /// Packets are to be routed to this address, which this station has. `asker`: the host that has
    /// asked for it; absent: the station has asked for a host here. `fresh`: if it was known, this
    /// is no sign of its use.
    Learn { address: IpAddr, mac: MacAddr, asker: Option<(u8, Party)>, fresh: bool },
    /// A host of another node sends packets to be routed from this address, or from beyond it.
    Sends { address: IpAddr, mac: MacAddr },
    /// An exchange has shown which station has an address.
    Found { address: IpAddr, mac: MacAddr },
    /// A station of this node has been granted an address.
    Granted { address: IpAddr, mac: MacAddr },
    /// A station of this node has lost an address, or has gone.
    Revoked { address: IpAddr, mac: MacAddr },
    /// No station has this address: packets can no longer be routed to it.
    Forget { address: IpAddr },
    /// Tell the router which station has an address; absent: it is not known.
    Neighbour { address: IpAddr, mac: Option<MacAddr> },
    /// A host's packet is for the group's own address.
    Own { frame: Vec<u8> },
    /// Route a host's packet again: what it waited for is known.
    Again { port: u8, frame: Vec<u8> },
    /// A host's packet cannot be routed, for no station has its address.
    Unreachable { frame: Vec<u8> },
    /// Admit a station to this port.
    Admit { port: u8, mac: MacAddr },
    /// Remove a station from this port.
    Expel { port: u8, mac: MacAddr },
    /// Set an entry of the route memory; an entry without routes is removed.
    Route(RouteEntry),
    /// Send a host's frame that arrived before its tree along that tree.
    AlongTree { port: u8, tree: u32, credits: u8, frame: Vec<u8> },
    /// Set a tree's ports; absent: remove it.
    Tree { tree: u32, ports: Option<Vec<u8>> },
    /// Set a host's tree for a group; without one it is removed.
    Group(GroupRoute),
    /// An event for the log.
    Tell(Event),
}

/// An event; a driver logs and counts it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A host's frame was not served: the reason, as in `show drops`.
    Dropped(u8, Unserved),
    /// A port's role has changed.
    Role(u8, plexus_wire::fabric::message::PortRole),
    /// A message was refused; the reason in words.
    Refused(Option<u8>, String),
    /// The path to the controller has changed; absent: the controller is unreachable.
    Uplink(Option<Hops>),
    /// A frame's source was the group's own address: the port leads back into the fabric.
    Loop(u8),
    /// A port's neighbour speaks as nodes do, and has failed to authenticate.
    Stranger(u8, Stranger),
    /// The controller has refused this node: another that is alive has its number.
    NumberTaken {
        /// The public key of that node.
        key: [u8; 32],
        /// It is this node's own: two boxes use one identity.
        same: bool,
    },
    /// A fabric frame arrived here that could not be forwarded.
    Astray(u8),
    /// This node's routes at this version are not those of the controller: it does not route until
    /// it has others.
    TableWrong {
        /// The version.
        version: u64,
    },
    /// There is no room for some of the group's routes: their packets go by shorter prefixes.
    RoutesFull,
    /// A frame arrived for a station that is not behind its route's port.
    Stale(u8, MacAddr),
    /// A station was admitted at a port.
    Station(u8, MacAddr),
    /// A station left a port.
    Gone(u8, MacAddr),
    /// A station's claim was refused.
    Denied(u8, MacAddr, Option<IpAddr>, plexus_wire::fabric::message::Refusal),
}

/// Why a host's frame was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unserved {
    /// ARP or neighbour discovery that contradicts itself, its frame or the group.
    Forged,
    /// The controller has refused the station.
    Refused,
    /// The controller has refused the address to the station.
    Claimed,
    /// To a group without a policy: the fabric does not flood.
    NotFlooded,
    /// No route yet, or none at all.
    NoRoute,
    /// More stations, addresses or questions from this port than are stored.
    TooMany,
    /// Not a frame.
    Runt,
    /// Too long for a control message.
    TooLong,
    /// It asks for a group that no policy serves.
    GroupRefused,
    /// More groups than are stored for its station or port.
    TooManyGroups,
    /// The target is behind the same port: it received the question itself.
    SamePort,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_how_many_messages_follow_and_is_never_without_one() {
        let sent = |all: &[u8]| {
            let mut sent = vec![];
            in_parts(all, 2, |more, part| sent.push((more, part)));
            sent
        };
        assert_eq!(sent(&[1, 2, 3]), [(1, vec![1, 2]), (0, vec![3])]);
        assert_eq!(sent(&[1, 2]), [(0, vec![1, 2])]);
        assert_eq!(sent(&[]), [(0, vec![])]);
    }
}
