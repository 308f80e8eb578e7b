//! The forwarders of a lab's nodes: a daemon each, or the bridge of the Linux kernel.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use plexus_api::answer::Done;
use plexus_api::answer::named::Cache;
use plexus_api::answer::node::{Drops, FastPort, FastTable, LinkState, Ports};
use plexus_api::{Request, Silence, Topic};
use plexus_config::VlanMode;
use plexus_io::namespace::Namespaces;
use plexus_topo::Device;

use crate::cgroup::{LabGroup, NodeGroup};
use crate::daemon::{Daemon, Kind, POLL, START_LIMIT};
use crate::error::Error;
use crate::plan::{NodeProgram, Plan};
use crate::tools::{BRIDGE, IP, TC};
use crate::world::{World, shaper};
use plexus_report::{Counts, Quota};

/// A running node.
#[derive(Debug)]
pub(crate) struct RunningNode {
    name: String,
    daemon: Option<Daemon>,
    /// The other machine that has it.
    elsewhere: Option<String>,
    forwards_names: bool,
    /// Its control group, if it has a quota.
    group: Option<NodeGroup>,
}

/// Starts every node of the plan, those with a quota in `groups`; they are not ready yet.
pub(crate) fn start(
    plan: &Plan,
    world: &World,
    directory: &Path,
    groups: Option<&LabGroup>,
) -> Result<Vec<RunningNode>, Error> {
    let mut nodes = Vec::new();
    for (i, file) in plan.node_files.iter().enumerate() {
        let place = world.place(Device::Node(i));
        let has = plan.has(Device::Node(i));
        let daemon = match plan.program {
            _ if !has => None,
            NodeProgram::Plexus => {
                let (who, text) = ((Kind::Node, &file.name[..]), file.to_toml());
                Some(Daemon::start(who, &file.control, &text, directory, place)?)
            }
            NodeProgram::Bridge => {
                start_bridge(plan, i, place)?;
                None
            }
        };
        let group = match (groups, plan.topology.nodes[i].cpu) {
            (Some(groups), Some(cpu)) if has => Some(groups.make_node(&file.name, cpu)?),
            _ => None,
        };
        if let (Some(daemon), Some(group)) = (&daemon, &group) {
            group.enter(daemon.process())?;
        }
        let forwards_names = file.named.is_some();
        let topology = &plan.topology;
        let elsewhere =
            (!has).then(|| &topology.machines[topology.machine_of(Device::Node(i))].name);
        let (name, elsewhere) = (file.name.clone(), elsewhere.cloned());
        nodes.push(RunningNode { name, daemon, elsewhere, forwards_names, group });
    }
    Ok(nodes)
}

/// A bridge over all ports that filters VLANs as the node would, each port as fast as its cable.
fn start_bridge(plan: &Plan, node: usize, place: &Namespaces) -> Result<(), Error> {
    const BR: &str = "plexus-br";
    let file = &plan.node_files[node];
    let ageing = file.switch.ageing.as_secs() * 100;
    let vlans = file.ports.iter().any(|p| p.settings.vlan != VlanMode::Access(1));
    // Used only where needed, because not every kernel's bridge supports it.
    let filtering = if vlans { " vlan_filtering 1" } else { "" };
    let mut links = format!(
        "link add {BR} type bridge stp_state 0 mcast_snooping 0 ageing_time {ageing}{filtering}\n\
         link set dev {BR} addrgenmode none\n"
    );
    let mut members = String::new();
    let mut shapers = String::new();
    for (link, end) in plan.cables_of(Device::Node(node)) {
        let (device, _) = plan.device(end);
        let _ = writeln!(links, "link set dev {device} master {BR}");
        let Some(port) = file.ports.iter().find(|p| p.name == device) else { continue };
        if let Some(rate) = port.settings.rate_bits_per_s {
            let queue = &port.settings.queue;
            let _ = writeln!(shapers, "{}", shaper(device, rate, link.mtu, queue));
        }
        if !vlans {
            continue;
        }
        let _ = writeln!(members, "vlan del dev {device} vid 1");
        match &port.settings.vlan {
            VlanMode::Access(vlan) => {
                let _ = writeln!(members, "vlan add dev {device} vid {vlan} pvid untagged");
            }
            VlanMode::Trunk { allowed, native } => {
                for (first, last) in allowed {
                    // It takes no range of one.
                    let range = if first == last { "" } else { &format!("-{last}") };
                    let _ = writeln!(members, "vlan add dev {device} vid {first}{range}");
                }
                if let Some(native) = native {
                    let _ = writeln!(members, "vlan add dev {device} vid {native} pvid untagged");
                }
            }
        }
    }
    let _ = writeln!(links, "link set dev {BR} up");
    IP.batch(Some(place), &links)?;
    BRIDGE.batch(Some(place), &members)?;
    TC.batch(Some(place), &shapers)
}

impl RunningNode {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// `running`, or how it ended.
    pub(crate) fn state(&mut self) -> String {
        match (&mut self.daemon, &self.elsewhere) {
            (Some(daemon), _) => daemon.state(),
            (None, Some(machine)) => format!("on {machine}"),
            (None, None) => "running".into(),
        }
    }

    pub(crate) fn control(&self) -> Option<&Path> {
        self.daemon.as_ref().map(Daemon::socket)
    }

    /// Its daemon; `None` for the Linux bridge.
    pub(crate) fn daemon(&mut self) -> Option<&mut Daemon> {
        self.daemon.as_mut()
    }

    /// Waits until it answers.
    pub(crate) fn wait_until_ready(&mut self) -> Result<(), Error> {
        self.daemon.as_mut().map_or(Ok(()), Daemon::wait_until_ready)
    }

    /// Waits until it reports every port up; the hosts' ends are up by now.
    pub(crate) fn wait_for_ports(&mut self) -> Result<(), Error> {
        let Some(daemon) = &self.daemon else { return Ok(()) };
        let limit = Instant::now() + START_LIMIT;
        loop {
            let all: Ports = daemon.ask(&Request::Show(Topic::Ports))?;
            let down = all.ports.iter().filter(|p| p.link == LinkState::Down);
            let down: Vec<&str> = down.map(|p| p.name.as_str()).collect();
            if down.is_empty() {
                return Ok(());
            }
            if Instant::now() > limit {
                return Err(daemon.failed(&format!("its ports {} stay down", down.join(", "))));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Silences a port of a daemon, or restores it.
    pub(crate) fn silence(&self, port: &str, on: bool) -> Result<(), Error> {
        let Some(daemon) = &self.daemon else { return Ok(()) };
        let silence = Silence { port: port.into(), on };
        daemon.ask::<Done>(&Request::Silence(silence)).map(drop)
    }

    /// Its counters; `None` for the Linux bridge.
    pub(crate) fn counts(&mut self) -> Result<Option<Counts>, Error> {
        let Some(daemon) = &mut self.daemon else { return Ok(None) };
        match daemon.ask::<Drops>(&Request::Show(Topic::Drops)) {
            Ok(drops) => Ok(Some(Counts::of(&drops))),
            Err(e) => match daemon.state().as_str() {
                "running" => Err(e),
                ended => Err(daemon.failed(ended)),
            },
        }
    }

    /// Interests that it has answered out of its content store so far; `None` if it has none.
    pub(crate) fn cached(&self) -> Result<Option<u64>, Error> {
        let Some(daemon) = self.daemon.as_ref().filter(|_| self.forwards_names) else {
            return Ok(None);
        };
        let cache: Cache = daemon.ask(&Request::Show(Topic::Cache))?;
        Ok(Some(cache.memory.hits + cache.disk_hits))
    }

    /// Packets that came in so far, and those of them that went by the fast table; `None` if it has
    /// none.
    pub(crate) fn fast(&self) -> Result<Option<(u64, u64)>, Error> {
        let Some(daemon) = &self.daemon else { return Ok(None) };
        let table: FastTable = daemon.ask(&Request::Show(Topic::FastTable))?;
        let sum = |count: fn(&FastPort) -> u64| table.ports.iter().map(count).sum();
        Ok((table.kind != "off").then(|| (sum(|p| p.rx_packets), sum(|p| p.fast_packets))))
    }

    /// Processor time it has used, user and system; `None` for the Linux bridge, which works in the
    /// senders' time.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        self.daemon.as_ref()?.cpu_time()
    }

    /// The kernel's account of its quota, if it has one.
    pub(crate) fn quota(&self) -> Option<Quota> {
        self.group.as_ref().map(NodeGroup::account)
    }

    /// Ends it.
    pub(crate) fn stop(&mut self) {
        self.daemon.iter_mut().for_each(Daemon::stop);
    }
}
