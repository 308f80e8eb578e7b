//! A worker's frames: fixed-size, in one mapping, allocated last-in first-out so that the frames in
//! use stay in the cache.

use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::af_packet::SUPER_FRAME;
use crate::af_xdp::UmemGroup;
use crate::packet::{Offload, Packet, Segmentation};

/// Bytes reserved before a frame's first byte, for headers pushed later. The kernel reserves as
/// much before an AF_XDP frame (`XDP_PACKET_HEADROOM`).
pub const HEADROOM: usize = 256;

/// Bytes of the smallest frame.
const FRAME_MIN: usize = 2048;

/// Bits of a packet's frame number that say which frame it is; the others say of which pool.
const INDEX_BITS: u32 = 24;

/// Pools made so far. Their number, modulo 256, is in their packets, so that a packet given to
/// the wrong pool is noticed (unless the two were made a multiple of 256 pools apart).
static POOLS: AtomicU32 = AtomicU32::new(0);

/// A worker's frames. Frames are `frame_size` bytes each, so a packet holds up to
/// `frame_size - HEADROOM` bytes.
pub struct Pool {
    area: Area,
    frames: u32,
    frame_size: u32,
    /// What sets the packets of this pool apart: the bits above [`INDEX_BITS`].
    tag: u32,
    /// Numbers of the frames that no packet and no port holds.
    free: Vec<u32>,
    umem: UmemGroup,
    /// For each frame whether it is free, to detect a double free.
    #[cfg(debug_assertions)]
    is_free: Vec<bool>,
}

impl Pool {
    /// Maps `frames` frames of `frame_size` bytes, at least 2,048, rounded up to whole cache
    /// lines. Memory is touched only as frames are first used. AF_XDP wants 2,048 or 4,096; other
    /// pools do better with an odd number of lines (2,112), since equal offsets of frames a power
    /// of two apart compete for the same few sets of the cache.
    ///
    /// # Errors
    /// When the sizes make no sense or the kernel refuses the mapping.
    pub fn new(frames: usize, frame_size: usize) -> io::Result<Pool> {
        let frame_size = frame_size.max(FRAME_MIN).next_multiple_of(64);
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let count = u32::try_from(frames).map_err(|_| invalid("too many frames"))?;
        let size = u32::try_from(frame_size).map_err(|_| invalid("frames are too large"))?;
        if count > 1 << INDEX_BITS {
            return Err(invalid("too many frames: a pool has at most 16,777,216"));
        }
        if count == 0 {
            return Err(invalid("a pool needs at least one frame"));
        }
        let bytes = frames.checked_mul(frame_size).ok_or_else(|| invalid("pool is too large"))?;
        Ok(Pool {
            area: Area::map(bytes, frame_size < SUPER_FRAME)?,
            frames: count,
            frame_size: size,
            tag: POOLS.fetch_add(1, Ordering::Relaxed) << INDEX_BITS,
            free: (0..count).rev().collect(),
            umem: UmemGroup::default(),
            #[cfg(debug_assertions)]
            is_free: vec![true; frames],
        })
    }

    /// How many frames there are, free or not.
    pub fn frames(&self) -> usize {
        self.frames as usize
    }

    /// The number of free frames.
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// Bytes per frame, headroom included.
    pub fn frame_size(&self) -> usize {
        self.frame_size as usize
    }

    /// The longest packet a frame of this pool holds after its headroom.
    pub fn max_len(&self) -> usize {
        self.frame_size() - HEADROOM
    }

    /// An empty packet, or `None` when every frame is in use.
    #[inline]
    pub fn alloc(&mut self) -> Option<Packet> {
        let frame = self.take()?;
        Some(self.packet(frame, HEADROOM as u16, 0))
    }

    /// A packet with these bytes, or `None` when every frame is in use or it does not fit.
    pub fn alloc_from(&mut self, bytes: &[u8]) -> Option<Packet> {
        if bytes.len() > self.max_len() {
            return None;
        }
        let mut packet = self.alloc()?;
        packet.len = bytes.len() as u32;
        self.data_mut(&mut packet).copy_from_slice(bytes);
        Some(packet)
    }

    /// Frees a packet; panics if it belongs to another pool.
    #[inline]
    pub fn free(&mut self, packet: Packet) {
        let frame = self.index(&packet);
        self.give(frame);
    }

    /// A second packet with the same bytes and metadata, or `None` when every frame is in use.
    pub fn duplicate(&mut self, packet: &Packet) -> Option<Packet> {
        let frame = self.take()?;
        let twin = Packet {
            in_port: packet.in_port,
            verdict: packet.verdict,
            offload: packet.offload,
            vlan: packet.vlan,
            priority: packet.priority,
            flags: packet.flags,
            ..self.packet(frame, packet.start, packet.len)
        };
        let from = self.locate(packet);
        let to = self.locate(&twin);
        // SAFETY: both ranges lie in the area (`locate` checked them), they are in different
        // frames, and no reference into the area is alive since `self` is borrowed mutably.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), packet.len()) };
        Some(twin)
    }

    /// Copies the bytes `range` of one packet over those of another from `at` on.
    ///
    /// Returns false, and changes nothing, if either is too short.
    pub fn copy(&mut self, from: &Packet, range: Range<usize>, to: &mut Packet, at: usize) -> bool {
        let len = range.len();
        if range.start > range.end || range.end > from.len() || to.len() < len {
            return false;
        }
        if at > to.len() - len {
            return false;
        }
        let (source, target) = (self.locate(from), self.locate(to));
        // SAFETY: the checks above keep both ranges within their packets, which `locate` has found
        // to lie in the area. They are in different frames (descriptors are unique), and no
        // reference into the area is alive since `self` is borrowed mutably.
        unsafe {
            let source = source.add(range.start);
            std::ptr::copy_nonoverlapping(source.as_ptr(), target.add(at).as_ptr(), len);
        }
        true
    }

    /// The packet's bytes.
    #[inline]
    pub fn data(&self, packet: &Packet) -> &[u8] {
        // SAFETY: `locate` checked that the range lies in the area. The frame belongs to this
        // packet alone (descriptors are unique, ports give a frame out only after the kernel has
        // returned it), and a mutable borrow of it would need `&mut self`.
        unsafe { std::slice::from_raw_parts(self.locate(packet).as_ptr(), packet.len()) }
    }

    /// The packet's bytes, to be changed.
    #[inline]
    pub fn data_mut(&mut self, packet: &mut Packet) -> &mut [u8] {
        // SAFETY: as in `data`, and `&mut self` excludes every other borrow of the area.
        unsafe { std::slice::from_raw_parts_mut(self.locate(packet).as_ptr(), packet.len()) }
    }

    /// The packets' first bytes.
    #[inline(always)]
    pub fn heads(&self) -> Heads<'_> {
        let Pool { area, frames, frame_size, tag, .. } = self;
        Heads {
            start: area.start,
            frames: *frames,
            frame_size: *frame_size,
            tag: *tag,
            pool: PhantomData,
        }
    }

    /// The packets' first bytes, to be changed.
    #[inline(always)]
    pub fn heads_mut(&mut self) -> HeadsMut<'_> {
        HeadsMut { bytes: self.area.bytes, heads: self.heads() }
    }

    /// Sets the packet's length; new bytes have the value that the frame last held.
    ///
    /// Returns false, and changes nothing, if the frame has no room for it.
    pub fn set_len(&mut self, packet: &mut Packet, len: usize) -> bool {
        if len > self.frame_size().saturating_sub(packet.headroom()) {
            return false;
        }
        packet.len = len as u32;
        true
    }

    /// Adds `n` bytes in front, to be written by the caller, and moves the offload offsets.
    ///
    /// Returns false, and changes nothing, if the headroom is too small.
    #[inline]
    pub fn push_front(&mut self, packet: &mut Packet, n: usize) -> bool {
        if packet.headroom() < n {
            return false;
        }
        packet.start -= n as u16;
        packet.len += n as u32;
        shift_offload(packet, n as i32);
        true
    }

    /// Removes `n` bytes in front and moves the offload offsets.
    ///
    /// Returns false, and changes nothing, if the packet is shorter than that.
    #[inline]
    pub fn pull_front(&mut self, packet: &mut Packet, n: usize) -> bool {
        if packet.len() < n || packet.headroom() + n > usize::from(u16::MAX) {
            return false;
        }
        packet.start += n as u16;
        packet.len -= n as u32;
        shift_offload(packet, -(n as i32));
        true
    }

    /// Prefetches the packet's first cache line.
    #[inline]
    pub fn prefetch(&self, packet: &Packet) {
        let frame = packet.frame() * self.frame_size();
        prefetch(self.area.start.as_ptr().wrapping_add(frame + packet.headroom()));
    }

    /// Takes a frame out of the pool for a port that passes it to the kernel.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        let frame = self.free.pop()?;
        #[cfg(debug_assertions)]
        {
            self.is_free[frame as usize] = false;
        }
        Some(frame)
    }

    /// The packet that owns a frame from `take`; the only way to create one.
    #[inline]
    pub(crate) fn packet(&self, frame: u32, start: u16, len: u32) -> Packet {
        Packet::new(frame | self.tag, start, len)
    }

    /// The number of the packet's frame; panics if the packet is another pool's.
    #[inline]
    pub(crate) fn index(&self, packet: &Packet) -> u32 {
        self.heads().index(packet)
    }

    /// Returns a frame that `take` or a packet held.
    #[inline]
    pub(crate) fn give(&mut self, frame: u32) {
        #[cfg(debug_assertions)]
        {
            let was_free = std::mem::replace(&mut self.is_free[frame as usize], true);
            assert!(!was_free, "frame {frame} was given back twice");
        }
        self.free.push(frame);
    }

    /// The first byte of a frame, for a port that makes the kernel fill it. Valid for `frame_size`
    /// bytes as long as the pool lives; panics if there is no such frame.
    #[inline]
    pub(crate) fn slot(&mut self, frame: u32) -> NonNull<u8> {
        assert!(frame < self.frames);
        // SAFETY: the frame lies in the mapping.
        unsafe { self.area.start.add(frame as usize * self.frame_size as usize) }
    }

    /// The AF_XDP sockets that are bound to this pool's memory.
    pub(crate) fn umem(&mut self) -> &mut UmemGroup {
        &mut self.umem
    }

    /// Where the area begins and how many bytes it has, for registering it with the kernel.
    pub(crate) fn area(&self) -> (NonNull<u8>, usize) {
        (self.area.start, self.area.bytes)
    }

    /// The address of the packet's first byte; panics unless the packet is this
    /// pool's and all of it lies in its frame.
    #[inline]
    fn locate(&self, packet: &Packet) -> NonNull<u8> {
        self.heads().locate(packet)
    }
}

/// The first bytes of a pool's packets. It has copies of the pool's fields, which a loop keeps in
/// registers instead of reading them for every packet.
#[derive(Clone, Copy)]
pub struct Heads<'a> {
    start: NonNull<u8>,
    frames: u32,
    frame_size: u32,
    tag: u32,
    pool: PhantomData<&'a Pool>,
}

impl<'a> Heads<'a> {
    /// The packet's first `N` bytes, if it has that many, and their position, which makes a second
    /// access cheaper. Panics if the packet belongs to another pool.
    #[inline(always)]
    pub fn get<const N: usize>(&self, packet: &Packet) -> Option<(Head<N>, &'a [u8; N])> {
        let start = self.locate(packet);
        if packet.len() < N {
            return None;
        }
        // SAFETY: `locate` found the packet to lie in the area, and it has `N` bytes; otherwise as
        // in `Pool::data`, since the pool is borrowed.
        let (offset, bytes) = unsafe {
            let offset = start.as_ptr().offset_from(self.start.as_ptr());
            (offset as usize, start.cast().as_ref())
        };
        Some((Head { offset }, bytes))
    }

    #[inline(always)]
    fn index(&self, packet: &Packet) -> u32 {
        // Another pool's tag leaves a bit above those of any index.
        let index = packet.frame ^ self.tag;
        assert!(index < self.frames, "the packet belongs to another pool");
        index
    }

    #[inline(always)]
    fn locate(&self, packet: &Packet) -> NonNull<u8> {
        let index = self.index(packet);
        assert!(u32::from(packet.start) + packet.len <= self.frame_size);
        let offset = index as usize * self.frame_size as usize + usize::from(packet.start);
        // SAFETY: frame < frames and start <= frame_size, so the offset is within the mapping.
        unsafe { self.start.add(offset) }
    }
}

/// The first bytes of a pool's packets, to be changed.
pub struct HeadsMut<'a> {
    heads: Heads<'a>,
    /// Of all frames together.
    bytes: usize,
}

impl HeadsMut<'_> {
    /// The packet's first bytes, by where [`Heads::get`] has found them since the packet last
    /// changed its beginning or its pool. Panics if they are beyond the frames.
    #[inline(always)]
    pub fn get<const N: usize>(&mut self, packet: &mut Packet, at: Head<N>) -> &mut [u8; N] {
        const { assert!(N <= FRAME_MIN) };
        assert!(at.offset <= self.bytes - N, "the head is another pool's");
        debug_assert!(self.heads.get::<N>(packet).is_some_and(|(head, _)| head == at));
        // SAFETY: the `N` bytes lie in the area, which is at least one frame long, and the pool is
        // borrowed mutably, by `self` alone, so that there is no other borrow of them.
        unsafe { self.heads.start.add(at.offset).cast().as_mut() }
    }

    /// Puts a header in front of a packet that owes no work, by where [`Heads::get`] has found its
    /// first bytes. Returns false, and changes nothing, if the headroom is less than
    /// [`Header::ROOM`]: so many bytes are written. Panics if they are beyond the frames.
    #[inline(always)]
    pub fn push_front<const N: usize>(
        &mut self,
        packet: &mut Packet,
        at: Head<N>,
        header: &Header,
    ) -> bool {
        const { assert!(N <= FRAME_MIN) };
        if packet.headroom() < Header::ROOM {
            return false;
        }
        let is_within = at.offset <= self.bytes - N && at.offset >= Header::ROOM;
        assert!(is_within, "the head is another pool's");
        debug_assert!(self.heads.get::<N>(packet).is_some_and(|(head, _)| head == at));
        debug_assert!(packet.is_finished());
        // SAFETY: the bytes before the head lie in the area, which is at least one frame long, and
        // the pool is borrowed mutably, by `self` alone, so that there is no other borrow of them.
        unsafe { self.heads.start.add(at.offset - Header::ROOM).cast().write(header.bytes) };
        packet.start -= u16::from(header.len);
        packet.len += u32::from(header.len);
        packet.offload = Offload::NONE;
        true
    }
}

/// A short header, in the form in which it is pushed quickly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its last `len` bytes are the header.
    bytes: [u8; Header::ROOM],
    /// At most [`Header::ROOM`].
    len: u8,
}

impl Header {
    /// Bytes of the longest header. So many are written for a shorter one, too.
    pub const ROOM: usize = 16;
    /// No bytes.
    pub const EMPTY: Header = Header { bytes: [0; Header::ROOM], len: 0 };

    /// None if it is too long.
    pub fn new(header: &[u8]) -> Option<Header> {
        let from = Header::ROOM.checked_sub(header.len())?;
        let mut it = Header { len: header.len() as u8, ..Header::EMPTY };
        it.bytes[from..].copy_from_slice(header);
        Some(it)
    }
}

impl<const N: usize> Head<N> {
    /// Where the first `M` of these bytes lie.
    #[inline(always)]
    pub fn first<const M: usize>(self) -> Head<M> {
        const { assert!(M <= N) };
        Head { offset: self.offset }
    }
}

/// Prefetches a cache line.
#[inline(always)]
fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect but on the cache, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Where the first `N` bytes of a packet lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head<const N: usize> {
    offset: usize,
}

/// Offsets of owed work count from the first byte of the frame, which just moved by `by`.
#[inline(always)]
fn shift_offload(packet: &mut Packet, by: i32) {
    if !packet.is_finished() {
        shift_owed(packet, by);
    }
}

#[cold]
fn shift_owed(packet: &mut Packet, by: i32) {
    let o = &mut packet.offload;
    let shift = |v: u16| u16::try_from((i32::from(v) + by).max(0)).unwrap_or(u16::MAX);
    if o.checksum == crate::Checksum::Partial {
        o.checksum_start = shift(o.checksum_start);
    }
    if o.segmentation != Segmentation::None {
        o.header_len = shift(o.header_len);
    }
}

/// Anonymous memory from the kernel, page-aligned, zeroed, unmapped on drop.
struct Area {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the area is plain memory with one owner; nothing in it is tied to a thread.
unsafe impl Send for Area {}

impl Area {
    fn map(bytes: usize, in_huge_pages: bool) -> io::Result<Area> {
        // SAFETY: a fresh private anonymous mapping aliases nothing.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start: NonNull<u8> = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // Fewer TLB misses where the kernel has huge pages to give; no harm where it has not. A
        // frame for super-packets mostly holds a packet of one page, for which the kernel would
        // zero 2 MB.
        let advice = if in_huge_pages { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: the range is the mapping just made; the advice does not change its contents.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes, advice) };
        Ok(Area { start, bytes })
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: this is the range that `map` made, and no reference into it outlives the pool.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checksum;

    #[test]
    fn a_small_packet_in_a_large_frame_costs_the_memory_of_a_small_one() {
        let mut pool = Pool::new(128, SUPER_FRAME).unwrap();
        let packets: Vec<Packet> = (0..128).map(|_| pool.alloc_from(&[1; 1500]).unwrap()).collect();
        let mut pages = vec![0_u8; pool.area.bytes.div_ceil(4096)];
        // SAFETY: the range is the pool's mapping, and `pages` has a byte for each of its pages.
        let done = unsafe {
            libc::mincore(pool.area.start.as_ptr().cast(), pool.area.bytes, pages.as_mut_ptr())
        };
        assert_eq!(done, 0);
        assert_eq!(pages.iter().filter(|page| **page & 1 == 1).count(), packets.len());
        packets.into_iter().for_each(|packet| pool.free(packet));
    }

    #[test]
    fn a_header_is_pushed_before_the_bytes_that_were_found() {
        let mut pool = Pool::new(2, 512).unwrap();
        let mut packet = pool.alloc_from(&[7; 40]).unwrap();
        let (at, _) = pool.heads().get::<20>(&packet).unwrap();
        let bytes: [u8; 10] = std::array::from_fn(|i| i as u8);
        let header = Header::new(&bytes).unwrap();
        assert!(pool.heads_mut().push_front(&mut packet, at, &header));
        assert_eq!(pool.data(&packet)[..10], bytes);
        assert_eq!((packet.len(), &pool.data(&packet)[10..]), (50, &[7; 40][..]));
        // A frame without room for all that is written keeps its packet.
        assert!(pool.push_front(&mut packet, HEADROOM - 10 - 15));
        let (at, _) = pool.heads().get::<20>(&packet).unwrap();
        assert!(!pool.heads_mut().push_front(&mut packet, at, &header));
        assert_eq!(Header::new(&[0; Header::ROOM + 1]), None);
        pool.free(packet);
    }

    #[test]
    fn every_frame_is_given_out_once_and_comes_back() {
        let mut pool = Pool::new(8, 2048).unwrap();
        let mut held: Vec<Packet> = std::iter::from_fn(|| pool.alloc()).collect();
        assert_eq!((held.len(), pool.available()), (8, 0));
        let mut numbers: Vec<usize> = held.iter().map(Packet::frame).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..8).collect::<Vec<_>>());
        held.drain(..).for_each(|p| pool.free(p));
        assert_eq!(pool.available(), 8);
    }

    #[test]
    fn packets_do_not_overlap() {
        let mut pool = Pool::new(4, 2048).unwrap();
        let full = vec![0xAA; pool.max_len()];
        let a = pool.alloc_from(&full).unwrap();
        let b = pool.alloc_from(&[0xBB; 60]).unwrap();
        assert!(pool.data(&a).iter().all(|&x| x == 0xAA));
        assert_eq!(pool.data(&b), [0xBB; 60]);
        assert!(pool.alloc_from(&vec![0; pool.max_len() + 1]).is_none());
        pool.free(a);
        pool.free(b);
    }

    #[test]
    fn pushing_and_pulling_moves_owed_checksums() {
        let mut pool = Pool::new(2, 2048).unwrap();
        let mut p = pool.alloc_from(&[1, 2, 3, 4]).unwrap();
        p.offload.checksum = Checksum::Partial;
        p.offload.checksum_start = 34;
        assert!(pool.push_front(&mut p, 4));
        assert_eq!((p.len(), p.offload.checksum_start), (8, 38));
        assert_eq!(pool.data(&p)[4..], [1, 2, 3, 4]);
        assert!(pool.pull_front(&mut p, 5));
        assert_eq!(pool.data(&p), [2, 3, 4]);
        assert!(!pool.pull_front(&mut p, 4));
        assert!(!pool.push_front(&mut p, 1000));
        pool.free(p);
    }

    #[test]
    fn a_duplicate_is_independent() {
        let mut pool = Pool::new(2, 2048).unwrap();
        let mut p = pool.alloc_from(b"hello").unwrap();
        let twin = pool.duplicate(&p).unwrap();
        assert!(pool.duplicate(&p).is_none());
        pool.data_mut(&mut p)[0] = b'j';
        assert_eq!((pool.data(&p), pool.data(&twin)), (&b"jello"[..], &b"hello"[..]));
        pool.free(p);
        pool.free(twin);
    }

    #[test]
    fn a_head_is_the_first_bytes_of_a_packet_that_has_so_many() {
        let mut pool = Pool::new(2, 2048).unwrap();
        let _first = pool.alloc_from(b"......").unwrap();
        let mut packet = pool.alloc_from(b"abcdef").unwrap();
        assert!(pool.heads().get::<7>(&packet).is_none());
        let (at, head) = pool.heads().get::<6>(&packet).unwrap();
        assert_eq!(head, b"abcdef");
        assert!(pool.pull_front(&mut packet, 2) && pool.push_front(&mut packet, 2));
        pool.heads_mut().get(&mut packet, at)[1] = b'B';
        assert_eq!(pool.data(&packet), b"aBcdef");
    }

    #[test]
    #[should_panic(expected = "another pool's")]
    fn a_head_beyond_the_frames_cannot_be_changed() {
        let mut large = Pool::new(9, 2048).unwrap();
        let mut small = Pool::new(1, 2048).unwrap();
        let of_large: Vec<Packet> = std::iter::from_fn(|| large.alloc_from(&[0; 60])).collect();
        let (at, _) = large.heads().get::<34>(&of_large[8]).unwrap();
        let mut packet = small.alloc_from(&[0; 60]).unwrap();
        small.heads_mut().get(&mut packet, at);
    }

    #[test]
    fn no_length_is_too_great_to_be_refused() {
        let mut pool = Pool::new(1, 2048).unwrap();
        let mut packet = pool.alloc().unwrap();
        assert!(!pool.set_len(&mut packet, usize::MAX));
        assert!(!pool.set_len(&mut packet, pool.max_len() + 1));
        assert!(pool.set_len(&mut packet, pool.max_len()));
    }

    #[test]
    fn copying_stays_within_both_packets() {
        let mut pool = Pool::new(2, 2048).unwrap();
        let from = pool.alloc_from(b"abcdef").unwrap();
        let mut to = pool.alloc_from(b"......").unwrap();
        assert!(pool.copy(&from, 1..4, &mut to, 3));
        assert_eq!(pool.data(&to), b"...bcd");
        for (range, at) in [(1..4, 4), (4..7, 0), (0..6, 1), (0..1, usize::MAX)] {
            assert!(!pool.copy(&from, range, &mut to, at));
        }
        assert_eq!(pool.data(&to), b"...bcd");
        pool.free(from);
        pool.free(to);
    }

    #[test]
    #[should_panic(expected = "given back twice")]
    #[cfg(debug_assertions)]
    fn a_frame_given_back_twice_is_caught() {
        let mut pool = Pool::new(2, 2048).unwrap();
        let p = pool.alloc().unwrap();
        pool.give(p.frame() as u32);
        pool.free(p);
    }

    #[test]
    #[should_panic(expected = "belongs to another pool")]
    fn a_packet_of_another_pool_cannot_be_read() {
        let mut theirs = Pool::new(4, 2048).unwrap();
        let ours = Pool::new(4, 2048).unwrap();
        let foreign = theirs.alloc_from(&[0; 60]).unwrap();
        let _ = ours.data(&foreign);
    }

    #[test]
    #[should_panic(expected = "belongs to another pool")]
    fn a_packet_of_another_pool_cannot_be_freed() {
        let mut theirs = Pool::new(4, 2048).unwrap();
        let mut ours = Pool::new(4, 2048).unwrap();
        let _held = ours.alloc().unwrap();
        ours.free(theirs.alloc().unwrap());
    }

    #[test]
    fn a_pool_has_no_more_frames_than_packets_can_number() {
        assert!(Pool::new((1 << 24) + 1, 2048).is_err());
    }
}
