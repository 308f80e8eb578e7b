//! The queues of one port.

use std::collections::VecDeque;
use std::time::Duration;

use plexus_wire::Time;

use super::flows::Place;
use super::{After, Counts, Distance, PortSettings, State, time_on};

/// Packets of the deep buffer that leave in a row while others wait. So a burst without end does
/// not stop the long flows.
const IN_A_ROW: u32 = 8;

/// The place where a packet waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Own,
    Deep,
    Shaped,
}

/// A packet that waits.
pub(super) struct Entry<T> {
    pub(super) packet: T,
    pub(super) bytes: u64,
    pub(super) frames: u32,
    pub(super) after: After,
    pub(super) since: Time,
    /// It has crossed the link to the processor by then.
    pub(super) ready: Time,
    /// Its flow's place and hash, if that is long.
    pub(super) long: Option<(Place, u64)>,
}

/// Packets in the order in which they came, and their positions.
pub(super) struct Chain<T> {
    entries: VecDeque<(u64, Entry<T>)>,
    /// The position of the last packet that came.
    last: u64,
    pub(super) bytes: u64,
    pub(super) frames: u32,
}

impl<T> Chain<T> {
    fn new() -> Chain<T> {
        Chain { entries: VecDeque::new(), last: 0, bytes: 0, frames: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The position of the last packet that came; 0 if none did.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// All packets up to this position have left.
    fn gone(&self) -> u64 {
        self.entries.front().map_or(self.last, |(position, _)| position - 1)
    }

    fn front(&self) -> Option<&Entry<T>> {
        self.entries.front().map(|(_, entry)| entry)
    }

    pub(super) fn push(&mut self, entry: Entry<T>) {
        self.last += 1;
        self.bytes += entry.bytes;
        self.frames += entry.frames;
        self.entries.push_back((self.last, entry));
    }

    fn pop(&mut self) -> Option<Entry<T>> {
        let (_, entry) = self.entries.pop_front()?;
        self.bytes -= entry.bytes;
        self.frames -= entry.frames;
        Some(entry)
    }

    pub(super) fn pop_last(&mut self) -> Option<Entry<T>> {
        let (_, entry) = self.entries.pop_back()?;
        self.bytes -= entry.bytes;
        self.frames -= entry.frames;
        Some(entry)
    }
}

/// Whether packets are redirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Off,
    /// From then on.
    Begins(Time),
    On,
    /// Until then.
    Ends(Time),
}

/// The queues of one port.
pub(super) struct Line<T> {
    pub(super) settings: PortSettings,
    pub(super) own: Chain<T>,
    /// Frames of long flows in `own`, and these flows.
    pub(super) own_long: u32,
    pub(super) long_flows: u32,
    pub(super) deep: Chain<T>,
    pub(super) shaped: Chain<T>,
    /// The position in `own` of the last packet that was not of a long flow.
    pub(super) short: u64,
    rule: Rule,
    in_a_row: u32,
    /// When the next packet of a shaped source may leave.
    shaper_free: Time,
    /// When packets other than TCP have used up their share of the link so far.
    pub(super) others_free: Time,
    /// Frames that would wait if the port had its own queue alone.
    alone: u32,
    pub(super) counts: Counts,
}

impl<T> Line<T> {
    pub(super) fn new(settings: PortSettings) -> Line<T> {
        Line {
            settings,
            own: Chain::new(),
            own_long: 0,
            long_flows: 0,
            deep: Chain::new(),
            shaped: Chain::new(),
            short: 0,
            rule: Rule::Off,
            in_a_row: 0,
            shaper_free: Time::ZERO,
            others_free: Time::ZERO,
            alone: 0,
            counts: Counts::default(),
        }
    }

    /// Bytes that count against the budget.
    pub(super) fn kept(&self) -> u64 {
        self.deep.bytes + self.shaped.bytes
    }

    /// A rule whose time has come begins or ends.
    pub(super) fn follow_rule(&mut self, now: Time) {
        match self.rule {
            Rule::Begins(at) if at <= now => {
                self.counts.redirections += 1;
                self.rule = Rule::On;
            }
            Rule::Ends(at) if at <= now => self.rule = Rule::Off,
            _ => {}
        }
    }

    pub(super) fn redirects(&self) -> bool {
        matches!(self.rule, Rule::On | Rule::Ends(_))
    }

    /// The own queue is long: redirection begins, as soon as it can.
    pub(super) fn ask(&mut self, now: Time, distance: Option<&Distance>) {
        if self.rule != Rule::Off {
            return;
        }
        let at = match distance {
            None => now,
            Some(distance) => next_poll(now, distance.poll) + distance.setup,
        };
        self.rule = Rule::Begins(at);
    }

    /// The deep buffer has emptied: redirection ends, as soon as it can.
    pub(super) fn end(&mut self, now: Time, distance: Option<&Distance>) {
        if self.rule == Rule::On {
            let setup = distance.map_or(Duration::ZERO, |distance| distance.setup);
            self.rule = if setup.is_zero() { Rule::Off } else { Rule::Ends(now + setup) };
        }
    }

    /// Whether all packets have left that must leave before this one.
    fn is_in_turn(&self, entry: &Entry<T>) -> bool {
        let After([own, deep]) = entry.after;
        self.own.gone() >= own && self.deep.gone() >= deep
    }

    /// A packet waits for the shaper.
    pub(super) fn push_shaped(&mut self, now: Time, entry: Entry<T>) {
        if self.shaped.is_empty() {
            // Unused time is not saved up.
            self.shaper_free = self.shaper_free.max(now);
        }
        self.shaped.push(entry);
    }

    /// Whether a port with its own queue alone would have room for these frames. It has them then.
    pub(super) fn would_have_room(&mut self, frames: u32) -> bool {
        let has_room = self.alone < self.settings.limit;
        if has_room {
            self.alone += frames;
        }
        has_room
    }

    pub(super) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.deep.is_empty() && self.shaped.is_empty()
    }

    /// There is nothing to redirect to.
    pub(super) fn give_up(&mut self) {
        self.rule = Rule::Off;
    }

    /// The packet whose turn it is. `shape` is the rate of shaped sources, in bits/s.
    pub(super) fn pop(&mut self, now: Time, shape: Option<u64>) -> Option<(Queue, Entry<T>)> {
        let (queue, entry) = self.next(now, shape)?;
        self.alone = self.alone.saturating_sub(entry.frames);
        Some((queue, entry))
    }

    fn next(&mut self, now: Time, shape: Option<u64>) -> Option<(Queue, Entry<T>)> {
        let can =
            |chain: &Chain<T>| chain.front().is_some_and(|e| e.ready <= now && self.is_in_turn(e));
        let (own, deep) = (can(&self.own), can(&self.deep));
        if can(&self.shaped) && self.shaper_free <= now {
            let entry = self.shaped.pop()?;
            // Packets that wait make up for a late wake-up.
            let cost = shape.map_or(Duration::ZERO, |rate| time_on(entry.bytes, rate));
            self.shaper_free = self.shaper_free + cost;
            return Some((Queue::Shaped, entry));
        }
        if deep && (!own || self.in_a_row < IN_A_ROW) {
            let entry = self.deep.pop()?;
            self.in_a_row += 1;
            let delay = now.since(entry.since).as_nanos() as u64;
            self.counts.delayed += 1;
            self.counts.delay_ns += delay;
            self.counts.delay_max_ns = self.counts.delay_max_ns.max(delay);
            return Some((Queue::Deep, entry));
        }
        if own {
            let entry = self.own.pop()?;
            self.in_a_row = 0;
            if entry.long.is_some() {
                self.own_long -= entry.frames;
            }
            return Some((Queue::Own, entry));
        }
        None
    }

    /// When a packet may leave. It may be in the past.
    pub(super) fn next_deadline(&self) -> Time {
        // A packet that waits for one of another queue leaves after that one has.
        let ready = |chain: &Chain<T>| match chain.front() {
            Some(entry) if self.is_in_turn(entry) => entry.ready,
            _ => Time::FOREVER,
        };
        let shaped = ready(&self.shaped).max(self.shaper_free);
        ready(&self.own).min(ready(&self.deep)).min(shaped)
    }

    /// Gives up a packet for the budget: the youngest of a suspect, or else of all.
    pub(super) fn evict(&mut self) -> Option<Entry<T>> {
        self.shaped.pop_last().or_else(|| self.deep.pop_last())
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Entry<T>> {
        (self.own_long, self.long_flows, self.alone) = (0, 0, 0);
        self.rule = Rule::Off;
        let chains = [&mut self.own, &mut self.deep, &mut self.shaped];
        chains.into_iter().flat_map(|chain| std::iter::from_fn(|| chain.pop()))
    }

    pub(super) fn state(&self) -> State {
        State {
            own: (self.own.frames, self.own_long),
            own_bytes: self.own.bytes,
            deep: (self.deep.frames, self.deep.bytes),
            shaped: (self.shaped.frames, self.shaped.bytes),
            redirects: self.redirects(),
        }
    }
}

/// The next time from now on at which the lengths of queues are read.
fn next_poll(now: Time, every: Duration) -> Time {
    let every = (every.as_nanos() as u64).max(1);
    Time::from_nanos(now.as_nanos().div_ceil(every) * every)
}
