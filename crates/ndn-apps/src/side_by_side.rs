//! Consumers that measure side by side, each with a face and a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use plexus_wire::ndn::face_uri::FaceUri;

use crate::consume::{Consumer, Counts};
use crate::endpoint::{Endpoint, EndpointError, now};

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
