//! Requests by `io_uring` (io_uring(7)). The file and the buffers for reads are registered, so
//! that the kernel looks neither up for each request.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use io_uring::{IoUring, opcode, squeue, types};

use super::{AlignedBuffer, CLOSE_LIMIT, Completion, DiskSettings};

/// Tells a write's number from a read's.
const WRITE: u64 = 1 << 32;
/// The file's place among the registered ones.
const FILE: types::Fixed = types::Fixed(0);

struct Read {
    buffer: AlignedBuffer,
    token: u32,
    len: usize,
}

struct Write {
    buffer: Arc<AlignedBuffer>,
    token: u32,
    len: usize,
}

/// Invariant: the kernel may write to `reads[i].buffer` exactly while `i` is neither in
/// `free_reads` nor shown by `complete`, and may read `writes[i].buffer` exactly while it is
/// `Some`. No reference to a read's buffer is created in that time, and neither buffer is freed or
/// moved (the bytes of an `AlignedBuffer` stay where they are when it moves).
pub(super) struct Ring {
    ring: IoUring,
    reads: Vec<Read>,
    free_reads: Vec<u32>,
    writes: Vec<Option<Write>>,
    /// Requests in flight.
    under_way: usize,
    has_registered_buffers: bool,
}

impl Ring {
    pub(super) fn new(file: &File, settings: &DiskSettings) -> io::Result<Ring> {
        let entries = (settings.reads + settings.writes).next_power_of_two();
        let entries = u32::try_from(entries)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "too many requests"))?;
        let ring = IoUring::new(entries)?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let read = || Read { buffer: AlignedBuffer::new(settings.read_bytes), token: 0, len: 0 };
        let mut ring = Ring {
            ring,
            reads: (0..settings.reads).map(|_| read()).collect(),
            free_reads: (0..settings.reads as u32).rev().collect(),
            writes: (0..settings.writes).map(|_| None).collect(),
            under_way: 0,
            has_registered_buffers: false,
        };
        ring.register_buffers();
        Ok(ring)
    }

    /// Pins the buffers for reads. Where RLIMIT_MEMLOCK is too low for it, every read pins its own.
    fn register_buffers(&mut self) {
        let vector = |read: &mut Read| libc::iovec {
            iov_base: read.buffer.as_mut().as_mut_ptr().cast(),
            iov_len: read.buffer.as_ref().len(),
        };
        let vectors: Vec<libc::iovec> = self.reads.iter_mut().map(vector).collect();
        // SAFETY: the buffers live until `self.ring` was dropped or all requests are over (see
        // `Drop`), and the kernel writes to them only for requests.
        match unsafe { self.ring.submitter().register_buffers(&vectors) } {
            Ok(()) => self.has_registered_buffers = true,
            Err(error) => tracing::debug!(%error, "buffers are not registered"),
        }
    }

    fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the entry's buffer is `self`'s and stays until the request is over: the struct's
        // invariant. The file is registered, and a ring keeps what is registered with it.
        let pushed = unsafe { self.ring.submission().push(entry) }.is_ok();
        self.under_way += usize::from(pushed);
        pushed
    }

    pub(super) fn read(&mut self, token: u32, offset: u64, len: usize) -> bool {
        let Some(&number) = self.free_reads.last() else { return false };
        let read = &mut self.reads[number as usize];
        let bytes = read.buffer.as_mut();
        if len > bytes.len() {
            return false;
        }
        let (at, length) = (bytes.as_mut_ptr(), len as u32);
        let entry = if self.has_registered_buffers {
            opcode::ReadFixed::new(FILE, at, length, number as u16).offset(offset).build()
        } else {
            opcode::Read::new(FILE, at, length).offset(offset).build()
        };
        (read.token, read.len) = (token, len);
        // Removed from the list before the kernel can know of it.
        self.free_reads.pop();
        let pushed = self.push(&entry.user_data(number.into()));
        if !pushed {
            self.free_reads.push(number);
        }
        pushed
    }

    pub(super) fn write(
        &mut self,
        token: u32,
        offset: u64,
        len: usize,
        buffer: Arc<AlignedBuffer>,
    ) -> bool {
        let bytes: &[u8] = (*buffer).as_ref();
        let Some(number) = self.writes.iter().position(Option::is_none) else { return false };
        if len > bytes.len() {
            return false;
        }
        let entry = opcode::Write::new(FILE, bytes.as_ptr(), len as u32).offset(offset).build();
        self.writes[number] = Some(Write { buffer, token, len });
        let pushed = self.push(&entry.user_data(WRITE | number as u64));
        if !pushed {
            self.writes[number] = None;
        }
        pushed
    }

    pub(super) fn submit(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        match self.ring.submit() {
            Ok(_) => Ok(()),
            // The kernel is short of a resource, or was interrupted: the rest stays enqueued.
            Err(e)
                if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::EINTR)) =>
            {
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    pub(super) fn complete(&mut self, mut over: impl FnMut(Completion<'_>)) -> usize {
        let mut count = 0;
        while let Some(entry) = self.ring.completion().next() {
            count += 1;
            self.under_way -= 1;
            let number = entry.user_data();
            let outcome = |len: usize| match usize::try_from(entry.result()) {
                Ok(n) if n == len => Ok(()),
                Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
                Err(_) => Err(io::Error::from_raw_os_error(-entry.result())),
            };
            if number & WRITE == 0 {
                let read = &self.reads[number as usize];
                let (token, bytes) = (read.token, &read.buffer.as_ref()[..read.len]);
                over(Completion::Read { token, result: outcome(read.len).map(|()| bytes) });
                self.free_reads.push(number as u32);
            } else if let Some(write) = self.writes[(number & !WRITE) as usize].take() {
                drop(write.buffer);
                over(Completion::Written { token: write.token, result: outcome(write.len) });
            }
        }
        count
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring's descriptor is open as long as `self` is.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel must have done with every buffer before it is freed.
        let end = Instant::now() + CLOSE_LIMIT;
        while self.under_way > 0 {
            let left = types::Timespec::from(end.saturating_duration_since(Instant::now()));
            let args = types::SubmitArgs::new().timespec(&left);
            match self.ring.submitter().submit_with_args(1, &args) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let (under_way, late) = (self.under_way, error.raw_os_error());
                    if late == Some(libc::ETIME) {
                        tracing::warn!(under_way, "the disk does not answer");
                    } else {
                        tracing::warn!(under_way, %error, "waiting for the disk");
                    }
                    // The kernel may still write to them: this memory must never be reused.
                    std::mem::forget(std::mem::take(&mut self.reads));
                    std::mem::forget(std::mem::take(&mut self.writes));
                    return;
                }
            }
            self.complete(|_| {});
        }
    }
}
