//! The receiving half: reassembly, the window that is offered, and when to acknowledge.
//!
//! Offsets count from the peer's SYN, which has offset 0; data begin at 1, and FIN takes one more.

use arrayvec::ArrayVec;
use plexus_wire::Time;

use super::config::TcpConfig;
use super::ranges::Ranges;
use super::segment::SACK_BLOCKS_MAX;
use super::{Stats, after};

/// How a CE mark is echoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Echo {
    /// Not at all: ECN was not agreed on.
    Never,
    /// On every segment until the peer says that it has reduced its window (RFC 3168, 6.1.3).
    UntilReduced,
    /// Exactly (RFC 8257, 3.2).
    Exact,
}

/// What arrived in a segment, in offsets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) from: i64,
    /// Bytes of payload.
    pub(super) len: u32,
    pub(super) fin: bool,
    /// CE in the IP header.
    pub(super) marked: bool,
    /// CWR in the TCP header.
    pub(super) reduced: bool,
}

#[derive(Debug)]
pub(super) struct Receiver {
    /// Everything below has arrived.
    pub(super) nxt: u64,
    /// Everything below has been read.
    read: u64,
    /// Where the window that was offered ends; never moves down (RFC 9293, 3.8.6.2.2).
    edge: u64,
    buffer: u64,
    auto_read: bool,
    /// A full segment, as far as we know (RFC 9293, 3.8.6.3).
    mss: u64,
    /// What arrived beyond a hole.
    beyond: Ranges,
    /// An offset in each of the blocks that changed last, the last one first (RFC 2018, 4).
    recent: ArrayVec<u64, SACK_BLOCKS_MAX>,
    /// What arrived twice (RFC 2883), until it is said.
    duplicate: Option<(u64, u64)>,
    /// Offset of the peer's FIN.
    fin: Option<u64>,
    /// Arrived since the last acknowledgement.
    unacked: u64,
    /// `nxt` as last acknowledged.
    pub(super) told: u64,
    /// Acknowledge now.
    pub(super) owes: bool,
    delay: u64,
    /// Acknowledge at this time.
    pub(super) deadline: Time,
    quick_acks: u32,
    pub(super) echo: Echo,
    /// UntilReduced: ECE is to be set. Exact: the last segment was marked (DCTCP.CE).
    marked: bool,
    /// Acknowledgements that are owed for segments before the mark changed, and their ECE.
    earlier: ArrayVec<(u64, bool), 8>,
}

impl Receiver {
    pub(super) fn new(config: &TcpConfig) -> Receiver {
        Receiver {
            nxt: 0,
            read: 0,
            edge: config.receive_buffer + 1,
            buffer: config.receive_buffer,
            auto_read: config.auto_read,
            mss: config.mss.into(),
            beyond: Ranges::default(),
            recent: ArrayVec::new(),
            duplicate: None,
            fin: None,
            unacked: 0,
            told: 0,
            owes: false,
            delay: config.delayed_ack.map_or(0, super::nanos),
            deadline: Time::FOREVER,
            quick_acks: config.quick_acks,
            echo: Echo::Never,
            marked: false,
            earlier: ArrayVec::new(),
        }
    }

    /// The peer's SYN has arrived; full segments of its data have `mss` bytes.
    pub(super) fn begin(&mut self, mss: u64) {
        (self.nxt, self.read, self.told) = (1, 1, 1);
        self.mss = mss;
    }

    /// Bytes of payload that arrived in order.
    pub(super) fn delivered(&self) -> u64 {
        // Neither SYN nor FIN is one.
        self.nxt.saturating_sub(1 + u64::from(self.fin_reached()))
    }

    /// Everything up to FIN has arrived.
    pub(super) fn fin_reached(&self) -> bool {
        self.fin.is_some_and(|fin| self.nxt > fin)
    }

    pub(super) fn readable(&self) -> u64 {
        self.nxt - u64::from(self.fin_reached()) - self.read.min(self.nxt)
    }

    /// The application takes `bytes`; says so to the peer when that opens the window by much.
    pub(super) fn read(&mut self, bytes: u64) {
        self.read += bytes.min(self.readable());
        if self.wanted_edge() >= self.edge + self.worth_telling().max(2 * self.mss).min(self.buffer)
        {
            self.owes = true;
        }
    }

    fn wanted_edge(&self) -> u64 {
        let unread = if self.auto_read { 0 } else { self.readable() };
        self.nxt + self.buffer.saturating_sub(unread)
    }

    /// The receiver's remedy against silly windows (RFC 9293, 3.8.6.2.2).
    fn worth_telling(&self) -> u64 {
        (self.buffer / 2).min(self.mss)
    }

    /// Bytes of the window to offer now.
    #[inline]
    pub(super) fn window(&mut self) -> u64 {
        let wanted = self.wanted_edge();
        if wanted >= self.edge + self.worth_telling() {
            self.edge = wanted;
        }
        self.edge.saturating_sub(self.nxt)
    }

    /// Some of `[from, to)` is in the window, or right at its edge (RFC 9293, 3.10.7.4).
    #[inline]
    pub(super) fn acceptable(&self, from: i64, to: i64) -> bool {
        // An empty segment may be as old as our last acknowledgement: its news is for the sender.
        if to == from {
            return from >= self.told as i64 && from <= self.edge.max(self.nxt) as i64;
        }
        to > self.nxt as i64 && from < self.edge as i64
    }

    /// Takes a segment's payload and FIN in.
    #[inline]
    pub(super) fn arrive(&mut self, now: Time, arrival: &Arrival, stats: &mut Stats) {
        let len = u64::from(arrival.len);
        self.note_mark(arrival);
        let from = arrival.from.max(0) as u64;
        let mut to = (arrival.from + len as i64).max(0) as u64;
        if arrival.fin && self.fin.is_none() && to <= self.edge {
            self.fin = Some(to);
        }
        if let Some(fin) = self.fin {
            // Nothing comes behind FIN, which itself takes one.
            to = if arrival.fin && to == fin { fin + 1 } else { to.min(fin) };
        }
        // FIN is always let in: it takes no room in the buffer.
        to = to.min(self.edge + u64::from(self.fin.is_some_and(|fin| fin == self.edge)));
        if from > self.nxt {
            if to > from {
                self.arrive_beyond(from, to, stats);
            }
            return;
        }
        if to <= self.nxt || from < self.nxt && from < to {
            // A duplicate in whole or part is acknowledged at once (RFC 9293, 3.10.7.4).
            stats.duplicates_received += 1;
            self.duplicate = Some((from, to.min(self.nxt)));
            self.owes = true;
        }
        if to <= self.nxt {
            return;
        }
        let new = to - self.nxt;
        self.nxt = to;
        self.unacked += new;
        if !self.beyond.is_empty() {
            // All or part of a hole is filled (RFC 5681, 4.2).
            self.owes = true;
            self.fill();
        }
        if self.owes {
            return;
        }
        if self.unacked >= 2 * self.mss || self.delay == 0 || self.quick_acks > 0 || arrival.fin {
            self.quick_acks = self.quick_acks.saturating_sub(1);
            self.owes = true;
        } else if self.deadline == Time::FOREVER {
            self.deadline = after(now, self.delay);
        }
    }

    /// Behind a hole (RFC 5681, 4.2: a duplicate acknowledgement at once).
    fn arrive_beyond(&mut self, from: u64, to: u64, stats: &mut Stats) {
        self.owes = true;
        if self.beyond.holding(from).is_some_and(|(_, end)| end >= to) {
            stats.duplicates_received += 1;
            self.duplicate = Some((from, to));
        }
        self.beyond.insert(from, to);
        let Some((left, right)) = self.beyond.holding(from) else { return };
        self.recent.retain(|at| *at < left || *at >= right);
        self.recent.truncate(SACK_BLOCKS_MAX - 1);
        self.recent.insert(0, from);
    }

    /// Joins what is beyond to what has arrived in order.
    fn fill(&mut self) {
        self.beyond.cut_below(self.nxt);
        if let Some((from, to)) = self.beyond.first()
            && from <= self.nxt
        {
            self.unacked += to - self.nxt;
            self.nxt = to;
            self.beyond.cut_below(to);
        }
        let nxt = self.nxt;
        self.recent.retain(|at| *at >= nxt);
    }

    #[inline]
    fn note_mark(&mut self, arrival: &Arrival) {
        match self.echo {
            Echo::Never => {}
            Echo::UntilReduced => {
                if arrival.reduced {
                    self.marked = false;
                }
                self.marked |= arrival.marked && arrival.len > 0;
            }
            Echo::Exact => {
                if arrival.len == 0 || arrival.marked == self.marked {
                    return;
                }
                // What arrived before is acknowledged apart, so that the peer can count.
                if self.unacked > 0 {
                    if self.earlier.is_full() {
                        self.earlier.remove(0);
                    }
                    self.earlier.push((self.nxt, self.marked));
                    self.unacked = 0;
                    self.deadline = Time::FOREVER;
                }
                self.marked = arrival.marked;
                // RFC 8257, figure 1 asks only for the acknowledgement of what came before.
            }
        }
    }

    /// ECE of what is sent now.
    #[inline]
    pub(super) fn echoes(&self) -> bool {
        self.marked
    }

    /// An acknowledgement that has to go before any other: its offset and ECE.
    #[inline]
    pub(super) fn take_earlier(&mut self) -> Option<(u64, bool)> {
        if self.earlier.is_empty() { None } else { Some(self.earlier.remove(0)) }
    }

    /// The deadline of a delayed acknowledgement has come.
    #[inline]
    pub(super) fn expire(&mut self, now: Time) {
        if now >= self.deadline {
            self.deadline = Time::FOREVER;
            self.owes = true;
        }
    }

    /// How many blocks the next segment has to carry.
    #[inline]
    pub(super) fn blocks(&self) -> usize {
        if self.recent.is_empty() && self.duplicate.is_none() {
            return 0;
        }
        self.recent.len() + usize::from(self.duplicate.is_some())
    }

    /// Calls `f` with at most `max` blocks: a duplicate, then what arrived last (RFC 2018, 4; RFC
    /// 2883, 4).
    pub(super) fn each_block(&mut self, max: usize, mut f: impl FnMut(u64, u64)) {
        let mut left = max;
        if let Some((from, to)) = self.duplicate.take()
            && left > 0
        {
            f(from, to);
            left -= 1;
        }
        let blocks = self.recent.iter().filter_map(|at| self.beyond.holding(*at));
        blocks.take(left).for_each(|(from, to)| f(from, to));
    }

    /// A segment with the newest acknowledgement has been sent.
    #[inline]
    pub(super) fn acknowledged(&mut self) {
        self.unacked = 0;
        self.told = self.nxt;
        self.owes = false;
        self.deadline = Time::FOREVER;
    }
}
