//! Sends test packets on a port: copies a flow's headers into a frame, adds length, checksums and
//! probe, and passes batches to the port when they are due.
//!
//! ```text
//! loop { let now = clock(); generator.turn(now, &mut pool, &mut port); }
//! ```

use std::time::Duration;

use plexus_io::{Batch, Packet, Pool, Port};
use plexus_wire::Time;
use serde::Serialize;

use crate::flows::{self, Choice, Chooser, Flow, FlowError, FlowSpec};
use crate::probe::{PROBE_LEN, Probe};
use crate::schedule::{Pattern, Rate, Schedule};
use crate::sizes::{FCS, SizeSequence, Sizes};

/// A packet that leaves later than this after it was due counts as late.
pub(crate) const LATE_NS: u64 = 100_000;

/// What to send. The same configuration and times give the same frames, byte for byte.
#[derive(Clone, Debug)]
pub struct GeneratorConfig {
    /// Which flows.
    pub flows: FlowSpec,
    /// How the next flow is chosen.
    pub choice: Choice,
    /// Frame sizes.
    pub sizes: Sizes,
    /// How fast.
    pub rate: Rate,
    /// How departures are spread.
    pub pattern: Pattern,
    /// How many packets; `None`: until stopped.
    pub count: Option<u64>,
    /// For everything random.
    pub seed: u64,
}

impl Default for GeneratorConfig {
    /// One flow of smallest frames, as fast as the port takes them.
    fn default() -> GeneratorConfig {
        GeneratorConfig {
            flows: FlowSpec::default(),
            choice: Choice::RoundRobin,
            sizes: Sizes::Fixed(64),
            rate: Rate::Max,
            pattern: Pattern::Constant,
            count: None,
            seed: 0,
        }
    }
}

/// Counters of a generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// Packets that the port took.
    pub packets: u64,
    /// Their bytes, FCS included.
    pub bytes: u64,
    /// Packets that were made over 100 us after they were due: the generator or the port did not
    /// keep up with the rate.
    pub late: u64,
    /// The longest delay beyond the due time, in nanoseconds.
    pub lag_ns_max: u64,
    /// How often there was no free frame in the pool.
    pub starved: u64,
}

/// A stream of test packets.
pub struct Generator {
    flows: Vec<Flow>,
    chooser: Chooser,
    sizes: SizeSequence,
    schedule: Schedule,
    paced: bool,
    /// Packets still to be made.
    remaining: u64,
    /// Made but not taken by the port. A packet's `verdict` holds the number of its flow here.
    pending: Batch,
    sent: Sent,
}

impl Generator {
    /// A generator that begins at `start`.
    ///
    /// # Errors
    /// When the flows cannot be made, or the frames are too small for them.
    pub fn new(config: &GeneratorConfig, start: Time) -> Result<Generator, FlowError> {
        let spec = FlowSpec { seed: config.seed, ..config.flows.clone() };
        let flows = flows::build(&spec)?;
        let needed = flows.iter().map(Flow::len_min).max().unwrap_or(0) + FCS;
        if config.sizes.min() < needed {
            return Err(FlowError::TooSmall { given: config.sizes.min(), needed });
        }
        Ok(Generator {
            chooser: Chooser::new(spec.count, config.choice, config.seed ^ 1),
            flows,
            sizes: config.sizes.sequence(config.seed ^ 2),
            schedule: Schedule::new(config.rate, config.pattern, config.seed ^ 3, start),
            paced: config.rate != Rate::Max,
            remaining: config.count.unwrap_or(u64::MAX),
            pending: Batch::new(),
            sent: Sent::default(),
        })
    }

    /// Makes the packets that are due, a batch at most, and hands them to the port. Returns how
    /// many it took; the rest waits for the next turn, and its time stamps are renewed then.
    #[inline]
    pub fn turn(&mut self, now: Time, pool: &mut Pool, port: &mut (impl Port + ?Sized)) -> usize {
        if !self.pending.is_empty() {
            self.restamp(now, pool);
        }
        self.fill(now, pool);
        if self.pending.is_empty() {
            return 0;
        }
        let bytes = |batch: &Batch| batch.iter().map(|p| p.len() as u64).sum::<u64>();
        let before = bytes(&self.pending);
        let taken = port.transmit(now, pool, &mut self.pending);
        self.sent.packets += taken as u64;
        self.sent.bytes += before - bytes(&self.pending) + (taken * FCS) as u64;
        taken
    }

    /// When the next packet is due: until then `turn` has nothing to do.
    #[inline]
    pub fn next_departure(&self) -> Time {
        if !self.pending.is_empty() {
            Time::ZERO
        } else if self.remaining == 0 {
            Time::FOREVER
        } else {
            self.schedule.departure()
        }
    }

    /// True once the port has accepted every requested packet.
    pub fn is_done(&self) -> bool {
        self.remaining == 0 && self.pending.is_empty()
    }

    /// Packets sent so far.
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// Packets sent by each flow, in the order of their numbers. After [`stop`](Generator::stop)
    /// this is what a meter should have received.
    pub fn sent_per_flow(&self) -> impl Iterator<Item = u64> + '_ {
        self.flows.iter().map(|f| f.sequence)
    }

    /// Ends the stream and frees packets that the port has not accepted.
    pub fn stop(&mut self, pool: &mut Pool) {
        self.remaining = 0;
        // They are the last ones of their flows, so the sequence just ends earlier.
        for packet in self.pending.drain(..) {
            if let Some(flow) = self.flows.get_mut(packet.verdict as usize) {
                flow.sequence -= 1;
            }
            pool.free(packet);
        }
    }

    #[inline]
    fn fill(&mut self, now: Time, pool: &mut Pool) {
        while !self.pending.is_full() && self.remaining > 0 && self.schedule.departure() <= now {
            let Some(mut packet) = pool.alloc() else {
                self.sent.starved += 1;
                return;
            };
            let size = self.sizes.next_size();
            let at = self.chooser.next_flow();
            if !self.write(now, pool, &mut packet, size, at) {
                // The pool's frames are too small, contrary to the documentation.
                pool.free(packet);
                self.remaining = 0;
                return;
            }
            if self.paced {
                let lag = now.since(self.schedule.departure()).as_nanos() as u64;
                self.sent.late += u64::from(lag > LATE_NS);
                self.sent.lag_ns_max = self.sent.lag_ns_max.max(lag);
            }
            self.schedule.advance(size);
            self.remaining -= 1;
            self.pending.push(packet);
        }
    }

    #[inline]
    fn write(
        &mut self,
        now: Time,
        pool: &mut Pool,
        packet: &mut Packet,
        size: usize,
        at: usize,
    ) -> bool {
        if !pool.set_len(packet, size - FCS) {
            return false;
        }
        let flow = &mut self.flows[at];
        packet.verdict = at as u32;
        flow.write(pool.data_mut(packet), &Probe::new(at as u32, flow.sequence, now));
        flow.sequence += 1;
        true
    }

    /// Time that a packet spends waiting for room in the port is not the network's latency.
    fn restamp(&mut self, now: Time, pool: &mut Pool) {
        for packet in &mut self.pending {
            let at = self.flows[packet.verdict as usize].header_len();
            let Some(payload) = pool.data_mut(packet).get_mut(at..at + PROBE_LEN) else { continue };
            if let Some(probe) = Probe::decode(payload) {
                let renewed = Probe::new(probe.flow, probe.sequence, now);
                let _ = renewed.encode(payload);
            }
        }
    }
}

/// How long a driver may sleep before the generator's next departure: nothing when it is close,
/// since waking up takes the kernel some 50 us.
pub fn idle_until(departure: Time, now: Time) -> Option<Duration> {
    let ahead = departure.since(now);
    (ahead > Duration::from_micros(200)).then(|| ahead - Duration::from_micros(100))
}

#[cfg(test)]
mod tests;
