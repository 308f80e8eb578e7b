//! The versions of a daemon's file and of a group's common file, as `plexus config` prints them.

use plexus_api::answer::config::{Applied, Common, Running, Trial, Version, Versions};

/// The versions of a daemon's file with their states, and the folder that has them.
pub fn versions(kept: &Versions, now_unix_s: u64) -> String {
    let table = table(&kept.versions, kept.running, kept.trial.is_some(), now_unix_s);
    format!("{table}{}\n", kept.folder)
}

/// The versions of a common file with their states, and the one of each node.
pub fn common_versions(state: &Common, now_unix_s: u64) -> String {
    let mut out = table(&state.versions, state.running, state.trial.is_some(), now_unix_s);
    out.push_str(&format!("\n{:<16} {:>7}  state\n", "node", "version"));
    for node in &state.nodes {
        let version = node.version.map_or("-".to_string(), |version| version.to_string());
        let first = |why: &String| why.lines().next().unwrap_or_default().to_string();
        let refused = node.refused.as_ref().map(|why| format!("refuses: {}", first(why)));
        let away = (!node.is_there).then(|| "away".to_string());
        let later = "keeps a later version than the group: apply the file again".to_string();
        let later = (node.version > state.running).then_some(later);
        let word: Vec<String> = away.into_iter().chain(later).chain(refused).collect();
        let line = format!("{:<16} {version:>7}  {}", node.node, word.join(", "));
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The text that a daemon runs, with a node's part of the common file.
pub fn running(running: &Running) -> String {
    let mut out = running.text.clone();
    if let Some(part) = &running.common {
        let left = part.left_s.map(|s| format!(" (on trial: it is left in {s} s)"));
        out += &format!(
            "\n# Its part of the common file, version {}{}:\n{}",
            part.version,
            left.unwrap_or_default(),
            part.text
        );
    }
    out
}

/// Which version of its file a daemon runs now, with its trial. `confirm`: the command that keeps
/// the version.
pub fn applied(name: &str, applied: &Applied, confirm: &str) -> String {
    let runs = match applied.version {
        Some(version) => format!("{name} runs version {version}"),
        None => format!("{name} runs its file"),
    };
    runs + &trial_and_notes(applied, confirm)
}

/// The same of a group's common file.
pub fn common_applied(applied: &Applied, confirm: &str) -> String {
    let runs = match applied.version {
        Some(version) => format!("the group runs version {version} of the common file"),
        None => "the group runs no common file".to_string(),
    };
    runs + &trial_and_notes(applied, confirm)
}

fn trial_and_notes(applied: &Applied, confirm: &str) -> String {
    let mut out = String::new();
    if let Some(Trial { back_to, left_s, .. }) = applied.trial {
        let end = match back_to {
            0 => "it is left".to_string(),
            _ => format!("version {back_to} returns"),
        };
        out += &format!(" on trial: {end} in {left_s} s, unless you run `{confirm}`");
    }
    let notes: String = applied.notes.iter().map(|note| format!("\n{note}")).collect();
    out + &notes + "\n"
}

/// Versions with their states.
fn table(versions: &[Version], running: Option<u64>, on_trial: bool, now_unix_s: u64) -> String {
    let mut out = format!("{:>7}  {:<10} {:<11} comment\n", "version", "kept", "state");
    for version in versions {
        let state = match (running == Some(version.number), on_trial, version.good) {
            (true, true, _) => "on trial",
            (true, false, _) => "runs",
            (false, _, true) => "",
            (false, _, false) => "unconfirmed",
        };
        let age = age(now_unix_s.saturating_sub(version.kept_unix_s));
        let line = format!("{:>7}  {age:<10} {state:<11} {}", version.number, version.comment);
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// How long ago something was, for people.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7_200 => format!("{} min ago", seconds / 60),
        7_200..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plexus_api::answer::config::CommonNode;

    fn version(number: u64, good: bool, kept_unix_s: u64, comment: &str) -> Version {
        Version { number, kept_unix_s, comment: comment.into(), plexus: "0.1.0".into(), good }
    }

    #[test]
    fn versions_are_listed_with_their_state() {
        let kept = |number: u64| 1_000_000 - 100 * number * number * number;
        let versions = [
            version(1, true, kept(1), "a"),
            version(2, false, kept(2), ""),
            version(3, false, kept(3), "c"),
        ];
        let shown = table(&versions, Some(3), true, 1_000_000);
        let expected = "\
version  kept       state       comment
      1  100 s ago              a
      2  13 min ago unconfirmed
      3  45 min ago on trial    c
";
        assert_eq!(shown, expected);
        assert!(table(&versions, Some(3), false, 1_000_000).contains(" runs        c\n"));
    }

    #[test]
    fn versions_and_nodes_are_listed() {
        let version = |number, good| version(number, good, 999_990, &format!("c{number}"));
        let node = |name: &str, version, refused: Option<&str>| CommonNode {
            node: name.into(),
            is_there: version != Some(1),
            version,
            refused: refused.map(str::to_string),
        };
        let state = Common {
            controller: "c1".into(),
            running: Some(4),
            trial: Some(Trial { version: 4, back_to: 3, left_s: 9 }),
            versions: vec![
                version(1, true),
                version(2, false),
                version(3, true),
                version(4, false),
            ],
            nodes: vec![
                node("n1", Some(3), None),
                node("n2", Some(1), None),
                node("n3", None, Some("there is no port eth9 here\n  3 | x")),
                node("n4", Some(5), None),
            ],
        };
        let expected = "\
version  kept       state       comment
      1  10 s ago               c1
      2  10 s ago   unconfirmed c2
      3  10 s ago               c3
      4  10 s ago   on trial    c4

node             version  state
n1                     3
n2                     1  away
n3                     -  refuses: there is no port eth9 here
n4                     5  keeps a later version than the group: apply the file again
";
        assert_eq!(common_versions(&state, 1_000_000), expected);
    }
}
