//! Ordinary switches: they learn and flood, know nothing of a fabric, and do not forward frames to
//! the nearest-bridge address (IEEE 802.1Q, table 8-1), unless told otherwise.

use std::collections::BTreeMap;

use plexus_wire::{MacAddr, ethernet};

use super::{End, World};

/// More frames than this within a test are a storm.
const FLOODED_MAX: u64 = 20_000;

#[derive(Default)]
pub(crate) struct Switch {
    ports: usize,
    stations: BTreeMap<MacAddr, usize>,
    /// How often a station appeared at another port than before.
    pub(crate) moves: u64,
    flooded: u64,
    /// It also forwards 01-80-C2-00-00-0X, which it should not.
    forwards_all: bool,
}

impl Switch {
    pub(crate) fn forwarding_all(ports: usize) -> Switch {
        Switch { ports, forwards_all: true, ..Switch::default() }
    }
}

impl World {
    /// An ordinary switch with cables to these.
    pub(crate) fn switch(&mut self, ends: &[End]) -> usize {
        let id = self.switches.len();
        self.switches.push(Switch { ports: ends.len(), ..Switch::default() });
        for (port, end) in ends.iter().enumerate() {
            self.cable(End::Switch(id, port), *end);
        }
        id
    }

    /// A host without a cable.
    pub(crate) fn new_host(&mut self) -> End {
        self.hosts.push(super::Host::new(self.hosts.len()));
        End::Host(self.hosts.len() - 1)
    }

    pub(crate) fn switch_frame(&mut self, id: usize, port: usize, bytes: Vec<u8>) {
        let switch = &mut self.switches[id];
        let frame = ethernet::Frame::new_checked(&bytes[..]).unwrap();
        let (src, dst) = (frame.src(), frame.dst());
        let link_local = dst.0[..5] == [1, 0x80, 0xC2, 0, 0] && dst.0[5] < 0x10;
        if link_local && !switch.forwards_all {
            return;
        }
        if switch.stations.insert(src, port).is_some_and(|before| before != port) {
            switch.moves += 1;
        }
        let to: Vec<usize> = match switch.stations.get(&dst) {
            Some(&known) if !dst.is_multicast() => vec![known],
            _ => (0..switch.ports).collect(),
        };
        switch.flooded += u64::from(to.len() > 1);
        assert!(switch.flooded < FLOODED_MAX, "a storm");
        for out in to.into_iter().filter(|out| *out != port) {
            self.transmit(End::Switch(id, out), bytes.clone());
        }
    }
}
