//! Fast tables: small tables of rules by which frames pass a box without this process. The kernel
//! has one at either of two hooks ([`tcx`], [`xdp`]). For tests, [`memory`] is one without a
//! kernel, and [`chaos`] makes any of them misbehave.
//!
//! A rule says what to do with the packets of one flow ([`Key`]): by which port they leave, and
//! what is changed of them. Packets that no rule matches come in by the port's back-end, as they do
//! without a fast table.
//!
//! # No packet overtakes another of its flow
//!
//! When a rule is made, earlier packets of its flow may still wait in this process. So a rule first
//! counts the packets that it lets through to the back-end ([`FastTable::passed`]), and forwards
//! none. Its owner says how many of these have left the box ([`FastTable::settle`]). The rule
//! begins to forward when every packet that it let through has left. A packet that the back-end
//! has, and that is counted just then, makes the rule wait again.
//!
//! Where packets come without a pause, that never happens. If the back-end drops some of them all
//! the same, the owner can have the rule hold packets back ([`FastTable::hold`]): these are
//! dropped and counted until all earlier ones have left.
//!
//! A device with several transmit queues may still send the last packets of this process after the
//! first ones of the table.

pub mod chaos;
mod kernel;
pub mod memory;
pub mod tcx;
pub mod xdp;

use std::io;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use plexus_wire::{FlowKey, MacAddr, Protocol};

use crate::af_xdp::PortProgram;
use crate::packet::PortId;

/// The frames that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The frames of a flow.
    Flow(Flow),
    /// The packets of a flow that is routed, or that enters the fabric by one of several routes.
    Routed(Routed),
    /// Hosts' frames in the fabric that come in by a fabric port ([`FastTable::set_link`]), and
    /// whose next hop is this one.
    Hop {
        /// The port that they come in by; it becomes their first reverse hop.
        in_port: PortId,
        /// Their next hop.
        hop: u8,
    },
    /// Of such frames the IP packets whose next hop is the port of a host, by station. Those that
    /// a router of the fabric has sent have rules of their own.
    Delivery {
        /// The fabric port that they come in by.
        in_port: PortId,
        /// Their next hop: the port that they leave by, without what the fabric has put before
        /// them.
        hop: u8,
        /// The station's Ethernet address.
        destination: MacAddr,
        /// Whether a router of the fabric has sent them.
        is_routed: bool,
    },
}

impl Key {
    /// The port that the frames come in by.
    pub fn in_port(&self) -> PortId {
        match self {
            Key::Flow(flow) | Key::Routed(Routed { flow, .. }) => flow.in_port,
            Key::Hop { in_port, .. } | Key::Delivery { in_port, .. } => *in_port,
        }
    }

    /// Whether they are packets that another node has sent to the router of this one.
    pub fn is_from_node(&self) -> bool {
        matches!(self, Key::Routed(Routed { is_from_node: true, .. }))
    }

    /// Whether the frames come in by a fabric port, behind a header of the fabric.
    pub fn is_in_fabric(&self) -> bool {
        matches!(self, Key::Hop { .. } | Key::Delivery { .. }) || self.is_from_node()
    }
}

/// A flow: everything that a switch looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// The port that its frames come in by.
    pub in_port: PortId,
    /// Priority and VLAN of its frames' 802.1Q tag, if they have one.
    pub tag: Option<u16>,
    /// Destination address.
    pub destination: MacAddr,
    /// Source address.
    pub source: MacAddr,
    /// The protocol, behind the tag.
    pub ethertype: u16,
}

impl Flow {
    /// The flow of a frame that comes in by a port; none if it is no frame.
    #[inline]
    pub fn of(in_port: PortId, frame: &[u8]) -> Option<Flow> {
        let header: &[u8; 14] = frame.first_chunk()?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, a, b] = *header;
        let (tag, ethertype) = match u16::from_be_bytes([a, b]) {
            0x8100 => {
                let [c, d, e, f] = *frame.get(14..)?.first_chunk()?;
                (Some(u16::from_be_bytes([c, d])), u16::from_be_bytes([e, f]))
            }
            ethertype => (None, ethertype),
        };
        let destination = MacAddr([d0, d1, d2, d3, d4, d5]);
        let source = MacAddr([s0, s1, s2, s3, s4, s5]);
        Some(Flow { in_port, tag, destination, source, ethertype })
    }
}

/// Protocol and ports of TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ports {
    /// The protocol's number.
    pub protocol: u8,
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
}

/// A flow of IP packets from one address to another: to the router, or by a route of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Routed {
    /// Their frames; of packets from a node, the hosts' frames inside, which have no tag.
    pub flow: Flow,
    /// Whether another node of the fabric has sent them to the router of this one. They come in by
    /// a fabric port ([`FastTable::set_link`]), behind a header whose next hop is
    /// [`ROUTER_HOP`](plexus_wire::fabric::ROUTER_HOP).
    pub is_from_node: bool,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Only packets with these ports; none: all packets. A pair of addresses has rules of one kind
    /// at a time.
    pub ports: Option<Ports>,
}

impl Routed {
    /// All packets between the addresses of an IP packet in a frame of this flow; none if it is no
    /// IP packet.
    #[inline]
    pub fn of(flow: Flow, frame: &[u8]) -> Option<Routed> {
        let packet = frame.get(if flow.tag.is_some() { 18 } else { 14 }..)?;
        let (source, destination) = match flow.ethertype {
            0x0800 => {
                let ends: &[[u8; 4]; 2] = packet.get(12..20)?.as_chunks().0.first_chunk()?;
                (IpAddr::from(ends[0]), IpAddr::from(ends[1]))
            }
            0x86DD => {
                let ends: &[[u8; 16]; 2] = packet.get(8..40)?.as_chunks().0.first_chunk()?;
                (IpAddr::from(ends[0]), IpAddr::from(ends[1]))
            }
            _ => return None,
        };
        Some(Routed { flow, is_from_node: false, source, destination, ports: None })
    }

    /// The same for packets with the ports of this packet alone; none if it has none, or only
    /// behind an extension header.
    #[inline]
    pub fn with_ports_of(self, frame: &[u8]) -> Option<Routed> {
        let FlowKey { protocol: Protocol(protocol), ports, .. } = FlowKey::from_frame(frame)?;
        let (source, destination) = ports.filter(|_| matches!(protocol, TCP | UDP))?;
        let next_header = if self.flow.tag.is_some() { 18 + 6 } else { 14 + 6 };
        if self.source.is_ipv6() && frame.get(next_header) != Some(&protocol) {
            return None;
        }
        Some(Routed { ports: Some(Ports { protocol, source, destination }), ..self })
    }

    /// The same for packets that another node has sent to the router of this one.
    pub fn from_node(self) -> Routed {
        Routed { is_from_node: true, ..self }
    }

    /// The key by which flows are hashed; none without ports.
    pub fn five_tuple(&self) -> Option<FlowKey> {
        let Ports { protocol, source, destination } = self.ports?;
        Some(FlowKey {
            vlan: None,
            src: self.source,
            dst: self.destination,
            protocol: Protocol(protocol),
            ports: Some((source, destination)),
        })
    }

    /// The key of all packets between the addresses.
    pub fn hosts(&self) -> FlowKey {
        let (src, dst) = (self.source, self.destination);
        FlowKey { vlan: None, src, dst, protocol: Protocol(0), ports: None }
    }

    /// The same for all packets between the addresses.
    pub fn without_ports(self) -> Routed {
        Routed { ports: None, ..self }
    }
}

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The change of a frame's 802.1Q tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// It stays as it is, also if there is none.
    Keep,
    /// It is taken off.
    Pop,
    /// One with this priority and VLAN is added.
    Push(u16),
    /// One with this priority and VLAN takes its place.
    Swap(u16),
}

/// One step of a routed packet: it gets other Ethernet addresses, and its time to live becomes one
/// less. Of a [delivery](Key::Delivery) the addresses alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The next hop's Ethernet address, and the router's there.
    pub addresses: [u8; 12],
    /// Bytes of the longest IP packet there.
    pub mtu: u16,
}

/// The treatment of a rule's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// The port that they leave by. The hop of a frame in the fabric is processed before
    /// (`axon.txt` §4.1.1), and it gets the Ethernet header of this port's link.
    pub out_port: PortId,
    /// The tag of a flow's frames.
    pub tag: Tag,
    /// Of a hop the Ethernet header of the output port's link. Of a flow that enters the fabric,
    /// or is routed within it, also the fabric's header behind it: both are put before the frame.
    /// A flow may enter by a device that [takes what packets owe](FastTable::set_link) only.
    pub front: Option<Front>,
    /// The step of a routed flow, which is taken before it enters the fabric, or of a delivery of
    /// what was routed. A packet that a router does not send on as it is comes in by the
    /// back-end. If it may leave by the same port later, the rule [waits](self) for it: if it has
    /// options, is longer than the MTU, or is a super-packet other than TCP.
    pub step: Option<Step>,
}

impl Action {
    /// Whether a table can treat the packets of a key like this: those from a node are routed, and
    /// get no tag.
    fn is_for(&self, key: &Key) -> bool {
        !key.is_from_node() || self.step.is_some() && self.tag == Tag::Keep
    }
}

/// Bytes that a frame in the fabric begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    len: u8,
    bytes: [u8; FRONT_MAX],
}

/// Bytes of the longest [`Front`]: an Ethernet header, and a fabric header with 20 hops.
pub const FRONT_MAX: usize = 40;

impl Front {
    /// The Ethernet header of a link, and a header of the fabric or nothing. None if that is too
    /// long for a rule.
    pub fn new(link: &[u8; 14], header: &[u8]) -> Option<Front> {
        let mut bytes = [0; FRONT_MAX];
        let (first, rest) = bytes.split_first_chunk_mut()?;
        *first = *link;
        rest.get_mut(..header.len())?.copy_from_slice(header);
        Some(Front { len: (link.len() + header.len()) as u8, bytes })
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }

    /// The Ethernet header.
    pub fn link(&self) -> [u8; 14] {
        std::array::from_fn(|n| self.bytes[n])
    }
}

/// The Ethernet headers of frames on a link of the fabric, behind which the fabric's header stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricLink {
    /// Of frames that are sent.
    pub out: [u8; 14],
    /// Of frames that are taken.
    pub back: [u8; 14],
    /// Whether the node there takes what packets owe.
    pub takes_owed: bool,
}

/// Bytes of a sample at most, without a tag.
pub const SAMPLE_MAX: usize = 128;

/// Bytes of the sample of a packet: fewer than it has, so that the socket's port can tell the two
/// apart. Neither number includes a tag.
pub(crate) fn sample_len(packet_len: usize) -> usize {
    SAMPLE_MAX.min(packet_len.saturating_sub(1))
}

/// Samples of a port's packets between two calls of [`FastTable::maintain`]. They wait in the
/// socket's buffer of 16 MB among the packets that rules let through. The kernel may count a sample
/// there as all of its packet, at most some 66 KB.
pub const SAMPLES_AT_ONCE: u64 = 128;

/// A rule's number. It names no other rule before [`FastTable::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(pub u32);

/// The packets that a rule [holds back](FastTable::hold) while it does not forward yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Held {
    /// Nothing: all go to the back-end.
    #[default]
    Nothing,
    /// Super-packets.
    SuperPackets,
    /// All packets.
    All,
}

/// The counts of a rule since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets forwarded.
    pub packets: u64,
    /// Their bytes as they came in, less a tag.
    pub bytes: u64,
    /// Packets held back and dropped.
    pub held: u64,
    /// Bytes taken off in front, of a [delivery](Key::Delivery) or of packets from a node.
    pub taken_off: u64,
}

/// The kernel's end of a port, for a fast table.
#[derive(Clone, Copy, Debug)]
pub struct KernelEnd<'a> {
    /// The device's number.
    pub index: u32,
    /// Where its frames come in.
    pub entrance: Entrance<'a>,
    /// The longest frame that it sends, in bytes without tags.
    pub max_frame: usize,
}

/// The place of a port where its frames come in from the kernel.
#[derive(Clone, Copy, Debug)]
pub enum Entrance<'a> {
    /// A packet socket.
    Socket(BorrowedFd<'a>),
    /// The XDP program of a port with AF_XDP sockets, in the driver.
    Xdp(&'a Arc<PortProgram>),
}

/// A fast table, as a worker sees it. Rules are for packets that come in by the worker's own ports;
/// they may leave by any port of the box.
pub trait FastTable: Send {
    /// Makes a rule. It forwards nothing before it is [settled](FastTable::settle).
    ///
    /// # Errors
    /// `StorageFull`: the table is. `NotFound`: a port is not open, or its link has another header.
    /// `InvalidInput`: no table treats such packets like this. Others: the kernel refuses.
    fn insert(&mut self, key: &Key, action: &Action) -> io::Result<RuleId>;

    /// Ends a rule: at once, no further packet goes by it. One that is on its way may still be
    /// counted.
    fn remove(&mut self, key: &Key, id: RuleId);

    /// Gives the number of a removed rule back. Call it when no packet can be on its way by it any
    /// more: some milliseconds later.
    fn forget(&mut self, id: RuleId);

    /// A rule's counts.
    fn read(&self, id: RuleId) -> Counts;

    /// How many packets a rule has let through to the back-end.
    fn passed(&self, id: RuleId) -> u64;

    /// The first `passed` packets that a rule has let through have left this process, and all from
    /// before it was made.
    fn settle(&self, id: RuleId, passed: u64);

    /// Sets which packets a rule drops while it is not settled.
    fn hold(&self, id: RuleId, held: Held);

    /// A port's frames may be forwarded, in and out. The port is the worker's own. Of one that is
    /// open already the longest frame may have changed. The first time it takes the kernel some
    /// 10 ms.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn open(&mut self, port: PortId, end: KernelEnd<'_>) -> io::Result<()>;

    /// Looks after a port of the worker, some ten times a second: its device may no longer send the
    /// frames that rules give it. Then the rules to it are not [valid](FastTable::is_valid) any
    /// more.
    fn maintain(&mut self, _port: PortId) {}

    /// Takes samples of the packets that come in by a port and that rules forward: about one in so
    /// many, chosen at random. None: of no packet. The back-end hands the samples over
    /// ([`Port::take_samples`](crate::Port::take_samples)), and the packets are forwarded all the
    /// same. The setting survives closing and opening the port.
    ///
    /// There are at most [`SAMPLES_AT_ONCE`] samples until the next
    /// [`maintain`](FastTable::maintain); the others are [missed](FastTable::missed_samples).
    ///
    /// # Errors
    /// `Unsupported`: this table takes no samples.
    fn sample(&mut self, _port: PortId, _one_in: Option<NonZeroU32>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The samples of a port that were not taken because there were too many at once, since the
    /// table was made.
    fn missed_samples(&self, _port: PortId) -> u64 {
        0
    }

    /// A port that has been opened leads to a fabric node. If that takes what packets owe, the
    /// table finds out whether the device does, too: super-packets and unfinished checksums behind
    /// the fabric's header. No hardware can do that work, but a virtual cable can pass it on. While
    /// it does not, no rule leads a flow into the fabric there, or packets that may owe something.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn set_link(&mut self, port: PortId, link: &FabricLink) -> io::Result<()>;

    /// No further frame is forwarded from or to a port, and no rule to it will be
    /// [valid](FastTable::is_valid) again. Its own rules are to be removed before.
    fn close(&mut self, port: PortId);

    /// The same for a port that is given up, or whose device is.
    fn detach(&mut self, port: PortId);

    /// Whether a rule may forward: not if its output port was closed since it was made, which
    /// another worker may have done.
    fn is_valid(&self, id: RuleId) -> bool;

    /// Whether rules may lead to a port: not to a device that does not send redirected frames.
    fn sends(&self, port: PortId) -> bool;

    /// Whether a port's link takes what packets owe.
    fn takes_owed(&self, port: PortId) -> bool;

    /// Whether a port's frames are still forwarded: somebody else may have ended it.
    fn is_open(&self, port: PortId) -> bool;
}
