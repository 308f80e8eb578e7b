//! Stage 1, receive queues: packets of one port enter a batch.
//!
//! - In: packets that the device has received.
//! - Out: packets with `in_port` set, appended to the batch, their headers on the way to the cache.
//! - Drops: none here; losses of the device or of its queue are in the port's own counts.
//!
//! Example: the batch holds 60 packets of port p1, and p2 has received 10. The first 4 of p2 fill
//! the batch; 6 wait in the device for the next one.

use plexus_io::{Batch, Pool, Port, PortId};
use plexus_wire::Time;

/// Appends what `port` has, as far as the batch has room; returns how many.
#[inline]
pub(crate) fn run(
    now: Time,
    pool: &mut Pool,
    id: PortId,
    port: &mut dyn Port,
    batch: &mut Batch,
) -> usize {
    let before = batch.len();
    port.receive(now, pool, batch);
    for packet in &mut batch[before..] {
        packet.in_port = id;
        pool.prefetch(packet);
    }
    batch.len() - before
}
