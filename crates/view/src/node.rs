//! Answers of a node for people: ports, stations, drops, the fast table and what it holds.

use std::fmt::Display;
use std::net::SocketAddr;

use plexus_api::answer::node::{
    Buffers, Drops, FastPort, FastRoute, FastTable, Flows, Macs, Ports, State, Suspects, Vlan,
};
use plexus_report::rate;

use crate::FLOWS_SHOWN;
use crate::table::{Table, or_dash};

pub(crate) fn about(node: &State) -> String {
    let mut table = Table::new(&["WORKER", "FREE FRAMES", "OF"]);
    for (worker, frames) in node.frames.iter().enumerate() {
        table.row([&worker, &frames.free, &frames.all]);
    }
    let balances = if node.balances { "balances" } else { "does not balance" };
    let (name, version, up) = (&node.node, &node.version, node.uptime_s);
    format!("{name}: plexus {version}, up {up:.0} s, its account {balances}\n{}", table.finish())
}

pub(crate) fn fast_table(answer: &FastTable) -> String {
    let share = |fast: u64, all: u64| match all {
        0 => "-".into(),
        all => format!("{:.1} %", 100.0 * fast as f64 / all as f64),
    };
    let mut ports = Table::new(&["PORT", "FORWARDS", "RX PACKETS", "BY THE TABLE", "SHARE"]);
    for port in &answer.ports {
        let forwards = match (port.forwards, port.sends, port.takes_owed) {
            (true, true, Some(false)) => "but for flows that enter the fabric here",
            (true, true, _) => "yes",
            (true, false, _) => "in only",
            (false, ..) => "no",
        };
        let share = share(port.fast_packets, port.rx_packets);
        ports.row([&port.name, &forwards, &port.rx_packets, &port.fast_packets, &share]);
    }
    let sum = |of: fn(&FastPort) -> u64| answer.ports.iter().map(of).sum::<u64>();
    let (fast, all) = (sum(|port| port.fast_packets), sum(|port| port.rx_packets));
    ports.row([&"all", &"", &all, &fast, &share(fast, all)]);
    let head = ["FROM", "SOURCE", "DESTINATION", "TYPE", "TO", "STATE", "PACKETS", "BYTES"];
    let mut flows = Table::new(&head);
    for flow in answer.flows.iter().take(FLOWS_SHOWN) {
        let (source, destination) = match &flow.route {
            Some(FastRoute { source, destination, ports: Some((from, to)), .. }) => (
                SocketAddr::new(*source, *from).to_string(),
                SocketAddr::new(*destination, *to).to_string(),
            ),
            Some(route) => (route.source.to_string(), route.destination.to_string()),
            None => (flow.source.to_string(), flow.destination.to_string()),
        };
        let mut ethertype = format!("{:#06x}", flow.ethertype);
        if let Some(vlan) = flow.vlan {
            ethertype += &format!(" VLAN {vlan}");
        }
        if flow.route.as_ref().is_some_and(|route| route.from_node) {
            ethertype += " from a node";
        }
        let state = if flow.forwards { "forwards" } else { "waits" };
        flows.row([
            &flow.in_port,
            &source,
            &destination,
            &ethertype,
            &flow.out_port,
            &state,
            &flow.packets,
            &flow.bytes,
        ]);
    }
    let FastTable { node, kind, why, capacity, made, gave_way, .. } = answer;
    let count = answer.flows.len();
    let rules = count + answer.hops.len();
    let mut text = format!("{node}: fast table {kind} ({why}), {rules} of {capacity} rules\n");
    if *made > 0 {
        text += &format!("rules made: {made}; gave way to larger flows: {gave_way}\n");
    }
    text += &ports.finish();
    if count > 0 {
        text += &format!("\n{}", flows.finish());
    }
    if !answer.hops.is_empty() {
        let mut hops = Table::new(&["FABRIC PORT", "TO", "STATION", "STATE", "PACKETS", "BYTES"]);
        for hop in &answer.hops {
            let state = if hop.forwards { "forwards" } else { "waits" };
            let mut station = hop.station.map_or("-".into(), |station| station.to_string());
            if hop.routed {
                station += ", routed";
            }
            hops.row([&hop.in_port, &hop.out_port, &station, &state, &hop.packets, &hop.bytes]);
        }
        text += &format!("\n{}", hops.finish());
    }
    if count > FLOWS_SHOWN {
        text += &format!("{} more: --json shows them\n", count - FLOWS_SHOWN);
    }
    text
}

pub(crate) fn flows(answer: &Flows, top: usize) -> String {
    let head =
        ["FROM", "TO", "SOURCE", "DESTINATION", "PROTOCOL", "BITS/S", "PACKETS/S", "IN", "WHY"];
    let mut table = Table::new(&head);
    for flow in answer.flows.iter().take(top) {
        let out = flow.out_port.as_deref().unwrap_or("-");
        table.row([
            &flow.in_port,
            &out,
            &flow.source,
            &flow.destination,
            &flow.protocol,
            &rate(flow.bits_per_s),
            &format!("{:.0}", flow.packets_per_s),
            &flow.place,
            &flow.why,
        ]);
    }
    let Flows { node, seconds, flows, others_packets_per_s, rules_per_s, swaps_per_s } = answer;
    let mut text = format!(
        "{node}: {} flows in {seconds:.1} s; {others_packets_per_s:.0} other packets/s\n",
        flows.len()
    );
    if let (Some(rules), Some(swaps)) = (rules_per_s, swaps_per_s) {
        text += &format!("fast table: {rules:.0} rules/s, {swaps:.0} swaps/s\n");
    }
    text += &table.finish();
    text
}

pub(crate) fn buffers(answer: &Buffers) -> String {
    let mut table = Table::new(&[
        "PORT",
        "OWN QUEUE",
        "OF LONG FLOWS",
        "REDIRECTING",
        "DEEP",
        "DEEP BYTES",
        "MAX BYTES",
        "SHAPED",
        "DROPS AVOIDED",
        "MEAN DELAY",
        "MAX DELAY",
    ]);
    for port in &answer.ports {
        let time = |us: f64| format!("{:.2} ms", us / 1e3);
        let redirecting = if port.redirects { "yes" } else { "no" };
        table.row([
            &port.name,
            &port.own_packets,
            &port.long_packets,
            &redirecting,
            &port.deep_packets,
            &port.deep_bytes,
            &port.deep_bytes_max,
            &port.shaped_packets,
            &port.drops_avoided,
            &time(port.delay_mean_us),
            &time(port.delay_max_us),
        ]);
    }
    let Buffers { node, budget, used, long_flows, .. } = answer;
    let flows = if *long_flows == 1 { "long flow bypasses" } else { "long flows bypass" };
    format!(
        "{node}: {used} of {budget} bytes in the deep buffer, {long_flows} {flows} it\n{}",
        table.finish()
    )
}

pub(crate) fn suspects(answer: &Suspects) -> String {
    let Suspects { node, treatment, suspects, found, .. } = answer;
    let mut text = format!("{node}: suspects = \"{treatment}\"\n");
    let mut table = Table::new(&["FROM", "ADDRESS", "TO", "SINCE", "BYTES IN 3 s", "BURSTS"]);
    for suspect in suspects {
        let (from, since) = (&suspect.from, format!("{:.0} s", suspect.since_s));
        let row: [&dyn Display; 6] =
            [&from.port, &from.address, &suspect.to, &since, &suspect.bytes, &suspect.bursts];
        table.row(row);
    }
    match suspects.len() {
        0 => text += "no suspects now\n",
        _ => text += &table.finish(),
    }
    if *found > 0 {
        text += &format!("{found} since the start; --json has the last ones\n");
    }
    text
}

pub(crate) fn ports(answer: &Ports) -> String {
    let mut table = Table::new(&[
        "PORT",
        "LINK",
        "BACK-END",
        "VLAN",
        "RATE",
        "RX PACKETS",
        "RX BYTES",
        "TX PACKETS",
        "TX BYTES",
        "QUEUED",
        "DROPPED",
        "LOST",
    ]);
    for p in &answer.ports {
        table.row::<12>([
            &p.name,
            &p.link.name(),
            &p.backend,
            &vlan(&p.vlan),
            &or_dash(p.rate_bits_per_s.map(plexus_config::units::format_rate)),
            &p.rx_packets,
            &p.rx_bytes,
            &p.tx_packets,
            &p.tx_bytes,
            &p.queued_packets,
            &p.dropped,
            &p.lost(),
        ]);
    }
    table.finish()
}

fn vlan(vlan: &Vlan) -> String {
    let (trunk, native) = match vlan {
        Vlan::Access { access } => return access.to_string(),
        Vlan::Trunk { trunk, native } => (trunk, native),
    };
    let range = |(a, b): &(u16, u16)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    let native = native.map(|native| format!("{native} untagged"));
    trunk.iter().map(range).chain(native).collect::<Vec<_>>().join(",")
}

pub(crate) fn macs(answer: &Macs) -> String {
    let mut table = Table::new(&["MAC", "VLAN", "PORT", "AGE"]);
    for m in &answer.macs {
        let age = if m.is_static { "static".into() } else { format!("{:.0} s", m.age_s) };
        table.row([&m.mac as &dyn Display, &m.vlan, &m.port, &age]);
    }
    let (count, capacity) = (answer.macs.len(), answer.capacity);
    format!("{}{count} of at most {capacity} stations\n", table.finish())
}

pub(crate) fn drops(answer: &Drops) -> String {
    let a = &answer.account;
    let sign = if a.balances { "=" } else { "is not" };
    // Only a node with a control plane injects and consumes; few lose packets on arrival.
    let extra = |count: u64, what: &str| match count {
        0 => String::new(),
        _ => format!(" + {count} {what}"),
    };
    let mut out = format!(
        "{} received + {} copied{} {sign} {} sent + {} rejected + {} dropped{}{} + {} held\n",
        a.received,
        a.copied,
        extra(a.injected, "injected"),
        a.sent,
        a.rejected,
        a.dropped,
        extra(a.consumed, "consumed"),
        extra(a.lost, "lost"),
        a.held
    );
    let mut table = Table::new(&["PORT", "REASON", "PACKETS", "MEANING"]);
    for (port, reasons) in answer.ports.iter().chain(&answer.losses) {
        for (reason, count) in reasons {
            let meaning = answer.meaning.get(reason).map_or("", String::as_str);
            table.row([port as &dyn Display, reason, count, &meaning]);
        }
    }
    if !table.is_empty() {
        out.push_str(&table.finish());
    }
    for (reason, count) in &answer.unserved {
        out.push_str(&format!("control plane: {count} {reason}\n"));
    }
    out
}
