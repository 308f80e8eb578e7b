//! A fabric node in memory, in the same rounds as the switch's bench and beside it: the peer is
//! our own switch, since what counts is what source routing saves and costs.
//!
//! Eight ports are pairs of rings, each round fills every input ring with 256 frames, and only the
//! forwarding is timed. In `fabric-hop` all ports are fabric links and every frame comes with a
//! header of four hops, the next of which is random; in `fabric-host` all ports have a host, and
//! every frame has a random one of many destinations, each with its route out by a fabric port.
//! Frames are written anew each round, since the node rewrites them.

use std::time::{Duration, Instant};

use plexus_config::{PortSettings, SwitchSettings};
use plexus_io::memory::{self, Cable};
use plexus_io::{Capabilities, Packet, Pool, Port, PortId};
use plexus_plane::{
    Account, Crossing, Encapsulation, FabricPlan, FabricTables, PortRole, Snapshot, Worker,
    route_along,
};
use plexus_table::RouteKey;
use plexus_wire::fabric::{Kind, Repr};
use plexus_wire::{MacAddr, Time};

use super::switch::{self, below, station_mac, xorshift};
use super::{Row, Setting};

/// Bytes of a 64-byte frame without its FCS.
const FRAME_LEN: usize = 60;
/// Frames in each input ring per round.
const FRAMES: usize = 256;
const PORTS: usize = 8;
/// In `fabric-host` ports below are hosts', the others fabric links.
const HOST_PORTS: usize = 4;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// Fabric port to fabric port.
    Hop,
    /// Host port to fabric port.
    Host {
        /// Destinations in each host port's route memory.
        routes: usize,
        /// How many of them the traffic names.
        named: usize,
    },
}

struct Bench {
    worker: Worker,
    cables: Vec<Cable>,
    idle: Vec<Packet>,
    load: Load,
    random: u64,
    now: Time,
}

/// The one row of a load, beside our switch under the like load.
///
/// # Errors
/// When memory is short, or if a packet was lost.
pub(super) fn rows(name: &str, load: Load, setting: &Setting) -> Result<Vec<Row>, String> {
    let shrunk = |n: usize| (n / setting.effort.shrink).max(64);
    let (load, named, peer) = match load {
        Load::Hop => (load, shrunk(64), "switch-64k-few"),
        Load::Host { routes, named } => {
            let peer = if named < routes { "switch-64k-few" } else { "switch-64k-spread" };
            let (routes, named) = (shrunk(routes), shrunk(named));
            (Load::Host { routes, named }, named, peer)
        }
    };
    let like = switch::Load::new(shrunk(1 << 16), named);
    let time = setting.effort.time;
    let row = Row::measure(name, "Mpps", Some(peer), setting.effort.runs, || {
        Ok((mpps(load, time)?, Some(switch::mpps(like, time)?)))
    })?;
    Ok(vec![row])
}

/// Millions of packets per second in the median round of about `time`.
pub(super) fn mpps(load: Load, time: Duration) -> Result<f64, String> {
    let mut bench = Bench::new(load)?;
    let before = bench.worker.account();
    let (mut rounds, mut offered) = (Vec::new(), 0);
    let end = Instant::now() + time;
    while rounds.is_empty() || Instant::now() < end {
        let count = bench.fill();
        let took = bench.forward();
        bench.drain();
        offered += count as u64;
        rounds.push(took.as_secs_f64() / count as f64);
    }
    bench.check(offered, &before)?;
    rounds.sort_by(f64::total_cmp);
    Ok(1e-6 / rounds[rounds.len() / 2])
}

impl Bench {
    fn new(load: Load) -> Result<Bench, String> {
        let pool = Pool::new(PORTS * FRAMES + 64, 2112).map_err(|e| format!("frames: {e}"))?;
        let settings = (0..PORTS).map(|i| (format!("p{i}"), 0, PortSettings::default()));
        let switch = SwitchSettings { mac_table: 1, ..SwitchSettings::default() };
        let plan = Snapshot::new(settings.collect(), &switch).map_err(|e| e.to_string())?;
        let (mut ports, mut cables) = (Vec::new(), Vec::new());
        for i in 0..PORTS {
            let (port, cable) = memory::port(&format!("p{i}"), PORTS * FRAMES);
            let capabilities = Capabilities { max_frame: 1638, ..port.capabilities() };
            let port = port.with_capabilities(capabilities);
            ports.push((i as PortId, Box::new(port) as Box<dyn Port>));
            cables.push(cable);
        }
        let tables = tables(load).ok_or("the routes do not fit")?;
        let fabric = FabricPlan::clone(&tables.plan()).publish();
        let published = plan.with_fabric(fabric, |_| true).publish();
        let mut worker = Worker::new(0, pool, ports, &published, Crossing::alone(), 0x5EED);
        let now = Time::from_secs(1);
        worker.maintain(now);
        let mut idle = Vec::new();
        idle.extend((0..PORTS * FRAMES).map_while(|_| worker.pool().alloc()));
        Ok(Bench { worker, cables, idle, load, random: 0x9E37_79B9, now })
    }

    /// Fills the input rings; returns how many frames there are.
    fn fill(&mut self) -> usize {
        let inputs = if let Load::Hop = self.load { PORTS } else { HOST_PORTS };
        let hop = Repr::new(Kind::Ethernet, &[0, 1, 2, 3]).and_then(|r| r.to_bytes().ok());
        let hop = hop.unwrap_or_default();
        let mut count = 0;
        for port in 0..inputs {
            for _ in 0..FRAMES {
                let r = self.random();
                let Some(mut packet) = self.idle.pop() else { return count };
                let pool = self.worker.pool();
                let header = if let Load::Hop = self.load { hop.len() } else { 0 };
                pool.set_len(&mut packet, header + FRAME_LEN);
                let data = pool.data_mut(&mut packet);
                data[..header].copy_from_slice(&hop[..header]);
                let inner = &mut data[header..];
                inner[6..12].copy_from_slice(&host(port).0);
                inner[12..18].copy_from_slice(&[0x08, 0x00, 0x45, 0x00, 0x00, 0x2E]);
                match self.load {
                    Load::Hop => data[6] = ((port + 1 + below(r >> 32, PORTS - 1)) % PORTS) as u8,
                    Load::Host { named, .. } => {
                        let destination = station_mac(below(r >> 32, named) as u64);
                        inner[..6].copy_from_slice(&destination.to_be_bytes()[2..]);
                    }
                }
                match self.cables[port].to_port.push(packet) {
                    Ok(()) => count += 1,
                    Err(rtrb::PushError::Full(packet)) => self.idle.push(packet),
                }
            }
        }
        count
    }

    /// Forwards until the input rings are empty.
    fn forward(&mut self) -> Duration {
        let start = Instant::now();
        while self.worker.turn(self.now) {}
        let took = start.elapsed();
        self.now = self.now + took;
        took
    }

    /// Takes the frames back, their headroom as it was.
    fn drain(&mut self) {
        let header = if let Load::Hop = self.load { 0 } else { HEADER_LEN };
        let pool = self.worker.pool();
        for cable in &mut self.cables {
            while let Ok(mut packet) = cable.from_port.pop() {
                pool.pull_front(&mut packet, header);
                self.idle.push(packet);
            }
        }
    }

    /// Every packet since `before` must have come out.
    fn check(&self, offered: u64, before: &Account) -> Result<(), String> {
        let account = self.worker.account();
        let received = account.received - before.received;
        if account.balances() && received == offered && account.sent - before.sent == offered {
            Ok(())
        } else {
            Err(format!("packets are missing: {offered} were offered, {account:?}"))
        }
    }

    /// xorshift64*, as in the switch's bench.
    fn random(&mut self) -> u64 {
        self.random = xorshift(self.random);
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// Bytes of the header of every route: three hops to go, one back.
const HEADER_LEN: usize = 10;

/// The host at a port.
fn host(port: usize) -> MacAddr {
    MacAddr([0x06, 0, 0, 0, 0, port as u8])
}

fn tables(load: Load) -> Option<FabricTables> {
    let mut tables = FabricTables::new(PORTS, 0x5EED)?;
    for port in 0..PORTS {
        let id = port as PortId;
        let Load::Host { routes, .. } = load else {
            tables.set_role(id, PortRole::Fabric(Encapsulation::Native));
            continue;
        };
        if port >= HOST_PORTS {
            tables.set_role(id, PortRole::Fabric(Encapsulation::Native));
            continue;
        }
        tables.set_role(id, PortRole::Host);
        tables.admit(id, host(port));
        for i in 0..routes {
            let out = HOST_PORTS + i % (PORTS - HOST_PORTS);
            let route = route_along(port as u8, &[out as u8, 1, 2, (i % 7) as u8])?;
            let destination = MacAddr::from_u64(station_mac(i as u64));
            tables.install(id, RouteKey { destination, source: None }, route.into());
        }
    }
    Some(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bench_runs_and_loses_nothing() {
        for load in [Load::Hop, Load::Host { routes: 4096, named: 512 }] {
            assert!(mpps(load, Duration::ZERO).unwrap() > 0.0);
        }
    }
}
