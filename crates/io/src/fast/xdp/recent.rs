//! Rules that a port's program has found lately, so that most frames need no look-up in the
//! kernel's hash table, which takes longer than the rest of the program.
//!
//! The port's first receive queue has these places: its frames come one after the other. A place
//! holds a rule as long as no rule of the table has changed since it was looked up. Then the
//! number of changes that was read *before* the look-up is still the current one.

use std::io;

use super::super::kernel::program::{KEY_LEN, Maps, at, find_rule};
use crate::bpf::{Alu, Asm, Helper, If, Label, Map, Reg, Width, context};
use crate::secret;

/// Places of a port, a power of two.
const PLACES: usize = 256;
/// Words of a place: the number of changes, the key and the rule.
mod word {
    pub(super) const CHANGES: usize = 0;
    pub(super) const KEY: usize = 1;
    pub(super) const RULE: usize = 4;
    /// A cache line.
    pub(super) const COUNT: usize = 8;
}

/// The places of one port.
pub(super) struct Recent {
    places: Map,
    /// Times these, the two words of a flow's addresses give a sum whose upper bits are its place.
    /// They are odd, and secret: no host can choose addresses that share another's place.
    factors: [u64; 2],
}

impl Recent {
    /// All places are empty.
    pub(super) fn new() -> io::Result<Recent> {
        let random = [secret::random()?, secret::random()?];
        let factors = random.map(|bytes| u64::from_ne_bytes(bytes) | 1);
        Ok(Recent { places: Map::array(word::COUNT, PLACES)?, factors })
    }
}

/// The rule whose key stands on the stack, and in R3 to R5, in R8 and R9.
pub(super) fn find_recent(asm: &mut Asm, maps: &Maps, recent: &Recent, key: i16, absent: Label) {
    let (elsewhere, look_up, found) = (asm.label(), asm.label(), asm.label());
    asm.load(Width::W, Reg::R1, Reg::R6, context::RX_QUEUE_INDEX);
    asm.jump_imm(If::Ne, Reg::R1, 0, elsewhere);
    let [first, second] = recent.factors;
    for (to, factor, word) in [(Reg::R1, first, Reg::R4), (Reg::R2, second, Reg::R5)] {
        asm.mov_u64(to, factor);
        asm.alu(Alu::Mul, to, word);
    }
    asm.alu(Alu::Add, Reg::R1, Reg::R2);
    asm.alu_imm(Alu::Rsh, Reg::R1, 64 - PLACES.ilog2() as i32);
    asm.lookup(&recent.places, Reg::R1, elsewhere);
    asm.mov_value(Reg::R2, &maps.changes);
    asm.load(Width::D, Reg::R1, Reg::R2, 0);
    for (word, wanted) in [Reg::R1, Reg::R3, Reg::R4, Reg::R5].into_iter().enumerate() {
        asm.load(Width::D, Reg::R8, Reg::R0, at(word::CHANGES + word));
        asm.jump(If::Ne, Reg::R8, wanted, look_up);
    }
    asm.load(Width::D, Reg::R8, Reg::R0, at(word::RULE));
    asm.load(Width::D, Reg::R9, Reg::R0, at(word::RULE + 1));
    asm.goto(found);

    asm.place(elsewhere);
    find_rule(asm, &maps.rules, key, absent);
    asm.goto(found);

    asm.place(look_up);
    // Read atomically, since some processors would read a plain word after the rule.
    asm.mov_imm(Reg::R9, 0);
    asm.atomic_add_behind(Reg::R2, 0, Reg::R9);
    asm.mov(Reg::R8, Reg::R0);
    asm.mov(Reg::R2, Reg::R10);
    asm.alu_imm(Alu::Add, Reg::R2, key.into());
    asm.mov_map(Reg::R1, &maps.rules);
    asm.call(Helper::MapLookup);
    asm.jump_imm(If::Eq, Reg::R0, 0, absent);
    for n in 0..KEY_LEN / 8 {
        asm.load(Width::D, Reg::R1, Reg::R10, key + at(n));
        asm.store(Width::D, Reg::R8, at(word::KEY + n), Reg::R1);
    }
    asm.store(Width::D, Reg::R8, at(word::CHANGES), Reg::R9);
    asm.load(Width::D, Reg::R9, Reg::R0, 8);
    asm.store(Width::D, Reg::R8, at(word::RULE + 1), Reg::R9);
    asm.load(Width::D, Reg::R1, Reg::R0, 0);
    asm.store(Width::D, Reg::R8, at(word::RULE), Reg::R1);
    asm.mov(Reg::R8, Reg::R1);
    asm.place(found);
}
