//! Takes a box out of a group: its key is revoked in a file of controllers, and its entry in the
//! ledger says so.

use std::collections::BTreeSet;
use std::path::Path;

use plexus_config::document::{Lines, read_text};
use plexus_control::identity::Role;
use plexus_daemon::ledger::{Entry, Ledger};
use plexus_wire::hex;

use crate::drain;
use crate::folder::{authority, update};
use crate::settings::Settings;

/// Revokes the key of the node of this name in a controller's file, whose name it returns, or in a
/// common file.
///
/// # Errors
/// In words, when the group has no such node, or the controller's file would not be right any more.
pub fn revoke(folder: &Path, config: &Path, name: &str) -> Result<Option<String>, String> {
    let (key_file, authority) = authority(folder)?;
    let mut ledger = Ledger::open(&key_file, &authority)?;
    let removed = Entry { removed: true, ..check_node(&ledger, name)?.clone() };

    let text = read_text(config).map_err(|e| e.to_string())?;
    let before = Settings::parse(&config.display().to_string(), &text)?;
    // Another box may get the name, and is not to be drained.
    if before.drained.iter().any(|drained| drained == name) {
        drain::end(config, name)?;
    }
    // After a rotation that was not finished, the box may have another key than the last one.
    revoke_keys(config, &ledger, &removed, |_| true)?;
    ledger.enter(removed)?;
    Ok(before.controller)
}

/// Revokes the keys of a box that are `wanted`, of all that it was given, in such a file; returns
/// the same.
///
/// # Errors
/// In words, when the file would not be right any more.
pub(crate) fn revoke_keys(
    config: &Path,
    ledger: &Ledger,
    of: &Entry,
    wanted: impl Fn(&str) -> bool,
) -> Result<Option<String>, String> {
    let shown = config.display().to_string();
    update(config, |text| {
        let before = Settings::parse(&shown, text)?;
        let revoked: Vec<String> = before.revoked.iter().map(|revoked| hex(&revoked.key)).collect();
        let is_new = |key: &&str| wanted(key) && !revoked.iter().any(|revoked| revoked == key);
        let keys: BTreeSet<&str> = ledger.keys(of.number).filter(is_new).collect();
        if keys.is_empty() {
            return Ok((text.to_string(), before.controller));
        }
        let mut lines = Lines::default();
        for key in keys {
            lines.heading("[[revoked]]");
            lines.text("name", &of.name);
            lines.text("key", key);
        }
        let gap = if text.ends_with('\n') { "\n" } else { "\n\n" };
        let with = format!("{text}{gap}{}", lines.finish());
        Settings::parse(&shown, &with)?;
        Ok((with, before.controller))
    })
}

/// The entry of the node of this name.
///
/// # Errors
/// In words, when the group has none.
pub(crate) fn check_node<'a>(ledger: &'a Ledger, name: &str) -> Result<&'a Entry, String> {
    find(ledger, "node", name, |entry| entry.role == Role::Node)
}

/// The entry of this name among those of the group that are `wanted`; `what` is the word for them.
///
/// # Errors
/// In words, when there is none.
pub(crate) fn find<'a>(
    ledger: &'a Ledger,
    what: &str,
    name: &str,
    wanted: impl Fn(&Entry) -> bool,
) -> Result<&'a Entry, String> {
    let entries = ledger.entries().into_iter();
    let boxes: Vec<&Entry> = entries.filter(|entry| wanted(entry) && !entry.removed).collect();
    boxes.iter().find(|entry| entry.name == name).copied().ok_or_else(|| {
        let names: Vec<&str> = boxes.iter().map(|entry| entry.name.as_str()).collect();
        format!("the group has no {what} {name}; it has {}", names.join(", "))
    })
}
