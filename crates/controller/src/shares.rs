//! How much each node that routes has to do, as it says every second: its share of the traffic, and
//! how busy it is.
//!
//! With `balance = "load"` a forwarder that is much busier than another one leaves a place of its
//! own unused for some time, so that the flows of this place go to others. All other flows stay
//! where they are.

use std::collections::BTreeMap;
use std::time::Duration;

use plexus_config::Balance;
use plexus_wire::Time;
use plexus_wire::fabric::message::Load;

use crate::event::Drop;
use crate::{Controller, NodeId};

/// A report this old is no longer believed.
const FRESH_FOR: Duration = Duration::from_secs(5);
/// Between two changes: flows that have moved show in what nodes say.
const SETTLE: Duration = Duration::from_secs(5);
/// From this on a forwarder is too busy, in thousandths.
const HOT: u16 = 800;
/// Another one is less busy only if it is so by as much.
const GAP: u16 = 200;

/// The nodes' reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    of: BTreeMap<u32, Said>,
    /// Places that forwarders leave unused.
    unused: BTreeMap<u32, u8>,
    changed: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Said {
    at: Time,
    routed: u64,
    /// Absent: there is nothing to compare with.
    per_s: Option<u64>,
    busy: u16,
}

/// The load of a node that routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Packets that it routes, per second.
    pub per_s: u64,
    /// How busy its busiest worker is, in thousandths.
    pub busy: u16,
}

impl Shares {
    fn hear(&mut self, now: Time, node: u32, load: &Load) {
        let before = self.of.get(&node).filter(|said| said.at < now);
        let per_s = before.and_then(|said| {
            // A node that has started anew counts from 0.
            let more = load.routed.checked_sub(said.routed)?;
            let time = now.since(said.at).as_nanos();
            u64::try_from(u128::from(more) * 1_000_000_000 / time.max(1)).ok()
        });
        let busy = load.busy.min(1000);
        self.of.insert(node, Said { at: now, routed: load.routed, per_s, busy });
    }

    fn share(&self, now: Time, node: u32) -> Option<Share> {
        let said = self.of.get(&node).filter(|said| now.since(said.at) < FRESH_FOR)?;
        Some(Share { per_s: said.per_s?, busy: said.busy })
    }

    /// The places that a forwarder leaves unused.
    pub(crate) fn unused(&self, node: u32) -> u8 {
        self.unused.get(&node).copied().unwrap_or(0)
    }

    /// The settings are new.
    pub(crate) fn forget_all(&mut self) {
        self.unused.clear();
    }

    /// Decides whether a forwarder is to leave a place unused, or to take one again. `forwarders`:
    /// those that are used, with their places.
    fn judge(&mut self, now: Time, forwarders: &[(u32, u8)]) -> bool {
        if self.changed.is_some_and(|changed| now.since(changed) < SETTLE) {
            return false;
        }
        let busy = |node: u32| self.share(now, node).map(|share| share.busy);
        let said: Option<Vec<(u16, u32, u8)>> = forwarders
            .iter()
            .map(|(node, places)| {
                Some((busy(*node)?, *node, places.saturating_sub(self.unused(*node))))
            })
            .collect();
        // Without a word of one of them nothing is known.
        let Some(said) = said else { return false };
        let (Some(hot), Some(cool)) = (said.iter().max(), said.iter().min()) else { return false };
        let (hot, cool) = (*hot, *cool);
        // A place that is taken again must not make its forwarder the busiest.
        let fits = |(busy, node, used): &&(u16, u32, u8)| {
            let with_one = u32::from(*busy) * (u32::from(*used) + 1) / u32::from((*used).max(1));
            self.unused(*node) > 0 && with_one + u32::from(GAP) <= u32::from(hot.0.max(HOT))
        };
        if hot.0 >= HOT && cool.0 + GAP <= hot.0 && hot.2 > 1 {
            *self.unused.entry(hot.1).or_default() += 1;
        } else if let Some((_, node, _)) = said.iter().find(fits)
            && let Some(unused) = self.unused.get_mut(node)
        {
            *unused -= 1;
        } else {
            return false;
        }
        self.changed = Some(now);
        true
    }
}

impl Controller {
    /// A node has said how much it has to do.
    pub(crate) fn load(&mut self, now: Time, node: u32, load: &Load) {
        if !self.is_forwarder(node) {
            return self.dropped(Drop::UnexpectedBody);
        }
        self.shares.hear(now, node, load);
        if self.config.balance != Balance::Load {
            return;
        }
        let named =
            self.config.forwarders.iter().filter_map(|forwarder| {
                Some((self.ready_node(&forwarder.node)?, forwarder.weight))
            });
        let forwarders: Vec<(u32, u8)> = named.collect();
        if self.shares.judge(now, &forwarders) {
            self.forwarders.forget_all();
        }
    }

    /// The load of a node that routes, if it has reported lately.
    pub fn share(&self, now: Time, node: NodeId) -> Option<Share> {
        self.shares.share(now, self.topology.index(node)?)
    }

    /// The places that a forwarder leaves unused because it is too busy.
    pub fn unused_places(&self, node: NodeId) -> u8 {
        self.topology.index(node).map_or(0, |node| self.shares.unused(node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Time {
        Time::from_nanos(s * 1_000_000_000)
    }

    /// Two forwarders of four places each, the first half as fast as the second: what they would
    /// say with as many places in use.
    fn say(shares: &mut Shares, now: Time, load: u32) {
        let used: Vec<u32> = (0..2).map(|node| 4 - u32::from(shares.unused(node))).collect();
        for (node, speed) in [(0, 1), (1, 2)] {
            let share = load * used[node] / used.iter().sum::<u32>();
            let busy = (share / speed).min(1000) as u16;
            shares.hear(now, node as u32, &Load { routed: 0, busy });
        }
    }

    #[test]
    fn a_busy_forwarder_gives_places_up_and_takes_them_again() {
        let mut shares = Shares::default();
        let forwarders = [(0, 4), (1, 4)];
        // Together they can take 3000; an equal share is too much for the first.
        for s in 1..60 {
            say(&mut shares, at(s), 2400);
            shares.judge(at(s), &forwarders);
        }
        let unused = [0, 1].map(|node| shares.unused(node));
        assert_eq!(unused, [2, 0], "a third of the load for the slower one");
        // It stays so.
        for s in 60..120 {
            say(&mut shares, at(s), 2400);
            assert!(!shares.judge(at(s), &forwarders), "at {s} s");
        }
        for s in 120..180 {
            say(&mut shares, at(s), 300);
            shares.judge(at(s), &forwarders);
        }
        assert_eq!([0, 1].map(|node| shares.unused(node)), [0, 0], "there is little to do");
    }

    #[test]
    fn without_a_word_of_each_nothing_changes() {
        let mut shares = Shares::default();
        shares.hear(at(1), 0, &Load { routed: 0, busy: 1000 });
        shares.hear(at(2), 0, &Load { routed: 0, busy: 1000 });
        assert!(!shares.judge(at(2), &[(0, 4), (1, 4)]));
        shares.hear(at(1), 1, &Load { routed: 0, busy: 0 });
        shares.hear(at(2), 1, &Load { routed: 0, busy: 0 });
        assert!(!shares.judge(at(9), &[(0, 4), (1, 4)]), "that is too long ago");
        // The last place stays.
        for s in 10..100 {
            shares.hear(at(s), 0, &Load { routed: 0, busy: 1000 });
            shares.hear(at(s), 1, &Load { routed: 0, busy: 0 });
            shares.judge(at(s), &[(0, 4), (1, 4)]);
        }
        assert_eq!(shares.unused(0), 3);
    }

    #[test]
    fn a_rate_is_counted_from_one_word_to_the_next() {
        let mut shares = Shares::default();
        shares.hear(at(1), 0, &Load { routed: 1000, busy: 2000 });
        assert_eq!(shares.share(at(1), 0), None);
        shares.hear(at(3), 0, &Load { routed: 5000, busy: 2000 });
        assert_eq!(shares.share(at(3), 0), Some(Share { per_s: 2000, busy: 1000 }));
        shares.hear(at(4), 0, &Load { routed: 10, busy: 1 });
        assert_eq!(shares.share(at(4), 0), None, "it has started anew");
        shares.hear(at(5), 0, &Load { routed: 20, busy: 1 });
        assert_eq!(shares.share(at(10), 0), None, "it is silent");
    }
}
