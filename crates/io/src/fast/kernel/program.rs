//! The common parts of all drivers' programs: the maps and their words, how a rule is found
//! and how it is carried out. A driver's program makes the key of a frame, calls [`decide`] and,
//! in the same program or in another, [`carry_out`].

use std::io;
use std::sync::atomic::Ordering;

use super::super::{Action, FRONT_MAX, FabricLink, Flow, Front, Key, Routed, Step, Tag};
use super::fabric::{
    address_routed, check_push, find_hop, load_header_len, process_hop, put_front, take_off,
};
use super::frame::Frame;
use super::routed::{Place, find_routed, take_step};
use crate::bpf::{Alu, Asm, Helper, If, Label, Map, Reg, Width};
use plexus_wire::fabric::ROUTER_HOP;

/// Bytes of the Ethernet header before a header of the fabric or of IP.
pub(crate) const OUTER: usize = 14;

/// The maps of all programs.
#[derive(Debug)]
pub struct Maps {
    /// Rules of flows and hops by [`key`], and what leads to other rules.
    pub(crate) rules: Map,
    /// How often `rules` has changed: one value of one word.
    pub(crate) changes: Map,
    /// Rules of routed flows by [`routed::key`].
    pub(crate) routed: Map,
    /// By rule: [`word`].
    pub(crate) counts: Map,
    /// By port: [`of_port`].
    pub(crate) ports: Map,
}

impl Maps {
    /// Sets the value of a key of `rules`.
    pub(crate) fn set_rule(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.change(|| self.rules.set(key, value))
    }

    /// The same for a key that has no value yet.
    pub(crate) fn add_rule(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.change(|| self.rules.add(key, value))
    }

    pub(crate) fn remove_rule(&self, key: &[u8]) -> io::Result<()> {
        self.change(|| self.rules.remove(key))
    }

    /// Programs that keep rules look them up anew from now on. And from the beginning of the
    /// change: another worker's change may have freed memory of a rule, which this one uses for
    /// another while a program still reads it.
    fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        let count = || self.changes.words()[0].fetch_add(1, Ordering::SeqCst);
        count();
        let done = change();
        count();
        done
    }
}

/// Bytes of a rule's key, and words of its value.
pub(crate) const KEY_LEN: usize = 24;
pub(crate) const VALUE_WORDS: usize = 2;

/// Words of a rule's counts.
pub(crate) mod word {
    pub(crate) const PACKETS: usize = 0;
    pub(crate) const BYTES: usize = 1;
    pub(crate) const PASSED: usize = 2;
    pub(crate) const SETTLED: usize = 3;
    pub(crate) const HOLDS: usize = 4;
    pub(crate) const HELD: usize = 5;
    /// Of a routed flow, and of a delivery of what was routed: the Ethernet addresses of the next
    /// hop and the router there, 12 bytes, and the longest IP packet, 4 bytes.
    pub(crate) const STEP: usize = 6;
    /// Packets and bytes of other queues than the first, where a rule's frames come by queues.
    /// Those of the first come one after the other, and need no atomics.
    pub(crate) const PACKETS_ELSEWHERE: usize = 8;
    pub(crate) const BYTES_ELSEWHERE: usize = 9;
    /// Bytes taken off in front.
    pub(crate) const TAKEN_OFF: usize = 10;
    /// Bytes that are put before the frames of a flow.
    pub(crate) const FRONT: usize = 11;
    /// Two cache lines: the second is rarely needed.
    pub(crate) const COUNT: usize = 16;
}

/// The packets that a rule holds back while it waits: [`word::HOLDS`].
pub(crate) mod holds {
    pub(crate) const NOTHING: i32 = 0;
    pub(crate) const ALL: i32 = 1;
    pub(crate) const SUPER_PACKETS: i32 = 2;
}

/// Whether packets may owe something at a port of the fabric: [`of_port::OWED`].
pub(crate) mod owed {
    pub(crate) const MAY_LEAVE: i32 = 1;
    pub(crate) const COMES: i32 = 2;
}

/// Words of a port.
pub(crate) mod of_port {
    /// Where its packets leave: the device's number, and above it the longest frame; zero if none
    /// may.
    pub(crate) const OUT: usize = 0;
    /// Whether its packets may be forwarded.
    pub(crate) const IN: usize = 1;
    /// How often it has been closed: rules to it from before are void.
    pub(crate) const CLOSED: usize = 2;
    /// Of a port of the fabric: the Ethernet header of frames that it sends, in two words.
    pub(crate) const HEADER: usize = 3;
    /// The time, in nanoseconds of CLOCK_MONOTONIC, until which its packets may be forwarded
    /// although no process has its socket.
    pub(crate) const UNTIL: usize = 5;
    /// Of a port of the fabric: [`owed`](super::owed).
    pub(crate) const OWED: usize = 6;
    /// A packet that a rule forwards gives a sample if a random number of 32 bits is less than
    /// this. Zero: no packet does.
    pub(crate) const SAMPLE: usize = 7;
    /// Samples taken so far.
    pub(crate) const SAMPLED: usize = 8;
    /// No sample is taken once there have been so many.
    pub(crate) const SAMPLED_MAX: usize = 9;
    /// Samples skipped because of that limit.
    pub(crate) const SAMPLES_MISSED: usize = 10;
    pub(crate) const COUNT: usize = 11;
}

/// Words of the scratch, which R7 points at: the program's notes on the frame at hand.
pub(crate) mod scratch {
    /// The decision, where another program carries it out.
    pub(crate) const DECISION: usize = 0;
    /// The rule's value.
    pub(crate) const RULE: usize = 1;
    pub(crate) const TAG: usize = 2;
    /// Its port's first word.
    pub(crate) const OUT: usize = 3;
    /// The device that the packet came in by.
    pub(crate) const DEVICE: usize = 4;
    /// Of a frame in the fabric: the first eight bytes of its header, and the eight from its first
    /// hop on, as numbers.
    pub(crate) const FIXED: usize = 5;
    pub(crate) const HOPS: usize = 6;
    /// The input port's [`of_port::SAMPLE`](super::of_port::SAMPLE).
    pub(crate) const SAMPLE: usize = 7;
    pub(crate) const COUNT: usize = 8;
}

/// Places on the stack of a program that [decides](decide); a look-up uses the topmost 4 bytes.
pub(crate) mod stack {
    use super::super::routed;

    /// The key of the frame.
    pub(crate) const KEY: i16 = -40;
    pub(crate) const NUMBER: i16 = -48;
    /// Bytes of the IP packet that is to be routed, zero if none is.
    pub(crate) const LEN: i16 = -56;
    pub(crate) const IP: i16 = LEN - routed::STACK;
    /// All that is below is the driver's.
    pub(crate) const END: i16 = IP;
}

/// The kind of a rule: the lowest byte of its second word. Its work on tag and front is in the next
/// byte, and a tag to be pushed in the next two, or the length of what is put before the frame.
pub(crate) mod kind {
    pub(crate) const FLOW: i32 = 0;
    pub(crate) const HOP: i32 = 1;
    pub(crate) const ROUTED_V4: i32 = 2;
    pub(crate) const ROUTED_V6: i32 = 3;
    /// It is no rule: frames with this Ethernet header are the fabric's.
    pub(crate) const LINK: i32 = 4;
    /// It is no rule: frames of this flow are to the router. The first word is the door's number.
    pub(crate) const DOOR: i32 = 5;
    /// Packets that leave the fabric.
    pub(crate) const DELIVERY: i32 = 6;
}

/// The work of a rule on the tag, in the second byte; or on what is put before the frames of a flow
/// that enters the fabric, which have no tag. Before either, the fabric's header may be taken off.
pub(crate) mod tag {
    pub(crate) const POP: i32 = 1 << 8;
    pub(crate) const PUSH: i32 = 2 << 8;
    pub(crate) const FRONT: i32 = 4 << 8;
    pub(crate) const ALL: i32 = 7 << 8;
    pub(crate) const HEADER_OFF: i32 = 8 << 8;
}

/// An 802.1Q tag's protocol, as 16 bits in network order.
pub(crate) const TPID: u16 = 0x8100u16.to_be();

/// The key of a hop has this bit where the key of a flow has its tag's protocol or nothing. The hop
/// is in the lowest byte. A delivery also has its station's address, and another bit if a router of
/// the fabric has sent the packets. Packets to the router here have their frame's Ethernet header.
pub(crate) const HOP_KEY: u32 = 1 << 8;
pub(crate) const ROUTED_KEY: u32 = 1 << 9;

/// A rule's key as the filter makes it: the device, the tag with its protocol, 14 bytes of header.
/// Of a routed flow it is that of its frames.
pub(crate) fn key(device: u32, key: &Key) -> [u8; KEY_LEN] {
    match key {
        Key::Flow(flow) | Key::Routed(Routed { flow, .. }) => {
            let Flow { tag, destination, source, ethertype, .. } = flow;
            let tag = match key.is_from_node() {
                true => HOP_KEY | u32::from(ROUTER_HOP),
                false => tag.map_or(0, |tci| u32::from(TPID) << 16 | u32::from(tci)),
            };
            let mut header = [0; 14];
            header[..6].copy_from_slice(&destination.0);
            header[6..12].copy_from_slice(&source.0);
            header[12..].copy_from_slice(&ethertype.to_be_bytes());
            key_of(device, tag, &header)
        }
        Key::Hop { hop, .. } => key_of(device, HOP_KEY | u32::from(*hop), &[0; 14]),
        Key::Delivery { hop, destination, is_routed, .. } => {
            let mut header = [0; 14];
            header[..6].copy_from_slice(&destination.0);
            let routed = if *is_routed { ROUTED_KEY } else { 0 };
            key_of(device, HOP_KEY | routed | u32::from(*hop), &header)
        }
    }
}

/// The key of frames that come from a node of the fabric, and its value.
pub(crate) fn link(device: u32, link: &FabricLink) -> ([u8; KEY_LEN], [u8; VALUE_WORDS * 8]) {
    (key_of(device, 0, &link.back), value_of(0, kind::LINK as u64))
}

/// The value that leads from a flow's frames to the rules of its IP packets.
pub(crate) fn door(number: u64) -> [u8; VALUE_WORDS * 8] {
    value_of(number, kind::DOOR as u64)
}

fn key_of(device: u32, tag: u32, header: &[u8; 14]) -> [u8; KEY_LEN] {
    let mut bytes = [0; KEY_LEN];
    bytes[..4].copy_from_slice(&device.to_ne_bytes());
    bytes[4..8].copy_from_slice(&tag.to_ne_bytes());
    bytes[8..22].copy_from_slice(header);
    bytes
}

/// A rule's value: its number and its ports; what it does, and above it how often the output port
/// had been closed.
pub(crate) fn value(number: u32, key: &Key, action: &Action, closed: u32) -> [u8; VALUE_WORDS * 8] {
    let ports = u64::from(action.out_port) << 32 | u64::from(key.in_port()) << 48;
    let kind = match key {
        Key::Hop { .. } => kind::HOP,
        Key::Delivery { .. } => kind::DELIVERY,
        Key::Flow(_) => kind::FLOW,
        Key::Routed(_) if action.step.is_none() => kind::FLOW,
        Key::Routed(Routed { source, .. }) if source.is_ipv4() => kind::ROUTED_V4,
        Key::Routed(_) => kind::ROUTED_V6,
    };
    let is_hop = matches!(key, Key::Hop { .. });
    let front_len = action.front.filter(|_| !is_hop).map(|front| front.bytes().len() as u16);
    let header = if key.is_in_fabric() && !is_hop { tag::HEADER_OFF } else { 0 };
    let (tag, tci) = match action.tag {
        Tag::Keep => front_len.map_or((0, 0), |len| (tag::FRONT, len)),
        Tag::Pop => (tag::POP, 0),
        Tag::Push(tci) => (tag::PUSH, tci),
        Tag::Swap(tci) => (tag::POP | tag::PUSH, tci),
    };
    let what = (kind | tag | header) as u64 | u64::from(tci) << 16;
    value_of(ports | u64::from(number), what | u64::from(closed) << 32)
}

fn value_of(first: u64, second: u64) -> [u8; VALUE_WORDS * 8] {
    let mut bytes = [0; VALUE_WORDS * 8];
    bytes[..8].copy_from_slice(&first.to_ne_bytes());
    bytes[8..].copy_from_slice(&second.to_ne_bytes());
    bytes
}

/// The words of a rule's [`word::STEP`]. One that does not route allows IP packets of any length.
pub(crate) fn step(step: Option<&Step>) -> [u64; 2] {
    let (mut bytes, mut longest) = ([0; 16], u16::MAX);
    if let Some(Step { addresses, mtu }) = step {
        bytes[..12].copy_from_slice(addresses);
        longest = *mtu;
    }
    bytes[12..].copy_from_slice(&u32::from(longest).to_ne_bytes());
    words(&bytes)
}

/// The words of a rule's [`word::FRONT`]; zeroes for one without.
pub(crate) fn front(front: Option<&Front>) -> [u64; FRONT_MAX / 8] {
    let mut bytes = [0; FRONT_MAX];
    if let Some(front) = front {
        bytes[..front.bytes().len()].copy_from_slice(front.bytes());
    }
    let (words, _) = bytes.as_chunks();
    std::array::from_fn(|n| u64::from_ne_bytes(words[n]))
}

/// Bytes as words of a map.
pub(crate) fn words(bytes: &[u8; 16]) -> [u64; 2] {
    let (words, _) = bytes.as_chunks();
    [0, 1].map(|n| u64::from_ne_bytes(words[n]))
}

/// The offset of a word.
pub(crate) const fn at(word: usize) -> i16 {
    (word * 8) as i16
}

/// R0 points at the port whose number is 16 bits of R8.
pub(crate) fn find_port(asm: &mut Asm, maps: &Maps, shift: i32, absent: Label) {
    asm.mov(Reg::R1, Reg::R8);
    asm.alu_imm(Alu::Rsh, Reg::R1, shift);
    asm.alu_imm(Alu::And, Reg::R1, 0xFFFF);
    asm.lookup(&maps.ports, Reg::R1, absent);
}

/// R0 points at the counts of the rule whose number is the low half of R8.
pub(crate) fn find_counts(asm: &mut Asm, maps: &Maps, absent: Label) {
    asm.mov_low(Reg::R1, Reg::R8);
    asm.lookup(&maps.counts, Reg::R1, absent);
}

/// R0 points at the rule whose key stands on the stack.
pub(crate) fn point_at_rule(asm: &mut Asm, rules: &Map, key: i16, absent: Label) {
    asm.mov(Reg::R2, Reg::R10);
    asm.alu_imm(Alu::Add, Reg::R2, key.into());
    asm.mov_map(Reg::R1, rules);
    asm.call(Helper::MapLookup);
    asm.jump_imm(If::Eq, Reg::R0, 0, absent);
}

/// The rule whose key stands on the stack in R8 and R9.
pub(crate) fn find_rule(asm: &mut Asm, rules: &Map, key: i16, absent: Label) {
    point_at_rule(asm, rules, key, absent);
    asm.load(Width::D, Reg::R8, Reg::R0, 0);
    asm.load(Width::D, Reg::R9, Reg::R0, 8);
}

/// The kind of the rule in R9.
fn kind_of_rule(asm: &mut Asm, to: Reg) {
    asm.mov(to, Reg::R9);
    asm.alu_imm(Alu::And, to, 0xFF);
}

/// Goes on behind this code if the rule in R9 puts something before the frame. R2 is lost.
pub(super) fn if_front(asm: &mut Asm, none: Label) {
    asm.mov(Reg::R2, Reg::R9);
    asm.alu_imm(Alu::And, Reg::R2, tag::FRONT);
    asm.jump_imm(If::Eq, Reg::R2, 0, none);
}

/// Goes on behind this code if the rule in R9 takes the fabric's header off. R2 is lost.
fn if_header_off(asm: &mut Asm, not: Label) {
    asm.mov(Reg::R2, Reg::R9);
    asm.alu_imm(Alu::And, Reg::R2, tag::HEADER_OFF);
    asm.jump_imm(If::Eq, Reg::R2, 0, not);
}

/// Adds to a frame's length what the rule in R9 puts before it, less what it takes off. R2 is lost.
fn load_len_after(asm: &mut Asm, len: Reg) {
    let (no_front, end) = (asm.label(), asm.label());
    asm.mov(Reg::R2, Reg::R9);
    asm.alu_imm(Alu::And, Reg::R2, tag::FRONT | tag::HEADER_OFF);
    asm.jump_imm(If::Eq, Reg::R2, 0, end);
    if_front(asm, no_front);
    asm.mov(Reg::R2, Reg::R9);
    asm.alu_imm(Alu::Lsh, Reg::R2, 32);
    asm.alu_imm(Alu::Rsh, Reg::R2, 48);
    asm.alu(Alu::Add, len, Reg::R2);
    asm.place(no_front);
    if_header_off(asm, end);
    load_header_len(asm, Reg::R2);
    asm.alu(Alu::Sub, len, Reg::R2);
    asm.place(end);
}

/// The longest headers before the payload of a segment in the fabric: those in front, and of
/// Ethernet, IPv6 and TCP.
const SEGMENT_HEADERS_MAX: usize = FRONT_MAX + OUTER + 40 + 60;

/// Decides on a frame whose key stands on the stack, and whose rule is in R8 and R9: R6 is the
/// context, R7 points at the scratch, and the scratch gets the rule. It goes on behind this code if
/// the rule forwards, or else to `wait`, in both cases with the rule in R8 and R9, and R0 pointing
/// at its counts.
pub(crate) fn decide(asm: &mut Asm, maps: &Maps, frame: Frame, to_socket: Label, wait: Label) {
    use stack::{IP, KEY, LEN, NUMBER};
    let (no_link, no_door, found) = (asm.label(), asm.label(), asm.label());
    let (no_super, segments, fits) = (asm.label(), asm.label(), asm.label());
    let (may_owe, may_pass) = (asm.label(), asm.label());

    // An entry that is no rule leads to one.
    asm.store_imm(Width::D, Reg::R10, LEN, 0);
    asm.jump_imm(If::Ne, Reg::R9, kind::LINK, no_link);
    if frame.has_tag() {
        asm.goto(to_socket);
    } else {
        find_hop(asm, maps, frame, (KEY, NUMBER, IP, LEN), to_socket);
        asm.goto(found);
    }
    asm.place(no_link);
    asm.jump_imm(If::Ne, Reg::R9, kind::DOOR, no_door);
    find_routed(asm, &maps.routed, (frame, Place::First), (KEY, IP, LEN), to_socket);
    asm.place(no_door);
    if !frame.has_tag() {
        if_front(asm, found);
        check_push(asm, frame, (KEY, IP, LEN), to_socket);
    }
    asm.place(found);

    // Its ports.
    find_port(asm, maps, 48, to_socket);
    asm.load(Width::D, Reg::R1, Reg::R0, at(of_port::IN));
    asm.jump_imm(If::Eq, Reg::R1, 0, to_socket);
    asm.load(Width::D, Reg::R1, Reg::R0, at(of_port::OWED));
    asm.alu_imm(Alu::And, Reg::R1, owed::COMES);
    asm.store(Width::D, Reg::R10, NUMBER, Reg::R1);
    if frame == Frame::Buffer {
        asm.load(Width::D, Reg::R1, Reg::R0, at(of_port::SAMPLE));
        asm.store(Width::D, Reg::R7, at(scratch::SAMPLE), Reg::R1);
    }
    find_port(asm, maps, 32, to_socket);
    asm.load(Width::D, Reg::R3, Reg::R0, at(of_port::OUT));
    asm.jump_imm(If::Eq, Reg::R3, 0, to_socket);
    asm.store(Width::D, Reg::R7, at(scratch::OUT), Reg::R3);
    asm.load(Width::D, Reg::R1, Reg::R0, at(of_port::CLOSED));
    asm.mov(Reg::R2, Reg::R9);
    asm.alu_imm(Alu::Rsh, Reg::R2, 32);
    asm.jump(If::Ne, Reg::R1, Reg::R2, to_socket);
    // From a cable that brings owed work a packet goes on in the fabric only by a cable that takes
    // it.
    kind_of_rule(asm, Reg::R4);
    asm.load(Width::D, Reg::R1, Reg::R10, NUMBER);
    asm.jump_imm(If::Eq, Reg::R1, 0, may_pass);
    asm.jump_imm(If::Eq, Reg::R4, kind::HOP, may_owe);
    if_front(asm, may_pass);
    asm.place(may_owe);
    asm.load(Width::D, Reg::R1, Reg::R0, at(of_port::OWED));
    asm.alu_imm(Alu::And, Reg::R1, owed::MAY_LEAVE);
    asm.jump_imm(If::Eq, Reg::R1, 0, to_socket);
    asm.place(may_pass);
    // A super-packet is cut by the device that sends it. In the fabric it is cut behind the last
    // link, and its segments are to fit the links.
    if frame.load_segment_size(asm, Reg::R1) {
        asm.jump_imm(If::Eq, Reg::R1, 0, no_super);
        asm.jump_imm(If::Eq, Reg::R4, kind::HOP, segments);
        if_front(asm, fits);
        asm.place(segments);
        asm.load(Width::D, Reg::R2, Reg::R0, at(of_port::OWED));
        asm.alu_imm(Alu::And, Reg::R2, owed::MAY_LEAVE);
        asm.jump_imm(If::Eq, Reg::R2, 0, to_socket);
        asm.alu_imm(Alu::Add, Reg::R1, SEGMENT_HEADERS_MAX as i32);
        asm.alu_imm(Alu::Rsh, Reg::R3, 32);
        asm.jump(If::Gt, Reg::R1, Reg::R3, to_socket);
        asm.goto(fits);
    }
    asm.place(no_super);
    frame.load_len(asm, Reg::R1);
    load_len_after(asm, Reg::R1);
    asm.alu_imm(Alu::Rsh, Reg::R3, 32);
    asm.jump(If::Gt, Reg::R1, Reg::R3, to_socket);
    asm.place(fits);

    // Whether all that went to the socket have left.
    find_counts(asm, maps, to_socket);
    asm.store(Width::D, Reg::R7, at(scratch::RULE), Reg::R8);
    asm.store(Width::D, Reg::R7, at(scratch::TAG), Reg::R9);
    asm.load(Width::D, Reg::R1, Reg::R10, LEN);
    asm.load(Width::W, Reg::R2, Reg::R0, at(word::STEP) + 12);
    asm.jump(If::Gt, Reg::R1, Reg::R2, wait);
    asm.load(Width::D, Reg::R1, Reg::R0, at(word::PASSED));
    asm.load(Width::D, Reg::R2, Reg::R0, at(word::SETTLED));
    asm.jump(If::Ne, Reg::R1, Reg::R2, wait);
}

/// Counts a frame as forwarded, and changes it. Behind this code it is to be sent. The rule is in
/// R8 and in the scratch, R0 points at its counts. It goes to `failed` if the frame is shorter than
/// was decided on, or the kernel has no memory. Then it is lost.
pub(crate) fn carry_out(asm: &mut Asm, maps: &Maps, frame: Frame, failed: Label) {
    let (step, tag, front, send) = (asm.label(), asm.label(), asm.label(), asm.label());
    frame.count(asm);
    asm.load(Width::W, Reg::R9, Reg::R7, at(scratch::TAG) + LOW_HALF);
    asm.mov(Reg::R1, Reg::R9);
    asm.alu_imm(Alu::And, Reg::R1, 0xFF);
    asm.jump_imm(If::Eq, Reg::R1, kind::FLOW, tag);
    if !frame.has_tag() {
        let hop = asm.label();
        asm.jump_imm(If::Eq, Reg::R1, kind::HOP, hop);
        asm.jump_imm(If::Ne, Reg::R1, kind::DELIVERY, step);
        asm.mov(Reg::R8, Reg::R0);
        take_off(asm, frame, failed);
        address_routed(asm, frame, failed);
        asm.goto(send);
        asm.place(hop);
        process_hop(asm, maps, frame, failed);
        asm.goto(send);
    }
    asm.place(step);
    asm.mov(Reg::R8, Reg::R0);
    if !frame.has_tag() {
        let is_first = asm.label();
        if_header_off(asm, is_first);
        take_off(asm, frame, failed);
        asm.place(is_first);
        asm.mov(Reg::R0, Reg::R8);
    }
    take_step(asm, frame, failed);
    asm.mov(Reg::R0, Reg::R8);
    asm.load(Width::D, Reg::R8, Reg::R7, at(scratch::RULE));
    asm.place(tag);
    asm.mov(Reg::R1, Reg::R9);
    asm.alu_imm(Alu::And, Reg::R1, tag::ALL);
    asm.jump_imm(If::Eq, Reg::R1, 0, send);
    if !frame.has_tag() {
        asm.jump_imm(If::Eq, Reg::R1, tag::FRONT, front);
    }
    frame.change_tag(asm, failed);
    if !frame.has_tag() {
        asm.goto(send);
        asm.place(front);
        put_front(asm, frame, failed);
    }
    asm.place(send);
}

/// Ends a program with the verdict that sends the frame out by the device whose number is in R1.
pub(crate) fn redirect(asm: &mut Asm) {
    asm.mov_imm(Reg::R2, 0);
    asm.call(Helper::Redirect);
    asm.exit();
}

/// Where the low half of a 64-bit word is.
pub(crate) const LOW_HALF: i16 = if cfg!(target_endian = "little") { 0 } else { 4 };
