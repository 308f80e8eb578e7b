//! Where labs leave a trace on the machine: one directory each, and nothing else.
//!
//! ```text
//! /run/plexus/labs/NAME/          (root; an ordinary user has $XDG_RUNTIME_DIR/plexus/labs or
//!     lock                         /tmp/plexus-UID/labs; PLEXUS_RUN_DIR replaces all of these)
//!     state.json                  what `plexus lab status` can say without asking
//!     topology                    the file it was made from, as it was
//!     control                     the supervisor's control socket
//!     log                         what the supervisor said
//!     NODE.toml, .sock, .log      each node's file, control socket and what it said
//! ```
//!
//! Nodes' files have a suffix that the lab's own have not, so a node may have any name.
//!
//! A lab is alive exactly as long as its supervisor holds the lock on `lock`. The kernel lets go
//! of it when the supervisor ends, so no process number can be mistaken for a lab, and a
//! directory whose lock is free is what a killed lab left behind.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::process::{Pid, PidfdFlags};
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error};

/// Longest name that leaves room for the sockets' paths (108 bytes, unix(7)).
const NAME_MAX: usize = 40;

/// What is known of a lab without asking it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// The lab's name.
    pub lab: String,
    /// The file it was made from.
    pub file: PathBuf,
    /// The supervisor's process number, as the machine sees it.
    pub pid: i32,
    /// Whether it lives in a user namespace, for a user who is not root.
    pub rootless: bool,
    /// What runs in its nodes: `plexus` or `bridge`.
    pub node_program: String,
    /// Hosts, in the order of the file.
    pub hosts: Vec<String>,
    /// Nodes, in the order of the file.
    pub nodes: Vec<String>,
}

/// A lab's directory.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    name: String,
}

/// Held by a supervisor as long as its lab lives.
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
        return "/run/plexus/labs".into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if Path::new(&dir).is_dir() => PathBuf::from(dir).join("plexus/labs"),
        _ => PathBuf::from(format!("/tmp/plexus-{}/labs", uid.as_raw())),
    }
}

/// Where a node of a lab has its control socket.
///
/// # Errors
/// Where the lab's name cannot be one.
pub fn node_socket(lab: &str, node: &str) -> Result<PathBuf, Error> {
    Ok(Directory::of(lab)?.file(&format!("{node}.sock")))
}

/// The control sockets of every node of every lab of this user, with names of the form LAB/NODE.
pub fn node_sockets() -> Vec<(String, PathBuf)> {
    let labs = Directory::all().unwrap_or_default();
    let nodes = labs.iter().filter_map(|lab| Some((lab, lab.state()?.nodes)));
    let sockets = nodes.flat_map(|(lab, nodes)| {
        nodes
            .into_iter()
            .map(move |node| (format!("{}/{node}", lab.name()), lab.file(&format!("{node}.sock"))))
    });
    sockets.collect()
}

/// A lab's name from what a user typed: itself, or the stem of a file's name.
///
/// # Errors
/// Where it cannot be a directory's name, or is too long.
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

impl Directory {
    /// That of the lab `name`, whether it exists or not.
    pub(crate) fn of(name: &str) -> Result<Directory, Error> {
        let name = check_name(name)?.to_string();
        Ok(Directory { path: base().join(&name), name })
    }

    /// All that exist, by name.
    pub(crate) fn all() -> Result<Vec<Directory>, Error> {
        let base = base();
        let entries = match fs::read_dir(&base) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::system(format!("reading {}", base.display()), e)),
        };
        let mut all: Vec<Directory> = entries
            .filter_map(|entry| Directory::of(entry.ok()?.file_name().to_str()?).ok())
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
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

    /// Makes it, for this user alone.
    ///
    /// # Errors
    /// Where somebody else made it first: `/tmp` is everybody's.
    pub(crate) fn create(&self) -> Result<(), Error> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
            .doing(|| format!("creating {}", self.path.display()))?;
        let base = base();
        let owned = |dir: &Path| -> io::Result<bool> {
            let meta = fs::symlink_metadata(dir)?;
            let uid = rustix::process::geteuid().as_raw();
            Ok(meta.is_dir() && meta.uid() == uid && meta.mode() & 0o022 == 0)
        };
        for dir in [base.parent(), Some(&*base), Some(&*self.path)].into_iter().flatten() {
            if !owned(dir).doing(|| format!("looking at {}", dir.display()))? {
                let text = format!(
                    "{} is not a directory of yours alone; set PLEXUS_RUN_DIR to one that is",
                    dir.display()
                );
                return Err(Error::Unsupported(text));
            }
        }
        Ok(())
    }

    /// Takes the lab's lock, or `None` if the lab is alive.
    pub(crate) fn lock(&self) -> Result<Option<Lock>, Error> {
        let path = self.file("lock");
        let open = File::options().create(true).truncate(false).write(true).open(&path);
        let file = open.doing(|| format!("opening {}", path.display()))?;
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
        let Ok(file) = File::open(self.file("lock")) else { return false };
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

    /// A handle to the supervisor if it is alive: the lock is looked at after the process was
    /// taken hold of, so that it is not another with the same number.
    pub(crate) fn supervisor(&self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(self.state()?.pid)?;
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        self.is_alive().then_some(pidfd)
    }

    /// Removes what a lab that is not alive left; whether there was something.
    pub(crate) fn remove(&self) -> Result<bool, Error> {
        match fs::remove_dir_all(&self.path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::system(format!("removing {}", self.path.display()), e)),
        }
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
