//! Policies against models too simple to be wrong.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::ghost::Ghost;
use super::*;

const SLOTS: usize = 20;

/// A cache of slots of weight 1, and the keys in it according to the policy.
struct Rig {
    policy: AnyPolicy,
    held: Vec<Option<u64>>,
}

impl Rig {
    fn new(kind: PolicyKind) -> Rig {
        Rig { policy: kind.build(SLOTS, SLOTS as u64), held: vec![None; SLOTS] }
    }

    fn find(&self, key: u64) -> Option<usize> {
        self.held.iter().position(|held| *held == Some(key))
    }

    /// Requests a key, which is inserted if missing; returns the evicted key.
    fn ask(&mut self, key: u64) -> Option<u64> {
        if let Some(slot) = self.find(key) {
            self.policy.on_hit(slot as u32);
            return None;
        }
        let mut gone = None;
        let free = self.held.iter().position(Option::is_none).unwrap_or_else(|| {
            let slot = self.policy.victim().expect("a full cache has a victim") as usize;
            gone = self.held[slot].take();
            assert!(gone.is_some(), "the victim is held");
            slot
        });
        self.held[free] = Some(key);
        self.policy.on_insert(free as u32, hash(key), 1);
        gone
    }

    fn remove(&mut self, key: u64) {
        if let Some(slot) = self.find(key) {
            self.policy.on_remove(slot as u32);
            self.held[slot] = None;
        }
    }
}

fn hash(key: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&key.to_le_bytes())
}

/// The same interface as a rig; the front of a queue is its oldest.
trait Model: Default {
    fn ask(&mut self, key: u64) -> Option<u64>;
    fn remove(&mut self, key: u64);
}

#[derive(Default)]
struct PlainFifo(VecDeque<u64>);

impl Model for PlainFifo {
    fn ask(&mut self, key: u64) -> Option<u64> {
        if self.0.contains(&key) {
            return None;
        }
        self.0.push_back(key);
        if self.0.len() > SLOTS { self.0.pop_front() } else { None }
    }

    fn remove(&mut self, key: u64) {
        self.0.retain(|k| *k != key);
    }
}

#[derive(Default)]
struct PlainLru(PlainFifo);

impl Model for PlainLru {
    fn ask(&mut self, key: u64) -> Option<u64> {
        self.0.remove(key);
        self.0.ask(key)
    }

    fn remove(&mut self, key: u64) {
        self.0.remove(key);
    }
}

#[derive(Default)]
struct PlainSieve {
    /// Keys, and whether they were requested.
    queue: Vec<(u64, bool)>,
    hand: usize,
}

impl Model for PlainSieve {
    fn ask(&mut self, key: u64) -> Option<u64> {
        if let Some(entry) = self.queue.iter_mut().find(|e| e.0 == key) {
            entry.1 = true;
            return None;
        }
        let mut gone = None;
        if self.queue.len() == SLOTS {
            while gone.is_none() {
                if self.hand >= self.queue.len() {
                    self.hand = 0;
                }
                if std::mem::take(&mut self.queue[self.hand].1) {
                    self.hand += 1;
                } else {
                    gone = Some(self.queue.remove(self.hand).0);
                }
            }
            // A linked implementation's hand would be at no entry here, and restarts.
            if self.hand >= self.queue.len() {
                self.hand = 0;
            }
        }
        self.queue.push((key, false));
        gone
    }

    fn remove(&mut self, key: u64) {
        if let Some(at) = self.queue.iter().position(|e| e.0 == key) {
            self.queue.remove(at);
            self.hand -= usize::from(at < self.hand);
            if self.hand >= self.queue.len() {
                self.hand = 0;
            }
        }
    }
}

/// S3-FIFO exactly as in the paper's algorithm 1, except the ghost, which has its own test.
struct PlainS3 {
    small: VecDeque<(u64, u8)>,
    main: VecDeque<(u64, u8)>,
    ghost: Ghost,
}

impl Default for PlainS3 {
    fn default() -> PlainS3 {
        let (small, main) = Default::default();
        PlainS3 { small, main, ghost: Ghost::new(SLOTS - SLOTS / 10) }
    }
}

impl PlainS3 {
    fn evict_small(&mut self) -> Option<u64> {
        while let Some((key, marks)) = self.small.pop_front() {
            if marks > 1 {
                self.main.push_back((key, 0));
            } else {
                self.ghost.insert(hash(key));
                return Some(key);
            }
        }
        None
    }

    fn evict_main(&mut self) -> Option<u64> {
        while let Some((key, marks)) = self.main.pop_front() {
            if marks == 0 {
                return Some(key);
            }
            self.main.push_back((key, marks - 1));
        }
        None
    }
}

impl Model for PlainS3 {
    fn ask(&mut self, key: u64) -> Option<u64> {
        let all = self.small.iter_mut().chain(&mut self.main);
        if let Some(entry) = all.into_iter().find(|e| e.0 == key) {
            entry.1 = (entry.1 + 1).min(3);
            return None;
        }
        let mut gone = None;
        if self.small.len() + self.main.len() == SLOTS {
            if self.small.len() >= SLOTS / 10 {
                gone = self.evict_small();
            }
            gone = gone.or_else(|| self.evict_main()).or_else(|| self.evict_small());
            gone = gone.or_else(|| self.evict_main());
        }
        let queue = if self.ghost.take(hash(key)) { &mut self.main } else { &mut self.small };
        queue.push_back((key, 0));
        gone
    }

    fn remove(&mut self, key: u64) {
        self.small.retain(|e| e.0 != key);
        self.main.retain(|e| e.0 != key);
    }
}

struct PlainTwoQueue {
    newcomers: VecDeque<u64>,
    main: VecDeque<u64>,
    ghost: Ghost,
}

impl Default for PlainTwoQueue {
    fn default() -> PlainTwoQueue {
        let (newcomers, main) = Default::default();
        PlainTwoQueue { newcomers, main, ghost: Ghost::new(SLOTS / 2) }
    }
}

impl Model for PlainTwoQueue {
    fn ask(&mut self, key: u64) -> Option<u64> {
        if self.newcomers.contains(&key) {
            return None;
        }
        if let Some(at) = self.main.iter().position(|k| *k == key) {
            self.main.remove(at);
            self.main.push_back(key);
            return None;
        }
        let mut gone = None;
        if self.newcomers.len() + self.main.len() == SLOTS {
            if self.newcomers.len() > SLOTS / 4 || self.main.is_empty() {
                gone = self.newcomers.pop_front();
                gone.into_iter().for_each(|key| self.ghost.insert(hash(key)));
            } else {
                gone = self.main.pop_front();
            }
        }
        let queue = if self.ghost.take(hash(key)) { &mut self.main } else { &mut self.newcomers };
        queue.push_back(key);
        gone
    }

    fn remove(&mut self, key: u64) {
        self.newcomers.retain(|k| *k != key);
        self.main.retain(|k| *k != key);
    }
}

fn agree<M: Model>(kind: PolicyKind, steps: &[(u64, bool)]) -> Result<(), TestCaseError> {
    let (mut rig, mut model) = (Rig::new(kind), M::default());
    for (i, &(key, asks)) in steps.iter().enumerate() {
        if asks {
            prop_assert_eq!(rig.ask(key), model.ask(key), "step {}: ask {}", i, key);
        } else {
            rig.remove(key);
            model.remove(key);
        }
    }
    Ok(())
}

/// Keys, of which low ones are requested more often; one step in sixteen removes.
fn steps() -> impl Strategy<Value = Vec<(u64, bool)>> {
    let step = (0u64..60, 0u64..60, 0u8..16).prop_map(|(a, b, kind)| (a.min(b), kind > 0));
    prop::collection::vec(step, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn fifo_agrees_with_its_model(steps in steps()) {
        agree::<PlainFifo>(PolicyKind::Fifo, &steps)?;
    }

    #[test]
    fn lru_agrees_with_its_model(steps in steps()) {
        agree::<PlainLru>(PolicyKind::Lru, &steps)?;
    }

    #[test]
    fn sieve_agrees_with_its_model(steps in steps()) {
        agree::<PlainSieve>(PolicyKind::Sieve, &steps)?;
    }

    #[test]
    fn s3_fifo_agrees_with_its_model(steps in steps()) {
        agree::<PlainS3>(PolicyKind::S3Fifo, &steps)?;
    }

    #[test]
    fn two_queue_agrees_with_its_model(steps in steps()) {
        agree::<PlainTwoQueue>(PolicyKind::TwoQueue, &steps)?;
    }

    /// For every policy: a victim is held, and every held slot becomes the victim before `None`.
    #[test]
    fn every_entry_leaves_once(steps in steps(), kind in 0..PolicyKind::ALL.len()) {
        let mut policy = PolicyKind::ALL[kind].build(SLOTS, SLOTS as u64);
        let mut held = [false; SLOTS];
        for (key, inserts) in steps {
            let slot = key as usize % SLOTS;
            match (held[slot], inserts) {
                (true, true) => policy.on_hit(slot as u32),
                (true, false) => policy.on_remove(slot as u32),
                (false, _) => { policy.on_insert(slot as u32, hash(key), 1); }
            }
            held[slot] = !held[slot] || inserts;
        }
        let mut left = held.iter().filter(|held| **held).count();
        while let Some(slot) = policy.victim() {
            prop_assert!(std::mem::take(&mut held[slot as usize]), "slot {} is not held", slot);
            left -= 1;
        }
        prop_assert_eq!(left, 0);
    }
}

/// A third of the requests are for keys that are requested only once.
#[test]
fn a_scan_does_not_empty_the_modern_ones() {
    let hits = |kind: PolicyKind| {
        let mut policy = kind.build(100, 100);
        let mut held: Vec<Option<u64>> = vec![None; 100];
        let mut hits = 0;
        for i in 0..30_000u64 {
            let key = if i % 3 == 0 { 1_000_000 + i } else { hash(i) % 80 };
            if let Some(slot) = held.iter().position(|h| *h == Some(key)) {
                hits += 1;
                policy.on_hit(slot as u32);
                continue;
            }
            let free = held.iter().position(Option::is_none);
            let slot = free.unwrap_or_else(|| policy.victim().expect("full") as usize);
            held[slot] = Some(key);
            policy.on_insert(slot as u32, hash(key), 1);
        }
        hits
    };
    let lru = hits(PolicyKind::Lru);
    for kind in [PolicyKind::S3Fifo, PolicyKind::TinyLfu, PolicyKind::Sieve] {
        assert!(hits(kind) > lru, "{}: {} hits, LRU {lru}", kind.name(), hits(kind));
    }
}
