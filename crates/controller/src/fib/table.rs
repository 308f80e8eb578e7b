//! The table as a list of changes with versions, and what each forwarder has of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;

use plexus_wire::Prefix;
use plexus_wire::fabric::message::{FibChange, FibTarget};
use plexus_wire::fabric::{PLACES_MAX, Partition};

/// Most of what has gone that is kept: a node that was away for longer gets all anew.
const GONE_MAX: usize = 1 << 20;

/// What has a version.
#[derive(Clone, Copy, Debug)]
enum Key {
    Set(u32),
    Route(Prefix),
}

/// A node's share of the table: all sets, and all routes or those of its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Share {
    /// The whole table.
    #[default]
    Whole,
    /// The parts of this forwarder.
    Of(u8),
}

/// The content of a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Content {
    /// SPEC.md, 15.
    sum: u64,
    routes: usize,
}

impl Content {
    /// Adds what a change stands for, or takes it out.
    fn count(&mut self, digest: u64, routes: usize, is_in: bool) {
        match is_in {
            true => {
                self.sum = self.sum.wrapping_add(digest);
                self.routes += routes;
            }
            false => {
                self.sum = self.sum.wrapping_sub(digest);
                self.routes -= routes;
            }
        }
    }
}

/// The table. Each set and each prefix is in `log` once, at the version in which it last changed.
#[derive(Debug)]
pub(super) struct Table {
    version: u64,
    log: BTreeMap<u64, Key>,
    sets: BTreeMap<u32, (u64, Option<FibTarget>)>,
    routes: BTreeMap<Prefix, (u64, Option<u32>)>,
    /// Versions of what is gone, and is kept only to be told.
    gone: BTreeSet<u64>,
    /// The highest version of those that have been forgotten.
    pruned: u64,
    whole: Content,
    /// How forwarders share the table out, and what each of them has.
    partition: Option<Partition>,
    parts: [Content; PLACES_MAX],
    /// Hosts of sets, and in how many each is.
    vias: BTreeMap<IpAddr, u32>,
}

impl Default for Table {
    /// An empty table is a version too: a node that has nothing is at version 0.
    fn default() -> Table {
        Table {
            version: 1,
            log: BTreeMap::new(),
            sets: BTreeMap::new(),
            routes: BTreeMap::new(),
            gone: BTreeSet::new(),
            pruned: 0,
            whole: Content::default(),
            partition: None,
            parts: Default::default(),
            vias: BTreeMap::new(),
        }
    }
}

impl Table {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The sum of all that is in a share (SPEC.md, 15).
    pub(super) fn sum(&self, share: Share) -> u64 {
        self.content(share).sum
    }

    /// How many routes there are in a share.
    pub(super) fn routes(&self, share: Share) -> usize {
        self.content(share).routes
    }

    fn content(&self, share: Share) -> Content {
        match share {
            Share::Whole => self.whole,
            Share::Of(forwarder) => {
                self.parts.get(usize::from(forwarder)).copied().unwrap_or_default()
            }
        }
    }

    /// How forwarders share the table out.
    pub(super) fn partition(&self) -> Option<&Partition> {
        self.partition.as_ref()
    }

    /// Shares the table out in another way: a pass over all of it. `None`: nobody has a part.
    pub(super) fn set_partition(&mut self, partition: Option<Partition>) {
        if self.partition == partition {
            return;
        }
        (self.partition, self.parts) = (partition, Default::default());
        if self.partition.is_some() {
            let versions: Vec<u64> = self.log.keys().copied().collect();
            for version in versions {
                let change = self.change(version);
                if let Some((change, digest)) = change.and_then(|c| digest(&c).map(|d| (c, d))) {
                    self.count_in_parts(&change, digest, true);
                }
            }
        }
    }

    /// The hosts that sets name.
    pub(super) fn vias(&self) -> impl Iterator<Item = IpAddr> {
        self.vias.keys().copied()
    }

    /// Whether a node at this version can be told of everything that has gone since. `begun`: what
    /// had been forgotten when the node began with nothing, which it has never had.
    pub(super) fn reaches(&self, version: u64, begun: u64) -> bool {
        version == 0 || (self.pruned <= version.max(begun) && version <= self.version)
    }

    /// The highest version of those that have been forgotten.
    pub(super) fn pruned(&self) -> u64 {
        self.pruned
    }

    /// Sets what a set is; absent: it is gone.
    pub(super) fn set_target(&mut self, set: u32, target: Option<FibTarget>) {
        let (old, before) = self.sets.get(&set).cloned().unzip();
        let before = before.flatten();
        if before == target {
            return;
        }
        if let Some(change) = old.and_then(|version| self.change(version)) {
            self.count(&change, false);
        }
        self.count_vias(before.as_ref(), target.as_ref());
        let version = self.renew(old, Key::Set(set), target.is_none());
        self.sets.insert(set, (version, target));
        if let Some(change) = self.change(version) {
            self.count(&change, true);
        }
    }

    /// Sets where a prefix leads; absent: its route is withdrawn.
    pub(super) fn set_route(&mut self, prefix: Prefix, set: Option<u32>) {
        let before = self.routes.get(&prefix).copied();
        if before.map_or(set.is_none(), |(_, known)| known == set) {
            return;
        }
        let was = before.and_then(|(_, known)| known);
        if let Some(set) = was {
            self.count(&FibChange::Route { prefix, set: Some(set) }, false);
        }
        let version = self.renew(before.map(|(v, _)| v), Key::Route(prefix), set.is_none());
        self.routes.insert(prefix, (version, set));
        if let Some(set) = set {
            self.count(&FibChange::Route { prefix, set: Some(set) }, true);
        }
    }

    fn count_vias(&mut self, before: Option<&FibTarget>, after: Option<&FibTarget>) {
        for via in vias_of(after) {
            *self.vias.entry(via).or_default() += 1;
        }
        for via in vias_of(before) {
            let Some(count) = self.vias.get_mut(&via) else { continue };
            *count -= 1;
            if *count == 0 {
                self.vias.remove(&via);
            }
        }
    }

    /// Moves a key to the end of the log.
    fn renew(&mut self, old: Option<u64>, key: Key, is_gone: bool) -> u64 {
        if let Some(old) = old {
            self.log.remove(&old);
            self.gone.remove(&old);
        }
        self.version += 1;
        self.log.insert(self.version, key);
        if is_gone {
            self.gone.insert(self.version);
        }
        self.version
    }

    /// Adds what a change stands for to all shares that have it, or takes it out.
    fn count(&mut self, change: &FibChange, is_in: bool) {
        if let Some(digest) = digest(change) {
            self.whole.count(digest, routes_of(change), is_in);
            self.count_in_parts(change, digest, is_in);
        }
    }

    fn count_in_parts(&mut self, change: &FibChange, digest: u64, is_in: bool) {
        let Some(partition) = &self.partition else { return };
        let holders = match change {
            FibChange::Set { .. } => partition.all(),
            FibChange::Route { prefix, .. } => partition.holders_of(prefix),
        };
        for forwarder in holders.iter() {
            self.parts[usize::from(forwarder)].count(digest, routes_of(change), is_in);
        }
    }

    fn change(&self, version: u64) -> Option<FibChange> {
        self.log.get(&version).and_then(|key| self.read(*key))
    }

    fn read(&self, key: Key) -> Option<FibChange> {
        Some(match key {
            Key::Set(set) => FibChange::Set { set, target: self.sets.get(&set)?.1.clone() },
            Key::Route(prefix) => FibChange::Route { prefix, set: self.routes.get(&prefix)?.1 },
        })
    }

    /// The changes of a share since a version, in order, each with its own version.
    pub(super) fn since(
        &self,
        version: u64,
        share: Share,
    ) -> impl Iterator<Item = (u64, FibChange)> {
        let later = self.log.range((Bound::Excluded(version), Bound::Unbounded));
        let own = later.filter(move |(_, key)| self.is_in(**key, share));
        own.filter_map(|(version, key)| Some((*version, self.read(*key)?)))
    }

    fn is_in(&self, key: Key, share: Share) -> bool {
        match (key, share, &self.partition) {
            (Key::Set(_), ..) | (_, Share::Whole, _) => true,
            (Key::Route(prefix), Share::Of(forwarder), Some(partition)) => {
                partition.holders_of(&prefix).contains(forwarder)
            }
            (Key::Route(_), Share::Of(_), None) => false,
        }
    }

    /// Makes a version in which nothing has changed.
    pub(super) fn touch(&mut self) {
        self.version += 1;
    }

    /// Whether anything is kept only to be told that it is gone.
    pub(super) fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// The routes from a prefix on, in order.
    pub(super) fn from(&self, first: &Prefix) -> impl Iterator<Item = (Prefix, &FibTarget)> {
        let routes = self.routes.range(first..);
        routes
            .filter_map(|(prefix, (_, set))| Some((*prefix, self.sets.get(&(*set)?)?.1.as_ref()?)))
    }

    /// Forgets what is gone and was told to every node, up to this version.
    pub(super) fn prune(&mut self, told: u64) {
        let is_due = |gone: &BTreeSet<u64>, version| version <= told || gone.len() > GONE_MAX;
        while let Some(version) = self.gone.first().copied().filter(|v| is_due(&self.gone, *v)) {
            self.gone.remove(&version);
            self.pruned = version;
            match self.log.remove(&version) {
                Some(Key::Set(set)) => drop(self.sets.remove(&set)),
                Some(Key::Route(prefix)) => drop(self.routes.remove(&prefix)),
                None => {}
            }
        }
    }
}

/// A change's part of the sums: none, if something has gone.
fn digest(change: &FibChange) -> Option<u64> {
    let is_there = match change {
        FibChange::Set { target, .. } => target.is_some(),
        FibChange::Route { set, .. } => set.is_some(),
    };
    is_there.then(|| change.digest())
}

fn routes_of(change: &FibChange) -> usize {
    usize::from(matches!(change, FibChange::Route { .. }))
}

fn vias_of(target: Option<&FibTarget>) -> impl Iterator<Item = IpAddr> {
    let hops = match target {
        Some(FibTarget::Hosts(hops)) => &hops[..],
        _ => &[],
    };
    hops.iter().map(|hop| hop.via)
}
