//! Space for files of a given size. [`Reserved`] compares what all files need with the free space
//! of their file systems before it creates or extends any of them. If a later step of the start
//! fails, dropping it gives the space back.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use crate::OpenError;
use crate::error::patiently;

/// Bytes of the blocks that stat(2) counts (`st_blocks`).
const STAT_BLOCK: u64 = 512;

/// Files that have been created or extended. Dropping it removes the new files and cuts the others
/// to their former length; [`Reserved::keep`] keeps them.
#[derive(Debug, Default)]
pub struct Reserved(Vec<Grown>);

#[derive(Debug)]
struct Grown {
    path: PathBuf,
    /// Its former length; `None`: it is new.
    bytes_before: Option<u64>,
}

/// What the files on one file system still need.
struct Need<'a> {
    place: &'a Path,
    bytes: u64,
}

impl Reserved {
    /// Gives the files these sizes, with all of their blocks, and creates their folders. Devices
    /// and files that are long enough remain unchanged. `free_percent` of each file system stay
    /// free.
    ///
    /// # Errors
    /// A file system has too little space: then nothing has been created. A file cannot be created
    /// or extended, or is in use: then all files are as before.
    pub fn new(files: &[(PathBuf, u64)], free_percent: u8) -> Result<Reserved, OpenError> {
        Reserved::make(files, free_percent, |folder| fs::create_dir_all(folder))
    }

    /// The same, with a function that creates folders.
    pub(super) fn make(
        files: &[(PathBuf, u64)],
        free_percent: u8,
        make_folder: impl Fn(&Path) -> io::Result<()>,
    ) -> Result<Reserved, OpenError> {
        let mut wanted = Vec::new();
        let mut needs = BTreeMap::<u64, Need<'_>>::new();
        for (path, bytes) in files {
            let failed = |error| fail(path, "looking at the file", error);
            let missing = missing(path, *bytes).map_err(failed)?;
            let Some(missing) = missing else { continue };
            let place = existing(path);
            let device = fs::metadata(place).map_err(failed)?.dev();
            needs.entry(device).or_insert(Need { place, bytes: 0 }).bytes += missing;
            wanted.push((path, *bytes));
        }
        for need in needs.values() {
            need.check(free_percent)?;
        }
        let mut reserved = Reserved::default();
        for (path, bytes) in wanted {
            if let Some(folder) = path.parent() {
                make_folder(folder).map_err(|e| fail(path, "making its folder", e))?;
            }
            reserved.grow(path, bytes)?;
        }
        Ok(reserved)
    }

    /// Keeps the files as they are now.
    pub fn keep(mut self) {
        self.0.clear();
    }

    pub(super) fn grow(&mut self, path: &Path, bytes: u64) -> Result<(), OpenError> {
        let failed = |doing| move |error| fail(path, doing, error);
        let bytes_before = match fs::metadata(path) {
            Ok(about) => Some(about.len()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(fail(path, "looking at the file", e)),
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(failed("opening the file"))?;
        let path = path.canonicalize().map_err(failed("looking at the file"))?;
        // A file that another process uses must not change.
        lock(&file, &path)?;
        self.0.push(Grown { path: path.clone(), bytes_before });
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            // This file gets its blocks later. If there are none, its writes fail and are counted.
            Err(rustix::io::Errno::OPNOTSUPP) => {
                file.set_len(bytes).map_err(failed("setting its size"))
            }
            result => {
                let doing = "reserving its space (make room, or ask for less)";
                result.map_err(|e| fail(&path, doing, e.into()))
            }
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        for Grown { path, bytes_before } in self.0.drain(..).rev() {
            let undone = match bytes_before {
                None => fs::remove_file(&path),
                Some(bytes) => {
                    OpenOptions::new().write(true).open(&path).and_then(|f| f.set_len(bytes))
                }
            };
            if let Err(error) = undone {
                tracing::warn!(file = %path.display(), %error, "cannot give its space back");
            }
        }
    }
}

impl Need<'_> {
    fn check(&self, free_percent: u8) -> Result<(), OpenError> {
        let about = statvfs(self.place);
        let about = about.map_err(|e| fail(self.place, "asking for free space", e.into()))?;
        let free = about.f_bavail.saturating_mul(about.f_frsize);
        let total = u128::from(about.f_blocks) * u128::from(about.f_frsize);
        let stays = u64::try_from(total * u128::from(free_percent) / 100).unwrap_or(u64::MAX);
        if self.bytes <= free.saturating_sub(stays) {
            return Ok(());
        }
        Err(OpenError::NoRoom {
            place: self.place.into(),
            needed: in_words(self.bytes),
            free: in_words(free),
            stays: in_words(stays),
            free_percent,
        })
    }
}

fn fail(path: &Path, doing: &'static str, error: io::Error) -> OpenError {
    OpenError::system(&path.display().to_string(), doing, error)
}

/// Locks a file while it is open.
pub(super) fn lock(file: &File, path: &Path) -> Result<(), OpenError> {
    let device = || path.display().to_string();
    // The kernel closes the file of a killed ring in the background.
    patiently(|| match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let problem = "another process, or another worker, uses it: give each its own";
            Err(OpenError::Busy { device: device(), problem: problem.into() })
        }
        Err(TryLockError::Error(e)) => Err(fail(path, "locking the file", e)),
    })
}

/// Bytes that a file still needs to have this size; `None`: it is a device, or long enough.
fn missing(path: &Path, bytes: u64) -> io::Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(about) if about.file_type().is_block_device() || about.len() >= bytes => Ok(None),
        Ok(about) => Ok(Some(bytes.saturating_sub(about.blocks() * STAT_BLOCK))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Some(bytes)),
        Err(e) => Err(e),
    }
}

/// The path, or the nearest folder above it that exists.
fn existing(path: &Path) -> &Path {
    let here = Path::new(".");
    path.ancestors().find(|p| p.exists()).unwrap_or(here)
}

fn in_words(bytes: u64) -> String {
    let (unit, per) = match bytes {
        0..1_000_000_000 => ("MB", 1e6),
        _ => ("GB", 1e9),
    };
    format!("{:.1} {unit}", bytes as f64 / per)
}
