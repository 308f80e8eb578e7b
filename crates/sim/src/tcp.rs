//! TCP of simulated hosts (RFC 9293): a state machine per end of a connection, without bytes.
//!
//! A driver tells an endpoint the time and the segments that arrive ([`Tcp::handle`]), sends what
//! it wants to send as far as the interface's queue has room ([`Tcp::poll`]), and comes back when
//! the time that it asks for has come ([`Tcp::next_deadline`], then `poll` again). An application
//! writes and reads lengths; there is no payload. Inside, offsets in the stream have 64 bits and
//! never wrap; the numbers of [`Segment`]s are those on the wire.
//!
//! | what | where it is from | file |
//! |---|---|---|
//! | handshake, close, reset | RFC 9293, 3.5, 3.6, 3.10; RFC 5961 | this one |
//! | timeout | RFC 6298 | `rtt` |
//! | recovery with blocks | RFC 6675, RFC 2018, RFC 2883, RFC 3042 | `scoreboard`, `send` |
//! | recovery without | RFC 5681, RFC 6582 | `send` |
//! | NewReno, CUBIC, DCTCP | RFC 5681 with RFC 3465, RFC 9438, RFC 8257 | `congestion` |
//! | end of slow start | RFC 9406 | `congestion` |
//! | delayed ACKs, window, marks | RFC 9293, 3.8.6; RFC 3168; RFC 8257, 3.2 | `receive` |
//! | window scaling, time stamps | RFC 7323 | this one |
//!
//! What is not here: urgent data, Nagle's algorithm (off, as a benchmark sets TCP_NODELAY),
//! RACK and its tail loss probe, Fast Open, keep-alive.

mod config;
mod congestion;
mod ranges;
mod receive;
mod rtt;
mod scoreboard;
mod segment;
mod send;

use std::time::Duration;

use arrayvec::ArrayVec;
use plexus_wire::Time;
use plexus_wire::tcp::Flags;

pub use config::{Congestion, EcnUse, TcpConfig};
pub use segment::{Codepoint, SACK_BLOCKS_MAX, Segment};

use receive::{Arrival, Echo, Receiver};
use segment::sack_len;
use send::{Ack, Chunk, Phase, Sender};

/// Bytes that time stamps take of every segment.
const TIMESTAMPS_LEN: u64 = 12;
/// Largest shift of the window (RFC 7323, 2.3).
const SHIFT_MAX: u8 = 14;
/// More than anybody sends.
const UNLIMITED: u64 = 1 << 62;

/// `ns` nanoseconds after `time`.
#[inline(always)]
fn after(time: Time, ns: u64) -> Time {
    Time::from_nanos(time.as_nanos().saturating_add(ns))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// States of a connection (RFC 9293, 3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the RFC's
pub enum State {
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    Closed,
}

/// Why a connection ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer has reset it.
    Reset,
    /// The peer did not answer.
    TimedOut,
}

/// What an endpoint has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Segments that `poll` has given out.
    pub segments_sent: u64,
    /// Of them, those with data or FIN.
    pub data_segments_sent: u64,
    /// Of these, those sent again.
    pub retransmissions: u64,
    /// Segments that arrived with nothing new in them.
    pub duplicates_received: u64,
    /// Expired retransmission timers, the handshake's apart.
    pub timeouts: u64,
    /// Expired timers of a SYN or SYN-ACK.
    pub syn_timeouts: u64,
    /// Times that fast recovery was entered.
    pub fast_recoveries: u64,
    /// Reductions of the window by ECN.
    pub ecn_reductions: u64,
    /// Probes of a closed window.
    pub window_probes: u64,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Tcp {
    config: TcpConfig,
    state: State,
    failure: Option<Failure>,
    tx: Sender,
    rx: Receiver,
    /// The peer's initial sequence number.
    peer_seq: u32,
    /// Shift of the windows that we offer, and of those that the peer does.
    our_shift: u8,
    peer_shift: u8,
    scaling: bool,
    timestamps: bool,
    /// The time stamp to echo (RFC 7323, 4.3: TS.Recent).
    echo_stamp: u32,
    /// Our SYN has to be sent, for the first time or again.
    owes_syn: bool,
    /// A reset has to be sent, with this sequence number and acknowledgement.
    owes_reset: Option<(u32, Option<u32>)>,
    time_wait_ends: Time,
    stats: Stats,
}

impl Tcp {
    fn new(config: TcpConfig, state: State) -> Tcp {
        let mut our_shift = 0;
        while config.receive_buffer >> our_shift > 0xFFFF && our_shift < SHIFT_MAX {
            our_shift += 1;
        }
        Tcp {
            state,
            failure: None,
            tx: Sender::new(&config),
            rx: Receiver::new(&config),
            peer_seq: 0,
            our_shift,
            peer_shift: 0,
            scaling: config.window_scaling,
            timestamps: config.timestamps,
            echo_stamp: 0,
            owes_syn: state == State::SynSent,
            owes_reset: None,
            time_wait_ends: Time::FOREVER,
            stats: Stats::default(),
            config,
        }
    }

    /// An endpoint that opens a connection: the first segment that it gives out is a SYN.
    pub fn connect(config: TcpConfig) -> Tcp {
        Tcp::new(config, State::SynSent)
    }

    /// An endpoint that waits for the SYN of one connection.
    pub fn listen(config: TcpConfig) -> Tcp {
        Tcp::new(config, State::Listen)
    }

    /// Its settings.
    pub(crate) fn config(&self) -> &TcpConfig {
        &self.config
    }

    /// Changes the settings of an endpoint that has sent and received nothing yet.
    pub(crate) fn tune(&mut self, tune: &dyn Fn(&mut TcpConfig)) {
        let mut config = self.config;
        tune(&mut config);
        *self = Tcp::new(config, self.state);
    }

    /// The application sends `bytes` more. After [`close`](Tcp::close) they are not sent.
    pub fn write(&mut self, bytes: u64) {
        if !self.tx.fin {
            self.tx.end = self.tx.end.saturating_add(bytes).min(UNLIMITED);
        }
    }

    /// The application always has more to send.
    pub fn write_unlimited(&mut self) {
        self.write(UNLIMITED);
    }

    /// The application sends nothing behind what it has written: FIN follows, also where the
    /// connection has yet to be opened. An endpoint that nobody has called is closed at once.
    pub fn close(&mut self) {
        if self.state == State::Listen {
            self.state = State::Closed;
        }
        self.tx.fin = true;
    }

    /// The application gives up: what waits is forgotten, the peer is told by a reset.
    pub fn abort(&mut self) {
        if !matches!(self.state, State::Listen | State::SynSent | State::Closed) {
            let seq = self.config.initial_seq.wrapping_add(self.tx.nxt as u32);
            self.owes_reset = Some((seq, Some(self.wire_ack(self.rx.nxt))));
        }
        self.end(None);
    }

    /// The application takes up to `bytes` of what has arrived; for endpoints that do not read at
    /// once.
    pub fn read(&mut self, bytes: u64) {
        self.rx.read(bytes);
    }

    /// Bytes that have arrived in order and have not been read.
    pub fn readable(&self) -> u64 {
        if self.config.auto_read { 0 } else { self.rx.readable() }
    }

    /// Bytes that have arrived in order, read or not.
    pub fn delivered(&self) -> u64 {
        self.rx.delivered()
    }

    /// True if the peer has closed and everything before that has arrived.
    pub fn peer_closed(&self) -> bool {
        self.rx.fin_reached()
    }

    /// Bytes of ours that the peer has acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.tx.una.min(self.tx.end).saturating_sub(1)
    }

    /// State of the connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// Why it ended, if it was not closed by both.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Congestion window, in bytes.
    pub fn cwnd(&self) -> u64 {
        self.tx.window.cwnd
    }

    /// Slow-start threshold, in bytes.
    pub fn ssthresh(&self) -> u64 {
        self.tx.window.ssthresh
    }

    /// Bytes sent and not acknowledged.
    pub fn flight(&self) -> u64 {
        self.tx.flight()
    }

    /// Smoothed round-trip time, once there is one.
    pub fn srtt(&self) -> Option<Duration> {
        (self.tx.rtt.srtt > 0).then(|| Duration::from_nanos(self.tx.rtt.srtt))
    }

    /// True in fast recovery, or after a timeout until what was in flight is acknowledged.
    pub fn recovering(&self) -> bool {
        self.tx.phase != Phase::Open
    }

    /// DCTCP's α, the smoothed fraction of bytes that were marked.
    pub fn alpha(&self) -> Option<f64> {
        self.tx.control.alpha()
    }

    /// Bytes of payload in a full segment, once the connection stands.
    pub fn segment_size(&self) -> u32 {
        self.tx.mss as u32
    }

    /// What has been counted.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// When [`poll`](Tcp::poll) has something to do even if nothing arrives.
    #[inline]
    pub fn next_deadline(&self) -> Time {
        let sender = self.tx.deadline.min(self.tx.paced_until());
        sender.min(self.rx.deadline).min(self.time_wait_ends)
    }

    fn end(&mut self, failure: Option<Failure>) {
        self.state = State::Closed;
        self.failure = failure;
        self.owes_syn = false;
        self.tx.stop();
        self.rx.deadline = Time::FOREVER;
        self.time_wait_ends = Time::FOREVER;
    }

    // ---- Numbers on the wire and offsets in the streams.

    fn wire_seq(&self, offset: u64) -> u32 {
        self.config.initial_seq.wrapping_add(offset as u32)
    }

    fn wire_ack(&self, offset: u64) -> u32 {
        self.peer_seq.wrapping_add(offset as u32)
    }

    /// The offset in the peer's stream that is nearest to what we expect.
    #[inline]
    fn peer_offset(&self, seq: u32) -> i64 {
        self.rx.nxt as i64 + i64::from(seq.wrapping_sub(self.wire_ack(self.rx.nxt)) as i32)
    }

    /// The offset in our stream that is nearest to what we wait for.
    #[inline]
    fn our_offset(&self, ack: u32) -> i64 {
        self.tx.una as i64 + i64::from(ack.wrapping_sub(self.wire_seq(self.tx.una)) as i32)
    }

    /// Microseconds, as in our time stamps.
    fn stamp(now: Time) -> u32 {
        (now.as_nanos() / 1_000) as u32
    }

    // ---- What arrives.

    /// A segment has arrived (RFC 9293, 3.10.7). Every call is to be followed by
    /// [`poll`](Tcp::poll), now or when there is room.
    pub fn handle(&mut self, now: Time, segment: &Segment) {
        match self.state {
            State::Closed => self.refuse(segment),
            State::Listen => self.handle_listening(segment),
            State::SynSent => self.handle_syn_sent(now, segment),
            _ => self.handle_synchronised(now, segment),
        }
    }

    /// For a connection that does not exist (3.10.7.1).
    fn refuse(&mut self, segment: &Segment) {
        if segment.has(Flags::RST) {
            return;
        }
        self.owes_reset = Some(match segment.has(Flags::ACK) {
            true => (segment.ack, None),
            false => {
                let control =
                    u32::from(segment.has(Flags::SYN)) + u32::from(segment.has(Flags::FIN));
                (0, Some(segment.seq.wrapping_add(segment.len).wrapping_add(control)))
            }
        });
    }

    /// 3.10.7.2.
    fn handle_listening(&mut self, segment: &Segment) {
        if segment.has(Flags::RST) {
        } else if segment.has(Flags::ACK) {
            self.refuse(segment);
        } else if segment.has(Flags::SYN) {
            self.read_syn(segment);
            let both = Flags::ECE | Flags::CWR;
            self.agree_on_ecn(segment.has(both));
            self.state = State::SynReceived;
            self.owes_syn = true;
        }
    }

    /// 3.10.7.3.
    fn handle_syn_sent(&mut self, now: Time, segment: &Segment) {
        let acked = segment.has(Flags::ACK);
        if acked && (self.tx.nxt == 0 || segment.ack != self.wire_seq(1)) {
            self.refuse(segment);
            return;
        }
        if segment.has(Flags::RST) {
            if acked {
                self.end(Some(Failure::Reset));
            }
            return;
        }
        if !segment.has(Flags::SYN) {
            return;
        }
        self.read_syn(segment);
        if acked {
            self.agree_on_ecn(segment.has(Flags::ECE) && !segment.has(Flags::CWR));
            self.owes_syn = false;
            self.rx.owes = true;
            self.establish(now, segment);
        } else {
            // Both have called each other.
            self.agree_on_ecn(segment.has(Flags::ECE | Flags::CWR));
            self.state = State::SynReceived;
            self.owes_syn = true;
        }
    }

    /// What the peer's SYN says, options included.
    fn read_syn(&mut self, segment: &Segment) {
        self.peer_seq = segment.seq;
        self.scaling &= segment.window_scale.is_some();
        self.peer_shift = match segment.window_scale {
            Some(shift) if self.scaling => shift.min(SHIFT_MAX),
            _ => 0,
        };
        if !self.scaling {
            self.our_shift = 0;
        }
        self.timestamps &= segment.timestamps.is_some();
        if let Some((value, _)) = segment.timestamps {
            self.echo_stamp = value;
        }
        self.tx.sack = self.config.sack && segment.sack_permitted;
        // RFC 9293, 3.7.1: 536 if the peer does not say; at least 64, as Linux, lest hostile
        // options make a stream of single bytes.
        let peer = segment.mss.unwrap_or(536).max(64);
        let mss = u64::from(peer.min(self.config.mss.max(64)));
        self.tx.mss = mss - if self.timestamps { TIMESTAMPS_LEN } else { 0 };
        self.rx.begin(self.tx.mss);
    }

    fn agree_on_ecn(&mut self, peer: bool) {
        self.tx.ecn = peer && self.config.ecn != EcnUse::Off;
        self.rx.echo = match self.config.congestion {
            _ if !self.tx.ecn => Echo::Never,
            Congestion::Dctcp => Echo::Exact,
            _ => Echo::UntilReduced,
        };
    }

    /// Our SYN is acknowledged by `segment`.
    fn establish(&mut self, now: Time, segment: &Segment) {
        self.tx.syn_acked(now);
        // The window in a SYN is never scaled (RFC 7323, 2.2).
        let shift = if segment.has(Flags::SYN) { 0 } else { self.peer_shift };
        let window = u64::from(segment.window) << shift;
        let seq = self.peer_offset(segment.seq);
        self.tx.begin(&self.config, self.tx.mss, seq, window);
        self.state = State::Established;
    }

    /// 3.10.7.4, for all states in which both SYNs are known.
    fn handle_synchronised(&mut self, now: Time, segment: &Segment) {
        let from = self.peer_offset(segment.seq);
        let fin = segment.has(Flags::FIN);
        let to = from + i64::from(segment.len) + i64::from(fin);
        if segment.flags.0 & (Flags::SYN | Flags::RST).0 != 0 {
            return self.handle_syn_or_reset(now, segment, from);
        }
        // First: is it news at all? Old stamps are not (RFC 7323, 5.3).
        let stale = self.timestamps
            && segment
                .timestamps
                .is_none_or(|(value, _)| (value.wrapping_sub(self.echo_stamp) as i32) < 0);
        let acceptable = self.rx.acceptable(from, to);
        if stale || !acceptable {
            self.rx.owes = true;
            if stale || to == from {
                return;
            }
        }
        if !segment.has(Flags::ACK) {
            return;
        }
        if let Some((value, _)) = segment.timestamps
            && self.timestamps
            && from <= self.rx.told as i64
        {
            self.echo_stamp = value;
        }
        if !self.read_ack(now, segment, from, to > from) {
            return;
        }
        // Of what arrives twice it is said which it was; what is beyond the window only has its
        // acknowledgement read (3.10.7.4).
        if to > from && (acceptable || to <= self.rx.nxt as i64) {
            self.take(now, segment, from, fin);
        }
    }

    /// Second and fourth step. Blind attacks are met as in RFC 5961.
    fn handle_syn_or_reset(&mut self, now: Time, segment: &Segment, from: i64) {
        if segment.has(Flags::RST) {
            if from == self.rx.nxt as i64 {
                let over = matches!(self.state, State::Closing | State::LastAck | State::TimeWait);
                self.end(if over { None } else { Some(Failure::Reset) });
            } else if self.rx.acceptable(from, from) {
                self.rx.owes = true;
            }
        } else if self.state != State::SynReceived {
            // The peer has not heard our acknowledgement; any other SYN is challenged by the same.
            self.rx.owes = true;
        } else if segment.seq == self.peer_seq {
            // Of both calling each other this is the end (3.5, figure 7).
            if segment.has(Flags::ACK) && self.our_offset(segment.ack) == 1 && self.tx.nxt == 1 {
                self.owes_syn = false;
                self.rx.owes = true;
                self.establish(now, segment);
            } else {
                self.owes_syn = true;
            }
        }
    }

    /// Fifth step. False if the segment is to be dropped.
    fn read_ack(&mut self, now: Time, segment: &Segment, seq: i64, has_data: bool) -> bool {
        let ack = self.our_offset(segment.ack);
        if self.state == State::SynReceived {
            if ack != 1 || self.tx.nxt == 0 {
                self.refuse(segment);
                return false;
            }
            self.owes_syn = false;
            self.establish(now, segment);
        }
        if ack > self.tx.nxt as i64 {
            self.rx.owes = true;
            return false;
        }
        if ack < 0 {
            return true;
        }
        let by_stamp = segment.timestamps.filter(|(_, echo)| self.timestamps && *echo != 0);
        let mut sacks = ArrayVec::new();
        if self.tx.sack {
            for (left, right) in &segment.sacks {
                let (left, right) = (self.our_offset(*left), self.our_offset(*right));
                if left > 0 && right > left {
                    sacks.push((left as u64, right as u64));
                }
            }
        }
        let ack = Ack {
            now,
            ack: ack as u64,
            window: u64::from(segment.window) << self.peer_shift,
            seq,
            has_data,
            echo: segment.has(Flags::ECE),
            rtt: by_stamp.map(|(_, echo)| u64::from(Tcp::stamp(now).wrapping_sub(echo)) * 1_000),
            sacks,
        };
        self.tx.on_ack(&ack, &mut self.stats);
        if self.tx.fin && self.tx.una > self.tx.end {
            self.fin_acked(now);
        }
        true
    }

    fn fin_acked(&mut self, now: Time) {
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.wait(now),
            State::LastAck => self.end(None),
            _ => {}
        }
    }

    fn wait(&mut self, now: Time) {
        self.state = State::TimeWait;
        self.time_wait_ends = now + self.config.time_wait;
    }

    /// Seventh and eighth step: data and FIN.
    fn take(&mut self, now: Time, segment: &Segment, from: i64, fin: bool) {
        let arrival = Arrival {
            from,
            len: segment.len,
            fin,
            marked: segment.ecn == Codepoint::Ce,
            reduced: segment.has(Flags::CWR),
        };
        self.rx.arrive(now, &arrival, &mut self.stats);
        if !self.rx.fin_reached() {
            return;
        }
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 | State::TimeWait => self.wait(now),
            _ => {}
        }
    }

    // ---- What is sent.

    /// The next segment to send, if any. Expired timers are noticed here.
    pub fn poll(&mut self, now: Time) -> Option<Segment> {
        if now >= self.tx.deadline || now >= self.time_wait_ends {
            self.expire(now);
        }
        if let Some((seq, ack)) = self.owes_reset.take() {
            return Some(self.reset(seq, ack));
        }
        match self.state {
            State::Closed | State::Listen => return None,
            State::SynSent | State::SynReceived => return self.poll_syn(now),
            _ => {}
        }
        self.rx.expire(now);
        if let Some((ack, echo)) = self.rx.take_earlier() {
            return Some(self.acknowledgement(now, ack, echo));
        }
        let blocks = self.blocks();
        let mss = self.tx.mss - sack_len(blocks) as u64;
        if let Some(chunk) = self.tx.next(now, mss, &mut self.stats) {
            return Some(self.data(now, chunk, blocks));
        }
        if self.rx.owes {
            let segment = self.acknowledgement(now, self.rx.nxt, self.rx.echoes());
            return Some(segment);
        }
        None
    }

    fn expire(&mut self, now: Time) {
        if now >= self.time_wait_ends {
            return self.end(None);
        }
        if matches!(self.state, State::SynSent | State::SynReceived) {
            self.tx.syn_timeout();
            self.stats.syn_timeouts += 1;
            self.owes_syn = true;
            if self.tx.timeouts > self.config.syn_retries {
                self.end(Some(Failure::TimedOut));
            }
        } else if !self.tx.on_timeout(now, self.config.retries, &mut self.stats) {
            self.end(Some(Failure::TimedOut));
        }
    }

    /// Blocks that fit besides time stamps (RFC 2018, 3).
    fn blocks(&self) -> usize {
        match self.tx.sack {
            true => self.rx.blocks().min(SACK_BLOCKS_MAX - usize::from(self.timestamps)),
            false => 0,
        }
    }

    fn reset(&mut self, seq: u32, ack: Option<u32>) -> Segment {
        self.stats.segments_sent += 1;
        let flags = if ack.is_some() { Flags::RST | Flags::ACK } else { Flags::RST };
        Segment { seq, ack: ack.unwrap_or(0), flags, ..Segment::default() }
    }

    fn poll_syn(&mut self, now: Time) -> Option<Segment> {
        if !std::mem::take(&mut self.owes_syn) {
            return None;
        }
        self.tx.syn_sent(now);
        self.stats.segments_sent += 1;
        let answers = self.state == State::SynReceived;
        let mut flags = Flags::SYN;
        if answers {
            flags = flags | Flags::ACK;
            if self.tx.ecn {
                flags = flags | Flags::ECE;
            }
        } else if self.config.ecn != EcnUse::Off {
            // RFC 3168, 6.1.1.
            flags = flags | Flags::ECE | Flags::CWR;
        }
        Some(Segment {
            seq: self.config.initial_seq,
            ack: if answers { self.wire_ack(1) } else { 0 },
            flags,
            window: self.rx.window().min(0xFFFF) as u16,
            len: 0,
            ecn: self.control_codepoint(self.config.ecn == EcnUse::All),
            mss: Some(self.config.mss),
            window_scale: self.scaling.then_some(self.our_shift),
            sack_permitted: if answers { self.tx.sack } else { self.config.sack },
            timestamps: self.timestamps.then_some((Tcp::stamp(now), self.echo_stamp)),
            sacks: ArrayVec::new(),
        })
    }

    fn control_codepoint(&self, capable: bool) -> Codepoint {
        if capable { Codepoint::Ect0 } else { Codepoint::NotEct }
    }

    /// What every segment of a standing connection has.
    #[inline]
    fn segment(&mut self, now: Time, seq: u64, ack: u64, echo: bool) -> Segment {
        self.stats.segments_sent += 1;
        let window = self.rx.window() >> self.our_shift;
        Segment {
            seq: self.wire_seq(seq),
            ack: self.wire_ack(ack),
            flags: if echo { Flags::ACK | Flags::ECE } else { Flags::ACK },
            window: window.min(0xFFFF) as u16,
            len: 0,
            ecn: self.control_codepoint(self.tx.ecn && self.config.ecn == EcnUse::All),
            mss: None,
            window_scale: None,
            sack_permitted: false,
            timestamps: self.timestamps.then(|| (Tcp::stamp(now), self.echo_stamp)),
            sacks: ArrayVec::new(),
        }
    }

    fn acknowledgement(&mut self, now: Time, ack: u64, echo: bool) -> Segment {
        let blocks = self.blocks();
        let mut segment = self.segment(now, self.tx.nxt, ack, echo);
        self.add_blocks(&mut segment, blocks);
        if ack == self.rx.nxt {
            self.rx.acknowledged();
        }
        segment
    }

    #[inline]
    fn data(&mut self, now: Time, chunk: Chunk, blocks: usize) -> Segment {
        let (ack, echo) = (self.rx.nxt, self.rx.echoes());
        let mut segment = self.segment(now, chunk.from, ack, echo);
        self.add_blocks(&mut segment, blocks);
        segment.len = (chunk.to.min(self.tx.end) - chunk.from.min(self.tx.end)) as u32;
        if chunk.to > self.tx.end {
            segment.flags = segment.flags | Flags::FIN;
            self.fin_sent();
        }
        if chunk.to >= self.tx.end {
            segment.flags = segment.flags | Flags::PSH;
        }
        // RFC 3168, 6.1.5: never a retransmission.
        if self.tx.ecn && !chunk.again && segment.len > 0 {
            segment.ecn = Codepoint::Ect0;
        }
        if self.tx.sent(now, chunk, &mut self.stats) {
            segment.flags = segment.flags | Flags::CWR;
        }
        self.stats.data_segments_sent += 1;
        self.rx.acknowledged();
        segment
    }

    fn fin_sent(&mut self) {
        match self.state {
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            _ => {}
        }
    }

    #[inline]
    fn add_blocks(&mut self, segment: &mut Segment, max: usize) {
        if max == 0 {
            return;
        }
        let base = self.peer_seq;
        self.rx.each_block(max, |from, to| {
            segment.sacks.push((base.wrapping_add(from as u32), base.wrapping_add(to as u32)));
        });
    }
}
