//! Generator and meter inside the kernel: XDP programs that write and read probes themselves, for
//! cases where a port's system calls would be slower than the device under test.

/// Names of 64-bit words one after another, each with its offset in bytes.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Word { $($name,)* }
        $($(#[$doc])* pub(super) const $name: i16 = 8 * Word::$name as i16;)*
    };
}

mod generator;
mod meter;
mod plan;

use plexus_io::bpf::{Alu, Asm, If, Reg, Width};

pub use generator::{XdpCounted, XdpGenerator, XdpSent};
pub use meter::XdpMeter;
pub use plan::{TEMPLATES_MAX, XdpPlanError};

use crate::probe::PROBE_SUM;

/// `out` becomes the mark of the probe body that `high` and `low` hold, as `probe::mark` computes
/// it. The scratch registers are lost.
fn emit_mark(asm: &mut Asm, high: Reg, low: Reg, out: Reg, scratch: [Reg; 2]) {
    let [part, carry] = scratch;
    let (no_carry, reduced) = (asm.label(), asm.label());
    asm.mov_imm(carry, 0);
    asm.mov(out, high);
    asm.alu(Alu::Add, out, low);
    asm.jump(If::Ge, out, high, no_carry);
    asm.mov_imm(carry, 1);
    asm.place(no_carry);
    // Halves, then three folds: at most 2^33, 2^18, 0x10004, and 0xFFFF at last.
    asm.mov(part, out);
    asm.alu_imm(Alu::Rsh, part, 32);
    asm.alu_imm(Alu::Lsh, out, 32);
    asm.alu_imm(Alu::Rsh, out, 32);
    asm.alu(Alu::Add, out, part);
    asm.alu(Alu::Add, out, carry);
    for _ in 0..3 {
        asm.mov(part, out);
        asm.alu_imm(Alu::Rsh, part, 16);
        asm.alu_imm(Alu::And, out, 0xFFFF);
        asm.alu(Alu::Add, out, part);
    }
    asm.mov(part, out);
    asm.mov_imm(out, i32::from(PROBE_SUM) + 0xFFFF);
    asm.alu(Alu::Sub, out, part);
    asm.jump_imm(If::Lt, out, 0xFFFF, reduced);
    asm.alu_imm(Alu::Sub, out, 0xFFFF);
    asm.place(reduced);
}

/// Cuts a register to its lowest `bits`.
fn emit_cut(asm: &mut Asm, reg: Reg, bits: i32) {
    asm.alu_imm(Alu::Lsh, reg, 64 - bits);
    asm.alu_imm(Alu::Rsh, reg, 64 - bits);
}

/// `*(to + offset) += add`, 64 bits; the sum is in `sum` as well.
fn emit_sum(asm: &mut Asm, to: Reg, offset: i16, add: Reg, sum: Reg) {
    asm.load(Width::D, sum, to, offset);
    asm.alu(Alu::Add, sum, add);
    asm.store(Width::D, to, offset, sum);
}
