//! Best route: the cheapest next hop. A retransmission goes to the cheapest hop not used yet, and
//! when all have been used, to the one used longest ago.

use super::suppression::Verdict;
use super::{Choice, Suppression, Turn, bits};

#[inline]
pub(super) fn pick(suppression: &Suppression, turn: &mut Turn<'_>) -> Choice {
    match suppression.of_entry(turn) {
        Verdict::New => turn.eligible().next().map_or(Choice::NoRoute { nack: true }, Choice::one),
        Verdict::Suppress => Choice::Wait,
        Verdict::Forward => turn.again(|_, unused| bits(unused).next()),
    }
}
