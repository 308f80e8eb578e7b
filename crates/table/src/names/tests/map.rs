//! The exact map and the hints, compared with naive ones.

use std::collections::HashMap;

use super::*;

/// A forwarder's entries: names, and a map that leads to them.
struct Entries {
    map: NameMap,
    names: Vec<Option<(Name, Spot)>>,
}

impl Entries {
    fn find(&self, name: &Name, keys: Keys) -> Option<u32> {
        name.hashed(keys, |hashed| {
            self.map.prefetch(hashed.hash());
            let is = |entry: u32| {
                self.names[entry as usize].as_ref().is_some_and(|n| n.0.bytes == hashed.bytes())
            };
            let found = self.map.find(hashed.hash(), is);
            assert!(found.is_none() || self.map.likely(hashed.hash()).is_some());
            found
        })
    }
}

proptest! {
    #[test]
    fn a_map_finds_what_a_hash_map_finds(
        steps in prop::collection::vec((any::<bool>(), name()), 1..300),
        keys in Keys::any(),
    ) {
        let mut entries = Entries { map: NameMap::new(300).unwrap(), names: vec![None; 300] };
        let mut model = HashMap::new();
        for (number, (insert, name)) in steps.into_iter().enumerate() {
            let number = number as u32;
            let found = entries.find(&name, keys);
            prop_assert_eq!(found, model.get(&name).copied());
            match (insert, found) {
                (true, None) => {
                    let inserted = name.hashed(keys, |n| entries.map.insert(n.hash(), number));
                    if let Ok(spot) = inserted {
                        entries.names[number as usize] = Some((name.clone(), spot));
                        model.insert(name, number);
                    } else {
                        prop_assert!(model.len() >= 100, "full with {}", model.len());
                    }
                }
                (false, Some(entry)) => {
                    let (_, spot) = entries.names[entry as usize].take().unwrap();
                    let mut remove =
                        |spot| name.hashed(keys, |n| entries.map.remove(n.hash(), entry, spot));
                    prop_assert!(!remove(Spot::NONE));
                    prop_assert!(remove(spot));
                    prop_assert!(!remove(spot));
                    model.remove(&name);
                }
                _ => {}
            }
            prop_assert_eq!(entries.map.len(), model.len());
        }
        for (name, entry) in &model {
            prop_assert_eq!(entries.find(name, keys), Some(*entry));
        }
    }
}

#[test]
fn a_map_holds_as_many_entries_as_it_was_made_for() {
    for capacity in [1, 2, 100, 50_000] {
        let mut map = NameMap::new(capacity).unwrap();
        let bytes = map.bytes();
        let hash = |i: u32| Name::of([i.to_be_bytes()]).hashed(Keys::Good, |name| name.hash());
        let spots: Vec<_> =
            (0..capacity as u32).map(|i| map.insert(hash(i), i).expect("there is room")).collect();
        assert_eq!(map.insert(hash(7), 7), Err(MapFull));
        for i in 0..capacity as u32 {
            assert_eq!(map.find(hash(i), |entry| entry == i), Some(i));
        }
        assert!(map.remove(hash(0), 0, spots[0]));
        assert!(map.insert(hash(7), 7).is_ok());
        assert_eq!((map.len(), map.bytes()), (capacity, bytes));
    }
}

#[test]
fn entries_of_one_name_are_told_apart_by_the_caller() {
    let mut map = NameMap::new(1000).unwrap();
    assert_eq!(map.insert(42, u32::MAX), Err(MapFull));
    let spots: Vec<_> = (0..1000).map_while(|entry| map.insert(42, entry).ok()).collect();
    let fitting = spots.len() as u32;
    assert!((100..150).contains(&fitting), "{fitting} entries of one hash");
    assert!((0..fitting).all(|i| map.find(42, |entry| entry == i) == Some(i)));
    assert_eq!(map.find(42 + (1 << 32), |_| false), None);
    // Entries in later lines are still found when earlier ones are removed.
    for i in 0..fitting - 1 {
        assert!(map.remove(42, i, spots[i as usize]));
        assert_eq!(map.find(42, |entry| entry == fitting - 1), Some(fitting - 1));
    }
    assert!(map.remove(42, fitting - 1, spots[fitting as usize - 1]));
    assert!(map.is_empty());
    // No tombstones are left: a search calls nothing, and there is room again.
    assert_eq!(map.find(42, |_| panic!("no entry is left")), None);
    assert_eq!(
        (0..1000).take_while(|&entry| map.insert(42, entry).is_ok()).count() as u32,
        fitting
    );
}

#[test]
fn a_hint_leads_to_the_last_data_noted_while_it_is_there() {
    let mut hints = PrefixHints::new(1000).unwrap();
    let data = [Name::parse("/a/b/1"), Name::parse("/a/b/2"), Name::parse("/c")];
    let prefix = Name::parse("/a/b");
    let hash = prefix.hashed(Keys::Good, |name| name.hash());
    let is = |number: u32| data[number as usize].bytes.starts_with(&prefix.bytes);
    hints.note(&[hash], 7);
    assert_eq!(hints.find(hash, |_| true), None, "no Interest had asked");
    hints.ask(hash);
    assert_eq!(hints.find(hash, is), None);
    hints.note(&[hash], 0);
    assert_eq!(hints.find(hash, is), Some(0));
    hints.note(&[hash], 1);
    assert_eq!(hints.find(hash, is), Some(1));
    // Number 2 now belongs to other Data.
    hints.note(&[hash], 2);
    assert_eq!(hints.find(hash, is), None);
}

#[test]
fn a_full_line_forgets_its_oldest_hint() {
    let mut hints = PrefixHints::new(7).unwrap();
    for hash in 1..=9 {
        hints.ask(hash);
        hints.note(&[hash], hash as u32);
    }
    let found: Vec<u64> = (1..=9).filter(|&hash| hints.find(hash, |_| true).is_some()).collect();
    assert_eq!(found, [3, 4, 5, 6, 7, 8, 9]);
    assert!((3..=9).all(|hash| hints.find(hash, |data| u64::from(data) == hash).is_some()));
    assert!(PrefixHints::new(0).unwrap().find(0, |_| true).is_none());
}

#[test]
fn data_is_noted_under_prefixes_that_were_asked_for_lately() {
    let hash = |i: u32| Name::of([i.to_be_bytes()]).hashed(Keys::Good, |name| name.hash());
    let mut hints = PrefixHints::new(1 << 18).unwrap();
    // None of the latest is forgotten, and hardly any other seems to be one of them.
    (0..100_000).for_each(|i| hints.ask(hash(i)));
    let mut others = 0;
    for i in 100_000 - 16_384..200_000 {
        hints.note(&[hash(300_000 + i), hash(i)], i);
        let is_noted = hints.find(hash(i), |data| data == i).is_some();
        assert!(is_noted || i >= 100_000, "{i} was asked for");
        others += u32::from(is_noted && i >= 100_000);
    }
    assert!(others < 25_000, "{others} of 100,000 were not asked for");
}
