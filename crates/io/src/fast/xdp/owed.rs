//! Checksums that a host has left to its device. A virtual cable has none that could do the work,
//! and XDP does not show that it is owed, so the program looks for it as
//! [`plexus_wire::partial::find`] does. All packets that this finds go to the socket, and some
//! that it would look into further: tunnels, IPv4 options and IPv6 extension headers.

use super::super::kernel::Frame;
use super::super::kernel::program::{OUTER, kind};
use crate::bpf::{Alu, Asm, If, Label, Reg, Width};

const V4: usize = 20;
const V6: usize = 40;
const PROTOCOL_V4: usize = OUTER + 9;
const PROTOCOL_V6: usize = OUTER + 6;
const TCP: i32 = 6;
const UDP: i32 = 17;
/// Where the checksum is in their headers.
const OF_TCP: usize = 16;
const OF_UDP: usize = 6;
/// IP in IP, IPv6 in IP, GRE, SCTP.
const LOOKED_INTO: [i32; 4] = [4, 41, 47, 132];
/// ESP, ICMPv6 and nothing: all others may be extension headers.
const UPPER_V6: [i32; 3] = [50, 58, 59];
/// The ports of VXLAN and GENEVE.
const TUNNELS: [u16; 2] = [4789, 6081];

/// Goes to `wait` with a packet that may owe its checksum. R9 has what the frame's rule is for; R0
/// stays.
pub(super) fn pass_if_owed(asm: &mut Asm, frame: Frame, wait: Label) {
    let (is_v4, is_v6, clear) = (asm.label(), asm.label(), asm.label());
    let (tcp_v4, udp_v4, tcp_v6, udp_v6) = (asm.label(), asm.label(), asm.label(), asm.label());
    let is = |asm: &mut Asm, ethertype: u16, label| {
        asm.jump_imm(If::Eq, Reg::R2, ethertype.to_be().into(), label);
    };
    // The node that put a frame into the fabric has done the work.
    asm.mov(Reg::R1, Reg::R9);
    asm.alu_imm(Alu::And, Reg::R1, 0xFF);
    asm.jump_imm(If::Eq, Reg::R1, kind::HOP, clear);
    Frame::find_bytes(asm, frame.offset(OUTER), wait);
    asm.load(Width::H, Reg::R2, Reg::R1, frame.offset(12) as i16);
    is(asm, 0x0800, is_v4);
    is(asm, 0x86DD, is_v6);
    [0x8100, 0x88A8].iter().for_each(|tag| is(asm, *tag, wait));
    asm.goto(clear);

    // Too short for a checksum.
    asm.place(is_v4);
    Frame::find_bytes(asm, frame.offset(OUTER + V4 + 8), clear);
    let load = |asm: &mut Asm, width: Width, to: Reg, offset: usize| {
        asm.load(width, to, Reg::R1, frame.offset(offset) as i16);
    };
    // Of a packet that is cut the kernel has done the work before.
    load(asm, Width::H, Reg::R2, OUTER + 6);
    asm.alu_imm(Alu::And, Reg::R2, i32::from(0x3FFFu16.to_be()));
    asm.jump_imm(If::Ne, Reg::R2, 0, clear);
    load(asm, Width::B, Reg::R2, OUTER);
    asm.jump_imm(If::Ne, Reg::R2, 0x45, wait);
    load(asm, Width::B, Reg::R4, PROTOCOL_V4);
    asm.jump_imm(If::Eq, Reg::R4, TCP, tcp_v4);
    asm.jump_imm(If::Eq, Reg::R4, UDP, udp_v4);
    LOOKED_INTO.iter().for_each(|protocol| asm.jump_imm(If::Eq, Reg::R4, *protocol, wait));
    asm.goto(clear);
    load_checksum(asm, frame, OUTER + V4, [tcp_v4, udp_v4], [clear, wait]);
    load(asm, Width::H, Reg::R3, OUTER + 2);
    asm.swap_be(Reg::R3, 16);
    asm.alu_imm(Alu::Sub, Reg::R3, V4 as i32);
    add_length(asm);
    for word in [12, 16] {
        load(asm, Width::W, Reg::R2, OUTER + word);
        asm.alu(Alu::Add, Reg::R3, Reg::R2);
    }
    let fold = asm.label();
    asm.goto(fold);

    asm.place(is_v6);
    Frame::find_bytes(asm, frame.offset(OUTER + V6 + 8), clear);
    load(asm, Width::B, Reg::R4, PROTOCOL_V6);
    asm.jump_imm(If::Eq, Reg::R4, TCP, tcp_v6);
    asm.jump_imm(If::Eq, Reg::R4, UDP, udp_v6);
    UPPER_V6.iter().for_each(|protocol| asm.jump_imm(If::Eq, Reg::R4, *protocol, clear));
    asm.goto(wait);
    load_checksum(asm, frame, OUTER + V6, [tcp_v6, udp_v6], [clear, wait]);
    load(asm, Width::H, Reg::R3, OUTER + 4);
    asm.swap_be(Reg::R3, 16);
    add_length(asm);
    for word in 2..10 {
        load(asm, Width::W, Reg::R2, OUTER + 4 * word);
        asm.alu(Alu::Add, Reg::R3, Reg::R2);
    }

    // R3 to 16 bits, against R5: what stands in the packet.
    asm.place(fold);
    for _ in 0..3 {
        asm.mov(Reg::R2, Reg::R3);
        asm.alu_imm(Alu::Rsh, Reg::R2, 16);
        asm.alu_imm(Alu::And, Reg::R3, 0xFFFF);
        asm.alu(Alu::Add, Reg::R3, Reg::R2);
    }
    asm.jump(If::Eq, Reg::R3, Reg::R5, wait);
    asm.place(clear);
}

/// At the labels of TCP and UDP: loads the checksum of the header from byte `from` on into R5, and
/// the protocol into R4. R1 points at the packet.
fn load_checksum(
    asm: &mut Asm,
    frame: Frame,
    from: usize,
    [tcp, udp]: [Label; 2],
    [clear, wait]: [Label; 2],
) {
    let loaded = asm.label();
    asm.place(tcp);
    Frame::find_bytes(asm, frame.offset(from + OF_TCP + 2), clear);
    asm.load(Width::H, Reg::R5, Reg::R1, frame.offset(from + OF_TCP) as i16);
    asm.mov_imm(Reg::R4, TCP);
    asm.goto(loaded);
    asm.place(udp);
    pass_tunnels(asm, frame, from, wait);
    asm.load(Width::H, Reg::R5, Reg::R1, frame.offset(from + OF_UDP) as i16);
    asm.mov_imm(Reg::R4, UDP);
    asm.place(loaded);
}

/// To R3, a length as a number, goes R4, the protocol, and both become words as in a packet.
fn add_length(asm: &mut Asm) {
    asm.alu(Alu::Add, Reg::R3, Reg::R4);
    // The sum may have a carry.
    asm.mov(Reg::R4, Reg::R3);
    asm.alu_imm(Alu::Rsh, Reg::R4, 16);
    asm.alu_imm(Alu::And, Reg::R3, 0xFFFF);
    asm.alu(Alu::Add, Reg::R3, Reg::R4);
    asm.swap_be(Reg::R3, 16);
}

fn pass_tunnels(asm: &mut Asm, frame: Frame, udp: usize, wait: Label) {
    asm.load(Width::H, Reg::R2, Reg::R1, frame.offset(udp + 2) as i16);
    TUNNELS.iter().for_each(|port| {
        asm.jump_imm(If::Eq, Reg::R2, port.to_be().into(), wait);
    });
}
