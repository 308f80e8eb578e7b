//! Ordinary switches of a lab: Linux bridges, each in a separate namespace.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use plexus_config::QueueSettings;
use plexus_io::namespace::Namespaces;
use plexus_topo::{BRIDGE_DEVICE, Device};
use serde_json::Value;

use crate::daemon::{POLL, START_LIMIT};
use crate::error::Error;
use crate::plan::Plan;
use crate::status::{BridgePortStatus, BridgeStatus};
use crate::tools::{BRIDGE, IP, TC};
use crate::world::{World, raise_port, shaper};

/// A classic BPF program that drops every packet: return 2, TC_ACT_SHOT.
const DROP_ALL: &str = "1,6 0 0 2";

/// Makes the bridges of the plan, each over its cables, each cable as fast as it should be.
pub(crate) fn raise(plan: &Plan, world: &World) -> Result<(), Error> {
    // As in the simulator.
    let queue = QueueSettings::default();
    for (i, bridge) in plan.topology.bridges.iter().enumerate() {
        let place = world.place(Device::Bridge(i));
        let mut links = format!("link set dev lo up\n{}\n", bridge.ip_arguments());
        let _ = writeln!(links, "link set dev {BRIDGE_DEVICE} addrgenmode none");
        let mut shapers = String::new();
        for (link, end) in plan.cables_of(Device::Bridge(i)) {
            let (device, _) = plan.device(end);
            let _ = writeln!(links, "link set dev {device} master {BRIDGE_DEVICE}");
            raise_port(&mut links, device);
            if let Some(rate) = link.rate_bits_per_s {
                let _ = writeln!(shapers, "{}", shaper(device, rate, link.mtu, &queue));
            }
        }
        let _ = writeln!(links, "link set dev {BRIDGE_DEVICE} up");
        IP.batch(Some(place), &links)?;
        TC.batch(Some(place), &shapers)?;
    }
    Ok(())
}

/// Waits until every spanning tree has made up its mind: no port listens or learns any more.
pub(crate) fn wait_for_trees(plan: &Plan, world: &World) -> Result<(), Error> {
    for (i, bridge) in plan.topology.bridges.iter().enumerate().filter(|(_, b)| b.stp) {
        let limit = Instant::now() + 2 * bridge.forward_delay + START_LIMIT;
        loop {
            let ports = ports(world.place(Device::Bridge(i)))?;
            let moving = ports.iter().find(|p| !matches!(&p.state[..], "forwarding" | "blocking"));
            let Some(moving) = moving else { break };
            if Instant::now() > limit {
                let name = &bridge.name;
                let text = format!("{name}: its port {} stays {}", moving.name, moving.state);
                return Err(Error::Unsupported(text));
            }
            std::thread::sleep(10 * POLL);
        }
    }
    Ok(())
}

/// The longest that [`wait_for_trees`] takes where all is well; zero where there are none.
pub(crate) fn time_for_trees(plan: &Plan) -> Duration {
    let delays = plan.topology.bridges.iter().filter(|b| b.stp).map(|b| 2 * b.forward_delay);
    delays.max().unwrap_or_default()
}

/// How the bridges are.
pub(crate) fn status(plan: &Plan, world: &World) -> Vec<BridgeStatus> {
    let bridges = plan.topology.bridges.iter().enumerate();
    let status = bridges.map(|(i, bridge)| BridgeStatus {
        name: bridge.name.clone(),
        stp: bridge.stp,
        ports: ports(world.place(Device::Bridge(i))).unwrap_or_default(),
    });
    status.collect()
}

/// The ports of the bridge in `place`, with their state according to the kernel.
fn ports(place: &Namespaces) -> Result<Vec<BridgePortStatus>, Error> {
    let said = BRIDGE.run(Some(place), &["-json", "link", "show"], "")?;
    Ok(read_ports(&serde_json::from_str(&said).unwrap_or_default()))
}

/// Reads `[{"ifname": "p1", "state": "forwarding", "flags": ["NO-CARRIER"]}]`.
fn read_ports(said: &Value) -> Vec<BridgePortStatus> {
    let ports = said.as_array().into_iter().flatten();
    let text = |p: &Value, key: &str| p[key].as_str().unwrap_or("unknown").to_string();
    ports.map(|p| BridgePortStatus { name: text(p, "ifname"), state: text(p, "state") }).collect()
}

/// Silences a kernel device in a place, or in the supervisor's own, or restores it: its carrier
/// stays, and received packets are dropped before anything sees them.
pub(crate) fn silence(place: Option<&Namespaces>, device: &str, on: bool) -> Result<(), Error> {
    if !on {
        return TC.run(place, &["qdisc", "del", "dev", device, "clsact"], "").map(drop);
    }
    TC.run(place, &["qdisc", "replace", "dev", device, "clsact"], "")?;
    let filter = ["filter", "replace", "dev", device, "ingress", "bpf", "da", "bytecode", DROP_ALL];
    TC.run(place, &filter, "").map(drop)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_states_of_ports_are_read() {
        let said = json!([{"ifname": "p1", "master": "br0", "state": "learning"}, {}]);
        let [p1, odd] = &read_ports(&said)[..] else { panic!() };
        assert_eq!((&p1.name[..], &p1.state[..]), ("p1", "learning"));
        assert_eq!(odd.state, "unknown");
    }
}
