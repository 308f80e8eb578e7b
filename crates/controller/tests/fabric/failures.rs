//! Every connected graph of up to five nodes, and some of six, × every failure of one link, noticed
//! by carrier or by timeout, and of one node; and every repair. The seed selects the controller's
//! node and the policy of routes.
//!
//! After each failure: no frame loops; every ordered pair of hosts whose nodes are still connected
//! with the controller's reaches each other again; reverse paths lead back; and no route memory
//! among these nodes holds a wrong route. Nodes cut off from the controller keep using complete
//! routes.

use std::collections::BTreeSet;
use std::time::Duration;

use plexus_config::{ControllerSettings as Config, RoutePolicy};
use plexus_wire::fabric::message::PortRole;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::graphs::{Pairs, connected};
use crate::world::{CONTROL, End, HOST, World, usual_config};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Cut(End),
    Silent(End),
    Node(usize),
}

/// One graph under test.
struct Trial {
    world: World,
    nodes: usize,
    what: String,
    controller_at: End,
}

impl Trial {
    fn new(nodes: usize, graph: &Pairs, seed: u64) -> Trial {
        let mut random = Pcg64::seed_from_u64(seed);
        // The controller's node differs from graph to graph.
        let mut names: Vec<usize> = (0..nodes).collect();
        names.shuffle(&mut random);
        let graph: Pairs = graph.iter().map(|&(a, b)| (names[a], names[b])).collect();
        let what = format!("{graph:?}, seed {seed}");
        let policies = [RoutePolicy::Ecmp, RoutePolicy::Spain, RoutePolicy::Shortest];
        let policy = policies[seed as usize % policies.len()];
        let config = Config { policy, ..usual_config() };
        let mut world = World::joined_as(nodes, &graph, seed, config);
        let all = world.all_pairs();
        assert_eq!(world.unreached(&all, 200), [], "{what}");
        Trial { world, nodes, what, controller_at: End::Node(0, CONTROL) }
    }

    /// Hosts, by the number of their node, in and out of the controller's reach.
    fn sides(&self) -> (BTreeSet<usize>, Vec<BTreeSet<usize>>) {
        let End::Node(at, _) = self.controller_at else { panic!("at a node") };
        let ours = self.world.component(at);
        let mut left: BTreeSet<usize> = (0..self.nodes)
            .filter(|n| self.world.nodes[*n].is_some() && !ours.contains(n))
            .collect();
        let mut others = Vec::new();
        while let Some(&first) = left.first() {
            let part = self.world.component(first);
            left.retain(|n| !part.contains(n));
            others.push(part);
        }
        (ours, others)
    }

    /// The pairs whose routes, in both directions, avoid a node.
    fn past(&mut self, dead: usize) -> Vec<(usize, usize)> {
        let whole = |world: &World, from: usize, to: usize| {
            let Some(boxed) = &world.nodes[from] else { return false };
            let mac = world.hosts[to].mac;
            let routes = boxed.node().routes();
            let entry = routes.iter().find(|r| r.destination == mac && r.port == HOST);
            entry.is_some_and(|e| e.routes.iter().all(|p| !world.walk(from, p).1.contains(&dead)))
        };
        let pairs = self.world.all_pairs();
        let world = &self.world;
        pairs.into_iter().filter(|&(a, b)| whole(world, a, b) && whole(world, b, a)).collect()
    }

    fn fail(&mut self, failure: Failure) -> Option<(End, End)> {
        match failure {
            Failure::Cut(end) => {
                let other = self.world.uncable(end).unwrap();
                return Some((end, other));
            }
            Failure::Silent(end) => self.world.silence(end, true),
            Failure::Node(n) => {
                self.world.crash_node(n);
                if self.controller_at == End::Node(n, CONTROL) {
                    // The controller's cable is moved to another node.
                    self.world.uncable(End::Controller(0));
                    let to = (n + self.world.random.random_range(1..self.nodes)) % self.nodes;
                    self.controller_at = End::Node(to, CONTROL);
                    self.world.cable(End::Controller(0), self.controller_at);
                }
            }
        }
        None
    }

    fn repair(&mut self, failure: Failure, cable: Option<(End, End)>) {
        match (failure, cable) {
            (Failure::Silent(end), _) => self.world.silence(end, false),
            (Failure::Node(n), _) => self.world.start_node(n),
            (_, Some((a, b))) => self.world.cable(a, b),
            _ => {}
        }
    }

    /// Returns how long it took until all pairs reached each other again, to 20 ms.
    fn try_one(&mut self, failure: Failure) -> Duration {
        let whole = match failure {
            Failure::Node(n) => self.past(n),
            _ => self.world.all_pairs(),
        };
        let began = self.world.now;
        let cable = self.fail(failure);
        let what = format!("{}: {failure:?}", self.what);
        let (ours, others) = self.sides();
        let hosts: Vec<usize> = ours.iter().copied().collect();
        assert_eq!(self.world.unreached(&World::pairs(&hosts), 4000), [], "{what}");
        let took = self.world.now.since(began);
        for part in others {
            let hosts: Vec<usize> = part.into_iter().collect();
            let mut pairs = World::pairs(&hosts);
            pairs.retain(|pair| whole.contains(pair));
            assert_eq!(self.world.unreached(&pairs, 100), [], "{what}: without controller");
        }
        self.world.run(400);
        let (ours, _) = self.sides();
        assert_eq!(self.world.stale_routes(&ours), [""; 0], "{what}");
        self.repair(failure, cable);
        let all = self.world.all_pairs();
        assert_eq!(self.world.unreached(&all, 6000), [], "{what}: repaired");
        self.world.run(1500);
        assert_eq!(
            self.world.stale_routes(&(0..self.nodes).collect()),
            [""; 0],
            "{what}: repaired"
        );
        assert_eq!(self.world.unreached_at_once(&all), [], "{what}: repaired");
        took
    }

    /// Every failure, one after the other.
    fn try_all(&mut self, slowest: &mut [Duration; 3]) {
        let ends: Vec<End> = self
            .world
            .cables
            .iter()
            .filter_map(|(a, b)| match (a, b) {
                (End::Node(x, _), End::Node(y, _)) if x < y => Some(*a),
                _ => None,
            })
            .collect();
        let links = ends.iter().flat_map(|&e| [Failure::Cut(e), Failure::Silent(e)]);
        let failures: Vec<_> = links.chain((0..self.nodes).map(Failure::Node)).collect();
        for failure in failures {
            let took = self.try_one(failure);
            let kind = match failure {
                Failure::Cut(_) => 0,
                Failure::Silent(_) => 1,
                Failure::Node(_) => 2,
            };
            slowest[kind] = slowest[kind].max(took);
        }
    }
}

/// Tests the selected connected graphs of this many nodes, including the length of outages: an
/// unplugged cable and a failed box are noticed by carrier, a silent cable by two missed
/// Heartbeats.
fn try_graphs(nodes: usize, which: impl Fn(usize) -> bool) {
    let mut slowest = [Duration::ZERO; 3];
    for (i, graph) in connected(nodes).iter().enumerate().filter(|(i, _)| which(*i)) {
        Trial::new(nodes, graph, (nodes * 1000 + i) as u64).try_all(&mut slowest);
    }
    let most = [100, 300, 100].map(Duration::from_millis);
    assert!(slowest.iter().zip(&most).all(|(s, m)| s <= m), "{slowest:?}");
}

#[test]
fn every_graph_of_up_to_five_nodes_survives_every_failure() {
    (2..=5).for_each(|nodes| try_graphs(nodes, |_| true));
}

#[test]
fn every_seventh_graph_of_six_nodes_survives_every_failure() {
    try_graphs(6, |i| i % 7 == 0);
}

#[test]
#[ignore = "takes a minute"]
fn every_graph_of_six_nodes_survives_every_failure() {
    try_graphs(6, |_| true);
}

/// A stopping node tells its neighbours, which need not time out (two Heartbeats, 200 ms).
#[test]
fn a_node_that_stops_costs_its_neighbours_no_silence() {
    let ring = [(0, 1), (1, 2), (2, 3), (3, 0)];
    for node in 1..4 {
        let mut world = World::joined(4, &ring, node as u64);
        let all = world.all_pairs();
        assert_eq!(world.unreached(&all, 200), []);
        world.stop_node(node);
        let rest: Vec<usize> = (0..4).filter(|n| *n != node).collect();
        let left = World::pairs(&rest);
        assert_eq!(world.unreached(&left, 60), [], "without node {node}");
        world.start_node(node);
        world.run(1200);
        world.announce(node);
        assert_eq!(world.unreached(&all, 400), [], "with node {node} again");
    }
}

/// Others have its address and a route to it, so nobody asks for it, and it has nothing to say.
#[test]
fn a_host_that_only_listens_is_reached_when_its_node_has_started_anew() {
    for seed in 0..4 {
        let mut world = World::joined(3, &[(0, 1), (1, 2), (2, 0)], seed);
        let all = world.all_pairs();
        assert_eq!(world.unreached(&all, 200), []);
        world.crash_node(2);
        world.run(500);
        world.start_node(2);
        world.run(1200);
        assert_eq!(world.unreached(&[(0, 2), (1, 2)], 200), []);
    }
}

/// A node that cannot take all that comes loses Heartbeats among the rest. Its links stay up for as
/// long as other frames may count, and not a moment longer than these come.
#[test]
fn a_link_that_carries_frames_outlives_lost_heartbeats() {
    let mut world = World::joined(2, &[(0, 1)], 1);
    let all = world.all_pairs();
    assert_eq!(world.unreached(&all, 200), []);
    let is_up =
        |world: &mut World| [0, 1].map(|n| world.node(n).node().role(0) == PortRole::Fabric);
    // The controller's port is silent, and so the controller is lost: flows go on.
    world.beats_are_lost = true;
    let busy = |world: &mut World, ms: u64| {
        for _ in 0..ms / 60 {
            assert_eq!(world.unreached_at_once(&all), [], "at {:?}", world.now);
            world.run(50);
        }
    };
    busy(&mut world, 3000);
    assert_eq!(is_up(&mut world), [true; 2]);
    world.run(350);
    assert_eq!(is_up(&mut world), [false; 2], "no frames came");
    world.beats_are_lost = false;
    world.run(2000);
    assert_eq!(is_up(&mut world), [true; 2]);
    assert_eq!(world.unreached(&all, 200), []);
    world.beats_are_lost = true;
    busy(&mut world, 4500);
    assert_eq!(is_up(&mut world), [true; 2]);
    for _ in 0..20 {
        world.unreached_at_once(&all);
        world.run(50);
    }
    assert_eq!(is_up(&mut world), [false; 2], "anyone could send such frames");
}
