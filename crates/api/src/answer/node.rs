//! Of every node: ports, stations, and the account of its packets.

use std::collections::BTreeMap;
use std::net::SocketAddr;

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
    /// `tcx` or `off`.
    pub kind: String,
    /// Why, in words.
    pub why: String,
    /// Most rules.
    pub capacity: usize,
    /// The ports.
    pub ports: Vec<FastPort>,
    /// The flows of the switch that have a rule, those with most bytes first.
    pub flows: Vec<FastFlow>,
    /// The ways through a fabric node that have a rule.
    pub hops: Vec<FastHop>,
}

/// How much of a port's traffic the fast table forwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastPort {
    /// Its name.
    pub name: String,
    /// Whether its frames may go by the fast table: not without a packet socket, while it is down,
    /// or while it is traced.
    pub forwards: bool,
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
    /// The change of their tag: `keep`, `pop` or `push`.
    pub tag: String,
    /// Whether they go by the table already: not before all earlier ones have left.
    pub forwards: bool,
    /// Packets that it has forwarded.
    pub packets: u64,
    /// Their bytes, less tags.
    pub bytes: u64,
}

/// A way through a fabric node in the fast table, for all hosts' frames that take it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastHop {
    /// The port that its frames come in by.
    pub in_port: String,
    /// The port that they leave by, which their header names.
    pub out_port: String,
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
