//! Where a worker's packets wait: one store for the queues of all its ports, which hold numbers of
//! places in it. It grows to the most packets that ever waited and is not given back, so a queue
//! allocates nothing while packets come and go.

use plexus_io::Packet;

/// No place.
pub(super) const NOWHERE: u32 = u32::MAX;

/// The packets, each with the place of the one behind it.
pub(crate) struct Shelf {
    packets: Vec<Option<Packet>>,
    behind: Vec<u32>,
    /// The first of the free places, which are chained like packets.
    free: u32,
}

impl Default for Shelf {
    fn default() -> Shelf {
        Shelf { packets: Vec::new(), behind: Vec::new(), free: NOWHERE }
    }
}

/// A chain of packets on the shelf, first in, first out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    first: u32,
    last: u32,
}

impl Chain {
    pub(super) const EMPTY: Chain = Chain { first: NOWHERE, last: NOWHERE };

    pub(super) fn is_empty(self) -> bool {
        self.first == NOWHERE
    }
}

impl Shelf {
    /// Puts a packet behind the last one of a chain.
    pub(super) fn append(&mut self, chain: &mut Chain, packet: Packet) {
        let place = match self.free {
            NOWHERE => {
                self.packets.push(Some(packet));
                self.behind.push(NOWHERE);
                self.packets.len() as u32 - 1
            }
            place => {
                self.free = self.behind[place as usize];
                self.packets[place as usize] = Some(packet);
                self.behind[place as usize] = NOWHERE;
                place
            }
        };
        match chain.is_empty() {
            true => chain.first = place,
            false => self.behind[chain.last as usize] = place,
        }
        chain.last = place;
    }

    /// Takes the first packet of a chain.
    pub(super) fn take_first(&mut self, chain: &mut Chain) -> Option<Packet> {
        let place = chain.first;
        let packet = self.packets.get_mut(place as usize)?.take();
        chain.first = self.behind[place as usize];
        self.behind[place as usize] = self.free;
        self.free = place;
        packet
    }
}

// Every packet on the shelf costs 36 bytes.
const _: () = assert!(size_of::<Option<Packet>>() == size_of::<Packet>());
