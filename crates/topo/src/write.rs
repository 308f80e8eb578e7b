//! Writes a topology as a file that reads back equal.

use std::time::Duration;

use plexus_config::document::{Lines, Value, quoted};
use plexus_config::units::{format_rate, format_size};
use plexus_config::{Backend, FastTable, FaultSettings, LaneChoice, PortSettings, PortUse};
use plexus_wire::MacAddr;

use crate::fidelity::Fidelity;
use crate::model::{
    Arrivals, Controller, Expect, Extent, Flow, Host, Link, MTU_USUAL, Node, NodePort, Proto,
    Target, Topology,
};

impl Topology {
    /// Writes the file: [`Topology::parse`] gives an equal value.
    pub fn to_toml(&self) -> String {
        let mut lines = Lines::default();
        lines.text("name", &self.name);
        lines.unusual("description", self.description.as_str(), "");
        lines.entry("seed", self.seed);
        lines.unusual("lanes", &self.lanes, &LaneChoice::default());
        lines.unusual("etcd_in_band", &self.etcd_in_band, &false);
        lines.unusual("fidelity", &self.fidelity, &Fidelity::default());
        // Keys of the root come before the first section.
        if !self.assertions.is_empty() {
            let texts: Vec<String> =
                self.assertions.iter().map(|a| format!("    {},\n", quoted(&a.text))).collect();
            lines.entry("assert", format_args!("[\n{}]", texts.concat()));
        }
        for node in &self.nodes {
            write_node(node, &mut lines);
        }
        for (number, controller) in self.controllers.iter().enumerate() {
            self.write_controller(number, controller, &mut lines);
        }
        self.bridges.iter().for_each(|bridge| bridge.write(&mut lines));
        for host in &self.hosts {
            write_host(host, &mut lines);
        }
        for link in &self.links {
            self.write_link(link, &mut lines);
        }
        self.write_machines(&mut lines);
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

    fn write_controller(&self, number: usize, controller: &Controller, lines: &mut Lines) {
        lines.heading("[[controller]]");
        lines.text("name", &controller.name);
        lines.text("on", &self.nodes[controller.node].name);
        // All have the first one's settings.
        if number == 0 {
            controller.settings.write(lines, "controller.");
        }
    }

    fn write_link(&self, link: &Link, lines: &mut Lines) {
        lines.heading("[[link]]");
        let [a, b] = link.cables[0].map(|end| quoted(&self.end_name(end)));
        lines.entry("ends", format_args!("[{a}, {b}]"));
        lines.unusual("lanes", &link.cables.len(), &1);
        lines.given("rate", link.rate_bits_per_s.map(format_rate));
        lines.unusual("delay", &link.delay, &Duration::ZERO);
        lines.unusual("mtu", &link.mtu, &MTU_USUAL);
        lines.unusual("loss", &link.loss, &0.0);
    }

    fn write_flow(&self, flow: &Flow, lines: &mut Lines) {
        lines.heading("[[traffic]]");
        lines.text("name", &flow.name);
        lines.text("from", &self.hosts[flow.from].name);
        match flow.to {
            Target::Host(host) => lines.text("to", &self.hosts[host].name),
            Target::Address(address) => lines.value("to", &address),
        }
        lines.value("proto", &flow.proto);
        lines.given("rate", flow.rate_bits_per_s.map(format_rate));
        match flow.extent {
            Extent::Bytes(bytes) => lines.text("bytes", &format_size(bytes)),
            Extent::Duration(duration) => lines.value("duration", &duration),
            Extent::Packets(count) => lines.entry("count", count),
        }
        if matches!(flow.proto, Proto::Udp | Proto::Icmp | Proto::Named) {
            lines.entry("size", flow.size);
        }
        lines.unusual("start", &flow.start, &Duration::ZERO);
        lines.given("after", flow.after.map(|after| &self.traffic[after].name));
        lines.unusual("verify", &flow.verify, &false);
        lines.given("congestion", flow.congestion.as_ref());
        lines.unusual("arrivals", &flow.arrivals, &Arrivals::Even);
        if let Some(dialogue) = &flow.dialogue {
            dialogue.write(lines);
        }
        if let Some(site) = &flow.site {
            site.write(lines);
        }
        if let Some(catalogue) = &flow.catalogue {
            catalogue.write(lines);
        }
        lines.unusual("expect", &flow.expect, &Expect::Pass);
    }
}

fn write_node(node: &Node, lines: &mut Lines) {
    lines.heading("[[node]]");
    lines.text("name", &node.name);
    lines.unusual("backend", &node.backend, &Backend::Auto);
    lines.unusual("fast_table", &node.fast_table, &FastTable::default());
    lines.unusual("workers", &node.workers, &1);
    lines.given("cpu", node.cpu);
    lines.unusual("native", &node.native, &false);
    node.forwarding.write(lines);
    node.switch.write(lines);
    // Every port, settings or not: that keeps their order.
    for NodePort { name, role, settings, faults } in &node.ports {
        lines.heading("[[node.port]]");
        lines.text("name", name);
        lines.unusual("role", role, &PortUse::Auto);
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
    one_or_several(lines, "address", &host.addresses);
    lines.unusual("dhcp", &host.dhcp, &false);
    one_or_several(lines, "gateway", &host.gateways);
    lines.unusual("forward", &host.forwards, &false);
    lines.unusual("mac", &host.mac, &MacAddr::derived(&host.name, 0));
}

fn one_or_several<T: Value>(lines: &mut Lines, key: &str, values: &[T]) {
    match values {
        [one] => lines.value(key, one),
        several => lines.list(key, several),
    }
}
