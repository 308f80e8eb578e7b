//! Every reason for which the box drops a packet. Each has a name and a counter.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DropReason {
            /// All of them, in the order of their numbers.
            pub const ALL: &[DropReason] = &[$(DropReason::$variant,)+];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name that counters, `show drops` and metrics use.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)+ }
            }

            /// What it means, in a sentence.
            pub const fn explain(self) -> &'static str {
                match self { $(DropReason::$variant => concat!($($doc,)+),)+ }
            }
        }
    };
}

reasons! {
    /// Shorter than an Ethernet header, or ends within its 802.1Q tag.
    Runt = "runt",
    /// The source address is a group address or zero.
    BadSource = "bad_source",
    /// Addressed to 01-80-C2-00-00-0X, which bridges do not forward (IEEE 802.1Q, 8.6.3).
    Reserved = "reserved",
    /// Tagged with a VLAN that this port does not carry.
    VlanDenied = "vlan_denied",
    /// Tagged twice, first with the native VLAN: the next switch would read the inner tag.
    DoubleTag = "double_tag",
    /// Untagged on a trunk without a native VLAN.
    Untagged = "untagged",
    /// Its source has a static entry on another port.
    StaticElsewhere = "static_elsewhere",
    /// Its source is new, and the port has reached its MAC limit.
    MacLimit = "mac_limit",
    /// Its destination is on its input port.
    SamePort = "same_port",
    /// No other port of its VLAN is up.
    NoEgress = "no_egress",
    /// Beyond the port's limit of broadcast frames.
    StormBroadcast = "storm_broadcast",
    /// Beyond the port's limit of multicast frames.
    StormMulticast = "storm_multicast",
    /// Beyond the port's limit of frames to unknown unicast addresses.
    StormUnknown = "storm_unknown",
    /// Of a class of packets that pass a function, and would pass by it, or none is there.
    NoFunction = "no_function",
    /// The output port is down.
    PortDown = "port_down",
    /// No forwarder that has the packet's part of the table can be reached.
    NoForwarder = "no_forwarder",
    /// Longer than the output port can send.
    TooLong = "too_long",
    /// The output queue is at its limit of packets.
    QueuePackets = "queue_packets",
    /// The output queue is at its limit of bytes.
    QueueBytes = "queue_bytes",
    /// The output queue has as many packets of long flows as it may have.
    LongFlow = "long_flow",
    /// The deep buffer's budget is spent, and this port uses most of it.
    DeepFull = "deep_full",
    /// The link from the switching chip to the deep buffer is full; only in simulation.
    DeepLink = "deep_link",
    /// The output port already holds its share of the worker's frames.
    PoolShare = "pool_share",
    /// Every frame of the worker's pool is in use.
    NoFrame = "no_frame",
    /// The owed checksum or segmentation does not fit the frame.
    BadOffload = "bad_offload",
    /// The ring to the worker of the output port is full.
    CrossingFull = "crossing_full",
    /// The port has not yet found out what is at the other end of its cable.
    PortUnknown = "port_unknown",
    /// A host sent a frame of the fabric's EtherType.
    FabricOnHost = "fabric_on_host",
    /// Its fabric header is malformed.
    BadFabric = "bad_fabric",
    /// Its Ethernet addresses are not those of the link's peer and of this port.
    NotPeer = "not_peer",
    /// A controller sent a frame that is not a control frame.
    NotControl = "not_control",
    /// No forward hop is left in its fabric header.
    NoHop = "no_hop",
    /// Its next hop names no port that can take it.
    HopToNowhere = "hop_to_nowhere",
    /// Its next hop is a host's port, and it carries no Ethernet frame.
    NotEthernetForHost = "not_ethernet_for_host",
    /// Its destination is not (or no longer) at the port where its route ends.
    StaleRoute = "stale_route",
    /// Its tree does not exist (or no longer exists) here.
    UnknownTree = "unknown_tree",
    /// No other port has a member of its group.
    NoMember = "no_member",
    /// Beyond the port's rate limit of packets to the control plane.
    ControlRate = "control_rate",
    /// The queue to the control plane is full.
    ControlFull = "control_full",
    /// Its source is the router's own Ethernet address.
    OwnAddress = "own_address",
    /// Addressed to the router's Ethernet address, but of a protocol that it does not route.
    NotForUs = "not_for_us",
    /// The version or a length in its IP header is wrong.
    BadIpHeader = "bad_ip_header",
    /// Its IPv4 header's checksum is wrong.
    IpChecksum = "ip_checksum",
    /// An option of its IPv4 header is malformed.
    BadIpOption = "bad_ip_option",
    /// It carries a source route option of IPv4 (RFC 7126, 4.3).
    SourceRouted = "source_routed",
    /// Its source or destination is an address that routers must not forward (RFC 1812, 5.3.7).
    Martian = "martian",
    /// Its source is a link-local address, and its destination is beyond the link.
    BeyondScope = "beyond_scope",
    /// The route to its source is missing or leaves by another interface.
    ReversePath = "reverse_path",
    /// There is no route to its destination.
    NoRoute = "no_route",
    /// Its time to live or hop limit has run out.
    TtlExpired = "ttl_expired",
    /// Longer than the next link's MTU, and must not be fragmented.
    TooBig = "too_big",
    /// Its route is a blackhole: it is dropped without an ICMP error.
    Blackhole = "blackhole",
    /// Its route says that the destination is unreachable.
    Unreachable = "unreachable",
    /// Its route says that the destination is administratively prohibited.
    Prohibited = "prohibited",
    /// A directed broadcast: routers do not forward these by default (RFC 2644).
    DirectedBroadcast = "directed_broadcast",
    /// Its input port was silenced on purpose, to test the failure of a cable.
    Silenced = "silenced",
    /// Its flow was to go by the fast table, and earlier packets had not left yet. Its port dropped
    /// packets anyway, or it was a TCP flow without a pause.
    Held = "held",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_numbers_index_the_list() {
        for (i, &reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason as usize, i);
            assert!(!reason.explain().trim().is_empty());
            assert!(DropReason::ALL[..i].iter().all(|r| r.name() != reason.name()));
        }
    }
}
