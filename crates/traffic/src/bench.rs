//! The speed of the generator and of the meter, with nothing behind the port: the overhead of every
//! measurement made with them.

use std::io;
use std::time::Instant;

use plexus_io::{Batch, Pool, Port, memory};
use plexus_wire::Time;

use crate::flows::FlowError;
use crate::generator::{Generator, GeneratorConfig};
use crate::meter::{Meter, MeterConfig};

/// Why a bench could not run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The packets cannot be made.
    #[error(transparent)]
    Flows(#[from] FlowError),
    /// No memory for the frames.
    #[error("cannot map frames for the bench: {0}")]
    Memory(#[from] io::Error),
}

const FRAMES: usize = 512;

/// Makes `packets` packets and returns how many millions a second's work makes. What carries them
/// away (a memory port, freeing each frame) is included.
///
/// # Errors
/// See [`BenchError`].
pub fn bench_generate(config: &GeneratorConfig, packets: u64) -> Result<f64, BenchError> {
    let mut pool = Pool::new(FRAMES, config.sizes.max() + plexus_io::HEADROOM)?;
    let (mut port, mut cable) = memory::port("bench", 64);
    let config = GeneratorConfig { count: Some(packets), ..config.clone() };
    let begin = Instant::now();
    let mut generator = Generator::new(&config, Time::ZERO)?;
    let mut now = Time::ZERO;
    while !generator.is_done() {
        now = elapsed(begin).max(now);
        generator.turn(now, &mut pool, &mut port);
        if let Ok(sent) = cable.from_port.read_chunk(cable.from_port.slots()) {
            sent.into_iter().for_each(|p| pool.free(p));
        }
    }
    Ok(mpps(packets, begin))
}

/// Receives and counts `packets` packets of these flows, prepared in advance and reused, and
/// returns how many millions are counted per second of work. The transfer through a memory port is
/// included.
///
/// # Errors
/// See [`BenchError`].
pub fn bench_count(config: &GeneratorConfig, packets: u64) -> Result<f64, BenchError> {
    let mut pool = Pool::new(FRAMES, config.sizes.max() + plexus_io::HEADROOM)?;
    let (mut port, mut cable) = memory::port("bench", FRAMES);
    let config = GeneratorConfig { count: Some(FRAMES as u64 / 2), ..config.clone() };
    let mut generator = Generator::new(&config, Time::ZERO)?;
    let mut frames = Vec::new();
    while !generator.is_done() {
        generator.turn(Time::FOREVER, &mut pool, &mut port);
        while let Ok(packet) = cable.from_port.pop() {
            frames.push(pool.data(&packet).to_vec());
            pool.free(packet);
        }
    }
    let mut meter = Meter::new(MeterConfig::default());
    let mut endless = Endless { frames, at: 0, port };
    let begin = Instant::now();
    let mut counted = 0;
    while counted < packets {
        counted += meter.turn(elapsed(begin), &mut pool, &mut endless) as u64;
    }
    Ok(mpps(counted, begin))
}

fn elapsed(begin: Instant) -> Time {
    Time::ZERO + begin.elapsed()
}

fn mpps(packets: u64, begin: Instant) -> f64 {
    packets as f64 / begin.elapsed().as_secs_f64() / 1e6
}

/// A memory port that always has a batch: copies of the same frames, as a NIC would write them.
struct Endless {
    frames: Vec<Vec<u8>>,
    at: usize,
    port: memory::MemoryPort,
}

impl Port for Endless {
    fn name(&self) -> &str {
        self.port.name()
    }

    fn capabilities(&self) -> plexus_io::Capabilities {
        self.port.capabilities()
    }

    fn receive(&mut self, _now: Time, pool: &mut Pool, into: &mut Batch) -> usize {
        let before = into.len();
        while !into.is_full() {
            let Some(packet) = pool.alloc_from(&self.frames[self.at]) else { break };
            self.at = (self.at + 1) % self.frames.len();
            into.push(packet);
        }
        into.len() - before
    }

    fn transmit(&mut self, now: Time, pool: &mut Pool, from: &mut Batch) -> usize {
        self.port.transmit(now, pool, from)
    }

    fn maintain(&mut self, now: Time, pool: &mut Pool) -> plexus_io::Link {
        self.port.maintain(now, pool)
    }

    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> plexus_io::PortStats {
        self.port.stats()
    }

    fn close(&mut self, pool: &mut Pool) {
        self.port.close(pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowSpec, Sizes};

    #[test]
    fn benches_run_to_their_end() {
        let config = GeneratorConfig {
            flows: FlowSpec { count: 100, ..FlowSpec::default() },
            sizes: Sizes::Imix,
            ..GeneratorConfig::default()
        };
        assert!(bench_generate(&config, 1_000).unwrap() > 0.0);
        assert!(bench_count(&config, 1_000).unwrap() > 0.0);
        let none = FlowSpec { count: 0, ..FlowSpec::default() };
        let config = GeneratorConfig { flows: none, ..config };
        assert!(matches!(bench_generate(&config, 1), Err(BenchError::Flows(_))));
    }
}
