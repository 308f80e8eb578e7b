//! Consumers that measure side by side, each with a face and a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use plexus_wire::ndn::NameBuf;
use plexus_wire::ndn::face_uri::FaceUri;
use serde::Serialize;

use crate::consume::{Config, Consumer, Counts, Pace, Share};
use crate::endpoint::{Endpoint, EndpointError, now};

/// The figures of consumers that measured together.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The prefix of all names.
    pub prefix: String,
    /// How many consumers.
    pub consumers: usize,
    /// The seed of everything random.
    pub seed: u64,
    /// For how long they counted.
    pub seconds: f64,
    /// Interests sent.
    pub interests: u64,
    /// Data received in answer.
    pub satisfied: u64,
    /// Nacks by reason.
    pub nacked: Nacked,
    /// Interests that expired without an answer.
    pub timed_out: u64,
    /// Answers with a wrong digest.
    pub damaged: u64,
    /// Answers with a congestion mark.
    pub marked: u64,
    /// Names drawn that were already pending.
    pub merged: u64,
    /// Interests delayed because too many were pending.
    pub late: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Answers a second.
    pub data_per_s: f64,
    /// Bits of content a second.
    pub goodput_bits_per_s: f64,
    /// Median of the time to an answer, in µs.
    pub latency_us_p50: f64,
    /// Its 99th percentile.
    pub latency_us_p99: f64,
    /// Its mean.
    pub latency_us_mean: f64,
    /// The longest.
    pub latency_us_max: f64,
}

/// Nacks by reason.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Nacked {
    /// Congestion.
    pub congestion: u64,
    /// Duplicate.
    pub duplicate: u64,
    /// No route.
    pub no_route: u64,
    /// Others.
    pub other: u64,
}

impl Measured {
    /// The sum of the counts of consumers that [`split`] made of a configuration.
    pub fn new(
        prefix: &NameBuf,
        consumers: usize,
        seed: u64,
        counts: &Counts,
        counted: Duration,
    ) -> Measured {
        let seconds = counted.as_secs_f64();
        let rate = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        let [congestion, duplicate, no_route, other] = counts.nacked;
        let latency = &counts.latency_ns;
        let quantile = |q| latency.value_at_quantile(q) as f64 / 1e3;
        Measured {
            prefix: prefix.to_string(),
            consumers,
            seed,
            seconds,
            interests: counts.interests,
            satisfied: counts.satisfied,
            nacked: Nacked { congestion, duplicate, no_route, other },
            timed_out: counts.timed_out,
            damaged: counts.damaged,
            marked: counts.marked,
            merged: counts.merged,
            late: counts.late,
            bytes: counts.bytes,
            data_per_s: rate(counts.satisfied),
            goodput_bits_per_s: rate(counts.bytes * 8),
            latency_us_p50: quantile(0.5),
            latency_us_p99: quantile(0.99),
            latency_us_mean: latency.mean() / 1e3,
            latency_us_max: latency.max() as f64 / 1e3,
        }
    }
}

/// Consumers that share a configuration: its rate, and the names of its list. Each has a window of
/// its own.
///
/// # Errors
/// When the configuration is invalid.
pub fn split(config: &Config, consumers: usize) -> Result<Vec<Consumer>, &'static str> {
    let consumer = |nth| {
        let pace = match config.pace {
            Pace::Rate(rate) => Pace::Rate(rate / consumers as f64),
            Pace::Window(window) => Pace::Window(window),
        };
        let share = Share { nth, of: consumers };
        let seed = config.seed.wrapping_add(nth as u64);
        Consumer::new(Config { share, pace, seed, ..config.clone() })
    };
    (0..consumers).map(consumer).collect()
}

/// Runs consumers side by side; gives the sum of what they counted, and for how long.
///
/// # Errors
/// When one cannot reach the forwarder, or loses it.
///
/// # Panics
/// When a consumer panics.
pub fn measure(
    uri: &FaceUri,
    consumers: Vec<Consumer>,
    stop: &Arc<AtomicBool>,
) -> Result<(Counts, Duration), EndpointError> {
    // All are connected before the first begins.
    let mut endpoints = Vec::new();
    for _ in &consumers {
        endpoints.push(Endpoint::connect(uri)?);
    }
    let threads = consumers.into_iter().zip(endpoints).map(|(mut consumer, mut endpoint)| {
        let stop = stop.clone();
        thread::spawn(move || {
            let ran = endpoint.run(&mut consumer, &stop);
            // One failure ends all: the figures would be those of fewer consumers.
            ran.inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            let counted = consumer.counted(now());
            Ok((consumer.counts().clone(), counted))
        })
    });
    let threads: Vec<_> = threads.collect();
    let (mut sum, mut counted) = (Counts::default(), Duration::ZERO);
    let mut failed = None;
    for thread in threads {
        match thread.join() {
            Ok(Ok((counts, time))) => {
                sum.add(&counts);
                counted = counted.max(time);
            }
            Ok(Err(error)) => failed = Some(error),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    failed.map_or(Ok((sum, counted)), Err)
}
