//! Reads a topology file's `[[controller]]`, and checks what has to do with it.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::Path;

use plexus_config::document::{At, Section};
use plexus_config::error::{Span, quote};
use plexus_config::name::check_name;
use plexus_config::{ControllerSettings, LaneChoice, PortUse};
use plexus_wire::fabric::LINK_MTU_MIN;

use crate::event::ETCD_MEMBERS;
use crate::model::{
    CONTROLLER_DEVICE, CONTROLLER_PORT, Controller, Device, IN_BAND_PORTS, Link, NodePort, Topology,
};

/// Reads every `[[controller]]`; the nodes are known, hosts are not yet.
pub(crate) fn read_controllers(
    root: &Section<'_>,
    topology: &mut Topology,
    devices: &HashMap<String, Device>,
) {
    for section in root.sections("controller", "a controller") {
        let name = section.required_text("name", "\"c1\"");
        if let Some(At { value, span }) = &name {
            section.problems().note(span.clone(), check_name("controller", value));
            if devices.contains_key(*value) {
                let message = format!("there are two devices {}", quote(value));
                let help = "devices and controllers share their names: give each its own";
                section.problems().add(span.clone(), message, help);
            }
            if topology.controllers.iter().any(|c| c.name == *value) {
                let message = format!("there are two controllers {}", quote(value));
                section.problems().add(span.clone(), message, "give each its own name");
            }
        }
        let on = section.required_text("on", "\"n1\", the node that it is cabled to");
        let node = on.and_then(|at| match devices.get(at.value) {
            Some(Device::Node(node)) => Some(*node),
            _ => {
                let names = topology.nodes.iter().map(|n| n.name.as_str());
                section.problems().unknown(at.span, "node", at.value, names);
                None
            }
        });
        // All controllers of a group have the same settings.
        let settings = match topology.controllers.first() {
            None => ControllerSettings::read(&section),
            Some(first) => first.settings.clone(),
        };
        if let Some(node) = node
            && let Some(other) = topology.controllers.iter().find(|c| c.node == node)
        {
            let message = format!("controller {} is on this node already", quote(&other.name));
            let help = "put each controller on a node of its own";
            section.problems().add(section.span(), message, help);
        }
        let name = name.map_or("", |n| n.value).to_string();
        topology.controllers.push(Controller { name, node: node.unwrap_or(0), settings });
    }
}

/// Reads which lane flows take; the controllers are known.
pub(crate) fn read_lanes(root: &Section<'_>, topology: &mut Topology) {
    let Some(At { value, span }) = root.choice("lanes", &LaneChoice::NAMES) else { return };
    topology.lanes = value;
    if topology.controllers.is_empty() {
        let help = "add [[controller]], or remove it";
        root.problems().add(span, "only the nodes of a fabric choose among lanes", help);
    }
}

/// Reads whether etcd is in-band; the controllers are known.
pub(crate) fn read_in_band(root: &Section<'_>, topology: &mut Topology) {
    let Some(At { value: true, span }) = root.flag("etcd_in_band") else { return };
    topology.etcd_in_band = true;
    if topology.controllers.len() < ETCD_MEMBERS.len() {
        let help = "write three controllers or more: a member of etcd is beside each of three";
        root.problems().add(span, "too few controllers for etcd in-band", help);
    }
}

impl Topology {
    /// Files of routes are named as seen from this folder, that of the topology file.
    pub fn find_files(&mut self, folder: &Path) {
        let nodes = self.nodes.iter_mut().filter_map(|n| n.router.as_mut()?.routes_file.as_mut());
        let groups = self.controllers.iter_mut().filter_map(|c| c.settings.routes_file.as_mut());
        nodes.chain(groups).for_each(|file| *file = folder.join(&*file));
    }

    /// Devices of a node's kernel on which routing daemons speak for the group.
    pub fn kernel_devices(&self, node: usize) -> BTreeSet<String> {
        let on_it = self.controllers.iter().filter(|c| c.node == node);
        on_it.flat_map(|c| &c.settings.subnets).filter_map(|s| s.device.clone()).collect()
    }

    /// Whether a node is one of the fabric: not if all of its ports are interfaces of a router, or
    /// ports of a switch.
    pub fn is_fabric_node(&self, node: usize) -> bool {
        let of = &self.nodes[node];
        let in_fabric = |port: usize| of.ports[port].role != PortUse::Switch && !of.routes_at(port);
        !self.controllers.is_empty()
            && (self.controllers.iter().any(|c| c.node == node)
                || of.ports.is_empty()
                || (0..of.ports.len()).any(in_fabric))
    }

    /// Checks the host entered last, which asks for its address; `span` is where it says so.
    pub(crate) fn check_dhcp(&self, section: &Section<'_>, span: Span) {
        let problems = section.problems();
        let Some(host) = self.hosts.last() else { return };
        let Some(controller) = self.controllers.first() else {
            let help = "add [[controller]] with name, on and [[controller.subnet]]";
            return problems.add(span, "there is no controller to lease an address", help);
        };
        let mut leased = host.addresses.iter().filter(|a| a.address.is_ipv4());
        let (Some(address), None) = (leased.next(), leased.next()) else {
            let message = "a host with \"dhcp\" has one IPv4 address, which is reserved for it";
            return problems.add(span, message, "write address = \"10.0.0.1/24\"");
        };
        if host.gateways.iter().any(IpAddr::is_ipv4) {
            let at = section.span_of("gateway").unwrap_or(span.clone());
            problems.add(at, "the IPv4 gateway comes with the lease", "remove it");
        }
        let subnets = &controller.settings.subnets;
        let serves = |s: &&plexus_config::Subnet| {
            s.gateway.is_some()
                && s.prefix.contains(address.address)
                && s.prefix.len() == address.prefix_len
        };
        let at = section.span_of("address").unwrap_or(span);
        match subnets.iter().find(serves) {
            None => {
                let message = format!("the controller serves no subnet of {address}");
                let help = "add [[controller.subnet]] with this prefix and a gateway";
                problems.add(at, message, help);
            }
            Some(subnet) if subnet.gateway == Some(address.address) => {
                let message = format!("{} is the subnet's gateway", address.address);
                problems.add(at, message, "give the host an address of its own");
            }
            Some(_) => {}
        }
        let others = &self.hosts[..self.hosts.len() - 1];
        let other = others.iter().find(|h| h.leased_address() == host.leased_address());
        if let Some(other) = other {
            let message = format!("{} is reserved for {} already", address, quote(&other.name));
            problems.add(section.near("address"), message, "an address is for one host");
        }
    }

    /// The MTU of a link in use, in bytes: the nodes of a fabric raise that of the links between
    /// them to what these need.
    pub fn mtu_in_use(&self, link: &Link) -> u16 {
        let between_nodes = link.devices().iter().all(|d| matches!(d, Device::Node(_)));
        match !self.controllers.is_empty() && between_nodes {
            true => link.mtu.max(LINK_MTU_MIN),
            false => link.mtu,
        }
    }

    /// Checks what needs hosts and ports to be known.
    pub(crate) fn check_controllers(&self, root: &Section<'_>) {
        for controller in &self.controllers {
            let at = root.near("controller");
            let ports = self.nodes.get(controller.node).map_or(&[][..], |n| &n.ports);
            let in_band = IN_BAND_PORTS.iter().filter(|_| self.etcd_in_band);
            let taken = in_band.chain(&[CONTROLLER_PORT, CONTROLLER_DEVICE]);
            let is_taken = |port: &&NodePort| taken.clone().any(|name| *name == port.name);
            if let Some(port) = ports.iter().find(is_taken) {
                let message = format!("port {} is the controller's", quote(&port.name));
                root.problems().add(at.clone(), message, "give the node's port another name");
            }
            let names = || self.nodes.iter().map(|n| n.name.as_str());
            for forwarder in &controller.settings.forwarders {
                if !names().any(|name| name == forwarder.node) {
                    root.problems().unknown(at.clone(), "node", &forwarder.node, names());
                }
            }
            for reservation in &controller.settings.reservations {
                let (mac, ip) = (reservation.mac, Some(reservation.ip));
                let other = self.hosts.iter().find(|h| {
                    let leased = h.leased_address();
                    leased.is_some() && (h.mac == mac) != (leased == ip)
                });
                if let Some(host) = other {
                    let message = format!(
                        "the reservation of {} for {mac} is at odds with {}",
                        reservation.ip,
                        quote(&host.name)
                    );
                    let help = "remove it: hosts with \"dhcp\" have theirs by their \"address\"";
                    root.problems().add(at.clone(), message, help);
                }
            }
        }
    }
}
