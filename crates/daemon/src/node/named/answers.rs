//! Answers of the forwarder of named data to `plexus show`.

use plexus_api::answer::named::{
    self as api, Asked, Cache, Commands, Disk, Dispatch, Face, Faces, Fib, Memory, Names, Origin,
    Prefetch, Reassembly, StrategyChoice, Worker,
};
use plexus_api::answer::node::Counts;
use plexus_io::disk::AlignedBuffer;
use plexus_ndn::face::{FaceCounters, Fate, LinkType, Packets, Scope};
use plexus_ndn::forwarder::{self, Store};
use plexus_ndn::store::log::{Displaced, Health};
use plexus_wire::ndn::nfd::{origin, route_flags};

use super::disks::Disks;
use super::share::Report;
use super::thread::Thread;
use crate::node::thread::time_since;

/// Routes that an answer tells of, at most.
const ROUTES_MAX: usize = 10_000;

impl Thread {
    /// The faces and what all workers counted there.
    pub(crate) fn show_faces(&self, node: String) -> Faces {
        let all = Report::sum(&self.plane.reports(true));
        let table = self.faces.table();
        let faces = table.facts().filter_map(|facts| {
            let (counted, copies) = all.face(facts.id)?;
            let dropped = Report::dropped(&counted, copies);
            let link = table.counters(facts.id)?;
            let options = table.options(facts.id)?;
            Some(Face {
                face: facts.id.number(),
                remote: facts.remote.to_string(),
                local: facts.local.to_string(),
                scope: match facts.scope {
                    Scope::Local => "local",
                    Scope::NonLocal => "non-local",
                }
                .into(),
                link: match facts.link_type {
                    LinkType::PointToPoint => "point-to-point",
                    LinkType::MultiAccess => "multi-access",
                    LinkType::AdHoc => "ad-hoc",
                }
                .into(),
                persistency: facts.persistency.name().into(),
                mtu: (options.mtu < usize::MAX).then_some(options.mtu),
                reliability: options.reliability,
                local_fields: options.local_fields,
                received: packets(&counted.received),
                received_bytes: link.received_bytes,
                sent: packets(&counted.sent),
                sent_bytes: link.sent_bytes,
                // What several workers got has a fate at each.
                received_copies: copies,
                fates: fates(&counted),
                dropped_least: *dropped.start(),
                dropped: *dropped.end(),
                unsent_queue_full: link.dropped_full,
                unsent_queues_full: link.dropped_crowded,
                unsent_refused: link.dropped_unsent,
                congestion_marked: link.link.marked,
                link_malformed: link.link.refused_malformed,
                link_refused: link.link.refused_packets,
                fragments_refused: link.link.refused_fragments,
                duplicates: link.link.refused_duplicates,
                retransmitted: link.link.retransmitted,
                given_up: link.link.given_up,
            })
        });
        let (used_bytes, timed_out, evicted) = self.faces.reassembly();
        Faces {
            node,
            faces: faces.collect(),
            queued_bytes: table.waiting(),
            ended_unread: table.ended_unread(),
            reassembly: Reassembly { used_bytes, timed_out, evicted },
        }
    }

    /// Routes, strategies, what is pending, and how the workers share it.
    pub(crate) fn show_names(&self, node: String) -> Names {
        let now = time_since(self.started);
        let workers = self.plane.reports(false);
        let rib = self.management.rib();
        let routes = rib.routes().flat_map(|(prefix, routes)| {
            let prefix = prefix.to_string();
            routes.iter().map(move |route| (prefix.clone(), route))
        });
        let routes: Vec<api::Route> = routes
            .take(ROUTES_MAX)
            .map(|(prefix, route)| api::Route {
                prefix,
                face: route.face.number(),
                cost: route.cost,
                origin: origin(route.origin),
                inherit: route.flags & route_flags::CHILD_INHERIT != 0,
                capture: route.flags & route_flags::CAPTURE != 0,
                expires_s: route.expires.map(|at| at.since(now).as_secs_f64()),
            })
            .collect();
        let strategies = self.management.strategies().map(|(prefix, name)| StrategyChoice {
            prefix: prefix.to_string(),
            strategy: name.to_string(),
        });
        let dispatch = self
            .plane
            .depths()
            .entries()
            .into_iter()
            .map(|(prefix, n)| Dispatch { prefix: prefix.to_string(), components: n });
        let all = Report::sum(&workers);
        let fib = &self.plane.routing.fib;
        let (of_worker, replicas) = fib.of_workers();
        let commands = self.management.counters();
        Names {
            node,
            routes_more: rib.routes_len() - routes.len(),
            routes,
            strategies: strategies.collect(),
            dispatch: dispatch.collect(),
            prefixes: rib.prefixes(),
            fib: Fib { replicas, memory_bytes: fib.memory_bytes(), of_worker: of_worker.into() },
            pending: all.pending,
            satisfied: all.counters.satisfied,
            unsatisfied: all.counters.unsatisfied,
            asked: asked(&all.counters.asked),
            commands: Commands {
                done: commands.done,
                failed: commands.failed,
                unknown: commands.unknown,
                unsigned: commands.unsigned,
                forged: commands.forged,
                untrusted: commands.untrusted,
                unverified: commands.unverified,
                replayed: commands.replayed,
                stale: commands.stale,
            },
            workers: workers.iter().map(worker).collect(),
        }
    }

    /// The prefixes with routes, at most so many, and how many there are.
    pub(crate) fn prefixes(&self, most: usize) -> (Vec<String>, usize) {
        let rib = self.management.rib();
        let some = rib.routes().take(most).map(|(prefix, _)| prefix.to_string());
        (some.collect(), rib.prefixes())
    }

    /// Pending Interests.
    pub(crate) fn pending(&self) -> usize {
        Report::sum(&self.plane.reports(false)).pending
    }

    /// The content stores' two floors.
    pub(crate) fn show_cache(&self, node: String) -> Cache {
        let all = Report::sum(&self.plane.reports(false));
        Cache {
            node,
            admits: all.cache.admits,
            serves: all.cache.serves,
            memory: Memory {
                packets: all.cache.entries,
                capacity: all.cache.capacity,
                used_bytes: all.memory_bytes,
                capacity_bytes: all.memory_capacity_bytes,
                hits: all.store.memory_hits,
                inserted: all.memory.inserted,
                evicted: all.memory.evicted,
                refused: all.memory.refused,
            },
            disk_hits: all.store.disk_hits,
            prefetch: Prefetch { chunks: all.prefetch, read_ahead: all.ahead.0, used: all.ahead.1 },
            misses: all.store.misses,
            disks: all.disks,
        }
    }
}

fn packets(packets: &Packets) -> api::Packets {
    let Packets { interests, data, nacks, other, .. } = *packets;
    api::Packets { interests, data, nacks, other }
}

/// The fates of the packets that came in by a face, by their texts, without those of no packet.
fn fates(counted: &FaceCounters) -> Counts {
    let counted = Fate::ALL.iter().map(|fate| (fate.text().to_string(), counted.fate(*fate)));
    counted.filter(|(_, n)| *n > 0).collect()
}

fn asked(asked: &forwarder::Asked) -> Asked {
    Asked {
        written: asked.written,
        answered: asked.answered,
        nacked: asked.nacked,
        expired: asked.expired,
        evicted: asked.evicted,
        replaced: asked.replaced,
        withdrawn: asked.withdrawn,
        held: asked.held(),
    }
}

/// One worker's share.
fn worker(report: &Report) -> Worker {
    let ((given, unfit_given), (returned, unfit_returned)) = (report.given, report.returned);
    Worker {
        turns: report.turns,
        pending: report.pending,
        cached: report.cache.entries,
        cache_hits: report.counters.cache_hits,
        unknown_face: report.counters.unknown_face,
        asked: asked(&report.counters.asked),
        given,
        given_dropped: unfit_given,
        returned,
        returned_dropped: unfit_returned,
    }
}

/// A route's origin as NFD's tools call it.
fn origin(number: u64) -> Origin {
    let name = match number {
        origin::APP => "app",
        origin::AUTOREG => "autoreg",
        origin::CLIENT => "client",
        origin::AUTOCONF => "autoconf",
        origin::NLSR => "nlsr",
        origin::PREFIX_ANNOUNCEMENT => "prefixann",
        origin::STATIC => "static",
        other => return Origin::Number(other),
    };
    Origin::Name(name.into())
}

/// One worker's disks.
pub(super) fn disks(disks: &Disks, store: &Store<AlignedBuffer>) -> Vec<Disk> {
    disks
        .0
        .iter()
        .zip(store.disks())
        .map(|(opened, log)| {
            let stats = log.stats();
            Disk {
                file: opened.file.display().to_string(),
                capacity_bytes: opened.disk.bytes(),
                engine: opened.disk.engine().name().into(),
                direct: opened.disk.is_direct(),
                health: match log.health() {
                    Health::Opening => "opening",
                    Health::Good => "good",
                    Health::Stalled => "stalled",
                    Health::ReadOnly => "read-only",
                    Health::Discarded => "discarded",
                    Health::Foreign => "foreign",
                }
                .into(),
                index_bytes: log.index_bytes(),
                packets: stats.objects,
                recovered: stats.recovered,
                cleared: log.displaced().map(|displaced| match displaced {
                    Displaced::Size => "it was of another size".into(),
                    Displaced::Part(part) => format!("it was for {part}"),
                }),
                hits: stats.hits + stats.buffer_hits,
                misses: stats.misses,
                busy: stats.busy,
                reads: stats.reads,
                coalesced: stats.coalesced,
                read_errors: stats.read_errors,
                late: stats.late,
                mismatches: stats.mismatches,
                inserted: stats.inserted,
                refused: stats.refused,
                writes: stats.writes,
                write_errors: stats.write_errors,
            }
        })
        .collect()
}
