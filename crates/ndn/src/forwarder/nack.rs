//! The Nack pipeline.

use plexus_wire::ndn::Interest;
use plexus_wire::ndn::lp::{Headers, NackReason};

use super::{Core, End, Ingress, Output, is_forged, key};
use crate::face::{Fate, LinkType, Unsent};
use crate::names::HashedName;
use crate::pit::InRecord;
use crate::plan::Plan;
use crate::store::Buffer;

impl<B: Buffer> Core<B> {
    #[allow(clippy::too_many_arguments)] // what is known of a packet by now
    pub(super) fn nack(
        &mut self,
        plan: &Plan,
        ingress: Ingress,
        reason: NackReason,
        headers: &Headers<'_>,
        interest: &Interest<'_>,
        name: HashedName<'_>,
        out: &mut impl Output,
    ) -> Fate {
        if ingress.face.link != LinkType::PointToPoint {
            return Fate::NackFromLink;
        }
        if is_forged(interest.name(), ingress.face) {
            return Fate::OutOfScope;
        }
        let (Some(id), Some(nonce)) = (self.pit.find(&key(interest, name)), interest.nonce())
        else {
            return Fate::NackStray;
        };
        match self.pit.out_mut(id, ingress.id) {
            Some(record) if record.nonce == nonce => record.nack = Some(reason),
            _ => return Fate::NackStray,
        }
        let entry = self.pit.get(id);
        let strategy = plan.instance(entry.strategy).strategy;
        if let Some(asf) = strategy.measures() {
            self.measurements.nacked(entry.measured, ingress.id, self.now, asf.lifetime);
        }
        if strategy.passes_nacks_on() {
            self.pass_on(id, headers.congestion_mark, interest, out);
        }
        if !self.pit.outs(id).any(|r| r.is_pending(self.now)) {
            self.finalize(id, End::Expired);
        }
        Fate::NackTaken
    }

    /// When every upstream face has sent a Nack, a Nack goes to all downstream faces with the least
    /// severe of the reasons. Also when the only upstream face left is itself waiting for us.
    fn pass_on(
        &mut self,
        id: u32,
        mark: Option<u64>,
        interest: &Interest<'_>,
        out: &mut impl Output,
    ) {
        let mut waiting = self.pit.outs(id).filter(|r| r.nack.is_none()).map(|r| r.face);
        let (first, second) = (waiting.next(), waiting.next());
        drop(waiting);
        let reasons = self.pit.outs(id).filter_map(|r| r.nack);
        let reason = reasons.min_by_key(|r| r.severity()).unwrap_or_default();
        match (first, second) {
            (None, _) => {
                while let Some(&record) = self.pit.next_in(id) {
                    self.pit.drop_in(id);
                    self.send_back(&record, reason, mark, interest, out);
                }
            }
            (Some(last), None) => {
                if let Some(record) = self.pit.take_in(id, last) {
                    self.send_back(&record, reason, mark, interest, out);
                }
            }
            _ => {}
        }
    }

    fn send_back(
        &mut self,
        record: &InRecord,
        reason: NackReason,
        mark: Option<u64>,
        interest: &Interest<'_>,
        out: &mut impl Output,
    ) {
        match self.faces.get(record.face) {
            Some(face) if face.link == LinkType::PointToPoint => {
                self.counters.asked.nacked += 1;
                let (to, nonce) = (record.face, Some(record.nonce));
                self.send_nack(to, record.token, nonce, reason, interest, mark, out);
            }
            Some(_) => {
                self.counters.asked.withdrawn += 1;
                self.faces.unsent(record.face, Unsent::Link);
            }
            None => self.counters.asked.withdrawn += 1,
        }
    }
}
