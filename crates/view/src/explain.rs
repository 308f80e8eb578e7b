//! An explanation in words: each box with its decisions, and what would mend a drop.

use std::fmt::Write as _;

use plexus_api::answer::explain::{Explained, ExplainedBox, Leaves, Next, PairRule, PairVerdict};
use plexus_api::answer::fabric::NodeName;
use plexus_plane::DropReason;
use plexus_report::plural;
use plexus_wire::fabric::message::{Choice, Handed, Limited, Refusal, Step, Target};
use plexus_wire::fabric::{CONTROL_HOP, ROUTER_HOP};
use plexus_wire::{MacAddr, describe, unhex};

/// The packet's way, for a person.
pub fn explain(told: &Explained) -> String {
    let mut out = String::new();
    if let Some(frame) = told.boxes.first().and_then(|first| unhex(&first.frame)) {
        let _ = writeln!(out, "{}", describe(&frame));
    }
    if let Some(pair) = &told.pair {
        row(&mut out, "controller", &verdict(pair));
    }
    for (place, passed) in told.boxes.iter().enumerate() {
        // Names of boxes may come twice: copies of a frame pass several.
        let number = if told.boxes.len() > 9 { format!("{} ", place + 1) } else { String::new() };
        let port = port(passed.port, passed.port_name.as_deref());
        let head = format!("{number}{} {port}", name(&passed.node));
        for (line, text) in lines(told, passed).iter().enumerate() {
            row(&mut out, if line == 0 { &head } else { "" }, text);
        }
    }
    if told.more > 0 {
        row(&mut out, "", &format!("{} more copies were not followed", told.more));
    }
    match arrivals(told) {
        0 => {
            row(&mut out, "not delivered", &end(told));
        }
        _ if told.boxes.iter().any(|b| b.leaves.iter().any(|left| left.next == Next::Cable)) => {
            row(&mut out, "leaves", "the node: a controller knows where it arrives");
        }
        1 => row(&mut out, "delivered", "to one host"),
        many => row(&mut out, "delivered", &format!("to hosts at {many} ports")),
    }
    out
}

/// Where the texts of a row begin.
const COLUMN: usize = 15;

fn row(out: &mut String, head: &str, text: &str) {
    let _ = writeln!(out, "{head:COLUMN$}{}{text}", if head.len() < COLUMN { "" } else { " " });
}

/// At how many ports frames arrive at a host, or leave a node that knows no more.
pub fn arrivals(told: &Explained) -> usize {
    let leaves = told.boxes.iter().flat_map(|passed| &passed.leaves);
    leaves.filter(|left| matches!(left.next, Next::Host(_) | Next::Cable)).count()
}

fn name(node: &NodeName) -> String {
    match node {
        NodeName::Name(name) => name.clone(),
        NodeName::Number(number) => format!("node {number}"),
    }
}

fn port(number: u16, name: Option<&str>) -> String {
    name.map_or_else(|| format!("port {number}"), String::from)
}

/// A station, and the groups of hosts that it is in.
fn station(mac: MacAddr, groups: &[String]) -> String {
    match groups {
        [] => mac.to_string(),
        [one] => format!("{mac} (group {one})"),
        several => format!("{mac} (groups {})", several.join(", ")),
    }
}

/// The controller's word.
fn verdict(pair: &PairVerdict) -> String {
    let address = pair.address.map_or_else(|| "the address".into(), |address| address.to_string());
    let from = station(pair.from, &pair.from_groups);
    let to = match (pair.to, &pair.at) {
        (Some(mac), Some((node, port))) => {
            format!("{} at {} port {port}", station(mac, &pair.to_groups), name(node))
        }
        (Some(mac), None) => mac.to_string(),
        _ => "no host that is known".into(),
    };
    let rule = pair.rule.as_ref().map(rule).unwrap_or_default();
    match pair.refused {
        None if pair.routed && pair.to.is_none() => {
            format!("{from} sends packets for {address} to the group's router")
        }
        None if pair.routed => {
            format!("{from} sends to the group's router; {address} is {to}{rule}")
        }
        None => format!("{from} may have routes to {to}{rule}"),
        Some(Refusal::Forbidden) => {
            let rule = if rule.is_empty() { ": no rule allows it".into() } else { rule };
            format!("{from} must not talk to {to}{rule}")
        }
        Some(Refusal::UnknownTarget) => {
            format!("no host that is known has {}", pair.to.map_or(address, |to| to.to_string()))
        }
        Some(Refusal::NoPath) if pair.to == Some(pair.from) => {
            format!("{from} would send to itself")
        }
        Some(Refusal::NoPath) => format!("there is no path from {from} to {to}"),
        Some(Refusal::Scanning) => {
            format!("the port of {from} is closed for a while: it asked for too many addresses")
        }
        Some(other) => format!("{from} gets no route to {to}: {}", plexus_api::word(&other)),
    }
}

fn rule(rule: &PairRule) -> String {
    let end = |end: &Option<String>| end.clone().unwrap_or_else(|| "any".into());
    let word = if rule.allows { "allow" } else { "deny" };
    format!(", by the rule {word} {} - {}", end(&rule.from), end(&rule.to))
}

/// The decisions of a box.
fn lines(told: &Explained, passed: &ExplainedBox) -> Vec<String> {
    if let Some(why) = &passed.silent {
        return vec![format!("not explained: {why}")];
    }
    let mut lines: Vec<String> = passed.steps.iter().map(|step| of_step(step, passed)).collect();
    lines.extend(passed.leaves.iter().map(|left| leaves(told, left)));
    if passed.more > 0 {
        lines.push(format!("{} more frames leave", passed.more));
    }
    if lines.is_empty() {
        lines.push("nothing leaves".into());
    }
    lines
}

fn leaves(told: &Explained, left: &Leaves) -> String {
    let port = port(left.port, left.port_name.as_deref());
    let next = match &left.next {
        Next::Cable => String::new(),
        Next::Box(place) => match told.boxes.get(*place) {
            Some(next) => format!(" to {}", name(&next.node)),
            None => String::new(),
        },
        Next::Host(mac) if mac.is_multicast() => " to its hosts".into(),
        Next::Host(mac) => format!(" to the host {mac}"),
        Next::Strangers => ", where the controller knows no such host".into(),
        Next::Controller => " to a controller".into(),
        Next::NoCable => {
            ", where the controller knows no cable: it was just lost, or the node is wrong".into()
        }
        Next::Loop => ": the same frame was there before, a loop".into(),
        Next::NotFollowed => ", not followed any more".into(),
    };
    format!("leaves by {port}{next}")
}

fn hop(hop: u8) -> String {
    match hop {
        CONTROL_HOP => "the control plane".into(),
        ROUTER_HOP => "the router".into(),
        port => format!("port {port}"),
    }
}

/// A decision.
fn of_step(step: &Step, passed: &ExplainedBox) -> String {
    let source = unhex(&passed.frame).and_then(|f| f.get(6..12)?.first_chunk().copied());
    let source = source.map(MacAddr).unwrap_or_default();
    match step {
        Step::Vlan { vlan, tagged: true } => format!("VLAN {vlan}, by its tag"),
        Step::Vlan { vlan, tagged: false } => format!("VLAN {vlan}, that of the port"),
        Step::FromHost { admitted: true } => format!("from the host {source}, admitted here"),
        Step::FromHost { admitted: false } => {
            format!("from {source}, which is not admitted at this port")
        }
        Step::FromNode {} => "from another node".into(),
        Step::FromController {} => "from a controller".into(),
        Step::Unproved {} => "nothing is known yet of the neighbour at this port".into(),
        Step::Station { .. } => "the switch knows the destination".into(),
        Step::Unknown {} => "the switch does not know the destination: flooded in its VLAN".into(),
        Step::Flooded {} => "to a group of stations: flooded in its VLAN".into(),
        Step::Routes { count, chosen, by } => routes(*count, *chosen, *by),
        Step::NoRoutes {} => "the route memory has no route to the destination".into(),
        Step::Pushed { hops } => {
            let hops: Vec<String> = hops.iter().map(|h| hop(*h)).collect();
            format!("header pushed: {}", hops.join(", then "))
        }
        Step::Hop { hop: first, left } => {
            format!("next hop {}, {} after it", hop(*first), plural(*left, "hop"))
        }
        Step::Stripped {} => "header removed: the destination is admitted at that port".into(),
        Step::Tree { tree, ports } => {
            let ports: Vec<String> = ports.iter().map(u8::to_string).collect();
            format!("copied along tree {tree}, whose ports here are {}", ports.join(", "))
        }
        Step::ToRouter {} => "to the router's address".into(),
        Step::Lookup { address, prefix_len, target, next_hops } => {
            let prefix = prefix_len.map_or_else(String::new, |len| {
                let prefix = plexus_wire::Prefix::around(*address, len);
                prefix.map(|prefix| format!(" by {prefix}")).unwrap_or_default()
            });
            format!("route to {address}{prefix}: {}", of_target(*target, *next_hops))
        }
        Step::NextHop { mac, vlan: 0 } => format!("next hop {mac}"),
        Step::NextHop { mac, vlan } => format!("next hop {mac} in VLAN {vlan}"),
        Step::Ttl { from, to } => format!("time to live {from} becomes {to}"),
        Step::Kernel {} => {
            "the flow has a rule in the kernel, which forwards its packets in the daemon's place"
                .into()
        }
        Step::Limit { of, most } => match of {
            Limited::Broadcast => format!("at most {most} broadcasts in a second from this port"),
            Limited::Multicast => format!("at most {most} multicasts in a second from this port"),
            Limited::Unknown => {
                format!("at most {most} frames to unknown stations in a second from this port")
            }
            Limited::Stations => format!("the port takes at most {}", plural(*most, "station")),
        },
        Step::Function { mac } => format!("its class passes the function {mac}"),
        Step::Fragments { mtu } => format!("cut into fragments of at most {mtu} bytes"),
        Step::Handed { to } => handed(*to).into(),
        Step::Dropped { reason, .. } => {
            let reason = String::from_utf8_lossy(reason);
            let known = DropReason::ALL.iter().find(|known| known.name() == reason);
            // A newer node may have others. Its text is not trusted.
            let name: String = reason.chars().filter(|c| c.is_ascii_graphic()).take(32).collect();
            match known {
                Some(known) => format!("dropped, {name}: {}", known.explain().trim()),
                None => format!("dropped, {name}"),
            }
        }
    }
}

fn routes(count: u8, chosen: Option<u8>, by: Choice) -> String {
    let routes = plural(count, "route");
    let Some(chosen) = chosen else {
        return format!("the route memory has {routes}, and none can be used");
    };
    let number = u16::from(chosen) + 1;
    match by {
        Choice::Only => format!("the route memory has {routes} to the destination"),
        Choice::Flow => {
            format!("the route memory has {routes}, the flow's hash takes number {number}")
        }
        Choice::Static => {
            format!("the route memory has {routes}, the destination's port takes number {number}")
        }
        Choice::Load => {
            format!("the route memory has {routes}, the load now takes number {number}")
        }
        Choice::Hosts => {
            format!(
                "{} route for this one, the addresses' hash takes number {number}",
                plural(count, "node")
            )
        }
    }
}

fn of_target(target: Target, next_hops: u16) -> String {
    match target {
        Target::None => "none".into(),
        Target::Forward if next_hops <= 1 => "one next hop".into(),
        Target::Forward => format!("the flow's hash chooses among {next_hops} next hops"),
        Target::Connected => "a connected network, where the neighbour is not known yet".into(),
        Target::Local => "an address of the router itself".into(),
        Target::Broadcast => "all hosts of a connected network".into(),
        Target::Blackhole => "a blackhole".into(),
        Target::Unreachable => "unreachable".into(),
        Target::Prohibited => "prohibited".into(),
    }
}

fn handed(to: Handed) -> &'static str {
    match to {
        Handed::Link => "a link message, for the fabric's control plane",
        Handed::Host => "handed to the fabric's control plane, which asks the controller",
        Handed::Control => "for the fabric's control plane",
        Handed::Error => "its header goes to the control plane, which tells the sender",
        Handed::Neighbour => "for the router's control plane: ARP or neighbour discovery",
        Handed::Local => "for the router itself",
        Handed::Unresolved => "handed to the router's control plane, which asks for the next hop",
        Handed::Named => "for the forwarder of named data",
    }
}

/// Why it does not arrive, and what to do.
fn end(told: &Explained) -> String {
    let steps = || told.boxes.iter().rev().flat_map(|passed| passed.steps.iter().rev());
    let refused = told.pair.as_ref().and_then(|pair| pair.refused);
    if let Some(passed) = told.boxes.iter().find(|passed| passed.silent.is_some()) {
        return format!("as far as is known: {} does not tell", name(&passed.node));
    }
    let dropped = steps().find_map(|step| match step {
        Step::Dropped { reason, .. } => Some(String::from_utf8_lossy(reason).into_owned()),
        _ => None,
    });
    let handed = steps().find_map(|step| match step {
        Step::Handed { to } => Some(*to),
        _ => None,
    });
    let no_route = || match refused {
        Some(refused) => advice(refused),
        None if told.pair.is_none() => {
            "the control plane answers it, or drops it: the fabric floods nothing"
        }
        None => {
            "there is no route yet: the host's first ARP question or neighbour solicitation \
                 has the controller set one up"
        }
    };
    match (dropped, handed) {
        (Some(reason), _) => mend(&reason).into(),
        (_, Some(Handed::Host)) => no_route().into(),
        (_, Some(Handed::Unresolved)) => match refused {
            Some(refused) => advice(refused).into(),
            None => "the first packet has the neighbour asked, and waits meanwhile".into(),
        },
        (_, Some(Handed::Local)) => "it is for the box itself, which answers".into(),
        (_, Some(_)) => "it is for the box itself".into(),
        _ if told.boxes.is_empty() => no_route().into(),
        _ => "no frame of it reaches a host that is known".into(),
    }
}

fn advice(refused: Refusal) -> &'static str {
    match refused {
        Refusal::Forbidden => {
            "the rules keep the two hosts apart: see [[group]], allow and deny in the \
             controller's file"
        }
        Refusal::UnknownTarget => {
            "is that host up? It is known once it has sent a frame: `plexus show hosts`"
        }
        Refusal::NoPath => "a cable or node is missing between them: `plexus show topology`",
        Refusal::Scanning => "the port opens again by itself after scan_hold_ms",
        Refusal::Claimed => "another host has its address: `plexus show hosts`",
        Refusal::Reserved => "the address is the group's own",
        Refusal::TooMany | Refusal::Full => "the controller's limits are reached: see its file",
        Refusal::Silent => "the host does not answer: is it up?",
        Refusal::AskLeader => "that controller stands by: ask the one that leads",
    }
}

/// Advice that mends a drop.
fn mend(reason: &str) -> &'static str {
    match reason {
        "vlan_denied" => {
            "let the port carry the VLAN (`vlan` of its [[port]]), or send without a tag: a \
             fabric's ports have no VLANs"
        }
        "untagged" => "send with a tag, or give the trunk a native VLAN",
        "static_elsewhere" => "the source has a static_mac at another port of the node's file",
        "mac_limit" => "raise mac_limit of the port, or find out which stations are behind it",
        "same_port" => "the destination is behind the port that the frame came in by",
        "no_egress" => "no other port of the VLAN is up: look at cables and `vlan` in the file",
        "port_down" => "the cable of the output port is down: `plexus show ports`",
        "port_unknown" => "wait for the neighbour to be known: `plexus show links` says why not",
        "no_function" => "start the function that the class requires, or change the class",
        "stale_route" | "hop_to_nowhere" | "no_hop" => {
            "the route is old: the sender's node is told, and asks for another one"
        }
        "reverse_path" => {
            "the source is another network's, or another host's: correct the host's address, or \
             `reverse_path`"
        }
        "no_route" => "add a route, or a default route: `plexus show route ADDRESS`",
        "ttl_expired" => "send with a higher time to live; if it was high, look for a loop",
        "too_big" => "send shorter packets, or raise the MTU of the next link",
        "too_long" => "the device takes no frame as long: raise its MTU",
        "blackhole" | "unreachable" | "prohibited" => {
            "a route says so: `plexus show route ADDRESS`"
        }
        "martian" => "routers forward no such address: correct the host",
        "no_forwarder" => "no node that routes can be reached: `plexus show router`",
        "unknown_tree" | "no_member" => "no other host has joined the group: `plexus show groups`",
        "fabric_on_host" => "a host must not send fabric frames",
        "bad_ip_header" | "ip_checksum" | "runt" => "the frame is damaged, or not what it says",
        _ => "docs/reference.md lists the reasons for drops",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_of_advice_is_for_a_reason_that_exists() {
        let source = include_str!("explain.rs");
        let mend = source.split("fn mend(").nth(1).unwrap().split("\n}").next().unwrap();
        let arms = mend.lines().filter_map(|line| line.split_once(" =>"));
        let named = arms.flat_map(|(arm, _)| arm.split('"').skip(1).step_by(2));
        for name in named {
            assert!(DropReason::ALL.iter().any(|reason| reason.name() == name), "{name}");
        }
    }

    #[test]
    fn a_nodes_text_cannot_command_a_terminal() {
        let step = Step::Dropped { port: 1, reason: b"x\x1b[31m\n\"".to_vec() };
        let passed = ExplainedBox {
            node: NodeName::Number(7),
            port: 1,
            port_name: None,
            frame: String::new(),
            silent: None,
            steps: vec![step],
            leaves: vec![],
            more: 0,
        };
        let told = Explained { pair: None, boxes: vec![passed], more: 0 };
        let text = explain(&told);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(text.contains("node 7 port 1") && text.contains("not delivered"), "{text}");
    }
}
