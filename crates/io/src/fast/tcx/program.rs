//! The two programs of tcx. For each packet the kernel runs first the packet socket's filter, then
//! the device's program at the traffic-control hook, on one processor and with no other packet in
//! between.
//!
//! ```text
//!              filter                             at the hook
//! packet ──▶ looks the rule up ── decision ──▶ carries it out
//!              │      in the processor's scratch │
//!              ▼                                 ▼
//!   no rule: the socket gets it          out by another device
//! ```
//!
//! Only the filter can keep a packet from the socket, and only the program at the hook can send it
//! elsewhere. The filter looks up, so that both do the same whatever is changed in between.
//!
//! The filter also takes samples: of a packet that is to be forwarded it gives the socket the first
//! bytes. They are never all of its bytes. The kernel tells the socket both lengths, by which the
//! port knows a sample.
//!
//! A table that [persists](super::Persist) goes on when its process has ended, and the sockets with
//! it. Then no filter has run, and the program at the hook decides by itself, until a time that the
//! process kept moving on.
//!
//! A kernel with PREEMPT_RT may run another device's packet in between. Then the table is not to be
//! used.

use super::super::SAMPLE_MAX;
use super::super::kernel::Frame;
use super::super::kernel::program::{
    LOW_HALF, Maps, OUTER, at, carry_out, decide, find_counts, find_port, find_rule, holds,
    of_port, redirect, scratch, stack, word,
};
use crate::bpf::{Alu, Asm, Helper, If, Label, Map, Reg, Width, buffer};

/// Further words of the scratch: the device whose packet the filter has just given to its socket
/// without a decision, and the end of its port's time, kept over a call.
const SEEN: usize = scratch::COUNT;
const UNTIL: usize = scratch::COUNT + 1;
pub(super) const SCRATCH_WORDS: u32 = scratch::COUNT as u32 + 2;

mod decision {
    pub(super) const FORWARD: i32 = 1;
    pub(super) const PASS: i32 = 2;
    pub(super) const HOLD: i32 = 3;
}

/// `TCX_NEXT` and `TCX_DROP` (linux/bpf.h).
const NEXT: i32 = -1;
const DROP: i32 = 2;
/// As many bytes as there are, for the socket.
const WHOLE: i32 = -1;

/// R0 points at this processor's scratch.
fn find_scratch(asm: &mut Asm, scratch: &Map, absent: Label) {
    asm.lookup_own(scratch, absent);
}

/// Puts the key of a packet on the stack.
fn key_of_packet(asm: &mut Asm, absent: Label) {
    use stack::KEY;
    let untagged = asm.label();
    asm.load(Width::W, Reg::R1, Reg::R6, buffer::IFINDEX);
    asm.store(Width::W, Reg::R10, KEY, Reg::R1);
    asm.store(Width::D, Reg::R7, at(scratch::DEVICE), Reg::R1);
    asm.mov_imm(Reg::R1, 0);
    asm.store(Width::D, Reg::R10, KEY + 16, Reg::R1);
    asm.load(Width::W, Reg::R2, Reg::R6, buffer::VLAN_PRESENT);
    asm.jump_imm(If::Eq, Reg::R2, 0, untagged);
    asm.load(Width::W, Reg::R1, Reg::R6, buffer::VLAN_PROTO);
    asm.alu_imm(Alu::Lsh, Reg::R1, 16);
    asm.load(Width::W, Reg::R2, Reg::R6, buffer::VLAN_TCI);
    asm.alu(Alu::Or, Reg::R1, Reg::R2);
    asm.place(untagged);
    asm.store(Width::W, Reg::R10, KEY + 4, Reg::R1);
    Frame::Buffer.load_bytes(asm, 0, OUTER, KEY + 8, absent);
}

/// Before the packet socket: decides, and gives the socket what is not to be forwarded.
pub(super) fn filter(maps: &Maps, notes: &Map, persists: bool) -> Asm {
    let mut asm = Asm::new();
    let (to_socket, lost, without_notes) = (asm.label(), asm.label(), asm.label());
    let (wait, pass, hold) = (asm.label(), asm.label(), asm.label());
    let sampled = asm.label();

    asm.mov(Reg::R6, Reg::R1);
    find_scratch(&mut asm, notes, without_notes);
    asm.mov(Reg::R7, Reg::R0);
    asm.load(Width::D, Reg::R1, Reg::R7, at(scratch::DECISION));
    asm.jump_imm(If::Ne, Reg::R1, 0, lost);

    key_of_packet(&mut asm, to_socket);
    find_rule(&mut asm, &maps.rules, stack::KEY, to_socket);
    decide(&mut asm, maps, Frame::Buffer, to_socket, wait);
    asm.store_imm(Width::D, Reg::R7, at(scratch::DECISION), decision::FORWARD);
    asm.load(Width::D, Reg::R9, Reg::R7, at(scratch::SAMPLE));
    asm.jump_imm(If::Ne, Reg::R9, 0, sampled);
    asm.mov_imm(Reg::R0, 0);
    asm.exit();

    asm.place(wait);
    asm.load(Width::D, Reg::R1, Reg::R0, at(word::HOLDS));
    asm.jump_imm(If::Eq, Reg::R1, holds::ALL, hold);
    asm.jump_imm(If::Ne, Reg::R1, holds::SUPER_PACKETS, pass);
    asm.load(Width::W, Reg::R1, Reg::R6, buffer::GSO_SIZE);
    asm.jump_imm(If::Ne, Reg::R1, 0, hold);
    asm.place(pass);
    asm.store_imm(Width::D, Reg::R7, at(scratch::DECISION), decision::PASS);
    asm.mov_imm(Reg::R0, WHOLE);
    asm.exit();

    asm.place(hold);
    asm.store_imm(Width::D, Reg::R7, at(scratch::DECISION), decision::HOLD);
    asm.mov_imm(Reg::R0, 0);
    asm.exit();

    asm.place(sampled);
    take_sample(&mut asm, maps);

    // Nobody has carried out the decision before this one: the program at the hook of that port is
    // gone, or another there is before it. From now on the socket gets all of its packets.
    asm.place(lost);
    asm.store_imm(Width::D, Reg::R7, at(scratch::DECISION), 0);
    asm.load(Width::D, Reg::R8, Reg::R7, at(scratch::RULE));
    find_port(&mut asm, maps, 48, to_socket);
    asm.store_imm(Width::D, Reg::R0, at(of_port::IN), 0);

    asm.place(to_socket);
    if persists {
        asm.load(Width::W, Reg::R1, Reg::R6, buffer::IFINDEX);
        asm.store(Width::D, Reg::R7, at(SEEN), Reg::R1);
    }
    asm.place(without_notes);
    asm.mov_imm(Reg::R0, WHOLE);
    asm.exit();
    asm
}

/// Ends the filter for a packet that is to be forwarded: once in a while the socket gets its first
/// bytes. R8 is the rule's first word, R9 the port's `SAMPLE` word.
fn take_sample(asm: &mut Asm, maps: &Maps) {
    let (nothing, missed, short) = (asm.label(), asm.label(), asm.label());
    asm.call(Helper::RandomU32);
    asm.jump(If::Ge, Reg::R0, Reg::R9, nothing);
    find_port(asm, maps, 48, nothing);
    asm.load(Width::D, Reg::R1, Reg::R0, at(of_port::SAMPLED));
    asm.load(Width::D, Reg::R2, Reg::R0, at(of_port::SAMPLED_MAX));
    asm.mov_imm(Reg::R3, 1);
    asm.jump(If::Ge, Reg::R1, Reg::R2, missed);
    asm.atomic_add(Reg::R0, at(of_port::SAMPLED), Reg::R3);
    // As `sample_len` has it.
    asm.load(Width::W, Reg::R0, Reg::R6, buffer::LEN);
    asm.jump_imm(If::Le, Reg::R0, SAMPLE_MAX as i32, short);
    asm.mov_imm(Reg::R0, SAMPLE_MAX as i32 + 1);
    asm.place(short);
    asm.alu_imm(Alu::Sub, Reg::R0, 1);
    asm.exit();

    asm.place(missed);
    asm.atomic_add(Reg::R0, at(of_port::SAMPLES_MISSED), Reg::R3);
    asm.place(nothing);
    asm.mov_imm(Reg::R0, 0);
    asm.exit();
}

/// At the hook: carries the decision out. One that `persists` decides itself where no filter has
/// run.
pub(super) fn at_hook(maps: &Maps, notes: &Map, persists: bool) -> Asm {
    let mut asm = Asm::new();
    let (next, pass, hold, undecided) = (asm.label(), asm.label(), asm.label(), asm.label());
    let drop = asm.label();

    asm.mov(Reg::R6, Reg::R1);
    find_scratch(&mut asm, notes, next);
    asm.mov(Reg::R7, Reg::R0);
    asm.load(Width::D, Reg::R9, Reg::R7, at(scratch::DECISION));
    asm.jump_imm(If::Eq, Reg::R9, 0, undecided);
    // On a packet of another device: that one's program is gone. Its filter finds out.
    asm.load(Width::D, Reg::R1, Reg::R7, at(scratch::DEVICE));
    asm.load(Width::W, Reg::R2, Reg::R6, buffer::IFINDEX);
    asm.jump(If::Ne, Reg::R1, Reg::R2, next);
    asm.store_imm(Width::D, Reg::R7, at(scratch::DECISION), 0);
    asm.load(Width::D, Reg::R8, Reg::R7, at(scratch::RULE));
    find_counts(&mut asm, maps, next);
    asm.jump_imm(If::Eq, Reg::R9, decision::PASS, pass);
    asm.jump_imm(If::Eq, Reg::R9, decision::HOLD, hold);

    carry_out(&mut asm, maps, Frame::Buffer, drop);
    asm.load(Width::W, Reg::R1, Reg::R7, at(scratch::OUT) + LOW_HALF);
    redirect(&mut asm);

    asm.place(pass);
    asm.mov_imm(Reg::R1, 1);
    asm.atomic_add(Reg::R0, at(word::PASSED), Reg::R1);
    asm.goto(next);

    asm.place(hold);
    asm.mov_imm(Reg::R1, 1);
    asm.atomic_add(Reg::R0, at(word::HELD), Reg::R1);
    asm.goto(drop);

    asm.place(undecided);
    if persists {
        forward_alone(&mut asm, maps, next, drop);
    }

    asm.place(next);
    asm.mov_imm(Reg::R0, NEXT);
    asm.exit();
    asm.place(drop);
    asm.mov_imm(Reg::R0, DROP);
    asm.exit();
    asm
}

/// Forwards a packet that no filter has seen, if its port's time has not ended.
fn forward_alone(asm: &mut Asm, maps: &Maps, next: Label, drop: Label) {
    asm.load(Width::D, Reg::R1, Reg::R7, at(SEEN));
    asm.store_imm(Width::D, Reg::R7, at(SEEN), 0);
    asm.load(Width::W, Reg::R2, Reg::R6, buffer::IFINDEX);
    asm.jump(If::Eq, Reg::R1, Reg::R2, next);
    key_of_packet(asm, next);
    find_rule(asm, &maps.rules, stack::KEY, next);
    decide(asm, maps, Frame::Buffer, next, next);
    find_port(asm, maps, 48, next);
    asm.load(Width::D, Reg::R1, Reg::R0, at(of_port::UNTIL));
    asm.store(Width::D, Reg::R7, at(UNTIL), Reg::R1);
    asm.call(Helper::KtimeNs);
    asm.load(Width::D, Reg::R1, Reg::R7, at(UNTIL));
    asm.jump(If::Gt, Reg::R0, Reg::R1, next);
    find_counts(asm, maps, next);
    carry_out(asm, maps, Frame::Buffer, drop);
    asm.load(Width::W, Reg::R1, Reg::R7, at(scratch::OUT) + LOW_HALF);
    redirect(asm);
}

/// At the hook: sends every packet out by a device, for comparisons.
pub(super) fn bare(to: u32) -> Asm {
    let mut asm = Asm::new();
    asm.mov_imm(Reg::R1, to as i32);
    redirect(&mut asm);
    asm
}
