use plexus_wire::checksum::Sum;
use plexus_wire::fabric::message::{Body, Gateway, TreeEntry};
use plexus_wire::{EtherType, Protocol, ethernet, icmpv6, igmp, ipv4, ipv6};

use super::super::effect::{Event, Unserved};
use super::super::host_frame::{HostFrame, Matter};
use super::*;
use crate::timers::Timers;

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xA]);
const PORT: u8 = 3;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn group() -> Group {
    let ip4 = ip("10.0.0.254");
    let gateways = vec![Gateway { ip: ip4, prefix_len: 24, daemons: false, mtu: 1500 }];
    Group { mac: MacAddr([2, 0x50, 0, 0, 0, 1]), gateways }
}

fn roles() -> BTreeMap<u8, PortRole> {
    BTreeMap::from([(1, PortRole::Fabric), (2, PortRole::Down), (PORT, PortRole::Host)])
}

fn at(s: u64) -> Time {
    Time::from_millis(1000 * s)
}

/// The groups of a node and its timers.
#[derive(Default)]
struct Rig {
    groups: Groups,
    timers: Timers<Timer>,
}

impl Rig {
    /// Calls a function of the groups; returns what they request.
    fn at(&mut self, now: Time, call: impl FnOnce(&mut Groups, &mut Turn<'_>)) -> Vec<Effect> {
        let mut turn = Turn::new(now, &mut self.timers);
        call(&mut self.groups, &mut turn);
        turn.out
    }
}

/// A policy that serves 239/8 and ff05::/16 to members, and mDNS to all.
fn served() -> Rig {
    let mut rig = Rig::default();
    let prefix = |text: &str, prefix_len, joined| GroupPrefix { ip: ip(text), prefix_len, joined };
    let prefixes = vec![
        prefix("224.0.0.251", 32, false),
        prefix("239.0.0.0", 8, true),
        prefix("ff05::", 16, true),
    ];
    let policy = GroupPolicy { version: 1, prefixes };
    let out = rig.at(at(0), |g, turn| g.set_policy(turn, policy, Some(&group()), &roles()));
    assert_eq!(out.len(), 2, "both kinds of hosts are asked at once: {out:?}");
    rig
}

fn report(rig: &mut Rig, now: Time, which: &str, listens: bool) -> Vec<Effect> {
    let reports = [(ip(which), listens)];
    rig.at(now, |groups, turn| groups.reported(turn, PORT, A, &reports, Some(&group())))
}

fn sent(rig: &mut Rig, now: Time, which: IpAddr, frame: &[u8]) -> Vec<Effect> {
    rig.at(now, |groups, turn| groups.sent(turn, PORT, A, which, frame))
}

fn set_routes(rig: &mut Rig, now: Time, routes: Vec<GroupRoute>) -> Vec<Effect> {
    rig.at(now, |groups, turn| groups.set_routes(turn, routes))
}

fn said(effects: &[Effect]) -> Vec<Vec<IpAddr>> {
    let bodies = effects.iter().filter_map(|e| match e {
        Effect::Controller { body: Body::GroupMembership(m), sure: true } => Some(m.groups.clone()),
        _ => None,
    });
    bodies.collect()
}

fn counted(effects: &[Effect], why: Unserved) -> usize {
    let of_it = |e: &&Effect| **e == Effect::Tell(Event::Dropped(PORT, why));
    effects.iter().filter(of_it).count()
}

fn run(rig: &mut Rig, now: Time) -> Vec<Effect> {
    let mut out = vec![];
    while let Some(timer) = rig.timers.due(now) {
        out.extend(rig.at(now, |groups, turn| match timer {
            Timer::Query => groups.query_all(turn, Some(&group()), &roles()),
            Timer::Member(port, mac, ip) => groups.expired(turn, port, mac, ip),
            Timer::Asked(sender) => groups.waited(turn, sender),
            Timer::Ended(sender) => groups.ended(turn, sender),
            other => panic!("{other:?} is not of groups"),
        }));
    }
    out
}

#[test]
fn queries_are_those_of_a_router() {
    let v4 = igmp_query(&group(), Ipv4Addr::UNSPECIFIED, 10).unwrap();
    let frame = ethernet::Frame::new_checked(&v4[..]).unwrap();
    assert_eq!(frame.dst().to_string(), "01:00:5e:00:00:01");
    let packet = ipv4::Packet::new_checked(frame.payload()).unwrap();
    assert_eq!((packet.ttl(), packet.src()), (1, [10, 0, 0, 254].into()));
    assert_eq!(packet.options_bytes(), [148, 4, 0, 0]);
    let message = igmp::Packet::new_checked(packet.payload()).unwrap();
    assert!(message.checksum_ok());
    assert_eq!(igmp::Repr::parse(&message).unwrap().to_string(), "IGMP v3 general query");
    let which = "ff05::7".parse().unwrap();
    let v6 = mld_query(&group(), which, 1).unwrap();
    let frame = ethernet::Frame::new_checked(&v6[..]).unwrap();
    assert_eq!(frame.dst().to_string(), "33:33:00:00:00:07");
    let packet = ipv6::Packet::new_checked(frame.payload()).unwrap();
    assert_eq!((packet.hop_limit(), packet.dst()), (1, which));
    let upper = packet.upper().unwrap();
    let message = &packet.payload()[upper.offset..];
    let len = message.len() as u32;
    let pseudo = Sum::pseudo_v6(packet.src(), packet.dst(), Protocol::ICMPV6, len);
    assert!(icmpv6::Packet::new_checked(message).unwrap().checksum_ok(pseudo));
    // A host's query is ignored, and a router's report is not accepted as a host's.
    assert_eq!(HostFrame::parse(&v4).unwrap().matter, Matter::Group);
    assert_eq!(HostFrame::parse(&v6).unwrap().matter, Matter::Group);
}

#[test]
fn reports_are_read_if_they_are_sound() {
    let report = igmp::Repr::ReportV2([239, 1, 2, 3].into());
    let mut f = vec![0; 42];
    let dst = MacAddr::of_group(ip("239.1.2.3")).unwrap();
    ethernet::Repr { dst, src: A, ethertype: EtherType::IPV4 }.emit(&mut f).unwrap();
    let header = ipv4::Repr::new([10, 0, 0, 1].into(), [239, 1, 2, 3].into(), Protocol::IGMP, 8);
    header.emit(&mut f[14..]).unwrap();
    report.emit(&mut f[34..]).unwrap();
    let matter = |f: &[u8]| HostFrame::parse(f).unwrap().matter;
    assert_eq!(matter(&f), Matter::Listens(vec![(ip("239.1.2.3"), true)]));
    f[36] ^= 1;
    assert_eq!(matter(&f), Matter::Forged, "wrong checksum");
    f[23] = 17;
    f[24..26].fill(0);
    assert_eq!(matter(&f), Matter::Multicast(ip("239.1.2.3")));
    f[5] ^= 1;
    assert_eq!(matter(&f), Matter::Group, "an Ethernet address of another group");
}

#[test]
fn members_come_leave_and_are_forgotten_when_silent() {
    let mut rig = served();
    assert_eq!(said(&report(&mut rig, at(1), "239.1.1.1", true)), [vec![ip("239.1.1.1")]]);
    assert_eq!(said(&report(&mut rig, at(2), "239.1.1.1", true)).len(), 0, "known already");
    let both = said(&report(&mut rig, at(2), "ff05::1", true));
    assert_eq!(both, [vec![ip("239.1.1.1"), ip("ff05::1")]]);
    // It leaves: other hosts behind the port are queried, and one answers.
    let asked = report(&mut rig, at(3), "239.1.1.1", false);
    assert!(matches!(&asked[..], [Effect::Host { port: PORT, .. }]), "{asked:?}");
    report(&mut rig, at(4), "239.1.1.1", true);
    assert_eq!(said(&run(&mut rig, at(10))).len(), 0);
    // Then none answers.
    report(&mut rig, at(11), "239.1.1.1", false);
    assert_eq!(said(&run(&mut rig, at(14))), [vec![ip("ff05::1")]]);
    // The other one is silent too long; meanwhile it was queried again.
    let later = run(&mut rig, at(200));
    assert!(later.iter().any(|e| matches!(e, Effect::Host { .. })), "{later:?}");
    assert_eq!(said(&run(&mut rig, at(263))), [Vec::<IpAddr>::new()]);
    assert!(rig.groups.list().is_empty() && rig.groups.members.is_empty());
}

#[test]
fn state_per_port_is_bounded() {
    let mut rig = served();
    let mut refused = 0;
    for n in 0..1000u32 {
        let which = IpAddr::from((0xEF00_0000 + n).to_be_bytes());
        for station in 0..8 {
            let mac = MacAddr([2, 0, 0, 0, 1, station]);
            let out = rig.at(at(1), |g, turn| g.reported(turn, PORT, mac, &[(which, true)], None));
            refused += counted(&out, Unserved::TooManyGroups);
        }
    }
    assert_eq!(refused, 8000 - MEMBERS_MAX);
    assert!(rig.groups.list().iter().all(|(_, _, g)| g.len() <= GROUPS_MAX));
    assert_eq!(counted(&report(&mut rig, at(1), "238.0.0.1", true), Unserved::GroupRefused), 1);
    assert_eq!(report(&mut rig, at(1), "ff02::1:ff00:1", true), [], "every host has these");
    assert_eq!(report(&mut rig, at(1), "224.0.0.251", true), [], "every host listens");
    // Waiting senders.
    let mut out = vec![];
    for n in 0..1000u32 {
        let which = IpAddr::from((0xEF00_0000 + n).to_be_bytes());
        out.extend(sent(&mut rig, at(2), which, b"frame"));
    }
    assert_eq!(counted(&out, Unserved::TooMany), 1000 - ASKED_MAX);
    let late = run(&mut rig, at(4));
    assert_eq!(counted(&late, Unserved::NoRoute), ASKED_MAX, "what waited in vain is counted");
    assert!(rig.groups.asked.is_empty() && rig.groups.ways.is_empty());
    // A port that closes is forgotten entirely.
    for (_, mac, _) in rig.groups.list() {
        rig.at(at(4), |groups, turn| groups.forget(turn, PORT, mac));
    }
    assert!(rig.groups.members.is_empty());
}

/// A host sends to ever new groups, each of which briefly has a tree.
#[test]
fn routes_that_have_ended_are_forgotten() {
    let mut rig = served();
    for n in 0..100u32 {
        let which = IpAddr::from((0xEF00_0000 + n).to_be_bytes());
        let group = MacAddr::of_group(which).unwrap();
        let now = at(100 * u64::from(n));
        sent(&mut rig, now, which, b"frame");
        apply(&mut rig, 5, update(&[(n, &[1])], &[], false));
        let way =
            |version, tree| GroupRoute { port: PORT, source: A, group, version, tree, credits: 1 };
        set_routes(&mut rig, now, vec![way(2, Some(n))]);
        set_routes(&mut rig, now, vec![way(4, None)]);
        // An older message is still ignored.
        assert_eq!(set_routes(&mut rig, now, vec![way(3, Some(n))]), []);
        run(&mut rig, at(100 * u64::from(n) + 99));
        assert!(rig.groups.ways.is_empty(), "{:?}", rig.groups.ways);
    }
    // A route in use is kept, and forgotten after its tree is removed.
    let group = MacAddr::of_group(ip("239.0.0.1")).unwrap();
    let tree = Some(99);
    let way = GroupRoute { port: PORT, source: A, group, version: 9, tree, credits: 1 };
    set_routes(&mut rig, at(20_000), vec![way]);
    run(&mut rig, at(20_500));
    assert_eq!(rig.groups.ways.len(), 1);
    let removed = update(&[], &[99], false);
    rig.at(at(20_500), |groups, turn| groups.update(turn, 5, removed, &roles()));
    assert_eq!(rig.groups.ways.len(), 1, "its version is remembered for a while");
    run(&mut rig, at(20_600));
    assert!(rig.groups.ways.is_empty());
}

/// Otherwise each Leave of a listener would cause a query and restart the delay.
#[test]
fn repeated_leaves_cause_one_query_and_do_not_delay_expiry() {
    let mut rig = served();
    report(&mut rig, at(1), "239.1.1.1", true);
    let mut asked = 0;
    for n in 0..19u64 {
        let now = at(2) + Duration::from_millis(100 * n);
        asked += report(&mut rig, now, "239.1.1.1", false).len();
    }
    assert_eq!(asked, 1);
    assert_eq!(said(&run(&mut rig, at(4))), [Vec::<IpAddr>::new()]);
}

fn update(add: &[(u32, &[u8])], remove: &[u32], earlier: bool) -> TreeUpdate {
    let add = add.iter().map(|(tree, ports)| TreeEntry { tree: *tree, ports: ports.to_vec() });
    TreeUpdate { earlier, add: add.collect(), remove: remove.to_vec() }
}

fn apply(rig: &mut Rig, epoch: u64, update: TreeUpdate) -> Vec<Effect> {
    rig.at(at(1), |groups, turn| groups.update(turn, epoch, update, &roles()))
}

#[test]
fn a_first_frame_waits_for_its_tree_and_no_removed_tree_comes_back() {
    let mut rig = served();
    let first = sent(&mut rig, at(1), ip("239.1.1.1"), b"first");
    assert!(matches!(first[..], [Effect::Controller { sure: true, .. }]));
    let second = sent(&mut rig, at(1), ip("239.1.1.1"), b"second");
    assert_eq!(counted(&second, Unserved::NoRoute), 1);
    let added = apply(&mut rig, 5, update(&[(7, &[1, 2, PORT])], &[], false));
    let ports = Some(vec![1, PORT]);
    assert_eq!(added[0], Effect::Tree { tree: 7, ports }, "a port that is down gets nothing");
    assert!(matches!(&added[1], Effect::Controller { body: Body::TreesReady(r), .. }
        if r.trees == [7]));
    let group = MacAddr::of_group(ip("239.1.1.1")).unwrap();
    let way = |version, tree, credits| {
        vec![GroupRoute { port: PORT, source: A, group, version, tree, credits }]
    };
    let out = set_routes(&mut rig, at(1), way(2, Some(7), 1));
    let frame = b"first".to_vec();
    assert_eq!(out[1], Effect::AlongTree { port: PORT, tree: 7, credits: 1, frame });
    // An older one that was overtaken, and one whose tree is missing.
    assert_eq!(set_routes(&mut rig, at(1), way(1, None, 0)), []);
    assert_eq!(set_routes(&mut rig, at(1), way(3, Some(8), 0)), []);
    // Removed: the route ends with the tree, and an old message does not bring the tree back.
    let gone = apply(&mut rig, 5, update(&[], &[7], false));
    assert!(matches!(&gone[..], [Effect::Tree { ports: None, .. }, Effect::Group(r)]
        if r.tree.is_none()));
    let again = apply(&mut rig, 5, update(&[(7, &[1])], &[], false));
    assert!(matches!(again[..], [Effect::Controller { .. }]), "answered, and not put in");
    // State left by an earlier incarnation is removed entirely.
    apply(&mut rig, 5, update(&[(8, &[1])], &[], false));
    apply(&mut rig, 6, update(&[(9, &[1])], &[], false));
    apply(&mut rig, 6, update(&[], &[], true));
    assert_eq!(rig.groups.trees(), [(9, vec![1])]);
    // It may use any number that others have used.
    apply(&mut rig, 6, update(&[(7, &[1]), (8, &[1])], &[], false));
    assert_eq!(rig.groups.trees().len(), 3);
}

#[test]
fn a_port_that_becomes_another_leaves_the_trees() {
    let mut rig = served();
    let mut roles = roles();
    let mut change = |rig: &mut Rig, port, role, peer| {
        let before = roles.insert(port, role);
        let mut out =
            rig.at(at(1), |groups, turn| groups.port_changed(turn, port, before, peer, &roles));
        match out.pop() {
            Some(Effect::Tree { ports, .. }) => ports.unwrap(),
            _ => vec![],
        }
    };
    change(&mut rig, 1, PortRole::Fabric, Some((9, 4)));
    apply(&mut rig, 1, update(&[(7, &[1, PORT])], &[], false));
    assert_eq!(change(&mut rig, 1, PortRole::Down, None), [PORT]);
    assert_eq!(change(&mut rig, 1, PortRole::Fabric, Some((9, 4))), [1, PORT], "the same cable");
    change(&mut rig, 1, PortRole::Unknown, None);
    assert_eq!(change(&mut rig, 1, PortRole::Fabric, Some((9, 5))), [PORT], "another one");
    assert_eq!(change(&mut rig, PORT, PortRole::Down, None), [0; 0]);
    assert_eq!(change(&mut rig, PORT, PortRole::Host, None), [0; 0], "another host, perhaps");
}
