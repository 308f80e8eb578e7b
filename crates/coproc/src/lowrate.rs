//! Senders of low-rate bursts (`traffic-coprocessor.txt` §3.2.3): short bursts that fill a port's
//! queue again and again, so that TCP flows lose packets and wait for their timeout, while the
//! average rate stays low (Kuzmanovic and Knightly, "Low-Rate TCP-Targeted Denial of Service
//! Attacks", SIGCOMM 2003).
//!
//! The bytes for a port are counted per millisecond and source, over some seconds. A
//! [`Detector`] looks at them. The packets of a suspect are shaped: they wait in a queue of
//! their own, which sends at a limited rate. A suspect is let go when it has sent no bursts for a
//! window.
//!
//! - [`Detector::Paper`] looks at the port as a whole, as the paper says: a millisecond in which
//!   more arrives than the port can send is busy. It is an attack if busy milliseconds have more
//!   than 90 % of the bytes, in less than 10 % of the time, and come back about as often as the
//!   least timeout of TCP. Suspects are the sources that send in busy milliseconds only.
//!   Long flows do not count, for their packets bypass the processor.
//! - [`Detector::Harm`] looks at bursts that filled the port's own queue, whatever their rate. It
//!   tolerates bursts at changing intervals, of alternating sources, and beside other traffic. It
//!   does not suspect TCP, which slows down by itself: many servers that answer at once look like
//!   attackers otherwise. Attackers that forge TCP are not found.
//!
//! Example: 14 hosts each send 200 KB at 200 Mbit/s every 320 ms to a port of 1 Gbit/s. For 8 ms,
//! 2.8 Gbit/s arrive. After a window of 3 s all 14 are suspects.
//!
//! Both can be wrong. Shaping loses none of a suspect's packets, as long as a quarter of the deep
//! buffer has room for them.

mod bursts;

use std::collections::VecDeque;
use std::time::Duration;

use plexus_wire::Time;

use crate::deep::{Address, Arrival, Source};
use bursts::{Bursts, Ring};

/// Sources of a port that are told apart.
pub const SOURCES: usize = 64;
/// Of these, sources that come in by one port. Further ones are counted together, so that a host
/// cannot take all places with addresses that it makes up.
pub const SOURCES_OF_PORT: usize = 16;
/// The place where all others are counted.
const OTHERS: usize = 0;
/// Sources that are remembered when they are suspects no more.
const HISTORY: usize = 256;
/// Bytes of a full-size frame on the cable.
const FULL_FRAME: u32 = 1538;
/// How often a detector looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The way to tell an attack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detector {
    /// The paper's.
    Paper,
    /// By the harm that is done.
    #[default]
    Harm,
}

/// Settings of the defence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The way to tell an attack.
    pub detector: Detector,
    /// The window: at most 5 s.
    pub window: Duration,
    /// The least timeout of hosts' TCP (Linux: 200 ms; Windows: 300 ms).
    pub rto_min: Duration,
    /// The rate of all suspects of a port together, in bits/s.
    pub shape_bits_per_s: u64,
    /// Whether suspects are shaped, or only told of.
    pub shapes: bool,
}

impl Default for Settings {
    /// The paper's window and rate, and the timeout of Linux.
    fn default() -> Settings {
        Settings {
            detector: Detector::default(),
            window: Duration::from_secs(3),
            rto_min: Duration::from_millis(200),
            shape_bits_per_s: 200_000_000,
            shapes: true,
        }
    }
}

/// A source that sends low-rate bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The port that its bursts leave by.
    pub port: usize,
    /// The source.
    pub from: Option<Source>,
    /// When it became one.
    pub since: Time,
    /// Its bytes in the window.
    pub bytes: u64,
    /// Its bursts in the window.
    pub bursts: u32,
}

/// The defence of all ports of a box.
pub struct Watch {
    settings: Settings,
    lines: Vec<Option<Box<Line>>>,
    looked: Time,
    /// Suspects that there have been.
    found: u64,
    /// The last of them, oldest first.
    history: VecDeque<Source>,
}

/// One port.
struct Line {
    rate_bits_per_s: Option<u64>,
    all: Ring,
    /// Packets that found a long queue.
    long: Ring,
    sources: Vec<Counted>,
}

/// One source's packets for a port.
struct Counted {
    from: Option<Source>,
    ring: Ring,
    /// Since when it is a suspect.
    suspect: Option<Time>,
    seen: Time,
}

impl Watch {
    /// A defence that has seen nothing.
    pub fn new(settings: Settings) -> Watch {
        Watch {
            settings,
            lines: Vec::new(),
            looked: Time::ZERO,
            found: 0,
            history: VecDeque::new(),
        }
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Follows other settings. The window stays.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = Settings { window: self.settings.window, ..settings };
    }

    /// Shapes no further packets, but those that have to follow others.
    pub fn stop_shaping(&mut self) {
        self.settings.shapes = false;
    }

    /// A port is not watched any more.
    pub fn remove_port(&mut self, port: usize) {
        if let Some(line) = self.lines.get_mut(port) {
            *line = None;
        }
    }

    fn milliseconds(&self) -> usize {
        (self.settings.window.as_millis() as usize).clamp(100, 5000)
    }

    /// A port is watched from now on, or has another rate.
    pub fn set_port(&mut self, port: usize, rate_bits_per_s: Option<u64>) {
        let window = self.milliseconds();
        if self.lines.len() <= port {
            self.lines.resize_with(port + 1, || None);
        }
        match &mut self.lines[port] {
            Some(line) => line.rate_bits_per_s = rate_bits_per_s,
            none => *none = Some(Box::new(Line::new(rate_bits_per_s, window))),
        }
    }

    /// Counts a packet for a port: whether its flow is long, whether it finds a long queue, and
    /// whether packets of suspects wait there. True if its source is to be shaped.
    pub fn see(
        &mut self,
        now: Time,
        port: usize,
        arrival: &Arrival,
        is_long_flow: bool,
        finds_queue: bool,
        has_shaped: bool,
    ) -> bool {
        let Some(line) = self.lines.get_mut(port).and_then(Option::as_mut) else { return false };
        let millisecond = now.as_nanos() / 1_000_000;
        line.long.add(millisecond, u32::from(finds_queue));
        let counts = match self.settings.detector {
            // The processor sees what is redirected to it.
            Detector::Paper => !is_long_flow,
            Detector::Harm => !arrival.is_tcp,
        };
        let source = if counts {
            line.all.add(millisecond, arrival.bytes);
            let source = line.source(now, arrival.from);
            source.ring.add(millisecond, arrival.bytes);
            source.seen = now;
            Some(&*source)
        } else {
            line.sources.iter().find(|source| source.from == Some(arrival.from))
        };
        let is_suspect = source.is_some_and(|source| source.suspect.is_some());
        is_suspect && (self.settings.shapes || has_shaped)
    }

    /// Looks for suspects, and lets those go that have stopped, unless `is_shaping` says of a port
    /// that packets of suspects wait there.
    pub fn tick(&mut self, now: Time, is_shaping: impl Fn(usize) -> bool) {
        if now < self.looked + LOOK_EVERY {
            return;
        }
        self.looked = now;
        let millisecond = now.as_nanos() / 1_000_000;
        let settings = self.settings;
        for (port, line) in self.lines.iter_mut().enumerate() {
            let Some(line) = line else { continue };
            line.look(now, millisecond, &settings, is_shaping(port), |from| {
                self.found += 1;
                self.history.extend(from);
            });
        }
        while self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    /// The suspects of now.
    pub fn suspects(&self) -> impl Iterator<Item = Suspect> {
        let lines = self.lines.iter().enumerate().filter_map(|(port, l)| Some((port, l.as_ref()?)));
        lines.flat_map(|(port, line)| {
            line.sources.iter().filter_map(move |source| {
                let since = source.suspect?;
                let (from, bytes) = (source.from, source.ring.total());
                let bursts = source.bursts().count() as u32;
                Some(Suspect { port, from, since, bytes, bursts })
            })
        })
    }

    /// Suspects that there have been since the beginning.
    pub fn found(&self) -> u64 {
        self.found
    }

    /// The last sources that became suspects, oldest first.
    pub fn history(&self) -> impl Iterator<Item = Source> {
        self.history.iter().copied()
    }
}

impl Line {
    fn new(rate_bits_per_s: Option<u64>, window: usize) -> Line {
        let source = |_| {
            let (ring, seen) = (Ring::new(window), Time::ZERO);
            Counted { from: None, ring, suspect: None, seen }
        };
        Line {
            rate_bits_per_s,
            all: Ring::new(window),
            long: Ring::new(window),
            sources: (0..SOURCES).map(source).collect(),
        }
    }

    /// The counts of a source. It takes the place of one that has been silent for the window.
    /// Beyond [`SOURCES_OF_PORT`], sources of an input port are counted together.
    fn source(&mut self, now: Time, from: Source) -> &mut Counted {
        let others = Source { address: Address::Others, ..from };
        let place = self.place_of(now, from).or_else(|| self.place_of(now, others));
        &mut self.sources[place.unwrap_or(OTHERS)]
    }

    fn place_of(&mut self, now: Time, from: Source) -> Option<usize> {
        if let Some(place) = self.sources.iter().position(|source| source.from == Some(from)) {
            return Some(place);
        }
        let window = Duration::from_millis(self.all.len() as u64);
        let is_silent = |s: &Counted| s.suspect.is_none() && now >= s.seen + window;
        let is_of_port =
            |s: &&Counted| s.from.is_some_and(|f| f.port == from.port) && !is_silent(s);
        let of_port = self.sources.iter().filter(is_of_port).count();
        if from.address != Address::Others && of_port >= SOURCES_OF_PORT {
            return None;
        }
        let is_free = |s: &Counted| s.from.is_none() || is_silent(s);
        let place = self.sources[OTHERS + 1..].iter().position(is_free)? + OTHERS + 1;
        let source = &mut self.sources[place];
        (source.from, source.suspect) = (Some(from), None);
        source.ring.clear();
        Some(place)
    }

    /// Finds suspects, which `tell` hears of, and lets others go.
    fn look(
        &mut self,
        now: Time,
        millisecond: u64,
        settings: &Settings,
        is_shaping: bool,
        mut tell: impl FnMut(Option<Source>),
    ) {
        self.all.turn(millisecond);
        self.long.turn(millisecond);
        let has_suspects = self.sources.iter().any(|source| source.suspect.is_some());
        // Nobody sends, or nobody does harm: most ports, most of the time.
        let is_quiet = match settings.detector {
            Detector::Paper => self.all.total() == 0,
            Detector::Harm => self.long.total() == 0,
        };
        if is_quiet && !has_suspects {
            return;
        }
        let attack = match settings.detector {
            Detector::Paper => self.paper(settings),
            Detector::Harm => self.harm(settings),
        };
        if attack.is_none() && !has_suspects {
            return;
        }
        // Sources that are told apart by nothing are no suspects.
        for source in &mut self.sources[OTHERS + 1..] {
            source.ring.turn(millisecond);
            let takes_part =
                attack.as_ref().is_some_and(|bursts| source.takes_part(bursts, settings));
            match source.suspect {
                None if takes_part => {
                    source.suspect = Some(now);
                    tell(source.from);
                }
                Some(_) if !takes_part && !is_shaping && !source.still_bursts() => {
                    source.suspect = None;
                }
                _ => {}
            }
        }
    }

    /// The paper's detector: the bursts of an attack, if it sees one.
    fn paper(&self, settings: &Settings) -> Option<Bursts> {
        let port_bytes = (self.rate_bits_per_s? / 8 / 1000) as u32;
        let bursts = Bursts::of(&self.all, |bytes| bytes > port_bytes);
        let share = bursts.bytes(&self.all) as f64 / self.all.total().max(1) as f64;
        let rto = settings.rto_min.as_millis() as f64;
        let is_attack = share > 0.9
            && bursts.time_share() < 0.1
            && bursts.period().is_some_and(|period| (period / rto - 1.0).abs() <= 0.25);
        is_attack.then_some(bursts)
    }

    /// The detector by harm: bursts in which packets found a long queue.
    fn harm(&self, settings: &Settings) -> Option<Bursts> {
        let bursts = Bursts::of(&self.long, |packets| packets > 0);
        let window = self.all.len() as f64;
        let rto = settings.rto_min.as_millis() as f64;
        // Bursts that come less often than this leave TCP the time to recover. If there is one
        // nearly all the time, each source seems to be part of it.
        let is_often = bursts.count() as f64 >= (window / (rto * 3.0)).max(3.0);
        (is_often && bursts.time_share() < 0.3 && bursts.near_share() < 0.5).then_some(bursts)
    }
}

impl Counted {
    /// Milliseconds in which it sent more than a full-size frame: a trickle joins no bursts.
    fn bursts(&self) -> Bursts {
        Bursts::of(&self.ring, |bytes| bytes > FULL_FRAME)
    }

    /// Whether it is a source of an attack with these bursts.
    fn takes_part(&self, bursts: &Bursts, settings: &Settings) -> bool {
        let total = self.ring.total() as f64;
        if total == 0.0 {
            return false;
        }
        match settings.detector {
            Detector::Paper => bursts.bytes(&self.ring) as f64 >= 0.9 * total,
            Detector::Harm => {
                let own = self.bursts();
                let inside = bursts.bytes_near(&self.ring) as f64;
                inside >= 0.8 * total && own.count() >= 2 && own.time_share() < 0.2
            }
        }
    }

    /// Whether it still sends little in most of the time, and much in bursts.
    fn still_bursts(&self) -> bool {
        let own = self.bursts();
        own.count() >= 2 && own.time_share() < 0.3
    }
}

#[cfg(test)]
mod tests;
