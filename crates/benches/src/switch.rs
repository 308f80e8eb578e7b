//! The switch in memory: the same rounds, stations and traffic as `bench/peers/dpdk_l2_mem.c`.
//!
//! Eight ports are pairs of rings. A round fills every input ring with 256 frames, switches until
//! they are empty, and empties the output rings; only the switching is timed. Headers are written
//! anew each round, so that a few thousand frames can name a million stations. Station `i` sits on
//! port `i mod 8`; a frame from port `p` has a random source there and a random destination
//! elsewhere.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use plexus_config::{PortSettings, QueueOrder, QueueSettings, SwitchSettings};
use plexus_io::memory::{self, Cable};
use plexus_io::{Packet, Pool, Port, PortId};
use plexus_plane::{Account, Crossing, Snapshot, Worker};
use plexus_table::lpm::{Fib4, Fib6};
use plexus_wire::Time;

use super::whole::{self, FABRIC_PORTS};
use super::{Row, Setting, peer};

const PEER: &str = "dpdk_l2_mem";
/// Bytes of a 64-byte frame without its FCS.
const FRAME_LEN: usize = 60;
/// Frames in each input ring per round.
const FRAMES: usize = 256;
const PORTS: usize = 8;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Stations in the table.
    pub(super) stations: usize,
    /// How many of them the traffic names.
    pub(super) named: usize,
    /// How its ports are set.
    pub(super) queues: Queues,
    /// The box does everything else too.
    pub(super) whole: bool,
}

impl Load {
    /// A box that only switches, with ports as they are without settings.
    pub(super) fn new(stations: usize, named: usize) -> Load {
        Load { stations, named, queues: Queues::default(), whole: false }
    }
}

/// What becomes of packets at output ports.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queues {
    /// Whose turn it is.
    pub(super) order: QueueOrder,
    /// Each packet waits: its port has a rate, of more than there is to send.
    pub(super) wait: bool,
}

/// The cost of turns: the switch with fair queues beside itself with queues first come, first
/// served; while nothing waits, and with every packet waiting.
///
/// # Errors
/// See [`mpps`].
pub(super) fn queue_rows(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let kinds = [("idle", false, QueueOrder::Fair), ("wait", true, QueueOrder::Fair)];
    let kinds = kinds.into_iter().chain([("port-wait", true, QueueOrder::Port)]);
    let rows = kinds.map(|(kind, wait, order)| {
        let shrunk = (65_536 / setting.effort.shrink).max(64);
        let load = |order| Load { queues: Queues { order, wait }, ..Load::new(shrunk, 64) };
        let time = setting.effort.time;
        Row::measure(&format!("{name}-{kind}"), "Mpps", Some("fifo"), setting.effort.runs, || {
            Ok((mpps(load(order), time)?, Some(mpps(load(QueueOrder::Fifo), time)?)))
        })
    });
    rows.collect()
}

/// A switch under load, and the generator's frames.
struct Bench {
    worker: Worker,
    cables: Vec<Cable>,
    idle: Vec<Packet>,
    load: Load,
    random: u64,
    now: Time,
    /// What a router looks up in.
    _tables: Option<(Fib4, Fib6)>,
}

/// The one row of a load, beside DPDK's switch where that is built.
///
/// # Errors
/// See [`mpps`]; or when the peer fails.
pub(super) fn rows(name: &str, load: Load, setting: &Setting) -> Result<Vec<Row>, String> {
    let shrunk = |n: usize| (n / setting.effort.shrink).max(64);
    let (stations, named) = (shrunk(load.stations), shrunk(load.named));
    let load = Load { stations, named, ..load };
    let program = setting.peers.program(PEER);
    let peer = program.is_some().then_some(PEER);
    let row = Row::measure(name, "Mpps", peer, setting.effort.runs, || {
        let (macs, named) = (load.stations.to_string(), load.named.to_string());
        let load_of_peer = ["--macs", &macs, "--destinations", &named].map(OsStr::new);
        let theirs = program.as_ref().map(|p| peer::dpdk(p, &load_of_peer, setting));
        let theirs = theirs.transpose()?;
        Ok((mpps(load, setting.effort.time)?, theirs))
    })?;
    Ok(vec![row])
}

/// Millions of packets per second in the median round of about `time`.
///
/// # Errors
/// When memory is short, or if the switch lost a packet: a figure would mean nothing.
pub(super) fn mpps(load: Load, time: Duration) -> Result<f64, String> {
    let mut bench = Bench::new(load)?;
    let before = bench.worker.account();
    let mut rounds = Vec::new();
    let end = Instant::now() + time;
    while rounds.is_empty() || Instant::now() < end {
        bench.fill();
        let (count, took) = bench.switch();
        bench.drain();
        rounds.push(took.as_secs_f64() / count as f64);
    }
    bench.check(rounds.len(), &before)?;
    rounds.sort_by(f64::total_cmp);
    Ok(1e-6 / rounds[rounds.len() / 2])
}

/// A worker's ports.
type Ports = Vec<(PortId, Box<dyn Port>)>;

/// Ports that are pairs of rings of this depth, and their far ends.
pub(super) fn memory_ports(count: usize, depth: usize) -> (Ports, Vec<Cable>) {
    let ports = (0..count).map(|i| {
        let (port, cable) = memory::port(&format!("p{i}"), depth);
        ((i as PortId, Box::new(port) as Box<dyn Port>), cable)
    });
    ports.unzip()
}

impl Bench {
    fn new(load: Load) -> Result<Bench, String> {
        // What waits may take as many frames as stay free.
        let spare = if load.queues.wait { PORTS * FRAMES } else { 64 };
        let pool = Pool::new(PORTS * FRAMES + spare, 2112).map_err(|e| format!("frames: {e}"))?;
        let Queues { order, wait } = load.queues;
        let queue = QueueSettings { order, packets: u32::MAX, ..QueueSettings::default() };
        // So fast that all leave at once.
        let rate_bits_per_s = wait.then_some(1 << 62);
        let settings = PortSettings { queue, rate_bits_per_s, ..PortSettings::default() };
        let count = if load.whole { PORTS + FABRIC_PORTS } else { PORTS };
        let settings = (0..count).map(|i| (format!("p{i}"), 0, settings.clone()));
        let switch = SwitchSettings { mac_table: load.stations, ..SwitchSettings::default() };
        let mut plan = Snapshot::new(settings.collect(), &switch).map_err(|e| e.to_string())?;
        let mut tables = None;
        if load.whole {
            let (router, v4, v6) = whole::idle_router()?;
            tables = Some((v4, v6));
            plan = whole::with_fabric_and_names(plan, PORTS)?.with_router(router);
        }
        let (ports, cables) = memory_ports(count, PORTS * FRAMES);
        let seed = 0x5EED;
        let mut worker = Worker::new(0, pool, ports, &plan.publish(), Crossing::alone(), seed);
        let now = Time::from_secs(1);
        worker.maintain(now);
        let idle = Vec::new();
        let mut bench =
            Bench { worker, cables, idle, load, random: 0x9E37_79B9, now, _tables: tables };
        bench.idle.extend((0..PORTS * FRAMES).map_while(|_| bench.worker.pool().alloc()));
        for packet in &mut bench.idle {
            let pool = bench.worker.pool();
            pool.set_len(packet, FRAME_LEN);
            let data = pool.data_mut(packet);
            data.fill(0);
            data[12..18].copy_from_slice(&[0x08, 0x00, 0x45, 0x00, 0x00, 0x2E]);
        }
        bench.introduce()?;
        Ok(bench)
    }

    /// Every station sends one frame, so that the table knows it before the clock starts.
    fn introduce(&mut self) -> Result<(), String> {
        for first in (0..self.load.stations).step_by(FRAMES) {
            for station in first..(first + FRAMES).min(self.load.stations) {
                // To a station of another port that is known already, or will be flooded.
                let to = (station + 1) % PORTS;
                self.send(station % PORTS, station as u64, to as u64);
            }
            self.switch();
            self.drain();
        }
        let known = self.worker.pipeline().switch().stations(self.now).count();
        if known == self.load.stations {
            Ok(())
        } else {
            Err(format!("only {known} of {} stations were learned", self.load.stations))
        }
    }

    fn fill(&mut self) {
        let per_port = self.load.named / PORTS;
        for port in 0..PORTS {
            for _ in 0..FRAMES {
                let r = self.random();
                let to = (port + 1 + below(r as u16 as u64 * 65_536, PORTS - 1)) % PORTS;
                let source = below(r >> 32, per_port) * PORTS + port;
                let destination = below((r >> 8) & 0xFFFF_FFFF, per_port) * PORTS + to;
                self.send(port, source as u64, destination as u64);
            }
        }
    }

    fn send(&mut self, port: usize, source: u64, destination: u64) {
        let Some(mut packet) = self.idle.pop() else { return };
        let data = self.worker.pool().data_mut(&mut packet);
        data[..6].copy_from_slice(&station_mac(destination).to_be_bytes()[2..]);
        data[6..12].copy_from_slice(&station_mac(source).to_be_bytes()[2..]);
        if let Err(rtrb::PushError::Full(packet)) = self.cables[port].to_port.push(packet) {
            self.idle.push(packet);
        }
    }

    /// Switches until the input rings are empty.
    fn switch(&mut self) -> (usize, Duration) {
        let waiting = |cables: &[Cable]| -> usize {
            cables.iter().map(|c| c.to_port.buffer().capacity() - c.to_port.slots()).sum()
        };
        let count = waiting(&self.cables);
        let start = Instant::now();
        while self.worker.turn(self.now) {}
        let took = start.elapsed();
        self.now = self.now + took;
        (count, took)
    }

    fn drain(&mut self) {
        for cable in &mut self.cables {
            while let Ok(mut packet) = cable.from_port.pop() {
                // Copies that flooding made go back to the pool, all others to the generator.
                if self.idle.len() < PORTS * FRAMES {
                    self.worker.pool().set_len(&mut packet, FRAME_LEN);
                    self.idle.push(packet);
                } else {
                    self.worker.pool().free(packet);
                }
            }
        }
    }

    /// Every packet since `before` must have come out.
    fn check(&self, rounds: usize, before: &Account) -> Result<(), String> {
        let account = self.worker.account();
        let offered = (rounds * PORTS * FRAMES) as u64;
        let received = account.received - before.received;
        if account.balances() && received == offered && account.sent - before.sent == offered {
            Ok(())
        } else {
            Err(format!("packets are missing: {offered} were offered, {account:?}"))
        }
    }

    /// xorshift64*, as in the peer.
    fn random(&mut self) -> u64 {
        self.random = xorshift(self.random);
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// The state of xorshift64* after `state`.
pub(super) fn xorshift(mut state: u64) -> u64 {
    state ^= state >> 12;
    state ^= state << 25;
    state ^ state >> 27
}

/// A number below `n` from 32 random bits.
pub(super) fn below(random: u64, n: usize) -> usize {
    (((random & 0xFFFF_FFFF) * n as u64) >> 32) as usize
}

/// A bijection on 40 bits: neighbours in number are not neighbours in the table.
pub(super) fn station_mac(i: u64) -> u64 {
    const MASK: u64 = (1 << 40) - 1;
    let i = i.wrapping_mul(0x9E_3779_B97F) & MASK;
    let i = (i ^ i >> 20).wrapping_mul(0xBF_5847_6D1B) & MASK;
    0x02 << 40 | (i ^ i >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bench_runs_and_loses_nothing() {
        for whole in [false, true] {
            let load = Load { whole, ..Load::new(4096, 4096) };
            assert!(mpps(load, Duration::ZERO).unwrap() > 0.0);
        }
    }
}
