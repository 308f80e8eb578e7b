//! The packet descriptor: 32 bytes that stand for a frame in the worker's pool.

use std::mem::{MaybeUninit, offset_of};

use arrayvec::ArrayVec;

/// A port's number on its box, in the order of the configuration.
pub type PortId = u16;

/// No port: a packet that the box itself made, or one not yet looked up.
pub const PORT_NONE: PortId = PortId::MAX;

/// How many packets travel together. 64 keeps the descriptors of a batch (2 KiB) and the headers
/// they point at (4 KiB) in the first-level cache, and is enough to hide memory latency.
pub const BATCH: usize = 64;

/// Packets that travel together, in order.
pub type Batch = ArrayVec<Packet, BATCH>;

/// Takes every packet out of a batch, in order; packets that are not taken leak. `drain` does the
/// same, but passes each packet as an `Option`, which the compiler disassembles and reassembles
/// field by field.
#[inline(always)]
pub fn take_each(batch: &mut Batch) -> impl Iterator<Item = Taken<'_>> {
    let count = batch.len();
    // SAFETY: a shorter length than before.
    unsafe { batch.set_len(0) };
    // SAFETY: the first `count` packets were the batch's, which no longer has them; it is borrowed
    // as long as they are, and nothing else refers to them.
    let packets = unsafe { std::slice::from_raw_parts_mut(batch.as_mut_ptr(), count) };
    packets.iter_mut().map(Taken)
}

/// A packet taken out of a batch that still lies in its place there, from where it can be copied
/// directly to its destination.
#[must_use = "a packet that is dropped leaks its frame"]
pub struct Taken<'a>(&'a mut Packet);

impl Taken<'_> {
    /// Appends it to another batch; panics if that is full.
    #[inline(always)]
    pub fn move_to(self, batch: &mut Batch) {
        let len = batch.len();
        assert!(len < BATCH, "the batch has no room");
        // SAFETY: there is room behind the first `len`, and a packet has one `Taken`, which ends
        // here.
        unsafe {
            std::ptr::copy_nonoverlapping(self.0, batch.as_mut_ptr().add(len), 1);
            batch.set_len(len + 1);
        }
    }

    /// The packet itself.
    #[inline(always)]
    pub fn into_packet(self) -> Packet {
        // SAFETY: a packet has one `Taken`, which ends here.
        unsafe { std::ptr::read(self.0) }
    }
}

impl std::ops::Deref for Taken<'_> {
    type Target = Packet;

    #[inline(always)]
    fn deref(&self) -> &Packet {
        self.0
    }
}

/// Appends packets to a batch, all at once; panics if it has no room for them.
///
/// # Safety
/// The caller must not use `packets` again: they are the batch's now.
#[inline(always)]
pub(crate) unsafe fn append(batch: &mut Batch, packets: &[Packet]) -> Survey {
    let len = batch.len();
    assert!(packets.len() <= BATCH - len, "the batch has no room");
    // SAFETY: there is room behind the first `len`, and a slice does not overlap a batch that is
    // borrowed mutably; what is written there are packets.
    unsafe {
        let end = batch.as_mut_ptr().add(len).cast();
        let slots = std::slice::from_raw_parts_mut(end, packets.len());
        let survey = copy_and_survey(packets, slots);
        batch.set_len(len + packets.len());
        survey
    }
}

/// A frame in a [`Pool`](crate::Pool), with its metadata. Owning the descriptor is owning the
/// frame: it is neither `Clone` nor `Copy`, and must end in `Pool::free` or in a port.
///
/// Aligned to its size, so that it lies in one cache line and is copied at once.
#[derive(Debug)]
#[repr(C, align(32))]
#[must_use = "a packet that is dropped leaks its frame: give it back with Pool::free"]
pub struct Packet {
    /// The frame's number and, above it, the tag of its pool: `Pool::index` takes them apart.
    pub(crate) frame: u32,
    pub(crate) len: u32,
    pub(crate) start: u16,
    /// The port it came in by.
    pub in_port: PortId,
    /// The lookup stage's verdict; its encoding belongs to the plane.
    pub verdict: u32,
    /// The VLAN it was classified into, 1 to 4094; 0 before classification.
    pub vlan: u16,
    /// Traffic class, 0 (best effort) to 7 (network control).
    pub priority: u8,
    /// For the plane's own use (properties of the frame itself, not of its classification).
    pub flags: u8,
    /// Checksum and segmentation work that is still owed.
    pub offload: Offload,
    /// So that every byte has a value.
    pub(crate) spare: u16,
}

impl Packet {
    pub(crate) fn new(frame: u32, start: u16, len: u32) -> Packet {
        Packet {
            frame,
            len,
            start,
            in_port: PORT_NONE,
            verdict: 0,
            offload: Offload::NONE,
            vlan: 0,
            priority: 0,
            flags: 0,
            spare: 0,
        }
    }

    /// Resets it to a packet just received on a port: the sender's metadata does not travel on a
    /// cable. For cables in memory, which pass frames without a copy.
    #[inline]
    pub fn arrive(&mut self, port: PortId) {
        *self = Packet { in_port: port, ..Packet::new(self.frame, self.start, self.len) };
    }

    /// Bytes in the frame, from the destination address to the last byte before the FCS.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// What output ports ask about it, in one word.
    #[inline(always)]
    pub fn form(&self) -> Form {
        // SAFETY: eight bytes of this packet from `vlan` on, all of them initialised (there is no
        // padding between the fields), at an address that is a multiple of eight.
        Form(unsafe { std::ptr::from_ref(self).cast::<u64>().add(FORM_AT).read() } & FORM)
    }

    /// True if the packet owes no work to a device.
    #[inline(always)]
    pub fn is_finished(&self) -> bool {
        /// The bits that are set if work is owed.
        const OWED: u16 = u16::from_ne_bytes([Checksum::Partial as u8, 0xFF]);
        // Of two bytes, not of the whole form: some of that may have been stored just before, and a
        // load of more than was stored waits for the cache.
        let Offload { checksum, segmentation, .. } = self.offload;
        u16::from_ne_bytes([checksum as u8, segmentation as u8]) & OWED == 0
    }

    /// Sets its classification in one store.
    #[inline(always)]
    pub fn set_class(&mut self, class: Class) {
        // SAFETY: four bytes of this packet, those of `vlan`, `priority` and `flags`, which `class`
        // has in the same order, at an address that is a multiple of four.
        unsafe { std::ptr::from_mut(self).cast::<Class>().add(CLASS_AT).write(class) };
    }

    /// True for a frame with no bytes yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The frame's number in its pool, unique among the packets alive.
    pub fn frame(&self) -> usize {
        (self.frame & 0x00FF_FFFF) as usize
    }

    /// Unused bytes before the first one: room to push headers.
    pub fn headroom(&self) -> usize {
        self.start as usize
    }
}

/// A packet's classification: the fields of [`Packet`] with these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(4))]
pub struct Class {
    /// Its VLAN.
    pub vlan: u16,
    /// Its traffic class.
    pub priority: u8,
    /// The plane's flags.
    pub flags: u8,
}

/// The classes before [`Packet::vlan`].
const CLASS_AT: usize = std::mem::offset_of!(Packet, vlan) / size_of::<Class>();

const _: () = {
    use std::mem::offset_of;
    let at = size_of::<Class>() * CLASS_AT;
    assert!(size_of::<Class>() == 4 && align_of::<Packet>() >= 4);
    assert!(offset_of!(Packet, vlan) == at + offset_of!(Class, vlan));
    assert!(offset_of!(Packet, priority) == at + offset_of!(Class, priority));
    assert!(offset_of!(Packet, flags) == at + offset_of!(Class, flags));
};

/// What output ports ask about a packet: its VLAN, its flags, and whether work is owed. Equal for
/// packets that are equal in all three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form(u64);

/// The words before [`Packet::vlan`].
const FORM_AT: usize = std::mem::offset_of!(Packet, vlan) / 8;
/// Mask of VLAN, priority, flags, checksum state, segmentation and checksum start: the parts of a
/// [`Form`]. Of the checksum it includes the bit that only `Partial` has.
const FORM: u64 = u64::from_ne_bytes([0xFF, 0xFF, 0, 0xFF, Checksum::Partial as u8, 0xFF, 0, 0]);

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Packet, vlan) == 8 * FORM_AT && align_of::<Packet>() >= 8);
    assert!(offset_of!(Packet, flags) == 8 * FORM_AT + 3);
    let offload = offset_of!(Packet, offload);
    assert!(offload + offset_of!(Offload, checksum) == 8 * FORM_AT + 4);
    assert!(offload + offset_of!(Offload, segmentation) == 8 * FORM_AT + 5);
    assert!(offload + offset_of!(Offload, checksum_start) == 8 * FORM_AT + 6);
    assert!(Checksum::Verified as u8 & Checksum::Partial as u8 == 0);
    assert!(Checksum::Complete as u8 == 0 && Segmentation::None as u8 == 0);
};

impl Form {
    /// No packet's.
    pub const NEVER: Form = Form(u64::MAX);

    /// That of packets of this VLAN without flags and without work that is owed.
    pub const fn finished(vlan: u16) -> Form {
        let [a, b] = vlan.to_ne_bytes();
        Form(u64::from_ne_bytes([a, b, 0, 0, 0, 0, 0, 0]))
    }
}

/// What packets have in common.
pub(crate) struct Survey {
    /// Whether one of them has unfinished offload work.
    pub(crate) owing: bool,
    /// Bytes of the longest.
    pub(crate) longest: usize,
    /// Bytes of all.
    pub(crate) bytes: u64,
}

/// A packet as numbers.
type Words = [u32; size_of::<Packet>() / 4];

/// Copies packets to as many slots and inspects all of them on the way: every word is treated
/// alike, meaningful or not, so that the compiler vectorises the loop. The caller must not use both
/// the packets and their copies.
#[inline(always)]
pub(crate) fn copy_and_survey(packets: &[Packet], slots: &mut [MaybeUninit<Packet>]) -> Survey {
    const LEN: usize = offset_of!(Packet, len) / 4;
    const OFFLOAD: usize = offset_of!(Packet, offload) / 4;
    /// The bits of the first word of an [`Offload`] that are nonzero if work is unfinished.
    const OWING: u32 = u32::from_ne_bytes([Checksum::Partial as u8, 0xFF, 0, 0]);
    let (mut any, mut most, mut sum): (Words, Words, Words) = Default::default();
    for (packet, slot) in packets.iter().zip(slots) {
        // SAFETY: a packet is so many words, all of whose bytes have values, at an address that is
        // a multiple of more than four; and a slot has room for one.
        let words = unsafe {
            let words = std::ptr::from_ref(packet).cast::<Words>().read();
            slot.as_mut_ptr().cast::<Words>().write(words);
            words
        };
        for i in 0..words.len() {
            any[i] |= words[i];
            most[i] = most[i].max(words[i]);
            sum[i] = sum[i].wrapping_add(words[i]);
        }
    }
    // Of less than 32,768 packets of at most 128 KiB.
    debug_assert!(packets.len() <= BATCH);
    Survey { owing: any[OFFLOAD] & OWING != 0, longest: most[LEN] as usize, bytes: sum[LEN].into() }
}

/// Work that the sender left to the "hardware", as in the virtio-net header (virtio 1.2, 5.1.6). A
/// port whose [`Capabilities`](crate::Capabilities) lack it must never get it: the plane finishes
/// checksums and segments in software first. Offsets count from the first byte of the frame, so
/// code that pushes or removes bytes in front has to move them (`Pool::push_front`,
/// `Pool::pull_front` do).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Offload {
    /// State of the transport checksum.
    pub checksum: Checksum,
    /// How to cut the frame, if it is a super-packet.
    pub segmentation: Segmentation,
    /// First byte that the checksum covers (checksum `Partial`).
    pub checksum_start: u16,
    /// Where the checksum is stored, counted from `checksum_start`.
    pub checksum_offset: u16,
    /// Payload bytes per segment (segmentation other than `None`).
    pub segment_size: u16,
    /// Bytes of headers to repeat before each segment. This is the sender's hint: ports refuse one
    /// that is longer than the frame; segmentation code parses the frame's headers instead.
    pub header_len: u16,
}

impl Offload {
    /// A frame that is complete as it is.
    pub const NONE: Offload = Offload {
        checksum: Checksum::Complete,
        segmentation: Segmentation::None,
        checksum_start: 0,
        checksum_offset: 0,
        segment_size: 0,
        header_len: 0,
    };
}

/// State of a frame's transport checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Checksum {
    /// It is in the frame, right or wrong, as on a cable.
    #[default]
    Complete,
    /// Only the pseudo-header is summed: the rest, from `checksum_start` to the end, is owed.
    Partial,
    /// The device has verified it.
    Verified,
}

/// How a super-packet is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Segmentation {
    /// An ordinary frame.
    #[default]
    None,
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv4 with CWR set on the first segment only (RFC 3168, 6.1.2).
    TcpV4Ecn,
    /// TCP over IPv6.
    TcpV6,
    /// TCP over IPv6 with CWR set on the first segment only.
    TcpV6Ecn,
    /// UDP datagrams of `segment_size` each, one header for all (virtio `GSO_UDP_L4`).
    Udp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    #[test]
    fn a_descriptor_is_half_a_cache_line() {
        assert_eq!((size_of::<Packet>(), align_of::<Packet>()), (32, 32));
    }

    #[test]
    fn a_class_is_three_fields_and_no_more() {
        let mut pool = Pool::new(1, 2048).unwrap();
        let mut packet = pool.alloc_from(&[0; 60]).unwrap();
        packet.verdict = 0x0102_0304;
        packet.offload.checksum = Checksum::Verified;
        packet.set_class(Class { vlan: 0x0ABC, priority: 5, flags: 9 });
        assert_eq!((packet.vlan, packet.priority, packet.flags), (0x0ABC, 5, 9));
        assert_eq!((packet.verdict, packet.offload.checksum), (0x0102_0304, Checksum::Verified));
        pool.free(packet);
    }

    #[test]
    fn a_form_tells_vlan_flags_and_work_apart_and_nothing_else() {
        let mut pool = Pool::new(1, 2048).unwrap();
        let mut packet = pool.alloc_from(&[0; 60]).unwrap();
        packet.vlan = 0x0ABC;
        let finished = Form::finished(0x0ABC);
        let same: [fn(&mut Packet); 6] = [
            |p| p.priority = 7,
            |p| p.offload.checksum = Checksum::Verified,
            |p| p.offload.checksum_start = 34,
            |p| p.offload.header_len = 54,
            |p| p.verdict = u32::MAX,
            |p| p.in_port = 3,
        ];
        for change in same {
            change(&mut packet);
            assert_eq!(packet.form(), finished);
        }
        let other: [fn(&mut Packet); 5] = [
            |p| p.vlan = 0x0ABD,
            |p| p.vlan = 0x1ABC,
            |p| p.flags = 1,
            |p| p.offload.checksum = Checksum::Partial,
            |p| p.offload.segmentation = Segmentation::Udp,
        ];
        for change in other {
            let mut packet =
                Packet { vlan: 0x0ABC, ..Packet::new(packet.frame, packet.start, packet.len) };
            change(&mut packet);
            assert!(packet.form() != finished && packet.form() != Form::NEVER);
        }
        pool.free(packet);
    }

    #[test]
    fn copies_are_the_packets_and_what_they_have_in_common_is_seen() {
        let mut pool = Pool::new(BATCH, 1 << 18).unwrap();
        let lengths = |i: usize| 60 + i * i * 25;
        let mut packets: Batch = (0..BATCH).map_while(|_| pool.alloc()).collect();
        for (i, packet) in packets.iter_mut().enumerate() {
            assert!(pool.set_len(packet, lengths(i)));
            packet.verdict = u32::MAX - i as u32;
            packet.offload = Offload { checksum: Checksum::Verified, ..Offload::NONE };
            packet.offload.checksum_start = u16::MAX;
        }
        for count in [0, 1, 3, BATCH] {
            let mut copies = Batch::new();
            // SAFETY: of packets and copies only the packets are used as such.
            let all = unsafe { append(&mut copies, &packets[..count]) };
            let expected: usize = (0..count).map(lengths).sum();
            assert_eq!((all.owing, all.bytes), (false, expected as u64));
            assert_eq!(all.longest, count.checked_sub(1).map_or(0, lengths));
            for (copy, packet) in copies.iter().zip(&packets) {
                assert_eq!(format!("{copy:?}"), format!("{packet:?}"));
            }
        }
        let owing: [fn(&mut Offload); 2] = [
            |offload| offload.checksum = Checksum::Partial,
            |offload| offload.segmentation = Segmentation::TcpV4,
        ];
        for owe in owing {
            let offload = packets[5].offload;
            owe(&mut packets[5].offload);
            // SAFETY: as above.
            assert!(unsafe { append(&mut Batch::new(), &packets) }.owing);
            packets[5].offload = offload;
        }
        packets.drain(..).for_each(|p| pool.free(p));
    }

    #[test]
    fn every_packet_is_taken_once_and_in_order() {
        let mut pool = Pool::new(BATCH, 2048).unwrap();
        let mut batch: Batch = (0..BATCH as u8).map(|i| pool.alloc_from(&[i]).unwrap()).collect();
        let (mut even, mut odd) = (Batch::new(), Vec::new());
        for packet in take_each(&mut batch) {
            match pool.data(&packet)[0] % 2 {
                0 => packet.move_to(&mut even),
                _ => odd.push(packet.into_packet()),
            }
        }
        assert!(batch.is_empty());
        let bytes = |p: &Packet| pool.data(p)[0];
        assert!(even.iter().map(bytes).eq((0..64).step_by(2)));
        assert!(odd.iter().map(bytes).eq((1..64).step_by(2)));
        even.drain(..).chain(odd).for_each(|p| pool.free(p));
        assert_eq!(pool.available(), BATCH);
    }

    #[test]
    #[should_panic(expected = "no room")]
    fn a_packet_is_not_moved_to_a_full_batch() {
        let mut pool = Pool::new(BATCH + 1, 2048).unwrap();
        let mut full: Batch = (0..BATCH).map_while(|_| pool.alloc()).collect();
        let mut batch: Batch = pool.alloc().into_iter().collect();
        take_each(&mut batch).for_each(|packet| packet.move_to(&mut full));
    }
}
