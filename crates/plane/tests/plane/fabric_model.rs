//! Fabric nodes against a model too simple to be wrong, on random roles, routes and frames: after
//! every frame exactly what the model expects has come out, or has come to the control plane, byte
//! for byte; and what came out of a cable goes on into the next node.

use std::collections::{HashMap, HashSet};

use crate::common::{Plan, mac};
use crate::net::{CAPABILITIES, Net, Node};
use plexus_plane::{ControlLimits, DropReason, Encapsulation, PortRole, Punt};
use plexus_wire::MacAddr;
use plexus_wire::fabric::{HOPS_MAX, encapsulation};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const PORTS: usize = 4;
const STATIONS: u64 = 6;

/// What a node does with a frame.
#[derive(Debug, PartialEq)]
enum Fate {
    /// It leaves by one of these ports, in the form beside it.
    Out(Vec<(usize, Vec<u8>)>),
    Punt(Punt, Vec<u8>),
    Drop(DropReason),
}

/// A node as lists.
#[derive(Default)]
struct Model {
    roles: Vec<PortRole>,
    up: Vec<bool>,
    stations: HashSet<(usize, MacAddr)>,
    /// By host port and destination: paths from this node on.
    routes: HashMap<(usize, MacAddr), Vec<Vec<u8>>>,
}

/// A fabric header as lists, read digit by digit.
struct Header {
    kind: u8,
    /// Kept as it comes.
    unused: u8,
    forward: Vec<u8>,
    reverse: Vec<u8>,
    carried: Vec<u8>,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Header> {
        let digits: Vec<usize> =
            bytes.iter().flat_map(|b| [usize::from(b >> 4), usize::from(b & 15)]).collect();
        let number = |from: usize, to: usize| digits[from..to].iter().fold(0, |n, d| n * 16 + d);
        if bytes.len() < 6 {
            return None;
        }
        let (len, f, r) = (number(1, 5), number(5, 8), number(8, 11));
        let sound = digits[0] <= 3 && len == 6 + f + r && f + r <= HOPS_MAX && len <= bytes.len();
        sound.then(|| Header {
            kind: digits[0] as u8,
            unused: digits[11] as u8,
            forward: bytes[6..6 + f].to_vec(),
            reverse: bytes[6 + f..len].to_vec(),
            carried: bytes[len..].to_vec(),
        })
    }

    fn write(&self) -> Vec<u8> {
        let (f, r) = (self.forward.len(), self.reverse.len());
        let digits = format!("{:x}{:04x}{f:03x}{r:03x}{:x}", self.kind, 6 + f + r, self.unused);
        let digits: Vec<u8> = digits.chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
        let mut bytes: Vec<u8> = digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect();
        bytes.extend(self.forward.iter().chain(&self.reverse).chain(&self.carried));
        bytes
    }
}

impl Model {
    fn dresses(&self, port: usize, bytes: Vec<u8>) -> Vec<u8> {
        match self.roles[port] {
            PortRole::Fabric(Encapsulation::EtherType { out, .. })
            | PortRole::Controller(Encapsulation::EtherType { out, .. }) => {
                [&out[..], &bytes].concat()
            }
            _ => bytes,
        }
    }

    fn admits(&self, port: usize, frame: &[u8]) -> bool {
        let destination = MacAddr(frame[..6].try_into().unwrap());
        self.stations.contains(&(port, destination))
    }

    fn receive(&self, port: usize, frame: &[u8]) -> Fate {
        let is_hello = frame.len() >= 14
            && frame[..6] == encapsulation::NEAREST_BRIDGE.0
            && frame[12..14] == [0x88, 0xB5];
        let (is_controller, link) = match self.roles[port] {
            PortRole::Unknown if is_hello => return Fate::Punt(Punt::Bootstrap, frame.to_vec()),
            PortRole::Unknown => return Fate::Drop(DropReason::PortUnknown),
            PortRole::Host => return self.receive_from_host(port, frame, is_hello),
            PortRole::Fabric(link) => (false, link),
            PortRole::Controller(link) => (true, link),
        };
        let bare = match link {
            Encapsulation::Native => frame,
            Encapsulation::EtherType { back, .. } => match frame.strip_prefix(&back) {
                Some(bare) => bare,
                None if is_hello => return Fate::Punt(Punt::Bootstrap, frame.to_vec()),
                None => return Fate::Drop(DropReason::NotPeer),
            },
        };
        let Some(mut h) = Header::read(bare) else {
            return match is_hello {
                true => Fate::Punt(Punt::Bootstrap, frame.to_vec()),
                false => Fate::Drop(DropReason::BadFabric),
            };
        };
        if is_controller && h.kind == 0 {
            return Fate::Drop(DropReason::NotControl);
        }
        // There are no trees here.
        match h.kind {
            3 if is_controller => return Fate::Drop(DropReason::NotControl),
            3 if h.forward.len() < 4 => return Fate::Drop(DropReason::BadFabric),
            3 => return Fate::Drop(DropReason::UnknownTree),
            _ => {}
        }
        let error = |reason| {
            let header = Header { kind: 2, ..Header::read(bare).unwrap() };
            let carried = header.carried[..header.carried.len().min(64)].to_vec();
            Fate::Punt(Punt::Error(reason), Header { carried, ..header }.write())
        };
        if h.forward.is_empty() {
            return error(DropReason::NoHop);
        }
        let hop = h.forward.remove(0);
        h.reverse.insert(0, port as u8);
        if hop == 0xFF {
            return Fate::Punt(Punt::Control, h.write());
        }
        let out = usize::from(hop);
        if out >= PORTS || !self.up[out] {
            return error(DropReason::HopToNowhere);
        }
        match (self.roles[out], h.kind) {
            (PortRole::Unknown, _) | (PortRole::Controller(_), 0) => {
                error(DropReason::HopToNowhere)
            }
            (PortRole::Host, 0) if h.carried.len() < 14 => Fate::Drop(DropReason::Runt),
            (PortRole::Host, 0) if self.admits(out, &h.carried) => {
                Fate::Out(vec![(out, h.carried)])
            }
            (PortRole::Host, 0) => error(DropReason::StaleRoute),
            (PortRole::Host, _) => error(DropReason::NotEthernetForHost),
            _ => Fate::Out(vec![(out, self.dresses(out, h.write()))]),
        }
    }

    fn receive_from_host(&self, port: usize, frame: &[u8], is_hello: bool) -> Fate {
        if is_hello {
            return Fate::Punt(Punt::Bootstrap, frame.to_vec());
        }
        let source = MacAddr(frame[6..12].try_into().unwrap());
        let destination = MacAddr(frame[..6].try_into().unwrap());
        let paths = self.routes.get(&(port, destination));
        let paths = paths.filter(|_| self.stations.contains(&(port, source)));
        let Some(paths) = paths.filter(|_| !destination.is_multicast()) else {
            return Fate::Punt(Punt::Host, frame.to_vec());
        };
        let leads_on = |path: &&Vec<u8>| match self.roles[usize::from(path[0])] {
            _ if !self.up[usize::from(path[0])] => false,
            PortRole::Fabric(_) => path.len() > 1,
            PortRole::Host => path.len() == 1,
            _ => false,
        };
        let mut ways = Vec::new();
        for path in paths.iter().filter(leads_on) {
            let out = usize::from(path[0]);
            if path.len() > 1 {
                let header = Header {
                    kind: 0,
                    unused: 0,
                    forward: path[1..].to_vec(),
                    reverse: vec![port as u8],
                    carried: frame.to_vec(),
                };
                ways.push((out, self.dresses(out, header.write())));
            } else if out == port {
                return Fate::Drop(DropReason::SamePort);
            } else if self.admits(out, frame) {
                ways.push((out, frame.to_vec()));
            } else {
                let carried = frame[..frame.len().min(64)].to_vec();
                let header =
                    Header { kind: 2, unused: 0, forward: vec![path[0]], reverse: vec![], carried };
                return Fate::Punt(Punt::Error(DropReason::StaleRoute), header.write());
            }
        }
        if ways.is_empty() { Fate::Drop(DropReason::PortDown) } else { Fate::Out(ways) }
    }
}

/// The random net, and its model.
fn build(rng: &mut Pcg64) -> (Net, Vec<Model>) {
    let count = rng.random_range(2..5usize);
    let mut ends: Vec<_> = (0..count).flat_map(|n| (0..PORTS).map(move |p| (n, p))).collect();
    for i in (1..ends.len()).rev() {
        ends.swap(i, rng.random_range(0..=i));
    }
    // About half of the ports have cables to others.
    let cables: Vec<_> = ends.chunks_exact(2).take(count).map(|c| (c[0], c[1])).collect();
    let mut net = Net { nodes: Vec::new(), cables };
    let mut models = Vec::new();
    for n in 0..count {
        let workers = rng.random_range(1..3);
        let plan = Plan { capabilities: Some(CAPABILITIES), workers, ..Plan::new(PORTS) };
        let mut node = Node::with(Plan { frames: 256, ..plan });
        let pps = 1_000_000_000;
        let (host_pps, bootstrap_pps, error_pps) = (pps, pps, pps);
        let limits = ControlLimits::default();
        node.tables.set_limits(ControlLimits {
            host_pps,
            bootstrap_pps,
            error_pps,
            waiting: 99,
            ..limits
        });
        net.nodes.push(node);
        models.push(Model {
            roles: (0..PORTS).map(|p| role(rng, &net, (n, p))).collect(),
            up: vec![true; PORTS],
            ..Model::default()
        });
    }
    for (node, model) in net.nodes.iter_mut().zip(&mut models) {
        for port in 0..PORTS {
            change(rng, node, model, port);
            node.role(port as u16, model.roles[port]);
        }
    }
    (net, models)
}

fn port_mac((node, port): (usize, usize)) -> MacAddr {
    mac(0xFF00 + 16 * node as u64 + port as u64)
}

fn role(rng: &mut Pcg64, net: &Net, end: (usize, usize)) -> PortRole {
    let wrapped = |far| Encapsulation::ethertype(port_mac(end), port_mac(far));
    match net.far_end(end) {
        // Both ends of a cable are of one kind: the parity of their sum says which.
        Some(far) if (end.0 + end.1 + far.0 + far.1) % 2 == 1 => PortRole::Fabric(wrapped(far)),
        Some(_) => PortRole::Fabric(Encapsulation::Native),
        None => match rng.random_range(0..8) {
            0 => PortRole::Unknown,
            1 => PortRole::Controller(wrapped((9, 9))),
            2 => PortRole::Fabric(Encapsulation::Native),
            _ => PortRole::Host,
        },
    }
}

fn station(rng: &mut Pcg64) -> MacAddr {
    mac(1 + rng.random_range(0..STATIONS))
}

/// Admits, expels, installs and removes at a port.
fn change(rng: &mut Pcg64, node: &mut Node, model: &mut Model, port: usize) {
    for _ in 0..4 {
        let station = station(rng);
        if rng.random_range(0..4) > 0 {
            assert_eq!(
                node.tables.admit(port as u16, station),
                model.stations.insert((port, station))
            );
        } else {
            assert_eq!(
                node.tables.expel(port as u16, station),
                model.stations.remove(&(port, station))
            );
        }
    }
    for _ in 0..6 {
        let destination = station(rng);
        // Sets of several routes go out by fabric ports: which one is the forwarder's choice.
        let count = if rng.random_range(0..3) == 0 { rng.random_range(2..5) } else { 1 };
        let mut paths = Vec::new();
        for _ in 0..count {
            let hops = rng.random_range(if count > 1 { 2..6 } else { 1..6 });
            let hops = if rng.random_range(0..9) == 0 { 40 } else { hops };
            paths.push((0..hops).map(|_| hop(rng)).collect::<Vec<u8>>());
            paths.last_mut().unwrap()[0] = rng.random_range(0..PORTS as u8);
        }
        let refs: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
        node.route(port as u16, destination, &refs);
        model.routes.insert((port, destination), paths);
    }
    node.publish();
}

fn hop(rng: &mut Pcg64) -> u8 {
    match rng.random_range(0..12) {
        0 => 0xFF,
        1 => rng.random(),
        _ => rng.random_range(0..PORTS as u8),
    }
}

fn frame(rng: &mut Pcg64, role: PortRole) -> Vec<u8> {
    let mut inner = [station(rng).0, station(rng).0].concat();
    if rng.random_range(0..10) == 0 {
        inner[0] |= 1;
    }
    inner.extend([0x12, 0x34]);
    inner.extend((0..rng.random_range(0..120)).map(|i| i as u8));
    let link = match role {
        PortRole::Fabric(link) | PortRole::Controller(link) => link,
        _ => {
            if rng.random_range(0..10) == 0 {
                inner[..6].copy_from_slice(&encapsulation::NEAREST_BRIDGE.0);
                inner[12..14].copy_from_slice(&[0x88, 0xB5]);
            }
            return inner;
        }
    };
    let hops = |rng: &mut Pcg64, max: usize| -> Vec<u8> {
        (0..rng.random_range(0..max)).map(|_| hop(rng)).collect()
    };
    let kind = [0, 0, 0, 1, 2, 3][rng.random_range(0..6usize)];
    let (forward, reverse) = (hops(rng, 12), hops(rng, 5));
    let mut bytes = Header { kind, unused: 0, forward, reverse, carried: inner }.write();
    match rng.random_range(0..10) {
        0 => bytes.truncate(rng.random_range(0..20)),
        1 => bytes[rng.random_range(0..6usize)] = rng.random(),
        _ => {}
    }
    match link {
        Encapsulation::EtherType { mut back, .. } if rng.random_range(0..12) > 0 => {
            // Now and then one address or the type differs in a bit.
            if rng.random_range(0..12) == 0 {
                back[rng.random_range(0..14)] ^= 1 << rng.random_range(0..8);
            }
            [&back[..], &bytes].concat()
        }
        _ => bytes,
    }
}

/// Sends a frame into a node and holds what happens against the model. Returns what left.
fn step(node: &mut Node, model: &Model, port: usize, frame: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let out = node.rig.send(port, frame);
    let punted = node.punted();
    match model.receive(port, frame) {
        Fate::Out(ways) => {
            assert!(punted.is_empty(), "{punted:?}");
            assert!(out.len() == 1 && ways.contains(&out[0]), "{out:02x?} is none of {ways:02x?}");
            // The same flow takes the same way again.
            assert_eq!(node.rig.send(port, frame), out);
        }
        Fate::Punt(punt, bytes) => {
            assert!(out.is_empty(), "{out:02x?}");
            assert_eq!(punted, [(punt, port as u16, bytes)]);
        }
        Fate::Drop(reason) => {
            assert!(out.is_empty() && punted.is_empty(), "{reason:?}: {out:02x?} {punted:?}");
            let before = node.rig.drops(port, reason);
            node.rig.send(port, frame);
            assert_eq!(node.rig.drops(port, reason), before + 1, "{reason:?}");
        }
    }
    let account = node.rig.account();
    assert!(account.balances(), "{account:?}");
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn nodes_do_what_lists_would(seed: u64) {
        let mut rng = Pcg64::seed_from_u64(seed);
        let (mut net, mut models) = build(&mut rng);
        for _ in 0..150 {
            let n = rng.random_range(0..net.nodes.len());
            let port = rng.random_range(0..PORTS);
            match rng.random_range(0..12) {
                0 => change(&mut rng, &mut net.nodes[n], &mut models[n], port),
                1 => {
                    models[n].up[port] ^= true;
                    net.nodes[n].rig.plug(port, models[n].up[port]);
                    net.nodes[n].rig.maintain();
                }
                _ => {}
            }
            let first = frame(&mut rng, models[n].roles[port]);
            let mut moving = vec![(n, port, first)];
            // A path may go in circles, but not for ever: each hop uses one up.
            while let Some((n, port, frame)) = moving.pop() {
                if !models[n].up[port] {
                    continue;
                }
                for (port, frame) in step(&mut net.nodes[n], &models[n], port, &frame) {
                    let far = net.far_end((n, port));
                    moving.extend(far.map(|(n, port)| (n, port, frame)));
                }
            }
        }
    }
}
