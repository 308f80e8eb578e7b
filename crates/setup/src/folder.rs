//! The folder with a box's files: `/etc/plexus`, where the units of `examples/` look for them.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use plexus_config::document::read_text;
use plexus_control::identity::Authority;
use plexus_daemon::identity::check_permissions;
use plexus_io::secret::{self, write_new, write_secret};
use plexus_io::users::user;
use rustix::fs::{FlockOperation, flock};

/// The user that runs the daemons in `examples/*.service`.
pub const UNIT_USER: &str = "plexus";
/// The file of a group's authority.
pub const AUTHORITY: &str = "group.key";

/// The files that a command has written. They are removed again if the command fails.
pub struct Folder {
    path: PathBuf,
    written: Vec<PathBuf>,
    is_done: bool,
}

impl Folder {
    /// Opens a folder, and makes it if there is none.
    ///
    /// # Errors
    /// In words, when it cannot be made.
    pub fn open(path: &Path) -> Result<Folder, String> {
        let is_new = !path.exists();
        let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
        // The daemon's user has to search it, whatever this user's mask: secrets are protected by
        // their own permissions.
        let made = made.and_then(|()| if is_new { open_to_all(path, 0o755) } else { Ok(()) });
        made.map_err(|e| format!("creating {}: {e}{}", path.display(), as_root(&e)))?;
        // Files name each other by absolute paths.
        let path = std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Folder { path, written: Vec::new(), is_done: false })
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Checks that none of these files exists.
    ///
    /// # Errors
    /// With the first that does.
    pub fn check_free<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        for name in names {
            let file = self.file(name);
            if file.symlink_metadata().is_ok() {
                return Err(format!(
                    "{} is there already; nothing is written over: move it away, or name another \
                     folder with --dir",
                    file.display()
                ));
            }
        }
        Ok(())
    }

    /// Writes a new file that people edit, and that the daemon's user can read.
    ///
    /// # Errors
    /// In words.
    pub fn write(&mut self, name: &str, text: &str) -> Result<PathBuf, String> {
        self.keep(name, |path| {
            write_new(path, text)?;
            open_to_all(path, 0o644).inspect_err(|_| drop(fs::remove_file(path)))
        })
    }

    /// Writes a new file for its owner alone.
    ///
    /// # Errors
    /// In words.
    pub fn write_secret(&mut self, name: &str, text: &str) -> Result<PathBuf, String> {
        self.keep(name, |path| write_secret(path, text))
    }

    /// Writes the identity of a daemon, and gives it to the daemons' user if root calls.
    ///
    /// # Errors
    /// In words.
    pub fn write_identity(&mut self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.write_secret(name, text)?;
        give_to_daemon(&path)?;
        Ok(path)
    }

    /// A file was made by other means: it is removed too if the command fails.
    pub fn made(&mut self, path: PathBuf) {
        self.written.push(path);
    }

    /// The command has succeeded: its files stay.
    pub fn done(mut self) {
        self.is_done = true;
    }

    fn keep(
        &mut self,
        name: &str,
        write: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<PathBuf, String> {
        let path = self.file(name);
        write(&path).map_err(|e| format!("writing {}: {e}{}", path.display(), as_root(&e)))?;
        self.written.push(path.clone());
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_done {
            self.written.iter().for_each(|path| drop(fs::remove_file(path)));
        }
    }
}

fn open_to_all(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// The authority of a folder, and its file.
///
/// # Errors
/// In words, when there is none.
pub(crate) fn authority(folder: &Path) -> Result<(PathBuf, Authority), String> {
    let file = folder.join(AUTHORITY);
    let shown = file.display().to_string();
    if !file.exists() {
        return Err(format!(
            "there is no {shown}: run this on the box of `plexus group create`, or name the folder \
             with --dir"
        ));
    }
    check_permissions(&file)?;
    let text = read_text(&file).map_err(|e| e.to_string())?;
    let authority = Authority::from_toml(&shown, &text).map_err(|e| e.to_string())?;
    Ok((file, authority))
}

/// Locks the folder of a file until the result is dropped; `None` if there is no such file. A
/// command that reads a file and then replaces it holds the lock meanwhile, so that it loses no
/// other command's change.
///
/// # Errors
/// In words.
pub(crate) fn lock(file: &Path) -> Result<Option<File>, String> {
    // A link is followed, as when the file is replaced.
    let Ok(real) = fs::canonicalize(file) else { return Ok(None) };
    let folder = real.parent().unwrap_or(Path::new("/"));
    let locked = File::open(folder).and_then(|folder| {
        flock(&folder, FlockOperation::LockExclusive)?;
        Ok(Some(folder))
    });
    locked.map_err(|e| format!("locking {}: {e}{}", folder.display(), as_root(&e)))
}

/// Adds lines to the end of a file, which is replaced.
///
/// # Errors
/// In words.
pub(crate) fn append(path: &Path, lines: &str) -> Result<(), String> {
    let _lock = lock(path)?;
    let text = read_text(path).map_err(|e| e.to_string())?;
    replace(path, &format!("{text}{lines}"))
}

/// Replaces a file by a rename ([`secret::replace`]).
///
/// # Errors
/// In words.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), String> {
    secret::replace(path, text)
        .map_err(|e| format!("writing {}: {e}{}", path.display(), as_root(&e)))
}

/// Gives a file of root to the user of the units, if there is one.
///
/// # Errors
/// In words.
pub(crate) fn give_to_daemon(path: &Path) -> Result<(), String> {
    let is_roots = fs::metadata(path).is_ok_and(|file| file.uid() == 0);
    match user(|user| user.name == UNIT_USER) {
        Some(user) if is_roots => chown(path, Some(user.id), Some(user.group))
            .map_err(|e| format!("giving {} to user {UNIT_USER}: {e}", path.display())),
        _ => Ok(()),
    }
}

fn as_root(e: &io::Error) -> &'static str {
    match e.kind() {
        io::ErrorKind::PermissionDenied => "; run it as root, or name another folder with --dir",
        _ => "",
    }
}
