//! The program at a port: it looks a frame's rule up and carries it out, or hands the frame to the
//! port's socket.
//!
//! ```text
//!                         rule, settled ──▶ changes the frame ──▶ out by another device
//! frame ──▶ key, look-up ─ rule, waits ───▶ the socket gets it, and the rule counts it
//!                         no rule ────────▶ the socket gets it
//! ```
//!
//! Frames with a tag have it in their bytes. So the program has two ways, one for these and one for
//! the others, in which all offsets are constants.

use super::super::kernel::Frame;
use super::super::kernel::program::{
    Maps, OUTER, TPID, at, carry_out, decide, redirect, scratch, stack, word,
};
use super::owed::pass_if_owed;
use super::recent::{Recent, find_recent};
use crate::af_xdp::PortProgram;
use crate::bpf::{Alu, Asm, Helper, If, Label, Map, Reg, Verdict, Width};

/// The frame's length, and the scratch.
const LEN: i16 = stack::END - 8;
const SCRATCH: i16 = LEN - 8 * scratch::COUNT as i16;

/// An Ethernet header with a tag.
const TAGGED: usize = OUTER + 4;

/// The port of a program, and what it works with.
pub(super) struct Site<'a> {
    pub(super) maps: &'a Maps,
    /// The [rules that it found lately](super::recent).
    pub(super) recent: &'a Recent,
    /// Where rules send frames, by port.
    pub(super) devices: &'a Map,
    /// The device's number.
    pub(super) device: u32,
    pub(super) port: &'a PortProgram,
}

/// The exits of the program.
#[derive(Clone, Copy)]
struct Exits {
    to_socket: Label,
    /// The same; the rule counts it, or holds it back.
    wait: Label,
    failed: Label,
}

/// The program of a port.
pub(super) fn at_port(site: &Site<'_>) -> Asm {
    let mut asm = Asm::new();
    let exits = Exits { to_socket: asm.label(), wait: asm.label(), failed: asm.label() };
    let (tagged, hold) = (asm.label(), asm.label());

    asm.mov(Reg::R6, Reg::R1);
    asm.mov(Reg::R7, Reg::R10);
    asm.alu_imm(Alu::Add, Reg::R7, SCRATCH.into());
    // Without CAP_PERFMON the verifier refuses to read what may never have been written.
    for note in [scratch::FIXED, scratch::HOPS] {
        asm.store_imm(Width::D, Reg::R7, at(note), 0);
    }
    asm.mov(Reg::R1, Reg::R6);
    asm.call(Helper::XdpLen);
    asm.store(Width::D, Reg::R10, LEN, Reg::R0);
    Frame::find_bytes(&mut asm, OUTER, exits.to_socket);
    asm.load(Width::H, Reg::R2, Reg::R1, 12);
    asm.jump_imm(If::Eq, Reg::R2, TPID.into(), tagged);
    forward(&mut asm, site, false, exits);
    asm.place(tagged);
    Frame::find_bytes(&mut asm, TAGGED, exits.to_socket);
    forward(&mut asm, site, true, exits);

    // R0 points at the rule's counts.
    asm.place(exits.wait);
    asm.load(Width::D, Reg::R1, Reg::R0, at(word::HOLDS));
    asm.jump_imm(If::Ne, Reg::R1, 0, hold);
    asm.mov(Reg::R7, Reg::R0);
    site.port.hand_over(&mut asm, |asm| {
        asm.mov_imm(Reg::R1, 1);
        // A mark that is set once this is seen is behind the frame.
        asm.atomic_add_behind(Reg::R7, at(word::PASSED), Reg::R1);
    });

    asm.place(hold);
    asm.mov_imm(Reg::R1, 1);
    asm.atomic_add(Reg::R0, at(word::HELD), Reg::R1);
    asm.end(Verdict::Drop);

    asm.place(exits.failed);
    asm.end(Verdict::Aborted);

    asm.place(exits.to_socket);
    site.port.hand_over(&mut asm, |_| {});
    asm
}

/// The way of frames with a tag, or without: R1 points at their Ethernet header.
fn forward(asm: &mut Asm, site: &Site<'_>, tagged: bool, exits: Exits) {
    let Site { maps, recent, devices, device, port } = *site;
    const KEY: i16 = stack::KEY;
    let frame = Frame::Memory { tagged, len: LEN };
    // The key is stored in three words: a load wider than the stores before it would wait for them.
    // First the device and the tag.
    asm.mov_imm(Reg::R3, device as i32);
    asm.mov_imm(Reg::R2, 0);
    if tagged {
        asm.load(Width::D, Reg::R2, Reg::R10, LEN);
        asm.alu_imm(Alu::Sub, Reg::R2, 4);
        asm.store(Width::D, Reg::R10, LEN, Reg::R2);
        asm.load(Width::H, Reg::R2, Reg::R1, OUTER as i16);
        asm.swap_be(Reg::R2, 16);
        asm.mov_imm(Reg::R4, i32::from(TPID));
        asm.alu_imm(Alu::Lsh, Reg::R4, 16);
        asm.alu(Alu::Or, Reg::R2, Reg::R4);
    }
    join(asm, Reg::R3, Reg::R2, 32);
    // Then the addresses and the EtherType.
    asm.load(Width::D, Reg::R4, Reg::R1, 0);
    asm.load(Width::W, Reg::R5, Reg::R1, 8);
    asm.load(Width::H, Reg::R2, Reg::R1, frame.offset(12) as i16);
    join(asm, Reg::R5, Reg::R2, 16);
    for (at, word) in [(0, Reg::R3), (8, Reg::R4), (16, Reg::R5)] {
        asm.store(Width::D, Reg::R10, KEY + at, word);
    }
    find_recent(asm, maps, recent, KEY, exits.to_socket);

    decide(asm, maps, frame, exits.to_socket, exits.wait);
    if port.is_virtual() {
        pass_if_owed(asm, frame, exits.wait);
    }
    carry_out(asm, maps, frame, exits.failed);
    asm.mov_map(Reg::R1, devices);
    asm.mov(Reg::R2, Reg::R8);
    asm.alu_imm(Alu::Rsh, Reg::R2, 32);
    asm.alu_imm(Alu::And, Reg::R2, 0xFFFF);
    asm.mov_imm(Reg::R3, Verdict::Aborted as i32);
    asm.call(Helper::RedirectMap);
    asm.exit();
}

/// Puts a value of so many bits behind the 32 bits of the first, as they would lie in memory. The
/// second is lost.
fn join(asm: &mut Asm, first: Reg, second: Reg, bits: i32) {
    if cfg!(target_endian = "little") {
        asm.alu_imm(Alu::Lsh, second, 32);
    } else {
        asm.alu_imm(Alu::Lsh, first, 32);
        asm.alu_imm(Alu::Lsh, second, 32 - bits);
    }
    asm.alu(Alu::Or, first, second);
}

/// Sends every frame out by a device, for comparisons.
pub(super) fn bare(to: u32) -> Asm {
    let mut asm = Asm::new();
    asm.mov_imm(Reg::R1, to as i32);
    redirect(&mut asm);
    asm
}
