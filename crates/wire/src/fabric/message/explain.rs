//! Steps of an explanation (SPEC.md, 18): what a node decides about a packet, and why. They are
//! codes and numbers; the asker makes sentences of them.

use std::net::IpAddr;

use super::{Field, Hops, Reader, invalid};
use crate::error::Error;
use crate::mac::MacAddr;

/// The steps, each with its code.
macro_rules! steps {
    ($($(#[$meta:meta])* $code:literal $name:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty,)*
    })*) => {
        /// A step of an explanation.
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Step { $($(#[$meta])* $name { $($(#[$doc])* $field: $type,)* },)* }

        impl Step {
            /// Code, name and fields of every kind of step.
            pub const KINDS: &[(u8, &str, &[&str])] =
                &[$(($code, stringify!($name), &[$(stringify!($field),)*]),)*];
        }

        impl Field for Step {
            const LEN_MIN: usize = 1;
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Step::$name { $($field,)* } => {
                        out.push($code);
                        $($field.put(out);)*
                    })*
                }
            }
            fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
                Ok(match u8::take(from)? {
                    $($code => {
                        $(let $field = <$type as Field>::take(from)?;)*
                        Step::$name { $($field,)* }
                    })*
                    other => return Err(invalid("step", other)),
                })
            }
        }
    };
}

steps! {
    /// The port is the switch's, and the frame is in this VLAN.
    1 Vlan {
        /// The VLAN.
        vlan: u16,
        /// The frame's tag says so, and not the port.
        tagged: bool,
    }
    /// The port is a host's.
    2 FromHost {
        /// The frame's source is admitted there.
        admitted: bool,
    }
    /// The port leads to another node.
    3 FromNode {}
    /// The port leads to a controller.
    4 FromController {}
    /// Nothing is known yet of the port's neighbour.
    5 Unproved {}
    /// The switch knows the destination at a port.
    6 Station {
        /// The port.
        port: u16,
    }
    /// The switch does not know the destination, and floods.
    7 Unknown {}
    /// The destination is a group, and the switch floods.
    8 Flooded {}
    /// The route memory of the port has routes to the destination.
    9 Routes {
        /// How many.
        count: u8,
        /// The one that the packet takes, from 0.
        chosen: Option<u8>,
        /// How it was chosen.
        by: Choice,
    }
    /// The route memory of the port has no route to the destination.
    10 NoRoutes {}
    /// A header with these hops was pushed.
    11 Pushed {
        /// Its forward hops.
        hops: Hops,
    }
    /// The first hop was taken from the header.
    12 Hop {
        /// It: a port, 0xFE for the router, 0xFF for the control plane.
        hop: u8,
        /// Hops that follow it.
        left: u8,
    }
    /// The header was removed: the destination is admitted at the output port.
    13 Stripped {}
    /// The frame is copied along a tree.
    14 Tree {
        /// The tree's number.
        tree: u32,
        /// Its ports at this node.
        ports: Hops,
    }
    /// The destination is the router's Ethernet address.
    15 ToRouter {}
    /// The router looked an address up.
    16 Lookup {
        /// The address.
        address: IpAddr,
        /// The length of the longest prefix that fits; absent: not known here.
        prefix_len: Option<u8>,
        /// The treatment that it leads to.
        target: Target,
        /// Among how many next hops the flow's hash chooses.
        next_hops: u16,
    }
    /// The router sends the packet to a neighbour.
    17 NextHop {
        /// The neighbour's Ethernet address.
        mac: MacAddr,
        /// The VLAN of the interface; 0: the fabric as a whole.
        vlan: u16,
    }
    /// The router changed the time to live, or hop limit.
    18 Ttl {
        /// Before.
        from: u8,
        /// After.
        to: u8,
    }
    /// The flow has a rule in the kernel, which forwards its packets in the daemon's place.
    19 Kernel {}
    /// The port has a limit for such frames.
    20 Limit {
        /// Of what.
        of: Limited,
        /// The limit: frames in a second, or addresses.
        most: u32,
    }
    /// Packets of its class pass a function, and this is it.
    21 Function {
        /// The function's station.
        mac: MacAddr,
    }
    /// The router cuts the packet.
    22 Fragments {
        /// The longest packet that the next link takes.
        mtu: u16,
    }
    /// The packet, or a copy, is handed to another part of the node.
    23 Handed {
        /// Which, and why.
        to: Handed,
    }
    /// The packet, or a copy, is dropped.
    24 Dropped {
        /// The port that counts it.
        port: u16,
        /// The reason's name, in UTF-8.
        reason: Vec<u8>,
    }
}

codes! {
    /// How one of several routes is chosen.
    Choice, "choice" {
        /// There is only one that can be used.
        Only = 1,
        /// By the destination's port.
        Static = 2,
        /// By the hash of the flow.
        Flow = 3,
        /// The least loaded one, as long as the flow pauses never.
        Load = 4,
        /// By the hash of the addresses, among the nodes that route.
        Hosts = 5,
    }
}

codes! {
    /// The treatment of packets whose route leads there.
    Target, "target" {
        /// There is no route.
        None = 0,
        /// They are sent to a next hop.
        Forward = 1,
        /// They are for a connected network, and the neighbour is not known yet.
        Connected = 2,
        /// They are for the router itself.
        Local = 3,
        /// They are for all hosts of a connected network.
        Broadcast = 4,
        /// They are dropped silently.
        Blackhole = 5,
        /// They are dropped, and the sender is told.
        Unreachable = 6,
        /// They are dropped, and the sender is told that it is prohibited.
        Prohibited = 7,
    }
}

codes! {
    /// Limits of a port.
    Limited, "limited" {
        /// Broadcast frames in a second.
        Broadcast = 1,
        /// Multicast frames in a second.
        Multicast = 2,
        /// Frames to unknown stations in a second.
        Unknown = 3,
        /// Stations that are learned there.
        Stations = 4,
    }
}

codes! {
    /// The part of a node that gets a packet, and why.
    Handed, "handed" {
        /// A link message, to the fabric's control plane.
        Link = 1,
        /// A host's frame without a route, to the fabric's control plane.
        Host = 2,
        /// A frame whose hop is the control plane.
        Control = 3,
        /// The beginning of a frame that is dropped, so that a control plane can tell its sender.
        Error = 4,
        /// ARP or neighbour discovery, to the router's control plane.
        Neighbour = 5,
        /// A packet to the router's own address.
        Local = 6,
        /// A packet whose next hop's Ethernet address is not known.
        Unresolved = 7,
        /// A frame of named data, to its forwarder.
        Named = 8,
    }
}

impl Step {
    /// The steps as bytes, one after another, without a count.
    pub fn write_all(steps: &[Step]) -> Vec<u8> {
        let mut out = Vec::new();
        steps.iter().for_each(|step| step.put(&mut out));
        out
    }

    /// The steps whose bytes follow each other.
    ///
    /// # Errors
    /// Truncated, or an unknown code.
    pub fn read_all(bytes: &[u8]) -> Result<Vec<Step>, Error> {
        let mut from = Reader(bytes);
        let mut steps = Vec::new();
        while !from.0.is_empty() {
            steps.push(Step::take(&mut from)?);
        }
        Ok(steps)
    }
}
