//! Settings of a port and of the switch. A node's own file and the topology file share these, so
//! that the same words mean the same in a lab, a simulation and a daemon.

use std::time::Duration;

use plexus_wire::MacAddr;

use crate::deep_buffer::DeepBufferSettings;
use crate::words;

/// A port's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// VLAN membership.
    pub vlan: VlanMode,
    /// Transmit rate in bits/s as on an Ethernet cable of that speed: each frame costs 24 bytes
    /// more (preamble, FCS, gap) and at least 84. `None`: as fast as the device takes it.
    pub rate_bits_per_s: Option<u64>,
    /// Limits of the output queues.
    pub queue: QueueSettings,
    /// Limits on frames that are copied to many ports.
    pub storm: StormSettings,
    /// How many stations may be learned here; frames of further ones are dropped.
    pub mac_limit: Option<u32>,
    /// Whether stations are learned here.
    pub learning: bool,
    /// Which marking of the sender chooses the traffic class. Files that say nothing get `None` on
    /// an access port, since a host could starve all others, and `Pcp` on a trunk.
    pub trust: Trust,
    /// Traffic class 0 to 7 where no marking is trusted or present.
    pub priority: u8,
}

impl Default for PortSettings {
    fn default() -> PortSettings {
        PortSettings {
            vlan: VlanMode::Access(1),
            rate_bits_per_s: None,
            queue: QueueSettings::default(),
            storm: StormSettings::default(),
            mac_limit: None,
            learning: true,
            trust: Trust::None,
            priority: 0,
        }
    }
}

/// VLAN membership of a port (IEEE 802.1Q).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VlanMode {
    /// Untagged frames, in and out, belong to this VLAN (1 to 4094). Frames tagged with another
    /// VLAN are dropped.
    Access(u16),
    /// Tagged frames of these VLANs; untagged frames belong to `native`, or are dropped.
    Trunk {
        /// VLANs carried, as inclusive ranges within 1 to 4094.
        allowed: Vec<(u16, u16)>,
        /// VLAN sent and received untagged.
        native: Option<u16>,
    },
}

/// In which order the packets of a traffic class leave that wait at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueOrder {
    /// Flows take turns, each with the same share of the cable.
    #[default]
    Fair,
    /// The ports that the packets came in by take turns.
    Port,
    /// First come, first served.
    Fifo,
    /// Bursts wait in the box's deep buffer, long flows in the port's own queue.
    Deep,
}

words!(QueueOrder { Fair = "fair", Port = "port", Fifo = "fifo", Deep = "deep" });

/// Limits of each of a port's eight output queues, one per traffic class, and their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// The scheduling of the queue.
    pub order: QueueOrder,
    /// Most packets waiting in a queue.
    pub packets: u32,
    /// Most bytes waiting in a queue.
    pub bytes: u32,
    /// Queue length in bytes above which ECN-capable packets are marked (RFC 3168), if their flow
    /// has at least its share of the queue. `None`: never.
    pub ecn_bytes: Option<u32>,
}

impl Default for QueueSettings {
    /// 512 packets or 1 MiB: 60 ms of full-size frames at 100 Mbit/s.
    fn default() -> QueueSettings {
        let order = QueueOrder::default();
        QueueSettings { order, packets: 512, bytes: 1 << 20, ecn_bytes: None }
    }
}

/// Most packets per second that a port may send to many ports at once, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StormSettings {
    /// Broadcast frames.
    pub broadcast_pps: Option<u32>,
    /// Multicast frames.
    pub multicast_pps: Option<u32>,
    /// Unicast frames with an unknown destination.
    pub unknown_pps: Option<u32>,
}

/// Which marking of the sender chooses the traffic class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// None: every frame has the port's class.
    #[default]
    None,
    /// The priority code point of an 802.1Q tag.
    Pcp,
    /// The upper three bits of the IP differentiated services field (class selector, RFC 2474).
    Dscp,
}

words!(Trust { Pcp = "pcp", Dscp = "dscp", None = "none" });

/// How a fabric node chooses among several routes of a flow: parallel lanes or paths. It chooses
/// the first lane; the route determines the rest of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneChoice {
    /// By the destination's port: ports 0 and 1 of a node by the first route, 2 and 3 by the
    /// second, and so on in turn (`netfpga-aurora.txt` §5).
    Static,
    /// By the hash of the flow's addresses and ports.
    #[default]
    PerFlow,
    /// The least loaded one when the flow begins, or resumes after a pause.
    LeastLoaded,
}

words!(LaneChoice { Static = "static", PerFlow = "per_flow", LeastLoaded = "least_loaded" });

/// What a port of a fabric node may lead to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortUse {
    /// Whatever the node discovers.
    #[default]
    Auto,
    /// Only hosts: proofs of nodes are ignored.
    Host,
    /// Only authenticated nodes and controllers: hosts are not served.
    Fabric,
    /// Not of the fabric: a port of the box's own switch, in VLANs. So is every port that is an IP
    /// interface, whatever its section says.
    Switch,
}

words!(PortUse { Auto = "auto", Host = "host", Fabric = "fabric", Switch = "switch" });

/// Settings of the whole switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchSettings {
    /// How long a station that is silent is remembered.
    pub ageing: Duration,
    /// How many stations can be known at once, static ones included.
    pub mac_table: usize,
    /// Stations that are configured.
    pub static_macs: Vec<StaticMac>,
    /// The deep buffer of ports whose queue has the order `deep`.
    pub deep_buffer: DeepBufferSettings,
}

impl Default for SwitchSettings {
    /// 300 s (the recommended value of IEEE 802.1Q, 8.8.3) and 65,536 stations.
    fn default() -> SwitchSettings {
        SwitchSettings {
            ageing: Duration::from_secs(300),
            mac_table: 65_536,
            static_macs: Vec::new(),
            deep_buffer: DeepBufferSettings::default(),
        }
    }
}

/// A station with a configured port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticMac {
    /// Its address, unicast.
    pub mac: MacAddr,
    /// Its VLAN.
    pub vlan: u16,
    /// The name of its port.
    pub port: String,
}
