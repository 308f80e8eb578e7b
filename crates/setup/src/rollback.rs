//! Has a running daemon, or all nodes of a group, run an earlier version of their file. Keys that
//! were revoked since stay revoked.

use std::path::Path;

use plexus_api::answer::config::{Applied, Common as State, Running, Text, Version, Versions};
use plexus_api::{Apply, Client, Common, CommonApply, Config, Request};
use plexus_config::with_revoked;
use serde::de::DeserializeOwned;

use crate::edit;

/// Ends the trial of a daemon's file, or writes an earlier version into the file and has the daemon
/// run it: the version of this number, or the newest confirmed one before the one that runs. The
/// file's text of before is kept as a version, and returns if the daemon refuses the earlier one.
///
/// # Errors
/// In words. Then the daemon runs what it ran.
pub fn rollback(
    client: &mut Client,
    number: Option<u64>,
    mut how: Apply,
) -> Result<Applied, String> {
    let kept: Versions = ask(client, Config::Versions(true))?;
    let version = match (number, kept.trial) {
        (None, Some(_)) => return ask(client, Config::Back(true)),
        (Some(version), _) => version,
        (None, None) => version_before(&kept.versions, kept.running)?,
    };
    let text: Text = ask(client, Config::Text(version))?;
    let running: Running = ask(client, Config::Running(true))?;
    let keep = Config::Keep(format!("in the file before the rollback to version {version}"));
    let kept: Applied = ask(client, keep)?;
    let file = Path::new(&running.file);
    let mut still = None;
    let back = |before: &str| {
        let with = with_revoked(&text.text, &[&running.text, before]);
        let note = "keys that were revoked since stay revoked";
        still = with.is_some().then(|| note.to_string());
        with.unwrap_or_else(|| text.text.clone())
    };
    let before = edit::write(file, back)?;
    how.comment = comment(how.comment, version);
    let applied: Result<Applied, String> = ask(client, Config::Apply(how));
    let mut applied = match applied {
        Ok(applied) => applied,
        Err(why) => {
            edit::write(file, |_| before)?;
            return Err(why);
        }
    };
    applied.notes.splice(..0, kept.notes.into_iter().chain(still));
    Ok(applied)
}

/// The same with the common file of a group, by the controller that leads.
///
/// # Errors
/// In words. Then the group runs what it ran.
pub fn rollback_common(
    client: &mut Client,
    number: Option<u64>,
    how: Apply,
) -> Result<Applied, String> {
    let state: State = ask_common(client, Common::State(true))?;
    let number = match (number, state.trial) {
        (None, Some(_)) => return ask_common(client, Common::Back(true)),
        (Some(number), _) => number,
        (None, None) => version_before(&state.versions, state.running)?,
    };
    let back: Text = ask_common(client, Common::Text(number))?;
    let runs = state.running.map(|number| ask_common::<Text>(client, Common::Text(number)));
    let runs = runs.transpose()?.map(|text| text.text).unwrap_or_default();
    let text = with_revoked(&back.text, &[&runs]).unwrap_or(back.text);
    let comment = comment(how.comment, number);
    let confirm_within_s = how.confirm_within_s;
    ask_common(client, Common::Apply(CommonApply { text, confirm_within_s, comment }))
}

fn ask<T: DeserializeOwned>(client: &mut Client, request: Config) -> Result<T, String> {
    client.get(&Request::Config(request)).map_err(|e| e.to_string())
}

fn ask_common<T: DeserializeOwned>(client: &mut Client, request: Common) -> Result<T, String> {
    client.get(&Request::Common(request)).map_err(|e| e.to_string())
}

/// The operator's comment, or one that says which version this is.
fn comment(given: String, version: u64) -> String {
    if given.is_empty() { format!("version {version} again") } else { given }
}

/// The newest confirmed version that is older than the one that runs.
fn version_before(versions: &[Version], running: Option<u64>) -> Result<u64, String> {
    let before = versions.iter().rev().find(|v| v.good && Some(v.number) < running);
    let none = "no earlier version is kept: there is nothing to go back to";
    before.map(|version| version.number).ok_or_else(|| none.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollback_takes_the_confirmed_version_before() {
        let version = |number, good| Version {
            number,
            kept_unix_s: 0,
            comment: String::new(),
            plexus: "0.1.0".into(),
            good,
        };
        let versions = [version(1, true), version(2, false), version(3, false)];
        assert_eq!(version_before(&versions, Some(3)).ok(), Some(1));
        assert!(version_before(&versions, Some(1)).is_err());
        assert!(version_before(&versions, None).is_err());
    }
}
