//! Of a fabric: what its nodes and its controller know.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use plexus_wire::MacAddr;
use plexus_wire::fabric::message::{Hops, PortRole};
use serde::{Deserialize, Serialize};

use super::node::Counts;

/// A node's name, or its number where the controller has not heard its name yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NodeName {
    /// Its name.
    Name(String),
    /// Its number.
    Number(u64),
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeName::Name(name) => f.write_str(name),
            NodeName::Number(number) => write!(f, "node {number}, not heard"),
        }
    }
}

/// Of `show links` at a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// The way to the controller.
    pub controller: Uplink,
    /// How flows choose among parallel cables.
    pub lanes: String,
    /// Its ports.
    pub ports: Vec<Link>,
    /// The least MTU of a fabric link, in bytes.
    pub mtu_min: u16,
}

/// The way to the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uplink {
    /// Absent if there is none.
    pub path: Option<Hops>,
    /// The controller's incarnation.
    pub epoch: u64,
}

/// A port, and the other end of its cable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// The port's name.
    pub port: String,
    /// Its number, which is its hop in source routes.
    pub number: u8,
    /// Its role, as the bootstrap protocol found it.
    pub role: PortRole,
    /// The proved neighbour's name.
    pub neighbour: Option<String>,
    /// The port's own address.
    pub mac: MacAddr,
    /// Its MTU, in bytes.
    pub mtu: u16,
    /// Its rate.
    pub rate_mbit_per_s: u32,
    /// The neighbour's port; 0 without a neighbour.
    pub peer_port: u8,
    /// `native`, `ethertype` or `udp`, once the neighbour is proved.
    pub encapsulation: Option<String>,
    /// The port's device; absent for a tunnel.
    pub device: Option<String>,
    /// Why it has no better role, in words.
    pub reason: Option<String>,
    /// The MTU of the other end, in bytes.
    pub peer_mtu: Option<u16>,
}

/// Of `show hosts` at a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stations {
    /// Those on its ports.
    pub hosts: Vec<Station>,
}

/// A host on a port of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Station {
    /// The port's name.
    pub port: String,
    /// The host's address.
    pub mac: MacAddr,
    /// Its IP addresses.
    pub addresses: Vec<IpAddr>,
}

/// Of `show groups` at a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// Hosts and the groups that they have joined.
    pub joined: Vec<Member>,
    /// The trees that include the node.
    pub trees: Vec<Tree>,
}

/// A host and the multicast groups that it has joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its port's name.
    pub port: String,
    /// Its address.
    pub mac: MacAddr,
    /// The groups.
    pub groups: Vec<IpAddr>,
}

/// A tree at a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// Its number.
    pub tree: u32,
    /// Its ports here, by name.
    pub ports: Vec<String>,
}

/// Of `show source-routes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRoutes {
    /// The route memory.
    pub routes: Vec<SourceRoute>,
}

/// An entry of the route memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRoute {
    /// The host port's name.
    pub port: String,
    /// The host that uses it; absent: all hosts of the port.
    pub source: Option<MacAddr>,
    /// The host that it leads to.
    pub destination: MacAddr,
    /// The paths among which flows are spread.
    pub paths: Vec<Hops>,
    /// Orders changes.
    pub version: u64,
}

/// Of `show topology` at a controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// The controller's incarnation.
    pub epoch: u64,
    /// The nodes.
    pub nodes: Vec<KnownNode>,
    /// Both ends of each link: node, and port number.
    pub links: Vec<[(NodeName, u8); 2]>,
    /// The least MTU of a fabric link, in bytes.
    pub mtu_min: u16,
    /// Nodes that routes avoid.
    #[serde(default)]
    pub drained: Vec<DrainedNode>,
}

/// A node that routes avoid, before work on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrainedNode {
    /// Its name.
    pub node: NodeName,
    /// Flows that lead through it, because they have not been rerouted yet, or there is no other
    /// way. Those of its own hosts do not count.
    pub flows_through: usize,
}

/// A node that the controller knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownNode {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u64,
    /// It has been heard recently.
    pub up: bool,
    /// Its ports, as it last reported them.
    pub ports: Vec<NodePort>,
}

/// A port of a node that the controller knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodePort {
    /// Its number.
    pub port: u8,
    /// Its role, as the bootstrap protocol found it.
    pub role: PortRole,
    /// Its MTU, in bytes.
    pub mtu: u16,
    /// The node at its other end.
    pub peer: Option<NodeName>,
    /// That node's port.
    pub peer_port: u8,
    /// Its rate.
    pub rate_mbit_per_s: u32,
}

/// Of `show hosts` at a controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// Those of the whole fabric.
    pub hosts: Vec<Host>,
}

/// A host of the fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its address.
    pub mac: MacAddr,
    /// Its node.
    pub node: NodeName,
    /// Its port's number.
    pub port: u8,
    /// Its IP addresses.
    pub addresses: Vec<IpAddr>,
    /// The groups of hosts that it belongs to.
    pub groups: Vec<String>,
}

/// Of `show flows` at a controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flows {
    /// The routes that it has handed out.
    pub flows: Vec<Flow>,
}

/// An entry of a node's route memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The node.
    pub node: NodeName,
    /// The host port's number.
    pub port: u8,
    /// The host that uses it; absent: all hosts of the port.
    pub from: Option<MacAddr>,
    /// The host that it leads to.
    pub to: MacAddr,
    /// The paths among which flows are spread; none if there is no way.
    pub paths: Vec<Hops>,
    /// Orders changes.
    pub version: u64,
}

/// Of `show groups` at a controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    /// A tree for each multicast group.
    pub groups: Vec<Group>,
}

/// A multicast group and its tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its Ethernet address.
    pub group: MacAddr,
    /// The IP groups that hosts send to or have joined.
    pub addresses: Vec<IpAddr>,
    /// The groups of hosts that its senders belong to.
    pub of: Vec<String>,
    /// The tree in use; absent while it is being installed.
    pub tree: Option<u32>,
    /// The senders that use it.
    pub senders: Vec<MacAddr>,
    /// Host ports that get copies.
    pub listeners: usize,
    /// The nodes of the tree.
    pub nodes: Vec<TreeNode>,
}

/// A node of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeNode {
    /// The node.
    pub name: NodeName,
    /// The tree's ports there.
    pub ports: Vec<u8>,
}

/// Of `show drops` at a controller, which forwards nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unserved {
    /// Messages and frames that it did not act on, by reason.
    pub drops: Counts,
}

/// Of `show router`, of a node: its copy of the group's forwarding table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterCopy {
    /// Its version.
    pub version: u64,
    /// The node has had a complete table, and routes.
    pub routes_here: bool,
    /// The controller that it follows is reached.
    pub has_controller: bool,
}

/// Of `show router`, of a controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRouter {
    /// Version of the group's forwarding table.
    pub version: u64,
    /// Routes to other networks in it.
    pub routes: usize,
    /// Routes that the controller takes, those that wait for a better one included.
    pub routes_max: usize,
    /// It refuses routes now, because there are as many. It keeps those that it has.
    pub full: bool,
    /// How often it has refused one for that reason.
    pub refused: u64,
    /// Devices on which routing daemons listen.
    pub devices: Vec<RouterDevice>,
    /// Classes of packets that pass a host on their way.
    pub classes: Vec<RouterClass>,
    /// The copies.
    pub nodes: Vec<RouterNode>,
}

/// Of `show controllers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Controllers {
    /// The controller that answers.
    pub controller: String,
    /// Its part now.
    pub role: ControllerRole,
    /// The epoch of the controller that leads; absent: none does.
    pub epoch: Option<u64>,
    /// The controller that leads.
    pub leader: Option<String>,
    /// Seconds since that changed, as far as the one that answers knows.
    pub leader_since_s: f64,
    /// The store.
    pub store: String,
    /// The reason why it cannot be used.
    pub trouble: Option<String>,
    /// Seconds until the lease of the one that answers may end; absent: it has none, or one without
    /// end.
    pub lease_left_s: Option<f64>,
    /// All that have reported to the store; none where it has a store of its own.
    pub controllers: Vec<KnownController>,
}

/// Of `show leases`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leases {
    /// The controller that answers.
    pub controller: String,
    /// Its epoch.
    pub epoch: u64,
    /// Its lease on leadership may have ended, so another controller may know more.
    pub in_doubt: bool,
    /// The group's number, in hexadecimal.
    pub group: String,
    /// By address.
    pub leases: Vec<Lease>,
}

/// An address that was leased to a host by DHCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The address.
    pub address: Ipv4Addr,
    /// The host.
    pub mac: MacAddr,
    /// When it expires, in seconds since 1970. One that has expired is kept for its host while no
    /// other host takes the address.
    pub until_unix_s: u64,
}

/// The part of a controller in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControllerRole {
    /// It waits for its turn.
    Standby,
    /// It has asked for its turn.
    Campaigns,
    /// It leads.
    Leads,
    /// It leads, but its lease may have ended: it promises nothing.
    InDoubt,
    /// It leads without its store, which it does not reach: it tells routes, and promises nothing.
    Provisional,
}

/// A controller that shares the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownController {
    /// Its name.
    pub name: String,
    /// It is cabled to a node.
    pub attached: bool,
    /// Nodes with a session; standbys have none.
    pub nodes: u32,
    /// Seconds since its last report.
    pub reported_s: f64,
}

/// A class of packets that pass a function: a host that routes by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterClass {
    /// Its name.
    pub name: String,
    /// The functions, which share its flows.
    pub functions: Vec<RouterFunction>,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterFunction {
    /// Its address.
    pub address: IpAddr,
    /// The node and the port where it is; absent: it is not there.
    pub at: Option<(NodeName, u8)>,
}

/// A device of routing daemons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterDevice {
    /// Its name.
    pub name: String,
    /// The node and the port that it is cabled to; absent: none has reported that port.
    pub at: Option<(NodeName, u8)>,
}

/// A node's copy of the table, as its controller knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterNode {
    /// The node's name.
    pub name: String,
    /// It is reached.
    pub up: bool,
    /// The version that it has, if it has told in this session.
    pub version: Option<u64>,
    /// Versions that it lacks.
    pub lag: Option<u64>,
    /// It routes for others now, or does not yet; absent: it is no forwarder.
    pub forwards: Option<bool>,
    /// Packets that it routes, per second, if it has said so lately.
    pub routed_per_s: Option<u64>,
    /// How busy its busiest worker is, in thousandths.
    pub busy_permille: Option<u16>,
    /// Places of its weight that are left unused because it is too busy (`balance = "load"`).
    pub places_unused: u8,
    /// Routes that it has once it lacks no version: all of them, or those of its parts of the
    /// address space; absent: it gets none.
    pub routes: Option<usize>,
}

/// Of a request for a route to a controller: what the group's router does with packets to an
/// address, and the boxes that they pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRoute {
    /// The address.
    pub address: IpAddr,
    /// The prefix that decides; absent if there is none.
    pub prefix: Option<String>,
    /// The action on its packets.
    pub action: Action,
    /// Those to whom packets go.
    pub neighbours: Vec<GroupNeighbour>,
    /// Nodes whose copy of the table is of another version: they may decide otherwise.
    pub behind: Vec<NodeName>,
}

/// The action of a group's route on packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// There is no route: senders hear so.
    NoRoute,
    /// Never forwarded: packets to it are dropped (RFC 1812, 5.3.7).
    Martian,
    /// They are for the group itself.
    Own,
    /// They are for all of a subnet: not forwarded.
    Broadcast,
    /// To the station that has the address.
    Deliver,
    /// To hosts that lead to their network.
    Forward,
    /// Dropped in silence.
    Blackhole,
    /// Dropped: senders hear that the destination is unreachable.
    Unreachable,
    /// Dropped: senders hear that the destination is prohibited.
    Prohibited,
}

/// A neighbour of the group's router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupNeighbour {
    /// Its address.
    pub address: IpAddr,
    /// Its share of the flows, relative to the others'.
    pub weight: u8,
    /// The longest IP packet that it takes, in bytes.
    pub mtu: u16,
    /// Its station; absent: it has not been found.
    pub station: Option<StationPlace>,
    /// The paths that hosts have to it. A host gets one when it first sends there.
    pub paths: Vec<GroupPath>,
    /// How many more paths there are.
    pub more: usize,
}

/// Where a station is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StationPlace {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its node.
    pub node: NodeName,
    /// Its port's number.
    pub port: u8,
}

/// A path through the fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPath {
    /// The host that uses it; absent: all hosts of the first port.
    pub from: Option<MacAddr>,
    /// The boxes in order: the first routes, the others forward.
    pub boxes: Vec<PassedBox>,
}

/// A box on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedBox {
    /// Its name.
    pub node: NodeName,
    /// The port's number by which packets come in.
    pub in_port: u8,
    /// The port's number by which they leave.
    pub out_port: u8,
}
