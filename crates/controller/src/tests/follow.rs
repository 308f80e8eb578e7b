//! A core that follows: hosts as their nodes report them, and nothing promised.

use plexus_wire::Time;
use plexus_wire::fabric::message::{
    Body, ControllerHello, HostGone, HostReport, HostState, PortRole, PortState,
};

use super::net::{HOST_PORT, ip, mac};
use crate::{Config, Controller, Input, NodeId, Output};

/// Says what a node says, at once.
struct World {
    core: Controller,
    now: Time,
    sent: Vec<(NodeId, Body)>,
}

impl World {
    /// Two nodes, each with a host port.
    fn new() -> World {
        let core = Controller::follower(Config::default(), 7, Time::ZERO, [1; 32]);
        let mut world = World { core, now: Time::ZERO, sent: vec![] };
        for node in [1, 2] {
            world.begin(node, 1);
        }
        world
    }

    fn input(&mut self, input: Input) {
        self.core.handle(self.now, input);
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::Send { node, body, .. } => self.sent.push((node, body)),
                Output::Store { .. } | Output::Log(_) => panic!("a follower does that: {output:?}"),
                _ => {}
            }
        }
    }

    fn say(&mut self, node: NodeId, body: impl Into<Body>) {
        self.input(Input::Message { node, request: 0, body: body.into() });
    }

    /// A node's session begins, and it tells its ports.
    fn begin(&mut self, node: NodeId, generation: u64) {
        self.input(Input::NodeUp { node, name: format!("s{node}"), version: 2 });
        self.hello(node, generation);
    }

    fn hello(&mut self, node: NodeId, generation: u64) {
        let port = PortState {
            port: HOST_PORT,
            role: PortRole::Host,
            mac: mac(0),
            mtu: 1500,
            rate_mbit_per_s: 0,
            peer: 0,
            peer_port: 0,
        };
        self.say(node, ControllerHello { generation, page: 0, pages: 1, ports: vec![port] });
    }

    /// A node tells a host, of its whole report or as a change.
    fn host(&mut self, node: NodeId, host: u8, ips: &[u8], more: u16) {
        let ips = ips.iter().map(|n| ip(*n)).collect();
        let hosts = vec![HostState { port: HOST_PORT, mac: mac(host), ips }];
        self.say(node, HostReport { more, hosts });
    }

    fn place(&self, host: u8) -> Option<(NodeId, Vec<std::net::IpAddr>)> {
        let found = self.core.hosts().find(|h| h.mac == mac(host))?;
        Some((found.node, found.ips))
    }
}

#[test]
fn a_node_is_believed_about_its_own_hosts_alone() {
    let mut world = World::new();
    world.host(1, 9, &[9], 0);
    world.host(2, 8, &[8], 0);
    // The second node claims the first one's host, and its address for a host of its own.
    world.host(2, 9, &[9], u16::MAX);
    world.host(2, 8, &[8, 9], u16::MAX);
    assert_eq!(world.place(9), Some((1, vec![ip(9)])));
    assert_eq!(world.place(8), Some((2, vec![ip(8)])));
    // The leader answers for such a host. It has moved once its node says so.
    world.say(1, HostGone { port: HOST_PORT, mac: mac(9) });
    assert_eq!(world.place(9).map(|(node, _)| node), Some(2));
    // Addresses of the group, and of nobody, are no host's.
    let group = Config::default().group_mac;
    let hosts = vec![HostState { port: HOST_PORT, mac: group, ips: vec![ip(5)] }];
    world.say(2, HostReport { more: u16::MAX, hosts });
    assert!(world.core.hosts().all(|h| h.mac != group));
}

#[test]
fn a_node_cannot_fill_the_memory_of_a_follower() {
    let mut world = World::new();
    let limits = Config::default().limits;
    for n in 0..limits.stations_per_port as u64 + 50 {
        let mac = plexus_wire::MacAddr::from_u64(0x0200_0000_0000 + n);
        let hosts = vec![HostState { port: HOST_PORT, mac, ips: vec![] }];
        world.say(1, HostReport { more: u16::MAX, hosts });
    }
    assert_eq!(world.core.hosts().count(), limits.stations_per_port as usize);
}

#[test]
fn a_report_of_a_later_session_ends_the_hosts_that_it_does_not_name() {
    let mut world = World::new();
    for host in [3, 4] {
        world.host(1, host, &[host], u16::from(host == 3));
    }
    // Its keys are renewed, and meanwhile one of them has gone. Its Hellos are counted anew.
    world.begin(1, 1);
    assert!(world.place(3).is_some() && world.place(4).is_some(), "nothing is lost by that alone");
    world.host(1, 4, &[4], 0);
    world.hello(1, 2);
    assert_eq!((world.place(3), world.place(4)), (None, Some((1, vec![ip(4)]))));
    let promises = |body: &Body| !matches!(body, Body::Welcome(w) if w.epoch == 0);
    assert!(!world.sent.iter().any(|(_, body)| promises(body)), "{:?}", world.sent);
}
