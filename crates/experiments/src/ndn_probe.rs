//! How long a packet is in a router of named data: an Interest and its Data pass it between two
//! faces of this process, which has one clock. What the answer took here is taken off, so that what
//! is left is the router's time for two packets, its sockets and wake-ups included.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use plexus_ndn::link::Received;
use plexus_ndn_apps::app::{Application, Output};
use plexus_ndn_apps::consume::{Config, Consumer, Names, Pace, Share};
use plexus_ndn_apps::endpoint::{Endpoint, now, publish};
use plexus_ndn_apps::produce::{self, Producer, Signing};
use plexus_wire::Time;
use plexus_wire::ndn::name::NameBuf;

/// Below which nothing else is asked for.
const PREFIX: &str = "/probe";
/// Interests in a second: too few to be a load, or to push anything out of a cache.
pub(super) const PER_S: f64 = 200.0;
/// Names to draw from; so many that none is in a cache.
const NAMES: u64 = 1 << 40;
/// How long the router may take to hear of the prefix.
const PATIENCE: Duration = Duration::from_secs(20);

/// A producer that knows how long its answers took.
struct Timed {
    producer: Producer,
    answered: u32,
    took: Duration,
}

impl Application for Timed {
    fn packet(&mut self, at: Time, received: &Received<'_>, out: &mut dyn Output) {
        let begin = now();
        self.producer.packet(at, received, out);
        self.took += now().since(begin);
        self.answered += 1;
    }
}

/// The mean time of a packet in the router at `uri`, in microseconds, over so long; contents have
/// so many bytes. Each probe of a router needs another seed: what an earlier one has asked for may
/// be in a cache.
///
/// # Errors
/// In words: when the router is not there, or does not answer.
pub(super) fn time_in_router_us(
    uri: &str,
    bytes: usize,
    time: Duration,
    seed: u64,
) -> Result<f64, String> {
    let uri = uri.parse().map_err(|e| format!("{uri}: {e:?}"))?;
    let prefix: NameBuf = PREFIX.parse().map_err(|e| format!("{PREFIX}: {e}"))?;
    let producer = Producer::new(produce::Config {
        prefix: prefix.clone(),
        size: bytes,
        freshness: Duration::from_secs(1),
        signing: Signing::None,
        last: None,
        seed: 1,
    });
    let mut timed = Timed { producer, answered: 0, took: Duration::ZERO };
    let consumer = Consumer::new(Config {
        prefix: prefix.clone(),
        names: Names::Catalogue { items: NAMES, chunks: 1, exponent: 0.0 },
        share: Share { nth: 0, of: 1 },
        pace: Pace::Rate(PER_S),
        lifetime: Duration::from_secs(4),
        warm_up: Duration::ZERO,
        count: None,
        duration: Some(time),
        seed,
        verify: false,
    });
    let mut consumer = consumer.map_err(str::to_string)?;
    let (stop, (told, ready)) = (AtomicBool::new(false), mpsc::channel());
    std::thread::scope(|scope| {
        let publishing = scope.spawn(|| {
            let published = publish(&uri, &[prefix], None, &mut timed, &stop, |_| {
                // Nobody waits any more when this is later than it should be.
                let _ = told.send(());
            });
            published.map_err(|e| e.to_string())
        });
        let mut asked = || -> Result<(), String> {
            ready.recv_timeout(PATIENCE).map_err(|_| format!("nothing is sent to {PREFIX}"))?;
            let mut endpoint = Endpoint::connect(&uri).map_err(|e| e.to_string())?;
            endpoint.run(&mut consumer, &AtomicBool::new(false)).map_err(|e| e.to_string())
        };
        let asked = asked();
        stop.store(true, Ordering::Relaxed);
        publishing.join().map_err(|_| "the producer panicked")??;
        asked
    })?;
    let counts = consumer.counts();
    if counts.satisfied == 0 || timed.answered == 0 {
        return Err(format!("nothing below {PREFIX} was answered"));
    }
    let answer_us = timed.took.as_secs_f64() * 1e6 / f64::from(timed.answered);
    Ok((counts.latency_ns.mean() / 1e3 - answer_us) / 2.0)
}
