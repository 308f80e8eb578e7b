//! Files and block devices with non-blocking reads and writes: requests go in, completions come
//! out, and there is a descriptor to sleep on.
//!
//! A [`Disk`] uses `io_uring` on a file opened with `O_DIRECT`, so that every read goes to the
//! device and no page is cached twice. If the kernel or a container's filter refuses `io_uring`, a
//! few threads with positional reads replace it ([`Disk::engine`] tells which); if the file system
//! has no direct I/O, the page cache is used ([`Disk::is_direct`]).
//!
//! ```text
//! read, write    enqueue a request; false: the limit of requests in flight is reached
//! submit         passes enqueued requests to the kernel, in one system call
//! complete       shows every completed request, and frees its buffer
//! ```

mod buffer;
mod ring;
mod room;
mod stats;
#[cfg(test)]
mod tests;
mod threads;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, StatxFlags, statx};

use crate::OpenError;
pub use buffer::AlignedBuffer;
use ring::Ring;
pub use room::Reserved;
pub use stats::{DeviceStats, disks, place};
use threads::Threads;

/// The largest alignment of direct I/O here, which is assumed if the kernel does not report it.
const BLOCK_MAX: usize = 4096;

/// How long closing waits for requests in flight. A hanging device does not block its process;
/// memory that it may still write to is never reused.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// How a disk is opened.
#[derive(Clone, Copy, Debug)]
pub struct DiskSettings {
    /// Bytes of the file, which is created and grown as needed. A device has its own size; this is
    /// an upper bound on its use.
    pub bytes: u64,
    /// Percent of the file system that stay free if the file is created or extended.
    pub free_percent: u8,
    /// Most reads in flight.
    pub reads: usize,
    /// Bytes of the longest read.
    pub read_bytes: usize,
    /// Most writes in flight.
    pub writes: usize,
    /// Which engine: `None` is the best there is.
    pub engine: Option<Engine>,
}

/// The implementation of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The kernel's rings.
    IoUring,
    /// Threads of ours with `pread` and `pwrite`.
    Threads,
}

impl Engine {
    /// Its name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Engine::IoUring => "io_uring",
            Engine::Threads => "threads",
        }
    }
}

enum Running {
    Ring(Box<Ring>),
    Threads(Threads),
}

/// A completed request.
pub enum Completion<'a> {
    /// A read.
    Read {
        /// The token of the request.
        token: u32,
        /// The result: as many bytes as requested.
        result: io::Result<&'a [u8]>,
    },
    /// A write, whose buffer was given up.
    Written {
        /// The token of the request.
        token: u32,
        /// The result.
        result: io::Result<()>,
    },
}

/// A file or device, opened for one owner.
pub struct Disk {
    running: Running,
    /// Keeps the lock.
    _file: Arc<File>,
    bytes: u64,
    block_bytes: usize,
    is_direct: bool,
}

impl Disk {
    /// Opens a file, which is created if there is none, or a block device. A caller with several
    /// files reserves all of them first ([`Reserved`]).
    ///
    /// # Errors
    /// When it cannot be opened or made that large, or another disk of this or another process has
    /// it open.
    pub fn open(path: &Path, settings: DiskSettings) -> Result<Disk, OpenError> {
        let name = path.display().to_string();
        let system = |doing| {
            let name = name.clone();
            move |error: io::Error| OpenError::system(&name, doing, error)
        };
        let wanted = [(path.to_path_buf(), settings.bytes)];
        let reserved = Reserved::make(&wanted, settings.free_percent, |_| Ok(()))?;
        let open = |flags| OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        let (file, is_direct) = match open(libc::O_DIRECT) {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                tracing::warn!(
                    file = name,
                    "this file system has no direct I/O: what is read is in the page cache too; \
                     a file on ext4 or xfs, or a block device, is better"
                );
                (open(0).map_err(system("opening the file"))?, false)
            }
            opened => (opened.map_err(system("opening the file"))?, true),
        };
        room::lock(&file, path)?;
        let bytes = size(&file, settings.bytes).map_err(system("finding its size"))?;
        let block_bytes = block_bytes(&file);
        let file = Arc::new(file);
        let ring = match settings.engine {
            Some(Engine::Threads) => None,
            wanted => match Ring::new(&file, &settings) {
                Ok(ring) => Some(ring),
                Err(error) if wanted.is_some() => {
                    return Err(OpenError::Invalid {
                        device: name,
                        problem: format!(
                            "io_uring is refused ({error}): allow it (sysctl \
                         kernel.io_uring_disabled, or the container's seccomp profile), or let \
                         threads do it"
                        ),
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, file = name, "no io_uring: threads take its place");
                    None
                }
            },
        };
        let running = match ring {
            Some(ring) => Running::Ring(Box::new(ring)),
            None => {
                let threads = Threads::new(&file, &settings);
                Running::Threads(threads.map_err(system("starting threads"))?)
            }
        };
        reserved.keep();
        Ok(Disk { running, _file: file, bytes, block_bytes, is_direct })
    }

    /// Bytes that can be used.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Offsets and lengths must be multiples of this.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Whether the page cache is bypassed.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// What carries requests out.
    pub fn engine(&self) -> Engine {
        match &self.running {
            Running::Ring(_) => Engine::IoUring,
            Running::Threads(_) => Engine::Threads,
        }
    }

    /// Requests `len` bytes starting at `offset`. False if the limit of reads in flight or their
    /// longest length is exceeded.
    pub fn read(&mut self, token: u32, offset: u64, len: usize) -> bool {
        match &mut self.running {
            Running::Ring(ring) => ring.read(token, offset, len),
            Running::Threads(threads) => threads.read(token, offset, len),
        }
    }

    /// Requests writing the first `len` bytes of a buffer. False if the limit of writes in flight
    /// is reached, or the buffer is shorter.
    pub fn write(
        &mut self,
        token: u32,
        offset: u64,
        len: usize,
        buffer: Arc<AlignedBuffer>,
    ) -> bool {
        match &mut self.running {
            Running::Ring(ring) => ring.write(token, offset, len, buffer),
            Running::Threads(threads) => threads.write(token, offset, len, buffer),
        }
    }

    /// Passes the enqueued requests to the kernel. Those that it does not accept now are passed
    /// again by the next call.
    ///
    /// # Errors
    /// When the kernel refuses for good.
    pub fn submit(&mut self) -> io::Result<()> {
        match &mut self.running {
            Running::Ring(ring) => ring.submit(),
            Running::Threads(_) => Ok(()),
        }
    }

    /// Shows every completed request; returns how many.
    pub fn complete(&mut self, over: impl FnMut(Completion<'_>)) -> usize {
        match &mut self.running {
            Running::Ring(ring) => ring.complete(over),
            Running::Threads(threads) => threads.complete(over),
        }
    }

    /// Readable while a completed request has not been shown.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.running {
            Running::Ring(ring) => ring.fd(),
            Running::Threads(threads) => threads.fd(),
        }
    }
}

/// Bytes that can be used of a file, which is that long, or of a device.
fn size(file: &File, wanted: u64) -> io::Result<u64> {
    if file.metadata()?.file_type().is_block_device() {
        return Ok(rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?.min(wanted));
    }
    Ok(wanted)
}

/// What direct I/O on the file is aligned to (statx(2), STATX_DIOALIGN).
fn block_bytes(file: &File) -> usize {
    let asked = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let told = asked.ok().filter(|s| s.stx_mask & StatxFlags::DIOALIGN.bits() != 0);
    let bytes = told.map_or(BLOCK_MAX, |s| s.stx_dio_offset_align as usize);
    if bytes.is_power_of_two() { bytes.clamp(512, BLOCK_MAX) } else { BLOCK_MAX }
}
