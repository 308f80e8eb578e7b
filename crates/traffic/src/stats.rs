//! Statistics of a flow: loss, duplicates, reordering, latency, throughput.
//!
//! Read RFC 4737 (reordering), RFC 5560 (duplication) and RFC 7680 (loss) first. Loss is the number
//! of packets missing between a flow's first and last sequence number; a packet that arrives late
//! is subtracted again. Loss after the last arrival is known only from the sender's count: see
//! [`FlowStats::sent`].

use hdrhistogram::Histogram;
use plexus_wire::Time;
use serde::Serialize;

use crate::latencies::Latencies;
use crate::probe::Probe;

/// Latencies are kept to three significant digits.
pub(crate) const SIGNIFICANT_DIGITS: u8 = 3;

/// Which sequence number a flow is expected to begin with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// With 0: the meter started first, so packets missing before the first arrival are lost.
    #[default]
    Zero,
    /// With the lowest one that arrives: the meter may have started later.
    Seen,
}

/// The state of one flow, or the sum of several.
#[derive(Clone, Debug)]
pub struct FlowStats {
    start: Start,
    counts: Counts,
    /// How many packets the sender says this run has; 0 if it has not said.
    told: u64,
    /// When the packet with the highest sequence number was sent.
    newest_ns: u64,
    /// One bit per sequence number for the latest ones below `next`, indexed modulo its length.
    window: Box<[u64]>,
    latency: Option<Latencies>,
}

/// What [`FlowStats`] counts, as other meters do by its rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Arrivals, duplicates included.
    pub(crate) received: u64,
    pub(crate) duplicates: u64,
    pub(crate) reordered: u64,
    /// Arrivals too old to distinguish late packets from duplicates.
    pub(crate) ancient: u64,
    pub(crate) restarts: u64,
    /// Probes that were sent "after" they arrived.
    pub(crate) clock_errors: u64,
    pub(crate) bytes: u64,
    pub(crate) first_bytes: u64,
    pub(crate) first: Time,
    pub(crate) last: Time,
    /// Packets expected in, and first copies received of, the runs and flows already summed up.
    pub(crate) past_expected: u64,
    pub(crate) past_distinct: u64,
    /// First copies received in this run.
    pub(crate) distinct: u64,
    /// Lowest sequence number of this run, and one more than the highest (RFC 4737's NextExp).
    pub(crate) base: u64,
    pub(crate) next: u64,
}

impl FlowStats {
    /// How many sequence numbers back duplicates and late packets are recognised by default.
    pub const WINDOW: usize = 4096;

    /// A flow that has not begun, with a latency histogram.
    pub fn new(start: Start) -> FlowStats {
        FlowStats::with_window(start, FlowStats::WINDOW).with_latency()
    }

    /// A flow that has not begun, without latencies, which recognises duplicates and late packets
    /// `window` sequence numbers back (rounded up to a power of two, 64 at least): for meters of
    /// very many flows.
    pub fn with_window(start: Start, window: usize) -> FlowStats {
        FlowStats {
            start,
            counts: Counts { first: Time::FOREVER, ..Counts::default() },
            told: 0,
            newest_ns: 0,
            window: vec![0; window.max(64).next_power_of_two() / 64].into(),
            latency: None,
        }
    }

    /// The same, with latencies: up to 1 KiB for few packets, then 16 KiB to some 400 KiB, as the
    /// latencies spread.
    pub fn with_latency(mut self) -> FlowStats {
        self.latency = Some(Latencies::default());
        self
    }

    /// A flow as it was counted elsewhere; nothing more is to be recorded in it.
    pub(crate) fn counted(start: Start, counts: Counts) -> FlowStats {
        FlowStats { counts, ..FlowStats::with_window(start, 64) }
    }

    /// Accounts for a probe that arrived at `now` in a packet of `bytes` bytes (the caller says
    /// of which layer). Returns its latency in nanoseconds, `None` if the clocks differ.
    #[inline]
    pub fn record(&mut self, now: Time, bytes: usize, probe: &Probe) -> Option<u64> {
        if self.counts.received == 0 {
            self.counts.first = now;
            self.counts.first_bytes = bytes as u64;
        }
        self.counts.received += 1;
        self.counts.bytes += bytes as u64;
        self.counts.last = now;
        let latency = probe.latency_ns(now);
        match latency {
            Some(ns) => self.record_latency(ns),
            None => self.counts.clock_errors += 1,
        }
        self.sequence(probe);
        latency
    }

    /// Adds a latency to the histogram, if there is one, and nothing else.
    #[inline]
    pub(crate) fn record_latency(&mut self, ns: u64) {
        if let Some(latency) = &mut self.latency {
            latency.record(ns);
        }
    }

    #[inline]
    fn sequence(&mut self, probe: &Probe) {
        let sequence = probe.sequence;
        if self.counts.next == 0 {
            self.begin(probe);
        } else if sequence >= self.counts.next {
            // The numbers in between are missing until they arrive late.
            self.forget(self.counts.next, sequence);
            self.arrived(probe);
        } else if later(probe.time_ns, self.newest_ns) {
            // Within a run a lower number is never sent later: the sender has started again.
            self.counts.restarts += 1;
            self.close_run();
            self.begin(probe);
        } else if self.counts.next - sequence > self.window_bits() {
            self.counts.ancient += 1;
        } else if self.test_and_set(sequence) {
            self.counts.duplicates += 1;
        } else {
            // RFC 4737, section 3.3: Type-P-Reordered is true when s < NextExp. Only the first
            // copy of a packet is judged.
            self.counts.reordered += 1;
            self.counts.distinct += 1;
            self.counts.base = self.counts.base.min(sequence);
        }
    }

    fn begin(&mut self, probe: &Probe) {
        self.window.fill(0);
        self.counts.base = match self.start {
            Start::Zero => 0,
            Start::Seen => probe.sequence,
        };
        self.arrived(probe);
    }

    /// The first copy of a packet beyond all others.
    #[inline]
    fn arrived(&mut self, probe: &Probe) {
        self.counts.distinct += 1;
        self.counts.next = probe.sequence + 1;
        self.newest_ns = probe.time_ns;
        self.test_and_set(probe.sequence);
    }

    fn close_run(&mut self) {
        self.counts.past_expected += self.expected();
        self.counts.past_distinct += self.counts.distinct;
        self.counts.distinct = 0;
        self.counts.base = 0;
        self.counts.next = 0;
        self.told = 0;
    }

    /// Packets of this run that should have arrived.
    fn expected(&self) -> u64 {
        self.counts.next.max(self.told) - self.counts.base
    }

    fn window_bits(&self) -> u64 {
        self.window.len() as u64 * 64
    }

    #[inline]
    fn test_and_set(&mut self, sequence: u64) -> bool {
        let at = (sequence / 64) as usize & (self.window.len() - 1);
        let bit = 1 << (sequence % 64);
        let was_set = self.window[at] & bit != 0;
        self.window[at] |= bit;
        was_set
    }

    /// Clears the window's bits for sequence numbers `from` to before `to`, both at its head.
    #[inline]
    fn forget(&mut self, from: u64, to: u64) {
        if to - from >= self.window_bits() {
            return self.window.fill(0);
        }
        // The bit of `to` itself is cleared too: it is as old as the window is long.
        for sequence in from..=to {
            let at = (sequence / 64) as usize & (self.window.len() - 1);
            self.window[at] &= !(1 << (sequence % 64));
        }
    }

    /// Packets received, duplicates included.
    pub fn received(&self) -> u64 {
        self.counts.received
    }

    /// Distinct packets received: first copies.
    pub fn distinct(&self) -> u64 {
        self.counts.past_distinct + self.counts.distinct
    }

    /// Packets missing so far between the first and the last that arrived.
    pub fn lost(&self) -> u64 {
        (self.counts.past_expected + self.expected()).saturating_sub(self.distinct())
    }

    /// Counts losses after the last arrival: the sender has sent the sequence numbers below `sent`
    /// (of its latest run). If nothing of the flow has arrived, all of it is lost.
    pub fn sent(&mut self, sent: u64) {
        self.told = sent.min(Probe::SEQUENCE_MAX + 1);
    }

    /// Adds another flow's counts, as for a total. Sequence numbers of the two are unrelated, so
    /// later arrivals have to be recorded in the parts, not in the sum.
    pub fn merge(&mut self, other: &FlowStats) {
        let (mine, theirs) = (&mut self.counts, &other.counts);
        if theirs.received > 0 {
            if theirs.first < mine.first {
                mine.first = theirs.first;
                mine.first_bytes = theirs.first_bytes;
            }
            mine.last = mine.last.max(theirs.last);
        }
        mine.received += theirs.received;
        mine.duplicates += theirs.duplicates;
        mine.reordered += theirs.reordered;
        mine.ancient += theirs.ancient;
        mine.restarts += theirs.restarts;
        mine.clock_errors += theirs.clock_errors;
        mine.bytes += theirs.bytes;
        mine.past_expected += theirs.past_expected + other.expected();
        mine.past_distinct += other.distinct();
        self.merge_latency(other);
    }

    /// Adds another's latencies alone.
    pub(crate) fn merge_latency(&mut self, other: &FlowStats) {
        match (&mut self.latency, &other.latency) {
            (Some(mine), Some(theirs)) => mine.add(theirs),
            (None, Some(theirs)) => self.latency = Some(theirs.clone()),
            (_, None) => {}
        }
    }

    /// Adds latencies that were counted elsewhere.
    pub(crate) fn merge_histogram(&mut self, latency: Option<Histogram<u64>>) {
        let latency = latency.map(Latencies::from);
        let other = FlowStats { latency, ..FlowStats::with_window(self.start, 64) };
        self.merge_latency(&other);
    }

    /// The counts so far, for output.
    pub fn summary(&self) -> Summary {
        let elapsed = self.counts.last.since(self.counts.first).as_secs_f64();
        let rate = |amount: u64| if elapsed > 0.0 { amount as f64 / elapsed } else { 0.0 };
        let lost = self.lost();
        let expected = lost + self.distinct();
        Summary {
            received: self.counts.received,
            lost,
            loss: if expected > 0 { lost as f64 / expected as f64 } else { 0.0 },
            duplicates: self.counts.duplicates,
            reordered: self.counts.reordered,
            ancient: self.counts.ancient,
            restarts: self.counts.restarts,
            clock_errors: self.counts.clock_errors,
            bytes: self.counts.bytes,
            seconds: elapsed,
            packets_per_s: rate(self.counts.received.saturating_sub(1)),
            bits_per_s: rate((self.counts.bytes - self.counts.first_bytes) * 8),
            latency: self.latency.as_ref().and_then(|l| Latency::of(l.histogram()?.as_ref())),
        }
    }
}

/// True if `a` is later than `b`, both modulo 2^56.
#[inline]
fn later(a: u64, b: u64) -> bool {
    ((b.wrapping_sub(a) << 8) as i64) < 0
}

/// A flow's counts at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Packets received, duplicates included.
    pub received: u64,
    /// Packets missing.
    pub lost: u64,
    /// The fraction of packets that is missing (RFC 7680), 0 to 1.
    pub loss: f64,
    /// Further copies of packets already received (RFC 5560).
    pub duplicates: u64,
    /// Packets that came after one with a higher sequence number (RFC 4737).
    pub reordered: u64,
    /// Packets too old to tell whether they were late or duplicates; counted as lost unless a copy
    /// had arrived.
    pub ancient: u64,
    /// How often the sender began again at a lower sequence number.
    pub restarts: u64,
    /// Packets without a latency, because they were sent "after" they arrived: the sender's
    /// clock is another one.
    pub clock_errors: u64,
    /// Bytes of the packets received.
    pub bytes: u64,
    /// Seconds from the first to the last arrival.
    pub seconds: f64,
    /// Packets/s from the first to the last arrival (the first opens the interval and is not
    /// counted); 0 if there are not two.
    pub packets_per_s: f64,
    /// The same in bits/s.
    pub bits_per_s: f64,
    /// One-way latency; `None` if nothing arrived or none is kept.
    pub latency: Option<Latency>,
}

/// One-way latency in nanoseconds, to three significant digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Lowest.
    pub min_ns: u64,
    /// Mean.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Highest.
    pub max_ns: u64,
}

impl Latency {
    fn of(h: &Histogram<u64>) -> Option<Latency> {
        (!h.is_empty()).then(|| Latency {
            min_ns: h.min(),
            mean_ns: h.mean() as u64,
            p50_ns: h.value_at_quantile(0.5),
            p90_ns: h.value_at_quantile(0.9),
            p99_ns: h.value_at_quantile(0.99),
            p999_ns: h.value_at_quantile(0.999),
            max_ns: h.max(),
        })
    }
}

#[cfg(test)]
mod tests;
