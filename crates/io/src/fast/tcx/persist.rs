//! A table that forwards for a while without its process.
//!
//! The kernel keeps a program at its hook as long as something refers to it. That is a descriptor
//! of the process, or a name in a BPF file system. There is a directory for each table, with a name
//! for each device's program. Another process ends the table by removing the names.
//!
//! A device takes frames for any station as long as a packet socket wants them. Beyond that it is
//! set to, which a second entry of the directory records.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FsWord, statfs};
use rustix::time::{ClockId, clock_gettime};

use crate::bpf::pin;
use crate::device::Device;

/// `BPF_FS_MAGIC` (linux/magic.h).
const BPF_FS: FsWord = 0xcafe_4a11;
/// Ends the name of the entry of a device that was set to take frames for any station.
const PROMISCUOUS: &str = "-promiscuous";

/// How a table outlives its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persist {
    /// A directory of its own, to be made in a BPF file system.
    pub directory: PathBuf,
    /// How long the table forwards without its process.
    pub time: Duration,
}

impl Persist {
    /// Makes the directory.
    ///
    /// # Errors
    /// When that is not possible, or it is in another file system.
    pub(super) fn prepare(&self) -> io::Result<()> {
        let system = self.directory.ancestors().find_map(|above| statfs(above).ok());
        if system.is_none_or(|system| system.f_type != BPF_FS) {
            return Err(io::Error::other(format!(
                "{} is not in a file system of BPF (mount -t bpf bpf /sys/fs/bpf)",
                self.directory.display()
            )));
        }
        let named = |e: io::Error| {
            io::Error::new(e.kind(), format!("making {}: {e}", self.directory.display()))
        };
        fs::create_dir_all(&self.directory).map_err(named)
    }

    /// When the table stops if it hears nothing more, in nanoseconds of CLOCK_MONOTONIC.
    pub(super) fn until(&self) -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        let now = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32);
        u64::try_from((now + self.time).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Keeps a program at a device's hook.
    pub(super) fn keep(&self, index: u32, link: &OwnedFd) -> io::Result<()> {
        self.give_up(index);
        let device = device(index)?;
        if !device.is_promiscuous()? {
            device.set_promiscuous(true)?;
            fs::create_dir(self.directory.join(format!("{index}{PROMISCUOUS}")))?;
        }
        pin(link, &self.directory.join(index.to_string()))
    }

    /// Keeps it no longer.
    pub(super) fn give_up(&self, index: u32) {
        remove(&self.directory, &index.to_string());
        remove(&self.directory, &format!("{index}{PROMISCUOUS}"));
    }
}

/// Ends the table that persists in a directory, if one does.
///
/// # Errors
/// When the directory can be read, and not removed.
pub fn end_persisting(directory: &Path) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(directory) else { return Ok(()) };
    for entry in entries.flatten() {
        remove(directory, &entry.file_name().to_string_lossy());
    }
    fs::remove_dir(directory)
}

/// Removes an entry, and undoes what it stands for.
fn remove(directory: &Path, name: &str) {
    let path = directory.join(name);
    let Some(index) = name.strip_suffix(PROMISCUOUS) else {
        let _ = fs::remove_file(path);
        return;
    };
    if fs::remove_dir(path).is_ok()
        && let Ok(index) = index.parse()
        && let Ok(device) = device(index)
    {
        let _ = device.set_promiscuous(false);
    }
}

fn device(index: u32) -> io::Result<Device> {
    let socket = crate::sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let name = rustix::net::netdevice::index_to_name(socket, index)?;
    Device::named(&name).map_err(io::Error::other)
}
