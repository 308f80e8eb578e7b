//! Zeroed memory for lookup tables: whole pages, huge ones where the kernel has them; none is
//! touched before its first use. A table of 32 MiB in pages of 4 KiB misses the TLB at nearly every
//! lookup; `plexus bench lpm` shows what huge pages save. Smaller tables use small pages: a
//! simulation of many boxes has many small tables.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of a huge page.
pub(super) const HUGE: usize = 2 << 20;
/// Most NUMA nodes of a machine (Linux: `MAX_NUMNODES`).
const NODES_MAX: usize = 1024;

/// Types for which all bytes zero are a valid value, and which may be changed through a shared
/// reference.
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

    /// Makes the kernel use memory of this NUMA node for everything touched from now on, by any
    /// thread, as long as the node has free memory, and keep it there.
    ///
    /// # Errors
    /// The kernel's: the node does not exist, or this process may not choose.
    #[allow(unsafe_code)]
    pub(crate) fn bind(&self, node: u32) -> io::Result<()> {
        const BITS: usize = u64::BITS as usize;
        let mut nodes = [0u64; NODES_MAX / BITS];
        let word = nodes.get_mut(node as usize / BITS).ok_or(io::ErrorKind::InvalidInput)?;
        *word = 1 << (node as usize % BITS);
        // A huge page that is half bound would be small pages.
        let (start, bytes) = (self.start.as_ptr(), size_of_val(&**self).next_multiple_of(HUGE));
        // mbind(2) looks at one bit less than it is told of.
        let (mode, bits, flags) = (libc::MPOL_PREFERRED as usize, NODES_MAX + 1, 0usize);
        // SAFETY: the range lies in the mapping, where `zeroed` rounded likewise, and a policy
        // changes none of its contents; the kernel reads `bits - 1` bits of `nodes`, as it has.
        let done = unsafe {
            libc::syscall(libc::SYS_mbind, start, bytes, mode, nodes.as_ptr(), bits, flags)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the memory of a huge page, all of which lies in the array; afterwards its values are
    /// zero. False if the kernel refuses: then they are unchanged.
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

    /// The kernel's policy for the memory where the array begins (numa(7)), if it has any.
    fn policy(pages: &Pages<AtomicU32>) -> Option<String> {
        let all = std::fs::read_to_string("/proc/self/numa_maps").ok()?;
        let start = format!("{:x}", pages.start.as_ptr() as usize);
        let mut mappings = all.lines().map(|line| line.split(' '));
        mappings
            .find_map(|mut words| (words.next() == Some(&start)).then(|| words.next()))?
            .map(str::to_string)
    }

    #[test]
    fn memory_is_of_the_node_that_it_is_bound_to() {
        for len in [1, HUGE / 4 + 1] {
            let pages = Pages::<AtomicU32>::zeroed(len).expect("a few megabytes");
            match pages.bind(0) {
                Ok(()) => assert_eq!(policy(&pages).as_deref(), Some("prefer:0")),
                Err(error) => eprintln!("skipped: mbind: {error}"),
            }
            pages[len - 1].store(7, Relaxed);
            assert_eq!(pages[len - 1].load(Relaxed), 7);
            // Machines have no such nodes.
            for node in [1023, 1024, u32::MAX] {
                assert!(pages.bind(node).is_err(), "{node}");
            }
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
    fn oversized_requests_are_refused() {
        assert!(Pages::<AtomicU32>::zeroed(usize::MAX / 4).is_none());
        assert!(Pages::<AtomicU32>::zeroed(usize::MAX).is_none());
    }
}
