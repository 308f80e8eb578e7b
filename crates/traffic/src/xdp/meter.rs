//! The meter in the kernel: a program on the receiving device that finds probes like
//! [`find_probe`](crate::find_probe), counts them like [`FlowStats`], and drops them. Other packets
//! go on to the stack.
//!
//! It has one histogram for all flows, with the buckets of [`FlowStats`]: values up to 2,047 ns
//! each, then 1,024 buckets for each power of two.
//!
//! Sequence numbers are remembered in 16 slots of 64 per flow; each slot stores which 64 it holds,
//! so that it can be reused without clearing the ones in between. A flow should arrive on one
//! receive queue at a time, as with RSS: two processors that count one flow at once may miss a
//! duplicate or a late packet, but never an arrival.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use plexus_io::OpenError;
use plexus_io::bpf::{
    self, Alu, Asm, Attached, Helper, If, Label, Map, Program, Reg, Target, Verdict, Width,
    XdpMode, context,
};
use plexus_wire::Time;

use super::{emit_cut, emit_mark, emit_sum};
use crate::meter::{Arrived, MeterConfig};
use crate::probe::{PROBE_ETHERTYPE, PROBE_LEN};
use crate::sizes::FCS;
use crate::stats::{Counts, FlowStats, Start, Summary};

/// Most distinguished flows, 25 MB of the kernel's memory, allocated at once.
const FLOWS_MAX: usize = 1 << 16;

/// Latencies of 2^41 ns (37 minutes) and more share the last bucket.
const LATENCY_BITS: i32 = 41;
const BUCKETS: usize = (LATENCY_BITS as usize - 11 + 2) << 10;

const SLOTS: i16 = 16;

/// Offsets in a flow's value.
mod flow {
    words! {
        RECEIVED BYTES FIRST FIRST_BYTES LAST DUPLICATES REORDERED ANCIENT RESTARTS CLOCK_ERRORS
        PAST_EXPECTED PAST_DISTINCT DISTINCT BASE NEXT NEWEST_NS
        /// Pairs of words: which block of 64 sequence numbers, and a bit for each.
        WINDOW
    }
    pub(super) const WORDS: usize = WINDOW as usize / 8 + 2 * super::SLOTS as usize;
}

/// Offsets of the totals over all flows.
mod totals {
    words! {
        FOREIGN UNTRACKED UNTRACKED_BYTES
        /// One more than the highest flow number seen.
        FLOWS
    }
    pub(super) const WORDS: usize = FLOWS as usize / 8 + 1;
}

/// Counts probes by flow, in the kernel, from its making to [`stop`](XdpMeter::stop).
pub struct XdpMeter {
    start: Start,
    target: Target,
    attached: Option<(Attached, OwnedFd)>,
    flows: Map,
    totals: Map,
    histogram: Map,
}

impl XdpMeter {
    /// Starts counting packets that arrive at a device of the calling thread's network namespace.
    /// It ignores `detailed_flows` of the configuration.
    ///
    /// # Errors
    /// When the device is missing or has an XDP program, or the process lacks the rights
    /// for BPF (CAP_BPF and CAP_NET_ADMIN, root).
    pub fn open(device: &str, config: &MeterConfig) -> Result<XdpMeter, OpenError> {
        let target = Target::find(device)?;
        let refused = |e| bpf::refused(device, "making a BPF map", e);
        let count = config.flows_max.clamp(1, FLOWS_MAX);
        let flows = Map::array(flow::WORDS, count).map_err(refused)?;
        let totals = Map::array(totals::WORDS, 1).map_err(refused)?;
        let histogram = Map::array(BUCKETS, 1).map_err(refused)?;
        let maps = Maps { flows: &flows, totals: &totals, histogram: &histogram };
        let program = Program::load("plexus_meter", assemble(config, &maps))
            .map_err(|e| bpf::refused(device, "loading the XDP program", e))?;
        let attached = Some(target.attach(&program, XdpMode::Auto)?);
        Ok(XdpMeter { start: config.start, target, attached, flows, totals, histogram })
    }

    /// Whether the program runs in the driver or before the stack.
    pub fn is_native(&self) -> bool {
        self.attached.as_ref().is_some_and(|(attached, _)| attached.is_native())
    }

    /// Ends the counting: frames go to the stack again.
    pub fn stop(&mut self) {
        self.attached = None;
    }

    /// Packets that the device received but dropped before the program, since it exists.
    ///
    /// # Errors
    /// When the device is missing.
    pub fn overflow(&self) -> std::io::Result<u64> {
        self.target.receive_dropped()
    }

    /// Everything that arrived.
    pub fn arrived(&self) -> Arrived {
        let total = |at: i16| self.totals.words()[at as usize / 8].load(Ordering::Relaxed);
        let mut arrived = Arrived {
            probes: total(totals::UNTRACKED),
            bytes: total(totals::UNTRACKED_BYTES),
            untracked: total(totals::UNTRACKED),
            foreign: total(totals::FOREIGN),
        };
        let high = (total(totals::FLOWS) as usize).min(self.flows.count());
        for n in 0..high {
            let value = self.flows.value(n);
            arrived.probes += read(value, flow::RECEIVED);
            arrived.bytes += read(value, flow::BYTES);
        }
        arrived
    }

    /// The flows of which something came, by number. They have no latencies of their own.
    pub fn flows(&self) -> impl Iterator<Item = (u32, FlowStats)> + '_ {
        let all = (0..self.flows.count()).map(|n| (n as u32, self.flows.value(n)));
        let seen = all.filter(|(_, value)| read(value, flow::RECEIVED) > 0);
        seen.map(|(n, value)| (n, FlowStats::counted(self.start, counts(value))))
    }

    /// The sum over all flows, with their latencies.
    pub fn total(&self) -> Summary {
        let mut total = FlowStats::with_window(self.start, 64).with_latency();
        for (_, stats) in self.flows() {
            total.merge(&stats);
        }
        let buckets = self.histogram.words().iter().map(|w| w.load(Ordering::Relaxed));
        total.merge_histogram(histogram(buckets));
        total.summary()
    }
}

fn read(value: &[AtomicU64], at: i16) -> u64 {
    value[at as usize / 8].load(Ordering::Relaxed)
}

fn counts(value: &[AtomicU64]) -> Counts {
    let at = |at| read(value, at);
    Counts {
        received: at(flow::RECEIVED),
        bytes: at(flow::BYTES),
        first: Time::from_nanos(at(flow::FIRST)),
        first_bytes: at(flow::FIRST_BYTES),
        last: Time::from_nanos(at(flow::LAST)),
        duplicates: at(flow::DUPLICATES),
        reordered: at(flow::REORDERED),
        ancient: at(flow::ANCIENT),
        restarts: at(flow::RESTARTS),
        clock_errors: at(flow::CLOCK_ERRORS),
        past_expected: at(flow::PAST_EXPECTED),
        past_distinct: at(flow::PAST_DISTINCT),
        distinct: at(flow::DISTINCT),
        base: at(flow::BASE),
        next: at(flow::NEXT),
    }
}

/// The program's buckets as a histogram: each bucket's lowest value, as often as it counts.
fn histogram(buckets: impl Iterator<Item = u64>) -> Option<Histogram<u64>> {
    let mut histogram = Histogram::new(crate::stats::SIGNIFICANT_DIGITS).ok()?;
    for (at, count) in buckets.enumerate().filter(|&(_, count)| count > 0) {
        // It grows to any value, so recording cannot fail.
        let _ = histogram.record_n(lowest_of(at), count);
    }
    Some(histogram)
}

/// The lowest value of a bucket: with a shift of s, 1,024 s + (value >> s) is its number.
fn lowest_of(bucket: usize) -> u64 {
    let shift = (bucket >> 10).saturating_sub(1);
    ((bucket - (shift << 10)) as u64) << shift
}

struct Maps<'a> {
    flows: &'a Map,
    totals: &'a Map,
    histogram: &'a Map,
}

/// The program. After the search, R6 is the flow's value, R7 the sequence number, R8 the time of
/// transmission, R9 the frame's length; the flow's number is on the stack.
fn assemble(config: &MeterConfig, maps: &Maps<'_>) -> Asm {
    use Reg::*;
    use Width::D;
    const FLOW_ON_STACK: i16 = -16;
    let mut asm = Asm::new();
    let a = &mut asm;
    let (foreign, untracked, done) = (a.label(), a.label(), a.label());
    find_probe(a, config.udp_port, foreign);

    // R7 and R8 hold the probe's body.
    a.mov(R6, R7);
    a.alu_imm(Alu::Rsh, R6, 40);
    a.store(D, R10, FLOW_ON_STACK, R6);
    a.alu_imm(Alu::Lsh, R7, 24);
    a.alu_imm(Alu::Rsh, R7, 16);
    a.mov(R1, R8);
    a.alu_imm(Alu::Rsh, R1, 56);
    a.alu(Alu::Or, R7, R1);
    emit_cut(a, R8, 56);
    a.alu_imm(Alu::Add, R9, FCS as i32);
    a.lookup(maps.flows, R6, untracked);
    a.mov(R6, R0);

    a.call(Helper::KtimeNs);
    let known = a.label();
    a.mov_imm(R1, 1);
    a.atomic_add(R6, flow::RECEIVED, R1);
    a.atomic_add(R6, flow::BYTES, R9);
    a.load(D, R1, R6, flow::FIRST);
    a.jump_imm(If::Ne, R1, 0, known);
    a.store(D, R6, flow::FIRST, R0);
    a.store(D, R6, flow::FIRST_BYTES, R9);
    a.place(known);
    a.store(D, R6, flow::LAST, R0);
    record_latency(a, maps);

    let (begin, newest, late) = (a.label(), a.label(), a.label());
    a.load(D, R1, R6, flow::NEXT);
    a.jump_imm(If::Eq, R1, 0, begin);
    a.jump(If::Ge, R7, R1, newest);
    // Within a run a lower number is never sent later: the sender has started again.
    a.load(D, R2, R6, flow::NEWEST_NS);
    a.alu(Alu::Sub, R2, R8);
    a.alu_imm(Alu::Lsh, R2, 8);
    a.jump_imm(If::SGe, R2, 0, late);
    a.bump(R6, flow::RESTARTS, 1, R2);
    a.load(D, R2, R6, flow::BASE);
    a.alu(Alu::Sub, R1, R2);
    emit_sum(a, R6, flow::PAST_EXPECTED, R1, R2);
    a.load(D, R1, R6, flow::DISTINCT);
    emit_sum(a, R6, flow::PAST_DISTINCT, R1, R2);
    a.store_imm(D, R6, flow::DISTINCT, 0);

    a.place(begin);
    for slot in 0..SLOTS * 2 {
        a.store_imm(D, R6, flow::WINDOW + slot * 8, 0);
    }
    match config.start {
        Start::Zero => a.store_imm(D, R6, flow::BASE, 0),
        Start::Seen => a.store(D, R6, flow::BASE, R7),
    }
    a.load(D, R1, R10, FLOW_ON_STACK);
    a.alu_imm(Alu::Add, R1, 1);
    a.mov_value(R2, maps.totals);
    a.load(D, R3, R2, totals::FLOWS);
    a.jump(If::Ge, R3, R1, newest);
    a.store(D, R2, totals::FLOWS, R1);

    a.place(newest);
    let fresh = a.label();
    a.bump(R6, flow::DISTINCT, 1, R1);
    a.mov(R1, R7);
    a.alu_imm(Alu::Add, R1, 1);
    a.store(D, R6, flow::NEXT, R1);
    a.store(D, R6, flow::NEWEST_NS, R8);
    find_slot(a);
    a.jump(If::Eq, R1, R2, fresh);
    a.store(D, R3, 0, R2);
    a.store_imm(D, R3, 8, 0);
    a.place(fresh);
    a.load(D, R1, R3, 8);
    a.alu(Alu::Or, R1, R4);
    a.store(D, R3, 8, R1);
    a.goto(done);

    a.place(late);
    let (ancient, duplicate, held) = (a.label(), a.label(), a.label());
    find_slot(a);
    a.jump(If::Gt, R1, R2, ancient);
    a.jump(If::Eq, R1, R2, held);
    a.store(D, R3, 0, R2);
    a.store_imm(D, R3, 8, 0);
    a.place(held);
    a.load(D, R1, R3, 8);
    a.mov(R5, R1);
    a.alu(Alu::And, R5, R4);
    a.jump_imm(If::Ne, R5, 0, duplicate);
    a.alu(Alu::Or, R1, R4);
    a.store(D, R3, 8, R1);
    a.bump(R6, flow::REORDERED, 1, R1);
    a.bump(R6, flow::DISTINCT, 1, R1);
    a.load(D, R1, R6, flow::BASE);
    a.jump(If::Le, R1, R7, done);
    a.store(D, R6, flow::BASE, R7);
    a.goto(done);
    a.place(duplicate);
    a.bump(R6, flow::DUPLICATES, 1, R1);
    a.goto(done);
    a.place(ancient);
    a.bump(R6, flow::ANCIENT, 1, R1);
    a.goto(done);

    a.place(untracked);
    a.mov_value(R2, maps.totals);
    a.mov_imm(R1, 1);
    a.atomic_add(R2, totals::UNTRACKED, R1);
    a.atomic_add(R2, totals::UNTRACKED_BYTES, R9);
    a.place(done);
    a.end(Verdict::Drop);

    a.place(foreign);
    a.mov_value(R2, maps.totals);
    a.mov_imm(R1, 1);
    a.atomic_add(R2, totals::FOREIGN, R1);
    a.end(Verdict::Pass);
    asm
}

/// R7 and R8 become the body of the frame's probe, R9 the frame's length; or on to `foreign`.
fn find_probe(a: &mut Asm, udp_port: u16, foreign: Label) {
    use Reg::*;
    use Width::{B, D, H, W};
    let be = |n: u16| i32::from(n.to_be());
    let (ipv4, ipv6, udp, probe) = (a.label(), a.label(), a.label(), a.label());
    // R2: the frame; R3: its end; R4: the end of the headers seen so far. `reach` takes a step that
    // must end within the frame.
    a.load(W, R2, R1, context::DATA);
    a.load(W, R3, R1, context::DATA_END);
    a.mov(R9, R3);
    a.alu(Alu::Sub, R9, R2);
    let reach = |a: &mut Asm, to: Reg, from: Reg, bytes: i32| {
        a.mov(to, from);
        a.alu_imm(Alu::Add, to, bytes);
        a.jump(If::Gt, to, R3, foreign);
    };
    reach(a, R4, R2, 14);
    a.load(H, R5, R2, 12);
    let untagged = a.label();
    for _ in 0..2 {
        let tagged = a.label();
        a.jump_imm(If::Eq, R5, be(0x8100), tagged);
        a.jump_imm(If::Ne, R5, be(0x88A8), untagged);
        a.place(tagged);
        reach(a, R0, R4, 4);
        a.load(H, R5, R4, 2);
        a.mov(R4, R0);
    }
    a.place(untagged);
    a.jump_imm(If::Eq, R5, be(0x0800), ipv4);
    a.jump_imm(If::Eq, R5, be(0x86DD), ipv6);
    a.jump_imm(If::Eq, R5, be(PROBE_ETHERTYPE), probe);
    a.goto(foreign);

    a.place(ipv4);
    reach(a, R0, R4, 20);
    a.load(B, R1, R4, 0);
    a.mov(R5, R1);
    a.alu_imm(Alu::Rsh, R5, 4);
    a.jump_imm(If::Ne, R5, 4, foreign);
    a.load(B, R5, R4, 9);
    a.jump_imm(If::Ne, R5, 17, foreign);
    a.load(H, R5, R4, 6);
    // More-fragments and offset.
    a.alu_imm(Alu::And, R5, be(0x3FFF));
    a.jump_imm(If::Ne, R5, 0, foreign);
    a.alu_imm(Alu::And, R1, 15);
    a.alu_imm(Alu::Lsh, R1, 2);
    a.alu(Alu::Add, R4, R1);
    a.goto(udp);

    a.place(ipv6);
    reach(a, R0, R4, 40);
    a.load(B, R5, R4, 0);
    a.alu_imm(Alu::Rsh, R5, 4);
    a.jump_imm(If::Ne, R5, 6, foreign);
    a.load(B, R5, R4, 6);
    a.jump_imm(If::Ne, R5, 17, foreign);
    a.mov(R4, R0);

    a.place(udp);
    reach(a, R0, R4, 8);
    a.load(H, R5, R4, 2);
    a.jump_imm(If::Ne, R5, be(udp_port), foreign);
    a.mov(R4, R0);

    a.place(probe);
    reach(a, R0, R4, PROBE_LEN as i32);
    a.load(H, R6, R4, 0);
    a.load(D, R7, R4, 2);
    a.load(D, R8, R4, 10);
    a.swap_be(R6, 16);
    a.swap_be(R7, 64);
    a.swap_be(R8, 64);
    emit_mark(a, R7, R8, R0, [R1, R2]);
    a.jump(If::Ne, R0, R6, foreign);
}

/// Counts the latency of a probe that was sent at R8 and arrives at R0. R0 to R5 are lost.
fn record_latency(a: &mut Asm, maps: &Maps<'_>) {
    use Reg::*;
    let (done, other_clock, bounded) = (a.label(), a.label(), a.label());
    a.mov(R1, R0);
    a.alu(Alu::Sub, R1, R8);
    emit_cut(a, R1, 56);
    a.mov_u64(R2, ((1 << 56) - 1) / 2);
    a.jump(If::Gt, R1, R2, other_clock);
    a.mov_u64(R2, (1 << LATENCY_BITS) - 1);
    a.jump(If::Le, R1, R2, bounded);
    a.mov(R1, R2);
    a.place(bounded);
    // The shift that brings it below 2,048, bit by bit of the shift.
    a.mov_imm(R3, 0);
    for shift in [16, 8, 4, 2, 1] {
        let small = a.label();
        a.mov_u64(R2, 1 << (10 + shift));
        a.jump(If::Lt, R1, R2, small);
        a.alu_imm(Alu::Rsh, R1, shift);
        a.alu_imm(Alu::Add, R3, shift << 10);
        a.place(small);
    }
    a.alu(Alu::Add, R1, R3);
    a.jump_imm(If::Gt, R1, BUCKETS as i32 - 1, done);
    a.alu_imm(Alu::Lsh, R1, 3);
    a.mov_value(R2, maps.histogram);
    a.alu(Alu::Add, R2, R1);
    a.mov_imm(R3, 1);
    a.atomic_add(R2, 0, R3);
    a.goto(done);
    a.place(other_clock);
    a.bump(R6, flow::CLOCK_ERRORS, 1, R1);
    a.place(done);
}

/// Sets R3 to the slot for the sequence number R7 in the flow's value R6, R2 to the block of 64
/// that it has to hold, R1 to the one that it holds, R4 to the number's bit. R5 is overwritten.
fn find_slot(a: &mut Asm) {
    use Reg::*;
    a.mov(R2, R7);
    a.alu_imm(Alu::Rsh, R2, 6);
    a.mov(R3, R2);
    a.alu_imm(Alu::And, R3, i32::from(SLOTS) - 1);
    a.alu_imm(Alu::Lsh, R3, 4);
    a.alu(Alu::Add, R3, R6);
    a.alu_imm(Alu::Add, R3, i32::from(flow::WINDOW));
    a.load(Width::D, R1, R3, 0);
    a.mov(R5, R7);
    a.alu_imm(Alu::And, R5, 63);
    a.mov_imm(R4, 1);
    a.alu(Alu::Lsh, R4, R5);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A latency's bucket, as the program computes it.
    fn bucket(ns: u64) -> usize {
        let (mut value, mut number) = (ns.min((1 << LATENCY_BITS) - 1), 0);
        for shift in [16, 8, 4, 2, 1] {
            if value >= 1 << (10 + shift) {
                value >>= shift;
                number += shift << 10;
            }
        }
        number + value as usize
    }

    #[test]
    fn buckets_are_those_of_the_histogram() {
        let mut values: Vec<u64> = (0..5_000).collect();
        values.extend((11..41).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]));
        let reference = Histogram::<u64>::new_with_max(1 << 42, 3).unwrap();
        for ns in values {
            let lowest = lowest_of(bucket(ns));
            assert_eq!(lowest, reference.lowest_equivalent(ns), "{ns}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn bucket_counts_give_the_same_percentiles() {
        let values = (0..10_000_u64).map(|n| n * n % 777_777);
        let mut buckets = vec![0; BUCKETS];
        let mut exact = Histogram::<u64>::new(3).unwrap();
        for ns in values {
            buckets[bucket(ns)] += 1;
            exact.record(ns).unwrap();
        }
        let counted = histogram(buckets.into_iter()).unwrap();
        for quantile in [0.5, 0.9, 0.99, 0.999, 1.0] {
            assert_eq!(counted.value_at_quantile(quantile), exact.value_at_quantile(quantile));
        }
        assert_eq!((counted.min(), counted.max()), (exact.min(), exact.max()));
    }
}
