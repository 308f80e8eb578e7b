//! Named timers: one deadline per name, the earliest first.

use std::collections::{BTreeMap, BTreeSet};

use plexus_wire::Time;

/// A table of timers. Equal deadlines fire in the order of their names, so that runs are
/// reproducible.
#[derive(Debug)]
pub struct Timers<K> {
    by_time: BTreeSet<(Time, K)>,
    by_name: BTreeMap<K, Time>,
    /// The earliest deadline, cached because most calls only need that.
    next: Time,
}

impl<K> Default for Timers<K> {
    fn default() -> Timers<K> {
        Timers { by_time: BTreeSet::new(), by_name: BTreeMap::new(), next: Time::FOREVER }
    }
}

impl<K: Copy + Ord> Timers<K> {
    /// Sets a timer, replacing an earlier setting; `FOREVER` cancels it.
    pub fn set(&mut self, name: K, at: Time) {
        if at == Time::FOREVER {
            return self.cancel(name);
        }
        let before = self.by_name.insert(name, at);
        if before == Some(at) {
            return;
        }
        before.map(|before| self.by_time.remove(&(before, name)));
        self.by_time.insert((at, name));
        self.look();
    }

    /// Cancels a timer.
    pub fn cancel(&mut self, name: K) {
        if let Some(at) = self.by_name.remove(&name) {
            self.by_time.remove(&(at, name));
            self.look();
        }
    }

    /// The next timer that is due; it is removed.
    pub fn due(&mut self, now: Time) -> Option<K> {
        if self.next > now {
            return None;
        }
        let &(_, name) = self.by_time.first()?;
        self.cancel(name);
        Some(name)
    }

    /// When the next timer is due; `FOREVER` if none is set.
    pub fn next(&self) -> Time {
        self.next
    }

    fn look(&mut self) {
        self.next = self.by_time.first().map_or(Time::FOREVER, |(at, _)| *at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_once_in_order_and_only_when_due() {
        let mut timers = Timers::default();
        assert_eq!(timers.next(), Time::FOREVER);
        timers.set("late", Time::from_millis(20));
        timers.set("moved", Time::from_millis(5));
        timers.set("moved", Time::from_millis(10));
        timers.set("gone", Time::from_millis(1));
        timers.cancel("gone");
        assert_eq!(timers.due(Time::from_millis(9)), None);
        assert_eq!(timers.next(), Time::from_millis(10));
        assert_eq!(timers.due(Time::from_millis(30)), Some("moved"));
        assert_eq!(timers.due(Time::from_millis(30)), Some("late"));
        assert_eq!(timers.due(Time::from_millis(30)), None);
    }
}
