//! How many components of a name are hashed: the table's longest prefix of it says so.

use std::collections::HashMap;

use plexus_wire::ndn::{Name, NameBuf, types};

use super::{COMPONENTS_DEFAULT, COMPONENTS_LIMIT};

/// Why a prefix cannot have an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDepth {
    /// Each of its names would go to the worker of nothing, or of more than is looked at.
    #[error("1 to {COMPONENTS_LIMIT} components can be hashed")]
    Components,
    /// Data would be looked for at more workers than is borne.
    #[error("a prefix in the dispatch table has at most {COMPONENTS_LIMIT} components")]
    Long,
    /// It would lead Interests away from their Data, in whose name no implicit digest stands.
    #[error("a prefix in the dispatch table does not end with an implicit digest")]
    Digest,
}

/// The dispatch table. A prefix without an entry is hashed by as many components as the next
/// shorter one, and `/` by [`COMPONENTS_DEFAULT`].
#[derive(Clone, Debug, Default)]
pub struct Depths(HashMap<NameBuf, Node>);

/// An entry, or what leads to one.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    components: Option<usize>,
    /// A bit for each number of components that an entry of a longer prefix has.
    below: u16,
}

/// What the table says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Depth {
    /// How many of its components are hashed, if it has as many.
    pub(super) components: usize,
    /// How many components the prefix has that says so.
    pub(super) prefix: usize,
    /// Names that begin with this one may have other workers.
    pub(super) is_above: bool,
}

impl Depths {
    /// Has so many components of names below a prefix hashed.
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

    /// The entries by prefix, of which the first is that of `/`.
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

    /// What the longest prefix of a name says.
    #[inline]
    pub(super) fn of(&self, name: Name<'_>) -> Depth {
        let (mut components, mut prefix, mut below) = (COMPONENTS_DEFAULT, 0, 0);
        if !self.0.is_empty() {
            for (len, end) in std::iter::once(0).chain(name.ends()).enumerate() {
                // Every prefix of one that has an entry is there.
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
    fn what_would_lead_packets_apart_is_refused() {
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
