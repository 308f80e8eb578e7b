//! Derives the state of each route from the kernel's messages.
//!
//! Three difficulties: An IPv6 route with several hops is several entries to the kernel: additions
//! name all hops, deletions may name one. Two entries may share a key (the same subnet on two
//! devices, `ip route append`): then one message does not tell which is in force. And during a
//! dump, its content may be older than a message received before.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::event::{Hop, KernelEvent, KernelRoute, RouteKey};
use super::message::flag;
use super::next_hops::NextHops;
use super::parse::RouteFact;

/// The stored state of routes: compact, because most routes are one entry with one key.
#[derive(Default)]
pub(super) struct Routes {
    /// The hops of IPv6 routes by several, with the round of dumps that named them last.
    several: HashMap<RouteKey, (u64, Vec<Hop>)>,
    /// Keys of more than one entry.
    shared: HashSet<RouteKey>,
    /// While dumps run: what messages have said meanwhile.
    heard: HashMap<RouteKey, Heard>,
    /// The last route of the dump, and whether an entry with its key was reported.
    last: Option<(RouteFact, bool)>,
    /// Routes went while the dump ran, so that it may have left out others.
    disturbed: bool,
}

/// What messages have said of a key since the dumps began.
enum Heard {
    /// All there is to know: the dump has nothing to add.
    All,
    /// These entries were removed; the dump's other entries of the key are valid.
    Gone(Vec<RouteFact>),
}

/// Whether the messages sufficed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Known {
    /// Yes.
    Yes,
    /// Only a dump can show what is in force now.
    AskAgain,
}

impl Routes {
    /// Dumps begin.
    pub(super) fn begin(&mut self) {
        self.shared.clear();
        self.heard.clear();
        self.begin_dump();
    }

    /// One dump begins, perhaps again.
    pub(super) fn begin_dump(&mut self) {
        self.last = None;
        self.disturbed = false;
    }

    /// Whether the dump that has ended may have left out routes that are there. To find its place
    /// again, the kernel counts: in an IPv6 table that changed all that it has passed
    /// (fib6_dump_table), in IPv4 the entries of one address (fn_trie_dump_leaf). What went
    /// meanwhile, it takes others for.
    pub(super) fn disturbed(&self) -> bool {
        self.disturbed
    }

    /// Dumps have ended.
    pub(super) fn end(&mut self, round: u64) {
        self.several.retain(|_, (named, _)| *named >= round);
        self.heard = HashMap::new();
        self.begin_dump();
    }

    /// `RTM_NEWROUTE` with the flags of its header, while `dumping` or not.
    pub(super) fn added(
        &mut self,
        fact: RouteFact,
        flags: u16,
        dumping: Option<u64>,
        next_hops: &NextHops,
        events: &mut Vec<KernelEvent>,
    ) -> Known {
        let key = fact.key;
        let others = flags & (flag::EXCLUSIVE | flag::REPLACE) == 0;
        let was_shared = self.shared.contains(&key);
        if several(&fact).is_none() && others {
            // The kernel leaves EXCLUSIVE out where there was an entry of this key before
            // (fib_table_insert, fib6_add_rt2node). An IPv4 entry that is not appended comes
            // first, so that it counts.
            self.shared.insert(key);
            if flags & flag::APPEND != 0 {
                return Known::Yes;
            }
            if key.prefix.0.is_ipv6() {
                return Known::AskAgain;
            }
        }
        if dumping.is_some() {
            self.heard.insert(key, Heard::All);
        }
        let known = self.tell(fact, dumping.unwrap_or(u64::MAX), next_hops, events);
        if was_shared { Known::AskAgain } else { known }
    }

    /// `RTM_DELROUTE`, while `dumping` or not.
    pub(super) fn removed(
        &mut self,
        fact: RouteFact,
        dumping: bool,
        next_hops: &NextHops,
        events: &mut Vec<KernelEvent>,
    ) -> Known {
        let key = fact.key;
        if dumping {
            let heard = self.heard.entry(key).or_insert_with(|| Heard::Gone(Vec::new()));
            if let Heard::Gone(gone) = heard {
                gone.push(fact.clone());
            }
            let here = self.last.as_ref().map(|(last, _)| last.key.prefix.0);
            self.disturbed |= key.prefix.0.is_ipv6() || here == Some(key.prefix.0);
        }
        if self.shared.contains(&key) {
            return Known::AskAgain;
        }
        if let (Some(KernelRoute::Via(gone)), Some((named, hops))) =
            (&fact.route, self.several.get(&key))
        {
            let left: Vec<Hop> = hops.iter().filter(|h| !same_way(gone, h)).copied().collect();
            if left.len() == hops.len() {
                return Known::AskAgain;
            }
            if !left.is_empty() {
                let (named, route) = (*named, Some(KernelRoute::Via(left)));
                return self.tell(RouteFact { route, ..fact }, named, next_hops, events);
            }
        }
        self.several.remove(&key);
        let RouteFact { protocol, next_hop, .. } = fact;
        events.push(KernelEvent::Route { key, protocol, next_hop, route: None });
        Known::Yes
    }

    /// An entry of a dump of this round.
    pub(super) fn dumped(
        &mut self,
        mut fact: RouteFact,
        round: u64,
        next_hops: &NextHops,
        events: &mut Vec<KernelEvent>,
    ) -> Known {
        let key = fact.key;
        // Entries of one key follow each other, the one in force first. The same one twice is
        // where the kernel found its place again.
        let again = self.last.take().filter(|(last, _)| last.key == key);
        let told_before = again.as_ref().is_some_and(|(_, told)| *told);
        if again.is_some_and(|(last, _)| last != fact) {
            self.shared.insert(key);
        }
        let stands = !told_before
            && match self.heard.get(&key) {
                None => true,
                Some(Heard::All) => false,
                Some(Heard::Gone(gone)) => without(&mut fact, gone),
            };
        let told = told_before || stands || matches!(self.heard.get(&key), Some(Heard::All));
        self.last = Some((fact.clone(), told));
        if !stands {
            return Known::Yes;
        }
        self.tell(fact, round, next_hops, events)
    }

    /// This is the state of its key now.
    fn tell(
        &mut self,
        fact: RouteFact,
        round: u64,
        next_hops: &NextHops,
        events: &mut Vec<KernelEvent>,
    ) -> Known {
        match several(&fact) {
            Some(hops) => drop(self.several.insert(fact.key, (round, hops.to_vec()))),
            None => drop(self.several.remove(&fact.key)),
        }
        let RouteFact { key, protocol, next_hop, route, .. } = fact;
        // The kernel may have written out the hops as they were a moment ago.
        let by_object = (next_hop != 0).then(|| next_hops.resolve(next_hop)).flatten();
        let Some(route) = by_object.or(route) else { return Known::AskAgain };
        events.push(KernelEvent::Route { key, protocol, next_hop, route: Some(route) });
        Known::Yes
    }
}

/// The hops of an IPv6 route whose hops are separate entries.
fn several(fact: &RouteFact) -> Option<&[Hop]> {
    match &fact.route {
        Some(KernelRoute::Via(hops))
            if hops.len() > 1 && fact.next_hop == 0 && fact.key.prefix.0.is_ipv6() =>
        {
            Some(hops)
        }
        _ => None,
    }
}

fn same_way(gone: &[Hop], hop: &Hop) -> bool {
    gone.iter().any(|g| g.device == hop.device && g.gateway == hop.gateway)
}

/// Removes deleted entries from a dump's route; returns whether any are left.
fn without(fact: &mut RouteFact, gone: &[RouteFact]) -> bool {
    if gone.contains(fact) {
        return false;
    }
    if let (Some(KernelRoute::Via(hops)), 0, IpAddr::V6(_)) =
        (&mut fact.route, fact.next_hop, fact.key.prefix.0)
    {
        for entry in gone {
            if let Some(KernelRoute::Via(gone)) = &entry.route {
                hops.retain(|hop| !same_way(gone, hop));
            }
        }
        return !hops.is_empty();
    }
    true
}
