//! Datasets: the status that management publishes (NFD wiki, "StatusDataset").
//!
//! ```text
//! asked:    /localhost/nfd/MODULE/DATASET[/FILTER][/params-sha256=…]        (may be a prefix)
//! answered: …/v=VERSION/seg=0, and later segments when they are asked for
//! ```
//!
//! A dataset is encoded once for all clients that ask within a second, as long as no command has
//! changed anything, and is kept for clients that fetch its segments. Signed and plain Interests
//! are answered under their own names from the same bytes. A dataset about prefixes may take
//! [several turns](super::writing) of the driver; its clients wait until then.

use plexus_wire::ndn::data::ContentType;
use plexus_wire::ndn::nfd::{
    ChannelStatus, CsInfo, FaceQueryFilter, FaceStatus, Fields, GeneralStatus, Record, Strategy,
    StrategyChoice, cs_flags, status,
};
use plexus_wire::ndn::{Component, Name, PACKET_LEN_MAX, types};

use super::command::{Dataset, Request};
use super::reply::{self, Refusal};
use super::snapshots::{Snapshot, Wanted};
use super::writing::Writing;
use super::{At, Host, Management};

/// Bytes of a packet besides name and content: TLV headers, meta information, signature, and the
/// last two components of the name.
const OVERHEAD: usize = 120;
/// Most bytes of content in a segment (ndn-cxx, `StatusDatasetContext`).
const PAYLOAD_MAX: usize = 8000;
/// A name so long that less is left is refused.
const PAYLOAD_MIN: usize = 1000;

/// The result of an Interest for a dataset.
enum Found {
    Segment(Vec<u8>),
    /// Answered once the dataset has been written.
    Later,
}

/// A segment of a dataset under a name; `None` if the number is out of range.
pub(super) fn segment(prefix: Name<'_>, number: u64, of: &Snapshot) -> Option<Vec<u8>> {
    let Snapshot { version, content, .. } = of;
    let room = PACKET_LEN_MAX.checked_sub(prefix.encoded_len() + OVERHEAD)?;
    let payload = room.min(PAYLOAD_MAX);
    if payload < PAYLOAD_MIN {
        return None;
    }
    let last = (content.len().max(1) - 1) / payload;
    let at = usize::try_from(number).ok().filter(|at| *at <= last)?;
    let part = &content[at * payload..content.len().min((at + 1) * payload)];
    let name = prefix.to_buf().with_number(types::VERSION, *version);
    let final_name = name.clone().with_number(types::SEGMENT, last as u64);
    let final_block: Option<Component<'_>> = final_name.as_name().last();
    let name = name.with_number(types::SEGMENT, number);
    reply::data(name.as_name(), part, None, final_block)
}

impl Management {
    /// Answers an Interest for a dataset.
    pub(super) fn dataset(
        &mut self,
        at: At,
        dataset: Dataset,
        request: &Request<'_>,
        host: &impl Host,
        answer: &mut impl FnMut(&[u8]),
    ) {
        match self.find_segment(at, dataset, request, host) {
            Some(Found::Segment(packet)) => {
                self.counters.segments += 1;
                answer(&packet);
            }
            Some(Found::Later) => {}
            None => self.counters.dropped += 1,
        }
    }

    fn find_segment(
        &mut self,
        at: At,
        dataset: Dataset,
        request: &Request<'_>,
        host: &impl Host,
    ) -> Option<Found> {
        let name = request.interest.name();
        let asked = Wanted::new(dataset, name)?;
        let prefix = name.prefix(asked.len);
        if let Some(version) = asked.version {
            let found = self.snapshots.version(&asked, version, at.now)?;
            return segment(prefix, asked.segment.unwrap_or(0), found).map(Found::Segment);
        }
        // The answer has a longer name than the Interest.
        if !request.interest.can_be_prefix() || !request.has_digest() {
            return None;
        }
        if let Some(recent) = self.snapshots.recent(&asked, at.now, self.changes) {
            return segment(prefix, 0, recent).map(Found::Segment);
        }
        if let Some(writing) = self.writing.iter_mut().find(|w| w.dataset == dataset) {
            return writing.add_waiting(prefix).then_some(Found::Later);
        }
        let mut writing = Writing::new(dataset, self.changes, at.unix_ms);
        let Some(is_more) = self.begin(at, &asked, &mut writing, host) else {
            let refusal = Refusal::new(status::BAD_PARAMETERS, "Malformed filter");
            let refused = reply::response(name, Err(refusal), Some(ContentType::NACK));
            return refused.map(Found::Segment);
        };
        if is_more {
            writing.add_waiting(prefix);
            self.writing.push_back(writing);
            self.snapshots.evict(at.now);
            return Some(Found::Later);
        }
        let (of, when) = ((dataset, asked.filter), (at.now, at.unix_ms));
        let kept = self.snapshots.keep(of, when, self.changes, writing.content);
        segment(prefix, 0, kept).map(Found::Segment)
    }

    /// Writes a dataset or its first part; true if there is more, `None` if the filter is invalid.
    fn begin(
        &self,
        at: At,
        asked: &Wanted<'_>,
        writing: &mut Writing,
        host: &impl Host,
    ) -> Option<bool> {
        let out = &mut writing.content;
        match asked.dataset {
            Dataset::Rib | Dataset::Fib => return Some(self.write_part(at.now, writing)),
            Dataset::Faces => host.faces(at.now, &mut |face| out.extend(face.to_bytes())),
            Dataset::FaceQuery => {
                let filter = FaceQueryFilter::parse(asked.filter).ok()?;
                host.faces(at.now, &mut |face| {
                    if fits(&filter, face) {
                        out.extend(face.to_bytes());
                    }
                });
            }
            Dataset::Channels => host.channels(&mut |uri| {
                out.extend(ChannelStatus { local_uri: uri.to_string() }.to_bytes());
            }),
            Dataset::Strategies => {
                for (name, strategy) in &self.strategies {
                    let (name, strategy) = (name.clone(), Strategy { name: strategy.clone() });
                    out.extend(StrategyChoice { name, strategy }.to_bytes());
                }
            }
            Dataset::Cache => {
                let cache = host.cache();
                let record = CsInfo {
                    capacity: cache.capacity,
                    flags: cache.flags(),
                    entries: cache.entries,
                    hits: cache.hits,
                    misses: cache.misses,
                };
                out.extend(record.to_bytes());
            }
            Dataset::Status => {
                let status = GeneralStatus {
                    version: self.config.version.clone(),
                    start_ms: self.config.start_unix_ms,
                    now_ms: at.unix_ms,
                    fib_entries: self.rib.prefixes() as u64,
                    ..host.status()
                };
                out.extend(status.fields_to_bytes());
            }
        }
        Some(false)
    }
}

impl super::CacheInfo {
    /// As of [`cs_flags`].
    pub(super) fn flags(&self) -> u64 {
        u64::from(self.admits) * cs_flags::ADMIT + u64::from(self.serves) * cs_flags::SERVE
    }
}

/// True if the face matches a query.
fn fits(filter: &FaceQueryFilter, face: &FaceStatus) -> bool {
    let has_scheme = |uri: &str, scheme: &str| {
        uri.strip_prefix(scheme).is_some_and(|rest| rest.starts_with("://"))
    };
    filter.face_id.is_none_or(|id| id == face.face_id)
        && (filter.uri_scheme.as_ref())
            .is_none_or(|s| has_scheme(&face.uri, s) || has_scheme(&face.local_uri, s))
        && filter.uri.as_ref().is_none_or(|uri| *uri == face.uri)
        && filter.local_uri.as_ref().is_none_or(|uri| *uri == face.local_uri)
        && filter.scope.is_none_or(|scope| scope == face.scope)
        && filter.persistency.is_none_or(|p| p == face.persistency)
        && filter.link_type.is_none_or(|link| link == face.link_type)
}
