use std::collections::BTreeMap;

use plexus_wire::ndn::NameBuf;
use proptest::prelude::*;

use super::*;
use crate::names::NameHashes;

fn hop(place: u32, cost: u64) -> NextHop {
    NextHop { face: FaceId::new(place, 0).unwrap(), cost }
}

fn name(parts: &[u8]) -> NameBuf {
    parts.iter().fold(NameBuf::new(), |name, part| name.with([*part]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_longest_prefix_is_found(
        prefixes in prop::collection::vec((prop::collection::vec(0u8..3, 0..5), 0u32..4), 0..30),
        asked in prop::collection::vec(prop::collection::vec(0u8..3, 0..40), 0..30),
    ) {
        let hasher = NameHasher::new([3, 4]);
        let mut fib = Fib::new(64);
        let mut model = BTreeMap::new();
        for (parts, place) in prefixes {
            fib.set(&hasher, name(&parts).as_name(), &[hop(place, 1)]).unwrap();
            model.insert(parts, place);
        }
        prop_assert_eq!(fib.len(), model.len());
        for parts in asked {
            let asked = name(&parts);
            let mut memory = NameHashes::default();
            let hashed = hasher.hash(asked.as_name(), &mut memory).unwrap();
            let found = fib.lookup(&hashed).map(|(hops, n)| (n, hops[0]));
            let longest = (0..=parts.len()).rev()
                .find_map(|n| Some((n, hop(*model.get(&parts[..n])?, 1))));
            prop_assert_eq!(found, longest);
        }
    }
}

#[test]
fn next_hops_stand_by_cost_and_equal_sets_are_held_once() {
    let hasher = NameHasher::new([3, 4]);
    let mut fib = Fib::new(8);
    fib.set(&hasher, name(&[1]).as_name(), &[hop(0, 20), hop(1, 10)]).unwrap();
    fib.set(&hasher, name(&[2]).as_name(), &[hop(1, 10), hop(0, 20)]).unwrap();
    assert_eq!(fib.sets.len(), 1);
    assert_eq!(fib.sets[0][..], [hop(1, 10), hop(0, 20)]);
}

#[test]
fn what_does_not_fit_is_refused_with_what_to_do() {
    let hasher = NameHasher::new([3, 4]);
    let mut fib = Fib::new(1);
    let many: Vec<_> = (0..65).map(|i| hop(i, 0)).collect();
    assert_eq!(fib.set(&hasher, name(&[1]).as_name(), &many), Err(FibError::Hops(65)));
    assert_eq!(fib.set(&hasher, name(&[1; 33]).as_name(), &[]), Err(FibError::Prefix));
    fib.set(&hasher, name(&[1]).as_name(), &[]).unwrap();
    assert_eq!(fib.set(&hasher, name(&[2]).as_name(), &[]), Err(FibError::Full(1)));
    assert_eq!(fib.len(), 1);
    assert!(FibError::Full(1).to_string().contains("raise"));
}
