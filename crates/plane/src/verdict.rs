//! What the lookup stage decides about a packet, and how the descriptor carries it.

use plexus_io::{Packet, PortId};

use crate::drops::DropReason;

/// The output-port lookup's decision: the descriptor's destination-port set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Out by this port.
    Forward(PortId),
    /// Out by every port of the packet's VLAN but the one it came from.
    Flood,
    /// Not at all.
    Drop(DropReason),
}

const FLOOD: u32 = 1 << 16;
const DROP: u32 = 2 << 16;

impl Verdict {
    /// Writes the decision into the descriptor.
    #[inline]
    pub fn store(self, packet: &mut Packet) {
        packet.verdict = match self {
            Verdict::Forward(port) => u32::from(port),
            Verdict::Flood => FLOOD,
            Verdict::Drop(reason) => DROP | reason as u32,
        };
    }

    /// Reads it back.
    #[inline]
    pub fn load(packet: &Packet) -> Verdict {
        let v = packet.verdict;
        match v >> 16 {
            0 => Verdict::Forward(v as PortId),
            1 => Verdict::Flood,
            _ => Verdict::Drop(DropReason::ALL[(v & 0xFF) as usize % DropReason::COUNT]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plexus_io::Pool;

    #[test]
    fn every_decision_survives_the_descriptor() {
        let mut pool = Pool::new(1, 2048).unwrap();
        let mut packet = pool.alloc().unwrap();
        let drops = DropReason::ALL.iter().map(|&r| Verdict::Drop(r));
        for v in [Verdict::Forward(0), Verdict::Forward(u16::MAX), Verdict::Flood]
            .into_iter()
            .chain(drops)
        {
            v.store(&mut packet);
            assert_eq!(Verdict::load(&packet), v);
        }
        pool.free(packet);
    }
}
