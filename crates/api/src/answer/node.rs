//! Of every node: ports, stations, and the account of its packets.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use plexus_wire::MacAddr;
use serde::{Deserialize, Serialize};

/// Counts by reason.
pub type Counts = BTreeMap<String, u64>;

/// Of `show ports`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ports {
    /// The node's name.
    pub node: String,
    /// Its ports, in the order of the file.
    pub ports: Vec<Port>,
}

/// A port and what it has counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its device; absent for a tunnel.
    pub device: Option<String>,
    /// Its ends, if it is a tunnel.
    pub tunnel: Option<Tunnel>,
    /// `af_xdp`, `af_packet`, `tap`, `udp` or `pcap`.
    pub backend: String,
    /// How the back-end works on this device, in words.
    pub how: String,
    /// The worker that serves it.
    pub worker: usize,
    /// Whether it has a carrier.
    pub link: LinkState,
    /// How often it lost the carrier.
    pub link_downs: u64,
    /// Its VLANs.
    pub vlan: Vlan,
    /// The limit at which it sends, if there is one.
    pub rate_bits_per_s: Option<u64>,
    /// Packets that came in.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Lost before the node saw them.
    pub rx_overflow: u64,
    /// Arrived, but too long or damaged.
    pub rx_invalid: u64,
    /// Came to a tunnel from elsewhere than its other end.
    pub rx_foreign: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// The device can never send them.
    pub tx_rejected: u64,
    /// The network answered that it cannot deliver them.
    pub tx_refused: u64,
    /// Packets that wait to be sent.
    pub queued_packets: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Packets from it that were routed.
    pub routed: u64,
    /// Packets dropped, for any reason.
    pub dropped: u64,
    /// Packets marked as having met congestion (RFC 3168).
    pub ecn_marked: u64,
    /// Stations learned.
    pub learned: u64,
    /// Stations that came from another port.
    pub moved: u64,
    /// Stations that the table had no room for.
    pub table_full: u64,
}

impl Port {
    /// Packets that the pipeline never had, or that left it for nothing.
    pub fn lost(&self) -> u64 {
        let lost_on_arrival = self.rx_overflow + self.rx_invalid + self.rx_foreign;
        lost_on_arrival + self.tx_rejected + self.tx_refused
    }
}

/// Whether a port has a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// It has.
    Up,
    /// It has none.
    Down,
}

impl LinkState {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            LinkState::Up => "up",
            LinkState::Down => "down",
        }
    }
}

/// The ends of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    /// Here.
    pub local: SocketAddr,
    /// There.
    pub peer: SocketAddr,
}

/// The VLANs of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Vlan {
    /// Frames have no tag and belong to this VLAN.
    Access {
        /// The VLAN.
        access: u16,
    },
    /// Frames have tags.
    Trunk {
        /// First and last of each range of VLANs that pass.
        trunk: Vec<(u16, u16)>,
        /// The VLAN of frames without a tag, if those pass.
        native: Option<u16>,
    },
}

/// Of `show macs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Macs {
    /// The node's name.
    pub node: String,
    /// Stations that the table has room for.
    pub capacity: usize,
    /// The stations.
    pub macs: Vec<Station>,
}

/// A station that the switch knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Station {
    /// Its address.
    pub mac: MacAddr,
    /// Its VLAN.
    pub vlan: u16,
    /// Its port's name.
    pub port: String,
    /// It stays until the node ends.
    #[serde(rename = "static")]
    pub is_static: bool,
    /// Time since it was last heard.
    pub age_s: f64,
}

/// Of `show drops` at a node: where every packet went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drops {
    /// The node's name.
    pub node: String,
    /// The account of all ports.
    pub account: Account,
    /// Packets dropped, by reason.
    pub drops: Counts,
    /// The same by port.
    pub ports: BTreeMap<String, Counts>,
    /// Packets by port that the pipeline never had, or that a device would not send.
    pub losses: BTreeMap<String, Counts>,
    /// The meaning of each reason, in words.
    pub meaning: BTreeMap<String, String>,
    /// Consumed packets that the control planes did not serve, by reason.
    pub unserved: Counts,
}

/// `received + copied + injected = sent + consumed + rejected + dropped + lost + held`, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Came to the ports.
    pub received: u64,
    /// Copies made of them.
    pub copied: u64,
    /// Made by the control planes.
    pub injected: u64,
    /// Given to the devices.
    pub sent: u64,
    /// That a device can never send.
    pub rejected: u64,
    /// Dropped for a reason.
    pub dropped: u64,
    /// Those received that the pipeline never had.
    pub lost: u64,
    /// Handed to the control planes.
    pub consumed: u64,
    /// In queues and rings.
    pub held: u64,
    /// Whether both sides are equal.
    pub balances: bool,
}

/// Of `show fast-table`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FastTable {
    /// The node's name.
    pub node: String,
    /// `tcx`, `xdp` or `off`.
    pub kind: String,
    /// Why, in words.
    pub why: String,
    /// Most rules.
    pub capacity: usize,
    /// Rules that were made since the node started.
    pub made: u64,
    /// Of these, rules that gave way to flows with more packets.
    pub gave_way: u64,
    /// The ports.
    pub ports: Vec<FastPort>,
    /// The flows of the switch that have a rule, those with most bytes first.
    pub flows: Vec<FastFlow>,
    /// The ways through a fabric node that have a rule.
    pub hops: Vec<FastHop>,
}

/// Of `show flows` at a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flows {
    /// The node's name.
    pub node: String,
    /// Seconds that the sample lasted.
    pub seconds: f64,
    /// The flows, those with most bits first.
    pub flows: Vec<FlowRate>,
    /// Packets per second that are no IP, or of flows beyond the 16,384 of a sample.
    pub others_packets_per_s: f64,
    /// Rules that the fast table was given, per second; none: there is no fast table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules_per_s: Option<f64>,
    /// Rules that gave way to flows with more packets, per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swaps_per_s: Option<f64>,
}

/// A flow and its rate. In the pipeline that is from a sample: of a batch of more than four
/// packets, one stands for all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowRate {
    /// The port that its packets come in by.
    pub in_port: String,
    /// The port that they leave by; null: they are routed, flooded, or for the box itself.
    pub out_port: Option<String>,
    /// IP address and port; in the kernel the Ethernet address.
    pub source: String,
    /// Likewise.
    pub destination: String,
    /// `tcp`, `udp`, `icmp` or a number; in the kernel the EtherType, or `fabric`.
    pub protocol: String,
    /// Bits of its frames per second.
    pub bits_per_s: f64,
    /// Packets per second; a super-packet is one.
    pub packets_per_s: f64,
    /// `kernel` or `pipeline`.
    pub place: String,
    /// The reason, in words.
    pub why: String,
}

/// Of `show buffers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buffers {
    /// The node's name.
    pub node: String,
    /// Bytes that may wait in the deep buffers of all workers.
    pub budget: u64,
    /// Bytes that wait there.
    pub used: u64,
    /// Flows that are long, and bypass the buffer.
    pub long_flows: usize,
    /// The ports whose queue is deep.
    pub ports: Vec<BufferPort>,
}

/// A port with a deep queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BufferPort {
    /// Its name.
    pub name: String,
    /// Packets in its own queue.
    pub own_packets: u32,
    /// Those of them that are of long flows.
    pub long_packets: u32,
    /// Packets in the deep buffer.
    pub deep_packets: u32,
    /// Their bytes, as on the cable.
    pub deep_bytes: u64,
    /// Most bytes that it ever had there.
    pub deep_bytes_max: u64,
    /// Packets of shaped sources.
    pub shaped_packets: u32,
    /// Whether packets are redirected to the deep buffer now.
    pub redirects: bool,
    /// Times that redirection began.
    pub redirections: u64,
    /// Packets redirected since the node started.
    pub redirected: u64,
    /// Of these, packets for which its own queue had no room: drops that were avoided.
    pub drops_avoided: u64,
    /// Mean time in the deep buffer, in microseconds.
    pub delay_mean_us: f64,
    /// The longest, in microseconds.
    pub delay_max_us: f64,
}

/// Of `show suspects`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspects {
    /// The node's name.
    pub node: String,
    /// Their treatment: `show` or `shape`.
    pub treatment: String,
    /// The suspects of now.
    pub suspects: Vec<Suspect>,
    /// How often a source became a suspect since the node started.
    pub found: u64,
    /// The last of these sources, oldest first.
    pub history: Vec<SuspectSource>,
}

/// A source of packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspectSource {
    /// The port that its packets come in by.
    pub port: String,
    /// Its IP address, or its Ethernet address if it sends something else; `others`: those of the
    /// port beyond the 16 that the node tells apart.
    pub address: String,
}

/// A source of low-rate bursts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspect {
    /// The source.
    pub from: SuspectSource,
    /// The port that its bursts leave by.
    pub to: String,
    /// Seconds since it became one.
    pub since_s: f64,
    /// Its bytes in the last three seconds.
    pub bytes: u64,
    /// Its bursts in that time.
    pub bursts: u32,
}

/// How much of a port's traffic the fast table forwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastPort {
    /// Its name.
    pub name: String,
    /// Whether its frames may go by the fast table: not without a place in the kernel, while it is
    /// down, or while it is traced.
    pub forwards: bool,
    /// Whether rules may lead to it: at the XDP hook not to a cable whose far end does not poll.
    pub sends: bool,
    /// Whether flows may enter the fabric by it: its link reaches another node's socket as it is,
    /// and that node takes super-packets. Null: it leads to no node, or without encapsulation.
    #[serde(default)]
    pub takes_owed: Option<bool>,
    /// Packets that came in.
    pub rx_packets: u64,
    /// Those of them that went by the fast table.
    pub fast_packets: u64,
}

/// A flow in the fast table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastFlow {
    /// The port that its frames come in by.
    pub in_port: String,
    /// The port that they leave by.
    pub out_port: String,
    /// Source address.
    pub source: MacAddr,
    /// Destination address.
    pub destination: MacAddr,
    /// Their EtherType.
    pub ethertype: u16,
    /// The VLAN of their tag, if they have one.
    pub vlan: Option<u16>,
    /// The change of their tag: `keep`, `pop`, `push` or `swap`. `fabric`: they enter the fabric,
    /// behind a header of it.
    pub tag: String,
    /// Of a flow that is routed, or has one of several routes in the fabric: the addresses of its
    /// IP packets.
    #[serde(default)]
    pub route: Option<FastRoute>,
    /// Whether they go by the table already: not before all earlier ones have left.
    pub forwards: bool,
    /// Packets that it has forwarded.
    pub packets: u64,
    /// Their bytes, less tags.
    pub bytes: u64,
}

/// The addresses of a routed flow in the fast table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastRoute {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source and destination port, if the flow is only the packets with these.
    #[serde(default)]
    pub ports: Option<(u16, u16)>,
    /// The next hop's Ethernet address; in the fabric the station's.
    pub next_hop: MacAddr,
    /// Whether another node of the fabric has sent the packets to the router of this one.
    #[serde(default)]
    pub from_node: bool,
}

/// A way through a fabric node in the fast table, for all hosts' frames that take it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastHop {
    /// The port that its frames come in by.
    pub in_port: String,
    /// The port that they leave by, which their header names.
    pub out_port: String,
    /// The station at that port, where they leave the fabric; null: they go on in it.
    #[serde(default)]
    pub station: Option<MacAddr>,
    /// Whether the group's router has sent them to the station.
    #[serde(default)]
    pub routed: bool,
    /// Whether they go by the table already.
    pub forwards: bool,
    /// Packets that it has forwarded.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Of `show node`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The node's name.
    pub node: String,
    /// Its version.
    pub version: String,
    /// Time since it started.
    pub uptime_s: f64,
    /// Its workers.
    pub workers: usize,
    /// The pool of each worker.
    pub frames: Vec<Frames>,
    /// Whether its account balances.
    pub balances: bool,
}

/// The frames of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frames {
    /// Free ones.
    pub free: usize,
    /// All.
    pub all: usize,
}
