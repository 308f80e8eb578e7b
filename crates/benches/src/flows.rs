//! The flow table beside std's `HashMap`: new flows, and packets of known flows, in batches as a
//! worker counts them. And the ranking of its flows.

use std::collections::HashMap;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use plexus_coproc::Interval;
use plexus_table::{Counted, FlowCounts, FlowHash, FlowSlot, FlowTable, PackedFlow};
use plexus_wire::{FlowKey, Protocol, Time};

use super::random::{Random, splitmix};
use super::{Row, Setting};

/// Packets at a time.
const BATCH: usize = 64;
const FLOWS: usize = 1 << 20;
const IDLE_MS: u32 = 1000;
const SEED: [u64; 2] = [0x5EED, 0xF10E];
/// Packets of known flows in a turn, as multiples of the flows.
const KNOWN: usize = 4;

/// A new table with a million flows: `insert` is their first packets, `count` packets of random
/// flows among them.
pub(super) fn rows(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let flows = FLOWS / setting.effort.shrink;
    let keys: Vec<PackedFlow> = (0..flows as u64).map(key).collect();
    let mut random = Random::AS_PEERS;
    let known: Vec<PackedFlow> =
        (0..flows * KNOWN).map(|_| keys[random.below(keys.len())]).collect();
    let (mut inserts, mut counts) = (Vec::new(), Vec::new());
    for _ in 0..setting.effort.runs.max(1) {
        let theirs = {
            let mut map = HashMap::with_capacity(flows);
            [in_map(&mut map, &keys), in_map(&mut map, &known)]
        };
        let ours = {
            let mut table = FlowTable::new(flows, IDLE_MS, SEED);
            [in_table(&mut table, &keys)?, in_table(&mut table, &known)?]
        };
        inserts.push((ours[0], Some(theirs[0])));
        counts.push((ours[1], Some(theirs[1])));
    }
    let row = |what, turns| Row::of_turns(&format!("{name}-{what}"), "M/s", Some("HashMap"), turns);
    Ok(vec![row("insert", inserts), row("count", counts)])
}

/// Rules of the fast table (`traffic-coprocessor.txt` §4).
const RULES: usize = 1792;

/// The largest of a million flows that all had traffic in the interval: of random bytes, and all
/// alike. The peer sorts them all.
pub(super) fn rank(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let flows = FLOWS / setting.effort.shrink;
    let slots = FlowTable::new(flows, IDLE_MS, SEED).slots();
    let mut interval = Interval::new(slots);
    let mut largest = Vec::new();
    let mut rows = Vec::new();
    for (kind, mask) in [("random", 0xF_FFFF), ("equal", 0)] {
        let mut random = Random::AS_PEERS;
        let bytes: Vec<u32> = (0..flows).map(|_| (random.next() as u32 & mask) + 64).collect();
        let ms = |start: Instant| start.elapsed().as_secs_f64() * 1e3;
        let turn = || {
            for (flow, bytes) in bytes.iter().enumerate() {
                interval.add(FlowSlot((flow * slots / flows) as u32), *bytes);
            }
            let mut all: Vec<(u32, u32)> = bytes.iter().copied().zip(0..).collect();
            let start = Instant::now();
            all.sort_unstable_by(|a, b| b.cmp(a));
            black_box(&all);
            let theirs = ms(start);
            let start = Instant::now();
            interval.take(RULES, &mut largest);
            let ours = ms(start);
            let is_right = largest.iter().zip(&all).all(|(ours, theirs)| ours.1 == theirs.0);
            match is_right && largest.len() == RULES.min(flows) {
                true => Ok((ours, Some(theirs))),
                false => Err("the largest flows are not those of the sort".to_string()),
            }
        };
        let name = format!("{name}-{kind}");
        rows.push(Row::measure(&name, "ms", Some("sort"), setting.effort.runs, turn)?);
    }
    Ok(rows)
}

/// A random five-tuple.
fn key(i: u64) -> PackedFlow {
    let random = splitmix(i);
    let key = FlowKey {
        vlan: None,
        src: Ipv4Addr::from_bits((random >> 32) as u32).into(),
        dst: Ipv4Addr::from_bits(random as u32).into(),
        protocol: Protocol::TCP,
        ports: Some((i as u16, 443)),
    };
    PackedFlow::from(&key)
}

fn rate(packets: usize, time: Duration) -> f64 {
    packets as f64 / time.as_secs_f64() / 1e6
}

/// Millions of packets per second.
fn in_table(table: &mut FlowTable, packets: &[PackedFlow]) -> Result<f64, String> {
    let mut refused = 0;
    let start = Instant::now();
    for (i, batch) in packets.chunks(BATCH).enumerate() {
        let mut hashes = [FlowHash::default(); BATCH];
        for (hash, key) in hashes.iter_mut().zip(batch) {
            *hash = table.prefetch(key);
        }
        hashes.iter().take(batch.len()).for_each(|hash| table.prefetch_record(*hash));
        let now = Time::from_micros(i as u64);
        for (hash, key) in hashes.iter().zip(batch) {
            refused += u32::from(table.count(key, *hash, now, 1500) == Counted::Refused);
        }
    }
    let time = start.elapsed();
    if refused > 0 {
        return Err(format!("{refused} packets of flows without room"));
    }
    Ok(rate(packets.len(), time))
}

/// The same in std's map, whose hash is SipHash-1-3 too.
fn in_map(map: &mut HashMap<PackedFlow, FlowCounts>, packets: &[PackedFlow]) -> f64 {
    let start = Instant::now();
    for (i, key) in packets.iter().enumerate() {
        let now = (i >> 16) as u32;
        let new = FlowCounts { first_ms: now, ..FlowCounts::default() };
        let counts = map.entry(*key).or_insert(new);
        counts.packets += 1;
        counts.bytes += 1500;
        counts.last_ms = now;
    }
    black_box(&map);
    rate(packets.len(), start.elapsed())
}
