//! All versions of a table, naively: for each prefix what it was set to, and when.

use std::collections::HashMap;
use std::net::IpAddr;

use plexus_wire::Prefix;

/// Next hops, a bit each; none: there is no route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hops(u32);

impl Hops {
    pub(crate) fn one(hop: u32) -> Hops {
        Hops(1 << hop)
    }

    pub(crate) fn with(self, more: Hops) -> Hops {
        Hops(self.0 | more.0)
    }

    pub(crate) fn has(self, hop: u32) -> bool {
        self.0 >> hop & 1 == 1
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn each(self) -> impl Iterator<Item = u32> {
        (0..32).filter(move |hop| self.has(*hop))
    }
}

/// A prefix gets these next hops.
pub(crate) type Change = (Prefix, Hops);

/// The table after each change.
#[derive(Default)]
pub(crate) struct Tables {
    /// By prefix: the number of each of its changes, and what it was set to.
    history: HashMap<Prefix, Vec<(u64, Hops)>>,
    /// The number of the last change.
    pub(crate) now: u64,
}

/// The next hops of one address by several versions of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Next hops that any of them names.
    pub(crate) hops: Hops,
    /// Next hops of tables in which each prefix is as in any of them, but not all as in the same.
    /// A node that catches up is told where each prefix last changed, so it passes such tables.
    pub(crate) mixed: Hops,
    /// A prefix with a route in all of them covers the address.
    pub(crate) is_always: bool,
    /// They do not all say the same.
    pub(crate) has_changed: bool,
}

impl Tables {
    pub(crate) fn change(&mut self, (prefix, hops): Change) {
        self.now += 1;
        self.history.entry(prefix).or_default().push((self.now, hops));
    }

    /// The prefixes that cover an address, the longest first.
    pub(crate) fn covering(&self, address: IpAddr) -> Vec<Prefix> {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let around = (0..=longest).rev().filter_map(|len| Prefix::around(address, len).ok());
        around.filter(|prefix| self.history.contains_key(prefix)).collect()
    }

    /// The next hops by the versions from `first` to `last`, of the prefixes that cover an address.
    pub(crate) fn say(&self, covering: &[Prefix], first: u64, last: u64) -> Said {
        // By prefix: the value at `first`, then those of later changes.
        let values: Vec<&[(u64, Hops)]> = covering
            .iter()
            .map(|prefix| {
                let all = &self.history[prefix][..];
                let from = all.partition_point(|(at, _)| *at <= first).saturating_sub(1);
                let to = all.partition_point(|(at, _)| *at <= last);
                &all[from.min(to)..to]
            })
            .collect();
        let mut said = Said::default();
        let mut times: Vec<u64> = values.iter().copied().flatten().map(|(at, _)| *at).collect();
        times.push(first);
        times.retain(|at| *at >= first);
        times.sort_unstable();
        times.dedup();
        let at = |version: u64| {
            let of_prefix = values.iter().map(|values| {
                let known = values.partition_point(|(at, _)| *at <= version);
                known.checked_sub(1).map_or(Hops::default(), |last| values[last].1)
            });
            of_prefix.into_iter().find(|hops| !hops.is_none()).unwrap_or_default()
        };
        let begun = at(first);
        for version in times {
            said.hops = said.hops.with(at(version));
            said.has_changed |= at(version) != begun;
        }
        for values in values {
            values.iter().for_each(|(_, hops)| said.mixed = said.mixed.with(*hops));
            let is_there = values.first().is_some_and(|(at, _)| *at <= first)
                && values.iter().all(|(_, hops)| !hops.is_none());
            said.is_always |= is_there;
            if is_there {
                // No shorter prefix is looked at.
                break;
            }
        }
        said
    }
}
