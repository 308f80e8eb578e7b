//! The RIB against next hops computed from scratch by their definition.

use std::collections::{BTreeMap, BTreeSet};

use plexus_ndn::face::FaceId;
use plexus_ndn::fib::NextHop;
use plexus_ndn::management::{
    Claim, ManagementConfig, ManagementLimits, Policy, RibError, RibLimits, Route, Trust,
};
use plexus_wire::Time;
use plexus_wire::ndn::NameBuf;
use plexus_wire::ndn::nfd::ControlParameters;
use plexus_wire::ndn::nfd::route_flags::{CAPTURE, CHILD_INHERIT};
use proptest::prelude::*;

use crate::node::*;

const REGISTER: &str = "/localhost/nfd/rib/register";
const HOP: &str = "/localhop/nfd/rib/register";

#[test]
fn routes_are_inherited_up_to_who_captures() {
    let mut rig = Rig::new();
    rig.add("/", route(1, 0, 10, CHILD_INHERIT));
    rig.add("/a", route(2, 0, 20, CHILD_INHERIT));
    rig.add("/a/b", route(3, 0, 30, 0));
    rig.add("/a/b/c", route(4, 0, 40, 0));
    let hop = |cost, face| (cost, face_id(face));
    assert_eq!(rig.hops("/a"), [hop(10, 1), hop(20, 2)]);
    assert_eq!(rig.hops("/a/b/c"), [hop(10, 1), hop(20, 2), hop(40, 4)], "3 does not pass on");
    rig.add("/a", route(2, 0, 20, CHILD_INHERIT | CAPTURE));
    assert_eq!(rig.hops("/a"), [hop(20, 2)]);
    assert_eq!(rig.hops("/a/b/c"), [hop(20, 2), hop(40, 4)]);
    // The nearest prefix determines a face's cost, even if it is higher.
    rig.add("/a/b", route(2, 0, 99, CHILD_INHERIT));
    assert_eq!(rig.hops("/a/b/c"), [hop(40, 4), hop(99, 2)]);
    // The cheapest of several routes to one face counts.
    rig.add("/a/b/c", route(4, 255, 4, 0));
    assert_eq!(rig.hops("/a/b/c"), [hop(4, 4), hop(99, 2)]);
    let gone = name("/a");
    assert!(rig.management.remove_route(gone.as_name(), face_id(2), 0, &mut rig.node));
    assert!(!rig.management.remove_route(gone.as_name(), face_id(2), 0, &mut rig.node));
    assert_eq!(rig.hops("/a/b/c"), [hop(4, 4), hop(10, 1), hop(99, 2)]);
    assert!(rig.hops("/a").is_empty(), "no route of its own, no entry");
}

#[test]
fn routes_are_bounded() {
    let rib =
        RibLimits { routes: 4, per_face: 2, per_prefix: 2, neighbours: 2, ..Default::default() };
    let mut rig = Rig::with_rib(rib);
    let mut add = |prefix: &str, face| {
        let route = route(face, 0, 0, 0);
        rig.management.add_route(name(prefix).as_name(), route, &mut rig.node)
    };
    assert_eq!((add("/a", 0), add("/a", 1)), (Ok(()), Ok(())));
    assert_eq!(add("/a", 2), Err(RibError::Prefix(2)), "of one prefix");
    assert_eq!((add("/b", 0), add("/b", 0)), (Ok(()), Ok(())), "a change takes no room");
    assert_eq!(add("/c", 0), Err(RibError::Face(2)), "by one face");
    assert_eq!((add("/c", 3), add("/d", 3)), (Ok(()), Err(RibError::Routes(4))), "in all");
    let told = rig.command(REGISTER, &of("/c"));
    assert_eq!(told.code, 504);
}

/// A node with this many neighbours, all of which may register.
fn open(rib: RibLimits, neighbours: u32) -> Rig {
    let limits = ManagementLimits { rib, ..Default::default() };
    let trust = Trust { localhop: Policy::Any, ..Trust::default() };
    let mut rig = Rig::with(ManagementConfig { trust, limits, ..Default::default() });
    (0..neighbours).for_each(|n| rig.neighbour(200 + n));
    rig
}

/// Two neighbours with nested prefixes: each pair of costs is another set.
#[test]
fn neighbours_cannot_take_the_sets_of_next_hops_from_this_box() {
    let mut rig = open(RibLimits { neighbours_sets: 50, ..Default::default() }, 2);
    let ask = |rig: &mut Rig, from, prefix: &str, cost| {
        rig.command_from(from, HOP, &at_cost(prefix, cost)).code
    };
    let mut refused = 0;
    for a in 0..10 {
        refused += u64::from(ask(&mut rig, 200, &format!("/s{a}"), a) != 200);
        for b in 0..10 {
            refused += u64::from(ask(&mut rig, 201, &format!("/s{a}/t{b}"), b) != 200);
        }
    }
    let sets = |rig: &Rig| rig.node.fib.values().cloned().collect::<BTreeSet<_>>().len();
    assert_eq!((sets(&rig), refused > 0), (50, true));
    // Existing sets are still available, and so is one that replaces another.
    assert_eq!(ask(&mut rig, 200, "/again", 0), 200);
    // Applications get what they request, also below the neighbours' prefixes.
    assert_eq!(rig.command(REGISTER, &at_cost("/app", 77)).code, 200);
    assert_eq!(rig.hops("/app"), [(77, face_id(APP))]);
    assert_eq!(rig.command(REGISTER, &at_cost("/s9/app", 78)).code, 200);
    assert_eq!(rig.hops("/s9/app"), [(78, face_id(APP))], "without what would be one set more");
    // Routes above an application's prefix do not displace it.
    for cost in 0..60 {
        ask(&mut rig, 201, "/app", cost);
        assert!(rig.hops("/app").contains(&(77, face_id(APP))), "{cost}");
    }
    // Removing neighbours frees room.
    rig.face_down(face_id(200));
    rig.face_down(face_id(201));
    rig.neighbour(300);
    let codes = (0..50).map(|n| ask(&mut rig, 300, &format!("/next/{n}"), n));
    assert!(codes.collect::<Vec<_>>().iter().all(|code| *code == 200));
    assert_eq!(ask(&mut rig, 300, "/next/50", 50), 504);
}

#[test]
fn neighbours_cannot_take_a_prefix_from_this_box() {
    let mut rig = open(RibLimits::default(), 300);
    let codes: Vec<u64> =
        (0..300).map(|n| rig.command_from(200 + n, HOP, &of("/victim")).code).collect();
    assert_eq!(codes.iter().filter(|code| **code == 200).count(), 128);
    // The most expensive next hop of all; it is still one of those in the FIB.
    assert_eq!(rig.command(REGISTER, &at_cost("/victim", 1000)).code, 200);
    assert_eq!(rig.hops("/victim").len(), 64);
    assert_eq!(rig.hops("/victim").last(), Some(&(1000, face_id(APP))));
    assert_eq!(rig.command_from(OTHER, REGISTER, &of("/victim")).code, 200);
    let same = rig.command_from(200, HOP, &at_cost("/victim", 9));
    assert_eq!(same.code, 200, "a change takes no room");
}

/// A neighbour repeatedly changes its route for all names, above thousands of prefixes.
#[test]
fn no_turn_goes_through_more_prefixes_than_it_may() {
    let mut rig = open(RibLimits::default(), 1);
    let turn = RibLimits::default().turn;
    for n in 0..5 * turn {
        rig.management.tick(rig.now, &mut rig.node);
        rig.add(&format!("/many/{n}"), route(APP, 0, 0, CHILD_INHERIT));
    }
    assert!(!rig.is_behind());
    let bounded = |rig: &mut Rig| {
        let orders = std::mem::take(&mut rig.node.orders);
        assert!(orders <= turn + 1, "{orders} at once");
    };
    rig.node.orders = 0;
    let mut reached = 0;
    for round in 1..40 {
        // Another cost, which all longer prefixes have to follow: the next one arrives before they
        // have.
        assert_eq!(rig.command_from(200, HOP, &at_cost("/", round % 2)).code, 200);
        bounded(&mut rig);
        rig.management.tick(rig.now, &mut rig.node);
        bounded(&mut rig);
        reached = reached.max(rig.node.fib.values().filter(|hops| hops.len() == 2).count());
    }
    assert_eq!(reached, 5 * turn, "every prefix is reached");
    rig.face_down(face_id(200));
    bounded(&mut rig);
    rig.face_down(face_id(APP));
    bounded(&mut rig);
    while rig.is_behind() {
        rig.management.tick(rig.now, &mut rig.node);
        bounded(&mut rig);
    }
    assert!(rig.node.fib.is_empty() && rig.management.rib().is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Add { prefix: Vec<u8>, route: Route },
    Remove { prefix: Vec<u8>, face: u32, origin: u64 },
    Direct { prefix: Vec<u8>, face: u32, cost: u64, add: bool },
    FaceDown(u32),
    Pass(u64),
}

fn prefixes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0..3u8, 0..5)
}

fn steps() -> impl Strategy<Value = Step> {
    let faces = 0..5u32;
    let ending = prop::option::weighted(0.2, 0..20_000u64);
    let routes = (faces.clone(), 0..2u64, 0..4u64, 0..4u64, ending).prop_map(
        |(face, origin, cost, flags, ending)| {
            let expires =
                ending.map(|ms| Time::from_secs(1000) + std::time::Duration::from_millis(ms));
            Route { face: face_id(face), origin, cost, flags, expires, claim: Claim::OWN }
        },
    );
    prop_oneof![
        8 => (prefixes(), routes).prop_map(|(prefix, route)| Step::Add { prefix, route }),
        4 => (prefixes(), faces.clone(), 0..2u64)
            .prop_map(|(prefix, face, origin)| Step::Remove { prefix, face, origin }),
        2 => (prefixes(), faces.clone(), 0..4u64, any::<bool>())
            .prop_map(|(prefix, face, cost, add)| Step::Direct { prefix, face, cost, add }),
        1 => faces.prop_map(Step::FaceDown),
        2 => (0..3000u64).prop_map(Step::Pass),
    ]
}

type Naive<T> = BTreeMap<Vec<u8>, Vec<T>>;

/// The definition (NFD developer guide, "RIB Update Process"), by walking up from each prefix.
fn derive(routes: &Naive<Route>, direct: &Naive<NextHop>) -> BTreeMap<NameBuf, Vec<NextHop>> {
    let mut fib = BTreeMap::new();
    let empty = Vec::new();
    for prefix in routes.keys().chain(direct.keys()) {
        let mut hops: Vec<(FaceId, u64)> = Vec::new();
        let own = routes.get(prefix).unwrap_or(&empty);
        let mut len = prefix.len();
        let mut level = own.clone();
        while !own.is_empty() {
            level.sort_by_key(|r| r.cost);
            for route in &level {
                if hops.iter().all(|(face, _)| *face != route.face) {
                    hops.push((route.face, route.cost));
                }
            }
            let here = routes.get(&prefix[..len]).unwrap_or(&empty);
            if len == 0 || here.iter().any(|r| r.flags & CAPTURE != 0) {
                break;
            }
            len -= 1;
            let above = routes.get(&prefix[..len]).unwrap_or(&empty);
            level = above.iter().filter(|r| r.flags & CHILD_INHERIT != 0).copied().collect();
        }
        for hop in direct.get(prefix).into_iter().flatten() {
            hops.retain(|(face, _)| *face != hop.face);
            hops.push((hop.face, hop.cost));
        }
        let mut hops: Vec<_> = hops.iter().map(|&(face, cost)| NextHop { cost, face }).collect();
        hops.sort_unstable();
        if !hops.is_empty() {
            fib.insert(named(prefix), hops);
        }
    }
    fib
}

fn named(prefix: &[u8]) -> NameBuf {
    prefix.iter().fold(NameBuf::new(), |name, c| name.with([b'a' + c]))
}

/// One turn processes `turn` prefixes; `None`: all of them.
fn check(steps: &[Step], turn: Option<usize>) {
    let rib = RibLimits { turn: turn.unwrap_or(1 << 20), ..Default::default() };
    let mut rig = Rig::with_rib(rib);
    let (mut routes, mut direct) = (Naive::<Route>::new(), Naive::<NextHop>::new());
    (0..5).for_each(|face| rig.face_up(crate::node::face(face_id(face), "fd://9", 1)));
    for step in steps {
        match step {
            Step::Add { prefix, route } => {
                let of = routes.entry(prefix.clone()).or_default();
                of.retain(|r| (r.face, r.origin) != (route.face, route.origin));
                of.push(*route);
                let prefix = named(prefix);
                rig.management.add_route(prefix.as_name(), *route, &mut rig.node).unwrap();
            }
            Step::Remove { prefix, face, origin } => {
                let of = routes.entry(prefix.clone()).or_default();
                of.retain(|r| (r.face, r.origin) != (face_id(*face), *origin));
                let prefix = named(prefix);
                let (face, node) = (face_id(*face), &mut rig.node);
                rig.management.remove_route(prefix.as_name(), face, *origin, node);
            }
            Step::Direct { prefix, face, cost, add } => {
                let of = direct.entry(prefix.clone()).or_default();
                of.retain(|hop| hop.face != face_id(*face));
                of.extend(add.then_some(NextHop { cost: *cost, face: face_id(*face) }));
                let verb = if *add { "add-nexthop" } else { "remove-nexthop" };
                let face_id = Some(face_id(*face).number());
                let asked =
                    ControlParameters { face_id, ..at_cost(&named(prefix).to_string(), *cost) };
                let done = rig.command(&format!("/localhost/nfd/fib/{verb}"), &asked);
                assert_eq!(done.code, 200);
            }
            Step::FaceDown(face) => {
                routes.values_mut().for_each(|of| of.retain(|r| r.face != face_id(*face)));
                direct.values_mut().for_each(|of| of.retain(|hop| hop.face != face_id(*face)));
                rig.face_down(face_id(*face));
                rig.face_up(crate::node::face(face_id(*face), "fd://9", 1));
            }
            Step::Pass(ms) => rig.pass(*ms),
        }
        rig.management.tick(rig.now, &mut rig.node);
        let now = rig.now;
        routes.values_mut().for_each(|of| of.retain(|r| r.expires.is_none_or(|end| end > now)));
        routes.retain(|_, of| !of.is_empty());
        direct.retain(|_, of| !of.is_empty());
        if turn.is_none() {
            compare(&rig, &routes, &direct);
        }
    }
    let mut turns = 0;
    while rig.management.next_deadline().is_some_and(|at| at <= rig.now) {
        rig.node.orders = 0;
        rig.management.tick(rig.now, &mut rig.node);
        turns += 1;
        assert!(Some(rig.node.orders) <= turn && turns < 10_000, "{turns} turns");
    }
    compare(&rig, &routes, &direct);
}

fn compare(rig: &Rig, routes: &Naive<Route>, direct: &Naive<NextHop>) {
    assert_eq!(rig.node.fib, derive(routes, direct));
    let rib = rig.management.rib();
    let expected = routes.values().map(Vec::len).chain(direct.values().map(Vec::len)).sum();
    assert_eq!((rib.len(), rib.prefixes()), (expected, rig.node.fib.len()));
    let first = routes.values().flatten().filter_map(|r| r.expires).min();
    assert_eq!(rig.management.next_deadline(), first);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn incremental_next_hops_match_the_definition(
        steps in prop::collection::vec(steps(), 1..60),
    ) {
        check(&steps, None);
    }

    #[test]
    fn next_hops_computed_in_turns_match_the_definition(
        steps in prop::collection::vec(steps(), 1..60),
        turn in 1..6usize,
    ) {
        check(&steps, Some(turn));
    }
}
