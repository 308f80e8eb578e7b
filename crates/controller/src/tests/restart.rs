use plexus_config::RoutePolicy;
use plexus_wire::fabric::message::{Body, ControllerHello, Welcome};

use super::net::{HOST_PORT, Net, ip, mac};
use crate::{Config, Drop};

fn net() -> Net {
    let config = Config { policy: RoutePolicy::Ecmp, ..Config::default() };
    let ring = [(0, 1), (1, 2), (2, 3), (3, 0)];
    let mut net = Net::joined(config, 4, &ring).with_hosts();
    for (a, b) in [(1, 2), (1, 3), (2, 4), (3, 4)] {
        net.resolve(a, b);
    }
    net
}

fn memories(net: &Net) -> String {
    format!("{:?}", net.nodes.values().map(|n| &n.memory).collect::<Vec<_>>())
}

fn welcomes(net: &mut Net) -> Vec<(u64, Welcome)> {
    net.taken(|b| if let Body::Welcome(w) = b { Some(w.clone()) } else { None })
}

#[test]
fn a_node_that_has_only_made_new_keys_changes_nothing() {
    let mut net = net().restart(true);
    net.wait_s(4);
    let before = (memories(&net), net.controller.flows().collect::<Vec<_>>());
    net.told.clear();
    net.updates.clear();
    // With its new keys it reports its ports again.
    net.hello(2);
    let told = welcomes(&mut net);
    assert!(!told.is_empty() && told.iter().all(|(node, w)| *node == 2 && !w.report));
    assert!(net.told.is_empty() && net.updates.is_empty(), "{:?}", net.told);
    assert_eq!((memories(&net), net.controller.flows().collect::<Vec<_>>()), before);
}

#[test]
fn changes_without_a_controller_are_repaired() {
    let mut net = net();
    // Silently: the Hellos are lost.
    let (peer, peer_port) = net.nodes[&1].cables[&1];
    net.cut.extend([(1, 1), (peer, peer_port)]);
    // Host 4 is gone, and its node has ended its flows.
    net.hosts.retain(|h| h.mac != mac(4));
    net.nodes.get_mut(&4).unwrap().memory.clear();
    let mut net = net.restart(true);
    net.wait_s(4);
    for (a, b) in [(1, 2), (1, 3)] {
        assert!(net.delivers(a, b) && net.delivers(b, a), "{a} {b}");
    }
    let to_4 = net.nodes.values().flat_map(|n| n.memory.keys()).filter(|k| k.2 == mac(4)).count();
    assert_eq!(to_4, 0, "routes to an unknown host end");
}

#[test]
fn a_controller_asks_for_reports_until_it_has_them() {
    let mut net = net().restart(false);
    assert!(welcomes(&mut net).iter().all(|(_, w)| w.report && w.epoch == 2));
    let mut net = net.restart(true);
    welcomes(&mut net);
    net.wait_s(1);
    let told = welcomes(&mut net);
    assert!(told.len() >= 4 && told.iter().all(|(_, w)| !w.report && w.epoch == 3));
    // A restarted node reports again.
    net.revive(2);
    assert!(welcomes(&mut net).iter().any(|(id, w)| *id == 2 && w.report));
}

#[test]
fn pages_come_in_any_order_and_number() {
    let mut net = net();
    welcomes(&mut net);
    let links = net.controller.links();
    let ports = net.controller.nodes().find(|n| n.node == 2).unwrap().ports;
    assert_eq!(ports.len(), 3);
    let page = |generation, page, pages| ControllerHello {
        generation,
        page,
        pages,
        ports: vec![ports[usize::from(page)].clone()],
    };
    for hello in [page(90, 2, 3), page(90, 2, 3), page(90, 0, 3)] {
        net.say(2, hello);
    }
    // A page of an older state, of no state, of a state of another size.
    for hello in [page(89, 1, 3), page(90, 2, 2), page(91, 1, 65), page(90, 1, 0)] {
        net.say(2, hello);
    }
    assert_eq!(net.controller.drops().collect::<Vec<_>>(), [(Drop::BadPage, 4)]);
    net.say(2, page(90, 1, 3));
    assert_eq!(net.controller.links(), links);
    let answered: Vec<(u64, u16)> =
        welcomes(&mut net).iter().map(|(_, w)| (w.generation, w.page)).collect();
    assert_eq!(answered, [(90, 2), (90, 2), (90, 0), (90, 1)]);
    // Without its fabric ports a node has no links.
    net.say(2, ControllerHello { generation: 91, page: 0, pages: 1, ports: vec![] });
    assert_eq!(net.controller.links().len(), 2);
    // A restarted node counts from the beginning.
    net.revive(2);
    net.wait_ms(10);
    assert_eq!(net.controller.links(), links);
}

#[test]
fn a_station_reported_by_two_nodes_is_asked_for() {
    let mut net = net();
    // Both nodes remember host 1; it is at node 3 now, and answers only there.
    let mut twin = net.host(1).clone();
    twin.at = (3, HOST_PORT);
    net.hosts.push(twin);
    net.host(1).answers = false;
    let mut net = net.restart(true);
    net.wait_s(1);
    let place = net.controller.hosts().find(|h| h.mac == mac(1)).map(|h| (h.node, h.port));
    assert_eq!(place, Some((3, HOST_PORT)));
    assert_eq!(net.controller.hosts().find(|h| h.mac == mac(1)).unwrap().ips, [ip(1)]);
}
