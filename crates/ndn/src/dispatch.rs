//! Which worker a packet belongs to, so that no two share a PIT or a content store.
//!
//! An Interest belongs to the worker of the hash of its first `k` components, or of all if there
//! are fewer. Data and Nacks that carry the PIT token which a worker gave go back to it. Data
//! without a token goes to the worker of its first `k` components, and, as an Interest of fewer
//! that can be a prefix may wait with another, to those of its shorter prefixes as well; each
//! counts the copy it gets. Data that answers a short Interest is thus cached where the next such
//! Interest comes to.

use arrayvec::ArrayVec;
use plexus_wire::Format;
use plexus_wire::ndn::lp::Headers;
use plexus_wire::ndn::tlv::Reader;
use plexus_wire::ndn::{Name, types};

use crate::names::{NameHasher, NameHashes};

/// Components that are hashed, unless it is said otherwise. Names of one object, its versions and
/// segments, mostly share more, so that they stay together.
pub const COMPONENTS_DEFAULT: usize = 2;
/// Most components that may be hashed.
pub const COMPONENTS_LIMIT: usize = 8;

/// Workers that get a packet, each once; the first is the one it belongs to.
pub type Workers = ArrayVec<u8, COMPONENTS_LIMIT>;

/// The rule.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch {
    hasher: NameHasher,
    workers: u8,
    components: usize,
}

impl Dispatch {
    /// For so many workers (one at least) by so many components (1 to [`COMPONENTS_LIMIT`]).
    pub fn new(hasher: NameHasher, workers: u8, components: usize) -> Dispatch {
        let components = components.clamp(1, COMPONENTS_LIMIT);
        Dispatch { hasher, workers: workers.max(1), components }
    }

    /// The worker of Interests of this name.
    pub fn worker_of(&self, name: Name<'_>) -> u8 {
        let mut memory = NameHashes::default();
        let hashed = self.hasher.hash(name.prefix(self.components), &mut memory);
        // Tables use the hash as it is; this is another.
        let hash = hashed.map_or(0, |name| self.hasher.pair(name.hash(), !0));
        ((u128::from(hash) * u128::from(self.workers)) >> 64) as u8
    }

    /// The workers of a whole packet with these headers. What is broken goes to the first, who
    /// counts it.
    pub fn workers(&self, headers: &Headers<'_>, packet: &[u8]) -> Workers {
        let mut workers = Workers::new();
        let Some((kind, name)) = kind_and_name(packet) else {
            workers.push(0);
            return workers;
        };
        let is_answer = kind == types::DATA || headers.nack.is_some();
        let given = headers.pit_token.filter(|token| is_answer && token.len() == 8);
        if let Some(worker) = given.map(|token| token[0]).filter(|w| *w < self.workers) {
            workers.push(worker);
            return workers;
        }
        workers.push(self.worker_of(name));
        if kind == types::DATA && headers.nack.is_none() {
            for components in 1..self.components.min(name.len()) {
                let worker = self.worker_of(name.prefix(components));
                if !workers.contains(&worker) {
                    workers.push(worker);
                }
            }
        }
        workers
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
        let repr = Repr::new(name.as_name());
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
        Dispatch::new(NameHasher::new([7, 8]), workers, COMPONENTS_DEFAULT)
    }

    #[test]
    fn what_belongs_together_meets_and_work_is_spread() {
        let dispatch = dispatch(4);
        let mut load = [0; 4];
        for i in 0..400 {
            let worker = dispatch.worker_of(name(&format!("/a/{i}")).as_name());
            load[usize::from(worker)] += 1;
            let plain = Headers::default();
            for packet in [interest(&format!("/a/{i}/x/y")), interest(&format!("/a/{i}"))] {
                assert_eq!(dispatch.workers(&plain, &packet)[..], [worker]);
            }
            assert_eq!(dispatch.workers(&plain, &data(&format!("/a/{i}/x")))[0], worker);
        }
        assert!(load.iter().all(|n| (60..140).contains(n)), "{load:?}");
    }

    #[test]
    fn a_token_leads_answers_back_to_the_worker_that_gave_it() {
        let dispatch = dispatch(4);
        for worker in 0..4 {
            let token = [worker, 1, 2, 3, 4, 5, 6, 7];
            let headers = Headers { pit_token: Some(&token), ..Headers::default() };
            assert_eq!(dispatch.workers(&headers, &data("/a/b/c"))[..], [worker]);
            let nack = Headers { nack: Some(NackReason::NO_ROUTE), ..headers };
            assert_eq!(dispatch.workers(&nack, &interest("/a/b/c"))[..], [worker]);
            // An Interest's token is its sender's.
            let own = dispatch.worker_of(name("/a/b").as_name());
            assert_eq!(dispatch.workers(&headers, &interest("/a/b/c"))[..], [own]);
        }
        for token in [&[9u8, 0, 0, 0, 0, 0, 0, 0][..], &[1; 4]] {
            let headers = Headers { pit_token: Some(token), ..Headers::default() };
            let own = dispatch.worker_of(name("/a/b").as_name());
            assert_eq!(dispatch.workers(&headers, &data("/a/b/c"))[0], own);
        }
    }

    #[test]
    fn data_without_a_token_goes_where_short_interests_may_wait_too() {
        let dispatch = dispatch(16);
        for i in 0..50 {
            let short = dispatch.worker_of(name(&format!("/{i}")).as_name());
            let workers = dispatch.workers(&Headers::default(), &data(&format!("/{i}/b/c")));
            assert_eq!(workers[0], dispatch.worker_of(name(&format!("/{i}/b")).as_name()));
            assert!(workers.contains(&short));
            assert!(workers.len() <= 2);
        }
    }

    #[test]
    fn what_is_broken_goes_to_the_first() {
        for packet in [&[][..], &[5], &[5, 1, 7], &[6, 2, 8, 0]] {
            assert_eq!(dispatch(4).workers(&Headers::default(), packet)[..], [0]);
        }
    }
}
