//! Multicast: all next hops, each with a suppression of its own. Nacks are not passed on.

use super::suppression::Verdict;
use super::{Choice, Suppression, Turn};

pub(super) fn pick(suppression: &Suppression, turn: &mut Turn<'_>) -> Choice {
    let mut hops = 0;
    for at in turn.eligible() {
        let face = turn.hops[at].face;
        if suppression.of_upstream(turn, face) != Verdict::Suppress {
            hops |= 1 << at;
        }
    }
    match (hops, turn.eligible) {
        (0, 0) => Choice::NoRoute { nack: false },
        (0, _) => Choice::Wait,
        _ => Choice::Send { hops, probe: None },
    }
}
