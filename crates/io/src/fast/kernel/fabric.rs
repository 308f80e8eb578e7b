//! Frames of the fabric: how the rule of a hop or a delivery is found, and how frames enter the
//! fabric, pass it and leave it. A packet for the router of this node leaves the fabric, is routed,
//! and may enter it again.
//!
//! The kernel knows a frame behind a header of the fabric by its EtherType, and for packets of that
//! type it takes nothing off in front and cuts no super-packet. Both it does for IP packets,
//! however long the bytes in front are. So a frame that is to leave the fabric becomes an IP packet
//! for the kernel first ([`become_ip`]). So does a super-packet on its way, which then gets its
//! header again.

use plexus_wire::fabric::{FIXED_LEN, HEADER_LEN_MAX, ROUTER_HOP};
use plexus_wire::{ipv4, ipv6};

use super::super::FRONT_MAX;
use super::frame::Frame;
use super::program::{
    HOP_KEY, Maps, OUTER, ROUTED_KEY, TPID, at, find_port, find_rule, if_front, kind, of_port,
    scratch, word,
};
use super::routed::{NOT_AS_IT_IS, Place, TCP, find_routed};
use crate::bpf::{Alu, Asm, Helper, If, Label, Reg, Width};

/// Offsets in an Ethernet frame, and the two EtherTypes of IP.
const ETHERTYPE: usize = 12;
const PROTOCOL_V4: usize = OUTER + 9;
const PROTOCOL_V6: usize = OUTER + 6;
const V4: u16 = 0x0800u16.to_be();
const V6: u16 = 0x86DDu16.to_be();

/// Bytes of the longest super-packet, and of the longest other packet before which the kernel puts
/// any (`BPF_SKB_MAX_LEN` with pages of 4 KiB).
const SUPER_MAX: i32 = 65_535;
const PUSH_MAX: i32 = 16_000;

/// Reads eight bytes of the frame at an offset as a number, into R1, by way of the stack.
fn load_number(asm: &mut Asm, frame: Frame, offset: usize, place: i16, absent: Label) {
    frame.load_bytes(asm, offset, 8, place, absent);
    asm.load(Width::D, Reg::R1, Reg::R10, place);
    asm.swap_be(Reg::R1, 64);
}

/// The bytes before a host's frame: the Ethernet header and the fabric's, whose type is 0.
pub(super) fn load_header_len(asm: &mut Asm, to: Reg) {
    asm.load(Width::D, to, Reg::R7, at(scratch::FIXED));
    asm.alu_imm(Alu::Rsh, to, 44);
    asm.alu_imm(Alu::Add, to, OUTER as i32);
}

/// Whether a router of the fabric has sent the packet: one or zero.
fn load_is_routed(asm: &mut Asm, to: Reg) {
    asm.load(Width::D, to, Reg::R7, at(scratch::FIXED));
    asm.alu_imm(Alu::Rsh, to, 16);
    asm.alu_imm(Alu::And, to, 1);
}

/// A frame of the fabric: the same checks as those of [`plexus_wire::fabric::Passing::read`], and
/// the rule of its hop, of its delivery, or of its packet to the router here, in R8 and R9.
/// Super-packets in the fabric are of TCP: no others [enter](check_push). `places` on the stack:
/// the key, a number, as many bytes as [`find_routed`] uses, and the length that it leaves.
pub(super) fn find_hop(
    asm: &mut Asm,
    maps: &Maps,
    frame: Frame,
    places: (i16, i16, i16, i16),
    to_socket: Label,
) {
    let (key, number, head, len) = places;
    let (delivery, router, end) = (asm.label(), asm.label(), asm.label());
    load_number(asm, frame, OUTER, number, to_socket);
    asm.store(Width::D, Reg::R7, at(scratch::FIXED), Reg::R1);
    // R2: length of the header, R3: forward hops, R4: reverse hops.
    for (to, shift) in [(Reg::R2, 44), (Reg::R3, 32), (Reg::R4, 20)] {
        asm.mov(to, Reg::R1);
        asm.alu_imm(Alu::Rsh, to, shift);
    }
    asm.alu_imm(Alu::And, Reg::R3, 0xFFF);
    asm.alu_imm(Alu::And, Reg::R4, 0xFFF);
    asm.jump_imm(If::Eq, Reg::R3, 0, to_socket);
    asm.jump_imm(If::Gt, Reg::R3, 8, to_socket);
    asm.alu(Alu::Add, Reg::R3, Reg::R4);
    asm.alu_imm(Alu::Add, Reg::R3, FIXED_LEN as i32);
    asm.jump(If::Ne, Reg::R2, Reg::R3, to_socket);
    asm.jump_imm(If::Gt, Reg::R2, HEADER_LEN_MAX as i32, to_socket);
    asm.alu_imm(Alu::Add, Reg::R2, OUTER as i32);
    frame.load_len(asm, Reg::R1);
    asm.jump(If::Gt, Reg::R2, Reg::R1, to_socket);
    load_number(asm, frame, OUTER + FIXED_LEN, number, to_socket);
    asm.store(Width::D, Reg::R7, at(scratch::HOPS), Reg::R1);
    asm.alu_imm(Alu::Rsh, Reg::R1, 56);
    asm.mov(Reg::R2, Reg::R1);
    asm.alu_imm(Alu::Or, Reg::R1, HOP_KEY as i32);
    asm.store(Width::W, Reg::R10, key + 4, Reg::R1);
    asm.mov_imm(Reg::R1, 0);
    asm.store(Width::D, Reg::R10, key + 8, Reg::R1);
    asm.store(Width::D, Reg::R10, key + 16, Reg::R1);
    asm.jump_imm(If::Eq, Reg::R2, ROUTER_HOP.into(), router);
    find_rule(asm, &maps.rules, key, delivery);
    if frame.load_segment_size(asm, Reg::R1) {
        // Its header is taken off and put back.
        let no_super = asm.label();
        asm.jump_imm(If::Eq, Reg::R1, 0, no_super);
        load_header_len(asm, Reg::R2);
        asm.jump_imm(If::Gt, Reg::R2, FRONT_MAX as i32, to_socket);
        load_head(asm, frame, head, to_socket);
        asm.place(no_super);
    }
    asm.goto(end);

    // To a host.
    asm.place(delivery);
    load_is_routed(asm, Reg::R1);
    asm.alu_imm(Alu::Lsh, Reg::R1, ROUTED_KEY.trailing_zeros() as i32);
    asm.load(Width::W, Reg::R2, Reg::R10, key + 4);
    asm.alu(Alu::Or, Reg::R1, Reg::R2);
    asm.store(Width::W, Reg::R10, key + 4, Reg::R1);
    load_head(asm, frame, head, to_socket);
    for (width, from) in [(Width::W, 0), (Width::H, 4)] {
        asm.load(width, Reg::R1, Reg::R10, head + from);
        asm.store(width, Reg::R10, key + 8 + from, Reg::R1);
    }
    find_rule(asm, &maps.rules, key, to_socket);
    asm.goto(end);

    // To the router, which ignores whether another one has sent it.
    asm.place(router);
    load_head(asm, frame, head, to_socket);
    for (width, from) in [(Width::D, 0), (Width::W, 8), (Width::H, 12)] {
        asm.load(width, Reg::R1, Reg::R10, head + from);
        asm.store(width, Reg::R10, key + 8 + from, Reg::R1);
    }
    find_rule(asm, &maps.rules, key, to_socket);
    asm.jump_imm(If::Ne, Reg::R9, kind::DOOR, to_socket);
    find_routed(asm, &maps.routed, (frame, Place::InFabric), (key, head, len), to_socket);
    if_front(asm, end);
    check_len(asm, frame, len);
    asm.place(end);
}

/// Makes a packet wait that is too long for the kernel to put anything before it. The check counts
/// the header that is taken off, so it is stricter than the kernel's.
fn check_len(asm: &mut Asm, frame: Frame, len: i16) {
    let (wait, end) = (asm.label(), asm.label());
    if frame.load_segment_size(asm, Reg::R2) {
        if_too_long(asm, frame, wait);
        asm.goto(end);
        asm.place(wait);
        asm.store_imm(Width::D, Reg::R10, len, NOT_AS_IT_IS);
        asm.place(end);
    }
}

/// Goes to `wait` with a packet that is too long for the kernel to put anything before it. R2 has
/// the size of its segments.
fn if_too_long(asm: &mut Asm, frame: Frame, wait: Label) {
    let end = asm.label();
    frame.load_len(asm, Reg::R1);
    asm.jump_imm(If::Gt, Reg::R1, SUPER_MAX - FRONT_MAX as i32, wait);
    asm.jump_imm(If::Ne, Reg::R2, 0, end);
    asm.jump_imm(If::Gt, Reg::R1, PUSH_MAX - FRONT_MAX as i32, wait);
    asm.place(end);
}

/// Reads the Ethernet header of the host's frame to the stack. Behind it is to be an IP header.
fn load_head(asm: &mut Asm, frame: Frame, head: i16, to_socket: Label) {
    let (v6, is_ip) = (asm.label(), asm.label());
    load_header_len(asm, Reg::R2);
    frame.load_from(asm, OUTER, head, to_socket);
    load_header_len(asm, Reg::R2);
    asm.load(Width::H, Reg::R1, Reg::R10, head + ETHERTYPE as i16);
    asm.jump_imm(If::Ne, Reg::R1, V4.into(), v6);
    asm.alu_imm(Alu::Add, Reg::R2, (OUTER + ipv4::HEADER_LEN) as i32);
    asm.goto(is_ip);
    asm.place(v6);
    asm.jump_imm(If::Ne, Reg::R1, V6.into(), to_socket);
    asm.alu_imm(Alu::Add, Reg::R2, (OUTER + ipv6::HEADER_LEN) as i32);
    asm.place(is_ip);
    frame.load_len(asm, Reg::R1);
    asm.jump(If::Gt, Reg::R2, Reg::R1, to_socket);
}

/// Makes a packet that is to enter the fabric wait if it is too long for the kernel, or a
/// super-packet that is not of TCP: of those it takes no header off. `places` on the stack: the
/// key, a byte, and the length that makes it wait.
pub(super) fn check_push(asm: &mut Asm, frame: Frame, places: (i16, i16, i16), to_socket: Label) {
    let (key, byte, len) = places;
    let (v4, wait, end) = (asm.label(), asm.label(), asm.label());
    if !frame.load_segment_size(asm, Reg::R2) {
        return;
    }
    if_too_long(asm, frame, wait);
    asm.jump_imm(If::Eq, Reg::R2, 0, end);
    asm.mov_imm(Reg::R2, PROTOCOL_V4 as i32);
    asm.load(Width::H, Reg::R1, Reg::R10, key + 8 + ETHERTYPE as i16);
    asm.jump_imm(If::Eq, Reg::R1, V4.into(), v4);
    asm.mov_imm(Reg::R2, PROTOCOL_V6 as i32);
    asm.place(v4);
    frame.load_from(asm, 1, byte, to_socket);
    asm.load(Width::B, Reg::R1, Reg::R10, byte);
    asm.jump_imm(If::Eq, Reg::R1, TCP, end);
    asm.place(wait);
    asm.store_imm(Width::D, Reg::R10, len, NOT_AS_IT_IS);
    asm.place(end);
}

/// Places on the stack of the work below, where the key of the frame stood.
const HEAD: i16 = -32;
const HEADER: i16 = -32 - FRONT_MAX as i16;

/// Puts the bytes of the rule whose counts R0 points at before the frame; R9 has their number.
pub(super) fn put_front(asm: &mut Asm, frame: Frame, failed: Label) {
    asm.mov(Reg::R8, Reg::R0);
    asm.mov(Reg::R4, Reg::R9);
    asm.alu_imm(Alu::Rsh, Reg::R4, 16);
    make_room(asm, frame, failed);
    asm.mov(Reg::R3, Reg::R8);
    asm.alu_imm(Alu::Add, Reg::R3, at(word::FRONT).into());
    asm.mov(Reg::R4, Reg::R9);
    asm.alu_imm(Alu::Rsh, Reg::R4, 16);
    store_front(asm, frame, failed);
    asm.load(Width::D, Reg::R8, Reg::R7, at(scratch::RULE));
}

/// Makes room for R4 bytes before the frame.
fn make_room(asm: &mut Asm, frame: Frame, failed: Label) {
    asm.mov(Reg::R1, Reg::R6);
    match frame {
        Frame::Buffer => {
            asm.mov(Reg::R2, Reg::R4);
            asm.mov_imm(Reg::R3, 0);
            asm.call(Helper::ChangeHead);
        }
        Frame::Memory { .. } => {
            asm.mov_imm(Reg::R2, 0);
            asm.alu(Alu::Sub, Reg::R2, Reg::R4);
            asm.call(Helper::AdjustHead);
        }
    }
    asm.jump_imm(If::Ne, Reg::R0, 0, failed);
}

/// Writes R4 bytes, which R3 points at, where the frame begins.
fn store_front(asm: &mut Asm, frame: Frame, failed: Label) {
    asm.jump_imm(If::Lt, Reg::R4, OUTER as i32, failed);
    asm.jump_imm(If::Gt, Reg::R4, FRONT_MAX as i32, failed);
    asm.mov(Reg::R1, Reg::R6);
    asm.mov_imm(Reg::R2, 0);
    asm.mov_imm(Reg::R5, 0);
    asm.call(match frame {
        Frame::Buffer => Helper::SkbStoreBytes,
        Frame::Memory { .. } => Helper::StoreBytes,
    });
    asm.jump_imm(If::Ne, Reg::R0, 0, failed);
}

/// Takes off what the fabric has put before a host's frame, and counts that for the rule whose
/// counts R8 points at.
pub(super) fn take_off(asm: &mut Asm, frame: Frame, failed: Label) {
    load_header_len(asm, Reg::R1);
    asm.atomic_add(Reg::R8, at(word::TAKEN_OFF), Reg::R1);
    take_header_off(asm, frame, failed);
}

/// Gives a packet that leaves the fabric the rule's addresses if a router has sent it. R8 points at
/// the rule's counts, and then has the rule again.
pub(super) fn address_routed(asm: &mut Asm, frame: Frame, failed: Label) {
    let end = asm.label();
    asm.mov(Reg::R3, Reg::R8);
    asm.load(Width::D, Reg::R8, Reg::R7, at(scratch::RULE));
    load_is_routed(asm, Reg::R1);
    asm.jump_imm(If::Eq, Reg::R1, 0, end);
    asm.alu_imm(Alu::Add, Reg::R3, at(word::STEP).into());
    frame.store_bytes(asm, 0, 12, failed);
    asm.place(end);
}

fn take_header_off(asm: &mut Asm, frame: Frame, failed: Label) {
    if let Frame::Memory { .. } = frame {
        load_header_len(asm, Reg::R2);
        asm.mov(Reg::R1, Reg::R6);
        asm.call(Helper::AdjustHead);
        asm.jump_imm(If::Ne, Reg::R0, 0, failed);
        return;
    }
    /// Where the room is: behind the Ethernet header (`BPF_ADJ_ROOM_MAC`).
    const BEHIND_ETHERNET: i32 = 1;
    /// Segments stay as long as they are (`BPF_F_ADJ_ROOM_FIXED_GSO`).
    const SAME_SEGMENTS: i32 = 1;
    load_header_len(asm, Reg::R2);
    frame.load_from(asm, OUTER, HEAD, failed);
    become_ip(asm, frame, failed);
    // The outer Ethernet header stays, and is overwritten by the host's.
    load_header_len(asm, Reg::R1);
    asm.mov_imm(Reg::R2, 0);
    asm.alu(Alu::Sub, Reg::R2, Reg::R1);
    asm.mov(Reg::R1, Reg::R6);
    asm.mov_imm(Reg::R3, BEHIND_ETHERNET);
    asm.mov_imm(Reg::R4, SAME_SEGMENTS);
    asm.call(Helper::AdjustRoom);
    asm.jump_imm(If::Ne, Reg::R0, 0, failed);
    asm.mov(Reg::R3, Reg::R10);
    asm.alu_imm(Alu::Add, Reg::R3, HEAD.into());
    frame.store_bytes(asm, 0, OUTER, failed);
}

/// Makes the kernel take the packet for one of the EtherType that stands on the stack. No call sets
/// that. But the kernel follows what stands behind a tag when it takes the tag out of the bytes. So
/// two tags are put in, of which the first gets into the bytes before this EtherType, and taken out
/// again.
fn become_ip(asm: &mut Asm, frame: Frame, failed: Label) {
    let call = |asm: &mut Asm, helper| {
        asm.mov(Reg::R1, Reg::R6);
        asm.mov_imm(Reg::R2, i32::from(TPID));
        asm.mov_imm(Reg::R3, 0);
        asm.call(helper);
        asm.jump_imm(If::Ne, Reg::R0, 0, failed);
    };
    asm.mov(Reg::R3, Reg::R10);
    asm.alu_imm(Alu::Add, Reg::R3, (HEAD + ETHERTYPE as i16).into());
    frame.store_bytes(asm, ETHERTYPE, 2, failed);
    for helper in [Helper::VlanPush, Helper::VlanPush, Helper::VlanPop, Helper::VlanPop] {
        call(asm, helper);
    }
}

/// A super-packet on its way: takes its header off, and puts it back before the IP packet.
fn renew_header(asm: &mut Asm, frame: Frame, failed: Label) {
    let no_super = asm.label();
    if !frame.load_segment_size(asm, Reg::R1) {
        return;
    }
    asm.jump_imm(If::Eq, Reg::R1, 0, no_super);
    // Without CAP_PERFMON the verifier refuses to read what may never have been written.
    (0..FRONT_MAX as i16 / 8)
        .for_each(|word| asm.store_imm(Width::D, Reg::R10, HEADER + 8 * word, 0));
    load_header_len(asm, Reg::R4);
    asm.jump_imm(If::Lt, Reg::R4, OUTER as i32, failed);
    asm.jump_imm(If::Gt, Reg::R4, FRONT_MAX as i32, failed);
    asm.mov(Reg::R1, Reg::R6);
    asm.mov_imm(Reg::R2, 0);
    asm.mov(Reg::R3, Reg::R10);
    asm.alu_imm(Alu::Add, Reg::R3, HEADER.into());
    asm.call(Helper::LoadBytes);
    asm.jump_imm(If::Ne, Reg::R0, 0, failed);
    take_header_off(asm, frame, failed);
    load_header_len(asm, Reg::R4);
    make_room(asm, frame, failed);
    asm.mov(Reg::R3, Reg::R10);
    asm.alu_imm(Alu::Add, Reg::R3, HEADER.into());
    load_header_len(asm, Reg::R4);
    store_front(asm, frame, failed);
    asm.place(no_super);
}

/// Processes the hop of a frame of the fabric: see [`plexus_wire::fabric::Passing::rotate`]. It is
/// sent by the port whose number is bits 32 to 47 of R8.
pub(super) fn process_hop(asm: &mut Asm, maps: &Maps, frame: Frame, absent: Label) {
    const NUMBER: i16 = -16;
    renew_header(asm, frame, absent);
    let store = |asm: &mut Asm, offset: usize| {
        asm.swap_be(Reg::R1, 64);
        asm.store(Width::D, Reg::R10, NUMBER, Reg::R1);
        asm.mov(Reg::R3, Reg::R10);
        asm.alu_imm(Alu::Add, Reg::R3, NUMBER.into());
        frame.store_bytes(asm, offset, 8, absent);
    };
    find_port(asm, maps, 32, absent);
    asm.mov(Reg::R3, Reg::R0);
    asm.alu_imm(Alu::Add, Reg::R3, at(of_port::HEADER).into());
    frame.store_bytes(asm, 0, OUTER, absent);
    // One forward hop less, one reverse hop more.
    asm.load(Width::D, Reg::R1, Reg::R7, at(scratch::FIXED));
    asm.mov_u64(Reg::R2, (1u64 << 20).wrapping_sub(1 << 32));
    asm.alu(Alu::Add, Reg::R1, Reg::R2);
    store(asm, OUTER);
    // R1: the hops, R2: bits behind the forward hops, R3: what stands there.
    asm.load(Width::D, Reg::R1, Reg::R7, at(scratch::HOPS));
    asm.load(Width::D, Reg::R4, Reg::R7, at(scratch::FIXED));
    asm.alu_imm(Alu::Rsh, Reg::R4, 32);
    asm.alu_imm(Alu::And, Reg::R4, 0xF);
    asm.alu_imm(Alu::Lsh, Reg::R4, 3);
    asm.mov_imm(Reg::R2, 64);
    asm.alu(Alu::Sub, Reg::R2, Reg::R4);
    asm.alu_imm(Alu::And, Reg::R2, 63);
    asm.mov_imm(Reg::R3, 1);
    asm.alu(Alu::Lsh, Reg::R3, Reg::R2);
    asm.alu_imm(Alu::Sub, Reg::R3, 1);
    asm.alu(Alu::And, Reg::R3, Reg::R1);
    asm.alu(Alu::Rsh, Reg::R1, Reg::R2);
    asm.alu_imm(Alu::Lsh, Reg::R1, 8);
    asm.mov(Reg::R4, Reg::R8);
    asm.alu_imm(Alu::Rsh, Reg::R4, 48);
    asm.alu_imm(Alu::And, Reg::R4, 0xFF);
    asm.alu(Alu::Or, Reg::R1, Reg::R4);
    asm.alu(Alu::Lsh, Reg::R1, Reg::R2);
    asm.alu(Alu::Or, Reg::R1, Reg::R3);
    store(asm, OUTER + FIXED_LEN);
}
