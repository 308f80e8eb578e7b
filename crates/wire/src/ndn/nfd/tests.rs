use proptest::collection::vec;
use proptest::prelude::{any, prop_assert_eq, proptest};

use super::*;
use crate::ndn::Interest;
use crate::ndn::vectors::{self, REGISTER, hex};

fn name(uri: &str) -> NameBuf {
    uri.parse().unwrap()
}

/// Parses python-ndn's output; our own output parses the same.
#[track_caller]
fn check<R: Record + PartialEq + fmt::Debug>(text: &str, expected: &R) {
    let bytes = hex(text);
    assert_eq!(R::parse_dataset(&bytes).as_deref(), Ok(std::slice::from_ref(expected)));
    let ours = expected.to_bytes();
    assert_eq!(ours, bytes);
    assert_eq!(R::parse(&ours).as_ref(), Ok(expected));
    for len in 0..bytes.len() {
        assert!(R::parse(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn commands_and_their_answers_are_those_of_python_ndn() {
    let parameters = ControlParameters {
        name: Some(name("/my/app")),
        face_id: Some(262),
        uri: Some("udp4://192.0.2.1:6363".into()),
        local_uri: Some("udp4://192.0.2.2:6363".into()),
        origin: Some(origin::STATIC),
        cost: Some(10),
        capacity: Some(65536),
        count: Some(3),
        flags: Some(face_flags::LOCAL_FIELDS | face_flags::CONGESTION_MARKING),
        mask: Some(7),
        strategy: Some(Strategy { name: name("/localhost/nfd/strategy/best-route/v=5") }),
        expiration_ms: Some(3_600_000),
        persistency: Some(persistency::PERMANENT),
        congestion_interval_ns: Some(100_000_000),
        congestion_threshold: Some(65536),
        mtu: Some(1400),
    };
    check(vectors::CONTROL_PARAMETERS, &parameters);

    let parameters = ControlParameters {
        name: Some(name("/my/app")),
        face_id: Some(262),
        origin: Some(origin::APP),
        cost: Some(10),
        flags: Some(route_flags::CHILD_INHERIT),
        ..ControlParameters::default()
    };
    let response = ControlResponse {
        code: status::OK,
        text: "OK".into(),
        parameters: Some(parameters.clone()),
    };
    check(vectors::CONTROL_RESPONSE, &response);
    assert_eq!(response.to_string(), "200 OK");

    let bytes = hex(REGISTER);
    let interest = Interest::new_checked(&bytes).unwrap();
    assert!(name("/localhost/nfd/rib/register").as_name().is_prefix_of(&interest.name()));
    let asked = ControlParameters::of_command(&interest.name(), 4);
    let expiration_ms = Some(3_600_000);
    assert_eq!(asked, Ok(ControlParameters { face_id: None, expiration_ms, ..parameters }));
    for index in [3, 5, 6] {
        assert!(ControlParameters::of_command(&interest.name(), index).is_err());
    }
}

#[test]
fn datasets_are_those_of_python_ndn() {
    let face = FaceStatus {
        face_id: 262,
        uri: "tcp4://192.0.2.1:6363".into(),
        local_uri: "tcp4://192.0.2.2:4000".into(),
        expiration_ms: Some(600),
        scope: face_scope::NON_LOCAL,
        persistency: persistency::PERSISTENT,
        link_type: link_type::POINT_TO_POINT,
        congestion_interval_ns: Some(1),
        congestion_threshold: Some(2),
        mtu: Some(8800),
        in_interests: 1,
        in_data: 2,
        in_nacks: 3,
        out_interests: 4,
        out_data: 5,
        out_nacks: 6,
        in_bytes: 70000,
        out_bytes: 8,
        flags: face_flags::LOCAL_FIELDS,
    };
    check(vectors::FACE_STATUS, &face);
    let event = FaceEventNotification {
        kind: face_event::CREATED,
        face_id: 263,
        uri: "fd://30".into(),
        local_uri: "unix:///run/nfd/nfd.sock".into(),
        scope: face_scope::LOCAL,
        persistency: persistency::ON_DEMAND,
        link_type: link_type::POINT_TO_POINT,
        flags: 0,
    };
    check(vectors::FACE_EVENT, &event);
    let filter = FaceQueryFilter {
        uri_scheme: Some("udp4".into()),
        scope: Some(face_scope::NON_LOCAL),
        ..FaceQueryFilter::default()
    };
    check(vectors::FACE_QUERY, &filter);
    let hop = |face_id, cost| NextHopRecord { face_id, cost };
    let entry = FibEntry { name: name("/my/app"), next_hops: vec![hop(262, 10), hop(1, 0)] };
    check(vectors::FIB, &entry);
    let route = Route {
        face_id: 262,
        origin: origin::APP,
        cost: 10,
        flags: route_flags::CHILD_INHERIT,
        expiration_ms: Some(3_600_000),
    };
    check(vectors::RIB, &RibEntry { name: name("/my/app"), routes: vec![route] });
    let strategy = Strategy { name: name("/localhost/nfd/strategy/best-route/v=5") };
    check(vectors::STRATEGY_CHOICE, &StrategyChoice { name: name("/"), strategy });
    let (capacity, flags) = (65536, cs_flags::ADMIT | cs_flags::SERVE);
    check(vectors::CS_INFO, &CsInfo { capacity, flags, entries: 5, hits: 6, misses: 7 });
}

#[test]
fn the_general_status_may_hold_counters_that_we_do_not_know() {
    let bytes = hex(vectors::GENERAL_STATUS);
    let status = GeneralStatus::parse_fields(&bytes).unwrap();
    assert_eq!((&status.version[..], status.start_ms), ("24.07", 1_700_000_000_000));
    assert_eq!((status.name_tree_entries, status.unsatisfied_interests), (1, 13));
    // NFragmentationErrors and NOutOverMtu come after ours.
    assert_eq!(status.fields_to_bytes(), bytes[..bytes.len() - 6]);
}

#[test]
fn missing_and_duplicate_elements_are_refused() {
    let refusal = |text| NextHopRecord::parse(&hex(text)).unwrap_err().to_string();
    assert_eq!(refusal("8103 690101"), "NDN management: bad absence of element 106");
    assert_eq!(refusal("8109 690101 6a0101 690101"), "NDN management: bad repeated element 105");
    assert_eq!(refusal("8109 690101 6a03 010101 00"), "NDN management: bad length of a number 3");
    assert_eq!(refusal("8000"), "NDN management: bad record type 128");
    assert!(NextHopRecord::parse(&hex("8109 690101 7f0101 6a0101")).is_ok());
    let e = ChannelStatus::parse(&hex("8203 8101ff")).unwrap_err();
    assert_eq!(e.to_string(), "NDN management: bad text in element 129");
    assert!(FibEntry::parse(&hex("8003 070108")).is_err());
    let uri = ChannelStatus { local_uri: "udp4://0.0.0.0:6363".into() };
    assert_eq!(ChannelStatus::parse(&uri.to_bytes()), Ok(uri));
}

proptest! {
    #[test]
    fn records_survive_writing(
        text in proptest::option::of(any::<String>()),
        numbers in any::<[Option<u64>; 5]>(),
        parts in vec("[a-z]{1,5}", 0..4),
        routes in vec(any::<[u64; 4]>(), 0..5),
    ) {
        let name = parts.iter().fold(NameBuf::new(), |name, part| name.with(part));
        let [face_id, cost, flags, mask, mtu] = numbers;
        let strategy = face_id.map(|_| Strategy { name: name.clone() });
        let parameters = ControlParameters {
            uri: text, face_id, cost, flags, mask, mtu, strategy, ..Default::default()
        };
        prop_assert_eq!(ControlParameters::parse(&parameters.to_bytes()), Ok(parameters));
        let route = |[face_id, origin, cost, flags]: [u64; 4]| {
            Route { face_id, origin, cost, flags, expiration_ms: mtu }
        };
        let entry = RibEntry { name, routes: routes.into_iter().map(route).collect() };
        let bytes = [entry.to_bytes(), entry.to_bytes()].concat();
        prop_assert_eq!(RibEntry::parse_dataset(&bytes), Ok(vec![entry.clone(), entry]));
    }
}
