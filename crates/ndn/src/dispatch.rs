//! Dispatch: selects the worker of each packet, so that no two workers share a PIT or a content
//! store. The thread that receives from all faces calls it.
//!
//! An Interest goes to the worker selected by the hash of its first `k` components, or of all its
//! components if it has fewer. An implicit digest is not hashed, because no Data name contains one.
//! The [dispatch table](Depths) maps the longest matching prefix of the name to `k`: a site with
//! many objects under few components has more components hashed. Data and Nacks with a PIT token
//! return to the worker that issued the token. On multi-access links the token may be another
//! node's, so the packet also goes to the worker of its name. Data without a token goes to the
//! worker of its first `k` components.
//!
//! A CanBePrefix Interest may match names of several workers: it has fewer than `k` components, or
//! the table has another depth for longer names. Such an Interest still has one worker, selected by
//! its own name, and only that worker's cache can answer it without forwarding it. While such an
//! Interest may be pending, Data without a token is also copied to its worker; each worker counts
//! the copy that it gets. So the Interest is answered like any other, and its Data is cached where
//! the next such Interest arrives.
//!
//! If the last hashed component is a segment number, [`RUN`] consecutive segments have one worker.
//! So the chunks of a batch that is read ahead are all on the disks of that worker.
//!
//! The hash has no key, because a worker must find its data on disk again after a restart. A key
//! would not help against overload: an attacker can load one worker with a single prefix.

mod depths;

use std::time::Duration;

use arrayvec::ArrayVec;
use plexus_wire::ndn::lp::Headers;
use plexus_wire::ndn::tlv::Reader;
use plexus_wire::ndn::{Interest, Name, types};
use plexus_wire::{Format, Time};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::face::LinkType;
use depths::Depth;
pub use depths::{BadDepth, Depths};

/// Components that are hashed, unless the table says otherwise. Names of one object, its versions
/// and segments, mostly share more, so that they stay together.
pub const COMPONENTS_DEFAULT: usize = 2;
/// Most components that may be hashed, and that a prefix in the table may have.
pub const COMPONENTS_LIMIT: usize = 8;

/// Consecutive segments of an object that have one worker, whatever the table says. A batch of 2,
/// 4, 8, 16 or 32 segments lies within a run.
const RUN: u64 = 64;

/// How much later than it was sent an Interest may reach its worker, and so expire.
const ON_ITS_WAY: Duration = Duration::from_secs(1);
/// Upper bound of an Interest's lifetime ([`Config::lifetime_max`](crate::forwarder::Config)).
const LIFETIME_MAX: Duration = Duration::from_secs(3600);

/// Workers that get a packet, each once; the first is the one it belongs to. The others come from
/// its token, its name, and the prefixes of its name.
pub type Workers = ArrayVec<u8, { COMPONENTS_LIMIT + 1 }>;

/// The dispatch rule and the state it keeps about earlier Interests. The thread that sees all
/// packets owns it.
#[derive(Clone, Debug)]
pub struct Dispatch {
    depths: Depths,
    /// For each worker, until when a CanBePrefix Interest for other workers' names may be pending.
    above_until: Box<[Time]>,
}

impl Dispatch {
    /// For this many workers (at least one).
    pub fn new(workers: u8, depths: Depths) -> Dispatch {
        Dispatch { depths, above_until: vec![Time::ZERO; workers.max(1).into()].into() }
    }

    /// How many components are hashed.
    pub fn depths(&self) -> &Depths {
        &self.depths
    }

    /// The worker of Interests of this name.
    #[inline]
    pub fn worker_of(&self, name: Name<'_>) -> u8 {
        self.by_hash(name, self.depths.of(name).components)
    }

    #[inline]
    fn by_hash(&self, name: Name<'_>, components: usize) -> u8 {
        let mut name = name.prefix(components);
        let is_digest = |kind| u32::from(kind) == types::IMPLICIT_SHA256_DIGEST;
        if name.last().is_some_and(|last| is_digest(last.kind)) {
            name = name.prefix(name.len() - 1);
        }
        let run = name.last().and_then(|last| last.number(types::SEGMENT)).map(|n| n / RUN);
        let hash = match run {
            // No seed is that of names without one.
            Some(run) => xxh3_64_with_seed(name.prefix(name.len() - 1).value(), run + 1),
            None => xxh3_64_with_seed(name.value(), 0),
        };
        ((u128::from(hash) * self.above_until.len() as u128) >> 64) as u8
    }

    /// The workers of a complete packet that was just received, with its link headers, on a link of
    /// this type. A malformed packet goes to the first worker, which counts it.
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
        let count = self.above_until.len();
        if let Some(worker) = given.map(|token| token[0]).filter(|w| usize::from(*w) < count) {
            workers.push(worker);
            // On a multi-access link the token may be that of another node that sent the same
            // Interest.
            if link == LinkType::PointToPoint {
                return workers;
            }
        }
        let Depth { components, prefix, is_above } = self.depths.of(name);
        let own = self.by_hash(name, components);
        if !workers.contains(&own) {
            workers.push(own);
        }
        if is_above && !is_answer {
            self.expect(now, own, packet);
        }
        let is_data = kind == types::DATA && headers.nack.is_none();
        if is_data && self.above_until.iter().any(|until| *until > now) {
            // Below this length all names have the same worker.
            for len in 1..components.max(prefix).min(name.len()) {
                let worker = self.worker_of(name.prefix(len));
                let waits = self.above_until[usize::from(worker)] > now;
                if waits && !workers.contains(&worker) {
                    workers.push(worker);
                }
            }
        }
        workers
    }

    /// Notes that an Interest goes to `worker` and may match Data whose name belongs to others.
    fn expect(&mut self, now: Time, worker: u8, packet: &[u8]) {
        if let Ok(interest) = Interest::new_checked(packet)
            && interest.can_be_prefix()
        {
            let until = &mut self.above_until[usize::from(worker)];
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
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> NameBuf {
        text.parse().unwrap()
    }

    fn interest(text: &str) -> Vec<u8> {
        let name = name(text);
        Repr::new(name.as_name()).to_bytes().unwrap()
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
        Dispatch::new(workers, Depths::default())
    }

    const ALONE: LinkType = LinkType::PointToPoint;
    const NOW: Time = Time::from_nanos(5_000_000_000);

    #[test]
    fn related_packets_meet_and_work_is_spread() {
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
    fn a_token_returns_answers_to_the_worker_that_issued_it() {
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
            dispatch.workers(NOW, ALONE, &plain, &repr.to_bytes().unwrap());
            let both = dispatch.workers(NOW + Duration::from_secs(2), ALONE, &plain, &longer);
            assert_eq!(both[0], own);
            assert!(both.contains(&waits) && both.len() <= 2, "{both:?}");
            let over = NOW + Duration::from_secs(3);
            assert_eq!(dispatch.workers(over, ALONE, &plain, &longer)[..], [own]);
        }
    }

    proptest! {
        #[test]
        fn every_packet_of_an_exchange_meets_by_any_table(
            entries in vec((0..6usize, any::<bool>(), 1..=COMPONENTS_LIMIT), 0..6),
            of_data in vec(0..3u8, 1..12),
            asked in 1..12usize,
            others in vec(vec(0..3u8, 1..4), 0..4),
        ) {
            let path = |parts: &[u8]| -> String {
                let part = |part: &u8| match part {
                    2 => "/seg=70".to_string(),
                    _ => format!("/{part}"),
                };
                parts.iter().map(part).collect()
            };
            let mut depths = Depths::default();
            for (len, is_beside, components) in &entries {
                // A prefix of the Data's name, or a name beside it.
                let above = &of_data[..*len.min(&of_data.len())];
                let mut prefix: NameBuf = path(above).parse().unwrap_or_default();
                if *is_beside {
                    prefix = prefix.with("2");
                }
                depths.set(prefix.as_name(), *components).unwrap();
            }
            let mut dispatch = Dispatch::new(16, depths);
            let plain = Headers::default();
            let whole = path(&of_data);
            let own = dispatch.worker_of(name(&whole).as_name());
            // Interests with exactly that name, and with the implicit digest of that packet.
            let digest = format!("{whole}/sha256digest={}", "5a".repeat(32));
            for text in [&whole, &digest] {
                prop_assert_eq!(&dispatch.workers(NOW, ALONE, &plain, &interest(text))[..], [own]);
            }
            prop_assert_eq!(&dispatch.workers(NOW, ALONE, &plain, &data(&whole))[..], [own]);
            // For a prefix, and for other names: these may add copies but misdirect nothing.
            let asked = path(&of_data[..asked.min(of_data.len())]);
            let mut waits = Vec::new();
            for text in others.iter().map(|parts| path(parts)).chain([asked]) {
                let asked = name(&text);
                let mut repr = Repr::new(asked.as_name());
                repr.can_be_prefix = true;
                let workers = dispatch.workers(NOW, ALONE, &plain, &repr.to_bytes().unwrap());
                prop_assert_eq!(workers.len(), 1);
                waits.push(workers[0]);
            }
            let workers = dispatch.workers(NOW, ALONE, &plain, &data(&whole));
            let asker = waits.last().unwrap();
            prop_assert!(workers[0] == own && workers.contains(asker), "{:?}", workers);
            prop_assert!(workers.iter().all(|w| *w == own || waits.contains(w)), "{:?}", workers);
            // The same when the token may be another node's.
            for given in 0..16 {
                let token = [given, 1, 2, 3, 4, 5, 6, 7];
                let headers = Headers { pit_token: Some(&token), ..Headers::default() };
                let all = dispatch.workers(NOW, LinkType::MultiAccess, &headers, &data(&whole));
                prop_assert!(all.contains(&given) && workers.iter().all(|w| all.contains(w)));
            }
        }
    }

    #[test]
    fn a_prefix_of_the_table_is_spread_and_its_shorter_interests_find_their_data() {
        let mut depths = Depths::default();
        depths.set(name("/web").as_name(), 4).unwrap();
        let mut dispatch = Dispatch::new(4, depths);
        let plain = Headers::default();
        let mut of_prefix = |prefix: &str| {
            let mut load = [0; 4];
            for i in 0..400 {
                let page = format!("{prefix}/page/{i}");
                let workers = dispatch.workers(NOW, ALONE, &plain, &interest(&page));
                load[usize::from(workers[0])] += 1;
                // All packets of one page have the same worker.
                let of_page = interest(&format!("{page}/v=1/seg=7"));
                assert_eq!(dispatch.workers(NOW, ALONE, &plain, &of_page), workers);
            }
            load
        };
        let load = of_prefix("/web/example.org");
        assert!(load.iter().all(|n| (60..140).contains(n)), "{load:?}");
        assert_eq!(of_prefix("/other/example.org").iter().filter(|n| **n > 0).count(), 1);
        // Without such Interests nothing is copied.
        let page = data("/web/example.org/page/1");
        assert_eq!(dispatch.workers(NOW, ALONE, &plain, &page).len(), 1);
    }

    #[test]
    fn a_batch_of_segments_has_one_worker_wherever_the_table_cuts_names() {
        let digest = format!("sha256digest={}", "5a".repeat(32));
        for components in 1..=4 {
            let mut depths = Depths::default();
            depths.set(Name::ROOT, components).unwrap();
            let dispatch = Dispatch::new(16, depths);
            let worker = |text: &str| dispatch.worker_of(name(text).as_name());
            let mut workers = std::collections::BTreeSet::new();
            for object in ["", "/a", "/a/b"] {
                for batch in [2, 4, 8, 16, 32] {
                    for chunk in 0..2 * RUN {
                        let of = |chunk: u64| format!("{object}/seg={chunk}");
                        let first = worker(&of(chunk / batch * batch));
                        assert_eq!(worker(&of(chunk)), first, "{components}, {}", of(chunk));
                        assert_eq!(worker(&format!("{}/{digest}", of(chunk))), first);
                        workers.insert(first);
                    }
                }
            }
            // An object whose segments are hashed has several workers all the same.
            assert!(workers.len() > 1);
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
    fn malformed_packets_go_to_the_first_worker() {
        for packet in [&[][..], &[5], &[5, 1, 7], &[6, 2, 8, 0]] {
            assert_eq!(dispatch(4).workers(NOW, ALONE, &Headers::default(), packet)[..], [0]);
        }
    }
}
