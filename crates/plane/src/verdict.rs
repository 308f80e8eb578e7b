//! What the lookup stage decides about a packet, and how the descriptor carries it.

use plexus_io::{Packet, PortId};

use crate::drops::DropReason;

/// `Packet::flags`: a host's packet that another node of the fabric has sent to the router of this
/// one.
pub(crate) const FORWARDED: u8 = 8;

/// The output-port lookup's decision: the descriptor's destination-port set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Out by this port.
    Forward(PortId),
    /// Out by every port of the packet's VLAN but the one it came from.
    Flood,
    /// Out by every port of the VLAN that it has been routed to, including the input port.
    FloodRouted,
    /// Not at all.
    Drop(DropReason),
    /// By the route of this number, among those of its input port's memory for its destination,
    /// once its owed work is done.
    Route(u8),
    /// A copy to every port of a tree.
    Tree(Origin),
    /// To the control plane.
    Control(Punt),
    /// Out by this port, in fragments as long as the packet's `segment_size` says.
    Fragment(PortId),
}

/// Where a frame that goes along a tree came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A host here: the frame is as the host sent it.
    Host,
    /// Another node, or the control plane: the frame begins with its fabric header.
    Link,
}

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
    /// A packet that was dropped for this reason. Of a fabric frame the beginning: its header
    /// before hop processing, its type now *error*, and up to 64 bytes of its payload. Of a
    /// router's packet the first 1294 bytes, as it came in but without a tag.
    Error(DropReason),
    /// To a router: ARP or neighbour discovery, as an untagged Ethernet frame.
    Neighbour,
    /// To a router's own address: an untagged Ethernet frame whose IP header is in order.
    Local,
    /// A router's packet, as it came in but without a tag, to a neighbour whose Ethernet address
    /// is not known: the neighbour of this number, or the destination itself.
    Unresolved(Option<u16>),
    /// The first 1294 bytes of a router's packet, as it came in but without a tag. It is dropped:
    /// it is longer than the next link's MTU, which is this, and must not be fragmented.
    TooBig(u16),
    /// A frame of named data, to the forwarder of names.
    Named,
}

/// Which part of the node a packet leaves the data plane for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The fabric's control plane.
    Fabric,
    /// The router's control plane.
    Router,
    /// The forwarder of names.
    Names,
}

impl Punt {
    /// Which part of the node it is for. The fabric and the router drop for different reasons.
    pub fn side(self) -> Side {
        match self {
            Punt::Bootstrap | Punt::Host | Punt::Control => Side::Fabric,
            Punt::Error(
                DropReason::NoHop
                | DropReason::HopToNowhere
                | DropReason::NotEthernetForHost
                | DropReason::StaleRoute,
            ) => Side::Fabric,
            Punt::Neighbour | Punt::Local | Punt::Unresolved(_) => Side::Router,
            Punt::TooBig(_) | Punt::Error(_) => Side::Router,
            Punt::Named => Side::Names,
        }
    }

    /// For packets that are dropped, of which the control plane sees a copy: why.
    pub(crate) fn dropped_for(self) -> Option<DropReason> {
        match self {
            Punt::Error(reason) => Some(reason),
            Punt::TooBig(_) => Some(DropReason::TooBig),
            _ => None,
        }
    }
}

const FLOOD: u32 = 1 << 16;
const DROP: u32 = 2 << 16;
const ROUTE: u32 = 3 << 16;
const BOOTSTRAP: u32 = 4 << 16;
const HOST: u32 = 5 << 16;
const CONTROL: u32 = 6 << 16;
const ERROR: u32 = 7 << 16;
const TREE_OF_HOST: u32 = 8 << 16;
const TREE_OF_LINK: u32 = 9 << 16;
const FRAGMENT: u32 = 10 << 16;
const NEIGHBOUR: u32 = 11 << 16;
const LOCAL: u32 = 12 << 16;
const GLEAN: u32 = 13 << 16;
const UNRESOLVED: u32 = 14 << 16;
const TOO_BIG: u32 = 15 << 16;
const FLOOD_ROUTED: u32 = 16 << 16;
const NAMED: u32 = 17 << 16;

impl Verdict {
    /// Writes the decision into the descriptor.
    #[inline(always)]
    pub fn store(self, packet: &mut Packet) {
        // By far the most frequent one needs no choice among all.
        packet.verdict = match self {
            Verdict::Forward(port) => u32::from(port),
            other => other.code(),
        };
    }

    #[inline(never)]
    fn code(self) -> u32 {
        match self {
            Verdict::Forward(port) => u32::from(port),
            Verdict::Flood => FLOOD,
            Verdict::FloodRouted => FLOOD_ROUTED,
            Verdict::Drop(reason) => DROP | reason as u32,
            Verdict::Route(index) => ROUTE | u32::from(index),
            Verdict::Tree(Origin::Host) => TREE_OF_HOST,
            Verdict::Tree(Origin::Link) => TREE_OF_LINK,
            Verdict::Control(Punt::Bootstrap) => BOOTSTRAP,
            Verdict::Control(Punt::Host) => HOST,
            Verdict::Control(Punt::Control) => CONTROL,
            Verdict::Control(Punt::Error(reason)) => ERROR | reason as u32,
            Verdict::Control(Punt::Neighbour) => NEIGHBOUR,
            Verdict::Control(Punt::Local) => LOCAL,
            Verdict::Control(Punt::Unresolved(None)) => GLEAN,
            Verdict::Control(Punt::Unresolved(Some(n))) => UNRESOLVED | u32::from(n),
            Verdict::Control(Punt::TooBig(mtu)) => TOO_BIG | u32::from(mtu),
            Verdict::Control(Punt::Named) => NAMED,
            Verdict::Fragment(port) => FRAGMENT | u32::from(port),
        }
    }

    /// The place of its port among all ports, for a packet that goes out by one, by far the most
    /// frequent decision; for others a place that no port has.
    #[inline(always)]
    pub(crate) fn place(packet: &Packet) -> usize {
        packet.verdict as usize
    }

    /// Reads it back.
    #[inline]
    pub fn load(packet: &Packet) -> Verdict {
        let v = packet.verdict;
        match v >> 16 {
            0 => Verdict::Forward(v as PortId),
            1 => Verdict::Flood,
            3 => Verdict::Route(v as u8),
            4 => Verdict::Control(Punt::Bootstrap),
            5 => Verdict::Control(Punt::Host),
            6 => Verdict::Control(Punt::Control),
            7 => Verdict::Control(Punt::Error(reason(v))),
            8 => Verdict::Tree(Origin::Host),
            9 => Verdict::Tree(Origin::Link),
            10 => Verdict::Fragment(v as PortId),
            11 => Verdict::Control(Punt::Neighbour),
            12 => Verdict::Control(Punt::Local),
            13 => Verdict::Control(Punt::Unresolved(None)),
            14 => Verdict::Control(Punt::Unresolved(Some(v as u16))),
            15 => Verdict::Control(Punt::TooBig(v as u16)),
            16 => Verdict::FloodRouted,
            17 => Verdict::Control(Punt::Named),
            _ => Verdict::Drop(reason(v)),
        }
    }
}

#[inline]
fn reason(verdict: u32) -> DropReason {
    DropReason::ALL[(verdict & 0xFF) as usize % DropReason::COUNT]
}

#[cfg(test)]
mod tests {
    use super::*;
    use plexus_io::Pool;

    #[test]
    fn every_decision_survives_the_descriptor() {
        let mut pool = Pool::new(1, 2048).unwrap();
        let mut packet = pool.alloc().unwrap();
        let drops = DropReason::ALL.iter();
        let drops = drops.flat_map(|&r| [Verdict::Drop(r), Verdict::Control(Punt::Error(r))]);
        let others =
            [Punt::Bootstrap, Punt::Host, Punt::Control, Punt::Named].map(Verdict::Control);
        let routers = [
            Punt::Neighbour,
            Punt::Local,
            Punt::Unresolved(None),
            Punt::Unresolved(Some(u16::MAX)),
            Punt::TooBig(1280),
        ];
        for v in [Verdict::Forward(0), Verdict::Forward(u16::MAX), Verdict::Flood]
            .into_iter()
            .chain([Verdict::FloodRouted])
            .chain([Verdict::Route(0), Verdict::Route(7)])
            .chain([Origin::Host, Origin::Link].map(Verdict::Tree))
            .chain(others)
            .chain(routers.map(Verdict::Control))
            .chain([Verdict::Fragment(0), Verdict::Fragment(u16::MAX)])
            .chain(drops)
        {
            v.store(&mut packet);
            assert_eq!(Verdict::load(&packet), v);
        }
        pool.free(packet);
    }
}
