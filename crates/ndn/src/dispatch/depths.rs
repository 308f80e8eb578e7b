//! The dispatch table: the longest matching prefix says how many components of a name are hashed.

use std::collections::HashMap;

use plexus_wire::ndn::{Name, NameBuf, types};

use super::{COMPONENTS_DEFAULT, COMPONENTS_LIMIT};

/// Why a prefix is refused as an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDepth {
    /// Zero, or more components than the dispatcher examines.
    #[error("1 to {COMPONENTS_LIMIT} components can be hashed")]
    Components,
    /// Data would have to be copied to too many workers.
    #[error("a prefix in the dispatch table has at most {COMPONENTS_LIMIT} components")]
    Long,
    /// Such a prefix would separate Interests from their Data, whose names have no implicit digest.
    #[error("a prefix in the dispatch table does not end with an implicit digest")]
    Digest,
}

/// The dispatch table. A prefix without an entry is hashed by as many components as the next
/// shorter one, and `/` by [`COMPONENTS_DEFAULT`].
#[derive(Clone, Debug, Default)]
pub struct Depths(HashMap<NameBuf, Node>);

/// An entry, or an inner node on the way to one.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    components: Option<usize>,
    /// A bit for each depth that occurs in entries of longer prefixes.
    below: u16,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Depth {
    /// How many of its components are hashed, if it has as many.
    pub(super) components: usize,
    /// How many components the matching prefix has.
    pub(super) prefix: usize,
    /// Names that begin with this one may belong to other workers.
    pub(super) is_above: bool,
}

impl Depths {
    /// Sets how many components of names below a prefix are hashed.
    ///
    /// # Errors
    /// [`BadDepth`].
    pub fn set(&mut self, prefix: Name<'_>, components: usize) -> Result<(), BadDepth> {
        let is_digest = |kind| u32::from(kind) == types::IMPLICIT_SHA256_DIGEST;
        match prefix.last() {
            _ if !(1..=COMPONENTS_LIMIT).contains(&components) => return Err(BadDepth::Components),
            Some(last) if is_digest(last.kind) => return Err(BadDepth::Digest),
            _ if prefix.len() > COMPONENTS_LIMIT => return Err(BadDepth::Long),
            _ => {}
        }
        for len in 0..prefix.len() {
            self.0.entry(prefix.prefix(len).to_buf()).or_default().below |= 1 << components;
        }
        self.0.entry(prefix.to_buf()).or_default().components = Some(components);
        Ok(())
    }

    /// The entries in order of their prefixes; the first is that of `/`.
    pub fn entries(&self) -> Vec<(Name<'_>, usize)> {
        let entries = self.0.iter().map(|(prefix, node)| (prefix.as_name(), node.components));
        let mut all: Vec<_> =
            entries.filter_map(|(prefix, components)| Some((prefix, components?))).collect();
        if !all.iter().any(|(prefix, _)| prefix.is_empty()) {
            all.push((Name::ROOT, COMPONENTS_DEFAULT));
        }
        all.sort();
        all
    }

    /// Looks up the longest matching prefix of a name.
    #[inline]
    pub(super) fn of(&self, name: Name<'_>) -> Depth {
        let (mut components, mut prefix, mut below) = (COMPONENTS_DEFAULT, 0, 0);
        if !self.0.is_empty() {
            for (len, end) in std::iter::once(0).chain(name.ends()).enumerate() {
                // Every prefix of a prefix with an entry has a node.
                let Some(node) = self.0.get(&name.value()[..end]) else { break };
                if let Some(own) = node.components {
                    (components, prefix) = (own, len);
                }
                if len == name.len() {
                    below = node.below;
                }
            }
        }
        let is_above = name.len() < components || below & !(1 << components) != 0;
        Depth { components, prefix, is_above }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NameBuf {
        text.parse().unwrap()
    }

    #[test]
    fn the_longest_prefix_decides() {
        let mut depths = Depths::default();
        let of = |depths: &Depths, text: &str| {
            let depth = depths.of(name(text).as_name());
            (depth.components, depth.prefix)
        };
        assert_eq!(of(&depths, "/a/b/c"), (COMPONENTS_DEFAULT, 0));
        for (prefix, components) in [("/a", 4), ("/a/b/c", 1), ("/x/y", 8)] {
            depths.set(name(prefix).as_name(), components).unwrap();
        }
        assert_eq!(of(&depths, "/a/b/d"), (4, 1));
        assert_eq!(of(&depths, "/a/b/c/d"), (1, 3));
        // A component that begins as another does is another.
        for text in ["/x", "/ab/c", "/x/yz"] {
            assert_eq!(of(&depths, text), (COMPONENTS_DEFAULT, 0), "{text}");
        }
        let entries = |depths: &Depths| -> Vec<(String, usize)> {
            depths.entries().into_iter().map(|(prefix, n)| (prefix.to_string(), n)).collect()
        };
        let written = [("/", 2), ("/a", 4), ("/a/b/c", 1), ("/x/y", 8)];
        assert_eq!(entries(&depths), written.map(|(prefix, n)| (prefix.to_string(), n)));
        depths.set(Name::ROOT, 3).unwrap();
        assert_eq!(of(&depths, "/x"), (3, 0));
        assert_eq!(entries(&depths)[0], ("/".to_string(), 3));
    }

    #[test]
    fn names_above_others_workers_are_known() {
        let mut depths = Depths::default();
        for (prefix, components) in [("/a/b/c", 4), ("/x/y", 2)] {
            depths.set(name(prefix).as_name(), components).unwrap();
        }
        for (text, is_above) in [
            ("/n", true),
            ("/n/m", false),
            // Of as many components as are hashed, but of more in some longer names.
            ("/a/b", true),
            ("/a/d", false),
            ("/a/b/c", true),
            ("/a/b/c/d", false),
            ("/x/y", false),
        ] {
            assert_eq!(depths.of(name(text).as_name()).is_above, is_above, "{text}");
        }
    }

    #[test]
    fn entries_that_separate_interest_and_data_are_refused() {
        let mut depths = Depths::default();
        let digest = name(&format!("/a/sha256digest={}", "5a".repeat(32)));
        let long = name(&"/a".repeat(COMPONENTS_LIMIT + 1));
        let a = name("/a");
        for (prefix, components, why) in [
            (&a, 0, BadDepth::Components),
            (&a, COMPONENTS_LIMIT + 1, BadDepth::Components),
            (&digest, 3, BadDepth::Digest),
            (&long, 3, BadDepth::Long),
        ] {
            assert_eq!(depths.set(prefix.as_name(), components), Err(why));
        }
        assert_eq!(depths.entries(), [(Name::ROOT, COMPONENTS_DEFAULT)]);
    }
}
