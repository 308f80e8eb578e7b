//! Statistics of a block device (Documentation/block/stat.rst).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes of the sectors that the kernel counts in, whatever the device's are.
const SECTOR: u64 = 512;

/// What a device has done since it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time with a request in flight, milliseconds.
    pub busy_ms: u64,
}

impl DeviceStats {
    /// Of the device that a file is on, or that it is.
    ///
    /// # Errors
    /// When the file is not there, or its file system is on no device of its own, as tmpfs and
    /// overlays are.
    pub fn of(path: &Path) -> io::Result<DeviceStats> {
        let from = folder(path)?.join("stat");
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

    /// The difference to `earlier`.
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

/// What the kernel tells of the device that a file is on, or that it is.
fn folder(path: &Path) -> io::Result<PathBuf> {
    let metadata = fs::metadata(path)?;
    let is_device = metadata.file_type().is_block_device();
    let device = if is_device { metadata.rdev() } else { metadata.dev() };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    Ok(PathBuf::from(format!("/sys/dev/block/{major}:{minor}")))
}

/// The names of the whole disks that hold a file, or a block device: a partition counts as its
/// disk, a mapped or striped device as the disks below it. Empty for a file system that has no
/// block device of its own, such as tmpfs or an overlay.
///
/// # Errors
/// When the file is not there.
pub fn disks(path: &Path) -> io::Result<BTreeSet<String>> {
    folder(path).map(|device| disks_below(&device))
}

/// The same of a device's directory in /sys (Documentation/ABI/testing/sysfs-block).
fn disks_below(device: &Path) -> BTreeSet<String> {
    let Ok(device) = fs::canonicalize(device) else { return BTreeSet::new() };
    let is_partition = device.join("partition").exists();
    let whole = if is_partition { device.parent().unwrap_or(&device) } else { &device };
    let below = fs::read_dir(whole.join("slaves")).into_iter().flatten().flatten();
    let below: BTreeSet<String> = below.flat_map(|entry| disks_below(&entry.path())).collect();
    if !below.is_empty() {
        return below;
    }
    whole.file_name().map(|name| name.to_string_lossy().into_owned()).into_iter().collect()
}

/// The location of a file: its file system and block device, as `ext4 on sda1`; or a device.
/// Unknown parts are `?`: a tmpfs has no device.
pub fn place(path: &Path) -> String {
    let device = folder(path).and_then(fs::canonicalize).ok();
    let device = device.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    let device = device.unwrap_or("?");
    if fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device()) {
        return device.into();
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let absolute = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    format!("{} on {device}", file_system(&mounts, &absolute).unwrap_or("?"))
}

/// The file system mounted at a path (proc_pid_mountinfo(5)): the last of those with the longest
/// mount point, which hides the others.
fn file_system<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let mount = |line: &'a str| {
        let (mount, source) = line.split_once(" - ")?;
        let point = Path::new(mount.split(' ').nth(4)?);
        path.starts_with(point).then_some((point.as_os_str().len(), source.split(' ').next()?))
    };
    mounts.lines().filter_map(mount).max_by_key(|(len, _)| *len).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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

    #[test]
    fn a_partition_and_what_is_mapped_onto_it_are_on_its_whole_disk() {
        let sys = std::env::temp_dir().join(format!("plexus-sys-{}", std::process::id()));
        let _ = fs::remove_dir_all(&sys);
        let numbers = sys.join("dev/block");
        fs::create_dir_all(&numbers).unwrap();
        let device = |number: &str, path: &str, is_partition: bool, below: &[&str]| {
            let folder = sys.join("devices").join(path);
            fs::create_dir_all(folder.join("slaves")).unwrap();
            if is_partition {
                fs::write(folder.join("partition"), "1\n").unwrap();
            }
            for path in below {
                let (target, name) = (sys.join("devices").join(path), path.replace('/', "-"));
                symlink(target, folder.join("slaves").join(name)).unwrap();
            }
            symlink(&folder, numbers.join(number)).unwrap();
        };
        device("8:0", "pci/sda", false, &[]);
        device("8:1", "pci/sda/sda1", true, &[]);
        device("8:2", "pci/sda/sda2", true, &[]);
        device("259:0", "pci/nvme0n1", false, &[]);
        device("259:1", "pci/nvme0n1/nvme0n1p1", true, &[]);
        // A logical volume on a partition, and a stripe over two disks with a partition of its own.
        device("253:0", "virtual/dm-0", false, &["pci/sda/sda2"]);
        device("9:0", "virtual/md0", false, &["virtual/dm-0", "pci/nvme0n1/nvme0n1p1"]);
        device("259:2", "virtual/md0/md0p1", true, &[]);
        let of = |number: &str| Vec::from_iter(disks_below(&numbers.join(number)));
        for number in ["8:0", "8:1", "8:2", "253:0"] {
            assert_eq!(of(number), ["sda"], "{number}");
        }
        assert_eq!((of("259:0"), of("259:1")), (vec!["nvme0n1".into()], vec!["nvme0n1".into()]));
        assert_eq!((of("9:0"), of("259:2")), (of("259:2"), vec!["nvme0n1".into(), "sda".into()]));
        // The kernel numbers a tmpfs, but gives it no device.
        assert_eq!(of("0:42"), [""; 0]);
        assert!(disks(Path::new("/proc/self/stat")).unwrap().is_empty());
        fs::remove_dir_all(&sys).unwrap();
    }

    #[test]
    fn the_file_system_is_that_of_the_longest_mount_point() {
        let mounts = "1 0 254:0 / / rw - ext4 /dev/root rw\n\
                      2 1 0:20 / /a rw shared:1 - tmpfs tmpfs rw\n\
                      3 1 8:1 / /a/b rw - xfs /dev/sda1 rw\nodd\n\
                      4 1 8:2 / /a/b rw - btrfs /dev/sdb rw\n";
        let of = |path: &str| file_system(mounts, Path::new(path));
        assert_eq!(of("/a/bc/d"), Some("tmpfs"));
        assert_eq!(of("/a/b/c"), Some("btrfs"));
        assert_eq!(of("/b"), Some("ext4"));
        assert!(place(Path::new("/proc/self/stat")).starts_with("proc on ?"));
    }
}
