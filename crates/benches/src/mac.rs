//! Lookups in the MAC table in batches, as the switch does them, with and without asking for the
//! buckets ahead: what that one `unsafe` line of `table` saves.

use std::hint::black_box;
use std::time::Instant;

use plexus_table::{Hashed, MacKey, MacTable, Station};

use super::random::Random;
use super::{Row, Setting};

/// Lookups at a time, the switch's batch.
const BATCH: usize = 64;
/// Keys that are looked up in turn: too many for the branch predictor to know by heart.
const KEYS: usize = 1 << 20;
const SEED: u64 = 0x5EED;

/// Hits and misses, in a table for 64 k and for 1 M stations.
pub(super) fn rows(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for (size, stations) in [("64k", 1 << 16), ("1m", 1 << 20)] {
        let stations = stations / setting.effort.shrink;
        let table = filled(stations)?;
        for (kind, first) in [("hit", 0), ("miss", stations as u64)] {
            let keys = keys(stations as u64, first, KEYS / setting.effort.shrink);
            let name = format!("{name}-{size}-{kind}");
            let turn = || {
                let plain = rate(&table, &keys, setting, |key| table.hash(key))?;
                Ok((rate(&table, &keys, setting, |key| table.prefetch(key))?, Some(plain)))
            };
            let peer = Some("without prefetch");
            rows.push(Row::measure(&name, "M/s", peer, setting.effort.runs, turn)?);
        }
    }
    Ok(rows)
}

fn filled(stations: usize) -> Result<MacTable, String> {
    let mut table = MacTable::new(stations, SEED);
    for i in 0..stations as u64 {
        let station = Station::learned((i % 8) as u16, 1);
        table.insert(key(i), station).map_err(|_| format!("no room for station {i}"))?;
    }
    Ok(table)
}

fn key(i: u64) -> MacKey {
    MacKey::from_u64(1, super::switch::station_mac(i))
}

/// `count` stations drawn from those numbered `first..first + stations`.
fn keys(stations: u64, first: u64, count: usize) -> Vec<MacKey> {
    let mut random = Random::AS_PEERS;
    (0..count).map(|_| key(first + (random.next() >> 32) % stations)).collect()
}

/// Millions of lookups per second.
fn rate(
    table: &MacTable,
    keys: &[MacKey],
    setting: &Setting,
    ahead: impl Fn(MacKey) -> Hashed,
) -> Result<f64, String> {
    let (mut looked_up, mut ports) = (0, 0u64);
    let start = Instant::now();
    while looked_up == 0 || start.elapsed() < setting.effort.time {
        for batch in keys.chunks_exact(BATCH) {
            let mut hashed = [Hashed::default(); BATCH];
            for (hashed, &key) in hashed.iter_mut().zip(batch) {
                *hashed = ahead(key);
            }
            for (&hashed, &key) in hashed.iter().zip(batch) {
                if let Some(slot) = table.find(key, hashed) {
                    ports += u64::from(table.at(slot).port());
                }
            }
        }
        looked_up += keys.len() / BATCH * BATCH;
        if looked_up == 0 {
            return Err("there are fewer keys than a batch holds".into());
        }
    }
    black_box(ports);
    Ok(looked_up as f64 / start.elapsed().as_secs_f64() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_hit_and_misses_miss() {
        let table = filled(1000).unwrap();
        assert!(keys(1000, 0, 500).into_iter().all(|k| table.get(k).is_some()));
        assert!(keys(1000, 1000, 500).into_iter().all(|k| table.get(k).is_none()));
    }
}
