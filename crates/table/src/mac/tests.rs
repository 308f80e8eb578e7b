use std::collections::HashMap;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

/// What each bucket's `displaced` should be, counted from scratch.
fn check_displaced(table: &MacTable) {
    let mut expected = vec![0; table.buckets.len()];
    for (index, bucket) in table.buckets.iter().enumerate() {
        for &key in bucket.keys.iter().filter(|&&k| k != EMPTY) {
            let hashed = table.hash(MacKey(key));
            let first = table.first(hashed);
            if first != index {
                assert_eq!(table.second(hashed), index, "a key is in neither of its buckets");
                expected[first] += 1;
            }
        }
    }
    let found: Vec<u32> = table.buckets.iter().map(|b| b.displaced).collect();
    assert_eq!(found, expected);
}

#[derive(Clone, Debug)]
enum Action {
    Insert(u16, u64, u16, u16),
    Remove(u16, u64),
    SweepPort(u16),
}

fn action() -> impl Strategy<Value = Action> {
    let key = || (1u16..4, 0u64..40);
    prop_oneof![
        6 => (key(), 0u16..16_384, any::<u16>())
            .prop_map(|((v, m), p, s)| Action::Insert(v, m, p, s)),
        3 => key().prop_map(|(v, m)| Action::Remove(v, m)),
        1 => (0u16..16_384).prop_map(Action::SweepPort),
    ]
}

proptest! {
    #[test]
    fn behaves_like_a_hash_map(actions in prop::collection::vec(action(), 0..400), seed: u64) {
        let mut table = MacTable::new(64, seed);
        let mut model: HashMap<MacKey, Station> = HashMap::new();
        for action in actions {
            match action {
                Action::Insert(vlan, mac, port, stamp) => {
                    let (key, station) =
                        (MacKey::from_u64(vlan, mac), Station::learned(port, stamp));
                    match table.insert(key, station) {
                        Ok(before) => prop_assert_eq!(before, model.insert(key, station)),
                        Err(Full) => prop_assert!(model.len() == 64 && !model.contains_key(&key)),
                    }
                }
                Action::Remove(vlan, mac) => {
                    let key = MacKey::from_u64(vlan, mac);
                    prop_assert_eq!(table.remove(key), model.remove(&key));
                }
                Action::SweepPort(limit) => {
                    table.sweep(7, table.buckets(), |_, s| s.port() < limit);
                    model.retain(|_, s| s.port() < limit);
                }
            }
            prop_assert_eq!(table.len(), model.len());
        }
        check_displaced(&table);
        for vlan in 1..4 {
            for mac in 0..40 {
                let key = MacKey::from_u64(vlan, mac);
                prop_assert_eq!(table.get(key), model.get(&key).copied());
            }
        }
        let all: HashMap<MacKey, Station> = table.iter().collect();
        prop_assert_eq!(all, model);
    }
}

#[test]
fn a_million_stations_fit_and_are_found() {
    let mut rng = Pcg64::seed_from_u64(1);
    let mut table = MacTable::new(1 << 20, rng.random());
    let keys: Vec<MacKey> =
        (0..1u64 << 20).map(|_| MacKey::from_u64(1, rng.random::<u64>() & !(1 << 40))).collect();
    for (i, &key) in keys.iter().enumerate() {
        table.insert(key, Station::learned((i % 64) as u16, 0)).unwrap();
    }
    for (i, &key) in keys.iter().enumerate() {
        assert_eq!(table.get(key).unwrap().port(), (i % 64) as u16);
    }
    assert_eq!(table.insert(MacKey::from_u64(2, 1), Station::fixed(1)), Err(Full));
    check_displaced(&table);
}

#[test]
fn sequential_and_vendor_addresses_fill_the_table_too() {
    for stride in [1, 1 << 8, 1 << 16, 1 << 24] {
        let mut table = MacTable::new(65_536, 0x1234_5678_9ABC_DEF0);
        for i in 0..65_536 {
            let key = MacKey::from_u64(100, 0x0200_0000_0000 + i * stride);
            table.insert(key, Station::learned(1, 0)).unwrap();
        }
        assert_eq!(table.len(), 65_536);
    }
}

#[test]
fn a_full_table_refuses_and_keeps_what_it_has() {
    let mut table = MacTable::new(8, 3);
    for mac in 0..8 {
        table.insert(MacKey::from_u64(1, mac), Station::learned(2, 9)).unwrap();
    }
    assert_eq!(table.insert(MacKey::from_u64(1, 99), Station::learned(2, 9)), Err(Full));
    assert!((0..8).all(|mac| table.get(MacKey::from_u64(1, mac)).is_some()));
    assert_eq!(
        table.insert(MacKey::from_u64(1, 0), Station::fixed(4)),
        Ok(Some(Station::learned(2, 9)))
    );
    assert!(table.get(MacKey::from_u64(1, 0)).unwrap().is_static());
}

#[test]
fn sweeping_in_steps_visits_everything_once() {
    let mut table = MacTable::new(1000, 5);
    for mac in 0..1000 {
        table.insert(MacKey::from_u64(1, mac), Station::learned(1, mac as u16)).unwrap();
    }
    let (mut at, mut seen) = (3, 0);
    let mut left = table.buckets();
    while left > 0 {
        let step = left.min(10);
        at = table.sweep(at, step, |_, s| {
            seen += 1;
            s.stamp() % 2 == 0
        });
        left -= step;
    }
    assert_eq!((at, seen, table.len()), (3, 1000, 500));
    check_displaced(&table);
}
