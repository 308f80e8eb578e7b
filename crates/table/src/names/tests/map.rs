//! The exact map and the hints, beside naive ones.

use std::collections::HashMap;

use super::*;

/// A forwarder's entries: names, and a map that leads to them.
struct Entries {
    map: NameMap,
    names: Vec<Option<Name>>,
}

impl Entries {
    fn find(&self, name: &Name, keys: Keys) -> Option<u32> {
        name.hashed(keys, |hashed| {
            self.map.prefetch(hashed.hash());
            let is = |entry: u32| {
                self.names[entry as usize].as_ref().is_some_and(|n| n.bytes == hashed.bytes())
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
                    if inserted.is_ok() {
                        entries.names[number as usize] = Some(name.clone());
                        model.insert(name, number);
                    } else {
                        prop_assert!(model.len() >= 100, "full with {}", model.len());
                    }
                }
                (false, Some(entry)) => {
                    prop_assert!(name.hashed(keys, |n| entries.map.remove(n.hash(), entry)));
                    prop_assert!(!name.hashed(keys, |n| entries.map.remove(n.hash(), entry)));
                    entries.names[entry as usize] = None;
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
        for i in 0..capacity as u32 {
            assert_eq!(map.insert(hash(i), i), Ok(()));
        }
        assert_eq!(map.insert(hash(7), 7), Err(MapFull));
        for i in 0..capacity as u32 {
            assert_eq!(map.find(hash(i), |entry| entry == i), Some(i));
        }
        assert!(map.remove(hash(0), 0));
        assert_eq!(map.insert(hash(7), 7), Ok(()));
        assert_eq!((map.len(), map.bytes()), (capacity, bytes));
    }
}

#[test]
fn entries_of_one_name_are_told_apart_by_the_caller() {
    let mut map = NameMap::new(1000).unwrap();
    assert_eq!(map.insert(42, u32::MAX), Err(MapFull));
    let fitting = (0..1000).take_while(|&entry| map.insert(42, entry).is_ok()).count() as u32;
    assert!((100..150).contains(&fitting), "{fitting} entries of one hash");
    assert!((0..fitting).all(|i| map.find(42, |entry| entry == i) == Some(i)));
    assert_eq!(map.find(42 + (1 << 32), |_| false), None);
    // Whoever had to go further is still found when those before it go.
    for i in 0..fitting - 1 {
        assert!(map.remove(42, i));
        assert_eq!(map.find(42, |entry| entry == fitting - 1), Some(fitting - 1));
    }
    assert!(map.remove(42, fitting - 1));
    assert!(map.is_empty());
    // Nothing is left behind: a search asks nobody, and there is room again.
    assert_eq!(map.find(42, |_| panic!("nobody is there")), None);
    assert_eq!(
        (0..1000).take_while(|&entry| map.insert(42, entry).is_ok()).count() as u32,
        fitting
    );
}

#[test]
fn an_entry_takes_the_place_of_another() {
    let mut map = NameMap::new(20).unwrap();
    (0..20).for_each(|entry| map.insert(u64::from(entry % 2), entry).unwrap());
    assert!(map.replace(1, 19, 21));
    assert!(!map.replace(1, 19, 23) && !map.replace(0, 21, 23) && !map.replace(1, 21, u32::MAX));
    assert_eq!(map.find(1, |entry| entry == 19), None);
    assert_eq!(map.find(1, |entry| entry == 21), Some(21));
    assert_eq!((map.len(), map.insert(1, 22)), (20, Err(MapFull)));
    assert!(!map.remove(1, 19) && map.remove(1, 21));
}

#[test]
fn a_hint_leads_to_the_last_data_noted_while_it_is_there() {
    let mut hints = PrefixHints::new(1000).unwrap();
    let data = [Name::parse("/a/b/1"), Name::parse("/a/b/2"), Name::parse("/c")];
    let prefix = Name::parse("/a/b");
    let hash = prefix.hashed(Keys::Good, |name| name.hash());
    let is = |number: u32| data[number as usize].bytes.starts_with(&prefix.bytes);
    hints.prefetch(hash);
    assert_eq!(hints.find(hash, is), None);
    hints.note(hash, 0);
    assert_eq!(hints.find(hash, is), Some(0));
    hints.note(hash, 1);
    assert_eq!(hints.find(hash, is), Some(1));
    // Number 2 was given to other Data since.
    hints.note(hash, 2);
    assert_eq!(hints.find(hash, is), None);
}

#[test]
fn a_full_line_forgets_its_oldest_hint() {
    let mut hints = PrefixHints::new(7).unwrap();
    for hash in 1..=9 {
        hints.note(hash, hash as u32);
    }
    let found: Vec<u64> = (1..=9).filter(|&hash| hints.find(hash, |_| true).is_some()).collect();
    assert_eq!(found, [3, 4, 5, 6, 7, 8, 9]);
    assert!((3..=9).all(|hash| hints.find(hash, |data| u64::from(data) == hash).is_some()));
    assert!(PrefixHints::new(0).unwrap().find(0, |_| true).is_none());
}
