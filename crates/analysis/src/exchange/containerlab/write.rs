//! Writes a topology definition.
//!
//! Containers have no management network: interfaces keep the names of the topology, `eth0` too,
//! and hosts have no second default route. Links have the extended form, which carries MTU and
//! Ethernet addresses. Rates, delays and losses are in the nodes' files; the copies in `vars` are
//! for the way back.

use std::fmt::Write as _;

use plexus_topo::{
    BRIDGE_DEVICE, CONTROLLER_DEVICE, CONTROLLER_PORT, Device, End, Host, Node, Topology,
};

use super::super::{Exported, facts};
use super::{ADDRESS_LABEL, KIND_LABEL};

/// The image that `make package` makes, by version and revision.
const IMAGE: &str = concat!("plexus:", env!("CARGO_PKG_VERSION"), "-1");
const HOST_IMAGE: &str = "alpine:3";

pub(in super::super) fn write(topology: &Topology) -> Exported {
    let name = yaml(&topology.name);
    let mut out = format!(
        "# Deploy it with `containerlab deploy --topo {0}.clab.yml`.\n\
         # Nodes and controllers read files beside this one, and\n\
         # `plexus topo export --format containerlab --out DIR` writes all.\n\
         # Load the image of Plexus first. Another image for all hosts: see groups.\n\
         name: {name}\ntopology:\n  defaults: {{network-mode: none}}\n  groups:\n",
        topology.name
    );
    let controllers = topology.controllers.get(..1).unwrap_or_default();
    for (kind, image, is_there) in [
        ("node", IMAGE, !topology.nodes.is_empty()),
        ("controller", IMAGE, !controllers.is_empty()),
        ("bridge", HOST_IMAGE, !topology.bridges.is_empty()),
        ("host", HOST_IMAGE, !topology.hosts.is_empty()),
    ] {
        if is_there {
            let _ = writeln!(
                out,
                "    {kind}: {{kind: linux, image: \"{image}\", labels: {{{KIND_LABEL}: {kind}}}}}"
            );
        }
    }
    out.push_str("  nodes:\n");
    for (index, node) in topology.nodes.iter().enumerate() {
        write_node(&mut out, node, topology.is_fabric_node(index));
    }
    for controller in controllers {
        let name = &controller.name;
        let _ = write!(
            out,
            "    {}:\n      group: controller\n      \
             cmd: controller run --config /etc/plexus/{name}.toml\n      binds:\n        \
             - \"{name}.toml:/etc/plexus/{name}.toml\"\n        \
             - \"{name}.identity:/etc/plexus/{name}.identity\"\n",
            yaml(name)
        );
    }
    for bridge in &topology.bridges {
        let mut lines = vec![format!("ip {}", bridge.ip_arguments())];
        let ports = bridge.ports.iter();
        lines.extend(ports.map(|port| format!("ip link set dev {port} master {BRIDGE_DEVICE}")));
        lines.push(format!("ip link set dev {BRIDGE_DEVICE} up"));
        let _ = writeln!(out, "    {}:\n      group: bridge", yaml(&bridge.name));
        write_exec(&mut out, &lines);
    }
    topology.hosts.iter().for_each(|host| write_host(&mut out, host));
    out.push_str("  links:");
    let mut has_links = false;
    for controller in controllers {
        has_links = true;
        let node = &topology.nodes[controller.node].name;
        let ends = [(&controller.name, CONTROLLER_DEVICE), (node, CONTROLLER_PORT)];
        write_ends(&mut out, &ends.map(|(box_, port)| endpoint(box_, port, "")));
        let _ = writeln!(out, "      mtu: {}", plexus_topo::MTU_USUAL);
    }
    for (link, _, ends) in topology.cables() {
        has_links = true;
        let ends = ends.map(|end| {
            let full = topology.end_name(end);
            let port = full.split_once('.').map_or("", |(_, port)| port);
            // Leases are reserved for a host's first interface.
            let mac = match end {
                End::Host { host, interface: 0 } => {
                    format!(", mac: \"{}\"", topology.hosts[host].mac)
                }
                _ => String::new(),
            };
            endpoint(topology.device_name(end.device()), port, &mac)
        });
        write_ends(&mut out, &ends);
        let _ = writeln!(out, "      mtu: {}", topology.links[link].mtu);
        write_vars(&mut out, topology, link);
    }
    out.push_str(if has_links { "" } else { " []\n" });
    Exported { text: out, notes: notes(topology) }
}

fn write_node(out: &mut String, node: &Node, in_fabric: bool) {
    let name = &node.name;
    let _ = write!(
        out,
        "    {}:\n      group: node\n      binds:\n        \
         - \"{name}.toml:/etc/plexus/node.toml\"\n",
        yaml(name)
    );
    if in_fabric {
        let _ = writeln!(out, "        - \"{name}.identity:/etc/plexus/{name}.identity\"");
    }
    if let Some(cpu) = node.cpu {
        let _ = writeln!(out, "      cpu: {cpu}");
    }
}

fn write_host(out: &mut String, host: &Host) {
    let _ = writeln!(out, "    {}:\n      group: host", yaml(&host.name));
    let Some(interface) = host.interfaces.first().map(|i| &i.name) else { return };
    let leased = host.leased_address();
    let is_leased = |address| leased.is_some_and(|leased| address == leased);
    let mut lines = Vec::new();
    for address in &host.addresses {
        if is_leased(address.address) {
            let _ = writeln!(out, "      labels: {{{ADDRESS_LABEL}: \"{address}\"}}");
        } else {
            lines.push(format!("ip address add {address} dev {interface}"));
        }
    }
    for gateway in &host.gateways {
        let version = if gateway.is_ipv6() { " -6" } else { "" };
        lines.push(format!("ip{version} route replace default via {gateway}"));
    }
    if host.forwards {
        lines.push("sysctl -w net.ipv4.ip_forward=1".to_string());
        lines.push("sysctl -w net.ipv6.conf.all.forwarding=1".to_string());
    }
    if leased.is_some() {
        // It asks again until the fabric has formed.
        lines.push(format!("udhcpc -b -i {interface}"));
    }
    write_exec(out, &lines);
}

fn write_exec(out: &mut String, lines: &[String]) {
    if !lines.is_empty() {
        out.push_str("      exec:\n");
        lines.iter().for_each(|line| *out += &format!("        - \"{line}\"\n"));
    }
}

fn endpoint(name: &str, port: &str, more: &str) -> String {
    format!("{{node: {}, interface: {}{more}}}", yaml(name), yaml(port))
}

fn write_ends(out: &mut String, ends: &[String; 2]) {
    // The list's key has no line end yet.
    if out.ends_with(':') {
        out.push('\n');
    }
    let [a, b] = ends;
    let _ = write!(out, "    - type: veth\n      endpoints:\n        - {a}\n        - {b}\n");
}

fn write_vars(out: &mut String, topology: &Topology, link: usize) {
    let facts = facts::of_link(topology, link).into_iter();
    let kept = facts.filter(|(name, _)| [facts::RATE, facts::DELAY, facts::LOSS].contains(name));
    let vars = kept.map(|(name, value)| match value {
        facts::Value::Text(text) => format!("{name}: {}", yaml(&text)),
        facts::Value::Integer(n) => format!("{name}: {n}"),
        facts::Value::Number(n) => format!("{name}: {n:?}"),
    });
    let vars = vars.collect::<Vec<_>>().join(", ");
    if !vars.is_empty() {
        let _ = writeln!(out, "      vars: {{{vars}}}");
    }
}

/// A name as YAML 1.1 and 1.2 both read it: as text.
fn yaml(name: &str) -> String {
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if begins_well && !WORDS.iter().any(|word| name.eq_ignore_ascii_case(word)) {
        return name.to_string();
    }
    format!("\"{name}\"")
}

/// Parts of the topology that the definition lacks.
fn notes(topology: &Topology) -> Vec<String> {
    let mut notes = Vec::new();
    if let [_, others @ ..] = &topology.controllers[..]
        && !others.is_empty()
    {
        let names: Vec<_> = others.iter().map(|c| c.name.as_str()).collect();
        let names = names.join(", ");
        notes.push(format!("left out: {names}; several controllers need etcd, which is not made"));
    }
    for node in &topology.nodes {
        if !node.daemons.is_empty() {
            notes.push(format!("{}: its routing daemons are left out", node.name));
        }
        let routes = node.router.as_ref().and_then(|router| router.routes_file.as_ref());
        notes
            .extend(routes.map(|f| format!("{}: bind its routes too: {}", node.name, f.display())));
    }
    for controller in topology.controllers.iter().take(1) {
        let routes = controller.settings.routes_file.iter();
        let bind = |f: &std::path::PathBuf| {
            format!("{}: bind its routes too: {}", controller.name, f.display())
        };
        notes.extend(routes.map(bind));
    }
    let has_node =
        |link: &plexus_topo::Link| link.devices().iter().any(|d| matches!(d, Device::Node(_)));
    let usual = |link: &plexus_topo::Link| {
        link.rate_bits_per_s.is_none() && link.delay.is_zero() && link.loss == 0.0
    };
    let without = topology.links.iter().filter(|l| !usual(l) && !has_node(l)).count();
    if without > 0 {
        notes.push(format!(
            "rate, delay and loss are made by nodes; links without a node have none ({without})"
        ));
    }
    if !topology.traffic.is_empty() || topology.arp.is_some() || !topology.events.is_empty() {
        notes.push("traffic, events and assertions are left out".to_string());
    }
    notes
}
