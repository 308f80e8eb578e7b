//! Answers of a fabric's nodes and of its controller for people.

use std::fmt::Display;

use plexus_api::answer::fabric::{
    Action, ControllerRole, Controllers, Flows, GroupRoute, GroupRouter, Groups, Hosts, Joined,
    Leases, Links, RouterCopy, SourceRoutes, Stations, Topology, Unserved,
};
use plexus_api::word;
use plexus_io::clock::unix_ms;
use plexus_wire::MacAddr;
use plexus_wire::fabric::message::PortRole;

use crate::table::{Table, or_dash, words};

/// The role of each port, and its neighbour.
pub(crate) fn links(answer: &Links) -> String {
    let head = ["PORT", "HOP", "ROLE", "NEIGHBOUR", "ITS HOP", "BY", "MTU", "MBIT/S"];
    let mut table = Table::new(&head);
    let mut notes = String::new();
    for p in &answer.ports {
        let its_hop = p.neighbour.as_ref().map(|_| p.peer_port);
        table.row::<8>([
            &p.port,
            &p.number,
            &word(&p.role),
            &or_dash(p.neighbour.as_ref()),
            &or_dash(its_hop),
            &or_dash(p.encapsulation.as_ref()),
            &p.mtu,
            &p.rate_mbit_per_s,
        ]);
        if p.role == PortRole::TooSmall {
            let there = p.neighbour.as_deref().unwrap_or("the other end");
            let there = p.peer_mtu.map(|mtu| (there, mtu));
            notes += &too_small(&p.port, p.mtu, there, p.device.as_deref(), answer.mtu_min);
        }
        if let Some(reason) = &p.reason {
            notes += &format!("{} is {}: {reason}\n", p.port, word(&p.role));
        }
    }
    let way = match &answer.controller.path {
        Some(path) => {
            format!("controller by {} (epoch {})\n", hops(path), answer.controller.epoch)
        }
        None => "no way to a controller: flows go on, nothing new is learned\n".into(),
    };
    format!("{}{notes}{way}", table.finish())
}

/// Why nothing passes at a port whose role is `too_small`, and what to do.
fn too_small(
    at: &str,
    own: u16,
    there: Option<(&str, u16)>,
    device: Option<&str>,
    needed: u16,
) -> String {
    let there = there.map(|(at, mtu)| format!(", at {at} {mtu}")).unwrap_or_default();
    let command = device.filter(|_| own < needed);
    let command = command.map(|device| format!(" (`ip link set dev {device} mtu {needed}`)"));
    let command = command.unwrap_or_default();
    format!(
        "{at}: a fabric link needs an MTU of {needed} bytes at both ends; here it is \
         {own}{there}{command}\n"
    )
}

/// A path as people read it: hops with points between, `ctl` for a control plane.
fn hops(path: &[u8]) -> String {
    let hop = |h: &u8| if *h == 255 { "ctl".to_string() } else { h.to_string() };
    path.iter().map(hop).collect::<Vec<_>>().join(".")
}

/// The host that uses a route.
fn any(host: Option<MacAddr>) -> String {
    host.map_or_else(|| "any".into(), |mac| mac.to_string())
}

fn paths(paths: &[Vec<u8>]) -> String {
    words(paths.iter().map(|path| hops(path)))
}

/// Hosts of a node.
pub(crate) fn stations(answer: &Stations) -> String {
    let mut table = Table::new(&["MAC", "PORT", "ADDRESSES"]);
    for h in &answer.hosts {
        table.row([&h.mac as &dyn Display, &h.port, &words(&h.addresses)]);
    }
    table.finish()
}

/// Hosts of the whole fabric.
pub(crate) fn hosts(answer: &Hosts) -> String {
    let mut table = Table::new(&["MAC", "NODE", "PORT", "ADDRESSES"]);
    for h in &answer.hosts {
        table.row([&h.mac as &dyn Display, &h.node, &h.port, &words(&h.addresses)]);
    }
    table.finish()
}

/// A node's copy of the group's forwarding table.
pub(crate) fn router_copy(answer: &RouterCopy) -> String {
    let here = match answer.routes_here {
        true => "this node routes",
        false => "this node does not route: it has not had a complete table yet",
    };
    let gone = if answer.has_controller { "" } else { "; the controller is not reached" };
    format!("version {} of the group's routes: {here}{gone}\n", answer.version)
}

/// The group's forwarding table, and each node's copy.
pub(crate) fn group_router(answer: &GroupRouter) -> String {
    let head =
        ["NODE", "STATE", "VERSION", "LAG", "ROUTES", "FOR OTHERS", "PACKETS/S", "SHARE", "BUSY"];
    let mut nodes = Table::new(&head);
    let all: u64 = answer.nodes.iter().filter_map(|n| n.routed_per_s).sum();
    for n in &answer.nodes {
        let state = if n.up { "up" } else { "down" };
        let forwards = n.forwards.map(|is_ready| match (is_ready, n.places_unused) {
            (true, 0) => "routes".to_string(),
            (true, unused) => format!("routes, {unused} places less"),
            (false, _) => "waits".to_string(),
        });
        let percent = |part: u64, of: u64| format!("{:.0} %", part as f64 / of as f64 * 100.0);
        let share = n.routed_per_s.filter(|_| all > 0).map(|routed| percent(routed, all));
        let busy = n.busy_permille.map(|busy| percent(busy.into(), 1000));
        nodes.row([
            &n.name as &dyn Display,
            &state,
            &or_dash(n.version),
            &or_dash(n.lag),
            &or_dash(n.routes),
            &or_dash(forwards),
            &or_dash(n.routed_per_s),
            &or_dash(share),
            &or_dash(busy),
        ]);
    }
    let mut devices = Table::new(&["DEVICE", "NODE", "PORT"]);
    for d in &answer.devices {
        let (node, port) = d.at.as_ref().map(|(node, port)| (node, port)).unzip();
        devices.row([&d.name as &dyn Display, &or_dash(node), &or_dash(port)]);
    }
    let devices = if answer.devices.is_empty() { String::new() } else { devices.finish() };
    let mut classes = Table::new(&["CLASS", "BY", "NODE", "PORT"]);
    for (c, f) in answer.classes.iter().flat_map(|c| c.functions.iter().map(move |f| (c, f))) {
        let (node, port) = f.at.as_ref().map(|(node, port)| (node, port)).unzip();
        classes.row([&c.name as &dyn Display, &f.address, &or_dash(node), &or_dash(port)]);
    }
    let classes = if answer.classes.is_empty() { String::new() } else { classes.finish() };
    let full = match answer.full {
        true => format!("{} routes are the most: further ones are refused\n", answer.routes_max),
        false => String::new(),
    };
    format!(
        "{}{devices}{classes}version {}, {} routes to other networks\n{full}",
        nodes.finish(),
        answer.version,
        answer.routes
    )
}

/// What the group's router does with packets to an address, and the boxes that they pass.
pub(crate) fn route(answer: &GroupRoute) -> String {
    let action = match answer.action {
        Action::NoRoute => "no route; its senders hear that it cannot be reached",
        Action::Martian => "dropped before any lookup: no router forwards to it",
        Action::Own => "to the group itself",
        Action::Broadcast => "to all of a subnet: not forwarded",
        Action::Deliver => "to the station that has it",
        Action::Forward => "to hosts that lead there",
        Action::Blackhole => "nowhere, in silence",
        Action::Unreachable => "nowhere: unreachable",
        Action::Prohibited => "nowhere: prohibited",
    };
    let by = answer.prefix.as_ref().map_or(String::new(), |prefix| format!("by {prefix}, "));
    let mut out = format!("{}: {by}{action}\n", answer.address);
    for n in &answer.neighbours {
        let share = if n.weight > 1 { format!(" ×{}", n.weight) } else { String::new() };
        let place = match &n.station {
            Some(s) => format!("{} at port {} of {}", s.mac, s.port, s.node),
            None => "not found yet: nobody has sent there".into(),
        };
        out.push_str(&format!("{}{share}: {place}; packets of {} bytes\n", n.address, n.mtu));
        let mut paths = Table::new(&["FROM", "BOX: IN > OUT"]);
        for path in &n.paths {
            let boxes =
                path.boxes.iter().map(|b| format!("{}: {} > {}", b.node, b.in_port, b.out_port));
            paths.row([&or_dash(path.from) as &dyn Display, &boxes.collect::<Vec<_>>().join(", ")]);
        }
        if !paths.is_empty() {
            out.push_str(&paths.finish());
        }
        if n.more > 0 {
            out.push_str(&format!("and {} more\n", n.more));
        }
    }
    if !answer.behind.is_empty() {
        let nodes = words(&answer.behind);
        out.push_str(&format!("of another version, and so perhaps otherwise: {nodes}\n"));
    }
    out
}

/// Groups that hosts of a node have joined, and its trees.
pub(crate) fn joined(answer: &Joined) -> String {
    let mut joined = Table::new(&["MAC", "PORT", "HAS JOINED"]);
    for j in &answer.joined {
        joined.row([&j.mac as &dyn Display, &j.port, &words(&j.groups)]);
    }
    let mut trees = Table::new(&["TREE", "PORTS"]);
    for t in &answer.trees {
        trees.row([&t.tree as &dyn Display, &t.ports.join(" ")]);
    }
    format!("{}{}", joined.finish(), trees.finish())
}

/// The multicast groups of the whole fabric.
pub(crate) fn groups(answer: &Groups) -> String {
    let mut table = Table::new(&["GROUP", "ADDRESSES", "OF", "TREE", "FROM", "TO", "NODES"]);
    let or = |words: String| if words.is_empty() { "-".to_string() } else { words };
    for g in &answer.groups {
        let nodes = g.nodes.iter().map(|n| {
            let ports: Vec<String> = n.ports.iter().map(u8::to_string).collect();
            format!("{}:{}", n.name, ports.join(","))
        });
        table.row::<7>([
            &g.group,
            &or(words(&g.addresses)),
            &or(words(&g.of)),
            &or_dash(g.tree),
            &format!("{} hosts", g.senders.len()),
            &format!("{} ports", g.listeners),
            &or(words(nodes)),
        ]);
    }
    table.finish()
}

/// Addresses that are leased.
pub(crate) fn leases(answer: &Leases) -> String {
    let now = unix_ms() / 1000;
    let mut table = Table::new(&["ADDRESS", "MAC", "LEFT"]);
    for lease in &answer.leases {
        let left = match lease.until_unix_s.saturating_sub(now) {
            0 => "expired".to_string(),
            left => format!("{left} s"),
        };
        table.row([&lease.address as &dyn Display, &lease.mac, &left]);
    }
    table.finish()
}

/// The controllers of a group.
pub(crate) fn controllers(answer: &Controllers) -> String {
    let Controllers { controller, role, leader, epoch, leader_since_s, .. } = answer;
    let role = match role {
        ControllerRole::Standby => "stands by",
        ControllerRole::Campaigns => "has asked for its turn",
        ControllerRole::Leads => "leads",
        ControllerRole::Provisional => "leads provisionally: it tells routes, and promises nothing",
        ControllerRole::InDoubt => "leads, but its lease may have ended: it promises nothing",
    };
    let mut text = format!("{controller} {role}\n");
    text += &match (leader, epoch) {
        (Some(leader), Some(epoch)) => {
            format!("leader {leader} since {leader_since_s:.1} s, epoch {epoch}\n")
        }
        _ => format!("no leader since {leader_since_s:.1} s\n"),
    };
    let state = answer.trouble.as_deref().unwrap_or("works");
    text += &format!("store {}: {state}\n", answer.store);
    if let Some(left) = answer.lease_left_s {
        text += &format!("own lease holds for {left:.1} s more\n");
    }
    if answer.controllers.is_empty() {
        return text;
    }
    let mut table = Table::new(&["CONTROLLER", "CABLE", "NODES", "REPORTED"]);
    for c in &answer.controllers {
        let cable = if c.attached { "up" } else { "down" };
        let reported = format!("{:.1} s ago", c.reported_s);
        table.row::<4>([&c.name, &cable, &c.nodes, &reported]);
    }
    text + &table.finish()
}

/// A node's route memory.
pub(crate) fn source_routes(answer: &SourceRoutes) -> String {
    let mut table = Table::new(&["PORT", "FROM", "TO", "PATHS"]);
    for r in &answer.routes {
        table.row([&r.port as &dyn Display, &any(r.source), &r.destination, &paths(&r.paths)]);
    }
    table.finish()
}

/// The nodes of a fabric and their ports.
pub(crate) fn topology(answer: &Topology) -> String {
    let mut table = Table::new(&["NODE", "PORT", "ROLE", "TO", "ITS PORT", "MBIT/S"]);
    let mut small = String::new();
    for node in &answer.nodes {
        for p in &node.ports {
            if p.role == PortRole::TooSmall {
                let at = format!("{} port {}", node.name, p.port);
                small += &too_small(&at, p.mtu, None, None, answer.mtu_min);
            }
            let its_port = p.peer.as_ref().map(|_| p.peer_port);
            table.row::<6>([
                &node.name,
                &p.port,
                &word(&p.role),
                &or_dash(p.peer.as_ref()),
                &or_dash(its_port),
                &p.rate_mbit_per_s,
            ]);
        }
    }
    let drained = answer.drained.iter().map(|drained| match drained.flows_through {
        0 => format!("{} is drained: no route leads through it\n", drained.node),
        flows => format!("{} is drained: {flows} flows lead through it\n", drained.node),
    });
    table.finish() + &small + &drained.collect::<String>()
}

/// The routes that a controller has handed out.
pub(crate) fn flows(answer: &Flows) -> String {
    let mut table = Table::new(&["FROM", "TO", "NODE", "PATHS"]);
    for f in &answer.flows {
        table.row([&any(f.from) as &dyn Display, &f.to, &f.node, &paths(&f.paths)]);
    }
    table.finish()
}

/// Messages that a controller did not act on. It forwards nothing and has no account.
pub(crate) fn unserved(answer: &Unserved) -> String {
    let mut table = Table::new(&["REASON", "COUNT"]);
    for (reason, count) in &answer.drops {
        table.row([reason as &dyn Display, count]);
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn topology_of(port: &Value) -> String {
        let nodes = json!([{"name": "n1", "number": 1, "up": true, "ports": [port]}]);
        let answer = json!({"epoch": 1, "nodes": nodes, "links": [], "mtu_min": 1624});
        topology(&serde_json::from_value(answer).unwrap())
    }

    #[test]
    fn a_neighbour_without_a_name_is_no_bare_number() {
        let port = |peer: Value| {
            json!({"port": 4, "role": "fabric", "mtu": 1624, "peer": peer, "peer_port": 2,
                   "rate_mbit_per_s": 0})
        };
        let cells = |text: &str| {
            let cells = text.lines().nth(1).unwrap().split("  ").map(str::trim);
            cells.map(String::from).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
        };
        let known = cells(&topology_of(&port("n2".into())));
        assert_eq!(known, ["n1", "4", "fabric", "n2", "2", "0"]);
        let unknown = cells(&topology_of(&port(7.into())));
        assert_eq!(unknown, ["n1", "4", "fabric", "node 7, not heard", "2", "0"]);
        let none = cells(&topology_of(&port(Value::Null)));
        assert_eq!(none, ["n1", "4", "fabric", "-", "-", "0"]);
    }

    fn links_of(role: &str, mtu: u16, peer_mtu: Option<u16>, reason: Option<&str>) -> String {
        let port = json!({
            "port": "p1", "number": 0, "role": role, "neighbour": peer_mtu.map(|_| "n2"),
            "mac": "02:00:00:00:00:01", "mtu": mtu, "peer_mtu": peer_mtu, "peer_port": 1,
            "rate_mbit_per_s": 0, "encapsulation": null, "device": "eth1", "reason": reason,
        });
        let controller = json!({"path": null, "epoch": 0});
        let answer = json!({
            "controller": controller, "lanes": "flow", "ports": [port], "mtu_min": 1624,
        });
        links(&serde_json::from_value(answer).unwrap())
    }

    #[test]
    fn a_link_that_is_too_small_says_what_it_has_and_what_to_do() {
        let line = |mtu: u16, peer_mtu: u16| {
            links_of("too_small", mtu, Some(peer_mtu), None).lines().nth(2).unwrap().to_string()
        };
        let needs = "p1: a fabric link needs an MTU of 1624 bytes at both ends; here it is";
        let command = "(`ip link set dev eth1 mtu 1624`)";
        assert_eq!(line(1500, 1600), format!("{needs} 1500, at n2 1600 {command}"));
        assert_eq!(line(1624, 1500), format!("{needs} 1624, at n2 1500"));
        let end = json!({"port": 4, "role": "too_small", "mtu": 1500, "peer": "n2", "peer_port": 2,
                         "rate_mbit_per_s": 0});
        let shown = topology_of(&end);
        assert!(shown.contains("n1 port 4: a fabric link needs an MTU of 1624"), "{shown}");
    }

    #[test]
    fn links_say_why_a_port_is_what_it_is() {
        let shown = links_of("host", 1500, None, Some("the neighbour is bad"));
        assert!(shown.contains("\np1 is host: the neighbour is bad\n"), "{shown}");
    }
}
