//! Services of the operating system: randomness, and new files, optionally readable by one user
//! only.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
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

/// Writes and syncs a new file that only its owner can read: all of it, or nothing.
///
/// # Errors When the file exists, or cannot be written.
pub fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    write(path, text, 0o600)
}

/// The same for a file with the permissions of the umask.
///
/// # Errors As [`write_secret`].
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
