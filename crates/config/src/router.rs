//! Settings of a router: its IP interfaces and its static routes.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use plexus_wire::address::{is_link_local, is_unicast};
use plexus_wire::{MacAddr, Prefix};

use crate::address::{InterfaceAddress, parse_route_prefix, read_addresses};
use crate::document::{At, Lines, Problems, Section, known_names};
use crate::error::{Span, ValueError, quote};
use crate::name::check_device;
use crate::port::read_mac;
use crate::settings::{PortSettings, PortUse, VlanMode};
use crate::words;

/// Most interfaces: each is a VLAN.
const INTERFACES_MAX: usize = 4000;
/// Most next hops of one route.
const NEXT_HOPS_MAX: usize = 64;
/// IPv6 needs 1280 (RFC 8200, 5); a smaller MTU is useless here.
const MTU: std::ops::RangeInclusive<u64> = 1280..=9200;
const ROUTES: std::ops::RangeInclusive<u64> = 1..=16_000_000;
const VLAN: std::ops::RangeInclusive<u64> = 1..=4094;

/// Settings of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterSettings {
    /// Its interfaces.
    pub interfaces: Vec<InterfaceSettings>,
    /// Its static routes.
    pub routes: Vec<StaticRoute>,
    /// A file of further static routes.
    pub routes_file: Option<PathBuf>,
    /// Every interface gets a device of the same name in the box's kernel, where routing daemons
    /// run, and the kernel's routes are followed. What those by other devices lead to, the kernel
    /// forwards, or not, as it is set up.
    pub kernel: bool,
    /// Most routes that are taken, of both IP versions together.
    pub routes_max: usize,
}

/// An IP interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceSettings {
    /// Its name, and that of the kernel's device.
    pub name: String,
    /// What it belongs to.
    pub place: InterfacePlace,
    /// Its addresses.
    pub addresses: Vec<InterfaceAddress>,
    /// Its Ethernet address; `None`: that of its port's device, or one made of the names.
    pub mac: Option<MacAddr>,
    /// Its longest IP packet, in bytes; `None`: as its port's device, 1500 for a VLAN.
    pub mtu: Option<u16>,
    /// Which packets are dropped for their source.
    pub reverse_path: ReversePath,
}

/// What an interface belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfacePlace {
    /// This port alone, which switches nothing.
    Port(String),
    /// This VLAN, and all ports that carry it.
    Vlan(u16),
}

/// Unicast reverse path forwarding (RFC 3704).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReversePath {
    /// Sources are not looked up.
    #[default]
    Off,
    /// There must be a route to the source.
    Loose,
    /// The route to the source must lead out by the same interface.
    Strict,
}

words!(ReversePath { Off = "off", Loose = "loose", Strict = "strict" });

/// A route of the box's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticRoute {
    /// Where it leads.
    pub prefix: Prefix,
    /// How.
    pub via: Via,
}

/// How a route leads where it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// By these neighbours, flows shared out among them.
    Gateways(Vec<Gateway>),
    /// Packets are dropped without a word.
    Blackhole,
    /// Packets are dropped; their senders are told that the destination is unreachable.
    Unreachable,
    /// Packets are dropped; their senders are told that it is prohibited.
    Prohibited,
}

/// A neighbour that a route's packets are sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Its address.
    pub address: IpAddr,
    /// The interface that it is at. Only a link-local address needs it, which every link has
    /// (RFC 4007, 11).
    pub interface: Option<String>,
}

impl fmt::Display for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        self.interface.as_ref().map_or(Ok(()), |interface| write!(f, "%{interface}"))
    }
}

impl Gateway {
    fn of(text: &str) -> Result<Gateway, String> {
        let (address, interface) = match text.split_once('%') {
            Some((address, interface)) => (address, Some(interface.to_string())),
            None => (text, None),
        };
        let Ok(address) = address.parse::<IpAddr>() else {
            return Err(format!("{} is no gateway", quote(text)));
        };
        if !is_unicast(address) {
            return Err(format!("{address} is no address of a neighbour"));
        }
        if interface.is_some() && !is_link_local(address) {
            return Err(format!(
                "{address} is no link-local address, which alone has an interface"
            ));
        }
        Ok(Gateway { address, interface })
    }
}

impl Via {
    /// Reads the end of a route: one of three words, or gateways.
    ///
    /// # Errors
    /// In words, when it is neither, or the gateways' IP version is not the route's.
    pub fn of(texts: &[&str], prefix: Prefix) -> Result<Via, String> {
        match texts {
            ["blackhole"] => return Ok(Via::Blackhole),
            ["unreachable"] => return Ok(Via::Unreachable),
            ["prohibited"] => return Ok(Via::Prohibited),
            [] => return Err("the route leads nowhere".into()),
            more if more.len() > NEXT_HOPS_MAX => {
                return Err(format!("a route has at most {NEXT_HOPS_MAX} gateways"));
            }
            _ => {}
        }
        let mut gateways: Vec<Gateway> = Vec::new();
        for text in texts {
            let gateway = Gateway::of(text)?;
            if prefix.addr().is_ipv6() && gateway.address.is_ipv4() {
                return Err(format!("{gateway} is an IPv4 address, the route is one of IPv6"));
            }
            if gateways.contains(&gateway) {
                return Err(format!("{gateway} is named twice"));
            }
            gateways.push(gateway);
        }
        Ok(Via::Gateways(gateways))
    }
}

impl RouterSettings {
    /// The usual settings, without interfaces.
    pub fn new() -> RouterSettings {
        RouterSettings {
            interfaces: Vec::new(),
            routes: Vec::new(),
            routes_file: None,
            kernel: false,
            routes_max: 2_000_000,
        }
    }

    /// Reads `[router]`, `[[interface]]` and `[[route]]` of a section; `None` if it has none of
    /// them. [`check`](Self::check) verifies that the interfaces' ports exist, and needs the
    /// positions of the interfaces.
    pub fn read(section: &Section<'_>) -> Option<(RouterSettings, Vec<Span>)> {
        let mut settings = RouterSettings::new();
        let router = section.section("router", "the router");
        let interfaces = section.sections("interface", "an interface");
        let routes = section.sections("route", "a route");
        let is_router = router.is_some() || !interfaces.is_empty() || !routes.is_empty();
        if let Some(router) = router {
            settings.kernel = router.is_set("kernel");
            settings.routes_file = router.text("routes").map(|r| r.value.into());
            settings.routes_max = router.integer_or("routes_max", ROUTES, settings.routes_max);
        }
        let mut names = HashSet::new();
        let mut spans = Vec::new();
        let mut owners = Owners::default();
        for interface in interfaces {
            if let Some(read) = read_interface(&interface, &mut names) {
                check_owners(&interface, &read, &mut owners);
                settings.interfaces.push(read);
                let place = interface.span_of("port").or_else(|| interface.span_of("vlan"));
                spans.push(place.unwrap_or(interface.span()));
            }
        }
        if settings.interfaces.len() > INTERFACES_MAX {
            let message = format!("there are more than {INTERFACES_MAX} interfaces");
            section.problems().add(section.span(), message, "each needs a VLAN of the box");
        }
        for section in routes {
            if let Some(route) = read_route(&section) {
                settings.check_gateways(&section, &route);
                settings.routes.push(route);
            }
        }
        is_router.then_some((settings, spans))
    }

    /// Holds the interfaces, read at these places, against the ports of their box, and each other.
    pub fn check(&self, spans: &[Span], names: &[&str], problems: &Problems) {
        let mut places = HashSet::new();
        for (interface, span) in self.interfaces.iter().zip(spans) {
            let place = match &interface.place {
                InterfacePlace::Port(port) if !names.contains(&port.as_str()) => {
                    problems.unknown(span.clone(), "port", port, names.iter().copied());
                    continue;
                }
                InterfacePlace::Port(port) => format!("port {}", quote(port)),
                InterfacePlace::Vlan(vlan) => format!("VLAN {vlan}"),
            };
            if !places.insert(place.clone()) {
                let message = format!("{place} has two interfaces");
                problems.add(span.clone(), message, "put all addresses on one of them");
            }
        }
    }

    /// Checks the interfaces of a node of a fabric against its ports, some of which are the
    /// fabric's.
    pub fn check_beside_fabric(
        &self,
        spans: &[Span],
        ports: &[(&str, PortUse, &PortSettings)],
        problems: &Problems,
    ) {
        for (interface, span) in self.interfaces.iter().zip(spans) {
            match &interface.place {
                InterfacePlace::Port(name) => {
                    let pinned =
                        ports.iter().find(|(port, ..)| *port == name).map(|(_, role, _)| *role);
                    if let Some(role @ (PortUse::Host | PortUse::Fabric)) = pinned {
                        let role = role.name();
                        let message = format!("port {} is the fabric's: {role}", quote(name));
                        problems.add(span.clone(), message, "take the port's role out");
                    }
                }
                InterfacePlace::Vlan(vlan) => {
                    let has_port = |(_, role, settings): &(&str, PortUse, &PortSettings)| {
                        *role == PortUse::Switch && settings.carries(*vlan)
                    };
                    if !ports.iter().any(has_port) {
                        let message = format!("no port outside of the fabric carries VLAN {vlan}");
                        let help = "give the VLAN's ports role = \"switch\"";
                        problems.add(span.clone(), message, help);
                    }
                }
            }
        }
    }

    /// Holds a route's gateways against the interfaces.
    fn check_gateways(&self, section: &Section<'_>, route: &StaticRoute) {
        let Via::Gateways(gateways) = &route.via else { return };
        for gateway in gateways {
            section.problems().note(section.near("via"), self.interface_to(gateway));
        }
    }

    /// The index in [`interfaces`](Self::interfaces) of the one that leads to a gateway.
    ///
    /// # Errors
    /// When none does, or several could.
    pub fn interface_to(&self, gateway: &Gateway) -> Result<usize, ValueError> {
        const HELP: &str = "a gateway is another box's address in the network of an interface here";
        let refuse = |why: &str, help: String| {
            Err(ValueError::new(format!("the gateway is {gateway}, {why}"), help))
        };
        let is_own =
            |i: &InterfaceSettings| i.addresses.iter().any(|a| a.address == gateway.address);
        let own = || refuse("which is the box's own address", HELP.into());
        if !is_link_local(gateway.address) {
            if self.interfaces.iter().any(is_own) {
                return own();
            }
            let is_near = |a: &&InterfaceAddress| a.network().contains(gateway.address);
            let nearest = |i: &InterfaceSettings| {
                i.addresses.iter().filter(is_near).map(|a| a.prefix_len).max()
            };
            // Of networks that lie within each other, the smallest is meant, as for packets.
            let near =
                self.interfaces.iter().zip(0..).filter_map(|(i, at)| Some((nearest(i)?, at)));
            return match near.max_by_key(|(prefix_len, _)| *prefix_len) {
                Some((_, at)) => Ok(at),
                None => refuse("which is in no network of an interface", HELP.into()),
            };
        }
        // With the kernel's device an interface has a link-local address in any case.
        let speaks =
            |i: &InterfaceSettings| self.kernel || i.addresses.iter().any(|a| a.address.is_ipv6());
        let speaking = |(at, i): (usize, &InterfaceSettings)| speaks(i).then_some(at);
        let at = match &gateway.interface {
            Some(name) => {
                let Some(at) = self.interfaces.iter().position(|i| i.name == *name) else {
                    let names = self.interfaces.iter().map(|i| i.name.as_str());
                    let why = format!("and there is no interface {}", quote(name));
                    return refuse(&why, known_names("interface", name, names));
                };
                if !speaks(&self.interfaces[at]) {
                    let help = format!("give {name} an IPv6 address");
                    return refuse("where the interface has no IPv6 address", help);
                }
                at
            }
            None => {
                let all: Vec<usize> =
                    self.interfaces.iter().enumerate().filter_map(speaking).collect();
                match all[..] {
                    [at] => at,
                    [] => return refuse("and no interface has an IPv6 address", HELP.into()),
                    [first, ..] => {
                        let name = &self.interfaces[first].name;
                        let help = format!("say at which, as in \"{gateway}%{name}\"");
                        return refuse("which could be at any of several interfaces", help);
                    }
                }
            }
        };
        if is_own(&self.interfaces[at]) { own() } else { Ok(at) }
    }

    /// The ports that switch nothing, and the settings they get: each a VLAN of its own, from the
    /// highest on that no other port carries. `None` if there are not enough.
    pub fn vlans(&self, ports: &[(&str, &PortSettings)]) -> Option<Vec<u16>> {
        let routed = |name: &str| {
            let of = |i: &InterfaceSettings| i.place == InterfacePlace::Port(name.to_string());
            self.interfaces.iter().any(of)
        };
        let bridged: Vec<&PortSettings> =
            ports.iter().filter(|(name, _)| !routed(name)).map(|(_, s)| *s).collect();
        let named = |vlan: u16| {
            let of = |i: &InterfaceSettings| i.place == InterfacePlace::Vlan(vlan);
            self.interfaces.iter().any(of)
        };
        let free = |vlan: &u16| !named(*vlan) && !bridged.iter().any(|s| s.carries(*vlan));
        let mut free = (1..=4094u16).rev().filter(free);
        let mut vlan_of = |i: &InterfaceSettings| match i.place {
            InterfacePlace::Vlan(vlan) => Some(vlan),
            InterfacePlace::Port(_) => free.next(),
        };
        self.interfaces.iter().map(&mut vlan_of).collect()
    }

    /// Writes what [`read`](Self::read) reads; `above` precedes each heading.
    pub fn write(&self, lines: &mut Lines, above: &str) {
        let usual = RouterSettings::new();
        lines.heading(&format!("[{above}router]"));
        lines.unusual("kernel", &self.kernel, &false);
        lines.given("routes", self.routes_file.as_ref());
        lines.unusual("routes_max", &self.routes_max, &usual.routes_max);
        for interface in &self.interfaces {
            lines.heading(&format!("[[{above}interface]]"));
            interface.write(lines);
        }
        for route in &self.routes {
            lines.heading(&format!("[[{above}route]]"));
            lines.value("prefix", &route.prefix);
            match &route.via {
                Via::Gateways(gateways) => lines.value("via", &gateways[..]),
                Via::Blackhole => lines.value("via", &["blackhole"][..]),
                Via::Unreachable => lines.value("via", &["unreachable"][..]),
                Via::Prohibited => lines.value("via", &["prohibited"][..]),
            }
        }
    }
}

impl Default for RouterSettings {
    fn default() -> RouterSettings {
        RouterSettings::new()
    }
}

impl InterfaceSettings {
    fn write(&self, lines: &mut Lines) {
        lines.text("name", &self.name);
        match &self.place {
            InterfacePlace::Port(port) => lines.text("port", port),
            InterfacePlace::Vlan(vlan) => lines.entry("vlan", vlan),
        }
        lines.list("address", &self.addresses);
        lines.given("mac", self.mac);
        lines.given("mtu", self.mtu);
        lines.unusual("reverse_path", &self.reverse_path, &ReversePath::Off);
    }
}

fn read_interface<'a>(
    section: &Section<'a>,
    names: &mut HashSet<&'a str>,
) -> Option<InterfaceSettings> {
    let problems = section.problems();
    let name = section.required_text("name", "\"lan\"");
    let port = section.text("port");
    let vlan = section.integer("vlan", VLAN);
    let addresses = read_addresses(section);
    let mac = read_mac(section, "mac");
    let mtu = section.integer("mtu", MTU);
    let reverse_path = section.choice_or("reverse_path", &ReversePath::NAMES, ReversePath::Off);
    let place = match (port, vlan) {
        (Some(port), None) => InterfacePlace::Port(port.value.to_string()),
        (None, Some(vlan)) => InterfacePlace::Vlan(vlan.value as u16),
        (Some(_), Some(vlan)) => {
            let help = "for one VLAN of a trunk write vlan = N alone: the trunk's port carries it";
            problems.add(vlan.span, "an interface is one of a port or of a VLAN", help);
            return None;
        }
        (None, None) => {
            if !section.has("port") && !section.has("vlan") {
                section.missing("port", "\"p1\" (or vlan = 10)");
            }
            return None;
        }
    };
    let At { value: name, span } = name?;
    problems.note(span.clone(), check_device(name))?;
    if !names.insert(name) {
        let message = format!("there are two interfaces {}", quote(name));
        problems.add(span, message, "give each interface its own name");
        return None;
    }
    Some(InterfaceSettings {
        name: name.to_string(),
        place,
        addresses,
        mac: mac.map(|m| m.value),
        mtu: mtu.map(|m| m.value as u16),
        reverse_path,
    })
}

/// Which interface has an address, or is on a network.
#[derive(Default)]
struct Owners {
    addresses: HashMap<IpAddr, String>,
    networks: HashMap<Prefix, String>,
}

/// Reports addresses of other interfaces, and overlaps with their networks: a packet to a host
/// there could leave by two interfaces, one of them wrong. One network may contain another.
/// Link-local networks are the same on every link.
fn check_owners(section: &Section<'_>, interface: &InterfaceSettings, owners: &mut Owners) {
    for own in &interface.addresses {
        if is_link_local(own.address) {
            continue;
        }
        let (address, network) = (own.address, own.network());
        if let Some(other) = owners.addresses.insert(address, interface.name.clone()) {
            let message = format!("{address} is an address of interface {} too", quote(&other));
            section.problems().add(
                section.near("address"),
                message,
                "an address is one interface's alone",
            );
            continue;
        }
        let other = owners.networks.insert(network, interface.name.clone());
        if let Some(other) = other.filter(|other| *other != interface.name) {
            let message = format!("interface {} is on {network} too", quote(&other));
            let help = "give each its own network, or make both ports one VLAN with one interface";
            section.problems().add(section.near("address"), message, help);
        }
    }
}

fn read_route(section: &Section<'_>) -> Option<StaticRoute> {
    let prefix = section.require("prefix", "\"0.0.0.0/0\"").parsed("prefix", parse_route_prefix);
    let via = section.require("via", "\"10.0.0.1\"").texts("via");
    let (prefix, via) = (prefix?.value, via?);
    let texts: Vec<&str> = via.iter().map(|t| t.value).collect();
    let help = "write gateways, as in [\"10.0.0.1\"], or one of \"blackhole\", \"unreachable\", \
                \"prohibited\"";
    let via = Via::of(&texts, prefix).map_err(|message| ValueError::new(message, help));
    let via = section.problems().note(section.near("via"), via)?;
    Some(StaticRoute { prefix, via })
}

/// A routed port's settings: the VLAN that is its own, where nothing is learned.
pub fn routed_port(settings: &PortSettings, vlan: u16) -> PortSettings {
    PortSettings { vlan: VlanMode::Access(vlan), learning: false, ..settings.clone() }
}
