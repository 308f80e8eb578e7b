//! `plexus show flows` of a node: the flows with most traffic, where they are, and why.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use plexus_api::answer::node::{FlowRate, Flows};
use plexus_config::NodeFile;
use plexus_io::PortId;
use plexus_io::fast::{Counts, Key, Routed};
use plexus_plane::{FastReport, FastRule, SampledFlow, WORTH_PER_S};
use plexus_wire::{FlowKey, Protocol};

use super::running::RunningNode;

/// How long a sample lasts.
const LASTS: Duration = Duration::from_secs(1);

/// Takes a sample and answers.
///
/// # Errors
/// When a worker does not answer.
pub(crate) fn answer(node: &RunningNode) -> Result<Flows, String> {
    let reports = node.fast()?;
    let changes_before = changes(&reports);
    let before = rules(reports);
    let samples = node.sample(LASTS)?;
    let reports = node.fast()?;
    let changes_after = changes(&reports);
    let ports = reports.iter().flat_map(|report| &report.ports);
    let open: BTreeMap<PortId, bool> = ports.map(|port| (port.id, port.sends)).collect();
    let after = rules(reports);
    let file = node.file();
    let is_off = node.how_fast().kind == "off";
    let seconds = samples.iter().map(|sample| sample.seconds).fold(f64::MIN_POSITIVE, f64::max);
    let others: u64 = samples.iter().map(|sample| sample.others).sum();
    let in_pipeline = samples.iter().flat_map(|sample| &sample.flows);
    let in_pipeline = in_pipeline.map(|flow| sampled(&file, flow, seconds, is_off, &open));
    let in_kernel = after.iter().filter_map(|(key, rule)| {
        let counts = before.get(key).map_or(Counts::default(), |rule| rule.counts);
        let packets = rule.counts.packets.checked_sub(counts.packets).filter(|count| *count > 0)?;
        Some(forwarded(
            &file,
            rule,
            packets,
            rule.counts.bytes.saturating_sub(counts.bytes),
            seconds,
        ))
    });
    let mut flows: Vec<FlowRate> = in_pipeline.chain(in_kernel).collect();
    flows.sort_by(|a, b| b.bits_per_s.total_cmp(&a.bits_per_s));
    let per_s = |of: usize| {
        let changes = changes_after[of].saturating_sub(changes_before[of]);
        (!is_off).then(|| changes as f64 / seconds)
    };
    Ok(Flows {
        node: file.name.clone(),
        seconds,
        flows,
        others_packets_per_s: others as f64 / seconds,
        rules_per_s: per_s(0),
        swaps_per_s: per_s(1),
    })
}

/// Rules made, and those that gave way to others.
fn changes(reports: &[FastReport]) -> [u64; 2] {
    let sum = |of: fn(&FastReport) -> u64| reports.iter().map(of).sum();
    [sum(|report| report.made), sum(|report| report.gave_way)]
}

fn rules(reports: Vec<FastReport>) -> BTreeMap<Key, FastRule> {
    reports.into_iter().flat_map(|report| report.rules).map(|rule| (rule.key, rule)).collect()
}

/// A flow of the pipeline. Rules may lead from ports that are `open`, and to those that send.
fn sampled(
    file: &NodeFile,
    flow: &SampledFlow,
    seconds: f64,
    is_off: bool,
    open: &BTreeMap<PortId, bool>,
) -> FlowRate {
    let FlowKey { src, dst, protocol, ports, .. } = flow.key;
    let end = |ip: std::net::IpAddr, port: Option<u16>| match port {
        Some(port) => SocketAddr::new(ip, port).to_string(),
        None => ip.to_string(),
    };
    let packets_per_s = flow.packets as f64 / seconds;
    let needs_queue =
        |port: u16| file.ports.get(usize::from(port)).is_some_and(|p| p.settings.needs_queue());
    let why = match flow.out_port {
        _ if is_off => "there is no fast table",
        None => "it is flooded, or for the box itself",
        Some(port) if needs_queue(port) => "its port has a rate or a deep queue",
        Some(port) if ![flow.in_port, port].iter().all(|port| open.contains_key(port)) => {
            "the table has no part in one of its ports, or it is traced"
        }
        Some(port) if !open[&port] => "its device does not send what XDP redirects",
        _ if packets_per_s < WORTH_PER_S => "it has few packets",
        _ => "it has no rule yet",
    };
    FlowRate {
        in_port: file.port_name(flow.in_port.into()).into(),
        out_port: flow.out_port.map(|port| file.port_name(port.into()).into()),
        source: end(src, ports.map(|ports| ports.0)),
        destination: end(dst, ports.map(|ports| ports.1)),
        protocol: self::protocol(protocol),
        bits_per_s: flow.bytes as f64 * 8.0 / seconds,
        packets_per_s,
        place: "pipeline".into(),
        why: why.into(),
    }
}

fn protocol(number: Protocol) -> String {
    match number {
        Protocol::TCP => "tcp".into(),
        Protocol::UDP => "udp".into(),
        Protocol::ICMPV4 | Protocol::ICMPV6 => "icmp".into(),
        Protocol(other) => other.to_string(),
    }
}

/// A flow of the fast table. The table has IP addresses of routed flows only.
fn forwarded(file: &NodeFile, rule: &FastRule, packets: u64, bytes: u64, seconds: f64) -> FlowRate {
    let (source, destination, protocol) = match rule.key {
        Key::Flow(flow) => (
            flow.source.to_string(),
            flow.destination.to_string(),
            format!("{:#06x}", flow.ethertype),
        ),
        Key::Routed(Routed { source, destination, ports: Some(ports), .. }) => (
            SocketAddr::new(source, ports.source).to_string(),
            SocketAddr::new(destination, ports.destination).to_string(),
            protocol(Protocol(ports.protocol)),
        ),
        Key::Routed(key) => (key.source.to_string(), key.destination.to_string(), "ip".into()),
        Key::Hop { .. } => ("-".into(), "-".into(), "fabric".into()),
        Key::Delivery { destination, .. } => ("-".into(), destination.to_string(), "fabric".into()),
    };
    FlowRate {
        in_port: file.port_name(rule.key.in_port().into()).into(),
        out_port: Some(file.port_name(rule.action.out_port.into()).into()),
        source,
        destination,
        protocol,
        bits_per_s: bytes as f64 * 8.0 / seconds,
        packets_per_s: packets as f64 / seconds,
        place: "kernel".into(),
        why: "it has a rule".into(),
    }
}
