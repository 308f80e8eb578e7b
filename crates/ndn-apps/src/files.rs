//! Publishes files as objects: a single file, or a folder. The version is the time of the last
//! change, in microseconds since 1970.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plexus_wire::Time;
use plexus_wire::ndn::{Name, NameBuf};
use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::object::{About, Body, Object};
use crate::publisher::{Found, Library};

/// How long a version counts as the newest without another check.
const CHECK: Duration = Duration::from_millis(100);
/// Most objects kept open.
const OPEN_MAX: usize = 512;

/// A folder; no path leads out of it.
pub struct Tree {
    root: OwnedFd,
}

impl Tree {
    /// Opens the folder.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn open(folder: &Path) -> io::Result<Tree> {
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        Ok(Tree { root: rustix::fs::open(folder, flags, Mode::empty())? })
    }

    /// Opens the file at a path in it, given by its components; `None` if there is none. Links are
    /// followed as long as they stay in the folder (openat2(2), RESOLVE_BENEATH).
    pub fn file<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Option<File> {
        // A pipe would block until it has a writer.
        let file = File::from(self.at(parts, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?);
        file.metadata().is_ok_and(|about| about.is_file()).then_some(file)
    }

    /// True if there is a folder at a path in it.
    pub fn is_folder<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> bool {
        self.at(parts, OFlags::PATH | OFlags::DIRECTORY).is_some()
    }

    fn at<'p>(&self, parts: impl Iterator<Item = &'p [u8]>, flags: OFlags) -> Option<OwnedFd> {
        let mut path = Vec::new();
        for part in parts {
            let is_name = !part.is_empty() && part != b"." && part != b"..";
            if !is_name || part.contains(&b'/') || part.contains(&0) {
                return None;
            }
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(part);
        }
        let flags = flags | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let path = Path::new(std::ffi::OsStr::from_bytes(&path));
        rustix::fs::openat2(&self.root, path, flags, Mode::empty(), how).ok()
    }
}

/// Maps names to files.
pub trait Mapping {
    /// The file of a path, and its metadata. The caller sets the time of change.
    fn find(&self, path: Name<'_>) -> Option<(Body, About)>;
}

/// One file, or each file of a folder, by the components of its path.
pub enum Plain {
    /// The file of the prefix itself, opened anew each time.
    File(std::path::PathBuf, About),
    /// The files of a folder.
    Folder(Tree, About),
}

impl Plain {
    /// The file or folder at `path`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path, segment_size: usize, freshness: Duration) -> io::Result<Plain> {
        let about = About { segment_size, freshness, ..About::default() };
        match std::fs::metadata(path)? {
            m if m.is_dir() => Ok(Plain::Folder(Tree::open(path)?, about)),
            m if m.is_file() => File::open(path).map(|_| Plain::File(path.into(), about)),
            _ => Err(io::Error::other("it is neither a file nor a folder")),
        }
    }
}

impl Mapping for Plain {
    fn find(&self, path: Name<'_>) -> Option<(Body, About)> {
        let (file, about) = match self {
            Plain::File(at, about) if path.is_empty() => (File::open(at).ok()?, about),
            Plain::File(..) => return None,
            Plain::Folder(tree, about) => (tree.file(path.components().map(|c| c.value))?, about),
        };
        Some((Body::file(file).ok()?, about.clone()))
    }
}

/// Files as a library.
pub struct Files<M> {
    mapping: M,
    /// Open objects by path, with the time when they were last checked.
    open: HashMap<NameBuf, (Arc<Object>, Time)>,
    order: VecDeque<NameBuf>,
}

impl<M: Mapping> Files<M> {
    /// The files that a mapping finds.
    pub fn new(mapping: M) -> Files<M> {
        Files { mapping, open: HashMap::new(), order: VecDeque::new() }
    }

    fn look(&self, prefix: Name<'_>, path: Name<'_>) -> Option<Object> {
        let (body, mut about) = self.mapping.find(path)?;
        if let Body::File { mtime_ns, .. } = &body {
            about.mtime_ns = u64::try_from(*mtime_ns).ok();
        }
        let version = about.mtime_ns.unwrap_or(0) / 1000;
        let mut name = prefix.to_buf();
        name.extend(path);
        Object::new(name.as_name(), version, body, about).ok()
    }
}

fn is_same(a: &Body, b: &Body) -> bool {
    match (a, b) {
        (
            Body::File { size, mtime_ns, .. },
            Body::File { size: other_size, mtime_ns: other, .. },
        ) => size == other_size && mtime_ns == other,
        (Body::Memory(a), Body::Memory(b)) => a == b,
        _ => false,
    }
}

impl<M: Mapping> Library for Files<M> {
    fn find(&mut self, now: Time, prefix: Name<'_>, path: Name<'_>, version: Option<u64>) -> Found {
        if let Some((object, checked)) = self.open.get_mut(path.value())
            && (version == Some(object.version) || *checked + CHECK > now)
        {
            return Found::Object(object.clone());
        }
        let Some(newest) = self.look(prefix, path) else {
            self.open.remove(path.value());
            return Found::Absent;
        };
        let newest = match self.open.get(path.value()) {
            // Its packets have been made.
            Some((object, _)) if is_same(&object.body, &newest.body) => object.clone(),
            Some(_) => Arc::new(newest),
            None => {
                self.order.push_back(path.to_buf());
                Arc::new(newest)
            }
        };
        self.open.insert(path.to_buf(), (newest.clone(), now));
        while self.order.len() > OPEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.open.remove(&oldest);
        }
        Found::Object(newest)
    }
}
