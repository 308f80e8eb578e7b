//! A switch that nothing limits but its cables: what the boards are compared with.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::rig::{frame, interval_fs};
use super::{GAP, Outcome, PERIOD_FS, Stream, ethernet_bytes};

/// The streams through a gigabit switch that moves any number of frames at once: each is held until
/// it is whole, and waits for its port, in a queue without end. Times, rates and the window are
/// those of [`super::Rig`].
pub fn ideal(
    streams: &[Stream],
    payload_bytes: u64,
    rate_bits_per_s: u64,
    seed: u64,
    [before, clocks]: [u64; 2],
) -> Outcome {
    let wire_fs = ethernet_bytes(frame(0, payload_bytes).bytes.into()) * PERIOD_FS;
    let interval_fs = interval_fs(payload_bytes, rate_bits_per_s, PERIOD_FS);
    let mut random = Pcg64::seed_from_u64(seed);
    let [begin_fs, end_fs] = [before, before + clocks].map(|clock| clock * PERIOD_FS);
    let mut arrivals = Vec::new();
    for stream in 0..streams.len() {
        let mut at = random.random_range(0..interval_fs);
        while at < end_fs && rate_bits_per_s > 0 {
            arrivals.push((at, stream));
            at += interval_fs;
        }
    }
    arrivals.sort_unstable();
    let mut free_at = std::collections::BTreeMap::new();
    let (mut sent, mut delivered) = (vec![0; streams.len()], vec![0; streams.len()]);
    let (mut delivered_in_all, mut held) = (0, 0);
    for (at, stream) in &arrivals {
        let whole = at + wire_fs - GAP * PERIOD_FS;
        let free = free_at.entry(streams[*stream].to).or_insert(0);
        let leaves = whole.max(*free);
        *free = leaves + wire_fs;
        sent[*stream] += u64::from(*at >= begin_fs);
        delivered[*stream] += u64::from((begin_fs..end_fs).contains(&leaves));
        if leaves < end_fs {
            delivered_in_all += 1;
        } else {
            held += 1;
        }
    }
    Outcome {
        sent,
        delivered,
        seconds: clocks as f64 / super::CLOCK_HZ as f64,
        payload_bytes,
        sent_in_all: arrivals.len() as u64,
        delivered_in_all,
        held,
        ..Outcome::default()
    }
}
