//! Gives a box of the group a new key: its number and name stay, and the controller's file revokes
//! the old key. The box is this one, or another one that asks with a code, as a new box does.

use std::fs;
use std::path::{Path, PathBuf};

use plexus_config::NodeFile;
use plexus_control::identity::{Identity, Role};
use plexus_control::join::JoinCode;
use plexus_daemon::identity::load;
use plexus_daemon::ledger::{Entry, Ledger};
use plexus_wire::hex;

use crate::create::{config_name, identity_name};
use crate::folder::{authority, replace};
use crate::identity::new_identity;
use crate::join::ask;
use crate::port::devices;
use crate::revoke;

/// The box of this name in the group of this folder.
///
/// # Errors
/// In words, when the group has none.
pub fn find(folder: &Path, name: &str) -> Result<Entry, String> {
    let (key_file, authority) = authority(folder)?;
    let ledger = Ledger::open(&key_file, &authority)?;
    revoke::find(&ledger, "box", name, |_| true).cloned()
}

/// Whether the folder is that of this box, so that no code is needed. An identity without the
/// daemon's file beside it is a copy.
pub fn is_here(folder: &Path, name: &str) -> bool {
    [identity_name(name), config_name(name)].iter().all(|file| folder.join(file).exists())
}

/// Gives a box whose identity is in the folder a new key. Returns its file and the key.
///
/// # Errors
/// In words. Then the box has its old key.
pub fn rotate_here(folder: &Path, entry: &Entry) -> Result<(PathBuf, String), String> {
    let (key_file, authority) = authority(folder)?;
    let file = folder.join(identity_name(&entry.name));
    let before = load(&file)?;
    if before.claims().node != entry.number || before.authority() != &authority.public() {
        let file = file.display();
        return Err(format!("{file} is {}, and the ledger has {entry}", before.credential()));
    }
    let identity = new_identity(&authority, entry.number, &entry.name, entry.role)?;
    Ledger::open(&key_file, &authority)?.enter(Entry::of(&identity))?;
    replace(&file, &identity.to_toml())?;
    Ok((file, hex(&identity.claims().static_public)))
}

/// Revokes every key but this one that a box was given, in a controller's file, whose name it
/// returns, or in a common file.
///
/// # Errors
/// In words.
pub fn revoke_others(
    folder: &Path,
    config: &Path,
    entry: &Entry,
    key: &str,
) -> Result<Option<String>, String> {
    let (key_file, authority) = authority(folder)?;
    let ledger = Ledger::open(&key_file, &authority)?;
    revoke::revoke_keys(config, &ledger, entry, |old| old != key)
}

/// Asks the first box for a new key of this box; returns the new identity, which is stored. `name`:
/// which of the folder's boxes, where it has several. `asks` is called when the operator of the
/// first box has to confirm, with the new key.
///
/// # Errors
/// In words. Then this box has its old key.
pub fn ask_anew(
    folder: &Path,
    name: Option<&str>,
    code: &JoinCode,
    asks: impl FnOnce(&Identity, &str),
) -> Result<Identity, String> {
    let file = match name {
        Some(name) => folder.join(identity_name(name)),
        None => only_identity(folder)?,
    };
    let before = load(&file)?;
    let claims = before.claims();
    let config = folder.join(config_name(&claims.name));
    // The first box may be reached by a cable of this one.
    let cables = match claims.role {
        Role::Node if NodeFile::read(&config).is_ok() => devices(&config)?,
        _ => Vec::new(),
    };
    let box_ = (claims.name.as_str(), claims.role);
    let (identity, mut exchange) = ask(code, box_, &cables, |key| asks(&before, key))?;
    let (is, was) = (identity.claims(), before.claims());
    if (is.node, is.group) != (was.node, was.group) {
        return Err(format!("the first box has answered with {}", identity.credential()));
    }
    replace(&file, &identity.to_toml())?;
    exchange.tell_stored();
    Ok(identity)
}

/// The folder's identity, if it has one only.
fn only_identity(folder: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "identity"));
    files.sort();
    match &files[..] {
        [file] => Ok(file.clone()),
        [] => Err(format!("{} has no identity: this box is in no group", folder.display())),
        several => {
            let names = several.iter().filter_map(|file| file.file_stem());
            let names: Vec<String> = names.map(|name| name.display().to_string()).collect();
            Err(format!(
                "{} has several identities: say which, {}",
                folder.display(),
                names.join(" or ")
            ))
        }
    }
}
