//! A minimal controller: it grants every claim and answers every question with a shortest path.
//! These tests are about the nodes; the real controller has its own.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;

use plexus_control::hub::{Hub, Output};
use plexus_wire::fabric::message::*;
use plexus_wire::{MacAddr, Time};

#[derive(Debug, Default)]
pub(crate) struct Controller {
    pub(crate) epoch: u64,
    attached: Option<(u64, u8)>,
    pub(crate) ports: BTreeMap<u64, BTreeMap<u8, PortState>>,
    generations: HashMap<u64, u64>,
    pub(crate) macs: HashMap<MacAddr, (u64, u8)>,
    pub(crate) ips: HashMap<IpAddr, MacAddr>,
    version: u64,
    pub(crate) reported: usize,
    pub(crate) said: Vec<(u64, Body)>,
    pub(crate) refuse: Option<Refusal>,
}

impl Controller {
    pub(crate) fn output(&mut self, now: Time, hub: &mut Hub, output: &Output) {
        match output {
            Output::Attached(to) => self.attached = to.as_ref().map(|n| (n.node, n.facts.port)),
            Output::Said { node, body } => self.said(now, hub, *node, body.clone()),
            _ => {}
        }
    }

    /// Hops from a node to another.
    fn path(&self, from: u64, to: u64) -> Option<Hops> {
        let mut queue = VecDeque::from([(from, vec![])]);
        let mut seen = vec![from];
        while let Some((at, hops)) = queue.pop_front() {
            if at == to {
                return Some(hops);
            }
            for (port, state) in self.ports.get(&at)? {
                let up = state.role == PortRole::Fabric && !seen.contains(&state.peer);
                let both = self.ports.get(&state.peer).and_then(|p| p.get(&state.peer_port));
                if up && both.is_some_and(|b| b.peer == at) {
                    seen.push(state.peer);
                    queue.push_back((state.peer, [&hops[..], &[*port]].concat()));
                }
            }
        }
        None
    }

    fn said(&mut self, now: Time, hub: &mut Hub, node: u64, body: Body) {
        self.said.push((node, body.clone()));
        match body {
            Body::ControllerHello(hello) => {
                let report = !self.ports.contains_key(&node);
                self.generations.insert(node, hello.generation);
                self.ports.insert(node, hello.ports.iter().map(|p| (p.port, p.clone())).collect());
                let (generation, page) = (hello.generation, hello.page);
                let welcome = Welcome {
                    epoch: self.epoch.max(2),
                    generation,
                    page,
                    report,
                    group_mac: MacAddr([2, 0xFF, 0, 0, 0, 1]),
                    gateways: vec![Gateway {
                        ip: "10.0.0.254".parse().unwrap(),
                        prefix_len: 24,
                        daemons: false,
                        mtu: 1500,
                    }],
                };
                hub.say(now, node, welcome.into(), false);
                if let Some((attached, port)) = self.attached {
                    for &node in self.ports.keys() {
                        let hops = self.path(attached, node);
                        let whole = |h: Hops| [&[0], &h[..], &[0xFF]].concat();
                        hub.set_path(node, hops.map(whole));
                        let _ = port;
                    }
                }
            }
            Body::HostSeen(HostSeen { port, mac, ip }) => {
                if self.refuse.is_none() {
                    self.macs.insert(mac, (node, port));
                    if let Some(ip) = ip {
                        self.ips.insert(ip, mac);
                    }
                }
                let verdict = HostVerdict { port, mac, ip, refused: self.refuse };
                hub.say(now, node, verdict.into(), true);
            }
            Body::HostGone(HostGone { mac, .. }) => {
                self.macs.remove(&mac);
            }
            Body::HostReport(report) => self.reported += report.hosts.len(),
            Body::ResolveRequest(r) => {
                let target = self.ips.get(&r.target_ip).copied();
                let place = target.and_then(|mac| Some((mac, *self.macs.get(&mac)?)));
                let Some((target_mac, (target_node, target_port))) = place else {
                    let failed =
                        ResolveFailed { exchange: r.exchange, reason: Refusal::UnknownTarget };
                    hub.say(now, node, failed.into(), true);
                    return;
                };
                let there = self.path(node, target_node);
                let back = self.path(target_node, node);
                let (Some(there), Some(back)) = (there, back) else { return };
                self.version += 1;
                let forward = ResolveForward {
                    exchange: r.exchange,
                    key: r.key,
                    version: self.version,
                    source_mac: r.source_mac,
                    source_ip: r.source_ip,
                    target_mac,
                    target_ip: r.target_ip,
                    target_port,
                    to_source: vec![[&back[..], &[r.port]].concat()],
                    to_target: vec![[&there[..], &[target_port]].concat()],
                };
                hub.say(now, target_node, forward.into(), false);
            }
            _ => {}
        }
    }
}
