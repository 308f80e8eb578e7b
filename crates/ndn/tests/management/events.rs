//! Notifications of faces.

use plexus_wire::ndn::nfd::{FaceEventNotification, Record, face_event, face_scope};
use plexus_wire::ndn::{Data, types};

use crate::node::*;

const STREAM: &str = "/localhost/nfd/faces/events";

fn read(packet: &[u8]) -> (u64, FaceEventNotification) {
    let data = Data::new_checked(packet).unwrap();
    let number = data.name().last().unwrap().number(types::SEQUENCE_NUM).unwrap();
    (number, FaceEventNotification::parse(data.content()).unwrap())
}

#[test]
fn waiting_clients_are_notified_of_faces() {
    let mut rig = Rig::new();
    rig.pass(5000);
    assert!(rig.answers.is_empty(), "no client waited for the first");
    assert!(rig.ask(STREAM).is_empty(), "the last one is stale by now");
    rig.face_up(face(face_id(9), "udp4://192.0.2.9:6363", face_scope::NON_LOCAL));
    let (number, event) = read(&rig.answers.pop().unwrap());
    assert_eq!((number, event.kind), (3, face_event::CREATED));
    assert_eq!((event.face_id, event.uri.as_str()), (265, "udp4://192.0.2.9:6363"));
    rig.face_up(face(face_id(9), "udp4://192.0.2.9:6363", face_scope::NON_LOCAL));
    assert!(rig.answers.is_empty(), "it exists already, and no client waits");

    assert!(rig.ask("/localhost/nfd/faces/events/seq=4").is_empty());
    rig.face_down(face_id(9));
    let (number, event) = read(&rig.answers.pop().unwrap());
    assert_eq!((number, event.kind, event.face_id), (4, face_event::DESTROYED, 265));
}

#[test]
fn a_connection_that_is_lost_and_comes_back_is_told() {
    let mut rig = Rig::new();
    rig.pass(5000);
    for (number, is_up, kind) in [(3, false, face_event::DOWN), (4, true, face_event::UP)] {
        assert!(rig.ask(&format!("{STREAM}/seq={number}")).is_empty());
        rig.face_link(face_id(NEIGHBOUR), is_up);
        let (told, event) = read(&rig.answers.pop().unwrap());
        assert_eq!((told, event.kind), (number, kind));
        assert_eq!(event.uri, "udp4://192.0.2.2:6363");
    }
    assert!(rig.ask(&format!("{STREAM}/seq=5")).is_empty());
    rig.face_link(face_id(9), true);
    assert!(rig.answers.is_empty(), "there is no such face");
}

#[test]
fn past_notifications_are_kept_for_a_while() {
    let mut rig = Rig::new();
    let (number, event) = read(&rig.ask(STREAM)[0]);
    assert_eq!((number, event.uri.as_str()), (2, "udp4://192.0.2.2:6363"), "the newest");
    let (number, event) = read(&rig.ask("/localhost/nfd/faces/events/seq=0")[0]);
    assert_eq!((number, event.scope), (0, face_scope::LOCAL));
    for _ in 0..40 {
        rig.face_up(face(face_id(9), "udp4://192.0.2.9:6363", face_scope::NON_LOCAL));
        rig.face_down(face_id(9));
    }
    assert!(rig.ask("/localhost/nfd/faces/events/seq=0").is_empty(), "64 are kept");
    assert_eq!(read(&rig.ask("/localhost/nfd/faces/events/seq=19")[0]).0, 19);
    assert!(rig.ask("/localhost/nfd/faces/events/seq=84").is_empty(), "not the next number");
    rig.answers.clear();
    rig.face_down(face_id(APP));
    assert!(rig.answers.is_empty(), "what is not the next one was not waited for");
}

#[test]
fn expired_interests_are_not_notified() {
    let mut rig = Rig::new();
    rig.pass(1500);
    assert!(rig.ask(STREAM).is_empty());
    rig.pass(4001);
    rig.face_down(face_id(OTHER));
    assert!(rig.answers.is_empty(), "the Interest has ended after four seconds");
}
