//! Forwarding strategies: to which of a prefix's next hops an Interest is sent.
//!
//! A strategy chooses, the forwarder sends. A strategy sees the next hops, which of them are
//! eligible (not back where the Interest came from, not out of its scope), the pending Interest,
//! and measurements; it returns a [`Choice`]. Names and parameters are NFD's
//! (`/localhost/nfd/strategy/best-route/v=5/retx-suppression-initial~20`); their behaviour is
//! described in the NFD developer guide, "Forwarding Strategy".

mod asf;
mod best_route;
mod measure;
mod multicast;
mod parse;
mod spread;
mod suppression;
#[cfg(test)]
mod tests;

use plexus_wire::Time;
use rand_pcg::Pcg64Mcg;

use crate::fib::Hops;
use crate::pit::Pit;
pub use asf::Asf;
pub(crate) use asf::STRAGGLER;
pub(crate) use measure::Measurements;
pub use parse::StrategyError;
pub use suppression::Suppression;

/// A strategy with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Strategy {
    /// The cheapest next hop; retransmissions try the others.
    BestRoute(Suppression),
    /// All next hops.
    Multicast(Suppression),
    /// The next hop with the shortest round-trip time; others are probed now and then.
    Asf(Asf),
    /// A random next hop.
    Random(Suppression),
    /// Next hops in turn, weighted by cost: half the cost, twice the Interests.
    Weighted(Suppression),
}

impl Default for Strategy {
    fn default() -> Strategy {
        Strategy::BestRoute(Suppression::default())
    }
}

/// The input of a strategy's decision.
pub(crate) struct Turn<'a> {
    pub(crate) now: Time,
    /// Sorted by cost.
    pub(crate) hops: &'a Hops,
    /// Bit `i`: the Interest may go to hop `i`.
    pub(crate) eligible: u64,
    /// The pending Interest.
    pub(crate) id: u32,
    pub(crate) pit: &'a mut Pit,
    pub(crate) key: u64,
    pub(crate) measurements: &'a mut Measurements,
    pub(crate) random: &'a mut Pcg64Mcg,
}

/// The decision of a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Send it to the hops whose bits are set, and with a new nonce to one more.
    Send { hops: u64, probe: Option<usize> },
    /// It was forwarded a moment ago: suppress it.
    Wait,
    /// There is no next hop. Whether to send a Nack.
    NoRoute { nack: bool },
}

impl Choice {
    fn one(hop: usize) -> Choice {
        Choice::Send { hops: 1 << hop, probe: None }
    }
}

impl Turn<'_> {
    /// The eligible hops, the cheapest first.
    fn eligible(&self) -> impl Iterator<Item = usize> + use<> {
        bits(self.eligible)
    }

    /// The eligible hops to which it was not sent, or that cannot answer any more.
    fn unused(&mut self) -> u64 {
        let (hops, now) = (self.hops, self.now);
        let used = self.pit.outs(self.id).filter(|r| r.expiry > now);
        let used = used.filter_map(|r| hops.iter().position(|hop| hop.face == r.face));
        self.eligible & !used.fold(0, |set, at| set | 1 << at)
    }

    /// The eligible hop to which it was sent longest ago.
    fn earliest(&mut self) -> Option<usize> {
        let (hops, eligible) = (self.hops, self.eligible);
        let of =
            |face| hops.iter().position(|h| h.face == face).filter(|at| eligible >> at & 1 == 1);
        let asked = self.pit.outs(self.id).filter_map(|r| Some((r.sent, of(r.face)?)));
        asked.min().map(|(_, at)| at)
    }

    /// A retransmission: a hop not used yet, or else the one used longest ago.
    fn again(&mut self, pick: impl FnOnce(&mut Self, u64) -> Option<usize>) -> Choice {
        let unused = self.unused();
        let hop = pick(self, unused).or_else(|| self.earliest());
        hop.map_or(Choice::Wait, Choice::one)
    }

    fn is_pending(&self) -> bool {
        self.pit.outs(self.id).any(|r| r.is_pending(self.now))
    }
}

fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(at)
    })
}

impl Strategy {
    #[inline]
    pub(crate) fn pick(&self, turn: &mut Turn<'_>) -> Choice {
        match self {
            Strategy::BestRoute(suppression) => best_route::pick(suppression, turn),
            Strategy::Multicast(suppression) => multicast::pick(suppression, turn),
            Strategy::Asf(asf) => asf.pick(turn),
            Strategy::Random(suppression) => spread::random(suppression, turn),
            Strategy::Weighted(suppression) => spread::weighted(suppression, turn),
        }
    }

    /// When all upstream faces have sent a Nack, the forwarder sends one downstream.
    pub(crate) fn passes_nacks_on(&self) -> bool {
        !matches!(self, Strategy::Multicast(_))
    }

    pub(crate) fn measures(&self) -> Option<&Asf> {
        match self {
            Strategy::Asf(asf) => Some(asf),
            _ => None,
        }
    }
}
