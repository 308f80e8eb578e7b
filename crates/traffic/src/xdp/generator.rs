//! The generator in the kernel: a program that sends templates in rotation when they are due, each
//! with its flow's next sequence number and the time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plexus_io::bpf::{self, Alu, Asm, Helper, If, Map, Program, Reg, Target, Verdict, Width};
use rustix::io::Errno;

use super::plan::{
    FLOW, FRAME, FRAME_AT_MAX, GAP, LEN, MARK, Plan, RECORD, REMAINDER, XdpPlanError,
};
use super::{emit_cut, emit_mark, emit_sum};
use crate::generator::{GeneratorConfig, LATE_NS, Sent};
use crate::sizes::FCS;

/// Frames between two looks at what else the processor has to do. A paced frame waits until as many
/// runs of the program are over, some 25 ns each where nothing is due.
const BATCH_MAX: u32 = 64;
const BATCH_PACED: u32 = 32;

/// Offsets in the state that program and process share.
mod state {
    words! {
        /// Set by the program when it has finished, or by us.
        DONE
        BEGAN DUE REMAINDER PACKETS BYTES LATE LAG_MAX
        /// The next template.
        NEXT
        /// When the last packet was sent, or when the end was seen.
        LAST
        /// Runs in which the kernel refused something unexpectedly.
        FAILED
        DURATION COUNT
    }
    pub(super) const WORDS: usize = COUNT as usize / 8 + 1;
}

/// Counters of the generator in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpSent {
    /// Packets passed to the device.
    pub sent: Sent,
    /// How long it took.
    pub elapsed: Duration,
    /// The device's own counters meanwhile; `None` if it has gone, and they with it.
    pub counted: Option<XdpCounted>,
}

/// A device's own counters, of all packets that passed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpCounted {
    /// Packets sent.
    pub carried: u64,
    /// Packets dropped instead: on veth, those for which the far end had no room.
    pub dropped: u64,
}

/// A stream of test packets that the kernel sends.
pub struct XdpGenerator {
    target: Target,
    program: Program,
    state: Map,
    /// Each flow's next sequence number.
    flows: Map,
    /// The initial contents of the kernel's pages.
    page: Vec<u8>,
    batch: u32,
}

impl XdpGenerator {
    /// Prepares to send from a device of the calling thread's network namespace, for this long.
    ///
    /// # Errors
    /// When the kernel cannot send this, the device is missing or does not carry such
    /// frames, or the process lacks the rights for BPF (CAP_BPF and CAP_NET_ADMIN, root).
    pub fn open(
        config: &GeneratorConfig,
        device: &str,
        duration: Option<Duration>,
    ) -> Result<XdpGenerator, XdpPlanError> {
        let target = Target::find(device)?;
        let plan = Plan::new(config)?;
        if plan.len.1 > target.max_frame() {
            let what = format!(
                "frames of {} bytes by a device that carries {}",
                plan.len.1 + FCS,
                target.max_frame() + FCS
            );
            return Err(XdpPlanError::Unable { what });
        }
        let refused = |e| XdpPlanError::Open(bpf::refused(device, "making a BPF map", e));
        let state = Map::array(state::WORDS, 1).map_err(refused)?;
        let flows = Map::array(1, plan.flows).map_err(refused)?;
        let templates = Map::array(RECORD, plan.records.len()).map_err(refused)?;
        let zeroes = Map::array((plan.len.1 - plan.head).div_ceil(8).max(1), 1).map_err(refused)?;
        for (word, value) in templates.words().iter().zip(plan.records.iter().flatten()) {
            word.store(*value, Ordering::Relaxed);
        }
        let duration = duration.map_or(i64::MAX as u64, |d| d.as_nanos().min(1 << 62) as u64);
        word(&state, state::DURATION).store(duration, Ordering::Relaxed);
        word(&state, state::COUNT).store(config.count.unwrap_or(u64::MAX), Ordering::Relaxed);
        let maps = Maps { state: &state, flows: &flows, templates: &templates, zeroes: &zeroes };
        let program = Program::load("plexus_gen", assemble(&plan, &maps, target.index()))
            .map_err(|e| bpf::refused(device, "loading the XDP program", e))?;
        let batch = if plan.per_s.is_some() { BATCH_PACED } else { BATCH_MAX };
        Ok(XdpGenerator { target, program, state, flows, page: vec![0; plan.len.1], batch })
    }

    /// Sends until the count or time is over or `enough` returns true; it is called every 5 ms with
    /// the packets sent so far.
    ///
    /// # Errors
    /// Of BPF_PROG_RUN, which supports live frames since Linux 5.18.
    pub fn run(&mut self, mut enough: impl FnMut(Sent) -> bool) -> Result<XdpSent, XdpPlanError> {
        let failed =
            |e| bpf::refused(self.target.name(), "running the XDP program (Linux 5.18)", e);
        let before = self.target.sent_and_dropped().map_err(failed)?;
        let done = word(&self.state, state::DONE);
        let result = self.program.run_live(&self.page, self.batch, || {
            if enough(self.sent()) {
                done.store(1, Ordering::Relaxed);
            }
            done.load(Ordering::Relaxed) != 0
        });
        result.map_err(failed)?;
        let counted = match self.target.sent_and_dropped() {
            Err(e) if e.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => None,
            after => {
                let (carried, dropped) = after.map_err(failed)?;
                let (carried, dropped) =
                    (carried.wrapping_sub(before.0), dropped.wrapping_sub(before.1));
                Some(XdpCounted { carried, dropped })
            }
        };
        let read = |at| word(&self.state, at).load(Ordering::Relaxed);
        if read(state::FAILED) > 0 {
            let error = std::io::Error::other("the kernel let the program write no frame");
            return Err(failed(error).into());
        }
        Ok(XdpSent {
            sent: self.sent(),
            elapsed: Duration::from_nanos(read(state::LAST).saturating_sub(read(state::BEGAN))),
            counted,
        })
    }

    /// Packets passed to the device so far.
    pub fn sent(&self) -> Sent {
        let read = |at| word(&self.state, at).load(Ordering::Relaxed);
        Sent {
            packets: read(state::PACKETS),
            bytes: read(state::BYTES),
            late: read(state::LATE),
            lag_ns_max: read(state::LAG_MAX),
            starved: 0,
        }
    }

    /// How many packets each flow has sent, in the order of their numbers.
    pub fn sent_per_flow(&self) -> impl Iterator<Item = u64> + '_ {
        self.flows.words().iter().map(|w| w.load(Ordering::Relaxed))
    }
}

fn word(map: &Map, at: i16) -> &AtomicU64 {
    &map.words()[at as usize / 8]
}

struct Maps<'a> {
    state: &'a Map,
    flows: &'a Map,
    templates: &'a Map,
    zeroes: &'a Map,
}

/// The program. R6 is the context, R7 the state, R8 the time, R9 the template.
fn assemble(plan: &Plan, maps: &Maps<'_>, interface: u32) -> Asm {
    use Reg::*;
    use Width::{D, W};
    let mut asm = Asm::new();
    let a = &mut asm;
    let (idle, over, failed) = (a.label(), a.label(), a.label());
    a.mov(R6, R1);
    a.mov_value(R7, maps.state);
    a.load(D, R1, R7, state::DONE);
    a.jump_imm(If::Ne, R1, 0, idle);
    a.call(Helper::KtimeNs);
    a.mov(R8, R0);

    let begun = a.label();
    a.load(D, R1, R7, state::BEGAN);
    a.jump_imm(If::Ne, R1, 0, begun);
    a.store(D, R7, state::BEGAN, R8);
    a.store(D, R7, state::DUE, R8);
    a.mov(R1, R8);
    a.place(begun);
    // Signed: the clock of another processor may be some nanoseconds behind.
    a.mov(R2, R8);
    a.alu(Alu::Sub, R2, R1);
    a.load(D, R3, R7, state::DURATION);
    a.jump(If::SGe, R2, R3, over);
    a.load(D, R1, R7, state::PACKETS);
    a.load(D, R3, R7, state::COUNT);
    a.jump(If::Ge, R1, R3, over);

    if plan.per_s.is_some() {
        wait_until_due(a, idle);
    }
    next_template(a, plan, maps, failed);
    if let Some(per_s) = plan.per_s {
        advance(a, per_s);
    }
    write_probe(a, maps, failed);
    write_frame(a, plan, maps, failed);

    a.bump(R7, state::PACKETS, 1, R1);
    a.load(W, R1, R9, LEN);
    a.alu_imm(Alu::Add, R1, FCS as i32);
    emit_sum(a, R7, state::BYTES, R1, R2);
    a.store(D, R7, state::LAST, R8);
    a.mov_imm(R1, interface as i32);
    a.mov_imm(R2, 0);
    a.call(Helper::Redirect);
    a.exit();

    a.place(failed);
    a.bump(R7, state::FAILED, 1, R1);
    a.place(over);
    a.store_imm(D, R7, state::DONE, 1);
    a.store(D, R7, state::LAST, R8);
    a.place(idle);
    a.end(Verdict::Drop);
    asm
}

/// Continues if a packet is due, and records how late it is.
fn wait_until_due(a: &mut Asm, idle: bpf::Label) {
    use Reg::*;
    let (usual, punctual) = (a.label(), a.label());
    a.load(Width::D, R1, R7, state::DUE);
    a.jump(If::Gt, R1, R8, idle);
    a.mov(R2, R8);
    a.alu(Alu::Sub, R2, R1);
    a.load(Width::D, R3, R7, state::LAG_MAX);
    a.jump(If::Ge, R3, R2, usual);
    a.store(Width::D, R7, state::LAG_MAX, R2);
    a.place(usual);
    a.jump_imm(If::Le, R2, LATE_NS as i32, punctual);
    a.bump(R7, state::LATE, 1, R3);
    a.place(punctual);
}

/// Sets R9 to the next template in rotation.
fn next_template(a: &mut Asm, plan: &Plan, maps: &Maps<'_>, failed: bpf::Label) {
    use Reg::*;
    let same_round = a.label();
    a.load(Width::D, R3, R7, state::NEXT);
    a.mov(R1, R3);
    a.alu_imm(Alu::Add, R1, 1);
    a.jump_imm(If::Lt, R1, plan.records.len() as i32, same_round);
    a.mov_imm(R1, 0);
    a.place(same_round);
    a.store(Width::D, R7, state::NEXT, R1);
    a.lookup(maps.templates, R3, failed);
    a.mov(R9, R0);
}

/// When the next one is due, as `Schedule::step` computes it.
fn advance(a: &mut Asm, per_s: u64) {
    use Reg::*;
    let whole = a.label();
    a.load(Width::D, R1, R7, state::DUE);
    a.load(Width::D, R2, R9, GAP);
    a.alu(Alu::Add, R1, R2);
    a.load(Width::D, R2, R7, state::REMAINDER);
    a.load(Width::D, R3, R9, REMAINDER);
    a.alu(Alu::Add, R2, R3);
    a.mov_u64(R3, per_s);
    a.jump(If::Lt, R2, R3, whole);
    a.alu(Alu::Sub, R2, R3);
    a.alu_imm(Alu::Add, R1, 1);
    a.place(whole);
    a.store(Width::D, R7, state::REMAINDER, R2);
    a.store(Width::D, R7, state::DUE, R1);
}

/// Puts the probe into the template: the flow's next number, and the time.
fn write_probe(a: &mut Asm, maps: &Maps<'_>, failed: bpf::Label) {
    use Reg::*;
    a.load(Width::W, R3, R9, FLOW);
    a.lookup(maps.flows, R3, failed);
    a.load(Width::D, R1, R0, 0);
    a.mov(R2, R1);
    a.alu_imm(Alu::Add, R2, 1);
    a.store(Width::D, R0, 0, R2);
    emit_cut(a, R1, 48);
    // Flow 24 bits and the upper 40 of the sequence number; its lower 8 and 56 of the time.
    a.load(Width::W, R2, R9, FLOW);
    a.alu_imm(Alu::Lsh, R2, 40);
    a.mov(R3, R1);
    a.alu_imm(Alu::Rsh, R3, 8);
    a.alu(Alu::Or, R2, R3);
    a.alu_imm(Alu::Lsh, R1, 56);
    a.mov(R3, R8);
    emit_cut(a, R3, 56);
    a.alu(Alu::Or, R1, R3);
    emit_mark(a, R2, R1, R3, [R4, R5]);
    a.swap_be(R3, 16);
    a.store(Width::H, R9, MARK, R3);
    a.swap_be(R2, 64);
    a.store(Width::D, R9, MARK + 2, R2);
    a.swap_be(R1, 64);
    a.store(Width::D, R9, MARK + 10, R1);
}

/// Writes the whole frame, because the page may have any contents.
fn write_frame(a: &mut Asm, plan: &Plan, maps: &Maps<'_>, failed: bpf::Label) {
    use Reg::*;
    let (min, max) = plan.len;
    a.load(Width::W, R4, R9, FRAME);
    a.jump_imm(If::Gt, R4, FRAME_AT_MAX, failed);
    a.mov(R3, R9);
    a.alu(Alu::Add, R3, R4);
    a.mov(R1, R6);
    a.mov_imm(R2, 0);
    a.mov_imm(R4, plan.head as i32);
    a.call(Helper::StoreBytes);
    a.jump_imm(If::Ne, R0, 0, failed);
    if max > plan.head {
        let full = a.label();
        a.load(Width::W, R4, R9, LEN);
        a.alu_imm(Alu::Sub, R4, plan.head as i32);
        // Bounds that older verifiers understand, too.
        a.jump_imm(If::SGt, R4, (max - plan.head) as i32, failed);
        a.jump_imm(If::Lt, R4, 1, full);
        a.jump_imm(If::Gt, R4, (max - plan.head) as i32, failed);
        a.mov(R1, R6);
        a.mov_imm(R2, plan.head as i32);
        a.mov_value(R3, maps.zeroes);
        a.call(Helper::StoreBytes);
        a.jump_imm(If::Ne, R0, 0, failed);
        a.place(full);
    }
    if min < max {
        let longest = a.label();
        a.load(Width::W, R2, R9, LEN);
        a.alu_imm(Alu::Sub, R2, max as i32);
        a.jump_imm(If::Eq, R2, 0, longest);
        a.mov(R1, R6);
        a.call(Helper::AdjustTail);
        a.jump_imm(If::Ne, R0, 0, failed);
        a.place(longest);
    }
}
