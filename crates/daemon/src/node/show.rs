//! What a node says about itself, as JSON. The `show` command and the metrics read it.

use plexus_config::{PortFile, VlanMode};
use plexus_io::{Link, PortStats};
use plexus_plane::{DropReason, PortCounters};
use serde_json::{Map, Value, json};

use super::boxed::Node;
use super::named;
use super::news::Topic;

/// What can be shown.
///
/// # Errors
/// When a worker does not answer, or nothing of that name can be shown.
pub(crate) fn answer(node: &Node, what: &str) -> Result<Value, String> {
    match what {
        "ports" => ports(node),
        "macs" => macs(node),
        "drops" => drops(node),
        "node" => about(node),
        "links" => node.ask_control(Topic::Links),
        "hosts" => node.ask_control(Topic::Hosts),
        "groups" => node.ask_control(Topic::Groups),
        "source-routes" => node.ask_control(Topic::Routes),
        "fib" => node.ask_control(Topic::Fib),
        "neighbours" => node.ask_control(Topic::Neighbours),
        "faces" => named(node, named::Topic::Faces),
        "names" => named(node, named::Topic::Names),
        "cache" => named(node, named::Topic::Cache),
        other => Err(format!(
            "'{other}' cannot be shown: there are ports, macs, drops, node, links, hosts, groups, \
             source-routes, fib, neighbours, route, faces, names, cache"
        )),
    }
}

fn named(node: &Node, topic: named::Topic) -> Result<Value, String> {
    let mut answer = node.ask_named(topic)?;
    answer["node"] = json!(node.file().name);
    Ok(answer)
}

fn about(node: &Node) -> Result<Value, String> {
    let totals = node.totals()?;
    let frames: Vec<Value> =
        totals.frames.iter().map(|(free, all)| json!({"free": free, "all": all})).collect();
    Ok(json!({
        "node": node.file().name,
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": node.uptime().as_secs_f64(),
        "workers": node.file().workers,
        "frames": frames,
        "balances": totals.account.balances(),
    }))
}

fn ports(node: &Node) -> Result<Value, String> {
    let totals = node.totals()?;
    let file = node.file();
    let owners = super::ports::owners(&file);
    let hows = node.how();
    let ports: Vec<Value> = totals
        .ports
        .iter()
        .filter_map(|report| {
            let id = usize::from(report.id);
            let (port, how) = (file.ports.get(id).filter(|p| !p.is_vacant())?, hows.get(id)?);
            let (stats, counters) = (&report.stats, totals.counters.ports.get(id)?);
            Some(json!({
                "name": port.name,
                "device": port.tunnel.is_none().then_some(&port.device),
                "tunnel": port.tunnel.map(|t| json!({"local": t.local, "peer": t.peer})),
                "backend": how.backend,
                "how": how.detail,
                "worker": owners[id],
                "link": if report.link == Link::Up { "up" } else { "down" },
                "link_downs": stats.link_downs,
                "vlan": vlan(&port.settings.vlan),
                "rate_bits_per_s": port.settings.rate_bits_per_s,
                "rx_packets": stats.rx_packets,
                "rx_bytes": stats.rx_bytes,
                "rx_overflow": stats.rx_overflow,
                "rx_invalid": stats.rx_invalid,
                "rx_foreign": stats.rx_foreign,
                "tx_packets": stats.tx_packets,
                "tx_bytes": stats.tx_bytes,
                "tx_rejected": stats.tx_rejected,
                "tx_refused": stats.tx_refused,
                "queued_packets": report.queued.0,
                "queued_bytes": report.queued.1,
                "routed": counters.routed,
                "dropped": counters.dropped(),
                "ecn_marked": counters.ecn_marked,
                "learned": counters.learned,
                "moved": counters.moved,
                "table_full": counters.table_full,
            }))
        })
        .collect();
    Ok(json!({"node": file.name, "ports": ports}))
}

fn vlan(mode: &VlanMode) -> Value {
    match mode {
        VlanMode::Access(vlan) => json!({"access": vlan}),
        VlanMode::Trunk { allowed, native } => json!({"trunk": allowed, "native": native}),
    }
}

fn macs(node: &Node) -> Result<Value, String> {
    let file = node.file();
    let stations = node.stations()?;
    let macs: Vec<Value> = stations
        .iter()
        .filter_map(|(key, station, age_ns)| {
            Some(json!({
                "mac": key.mac().to_string(),
                "vlan": key.vlan(),
                "port": file.ports.get(usize::from(station.port()))?.name,
                "static": station.is_static(),
                "age_s": *age_ns as f64 / 1e9,
            }))
        })
        .collect();
    Ok(json!({"node": file.name, "capacity": file.switch.mac_table, "macs": macs}))
}

/// A count of packets that the pipeline never had, or that a device would not send.
struct Loss {
    name: &'static str,
    meaning: &'static str,
    count: fn(&PortStats) -> u64,
}

const LOSSES: [Loss; 5] = [
    Loss {
        name: "rx_overflow",
        meaning: "Lost before the node saw it: the device's queue or the pool was full.",
        count: |s| s.rx_overflow,
    },
    Loss {
        name: "rx_invalid",
        meaning: "Arrived, but longer than a frame of the pool, or damaged.",
        count: |s| s.rx_invalid,
    },
    Loss {
        name: "rx_foreign",
        meaning: "Came to a tunnel, and not from its other end.",
        count: |s| s.rx_foreign,
    },
    Loss {
        name: "tx_rejected",
        meaning: "The device can never send it.",
        count: |s| s.tx_rejected,
    },
    Loss {
        name: "tx_refused",
        meaning: "Sent through a tunnel, and the network answered that it cannot deliver it.",
        count: |s| s.tx_refused,
    },
];

fn drops(node: &Node) -> Result<Value, String> {
    let totals = node.totals()?;
    let mut all = PortCounters::default();
    totals.counters.ports.iter().for_each(|p| all.add(p));
    let file = node.file();
    let by_port: Map<String, Value> = file
        .ports
        .iter()
        .zip(&totals.counters.ports)
        .enumerate()
        .map(|(id, (port, counters))| (name_of(id, port), by_reason(counters)))
        .collect();
    let losses: Map<String, Value> = totals
        .ports
        .iter()
        .filter_map(|report| {
            let id = usize::from(report.id);
            let name = name_of(id, file.ports.get(id)?);
            let counted = LOSSES.iter().map(|l| (l.name, (l.count)(&report.stats)));
            let counted: Map<String, Value> =
                counted.filter(|(_, n)| *n > 0).map(|(l, n)| (l.to_string(), json!(n))).collect();
            Some((name.clone(), Value::Object(counted)))
        })
        .collect();
    let explained = LOSSES.iter().map(|l| (l.name.to_string(), json!(l.meaning)));
    let meaning: Map<String, Value> = DropReason::ALL
        .iter()
        .filter(|&&r| all.drops[r as usize] > 0)
        .map(|r| (r.name().to_string(), json!(r.explain().trim())))
        .chain(explained)
        .collect();
    let a = &totals.account;
    Ok(json!({
        "node": file.name,
        "account": {
            "received": a.received,
            "copied": a.copied,
            "injected": a.injected,
            "sent": a.sent,
            "rejected": a.rejected,
            "dropped": a.dropped,
            "lost": a.lost,
            "consumed": a.consumed,
            "held": a.held,
            "balances": a.balances(),
        },
        "drops": by_reason(&all),
        "ports": by_port,
        "losses": losses,
        "meaning": meaning,
        "unserved": unserved(node),
    }))
}

/// A port's name; what one has counted that a reload removed stays in the account.
fn name_of(id: usize, port: &PortFile) -> String {
    if port.is_vacant() { format!("(removed {id})") } else { port.name.clone() }
}

/// What a router does with packets to an address.
///
/// # Errors
/// When it is none, or the node does not route.
pub(crate) fn route(node: &Node, address: &str) -> Result<Value, String> {
    let address = address.parse().map_err(|_| format!("'{address}' is no IP address"))?;
    node.ask_control(Topic::Route(address))
}

/// A router's routes in use from a prefix on.
///
/// # Errors
/// When it is none, or the node does not route.
pub(crate) fn routes_from(node: &Node, first: &str) -> Result<Value, String> {
    let first = plexus_config::parse_prefix(first).map_err(|e| e.message)?;
    node.ask_control(Topic::RoutesFrom(first))
}

/// What the control plane of a fabric node did not serve, by reason: those packets were consumed.
pub(crate) fn unserved(node: &Node) -> Value {
    node.ask_control(Topic::Unserved).unwrap_or_else(|_| json!({}))
}

fn by_reason(counters: &PortCounters) -> Value {
    let counted = DropReason::ALL.iter().filter(|&&r| counters.drops[r as usize] > 0);
    counted.map(|&r| (r.name().to_string(), json!(counters.drops[r as usize]))).collect()
}
