//! A consumer that generates and measures traffic: it requests the chunks of a catalogue's items,
//! drawn by Zipf's law, or the names of a list, and counts the results.
//!
//! Item `i` of a catalogue, starting with 1, the most popular, is `PREFIX/i/seg=0` to
//! `seg=CHUNKS-1`: its chunks are requested in order, then the next item is drawn. Interests that
//! expire are counted and not retransmitted, so that the results are those of the network without
//! repair.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use plexus_ndn::link::{Kind, Received};
use plexus_wire::ndn::interest::Repr;
use plexus_wire::ndn::lp::NackReason;
use plexus_wire::ndn::{Data, Interest, Name, NameBuf, types};
use plexus_wire::{Time, add_fields};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64Mcg;

use crate::app::{Application, Output};
use crate::ask::send_interest;
use crate::digest::{Integrity, integrity};

/// Most pending Interests at a rate: further ones are delayed, and counted.
pub const PENDING_MAX: usize = 1 << 20;
/// Most draws of names that are already pending, before other work has its turn.
const DRAWS: usize = 64;

/// The names to request.
#[derive(Clone, Debug)]
pub enum Names {
    /// Chunks of items.
    Catalogue {
        /// Items.
        items: u64,
        /// Chunks of each.
        chunks: u64,
        /// The exponent of Zipf's law; 0: all items are equally popular.
        exponent: f64,
    },
    /// These names, in order, once.
    List(Arc<[NameBuf]>),
}

/// The speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// This many Interests are pending at any time.
    Window(usize),
    /// This many Interests per second, evenly.
    Rate(f64),
}

/// Configuration of a consumer.
#[derive(Clone, Debug)]
pub struct Config {
    /// The prefix of all names.
    pub prefix: NameBuf,
    /// The names to request.
    pub names: Names,
    /// For a list: this consumer's names, every `of`-th starting with the `nth`.
    pub share: Share,
    /// The speed.
    pub pace: Pace,
    /// Lifetime of an Interest.
    pub lifetime: Duration,
    /// Nothing is counted before this time.
    pub warm_up: Duration,
    /// Stop after this many Interests.
    pub count: Option<u64>,
    /// How long to send and count; Interests pending at the end are waited for until they expire,
    /// and counted as well. `None`: until the end of the list, or the count.
    pub duration: Option<Duration>,
    /// Runs with the same seed are identical.
    pub seed: u64,
    /// Whether digests are verified.
    pub verify: bool,
}

/// One of several consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its number, from 0.
    pub nth: usize,
    /// Number of consumers.
    pub of: usize,
}

/// Results of a consumer.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Interests sent.
    pub interests: u64,
    /// Data received in answer.
    pub satisfied: u64,
    /// Nacks by reason: congestion, duplicate, no route, others.
    pub nacked: [u64; 4],
    /// Interests that expired without an answer.
    pub timed_out: u64,
    /// Answers with a wrong digest; also counted as satisfied.
    pub damaged: u64,
    /// Answers with a congestion mark.
    pub marked: u64,
    /// Names drawn that were already pending, and not requested a second time.
    pub merged: u64,
    /// Interests delayed because too many were pending.
    pub late: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Time to an answer, in nanoseconds.
    pub latency_ns: Histogram<u64>,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            interests: 0,
            satisfied: 0,
            nacked: [0; 4],
            timed_out: 0,
            damaged: 0,
            marked: 0,
            merged: 0,
            late: 0,
            bytes: 0,
            // Three digits, for any values.
            latency_ns: Histogram::new(3).expect("three digits can be kept"),
        }
    }
}

impl Counts {
    /// Adds another consumer's counts.
    pub fn add(&mut self, other: &Counts) {
        add_fields!(self, other; interests, satisfied, timed_out, damaged, marked, merged);
        add_fields!(self, other; late, bytes);
        self.nacked.iter_mut().zip(other.nacked).for_each(|(sum, n)| *sum += n);
        // A resizing histogram holds whatever another one does.
        let _ = self.latency_ns.add(&other.latency_ns);
    }
}

struct Drawer {
    names: Names,
    share: Share,
    zipf: Option<Zipf<f64>>,
    item: u64,
    chunk: u64,
    prefix: NameBuf,
    random: Pcg64Mcg,
}

impl Drawer {
    fn new(config: &Config) -> Result<Drawer, &'static str> {
        let zipf = match config.names {
            Names::Catalogue { items, chunks, exponent } => {
                if items == 0 || chunks == 0 {
                    return Err("a catalogue has at least one item, and an item one chunk");
                }
                if !(0.0..=20.0).contains(&exponent) {
                    return Err("the exponent of Zipf's law is 0 to 20");
                }
                Zipf::new(items as f64, exponent).ok()
            }
            Names::List(_) => None,
        };
        Ok(Drawer {
            names: config.names.clone(),
            share: config.share,
            zipf,
            item: 0,
            chunk: 0,
            prefix: config.prefix.clone(),
            random: Pcg64Mcg::seed_from_u64(config.seed),
        })
    }

    /// The next name; `None` after the end of a list.
    fn next(&mut self) -> Option<NameBuf> {
        match &self.names {
            Names::Catalogue { items, chunks, .. } => {
                if self.chunk == 0 {
                    // The sampler returns whole numbers, from 1 to the number of items.
                    let drawn = self.zipf.map_or(1.0, |zipf| zipf.sample(&mut self.random));
                    self.item = (drawn as u64).clamp(1, *items);
                }
                let mut digits = [0; 20];
                let name = self.prefix.clone().with(decimal(self.item, &mut digits));
                let name = name.with_number(types::SEGMENT, self.chunk);
                self.chunk = (self.chunk + 1) % chunks;
                Some(name)
            }
            Names::List(list) => {
                let at = self.share.nth + self.item as usize * self.share.of;
                self.item += 1;
                let mut name = self.prefix.clone();
                name.extend(list.get(at)?.as_name());
                Some(name)
            }
        }
    }
}

fn decimal(mut n: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            return &digits[at..];
        }
    }
}

/// A sent Interest; without a name once it has been answered.
struct Pending {
    name: Option<NameBuf>,
    sent: Time,
    nonce: [u8; 4],
}

/// The consumer.
pub struct Consumer {
    config: Config,
    drawer: Drawer,
    /// By name, the number of the Interest.
    by_name: HashMap<NameBuf, u64>,
    /// Interests by number, starting with `first`. All have the same lifetime.
    pending: VecDeque<Pending>,
    first: u64,
    /// When the next Interest of a rate is due.
    due: Time,
    /// When counting begins and ends.
    begin: Option<Time>,
    end: Time,
    /// A name that was drawn and not requested yet.
    drawn: Option<NameBuf>,
    /// Interests sent, counted or not.
    sent: u64,
    is_exhausted: bool,
    is_over: bool,
    counts: Counts,
}

impl Consumer {
    /// Begins when it is first polled.
    ///
    /// # Errors
    /// When the configuration is invalid.
    pub fn new(config: Config) -> Result<Consumer, &'static str> {
        match config.pace {
            Pace::Window(0) => return Err("a window has room for one Interest at least"),
            Pace::Rate(rate) if !(rate > 0.0 && rate.is_finite()) => {
                return Err("a rate is above 0");
            }
            _ => {}
        }
        Ok(Consumer {
            drawer: Drawer::new(&config)?,
            config,
            by_name: HashMap::new(),
            pending: VecDeque::new(),
            first: 0,
            due: Time::ZERO,
            begin: None,
            end: Time::FOREVER,
            drawn: None,
            sent: 0,
            is_exhausted: false,
            is_over: false,
            counts: Counts::default(),
        })
    }

    /// The results so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How long was counted by `now`.
    pub fn counted(&self, now: Time) -> Duration {
        self.begin.map_or(Duration::ZERO, |begin| now.min(self.end).since(begin))
    }

    fn is_counting(&self, at: Time) -> bool {
        self.begin.is_some_and(|begin| at >= begin && at < self.end)
    }

    /// Counts an event that belongs to this time. An Interest's outcome belongs to the time when it
    /// was sent, so that each counted Interest has exactly one counted outcome.
    fn count(&mut self, at: Time, count: impl FnOnce(&mut Counts)) {
        if self.is_counting(at) {
            count(&mut self.counts);
        }
    }

    fn close(&mut self, name: Name<'_>) -> Option<Pending> {
        let number = self.by_name.remove(name.value())?;
        let place = self.pending.get_mut((number - self.first) as usize)?;
        let (sent, nonce) = (place.sent, place.nonce);
        let pending = Pending { name: place.name.take(), sent, nonce };
        self.drop_closed();
        Some(pending)
    }

    fn drop_closed(&mut self) {
        while self.pending.front().is_some_and(|p| p.name.is_none()) {
            self.pending.pop_front();
            self.first += 1;
        }
    }

    fn expire(&mut self, now: Time) {
        while let Some(oldest) = self.pending.front()
            && oldest.sent + self.config.lifetime <= now
        {
            if let Some(name) = &oldest.name {
                let sent = oldest.sent;
                self.by_name.remove(name);
                self.count(sent, |c| c.timed_out += 1);
            }
            self.pending.pop_front();
            self.first += 1;
            self.drop_closed();
        }
    }

    /// Draws a name that is not pending.
    fn draw(&mut self, now: Time) -> Option<NameBuf> {
        for _ in 0..DRAWS {
            let name = match self.drawn.take() {
                Some(name) => name,
                None => match self.drawer.next() {
                    Some(name) => name,
                    None => {
                        self.is_exhausted = true;
                        return None;
                    }
                },
            };
            if !self.by_name.contains_key(&name) {
                return Some(name);
            }
            // A list keeps its order; a name's turn comes when its first Interest has been
            // answered.
            if matches!(self.config.names, Names::List(_)) {
                self.drawn = Some(name);
                return None;
            }
            self.count(now, |c| c.merged += 1);
        }
        None
    }

    fn ask(&mut self, now: Time, out: &mut dyn Output) -> bool {
        if self.config.count.is_some_and(|count| self.sent >= count) {
            self.is_exhausted = true;
            return false;
        }
        let Some(name) = self.draw(now) else { return false };
        self.sent += 1;
        let nonce = self.drawer.random.random();
        let repr = Repr {
            nonce: Some(nonce),
            lifetime_ms: Some(self.config.lifetime.as_millis() as u64),
            ..Repr::new(name.as_name())
        };
        send_interest(&repr, out);
        self.by_name.insert(name.clone(), self.first + self.pending.len() as u64);
        self.pending.push_back(Pending { name: Some(name), sent: now, nonce });
        self.count(now, |c| c.interests += 1);
        true
    }

    /// Sends as many Interests as the pace allows.
    fn fill(&mut self, now: Time, out: &mut dyn Output) {
        self.is_over |= now >= self.end;
        if self.is_over || self.is_exhausted {
            return;
        }
        match self.config.pace {
            Pace::Window(window) => while self.by_name.len() < window && self.ask(now, out) {},
            Pace::Rate(rate) => {
                let every = Duration::from_secs_f64(1.0 / rate);
                while self.due <= now {
                    if self.by_name.len() >= PENDING_MAX || !self.ask(now, out) {
                        if self.is_exhausted {
                            return;
                        }
                        self.count(now, |c| c.late += 1);
                    }
                    self.due = self.due + every;
                }
            }
        }
    }
}

impl Application for Consumer {
    fn packet(&mut self, now: Time, received: &Received<'_>, out: &mut dyn Output) {
        match received.kind {
            Kind::Data => {
                let Ok(data) = Data::new_checked(received.packet) else { return };
                let Some(pending) = self.close(data.name()) else { return };
                let is_damaged = self.config.verify && integrity(&data) == Integrity::Damaged;
                let is_marked = received.headers.congestion_mark.is_some_and(|mark| mark != 0);
                self.count(pending.sent, |c| {
                    c.satisfied += 1;
                    c.bytes += data.content().len() as u64;
                    c.damaged += u64::from(is_damaged);
                    c.marked += u64::from(is_marked);
                    // The histogram resizes as needed.
                    let _ = c.latency_ns.record(now.since(pending.sent).as_nanos() as u64);
                });
            }
            Kind::Nack(reason) => {
                let Ok(interest) = Interest::new_checked(received.packet) else { return };
                let Some(number) = self.by_name.get(interest.name().value()) else { return };
                let at = (number - self.first) as usize;
                // For an Interest that has already expired, and was sent again since.
                if self.pending.get(at).is_none_or(|p| Some(p.nonce) != interest.nonce()) {
                    return;
                }
                let Some(pending) = self.close(interest.name()) else { return };
                let kind = match reason {
                    NackReason::CONGESTION => 0,
                    NackReason::DUPLICATE => 1,
                    NackReason::NO_ROUTE => 2,
                    _ => 3,
                };
                self.count(pending.sent, |c| c.nacked[kind] += 1);
            }
            Kind::Interest => return,
        }
        if matches!(self.config.pace, Pace::Window(_)) {
            self.fill(now, out);
        }
    }

    fn poll(&mut self, now: Time, out: &mut dyn Output) {
        if self.begin.is_none() {
            let begin = now + self.config.warm_up;
            self.begin = Some(begin);
            self.end = self.config.duration.map_or(Time::FOREVER, |d| begin + d);
            self.due = now;
        }
        self.expire(now);
        self.fill(now, out);
    }

    fn next_deadline(&self) -> Option<Time> {
        if self.begin.is_none() {
            return Some(Time::ZERO);
        }
        let expiry = self.pending.front().map(|p| p.sent + self.config.lifetime);
        // A consumer that sends no more waits only for pending Interests.
        let is_paced = matches!(self.config.pace, Pace::Rate(_)) && !self.is_exhausted;
        let due = (is_paced && !self.is_over).then_some(self.due);
        let end = (!self.is_over).then_some(self.end);
        [expiry, due, end].into_iter().flatten().min()
    }

    fn is_done(&self) -> bool {
        (self.is_over || self.is_exhausted) && self.by_name.is_empty()
    }
}

#[cfg(test)]
mod tests;
