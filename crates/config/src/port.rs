//! Reads and writes the settings of a port, a switch and a fault injector, in the same way in the
//! node file and in the topology file.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use plexus_wire::MacAddr;
use toml::de::DeValue;

use crate::deep_buffer::DeepBufferSettings;
use crate::document::{At, Lines, Problems, Section, quoted};
use crate::error::{Span, ValueError, quote};
use crate::settings::{
    PortSettings, PortUse, QueueOrder, QueueSettings, StaticMac, StormSettings, SwitchSettings,
    Trust, VlanMode,
};
use crate::units::{
    format_rate, format_size, parse_duration, parse_packet_rate, parse_rate, parse_size,
};

/// Highest VLAN that can be used: 0 and 4095 are reserved (IEEE 802.1Q, table 9-2).
const VLAN_MAX: u64 = 4094;
const VLAN_HELP: &str = "use a VLAN from 1 to 4094 (0 and 4095 are reserved)";
/// A queue that cannot hold one full-size frame sends none.
const QUEUE_BYTES_MIN: u64 = 1_518;
/// IEEE 802.1Q, table 8-6.
const AGEING_MAX: Duration = Duration::from_secs(1_000_000);
const MAC_TABLE_MAX: u64 = 1 << 24;

impl PortUse {
    /// Reads `role` of a port's section; `in_fabric`: the port is one of a fabric node.
    pub fn read(section: &Section<'_>, in_fabric: bool) -> PortUse {
        let Some(At { value, span }) = section.choice("role", &PortUse::NAMES) else {
            return PortUse::Auto;
        };
        if !in_fabric {
            let message = "only ports of a fabric have a role, and here is none";
            let help = "take the role out: every port of a switch is for hosts and switches alike";
            section.problems().add(span, message, help);
        }
        value
    }
}

/// Faults that a port injects on reception, for testing a network. Probabilities are per frame, 0
/// to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultSettings {
    /// Probability that a frame is lost.
    pub drop: f64,
    /// Probability that a frame comes twice.
    pub duplicate: f64,
    /// Probability that a frame comes after its successor.
    pub reorder: f64,
    /// Probability that a bit of a frame is changed.
    pub corrupt: f64,
    /// Added to every frame's latency.
    pub delay: Duration,
    /// Up to this much more, drawn for every frame.
    pub jitter: Duration,
    /// Most bits/s that pass.
    pub rate_bits_per_s: Option<u64>,
    /// Where the random numbers start: equal seeds give equal faults.
    pub seed: u64,
}

impl FaultSettings {
    /// Reads `faults = { … }` of a section.
    pub fn read(section: &Section<'_>) -> Option<FaultSettings> {
        let faults = section.section("faults", "faults")?;
        let chance = |key| faults.number_or(key, 0.0..=1.0, 0.0);
        let time = |key| faults.quantity_or(key, parse_duration, Duration::ZERO);
        Some(FaultSettings {
            drop: chance("drop"),
            duplicate: chance("duplicate"),
            reorder: chance("reorder"),
            corrupt: chance("corrupt"),
            delay: time("delay"),
            jitter: time("jitter"),
            rate_bits_per_s: read_rate(&faults, "rate"),
            seed: read_seed(&faults).unwrap_or(0),
        })
    }

    /// Writes `faults = { … }`.
    pub fn write(&self, lines: &mut Lines) {
        let mut faults = Lines::default();
        faults.unusual("drop", &self.drop, &0.0);
        faults.unusual("duplicate", &self.duplicate, &0.0);
        faults.unusual("reorder", &self.reorder, &0.0);
        faults.unusual("corrupt", &self.corrupt, &0.0);
        faults.unusual("delay", &self.delay, &Duration::ZERO);
        faults.unusual("jitter", &self.jitter, &Duration::ZERO);
        faults.given("rate", self.rate_bits_per_s.map(format_rate));
        faults.unusual("seed", &self.seed, &0);
        lines.inline("faults", &faults);
    }
}

/// A seed: TOML's whole numbers end at 2^63 - 1.
pub fn read_seed(section: &Section<'_>) -> Option<u64> {
    section.integer("seed", 0..=i64::MAX as u64).map(|s| s.value)
}

/// A rate in bits/s, not 0.
pub fn read_rate(section: &Section<'_>, key: &'static str) -> Option<u64> {
    let rate = section.quantity(key, parse_rate)?;
    if rate.value == 0 {
        let help = format!("leave {} out for no limit, or write a rate", quote(key));
        section.problems().add(rate.span, "a rate of 0 lets nothing through", help);
        return None;
    }
    Some(rate.value)
}

/// A host on an access port could starve all others with its markings; the peer of a trunk is a
/// switch.
fn usual_trust(vlan: &VlanMode) -> Trust {
    match vlan {
        VlanMode::Access(_) => Trust::None,
        VlanMode::Trunk { .. } => Trust::Pcp,
    }
}

impl PortSettings {
    /// Reads a port's settings from its section; problems are recorded and replaced by the default.
    pub fn read(section: &Section<'_>) -> PortSettings {
        let usual = PortSettings::default();
        let limit = |key| section.integer(key, 1..=u64::from(u32::MAX)).map(|n| n.value as u32);
        let vlan = read_vlan(section).unwrap_or(usual.vlan);
        let trust = usual_trust(&vlan);
        PortSettings {
            vlan,
            rate_bits_per_s: read_rate(section, "rate"),
            queue: read_queue(section).unwrap_or(usual.queue),
            storm: read_storm(section).unwrap_or(usual.storm),
            mac_limit: limit("mac_limit"),
            learning: section.flag("learning").map_or(usual.learning, |f| f.value),
            trust: section.choice_or("trust", &Trust::NAMES, trust),
            priority: section.integer_or("priority", 0..=7, usual.priority),
        }
    }

    /// Writes what differs from the default.
    pub fn write(&self, lines: &mut Lines) {
        let usual = PortSettings::default();
        if self.vlan != usual.vlan {
            write_vlan(&self.vlan, lines);
        }
        lines.given("rate", self.rate_bits_per_s.map(format_rate));
        let QueueSettings { order, packets, bytes, ecn_bytes } = self.queue;
        if self.queue == (QueueSettings { order, ..usual.queue }) {
            lines.unusual("queue", &order, &usual.queue.order);
        } else {
            let mut queue = Lines::default();
            queue.unusual("order", &order, &usual.queue.order);
            queue.value("packets", &packets);
            if order != QueueOrder::Deep {
                queue.value("bytes", &format_size(bytes.into()));
            }
            queue.given("ecn", ecn_bytes.map(|bytes| format_size(bytes.into())));
            lines.inline("queue", &queue);
        }
        if self.storm != usual.storm {
            let mut storm = Lines::default();
            storm.given("broadcast", self.storm.broadcast_pps);
            storm.given("multicast", self.storm.multicast_pps);
            storm.given("unknown", self.storm.unknown_pps);
            lines.inline("storm", &storm);
        }
        lines.given("mac_limit", self.mac_limit);
        lines.unusual("learning", &self.learning, &true);
        lines.unusual("trust", &self.trust, &usual_trust(&self.vlan));
        lines.unusual("priority", &self.priority, &usual.priority);
    }

    /// Whether packets have to pass the port's output queue, also where nothing waits: it limits a
    /// rate, or sorts bursts out.
    pub fn needs_queue(&self) -> bool {
        self.rate_bits_per_s.is_some() || self.queue.order == QueueOrder::Deep
    }

    /// Whether the port carries a VLAN.
    pub fn carries(&self, vlan: u16) -> bool {
        match &self.vlan {
            VlanMode::Access(own) => *own == vlan,
            VlanMode::Trunk { allowed, native } => {
                *native == Some(vlan) || allowed.iter().any(|(a, b)| (*a..=*b).contains(&vlan))
            }
        }
    }
}

/// `queue = "fair"`, or `queue = { order = "fair", packets = 512, … }`.
fn read_queue(section: &Section<'_>) -> Option<QueueSettings> {
    let usual = QueueSettings::default();
    if section.is_text("queue") {
        let order = section.choice("queue", &QueueOrder::NAMES)?.value;
        return Some(QueueSettings { order, ..usual });
    }
    let queue = section.section("queue", "a queue")?;
    let size = |key, least: u64| {
        let At { value, span } = queue.quantity(key, parse_size)?;
        let fits = u32::try_from(value).ok().filter(|v| u64::from(*v) >= least);
        if fits.is_none() {
            let (from, to) = (least, u32::MAX);
            let message = format!("{} is out of range", quote(key));
            queue.problems().add(span, message, format!("write a size from {from} to {to} bytes"));
        }
        fits
    };
    let settings = QueueSettings {
        order: queue.choice_or("order", &QueueOrder::NAMES, usual.order),
        packets: queue.integer_or("packets", 1..=u64::from(u32::MAX), usual.packets),
        bytes: size("bytes", QUEUE_BYTES_MIN).unwrap_or(usual.bytes),
        ecn_bytes: size("ecn", 0),
    };
    if let (Some(ecn), Some(span)) = (settings.ecn_bytes, queue.span_of("ecn"))
        && ecn > settings.bytes
    {
        let message = "frames are never marked: \"ecn\" is above the queue's \"bytes\"";
        let bytes = format_size(settings.bytes.into());
        queue.problems().add(span, message, format!("write at most \"{bytes}\""));
    }
    for (key, message) in [
        ("ecn", "a deep queue marks no frames"),
        ("bytes", "a deep queue has a limit of packets, and the deep buffer one of bytes"),
    ] {
        if settings.order == QueueOrder::Deep
            && let Some(span) = queue.span_of(key)
        {
            let help = format!("take {} out, or write another order", quote(key));
            queue.problems().add(span, message, help);
        }
    }
    Some(settings)
}

fn read_storm(section: &Section<'_>) -> Option<StormSettings> {
    let storm = section.section("storm", "storm")?;
    let limit = |key| {
        let At { value, span } = storm.quantity(key, parse_packet_rate)?;
        let limit = u32::try_from(value).ok();
        if limit.is_none() {
            let message = format!("{} is out of range", quote(key));
            storm.problems().add(span, message, "write packets per second, as in 1000");
        }
        limit
    };
    Some(StormSettings {
        broadcast_pps: limit("broadcast"),
        multicast_pps: limit("multicast"),
        unknown_pps: limit("unknown"),
    })
}

fn read_vlan(section: &Section<'_>) -> Option<VlanMode> {
    let problems = section.problems();
    let access = read_vlan_id(section, "vlan");
    let native = read_vlan_id(section, "native");
    let trunk = section.items("trunk");
    let Some(items) = trunk else {
        if let Some(span) = section.span_of("native") {
            problems.add(
                span,
                "\"native\" belongs to a trunk port, and this port has no \"trunk\"",
                "add trunk = [10, \"20-29\"], or write vlan = N for an access port",
            );
        }
        return access.map(VlanMode::Access);
    };
    if let Some(span) = section.span_of("vlan") {
        problems.add(
            span,
            "a port has either \"vlan\" or \"trunk\"",
            "for untagged frames on a trunk write native = N",
        );
    }
    let mut allowed: Vec<(u16, u16)> = Vec::new();
    for item in items {
        if problems.is_full() {
            break;
        }
        let Some(range) = read_vlan_range(section, &item) else { continue };
        let overlap = allowed.iter().find(|(a, b)| range.0 <= *b && *a <= range.1);
        if let Some(&other) = overlap {
            let message = format!("VLANs {} overlap with {}", range_text(range), range_text(other));
            problems.add(item.span, message, "name each VLAN once");
        } else {
            allowed.push(range);
        }
    }
    Some(VlanMode::Trunk { allowed, native })
}

fn read_vlan_id(section: &Section<'_>, key: &'static str) -> Option<u16> {
    let items = section.items(key)?;
    let [item] = items.as_slice() else {
        let message = format!("{} is one VLAN", quote(key));
        section.problems().add(
            section.near(key),
            message,
            "for several write trunk = [10, \"20-29\"]",
        );
        return None;
    };
    vlan_of(section, item, key)
}

fn vlan_of<'a>(section: &Section<'a>, item: &At<&'a DeValue<'a>>, key: &str) -> Option<u16> {
    if let DeValue::Integer(i) = item.value {
        let number = u64::from_str_radix(i.as_str(), i.radix()).ok();
        if !number.is_some_and(|n| (1..=VLAN_MAX).contains(&n)) {
            let message = format!("VLAN {} does not exist", shorten(i.as_str()));
            section.problems().add(item.span.clone(), message, VLAN_HELP);
            return None;
        }
    }
    section.integer_of(item, key, 1..=VLAN_MAX).map(|v| v as u16)
}

fn shorten(digits: &str) -> String {
    digits.chars().take(24).collect()
}

fn read_vlan_range<'a>(section: &Section<'a>, item: &At<&'a DeValue<'a>>) -> Option<(u16, u16)> {
    let Some(text) = item.value.as_str() else {
        return vlan_of(section, item, "trunk").map(|v| (v, v));
    };
    section.problems().note(item.span.clone(), parse_vlan_range(text))
}

/// One VLAN (`10`) or an inclusive range of them (`20-29`).
///
/// # Errors
/// When it is neither, or not within 1 to 4094.
pub fn parse_vlan_range(text: &str) -> Result<(u16, u16), ValueError> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let number = |t: &str| {
        let t = t.trim();
        let digits = !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| t.parse::<u64>().unwrap_or(u64::MAX))
    };
    let (Some(low), Some(high)) = (number(low), number(high)) else {
        return Err(ValueError::new(
            format!("{} is not a range of VLANs", quote(text)),
            "write a VLAN or a range, as in 10 or \"20-29\"",
        ));
    };
    if low < 1 || high > VLAN_MAX {
        return Err(ValueError::new(
            format!("{} names a VLAN that does not exist", quote(text)),
            VLAN_HELP,
        ));
    }
    if low > high {
        return Err(ValueError::new(
            format!("the range {} is empty", quote(text)),
            format!("write the lower VLAN first: \"{high}-{low}\""),
        ));
    }
    Ok((low as u16, high as u16))
}

fn range_text((low, high): (u16, u16)) -> String {
    if low == high { low.to_string() } else { format!("{low}-{high}") }
}

fn write_vlan(vlan: &VlanMode, lines: &mut Lines) {
    match vlan {
        VlanMode::Access(id) => lines.entry("vlan", id),
        VlanMode::Trunk { allowed, native } => {
            let ranges: Vec<String> = allowed
                .iter()
                .map(|r| if r.0 == r.1 { r.0.to_string() } else { quoted(&range_text(*r)) })
                .collect();
            lines.entry("trunk", format_args!("[{}]", ranges.join(", ")));
            if let Some(native) = native {
                lines.entry("native", native);
            }
        }
    }
}

/// A `[[static_mac]]` as written, before its port is known to exist.
#[derive(Clone, Debug)]
pub struct StaticMacEntry {
    mac: At<MacAddr>,
    vlan: Option<At<u16>>,
    port: At<String>,
    span: Span,
}

impl StaticMacEntry {
    /// Reads every `[[static_mac]]` of a section.
    pub fn read(section: &Section<'_>) -> Vec<StaticMacEntry> {
        let mut entries = Vec::new();
        for entry in section.sections("static_mac", "a static MAC") {
            let mac = read_mac(entry.require("mac", "\"02:00:00:00:00:01\""), "mac");
            let vlan_id = read_vlan_id(&entry, "vlan");
            let vlan = vlan_id.zip(entry.span_of("vlan")).map(|(value, span)| At { value, span });
            let port = entry.required_text("port", "\"p1\"");
            if let (Some(mac), Some(port)) = (mac, port)
                && vlan.is_some() == entry.has("vlan")
            {
                let port = At { value: port.value.to_string(), span: port.span };
                entries.push(StaticMacEntry { mac, vlan, port, span: entry.span() });
            }
        }
        entries
    }

    /// Checks the entries against the ports (names and settings) of their switch. An entry
    /// without VLAN gets that of its access port.
    pub fn resolve(
        entries: Vec<StaticMacEntry>,
        ports: &[(&str, &PortSettings)],
        problems: &Problems,
    ) -> Vec<StaticMac> {
        let mut stations: Vec<StaticMac> = Vec::new();
        let mut seen = HashSet::new();
        let by_name: HashMap<_, _> = ports.iter().copied().collect();
        for entry in entries {
            let StaticMacEntry { mac, vlan, port, span } = entry;
            let Some(settings) = by_name.get(port.value.as_str()) else {
                problems.unknown(port.span, "port", &port.value, ports.iter().map(|p| p.0));
                continue;
            };
            let vlan = match (vlan, &settings.vlan) {
                (Some(vlan), _) => vlan,
                (None, VlanMode::Access(own)) => At { value: *own, span: span.clone() },
                (None, VlanMode::Trunk { .. }) => {
                    let message = format!("port {} carries several VLANs", quote(&port.value));
                    problems.add(span, message, "say which one: vlan = 10");
                    continue;
                }
            };
            if !settings.carries(vlan.value) {
                let message =
                    format!("port {} does not carry VLAN {}", quote(&port.value), vlan.value);
                problems.add(vlan.span, message, "use a VLAN of the port, or add it to the port");
                continue;
            }
            if !seen.insert((mac.value, vlan.value)) {
                let message = format!("{} is already set in VLAN {}", mac.value, vlan.value);
                problems.add(mac.span, message, "a station has one place in each VLAN");
                continue;
            }
            stations.push(StaticMac { mac: mac.value, vlan: vlan.value, port: port.value });
        }
        stations
    }
}

/// An Ethernet address of one station.
pub fn read_mac(section: &Section<'_>, key: &'static str) -> Option<At<MacAddr>> {
    section.parsed(key, |text| match text.parse::<MacAddr>() {
        Ok(mac) if mac.is_multicast() => {
            let message = format!("{mac} is a group address, not that of one station");
            Err(ValueError::new(message, "the first byte of a station's is even"))
        }
        Ok(mac) if mac == MacAddr::default() => {
            let message = "the all-zero address belongs to no station";
            Err(ValueError::new(message, "use an address such as 02:00:00:00:00:01"))
        }
        Ok(mac) => Ok(mac),
        Err(_) => Err(ValueError::new(
            format!("{} is not an Ethernet address", quote(text)),
            "an Ethernet address is six hexadecimal bytes, as in \"02:00:00:00:00:01\"",
        )),
    })
}

impl SwitchSettings {
    /// Reads `[switch]` and `[deep_buffer]` of a section, without the static stations.
    pub fn read(section: &Section<'_>) -> SwitchSettings {
        let deep_buffer = DeepBufferSettings::read(section);
        SwitchSettings { deep_buffer, ..SwitchSettings::read_switch(section) }
    }

    /// Reads `[switch]` alone.
    pub(crate) fn read_switch(section: &Section<'_>) -> SwitchSettings {
        let mut settings = SwitchSettings::default();
        let Some(switch) = section.section("switch", "switch") else { return settings };
        if let Some(At { value, span }) = switch.quantity("ageing", parse_duration) {
            if value.is_zero() || value > AGEING_MAX {
                let help = "write a time above 0, up to 1000000s; 300s is usual";
                switch.problems().add(span, "\"ageing\" is out of range", help);
            }
            settings.ageing = value;
        }
        settings.mac_table = switch.integer_or("mac_table", 1..=MAC_TABLE_MAX, settings.mac_table);
        settings
    }

    /// Writes `switch = { … }` and `deep_buffer = { … }` where something differs from the default,
    /// without the static stations.
    pub fn write(&self, lines: &mut Lines) {
        let usual = SwitchSettings::default();
        let mut switch = Lines::default();
        switch.unusual("ageing", &self.ageing, &usual.ageing);
        switch.unusual("mac_table", &self.mac_table, &usual.mac_table);
        if switch != Lines::default() {
            lines.inline("switch", &switch);
        }
        self.deep_buffer.write(lines);
    }

    /// Writes the static stations, each under this heading.
    pub fn write_static_macs(&self, heading: &str, lines: &mut Lines) {
        for station in &self.static_macs {
            lines.heading(heading);
            lines.value("mac", &station.mac);
            lines.entry("vlan", station.vlan);
            lines.text("port", &station.port);
        }
    }
}
