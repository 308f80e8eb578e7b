//! A ring shared with the kernel: one side produces, the other consumes, each index has one
//! writer. See Documentation/networking/af_xdp.rst, "Rings".

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Tells that the kernel has gone to sleep and wants a system call.
const NEED_WAKEUP: u32 = libc::XDP_RING_NEED_WAKEUP;

/// The mapping of a ring and where its parts are. `T` is what its slots hold.
struct Shared<T> {
    map: NonNull<u8>,
    bytes: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    slots: NonNull<T>,
    mask: u32,
}

// SAFETY: plain shared memory; the type that wraps it is the only user on this side.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    /// Maps the ring of `size` slots that the socket offers at `page`.
    fn map(
        socket: &OwnedFd,
        page: libc::off_t,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Shared<T>> {
        let bytes = offsets.desc as usize + size as usize * size_of::<T>();
        // SAFETY: a fresh shared mapping of kernel memory aliases nothing of ours.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                page,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map: NonNull<u8> = NonNull::new(map.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the kernel's offsets lie in the mapping that it sized by the same numbers.
        let at = |offset: u64| unsafe { map.add(offset as usize) };
        Ok(Shared {
            map,
            bytes,
            producer: at(offsets.producer).cast(),
            consumer: at(offsets.consumer).cast(),
            flags: at(offsets.flags).cast(),
            slots: at(offsets.desc).cast(),
            mask: size - 1,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: aligned, in the mapping, and only ever used as an atomic.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    fn needs_wakeup(&self) -> bool {
        // SAFETY: as above.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }

    fn slot(&self, index: u32) -> NonNull<T> {
        // SAFETY: the mask keeps the index below the number of slots.
        unsafe { self.slots.add((index & self.mask) as usize) }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: this is the range that `map` made, and no reference outlives `self`.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.bytes) };
    }
}

/// A ring that we fill: fill and transmit.
pub(super) struct ProducerRing<T> {
    shared: Shared<T>,
    /// Slots written, published or not.
    head: u32,
    /// The kernel's index when last looked at.
    tail: u32,
}

impl<T: Copy> ProducerRing<T> {
    pub(super) fn map(
        socket: &OwnedFd,
        page: libc::off_t,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<ProducerRing<T>> {
        Ok(ProducerRing { shared: Shared::map(socket, page, offsets, size)?, head: 0, tail: 0 })
    }

    /// Slots that can be written now; looks again at the kernel's index if fewer than `wanted`.
    pub(super) fn free(&mut self, wanted: u32) -> u32 {
        let size = self.shared.mask + 1;
        if size - self.head.wrapping_sub(self.tail) < wanted {
            self.tail = self.shared.consumer().load(Ordering::Acquire);
        }
        size - self.head.wrapping_sub(self.tail)
    }

    /// Writes the next slot; there must be a free one.
    pub(super) fn push(&mut self, value: T) {
        assert!(self.head.wrapping_sub(self.tail) <= self.shared.mask, "ring is full");
        // SAFETY: the slot is free, so the kernel does not read it before `publish`.
        unsafe { self.shared.slot(self.head).write(value) };
        self.head = self.head.wrapping_add(1);
    }

    /// Shows the kernel what was written.
    pub(super) fn publish(&mut self) {
        self.shared.producer().store(self.head, Ordering::Release);
    }

    /// Slots that the kernel has not taken yet.
    pub(super) fn pending(&mut self) -> u32 {
        self.tail = self.shared.consumer().load(Ordering::Acquire);
        self.head.wrapping_sub(self.tail)
    }

    /// Whether the kernel wants a system call to go on.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.shared.needs_wakeup()
    }
}

/// A ring that the kernel fills: receive and completion.
pub(super) struct ConsumerRing<T> {
    shared: Shared<T>,
    /// The kernel's index when last looked at.
    head: u32,
    /// Slots read, released or not.
    tail: u32,
}

impl<T: Copy> ConsumerRing<T> {
    pub(super) fn map(
        socket: &OwnedFd,
        page: libc::off_t,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<ConsumerRing<T>> {
        Ok(ConsumerRing { shared: Shared::map(socket, page, offsets, size)?, head: 0, tail: 0 })
    }

    /// Slots that can be read now.
    pub(super) fn available(&mut self) -> u32 {
        if self.head == self.tail {
            self.head = self.shared.producer().load(Ordering::Acquire);
        }
        self.head.wrapping_sub(self.tail)
    }

    /// Reads the next slot, if there is one.
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.available() == 0 {
            return None;
        }
        // SAFETY: the kernel has written the slot and leaves it alone until `release`.
        let value = unsafe { self.shared.slot(self.tail).read() };
        self.tail = self.tail.wrapping_add(1);
        Some(value)
    }

    /// Gives the slots that were read back to the kernel.
    pub(super) fn release(&mut self) {
        self.shared.consumer().store(self.tail, Ordering::Release);
    }
}
