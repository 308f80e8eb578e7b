use plexus_control::node::common::{self as node, Done, Outcome, Part, Task};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::RecordKey;

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
    /// The store, and the write that is not durable yet.
    store: BTreeMap<RecordKey, Record>,
    writing: Vec<Change>,
    told: Vec<Result<Vec<String>, String>>,
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
            store: BTreeMap::new(),
            writing: vec![],
            told: vec![],
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
                Step::Store(changes) => self.writing = changes,
                Step::Tell(_, told) => self.told.push(told),
                Step::Kept => {}
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
            queue.push_back(at.core.done(self.now, Done { version, ran, keep, refused }));
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

    /// The node starts again; it may have lost its disk.
    fn restart(&mut self, node: u32, is_new: bool) {
        self.part(node);
        let at = &mut self.boxes[node as usize];
        if is_new {
            at.stored = Part::default();
        }
        (at.core, at.runs) = (node::Common::new(at.stored.clone()), at.stored.clone());
    }

    fn ask(&mut self, ask: CommonAsk) {
        self.controller.ask(self.now, 1_000, 1, ask);
        self.collect();
    }

    /// Applies the text of a version on trial, or for good; returns the version that it gets.
    fn apply(&mut self, trial_s: Option<u32>) -> u64 {
        let version = self.controller.highest() + 1;
        self.ask(CommonAsk::Apply { text: text(version), comment: String::new(), trial_s });
        version
    }

    /// The write of the controller is durable.
    fn store(&mut self) {
        if !self.writing.is_empty() {
            self.writing.drain(..).for_each(|change| change.make(&mut self.store));
            self.controller.stored(self.now);
            self.collect();
        }
    }

    /// Another controller leads, or this one was started again.
    fn succeed(&mut self) {
        for node in 0..self.sessions.len() as u32 {
            self.part(node);
        }
        self.writing.clear();
        self.controller = Common::new(&self.store.values().cloned().collect::<Vec<_>>());
    }

    /// Delivers everything in order, which has an end.
    fn settle(&mut self) {
        let mut delivered = 0;
        while !(self.to_node.is_empty() && self.to_controller.is_empty() && self.writing.is_empty())
        {
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
            self.store();
        }
        self.store();
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
    assert_eq!(world.apply(Some(60)), 1);
    // No node hears of a number that is not durable.
    assert!(world.to_node.is_empty());
    world.settle();
    assert_eq!(world.told, [Ok(vec![])]);
    assert_eq!((world.running(), world.kept()), (vec![1; 3], vec![0; 3]));
    world.ask(CommonAsk::Keep);
    // Nothing is kept before it is durable.
    assert_eq!((world.to_node.len(), world.told.len()), (0, 1));
    world.settle();
    assert_eq!((world.running(), world.kept()), (vec![1; 3], vec![1; 3]));
    world.pass(100);
    assert_eq!((world.running(), world.told.len()), (vec![1; 3], 2));
    assert!(world.boxes[1].stored.text.contains("ageing = \"2s\""));
    assert!(!world.boxes[2].stored.text.contains("ageing"));
    // Without a trial it is kept at once.
    assert_eq!(world.apply(None), 2);
    world.settle();
    assert_eq!((world.kept(), world.told.len()), (vec![2; 3], 3));
    // The text before is still there.
    let kept: Vec<u64> = world.controller.versions.iter().map(|v| v.version).collect();
    assert_eq!((kept, world.store.len()), (vec![1, 2], 2));
}

#[test]
fn the_oldest_versions_go() {
    let mut world = World::new(1);
    for _ in 0..20 {
        world.apply(None);
        world.settle();
    }
    let stored = |world: &World| world.store.keys().copied().collect::<Vec<_>>();
    assert_eq!(stored(&world), (13..=20).map(RecordKey::Common).collect::<Vec<_>>());
    assert_eq!((world.kept(), world.told.len()), (vec![20], 20));
    // Those that were never kept go first.
    world.boxes[0].refuses.extend(21..40);
    for _ in 21..40 {
        world.apply(None);
        world.settle();
    }
    let last = (14..=20).chain([39]).map(RecordKey::Common);
    assert_eq!(stored(&world), last.collect::<Vec<_>>());
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let mut world = World::new(1);
    let mut refused = |ask, words: &str| {
        world.ask(ask);
        let told = world.told.pop().unwrap().unwrap_err();
        assert!(told.contains(words) && world.to_node.is_empty(), "{told}");
    };
    let apply = |text: &str, trial_s| CommonAsk::Apply {
        text: text.into(),
        comment: String::new(),
        trial_s,
    };
    refused(apply("[all.switch]\nagein = \"1s\"\n", None), "is not a setting of switch");
    refused(apply("", Some(0)), "from one second to a day");
    refused(apply("", Some(COMMON_TRIAL_MAX_S + 1)), "from one second to a day");
    refused(CommonAsk::Keep, "is on trial");
    refused(CommonAsk::Leave, "is on trial");
    world.apply(Some(60));
    world.ask(apply("", None));
    assert!(world.told[0].as_ref().unwrap_err().contains("is under way"));
    world.settle();
    assert_eq!(world.running(), [1]);
}

#[test]
fn one_node_that_refuses_keeps_all_from_changing() {
    let mut world = World::new(3);
    world.boxes[1].refuses.insert(1);
    world.apply(None);
    world.settle();
    assert_eq!(world.told, [Err("n1: it does not fit".to_string())]);
    assert_eq!(world.running(), vec![0; 3]);
    // The next one may fit, and has a number of its own.
    assert_eq!(world.apply(None), 2);
    world.settle();
    assert_eq!(world.kept(), vec![2; 3]);
}

#[test]
fn a_node_that_the_change_cuts_off_comes_back_by_itself() {
    let mut world = World::new(3);
    world.apply(Some(60));
    world.settle();
    world.part(2);
    // Nobody confirms: all return, also the one without a controller.
    world.pass(60);
    world.settle();
    assert_eq!(world.running(), vec![0; 3]);
    assert!(world.controller.trial.is_none());
    // Kept while a node is cut off: it returns, and gets the version again in its next session.
    world.meet(2);
    let version = world.apply(Some(60));
    world.settle();
    world.part(2);
    world.ask(CommonAsk::Keep);
    world.settle();
    world.pass(60);
    let [all, some] = [[version; 3], [version, version, 0]].map(Vec::from);
    assert_eq!((world.running(), world.kept()), (some.clone(), some));
    world.meet(2);
    world.settle();
    assert_eq!((world.running(), world.kept()), (all.clone(), all));
}

#[test]
fn a_node_that_is_away_or_silent_holds_up_nobody_and_catches_up() {
    let mut world = World::new(3);
    world.part(0);
    world.apply(None);
    world.settle();
    assert_eq!(world.told, [Ok(vec![])]);
    world.meet(0);
    world.settle();
    assert_eq!(world.kept(), vec![1; 3]);
    // It is there, and its answers are lost.
    world.apply(None);
    world.store();
    world.to_node.retain(|(node, ..)| *node != 0);
    world.settle();
    world.pass(5);
    let told = world.told.last().unwrap().as_ref().unwrap_err();
    assert!(told.starts_with("no answer from n0"), "{told}");
    world.settle();
    assert_eq!(world.running(), vec![1; 3]);
    // It does not answer to the order any more. Of a trial the operator hears it.
    let no_answer_to_the_order = |world: &mut World, trial_s| {
        world.apply(trial_s);
        world.store();
        while world.to_node.iter().all(|(_, _, body)| !matches!(body, Body::CommonOrder(_))) {
            match world.to_node.is_empty() {
                false => world.reach_node(0),
                true => world.reach_controller(0),
            }
        }
        world.to_node.retain(|(node, ..)| *node != 0);
        world.settle();
        world.pass(5);
        world.settle();
        world.told.last().unwrap().clone()
    };
    assert_eq!(no_answer_to_the_order(&mut world, Some(60)), Ok(vec!["n0".to_string()]));
    world.ask(CommonAsk::Leave);
    world.settle();
    // For good it is refused: the change may have cut the node off.
    assert!(no_answer_to_the_order(&mut world, None).unwrap_err().starts_with("n0: no word"));
    assert_eq!((world.running(), world.kept()), (vec![1; 3], vec![1; 3]));
}

#[test]
fn a_node_that_has_lost_its_part_gets_it_again() {
    let mut world = World::new(2);
    world.apply(None);
    world.settle();
    world.restart(1, true);
    world.meet(1);
    world.settle();
    assert_eq!((world.running(), world.kept()), (vec![1; 2], vec![1; 2]));
}

#[test]
fn a_claim_uses_up_no_numbers() {
    let mut world = World::new(1);
    world.apply(None);
    world.settle();
    for claim in [u64::MAX, COMMON_VERSION_MAX, 2 + CLAIM_MAX] {
        let fate = CommonFate::Kept;
        let state = CommonState { kept: claim, version: claim, fate, left_s: 0, why: vec![] };
        world.controller.hear(world.now, 0, state);
    }
    assert_eq!(world.apply(None), 2);
    world.settle();
    assert_eq!(world.kept(), [2]);
}

#[test]
fn a_controller_that_takes_over_goes_on_with_what_is_stored() {
    let mut world = World::new(2);
    world.apply(None);
    world.settle();
    world.apply(Some(60));
    world.settle();
    assert_eq!((world.running(), world.kept()), (vec![2; 2], vec![1; 2]));
    // The trial ends with its controller. Its number is used up.
    world.succeed();
    (0..2).for_each(|node| world.meet(node));
    world.settle();
    assert_eq!((world.running(), world.kept()), (vec![1; 2], vec![1; 2]));
    assert_eq!(world.apply(None), 3);
    world.settle();
    assert_eq!(world.kept(), vec![3; 2]);
}

#[test]
fn a_controller_that_lost_its_store_moves_no_node_back() {
    let mut world = World::new(2);
    for _ in 0..3 {
        world.apply(None);
        world.settle();
    }
    world.store.clear();
    world.succeed();
    // Before it has heard of the nodes' versions.
    assert_eq!(world.apply(None), 1);
    world.settle();
    (0..2).for_each(|node| world.meet(node));
    world.settle();
    assert_eq!((world.kept(), world.controller.highest()), (vec![3; 2], 3));
    assert_eq!(world.apply(None), 4);
    world.settle();
    assert_eq!(world.kept(), vec![4; 2]);
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
        for _ in 0..steps {
            let node = rng.random_range(0..nodes);
            match rng.random_range(0..40) {
                0 => world.part(node),
                1..=3 => world.meet(node),
                4 => world.restart(node, rng.random_bool(0.3)),
                5 => world.pass(rng.random_range(1..8)),
                6 => world.pass(61),
                7 => {
                    let next = world.controller.highest() + 1;
                    if rng.random_bool(0.2) {
                        world.boxes[node as usize].refuses.insert(next);
                    }
                    world.apply(rng.random_bool(0.5).then_some(60));
                }
                8 => world.ask(CommonAsk::Keep),
                9 => world.ask(CommonAsk::Leave),
                25 => world.succeed(),
                26 | 27 => world.store(),
                10..=24 if !world.to_node.is_empty() => {
                    world.reach_node(rng.random_range(0..world.to_node.len()));
                }
                _ if !world.to_controller.is_empty() => {
                    world.reach_controller(rng.random_range(0..world.to_controller.len()));
                }
                _ => {}
            }
        }
        world.store();
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
        let kept = world.controller.kept.as_ref().map_or(0, |(version, _)| *version);
        prop_assert_eq!(world.kept(), vec![kept; nodes as usize]);
        prop_assert_eq!(world.running(), vec![kept; nodes as usize]);
        let is_at_rest = world.boxes.iter().all(|at| at.core.deadline().is_none());
        prop_assert!(is_at_rest);
    }
}
