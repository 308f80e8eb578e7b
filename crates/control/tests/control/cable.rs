//! Two channels over a cable that loses, duplicates and reorders messages, by seed.

use std::time::Duration;

use crate::common::{Faults, Pair, channel, node, with_limits};
use plexus_control::session::{Limits, RoleWanted};

fn bad_cable(seed: u64) -> Faults {
    Faults {
        loss: seed % 5 * 12,
        duplication: seed % 3 * 20,
        delay_ms_max: [0, 5, 60, 300][seed as usize % 4],
        lose_bodies: true,
    }
}

/// Both use the same keys, and hear each other.
fn assert_agreed(pair: &mut Pair, seed: u64) {
    pair.faults = Faults::default();
    pair.run(Duration::from_secs(5));
    let [a, b] = &pair.ends;
    assert!(a.fingerprint().is_some(), "seed {seed}: {a:?} {b:?}");
    assert_eq!(a.fingerprint(), b.fingerprint(), "seed {seed}: {a:?} {b:?}");
    assert!(!a.is_opening() && !b.is_opening(), "seed {seed}: {a:?} {b:?}");
    for end in 0..2 {
        pair.bodies[1 - end].clear();
        pair.say(end, b"are you there");
        pair.run(Duration::from_millis(1));
        assert_eq!(pair.bodies[1 - end], [b"are you there"], "seed {seed}");
        let facts = pair.ends[end].peer().map(|p| p.facts.as_bytes().to_vec());
        assert_eq!(facts, Some(format!("s{}", 2 - end).into_bytes()));
        let last = pair.established[end].last().map(|e| e.fingerprint);
        assert_eq!(last, pair.ends[end].fingerprint(), "the caller was notified");
    }
}

#[test]
fn both_sides_end_with_the_same_keys_whatever_the_cable_does() {
    for seed in 0..300 {
        let ends = [channel(1, seed), channel(2, seed)];
        let mut pair = Pair::new(ends, bad_cable(seed), seed);
        // At once, one after the other, or one alone.
        pair.start(0);
        let later = [0, 1, 30, 70, 700][seed as usize / 3 % 5];
        pair.run(Duration::from_millis(later));
        if seed % 7 != 0 {
            pair.start(1);
        }
        pair.run(Duration::from_secs(20));
        assert_agreed(&mut pair, seed);
    }
}

#[test]
fn handshakes_begun_at_any_time_by_anyone_end_with_the_same_keys() {
    for seed in 0..150 {
        let ends = [channel(1, seed), channel(2, seed)];
        let mut pair = Pair::new(ends, bad_cable(seed), seed);
        for _ in 0..30 {
            let end = pair.below(2) as usize;
            match pair.below(8) {
                // A side that has restarted begins at once, as it does when a link comes up.
                0 => {
                    pair.ends[end].reset();
                    pair.start(end);
                }
                1..=4 => pair.start(end),
                _ => {}
            }
            let wait = pair.below(200);
            pair.run(Duration::from_millis(wait));
        }
        pair.start(seed as usize % 2);
        pair.run(Duration::from_secs(20));
        assert_agreed(&mut pair, seed);
    }
}

#[test]
fn a_change_of_keys_loses_nothing_and_repeats_nothing() {
    let limits =
        Limits { rekey_time: Duration::from_millis(400), rekey_messages: 150, ..Limits::default() };
    for seed in 0..40 {
        let end = |n| with_limits(node(n), RoleWanted::Any, seed, limits);
        let mut pair = Pair::new([end(1), end(2)], Faults::default(), seed);
        pair.start(0);
        pair.run(Duration::from_millis(1));
        pair.faults = Faults { lose_bodies: false, ..bad_cable(seed) };
        let mut said = [Vec::new(), Vec::new()];
        for n in 0..1500u32 {
            for from in 0..2 {
                let text = n.to_be_bytes();
                pair.say(from, &text);
                said[1 - from].push(text.to_vec());
            }
            pair.run(Duration::from_millis(2));
        }
        pair.faults = Faults::default();
        pair.run(Duration::from_secs(3));
        for (end, said) in said.iter().enumerate() {
            pair.bodies[end].sort();
            assert!(pair.bodies[end] == *said, "seed {seed}: a body was lost or came twice");
            let changes = pair.established[end].len();
            assert!(changes >= 3, "seed {seed}: only {changes} sessions");
            assert!(pair.established[end][1..].iter().all(|e| e.renewed));
        }
    }
}

#[test]
fn replayed_messages_have_no_effect() {
    for seed in 0..30 {
        let ends = [channel(1, seed), channel(2, seed)];
        let mut pair = Pair::new(ends, bad_cable(seed), seed);
        pair.start(0);
        pair.start(1);
        for n in 0..20u8 {
            pair.run(Duration::from_secs(1));
            for from in 0..2 {
                if pair.ends[from].peer().is_some() {
                    pair.say(from, &[n; 9]);
                }
            }
        }
        assert_agreed(&mut pair, seed);
        let before = pair.ends[0].fingerprint();
        let recorded = pair.recorded.clone();
        let counts = pair.established.each_ref().map(Vec::len);
        pair.bodies = Default::default();
        for later in [0, 60] {
            pair.run(Duration::from_secs(later));
            for message in &recorded {
                // To its receiver and back to its sender, at a rate within the budget.
                pair.deliver(0, message);
                pair.deliver(1, message);
                pair.run(Duration::from_millis(50));
            }
        }
        assert_eq!(pair.bodies, [Vec::<Vec<u8>>::new(), Vec::new()], "seed {seed}");
        assert_eq!(pair.established.each_ref().map(Vec::len), counts, "seed {seed}");
        assert_eq!(pair.ends[0].fingerprint(), before);
        assert_agreed(&mut pair, seed);
    }
}
