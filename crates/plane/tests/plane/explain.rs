//! The steps of an explanation. That it is right, every test on a [`Rig`] checks for the frames
//! that it sends: the same frames leave, and the same drops are counted.

use crate::common::{Plan, Rig, access, frame, mac, tagged, trunk};
use plexus_config::{PortSettings, StormSettings};
use plexus_plane::{DropReason, FabricTables, PortRole, route_along};
use plexus_table::{RouteKey, RouteSet};
use plexus_wire::fabric::message::{Choice, Handed, Limited, Step};

#[test]
fn the_switch_names_vlan_station_and_limit_and_learns_nothing() {
    let storm = StormSettings { unknown_pps: Some(100), ..StormSettings::default() };
    let first = PortSettings { storm, ..access(10) };
    let ports = vec![first, access(10), access(20), trunk(&[(10, 20)], None)];
    let mut rig = Plan { ports, ..Plan::new(4) }.build();
    let vlan = |tagged| Step::Vlan { vlan: 10, tagged };
    let asked = rig.explain(0, &frame(mac(2), mac(1)));
    let limit = Step::Limit { of: Limited::Unknown, most: 100 };
    assert_eq!(asked.steps, [vlan(false), Step::Unknown {}, limit]);
    let ports: Vec<u16> = asked.leaves.iter().map(|(port, _)| *port).collect();
    assert_eq!(ports, [1, 3]);
    assert_eq!(rig.workers[0].pipeline().switch().stations(rig.now).count(), 0);
    rig.send(1, &frame(mac(1), mac(2)));
    let asked = rig.explain(3, &tagged(mac(2), mac(1), 0, 10));
    assert_eq!(asked.steps, [vlan(true), Step::Station { port: 1 }]);
    assert_eq!(asked.leaves, [(1, frame_without_tag())]);
    // The VLAN is not one of the port's.
    let asked = rig.explain(0, &tagged(mac(2), mac(1), 0, 20));
    assert_eq!(asked.dropped, [(0, DropReason::VlanDenied)]);
    let dropped = Step::Dropped { port: 0, reason: b"vlan_denied".to_vec() };
    assert_eq!(asked.steps, [dropped]);
}

/// The frame that leaves when the tag of `tagged(mac(2), mac(1), 0, 10)` is taken off.
fn frame_without_tag() -> Vec<u8> {
    let mut bytes = tagged(mac(2), mac(1), 0, 10);
    bytes.drain(12..16);
    bytes
}

/// A frame of a protocol that is not the fabric's.
fn data(to: plexus_wire::MacAddr, from: plexus_wire::MacAddr) -> Vec<u8> {
    let mut bytes = frame(to, from);
    bytes[12..14].copy_from_slice(&[0x08, 0x09]);
    bytes
}

#[test]
fn the_fabric_names_routes_and_hops_and_is_not_deceived_into_hearing_a_neighbour() {
    let mut tables = FabricTables::new(3, 7).unwrap();
    tables.set_role(0, PortRole::Host);
    for port in [1, 2] {
        tables.set_role(port, PortRole::Fabric(plexus_plane::Encapsulation::Native));
    }
    tables.admit(0, mac(1));
    let routes = [[1, 5], [2, 5]].map(|path| route_along(0, &path).unwrap());
    let key = RouteKey { destination: mac(2), source: None };
    tables.install(0, key, RouteSet::new(routes.to_vec()).unwrap());
    let published = tables.current().clone().publish();
    let mut rig: Rig = Plan { fabric: Some(published.clone()), ..Plan::new(3) }.build();
    let asked = rig.explain(0, &data(mac(2), mac(1)));
    let [Step::FromHost { admitted: true }, Step::Routes { count: 2, chosen, by }, pushed] =
        &asked.steps[..]
    else {
        panic!("{:?}", asked.steps);
    };
    let out = asked.leaves[0].0;
    assert_eq!((*chosen, *by), (Some(out as u8 - 1), Choice::Flow));
    assert_eq!(*pushed, Step::Pushed { hops: vec![5] });
    // To a station without a route, and from one that is not admitted.
    let handed = Step::Handed { to: Handed::Host };
    let asked = rig.explain(0, &data(mac(3), mac(1)));
    let admitted = |admitted| Step::FromHost { admitted };
    assert_eq!(asked.steps, [admitted(true), Step::NoRoutes {}, handed.clone()]);
    let asked = rig.explain(0, &data(mac(2), mac(9)));
    assert_eq!(asked.steps, [admitted(false), handed]);
    // Back to the host: the header is removed, and the neighbour has not been heard.
    let header = route_along(9, &[1, 0]).unwrap().header;
    let back = [&header[..], &data(mac(1), mac(2))].concat();
    let asked = rig.explain(1, &back);
    let hop = Step::Hop { hop: 0, left: 0 };
    assert_eq!(asked.steps, [Step::FromNode {}, hop, Step::Stripped {}]);
    assert_eq!(asked.leaves, [(0, data(mac(1), mac(2)))]);
    assert_eq!(published.load().heard_at(1), plexus_wire::Time::ZERO);
    rig.send(1, &back);
    assert_ne!(published.load().heard_at(1), plexus_wire::Time::ZERO);
}

#[test]
fn a_port_that_does_not_exist_and_a_frame_that_is_none_are_no_harm() {
    let mut rig = Rig::new(2);
    let plan = rig.published.load_full();
    let told = plexus_plane::explain(&plan, 9, &[], |_| Ok(vec![]));
    assert_eq!(told.unwrap_err(), "there is no such port");
    assert!(plexus_plane::explain(&plan, 0, &[], |_| Ok(vec![])).is_err());
    for len in 0..20 {
        let asked = rig.explain(0, &vec![0; len]);
        assert!(asked.leaves.is_empty() && asked.dropped.len() == 1, "{len}: {asked:?}");
    }
}
