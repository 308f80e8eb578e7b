use plexus_wire::ndn::{Component, NameBuf, types};
use proptest::prelude::*;

use super::*;
use crate::names::{NameHasher, NameHashes};

fn face(place: u32) -> FaceId {
    FaceId::new(place, 0).unwrap()
}

fn selectors(can_be_prefix: bool, must_be_fresh: bool) -> Selectors {
    Selectors { can_be_prefix, must_be_fresh }
}

fn with<T>(name: &NameBuf, then: impl FnOnce(HashedName<'_>) -> T) -> T {
    let mut memory = NameHashes::default();
    then(NameHasher::new([1, 2]).hash(name.as_name(), &mut memory).unwrap())
}

fn insert(pit: &mut Pit, name: &NameBuf, by: FaceId) -> Result<u32, Full> {
    let selectors = selectors(false, false);
    with(name, |name| {
        pit.insert(&Key { name, selectors, hint: &[], digest: false, of_data: true }, by)
    })
}

fn asker(by: FaceId) -> Asker<'static> {
    Asker { face: by, nonce: [0; 4], expiry: Time::from_secs(4), token: None }
}

fn out(to: FaceId) -> OutRecord {
    let (sent, expiry) = (Time::ZERO, Time::ZERO);
    OutRecord { face: to, nonce: [1; 4], expiry, sent, nack: None, suppression_ms: 0 }
}

fn digest_name(name: &NameBuf, digest: [u8; 32]) -> NameBuf {
    let mut name = name.clone();
    let kind = types::IMPLICIT_SHA256_DIGEST as u16;
    name.push(Component { kind, value: &digest }).unwrap();
    name
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Short and long names, around the sizes at which pieces begin.
    #[test]
    fn data_finds_what_a_search_through_all_entries_finds(
        asked in prop::collection::vec(
            (prop::collection::vec((0u8..2, 0usize..4), 1..40), any::<bool>(), any::<bool>(),
             0u8..3, any::<bool>()), 1..24),
        came in prop::collection::vec(prop::collection::vec((0u8..2, 0usize..4), 0..40), 0..16),
    ) {
        let build = |parts: &[(u8, usize)]| parts.iter().fold(NameBuf::new(), |name, (byte, len)| {
            name.with(vec![*byte; [0, 1, 20, 61][*len]])
        });
        let mut pit = Pit::new(64, 3);
        let mut model: Vec<(NameBuf, bool, bool, u8, bool, u32)> = Vec::new();
        let mut names: Vec<NameBuf> = came.iter().map(|parts| build(parts)).collect();
        for (parts, can_be_prefix, must_be_fresh, hint, digest) in asked {
            let name = build(&parts);
            names.push(name.clone());
            names.push(name.as_name().prefix(parts.len() - 1).to_buf());
            let name = if digest { digest_name(&name, [hint; 32]) } else { name };
            let hint_bytes = vec![7, 1, hint][..if hint == 0 { 0 } else { 3 }].to_vec();
            let selectors = selectors(can_be_prefix, must_be_fresh);
            let found = with(&name, |name| {
                let key = Key { name, selectors, hint: &hint_bytes, digest, of_data: !digest };
                let known = pit.find(&key);
                (known, known.map_or_else(|| pit.insert(&key, face(0)).ok(), Some))
            });
            let same = model.iter().find(|m| {
                (&m.0, m.1, m.2, m.3, m.4) == (&name, can_be_prefix, must_be_fresh, hint, digest)
            });
            prop_assert_eq!(found.0, same.map(|m| m.5));
            if let (None, Some(id)) = found {
                model.push((name, can_be_prefix, must_be_fresh, hint, digest, id));
            }
        }
        for name in names {
            let mut expected: Vec<u32> = model.iter().filter(|m| match (m.4, m.1) {
                (true, _) => m.0 == digest_name(&name, [1; 32]),
                (_, true) => m.0.as_name().is_prefix_of(&name.as_name()),
                _ => m.0 == name,
            }).map(|m| m.5).collect();
            let mut found = Vec::new();
            with(&name, |name| pit.answered(&name, || [1; 32], &mut found));
            for id in &found {
                let token = pit.token(*id);
                let by_token = with(&name, |n| pit.answered_by_token(&token, &n, || [1; 32]));
                prop_assert_eq!(by_token, Some(*id));
            }
            expected.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
        let ids: Vec<u32> = model.iter().map(|m| m.5).collect();
        ids.iter().for_each(|id| pit.remove(*id));
        prop_assert_eq!((pit.len(), pit.pieces.room()), (0, 64));
        prop_assert_eq!((pit.prefix_lengths, pit.accounts[0].used), (0, [0; 4]));
    }
}

#[test]
fn a_flood_costs_only_its_own_face() {
    let mut pit = Pit::new(96, 0);
    let mut quiet = Vec::new();
    for i in 0..30u32 {
        quiet.push(insert(&mut pit, &NameBuf::new().with(i.to_be_bytes()), face(1)).unwrap());
    }
    let mut latest = 0;
    for i in 0..1_000u32 {
        let name = NameBuf::new().with("flood").with(i.to_be_bytes());
        latest = match insert(&mut pit, &name, face(2)) {
            Err(Full::Evict(id)) => {
                assert_eq!(pit.get(id).owner, 2);
                pit.remove(id);
                insert(&mut pit, &name, face(2)).unwrap()
            }
            made => made.unwrap(),
        };
    }
    // The flood takes half of what the quiet face leaves.
    assert_eq!(pit.len(), 30 + 33);
    assert!(quiet.iter().all(|id| pit.get(*id).live && pit.get(*id).owner == 1));
    assert!(pit.get(latest).live);
    // And a third face still finds room.
    assert!(insert(&mut pit, &NameBuf::new().with("new"), face(3)).is_ok());
}

#[test]
fn silent_faces_with_full_shares_keep_no_others_out() {
    let mut pit = Pit::new(256, 0);
    let ask = |pit: &mut Pit, by: u32, i: u32| {
        let name = NameBuf::new().with(by.to_be_bytes()).with(i.to_be_bytes());
        loop {
            match insert(pit, &name, face(by)) {
                Err(Full::Evict(id)) => pit.remove(id),
                made => return made.is_ok(),
            }
        }
    };
    // Each face takes all that it gets; the first gets half, and the last only what others lose.
    for by in 0..20 {
        (0..200).for_each(|i| assert!(ask(&mut pit, by, i), "{by}, {i}"));
    }
    let used = |pit: &Pit, by: usize| pit.accounts[by].used[ENTRIES];
    assert_eq!(pit.len() as u32, (0..20).map(|by| used(&pit, by)).sum());
    let newcomer = 20;
    (0..200).for_each(|i| assert!(ask(&mut pit, newcomer, i)));
    let most = (0..20).map(|by| used(&pit, by)).max().unwrap();
    let has = used(&pit, newcomer as usize);
    assert!(has > 0 && 2 * has >= most / 2, "{has} beside {most}");
}

#[test]
fn long_names_have_a_bound_of_their_own() {
    let mut pit = Pit::new(64, 0);
    let long = |i: u8| NameBuf::new().with(vec![i; INLINE + 20 * PIECE]);
    let first = insert(&mut pit, &long(1), face(1)).unwrap();
    assert_eq!(insert(&mut pit, &long(2), face(2)).map(|_| ()), Ok(()));
    assert_eq!(insert(&mut pit, &long(3), face(1)), Err(Full::Evict(first)));
    let huge = NameBuf::new().with(vec![0; 60_000]);
    assert_eq!(insert(&mut pit, &huge, face(3)), Err(Full::Room));
    // Short names are not affected.
    assert!(insert(&mut pit, &NameBuf::new().with("short"), face(1)).is_ok());
}

#[test]
fn the_face_with_most_variants_of_a_name_loses_one() {
    let mut pit = Pit::new(64, 0);
    let name = NameBuf::new().with("a");
    let insert = |pit: &mut Pit, hint: u8, by: u32, ends: u64| {
        let made = with(&name, |name| {
            let key = Key {
                name,
                selectors: selectors(false, false),
                hint: &[7, 3, 8, 1, hint],
                digest: false,
                of_data: true,
            };
            pit.insert(&key, face(by))
        })?;
        pit.set_expiry(made, Time::from_secs(ends));
        Ok(made)
    };
    let quiet = insert(&mut pit, 0, 1, 1).unwrap();
    let hogs: Vec<u32> = (1..VARIANTS_MAX as u8)
        .map(|i| insert(&mut pit, i, 2, 100 - u64::from(i)).unwrap())
        .collect();
    // The one that expires first, whichever face asks.
    for newcomer in [3, 2, 1] {
        let refused = insert(&mut pit, 99, newcomer, 1);
        assert_eq!(refused, Err(Full::Surplus(*hogs.last().unwrap())));
    }
    pit.remove(*hogs.last().unwrap());
    assert!(insert(&mut pit, 99, 3, 1).is_ok());
    assert!(pit.get(quiet).live);
}

#[test]
fn an_evicted_owners_entry_passes_to_the_next_waiting_face() {
    let mut pit = Pit::new(64, 0);
    let long = NameBuf::new().with(vec![0; INLINE + 3 * PIECE]);
    let id = insert(&mut pit, &long, face(1)).unwrap();
    let younger = insert(&mut pit, &NameBuf::new().with("b"), face(1)).unwrap();
    pit.put_in(id, &asker(face(1))).unwrap();
    for by in [5, 6] {
        assert!(pit.put_out(id, out(face(by))));
    }
    assert!(pit.hand_over(id).is_none(), "no other face waits");
    pit.put_in(id, &asker(face(2))).unwrap();
    let taken = pit.hand_over(id).unwrap().map(|record| record.face);
    assert_eq!(taken, Some(face(1)));
    assert_eq!(pit.accounts[1].used, [1, 0, 0, 0]);
    // Its in-record stands in the entry now, which the entry pays for.
    assert_eq!(pit.accounts[2].used, [1, 4, 0, 1]);
    assert_eq!((pit.accounts[1].oldest, pit.accounts[2].oldest), (younger, id));
    assert_eq!(pit.ins(id).map(|r| r.face).collect::<Vec<_>>(), [face(2)]);
    while pit.has_ins(id) {
        pit.drop_in(id);
    }
    pit.remove(id);
    pit.remove(younger);
    assert!(pit.accounts.iter().all(|account| account.used == [0; 4] && account.oldest == NONE));
}

/// Takes out what faces have left that have gone, as the forwarder does; how many steps it took.
fn take_left(pit: &mut Pit) -> usize {
    let mut steps = 0;
    while let Some((id, face)) = pit.next_left() {
        pit.take_in(id, face);
        if !pit.has_ins(id) {
            pit.remove(id);
        }
        steps += 1;
    }
    steps
}

#[test]
fn what_a_face_leaves_is_taken_out_and_what_its_successor_has_stays() {
    let mut pit = Pit::new(64, 0);
    let [old, other, new] = [(0, 0), (1, 0), (0, 1)].map(|(p, uses)| FaceId::new(p, uses).unwrap());
    let entry = |pit: &mut Pit, name: &str, faces: &[FaceId]| {
        let id = insert(pit, &NameBuf::new().with(name), faces[0]).unwrap();
        faces.iter().for_each(|face| _ = pit.put_in(id, &asker(*face)).unwrap());
        id
    };
    let alone = entry(&mut pit, "a", &[old]);
    let theirs = entry(&mut pit, "b", &[other, old]);
    let first = entry(&mut pit, "c", &[old, other]);
    assert!(!pit.has_left() && pit.next_left().is_none());
    pit.leave(old);
    // Before anything is taken out, a face comes in its place, and another one goes.
    let next = entry(&mut pit, "d", &[new]);
    pit.put_in(theirs, &asker(new)).unwrap();
    pit.put_in(first, &asker(new)).unwrap();
    pit.leave(other);
    let late = entry(&mut pit, "e", &[new, other]);
    assert!(pit.has_left() && pit.is_leaving(old) && !pit.is_leaving(new));
    // Six records of the two; none is looked at twice.
    assert_eq!(take_left(&mut pit), 6);
    assert!(!pit.has_left() && !pit.get(alone).live);
    for id in [theirs, first, next, late] {
        assert_eq!(pit.ins(id).map(|r| r.face).collect::<Vec<_>>(), [new], "{id}");
        assert_eq!(pit.get(id).owner, 0);
    }
    assert_eq!((pit.accounts[0].used, pit.accounts[1].used), ([4, 0, 0, 0], [0; 4]));
    pit.leave(new);
    assert_eq!((take_left(&mut pit), pit.len()), (4, 0));
    assert!(pit.accounts.iter().all(|a| a.used == [0; 4] && a.oldest == NONE));
    assert!(pit.accounts.iter().all(|a| [a.newest, a.oldest_in, a.newest_in] == [NONE; 3]));
    // A face that has nothing here leaves nothing.
    pit.leave(other);
    pit.leave(face(9));
    assert!(pit.leaving.is_empty());
}

#[test]
fn an_entry_that_passes_to_a_face_that_is_leaving_ends_with_it() {
    let mut pit = Pit::new(64, 0);
    let [old, new] = [0, 1].map(|uses| FaceId::new(0, uses).unwrap());
    let id = insert(&mut pit, &NameBuf::new().with("a"), face(1)).unwrap();
    pit.put_in(id, &asker(face(1))).unwrap();
    pit.put_in(id, &asker(old)).unwrap();
    pit.leave(old);
    let own = insert(&mut pit, &NameBuf::new().with("b"), new).unwrap();
    pit.put_in(own, &asker(new)).unwrap();
    assert!(pit.hand_over(id).is_some());
    assert_eq!((take_left(&mut pit), pit.len()), (1, 1));
    assert!(pit.get(own).live && !pit.get(id).live);
}

#[test]
fn an_empty_table_gives_its_memory_back_in_steps_and_can_be_used_again() {
    let many = 60_000;
    let mut pit = Pit::new(1 << 17, 0);
    let ask = |pit: &mut Pit, i: u32| {
        let name = NameBuf::new().with(i.to_be_bytes());
        let id = insert(pit, &name, face(1)).unwrap();
        pit.put_in(id, &asker(face(1))).unwrap();
        id
    };
    (0..many).for_each(|i| _ = ask(&mut pit, i));
    let token = pit.token(7);
    pit.leave(face(1));
    assert_eq!(take_left(&mut pit), many as usize);
    let mut steps = 0;
    while pit.has_left() {
        pit.give_back();
        steps += 1;
        // An Interest in between only puts it off.
        if steps == 5 {
            let id = ask(&mut pit, 0);
            assert!(!pit.has_left());
            pit.give_back();
            pit.drop_in(id);
            pit.remove(id);
        }
    }
    let bytes = pit.capacity * size_of::<Entry>();
    assert!(steps >= bytes / (4 << 20), "{steps} steps for {bytes} bytes");
    assert_eq!((pit.len(), pit.entries.capacity()), (0, pit.capacity));
    assert!(pit.entries.is_empty() && pit.free.is_empty());
    (0..many).for_each(|i| _ = ask(&mut pit, i));
    assert_eq!((pit.len(), pit.by_token(&token)), (many as usize, None));
}

#[test]
fn records_of_many_faces_come_and_go() {
    let mut pit = Pit::new(64, 0);
    let id = insert(&mut pit, &NameBuf::new().with("a"), face(0)).unwrap();
    for i in 0..5 {
        assert_eq!(pit.put_in(id, &asker(face(i))), Ok(Before::Nothing));
        assert!(pit.put_out(id, out(face(i))) && pit.put_out(id, out(face(i))));
    }
    assert_eq!(pit.put_in(id, &asker(face(3))), Ok(Before::Own));
    assert_eq!((pit.ins(id).count(), pit.outs(id).count()), (5, 5));
    assert!(pit.take_in(id, face(3)).is_some() && pit.take_in(id, face(3)).is_none());
    assert!(pit.take_out(id, face(0)).is_some() && pit.take_out(id, face(2)).is_some());
    assert_eq!((pit.ins(id).count(), pit.outs(id).count()), (4, 3));
    assert_eq!(pit.ins(id).count(), 4);
    while pit.has_ins(id) {
        pit.drop_in(id);
    }
    pit.remove(id);
    assert_eq!((pit.ins.room(), pit.outs.room()), (64, 64));
    assert!(pit.accounts.iter().all(|a| a.used == [0; 4]));
}

#[test]
fn a_full_entry_evicts_the_longest_waiting_in_record() {
    let many = INS_MAX as u32;
    let mut pit = Pit::new(4 * INS_MAX, 0);
    let id = insert(&mut pit, &NameBuf::new().with("a"), face(0)).unwrap();
    for by in (0..many).chain([5]) {
        let before = if by == 5 && pit.ins(id).count() > 5 { Before::Own } else { Before::Nothing };
        assert_eq!(pit.put_in(id, &asker(face(by))), Ok(before));
    }
    // As many as may wait. The first face stays, because the entry belongs to it.
    for by in many..2 * many {
        assert_eq!(pit.put_in(id, &asker(face(by))), Ok(Before::Longest));
        let gone = by - many + 1;
        assert!(pit.ins(id).all(|r| r.face != face(gone)), "{gone}");
        assert_eq!(pit.ins(id).count(), INS_MAX);
    }
    assert_eq!(pit.ins(id).next().map(|r| r.face), Some(face(0)));
    // A face without room for a record evicts no other's.
    let mut small = Pit::new(INS_MAX, 0);
    let id = insert(&mut small, &NameBuf::new().with("a"), face(0)).unwrap();
    for by in 0..many {
        small.put_in(id, &asker(face(by))).unwrap();
    }
    assert_eq!(small.ins(id).count(), INS_MAX);
    let other = insert(&mut small, &NameBuf::new().with("b"), face(1)).unwrap();
    small.put_in(other, &asker(face(2 * many))).unwrap();
    small.put_in(other, &asker(face(3 * many))).unwrap();
    let before: Vec<FaceId> = small.ins(id).map(|r| r.face).collect();
    assert_eq!(small.put_in(id, &asker(face(3 * many))), Err(Full::Room));
    assert_eq!(small.ins(id).map(|r| r.face).collect::<Vec<_>>(), before);
}

#[test]
fn a_token_is_good_for_one_entry_of_one_worker() {
    let mut pit = Pit::new(64, 7);
    let id = insert(&mut pit, &NameBuf::new().with("a"), face(0)).unwrap();
    let token = pit.token(id);
    assert_eq!((token[0], pit.by_token(&token)), (7, Some(id)));
    assert_eq!(pit.by_token(&token[1..]), None);
    assert_eq!(Pit::new(64, 7).by_token(&token), None);
    let mut other = token;
    other[0] = 6;
    assert_eq!(pit.by_token(&other), None);
    pit.remove(id);
    assert_eq!(pit.by_token(&token), None);
    assert_eq!(insert(&mut pit, &NameBuf::new().with("b"), face(0)), Ok(id));
    assert_eq!(pit.by_token(&token), None);
}

#[test]
fn an_entry_takes_as_much_memory_as_is_said() {
    assert_eq!(Pit::new(1 << 16, 0).bytes_per_entry(), 318);
}
