//! The kernel's state, followed message by message.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::event::KernelEvent;
use super::message::Message;
use super::next_hops::NextHops;
use super::parse::{self, AddressFact, DeviceFact, kind};
use super::routes::{Known, Routes};

/// What is known of the kernel's state; it turns messages into events.
#[derive(Default)]
pub(super) struct Follower {
    routes: Routes,
    next_hops: NextHops,
    /// Devices by number, with the round that named each last.
    devices: HashMap<u32, (u64, DeviceFact)>,
    /// While dumps run: what messages have named meanwhile, of which a dump may know less.
    heard: HashSet<Named>,
    /// How often dumps have begun.
    round: u64,
    dumping: bool,
    /// Something has happened of which the kernel tells too little.
    ask_again: bool,
}

/// What a message can be about, besides a route.
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
    }

    /// Whether everything has to be dumped once more.
    pub(super) fn asks_again(&self) -> bool {
        self.ask_again
    }

    /// A message of a dump that this side asked for.
    pub(super) fn dumped(&mut self, message: Message<'_>, events: &mut Vec<KernelEvent>) {
        let body = message.body;
        let known = match message.kind {
            kind::NEW_ROUTE => parse::route(body)
                .map(|fact| self.routes.dumped(fact, self.round, &self.next_hops, events)),
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
            kind::NEW_ROUTE => parse::route(body).map(|fact| {
                let round = self.dumping.then_some(self.round);
                self.routes.added(fact, message.flags, round, &self.next_hops, events)
            }),
            kind::DEL_ROUTE => parse::route(body)
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
            kind::NEW_NEXT_HOP => {
                if let Some((id, object)) = parse::next_hop(body) {
                    self.next_hops.set(self.round, id, object, events);
                }
            }
            kind::DEL_NEXT_HOP => {
                if let Some((id, _)) = parse::next_hop(body) {
                    self.next_hops.remove(id, events);
                }
            }
            kind::NEW_ADDRESS | kind::DEL_ADDRESS => {
                if let Some(fact) = parse::address(body) {
                    self.address(fact, message.kind == kind::NEW_ADDRESS, events);
                }
            }
            kind::NEW_LINK => {
                if let Some(fact) = parse::device(body) {
                    self.device(fact, events);
                }
            }
            kind::DEL_LINK => {
                if let Some(fact) = parse::device(body) {
                    // Its routes go with it, of which the kernel tells IPv6 ones only.
                    self.ask_again |= self.devices.remove(&fact.index).is_some();
                    events.push(device_event(fact, false));
                }
            }
            _ => {}
        }
    }

    fn address(&mut self, fact: AddressFact, present: bool, events: &mut Vec<KernelEvent>) {
        let AddressFact { device, address, prefix_len, tentative, .. } = fact;
        // With an IPv4 address go, untold, the routes that prefer it as their source.
        self.ask_again |= !present && address.is_ipv4();
        if !(present && tentative) {
            events.push(KernelEvent::Address { device, address, prefix_len, present });
        }
    }

    fn device(&mut self, fact: DeviceFact, events: &mut Vec<KernelEvent>) {
        let old = self.devices.insert(fact.index, (self.round, fact.clone()));
        if let Some((named, old)) = old {
            // What a device that is set down or up does to routes, the kernel does not tell:
            // IPv4 routes by it alone go, hops of others die and come to life again. Without its
            // carrier it loses its next-hop objects, in two steps: only when it no longer runs.
            // That the kernel has done all this before it answers is due to rtnl, its lock, which
            // a dump of devices takes; they are dumped first.
            self.ask_again |= old.admin_up() != fact.admin_up();
            let lost = old.state & !fact.state != 0;
            self.ask_again |= lost && !self.next_hops.is_empty();
            if old == fact && named == self.round {
                return;
            }
        }
        events.push(device_event(fact, true));
    }
}

/// What a message is about, if it can be read and is not about a route.
fn named(message: Message<'_>) -> Option<Named> {
    let body = message.body;
    match message.kind {
        kind::NEW_LINK | kind::DEL_LINK => parse::device(body).map(|d| Named::Device(d.index)),
        kind::NEW_ADDRESS | kind::DEL_ADDRESS => {
            parse::address(body).map(|a| Named::Address(a.device, a.address, a.prefix_len))
        }
        kind::NEW_NEXT_HOP | kind::DEL_NEXT_HOP => {
            parse::next_hop(body).map(|(id, _)| Named::NextHop(id))
        }
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
