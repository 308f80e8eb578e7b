//! Devices of routing daemons: hosts that have the group's own addresses, at their ports alone.

use plexus_config::{ControllerSettings, GroupRule, Subnet};
use plexus_wire::Prefix;
use plexus_wire::fabric::message::Refusal;

use super::net::{HOST_PORT, Net, ip, mac};
use crate::Input;

const TRIANGLE: [(u32, u32); 3] = [(0, 1), (1, 2), (2, 0)];
/// The device's port, at node 3, and the device.
const PORT: u8 = 9;
const DEVICE: u8 = 50;

/// A network whose hosts may not talk to each other, with a device at a node's port.
fn net() -> Net {
    let prefix = Prefix::new(ip(0), 24).unwrap();
    let device = Some("gw0".to_string());
    let subnet = Subnet { gateway: Some(ip(254)), device, ..Subnet::new(prefix) };
    let subnets = vec![subnet];
    let deny = vec![GroupRule { from: None, to: None }];
    let config = ControllerSettings { subnets, deny, ..ControllerSettings::default() };
    let mut net = Net::joined(config, 3, &TRIANGLE).with_hosts();
    net.nodes.get_mut(&3).unwrap().host_ports.insert(PORT);
    net.hello(3);
    net.input(Input::Device { device: "gw0".into(), port: Some(mac(PORT)) });
    net
}

#[test]
fn the_groups_address_is_the_devices_at_its_own_port_alone() {
    let mut net = net();
    for (other, at) in [(60, (1, HOST_PORT)), (61, (3, HOST_PORT))] {
        net.seen(other, at, Some(ip(254)));
        assert_eq!(net.refusals(), [(at.0, mac(other), Refusal::Reserved)]);
    }
    net.seen(DEVICE, (3, PORT), Some(ip(254)));
    assert_eq!(net.refusals(), []);
    // Not the address of another subnet, nor that of a host.
    net.seen(DEVICE, (3, PORT), Some(ip(1)));
    net.wait_ms(1000);
    assert_eq!(net.refusals(), [(3, mac(DEVICE), Refusal::Claimed)]);
    // When the device has gone, nobody has it.
    net.input(Input::Device { device: "gw0".into(), port: None });
    net.seen(62, (3, PORT), Some(ip(254)));
    assert_eq!(net.refusals(), [(3, mac(62), Refusal::Reserved)]);
}

#[test]
fn every_host_reaches_the_device_which_is_looked_for_at_its_port() {
    let mut net = net();
    net.add_host(DEVICE, 3, PORT);
    net.host(DEVICE).ips = vec![ip(254)];
    net.ask_for(1, ip(254));
    assert_eq!(net.failures(), [], "it is looked for");
    // It answers, which is a claim; the question goes on.
    net.seen(DEVICE, (3, PORT), Some(ip(254)));
    assert_eq!(net.refusals(), []);
    assert!(net.delivers(1, DEVICE) && net.delivers(DEVICE, 1));
    // Though no host may ask for another.
    net.resolve(1, 2);
    assert!(!net.delivers(1, 2));
}

#[test]
fn nobody_looks_for_an_address_of_the_group_that_no_device_has() {
    let mut net = net();
    net.input(Input::Device { device: "gw0".into(), port: None });
    net.ask_for(1, ip(254));
    assert_eq!(net.failures(), [(1, Refusal::Reserved)]);
}
