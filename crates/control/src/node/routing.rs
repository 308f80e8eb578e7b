//! This node tells the group's router which hosts lead to other networks, and which station has an
//! address that packets are routed to.
//!
//! The router asks nobody. A packet to an address that it does not know becomes a question to the
//! controller, in the name of the host that sent it, and the answer is kept here. Addresses that
//! packets are still routed to are asked for again from time to time, because another station may
//! have them by now. Others are forgotten.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use plexus_wire::{MacAddr, Time};

use super::effect::{Effect, Timer, Turn};
use super::fib::Fib;
use super::host_frame::Party;
use super::stations::Group;

/// Most addresses.
const KNOWN_MAX: usize = 8192;
/// An address in use is asked for again after this time, as hosts do (RFC 4861, 10).
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// A host that leads to other networks and did not answer is not asked first for this long.
const AVOIDED_FOR: Duration = Duration::from_secs(10);

/// The addresses that packets are routed to.
#[derive(Debug, Default)]
pub(crate) struct Routing {
    /// The routes to other networks.
    pub(crate) fib: Fib,
    /// Hosts of these that did not answer, and when.
    silent: BTreeMap<IpAddr, Time>,
    known: BTreeMap<IpAddr, Known>,
    /// Addresses of this node's stations: they need no asking, and packets must come from them.
    own: BTreeMap<IpAddr, MacAddr>,
}

/// A station that packets are routed to.
#[derive(Debug)]
struct Known {
    mac: MacAddr,
    /// The host that asked last, and its port; absent: the station has asked for a host here.
    asker: Option<(u8, Party)>,
    /// Packets were routed to it since it was last asked for.
    used: bool,
    /// It sends packets to be routed, and is kept while nothing is sent to it.
    sends: bool,
}

impl Routing {
    /// The group has these networks from now on. `own`: every address of this node's stations.
    pub(crate) fn begin(
        &mut self,
        turn: &mut Turn<'_>,
        group: Option<&Group>,
        own: impl Iterator<Item = (IpAddr, MacAddr)>,
    ) {
        for address in std::mem::take(&mut self.known).into_keys() {
            turn.timers.cancel(Timer::Known(address));
            turn.push(Effect::Neighbour { address, mac: None });
        }
        for address in std::mem::take(&mut self.own).into_keys() {
            turn.push(Effect::Neighbour { address, mac: None });
        }
        for (address, mac) in own {
            self.hear(turn, group, Effect::Granted { address, mac });
        }
    }

    /// Takes note of what the node has found out about an address.
    pub(crate) fn hear(&mut self, turn: &mut Turn<'_>, group: Option<&Group>, news: Effect) {
        match news {
            Effect::Granted { address, mac }
                // Those of routing daemons are the router's own.
                if group.is_some_and(|g| g.has_network(address) && !g.owns(address)) =>
            {
                self.drop_known(turn, address);
                self.own.insert(address, mac);
                turn.push(Effect::Neighbour { address, mac: Some(mac) });
            }
            Effect::Revoked { address, mac } if self.own.get(&address) == Some(&mac) => {
                self.own.remove(&address);
                turn.push(Effect::Neighbour { address, mac: None });
            }
            Effect::Found { address, mac } => {
                if let Some(known) = self.known.get_mut(&address).filter(|k| k.mac != mac) {
                    known.mac = mac;
                    turn.push(Effect::Neighbour { address, mac: Some(mac) });
                }
            }
            Effect::Learn { address, mac, asker, fresh } => {
                self.learn(turn, address, mac, asker, fresh);
            }
            Effect::Sends { address, mac } => {
                self.learn(turn, address, mac, None, true);
                if let Some(known) = self.known.get_mut(&address) {
                    known.sends = true;
                }
            }
            Effect::Forget { address } => {
                if self.fib.alike(address).next().is_some() {
                    self.silent.retain(|_, since| turn.now.since(*since) < AVOIDED_FOR);
                    self.silent.insert(address, turn.now);
                }
                if self.drop_known(turn, address) {
                    turn.push(Effect::Neighbour { address, mac: None });
                }
            }
            _ => {}
        }
    }

    fn learn(
        &mut self,
        turn: &mut Turn<'_>,
        address: IpAddr,
        mac: MacAddr,
        asker: Option<(u8, Party)>,
        fresh: bool,
    ) {
        if self.own.contains_key(&address) {
            return;
        }
        self.silent.remove(&address);
        if !self.known.contains_key(&address) && self.known.len() >= KNOWN_MAX {
            let unused = self.known.iter().find(|(_, known)| !known.used);
            let victim = unused.or_else(|| self.known.first_key_value()).map(|(ip, _)| *ip);
            if let Some(address) = victim {
                self.drop_known(turn, address);
                turn.push(Effect::Neighbour { address, mac: None });
            }
        }
        let before = self.known.get(&address);
        let is_new = before.is_none_or(|known| known.mac != mac);
        let used = !fresh || before.is_none_or(|known| known.used);
        let asker = asker.or_else(|| before.and_then(|known| known.asker));
        let sends = before.is_some_and(|known| known.sends && known.mac == mac);
        self.known.insert(address, Known { mac, asker, used, sends });
        // Also if it is known: a packet has just shown that the router lacks it.
        turn.push(Effect::Neighbour { address, mac: Some(mac) });
        // Learning again from an old answer does not make it younger.
        if fresh || is_new {
            turn.after(ASK_AGAIN, Timer::Known(address));
        }
    }

    fn drop_known(&mut self, turn: &mut Turn<'_>, address: IpAddr) -> bool {
        turn.timers.cancel(Timer::Known(address));
        self.known.remove(&address).is_some()
    }

    /// Whether the router knows the station with this address.
    fn knows(&self, address: IpAddr) -> bool {
        self.known.contains_key(&address) || self.own.contains_key(&address)
    }

    /// The host to ask for, of those that lead to an address of another network: one that has not
    /// just failed to answer, if there is one.
    pub(crate) fn next_hop(&self, now: Time, target: IpAddr) -> Option<IpAddr> {
        let mut hops = self.fib.hosts(target);
        let is_silent = |via: &IpAddr| {
            self.silent.get(via).is_some_and(|since| now.since(*since) < AVOIDED_FOR)
        };
        hops.clone().find(|via| !is_silent(via)).or_else(|| hops.next())
    }

    /// Whether a host of another node is known to send from an address: its own, or one beyond it
    /// if it leads to other networks.
    pub(crate) fn sends_from(&self, source: IpAddr, host: MacAddr, group: &Group) -> bool {
        match group.has_network(source) {
            true => self.known.get(&source).is_some_and(|known| known.mac == host),
            false => self.addresses_of(host).next().is_some(),
        }
    }

    /// The addresses of this station that packets are routed to.
    pub(crate) fn addresses_of(&self, station: MacAddr) -> impl Iterator<Item = IpAddr> {
        let known = self.known.iter().map(|(address, known)| (address, &known.mac));
        let all = known.chain(&self.own).filter(move |(_, mac)| **mac == station);
        all.map(|(address, _)| *address)
    }

    /// This address, and those of hosts that lead to a network that it leads to as well.
    pub(crate) fn alike(&self, address: IpAddr) -> Vec<IpAddr> {
        let mut all: Vec<IpAddr> = self.fib.alike(address).chain([address]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Other hosts that lead to a network that this one leads to as well, and that are still to be
    /// asked for.
    pub(super) fn unknown_alike(&self, address: IpAddr) -> Vec<IpAddr> {
        let all = self.alike(address).into_iter();
        all.filter(|other| *other != address && !self.knows(*other)).collect()
    }

    /// Packets are being routed to these.
    pub(crate) fn note_used(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            if let Some(known) = self.known.get_mut(address) {
                known.used = true;
            }
        }
    }

    /// An address is old. Gives the host in whose name to ask for it again, and its port. One that
    /// is not in use is forgotten, and so is one whose host is not here any more.
    pub(crate) fn is_old(
        &mut self,
        turn: &mut Turn<'_>,
        address: IpAddr,
        is_here: impl Fn(u8, Party) -> bool,
    ) -> Option<(u8, Party)> {
        let known = self.known.get_mut(&address)?;
        let is_kept = known.asker.is_none_or(|(port, asker)| is_here(port, asker));
        let is_used = std::mem::take(&mut known.used);
        if known.sends && !(is_used && is_kept) {
            turn.after(ASK_AGAIN, Timer::Known(address));
            return None;
        }
        if !is_used || !is_kept {
            self.drop_known(turn, address);
            turn.push(Effect::Neighbour { address, mac: None });
            return None;
        }
        let asker = known.asker;
        turn.after(ASK_AGAIN, Timer::Known(address));
        asker
    }
}
