//! The FIB compared with a naive one, and the effects of hostile names.

use std::collections::HashMap;

use super::*;

const SMALL: NameLimits = NameLimits { prefixes: 1000, record_bytes: 100_000 };

#[derive(Clone, Debug)]
enum Step {
    Insert(Name, u32),
    Remove(Name),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (name(), any::<u32>()).prop_map(|(name, value)| Step::Insert(name, value)),
        1 => name().prop_map(Step::Remove),
    ]
}

fn naive(model: &HashMap<Vec<u8>, u32>, name: &Name) -> Option<NameMatch> {
    (0..=name.ends.len()).rev().find_map(|components| {
        let value = *model.get(&name.prefix(components).bytes)?;
        Some(NameMatch { value, components: components as u8 })
    })
}

fn lookup(fib: &NameFib, name: &Name, keys: Keys) -> Option<NameMatch> {
    name.hashed(keys, |name| fib.reader().batch().lookup(name))
}

/// All names in one batch.
fn lookup_batch(fib: &NameFib, names: &[Name], keys: Keys) -> Vec<Option<NameMatch>> {
    let mut hashes = vec![NameHashes::default(); names.len()];
    for (hashes, name) in hashes.iter_mut().zip(names) {
        *hashes = name.hashed(keys, |name| name.hashes.clone());
    }
    let hashed = names.iter().zip(&hashes);
    let hashed: Vec<_> =
        hashed.map(|(name, hashes)| HashedName { bytes: &name.bytes, hashes }).collect();
    let mut answers = vec![None; names.len()];
    fib.reader().batch().lookup_batch(&hashed, &mut answers);
    answers
}

fn insert(fib: &mut NameFib, name: &Name, value: u32) -> Result<Option<u32>, NameRefused> {
    name.hashed(Keys::Good, |name| fib.insert(name, value))
}

fn remove(fib: &mut NameFib, name: &Name) -> Option<u32> {
    name.hashed(Keys::Good, |name| fib.remove(name))
}

proptest! {
    #[test]
    fn the_longest_prefix_is_found(
        steps in prop::collection::vec(step(), 1..200),
        asked in prop::collection::vec(name(), 1..50),
        keys in Keys::any(),
    ) {
        let mut fib = NameFib::new(SMALL).unwrap();
        let mut model = HashMap::new();
        for step in steps {
            match step {
                Step::Insert(name, value) => {
                    match name.hashed(keys, |name| fib.insert(name, value)) {
                        Ok(before) => prop_assert_eq!(before, model.insert(name.bytes, value)),
                        Err(refused) => {
                            prop_assert_eq!(refused, NameRefused::Crowded);
                            prop_assert!(model.len() >= 100 && !model.contains_key(&name.bytes));
                        }
                    }
                }
                Step::Remove(name) => {
                    let removed = name.hashed(keys, |name| fib.remove(name));
                    prop_assert_eq!(removed, model.remove(&name.bytes));
                }
            }
            prop_assert_eq!(lookup(&fib, &asked[0], keys), naive(&model, &asked[0]));
        }
        let answers = lookup_batch(&fib, &asked, keys);
        for (name, answer) in asked.iter().zip(answers) {
            prop_assert_eq!(answer, naive(&model, name));
            let exact = name.hashed(keys, |name| fib.get(name));
            prop_assert_eq!(exact, model.get(&name.bytes).copied());
        }
        prop_assert_eq!(fib.len(), model.len());
        prop_assert_eq!(fib.iter().collect::<HashMap<_, _>>(), model);
    }
}

#[test]
fn the_empty_name_is_the_default_route() {
    let mut fib = NameFib::new(SMALL).unwrap();
    let name = Name::parse("/com/example");
    assert_eq!(lookup(&fib, &name, Keys::Good), None);
    insert(&mut fib, &Name::default(), 5).unwrap();
    for name in [&name, &Name::default()] {
        let found = lookup(&fib, name, Keys::Good);
        assert_eq!(found, Some(NameMatch { value: 5, components: 0 }));
    }
    insert(&mut fib, &Name::parse("/com"), 6).unwrap();
    let found = lookup(&fib, &name, Keys::Good);
    assert_eq!(found, Some(NameMatch { value: 6, components: 1 }));
    assert_eq!(remove(&mut fib, &Name::parse("/com")), Some(6));
    assert_eq!(remove(&mut fib, &Name::default()), Some(5));
    assert_eq!(lookup(&fib, &name, Keys::Good), None);
    assert!(fib.is_empty());
}

#[test]
fn bytes_that_end_within_a_component_are_no_prefix() {
    let mut fib = NameFib::new(SMALL).unwrap();
    insert(&mut fib, &Name::parse("/com/exam"), 1).unwrap();
    // The same bytes but for the component's length.
    assert_eq!(lookup(&fib, &Name::parse("/com/example"), Keys::Good), None);
}

#[test]
fn a_name_of_hundreds_of_components_is_looked_up_by_its_first_32() {
    let mut fib = NameFib::new(SMALL).unwrap();
    let long = Name::of(vec!["x"; 900]);
    for components in [7, 32] {
        insert(&mut fib, &long.prefix(components), components as u32).unwrap();
    }
    assert_eq!(insert(&mut fib, &long.prefix(33), 33), Err(NameRefused::Components));
    assert_eq!(remove(&mut fib, &long.prefix(33)), None);
    assert_eq!(long.prefix(33).hashed(Keys::Good, |name| fib.get(name)), None);
    for (name, expected) in [(&long, 32), (&long.prefix(33), 32), (&long.prefix(31), 7)] {
        let found = Some(NameMatch { value: expected, components: expected as u8 });
        assert_eq!(lookup(&fib, name, Keys::Good), found);
        assert_eq!(lookup_batch(&fib, &vec![name.clone(); 40], Keys::Good), vec![found; 40]);
    }
}

/// The filter that selects the lengths to search has counters for some lengths only, and they
/// saturate early.
#[test]
fn every_length_is_found_however_many_there_are_of_it() {
    let mut fib = NameFib::new(SMALL).unwrap();
    let long = Name::of(vec!["x"; 32]);
    let siblings = |components: usize| {
        let above = long.prefix(components - 1);
        (0..20u32).map(move |i| above.clone().with(i.to_be_bytes()))
    };
    let check = |fib: &NameFib, least: usize| {
        for components in 0..=32 {
            let found = lookup(fib, &long.prefix(components), Keys::Good);
            let expected = (components >= least).then_some(components as u8);
            assert_eq!(found.map(|found| found.components), expected);
        }
    };
    for components in 0..=32 {
        insert(&mut fib, &long.prefix(components), 1).unwrap();
    }
    check(&fib, 0);
    for components in [2, 3, 16, 17, 32] {
        siblings(components).for_each(|name| {
            insert(&mut fib, &name, 2).unwrap();
            assert_eq!(lookup(&fib, &name, Keys::Good).map(|found| found.value), Some(2));
        });
        siblings(components).for_each(|name| {
            assert_eq!(remove(&mut fib, &name), Some(2));
            let above = lookup(&fib, &name, Keys::Good).map(|found| found.components);
            assert_eq!(above, Some(components as u8 - 1));
        });
        check(&fib, 0);
    }
    for components in 0..=32 {
        assert_eq!(remove(&mut fib, &long.prefix(components)), Some(1));
        check(&fib, components + 1);
    }
    assert!(fib.is_empty());
}

/// An attacker who knew the key could make a hundred prefixes collide: they are found all the same,
/// and further ones are refused and change nothing.
#[test]
fn names_with_one_hash_are_told_apart_and_bounded() {
    let (mut fib, keys) = (NameFib::new(SMALL).unwrap(), Keys::Colliding(0));
    let name = |i: u32| Name::of([i.to_be_bytes()]);
    let insert = |fib: &mut NameFib, i| name(i).hashed(keys, |name| fib.insert(name, i));
    let fitting = (0..1000).take_while(|&i| insert(&mut fib, i).is_ok()).count() as u32;
    assert!((100..150).contains(&fitting), "{fitting} names of one hash");
    assert_eq!(insert(&mut fib, fitting), Err(NameRefused::Crowded));
    let names: Vec<Name> = (0..=fitting).map(name).collect();
    let found = |i: u32| (i < fitting).then_some(NameMatch { value: i, components: 1 });
    assert_eq!(lookup_batch(&fib, &names, keys), (0..=fitting).map(found).collect::<Vec<_>>());
    let memory = fib.memory();
    for i in 0..fitting {
        assert_eq!(name(i).hashed(keys, |name| fib.remove(name)), Some(i));
        assert_eq!(insert(&mut fib, i), Ok(None));
    }
    assert!(fib.memory().records <= memory.records + 16 * 64, "what was refused is given back");
}

#[test]
fn limits_are_kept_and_named() {
    let mut fib = NameFib::new(NameLimits { prefixes: 2, record_bytes: 100_000 }).unwrap();
    let [a, b, c] = ["/a", "/b", "/c"].map(Name::parse);
    insert(&mut fib, &a, 1).unwrap();
    insert(&mut fib, &b, 2).unwrap();
    assert_eq!(insert(&mut fib, &c, 3), Err(NameRefused::Prefixes { limit: 2 }));
    assert_eq!(insert(&mut fib, &b, 4), Ok(Some(2)));
    assert_eq!(remove(&mut fib, &a), Some(1));
    assert_eq!(insert(&mut fib, &c, 3), Ok(None));
    assert_eq!(lookup(&fib, &a, Keys::Good), None);
    assert_eq!(lookup(&fib, &b, Keys::Good).map(|found| found.value), Some(4));

    let limits = NameLimits { prefixes: 100, record_bytes: 80 };
    let mut fib = NameFib::new(limits).unwrap();
    let long = Name::of(["a".repeat(46)]);
    assert_eq!(insert(&mut fib, &long, 1), Ok(None));
    assert_eq!(insert(&mut fib, &a, 1), Ok(None));
    assert_eq!(insert(&mut fib, &b, 1), Err(NameRefused::Records { limit: 80 }));
    // The memory of a long name is reused for several short ones.
    remove(&mut fib, &long);
    assert_eq!(insert(&mut fib, &b, 2), Ok(None));
    assert_eq!(insert(&mut fib, &c, 3), Ok(None));
    let found = [&a, &b, &c].map(|name| lookup(&fib, name, Keys::Good).map(|found| found.value));
    assert_eq!(found, [Some(1), Some(2), Some(3)]);

    let limits = NameLimits { prefixes: usize::MAX / 4, record_bytes: 80 };
    assert_eq!(NameFib::new(limits).err(), Some(NameRefused::OutOfMemory));
}
