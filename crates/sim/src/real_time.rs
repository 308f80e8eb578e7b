//! A simulated network in real time, with devices of this machine in place of some of its hosts.
//!
//! The thread moves the simulation to wall time, again and again. Frames that have arrived by then
//! leave by the devices, and frames that the devices have received go in. Between two events the
//! thread sleeps. It measures how late frames leave: the delay that the machine adds to the
//! simulated network.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use plexus_config::Backend;
use plexus_io::spec::{self, PortSpec};
use plexus_io::wake::Sleeper;
use plexus_io::{Batch, HEADROOM, Offload, Pool, Port};
use plexus_wire::Time;
use serde::Serialize;

use crate::{Leaving, Sim};

use plexus_io::process::go_before_others;

/// Frames that the devices may hold.
const FRAMES: usize = 4096;
/// Ethernet header and a tag.
const AROUND: usize = 18;
/// The longest sleep of the thread, after which it hears a request to stop.
const NAP: Duration = Duration::from_millis(20);

/// Devices in place of hosts, over one pool.
pub struct Outside {
    pool: Pool,
    attached: Vec<Attached>,
}

struct Attached {
    /// Index into [`plexus_topo::Topology::hosts`].
    host: usize,
    port: Box<dyn Port>,
    /// What the device is to send.
    waiting: Batch,
}

/// What happened.
#[derive(Clone, Debug, Serialize)]
pub struct Kept {
    /// Wall time, which is simulated time.
    pub seconds: f64,
    /// Frames that hosts outside sent into the network.
    pub frames_in: u64,
    /// Frames that arrived at them.
    pub frames_out: u64,
    /// Frames in either direction that found no room.
    pub lost: u64,
    /// How late frames left by the devices: median, 99th percentile and most, in microseconds.
    pub lag_us_p50: f64,
    /// See [`lag_us_p50`](Kept::lag_us_p50).
    pub lag_us_p99: f64,
    /// See [`lag_us_p50`](Kept::lag_us_p50).
    pub lag_us_max: f64,
}

impl Outside {
    /// None yet. `mtu`: the largest Ethernet payload of their cables in bytes.
    ///
    /// # Errors
    /// When memory is short.
    pub fn new(mtu: u16) -> io::Result<Outside> {
        // Too small for super-packets, so that no device offers them to its host: the network's
        // cables take frames.
        let frame = (usize::from(mtu) + AROUND + HEADROOM).next_power_of_two().max(2048);
        Ok(Outside { pool: Pool::new(FRAMES, frame)?, attached: vec![] })
    }

    /// Opens a device of the calling thread's namespace, in place of a host.
    ///
    /// # Errors
    /// In words, when it cannot be opened.
    pub fn open(
        &mut self,
        host: usize,
        name: &str,
        backend: Backend,
        device: &str,
    ) -> Result<(), String> {
        let (name, device) = (name.to_string(), device.to_string());
        let spec = PortSpec { name, device, backend, ..PortSpec::default() };
        let port = spec::open(&spec, &mut self.pool).map_err(|e| e.to_string())?.port;
        self.attached.push(Attached { host, port, waiting: Batch::new() });
        Ok(())
    }

    /// Takes their hosts out of a simulation that is new.
    ///
    /// # Errors
    /// As [`Sim::attach`].
    pub fn attach_to(&self, sim: &mut Sim) -> Result<(), String> {
        self.attached.iter().try_for_each(|a| sim.attach(a.host))
    }

    /// Keeps a simulation at wall time until `say`, which is called some fifty times a second,
    /// gives false. The calling thread gets priority over ordinary programs, where that is
    /// permitted.
    ///
    /// # Errors
    /// When the machine is short of descriptors.
    pub fn run(
        &mut self,
        sim: &mut Sim,
        mut say: impl FnMut(&Sim, Duration) -> bool,
    ) -> io::Result<Kept> {
        go_before_others();
        let (mut sleeper, _) = Sleeper::new()?;
        let mut lag: Histogram<u64> = Histogram::new(3).map_err(io::Error::other)?;
        let (mut frames_in, mut frames_out, mut lost) = (0, 0, 0);
        let (started, begin) = (Instant::now(), sim.now());
        let mut said = started;
        let mut batch = Batch::new();
        loop {
            let elapsed = started.elapsed();
            let now = Time::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
            sim.run_until(begin + elapsed.into());
            while let Some(Leaving { host, at, frame }) = sim.poll_outside() {
                let Some(to) = self.attached.iter_mut().find(|a| a.host == host) else { continue };
                // Frames that came while the network converged are discarded.
                if at < begin {
                    continue;
                }
                match self.pool.alloc_from(&frame) {
                    Some(packet) => to.waiting.push(packet),
                    None => lost += 1,
                }
                let sent = to.port.transmit(now, &mut self.pool, &mut to.waiting) as u64;
                frames_out += sent;
                let late = started.elapsed().saturating_sub((at - begin).into());
                // It grows with what it is told: no value is too great.
                let _ = lag.record_n(late.as_nanos() as u64, sent);
                // A device without room is an interface whose queue is full.
                for packet in to.waiting.drain(..) {
                    lost += 1;
                    self.pool.free(packet);
                }
            }
            let mut received = 0;
            for from in &mut self.attached {
                received += from.port.receive(now, &mut self.pool, &mut batch);
                for packet in batch.drain(..) {
                    let offload: Offload = packet.offload;
                    let frame = self.pool.data(&packet);
                    lost += u64::from(!sim.send_from_outside(from.host, frame, offload));
                    self.pool.free(packet);
                }
            }
            frames_in += received as u64;
            if said.elapsed() >= NAP {
                said = Instant::now();
                if !say(sim, started.elapsed()) {
                    break;
                }
            }
            if received > 0 {
                continue;
            }
            let next = sim.next_event().map(|at| Duration::from(at - begin));
            let next = next.map_or(NAP, |at| at.saturating_sub(started.elapsed()).min(NAP));
            if !next.is_zero() {
                sleeper.sleep(self.attached.iter().filter_map(|a| a.port.fd()), Some(next))?;
            }
        }
        let us = |quantile: f64| lag.value_at_quantile(quantile) as f64 / 1e3;
        Ok(Kept {
            seconds: started.elapsed().as_secs_f64(),
            frames_in,
            frames_out,
            lost,
            lag_us_p50: us(0.5),
            lag_us_p99: us(0.99),
            lag_us_max: us(1.0),
        })
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} s in real time: {} frames from outside, {} to there, {} found no room; they \
             left {:.0} us late (p50), {:.0} us (p99), {:.0} us at most",
            self.seconds,
            self.frames_in,
            self.frames_out,
            self.lost,
            self.lag_us_p50,
            self.lag_us_p99,
            self.lag_us_max
        )
    }
}
