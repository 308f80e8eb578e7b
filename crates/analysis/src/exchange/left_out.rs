//! Tells in few sentences which parts of a file have no place in a topology.

use std::collections::BTreeMap;

use plexus_config::error::quote;

/// Keys of one place that are told by name.
const KEYS_SHOWN: usize = 20;
/// Sentences that are told one by one.
const SENTENCES_SHOWN: usize = 100;
/// The same of other notes, of one kind.
const NOTES_SHOWN: usize = 20;

/// The parts left out.
#[derive(Default)]
pub(super) struct LeftOut {
    /// Keys by the place where they stand, with how often they do.
    keys: BTreeMap<&'static str, BTreeMap<String, usize>>,
    sentences: Vec<String>,
    /// Sentences beyond those that are shown.
    more: usize,
}

impl LeftOut {
    /// A key of a place, such as "nodes", is left out.
    pub(super) fn key(&mut self, place: &'static str, key: &str) {
        *self.keys.entry(place).or_default().entry(quote(key)).or_default() += 1;
    }

    /// Something else is left out, which a sentence tells.
    pub(super) fn tell(&mut self, sentence: String) {
        match self.sentences.len() < SENTENCES_SHOWN {
            true => self.sentences.push(sentence),
            false => self.more += 1,
        }
    }

    /// All of it, one sentence each.
    pub(super) fn notes(self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("… and {} more left out", self.more));
        let keys = self.keys.into_iter().map(|(place, keys)| {
            let shown = keys.iter().take(KEYS_SHOWN).map(|(key, count)| match count {
                1 => key.clone(),
                _ => format!("{key} ({count} times)"),
            });
            let mut list = shown.collect::<Vec<_>>().join(", ");
            if keys.len() > KEYS_SHOWN {
                list += &format!(", … and {} more", keys.len() - KEYS_SHOWN);
            }
            format!("left out of {place}: {list}")
        });
        keys.chain(self.sentences).chain(more).collect()
    }
}

/// Keeps the first of many sentences and counts the rest.
pub(super) fn shorten(mut notes: Vec<String>) -> Vec<String> {
    let more = notes.len().saturating_sub(NOTES_SHOWN);
    if more > 0 {
        notes.truncate(NOTES_SHOWN);
        notes.push(format!("… and {more} more like it"));
    }
    notes
}
