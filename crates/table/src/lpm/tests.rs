//! The table against a naive model, and the real table at every prefix's edges.

use std::collections::BTreeMap;
use std::io::Read;

use proptest::prelude::*;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

fn group(number: u16) -> GroupId {
    GroupId::new(number).unwrap()
}

/// All ones from bit `len` on.
fn host_bits<A: TestAddress>(len: u8) -> A {
    A::from_u128(u128::MAX).beyond(len)
}

trait TestAddress: Address {
    fn from_u128(n: u128) -> Self;
    fn to_u128(self) -> u128;
    fn beyond(self, len: u8) -> Self;
}

impl TestAddress for u32 {
    fn from_u128(n: u128) -> u32 {
        n as u32
    }
    fn to_u128(self) -> u128 {
        self.into()
    }
    fn beyond(self, len: u8) -> u32 {
        self & !self.network(len)
    }
}

impl TestAddress for u128 {
    fn from_u128(n: u128) -> u128 {
        n
    }
    fn to_u128(self) -> u128 {
        self
    }
    fn beyond(self, len: u8) -> u128 {
        self & !self.network(len)
    }
}

/// The addresses where a prefix's answers begin and end, and their outer neighbours.
fn edges<A: TestAddress>(addr: A, len: u8) -> [A; 4] {
    let (first, last) = (addr.to_u128(), addr.to_u128() | host_bits::<A>(len).to_u128());
    [first.wrapping_sub(1), first, last, last.wrapping_add(1)].map(A::from_u128)
}

type Model<A> = BTreeMap<(A, u8), GroupId>;

fn naive<A: TestAddress>(model: &Model<A>, addr: A) -> Vec<(A, u8, GroupId)> {
    let covers = |&(&(base, len), _): &(&(A, u8), &GroupId)| addr.network(len) == base;
    let mut covers: Vec<_> = model.iter().filter(covers).map(|(k, &g)| (k.0, k.1, g)).collect();
    covers.sort_by_key(|&(_, len, _)| len);
    covers
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u128, u8, u16),
    Remove(usize),
}

/// Nested prefixes: addresses differ in few positions, and every length occurs.
fn ops(bits: u8) -> impl Strategy<Value = Vec<Op>> {
    let sparse = (0u128..8, 0..bits).prop_map(|(n, at)| n << at);
    let addr =
        prop::collection::vec(sparse, 0..3).prop_map(|v| v.into_iter().fold(0, |a, b| a ^ b));
    let op = prop_oneof![
        3 => (addr, 0..=bits, 0u16..5).prop_map(|(a, len, g)| Op::Insert(a, len, g)),
        2 => any::<usize>().prop_map(Op::Remove),
    ];
    prop::collection::vec(op, 1..60)
}

fn follows_the_model<A: TestAddress>(ops: Vec<Op>) {
    let mut fib = Fib::<A>::new(Limits::default()).unwrap();
    let empty = fib.memory();
    let mut reader = fib.reader();
    let mut model = Model::<A>::new();
    let mut seen = Vec::new();
    for op in ops {
        let (addr, len) = match op {
            Op::Insert(addr, len, number) => {
                let addr = A::from_u128(addr).network(len);
                let old = model.insert((addr, len), group(number));
                assert_eq!(fib.insert(addr, len, group(number)), Ok(old));
                (addr, len)
            }
            Op::Remove(which) if !model.is_empty() => {
                let &(addr, len) = model.keys().nth(which % model.len()).unwrap();
                assert_eq!(fib.remove(addr, len), Ok(model.remove(&(addr, len))));
                assert_eq!(fib.remove(addr, len), Ok(None));
                (addr, len)
            }
            Op::Remove(_) => continue,
        };
        assert_eq!(fib.get(addr, len), model.get(&(addr, len)).copied());
        seen.extend(edges(addr, len));
        let mut answers = vec![None; seen.len()];
        let batch = reader.batch();
        batch.lookup_batch(&seen, &mut answers);
        for (&addr, answer) in seen.iter().zip(answers) {
            let covers = naive(&model, addr);
            let expected = covers.last().map(|c| c.2);
            assert_eq!(answer, expected, "{addr:x?} in {model:x?}");
            assert_eq!(batch.lookup(addr), expected);
            assert_eq!(fib.explain(addr), Explained { group: expected, covers });
        }
    }
    assert_eq!(fib.len(), model.len());
    let routes: Vec<_> = model.iter().map(|(&(a, l), &g)| (a, l, g)).collect();
    assert_eq!(fib.iter().collect::<Vec<_>>(), routes);
    for (addr, len, group) in routes {
        assert_eq!(fib.remove(addr, len), Ok(Some(group)));
    }
    assert!(fib.is_empty() && fib.iter().next().is_none());
    fib.collect();
    assert_eq!(fib.memory().lookup, empty.lookup);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn ipv4_follows_the_model(ops in ops(32)) {
        follows_the_model::<u32>(ops);
    }

    #[test]
    fn ipv6_follows_the_model(ops in ops(128)) {
        follows_the_model::<u128>(ops);
    }
}

type Routes<A> = Vec<(A, u8, GroupId)>;

/// The real table, with groups derived from the prefixes.
fn real() -> (Routes<u32>, Routes<u128>) {
    let zipped = include_bytes!("../../data/prefixes.txt.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&zipped[..]).read_to_string(&mut text).unwrap();
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for prefix in parse_prefixes(&text) {
        match prefix.unwrap() {
            Prefix::V4(addr, len) => v4.push((addr, len, some_group(addr.into(), len))),
            Prefix::V6(addr, len) => v6.push((addr, len, some_group(addr, len))),
        }
    }
    assert_eq!((v4.len(), v6.len()), (901_899, 160_147));
    (v4, v6)
}

fn some_group(addr: u128, len: u8) -> GroupId {
    let folded = (addr >> 64) as u64 ^ addr as u64 ^ u64::from(len) << 56;
    group((folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 55) as u16)
}

/// Where answers change, and to what: a sweep over the prefixes in order, with the open ones on a
/// stack.
fn sweep<A: TestAddress>(routes: &Routes<A>) -> Vec<(A, Option<GroupId>)> {
    let mut sorted = routes.clone();
    sorted.sort_by_key(|&(addr, len, _)| (addr, len));
    let mut changes = vec![(A::ZERO, None)];
    let mut open: Vec<(A, GroupId)> = Vec::new();
    let close = |changes: &mut Vec<_>, open: &mut Vec<(A, GroupId)>, until: Option<A>| {
        while let Some(&(last, _)) = open.last().filter(|o| until.is_none_or(|u| o.0 < u)) {
            open.pop();
            if last.to_u128() != host_bits::<A>(0).to_u128() {
                let next = A::from_u128(last.to_u128() + 1);
                changes.push((next, open.last().map(|o| o.1)));
            }
        }
    };
    for (addr, len, group) in sorted {
        close(&mut changes, &mut open, Some(addr));
        changes.push((addr, Some(group)));
        open.push((A::from_u128(addr.to_u128() | host_bits::<A>(len).to_u128()), group));
    }
    close(&mut changes, &mut open, None);
    changes
}

fn is_right_at_every_edge<A: TestAddress>(fib: &Fib<A>, routes: &Routes<A>) {
    let changes = sweep(routes);
    let mut reader = fib.reader();
    let batch = reader.batch();
    for routes in routes.chunks(64) {
        let addrs: Vec<A> = routes.iter().flat_map(|r| edges(r.0, r.1)).collect();
        let mut answers = vec![None; addrs.len()];
        batch.lookup_batch(&addrs, &mut answers);
        for (&addr, answer) in addrs.iter().zip(answers) {
            // Of several changes at one address the last counts.
            let next = changes.partition_point(|change| change.0 <= addr);
            assert_eq!(answer, changes[next - 1].1, "{addr:x?}");
            assert_eq!(batch.lookup(addr), answer);
        }
    }
}

/// Removes and reinserts every route in random order; afterwards the lookup memory is at most
/// `most`.
fn survives_churn<A: TestAddress>(fib: &mut Fib<A>, routes: &Routes<A>, most: usize) {
    let mut random = Pcg64::seed_from_u64(6);
    fib.collect();
    let mut order = routes.clone();
    order.shuffle(&mut random);
    for &(addr, len, group) in &order {
        assert_eq!(fib.remove(addr, len), Ok(Some(group)));
    }
    assert!(fib.is_empty());
    for _ in 0..1000 {
        assert_eq!(fib.explain(A::from_u128(random.random())).group, None);
    }
    order.shuffle(&mut random);
    for &(addr, len, group) in &order {
        assert_eq!(fib.insert(addr, len, group), Ok(None));
    }
    fib.collect();
    assert!(fib.memory().lookup <= most, "{:?}, {most} allowed", fib.memory());
    is_right_at_every_edge(fib, routes);
}

#[test]
fn the_real_tables_are_right_at_every_edge_before_and_after_churn() {
    let (v4, v6) = real();
    std::thread::scope(|scope| {
        let v4 = scope.spawn(|| {
            let mut fib = Fib4::build(Limits::default(), v4.iter().copied()).unwrap();
            is_right_at_every_edge(&fib, &v4);
            let full = fib.memory().lookup;
            survives_churn(&mut fib, &v4, full);
            fib.memory().lookup
        });
        let mut fib = Fib6::build(Limits::default(), v6.iter().copied()).unwrap();
        is_right_at_every_edge(&fib, &v6);
        // The fill of a tree's nodes depends on the order in which routes are inserted.
        let full = fib.memory().lookup;
        survives_churn(&mut fib, &v6, full * 3 / 2);
        let both = v4.join().unwrap() + fib.memory().lookup;
        assert!(both <= 40_000_000, "{both} bytes");
    });
}

/// All /48s of a /34 in random order, which fill, split and empty the nodes of one tree.
#[test]
fn prefixes_side_by_side_in_any_order_are_right_at_every_edge() {
    let mut random = Pcg64::seed_from_u64(8);
    let prefix = |i: u128| (0x2001_0db8 << 96 | i << 80, 48);
    let mut routes: Routes<u128> = (0..1 << 14)
        .map(prefix)
        .map(|(addr, len)| (addr, len, some_group(addr, len)))
        .chain([(0x2001_0db8 << 96, 34, group(600)), (0x2001 << 112, 16, group(601))])
        .collect();
    let mut fib = Fib6::new(Limits::default()).unwrap();
    routes.shuffle(&mut random);
    while !routes.is_empty() {
        for &(addr, len, group) in &routes {
            fib.insert(addr, len, group).unwrap();
        }
        is_right_at_every_edge(&fib, &routes);
        routes.shuffle(&mut random);
        for (addr, len, group) in routes.split_off(routes.len() / 5) {
            assert_eq!(fib.remove(addr, len), Ok(Some(group)));
        }
        is_right_at_every_edge(&fib, &routes);
    }
}

#[test]
fn readers_see_how_often_routes_have_changed() {
    let mut fib = Fib4::new(Limits::default()).unwrap();
    let mut reader = fib.reader();
    let mut count = || reader.batch().changes();
    assert_eq!(count(), 0);
    for (known, changes) in [(None, 1), (Some(group(1)), 1)] {
        assert_eq!(fib.insert(0x0A00_0000, 8, group(1)).unwrap(), known);
        assert_eq!(count(), changes, "the same again is no change");
    }
    fib.insert(0x0A00_0000, 8, group(2)).unwrap();
    assert_eq!(count(), 2);
    fib.remove(0x0A00_0000, 8).unwrap();
    assert_eq!(count(), 3);
    fib.remove(0x0A00_0000, 8).unwrap();
    assert_eq!(count(), 3);
}

#[test]
fn groups_are_numbers_up_to_their_greatest() {
    for number in [0, 1, 63, GroupId::MAX] {
        assert_eq!(group(number).number(), number);
    }
    assert_eq!(GroupId::new(GroupId::MAX + 1), None);
    assert_eq!(GroupId::new(u16::MAX), None);
    assert_eq!(size_of::<Option<GroupId>>(), 2);
}

/// Routes that do not fit are refused with the reason, and nothing has changed.
fn refuses_what_does_not_fit<A: TestAddress>(limits: Limits, expected: Refused) {
    let mut fib = Fib::<A>::new(limits).unwrap();
    let mut random = Pcg64::seed_from_u64(5);
    let mut routes = Routes::<A>::new();
    let refused = loop {
        let addr = A::from_u128(random.random::<u128>());
        match fib.insert(addr, A::BITS, group(7)) {
            Ok(_) => routes.push((addr, A::BITS, group(7))),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, expected);
    assert!(fib.memory().lookup <= limits.lookup_bytes);
    assert_eq!(fib.len(), routes.len());
    routes.sort();
    assert_eq!(fib.iter().collect::<Routes<A>>(), routes);
    is_right_at_every_edge(&fib, &routes);
    // Existing routes may still change, and removing one makes room.
    assert_eq!(fib.insert(routes[0].0, A::BITS, group(8)), Ok(Some(group(7))));
    for &(addr, len, _) in &routes[..routes.len() / 2] {
        assert!(fib.remove(addr, len).unwrap().is_some());
    }
    assert_eq!(fib.insert(routes[0].0, A::BITS, group(9)), Ok(None));
}

#[test]
fn more_than_the_limits_allow_is_refused() {
    let routes = Limits { routes: 50, ..Limits::default() };
    refuses_what_does_not_fit::<u32>(routes, Refused::Routes { limit: 50 });
    refuses_what_does_not_fit::<u128>(routes, Refused::Routes { limit: 50 });
    let limits = Limits { lookup_bytes: (32 << 20) + 200 * 512, ..Limits::default() };
    let full = Refused::LookupFull { limit: limits.lookup_bytes };
    refuses_what_does_not_fit::<u32>(limits, full);
    let limits = Limits { lookup_bytes: 1 << 20, ..Limits::default() };
    refuses_what_does_not_fit::<u128>(limits, Refused::LookupFull { limit: 1 << 20 });
    let tiny = Limits { lookup_bytes: 1000, ..Limits::default() };
    let Err(error) = Fib4::new(tiny) else { panic!() };
    assert_eq!(error, Refused::TooSmall { least: 32 << 20, asked: 1000 });
    assert!(matches!(Fib6::new(tiny), Err(Refused::TooSmall { .. })));
    let mut fib = Fib4::new(Limits::default()).unwrap();
    assert_eq!(fib.insert(0, 33, group(1)), Err(Refused::Length { len: 33, most: 32 }));
    assert_eq!((fib.remove(0, 33), fib.get(0, 33)), (Ok(None), None));
}

#[test]
fn a_sixteenth_of_ipv4_without_routes_takes_no_memory() {
    const SIXTEENTH: usize = 2 << 20;
    let memory = |fib: &mut Fib4| {
        fib.collect();
        fib.memory().lookup
    };
    let mut fib = Fib4::new(Limits::default()).unwrap();
    assert_eq!(memory(&mut fib), 0);
    fib.insert(0x1000_0000, 24, group(1)).unwrap();
    fib.insert(0x1FFF_FF00, 24, group(1)).unwrap();
    assert_eq!(memory(&mut fib), SIXTEENTH);
    fib.insert(0x2000_0000, 3, group(2)).unwrap();
    fib.insert(0x3000_0000, 4, group(3)).unwrap();
    assert_eq!(memory(&mut fib), 3 * SIXTEENTH);
    fib.insert(0, 0, group(4)).unwrap();
    assert_eq!(memory(&mut fib), 16 * SIXTEENTH);
    let mut reader = fib.reader();
    assert_eq!(reader.batch().lookup(0xE000_0001), Some(group(4)));
    fib.remove(0, 0).unwrap();
    fib.remove(0x2000_0000, 3).unwrap();
    fib.remove(0x1000_0000, 24).unwrap();
    assert_eq!(memory(&mut fib), 2 * SIXTEENTH);
    let all = [0, 0x1000_0000, 0x1FFF_FFFF, 0x2000_0000, 0x3000_0000, 0xE000_0001];
    let answers = all.map(|addr| reader.batch().lookup(addr));
    assert_eq!(answers, [None, None, Some(group(1)), None, Some(group(3)), None]);
    fib.insert(0x2000_0000, 4, group(5)).unwrap();
    assert_eq!(memory(&mut fib), 3 * SIXTEENTH);
    assert_eq!(reader.batch().lookup(0x2FFF_FFFF), Some(group(5)));
    // A page that is emptied and filled again before a collection is kept.
    fib.remove(0x2000_0000, 4).unwrap();
    fib.insert(0x2000_0000, 4, group(6)).unwrap();
    assert_eq!(memory(&mut fib), 3 * SIXTEENTH);
    assert_eq!(reader.batch().lookup(0x2FFF_FFFF), Some(group(6)));
}

mod concurrent;
