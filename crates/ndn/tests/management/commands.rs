//! Every command: its answer, and its effect on the node.

use plexus_ndn::management::ManagementLimits;
use plexus_ndn::strategy::StrategyError;
use plexus_wire::ndn::nfd::{
    ControlParameters, ControlResponse, Record, Strategy, origin, route_flags,
};
use plexus_wire::ndn::{Data, NameBuf};

use crate::node::*;

#[test]
fn register_and_unregister_a_route() {
    let mut rig = Rig::new();
    let done = rig.command("/localhost/nfd/rib/register", &of("/a/b"));
    assert_eq!((done.code, done.text.as_str()), (200, "OK"));
    let defaults = ControlParameters {
        face_id: Some(face_id(APP).number()),
        origin: Some(origin::APP),
        cost: Some(0),
        flags: Some(route_flags::CHILD_INHERIT),
        ..of("/a/b")
    };
    assert_eq!(done.parameters, Some(defaults), "what was not said is NFD's default");
    assert_eq!(rig.hops("/a/b"), [(0, face_id(APP))]);

    let said = ControlParameters {
        face_id: Some(face_id(NEIGHBOUR).number()),
        origin: Some(origin::STATIC),
        cost: Some(9),
        flags: Some(0),
        ..of("/a/b")
    };
    let done = rig.command("/localhost/nfd/rib/register", &said);
    assert_eq!(done.parameters, Some(said));
    assert_eq!(rig.hops("/a/b"), [(0, face_id(APP)), (9, face_id(NEIGHBOUR))]);

    let asked = ControlParameters { face_id: Some(0), ..of("/a/b") };
    let done = rig.command("/localhost/nfd/rib/unregister", &asked);
    let expected = ControlParameters {
        face_id: Some(face_id(APP).number()),
        origin: Some(origin::APP),
        ..of("/a/b")
    };
    assert_eq!((done.code, done.parameters), (200, Some(expected)));
    assert_eq!(rig.hops("/a/b"), [(9, face_id(NEIGHBOUR))]);
    let done = rig.command("/localhost/nfd/rib/unregister", &asked);
    assert_eq!(done.code, 200, "what is not there is gone, as with NFD");
}

#[test]
fn a_route_ends_when_it_said() {
    let mut rig = Rig::new();
    let asked = ControlParameters { expiration_ms: Some(5000), ..of("/a") };
    let done = rig.command("/localhost/nfd/rib/register", &asked);
    assert_eq!(done.parameters.unwrap().expiration_ms, Some(5000));
    let end = rig.management.next_deadline().unwrap();
    rig.pass(4000);
    // Registered again, its lifetime restarts.
    rig.command("/localhost/nfd/rib/register", &asked);
    rig.now = end;
    rig.management.tick(rig.now, &mut rig.node);
    assert_eq!(rig.hops("/a").len(), 1);
    rig.now = rig.management.next_deadline().unwrap();
    rig.management.tick(rig.now, &mut rig.node);
    assert_eq!((rig.hops("/a").len(), rig.management.next_deadline()), (0, None));

    let forever = ControlParameters { expiration_ms: Some(u64::MAX), ..of("/a") };
    rig.command("/localhost/nfd/rib/register", &forever);
    assert_eq!(rig.management.next_deadline(), None);
}

#[test]
fn routes_go_with_their_face() {
    let mut rig = Rig::new();
    rig.command_from(APP, "/localhost/nfd/rib/register", &of("/a"));
    rig.command_from(OTHER, "/localhost/nfd/rib/register", &of("/a"));
    rig.command_from(APP, "/localhost/nfd/rib/register", &of("/a/b"));
    rig.command_from(APP, "/localhost/nfd/fib/add-nexthop", &of("/c"));
    rig.face_down(face_id(APP));
    assert_eq!(rig.hops("/a"), [(0, face_id(OTHER))]);
    assert_eq!(rig.node.fib.len(), 1);
    assert_eq!(rig.management.rib().len(), 1);
}

#[test]
fn refused_registrations_are_explained() {
    let mut rig = Rig::new();
    let gone = ControlParameters { face_id: Some(face_id(77).number()), ..of("/a") };
    let told = rig.command("/localhost/nfd/rib/register", &gone);
    assert_eq!((told.code, told.text.as_str()), (410, "Face not found"));
    assert_eq!(told.parameters, Some(ControlParameters::default()), "python-ndn looks there");
    let told = rig.command("/localhost/nfd/rib/register", &of(&"/a".repeat(33)));
    assert_eq!((told.code, told.text.as_str()), (414, "Route prefix cannot exceed 32 components"));
    let told = rig.command("/localhost/nfd/rib/register", &ControlParameters::default());
    assert_eq!((told.code, told.text.as_str()), (400, "failed in validating parameters"));
    rig.node.fib_is_full = true;
    let told = rig.command("/localhost/nfd/rib/register", &of("/a"));
    assert_eq!(told.code, 504);
    assert!(rig.management.rib().is_empty(), "what the FIB does not take is no route");
}

#[test]
fn next_hops_stand_beside_routes() {
    let mut rig = Rig::new();
    let done = rig.command("/localhost/nfd/fib/add-nexthop", &at_cost("/a", 3));
    let expected = ControlParameters { face_id: Some(face_id(APP).number()), ..at_cost("/a", 3) };
    assert_eq!((done.code, done.parameters), (200, Some(expected)));
    rig.command_from(OTHER, "/localhost/nfd/rib/register", &of("/a"));
    assert_eq!(rig.hops("/a"), [(0, face_id(OTHER)), (3, face_id(APP))]);
    let done = rig.command("/localhost/nfd/fib/remove-nexthop", &of("/a"));
    assert_eq!(done.parameters.unwrap().face_id, Some(face_id(APP).number()));
    assert_eq!(rig.hops("/a"), [(0, face_id(OTHER))]);
    let gone = ControlParameters { face_id: Some(face_id(77).number()), ..of("/a") };
    assert_eq!(rig.command("/localhost/nfd/fib/add-nexthop", &gone).code, 410);
    assert_eq!(rig.command("/localhost/nfd/fib/remove-nexthop", &gone).code, 200);
}

fn to(uri: &str) -> ControlParameters {
    ControlParameters { uri: Some(uri.into()), ..ControlParameters::default() }
}

#[test]
fn create_update_and_destroy_a_face() {
    let mut rig = Rig::new();
    let asked = ControlParameters {
        persistency: Some(2),
        mtu: Some(1400),
        flags: Some(2),
        mask: Some(2),
        ..to("udp4://192.0.2.9:6363")
    };
    let done = rig.command("/localhost/nfd/faces/create", &asked);
    let made = done.parameters.unwrap();
    assert_eq!((done.code, made.persistency, made.flags), (200, Some(2), Some(2)));
    assert_eq!((made.mtu, made.uri.clone()), (None, asked.uri.clone()), "for all to read");
    assert!(made.local_uri.is_some());
    let again = rig.command("/localhost/nfd/faces/create", &asked);
    assert_eq!((again.code, again.parameters.unwrap().face_id), (409, made.face_id));
    let again = rig.command("/localhost/nfd/faces/create", &to("udp://192.0.2.9"));
    assert_eq!(again.code, 409, "the same in another form, as ndnd takes it");

    let id = plexus_ndn::face::FaceId::from_number(made.face_id.unwrap()).unwrap();
    rig.face_up(rig.node.faces[&id].clone());
    let change = ControlParameters {
        face_id: made.face_id,
        persistency: Some(0),
        flags: Some(0),
        mask: Some(2),
        ..ControlParameters::default()
    };
    let done = rig.command("/localhost/nfd/faces/update", &change);
    let now = done.parameters.unwrap();
    assert_eq!((done.code, now.persistency, now.flags), (200, Some(0), Some(0)));
    let local = ControlParameters { flags: Some(1), mask: Some(1), ..change.clone() };
    let told = rig.command("/localhost/nfd/faces/update", &local);
    assert_eq!((told.code, told.text.as_str()), (409, "Invalid properties specified"));
    assert_eq!(told.parameters.unwrap().flags, Some(1), "what cannot be is named");
    let own = ControlParameters { face_id: None, ..local };
    let done = rig.command("/localhost/nfd/faces/update", &own);
    assert_eq!((done.code, done.parameters.unwrap().face_id), (200, Some(face_id(APP).number())));

    let gone = ControlParameters { face_id: made.face_id, ..ControlParameters::default() };
    let done = rig.command("/localhost/nfd/faces/destroy", &gone);
    assert_eq!((done.code, done.parameters), (200, Some(gone.clone())));
    assert_eq!(rig.node.destroyed, [id]);
    assert_eq!(rig.command("/localhost/nfd/faces/destroy", &gone).code, 200);
    rig.face_down(id);
    assert_eq!(rig.command("/localhost/nfd/faces/update", &change).code, 404);
}

#[test]
fn faces_that_cannot_be_made_are_told() {
    let mut rig = Rig::new();
    let mut code = |asked: ControlParameters| {
        let told = rig.command("/localhost/nfd/faces/create", &asked);
        (told.code, told.text)
    };
    let explained = (400, "'no uri' has no scheme, such as udp4://".into());
    assert_eq!(code(to("no uri")), explained);
    // ndnd's example, which its own forwarder resolves. NFD's clients resolve names themselves.
    let (number, text) = code(to("udp://suns.cs.ucla.edu"));
    assert!(number == 400 && text.contains("not looked up, write the address"), "{text}");
    let (number, text) = code(to(&format!("udp://{}", "é".repeat(3000))));
    assert_eq!((number, text.chars().count()), (400, 256), "as much as fits into an answer");
    let local = ControlParameters {
        local_uri: Some("dev://eth0/".into()),
        ..to("ether://[08:00:27:01:01:01]")
    };
    assert_eq!(code(local), (400, "'eth0/' is no name of a device".into()));
    assert_eq!(code(to("fd://7")), (406, "Unsupported protocol".into()));
    assert_eq!(code(to("tcp4://192.0.2.9:6363")), (504, "No channels available".into()));
    assert_eq!(code(ControlParameters::default()).0, 400);
    let flags = ControlParameters { flags: Some(1), ..to("udp4://192.0.2.9:6363") };
    assert_eq!(code(flags).0, 400, "flags without a mask");
    let stays = ControlParameters { persistency: Some(3), ..to("udp4://192.0.2.9:6363") };
    assert_eq!(code(stays).0, 400);
}

#[test]
fn a_connecting_face_is_answered_when_it_succeeds_or_fails() {
    let mut rig = Rig::new();
    let order = |rig: &mut Rig, port: u16| {
        let uri = format!("tcp4://192.0.2.9:{port}");
        let asked = ControlParameters { persistency: Some(2), ..to(&uri) };
        rig.node.connects = true;
        let packet = rig.signed("/localhost/nfd/faces/create", &asked);
        assert_eq!(rig.interest(APP, &packet), Vec::<Vec<u8>>::new(), "not yet");
        assert!(rig.management.next_deadline().is_some());
        rig.node.connecting.unwrap()
    };
    let face = order(&mut rig, 1);
    rig.pass(7999);
    assert!(rig.connections().is_empty());
    rig.node.connecting = None;
    let told = rig.connections();
    let made = told[0].parameters.clone().unwrap();
    assert_eq!((told.len(), told[0].code, made.persistency), (1, 200, Some(2)));
    assert_eq!(made.face_id, Some(face.number()));
    assert!(rig.connections().is_empty() && rig.management.next_deadline().is_none());

    let face = order(&mut rig, 2);
    rig.node.connecting = None;
    rig.answers.clear();
    rig.face_down(face);
    let told = ControlResponse::parse(Data::new_checked(&rig.answers[0]).unwrap().content());
    let told = told.unwrap();
    assert_eq!((told.code, told.text.as_str()), (504, "Connection failed: refused"));
    assert!(rig.connections().is_empty());

    let face = order(&mut rig, 3);
    rig.pass(8000);
    let told = rig.connections();
    assert_eq!((told[0].code, told[0].text.as_str()), (504, "Connection timed out"));
    assert_eq!(rig.node.destroyed, [face]);
    let counters = rig.management.counters();
    assert_eq!((counters.done, counters.failed), (1, 2));
}

#[test]
fn choose_and_unset_a_strategy() {
    let mut rig = Rig::new();
    let strategy = |text: &str| Some(Strategy { name: name(text) });
    let asked =
        ControlParameters { strategy: strategy("/localhost/nfd/strategy/multicast"), ..of("/a") };
    let done = rig.command("/localhost/nfd/strategy-choice/set", &asked);
    let full = name("/localhost/nfd/strategy/multicast/v=5");
    assert_eq!(done.parameters.unwrap().strategy, Some(Strategy { name: full.clone() }));
    assert_eq!(rig.node.strategies[&name("/a")], full);
    for (text, code) in [
        ("/localhost/nfd/strategy/none", 404),
        ("/localhost/nfd/strategy/multicast/v=99", 404),
        ("/localhost/nfd/strategy/multicast/v=5/x~1", 409),
    ] {
        let asked = ControlParameters { strategy: strategy(text), ..of("/a") };
        assert_eq!(rig.command("/localhost/nfd/strategy-choice/set", &asked).code, code, "{text}");
    }
    assert_eq!(rig.command("/localhost/nfd/strategy-choice/set", &of("/a")).code, 400);
    assert_eq!(rig.command("/localhost/nfd/strategy-choice/unset", &of("/")).code, 400);
    assert_eq!(rig.command("/localhost/nfd/strategy-choice/unset", &of("/a")).code, 200);
    assert_eq!(rig.command("/localhost/nfd/strategy-choice/unset", &of("/a")).code, 200);
    assert!(rig.node.strategies.is_empty());
}

#[test]
fn strategies_are_bounded_and_those_there_are_can_change() {
    let mut rig = Rig::new();
    let [asf, random] =
        ["asf", "random"].map(|text| name(&format!("/localhost/nfd/strategy/{text}")));
    let mut set = |prefix: usize, strategy: &NameBuf| {
        let prefix = name(&format!("/{prefix}"));
        rig.management.set_strategy(prefix.as_name(), strategy.as_name(), &mut rig.node).map(drop)
    };
    // One of them is that of "/".
    let most = ManagementLimits::default().strategies - 1;
    assert!((0..most).all(|i| set(i, &asf).is_ok()));
    assert_eq!(set(most, &asf), Err(StrategyError::Full(most + 1)));
    assert_eq!(set(0, &random), Ok(()));
    rig.management.unset_strategy(name("/1").as_name(), &mut rig.node).unwrap();
    assert_eq!(rig.node.strategies.len(), most - 1);
    let strategy = Some(Strategy { name: asf });
    for (prefix, code) in [("/a", 200), ("/b", 504)] {
        let asked = ControlParameters { strategy: strategy.clone(), ..of(prefix) };
        assert_eq!(rig.command("/localhost/nfd/strategy-choice/set", &asked).code, code);
    }
}

#[test]
fn configure_and_erase_the_content_store() {
    let mut rig = Rig::new();
    let asked = ControlParameters {
        capacity: Some(100),
        flags: Some(1),
        mask: Some(3),
        ..ControlParameters::default()
    };
    let done = rig.command("/localhost/nfd/cs/config", &asked).parameters.unwrap();
    assert_eq!((done.capacity, done.flags), (Some(100), Some(1)));
    assert!(rig.node.cache.admits && !rig.node.cache.serves);
    let done = rig.command("/localhost/nfd/cs/config", &ControlParameters::default());
    assert_eq!(done.parameters.unwrap().capacity, Some(100), "nothing said, nothing changed");

    rig.node.stored = (0..300).map(|i| name(&format!("/a/{i}"))).collect();
    rig.node.stored.push(name("/b"));
    let done = rig.command("/localhost/nfd/cs/erase", &of("/a")).parameters.unwrap();
    assert_eq!((done.count, done.capacity), (Some(256), Some(256)), "ask again");
    let two = ControlParameters { count: Some(2), ..of("/a") };
    let done = rig.command("/localhost/nfd/cs/erase", &two).parameters.unwrap();
    assert_eq!((done.count, done.capacity), (Some(2), None));
    let done = rig.command("/localhost/nfd/cs/erase", &of("/a")).parameters.unwrap();
    assert_eq!((done.count, done.capacity), (Some(42), None));
    assert_eq!(rig.node.stored, [name("/b")]);
    let none = ControlParameters { count: Some(0), ..of("/a") };
    assert_eq!(rig.command("/localhost/nfd/cs/erase", &none).code, 400);
}

#[test]
fn unknown_commands_get_501() {
    let mut rig = Rig::new();
    for verb in ["/localhost/nfd/rib/forget", "/localhost/nfd/moon/list"] {
        let told = rig.command(verb, &of("/a"));
        assert_eq!((told.code, told.text.as_str()), (501, "Unknown command"));
    }
    assert_eq!(rig.management.counters().unknown, 2);
}
