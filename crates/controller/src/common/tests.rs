use plexus_control::node::common::{self as node, Done, Outcome, Part, Task};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

/// A node, with a driver that runs texts.
struct AtBox {
    core: node::Common,
    /// On disk: with this it starts.
    stored: Part,
    runs: Part,
    /// Refuses texts of these versions.
    refuses: BTreeSet<u64>,
}

/// A controller and nodes, and messages on their way in sessions.
struct World {
    now: Time,
    controller: Common,
    boxes: Vec<AtBox>,
    /// To a node, or to the controller; the session in which it was sent.
    to_node: Vec<(u32, u32, Body)>,
    to_controller: Vec<(u32, u32, CommonState)>,
    /// The number of each node's session; even: there is none.
    sessions: Vec<u32>,
    news: Vec<CommonNews>,
}

fn text(version: u64) -> String {
    // Long enough for several pieces, and different at each node.
    let ports: String = (0..60)
        .map(|port| format!("[[all.port]]\nname = \"e{port}\"\nmac_limit = {}\n", version + 1))
        .collect();
    format!("{ports}[nodes.n1.switch]\nageing = \"{}s\"\n", version + 1)
}

impl World {
    fn new(nodes: u32) -> World {
        let boxes = (0..nodes).map(|_| AtBox {
            core: node::Common::default(),
            stored: Part::default(),
            runs: Part::default(),
            refuses: BTreeSet::new(),
        });
        let mut world = World {
            now: Time::ZERO,
            controller: Common::default(),
            boxes: boxes.collect(),
            to_node: vec![],
            to_controller: vec![],
            sessions: vec![0; nodes as usize],
            news: vec![],
        };
        (0..nodes).for_each(|node| world.meet(node));
        world
    }

    fn meet(&mut self, node: u32) {
        if self.sessions[node as usize].is_multiple_of(2) {
            self.sessions[node as usize] += 1;
            self.controller.node_up(node, &format!("n{node}"));
            let told = self.boxes[node as usize].core.greet(self.now);
            self.carry_out(node, Outcome { told, task: None });
            self.collect();
        }
    }

    fn part(&mut self, node: u32) {
        if !self.sessions[node as usize].is_multiple_of(2) {
            self.sessions[node as usize] += 1;
            self.to_node.retain(|(to, ..)| *to != node);
            self.to_controller.retain(|(from, ..)| *from != node);
            self.controller.node_down(self.now, node);
            self.collect();
        }
    }

    fn collect(&mut self) {
        while let Some(step) = self.controller.poll() {
            match step {
                Step::Say(node, body) => {
                    let session = self.sessions[node as usize];
                    if session % 2 == 1 {
                        self.to_node.push((node, session, body));
                    }
                }
                Step::Tell(news) => self.news.push(news),
            }
        }
    }

    fn carry_out(&mut self, node: u32, outcome: Outcome) {
        let at = &mut self.boxes[node as usize];
        let mut queue = VecDeque::from([outcome]);
        while let Some(Outcome { told, task }) = queue.pop_front() {
            let session = self.sessions[node as usize];
            if let Some(told) = told.filter(|_| session % 2 == 1) {
                // A report makes earlier ones wrong: they are not repeated any more.
                self.to_controller.push((node, session, told));
            }
            let Some(task) = task else { continue };
            let (part, ran, keep) = match task {
                Task::Check(part) => (part, false, false),
                Task::Run { part, keep } => (part, true, keep),
            };
            let version = part.version;
            let refused = at.refuses.contains(&version).then(|| "it does not fit".to_string());
            if ran && refused.is_none() {
                if keep {
                    assert!(version > at.stored.version, "an earlier version is kept");
                    at.stored = part.clone();
                }
                at.runs = part;
            }
            queue.push_back(at.core.done(self.now, Done { version, ran, refused }));
        }
    }

    /// Delivers a message to a node.
    fn reach_node(&mut self, index: usize) {
        let (node, _, body) = self.to_node.swap_remove(index);
        let at = &mut self.boxes[node as usize].core;
        let outcome = match body {
            Body::CommonOffer(offer) => at.offer(self.now, offer).unwrap(),
            Body::CommonOrder(order) => at.order(self.now, &order),
            other => panic!("{other:?}"),
        };
        self.carry_out(node, outcome);
    }

    fn reach_controller(&mut self, index: usize) {
        let (node, _, state) = self.to_controller.swap_remove(index);
        self.controller.hear(self.now, node, state);
        self.collect();
    }

    fn pass(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        self.controller.due(self.now);
        self.collect();
        for node in 0..self.boxes.len() as u32 {
            let outcome = self.boxes[node as usize].core.run(self.now);
            self.carry_out(node, outcome);
        }
    }

    fn restart(&mut self, node: u32) {
        self.part(node);
        let at = &mut self.boxes[node as usize];
        (at.core, at.runs) = (node::Common::new(at.stored.clone()), at.stored.clone());
    }

    fn ask(&mut self, ask: CommonAsk) {
        self.controller.ask(self.now, ask);
        self.collect();
    }

    fn try_out(&mut self, version: u64) {
        self.ask(CommonAsk::Try { version, text: text(version), seconds: 60 });
    }

    /// Delivers everything in order, which has an end.
    fn settle(&mut self) {
        let mut delivered = 0;
        while !self.to_node.is_empty() || !self.to_controller.is_empty() {
            delivered += 1;
            assert!(delivered < 10_000, "messages without end: {:?}", self.to_controller);
            // The oldest first, as swap_remove would not.
            if !self.to_node.is_empty() {
                let last = self.to_node.len() - 1;
                self.to_node.rotate_left(1);
                self.reach_node(last);
            }
            if !self.to_controller.is_empty() {
                let last = self.to_controller.len() - 1;
                self.to_controller.rotate_left(1);
                self.reach_controller(last);
            }
        }
    }

    fn kept(&self) -> Vec<u64> {
        self.boxes.iter().map(|at| at.stored.version).collect()
    }

    fn running(&self) -> Vec<u64> {
        self.boxes.iter().map(|at| at.runs.version).collect()
    }
}

#[test]
fn a_version_is_tried_by_all_and_kept() {
    let mut world = World::new(3);
    world.try_out(7);
    world.settle();
    assert_eq!(world.news, [CommonNews::Tried { version: 7, missing: vec![] }]);
    assert_eq!((world.running(), world.kept()), (vec![7; 3], vec![0; 3]));
    world.ask(CommonAsk::Keep);
    world.settle();
    assert_eq!((world.running(), world.kept()), (vec![7; 3], vec![7; 3]));
    world.pass(100);
    assert_eq!(world.running(), vec![7; 3]);
    assert!(world.boxes[1].stored.text.contains("ageing = \"8s\""));
    assert!(!world.boxes[2].stored.text.contains("ageing"));
}

#[test]
fn one_node_that_refuses_keeps_all_from_changing() {
    let mut world = World::new(3);
    world.boxes[1].refuses.insert(7);
    world.try_out(7);
    world.settle();
    let why = "n1: it does not fit".to_string();
    assert_eq!(world.news, [CommonNews::Refused { version: 7, why }]);
    assert_eq!(world.running(), vec![0; 3]);
    // The next one may fit.
    world.try_out(8);
    world.settle();
    world.ask(CommonAsk::Keep);
    world.settle();
    assert_eq!(world.kept(), vec![8; 3]);
}

#[test]
fn a_node_that_the_change_cuts_off_comes_back_by_itself() {
    let mut world = World::new(3);
    world.try_out(7);
    world.settle();
    world.part(2);
    // Nobody confirms: all return, also the one without a controller.
    world.pass(60);
    assert_eq!(world.running(), vec![0; 3]);
    world.ask(CommonAsk::Leave);
    world.settle();
    world.news.clear();
    // Kept while a node is cut off: it returns, and gets the version again in its next session.
    world.meet(2);
    world.try_out(8);
    world.settle();
    world.part(2);
    world.ask(CommonAsk::Keep);
    world.settle();
    world.pass(60);
    assert_eq!((world.running(), world.kept()), (vec![8, 8, 0], vec![8, 8, 0]));
    world.meet(2);
    world.settle();
    assert_eq!((world.running(), world.kept()), (vec![8; 3], vec![8; 3]));
}

#[test]
fn a_node_that_is_away_or_silent_holds_up_nobody_and_catches_up() {
    let mut world = World::new(3);
    world.part(0);
    world.try_out(7);
    world.settle();
    assert_eq!(world.news, [CommonNews::Tried { version: 7, missing: vec![] }]);
    world.ask(CommonAsk::Keep);
    world.settle();
    world.meet(0);
    world.settle();
    assert_eq!(world.kept(), vec![7; 3]);
    // It is there, and its answers are lost.
    world.try_out(8);
    world.to_node.retain(|(node, ..)| *node != 0);
    world.settle();
    world.pass(5);
    let why = "no answer from n0".to_string();
    assert_eq!(world.news.last(), Some(&CommonNews::Refused { version: 8, why }));
    world.settle();
    assert_eq!(world.running(), vec![7; 3]);
}

#[test]
fn a_controller_that_lost_its_store_moves_no_node_back() {
    let mut world = World::new(2);
    world.ask(CommonAsk::Kept { version: 9, text: text(9) });
    world.settle();
    assert_eq!(world.kept(), vec![9; 2]);
    world.controller = Common::default();
    for node in 0..2 {
        world.sessions[node as usize] += 1;
        world.meet(node);
    }
    world.ask(CommonAsk::Kept { version: 1, text: text(1) });
    world.settle();
    assert_eq!((world.kept(), world.controller.highest()), (vec![9; 2], 9));
    world.try_out(2);
    world.settle();
    let refused = matches!(&world.news[..], [CommonNews::Refused { version: 2, why }]
        if why.contains("it keeps a higher version"));
    assert!(refused, "{:?}", world.news);
    world.try_out(10);
    world.settle();
    world.ask(CommonAsk::Keep);
    world.settle();
    assert_eq!(world.kept(), vec![10; 2]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Messages come in any order, sessions end with what is on its way in them, nodes start again
    /// and refuse versions. At last all nodes keep the version that the controller keeps, run what
    /// they keep, and no node has ever kept an earlier version after a later one.
    #[test]
    fn all_nodes_come_to_keep_one_version(seed: u64, nodes in 1..5_u32, steps in 50..300_usize) {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut world = World::new(nodes);
        let mut last = 0;
        for _ in 0..steps {
            let node = rng.random_range(0..nodes);
            match rng.random_range(0..40) {
                0 => world.part(node),
                1..=3 => world.meet(node),
                4 => world.restart(node),
                5 => world.pass(rng.random_range(1..8)),
                6 => world.pass(61),
                7 => {
                    last += 1;
                    if rng.random_bool(0.2) {
                        world.boxes[node as usize].refuses.insert(last);
                    }
                    world.try_out(last);
                }
                8 if world.controller.trial.as_ref().is_some_and(|t| t.phase == Phase::Tried) => {
                    world.ask(CommonAsk::Keep);
                }
                9 => world.ask(CommonAsk::Leave),
                10..=24 if !world.to_node.is_empty() => {
                    world.reach_node(rng.random_range(0..world.to_node.len()));
                }
                _ if !world.to_controller.is_empty() => {
                    world.reach_controller(rng.random_range(0..world.to_controller.len()));
                }
                _ => {}
            }
        }
        world.ask(CommonAsk::Leave);
        world.boxes.iter_mut().for_each(|at| at.refuses.clear());
        world.settle();
        world.pass(61);
        world.settle();
        for node in 0..nodes {
            // A node that has refused a version gets it again in its next session.
            world.part(node);
            world.meet(node);
        }
        world.settle();
        let kept = world.controller.kept.as_ref().map_or(0, |kept| kept.version);
        prop_assert_eq!(world.kept(), vec![kept; nodes as usize]);
        prop_assert_eq!(world.running(), vec![kept; nodes as usize]);
        let is_at_rest = world.boxes.iter().all(|at| at.core.deadline().is_none());
        prop_assert!(is_at_rest);
    }
}
