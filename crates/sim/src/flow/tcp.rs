//! TCP: one connection, one direction, and the programs at its ends. One program writes as fast as
//! its socket accepts, or at a rate. The other reads at once, and closes after the first.
//!
//! Segments are real but for their payload, of which only the length travels.

use std::time::Duration;

use plexus_io::Packet;
use plexus_report::{Outcome, bits_per_s};
use plexus_topo::{Expect, Extent, Flow};
use plexus_wire::{Protocol, Time, tcp as header};

use super::{Ends, SimFlow, State};
use crate::core::Core;
use crate::host::SimHost;
use crate::host::ip::{self, Ip};
use crate::tcp::{
    Codepoint, Congestion, EcnUse, Segment, State as TcpState, Stats, Tcp, TcpConfig,
};
use crate::time::SimTime;

/// How long a connection may take, and how long it may stand still.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a connection that should be blocked is tried: two retransmissions of the SYN.
const PATIENCE_BLOCKED: Duration = Duration::from_secs(4);
/// Bytes that a program has written and that are not acknowledged, at most (`tcp_wmem`).
const SEND_BUFFER: u64 = 4 << 20;
/// How often a program that keeps to a rate writes.
const WRITE_EVERY: Duration = Duration::from_millis(1);
/// A flow's number in its two ports: the sender's begins with 01, the receiver's with 10.
const PORT_BITS: u32 = 14;
const SENDER: u16 = 1 << PORT_BITS;
const RECEIVER: u16 = 2 << PORT_BITS;
/// TCP's header without options.
const HEADER_LEN: usize = 20;

/// The congestion controls by the names that Linux gives them.
pub(crate) const CONGESTION: [(&str, Congestion); 3] =
    [("cubic", Congestion::Cubic), ("reno", Congestion::NewReno), ("dctcp", Congestion::Dctcp)];

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Sender = 0,
    Receiver = 1,
}

/// The history of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Connected {
    /// Counts of the sender and of the receiver.
    pub stats: [Stats; 2],
    /// Bytes that have arrived in order.
    pub delivered: u64,
    /// From the beginning of the flow to the arrival of its last byte, if that has come.
    pub finished: Option<Duration>,
}

/// A connection and the programs at its ends.
pub(super) struct Connection {
    ends: [Tcp; 2],
    /// Which ends are in their host's queue of ends that want to send.
    is_eager: [bool; 2],
    congestion: &'static str,
    total: u64,
    lasts: Option<Duration>,
    written: u64,
    write_at: SimTime,
    /// When something was last acknowledged, and how much was by then.
    moved: (SimTime, u64),
    connected_at: Option<SimTime>,
    /// When the last byte arrived that came.
    arrived: Option<SimTime>,
    problem: Option<String>,
    turned_away: bool,
}

impl Connection {
    /// A connection that nobody has opened yet.
    pub(super) fn new(spec: &Flow, of: &Ends) -> Connection {
        let Ends { to, mtus, seeds, .. } = *of;
        let headers = (ip::header_len(to) + HEADER_LEN) as u16;
        let wanted = spec.congestion.as_deref();
        let (congestion, control) =
            *CONGESTION.iter().find(|(n, _)| Some(*n) == wanted).unwrap_or(&CONGESTION[0]);
        let ecn = if control == Congestion::Dctcp { EcnUse::All } else { EcnUse::Off };
        let config = |mtu: u16, initial_seq| TcpConfig {
            mss: mtu.saturating_sub(headers),
            congestion: control,
            ecn,
            timestamps: true,
            hystart: control == Congestion::Cubic,
            initial_seq,
            ..TcpConfig::default()
        };
        let (total, lasts) = match spec.extent {
            Extent::Bytes(n) => (n, None),
            Extent::Packets(n) => (u64::from(n) * u64::from(spec.size), None),
            Extent::Duration(d) => (u64::MAX, Some(d)),
        };
        Connection {
            ends: [Tcp::connect(config(mtus[0], seeds[0])), Tcp::listen(config(mtus[1], seeds[1]))],
            is_eager: [false; 2],
            congestion,
            total,
            lasts,
            written: 0,
            write_at: SimTime::ZERO,
            moved: (SimTime::ZERO, 0),
            connected_at: None,
            arrived: None,
            problem: None,
            turned_away: false,
        }
    }

    /// Whether the connection stands, or stood.
    fn is_open(&self) -> bool {
        use TcpState::{Closed, Listen, SynReceived, SynSent};
        !matches!(self.ends[0].state(), SynSent | Listen | SynReceived | Closed)
    }

    /// Changes the settings of both ends before the connection is opened.
    pub(super) fn tune(&mut self, tune: &dyn Fn(&mut TcpConfig)) {
        self.ends.iter_mut().for_each(|end| end.tune(tune));
    }

    /// The receiver opens the connection, as a client does that fetches something.
    pub(super) fn open_by_receiver(&mut self) {
        let [sender, receiver] = self.ends.each_ref().map(|end| *end.config());
        self.ends = [Tcp::listen(sender), Tcp::connect(receiver)];
    }

    /// Its history since the flow began.
    pub(super) fn facts(&self, started: SimTime) -> Connected {
        let is_whole = self.ends[1].delivered() >= self.total;
        Connected {
            stats: self.ends.each_ref().map(|end| *end.stats()),
            delivered: self.ends[1].delivered(),
            finished: self.arrived.filter(|_| is_whole).map(|last| (last - started).into()),
        }
    }

    /// The program writes what it may by now.
    fn write(&mut self, now: SimTime, rate_bits_per_s: Option<u64>) {
        let Some(since) = self.connected_at else { return };
        let elapsed = Duration::from(now - since);
        if self.written >= self.total || self.lasts.is_some_and(|lasts| elapsed >= lasts) {
            return self.ends[0].close();
        }
        let room = SEND_BUFFER.saturating_sub(self.written - self.ends[0].acknowledged());
        let mut more = room.min(self.total - self.written);
        if let Some(rate) = rate_bits_per_s {
            let due = (elapsed.as_nanos() * u128::from(rate) / 8_000_000_000) as u64;
            more = more.min(due.saturating_sub(self.written));
            self.write_at = now + WRITE_EVERY.into();
        }
        self.written += more;
        self.ends[0].write(more);
        if self.written >= self.total {
            self.ends[0].close();
        }
    }

    /// What became of it; the numbers are the lab's.
    pub(super) fn outcome(self, name: &str, started: SimTime, ended: SimTime) -> Outcome {
        let received = self.ends[1].delivered();
        let connected = self.connected_at.unwrap_or(started);
        let arrived = self.arrived.map_or(SimTime::ZERO, |last| last - connected);
        let sending = ended - connected;
        let lost = self.written.saturating_sub(received);
        // All has come with the last byte; else its arrival ended nothing.
        let arriving = if lost > 0 { arrived.max(sending) } else { arrived };
        let loss = if self.written > 0 { lost as f64 / self.written as f64 } else { 1.0 };
        let note = format!("{name}: TCP congestion control {}", self.congestion);
        Outcome {
            sent_bytes: self.written,
            received_bytes: received,
            sent_bits_per_s: bits_per_s(self.written, sending.as_secs_f64()),
            received_bits_per_s: bits_per_s(received, arriving.as_secs_f64()),
            loss,
            set_out: self.turned_away,
            problem: self.problem,
            note: self.connected_at.is_some().then_some(note),
            ..Outcome::default()
        }
    }
}

impl SimFlow {
    /// The hosts of its two ends, where it is a connection.
    pub(crate) fn sides(&self) -> [(usize, Side); 2] {
        [(self.from, Side::Sender), (self.receiver, Side::Receiver)]
    }

    /// Whether an end is to be put into its host's queue of those that want to send; it is then.
    pub(crate) fn become_eager(&mut self, side: Side) -> bool {
        let eager = self.tcp.as_mut().map(|tcp| &mut tcp.is_eager[side as usize]);
        eager.is_some_and(|eager| !std::mem::replace(eager, true))
    }

    /// An end whose turn has come sends one segment, if it has one: whether it had.
    pub(crate) fn send_segment(&mut self, core: &mut Core, host: &mut SimHost, side: Side) -> bool {
        let rate = self.spec.rate_bits_per_s;
        let Some(tcp) = &mut self.tcp else { return false };
        tcp.is_eager[side as usize] = false;
        if side == Side::Sender {
            tcp.write(core.now, rate);
        }
        let Some(segment) = tcp.ends[side as usize].poll(core.now.floor()) else {
            self.watch(core);
            return false;
        };
        let (low, high) = (self.number as u16 & (SENDER - 1), (self.number >> PORT_BITS) as u16);
        let (own, other) = (SENDER | low, RECEIVER | high & (SENDER - 1));
        let (ports, ends) = match side {
            Side::Sender => ((own, other), Some((None, self.to))),
            Side::Receiver => ((other, own), self.back.map(|back| (Some(self.to), back))),
        };
        if let Some(ends) = ends
            && let Ok(repr) = segment.to_repr(ports.0, ports.1)
            && let Some(mut packet) =
                host.packet(core, ends, Protocol::TCP, segment.wire_len(), segment.ecn as u8)
        {
            // It fits: the packet was made for it.
            let _ = repr.emit(ip::payload_mut(core.pool.data_mut(&mut packet)));
            host.send(core, ends.1, packet);
        }
        true
    }

    /// A segment has come to one of the ends.
    pub(super) fn hear_segment(&mut self, core: &mut Core, packet: Packet) {
        let segment = parse(core.pool.data(&packet));
        core.pool.free(packet);
        let (Some((segment, side)), Some(tcp)) = (segment, &mut self.tcp) else { return };
        let now = core.now;
        let end = &mut tcp.ends[side as usize];
        let before = end.delivered();
        end.handle(now.floor(), &segment);
        match side {
            Side::Receiver => {
                if end.delivered() > before {
                    tcp.arrived = Some(now);
                }
                if end.peer_closed() {
                    end.close();
                }
            }
            Side::Sender => {
                if tcp.is_open() && tcp.connected_at.is_none() {
                    (tcp.connected_at, tcp.moved) = (Some(now), (now, 0));
                }
                if tcp.ends[0].acknowledged() > tcp.moved.1 {
                    tcp.moved = (now, tcp.ends[0].acknowledged());
                }
            }
        }
        self.judge_connection(core);
    }

    /// Whether it has ended, one way or the other.
    pub(super) fn judge_connection(&mut self, core: &mut Core) {
        let Some(tcp) = &mut self.tcp else { return };
        let patience = match self.spec.expect {
            Expect::Pass => PATIENCE,
            Expect::Blocked => PATIENCE_BLOCKED,
        };
        if self.state == State::Sending {
            if let Some(failure) = tcp.ends[0].failure() {
                tcp.problem = Some(format!("the connection ended: {failure:?}"));
            } else if tcp.connected_at.is_none() && core.now >= self.started + patience.into() {
                tcp.problem = Some(format!("connecting to {}: no answer", self.to));
                tcp.turned_away = true;
            } else if tcp.connected_at.is_some() && core.now >= tcp.moved.0 + PATIENCE.into() {
                tcp.problem = Some("sending: it stood still for 15 s".into());
            }
            if tcp.problem.is_some() {
                tcp.ends[0].abort();
            }
            if tcp.problem.is_some() || tcp.ends[0].peer_closed() {
                (self.state, self.sender_ended) = (State::Ended, core.now);
            }
        }
        self.watch(core);
    }

    /// Says when there is something to do even if nothing arrives.
    fn watch(&self, core: &mut Core) {
        let Some(tcp) = &self.tcp else { return };
        // An end that waits for its turn is asked then.
        let ends = tcp.ends.iter().zip(tcp.is_eager).filter(|(_, is_eager)| !is_eager);
        let timers = ends.map(|(end, _)| end.next_deadline()).min().unwrap_or(Time::FOREVER);
        let mut at = SimTime::from(timers).max(core.now);
        if self.state == State::Sending {
            let moved = tcp.moved.0.max(self.started);
            let until = tcp.connected_at.zip(tcp.lasts).map(|(since, lasts)| since + lasts.into());
            let patience = [PATIENCE_BLOCKED, PATIENCE].map(|p| Some(moved + p.into()));
            let all = [Some(tcp.write_at), until].into_iter().chain(patience).flatten();
            // What has passed has been seen to.
            at = all.filter(|t| *t > core.now).fold(at, SimTime::min);
        }
        core.wake(self.device, at);
    }
}

/// A segment and the end that it has come to.
fn parse(frame: &[u8]) -> Option<(Segment, Side)> {
    let ip = Ip::parse(frame)?;
    let view = header::Segment::new_checked(ip.payload).ok()?;
    let repr = header::Repr::parse(&view).ok()?;
    let len = ip.payload.len().checked_sub(repr.buffer_len())?;
    let side = if repr.dst_port & RECEIVER != 0 { Side::Receiver } else { Side::Sender };
    let segment = Segment::from_repr(&repr, len as u32, Codepoint::from_bits(ip.ecn)).ok()?;
    Some((segment, side))
}

/// The flow that a segment belongs to.
pub(crate) fn flow_of(segment: &[u8]) -> Option<u32> {
    let view = header::Segment::new_checked(segment).ok()?;
    let (a, b) = (view.src_port(), view.dst_port());
    let (sender, receiver) = if a & SENDER != 0 { (a, b) } else { (b, a) };
    let is_ours = sender >> PORT_BITS == 1 && receiver >> PORT_BITS == 2;
    let (low, high) = (u32::from(sender & (SENDER - 1)), u32::from(receiver & (SENDER - 1)));
    is_ours.then_some(high << PORT_BITS | low)
}
