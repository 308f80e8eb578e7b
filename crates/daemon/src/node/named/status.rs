//! What NFD's management tells of faces and forwarder.

use plexus_ndn::face::{FaceCounters, FaceId, LinkType, Scope};
use plexus_ndn::link::Options;
use plexus_ndn_faces::{FaceCounters as Carried, Faces, Facts, Persistency};
use plexus_wire::ndn::PACKET_LEN_MAX;
use plexus_wire::ndn::face_uri::FaceUri;
use plexus_wire::ndn::nfd::{
    FaceStatus, GeneralStatus, face_flags, face_scope, link_type, persistency,
};

use super::share::Report;

/// A face that is there, and what it has counted.
pub(super) fn of_face(faces: &Faces, id: FaceId, counted: &FaceCounters) -> Option<FaceStatus> {
    let table = faces.table();
    let (facts, options) = (table.facts_of(id)?, table.options(id)?);
    Some(status(facts, Some(options), counted, &table.counters(id)?))
}

/// The management's own face, to which `/localhost/nfd` leads. Its bytes nobody counts.
pub(super) fn of_management(id: FaceId, counted: &FaceCounters) -> FaceStatus {
    let facts = Facts {
        id,
        local: FaceUri::Internal,
        remote: FaceUri::Internal,
        scope: Scope::Local,
        link_type: LinkType::PointToPoint,
        persistency: Persistency::Permanent,
    };
    status(&facts, None, counted, &Carried::default())
}

/// A face that has gone, or of which nothing more is known.
pub(super) fn of_facts(facts: &Facts) -> FaceStatus {
    status(facts, None, &FaceCounters::default(), &Carried::default())
}

fn status(
    facts: &Facts,
    options: Option<&Options>,
    counted: &FaceCounters,
    carried: &Carried,
) -> FaceStatus {
    let flag = |on: bool, flag: u64| if on { flag } else { 0 };
    let (received, sent) = (&counted.received, &counted.sent);
    FaceStatus {
        face_id: facts.id.number(),
        uri: facts.remote.to_string(),
        local_uri: facts.local.to_string(),
        expiration_ms: None,
        scope: match facts.scope {
            Scope::Local => face_scope::LOCAL,
            Scope::NonLocal => face_scope::NON_LOCAL,
        },
        persistency: match facts.persistency {
            Persistency::OnDemand => persistency::ON_DEMAND,
            Persistency::Persistent => persistency::PERSISTENT,
            Persistency::Permanent => persistency::PERMANENT,
        },
        link_type: match facts.link_type {
            LinkType::PointToPoint => link_type::POINT_TO_POINT,
            LinkType::MultiAccess => link_type::MULTI_ACCESS,
            LinkType::AdHoc => link_type::AD_HOC,
        },
        congestion_interval_ns: options.map(|o| o.marking.interval.as_nanos() as u64),
        congestion_threshold: options.map(|o| o.marking.threshold as u64),
        // No longer than packets are (NFD: `copyMtu`).
        mtu: options.map(|o| o.mtu.min(PACKET_LEN_MAX) as u64),
        in_interests: received.interests,
        in_data: received.data,
        in_nacks: received.nacks,
        out_interests: sent.interests,
        out_data: sent.data,
        out_nacks: sent.nacks,
        in_bytes: carried.received_bytes,
        out_bytes: carried.sent_bytes,
        flags: flag(options.is_some_and(|o| o.local_fields), face_flags::LOCAL_FIELDS)
            | flag(options.is_some_and(|o| o.reliability), face_flags::LP_RELIABILITY)
            | flag(options.is_some_and(|o| o.marks), face_flags::CONGESTION_MARKING),
    }
}

/// The forwarder's counters, from all workers' reports.
pub(super) fn of_forwarder(all: &Report) -> GeneralStatus {
    let (received, sent) = (all.received_once(), &all.sent);
    GeneralStatus {
        version: format!("plexus {}", env!("CARGO_PKG_VERSION")),
        pit_entries: all.pending as u64,
        cs_entries: all.cache.entries,
        in_interests: received.interests,
        in_data: received.data,
        in_nacks: received.nacks,
        out_interests: sent.interests,
        out_data: sent.data,
        out_nacks: sent.nacks,
        satisfied_interests: all.counters.satisfied,
        unsatisfied_interests: all.counters.unsatisfied,
        ..GeneralStatus::default()
    }
}
