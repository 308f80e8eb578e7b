//! What the peer has of the data in flight, what is lost, and what was retransmitted: the
//! scoreboard of RFC 6675, 3, kept as ranges and running sums, so that the estimate of what is in
//! the network ("pipe", 4) costs nothing per acknowledgement.

use super::ranges::Ranges;

/// Duplicate acknowledgements, or blocks above, that mean a loss (RFC 6675, 2).
pub(super) const DUP_THRESH: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    /// What the peer has beyond the first hole.
    sacked: Ranges,
    sacked_bytes: u64,
    /// Whatever is below and not selectively acknowledged is lost: IsLost() is true for all below
    /// where it is true for one.
    lost_edge: u64,
    lost_bytes: u64,
    /// HighRxt: what is below was retransmitted.
    rtx_edge: u64,
    /// Of what is below, not selectively acknowledged.
    rtx_bytes: u64,
}

impl Scoreboard {
    /// Nothing is known to have arrived, to be lost or to have been sent again.
    #[inline(always)]
    pub(super) fn is_clear(&self) -> bool {
        self.sacked.is_empty() && self.lost_edge == 0 && self.rtx_edge == 0
    }

    /// SetPipe() (RFC 6675, 4): bytes in the network of those from `una` to `nxt`.
    #[inline]
    pub(super) fn pipe(&self, una: u64, nxt: u64) -> u64 {
        (nxt - una + self.rtx_bytes).saturating_sub(self.sacked_bytes + self.lost_bytes)
    }

    /// Bytes of a part that no longer counts as missing.
    fn forget(&mut self, from: u64, to: u64) {
        self.lost_bytes -= to.min(self.lost_edge).saturating_sub(from);
        self.rtx_bytes -= to.min(self.rtx_edge).saturating_sub(from);
    }

    /// A selective acknowledgement; true if it says anything new.
    pub(super) fn sack(&mut self, from: u64, to: u64) -> bool {
        let (mut news, mut lost, mut rtx) = (0, 0, 0);
        let (lost_edge, rtx_edge) = (self.lost_edge, self.rtx_edge);
        self.sacked.gaps(from, to, |a, b| {
            news += b - a;
            lost += b.min(lost_edge).saturating_sub(a);
            rtx += b.min(rtx_edge).saturating_sub(a);
        });
        if news == 0 {
            return false;
        }
        self.sacked_bytes += news;
        self.lost_bytes -= lost;
        self.rtx_bytes -= rtx;
        self.sacked.insert(from, to);
        true
    }

    /// Everything up to `to` is acknowledged, as was everything up to `una` before.
    pub(super) fn advance(&mut self, una: u64, to: u64) {
        if self.is_clear() {
            return;
        }
        let mut at = una;
        while let Some((from, end)) = self.sacked.first_gap(at, to) {
            self.forget(from, end);
            at = end;
        }
        self.sacked_bytes -= self.sacked.cut_below(to);
    }

    /// Everything from `una` to `edge` that has not arrived is lost.
    pub(super) fn lose(&mut self, una: u64, edge: u64) {
        if edge <= self.lost_edge {
            return;
        }
        let mut bytes = 0;
        self.sacked.gaps(una.max(self.lost_edge), edge, |a, b| bytes += b - a);
        self.lost_bytes += bytes;
        self.lost_edge = edge;
    }

    /// IsLost() (RFC 6675, 4) for all bytes from `una` on: three blocks above, or more than two
    /// segments' worth of bytes.
    pub(super) fn judge(&mut self, una: u64, mss: u64) {
        let (mut bytes, mut blocks) = (0, 0);
        let mut edge = None;
        for (from, to) in self.sacked.descending() {
            bytes += to - from;
            blocks += 1;
            if blocks >= DUP_THRESH || bytes > u64::from(DUP_THRESH - 1) * mss {
                edge = Some(from);
                break;
            }
        }
        if let Some(edge) = edge {
            self.lose(una, edge);
        }
    }

    /// The byte at `una` is lost.
    pub(super) fn has_lost(&self, una: u64) -> bool {
        self.lost_edge > una
    }

    /// The peer has everything from `una` to `nxt` that it has not acknowledged, or claims to have
    /// the very byte that it waits for: it went back on its word (RFC 2018, 8).
    pub(super) fn reneged(&self, una: u64) -> bool {
        self.sacked.first().is_some_and(|(from, _)| from <= una)
    }

    /// The first part from `una` on that is lost and was not retransmitted (NextSeg() rule 1).
    #[inline]
    pub(super) fn next_lost(&self, una: u64) -> Option<(u64, u64)> {
        let from = una.max(self.rtx_edge);
        if from >= self.lost_edge {
            return None;
        }
        self.sacked.first_gap(from, self.lost_edge)
    }

    /// The first part that was not retransmitted, below the highest block (rule 3).
    pub(super) fn next_hole(&self, una: u64) -> Option<(u64, u64)> {
        self.sacked.first_gap(una.max(self.rtx_edge), self.sacked.last()?.0)
    }

    /// The last part below `nxt` that the peer does not have, within its last `mss` bytes (rule 4).
    pub(super) fn last_hole(&self, una: u64, nxt: u64, mss: u64) -> Option<(u64, u64)> {
        let from = self.sacked.last().map_or(una, |last| last.1).max(una);
        (from < nxt).then(|| (from.max(nxt.saturating_sub(mss)), nxt))
    }

    /// The end of the hole that begins at `una`, `nxt` if nothing beyond has arrived.
    pub(super) fn first_hole_end(&self, una: u64, nxt: u64) -> u64 {
        self.sacked.first().map_or(nxt, |(from, _)| from.max(una))
    }

    /// Everything up to `to` has been retransmitted.
    pub(super) fn retransmitted(&mut self, una: u64, to: u64) {
        if to <= self.rtx_edge {
            return;
        }
        let mut bytes = 0;
        self.sacked.gaps(una.max(self.rtx_edge), to, |a, b| bytes += b - a);
        self.rtx_bytes += bytes;
        self.rtx_edge = to;
    }

    /// Forgets what is lost and what was retransmitted; what arrived stays known.
    pub(super) fn restart(&mut self) {
        (self.lost_edge, self.lost_bytes) = (0, 0);
        (self.rtx_edge, self.rtx_bytes) = (0, 0);
    }

    /// Forgets what arrived, too.
    pub(super) fn clear(&mut self) {
        self.restart();
        self.sacked.clear();
        self.sacked_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    /// SetPipe() and IsLost() as RFC 6675 writes them down, byte by byte.
    struct Model {
        una: u64,
        nxt: u64,
        sacked: Vec<bool>,
        lost: u64,
        rtx: u64,
    }

    impl Model {
        fn pipe(&self) -> u64 {
            let missing = (self.una..self.nxt).filter(|at| !self.sacked[*at as usize]);
            missing.map(|at| u64::from(at >= self.lost) + u64::from(at < self.rtx)).sum()
        }

        fn is_lost(&self, at: u64, mss: u64) -> bool {
            let above = &self.sacked[at as usize..self.nxt as usize];
            let blocks =
                above.iter().zip(above.iter().skip(1)).filter(|(a, b)| !**a && **b).count();
            let bytes = above.iter().filter(|there| **there).count() as u64;
            blocks >= DUP_THRESH as usize || bytes > u64::from(DUP_THRESH - 1) * mss
        }
    }

    proptest! {
        #[test]
        fn the_sums_are_those_of_the_rfc(seed in any::<u64>(), mss in 1_u64..12) {
            const SPACE: u64 = 200;
            let mut random = Pcg64::seed_from_u64(seed);
            let mut board = Scoreboard::default();
            let sacked = vec![false; SPACE as usize];
            let mut model = Model { una: 0, nxt: 0, sacked, lost: 0, rtx: 0 };
            while model.una < SPACE {
                model.nxt = (model.nxt + random.random_range(0..8)).min(SPACE);
                let inside = random.random_range(model.una..=model.nxt);
                match random.random_range(0..5) {
                    0..2 if inside > model.una => {
                        let end = (inside + random.random_range(0..9)).min(model.nxt);
                        let part = inside as usize..end as usize;
                        let news = model.sacked[part.clone()].iter().any(|there| !there);
                        prop_assert_eq!(board.sack(inside, end), news);
                        model.sacked[part].fill(true);
                    }
                    2 => {
                        board.judge(model.una, mss);
                        let open = |at: &u64| !model.sacked[*at as usize];
                        let mut lost = (model.una..model.nxt).filter(open);
                        if let Some(last) = lost.rfind(|at| model.is_lost(*at, mss)) {
                            model.lost = model.lost.max(last + 1);
                        }
                        for at in (model.una..model.nxt).filter(open) {
                            prop_assert_eq!(at < board.lost_edge, at < model.lost);
                        }
                    }
                    3 => {
                        if let Some((from, to)) = board.next_lost(model.una) {
                            let to = to.min(from + mss);
                            prop_assert!(!model.sacked[from as usize] && from < model.lost);
                            board.retransmitted(model.una, to);
                            model.rtx = model.rtx.max(to);
                        }
                    }
                    _ => {
                        board.advance(model.una, inside);
                        model.una = inside;
                    }
                }
                prop_assert_eq!(board.pipe(model.una, model.nxt), model.pipe());
            }
        }
    }
}
