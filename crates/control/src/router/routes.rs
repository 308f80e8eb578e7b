//! From routes to the forwarding table: selects the best route, publishes it, and updates
//! dependants.

use std::net::IpAddr;
use std::time::Duration;

use plexus_wire::address::is_routable;
use plexus_wire::{Prefix, Time};

use super::Router;
use super::groups::{GROUPS_MAX, HopState, Turn, Way, normal};
use super::input::{InterfaceId, Route, Source};
use super::interfaces::is_link_local;
use super::limits::Limits;
use super::output::{Event, GroupId, Output};
use super::refusal::Refusal;
use super::rib::{Entry, Origin};
use super::work::Work;

/// Retry interval of groups whose gateways found no room among the neighbours.
const FEED_AGAIN: Duration = Duration::from_secs(5);

/// Most groups of sources' routes: it leaves one for every neighbour and every interface.
fn groups_max(limits: &Limits) -> usize {
    GROUPS_MAX.saturating_sub(limits.neighbours + limits.interfaces + 8)
}

impl Router {
    /// A route of a source, or its withdrawal.
    pub(super) fn route(
        &mut self,
        now: Time,
        source: Source,
        prefix: Prefix,
        metric: u32,
        route: Option<Route>,
    ) {
        let origin = Origin::from(source);
        let Some(route) = route else { return self.withdraw(now, &prefix, origin, metric) };
        let old = self.rib.route(&prefix, origin, metric);
        match self.admit(&prefix, route, old.is_some()) {
            Ok(group) => self.put(now, &prefix, origin, metric, group),
            Err(refusal) => {
                self.refuse(refusal);
                // A refused route leaves the old one in place, as if it had been listed again.
                if let Some(old) = old {
                    self.rib.set(&prefix, origin, metric, old);
                }
            }
        }
    }

    /// The group of a source's route, if the route is allowed.
    fn admit(&mut self, prefix: &Prefix, route: Route, is_known: bool) -> Result<GroupId, Refusal> {
        if !is_routable(prefix) {
            return Err(Refusal::NotRoutable);
        }
        let route = normal(prefix, route)?;
        if !is_known && self.rib.routes() >= self.limits.routes {
            self.tell_once(Event::RoutesFull);
            return Err(Refusal::RoutesFull);
        }
        let max = groups_max(&self.limits);
        let group = self.groups.acquire(Way::Route(route), &self.interfaces, max);
        if group.is_err() {
            self.tell_once(Event::GroupsFull);
        }
        group
    }

    /// Sets a route whose group has been acquired.
    pub(super) fn put(
        &mut self,
        now: Time,
        prefix: &Prefix,
        origin: Origin,
        metric: u32,
        group: GroupId,
    ) {
        let old = self.rib.set(prefix, origin, metric, group);
        if old != Some(group) {
            self.update_prefix(now, prefix);
        }
        self.release(old);
    }

    pub(super) fn withdraw(&mut self, now: Time, prefix: &Prefix, origin: Origin, metric: u32) {
        let Some(group) = self.rib.take(prefix, origin, metric) else {
            if matches!(origin, Origin::Static | Origin::Kernel) {
                self.refuse(Refusal::NoSuchRoute);
            }
            return;
        };
        self.update_prefix(now, prefix);
        self.release(Some(group));
    }

    fn release(&mut self, group: Option<GroupId>) {
        let Some(group) = group else { return };
        self.groups.release(group);
        // Hysteresis: report room only when some is left, not at each change at the limit.
        let is_full = |len: usize, max: usize| len + max / 64 >= max;
        let (routes, groups) = (self.rib.routes(), self.groups.len());
        let limits = &self.limits;
        let were_refused = !self.full.is_empty();
        self.full.retain(|event| match event {
            Event::RoutesFull => is_full(routes, limits.routes),
            _ => is_full(groups, groups_max(limits)),
        });
        if were_refused && self.full.is_empty() {
            self.outputs.push_back(Output::Tell(Event::RoutesFit));
        }
    }

    /// Reports an event, once until its cause is gone.
    fn tell_once(&mut self, event: Event) {
        if !self.full.contains(&event) {
            self.full.push(event.clone());
            self.outputs.push_back(Output::Tell(event));
        }
    }

    /// The group for a prefix in the forwarding table: that of the best usable route. On a link, a
    /// resolved neighbour's host route beats asking for its address.
    fn best(&self, prefix: &Prefix, entry: Entry) -> Option<GroupId> {
        let candidates = self.rib.candidates_in(prefix, entry);
        let mut active = candidates.filter(|(.., group)| self.groups.is_active(*group));
        let (_, _, first) = active.next()?;
        if prefix.is_host() && self.groups.link(first).is_some() {
            let neighbour = active.find(|(origin, ..)| *origin == Origin::Neighbour);
            return neighbour.map(|(.., group)| group).or(Some(first));
        }
        Some(first)
    }

    /// The link of an address by the best route to it, except neighbours' host routes.
    pub(super) fn link_of(&self, addr: IpAddr) -> Option<InterfaceId> {
        let is_good = |origin: &Origin, group: &GroupId| {
            *origin != Origin::Neighbour && self.groups.is_active(*group)
        };
        let group = self.rib.find(addr, |prefix, entry| {
            let mut candidates = self.rib.candidates_in(prefix, *entry);
            candidates.find(|(origin, _, group)| is_good(origin, group)).map(|(.., group)| group)
        })?;
        self.groups.link(group)
    }

    /// A prefix's routes have changed: updates the forwarding table, and the host prefixes of
    /// neighbours in it.
    pub(super) fn update_prefix(&mut self, now: Time, prefix: &Prefix) {
        let change = self.update_fib_entry(now, prefix);
        if self.neighbours.within(prefix).next().is_none() {
            return;
        }
        if prefix.is_host() {
            // Whether its neighbour may have a host prefix depends on routes behind the best.
            return self.update_host_prefix(now, prefix.addr());
        }
        let Some((old, new)) = change else { return };
        let is_link = |group: Option<GroupId>| group.is_some_and(|g| self.groups.link(g).is_some());
        if !is_link(old) && !is_link(new) && !self.links.iter().any(|link| link.covers(prefix)) {
            return;
        }
        let within: Vec<_> = self.neighbours.within(prefix).collect();
        for id in within {
            if let Some(address) = self.neighbours.get(id).map(|n| n.address) {
                self.update_host_prefix(now, address);
            }
        }
    }

    /// Updates the forwarding table for one prefix; returns the old and new group if it changed.
    fn update_fib_entry(
        &mut self,
        now: Time,
        prefix: &Prefix,
    ) -> Option<(Option<GroupId>, Option<GroupId>)> {
        let entry = *self.rib.get(prefix)?;
        let (old, new) = (entry.told(), self.best(prefix, entry));
        if old == new {
            return None;
        }
        if let Some(group) = new
            && self.groups.count_use(group, true)
        {
            self.update_group(now, group);
        }
        self.outputs.push_back(Output::Fib { prefix: *prefix, group: new });
        self.rib.tell(prefix, new);
        if new.is_some_and(|group| self.groups.link(group).is_some()) {
            self.links.insert(*prefix);
        } else {
            self.links.remove(prefix);
        }
        if let Some(group) = old
            && self.groups.count_use(group, false)
        {
            self.update_group(now, group);
        }
        Some((old, new))
    }

    /// Updates the host prefix of one address.
    pub(super) fn update_host_prefix(&mut self, now: Time, address: IpAddr) {
        if is_link_local(address) {
            return;
        }
        let link = self.link_of(address);
        let host = link.filter(|link| {
            let id = self.neighbours.find(*link, address);
            id.is_some_and(|id| self.neighbours.mac(id).is_some())
        });
        let prefix = Prefix::host(address);
        let old = self.rib.route(&prefix, Origin::Neighbour, 0);
        let new = host.map(|interface| Way::Host(interface, address));
        if new.as_ref() == old.and_then(|group| self.groups.way(group)) {
            return;
        }
        let new = new.map(|way| self.groups.acquire(way, &self.interfaces, GROUPS_MAX));
        match new {
            Some(Ok(group)) => {
                self.rib.set(&prefix, Origin::Neighbour, 0, group);
            }
            Some(Err(refusal)) => return self.refuse(refusal),
            None => {
                self.rib.take(&prefix, Origin::Neighbour, 0);
            }
        }
        self.update_fib_entry(now, &prefix);
        self.release(old);
    }

    /// Updates a group: its gateways are neighbours while it is in use.
    pub(super) fn update_group(&mut self, now: Time, id: GroupId) {
        let is_used = self.groups.uses(id) > 0;
        let is_gateway = matches!(self.groups.way(id), Some(Way::Route(_)));
        let was_active = self.groups.is_active(id);
        let mut leaving = Vec::new();
        for (at, hop) in self.groups.hops(id).to_vec().into_iter().enumerate() {
            let gateway = hop.next.gateway.filter(|_| is_used && hop.state == HopState::Usable);
            match (hop.neighbour, gateway) {
                (None, Some(address)) => {
                    let interface = hop.next.interface;
                    let neighbour = match self.neighbours.find(interface, address) {
                        Some(id) if is_gateway => {
                            self.neighbours.pin(now, id);
                            Ok(id)
                        }
                        Some(id) => Ok(id),
                        None if is_gateway => {
                            self.neighbours.create(now, interface, address, None, true)
                        }
                        None => Err(Refusal::NeighboursFull),
                    };
                    if let Err(refusal) = neighbour {
                        self.refuse(refusal);
                        self.starved.insert(id);
                        self.feed_at = self.feed_at.min(now + FEED_AGAIN);
                    }
                    let neighbour = neighbour.map(Some).map_err(|_| HopState::NeighboursFull);
                    self.groups.set_neighbour(id, at, neighbour);
                }
                (Some(neighbour), None) => {
                    self.groups.set_neighbour(id, at, Ok(None));
                    leaving.push(neighbour);
                }
                _ => {}
            }
        }
        if let Some(group) = self.groups.news(id, &self.neighbours, Turn::Any) {
            self.outputs.push_back(Output::Group { id, group });
        }
        if is_gateway {
            leaving.into_iter().for_each(|neighbour| self.neighbours.unpin(neighbour));
        }
        if was_active && !self.groups.is_active(id) {
            self.update_prefixes_of(now, &[id]);
        }
    }

    /// Retries groups whose gateways found no room: as many as there may be room for, so that their
    /// prefixes are not published and withdrawn for nothing.
    pub(super) fn feed(&mut self, now: Time) {
        let mut room = self.neighbours.room();
        let mut turned = Vec::new();
        for id in std::mem::take(&mut self.starved) {
            let hops = self.groups.hops(id).iter();
            let missing = hops.filter(|hop| hop.state == HopState::NeighboursFull).count();
            if missing > room {
                self.starved.insert(id);
                continue;
            }
            room -= missing;
            if self.groups.refresh(id, &self.interfaces) {
                turned.push(id);
            }
            self.update_group(now, id);
        }
        let again = now + FEED_AGAIN;
        self.feed_at = if self.starved.is_empty() { Time::FOREVER } else { again };
        if !turned.is_empty() {
            self.update_prefixes_of(now, &turned);
        }
    }

    /// A source has listed all its routes.
    pub(super) fn end(&mut self, now: Time, source: Source) {
        let origin = Origin::from(source);
        let routes = self.rib.end(origin).into_iter();
        self.work.push_back(Work::Withdraw { now, origin, routes });
    }
}
