//! Packets on their way to the node's control planes and to its forwarder of names, the limits on
//! what a port may send there, and the ways by which the node's own packets enter the data plane.

use std::collections::VecDeque;

use plexus_io::{Checksum, Offload, Packet, Pool, PortId, Segmentation};
use plexus_wire::fabric::ROUTER_HOP;
use plexus_wire::{EtherType, Protocol, Time, dhcpv4, ethernet, ipv4};

use crate::flow::bytes_hash;
use crate::offload;
use crate::pace::Limiter;
use crate::verdict::{FORWARDED, Punt};

/// The class of control and error frames: network control (IEEE 802.1Q, table I-2).
pub(crate) const CONTROL_CLASS: u8 = 7;
/// Bytes of a super-packet that the control plane sees: enough for all its headers.
const EXCERPT: usize = 128;
/// Bytes of a dropped packet that the control plane sees: an Ethernet header, and the length of the
/// longest error (RFC 4443, 2.4 (c): 1280 bytes; RFC 1812, 4.3.2.3: 576).
pub(crate) const DROPPED_EXCERPT: usize = 14 + 1280;

/// Packets that wait for the forwarder of names, at most.
const NAMED_MAX: usize = 1024;
/// Messages of DHCP clients that one port may send at once.
const DHCP_BURST: u32 = 256;

/// Limits on what a port sends to the control plane, so that no host overloads it: a rate for each
/// kind of packet, and the packets that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlLimits {
    /// Hosts' frames: unknown stations and destinations, groups.
    pub host_pps: u32,
    /// Messages of hosts' DHCP clients. They have a limit of their own: while one host floods other
    /// frames, its neighbours behind the same port still get an address.
    pub dhcp_pps: u32,
    /// Bootstrap frames.
    pub bootstrap_pps: u32,
    /// Frames that could not go where their path led.
    pub error_pps: u32,
    /// Packets that may wait for each worker's control plane; half of them other than control
    /// frames from the fabric.
    pub waiting: usize,
}

impl Default for ControlLimits {
    fn default() -> ControlLimits {
        ControlLimits {
            host_pps: 1000,
            dhcp_pps: 200,
            bootstrap_pps: 100,
            error_pps: 100,
            waiting: 512,
        }
    }
}

/// A packet for a control plane or the forwarder of names; its driver frees it.
#[derive(Debug)]
pub struct ToControl {
    /// Why.
    pub punt: Punt,
    /// The port that it came in by; of a packet for this node's router that another node has sent:
    /// the router's hop.
    pub in_port: PortId,
    /// The frame.
    pub packet: Packet,
}

/// The way by which a packet of the node itself enters the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// Out by this port as it is: a whole Ethernet frame, to a host or to the next bridge.
    Port(PortId),
    /// The same, from the forwarder of names: it waits in the best-effort class.
    Named(PortId),
    /// Along its path: a fabric frame, processed as if it came in by hop 0xFF.
    Fabric,
    /// A host's IP packet to the group's own address, routed as if it had come in by this port of
    /// the fabric.
    Routed(PortId),
    /// An untagged Ethernet frame out by a VLAN: by its router's only port there, or switched.
    Vlan(u16),
    /// An untagged Ethernet frame, processed as if it had come in by the router's interface that
    /// is this VLAN; its source is not looked up.
    Received(u16),
}

/// Packets that wait for the control plane, and the limits on what ports send there.
#[derive(Debug, Default)]
pub(crate) struct ControlQueue {
    pub(crate) waiting: VecDeque<ToControl>,
    /// Packets for the forwarder of names. These are traffic, and have no rate limit.
    pub(crate) named: VecDeque<ToControl>,
    limits: ControlLimits,
    /// By port: hosts' frames, bootstrap, errors, unknown neighbours, neighbour discovery, packets
    /// that are too long, and DHCP. The kinds that a router depends on share no limit with those
    /// that any stranger can send: neighbour discovery goes on during a flood of pings, and path
    /// MTU discovery during a scan.
    ports: Vec<[Option<Limiter>; 7]>,
    /// Stations of other nodes share the limits of the port to their node. Each has a part of them,
    /// by a hash of its address: one that floods keeps no other from the router.
    senders: Box<[Limiter]>,
    seed: u64,
}

/// Entries of stations of other nodes.
const SENDERS: usize = 64;
/// The part of a port's limit that is one entry's.
const SENDER_PART: u32 = 4;

impl ControlQueue {
    /// `seed` keys the hash of stations.
    pub(crate) fn new(seed: u64) -> ControlQueue {
        ControlQueue { seed, ..ControlQueue::default() }
    }

    /// Follows a plan. A limiter whose rate stays keeps its state, so that it grants no new burst.
    pub(crate) fn adopt(&mut self, limits: &ControlLimits, ports: usize) {
        if self.limits != *limits || self.senders.is_empty() {
            self.ports.clear();
            self.senders = vec![Limiter::new(limits.host_pps / SENDER_PART); SENDERS].into();
        }
        self.limits = *limits;
        self.ports.resize_with(ports, Default::default);
    }

    pub(crate) fn admits(&mut self, now: Time, punt: Punt, packet: &Packet, frame: &[u8]) -> bool {
        let l = &self.limits;
        let (which, rate) = match punt {
            Punt::Control | Punt::Named => return true,
            Punt::Host if is_dhcp(frame) => (6, l.dhcp_pps),
            Punt::Host | Punt::Local => (0, l.host_pps),
            Punt::Bootstrap => (1, l.bootstrap_pps),
            Punt::Error(_) => (2, l.error_pps),
            Punt::Unresolved(_) => (3, l.host_pps),
            Punt::Neighbour => (4, l.host_pps),
            Punt::TooBig(_) => (5, l.error_pps),
        };
        if packet.flags & FORWARDED != 0 && !self.sender(frame).is_none_or(|s| s.admits(now)) {
            return false;
        }
        let port = usize::from(packet.in_port);
        let Some(limiters) = self.ports.get_mut(port) else { return true };
        let new = || match which {
            // All stations of a port may be switched on at once.
            6 => Limiter::with_burst(rate, DHCP_BURST),
            _ => Limiter::new(rate),
        };
        limiters[which].get_or_insert_with(new).admits(now)
    }

    /// The limiter of a frame's sender.
    fn sender(&mut self, frame: &[u8]) -> Option<&mut Limiter> {
        let hash = bytes_hash(frame.get(6..12)?, self.seed);
        self.senders.get_mut(hash as usize % SENDERS)
    }

    /// Hosts can fill only half of the queue: the rest is kept for control frames. And no queue
    /// holds more frames than are still free.
    pub(crate) fn has_room(&self, pool: &Pool, punt: Punt) -> bool {
        let (len, max) = match punt {
            Punt::Named => (self.named.len(), NAMED_MAX),
            Punt::Control => (self.waiting.len(), self.limits.waiting),
            _ => (self.waiting.len(), self.limits.waiting / 2),
        };
        len < max.min(pool.available())
    }

    pub(crate) fn push(&mut self, punt: Punt, packet: Packet) {
        let queue = if punt == Punt::Named { &mut self.named } else { &mut self.waiting };
        // A packet for this node's router came by the router's hop. One that the control plane has
        // sent to the router again has no other port.
        let is_for_router = packet.flags & FORWARDED != 0;
        let in_port = if is_for_router { ROUTER_HOP.into() } else { packet.in_port };
        queue.push_back(ToControl { punt, in_port, packet });
    }

    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        self.waiting.drain(..).chain(self.named.drain(..)).for_each(|t| pool.free(t.packet));
    }
}

/// Whether a host's frame is a DHCP client's message (RFC 2131, 4.1): UDP from port 68 to port 67.
pub(crate) fn is_dhcp(frame: &[u8]) -> bool {
    let Ok(frame) = ethernet::Frame::new_checked(frame) else { return false };
    if frame.ethertype() != EtherType::IPV4 {
        return false;
    }
    let Ok(ip) = ipv4::Packet::new_checked(frame.payload()) else { return false };
    let ports = [dhcpv4::CLIENT_PORT, dhcpv4::SERVER_PORT].map(u16::to_be_bytes).concat();
    ip.protocol() == Protocol::UDP && ip.fragment_offset() == 0 && ip.payload().starts_with(&ports)
}

/// Completes what a host left to the hardware. False if its metadata do not fit the frame.
pub(crate) fn finish(pool: &mut Pool, packet: &mut Packet) -> bool {
    if packet.offload.segmentation != Segmentation::None {
        let len = packet.len().min(EXCERPT);
        pool.set_len(packet, len);
    } else if packet.offload.checksum == Checksum::Partial
        && !offload::complete_checksum(pool, packet, 0)
    {
        return false;
    }
    packet.offload = Offload::NONE;
    true
}
