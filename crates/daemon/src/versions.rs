//! The earlier texts of a daemon's file, in a folder: `3.toml` is version 3, and `index.json` says
//! which one runs. People may read and copy all of it; only the daemon writes there.
//!
//! A text is on disk before the index names it, and the index is replaced by a rename: a crash
//! leaves the index before or the one after.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use plexus_api::answer::config::Version;
use plexus_config::document::read_text;
use plexus_io::clock::unix_ms;
use plexus_io::secret;
use serde::{Deserialize, Serialize};

/// Versions that are kept; the oldest go.
const VERSIONS_MAX: usize = 32;
/// Bytes of a comment that are kept.
const COMMENT_MAX: usize = 200;
/// The format of the index. It grows when an older program would read it wrongly.
const FORMAT: u32 = 1;
const INDEX: &str = "index.json";

/// The versions in a folder.
pub(crate) struct Versions {
    folder: PathBuf,
    pub(crate) index: Index,
}

/// The index of the versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Index {
    format: u32,
    /// The highest number that a version has had.
    last: u64,
    /// The version that runs.
    pub(crate) running: Option<u64>,
    /// The running version is on trial, and this one returns.
    pub(crate) back_to: Option<u64>,
    /// The daemon has gone back from this version and could not write its file, which may still
    /// have the text.
    pub(crate) withdrawn: Option<u64>,
    /// The oldest first.
    pub(crate) versions: Vec<Version>,
}

impl Versions {
    /// Reads what a folder has; a folder that does not exist has none.
    ///
    /// # Errors
    /// In words, when the index cannot be read, or a newer program wrote it.
    pub(crate) fn open(folder: &Path) -> Result<Versions, String> {
        let path = folder.join(INDEX);
        let shown = path.display();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let index = Index { format: FORMAT, ..Index::default() };
                return Ok(Versions { folder: folder.into(), index });
            }
            Err(e) => return Err(format!("{shown}: {e}")),
        };
        let damaged = |e| format!("{shown} is damaged: {e}; move the folder away to begin anew");
        let json: serde_json::Value = serde_json::from_slice(&text).map_err(damaged)?;
        match json["format"].as_u64() {
            Some(format) if format > FORMAT.into() => Err(format!(
                "{shown} has format {format}, and plexus {} reads format {FORMAT}: a newer plexus \
                 wrote it. Install that, or move the folder away to begin anew",
                env!("CARGO_PKG_VERSION")
            )),
            _ => {
                let index = serde_json::from_value(json).map_err(damaged)?;
                Ok(Versions { folder: folder.into(), index })
            }
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number}.toml"))
    }

    /// A version.
    pub(crate) fn get(&self, number: u64) -> Option<&Version> {
        self.index.versions.iter().find(|version| version.number == number)
    }

    /// The text of a version.
    ///
    /// # Errors
    /// In words, when there is no such version, or its file cannot be read.
    pub(crate) fn text(&self, number: u64) -> Result<String, String> {
        if self.get(number).is_none() {
            let folder = self.folder.display();
            return Err(format!("there is no version {number} in {folder}"));
        }
        read_text(&self.path(number)).map_err(|e| e.to_string())
    }

    /// The newest version with this text.
    pub(crate) fn find(&self, text: &str) -> Option<&Version> {
        let is_it = |version: &&Version| self.text(version.number).is_ok_and(|its| its == text);
        self.index.versions.iter().rev().find(is_it)
    }

    /// Keeps a text as the next version. The caller [saves](Versions::save) the index.
    ///
    /// # Errors
    /// In words, when it cannot be written.
    pub(crate) fn add(&mut self, text: &str, comment: &str, good: bool) -> Result<u64, String> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(|e| self.not_written(&e))?;
        let number = self.index.last + 1;
        let path = self.path(number);
        // One that the index never came to name.
        let _ = fs::remove_file(&path);
        secret::write_secret(&path, text).map_err(|e| self.not_written(&e))?;
        self.index.last = number;
        let comment = comment.chars().filter(|c| !c.is_control());
        self.index.versions.push(Version {
            number,
            kept_unix_s: unix_ms() / 1000,
            comment: comment.take(COMMENT_MAX).collect(),
            plexus: env!("CARGO_PKG_VERSION").into(),
            good,
        });
        Ok(number)
    }

    /// Takes back what was added since. Its numbers are not used again.
    pub(crate) fn undo(&mut self, before: Index) {
        let last = self.index.last;
        for number in before.last + 1..=last {
            let _ = fs::remove_file(self.path(number));
        }
        self.index = Index { last, ..before };
    }

    /// Writes the index; the oldest versions go.
    ///
    /// # Errors
    /// In words, when it cannot be written; what is on disk is as before.
    pub(crate) fn save(&mut self) -> Result<(), String> {
        let Index { running, back_to, withdrawn, .. } = self.index;
        let needed = [running, back_to, withdrawn];
        let mut gone = Vec::new();
        while self.index.versions.len() > VERSIONS_MAX {
            let old = self.index.versions.iter().position(|v| !needed.contains(&Some(v.number)));
            let Some(old) = old else { break };
            gone.push(self.index.versions.remove(old).number);
        }
        let text = serde_json::to_string_pretty(&self.index).map_err(|e| e.to_string())?;
        let path = self.folder.join(INDEX);
        secret::put(&path, &text).map_err(|e| self.not_written(&e))?;
        gone.into_iter().for_each(|number| drop(fs::remove_file(self.path(number))));
        Ok(())
    }

    fn not_written(&self, error: &io::Error) -> String {
        format!("keeping a version in {}: {error}", self.folder.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_and_numbers_are_not_used_again() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("n1.versions");
        let mut versions = Versions::open(&folder).unwrap();
        assert!(versions.index.versions.is_empty() && !folder.exists());
        for i in 1..=40 {
            let number = versions.add(&format!("text {i}"), "a\u{1b}[2Jb", true).unwrap();
            versions.index.running = Some(number);
            versions.index.back_to = Some(1);
            versions.save().unwrap();
        }
        let mut versions = Versions::open(&folder).unwrap();
        assert_eq!(versions.index.versions.len(), VERSIONS_MAX);
        // The one that a trial returns to stays.
        assert_eq!(versions.text(1).unwrap(), "text 1");
        assert!(versions.text(2).unwrap_err().contains("no version 2"));
        assert_eq!(versions.find("text 40").unwrap().number, 40);
        assert_eq!(versions.get(40).unwrap().comment, "a[2Jb");
        // Texts and the index, and nothing else.
        assert_eq!(fs::read_dir(&folder).unwrap().count(), VERSIONS_MAX + 1);
        assert_eq!(versions.add("x", "", true).unwrap(), 41);
    }

    #[test]
    fn an_index_that_is_damaged_or_newer_is_refused_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let told = |text: &str| {
            fs::write(folder.join(INDEX), text).unwrap();
            Versions::open(folder).err().unwrap()
        };
        assert!(told("{").contains("damaged"));
        assert!(told("[]").contains("damaged"));
        let newer = told("{\"format\": 2, \"branches\": []}");
        assert!(newer.contains("a newer plexus wrote it"), "{newer}");
    }
}
