//! The ledger of a group: every identity that its authority has issued, so that no number is issued
//! to two boxes. It is a file beside the authority's. `plexus identity` and `plexus group` use it.
//! It has one JSON object per line: the group first, then one line for each identity. A number that
//! was issued again has several lines, of which the last is valid.
//!
//! The entry of an identity is on the disk before the identity's file is written.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use plexus_control::identity::{Authority, Identity, Role};
use serde::{Deserialize, Serialize};

use plexus_wire::hex;

/// The first line.
#[derive(Serialize, Deserialize)]
struct Head {
    group: String,
}

/// An identity that was issued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The box's number.
    pub number: u64,
    /// The box's role.
    pub role: Role,
    /// The box's name.
    pub name: String,
    /// The box's public key.
    pub key: String,
    /// The box was taken out of the group. Its number is not issued again by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

impl Entry {
    /// The entry of an identity.
    pub fn of(identity: &Identity) -> Entry {
        let claims = identity.claims();
        let (number, role, name) = (claims.node, claims.role, claims.name.clone());
        Entry { number, role, name, key: hex(&claims.static_public), removed: false }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} (key {})", self.role, self.name, self.key.get(..16).unwrap_or(&self.key))
    }
}

/// The ledger, read and locked against other processes.
pub struct Ledger {
    path: PathBuf,
    file: File,
    entries: Vec<Entry>,
    /// The file did not exist: identities issued before are not in it.
    pub is_new: bool,
}

/// Where the ledger of an authority is.
pub fn path_of(authority: &Path) -> PathBuf {
    let mut path = OsString::from(authority);
    path.push(".ledger");
    path.into()
}

impl Ledger {
    /// Opens the ledger beside the file of this authority. Makes it if there is none.
    ///
    /// # Errors
    /// In words, when it cannot be read or made, or is another group's.
    pub fn open(beside: &Path, authority: &Authority) -> Result<Ledger, String> {
        let path = path_of(beside);
        let group = hex(&authority.group());
        let problem = |what: &str, e: io::Error| format!("{what} {}: {e}", path.display());
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(|e| problem("opening the ledger", e))?;
        file.lock().map_err(|e| problem("locking the ledger", e))?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|e| problem("reading the ledger", e))?;
        // Without its end, the last line was cut short by a power failure. Its identity was never
        // written.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut ledger = Ledger { path, file, entries: Vec::new(), is_new: whole == 0 };
        ledger.entries = ledger.parse(&text[..whole], &group)?;
        let set =
            ledger.file.set_len(whole as u64).and_then(|()| ledger.file.seek(SeekFrom::End(0)));
        set.map_err(|e| format!("writing {}: {e}", ledger.path.display()))?;
        if ledger.is_new {
            ledger.append(&Head { group })?;
            ledger.sync_directory()?;
        }
        Ok(ledger)
    }

    fn parse(&self, text: &str, group: &str) -> Result<Vec<Entry>, String> {
        let mut lines = text.lines();
        let Some(first) = lines.next() else { return Ok(Vec::new()) };
        let path = self.path.display();
        let head: Head = serde_json::from_str(first)
            .map_err(|e| format!("{path}:1: {e}: this is no ledger; restore it from a copy"))?;
        if head.group != group {
            return Err(format!(
                "{path} is the ledger of group {}, and the authority's group is {group}: move it \
                 away, or restore the one that belongs here",
                head.group
            ));
        }
        let entry = |(i, line)| {
            serde_json::from_str(line)
                .map_err(|e| format!("{path}:{}: {e}: repair this line", i + 2))
        };
        lines.enumerate().map(entry).collect()
    }

    /// Every number that was issued, with the identity that has it now.
    pub fn entries(&self) -> Vec<&Entry> {
        let later = |i: usize, n: u64| self.entries[i + 1..].iter().any(|e| e.number == n);
        let mut valid: Vec<&Entry> = self
            .entries
            .iter()
            .enumerate()
            .filter(|(i, e)| !later(*i, e.number))
            .map(|e| e.1)
            .collect();
        valid.sort_by_key(|e| e.number);
        valid
    }

    /// Every key that was issued with a number.
    pub fn keys(&self, number: u64) -> impl Iterator<Item = &str> {
        let of_it = self.entries.iter().filter(move |entry| entry.number == number);
        of_it.map(|entry| entry.key.as_str())
    }

    /// The identity that has a number.
    pub fn holder(&self, number: u64) -> Option<&Entry> {
        self.entries.iter().rev().find(|e| e.number == number)
    }

    /// Enters an identity; it is on the disk when this returns.
    ///
    /// # Errors
    /// In words, when it cannot be written.
    pub fn enter(&mut self, entry: Entry) -> Result<(), String> {
        self.append(&entry)?;
        self.entries.push(entry);
        Ok(())
    }

    fn append(&mut self, line: &impl Serialize) -> Result<(), String> {
        let mut text = serde_json::to_string(line).map_err(|e| e.to_string())?;
        text.push('\n');
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_all());
        written.map_err(|e| format!("writing {}: {e}", self.path.display()))
    }

    /// A new file survives a power failure only if its directory is on the disk too.
    fn sync_directory(&self) -> Result<(), String> {
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(|e| format!("writing {}: {e}", directory.display()))
    }
}

/// Removes the ledger that was made for an authority whose file could not be written.
pub fn remove(beside: &Path) {
    let _ = fs::remove_file(path_of(beside));
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;

    use super::*;

    fn authority(group: u8) -> Authority {
        Authority::new([group; 16], &[9; 32])
    }

    fn entry(number: u64, name: &str) -> Entry {
        Entry { number, role: Role::Node, name: name.into(), key: "ab".into(), removed: false }
    }

    #[test]
    fn what_was_entered_is_there_again_and_the_last_line_of_a_number_counts() {
        let directory = tempfile::tempdir().unwrap();
        let beside = directory.path().join("group.key");
        let mut ledger = Ledger::open(&beside, &authority(1)).unwrap();
        assert!(ledger.is_new && ledger.entries().is_empty());
        for (number, name) in [(7, "a"), (2, "b"), (7, "c")] {
            ledger.enter(entry(number, name)).unwrap();
        }
        drop(ledger);
        let ledger = Ledger::open(&beside, &authority(1)).unwrap();
        assert!(!ledger.is_new);
        assert_eq!(ledger.entries(), [&entry(2, "b"), &entry(7, "c")]);
        assert_eq!((ledger.holder(7), ledger.holder(3)), (Some(&entry(7, "c")), None));
    }

    #[test]
    fn a_line_that_was_cut_short_is_taken_out_and_another_bad_one_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let beside = directory.path().join("group.key");
        let mut ledger = Ledger::open(&beside, &authority(1)).unwrap();
        ledger.enter(entry(2, "b")).unwrap();
        ledger.file.write_all(b"{\"number\":3,\"ro").unwrap();
        drop(ledger);
        let mut ledger = Ledger::open(&beside, &authority(1)).unwrap();
        assert_eq!(ledger.entries(), [&entry(2, "b")]);
        ledger.enter(entry(4, "d")).unwrap();
        drop(ledger);
        let file = File::open(path_of(&beside)).unwrap();
        assert_eq!(io::BufReader::new(file).lines().count(), 3);

        let mut file = File::options().append(true).open(path_of(&beside)).unwrap();
        file.write_all(b"nothing\n").unwrap();
        let told = Ledger::open(&beside, &authority(1)).err().unwrap();
        assert!(told.contains("group.key.ledger:4:"), "{told}");
    }

    #[test]
    fn another_groups_ledger_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let beside = directory.path().join("group.key");
        drop(Ledger::open(&beside, &authority(1)).unwrap());
        let told = Ledger::open(&beside, &authority(2)).err().unwrap();
        assert!(told.contains("is the ledger of group 0101"), "{told}");
    }

    #[test]
    fn one_at_a_time_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let beside = directory.path().join("group.key");
        let ledger = Ledger::open(&beside, &authority(1)).unwrap();
        let other = File::open(path_of(&beside)).unwrap();
        assert!(other.try_lock().is_err());
        drop(ledger);
        assert!(other.try_lock().is_ok());
    }
}
