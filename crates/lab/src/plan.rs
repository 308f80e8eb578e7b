//! The plan of a lab: the topology, and the file that each node's daemon reads.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plexus_config::{
    Backend, ControllerFile, FabricFile, FastTable, FaultSettings, NamedSettings, NodeFile,
    PortFile, VlanMode,
};
use plexus_topo::{
    CONTROLLER_DEVICE, CONTROLLER_PORT, Controller, Device, ETCD_MEMBERS, End, Host, IN_BAND_PORTS,
    Link, Node, Topology,
};
use plexus_wire::MacAddr;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::etcd;
use crate::events;
use crate::traffic;

/// Longest path of a Unix socket (unix(7)), less its final zero.
const SOCKET_PATH_MAX: usize = 107;
/// Longest MTU of a device that takes native XDP programs, on veth with 4 KiB pages.
const XDP_MTU_MAX: u16 = 3506;
/// Least MTU of a link that carries IPv6 (RFC 8200, 5).
const MTU_MIN_IPV6: u16 = 1280;

/// What moves frames in a lab's nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeProgram {
    /// `plexus node run`.
    #[default]
    Plexus,
    /// The bridge of the Linux kernel, to compare with.
    Bridge,
}

impl NodeProgram {
    /// Its name in arguments and JSON.
    pub fn name(self) -> &'static str {
        match self {
            NodeProgram::Plexus => "plexus",
            NodeProgram::Bridge => "bridge",
        }
    }
}

/// A lab to be built.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) topology: Topology,
    pub(crate) program: NodeProgram,
    /// Each node's file, in the order of the topology.
    pub(crate) node_files: Vec<NodeFile>,
    /// Each controller's file with the node that it is cabled to; none for the Linux bridge.
    pub(crate) controller_files: Vec<(usize, ControllerFile)>,
    /// The machine of the topology whose part this lab is; absent: it is all of it.
    pub(crate) machine: Option<usize>,
}

impl Plan {
    /// Plans `topology` as a lab with its files in `directory`.
    ///
    /// # Errors
    /// When it requires something that a lab cannot do.
    pub(crate) fn new(
        topology: Topology,
        program: NodeProgram,
        rootless: bool,
        directory: &Path,
    ) -> Result<Plan, Error> {
        events::check(&topology)?;
        traffic::check(&topology)?;
        let router = topology.nodes.iter().find(|n| n.router.is_some());
        if let (NodeProgram::Bridge, Some(node)) = (program, router) {
            let text = format!("node {} routes, which the Linux bridge does not", node.name);
            return Err(Error::Unsupported(text));
        }
        let named = topology.nodes.iter().find(|n| n.named.is_some());
        if let (NodeProgram::Bridge, Some(node)) = (program, named) {
            let text =
                format!("node {} forwards named data, which the Linux bridge does not", node.name);
            return Err(Error::Unsupported(text));
        }
        let unlimited = match program {
            NodeProgram::Bridge => Some("the Linux bridge works in the senders' time: take it out"),
            NodeProgram::Plexus if rootless => Some("only root makes control groups: run as root"),
            NodeProgram::Plexus => None,
        };
        let limited = topology.nodes.iter().find(|n| n.cpu.is_some());
        if let (Some(why), Some(node)) = (unlimited, limited) {
            let text = format!("node {} has a quota of processor time (cpu): {why}", node.name);
            return Err(Error::Unsupported(text));
        }
        let makes_devices =
            |(i, n): &(usize, &Node)| n.needs_root() || !topology.kernel_devices(*i).is_empty();
        let node = topology.nodes.iter().enumerate().find(makes_devices);
        if let (true, Some((_, node))) = (rootless, node) {
            let text = format!("node {} makes devices in its kernel: run as root", node.name);
            return Err(Error::Unsupported(text));
        }
        let socket = |name: &str| socket(directory, name);
        let mut node_files = Vec::new();
        for (i, node) in topology.nodes.iter().enumerate() {
            let mut file = node_file(&topology, i, node, rootless);
            file.control = socket(&node.name)?;
            if let Some(named) = &mut file.named
                && named.unix == NamedSettings::default().unix
            {
                // Boxes of a lab have one file system.
                named.unix = vec![directory.join(format!("{}.nfd.sock", node.name))];
            }
            if topology.is_fabric_node(i) {
                let usual = FabricFile::new(identity_file(directory, &node.name));
                let (lanes, native) = (topology.lanes, node.native);
                let kernel = topology.kernel_devices(i).into_iter().collect();
                file.fabric = Some(FabricFile { lanes, native, kernel, ..usual });
            }
            node_files.push(file);
        }
        let mut controller_files = Vec::new();
        for controller in &topology.controllers {
            let mut file = controller_file(&topology, controller, directory);
            if topology.controllers.len() > 1 {
                file.etcd = Some(etcd::settings());
                file.state = file.state.with_extension("etcd");
            }
            file.control = socket(&controller.name)?;
            let ports = &mut node_files[controller.node].ports;
            ports.push(port_file(CONTROLLER_PORT));
            if topology.etcd_in_band {
                let [member, own] = IN_BAND_PORTS;
                let has_member = controller_files.len() < ETCD_MEMBERS.len();
                ports.extend([member].into_iter().filter(|_| has_member).map(port_file));
                ports.push(port_file(own));
            }
            controller_files.push((controller.node, file));
        }
        if program == NodeProgram::Bridge {
            controller_files.clear();
        }
        let plan = Plan { topology, program, node_files, controller_files, machine: None };
        plan.check()?;
        Ok(plan)
    }

    /// Whether this lab has the device: it may be another machine's.
    pub(crate) fn has(&self, device: Device) -> bool {
        self.machine.is_none_or(|machine| self.topology.machine_of(device) == machine)
    }

    /// Whether other machines have parts of the topology.
    pub(crate) fn is_part(&self) -> bool {
        self.machine.is_some()
    }

    /// Whether the members of etcd are hosts of the fabric.
    pub(crate) fn is_in_band(&self) -> bool {
        self.topology.etcd_in_band && self.is_fabric()
    }

    /// Whether the nodes form a fabric, whose controller leases addresses.
    pub(crate) fn is_fabric(&self) -> bool {
        !self.controller_files.is_empty()
    }

    fn check(&self) -> Result<(), Error> {
        let t = &self.topology;
        if t.arp.is_some() {
            let text = "[arp]: only simulated hosts ask at a given rate: take it out, or use \
                        plexus sim run";
            return Err(Error::Unsupported(text.into()));
        }
        if self.program == NodeProgram::Bridge
            && !t.controllers.is_empty()
            && let Some(ends) = t.circle(|d| matches!(d, Device::Node(_)) || t.floods(d))
        {
            let text = format!(
                "the cable from {} to {} closes a circle of nodes: a fabric uses all cables of \
                 one, Linux bridges without a spanning tree would flood it for ever; take it out",
                t.end_name(ends[0]),
                t.end_name(ends[1])
            );
            return Err(Error::Unsupported(text));
        }
        for (link, _, ends) in t.cables() {
            let link = &t.links[link];
            let has_ipv6 = |host: &Host| host.addresses.iter().any(|a| a.address.is_ipv6());
            for end in ends {
                if let End::Host { host, .. } = end
                    && has_ipv6(&t.hosts[host])
                    && link.mtu < MTU_MIN_IPV6
                {
                    let text = format!(
                        "{} has IPv6 addresses, which need an MTU of {MTU_MIN_IPV6} (RFC 8200, 5); \
                         its link has {}",
                        t.end_name(end),
                        link.mtu
                    );
                    return Err(Error::Unsupported(text));
                }
            }
            let faulty = link.loss > 0.0 || !link.delay.is_zero();
            let no_node = !ends.iter().any(|e| matches!(e, End::Port { .. }));
            if faulty && (no_node || self.program == NodeProgram::Bridge) {
                let text = format!(
                    "{} to {}: delay and loss of a link are made by Plexus nodes, and there is \
                     none at its ends",
                    t.end_name(ends[0]),
                    t.end_name(ends[1])
                );
                return Err(Error::Unsupported(text));
            }
        }
        Ok(())
    }

    /// Whether the port at the other end of a host's cable is a trunk by AF_XDP. AF_XDP does not
    /// see the 802.1Q tags that a host leaves to its device, so such a host writes them into the
    /// frame.
    pub(crate) fn loses_tags(&self, host: End) -> bool {
        let far = self.topology.cables().find_map(|(_, _, ends)| match ends {
            [near, far] | [far, near] if near == host => Some(far),
            _ => None,
        });
        let Some(End::Port { node, port }) = far else { return false };
        let (file, name) = (&self.node_files[node], &self.topology.nodes[node].ports[port].name);
        self.program == NodeProgram::Plexus
            && file.ports.iter().filter(|p| p.name == *name).any(|p| {
                let is_trunk = matches!(p.settings.vlan, VlanMode::Trunk { .. });
                is_trunk && p.backend.unwrap_or(file.backend) == Backend::AfXdp
            })
    }

    /// Name and Ethernet address (where the topology gives one) of the device at a cable's end.
    pub(crate) fn device(&self, end: End) -> (&str, Option<MacAddr>) {
        match end {
            End::Port { node, port } => (&self.topology.nodes[node].ports[port].name, None),
            End::Host { host, interface } => {
                let interface = &self.topology.hosts[host].interfaces[interface];
                (&interface.name, Some(interface.mac))
            }
            End::Bridge { bridge, port } => (&self.topology.bridges[bridge].ports[port], None),
        }
    }

    /// The link and the near end of every cable of a device.
    pub(crate) fn cables_of(&self, device: Device) -> impl Iterator<Item = (&Link, End)> {
        let links = &self.topology.links;
        let cables = self.topology.cables().filter(move |_| self.has(device));
        cables.flat_map(move |(link, _, ends)| {
            let near = ends.into_iter().filter(move |e| e.device() == device);
            near.map(move |end| (&links[link], end))
        })
    }
}

/// Where a daemon has its control socket.
fn socket(directory: &Path, name: &str) -> Result<PathBuf, Error> {
    let path = directory.join(format!("{name}.sock"));
    if path.as_os_str().len() > SOCKET_PATH_MAX {
        let text = format!(
            "{} is too long for a socket: set PLEXUS_RUN_DIR to a shorter path",
            path.display()
        );
        return Err(Error::Unsupported(text));
    }
    Ok(path)
}

/// Where the identity of a node or controller is.
pub(crate) fn identity_file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.key"))
}

fn controller_file(
    topology: &Topology,
    controller: &Controller,
    directory: &Path,
) -> ControllerFile {
    ControllerFile {
        identity: identity_file(directory, &controller.name),
        state: directory.join(format!("{}.redb", controller.name)),
        device: CONTROLLER_DEVICE.to_string(),
        settings: topology.controller_settings(controller),
        ..ControllerFile::new(&controller.name)
    }
}

/// A port with the default settings and a device of the same name.
fn port_file(name: &str) -> PortFile {
    PortFile::new(name)
}

fn node_file(topology: &Topology, index: usize, node: &Node, rootless: bool) -> NodeFile {
    let mut file = NodeFile::new(&node.name);
    file.switch = node.switch.clone();
    file.router = node.router.clone();
    file.named = node.named.clone();
    file.workers = node.workers;
    // The simulator alone has chips.
    file.switch.deep_buffer.chip = None;
    // Programs in the kernel need real root.
    file.fast_table = if rootless { FastTable::Off } else { node.fast_table };
    file.backend = match node.backend {
        Backend::Auto | Backend::AfXdp if rootless => Backend::AfPacket,
        chosen => chosen,
    };
    for (p, port) in node.ports.iter().enumerate() {
        let mut settings = port.settings.clone();
        let mut faults = port.faults.clone();
        let mut backend = None;
        let own = End::Port { node: index, port: p };
        let cable = topology.cables().find(|(_, _, ends)| ends.contains(&own));
        if let Some((link, _, ends)) = cable {
            let link = &topology.links[link];
            let rates = settings.rate_bits_per_s.into_iter().chain(link.rate_bits_per_s);
            settings.rate_bits_per_s = rates.min();
            if link.mtu > XDP_MTU_MAX && !rootless {
                backend = Some(Backend::AfPacket);
            }
            let to_node = ends.iter().all(|e| matches!(e, End::Port { .. }));
            faults = link_faults(faults, link, to_node, topology.seed, (index, p));
        }
        let role = port.role;
        file.ports.push(PortFile { backend, role, settings, faults, ..port_file(&port.name) });
    }
    file
}

/// A port's faults combined with those of its cable. Faults act on what a port receives, so for a
/// cable between nodes each direction's are applied at its far end. Hosts inject no faults: the
/// node's port applies the delay and loss of both directions on reception, so that round trips are
/// right.
fn link_faults(
    own: Option<FaultSettings>,
    link: &Link,
    to_node: bool,
    seed: u64,
    (node, port): (usize, usize),
) -> Option<FaultSettings> {
    if link.loss == 0.0 && link.delay.is_zero() {
        return own;
    }
    let mut faults = own.unwrap_or_else(|| FaultSettings {
        // Ports draw apart from each other.
        seed: seed.wrapping_mul(1009).wrapping_add((node * 257 + port) as u64) & i64::MAX as u64,
        ..FaultSettings::default()
    });
    let directions = if to_node { 1 } else { 2 };
    for _ in 0..directions {
        // Lost here, or else lost there.
        faults.drop += (1.0 - faults.drop) * link.loss;
        faults.delay += link.delay;
    }
    faults.delay = faults.delay.min(Duration::from_secs(3600));
    Some(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "name = \"t\"\n\
        [[node]]\nname = \"control\"\n\
        [[node.port]]\nname = \"p1\"\nrate = \"10Mbit\"\nvlan = 7\n\
        [[node]]\nname = \"s2\"\n\
        [[host]]\nname = \"h1\"\naddress = [\"10.0.0.1/24\"]\n\
        [[link]]\nends = [\"h1\", \"control.p1\"]\nrate = \"1Gbit\"\ndelay = \"2ms\"\n\
        [[link]]\nends = [\"control.x\", \"s2.x\"]\nloss = 0.5\ndelay = \"1ms\"\nmtu = 9000\n";

    fn plan(program: NodeProgram, rootless: bool) -> Result<Plan, Error> {
        let topology = Topology::parse("t.toml", FILE).unwrap();
        Plan::new(topology, program, rootless, Path::new("/run/t"))
    }

    #[test]
    fn a_nodes_file_has_the_rates_and_faults_of_its_cables() {
        let plan = plan(NodeProgram::Plexus, false).unwrap();
        let node = &plan.node_files[0];
        assert_eq!(node.control, Path::new("/run/t/control.sock"));
        let [p1, x] = &node.ports[..] else { panic!("{:?}", node.ports) };
        // The slower of port and cable, the port's other settings, both directions' delay.
        let usual = plexus_config::PortSettings::default();
        assert_eq!(p1.settings.rate_bits_per_s, Some(10_000_000));
        assert_ne!(p1.settings.vlan, usual.vlan);
        assert_eq!(p1.faults.as_ref().unwrap().delay, Duration::from_millis(4));
        // Between nodes each end has one direction's.
        let faults = x.faults.as_ref().unwrap();
        assert_eq!((faults.drop, faults.delay), (0.5, Duration::from_millis(1)));
        // Too long for XDP.
        assert_eq!((p1.backend, x.backend), (None, Some(Backend::AfPacket)));
        let text = node.to_toml();
        assert_eq!(NodeFile::parse("s1.toml", &text).unwrap(), *node);
    }

    #[test]
    fn hosts_write_tags_themselves_only_at_trunks_by_af_xdp() {
        let host = End::Host { host: 0, interface: 0 };
        let at = |vlan: Option<VlanMode>, backend, rootless| {
            let mut plan = plan(NodeProgram::Plexus, rootless).unwrap();
            let ports = plan.node_files.iter_mut().flat_map(|file| {
                file.backend = backend;
                file.ports.iter_mut()
            });
            for port in ports {
                port.settings.vlan = vlan.clone().unwrap_or(port.settings.vlan.clone());
            }
            plan.loses_tags(host)
        };
        let trunk = Some(VlanMode::Trunk { allowed: vec![(10, 20)], native: None });
        assert!(at(trunk.clone(), Backend::AfXdp, false));
        assert!(!at(None, Backend::AfXdp, false), "an access port gets no tags");
        assert!(!at(trunk, Backend::Auto, false), "packet sockets see tags");
        let rootless = plan(NodeProgram::Plexus, true).unwrap();
        assert_eq!(rootless.node_files[0].backend, Backend::AfPacket);
    }

    #[test]
    fn simulator_only_features_are_refused_by_name() {
        let refused = |more: &str| {
            let topology = Topology::parse("t.toml", &format!("{FILE}{more}")).unwrap();
            let plan = Plan::new(topology, NodeProgram::Plexus, false, Path::new("/run/t"));
            plan.unwrap_err().to_string()
        };
        let skew = "[[event]]\nat = \"3s\"\nkind = \"skew\"\ndevice = \"s2\"\nppm = 9\n";
        let told = refused(skew);
        assert!(told.contains("skew of s2 at 3s") && told.contains("plexus sim run"), "{told}");
        let flow = "[[host]]\nname = \"h2\"\naddress = \"10.0.0.2/24\"\n\
            [[link]]\nends = [\"h2\", \"s2.h\"]\n\
            [[traffic]]\nname = \"ask\"\nfrom = \"h1\"\nto = \"h2\"\n";
        let request = "proto = \"request\"\nrequest = \"1kB\"\nresponse = \"1kB\"\ncount = 1\n";
        let poisson = "proto = \"udp\"\nrate = \"1Mbit\"\ncount = 1\narrivals = \"poisson\"\n";
        for (lines, word) in [(request, "requests"), (poisson, "Poisson")] {
            let told = refused(&format!("{flow}{lines}"));
            assert!(told.starts_with("flow ask: ") && told.contains(word), "{told}");
        }
    }

    #[test]
    fn a_quota_that_nobody_would_enforce_is_refused() {
        let refused = |program, rootless| {
            let topology = Topology::parse("t.toml", &format!("cpu = 0.5\n{FILE}")).unwrap();
            Plan::new(topology, program, rootless, Path::new("/run/t"))
        };
        for (program, rootless, word) in
            [(NodeProgram::Bridge, false, "bridge"), (NodeProgram::Plexus, true, "root")]
        {
            let told = refused(program, rootless).unwrap_err().to_string();
            assert!(told.contains("node control") && told.contains(word), "{told}");
        }
        let plan = refused(NodeProgram::Plexus, false).unwrap();
        assert!(plan.topology.nodes.iter().all(|n| n.cpu == Some(0.5)));
    }

    #[test]
    fn delay_that_nobody_would_make_is_refused() {
        let e = plan(NodeProgram::Bridge, false).unwrap_err().to_string();
        assert!(e.contains("h1.eth0") && e.contains("control.p1"), "{e}");
    }

    const FABRIC: &str = "name = \"f\"\n\
        [[node]]\nname = \"n1\"\nnative = true\n[[node]]\nname = \"n2\"\n\
        [[controller]]\nname = \"c1\"\non = \"n2\"\n\
        [[controller.subnet]]\nprefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.254\"\n\
        [[host]]\nname = \"h1\"\naddress = [\"10.0.0.1/24\"]\ndhcp = true\n\
        [[link]]\nends = [\"h1\", \"n1.p1\"]\n\
        [[link]]\nends = [\"n1.a\", \"n2.a\"]\nmtu = 2000\n";

    fn fabric(program: NodeProgram, more: &str) -> Result<Plan, Error> {
        let topology = Topology::parse("f.toml", &format!("{FABRIC}{more}")).unwrap();
        Plan::new(topology, program, false, Path::new("/run/f"))
    }

    #[test]
    fn a_controller_makes_fabric_nodes_and_reserves_addresses() {
        let plan = fabric(NodeProgram::Plexus, "").unwrap();
        let keys: Vec<_> =
            plan.node_files.iter().map(|f| &f.fabric.as_ref().unwrap().identity).collect();
        assert_eq!(keys, [Path::new("/run/f/n1.key"), Path::new("/run/f/n2.key")]);
        let native = |n: usize| plan.node_files[n].fabric.as_ref().unwrap().native;
        assert_eq!([native(0), native(1)], [true, false]);
        let names =
            |n: usize| plan.node_files[n].ports.iter().map(|p| p.name.as_str()).collect::<Vec<_>>();
        assert_eq!((names(0), names(1)), (vec!["p1", "a"], vec!["a", "ctl"]));
        let [(1, file)] = &plan.controller_files[..] else { panic!("{:?}", plan.controller_files) };
        assert_eq!((file.device.as_str(), file.settings.reservations.len()), ("ctl0", 1));
        assert_eq!(ControllerFile::parse("c1.toml", &file.to_toml()).unwrap(), *file);
    }

    #[test]
    fn bridges_stand_in_for_a_fabric_without_circles_only() {
        assert!(!fabric(NodeProgram::Bridge, "").unwrap().is_fabric());
        let second = "[[link]]\nends = [\"n1.b\", \"n2.b\"]\nmtu = 2000\n";
        assert!(fabric(NodeProgram::Plexus, second).unwrap().is_fabric());
        let told = fabric(NodeProgram::Bridge, second).unwrap_err().to_string();
        assert!(told.contains("n1.b to n2.b") && told.contains("circle"), "{told}");
    }
}
