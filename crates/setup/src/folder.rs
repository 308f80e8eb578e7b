//! The folder with a box's files: `/etc/plexus`, where the units of `examples/` look for them.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use plexus_config::document::read_text;
use plexus_control::identity::Authority;
use plexus_daemon::identity::check_permissions;
use plexus_io::secret::{self, write_new, write_secret};
use plexus_io::users::user;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::geteuid;

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
    if !file.exists() {
        return Err(format!(
            "there is no {}: run this on the box of `plexus group create`, or name the folder with \
             --dir",
            file.display()
        ));
    }
    let authority = read_authority(&file)?;
    Ok((file, authority))
}

/// The authority in a file.
///
/// # Errors
/// In words, when the file is none, or others can read it.
pub(crate) fn read_authority(file: &Path) -> Result<Authority, String> {
    check_permissions(file)?;
    let text = read_text(file).map_err(|e| e.to_string())?;
    Authority::from_toml(&file.display().to_string(), &text).map_err(|e| e.to_string())
}

/// A lock on a file that commands change: a file beside it, which only its owner can open, so that
/// nobody else can hold it.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Waits for it.
    fn of(file: &Path) -> io::Result<Lock> {
        // A link is followed, as when the file is replaced.
        let real = fs::canonicalize(file)?;
        let name = real.file_name().unwrap_or_default().to_string_lossy();
        let path = real.with_file_name(format!(".{name}.lock"));
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(&path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            // The one before removes its file.
            let own = file.metadata()?.ino();
            if fs::symlink_metadata(&path).is_ok_and(|now| now.ino() == own) {
                return Ok(Lock { path, _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Changes a file: `change` makes the new text of the text that it has, and what else it found.
/// Changes at once happen one after the other, and none is lost.
///
/// # Errors
/// In words. Nothing is written then.
pub(crate) fn update<T>(
    path: &Path,
    change: impl FnOnce(&str) -> Result<(String, T), String>,
) -> Result<T, String> {
    // First, because it says best what is wrong with a path.
    read_text(path).map_err(|e| e.to_string())?;
    let locking = |e: io::Error| format!("locking {}: {e}{}", path.display(), for_root(&e));
    let _lock = Lock::of(path).map_err(locking)?;
    let text = read_text(path).map_err(|e| e.to_string())?;
    let (new, found) = change(&text)?;
    if new != text {
        replace(path, &new)?;
    }
    Ok(found)
}

/// Replaces a file by a rename ([`secret::replace`]).
///
/// # Errors
/// In words.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), String> {
    secret::replace(path, text)
        .map_err(|e| format!("writing {}: {e}{}", path.display(), for_root(&e)))
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

/// Advice for a file that is there and cannot be changed.
fn for_root(e: &io::Error) -> &'static str {
    match e.kind() {
        io::ErrorKind::PermissionDenied if !geteuid().is_root() => "; run it as root",
        _ => "",
    }
}

/// Advice for a new file.
fn as_root(e: &io::Error) -> &'static str {
    match for_root(e) {
        "" => "",
        _ => "; run it as root, or name another folder with --dir",
    }
}
