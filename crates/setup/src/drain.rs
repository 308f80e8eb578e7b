//! Drains a node before work on it: a file of controllers names it, and routes avoid it.

use std::path::Path;

use plexus_config::document::Lines;
use plexus_daemon::ledger::Ledger;

use crate::folder::{AUTHORITY, authority, update};
use crate::revoke::check_node;
use crate::settings::Settings;

const HEADING: &str = "[[drained]]";

/// Names a node as drained in a controller's file, whose name it returns, or in a common file.
///
/// # Errors
/// In words, when the group of this folder has no such node, it is there already, or the file would
/// not be right any more.
pub fn drain(folder: &Path, config: &Path, node: &str) -> Result<Option<String>, String> {
    // The controller may run on another box than the authority's.
    if folder.join(AUTHORITY).exists() {
        let (key_file, authority) = authority(folder)?;
        check_node(&Ledger::open(&key_file, &authority)?, node)?;
    }
    let shown = config.display().to_string();
    update(config, |text| {
        let before = Settings::parse(&shown, text)?;
        if before.drained.iter().any(|drained| drained == node) {
            return Err(format!("{shown}: {node} is drained already"));
        }
        let mut lines = Lines::default();
        lines.heading(HEADING);
        lines.text("node", node);
        let gap = if text.ends_with('\n') { "\n" } else { "\n\n" };
        let with = format!("{text}{gap}{}", lines.finish());
        Settings::parse(&shown, &with)?;
        Ok((with, before.controller))
    })
}

/// Takes a drained node's lines out of such a file; returns the same.
///
/// # Errors
/// In words, when the node is not drained, or its lines are not as [`drain`] writes them.
pub fn end(config: &Path, node: &str) -> Result<Option<String>, String> {
    let shown = config.display().to_string();
    update(config, |text| {
        let before = Settings::parse(&shown, text)?;
        if !before.drained.iter().any(|drained| drained == node) {
            return Err(format!("{shown}: {node} is not drained"));
        }
        let without = without(text, node).filter(|text| {
            let after = Settings::parse(&shown, text);
            after.is_ok_and(|after| !after.drained.iter().any(|drained| drained == node))
        });
        match without {
            Some(without) => Ok((without, before.controller)),
            None => Err(format!("{shown}: take {HEADING} with node = \"{node}\" out by hand")),
        }
    })
}

/// The text without the section of a node, and without the empty line before it.
fn without(text: &str, node: &str) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_heading = |line: &str| line.trim() == HEADING;
    let is_node = |line: &str| {
        let value = line.trim().strip_prefix("node")?.trim_start().strip_prefix('=')?.trim();
        Some(value.strip_prefix('"')?.strip_suffix('"')? == node)
    };
    let at =
        lines.windows(2).position(|pair| is_heading(pair[0]) && is_node(pair[1]) == Some(true))?;
    let begin = if at > 0 && lines[at - 1].trim().is_empty() { at - 1 } else { at };
    Some([&lines[..begin], &lines[at + 2..]].concat().concat())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use plexus_config::{CommonFile, ControllerFile};

    use super::*;

    #[test]
    fn a_node_is_drained_and_undrained_and_all_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c1.toml");
        let before = "name = \"c1\" # mine\n\n[[forwarder]]\nnode = \"n2\"\n\n[[subnet]]\n\
                      prefix = \"10.0.0.0/24\"\ngateway = \"10.0.0.1\"\n";
        fs::write(&file, before).unwrap();
        let drained = || ControllerFile::read(&file).unwrap().settings.drained;
        for node in ["n2", "n3"] {
            assert_eq!(drain(folder.path(), &file, node).unwrap().as_deref(), Some("c1"));
        }
        assert_eq!(drained(), ["n2", "n3"]);
        assert!(drain(folder.path(), &file, "n3").unwrap_err().contains("is drained already"));
        end(&file, "n2").unwrap();
        assert_eq!(drained(), ["n3"]);
        assert!(end(&file, "n2").unwrap_err().contains("is not drained"));
        end(&file, "n3").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), before);
        // Lines that somebody has written in another way are left to somebody.
        let odd = format!("{before}[[drained]]\n# soon\nnode = \"n9\"\n");
        fs::write(&file, &odd).unwrap();
        assert!(end(&file, "n9").unwrap_err().contains("by hand"));
        assert_eq!(fs::read_to_string(&file).unwrap(), odd);
        // The same in a common file.
        let before = "[all.switch]\nageing = \"60s\"\n";
        fs::write(&file, before).unwrap();
        assert_eq!(drain(folder.path(), &file, "n2"), Ok(None));
        assert_eq!(CommonFile::read(&file).unwrap().drained, ["n2"]);
        assert_eq!(end(&file, "n2"), Ok(None));
        assert_eq!(fs::read_to_string(&file).unwrap(), before);
    }
}
