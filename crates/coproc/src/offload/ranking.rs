//! The ranking of a policy's flows: challengers on the CPU, incumbents in the table.

use plexus_table::PackedFlow;
use plexus_wire::Time;

use super::{Flows, Offload, State, WANTED_MAX};
use crate::rank::swaps;

/// The flow table is swept in so many rankings.
const SWEEP: usize = 10;

impl Offload {
    /// Ends an interval: places and swaps the largest flows, and refills the reserve.
    pub(super) fn rank(&mut self, now: Time) {
        let challengers = self.challengers(now);
        if !self.config.rank {
            return;
        }
        let mut challengers = challengers.into_iter().peekable();
        while self.room() > self.config.reserve as isize
            && self.wanted.len() < WANTED_MAX
            && let Some((flow, _)) = challengers.next()
        {
            self.want(now, flow, false);
        }
        let challengers: Vec<(PackedFlow, u32)> = challengers.collect();
        let incumbents = self.incumbents();
        let bytes: Vec<u32> = challengers.iter().map(|c| c.1).collect();
        let rates: Vec<u32> = incumbents.iter().map(|i| i.0).collect();
        let worth = swaps(&bytes, &rates, self.config.factor);
        let mut swapped = 0;
        for ((flow, _), (_, at)) in challengers.iter().zip(&incumbents).take(worth) {
            if self.wanted.len() >= WANTED_MAX || !self.budget(now, false) {
                break;
            }
            self.evict(*at);
            self.want(now, *flow, false);
            self.counters.ranked += 1;
            swapped += 1;
        }
        let mut idle = incumbents[swapped..].iter().take_while(|i| i.0 == 0);
        while self.room() < self.config.reserve as isize && self.budget(now, true) {
            let Some(at) = self.find_idle(now).or_else(|| Some(idle.next()?.1)) else { break };
            if self.rules[at].as_ref().is_some_and(|r| r.state == State::Forwarding) {
                self.evict(at);
            }
        }
    }

    /// The largest flows without a rule, by descending bytes.
    fn challengers(&mut self, now: Time) -> Vec<(PackedFlow, u32)> {
        let most = self.capacity;
        let mut largest: Vec<(PackedFlow, u32)> = match &mut self.flows {
            Flows::Table { table, interval, swept, .. } => {
                let mut slots = Vec::new();
                interval.take(most, &mut slots);
                let flow = |(slot, bytes)| table.at(slot).map(|(flow, _)| (flow, bytes));
                let largest = slots.into_iter().filter_map(flow).collect();
                let part = table.slots().div_ceil(SWEEP);
                *swept = table.sweep(*swept, part, now, |slot| interval.clear(slot));
                largest
            }
            Flows::Sketch(sketch) => {
                let mut flows = Vec::new();
                sketch.take(most, &mut flows);
                let saturated = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
                flows.into_iter().map(|(flow, bytes)| (flow, saturated(bytes))).collect()
            }
        };
        largest.retain(|(flow, _)| !self.index.contains_key(flow));
        largest
    }

    /// Rules that may give way, by ascending rate, and then by their last packet. A rule whose
    /// counter was not read yet may not.
    fn incumbents(&self) -> Vec<(u32, usize)> {
        let rules =
            self.rules.iter().enumerate().filter_map(|(at, rule)| Some((at, rule.as_ref()?)));
        let may = rules.filter(|(_, rule)| {
            rule.read.is_some() && matches!(rule.state, State::Passing | State::Forwarding)
        });
        let mut incumbents: Vec<_> = may.map(|(at, rule)| (rule.rate, rule.active, at)).collect();
        incumbents.sort_unstable();
        incumbents.into_iter().map(|(rate, _, at)| (rate, at)).collect()
    }
}
