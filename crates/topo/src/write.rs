//! Writes a topology as a file that reads back equal.

use plexus_config::document::{Lines, quoted};
use plexus_config::units::{format_duration, format_rate, format_size};
use plexus_config::{Backend, FaultSettings, LaneChoice, PortSettings};
use plexus_wire::MacAddr;

use crate::model::{
    Arrivals, Controller, Expect, Extent, Flow, Host, Link, MTU_USUAL, Node, NodePort, Proto,
    Target, Topology,
};

impl Topology {
    /// Writes the file: [`Topology::parse`] gives an equal value.
    pub fn to_toml(&self) -> String {
        let mut lines = Lines::default();
        lines.text("name", &self.name);
        if !self.description.is_empty() {
            lines.text("description", &self.description);
        }
        lines.entry("seed", self.seed);
        if self.lanes != LaneChoice::default() {
            lines.text("lanes", self.lanes.name());
        }
        self.fidelity.write(&mut lines);
        // Keys of the root come before the first section.
        if !self.assertions.is_empty() {
            let texts: Vec<String> =
                self.assertions.iter().map(|a| format!("    {},\n", quoted(&a.text))).collect();
            lines.entry("assert", format_args!("[\n{}]", texts.concat()));
        }
        for node in &self.nodes {
            write_node(node, &mut lines);
        }
        for controller in &self.controllers {
            self.write_controller(controller, &mut lines);
        }
        self.bridges.iter().for_each(|bridge| bridge.write(&mut lines));
        for host in &self.hosts {
            write_host(host, &mut lines);
        }
        for link in &self.links {
            self.write_link(link, &mut lines);
        }
        for flow in &self.traffic {
            self.write_flow(flow, &mut lines);
        }
        if let Some(arp) = &self.arp {
            arp.write(&mut lines);
        }
        for event in &self.events {
            self.write_event(event, &mut lines);
        }
        lines.finish()
    }

    fn write_controller(&self, controller: &Controller, lines: &mut Lines) {
        lines.heading("[[controller]]");
        lines.text("name", &controller.name);
        lines.text("on", &self.nodes[controller.node].name);
        controller.settings.write(lines, "controller.");
    }

    fn write_link(&self, link: &Link, lines: &mut Lines) {
        lines.heading("[[link]]");
        let [a, b] = link.cables[0].map(|end| quoted(&self.end_name(end)));
        lines.entry("ends", format_args!("[{a}, {b}]"));
        if link.cables.len() > 1 {
            lines.entry("lanes", link.cables.len());
        }
        if let Some(rate) = link.rate_bits_per_s {
            lines.text("rate", &format_rate(rate));
        }
        if !link.delay.is_zero() {
            lines.text("delay", &format_duration(link.delay));
        }
        if link.mtu != MTU_USUAL {
            lines.entry("mtu", link.mtu);
        }
        if link.loss != 0.0 {
            lines.entry("loss", format_args!("{:?}", link.loss));
        }
    }

    fn write_flow(&self, flow: &Flow, lines: &mut Lines) {
        lines.heading("[[traffic]]");
        lines.text("name", &flow.name);
        lines.text("from", &self.hosts[flow.from].name);
        match flow.to {
            Target::Host(host) => lines.text("to", &self.hosts[host].name),
            Target::Address(address) => lines.text("to", &address.to_string()),
        }
        lines.text("proto", flow.proto.name());
        if let Some(rate) = flow.rate_bits_per_s {
            lines.text("rate", &format_rate(rate));
        }
        match flow.extent {
            Extent::Bytes(bytes) => lines.text("bytes", &format_size(bytes)),
            Extent::Duration(duration) => lines.text("duration", &format_duration(duration)),
            Extent::Packets(count) => lines.entry("count", count),
        }
        if matches!(flow.proto, Proto::Udp | Proto::Icmp | Proto::Named) {
            lines.entry("size", flow.size);
        }
        if !flow.start.is_zero() {
            lines.text("start", &format_duration(flow.start));
        }
        if let Some(after) = flow.after {
            lines.text("after", &self.traffic[after].name);
        }
        if flow.verify {
            lines.entry("verify", true);
        }
        if let Some(congestion) = &flow.congestion {
            lines.text("congestion", congestion);
        }
        if flow.arrivals == Arrivals::Poisson {
            lines.text("arrivals", "poisson");
        }
        if let Some(dialogue) = &flow.dialogue {
            dialogue.write(lines);
        }
        if let Some(site) = &flow.site {
            site.write(lines);
        }
        if let Some(catalogue) = &flow.catalogue {
            catalogue.write(lines);
        }
        if flow.expect == Expect::Blocked {
            lines.text("expect", "blocked");
        }
    }
}

fn write_node(node: &Node, lines: &mut Lines) {
    lines.heading("[[node]]");
    lines.text("name", &node.name);
    if node.backend != Backend::Auto {
        lines.text("backend", node.backend.name());
    }
    if node.workers != 1 {
        lines.entry("workers", node.workers);
    }
    if node.native {
        lines.entry("native", true);
    }
    node.forwarding.write(lines);
    node.switch.write(lines);
    // Every port, settings or not: that keeps their order.
    for NodePort { name, role, settings, faults } in &node.ports {
        lines.heading("[[node.port]]");
        lines.text("name", name);
        role.write(lines);
        PortSettings::write(settings, lines);
        if let Some(faults) = faults {
            FaultSettings::write(faults, lines);
        }
    }
    if let Some(router) = &node.router {
        router.write(lines, "node.");
    }
    if let Some(named) = &node.named {
        named.write(lines, "node.");
    }
    node.daemons.iter().for_each(|daemon| daemon.write(lines));
    node.switch.write_static_macs("[[node.static_mac]]", lines);
}

fn write_host(host: &Host, lines: &mut Lines) {
    lines.heading("[[host]]");
    lines.text("name", &host.name);
    let addresses: Vec<String> = host.addresses.iter().map(|a| quoted(&a.to_string())).collect();
    match addresses.as_slice() {
        [] => {}
        [one] => lines.entry("address", one),
        several => lines.entry("address", format_args!("[{}]", several.join(", "))),
    }
    if host.dhcp {
        lines.entry("dhcp", true);
    }
    let gateways: Vec<String> = host.gateways.iter().map(|g| quoted(&g.to_string())).collect();
    match gateways.as_slice() {
        [] => {}
        [one] => lines.entry("gateway", one),
        several => lines.entry("gateway", format_args!("[{}]", several.join(", "))),
    }
    if host.mac != MacAddr::derived(&host.name, 0) {
        lines.text("mac", &host.mac.to_string());
    }
}
