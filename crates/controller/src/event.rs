//! Events for the log and for counters.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use plexus_wire::MacAddr;
use plexus_wire::fabric::message::Refusal;
use serde::{Deserialize, Serialize};

use crate::NodeId;

/// An event with a line in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // fields are what `Display` says
pub enum Event {
    NodeUp { node: NodeId, name: String },
    NodeDown { node: NodeId, silent: bool },
    LinksLost { node: NodeId, links: usize, flows: usize, stranded: usize },
    LinksFound { node: NodeId, links: usize },
    HostFound { mac: MacAddr, node: NodeId, port: u8 },
    HostMoved { mac: MacAddr, from: (NodeId, u8), to: (NodeId, u8) },
    HostLost { mac: MacAddr, node: NodeId, port: u8, flows: usize },
    AddressTaken { ip: IpAddr, mac: MacAddr, from: Option<MacAddr> },
    ClaimRefused { mac: MacAddr, ip: Option<IpAddr>, node: NodeId, port: u8, why: Refusal },
    PortClosed { node: NodeId, port: u8, why: Refusal },
    PortOpened { node: NodeId, port: u8 },
    Leased { ip: Ipv4Addr, mac: MacAddr, seconds: u32 },
    Released { ip: Ipv4Addr, mac: MacAddr },
    Declined { ip: Ipv4Addr, mac: MacAddr },
    PoolExhausted { mac: MacAddr, node: NodeId, port: u8 },
    NoServer { ip: Ipv4Addr },
    TableWrong { node: NodeId },
    Forwarder { node: NodeId, is_ready: bool },
    Class { class: String, there: u32 },
    RoutesFull,
    RoutesFit,
    GroupsFull,
}

impl Event {
    /// The node that it is about, if it is about one: where a host is now.
    fn node(&self) -> Option<NodeId> {
        match self {
            Event::NodeUp { node, .. }
            | Event::NodeDown { node, .. }
            | Event::LinksLost { node, .. }
            | Event::LinksFound { node, .. }
            | Event::HostFound { node, .. }
            | Event::HostMoved { to: (node, _), .. }
            | Event::HostLost { node, .. }
            | Event::ClaimRefused { node, .. }
            | Event::PortClosed { node, .. }
            | Event::PortOpened { node, .. }
            | Event::PoolExhausted { node, .. }
            | Event::TableWrong { node }
            | Event::Forwarder { node, .. } => Some(*node),
            _ => None,
        }
    }

    /// Something is lost or refused.
    pub fn is_bad(&self) -> bool {
        matches!(
            self,
            Event::NodeDown { .. }
                | Event::LinksLost { .. }
                | Event::ClaimRefused { .. }
                | Event::PortClosed { .. }
                | Event::PoolExhausted { .. }
                | Event::NoServer { .. }
                | Event::TableWrong { .. }
                | Event::Forwarder { is_ready: false, .. }
                | Event::Class { there: 0, .. }
                | Event::RoutesFull
                | Event::GroupsFull
        )
    }

    /// The event in words, with nodes by their names.
    pub fn told(&self, name: impl Fn(NodeId) -> String) -> String {
        Told(self, name).to_string()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Told(self, |node| format!("{node:x}")).fmt(f)
    }
}

/// An event in words, with nodes by their names.
struct Told<'a, F>(&'a Event, F);

impl<F: Fn(NodeId) -> String> fmt::Display for Told<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told(event, name) = self;
        let at = event.node().map(name).unwrap_or_default();
        match event {
            Event::NodeUp { node, name } => write!(f, "node {name} ({node:x}) is up"),
            Event::NodeDown { silent: true, .. } => write!(f, "node {at} is silent: down"),
            Event::NodeDown { .. } => write!(f, "node {at} is down"),
            Event::LinksLost { links, flows, stranded, .. } => write!(
                f,
                "{links} links of node {at} lost: {flows} flows rerouted, {stranded} of them \
                 without a path"
            ),
            Event::LinksFound { links, .. } => write!(f, "{links} links of node {at} found"),
            Event::HostFound { mac, port, .. } => {
                write!(f, "host {mac} at port {port} of node {at}")
            }
            Event::HostMoved { mac, from, to } => write!(
                f,
                "host {mac} moved from port {} of node {} to port {} of node {at}",
                from.1,
                name(from.0),
                to.1
            ),
            Event::HostLost { mac, port, flows, .. } => {
                write!(f, "host {mac} left port {port} of node {at} with {flows} flows")
            }
            Event::AddressTaken { ip, mac, from: Some(from) } => {
                write!(f, "{mac} took {ip} from {from}, which is silent")
            }
            Event::AddressTaken { ip, mac, .. } => write!(f, "{mac} has {ip}"),
            Event::ClaimRefused { mac, ip, port, why, .. } => {
                write!(f, "refused {mac}")?;
                if let Some(ip) = ip {
                    write!(f, " with {ip}")?;
                }
                write!(f, " at port {port} of node {at}: {why:?}")
            }
            Event::PortClosed { port, why, .. } => {
                write!(f, "closed port {port} of node {at}: {why:?}")
            }
            Event::PortOpened { port, .. } => write!(f, "opened port {port} of node {at}"),
            Event::Leased { ip, mac, seconds } => write!(f, "leased {ip} to {mac} for {seconds} s"),
            Event::Released { ip, mac } => write!(f, "{mac} gave {ip} back"),
            Event::Declined { ip, mac } => write!(f, "{mac} found {ip} in use"),
            Event::NoServer { ip } => {
                write!(f, "no host has the address {ip} of the DHCP server to relay to")
            }
            Event::TableWrong { .. } => {
                write!(f, "node {at} has wrong routes: it gets all of them anew")
            }
            Event::Forwarder { is_ready: true, .. } => {
                write!(f, "node {at} routes for others")
            }
            Event::Forwarder { is_ready: false, .. } => {
                write!(f, "node {at} routes for others no more: it is away, or its table is old")
            }
            Event::Class { class, there: 0 } => {
                write!(f, "class {class}: none of its hosts is there")
            }
            Event::Class { class, there } => {
                write!(f, "class {class}: {there} of its hosts are there")
            }
            Event::RoutesFull => write!(f, "routes are refused: there are too many"),
            Event::RoutesFit => {
                write!(f, "there is room for routes again: the kernel's are read anew")
            }
            Event::GroupsFull => {
                write!(f, "routes are refused: there are too many sets of next hops")
            }
            Event::PoolExhausted { mac, port, .. } => {
                write!(f, "no address left for {mac} at port {port} of node {at}")
            }
        }
    }
}

/// Why a message or frame was not acted on; each is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Drop {
    /// Its node has no session.
    UnknownNode,
    /// A body that nodes do not send to controllers.
    UnexpectedBody,
    /// A page that does not fit its Controller Hello, or an older one.
    BadPage,
    /// An answer to an unknown question.
    UnknownExchange,
    /// The station is not at that port.
    NotThere,
    /// Too many exchanges are open.
    Busy,
    /// A host's frame that is neither DHCP nor a router solicitation, or malformed.
    BadFrame,
    /// A DHCP message whose client is not the frame's sender, or that a relay sent; or an answer
    /// that is not from the relay's server, or to an unknown question.
    ForeignDhcp,
    /// A port sent more DHCP messages or router solicitations than its rate allows.
    RateExceeded,
    /// No (further) address for the host: the pool or the port's share is used up.
    NoAddress,
    /// The host that is the relay's DHCP server is unknown.
    NoServer,
    /// A DHCP message about an address that is not the sender's.
    NotLeased,
    /// A multicast group that no rule serves.
    GroupNotServed,
    /// More groups joined or sent to than are stored for a port.
    TooManyGroups,
    /// More trees than are stored.
    TooManyTrees,
    /// No tree can connect the group's senders and listeners at present.
    NoTree,
    /// A probe was not sent because of the rate limit.
    ProbeRate,
    /// A host asked for a promise while the controller leads provisionally, without its store.
    Provisional,
}
