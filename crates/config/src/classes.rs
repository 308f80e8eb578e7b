//! Classes of packets that pass a host on their way through the group's router: `[[class]]` of the
//! controller's file.

use std::net::{IpAddr, Ipv4Addr};

use plexus_wire::{Prefix, Protocol};
use serde::{Deserialize, Serialize};

use crate::address::parse_prefix;
use crate::controller::parse_ip;
use crate::controller_settings::{Reservation, Subnet};
use crate::document::{Lines, Section};
use crate::error::{ValueError, quote};
use crate::name::check_name;
use crate::outside::{check_host, check_reserved};
use crate::words;

/// Most classes, and most functions of all of them: what one message to a node holds.
pub const CLASSES_MAX: usize = 16;
/// See [`CLASSES_MAX`].
pub const FUNCTIONS_MAX: usize = 16;

/// Every port.
const ALL_PORTS: (u16, u16) = (0, u16::MAX);

/// Packets that pass a function: a host of the fabric that routes by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TrafficClass {
    /// Its name.
    pub name: String,
    /// The upper-layer protocol; `None`: any.
    pub protocol: Option<u8>,
    /// Where the packets come from; `None`: anywhere.
    pub from: Option<Prefix>,
    /// Where they go; `None`: anywhere.
    pub to: Option<Prefix>,
    /// First and last destination port.
    pub ports: (u16, u16),
    /// Packets the other way are of the class too.
    pub both_ways: bool,
    /// The functions, which share the flows.
    pub via: Vec<IpAddr>,
    /// The fate of the packets while no function is there.
    pub otherwise: Otherwise,
}

/// The fate of a class's packets while none of its functions is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Otherwise {
    /// They are dropped.
    #[default]
    Drop,
    /// They go on without it.
    Route,
}

words!(Otherwise { Drop = "drop", Route = "route" });

/// Protocols by name.
const PROTOCOLS: [(&str, Protocol); 5] = [
    ("icmp", Protocol::ICMPV4),
    ("icmpv6", Protocol::ICMPV6),
    ("sctp", Protocol::SCTP),
    ("tcp", Protocol::TCP),
    ("udp", Protocol::UDP),
];

fn parse_protocol(text: &str) -> Result<u8, ValueError> {
    let named = PROTOCOLS.iter().find(|(name, _)| *name == text).map(|(_, protocol)| protocol.0);
    named.or_else(|| text.parse().ok()).ok_or_else(|| {
        let help = "write icmp, icmpv6, sctp, tcp, udp, or a number up to 255, as in \"47\"";
        ValueError::new(format!("{} is no protocol", quote(text)), help)
    })
}

fn parse_ports(text: &str) -> Result<(u16, u16), ValueError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => {
            let help = "write one port, as in \"80\", or the first and the last, as in \"80-89\"";
            Err(ValueError::new(format!("{} is no range of ports", quote(text)), help))
        }
    }
}

/// The class without a function of a new one that stands between this and another with it: packets
/// from the function would not be of that class, whoever sent them there.
fn parts<'a>(classes: &'a [TrafficClass], new: &TrafficClass) -> Option<&'a str> {
    let has = |class: &TrafficClass, via| class.via.contains(via);
    new.via.iter().find_map(|via| {
        let before = classes.iter().rposition(|class| has(class, via))?;
        classes.get(before + 1).map(|class| &class.name[..])
    })
}

/// Reads every `[[class]]`.
pub(crate) fn read_classes(
    root: &Section<'_>,
    subnets: &[Subnet],
    reserved: &[Reservation],
) -> Vec<TrafficClass> {
    let (problems, mut classes) = (root.problems(), Vec::<TrafficClass>::new());
    for section in root.sections("class", "a class of packets") {
        let name = section.required_text("name", "\"web\"");
        if let Some(name) = &name {
            problems.note(name.span.clone(), check_name("class", name.value));
            if classes.iter().any(|class| class.name == name.value) {
                let message = format!("there are two classes called {}", quote(name.value));
                problems.add(name.span.clone(), message, "give each class its own name");
            }
        }
        let via = section.list("via", |text| {
            let via = parse_ip::<Ipv4Addr>(text, "10.9.0.2")?.into();
            check_host(via, subnets)?;
            check_reserved(via, reserved)?;
            Ok(via)
        });
        let class = TrafficClass {
            name: name.map_or("", |name| name.value).to_string(),
            protocol: section.parsed("protocol", parse_protocol).map(|at| at.value),
            from: section.parsed("from", parse_prefix).map(|at| at.value),
            to: section.parsed("to", parse_prefix).map(|at| at.value),
            ports: section.parsed("ports", parse_ports).map_or(ALL_PORTS, |at| at.value),
            both_ways: section.flag("both_ways").is_some_and(|at| at.value),
            via: via.unwrap_or_default(),
            otherwise: section.choice_or("otherwise", &Otherwise::NAMES, Otherwise::Drop),
        };
        let functions: usize = classes.iter().map(|class| class.via.len()).sum();
        let families = [class.from, class.to].map(|prefix| prefix.map(|p| p.addr().is_ipv4()));
        if section.items("via").is_none_or(|items| items.is_empty()) {
            let help = "add via = [\"10.9.0.2\"]: hosts that take these packets and send them on";
            problems.add(section.span(), "this class names no host to pass", help);
        } else if classes.len() == CLASSES_MAX || functions + class.via.len() > FUNCTIONS_MAX {
            let message =
                format!("more than {CLASSES_MAX} classes, or {FUNCTIONS_MAX} hosts in all");
            problems.add(section.span(), message, "name larger prefixes, or fewer hosts");
        } else if matches!(families, [Some(a), Some(b)] if a != b) {
            let message = "from and to are of different versions: no packet has both";
            problems.add(section.span(), message, "write prefixes of one version");
        }
        if let Some(between) = parts(&classes, &class) {
            let message = format!("a host of this class is also one of a class before {between:?}");
            let help = "put classes with the same hosts one after the other: a packet that a host \
                        has sent is not of the classes up to its last one";
            problems.add(section.span(), message, help);
        }
        classes.push(class);
    }
    classes.truncate(CLASSES_MAX);
    classes
}

impl TrafficClass {
    /// Writes what [`read_classes`] reads.
    pub(crate) fn write(&self, lines: &mut Lines, heading: &str) {
        lines.heading(heading);
        lines.text("name", &self.name);
        if let Some(protocol) = self.protocol {
            let named = PROTOCOLS.iter().find(|(_, known)| known.0 == protocol);
            let number = protocol.to_string();
            lines.text("protocol", named.map_or(&number, |(name, _)| name));
        }
        for (key, prefix) in [("from", &self.from), ("to", &self.to)] {
            if let Some(prefix) = prefix {
                lines.value(key, prefix);
            }
        }
        if self.ports != ALL_PORTS {
            lines.text("ports", &format!("{}-{}", self.ports.0, self.ports.1));
        }
        lines.unusual("both_ways", &self.both_ways, &false);
        lines.value("via", &self.via[..]);
        lines.unusual("otherwise", &self.otherwise, &Otherwise::Drop);
    }
}
