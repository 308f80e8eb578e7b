//! What the kernel counts of a block device (Documentation/block/stat.rst).

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes of the sectors that the kernel counts in, whatever the device's are.
const SECTOR: u64 = 512;

/// What a device has done since it was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Reads that it was asked for.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes that it was asked for.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time with a request under way, milliseconds.
    pub busy_ms: u64,
}

impl DeviceStats {
    /// Of the device that a file is on, or that it is.
    ///
    /// # Errors
    /// When the file is not there, or its file system is on no device of its own, as tmpfs and
    /// overlays are.
    pub fn of(path: &Path) -> io::Result<DeviceStats> {
        let metadata = fs::metadata(path)?;
        let is_device = metadata.file_type().is_block_device();
        let device = if is_device { metadata.rdev() } else { metadata.dev() };
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let from = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        let text = fs::read_to_string(&from).map_err(|error| {
            let what =
                format!("{} is on no block device: {}: {error}", path.display(), from.display());
            io::Error::new(error.kind(), what)
        })?;
        DeviceStats::parse(&text).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {text:?}", from.display()))
        })
    }

    fn parse(text: &str) -> Option<DeviceStats> {
        let fields: Vec<u64> = text.split_whitespace().map_while(|f| f.parse().ok()).collect();
        Some(DeviceStats {
            reads: *fields.first()?,
            read_bytes: fields.get(2)? * SECTOR,
            writes: *fields.get(4)?,
            written_bytes: fields.get(6)? * SECTOR,
            busy_ms: *fields.get(9)?,
        })
    }

    /// What was done since `earlier`.
    pub fn since(&self, earlier: &DeviceStats) -> DeviceStats {
        DeviceStats {
            reads: self.reads.wrapping_sub(earlier.reads),
            read_bytes: self.read_bytes.wrapping_sub(earlier.read_bytes),
            writes: self.writes.wrapping_sub(earlier.writes),
            written_bytes: self.written_bytes.wrapping_sub(earlier.written_bytes),
            busy_ms: self.busy_ms.wrapping_sub(earlier.busy_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read() {
        let line = " 10 1 80 5 20 2 160 7 0 12 12 0 0 0 0 0 0\n";
        let stats = DeviceStats::parse(line).unwrap();
        let expected = DeviceStats {
            reads: 10,
            read_bytes: 80 * 512,
            writes: 20,
            written_bytes: 160 * 512,
            busy_ms: 12,
        };
        assert_eq!(stats, expected);
        assert_eq!(stats.since(&stats), DeviceStats::default());
        assert_eq!(DeviceStats::parse("1 2 x"), None);
    }
}
