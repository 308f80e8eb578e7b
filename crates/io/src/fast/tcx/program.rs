//! The two programs of the fast table. For each packet the kernel runs first the packet socket's
//! filter, then the device's program at the traffic-control hook, on one processor and with no
//! other packet in between.
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

use super::super::{Action, Key, Tag};
use crate::bpf::{Alu, Asm, Helper, If, Label, Map, Reg, Width, buffer};
use crate::packet::PortId;

/// The maps of both programs.
#[derive(Debug)]
pub(super) struct Maps {
    /// Rules by [`key`].
    pub(super) rules: Map,
    /// By rule: [`word`].
    pub(super) counts: Map,
    /// By port: [`of_port`].
    pub(super) ports: Map,
    /// The decision on the packet at hand: [`scratch`].
    pub(super) scratch: Map,
}

/// Bytes of a rule's key, and words of its value.
pub(super) const KEY_LEN: usize = 24;
pub(super) const VALUE_WORDS: usize = 2;

/// Words of a rule's counts.
pub(super) mod word {
    pub(in super::super) const PACKETS: usize = 0;
    pub(in super::super) const BYTES: usize = 1;
    pub(in super::super) const PASSED: usize = 2;
    pub(in super::super) const SETTLED: usize = 3;
    pub(in super::super) const HOLDS: usize = 4;
    pub(in super::super) const HELD: usize = 5;
    /// A cache line.
    pub(in super::super) const COUNT: usize = 8;
}

/// Words of a port.
pub(super) mod of_port {
    /// Where its packets leave: the device's number, and above it the longest frame; zero if none
    /// may.
    pub(in super::super) const OUT: usize = 0;
    /// Whether its packets may be forwarded.
    pub(in super::super) const IN: usize = 1;
    /// How often it has been closed: rules to it from before are void.
    pub(in super::super) const CLOSED: usize = 2;
    pub(in super::super) const COUNT: usize = 3;
}

/// Words of the scratch.
mod scratch {
    /// What to do: nothing, or one of those of [`super::decision`].
    pub(super) const DECISION: usize = 0;
    /// The rule's value.
    pub(super) const RULE: usize = 1;
    pub(super) const TAG: usize = 2;
    /// Its port's first word.
    pub(super) const OUT: usize = 3;
    /// The device that the packet came in by.
    pub(super) const DEVICE: usize = 4;
    pub(super) const COUNT: usize = 5;
}

pub(super) const SCRATCH_WORDS: u32 = scratch::COUNT as u32;

mod decision {
    pub(super) const FORWARD: i32 = 1;
    pub(super) const PASS: i32 = 2;
    pub(super) const HOLD: i32 = 3;
}

/// What becomes of a tag: the lowest 16 bits of a rule's second word. The tag itself is above.
mod tag {
    pub(super) const POP: i32 = 1;
    pub(super) const PUSH: i32 = 2;
}

/// `TCX_NEXT` and `TCX_DROP` (linux/bpf.h).
const NEXT: i32 = -1;
const DROP: i32 = 2;
/// As many bytes as there are, for the socket.
const WHOLE: i32 = -1;
/// An 802.1Q tag's protocol, as 16 bits in network order.
const TPID: u16 = 0x8100u16.to_be();

/// A rule's key as the filter makes it: the device, the tag with its protocol, 14 bytes of header.
pub(super) fn key(device: u32, key: &Key) -> [u8; KEY_LEN] {
    let tag = key.tag.map_or(0, |tci| u32::from(TPID) << 16 | u32::from(tci));
    let mut bytes = [0; KEY_LEN];
    bytes[..4].copy_from_slice(&device.to_ne_bytes());
    bytes[4..8].copy_from_slice(&tag.to_ne_bytes());
    bytes[8..14].copy_from_slice(&key.destination.0);
    bytes[14..20].copy_from_slice(&key.source.0);
    bytes[20..22].copy_from_slice(&key.ethertype.to_be_bytes());
    bytes
}

/// A rule's value: its number and its ports; what becomes of the tag, and above it how often the
/// output port had been closed.
pub(super) fn value(
    number: u32,
    in_port: PortId,
    action: &Action,
    closed: u32,
) -> [u8; VALUE_WORDS * 8] {
    let ports = u64::from(action.out_port) << 32 | u64::from(in_port) << 48;
    let tag = match action.tag {
        Tag::Keep => 0,
        Tag::Pop => tag::POP as u64,
        Tag::Push(tci) => tag::PUSH as u64 | u64::from(tci) << 16,
    };
    let mut bytes = [0; VALUE_WORDS * 8];
    bytes[..8].copy_from_slice(&(ports | u64::from(number)).to_ne_bytes());
    bytes[8..].copy_from_slice(&(tag | u64::from(closed) << 32).to_ne_bytes());
    bytes
}

/// The offset of a word.
const fn at(word: usize) -> i16 {
    (word * 8) as i16
}

/// R0 points at this processor's scratch.
fn find_scratch(asm: &mut Asm, maps: &Maps, absent: Label) {
    asm.mov_imm(Reg::R1, 0);
    asm.lookup(&maps.scratch, Reg::R1, absent);
}

/// R0 points at the port whose number is 16 bits of R8.
fn find_port(asm: &mut Asm, maps: &Maps, shift: i32, absent: Label) {
    asm.mov(Reg::R1, Reg::R8);
    asm.alu_imm(Alu::Rsh, Reg::R1, shift);
    asm.alu_imm(Alu::And, Reg::R1, 0xFFFF);
    asm.lookup(&maps.ports, Reg::R1, absent);
}

/// R0 points at the counts of the rule whose number is the low half of R8.
fn find_counts(asm: &mut Asm, maps: &Maps, absent: Label) {
    asm.mov(Reg::R1, Reg::R8);
    asm.alu_imm(Alu::Lsh, Reg::R1, 32);
    asm.alu_imm(Alu::Rsh, Reg::R1, 32);
    asm.lookup(&maps.counts, Reg::R1, absent);
}

/// Before the packet socket: decides, and gives the socket what is not to be forwarded.
pub(super) fn filter(maps: &Maps) -> Asm {
    // Places on the stack; a look-up uses the topmost 4 bytes.
    const KEY: i16 = -40;
    const OUT: i16 = -48;
    let mut asm = Asm::new();
    let (whole, lost, untagged) = (asm.label(), asm.label(), asm.label());
    let (fits, wait, hold) = (asm.label(), asm.label(), asm.label());

    asm.mov(Reg::R6, Reg::R1);
    find_scratch(&mut asm, maps, whole);
    asm.mov(Reg::R7, Reg::R0);
    asm.load(Width::D, Reg::R1, Reg::R7, at(scratch::DECISION));
    asm.jump_imm(If::Ne, Reg::R1, 0, lost);

    // The key.
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
    asm.mov(Reg::R1, Reg::R6);
    asm.mov_imm(Reg::R2, 0);
    asm.mov(Reg::R3, Reg::R10);
    asm.alu_imm(Alu::Add, Reg::R3, i32::from(KEY) + 8);
    asm.mov_imm(Reg::R4, 14);
    asm.call(Helper::LoadBytes);
    asm.jump_imm(If::Ne, Reg::R0, 0, whole);

    // The rule: R8 and R9.
    asm.mov(Reg::R2, Reg::R10);
    asm.alu_imm(Alu::Add, Reg::R2, i32::from(KEY));
    asm.mov_map(Reg::R1, &maps.rules);
    asm.call(Helper::MapLookup);
    asm.jump_imm(If::Eq, Reg::R0, 0, whole);
    asm.load(Width::D, Reg::R8, Reg::R0, 0);
    asm.load(Width::D, Reg::R9, Reg::R0, 8);

    // Its ports.
    find_port(&mut asm, maps, 48, whole);
    asm.load(Width::D, Reg::R1, Reg::R0, at(of_port::IN));
    asm.jump_imm(If::Eq, Reg::R1, 0, whole);
    find_port(&mut asm, maps, 32, whole);
    asm.load(Width::D, Reg::R3, Reg::R0, at(of_port::OUT));
    asm.jump_imm(If::Eq, Reg::R3, 0, whole);
    asm.store(Width::D, Reg::R10, OUT, Reg::R3);
    asm.load(Width::D, Reg::R1, Reg::R0, at(of_port::CLOSED));
    asm.mov(Reg::R2, Reg::R9);
    asm.alu_imm(Alu::Rsh, Reg::R2, 32);
    asm.jump(If::Ne, Reg::R1, Reg::R2, whole);
    // A super-packet is cut by the device that sends it.
    asm.load(Width::W, Reg::R1, Reg::R6, buffer::GSO_SIZE);
    asm.jump_imm(If::Ne, Reg::R1, 0, fits);
    asm.load(Width::W, Reg::R1, Reg::R6, buffer::LEN);
    asm.alu_imm(Alu::Rsh, Reg::R3, 32);
    asm.jump(If::Gt, Reg::R1, Reg::R3, whole);
    asm.place(fits);

    // Whether all that went to the socket have left.
    find_counts(&mut asm, maps, whole);
    asm.store(Width::D, Reg::R7, at(scratch::RULE), Reg::R8);
    asm.load(Width::D, Reg::R1, Reg::R0, at(word::PASSED));
    asm.load(Width::D, Reg::R2, Reg::R0, at(word::SETTLED));
    asm.jump(If::Ne, Reg::R1, Reg::R2, wait);
    asm.store(Width::D, Reg::R7, at(scratch::TAG), Reg::R9);
    asm.load(Width::D, Reg::R1, Reg::R10, OUT);
    asm.store(Width::D, Reg::R7, at(scratch::OUT), Reg::R1);
    asm.store_imm(Width::D, Reg::R7, at(scratch::DECISION), decision::FORWARD);
    asm.mov_imm(Reg::R0, 0);
    asm.exit();

    asm.place(wait);
    asm.load(Width::D, Reg::R1, Reg::R0, at(word::HOLDS));
    asm.jump_imm(If::Ne, Reg::R1, 0, hold);
    asm.store_imm(Width::D, Reg::R7, at(scratch::DECISION), decision::PASS);
    asm.mov_imm(Reg::R0, WHOLE);
    asm.exit();

    asm.place(hold);
    asm.store_imm(Width::D, Reg::R7, at(scratch::DECISION), decision::HOLD);
    asm.mov_imm(Reg::R0, 0);
    asm.exit();

    // Nobody has carried out the decision before this one: the program at the hook of that port is
    // gone, or another there is before it. From now on the socket gets all of its packets.
    asm.place(lost);
    asm.store_imm(Width::D, Reg::R7, at(scratch::DECISION), 0);
    asm.load(Width::D, Reg::R8, Reg::R7, at(scratch::RULE));
    find_port(&mut asm, maps, 48, whole);
    asm.store_imm(Width::D, Reg::R0, at(of_port::IN), 0);

    asm.place(whole);
    asm.mov_imm(Reg::R0, WHOLE);
    asm.exit();
    asm
}

/// At the hook: carries the decision out.
pub(super) fn at_hook(maps: &Maps) -> Asm {
    let mut asm = Asm::new();
    let (next, pass, hold) = (asm.label(), asm.label(), asm.label());
    let (push, send) = (asm.label(), asm.label());

    asm.mov(Reg::R6, Reg::R1);
    find_scratch(&mut asm, maps, next);
    asm.mov(Reg::R7, Reg::R0);
    asm.load(Width::D, Reg::R9, Reg::R7, at(scratch::DECISION));
    asm.jump_imm(If::Eq, Reg::R9, 0, next);
    // On a packet of another device: that one's program is gone. Its filter finds out.
    asm.load(Width::D, Reg::R1, Reg::R7, at(scratch::DEVICE));
    asm.load(Width::W, Reg::R2, Reg::R6, buffer::IFINDEX);
    asm.jump(If::Ne, Reg::R1, Reg::R2, next);
    asm.store_imm(Width::D, Reg::R7, at(scratch::DECISION), 0);
    asm.load(Width::D, Reg::R8, Reg::R7, at(scratch::RULE));
    find_counts(&mut asm, maps, next);
    asm.jump_imm(If::Eq, Reg::R9, decision::PASS, pass);
    asm.jump_imm(If::Eq, Reg::R9, decision::HOLD, hold);

    asm.mov_imm(Reg::R1, 1);
    asm.atomic_add(Reg::R0, at(word::PACKETS), Reg::R1);
    asm.load(Width::W, Reg::R1, Reg::R6, buffer::LEN);
    asm.atomic_add(Reg::R0, at(word::BYTES), Reg::R1);
    asm.load(Width::W, Reg::R9, Reg::R7, at(scratch::TAG) + LOW_HALF);
    asm.jump_imm(If::Eq, Reg::R9, 0, send);
    asm.mov(Reg::R1, Reg::R6);
    asm.jump_imm(If::Ne, Reg::R9, tag::POP, push);
    asm.call(Helper::VlanPop);
    asm.goto(send);
    asm.place(push);
    asm.mov_imm(Reg::R2, i32::from(TPID));
    asm.mov(Reg::R3, Reg::R9);
    asm.alu_imm(Alu::Rsh, Reg::R3, 16);
    asm.call(Helper::VlanPush);
    asm.place(send);
    asm.load(Width::W, Reg::R1, Reg::R7, at(scratch::OUT) + LOW_HALF);
    asm.mov_imm(Reg::R2, 0);
    asm.call(Helper::Redirect);
    asm.exit();

    asm.place(pass);
    asm.mov_imm(Reg::R1, 1);
    asm.atomic_add(Reg::R0, at(word::PASSED), Reg::R1);
    asm.goto(next);

    asm.place(hold);
    asm.mov_imm(Reg::R1, 1);
    asm.atomic_add(Reg::R0, at(word::HELD), Reg::R1);
    asm.mov_imm(Reg::R0, DROP);
    asm.exit();

    asm.place(next);
    asm.mov_imm(Reg::R0, NEXT);
    asm.exit();
    asm
}

/// Where the low half of a 64-bit word is.
const LOW_HALF: i16 = if cfg!(target_endian = "little") { 0 } else { 4 };
