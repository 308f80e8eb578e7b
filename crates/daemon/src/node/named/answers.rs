//! What the forwarder of named data says of itself, as JSON.

use plexus_io::disk::AlignedBuffer;
use plexus_ndn::face::{FaceCounters, Fate, LinkType, Packets, Scope};
use plexus_ndn::forwarder::{Asked, Store};
use plexus_ndn::management::Management;
use plexus_ndn::store::log::{Displaced, Health};
use plexus_ndn_faces::Faces;
use plexus_wire::Time;
use plexus_wire::ndn::nfd::{origin, route_flags};
use serde_json::{Map, Value, json};

use super::disks::Disks;
use super::plane::Plane;
use super::share::Report;

/// Routes that an answer tells of, at most.
const ROUTES_MAX: usize = 10_000;

/// The faces and what all workers counted there.
pub(super) fn faces(faces: &Faces, all: &Report) -> Value {
    let table = faces.table();
    let list: Vec<Value> = table
        .facts()
        .filter_map(|facts| {
            let (counted, copies) = all.face(facts.id)?;
            let dropped = Report::dropped(&counted, copies);
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
                // What several workers got has a fate at each.
                "received_copies": copies,
                "fates": fates(&counted),
                "dropped_least": dropped.start(),
                "dropped": dropped.end(),
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
        "ended_unread": table.ended_unread(),
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

/// Routes, strategies, what is pending, and how the workers share it.
pub(super) fn names(
    now: Time,
    workers: &[Report],
    plane: &Plane,
    management: &Management,
) -> Value {
    let rib = management.rib();
    let routes: Vec<Value> = rib
        .routes()
        .flat_map(|(prefix, routes)| {
            let prefix = prefix.to_string();
            routes.iter().map(move |route| (prefix.clone(), route))
        })
        .take(ROUTES_MAX)
        .map(|(prefix, route)| {
            json!({
                "prefix": prefix,
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
    let dispatch = plane.depths().entries().into_iter();
    let dispatch =
        dispatch.map(|(prefix, n)| json!({"prefix": prefix.to_string(), "components": n}));
    let all = Report::sum(workers);
    let fib = &plane.routing.fib;
    let (of_worker, replicas) = fib.of_workers();
    let commands = management.counters();
    json!({
        "routes_more": rib.routes_len() - routes.len(),
        "routes": routes,
        "strategies": strategies,
        "dispatch": dispatch.collect::<Vec<_>>(),
        "prefixes": rib.prefixes(),
        "fib": {
            "replicas": replicas,
            "memory_bytes": fib.memory_bytes(),
            "of_worker": of_worker,
        },
        "pending": all.pending,
        "satisfied": all.counters.satisfied,
        "unsatisfied": all.counters.unsatisfied,
        "asked": asked(&all.counters.asked),
        "commands": {
            "done": commands.done,
            "failed": commands.failed,
            "unknown": commands.unknown,
            "unsigned": commands.unsigned,
            "forged": commands.forged,
            "untrusted": commands.untrusted,
            "unverified": commands.unverified,
            "replayed": commands.replayed,
            "stale": commands.stale,
        },
        "workers": workers.iter().map(worker).collect::<Vec<_>>(),
    })
}

fn asked(asked: &Asked) -> Value {
    json!({
        "written": asked.written,
        "answered": asked.answered,
        "nacked": asked.nacked,
        "expired": asked.expired,
        "evicted": asked.evicted,
        "replaced": asked.replaced,
        "withdrawn": asked.withdrawn,
        "held": asked.held(),
    })
}

/// One worker's share. The first gives packets to the others and takes them back.
fn worker(report: &Report) -> Value {
    let ((given, unfit_given), (returned, unfit_returned)) = (report.given, report.returned);
    json!({
        "turns": report.turns,
        "pending": report.pending,
        "cached": report.cache.entries,
        "cache_hits": report.counters.cache_hits,
        "unknown_face": report.counters.unknown_face,
        "asked": asked(&report.counters.asked),
        "given": given,
        "given_dropped": unfit_given,
        "returned": returned,
        "returned_dropped": unfit_returned,
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

/// One worker's disks.
pub(super) fn disks(disks: &Disks, store: &Store<AlignedBuffer>) -> Vec<Value> {
    disks
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
                "cleared": log.displaced().map(|displaced| match displaced {
                    Displaced::Size => "it was of another size".into(),
                    Displaced::Part(part) => format!("it was for {part}"),
                }),
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
        .collect()
}

/// The content stores' two floors.
pub(super) fn cache(all: &Report) -> Value {
    json!({
        "admits": all.cache.admits,
        "serves": all.cache.serves,
        "memory": {
            "packets": all.cache.entries,
            "capacity": all.cache.capacity,
            "used_bytes": all.memory_bytes,
            "capacity_bytes": all.memory_capacity_bytes,
            "hits": all.store.memory_hits,
            "inserted": all.memory.inserted,
            "evicted": all.memory.evicted,
            "refused": all.memory.refused,
        },
        "disk_hits": all.store.disk_hits,
        "prefetch": {
            "chunks": all.prefetch,
            "read_ahead": all.ahead.0,
            "used": all.ahead.1,
        },
        "misses": all.store.misses,
        "disks": all.disks,
    })
}
