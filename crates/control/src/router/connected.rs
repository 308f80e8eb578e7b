//! The consequences when an interface appears, changes or disappears: for groups, connected routes,
//! and neighbours.

use plexus_wire::{Prefix, Time};

use super::Router;
use super::groups::{GROUPS_MAX, Way};
use super::input::{InterfaceFacts, InterfaceId};
use super::output::GroupId;
use super::rib::Origin;

impl Router {
    /// An interface has new facts, or is down.
    pub(super) fn interface(&mut self, now: Time, id: InterfaceId, facts: Option<InterfaceFacts>) {
        let change = match self.interfaces.set(id, facts, &self.limits) {
            Ok(change) => change,
            Err(refusal) => return self.refuse(refusal),
        };
        change.refused.iter().for_each(|refusal| self.refuse(*refusal));
        // First the groups: traffic switches to other next hops at once.
        let mut turned = Vec::new();
        let groups: Vec<GroupId> = self.groups.iter().collect();
        for group in groups {
            let is_concerned = self.groups.hops(group).iter().any(|hop| {
                let gateway = hop.next.gateway.map(Prefix::host);
                hop.next.interface == id || gateway.is_some_and(|g| change.prefixes.contains(&g))
            });
            if is_concerned {
                if self.groups.refresh(group, &self.interfaces) {
                    turned.push(group);
                }
                self.update_group(now, group);
            }
        }
        for prefix in &change.prefixes {
            let old = self.rib.route(prefix, Origin::Connected, 0);
            let route = self.interfaces.connected(prefix).map(Way::Route);
            match route.map(|way| self.groups.acquire(way, &self.interfaces, GROUPS_MAX)) {
                Some(Ok(group)) => self.put(now, prefix, Origin::Connected, 0, group),
                Some(Err(refusal)) => self.refuse(refusal),
                None if old.is_some() => self.withdraw(now, prefix, Origin::Connected, 0),
                None => {}
            }
        }
        let of_interface = self.neighbours.iter().filter(|(_, n)| n.interface == id);
        let of_interface: Vec<_> =
            of_interface.map(|(n, neighbour)| (n, neighbour.address)).collect();
        for (neighbour, address) in of_interface {
            let is_gateway = self.neighbours.get(neighbour).is_some_and(|n| n.pins > 0);
            let is_near = self.interfaces.is_on_link(id, address)
                || self.link_of(address) == Some(id) && !self.interfaces.is_own(address);
            if !is_gateway && !is_near {
                self.neighbours.remove(neighbour);
            }
            self.update_host_prefix(now, address);
        }
        self.defended.retain(|(id, address), _| {
            self.interfaces.get(*id).is_some_and(|facts| facts.is_own(*address))
        });
        self.announce(id, &change.new_addresses);
        if !turned.is_empty() {
            self.update_prefixes_of(now, &turned);
        }
    }
}
