//! Interests of a catalogue: the consumer of `plexus ndn gen`, at a host of the simulator.

use std::time::Duration;

use plexus_ndn::link::Received;
use plexus_ndn_apps::app::{Application, Output};
use plexus_ndn_apps::consume::{Config, Consumer, Names, Pace, Share};
use plexus_report::{Outcome, bits_per_s};
use plexus_topo::{AskingPace, Catalogue, Extent, Flow};

use super::{SimFlow, State};
use crate::core::Core;
use crate::host::SimHost;
use crate::time::SimTime;

/// The consumer of a flow that is none but for its catalogue.
pub(super) fn consumer(spec: &Flow, catalogue: &Catalogue, seed: u64) -> Option<Consumer> {
    let (count, duration) = match spec.extent {
        Extent::Packets(count) => (Some(count.into()), None),
        Extent::Duration(duration) => (None, Some(duration)),
        // No such is read.
        Extent::Bytes(bytes) => (Some(bytes.div_ceil(spec.size.max(1).into())), None),
    };
    let config = Config {
        prefix: catalogue.prefix.clone(),
        names: Names::Catalogue {
            items: catalogue.items,
            chunks: catalogue.chunks,
            exponent: catalogue.zipf,
        },
        share: Share { nth: 0, of: 1 },
        pace: match catalogue.pace {
            AskingPace::Window(window) => Pace::Window(window as usize),
            AskingPace::Rate(rate) => Pace::Rate(rate),
        },
        lifetime: catalogue.lifetime,
        warm_up: Duration::ZERO,
        count,
        duration,
        seed,
        verify: false,
    };
    // The file's reader has refused everything else.
    Consumer::new(config).ok()
}

/// Pauses of up to three intervals are normal. An interval is the time between two Interests, or
/// the round trip of a window. A window that is lost as a whole pauses for about a lifetime, which
/// the report must show.
pub(super) fn interval(catalogue: &Catalogue, delays: Duration) -> Duration {
    const LONGEST: f64 = 86_400.0;
    match catalogue.pace {
        AskingPace::Rate(rate) => Duration::from_secs_f64((1.0 / rate).clamp(0.0, LONGEST)),
        AskingPace::Window(_) => (2 * delays).min(catalogue.lifetime / 4),
    }
}

impl SimFlow {
    /// Sends the Interests that are due.
    pub(super) fn ask_by_name(&mut self, core: &mut Core, host: &mut SimHost) {
        if let (Some(consumer), Some(mut end)) = (&mut self.consumer, host.named.take()) {
            consumer.poll(core.now.floor(), &mut end.out(core, &mut host.nic));
            host.named = Some(end);
            host.rest(core);
        }
        self.await_data(core);
    }

    /// A Data or a Nack has come to its host.
    pub(crate) fn hear_by_name(
        &mut self,
        now: SimTime,
        received: &Received<'_>,
        out: &mut dyn Output,
    ) {
        let Some(consumer) = self.consumer.as_mut().filter(|_| self.state == State::Sending) else {
            return;
        };
        let before = consumer.counts().satisfied;
        consumer.packet(now.floor(), received, out);
        let counts = consumer.counts();
        if counts.satisfied > before {
            if before == 0 {
                self.first = Some(Duration::from_nanos(counts.latency_ns.max()));
            }
            self.gaps.arrival(self.since_start(now));
        }
    }

    /// Waits for what is next, or ends.
    pub(crate) fn await_data(&mut self, core: &mut Core) {
        let Some(consumer) = self.consumer.as_ref().filter(|_| self.state == State::Sending) else {
            return;
        };
        if consumer.is_done() {
            (self.state, self.sender_ended) = (State::Ended, core.now);
            if consumer.counts().timed_out > 0 {
                // Waiting after the last answer is no pause.
                let asked = consumer.counted(core.now.floor());
                self.gaps.end(self.since_start(self.started + asked.into()));
            }
        } else if let Some(at) = consumer.next_deadline().map(SimTime::from)
            && at != SimTime::FOREVER
        {
            core.wake(self.device, at);
        }
    }

    /// What became of it, in so many seconds: of each Interest that was answered or given up.
    pub(super) fn named_outcome(self, consumer: &Consumer, seconds: f64) -> Outcome {
        let counts = consumer.counts();
        let lost = counts.timed_out + counts.nacked.iter().sum::<u64>();
        let sent_bytes = counts.interests * u64::from(self.spec.size);
        let percentile = |of: f64| {
            let ns = counts.latency_ns.value_at_quantile(of);
            (counts.satisfied > 0).then_some(ns as f64 / 1e3)
        };
        let outcome = Outcome {
            sent_bytes,
            received_bytes: counts.bytes,
            sent_bits_per_s: bits_per_s(sent_bytes, seconds),
            received_bits_per_s: bits_per_s(counts.bytes, seconds),
            loss: lost as f64 / (lost + counts.satisfied).max(1) as f64,
            latency_us_p50: percentile(0.5),
            latency_us_p99: percentile(0.99),
            gaps: self.gaps.into_longest(),
            ..Outcome::default()
        };
        outcome.with_first(self.first).with_departures(counts.interests, None)
    }
}
