//! The queues at a board's ports: of frames that come in, and of frames that go out.

use std::collections::VecDeque;

use super::aurora::{Lane, Link};
use super::{Frame, GAP, PREAMBLE, ethernet_bytes};

/// A frame on a cable towards a board.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) frame: Frame,
    /// When its first byte arrives, and when it has arrived.
    pub(super) begins_fs: u64,
    pub(super) ends_fs: u64,
}

/// A host that sends frames of one size, one as long after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) frame: Frame,
    pub(super) next_fs: u64,
    pub(super) interval_fs: u64,
    /// The period of the host's byte clock.
    pub(super) period_fs: u64,
}

impl Source {
    fn next(&mut self) -> Arrival {
        let begins_fs = self.next_fs;
        self.next_fs += self.interval_fs;
        let bytes = ethernet_bytes(self.frame.bytes.into()) - GAP;
        Arrival { frame: self.frame, begins_fs, ends_fs: begins_fs + bytes * self.period_fs }
    }
}

/// What comes to a port, and waits there until it is whole and the arbiter takes it.
#[derive(Clone, Debug, Default)]
pub(super) struct RxQueue {
    /// Where frames come from: a host, or what another board has sent.
    pub(super) source: Option<Source>,
    pub(super) cable: VecDeque<Arrival>,
    /// The frame that is coming in; not kept if there was no room for it.
    coming: Option<(Arrival, bool)>,
    pub(super) whole: VecDeque<Frame>,
    /// Bytes in the FIFO; a frame counts from its first byte to its last one's leaving.
    bytes: u32,
    /// Frames that began to arrive, and those of them that found no room.
    pub(super) begun: u64,
    pub(super) dropped: u64,
}

impl RxQueue {
    /// When the next frame begins to arrive or is whole.
    pub(super) fn next_fs(&self) -> u64 {
        let next = match (self.coming, self.source) {
            (Some((arrival, _)), _) => Some(arrival.ends_fs),
            (None, Some(source)) => Some(source.next_fs),
            (None, None) => self.cable.front().map(|a| a.begins_fs),
        };
        next.unwrap_or(u64::MAX)
    }

    /// Takes what has arrived by now. A frame that begins while more than `full` bytes wait is
    /// dropped, as the reference design's `rx_queue` does.
    pub(super) fn receive(&mut self, now_fs: u64, full: u32) {
        while self.next_fs() <= now_fs {
            if let Some((arrival, kept)) = self.coming.take() {
                self.whole.extend(kept.then_some(arrival.frame));
                continue;
            }
            let next = self.source.as_mut().map(Source::next);
            let Some(arrival) = next.or_else(|| self.cable.pop_front()) else { return };
            let kept = self.bytes <= full;
            self.begun += 1;
            if kept {
                self.bytes += arrival.frame.bytes;
            } else {
                self.dropped += 1;
            }
            self.coming = Some((arrival, kept));
        }
    }

    /// The arbiter has taken the last word of the first frame.
    pub(super) fn taken(&mut self) {
        if let Some(frame) = self.whole.pop_front() {
            self.bytes -= frame.bytes;
        }
    }

    /// Frames that are here, or on the cable.
    pub(super) fn held(&self) -> u64 {
        let coming = self.coming.is_some_and(|(_, kept)| kept);
        (self.whole.len() + self.cable.len()) as u64 + u64::from(coming)
    }
}

/// What waits in memory for a port.
#[derive(Clone, Debug, Default)]
pub(super) struct OutputQueue {
    pub(super) frames: VecDeque<Frame>,
    /// Words of these, and of those that are being stored or removed.
    pub(super) words: u32,
    /// Frames that found no room.
    pub(super) dropped: u64,
}

/// Where a TX queue sends to.
#[derive(Clone, Copy, Debug)]
enum Cable {
    /// The clock from which on the next frame may begin.
    Ethernet(u64),
    Serial(Lane),
}

/// Frames read from memory, whole ones only: what has begun must not wait for the memory.
#[derive(Clone, Debug)]
pub(super) struct TxQueue {
    cable: Cable,
    ready: VecDeque<Frame>,
    /// Words of those, of the one being read and of the one being sent.
    pub(super) words: u32,
    /// Words of the frame that is being sent.
    sending: u32,
    /// When there is something to do: the gap behind that frame has passed.
    pub(super) next_clock: u64,
}

/// A frame that has begun to leave: the clocks of its first and behind its last byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub(super) frame: Frame,
    pub(super) begins: u64,
    pub(super) ends: u64,
}

impl TxQueue {
    pub(super) fn ethernet() -> TxQueue {
        TxQueue::new(Cable::Ethernet(0))
    }

    pub(super) fn serial(link: Link) -> TxQueue {
        TxQueue::new(Cable::Serial(Lane::new(link)))
    }

    fn new(cable: Cable) -> TxQueue {
        TxQueue { cable, ready: VecDeque::new(), words: 0, sending: 0, next_clock: u64::MAX }
    }

    /// A frame has been read whole.
    pub(super) fn put(&mut self, clock: u64, frame: Frame) {
        self.ready.push_back(frame);
        if self.sending == 0 {
            self.next_clock = clock;
        }
    }

    /// Sends the next frame, if there is one, when the last one is done.
    pub(super) fn run(&mut self, clock: u64) -> Option<Departure> {
        self.words -= std::mem::take(&mut self.sending);
        self.next_clock = u64::MAX;
        let frame = self.ready.pop_front()?;
        self.sending = frame.words();
        let bytes = u64::from(frame.bytes);
        let (begins, ends) = match &mut self.cable {
            Cable::Ethernet(free_at) => {
                let begins = clock.max(*free_at);
                *free_at = begins + ethernet_bytes(bytes);
                (begins + PREAMBLE, *free_at - GAP)
            }
            Cable::Serial(lane) => lane.send(clock, bytes),
        };
        self.next_clock = match &self.cable {
            Cable::Ethernet(free_at) => *free_at,
            Cable::Serial(lane) => lane.free_at(),
        };
        Some(Departure { frame, begins, ends })
    }

    pub(super) fn held(&self) -> u64 {
        self.ready.len() as u64
    }
}
