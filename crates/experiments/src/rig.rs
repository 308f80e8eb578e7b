//! Parts of experiments with real processes.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempDir};

/// A folder that goes with the value.
pub(super) struct Scratch(TempDir);

impl Scratch {
    /// Makes one where temporary files are.
    pub(super) fn new(name: &str) -> Result<Scratch, String> {
        Scratch::within(&std::env::temp_dir(), name)
    }

    pub(super) fn within(directory: &Path, name: &str) -> Result<Scratch, String> {
        let made = Builder::new().prefix(&format!("plexus-{name}-")).tempdir_in(directory);
        made.map(Scratch).map_err(|e| format!("{}: {e}", directory.display()))
    }

    /// A place in it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &[u8]) -> Result<PathBuf, String> {
        let path = self.join(name);
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(path)
    }
}
