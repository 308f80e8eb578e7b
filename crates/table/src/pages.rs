//! Zeroed memory for lookup tables: whole pages, huge ones where the kernel has them, none of them
//! touched before it is used, unless somebody asks for that. A table of 32 MiB in pages of 4 KiB misses the TLB at nearly every
//! lookup; `plexus bench lpm` shows what huge pages save. What is smaller than one has small pages:
//! a simulation of many boxes has many small tables.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of a huge page.
pub(super) const HUGE: usize = 2 << 20;

/// Types for which all bytes zero are a value, and which may be changed through a shared reference.
pub(crate) trait Cell: private::Sealed + Sync + Send {}

mod private {
    pub(crate) trait Sealed {}
}

impl private::Sealed for AtomicU16 {}
impl private::Sealed for AtomicU32 {}
impl private::Sealed for AtomicU64 {}
impl<T: Cell, const N: usize> private::Sealed for [T; N] {}
impl Cell for AtomicU16 {}
impl Cell for AtomicU32 {}
impl Cell for AtomicU64 {}
impl<T: Cell, const N: usize> Cell for [T; N] {}

/// An array of atomics, zero at first.
pub(crate) struct Pages<T> {
    start: NonNull<T>,
    len: usize,
    mapping: NonNull<u8>,
    mapped: usize,
}

impl<T: Cell> Pages<T> {
    /// Address space for `len` values, or none if the kernel refuses it.
    #[allow(unsafe_code)]
    pub(crate) fn zeroed(len: usize) -> Option<Pages<T>> {
        let bytes = len.checked_mul(size_of::<T>())?.checked_next_multiple_of(HUGE)?;
        let mapped = bytes.checked_add(HUGE)?;
        let (read_write, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, placed by the kernel, aliases nothing.
        let mapping = unsafe {
            mmap_anonymous(std::ptr::null_mut(), mapped, read_write, private | MapFlags::NORESERVE)
        };
        let mapping = NonNull::new(mapping.ok()?.cast::<u8>())?;
        let skip = mapping.as_ptr().align_offset(HUGE);
        // SAFETY: the mapping is longer than `bytes` by `HUGE`, which `skip` stays below.
        let start = unsafe { mapping.add(skip) };
        if len * size_of::<T>() >= HUGE {
            // SAFETY: the range lies in the mapping, and the advice changes none of its contents.
            // Kernels without huge pages refuse it, and small pages do.
            let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        Some(Pages { start: start.cast(), len, mapping, mapped })
    }

    /// Takes the machine's memory for all of the array now, from the node of the calling thread's
    /// processor, whoever touches it later. Its values stay.
    ///
    /// # Errors
    /// The kernel's: it has no memory, or is older than 5.14.
    #[allow(unsafe_code)]
    pub(crate) fn populate(&self) -> io::Result<()> {
        let (start, bytes) = (self.start.as_ptr().cast(), size_of_val(&**self));
        // SAFETY: the range lies in the mapping, and the advice changes none of its contents.
        Ok(unsafe { madvise(start, bytes, Advice::LinuxPopulateWrite) }?)
    }

    /// Gives the memory of a huge page back, all of which lies in the array; its values are zero
    /// from then on. False if the kernel does not take it: then they are what they were.
    #[allow(unsafe_code)]
    pub(super) fn forget(&self, page: usize) -> bool {
        assert!((page + 1) * HUGE <= self.len * size_of::<T>(), "page {page} is not in the array");
        // SAFETY: the page lies in the mapping, so that this stays inside of it.
        let start = unsafe { self.start.as_ptr().byte_add(page * HUGE) };
        // SAFETY: the page is private memory of this mapping, which reads as zeroes after this
        // advice. For a thread that looks at it, that is a store to each of its atomics.
        unsafe { madvise(start.cast(), HUGE, Advice::LinuxDontNeed) }.is_ok()
    }
}

impl<T: Cell> std::ops::Deref for Pages<T> {
    type Target = [T];

    #[inline(always)]
    #[allow(unsafe_code)]
    fn deref(&self) -> &[T] {
        // SAFETY: `start` is aligned to `HUGE`, `len` values lie in the mapping, which lives as
        // long as `self`; zeroed bytes are values of every `Cell`, which are atomics, so that
        // shared references may be used to change them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for Pages<T> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped) };
    }
}

// SAFETY: the array belongs to this value alone, and its elements are atomics.
#[allow(unsafe_code)]
unsafe impl<T: Cell> Send for Pages<T> {}
// SAFETY: likewise.
#[allow(unsafe_code)]
unsafe impl<T: Cell> Sync for Pages<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn memory_is_zero_shared_and_given_back() {
        for len in [1, 1000, HUGE / 4 + 1] {
            let pages = Pages::<AtomicU32>::zeroed(len).expect("a few megabytes");
            assert_eq!(pages.len(), len);
            assert!(pages.iter().all(|cell| cell.load(Relaxed) == 0));
            std::thread::scope(|scope| {
                scope.spawn(|| pages[len - 1].store(7, Relaxed));
            });
            assert_eq!(pages[len - 1].load(Relaxed), 7);
        }
    }

    /// How many of the array's pages of 4 KiB have memory (proc_pid_pagemap(5)).
    fn resident(pages: &Pages<AtomicU32>) -> usize {
        let numbers = pages.start.as_ptr() as usize / 4096..;
        let count = size_of_val(&**pages).div_ceil(4096);
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        let is_present = |page: &usize| {
            let mut entry = [0; 8];
            pagemap.read_exact_at(&mut entry, *page as u64 * 8).unwrap();
            u64::from_le_bytes(entry) >> 63 == 1
        };
        numbers.take(count).filter(is_present).count()
    }

    #[test]
    fn memory_that_is_asked_for_is_there_before_it_is_touched() {
        for (len, count) in [(1, 1), (1025, 2), (HUGE / 4, 512), (HUGE / 2 + 1, 1025)] {
            let pages = Pages::<AtomicU32>::zeroed(len).expect("a few megabytes");
            assert_eq!(resident(&pages), 0);
            pages[0].store(7, Relaxed);
            pages.populate().unwrap();
            assert_eq!(resident(&pages), count);
            assert_eq!(pages[0].load(Relaxed), 7);
            assert!(pages[1..].iter().all(|cell| cell.load(Relaxed) == 0));
        }
    }

    #[test]
    fn a_page_that_is_forgotten_is_zero_and_its_neighbours_are_not() {
        const PER_PAGE: usize = HUGE / 4;
        let pages = Pages::<AtomicU32>::zeroed(3 * PER_PAGE).expect("a few megabytes");
        pages.iter().for_each(|cell| cell.store(9, Relaxed));
        assert!(pages.forget(1));
        for (page, value) in [9, 0, 9].into_iter().enumerate() {
            let mut cells = pages[page * PER_PAGE..(page + 1) * PER_PAGE].iter();
            assert!(cells.all(|cell| cell.load(Relaxed) == value), "{page}");
        }
        pages[PER_PAGE].store(8, Relaxed);
        assert_eq!(pages[PER_PAGE].load(Relaxed), 8);
    }

    #[test]
    #[should_panic(expected = "page 1 is not in the array")]
    fn a_page_that_is_not_all_of_the_array_is_not_forgotten() {
        Pages::<AtomicU32>::zeroed(HUGE / 4 + 1).expect("a few megabytes").forget(1);
    }

    #[test]
    fn what_the_kernel_does_not_have_is_refused() {
        assert!(Pages::<AtomicU32>::zeroed(usize::MAX / 4).is_none());
        assert!(Pages::<AtomicU32>::zeroed(usize::MAX).is_none());
    }
}
