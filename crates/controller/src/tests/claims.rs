use plexus_config::{ControllerLimits, ControllerSettings, Subnet};
use plexus_wire::fabric::message::{HostGone, HostProbeReply, HostSeen, Refusal};
use plexus_wire::{MacAddr, Prefix};

use super::net::{HOST_PORT, Net, ip, mac};
use crate::Drop;

const TRIANGLE: [(u32, u32); 3] = [(0, 1), (1, 2), (2, 0)];

fn net() -> Net {
    let prefix = Prefix::new(ip(0), 24).unwrap();
    let subnet = Subnet { gateway: Some(ip(254)), ..Subnet::new(prefix) };
    let limits =
        ControllerLimits { stations_per_port: 4, addresses_per_station: 3, ..Default::default() };
    let config = ControllerSettings { subnets: vec![subnet], limits, ..Default::default() };
    let mut net = Net::joined(config, 3, &TRIANGLE).with_hosts();
    assert!(net.refusals().is_empty());
    net
}

fn where_is(net: &Net, n: u8) -> Option<(u64, u8)> {
    net.controller.hosts().find(|h| h.mac == mac(n)).map(|h| (h.node, h.port))
}

#[test]
fn a_host_that_answers_at_its_place_cannot_be_impersonated() {
    let mut net = net();
    net.resolve(2, 1);
    net.seen(1, (3, HOST_PORT), Some(ip(1)));
    net.wait_ms(1000);
    // The node's claims to the station and to its address, which one dispute delayed.
    assert_eq!(net.refusals(), [(3, mac(1), Refusal::Claimed); 2]);
    assert_eq!(where_is(&net, 1), Some((1, HOST_PORT)));
    assert!(net.delivers(2, 1));
    // Nor can a station with another Ethernet address take its IP address.
    net.seen(3, (3, HOST_PORT), Some(ip(1)));
    net.wait_ms(1000);
    assert_eq!(net.refusals(), [(3, mac(3), Refusal::Claimed)]);
    net.resolve(2, 1);
    assert!(net.delivers(2, 1));
}

#[test]
fn a_host_that_has_moved_is_reachable_within_a_second() {
    let mut net = net();
    net.resolve(2, 1);
    net.resolve(1, 2);
    net.host(1).at = (3, HOST_PORT + 1);
    net.nodes.get_mut(&3).unwrap().host_ports.insert(HOST_PORT + 1);
    net.hello(3);
    net.seen(1, (3, HOST_PORT + 1), Some(ip(1)));
    net.wait_ms(299);
    assert!(!net.delivers(2, 1), "the old place still has its time");
    net.wait_ms(1);
    assert!(net.delivers(2, 1) && net.delivers(1, 2));
    // The old node is told, and the new one.
    assert_eq!(net.refusals(), [(1, mac(1), Refusal::Claimed)]);
    assert_eq!(where_is(&net, 1), Some((3, HOST_PORT + 1)));
}

#[test]
fn where_the_old_place_is_down_nothing_is_waited_for() {
    let mut net = net();
    net.resolve(2, 1);
    net.host(1).at = (3, HOST_PORT);
    net.nodes.get_mut(&1).unwrap().host_ports.clear();
    net.hello(1);
    net.seen(1, (3, HOST_PORT), Some(ip(1)));
    assert!(net.delivers(2, 1));
    // Or where its node reports that it has left, while a claim waits.
    net.host(1).at = (2, HOST_PORT);
    net.seen(1, (2, HOST_PORT), Some(ip(1)));
    assert_eq!(where_is(&net, 1), Some((3, HOST_PORT)));
    net.say(3, HostGone { port: HOST_PORT, mac: mac(1) });
    assert_eq!(where_is(&net, 1), Some((2, HOST_PORT)));
}

#[test]
fn a_silent_holder_loses_an_address() {
    let mut net = net();
    net.host(1).answers = false;
    net.seen(3, (3, HOST_PORT), Some(ip(1)));
    net.wait_ms(300);
    net.host(3).ips.insert(0, ip(1));
    net.resolve(2, 1);
    assert!(net.delivers(2, 3));
}

#[test]
fn no_host_gets_the_groups_own_addresses() {
    let mut net = net();
    let group = ControllerSettings::default().group_mac;
    for (claimed, address) in [
        (mac(9), Some(ip(254))),
        (group, None),
        (MacAddr::BROADCAST, None),
        (MacAddr::default(), None),
        (mac(9), Some([0, 0, 0, 0].into())),
        (mac(9), Some([224, 0, 0, 1].into())),
        (mac(9), Some("ff02::1".parse().unwrap())),
    ] {
        net.say(2, HostSeen { port: HOST_PORT, mac: claimed, ip: address });
        assert_eq!(net.refusals(), [(2, claimed, Refusal::Reserved)], "{address:?}");
    }
    // A host that asks for the gateway is answered by its node; the controller sets no route.
    net.ask_for(2, ip(254));
    assert_eq!(net.failures(), [(2, Refusal::Reserved)]);
}

#[test]
fn one_port_cannot_fill_the_tables() {
    let mut net = net();
    for n in 50..60 {
        net.seen(n, (2, HOST_PORT), None);
    }
    let refused = net.refusals().into_iter().filter(|v| v.2 == Refusal::TooMany).count();
    assert_eq!(refused, 7, "three besides the first host");
    for n in 100..110 {
        net.seen(2, (2, HOST_PORT), Some(ip(n)));
    }
    let refused = net.refusals().into_iter().filter(|v| v.2 == Refusal::TooMany).count();
    assert_eq!(refused, 8, "two besides the first address");
    // Other ports are not affected.
    net.seen(61, (3, HOST_PORT), Some(ip(61)));
    assert!(net.refusals().is_empty());
}

#[test]
fn only_the_node_that_was_asked_can_answer() {
    let mut net = net();
    net.host(1).answers = false;
    net.seen(1, (3, HOST_PORT), Some(ip(1)));
    // Unknown exchange numbers, and messages from nodes without a session.
    net.say(2, HostProbeReply { exchange: 12, alive: true });
    net.say(77, HostSeen { port: 1, mac: mac(70), ip: None });
    net.say(2, HostGone { port: HOST_PORT, mac: mac(1) });
    let drops: Vec<_> = net.controller.drops().collect();
    assert_eq!(drops, [(Drop::UnknownNode, 1), (Drop::UnknownExchange, 1), (Drop::NotThere, 1)]);
    net.wait_ms(300);
    assert_eq!(where_is(&net, 1), Some((3, HOST_PORT)));
}

#[test]
fn removing_a_host_removes_all_routes_to_it() {
    let mut net = net();
    net.resolve(2, 1);
    net.resolve(3, 1);
    net.say(1, HostGone { port: HOST_PORT, mac: mac(1) });
    for node in [2, 3] {
        assert!(net.nodes[&node].memory.keys().all(|key| key.2 != mac(1)));
    }
    assert_eq!(where_is(&net, 1), None);
    assert_eq!(net.controller.flows().count(), 0);
}
