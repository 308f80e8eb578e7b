//! Views of the router's state, as `show` prints them.

use std::net::IpAddr;
use std::time::Duration;

use plexus_wire::{MacAddr, Prefix, Time};
use serde::{Deserialize, Serialize};

use super::Router;
use super::groups::{HopState, Way};
use super::input::{InterfaceFacts, InterfaceId, NeighbourId, NextHop, Route};
use super::neighbours::State;
use super::output::{Group, GroupId};
use super::refusal::Refusal;
use super::rib::Origin;

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeighbourView {
    /// Its number.
    pub id: NeighbourId,
    /// Its interface.
    pub interface: InterfaceId,
    /// Its address.
    pub address: IpAddr,
    /// Its link address, if it is known.
    pub mac: Option<MacAddr>,
    /// Its state.
    pub state: State,
    /// For how long it has been in that state.
    pub age: Duration,
    /// It declares itself a router.
    pub is_router: bool,
    /// It is the gateway of routes in use.
    pub is_gateway: bool,
    /// Packets that wait for its link address.
    pub waiting: usize,
}

/// The source of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteSource {
    /// An interface's address.
    Connected,
    /// The configuration file.
    Static,
    /// The kernel's table.
    Kernel,
    /// A resolved neighbour.
    Neighbour,
}

/// Whether a route is in the forwarding table, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It is.
    InUse,
    /// None of its next hops can be used.
    Inactive,
    /// Another route is better: of a better source, or with a lower metric; or the prefix is on a
    /// link, and the neighbour is resolved.
    Worse,
}

/// One route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteView {
    /// Its source.
    pub source: RouteSource,
    /// Of the source's routes to the prefix the lowest metric wins.
    pub metric: u32,
    /// Its target.
    pub route: Route,
    /// Each next hop, and whether it can be used.
    pub hops: Vec<(NextHop, HopState)>,
    /// Its group.
    pub group: GroupId,
    /// Whether it is used, and why not.
    pub standing: Standing,
}

/// All routes to one prefix, the best first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixView {
    /// The prefix.
    pub prefix: Prefix,
    /// Its routes.
    pub routes: Vec<RouteView>,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupView {
    /// Its number.
    pub id: GroupId,
    /// Its state in the data plane; absent while no prefix uses it.
    pub group: Option<Group>,
    /// Number of prefixes in the forwarding table that use it.
    pub prefixes: u32,
    /// Its next hops, whether each can be used, and its neighbour.
    pub hops: Vec<(NextHop, HopState, Option<NeighbourId>)>,
}

/// Table sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Static and kernel routes.
    pub routes: usize,
    /// Prefixes with a route, including neighbours' host prefixes.
    pub prefixes: usize,
    /// Groups, including those of routes not in use.
    pub groups: usize,
    /// Neighbours, resolved and pending.
    pub neighbours: usize,
    /// Bytes of packets that wait for link addresses.
    pub queued_bytes: usize,
}

impl Router {
    /// The interfaces that are up.
    pub fn interfaces(&self) -> impl Iterator<Item = (InterfaceId, &InterfaceFacts)> {
        self.interfaces.iter()
    }

    /// All neighbours, by address.
    pub fn neighbours(&self, now: Time) -> impl Iterator<Item = NeighbourView> {
        self.neighbours.iter().map(move |(id, n)| NeighbourView {
            id,
            interface: n.interface,
            address: n.address,
            mac: n.mac,
            state: n.state,
            age: now.since(n.since),
            is_router: n.is_router,
            is_gateway: n.pins > 0,
            waiting: n.waiting(),
        })
    }

    /// The routes to exactly this prefix, the best first; none if there are none.
    pub fn routes(&self, prefix: &Prefix) -> Option<PrefixView> {
        let used = self.rib.get(prefix)?.told();
        let mut is_found = false;
        let candidates = self.rib.candidates(prefix);
        let routes = candidates.filter_map(|(origin, metric, group)| {
            // Equal routes of two sources share a group: the better one is in use.
            let is_used =
                used == Some(group) && !std::mem::replace(&mut is_found, used == Some(group));
            let standing = match self.groups.is_active(group) {
                _ if is_used => Standing::InUse,
                false => Standing::Inactive,
                true => Standing::Worse,
            };
            let hops = self.groups.hops(group);
            let route = match self.groups.way(group)? {
                Way::Route(route) => route.clone(),
                Way::Host(..) => Route::Via(hops.iter().map(|hop| hop.next).collect()),
            };
            Some(RouteView {
                source: match origin {
                    Origin::Connected => RouteSource::Connected,
                    Origin::Static => RouteSource::Static,
                    Origin::Kernel => RouteSource::Kernel,
                    Origin::Neighbour => RouteSource::Neighbour,
                },
                metric,
                route,
                hops: hops.iter().map(|hop| (hop.next, hop.state)).collect(),
                group,
                standing,
            })
        });
        Some(PrefixView { prefix: *prefix, routes: routes.collect() })
    }

    /// Explains the lookup of an address: every matching prefix, the longest first. The first route
    /// in use decides.
    pub fn explain(&self, address: IpAddr) -> Vec<PrefixView> {
        let found = std::cell::RefCell::new(Vec::new());
        self.rib.find(address, |prefix, _| {
            found.borrow_mut().extend(self.routes(prefix));
            None::<()>
        });
        found.into_inner()
    }

    /// The longest matching prefix in the forwarding table, and its group.
    pub fn lookup(&self, address: IpAddr) -> Option<(Prefix, GroupId)> {
        self.rib.find(address, |prefix, entry| entry.told().map(|group| (*prefix, group)))
    }

    /// Up to `count` prefixes with routes from this one on, in order.
    pub fn prefixes_from(&self, first: &Prefix, count: usize) -> Vec<Prefix> {
        self.rib.from(first, count)
    }

    /// One group; none if there is no such group.
    pub fn group(&self, id: GroupId) -> Option<GroupView> {
        self.groups.way(id)?;
        let hops = self.groups.hops(id).iter().map(|hop| (hop.next, hop.state, hop.neighbour));
        Some(GroupView {
            id,
            group: self.groups.told(id).cloned(),
            prefixes: self.groups.uses(id),
            hops: hops.collect(),
        })
    }

    /// All groups.
    pub fn groups(&self) -> impl Iterator<Item = GroupView> {
        self.groups.iter().filter_map(|id| self.group(id))
    }

    /// How much there is of everything.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            routes: self.rib.routes(),
            prefixes: self.rib.prefixes(),
            groups: self.groups.len(),
            neighbours: self.neighbours.iter().count(),
            queued_bytes: self.neighbours.queued_bytes(),
        }
    }

    /// Every reason that occurred, and how often.
    pub fn refusals(&self) -> impl Iterator<Item = (Refusal, u64)> {
        let all = Refusal::ALL.iter().map(|refusal| (*refusal, self.refused(*refusal)));
        all.filter(|(_, count)| *count > 0)
    }
}
