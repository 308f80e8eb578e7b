//! A content store's log on its disk: opened together, as what the one asks for the other has to be
//! opened for.

use std::path::Path;

use plexus_io::disk::{AlignedBuffer, Disk, DiskSettings};
use plexus_ndn::store::log::{LogLimits, Part, Request, SegmentLog};

/// Segments that are being filled or written.
pub const BUFFERS: usize = 4;

/// Opens a file or device for a log of these limits and names, but for what the device decides: its
/// size and the size of its blocks. Names are hashed by `identity` until the disk says otherwise.
///
/// # Errors
/// In words, when it cannot be opened, or is too small.
pub fn open(
    path: &Path,
    limits: LogLimits,
    part: Part,
    identity: u64,
) -> Result<(Disk, SegmentLog<AlignedBuffer>), String> {
    let settings = DiskSettings {
        bytes: limits.bytes,
        // A node has reserved its files before.
        free_percent: 0,
        reads: limits.reads,
        read_bytes: limits.read_bytes_max(),
        writes: BUFFERS,
        engine: None,
    };
    let disk = Disk::open(path, settings).map_err(|e| e.to_string())?;
    let limits = LogLimits { bytes: disk.bytes(), block_bytes: disk.block_bytes(), ..limits };
    let segment = limits.segment_bytes as usize;
    let buffers = (0..BUFFERS).map(|_| AlignedBuffer::new(segment)).collect();
    let log = SegmentLog::new(limits, identity, buffers);
    let log = log.map_err(|e| format!("{}: {e}", path.display()))?;
    Ok((disk, log.for_part(part)))
}

/// A request that the disk did not take, by its token.
pub enum Refused {
    /// A read.
    Read(u32),
    /// A write.
    Write(u32),
}

/// Gives a disk what its log asks for.
///
/// # Errors
/// When as many requests are under way as there may be.
pub fn request(disk: &mut Disk, request: Request<AlignedBuffer>) -> Result<(), Refused> {
    match request {
        Request::Read { token, offset, len } => {
            disk.read(token, offset, len).then_some(()).ok_or(Refused::Read(token))
        }
        Request::Write { token, offset, len, buffer } => {
            disk.write(token, offset, len, buffer).then_some(()).ok_or(Refused::Write(token))
        }
    }
}

/// The engine and whether the page cache is passed by.
pub fn engine(disk: &Disk) -> String {
    let direct = if disk.is_direct() { "O_DIRECT" } else { "page cache" };
    format!("{}, {direct}", disk.engine().name())
}
