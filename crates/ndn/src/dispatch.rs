//! Which worker a packet belongs to, so that no two share a PIT or a content store.
//!
//! An Interest belongs to the worker of the hash of its first `k` components, or of all if there
//! are fewer; an implicit digest is none of them, as it stands in no Data's name. Data and Nacks
//! that carry the PIT token which a worker gave go back to it; on links of several, where the token
//! may be another node's, to the worker of the name as well. Data without a token goes to the
//! worker of its first `k` components, and, where an Interest of fewer that can be a prefix may
//! still wait, to that worker as well; each counts the copy it gets. Data that answers a short
//! Interest is thus cached where the next such Interest comes to.
//!
//! The hash has no key, for what a worker has on its disk has to be found there after a restart.
//! Whoever wants to load one worker needs no more than one prefix, with or without a key.

use std::time::Duration;

use arrayvec::ArrayVec;
use plexus_wire::ndn::lp::Headers;
use plexus_wire::ndn::tlv::Reader;
use plexus_wire::ndn::{Interest, Name, types};
use plexus_wire::{Format, Time};
use xxhash_rust::xxh3::xxh3_64;

use crate::face::LinkType;

/// Components that are hashed, unless it is said otherwise. Names of one object, its versions and
/// segments, mostly share more, so that they stay together.
pub const COMPONENTS_DEFAULT: usize = 2;
/// Most components that may be hashed.
pub const COMPONENTS_LIMIT: usize = 8;

/// An Interest may reach its worker so much later, and end so much later.
const ON_ITS_WAY: Duration = Duration::from_secs(1);
/// None waits longer, whatever it says ([`Config::lifetime_max`](crate::forwarder::Config)).
const LIFETIME_MAX: Duration = Duration::from_secs(3600);

/// Workers that get a packet, each once; the first is the one it belongs to.
pub type Workers = ArrayVec<u8, COMPONENTS_LIMIT>;

/// The rule, and what it has to know of Interests that passed. It belongs to the one who sees all
/// packets.
#[derive(Clone, Debug)]
pub struct Dispatch {
    components: usize,
    /// Until when a short Interest that can be a prefix may wait, by worker.
    short_until: Box<[Time]>,
}

impl Dispatch {
    /// For so many workers (one at least) by so many components (1 to [`COMPONENTS_LIMIT`]).
    pub fn new(workers: u8, components: usize) -> Dispatch {
        let components = components.clamp(1, COMPONENTS_LIMIT);
        Dispatch { components, short_until: vec![Time::ZERO; workers.max(1).into()].into() }
    }

    /// The worker of Interests of this name.
    #[inline]
    pub fn worker_of(&self, name: Name<'_>) -> u8 {
        let mut name = name.prefix(self.components);
        let is_digest = |kind| u32::from(kind) == types::IMPLICIT_SHA256_DIGEST;
        if name.last().is_some_and(|last| is_digest(last.kind)) {
            name = name.prefix(name.len() - 1);
        }
        let hash = xxh3_64(name.value());
        ((u128::from(hash) * self.short_until.len() as u128) >> 64) as u8
    }

    /// The workers of a whole packet with these headers, which has come now by such a link. What is
    /// broken goes to the first, who counts it.
    pub fn workers(
        &mut self,
        now: Time,
        link: LinkType,
        headers: &Headers<'_>,
        packet: &[u8],
    ) -> Workers {
        let mut workers = Workers::new();
        let Some((kind, name)) = kind_and_name(packet) else {
            workers.push(0);
            return workers;
        };
        let is_answer = kind == types::DATA || headers.nack.is_some();
        let given = headers.pit_token.filter(|token| is_answer && token.len() == 8);
        let count = self.short_until.len();
        if let Some(worker) = given.map(|token| token[0]).filter(|w| usize::from(*w) < count) {
            workers.push(worker);
            // What several hear may have the token of another node, which asked as well.
            if link == LinkType::PointToPoint {
                return workers;
            }
        }
        let own = self.worker_of(name);
        if !workers.contains(&own) {
            workers.push(own);
        }
        if !is_answer && name.len() < self.components {
            self.expect(now, own, packet);
        }
        if kind == types::DATA && headers.nack.is_none() {
            for components in 1..self.components.min(name.len()) {
                let worker = self.worker_of(name.prefix(components));
                let waits = self.short_until[usize::from(worker)] > now;
                if waits && !workers.contains(&worker) {
                    workers.push(worker);
                }
            }
        }
        workers
    }

    /// A short Interest goes to a worker: Data of longer names may be for it.
    fn expect(&mut self, now: Time, worker: u8, packet: &[u8]) {
        if let Ok(interest) = Interest::new_checked(packet)
            && interest.can_be_prefix()
        {
            let until = &mut self.short_until[usize::from(worker)];
            let lifetime = interest.lifetime().min(LIFETIME_MAX);
            *until = (*until).max(now + lifetime + ON_ITS_WAY);
        }
    }
}

fn kind_and_name(packet: &[u8]) -> Option<(u32, Name<'_>)> {
    let whole = Reader::new(packet, Format::NdnName).next().ok()??;
    let name = whole.elements().expect(types::NAME, "name").ok()?;
    Some((whole.kind, Name::new_checked(name.value).ok()?))
}

#[cfg(test)]
mod tests {
    use plexus_wire::ndn::interest::Repr;
    use plexus_wire::ndn::lp::NackReason;
    use plexus_wire::ndn::{NameBuf, tlv};

    use super::*;

    fn name(text: &str) -> NameBuf {
        text.parse().unwrap()
    }

    fn interest(text: &str) -> Vec<u8> {
        let name = name(text);
        emit(&Repr::new(name.as_name()))
    }

    fn emit(repr: &Repr<'_>) -> Vec<u8> {
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes).unwrap();
        bytes
    }

    fn data(text: &str) -> Vec<u8> {
        let name = name(text);
        let mut bytes = vec![types::DATA as u8, name.as_name().encoded_len() as u8];
        let at = bytes.len();
        bytes.resize(at + name.as_name().encoded_len(), 0);
        name.as_name().write(&mut tlv::Writer::new(&mut bytes[at..]));
        bytes
    }

    fn dispatch(workers: u8) -> Dispatch {
        Dispatch::new(workers, COMPONENTS_DEFAULT)
    }

    const ALONE: LinkType = LinkType::PointToPoint;
    const NOW: Time = Time::from_nanos(5_000_000_000);

    #[test]
    fn what_belongs_together_meets_and_work_is_spread() {
        let mut dispatch = dispatch(4);
        let mut load = [0; 4];
        for i in 0..400 {
            let worker = dispatch.worker_of(name(&format!("/a/{i}")).as_name());
            load[usize::from(worker)] += 1;
            let plain = Headers::default();
            for packet in [interest(&format!("/a/{i}/x/y")), interest(&format!("/a/{i}"))] {
                assert_eq!(dispatch.workers(NOW, ALONE, &plain, &packet)[..], [worker]);
            }
            assert_eq!(
                dispatch.workers(NOW, ALONE, &plain, &data(&format!("/a/{i}/x")))[0],
                worker
            );
        }
        assert!(load.iter().all(|n| (60..140).contains(n)), "{load:?}");
    }

    #[test]
    fn a_token_leads_answers_back_to_the_worker_that_gave_it() {
        let mut dispatch = dispatch(4);
        for worker in 0..4 {
            let token = [worker, 1, 2, 3, 4, 5, 6, 7];
            let headers = Headers { pit_token: Some(&token), ..Headers::default() };
            assert_eq!(dispatch.workers(NOW, ALONE, &headers, &data("/a/b/c"))[..], [worker]);
            let nack = Headers { nack: Some(NackReason::NO_ROUTE), ..headers };
            assert_eq!(dispatch.workers(NOW, ALONE, &nack, &interest("/a/b/c"))[..], [worker]);
            // An Interest's token is its sender's.
            let own = dispatch.worker_of(name("/a/b").as_name());
            assert_eq!(dispatch.workers(NOW, ALONE, &headers, &interest("/a/b/c"))[..], [own]);
        }
        for token in [&[9u8, 0, 0, 0, 0, 0, 0, 0][..], &[1; 4]] {
            let headers = Headers { pit_token: Some(token), ..Headers::default() };
            let own = dispatch.worker_of(name("/a/b").as_name());
            assert_eq!(dispatch.workers(NOW, ALONE, &headers, &data("/a/b/c"))[0], own);
        }
    }

    #[test]
    fn on_a_link_of_several_a_token_may_be_another_nodes() {
        let mut dispatch = dispatch(4);
        let own = dispatch.worker_of(name("/a/b").as_name());
        for given in 0..4 {
            let token = [given, 1, 2, 3, 4, 5, 6, 7];
            let headers = Headers { pit_token: Some(&token), ..Headers::default() };
            let workers = dispatch.workers(NOW, LinkType::MultiAccess, &headers, &data("/a/b/c"));
            assert!(workers.contains(&own) && workers.contains(&given));
            assert_eq!(workers.len(), if own == given { 1 } else { 2 });
        }
    }

    #[test]
    fn data_without_a_token_goes_to_short_interests_too_while_they_wait() {
        let plain = Headers::default();
        for i in 0..50 {
            let mut dispatch = dispatch(16);
            let (short, own) = (format!("/{i}"), name(&format!("/{i}/b")));
            let own = dispatch.worker_of(own.as_name());
            let (asked, longer) = (name(&short), data(&format!("/{i}/b/c")));
            let waits = dispatch.worker_of(asked.as_name());
            // One that cannot be a prefix does not wait for longer names.
            assert_eq!(dispatch.workers(NOW, ALONE, &plain, &interest(&short))[..], [waits]);
            assert_eq!(dispatch.workers(NOW, ALONE, &plain, &longer)[..], [own]);
            let mut repr = Repr::new(asked.as_name());
            (repr.can_be_prefix, repr.lifetime_ms) = (true, Some(2000));
            dispatch.workers(NOW, ALONE, &plain, &emit(&repr));
            let both = dispatch.workers(NOW + Duration::from_secs(2), ALONE, &plain, &longer);
            assert_eq!(both[0], own);
            assert!(both.contains(&waits) && both.len() <= 2, "{both:?}");
            let over = NOW + Duration::from_secs(3);
            assert_eq!(dispatch.workers(over, ALONE, &plain, &longer)[..], [own]);
        }
    }

    #[test]
    fn an_implicit_digest_does_not_lead_away_from_its_data() {
        let dispatch = dispatch(16);
        let digest = format!("sha256digest={}", "5a".repeat(32));
        for i in 0..50 {
            for data in [format!("/{i}"), format!("/{i}/b"), format!("/{i}/b/c")] {
                let asked = name(&format!("{data}/{digest}"));
                let data = dispatch.worker_of(name(&data).as_name());
                assert_eq!(dispatch.worker_of(asked.as_name()), data);
            }
        }
    }

    #[test]
    fn what_is_broken_goes_to_the_first() {
        for packet in [&[][..], &[5], &[5, 1, 7], &[6, 2, 8, 0]] {
            assert_eq!(dispatch(4).workers(NOW, ALONE, &Headers::default(), packet)[..], [0]);
        }
    }
}
