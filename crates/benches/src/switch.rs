//! The switch in memory: the same rounds, stations and traffic as `bench/peers/dpdk_l2_mem.c`.
//!
//! Headers are written anew each round, so that a few thousand frames can name a million stations.
//! Station `i` sits on port `i mod 8`; a frame from port `p` has a random source there and a random
//! destination elsewhere.

use std::ffi::OsStr;
use std::time::Duration;

use plexus_config::{PortSettings, QueueOrder, QueueSettings, SwitchSettings};
use plexus_io::{Packet, Pool};
use plexus_plane::Snapshot;
use plexus_table::lpm::{Fib4, Fib6};

use super::random::below;
use super::rig::{FRAME_LEN, FRAMES, PORTS, Rig};
use super::whole::{self, Extra};
use super::{Row, Setting, peer};

const PEER: &str = "dpdk_l2_mem";

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) stations: usize,
    /// How many of them the traffic names.
    pub(super) named: usize,
    /// How its ports are set.
    pub(super) queues: Queues,
    pub(super) extra: Extra,
}

impl Load {
    /// A box that only switches, with ports as they are without settings.
    pub(super) fn new(stations: usize, named: usize) -> Load {
        Load { stations, named, queues: Queues::default(), extra: Extra::Nothing }
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
    let others = [("port-wait", true, QueueOrder::Port), ("deep-wait", true, QueueOrder::Deep)];
    let kinds = kinds.into_iter().chain(others);
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
    let (mut rig, _tables) = rig(load)?;
    rig.mpps(time, |rig| fill(rig, load), restore)
}

/// A switch that knows all stations, and what it looks up in if it routes too.
fn rig(load: Load) -> Result<(Rig, Option<(Fib4, Fib6)>), String> {
    // What waits may take as many frames as stay free.
    let spare = if load.queues.wait { PORTS * FRAMES } else { 64 };
    let Queues { order, wait } = load.queues;
    let queue = QueueSettings { order, packets: u32::MAX, ..QueueSettings::default() };
    // So fast that all leave at once.
    let rate_bits_per_s = wait.then_some(1 << 62);
    let settings = PortSettings { queue, rate_bits_per_s, ..PortSettings::default() };
    let settings = (0..load.extra.ports(PORTS)).map(|i| (format!("p{i}"), 0, settings.clone()));
    let switch = SwitchSettings { mac_table: load.stations, ..SwitchSettings::default() };
    let mut plan = Snapshot::new(settings.collect(), &switch).map_err(|e| e.to_string())?;
    plan.deep_buffer.bytes = 1 << 30;
    let mut tables = None;
    if load.extra == Extra::Everything {
        let (router, v4, v6) = whole::idle_router()?;
        tables = Some((v4, v6));
        plan = whole::with_fabric_and_names(plan, PORTS)?.with_router(router);
    }
    let mut rig = Rig::new(plan, spare, None)?;
    for packet in &mut rig.idle {
        let pool = rig.worker.pool();
        pool.set_len(packet, FRAME_LEN);
        let data = pool.data_mut(packet);
        data.fill(0);
        data[12..18].copy_from_slice(&[0x08, 0x00, 0x45, 0x00, 0x00, 0x2E]);
    }
    introduce(&mut rig, load.stations)?;
    Ok((rig, tables))
}

/// Every station sends one frame, so that the table knows it before the clock starts.
fn introduce(rig: &mut Rig, stations: usize) -> Result<(), String> {
    for first in (0..stations).step_by(FRAMES) {
        for station in first..(first + FRAMES).min(stations) {
            // To a station of another port that is known already, or will be flooded.
            let to = (station + 1) % PORTS;
            send(rig, station % PORTS, station as u64, to as u64);
        }
        rig.forward();
        rig.drain(restore);
    }
    match rig.worker.pipeline().switch().stations(rig.now).count() {
        known if known == stations => Ok(()),
        known => Err(format!("only {known} of {stations} stations were learned")),
    }
}

fn fill(rig: &mut Rig, load: Load) {
    let per_port = load.named / PORTS;
    for port in 0..PORTS {
        for _ in 0..FRAMES {
            let r = rig.random.next();
            let to = (port + 1 + below(r as u16 as u64 * 65_536, PORTS - 1)) % PORTS;
            let source = below(r >> 32, per_port) * PORTS + port;
            let destination = below((r >> 8) & 0xFFFF_FFFF, per_port) * PORTS + to;
            send(rig, port, source as u64, destination as u64);
        }
    }
}

fn send(rig: &mut Rig, port: usize, source: u64, destination: u64) {
    rig.send(port, |pool, packet| {
        let data = pool.data_mut(packet);
        data[..6].copy_from_slice(&station_mac(destination).to_be_bytes()[2..]);
        data[6..12].copy_from_slice(&station_mac(source).to_be_bytes()[2..]);
    });
}

fn restore(pool: &mut Pool, packet: &mut Packet) {
    pool.set_len(packet, FRAME_LEN);
}

/// A bijection on 40 bits: neighbours in number are not neighbours in the table.
pub(super) fn station_mac(i: u64) -> u64 {
    const MASK: u64 = (1 << 40) - 1;
    let i = i.wrapping_mul(0x9E_3779_B97F) & MASK;
    let i = (i ^ i >> 20).wrapping_mul(0xBF_5847_6D1B) & MASK;
    0x02 << 40 | (i ^ i >> 20)
}
