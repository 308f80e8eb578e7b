//! Answers of a forwarder of named data for people.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Table, list, text};

/// The faces: where they lead and what passed.
pub(super) fn faces(answer: &Value) -> String {
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
    for face in list(answer, "faces") {
        let (received, sent) = (&face["received"], &face["sent"]);
        table.row([
            text(&face["face"]),
            text(&face["remote"]),
            text(&face["scope"]),
            text(&face["persistency"]),
            text(&received["interests"]),
            text(&received["data"]),
            text(&received["nacks"]),
            text(&sent["interests"]),
            text(&sent["data"]),
            text(&sent["nacks"]),
            dropped(face),
        ]);
    }
    let mut out = table.finish();
    if list(answer, "faces").any(|face| face["dropped_least"] != face["dropped"]) {
        out += "DROPPED at least and at most: what several workers got, each counts by itself\n";
    }
    if let Some(ended) = answer["ended_unread"].as_u64().filter(|ended| *ended > 0) {
        let _ = writeln!(out, "{ended} connections ended: nobody read what waited there");
    }
    out
}

/// How many of a face's packets came to nothing, as far as that is known.
fn dropped(face: &Value) -> String {
    match (&face["dropped_least"], &face["dropped"]) {
        (least, most) if least == most => text(most),
        (least, most) => format!("{}-{}", text(least), text(most)),
    }
}

/// Prefixes and where they lead, strategies, and what is pending.
pub(super) fn names(answer: &Value) -> String {
    let mut routes = Table::new(&["PREFIX", "FACE", "COST", "ORIGIN", "FLAGS", "ENDS IN"]);
    for route in list(answer, "routes") {
        let flags: Vec<&str> =
            ["inherit", "capture"].into_iter().filter(|flag| route[*flag] == true).collect();
        let ends = match route["expires_s"].as_f64() {
            Some(s) => format!("{s:.0} s"),
            None => "-".into(),
        };
        routes.row([
            text(&route["prefix"]),
            text(&route["face"]),
            text(&route["cost"]),
            text(&route["origin"]),
            if flags.is_empty() { "-".into() } else { flags.join(",") },
            ends,
        ]);
    }
    let mut routes = routes.finish();
    if let Some(more) = answer["routes_more"].as_u64().filter(|more| *more > 0) {
        let _ = writeln!(routes, "... and {more} more routes: ask for /localhost/nfd/rib/list");
    }
    let mut strategies = Table::new(&["PREFIX", "STRATEGY"]);
    for choice in list(answer, "strategies") {
        strategies.row([text(&choice["prefix"]), text(&choice["strategy"])]);
    }
    let mut out = format!("{routes}{}", strategies.finish());
    let _ = writeln!(
        out,
        "{} prefixes, {} Interests pending; {} satisfied, {} not",
        answer["prefixes"], answer["pending"], answer["satisfied"], answer["unsatisfied"]
    );
    out + &replicas(answer) + &workers(answer)
}

/// How often there is a FIB, if more than once.
fn replicas(answer: &Value) -> String {
    let fib = &answer["fib"];
    match fib["replicas"].as_u64() {
        Some(2..) => {
            let (replicas, memory) = (&fib["replicas"], mib(&fib["memory_bytes"]));
            format!("{replicas} FIBs, one for each node of memory, of {memory} together\n")
        }
        _ => String::new(),
    }
}

/// How several workers share the names; one has them all.
fn workers(answer: &Value) -> String {
    let workers: Vec<&Value> = list(answer, "workers").collect();
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
    for (number, worker) in workers.into_iter().enumerate() {
        table.row([
            number.to_string(),
            text(&worker["asked"]["written"]),
            text(&worker["pending"]),
            text(&worker["cache_hits"]),
            text(&worker["given"]),
            text(&worker["given_dropped"]),
            text(&worker["returned"]),
            text(&worker["returned_dropped"]),
        ]);
    }
    let mut dispatch = Table::new(&["PREFIX", "COMPONENTS HASHED"]);
    for entry in list(answer, "dispatch") {
        dispatch.row([text(&entry["prefix"]), text(&entry["components"])]);
    }
    table.finish() + &dispatch.finish()
}

fn mib(bytes: &Value) -> String {
    match bytes.as_f64() {
        Some(bytes) => format!("{:.1} MiB", bytes / f64::from(1 << 20)),
        None => "-".into(),
    }
}

/// The content store's two floors.
pub(super) fn cache(answer: &Value) -> String {
    let memory = &answer["memory"];
    let mut table = Table::new(&["FLOOR", "USED", "OF", "PACKETS", "HITS", "ERRORS", "STATE"]);
    table.row([
        "memory".into(),
        mib(&memory["used_bytes"]),
        mib(&memory["capacity_bytes"]),
        text(&memory["packets"]),
        text(&memory["hits"]),
        "-".into(),
        "good".into(),
    ]);
    for disk in list(answer, "disks") {
        let errors = ["read_errors", "write_errors", "late", "mismatches"];
        let errors: u64 = errors.iter().filter_map(|key| disk[*key].as_u64()).sum();
        table.row([
            text(&disk["file"]),
            "-".into(),
            mib(&disk["capacity_bytes"]),
            text(&disk["packets"]),
            text(&disk["hits"]),
            errors.to_string(),
            match disk["cleared"].as_str() {
                Some(why) => format!("{}; cleared, as {why}", text(&disk["health"])),
                None => text(&disk["health"]),
            },
        ]);
    }
    format!("{}{} misses\n{}", table.finish(), answer["misses"], prefetch(&answer["prefetch"]))
}

/// What was read from disks ahead; nothing if that is off and has always been.
fn prefetch(answer: &Value) -> String {
    let number = |key: &str| answer[key].as_u64().unwrap_or(0);
    let [chunks, read, used] = ["chunks", "read_ahead", "used"].map(number);
    match chunks > 1 || read > 0 {
        true => format!("batches of {chunks} chunks: {read} read ahead, {used} of them used\n"),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{cache, faces, names, workers};

    #[test]
    fn routes_that_are_left_out_are_counted() {
        let route = json!({"prefix": "/a", "face": 256, "cost": 0, "origin": "app"});
        let said = |more: u64| {
            let answer = json!({
                "routes": [route], "routes_more": more, "strategies": [], "prefixes": 3,
                "pending": 0, "satisfied": 0, "unsatisfied": 0,
            });
            names(&answer)
        };
        assert!(said(190_002).contains("\n... and 190002 more routes"), "{}", said(190_002));
        assert!(!said(0).contains("more"));
    }

    #[test]
    fn what_several_workers_dropped_and_whose_connections_ended_is_said_where_there_is_any() {
        let face = |least: u64, most: u64| {
            json!({
                "face": 1, "remote": "fd://9", "scope": "local", "persistency": "on-demand",
                "received": {"interests": 1, "data": 2, "nacks": 3},
                "sent": {"interests": 4, "data": 5, "nacks": 6},
                "dropped_least": least, "dropped": most,
            })
        };
        let row = |answer: &str| {
            let row = answer.lines().nth(1).unwrap().split_whitespace().last();
            row.unwrap().to_string()
        };
        let said = faces(&json!({"faces": [face(7, 7)], "ended_unread": 0}));
        assert_eq!((row(&said).as_str(), said.lines().count()), ("7", 2), "{said}");
        let said = faces(&json!({"faces": [face(7, 9)], "ended_unread": 3}));
        assert_eq!(row(&said), "7-9");
        assert!(said.contains("\nDROPPED at least and at most"), "{said}");
        assert!(said.ends_with("\n3 connections ended: nobody read what waited there\n"), "{said}");
    }

    #[test]
    fn a_fib_that_is_there_more_than_once_is_told_with_the_memory_of_all() {
        let said = |replicas: u32| {
            let bytes = replicas * (3 << 20);
            names(&json!({"fib": {"replicas": replicas, "memory_bytes": bytes}}))
        };
        assert!(!said(1).contains("FIB"));
        let line = "2 FIBs, one for each node of memory, of 6.0 MiB together\n";
        assert!(said(2).ends_with(line), "{}", said(2));
    }

    #[test]
    fn what_was_read_ahead_is_shown_where_it_is_on() {
        let said = |chunks: u64, read: u64| {
            let prefetch = json!({"chunks": chunks, "read_ahead": read, "used": 7});
            cache(&json!({"memory": {}, "misses": 3, "prefetch": prefetch}))
        };
        assert!(said(1, 0).ends_with("\n3 misses\n"), "{}", said(1, 0));
        let line = "\nbatches of 16 chunks: 9 read ahead, 7 of them used\n";
        assert!(said(16, 9).ends_with(line), "{}", said(16, 9));
    }

    #[test]
    fn how_workers_share_names_and_what_was_dropped_on_each_way_is_shown() {
        let worker = |given: u64, returned: u64| {
            json!({
                "asked": {"written": 1}, "pending": 2, "cache_hits": 3,
                "given": 100, "given_dropped": given,
                "returned": 200, "returned_dropped": returned,
            })
        };
        let text = workers(&json!({
            "workers": [worker(0, 0), worker(41, 57)],
            "dispatch": [{"prefix": "/", "components": 2}, {"prefix": "/web", "components": 4}],
        }));
        let line = |at: usize| text.lines().nth(at).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(line(2), ["1", "1", "2", "3", "100", "41", "200", "57"], "{text}");
        assert_eq!((line(4), line(5)), (vec!["/", "2"], vec!["/web", "4"]), "{text}");
    }
}
