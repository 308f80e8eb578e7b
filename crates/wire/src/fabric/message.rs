//! Bodies of the fabric's control messages: the contents of a sealed message (SPEC.md, "Bodies").
//!
//! A body is its fields one after another, big-endian, without padding. A list is a count (u16) and
//! its items, an optional value a byte (0 or 1) and the value, an IP address a byte (4 or 6) and
//! its octets. Before the body are its kind (u8) and a request number (u32), which is nonzero if
//! the sender wants an answer that repeats it. Bodies of version 2 have no such number.
//!
//! Everything is bounded by the size of the message: a count that the remaining bytes cannot hold
//! is refused before any allocation.

mod facts;

use std::net::IpAddr;

use super::field::{Field, Reader, invalid};
use crate::error::Error;
use crate::mac::MacAddr;

pub use self::facts::LinkFacts;
pub use super::fib::{FIB_CHANGE_MAX, FIB_HOPS_MAX, FibChange, FibHop, FibTarget};

/// Ports, one per hop: the contents of a frame's forward path.
pub type Hops = Vec<u8>;

/// Longest body in bytes: it must fit the smallest fabric link behind the longest header.
pub const BODY_MAX: usize = 1380;
/// The epoch of a controller that leads provisionally, lower than that of every other one. Several
/// may have it at once: nodes follow the one with the lowest number (SPEC.md, 10).
pub const PROVISIONAL_EPOCH: u64 = 1;

/// Most controllers that stand by, of which a node is told.
pub const STANDBYS_MAX: usize = 7;

/// Longest trial of a version of the common file, in seconds.
pub const COMMON_TRIAL_MAX_S: u32 = 24 * 3600;

/// Codes of named values.
macro_rules! codes {
    ($(#[$meta:meta])* $name:ident, $field:literal {
        $($(#[$doc:meta])* $variant:ident = $code:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$doc])* $variant = $code,)* }

        impl Field for $name {
            const LEN_MIN: usize = 1;
            fn put(&self, out: &mut Vec<u8>) {
                out.push(*self as u8);
            }
            fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
                match u8::take(from)? {
                    $($code => Ok($name::$variant),)*
                    other => Err(invalid($field, other)),
                }
            }
        }
    };
}

/// Structures whose encoding is their fields in order.
macro_rules! structures {
    ($($(#[$meta:meta])* $name:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct $name { $($(#[$doc])* pub $field: $type,)* }

        impl Field for $name {
            const LEN_MIN: usize = 0 $(+ <$type as Field>::LEN_MIN)*;
            #[allow(unused_variables)]
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
            #[allow(unused_variables)]
            fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
                $(let $field = <$type as Field>::take(from)?;)*
                Ok($name { $($field,)* })
            }
        }
    )*};
}

mod codes;
mod explain;
mod short;
pub use codes::{CommonFate, CommonVerb, PortRole, Refusal};
pub use explain::{Choice, Handed, Limited, Step, Target};
pub use short::{Ips, Number, Routes, SHORT_KINDS, Secret, ShortForward, ShortReply, ShortRequest};

/// The bodies, each with its kind.
macro_rules! bodies {
    ($($kind:literal $name:ident,)*) => {
        /// A body with its kind.
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Body { $(#[doc = concat!("Kind ", $kind, ".")] $name($name),)* }

        $(impl From<$name> for Body {
            fn from(body: $name) -> Body {
                Body::$name(body)
            }
        })*

        impl Body {
            /// The code of the body's kind.
            pub fn kind(&self) -> u8 {
                match self { $(Body::$name(_) => $kind,)* }
            }

            /// The body's name, for display.
            pub fn name(&self) -> &'static str {
                match self { $(Body::$name(_) => stringify!($name),)* }
            }

            /// Kind, request number and fields; no number from [`SHORT_KINDS`] on.
            pub fn to_bytes(&self, request: u32) -> Vec<u8> {
                let mut out = vec![self.kind()];
                if self.kind() < SHORT_KINDS {
                    request.put(&mut out);
                }
                match self { $(Body::$name(body) => body.put(&mut out),)* }
                out
            }

            /// Parses a body and its request number.
            ///
            /// # Errors
            /// Truncated: the bytes end before the body. Invalid: an unknown kind or value, or
            /// bytes after the body.
            pub fn parse(bytes: &[u8]) -> Result<(u32, Body), Error> {
                let mut from = Reader(bytes);
                let kind = u8::take(&mut from)?;
                let request = if kind < SHORT_KINDS { u32::take(&mut from)? } else { 0 };
                let body = match kind {
                    $($kind => Body::$name($name::take(&mut from)?),)*
                    other => return Err(invalid("kind", other)),
                };
                match from.0.len() {
                    0 => Ok((request, body)),
                    more => Err(invalid("length", more as u32)),
                }
            }
        }
    };
}

bodies! {
    1 Heartbeat,
    2 Ack,
    3 Goodbye,
    16 ControllerHello,
    17 Welcome,
    18 HostReport,
    19 FlowReport,
    20 ResolveRequest,
    21 ResolveForward,
    22 ResolveReply,
    23 ResolveFailed,
    24 RouteUpdate,
    25 HostSeen,
    26 HostVerdict,
    27 HostGone,
    28 HostProbe,
    29 HostProbeReply,
    30 HostFrame,
    31 HostSend,
    32 PortBlock,
    33 Invalidate,
    34 TreeUpdate,
    35 TreesReady,
    36 GroupRoutes,
    37 GroupMembership,
    38 GroupSender,
    39 GroupPolicy,
    40 NumberTaken,
    41 FibUpdate,
    42 FibAck,
    43 Forwarders,
    44 Way,
    45 Classes,
    46 Load,
    47 Watch,
    48 Counters,
    49 CommonOffer,
    50 CommonOrder,
    51 CommonState,
    52 Names,
    54 Explain,
    55 Explained,
    57 Revoked,
    60 Standbys,
    128 ShortRequest,
    129 ShortForward,
    130 ShortReply,
}

structures! {
    /// From a port to its neighbour, sealed by the adjacency's key: the link is alive, and how to
    /// reach the controller through its sender (seed §4.2.1, "Heartbeat").
    Heartbeat {
        /// The controller's incarnation; a lower one than known is stale.
        epoch: u64,
        /// The controller's node number; zero where `path` is absent.
        controller: u64,
        /// The sender's shortest verified path to the controller, ending in 0xFF.
        path: Option<Hops>,
    }

    /// The request was taken over. Request number: that of the request.
    Ack {}

    /// From a port to its neighbour, sealed by the adjacency's key: the node stops.
    Goodbye {}

    /// From a node: the state of its ports (seed §4.2.1, "Controller Hello"); repeated until a
    /// [`Welcome`] of the same generation and page answers it.
    ControllerHello {
        /// Counts changes of the node's state; a page of an older one is ignored.
        generation: u64,
        /// This page, from 0.
        page: u16,
        /// Pages of this generation.
        pages: u16,
        /// The ports of this page.
        ports: Vec<PortState>,
    }

    /// One port in a [`ControllerHello`].
    PortState {
        /// The port's number: a hop.
        port: u8,
        /// The kind of neighbour.
        role: PortRole,
        /// Its Ethernet address.
        mac: MacAddr,
        /// Largest Ethernet payload in bytes.
        mtu: u16,
        /// Speed in Mbit/s; 0 if unknown.
        rate_mbit_per_s: u32,
        /// The neighbour's node number; 0 without a proved neighbour.
        peer: u64,
        /// The neighbour's port.
        peer_port: u8,
    }

    /// The controller's answer to a [`ControllerHello`].
    Welcome {
        /// The controller's incarnation.
        epoch: u64,
        /// The generation answered.
        generation: u64,
        /// The page answered.
        page: u16,
        /// True until the node has reported its hosts and flows to this incarnation.
        report: bool,
        /// The group's Ethernet address: source of DHCP answers and probes, never a host's.
        group_mac: MacAddr,
        /// The group's own addresses, with the length of their networks' prefixes.
        gateways: Vec<Gateway>,
    }

    /// An address of the group itself.
    Gateway {
        /// The address.
        ip: IpAddr,
        /// Bits of its network's prefix.
        prefix_len: u8,
        /// A station of the fabric has it too: the device that routing daemons listen on.
        daemons: bool,
        /// The longest IP packet that hosts of its network take, in bytes.
        mtu: u16,
    }

    /// Hosts that a node knows, for a controller that has started again.
    HostReport {
        /// Number of messages that follow this one in the same report.
        more: u16,
        /// The hosts.
        hosts: Vec<HostState>,
    }

    /// One station in a [`HostReport`].
    HostState {
        /// Where it is.
        port: u8,
        /// The station.
        mac: MacAddr,
        /// Its addresses, as far as known.
        ips: Vec<IpAddr>,
    }

    /// Routes that a node holds, for a controller that has started again.
    FlowReport {
        /// Number of messages that follow this one in the same report.
        more: u16,
        /// The routes.
        flows: Vec<RouteEntry>,
    }

    /// From the source node: a host asks for an address (seed §4.2.2, "Axon-ARP request"; neighbour
    /// solicitations travel the same way).
    ResolveRequest {
        /// Names the exchange; chosen at random by the source node.
        exchange: u64,
        /// Seals the target node's reply to the source node, and later invalidations.
        key: [u8; 32],
        /// The asking host's port.
        port: u8,
        /// The asking host.
        source_mac: MacAddr,
        /// Its address.
        source_ip: IpAddr,
        /// The requested address.
        target_ip: IpAddr,
    }

    /// From the controller to the target node: the request with the routes of both directions.
    ResolveForward {
        /// As in the request.
        exchange: u64,
        /// As in the request.
        key: [u8; 32],
        /// Orders installations of the same entry: the higher wins.
        version: u64,
        /// As in the request.
        source_mac: MacAddr,
        /// As in the request.
        source_ip: IpAddr,
        /// The target host.
        target_mac: MacAddr,
        /// As in the request.
        target_ip: IpAddr,
        /// The target host's port.
        target_port: u8,
        /// From the target host to the asking host, ending in the asking host's port.
        to_source: Vec<Hops>,
        /// From the asking host to the target host, ending in the target host's port.
        to_target: Vec<Hops>,
    }

    /// From the target node to the source node, sealed by the exchange's key: the target has
    /// answered, and the route back is in place (seed §4.2.2, "Axon-ARP reply").
    ResolveReply {
        /// Orders installations of the same entry.
        version: u64,
        /// The target host.
        target_mac: MacAddr,
        /// Its address.
        target_ip: IpAddr,
        /// From the asking host to the target host.
        to_target: Vec<Hops>,
    }

    /// The address cannot be resolved: from the target node to the controller, or from the
    /// controller to the source node.
    ResolveFailed {
        /// The exchange.
        exchange: u64,
        /// Why.
        reason: Refusal,
    }

    /// From the controller: routes that have changed.
    RouteUpdate {
        /// The entries.
        routes: Vec<RouteEntry>,
    }

    /// One entry of a host port's route memory.
    RouteEntry {
        /// The host port.
        port: u8,
        /// The host on that port that uses it; absent: all of them.
        source: Option<MacAddr>,
        /// The destination.
        destination: MacAddr,
        /// Orders changes of the same entry: the higher wins.
        version: u64,
        /// Equal routes, from the local output port to the destination's port; none: removed.
        routes: Vec<Hops>,
    }

    /// From a node: a station or one of its addresses was heard. The answer is a [`HostVerdict`].
    HostSeen {
        /// Where.
        port: u8,
        /// The station.
        mac: MacAddr,
        /// The address that it claims, if any.
        ip: Option<IpAddr>,
    }

    /// The controller's answer to a [`HostSeen`], or a later change of mind.
    HostVerdict {
        /// As in the request.
        port: u8,
        /// As in the request.
        mac: MacAddr,
        /// As in the request.
        ip: Option<IpAddr>,
        /// Absent: admitted.
        refused: Option<Refusal>,
    }

    /// From a node: a station no longer answers, or its port went down.
    HostGone {
        /// Where it was.
        port: u8,
        /// The station.
        mac: MacAddr,
    }

    /// From the controller: ask this station for this address, as the group.
    HostProbe {
        /// Names the probe.
        exchange: u64,
        /// Where.
        port: u8,
        /// The station.
        mac: MacAddr,
        /// The address.
        ip: IpAddr,
    }

    /// From a node: the result of a [`HostProbe`].
    HostProbeReply {
        /// Names the probe.
        exchange: u64,
        /// The station answered that it has the address.
        alive: bool,
    }

    /// From a node: a frame that the controller answers (DHCP, router solicitations).
    HostFrame {
        /// Where it came in.
        port: u8,
        /// The frame, from its destination address on.
        frame: Vec<u8>,
    }

    /// From the controller: a frame for a host.
    HostSend {
        /// Where it goes out.
        port: u8,
        /// The frame, from its destination address on.
        frame: Vec<u8>,
    }

    /// From the controller: close a port, or open it again.
    PortBlock {
        /// Which.
        port: u8,
        /// Why it is closed; absent: it is open.
        reason: Option<Refusal>,
    }

    /// The last box has no such station at the route's port: from there to the source node, sealed
    /// by the exchange's key, and to the controller.
    Invalidate {
        /// The station that is not there.
        destination: MacAddr,
        /// The host that sent to it.
        source: MacAddr,
    }

    /// From the controller: trees along which frames to groups are copied. A number never gets
    /// another meaning. The node answers with [`TreesReady`].
    TreeUpdate {
        /// Trees of earlier incarnations are taken out, and routes that lead to them.
        earlier: bool,
        /// Trees to install.
        add: Vec<TreeEntry>,
        /// Trees that are taken out.
        remove: Vec<u32>,
    }

    /// A tree's part at one node.
    TreeEntry {
        /// Its number.
        tree: u32,
        /// The ports that get a copy: each leads to a member of the group.
        ports: Vec<u8>,
    }

    /// From a node: these trees are in place.
    TreesReady {
        /// Their numbers.
        trees: Vec<u32>,
    }

    /// From the controller: which hosts send to which groups along which trees.
    GroupRoutes {
        /// The entries.
        routes: Vec<GroupRoute>,
    }

    /// A host's route to a group.
    GroupRoute {
        /// The host's port.
        port: u8,
        /// The host.
        source: MacAddr,
        /// The group's Ethernet address.
        group: MacAddr,
        /// Orders changes of the same entry: the higher wins.
        version: u64,
        /// The tree; absent: there is none.
        tree: Option<u32>,
        /// How many further nodes may forward the host's frames.
        credits: u8,
    }

    /// From a node: all groups that a host has joined.
    GroupMembership {
        /// The host's port.
        port: u8,
        /// The host.
        mac: MacAddr,
        /// Orders the reports about a host: the higher wins.
        version: u64,
        /// The groups.
        groups: Vec<IpAddr>,
    }

    /// From a node: a host sends to a group.
    GroupSender {
        /// The host's port.
        port: u8,
        /// The host.
        mac: MacAddr,
        /// The group.
        group: IpAddr,
        /// The tree that its frames go along now; absent: it has none, and a frame waits.
        tree: Option<u32>,
    }

    /// From the controller: the groups that are served.
    GroupPolicy {
        /// Orders policies: the higher counts.
        version: u64,
        /// Prefixes of groups; the first that fits counts.
        prefixes: Vec<GroupPrefix>,
    }

    /// From the controller: another node that is alive has the number.
    NumberTaken {
        /// The public key of that node.
        key: [u8; 32],
    }

    /// From the controller: changes of the group's forwarding table, in the order of their
    /// versions. The node answers with a [`FibAck`]. A question for that has no changes, and its
    /// number as both versions.
    FibUpdate {
        /// The table that is changed; a higher number is a later one.
        table: u64,
        /// The version that the node must have, or a later one before `to`.
        from: u64,
        /// The version that it has then.
        to: u64,
        /// The version of the controller's table when the message was made. One that is older than
        /// a message that was taken is not taken itself.
        made_at: u64,
        /// The sum of the whole table at that version; absent: more follows.
        sum: Option<u64>,
        /// The changes ([`FibChange::read_all`]).
        changes: Vec<u8>,
    }

    /// From a node: the version of the forwarding table that it has.
    FibAck {
        /// The table.
        table: u64,
        /// The last question that it has heard: so an answer of before is known to be late.
        question: u64,
        /// The version.
        version: u64,
        /// Its sum is not the one that the controller told: the node needs another table.
        wrong: bool,
    }

    /// From the controller: the nodes that route for this one. It sends its hosts' packets to the
    /// group there, by flow.
    Forwarders {
        /// Orders these messages: the higher counts.
        version: u64,
        /// The path to each, ending in 0xFE. A forwarder keeps its place; its path is empty while
        /// it is not to be used.
        paths: Vec<Hops>,
        /// How many of the places each forwarder has, in order.
        places: Vec<u8>,
        /// How many forwarders hold each part of the table; 0: each holds all of it.
        copies: u8,
    }

    /// From the controller, to a forwarder: the answer to a [`ResolveRequest`] from port 0xFE.
    Way {
        /// As in the request.
        exchange: u64,
        /// Orders installations of the same entry: the higher wins.
        version: u64,
        /// The address by which the source host is a neighbour: its own, or that by which it leads
        /// to other networks.
        source_ip: IpAddr,
        /// The station that has the requested address; the group's if that is one of its own.
        target_mac: MacAddr,
        /// Paths from the forwarder to the target; none to the group itself.
        to_target: Vec<Hops>,
        /// Paths from the forwarder to the source host.
        to_source: Vec<Hops>,
    }

    /// From the controller, to a node that routes: the classes of packets that pass a function.
    Classes {
        /// Orders these messages: the higher counts.
        version: u64,
        /// The classes. A packet is of the first that fits.
        classes: Vec<Class>,
    }

    /// Packets that pass one of these functions on their way through the group's router.
    Class {
        /// Their upper-layer protocol; absent: any.
        protocol: Option<u8>,
        /// Where their sources are; absent: anywhere.
        from: Option<Network>,
        /// Where their destinations are; absent: anywhere.
        to: Option<Network>,
        /// The lowest of their destination ports.
        port_first: u16,
        /// The highest.
        port_last: u16,
        /// Packets the other way are of the class too.
        both_ways: bool,
        /// They are dropped while no function is there; otherwise they go on without one.
        required: bool,
        /// The functions. One that is away keeps its place.
        functions: Vec<Function>,
    }

    /// A host that packets of a class pass: a router of its own.
    Function {
        /// Its address in one of the group's networks.
        ip: IpAddr,
        /// Its station; absent: it is not there.
        mac: Option<MacAddr>,
        /// It may be there: the controller has just begun, and not heard it yet. The node keeps the
        /// station that it knows.
        unheard: bool,
    }

    /// An IP network.
    Network {
        /// An address in it.
        ip: IpAddr,
        /// Leading bits that count.
        prefix_len: u8,
    }

    /// From a node that is watched and forwards named data: the prefixes to which it has routes.
    Names {
        /// Those that fit.
        prefixes: Vec<NamePrefix>,
        /// How many more there are.
        more: u32,
    }

    /// A prefix in [`Names`].
    NamePrefix {
        /// Its URI, in UTF-8.
        uri: Vec<u8>,
    }

    /// From a node that routes, every second: how much it has to do.
    Load {
        /// Packets that it has routed since it started.
        routed: u64,
        /// How busy its busiest worker was in the last second, in thousandths.
        busy: u16,
    }

    /// From the controller: a part of the list of revoked keys. Nodes refuse neighbours and
    /// controllers that have one of them.
    Revoked {
        /// Orders the lists: the higher counts.
        version: u64,
        /// This part, from 0.
        part: u16,
        /// Parts of this list.
        parts: u16,
        /// Public keys.
        keys: Vec<[u8; 32]>,
    }

    /// From the controller that leads: the others, with which the node keeps sessions too.
    Standbys {
        /// Orders these messages: the higher counts.
        version: u64,
        /// All of them.
        standbys: Vec<Standby>,
    }

    /// A controller that stands by, in [`Standbys`].
    Standby {
        /// Its node number.
        controller: u64,
        /// It may be asked for addresses ([`ResolveRequest`]).
        answers: bool,
        /// The path to it, ending in 0xFF.
        path: Hops,
    }

    /// From a controller that somebody looks at: the node tells its counters for some time.
    Watch {
        /// How long, in seconds.
        seconds: u8,
    }

    /// From a node that is watched, every second: its counters since it started. A report that does
    /// not fit one message comes in several of the same time.
    Counters {
        /// When it was read, in milliseconds since the node started.
        time_ms: u64,
        /// No more of this time follow.
        last: bool,
        /// Some of its ports.
        ports: Vec<PortCount>,
        /// Some reasons for which it has dropped packets.
        drops: Vec<DropCount>,
        /// Its forwarder of named data.
        named: Option<NamedCount>,
    }

    /// From the controller: a piece of the node's part of the common file. The node checks the
    /// whole part, and answers with a [`CommonState`].
    CommonOffer {
        /// The version of the common file.
        version: u64,
        /// This piece, from 0.
        piece: u16,
        /// Pieces of this version.
        pieces: u16,
        /// Bytes of the text, which is UTF-8.
        text: Vec<u8>,
    }

    /// From the controller: what to do about a version that was offered. The answer is a
    /// [`CommonState`].
    CommonOrder {
        /// The version.
        version: u64,
        /// The order.
        verb: CommonVerb,
        /// After how many seconds a version that is tried is left.
        seconds: u32,
    }

    /// From a node: the version of the common file that it keeps, and what has become of another
    /// one.
    CommonState {
        /// The version that it keeps; 0: none.
        kept: u64,
        /// The version that this is about.
        version: u64,
        /// The fate of that version.
        fate: CommonFate,
        /// Seconds until it is left.
        left_s: u32,
        /// Why it is refused, in UTF-8.
        why: Vec<u8>,
    }

    /// A port in [`Counters`].
    PortCount {
        /// Its number.
        port: u8,
        /// Packets that came in.
        rx_packets: u64,
        /// Their bytes.
        rx_bytes: u64,
        /// Packets sent.
        tx_packets: u64,
        /// Their bytes.
        tx_bytes: u64,
    }

    /// Dropped packets in [`Counters`].
    DropCount {
        /// The reason's name, in UTF-8.
        reason: Vec<u8>,
        /// The packets.
        packets: u64,
    }

    /// A forwarder of named data in [`Counters`].
    NamedCount {
        /// Interests that the content store answered.
        hits: u64,
        /// Interests that it did not answer.
        misses: u64,
        /// Packets in the store's memory.
        packets: u64,
        /// Pending Interests.
        pending: u64,
    }

    /// From a controller: what would the node do with this frame? Nothing happens to it.
    Explain {
        /// The answer repeats it.
        question: u64,
        /// The port that the frame comes in by.
        port: u8,
        /// The frame, as it is on the cable.
        frame: Vec<u8>,
    }

    /// From a node: what it would do with the frame of an [`Explain`].
    Explained {
        /// As in the question.
        question: u64,
        /// The name of the input port, in UTF-8.
        port_name: Vec<u8>,
        /// The decisions in order ([`Step::read_all`]).
        steps: Vec<u8>,
        /// Frames that leave.
        leaves: Vec<Leaving>,
        /// How many more leave.
        more: u16,
    }

    /// A frame in [`Explained`]: some bytes, and the rest of the frame in question.
    Leaving {
        /// The port that it leaves by.
        port: u8,
        /// The port's name, in UTF-8.
        port_name: Vec<u8>,
        /// Its first bytes.
        head: Vec<u8>,
        /// The byte of the frame in question from which on it follows.
        from: u16,
    }

    /// Groups that are served alike.
    GroupPrefix {
        /// The first of the addresses.
        ip: IpAddr,
        /// Leading bits that count.
        prefix_len: u8,
        /// Members have joined (IGMP, MLD); otherwise every host is a member.
        joined: bool,
    }
}

#[cfg(test)]
mod tests;
