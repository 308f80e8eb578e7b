//! The router's interfaces, and the prefixes that follow from their addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use super::input::{InterfaceFacts, InterfaceId, NextHop, Route};
use super::limits::Limits;
use super::refusal::Refusal;
use plexus_wire::Prefix;
pub(super) use plexus_wire::address::{is_link_local, is_unicast};

/// The interfaces that are up.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    up: BTreeMap<InterfaceId, InterfaceFacts>,
    /// The meaning of each prefix by interface addresses; the first claim to a prefix wins.
    claims: BTreeSet<(Prefix, Claim, InterfaceId)>,
}

/// The meaning of a prefix by an interface's address, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Local,
    Broadcast,
    Glean,
}

/// The changes of an interface.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// Prefixes whose connected route may have changed.
    pub(super) prefixes: BTreeSet<Prefix>,
    /// New addresses, and addresses with a new link address.
    pub(super) new_addresses: Vec<IpAddr>,
    /// Facts that were refused.
    pub(super) refused: Vec<Refusal>,
}

impl Interfaces {
    pub(super) fn get(&self, id: InterfaceId) -> Option<&InterfaceFacts> {
        self.up.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (InterfaceId, &InterfaceFacts)> {
        self.up.iter().map(|(id, facts)| (*id, facts))
    }

    /// Sets an interface's facts; absent: it is down.
    pub(super) fn set(
        &mut self,
        id: InterfaceId,
        facts: Option<InterfaceFacts>,
        limits: &Limits,
    ) -> Result<Change, Refusal> {
        let mut change = Change::default();
        let facts = match facts {
            Some(facts) => {
                if !self.up.contains_key(&id) && self.up.len() >= limits.interfaces {
                    return Err(Refusal::InterfacesFull);
                }
                Some(checked(facts, limits, &mut change.refused)?)
            }
            None => None,
        };
        let old = self.up.remove(&id);
        for (prefix, claim) in old.iter().flat_map(claims) {
            self.claims.remove(&(prefix, claim, id));
            change.prefixes.insert(prefix);
        }
        let Some(facts) = facts else { return Ok(change) };
        for (prefix, claim) in claims(&facts) {
            self.claims.insert((prefix, claim, id));
            change.prefixes.insert(prefix);
        }
        // Stations that knew an address elsewhere, or with another link address, have to be told.
        let is_known = |old: &&InterfaceFacts| old.mac == facts.mac && old.kernel == facts.kernel;
        let known = old.as_ref().filter(is_known);
        let is_new =
            |addr: &IpAddr| known.is_none_or(|old| old.addresses.iter().all(|(a, _)| a != addr));
        change.new_addresses = facts.addresses.iter().map(|(a, _)| *a).filter(is_new).collect();
        self.up.insert(id, facts);
        Ok(change)
    }

    /// The connected route of exactly this prefix. Link-local prefixes have none, because nothing
    /// is forwarded to them (RFC 4291, 2.5.6); own link-local addresses are local.
    pub(super) fn connected(&self, prefix: &Prefix) -> Option<Route> {
        let from = (*prefix, Claim::Local, InterfaceId(0));
        let &(found, claim, interface) = self.claims.range(from..).next()?;
        if found != *prefix {
            return None;
        }
        Some(match claim {
            Claim::Local => Route::Local,
            Claim::Broadcast => Route::Broadcast,
            Claim::Glean => {
                let (gateway, on_link, weight) = (None, false, 1);
                Route::Via(vec![NextHop { interface, gateway, on_link, weight }])
            }
        })
    }

    fn is_claimed(&self, addr: IpAddr, claim: Claim) -> bool {
        let prefix = Prefix::host(addr);
        let mut range =
            self.claims.range((prefix, claim, InterfaceId(0))..=(prefix, claim, InterfaceId(!0)));
        range.next().is_some()
    }

    /// True for an address of any of our interfaces.
    pub(super) fn is_own(&self, addr: IpAddr) -> bool {
        self.is_claimed(addr, Claim::Local)
    }

    /// True for an IPv4 broadcast address of one of our links.
    pub(super) fn is_broadcast(&self, addr: IpAddr) -> bool {
        addr == IpAddr::V4(Ipv4Addr::BROADCAST) || self.is_claimed(addr, Claim::Broadcast)
    }

    /// True if an interface with a kernel device has this address.
    pub(super) fn is_kernels(&self, addr: IpAddr) -> bool {
        let prefix = Prefix::host(addr);
        let range = self.claims.range((prefix, Claim::Local, InterfaceId(0))..);
        range
            .take_while(|(p, claim, _)| *p == prefix && *claim == Claim::Local)
            .any(|(_, _, id)| self.up.get(id).is_some_and(|facts| facts.kernel))
    }

    /// True if another station may have this address on this interface's link: it is in one of its
    /// prefixes, or link-local, and neither ours nor a broadcast address.
    pub(super) fn is_on_link(&self, id: InterfaceId, addr: IpAddr) -> bool {
        let Some(facts) = self.up.get(&id) else { return false };
        let is_near = is_link_local(addr)
            || facts.addresses.iter().any(|(a, len)| {
                Prefix::around(*a, *len).is_ok_and(|p| !p.is_host() && p.contains(addr))
            });
        is_near && is_unicast(addr) && !facts.is_own(addr) && !self.is_broadcast(addr)
    }

    /// The interface's source address towards `to`: in its prefix, otherwise of its scope,
    /// otherwise any of the family.
    pub(super) fn source(&self, id: InterfaceId, to: IpAddr) -> Option<IpAddr> {
        let family = |(a, _): &&(IpAddr, u8)| a.is_ipv4() == to.is_ipv4();
        let addresses = || self.up.get(&id).into_iter().flat_map(|f| &f.addresses).filter(family);
        let same = |(a, len): &&(IpAddr, u8)| {
            Prefix::around(*a, *len).is_ok_and(|prefix| prefix.contains(to))
        };
        let scope = |(a, _): &&(IpAddr, u8)| is_link_local(*a) == is_link_local(to);
        let found = addresses().find(same).or_else(|| addresses().find(scope));
        found.or_else(|| addresses().next()).map(|(a, _)| *a)
    }
}

impl InterfaceFacts {
    /// True for its own addresses, including the anycast address of its IPv6 subnets (RFC 4291,
    /// 2.6.1).
    pub(super) fn is_own(&self, addr: IpAddr) -> bool {
        self.addresses.iter().any(|(a, len)| *a == addr || anycast(*a, *len) == Some(addr))
    }

    /// True for an anycast address of its subnets.
    pub(super) fn is_anycast(&self, addr: IpAddr) -> bool {
        self.is_own(addr) && self.addresses.iter().all(|(a, _)| *a != addr)
    }
}

/// The subnet-router anycast address; with two addresses in the subnet there is none (RFC 6164).
fn anycast(addr: IpAddr, len: u8) -> Option<IpAddr> {
    let has_one = addr.is_ipv6() && len < 127 && !is_link_local(addr);
    Prefix::around(addr, len).ok().filter(|_| has_one).map(|prefix| prefix.addr())
}

/// The claims to prefixes by an interface's addresses.
fn claims(facts: &InterfaceFacts) -> Vec<(Prefix, Claim)> {
    let mut claims = Vec::new();
    for &(addr, len) in &facts.addresses {
        claims.push((Prefix::host(addr), Claim::Local));
        claims.extend(anycast(addr, len).map(|addr| (Prefix::host(addr), Claim::Local)));
        let Ok(subnet) = Prefix::around(addr, len) else { continue };
        if subnet.is_host() || is_link_local(addr) {
            continue;
        }
        claims.push((subnet, Claim::Glean));
        // With two addresses there is no broadcast (RFC 3021).
        if addr.is_ipv4() && len < 31 {
            claims.push((Prefix::host(subnet.addr()), Claim::Broadcast));
            claims.push((Prefix::host(subnet.last()), Claim::Broadcast));
        }
    }
    claims
}

/// The facts without invalid addresses.
fn checked(
    mut facts: InterfaceFacts,
    limits: &Limits,
    refused: &mut Vec<Refusal>,
) -> Result<InterfaceFacts, Refusal> {
    if facts.mac.is_multicast() || facts.mac.to_u64() == 0 {
        return Err(Refusal::InterfaceMac);
    }
    if facts.mtu < 68 {
        return Err(Refusal::InterfaceMtu);
    }
    let before = facts.addresses.len();
    facts.addresses.retain(|(addr, len)| {
        let Ok(subnet) = Prefix::around(*addr, *len) else { return false };
        let is_end = addr.is_ipv4() && *len < 31 && [subnet.addr(), subnet.last()].contains(addr);
        is_unicast(*addr) && *len > 0 && !is_end
    });
    let good = facts.addresses.len();
    refused.extend((good..before).map(|_| Refusal::InterfaceAddress));
    facts.addresses.truncate(limits.addresses);
    refused.extend((facts.addresses.len()..good).map(|_| Refusal::AddressesFull));
    Ok(facts)
}
