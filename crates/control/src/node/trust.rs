//! The node's own key, and the keys that it does not trust: both can change while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plexus_wire::Time;
use plexus_wire::fabric::message::Revoked;

use super::{Event, Node};
use crate::identity::Identity;
use crate::session::Refused;

/// Most parts of a list of revoked keys, which then has 2,688 keys.
const PARTS_MAX: u16 = 64;

/// The list of revoked keys, as it comes from the controller.
#[derive(Debug, Default)]
pub(super) struct Told {
    version: u64,
    parts: BTreeMap<u16, Vec<[u8; 32]>>,
}

impl Told {
    /// Takes a part. Returns the list once it is whole.
    fn take(&mut self, told: Revoked) -> Option<BTreeSet<[u8; 32]>> {
        if told.version < self.version || told.part >= told.parts || told.parts > PARTS_MAX {
            return None;
        }
        if told.version > self.version {
            *self = Told { version: told.version, parts: BTreeMap::new() };
        }
        self.parts.insert(told.part, told.keys);
        let is_whole = self.parts.len() == usize::from(told.parts);
        is_whole.then(|| self.parts.values().flatten().copied().collect())
    }
}

impl Node {
    /// Takes a new identity of this node: the same number, name and group, with another key.
    /// Sessions go on, and are renewed with the new key at once. A recording does not contain this:
    /// it can be replayed up to here.
    pub fn set_identity(&mut self, now: Time, new: Identity) {
        self.identity = Arc::new(self.identity.renewed(new));
        self.trust(now);
        self.run(now);
    }

    /// The identity that it proves.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The controller has told a part of the list of revoked keys.
    pub(super) fn revoked(&mut self, now: Time, told: Revoked) {
        if let Some(keys) = self.revoked.take(told) {
            self.identity = Arc::new(self.identity.without(keys));
            self.trust(now);
        }
    }

    /// Has all links and the controller's session judged anew.
    fn trust(&mut self, now: Time) {
        let identity = self.identity.clone();
        for port in self.links.keys().copied().collect::<Vec<u8>>() {
            let outcome = self.change_link(port, |link| link.set_identity(now, &identity));
            self.link_outcome(now, port, outcome.unwrap_or_default());
        }
        if let Some(hello) = self.channel.set_identity(now, identity.clone()) {
            self.send_hello(&hello);
        }
        // It is not judged, and begins anew.
        self.aside = None;
        let controller = self.channel.peer().map(|peer| peer.credential.claims().static_public);
        if controller.is_some_and(|key| identity.refuses(&key)) {
            self.channel.reset();
            self.tell(Event::Refused(None, Refused::Revoked.to_string()));
        }
        self.trust_standbys(now, &identity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(version: u64, part: u16, parts: u16) -> Revoked {
        Revoked { version, part, parts, keys: vec![[part as u8; 32], [version as u8; 32]] }
    }

    #[test]
    fn a_list_counts_when_all_its_parts_are_there_in_any_order() {
        let mut told = Told::default();
        assert_eq!(told.take(part(5, 2, 3)), None);
        assert_eq!(told.take(part(5, 0, 3)), None);
        // Parts of an earlier list, late.
        assert_eq!(told.take(part(4, 0, 1)), None);
        let whole = told.take(part(5, 1, 3)).unwrap();
        assert_eq!(whole, [[0; 32], [1; 32], [2; 32], [5; 32]].into());
        // A later list replaces it; one that nobody can complete is refused.
        assert_eq!(told.take(part(6, 0, 1)).unwrap(), [[0; 32], [6; 32]].into());
        for bad in [part(7, 1, 1), part(7, 0, 0), part(7, 0, PARTS_MAX + 1)] {
            assert_eq!(told.take(bad), None);
        }
    }
}
