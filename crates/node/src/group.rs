//! The group's router on one of its nodes. A host's packet is routed where it comes in: one lookup,
//! one step of its time to live, and then the way through the fabric that its host has to the
//! neighbour.
//!
//! Its one interface is the fabric as a whole, with an address in each subnet. It asks for no
//! neighbour: the fabric's control plane tells it of stations that the controller has admitted.

use std::net::IpAddr;

use plexus_config::ReversePath;
use plexus_control::node::Event;
use plexus_control::router::{
    self, Fault, Input, InterfaceFacts, InterfaceId, Limits, NextHop, Route, Source, Why,
};
use plexus_plane::{FabricPlan, GROUP_VLAN, Injection, Punt, RouterSource};
use plexus_wire::fabric::message::{FibHop, FibTarget, Gateway};
use plexus_wire::fabric::{Frame, Kind, ROUTER_HOP, Repr};
use plexus_wire::{MacAddr, Prefix, Time, ethernet};

use crate::router::{Place, Router};

/// The only interface.
const GROUP: InterfaceId = InterfaceId(0);

/// Every network carries packets as long as this (RFC 791, 3.2; RFC 8200, 5).
const MTU_MIN_V4: u16 = 68;
const MTU_MIN_V6: u16 = 1280;

/// The longest packet that hosts of a network take.
fn mtu(gateway: &Gateway) -> u16 {
    gateway.mtu.max(if gateway.ip.is_ipv4() { MTU_MIN_V4 } else { MTU_MIN_V6 })
}

/// The group's router on a node.
pub(crate) struct GroupRouter {
    pub(crate) router: Router,
    /// It has all routes of the group, and may route.
    pub(crate) has_routes: bool,
}

impl GroupRouter {
    /// A router that has no addresses yet. `seed` spreads its timers.
    ///
    /// # Errors
    /// When memory is short.
    pub(crate) fn new(seed: [u8; 32]) -> Result<GroupRouter, String> {
        let limits = Limits::default();
        let reverse_path = ReversePath::Strict;
        let place = Place { vlan: GROUP_VLAN, port: None, kernel: None, reverse_path };
        let router = Router::new(limits, vec![place], seed).map_err(|e| e.to_string())?;
        Ok(GroupRouter { router, has_routes: false })
    }

    /// The plan that workers read.
    pub(crate) fn source(&self) -> RouterSource {
        self.router.source()
    }

    /// When [`run`](Self::run) has something to do.
    pub(crate) fn next_deadline(&self) -> Time {
        self.router.next_deadline()
    }

    /// Sets the group's addresses, each with its network; with none the group does not route.
    pub(crate) fn set_addresses(&mut self, now: Time, mac: MacAddr, gateways: &[Gateway]) {
        let mut addresses: Vec<(IpAddr, u8)> =
            gateways.iter().map(|g| (g.ip, g.prefix_len)).collect();
        let link_local = (IpAddr::from(mac.link_local()), 64);
        let has_v6 = addresses.iter().any(|(address, _)| address.is_ipv6());
        if has_v6 && !addresses.contains(&link_local) {
            addresses.push(link_local);
        }
        let facts = InterfaceFacts {
            name: "group".into(),
            mac,
            mtu: gateways.iter().map(mtu).max().unwrap_or(MTU_MIN_V6),
            addresses,
            kernel: false,
            is_told: true,
        };
        let facts = Some(facts).filter(|facts| !facts.addresses.is_empty());
        self.router.set_interface(now, GROUP, facts);
        let network = |g: &Gateway| Some((Prefix::around(g.ip, g.prefix_len).ok()?, mtu(g)));
        self.router.set_mtus(gateways.iter().filter_map(network).collect());
    }

    /// Sets what becomes of packets for another network.
    pub(crate) fn set_route(&mut self, now: Time, prefix: Prefix, target: Option<FibTarget>) {
        let route = target.map(|target| match target {
            FibTarget::Hosts(hops) => {
                let hop = |FibHop { via, weight }| {
                    let (interface, gateway) = (GROUP, Some(via));
                    NextHop { interface, gateway, on_link: true, weight }
                };
                Route::Via(hops.into_iter().map(hop).collect())
            }
            FibTarget::Blackhole => Route::Blackhole,
            FibTarget::Unreachable => Route::Unreachable,
            FibTarget::Prohibited => Route::Prohibited,
        });
        let source = Source::Static;
        self.router.handle(now, Input::Route { source, prefix, metric: 0, route });
    }

    /// Sets the station that has an address.
    pub(crate) fn set_neighbour(&mut self, now: Time, address: IpAddr, mac: Option<MacAddr>) {
        self.router.handle(now, Input::Neighbour { interface: GROUP, address, mac });
    }

    /// A packet to one of the group's own addresses.
    pub(crate) fn own(&mut self, now: Time, frame: Vec<u8>) {
        self.router.frame(now, Punt::Local, GROUP_VLAN, frame);
    }

    /// A packet that the data plane has dropped.
    pub(crate) fn dropped(&mut self, now: Time, punt: Punt, frame: Vec<u8>) {
        self.router.frame(now, punt, GROUP_VLAN, frame);
    }

    /// A packet whose destination no station has.
    pub(crate) fn unreachable(&mut self, now: Time, frame: Vec<u8>) {
        let why = Why::Error(Fault::AddressUnreachable);
        self.router.handle(now, Input::Frame { interface: GROUP, why, frame });
    }

    /// Brings the tables up to date. Gives the frames to send, all of which answer hosts, and what
    /// is to be logged.
    pub(crate) fn run(
        &mut self,
        now: Time,
        wait: impl FnMut(),
        fabric: &FabricPlan,
    ) -> (Vec<(Injection, Vec<u8>)>, Vec<Event>) {
        let rest = self.router.run(now, wait);
        let is_full = |event: &router::Event| match event {
            router::Event::RoutesFull | router::Event::GroupsFull | router::Event::TableFull => {
                true
            }
            // The controller refuses what is too much, and tells the rest anew.
            router::Event::RoutesFit => false,
            router::Event::Conflict { .. } | router::Event::Gateway { .. } => false,
        };
        let events = if rest.events.iter().any(is_full) { vec![Event::RoutesFull] } else { vec![] };
        let frames = rest.frames.into_iter();
        let at_port = |(_, frame): (_, Vec<u8>)| {
            let header = ethernet::Frame::new_checked(&frame[..]).ok()?;
            let (to, from) = (header.dst(), header.src());
            match fabric.port_of(to) {
                Some(port) => Some((Injection::Port(port), frame)),
                // A host of another node, whose packets this one routes.
                None => Some((Injection::Fabric, along(fabric, from, to, &frame)?)),
            }
        };
        (frames.filter_map(at_port).collect(), events)
    }

    /// The addresses that packets were routed to since the last call.
    pub(crate) fn take_used(&mut self) -> Vec<IpAddr> {
        self.router.take_used()
    }
}

/// A frame of the router's own with the header of its route.
fn along(fabric: &FabricPlan, from: MacAddr, to: MacAddr, frame: &[u8]) -> Option<Vec<u8>> {
    let (port, header) = fabric.tables(ROUTER_HOP.into())?.routes.get(to, from)?.get(0)?;
    // The header of a route is as the next node finds it; this one takes the first hop.
    let rest = Repr::parse(&Frame::new_checked(header).ok()?).ok()?;
    let path: Vec<u8> = [port].into_iter().chain(rest.forward).collect();
    let header = Repr::new(Kind::Ethernet, &path)?.to_bytes().ok()?;
    Some([&header[..], frame].concat())
}
