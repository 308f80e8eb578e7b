//! Hit ratios of the content store's eviction policies, on drawn and on recorded requests, beside
//! the best that any policy could do, which has to know the future (Belady, 1966).

use std::collections::{BinaryHeap, HashMap};
use std::io::Read;
use std::path::Path;

use plexus_ndn::store::policy::{Policy, PolicyKind};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::random::splitmix;
use super::{Row, Setting};

/// A day of requests for web objects: see `crates/ndn/data`.
const NAMES: &[u8] = include_bytes!("../../ndn/data/names.txt.gz");
/// Objects of the drawn catalogues, and requests for them.
const CATALOGUE: usize = 100_000;
const REQUESTS: usize = 2_000_000;
const SEED: u64 = 8;
/// Sizes of the cache, in percent of the objects.
const SIZES: [usize; 2] = [1, 10];

/// Requests by the numbers of what is asked for, from 0 without gaps.
struct Trace {
    name: String,
    requests: Vec<u32>,
    objects: usize,
}

/// Every policy on every trace, a row each: percent of requests that hit.
pub(super) fn rows(name: &str, setting: &Setting) -> Result<Vec<Row>, String> {
    let shrink = setting.effort.shrink;
    let mut traces = vec![zipf(0.8, shrink), zipf(1.0, shrink), recorded(setting)?];
    traces.retain(|trace| !trace.requests.is_empty());
    let mut rows = Vec::new();
    for trace in &traces {
        for percent in SIZES {
            let size = (trace.objects * percent / 100).max(1);
            let best = optimum(trace, size);
            for kind in PolicyKind::ALL {
                let row = format!("{name}-{}-{percent}%-{}", trace.name, kind.name());
                let turn = || Ok((hits(trace, size, kind), Some(best)));
                rows.push(Row::measure(&row, "% hits", Some("optimum"), 1, turn)?);
            }
        }
    }
    Ok(rows)
}

/// Independent requests; the k-th most popular object is asked for k^-alpha as often as the first.
fn zipf(alpha: f64, shrink: usize) -> Trace {
    let objects = (CATALOGUE / shrink).max(100);
    let mut sum = 0.0;
    let weight = |rank: usize| {
        sum += (rank as f64).powf(-alpha);
        sum
    };
    let sums: Vec<f64> = (1..=objects).map(weight).collect();
    let mut random = Pcg64::seed_from_u64(SEED);
    let draw = |_| {
        let point = random.random::<f64>() * sum;
        sums.partition_point(|s| *s < point).min(objects - 1) as u32
    };
    let requests = (0..REQUESTS / shrink).map(draw).collect();
    Trace { name: format!("zipf-{alpha:.1}"), requests, objects }
}

/// The names of the file that was asked for, one to a line, or those embedded.
fn recorded(setting: &Setting) -> Result<Trace, String> {
    let mut text = String::new();
    let name = match &setting.names {
        Some(file) => {
            text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
            file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
        }
        None => {
            let read = flate2::read::GzDecoder::new(NAMES).read_to_string(&mut text);
            read.map_err(|e| format!("the embedded names: {e}"))?;
            "web".into()
        }
    };
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let number = |line| {
        let next = numbers.len() as u32;
        *numbers.entry(line).or_insert(next)
    };
    let requests: Vec<u32> = text.lines().filter(|line| !line.is_empty()).map(number).collect();
    if let (Some(file), true) = (&setting.names, requests.is_empty()) {
        return Err(format!("{} has no names: give it one to a line", Path::display(file)));
    }
    Ok(Trace { name, requests, objects: numbers.len() })
}

/// Percent of requests that find their object in a cache of `size` objects.
fn hits(trace: &Trace, size: usize, kind: PolicyKind) -> f64 {
    const NOWHERE: u32 = u32::MAX;
    let mut policy = kind.build(size, size as u64);
    let mut slots = vec![NOWHERE; trace.objects];
    let mut held = vec![0; size];
    let (mut used, mut hits) = (0, 0u64);
    for &object in &trace.requests {
        let slot = slots[object as usize];
        if slot != NOWHERE {
            hits += 1;
            policy.on_hit(slot);
            continue;
        }
        let slot = if used < size {
            used += 1;
            used as u32 - 1
        } else if let Some(slot) = policy.victim() {
            slots[held[slot as usize] as usize] = NOWHERE;
            slot
        } else {
            continue;
        };
        held[slot as usize] = object;
        slots[object as usize] = slot;
        policy.on_insert(slot, splitmix(object.into()), 1);
    }
    100.0 * hits as f64 / trace.requests.len() as f64
}

/// Percent of requests that hit if always the object goes that is asked for last of all, be it
/// the one that has just come.
fn optimum(trace: &Trace, size: usize) -> f64 {
    let never = trace.requests.len();
    // When the object of each request is asked for next.
    let mut next = vec![never; trace.requests.len()];
    let mut last = vec![never; trace.objects];
    for (i, &object) in trace.requests.iter().enumerate().rev() {
        next[i] = std::mem::replace(&mut last[object as usize], i);
    }
    // Each held object's next request; what does not agree with it in the heap is out of date.
    let mut held: Vec<Option<usize>> = vec![None; trace.objects];
    let mut heap = BinaryHeap::new();
    let (mut used, mut hits) = (0, 0u64);
    for (i, &object) in trace.requests.iter().enumerate() {
        if held[object as usize].is_some() {
            hits += 1;
        } else {
            used += 1;
        }
        held[object as usize] = Some(next[i]);
        heap.push((next[i], object));
        while used > size {
            let Some((when, object)) = heap.pop() else { break };
            if held[object as usize] == Some(when) {
                held[object as usize] = None;
                used -= 1;
            }
        }
    }
    100.0 * hits as f64 / trace.requests.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(requests: &[u32]) -> Trace {
        let objects = requests.iter().max().map_or(0, |m| *m as usize + 1);
        Trace { name: "t".into(), requests: requests.to_vec(), objects }
    }

    /// By hand: of 1 2 3 1 2 3 a cache of two keeps 1 when 3 comes, then 2 or 3 when that comes.
    #[test]
    fn the_optimum_knows_the_future() {
        assert_eq!(optimum(&trace(&[1, 2, 3, 1, 2, 3]), 2), 100.0 * 2.0 / 6.0);
        assert_eq!(optimum(&trace(&[0, 1, 2, 3]), 2), 0.0);
        assert_eq!(optimum(&trace(&[0, 0, 0, 0]), 1), 75.0);
    }

    #[test]
    fn no_policy_beats_it_and_a_loop_beats_lru() {
        let looping: Vec<u32> = (0..1000).map(|i| i % 20).collect();
        let looping = trace(&looping);
        assert_eq!(hits(&looping, 10, PolicyKind::Lru), 0.0);
        let drawn = zipf(1.0, 100);
        for trace in [&looping, &drawn] {
            for kind in PolicyKind::ALL {
                let (ours, best) = (hits(trace, 10, kind), optimum(trace, 10));
                assert!(ours <= best, "{}: {ours} of {best}", kind.name());
            }
        }
    }
}
