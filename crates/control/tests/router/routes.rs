//! Routes and the forwarding table.

use plexus_control::router::show::Standing;
use plexus_control::router::{
    Event, Group, HopState, Input, Limits, NextHop, Output, Refusal, Route, Source, Why,
};

use crate::plane::{A, B, Plane, hop, ip, mac, prefix, via};

#[test]
fn an_interfaces_addresses_are_routes() {
    let mut plane = Plane::two();
    assert_eq!(plane.lookup("10.0.1.1"), Some(&Group::Local));
    assert_eq!(plane.lookup("10.0.1.77"), Some(&Group::Glean(A)));
    assert_eq!(plane.lookup("10.0.2.77"), Some(&Group::Glean(B)));
    for everybody in ["10.0.1.0", "10.0.1.255"] {
        assert_eq!(plane.lookup(everybody), Some(&Group::Broadcast), "RFC 2644");
    }
    assert_eq!(plane.lookup("2001:db8:1::1"), Some(&Group::Local));
    assert_eq!(plane.lookup("2001:db8:1::"), Some(&Group::Local), "RFC 4291, 2.6.1");
    assert_eq!(plane.lookup("2001:db8:1::2"), Some(&Group::Glean(A)));
    assert_eq!(plane.lookup("fe80::1"), Some(&Group::Local));
    assert_eq!(plane.lookup("fe80::2"), None, "nothing is forwarded to a link-local address");
    assert_eq!(plane.lookup("10.0.3.1"), None);
    plane.down(A);
    assert_eq!(plane.lookup("10.0.1.1"), None);
    assert_eq!(plane.lookup("fe80::1"), Some(&Group::Local), "B has it too");
    plane.down(B);
    assert!(plane.fib.is_empty() && plane.groups.is_empty());
}

#[test]
fn the_better_source_is_used_and_the_others_wait() {
    let mut plane = Plane::two();
    plane.set(Source::Kernel, "192.0.2.0/24", via(A, "10.0.1.2"));
    plane.set(Source::Static, "192.0.2.0/24", Route::Blackhole);
    assert_eq!(plane.lookup("192.0.2.1"), Some(&Group::Blackhole));
    let view = plane.router.routes(&prefix("192.0.2.0/24")).unwrap();
    let standings: Vec<_> = view.routes.iter().map(|r| r.standing).collect();
    assert_eq!(standings, [Standing::InUse, Standing::Worse]);
    plane.unset(Source::Static, "192.0.2.0/24");
    assert!(matches!(plane.lookup("192.0.2.1"), Some(Group::Via(_))));
    plane.unset(Source::Kernel, "192.0.2.0/24");
    assert_eq!(plane.lookup("192.0.2.1"), None);
    plane.unset(Source::Kernel, "192.0.2.0/24");
    assert_eq!(plane.refused(Refusal::NoSuchRoute), 1);
    // Kernel routes for connected prefixes have no effect, right or wrong.
    let before = plane.fib.clone();
    let hop = NextHop { interface: A, gateway: None, on_link: false, weight: 1 };
    plane.set(Source::Kernel, "10.0.1.0/24", Route::Via(vec![hop]));
    plane.set(Source::Kernel, "10.0.1.1/32", Route::Local);
    plane.set(Source::Kernel, "10.0.1.255/32", Route::Broadcast);
    plane.set(Source::Kernel, "10.0.2.0/24", Route::Blackhole);
    assert_eq!(plane.fib, before);
}

#[test]
fn the_lowest_metric_of_a_source_wins() {
    let mut plane = Plane::two();
    let set = |plane: &mut Plane, metric, route| {
        let prefix = prefix("0.0.0.0/0");
        plane.input(Input::Route { source: Source::Kernel, prefix, metric, route });
    };
    set(&mut plane, 20, Some(Route::Blackhole));
    set(&mut plane, 10, Some(Route::Unreachable));
    set(&mut plane, 30, Some(Route::Prohibited));
    assert_eq!(plane.lookup("8.8.8.8"), Some(&Group::Unreachable));
    set(&mut plane, 10, None);
    assert_eq!(plane.lookup("8.8.8.8"), Some(&Group::Blackhole));
    // An unusable one is replaced by the next.
    set(&mut plane, 20, Some(via(A, "10.9.9.9")));
    assert_eq!(plane.lookup("8.8.8.8"), Some(&Group::Prohibited));
    set(&mut plane, 30, None);
    assert_eq!(plane.lookup("8.8.8.8"), None);
    assert_eq!(plane.router.sizes().routes, 1);
}

#[test]
fn a_gateway_on_no_connected_prefix_is_not_used_and_said_so() {
    let mut plane = Plane::two();
    plane.set(Source::Static, "192.0.2.0/24", via(A, "10.0.2.9"));
    assert_eq!(plane.lookup("192.0.2.1"), None);
    let view = plane.router.routes(&prefix("192.0.2.0/24")).unwrap();
    assert_eq!(view.routes[0].standing, Standing::Inactive);
    assert_eq!(view.routes[0].hops[0].1, HopState::NotConnected);
    // An address makes the gateway usable, and its removal unusable; the router itself cannot be a
    // gateway.
    plane.up(A, &["10.0.1.1/24", "10.0.2.129/24"]);
    assert!(matches!(plane.lookup("192.0.2.1"), Some(Group::Via(_))));
    plane.up(A, &["10.0.1.1/24", "10.0.2.9/24"]);
    assert_eq!(plane.lookup("192.0.2.1"), None);
    let view = plane.router.routes(&prefix("192.0.2.0/24")).unwrap();
    assert_eq!(view.routes[0].hops[0].1, HopState::OwnAddress);
    // On the link although no prefix contains it.
    let hop = NextHop { on_link: true, ..hop(B, "198.51.100.1") };
    plane.set(Source::Static, "192.0.2.0/24", Route::Via(vec![hop]));
    assert!(matches!(plane.lookup("192.0.2.1"), Some(Group::Via(_))));
    // IPv4 through an IPv6 gateway (RFC 8950), but not vice versa.
    plane.set(Source::Static, "192.0.2.0/24", via(B, "fe80::9"));
    assert!(matches!(plane.lookup("192.0.2.1"), Some(Group::Via(_))));
    plane.set(Source::Static, "2001:db8:9::/48", via(B, "10.0.2.9"));
    assert_eq!(plane.refused(Refusal::BadNextHop), 1);
}

#[test]
fn members_that_fail_leave_their_group_and_the_table_stays() {
    let mut plane = Plane::two();
    let hops = vec![hop(A, "10.0.1.2"), hop(B, "10.0.2.2")];
    for n in 0..100 {
        plane.set(Source::Kernel, &format!("172.16.{n}.0/24"), Route::Via(hops.clone()));
    }
    // No gateway has answered: the data plane may choose either, and passes the packet up.
    assert!(matches!(plane.lookup("172.16.5.1"), Some(Group::Via(m)) if m.len() == 2));
    plane.answer(A, "10.0.1.2", 2);
    assert_eq!(plane.ways("172.16.5.1"), [(A, mac(2))]);
    plane.answer(B, "10.0.2.2", 3);
    assert_eq!(plane.ways("172.16.5.1"), [(A, mac(2)), (B, mac(3))]);
    let changes = plane.fib_changes;
    plane.input(Input::Interface { id: A, facts: None });
    assert_eq!(plane.ways("172.16.5.1"), [(B, mac(3))]);
    // Except for the interface's own prefixes, and its neighbour's.
    let own = plane.fib_changes - changes;
    assert!(own < 10, "{own} changes of the table");
    plane.down(B);
    assert_eq!(plane.lookup("172.16.5.1"), None, "then it is withdrawn");
    plane.up(B, &["10.0.2.1/24"]);
    assert!(matches!(plane.lookup("172.16.5.1"), Some(Group::Via(m)) if m.len() == 1));
}

#[test]
fn a_group_has_lost_its_member_before_the_table_is_looked_at() {
    let mut plane = Plane::two();
    let both = vec![hop(A, "10.0.1.2"), hop(B, "10.0.2.2")];
    plane.set(Source::Kernel, "0.0.0.0/0", Route::Via(both));
    for n in 0..20_000u32 {
        let to = format!("172.{}.{}.0/24", n / 256, n % 256);
        plane.set(Source::Kernel, &to, via(A, "10.0.1.2"));
    }
    plane.router.handle(plane.now, Input::Interface { id: A, facts: None });
    let mut kinds = Vec::new();
    while let Some(output) = plane.router.poll_output() {
        kinds.push(match output {
            Output::Group { group: Some(_), .. } => 'g',
            Output::Fib { .. } => 'f',
            _ => 'x',
        });
        plane.carry_out(output);
    }
    let groups = kinds.iter().rposition(|kind| *kind == 'g').unwrap();
    assert!(groups < 10, "the last group is told after {groups} outputs");
    assert!(kinds.iter().filter(|kind| **kind == 'f').count() > 20_000);
    // An input before the outputs are taken makes no difference.
    plane.up(A, &["10.0.1.1/24"]);
    assert!(matches!(plane.lookup("172.3.3.1"), Some(Group::Via(_))));
    plane.is_slow = true;
    plane.down(A);
    plane.is_slow = false;
    plane.set(Source::Static, "192.0.2.0/24", Route::Blackhole);
    assert!(matches!(plane.lookup("172.3.3.1"), Some(Group::Via(m)) if m.len() == 1));
    assert!(!plane.fib.contains_key(&prefix("172.3.3.0/24")));
}

#[test]
fn facts_told_again_change_nothing_and_a_new_link_address_is_announced() {
    let mut plane = Plane::two();
    plane.answer(A, "10.0.1.2", 2);
    let changes = plane.fib_changes;
    plane.up(A, &["10.0.1.1/24", "2001:db8:1::1/64", "fe80::1/64"]);
    assert_eq!((plane.fib_changes, plane.said()), (changes, vec![]));
    let mut moved = crate::plane::facts(A, &["10.0.1.1/24", "2001:db8:1::1/64"]);
    moved.mac = mac(0xEE);
    plane.input(Input::Interface { id: A, facts: Some(moved) });
    let said = plane.said();
    assert!(said.len() == 2, "{said:?}");
    assert!(said[0].contains("announcement 10.0.1.1 is-at 02:00:00:00:00:ee"), "{said:?}");
    assert!(said[1].contains("2001:db8:1::1 is here, is-at 02:00:00:00:00:ee"), "{said:?}");
}

#[test]
fn ten_thousand_flaps_change_what_flaps_and_nothing_else() {
    let mut plane = Plane::two();
    plane.set(Source::Kernel, "0.0.0.0/0", via(B, "10.0.2.2"));
    plane.set(Source::Kernel, "198.51.100.0/24", via(A, "10.0.1.2"));
    let (changes, groups) = (plane.fib_changes, plane.groups.clone());
    for n in 0..10_000u32 {
        let to = format!("172.{}.{}.0/24", n / 256 % 16, n % 256);
        plane.set(Source::Kernel, &to, via(A, "10.0.1.2"));
        plane.unset(Source::Kernel, &to);
    }
    assert_eq!(plane.fib_changes, changes + 20_000);
    assert_eq!(plane.groups, groups);
    assert!(plane.said().len() <= 3, "only the gateways were asked for");
}

#[test]
fn a_neighbour_that_is_known_has_a_prefix_of_its_own_unless_a_route_says_otherwise() {
    let mut plane = Plane::two();
    let ask = |plane: &mut Plane| {
        let frame = crate::plane::arp(
            A,
            plexus_wire::arp::Operation::REQUEST,
            ("10.0.1.130", 5),
            "10.0.1.1",
        );
        plane.frame(A, Why::Arp, frame);
    };
    ask(&mut plane);
    assert_eq!(plane.ways("10.0.1.130"), [(A, mac(5))]);
    assert!(plane.fib.contains_key(&prefix("10.0.1.130/32")));
    // A prefix longer than the link's decides, also for a resolved neighbour.
    plane.set(Source::Kernel, "10.0.1.128/25", Route::Blackhole);
    assert_eq!(plane.lookup("10.0.1.130"), Some(&Group::Blackhole));
    plane.unset(Source::Kernel, "10.0.1.128/25");
    assert_eq!(plane.ways("10.0.1.130"), [(A, mac(5))]);
    // So does a route to the address alone; on the same link it changes nothing.
    plane.set(Source::Kernel, "10.0.1.130/32", via(B, "10.0.2.2"));
    assert_eq!(plane.ways("10.0.1.130"), []);
    let on_link = NextHop { interface: A, gateway: None, on_link: false, weight: 1 };
    plane.set(Source::Kernel, "10.0.1.130/32", Route::Via(vec![on_link]));
    assert_eq!(plane.ways("10.0.1.130"), [(A, mac(5))]);
    plane.unset(Source::Kernel, "10.0.1.130/32");
    assert_eq!(plane.ways("10.0.1.130"), [(A, mac(5))]);
    plane.down(A);
    assert_eq!(plane.lookup("10.0.1.130"), None);
}

#[test]
fn a_resynchronised_source_keeps_what_it_names_and_loses_the_rest() {
    let mut plane = Plane::two();
    for n in 0..50 {
        plane.set(Source::Kernel, &format!("172.16.{n}.0/24"), via(A, "10.0.1.2"));
        plane.set(Source::Static, &format!("172.17.{n}.0/24"), via(A, "10.0.1.2"));
    }
    let before = plane.fib_changes;
    // The first list is interrupted, the second completes.
    plane.input(Input::Begin(Source::Kernel));
    plane.set(Source::Kernel, "172.16.3.0/24", via(A, "10.0.1.2"));
    plane.input(Input::Begin(Source::Kernel));
    for n in (0..50).filter(|n| n % 2 == 0) {
        plane.set(Source::Kernel, &format!("172.16.{n}.0/24"), via(A, "10.0.1.2"));
    }
    assert_eq!(plane.fib_changes, before, "a route that stays is never touched");
    plane.input(Input::End(Source::Kernel));
    assert_eq!(plane.fib_changes, before + 25);
    for n in 0..50 {
        let is_there = plane.lookup(&format!("172.16.{n}.1")).is_some();
        assert_eq!(is_there, n % 2 == 0, "{n}");
        assert!(plane.lookup(&format!("172.17.{n}.1")).is_some(), "another source's");
    }
    plane.input(Input::End(Source::Kernel));
    assert_eq!(plane.router.sizes().routes, 75, "an end without a beginning means nothing");
}

#[test]
fn beyond_the_limits_routes_are_refused_and_what_was_there_stays() {
    let limits = Limits { routes: 10, ..Limits::default() };
    let mut plane = Plane::with(limits);
    plane.up(A, &["10.0.1.1/24"]);
    for n in 0..20 {
        plane.set(Source::Kernel, &format!("172.16.{n}.0/24"), via(A, "10.0.1.2"));
    }
    assert_eq!(plane.refused(Refusal::RoutesFull), 10);
    assert_eq!(plane.events, [Event::RoutesFull], "told once");
    assert!(plane.lookup("172.16.9.1").is_some() && plane.lookup("172.16.10.1").is_none());
    // An existing route may change, and a withdrawn one makes room.
    plane.set(Source::Kernel, "172.16.9.0/24", Route::Blackhole);
    assert_eq!(plane.lookup("172.16.9.1"), Some(&Group::Blackhole));
    plane.unset(Source::Kernel, "172.16.0.0/24");
    // What was refused is to be told again.
    assert_eq!(plane.events, [Event::RoutesFull, Event::RoutesFit]);
    plane.set(Source::Kernel, "172.16.10.0/24", via(A, "10.0.1.2"));
    assert!(plane.lookup("172.16.10.1").is_some());
    // Another limit holds from then on.
    plane.router.limit_routes(11);
    plane.set(Source::Kernel, "172.16.11.0/24", via(A, "10.0.1.2"));
    assert!(plane.lookup("172.16.11.1").is_some());
    plane.set(Source::Kernel, "172.16.12.0/24", via(A, "10.0.1.2"));
    assert!(plane.lookup("172.16.12.1").is_none() && plane.router.is_full());
}

#[test]
fn there_are_no_more_groups_than_numbers() {
    let mut plane = Plane::new();
    plane.up(A, &["10.0.0.1/8"]);
    let way = |n: u32| {
        let hop = |n: u32| hop(A, &std::net::Ipv4Addr::from(0x0A00_0002 + n).to_string());
        Route::Via(vec![hop(n % 250), hop(250 + n / 250)])
    };
    let mut n = 0;
    while plane.refused(Refusal::GroupsFull) == 0 {
        let prefix = std::net::Ipv4Addr::from(0xAC10_0000 + n);
        plane.router.handle(
            plane.now,
            Input::Route {
                source: Source::Kernel,
                prefix: prefix_of(prefix),
                metric: 0,
                route: Some(way(n)),
            },
        );
        n += 1;
        while plane.router.poll_output().is_some() {}
        assert!(n < 32_767, "more groups than numbers");
    }
    assert!(n > 12_000, "{n}");
    let full = plane.router.sizes();
    // A route that needs a new set of next hops keeps its old one; a known set is accepted.
    let prefix = prefix_of(std::net::Ipv4Addr::from(0xAC10_0000));
    for (way, is_new) in [(way(60_000), false), (way(7), true)] {
        let (source, metric) = (Source::Kernel, 0);
        let before = plane.router.lookup(prefix.addr());
        let input = Input::Route { source, prefix, metric, route: Some(way) };
        plane.router.handle(plane.now, input);
        assert_eq!(plane.router.lookup(prefix.addr()) != before, is_new);
    }
    assert_eq!(plane.router.sizes().groups, full.groups - 1);
    // When a part of them has gone, what was refused is to be told again.
    let mut has_room = false;
    for gone in 1..n {
        let prefix = prefix_of(std::net::Ipv4Addr::from(0xAC10_0000 + gone));
        let (source, metric, route) = (Source::Kernel, 0, None);
        plane.router.handle(plane.now, Input::Route { source, prefix, metric, route });
        while let Some(output) = plane.router.poll_output() {
            has_room |= matches!(output, Output::Tell(Event::RoutesFit));
        }
    }
    assert!(has_room);
}

fn prefix_of(addr: std::net::Ipv4Addr) -> plexus_wire::Prefix {
    plexus_wire::Prefix::host(addr.into())
}

#[test]
fn invalid_routes_are_refused() {
    let mut plane = Plane::two();
    for to in ["224.0.0.0/4", "127.0.0.0/8", "fe80::/64", "ff00::/8", "::1/128"] {
        plane.set(Source::Kernel, to, Route::Blackhole);
    }
    assert_eq!(plane.refused(Refusal::NotRoutable), 5);
    let none = NextHop { interface: A, gateway: None, on_link: false, weight: 1 };
    plane.set(Source::Kernel, "192.0.2.0/24", Route::Via(vec![]));
    plane.set(Source::Kernel, "192.0.2.0/24", via(A, "224.0.0.1"));
    let weightless = NextHop { weight: 0, ..hop(A, "10.0.1.2") };
    plane.set(Source::Kernel, "192.0.2.0/24", Route::Via(vec![weightless]));
    assert_eq!(plane.refused(Refusal::BadNextHop), 3);
    plane.set(Source::Kernel, "192.0.2.0/24", Route::Via(vec![none, hop(A, "10.0.1.2")]));
    assert_eq!(plane.refused(Refusal::MixedOnLink), 1);
    let many = (0..65).map(|n| hop(A, &format!("10.0.1.{}", n + 2))).collect();
    plane.set(Source::Kernel, "192.0.2.0/24", Route::Via(many));
    assert_eq!(plane.refused(Refusal::TooManyNextHops), 1);
    assert_eq!(plane.lookup("192.0.2.1"), None);
    let mut facts = crate::plane::facts(A, &["10.0.1.1/24", "10.0.1.255/24", "224.0.0.1/24"]);
    facts.addresses.push((ip("10.0.1.1"), 99));
    plane.input(Input::Interface { id: A, facts: Some(facts.clone()) });
    assert_eq!(plane.refused(Refusal::InterfaceAddress), 3);
    assert_eq!(plane.lookup("10.0.1.1"), Some(&Group::Local));
    facts.mac = plexus_wire::MacAddr::BROADCAST;
    plane.input(Input::Interface { id: A, facts: Some(facts) });
    assert_eq!(plane.refused(Refusal::InterfaceMac), 1);
}

#[test]
fn an_address_is_explained_from_the_longest_prefix_on() {
    let mut plane = Plane::two();
    plane.set(Source::Static, "0.0.0.0/0", via(A, "10.0.1.2"));
    plane.set(Source::Kernel, "192.0.2.0/24", via(A, "10.9.9.9"));
    let said = plane.router.explain(ip("192.0.2.1"));
    let prefixes: Vec<_> = said.iter().map(|view| view.prefix.to_string()).collect();
    assert_eq!(prefixes, ["192.0.2.0/24", "0.0.0.0/0"]);
    assert_eq!(said[0].routes[0].standing, Standing::Inactive);
    assert_eq!(said[1].routes[0].standing, Standing::InUse);
}
