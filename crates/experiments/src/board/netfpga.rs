//! One board: five stages, stepped clock by clock.

use std::collections::VecDeque;

use super::memory::{Controller, Side};
use super::queues::{Departure, OutputQueue, RxQueue, TxQueue};
use super::rig::Config;
use super::{ETHERNET, Frame, PORTS, period_fs};

/// Words between the arbiter and the memory (the reference design's input FIFO of the output
/// queues).
const STORE_FIFO: u32 = 8;

/// What moves frames word by word, and how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mover {
    Idle,
    /// Clocks without a word are left before a frame.
    Gap(u32),
    /// Words of it are left.
    Words(u32),
}

/// Ports, a bit each.
#[derive(Clone, Copy, Default)]
struct Ports(u8);

impl Ports {
    fn set(&mut self, port: usize, is_in: bool) {
        self.0 = self.0 & !(1 << port) | u8::from(is_in) << port;
    }

    /// The first of them in turn, beginning with port `at`.
    fn next(self, at: usize) -> Option<usize> {
        let rest = self.0 >> at << at;
        let set = if rest == 0 { self.0 } else { rest };
        (set != 0).then(|| set.trailing_zeros() as usize)
    }
}

pub(super) struct Board {
    pub(super) period_fs: u64,
    /// The clock that comes next.
    pub(super) clock: u64,
    pub(super) rx: [RxQueue; PORTS],
    pub(super) queues: [OutputQueue; PORTS],
    pub(super) tx: [TxQueue; PORTS],
    rx_full: u32,
    queue_words: u32,
    tx_words: u32,
    /// Before this instant nothing arrives.
    next_arrival_fs: u64,
    /// Before this clock no port is done with sending.
    next_departure: u64,
    /// RX queues that hold a whole frame.
    arrived: Ports,
    /// Queues in memory that hold a frame.
    stored: Ports,
    /// The RX queue that the arbiter serves or looks at next, and words left of its first frame.
    arbiter_at: usize,
    arbiter_left: u32,
    /// Frames that have begun to leave the arbiter, with their output ports, and words of them.
    crossing: VecDeque<(Frame, usize)>,
    crossing_words: u32,
    store: Mover,
    /// The frame being stored has no room: its words go nowhere.
    is_dropping: bool,
    /// The queue that is read or looked at next.
    remove_at: usize,
    remove: Mover,
    controller: Controller,
    gaps: [u32; 2],
    scan: bool,
    /// Clocks in which the memory moved a word.
    pub(super) memory_busy: u64,
}

impl Board {
    pub(super) fn new(config: &Config, fast_ppm: i32) -> Board {
        let tx = |port: usize| match port {
            0..ETHERNET => TxQueue::ethernet(),
            _ => TxQueue::serial(config.link),
        };
        Board {
            period_fs: period_fs(fast_ppm),
            clock: 0,
            rx: Default::default(),
            queues: Default::default(),
            tx: std::array::from_fn(tx),
            rx_full: config.rx_full_bytes,
            queue_words: config.queue_words,
            tx_words: config.tx_words,
            next_arrival_fs: 0,
            next_departure: u64::MAX,
            arrived: Ports::default(),
            stored: Ports::default(),
            arbiter_at: 0,
            arbiter_left: 0,
            crossing: VecDeque::new(),
            crossing_words: 0,
            store: Mover::Idle,
            is_dropping: false,
            remove_at: 0,
            remove: Mover::Idle,
            controller: Controller::new(config.memory),
            gaps: [config.memory.store_gap, config.memory.remove_gap],
            scan: config.memory.scan,
            memory_busy: 0,
        }
    }

    /// The instant of the clock that comes next.
    #[inline]
    pub(super) fn now_fs(&self) -> u64 {
        self.clock * self.period_fs
    }

    /// A frame comes over a cable.
    pub(super) fn expect(&mut self, port: usize) {
        self.next_arrival_fs = self.next_arrival_fs.min(self.rx[port].next_fs());
    }

    /// What waits for a port, in words.
    pub(super) fn waiting(&self, port: usize) -> u32 {
        self.queues[port].words + self.tx[port].words
    }

    /// Steps through one clock. `route` says by which port a frame leaves, `depart` hears of those
    /// that begin to.
    #[inline]
    pub(super) fn step(
        &mut self,
        route: impl FnOnce(&Board, Frame) -> usize,
        depart: impl FnMut(usize, Departure),
    ) {
        if self.now_fs() >= self.next_arrival_fs {
            let now = self.now_fs();
            for (port, rx) in self.rx.iter_mut().enumerate() {
                rx.receive(now, self.rx_full);
                self.arrived.set(port, !rx.whole.is_empty());
            }
            self.next_arrival_fs = self.rx.iter().map(RxQueue::next_fs).min().unwrap_or(u64::MAX);
        }
        if self.clock >= self.next_departure {
            self.send(depart);
        }
        self.arbitrate(route);
        let read = self.wants_read();
        let write = self.wants_write();
        match self.controller.clock(write, read) {
            Some(Side::Write) => self.write_word(),
            Some(Side::Read) => self.read_word(),
            None => {}
        }
        self.clock += 1;
    }

    fn send(&mut self, mut depart: impl FnMut(usize, Departure)) {
        for (port, tx) in self.tx.iter_mut().enumerate() {
            if self.clock >= tx.next_clock
                && let Some(departure) = tx.run(self.clock)
            {
                depart(port, departure);
            }
        }
        self.next_departure = self.tx.iter().map(|tx| tx.next_clock).min().unwrap_or(u64::MAX);
    }

    /// The input arbiter: a word per clock from one RX queue, frame by frame in turn.
    #[inline]
    fn arbitrate(&mut self, route: impl FnOnce(&Board, Frame) -> usize) {
        if self.arbiter_left == 0 {
            let Some(port) = self.arrived.next(self.arbiter_at) else { return };
            let frame = self.rx[port].whole[0];
            let out = route(&*self, frame);
            self.crossing.push_back((frame, out));
            (self.arbiter_at, self.arbiter_left) = (port, frame.words());
        }
        if self.crossing_words < STORE_FIFO {
            self.crossing_words += 1;
            self.arbiter_left -= 1;
            if self.arbiter_left == 0 {
                let rx = &mut self.rx[self.arbiter_at];
                rx.taken();
                self.arrived.set(self.arbiter_at, !rx.whole.is_empty());
                self.arbiter_at = (self.arbiter_at + 1) % PORTS;
            }
        }
    }

    /// Whether there is a word to write; what cannot be kept is thrown away on the way.
    #[inline]
    fn wants_write(&mut self) -> bool {
        if self.store == Mover::Idle && self.crossing_words > 0 {
            self.store = Mover::Gap(self.gaps[0]);
        }
        if let Mover::Gap(left) = self.store {
            if left > 0 {
                self.store = Mover::Gap(left - 1);
                return false;
            }
            let Some(&(frame, port)) = self.crossing.front() else { return false };
            let queue = &mut self.queues[port];
            self.store = Mover::Words(frame.words());
            self.is_dropping = queue.words + frame.words() > self.queue_words;
            if self.is_dropping {
                queue.dropped += 1;
            } else {
                queue.words += frame.words();
            }
        }
        let has_word = matches!(self.store, Mover::Words(_)) && self.crossing_words > 0;
        if has_word && self.is_dropping {
            self.pass_word();
            return false;
        }
        has_word
    }

    fn write_word(&mut self) {
        self.memory_busy += 1;
        if let Some((frame, port)) = self.pass_word() {
            self.queues[port].frames.push_back(frame);
            self.stored.set(port, true);
        }
    }

    /// A word leaves the FIFO before the memory. The frame, if it was its last one.
    fn pass_word(&mut self) -> Option<(Frame, usize)> {
        let Mover::Words(left) = self.store else { return None };
        self.crossing_words -= 1;
        if left > 1 {
            self.store = Mover::Words(left - 1);
            return None;
        }
        self.store = Mover::Idle;
        self.crossing.pop_front()
    }

    /// The queue in turn whose first frame has room in its TX queue.
    fn next_to_read(&self) -> Option<usize> {
        let mut left = self.stored;
        while let Some(port) = left.next(self.remove_at) {
            if self.scan && port != self.remove_at {
                return None;
            }
            let words = self.queues[port].frames[0].words();
            if self.tx[port].words + words <= self.tx_words {
                return Some(port);
            }
            left.set(port, false);
        }
        None
    }

    /// Whether there is a word to read: of a whole frame that its TX queue has room for.
    #[inline]
    fn wants_read(&mut self) -> bool {
        if self.remove == Mover::Idle {
            match self.next_to_read() {
                Some(port) => {
                    (self.remove_at, self.remove) = (port, Mover::Gap(self.gaps[1]));
                    self.tx[port].words += self.queues[port].frames[0].words();
                }
                None if self.scan => self.remove_at = (self.remove_at + 1) % PORTS,
                None => {}
            }
            if self.scan {
                return false;
            }
        }
        if let Mover::Gap(left) = self.remove {
            if left > 0 {
                self.remove = Mover::Gap(left - 1);
                return false;
            }
            self.remove = Mover::Words(self.queues[self.remove_at].frames[0].words());
        }
        matches!(self.remove, Mover::Words(_))
    }

    fn read_word(&mut self) {
        self.memory_busy += 1;
        let Mover::Words(left) = self.remove else { return };
        if left > 1 {
            self.remove = Mover::Words(left - 1);
            return;
        }
        let port = self.remove_at;
        let queue = &mut self.queues[port];
        if let Some(frame) = queue.frames.pop_front() {
            queue.words -= frame.words();
            self.stored.set(port, !queue.frames.is_empty());
            self.tx[port].put(self.clock + 1, frame);
            self.next_departure = self.next_departure.min(self.tx[port].next_clock);
        }
        self.remove = Mover::Idle;
        self.remove_at = (port + 1) % PORTS;
    }

    /// Frames on the board and on cables towards it.
    pub(super) fn held(&self) -> u64 {
        let rx: u64 = self.rx.iter().map(RxQueue::held).sum();
        let queued: u64 = self.queues.iter().map(|q| q.frames.len() as u64).sum();
        let tx: u64 = self.tx.iter().map(TxQueue::held).sum();
        // The arbiter's frame is still the first of its RX queue, and one without room is counted
        // as dropped already.
        let again = u64::from(self.arbiter_left > 0);
        let dropping = self.is_dropping && matches!(self.store, Mover::Words(_));
        rx + queued + tx + self.crossing.len() as u64 - again - u64::from(dropping)
    }
}
