//! A hundred hosts behind one port that are all switched on at once.

use std::fmt::Write as _;

use plexus_topo::Topology;

use crate::run::settled;

/// `hosts` DHCP clients at an ordinary switch behind one port of a node.
fn crowd(hosts: usize) -> Topology {
    let mut text = String::from(
        "name = \"crowd\"\nassert = [\"conserved == true\"]\n\
         [[node]]\nname = \"n\"\n\
         [[controller]]\nname = \"c\"\non = \"n\"\n\
         [[controller.subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n\
         [[bridge]]\nname = \"b\"\n\
         [[link]]\nends = [\"b.up\", \"n.p1\"]\nrate = \"1Gbit\"\n",
    );
    for h in 1..=hosts {
        let _ = write!(
            text,
            "[[host]]\nname = \"h{h}\"\naddress = \"10.0.0.{h}/24\"\ndhcp = true\n\
             [[link]]\nends = [\"h{h}\", \"b.p{h}\"]\nrate = \"1Gbit\"\n"
        );
    }
    Topology::parse("crowd", &text).map_err(|e| e.to_string()).unwrap()
}

/// A client waits 4, 8, 16 and 32 seconds for an answer, and then gives up: `settle` is given a
/// minute.
#[test]
fn a_hundred_dhcp_clients_at_one_port_all_get_their_addresses() {
    for seed in 1..=5 {
        let sim = settled(&crowd(100), seed);
        assert_eq!(sim.report().facts.drops.get("control_rate"), None, "seed {seed}");
    }
}
