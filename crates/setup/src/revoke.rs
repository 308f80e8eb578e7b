//! Takes a box out of a group: its key is revoked in the controller's file, and its entry in the
//! ledger says so.

use std::collections::BTreeSet;
use std::path::Path;

use plexus_config::ControllerFile;
use plexus_config::document::{Lines, read_text};
use plexus_control::identity::Role;
use plexus_daemon::ledger::{Entry, Ledger};
use plexus_wire::hex;

use crate::drain;
use crate::folder::{append, authority};

/// Revokes the key of the node of this name; returns the controller's name.
///
/// # Errors
/// In words, when the group has no such node, or the controller's file would not be right any more.
pub fn revoke(folder: &Path, config: &Path, name: &str) -> Result<String, String> {
    let (key_file, authority) = authority(folder)?;
    let mut ledger = Ledger::open(&key_file, &authority)?;
    let removed = Entry { removed: true, ..check_node(&ledger, name)?.clone() };

    let before = ControllerFile::read(config).map_err(|e| e.to_string())?;
    // Another box may get the name, and is not to be drained.
    if before.settings.drained.iter().any(|drained| drained == name) {
        drain::end(config, name)?;
    }
    // After a rotation that was not finished, the box may have another key than the last one.
    let revoked: BTreeSet<[u8; 32]> = before.settings.revoked.iter().map(|r| r.key).collect();
    let is_new = |key: &&str| !revoked.iter().any(|revoked| hex(revoked) == **key);
    let keys: BTreeSet<&str> = ledger.keys(removed.number).filter(is_new).collect();
    keys.into_iter().try_for_each(|key| revoke_key(config, name, key))?;
    ledger.enter(removed)?;
    Ok(before.name)
}

/// Revokes a key in the controller's file.
///
/// # Errors
/// In words, when the file would not be right any more.
pub(crate) fn revoke_key(config: &Path, name: &str, key: &str) -> Result<(), String> {
    let text = read_text(config).map_err(|e| e.to_string())?;
    let mut lines = Lines::default();
    lines.heading("[[revoked]]");
    lines.text("name", name);
    lines.text("key", key);
    let more = format!("{}{}", if text.ends_with('\n') { "\n" } else { "\n\n" }, lines.finish());
    let shown = config.display().to_string();
    ControllerFile::parse(&shown, &format!("{text}{more}")).map_err(|e| e.to_string())?;
    append(config, &more)
}

/// The entry of the node of this name.
///
/// # Errors
/// In words, when the group has none.
pub(crate) fn check_node<'a>(ledger: &'a Ledger, name: &str) -> Result<&'a Entry, String> {
    let entries = ledger.entries();
    let nodes = entries.into_iter().filter(|e| e.role == Role::Node && !e.removed);
    let nodes: Vec<&Entry> = nodes.collect();
    nodes.iter().find(|entry| entry.name == name).copied().ok_or_else(|| {
        let names: Vec<&str> = nodes.iter().map(|entry| entry.name.as_str()).collect();
        format!("the group has no node {name}; it has {}", names.join(", "))
    })
}
