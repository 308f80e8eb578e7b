//! Services of the operating system: randomness, new files, optionally readable by one user only,
//! and the replacement of a file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;

use rustix::rand::{GetRandomFlags, getrandom};

/// Bytes of the operating system's randomness (getrandom(2)).
///
/// # Errors
/// When it has none to give.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

/// Checks that only the owner can read or change the file: a secret others can read is none.
///
/// # Errors
/// A message, when others can, or the file does not exist.
pub fn check_private(file: &Path) -> Result<(), String> {
    let metadata = fs::metadata(file).map_err(|e| e.to_string())?;
    if metadata.is_dir() {
        return Err("it is a directory".into());
    }
    if metadata.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(format!(
        "others may read or change it: chmod 600 {}, and make another if anybody has",
        file.display()
    ))
}

/// Writes and syncs a new file that only its owner can read: all of it, or nothing.
///
/// # Errors
/// When the file exists, or cannot be written.
pub fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    write(path, text, 0o600)
}

/// The same for a file with the permissions of the umask.
///
/// # Errors
/// As [`write_secret`].
pub fn write_new(path: &Path, text: &str) -> io::Result<()> {
    write(path, text, 0o666)
}

/// Advice for a new file whose name is taken.
pub const IN_THE_WAY: &str = "; nothing is written over: move it away, or name another file";

/// Why a new file was not written, in words, with advice if there is such a file already.
pub fn not_written(file: &Path, error: &io::Error) -> String {
    let help = match error.kind() {
        io::ErrorKind::AlreadyExists => IN_THE_WAY,
        _ => "",
    };
    format!("writing {}: {error}{help}", file.display())
}

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(mode).open(path)?;
    let bytes = text.as_bytes();
    // Some file systems say only then that there is no room.
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(path)))
}

/// Replaces a file by a rename, so that it is always complete, also after a crash. Owner and
/// permissions stay, and so does a symbolic link to it.
///
/// # Errors
/// When there is no such file, or it cannot be replaced.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let meta = fs::metadata(&path)?;
    rename_to(&path, text, |new| {
        chown(new, Some(meta.uid()), Some(meta.gid()))?;
        fs::set_permissions(new, meta.permissions())
    })
}

/// The same, whether there is such a file or not. A new one is for its owner alone.
///
/// # Errors
/// When it cannot be written.
pub fn put(path: &Path, text: &str) -> io::Result<()> {
    match path.try_exists()? {
        true => replace(path, text),
        false => rename_to(path, text, |_| Ok(())),
    }
}

/// Writes a file beside this one, and gives it its name when `prepare` has succeeded.
fn rename_to(
    path: &Path,
    text: &str,
    prepare: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let mut new = path.to_path_buf().into_os_string();
    new.push(".new");
    let new = Path::new(&new);
    // One that a crash has left.
    let _ = fs::remove_file(new);
    write(new, text, 0o600)?;
    let renamed = prepare(new).and_then(|()| fs::rename(new, path));
    renamed.inspect_err(|_| drop(fs::remove_file(new)))?;
    // The name is on disk once the folder is.
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_else_may_read_a_file_or_write_it_makes_it_no_secret() {
        let file = std::env::temp_dir().join(format!("plexus-secret-{}", std::process::id()));
        fs::write(&file, "").unwrap();
        let check = |mode| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            check_private(&file)
        };
        assert_eq!([0o600, 0o400, 0o700].map(check), [Ok(()), Ok(()), Ok(())]);
        for mode in [0o640, 0o604, 0o660, 0o602, 0o644] {
            let told = check(mode).unwrap_err();
            let what_to_do = format!("others may read or change it: chmod 600 {}", file.display());
            assert!(told.starts_with(&what_to_do), "{mode:o}: {told}");
        }
        fs::remove_file(&file).unwrap();
        assert!(check_private(&file).unwrap_err().contains("No such file"));
    }

    #[test]
    fn a_file_is_replaced_through_its_link_and_keeps_its_permissions() {
        let dir = std::env::temp_dir().join(format!("plexus-replace-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let [file, link] = ["a.toml", "b.toml"].map(|name| dir.join(name));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        // A file that a crash has left is in the way of nothing.
        fs::write(dir.join("a.toml.new"), "half").unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 2);
        assert!(replace(&dir.join("none"), "x").is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}
