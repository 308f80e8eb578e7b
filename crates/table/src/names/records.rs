//! The name FIB's prefixes: each record holds a name and its value, in whole words.
//!
//! ```text
//! record   | value: 32 | 0: 16 | bytes of the name: 16 |, then the name in words, zeros at its end
//! free     | number of the next free record of this size |
//! ```
//! A record's number is that of its first word. Words are atomics because readers read them while
//! the writer creates other records; except for the value, a reachable record never changes.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::*};

use super::words;
use crate::pages::Pages;
use crate::prefetch::prefetch;

/// The readers' part.
pub(super) struct Records {
    words: Pages<AtomicU64>,
}

impl Records {
    /// Memory for this many words; none if the system refuses the address space.
    pub(super) fn new(words: usize) -> Option<Records> {
        Some(Records { words: Pages::zeroed(words)? })
    }

    /// Has all of their memory be of this node ([`Pages::bind`]).
    pub(super) fn bind(&self, node: u32) -> io::Result<()> {
        self.words.bind(node)
    }

    #[inline(always)]
    fn load(&self, at: u32, order: std::sync::atomic::Ordering) -> u64 {
        self.words[at as usize].load(order)
    }

    /// Prefetches a record with a name of this many bytes.
    #[inline(always)]
    pub(super) fn prefetch(&self, at: u32, bytes: usize) {
        let (first, last) = (at as usize, at as usize + bytes.div_ceil(8));
        if let (Some(first), Some(last)) = (self.words.get(first), self.words.get(last)) {
            prefetch(first);
            prefetch(last);
        }
    }

    /// True if a record's name is the first `end` bytes of `bytes`.
    #[inline(always)]
    pub(super) fn is(&self, at: u32, bytes: &[u8], end: usize) -> bool {
        if self.bytes(at) != end {
            return false;
        }
        let start = at as usize + 1;
        let stored = &self.words[start..start + end.div_ceil(8)];
        let (whole, last) = words(&bytes[..end]);
        let odd = stored.iter().zip(whole).fold(0, |odd, (stored, word)| {
            odd | (stored.load(Relaxed) ^ u64::from_le_bytes(*word))
        });
        match (stored.get(whole.len()), last) {
            (Some(stored), Some(last)) => odd | (stored.load(Relaxed) ^ last) == 0,
            _ => odd == 0,
        }
    }

    #[inline(always)]
    pub(super) fn value(&self, at: u32) -> u32 {
        self.load(at, Acquire) as u32
    }

    /// Bytes of a record's name.
    #[inline(always)]
    fn bytes(&self, at: u32) -> usize {
        (self.load(at, Relaxed) >> 32) as usize
    }

    /// A record's name.
    pub(super) fn name(&self, at: u32) -> Vec<u8> {
        let bytes = self.bytes(at);
        let words = (0..bytes.div_ceil(8) as u32).map(|i| self.load(at + 1 + i, Relaxed));
        let mut name: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        name.truncate(bytes);
        name
    }

    pub(super) fn set_value(&self, at: u32, value: u32) {
        let head = self.load(at, Relaxed);
        self.words[at as usize].store(head >> 32 << 32 | u64::from(value), Release);
    }
}

/// The writer's part: allocation of words. Free records of each size form a list that is linked
/// through the records themselves.
pub(super) struct Space {
    /// The first free record of each size in words; 0: none.
    free: Box<[u32]>,
    /// The first word that was never used. Word 0 is never used.
    fresh: usize,
    limit: usize,
}

/// Words of the longest record.
const WORDS_MAX: usize = size_of_record(u16::MAX as usize);

/// Words of a record whose name has this many bytes.
const fn size_of_record(bytes: usize) -> usize {
    1 + bytes.div_ceil(8)
}

impl Space {
    pub(super) fn new(words: usize) -> Space {
        Space { free: vec![0; WORDS_MAX + 1].into(), fresh: 1, limit: words }
    }

    /// Creates a record of a name of at most 65,535 bytes; none if there is no memory.
    pub(super) fn make(&mut self, records: &Records, name: &[u8], value: u32) -> Option<u32> {
        let at = self.take(records, size_of_record(name.len()))?;
        let head = (name.len() as u64) << 32 | u64::from(value);
        let (whole, last) = words(name);
        let name = whole.iter().map(|word| u64::from_le_bytes(*word)).chain(last);
        for (place, word) in records.words[at as usize + 1..].iter().zip(name) {
            place.store(word, Relaxed);
        }
        records.words[at as usize].store(head, Relaxed);
        Some(at)
    }

    /// Frees a record that no reader can see any more.
    pub(super) fn give_back(&mut self, records: &Records, at: u32) {
        self.put(records, at, size_of_record(records.bytes(at)));
    }

    fn take(&mut self, records: &Records, size: usize) -> Option<u32> {
        if let Some(at) = self.pop(records, size) {
            return Some(at);
        }
        if self.fresh + size <= self.limit {
            self.fresh += size;
            return Some((self.fresh - size) as u32);
        }
        // The rest of a longer record becomes a shorter one.
        let (longer, at) = (size + 1..=WORDS_MAX).find_map(|l| Some((l, self.pop(records, l)?)))?;
        self.put(records, at + size as u32, longer - size);
        Some(at)
    }

    fn pop(&mut self, records: &Records, size: usize) -> Option<u32> {
        let at = self.free[size];
        if at == 0 {
            return None;
        }
        self.free[size] = records.load(at, Relaxed) as u32;
        Some(at)
    }

    fn put(&mut self, records: &Records, at: u32, size: usize) {
        records.words[at as usize].store(self.free[size].into(), Relaxed);
        self.free[size] = at;
    }

    /// Bytes of records, and of free words between them.
    pub(super) fn used_bytes(&self) -> usize {
        8 * self.fresh
    }

    /// Bytes of the writer's other data.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.free)
    }
}
