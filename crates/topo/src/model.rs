//! A topology: nodes, hosts, the links between them, and what a run sends and asserts.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use plexus_config::{
    Backend, ControllerSettings, FastTable, FaultSettings, InterfaceAddress, InterfacePlace,
    LaneChoice, NamedSettings, PortSettings, PortUse, Reservation, RouterSettings, SwitchSettings,
    words,
};
use plexus_wire::MacAddr;

use crate::arp_load::ArpLoad;
use crate::assertion::{Assertion, Subject};
use crate::bridge::Bridge;
use crate::catalogue::Catalogue;
use crate::dialogue::Dialogue;
use crate::event::Event;
use crate::fidelity::Fidelity;
use crate::forwarding::Forwarding;
use crate::machine::Machine;
use crate::routing::RoutingDaemon;
use crate::site::Site;

/// Everything a topology file says. Devices, links and flows refer to each other by index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// Its name, which a lab carries too.
    pub name: String,
    /// What it shows; empty where the file does not say.
    pub description: String,
    /// Where random choices of a run start.
    pub seed: u64,
    /// Which of several routes a host's flow takes from each node of the fabric.
    pub lanes: LaneChoice,
    /// How much of it a simulator simulates.
    pub fidelity: Fidelity,
    /// The boxes, in the order of the file.
    pub nodes: Vec<Node>,
    /// They make the nodes a fabric: one controller, or several that share an etcd cluster and
    /// have the first one's settings; without one each node is a switch.
    pub controllers: Vec<Controller>,
    /// The members of that cluster are hosts of the fabric, beside the first controllers; all
    /// controllers reach them over it. For labs alone.
    pub etcd_in_band: bool,
    /// Ordinary switches, in the order of the file.
    pub bridges: Vec<Bridge>,
    /// The hosts, in the order of the file.
    pub hosts: Vec<Host>,
    /// The links, in the order of the file.
    pub links: Vec<Link>,
    /// The machines that its lab may be spread over. On one machine, and in a simulator, they do
    /// not matter.
    pub machines: Vec<Machine>,
    /// What a run sends, in the order of the file.
    pub traffic: Vec<Flow>,
    /// What every host asks for while a run sends, in the simulator.
    pub arp: Option<ArpLoad>,
    /// What fails while a run sends, in the order of time.
    pub events: Vec<Event>,
    /// What must hold after a run.
    pub assertions: Vec<Assertion>,
}

/// A box that runs Plexus.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name, unique among devices.
    pub name: String,
    /// What moves its ports' frames in and out of the kernel, in a lab.
    pub backend: Backend,
    /// The table that forwards flows in place of its threads, in a lab.
    pub fast_table: FastTable,
    /// Threads that move frames, in a lab; ports are pinned to them in turn.
    pub workers: usize,
    /// Processors that its daemon may use, in a lab; a fraction of one or several, `None`: all.
    pub cpu: Option<f64>,
    /// Between nodes that both want it, frames travel without encapsulation; fabric only.
    pub native: bool,
    /// How long it takes to pass a frame on, in a simulator.
    pub forwarding: Forwarding,
    /// What makes it a router too, if it is one.
    pub router: Option<RouterSettings>,
    /// What makes it forward named data too, if it does.
    pub named: Option<NamedSettings>,
    /// Routing daemons that run beside it, in a lab.
    pub daemons: Vec<RoutingDaemon>,
    /// Settings of its switch, static stations included.
    pub switch: SwitchSettings,
    /// Its ports: those with settings of their own in the order of the file, then those that
    /// links name.
    pub ports: Vec<NodePort>,
}

impl Node {
    /// Whether it makes devices beside its ports, which routing daemons run on.
    pub fn needs_root(&self) -> bool {
        self.router.as_ref().is_some_and(|router| router.kernel)
    }

    /// Whether a port is an interface of the node's router, and no port of its switch.
    pub fn routes_at(&self, port: usize) -> bool {
        let Some((router, port)) = self.router.as_ref().zip(self.ports.get(port)) else {
            return false;
        };
        let place = InterfacePlace::Port(port.name.clone());
        router.interfaces.iter().any(|i| i.place == place)
    }

    /// A node with the usual settings and no ports yet.
    pub fn new(name: &str, switch: SwitchSettings) -> Node {
        Node {
            name: name.to_string(),
            backend: Backend::Auto,
            fast_table: FastTable::default(),
            workers: 1,
            cpu: None,
            native: false,
            forwarding: Forwarding::default(),
            router: None,
            named: None,
            daemons: Vec::new(),
            switch,
            ports: Vec::new(),
        }
    }
}

/// A port of a node. Each is the end of exactly one cable.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePort {
    /// Its name, unique in its node; it fits a network device.
    pub name: String,
    /// What it may lead to, where there is a controller.
    pub role: PortUse,
    /// How it switches.
    pub settings: PortSettings,
    /// Faults added to what it receives, besides those of the link.
    pub faults: Option<FaultSettings>,
}

impl NodePort {
    /// A port with the usual settings.
    pub fn new(name: &str) -> NodePort {
        NodePort {
            name: name.to_string(),
            role: PortUse::Auto,
            settings: PortSettings::default(),
            faults: None,
        }
    }
}

/// A controller, cabled to a port of its own at a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// Its name, unique among devices and controllers.
    pub name: String,
    /// Where it is cabled: index into [`Topology::nodes`]. That port is not among [`Node::ports`].
    pub node: usize,
    /// What its core is configured with; [`Topology::controller_settings`] adds reservations.
    pub settings: ControllerSettings,
}

/// Name of the node's port that a controller is cabled to.
pub const CONTROLLER_PORT: &str = "ctl";
/// Names of the ports of a node that a member of etcd and a controller's box are cabled to, where
/// they reach each other in-band.
pub const IN_BAND_PORTS: [&str; 2] = ["etcd", "box"];
/// Name of the controller's own device.
pub const CONTROLLER_DEVICE: &str = "ctl0";

/// A device that is neither node nor bridge: it speaks plain Ethernet and IP.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Its name, unique among devices.
    pub name: String,
    /// Its addresses, all on its first interface.
    pub addresses: Vec<InterfaceAddress>,
    /// Its one IPv4 address comes from the controller by DHCP.
    pub dhcp: bool,
    /// Its default gateways, at most one of each IP version.
    pub gateways: Vec<IpAddr>,
    /// It forwards packets of other hosts, as a router does.
    pub forwards: bool,
    /// Its interfaces, in the order in which links name them; a host without a link has none.
    pub interfaces: Vec<Interface>,
    /// The Ethernet address of its first interface.
    pub mac: MacAddr,
}

impl Host {
    /// The IPv4 address that it gets by DHCP; `None` where it does not ask.
    pub fn leased_address(&self) -> Option<Ipv4Addr> {
        let v4 = |a: &InterfaceAddress| match a.address {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        };
        self.dhcp.then(|| self.addresses.iter().find_map(v4)).flatten()
    }

    /// Its first address of the IP version of `other`, or of any version.
    pub fn address_like(&self, other: Option<IpAddr>) -> Option<IpAddr> {
        let mut addresses = self.addresses.iter().map(|a| a.address);
        match other {
            None => addresses.next(),
            Some(other) => addresses.find(|a| a.is_ipv4() == other.is_ipv4()),
        }
    }
}

/// Where a host's cable goes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, unique in its host; it fits a network device.
    pub name: String,
    /// Its Ethernet address, unique in the topology.
    pub mac: MacAddr,
}

/// A connection between two devices: one cable, or several parallel ones between two nodes.
/// Rate, delay, MTU and loss are those of each cable, in each direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its cables (lanes), at least one, all between the same two devices, ends in equal order.
    pub cables: Vec<[End; 2]>,
    /// Bits/s, counted as a port's rate is; `None`: as fast as it goes.
    pub rate_bits_per_s: Option<u64>,
    /// Time from one end to the other.
    pub delay: Duration,
    /// Largest IP packet in bytes (Ethernet payload).
    pub mtu: u16,
    /// Probability that a frame is lost, 0 to 1.
    pub loss: f64,
}

impl Link {
    /// One cable with the usual properties.
    pub fn new(a: End, b: End) -> Link {
        Link {
            cables: vec![[a, b]],
            rate_bits_per_s: None,
            delay: Duration::ZERO,
            mtu: MTU_USUAL,
            loss: 0.0,
        }
    }

    /// The two devices that it joins.
    pub fn devices(&self) -> [Device; 2] {
        // `cables` is never empty: the reader and the generators see to it.
        self.cables[0].map(End::device)
    }
}

/// MTU of a link that names none.
pub const MTU_USUAL: u16 = 1500;

/// Where a cable ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// At a port of a node: indices into [`Topology::nodes`] and [`Node::ports`].
    Port {
        /// The node.
        node: usize,
        /// Its port.
        port: usize,
    },
    /// At an interface of a host: indices into [`Topology::hosts`] and [`Host::interfaces`].
    Host {
        /// The host.
        host: usize,
        /// Its interface.
        interface: usize,
    },
    /// At a port of a bridge: indices into [`Topology::bridges`] and [`Bridge::ports`].
    Bridge {
        /// The bridge.
        bridge: usize,
        /// Its port.
        port: usize,
    },
}

impl End {
    /// The device at this end.
    pub fn device(self) -> Device {
        match self {
            End::Port { node, .. } => Device::Node(node),
            End::Host { host, .. } => Device::Host(host),
            End::Bridge { bridge, .. } => Device::Bridge(bridge),
        }
    }
}

/// A node, a host or a bridge, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Device {
    /// Index into [`Topology::nodes`].
    Node(usize),
    /// Index into [`Topology::hosts`].
    Host(usize),
    /// Index into [`Topology::bridges`].
    Bridge(usize),
}

/// What a run sends from one host to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its name, unique among flows.
    pub name: String,
    /// The sender: index into [`Topology::hosts`].
    pub from: usize,
    /// The receiver as the file names it.
    pub to: Target,
    /// The address that is sent to: the target's, of an IP version that the sender has; 0.0.0.0
    /// where names are sent to.
    pub to_address: IpAddr,
    /// How it is sent.
    pub proto: Proto,
    /// Payload bits/s offered; always there for UDP. `None`: as fast as it goes.
    pub rate_bits_per_s: Option<u64>,
    /// When it ends.
    pub extent: Extent,
    /// UDP or ICMP payload bytes per packet, or bytes of content of each named Data.
    pub size: u16,
    /// How long after the start of the run, or after the end of [`Flow::after`], it begins.
    pub start: Duration,
    /// The flow that must have ended before: index into [`Topology::traffic`]. No circles.
    pub after: Option<usize>,
    /// TCP: compare what arrives byte by byte with what was sent.
    pub verify: bool,
    /// TCP: the sender's congestion control as the kernel names it, such as `cubic`; `None`: what
    /// its kernel takes by itself.
    pub congestion: Option<String>,
    /// UDP: how its datagrams follow each other.
    pub arrivals: Arrivals,
    /// Requests: what is asked, which all flows of a pattern share.
    pub dialogue: Option<Arc<Dialogue>>,
    /// Web: what is published, and asked for.
    pub site: Option<Site>,
    /// Named data: what there is, and how it is asked for.
    pub catalogue: Option<Catalogue>,
    /// What is expected of it.
    pub expect: Expect,
}

/// How datagrams follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// One in each interval.
    #[default]
    Even,
    /// After pauses that are distributed exponentially, each for itself.
    Poisson,
}

words!(Arrivals { Even = "even", Poisson = "poisson" });

/// The receiver of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A host: index into [`Topology::hosts`].
    Host(usize),
    /// An address, of a host or not.
    Address(IpAddr),
}

/// How a flow is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proto {
    /// A TCP connection.
    Tcp,
    /// UDP datagrams, numbered and time-stamped.
    Udp,
    /// ICMP or ICMPv6 echo requests.
    Icmp,
    /// Requests and responses, each a message of one or several UDP datagrams.
    Request,
    /// HTTP requests that are answered from named data, in a lab: `to` publishes a web site by
    /// name, and a proxy at `from` asks for it; both by their gateways, which forward named data.
    Web,
    /// Interests from `from`, and Data from `to`, in a simulator: both speak Ethernet to nodes that
    /// forward named data.
    Named,
}

words!(Proto {
    Tcp = "tcp",
    Udp = "udp",
    Icmp = "icmp",
    Request = "request",
    Web = "web",
    Named = "named",
});

/// When a flow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// After this many payload bytes.
    Bytes(u64),
    /// After this time.
    Duration(Duration),
    /// After this many packets.
    Packets(u32),
}

/// What is expected of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// That it arrives.
    #[default]
    Pass,
    /// That not one of its packets arrives.
    Blocked,
}

words!(Expect { Pass = "pass", Blocked = "blocked" });

impl Topology {
    /// A topology without contents.
    pub fn new(name: &str) -> Topology {
        Topology { name: name.to_string(), seed: 1, ..Topology::default() }
    }

    /// Leaves out the flows that `keep` does not choose, and the assertions about them. A flow that
    /// waited for one of them waits for what that one waited for.
    pub fn keep_flows(&mut self, keep: impl Fn(&Flow) -> bool) {
        let mut count = 0;
        // Of each flow that is kept: its index among them.
        let index: Vec<Option<usize>> = (self.traffic.iter())
            .map(|flow| {
                let index = keep(flow).then_some(count);
                count += usize::from(index.is_some());
                index
            })
            .collect();
        let mut flows = Vec::new();
        for (flow, _) in self.traffic.iter().zip(&index).filter(|(_, index)| index.is_some()) {
            let mut waits_for = std::iter::successors(flow.after, |&f| self.traffic[f].after);
            let after = waits_for.find_map(|f| index[f]);
            flows.push(Flow { after, ..flow.clone() });
        }
        self.assertions.retain_mut(|assertion| {
            assertion.subjects.retain_mut(|subject| match subject {
                Subject::Flow { flow, .. } => index[*flow].map(|i| *flow = i).is_some(),
                _ => true,
            });
            !assertion.subjects.is_empty()
        });
        self.traffic = flows;
    }

    /// A controller's settings, with a reservation for every host that asks for its address.
    pub fn controller_settings(&self, controller: &Controller) -> ControllerSettings {
        let mut settings = controller.settings.clone();
        let leased = self.hosts.iter().filter_map(|h| Some((h.mac, h.leased_address()?)));
        for (mac, ip) in leased {
            let reservation = Reservation { mac, ip };
            if !settings.reservations.contains(&reservation) {
                settings.reservations.push(reservation);
            }
        }
        settings
    }

    /// A device's name.
    pub fn device_name(&self, device: Device) -> &str {
        match device {
            Device::Node(node) => &self.nodes[node].name,
            Device::Host(host) => &self.hosts[host].name,
            Device::Bridge(bridge) => &self.bridges[bridge].name,
        }
    }

    /// An end's name, as in `s1.p1` or `h1.eth0`.
    pub fn end_name(&self, end: End) -> String {
        match end {
            End::Port { node, port } => {
                format!("{}.{}", self.nodes[node].name, self.nodes[node].ports[port].name)
            }
            End::Host { host, interface } => {
                format!("{}.{}", self.hosts[host].name, self.hosts[host].interfaces[interface].name)
            }
            End::Bridge { bridge, port } => {
                format!("{}.{}", self.bridges[bridge].name, self.bridges[bridge].ports[port])
            }
        }
    }

    /// Every cable with its link's index and its lane (from 0) in that link.
    pub fn cables(&self) -> impl Iterator<Item = (usize, usize, [End; 2])> + '_ {
        self.links.iter().enumerate().flat_map(|(link, l)| {
            l.cables.iter().enumerate().map(move |(lane, ends)| (link, lane, *ends))
        })
    }

    /// The host that has this address, if any; the first of them where several have. Who asks
    /// for each flow takes [`HostsByAddress`].
    pub fn host_with(&self, address: IpAddr) -> Option<usize> {
        self.hosts.iter().position(|h| h.addresses.iter().any(|a| a.address == address))
    }
}

/// Of each address: the host that has it, as [`Topology::host_with`] finds it.
pub struct HostsByAddress(HashMap<IpAddr, usize>);

impl HostsByAddress {
    /// Of the hosts of a topology.
    pub fn new(topology: &Topology) -> HostsByAddress {
        let mut hosts = HashMap::new();
        for (index, host) in topology.hosts.iter().enumerate() {
            for address in &host.addresses {
                hosts.entry(address.address).or_insert(index);
            }
        }
        HostsByAddress(hosts)
    }

    /// The host that has this address, if any; the first of them where several have.
    pub fn get(&self, address: IpAddr) -> Option<usize> {
        self.0.get(&address).copied()
    }
}
