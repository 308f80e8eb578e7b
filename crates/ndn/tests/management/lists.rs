//! Prefix lists, which are written incrementally.

use std::collections::BTreeSet;

use plexus_ndn::management::RibLimits;
use plexus_wire::ndn::nfd::{FibEntry, Record, RibEntry};
use plexus_wire::ndn::{Data, NameBuf, types};
use proptest::prelude::*;

use crate::datasets::signed;
use crate::node::*;

const LISTS: [&str; 2] = ["/localhost/nfd/rib/list", "/localhost/nfd/fib/list"];

fn add(rig: &mut Rig, prefix: &NameBuf) {
    rig.add(&prefix.to_string(), route(APP, 0, 0, 0));
}

fn remove(rig: &mut Rig, prefix: &NameBuf) {
    rig.management.remove_route(prefix.as_name(), face_id(APP), 0, &mut rig.node);
}

/// Adds this many prefixes, and returns them in order.
fn fill(rig: &mut Rig, count: usize) -> Vec<NameBuf> {
    let prefixes: Vec<_> = (0..count).map(|n| name(&format!("/prefix/{n:06}"))).collect();
    prefixes.iter().for_each(|prefix| add(rig, prefix));
    prefixes
}

fn prefixes(list: &str, content: &[u8]) -> Vec<NameBuf> {
    match list.contains("rib") {
        true => RibEntry::parse_dataset(content).unwrap().into_iter().map(|e| e.name).collect(),
        false => FibEntry::parse_dataset(content).unwrap().into_iter().map(|e| e.name).collect(),
    }
}

fn version(packet: &[u8]) -> u64 {
    let data = Data::new_checked(packet).unwrap();
    data.name().get(data.name().len() - 2).unwrap().number(types::VERSION).unwrap()
}

#[test]
fn no_turn_writes_more_prefixes_than_it_may() {
    let turn = RibLimits::default().turn;
    for list in LISTS {
        let mut rig = Rig::new();
        let mut expected = fill(&mut rig, turn);
        let small = rig.ask_once(list).remove(0);
        assert_eq!(prefixes(list, &rig.rest(&small)), expected, "what fits comes at once");
        expected = fill(&mut rig, 5 * turn + 1);
        assert!(rig.ask_once(list).is_empty());
        let hostile = [list, &format!("{list}/v=1/seg=1152921504606846976")];
        for _ in 1..5 {
            assert!(rig.is_behind());
            assert!(rig.turn().is_empty());
            // Clients that ask meanwhile cause no work.
            let asked = hostile.iter().cycle().take(20);
            assert!(asked.copied().all(|text| rig.ask_once(text).is_empty()), "{list}");
        }
        let answers = rig.turn();
        assert_eq!((answers.len(), rig.is_behind()), (1, false), "{list}: one name, one answer");
        assert_eq!(prefixes(list, &rig.rest(&answers[0])), expected);
        // The segments are fetched in any order.
        let data = Data::new_checked(&answers[0]).unwrap();
        let last = data.meta().final_block.unwrap().number(types::SEGMENT).unwrap();
        let versioned = data.name().prefix(data.name().len() - 1).to_buf();
        let mut segments: Vec<_> = (0..=last)
            .rev()
            .flat_map(|n| {
                rig.ask_once(&versioned.clone().with_number(types::SEGMENT, n).to_string())
            })
            .collect();
        segments.reverse();
        let all = segments.iter().flat_map(|packet| Data::new_checked(packet).unwrap().content());
        assert_eq!(prefixes(list, &all.copied().collect::<Vec<_>>()), expected);
    }
}

#[test]
fn long_names_are_fewer_in_a_turn() {
    let mut rig = Rig::new();
    let long = "x".repeat(4000);
    let expected: Vec<_> = (100..200).map(|n| name(&format!("/{n}/{long}"))).collect();
    expected.iter().for_each(|prefix| add(&mut rig, prefix));
    assert!(rig.ask_once(LISTS[0]).is_empty());
    let mut turns = 0;
    let mut answers = Vec::new();
    while answers.is_empty() && rig.is_behind() {
        answers = rig.turn();
        turns += 1;
    }
    assert!(turns >= 5, "{turns} after the first: 400 kB, 64 KiB at once");
    assert_eq!(prefixes(LISTS[0], &rig.rest(&answers[0])), expected);
}

#[test]
fn both_lists_are_written_incrementally() {
    let turn = RibLimits::default().turn;
    let mut rig = Rig::new();
    let expected = fill(&mut rig, 4 * turn);
    assert!(LISTS.iter().all(|list| rig.ask_once(list).is_empty()));
    let answers: Vec<_> = (0..6).map(|_| rig.turn()).collect();
    let counts: Vec<_> = answers.iter().map(Vec::len).collect();
    assert_eq!(counts, [0, 0, 0, 0, 1, 1], "a turn is one's");
    for (list, first) in LISTS.iter().zip(answers.concat()) {
        assert_eq!(prefixes(list, &rig.rest(&first)), expected);
    }
}

#[test]
fn all_who_ask_meanwhile_are_answered_under_their_own_names() {
    let turn = RibLimits::default().turn;
    let mut rig = Rig::new();
    let expected = fill(&mut rig, 3 * turn);
    let first = signed(&rig, LISTS[0]);
    assert!(rig.interest(APP, &first).is_empty());
    rig.turn();
    rig.pass(1);
    let second = signed(&rig, LISTS[0]);
    assert!(rig.interest(OTHER, &second).is_empty() && rig.interest(OTHER, &second).is_empty());
    assert!(rig.ask_once(LISTS[0]).is_empty());
    let segments = rig.management.counters().segments;
    let answers = rig.turn();
    assert_eq!((answers.len(), rig.management.counters().segments - segments), (3, 3));
    assert_eq!(answers.iter().map(|a| version(a)).collect::<BTreeSet<_>>().len(), 1);
    let lens: Vec<_> = answers.iter().map(|a| Data::new_checked(a).unwrap().name().len()).collect();
    assert_eq!(lens, [7, 7, 6], "signed ones have their digest");
    let lists: Vec<_> = answers.iter().map(|a| prefixes(LISTS[0], &rig.rest(a))).collect();
    assert!(lists.iter().all(|list| *list == expected));
    let again = rig.ask_once(LISTS[0]).remove(0);
    assert_eq!(version(&again), version(&answers[0]), "nothing has changed since");
}

#[test]
fn changes_during_the_writing_of_a_list_are_in_the_next() {
    let turn = RibLimits::default().turn;
    let mut rig = Rig::new();
    let mut expected = fill(&mut rig, 3 * turn);
    assert!(rig.ask_once(LISTS[0]).is_empty());
    let behind = name("/prefix/0");
    add(&mut rig, &behind);
    let first = rig.wait(Vec::new()).remove(0);
    assert_eq!(prefixes(LISTS[0], &rig.rest(&first)), expected, "it came where all was written");
    expected.insert(0, behind);
    let next = rig.ask(LISTS[0]).remove(0);
    assert_ne!(version(&next), version(&first));
    assert_eq!(prefixes(LISTS[0], &rig.rest(&next)), expected);
}

#[test]
fn the_number_of_waiting_clients_is_bounded() {
    let turn = RibLimits::default().turn;
    let mut rig = Rig::new();
    fill(&mut rig, 2 * turn);
    let before = rig.management.counters().dropped;
    let asked: Vec<_> = (0..100)
        .map(|_| {
            rig.pass(1);
            signed(&rig, LISTS[0])
        })
        .collect();
    assert!(asked.iter().all(|packet| rig.interest(APP, packet).is_empty()));
    assert_eq!(rig.management.counters().dropped - before, 36);
    assert_eq!(rig.turn().len(), 64);
    assert!(asked.iter().all(|packet| rig.interest(APP, packet).len() == 1), "asked again");
}

#[derive(Clone, Debug)]
enum Step {
    Come(u8),
    Go(u8),
    Turn,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        any::<u8>().prop_map(Step::Come),
        any::<u8>().prop_map(Step::Go),
        Just(Step::Turn),
    ];
    prop::collection::vec(step, 0..120)
}

/// Even numbers stay, odd ones are added and removed.
fn check(list: &str, turn: usize, before: &BTreeSet<u8>, steps: &[Step]) {
    let rib = RibLimits { turn, ..Default::default() };
    let mut rig = Rig::with_rib(rib);
    let of = |number: u8| name(&format!("/prefix/{number:03}"));
    before.iter().for_each(|number| add(&mut rig, &of(*number)));
    let mut ever = before.clone();
    let mut answers = rig.ask_once(list);
    for step in steps {
        if !answers.is_empty() {
            break;
        }
        match step {
            Step::Come(number) => {
                ever.insert(number | 1);
                add(&mut rig, &of(number | 1));
            }
            Step::Go(number) => remove(&mut rig, &of(number | 1)),
            Step::Turn => answers = rig.turn(),
        }
    }
    let first = rig.wait(answers).remove(0);
    let found = prefixes(list, &rig.rest(&first));
    assert!(found.is_sorted_by(|a, b| a < b), "in order, and each once: {found:?}");
    let found: BTreeSet<_> = found.into_iter().collect();
    assert!(before.iter().filter(|n| **n % 2 == 0).all(|n| found.contains(&of(*n))), "all stay");
    let ever: BTreeSet<_> = ever.iter().map(|n| of(*n)).collect();
    assert!(found.is_subset(&ever), "nothing else");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn lasting_prefixes_are_listed_once_during_changes(
        before in prop::collection::btree_set(any::<u8>(), 0..60),
        turn in 1..6usize,
        steps in steps(),
        list in 0..2usize,
    ) {
        check(LISTS[list], turn, &before, &steps);
    }
}
