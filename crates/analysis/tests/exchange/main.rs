//! Topologies in the formats of other programs.

mod containers;
mod graphs;

use plexus_analysis::exchange::{Format, ImportOptions, Imported, import};
use plexus_topo::Topology;

fn options() -> ImportOptions {
    ImportOptions { name: "file".to_string(), ..ImportOptions::default() }
}

fn read(format: Format, text: &str) -> Imported {
    import(format, "f", text, &options()).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(format: Format, text: &str) -> String {
    match import(format, "f", text, &options()) {
        Err(error) => error.to_string(),
        Ok(made) => panic!("this was accepted: {text:.200}\n{:?}", made.notes),
    }
}

/// The parts of a topology that every format carries; lanes become cables of their own.
fn carried(topology: &Topology) -> [Vec<String>; 2] {
    let mut devices: Vec<String> = Vec::new();
    devices.extend(topology.nodes.iter().map(|n| format!("node {}", n.name)));
    devices.extend(topology.bridges.iter().map(|b| format!("bridge {}", b.name)));
    devices.extend(topology.hosts.iter().map(|h| {
        format!("host {} {:?} {:?} {} {:?}", h.name, h.addresses, h.gateways, h.mac, h.interfaces)
    }));
    let cables = topology.cables().map(|(link, _, ends)| {
        let l = &topology.links[link];
        let usual = (l.rate_bits_per_s, l.delay, l.mtu, l.loss.to_bits());
        format!("{:?} {usual:?}", ends.map(|end| topology.end_name(end)))
    });
    [devices, cables.collect()]
}
