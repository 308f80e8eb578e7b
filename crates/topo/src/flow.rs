//! Reads a topology file's `[[traffic]]` and its assertions.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use plexus_config::document::{At, Section, within};
use plexus_config::error::{Span, quote};
use plexus_config::name::check_name;
use plexus_config::port::read_rate;
use plexus_config::units::{parse_duration, parse_size};

use crate::assertion::{Assertion, Names};
use crate::catalogue::Catalogue;
use crate::dialogue::Dialogue;
use crate::generate::Grid;
use crate::model::{Arrivals, Device, Expect, Extent, Flow, Proto, Target, Topology};
use crate::pattern::PatternReader;
use crate::reach::Reach;
use crate::site::Site;

/// UDP payload of a full Ethernet frame less what IPv6 takes more than IPv4.
const UDP_SIZE_USUAL: u16 = 1_452;
/// UDP payloads carry a sequence number and a time stamp.
const UDP_SIZE: std::ops::RangeInclusive<u64> = 18..=65_507;
/// Content of a Data that goes with name and signature into 8,800 bytes, which any forwarder takes.
const CONTENT_SIZE: std::ops::RangeInclusive<u64> = 1..=8_000;
const CONTENT_SIZE_USUAL: u16 = 1_024;
/// As ping(8) has it.
const ICMP_SIZE_USUAL: u16 = 56;
const ICMP_COUNT_USUAL: u32 = 5;
/// Stands where there is no address, or none is clear.
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);
/// Letters of a congestion control's name (`TCP_CA_NAME_MAX` less its final zero).
const CONGESTION_NAME_MAX: usize = 15;
/// Flows, those of patterns included.
pub(crate) const FLOWS_MAX: usize = 100_000;
/// Assertions: each may name any flow, and a file must not take hours to read.
const ASSERTIONS_MAX: usize = 10_000;
/// What they measure, all together: one with a `*` measures up to every flow.
const SUBJECTS_MAX: usize = 1_000_000;

/// What flows can refer to.
#[derive(Clone, Copy)]
pub(crate) struct Known<'k> {
    /// Nodes, hosts and bridges by name.
    pub(crate) devices: &'k HashMap<String, Device>,
    /// Where the generated hosts are, if they have coordinates.
    pub(crate) grid: Option<&'k Grid>,
    /// What is cabled together.
    pub(crate) reach: &'k Reach,
}

/// Reads every `[[traffic]]`, then every `[[pattern]]`.
pub(crate) fn read_traffic(root: &Section<'_>, topology: &mut Topology, known: &Known<'_>) {
    let devices = known.devices;
    let mut names: HashMap<String, usize> = HashMap::new();
    let mut afters = Vec::new();
    for section in root.sections("traffic", "a flow") {
        let index = topology.traffic.len();
        if index == FLOWS_MAX {
            let message = format!("there are more than {FLOWS_MAX} flows");
            root.problems().add(section.span(), message, "split the file");
            break;
        }
        let name = section.required_text("name", "\"bulk\"");
        if let Some(At { value, span }) = &name {
            section.problems().note(span.clone(), check_name("flow", value));
            if matches!(*value, "drops" | "conserved") {
                let message = format!("a flow cannot be called {}", quote(value));
                let help = "assertions use this word for something else; take another";
                section.problems().add(span.clone(), message, help);
            }
            if names.insert(value.to_string(), index).is_some() {
                let message = format!("there are two flows {}", quote(value));
                section.problems().add(span.clone(), message, "give each flow its own name");
            }
        }
        afters.extend(section.text("after").map(|after| (index..index + 1, after)));
        let name = name.map_or("", |n| n.value);
        let from = read_host(&section, "from", topology, devices);
        let mut flow = read_flow(&section, name, from.unwrap_or(0));
        (flow.to, flow.to_address) = match flow.proto {
            Proto::Named => (read_producer(&section, from, topology, devices), NOWHERE),
            _ => read_target(&section, from, topology, devices),
        };
        if let (Some(_), Some(span)) = (from, section.span_of("to")) {
            known.reach.check_flow(&section, span, topology, &flow);
        }
        topology.traffic.push(flow);
    }
    let mut reader = PatternReader { topology, known: *known, names: &mut names };
    for section in root.sections("pattern", "a pattern") {
        let flows = reader.read(&section);
        afters.extend(section.text("after").map(|after| (flows, after)));
    }
    // Of each flow: where it says which one it waits for.
    let mut told = vec![None; topology.traffic.len()];
    for (flows, At { value, span }) in afters {
        let Some(&other) = names.get(value) else {
            let flows = topology.traffic.iter().map(|f| f.name.as_str());
            root.problems().unknown(span, "flow", value, flows);
            continue;
        };
        for flow in flows {
            topology.traffic[flow].after = Some(other);
            told[flow] = Some(span.clone());
        }
    }
    break_circles(root, topology, &told);
}

/// Reports flows that would wait for themselves, and lets one of each circle start by itself.
fn break_circles(root: &Section<'_>, topology: &mut Topology, told: &[Option<Span>]) {
    // Of each flow: from which one it was found, if it was.
    let mut found_from = vec![None; topology.traffic.len()];
    for start in 0..topology.traffic.len() {
        let mut at = start;
        while found_from[at].is_none() {
            found_from[at] = Some(start);
            let Some(next) = topology.traffic[at].after else { break };
            if found_from[next] == Some(start) {
                let message =
                    format!("{} would wait for itself", quote(&topology.traffic[at].name));
                let span = told[at].clone().unwrap_or(root.span());
                root.problems().add(span, message, "let one flow of the circle start by itself");
                topology.traffic[at].after = None;
                break;
            }
            at = next;
        }
    }
}

/// What a section says of a flow, but for where it goes.
pub(crate) fn read_flow(section: &Section<'_>, name: &str, from: usize) -> Flow {
    let proto = section.require("proto", "\"tcp\"").choice("proto", &Proto::NAMES);
    let proto = proto.map(|p| p.value);
    let rate_bits_per_s = read_rate(section, "rate");
    if proto == Some(Proto::Udp) {
        section.require("rate", "\"50Mbit\" (UDP has no pace of its own)");
    }
    let (usual, range) = match proto {
        Some(Proto::Icmp) => (ICMP_SIZE_USUAL, UDP_SIZE),
        Some(Proto::Named) => (CONTENT_SIZE_USUAL, CONTENT_SIZE),
        _ => (UDP_SIZE_USUAL, UDP_SIZE),
    };
    let flow = Flow {
        name: name.to_string(),
        from,
        to: Target::Address(NOWHERE),
        to_address: NOWHERE,
        proto: proto.unwrap_or(Proto::Tcp),
        rate_bits_per_s,
        extent: read_extent(section, proto),
        size: section.integer_or("size", range, usual),
        start: section.quantity_or("start", parse_duration, Duration::ZERO),
        after: None,
        verify: section.is_set("verify"),
        congestion: read_congestion(section),
        arrivals: section.choice_or("arrivals", &Arrivals::NAMES, Arrivals::Even),
        dialogue: (proto == Some(Proto::Request)).then(|| Arc::new(Dialogue::read(section))),
        site: (proto == Some(Proto::Web)).then(|| Site::read(section)),
        catalogue: (proto == Some(Proto::Named)).then(|| Catalogue::read(section)),
        expect: section.choice_or("expect", &Expect::NAMES, Expect::Pass),
    };
    let foreign: &[&'static str] = match proto {
        Some(Proto::Tcp) => &["size", "arrivals"],
        Some(Proto::Udp) => &["verify", "congestion"],
        Some(Proto::Icmp) => &["rate", "verify", "congestion", "arrivals"],
        Some(Proto::Request | Proto::Web) => &["rate", "size", "verify", "congestion", "arrivals"],
        Some(Proto::Named) => &["rate", "verify", "congestion", "arrivals"],
        None => &[],
    };
    for key in foreign {
        if let Some(span) = section.span_of(key) {
            let message = format!("{} has no meaning for {}", quote(key), flow.proto.name());
            section.problems().add(span, message, "remove it");
        }
    }
    flow
}

/// A kernel's name of a congestion control; whether the kernel has it shows when the lab runs.
fn read_congestion(section: &Section<'_>) -> Option<String> {
    let At { value, span } = section.text("congestion")?;
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if (1..=CONGESTION_NAME_MAX).contains(&value.len()) && value.bytes().all(letter) {
        return Some(value.to_string());
    }
    let message = format!("{} is no TCP congestion control", quote(value));
    let help = "write one that sysctl net.ipv4.tcp_available_congestion_control lists: \"cubic\"";
    section.problems().add(span, message, help);
    None
}

/// One of `bytes`, `duration` and `count`; ICMP sends five packets where nothing is said.
fn read_extent(section: &Section<'_>, proto: Option<Proto>) -> Extent {
    let bytes = section.quantity("bytes", parse_size);
    let duration = section.quantity("duration", parse_duration);
    let count = section.integer("count", 1..=u64::from(u32::MAX));
    let given: Vec<&'static str> =
        ["bytes", "duration", "count"].into_iter().filter(|key| section.has(key)).collect();
    if let [_, second, ..] = given.as_slice() {
        let message = format!("the flow already ends by {}", quote(given[0]));
        section.problems().add(
            section.near(second),
            message,
            "keep one of bytes, duration and count",
        );
    }
    let allowed: &[&str] = match proto {
        Some(Proto::Tcp) => &["bytes", "duration"],
        Some(Proto::Icmp | Proto::Web) => &["count"],
        Some(Proto::Request | Proto::Named) => &["count", "duration"],
        _ => &["bytes", "duration", "count"],
    };
    if let (Some(key), Some(proto)) = (given.first(), proto)
        && !allowed.contains(key)
    {
        let message = format!("{} does not end {} traffic", quote(key), proto.name());
        section.problems().add(section.near(key), message, format!("use {}", allowed.join(" or ")));
    }
    if let Some(At { value, span }) = bytes {
        if value == 0 {
            let help = "write how much to send, as in bytes = \"100MB\"";
            section.problems().add(span, "a flow of 0 bytes sends nothing", help);
        }
        return Extent::Bytes(value);
    }
    if let Some(At { value, span }) = duration {
        if value.is_zero() || value > DURATION_MAX {
            let help = "write a time up to 24h, as in duration = \"5s\"";
            section.problems().add(span, "\"duration\" is out of range", help);
        }
        return Extent::Duration(value);
    }
    if given.is_empty() && !matches!(proto, Some(Proto::Icmp) | None) {
        match proto {
            Some(Proto::Web) => section.missing("count", "100"),
            Some(Proto::Request | Proto::Named) => {
                section.missing("count", "500, or duration = \"5s\"");
            }
            _ => section.missing("bytes", "\"100MB\", or duration = \"5s\""),
        }
    }
    Extent::Packets(count.map_or(ICMP_COUNT_USUAL, |c| c.value as u32))
}

/// The host that a key names.
pub(crate) fn read_host(
    section: &Section<'_>,
    key: &'static str,
    topology: &Topology,
    devices: &HashMap<String, Device>,
) -> Option<usize> {
    let at = section.required_text(key, "\"h1\"")?;
    find_host(section, &at, topology, devices)
}

/// The host of this name.
pub(crate) fn find_host(
    section: &Section<'_>,
    At { value, span }: &At<&str>,
    topology: &Topology,
    devices: &HashMap<String, Device>,
) -> Option<usize> {
    match devices.get(*value) {
        Some(Device::Host(host)) => Some(*host),
        Some(other) => {
            let kind = if matches!(other, Device::Node(_)) { "node" } else { "bridge" };
            let message = format!("{} is a {kind}; traffic is between hosts", quote(value));
            section.problems().add(span.clone(), message, "name a host");
            None
        }
        None => {
            let names = topology.hosts.iter().map(|h| h.name.as_str());
            section.problems().unknown(span.clone(), "host", value, names);
            None
        }
    }
}

/// The target's first address that the sender can speak to, and the target.
pub(crate) fn host_target(
    section: &Section<'_>,
    span: Span,
    topology: &Topology,
    [from, to]: [usize; 2],
) -> Option<(Target, IpAddr)> {
    let [source, target] = [from, to].map(|host| &topology.hosts[host]);
    let mut addresses = target.addresses.iter().map(|a| a.address);
    let address = addresses.find(|a| source.address_like(Some(*a)).is_some());
    if address.is_none() {
        let names = (quote(&source.name), quote(&target.name));
        let message = format!("{} and {} have no IP version in common", names.0, names.1);
        section.problems().add(span, message, "add an \"address\" to one of them");
    }
    Some((Target::Host(to), address?))
}

/// The host that answers a flow by name; a placeholder stands in where that is not clear.
fn read_producer(
    section: &Section<'_>,
    from: Option<usize>,
    topology: &Topology,
    devices: &HashMap<String, Device>,
) -> Target {
    let Some(to) = read_host(section, "to", topology, devices) else {
        return Target::Address(NOWHERE);
    };
    if let (true, Some(span)) = (from == Some(to), section.span_of("to")) {
        refuse_itself(section, span, topology, to);
    }
    Target::Host(to)
}

fn refuse_itself(section: &Section<'_>, span: Span, topology: &Topology, host: usize) {
    let message = format!("{} would send to itself", quote(&topology.hosts[host].name));
    section.problems().add(span, message, "name another host");
}

/// Where a flow goes; a placeholder stands in where that is not clear.
fn read_target(
    section: &Section<'_>,
    from: Option<usize>,
    topology: &Topology,
    devices: &HashMap<String, Device>,
) -> (Target, IpAddr) {
    let source = from.map(|from| &topology.hosts[from]);
    let text = section.text("to");
    if let Some(At { value, span }) = &text
        && let Ok(address) = value.parse::<IpAddr>()
    {
        if let Some(source) = source
            && source.address_like(Some(address)).is_none()
        {
            let version = if address.is_ipv4() { "IPv4" } else { "IPv6" };
            let message = format!("{} has no {version} address to send from", quote(&source.name));
            section.problems().add(span.clone(), message, "add one to its \"address\"");
        }
        return (Target::Address(address), address);
    }
    let Some(to) = read_host(section, "to", topology, devices) else {
        return (Target::Address(NOWHERE), NOWHERE);
    };
    let (Some(from), Some(span)) = (from, text.map(|t| t.span)) else {
        return (Target::Host(to), NOWHERE);
    };
    if from == to {
        refuse_itself(section, span, topology, to);
        return (Target::Host(to), NOWHERE);
    }
    host_target(section, span, topology, [from, to]).unwrap_or((Target::Host(to), NOWHERE))
}

/// Reads `assert = ["…"]` or every `[[assert]]` with its `text`.
pub(crate) fn read_assertions(root: &Section<'_>, topology: &mut Topology) {
    let flows: Vec<String> = topology.traffic.iter().map(|f| f.name.clone()).collect();
    let nodes: Vec<String> = topology.nodes.iter().map(|n| n.name.clone()).collect();
    let names = Names { flows: &flows, nodes: &nodes };
    let as_texts = root
        .items("assert")
        .is_some_and(|items| items.iter().any(|item| item.value.as_table().is_none()));
    let mut texts = Vec::new();
    if as_texts {
        texts = root.texts("assert").unwrap_or_default();
    } else {
        for section in root.sections("assert", "an assertion") {
            texts.extend(section.required_text("text", "\"bulk.received >= 80Mbit\""));
        }
    }
    let mut subjects = 0;
    for (i, at) in texts.into_iter().enumerate() {
        if i == ASSERTIONS_MAX {
            let message = format!("there are more than {ASSERTIONS_MAX} assertions");
            root.problems().add(at.span, message, "split the file");
            break;
        }
        match Assertion::parse(at.value, names) {
            Ok(assertion) => {
                subjects += assertion.subjects.len();
                if subjects > SUBJECTS_MAX {
                    let message = format!(
                        "with this one, assertions measure more than {SUBJECTS_MAX} figures"
                    );
                    let help = "use fewer of those with a \"*\", or less of the flows";
                    root.problems().add(at.span, message, help);
                    break;
                }
                topology.assertions.push(assertion);
            }
            Err(e) => {
                let span = within(&at, e.offset, e.len);
                root.problems().add(span, e.error.message, e.error.help);
            }
        }
    }
}
