//! Stage 5, transmit queues: which waiting packets leave now.
//!
//! - In: packets in the output queues.
//! - Out: each port's transmit batch, which the driver hands to the device.
//! - Parameters: the port's rate.
//! - Drops: none.
//!
//! Strict priority among the classes, turns within them (`output/class.rs`). A paced port sends
//! while its cable is free (`pace.rs`).
//!
//! Example: a batch of p1 has 2 places left, and 3 packets wait: of class 0, 0 and 7. The one of
//! class 7 leaves first, then the older one of class 0; the other one waits for the next batch.

use super::output::deep::Store;
use super::output::{OutputQueues, PortQueues};
use crate::context::Context;

/// Tops up every port's transmit batch.
#[inline]
pub(crate) fn run(context: &mut Context<'_>, queues: &mut OutputQueues) {
    queues.fill(|port, store| fill(context, port, store));
}

fn fill(context: &Context<'_>, port: &mut PortQueues, store: &mut Store) {
    if let Some(mut pacer) = port.pacer.take() {
        pacer.resume(context.now);
        while !port.transmit.is_full() && pacer.free_at() <= context.now {
            let Some(packet) = port.pop(context.now, store) else {
                // Packets that wait for the shaper leave the cable idle.
                pacer.rest();
                break;
            };
            pacer.spend(&packet);
            port.transmit.push(packet);
        }
        port.pacer = Some(pacer);
        return;
    }
    while !port.transmit.is_full() {
        let Some(packet) = port.pop(context.now, store) else { return };
        port.transmit.push(packet);
    }
}
