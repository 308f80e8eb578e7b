//! What is cabled together: a flow between parts that are not, or a node that no cable leads to its
//! controller, is a slip of the file that a run would only show as silence.

use std::collections::HashMap;

use plexus_config::document::Section;
use plexus_config::error::{Span, quote};

use crate::loop_check::Joined;
use crate::model::{Device, End, Expect, Flow, HostsByAddress, Target, Topology};

/// What forwards to each other: a node or a bridge, or one interface of a host, for hosts forward
/// nothing from one to the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Box(Device),
    Interface(usize, usize),
}

/// The parts of a topology.
pub(crate) struct Reach {
    /// Of each place with a cable: the place that stands for its part.
    parts: HashMap<Place, Place>,
    hosts: HostsByAddress,
}

impl Reach {
    /// The parts that the links make.
    pub(crate) fn new(topology: &Topology) -> Reach {
        let place = |end: End| match end {
            End::Host { host, interface } => Place::Interface(host, interface),
            _ => Place::Box(end.device()),
        };
        let mut joined = Joined::default();
        let cables = || topology.cables().map(|(_, _, ends)| ends.map(place));
        for ends in cables() {
            joined.join(ends);
        }
        let parts = cables().flatten().map(|place| (place, joined.root(place))).collect();
        Reach { parts, hosts: HostsByAddress::new(topology) }
    }

    /// The part of a place; none without a cable.
    fn part_of(&self, place: Place) -> Option<Place> {
        self.parts.get(&place).copied()
    }

    fn parts_of_host(&self, topology: &Topology, host: usize) -> Vec<Place> {
        let interfaces = 0..topology.hosts[host].interfaces.len();
        interfaces.filter_map(|i| self.part_of(Place::Interface(host, i))).collect()
    }

    /// Notes a flow whose ends nothing joins, and says whether they are joined; a flow that is
    /// expected to be blocked may be blocked so.
    pub(crate) fn check_flow(
        &self,
        section: &Section<'_>,
        span: Span,
        topology: &Topology,
        flow: &Flow,
    ) -> bool {
        let to = match flow.to {
            Target::Host(host) => Some(host),
            Target::Address(address) => self.hosts.get(address),
        };
        let Some(to) = to.filter(|_| flow.expect != Expect::Blocked) else { return true };
        let [from, to] = [flow.from, to].map(|h| (h, self.parts_of_host(topology, h)));
        let is_joined = from.1.iter().any(|part| to.1.contains(part));
        if !is_joined {
            let [from, to] = [from, to].map(|(host, _)| quote(&topology.hosts[host].name));
            let message = format!("no cables lead from {from} to {to}");
            let help = "join their parts by a [[link]], or write expect = \"blocked\"";
            section.problems().add(span, message, help);
        }
        is_joined
    }

    /// Notes questions among hosts that nothing joins, which nobody could answer.
    pub(crate) fn check_questions(&self, root: &Section<'_>, topology: &Topology) {
        if topology.arp.is_none() {
            return;
        }
        let mut hosts = (0..topology.hosts.len()).map(|h| (h, self.parts_of_host(topology, h)));
        let Some((first, own)) = hosts.next() else { return };
        let apart = hosts.find(|(_, parts)| !parts.iter().any(|part| own.contains(part)));
        if let Some((other, _)) = apart {
            let [first, other] = [first, other].map(|h| quote(&topology.hosts[h].name));
            let message = format!("no cables lead from {first} to {other}, who is asked for too");
            let at = root.near("arp");
            root.problems().add(at, message, "join all hosts by [[link]]s, or take [arp] out");
        }
    }

    /// Notes hosts of one network that have the same IP address. In two VLANs it may be two hosts'.
    /// `spans`: where each host is written.
    pub(crate) fn check_addresses(&self, root: &Section<'_>, topology: &Topology, spans: &[Span]) {
        let mut vlans = HashMap::new();
        for (_, _, ends) in topology.cables() {
            for (end, other) in [(ends[0], ends[1]), (ends[1], ends[0])] {
                if let (End::Host { host, interface: 0 }, End::Port { node, port }) = (end, other) {
                    vlans.insert(host, &topology.nodes[node].ports[port].settings.vlan);
                }
            }
        }
        let mut owners = HashMap::new();
        for (host, facts) in topology.hosts.iter().enumerate() {
            let Some(part) = self.part_of(Place::Interface(host, 0)) else { continue };
            for at in &facts.addresses {
                let network = (part, vlans.get(&host).copied(), at.address);
                let Some(other) = owners.insert(network, host).filter(|other| *other != host)
                else {
                    continue;
                };
                let [a, b] = [other, host].map(|h| quote(&topology.hosts[h].name));
                let message = format!("{a} and {b} have the same address, {}", at.address);
                let at = spans.get(host).cloned().unwrap_or(root.span());
                root.problems().add(at, message, "give each host its own");
            }
        }
    }

    /// Notes a fabric whose controller has no way to every node.
    pub(crate) fn check_controllers(&self, root: &Section<'_>, topology: &Topology) {
        for controller in &topology.controllers {
            let part = |node| self.part_of(Place::Box(Device::Node(node)));
            let own = part(controller.node);
            let nodes = 0..topology.nodes.len();
            let mut apart =
                nodes.filter(|n| *n != controller.node && (part(*n) != own || own.is_none()));
            let Some(first) = apart.next() else { continue };
            let more = match apart.count() {
                0 => String::new(),
                1 => " and another node".to_string(),
                n => format!(" and {n} other nodes"),
            };
            let [first, on] = [first, controller.node].map(|n| quote(&topology.nodes[n].name));
            let message = format!(
                "no cables lead from {first}{more} to the controller {} on {on}",
                quote(&controller.name)
            );
            let at = root.near("controller");
            root.problems().add(at, message, "join the parts of the fabric by a [[link]]");
        }
    }
}
