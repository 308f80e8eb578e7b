//! Packets of a batch that came in by one port, in a row. The arbiter takes port after port, so
//! there are few such runs, and what holds for a port is found once for each.

use arrayvec::ArrayVec;
use plexus_io::{BATCH, Batch, Packet, PortId};

use crate::bits::range;

/// The runs of a batch, in its order.
pub(crate) type Runs = ArrayVec<Run, BATCH>;

/// Packets of one port in a row.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) port: PortId,
    /// The place of the first packet, and the place behind the last one.
    from: u8,
    to: u8,
}

impl Run {
    /// The packets of a port from one place to before another.
    pub(crate) fn new(port: PortId, from: usize, to: usize) -> Run {
        Run { port, from: from as u8, to: to as u8 }
    }

    pub(crate) fn from(&self) -> usize {
        self.from.into()
    }

    pub(crate) fn to(&self) -> usize {
        self.to.into()
    }

    /// Bit for each packet.
    pub(crate) fn places(&self) -> u64 {
        range(self.from(), self.to())
    }
}

/// The runs of this batch.
pub(crate) fn of(batch: &Batch) -> Runs {
    let mut runs = Runs::new();
    let Some(&Packet { in_port: port, .. }) = batch.first() else { return runs };
    // Most batches are of one port, which this finds without a branch for each packet.
    if batch.iter().fold(0, |differ, packet| differ | packet.in_port ^ port) == 0 {
        runs.push(Run { port, from: 0, to: batch.len() as u8 });
        return runs;
    }
    let mut from = 0;
    runs.extend(batch.chunk_by(|one, next| one.in_port == next.in_port).map(|packets| {
        let run = Run { port: packets[0].in_port, from, to: from + packets.len() as u8 };
        from = run.to;
        run
    }));
    runs
}
