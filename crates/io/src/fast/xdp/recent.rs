//! Rules of flows that programs have found lately, which spare most frames the look-up in the
//! kernel's hash table.
//!
//! Each processor has its own places for them, where no two programs run at once. A place holds a
//! rule as long as no rule of the table changes: programs read the number of changes *before* they
//! look a rule up, and use what they keep while that is the current number.

use std::io;

use super::super::kernel::program::{KEY_LEN, Maps, at, find_rule, point_at_rule};
use crate::bpf::{Alu, Asm, If, Label, Map, Reg, Width};
use crate::secret;

/// Places of a processor, a power of two.
const PLACES: usize = 256;

/// Words of a place: the number of changes, the key, the rule, and one that orders what is read.
mod word {
    pub(super) const CHANGES: usize = 0;
    pub(super) const KEY: usize = 1;
    pub(super) const RULE: usize = 4;
    pub(super) const BARRIER: usize = 6;
    /// A cache line.
    pub(super) const COUNT: usize = 8;
}

const WORDS: usize = KEY_LEN / 8;

/// The places of all processors.
#[derive(Debug)]
pub(super) struct Recent {
    places: Map,
    /// A program multiplies each word of a key by one of these. The upper bits of the sum number
    /// the place. The factors are odd, and secret: no host knows which addresses share a place.
    factors: [u64; WORDS],
}

impl Recent {
    /// All places are empty.
    pub(super) fn new() -> io::Result<Recent> {
        let mut factors = [0; WORDS];
        for factor in &mut factors {
            *factor = u64::from_ne_bytes(secret::random()?) | 1;
        }
        let places = Map::per_processor((PLACES * word::COUNT) as u32)?;
        Ok(Recent { places, factors })
    }
}

/// Loads a rule into R8 and R9. Its key stands on the stack and in R3 to R5.
pub(super) fn find_recent(asm: &mut Asm, maps: &Maps, recent: &Recent, key: i16, absent: Label) {
    let (no_places, look_up, found) = (asm.label(), asm.label(), asm.label());
    asm.mov_imm(Reg::R8, 0);
    for (factor, word) in recent.factors.into_iter().zip([Reg::R3, Reg::R4, Reg::R5]) {
        asm.mov_u64(Reg::R1, factor);
        asm.alu(Alu::Mul, Reg::R1, word);
        asm.alu(Alu::Add, Reg::R8, Reg::R1);
    }
    asm.alu_imm(Alu::Rsh, Reg::R8, 64 - PLACES.ilog2() as i32);
    asm.alu_imm(Alu::Mul, Reg::R8, word::COUNT as i32 * 8);
    asm.lookup_own(&recent.places, no_places);
    asm.alu(Alu::Add, Reg::R0, Reg::R8);
    asm.mov_value(Reg::R1, &maps.changes);
    asm.load(Width::D, Reg::R9, Reg::R1, 0);
    asm.load(Width::D, Reg::R1, Reg::R0, at(word::CHANGES));
    asm.jump(If::Ne, Reg::R1, Reg::R9, look_up);
    for n in 0..WORDS {
        asm.load(Width::D, Reg::R1, Reg::R0, at(word::KEY + n));
        asm.load(Width::D, Reg::R2, Reg::R10, key + at(n));
        asm.jump(If::Ne, Reg::R1, Reg::R2, look_up);
    }
    asm.load(Width::D, Reg::R8, Reg::R0, at(word::RULE));
    asm.load(Width::D, Reg::R9, Reg::R0, at(word::RULE + 1));
    asm.goto(found);

    asm.place(no_places);
    find_rule(asm, &maps.rules, key, absent);
    asm.goto(found);

    asm.place(look_up);
    // Some processors would read the number of changes after the rule.
    asm.mov_imm(Reg::R1, 0);
    asm.atomic_add_behind(Reg::R0, at(word::BARRIER), Reg::R1);
    asm.mov(Reg::R8, Reg::R0);
    point_at_rule(asm, &maps.rules, key, absent);
    asm.store(Width::D, Reg::R8, at(word::CHANGES), Reg::R9);
    for n in 0..WORDS {
        asm.load(Width::D, Reg::R1, Reg::R10, key + at(n));
        asm.store(Width::D, Reg::R8, at(word::KEY + n), Reg::R1);
    }
    asm.load(Width::D, Reg::R1, Reg::R0, 0);
    asm.load(Width::D, Reg::R9, Reg::R0, 8);
    asm.store(Width::D, Reg::R8, at(word::RULE), Reg::R1);
    asm.store(Width::D, Reg::R8, at(word::RULE + 1), Reg::R9);
    asm.mov(Reg::R8, Reg::R1);
    asm.place(found);
}
