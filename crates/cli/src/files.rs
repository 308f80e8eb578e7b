//! New files of keys and certificates.

use std::io;
use std::path::Path;

use plexus_io::secret;

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

/// Advice for a file that exists already.
pub(crate) const IN_THE_WAY: &str = "; nothing is written over: move it away, or name another file";
