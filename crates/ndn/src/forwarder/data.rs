//! The Data pipeline: to all downstream faces, and into the content store.

use plexus_wire::ndn::Data;
use plexus_wire::ndn::lp::Headers;

use super::interest::sha256;
use super::{Core, End, Ingress, Output, Store, is_forged, is_localhost};
use crate::face::{FaceId, Fate, LinkType, Scope, Unsent};
use crate::names::HashedName;
use crate::nonces;
use crate::pit::InRecord;
use crate::plan::Plan;
use crate::store::{self, Buffer};
use crate::strategy::STRAGGLER;

/// Inserts Data into the content store, with the hashes of its name.
fn keep<B: Buffer>(
    store: &mut Store<B>,
    data: &Data<'_>,
    packet: Option<store::Data<'_>>,
    unix_ms: u64,
) {
    if let Some(packet) = packet {
        store.insert(&packet, data.meta().freshness_ms.unwrap_or(0), unix_ms);
    }
}

impl<B: Buffer> Core<B> {
    pub(super) fn data(
        &mut self,
        plan: &Plan,
        ingress: Ingress,
        headers: &Headers<'_>,
        data: &Data<'_>,
        name: HashedName<'_>,
        out: &mut impl Output,
    ) -> Fate {
        if is_forged(data.name(), ingress.face) {
            return Fate::OutOfScope;
        }
        let mut known = None;
        let mut digest = || *known.get_or_insert_with(|| sha256(std::iter::once(data.as_bytes())));
        let keeps = !headers.no_cache;
        let mark = headers.congestion_mark;
        let by_token = headers
            .pit_token
            .and_then(|token| self.pit.answered_by_token(token, &name, &mut digest));
        if let Some(id) = by_token.filter(|id| self.was_asked(*id, ingress)) {
            if keeps {
                self.ask_again(id);
                self.keep(data, &name);
            }
            let sent = self.satisfy(plan, id, Some(ingress), data, mark, false, out);
            return if sent { Fate::Delivered } else { Fate::Late };
        }
        let mut matched = std::mem::take(&mut self.matched);
        matched.clear();
        self.pit.answered(&name, digest, &mut matched);
        matched.retain(|id| self.was_asked(*id, ingress));
        let fate = match matched.is_empty() {
            true => Fate::Unsolicited,
            false => {
                if keeps {
                    matched.iter().for_each(|id| self.ask_again(*id));
                    self.keep(data, &name);
                }
                self.served.clear();
                let mut sent = false;
                for &id in &matched {
                    let several = matched.len() > 1;
                    sent |= self.satisfy(plan, id, Some(ingress), data, mark, several, out);
                }
                if sent { Fate::Delivered } else { Fate::Late }
            }
        };
        self.matched = matched;
        fate
    }

    /// The same for Data with the token of the entry `id`, which has exactly this name: the entry
    /// holds the hashes. Nothing if the Interest was sent to another face.
    pub(super) fn data_by_token(
        &mut self,
        plan: &Plan,
        ingress: Ingress,
        headers: &Headers<'_>,
        data: &Data<'_>,
        id: u32,
        out: &mut impl Output,
    ) -> Option<Fate> {
        if is_forged(data.name(), ingress.face) {
            return Some(Fate::OutOfScope);
        }
        if !self.was_asked(id, ingress) {
            return None;
        }
        if !headers.no_cache {
            let entry = self.pit.get(id);
            let packet = store::Data::of(data, entry.name_hash, entry.proper());
            keep(&mut self.store, data, packet, self.unix_ms);
        }
        let mark = headers.congestion_mark;
        let sent = self.satisfy(plan, id, Some(ingress), data, mark, false, out);
        Some(if sent { Fate::Delivered } else { Fate::Late })
    }

    /// Registers this entry's prefix with the store again, so that the Data that arrives now is
    /// indexed under it, however many other prefixes were requested since.
    fn ask_again(&mut self, id: u32) {
        let entry = self.pit.get(id);
        if entry.selectors.can_be_prefix {
            self.store.ask_prefix(entry.name_hash);
        }
    }

    /// Inserts Data into the content store.
    fn keep(&mut self, data: &Data<'_>, name: &HashedName<'_>) {
        let packet = store::Data::of(data, name.hash(), name.proper());
        keep(&mut self.store, data, packet, self.unix_ms);
    }

    /// A neighbour may answer only what was sent to it, and peers on a shared face what was sent
    /// there.
    fn was_asked(&self, id: u32, ingress: Ingress) -> bool {
        ingress.face.scope == Scope::Local
            || ingress.face.link == LinkType::AdHoc
            || self.pit.outs(id).any(|r| r.face == ingress.id)
    }

    /// Sends Data to all downstream faces of this entry; true if there were any. With `several`
    /// entries, a face that gave no token gets it once for all of them.
    #[allow(clippy::too_many_arguments)] // what is known of a packet by now
    #[inline]
    pub(super) fn satisfy(
        &mut self,
        plan: &Plan,
        id: u32,
        from: Option<Ingress>,
        data: &Data<'_>,
        mark: Option<u64>,
        several: bool,
        out: &mut impl Output,
    ) -> bool {
        let incoming = from.map_or(FaceId::CONTENT_STORE, |ingress| ingress.id);
        let mut sent = false;
        while let Some(&InRecord { face, expiry, token, .. }) = self.pit.next_in(id) {
            self.pit.drop_in(id);
            if expiry <= self.now {
                self.counters.asked.expired += 1;
                continue;
            }
            let is_back = face == incoming;
            let egress = self.faces.get(face);
            let Some(egress) = egress.filter(|f| !is_back || f.link == LinkType::AdHoc) else {
                self.counters.asked.withdrawn += 1;
                continue;
            };
            if egress.scope == Scope::NonLocal && is_localhost(data.name()) {
                self.faces.unsent(face, Unsent::Scope);
                self.counters.asked.withdrawn += 1;
                continue;
            }
            self.counters.asked.answered += 1;
            if several && token.get().is_none() {
                if self.served.contains(&face) {
                    continue;
                }
                self.served.push(face);
            }
            let headers = Headers {
                pit_token: token.get(),
                incoming_face: egress.local_fields.then_some(incoming.number()),
                congestion_mark: mark,
                ..Headers::default()
            };
            out.send(face, &headers, std::iter::once(data.as_bytes()));
            self.faces.sent(face, |p| p.data += 1);
            sent = true;
        }
        let stale_soon = data.freshness() < nonces::LIFETIME;
        let entry = self.pit.get_mut(id);
        (entry.satisfied, entry.stale_soon) = (true, stale_soon);
        let (name_hash, measured, strategy) = (entry.name_hash, entry.measured, entry.strategy);
        let must_be_fresh = entry.selectors.must_be_fresh;
        let Some(record) = self.pit.take_out(id, incoming) else {
            self.finalize(id, End::Expired);
            return sent;
        };
        if must_be_fresh && stale_soon {
            self.nonces.add(self.of_nonce(name_hash, record.nonce), self.now);
        }
        let mut stays = false;
        if let Some(asf) = plan.instance(strategy).strategy.measures() {
            let rtt = self.now.since(record.sent);
            let now = self.now;
            let known = self.measurements.answered(measured, incoming, now, rtt, asf.lifetime);
            stays = known && self.pit.outs(id).any(|r| r.is_pending(now));
        }
        match stays {
            true => self.pit.set_expiry(id, self.now + STRAGGLER),
            false => self.finalize(id, End::Expired),
        }
        sent
    }
}
