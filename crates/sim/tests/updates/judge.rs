//! Judges every packet by the versions of the table.

use std::time::Duration;

use plexus_sim::SimTime;
use plexus_wire::Prefix;

use crate::scenario::{Counts, Delivery, Key, PEERS, Scenario, Seen, WARM_UP, World};
use crate::tables::Hops;

/// The time to live that hosts send.
const TTL: u8 = 64;
/// How long packets may be under way.
const TRANSIT: Duration = Duration::from_millis(20);
/// How long a box that starts anew may take to have a small table, and for each route more.
const FILL_MAX: Duration = Duration::from_secs(5);
const FILL_EACH: Duration = Duration::from_micros(100);
/// Then it asks for its neighbours, with all requests 1030 ms after the first, and holds few
/// packets meanwhile.
const NEIGHBOURS: Duration = Duration::from_millis(1200);
/// Boxes that sent packets to the box that has crashed learn of all its links within this time:
/// reports of them are lost too, and sent again.
const REPORTS: Duration = Duration::from_millis(500);
/// So many complaints are kept.
const WRONG_MAX: usize = 20;

/// A run that has ended.
pub(crate) struct Judge<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) world: &'a World,
    pub(crate) began: SimTime,
    /// By flow: the prefixes that cover its destination.
    pub(crate) covering: Vec<Vec<Prefix>>,
    /// The box of each peer.
    pub(crate) peers: [usize; PEERS as usize],
    pub(crate) crashed: usize,
}

impl Judge<'_> {
    /// Judges every packet.
    pub(crate) fn all(&self, seen: &Seen, counts: &mut Counts) {
        let back = self.back_at();
        let up = self.began + self.scenario.crash.2.into();
        counts.filled_ms = Duration::from(back.max(up) - up).as_millis() as u64;
        let fill_max = FILL_MAX + FILL_EACH * self.scenario.prefixes as u32;
        if Duration::from_millis(counts.filled_ms) > fill_max {
            counts.wrong.push(format!("the table came {} ms after the box", counts.filled_ms));
        }
        let mut sent: Vec<_> = seen.sent.iter().map(|(key, came)| (*key, came[0])).collect();
        sent.sort_unstable();
        for (key, (at, ingress)) in sent {
            // At the beginning boxes ask for the hosts.
            if Duration::from(at - self.began) < WARM_UP {
                continue;
            }
            let none = vec![];
            let carried = match self.scenario.forwarders {
                [] => &[(at, ingress)][..],
                _ => seen.carried.get(&key).unwrap_or(&none),
            };
            let delivered = seen.delivered.get(&key).map_or(&[][..], |all| all);
            let mut wrong = vec![];
            if seen.sent[&key].len() > 1 || carried.len() > 1 || delivered.len() > 1 {
                wrong.push("it was somewhere more than once".to_string());
            }
            match carried.first() {
                Some(&(at, node)) => self.one(key, at, node, delivered, counts, &mut wrong),
                None if self.is_excused(at, ingress, Hops::default(), back)
                    || self.is_on_its_way_to_the_lost(at) =>
                {
                    counts.excused += 1;
                }
                None => wrong.push("it is lost before it is routed".to_string()),
            }
            let room = WRONG_MAX.saturating_sub(counts.wrong.len());
            counts.wrong.extend(wrong.into_iter().take(room).map(|what| {
                let left: Vec<_> = delivered.iter().map(|d| (d.at, d.peer, d.ttl)).collect();
                format!("{key:?} of {at} by boxes {carried:?} to peers {left:?}: {what}")
            }));
        }
        if let Some(key) = seen.delivered.keys().find(|key| !seen.sent.contains_key(key)) {
            counts.wrong.push(format!("nobody has sent {key:?}"));
        }
    }

    /// A packet that has come to the box that routes it.
    fn one(
        &self,
        key: Key,
        at: SimTime,
        node: usize,
        delivered: &[Delivery],
        counts: &mut Counts,
        wrong: &mut Vec<String>,
    ) {
        let covering = &self.covering[key.0 as usize];
        let leaves = delivered.first().map_or(at + TRANSIT.into(), |d| d.at);
        let last = self.world.told_at(leaves);
        // Since the box told its version, and since its table was a version as a whole.
        let (known, whole) = (self.world.known_at(node, at), self.world.whole_at(node, at));
        let [said, all] = [known, whole].map(|first| self.world.tables.say(covering, first, last));
        let between = || format!("by changes {whole}, {known} to {last}, {said:?}, {all:?}");
        let Some(delivery) = delivered.first() else {
            if self.is_excused(at, node, all.hops, self.back_at()) {
                counts.excused += 1;
            } else if all.is_always {
                wrong.push(format!("it is lost, {}", between()));
            } else {
                counts.without_route += 1;
                counts.older_lost += u64::from(said.is_always);
            }
            return;
        };
        counts.delivered += 1;
        counts.in_doubt += u64::from(said.has_changed);
        if delivery.ttl != TTL - 1 {
            wrong.push("its time to live has not fallen by one".to_string());
        }
        match delivery.peer {
            peer if said.hops.has(peer) => {}
            peer if said.mixed.has(peer) => counts.mixed += 1,
            peer if all.mixed.has(peer) => counts.older += 1,
            _ => wrong.push(format!("no version leads there, {}", between())),
        }
    }

    /// When the box that starts anew had the whole table again.
    fn back_at(&self) -> SimTime {
        self.world.is_whole_at(self.crashed, self.began + self.scenario.crash.2.into())
    }

    /// Whether a packet may have been sent to the box that routes for all, by a way that led to it
    /// until it crashed.
    fn is_on_its_way_to_the_lost(&self, at: SimTime) -> bool {
        let down = self.began + self.scenario.crash.1.into();
        self.scenario.forwarders.contains(&self.scenario.crash.0)
            && at + TRANSIT.into() >= down
            && at <= down + REPORTS.into()
    }

    /// Whether a packet that has not come may have been lost in the box that started anew: in its
    /// queues, or because its host's box, or its peer's, was not there.
    fn is_excused(&self, at: SimTime, node: usize, hops: Hops, back: SimTime) -> bool {
        let down = self.began + self.scenario.crash.1.into();
        let is_around = at + TRANSIT.into() >= down && at <= down + TRANSIT.into();
        let is_beside =
            node == self.crashed || hops.each().any(|hop| self.peers[hop as usize] == self.crashed);
        is_around && !self.scenario.forwarders.is_empty()
            || is_beside && at + TRANSIT.into() >= down && at <= back + NEIGHBOURS.into()
    }
}
