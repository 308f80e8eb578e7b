//! ASF, adaptive forwarding by smoothed round-trip time (Lehman et al., "An Experimental
//! Investigation of Hyperbolic Routing with a Smart Forwarding Plane in NDN", IWQoS 2016; NFD
//! developer guide, "ASF Strategy").
//!
//! Faces are ranked: working ones by round-trip time, then unmeasured ones, then failing ones;
//! within a group by cost. Now and then a probe, an Interest with a new nonce, goes to one more
//! face to measure it.

use std::time::Duration;

use rand::RngExt;

use super::measure::Health;
use super::suppression::Verdict;
use super::{Choice, Suppression, Turn, bits};

/// The first probe of a prefix is sent within this, milliseconds.
const FIRST_PROBE_MS: u64 = 5_000;
/// How long a satisfied Interest stays for the answer to a probe.
pub(crate) const STRAGGLER: Duration = Duration::from_millis(50);

/// The parameters of ASF.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asf {
    /// Suppression of retransmissions, per upstream.
    pub suppression: Suppression,
    /// Time between two probes of a prefix.
    pub probing_interval: Duration,
    /// Consecutive timeouts after which a face counts as failing.
    pub max_timeouts: u32,
    /// How long a measurement is valid.
    pub lifetime: Duration,
}

impl Default for Asf {
    fn default() -> Asf {
        Asf {
            suppression: Suppression::default(),
            probing_interval: Duration::from_secs(60),
            max_timeouts: 3,
            lifetime: Duration::from_secs(300),
        }
    }
}

impl Asf {
    pub(super) fn pick(&self, turn: &mut Turn<'_>) -> Choice {
        if !turn.is_pending() {
            let Some(hop) = self.best(turn, turn.eligible) else {
                return Choice::NoRoute { nack: true };
            };
            self.ask(turn, hop);
            let probe = self.probe(turn, hop);
            return Choice::Send { hops: 1 << hop, probe };
        }
        let unused = turn.unused();
        let (hop, new) = match self.best(turn, unused) {
            Some(hop) => (Some(hop), true),
            None => (turn.earliest(), false),
        };
        let Some(hop) = hop else { return Choice::Wait };
        let face = turn.hops[hop].face;
        if self.suppression.of_upstream(turn, face) == Verdict::Suppress {
            return Choice::Wait;
        }
        if new {
            self.ask(turn, hop);
        }
        Choice::one(hop)
    }

    fn health(&self, turn: &Turn<'_>, hop: usize) -> Health {
        let face = turn.hops[hop].face;
        turn.measurements.health(turn.key, face, turn.now, self.max_timeouts)
    }

    fn best(&self, turn: &Turn<'_>, of: u64) -> Option<usize> {
        bits(of).min_by_key(|&hop| (self.health(turn, hop), hop))
    }

    fn ask(&self, turn: &mut Turn<'_>, hop: usize) {
        let face = turn.hops[hop].face;
        let (key, now) = (turn.key, turn.now);
        turn.measurements.asked(key, face, now, self.max_timeouts, self.lifetime);
    }

    /// A face to probe besides `used`, if a probe is due: an unmeasured one, or else a random one;
    /// better faces have better chances.
    fn probe(&self, turn: &mut Turn<'_>, used: usize) -> Option<usize> {
        let now = turn.now;
        let namespace = turn.measurements.namespace(turn.key, now);
        let due = *namespace.probe_at.get_or_insert_with(|| {
            now + Duration::from_millis(turn.random.random_range(0..=FIRST_PROBE_MS))
        });
        if due > now {
            return None;
        }
        let rank = |hop: usize| match self.health(turn, hop) {
            Health::Unknown => (0, Duration::ZERO, hop),
            Health::Works(srtt) => (1, srtt, hop),
            Health::Fails => (2, Duration::ZERO, hop),
        };
        let mut ranked: arrayvec::ArrayVec<_, { crate::fib::HOPS_MAX }> =
            turn.eligible().filter(|&hop| hop != used).map(rank).collect();
        ranked.sort_unstable();
        let (group, _, first) = *ranked.first()?;
        let hop = if group == 0 {
            first
        } else {
            // The first of n has n chances, the last one has one.
            let n = ranked.len();
            let mut lot = turn.random.random_range(0..n * (n + 1) / 2);
            let chances = (1..=n).rev();
            let at = chances.take_while(|chances| {
                let passed = lot >= *chances;
                lot = lot.saturating_sub(if passed { *chances } else { 0 });
                passed
            });
            ranked[at.count()].2
        };
        turn.measurements.namespace(turn.key, now).probe_at = Some(now + self.probing_interval);
        self.ask(turn, hop);
        Some(hop)
    }
}
