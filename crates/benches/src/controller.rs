//! The controller's core in memory: a torus of nodes, hosts on each, and what it costs to give new
//! pairs of hosts their routes and to give the flows of a cut cable new ones.
//!
//! A route is what a host needs to reach another: one entry of its node's route memory, for one
//! direction. With equal-cost multipath it holds up to eight paths; those are counted apart.

use std::time::{Duration, Instant};

use plexus_config::{ControllerLimits, ControllerSettings, RoutePolicy};
use plexus_controller::{Controller, Input, NodeId, Output, Start};
use plexus_wire::fabric::message::{
    Body, ControllerHello, HostSeen, PortRole, PortState, ResolveRequest,
};
use plexus_wire::{MacAddr, Time};

use super::random::Random;
use super::{Effort, Row, Setting};

/// A torus of about 5,000 nodes.
const SIDES: [u32; 3] = [17, 17, 17];
/// Hosts of a node, as in the seed's topologies (§5).
const HOSTS: u32 = 10;
/// Ports below this lead to other nodes.
const HOST_PORT: u8 = 16;

const NOW: Time = Time::from_secs(1);

/// A controller that knows a torus and its hosts.
struct Torus {
    controller: Controller,
    sides: [u32; 3],
    random: Random,
    exchange: u64,
    /// Paths in the routes of all requests.
    paths: u64,
}

impl Torus {
    fn new(policy: RoutePolicy, effort: Effort) -> Torus {
        let sides = if effort.shrink > 1 { [3, 3, 3] } else { SIDES };
        let limits = ControllerLimits { scan_flows: 1 << 20, ..ControllerLimits::default() };
        let config = ControllerSettings { policy, limits, ..ControllerSettings::default() };
        let start = Start {
            config,
            epoch: 1,
            provisional: false,
            now: NOW,
            unix_s: 0,
            stored: Vec::new(),
            seed: [1; 32],
        };
        let controller = Controller::new(start);
        let random = Random(88_172_645_463_325_252);
        let mut torus = Torus { controller, sides, random, exchange: 0, paths: 0 };
        torus.input(Input::Attached { to: Some(id(0)) });
        for node in 0..torus.nodes() {
            torus.input(Input::NodeUp { node: id(node), name: format!("s{node}"), version: 1 });
        }
        for node in 0..torus.nodes() {
            torus.hello(node, 1, None);
        }
        for host in 0..torus.nodes() * HOSTS {
            let (node, port) = place(host);
            let seen = HostSeen { port, mac: mac(host), ip: Some(ip(host)) };
            torus.message(node, seen);
        }
        torus
    }

    fn nodes(&self) -> u32 {
        self.sides.iter().product()
    }

    /// The neighbour at a port: two ports for each dimension, up and down.
    fn neighbour(&self, node: u32, port: u8) -> (u32, u8) {
        let dimension = usize::from(port / 2);
        let stride: u32 = self.sides[..dimension].iter().product();
        let side = self.sides[dimension];
        let at = node / stride % side;
        let next = if port.is_multiple_of(2) { (at + 1) % side } else { (at + side - 1) % side };
        (node - at * stride + next * stride, port ^ 1)
    }

    /// A node reports its ports, one of them perhaps without a cable; counts as [`Torus::input`].
    fn hello(&mut self, node: u32, generation: u64, cut: Option<u8>) -> u64 {
        let state = |port, role, peer, peer_port| PortState {
            port,
            role,
            mac: MacAddr::default(),
            mtu: 2000,
            rate_mbit_per_s: 10_000,
            peer,
            peer_port,
        };
        let fabric = (0..6_u8).map(|port| {
            let (peer, peer_port) = self.neighbour(node, port);
            match cut == Some(port) {
                true => state(port, PortRole::Down, 0, 0),
                false => state(port, PortRole::Fabric, id(peer), peer_port),
            }
        });
        let hosts = (0..HOSTS).map(|h| state(HOST_PORT + h as u8, PortRole::Host, 0, 0));
        let ports = fabric.chain(hosts).collect();
        self.message(node, ControllerHello { generation, page: 0, pages: 1, ports })
    }

    fn message(&mut self, node: u32, body: impl Into<Body>) -> u64 {
        self.input(Input::Message { node: id(node), request: 1, body: body.into() })
    }

    /// Hands an input over and throws the outputs away; counts the routes that they carry.
    fn input(&mut self, input: Input) -> u64 {
        self.controller.handle(NOW, input);
        let mut routes = 0;
        while let Some(output) = self.controller.poll_output() {
            routes += match output {
                Output::Send { body: Body::ResolveForward(forward), .. } => {
                    self.paths += (forward.to_source.len() + forward.to_target.len()) as u64;
                    2
                }
                Output::Send { body: Body::RouteUpdate(update), .. } => update.routes.len() as u64,
                _ => 0,
            };
        }
        routes
    }

    /// A random host asks for another: two new routes.
    fn resolve(&mut self) -> u64 {
        let hosts = u64::from(self.nodes() * HOSTS);
        let mut draw = || ((self.random.next() >> 32) % hosts) as u32;
        let (from, to) = (draw(), draw());
        self.ask(from, to)
    }

    fn ask(&mut self, from: u32, to: u32) -> u64 {
        self.exchange += 1;
        let (node, port) = place(from);
        let ask = ResolveRequest {
            exchange: self.exchange,
            key: [0; 32],
            port,
            source_mac: mac(from),
            source_ip: ip(from),
            target_ip: ip(to),
        };
        self.message(node, ask)
    }

    /// Cuts the cable at a node's first port, as its node reports it, and mends it again; returns
    /// the flows that were given new routes and the time until they were ready to be sent.
    fn cut(&mut self, node: u32, generation: u64) -> (u64, Duration) {
        let start = Instant::now();
        let flows = self.hello(node, generation, Some(0));
        let time = start.elapsed();
        self.hello(node, generation + 1, None);
        (flows, time)
    }
}

const POLICIES: [(&str, RoutePolicy); 3] = [
    ("shortest", RoutePolicy::Shortest),
    ("ecmp", RoutePolicy::Ecmp),
    ("spain", RoutePolicy::Spain),
];

/// New routes per second, and the paths in them: requests of random pairs, each of which is given
/// two routes.
pub(super) fn routes(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let runs = setting.effort.runs;
    let mut rows = Vec::new();
    for (policy, kind) in POLICIES {
        let mut torus = Torus::new(kind, setting.effort);
        let mut paths_per_s = Vec::new();
        let turn = || {
            let (start, paths, mut routes) = (Instant::now(), torus.paths, 0);
            while routes == 0 || start.elapsed() < setting.effort.time {
                for _ in 0..64 {
                    routes += torus.resolve();
                }
            }
            let per_s = |count: u64| count as f64 / start.elapsed().as_secs_f64() / 1e3;
            paths_per_s.push(per_s(torus.paths - paths));
            Ok((per_s(routes), None))
        };
        rows.push(Row::measure(&format!("{name}-{policy}"), "kroutes/s", None, runs, turn)?);
        let turns = paths_per_s.into_iter().map(|paths| (paths, None)).collect();
        rows.push(Row::of_turns(&format!("{name}-{policy}-paths"), "kpaths/s", None, turns));
    }
    Ok(rows)
}

/// Time until the flows of a cut cable have new routes, for 4,000 flows: those of the hosts along
/// one line of the torus, and whatever of five random flows per host crosses the cable.
pub(super) fn failure(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    const FLOWS: f64 = 4000.0;
    let row = |(policy, kind): (&str, RoutePolicy)| {
        let mut torus = Torus::new(kind, setting.effort);
        for _ in 0..5 * u64::from(torus.nodes() * HOSTS) {
            torus.resolve();
        }
        let (side, middle) = (torus.sides[0], (torus.sides[0] - 1) / 2 / 2);
        let (mut line, mut generation) = (0, 2);
        let turn = || {
            let first = line * side;
            line = (line + 1) % (torus.nodes() / side);
            let hosts = |from: u32, to: u32| (first + from) * HOSTS..(first + to) * HOSTS;
            for from in hosts(0, middle + 1) {
                for to in hosts(middle + 1, 2 * (middle + 1)) {
                    torus.ask(from, to);
                }
            }
            let (flows, time) = torus.cut(first + middle, generation);
            generation += 2;
            if flows == 0 {
                return Err("no flow crosses the cable".into());
            }
            Ok((time.as_secs_f64() * 1e3 * FLOWS / flows as f64, None))
        };
        let runs = setting.effort.runs;
        Row::measure(&format!("{name}-{policy}"), "ms/4000 flows", None, runs, turn)
    };
    POLICIES.into_iter().map(row).collect()
}

fn id(node: u32) -> NodeId {
    NodeId::from(node) + 1
}

fn place(host: u32) -> (u32, u8) {
    (host / HOSTS, HOST_PORT + (host % HOSTS) as u8)
}

fn mac(host: u32) -> MacAddr {
    MacAddr::from_u64(0x0200_0000_0000 + u64::from(host))
}

fn ip(host: u32) -> std::net::IpAddr {
    std::net::Ipv4Addr::from(0x0A00_0001 + host).into()
}
