//! Answers of a forwarder of named data for people.

use std::fmt::{Display, Write as _};

use plexus_api::answer::named::{
    Cache, Dispatch, Face, Faces, Fib, Names, Origin, Prefetch, Worker,
};

use crate::table::{Table, or_dash};

/// The faces: where they lead and what passed.
pub(crate) fn faces(answer: &Faces) -> String {
    let mut table = Table::new(&[
        "FACE",
        "REMOTE",
        "SCOPE",
        "KIND",
        "IN INTERESTS",
        "IN DATA",
        "IN NACKS",
        "OUT INTERESTS",
        "OUT DATA",
        "OUT NACKS",
        "DROPPED",
    ]);
    for face in &answer.faces {
        let (received, sent) = (&face.received, &face.sent);
        table.row::<11>([
            &face.face,
            &face.remote,
            &face.scope,
            &face.persistency,
            &received.interests,
            &received.data,
            &received.nacks,
            &sent.interests,
            &sent.data,
            &sent.nacks,
            &dropped(face),
        ]);
    }
    let mut out = table.finish();
    if answer.faces.iter().any(|face| face.dropped_least != face.dropped) {
        out += "DROPPED at least and at most: what several workers got, each counts by itself\n";
    }
    if answer.ended_unread > 0 {
        let ended = answer.ended_unread;
        let _ = writeln!(out, "{ended} connections ended: nobody read what waited there");
    }
    out
}

/// How many of a face's packets came to nothing, as far as that is known.
fn dropped(face: &Face) -> String {
    match (face.dropped_least, face.dropped) {
        (least, most) if least == most => most.to_string(),
        (least, most) => format!("{least}-{most}"),
    }
}

/// Prefixes and where they lead, strategies, and what is pending.
pub(crate) fn names(answer: &Names) -> String {
    let mut routes = Table::new(&["PREFIX", "FACE", "COST", "ORIGIN", "FLAGS", "ENDS IN"]);
    for route in &answer.routes {
        let flags = [(route.inherit, "inherit"), (route.capture, "capture")];
        let flags: Vec<&str> = flags.iter().filter(|(on, _)| *on).map(|(_, flag)| *flag).collect();
        routes.row::<6>([
            &route.prefix,
            &route.face,
            &route.cost,
            match &route.origin {
                Origin::Name(name) => name,
                Origin::Number(number) => number,
            },
            &if flags.is_empty() { "-".into() } else { flags.join(",") },
            &or_dash(route.expires_s.map(|s| format!("{s:.0} s"))),
        ]);
    }
    let mut out = routes.finish();
    if answer.routes_more > 0 {
        let more = answer.routes_more;
        let _ = writeln!(out, "... and {more} more routes: ask for /localhost/nfd/rib/list");
    }
    let mut strategies = Table::new(&["PREFIX", "STRATEGY"]);
    for choice in &answer.strategies {
        strategies.row([&choice.prefix, &choice.strategy]);
    }
    out += &strategies.finish();
    let _ = writeln!(
        out,
        "{} prefixes, {} Interests pending; {} satisfied, {} not",
        answer.prefixes, answer.pending, answer.satisfied, answer.unsatisfied
    );
    out + &replicas(&answer.fib) + &workers(&answer.workers, &answer.dispatch)
}

/// How often there is a FIB, if more than once.
fn replicas(fib: &Fib) -> String {
    match fib.replicas {
        0 | 1 => String::new(),
        replicas => {
            let memory = mib(fib.memory_bytes as u64);
            format!("{replicas} FIBs, one for each node of memory, of {memory} together\n")
        }
    }
}

/// How several workers share the names; one has them all.
fn workers(workers: &[Worker], dispatch: &[Dispatch]) -> String {
    if workers.len() < 2 {
        return String::new();
    }
    let mut table = Table::new(&[
        "WORKER",
        "ASKED",
        "PENDING",
        "CACHE HITS",
        "GIVEN",
        "GIVEN DROPPED",
        "RETURNED",
        "RETURNED DROPPED",
    ]);
    for (number, worker) in workers.iter().enumerate() {
        table.row::<8>([
            &number,
            &worker.asked.written,
            &worker.pending,
            &worker.cache_hits,
            &worker.given,
            &worker.given_dropped,
            &worker.returned,
            &worker.returned_dropped,
        ]);
    }
    let mut depths = Table::new(&["PREFIX", "COMPONENTS HASHED"]);
    for entry in dispatch {
        depths.row([&entry.prefix as &dyn Display, &entry.components]);
    }
    table.finish() + &depths.finish()
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// The content store's two floors.
pub(crate) fn cache(answer: &Cache) -> String {
    let memory = &answer.memory;
    let mut table = Table::new(&["FLOOR", "USED", "OF", "PACKETS", "HITS", "ERRORS", "STATE"]);
    table.row::<7>([
        &"memory",
        &mib(memory.used_bytes),
        &mib(memory.capacity_bytes),
        &memory.packets,
        &memory.hits,
        &"-",
        &"good",
    ]);
    for disk in &answer.disks {
        table.row::<7>([
            &disk.file,
            &"-",
            &mib(disk.capacity_bytes),
            &disk.packets,
            &disk.hits,
            &disk.errors(),
            &match &disk.cleared {
                Some(why) => format!("{}; cleared, as {why}", disk.health),
                None => disk.health.clone(),
            },
        ]);
    }
    format!("{}{} misses\n{}", table.finish(), answer.misses, prefetch(&answer.prefetch))
}

/// Chunks read from disks ahead; nothing if that is off and has always been.
fn prefetch(answer: &Prefetch) -> String {
    let Prefetch { chunks, read_ahead, used } = answer;
    match *chunks > 1 || *read_ahead > 0 {
        true => {
            format!("batches of {chunks} chunks: {read_ahead} read ahead, {used} of them used\n")
        }
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use plexus_api::answer::named::{Asked, Packets, Reassembly, Route};

    use super::*;

    #[test]
    fn routes_that_are_left_out_are_counted() {
        let route = Route {
            prefix: "/a".into(),
            face: 256,
            cost: 0,
            origin: Origin::Name("app".into()),
            inherit: true,
            capture: false,
            expires_s: None,
        };
        let said =
            |routes_more: usize| names(&Names { routes_more, ..example(vec![route.clone()]) });
        assert!(said(190_002).contains("\n... and 190002 more routes"), "{}", said(190_002));
        assert!(!said(0).contains("more"));
    }

    fn example(routes: Vec<Route>) -> Names {
        let zero = serde_json::json!({
            "node": "n", "routes_more": 0, "routes": [], "strategies": [], "dispatch": [],
            "prefixes": 3, "fib": {"replicas": 1, "memory_bytes": 0, "of_worker": [0]},
            "pending": 0, "satisfied": 0, "unsatisfied": 0, "asked": asked(),
            "commands": {"done": 0, "failed": 0, "unknown": 0, "unsigned": 0, "forged": 0,
                "untrusted": 0, "unverified": 0, "replayed": 0, "stale": 0},
            "workers": [],
        });
        Names { routes, ..serde_json::from_value(zero).unwrap() }
    }

    fn asked() -> Asked {
        let (answered, nacked, expired, evicted, replaced, withdrawn) = (0, 0, 0, 0, 0, 0);
        Asked { written: 1, answered, nacked, expired, evicted, replaced, withdrawn, held: 1 }
    }

    #[test]
    fn what_several_workers_dropped_and_whose_connections_ended_is_said_where_there_is_any() {
        let faces_of = |dropped_least: u64, dropped: u64, ended_unread: u64| {
            let zero = serde_json::json!({
                "face": 1, "remote": "fd://9", "local": "unix:///a", "scope": "local",
                "link": "point-to-point", "persistency": "on-demand", "mtu": null,
                "reliability": false, "local_fields": false, "received": Packets::default(),
                "received_bytes": 0, "sent": Packets::default(), "sent_bytes": 0,
                "received_copies": 0, "fates": {}, "dropped_least": dropped_least,
                "dropped": dropped, "unsent_queue_full": 0, "unsent_queues_full": 0,
                "unsent_refused": 0, "congestion_marked": 0, "link_malformed": 0,
                "link_refused": 0, "fragments_refused": 0, "duplicates": 0, "retransmitted": 0,
                "given_up": 0,
            });
            faces(&Faces {
                node: "n".into(),
                faces: vec![serde_json::from_value(zero).unwrap()],
                queued_bytes: 0,
                ended_unread,
                reassembly: Reassembly { used_bytes: 0, timed_out: 0, evicted: 0 },
            })
        };
        let row = |answer: &str| {
            let row = answer.lines().nth(1).unwrap().split_whitespace().last();
            row.unwrap().to_string()
        };
        let said = faces_of(7, 7, 0);
        assert_eq!((row(&said).as_str(), said.lines().count()), ("7", 2), "{said}");
        let said = faces_of(7, 9, 3);
        assert_eq!(row(&said), "7-9");
        assert!(said.contains("\nDROPPED at least and at most"), "{said}");
        assert!(said.ends_with("\n3 connections ended: nobody read what waited there\n"), "{said}");
    }

    #[test]
    fn a_fib_that_is_there_more_than_once_is_told_with_the_memory_of_all() {
        let said = |replicas: usize| {
            let memory_bytes = replicas * (3 << 20);
            super::replicas(&Fib { replicas, memory_bytes, of_worker: vec![0] })
        };
        assert_eq!(said(1), "");
        assert_eq!(said(2), "2 FIBs, one for each node of memory, of 6.0 MiB together\n");
    }

    #[test]
    fn what_was_read_ahead_is_shown_where_it_is_on() {
        let said = |chunks, read_ahead| prefetch(&Prefetch { chunks, read_ahead, used: 7 });
        assert_eq!(said(1, 0), "");
        assert_eq!(said(16, 9), "batches of 16 chunks: 9 read ahead, 7 of them used\n");
    }

    #[test]
    fn how_workers_share_names_and_what_was_dropped_on_each_way_is_shown() {
        let worker = |given_dropped: u64, returned_dropped: u64| Worker {
            turns: 0,
            pending: 2,
            cached: 0,
            cache_hits: 3,
            unknown_face: 0,
            asked: asked(),
            given: 100,
            given_dropped,
            returned: 200,
            returned_dropped,
        };
        let dispatch = [("/", 2), ("/web", 4)]
            .map(|(prefix, components)| Dispatch { prefix: prefix.into(), components });
        let text = workers(&[worker(0, 0), worker(41, 57)], &dispatch);
        let line = |at: usize| text.lines().nth(at).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(line(2), ["1", "1", "2", "3", "100", "41", "200", "57"], "{text}");
        assert_eq!((line(4), line(5)), (vec!["/", "2"], vec!["/web", "4"]), "{text}");
    }
}
