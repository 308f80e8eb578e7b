//! Disks of the content store: requests to them, and Interests that wait for their answers.

use std::io;

use plexus_wire::Time;
use plexus_wire::ndn::{Data, Interest};

use super::interest::sha256;
use super::pieces::Patch;
use super::{Core, End, Forwarder, Ingress, LANES, Output, Routes};
use crate::face::{FaceId, Fate};
use crate::names::{HashedName, NameHashes};
use crate::store::log::Request;
use crate::store::{self, Buffer};

/// An Interest that waits for a disk.
pub(super) struct Parked {
    /// The token of its PIT entry.
    pub(super) token: [u8; 8],
    pub(super) packet: Box<[u8]>,
    pub(super) next_hop: Option<u64>,
    pub(super) mark: Option<u64>,
}

impl<B: Buffer> Forwarder<B> {
    /// The next request to a disk of the content store, and which disk. The driver reports the
    /// result to [`Forwarder::on_read`] or [`Forwarder::on_written`] exactly once, errors included.
    pub fn poll_request(&mut self) -> Option<(usize, Request<B>)> {
        self.core.store.poll_request()
    }

    /// A disk completed a read, or failed. Interests that waited for it are answered or forwarded.
    pub fn on_read(
        &mut self,
        now: Time,
        disk: usize,
        token: u32,
        result: io::Result<&[u8]>,
        out: &mut impl Output,
    ) {
        let Forwarder { fib, plan, core, hashes, .. } = self;
        core.tick(now);
        let routes = Routes { fib: &fib.batch(), plan, search: None };
        core.on_read(routes, disk, token, result, hashes, out);
    }

    /// When [`Forwarder::expire_reads`] may have something to do, at the earliest.
    pub fn next_late_read(&self) -> Option<Time> {
        let since_zero = |ms: u64| ms.saturating_sub(self.core.config.unix_ms_at_zero);
        let late = self.core.store.next_late_ms().map(since_zero);
        late.map(Time::from_millis)
    }

    /// Forwards Interests whose disk read timed out.
    pub fn expire_reads(&mut self, now: Time, out: &mut impl Output) {
        let Forwarder { fib, plan, core, hashes, .. } = self;
        core.tick(now);
        if core.store.next_late_ms().is_none_or(|at| core.unix_ms < at) {
            return;
        }
        let mut waiters = std::mem::take(&mut core.waiters);
        core.store.expire(core.unix_ms, |waiter| waiters.push((waiter, false)));
        let routes = Routes { fib: &fib.batch(), plan, search: None };
        for (waiter, _) in waiters.drain(..) {
            core.unpark(routes, waiter, None, &mut hashes[0], out);
        }
        core.waiters = waiters;
    }

    /// A disk completed a write, or failed.
    pub fn on_written(&mut self, disk: usize, token: u32, result: io::Result<()>) {
        self.core.store.on_written(disk, token, result);
    }
}

impl<B: Buffer> Core<B> {
    fn on_read(
        &mut self,
        routes: Routes<'_>,
        disk: usize,
        token: u32,
        result: io::Result<&[u8]>,
        [hashes, others, ..]: &mut [NameHashes; LANES],
        out: &mut impl Output,
    ) {
        let mut waiters = std::mem::take(&mut self.waiters);
        let hear = |waiter, found: Option<&_>| waiters.push((waiter, found.is_some()));
        let found = self.store.on_read(disk, token, result, self.unix_ms, hear);
        let packet = found.as_ref().and_then(|found| {
            let data = Data::new_checked(found.packet.pieces().next()?).ok()?;
            let stays = (found.stale_at_ms, found.is_ahead);
            Some((data, self.config.hasher.hash(data.name(), hashes)?, stays))
        });
        if let Some((data, name, (stale_at_ms, is_ahead))) = &packet
            && let Some(data) = store::Data::of(data, name.hash(), name.proper())
        {
            self.store.promote(&data, *stale_at_ms, *is_ahead, self.unix_ms);
        }
        for (waiter, has) in waiters.drain(..) {
            let answer = packet.as_ref().filter(|_| has).map(|(data, name, _)| (data, name));
            self.unpark(routes, waiter, answer, others, out);
        }
        self.waiters = waiters;
    }

    /// Resumes an Interest that waited for a disk, with or without an answer.
    fn unpark(
        &mut self,
        routes: Routes<'_>,
        waiter: u64,
        answer: Option<(&Data<'_>, &HashedName<'_>)>,
        hashes: &mut NameHashes,
        out: &mut impl Output,
    ) {
        let Some(parked) = self.parked.remove(&waiter) else { return };
        let Some(id) = self.pit.by_token(&parked.token) else { return };
        self.pit.get_mut(id).reading = false;
        if let Some((data, name)) = answer {
            let digest = || sha256(std::iter::once(data.as_bytes()));
            if self.pit.answered_by_token(&parked.token, name, digest).is_some() {
                self.counters.cache_hits += 1;
                self.satisfy(routes.plan, id, None, data, None, false, out);
                return;
            }
        }
        self.counters.cache_misses += 1;
        let Ok(interest) = Interest::new_checked(&parked.packet) else { return };
        let Some(name) = self.config.hasher.hash(interest.name(), hashes) else { return };
        // As if each face that still waits had sent it just now, until it is forwarded for all of
        // them. A face for which it cannot be forwarded gets a Nack and waits no longer. The next
        // hop was named by the first face.
        let mut hop = parked.next_hop.map(FaceId::from_number);
        while self.pit.by_token(&parked.token) == Some(id) && self.pit.has_ins(id) {
            let there = |id: FaceId| Some(Ingress { id, face: self.faces.get(id)? });
            let waiting = self.pit.ins(id).find_map(|r| Some((there(r.face)?, r.nonce)));
            let Some((ingress, nonce)) = waiting else { return self.finalize(id, End::Expired) };
            // A face recognises a Nack, and a loop, by the nonce of its own Interest.
            let patch = Patch { nonce: Some(nonce), hop_limit: None };
            let packet: Vec<u8> = patch.apply(&interest).flatten().copied().collect();
            let Ok(interest) = Interest::new_checked(&packet) else { return };
            let (mark, named) = (parked.mark, hop.take());
            match self.send_on(routes, id, ingress, &interest, name, named, mark, out) {
                Fate::Forwarded | Fate::Waiting => return,
                _ => {}
            }
        }
    }
}
