//! Stage 2, input arbiter: which ports fill the next batch.
//!
//! - In: ports, whose stage 1 it runs.
//! - Out: a batch.
//! - Drops: none.
//!
//! Round robin: a batch is filled from port after port, and the next batch begins with the port
//! after the one that filled it. A port that always has packets takes at most one batch before
//! every other port has had its turn.
//!
//! Example: p1 has 150 packets, p2 has 1. The batches, of up to 64, are 64 packets of p1; 1 of p2
//! and 63 of p1; then the last 23 of p1.

use plexus_io::{Batch, Pool, Port, PortId};
use plexus_wire::Time;

use super::receive;

/// The round robin's position.
#[derive(Debug, Default)]
pub(crate) struct Arbiter {
    next: usize,
    /// Ports of which the last batch has all packets that had arrived.
    drained: Vec<PortId>,
}

impl Arbiter {
    /// Fills the batch, asking each port at most once.
    pub(crate) fn run(
        &mut self,
        now: Time,
        pool: &mut Pool,
        ports: &mut [(PortId, Box<dyn Port>)],
        batch: &mut Batch,
    ) {
        self.drained.clear();
        for _ in 0..ports.len() {
            if batch.is_full() {
                return;
            }
            if self.next >= ports.len() {
                self.next = 0;
            }
            let (id, port) = &mut ports[self.next];
            self.next += 1;
            receive::run(now, pool, *id, port.as_mut(), batch);
            if !batch.is_full() && pool.available() > 0 {
                self.drained.push(*id);
            }
        }
    }

    /// Whether the last batch has all packets that had arrived at a port.
    pub(crate) fn has_drained(&self, port: PortId) -> bool {
        self.drained.contains(&port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plexus_io::{BATCH, memory};

    #[test]
    fn a_greedy_port_does_not_starve_the_others() {
        let mut pool = Pool::new(4 * BATCH, 2048).unwrap();
        let (greedy, mut greedy_cable) = memory::port("greedy", 3 * BATCH);
        let (modest, mut modest_cable) = memory::port("modest", 8);
        for _ in 0..3 * BATCH {
            greedy_cable.to_port.push(pool.alloc_from(&[0; 60]).unwrap()).unwrap();
        }
        modest_cable.to_port.push(pool.alloc_from(&[0; 60]).unwrap()).unwrap();
        let mut ports: Vec<(PortId, Box<dyn Port>)> =
            vec![(0, Box::new(greedy)), (1, Box::new(modest))];
        let mut arbiter = Arbiter::default();
        let (mut order, mut drained) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let mut batch = Batch::new();
            arbiter.run(Time::ZERO, &mut pool, &mut ports, &mut batch);
            let from_modest = batch.iter().filter(|p| p.in_port == 1).count();
            order.push((batch.len() - from_modest, from_modest));
            drained.push([0, 1].map(|port| arbiter.has_drained(port)));
            batch.drain(..).for_each(|p| pool.free(p));
        }
        assert_eq!(order, [(BATCH, 0), (BATCH - 1, 1), (BATCH, 0), (1, 0)]);
        assert_eq!(drained, [[false, false], [false, true], [false, true], [true, true]]);
        assert_eq!(pool.available(), pool.frames());
    }
}
