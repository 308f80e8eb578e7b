//! What the lookup stage decides about a packet, and how the descriptor carries it.

use plexus_io::{Packet, PortId};

use crate::drops::DropReason;
use crate::fabric::{Origin, Punt};

/// The output-port lookup's decision: the descriptor's destination-port set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Out by this port.
    Forward(PortId),
    /// Out by every port of the packet's VLAN but the one it came from.
    Flood,
    /// Out by every port of the VLAN that it has been routed to, its own too.
    FloodRouted,
    /// Not at all.
    Drop(DropReason),
    /// By this one of the routes that its input port's memory has for its destination, once the
    /// work that it owes is done.
    Route(u8),
    /// A copy to every port of a tree.
    Tree(Origin),
    /// To the control plane.
    Control(Punt),
    /// Out by this port, in fragments as long as its interface allows.
    Fragment(PortId),
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

impl Verdict {
    /// Writes the decision into the descriptor.
    #[inline]
    pub fn store(self, packet: &mut Packet) {
        packet.verdict = match self {
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
            Verdict::Fragment(port) => FRAGMENT | u32::from(port),
        };
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
        let others = [Punt::Bootstrap, Punt::Host, Punt::Control].map(Verdict::Control);
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
