//! What the data plane hands to the node's control plane, how much of it, and how the control
//! plane's own packets enter.

use std::collections::VecDeque;

use plexus_io::{Checksum, Offload, Packet, Pool, PortId, Segmentation};
use plexus_wire::{EtherType, Protocol, Time, dhcpv4, ethernet, ipv4};

use super::plan::ControlLimits;
use crate::drops::DropReason;
use crate::offload;
use crate::pace::Limiter;
use crate::pipeline::Context;

/// What the control plane is shown of a super-packet: enough to see who talks to whom.
const EXCERPT: usize = 128;
/// What the control plane is shown of a packet that was dropped: an Ethernet header, and as much as
/// the longest error may have in all (RFC 4443, 2.4 (c): 1280 bytes; RFC 1812, 4.3.2.3: 576).
const DROPPED_EXCERPT: usize = 14 + 1280;

/// Messages of DHCP clients that one port may send at once.
const DHCP_BURST: u32 = 256;

/// Why a packet goes to the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Punt {
    /// An Ethernet frame of the fabric's EtherType to the nearest bridge: a Hello or another link
    /// message, Ethernet header and all. Whether its sender is one of ours is still to be proved.
    Bootstrap,
    /// A host's Ethernet frame that has no route: from a station that is not admitted at its port,
    /// or to a group or an unknown destination. It stands for a frame with the default header,
    /// whose single hop is the control plane. Its checksums are complete; of a super-packet only
    /// the first 128 bytes are there.
    Host,
    /// A fabric frame whose hop was the control plane, from the fabric header on, after hop
    /// processing: the reverse path leads back.
    Control,
    /// Something that was dropped for this reason. Of a fabric frame the beginning: its header
    /// before hop processing, its type now *error*, and up to 64 bytes of what it carried. Of
    /// a router's packet the first 1294 bytes, as it came in but for a tag.
    Error(DropReason),
    /// To a router: ARP or neighbour discovery, as an untagged Ethernet frame.
    Neighbour,
    /// To a router's own address: an untagged Ethernet frame whose IP header is in order.
    Local,
    /// A router's packet, as it came in but for a tag, to a neighbour whose Ethernet address is
    /// not known: that of this number, or the destination itself.
    Unresolved(Option<u16>),
    /// The first 1294 bytes of a router's packet, as it came in but for a tag, that is dropped: it
    /// is longer than the next link's IP packets, which have at most so many bytes, and may not be
    /// fragmented.
    TooBig(u16),
}

impl Punt {
    /// For packets that are dropped, of which the control plane sees a copy: why.
    fn dropped_for(self) -> Option<DropReason> {
        match self {
            Punt::Error(reason) => Some(reason),
            Punt::TooBig(_) => Some(DropReason::TooBig),
            _ => None,
        }
    }
}

/// A packet for the control plane, who frees it.
#[derive(Debug)]
pub struct ToControl {
    /// Why.
    pub punt: Punt,
    /// The port that it came in by.
    pub in_port: PortId,
    /// The frame.
    pub packet: Packet,
}

/// How a packet of the control plane leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By this port as it is: a whole Ethernet frame, to a host or to the next bridge.
    Port(PortId),
    /// Along its path: a fabric frame, processed as if it came in by hop 0xFF.
    Fabric,
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
    limits: ControlLimits,
    /// By port: hosts' frames, bootstrap, errors, unknown neighbours, neighbours' news, packets
    /// that are too long, and DHCP. Of what a router depends on, none shares a limit with what
    /// strangers may send: a flood of pings silences no gateway, and a scan does not hide a path's
    /// MTU.
    ports: Vec<[Option<Limiter>; 7]>,
}

impl ControlQueue {
    /// Follows a plan; a limiter whose rate stays has no new burst to give.
    pub(crate) fn adopt(&mut self, limits: &ControlLimits, ports: usize) {
        if self.limits != *limits {
            self.ports.clear();
        }
        self.limits = *limits;
        self.ports.resize_with(ports, Default::default);
    }

    fn admits(&mut self, now: Time, punt: Punt, port: PortId, frame: &[u8]) -> bool {
        let l = &self.limits;
        let (which, rate) = match punt {
            Punt::Control => return true,
            Punt::Host if is_dhcp(frame) => (6, l.dhcp_pps),
            Punt::Host | Punt::Local => (0, l.host_pps),
            Punt::Bootstrap => (1, l.bootstrap_pps),
            Punt::Error(_) => (2, l.error_pps),
            Punt::Unresolved(_) => (3, l.host_pps),
            Punt::Neighbour => (4, l.host_pps),
            Punt::TooBig(_) => (5, l.error_pps),
        };
        let Some(limiters) = self.ports.get_mut(usize::from(port)) else { return true };
        let new = || match which {
            // All stations of a port may be switched on at once.
            6 => Limiter::with_burst(rate, DHCP_BURST),
            _ => Limiter::new(rate),
        };
        limiters[which].get_or_insert_with(new).admits(now)
    }

    /// What no host can fill is kept for control frames; and the control plane holds no more
    /// frames than are still free.
    fn has_room(&self, pool: &Pool, punt: Punt) -> bool {
        let max = match punt {
            Punt::Control => self.limits.waiting,
            _ => self.limits.waiting / 2,
        };
        self.waiting.len() < max.min(pool.available())
    }

    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        self.waiting.drain(..).for_each(|t| pool.free(t.packet));
    }
}

/// Hands a packet to the control plane, or drops it.
pub(crate) fn hand_over(context: &mut Context<'_>, punt: Punt, mut packet: Packet) {
    let in_port = packet.in_port;
    if let Some(reason) = punt.dropped_for() {
        context.counters.drop(in_port, reason);
        let fits = context.control.has_room(context.pool, punt);
        if fits && context.control.admits(context.now, punt, in_port, context.pool.data(&packet)) {
            // The frame is dropped and accounted for; the control plane's is another.
            context.counters.copied(in_port, 1);
            let len = packet.len().min(DROPPED_EXCERPT);
            context.pool.set_len(&mut packet, len);
            return consume(context, punt, packet);
        }
        return context.pool.free(packet);
    }
    if !context.control.admits(context.now, punt, in_port, context.pool.data(&packet)) {
        return context.drop(packet, in_port, DropReason::ControlRate);
    }
    if !context.control.has_room(context.pool, punt) {
        return context.drop(packet, in_port, DropReason::ControlFull);
    }
    let is_whole = !matches!(punt, Punt::Control | Punt::Bootstrap);
    if is_whole && !finish(context.pool, &mut packet) {
        return context.drop(packet, in_port, DropReason::BadOffload);
    }
    consume(context, punt, packet);
}

/// Whether a host's frame is a DHCP client's message (RFC 2131, 4.1): UDP from port 68 to port 67.
fn is_dhcp(frame: &[u8]) -> bool {
    let Ok(frame) = ethernet::Frame::new_checked(frame) else { return false };
    if frame.ethertype() != EtherType::IPV4 {
        return false;
    }
    let Ok(ip) = ipv4::Packet::new_checked(frame.payload()) else { return false };
    let ports = [dhcpv4::CLIENT_PORT, dhcpv4::SERVER_PORT].map(u16::to_be_bytes).concat();
    ip.protocol() == Protocol::UDP && ip.fragment_offset() == 0 && ip.payload().starts_with(&ports)
}

fn consume(context: &mut Context<'_>, punt: Punt, packet: Packet) {
    let in_port = packet.in_port;
    context.counters.consumed(in_port);
    context.control.waiting.push_back(ToControl { punt, in_port, packet });
}

/// Completes what a host left to the hardware. False if its metadata do not fit the frame.
fn finish(pool: &mut Pool, packet: &mut Packet) -> bool {
    if packet.offload.segmentation != Segmentation::None {
        let len = packet.len().min(EXCERPT);
        pool.set_len(packet, len);
    } else if packet.offload.checksum == Checksum::Partial
        && !offload::complete_checksum(pool, packet)
    {
        return false;
    }
    packet.offload = Offload::NONE;
    true
}
