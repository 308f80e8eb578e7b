//! Location discovery: a switch's level, position and pod, from its neighbours' announcements
//! (§3.4).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plexus_wire::{MacAddr, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::message::{Level, Location};

/// A position proposed by an edge switch is reserved for it for this many intervals.
const TENTATIVE: u32 = 3;
/// Failed proposals before an edge switch tries other positions.
const TRIES: usize = 16;

/// The place of an edge switch: the beginning of its hosts' PMACs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The pod.
    pub pod: u16,
    /// Its number in the pod.
    pub position: u8,
}

/// A neighbour and its last word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbour {
    pub(super) id: MacAddr,
    pub(super) heard: Time,
    pub(super) word: Location,
}

impl Neighbour {
    pub(super) fn is_manager(&self) -> bool {
        self.word.distance == 0
    }
}

/// What a switch knows about itself.
#[derive(Debug)]
pub(super) struct Discovery {
    pub(super) level: Option<Level>,
    pub(super) position: Option<u8>,
    pub(super) pod: Option<u16>,
    random: Pcg64,
    /// Positions that edge switches above us know to be taken.
    taken: BTreeSet<u8>,
    proposal: Option<(u8, BTreeSet<MacAddr>)>,
    tries: usize,
    /// Of an aggregation switch: proposed positions, with the proposer and the expiry.
    tentative: BTreeMap<u8, (MacAddr, Time)>,
}

impl Discovery {
    pub(super) fn new(seed: u64) -> Discovery {
        Discovery {
            level: None,
            position: None,
            pod: None,
            random: Pcg64::seed_from_u64(seed),
            taken: BTreeSet::new(),
            proposal: None,
            tries: 0,
            tentative: BTreeMap::new(),
        }
    }

    /// Draws conclusions from the neighbours' latest announcements.
    pub(super) fn look(&mut self, has_hosts: bool, neighbours: &[Neighbour]) {
        let is = |level| move |n: &&Neighbour| n.word.level == Some(level);
        let edge = neighbours.iter().find(is(Level::Edge));
        if self.level.is_none() {
            let all_aggregation = !neighbours.is_empty()
                && neighbours.iter().all(|n| n.word.level == Some(Level::Aggregation));
            self.level = match (has_hosts, edge, all_aggregation) {
                (true, ..) => Some(Level::Edge),
                (_, Some(_), _) => Some(Level::Aggregation),
                (.., true) => Some(Level::Core),
                _ => None,
            };
        }
        let pod_from = match self.level {
            Some(Level::Edge) if self.position.is_some() => Level::Aggregation,
            Some(Level::Aggregation) => Level::Edge,
            _ => return,
        };
        if self.pod.is_none() && !self.is_alone(neighbours) {
            self.pod = neighbours.iter().filter(is(pod_from)).find_map(|n| n.word.pod);
        }
    }

    /// Whether it is an edge switch where there are no levels.
    pub(super) fn is_alone(&self, neighbours: &[Neighbour]) -> bool {
        let has_edge = neighbours.iter().any(|n| n.word.level == Some(Level::Edge));
        self.level == Some(Level::Edge) && (has_edge || neighbours.is_empty())
    }

    /// Its place, once it has one; edge switches only.
    pub(super) fn place(&self) -> Option<Place> {
        let is_edge = self.level == Some(Level::Edge);
        Some(Place { pod: self.pod?, position: self.position? }).filter(|_| is_edge)
    }

    /// What an edge switch asks the manager for: a pod, or a place for itself alone.
    pub(super) fn wants_place(&self, neighbours: &[Neighbour]) -> Option<bool> {
        let alone = self.is_alone(neighbours);
        (self.pod.is_none() && (alone || self.position == Some(0))).then_some(alone)
    }

    /// The position to propose now to the aggregation switches, if any.
    pub(super) fn propose(&mut self, neighbours: &[Neighbour]) -> Option<u8> {
        let is_settled = self.level != Some(Level::Edge) || self.position.is_some();
        let above = neighbours.iter().all(|n| n.word.level == Some(Level::Aggregation));
        if is_settled || !above || self.is_alone(neighbours) {
            return None;
        }
        // As many positions as there are switches above: in a fat tree there are no more. Where
        // none is to be had for long there must be.
        self.tries += 1;
        let range = (neighbours.len() + self.tries.saturating_sub(TRIES)).min(256);
        let free: Vec<u8> =
            (0..range).map(|p| p as u8).filter(|p| !self.taken.contains(p)).collect();
        // Tentative ones may be free again.
        self.taken.clear();
        let position = *free.get(self.random.random_range(0..free.len().max(1)))?;
        self.proposal = Some((position, BTreeSet::new()));
        Some(position)
    }

    /// An aggregation switch has decided on a proposal.
    pub(super) fn hear_verdict(
        &mut self,
        from: MacAddr,
        position: u8,
        granted: bool,
        taken: &[u8],
        neighbours: &[Neighbour],
    ) {
        self.taken.extend(taken);
        let Some((proposed, agreed)) = &mut self.proposal else { return };
        if *proposed != position || !granted || self.position.is_some() {
            return;
        }
        agreed.insert(from);
        // Most of all switches above.
        if 2 * agreed.len() > neighbours.len() {
            self.position = Some(position);
        }
    }

    /// Decides on the proposal of an edge switch: granted, or else the positions in use.
    pub(super) fn judge(
        &mut self,
        now: Time,
        interval: Duration,
        from: MacAddr,
        position: u8,
        neighbours: &[Neighbour],
    ) -> (bool, Vec<u8>) {
        self.tentative.retain(|_, (_, until)| *until > now);
        let others = neighbours.iter().filter(|n| n.id != from);
        let mut taken: BTreeSet<u8> = others.filter_map(|n| n.word.position).collect();
        let tentative = self.tentative.iter().filter(|(_, (who, _))| *who != from);
        taken.extend(tentative.map(|(position, _)| *position));
        let granted = !taken.contains(&position);
        if granted {
            self.tentative.retain(|_, (who, _)| *who != from);
            self.tentative.insert(position, (from, now + TENTATIVE * interval));
            taken.clear();
        }
        (granted, taken.into_iter().collect())
    }
}
