//! A controller's file: its paths, the networks, and which hosts may talk to each other.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plexus_wire::{MacAddr, Prefix, hex};

use crate::address::parse_prefix;
use crate::classes::read_classes;
use crate::common::CommonFile;
use crate::controller_settings::{
    Balance, ControllerLimits, ControllerSettings, FORWARDERS_MAX, Forwarder, GroupRule, HostGroup,
    MULTICAST_RULES_MAX, Members, MulticastRule, REVOKED_MAX, Reservation, Revoked, RoutePolicy,
    SUBNET_MTU, Subnet,
};
use crate::document::{At, Lines, Section, read_anyway, read_document, read_text};
use crate::error::{FileError, ValueError, quote};
use crate::etcd::EtcdSettings;
use crate::hex::decode;
use crate::name::{check_device, check_name, parse_kernel_device};
use crate::node::{parse_heartbeat, parse_listen_address, parse_socket_path, usual_control};
use crate::outside::read_routes;
use crate::port::read_mac;
use crate::units::{format_duration, parse_duration};
use crate::web::WebSettings;

/// Most addresses of a pool: those of a /14.
const POOL_MAX: u32 = 1 << 18;

/// A controller's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerFile {
    /// The controller's name.
    pub name: String,
    /// Path of its identity: key and credential.
    pub identity: PathBuf,
    /// Path of the store: leases, and the number of its last start. With etcd: which cluster it is.
    pub state: PathBuf,
    /// The cluster that several controllers share instead of a store of their own.
    pub etcd: Option<EtcdSettings>,
    /// Path of the control socket; `/run/plexus/NAME.sock` unless the file says otherwise.
    pub control: PathBuf,
    /// The network device that is cabled to a node; `ctl0` unless the file says otherwise.
    pub device: String,
    /// Where Prometheus metrics are served, if at all.
    pub metrics: Option<SocketAddr>,
    /// Where its page is served, if at all.
    pub web: Option<WebSettings>,
    /// Time between Heartbeats; the same in the whole group.
    pub heartbeat: Duration,
    /// What its core is configured with.
    pub settings: ControllerSettings,
}

impl ControllerFile {
    /// A controller with the usual settings and no networks.
    pub fn new(name: &str) -> ControllerFile {
        ControllerFile {
            name: name.to_string(),
            identity: format!("/etc/plexus/{name}.identity").into(),
            state: format!("/var/lib/plexus/{name}.redb").into(),
            etcd: None,
            control: usual_control(name),
            device: "ctl0".into(),
            metrics: None,
            web: None,
            heartbeat: Duration::from_millis(100),
            settings: ControllerSettings::default(),
        }
    }

    /// Reads a controller file from disk.
    ///
    /// # Errors
    /// When it cannot be read, or with everything that is wrong in it.
    pub fn read(path: &Path) -> Result<ControllerFile, FileError> {
        ControllerFile::parse(&path.display().to_string(), &read_text(path)?)
    }

    /// Reads a controller file from its text; `file` is what messages call it.
    ///
    /// # Errors
    /// With everything that is wrong in it.
    pub fn parse(file: &str, text: &str) -> Result<ControllerFile, FileError> {
        read_document(file, text, "a controller", read_controller)
    }

    /// Writes the file; [`ControllerFile::parse`] returns an equal value.
    pub fn to_toml(&self) -> String {
        let usual = ControllerFile::new(&self.name);
        let mut lines = Lines::default();
        lines.text("name", &self.name);
        lines.unusual("identity", &self.identity, &usual.identity);
        lines.unusual("state", &self.state, &usual_state(usual.state, self.etcd.as_ref()));
        lines.unusual("control", &self.control, &usual.control);
        lines.unusual("device", &self.device, &usual.device);
        lines.given("metrics", self.metrics);
        lines.unusual("heartbeat", &self.heartbeat, &usual.heartbeat);
        self.settings.write(&mut lines, "");
        if let Some(etcd) = &self.etcd {
            etcd.write(&mut lines);
        }
        if let Some(web) = &self.web {
            web.write(&mut lines);
        }
        lines.finish()
    }
}

/// Stands for all hosts in rules.
const ANY: &str = "any";

fn write_subnet(subnet: &Subnet, lines: &mut Lines, above: &str) {
    lines.heading(&format!("[[{above}subnet]]"));
    lines.value("prefix", &subnet.prefix);
    lines.given("gateway", subnet.gateway);
    if let Some((first, last)) = subnet.range {
        lines.text("range", &format!("{first}-{last}"));
        lines.value("lease", &Duration::from_secs(subnet.lease_s.into()));
    }
    lines.given("relay", subnet.relay);
    lines.given("group", subnet.group.as_ref());
    lines.value("dns", &subnet.dns[..]);
    lines.value("ntp", &subnet.ntp[..]);
    lines.given("domain", subnet.domain.as_ref());
    lines.given("mtu", subnet.mtu);
    lines.unusual("ra", &subnet.advertise, &false);
    lines.given("device", subnet.device.as_ref());
}

/// With etcd the file has another content.
fn usual_state(state: PathBuf, etcd: Option<&EtcdSettings>) -> PathBuf {
    if etcd.is_some() { state.with_extension("etcd") } else { state }
}

fn read_controller(root: &Section<'_>) -> Option<ControllerFile> {
    let problems = root.problems();
    let name = root.required_text("name", "\"c1\"");
    if let Some(name) = &name {
        problems.note(name.span.clone(), check_name("controller", name.value));
    }
    let usual = ControllerFile::new(name.map_or("", |n| n.value));
    let path = |key, usual: PathBuf| root.parsed(key, parse_path).map_or(usual, |p| p.value);
    let device = root.text("device");
    if let Some(device) = &device {
        problems.note(device.span.clone(), check_device(device.value));
    }
    let etcd = EtcdSettings::read(root);
    Some(ControllerFile {
        identity: path("identity", usual.identity),
        state: path("state", usual_state(usual.state, etcd.as_ref())),
        etcd,
        control: root.parsed("control", parse_socket_path).map_or(usual.control, |c| c.value),
        device: device.map_or(usual.device, |d| d.value.to_string()),
        metrics: root.parsed("metrics", parse_listen_address).map(|m| m.value),
        web: WebSettings::read(root),
        heartbeat: root.quantity_or("heartbeat", parse_heartbeat, usual.heartbeat),
        name: usual.name,
        settings: ControllerSettings::read(root),
    })
}

impl ControllerSettings {
    /// Writes the settings for [`ControllerSettings::read`]. `above` is the prefix of section
    /// names: empty, or `controller.` if the settings are in a `[[controller]]`.
    pub fn write(&self, lines: &mut Lines, above: &str) {
        let usual = ControllerSettings::default();
        lines.unusual("group_mac", &self.group_mac, &usual.group_mac);
        lines.value("policy", &self.policy);
        lines.unusual("balance", &self.balance, &Balance::Weights);
        lines.value("strangers_may_talk", &self.strangers_may_talk);
        lines.given("routes", self.routes_file.as_ref());
        self.limits.write(lines, above);
        self.subnets.iter().for_each(|subnet| write_subnet(subnet, lines, above));
        for r in &self.reservations {
            lines.heading(&format!("[[{above}reservation]]"));
            lines.value("mac", &r.mac);
            lines.value("ip", &r.ip);
        }
        for g in &self.groups {
            lines.heading(&format!("[[{above}group]]"));
            lines.text("name", &g.name);
            let ports: Vec<String> = g.ports.iter().map(|(n, p)| format!("{n}:{p}")).collect();
            lines.value("macs", &g.macs[..]);
            lines.value("ports", &ports[..]);
            lines.value("prefixes", &g.prefixes[..]);
        }
        for (heading, rules) in [("allow", &self.allow), ("deny", &self.deny)] {
            for rule in rules {
                lines.heading(&format!("[[{above}{heading}]]"));
                lines.text("from", rule.from.as_deref().unwrap_or(ANY));
                lines.text("to", rule.to.as_deref().unwrap_or(ANY));
            }
        }
        for route in &self.routes {
            lines.heading(&format!("[[{above}route]]"));
            lines.value("prefix", &route.prefix);
            lines.value("via", &route.via);
        }
        for forwarder in &self.forwarders {
            lines.heading(&format!("[[{above}forwarder]]"));
            lines.text("node", &forwarder.node);
            lines.unusual("weight", &forwarder.weight, &1);
        }
        for class in &self.classes {
            class.write(lines, &format!("[[{above}class]]"));
        }
        if let Some(copies) = &self.copies {
            lines.heading(&format!("[{above}partition]"));
            lines.value("copies", copies);
        }
        for rule in &self.multicast {
            lines.heading(&format!("[[{above}multicast]]"));
            lines.value("groups", &rule.groups);
            lines.value("members", &rule.members);
        }
        for revoked in &self.revoked {
            lines.heading(&format!("[[{above}revoked]]"));
            lines.text("name", &revoked.name);
            lines.text("key", &hex(&revoked.key));
        }
        for node in &self.drained {
            lines.heading(&format!("[[{above}drained]]"));
            lines.text("node", node);
        }
    }

    /// Reads the settings from the section that holds them.
    pub fn read(root: &Section<'_>) -> ControllerSettings {
        let mut settings = ControllerSettings::default();
        settings.group_mac = read_mac(root, "group_mac").map_or(settings.group_mac, |m| m.value);
        settings.policy = root.choice_or("policy", &RoutePolicy::NAMES, settings.policy);
        if let Some(talk) = root.flag("strangers_may_talk") {
            settings.strangers_may_talk = talk.value;
        }
        settings.routes_file = root.parsed("routes", parse_path).map(|path| path.value);
        if let Some(section) = root.section("limits", "limits") {
            settings.limits = ControllerLimits::read(&section);
        }
        settings.groups = read_groups(root);
        let names: Vec<String> = settings.groups.iter().map(|g| g.name.clone()).collect();
        let mut servers = Vec::new();
        settings.subnets = read_subnets(root, &names, &mut servers);
        settings.reservations = read_reservations(root, &settings.subnets);
        pin_servers(root, servers, &settings.reservations);
        settings.allow = read_rules(root, "allow", &names);
        settings.deny = read_rules(root, "deny", &names);
        settings.multicast = read_multicast(root);
        settings.routes = read_routes(root, &settings.subnets, &settings.reservations);
        settings.forwarders = read_forwarders(root, &settings.subnets);
        settings.balance = root.choice_or("balance", &Balance::NAMES, settings.balance);
        settings.classes = read_classes(root, &settings.subnets, &settings.reservations);
        settings.copies = read_copies(root, settings.forwarders.len());
        settings.revoked = read_revoked(root);
        settings.drained = read_drained(root);
        settings
    }
}

pub(crate) fn parse_path(text: &str) -> Result<PathBuf, ValueError> {
    if text.is_empty() || text.contains('\0') {
        return Err(ValueError::new("this is no path", "write the path of a file"));
    }
    Ok(PathBuf::from(text))
}

pub(crate) fn parse_ip<T: std::str::FromStr>(text: &str, example: &str) -> Result<T, ValueError> {
    let help = format!("write an address such as {example:?}");
    text.parse().map_err(|_| ValueError::new(format!("{} is no address here", quote(text)), help))
}

fn parse_range(text: &str) -> Result<(Ipv4Addr, Ipv4Addr), ValueError> {
    let help = "write the first and the last address, as in \"10.0.0.100-10.0.0.199\"";
    let parts = text.split_once('-');
    let parsed = parts.and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    let Some((first, last)): Option<(Ipv4Addr, Ipv4Addr)> = parsed else {
        return Err(ValueError::new("this is no range of IPv4 addresses", help));
    };
    match last.to_bits().checked_sub(first.to_bits()) {
        None => Err(ValueError::new("the range ends before it begins", help)),
        Some(more) if more >= POOL_MAX => {
            Err(ValueError::new(format!("the range has more than {POOL_MAX} addresses"), help))
        }
        Some(_) => Ok((first, last)),
    }
}

/// The subnets; the DHCP servers that they name go into `servers`.
fn read_subnets(
    root: &Section<'_>,
    groups: &[String],
    servers: &mut Vec<At<Ipv4Addr>>,
) -> Vec<Subnet> {
    let mut subnets: Vec<Subnet> = Vec::new();
    for section in root.sections("subnet", "a subnet") {
        let subnet = read_subnet(&section, groups, servers);
        let Some(subnet) = subnet else { continue };
        let (a, b) = (subnet.prefix, subnet.prefix.addr());
        let other = subnets.iter().find(|s| s.prefix.contains(b) || a.contains(s.prefix.addr()));
        if let Some(other) = other {
            let message = format!("{a} overlaps with {}", other.prefix);
            root.problems().add(section.span(), message, "keep networks apart");
        }
        subnets.push(subnet);
    }
    subnets
}

fn read_subnet(
    section: &Section<'_>,
    groups: &[String],
    servers: &mut Vec<At<Ipv4Addr>>,
) -> Option<Subnet> {
    let problems = section.problems();
    let prefix = section.require("prefix", "\"10.0.0.0/24\"").parsed("prefix", parse_prefix);
    let none = Prefix::host(Ipv4Addr::UNSPECIFIED.into());
    let mut subnet = Subnet::new(prefix.as_ref().map_or(none, |p| p.value));
    let inside = |what: &str, at: crate::error::Span, ip: IpAddr| {
        let known = prefix.as_ref().map(|p| p.value);
        if let Some(prefix) = known.filter(|p| !p.contains(ip)) {
            let help = format!("{prefix} ends with {}", prefix.last());
            problems.add(at, format!("{what} {ip} is not in {prefix}"), help);
        }
    };
    let is_v4 = subnet.prefix.addr().is_ipv4();
    if let Some(gateway) = section.parsed("gateway", |t| parse_ip::<IpAddr>(t, "10.0.0.1")) {
        let is_edge = |p: Prefix| p.len() < 31 && [p.addr(), p.last()].contains(&gateway.value);
        if gateway.value.is_ipv4() && is_edge(subnet.prefix) {
            let message =
                format!("{} is the network's own address, or its broadcast address", gateway.value);
            problems.add(gateway.span.clone(), message, "take an address between the two");
        }
        inside("gateway", gateway.span, gateway.value);
        subnet.gateway = Some(gateway.value);
    }
    if let Some(At { value: (first, last), span }) = section.parsed("range", parse_range) {
        inside("the range's first address", span.clone(), first.into());
        inside("the range's last address", span.clone(), last.into());
        if subnet.gateway.is_none() {
            let help = "add gateway = \"…\", the address under which the server is known";
            problems.add(span, "a network with a range needs a gateway", help);
        }
        subnet.range = Some((first, last));
    }
    if let Some(relay) = section.parsed("relay", |t| parse_ip::<Ipv4Addr>(t, "10.0.0.53")) {
        inside("the DHCP server", relay.span.clone(), relay.value.into());
        let wrong = match subnet.gateway {
            _ if subnet.range.is_some() => Some("a network is leased from its range, or relayed"),
            None => Some("a network with a relay needs a gateway: the server answers to it"),
            Some(gateway) if gateway == relay.value => Some("the group cannot relay to itself"),
            Some(_) => None,
        };
        if let Some(wrong) = wrong {
            let help = "write prefix, gateway and relay = \"…\", the address of a host";
            problems.add(relay.span.clone(), wrong, help);
        }
        subnet.relay = Some(relay.value);
        servers.push(relay);
    }
    if let Some(group) = section.text("group") {
        if !groups.iter().any(|g| g == group.value) {
            let names = groups.iter().map(String::as_str);
            problems.unknown(group.span, "group", group.value, names);
        }
        subnet.group = Some(group.value.to_string());
    }
    subnet.dns = section.list("dns", |t| parse_ip(t, "10.0.0.1")).unwrap_or_default();
    subnet.ntp = section.list("ntp", |t| parse_ip(t, "10.0.0.1")).unwrap_or_default();
    subnet.domain = section.parsed("domain", parse_domain).map(|domain| domain.value);
    subnet.lease_s = section.quantity_or("lease", parse_lease, subnet.lease_s);
    // No link of IPv6 has less than 1280 (RFC 8200, 5).
    let least = if is_v4 { 576 } else { 1280 };
    let mtu = section.integer("mtu", least..=SUBNET_MTU.into());
    subnet.mtu = mtu.map(|m| m.value as u16);
    if let Some(ra) = section.flag("ra") {
        let suits = !is_v4 && subnet.prefix.len() == 64;
        if ra.value && !suits {
            let help = "hosts make addresses in prefixes such as \"fd00::/64\" (RFC 4862, 5.5.3)";
            problems.add(ra.span, "only IPv6 prefixes of 64 bits are advertised", help);
        }
        subnet.advertise = ra.value;
    }
    if let Some(device) = section.parsed("device", parse_kernel_device) {
        if subnet.gateway.is_none() {
            let help = "add gateway = \"…\", the address that the device gets";
            let message = "a network whose routing daemons have a device needs a gateway";
            problems.add(device.span, message, help);
        }
        subnet.device = Some(device.value);
    }
    prefix.is_some().then_some(subnet)
}

fn parse_domain(text: &str) -> Result<String, ValueError> {
    let label = |l: &str| {
        (1..=63).contains(&l.len()) && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    if text.len() > 253 || !text.split('.').all(label) {
        let message = format!("{} is no domain name", quote(text));
        return Err(ValueError::new(message, "write a name such as \"lab.example\""));
    }
    Ok(text.to_string())
}

fn parse_lease(text: &str) -> Result<u32, ValueError> {
    let duration = parse_duration(text)?;
    let whole = duration.subsec_nanos() == 0;
    match u32::try_from(duration.as_secs()) {
        Ok(seconds @ 60..=31_536_000) if whole => Ok(seconds),
        _ => Err(ValueError::new(
            format!("a lease cannot last {}", format_duration(duration)),
            "write whole seconds, from \"60s\" to a year",
        )),
    }
}

fn read_reservations(root: &Section<'_>, subnets: &[Subnet]) -> Vec<Reservation> {
    let (mut found, mut macs, mut ips) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for section in root.sections("reservation", "a reservation") {
        let mac = read_mac(section.require("mac", "\"02:00:00:00:00:01\""), "mac");
        let ip = section.require("ip", "\"10.0.0.50\"");
        let ip = ip.parsed("ip", |t| parse_ip::<Ipv4Addr>(t, "10.0.0.50"));
        if let (Some(mac), Some(ip)) = (mac, ip) {
            let problems = root.problems();
            if !macs.insert(mac.value) {
                let message = format!("{} has two reservations", mac.value);
                problems.add(mac.span, message, "a host has one address");
            }
            if !ips.insert(ip.value) {
                let message = format!("{} is reserved twice", ip.value);
                problems.add(ip.span.clone(), message, "an address is for one host");
            }
            if !subnets.iter().any(|s| s.prefix.contains(ip.value.into()) && s.gateway.is_some()) {
                let message = format!("{} is in no subnet that has a gateway", ip.value);
                problems.add(ip.span.clone(), message, "add [[subnet]] with prefix and gateway");
            }
            let at = IpAddr::from(ip.value);
            let own = |s: &Subnet| {
                let edges = [s.prefix.addr(), s.prefix.last()];
                s.gateway == Some(at) || s.prefix.len() < 31 && edges.contains(&at)
            };
            if subnets.iter().any(|s| s.prefix.contains(at) && own(s)) {
                let message =
                    format!("{at} is the gateway, or the network's own or broadcast address");
                problems.add(ip.span, message, "reserve another address");
            }
            found.push(Reservation { mac: mac.value, ip: ip.value });
        }
    }
    found
}

fn read_forwarders(root: &Section<'_>, subnets: &[Subnet]) -> Vec<Forwarder> {
    let mut forwarders: Vec<Forwarder> = Vec::new();
    for section in root.sections("forwarder", "a forwarder") {
        let node = section.required_text("node", "\"n1\"");
        let weight = section.integer_or("weight", 1..=FORWARDERS_MAX as u64, 1_u8);
        let Some(node) = node else { continue };
        let places: usize = forwarders.iter().map(|f| usize::from(f.weight)).sum();
        if forwarders.iter().any(|f| f.node == node.value) {
            let message = format!("{} is there twice", quote(node.value));
            root.problems().add(node.span, message, "give it a weight");
        } else if places + usize::from(weight) > FORWARDERS_MAX {
            let message = format!("the weights of all forwarders are more than {FORWARDERS_MAX}");
            root.problems().add(section.span(), message, "use smaller weights, or fewer nodes");
        } else if subnets.iter().all(|s| s.gateway.is_none()) {
            let message = "no subnet has a gateway: there is nothing to route";
            root.problems().add(section.span(), message, "give [[subnet]] a gateway");
        }
        forwarders.push(Forwarder { node: node.value.to_string(), weight });
    }
    forwarders
}

/// How many of so many forwarders hold each part of the table.
fn read_copies(root: &Section<'_>, forwarders: usize) -> Option<u8> {
    let section = root.section("partition", "a partition")?;
    let At { value, span } =
        section.require("copies", "1").integer("copies", 1..=FORWARDERS_MAX as u64)?;
    let problems = root.problems();
    if forwarders == 0 {
        let message = "a table is shared out among forwarders, and there is none";
        problems.add(section.span(), message, "add [[forwarder]] with node, or remove it");
    } else if value > forwarders as u64 {
        let message = format!("{value} copies need as many forwarders, and there are {forwarders}");
        let help = "write fewer; without [partition] each forwarder has the whole table";
        problems.add(span, message, help);
    }
    Some(value as u8)
}

/// A host with a server's address leases addresses to all others: so it has to be reserved for one
/// host.
fn pin_servers(root: &Section<'_>, servers: Vec<At<Ipv4Addr>>, reserved: &[Reservation]) {
    for At { value: server, span } in servers {
        if !reserved.iter().any(|r| r.ip == server) {
            let message = format!("any host could say that it is the DHCP server {server}");
            let help = format!("add [[reservation]] with ip = \"{server}\" and the server's mac");
            root.problems().add(span, message, help);
        }
    }
}

/// The text of a controller's file, or of a common file, with the revoked keys that `others` have
/// and it lacks; `None` if it lacks none, or is no such file. An operator that goes back to an
/// earlier text takes no key back that was revoked since.
pub fn with_revoked(text: &str, others: &[&str]) -> Option<String> {
    let revoked = |text: &str| {
        let of_controller = ControllerFile::parse("", text).map(|file| file.settings.revoked);
        of_controller.or_else(|_| CommonFile::parse("", text).map(|file| file.revoked))
    };
    let mut known = revoked(text).ok()?;
    let mut new: Vec<Revoked> = Vec::new();
    // Whatever else is wrong in them, what they revoke counts.
    for other in others.iter().flat_map(|other| read_anyway(other, read_revoked)) {
        if known.iter().all(|known| known.key != other.key) {
            known.push(other.clone());
            new.push(other);
        }
    }
    if new.is_empty() {
        return None;
    }
    let list = read_anyway(text, |root| root.span_of("revoked"));
    let list = list.filter(|at| {
        let list = &text[at.clone()];
        list.starts_with('[') && !list.starts_with("[[")
    });
    if let Some(at) = list {
        // `revoked = [{ … }]`, which takes no `[[revoked]]` besides.
        let (before, rest) = text.split_at(at.start + 1);
        let entry = |r: &Revoked| {
            let name = toml::Value::from(r.name.as_str());
            format!("{{ name = {name}, key = \"{}\" }}, ", hex(&r.key))
        };
        return Some(format!("{before}{}{rest}", new.iter().map(entry).collect::<String>()));
    }
    let mut lines = Lines::default();
    for Revoked { name, key } in &new {
        lines.heading("[[revoked]]");
        lines.text("name", name);
        lines.text("key", &hex(key));
    }
    let end = if text.ends_with('\n') { "" } else { "\n" };
    Some(format!("{text}{end}{}", lines.finish()))
}

/// The nodes that routes avoid.
pub(crate) fn read_drained(root: &Section<'_>) -> Vec<String> {
    let drained = root.sections("drained", "a node that routes avoid");
    let drained = drained.iter().filter_map(|section| section.required_text("node", "\"n3\""));
    drained.map(|node| node.value.to_string()).collect()
}

/// The keys that nobody trusts any more.
pub(crate) fn read_revoked(root: &Section<'_>) -> Vec<Revoked> {
    let mut found = Vec::new();
    for section in root.sections("revoked", "a revoked key") {
        let name = section.required_text("name", "\"n3\"");
        let key = section.require("key", "\"(64 digits)\"").parsed("key", parse_key);
        match (name, key) {
            (Some(_), Some(key)) if found.len() == REVOKED_MAX => {
                let message = format!("there are more than {REVOKED_MAX} of these");
                let help = "make a new group: it trusts no key of this one";
                root.problems().add(key.span, message, help);
            }
            (Some(name), Some(key)) => {
                found.push(Revoked { name: name.value.to_string(), key: key.value });
            }
            _ => {}
        }
    }
    found
}

/// A public key, as `plexus identity list` shows it.
fn parse_key(text: &str) -> Result<[u8; 32], ValueError> {
    let help = "copy the key of the box from `plexus identity list`";
    decode(text)
        .map_err(|_| ValueError::new(format!("{} is no key: it has 64 digits", quote(text)), help))
}

fn read_groups(root: &Section<'_>) -> Vec<HostGroup> {
    let mut groups: Vec<HostGroup> = Vec::new();
    for section in root.sections("group", "a group") {
        let problems = section.problems();
        let name = section.required_text("name", "\"tenant-a\"");
        if let Some(name) = &name {
            let twice = groups.iter().any(|g| g.name == name.value);
            if name.value == ANY || twice {
                let message = format!("a group cannot be called {} here", quote(name.value));
                problems.add(name.span.clone(), message, "give each group its own name");
            } else {
                problems.note(name.span.clone(), check_name("group", name.value));
            }
        }
        groups.push(HostGroup {
            name: name.map_or("", |n| n.value).to_string(),
            macs: section.list("macs", parse_mac).unwrap_or_default(),
            ports: section.list("ports", parse_port).unwrap_or_default(),
            prefixes: section.list("prefixes", parse_prefix).unwrap_or_default(),
        });
    }
    groups
}

fn parse_mac(text: &str) -> Result<MacAddr, ValueError> {
    text.parse::<MacAddr>().map_err(|e| ValueError::new(quote(text), e.to_string()))
}

fn parse_port(text: &str) -> Result<(String, u8), ValueError> {
    let parts = text.rsplit_once(':');
    let port = parts.and_then(|(node, port)| Some((node, port.parse::<u8>().ok()?)));
    match port {
        Some((node, port @ 0..=253)) if !node.is_empty() => Ok((node.to_string(), port)),
        _ => {
            let help = "write the node's name and the port's number, as in \"s1:3\"";
            Err(ValueError::new(format!("{} is no port", quote(text)), help))
        }
    }
}

fn read_multicast(root: &Section<'_>) -> Vec<MulticastRule> {
    let mut rules = Vec::new();
    for section in root.sections("multicast", "a rule about multicast") {
        let groups = section.require("groups", "\"239.0.0.0/8\"").parsed("groups", parse_prefix);
        let members = section.require("members", "\"joined\"").choice("members", &Members::NAMES);
        if let (Some(At { value: groups, span }), Some(members)) = (groups, members) {
            let rule = MulticastRule { groups, members: members.value };
            if let Err(e) = check_multicast(&rule) {
                root.problems().add(span, e.message, e.help);
            } else if rules.len() == MULTICAST_RULES_MAX {
                let message = format!("there are more than {MULTICAST_RULES_MAX} of these");
                root.problems().add(span, message, "name larger prefixes");
            } else {
                rules.push(rule);
            }
        }
    }
    rules
}

fn check_multicast(rule: &MulticastRule) -> Result<(), ValueError> {
    let prefix = rule.groups;
    if !(prefix.addr().is_multicast() && prefix.last().is_multicast()) {
        return Err(ValueError::new(
            format!("{prefix} holds addresses that are no multicast groups"),
            "write a prefix within 224.0.0.0/4 or ff00::/8, such as \"239.0.0.0/8\"",
        ));
    }
    match rule.reserved() {
        None => Ok(()),
        Some(own) => Err(ValueError::new(
            format!("{prefix} holds {own}, which the fabric itself answers"),
            "neighbour discovery, IGMP and MLD work by it; name smaller prefixes without it",
        )),
    }
}

fn read_rules(root: &Section<'_>, key: &'static str, groups: &[String]) -> Vec<GroupRule> {
    let mut rules = Vec::new();
    for section in root.sections(key, "a rule") {
        let end = |key| {
            let name = section.required_text(key, "\"tenant-a\"")?;
            if name.value != ANY && !groups.iter().any(|g| g == name.value) {
                let names = groups.iter().map(String::as_str).chain([ANY]);
                section.problems().unknown(name.span, "group", name.value, names);
            }
            Some(name.value)
        };
        let name = |end: Option<&str>| end.filter(|n| *n != ANY).map(str::to_string);
        rules.push(GroupRule { from: name(end("from")), to: name(end("to")) });
    }
    rules
}
