//! What the forwarder of named data says of itself, as JSON.

use plexus_faces::Faces;
use plexus_ndn::face::{FaceCounters, Fate, LinkType, Packets, Scope};
use plexus_ndn::management::Management;
use plexus_ndn::store::log::Health;
use plexus_wire::Time;
use plexus_wire::ndn::nfd::{origin, route_flags};
use serde_json::{Map, Value, json};

use super::disks::Disks;
use super::plane::Plane;

/// Routes that an answer tells of, at most.
const ROUTES_MAX: usize = 10_000;

/// The faces and what they counted.
pub(super) fn faces(faces: &Faces, plane: &Plane) -> Value {
    let table = faces.table();
    let list: Vec<Value> = table
        .facts()
        .filter_map(|facts| {
            let counted = plane.forwarder.face_counters(facts.id)?;
            let link = table.counters(facts.id)?;
            let options = table.options(facts.id)?;
            Some(json!({
                "face": facts.id.number(),
                "remote": facts.remote.to_string(),
                "local": facts.local.to_string(),
                "scope": match facts.scope {
                    Scope::Local => "local",
                    Scope::NonLocal => "non-local",
                },
                "link": match facts.link_type {
                    LinkType::PointToPoint => "point-to-point",
                    LinkType::MultiAccess => "multi-access",
                    LinkType::AdHoc => "ad-hoc",
                },
                "persistency": facts.persistency.name(),
                "mtu": (options.mtu < usize::MAX).then_some(options.mtu),
                "reliability": options.reliability,
                "local_fields": options.local_fields,
                "received": packets(&counted.received),
                "received_bytes": link.received_bytes,
                "sent": packets(&counted.sent),
                "sent_bytes": link.sent_bytes,
                "fates": fates(counted),
                "dropped": counted.dropped(),
                "unsent_queue_full": link.dropped_full,
                "unsent_queues_full": link.dropped_crowded,
                "unsent_refused": link.dropped_unsent,
                "congestion_marked": link.link.marked,
                "link_malformed": link.link.refused_malformed,
                "link_refused": link.link.refused_packets,
                "fragments_refused": link.link.refused_fragments,
                "duplicates": link.link.refused_duplicates,
                "retransmitted": link.link.retransmitted,
                "given_up": link.link.given_up,
            }))
        })
        .collect();
    let (used, timed_out, evicted) = faces.reassembly();
    json!({
        "faces": list,
        "queued_bytes": table.waiting(),
        "reassembly": {"used_bytes": used, "timed_out": timed_out, "evicted": evicted},
    })
}

fn packets(packets: &Packets) -> Value {
    json!({
        "interests": packets.interests,
        "data": packets.data,
        "nacks": packets.nacks,
        "other": packets.other,
    })
}

/// What became of the packets that came in by a face, by its text; what never happened is left out.
fn fates(counted: &FaceCounters) -> Map<String, Value> {
    let counted = Fate::ALL.iter().map(|fate| (fate.text(), counted.fate(*fate)));
    counted.filter(|(_, n)| *n > 0).map(|(text, n)| (text.into(), n.into())).collect()
}

/// Routes, strategies, and what is pending.
pub(super) fn names(now: Time, plane: &Plane, management: &Management) -> Value {
    let routes: Vec<Value> = management
        .rib()
        .routes()
        .flat_map(|(prefix, routes)| routes.iter().map(move |route| (prefix, route)))
        .take(ROUTES_MAX)
        .map(|(prefix, route)| {
            json!({
                "prefix": prefix.to_string(),
                "face": route.face.number(),
                "cost": route.cost,
                "origin": origin(route.origin),
                "inherit": route.flags & route_flags::CHILD_INHERIT != 0,
                "capture": route.flags & route_flags::CAPTURE != 0,
                "expires_s": route.expires.map(|at| at.since(now).as_secs_f64()),
            })
        })
        .collect();
    let strategies: Vec<Value> = management
        .strategies()
        .map(|(prefix, name)| json!({"prefix": prefix.to_string(), "strategy": name.to_string()}))
        .collect();
    let counters = plane.forwarder.counters();
    let asked = &counters.asked;
    let commands = management.counters();
    json!({
        "routes": routes,
        "strategies": strategies,
        "prefixes": management.rib().next_hops().count(),
        "pending": plane.forwarder.pending(),
        "satisfied": counters.satisfied,
        "unsatisfied": counters.unsatisfied,
        "asked": {
            "written": asked.written,
            "answered": asked.answered,
            "nacked": asked.nacked,
            "expired": asked.expired,
            "evicted": asked.evicted,
            "replaced": asked.replaced,
            "withdrawn": asked.withdrawn,
            "held": asked.held(),
        },
        "commands": {
            "done": commands.done,
            "failed": commands.failed,
            "unknown": commands.unknown,
            "unsigned": commands.unsigned,
            "forged": commands.forged,
            "untrusted": commands.untrusted,
            "replayed": commands.replayed,
            "stale": commands.stale,
        },
    })
}

/// A route's origin as NFD's tools call it.
fn origin(number: u64) -> Value {
    match number {
        origin::APP => "app".into(),
        origin::AUTOREG => "autoreg".into(),
        origin::CLIENT => "client".into(),
        origin::AUTOCONF => "autoconf".into(),
        origin::NLSR => "nlsr".into(),
        origin::PREFIX_ANNOUNCEMENT => "prefixann".into(),
        origin::STATIC => "static".into(),
        other => other.into(),
    }
}

/// The content store's two floors.
pub(super) fn cache(plane: &Plane, disks: &Disks) -> Value {
    let store = plane.forwarder.store();
    let (memory, stats) = (store.memory(), store.stats());
    let counted = memory.stats();
    let disks: Vec<Value> = disks
        .0
        .iter()
        .zip(store.disks())
        .map(|(opened, log)| {
            let stats = log.stats();
            json!({
                "file": opened.file,
                "capacity_bytes": opened.disk.bytes(),
                "engine": opened.disk.engine().name(),
                "direct": opened.disk.is_direct(),
                "health": match log.health() {
                    Health::Opening => "opening",
                    Health::Good => "good",
                    Health::Stalled => "stalled",
                    Health::ReadOnly => "read-only",
                    Health::Discarded => "discarded",
                    Health::Foreign => "foreign",
                },
                "index_bytes": log.index_bytes(),
                "packets": stats.objects,
                "recovered": stats.recovered,
                "hits": stats.hits + stats.buffer_hits,
                "misses": stats.misses,
                "busy": stats.busy,
                "reads": stats.reads,
                "coalesced": stats.coalesced,
                "read_errors": stats.read_errors,
                "late": stats.late,
                "mismatches": stats.mismatches,
                "inserted": stats.inserted,
                "refused": stats.refused,
                "writes": stats.writes,
                "write_errors": stats.write_errors,
            })
        })
        .collect();
    json!({
        "admits": store.admits(),
        "serves": store.serves(),
        "memory": {
            "packets": memory.len(),
            "used_bytes": memory.used_bytes(),
            "hits": stats.memory_hits,
            "inserted": counted.inserted,
            "evicted": counted.evicted,
            "refused": counted.refused,
        },
        "disk_hits": stats.disk_hits,
        "misses": stats.misses,
        "disks": disks,
    })
}
