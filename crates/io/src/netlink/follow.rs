//! Follows the kernel's state message by message.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::event::{KernelEvent, KernelRoute};
use super::message::Message;
use super::next_hops::NextHops;
use super::parse::{
    self, AddressFact, DEL_NEXT_HOP, Detection, DeviceFact, NEW_NEXT_HOP, RouteFact,
};
use super::routes::{Known, Routes};

/// The known state of the kernel; it turns messages into events.
#[derive(Default)]
pub(super) struct Follower {
    routes: Routes,
    next_hops: NextHops,
    /// Devices by number, with the round that named each last.
    devices: HashMap<u32, (u64, DeviceFact)>,
    /// Reported addresses, by device, address and the kernel's prefix length: the round that named
    /// each last, and the length reported.
    addresses: HashMap<(u32, IpAddr, u8), (u64, u8)>,
    /// What routes depend on, with the round that named such a route last. Some of these routes
    /// may have gone since.
    needed: HashMap<Needed, u64>,
    /// While dumps run: what messages have named meanwhile, of which a dump may know less.
    heard: HashSet<Named>,
    /// How often dumps have begun.
    round: u64,
    dumping: bool,
    /// A change happened that the kernel does not report fully.
    ask_again: bool,
}

/// What routes go with, without the kernel telling of each.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Needed {
    Device(u32),
    /// The address that routes prefer as their source.
    Source(IpAddr),
}

/// The subject of a message, other than a route.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Named {
    Device(u32),
    Address(u32, IpAddr, u8),
    NextHop(u32),
}

impl Follower {
    /// Everything is going to be dumped.
    pub(super) fn begin(&mut self) {
        self.round += 1;
        self.dumping = true;
        self.ask_again = false;
        self.heard.clear();
        self.routes.begin();
    }

    /// One of the dumps begins, perhaps again.
    pub(super) fn begin_dump(&mut self) {
        self.routes.begin_dump();
    }

    /// Whether the dump that has ended may have left something out.
    pub(super) fn disturbed(&self) -> bool {
        self.routes.disturbed()
    }

    /// Everything has been dumped.
    pub(super) fn end(&mut self, events: &mut Vec<KernelEvent>) {
        self.dumping = false;
        self.heard.clear();
        self.routes.end(self.round);
        self.next_hops.forget_unnamed(self.round, events);
        self.devices.retain(|_, (named, _)| *named >= self.round);
        self.addresses.retain(|_, (named, _)| *named >= self.round);
        self.needed.retain(|_, named| *named >= self.round);
    }

    /// Everything is to be dumped once more.
    pub(super) fn ask_again(&mut self) {
        self.ask_again = true;
    }

    /// Whether everything has to be dumped once more.
    pub(super) fn asks_again(&self) -> bool {
        self.ask_again
    }

    /// Processes a message of a dump that this side requested.
    pub(super) fn dumped(&mut self, message: Message<'_>, events: &mut Vec<KernelEvent>) {
        let body = message.body;
        let known = match message.kind {
            libc::RTM_NEWROUTE => parse::route(body).map(|fact| {
                self.note_needs(&fact);
                self.routes.dumped(fact, self.round, &self.next_hops, events)
            }),
            _ => {
                if named(message).is_some_and(|named| !self.heard.contains(&named)) {
                    self.other(message, events);
                }
                None
            }
        };
        self.ask_again |= known == Some(Known::AskAgain);
    }

    /// A message about a change.
    pub(super) fn changed(&mut self, message: Message<'_>, events: &mut Vec<KernelEvent>) {
        let body = message.body;
        let known = match message.kind {
            libc::RTM_NEWROUTE => parse::route(body).map(|fact| {
                self.note_needs(&fact);
                let round = self.dumping.then_some(self.round);
                self.routes.added(fact, message.flags, round, &self.next_hops, events)
            }),
            libc::RTM_DELROUTE => parse::route(body)
                .map(|fact| self.routes.removed(fact, self.dumping, &self.next_hops, events)),
            _ => {
                if self.dumping {
                    self.heard.extend(named(message));
                }
                self.other(message, events);
                None
            }
        };
        self.ask_again |= known == Some(Known::AskAgain);
    }

    /// A message that is not about a route.
    fn other(&mut self, message: Message<'_>, events: &mut Vec<KernelEvent>) {
        let body = message.body;
        match message.kind {
            NEW_NEXT_HOP => {
                if let Some((id, object)) = parse::next_hop(body) {
                    self.next_hops.set(self.round, id, object, events);
                }
            }
            DEL_NEXT_HOP => {
                if let Some((id, _)) = parse::next_hop(body) {
                    self.next_hops.remove(id, events);
                }
            }
            libc::RTM_NEWADDR | libc::RTM_DELADDR => {
                if let Some(fact) = parse::address(body) {
                    self.address(fact, message.kind == libc::RTM_NEWADDR, events);
                }
            }
            libc::RTM_NEWLINK => {
                if let Some(fact) = parse::device(body) {
                    self.device(fact, events);
                }
            }
            libc::RTM_DELLINK => {
                if let Some(fact) = parse::device(body) {
                    // Its routes are removed with it; the kernel reports only IPv6 ones.
                    let known = self.devices.remove(&fact.index).is_some();
                    self.ask_again |= known && self.needs(Needed::Device(fact.index));
                    events.push(device_event(fact, false));
                }
            }
            _ => {}
        }
    }

    /// Records what a route depends on.
    fn note_needs(&mut self, fact: &RouteFact) {
        if let Some(KernelRoute::Via(hops)) = &fact.route {
            for hop in hops {
                self.needed.insert(Needed::Device(hop.device), self.round);
            }
        }
        // The kernel reports the removal of its own routes of an address.
        if let Some(source) = fact.source
            && (fact.protocol, fact.key.metric) != (libc::RTPROT_KERNEL, 0)
        {
            self.needed.insert(Needed::Source(source), self.round);
        }
    }

    /// Whether there may be routes that depend on this.
    fn needs(&self, what: Needed) -> bool {
        let by_object = |device| self.next_hops.name(device);
        self.needed.contains_key(&what) || matches!(what, Needed::Device(d) if by_object(d))
    }

    fn address(&mut self, fact: AddressFact, present: bool, events: &mut Vec<KernelEvent>) {
        let AddressFact { device, address, prefix_len, subnet_len, detection, .. } = fact;
        let key = (device, address, prefix_len);
        let old = self.addresses.remove(&key).map(|(_, len)| len);
        let new = match detection {
            _ if !present => None,
            Detection::Over => Some(subnet_len),
            // The address keeps its state while the detection is repeated.
            Detection::Running => old,
            Detection::Failed => None,
        };
        // Two addresses of the kernel that differ only in unreported properties are one.
        let is_other = |(d, a, _): &(u32, IpAddr, u8)| (*d, *a) == (device, address);
        let others = self.addresses.iter().filter(|(other, _)| is_other(other));
        let stays = others.map(|(_, (_, len))| Some(*len)).any(|len| len == old);
        let mut tell = |prefix_len, present| {
            events.push(KernelEvent::Address { device, address, prefix_len, present });
        };
        if let Some(old) = old.filter(|_| old != new && !stays) {
            tell(old, false);
        }
        if let Some(new) = new {
            self.addresses.insert(key, (self.round, new));
            tell(new, true);
        }
        // With an IPv4 address go, untold, the routes that prefer it as their source; with the
        // device's last one all IPv4 routes by the device.
        if !present && address.is_ipv4() {
            let is_last = !self.addresses.keys().any(|(d, a, _)| *d == device && a.is_ipv4());
            self.ask_again |= self.needs(Needed::Source(address))
                || (is_last && self.needs(Needed::Device(device)));
        }
    }

    fn device(&mut self, fact: DeviceFact, events: &mut Vec<KernelEvent>) {
        let old = self.devices.insert(fact.index, (self.round, fact.clone()));
        if let Some((named, old)) = old {
            // The kernel does not report what happens to routes when a device is set down or up:
            // IPv4 routes through it alone are removed; hops of others die and revive. Without a
            // carrier it loses its next-hop objects, in two steps: only when it no longer runs. The
            // kernel has done all this before it answers, because a dump of devices takes its lock,
            // rtnl; they are dumped first.
            let turned = old.admin_up() != fact.admin_up();
            self.ask_again |= turned && self.needs(Needed::Device(fact.index));
            let lost = old.state & !fact.state != 0;
            self.ask_again |= lost && self.next_hops.name(fact.index);
            if old == fact && named == self.round {
                return;
            }
        }
        events.push(device_event(fact, true));
    }
}

/// The subject of a message, if it can be parsed and is not a route.
fn named(message: Message<'_>) -> Option<Named> {
    let body = message.body;
    match message.kind {
        libc::RTM_NEWLINK | libc::RTM_DELLINK => {
            parse::device(body).map(|d| Named::Device(d.index))
        }
        libc::RTM_NEWADDR | libc::RTM_DELADDR => {
            parse::address(body).map(|a| Named::Address(a.device, a.address, a.prefix_len))
        }
        NEW_NEXT_HOP | DEL_NEXT_HOP => parse::next_hop(body).map(|(id, _)| Named::NextHop(id)),
        _ => None,
    }
}

fn device_event(fact: DeviceFact, present: bool) -> KernelEvent {
    let up = present && fact.up();
    let DeviceFact { index, name, mac, mtu, .. } = fact;
    KernelEvent::Device { index, name, mac, mtu, up, present }
}

#[cfg(test)]
mod tests;
