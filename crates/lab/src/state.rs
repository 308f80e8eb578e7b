//! The traces of labs on the machine: one directory each, and nothing else.
//!
//! ```text
//! /run/plexus-labs/labs/NAME/     (root; an ordinary user has $XDG_RUNTIME_DIR/plexus/labs or
//!     lock                         /tmp/plexus-UID/labs; PLEXUS_RUN_DIR replaces all of these)
//!     state.json                  what `plexus lab status` can say without asking
//!     topology                    the file it was made from, as it was
//!     control                     the supervisor's control socket
//!     log                         the supervisor's output
//!     NODE.toml, .sock, .log      each node's file, control socket and output
//! ```
//!
//! Nodes' files have a suffix that the lab's own have not, so a node may have any name.
//!
//! A lab is alive exactly as long as its supervisor holds the lock on `lock`. The kernel releases
//! it when the supervisor ends, so no process number can be mistaken for a lab, and a directory
//! with a free lock is the remains of a killed lab.
//!
//! Every user may write to `/tmp`, so nothing here is trusted, contacted or removed unless the
//! labs' directory and the one above it belong to this user alone ([`Directory::of`]): then no
//! other user can replace anything in them. A process is recognised as a supervisor by the kernel's
//! record of its control socket, never by a number in a file.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::cgroup;
use crate::error::{Doing, Error};
use crate::routing;

/// Longest name that leaves room for the sockets' paths (108 bytes, unix(7)).
const NAME_MAX: usize = 40;
/// Those of root: /run/plexus is the daemons', of another user.
const OF_ROOT: &str = "/run/plexus-labs";
const LOCK: &str = "lock";

/// What is known of a lab without contacting it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// The lab's name.
    pub lab: String,
    /// The file it was made from.
    pub file: PathBuf,
    /// The supervisor's process number, as the machine sees it.
    pub pid: i32,
    /// Whether it runs in a user namespace, for a user other than root.
    pub rootless: bool,
    /// What runs in its nodes: `plexus` or `bridge`.
    pub node_program: String,
    /// Hosts, in the order of the file.
    pub hosts: Vec<String>,
    /// Nodes, in the order of the file.
    pub nodes: Vec<String>,
    /// Controllers, in the order of the file.
    #[serde(default)]
    pub controllers: Vec<String>,
    /// The control group of its nodes, if any has a quota of processor time.
    #[serde(default)]
    pub cgroup: Option<PathBuf>,
    /// The machine whose part of the file it is; absent: it is all of it.
    #[serde(default)]
    pub machine: Option<String>,
}

/// A lab's directory.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    base: PathBuf,
    path: PathBuf,
    name: String,
}

/// Held by a supervisor as long as its lab is alive.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// The directory of all labs of this user.
pub(crate) fn base() -> PathBuf {
    if let Some(dir) = std::env::var_os("PLEXUS_RUN_DIR") {
        return PathBuf::from(dir).join("labs");
    }
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return Path::new(OF_ROOT).join("labs");
    }
    // su(1) may leave the variable of the user before.
    let ours = |dir: &Path| fs::metadata(dir).is_ok_and(|m| m.is_dir() && m.uid() == uid.as_raw());
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(dir) if ours(&dir) => dir.join("plexus/labs"),
        _ => PathBuf::from(format!("/tmp/plexus-{}/labs", uid.as_raw())),
    }
}

/// The control socket of a lab's node or controller.
///
/// # Errors
/// If the lab's name is invalid, or another user could have created the socket.
pub fn node_socket(lab: &str, node: &str) -> Result<PathBuf, Error> {
    Ok(Directory::of(lab)?.file(&format!("{node}.sock")))
}

/// The control sockets of every node and controller of every lab of this user, with names of the
/// form LAB/NODE.
///
/// Where the labs' directory is not this user's alone there are none, which is said on standard
/// error.
pub fn node_sockets() -> Vec<(String, PathBuf)> {
    let labs = Directory::all().unwrap_or_else(|e| {
        eprintln!("plexus: {e}");
        Vec::new()
    });
    let nodes = labs.iter().filter_map(|lab| {
        let state = lab.state()?;
        Some((lab, [state.nodes, state.controllers].concat()))
    });
    let sockets = nodes.flat_map(|(lab, nodes)| {
        nodes
            .into_iter()
            .map(move |node| (format!("{}/{node}", lab.name()), lab.file(&format!("{node}.sock"))))
    });
    sockets.collect()
}

/// A lab's name from user input: a name, or a file name, whose stem is used.
///
/// # Errors
/// If it cannot be a directory's name, or is too long.
pub(crate) fn check_name(name: &str) -> Result<&str, Error> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_MAX || name.starts_with('.') || !name.chars().all(good)
    {
        let rule = "letters, digits, `-`, `_` and `.`, not first a dot";
        let text = format!("{name:?} cannot name a lab: use up to {NAME_MAX} {rule}");
        return Err(Error::Unsupported(text));
    }
    Ok(name)
}

/// Opens a directory that belongs to this user alone; `None` if it does not exist.
///
/// # Errors
/// If it is a symbolic link, not a directory, another user's, or writable for others.
fn open_own(at: BorrowedFd<'_>, name: &Path, shown: &Path) -> Result<Option<OwnedFd>, Error> {
    let refuse = || {
        let text = format!(
            "{} is not a directory of yours alone, so nothing in it is trusted: remove it, or set \
             PLEXUS_RUN_DIR to a directory that only you can write to",
            shown.display()
        );
        Error::Unsupported(text)
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::openat(at, name, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR | Errno::ACCESS) => return Err(refuse()),
        Err(e) => return Err(Error::system(format!("opening {}", shown.display()), e)),
    };
    let stat = rustix::fs::fstat(&directory).doing(|| format!("looking at {}", shown.display()))?;
    let ours = stat.st_uid == rustix::process::geteuid().as_raw();
    if ours && stat.st_mode & 0o022 == 0 { Ok(Some(directory)) } else { Err(refuse()) }
}

/// Opens the directory of all labs; `None` where there is none.
fn open_base(base: &Path) -> Result<Option<OwnedFd>, Error> {
    let (Some(above), Some(name)) = (base.parent(), base.file_name()) else { return Ok(None) };
    match open_own(CWD, above, above)? {
        Some(above) => open_own(above.as_fd(), Path::new(name), base),
        None => Ok(None),
    }
}

/// Makes a directory with exactly this mode, unless there is one.
fn make(path: &Path, mode: u32) -> Result<(), Error> {
    let doing = || format!("creating {}", path.display());
    match fs::DirBuilder::new().mode(mode).create(path) {
        // The process's mask may have taken something away.
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(mode)).doing(doing),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(Error::system(doing(), e)),
    }
}

impl Directory {
    /// The directory of the lab `name`, whether it exists or not.
    ///
    /// # Errors
    /// If the name is invalid, or an existing directory does not belong to this user
    /// alone.
    pub(crate) fn of(name: &str) -> Result<Directory, Error> {
        Directory::within(base(), name)
    }

    /// That of the lab `name` below `base`: inside a user namespace a user looks like root, and
    /// would look for labs in the wrong place.
    pub(crate) fn within(base: PathBuf, name: &str) -> Result<Directory, Error> {
        let name = check_name(name)?.to_string();
        let directory = Directory { path: base.join(&name), base, name };
        directory.open()?;
        Ok(directory)
    }

    /// All that exist, by name.
    ///
    /// # Errors
    /// As [`Directory::of`].
    pub(crate) fn all() -> Result<Vec<Directory>, Error> {
        let base = base();
        let Some(opened) = open_base(&base)? else { return Ok(Vec::new()) };
        let doing = || format!("reading {}", base.display());
        let mut all = Vec::new();
        for entry in Dir::read_from(&opened).doing(doing)? {
            let entry = entry.doing(doing)?;
            let name = entry.file_name().to_str().ok().filter(|n| check_name(n).is_ok());
            if let Some(name) = name {
                all.push(Directory::within(base.clone(), name)?);
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Opens it; `None` where it does not exist.
    fn open(&self) -> Result<Option<OwnedFd>, Error> {
        match open_base(&self.base)? {
            Some(base) => open_own(base.as_fd(), Path::new(&self.name), &self.path),
            None => Ok(None),
        }
    }

    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn control_socket(&self) -> PathBuf {
        self.file("control")
    }

    /// Creates it, for this user alone.
    ///
    /// # Errors
    /// If another user created it first, since all may write to `/tmp`.
    pub(crate) fn create(&self) -> Result<(), Error> {
        if let Some(above) = self.base.parent() {
            if let Some(parents) = above.parent() {
                let doing = || format!("creating {}", parents.display());
                fs::DirBuilder::new().recursive(true).mode(0o700).create(parents).doing(doing)?;
            }
            make(above, 0o700)?;
            open_own(CWD, above, above)?;
        }
        make(&self.base, 0o700)?;
        open_base(&self.base)?;
        make(&self.path, 0o700)?;
        self.open()?;
        Ok(())
    }

    /// Takes the lab's lock, or `None` if the lab is alive.
    pub(crate) fn lock(&self) -> Result<Option<Lock>, Error> {
        self.take_lock(OFlags::CREATE)
    }

    /// The same, with or without making the file.
    fn take_lock(&self, create: OFlags) -> Result<Option<Lock>, Error> {
        let path = self.file(LOCK);
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | create;
        let file = match rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => File::from(file),
            // Another removed the directory.
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(Error::system(format!("opening {}", path.display()), e)),
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(e) => return Err(Error::system(format!("locking {}", path.display()), e)),
        }
        // Another may have removed the directory between the opening and the locking.
        let same = fs::metadata(&path)
            .is_ok_and(|now| file.metadata().is_ok_and(|then| then.ino() == now.ino()));
        if same { Ok(Some(Lock { _file: file })) } else { Ok(None) }
    }

    /// Whether a supervisor holds the lock.
    pub(crate) fn is_alive(&self) -> bool {
        let Ok(file) = File::open(self.file(LOCK)) else { return false };
        let held = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
        held == Err(rustix::io::Errno::WOULDBLOCK)
    }

    pub(crate) fn write_state(&self, state: &State) -> Result<(), Error> {
        let (new, path) = (self.file("state.json.new"), self.file("state.json"));
        let text = serde_json::to_string(state).doing(|| "writing the lab's state".into())?;
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &path))
            .doing(|| format!("writing {}", path.display()))
    }

    /// The state, if the lab got as far as writing one.
    pub(crate) fn state(&self) -> Option<State> {
        serde_json::from_str(&fs::read_to_string(self.file("state.json")).ok()?).ok()
    }

    /// Removes the remains of a lab that is not alive; returns whether there were any. A directory
    /// without a lock belongs to no lab, and is removed only if it is empty.
    ///
    /// # Errors
    /// As [`Directory::clear`].
    pub(crate) fn remove_stale(&self) -> Result<bool, Error> {
        if self.open()?.is_none() {
            return Ok(false);
        }
        if fs::symlink_metadata(self.file(LOCK)).is_err() {
            let gone = fs::remove_dir(&self.path);
            gone.doing(|| format!("removing {}, which has no lock", self.path.display()))?;
            return Ok(true);
        }
        let Some(_lock) = self.take_lock(OFlags::empty())? else { return Ok(false) };
        if let Some(state) = self.state() {
            routing::clear(&state.lab, state.pid);
        }
        self.remove_cgroup();
        self.clear()?;
        Ok(true)
    }

    /// Removes the control group of a lab that was here and is no more. The caller holds the lock.
    pub(crate) fn remove_cgroup(&self) {
        if let Some(group) = self.state().and_then(|state| state.cgroup) {
            cgroup::remove(&group);
        }
    }

    /// Whether a lab lived here and was killed: it got as far as writing its state.
    pub(crate) fn is_stale(&self) -> bool {
        self.file(LOCK).exists() && self.file("state.json").exists() && !self.is_alive()
    }

    /// Removes it. The caller holds the lock.
    ///
    /// # Errors
    /// If it contains something that no lab creates: then nothing is removed.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        self.empty(&[])?;
        match fs::remove_dir(&self.path) {
            // Without its lock another lab may be in it already.
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            gone => gone.doing(|| format!("removing {}", self.path.display())),
        }
    }

    /// Removes it although the caller's process may still put files there. The lock stays while
    /// there are others: without it, the directory may be another lab's.
    pub(crate) fn clear_while_it_fills(&self) {
        for _ in 0..100 {
            let _ = self.empty(&[LOCK]);
            if fs::read_dir(&self.path).map_or(0, Iterator::count) <= 1 {
                break;
            }
        }
        let _ = self.clear();
        // A file may have come even now. No other lab is in the directory if its lock is free.
        for _ in 0..100 {
            let Ok(Some(_lock)) = self.lock() else { break };
            if self.clear().is_err() {
                break;
            }
        }
    }

    /// Removes the files and sockets directly in it except `kept`, the lock last.
    pub(crate) fn empty(&self, kept: &[&str]) -> Result<(), Error> {
        let Some(opened) = self.open()? else { return Ok(()) };
        let doing = || format!("removing {}", self.path.display());
        let mut names = Vec::new();
        for entry in Dir::read_from(&opened).doing(doing)? {
            let name = entry.doing(doing)?.file_name().to_owned();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = match rustix::fs::statat(&opened, &*name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(e) => return Err(Error::system(doing(), e)),
            };
            let kind = FileType::from_raw_mode(stat.st_mode);
            if !matches!(kind, FileType::RegularFile | FileType::Socket) {
                let name = name.to_string_lossy();
                let text = format!(
                    "{}/{name} is no file of a lab: nothing there was removed; look at it, and \
                     remove it by hand",
                    self.path.display()
                );
                return Err(Error::Unsupported(text));
            }
            if !kept.iter().any(|kept| kept.as_bytes() == name.to_bytes()) {
                names.push(name);
            }
        }
        names.sort_by_key(|name| name.to_bytes() == LOCK.as_bytes());
        for name in names {
            match rustix::fs::unlinkat(&opened, &*name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(e) => return Err(Error::system(doing(), e)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_leave_the_directory_are_refused() {
        for bad in ["", ".", "..", "a/b", "a b", ".hidden", &"x".repeat(41)] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        assert_eq!(check_name("switch-2_vlan.b").unwrap(), "switch-2_vlan.b");
    }
}
