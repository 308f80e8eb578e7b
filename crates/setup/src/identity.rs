//! Single identities of a group whose files people write themselves, for `plexus identity`: the
//! authority that issues them, and the ledger of what it has issued.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use plexus_control::identity::{Authority, Identity, Role};
use plexus_daemon::identity::random;
use plexus_daemon::ledger::{self, Entry, Ledger};
use plexus_io::secret::{IN_THE_WAY, not_written, write_secret};
use plexus_report::Failure;

use crate::folder::{UNIT_USER, read_authority};

/// An identity to issue.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The box's role.
    pub role: Role,
    /// Its number, unique in the group.
    pub number: u64,
    /// Its name.
    pub name: &'a str,
    /// The file to write, which must not exist.
    pub out: &'a Path,
    /// The number may be that of an identity which was issued before.
    pub replace: bool,
}

/// Makes a new group: its authority's file and the ledger.
///
/// # Errors
/// In words, when one of them exists, or cannot be written.
pub fn make_group(out: &Path) -> Result<(), String> {
    let ledger = ledger::path_of(out);
    if ledger.exists() {
        return Err(format!("{} is there already{IN_THE_WAY}", ledger.display()));
    }
    let authority = new_authority()?;
    drop(Ledger::open(out, &authority)?);
    write(out, &authority.to_toml()).inspect_err(|_| ledger::remove(out))
}

/// Issues an identity by the authority in a file: enters it in the ledger, and writes its file.
/// `warn` is told what the operator should know.
///
/// # Errors
/// [`Failure::No`] if the number is taken, and others if a file is wrong or cannot be written.
pub fn issue(group: &Path, wanted: Wanted<'_>, warn: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let Wanted { role, number, name, out, replace } = wanted;
    let authority = read_authority(group).map_err(Failure::unusable)?;
    let identity = new_identity(&authority, number, name, role).map_err(Failure::unusable)?;
    // Before the number is entered in the ledger.
    if out.symlink_metadata().is_ok() {
        return Err(Failure::Unusable(format!("{} is there already{IN_THE_WAY}", out.display())));
    }
    let mut ledger = Ledger::open(group, &authority).map_err(Failure::unusable)?;
    if ledger.is_new {
        warn(&format!(
            "{} is new: identities that this authority issued before are not in it, so their \
             numbers can be issued again by mistake.",
            ledger::path_of(group).display()
        ));
    }
    match ledger.holder(number) {
        Some(held) if !replace => {
            return Err(Failure::No(format!(
                "number {number} belongs to {held}: choose another --number (`plexus identity list \
                 --group {}` shows all). If the box or the key of {} is lost, add --replace",
                group.display(),
                held.name
            )));
        }
        Some(held) => warn(&format!(
            "number {number} belonged to {held}. The identity stays valid, so its box must be off. \
             Of two live boxes with one number, the controller refuses the second."
        )),
        None => {}
    }
    ledger.enter(Entry::of(&identity)).map_err(Failure::unusable)?;
    write(out, &identity.to_toml()).map_err(|why| {
        let again = "the ledger has the number already: issue it again with --replace";
        Failure::Unusable(format!("{why}; {again}"))
    })?;
    if fs::metadata(out).is_ok_and(|file| file.uid() == 0) {
        warn(&format!(
            "only root can read {0}. If the daemon runs as user {UNIT_USER}, as the units in \
             examples/ do: chown {UNIT_USER}: {0}",
            out.display()
        ));
    }
    Ok(())
}

/// The authority in a file, and the ledger beside it.
///
/// # Errors
/// [`Failure::No`] if there is no ledger, and others if a file is wrong.
pub fn issued(group: &Path) -> Result<(Authority, Ledger), Failure> {
    let authority = read_authority(group).map_err(Failure::unusable)?;
    let path = ledger::path_of(group);
    if !path.exists() {
        let path = path.display();
        return Err(Failure::No(format!("there is no {path}: `plexus identity issue` makes it")));
    }
    let ledger = Ledger::open(group, &authority).map_err(Failure::unusable)?;
    Ok((authority, ledger))
}

/// The identities of a ledger, a line each.
pub fn table(ledger: &Ledger) -> String {
    let mut text = format!("{:>8}  {:<10}  {:<32}  KEY\n", "NUMBER", "ROLE", "NAME");
    for Entry { number, role, name, key, removed } in ledger.entries() {
        let removed = if *removed { "  removed" } else { "" };
        let role = role.to_string();
        text += &format!("{number:>8}  {role:<10}  {name:<32}  {key}{removed}\n");
    }
    text
}

/// The authority of a new group.
///
/// # Errors
/// When there is no randomness.
pub(crate) fn new_authority() -> Result<Authority, String> {
    Ok(Authority::new(random()?, &random()?))
}

/// A new identity of the group.
///
/// # Errors
/// When the name is none, or there is no randomness.
pub(crate) fn new_identity(
    authority: &Authority,
    number: u64,
    name: &str,
    role: Role,
) -> Result<Identity, String> {
    authority.issue_identity(number, name, role, &random()?).map_err(|e| e.to_string())
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    write_secret(file, text).map_err(|e| not_written(file, &e))
}
