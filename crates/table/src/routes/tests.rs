use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn mac(n: u64) -> MacAddr {
    MacAddr::from_u64(n)
}

fn route(port: u8, len: usize) -> Route {
    Route { port, header: (0..len).map(|i| i as u8 ^ port).collect() }
}

#[derive(Clone, Debug)]
enum Action {
    Insert(RouteKey, RouteSet),
    Remove(RouteKey),
    RetainPortsBelow(u8),
}

fn route_key() -> impl Strategy<Value = RouteKey> {
    // Addresses that differ in the upper and in the lower bits.
    let address = || (0u64..24).prop_map(|n| mac(if n % 2 == 0 { n << 40 } else { n }));
    (address(), prop::option::of(address()))
        .prop_map(|(destination, source)| RouteKey { destination, source })
}

fn routes() -> impl Strategy<Value = RouteSet> {
    let lens = prop_oneof![0usize..=16, 0usize..=70];
    let route = (any::<u8>(), lens).prop_map(|(port, len)| route(port, len));
    let count = prop_oneof![4 => 1..=1usize, 1 => 1..=8usize];
    count
        .prop_flat_map(move |n| prop::collection::vec(route.clone(), n))
        .prop_map(|routes| RouteSet::new(routes).unwrap())
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => (route_key(), routes()).prop_map(|(k, s)| Action::Insert(k, s)),
        3 => route_key().prop_map(Action::Remove),
        1 => any::<u8>().prop_map(Action::RetainPortsBelow),
    ]
}

/// The table's answer according to its documentation.
fn expected(model: &HashMap<RouteKey, RouteSet>, d: MacAddr, s: MacAddr) -> Option<&RouteSet> {
    let own = model.get(&RouteKey { destination: d, source: Some(s) });
    own.or_else(|| model.get(&RouteKey { destination: d, source: None }))
}

proptest! {
    #[test]
    fn behaves_like_a_hash_map(actions in prop::collection::vec(action(), 0..120), seed: u64) {
        let mut table = PortRoutes::new(seed);
        let mut model: HashMap<RouteKey, RouteSet> = HashMap::new();
        for action in actions {
            // A clone must not see later changes.
            let (before, model_before) = (table.clone(), model.clone());
            match action {
                Action::Insert(key, set) => {
                    let sound = key.destination != mac(0) && key.source != Some(mac(0));
                    prop_assert_eq!(table.insert(key, set.clone()), sound);
                    if sound {
                        model.insert(key, set);
                    }
                }
                Action::Remove(key) => {
                    prop_assert_eq!(table.remove(key), model.remove(&key).is_some());
                }
                Action::RetainPortsBelow(limit) => {
                    let below = |port: u8| port < limit;
                    let gone = table.retain(|_, f| below(f.get(0).unwrap().0));
                    let len = model.len();
                    model.retain(|_, set| below(set.routes()[0].port));
                    prop_assert_eq!(gone, len - model.len());
                }
            }
            prop_assert_eq!(table.len(), model.len());
            let all: HashMap<_, _> = before.iter().map(|(k, f)| (k, f.to_set())).collect();
            prop_assert_eq!(all, model_before);
        }
        for d in (0..24).map(|n| mac(if n % 2 == 0 { n << 40 } else { n })) {
            for s in [mac(0), mac(1), mac(2 << 40), mac(9), mac(77)] {
                let found = table.get(d, s).map(Found::to_set);
                prop_assert_eq!(found.as_ref(), expected(&model, d, s));
            }
        }
    }
}

#[test]
fn many_routes_are_found_and_installing_one_more_copies_few() {
    let count = 60_000u64;
    let mut table = PortRoutes::new(3);
    for n in 1..=count {
        table.insert(RouteKey { destination: mac(n), source: None }, route(n as u8, 10).into());
    }
    assert_eq!(table.len(), count as usize);
    for n in 1..=count {
        let found = table.get(mac(n), mac(5)).unwrap();
        assert_eq!(found.get(0).unwrap().0, n as u8);
    }
    assert!(table.get(mac(count + 1), mac(5)).is_none());
    let mut next = table.clone();
    next.insert(RouteKey { destination: mac(count + 1), source: None }, route(1, 70).into());
    let shared = table
        .shards
        .iter()
        .zip(&next.shards)
        .filter(|(a, b)| Arc::ptr_eq(&a.slots, &b.slots))
        .count();
    assert_eq!(shared, table.shards.len() - 1);
    assert_eq!(next.get(mac(count + 1), mac(5)).unwrap().get(0).unwrap().1.len(), 70);
    let fullest = table.shards.iter().map(|s| s.len).max().unwrap();
    assert!(fullest < 3 * SHARD_LOAD, "{fullest} entries in one shard");
}

#[test]
fn a_set_has_one_to_eight_routes() {
    assert!(RouteSet::new(vec![]).is_none());
    assert!(RouteSet::new(vec![route(1, 6); 9]).is_none());
    let set = RouteSet::new(vec![route(1, 6), route(2, 70)]).unwrap();
    let key = RouteKey { destination: mac(1), source: None };
    let mut table = PortRoutes::new(1);
    table.insert(key, set);
    let found = table.get(mac(1), mac(2)).unwrap();
    assert_eq!((found.len(), found.get(1).unwrap().0, found.get(2)), (2, 2, None));
}
