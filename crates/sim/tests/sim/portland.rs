//! PortLand on fat trees and elsewhere, in the simulator.

use std::collections::BTreeSet;
use std::time::Duration;

use plexus_config::ControllerSettings;
use plexus_reference::portland::{Level, Manager, Switch};
use plexus_sim::{PortLand, Sim};
use plexus_topo::{Controller, Options, Shape, Topology, generate};

use crate::run::settle;

fn network(shape: &Shape, hosts_per_node: usize) -> Topology {
    let options = Options { hosts_per_node, ..Options::default() };
    let mut topology = generate(shape, options).unwrap();
    topology.links.iter_mut().for_each(|link| link.mtu = 2000);
    let settings = ControllerSettings::default();
    topology.controllers.push(Controller { name: "manager".into(), node: 0, settings });
    topology
}

fn settled(topology: &Topology, seed: u64, announce: bool) -> Sim {
    let mut sim = Sim::portland(topology, seed, announce).unwrap();
    settle(&mut sim);
    sim
}

fn switches(sim: &Sim) -> Vec<&Switch> {
    let machines = sim.portland_machines();
    machines.filter_map(|m| if let PortLand::Switch(s) = m { Some(s) } else { None }).collect()
}

fn manager(sim: &Sim) -> &Manager {
    let mut machines = sim.portland_machines();
    let found = machines.find_map(|m| if let PortLand::Manager(m) = m { Some(m) } else { None });
    found.unwrap()
}

/// A flow of pings between two hosts.
fn pings(topology: &Topology, from: usize, to: usize, count: u32) -> Topology {
    let [from, to] = [from, to].map(|h| &topology.hosts[h].name);
    let text = format!(
        "{}[[traffic]]\nname = \"ping\"\nfrom = \"{from}\"\nto = \"{to}\"\nproto = \"icmp\"\n\
         count = {count}\n",
        topology.to_toml()
    );
    Topology::parse("pings", &text).map_err(|e| e.to_string()).unwrap()
}

#[test]
fn a_fat_tree_finds_levels_pods_and_positions() {
    for (ports, seed) in [(4, 1), (4, 2), (6, 3), (8, 4)] {
        let topology = network(&Shape::FatTree { ports }, ports / 2);
        let sim = settled(&topology, seed, true);
        let of = |level| switches(&sim).into_iter().filter(move |s| s.level() == Some(level));
        let half = ports / 2;
        let count = [Level::Edge, Level::Aggregation, Level::Core].map(|level| of(level).count());
        assert_eq!(count, [ports * half, ports * half, half * half]);
        let places: BTreeSet<_> = of(Level::Edge).map(|s| s.place().unwrap()).collect();
        let expected = (0..ports as u16).flat_map(|pod| (0..half as u8).map(move |p| (pod, p)));
        let found: Vec<_> = places.iter().map(|place| (place.pod, place.position)).collect();
        assert_eq!(found, expected.collect::<Vec<_>>());
        // A pod's switches are those that are cabled to each other.
        let all = switches(&sim);
        for (_, _, [a, b]) in topology.cables() {
            use plexus_topo::Device::Node;
            if let (Node(a), Node(b)) = (a.device(), b.device())
                && [a, b].iter().all(|n| all[*n].level() != Some(Level::Core))
            {
                assert_eq!(all[a].pod(), all[b].pod());
            }
        }
    }
}

#[test]
fn every_host_gets_an_address_of_its_own() {
    let random = Shape::Random { nodes: 300, degree: 4, seed: 3 };
    for shape in [Shape::FatTree { ports: 4 }, Shape::Torus { sides: vec![4, 5] }, random] {
        let topology = network(&shape, 3);
        let mut sim = settled(&topology, 1, true);
        sim.run_until(sim.work().time + Duration::from_secs(3).into());
        let registry = manager(&sim).registry();
        assert_eq!(registry.len(), topology.hosts.len());
        let pmacs: BTreeSet<_> = registry.values().collect();
        assert_eq!(pmacs.len(), topology.hosts.len());
        assert!(pmacs.iter().all(|mac| !mac.is_multicast()));
        assert_eq!(manager(&sim).broadcasts(), 0);
    }
}

#[test]
fn hosts_of_a_fat_tree_reach_each_other_by_pmac_warm_and_cold() {
    let tree = network(&Shape::FatTree { ports: 4 }, 2);
    // At one switch, in one pod, in different pods.
    for (to, announce) in [(1, true), (2, true), (15, true), (1, false), (2, false), (15, false)] {
        let topology = pings(&tree, 0, to, 3);
        let mut sim = settled(&topology, 1, announce);
        if announce {
            sim.run_until(sim.work().time + Duration::from_secs(3).into());
        }
        sim.run(|_| true);
        assert_eq!(manager(&sim).broadcasts(), u64::from(!announce), "to {to}");
        // Both ends have spoken.
        assert!(announce || manager(&sim).registry().len() == 2);
        let report = sim.report();
        assert_eq!(report.facts.flows[0].loss, 0.0, "to {to}, announced: {announce}\n{report}");
    }
}

#[test]
fn who_is_not_known_is_asked_of_every_host_once() {
    let random = Shape::Random { nodes: 20, degree: 4, seed: 3 };
    for shape in [Shape::FatTree { ports: 4 }, Shape::Torus { sides: vec![4, 4] }, random] {
        let topology = pings(&network(&shape, 2), 0, 5, 1);
        let mut sim = settled(&topology, 1, false);
        let heard = std::sync::Arc::new(std::sync::Mutex::new(vec![0; topology.hosts.len()]));
        for (_, _, ends) in topology.cables() {
            for end in ends {
                if let plexus_topo::End::Host { host, .. } = end {
                    let heard = heard.clone();
                    sim.watch(end, move |_, bytes| {
                        // ARP, to everybody.
                        let is_question = bytes[..6] == [0xFF; 6] && bytes[12..14] == [8, 6];
                        heard.lock().unwrap()[host] += u32::from(is_question);
                    });
                }
            }
        }
        // On trees pings pass; elsewhere the answer comes, and data is not carried.
        sim.run(|_| true);
        assert_eq!(manager(&sim).broadcasts(), 1);
        assert_eq!((sim.resolutions().asked, sim.resolutions().open()), (1, 0), "{shape:?}");
        let mut expected = vec![1; topology.hosts.len()];
        // The asker.
        expected[0] = 0;
        assert_eq!(*heard.lock().unwrap(), expected, "{shape:?}");
    }
}

#[test]
fn what_portland_cannot_do_is_refused_by_name() {
    let tree = network(&Shape::FatTree { ports: 4 }, 1);
    let refused = |topology: &Topology| Sim::portland(topology, 1, true).err().unwrap();
    let mut dhcp = tree.clone();
    dhcp.hosts[3].dhcp = true;
    assert!(refused(&dhcp).starts_with(&format!("host {}: ", tree.hosts[3].name)));
    let mut headless = tree.clone();
    headless.controllers.clear();
    assert!(refused(&headless).contains("controller"));
}
