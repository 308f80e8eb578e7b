//! An assembler for BPF programs: as much of the BPF instruction set as ours use.
//!
//! Read Documentation/bpf/standardization/instruction-set.rst (RFC 9669) first. What comes out is
//! judged by the kernel's verifier, so a program that is wrong is refused, not dangerous.

use std::os::fd::AsRawFd;

use super::Map;

/// A register. R0 is a call's result, R1 to R5 are its arguments and lost by it, R6 to R9 are kept,
/// R10 points behind the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// How many bytes a load or store moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// One.
    B = 0x10,
    /// Two.
    H = 0x08,
    /// Four.
    W = 0x00,
    /// Eight.
    D = 0x18,
}

/// Arithmetic on 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Or = 0x40,
    And = 0x50,
    Lsh = 0x60,
    Rsh = 0x70,
    Mov = 0xb0,
}

/// When a jump is taken, comparing 64 bits. `S` compares with sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum If {
    Eq = 0x10,
    Gt = 0x20,
    Ge = 0x30,
    Ne = 0x50,
    SGt = 0x60,
    SGe = 0x70,
    Lt = 0xa0,
    Le = 0xb0,
}

/// A function of the kernel (linux/bpf.h, `enum bpf_func_id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helper {
    /// R1 map, R2 pointer to the key: a pointer to the value, or null.
    MapLookup = 1,
    /// Nanoseconds of CLOCK_MONOTONIC.
    KtimeNs = 5,
    /// A random number of 32 bits.
    RandomU32 = 7,
    /// R1 context, R2 offset in the frame, R3 source, R4 length, R5 flags.
    SkbStoreBytes = 9,
    /// R1 context, R2 tag's protocol in network order, R3 its other half: adds an 802.1Q tag.
    VlanPush = 18,
    /// R1 context: removes the outer tag.
    VlanPop = 19,
    /// R1 interface number, R2 flags (0): the verdict that sends the frame there.
    Redirect = 23,
    /// R1 context, R2 offset in the frame, R3 destination, R4 length.
    LoadBytes = 26,
    /// R1 context, R2 bytes to put before the frame, R3 flags (0): they are zeroes.
    ChangeHead = 43,
    /// R1 context, R2 bytes to take off the beginning of the frame (negative: to add).
    AdjustHead = 44,
    /// R1 context, R2 bytes to add (negative: to take out), R3 where, R4 flags. Only if the
    /// kernel takes the packet for IP.
    AdjustRoom = 50,
    /// R1 map of sockets or devices, R2 key, R3 verdict if there is none.
    RedirectMap = 51,
    /// R1 context, R2 bytes to add to the end of the frame (negative: to cut off).
    AdjustTail = 65,
    /// R1 context: bytes of the frame.
    XdpLen = 188,
    /// R1 context, R2 offset in the frame, R3 destination, R4 length.
    XdpLoadBytes = 189,
    /// R1 context, R2 offset in the frame, R3 source, R4 length.
    StoreBytes = 190,
}

/// A verdict on a frame: a program's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Free it, and tell whoever traces such errors.
    Aborted = 0,
    /// Free it.
    Drop = 1,
    /// On to the stack.
    Pass = 2,
    /// Where a call has said.
    Redirect = 4,
}

/// Offsets in a program's context (linux/bpf.h, `struct xdp_md`).
pub mod context {
    /// Where the frame begins, 32 bits that the kernel turns into a pointer.
    pub const DATA: i16 = 0;
    /// Where it ends.
    pub const DATA_END: i16 = 4;
    /// The receive queue's number, 32 bits.
    pub const RX_QUEUE_INDEX: i16 = 16;
}

/// Offsets in the context of a program on packets that are the kernel's own (linux/bpf.h, `struct
/// __sk_buff`). Each is 32 bits.
pub mod buffer {
    /// Bytes, less a tag that is kept beside the packet.
    pub const LEN: i16 = 0;
    /// Whether a tag is kept beside the packet.
    pub const VLAN_PRESENT: i16 = 20;
    /// Its priority and VLAN.
    pub const VLAN_TCI: i16 = 24;
    /// Its protocol, in network order.
    pub const VLAN_PROTO: i16 = 28;
    /// The device's number.
    pub const IFINDEX: i16 = 40;
    /// Payload of each segment of a super-packet, zero for others.
    pub const GSO_SIZE: i16 = 176;
}

/// A place in a program that jumps lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// A program being written. Jumps only lead forward.
#[derive(Debug, Default)]
pub struct Asm {
    code: Vec<u64>,
    /// Jumps to be completed: where, and to which label.
    jumps: Vec<(usize, Label)>,
    labels: Vec<Option<usize>>,
}

impl Asm {
    /// An empty program.
    pub fn new() -> Asm {
        Asm::default()
    }

    fn push(&mut self, op: u8, to: Reg, from: u8, offset: i16, immediate: i32) {
        // The two registers are a C bit field, so they follow the machine's byte order.
        let registers = if cfg!(target_endian = "little") {
            to as u8 | from << 4
        } else {
            (to as u8) << 4 | from
        };
        let (o, i) = (offset.to_ne_bytes(), immediate.to_ne_bytes());
        self.code.push(u64::from_ne_bytes([op, registers, o[0], o[1], i[0], i[1], i[2], i[3]]));
    }

    /// `to = to OP from`
    pub fn alu(&mut self, op: Alu, to: Reg, from: Reg) {
        self.push(0x0f | op as u8, to, from as u8, 0, 0);
    }

    /// `to = to OP value`; the value is extended with its sign.
    pub fn alu_imm(&mut self, op: Alu, to: Reg, value: i32) {
        self.push(0x07 | op as u8, to, 0, 0, value);
    }

    /// `to = from`
    pub fn mov(&mut self, to: Reg, from: Reg) {
        self.alu(Alu::Mov, to, from);
    }

    /// `to = from`, of the low 32 bits, zeroes above.
    pub fn mov_low(&mut self, to: Reg, from: Reg) {
        self.push(0x0c | Alu::Mov as u8, to, from as u8, 0, 0);
    }

    /// `to = value`
    pub fn mov_imm(&mut self, to: Reg, value: i32) {
        self.alu_imm(Alu::Mov, to, value);
    }

    /// `to = value`, all 64 bits.
    pub fn mov_u64(&mut self, to: Reg, value: u64) {
        self.wide(to, 0, value as u32 as i32, (value >> 32) as u32 as i32);
    }

    fn wide(&mut self, to: Reg, what: u8, low: i32, high: i32) {
        self.push(0x18, to, what, 0, low);
        self.push(0, Reg::R0, 0, 0, high);
    }

    /// `to` becomes the map, as [`Helper::MapLookup`] wants it.
    pub fn mov_map(&mut self, to: Reg, map: &Map) {
        self.wide(to, 1, map.fd().as_raw_fd(), 0);
    }

    /// `to` points at the first value of an array.
    pub fn mov_value(&mut self, to: Reg, array: &Map) {
        self.wide(to, 2, array.fd().as_raw_fd(), 0);
    }

    /// `to = *(from + offset)`, zeroes above.
    pub fn load(&mut self, width: Width, to: Reg, from: Reg, offset: i16) {
        self.push(0x61 | width as u8, to, from as u8, offset, 0);
    }

    /// `*(to + offset) = from`
    pub fn store(&mut self, width: Width, to: Reg, offset: i16, from: Reg) {
        self.push(0x63 | width as u8, to, from as u8, offset, 0);
    }

    /// `*(to + offset) = value`
    pub fn store_imm(&mut self, width: Width, to: Reg, offset: i16, value: i32) {
        self.push(0x62 | width as u8, to, 0, offset, value);
    }

    /// `*(to + offset) += from`, 64 bits, whole whichever processors do so at once.
    pub fn atomic_add(&mut self, to: Reg, offset: i16, from: Reg) {
        self.push(0xdb, to, from as u8, offset, 0);
    }

    /// The same; whoever reads the sum also sees all that was stored before. `from` becomes the
    /// value from before.
    pub fn atomic_add_behind(&mut self, to: Reg, offset: i16, from: Reg) {
        const FETCH: i32 = 1;
        self.push(0xdb, to, from as u8, offset, FETCH);
    }

    /// `*(to + offset) += value`, 64 bits, by way of `scratch`; for a value that one processor
    /// changes.
    pub fn bump(&mut self, to: Reg, offset: i16, value: i32, scratch: Reg) {
        self.load(Width::D, scratch, to, offset);
        self.alu_imm(Alu::Add, scratch, value);
        self.store(Width::D, to, offset, scratch);
    }

    /// Between the machine's byte order and the network's; the bits above go to zero.
    pub fn swap_be(&mut self, reg: Reg, bits: i32) {
        self.push(0xdc, reg, 0, 0, bits);
    }

    /// A label to be placed later by [`place`](Asm::place).
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label is here.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Goes on at the label.
    pub fn goto(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(0x05, Reg::R0, 0, 0, 0);
    }

    /// Goes on at the label if `a OP b`.
    pub fn jump(&mut self, when: If, a: Reg, b: Reg, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(0x0d | when as u8, a, b as u8, 0, 0);
    }

    /// Goes on at the label if `a OP value`; the value is extended with its sign.
    pub fn jump_imm(&mut self, when: If, a: Reg, value: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(0x05 | when as u8, a, 0, 0, value);
    }

    /// Calls a function of the kernel.
    pub fn call(&mut self, helper: Helper) {
        self.push(0x85, Reg::R0, 0, 0, helper as i32);
    }

    /// R0 points at the value of an array that `number` names; too large a number leads to the
    /// label. R1 to R5, `number` and the topmost four bytes of the stack are lost.
    pub fn lookup(&mut self, array: &Map, number: Reg, absent: Label) {
        let Some(len) = array.part_len() else {
            self.store(Width::W, Reg::R10, -4, number);
            return self.lookup_stored(array, absent);
        };
        // The kernel's look-up would take the number by way of the stack.
        self.jump_imm(If::Ge, number, array.count() as i32, absent);
        self.alu_imm(Alu::Mul, number, len as i32);
        self.mov_value(Reg::R0, array);
        self.alu(Alu::Add, Reg::R0, number);
    }

    /// R0 points at this processor's value of a map [`per_processor`](Map::per_processor). R1 to R5
    /// and the topmost four bytes of the stack are lost.
    pub fn lookup_own(&mut self, map: &Map, absent: Label) {
        self.store_imm(Width::W, Reg::R10, -4, 0);
        self.lookup_stored(map, absent);
    }

    fn lookup_stored(&mut self, map: &Map, absent: Label) {
        self.mov(Reg::R2, Reg::R10);
        self.alu_imm(Alu::Add, Reg::R2, -4);
        self.mov_map(Reg::R1, map);
        self.call(Helper::MapLookup);
        self.jump_imm(If::Eq, Reg::R0, 0, absent);
    }

    /// Ends with a verdict.
    pub fn end(&mut self, verdict: Verdict) {
        self.mov_imm(Reg::R0, verdict as i32);
        self.exit();
    }

    /// Ends with the verdict in R0.
    pub fn exit(&mut self) {
        self.push(0x95, Reg::R0, 0, 0, 0);
    }

    /// The instructions, jumps completed.
    ///
    /// # Panics
    /// When a label was never placed, or lies behind a jump or too far ahead: the program's text
    /// is wrong, whatever the input.
    pub(super) fn finish(mut self) -> Vec<u64> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("a label that jumps lead to is placed");
            let distance = target.checked_sub(at + 1).expect("jumps lead forward");
            let offset = i16::try_from(distance).expect("jumps are short").to_ne_bytes();
            let mut bytes = self.code[at].to_ne_bytes();
            bytes[2..4].copy_from_slice(&offset);
            self.code[at] = u64::from_ne_bytes(bytes);
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_those_of_the_standard() {
        let mut asm = Asm::new();
        let end = asm.label();
        asm.mov_imm(Reg::R0, -1);
        asm.jump_imm(If::Ne, Reg::R1, 7, end);
        asm.load(Width::W, Reg::R2, Reg::R1, 16);
        asm.mov_u64(Reg::R3, 0x0102_0304_0506_0708);
        asm.place(end);
        asm.exit();
        let code = asm.finish();
        // RFC 9669: opcode, registers, offset, immediate.
        let expected: [(u8, u8, i16, i32); 6] = [
            (0xb7, 0x00, 0, -1),
            (0x55, 0x01, 3, 7),
            (0x61, 0x12, 16, 0),
            (0x18, 0x03, 0, 0x0506_0708),
            (0, 0, 0, 0x0102_0304),
            (0x95, 0, 0, 0),
        ];
        if cfg!(target_endian = "little") {
            let fields = |word: &u64| {
                let b = word.to_ne_bytes();
                let immediate = i32::from_ne_bytes([b[4], b[5], b[6], b[7]]);
                (b[0], b[1], i16::from_ne_bytes([b[2], b[3]]), immediate)
            };
            assert_eq!(code.iter().map(fields).collect::<Vec<_>>(), expected);
        }
    }
}
