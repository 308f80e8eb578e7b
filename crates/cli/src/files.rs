//! New files, none written over another.

use std::path::Path;

use plexus_io::secret::{self, not_written};

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
