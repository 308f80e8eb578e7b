//! Datasets: their contents, in segments, for plain and signed Interests.

use std::time::Duration;

use plexus_ndn::management::ManagementLimits;
use plexus_wire::ndn::data::ContentType;
use plexus_wire::ndn::nfd::{
    ChannelStatus, ControlParameters, ControlResponse, CsInfo, FaceQueryFilter, FaceStatus,
    FibEntry, Fields, GeneralStatus, Record, RibEntry, StrategyChoice, face_scope,
};
use plexus_wire::ndn::{Data, PACKET_LEN_MAX, interest, types};

use crate::node::*;

#[test]
fn routes_and_next_hops_are_listed() {
    let mut rig = Rig::new();
    let asked = ControlParameters { expiration_ms: Some(9000), ..at_cost("/a", 4) };
    rig.command("/localhost/nfd/rib/register", &asked);
    rig.command_from(OTHER, "/localhost/nfd/fib/add-nexthop", &of("/b"));
    rig.pass(2000);
    let rib = RibEntry::parse_dataset(&rig.dataset("/localhost/nfd/rib/list")).unwrap();
    assert_eq!((rib.len(), &rib[0].name, rib[0].routes.len()), (1, &name("/a"), 1));
    let route = &rib[0].routes[0];
    assert_eq!((route.cost, route.flags, route.origin), (4, 1, 0));
    assert_eq!(route.expiration_ms, Some(6999), "one went by before the other command");
    let fib = FibEntry::parse_dataset(&rig.dataset("/localhost/nfd/fib/list")).unwrap();
    let fib: Vec<_> = fib.iter().map(|e| (e.name.clone(), e.next_hops[0].face_id)).collect();
    let expected = [(name("/a"), face_id(APP)), (name("/b"), face_id(OTHER))];
    assert_eq!(fib, expected.map(|(n, f)| (n, f.number())));
}

#[test]
fn the_node_is_shown() {
    let mut rig = Rig::new();
    rig.node.cache.capacity = 5;
    rig.node.cache.serves = true;
    rig.command("/localhost/nfd/rib/register", &of("/a"));
    let faces = FaceStatus::parse_dataset(&rig.dataset("/localhost/nfd/faces/list")).unwrap();
    assert_eq!(faces, rig.node.faces.values().cloned().collect::<Vec<_>>());
    let channels = rig.dataset("/localhost/nfd/faces/channels");
    let channels = ChannelStatus::parse_dataset(&channels).unwrap();
    assert_eq!(channels[1].local_uri, "unix:///run/nfd/nfd.sock");
    let choices = rig.dataset("/localhost/nfd/strategy-choice/list");
    let choices = StrategyChoice::parse_dataset(&choices).unwrap();
    assert_eq!((choices.len(), &choices[0].name), (1, &name("/")));
    assert_eq!(choices[0].strategy.name, name("/localhost/nfd/strategy/best-route/v=5"));
    let cache = CsInfo::parse(&rig.dataset("/localhost/nfd/cs/info")).unwrap();
    assert_eq!((cache.capacity, cache.flags), (5, 2));
    let status = rig.dataset("/localhost/nfd/status/general");
    let status = GeneralStatus::parse_fields(&status).unwrap();
    assert_eq!((status.version.as_str(), status.in_interests), ("plexus-test", 17));
    assert_eq!((status.fib_entries, status.now_ms), (1, rig.unix_ms));
}

fn query(rig: &mut Rig, filter: &FaceQueryFilter) -> Vec<u64> {
    let name = name("/localhost/nfd/faces/query").with(filter.to_bytes());
    let found = rig.dataset(&name.to_string());
    FaceStatus::parse_dataset(&found).unwrap().iter().map(|f| f.face_id).collect()
}

#[test]
fn faces_are_found_by_all_that_is_said() {
    let mut rig = Rig::new();
    let all = FaceQueryFilter::default();
    let (app, other, neighbour) = (256, 257, 258);
    assert_eq!(query(&mut rig, &all), [app, other, neighbour]);
    let scope = FaceQueryFilter { scope: Some(face_scope::LOCAL), ..all.clone() };
    assert_eq!(query(&mut rig, &scope), [app, other]);
    let uri = FaceQueryFilter { uri: Some("fd://31".into()), ..scope };
    assert_eq!(query(&mut rig, &uri), [other]);
    let scheme = FaceQueryFilter { uri_scheme: Some("fd".into()), ..all.clone() };
    assert_eq!(query(&mut rig, &scheme), [app, other]);
    let scheme = FaceQueryFilter { uri_scheme: Some("udp".into()), ..all.clone() };
    assert_eq!(query(&mut rig, &scheme), [], "udp4 is another");
    let id = FaceQueryFilter { face_id: Some(neighbour), ..all.clone() };
    assert_eq!(query(&mut rig, &id), [neighbour]);
    for none in [
        FaceQueryFilter { persistency: Some(2), ..all.clone() },
        FaceQueryFilter { link_type: Some(1), ..all.clone() },
        FaceQueryFilter { local_uri: Some("udp4://192.0.2.254".into()), ..all },
    ] {
        assert_eq!(query(&mut rig, &none), []);
    }
    let told = rig.ask("/localhost/nfd/faces/query/%01%02");
    let data = Data::new_checked(&told[0]).unwrap();
    let response = ControlResponse::parse(data.content()).unwrap();
    assert_eq!((response.code, response.text.as_str()), (400, "Malformed filter"));
    assert_eq!(data.content_type(), ContentType::NACK);
}

/// Routes whose list takes some forty segments.
fn many(rig: &mut Rig) {
    for i in 0..8000 {
        rig.add(&format!("/prefix/of/some/length/{i}"), route(APP, 0, i, 0));
    }
}

#[test]
fn a_long_list_comes_in_segments_of_one_version() {
    let mut rig = Rig::new();
    many(&mut rig);
    let first = rig.ask("/localhost/nfd/rib/list").remove(0);
    let data = Data::new_checked(&first).unwrap();
    let last = data.meta().final_block.unwrap().number(types::SEGMENT).unwrap();
    assert!(last > 40, "{last}");
    assert_eq!((data.freshness(), data.content().len()), (Duration::from_secs(1), 8000));
    assert!(first.len() <= PACKET_LEN_MAX);
    let version = data.name().get(4).unwrap().number(types::VERSION).unwrap();
    assert_eq!(version, rig.unix_ms * 1000, "microseconds, as ndn-cxx and ndnd have it");
    // Later changes do not show in it.
    rig.command("/localhost/nfd/rib/register", &of("/another"));
    rig.pass(60_000);
    let rib = RibEntry::parse_dataset(&rig.rest(&first)).unwrap();
    assert_eq!(rib.len(), 8000);
    let behind = data.name().prefix(5).to_buf().with_number(types::SEGMENT, last + 1);
    assert!(rig.ask(&behind.to_string()).is_empty());
    let rib = RibEntry::parse_dataset(&rig.dataset("/localhost/nfd/rib/list")).unwrap();
    assert_eq!(rib.len(), 8001);
}

#[test]
fn versions_differ_when_contents_do() {
    let mut rig = Rig::new();
    let version = |rig: &mut Rig| {
        let packet = rig.ask("/localhost/nfd/rib/list").remove(0);
        Data::new_checked(&packet).unwrap().name().get(4).unwrap().number(54).unwrap()
    };
    let first = version(&mut rig);
    assert_eq!(version(&mut rig), first, "nothing has changed in less than a second");
    // Within the same millisecond.
    let packet = command("/localhost/nfd/rib/register", &of("/a"), &Client::at(rig.unix_ms));
    rig.respond(APP, &packet);
    let second = version(&mut rig);
    assert!(second > first);
    rig.pass(1000);
    assert!(version(&mut rig) > second, "counters may have changed");
}

/// A signed Interest for a dataset, as pynfdc sends.
pub(crate) fn signed(rig: &Rig, prefix: &str) -> Vec<u8> {
    let name = name(prefix);
    let repr = interest::Repr {
        can_be_prefix: true,
        must_be_fresh: true,
        ..interest::Repr::new(name.as_name())
    };
    repr.with_parameters(&[], Some(&Client::at(rig.unix_ms)), sha256).unwrap()
}

#[test]
fn signed_interests_are_answered_under_their_own_names() {
    let mut rig = Rig::new();
    many(&mut rig);
    let asked = signed(&rig, "/localhost/nfd/rib/list");
    let answers = rig.interest(APP, &asked);
    let first = rig.wait(answers).remove(0);
    let data = Data::new_checked(&first).unwrap();
    assert_eq!(u32::from(data.name().get(4).unwrap().kind), types::PARAMETERS_SHA256_DIGEST);
    let rib = rig.rest(&first);
    assert_eq!(rib, rig.dataset("/localhost/nfd/rib/list"));
    let mut forged = asked;
    *forged.last_mut().unwrap() ^= 1;
    assert!(rig.interest(APP, &forged).is_empty(), "the digest in the name is another");
}

#[test]
fn datasets_are_kept_up_to_a_bound() {
    let limits = ManagementLimits { datasets: 2, dataset_bytes: 100_000, ..Default::default() };
    let mut rig = Rig::limited(limits);
    many(&mut rig);
    let long = rig.ask("/localhost/nfd/rib/list").remove(0);
    rig.rest(&long);
    let second = |packet: &[u8]| {
        let data = Data::new_checked(packet).unwrap();
        data.name().prefix(5).to_buf().with_number(types::SEGMENT, 1).to_string()
    };
    assert_eq!(rig.ask(&second(&long)).len(), 1, "the newest is kept whatever it takes");
    let others = ["cs/info", "status/general", "faces/list", "strategy-choice/list"];
    for other in others.iter().cycle().take(20) {
        rig.ask(&format!("/localhost/nfd/{other}"));
        rig.pass(1000);
        assert_eq!(rig.ask(&second(&long)).len(), 1, "whatever else is asked for");
    }
    // The previous version can still be fetched to its end, but only one.
    let newer = |rig: &mut Rig| {
        rig.command("/localhost/nfd/rib/register", &of("/more"));
        rig.ask("/localhost/nfd/rib/list").remove(0)
    };
    let next = newer(&mut rig);
    rig.pass(1);
    assert_eq!(rig.ask(&second(&long)).len(), 1);
    let last = newer(&mut rig);
    rig.rest(&last);
    let kept = [&long, &next, &last].map(|packet| rig.ask(&second(packet)).len());
    assert_eq!(kept.iter().sum::<usize>(), 2, "{kept:?}");
    assert_eq!((kept[0], kept[2]), (1, 1), "the one being fetched, and the newest");
    rig.pass(4000);
    let newest = newer(&mut rig);
    assert!(rig.ask(&second(&long)).is_empty(), "no client went on fetching");
    rig.pass(60_000);
    rig.ask("/localhost/nfd/cs/info");
    assert!(rig.ask(&second(&newest)).is_empty(), "no client requests it any more");
}

#[test]
fn interests_for_unknown_datasets_are_dropped() {
    let mut rig = Rig::new();
    for text in [
        "/localhost/nfd/rib/list/v=1",
        "/localhost/nfd/rib/list/v=1/seg=0",
        "/localhost/nfd/rib/list/seg=0",
        "/localhost/nfd/rib/list/32=metadata",
        "/localhost/nfd/rib/list/x",
        "/localhost/nfd/faces/query",
        "/localhost/nfd/rib",
        "/localhost/other/rib/list",
        "/localhop/nfd/rib/list",
    ] {
        assert!(rig.ask(text).is_empty(), "{text}");
    }
    let name = name("/localhost/nfd/rib/list");
    let packet = interest::Repr::new(name.as_name()).to_bytes().unwrap();
    assert!(rig.interest(APP, &packet).is_empty(), "the answer's name is longer");
    let long = format!("/localhost/nfd/faces/query/{}", "x".repeat(8000));
    assert!(rig.ask(&long).len() <= 1);
    assert_eq!(rig.management.counters().dropped, 10);
}
