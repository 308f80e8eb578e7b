//! After any sequence of inputs, the forwarding table equals one computed from scratch and naively:
//! by examining every route for every prefix.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use plexus_control::router::{
    Group, Input, InterfaceFacts, InterfaceId, NextHop, Route, Source, Why,
};
use plexus_wire::Prefix;
use plexus_wire::arp::Operation;
use proptest::prelude::*;

use crate::plane::{Plane, arp, facts, ip, prefix};

#[derive(Clone, Debug)]
enum Op {
    Up(u16, usize),
    Down(u16),
    Set(Source, usize, u32, usize),
    Unset(Source, usize, u32),
    Begin(Source),
    End(Source),
    /// A neighbour asks one of our addresses.
    Ask(u16, usize),
    Seconds(u64),
}

const ADDRESSES: [&[&str]; 6] = [
    &["10.0.0.1/29", "2001:db8::1/64"],
    &["10.0.0.1/28"],
    &["10.0.0.17/29", "10.0.0.2/29", "fe80::1/64"],
    &["10.0.0.6/31", "2001:db8::2/126", "2001:db8::5/128"],
    &["10.0.0.5/32", "192.0.2.1/24"],
    &[],
];

const PREFIXES: [&str; 14] = [
    "0.0.0.0/0",
    "10.0.0.0/28",
    "10.0.0.0/29",
    "10.0.0.4/30",
    "10.0.0.5/32",
    "10.0.0.1/32",
    "10.0.0.7/32",
    "10.0.0.16/29",
    "192.0.2.0/24",
    "192.0.2.128/25",
    "::/0",
    "2001:db8::/64",
    "2001:db8::/126",
    "2001:db8::5/128",
];

const NEIGHBOURS: [&str; 6] =
    ["10.0.0.3", "10.0.0.5", "10.0.0.6", "10.0.0.9", "10.0.0.18", "192.0.2.130"];

fn hop(interface: u16, gateway: Option<&str>, weight: u8) -> NextHop {
    let interface = InterfaceId(interface);
    NextHop { interface, gateway: gateway.map(ip), on_link: false, weight }
}

fn route(n: usize, prefix: &Prefix) -> Route {
    let four = [hop(1, Some("10.0.0.5"), 1), hop(2, Some("10.0.0.18"), 3)];
    let six = [hop(1, Some("fe80::9"), 1), hop(2, Some("2001:db8::7"), 2)];
    let pair = if prefix.addr().is_ipv4() { four } else { six };
    match n {
        0 => Route::Via(vec![pair[0]]),
        1 => Route::Via(vec![pair[1]]),
        2 => Route::Via(pair.to_vec()),
        3 => Route::Via(vec![hop(1, None, 1)]),
        4 => Route::Via(vec![hop(2, None, 1)]),
        5 => Route::Via(vec![NextHop { on_link: true, ..hop(2, Some("fe80::44"), 1) }]),
        6 => Route::Local,
        7 => Route::Blackhole,
        _ => Route::Via(vec![pair[1], pair[0], pair[1]]),
    }
}

fn op() -> impl Strategy<Value = Op> {
    let source = || prop_oneof![Just(Source::Static), Just(Source::Kernel)];
    prop_oneof![
        2 => (1u16..4, 0..ADDRESSES.len()).prop_map(|(id, n)| Op::Up(id, n)),
        1 => (1u16..4).prop_map(Op::Down),
        8 => (source(), 0..PREFIXES.len(), 0u32..3, 0usize..9)
            .prop_map(|(s, p, m, r)| Op::Set(s, p, m, r)),
        4 => (source(), 0..PREFIXES.len(), 0u32..3).prop_map(|(s, p, m)| Op::Unset(s, p, m)),
        1 => source().prop_map(Op::Begin),
        1 => source().prop_map(Op::End),
        5 => (1u16..4, 0..NEIGHBOURS.len()).prop_map(|(id, n)| Op::Ask(id, n)),
        1 => (1u64..100).prop_map(Op::Seconds),
    ]
}

/// The fate of a packet, without numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Meaning {
    /// By interface and address, with weights.
    Via(BTreeMap<(InterfaceId, IpAddr), u8>),
    Glean(InterfaceId),
    Other(Group),
}

#[derive(Default)]
struct Model {
    interfaces: BTreeMap<InterfaceId, InterfaceFacts>,
    routes: BTreeMap<(Prefix, Source, u32), Route>,
    named: BTreeMap<Source, BTreeSet<(Prefix, u32)>>,
}

impl Model {
    fn is_own(&self, addr: IpAddr, on: impl Fn(InterfaceId) -> bool) -> bool {
        let facts = self.interfaces.iter().filter(|(id, _)| on(**id)).map(|(_, facts)| facts);
        facts.flat_map(|f| &f.addresses).any(|(a, len)| {
            let is_anycast = a.is_ipv6()
                && *len < 127
                && !a.to_string().starts_with("fe80")
                && Prefix::around(*a, *len).unwrap().addr() == addr;
            *a == addr || is_anycast
        })
    }

    /// The subnets of an interface: prefix, and whether it has broadcast addresses.
    fn subnets(facts: &InterfaceFacts) -> Vec<(Prefix, bool)> {
        let subnets = facts.addresses.iter().map(|(a, len)| Prefix::around(*a, *len).unwrap());
        let subnets = subnets.filter(|p| !p.is_host() && p.to_string() != "fe80::/64");
        subnets.map(|p| (p, p.addr().is_ipv4() && p.len() < 31)).collect()
    }

    fn is_broadcast(&self, addr: IpAddr) -> bool {
        let subnets = self.interfaces.values().flat_map(Model::subnets);
        subnets.filter(|(_, has)| *has).any(|(p, _)| [p.addr(), p.last()].contains(&addr))
    }

    fn connected(&self, prefix: &Prefix) -> Option<Meaning> {
        if prefix.is_host() && self.is_own(prefix.addr(), |_| true) {
            return Some(Meaning::Other(Group::Local));
        }
        if prefix.is_host() && self.is_broadcast(prefix.addr()) {
            return Some(Meaning::Other(Group::Broadcast));
        }
        let has = |facts: &InterfaceFacts| Model::subnets(facts).iter().any(|(p, _)| p == prefix);
        let found = self.interfaces.iter().find(|(_, facts)| has(facts));
        found.map(|(id, _)| Meaning::Glean(*id))
    }

    fn is_usable(&self, hop: &NextHop) -> bool {
        let Some(facts) = self.interfaces.get(&hop.interface) else { return false };
        let Some(gateway) = hop.gateway else { return true };
        let is_near = gateway.to_string().starts_with("fe80");
        if self.is_own(gateway, |id| !is_near || id == hop.interface) {
            return false;
        }
        let is_within = Model::subnets(facts).iter().any(|(p, _)| p.contains(gateway));
        hop.on_link || ((is_near || is_within) && !self.is_broadcast(gateway))
    }

    fn meaning(
        &self,
        route: &Route,
        resolved: &BTreeSet<(InterfaceId, IpAddr)>,
    ) -> Option<Meaning> {
        let Route::Via(hops) = route else {
            return Some(Meaning::Other(match route {
                Route::Local => Group::Local,
                Route::Blackhole => Group::Blackhole,
                _ => panic!("not in this test"),
            }));
        };
        let usable: Vec<&NextHop> = hops.iter().filter(|hop| self.is_usable(hop)).collect();
        if let [NextHop { gateway: None, interface, .. }] = usable[..] {
            return Some(Meaning::Glean(*interface));
        }
        let mut ways = BTreeMap::new();
        for hop in usable {
            let weight = if hops.len() == 1 { 1 } else { hop.weight };
            *ways.entry((hop.interface, hop.gateway.unwrap())).or_insert(0) += weight;
        }
        let mut known = ways.clone();
        known.retain(|way, _| resolved.contains(way));
        let ways = if known.is_empty() { ways } else { known };
        (!ways.is_empty()).then_some(Meaning::Via(ways))
    }

    /// The best of all sources, except neighbours.
    fn best(&self, prefix: &Prefix, resolved: &BTreeSet<(InterfaceId, IpAddr)>) -> Option<Meaning> {
        let connected = self.connected(prefix);
        let routes = [Source::Static, Source::Kernel].into_iter().flat_map(|source| {
            (0..3).filter_map(move |metric| self.routes.get(&(*prefix, source, metric)))
        });
        connected.or_else(|| routes.into_iter().find_map(|r| self.meaning(r, resolved)))
    }

    fn fib(&self, resolved: &BTreeSet<(InterfaceId, IpAddr)>) -> BTreeMap<Prefix, Meaning> {
        let mut prefixes: BTreeSet<Prefix> = self.routes.keys().map(|(p, ..)| *p).collect();
        for facts in self.interfaces.values() {
            for (addr, len) in &facts.addresses {
                let subnet = Prefix::around(*addr, *len).unwrap();
                prefixes.extend([Prefix::host(*addr), Prefix::host(subnet.addr()), subnet]);
                prefixes.insert(Prefix::host(subnet.last()));
            }
        }
        let best = prefixes.iter().filter_map(|p| self.best(p, resolved).map(|m| (*p, m)));
        let fib: BTreeMap<Prefix, Meaning> = best.collect();
        let mut with_neighbours = fib.clone();
        for (interface, addr) in resolved {
            let covering = fib.iter().filter(|(p, _)| p.contains(*addr));
            let longest = covering.max_by_key(|(p, _)| p.len()).map(|(_, meaning)| meaning);
            if longest == Some(&Meaning::Glean(*interface)) {
                let way = BTreeMap::from([((*interface, *addr), 1)]);
                with_neighbours.insert(Prefix::host(*addr), Meaning::Via(way));
            }
        }
        with_neighbours
    }

    fn take(&mut self, op: &Op) {
        match op {
            Op::Up(id, n) => drop(
                self.interfaces.insert(InterfaceId(*id), facts(InterfaceId(*id), ADDRESSES[*n])),
            ),
            Op::Down(id) => drop(self.interfaces.remove(&InterfaceId(*id))),
            Op::Set(source, p, metric, r) => {
                let prefix = prefix(PREFIXES[*p]);
                self.routes.insert((prefix, *source, *metric), route(*r, &prefix));
                if let Some(named) = self.named.get_mut(source) {
                    named.insert((prefix, *metric));
                }
            }
            Op::Unset(source, p, metric) => {
                self.routes.remove(&(prefix(PREFIXES[*p]), *source, *metric));
            }
            Op::Begin(source) => drop(self.named.insert(*source, BTreeSet::new())),
            Op::End(source) => {
                let Some(named) = self.named.remove(source) else { return };
                self.routes
                    .retain(|(p, s, metric), _| s != source || named.contains(&(*p, *metric)));
            }
            Op::Ask(..) | Op::Seconds(_) => {}
        }
    }
}

/// The contents of the data plane.
fn told(plane: &Plane) -> BTreeMap<Prefix, Meaning> {
    let neighbours: BTreeMap<_, _> =
        plane.router.neighbours(plane.now).map(|n| (n.id, (n.interface, n.address))).collect();
    let meaning = |group: &Group| match group {
        Group::Via(members) => {
            Meaning::Via(members.iter().map(|m| (neighbours[&m.neighbour], m.weight)).collect())
        }
        Group::Glean(interface) => Meaning::Glean(*interface),
        other => Meaning::Other(other.clone()),
    };
    plane.fib.iter().map(|(prefix, group)| (*prefix, meaning(&plane.groups[group]))).collect()
}

fn play(plane: &mut Plane, op: &Op) {
    match op.clone() {
        Op::Up(id, n) => plane.up(InterfaceId(id), ADDRESSES[n]),
        Op::Down(id) => plane.down(InterfaceId(id)),
        Op::Set(source, p, metric, r) => {
            let prefix = prefix(PREFIXES[p]);
            let route = Some(route(r, &prefix));
            plane.input(Input::Route { source, prefix, metric, route });
        }
        Op::Unset(source, p, metric) => {
            let prefix = prefix(PREFIXES[p]);
            plane.input(Input::Route { source, prefix, metric, route: None });
        }
        Op::Begin(source) => plane.input(Input::Begin(source)),
        Op::End(source) => plane.input(Input::End(source)),
        Op::Ask(id, n) => {
            let id = InterfaceId(id);
            let own = plane.router.interfaces().find(|(i, _)| *i == id);
            let own = own.and_then(|(_, f)| f.addresses.iter().find(|(a, _)| a.is_ipv4()));
            let Some((own, _)) = own else { return };
            let sender = (NEIGHBOURS[n], n as u8 + 1);
            let frame = arp(id, Operation::REQUEST, sender, &own.to_string());
            plane.frame(id, Why::Arp, frame);
        }
        Op::Seconds(s) => plane.pass_ms(s * 1000),
    }
}

fn check(ops: &[(Op, bool)]) -> Result<(), TestCaseError> {
    let (mut plane, mut model) = (Plane::new(), Model::default());
    for (op, is_slow) in ops {
        plane.is_slow = *is_slow;
        play(&mut plane, op);
        model.take(op);
        if plane.is_slow {
            continue;
        }
        plane.take_outputs();
        let resolved = plane.router.neighbours(plane.now).filter(|n| n.mac.is_some());
        let resolved = resolved.map(|n| (n.interface, n.address)).collect();
        prop_assert_eq!(told(&plane), model.fib(&resolved), "after {:?}", op);
        prop_assert_eq!(plane.router.sizes().routes, model.routes.len());
        prop_assert_eq!(plane.adjacencies.len(), resolved.len());
    }
    plane.is_slow = false;
    plane.take_outputs();
    // The view of each prefix matches the table.
    for (prefix, group) in &plane.fib {
        let view = plane.router.routes(prefix).expect("it is in the table");
        let used = view.routes.iter().filter(|r| {
            r.standing == plexus_control::router::show::Standing::InUse && r.group == *group
        });
        prop_assert_eq!(used.count(), 1, "{:?}", view);
    }
    // Nothing is left after everything was withdrawn.
    for source in [Source::Static, Source::Kernel] {
        plane.input(Input::Begin(source));
        plane.input(Input::Begin(source));
        plane.input(Input::End(source));
    }
    (1..4).for_each(|id| plane.down(InterfaceId(id)));
    let sizes = plane.router.sizes();
    prop_assert!(plane.fib.is_empty() && plane.groups.is_empty() && plane.adjacencies.is_empty());
    prop_assert_eq!((sizes.prefixes, sizes.groups, sizes.neighbours), (0, 0, 0));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn any_inputs_leave_the_table_that_follows_from_them(
        ops in prop::collection::vec((op(), prop::bool::weighted(0.2)), 1..60)
    ) {
        check(&ops)?;
    }
}
