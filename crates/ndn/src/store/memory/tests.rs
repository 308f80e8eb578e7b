//! The memory store against a map of everything that was inserted.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::super::policy::{AnyPolicy, PolicyKind};
use super::*;

const NOW: u64 = 1_000;

fn store(bytes: u64, entries: usize, kind: PolicyKind) -> MemoryStore<AnyPolicy> {
    MemoryStore::new(MemoryLimits { bytes, entries }, |slots, bytes| kind.build(slots, bytes))
}

/// A name of components that are single letters.
fn name(components: &str) -> Vec<u8> {
    components.bytes().flat_map(|c| [8, 1, c]).collect()
}

fn packet(components: &str, len: usize) -> Vec<u8> {
    let mut bytes = b"head".to_vec();
    bytes.extend(name(components));
    bytes.extend((0..len).map(|i| (i * 7 + components.len()) as u8));
    bytes
}

fn put(store: &mut MemoryStore<AnyPolicy>, components: &str, len: usize, stale: u64) -> Vec<u8> {
    let bytes = packet(components, len);
    let name = name(components);
    let hashes: Vec<u64> = (0..components.len()).map(|n| xxh3_64(&name[..n * 3])).collect();
    let data = Data::new(&bytes, 4..4 + name.len(), xxh3_64(&name), &hashes).unwrap();
    assert!(store.insert(&data, stale, false, |_| {}));
    bytes
}

fn get(
    store: &mut MemoryStore<AnyPolicy>,
    components: &str,
    can_be_prefix: bool,
    must_be_fresh: bool,
) -> Option<Vec<u8>> {
    let name = name(components);
    let query = Query { name: &name, hash: xxh3_64(&name), can_be_prefix, must_be_fresh };
    store.get(&query, NOW).map(|packet| packet.to_vec())
}

#[test]
fn packets_of_any_length_come_back_whole() {
    let mut store = store(1 << 20, 100, PolicyKind::default());
    for len in [0, 1, 240, 241, 255, 256, 257, 511, 512, 8000, 60_000] {
        let bytes = put(&mut store, "ab", len, 0);
        assert_eq!(get(&mut store, "ab", false, false).unwrap(), bytes, "{len}");
        let (name, mut buffer) = (name("ab"), vec![0; bytes.len()]);
        let query =
            Query { name: &name, hash: xxh3_64(&name), can_be_prefix: false, must_be_fresh: false };
        let found = store.get(&query, NOW).unwrap();
        assert_eq!(found.name_at(), 4..10);
        assert!(found.copy_to(&mut []).is_none());
        assert_eq!(found.copy_to(&mut buffer).unwrap(), bytes);
    }
    assert_eq!(store.len(), 1);
}

#[test]
fn names_longer_than_a_piece_are_compared_to_their_end() {
    let mut store = store(1 << 20, 100, PolicyKind::default());
    let long = "x".repeat(300);
    assert!(get(&mut store, &long, true, false).is_none());
    put(&mut store, &format!("{long}a"), 10, 0);
    assert!(get(&mut store, &format!("{long}a"), false, false).is_some());
    assert!(get(&mut store, &format!("{long}b"), false, false).is_none());
    assert!(get(&mut store, &long, true, false).is_some());
}

#[test]
fn fresh_is_asked_for_by_time() {
    let mut store = store(1 << 20, 100, PolicyKind::default());
    put(&mut store, "a", 10, NOW);
    put(&mut store, "b", 10, NOW + 1);
    assert!(get(&mut store, "a", false, false).is_some());
    assert!(get(&mut store, "a", false, true).is_none());
    assert!(get(&mut store, "b", false, true).is_some());
}

#[test]
fn a_prefix_finds_the_newest_if_that_suits() {
    let mut store = store(1 << 20, 100, PolicyKind::default());
    for prefix in ["", "a", "ab", "abc", "b"] {
        assert_eq!(get(&mut store, prefix, true, false), None);
    }
    let stale = put(&mut store, "abc2", 10, NOW);
    assert_eq!(get(&mut store, "abc", true, false), Some(stale));
    assert_eq!(get(&mut store, "abc", true, true), None);
    let fresh = put(&mut store, "abc1", 10, NOW + 1);
    assert_eq!(get(&mut store, "abc", true, true), Some(fresh.clone()));
    assert_eq!(get(&mut store, "ab", true, true), Some(fresh.clone()));
    assert_eq!(get(&mut store, "a", true, true), Some(fresh.clone()));
    assert_eq!(get(&mut store, "abc", false, false), None);
    assert_eq!(get(&mut store, "b", true, false), None);
    assert_eq!(get(&mut store, "", true, true), Some(fresh.clone()));
    assert_eq!(get(&mut store, "abc1", true, true), Some(fresh));
}

#[test]
fn an_unrequested_prefix_finds_only_later_packets() {
    let mut store = store(1 << 20, 100, PolicyKind::default());
    put(&mut store, "abc1", 10, 0);
    assert_eq!(get(&mut store, "abc", true, false), None);
    let next = put(&mut store, "abc2", 10, 0);
    assert_eq!(get(&mut store, "abc", true, false), Some(next));
}

#[test]
fn oversized_packets_are_refused_without_eviction() {
    let mut store = store(1024, 100, PolicyKind::default());
    put(&mut store, "a", 10, 0);
    let bytes = vec![0; 2000];
    let data = Data::new(&bytes, 0..1, 1, &[]).unwrap();
    assert!(!store.insert(&data, 0, false, |_| panic!("a packet was evicted")));
    assert_eq!((store.len(), store.stats().refused), (1, 1));
    assert!(Data::new(&bytes, 0..2001, 1, &[]).is_none());
}

#[test]
fn evicted_packets_tell_whether_they_were_requested() {
    let mut store = store(1 << 20, 2, PolicyKind::Fifo);
    put(&mut store, "a", 10, 5);
    put(&mut store, "b", 10, 6);
    get(&mut store, "b", false, false);
    let mut left = Vec::new();
    for key in ["c", "d"] {
        let bytes = packet(key, 10);
        let data = Data::new(&bytes, 4..7, xxh3_64(&name(key)), &[]).unwrap();
        store.insert(&data, 0, true, |e| {
            left.push((e.packet.to_vec(), e.stale_at_ms, e.is_worthy, e.was_on_disk));
        });
    }
    assert_eq!(left, [(packet("a", 10), 5, false, false), (packet("b", 10), 6, true, false)]);
}

#[derive(Clone, Debug)]
enum Step {
    Put(String, usize, u64),
    Get(String, bool, bool),
    Erase(String),
}

fn step() -> impl Strategy<Value = Step> {
    let components = "[ab]{0,5}";
    prop_oneof![
        4 => (components, 0usize..1500, 0u64..2000).prop_map(|(c, l, s)| Step::Put(c, l, s)),
        4 => (components, any::<bool>(), any::<bool>()).prop_map(|(c, p, f)| Step::Get(c, p, f)),
        1 => components.prop_map(Step::Erase),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A lookup never returns another packet than the last of its name. It finds the exact name if
    /// it is there, or the newest packet below it; memory accounts add up.
    #[test]
    fn it_says_what_a_map_would(
        steps in prop::collection::vec(step(), 1..200),
        kind in 0..PolicyKind::ALL.len(),
    ) {
        let mut store = store(16 << 10, 12, PolicyKind::ALL[kind]);
        let mut all: HashMap<String, (Vec<u8>, u64)> = HashMap::new();
        let mut newest: HashMap<String, String> = HashMap::new();
        let mut asked: HashSet<String> = HashSet::new();
        for step in steps {
            match step {
                Step::Put(components, len, stale) => {
                    let bytes = put(&mut store, &components, len, stale);
                    let prefixes = (0..components.len()).map(|len| &components[..len]);
                    for prefix in prefixes.filter(|prefix| asked.contains(*prefix)) {
                        newest.insert(prefix.into(), components.clone());
                    }
                    all.insert(components, (bytes, stale));
                }
                Step::Get(components, prefix, fresh) => {
                    let there = |c: &String| store.contains(xxh3_64(&name(c)), &name(c));
                    let suits = |(c, (_, stale)): &(&String, &(Vec<u8>, u64))| {
                        (**c == components || prefix && c.starts_with(&components))
                            && (!fresh || NOW < *stale)
                            && there(c)
                    };
                    let suiting: HashMap<_, _> = all.iter().filter(suits).collect();
                    // At least the newest of those below is found.
                    let newest = newest.get(&components).unwrap_or(&components);
                    let has = |c| suiting.contains_key(c);
                    let is_there = has(&components) || has(newest);
                    if prefix {
                        asked.insert(components.clone());
                    }
                    let suiting: Vec<_> = suiting.values().map(|p| p.0.clone()).collect();
                    match get(&mut store, &components, prefix, fresh) {
                        Some(found) => prop_assert!(suiting.contains(&found)),
                        None => prop_assert!(!is_there, "{} is there", components),
                    }
                }
                Step::Erase(components) => {
                    let hash = xxh3_64(&name(&components));
                    let was = store.contains(hash, &name(&components));
                    prop_assert_eq!(store.erase(hash, &name(&components)), was);
                    prop_assert!(!store.contains(hash, &name(&components)));
                }
            }
            let pieces = |bytes: &Vec<u8>| bytes.len().div_ceil(256) as u64 * 256;
            let held = all.iter().filter(|(c, _)| store.contains(xxh3_64(&name(c)), &name(c)));
            let held: Vec<u64> = held.map(|(_, (bytes, _))| pieces(bytes)).collect();
            prop_assert_eq!(held.len(), store.len());
            prop_assert_eq!(held.iter().sum::<u64>(), store.used_bytes());
        }
    }
}
