//! A worker whose ports are pairs of rings, for the benches of packets. A round fills the input
//! rings of the first eight ports with 256 frames each, forwards until they are empty, and empties
//! the output rings. Only the forwarding is timed.

use std::time::{Duration, Instant};

use plexus_io::memory::{self, Cable};
use plexus_io::{Capabilities, Packet, Pool, Port, PortId};
use plexus_plane::{Account, Crossing, Snapshot, Worker};
use plexus_wire::Time;

use super::random::Random;

/// Bytes of a 64-byte frame without its FCS.
pub(super) const FRAME_LEN: usize = 60;
/// Frames in each input ring per round.
pub(super) const FRAMES: usize = 256;
/// Ports that frames come in by.
pub(super) const PORTS: usize = 8;

pub(super) struct Rig {
    pub(super) worker: Worker,
    cables: Vec<Cable>,
    /// Frames that the generator has.
    pub(super) idle: Vec<Packet>,
    pub(super) random: Random,
    pub(super) now: Time,
    /// Frames in the input rings.
    offered: usize,
}

impl Rig {
    /// A worker with this snapshot and so many frames more than a round has; ports take frames of
    /// up to `max_frame` bytes, or of any length.
    ///
    /// # Errors
    /// When memory is short.
    pub(super) fn new(
        snapshot: Snapshot,
        spare: usize,
        max_frame: Option<usize>,
    ) -> Result<Rig, String> {
        let pool = Pool::new(PORTS * FRAMES + spare, 2112).map_err(|e| format!("frames: {e}"))?;
        let ports = (0..snapshot.ports.len()).map(|i| {
            let (port, cable) = memory::port(&format!("p{i}"), PORTS * FRAMES);
            let own = port.capabilities();
            let max_frame = max_frame.unwrap_or(own.max_frame);
            let port = port.with_capabilities(Capabilities { max_frame, ..own });
            ((i as PortId, Box::new(port) as Box<dyn Port>), cable)
        });
        let (ports, cables) = ports.unzip();
        let published = snapshot.publish();
        let mut worker = Worker::new(0, pool, ports, &published, Crossing::alone(), 0x5EED);
        let now = Time::from_secs(1);
        worker.maintain(now);
        let idle = (0..PORTS * FRAMES).map_while(|_| worker.pool().alloc()).collect();
        Ok(Rig { worker, cables, idle, random: Random::AS_PEERS, now, offered: 0 })
    }

    /// Writes a frame of the generator's and puts it into the input ring of a port.
    pub(super) fn send(&mut self, port: usize, write: impl FnOnce(&mut Pool, &mut Packet)) {
        let Some(mut packet) = self.idle.pop() else { return };
        write(self.worker.pool(), &mut packet);
        match self.cables[port].to_port.push(packet) {
            Ok(()) => self.offered += 1,
            Err(rtrb::PushError::Full(packet)) => self.idle.push(packet),
        }
    }

    /// Forwards until the input rings are empty: how many frames there were, and how long it took.
    pub(super) fn forward(&mut self) -> (usize, Duration) {
        let start = Instant::now();
        while self.worker.turn(self.now) {}
        let took = start.elapsed();
        self.now = self.now + took;
        (std::mem::take(&mut self.offered), took)
    }

    /// Takes the frames back, each restored; copies that flooding made go back to the pool.
    pub(super) fn drain(&mut self, restore: impl Fn(&mut Pool, &mut Packet)) {
        let pool = self.worker.pool();
        for cable in &mut self.cables {
            while let Ok(mut packet) = cable.from_port.pop() {
                restore(pool, &mut packet);
                match self.idle.len() < PORTS * FRAMES {
                    true => self.idle.push(packet),
                    false => pool.free(packet),
                }
            }
        }
    }

    /// Millions of packets per second in the median round of about `time`.
    ///
    /// # Errors
    /// If a packet was lost: a figure would mean nothing.
    pub(super) fn mpps(
        &mut self,
        time: Duration,
        fill: impl Fn(&mut Rig),
        restore: impl Fn(&mut Pool, &mut Packet),
    ) -> Result<f64, String> {
        let before = self.worker.account();
        let (mut rounds, mut offered) = (Vec::new(), 0);
        let end = Instant::now() + time;
        while rounds.is_empty() || Instant::now() < end {
            fill(self);
            let (count, took) = self.forward();
            self.drain(&restore);
            offered += count as u64;
            rounds.push(took.as_secs_f64() / count as f64);
        }
        self.check(offered, &before)?;
        rounds.sort_by(f64::total_cmp);
        Ok(1e-6 / rounds[rounds.len() / 2])
    }

    /// Every packet since `before` must have come out.
    fn check(&self, offered: u64, before: &Account) -> Result<(), String> {
        let account = self.worker.account();
        let received = account.received - before.received;
        match account.balances() && received == offered && account.sent - before.sent == offered {
            true => Ok(()),
            false => Err(format!("packets are missing: {offered} were offered, {account:?}")),
        }
    }
}
