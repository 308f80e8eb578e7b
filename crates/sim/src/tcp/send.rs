//! The sending half: what may be sent, what is lost, and when to give up waiting.
//!
//! Offsets count from our SYN, which has offset 0; data begin at 1, and FIN takes one more.
//!
//! Loss recovery is RFC 6675's with selective acknowledgements and RFC 6582's (NewReno) without.
//! After a timeout both go on from the first hole in slow start, leaving out what the peer has.

use arrayvec::ArrayVec;
use plexus_wire::Time;

use super::config::TcpConfig;
use super::congestion::{Acked, Control, Window, to_loss_window};
use super::rtt::Rtt;
use super::scoreboard::{DUP_THRESH, Scoreboard};
use super::segment::SACK_BLOCKS_MAX;
use super::{Stats, after, nanos};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing is known to be lost.
    Open,
    /// Fast recovery, until everything sent before it is acknowledged.
    Recovery,
    /// After a timeout, until everything sent before it is acknowledged.
    Loss,
}

/// An acknowledgement, in offsets.
#[derive(Debug)]
pub(super) struct Ack {
    pub(super) now: Time,
    /// The acknowledgement number; no more than was sent.
    pub(super) ack: u64,
    /// Bytes of the window.
    pub(super) window: u64,
    /// The segment's sequence number.
    pub(super) seq: i64,
    /// It carries data or FIN.
    pub(super) has_data: bool,
    /// ECE.
    pub(super) echo: bool,
    /// Round trip by time stamps, ns.
    pub(super) rtt: Option<u64>,
    pub(super) sacks: ArrayVec<(u64, u64), SACK_BLOCKS_MAX>,
}

/// Sequence space to send: `[from, to)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) again: bool,
}

#[derive(Debug)]
pub(super) struct Sender {
    /// Everything below is acknowledged.
    pub(super) una: u64,
    /// Everything below has been sent.
    pub(super) nxt: u64,
    /// Where the data end that have been written.
    pub(super) end: u64,
    /// FIN follows the data.
    pub(super) fin: bool,
    /// Where the peer's window ends.
    edge: u64,
    window_max: u64,
    /// Sequence and acknowledgement number of the last window update (RFC 9293, 3.10.7.4).
    updated_by: (i64, u64),
    /// Bytes of payload in a full segment without blocks.
    pub(super) mss: u64,
    pub(super) sack: bool,
    limited_transmit: bool,
    idle_restart: bool,
    initial_window: u64,

    pub(super) phase: Phase,
    board: Scoreboard,
    /// `nxt` when the last recovery began (RFC 6675, 2: RecoveryPoint; RFC 6582: recover).
    recovery_point: u64,
    /// RescueRxt (RFC 6675, 2).
    rescued: u64,
    dup_acks: u32,
    had_partial_ack: bool,
    /// Send the first segment again, whatever the window.
    retransmit_first: bool,

    pub(super) window: Window,
    pub(super) control: Control,
    pub(super) ecn: bool,
    /// Say CWR with the next new data.
    reduced: bool,
    /// `nxt` when the window was reduced; until that is acknowledged it is not again.
    reduce_point: u64,

    pub(super) rtt: Rtt,
    /// A segment whose round trip is being taken: its end, and when it was sent.
    timed: Option<(u64, Time)>,
    /// Retransmission or window probe.
    pub(super) deadline: Time,
    /// The peer's window, and no loss, is what we wait for (RFC 9293, 3.8.6.1).
    persisting: bool,
    probe: bool,
    /// Timeouts since the last progress.
    pub(super) timeouts: u32,
    /// `una` at the last timeout.
    expired_at: Option<u64>,
    last_sent: Time,
    pacing: bool,
    /// No segment before this time.
    paced_until: Time,
    /// It is for that time that we wait.
    paced: bool,
}

impl Sender {
    pub(super) fn new(config: &TcpConfig) -> Sender {
        let mss = u64::from(config.mss.max(1));
        Sender {
            una: 0,
            nxt: 0,
            end: 1,
            fin: false,
            edge: 0,
            window_max: 0,
            updated_by: (i64::MIN, 0),
            mss,
            sack: false,
            limited_transmit: config.limited_transmit,
            idle_restart: config.idle_restart,
            initial_window: u64::from(config.initial_window.max(1)),
            phase: Phase::Open,
            board: Scoreboard::default(),
            recovery_point: 0,
            rescued: 0,
            dup_acks: 0,
            had_partial_ack: false,
            retransmit_first: false,
            window: Window::new(config, mss),
            control: Control::new(config.congestion),
            ecn: false,
            reduced: false,
            reduce_point: 0,
            rtt: Rtt::new(nanos(config.rto_initial), nanos(config.rto_min), nanos(config.rto_max)),
            timed: None,
            deadline: Time::FOREVER,
            persisting: false,
            probe: false,
            timeouts: 0,
            expired_at: None,
            last_sent: Time::ZERO,
            pacing: config.pacing,
            paced_until: Time::ZERO,
            paced: false,
        }
    }

    /// The connection stands: full segments have `mss` bytes, and the peer offers `window`.
    pub(super) fn begin(&mut self, config: &TcpConfig, mss: u64, seq: i64, window: u64) {
        self.mss = mss;
        self.window = Window::new(config, mss);
        if self.timeouts > 0 {
            // RFC 6928, 2: the handshake has met congestion.
            self.window.cwnd = mss;
            self.rtt.after_lost_syn();
            self.timeouts = 0;
        }
        self.edge = self.una + window;
        self.window_max = window;
        self.updated_by = (seq, self.una);
        self.reduce_point = self.nxt;
    }

    /// When the next segment may go, if pacing holds it back.
    pub(super) fn paced_until(&self) -> Time {
        if self.paced { self.paced_until } else { Time::FOREVER }
    }

    /// No timer runs any more.
    pub(super) fn stop(&mut self) {
        self.deadline = Time::FOREVER;
        self.paced = false;
    }

    /// Bytes sent and not acknowledged.
    pub(super) fn flight(&self) -> u64 {
        self.nxt - self.una
    }

    /// Our SYN is on its way, for the first time or again.
    pub(super) fn syn_sent(&mut self, now: Time) {
        if self.nxt == 0 {
            self.timed = Some((1, now));
            self.nxt = 1;
        } else {
            self.timed = None;
        }
        self.deadline = after(now, self.rtt.timeout());
        self.last_sent = now;
    }

    /// Our SYN is acknowledged.
    pub(super) fn syn_acked(&mut self, now: Time) {
        self.una = 1;
        self.deadline = Time::FOREVER;
        self.take_sample(now, None);
    }

    /// Our SYN's timer has expired.
    pub(super) fn syn_timeout(&mut self) {
        self.timeouts += 1;
        self.rtt.back_off();
        self.deadline = Time::FOREVER;
    }

    fn take_sample(&mut self, now: Time, by_timestamps: Option<u64>) {
        match self.timed {
            Some((end, sent)) if self.una >= end => {
                self.timed = None;
                self.rtt.sample(now.as_nanos() - sent.as_nanos());
            }
            // Karn's ambiguity, which time stamps resolve (RFC 7323, 4.1).
            None => {
                if let Some(rtt) = by_timestamps {
                    self.rtt.sample(rtt);
                }
            }
            Some(_) => {}
        }
    }

    /// Reads an acknowledgement (RFC 9293, 3.10.7.4; RFC 5681, 3.2; RFC 6675, 5).
    #[inline]
    pub(super) fn on_ack(&mut self, ack: &Ack, stats: &mut Stats) {
        if ack.ack < self.una {
            return;
        }
        let opened = self.update_window(ack);
        let mut news = false;
        for &(from, to) in &ack.sacks {
            let (from, to) = (from.max(ack.ack), to.min(self.nxt));
            news |= from < to && self.board.sack(from, to);
        }
        let flight = self.flight();
        if ack.ack > self.una {
            self.advance(ack, flight);
        } else if flight > 0 {
            let duplicate = if self.sack { news } else { !ack.has_data && !opened };
            if duplicate {
                self.on_duplicate();
            }
        }
        if self.sack && !self.board.is_clear() && self.phase != Phase::Loss {
            self.board.judge(self.una, self.mss);
        }
        if self.phase == Phase::Open {
            let lost = self.dup_acks >= DUP_THRESH || self.board.has_lost(self.una);
            // Without selective acknowledgements those for what we sent twice look like a loss
            // (RFC 6582, 3.2, step 1).
            if lost && (self.sack || self.una > self.recovery_point) {
                self.enter_recovery(ack.now, flight, stats);
            }
        }
        if ack.echo && self.ecn && self.una >= self.reduce_point && self.phase == Phase::Open {
            self.control.on_echo(&mut self.window, flight);
            self.reduced = true;
            self.reduce_point = self.nxt;
            stats.ecn_reductions += 1;
        }
    }

    /// True if the window's end moved.
    #[inline]
    fn update_window(&mut self, ack: &Ack) -> bool {
        if (ack.seq, ack.ack) < self.updated_by {
            return false;
        }
        let before = self.edge;
        self.updated_by = (ack.seq, ack.ack);
        self.edge = ack.ack + ack.window;
        self.window_max = self.window_max.max(ack.window);
        if self.persisting && self.edge > self.nxt {
            self.persisting = false;
            self.rtt.backoff = 0;
            self.deadline = Time::FOREVER;
            // The probe came too early for it, and counts as lost.
            self.retransmit_first = self.nxt > ack.ack;
        }
        self.edge != before
    }

    fn advance(&mut self, ack: &Ack, flight: u64) {
        let acked = ack.ack - self.una;
        self.board.advance(self.una, ack.ack);
        self.una = ack.ack;
        self.take_sample(ack.now, ack.rtt);
        self.timeouts = 0;
        self.expired_at = None;
        let mut grow = !ack.echo;
        let mut restart_timer = true;
        match self.phase {
            Phase::Open => self.dup_acks = 0,
            Phase::Loss => {
                if self.una >= self.recovery_point {
                    self.reopen();
                }
            }
            Phase::Recovery => {
                grow = false;
                if self.una >= self.recovery_point {
                    if !self.sack {
                        // RFC 6582, 3.2, step 3, full acknowledgement, option 1.
                        let room = self.flight().max(self.window.mss) + self.window.mss;
                        self.window.cwnd = self.window.ssthresh.min(room);
                    }
                    self.reopen();
                } else if !self.sack {
                    // Partial acknowledgement: the next hole, and a window less what left.
                    self.retransmit_first = true;
                    let mss = self.window.mss;
                    let cwnd = self.window.cwnd.saturating_sub(acked);
                    self.window.cwnd = (cwnd + if acked >= mss { mss } else { 0 }).max(mss);
                    restart_timer = !self.had_partial_ack;
                    self.had_partial_ack = true;
                }
            }
        }
        // Only a window that is used may grow (RFC 9293, 3.8.6; RFC 2861): in slow start it may be
        // twice of what is in flight.
        let mut used = flight + self.window.mss;
        if self.window.in_slow_start() {
            used *= 2;
        }
        let acked = Acked {
            now: ack.now,
            bytes: acked,
            srtt: self.rtt.srtt,
            rtt: ack.rtt,
            echo: ack.echo,
            una: self.una,
            nxt: self.nxt,
            grow: grow && used > self.window.cwnd,
        };
        self.control.on_ack(&mut self.window, &acked);
        if self.persisting {
            self.rtt.backoff = 0;
        }
        if self.una == self.nxt {
            self.deadline = Time::FOREVER;
            self.persisting = false;
        } else if restart_timer {
            // RFC 6298, 5.3.
            self.deadline = after(ack.now, self.rtt.timeout());
        }
    }

    /// Everything that was in flight when the recovery began is acknowledged.
    fn reopen(&mut self) {
        self.phase = Phase::Open;
        self.dup_acks = 0;
        self.retransmit_first = false;
        self.board.restart();
    }

    fn on_duplicate(&mut self) {
        self.dup_acks += 1;
        if self.phase == Phase::Recovery && !self.sack {
            // One segment has left the network (RFC 5681, 3.2, step 4).
            self.window.cwnd += self.window.mss;
        }
    }

    /// RFC 6675, 5, step 4; RFC 5681, 3.2, steps 2 and 3.
    fn enter_recovery(&mut self, now: Time, flight: u64, stats: &mut Stats) {
        stats.fast_recoveries += 1;
        if self.una >= self.reduce_point {
            self.control.on_loss(&mut self.window, flight);
            self.reduced = self.ecn;
        }
        self.phase = Phase::Recovery;
        self.recovery_point = self.nxt;
        self.reduce_point = self.nxt;
        self.had_partial_ack = false;
        self.retransmit_first = true;
        self.rescued = 0;
        // What is sent again now has a timeout's time (RFC 6675, 6).
        self.deadline = after(now, self.rtt.timeout());
        if !self.sack {
            self.window.cwnd += u64::from(DUP_THRESH) * self.window.mss;
        }
    }

    /// The timer has expired. False if it has too often.
    pub(super) fn on_timeout(&mut self, now: Time, retries: u32, stats: &mut Stats) -> bool {
        self.rtt.back_off();
        if self.persisting {
            self.probe = true;
            self.deadline = after(now, self.rtt.timeout());
            return true;
        }
        self.timeouts += 1;
        if self.timeouts > retries {
            return false;
        }
        stats.timeouts += 1;
        let flight = self.flight();
        if self.expired_at != Some(self.una) {
            // RFC 5681, 3.1: not again for what has been sent again by this timer.
            self.control.on_timeout(&mut self.window, flight);
            self.expired_at = Some(self.una);
        }
        to_loss_window(&mut self.window);
        self.phase = Phase::Loss;
        self.recovery_point = self.nxt;
        self.reduce_point = self.nxt;
        self.dup_acks = 0;
        self.retransmit_first = false;
        self.timed = None;
        if self.sack && !self.board.reneged(self.una) {
            self.board.restart();
        } else {
            self.board.clear();
        }
        self.board.lose(self.una, self.nxt);
        self.deadline = after(now, self.rtt.timeout());
        true
    }

    /// What to send now, in a segment with room for `mss` bytes.
    #[inline]
    pub(super) fn next(&mut self, now: Time, mss: u64, stats: &mut Stats) -> Option<Chunk> {
        if self.probe {
            return Some(self.window_probe(mss, stats));
        }
        if self.pacing {
            self.paced = now < self.paced_until && self.nxt < self.end;
            if self.paced {
                return None;
            }
        }
        if self.phase == Phase::Open && !self.retransmit_first {
            return self.next_new(now, mss);
        }
        self.next_in_recovery(now, mss)
    }

    fn next_in_recovery(&mut self, now: Time, mss: u64) -> Option<Chunk> {
        let una = self.una;
        let again = |from: u64, to: u64| Some(Chunk { from, to: to.min(from + mss), again: true });
        if self.retransmit_first {
            self.retransmit_first = false;
            let end = self.board.first_hole_end(una, self.nxt);
            if end > una {
                return again(una, end);
            }
        }
        let pipe = self.board.pipe(una, self.nxt);
        let room = self.window.cwnd.saturating_sub(pipe);
        // NextSeg() (RFC 6675, 4), rule 1.
        if let Some((from, to)) = self.board.next_lost(una) {
            return if (to - from).min(mss) <= room { again(from, to) } else { None };
        }
        // Rule 2.
        if let Some(chunk) = self.next_new(now, mss) {
            return Some(chunk);
        }
        if self.phase != Phase::Recovery || !self.sack || room < mss {
            return None;
        }
        // Rule 3.
        if let Some((from, to)) = self.board.next_hole(una) {
            return again(from, to);
        }
        // Rule 4: once.
        if self.rescued == 0
            && let Some((from, to)) = self.board.last_hole(una, self.nxt, mss)
        {
            self.rescued = self.recovery_point;
            return again(from, to);
        }
        None
    }

    /// Data that were never sent, and FIN.
    #[inline]
    fn next_new(&mut self, now: Time, mss: u64) -> Option<Chunk> {
        let from = self.nxt;
        if from > self.end || from == self.end && !self.fin {
            return None;
        }
        let data_to = (from + mss).min(self.end);
        let len = data_to - from;
        if self.una == from && self.idle_restart {
            self.restart_if_idle(now);
        }
        let mut cwnd = self.window.cwnd;
        if self.dup_acks > 0 && !self.sack && self.limited_transmit && self.phase == Phase::Open {
            // RFC 3042; with selective acknowledgements what has arrived leaves the pipe, which
            // makes the same room (RFC 6675, 5, step 3).
            cwnd += u64::from(self.dup_acks.min(DUP_THRESH - 1)) * self.window.mss;
        }
        let held_back = !self.limited_transmit && self.phase == Phase::Open;
        let pipe = if held_back { from - self.una } else { self.board.pipe(self.una, from) };
        if len > cwnd.saturating_sub(pipe) {
            return None;
        }
        let room = self.edge.saturating_sub(from);
        if len <= room {
            let to = data_to + u64::from(self.fin && data_to == self.end);
            return Some(Chunk { from, to, again: false });
        }
        // The sender's remedy against silly windows (RFC 9293, 3.8.6.2.1).
        if room > 0 && room >= self.window_max / 2 {
            return Some(Chunk { from, to: from + room, again: false });
        }
        if self.una == from && self.deadline == Time::FOREVER {
            self.persisting = true;
            self.deadline = after(now, self.rtt.timeout());
        }
        None
    }

    /// RFC 5681, 4.1.
    fn restart_if_idle(&mut self, now: Time) {
        if now.as_nanos().saturating_sub(self.last_sent.as_nanos()) > self.rtt.timeout() {
            let initial = self.initial_window * self.window.mss;
            self.window.cwnd = self.window.cwnd.min(initial);
            self.control.on_idle();
        }
    }

    /// At least a byte, whatever the window (RFC 9293, 3.8.6.1); with it what the window does let
    /// through.
    fn window_probe(&mut self, mss: u64, stats: &mut Stats) -> Chunk {
        self.probe = false;
        stats.window_probes += 1;
        let from = self.una;
        let len = self.edge.saturating_sub(from).clamp(1, mss);
        // There are data, or FIN: for what else would the window be waited for?
        let to = (from + len).min(self.end).max(from + 1);
        Chunk { from, to, again: from < self.nxt }
    }

    /// `chunk` has been sent. Returns true if its segment has to say CWR.
    #[inline]
    pub(super) fn sent(&mut self, now: Time, chunk: Chunk, stats: &mut Stats) -> bool {
        let mut says_reduced = false;
        if chunk.again {
            stats.retransmissions += 1;
            self.timed = None;
            if self.phase == Phase::Loss || self.sack && self.phase == Phase::Recovery {
                self.note_retransmitted(chunk);
            }
        }
        if chunk.to > self.nxt {
            self.nxt = chunk.to;
            if self.timed.is_none() && self.phase == Phase::Open && !chunk.again {
                self.timed = Some((chunk.to, now));
            }
            says_reduced = std::mem::take(&mut self.reduced);
        }
        if self.deadline == Time::FOREVER {
            self.deadline = after(now, self.rtt.timeout());
        }
        self.last_sent = now;
        if self.pacing && self.rtt.srtt > 0 {
            self.pace(now, chunk.to - chunk.from);
        }
        says_reduced
    }

    /// HighRxt; a rescue, which is behind a hole, does not move it.
    fn note_retransmitted(&mut self, chunk: Chunk) {
        let rescue = self.phase == Phase::Recovery && self.rescued != 0 && chunk.to == self.nxt;
        if !rescue {
            self.board.retransmitted(self.una, chunk.to);
        }
    }

    fn pace(&mut self, now: Time, bytes: u64) {
        let tenths = if self.window.in_slow_start() { 20 } else { 12 };
        let gap = u128::from(bytes) * u128::from(self.rtt.srtt) * 10
            / (u128::from(self.window.cwnd.max(1)) * tenths);
        self.paced_until = after(now, gap as u64);
    }
}
