//! A router's answers for people.

use std::fmt::Display;

use plexus_api::answer::router::{Class, Fib, Kind, Neighbours, NextHop, Route, Weighed};

use crate::table::{Table, or_dash, words};

/// Interfaces, and how much is in the tables.
pub(crate) fn fib(answer: &Fib) -> String {
    let mut table = Table::new(&["INTERFACE", "STATE", "VLAN", "MAC", "MTU", "ADDRESSES"]);
    for i in &answer.interfaces {
        table.row::<6>([
            &i.name,
            &if i.up { "up" } else { "down" },
            &or_dash((!i.routed_port).then_some(i.vlan)),
            &or_dash(i.mac),
            &or_dash(i.mtu),
            &words(&i.addresses),
        ]);
    }
    let mut tables = Table::new(&["TABLE", "ENTRIES", "LOOKUPS TOUCH", "BESIDE IT"]);
    for (family, of) in [("ipv4", answer.ipv4), ("ipv6", answer.ipv6)] {
        let mib = |bytes: usize| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        let (lookup, writer) = (mib(of.lookup_bytes), mib(of.writer_bytes));
        tables.row([&family as &dyn Display, &of.entries, &lookup, &writer]);
    }
    format!(
        "{}{}{} routes, {} groups of next hops, {} neighbours\n",
        table.finish(),
        tables.finish(),
        answer.routes,
        answer.groups,
        answer.neighbours
    )
}

pub(crate) fn neighbours(answer: &Neighbours) -> String {
    let mut table = Table::new(&["ADDRESS", "INTERFACE", "MAC", "STATE", "FOR", "GATEWAY"]);
    for n in &answer.neighbours {
        table.row::<6>([
            &n.address,
            &n.interface,
            &or_dash(n.mac),
            &n.state,
            &format!("{:.0} s", n.age_s),
            &if n.gateway { "yes" } else { "-" },
        ]);
    }
    table.finish()
}

/// The action on packets to an address, and every route that was weighed, the longest first.
pub(crate) fn route(answer: &Route) -> String {
    let address = answer.address;
    match answer.class {
        Class::Martian => {
            return format!("{address}: dropped before any lookup: no router forwards to it\n");
        }
        Class::LinkLocal => {
            return format!("{address}: not looked up: on its link it is for this box itself\n");
        }
        Class::Routed => {}
    }
    let mut out = match answer.routes.iter().find(|r| r.standing == "in_use") {
        None => format!("{address}: no route; its senders hear that it cannot be reached\n"),
        Some(route) => format!("{address}: by {}, {}\n", route.prefix, way(route)),
    };
    if !answer.agrees {
        out.push_str("the packet path's table says otherwise: it is being changed, or full\n");
    }
    let mut table = Table::new(&["PREFIX", "FROM", "METRIC", "LEADS", "WHY"]);
    for r in &answer.routes {
        table.row([&r.prefix as &dyn Display, &r.source, &r.metric, &way(r), &r.why]);
    }
    out.push_str(&table.finish());
    out
}

/// Where a route leads, in words.
fn way(route: &Weighed) -> String {
    match route.kind {
        Kind::Via => return route.next_hops.iter().map(next_hop).collect::<Vec<_>>().join(", "),
        Kind::Local => "to this box itself",
        Kind::Broadcast => "to all of a subnet: not forwarded",
        Kind::Blackhole => "nowhere, in silence",
        Kind::Unreachable => "nowhere: unreachable",
        Kind::Prohibited => "nowhere: prohibited",
    }
    .into()
}

fn next_hop(hop: &NextHop) -> String {
    let interface = &hop.interface;
    let share = if hop.weight > 1 { format!(" ×{}", hop.weight) } else { String::new() };
    let Some(gateway) = hop.gateway else {
        return format!("on the link of {interface}{share}");
    };
    let state = match (hop.state.as_str(), &hop.neighbour) {
        ("usable", Some(neighbour)) => neighbour.clone(),
        ("usable", None) => "not asked for yet".into(),
        (other, _) => other.replace('_', " "),
    };
    format!("{gateway} on {interface}{share} ({state})")
}
