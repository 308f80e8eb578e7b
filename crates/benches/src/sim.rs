//! The simulator, frame by frame, beside ns-3 on the same network and traffic.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use plexus_sim::{RATE_USUAL, Sim};
use plexus_topo::{Device, Extent, Target, Topology};

use super::{Row, Setting, peer};

/// Eight boxes in a line, two flows in opposite directions.
const CHAIN: &str = r#"
    name = "chain"
    [generate]
    shape = "line 8"
    hosts = 1
    rate = "1Gbit"
    [[controller]]
    name = "c"
    on = "s1"
    [[controller.subnet]]
    prefix = "10.0.0.0/8"
    gateway = "10.255.255.254"
    [[pattern]]
    name = "u"
    kind = "all-to-all"
    hosts = ["h1", "h8"]
    proto = "udp"
    rate = "400Mbit"
    size = 512
    duration = "2s"
"#;

/// Boxes of 4 ports and 16 hosts, each of which sends to another.
const FAT_TREE: &str = r#"
    name = "fat-tree"
    [generate]
    shape = "fat-tree 4"
    rate = "1Gbit"
    [[controller]]
    name = "c"
    on = "core1"
    [[controller.subnet]]
    prefix = "10.0.0.0/8"
    gateway = "10.255.255.254"
    [[pattern]]
    name = "u"
    kind = "permutation"
    proto = "udp"
    rate = "200Mbit"
    size = 512
    duration = "500ms"
"#;

/// ns-3 simulates this part of the time: it would take minutes, and its rate does not depend on it.
const PEERS_PART: u64 = 8;

/// How ns-3 forwards, and what a row is called beside it.
const PEERS: [(&str, &str); 2] = [("ipv4", ""), ("bare", "-bare")];

/// Frame hops per second of real time along the chain.
pub(super) fn chain(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    hops(name, CHAIN, setting)
}

/// The same on the fat tree.
pub(super) fn fat_tree(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    hops(name, FAT_TREE, setting)
}

fn hops(name: &str, file: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let mut topology = Topology::parse(name, file).map_err(|e| e.to_string())?;
    shorten(&mut topology, setting.effort.shrink as u64);
    let ours = || -> Result<f64, String> {
        let mut sim = settled(&topology)?;
        let (before, start) = (sim.work().hops, Instant::now());
        sim.run(|_| true);
        let seconds = start.elapsed().as_secs_f64();
        Ok((sim.work().hops - before) as f64 / seconds / 1e6)
    };
    let (unit, runs) = ("M hops/s", setting.effort.runs);
    let Some(program) = setting.peers.program("ns3_hops") else {
        return Ok(vec![Row::measure(name, unit, None, runs, || Ok((ours()?, None)))?]);
    };
    let mut short = topology.clone();
    shorten(&mut short, PEERS_PART);
    let network = described(&short);
    let row = |(forward, suffix): (&str, &str)| {
        let theirs = |program: &Path| peer::ns3_hops(program, forward, &network);
        let turn = || Ok((ours()?, Some(theirs(&program)?)));
        let (name, peer) = (format!("{name}{suffix}"), format!("ns3_{forward}"));
        Row::measure(&name, unit, Some(&peer), runs, turn)
    };
    PEERS.into_iter().map(row).collect()
}

/// Divides the time that flows send.
fn shorten(topology: &mut Topology, by: u64) {
    for flow in &mut topology.traffic {
        if let Extent::Duration(duration) = &mut flow.extent {
            *duration /= u32::try_from(by.max(1)).unwrap_or(u32::MAX);
        }
    }
}

fn settled(topology: &Topology) -> Result<Sim, String> {
    let mut sim = Sim::new(topology, 1)?;
    match sim.settle(|_| true) {
        true => Ok(sim),
        false => Err("the network has not found itself".to_string()),
    }
}

/// A network and its flows as `ns3_hops` reads them: nodes, then hosts.
fn described(topology: &Topology) -> String {
    let nodes = topology.nodes.len();
    let number = |device: Device| match device {
        Device::Node(node) => node,
        Device::Host(host) => nodes + host,
        Device::Bridge(bridge) => nodes + topology.hosts.len() + bridge,
    };
    let devices = nodes + topology.hosts.len() + topology.bridges.len();
    let mut text = format!("devices {devices}\n");
    for (link, _, ends) in topology.cables() {
        let link = &topology.links[link];
        let [a, b] = ends.map(|end| number(end.device()));
        let rate = link.rate_bits_per_s.unwrap_or(RATE_USUAL);
        let _ = writeln!(text, "link {a} {b} {rate} {}", link.delay.as_nanos());
    }
    for flow in &topology.traffic {
        let (Target::Host(to), Extent::Duration(duration)) = (flow.to, flow.extent) else {
            continue;
        };
        let [from, to] = [flow.from, to].map(|host| nodes + host);
        let (rate, size) = (flow.rate_bits_per_s.unwrap_or_default(), flow.size);
        let (start, duration) = (flow.start.as_nanos(), duration.as_nanos());
        let _ = writeln!(text, "flow {from} {to} {rate} {size} {start} {duration}");
    }
    text
}

/// Hosts of the networks that grow, and how many are in a rack.
const SCALES: [(usize, &str); 4] = [(100, "100"), (1_000, "1k"), (10_000, "10k"), (50_000, "50k")];
const RACK: usize = 50;
/// Events of one turn, by and large.
const SCALE_EVENTS: u64 = 8_000_000;

/// Nanoseconds of real time per event as the network grows, each host sending to the next one in
/// its rack. Racks are not joined: a switch asks everywhere for a host that it does not know, and
/// 50,000 hosts that look for each other would be a bench of flooding.
pub(super) fn scale(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let row = |(hosts, suffix): (usize, &str)| {
        let hosts = (hosts / setting.effort.shrink.max(1)).max(RACK);
        let events = SCALE_EVENTS / setting.effort.shrink.max(1) as u64;
        let file = racks(hosts, events);
        let topology = Topology::parse(name, &file).map_err(|e| e.to_string())?;
        let turn = || Ok((event_ns(&topology)?, None));
        // Most of a turn is building the network.
        let runs = setting.effort.runs.min(3);
        Row::measure(&format!("{name}-{suffix}"), "ns", None, runs, turn)
    };
    SCALES.into_iter().map(row).collect()
}

/// Measured in the second half of the first flow's time, before which hosts find each other; all of
/// it where the run is too short to look.
fn event_ns(topology: &Topology) -> Result<f64, String> {
    let mut sim = settled(topology)?;
    let half = match topology.traffic.first().map(|f| f.extent) {
        Some(Extent::Duration(duration)) => duration / 2,
        _ => return Err("there is no flow".to_string()),
    };
    let from = sim.work().time + half.into();
    let mut is_late = false;
    let mut begun = (sim.work().events, Instant::now());
    sim.run(|sim| {
        if !is_late && sim.work().time >= from {
            is_late = true;
            begun = (sim.work().events, Instant::now());
        }
        true
    });
    let (events, start) = begun;
    let events = sim.work().events.saturating_sub(events).max(1);
    Ok(start.elapsed().as_secs_f64() * 1e9 / events as f64)
}

/// A switch for every [`RACK`] hosts, each of which sends to the next.
fn racks(hosts: usize, events: u64) -> String {
    // 512 bytes at 10 Mbit/s; what each costs was counted: sender, switch and receiver, and waking.
    let (interval_ns, events_each) = (409_600, 5);
    let each = events / (hosts as u64 * events_each);
    let duration_ns = 2 * each.max(1) * interval_ns;
    let mut text = String::from("name = \"racks\"\n");
    for rack in 0..hosts.div_ceil(RACK) {
        let _ = writeln!(text, "[[node]]\nname = \"r{rack}\"\nswitch = {{ mac_table = 1024 }}");
    }
    for host in 0..hosts {
        let (rack, number) = (host / RACK, host + 1);
        let address = std::net::Ipv4Addr::from_bits(0x0A00_0000 | number as u32);
        let _ = writeln!(
            text,
            "[[host]]\nname = \"h{number}\"\naddress = \"{address}/8\"\n\
             [[link]]\nends = [\"h{number}\", \"r{rack}.p{number}\"]\nrate = \"1Gbit\"\n\
             delay = \"1us\""
        );
        let next = if number % RACK == 0 || number == hosts { rack * RACK } else { number } + 1;
        let _ = writeln!(
            text,
            "[[traffic]]\nname = \"u{number}\"\nfrom = \"h{number}\"\nto = \"h{next}\"\n\
             proto = \"udp\"\nrate = \"10Mbit\"\nsize = 512\nduration = \"{duration_ns}ns\""
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ns3_is_told_the_same_network_and_flows() {
        let mut topology = Topology::parse("chain", CHAIN).unwrap();
        shorten(&mut topology, 8);
        let text = described(&topology);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines.len()), ("devices 16", 1 + 15 + 2));
        assert_eq!(lines[1], "link 8 0 1000000000 0");
        assert_eq!(lines[9], "link 0 1 1000000000 0");
        assert_eq!(lines[16], "flow 8 15 400000000 512 0 250000000");
    }
}
