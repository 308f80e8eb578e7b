//! Two stages: hosts' packets are routed by another node than theirs.

use std::net::{IpAddr, Ipv4Addr};

use plexus_config::{Forwarder, GroupRule, HostGroup, OutsideRoute};
use plexus_controller::Config;
use plexus_wire::Prefix;
use plexus_wire::fabric::ROUTER_HOP;

use crate::routed::{ring, shares_of, two_subnets};
use crate::world::{End, HOST, RING, World};

fn stages(seed: u64) -> World {
    let forwarders = vec![Forwarder { node: "node2".into(), weight: 1 }];
    ring(seed, Config { forwarders, ..two_subnets() })
}

/// A host that did not answer for a while was forgotten. It knows its gateway, and goes on sending:
/// nothing that it sends says which address it has.
#[test]
fn a_host_that_was_silent_is_asked_for_its_address() {
    for seed in 0..3 {
        let mut world = stages(seed);
        let pair = [(0, 3)];
        assert_eq!(world.unreached(&pair, 400), []);
        world.hosts[0].is_mute = true;
        world.run(60_000);
        // The forwarder knows nothing of it any more, and asks in vain.
        world.crash_node(1);
        world.run(300);
        world.start_node(1);
        world.run(2000);
        assert_eq!(world.unreached(&pair, 3000), pair);
        world.hosts[0].is_mute = false;
        assert_eq!(world.unreached(&pair, 2000), [], "seed {seed}");
    }
}

/// A node without hosts has nothing to report, and the controller goes on asking. A forwarder that
/// forgot its ways each time would send a packet of each flow by its control plane every second.
#[test]
fn a_forwarder_without_hosts_keeps_its_ways() {
    let mut world = World::cabled(4, &RING, 1, two_subnets());
    world.uncable(End::Host(1));
    world.config.forwarders = vec![Forwarder { node: "node2".into(), weight: 1 }];
    let config = world.config.clone();
    world.tell(0, plexus_controller::Input::Configure(Box::new(config)));
    for host in [0, 2, 3] {
        let subnet = (host % 2) as u8;
        world.hosts[host].ip = [10, 0, subnet, host as u8 + 1].into();
        world.hosts[host].gateway = Some([10, 0, subnet, 254].into());
    }
    world.run(1200);
    [0, 2, 3].into_iter().for_each(|h| world.announce(h));
    world.run(100);
    let pair = [(0, 3)];
    assert_eq!(world.unreached(&pair, 400), []);
    world.run(1500);
    let ways = |world: &mut World| {
        let routes = world.node(1).node().routes();
        routes.iter().filter(|route| route.port == ROUTER_HOP).count()
    };
    let before = ways(&mut world);
    assert!(before > 0);
    for _ in 0..20 {
        world.run(300);
        assert_eq!(ways(&mut world), before, "at {:?}", world.now);
    }
}

/// A rule says who may ask: the answer passes too, also by another forwarder. Who is not allowed to
/// ask cannot begin.
#[test]
fn an_answer_passes_where_only_one_side_may_ask() {
    let group = |name: &str, nodes: &[&str]| HostGroup {
        name: name.into(),
        ports: nodes.iter().map(|node| (node.to_string(), HOST)).collect(),
        ..HostGroup::default()
    };
    let forwarder = |node: &str| Forwarder { node: node.into(), weight: 1 };
    for seed in 0..4 {
        let config = Config {
            groups: vec![group("clients", &["node1", "node3"]), group("servers", &["node4"])],
            allow: vec![GroupRule { from: Some("clients".into()), to: Some("servers".into()) }],
            strangers_may_talk: false,
            forwarders: vec![forwarder("node2"), forwarder("node3")],
            ..two_subnets()
        };
        let mut world = ring(seed, config);
        let (there, back) = ([(0, 3)], [(3, 0)]);
        assert_eq!(world.unreached(&back, 500), back, "seed {seed}: it was not asked");
        assert_eq!(world.unreached(&there, 500), [], "seed {seed}");
        assert_eq!(world.unreached(&back, 500), [], "seed {seed}");
    }
}

/// A host has another address from now on. It goes on sending to the same target, and nothing but
/// its packets tells the forwarder.
#[test]
fn a_host_with_a_new_address_is_routed() {
    let mut world = stages(3);
    let pair = [(0, 3)];
    assert_eq!(world.unreached(&pair, 400), []);
    world.run(500);
    world.hosts[0].ip = [10, 0, 0, 99].into();
    assert_eq!(world.unreached(&pair, 3000), []);
}

/// The hosts that lead to a network share its flows, although the sender's node asks for none.
#[test]
fn the_hosts_that_lead_to_a_network_share_its_flows() {
    let far: Ipv4Addr = [192, 0, 2, 1].into();
    let prefix = Prefix::new([0, 0, 0, 0].into(), 0).unwrap();
    let vias = [[10, 0, 1, 2], [10, 0, 1, 4]].map(IpAddr::from);
    let config = Config {
        routes: vias.map(|via| OutsideRoute { prefix, via }).to_vec(),
        forwarders: vec![Forwarder { node: "node3".into(), weight: 1 }],
        ..two_subnets()
    };
    let mut world = ring(6, config);
    for router in [1, 3] {
        world.hosts[router].is_promiscuous = true;
    }
    shares_of(&mut world, far, 1000);
    let shares = shares_of(&mut world, far, 2000);
    assert!(shares[0] + shares[1] == 100 && shares.iter().all(|n| *n > 20), "{shares:?}");
}
