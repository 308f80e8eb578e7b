//! The lease table: the holder of each address, and the end of its lease.
//!
//! An address is free, offered, bound, past (its lease has expired; its host gets it again while no
//! other host needs it) or declined (a host found it in use). A host has at most one address that
//! is not declined. Addresses of a port's hosts count against the port's share, so that no port can
//! empty a pool with invented hosts. `Controller::has_share` also counts addresses without a lease.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use plexus_wire::{MacAddr, Time};

use crate::topology::Place;

/// Addresses examined for one offer: those in use without a lease are skipped.
const LOOKED_AT_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Offered,
    Bound,
    Past,
    Declined,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) mac: MacAddr,
    pub(crate) state: State,
    /// When the state expires; for a past lease, when it expired.
    pub(crate) until: Time,
    /// The port against whose share it counts; unknown after a restart.
    pub(crate) port: Option<Place>,
    /// It is in the store, so it becomes past when it expires.
    pub(crate) is_stored: bool,
}

/// A range of addresses for any client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) first: Ipv4Addr,
    pub(crate) last: Ipv4Addr,
    /// No address from here on has ever been used.
    fresh: u32,
    /// Where the next search among returned addresses begins, and among past leases. Otherwise a
    /// few addresses in use without a lease could hide all behind them.
    returned_at: Ipv4Addr,
    past_at: (Time, Ipv4Addr),
}

impl Pool {
    pub(crate) fn new(first: Ipv4Addr, last: Ipv4Addr) -> Pool {
        let past_at = (Time::ZERO, first);
        Pool { first, last, fresh: first.to_bits(), returned_at: first, past_at }
    }

    pub(crate) fn holds(&self, ip: Ipv4Addr) -> bool {
        (self.first..=self.last).contains(&ip)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Leases {
    entries: BTreeMap<Ipv4Addr, Entry>,
    by_mac: BTreeMap<MacAddr, Ipv4Addr>,
    /// Expiry of all states except past.
    ends: BTreeSet<(Time, Ipv4Addr)>,
    /// Past leases, in order of expiry.
    past: BTreeSet<(Time, Ipv4Addr)>,
    /// Addresses that were used and are free again, or were in use without a lease.
    returned: BTreeSet<Ipv4Addr>,
    per_port: BTreeMap<Place, usize>,
}

impl Leases {
    pub(crate) fn get(&self, ip: Ipv4Addr) -> Option<&Entry> {
        self.entries.get(&ip)
    }

    /// The address that a host is offered, has, or had last.
    pub(crate) fn of(&self, mac: MacAddr) -> Option<Ipv4Addr> {
        self.by_mac.get(&mac).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ipv4Addr, &Entry)> {
        self.entries.iter().map(|(ip, entry)| (*ip, entry))
    }

    /// Addresses that count against a port's share.
    pub(crate) fn len_at(&self, port: Place) -> usize {
        self.per_port.get(&port).copied().unwrap_or(0)
    }

    /// The next expiry of a state.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// Frees an address.
    pub(crate) fn remove(&mut self, ip: Ipv4Addr) -> Option<Entry> {
        let entry = self.entries.remove(&ip)?;
        if entry.state != State::Declined {
            self.by_mac.remove(&entry.mac);
        }
        if entry.state == State::Past {
            self.past.remove(&(entry.until, ip));
        } else {
            self.ends.remove(&(entry.until, ip));
            if let Some(port) = entry.port
                && let Some(count) = self.per_port.get_mut(&port)
            {
                *count -= 1;
                if *count == 0 {
                    self.per_port.remove(&port);
                }
            }
        }
        self.returned.insert(ip);
        Some(entry)
    }

    /// Sets the state of an address, replacing its old state and its host's other address. Returns
    /// that other address.
    pub(crate) fn put(&mut self, ip: Ipv4Addr, entry: Entry) -> Option<Ipv4Addr> {
        self.remove(ip);
        self.returned.remove(&ip);
        let mut other = None;
        if entry.state != State::Declined {
            other = self.of(entry.mac);
            other.and_then(|old| self.remove(old));
            self.by_mac.insert(entry.mac, ip);
        }
        if entry.state == State::Past {
            self.past.insert((entry.until, ip));
        } else {
            self.ends.insert((entry.until, ip));
            if let Some(port) = entry.port {
                *self.per_port.entry(port).or_default() += 1;
            }
        }
        self.entries.insert(ip, entry);
        other
    }

    /// Expires one state that is due: a stored lease becomes past, everything else free.
    pub(crate) fn end_next(&mut self, now: Time) -> Option<(Ipv4Addr, Entry)> {
        let &(_, ip) = self.ends.first().filter(|(at, _)| *at <= now)?;
        let entry = self.remove(ip)?;
        if entry.is_stored && entry.state != State::Declined {
            self.put(ip, Entry { state: State::Past, port: None, ..entry });
        }
        Some((ip, entry))
    }

    /// An address for a host: the one it has or had, otherwise the one it asks for, a fresh one, a
    /// returned one, or one whose lease has expired. Of these two kinds the search goes on where
    /// the last one ended.
    pub(crate) fn choose(
        &mut self,
        pool: &mut Pool,
        mac: MacAddr,
        asked: Option<Ipv4Addr>,
        is_usable: impl Fn(Ipv4Addr) -> bool,
    ) -> Option<Ipv4Addr> {
        let own = self.of(mac).filter(|ip| pool.holds(*ip));
        if let Some(ip) = own.filter(|ip| is_usable(*ip)) {
            return Some(ip);
        }
        let is_free =
            |ip: Ipv4Addr| self.get(ip).is_none_or(|e| e.state == State::Past) && is_usable(ip);
        if let Some(ip) = asked.filter(|ip| pool.holds(*ip) && is_free(*ip)) {
            return Some(ip);
        }
        for _ in 0..LOOKED_AT_MAX {
            if pool.fresh > pool.last.to_bits() || pool.fresh < pool.first.to_bits() {
                break;
            }
            let ip = Ipv4Addr::from(pool.fresh);
            if self.get(ip).is_none() && !self.returned.contains(&ip) {
                if is_usable(ip) {
                    // It stays fresh until it is entered into the table.
                    return Some(ip);
                }
                self.returned.insert(ip);
            }
            pool.fresh = pool.fresh.wrapping_add(1);
        }
        let (first, last, at) = (pool.first, pool.last, pool.returned_at);
        let returned = self.returned.range(at..=last).chain(self.returned.range(first..at));
        for &ip in returned.take(LOOKED_AT_MAX) {
            pool.returned_at = ip;
            if is_usable(ip) {
                return Some(ip);
            }
        }
        let at = pool.past_at;
        let past = self.past.range(at..).chain(self.past.range(..at));
        for &entry in past.filter(|(_, ip)| (first..=last).contains(ip)).take(LOOKED_AT_MAX) {
            pool.past_at = entry;
            if is_usable(entry.1) {
                return Some(entry.1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
