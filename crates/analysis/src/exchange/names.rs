//! Legal and unique names from whatever a graph calls its vertices.

use std::collections::{HashMap, HashSet};

use plexus_config::error::quote;
use plexus_config::name::{NAME_LEN_MAX, check_name};

/// Names given so far.
#[derive(Default)]
pub(super) struct Names {
    taken: HashSet<String>,
    /// Of a name that was wanted again: the number to try next.
    next: HashMap<String, usize>,
}

impl Names {
    /// Takes a name as it is; whether it was free.
    pub(super) fn take(&mut self, name: &str) -> bool {
        self.taken.insert(name.to_string())
    }

    /// A name like `wanted` that is legal and free, and a sentence if it is not `wanted` itself.
    pub(super) fn like(&mut self, wanted: &str, id: &str) -> (String, Option<String>) {
        let legal = [wanted, id].into_iter().map(legal).find(|name| !name.is_empty());
        let legal = legal.unwrap_or_else(|| "node".to_string());
        if self.take(&legal) {
            let note = (legal != wanted).then(|| format!("{} is now {legal}", quote(wanted)));
            return (legal, note);
        }
        let next = self.next.entry(legal.clone()).or_insert(2);
        loop {
            let suffix = format!("-{next}");
            *next += 1;
            // Legal names are ASCII.
            let name =
                format!("{}{suffix}", &legal[..legal.len().min(NAME_LEN_MAX - suffix.len())]);
            if self.taken.insert(name.clone()) {
                return (name.clone(), Some(format!("another {} is now {name}", quote(wanted))));
            }
        }
    }
}

/// The nearest legal name: other scripts in Latin letters, what no name may hold as `-`; empty
/// where nothing is left.
pub(super) fn legal(text: &str) -> String {
    if check_name("device", text).is_ok() {
        return text.to_string();
    }
    let mut name = String::new();
    // Enough for any name: transliteration makes few letters fewer.
    let head: String = text.chars().take(4 * NAME_LEN_MAX).collect();
    for c in deunicode::deunicode(&head).chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(NAME_LEN_MAX);
    name.truncate(name.trim_end_matches('-').len());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_become_names() {
        for (text, name) in [
            ("New York", "New-York"),
            ("São Paulo", "Sao-Paulo"),
            ("København", "Kobenhavn"),
            ("  St. John's (POP #2)", "St-John-s-POP-2"),
            ("core_1-a", "core_1-a"),
            ("-x", "x"),
            ("???", ""),
            ("", ""),
            ("a very long name indeed that goes on", "a-very-long-name-indeed-that-goe"),
        ] {
            assert_eq!(legal(text), name);
            assert!(name.is_empty() || check_name("device", name).is_ok());
        }
    }

    #[test]
    fn the_same_name_twice_gets_a_number_and_is_told() {
        let mut names = Names::default();
        assert_eq!(
            names.like("Zürich", "0"),
            ("Zurich".into(), Some("\"Zürich\" is now Zurich".into()))
        );
        assert_eq!(names.like("Zurich", "1").0, "Zurich-2");
        assert_eq!(names.like("Zurich-2", "2").0, "Zurich-2-2");
        assert_eq!(names.like("Bern", "3"), ("Bern".into(), None));
        assert_eq!(names.like("?", "n4").0, "n4");
        let long = "x".repeat(40);
        let both = [names.like(&long, "").0, names.like(&long, "").0];
        assert!(both[0] != both[1] && both.iter().all(|n| check_name("device", n).is_ok()));
    }
}
