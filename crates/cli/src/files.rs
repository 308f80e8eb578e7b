//! Files of keys and certificates: those that are their owner's alone, and new ones.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use plexus_io::secret;

/// A secret that others can read is none.
///
/// # Errors
/// In words, when they can, or there is no such file.
pub(crate) fn check_private(file: &Path) -> Result<(), String> {
    let mode = fs::metadata(file).map_err(|e| e.to_string())?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(format!(
        "others may read or change it: chmod 600 {}, and make another if anybody has",
        file.display()
    ))
}

/// Writes a new file that only its owner can read.
///
/// # Errors
/// In words, when there is such a file, or it cannot be written.
pub(crate) fn write_private(file: &Path, text: &str) -> Result<(), String> {
    secret::write_secret(file, text).map_err(|e| not_written(file, &e))
}

/// Writes a new file.
///
/// # Errors
/// As [`write_private`].
pub(crate) fn write_new(file: &Path, text: &str) -> Result<(), String> {
    secret::write_new(file, text).map_err(|e| not_written(file, &e))
}

fn not_written(file: &Path, error: &io::Error) -> String {
    let help = match error.kind() {
        io::ErrorKind::AlreadyExists => IN_THE_WAY,
        _ => "",
    };
    format!("writing {}: {error}{help}", file.display())
}

/// What to do about a file that is there already.
pub(crate) const IN_THE_WAY: &str =
    "; nothing is written over: move it away, or name another --out";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_else_may_read_a_file_or_write_it_makes_it_no_secret() {
        let file = std::env::temp_dir().join(format!("plexus-files-{}", std::process::id()));
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
