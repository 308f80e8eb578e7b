//! A table that forwards for a while without its process.
//!
//! The kernel keeps a program at its hook as long as something refers to it. That is a descriptor
//! of the process, or a name in a BPF file system. Each network namespace has a directory there,
//! and in it each device's program has the device's number as its name. Another process ends the
//! table by detaching the program.
//!
//! A device takes frames for any station as long as a packet socket wants them. So that it goes on
//! without a socket, the device itself is set to take them. A second entry of the directory records
//! that.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FsWord, statfs};
use rustix::net::netdevice::{index_to_name, name_to_index};
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};

use crate::bpf::{detach_pinned, pin};
use crate::device::Device;

/// The directory of all tables.
const ALL: &str = "/sys/fs/bpf/plexus";
/// `BPF_FS_MAGIC` (linux/magic.h).
const BPF_FS: FsWord = 0xcafe_4a11;
/// Ends the name of the entry of a device that was set to take frames for any station.
const PROMISCUOUS: &str = "-promiscuous";

/// How a table outlives its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persist {
    directory: PathBuf,
    time: Duration,
}

impl Persist {
    /// A table that forwards for so long without its process. Makes its directory, which belongs to
    /// this process's network namespace.
    ///
    /// # Errors
    /// When there is no BPF file system, or the directory is somebody else's.
    pub fn prepare(time: Duration) -> io::Result<Persist> {
        let directory = directory()?;
        let above = Path::new("/sys/fs/bpf");
        if !statfs(above).is_ok_and(|system| system.f_type == BPF_FS) {
            let text = "/sys/fs/bpf is no file system of BPF (mount -t bpf bpf /sys/fs/bpf)";
            return Err(io::Error::other(text));
        }
        for path in [Path::new(ALL), &directory] {
            match DirBuilder::new().mode(0o700).create(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(of(path, error));
                }
                _ => check(path)?,
            }
        }
        Ok(Persist { directory, time })
    }

    /// When the table stops if it hears nothing more, in nanoseconds of CLOCK_MONOTONIC.
    pub(super) fn until(&self) -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        let now = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32);
        u64::try_from((now + self.time).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Keeps a program at a device's hook.
    pub(super) fn keep(&self, index: u32, link: &OwnedFd) -> io::Result<()> {
        end(&self.directory, index)?;
        let device = device(index)?;
        if !device.is_promiscuous()? {
            // The record first: what is not recorded is never undone.
            fs::create_dir(self.directory.join(format!("{index}{PROMISCUOUS}")))?;
            device.set_promiscuous(true)?;
        }
        pin(link, &self.directory.join(index.to_string()))
    }

    /// Keeps it no longer.
    pub(super) fn give_up(&self, index: u32) {
        if let Err(error) = end(&self.directory, index) {
            tracing::warn!(
                device = index, %error,
                "its fast table goes on when the node has ended"
            );
        }
    }
}

/// Ends what earlier processes have left at these devices. Call it before anybody else takes their
/// frames: what both forward would arrive twice.
///
/// # Errors
/// When something is left and cannot be ended.
pub fn end_persisting<'a>(devices: impl IntoIterator<Item = &'a str>) -> io::Result<()> {
    let directory = match directory() {
        Ok(directory) if fs::symlink_metadata(&directory).is_ok() => directory,
        _ => return Ok(()),
    };
    let socket = crate::sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    // A device that is not there yet has no program.
    let indices = devices.into_iter().filter_map(|name| name_to_index(&socket, name).ok());
    indices.into_iter().try_for_each(|index| end(&directory, index))
}

/// The directory of this thread's network namespace.
fn directory() -> io::Result<PathBuf> {
    let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
    Ok(Path::new(ALL).join(namespace.to_string()))
}

/// Whether a directory is one that nobody else may write into: no link, and our own.
fn check(path: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(path).map_err(|error| of(path, error))?;
    let is_ours = meta.is_dir() && meta.uid() == geteuid().as_raw() && meta.mode() & 0o022 == 0;
    let is_bpf = statfs(path).is_ok_and(|system| system.f_type == BPF_FS);
    if is_ours && is_bpf {
        return Ok(());
    }
    let text = "it is not this user's alone, or in no file system of BPF: remove it";
    Err(of(path, io::Error::other(text)))
}

/// Ends a device's program and what was set for it, if they are there.
fn end(directory: &Path, index: u32) -> io::Result<()> {
    let (place, record) =
        (directory.join(index.to_string()), directory.join(format!("{index}{PROMISCUOUS}")));
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    if !is_there(&place) && !is_there(&record) {
        return Ok(());
    }
    check(Path::new(ALL))?;
    check(directory)?;
    if is_there(&place) {
        detach_pinned(&place).map_err(|error| of(&place, error))?;
        fs::remove_file(&place).map_err(|error| of(&place, error))?;
    }
    if is_there(&record) {
        // It may be gone.
        if let Ok(device) = device(index) {
            device.set_promiscuous(false)?;
        }
        fs::remove_dir(&record).map_err(|error| of(&record, error))?;
    }
    Ok(())
}

fn device(index: u32) -> io::Result<Device> {
    let socket = crate::sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    Device::named(&index_to_name(socket, index)?).map_err(io::Error::other)
}

fn of(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
