//! Parts of experiments with real processes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use plexus_io::namespace::Namespaces;
use serde_json::Value;
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

/// A network namespace of its own, which this makes ready from within.
pub(super) fn namespace(
    ready: impl FnOnce() -> io::Result<()> + Send,
) -> Result<Namespaces, String> {
    Namespaces::create(ready).map_err(|e| format!("making a network namespace (root may): {e}"))
}

/// This program in a place, with these arguments.
pub(super) fn own(place: &Namespaces, arguments: &[&str]) -> Result<Command, String> {
    let mut own = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
    place.apply(own.args(arguments)).map_err(|e| e.to_string())?;
    Ok(own)
}

/// Packets that a meter has received, each once: a duplicate makes no loss good.
pub(super) fn received_once(heard: &Value) -> Result<f64, String> {
    Ok(number(heard, "/total/received")? - number(heard, "/total/duplicates")?)
}

/// The rate at which they came. What a queue still held when the sender ended came after its time,
/// which then lasts until the last packet.
pub(super) fn received_per_s(heard: &Value, sent_for: Duration) -> Result<f64, String> {
    let arriving = number(heard, "/total/seconds").unwrap_or(0.0);
    Ok(received_once(heard)? / sent_for.as_secs_f64().max(arriving))
}

/// A number of a generator's or meter's answer.
pub(super) fn number(answer: &Value, path: &str) -> Result<f64, String> {
    let number = answer.pointer(path).and_then(Value::as_f64);
    number.ok_or_else(|| format!("there is no {path} in {answer}"))
}
