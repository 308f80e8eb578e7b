//! The router with a fast table: it does what the router does without one, whatever changes. The
//! table is in memory, and the test hands it each frame first.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, frame, mac, trunk};
use crate::fast_rig::{MANY, counted_alike, rounds};
use crate::router_rig::{BLACKHOLE, GLEAN, LOCAL, Router, VLANS, fix_sum, hop, ipv4, ipv6, own};
use plexus_config::{PortSettings, ReversePath, Trust};
use plexus_io::fast::memory::{Fate, Memory};
use plexus_io::fast::{Key, Tag};
use plexus_wire::MacAddr;
use proptest::prelude::*;

const PORTS: usize = 5;
const HOST: [u8; 4] = [10, 0, 0, 9];
const FAR: [u8; 4] = [192, 0, 2, 1];
/// Neighbours of interface `n mod 3`, and a group with two of them.
const NEIGHBOURS: u16 = 4;
const SEVERAL: u16 = 9;

/// A router with a fast table.
struct Fast {
    router: Router,
    table: Memory,
}

impl Fast {
    fn of(mut router: Router) -> Fast {
        let ports: Vec<u16> = (0..6).collect();
        let table = Memory::new(64, &ports);
        router.rig.workers[0].set_fast_table(Box::new(table.clone()), Arc::new([]), 7);
        Fast { router, table }
    }

    /// Sends a frame into a port; what comes out, and whether it went by the table.
    fn send(&mut self, port: usize, frame: &[u8]) -> (Vec<(usize, Vec<u8>)>, bool) {
        match self.table.receive(port as u16, frame) {
            Fate::Sent(out, frame) => (vec![(out.into(), frame)], true),
            Fate::Dropped => (vec![], true),
            Fate::Passed => (self.router.send(port, frame), false),
        }
    }

    fn is_fast(&mut self, port: usize, frame: &[u8]) -> bool {
        self.send(port, frame).1
    }

    fn rounds(&mut self, count: u32) {
        rounds(&mut self.router.rig, count);
    }

    /// Sends a packet until it goes by the table.
    fn offload(&mut self, port: usize, frame: &[u8]) {
        self.rounds(1);
        (0..MANY).for_each(|_| drop(self.send(port, frame)));
        self.rounds(2);
        assert!(self.is_fast(port, frame));
    }
}

/// With `tags`, frames have a tag at port 1 too.
fn set_up(change: impl Fn(&mut plexus_plane::InterfacePlan), trust: Trust, tags: bool) -> Router {
    let mut router = Router::on(change, |plan| {
        plan.switch.ageing = Duration::from_secs(300);
        if tags {
            plan.ports[1] = PortSettings { learning: false, ..trunk(&[(102, 102)], None) };
        }
        for (n, port) in plan.ports.iter_mut().enumerate() {
            let priority = n as u8 + 1;
            *port = PortSettings { trust, priority, ..port.clone() };
        }
    });
    (0..NEIGHBOURS).for_each(|n| router.neighbour(n, usize::from(n) % 3));
    router.group(SEVERAL, &[0, 1]);
    router.route4([192, 0, 2, 0], 24, 1);
    router.route6("2001:db8::", 32, 1);
    router
}

fn fast() -> Fast {
    Fast::of(set_up(|_| {}, Trust::None, false))
}

#[test]
fn a_routed_flow_gets_a_rule() {
    let mut fast = fast();
    let v4 = ipv4(own(0), HOST, FAR, 64, &[1; 26]);
    let v6 = ipv6(own(0), "2001:db9::1", "2001:db8::9", 17, 64, &[2; 26]);
    for frame in [&v4, &v6] {
        fast.offload(0, frame);
        assert_eq!(fast.send(0, frame), (vec![(1, hop(frame, mac(1), own(1)))], true));
    }
    let other = ipv4(own(0), HOST, [192, 0, 2, 2], 64, &[1; 26]);
    assert!(!fast.is_fast(0, &other), "a pair of addresses of its own");
    let last = ipv4(own(0), HOST, FAR, 1, &[1; 26]);
    assert_eq!(fast.send(0, &last), (vec![], false));
    assert_eq!(fast.router.punted().len(), 1, "its sender is to hear of it");
    assert!(fast.is_fast(0, &v4), "and nothing waits for it");
    // A packet with an option leaves by the pipeline, and the rule goes on when it has.
    let mut option = v4.clone();
    option[14] = 0x46;
    option.splice(34..34, [1, 1, 1, 0]);
    option[17] += 4;
    fix_sum(&mut option);
    assert_eq!(fast.send(0, &option), (vec![(1, hop(&option, mac(1), own(1)))], false));
    assert!(!fast.is_fast(0, &v4), "the rule waits for it");
    fast.router.rig.now = fast.router.rig.now + Duration::from_micros(1);
    (0..3).for_each(|_| fast.router.rig.settle());
    assert!(fast.is_fast(0, &v4), "not for a round");
    // It is counted as routed, and its neighbour as used.
    let worker = &mut fast.router.rig.workers[0];
    worker.count_fast(fast.router.rig.now);
    let port = worker.pipeline().counters().ports[0];
    assert_eq!((port.fast_received, port.routed), (6, 2 * MANY as u64 + 9));
    drop(fast.router.tables.take_used());
    fast.send(0, &v4);
    fast.rounds(1);
    assert_eq!(fast.router.tables.take_used(), [1]);
    fast.rounds(12);
    assert!(fast.table.rules().is_empty());
}

#[test]
fn what_changes_a_route_ends_its_rule_before_the_next_packet() {
    let frame = ipv4(own(0), HOST, FAR, 64, &[1; 26]);
    type Change = fn(&mut Router);
    type Sent = Vec<(usize, Vec<u8>)>;
    let changes: [(&str, Change, Sent); 8] = [
        ("no route", |r| r.unroute4([192, 0, 2, 0], 24), vec![]),
        (
            "a longer route",
            |r| r.route4([192, 0, 2, 1], 32, 0),
            vec![(0, hop(&frame, mac(0), own(0)))],
        ),
        ("another group", |r| r.route4([192, 0, 2, 0], 24, BLACKHOLE), vec![]),
        ("the group's members", |r| r.group(1, &[0]), vec![(0, hop(&frame, mac(0), own(0)))]),
        (
            "the neighbour's address",
            |r| {
                assert!(r.tables.set_neighbour(1, Some((VLANS[1], mac(77)))));
                r.publish();
            },
            vec![(1, hop(&frame, mac(77), own(1)))],
        ),
        (
            "the neighbour is not known",
            |r| {
                assert!(r.tables.set_neighbour(1, None));
                r.publish();
            },
            vec![],
        ),
        (
            "a shorter MTU",
            |r| {
                r.tables.set_neighbour_mtu(1, Some(45));
                r.publish();
            },
            vec![(1, fragments(&frame)[0].clone()), (1, fragments(&frame)[1].clone())],
        ),
        ("the box's own address", |r| r.route4([192, 0, 2, 1], 32, LOCAL), vec![]),
    ];
    for (name, change, after) in changes {
        let mut fast = fast();
        fast.offload(0, &frame);
        change(&mut fast.router);
        // The worker is woken.
        fast.router.rig.settle();
        assert_eq!(fast.send(0, &frame), (after, false), "{name}");
    }
}

/// The fragments of a packet of 46 bytes for an MTU of 45, after one hop.
fn fragments(frame: &[u8]) -> [Vec<u8>; 2] {
    let sent = hop(frame, mac(1), own(1));
    [(0, 24, 0x20), (24, 26, 0)].map(|(from, to, flags)| {
        let mut piece = [&sent[..34], &sent[34 + from..34 + to]].concat();
        piece[17] = (20 + to - from) as u8;
        piece[20..22].copy_from_slice(&[flags, (from / 8) as u8]);
        fix_sum(&mut piece);
        piece
    })
}

#[test]
fn tags_follow_the_ports_and_stations_that_move_are_followed() {
    let mut fast = fast();
    fast.router.route4([10, 9, 0, 0], 16, 2);
    // Neighbour 2 is behind the trunk, in VLAN 10.
    fast.send(3, &common::tagged(MacAddr::BROADCAST, mac(2), 0, 10));
    let frame = ipv4(own(0), HOST, [10, 9, 0, 1], 64, &[1; 26]);
    fast.offload(0, &frame);
    let Key::Routed(_) = fast.table.rules()[0].0 else { panic!() };
    assert_eq!(fast.table.rules()[0].1.tag, Tag::Push(1 << 13 | 10));
    let plain = hop(&frame, mac(2), own(2));
    let tag = [0x81, 0, 0x20, 10];
    let tagged = [&plain[..12], &tag, &plain[12..]].concat();
    assert_eq!(fast.send(0, &frame), (vec![(3, tagged)], true));
    // It is at an access port now.
    fast.send(4, &common::frame(MacAddr::BROADCAST, mac(2)));
    assert_eq!(fast.send(0, &frame), (vec![(4, plain)], false));
}

#[test]
fn a_tag_in_place_of_another_has_the_priority_that_the_router_gives_it() {
    let mut sent = ipv4(own(2), HOST, FAR, 64, &[1; 26]);
    sent.splice(12..12, [0x81, 0, 5 << 5, 10]);
    // Port 3 has priority 4. The packet's own class is 0.
    for (trust, priority) in [(Trust::None, 4), (Trust::Pcp, 5), (Trust::Dscp, 0)] {
        let mut fast = Fast::of(set_up(|_| {}, trust, true));
        let (by_router, _) = fast.send(3, &sent);
        assert_eq!(by_router[0].1[12..16], [0x81, 0, priority << 5, 102]);
        if trust == Trust::Dscp {
            (0..MANY).for_each(|_| drop(fast.send(3, &sent)));
            fast.rounds(2);
            assert!(fast.table.rules().is_empty(), "it depends on the packet");
        } else {
            fast.offload(3, &sent);
            assert_eq!(fast.send(3, &sent), (by_router, true));
        }
    }
}

#[test]
fn a_routed_flow_keeps_its_source_known() {
    let mut router = set_up(|_| {}, Trust::None, false);
    let sent = ipv4(own(2), HOST, FAR, 64, &[1; 26]);
    let silent_for = 2 * 300;
    router.send(2, &sent);
    let back = frame(mac(0x77), mac(5));
    assert_eq!(router.rig.ports_reached(4, &back), [2]);
    let mut fast = Fast::of(router);
    fast.offload(2, &sent);
    for _ in 0..silent_for * 2 {
        assert!(fast.is_fast(2, &sent));
        fast.rounds(5);
    }
    assert_eq!(fast.router.rig.ports_reached(4, &back), [2]);
}

#[test]
fn flows_on_a_route_with_several_next_hops_have_rules_of_their_own() {
    let mut fast = fast();
    fast.router.route4([192, 0, 2, 0], 24, SEVERAL);
    let flow = |port: u8| ipv4(own(2), HOST, FAR, 64, &[4, port, 0, 9, 0, 0, 0, 0]);
    let mut ways = [0; 2];
    for port in 0..20 {
        let (by_router, _) = fast.send(2, &flow(port));
        ways[by_router[0].0] += 1;
        fast.offload(2, &flow(port));
        assert_eq!(fast.send(2, &flow(port)), (by_router, true), "{port}");
    }
    assert!(ways.into_iter().all(|count| count > 0), "{ways:?}");
    // A protocol without ports has none.
    let mut other = flow(1);
    other[23] = 89;
    fix_sum(&mut other);
    (0..MANY).for_each(|_| drop(fast.send(2, &other)));
    fast.rounds(2);
    assert!(!fast.is_fast(2, &other));
    // One next hop is left, for all of them.
    fast.router.group(SEVERAL, &[1]);
    for port in 0..20 {
        assert_eq!(fast.send(2, &flow(port)).0, [(1, hop(&flow(port), mac(1), own(1)))]);
    }
    fast.offload(2, &flow(1));
    assert!(fast.is_fast(2, &flow(77)), "all of the pair");
}

#[test]
fn many_rules_are_compared_with_the_routes_some_at_a_time() {
    let mut router = set_up(|_| {}, Trust::None, false);
    let ports: Vec<u16> = (0..6).collect();
    let table = Memory::new(512, &ports);
    router.rig.workers[0].set_fast_table(Box::new(table.clone()), Arc::new([]), 7);
    let mut fast = Fast { router, table };
    let flows: Vec<Vec<u8>> =
        (1..=200).map(|n| ipv4(own(0), HOST, [192, 0, 2, n], 64, &[1; 26])).collect();
    for _ in 0..12 {
        for flow in &flows {
            (0..MANY).for_each(|_| drop(fast.send(0, flow)));
        }
        fast.rounds(1);
    }
    fast.rounds(1);
    let count = fast.table.rules().len();
    assert!(count > 150, "flows share places while they are counted: {count}");
    // Turns come at once until all have been compared, also if the routes change meanwhile.
    fast.router.route4([192, 0, 2, 0], 24, 0);
    let now = fast.router.rig.now;
    assert!(fast.router.rig.workers[0].turn(now));
    let left = fast.table.rules().len();
    assert!((1..count).contains(&left), "{left} of {count}");
    fast.router.route4([198, 51, 100, 0], 24, 1);
    for _ in 0..count / 64 {
        fast.router.rig.workers[0].turn(now);
    }
    assert!(fast.table.rules().is_empty());
    assert!(!fast.router.rig.workers[0].turn(now), "then it may sleep");
}

#[test]
fn what_is_for_the_box_or_the_link_gets_no_rule() {
    let kernel = |interface: &mut plexus_plane::InterfacePlan| {
        interface.kernel = (interface.vlan == VLANS[0]).then_some(5);
    };
    let mut fast = Fast::of(set_up(kernel, Trust::None, false));
    fast.router.route4([10, 0, 0, 1], 32, LOCAL);
    let to_box = ipv4(own(0), HOST, [10, 0, 0, 1], 64, &[1; 26]);
    let mut from_kernel = ipv4(own(0), [10, 0, 0, 1], FAR, 64, &[1; 26]);
    from_kernel[6..12].copy_from_slice(&mac(0x55).0);
    let link_local = ipv6(own(0), "2001:db9::1", "fe80::9", 17, 64, &[2; 26]);
    let martian = ipv4(own(0), [127, 0, 0, 1], FAR, 64, &[1; 26]);
    for _ in 0..3 {
        for (port, frame) in [(0, &to_box), (5, &from_kernel), (0, &link_local), (0, &martian)] {
            (0..MANY).for_each(|_| drop(fast.send(port, frame)));
        }
        fast.rounds(1);
        fast.router.punted();
    }
    let routed = |rule: &(Key, _)| matches!(rule.0, Key::Routed(_));
    assert!(!fast.table.rules().iter().any(routed), "{:?}", fast.table.rules());
    let through = ipv4(own(0), HOST, FAR, 64, &[1; 26]);
    fast.offload(0, &through);
}

#[derive(Clone, Debug)]
enum Step {
    Send { port: usize, from: u8, to: u8, ttl: u8, len: usize, is_v4: bool, count: usize },
    Rounds(u32),
    Route { to: u8, len: u8, group: Option<u16> },
    SourceRoute { from: u8, group: u16 },
    Neighbour { number: u16, station: Option<u64>, mtu: u16 },
    Station { number: u64, port: usize },
    Group { members: Vec<u16> },
}

fn step() -> impl Strategy<Value = Step> {
    let groups = prop::sample::select(vec![0, 1, 2, 3, SEVERAL, LOCAL, BLACKHOLE, GLEAN]);
    let groups = prop::option::weighted(0.8, groups);
    let sizes = prop::sample::select(vec![26usize, 26, 26, 500, 1300]);
    let ttls = prop::sample::select(vec![64u8, 64, 64, 64, 2, 1]);
    let counts = prop::sample::select(vec![1, 3, MANY, MANY]);
    let send = (0..PORTS, 0..4u8, 0..4u8, ttls, sizes, any::<bool>(), counts);
    prop_oneof![
        20 => send.prop_map(|(port, from, to, ttl, len, is_v4, count)| Step::Send {
            port, from, to, ttl, len, is_v4, count,
        }),
        15 => (1..3u32).prop_map(Step::Rounds),
        3 => (0..4u8, prop::sample::select(vec![16u8, 24, 32]), groups)
            .prop_map(|(to, len, group)| Step::Route { to, len, group }),
        2 => (0..4u8, 0..NEIGHBOURS)
            .prop_map(|(from, group)| Step::SourceRoute { from, group }),
        3 => (0..NEIGHBOURS, prop::option::weighted(0.8, 0..8u64), 0..3u16)
            .prop_map(|(number, station, mtu)| Step::Neighbour { number, station, mtu }),
        4 => (0..8u64, 2..PORTS).prop_map(|(number, port)| Step::Station { number, port }),
        1 => prop::collection::vec(0..NEIGHBOURS, 1..3).prop_map(|members| Step::Group { members }),
    ]
}

/// A packet as it comes in by a port: from station 0x77 there.
fn packet(step: &Step, tags: bool) -> Option<(usize, Vec<u8>)> {
    let Step::Send { port, from, to, ttl, len, is_v4, .. } = *step else { return None };
    let own = own(port.min(2));
    let mut payload = vec![0x5A; len];
    // Some flows of a pair take one next hop, and some another.
    payload[1] = from ^ port as u8 ^ (len % 7) as u8;
    let mut frame = match is_v4 {
        true => ipv4(own, [10, 200 + from, 0, 9], [10, to, 0, 9], ttl, &payload),
        false => {
            let (from, to) = (format!("2001:db9:{from}::9"), format!("2001:db8:{to}::9"));
            ipv6(own, &from, &to, 17, ttl, &payload)
        }
    };
    frame[6..12].copy_from_slice(&mac(0x70 + port as u64).0);
    match port {
        1 if tags => drop(frame.splice(12..12, [0x81, 0, 3 << 5, 102])),
        3 => drop(frame.splice(12..12, [0x81, 0, 5 << 5, 10])),
        _ => {}
    }
    Some((port, frame))
}

/// Makes a change at the control plane, or of where a station is.
fn change(router: &mut Router, step: &Step) {
    match step {
        Step::Route { to, len, group } => {
            let (v4, v6) = ([10, *to, 0, 0], format!("2001:db8:{to}::"));
            match group {
                Some(group) => {
                    router.route4(v4, *len, *group);
                    router.route6(&v6, 32 + len / 2, *group);
                }
                None => {
                    router.unroute4(v4, *len);
                    router.unroute6(&v6, 32 + len / 2);
                }
            }
        }
        Step::SourceRoute { from, group } => {
            router.route4([10, 200 + *from, 0, 0], 16, *group);
            router.route6(&format!("2001:db9:{from}::"), 48, *group);
        }
        Step::Neighbour { number, station, mtu } => {
            let vlan = VLANS[usize::from(*number) % 3];
            let mtu = [None, Some(1280), Some(200)][usize::from(*mtu)];
            router.tables.set_neighbour_mtu(*number, mtu);
            assert!(router.tables.set_neighbour(*number, station.map(|n| (vlan, mac(n)))));
            router.publish();
        }
        Step::Station { number, port } => {
            let mut bytes = frame(MacAddr::BROADCAST, mac(*number));
            if *port == 3 {
                bytes.splice(12..12, [0x81, 0, 0, 10]);
            }
            router.send(*port, &bytes);
        }
        Step::Group { members } => router.group(SEVERAL, members),
        Step::Send { .. } | Step::Rounds(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// A router with a fast table and one without do the same.
    #[test]
    fn it_does_what_the_router_does(
        mode in prop::sample::select(
            vec![ReversePath::Off, ReversePath::Loose, ReversePath::Strict],
        ),
        trust in prop::sample::select(vec![Trust::None, Trust::Pcp, Trust::Dscp]),
        tags in any::<bool>(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let change_mode = |interface: &mut plexus_plane::InterfacePlan| {
            interface.reverse_path = mode;
        };
        let [mut plain, with_table] = [(); 2].map(|()| {
            let mut router = set_up(change_mode, trust, tags);
            router.route4([10, 200, 0, 0], 14, 2);
            router.route6("2001:db9::", 32, 2);
            router.route4([10, 0, 0, 0], 14, 1);
            router.route6("2001:db8::", 32, 1);
            router
        });
        let mut fast = Fast::of(with_table);
        for step in &steps {
            if let (Step::Send { count, .. }, Some((port, frame))) = (step, packet(step, tags)) {
                for _ in 0..*count {
                    let (mut out, was_fast) = fast.send(port, &frame);
                    let mut expected = plain.send(port, &frame);
                    out.sort();
                    expected.sort();
                    prop_assert_eq!(out, expected, "by the table: {}", was_fast);
                    prop_assert_eq!(fast.router.punted(), plain.punted());
                }
            }
            if let Step::Rounds(count) = step {
                fast.rounds(*count);
                plain.rig.now = fast.router.rig.now;
                plain.rig.maintain();
            }
            change(&mut fast.router, step);
            change(&mut plain, step);
            fast.router.rig.settle();
        }
        let used = |router: &mut Router| router.tables.take_used();
        prop_assert_eq!(used(&mut fast.router), used(&mut plain));
        counted_alike(&mut fast.router.rig, &plain.rig, 0)?;
    }
}
