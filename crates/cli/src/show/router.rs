//! A router's answers for people.

use std::io::Write;

use serde_json::{Value, json};

use super::{Table, list, text};
use crate::ask::Connection;
use crate::exit::{Failure, Outcome};

/// Interfaces, and how much is in the tables.
pub(super) fn fib(answer: &Value) -> String {
    let mut table = Table::new(&["INTERFACE", "STATE", "VLAN", "MAC", "MTU", "ADDRESSES"]);
    for i in list(answer, "interfaces") {
        let addresses: Vec<String> = list(i, "addresses").map(text).collect();
        let or = |v: &Value| if v.is_null() { "-".into() } else { text(v) };
        let vlan = if i["routed_port"] == true { "-".into() } else { text(&i["vlan"]) };
        table.row([
            text(&i["name"]),
            if i["up"] == true { "up".into() } else { "down".into() },
            vlan,
            or(&i["mac"]),
            or(&i["mtu"]),
            addresses.join(" "),
        ]);
    }
    let mut tables = Table::new(&["TABLE", "ENTRIES", "LOOKUPS TOUCH", "BESIDE IT"]);
    for family in ["ipv4", "ipv6"] {
        let mib = |key: &str| {
            let bytes = answer[family][key].as_f64().unwrap_or(0.0);
            format!("{:.1} MiB", bytes / f64::from(1 << 20))
        };
        let entries = text(&answer[family]["entries"]);
        tables.row([family.to_string(), entries, mib("lookup_bytes"), mib("writer_bytes")]);
    }
    format!(
        "{}{}{} routes, {} groups of next hops, {} neighbours\n",
        table.finish(),
        tables.finish(),
        answer["routes"],
        answer["groups"],
        answer["neighbours"]
    )
}

pub(super) fn neighbours(answer: &Value) -> String {
    let mut table = Table::new(&["ADDRESS", "INTERFACE", "MAC", "STATE", "FOR", "GATEWAY"]);
    for n in list(answer, "neighbours") {
        table.row([
            text(&n["address"]),
            text(&n["interface"]),
            if n["mac"].is_null() { "-".into() } else { text(&n["mac"]) },
            text(&n["state"]),
            format!("{:.0} s", n["age_s"].as_f64().unwrap_or(0.0)),
            if n["gateway"] == true { "yes".into() } else { "-".into() },
        ]);
    }
    table.finish()
}

/// What is done with packets to an address, and every route that was weighed, the longest first.
pub(super) fn route(answer: &Value) -> String {
    let address = text(&answer["address"]);
    let used = list(answer, "routes").find(|r| r["standing"] == "in_use");
    let mut out = match used {
        None => format!("{address}: no route; its senders hear that it cannot be reached\n"),
        Some(route) => format!("{address}: by {}, {}\n", text(&route["prefix"]), way(route)),
    };
    if answer["agrees"] == false {
        out.push_str("the packet path's table says otherwise: it is being changed, or full\n");
    }
    let mut table = Table::new(&["PREFIX", "FROM", "METRIC", "LEADS", "WHY"]);
    for r in list(answer, "routes") {
        table.row([
            text(&r["prefix"]),
            text(&r["source"]),
            text(&r["metric"]),
            way(r),
            text(&r["why"]),
        ]);
    }
    out.push_str(&table.finish());
    out
}

/// Where a route leads, in words.
fn way(route: &Value) -> String {
    let kind = match route["kind"].as_str() {
        Some("via") => {
            let hops: Vec<String> = list(route, "next_hops").map(next_hop).collect();
            return hops.join(", ");
        }
        Some("local") => "to this box itself",
        Some("broadcast") => "to all of a subnet: not forwarded",
        Some("blackhole") => "nowhere, without a word",
        Some("unreachable") => "nowhere: unreachable",
        _ => "nowhere: prohibited",
    };
    kind.to_string()
}

fn next_hop(hop: &Value) -> String {
    let interface = text(&hop["interface"]);
    let share = match hop["weight"].as_u64() {
        None | Some(0 | 1) => String::new(),
        Some(weight) => format!(" ×{weight}"),
    };
    if hop["gateway"].is_null() {
        return format!("on the link of {interface}{share}");
    }
    let gateway = text(&hop["gateway"]);
    let state = match (hop["state"].as_str(), hop["neighbour"].as_str()) {
        (Some("usable"), Some(neighbour)) => neighbour.to_string(),
        (Some("usable"), None) | (None, _) => "not asked for yet".into(),
        (Some(other), _) => other.replace('_', " "),
    };
    format!("{gateway} on {interface}{share} ({state})")
}

/// Prints all routes in use, a part at a time: a table of millions is in no one answer. Fails if
/// the packet path has others than the router's routes say.
pub(super) fn routes(connection: &mut Connection, json: bool) -> Outcome {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut first = Some("0.0.0.0/0".to_string());
    let mut disagree = Vec::new();
    while let Some(from) = first {
        let answer = connection.ask(&json!({"routes_from": from}))?;
        disagree.extend(list(&answer, "disagree").map(text));
        first = answer["next"].as_str().map(str::to_string);
        let written = match json {
            true => writeln!(out, "{answer}"),
            false => list(&answer, "routes").try_for_each(|line| writeln!(out, "{}", text(line))),
        };
        // A reader that has had enough (`| head`) ends it.
        if written.is_err() {
            return Ok(());
        }
    }
    let _ = out.flush();
    match disagree.first() {
        None => Ok(()),
        Some(one) => Err(Failure::No(format!(
            "the packet path has something else at {} prefixes, {one} among them",
            disagree.len()
        ))),
    }
}
