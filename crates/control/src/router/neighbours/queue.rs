//! Packets that wait for link addresses: bounded per neighbour and in total; the oldest are
//! dropped.

use super::super::input::{InterfaceId, NeighbourId};
use super::super::refusal::Refusal;
use super::{Effect, Neighbours};

/// A packet that waits for a link address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Waiting {
    /// A frame to forward, as received by an interface.
    Forward { interface: InterfaceId, frame: Vec<u8> },
    /// An IP packet of our own.
    Own { packet: Vec<u8> },
}

impl Waiting {
    fn len(&self) -> usize {
        match self {
            Waiting::Forward { frame, .. } => frame.len(),
            Waiting::Own { packet } => packet.len(),
        }
    }
}

impl Neighbours {
    /// Enqueues a packet for a neighbour; the neighbour's and the total limit drop the oldest.
    pub(super) fn enqueue(&mut self, id: NeighbourId, waiting: Waiting) {
        let len = waiting.len();
        if len > self.limits.queue_bytes || self.limits.queue == 0 {
            self.effects.push_back(Effect::Refused(Refusal::QueueFull));
            return;
        }
        let seq = self.next;
        self.next += 1;
        let Some(neighbour) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        neighbour.queue.push_back((seq, waiting));
        let is_over = neighbour.queue.len() > self.limits.queue;
        self.queued.insert(seq, id);
        self.queued_bytes += len;
        if is_over {
            self.drop_first(id);
        }
        while self.queued_bytes > self.limits.queue_bytes {
            let Some((_, &oldest)) = self.queued.first_key_value() else { break };
            self.drop_first(oldest);
        }
    }

    fn drop_first(&mut self, id: NeighbourId) {
        let neighbour = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut);
        let Some((seq, waiting)) = neighbour.and_then(|n| n.queue.pop_front()) else { return };
        self.queued.remove(&seq);
        self.queued_bytes -= waiting.len();
        self.effects.push_back(Effect::Refused(Refusal::QueueFull));
    }

    /// Removes and returns everything that waits for a neighbour.
    pub(super) fn take_queue(&mut self, id: NeighbourId) -> Vec<Waiting> {
        let neighbour = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut);
        let queue = neighbour.map(|n| std::mem::take(&mut n.queue)).unwrap_or_default();
        for (seq, waiting) in &queue {
            self.queued.remove(seq);
            self.queued_bytes -= waiting.len();
        }
        queue.into_iter().map(|(_, waiting)| waiting).collect()
    }

    /// Bytes waiting in total.
    pub(in super::super) const fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }
}
