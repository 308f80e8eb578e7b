//! Fetches the segments of one object with a congestion window, and returns them in order.
//!
//! An Interest without an answer within the retransmission timeout counts as lost, and is
//! retransmitted before any new one is sent. A loss, a congestion mark or a Nack for congestion
//! lowers the window, unless its segment was requested before the last decrease ("conservative
//! window adaptation" of `ndncatchunks`): so at most once per round trip.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::time::Duration;

use hdrhistogram::Histogram;
use plexus_ndn::link::{Kind, Received};
use plexus_ndn::rtt::Rtt;
use plexus_wire::Time;
use plexus_wire::ndn::data::ContentType;
use plexus_wire::ndn::interest::Repr;
use plexus_wire::ndn::lp::NackReason;
use plexus_wire::ndn::{Data, Interest, Name, NameBuf, types};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use crate::app::Output;
use crate::ask::send_interest;
use crate::digest::{Integrity, integrity};
use crate::failure::Failure;
use crate::window::{Algorithm, Window};

/// Settings of a fetch.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The congestion control algorithm.
    pub algorithm: Algorithm,
    /// Initial window, in segments.
    pub window: usize,
    /// Largest window.
    pub window_max: usize,
    /// Most segments kept because an earlier one is missing, or because they are not taken.
    pub ahead_max: usize,
    /// Lifetime of an Interest in forwarders. It is retransmitted earlier if answers are fast.
    pub lifetime: Duration,
    /// Most Interests for one segment.
    pub tries: u32,
    /// Record round-trip times in [`Stats::rtt_us`].
    pub keep_rtt: bool,
}

impl Default for Settings {
    /// CUBIC with 16 to 8192 segments, 8192 kept, 4 s, 15 tries (`ndncatchunks`).
    fn default() -> Settings {
        Settings {
            algorithm: Algorithm::Cubic,
            window: 16,
            window_max: 8192,
            ahead_max: 8192,
            lifetime: Duration::from_secs(4),
            tries: 16,
            keep_rtt: false,
        }
    }
}

/// Statistics of a fetch.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stats {
    /// Segments received.
    pub segments: u64,
    /// Bytes of their content.
    #[serde(skip)]
    pub bytes: u64,
    /// Interests sent.
    pub interests: u64,
    /// Of these, retransmissions.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Nacks.
    pub nacks: u64,
    /// Answers with a congestion mark.
    pub marks: u64,
    /// Decreases of the window.
    pub window_decreases: u64,
    /// Answers with a wrong digest.
    pub damaged: u64,
    /// Answers with a signature that cannot be verified here.
    pub unverified: u64,
    /// Round-trip times in µs of Interests sent once.
    #[serde(skip)]
    pub rtt_us: Option<Histogram<u64>>,
}

#[derive(Clone, Copy)]
struct Flight {
    sent: Time,
    deadline: Time,
    nonce: [u8; 4],
    tries: u32,
    /// A Nack arrived, and it waits for retransmission; the window has been adapted.
    is_refused: bool,
}

enum Slot {
    Asked(Flight),
    /// Lost this many times.
    Lost(u32),
    Here(Box<[u8]>),
}

/// Fetches the segments of an object.
pub struct Segments {
    base: NameBuf,
    settings: Settings,
    window: Window,
    rtt: Rtt,
    /// The next segment to return, and all later ones requested.
    next: u64,
    slots: VecDeque<Slot>,
    /// Lost segments, to be retransmitted.
    lost: BTreeSet<u64>,
    /// Segments that were denied once. They are asked for anew, past what caches have kept.
    denied: BTreeSet<u64>,
    in_flight: usize,
    deadlines: BinaryHeap<Reverse<(Time, u64)>>,
    /// The last segment wanted, if known.
    wanted: Option<u64>,
    /// The last segment of the object, if known.
    last: Option<u64>,
    /// Congestion of segments below this one has been handled.
    heeded: u64,
    failure: Option<Failure>,
    stats: Stats,
    random: Pcg64Mcg,
}

impl Segments {
    /// Fetches the segments `first` to `wanted`, or to the last, of the object `base`.
    pub fn new(
        base: NameBuf,
        first: u64,
        wanted: Option<u64>,
        settings: Settings,
        seed: u64,
    ) -> Segments {
        let mut stats = Stats::default();
        if settings.keep_rtt {
            stats.rtt_us = Histogram::new(3).ok();
        }
        Segments {
            base,
            settings,
            window: Window::new(settings.algorithm, settings.window, settings.window_max),
            rtt: Rtt::default(),
            next: first,
            slots: VecDeque::new(),
            lost: BTreeSet::new(),
            denied: BTreeSet::new(),
            in_flight: 0,
            deadlines: BinaryHeap::new(),
            wanted,
            last: None,
            heeded: first,
            failure: None,
            stats,
            random: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// The statistics so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The last segment to be returned, if known.
    pub fn end(&self) -> Option<u64> {
        self.wanted.into_iter().chain(self.last).min()
    }

    /// The next segment to be returned.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// All segments have been returned.
    pub fn is_done(&self) -> bool {
        self.end().is_some_and(|end| self.next > end)
    }

    /// Why the fetch failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// The content of the next segment in order, if it has arrived.
    pub fn take(&mut self) -> Option<Box<[u8]>> {
        match self.slots.front() {
            Some(Slot::Here(_)) => {}
            _ => return None,
        }
        self.next += 1;
        match self.slots.pop_front() {
            Some(Slot::Here(content)) => Some(content),
            _ => None,
        }
    }

    fn name_of(&self, segment: u64) -> NameBuf {
        self.base.clone().with_number(types::SEGMENT, segment)
    }

    fn segment_of(&self, name: Name<'_>) -> Option<u64> {
        let base = self.base.as_name();
        if name.len() != base.len() + 1 || !base.is_prefix_of(&name) {
            return None;
        }
        name.last()?.number(types::SEGMENT)
    }

    fn slot(&mut self, segment: u64) -> Option<&mut Slot> {
        let at = usize::try_from(segment.checked_sub(self.next)?).ok()?;
        self.slots.get_mut(at)
    }

    /// Processes a packet; false if it belongs to another object.
    pub fn handle(&mut self, now: Time, received: &Received<'_>) -> bool {
        match received.kind {
            Kind::Data => {
                let Ok(data) = Data::new_checked(received.packet) else { return false };
                let Some(segment) = self.segment_of(data.name()) else { return false };
                let is_marked = received.headers.congestion_mark.is_some_and(|mark| mark != 0);
                self.data(now, segment, &data, is_marked);
                true
            }
            Kind::Nack(reason) => {
                let Ok(interest) = Interest::new_checked(received.packet) else { return false };
                let Some(segment) = self.segment_of(interest.name()) else { return false };
                self.nack(now, segment, interest.nonce(), reason);
                true
            }
            Kind::Interest => false,
        }
    }

    fn data(&mut self, now: Time, segment: u64, data: &Data<'_>, is_marked: bool) {
        let in_flight = self.in_flight;
        let name = data.name();
        let Some(slot) = self.slot(segment) else { return };
        let flight = match slot {
            Slot::Here(_) => return,
            // It was late, not lost.
            Slot::Lost(_) => None,
            Slot::Asked(flight) => Some(*flight),
        };
        match integrity(data) {
            Integrity::Intact => {}
            Integrity::Unknown => self.stats.unverified += 1,
            Integrity::Damaged => {
                self.stats.damaged += 1;
                return self.refuse(segment, now + self.round_trip());
            }
        }
        if data.content_type() == ContentType::NACK {
            // A cache may have kept it from a time at which the object was not there.
            if self.denied.insert(segment) {
                return self.refuse(segment, now);
            }
            return self.fail(Failure::Absent(name.to_buf()));
        }
        if let Some(last) = data.meta().final_block.and_then(|c| c.number(types::SEGMENT)) {
            if last < segment || last.saturating_add(1) < self.next {
                let why = format!("segment {segment} says that segment {last} is the last");
                return self.fail(Failure::Misfit { name: name.to_buf(), why });
            }
            self.ends_with(last);
        }
        let content = data.content();
        self.stats.segments += 1;
        self.stats.bytes += content.len() as u64;
        // For retransmitted Interests it is unknown which one was answered.
        let sample = flight.filter(|f| f.tries == 1).map(|f| now.since(f.sent));
        match flight {
            Some(_) => {
                self.in_flight -= 1;
                if let Some(took) = sample {
                    let per_rtt = u32::try_from(in_flight.div_ceil(2)).unwrap_or(u32::MAX);
                    self.rtt.sample(took, per_rtt);
                    if let Some(rtt) = &mut self.stats.rtt_us {
                        // The histogram resizes as needed.
                        let _ = rtt.record(took.as_micros() as u64);
                    }
                }
            }
            None => drop(self.lost.remove(&segment)),
        }
        if let Some(slot) = self.slot(segment) {
            *slot = Slot::Here(content.into());
        }
        match is_marked {
            true => {
                self.stats.marks += 1;
                self.congested(segment);
            }
            false => self.window.answered(now, self.round_trip(), sample),
        }
    }

    /// There are no segments after `last`; requested ones are forgotten.
    fn ends_with(&mut self, last: u64) {
        self.last = Some(last);
        while self.next + self.slots.len() as u64 > last.saturating_add(1) {
            let segment = self.next + self.slots.len() as u64 - 1;
            match self.slots.pop_back() {
                Some(Slot::Asked(_)) => self.in_flight -= 1,
                Some(Slot::Lost(_)) => drop(self.lost.remove(&segment)),
                _ => {}
            }
        }
    }

    fn nack(&mut self, now: Time, segment: u64, nonce: Option<[u8; 4]>, reason: NackReason) {
        let name = self.name_of(segment);
        match self.slot(segment) {
            Some(Slot::Asked(flight)) if nonce == Some(flight.nonce) => {}
            _ => return,
        }
        self.stats.nacks += 1;
        match reason {
            NackReason::NO_ROUTE if self.stats.segments == 0 => self.fail(Failure::NoRoute(name)),
            // Retry with another nonce.
            NackReason::DUPLICATE => self.refuse(segment, now),
            // A path that was just lost may come back.
            NackReason::NO_ROUTE => self.refuse(segment, now + self.rtt.timeout()),
            _ => {
                self.congested(segment);
                self.refuse(segment, now + self.round_trip());
            }
        }
    }

    /// The approximate round-trip time.
    fn round_trip(&self) -> Duration {
        self.rtt.smoothed().unwrap_or(self.rtt.timeout())
    }

    /// Schedules a retransmission.
    fn refuse(&mut self, segment: u64, at: Time) {
        if let Some(Slot::Asked(flight)) = self.slot(segment) {
            flight.deadline = at;
            flight.is_refused = true;
            self.deadlines.push(Reverse((at, segment)));
        }
    }

    fn congested(&mut self, segment: u64) {
        if segment >= self.heeded {
            self.heeded = self.next + self.slots.len() as u64;
            self.stats.window_decreases += 1;
            self.window.congested();
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Sends what is due, as far as the window allows.
    pub fn poll(&mut self, now: Time, out: &mut dyn Output) {
        if self.failure.is_some() {
            return;
        }
        while let Some(&Reverse((at, segment))) = self.deadlines.peek() {
            if at > now && self.is_current(at, segment) {
                break;
            }
            self.deadlines.pop();
            if at <= now && self.is_current(at, segment) {
                self.give_up(segment);
            }
        }
        while self.in_flight < self.window.size() && self.failure.is_none() {
            let segment = match self.lost.pop_first() {
                Some(segment) => segment,
                None if self.may_go_on() => {
                    self.slots.push_back(Slot::Lost(0));
                    self.next + self.slots.len() as u64 - 1
                }
                None => return,
            };
            self.ask(now, segment, out);
        }
    }

    /// Whether there is a segment not requested yet, and room for it.
    fn may_go_on(&self) -> bool {
        let new = self.next + self.slots.len() as u64;
        match self.end() {
            Some(end) => new <= end && self.slots.len() < self.settings.ahead_max,
            // The first segment tells whether there is a second one.
            None => {
                let is_known = self.stats.segments > 0 || self.slots.is_empty();
                is_known && self.slots.len() < self.settings.ahead_max
            }
        }
    }

    fn is_current(&mut self, at: Time, segment: u64) -> bool {
        matches!(self.slot(segment), Some(Slot::Asked(f)) if f.deadline == at)
    }

    /// An answer timed out, or a retransmission is due.
    fn give_up(&mut self, segment: u64) {
        let Some(Slot::Asked(flight)) = self.slot(segment) else { return };
        let flight = *flight;
        if !flight.is_refused {
            self.stats.timeouts += 1;
            if segment >= self.heeded {
                self.rtt.back_off();
            }
            self.congested(segment);
        }
        self.in_flight -= 1;
        if flight.tries >= self.settings.tries {
            let name = self.name_of(segment);
            return self.fail(Failure::NoAnswer { name, tries: flight.tries });
        }
        if let Some(slot) = self.slot(segment) {
            *slot = Slot::Lost(flight.tries);
        }
        self.lost.insert(segment);
    }

    fn ask(&mut self, now: Time, segment: u64, out: &mut dyn Output) {
        let nonce = self.random.random();
        let deadline = now + self.rtt.timeout();
        let Some(slot) = self.slot(segment) else { return };
        let tries = match slot {
            Slot::Lost(tries) => *tries + 1,
            _ => return,
        };
        *slot = Slot::Asked(Flight { sent: now, deadline, nonce, tries, is_refused: false });
        self.deadlines.push(Reverse((deadline, segment)));
        self.in_flight += 1;
        self.stats.interests += 1;
        self.stats.retransmissions += u64::from(tries > 1);
        let name = self.name_of(segment);
        let repr = Repr {
            must_be_fresh: self.denied.contains(&segment),
            nonce: Some(nonce),
            lifetime_ms: Some(self.settings.lifetime.as_millis() as u64),
            ..Repr::new(name.as_name())
        };
        send_interest(&repr, out);
    }

    /// When to poll; at once, if a returned segment made room for others.
    pub fn next_deadline(&self) -> Option<Time> {
        if self.failure.is_some() || self.is_done() {
            return None;
        }
        let has_room = self.in_flight < self.window.size();
        match has_room && (self.may_go_on() || !self.lost.is_empty()) {
            true => Some(Time::ZERO),
            false => self.deadlines.peek().map(|Reverse((at, _))| *at),
        }
    }
}

#[cfg(test)]
mod tests;
