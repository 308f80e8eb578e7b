//! Every reason for which the box drops a packet. A drop without a name does not exist.

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
    /// Tagged twice, the outer tag naming the port's own VLAN: the inner one would show elsewhere.
    DoubleTag = "double_tag",
    /// Untagged on a trunk without a native VLAN.
    Untagged = "untagged",
    /// Its source is configured to be on another port.
    StaticElsewhere = "static_elsewhere",
    /// A station beyond the port's MAC limit.
    MacLimit = "mac_limit",
    /// Its destination is on the port it came from.
    SamePort = "same_port",
    /// No other port of its VLAN is up.
    NoEgress = "no_egress",
    /// Beyond the port's limit of broadcast frames.
    StormBroadcast = "storm_broadcast",
    /// Beyond the port's limit of multicast frames.
    StormMulticast = "storm_multicast",
    /// Beyond the port's limit of frames to unknown stations.
    StormUnknown = "storm_unknown",
    /// The output port is down.
    PortDown = "port_down",
    /// Longer than the output port sends.
    TooLong = "too_long",
    /// The output queue holds as many packets as it may.
    QueuePackets = "queue_packets",
    /// The output queue holds as many bytes as it may.
    QueueBytes = "queue_bytes",
    /// The output port holds its share of the worker's frames.
    PoolShare = "pool_share",
    /// Every frame of the worker's pool is in use.
    NoFrame = "no_frame",
    /// The owed checksum or segmentation does not fit the frame.
    BadOffload = "bad_offload",
    /// The ring to the worker of the output port is full.
    CrossingFull = "crossing_full",
    /// Nobody knows yet what is at the other end of the port's cable.
    PortUnknown = "port_unknown",
    /// A host sent a frame of the fabric's EtherType.
    FabricOnHost = "fabric_on_host",
    /// Its fabric header is not one.
    BadFabric = "bad_fabric",
    /// Not from the link's peer to this port.
    NotPeer = "not_peer",
    /// A host's frame from a controller.
    NotControl = "not_control",
    /// No forward hop is left in its fabric header.
    NoHop = "no_hop",
    /// Its next hop names no port that can take it.
    HopToNowhere = "hop_to_nowhere",
    /// Its next hop is a host's port, and it carries no Ethernet frame.
    NotEthernetForHost = "not_ethernet_for_host",
    /// Its destination is not, or no longer, at the port where its route ends.
    StaleRoute = "stale_route",
    /// It goes along a tree that does not, or no longer, exist here.
    UnknownTree = "unknown_tree",
    /// Nobody else listens to its group.
    NoMember = "no_member",
    /// Beyond what its port may send to the control plane.
    ControlRate = "control_rate",
    /// As many packets wait for the control plane as may.
    ControlFull = "control_full",
    /// It comes from elsewhere with the router's own Ethernet address.
    OwnAddress = "own_address",
    /// To the router's Ethernet address, and of no protocol that it routes.
    NotForUs = "not_for_us",
    /// Version or a length in its IP header is wrong.
    BadIpHeader = "bad_ip_header",
    /// Its IPv4 header's checksum is wrong.
    IpChecksum = "ip_checksum",
    /// An option of its IPv4 header is damaged.
    BadIpOption = "bad_ip_option",
    /// It asks for a route by an IPv4 option (RFC 7126, 4.3).
    SourceRouted = "source_routed",
    /// Its source or destination is no address of a station.
    Martian = "martian",
    /// Its source is of use on its own link only.
    BeyondScope = "beyond_scope",
    /// No route, or one elsewhere, leads to its source.
    ReversePath = "reverse_path",
    /// No route leads to its destination.
    NoRoute = "no_route",
    /// Its time to live has run out.
    TtlExpired = "ttl_expired",
    /// Longer than the next link carries, and may not be fragmented.
    TooBig = "too_big",
    /// Its route says to drop it without a word.
    Blackhole = "blackhole",
    /// Its route says that the destination cannot be reached.
    Unreachable = "unreachable",
    /// Its route says that it is not allowed.
    Prohibited = "prohibited",
    /// To all hosts of a subnet, which routers do not do (RFC 2644).
    DirectedBroadcast = "directed_broadcast",
    /// Its port was made deaf on purpose, to try what a silent cable does.
    Silenced = "silenced",
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
