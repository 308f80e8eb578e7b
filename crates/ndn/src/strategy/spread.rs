//! Spreads Interests over next hops: at random, or weighted round robin.

use rand::RngExt;

use super::suppression::Verdict;
use super::{Choice, Suppression, Turn, bits};

/// Random: any next hop; a retransmission goes to any that was not used yet.
pub(super) fn random(suppression: &Suppression, turn: &mut Turn<'_>) -> Choice {
    spread(suppression, turn, |turn, set| {
        let nth = turn.random.random_range(0..set.count_ones().max(1)) as usize;
        bits(set).nth(nth)
    })
}

/// Weighted: each prefix's Interests rotate over its next hops in proportion to their weight. A
/// point moves round a circle in steps of the golden ratio, so that a hop gets consecutive
/// Interests only as its weight requires; the length of a hop's arc is its weight.
pub(super) fn weighted(suppression: &Suppression, turn: &mut Turn<'_>) -> Choice {
    spread(suppression, turn, |turn, set| {
        let turns = &mut turn.measurements.namespace(turn.key, turn.now).turns;
        *turns = turns.wrapping_add(1);
        let point = turns.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11;
        let point = point as f64 / (1u64 << 53) as f64;
        let weight = |at: usize| 1.0 / turn.hops[at].cost.max(1) as f64;
        let mut left = point * bits(set).map(weight).sum::<f64>();
        let found = bits(set).find(|&at| {
            left -= weight(at);
            left < 0.0
        });
        found.or_else(|| bits(set).last())
    })
}

fn spread(
    suppression: &Suppression,
    turn: &mut Turn<'_>,
    pick: impl FnOnce(&mut Turn<'_>, u64) -> Option<usize>,
) -> Choice {
    match suppression.of_entry(turn) {
        Verdict::Suppress => Choice::Wait,
        Verdict::New => {
            let eligible = turn.eligible;
            pick(turn, eligible).map_or(Choice::NoRoute { nack: true }, Choice::one)
        }
        Verdict::Forward => turn.again(pick),
    }
}
