//! Two hosts that ask for each other in the same instant.

use plexus_topo::Topology;

use crate::run::ran;

/// Nodes in a line with the controller at the first, and two hosts at the nodes of these numbers,
/// which ping each other from the same instant on.
fn pings(nodes: usize, at: [usize; 2], dhcp: bool) -> Topology {
    let mut text = String::from(
        "name = \"crossing\"\nassert = [\"conserved == true\"]\n\
         [[controller]]\nname = \"c\"\non = \"n0\"\n\
         [[controller.subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n",
    );
    for n in 0..nodes {
        text += &format!("[[node]]\nname = \"n{n}\"\n");
        if n > 0 {
            let before = n - 1;
            text += &format!(
                "[[link]]\nends = [\"n{before}.r\", \"n{n}.l\"]\nrate = \"1Gbit\"\nmtu = 2000\n"
            );
        }
    }
    for (h, n) in (1..).zip(at) {
        let other = 3 - h;
        text += &format!(
            "[[host]]\nname = \"h{h}\"\naddress = \"10.0.0.{h}/24\"\ndhcp = {dhcp}\n\
             [[link]]\nends = [\"h{h}\", \"n{n}.h{h}\"]\nrate = \"1Gbit\"\n\
             [[traffic]]\nname = \"p{h}\"\nfrom = \"h{h}\"\nto = \"h{other}\"\nproto = \"icmp\"\n\
             count = 3\n"
        );
    }
    Topology::parse("crossing", &text).map_err(|e| e.to_string()).unwrap()
}

#[test]
fn hosts_that_ask_for_each_other_at_once_lose_nothing() {
    for (nodes, at) in
        [(1, [0, 0]), (2, [0, 0]), (2, [0, 1]), (2, [1, 1]), (3, [0, 1]), (3, [1, 2]), (3, [2, 0])]
    {
        // Of leased addresses the controller has not judged all when the first packet leaves.
        for (dhcp, seed) in [(false, 1), (true, 1), (true, 2), (true, 3)] {
            let report = ran(&pings(nodes, at, dhcp), seed).report();
            for flow in &report.facts.flows {
                assert_eq!(flow.loss, 0.0, "{nodes} nodes, hosts at {at:?}: {report}");
            }
        }
    }
}
