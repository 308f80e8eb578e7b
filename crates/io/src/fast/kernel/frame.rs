//! How a program reaches the frame at hand: what differs between the kernel's hooks.

use super::program::{OUTER, TPID, at, tag, word};
use crate::bpf::{Alu, Asm, Helper, If, Label, Reg, Width, buffer, context};

/// The kind of a program's context, which is in R6. Offsets are those of the frame without a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A buffer of the kernel's, which has the tag beside it.
    Buffer,
    /// The frame's own bytes, with or without a tag in them. [`load_len`](Frame::load_len) takes
    /// its length from this place on the stack.
    Memory { tagged: bool, len: i16 },
}

const TAG_LEN: usize = 4;
/// Bytes before a tag.
const ADDRESSES: usize = 12;
/// The device may have summed the packet up.
const RECOMPUTE_CHECKSUM: i32 = 1;

impl Frame {
    /// Whether the frame's bytes contain a tag.
    pub(crate) fn has_tag(self) -> bool {
        matches!(self, Frame::Memory { tagged: true, .. })
    }

    /// The offset, tag included.
    pub(crate) fn offset(self, offset: usize) -> usize {
        if self.has_tag() && offset >= ADDRESSES { offset + TAG_LEN } else { offset }
    }

    /// The frame's bytes, less a tag.
    pub(crate) fn load_len(self, asm: &mut Asm, to: Reg) {
        match self {
            Frame::Buffer => asm.load(Width::W, to, Reg::R6, buffer::LEN),
            Frame::Memory { len, .. } => asm.load(Width::D, to, Reg::R10, len),
        }
    }

    /// Bytes in each segment of a super-packet, zero for others. False, and no code, if there are
    /// none.
    pub(crate) fn load_segment_size(self, asm: &mut Asm, to: Reg) -> bool {
        if self == Frame::Buffer {
            asm.load(Width::W, to, Reg::R6, buffer::GSO_SIZE);
        }
        self == Frame::Buffer
    }

    /// Makes R1 point at the frame in memory, of which bytes up to `end` are there. R2 and R3 are
    /// lost.
    pub(crate) fn find_bytes(asm: &mut Asm, end: usize, absent: Label) {
        asm.load(Width::W, Reg::R1, Reg::R6, context::DATA);
        asm.load(Width::W, Reg::R2, Reg::R6, context::DATA_END);
        asm.mov(Reg::R3, Reg::R1);
        asm.alu_imm(Alu::Add, Reg::R3, end as i32);
        asm.jump(If::Gt, Reg::R3, Reg::R2, absent);
    }

    /// Reads bytes of the frame to a place on the stack.
    pub(crate) fn load_bytes(
        self,
        asm: &mut Asm,
        offset: usize,
        len: usize,
        place: i16,
        absent: Label,
    ) {
        if self == Frame::Buffer {
            asm.mov_imm(Reg::R2, offset as i32);
            return self.load_from(asm, len, place, absent);
        }
        let from = self.offset(offset);
        Frame::find_bytes(asm, from + len, absent);
        copy(asm, (Reg::R10, place), (Reg::R1, from as i16), len);
    }

    /// The same from the offset in R2 on, which is behind a tag.
    pub(crate) fn load_from(self, asm: &mut Asm, len: usize, place: i16, absent: Label) {
        if self.has_tag() {
            asm.alu_imm(Alu::Add, Reg::R2, TAG_LEN as i32);
        }
        asm.mov(Reg::R1, Reg::R6);
        asm.mov(Reg::R3, Reg::R10);
        asm.alu_imm(Alu::Add, Reg::R3, place.into());
        asm.mov_imm(Reg::R4, len as i32);
        asm.call(match self {
            Frame::Buffer => Helper::LoadBytes,
            Frame::Memory { .. } => Helper::XdpLoadBytes,
        });
        asm.jump_imm(If::Ne, Reg::R0, 0, absent);
    }

    /// Writes what R3 points at into the frame, all of it before a tag or behind one.
    pub(crate) fn store_bytes(self, asm: &mut Asm, offset: usize, len: usize, absent: Label) {
        if self == Frame::Buffer {
            asm.mov(Reg::R1, Reg::R6);
            asm.mov_imm(Reg::R2, offset as i32);
            asm.mov_imm(Reg::R4, len as i32);
            // A checksum over the packet begins behind the Ethernet header.
            asm.mov_imm(Reg::R5, if offset < OUTER { 0 } else { RECOMPUTE_CHECKSUM });
            asm.call(Helper::SkbStoreBytes);
            asm.jump_imm(If::Ne, Reg::R0, 0, absent);
            return;
        }
        let to = self.offset(offset);
        asm.mov(Reg::R5, Reg::R3);
        Frame::find_bytes(asm, to + len, absent);
        copy(asm, (Reg::R1, to as i16), (Reg::R5, 0), len);
    }

    /// Counts it as forwarded by the rule whose counts R0 points at.
    pub(super) fn count(self, asm: &mut Asm) {
        let (elsewhere, counted) = (asm.label(), asm.label());
        let atomically = |asm: &mut Asm, packets: usize, bytes: usize| {
            asm.mov_imm(Reg::R1, 1);
            asm.atomic_add(Reg::R0, at(packets), Reg::R1);
            self.load_len(asm, Reg::R1);
            asm.atomic_add(Reg::R0, at(bytes), Reg::R1);
        };
        if self == Frame::Buffer {
            return atomically(asm, word::PACKETS, word::BYTES);
        }
        asm.load(Width::W, Reg::R1, Reg::R6, context::RX_QUEUE_INDEX);
        asm.jump_imm(If::Ne, Reg::R1, 0, elsewhere);
        asm.bump(Reg::R0, at(word::PACKETS), 1, Reg::R1);
        self.load_len(asm, Reg::R1);
        asm.load(Width::D, Reg::R2, Reg::R0, at(word::BYTES));
        asm.alu(Alu::Add, Reg::R1, Reg::R2);
        asm.store(Width::D, Reg::R0, at(word::BYTES), Reg::R1);
        asm.goto(counted);
        asm.place(elsewhere);
        atomically(asm, word::PACKETS_ELSEWHERE, word::BYTES_ELSEWHERE);
        asm.place(counted);
    }

    /// Changes the tag as R9 says: it says so of the tag that this frame has, or has not.
    pub(crate) fn change_tag(self, asm: &mut Asm, failed: Label) {
        let (push, end) = (asm.label(), asm.label());
        match self {
            Frame::Buffer => {
                asm.mov(Reg::R1, Reg::R9);
                asm.alu_imm(Alu::And, Reg::R1, tag::POP);
                asm.jump_imm(If::Eq, Reg::R1, 0, push);
                asm.mov(Reg::R1, Reg::R6);
                asm.call(Helper::VlanPop);
                asm.mov(Reg::R1, Reg::R9);
                asm.alu_imm(Alu::And, Reg::R1, tag::PUSH);
                asm.jump_imm(If::Eq, Reg::R1, 0, end);
                asm.place(push);
                asm.mov(Reg::R1, Reg::R6);
                asm.mov_imm(Reg::R2, i32::from(TPID));
                asm.mov(Reg::R3, Reg::R9);
                asm.alu_imm(Alu::Rsh, Reg::R3, 16);
                asm.call(Helper::VlanPush);
            }
            Frame::Memory { tagged: false, .. } => {
                adjust_head(asm, -(TAG_LEN as i32), failed);
                Frame::find_bytes(asm, ADDRESSES + TAG_LEN, failed);
                copy(asm, (Reg::R1, 0), (Reg::R1, TAG_LEN as i16), ADDRESSES);
                asm.store_imm(Width::H, Reg::R1, ADDRESSES as i16, TPID.cast_signed().into());
                store_tci(asm);
            }
            Frame::Memory { tagged: true, .. } => {
                Frame::find_bytes(asm, ADDRESSES + TAG_LEN, failed);
                store_tci(asm);
                asm.mov(Reg::R2, Reg::R9);
                asm.alu_imm(Alu::And, Reg::R2, tag::PUSH);
                asm.jump_imm(If::Ne, Reg::R2, 0, end);
                // The last bytes first: the two places overlap.
                for (at, width) in [(8, Width::W), (0, Width::D)] {
                    asm.load(width, Reg::R2, Reg::R1, at);
                    asm.store(width, Reg::R1, TAG_LEN as i16 + at, Reg::R2);
                }
                adjust_head(asm, TAG_LEN as i32, failed);
            }
        }
        asm.place(end);
    }
}

/// Writes priority and VLAN of R9 into the tag of the frame that R1 points at.
fn store_tci(asm: &mut Asm) {
    asm.mov(Reg::R2, Reg::R9);
    asm.alu_imm(Alu::Rsh, Reg::R2, 16);
    asm.swap_be(Reg::R2, 16);
    asm.store(Width::H, Reg::R1, ADDRESSES as i16 + 2, Reg::R2);
}

fn adjust_head(asm: &mut Asm, by: i32, failed: Label) {
    asm.mov(Reg::R1, Reg::R6);
    asm.mov_imm(Reg::R2, by);
    asm.call(Helper::AdjustHead);
    asm.jump_imm(If::Ne, Reg::R0, 0, failed);
}

/// Copies bytes from the lowest on, by way of R4.
fn copy(asm: &mut Asm, (to, to_at): (Reg, i16), (from, from_at): (Reg, i16), len: usize) {
    let mut done = 0;
    for (width, bytes) in [(Width::D, 8), (Width::W, 4), (Width::H, 2), (Width::B, 1)] {
        while len - done >= bytes {
            asm.load(width, Reg::R4, from, from_at + done as i16);
            asm.store(width, to, to_at + done as i16, Reg::R4);
            done += bytes;
        }
    }
}
