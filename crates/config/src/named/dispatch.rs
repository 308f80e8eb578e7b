//! How many components of a name select its worker.

use plexus_wire::ndn::{Name, NameBuf, types};

use super::{NamedSettings, read_prefix};
use crate::document::{Lines, Section};
use crate::error::quote;

/// The forwarder's limits, for names and for prefixes.
const COMPONENTS: std::ops::RangeInclusive<u64> = 1..=8;

/// Of names below a prefix, how many components are hashed to choose the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedDispatch {
    /// The prefix; the longest one of a name counts.
    pub prefix: NameBuf,
    /// How many, from the name's beginning.
    pub components: usize,
}

impl NamedDispatch {
    pub(super) fn read(section: &Section<'_>, named: &NamedSettings) -> Option<NamedDispatch> {
        let prefix = read_prefix(section);
        let components = section.require("components", "4").integer("components", COMPONENTS);
        let prefix = prefix?;
        if let Some((message, help)) = problem(prefix.value.as_name(), &named.dispatch) {
            let message = format!("{} {message}", quote(&prefix.value.to_string()));
            section.problems().add(prefix.span, message, help);
        }
        Some(NamedDispatch { prefix: prefix.value, components: components?.value as usize })
    }

    pub(super) fn write(&self, lines: &mut Lines, place: &str) {
        lines.heading(&format!("[[{place}named.dispatch]]"));
        lines.value("prefix", &self.prefix);
        lines.entry("components", self.components);
    }
}

/// Why a prefix can have no entry, and what to do.
fn problem(prefix: Name<'_>, others: &[NamedDispatch]) -> Option<(&'static str, &'static str)> {
    let is_digest = |kind| u32::from(kind) == types::IMPLICIT_SHA256_DIGEST;
    if prefix.len() as u64 > *COMPONENTS.end() {
        return Some(("has more than 8 components", "name a shorter prefix"));
    }
    if prefix.last().is_some_and(|last| is_digest(last.kind)) {
        return Some(("ends with a digest, which no Data's name has", "leave the digest out"));
    }
    let is_there = others.iter().any(|other| other.prefix.as_name() == prefix);
    is_there.then_some(("is there twice", "keep one of them"))
}
