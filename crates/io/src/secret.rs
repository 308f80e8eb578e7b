//! Services of the operating system: randomness, and new files, optionally readable by one user
//! only.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
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
    let mode = fs::metadata(file).map_err(|e| e.to_string())?.permissions().mode();
    if mode & 0o077 == 0 {
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

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(mode).open(path)?;
    let bytes = text.as_bytes();
    // Some file systems say only then that there is no room.
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(path)))
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
}
