//! The arena of packet memory: one array of pieces of equal size; a packet is a chain of pieces.
//!
//! So there is no fragmentation, nothing to compact, and no size class that a change of traffic
//! would leave unused; a packet that is copied out anyway costs one step per piece. A new arena
//! allocates adjacent pieces, and memory is touched only on first use.

use plexus_table::prefetch;

const NONE: u32 = u32::MAX;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes of a piece: a small Data packet fits one, and one of 8 KiB wastes 2 % on average.
pub(super) const PIECE: usize = 256;

pub(super) struct Arena {
    bytes: Vec<u8>,
    /// The next piece of the packet, or the next free one.
    next: Vec<u32>,
    free: u32,
    /// Pieces from here on were never used.
    fresh: u32,
    available: u32,
}

impl Arena {
    pub(super) fn new(pieces: u32) -> Arena {
        Arena {
            bytes: vec![0; pieces as usize * PIECE],
            next: vec![0; pieces as usize],
            free: NONE,
            fresh: 0,
            available: pieces,
        }
    }

    pub(super) fn pieces_of(len: usize) -> u32 {
        len.div_ceil(PIECE).max(1) as u32
    }

    /// Free pieces.
    pub(super) fn available(&self) -> u32 {
        self.available
    }

    #[inline]
    fn take(&mut self) -> u32 {
        self.available -= 1;
        if self.free != NONE {
            let piece = self.free;
            self.free = self.next[piece as usize];
            return piece;
        }
        self.fresh += 1;
        self.fresh - 1
    }

    /// Stores a packet for which there are enough pieces; returns its first piece.
    #[inline]
    pub(super) fn store(&mut self, packet: &[u8]) -> u32 {
        debug_assert!(Arena::pieces_of(packet.len()) <= self.available);
        let first = self.take();
        let mut piece = first;
        let mut rest = packet;
        loop {
            let (part, more) = rest.split_at(rest.len().min(PIECE));
            let at = piece as usize * PIECE;
            self.bytes[at..at + part.len()].copy_from_slice(part);
            rest = more;
            if rest.is_empty() {
                self.next[piece as usize] = NONE;
                return first;
            }
            let next = self.take();
            self.next[piece as usize] = next;
            piece = next;
        }
    }

    /// Frees a packet's pieces, last in first out, so that the memory in use stays in the cache.
    #[inline]
    pub(super) fn release(&mut self, first: u32) {
        let (mut last, mut count) = (first, 1);
        while self.next[last as usize] != NONE {
            last = self.next[last as usize];
            count += 1;
        }
        self.next[last as usize] = self.free;
        self.free = first;
        self.available += count;
    }

    /// Prefetches a piece that [`Arena::store`] will write to once it is free.
    #[inline(always)]
    pub(super) fn prefetch(&self, piece: u32) {
        prefetch(&self.next[piece as usize]);
        let at = piece as usize * PIECE;
        self.bytes[at..at + PIECE].iter().step_by(LINE).for_each(prefetch);
    }

    /// The bytes of a packet of `len` that begins at this piece.
    pub(super) fn packet(&self, first: u32, len: usize) -> Chain<'_> {
        Chain { arena: self, piece: first, left: len }
    }
}

/// A packet's bytes, piece by piece.
#[derive(Clone)]
pub(in super::super) struct Chain<'a> {
    arena: &'a Arena,
    piece: u32,
    left: usize,
}

impl Chain<'_> {
    /// Bytes remaining.
    pub(in super::super) fn len(&self) -> usize {
        self.left
    }

    /// Whether the bytes from `at` on begin with these.
    pub(super) fn has_at(&self, at: usize, mut bytes: &[u8]) -> bool {
        let mut skip = at;
        for part in self.clone() {
            let Some(part) = part.get(skip..).filter(|part| !part.is_empty()) else {
                skip -= part.len();
                continue;
            };
            skip = 0;
            let n = part.len().min(bytes.len());
            if part[..n] != bytes[..n] {
                return false;
            }
            bytes = &bytes[n..];
            if bytes.is_empty() {
                return true;
            }
        }
        bytes.is_empty()
    }
}

impl<'a> Iterator for Chain<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.left == 0 {
            return None;
        }
        let at = self.piece as usize * PIECE;
        let n = self.left.min(PIECE);
        self.left -= n;
        self.piece = self.arena.next[self.piece as usize];
        Some(&self.arena.bytes[at..at + n])
    }
}
