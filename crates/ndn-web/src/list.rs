//! Lists of names, as people write them.

use std::path::Path;

use plexus_wire::ndn::{Name, NameBuf};

use crate::names::name_of;

/// The names of a file, a name or a URL in each line; `#` begins a comment.
///
/// # Errors
/// In words, when the file cannot be read, or a line is neither.
pub fn read_list(path: &Path) -> Result<Vec<NameBuf>, String> {
    let file = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {file}: {e}"))?;
    let mut names = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let name = read_name(line);
        names.push(name.map_err(|e| format!("{file}:{}: {e}", i + 1))?);
    }
    match names.is_empty() {
        true => Err(format!("{file}: no name in it")),
        false => Ok(names),
    }
}

/// A name, or a URL as `plexus ndn web-publish` names it.
fn read_name(line: &str) -> Result<NameBuf, String> {
    let Some(url) = line.strip_prefix("http://") else {
        return line.parse().map_err(|e: plexus_wire::ndn::name::UriError| e.to_string());
    };
    let (host, target) = url.split_at(url.find(['/', '?']).unwrap_or(url.len()));
    let target = if target.starts_with('/') { target.into() } else { format!("/{target}") };
    name_of(Name::ROOT, host, &target).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_hold_names_and_urls() {
        for (line, name) in [
            ("/a/b", "/a/b"),
            ("http://H/a/?q", "/h/a/.../%3Fq"),
            ("http://h", "/h/..."),
            ("http://h?q", "/h/.../%3Fq"),
        ] {
            assert_eq!(read_name(line).unwrap().to_string(), name, "{line}");
        }
        for bad in ["a/b", "http:///a", "http://h/%zz", "https://h/"] {
            assert!(read_name(bad).is_err(), "{bad}");
        }
    }
}
