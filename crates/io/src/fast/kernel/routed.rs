//! The programs' part for packets that are routed: a step as a router takes it (RFC 1812;
//! RFC 8200). See [`super::program`], which calls these parts.
//!
//! Frames of one Ethernet header to the router lead to a *door*. Behind it are the rules for source
//! and destination addresses of IP packets. A pair of addresses may be a door too: behind that are
//! rules for protocol and ports. A packet that another node has sent to this router is looked up
//! where it stands, behind the fabric's header ([`Place`]). The socket gets what a router does not
//! send on as it is:
//!
//! - A damaged packet, or one at the end of its time to live, never leaves a router by the rule's
//!   port. So no other packet can overtake it, and the rule goes on. Of a flow that enters the
//!   fabric without a step it does leave, and later ones may overtake it.
//! - A packet with options, one that is longer than the MTU and a super-packet other than TCP may
//!   leave later. So the rule waits until it has left.
//!
//! Segments of a super-packet of UDP cannot be measured: if a tunnel's, they have further headers,
//! and the kernel does not say so.

use std::net::IpAddr;

use super::super::{Ports, Routed};
use super::fabric::load_header_len;
use super::frame::Frame;
use super::program::{OUTER, at, find_rule, kind, word};
use crate::bpf::{Alu, Asm, If, Label, Map, Reg, Width};

/// Bytes of the key of a routed flow: its door, and the two addresses, or protocol and ports.
pub(super) const KEY_LEN: usize = 8 + REST;
const REST: usize = 32;
/// A key less its door.
pub(super) type Rest = [u8; REST];
const V4: usize = 20;
const V6: usize = 40;
pub(super) const TCP: i32 = 6;
const UDP: i32 = 17;
/// Longer than any MTU, in place of the length of what the rule must wait for.
pub(super) const NOT_AS_IT_IS: i32 = 1 << 20;

/// Bytes of the stack that [`find_routed`] uses: a header, and a key.
pub(super) const STACK: i16 = (V6 + KEY_LEN) as i16;

/// The key of a pair of addresses behind a door.
pub(super) fn key(door: u64, pair: &Routed) -> [u8; KEY_LEN] {
    let mut rest = [0; REST];
    for (at, address) in [(0, pair.source), (16, pair.destination)] {
        match address {
            IpAddr::V4(address) => rest[at..at + 4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => rest[at..at + 16].copy_from_slice(&address.octets()),
        }
    }
    key_of(door, &rest)
}

/// Ports as they stand in a key: four bytes as in the packet, and the protocol.
pub(super) fn ports(ports: &Ports) -> Rest {
    let mut rest = [0; REST];
    rest[..2].copy_from_slice(&ports.source.to_be_bytes());
    rest[2..4].copy_from_slice(&ports.destination.to_be_bytes());
    rest[4..8].copy_from_slice(&u32::from(ports.protocol).to_ne_bytes());
    rest
}

pub(super) fn key_of(door: u64, rest: &Rest) -> [u8; KEY_LEN] {
    let mut bytes = [0; KEY_LEN];
    bytes[..8].copy_from_slice(&door.to_ne_bytes());
    bytes[8..].copy_from_slice(rest);
    bytes
}

/// The place of an IP packet in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Behind the Ethernet header.
    First,
    /// In a host's frame, which stands behind a header of the fabric.
    InFabric,
}

impl Place {
    /// Where the packet begins.
    fn load(self, asm: &mut Asm, to: Reg) {
        match self {
            Place::First => asm.mov_imm(to, OUTER as i32),
            Place::InFabric => {
                load_header_len(asm, to);
                asm.alu_imm(Alu::Add, to, OUTER as i32);
            }
        }
    }

    /// Reads the packet's first bytes to a place on the stack.
    fn load_bytes(self, asm: &mut Asm, frame: Frame, len: usize, place: i16, absent: Label) {
        match self {
            Place::First => frame.load_bytes(asm, OUTER, len, place, absent),
            Place::InFabric => {
                self.load(asm, Reg::R2);
                frame.load_from(asm, len, place, absent);
            }
        }
    }
}

/// Finds the rule of an IP packet, whose door is in R8: R8 and R9. `places` on the stack: the key
/// of its frame, [`STACK`] bytes, and where the length of the IP packet is to stand.
pub(super) fn find_routed(
    asm: &mut Asm,
    rules: &Map,
    (frame, packet): (Frame, Place),
    places: (i16, i16, i16),
    to_socket: Label,
) {
    let (header, ip, len) = places;
    let key = ip + V6 as i16;
    let (v6, segments, end) = (asm.label(), asm.label(), asm.label());
    let (found_v4, found_v6) = (asm.label(), asm.label());
    let measured = asm.label();
    let byte = |asm: &mut Asm, to: Reg, at: i16| asm.load(Width::B, to, Reg::R10, ip + at);
    let number = |asm: &mut Asm, to: Reg, at: i16| {
        asm.load(Width::H, to, Reg::R10, ip + at);
        asm.swap_be(to, 16);
    };
    // The packet's bytes behind a header of this many, into R1. R2 is lost.
    let room = |asm: &mut Asm, header: usize| {
        frame.load_len(asm, Reg::R1);
        packet.load(asm, Reg::R2);
        asm.alu_imm(Alu::Add, Reg::R2, header as i32);
        asm.alu(Alu::Sub, Reg::R1, Reg::R2);
    };

    asm.store(Width::D, Reg::R10, key, Reg::R8);
    asm.load(Width::H, Reg::R1, Reg::R10, header + 8 + 12);
    asm.jump_imm(If::Ne, Reg::R1, i32::from(0x0800u16.to_be()), v6);

    packet.load_bytes(asm, frame, V4, ip, to_socket);
    asm.mov_imm(Reg::R1, 0);
    (1..5).for_each(|word| asm.store(Width::D, Reg::R10, key + 8 * word, Reg::R1));
    for (from, to) in [(12, 8), (16, 24)] {
        asm.load(Width::W, Reg::R1, Reg::R10, ip + from);
        asm.store(Width::W, Reg::R10, key + to, Reg::R1);
    }
    find_rule(asm, rules, key, to_socket);
    asm.jump_imm(If::Ne, Reg::R9, kind::DOOR, found_v4);
    // The rule is of the ports, behind options if there are any. A fragment has none.
    number(asm, Reg::R1, 6);
    asm.alu_imm(Alu::And, Reg::R1, 0x3FFF);
    asm.jump_imm(If::Ne, Reg::R1, 0, to_socket);
    byte(asm, Reg::R2, 0);
    asm.alu_imm(Alu::And, Reg::R2, 0x0F);
    asm.alu_imm(Alu::Lsh, Reg::R2, 2);
    asm.jump_imm(If::Lt, Reg::R2, V4 as i32, to_socket);
    asm.mov(Reg::R3, Reg::R2);
    asm.alu_imm(Alu::Add, Reg::R3, 4);
    number(asm, Reg::R1, 2);
    asm.jump(If::Lt, Reg::R1, Reg::R3, to_socket);
    byte(asm, Reg::R1, 9);
    find_by_ports(asm, rules, (frame, packet), key, to_socket);
    asm.place(found_v4);
    asm.store_imm(Width::D, Reg::R10, len, NOT_AS_IT_IS);
    byte(asm, Reg::R1, 0);
    asm.jump_imm(If::Gt, Reg::R1, 0x4F, to_socket);
    asm.jump_imm(If::Lt, Reg::R1, 0x45, to_socket);
    byte(asm, Reg::R2, 8);
    asm.jump_imm(If::Lt, Reg::R2, 2, to_socket);
    asm.jump_imm(If::Ne, Reg::R1, 0x45, end);
    // Its words come to 0xFFFF.
    asm.mov_imm(Reg::R1, 0);
    for word in 0..5 {
        asm.load(Width::W, Reg::R2, Reg::R10, ip + 4 * word);
        asm.alu(Alu::Add, Reg::R1, Reg::R2);
    }
    for _ in 0..3 {
        asm.mov(Reg::R2, Reg::R1);
        asm.alu_imm(Alu::Rsh, Reg::R2, 16);
        asm.alu_imm(Alu::And, Reg::R1, 0xFFFF);
        asm.alu(Alu::Add, Reg::R1, Reg::R2);
    }
    asm.jump_imm(If::Ne, Reg::R1, 0xFFFF, to_socket);
    number(asm, Reg::R3, 2);
    asm.jump_imm(If::Lt, Reg::R3, V4 as i32, to_socket);
    room(asm, 0);
    asm.jump(If::Gt, Reg::R3, Reg::R1, to_socket);
    byte(asm, Reg::R1, 9);
    asm.mov_imm(Reg::R2, V4 as i32);
    asm.goto(segments);

    asm.place(v6);
    packet.load_bytes(asm, frame, V6, ip, to_socket);
    for word in 1..5 {
        asm.load(Width::D, Reg::R1, Reg::R10, ip + 8 * word);
        asm.store(Width::D, Reg::R10, key + 8 * word, Reg::R1);
    }
    find_rule(asm, rules, key, to_socket);
    asm.jump_imm(If::Ne, Reg::R9, kind::DOOR, found_v6);
    number(asm, Reg::R1, 4);
    asm.jump_imm(If::Lt, Reg::R1, 4, to_socket);
    asm.mov_imm(Reg::R2, V6 as i32);
    byte(asm, Reg::R1, 6);
    find_by_ports(asm, rules, (frame, packet), key, to_socket);
    asm.place(found_v6);
    asm.store_imm(Width::D, Reg::R10, len, NOT_AS_IT_IS);
    byte(asm, Reg::R1, 0);
    asm.alu_imm(Alu::Rsh, Reg::R1, 4);
    asm.jump_imm(If::Ne, Reg::R1, 6, to_socket);
    byte(asm, Reg::R1, 7);
    asm.jump_imm(If::Lt, Reg::R1, 2, to_socket);
    number(asm, Reg::R3, 4);
    room(asm, V6);
    asm.jump(If::Gt, Reg::R3, Reg::R1, to_socket);
    asm.alu_imm(Alu::Add, Reg::R3, V6 as i32);
    byte(asm, Reg::R1, 6);
    asm.mov_imm(Reg::R2, V6 as i32);

    // R1: the protocol, R2: bytes of the header, R3: of the packet. Of a super-packet the segments
    // count, each behind its headers.
    asm.place(segments);
    if frame.load_segment_size(asm, Reg::R4) {
        asm.jump_imm(If::Eq, Reg::R4, 0, measured);
        asm.jump_imm(If::Ne, Reg::R1, TCP, end);
        asm.mov(Reg::R3, Reg::R2);
        asm.alu(Alu::Add, Reg::R3, Reg::R4);
        // The addresses are in the key by now.
        asm.store(Width::D, Reg::R10, ip + 8, Reg::R3);
        packet.load(asm, Reg::R1);
        asm.alu(Alu::Add, Reg::R2, Reg::R1);
        asm.alu_imm(Alu::Add, Reg::R2, 12);
        frame.load_from(asm, 1, ip, end);
        // The header's length, in units of four bytes.
        byte(asm, Reg::R1, 0);
        asm.alu_imm(Alu::Rsh, Reg::R1, 4);
        asm.alu_imm(Alu::Lsh, Reg::R1, 2);
        asm.load(Width::D, Reg::R3, Reg::R10, ip + 8);
        asm.alu(Alu::Add, Reg::R3, Reg::R1);
    }
    asm.place(measured);
    asm.store(Width::D, Reg::R10, len, Reg::R3);
    asm.place(end);
}

/// Finds the rule of a packet's ports: its door is in R8, its protocol in R1, and its ports are R2
/// bytes behind its beginning.
fn find_by_ports(
    asm: &mut Asm,
    rules: &Map,
    (frame, packet): (Frame, Place),
    key: i16,
    to_socket: Label,
) {
    let has_ports = asm.label();
    asm.jump_imm(If::Eq, Reg::R1, TCP, has_ports);
    asm.jump_imm(If::Ne, Reg::R1, UDP, to_socket);
    asm.place(has_ports);
    asm.store(Width::D, Reg::R10, key, Reg::R8);
    asm.store(Width::W, Reg::R10, key + 12, Reg::R1);
    asm.mov_imm(Reg::R1, 0);
    (2..5).for_each(|word| asm.store(Width::D, Reg::R10, key + 8 * word, Reg::R1));
    packet.load(asm, Reg::R1);
    asm.alu(Alu::Add, Reg::R2, Reg::R1);
    frame.load_from(asm, 4, key + 8, to_socket);
    find_rule(asm, rules, key, to_socket);
}

/// Takes the step: R0 points at the rule's counts, R9 has what it is for.
pub(super) fn take_step(asm: &mut Asm, frame: Frame, absent: Label) {
    const TTL: usize = OUTER + 8;
    const HOP_LIMIT: usize = OUTER + 7;
    const PLACE: i16 = -16;
    let (v6, no_carry, end) = (asm.label(), asm.label(), asm.label());
    let store = |asm: &mut Asm, offset: usize, len: usize| {
        asm.mov(Reg::R3, Reg::R10);
        asm.alu_imm(Alu::Add, Reg::R3, PLACE.into());
        frame.store_bytes(asm, offset, len, absent);
    };
    asm.mov(Reg::R3, Reg::R0);
    asm.alu_imm(Alu::Add, Reg::R3, at(word::STEP).into());
    frame.store_bytes(asm, 0, 12, absent);
    asm.mov(Reg::R1, Reg::R9);
    asm.alu_imm(Alu::And, Reg::R1, 0xFF);
    asm.jump_imm(If::Eq, Reg::R1, kind::ROUTED_V6, v6);

    // Time to live, protocol and checksum, as the pipeline does it (RFC 1624, 3).
    frame.load_bytes(asm, TTL, 4, PLACE, absent);
    asm.load(Width::W, Reg::R1, Reg::R10, PLACE);
    asm.swap_be(Reg::R1, 32);
    asm.mov(Reg::R2, Reg::R1);
    asm.alu_imm(Alu::And, Reg::R2, 0xFFFF);
    asm.alu_imm(Alu::Add, Reg::R2, 0x0100);
    asm.jump_imm(If::Lt, Reg::R2, 0xFFFF, no_carry);
    asm.alu_imm(Alu::Add, Reg::R2, 1);
    asm.alu_imm(Alu::And, Reg::R2, 0xFFFF);
    asm.place(no_carry);
    asm.alu_imm(Alu::Rsh, Reg::R1, 16);
    asm.alu_imm(Alu::Sub, Reg::R1, 0x0100);
    asm.alu_imm(Alu::Lsh, Reg::R1, 16);
    asm.alu(Alu::Or, Reg::R1, Reg::R2);
    asm.swap_be(Reg::R1, 32);
    asm.store(Width::W, Reg::R10, PLACE, Reg::R1);
    store(asm, TTL, 4);
    asm.goto(end);

    asm.place(v6);
    frame.load_bytes(asm, HOP_LIMIT, 1, PLACE, absent);
    asm.load(Width::B, Reg::R1, Reg::R10, PLACE);
    asm.alu_imm(Alu::Sub, Reg::R1, 1);
    asm.store(Width::B, Reg::R10, PLACE, Reg::R1);
    store(asm, HOP_LIMIT, 1);
    asm.place(end);
}
